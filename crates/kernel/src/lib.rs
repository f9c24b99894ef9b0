//! Gates of the Linux kernel.
//!
//! This crate finds out which hooks this kernel allows, puts gates on the path of a packet with the finest of them, joins what
//! they record to passages and gives these to the ledger of `tollgate-gate`. It also samples where processors spend their time,
//! by kernel function and call path.
//!
//! It owns all that is attached to the kernel and gives it back on every way out. It must never decide what is measured (that is
//! the experiment's part), never print, and never leave out an event in silence.
//!
//! The way through it:
//!
//! 1. [`plan::Abilities`] says what the kernel allows (`probe`, by trying); [`plan::Plan::choose`] makes the hook plan of it.
//! 2. `Gates::load` loads the plan's programs; `Gates::watch` says whose packets and threads; `Gates::attach` attaches a few
//!    gates for a slice and detaches them when the result is dropped; `Gates::take` gives the [`event::Event`]s.
//! 3. [`join::Joiner`] joins events to the messages or segments that they belong to, in the form that `tollgate_gate::join`
//!    and the ledger take.
//!
//! Without the feature `bpf` only what needs no clang is built: the plan and the joining.

mod error;
pub mod event;
#[cfg(feature = "bpf")]
pub mod gates;
pub mod hook;
pub mod join;
pub mod plan;
#[cfg(feature = "bpf")]
pub mod probe;
pub mod sampling;

pub use error::Error;
pub use event::{Event, Flow};
#[cfg(feature = "bpf")]
pub use gates::{Attached, Gates, Taken, Watch};
pub use hook::{Hook, Need};
pub use join::{Joiner, Talk};
pub use plan::{Abilities, Ability, Boundary, Plan};

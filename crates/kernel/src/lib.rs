//! Gates of the Linux kernel.
//!
//! This crate finds out which hooks this kernel allows, puts gates on the path of a packet with the finest of them, joins what
//! they record to passages and gives these to the ledger of `tollgate-gate`. Programs that follow the
//! traffic of others are loaded from here, too.
//!
//! It owns all that is attached to the kernel and gives it back on every way out. It must never decide what is measured (that is
//! the experiment's part), never print, and never leave out an event in silence.
//!
//! The way through it:
//!
//! 1. [`kernel_features`] tries what the kernel allows; [`Plan::choose`] makes the hook plan of it. [`hook_support()`] tries what the plan could
//!    do without.
//! 2. [`Gates::load`] loads the plan's programs; [`Gates::watch`] says whose packets and threads; [`Gates::attach`] attaches a few
//!    gates for a slice and detaches them when the result is dropped; [`Gates::take`] gives the [`Event`]s.
//!    What the plan leaves to whoever makes the calls ([`Plan::own_calls`]) comes as [`Event::of_thread`].
//! 3. [`Joiner`] joins events to the messages or segments that they belong to, in the form that `tollgate_gate::join`
//!    and the ledger take.
//!
//! Without the feature `bpf` only what needs no clang is built: the plan and the joining; loading then fails with
//! [`Error::NotBuilt`]. The crate `measure` makes ledgers of what it sees.

pub mod advice;
mod clock;
mod error;
pub mod ethtool;
pub mod event;
pub mod fault;
pub mod filter;
#[cfg(feature = "bpf")]
mod gates;
pub mod hook;
pub mod hook_support;
pub mod join;
pub mod live;
pub mod plan;
#[cfg(feature = "bpf")]
mod probe;
#[cfg(feature = "bpf")]
pub mod programs;
pub mod sample_hooks;
pub mod scope;
#[cfg(not(feature = "bpf"))]
mod stub;
#[cfg(feature = "bpf")]
mod threads;
pub mod watch;

pub use advice::{Advice, Change, advice};
pub use clock::KernelClock;
pub use error::Error;
pub use event::{Event, Flow};
pub use fault::{ExtraCost, Fault, FaultKind, Side};
#[cfg(feature = "bpf")]
pub use gates::{Attached, Gates, Injected};
pub use hook::{Hook, Need};
pub use hook_support::{HookPoint, HookSupport, Kind};
pub use join::{Joiner, Transfer};
pub use plan::{Boundary, KernelFeature, KernelFeatures, Plan, Traffic};
#[cfg(feature = "bpf")]
pub use probe::{hook_support, kernel_features};
#[cfg(not(feature = "bpf"))]
pub use stub::{Attached, Gates, Injected, hook_support, kernel_features};
pub use watch::{Namespace, ROOM, Taken, Watch};

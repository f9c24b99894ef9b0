//! Gates, spans, clock and recorder.
//!
//! A *gate* is a named point that a packet passes; a *span* is the way between two gates of one packet. The Linux kernel
//! and Tollgate's own stack emit the same gate ids, so one table of spans serves both. The ledger, which estimates what
//! each span costs, is the crate `measure`.
//!
//! The core part ([`id`], [`recorder`], [`set`], [`sampler`], [`span`], [`ticks`]) is `no_std`, reads no clock and
//! allocates nothing: a stack that is compiled with the recorder [`Off`] contains no trace of it. The other parts
//! ([`clock`], [`delay`], [`record`], [`join`](mod@join)) need the `std` feature.
//!
//! This crate must never decide what is measured (that is the experiment's part) and never print.
#![cfg_attr(not(any(test, feature = "std")), no_std)]

#[cfg(feature = "std")]
pub mod clock;
#[cfg(feature = "std")]
pub mod delay;
pub mod id;
#[cfg(feature = "std")]
pub mod join;
#[cfg(feature = "std")]
pub mod record;
pub mod recorder;
pub mod sampler;
pub mod set;
pub mod span;
pub mod ticks;

#[cfg(feature = "std")]
pub use clock::{Clock, Source, TscRate};
pub use id::{Gate, Kind, Layer};
#[cfg(feature = "std")]
pub use join::{JoinPlan, JoinStats, Joined, Passage, Recorded, join};
#[cfg(feature = "std")]
pub use record::{Event, Trace};
pub use recorder::{Off, PacketId, Recorder};
pub use sampler::Sampler;
pub use set::GateSet;
pub use span::{Category, Direction, KERNEL, STACK, Span, SpanTable, WolmanRow};
pub use ticks::{TickScale, Ticks};

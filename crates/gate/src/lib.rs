//! Gates, clock, recorder and ledger.
//!
//! A *gate* is a named point that a packet passes; a *span* is the way between two gates of one packet; a *ledger* is
//! the spans of a message or a round trip that closes on a total measured without gates. The Linux kernel and
//! Tollgate's own stack emit the same gate ids, so one ledger serves both.
//!
//! The core part ([`id`], [`recorder`], [`set`], [`sampler`], [`span`], [`ticks`]) is `no_std`, reads no clock and
//! allocates nothing: a stack that is compiled with the recorder [`Off`] contains no trace of it. The other parts
//! ([`clock`], [`record`], [`join`](mod@join), [`distribution`], [`ledger`]) need the `std` feature.
//!
//! This crate must never decide what is measured (that is the experiment's part) and never print.
#![cfg_attr(not(any(test, feature = "std")), no_std)]

#[cfg(feature = "std")]
pub mod clock;
#[cfg(feature = "std")]
pub mod delay;
#[cfg(feature = "std")]
pub mod distribution;
pub mod id;
#[cfg(feature = "std")]
pub mod join;
#[cfg(feature = "std")]
pub mod ledger;
#[cfg(feature = "std")]
pub mod record;
pub mod recorder;
pub mod sampler;
pub mod set;
pub mod span;
pub mod ticks;

#[cfg(feature = "std")]
pub use clock::{Clock, Source};
pub use id::{Gate, Kind, Layer};
#[cfg(feature = "std")]
pub use join::{JoinPlan, JoinStats, Joined, Passage, Recorded, join};
#[cfg(feature = "std")]
pub use ledger::{Ledger, Row, Scope, Slice, Statistic};
#[cfg(feature = "std")]
pub use record::{Event, Trace, Twin, probe_cost};
pub use recorder::{Off, PacketId, Recorder};
pub use sampler::Sampler;
pub use set::{GateSet, rotation};
pub use span::{Category, Direction, KERNEL, STACK, Span, SpanTable, WolmanRow};
pub use ticks::{TickScale, Ticks};

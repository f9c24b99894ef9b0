//! Transfers between two hosts of the stack over a line with a bottleneck, in virtual time.
//!
//! One host sends on some connections all that its windows allow; the other reads it. Between them lies a line of a stated rate with
//! a queue that drops at its tail, a delay and random loss ([`tollgate_link::fault`]). Everything follows from the scenario and its
//! seed, to the packet.
//!
//! It must never read a clock, and it looks at nothing of the stack but what an application sees.

mod line;
mod transfer;

pub use line::{Line, Stall};
pub use tollgate_link::fault::Probability;
pub use tollgate_stack::config::{CongestionControl, Mechanisms};
pub use transfer::{Error, Flow, Messages, Outcome, Sample, Transfer, Window};

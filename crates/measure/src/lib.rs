//! The ledger: what each span of a way takes, what each gate costs, and a closure that can fail.
//!
//! One observation is a slice of round trips with a set of gates that was drawn at random ([`schedule`]). It gives the mean
//! round trip by the application's clock, and the mean time between each two neighbouring gates of the set ([`trips`]).
//! A linear model is fitted to all slices ([`ledger`]):
//!
//! ```text
//! T(A)   = tau (1 + m) + alpha         + sum over g in A of K(g)    + e
//! d(a,b) = sum of sigma from a to b, (1 + m) + after(a) + before(b) + e
//! ```
//!
//! - `sigma` are the spans; `tau` is the round trip without gates, from slices with the empty set alone, as is the block's
//!   speed `m`.
//! - `alpha` is what gates cost that are compiled in and disabled, from slices of their own; 0 where gates are taken away.
//! - `K(g)` is the whole effect of gate `g` on a round trip, wherever it falls. Sets are random, so it is not confounded.
//! - `after(g) + before(g)` is what gate `g` adds to the two spans that it stands between. It is found because the same way is
//!   crossed with the gate and without it.
//! - The closure is `tau + alpha - sum(sigma)`, since disabled gates lie in the spans. Nothing is divided by anything that gates
//!   saw.
//! - `sum(K) - sum(after + before)` is what gates disturb elsewhere: a row of its own. What of it falls on spans that a slice
//!   measures makes these longer, so the closure shows it with a minus.
//!
//! The closure has limits. Within a slice the times between gates sum to its round trip, wherever its gates stand. So
//! `sum(sigma) - tau` can only be what gates of a slice cost and do not cost beside themselves: with sets of `k` of `n` gates the
//! closure is about `-k / n` times what gates disturb elsewhere, and both are one witness. It sees a round trip of another kind, a
//! span that is left out or counted twice, stamps of another message where slices lose them, and cost elsewhere. It does not see
//! time that is told of the wrong span: that takes delays of known length ([`faults`]), or counts of another instrument.
//!
//! Coarse spans are the closure of a part of the way ([`Ledger::coarse`]): the time between two gates of a slice that had none
//! in between, less the sum of the spans there.
//!
//! Every interval comes from one bootstrap over blocks, so it holds drift, gate cost and all else that is estimated. Blocks of one
//! session give intervals for that session. With sessions of its own for each block ([`gated::run_anew`]) a ledger has intervals of
//! its path. What is compared is run so, and the difference is told from draws of the same blocks of both ledgers ([`Ledger::growth_since`]).
//!
//! Only the adaptors attach gates and run round trips ([`kernel`], [`stack_memory`], [`stack_link`],
//! [`remote`], [`packets`]). This crate never draws and never prints.

pub mod faults;
pub mod gated;
pub mod kernel;
pub mod ledger;
mod linear;
pub mod packets;
pub mod remote;
pub mod schedule;
pub mod stack_link;
pub mod stack_memory;
#[cfg(test)]
mod synthetic;
pub mod trips;
pub mod way;

pub use ledger::{Closure, Figure, Ledger, Limit, NoLedger, Verdict};
pub use packets::PacketTime;
pub use trips::Slice;
pub use way::{Host, Station, Way};

//! Traffic that is already there: a sample of packets is followed through every gate, and what they took is added up in the
//! kernel.
//!
//! A sample follows one byte of a stream from the socket that sends it (or the wire that it comes in by) to the reader. Each gate
//! asks whether the sequence numbers that pass it hold a byte that is followed; so it does not matter in which skb it travels.
//!
//! It owns the programs and links it attaches, which go when this process ends, in whatever way. It must never change
//! traffic, and never leave out in silence what it could not count.

#[cfg_attr(
    not(feature = "bpf"),
    allow(dead_code, reason = "the loader of the programs uses the rest")
)]
pub mod cost;
pub mod memory;
#[cfg_attr(
    not(feature = "bpf"),
    allow(dead_code, reason = "the loader of the programs uses the rest")
)]
pub mod pace;
mod pairs;
pub mod rows;
#[cfg_attr(
    not(any(feature = "bpf", test)),
    allow(dead_code, reason = "only a build that loads programs fills a series")
)]
pub mod series;
pub mod summary;
#[cfg(feature = "bpf")]
mod watcher;

use std::collections::HashMap;
use std::time::Duration;

use memory::{Passage, RawHistogram, STAMPS, Totals, Usage};
use tollgate_kernel::filter::{Flow, Operation};

pub use cost::Cost;
pub use series::Series;
#[cfg(feature = "bpf")]
pub use watcher::Watcher;

/// Request for an observation.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// Connections that this filter passes; empty is all.
    pub filter: Vec<Operation>,
    /// Only what these processes send or receive; empty is all.
    pub groups: Vec<u32>,
    /// Only sockets of these control groups, by their ids.
    pub cgroups: Option<Vec<u64>>,
    /// Only this interface; 0 is any.
    pub interface: u32,
    /// Interfaces by which segments come in from other hosts.
    pub wires: Vec<u32>,
    /// The network namespace that the interfaces are in, as the number of its file.
    pub namespace: u32,
    /// Passages that take at least this long are kept whole.
    pub slower_than: Option<Duration>,
    /// One in so many; none lets the traffic decide.
    pub every: Option<u32>,
    /// The share of the busiest processor that may be spent; none leaves the gates on, whatever that costs.
    pub budget: Option<f64>,
}

/// All that was counted since the beginning.
#[derive(Clone, Debug)]
pub struct Raw {
    /// Since the gates were live for the first time.
    pub at: Duration,
    /// Time that they were on.
    pub on: Duration,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub now: u64,
    /// Pieces that were copied into sockets, sampled or not.
    pub sent: u64,
    /// Segments that came in by wires, sampled or not.
    pub arrived: u64,
    /// One in so many at present.
    pub every: u32,
    /// Counts of samples.
    pub totals: Totals,
    /// By span.
    pub histograms: Vec<Box<RawHistogram>>,
    /// By connection and direction.
    pub flows: HashMap<Flow, Usage>,
    /// Bytes that are followed at the moment.
    pub waiting: Vec<Passage>,
    /// Slow passages since the last time.
    pub slow: Vec<Passage>,
    /// Bytes that never arrived where they were expected.
    pub vanished: u64,
    /// Bytes that were still under way when a window ended.
    pub cut: u64,
    /// Bytes that were still waiting for their reader when a window ended.
    pub unread: u64,
    /// Runs of programs that the kernel left out.
    pub missed: u64,
    /// Times of spans by parts of the observation, since its beginning.
    pub whole: Series,
    /// The series since the reading before this one.
    pub recent: Series,
    /// Cost of the gates, or the reason why it is not known.
    pub cost: Result<Cost, String>,
}

impl Passage {
    /// The last gate that it passed, and when.
    pub fn last(&self) -> Option<(usize, u64)> {
        (0..STAMPS)
            .map(|gate| (gate, self.at[gate]))
            .filter(|(_, at)| *at > 0)
            .max_by_key(|(_, at)| *at)
    }
}

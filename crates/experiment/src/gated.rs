//! The way of a message over `stack-memory`, gate by gate, by message size: run once, shown by several experiments.
//!
//! Sizes take turns in short runs that are merged, so that all sizes see the same machine and a run that is stopped early
//! has something at every size.

use std::time::{Duration, Instant};

use tollgate_stats::{self as stats, Interval};
use tollgate_workload::stack_memory::gated::{Chain, Gating, chained};
use tollgate_workload::{Placement, Spec, Waiting, Workload};

use crate::context::Context;
use crate::error::Error;
use crate::rotation::{Amount, Rotation};
use crate::words;

/// Slices of a gate, and turns of all sizes without a time budget.
const AMOUNT: Amount = Amount {
    // Few, so that the recorded events stay small beside the processor's first cache.
    round_trips: 256,
    // Enough that the trimmed mean has a longest hundredth to leave out.
    least_round_trips: 128,
    rounds: 80,
};
/// Round trips before each slice: joining the events of the slice before has filled the caches.
const WARM_UP: u32 = 64;
/// Times that a turn goes through the gates, forth and back.
const ROUNDS: u32 = 2;
/// The least time, whatever is left: several turns of all sizes, without which no span has an interval.
const LEAST_TIME: Duration = Duration::from_millis(500);
/// Bytes of the largest packet where the usual one does not hold the message: every message is timed as one segment.
pub(crate) const JUMBO_MTU: usize = 9_000;

/// The messages of one size.
#[derive(Debug, Clone)]
pub(crate) struct Gated {
    /// Bytes of a message.
    pub(crate) size: usize,
    /// Bytes of the largest packet.
    pub(crate) mtu: usize,
    /// All turns together; none when none was run.
    pub(crate) chain: Option<Chain>,
    /// Each turn, in the order in which they were made.
    turns: Vec<Chain>,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

/// The messages of all sizes.
#[derive(Debug, Clone)]
pub(crate) struct Ledgers {
    pub(crate) sizes: Vec<Gated>,
    /// The user stopped it.
    pub(crate) stopped: bool,
}

impl Ledgers {
    /// The messages of the size at this place, if any were measured.
    pub(crate) fn chain(&self, at: usize) -> Option<&Chain> {
        self.sizes.get(at)?.chain.as_ref()
    }

    /// The 95 % interval of a number of all turns of the size at this place; see [`Gated::interval`].
    pub(crate) fn interval(
        &self,
        at: usize,
        number: impl Fn(&Chain) -> Option<f64>,
    ) -> Option<Interval> {
        self.sizes.get(at)?.interval(number)
    }
}

/// Runs gated round trips over the sizes.
///
/// # Errors
/// [`Error::Stopped`] when nothing was measured before the user stopped it, [`Error::NothingMeasured`] when every size
/// failed.
pub(crate) fn run(
    experiment: &'static str,
    sizes: &[usize],
    context: &Context<'_>,
) -> Result<Ledgers, Error> {
    let mut ledgers = Ledgers {
        sizes: sizes.iter().map(|&size| Gated::new(size)).collect(),
        stopped: false,
    };
    let iterations = context.options.iterations;
    let round_trips = AMOUNT.round_trips(iterations);
    // The iterations of a turn are those of one gate, which it comes to several times.
    let turns = AMOUNT.rounds(iterations, AMOUNT.round_trips * u64::from(ROUNDS));
    let within = context.remaining().map(|left| left.max(LEAST_TIME));
    let mut rotation = Rotation::new(context, turns, Instant::now(), within);
    while let Some(turn) = rotation.round() {
        for gated in &mut ledgers.sizes {
            if !rotation.step(&words::size(gated.size)) {
                break;
            }
            gated.turn(u64::from(turn.0), round_trips, context.options.nagle);
        }
    }
    ledgers.stopped = rotation.is_stopped();
    if ledgers.sizes.iter().all(|gated| gated.chain.is_none()) {
        let reason = ledgers.sizes.iter().find_map(|gated| gated.failure.clone());
        return Err(match reason {
            Some(reason) => Error::NothingMeasured { experiment, reason },
            None => Error::Stopped,
        });
    }
    Ok(ledgers)
}

impl Gated {
    fn new(size: usize) -> Self {
        let usual = Gating::default();
        Self {
            size,
            mtu: if size <= usual.one_segment() {
                usual.mtu
            } else {
                JUMBO_MTU
            },
            chain: None,
            turns: Vec::new(),
            failure: None,
        }
    }

    /// One more turn through the gates.
    fn turn(&mut self, turn: u64, round_trips: u64, nagle: bool) {
        if self.failure.is_some() {
            return;
        }
        let spec = Spec {
            warmup: WARM_UP,
            nagle,
            ..Spec::new(Workload::Rr, self.size).with_mode(Placement::OneCore, Waiting::BusyPoll)
        };
        let gating = Gating {
            round_trips,
            rounds: ROUNDS,
            seed: turn + 1,
            mtu: self.mtu,
            ..Gating::default().of_every_round_trip()
        };
        match chained(&spec, &gating) {
            Ok(more) => {
                match &mut self.chain {
                    None => self.chain = Some(more.clone()),
                    Some(chain) => chain.merge(&more),
                }
                self.turns.push(more);
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// The 95 % interval of a number of all turns, by [`stats::by_batches`].
    fn interval(&self, number: impl Fn(&Chain) -> Option<f64>) -> Option<Interval> {
        stats::by_batches(&self.turns, |turns| {
            let (first, others) = turns.split_first()?;
            let mut together = first.clone();
            others.iter().for_each(|turn| together.merge(turn));
            number(&together)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_segment_with_the_usual_mtu_where_that_holds_it() {
        assert_eq!(Gated::new(1_448).mtu, 1_500);
        assert_eq!(Gated::new(1_449).mtu, JUMBO_MTU);
    }

    #[test]
    fn large_messages_are_timed_too_and_turns_add_up() {
        let mut gated = Gated::new(8_000);
        gated.turn(0, 16, false);
        let once = gated.chain.as_ref().map(Chain::least_messages);
        assert_eq!(once, Some(2 * 16 * u64::from(ROUNDS)));
        assert_eq!(gated.interval(Chain::ungated_ns), None);
        gated.turn(1, 16, false);
        assert_eq!(gated.failure, None);
        let twice = gated.chain.as_ref().map(Chain::least_messages);
        assert_eq!(twice, once.map(|messages| 2 * messages));
        let known = gated.interval(Chain::ungated_ns).unwrap();
        let ns = gated.chain.as_ref().and_then(Chain::ungated_ns).unwrap();
        assert!(known.contains(ns) && known.low < known.high, "{known:?}");
    }

    #[test]
    fn what_fits_no_packet_is_said() {
        let mut gated = Gated::new(20_000);
        gated.turn(0, 16, false);
        assert!(gated.chain.is_none());
        assert!(gated.failure.unwrap().contains("one segment"));
    }
}

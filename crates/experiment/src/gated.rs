//! Ledgers of `stack-memory` by message size: run once, shown by several experiments.
//!
//! Sizes take turns in short runs whose ledgers are merged, so that all sizes see the same machine and a run that is stopped
//! early has something at every size.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tollgate_gate::Ledger;
use tollgate_workload::stack_memory::gated::{Gating, gated};
use tollgate_workload::{Placement, Spec, Waiting, Workload};

use crate::context::Context;
use crate::error::Error;
use crate::words;

/// One round trip in so many is recorded. Often enough for many observations in little time, and seldom enough that the code
/// without gates stays the one that runs.
const ONE_IN: NonZeroU32 = NonZeroU32::new(16).unwrap();
/// Round trips of a slice: some 256 recorded ones, so that the longest hundredth, which the trimmed means leave out, holds a
/// moment in which the processor was taken away.
const ROUND_TRIPS: u64 = 4_096;
/// Turns of all sizes without a time budget.
const TURNS: u32 = 20;

/// The ledger of one size.
#[derive(Debug, Clone)]
pub(crate) struct Gated {
    /// Bytes of a message.
    pub(crate) size: usize,
    /// All turns together; none when none was run.
    pub(crate) ledger: Option<Ledger>,
    /// Round trips that were recorded.
    pub(crate) recorded: u64,
    /// What a passage cost in place, in nanoseconds, each time it was measured.
    pub(crate) probe_ns: Vec<f64>,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

/// The ledgers of all sizes.
#[derive(Debug, Clone)]
pub(crate) struct Ledgers {
    pub(crate) sizes: Vec<Gated>,
    /// The user stopped it.
    pub(crate) stopped: bool,
    /// Round trips recorded in how many.
    pub(crate) one_in: u32,
}

impl Ledgers {
    /// The ledger at this place, if there is one.
    pub(crate) fn ledger(&self, at: usize) -> Option<&Ledger> {
        self.sizes.get(at)?.ledger.as_ref()
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
        sizes: sizes
            .iter()
            .map(|&size| Gated {
                size,
                ledger: None,
                recorded: 0,
                probe_ns: Vec::new(),
                failure: None,
            })
            .collect(),
        stopped: false,
        one_in: ONE_IN.get(),
    };
    let turns = match context.options.iterations {
        // The iterations of a repetition are those of one kind of slice.
        Some(iterations) => u32::try_from(iterations.div_ceil(ROUND_TRIPS))
            .unwrap_or(u32::MAX)
            .clamp(1, TURNS),
        None => TURNS,
    };
    let round_trips = context
        .options
        .iterations
        .map_or(ROUND_TRIPS, |iterations| iterations.clamp(256, ROUND_TRIPS));
    let mut longest = Duration::ZERO;
    for turn in 0..turns {
        let begun = Instant::now();
        // The first turn is always made; another only when there is time for it.
        if turn > 0 && context.remaining().is_some_and(|left| left < longest) {
            break;
        }
        for gated in &mut ledgers.sizes {
            if context.cancel.is_raised() {
                ledgers.stopped = true;
                break;
            }
            let left = context.remaining().unwrap_or(longest * (turns - turn));
            context.tell(&words::size(gated.size), left);
            gated.turn(u64::from(turn), round_trips);
        }
        longest = longest.max(begun.elapsed());
    }
    if ledgers.sizes.iter().all(|gated| gated.ledger.is_none()) {
        let reason = ledgers.sizes.iter().find_map(|gated| gated.failure.clone());
        return Err(match reason {
            Some(reason) => Error::NothingMeasured { experiment, reason },
            None => Error::Stopped,
        });
    }
    Ok(ledgers)
}

impl Gated {
    /// One more rotation through all spans.
    fn turn(&mut self, turn: u64, round_trips: u64) {
        if self.failure.is_some() {
            return;
        }
        let spec =
            Spec::new(Workload::Rr, self.size).with_mode(Placement::OneCore, Waiting::BusyPoll);
        let gating = Gating {
            one_in: ONE_IN,
            round_trips,
            rounds: 1,
            seed: turn + 1,
            ..Gating::default()
        };
        match gated(&spec, &gating) {
            Ok(run) => {
                self.recorded += run.recorded;
                self.probe_ns.extend(run.probe_ns);
                match &mut self.ledger {
                    None => self.ledger = Some(run.ledger),
                    Some(ledger) => {
                        if let Err(error) = ledger.merge(&run.ledger) {
                            self.failure = Some(error.to_string());
                        }
                    }
                }
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
    }
}

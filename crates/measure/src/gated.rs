//! Blocks of slices, run on whatever can be gated.
//!
//! [`Gated`] is the one trait between the engine and what it measures: enable a set of gates, run round trips, give the
//! passages. It must never choose a set of gates by what was measured.

use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate_gate::{GateSet, JoinPlan, Passage, Recorded, TickScale, join};

use crate::ledger::{Ledger, NoLedger, Split};
use crate::packets::{Crossings, Packets};
use crate::schedule::{self, Probes, Sets};
use crate::trips::{self, Slice};
use crate::way::Way;

/// Two ends whose round trips can be gated, at one size or several.
pub trait Gated {
    /// The way of a round trip.
    fn way(&self) -> &Way;

    /// The knowledge of how each gate's cost falls on the spans beside it, in the order of the way.
    fn splits(&self) -> Vec<Split>;

    /// Number of sizes.
    fn sizes(&self) -> usize;

    /// Tells whether gates cost something where none of them is wanted, so that this is to be measured.
    fn has_disabled(&self) -> bool;

    /// Round trips that one reading of the application's clock spans.
    fn batch(&self) -> usize;

    /// Sees to it that the next slices run with these.
    ///
    /// # Errors
    /// The refusal, for people.
    fn enable(&mut self, probes: Probes) -> Result<(), String>;

    /// Runs round trips at the size at this place, with the gates that are enabled.
    ///
    /// # Errors
    /// The failure, for people.
    fn run(&mut self, size: usize, round_trips: u64) -> Result<Ran, String>;

    /// Unit of the passages' times.
    fn scale(&self) -> TickScale;
}

/// Ends whose sessions can be opened anew.
pub trait Reopened: Gated {
    /// Closes all sessions, and opens one of each size; no gate is enabled then.
    ///
    /// # Errors
    /// The refusal, for people.
    fn reopen(&mut self) -> Result<(), String>;
}

/// Result of a slice of round trips.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Round trips by the application's clock, in nanoseconds: the mean of each batch.
    pub round_trips_ns: Vec<f64>,
    /// Passages of the messages at the gates that were enabled.
    pub passages: Vec<Passage>,
    /// Messages that were sent both ways while gates watched.
    pub messages: u64,
    /// Events that found no room.
    pub lost: u64,
    /// The packets of responses; none where a message is one packet.
    pub packets: Option<Packets>,
}

impl Ran {
    /// Result of round trips of our stack, whose recorder kept what passed these gates.
    pub(crate) fn of(
        recorded: Recorded<'_>,
        set: GateSet,
        scale: TickScale,
        batch: u64,
        round_trips_ns: Vec<f64>,
    ) -> Self {
        Self {
            messages: 2 * batch * round_trips_ns.len() as u64,
            round_trips_ns,
            lost: recorded.lost,
            passages: join([recorded], JoinPlan::new(set, scale)).passages,
            packets: None,
        }
    }
}

/// The slices of one size.
#[derive(Clone, Debug, Default)]
pub struct Sized {
    /// Slices, in the order in which they were run.
    pub slices: Vec<Slice>,
    /// Round trips of all slices, with gates and without.
    pub round_trips: u64,
    /// Messages that were sent while gates watched.
    pub messages: u64,
    /// Those of them that passed every gate that was enabled.
    pub joined: u64,
    /// Events that found no room.
    pub lost: u64,
    /// The reason why the size was given up.
    pub failure: Option<String>,
}

/// Amount of measuring.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Round trips of a slice.
    pub round_trips: u64,
    /// Blocks at least, however long they take.
    pub least_blocks: u32,
    /// No block begins after this long.
    pub time: Duration,
    /// Sizes of sets.
    pub sets: Sets,
    /// Seed of the sets.
    pub seed: u64,
}

/// Runs blocks of slices until the time is over, or `goes_on` is false; the slices of each size. All are of one session, and so are
/// the intervals of its ledger: another session differs by more.
pub fn run(gated: &mut impl Gated, amount: &Amount, goes_on: impl FnMut() -> bool) -> Vec<Sized> {
    blocks(gated, amount, |_| Ok(()), goes_on)
}

/// Runs blocks as [`run`] does, with sessions opened anew for each. A session keeps for life where its memory lies. So a block is a
/// session, and intervals over blocks are of the path.
pub fn run_anew(
    gated: &mut impl Reopened,
    amount: &Amount,
    goes_on: impl FnMut() -> bool,
) -> Vec<Sized> {
    blocks(gated, amount, Reopened::reopen, goes_on)
}

fn blocks<G: Gated>(
    gated: &mut G,
    amount: &Amount,
    mut between_blocks: impl FnMut(&mut G) -> Result<(), String>,
    mut goes_on: impl FnMut() -> bool,
) -> Vec<Sized> {
    let begun = Instant::now();
    let mut random = ChaCha8Rng::seed_from_u64(amount.seed);
    let mut sizes = vec![Sized::default(); gated.sizes()];
    let mut number = 0;
    while (number < amount.least_blocks || begun.elapsed() < amount.time) && goes_on() {
        let ready = if number == 0 {
            Ok(())
        } else {
            between_blocks(gated)
        };
        match ready {
            Ok(()) => block(gated, amount, number, &mut random, &mut sizes),
            Err(reason) => give_up(&mut sizes, &reason),
        }
        if sizes.iter().all(|sized| sized.failure.is_some()) {
            break;
        }
        number += 1;
    }
    // Nothing stays attached; what cannot be detached goes with its owner.
    let _ = gated.enable(Probes::Uninstrumented);
    sizes
}

/// Runs one block of slices, and adds them to those of each size.
pub(crate) fn block(
    gated: &mut impl Gated,
    amount: &Amount,
    number: u32,
    random: &mut impl Rng,
    sizes: &mut [Sized],
) {
    for probes in schedule::block(gated.way(), amount.sets, gated.has_disabled(), random) {
        if let Err(reason) = gated.enable(probes) {
            return give_up(sizes, &reason);
        }
        for (place, sized) in sizes.iter_mut().enumerate() {
            if sized.failure.is_none() {
                match gated.run(place, amount.round_trips) {
                    Ok(ran) => {
                        sized.round_trips += amount.round_trips;
                        sized.add(gated, number, probes, ran);
                    }
                    Err(reason) => sized.failure = Some(reason),
                }
            }
        }
    }
}

/// Gives up all sizes, for this reason where there is none yet.
pub(crate) fn give_up(sizes: &mut [Sized], reason: &str) {
    for sized in sizes {
        sized.failure.get_or_insert_with(|| reason.to_owned());
    }
}

impl Sized {
    /// The ledger of its slices.
    ///
    /// # Errors
    /// [`NoLedger`], or [`NoLedger::Failed`] when the size was given up.
    pub fn ledger(&self, gated: &impl Gated, seed: u64) -> Result<Ledger, NoLedger> {
        if let Some(reason) = &self.failure {
            return Err(NoLedger::Failed(reason.clone()));
        }
        Ledger::fit(gated.way(), &gated.splits(), &self.slices, seed)
    }

    /// The share of the messages sent that passed every gate that was enabled; none when none was sent.
    pub fn join_rate(&self) -> Option<f64> {
        (self.messages > 0).then(|| self.joined as f64 / self.messages as f64)
    }

    /// Adds a slice; one of too few whole round trips adds to the counts alone.
    fn add(&mut self, gated: &impl Gated, block: u32, probes: Probes, ran: Ran) {
        let set = probes.stations();
        let (way, scale) = (gated.way(), gated.scale());
        let (between, crossings) = if set.is_empty() {
            (Vec::new(), Crossings::default())
        } else {
            let messages = trips::messages(way, set, &ran.passages);
            self.messages += ran.messages;
            self.joined += (messages.len() * 2 / way.passages()) as u64;
            self.lost += ran.lost;
            match trips::chosen(way, messages, gated.batch(), scale) {
                None => return,
                Some(chosen) => {
                    let packets = ran.packets.as_ref();
                    let crossings =
                        packets.map(|packets| packets.crossings(way, set, &chosen, scale));
                    (
                        trips::between(way, set, &chosen, scale),
                        crossings.unwrap_or_default(),
                    )
                }
            }
        };
        if let Some(total) = trips::mean(ran.round_trips_ns) {
            self.slices.push(Slice {
                block,
                probes,
                total,
                between,
                crossings,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_gate::Gate;

    use super::*;

    /// Ends that see nothing, and are opened anew so many times.
    struct Ends {
        way: Way,
        opened: u32,
        most: u32,
        /// For each slice, how often sessions had been opened.
        slices: Vec<u32>,
    }

    impl Gated for Ends {
        fn way(&self) -> &Way {
            &self.way
        }

        fn splits(&self) -> Vec<Split> {
            vec![Split::UNKNOWN; self.way.len()]
        }

        fn sizes(&self) -> usize {
            2
        }

        fn has_disabled(&self) -> bool {
            false
        }

        fn batch(&self) -> usize {
            1
        }

        fn enable(&mut self, _: Probes) -> Result<(), String> {
            Ok(())
        }

        fn run(&mut self, _: usize, _: u64) -> Result<Ran, String> {
            self.slices.push(self.opened);
            Ok(Ran::default())
        }

        fn scale(&self) -> TickScale {
            TickScale::NANOSECONDS
        }
    }

    impl Reopened for Ends {
        fn reopen(&mut self) -> Result<(), String> {
            if self.opened == self.most {
                return Err("no memory".to_owned());
            }
            self.opened += 1;
            Ok(())
        }
    }

    fn ends(most: u32) -> Ends {
        let gates = vec![Gate::SocketOutBegin, Gate::TcpOutBegin, Gate::SocketInEnd];
        Ends {
            way: Way::new(gates).unwrap(),
            opened: 1,
            most,
            slices: Vec::new(),
        }
    }

    const AMOUNT: Amount = Amount {
        round_trips: 8,
        least_blocks: 3,
        time: Duration::ZERO,
        sets: Sets::DEFAULT,
        seed: 1,
    };

    #[test]
    fn each_block_has_sessions_of_its_own() {
        let mut anew = ends(9);
        let sizes = run_anew(&mut anew, &AMOUNT, || true);
        assert!(sizes.iter().all(|sized| sized.failure.is_none()));
        assert_eq!(anew.opened, 3);
        let of_block = anew.slices.len() / 3;
        let blocks: Vec<&[u32]> = anew.slices.chunks(of_block).collect();
        assert_eq!(blocks.len(), 3);
        for (block, opened) in blocks.iter().zip(1..) {
            assert!(block.iter().all(|one| *one == opened), "{blocks:?}");
        }
        let mut one = ends(9);
        run(&mut one, &AMOUNT, || true);
        assert_eq!(one.opened, 1);
    }

    #[test]
    fn sessions_that_cannot_be_opened_anew_say_why() {
        let sizes = run_anew(&mut ends(2), &AMOUNT, || true);
        let failed = |sized: &Sized| sized.failure.as_deref() == Some("no memory");
        assert!(sizes.iter().all(failed));
    }
}

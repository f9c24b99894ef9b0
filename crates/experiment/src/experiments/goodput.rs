//! `goodput`: our stack and Linux as senders over the same line with faults, to the same receiver.
//!
//! It measures recovery and congestion control, and not the cost of processing: the line is slow, 100 Mb/s and a round trip of
//! 20 ms ([`tollgate_workload::lossy_line`]). A transfer of each sender runs at the same time with the same seed of faults, so the two
//! meet the same machine. It must never leave a pair out: what fails, fails the condition.

use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use tollgate_run::{
    Column, PathId, Row, Source, Table, TrustLine, Unit, Workload, format, present,
};
use tollgate_workload::Spec;
use tollgate_workload::lossy_line::{Faults, Line, Probability, Rate, Sender, Transferred};

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{self, Claim, Evidence, Finding, Refusal};
use crate::context::{Context, Options, check_time};
use crate::error::Error;

/// Megabits per second of the line.
const MEGABITS: NonZeroU64 = NonZeroU64::new(100).unwrap();
/// Round trip of the line.
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Frames that the line holds at most, each way.
const HELD: usize = 2048;
/// Seeds of each condition, unless told.
const SEEDS: u32 = 20;
/// Pairs of transfers at the same time: what two cores carry without being late.
const AT_ONCE: u32 = 2;
/// Duration of a transfer, and the shortest one for which seeds are not left out.
const LASTS: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_secs(2);
/// Time that a transfer takes besides.
const SETTING_UP: Duration = Duration::from_millis(500);
/// The part of a plan's time that a machine may need on which setting up takes none.
const SOONER: f64 = 0.8;
/// Our end, as the options call it.
const PATH: PathId = PathId::StackTap;

/// Faults that frames meet, in words.
struct Condition {
    name: &'static str,
    /// Frames out of a million that are lost, and that fall back behind three later ones.
    lost: u32,
    reordered: u32,
}

const CONDITIONS: [Condition; 4] = [
    Condition {
        name: "no faults",
        lost: 0,
        reordered: 0,
    },
    Condition {
        name: "1 % lost",
        lost: 10_000,
        reordered: 0,
    },
    Condition {
        name: "5 % lost",
        lost: 50_000,
        reordered: 0,
    },
    Condition {
        name: "2 % out of order",
        lost: 0,
        reordered: 20_000,
    },
];

/// Goodput beside Linux.
pub(super) struct Goodput;

impl Experiment for Goodput {
    fn name(&self) -> &'static str {
        "goodput"
    }

    fn title(&self) -> &'static str {
        "Goodput where frames are lost or change places"
    }

    fn paper(&self) -> Option<Source> {
        None
    }

    fn summary(&self) -> &'static str {
        "bytes per second from our stack and from Linux over one line with random loss, and with reordering"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet { but: &[] }
    }

    fn weight(&self) -> u32 {
        5
    }

    fn concerns(&self, options: &Options) -> bool {
        let paths = options.paths.as_ref();
        paths.is_none_or(|paths| paths.contains(&PATH))
    }

    fn measure(&self, context: &mut Context<'_>, _: &str) -> Result<Content, Error> {
        let plan = Plan::new(context);
        plan.fits(self.name(), context.remaining())?;
        let mut outcomes = Vec::new();
        for (done, condition) in CONDITIONS.iter().enumerate() {
            outcomes.push(plan.run(condition, CONDITIONS.len() - done, context)?);
        }
        Ok(content(&plan, &outcomes))
    }
}

/// Both transfers of a seed: ours, and that of Linux.
type Pair = [Transferred; 2];

/// Number and duration of the transfers, and our mechanisms.
struct Plan {
    seeds: u32,
    lasts: Duration,
    spec: Spec,
}

impl Plan {
    fn new(context: &Context<'_>) -> Self {
        let wanted = context.options.repetitions.unwrap_or(SEEDS).max(1);
        let mut spec = Spec::new(Workload::Stream, 1);
        spec.mechanisms = context.options.mechanisms;
        let mut plan = Self {
            seeds: wanted,
            lasts: LASTS,
            spec,
        };
        if let Some(left) = context.remaining() {
            let turns = CONDITIONS.len() as u32 * wanted.div_ceil(AT_ONCE);
            plan.lasts = (left / turns)
                .saturating_sub(SETTING_UP)
                .clamp(SHORTEST, LASTS);
            let turns = left.div_duration_f64(plan.lasts + SETTING_UP);
            let seeds = turns as u32 * AT_ONCE / CONDITIONS.len() as u32;
            // An interval takes three.
            plan.seeds = wanted.min(seeds.max(3));
        }
        plan
    }

    /// Refuses a time in which not even this can be measured. Setting up often takes less than the plan has for it.
    fn fits(&self, experiment: &'static str, left: Option<Duration>) -> Result<(), Error> {
        check_time(experiment, (self.duration(CONDITIONS.len()), SOONER), left)
    }

    /// Duration of all transfers of so many conditions.
    fn duration(&self, conditions: usize) -> Duration {
        (self.lasts + SETTING_UP) * self.seeds.div_ceil(AT_ONCE) * conditions as u32
    }

    fn line(&self, condition: &Condition, seed: u32) -> Line {
        let rate = MEGABITS.saturating_mul(NonZeroU64::new(1_000_000).unwrap_or(NonZeroU64::MIN));
        let part = |ppm| Probability::from_ppm(ppm).unwrap_or_default();
        let product = u128::from(rate.get()) * ROUND_TRIP.as_nanos() / 8_000_000_000;
        Line {
            faults: Faults {
                drop: part(condition.lost),
                reorder: part(condition.reordered),
                rate: Some(Rate {
                    bits_per_second: rate,
                    queue: product as usize,
                }),
                delay: ROUND_TRIP / 2,
                limit: HELD,
                ..Faults::default()
            },
            seed: seed.into(),
            lasts: self.lasts,
        }
    }

    /// Runs the transfers of a condition; `conditions` are still to run, this one counted.
    fn run(
        &self,
        condition: &Condition,
        conditions: usize,
        context: &Context<'_>,
    ) -> Result<Vec<Pair>, Error> {
        let mut pairs = Vec::new();
        let seeds: Vec<u32> = (1..=self.seeds).collect();
        for at_once in seeds.chunks(AT_ONCE as usize) {
            if context.cancel.is_raised() {
                return Err(Error::Stopped);
            }
            let spent = (self.lasts + SETTING_UP) * (pairs.len() as u32).div_ceil(AT_ONCE);
            let left = self.duration(conditions).saturating_sub(spent);
            context.tell(condition.name, left);
            let lines = at_once.iter().map(|&seed| self.line(condition, seed));
            pairs.extend(run_at_once(&lines.collect::<Vec<_>>(), &self.spec)?);
        }
        Ok(pairs)
    }
}

/// Both transfers over each of the lines, all at the same time.
fn run_at_once(lines: &[Line], spec: &Spec) -> Result<Vec<Pair>, Error> {
    thread::scope(|scope| {
        let senders = [Sender::Stack, Sender::Linux];
        let running: Vec<_> = lines
            .iter()
            .map(|line| senders.map(|sender| scope.spawn(move || line.transfer(sender, spec))))
            .collect();
        // All are waited for before the first failure is told.
        let ended: Vec<_> = running
            .into_iter()
            .map(|pair| pair.map(thread::ScopedJoinHandle::join))
            .collect();
        let transferred = |joined| match joined {
            Ok(transferred) => Ok(transferred?),
            Err(_) => Err(Error::NothingMeasured {
                experiment: "goodput",
                reason: "the thread of a transfer has panicked".to_owned(),
            }),
        };
        ended
            .into_iter()
            .map(|[ours, linux]| Ok([transferred(ours)?, transferred(linux)?]))
            .collect()
    })
}

/// Bytes per second of one of the senders, seed by seed.
fn rates(plan: &Plan, pairs: &[Pair], sender: usize) -> Vec<f64> {
    let seconds = plan.lasts.as_secs_f64();
    let rate = |pair: &Pair| pair[sender].bytes as f64 / seconds;
    pairs.iter().map(rate).collect()
}

/// The quotient of both means.
fn quotient(plan: &Plan, pairs: &[Pair]) -> Result<Evidence, Refusal> {
    let frames = pairs.iter().flatten().map(|one| one.forth.passed).sum();
    Evidence::quotient_of_means(&rates(plan, pairs, 0), &rates(plan, pairs, 1), frames)
}

fn content(plan: &Plan, outcomes: &[Vec<Pair>]) -> Content {
    let conditions = || CONDITIONS.iter().zip(outcomes);
    let mut finding = Finding::default();
    let mut said = Vec::new();
    // Without faults both fill the line, which the table shows.
    for (condition, pairs) in conditions().skip(1) {
        let claim = quotient(plan, pairs).and_then(Evidence::amount);
        let what = format!("goodput with {}", condition.name);
        if let Some(amount) = finding.comparison(what, claim, Claim::amount_against) {
            said.push(format!("{amount} with {}", condition.name));
        }
    }
    if !said.is_empty() {
        finding.say(format!(
            "over {MEGABITS} Mb/s and {} ms, against Linux, our stack carries {}",
            ROUND_TRIP.as_millis(),
            format::list(&said)
        ));
    }
    Content {
        finding: finding.finish(),
        tables: vec![Table {
            id: "goodput".to_owned(),
            title: "Goodput of a sender, mean over the seeds".to_owned(),
            columns: [
                ("Our stack", Unit::BytesPerSecond),
                ("Linux", Unit::BytesPerSecond),
                ("Our stack / Linux", Unit::Ratio),
            ]
            .map(|(name, unit)| Column {
                name: name.to_owned(),
                unit,
            })
            .to_vec(),
            rows: conditions()
                .map(|(condition, pairs)| row(plan, condition, pairs))
                .collect(),
        }],
        figures: Vec::new(),
        trust: trust(plan, outcomes),
    }
}

fn row(plan: &Plan, condition: &Condition, pairs: &[Pair]) -> Row {
    let mean = |sender| claim::mean_cell(&rates(plan, pairs, sender));
    let ratio = claim::cell(quotient(plan, pairs), pairs.len());
    present::plain_row(condition.name, vec![mean(0), mean(1), ratio])
}

fn trust(plan: &Plan, outcomes: &[Vec<Pair>]) -> Vec<TrustLine> {
    let mut trust = vec![
        present::note(format!(
            "one connection for {:.0} s over {MEGABITS} Mb/s and {} ms, whose queue holds what is on it and drops at its tail; faults meet \
             frames of both directions",
            plan.lasts.as_secs_f64(),
            ROUND_TRIP.as_millis()
        )),
        present::note(format!(
            "{} seeds; both senders run at the same time with the same seed, {} at once; Linux uses cubic, and receives in both cases",
            plan.seeds,
            format::counted(u64::from(AT_ONCE), "pair", "pairs")
        )),
    ];
    let frames =
        |of: fn(&Transferred) -> u64| -> u64 { outcomes.iter().flatten().flatten().map(of).sum() };
    let starved = frames(|one| {
        one.forth.starved + one.back.starved + one.forth.over_limit + one.back.over_limit
    });
    if starved > 0 {
        trust.push(present::warning(format!(
            "the line had no room for {}, which were lost besides",
            format::counted(starved, "frame", "frames")
        )));
    }
    trust
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    fn transferred(bytes: u64) -> Transferred {
        let mut one = Transferred {
            bytes,
            ..Transferred::default()
        };
        one.forth.passed = 1_000;
        one
    }

    fn plan(seeds: u32) -> Plan {
        Plan {
            seeds,
            lasts: LASTS,
            spec: Spec::new(Workload::Stream, 1),
        }
    }

    #[test]
    fn finding_says_what_the_pairs_show() {
        let alike = |factor: u64| -> Vec<Pair> {
            let pair = |seed: u64| [factor * 1_000 + seed, 1_000 + seed].map(transferred);
            (1..=20).map(pair).collect()
        };
        let unlike: Vec<Pair> = (1..=20)
            .map(|seed| [1_000 + seed % 2 * 500, 1_500 - seed % 2 * 500].map(transferred))
            .collect();
        let outcomes = [alike(1), alike(2), unlike, alike(1)];
        let content = content(&plan(20), &outcomes);
        let finding = run_finding(&content);
        assert!(
            finding.contains("2.0 times more with 1 % lost"),
            "{finding}"
        );
        assert!(finding.contains("the same within"), "{finding}");
        assert_eq!(content.tables[0].rows.len(), CONDITIONS.len());
        assert!(
            content
                .trust
                .iter()
                .all(|line| !line.text.contains("no room"))
        );
    }

    fn run_finding(content: &Content) -> String {
        String::from(content.finding.clone())
    }

    #[test]
    fn little_time_takes_seeds_away_before_transfers_become_too_short() {
        let with = |seconds| {
            let mut context = Context::new(
                Options::default(),
                Some(Duration::from_secs(seconds)),
                Cancel::default(),
                &Silent,
            );
            context.begin("", 1, 1);
            Plan::new(&context)
        };
        let plenty = with(1_000);
        assert_eq!((plenty.seeds, plenty.lasts), (SEEDS, LASTS));
        let half = with(120);
        assert_eq!(half.seeds, SEEDS);
        assert!(half.lasts < LASTS && half.lasts >= SHORTEST);
        let little = with(20);
        assert_eq!((little.seeds, little.lasts), (3, SHORTEST));
        let fits = |seconds| little.fits("goodput", Some(Duration::from_secs(seconds)));
        assert!(fits(20).is_ok());
        let refused = fits(10).unwrap_err().to_string();
        assert!(
            refused.contains("goodput takes 20.0 s at least, and has 10.0 s"),
            "{refused}"
        );
    }
}

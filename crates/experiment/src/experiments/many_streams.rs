//! `many-streams`: what one connection carries, and what many carry at once, in all and each.
//!
//! Our stack sends on all of them to sockets of Linux over a tap device, and Linux does over a pair of veth devices
//! ([`tollgate_workload::many_streams`]): many connections cost their receiver, too, so one sender alone would not tell what is ours.
//! Runs of both and of each number of connections take turns, each with devices of its own, so that all meet the same machine. Fairness is Jain's index over the connections of a run
//! (R. Jain, D. Chiu and W. Hawe, DEC-TR-301, 1984). It must never leave a connection out: one that got nothing counts.

use std::time::Duration;

use tollgate_run::{
    Cell, Column, PathId, Source, Table, TrustLine, Unit, Workload, format, present,
};
use tollgate_workload::Spec;
use tollgate_workload::many_streams::ManyStreams;

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{self, Claim, Evidence, Finding, Refusal};
use crate::context::{Context, Options, check_time};
use crate::error::Error;

/// Connections at once.
const COUNTS: [usize; 4] = [1, 100, 1_000, 10_000];
/// Runs in a round.
const RUNS: u32 = (COUNTS.len() * SENDERS.len()) as u32;
/// Rounds unless told, and the fewest that an interval takes.
const ROUNDS: u32 = 6;
const FEWEST: u32 = 3;
/// Time in which windows grow, that in which bytes are counted, and the shortest for which rounds are not left out.
const WARM_UP: Duration = Duration::from_millis(1_000);
const LASTS: Duration = Duration::from_millis(2_000);
const SHORTEST: Duration = Duration::from_millis(500);
/// Time that opening and closing takes besides, of one run.
const SETTING_UP: Duration = Duration::from_millis(1_000);
/// The part of a plan's time that a machine may need which sets connections up at once.
const SOONER: f64 = 0.75;
/// Senders, as the options call their paths.
const SENDERS: [(&str, PathId); 2] = [
    ("Our stack", PathId::StackTap),
    ("Linux", PathId::KernelVeth),
];

/// Many streams at once.
pub(super) struct Many;

impl Experiment for Many {
    fn name(&self) -> &'static str {
        "many-streams"
    }

    fn title(&self) -> &'static str {
        "Streams of many connections at once"
    }

    fn paper(&self) -> Option<Source> {
        None
    }

    fn summary(&self) -> &'static str {
        "bytes per second of 1 to 10,000 connections from our stack and from Linux to Linux, and how evenly they share"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet { but: &[] }
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        // Linux is what our stack is held against.
        let paths = options.paths.as_ref();
        paths.is_none_or(|paths| paths.contains(&SENDERS[0].1))
    }

    fn measure(&self, context: &mut Context<'_>, _: &str) -> Result<Content, Error> {
        let plan = Plan::new(context);
        plan.fits(self.name(), context.remaining())?;
        let mut outcomes = Outcomes::default();
        for round in 0..plan.rounds {
            for (connections, of_both) in COUNTS.iter().zip(&mut outcomes) {
                let words = format!("{} connections", format::whole(*connections as u64));
                context.tell(&words, plan.turn() * (plan.rounds - round));
                let streams = ManyStreams {
                    connections: *connections,
                    warm_up: WARM_UP,
                    lasts: plan.lasts,
                };
                let [ours, linux] = of_both;
                for (to, run) in [
                    (ours, &(|| streams.from_stack(&plan.spec)) as &Run<'_>),
                    (linux, &|| streams.from_linux()),
                ] {
                    if context.cancel.is_raised() {
                        return Err(Error::Stopped);
                    }
                    to.push(Outcome::of(&run()?, plan.lasts));
                }
            }
        }
        Ok(content(&plan, &outcomes))
    }
}

/// One run of a sender.
type Run<'a> = dyn Fn() -> Result<Vec<u64>, tollgate_workload::Error> + 'a;

/// Runs of both senders with each number of connections, round by round.
type Outcomes = [[Vec<Outcome>; 2]; COUNTS.len()];

/// Number and duration of the runs, and our mechanisms.
struct Plan {
    rounds: u32,
    lasts: Duration,
    spec: Spec,
}

impl Plan {
    fn new(context: &Context<'_>) -> Self {
        let wanted = context.options.repetitions.unwrap_or(ROUNDS).max(1);
        let mut spec = Spec::new(Workload::Stream, 1);
        spec.mechanisms = context.options.mechanisms;
        let mut plan = Self {
            rounds: wanted,
            lasts: LASTS,
            spec,
        };
        if let Some(left) = context.remaining() {
            let run = left / (RUNS * wanted);
            plan.lasts = run
                .saturating_sub(WARM_UP + SETTING_UP)
                .clamp(SHORTEST, LASTS);
            let rounds = left.div_duration_f64(plan.turn()) as u32;
            plan.rounds = wanted.min(rounds.max(FEWEST));
        }
        plan
    }

    /// Refuses a time in which not even this can be measured. Connections are often set up sooner than the plan takes them to be.
    fn fits(&self, experiment: &'static str, left: Option<Duration>) -> Result<(), Error> {
        check_time(experiment, (self.turn() * self.rounds, SOONER), left)
    }

    /// Duration of a round.
    fn turn(&self) -> Duration {
        (WARM_UP + SETTING_UP + self.lasts) * RUNS
    }
}

/// Outcome of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Outcome {
    /// Bytes per second of all connections together.
    rate: f64,
    /// Jain's index.
    fairness: f64,
    /// Connections that got nothing.
    starved: usize,
    bytes: u64,
}

impl Outcome {
    fn of(bytes: &[u64], lasts: Duration) -> Self {
        let sum: u64 = bytes.iter().sum();
        Self {
            rate: sum as f64 / lasts.as_secs_f64(),
            fairness: fairness(bytes),
            starved: bytes.iter().filter(|&&bytes| bytes == 0).count(),
            bytes: sum,
        }
    }
}

/// Jain's index: 1 where all have the same, 1/n where one of n has all. None have anything: nothing is shared, which counts as 0.
fn fairness(parts: &[u64]) -> f64 {
    let (sum, squares) = parts.iter().fold((0.0, 0.0), |(sum, squares), &part| {
        let part = part as f64;
        (sum + part, squares + part * part)
    });
    if squares == 0.0 {
        return 0.0;
    }
    sum * sum / (parts.len() as f64 * squares)
}

/// The value of `of` in each run.
fn each(outcomes: &[Outcome], of: fn(&Outcome) -> f64) -> Vec<f64> {
    outcomes.iter().map(of).collect()
}

/// The quotient of the rates of two kinds of runs.
fn quotient(some: &[Outcome], others: &[Outcome]) -> Result<Evidence, Refusal> {
    let rates = |outcomes| each(outcomes, |one| one.rate);
    // Segments stand for events.
    let segments = some.iter().map(|one| one.bytes / 1_448).sum();
    Evidence::quotient_of_means(&rates(some), &rates(others), segments)
}

fn content(plan: &Plan, outcomes: &Outcomes) -> Content {
    let ([one, .., many], [.., most]) = (outcomes, COUNTS);
    let most = format::whole(most as u64);
    let mut finding = Finding::default();
    let mut said = Vec::new();
    for ((who, _), (one, many)) in SENDERS.iter().zip(one.iter().zip(many)) {
        let claim = quotient(many, one).and_then(Evidence::amount);
        let what = format!("the rate of {most} connections from {}", in_words(who));
        if let Some(amount) = finding.comparison(what, claim, Claim::amount_against) {
            said.push(format!("{amount} from {}", in_words(who)));
        }
    }
    if !said.is_empty() {
        finding.say(format!(
            "against one connection, {most} at once carry {}",
            format::list(&said)
        ));
    }
    Content {
        finding: finding.finish(),
        tables: vec![rates(outcomes), shares(outcomes)],
        figures: Vec::new(),
        trust: trust(plan, outcomes),
    }
}

/// A sender within a sentence.
fn in_words(sender: &str) -> String {
    if sender == SENDERS[0].0 {
        sender.to_lowercase()
    } else {
        sender.to_owned()
    }
}

fn table(
    id: &str,
    title: &str,
    columns: [(&str, Unit); 3],
    outcomes: &Outcomes,
    row: impl Fn(usize, &[Vec<Outcome>; 2]) -> Vec<Cell>,
) -> Table {
    let column = |(name, unit): (&str, Unit)| Column {
        name: name.to_owned(),
        unit,
    };
    let rows = COUNTS.iter().zip(outcomes).map(|(&connections, of_both)| {
        let label = format::counted(connections as u64, "connection", "connections");
        present::plain_row(label, row(connections, of_both))
    });
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        columns: columns.map(column).to_vec(),
        rows: rows.collect(),
    }
}

/// The rates of all connections together.
fn rates(outcomes: &Outcomes) -> Table {
    let columns = [
        ("Our stack", Unit::BytesPerSecond),
        ("Linux", Unit::BytesPerSecond),
        ("Our stack / Linux", Unit::Ratio),
    ];
    let title = "All connections together, mean over the rounds";
    table("many-streams", title, columns, outcomes, |_, of_both| {
        let [ours, linux] = of_both;
        let mean = |outcomes: &Vec<Outcome>| claim::mean_cell(&each(outcomes, |one| one.rate));
        let ratio = claim::cell(quotient(ours, linux), ours.len());
        vec![mean(ours), mean(linux), ratio]
    })
}

/// Rates against those of one connection, and how evenly our connections share them.
fn shares(outcomes: &Outcomes) -> Table {
    let columns = [
        ("Our stack, all / one", Unit::Ratio),
        ("Linux, all / one", Unit::Ratio),
        ("Our stack, Jain's index", Unit::Ratio),
    ];
    let title = "All connections against one, and fairness";
    let [alone, ..] = outcomes;
    table(
        "many-streams-shares",
        title,
        columns,
        outcomes,
        |connections, of_both| {
            // One shares with nobody.
            if connections == 1 {
                return vec![Cell::text("-"), Cell::text("-"), Cell::text("-")];
            }
            let [ours, _] = of_both;
            let mut cells: Vec<Cell> = of_both
                .iter()
                .zip(alone)
                .map(|(many, one)| claim::cell(quotient(many, one), many.len()))
                .collect();
            cells.push(claim::mean_cell(&each(ours, |one| one.fairness)));
            cells
        },
    )
}

fn trust(plan: &Plan, outcomes: &Outcomes) -> Vec<TrustLine> {
    let mut trust = vec![present::note(format!(
        "{} rounds; in each every sender with every number of connections has devices of its own, {:.1} s to grow its windows, and {:.1} s \
         in which bytes are counted as Linux's readers take them; our stack sends over a tap device, Linux over a pair of veth devices and with cubic; \
         two cores, one for each end; 64 KiB are given to a connection at a time, in turn",
        plan.rounds,
        WARM_UP.as_secs_f64(),
        plan.lasts.as_secs_f64()
    ))];
    for (connections, of_both) in COUNTS.iter().zip(outcomes) {
        for ((who, _), many) in SENDERS.iter().zip(of_both) {
            let starved = many.iter().map(|one| one.starved).max().unwrap_or_default();
            if starved > 0 {
                trust.push(present::warning(format!(
                    "of {} connections from {} up to {} got nothing in the time that was counted",
                    format::whole(*connections as u64),
                    in_words(who),
                    format::whole(starved as u64)
                )));
            }
        }
    }
    trust
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn jains_index_is_one_for_equal_parts_and_a_part_for_one_who_has_all() {
        assert!((fairness(&[7; 50]) - 1.0).abs() < 1e-12);
        assert!((fairness(&[7, 0, 0, 0]) - 0.25).abs() < 1e-12);
        // 1 and 3: 16 / (2 * 10).
        assert!((fairness(&[1, 3]) - 0.8).abs() < 1e-12);
        assert!(fairness(&[0; 3]).abs() < 1e-12);
    }

    #[test]
    fn finding_says_what_many_carry_against_one_and_trust_who_starved() {
        let rounds = |of: &dyn Fn(u64) -> Vec<u64>| -> Vec<Outcome> {
            (1..=6)
                .map(|round| Outcome::of(&of(round), Duration::from_secs(1)))
                .collect()
        };
        let one = || rounds(&|round| vec![1_000_000 + round]);
        let half = rounds(&|round| vec![250_000 + round, 250_000 - round, 0, 0]);
        let plan = Plan {
            rounds: 6,
            lasts: LASTS,
            spec: Spec::new(Workload::Stream, 1),
        };
        let both = |ours| [ours, one()];
        let outcomes = [both(one()), both(one()), both(one()), both(half)];
        let content = content(&plan, &outcomes);
        let finding = String::from(content.finding.clone());
        assert!(
            finding.contains("2.0 times less from our stack"),
            "{finding}"
        );
        assert!(finding.contains("from Linux"), "{finding}");
        let [rates, shares] = &content.tables[..] else {
            panic!("two tables");
        };
        assert_eq!(rates.rows.len(), COUNTS.len());
        let last = |table: &Table| table.rows.last().unwrap().cells.clone();
        let ratio = last(rates)[2].measured().unwrap().value;
        assert!((ratio - 0.5).abs() < 1e-3, "{ratio}");
        let fairness = last(shares)[2].measured().unwrap().value;
        assert!((fairness - 0.5).abs() < 1e-3, "{fairness}");
        let warned = &content.trust[1].text;
        assert!(
            warned.contains("of 10,000 connections from our stack up to 2 got nothing"),
            "{warned}"
        );
    }

    #[test]
    fn little_time_shortens_the_count_before_rounds_are_left_out() {
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
        assert_eq!((plenty.rounds, plenty.lasts), (ROUNDS, LASTS));
        let half = with(144);
        assert_eq!(half.rounds, ROUNDS);
        assert!(half.lasts < LASTS && half.lasts >= SHORTEST);
        let little = with(50);
        assert_eq!((little.rounds, little.lasts), (FEWEST, SHORTEST));
        let fits = |seconds| little.fits("many", Some(Duration::from_secs(seconds)));
        assert!(fits(50).is_ok());
        let refused = fits(10).unwrap_err().to_string();
        assert!(
            refused.contains("many takes 60.0 s at least, and has 10.0 s"),
            "{refused}"
        );
    }
}

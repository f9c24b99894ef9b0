//! `congestion`: congestion windows over time, NewReno and CUBIC, with and without random loss.
//!
//! Both ends are Tollgate's stack, over a simulated line in virtual time ([`tollgate_simulation`]), so that a seed gives the same numbers on
//! every machine. The tables hold the means over the seeds, the figures one seed.

use std::num::NonZeroU64;
use std::time::Duration;

use tollgate_run::{
    Axis, Column, Figure, Point, Row, Scale, Series, Source, Table, Unit, format, present,
};
use tollgate_simulation::{
    CongestionControl, Flow, Line, Mechanisms, Outcome, Probability, Sample, Transfer,
};
use tollgate_workload::config::{Receive, Segmentation, Transmit};

use super::{Content, Experiment, Reported, Uses, uses};
use crate::claim::{self, Evidence, Finding, FindingText, Refusal};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::sampled::Mean;

/// Megabits per second of the line.
const MEGABITS: NonZeroU64 = NonZeroU64::new(100).unwrap();
/// Round trip of the line, milliseconds.
const ROUND_TRIP: u64 = 20;
/// Frames out of a million that are lost at random, in the two halves of the experiment.
const LOSSES: [u32; 2] = [0, 1_000];
/// Virtual time that a transfer lasts.
const LASTS: Duration = Duration::from_secs(20);
/// Seeds of random loss, as many as the time allows.
const SEEDS: u64 = 10;
/// Seeds that are always simulated, so that there is an interval.
const LEAST_SEEDS: u64 = 3;
/// Virtual time from one point of a line to the next.
const SAMPLED_EVERY: Duration = Duration::from_millis(100);

/// Windows over time.
pub(super) struct Congestion;

impl Experiment for Congestion {
    fn name(&self) -> &'static str {
        "congestion"
    }

    fn title(&self) -> &'static str {
        "Congestion windows over time"
    }

    fn paper(&self) -> Option<Source> {
        None
    }

    fn summary(&self) -> &'static str {
        "windows of NewReno and CUBIC over a simulated line of 100 Mb/s, with and without random loss"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet {
            but: &[
                CongestionControl::NAME,
                Receive::NAME,
                Transmit::NAME,
                Segmentation::NAME,
            ],
        }
    }

    fn weight(&self) -> u32 {
        0
    }

    fn concerns(&self, options: &Options) -> bool {
        options.want_stack_memory()
    }

    /// It comes to the same whatever the options are, but for the mechanisms.
    fn command(&self, options: &Options) -> String {
        let simulated = Options {
            mechanisms: Mechanisms {
                nagle: Mechanisms::DEFAULT.nagle,
                ..options.mechanisms
            },
            ..Options::default()
        };
        crate::layout::command(self.name(), &simulated)
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let mut content = content(&simulate(LASTS, context)?, command);
        content.trust.extend(uses::note(&context.options));
        Ok(content)
    }
}

/// Simulates every sender under every condition, with one seed after the other.
fn simulate(lasts: Duration, context: &Context<'_>) -> Result<Vec<Sender>, Error> {
    let conditions = LOSSES.into_iter().flat_map(|loss| {
        let controls = CongestionControl::ALL.iter();
        controls.map(move |&control| Sender::new(control, loss, lasts))
    });
    let mut senders: Vec<Sender> = conditions.collect();
    for seed in 1..=SEEDS {
        if seed > LEAST_SEEDS && context.remaining() == Some(Duration::ZERO) {
            break;
        }
        for sender in &mut senders {
            if context.cancel.is_raised() {
                return Err(Error::Stopped);
            }
            sender.simulate(seed, context.options.mechanisms)?;
        }
    }
    Ok(senders)
}

/// A sender under one condition, and its transfers.
struct Sender {
    control: CongestionControl,
    /// Frames out of a million that are lost at random.
    loss: u32,
    lasts: Duration,
    /// By seed.
    outcomes: Vec<Outcome>,
}

impl Sender {
    fn new(control: CongestionControl, loss: u32, lasts: Duration) -> Self {
        Self {
            control,
            loss,
            lasts,
            outcomes: Vec::new(),
        }
    }

    /// Simulates a transfer with this seed, and these mechanisms of a host.
    fn simulate(&mut self, seed: u64, set: Mechanisms) -> Result<(), Error> {
        let fail = |reason: String| Error::Simulation { reason };
        let rate = MEGABITS.saturating_mul(NonZeroU64::new(1_000_000).unwrap_or(NonZeroU64::MIN));
        let mut line = Line::new(rate, Duration::from_millis(ROUND_TRIP));
        line.loss = Probability::from_ppm(self.loss).map_err(|error| fail(error.to_string()))?;
        let mut transfer = Transfer::new(line, self.lasts);
        transfer.sampled_every = SAMPLED_EVERY;
        transfer.mechanisms = Mechanisms {
            nagle: Mechanisms::HOST.nagle,
            congestion: self.control,
            ..set
        };
        transfer.seed = seed;
        let outcome = transfer.run().map_err(|error| fail(error.to_string()))?;
        self.outcomes.push(outcome);
        Ok(())
    }

    fn name(&self) -> &'static str {
        match self.control {
            CongestionControl::Cubic => "CUBIC",
            CongestionControl::NewReno => "NewReno",
        }
    }

    fn label(&self) -> String {
        format!("{}, {}", self.name(), condition(self.loss))
    }

    /// A number of each seed.
    fn each(&self, number: impl Fn(&Outcome) -> f64) -> Vec<f64> {
        self.outcomes.iter().map(number).collect()
    }

    /// The part of the line that is filled, in percent, by seed.
    fn shares(&self) -> Vec<f64> {
        self.each(|outcome| 100.0 * outcome.utilisation())
    }

    /// The mean part of the line that is filled, in percent.
    fn share(&self) -> Result<Evidence, Refusal> {
        let mean = Mean::of(&self.shares());
        let mean = mean.ok_or_else(|| Refusal::NotMeasured("it has no seed".to_owned()))?;
        let bytes = self.outcomes.iter().map(Outcome::delivered).sum();
        Ok(Evidence::new(mean.value, mean.interval(), bytes))
    }
}

/// The windows of a transfer, from the time on when there is a connection.
fn windows(outcome: &Outcome) -> impl Iterator<Item = (&Sample, f64)> {
    outcome.samples.iter().filter_map(|sample| {
        let window = sample.windows.first()?.congestion;
        (window != 0).then_some((sample, f64::from(window)))
    })
}

fn mean_window(outcome: &Outcome) -> f64 {
    let sum: f64 = windows(outcome).map(|(_, window)| window).sum();
    sum / windows(outcome).count().max(1) as f64
}

/// The loss of a half of the experiment, in words.
fn condition(loss: u32) -> String {
    match loss {
        0 => "no random loss".to_owned(),
        loss => format!("{} % lost at random", f64::from(loss) / 10_000.0),
    }
}

fn content(senders: &[Sender], command: &str) -> Content {
    let seeds = senders.first().map_or(0, |sender| sender.outcomes.len());
    Content {
        finding: finding(senders),
        tables: vec![table(senders)],
        figures: LOSSES
            .iter()
            .filter_map(|&loss| figure(senders, loss, command))
            .collect(),
        trust: vec![
            present::note(format!(
                "one connection of stack-memory over a simulated line of {MEGABITS} Mb/s and {ROUND_TRIP} ms, whose queue holds what is on \
                 it and drops at its tail; {} s of virtual time, no clock is read",
                LASTS.as_secs()
            )),
            present::note(format!(
                "mean over {}, each of which loses other segments, and its interval; windows over time are those of seed 1",
                format::counted(seeds as u64, "seed", "seeds")
            )),
        ],
    }
}

fn table(senders: &[Sender]) -> Table {
    let row = |one: &Sender| -> Row {
        let seconds = one.lasts.as_secs_f64();
        let sum = |of: fn(&Flow) -> u32| {
            one.each(|outcome| outcome.flows.iter().map(|flow| f64::from(of(flow))).sum())
        };
        let numbers = [
            one.each(|outcome| outcome.delivered() as f64 / seconds),
            one.shares(),
            one.each(mean_window),
            one.each(|outcome| outcome.dropped as f64),
            one.each(|outcome| outcome.lost as f64),
            sum(|flow| flow.retransmits),
            sum(|flow| flow.timeouts),
        ];
        let cells = numbers.iter().map(|numbers| claim::mean_cell(numbers));
        present::plain_row(one.label(), cells.collect())
    };
    let columns = [
        ("Goodput", Unit::BytesPerSecond),
        ("Of the line", Unit::Percent),
        ("Mean window", Unit::Bytes),
        ("Dropped by the queue", Unit::Count),
        ("Lost at random", Unit::Count),
        ("Sent again", Unit::Count),
        ("Timeouts", Unit::Count),
    ];
    Table {
        id: "transfers".to_owned(),
        title: "Transfers over the simulated line, mean over the seeds".to_owned(),
        columns: columns
            .map(|(name, unit)| Column {
                name: name.to_owned(),
                unit,
            })
            .to_vec(),
        rows: senders.iter().map(row).collect(),
    }
}

/// The windows of the first seed with so much random loss; none where no transfer has it.
fn figure(senders: &[Sender], loss: u32, command: &str) -> Option<Figure> {
    let of_loss = senders.iter().filter(|one| one.loss == loss);
    let series: Vec<Series> = of_loss
        .filter_map(|one| Some((one, one.outcomes.first()?)))
        .map(|(one, first)| Series {
            label: one.name().to_owned(),
            points: windows(first)
                .map(|(sample, window)| Point {
                    x: sample.at.as_nanos() as f64,
                    y: window,
                    ci: None,
                })
                .collect(),
            published: false,
        })
        .collect();
    let axis = |label: &str, unit| Axis {
        label: label.to_owned(),
        unit,
        scale: Scale::Linear,
    };
    (!series.is_empty()).then(|| Figure::Lines {
        title: format!("Congestion window over time, {}, one seed", condition(loss)),
        x: axis("time", Unit::Nanoseconds),
        y: axis("congestion window", Unit::Bytes),
        series,
        command: command.to_owned(),
    })
}

/// Says what each controller carries of the line with random loss.
fn finding(senders: &[Sender]) -> FindingText {
    let mut finding = Finding::default();
    let mut shares = Vec::new();
    let most = LOSSES.into_iter().max().unwrap_or(0);
    for one in senders.iter().filter(|one| one.loss == most) {
        let share = one.share().and_then(Evidence::share);
        let name = format!("the part of the line that {} fills", one.label());
        if let Some(share) = finding.claim(name, share) {
            shares.push(format!("{} fills {}", one.name(), share.percent()));
        }
    }
    if !shares.is_empty() {
        finding.say(format!(
            "with {} {} of a line of {MEGABITS} Mb/s and {ROUND_TRIP} ms",
            condition(most),
            format::list(&shares)
        ));
    }
    finding.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn mechanisms_that_are_set_are_simulated() {
        let samples = |set| {
            let mut sender = Sender::new(CongestionControl::Cubic, 1_000, Duration::from_secs(2));
            sender.simulate(1, set).unwrap();
            format!("{:?}", sender.outcomes[0].samples)
        };
        let mut set = Mechanisms::DEFAULT;
        set.set("recovery", "newreno").unwrap();
        let usual = samples(Mechanisms::DEFAULT);
        assert_eq!(usual, samples(Mechanisms::DEFAULT));
        assert_ne!(usual, samples(set));
        let options = Options {
            mechanisms: set,
            ..Options::default()
        };
        assert!(
            Congestion
                .command(&options)
                .ends_with(" --set recovery=newreno")
        );
    }

    #[test]
    fn windows_of_both_controllers_are_drawn_with_and_without_loss() {
        // The time is over at once, which leaves the fewest seeds.
        let mut context = Context::new(
            Options::default(),
            Some(Duration::ZERO),
            Cancel::default(),
            &Silent,
        );
        context.begin_kept("");
        let senders = simulate(Duration::from_secs(2), &context).unwrap();
        let shown = content(&senders, "tollgate experiment run congestion");
        assert_eq!(shown.figures.len(), 2);
        for figure in &shown.figures {
            let Figure::Lines { series, .. } = figure else {
                panic!("lines");
            };
            let labels: Vec<&str> = series.iter().map(|line| line.label.as_str()).collect();
            assert_eq!(labels, ["CUBIC", "NewReno"]);
            assert!(series.iter().all(|line| line.points.len() >= 19));
        }
        let rows = &shown.tables[0].rows;
        let lost = |row: &Row| row.cells[4].number().unwrap();
        assert_eq!((lost(&rows[0]), lost(&rows[1])), (0.0, 0.0));
        assert!(lost(&rows[2]) > 0.0 && lost(&rows[3]) > 0.0);
        let goodput = |row: &Row| row.cells[0].number().unwrap();
        assert!(rows.iter().all(|row| goodput(row) > 0.0));

        // Each seed loses other segments: with loss the mean is known to an interval.
        for row in &rows[2..] {
            let measured = row.cells[0].measured().unwrap();
            let interval = measured.ci.unwrap();
            assert_eq!(measured.n, Some(LEAST_SEEDS));
            assert!(interval.low < interval.high, "{interval:?}");
        }
        let trust = shown.trust.iter().map(|line| &line.text);
        assert!(trust.clone().any(|text| text.contains("mean over 3 seeds")));
    }
}

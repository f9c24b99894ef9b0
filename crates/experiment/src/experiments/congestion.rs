//! `congestion`: congestion windows over time, NewReno and CUBIC, with and without random loss.
//!
//! Both ends are Tollgate's stack, over a simulated line in virtual time ([`tollgate_simulation`]), so that every number is exact and the
//! same on every machine.

use std::num::NonZeroU64;
use std::time::Duration;

use tollgate_run::{
    Axis, Cell, Column, Figure, Point, Row, Scale, Series, Source, Table, Unit, format, present,
};
use tollgate_simulation::{CongestionControl, Line, Outcome, Probability, Sample, Transfer};

use super::{Content, Experiment, Reported};
use crate::claim::{Evidence, Finding, FindingText};
use crate::context::{Context, Options};
use crate::error::Error;

/// Megabits per second of the line.
const MEGABITS: NonZeroU64 = NonZeroU64::new(100).unwrap();
/// Round trip of the line, milliseconds.
const ROUND_TRIP: u64 = 20;
/// Frames out of a million that are lost at random, in the two halves of the experiment.
const LOSSES: [u32; 2] = [0, 1_000];
/// Virtual time that a transfer lasts.
const LASTS: Duration = Duration::from_secs(20);
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

    fn weight(&self) -> u32 {
        0
    }

    fn concerns(&self, options: &Options) -> bool {
        options.want_stack_memory()
    }

    /// It comes to the same whatever the options are.
    fn command(&self, _: &Options) -> String {
        crate::layout::command(self.name(), &Options::default())
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let mut transfers = Vec::new();
        for loss in LOSSES {
            for &control in CongestionControl::ALL {
                if context.cancel.is_raised() {
                    return Err(Error::Stopped);
                }
                transfers.push(Simulated::new(control, loss, LASTS)?);
            }
        }
        Ok(content(&transfers, command))
    }
}

/// A transfer that was simulated.
struct Simulated {
    control: CongestionControl,
    /// Frames out of a million that were lost at random.
    loss: u32,
    lasts: Duration,
    outcome: Outcome,
}

impl Simulated {
    fn new(control: CongestionControl, loss: u32, lasts: Duration) -> Result<Self, Error> {
        let fail = |reason: String| Error::Simulation { reason };
        let rate = MEGABITS.saturating_mul(NonZeroU64::new(1_000_000).unwrap_or(NonZeroU64::MIN));
        let mut line = Line::new(rate, Duration::from_millis(ROUND_TRIP));
        line.loss = Probability::from_ppm(loss).map_err(|error| fail(error.to_string()))?;
        let mut transfer = Transfer::new(line, lasts);
        transfer.sampled_every = SAMPLED_EVERY;
        transfer.mechanisms.congestion = control;
        let outcome = transfer.run().map_err(|error| fail(error.to_string()))?;
        Ok(Self {
            control,
            loss,
            lasts,
            outcome,
        })
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

    /// Bytes of payload per second.
    fn goodput(&self) -> f64 {
        self.outcome.delivered() as f64 / self.lasts.as_secs_f64()
    }

    /// The windows, from the time on when there is a connection.
    fn windows(&self) -> impl Iterator<Item = (&Sample, f64)> {
        let samples = self.outcome.samples.iter();
        samples.filter_map(|sample| {
            let window = sample.windows.first()?.congestion;
            (window != 0).then_some((sample, f64::from(window)))
        })
    }

    fn mean_window(&self) -> f64 {
        let sum: f64 = self.windows().map(|(_, window)| window).sum();
        sum / self.windows().count().max(1) as f64
    }
}

/// The loss of a half of the experiment, in words.
fn condition(loss: u32) -> String {
    match loss {
        0 => "no random loss".to_owned(),
        loss => format!("{} % lost at random", f64::from(loss) / 10_000.0),
    }
}

fn content(transfers: &[Simulated], command: &str) -> Content {
    Content {
        finding: finding(transfers),
        tables: vec![table(transfers)],
        figures: LOSSES
            .iter()
            .filter_map(|&loss| figure(transfers, loss, command))
            .collect(),
        trust: vec![
            present::note(format!(
                "one connection of stack-memory over a simulated line of {MEGABITS} Mb/s and {ROUND_TRIP} ms, whose queue holds what is on \
                 it and drops at its tail; {} s of virtual time, no clock is read",
                LASTS.as_secs()
            )),
            present::note("random loss comes from one seed; another seed loses other segments"),
        ],
    }
}

fn table(transfers: &[Simulated]) -> Table {
    let row = |one: &Simulated| -> Row {
        let outcome = &one.outcome;
        let flows = outcome.flows.iter();
        let sum = |of: fn(&tollgate_simulation::Flow) -> u32| -> f64 {
            flows.clone().map(|flow| f64::from(of(flow))).sum()
        };
        let numbers = [
            one.goodput(),
            100.0 * outcome.utilisation(),
            one.mean_window(),
            outcome.dropped as f64,
            outcome.lost as f64,
            sum(|flow| flow.retransmits),
            sum(|flow| flow.timeouts),
        ];
        present::plain_row(one.label(), numbers.map(Cell::exact).to_vec())
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
        title: "Transfers over the simulated line".to_owned(),
        columns: columns
            .map(|(name, unit)| Column {
                name: name.to_owned(),
                unit,
            })
            .to_vec(),
        rows: transfers.iter().map(row).collect(),
    }
}

/// The windows with so much random loss; none where no transfer has it.
fn figure(transfers: &[Simulated], loss: u32, command: &str) -> Option<Figure> {
    let of_loss = transfers.iter().filter(|one| one.loss == loss);
    let series: Vec<Series> = of_loss
        .map(|one| Series {
            label: one.name().to_owned(),
            points: one
                .windows()
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
        title: format!("Congestion window over time, {}", condition(loss)),
        x: axis("time", Unit::Nanoseconds),
        y: axis("congestion window", Unit::Bytes),
        series,
        command: command.to_owned(),
    })
}

/// Says what each controller carries of the line with random loss.
fn finding(transfers: &[Simulated]) -> FindingText {
    let mut finding = Finding::default();
    let mut shares = Vec::new();
    let most = LOSSES.into_iter().max().unwrap_or(0);
    for one in transfers.iter().filter(|one| one.loss == most) {
        let share = Evidence::counted(one.outcome.delivered(), one.outcome.capacity).share();
        let name = format!("the part of the line that {} fills", one.label());
        if let Some(share) = finding.claim(name, share) {
            shares.push(format!("{} fills {:.0} %", one.name(), share.value()));
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

    #[test]
    fn windows_of_both_controllers_are_drawn_with_and_without_loss() {
        let lasts = Duration::from_secs(2);
        let simulated = |control, loss| Simulated::new(control, loss, lasts).unwrap();
        let transfers: Vec<Simulated> = LOSSES
            .into_iter()
            .flat_map(|loss| {
                CongestionControl::ALL
                    .iter()
                    .map(move |&control| simulated(control, loss))
            })
            .collect();
        let shown = content(&transfers, "tollgate experiment run congestion");
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
    }
}

//! `foong-offload`: what computing checksums and cutting segments in the device saves; after Foong et al. 2003, section 5.3.
//!
//! It takes a device whose features are the run's own to switch: the pair of `kernel-veth`, one for each state, at both ends. That
//! device is memory, so what it takes off the protocol nobody does; a saving here is the most that any device could give.
//! Loopback's checksum offload is fixed, and its segmentation belongs to everyone on the host, so nothing is switched there.
//!
//! The paper offloads the receiving side alone. A veth device verifies nothing: its receiver trusts a checksum that the sender
//! left to the device. So the receiving side is told by functions: what it does does not depend on who computed the checksum.
//!
//! Tollgate's stack without checksums is what a device that sums would leave of it; its receiving end is told apart by a clock. Over links to
//! the kernel it leaves segmentation to that, or cuts segments itself (`foong_segmentation`).

use std::path::Path;
use std::time::Duration;

use tollgate_papers as papers;
use tollgate_run::{
    self as run, Cell, Interval, Measured, Mode, Offload, PathId, Source, Table, Unit, format,
    present,
};
use tollgate_sampling::{Categories, Classifier, nominal_hz};
use tollgate_stats as stats;
use tollgate_workload::Sockets;
use tollgate_workload::config::{ChecksumPolicy, Receive, Segmentation, Transmit};

use super::foong_hz::{column, source, unavailable};
use super::{Content, Experiment, Reported, Uses, foong_segmentation, uses};
use crate::claim::{Claim, Evidence, Finding, operations};
use crate::context::{Context, Options};
use crate::ends::{self, StackEnds};
use crate::error::Error;
use crate::layout;
use crate::sampled::{self, Mean, Round, Sampled, Split, Subject, Survey};
use crate::streams::{self, Load, RECEIVE, all_ns, per_byte};
use crate::switched::Comparison;
use crate::turns::Rounds;

const PATH: PathId = PathId::KernelVeth;
/// Sizes of a write; the smallest is that of the paper's text.
const SIZES: [usize; 4] = [64, 1_024, 8_192, 65_536];
/// For each size and state, when nobody is in a hurry.
const EACH: Duration = Duration::from_millis(2_000);
/// The states, each with less done by the device than the one before.
const STATES: [(Offload, &str); 3] = [
    (Offload::Both, "Both on"),
    (Offload::Checksum, "Checksum only"),
    (Offload::Neither, "Both off"),
];
/// Differences between neighbouring states: the name, and the places of the states with the offload and without it.
const SAVINGS: [(&str, usize, usize); 2] = [("segmentation", 0, 1), ("checksum", 1, 2)];

/// Offload on and off.
pub(super) struct FoongOffload;

impl Experiment for FoongOffload {
    fn name(&self) -> &'static str {
        "foong-offload"
    }

    fn title(&self) -> &'static str {
        "Checksum and segmentation offload"
    }

    fn paper(&self) -> Option<Source> {
        source("Figs. 14 and 15, section 5.3")
    }

    fn summary(&self) -> &'static str {
        "what offloading checksums and segmentation saves a stream: a veth pair of its own, and our stack"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet {
            but: &[
                ChecksumPolicy::NAME,
                Receive::NAME,
                Transmit::NAME,
                Segmentation::NAME,
            ],
        }
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        mode(options).is_some()
            || options.want_stack_memory()
            || foong_segmentation::is_wanted(options)
    }

    fn measure(&self, context: &mut Context<'_>, _: &str) -> Result<Content, Error> {
        // First, since samples take what time is left.
        let stack = match context.options.want_stack_memory() {
            true => Some(ends::of_stack(self.name(), context)?),
            false => None,
        };
        let mut finding = Finding::default();
        let cut = segmentation(self.name(), context)?;
        let kernel = mode(&context.options);
        let cut = match (cut, &stack, kernel) {
            // There is nothing else to show.
            (Some(Err(error)), None, None) => return Err(error),
            (cut, ..) => cut,
        };
        if stack.is_none() && cut.is_none() && kernel.is_none() {
            return Err(Error::NothingToRun {
                workload: tollgate_run::Workload::Stream,
                asked: context.options.restrictions(),
            });
        }
        let ours = |finding: &mut Finding| ours(stack.as_deref(), cut, finding, &context.options);
        let Some(mode) = kernel else {
            let content = ours(&mut finding);
            return Ok(Content {
                finding: finding.finish(),
                ..content
            });
        };
        let loads: Vec<Load> = context
            .options
            .sizes_or(&SIZES)
            .into_iter()
            .map(Load::in_cache)
            .collect();
        let sampled = sampled::survey(self.name(), subjects(&loads, mode), EACH, context)?;
        let hz = nominal_hz(Path::new("/")).map_err(|error| error.to_string());
        let mut content = match (sampled, hz) {
            (Sampled::Measured(survey), Ok(hz)) => {
                let groups = context.options.categories.clone();
                shown(
                    &survey,
                    &loads,
                    hz,
                    groups.unwrap_or_else(Categories::foong),
                    &mut finding,
                )
            }
            (Sampled::Unavailable(reason), _) | (_, Err(reason)) => unavailable(&reason),
        };
        let ours = ours(&mut finding);
        content.tables.extend(ours.tables);
        content.trust.extend(ours.trust);
        if !finding.is_empty() {
            content.finding = finding.finish();
        }
        Ok(content)
    }
}

/// Share of the time that is left for streams of our stack to the kernel.
const CUT_SHARE: f64 = 0.3;

/// Streams of our stack with segmentation left to the kernel and without, or why there are none; none where no such path is wanted.
fn segmentation(
    experiment: &'static str,
    context: &mut Context<'_>,
) -> Result<Option<Result<Comparison, Error>>, Error> {
    if !foong_segmentation::is_wanted(&context.options) {
        return Ok(None);
    }
    let sizes = context.options.sizes_or(&SIZES);
    let cut = context.within_share(CUT_SHARE, |context| {
        foong_segmentation::measure(experiment, &sizes, context)
    });
    match cut {
        Err(Error::Stopped) => Err(Error::Stopped),
        cut => Ok(Some(cut)),
    }
}

/// Tables of our stack; the sentences on them go to `finding`.
fn ours(
    stack: Option<&StackEnds>,
    cut: Option<Result<Comparison, Error>>,
    finding: &mut Finding,
    options: &Options,
) -> Content {
    let mut content = match stack {
        Some(stack) => of_stack(stack, finding),
        None => Content {
            finding: Finding::default().finish(),
            tables: Vec::new(),
            figures: Vec::new(),
            trust: Vec::new(),
        },
    };
    match cut {
        Some(Ok(comparison)) => {
            content
                .tables
                .extend(foong_segmentation::tables(&comparison, finding));
            content.trust.push(foong_segmentation::note());
            content
                .trust
                .extend(layout::remarks(&comparison.outcome, "writes"));
        }
        Some(Err(error)) => content.trust.push(present::warning(format!(
            "segmentation behind our stack is left out: {error}"
        ))),
        None => {}
    }
    if !content.tables.is_empty() {
        content.trust.extend(uses::note(options));
    }
    content
}

/// Savings of our stack's ends without checksums; the sentence on them goes to `finding`.
fn of_stack(stack: &StackEnds, finding: &mut Finding) -> Content {
    let [always, off] = &stack.times;
    let published = papers::fact("foong-2003/checksum-offload-gain").and_then(|fact| {
        let source = source(&format!("section {}", fact.place))?;
        Some(present::published_cell(Some(fact.value), &source))
    });
    let last = stack.sizes.len().saturating_sub(1);
    let places = stack.sizes.iter().zip(always).zip(off).enumerate();
    let rows = places.map(|(at, ((&size, with), without))| {
        let saved = |with: &Rounds, without: &Rounds| without.saved_of(with).cell();
        // The text gives one figure, and says of small writes only that the gain is the largest there.
        let then = published.clone().filter(|_| at == last);
        let cells = vec![
            with.receive.cell(),
            without.receive.cell(),
            saved(&with.receive, &without.receive),
            then.unwrap_or_else(|| Cell::text("-")),
            with.transmit.cell(),
            without.transmit.cell(),
            saved(&with.transmit, &without.transmit),
        ];
        present::plain_row(format::size(size), cells)
    });
    if let (Some(&size), Some(with), Some(without)) =
        (stack.sizes.last(), always.last(), off.last())
    {
        let ratio = without.receive.ratio(&with.receive);
        let what = format!("receiving without checksums for {}", format::size(size));
        if let Some(amount) = finding.comparison(what, ratio, Claim::amount_against) {
            finding.say(format!(
                "without checksums receiving writes of {} takes our stack, against checksums, {amount}",
                format::bytes(size)
            ));
        }
    }
    Content {
        finding: Finding::default().finish(),
        tables: vec![Table {
            id: "receive-stack".to_owned(),
            title: "Time of each end in Tollgate's stack for each byte, with checksums and without"
                .to_owned(),
            columns: vec![
                column("Receive", Unit::NanosecondsPerByte),
                column("Receive, off", Unit::NanosecondsPerByte),
                column("Receive, saved", Unit::Percent),
                column("saved, 2003", Unit::Percent),
                column("Transmit", Unit::NanosecondsPerByte),
                column("Transmit, off", Unit::NanosecondsPerByte),
                column("Transmit, saved", Unit::Percent),
            ],
            rows: rows.collect(),
        }],
        figures: Vec::new(),
        trust: vec![present::note(
            "our stack sums in the copy by default; off, it copies alone and neither computes nor verifies, which is what a device \
             that sums leaves. Both \
             ends take turns in one thread, told apart by a clock; savings are of rounds that took turns, with the error of their median",
        )],
    }
}

/// The mode of the path, where the options want it.
fn mode(options: &Options) -> Option<Mode> {
    let wanted = streams::stream_paths(options).contains(&PATH);
    wanted.then(|| streams::mode(PATH, options)).flatten()
}

/// Every state over the loads.
fn subjects(loads: &[Load], mode: Mode) -> Vec<Subject> {
    let of = |(offload, label): &(Offload, &str)| {
        let sockets = Sockets {
            offload: *offload,
            ..Sockets::PLAIN
        };
        let label = label.to_lowercase();
        let subject = move |load: &Load| Subject {
            label: format!("{label}, {}", load.label()),
            path: PATH,
            spec: load.spec(mode, sockets),
        };
        loads.iter().map(subject).collect::<Vec<_>>()
    };
    STATES.iter().flat_map(of).collect()
}

/// Shows what was sampled; the sentence on it goes to `finding`.
fn shown(
    survey: &Survey,
    loads: &[Load],
    hz: f64,
    groups: Categories,
    finding: &mut Finding,
) -> Content {
    let by = |categories: &Categories| -> Vec<Vec<Split>> {
        let mut classifier = Classifier::new(categories.clone());
        (0..survey.subjects.len())
            .map(|at| survey.splits(at, &mut classifier))
            .collect()
    };
    let view = View {
        survey,
        loads,
        hz,
        splits: by(&groups),
        directions: by(&Categories::direction()),
    };
    let mut tables = vec![view.raw(), view.receive(), view.costs()];
    tables.extend(view.by_group(&groups));
    let mut trust = survey.trust(&groups);
    trust.push(survey.covered(&groups));
    trust.push(present::note(
        "the device of a veth pair is memory: a checksum that it takes over is computed by nobody, and a large segment passes \
         whole, so a saving is the most that any device could give",
    ));
    trust.push(present::note(
        "each state has a veth pair of its own, switched at both ends: checksums out and in, TSO, GSO and GRO; without \
         checksum offload there is no TSO, so segmentation is told with checksums on, and checksums with segmentation off",
    ));
    trust.push(present::note(
        "a veth device verifies no checksum, so the receiving side is told by functions: from the device to the reader's memory; \
         what checksum offload saves there is the sum that the receiver does not make",
    ));
    trust.push(present::note(
        "utilisation is the processor time of both ends by the process's clock, without the sampler, for each time that passed: \
         100 % is one processor busy all the time; the paper's is that of the receiving host",
    ));
    trust.push(present::note(
        "a saving is told only where the confidence intervals of the two states do not overlap",
    ));
    view.say(finding);
    Content {
        finding: Finding::default().finish(),
        tables,
        figures: Vec::new(),
        trust,
    }
}

/// Measurements, by state and then by load.
struct View<'a> {
    survey: &'a Survey,
    loads: &'a [Load],
    hz: f64,
    /// By function group.
    splits: Vec<Vec<Split>>,
    /// By direction.
    directions: Vec<Vec<Split>>,
}

/// Rounds of every state and load, by categories.
type Splits = [Vec<Split>];
/// Figure of a round, in ns.
type Figured<'a> = &'a dyn Fn(&Split) -> f64;

/// Saving by a device.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Saving {
    /// Percent of the time without it, with the interval; less than zero where it costs.
    Percent(f64, Interval),
    /// The intervals of the two states overlap.
    NoDifference,
}

impl Saving {
    fn cell(self) -> Cell {
        match self {
            Self::Percent(value, ci) => Cell::Value(Measured {
                value,
                ci: Some(ci),
                ..Measured::default()
            }),
            Self::NoDifference => Cell::text("none seen"),
        }
    }
}

/// The saving of the rounds with offload over those without.
fn saving(with: &[f64], without: &[f64]) -> Option<Saving> {
    let common = with.len().min(without.len());
    let (with, without) = (&with[..common], &without[..common]);
    let (a, b) = (Mean::of(with)?.interval()?, Mean::of(without)?.interval()?);
    if a.low <= b.high && b.low <= a.high {
        return Some(Saving::NoDifference);
    }
    let ratio = stats::ratio(with, without).ok()?;
    let percent = |ratio: f64| 100.0 * (1.0 - ratio);
    let interval = Interval {
        low: percent(ratio.interval.high),
        high: percent(ratio.interval.low),
    };
    Some(Saving::Percent(percent(ratio.value), interval))
}

impl View<'_> {
    fn place(&self, state: usize, load: usize) -> usize {
        state * self.loads.len() + load
    }

    fn missing(&self, state: usize, load: usize) -> Cell {
        let failure = &self.survey.observed[self.place(state, load)].failure;
        Cell::NotAvailable {
            reason: failure
                .clone()
                .unwrap_or_else(|| "the run was stopped before it came to this".to_owned()),
        }
    }

    /// ns for each byte of each round.
    fn each(
        &self,
        splits: &Splits,
        (state, load): (usize, usize),
        figure: Figured<'_>,
    ) -> Vec<f64> {
        let rounds = splits[self.place(state, load)].iter();
        rounds
            .map(|split| figure(split) / split.bytes.max(1) as f64)
            .collect()
    }

    /// A row's cells: the states, and what tells two neighbouring ones apart. `factor` brings ns for each byte to the unit.
    fn cells(&self, splits: &Splits, load: usize, factor: f64, figure: Figured<'_>) -> Vec<Cell> {
        let state = |state: usize| {
            let rounds = &splits[self.place(state, load)];
            let mean = per_byte(rounds, |split| figure(split) * factor);
            mean.map_or_else(|| self.missing(state, load), |mean| mean.cell())
        };
        let saved = |&(_, with, without): &(&str, usize, usize)| {
            let with = self.each(splits, (with, load), figure);
            let rounds = self.each(splits, (without, load), figure);
            match saving(&with, &rounds) {
                Some(saving) => saving.cell(),
                None if rounds.is_empty() => self.missing(without, load),
                None => Cell::NotAvailable {
                    reason: "there are rounds without a sample of it".to_owned(),
                },
            }
        };
        let states = (0..STATES.len()).map(state);
        states.chain(SAVINGS.iter().map(saved)).collect()
    }

    fn columns(unit: Unit) -> Vec<run::Column> {
        let states = STATES.iter().map(|(_, label)| column(*label, unit));
        let savings = SAVINGS
            .iter()
            .map(|(name, _, _)| column(format!("saved by {name}"), Unit::Percent));
        states.chain(savings).collect()
    }

    /// Throughput, and the processor time that it takes, as the paper's Fig. 14 has it.
    fn raw(&self) -> Table {
        let mean = |state: usize, load: usize, figure: fn(&Round) -> f64| {
            let rounds = self.survey.observed[self.place(state, load)].rounds.iter();
            let mean = Mean::of(&rounds.map(figure).collect::<Vec<_>>());
            mean.map_or_else(|| self.missing(state, load), |mean| mean.cell())
        };
        let rows = self.loads.iter().enumerate().map(|(load, what)| {
            let cells = (0..STATES.len()).flat_map(|state| {
                [
                    mean(state, load, Round::throughput),
                    mean(state, load, |round| 100.0 * round.utilisation()),
                ]
            });
            present::plain_row(what.label(), cells.collect())
        });
        let columns = STATES.iter().flat_map(|(_, label)| {
            [
                column(*label, Unit::BytesPerSecond),
                column(format!("{label}, processors"), Unit::Percent),
            ]
        });
        Table {
            id: "raw".to_owned(),
            title: "Throughput and processor utilisation, both ends, by size of a write".to_owned(),
            columns: columns.collect(),
            rows: rows.collect(),
        }
    }

    /// Cycles for each bit of the receiving end alone, as the paper's Fig. 15 has it.
    fn receive(&self) -> Table {
        let last = self.loads.len().saturating_sub(1);
        let published = papers::fact("foong-2003/checksum-offload-gain").and_then(|fact| {
            let source = source(&format!("section {}", fact.place))?;
            Some(present::published_cell(Some(fact.value), &source))
        });
        let rows = self.loads.iter().enumerate().map(|(load, what)| {
            let mut cells = self.cells(&self.directions, load, self.per_bit(), &|split| {
                split.category_ns(RECEIVE)
            });
            // The text gives one figure, and says of small writes only that the gain is the largest there.
            let then = published.clone().filter(|_| load == last);
            cells.push(then.unwrap_or_else(|| Cell::text("-")));
            present::plain_row(what.label(), cells)
        });
        let mut columns = Self::columns(Unit::None);
        columns.push(column("saved by checksum, 2003", Unit::Percent));
        Table {
            id: "receive".to_owned(),
            title:
                "Processor cycles for each bit, Hz per bit/s, receiving alone, by size of a write"
                    .to_owned(),
            columns,
            rows: rows.collect(),
        }
    }

    /// Cycles for each bit, both ends.
    fn costs(&self) -> Table {
        let rows = self.loads.iter().enumerate().map(|(load, what)| {
            let cells = self.cells(&self.splits, load, self.per_bit(), &all_ns);
            present::plain_row(what.label(), cells)
        });
        Table {
            id: "offload".to_owned(),
            title: "Processor cycles for each bit, Hz per bit/s, both ends, by size of a write"
                .to_owned(),
            columns: Self::columns(Unit::None),
            rows: rows.collect(),
        }
    }

    /// Cycles for each bit of what takes one ns for each byte.
    fn per_bit(&self) -> f64 {
        self.hz / 1e9 / 8.0
    }

    /// The largest write by function group.
    fn by_group(&self, groups: &Categories) -> Option<Table> {
        let load = self.loads.len().checked_sub(1)?;
        let names = groups.categories.iter().map(|group| group.name.as_str());
        let names = names.chain([groups.other.as_str()]);
        let rows = names.enumerate().map(|(group, name)| {
            let figure = move |split: &Split| split.category_ns(group);
            present::plain_row(name, self.cells(&self.splits, load, 1.0, &figure))
        });
        Some(Table {
            id: "groups".to_owned(),
            title: format!(
                "Time in the kernel for each byte by function group, writes of {}",
                self.loads[load].label()
            ),
            columns: Self::columns(Unit::NanosecondsPerByte),
            rows: rows.collect(),
        })
    }

    /// Says the saving of each offload at the largest write, and at the receiving end.
    fn say(&self, finding: &mut Finding) {
        let Some(load) = self.loads.len().checked_sub(1) else {
            return;
        };
        let label = self.loads[load].label();
        let receive = |split: &Split| split.category_ns(RECEIVE);
        let sides: [(&str, &Splits, Figured<'_>); 2] = [
            ("both ends together", &self.splits, &all_ns),
            ("receiving alone", &self.directions, &receive),
        ];
        for (side, splits, figure) in sides {
            for (name, with, without) in SAVINGS {
                let [a, b] = [with, without].map(|state| self.each(splits, (state, load), figure));
                let fewest = [with, without]
                    .map(|state| operations(&splits[self.place(state, load)]))
                    .into_iter()
                    .min();
                let quotient = Evidence::quotient(&a, &b, fewest.unwrap_or_default());
                let what = format!("what {name} offload saves {side}");
                let Some(quotient) = finding.claim(what, quotient.and_then(Evidence::amount))
                else {
                    continue;
                };
                let of = format!("for writes of {label}, {side}");
                finding.say(match (saving(&a, &b), quotient.amount_against()) {
                    (Some(Saving::Percent(..)), Some(less)) => {
                        format!(
                            "{of}, {name} offload takes {less} processor time than doing without"
                        )
                    }
                    _ => format!("{of}, {name} offload shows no difference"),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_within_the_intervals_is_none() {
        let near = saving(&[1.0, 1.2, 0.9, 1.1], &[1.05, 1.1, 1.15, 1.0]);
        assert_eq!(near, Some(Saving::NoDifference));
        let Some(Saving::Percent(value, ci)) =
            saving(&[1.0, 1.01, 0.99, 1.0], &[2.0, 2.01, 1.99, 2.0])
        else {
            panic!("a difference");
        };
        assert!((value - 50.0).abs() < 1.0 && ci.low < value && value < ci.high);
        let Some(Saving::Percent(worse, _)) =
            saving(&[2.0, 2.01, 1.99, 2.0], &[1.0, 1.01, 0.99, 1.0])
        else {
            panic!("a difference");
        };
        assert!(worse < -90.0, "{worse}");
        assert_eq!(saving(&[1.0], &[2.0]), None);
    }

    #[test]
    fn our_stack_stands_with_checksums_and_without() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            sizes: Some(vec![64, 65_536]),
            iterations: Some(16),
            repetitions: Some(2),
            ..Options::default()
        };
        let cancel = crate::context::Cancel::default();
        let mut context = Context::new(options, None, cancel, &crate::context::Silent);
        let content = FoongOffload.measure(&mut context, "command").unwrap();
        let [table] = &content.tables[..] else {
            panic!("one table");
        };
        assert_eq!(table.columns.len(), 7);
        // The paper has a figure for large writes only.
        assert_eq!(table.rows[0].cells[3].number(), None);
        assert_eq!(table.rows[1].cells[3].number(), Some(10.0));
        let measured = [0, 1, 4, 5].map(|at| table.rows[1].cells[at].number().unwrap());
        assert!(measured.iter().all(|ns| *ns > 0.0));
    }

    #[test]
    fn subjects_stand_by_state_and_then_by_load() {
        let loads: Vec<Load> = SIZES.into_iter().map(Load::in_cache).collect();
        let mode = mode(&Options::default()).unwrap();
        let subjects = subjects(&loads, mode);
        assert_eq!(subjects.len(), STATES.len() * loads.len());
        for (state, (offload, _)) in STATES.iter().enumerate() {
            let spec = &subjects[state * loads.len() + 1].spec;
            assert_eq!((spec.sockets.offload, spec.size), (*offload, SIZES[1]));
        }
    }
}

//! Values of one mechanism against each other: a variant of each path for each value, run in turns, and what one value saves of
//! another, beside the published saving.
//!
//! It owns the variants, the table of savings and the sentence that is made of them. It must never decide which mechanism is
//! compared, nor at which sizes: an experiment does.

use tollgate_papers as papers;
use tollgate_run::{
    Cell, Column, Interval, Measured, Offload, PathId, Series, Table, Unit, Workload, format,
    present,
};
use tollgate_workload::Mechanisms;

use crate::claim::{Claim, Finding};
use crate::compare;
use crate::context::{Context, ITERATIONS, Options, REPETITIONS};
use crate::error::Error;
use crate::experiments::Content;
use crate::interleave::{self, Matrix, Switched, Variant};
use crate::layout;
use crate::outcome::{Figure, Outcome};

const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;
/// The paths whose stack is Tollgate's.
pub(crate) const STACKS: [PathId; 2] = [PathId::StackMemory, PathId::StackShm];
/// Those, and the kernel's path whose devices belong to the run, so that it may switch them.
pub(crate) const STACKS_AND_KERNEL: [PathId; 3] = [PathId::StackMemory, PathId::StackShm, KERNEL];
/// The kernel's path whose devices belong to the run, so that it may switch them.
const KERNEL: PathId = PathId::KernelVeth;

/// The MTU of a paper's network, unless the link that was asked for has its own.
pub(crate) fn network_mtu(options: &Options, of_paper: Option<usize>) -> Option<usize> {
    match options.link.mtu() {
        None => of_paper,
        Some(_) => None,
    }
}

/// A value of a mechanism.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Its part of the label of a row, such as `prediction off`.
    pub(crate) label: &'static str,
    /// Gives mechanisms this value.
    pub(crate) set: fn(Mechanisms) -> Mechanisms,
    /// The state of the kernel's devices that does the same; none where the kernel has no such switch. Those come last, so that places among the settings hold on all paths.
    pub(crate) offload: Option<Offload>,
}

/// Plan of a comparison between settings of a mechanism.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) experiment: &'static str,
    pub(crate) workload: Workload,
    /// Its messages are datagrams.
    pub(crate) datagrams: bool,
    pub(crate) settings: &'a [Setting],
    /// The paths of Tollgate's stack that have the mechanism.
    pub(crate) paths: &'a [PathId],
    /// The largest IP packet on all paths, in bytes; as each has it unless given.
    pub(crate) mtu: Option<usize>,
}

/// The variants of one path, which differ in the mechanism only, in the order of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) path: PathId,
    pub(crate) variants: Vec<usize>,
}

impl Line {
    /// The variants with and without what saves; none where the path lacks one of the settings.
    pub(crate) fn pair(&self, saving: Saving) -> Option<(usize, usize)> {
        let variant = |setting: usize| self.variants.get(setting).copied();
        variant(saving.with).zip(variant(saving.without))
    }
}

/// Measurements of a comparison.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) outcome: Outcome,
    pub(crate) lines: Vec<Line>,
}

impl Plan<'_> {
    /// Runs all values over the sizes on the paths that the options want: the userspace stacks, and the kernel's own devices where
    /// they have the switch.
    ///
    /// # Errors
    /// [`Error::NothingToRun`] where no path fits, and those of [`interleave::run`].
    pub(crate) fn run(&self, sizes: &[usize], context: &Context<'_>) -> Result<Comparison, Error> {
        let (matrix, lines) = self.matrix(context)?;
        let outcome = interleave::run(self.experiment, matrix, sizes, context)?;
        Ok(Comparison { outcome, lines })
    }

    fn matrix(&self, context: &Context<'_>) -> Result<(Matrix, Vec<Line>), Error> {
        let options = &context.options;
        let (mut variants, mut lines, mut unavailable) = (Vec::new(), Vec::new(), Vec::new());
        let of_kernel = self.settings.iter().filter(|one| one.offload.is_some());
        let in_kernel = of_kernel.count() > 1;
        let ours = self.paths.iter().copied();
        let paths = ours.chain(in_kernel.then_some(KERNEL));
        let paths: Vec<PathId> = paths.collect();
        for &path in options.paths.as_deref().unwrap_or(&paths) {
            if !paths.contains(&path) {
                unavailable.push((
                    path.to_string(),
                    format!("{path} does not have this switch"),
                ));
                continue;
            }
            // Waking a processor takes longer than all that the kernel's path does; the stacks poll.
            let capabilities = options.capabilities(path);
            let mode = capabilities.and_then(|capabilities| match path {
                KERNEL => options.gated_mode(&capabilities),
                _ => options.modes(&capabilities).first().copied(),
            });
            let Some(mode) = mode else { continue };
            let first = variants.len();
            let settings = self.settings.iter();
            let settings = settings.filter(|one| path != KERNEL || one.offload.is_some());
            variants.extend(settings.map(|setting| {
                let variant = Variant::new(path, mode);
                let variant = Variant {
                    mtu: self.mtu,
                    datagrams: self.datagrams,
                    ..variant
                };
                match setting.offload {
                    Some(offload) if path == KERNEL => Variant { offload, ..variant },
                    _ => Variant {
                        switched: Some(Switched {
                            mechanisms: (setting.set)(options.mechanisms),
                            label: Some(setting.label),
                        }),
                        ..variant
                    },
                }
            }));
            lines.push(Line {
                path,
                variants: (first..variants.len()).collect(),
            });
        }
        if variants.is_empty() {
            return Err(Error::NothingToRun {
                workload: self.workload,
                asked: options.restrictions(),
            });
        }
        let matrix = Matrix {
            workload: self.workload,
            variants,
            unavailable,
        };
        Ok((matrix, lines))
    }
}

/// Saving of one setting over another, by their places among the settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saving {
    pub(crate) with: usize,
    pub(crate) without: usize,
    /// The figure of which it saves; of a rate it is what is gained.
    pub(crate) figure: Figure,
}

impl Saving {
    /// A quotient of costs as what is saved, or of rates as what is gained, in hundredths.
    fn percent(self, ratio: f64) -> f64 {
        match self.figure {
            Figure::Median | Figure::PerByte | Figure::ProcessorPerByte => 100.0 * (1.0 - ratio),
            Figure::Rate => 100.0 * (ratio - 1.0),
        }
    }

    /// A ratio that shows a difference, in words: with its range where that is wider than a tenth of it.
    fn text(self, ratio: &Claim) -> String {
        let interval = ratio.interval();
        let ends = [interval.low, interval.high].map(|end| self.percent(end));
        let percent = self.percent(ratio.value());
        let off = ends.map(|end| (end - percent).abs());
        if off[0].max(off[1]) <= (0.1 * percent.abs()).max(0.5) {
            return amount(percent, self.figure);
        }
        let [least, most] = ends.map(f64::abs);
        let range = format::between(least.min(most), least.max(most));
        format!("{range} % {}", word(percent, self.figure))
    }
}

impl Comparison {
    /// The saving on one path at one size.
    pub(crate) fn cell(&self, line: &Line, at: usize, saving: Saving) -> Cell {
        let Some((with, without)) = line.pair(saving) else {
            return Cell::NotAvailable {
                reason: format!("{} has no such switch", line.path),
            };
        };
        let Some(ratio) = self.outcome.ratio(with, without, at, saving.figure) else {
            let measured = &self.outcome.measurements;
            let failure = [with, without]
                .into_iter()
                .find_map(|variant| measured[variant][at].failure.clone());
            return Cell::NotAvailable {
                reason: failure
                    .unwrap_or_else(|| "one of the two was not measured often enough".to_owned()),
            };
        };
        let ends = [ratio.interval.low, ratio.interval.high].map(|end| saving.percent(end));
        let operations = |variant: usize| self.outcome.measurements[variant][at].operations();
        Cell::Value(Measured {
            value: saving.percent(ratio.value),
            ci: Some(Interval {
                low: ends[0].min(ends[1]),
                high: ends[0].max(ends[1]),
            }),
            n: Some(operations(with).min(operations(without))),
            ..Measured::default()
        })
    }

    /// The published savings, where there are such, and those of each path, over the sizes.
    pub(crate) fn savings(
        &self,
        id: &str,
        title: &str,
        saving: Saving,
        published: Option<&Published>,
    ) -> Table {
        let column = |name: String| Column {
            name,
            unit: Unit::Percent,
        };
        let lines = self.lines.iter();
        let columns = published
            .map(|published| column(published.year()))
            .into_iter()
            .chain(lines.map(|line| column(line.path.to_string())));
        let rows = self.outcome.sizes.iter().enumerate().map(|(at, &size)| {
            let ours = self.lines.iter().map(|line| self.cell(line, at, saving));
            let then = published.map(|published| published.saving(size));
            present::plain_row(format::size(size), then.into_iter().chain(ours).collect())
        });
        Table {
            id: id.to_owned(),
            title: title.to_owned(),
            columns: columns.collect(),
            rows: rows.collect(),
        }
    }

    /// Says what a setting saves at a size of each path: `clause` takes it up to the amount, as in `without checksums a round trip takes`.
    pub(crate) fn say(
        &self,
        at: usize,
        saving: Saving,
        clause: &str,
        published: Option<&Published>,
        finding: &mut Finding,
    ) {
        let size = self.outcome.sizes[at];
        let mut words = Vec::new();
        for line in &self.lines {
            let Some((with, without)) = line.pair(saving) else {
                continue;
            };
            let ratio = compare::ratio(&self.outcome, with, without, at, saving.figure);
            let what = format!("the difference on {} at {}", line.path, format::bytes(size));
            let shown = |ratio: &Claim| (!ratio.may_be(1.0)).then(|| saving.text(ratio));
            let Some(amount) = finding.comparison(what, ratio, shown) else {
                continue;
            };
            words.push(format!("{amount} on {}", line.path));
        }
        if words.is_empty() {
            return;
        }
        let then = published.and_then(|published| {
            let amount = amount(published.number(size)?, saving.figure);
            Some(format!(" ({}: {amount})", published.year()))
        });
        let then = then.unwrap_or_default();
        finding.say(format!("{clause} {}{then}", format::list(&words)));
    }

    /// The tables, the figure and the trust that all comparisons of round trips have. The sentence on savings follows what `finding` holds.
    pub(crate) fn content(
        &self,
        mut finding: Finding,
        saving: Saving,
        captions: &Captions<'_>,
        published: Option<&Published>,
        context: &Context<'_>,
        command: &str,
    ) -> Content {
        let outcome = &self.outcome;
        let sizes = &outcome.sizes;
        for at in captions.said_at(sizes) {
            let size = format::bytes(sizes[at]);
            let clause = format!("{} a round trip of {size} takes", captions.with);
            self.say(at, saving, &clause, published, &mut finding);
        }
        let mut tables = vec![
            self.savings("savings", captions.savings, saving, published),
            layout::table_by_size(
                "round-trips",
                "Round trip, median",
                Unit::Nanoseconds,
                outcome,
                Figure::Median,
            ),
        ];
        tables.extend(published.and_then(|published| {
            let title = format!("Round trip in {}, mean", published.year());
            published.table(&title, sizes)
        }));
        let figure = layout::lines_by_size(
            captions.figure,
            "Size of the message",
            ("Round trip, median", Unit::Nanoseconds),
            outcome,
            Figure::Median,
            published.map_or_else(Vec::new, |published| published.lines(sizes)),
            command,
        );
        let options = &context.options;
        let mut trust = layout::trust(
            outcome,
            options.iterations.unwrap_or(ITERATIONS),
            options.repetitions.unwrap_or(REPETITIONS),
            "round trips",
        );
        trust.push(present::note(
            "a saving is the median over the sessions of quotients of slices that ran in turns; it is below zero where the mechanism costs",
        ));
        Content {
            finding: finding.finish(),
            tables,
            figures: vec![figure],
            trust,
        }
    }
}

/// Titles and phrases of a comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captions<'a> {
    /// The beginning of the finding, such as `without checksums`.
    pub(crate) with: &'a str,
    /// The title of the table of savings.
    pub(crate) savings: &'a str,
    /// The title of the figure.
    pub(crate) figure: &'a str,
    /// The sizes that the finding tells of.
    pub(crate) said: SaidAt,
}

/// The sizes that a finding tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaidAt {
    /// The first.
    First,
    /// The last.
    Last,
    /// Those of these that are measured; the last where none is.
    Among(&'static [usize]),
}

impl Captions<'_> {
    /// The places of the sizes that the finding tells of; none when there is no size.
    fn said_at(&self, sizes: &[usize]) -> Vec<usize> {
        let last = sizes.len().checked_sub(1);
        let among: &[usize] = match self.said {
            SaidAt::First => return last.map(|_| 0).into_iter().collect(),
            SaidAt::Last => &[],
            SaidAt::Among(among) => among,
        };
        let places = among.iter();
        let places = places.filter_map(|wanted| sizes.iter().position(|size| size == wanted));
        let places: Vec<usize> = places.collect();
        match places.is_empty() {
            true => last.into_iter().collect(),
            false => places,
        }
    }
}

/// A saving as an amount: what is saved is less, what is gained is more.
fn amount(percent: f64, figure: Figure) -> String {
    let size = percent.abs();
    let digits = usize::from(size < 9.95);
    format!("{size:.digits$} % {}", word(percent, figure))
}

/// Word for what a saving does to a figure.
fn word(percent: f64, figure: Figure) -> &'static str {
    let less = match figure {
        Figure::Median | Figure::PerByte | Figure::ProcessorPerByte => percent >= 0.0,
        Figure::Rate => percent < 0.0,
    };
    if less { "less" } else { "more" }
}

/// A published table of times with and without something, over sizes in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published {
    /// Its id.
    pub(crate) table: &'static str,
    /// The columns of times in microseconds: the name of the line, and the column's id.
    pub(crate) times: &'static [(&'static str, &'static str)],
    /// The id of the column of savings.
    pub(crate) saving: &'static str,
}

impl Published {
    fn number(&self, size: usize) -> Option<f64> {
        papers::table(self.table)?.cell(&size.to_string(), self.saving)
    }

    fn source(&self) -> Option<tollgate_run::Source> {
        papers::source(self.table)
    }

    fn year(&self) -> String {
        self.source()
            .map_or_else(String::new, |source| source.year.to_string())
    }

    fn saving(&self, size: usize) -> Cell {
        match self.source() {
            Some(source) => present::published_cell(self.number(size), &source),
            None => Cell::text("-"),
        }
    }

    fn time(&self, size: usize, column: &str) -> Option<f64> {
        let us = papers::table(self.table)?.cell(&size.to_string(), column)?;
        Some(us * NANOSECONDS_PER_MICROSECOND)
    }

    /// The published times at these sizes; none when there is none.
    pub(crate) fn table(&self, title: &str, sizes: &[usize]) -> Option<Table> {
        let source = self.source()?;
        let has = |&size: &usize| self.number(size).is_some();
        sizes.iter().any(has).then(|| Table {
            id: "published".to_owned(),
            title: title.to_owned(),
            columns: present::size_columns(sizes, Unit::Nanoseconds),
            rows: self
                .times
                .iter()
                .map(|(label, column)| {
                    let cells = sizes
                        .iter()
                        .map(|&size| present::published_cell(self.time(size, column), &source));
                    present::plain_row(*label, cells.collect())
                })
                .collect(),
        })
    }

    /// The published times as lines over the size.
    pub(crate) fn lines(&self, sizes: &[usize]) -> Vec<Series> {
        let line = |(label, column): &(&str, &str)| Series {
            label: format!("{label}, {}", self.year()),
            points: sizes
                .iter()
                .filter_map(|&size| {
                    Some(tollgate_run::Point {
                        x: size as f64,
                        y: self.time(size, column)?,
                        ci: None,
                    })
                })
                .collect(),
            published: true,
        };
        let lines = self.times.iter().map(line);
        lines.filter(|line| !line.points.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Mode, Placement, Waiting};
    use tollgate_stats::{Samples, Timing};
    use tollgate_workload::config::Prediction;

    use super::*;
    use crate::context::{Cancel, Options, Silent};

    const SETTINGS: [Setting; 2] = [
        Setting {
            label: "prediction bidirectional",
            set: |usual| usual,
            offload: Some(Offload::Neither),
        },
        Setting {
            label: "prediction off",
            set: |usual| Mechanisms {
                prediction: Prediction::Off,
                ..usual
            },
            offload: Some(Offload::Checksum),
        },
    ];
    const PUBLISHED: Published = Published {
        table: "wolman-1994/table-4",
        times: &[("Prediction", "prediction")],
        saving: "decrease",
    };
    const SAVING: Saving = Saving {
        with: 0,
        without: 1,
        figure: Figure::Median,
    };

    fn plan() -> Plan<'static> {
        Plan {
            experiment: "test",
            workload: Workload::Rr,
            datagrams: false,
            settings: &SETTINGS,
            paths: &STACKS,
            mtu: None,
        }
    }

    fn context(options: Options) -> Context<'static> {
        Context::new(options, None, Cancel::default(), &Silent)
    }

    /// Four sessions of a variant for each setting, of one size.
    fn comparison(with: u64, without: u64) -> Comparison {
        let mode = Mode {
            placement: Placement::OneCore,
            waiting: Waiting::BusyPoll,
        };
        let variant = Variant::new(PathId::StackMemory, mode);
        let matrix = Matrix {
            workload: Workload::Rr,
            variants: vec![variant, variant],
            unavailable: Vec::new(),
        };
        let mut outcome = Outcome::new(matrix, vec![4]);
        for (variant, ns) in [with, without].into_iter().enumerate() {
            for session in 0..4 {
                let mut samples = Samples::new(Timing::Each);
                (0..400).for_each(|_| samples.record(ns + u64::from(session), 1));
                outcome.measurements[variant][0].add_slice((session, 0), &samples);
            }
        }
        Comparison {
            outcome,
            lines: vec![Line {
                path: PathId::StackMemory,
                variants: vec![0, 1],
            }],
        }
    }

    fn sentence(comparison: &Comparison) -> String {
        let mut finding = Finding::default();
        comparison.say(
            0,
            SAVING,
            "with it a round trip takes",
            Some(&PUBLISHED),
            &mut finding,
        );
        finding.finish().into()
    }

    #[test]
    fn a_saving_stands_beside_the_published_one() {
        let table = comparison(750, 1_000).savings("savings", "Saved", SAVING, Some(&PUBLISHED));
        let names: Vec<&str> = table.columns.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["1994", "stack-memory"]);
        let row = &table.rows[0];
        assert_eq!(row.cells[0].number(), Some(8.0));
        let ours = row.cells[1].measured().unwrap();
        assert!((ours.value - 25.0).abs() < 0.2, "{ours:?}");
        let interval = ours.ci.unwrap();
        assert!(interval.low <= ours.value && ours.value <= interval.high);
    }

    #[test]
    fn a_finding_says_less_more_or_no_difference() {
        assert_eq!(
            sentence(&comparison(750, 1_000)),
            "With it a round trip takes 25 % less on stack-memory (1994: 8.0 % less)."
        );
        assert_eq!(
            sentence(&comparison(1_020, 1_000)),
            "With it a round trip takes 2.0 % more on stack-memory (1994: 8.0 % less)."
        );
        assert_eq!(
            sentence(&comparison(1_000, 1_000)),
            "With it a round trip takes the same within 0 % on stack-memory (1994: 8.0 % less)."
        );
    }

    #[test]
    fn finding_is_of_the_sizes_that_are_measured() {
        let places = |said, sizes: &[usize]| {
            let captions = Captions {
                with: "with it",
                savings: "",
                figure: "",
                said,
            };
            captions.said_at(sizes)
        };
        assert_eq!(places(SaidAt::First, &[4, 20, 80]), [0]);
        assert_eq!(places(SaidAt::Last, &[4, 20, 80]), [2]);
        assert_eq!(places(SaidAt::Among(&[80, 4, 9]), &[4, 20, 80]), [2, 0]);
        assert_eq!(places(SaidAt::Among(&[9]), &[4, 20, 80]), [2]);
        for said in [SaidAt::First, SaidAt::Last, SaidAt::Among(&[4])] {
            assert!(places(said, &[]).is_empty());
        }
    }

    #[test]
    fn every_path_has_a_variant_of_each_setting_and_the_kernel_switches_devices() {
        let (matrix, lines) = plan().matrix(&context(Options::default())).unwrap();
        let paths: Vec<PathId> = lines.iter().map(|line| line.path).collect();
        assert_eq!(
            paths,
            [PathId::StackMemory, PathId::StackShm, PathId::KernelVeth]
        );
        let switched = |at: usize| {
            let switched = matrix.variants[at].switched;
            switched.map(|one| one.mechanisms.prediction)
        };
        assert_eq!(switched(0), Some(Prediction::Bidirectional));
        assert_eq!(switched(1), Some(Prediction::Off));
        assert_eq!(switched(4), None);
        assert_eq!(matrix.variants[5].offload, Offload::Checksum);
        assert_eq!(
            matrix.variants[1].label(),
            "stack-memory, 1 core, polling, prediction off"
        );
    }

    #[test]
    fn finding_leaves_out_a_path_that_lacks_the_setting() {
        let mut comparison = comparison(750, 1_000);
        comparison.lines.push(Line {
            path: PathId::KernelVeth,
            variants: vec![0],
        });
        assert!(!sentence(&comparison).contains("kernel-veth"));
        let cell = comparison.cell(&comparison.lines[1], 0, SAVING);
        let reason = "kernel-veth has no such switch".to_owned();
        assert_eq!(cell, Cell::NotAvailable { reason });
    }

    #[test]
    fn paths_without_the_switch_are_said() {
        let paths = vec![PathId::KernelLoopback, PathId::StackMemory];
        let options = Options {
            paths: Some(paths),
            ..Options::default()
        };
        let (matrix, lines) = plan().matrix(&context(options)).unwrap();
        assert_eq!(lines.len(), 1);
        assert_eq!(
            matrix.unavailable[0].1,
            "kernel-loopback does not have this switch"
        );
        let only = Options {
            paths: Some(vec![PathId::PeerSmoltcp]),
            ..Options::default()
        };
        assert!(matches!(
            plan().matrix(&context(only)),
            Err(Error::NothingToRun { .. })
        ));
    }
}

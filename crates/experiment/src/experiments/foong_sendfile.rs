//! `foong-sendfile`: handing bytes to the kernel by copy, sendfile(2), splice(2), MSG_ZEROCOPY and io_uring, and readers that wait
//! with a buffer against data that waits for a reader; after Foong et al. 2003, sections 3.1 and 6.

use std::path::Path;
use std::time::Duration;

use tollgate_run::{
    Axis, Cell, Figure, Mode, PathId, Placement, Point, Scale, Series, Source, Table, Unit,
    Waiting, format, present,
};
use tollgate_sampling::{Categories, Classifier};
use tollgate_workload::{Reading, Sending, Sockets};

use super::foong_hz::{column, source, unavailable};
use super::{Content, Experiment, Reported};
use crate::claim::{Evidence, Finding, FindingText, operations};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::sampled::{self, Mean, Sampled, Split, Subject, Survey};
use crate::streams::{self, Load, RECEIVE, TRANSMIT, all_ns, per_byte};

/// Sizes of a write.
const SIZES: [usize; 3] = [4_096, 16_384, 65_536];
/// Sizes of a write that a reader waits for, or that waits for a reader.
const READ: [usize; 4] = [64, 1_024, 8_192, 32_768];
/// For each, when nobody is in a hurry.
const EACH: Duration = Duration::from_millis(1_200);

/// Copies avoided, and readers.
pub(super) struct FoongSendfile;

impl Experiment for FoongSendfile {
    fn name(&self) -> &'static str {
        "foong-sendfile"
    }

    fn title(&self) -> &'static str {
        "Sending without a copy, and readers that wait"
    }

    fn paper(&self) -> Option<Source> {
        source("sections 3.1 and 6")
    }

    fn summary(&self) -> &'static str {
        "copy against sendfile, splice, MSG_ZEROCOPY and io_uring; posted readers against data that waits"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        !streams::stream_paths(options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let Some(plan) = Plan::of(&context.options) else {
            return Err(Error::NothingToRun {
                workload: tollgate_run::Workload::Stream,
                asked: context.options.restrictions(),
            });
        };
        let sampled = sampled::survey(self.name(), plan.subjects(), EACH, context)?;
        Ok(match sampled {
            Sampled::Measured(survey) => plan.shown(&survey, command),
            Sampled::Unavailable(reason) => unavailable(&reason),
        })
    }
}

/// Plan: every way of sending over the loads, then every way of reading over the sizes.
struct Plan {
    path: PathId,
    mode: Mode,
    loads: Vec<Load>,
    no_beyond: Option<String>,
    /// Empty when the options want two cores: a late reader is the writer's own thread.
    read: Vec<usize>,
}

/// Both ends of posted and late readers share a core.
const ONE_CORE: Mode = Mode {
    placement: Placement::OneCore,
    waiting: Waiting::Blocking,
};

impl Plan {
    fn of(options: &Options) -> Option<Self> {
        let path = streams::stream_paths(options).first().copied()?;
        let mut loads: Vec<Load> = options
            .sizes_or(&SIZES)
            .into_iter()
            .map(Load::in_cache)
            .collect();
        let beyond = Load::beyond_cache(Path::new("/"));
        loads.extend(beyond.iter().cloned());
        let one_core = options
            .placement
            .is_none_or(|placement| placement == Placement::OneCore);
        Some(Self {
            path,
            mode: streams::mode(path, options)?,
            loads,
            no_beyond: beyond.err(),
            read: if one_core {
                options.sizes_or(&READ)
            } else {
                Vec::new()
            },
        })
    }

    fn subjects(&self) -> Vec<Subject> {
        let mut subjects = Vec::new();
        for &sending in Sending::ALL {
            subjects.extend(self.loads.iter().map(|load| Subject {
                label: format!("{sending}, {}", load.label()),
                path: self.path,
                spec: load.spec(
                    self.mode,
                    Sockets {
                        sending,
                        ..Sockets::PLAIN
                    },
                ),
            }));
        }
        for reading in [Reading::Posted, Reading::Late] {
            subjects.extend(self.read.iter().map(|&size| Subject {
                label: format!("{reading} reader, {}", format::bytes(size)),
                path: self.path,
                spec: Load::in_cache(size).spec(
                    ONE_CORE,
                    Sockets {
                        reading,
                        ..Sockets::PLAIN
                    },
                ),
            }));
        }
        subjects
    }

    /// The place of the first subject of a way of sending.
    fn sending(&self, way: usize) -> usize {
        way * self.loads.len()
    }

    /// The place of the first subject of posted (0) and late (1) readers.
    fn reading(&self, way: usize) -> usize {
        self.sending(Sending::ALL.len()) + way * self.read.len()
    }

    fn shown(&self, survey: &Survey, command: &str) -> Content {
        let directions = Categories::direction();
        let mut classifier = Classifier::new(directions.clone());
        let splits: Vec<Vec<Split>> = (0..survey.subjects.len())
            .map(|at| survey.splits(at, &mut classifier))
            .collect();
        let view = View {
            plan: self,
            survey,
            splits,
        };
        let mut tables = vec![
            view.sending_table(
                "both-ends",
                "Processor time for each byte, both ends",
                all_ns,
            ),
            view.sending_table(
                "transmit",
                "Processor time in the kernel for each byte, transmit",
                |split| split.category_ns(TRANSMIT),
            ),
            view.sending_table(
                "receive",
                "Processor time in the kernel for each byte, receive",
                |split| split.category_ns(RECEIVE),
            ),
        ];
        tables.extend(view.reader_table());
        let mut trust = survey.trust(&directions);
        trust.extend(view.copied().into_iter().map(present::note));
        trust.push(present::note(
            "io-uring submits each write with a call of its own, so what it saves by submitting many writes at once is not seen \
             here",
        ));
        trust.push(present::note(
            "the paper names sendfile(2) and asynchronous sockets in section 6 and prints no figure of either",
        ));
        if let Some(reason) = &self.no_beyond {
            trust.push(present::note(format!(
                "no stream beyond the last-level cache: {reason}"
            )));
        }
        trust.push(present::note(
            "a posted reader waits in recv(2) before each write, and the writer waits for it on a futex, which is not counted; a \
             late reader is the writer's own thread, which reads what the socket has taken",
        ));
        Content {
            finding: view.finding(),
            tables,
            figures: view.figure(command).into_iter().collect(),
            trust,
        }
    }
}

/// The plan with what was measured.
struct View<'a> {
    plan: &'a Plan,
    survey: &'a Survey,
    splits: Vec<Vec<Split>>,
}

impl View<'_> {
    fn cell(&self, at: usize, mean: Option<Mean>) -> Cell {
        match (mean, &self.survey.observed[at].failure) {
            (Some(mean), _) => mean.cell(),
            (None, Some(reason)) => Cell::NotAvailable {
                reason: reason.clone(),
            },
            (None, None) => Cell::NotAvailable {
                reason: "the run was stopped before it came to this".to_owned(),
            },
        }
    }

    fn sending_table(&self, id: &str, title: &str, figure: fn(&Split) -> f64) -> Table {
        let rows = Sending::ALL.iter().enumerate().map(|(way, sending)| {
            let cells = (0..self.plan.loads.len()).map(|load| {
                let at = self.plan.sending(way) + load;
                self.cell(at, per_byte(&self.splits[at], figure))
            });
            present::plain_row(sending.name(), cells.collect())
        });
        let columns = self.plan.loads.iter();
        Table {
            id: id.to_owned(),
            title: title.to_owned(),
            columns: columns
                .map(|load| column(load.label(), Unit::NanosecondsPerByte))
                .collect(),
            rows: rows.collect(),
        }
    }

    /// ns in the kernel of each round of a subject, for each write.
    fn per_write(&self, at: usize) -> Vec<f64> {
        let rounds = self.splits[at].iter();
        rounds
            .map(|split| split.total_ns() / split.operations.max(1) as f64)
            .collect()
    }

    fn reader_table(&self) -> Option<Table> {
        if self.plan.read.is_empty() {
            return None;
        }
        let rows = ["Posted: the reader waits", "Late: the data wait"]
            .iter()
            .enumerate()
            .map(|(way, label)| {
                let cells = (0..self.plan.read.len()).map(|size| {
                    let at = self.plan.reading(way) + size;
                    self.cell(at, Mean::of(&self.per_write(at)))
                });
                present::plain_row(*label, cells.collect())
            });
        Some(Table {
            id: "readers".to_owned(),
            title: "Processor time in the kernel for each write and its read, one core".to_owned(),
            columns: present::size_columns(&self.plan.read, Unit::Nanoseconds),
            rows: rows.collect(),
        })
    }

    /// Says the share of sends that the kernel copied after all, for each way of sending.
    fn copied(&self) -> Vec<String> {
        let told = |(way, sending): (usize, &Sending)| {
            let first = self.plan.sending(way);
            let loads = &self.survey.observed[first..first + self.plan.loads.len()];
            let settings = loads.iter().flat_map(|one| &one.settings);
            let mut settings = settings.filter(|(name, _)| *name == "copied after all");
            let (_, share) = settings.next()?;
            Some(format!(
                "with {sending} the kernel copied after all for {share}: over one machine the reader would else hold the \
                 writer's memory"
            ))
        };
        Sending::ALL.iter().enumerate().filter_map(told).collect()
    }

    fn figure(&self, command: &str) -> Option<Figure> {
        let series = Sending::ALL.iter().enumerate().map(|(way, sending)| {
            let loads = self.plan.loads.iter().enumerate();
            let points = loads.filter(|(_, load)| load.is_in_cache());
            Series {
                label: sending.name().to_owned(),
                points: points
                    .filter_map(|(load, what)| {
                        let rounds = &self.splits[self.plan.sending(way) + load];
                        let mean = per_byte(rounds, all_ns)?;
                        Some(Point {
                            x: what.size as f64,
                            y: mean.value,
                            ci: mean.interval(),
                        })
                    })
                    .collect(),
                published: false,
            }
        });
        let series: Vec<Series> = series.filter(|line| line.points.len() > 1).collect();
        (!series.is_empty()).then(|| Figure::Lines {
            title: "Ways of sending".to_owned(),
            x: Axis {
                label: "Size of a write".to_owned(),
                unit: Unit::Bytes,
                scale: Scale::Log,
            },
            y: Axis {
                label: "Processor time for each byte, both ends".to_owned(),
                unit: Unit::NanosecondsPerByte,
                scale: Scale::Log,
            },
            series,
            command: command.to_owned(),
        })
    }

    /// Each way against the copy at the largest load, and late against posted at the smallest.
    fn finding(&self) -> FindingText {
        let mut finding = Finding::default();
        if let Some(last) = self.plan.loads.len().checked_sub(1) {
            let rounds = |way: usize| &self.splits[self.plan.sending(way) + last];
            let bytes = |way: usize| -> Vec<f64> {
                rounds(way)
                    .iter()
                    .map(|split| all_ns(split) / split.bytes.max(1) as f64)
                    .collect()
            };
            let copy = bytes(0);
            let label = self.plan.loads[last].label();
            for (way, sending) in Sending::ALL.iter().enumerate().skip(1) {
                let fewest = operations(rounds(way)).min(operations(rounds(0)));
                let pair = (sending.to_string(), "a copy".to_owned());
                against(&mut finding, pair, &label, (&bytes(way), &copy), fewest);
            }
        }
        if let Some(&size) = self.plan.read.first() {
            let places = [self.plan.reading(0), self.plan.reading(1)];
            let [posted, late] = places.map(|place| self.per_write(place));
            let fewest = places.map(|place| operations(&self.splits[place]));
            let pair = (
                "a stream that waits for its reader".to_owned(),
                "a reader that waits".to_owned(),
            );
            let fewest = fewest[0].min(fewest[1]);
            against(
                &mut finding,
                pair,
                &format::size(size),
                (&late, &posted),
                fewest,
            );
        }
        finding.finish()
    }
}

/// Says what one takes of what the other takes; no difference when the interval holds 1.
fn against(
    finding: &mut Finding,
    (ours, theirs): (String, String),
    load: &str,
    (a, b): (&[f64], &[f64]),
    operations: u64,
) {
    let quotient = Evidence::quotient(a, b, operations).and_then(Evidence::amount);
    let what = format!("{ours} against {theirs} for {load}");
    if let Some(quotient) = finding.claim(what, quotient) {
        finding.say(match quotient.amount_against() {
            Some(more) => format!("{ours} takes {more} processor time than {theirs} for {load}"),
            None => format!("{ours} and {theirs} show no difference for {load}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_that_may_be_one_is_no_difference() {
        let of = |a: &[f64], b: &[f64]| {
            let mut finding = Finding::default();
            let pair = ("splice".to_owned(), "a copy".to_owned());
            against(&mut finding, pair, "64 B", (a, b), 1_000);
            finding.finish()
        };
        assert_eq!(
            of(&[1.0, 1.1, 0.9], &[1.0, 1.0, 1.0]),
            "Splice and a copy show no difference for 64 B."
        );
        assert_eq!(
            of(&[1.0, 1.01, 0.99], &[2.0, 2.0, 2.0]),
            "Splice takes 2.0 times less processor time than a copy for 64 B."
        );
        assert_eq!(
            of(&[], &[1.0]),
            "This run cannot tell splice against a copy for 64 B (it has no interval)."
        );
    }

    #[test]
    fn subjects_stand_where_the_plan_looks_for_them() {
        let plan = Plan::of(&Options::default()).unwrap();
        let subjects = plan.subjects();
        for (way, &sending) in Sending::ALL.iter().enumerate() {
            let sockets = subjects[plan.sending(way)].spec.sockets;
            assert_eq!((sockets.sending, sockets.reading), (sending, Reading::Free));
        }
        let late = &subjects[plan.reading(1)].spec;
        assert_eq!(late.sockets.reading, Reading::Late);
        assert_eq!((late.size, late.placement), (READ[0], Placement::OneCore));
        assert_eq!(subjects.len(), plan.reading(2));
    }
}

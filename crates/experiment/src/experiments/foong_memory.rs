//! `foong-memory`: a stream over the memory that its ends walk through, from one write to twice the last-level cache; after Foong et
//! al. 2003, section 4, Figs. 5 to 10.
//!
//! Time is told for each end by functions. Traffic to memory is counted where the machine counts it; those counters see the whole
//! machine, so traffic is that of both ends together. This module never takes one for the other: the trust lines say which it is.

use std::path::Path;
use std::time::Duration;

use tollgate_papers as papers;
use tollgate_run::{
    Axis, Cell, Figure, Mode, PathId, Point, Scale, Series, Source, Table, TrustLine, Unit, present,
};
use tollgate_sampling::{Categories, Classifier, TrafficMeter, last_level_cache};
use tollgate_stats as stats;
use tollgate_workload::Sockets;

use super::foong_hz::{column, source, traffic, unavailable};
use super::{Content, Experiment, Reported};
use crate::claim::{Evidence, Finding, FindingText, operations};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::sampled::{self, Mean, Sampled, Split, Subject};
use crate::streams::{self, Load, RECEIVE, TRANSMIT, all_ns, per_byte};

/// Bytes of a write and of a read.
const SIZE: usize = 65_536;
/// For each amount of memory, when nobody is in a hurry.
const EACH: Duration = Duration::from_millis(1_500);
/// The ends: name, category of [`Categories::direction`], and table of the paper.
const ENDS: [(&str, usize, &str); 2] = [
    ("Transmit", TRANSMIT, "foong-2003/memory-transmit"),
    ("Receive", RECEIVE, "foong-2003/memory-receive"),
];

/// The sweep across the cache's size.
pub(super) struct FoongMemory;

impl Experiment for FoongMemory {
    fn name(&self) -> &'static str {
        "foong-memory"
    }

    fn title(&self) -> &'static str {
        "A stream across the last cache's size"
    }

    fn paper(&self) -> Option<Source> {
        source("Figs. 5 to 10, section 4")
    }

    fn summary(&self) -> &'static str {
        "what a byte costs each end as its memory outgrows the last cache, and traffic to memory"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        2
    }

    fn concerns(&self, options: &Options) -> bool {
        !streams::stream_paths(options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let root = Path::new("/");
        let options = &context.options;
        let found = streams::stream_paths(options).first().copied();
        let Some((path, mode)) = found.and_then(|path| Some((path, streams::mode(path, options)?)))
        else {
            return Err(Error::NothingToRun {
                workload: tollgate_run::Workload::Stream,
                asked: options.restrictions(),
            });
        };
        let sweep = match Sweep::over(
            root,
            options.sizes.as_deref().and_then(<[_]>::last).copied(),
        ) {
            Ok(sweep) => sweep,
            Err(reason) => return Ok(unavailable(&reason)),
        };
        let subjects = sweep.subjects(path, mode);
        let survey = match sampled::survey(self.name(), subjects, EACH, context)? {
            Sampled::Measured(survey) => survey,
            Sampled::Unavailable(reason) => return Ok(unavailable(&reason)),
        };
        let meter = TrafficMeter::open(root).map_err(|error| error.to_string());
        let counted = sweep.loads.iter().map(|load| {
            let spec = load
                .spec(mode, Sockets::PLAIN)
                .with_nagle(context.options.nagle());
            traffic(path, &spec, meter.as_ref().map_err(Clone::clone)?, load)
        });
        let counted = counted.collect();
        let directions = Categories::direction();
        let mut classifier = Classifier::new(directions.clone());
        let view = View {
            splits: (0..sweep.loads.len())
                .map(|at| survey.splits(at, &mut classifier))
                .collect(),
            sweep: &sweep,
            failures: (survey.observed.iter())
                .map(|one| one.failure.clone())
                .collect(),
            counted,
        };
        let mut trust = survey.trust(&directions);
        trust.extend(view.memory_trust(meter.as_ref().ok().map(TrafficMeter::name)));
        Ok(Content {
            finding: view.finding(),
            tables: vec![view.table(), view.step()],
            figures: view.figure(command).into_iter().collect(),
            trust,
        })
    }
}

/// Amounts of memory, smallest first.
#[derive(Debug, PartialEq, Eq)]
struct Sweep {
    cache: usize,
    loads: Vec<Load>,
}

impl Sweep {
    /// From one write to half the last-level cache in steps of four, then its half, its size and twice that.
    fn over(root: &Path, size: Option<usize>) -> Result<Self, String> {
        let size = size.unwrap_or(SIZE);
        let beyond = Load::beyond_cache(root)?.memory;
        let cache = last_level_cache(root).map_err(|error| error.to_string())?;
        let small = std::iter::successors(Some(size), |memory| Some(4 * memory));
        let around = [cache / 2, cache, beyond];
        let memory = small
            .take_while(|memory| 4 * memory <= cache)
            .chain(around.into_iter().filter(|&memory| memory > size));
        let loads = memory.map(|memory| Load { size, memory });
        Ok(Self {
            cache,
            loads: loads.collect(),
        })
    }

    fn subjects(&self, path: PathId, mode: Mode) -> Vec<Subject> {
        let subject = |load: &Load| Subject {
            label: amount(load.memory),
            path,
            spec: load.spec(mode, Sockets::PLAIN),
        };
        self.loads.iter().map(subject).collect()
    }

    /// The smallest amount of memory, and the largest, where that lies beyond the cache.
    fn ends(&self) -> Option<(usize, usize)> {
        let last = self.loads.len().checked_sub(1)?;
        (self.loads[0].memory < self.cache && self.loads[last].memory > self.cache)
            .then_some((0, last))
    }
}

/// An amount of memory in words.
fn amount(bytes: usize) -> String {
    if bytes < 1 << 20 {
        format!("{} KiB", bytes >> 10)
    } else {
        format!("{} MiB", bytes >> 20)
    }
}

struct View<'a> {
    sweep: &'a Sweep,
    /// The reason why an amount of memory has no rounds.
    failures: Vec<Option<String>>,
    /// The rounds of each amount of memory by direction.
    splits: Vec<Vec<Split>>,
    /// Bytes to and from memory for each byte carried.
    counted: Vec<Result<f64, String>>,
}

impl View<'_> {
    fn cell(&self, at: usize, mean: Option<Mean>) -> Cell {
        mean.map_or_else(
            || {
                let failure = self.failures[at].clone();
                Cell::NotAvailable {
                    reason: failure
                        .unwrap_or_else(|| "the run was stopped before it came to this".to_owned()),
                }
            },
            |mean| mean.cell(),
        )
    }

    fn mean(&self, at: usize, category: usize) -> Option<Mean> {
        per_byte(&self.splits[at], |split| split.category_ns(category))
    }

    fn table(&self) -> Table {
        let rows = self.sweep.loads.iter().enumerate().map(|(at, load)| {
            let mut cells: Vec<Cell> = ENDS
                .iter()
                .map(|(_, category, _)| self.cell(at, self.mean(at, *category)))
                .collect();
            cells.push(self.cell(at, per_byte(&self.splits[at], all_ns)));
            cells.push(match &self.counted[at] {
                Ok(ratio) => Cell::exact(*ratio),
                Err(reason) => Cell::NotAvailable {
                    reason: reason.clone(),
                },
            });
            let mark = if load.memory == self.sweep.cache {
                ", the last cache"
            } else {
                ""
            };
            present::plain_row(format!("{}{mark}", amount(load.memory)), cells)
        });
        Table {
            id: "memory".to_owned(),
            title: "Processor time for each byte, and traffic to memory, by the memory that each end walks through"
                .to_owned(),
            columns: vec![
                column("Transmit", Unit::NanosecondsPerByte),
                column("Receive", Unit::NanosecondsPerByte),
                column("Both ends", Unit::NanosecondsPerByte),
                column("Memory bytes a byte", Unit::Ratio),
            ],
            rows: rows.collect(),
        }
    }

    /// The time of the rounds beyond the cache over that of the rounds within it.
    fn times_more(&self, category: usize) -> Option<stats::Estimate> {
        let (within, beyond) = self.sweep.ends()?;
        let of = |at: usize| -> Vec<f64> {
            let rounds = self.splits[at].iter();
            rounds
                .map(|split| split.category_ns(category) / split.bytes.max(1) as f64)
                .collect()
        };
        let (within, beyond) = (of(within), of(beyond));
        let common = within.len().min(beyond.len());
        stats::ratio(&beyond[..common], &within[..common]).ok()
    }

    /// The step at the cache's size, beside the paper's step of traffic.
    fn step(&self) -> Table {
        let rows = ENDS.iter().map(|&(end, category, published)| {
            let mut cells: Vec<Cell> = match self.sweep.ends() {
                Some((within, beyond)) => [within, beyond]
                    .map(|at| self.cell(at, self.mean(at, category)))
                    .to_vec(),
                None => vec![Cell::text("-"); 2],
            };
            cells.push(match self.times_more(category) {
                Some(ratio) => Cell::Value(tollgate_run::Measured {
                    value: ratio.value,
                    ci: Some(tollgate_run::Interval {
                        low: ratio.interval.low,
                        high: ratio.interval.high,
                    }),
                    n: Some(ratio.n),
                    ..tollgate_run::Measured::default()
                }),
                None => Cell::NotAvailable {
                    reason: "too few rounds, or one end without a sample".to_owned(),
                },
            });
            let table = papers::table(published).zip(papers::source(published));
            cells.extend(["in-cache-measured", "beyond-cache-measured"].map(
                |column| match &table {
                    Some((table, source)) => {
                        present::published_cell(table.cell("total", column), source)
                    }
                    None => Cell::text("-"),
                },
            ));
            present::plain_row(end, cells)
        });
        Table {
            id: "step".to_owned(),
            title: "The step at the last cache's size: time for each byte today, bytes on the memory bus for each byte in 2003"
                .to_owned(),
            columns: vec![
                column("Within", Unit::NanosecondsPerByte),
                column("Beyond", Unit::NanosecondsPerByte),
                column("Beyond / within", Unit::Ratio),
                column("Traffic within, 2003", Unit::Ratio),
                column("Traffic beyond, 2003", Unit::Ratio),
            ],
            rows: rows.collect(),
        }
    }

    /// Names the source of the cost of memory.
    fn memory_trust(&self, counter: Option<&str>) -> Vec<TrustLine> {
        let mut lines = vec![match (
            counter,
            self.counted.iter().find_map(|one| one.as_ref().err()),
        ) {
            (Some(counter), None) => present::note(format!(
                "traffic to memory was counted by {counter}, which sees the whole machine: both ends, and whoever else ran"
            )),
            (_, Some(reason)) => present::note(format!(
                "traffic to memory was not counted ({reason}), so memory's part is told by time alone: what a byte costs more once \
                 it comes from beyond the cache"
            )),
            (None, None) => present::note("no amount of memory was measured"),
        }];
        lines.push(present::note(
            "each end walks through this much memory, so together they take twice as much; the paper's machines had a cache each",
        ));
        lines.push(present::note(
            "there is no device that reads or writes memory by itself, so the paper's DMA has no part here",
        ));
        lines
    }

    fn figure(&self, command: &str) -> Option<Figure> {
        let series = ENDS.iter().map(|&(end, category, _)| Series {
            label: end.to_lowercase(),
            points: (self.sweep.loads.iter().enumerate())
                .filter_map(|(at, load)| {
                    let mean = self.mean(at, category).filter(|mean| mean.value > 0.0)?;
                    Some(Point {
                        x: load.memory as f64,
                        y: mean.value,
                        ci: mean.interval(),
                    })
                })
                .collect(),
            published: false,
        });
        let series: Vec<Series> = series.filter(|line| line.points.len() > 1).collect();
        (!series.is_empty()).then(|| Figure::Lines {
            title: "Across the last cache's size".to_owned(),
            x: Axis {
                label: "Memory that each end walks through".to_owned(),
                unit: Unit::Bytes,
                scale: Scale::Log,
            },
            y: Axis {
                label: "Processor time for each byte".to_owned(),
                unit: Unit::NanosecondsPerByte,
                scale: Scale::Log,
            },
            series,
            command: command.to_owned(),
        })
    }

    fn finding(&self) -> FindingText {
        let mut finding = Finding::default();
        let Some((within, beyond)) = self.sweep.ends() else {
            return finding.finish();
        };
        let memory = [within, beyond].map(|at| amount(self.sweep.loads[at].memory));
        for (_, category, _) in ENDS {
            let end = match category {
                TRANSMIT => "transmitting",
                _ => "receiving",
            };
            let fewest = operations(&self.splits[within]).min(operations(&self.splits[beyond]));
            let claim = self
                .times_more(category)
                .ok_or(crate::claim::Refusal::NoInterval)
                .and_then(|ratio| {
                    Evidence::new(ratio.value, Some(ratio.interval.into()), fewest).amount()
                });
            let what = format!("{end} beyond the last cache");
            let Some(claim) = finding.claim(what, claim) else {
                continue;
            };
            finding.say(match claim.amount_against() {
                Some(more) => format!(
                    "{end} takes {more} processor time through {} than through {}",
                    memory[1], memory[0]
                ),
                None => format!(
                    "{end} shows no difference between {} and {}",
                    memory[0], memory[1]
                ),
            });
        }
        finding.finish()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Placement, Waiting};

    use super::*;

    fn machine(size: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("sys/devices/system/cpu/cpu0/cache/index3");
        std::fs::create_dir_all(&cache).unwrap();
        std::fs::write(cache.join("level"), "3").unwrap();
        std::fs::write(cache.join("size"), size).unwrap();
        root
    }

    #[test]
    fn a_sweep_goes_from_one_write_past_the_cache() {
        let root = machine("4M");
        let sweep = Sweep::over(root.path(), None).unwrap();
        let memory: Vec<String> = (sweep.loads.iter())
            .map(|load| amount(load.memory))
            .collect();
        assert_eq!(
            memory,
            ["64 KiB", "256 KiB", "1 MiB", "2 MiB", "4 MiB", "8 MiB"]
        );
        assert_eq!(sweep.ends(), Some((0, 5)));
        let mode = Mode {
            placement: Placement::OneCore,
            waiting: Waiting::Blocking,
        };
        let subjects = sweep.subjects(PathId::KernelLoopback, mode);
        assert_eq!(subjects[5].spec.sockets.memory, 8 << 20);
        assert!(Sweep::over(Path::new("/no/such/root"), None).is_err());
    }

    #[test]
    fn a_write_of_the_caches_size_has_nothing_within_it() {
        let sweep = Sweep::over(machine("64K").path(), Some(65_536)).unwrap();
        assert_eq!(sweep.ends(), None);
    }

    #[test]
    fn the_table_says_what_told_the_cost_of_memory() {
        let sweep = Sweep::over(machine("1M").path(), None).unwrap();
        let view = |counted: Result<f64, String>| View {
            sweep: &sweep,
            failures: vec![None; sweep.loads.len()],
            splits: vec![Vec::new(); sweep.loads.len()],
            counted: vec![counted; sweep.loads.len()],
        };
        let told = |view: &View<'_>, name| view.memory_trust(name)[0].text.clone();
        let counted = view(Ok(2.5));
        assert!(told(&counted, Some("resctrl")).contains("counted by resctrl"));
        assert_eq!(counted.table().rows[0].cells[3].number(), Some(2.5));
        let timed = view(Err("no resctrl".to_owned()));
        assert!(told(&timed, None).contains("not counted (no resctrl)"));
        let step = timed.step();
        let published: Vec<_> = step
            .rows
            .iter()
            .map(|row| (row.cells[3].number(), row.cells[4].number()))
            .collect();
        assert_eq!(published, [(Some(2.5), Some(5.6)), (Some(2.5), Some(4.7))]);
    }
}

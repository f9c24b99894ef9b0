//! `foong-hz`: processor cycles for each bit of a one-way stream (Hz per bit/s), both ends, by size of a write; beside it the rule
//! of thumb and the numbers of Foong et al. 2003, sections 4 and 5.1. Where the machine allows it, over the processors' frequency,
//! and the traffic to memory for each byte.

use std::path::Path;
use std::time::Duration;

use tollgate_papers as papers;
use tollgate_run::{
    Axis, Cell, Column, Figure, Mode, PathId, Point, Row, Scale, Series, Source, Table, TrustLine,
    Unit, format, present,
};
use tollgate_sampling::{Frequencies, TrafficMeter, nominal_hz};
use tollgate_workload::cores::Cores;
use tollgate_workload::{Sockets, Spec, find};

use super::{Content, Experiment, Reported};
use crate::claim::{self, Evidence, Finding, FindingText, operations};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::sampled::{self, Mean, Round, Sampled, Split, Subject};
use crate::streams::{
    self, Load, NEITHER, Panel, RECEIVE, Streams, TRANSMIT, all_ns, per_byte, user_ns,
};

const PAPER: &str = "foong-2003";
/// Writes whose cost is followed over the frequency: the smallest and the largest.
const FOLLOWED: [usize; 2] = [64, 65_536];
/// For each of them at each frequency.
const STEP: Duration = Duration::from_millis(400);
/// Bytes of a stream during which the traffic to memory is counted.
const COUNTED: u64 = 256 << 20;

/// Cycles for each bit.
pub(super) struct FoongHz;

impl Experiment for FoongHz {
    fn name(&self) -> &'static str {
        "foong-hz"
    }

    fn title(&self) -> &'static str {
        "Processor cycles for each bit of a stream"
    }

    fn paper(&self) -> Option<Source> {
        source("Figs. 11 and 12, section 5.1")
    }

    fn summary(&self) -> &'static str {
        "Hz per bit/s of one-way streams by size of a write, beyond the last cache, over frequency"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn weight(&self) -> u32 {
        4
    }

    fn concerns(&self, options: &Options) -> bool {
        !streams::stream_paths(options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let root = Path::new("/");
        let sampled = streams::of(self.name(), context)?;
        let hz = nominal_hz(root).map_err(|error| error.to_string());
        let mut content = match (&*sampled, &hz) {
            (Sampled::Measured(streams), Ok(hz)) => {
                let panels = || streams.panels.iter();
                Content {
                    finding: finding(streams, *hz),
                    tables: panels().map(|panel| table(streams, panel, *hz)).collect(),
                    figures: panels()
                        .filter_map(|panel| figure(streams, panel, *hz, command))
                        .collect(),
                    trust: trust(streams, *hz),
                }
            }
            (Sampled::Unavailable(reason), _) | (_, Err(reason)) => unavailable(reason),
        };
        let tables = &mut content.tables;
        tables.extend(hz.ok().map(clock));
        tables.push(rule_of_thumb());
        let path = streams::stream_paths(&context.options).first().copied();
        if let Some(path) = path
            && let Some(mode) = streams::mode(path, &context.options)
        {
            let cores = Cores::choose(mode.placement)?;
            let mut measure = |khz: u64| at_frequency(path, mode, khz, context);
            tables.push(frequency_table(
                root,
                &[cores.client, cores.server],
                &mut measure,
            ));
            let mut count = |meter: &TrafficMeter, load: &Load| {
                let spec = load
                    .spec(mode, Sockets::PLAIN)
                    .with_nagle(context.options.nagle());
                traffic(path, &spec, meter, load)
            };
            tables.push(traffic_table(root, &mut count));
        }
        if let Some(reason) = untold(tables) {
            content.trust.push(present::note(reason));
        }
        Ok(content)
    }
}

/// A place in the paper.
pub(super) fn source(place: &str) -> Option<Source> {
    Some(papers::source_at(papers::paper(PAPER)?, place))
}

/// Content of an experiment on streams when this machine does not allow sampling.
pub(super) fn unavailable(reason: &str) -> Content {
    let cell = Cell::NotAvailable {
        reason: reason.to_owned(),
    };
    let table = Table {
        id: "not-available".to_owned(),
        title: "Processor time of one-way streams".to_owned(),
        columns: vec![column("Both ends", Unit::None)],
        rows: vec![present::plain_row("Every size", vec![cell])],
    };
    Content {
        finding: FindingText::unavailable(reason),
        tables: vec![table],
        figures: Vec::new(),
        trust: vec![present::warning(format!("nothing was sampled: {reason}"))],
    }
}

pub(super) fn column(name: impl Into<String>, unit: Unit) -> Column {
    Column {
        name: name.into(),
        unit,
    }
}

/// A cell, or why there is none.
pub(super) fn cell_of(streams: &Streams, panel: &Panel, at: usize, mean: Option<Mean>) -> Cell {
    let failure = &streams.survey.observed[panel.first + at].failure;
    mean.map_or_else(
        || Cell::NotAvailable {
            reason: failure
                .clone()
                .unwrap_or_else(|| "the run was stopped before it came to this".to_owned()),
        },
        |mean| mean.cell(),
    )
}

/// The heading of a path's table.
pub(super) fn titled(streams: &Streams, panel: &Panel, title: &str) -> String {
    match streams.panels.len() {
        1 => title.to_owned(),
        _ => format!("{title}, {}", panel.path),
    }
}

/// The id of a path's table.
pub(super) fn id(streams: &Streams, panel: &Panel, id: &str) -> String {
    match streams.panels.len() {
        1 => id.to_owned(),
        _ => format!("{id}-{}", panel.path),
    }
}

/// Cycles for each bit, of a figure in ns.
fn hz_per_bps(rounds: &[Split], hz: f64, figure: impl Fn(&Split) -> f64) -> Option<Mean> {
    per_byte(rounds, |split| figure(split) * hz / 1e9 / 8.0)
}

fn table(streams: &Streams, panel: &Panel, hz: f64) -> Table {
    let columns = ["Transmit", "Receive", "Neither", "User mode", "Both ends"];
    let mut columns: Vec<Column> = columns
        .iter()
        .map(|name| column(*name, Unit::None))
        .collect();
    columns.push(column("Throughput", Unit::BytesPerSecond));
    let figures: [&dyn Fn(&Split) -> f64; 5] = [
        &|split| split.category_ns(TRANSMIT),
        &|split| split.category_ns(RECEIVE),
        &|split| split.category_ns(NEITHER),
        &user_ns,
        &all_ns,
    ];
    let rows = streams.loads.iter().enumerate().map(|(at, load)| {
        let rounds = &panel.splits[at];
        let mut cells: Vec<Cell> = figures
            .iter()
            .map(|figure| cell_of(streams, panel, at, hz_per_bps(rounds, hz, figure)))
            .collect();
        cells.push(cell_of(streams, panel, at, throughput(streams, panel, at)));
        present::plain_row(load.label(), cells)
    });
    Table {
        id: id(streams, panel, "hz"),
        title: titled(
            streams,
            panel,
            "Processor cycles for each bit, Hz per bit/s",
        ),
        columns,
        rows: rows.collect(),
    }
}

fn throughput(streams: &Streams, panel: &Panel, at: usize) -> Option<Mean> {
    let rounds = &streams.survey.observed[panel.first + at].rounds;
    // Without the sampler, as the cycles beside it are.
    let rates: Vec<f64> = rounds.iter().map(Round::throughput).collect();
    Mean::of(&rates)
}

/// The mean of a figure for the load at a place.
pub(super) type MeanAt<'a> = dyn Fn(usize) -> Option<Mean> + 'a;

/// A figure of lines over the size of a write, of the loads that reuse one buffer.
pub(super) fn lines(
    title: String,
    y: (&str, Unit),
    streams: &Streams,
    all: &[(&str, &MeanAt<'_>)],
    command: &str,
) -> Option<Figure> {
    let series = all.iter().map(|(label, mean)| {
        let loads = streams.loads.iter().enumerate();
        let points = loads.filter(|(_, load)| load.is_in_cache());
        Series {
            label: (*label).to_owned(),
            points: points
                .filter_map(|(at, load)| {
                    let mean = mean(at).filter(|mean| mean.value > 0.0)?;
                    Some(Point {
                        x: load.size as f64,
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
        title,
        x: Axis {
            label: "Size of a write".to_owned(),
            unit: Unit::Bytes,
            scale: Scale::Log,
        },
        y: Axis {
            label: y.0.to_owned(),
            unit: y.1,
            scale: if y.1 == Unit::Percent {
                Scale::Linear
            } else {
                Scale::Log
            },
        },
        series,
        command: command.to_owned(),
    })
}

fn figure(streams: &Streams, panel: &Panel, hz: f64, command: &str) -> Option<Figure> {
    let of = |figure: fn(&Split) -> f64| move |at: usize| hz_per_bps(&panel.splits[at], hz, figure);
    let (transmit, receive, all) = (
        of(|split| split.category_ns(TRANSMIT)),
        of(|split| split.category_ns(RECEIVE)),
        of(all_ns),
    );
    lines(
        titled(streams, panel, "Processor cycles for each bit"),
        ("Hz per bit/s", Unit::None),
        streams,
        &[
            ("both ends", &all),
            ("transmit", &transmit),
            ("receive", &receive),
        ],
        command,
    )
}

/// The frequency that makes cycles of times: two runs of different ones tell how performance scales with it.
fn clock(hz: f64) -> Table {
    Table {
        id: "clock".to_owned(),
        title: "The frequency by which cycles are counted".to_owned(),
        columns: vec![column("Frequency", Unit::PerSecond)],
        rows: vec![present::plain_row("Processor", vec![Cell::exact(hz)])],
    }
}

/// Table of the rule of thumb in the paper's text.
fn rule_of_thumb() -> Table {
    let row = |label: &str, fact: &str| {
        let found = papers::fact(&format!("{PAPER}/{fact}"));
        let cell = found.and_then(|fact| {
            let source = source(&format!("section {}", fact.place))?;
            Some(present::published_cell(Some(fact.value), &source))
        });
        present::plain_row(label, vec![cell.unwrap_or_else(|| Cell::text("-"))])
    };
    Table {
        id: "published".to_owned(),
        title: "In 2003, Pentium 4 and gigabit Ethernet".to_owned(),
        columns: vec![column("As printed", Unit::None)],
        rows: vec![
            row("Rule of thumb, Hz per bit/s", "rule-of-thumb"),
            row(
                "Small transfers, least, times the rule",
                "small-transfer-least",
            ),
            row(
                "Small transfers, most, times the rule",
                "small-transfer-most",
            ),
            row("Performance for the frequency, %", "frequency-scaling"),
        ],
    }
}

fn finding(streams: &Streams, hz: f64) -> FindingText {
    let mut finding = Finding::default();
    // The first path; the tables have the others.
    let Some(panel) = streams.panels.first() else {
        return finding.finish();
    };
    let in_cache: Vec<usize> = (0..streams.loads.len())
        .filter(|&at| streams.loads[at].is_in_cache())
        .collect();
    let (Some(&small), Some(&large)) = (in_cache.first(), in_cache.last()) else {
        return finding.finish();
    };
    let label = |at: usize| streams.loads[at].label();
    let mut places = vec![large, small];
    places.dedup();
    let mut parts = Vec::new();
    for at in places {
        let rounds = &panel.splits[at];
        let cycles = claim::mean(hz_per_bps(rounds, hz, all_ns), rounds);
        let what = format!("the cycles of a bit in writes of {}", label(at));
        if let Some(cycles) = finding.claim(what, cycles.and_then(Evidence::amount)) {
            parts.push(format!(
                "{} cycles in writes of {}",
                cycles.significant(),
                label(at)
            ));
        }
    }
    if !parts.is_empty() {
        finding.say(format!(
            "each bit of a stream over {} takes both ends {} (rule of thumb of 2003: 1 for each end)",
            panel.path,
            format::list(&parts)
        ));
    }
    if let Some(beyond) = (0..streams.loads.len()).find(|&at| !streams.loads[at].is_in_cache()) {
        let each = |at: usize| -> Vec<f64> {
            let rounds = panel.splits[at].iter().filter(|split| split.bytes > 0);
            rounds
                .map(|split| all_ns(split) / split.bytes as f64)
                .collect()
        };
        let fewest = operations(&panel.splits[beyond]).min(operations(&panel.splits[large]));
        let quotient = Evidence::quotient(&each(beyond), &each(large), fewest);
        let what = "a stream beyond the last cache against one within";
        if let Some(quotient) = finding.claim(what, quotient.and_then(Evidence::amount)) {
            finding.say(match quotient.amount_against() {
                Some(more) => {
                    format!("a stream beyond the last cache takes {more} than one within")
                }
                None => "beyond the last cache and within show no difference".to_owned(),
            });
        }
    }
    finding.finish()
}

fn trust(streams: &Streams, hz: f64) -> Vec<TrustLine> {
    let mut lines = common_trust(streams);
    lines.push(present::note(format!(
        "cycles are processor time times {} GHz, which /proc/cpuinfo gives; a processor that changed its frequency meanwhile \
         made more or fewer",
        format::significant(hz / 1e9)
    )));
    lines
}

/// Lines of trust of every experiment on streams.
pub(super) fn common_trust(streams: &Streams) -> Vec<TrustLine> {
    let mut lines = streams.survey.trust(&streams.directions);
    lines.push(present::note(
        "transmit and receive are told apart by function, since over one machine the receiver's protocol runs in a software \
         interrupt on the sender's processor; entering system calls and switching between threads is neither",
    ));
    if streams.cut {
        lines.push(present::note(
            "to end in time, cut to four sizes of a write",
        ));
    }
    if let Some(reason) = &streams.no_beyond {
        lines.push(present::note(format!(
            "no stream beyond the last-level cache: {reason}"
        )));
    }
    lines
}

/// The first reason why a whole table of the machine's own is not available.
fn untold(tables: &[Table]) -> Option<String> {
    let reasons: Vec<String> = tables
        .iter()
        .filter(|table| matches!(table.id.as_str(), "frequency" | "memory-traffic"))
        .filter_map(|table| match table.rows.first()?.cells.first()? {
            Cell::NotAvailable { reason } => Some(format!("{}: {reason}", table.title)),
            _ => None,
        })
        .collect();
    (!reasons.is_empty()).then(|| format!("not available here: {}", reasons.join("; ")))
}

/// Both writes at a frequency that is held meanwhile: ns for each byte.
fn at_frequency(
    path: PathId,
    mode: Mode,
    khz: u64,
    context: &Context<'_>,
) -> Result<Vec<Option<f64>>, String> {
    let subjects = FOLLOWED.map(|size| Subject {
        label: format!("{} MHz, {size} bytes", khz / 1_000),
        path,
        spec: Load::in_cache(size).spec(mode, Sockets::PLAIN),
    });
    let survey = match sampled::survey("foong-hz", subjects.to_vec(), STEP, context) {
        Ok(Sampled::Measured(survey)) => survey,
        Ok(Sampled::Unavailable(reason)) => return Err(reason),
        Err(error) => return Err(error.to_string()),
    };
    let mut classifier =
        tollgate_sampling::Classifier::new(tollgate_sampling::Categories::direction());
    Ok((0..FOLLOWED.len())
        .map(|at| Some(per_byte(&survey.splits(at, &mut classifier), all_ns)?.value))
        .collect())
}

/// Hz per bit/s at every frequency that the processors can be held at.
fn frequency_table(
    root: &Path,
    cpus: &[usize],
    measure: &mut dyn FnMut(u64) -> Result<Vec<Option<f64>>, String>,
) -> Table {
    let missing = |reason: &str| -> Vec<Cell> {
        FOLLOWED
            .iter()
            .map(|_| Cell::NotAvailable {
                reason: reason.to_owned(),
            })
            .collect()
    };
    let rows: Vec<Row> = match Frequencies::read(root, cpus) {
        Err(error) => vec![present::plain_row(
            "Every frequency",
            missing(&error.to_string()),
        )],
        Ok(frequencies) => frequencies
            .steps()
            .iter()
            .map(|&khz| {
                let held = frequencies.hold(khz).map_err(|error| error.to_string());
                let cells = match held.and_then(|_held| measure(khz)) {
                    Ok(values) => values
                        .iter()
                        .map(|ns| match ns {
                            Some(ns) => Cell::exact(ns * khz as f64 / 1e6 / 8.0),
                            None => Cell::text("-"),
                        })
                        .collect(),
                    Err(reason) => missing(&reason),
                };
                let mhz = format::whole(khz / 1_000);
                present::plain_row(format!("{mhz} MHz"), cells)
            })
            .collect(),
    };
    Table {
        id: "frequency".to_owned(),
        title: "Hz per bit/s over the processors' frequency".to_owned(),
        columns: FOLLOWED
            .iter()
            .map(|&size| column(format::size(size), Unit::None))
            .collect(),
        rows,
    }
}

/// Bytes to and from memory for each byte of a stream.
pub(super) fn traffic(
    path: PathId,
    spec: &Spec,
    meter: &TrafficMeter,
    load: &Load,
) -> Result<f64, String> {
    let told = |error: tollgate_workload::Error| error.to_string();
    let found = find(path).ok_or_else(|| format!("this build does not have {path}"))?;
    let mut session = found.open(spec).map_err(told)?;
    let writes = (COUNTED.max(2 * load.memory as u64) / load.size as u64).max(1);
    let mut samples = session.new_samples();
    let before = meter.bytes().map_err(|error| error.to_string())?;
    session.run(writes, &mut samples).map_err(told)?;
    let after = meter.bytes().map_err(|error| error.to_string())?;
    Ok((after - before) / samples.bytes().max(1) as f64)
}

/// Traffic to memory within the last cache and beyond, beside the paper's.
fn traffic_table(
    root: &Path,
    count: &mut dyn FnMut(&TrafficMeter, &Load) -> Result<f64, String>,
) -> Table {
    let meter = TrafficMeter::open(root).map_err(|error| error.to_string());
    let mut cell = |load: Result<Load, String>| {
        let counted = match (&meter, load) {
            (Ok(meter), Ok(load)) => count(meter, &load),
            (Err(reason), _) => Err(reason.clone()),
            (_, Err(reason)) => Err(reason),
        };
        match counted {
            Ok(value) => Cell::exact(value),
            Err(reason) => Cell::NotAvailable { reason },
        }
    };
    let measured = vec![
        cell(Ok(Load::in_cache(65_536))),
        cell(Load::beyond_cache(root)),
    ];
    let mut rows = vec![present::plain_row("Both ends, today", measured)];
    for (label, id) in [
        ("Transmit, 2003", "memory-transmit"),
        ("Receive, 2003", "memory-receive"),
    ] {
        let id = format!("{PAPER}/{id}");
        let (Some(table), Some(source)) = (papers::table(&id), papers::source(&id)) else {
            continue;
        };
        let cells = ["in-cache-measured", "beyond-cache-measured"]
            .map(|column| present::published_cell(table.cell("total", column), &source));
        rows.push(present::plain_row(label, cells.to_vec()));
    }
    Table {
        id: "memory-traffic".to_owned(),
        title: "Bytes to and from memory for each byte carried".to_owned(),
        columns: vec![
            column("Within the last cache", Unit::Ratio),
            column("Beyond it", Unit::Ratio),
        ],
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn without_cpufreq_the_reason_stands_in_the_table() {
        let root = tempfile::tempdir().unwrap();
        let table = frequency_table(root.path(), &[0], &mut |_| panic!("nothing to measure"));
        let Cell::NotAvailable { reason } = &table.rows[0].cells[0] else {
            panic!("{table:?}");
        };
        assert!(reason.contains("no cpufreq driver"), "{reason}");
        assert!(
            untold(&[table])
                .unwrap()
                .contains("over the processors' frequency")
        );
    }

    #[test]
    fn with_cpufreq_every_frequency_is_held_and_given_back() {
        let root = tempfile::tempdir().unwrap();
        let cpufreq = "sys/devices/system/cpu/cpu0/cpufreq";
        for (name, khz) in [
            ("cpuinfo_min_freq", "800000"),
            ("cpuinfo_max_freq", "2400000"),
            ("scaling_min_freq", "800000"),
            ("scaling_max_freq", "2400000"),
            ("scaling_available_frequencies", "800000 2400000"),
        ] {
            write(root.path(), &format!("{cpufreq}/{name}"), khz);
        }
        let bound = root.path().join(cpufreq).join("scaling_max_freq");
        let mut held = Vec::new();
        let table = frequency_table(root.path(), &[0], &mut |khz| {
            held.push(std::fs::read_to_string(&bound).unwrap());
            // 8 ns for each byte is 1 ns for each bit.
            Ok(vec![Some(8.0 * 1e6 / khz as f64), None])
        });
        assert_eq!(held, ["800000", "2400000"]);
        assert_eq!(std::fs::read_to_string(&bound).unwrap(), "2400000");
        let labels: Vec<&str> = table.rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(labels, ["800 MHz", "2,400 MHz"]);
        assert!((table.rows[1].cells[0].number().unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(table.rows[1].cells[1], Cell::text("-"));
    }

    #[test]
    fn memory_traffic_is_counted_where_there_is_a_counter() {
        let root = tempfile::tempdir().unwrap();
        let table = traffic_table(root.path(), &mut |_, _| panic!("nothing to count with"));
        let Cell::NotAvailable { reason } = &table.rows[0].cells[0] else {
            panic!("{table:?}");
        };
        assert!(reason.contains("resctrl"), "{reason}");
        // The paper's stands there all the same.
        assert_eq!(table.rows[1].cells[0].number(), Some(2.5));
        assert_eq!(table.rows[2].cells[1].number(), Some(4.7));
        write(
            root.path(),
            "sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes",
            "4096",
        );
        let table = traffic_table(root.path(), &mut |meter, load| {
            assert!(load.is_in_cache());
            Ok(meter.bytes().unwrap() / 2_048.0)
        });
        assert_eq!(table.rows[0].cells[0], Cell::exact(2.0));
        assert!(
            matches!(&table.rows[0].cells[1], Cell::NotAvailable { reason } if reason.contains("cache"))
        );
    }

    #[test]
    fn the_published_numbers_are_found() {
        let table = rule_of_thumb();
        let numbers: Vec<Option<f64>> =
            table.rows.iter().map(|row| row.cells[0].number()).collect();
        assert_eq!(numbers, [Some(1.0), Some(6.0), Some(7.0), Some(60.0)]);
    }
}

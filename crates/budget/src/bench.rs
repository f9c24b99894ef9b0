//! Ratios of times within one run: A and B take turns, slice by slice, and each pair of neighbours gives one ratio.
//!
//! Shown are the median of the ratios and the 95 % confidence interval of the median, by the sign test (Conover 1999, 3.2:
//! the order statistics at n/2 ± 0.98 √n), which assumes nothing of how the ratios are distributed.

mod links;

use crate::hosts::{Ends, Hosts};
use crate::scenario::MTU;
use crate::table::{Align, aligned, number};
use serde::Serialize;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Instant;
use tollgate_checksum::{Kernel, sum_header};
use tollgate_link::huge_pages::ask_for;
use tollgate_run::{PathId, Placement, Waiting, Workload};
use tollgate_stack::Config;
use tollgate_workload::stack_memory::sampling::{Sampling, sampling_cost};
use tollgate_workload::{Nagle, Session, Spec, find};

/// Anything that stops a row from being measured; its text stands in the row's place.
type Failure = Box<dyn std::error::Error>;

/// Amount of measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Pairs of slices for each row.
    pub pairs: usize,
    /// Round trips in a slice.
    pub round_trips: u64,
}

impl Effort {
    /// About a minute in all.
    pub const FULL: Self = Self {
        pairs: 60,
        round_trips: 500,
    };
    /// Some ten seconds.
    pub const QUICK: Self = Self {
        pairs: 12,
        round_trips: 200,
    };
}

/// A median and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// Of the values, of which there must be one at least; with fewer than 8 the interval is their range.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let middle = *values.get(n / 2)?;
        let median = if n.is_multiple_of(2) {
            (middle + values[n / 2 - 1]) / 2.0
        } else {
            middle
        };
        let reach = 0.98 * (n as f64).sqrt();
        let low = (n as f64 / 2.0 - reach).floor().max(0.0) as usize;
        let high = ((n as f64 / 2.0 + reach).ceil() as usize).min(n - 1);
        Some(Self {
            median,
            low: values[low],
            high: values[high],
        })
    }
}

/// Outcome of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The value.
    Measured(Estimate),
    /// The reason why there is none.
    Unavailable(String),
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The two compared quantities.
    pub what: String,
    /// Unit of bar and value.
    pub unit: &'static str,
    /// The bar that the value must not exceed.
    pub bar: Option<f64>,
    /// The outcome.
    pub outcome: Outcome,
    /// The remark: absolute times, figures of others.
    pub note: String,
}

impl Line {
    /// Tells whether the bar is met; nothing when there is no bar, or no value.
    pub fn met(&self) -> Option<bool> {
        match (&self.outcome, self.bar) {
            (Outcome::Measured(estimate), Some(bar)) => Some(estimate.median <= bar),
            _ => None,
        }
    }

    fn result(&self) -> String {
        let Outcome::Measured(estimate) = &self.outcome else {
            return "not measured".to_owned();
        };
        match (self.met(), self.bar) {
            (Some(true), Some(bar)) if estimate.high > bar => "met, not surely".to_owned(),
            (Some(true), _) => "met".to_owned(),
            (Some(false), Some(bar)) => {
                let by = (estimate.median / bar - 1.0) * 100.0;
                let surely = if estimate.low <= bar {
                    ", not surely"
                } else {
                    ""
                };
                format!("missed by {by:.1} %{surely}")
            }
            _ => "-".to_owned(),
        }
    }
}

const RATIO: &str = "ratio";
const SIZES: [usize; 8] = [4, 20, 80, 200, 500, 1400, 4000, 8000];

/// Measures every row. What cannot be measured says why and hinders no other row.
pub fn run(effort: Effort) -> Vec<Line> {
    let mut lines = Vec::new();
    for (len, bar) in [(1400, 1.5), (8000, 1.5), (64 << 10, 1.1), (1 << 20, 1.1)] {
        let what = format!("copy with checksum over memcpy, {} B", number(len as f64));
        lines.push(row(what, RATIO, Some(bar), || {
            Ok(copy_over_memcpy(len, effort))
        }));
    }
    lines.push(row("checksum of a 40-byte header", "ns", Some(6.0), || {
        Ok(header_checksum(effort))
    }));
    for (ours, other, placement, bar) in [
        (
            PathId::StackMemory,
            PathId::PeerSmoltcp,
            Placement::OneCore,
            0.45,
        ),
        (PathId::StackShm, PathId::BareShm, Placement::TwoCores, 2.5),
    ] {
        for size in SIZES {
            let what = format!("round trip, {ours} over {other}, {} B", number(size as f64));
            let spec = Spec::new(Workload::Rr, size).with_mode(placement, Waiting::BusyPoll);
            lines.push(row(what, RATIO, Some(bar), || {
                path_over_path(ours, other, &spec, effort)
            }));
        }
    }
    for (path, bar) in [
        (PathId::StackMemory, Some(0.15)),
        (PathId::PeerSmoltcp, None),
    ] {
        let what = format!("stream of 16 KiB writes, {path}");
        lines.push(row(what, "ns per byte", bar, || {
            stream_per_byte(path, effort)
        }));
    }
    for (what, open, used, order, bar) in [
        (
            "round trip, 64 B, among 100,000 connections over alone",
            100_001,
            1,
            Order::AsOpened,
            1.02,
        ),
        (
            "  going round 10,000 connections over alone",
            10_000,
            10_000,
            Order::AsOpened,
            1.30,
        ),
        ("  in random order", 10_000, 10_000, Order::Random, 1.60),
        (
            "  going round 100,000 connections over alone",
            100_000,
            100_000,
            Order::AsOpened,
            4.0,
        ),
    ] {
        lines.push(row(what, RATIO, Some(bar), || {
            many_over_one(open, used, order, effort)
        }));
    }
    let (ours, other) = (PathId::StackMemory, PathId::PeerSmoltcp);
    let what = format!("connect, 1 B each way, close, {ours} over {other}");
    lines.push(row(what, RATIO, Some(0.5), || {
        let spec = Spec::new(Workload::Crr, 1).with_mode(Placement::OneCore, Waiting::BusyPoll);
        path_over_path(ours, other, &spec, effort)
    }));
    lines.push(row(
        "round trip, 64 B, gates on 1 packet in 64 over off",
        RATIO,
        Some(1.01),
        || gates_over_off(effort),
    ));
    lines.extend(links::lines(effort));
    lines
}

/// A value and what is known besides.
type Measured = (Option<Estimate>, String);

fn row(
    what: impl Into<String>,
    unit: &'static str,
    bar: Option<f64>,
    measure: impl FnOnce() -> Result<Measured, Failure>,
) -> Line {
    let (outcome, note) = match measure() {
        Ok((Some(estimate), note)) => (Outcome::Measured(estimate), note),
        Ok((None, note)) => (Outcome::Unavailable("too few slices".to_owned()), note),
        Err(error) => (Outcome::Unavailable(error.to_string()), String::new()),
    };
    Line {
        what: what.into(),
        unit,
        bar,
        outcome,
        note,
    }
}

/// Lets `a` and `b` take turns, each first as often as the other; returns the estimate of a / b and the medians of both.
fn interleaved(
    pairs: usize,
    mut a: impl FnMut() -> Result<f64, Failure>,
    mut b: impl FnMut() -> Result<f64, Failure>,
) -> Result<Option<(Estimate, f64, f64)>, Failure> {
    // One turn of each that is not counted.
    a()?;
    b()?;
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    for n in 0..pairs {
        if n.is_multiple_of(2) {
            of_a.push(a()?);
            of_b.push(b()?);
        } else {
            of_b.push(b()?);
            of_a.push(a()?);
        }
    }
    let ratios = of_a.iter().zip(&of_b).map(|(a, b)| a / b).collect();
    let medians = Estimate::of(of_a).zip(Estimate::of(of_b));
    Ok(Estimate::of(ratios)
        .zip(medians)
        .map(|(ratio, (a, b))| (ratio, a.median, b.median)))
}

/// The parts of [`interleaved`]'s answer, both medians in nanoseconds.
fn with_times(answer: Option<(Estimate, f64, f64)>) -> Measured {
    match answer {
        Some((ratio, a, b)) => (Some(ratio), format!("{} over {} ns", number(a), number(b))),
        None => (None, String::new()),
    }
}

/// Nanoseconds per call of `work`, over enough calls for some 50 microseconds.
fn timed(calls: u32, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        work();
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn copy_over_memcpy(len: usize, effort: Effort) -> Measured {
    let kernel = Kernel::best();
    let source: Vec<u8> = (0..len).map(|i| i as u8).collect();
    let mut target = vec![0; len];
    let mut other = vec![0; len];
    let calls = (4_000_000 / len).clamp(4, 4_000) as u32;
    let answer = interleaved(
        effort.pairs * 4,
        || {
            Ok(timed(calls, || {
                black_box(kernel.copy_and_sum(black_box(&mut target), black_box(&source)));
            }))
        },
        || {
            Ok(timed(calls, || {
                black_box(&mut other).copy_from_slice(black_box(&source))
            }))
        },
    );
    let (estimate, times) = with_times(answer.ok().flatten());
    (estimate, format!("{times}, {}", kernel.name()))
}

fn header_checksum(effort: Effort) -> Measured {
    let header: [u8; 40] = std::array::from_fn(|i| i as u8 * 7);
    let values = (0..effort.pairs * 4)
        .map(|_| {
            timed(10_000, || {
                black_box(sum_header(black_box(&header)).finish());
            })
        })
        .collect();
    (
        Estimate::of(values),
        "one after the other, the loop included".to_owned(),
    )
}

/// A session of round trips or writes.
fn session(path: PathId, spec: &Spec) -> Result<Box<dyn Session>, Failure> {
    let path =
        find(path).ok_or_else(|| format!("the path {path} cannot be opened in this build"))?;
    Ok(path.open(spec)?)
}

fn path_over_path(
    ours: PathId,
    other: PathId,
    spec: &Spec,
    effort: Effort,
) -> Result<Measured, Failure> {
    session_over_session((ours, other), spec, effort, |session| {
        let mut samples = session.new_samples();
        session.run(effort.round_trips, &mut samples)?;
        Ok(samples.quantile_ns(0.5).ok_or("nothing was timed")? as f64)
    })
}

/// A figure of sessions on one path over that of sessions on the other, which take turns.
fn session_over_session(
    (ours, other): (PathId, PathId),
    spec: &Spec,
    effort: Effort,
    slice: impl Fn(&mut dyn Session) -> Result<f64, Failure>,
) -> Result<Measured, Failure> {
    let (mut a, mut b) = (session(ours, spec)?, session(other, spec)?);
    Ok(with_times(interleaved(
        effort.pairs,
        || slice(&mut *a),
        || slice(&mut *b),
    )?))
}

fn stream_per_byte(path: PathId, effort: Effort) -> Result<Measured, Failure> {
    let spec =
        Spec::new(Workload::Stream, 16 << 10).with_mode(Placement::OneCore, Waiting::BusyPoll);
    let mut session = session(path, &spec)?;
    let mut values = Vec::new();
    for turn in 0..=effort.pairs {
        let mut samples = session.new_samples();
        session.run(effort.round_trips, &mut samples)?;
        if turn > 0 && samples.bytes() > 0 {
            values.push(samples.elapsed_ns() as f64 / samples.bytes() as f64);
        }
    }
    let settings = session
        .settings()
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect::<Vec<_>>();
    Ok((Estimate::of(values), settings.join(", ")))
}

/// Two hosts with `open` connections, of which round trips go round the last `used`.
struct Many {
    hosts: Hosts,
    ends: Vec<Ends>,
    next: usize,
}

/// Order in which connections take their turns.
#[derive(Clone, Copy)]
enum Order {
    AsOpened,
    Random,
}

impl Many {
    fn new(open: usize, used: usize, order: Order) -> Result<Self, Failure> {
        let without_nagle = |config: &mut Config| config.mechanisms.nagle = Nagle::Off;
        let mut hosts = Hosts::with_busy(open, used, MTU, without_nagle)?;
        // Without them the note behind the row says so.
        let _ = ask_for(hosts.large_tables());
        let mut ends = hosts.connect_many(open)?.split_off(open - used);
        match order {
            Order::AsOpened => {}
            Order::Random => shuffle(&mut ends),
        }
        let mut many = Self {
            hosts,
            ends,
            next: 0,
        };
        many.round_trips(2 * used as u64);
        Ok(many)
    }

    #[inline(never)]
    fn round_trips(&mut self, count: u64) -> f64 {
        let mut buffer = [0; 64];
        let start = Instant::now();
        for _ in 0..count {
            self.hosts
                .round_trip(self.ends[self.next], &[7; 64], &mut buffer);
            self.next = if self.next + 1 == self.ends.len() {
                0
            } else {
                self.next + 1
            };
        }
        start.elapsed().as_nanos() as f64 / count as f64
    }
}

/// Fisher and Yates's order by a generator of Marsaglia's (xorshift, 64 bits), so that each run has the same.
fn shuffle<T>(items: &mut [T]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(last, (state % (last as u64 + 1)) as usize);
    }
}

fn many_over_one(
    open: usize,
    used: usize,
    order: Order,
    effort: Effort,
) -> Result<Measured, Failure> {
    let (mut many, mut one) = (
        Many::new(open, used, order)?,
        Many::new(1, 1, Order::AsOpened)?,
    );
    // Whole rounds, so that every slice visits the same connections.
    let count = effort.round_trips.max(used as u64);
    let answer = interleaved(
        effort.pairs,
        || Ok(many.round_trips(count)),
        || Ok(one.round_trips(count)),
    )?;
    let (ratio, times) = with_times(answer);
    Ok((ratio, format!("{times}, {}", huge_pages())))
}

/// The share of this program's memory that lies in huge pages, in words.
fn huge_pages() -> String {
    std::fs::read_to_string("/proc/self/smaps_rollup")
        .ok()
        .and_then(|text| of_huge_pages(&text))
        .map_or("huge pages not known".to_owned(), |mebibytes| {
            format!("{} MiB in huge pages", number(mebibytes))
        })
}

/// Memory in huge pages, in MiB, from the kernel's account of a process.
fn of_huge_pages(rollup: &str) -> Option<f64> {
    let line = rollup
        .lines()
        .find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kibibytes / 1024) as f64)
}

fn gates_over_off(effort: Effort) -> Result<Measured, Failure> {
    let spec = Spec::new(Workload::Rr, 64).with_mode(Placement::OneCore, Waiting::BusyPoll);
    let sampling = Sampling {
        one_in: NonZeroU32::new(64).unwrap_or(NonZeroU32::MIN),
        rounds: (effort.pairs / 6).max(1) as u32,
        ..Sampling::default()
    };
    let cost = sampling_cost(&spec, &sampling)?;
    let ratios = cost
        .with_ns
        .iter()
        .zip(&cost.without_ns)
        .map(|(with, without)| with / without)
        .collect();
    let times = Estimate::of(cost.with_ns.clone()).zip(Estimate::of(cost.without_ns.clone()));
    let note = times.map_or(String::new(), |(a, b)| {
        format!("{} over {} ns", number(a.median), number(b.median))
    });
    Ok((Estimate::of(ratios), note))
}

/// The table.
pub fn table(lines: &[Line]) -> String {
    use Align::{Left, Right};
    let columns = [
        ("what", Left),
        ("bar", Right),
        ("value", Right),
        ("95 % interval", Right),
        ("unit", Left),
        ("bar is", Left),
        ("note", Left),
    ];
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let (value, interval, note) = match &line.outcome {
                Outcome::Measured(estimate) => (
                    format!("{:.3}", estimate.median),
                    format!("{:.3} to {:.3}", estimate.low, estimate.high),
                    line.note.clone(),
                ),
                Outcome::Unavailable(why) => ("-".to_owned(), "-".to_owned(), why.clone()),
            };
            let bar = line.bar.map_or("-".to_owned(), |bar| format!("{bar}"));
            vec![
                line.what.clone(),
                bar,
                value,
                interval,
                line.unit.to_owned(),
                line.result(),
                note,
            ]
        })
        .collect();
    aligned(&columns, &rows)
}

/// The verdict in one line.
pub fn verdict(lines: &[Line]) -> String {
    let with_bar = lines.iter().filter(|line| line.bar.is_some()).count();
    let met = lines.iter().filter(|line| line.met() == Some(true)).count();
    let unmeasured = lines
        .iter()
        .filter(|line| matches!(line.outcome, Outcome::Unavailable(_)))
        .count();
    let unmeasured = if unmeasured == 0 {
        String::new()
    } else {
        format!("; {unmeasured} not measured")
    };
    format!("bench: {met} of {with_bar} bars met{unmeasured}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bar: f64, outcome: Outcome) -> Line {
        Line {
            what: "a over b".to_owned(),
            unit: RATIO,
            bar: Some(bar),
            outcome,
            note: "7 over 8 ns".to_owned(),
        }
    }

    fn measured(low: f64, median: f64, high: f64) -> Outcome {
        Outcome::Measured(Estimate { median, low, high })
    }

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // n = 16: n/2 ± 0.98 * 4 gives the positions 4 and 12 of 0 to 15.
        let estimate = Estimate::of((0..16).map(f64::from).collect()).unwrap();
        assert_eq!(
            estimate,
            Estimate {
                median: 7.5,
                low: 4.0,
                high: 12.0
            }
        );
        assert_eq!(
            Estimate::of(vec![3.0]).unwrap(),
            Estimate {
                median: 3.0,
                low: 3.0,
                high: 3.0
            }
        );
        assert_eq!(Estimate::of(Vec::new()), None);
    }

    #[test]
    fn turns_alternate_and_ratios_are_of_neighbours() {
        let turns = std::cell::RefCell::new(String::new());
        let turn = |who: char, time: f64| {
            turns.borrow_mut().push(who);
            Ok(time)
        };
        let (ratio, a, b) = interleaved(3, || turn('a', 6.0), || turn('b', 3.0))
            .unwrap()
            .unwrap();
        assert_eq!(turns.into_inner(), "ababbaab");
        assert_eq!((ratio.median, a, b), (2.0, 6.0, 3.0));
    }

    #[test]
    fn huge_pages_are_read_from_what_the_kernel_tells() {
        let rollup = "Anonymous:        109568 kB\nAnonHugePages:     81920 kB\nShmemPmdMapped:        0 kB\n";
        assert_eq!(of_huge_pages(rollup), Some(80.0));
        assert_eq!(of_huge_pages("Rss: 1 kB\n"), None);
        assert_eq!(of_huge_pages("AnonHugePages: many\n"), None);
    }

    #[test]
    fn a_failure_stands_in_its_row() {
        let failed = row("a", RATIO, Some(1.0), || Err("the path is closed".into()));
        assert_eq!(failed.met(), None);
        assert!(table(std::slice::from_ref(&failed)).contains("the path is closed"));
        assert_eq!(verdict(&[failed]), "bench: 0 of 1 bars met; 1 not measured");
    }

    #[test]
    fn the_table_from_fixed_numbers() {
        let lines = [
            line(0.45, measured(0.40, 0.42, 0.44)),
            line(0.45, measured(0.40, 0.44, 0.47)),
            line(0.45, measured(0.44, 0.47, 0.50)),
            line(0.45, measured(0.80, 0.90, 1.00)),
            line(0.45, Outcome::Unavailable("no such path".to_owned())),
        ];
        insta::assert_snapshot!(format!("{}\n{}", table(&lines), verdict(&lines)));
    }
}

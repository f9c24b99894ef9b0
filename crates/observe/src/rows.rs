//! Times of a span, or of several, as a row: counts, mean and percentiles, the interval of the mean, and what was taken off for gates.
//!
//! Pure. It must never leave out of a row's interval what is known to move it.

use tollgate_kernel::sample_hooks::Choice;
use tollgate_kernel::sample_hooks::DRIVER_END_BOUNDARY;
use tollgate_run::observation::Row;
use tollgate_stats::{Estimate, Interval};

use crate::Raw;
use crate::memory::{FINEST_BITS, PLACES, RawHistogram};

const P: Option<&str> = Some("processing");
const Q: Option<&str> = Some("queueing");
const A: Option<&str> = Some("application");
const TX: Option<&str> = Some("transmit");
const RX: Option<&str> = Some("receive");

/// The spans and sums by their numbers in the programs: name, direction, kind.
const SPANS: [(&str, Option<&str>, Option<&str>); crate::memory::SPANS] = [
    ("tcp", TX, P),
    ("tcp, ip", TX, P),
    ("send.queue", TX, Q),
    ("retransmission", TX, Q),
    ("ip", TX, P),
    ("device.queue", TX, Q),
    ("driver", TX, P),
    ("ip.queue", RX, Q),
    ("ip", RX, P),
    ("demux", RX, P),
    ("ip, demux", RX, P),
    ("backlog", RX, Q),
    ("tcp", RX, P),
    ("out.of.order", RX, Q),
    ("wakeup", RX, Q),
    ("resume", RX, P),
    ("application", RX, A),
    ("syscall", RX, P),
    ("socket.queue", RX, Q),
    ("socket", RX, P),
    ("transmit", TX, None),
    ("receive", RX, None),
    ("send to receive", None, None),
    ("processing", None, P),
    ("queueing", None, Q),
    ("receive to send", None, None),
];
/// Spans before the sums.
pub(super) const ON_THE_WAY: usize = 20;

/// The row of the reader's queue of IP, where a driver's return lies, too.
const IP_QUEUE: usize = 7;
/// The row from a reader's return to the next that it sends.
const SERVICE: usize = 25;
/// A row of which more than this share was taken off is marked.
const MARK: f64 = 1.0 / 3.0;

/// The middle of the times that a bucket holds, in nanoseconds.
fn middle(place: usize) -> f64 {
    let finest = 1 << FINEST_BITS;
    if place < finest {
        return place as f64;
    }
    let (octave, step) = (place / finest - 1, place % finest);
    let width = (1_u64 << octave) as f64;
    (finest + step) as f64 * width + (width - 1.0) / 2.0
}

fn row(index: usize, before: Option<&RawHistogram>, after: &RawHistogram) -> Option<Row> {
    let less = |after: u64, before: Option<u64>| after.saturating_sub(before.unwrap_or(0));
    let n = less(after.samples, before.map(|one| one.samples));
    let weights: Vec<u64> = (0..PLACES)
        .map(|at| less(after.place[at], before.map(|one| one.place[at])))
        .collect();
    let stands_for: u64 = weights.iter().sum();
    if n == 0 || stands_for == 0 {
        return None;
    }
    let quantile = |q: f64| {
        let wanted = (q * stands_for as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let at = weights.iter().position(|weight| {
            sum += weight;
            sum >= wanted
        });
        middle(at.unwrap_or(PLACES - 1))
    };
    let (name, direction, kind) = SPANS[index];
    // Sums go down, too, and wrap round.
    let sum = after.sum.wrapping_sub(before.map_or(0, |one| one.sum));
    let mean_ns = sum as f64 / stands_for as f64;
    let taken_off_ns = less(after.taken, before.map(|one| one.taken)) as f64 / stands_for as f64;
    Some(Row {
        name,
        direction,
        kind,
        n,
        stands_for,
        mean_ns,
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
        p999_ns: quantile(0.999),
        interval_ns: None,
        taken_off_ns,
        marked: taken_off_ns > MARK * (mean_ns + taken_off_ns),
        share: None,
    })
}

/// Calls of gates that lie in a message's share of each row: their cost, and so its error, is taken off as often.
fn calls(rows: &[Option<Row>], choice: &Choice) -> [f64; SPANS.len()] {
    let own = |index: usize| match index {
        IP_QUEUE if choice.takes(DRIVER_END_BOUNDARY) => 2.0,
        SERVICE if choice.takes_calls() => 3.0,
        _ => 1.0,
    };
    std::array::from_fn(|index| {
        let (Some(row), true) = (&rows[index], (ON_THE_WAY..SERVICE).contains(&index)) else {
            return own(index);
        };
        // A sum holds the rows on the way of its direction and its kind.
        let is_part = |part: &Row| {
            (row.direction.is_none() || part.direction == row.direction)
                && (row.kind.is_none() || part.kind == row.kind)
        };
        let parts = rows[..ON_THE_WAY].iter().enumerate();
        let weights = parts.filter_map(|(at, part)| {
            let part = part.as_ref().filter(|part| is_part(part))?;
            Some(own(at) * part.stands_for as f64)
        });
        weights.sum::<f64>() / row.stands_for as f64
    })
}

/// The interval of a mean from which so many calls of gates were taken off. The error of the sampling and that of a call are independent; a call
/// that costs more makes the span shorter. It reaches below 0 where the gates took about all of the span.
fn together(mean_ns: f64, sampling: Interval, call: Option<Estimate>, calls: f64) -> [f64; 2] {
    let half = (sampling.high - sampling.low) / 2.0;
    let [shorter, longer] = call.map_or([0.0; 2], |call| {
        [
            calls * (call.interval.high - call.value),
            calls * (call.value - call.interval.low),
        ]
    });
    [mean_ns - half.hypot(shorter), mean_ns + half.hypot(longer)]
}

/// The rows between two readings, by their numbers in the programs; none where no sample passed.
pub(super) fn rows(
    before: Option<&Raw>,
    after: &Raw,
    choice: &Choice,
) -> [Option<Row>; SPANS.len()] {
    let mut rows: [Option<Row>; SPANS.len()] = std::array::from_fn(|index| {
        let before = before.map(|raw| &*raw.histograms[index]);
        row(index, before, &after.histograms[index])
    });
    let calls = calls(&rows, choice);
    let series = before.map_or(&after.whole, |_| &after.recent);
    let call = after.cost.as_ref().ok().map(|cost| cost.call);
    for (index, row) in rows.iter_mut().enumerate() {
        if let Some(row) = row {
            row.interval_ns = series
                .interval(index)
                .map(|sampling| together(row.mean_ns, sampling, call, calls[index]));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Index of the bin of a time; `place()` of bpf/observe.bpf.c.
    fn place(ns: u64) -> usize {
        let finest = 1 << FINEST_BITS;
        if ns < finest {
            return ns as usize;
        }
        let octave = ns.ilog2();
        ((u64::from(octave - FINEST_BITS + 1) * finest)
            + (ns >> (octave - FINEST_BITS) & (finest - 1))) as usize
    }

    proptest::proptest! {
        #[test]
        fn a_time_comes_back_within_a_hundredth(ns in 1_u64..1 << 40) {
            let back = middle(place(ns));
            proptest::prop_assert!((back - ns as f64).abs() <= ns as f64 * 0.01, "{back} for {ns}");
        }
    }

    fn histogram(times: &[(u64, u64)]) -> RawHistogram {
        let mut histogram = RawHistogram {
            samples: 0,
            weight: 0,
            sum: 0,
            taken: 0,
            place: [0; PLACES],
        };
        for &(ns, weight) in times {
            histogram.samples += 1;
            histogram.weight += weight;
            histogram.sum += (ns * weight) as i64;
            histogram.place[place(ns)] += weight;
        }
        histogram
    }

    #[test]
    fn a_sample_counts_as_often_as_it_stands_for() {
        let row = row(0, None, &histogram(&[(10, 98), (50, 1), (1_000_000, 1)])).unwrap();
        assert_eq!(
            (row.n, row.stands_for, row.p50_ns, row.p99_ns),
            (3, 100, 10.0, 50.0)
        );
        assert_eq!(row.mean_ns, (980.0 + 50.0 + 1e6) / 100.0);
        assert!((row.p999_ns / 1e6 - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_row_is_what_came_since_the_reading_before() {
        let (before, after) = (histogram(&[(10, 1)]), histogram(&[(10, 1), (30, 2)]));
        let row = row(7, Some(&before), &after).unwrap();
        assert_eq!(
            (row.name, row.n, row.stands_for, row.mean_ns),
            ("ip.queue", 1, 2, 30.0)
        );
        assert_eq!(super::row(7, Some(&after), &after), None);
    }

    #[test]
    fn row_is_marked_when_more_than_a_third_was_taken_off() {
        let mut histogram = histogram(&[(200, 3)]);
        for (taken, marked) in [(100, false), (101, true)] {
            histogram.taken = 3 * taken;
            let row = row(0, None, &histogram).unwrap();
            assert_eq!((row.taken_off_ns, row.marked), (taken as f64, marked));
        }
    }

    #[test]
    fn times_below_0_count_as_they_are() {
        // Half of the times are 40 ns and half -20 ns, for the gates took more than there was.
        let mut after = histogram(&[(40, 10)]);
        (after.samples, after.weight) = (2, 20);
        after.sum -= 10 * 20;
        after.place[0] += 10;
        after.taken = 20 * 100;
        let row = row(0, None, &after).unwrap();
        assert_eq!((row.mean_ns, row.marked), (10.0, true));
        assert_eq!((row.p50_ns, row.p99_ns), (0.0, 40.0));
        let sampling = Interval {
            low: -5.0,
            high: 25.0,
        };
        assert_eq!(together(row.mean_ns, sampling, None, 1.0), [-5.0, 25.0]);
        // A sum goes down from one reading to the next.
        let mut later = after;
        (later.samples, later.weight) = (3, 30);
        later.sum -= 10 * 20;
        later.place[0] += 10;
        assert_eq!(super::row(0, Some(&after), &later).unwrap().mean_ns, -20.0);
    }

    #[test]
    fn interval_holds_the_sampling_and_the_gates() {
        let interval = |low: f64, high: f64| Interval { low, high };
        let of = |call| together(1_000.0, interval(970.0, 1_030.0), call, 2.0);
        assert_eq!(of(None), [970.0, 1_030.0]);
        let call = |low, value, high| Estimate {
            value,
            interval: interval(low, high),
            n: 6,
        };
        // 30 ns of the sampling, and twice 20 ns.
        assert_eq!(of(Some(call(80.0, 100.0, 120.0))), [950.0, 1_050.0]);
        // Where the call may cost much more and not much less the span may be much shorter.
        assert_eq!(of(Some(call(100.0, 100.0, 120.0))), [950.0, 1_030.0]);
    }

    #[test]
    fn sums_hold_the_calls_of_their_rows() {
        let choice = Choice {
            taken: Vec::new(),
            programs: Vec::new(),
            missing: Vec::new(),
        };
        let mut rows: [Option<Row>; SPANS.len()] = std::array::from_fn(|_| None);
        // tcp and ip out, and a wake-up in half of the passages; transmit and queueing.
        for (index, weight) in [(0, 10), (4, 10), (14, 5), (20, 10), (24, 10)] {
            rows[index] = row(index, None, &histogram(&[(100, weight)]));
        }
        let calls = calls(&rows, &choice);
        assert_eq!((calls[0], calls[20], calls[24]), (1.0, 2.0, 0.5));
    }
}

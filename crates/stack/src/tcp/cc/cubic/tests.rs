//! CUBIC against its formulas in real numbers.

use super::super::LIMIT;
use super::super::hystart;
use super::*;
use core::time::Duration;
use proptest::prelude::*;

const MSS: u16 = 1448;
const START: Instant = Instant::from_nanos(1 << 40);
/// A round trip of 20 ms, nanoseconds.
const RTT: u64 = 20_000_000;

/// W_cubic in real numbers, bytes.
fn reference_w_cubic(w_max: u32, k_seconds: f64, t_seconds: f64, mss: u16) -> f64 {
    0.4 * (t_seconds - k_seconds).powi(3) * f64::from(mss) + f64::from(w_max)
}

/// K in real numbers, seconds.
fn reference_k(w_max: u32, cwnd_epoch: u32, mss: u16) -> f64 {
    ((f64::from(w_max) - f64::from(cwnd_epoch)) / f64::from(mss) / 0.4).cbrt()
}

proptest! {
    #[test]
    fn cube_root_is_the_greatest_whose_cube_is_no_more(number in 0u128..1 << 126) {
        let root = u128::from(cube_root(number));
        prop_assert!(root.pow(3) <= number);
        prop_assert!((root + 1).pow(3) > number);
    }

    #[test]
    fn cube_root_of_a_cube_is_exact(root in 0u64..1 << 41) {
        prop_assert_eq!(cube_root(u128::from(root).pow(3)), root);
    }

    /// K lies at most a microsecond below its real value.
    #[test]
    fn k_is_exact_to_a_microsecond(
        w_max in 1u32..=MAX_WINDOW, cwnd in 1u32..=MAX_WINDOW, mss in 64u16..=65_000,
    ) {
        let exact = reference_k(w_max, cwnd, mss) * 1e6;
        let distance = exact.abs() - k(w_max, cwnd, mss).unsigned_abs() as f64;
        prop_assert!((-1e-3..=1.0).contains(&distance), "{distance} us of {exact}");
    }

    /// W_cubic is exact to a byte, and to what a microsecond of K makes of it: the slope there, 3 C (t - K)^2.
    #[test]
    fn w_cubic_is_exact_to_a_byte_and_a_microsecond(
        w_max in 1u32..=MAX_WINDOW, part in 0.01f64..=1.0, t in 0i64..400_000_000, mss in 64u16..=65_000,
    ) {
        let cwnd = (f64::from(w_max) * part) as u32;
        let ours = w_cubic(w_max, k(w_max, cwnd, mss), t, mss);
        let k_seconds = reference_k(w_max, cwnd, mss);
        let t_seconds = t as f64 / 1e6;
        let exact = reference_w_cubic(w_max, k_seconds, t_seconds, mss).clamp(0.0, f64::from(MAX_WINDOW));
        let from_k = (t_seconds - k_seconds).abs() + 1e-6;
        let error = 1.0 + 3.0 * 0.4 * f64::from(mss) * from_k * from_k * 1e-6;
        prop_assert!((f64::from(ours) - exact).abs() <= error + 1e-6 * exact.max(1.0), "{ours} and {exact}, error {error}");
    }

    #[test]
    fn no_sequence_of_events_breaks_the_window(
        events in proptest::collection::vec((0u8..8, any::<u32>(), 0u64..1 << 36), 0..200), mss in 64u16..=65_000,
    ) {
        let mut flow = Flow::new(mss);
        for (event, number, nanos) in events {
            flow.now = flow.now + Duration::from_nanos(nanos);
            let before = flow.tcb.cwnd;
            match event {
                0 => {
                    flow.tcb.ssthresh = flow.cubic.on_loss(before, number.min(before)).max(2 * u32::from(mss));
                    flow.tcb.cwnd = flow.tcb.ssthresh;
                }
                1 => {
                    flow.cubic.on_timeout();
                    flow.tcb.cwnd = u32::from(mss);
                }
                2 => flow.tcb.rtt.update(nanos),
                _ => {
                    flow.ack(number);
                    prop_assert!(flow.tcb.cwnd >= before);
                    let most = (before / 2).max(hystart::limit(mss)).max(number.min(before));
                    prop_assert!(flow.tcb.cwnd - before <= most);
                }
            }
        }
    }
}

#[test]
fn w_cubic_is_w_max_at_k_and_clamped_far_from_it() {
    let time = k(1_000_000, 700_000, MSS);
    assert_eq!(w_cubic(1_000_000, time, time, MSS), 1_000_000);
    assert!(w_cubic(1_000_000, time, 0, MSS).abs_diff(700_000) <= 1);
    assert_eq!(w_cubic(1_000_000, time, i64::MAX, MSS), MAX_WINDOW);
    assert_eq!(w_cubic(1_000_000, i64::MAX, 0, MSS), 0);
}

#[test]
fn k_is_negative_where_the_window_is_larger_than_w_max() {
    let time = k(700_000, 1_000_000, MSS);
    assert_eq!(time, -k(1_000_000, 700_000, MSS));
    assert!(w_cubic(700_000, time, 0, MSS).abs_diff(1_000_000) <= 1);
}

/// A sender whose window is the only limit.
struct Flow {
    tcb: Tcb,
    cubic: Cubic,
    now: Instant,
}

impl Flow {
    fn new(mss: u16) -> Self {
        let mut tcb = Tcb {
            mss,
            cwnd: 10 * u32::from(mss),
            ..Tcb::FREE
        };
        tcb.rtt.update(RTT);
        Self {
            tcb,
            cubic: Cubic::default(),
            now: START,
        }
    }

    /// A flow that has just lost something with a window of so many segments, and has recovered. Its window is one
    /// byte above the threshold, so that slow start is over.
    fn after_loss(segments: u32) -> Self {
        let mut flow = Self::new(MSS);
        flow.tcb.cwnd = segments * u32::from(MSS);
        flow.lose();
        flow
    }

    fn lose(&mut self) {
        let cwnd = self.tcb.cwnd;
        self.tcb.ssthresh = self.cubic.on_loss(cwnd, cwnd);
        self.tcb.cwnd = self.tcb.ssthresh + 1;
    }

    fn ack(&mut self, bytes: u32) {
        let ack = Ack {
            bytes,
            now: self.now,
            rtt: None,
            limit: LIMIT,
        };
        self.cubic.on_ack(&mut self.tcb, ack);
    }

    /// A round trip in which the whole window is acknowledged by so many acknowledgments.
    fn round(&mut self, acknowledgments: u32) {
        let window = self.tcb.cwnd;
        for n in 0..acknowledgments {
            self.now = self.now + Duration::from_nanos(RTT / u64::from(acknowledgments));
            let end = |n| (u64::from(window) * u64::from(n) / u64::from(acknowledgments)) as u32;
            self.ack(end(n + 1) - end(n));
        }
    }
}

#[test]
fn window_follows_the_cubic_function_after_a_loss() {
    // Large enough for the cubic function to exceed Reno's from the first round trip on.
    const WINDOW: u32 = 20_000;
    let mut flow = Flow::after_loss(WINDOW);
    let w_max = WINDOW * u32::from(MSS);
    assert_eq!(flow.tcb.ssthresh, w_max / 10 * 7);
    let start = flow.tcb.cwnd;
    let k_seconds = reference_k(w_max, start, MSS);
    let begin = flow.now;
    let mut crossed = false;
    for round in 0..2000 {
        flow.round(100);
        let t = flow.now.nanos_since(begin) as f64 / 1e9;
        let exact = reference_w_cubic(w_max, k_seconds, t, MSS);
        // The window of one round trip is aimed at in the one before, so it follows in steps of a round trip.
        let step = reference_w_cubic(w_max, k_seconds, t + 0.02, MSS) - exact;
        let (low, high) = (exact - step - 1500.0, exact + step + 1500.0);
        let cwnd = f64::from(flow.tcb.cwnd);
        assert!(
            (low..=high).contains(&cwnd),
            "round {round}: {cwnd}, not {exact}"
        );
        crossed |= flow.tcb.cwnd > w_max;
    }
    assert!(crossed, "the convex region was not reached");
}

#[test]
fn window_grows_the_same_however_acknowledgments_are_spaced() {
    let grown = |acknowledgments| {
        let mut flow = Flow::after_loss(5000);
        for _ in 0..200 {
            flow.round(acknowledgments);
        }
        f64::from(flow.tcb.cwnd)
    };
    let fine = grown(1000);
    for acknowledgments in [10, 100, 500] {
        assert!((grown(acknowledgments) / fine - 1.0).abs() < 0.005);
    }
}

#[test]
fn small_window_grows_as_reno_does_by_alpha_and_then_by_a_segment() {
    // RFC 9438, 4.3. With 20 segments and 20 ms the cubic function is slower for seconds.
    let mut flow = Flow::after_loss(20);
    let prior = 20 * u32::from(MSS);
    let mut before = f64::from(flow.tcb.cwnd);
    for _ in 0..30 {
        let alpha = if flow.tcb.cwnd < prior {
            9.0 / 17.0
        } else {
            1.0
        };
        flow.round(20);
        let grown = (f64::from(flow.tcb.cwnd) - before) / f64::from(MSS);
        // The window grows within the round, and so its share of a segment shrinks; one round is split between both.
        let crosses = before < f64::from(prior) && flow.tcb.cwnd >= prior;
        assert!(
            crosses || (alpha - 0.06..=alpha + 0.01).contains(&grown),
            "{grown} of {alpha}"
        );
        before = f64::from(flow.tcb.cwnd);
    }
    assert!(flow.tcb.cwnd > prior);
}

#[test]
fn loss_leaves_seven_tenths_of_the_flight() {
    let mut cubic = Cubic::default();
    assert_eq!(cubic.on_loss(100_000, 90_000), 63_000);
    assert_eq!((cubic.w_max, cubic.cwnd_prior), (Some(100_000), 100_000));
}

#[test]
fn second_loss_below_the_first_leaves_room_for_others() {
    // RFC 9438, 4.7: fast convergence.
    let mut cubic = Cubic::default();
    cubic.on_loss(100_000, 100_000);
    cubic.on_loss(80_000, 80_000);
    assert_eq!((cubic.w_max, cubic.cwnd_prior), (Some(68_000), 80_000));
    cubic.on_loss(90_000, 90_000);
    assert_eq!(cubic.w_max, Some(90_000));
}

#[test]
fn stage_after_a_timeout_begins_at_its_own_maximum() {
    // RFC 9438, 4.8: K = 0 and W_max is the window where congestion avoidance begins.
    let mut flow = Flow::after_loss(1000);
    flow.cubic.on_timeout();
    flow.tcb.cwnd = flow.tcb.ssthresh + 1;
    let cwnd = flow.tcb.cwnd;
    flow.ack(1);
    let epoch = flow.cubic.epoch.unwrap();
    assert_eq!((epoch.k, flow.cubic.w_max), (0, Some(cwnd)));
}

#[test]
fn slow_start_ends_at_the_threshold() {
    // RFC 5681, 3.1. A recovery leaves the window there, and must not begin with slow start (RFC 9438, 4.10 would allow it).
    let mut flow = Flow::after_loss(100);
    flow.tcb.cwnd = flow.tcb.ssthresh - 1;
    flow.ack(1);
    assert_eq!(flow.tcb.cwnd, flow.tcb.ssthresh);
    assert!(flow.cubic.epoch.is_none());
    flow.ack(u32::from(MSS));
    assert!(flow.tcb.cwnd < flow.tcb.ssthresh + u32::from(MSS));
    assert!(flow.cubic.epoch.is_some());
}

#[test]
fn hystart_hands_over_without_a_loss() {
    // RFC 9438, 4.10: cwnd_prior = cwnd, K = 0, W_max = cwnd.
    let mut flow = Flow::new(MSS);
    for round in 0u64.. {
        let rtt = RTT + if round < 2 { 0 } else { 10_000_000 };
        for _ in 0..flow.tcb.cwnd / u32::from(MSS) {
            flow.tcb.snd_una += u32::from(MSS);
            flow.tcb.snd_nxt = flow.tcb.snd_una + flow.tcb.cwnd;
            let ack = Ack {
                bytes: u32::from(MSS),
                now: flow.now,
                rtt: Some(rtt),
                limit: LIMIT,
            };
            flow.cubic.on_ack(&mut flow.tcb, ack);
            if let Some(epoch) = flow.cubic.epoch {
                assert_eq!(flow.tcb.ssthresh, flow.tcb.cwnd);
                assert_eq!((epoch.k, flow.cubic.cwnd_prior), (0, flow.tcb.cwnd));
                assert!(!flow.cubic.starts_slowly(&flow.tcb));
                return;
            }
        }
        assert!(round < 20, "slow start never ended");
    }
}

#[test]
fn time_without_a_limit_does_not_count() {
    // RFC 9438, 4.2 and 5.8: t does not include it.
    let run = |pause: Duration| {
        let mut flow = Flow::after_loss(5000);
        for _ in 0..50 {
            flow.round(100);
        }
        flow.now = flow.now + pause;
        let before = flow.tcb.cwnd;
        flow.round(100);
        (before, flow.tcb.cwnd - before)
    };
    let (window, steady) = run(Duration::ZERO);
    let (same_window, rested) = run(Duration::from_secs(60));
    assert_eq!(window, same_window);
    // The round trip in which the pause lies counts for one more.
    assert!(
        rested >= steady && rested <= 2 * steady + u32::from(MSS),
        "{rested}, {steady}"
    );
}

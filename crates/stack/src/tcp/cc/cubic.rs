//! CUBIC (RFC 9438): the window is a cubic function of the time since the last loss.
//!
//! All of it is in integers: windows in bytes, fractions of a byte in 2^-16, times in microseconds. W_cubic is exact to a byte
//! and to what a microsecond of K makes of it; the tests hold it against real numbers.
//!
//! Two readings of the RFC. The increment of sections 4.4 and 4.5 is taken for each segment that an acknowledgment covers and not for
//! each acknowledgment (erratum 9186; RFC 3465): otherwise a receiver that delays acknowledgments halves it. And the window never
//! shrinks on an acknowledgment: in the Reno-friendly region it is set to W_est only where that is more.
//!
//! Time in which the application or the peer's window limits the sender does not count (4.2, 5.8). Acknowledgments of such
//! time are not seen here; of a gap between two that are, a round trip counts.

use super::hystart::HyStart;
use super::{Ack, MAX_WINDOW};
use crate::tcp::tcb::Tcb;
use crate::time::Instant;

/// C, segments per second cubed, as a fraction: 0.4 (RFC 9438, 5.1).
const C: (i128, i128) = (2, 5);
/// beta_cubic as a fraction: 0.7 (RFC 9438, 4.6).
const BETA: (u64, u64) = (7, 10);
/// (1 + beta_cubic) / 2 as a fraction: what fast convergence leaves of W_max (RFC 9438, 4.7).
const CONVERGENCE: (u64, u64) = (17, 20);
/// alpha_cubic as a fraction: 3 (1 - beta_cubic) / (1 + beta_cubic) (RFC 9438, 4.3).
const ALPHA: (u64, u64) = (9, 17);
/// alpha_cubic once W_est has reached the window before the loss: that of Reno (RFC 9438, 4.3).
const ALPHA_OF_RENO: (u64, u64) = (1, 1);

/// Microseconds per second, cubed.
const CUBED: i128 = 1_000_000_000_000_000_000;
/// The longest distance from K that is told from longer ones, microseconds. W_cubic is far beyond [`MAX_WINDOW`] there.
const LONGEST: i64 = 1 << 32;
/// Bits of the fraction of a byte.
const FRACTION: u32 = 16;

/// State of CUBIC.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cubic {
    /// W_max, bytes; none before the first loss and after a timeout.
    w_max: Option<u32>,
    /// cwnd_prior, bytes.
    cwnd_prior: u32,
    /// The current stage of congestion avoidance; none in slow start and after a loss.
    epoch: Option<Epoch>,
    hystart: HyStart,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// t_epoch, moved on by the time that does not count.
    began: Instant,
    /// When the last acknowledgment was counted.
    counted: Instant,
    /// K, microseconds. It is negative where the window is larger than W_max.
    k: i64,
    /// W_est, 2^-16 bytes.
    w_est: u64,
    /// The part of a byte by which the window is to grow, 2^-16 bytes.
    owed: u64,
}

/// The greatest number whose cube is at most `number`, which is less than 2^126.
fn cube_root(number: u128) -> u64 {
    let bits = u128::BITS - number.leading_zeros();
    let mut root = 0u64;
    for bit in (0..bits.div_ceil(3)).rev() {
        let more = root | 1 << bit;
        if u128::from(more).pow(3) <= number {
            root = more;
        }
    }
    root
}

/// K, microseconds: the time from a window of `cwnd_epoch` to one of `w_max` (RFC 9438, 4.2, figure 2).
fn k(w_max: u32, cwnd_epoch: u32, mss: u16) -> i64 {
    let (num, den) = (C.0.unsigned_abs(), C.1.unsigned_abs());
    let distance = u128::from(w_max.abs_diff(cwnd_epoch));
    let cube = distance * den * CUBED.unsigned_abs() / (num * u128::from(mss.max(1)));
    let root = cube_root(cube) as i64;
    if w_max < cwnd_epoch { -root } else { root }
}

/// W_cubic, bytes: the window `t` microseconds after the stage began (RFC 9438, 4.2, figure 1).
fn w_cubic(w_max: u32, k: i64, t: i64, mss: u16) -> u32 {
    let from_k = i128::from(t.saturating_sub(k).clamp(-LONGEST, LONGEST));
    let growth = C.0 * i128::from(mss) * from_k.pow(3) / (C.1 * CUBED);
    (i128::from(w_max) + growth).clamp(0, i128::from(MAX_WINDOW)) as u32
}

impl Cubic {
    /// Tells whether the window is in slow start. At the threshold it is not, although RFC 9438, 4.10 says "no more than": there a
    /// recovery leaves it, and an acknowledgment that adds two segments to seven would take back what the loss has cost. RFC 5681,
    /// 3.1 allows either.
    pub(super) fn starts_slowly(&self, tcb: &Tcb) -> bool {
        tcb.cwnd < tcb.ssthresh
    }

    pub(super) fn on_ack(&mut self, tcb: &mut Tcb, ack: Ack) {
        if !self.starts_slowly(tcb) {
            self.avoid_congestion(tcb, ack);
            return;
        }
        self.epoch = None;
        if tcb.ssthresh != u32::MAX {
            let most = ack.limit * u32::from(tcb.mss);
            tcb.cwnd = tcb.cwnd.saturating_add(ack.bytes.min(most));
        } else if self.hystart.on_ack(tcb, ack) {
            // RFC 9406, 4.2; RFC 9438, 4.10: without a loss, so the stage begins with K = 0.
            tcb.ssthresh = tcb.cwnd;
            self.cwnd_prior = tcb.cwnd;
            self.begin(tcb, ack.now);
        }
    }

    /// A stage of congestion avoidance begins. W_max is the window where no loss has set it: before the first one (RFC 9438, 4.10)
    /// and after a timeout (4.8).
    fn begin(&mut self, tcb: &Tcb, now: Instant) -> Epoch {
        let w_max = *self.w_max.get_or_insert(tcb.cwnd);
        *self.epoch.insert(Epoch {
            began: now,
            counted: now,
            k: k(w_max, tcb.cwnd, tcb.mss),
            w_est: u64::from(tcb.cwnd) << FRACTION,
            owed: 0,
        })
    }

    /// RFC 9438, 4.2 to 4.5.
    fn avoid_congestion(&mut self, tcb: &mut Tcb, ack: Ack) {
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(tcb, ack.now),
        };
        let w_max = self.w_max.unwrap_or(tcb.cwnd);
        let rtt = tcb.rtt.smoothed_ns();
        let t = epoch.elapsed(ack.now, rtt);
        // The part of the window that is acknowledged, 2^-32.
        let cwnd = tcb.cwnd.max(1);
        let share = (u64::from(ack.bytes.min(cwnd)) << 32) / u64::from(cwnd);

        let (num, den) = if epoch.w_est >> FRACTION >= u64::from(self.cwnd_prior) {
            ALPHA_OF_RENO
        } else {
            ALPHA
        };
        // Figure 4.
        let segment = (share * u64::from(tcb.mss)) >> (32 - FRACTION);
        epoch.w_est = (epoch.w_est + segment * num / den).min(u64::from(MAX_WINDOW) << FRACTION);
        let w_est = (epoch.w_est >> FRACTION) as u32;
        if w_cubic(w_max, epoch.k, t, tcb.mss) < w_est {
            // The Reno-friendly region (4.3).
            tcb.cwnd = cwnd.max(w_est);
            epoch.owed = 0;
        } else {
            // The concave and the convex region (4.4, 4.5).
            let after_rtt = t.saturating_add((rtt / 1000) as i64);
            let target = w_cubic(w_max, epoch.k, after_rtt, tcb.mss).clamp(cwnd, cwnd + cwnd / 2);
            let grown = ((share * u64::from(target - cwnd)) >> (32 - FRACTION)) + epoch.owed;
            tcb.cwnd = cwnd + (grown >> FRACTION) as u32;
            epoch.owed = grown & ((1 << FRACTION) - 1);
        }
        self.epoch = Some(epoch);
    }

    /// The threshold after a loss, bytes, from a window of `cwnd` (RFC 9438, 4.6 and 4.7).
    pub(super) fn on_loss(&mut self, cwnd: u32, flight: u32) -> u32 {
        let of = |bytes: u32, (num, den): (u64, u64)| (u64::from(bytes) * num / den) as u32;
        self.w_max = Some(match self.w_max {
            Some(w_max) if cwnd < w_max => of(cwnd, CONVERGENCE),
            _ => cwnd,
        });
        self.cwnd_prior = cwnd;
        self.epoch = None;
        of(flight, BETA)
    }

    /// RFC 9438, 4.8: the next stage begins with K = 0 and W_max where it begins.
    pub(super) fn on_timeout(&mut self) {
        self.w_max = None;
        self.epoch = None;
    }
}

impl Epoch {
    /// t, microseconds, when an acknowledgment comes and a round trip takes `rtt` nanoseconds.
    fn elapsed(&mut self, now: Instant, rtt: u64) -> i64 {
        let gap = now.nanos_since(self.counted);
        self.counted = now;
        let limited = core::time::Duration::from_nanos(gap.saturating_sub(rtt));
        self.began = self.began + limited;
        (now.nanos_since(self.began) / 1000) as i64
    }
}

#[cfg(test)]
mod tests;

//! NewReno (RFC 5681, RFC 6582): additive increase, half of what is in flight after a loss.
//!
//! It counts bytes (RFC 3465), so that the window grows as fast whether each segment is acknowledged or every second one. Window
//! arithmetic only: what is sent again, and how the window moves meanwhile, is recovery's to decide.

use super::Ack;
use crate::tcp::tcb::Tcb;

/// State of NewReno.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reno {
    /// Bytes acknowledged in congestion avoidance since the window last grew: bytes_acked (RFC 3465, 2.1).
    acked: u32,
}

impl Reno {
    pub(super) fn on_ack(&mut self, tcb: &mut Tcb, ack: Ack) {
        let mss = u32::from(tcb.mss);
        if tcb.cwnd < tcb.ssthresh {
            self.acked = 0;
            tcb.cwnd = tcb.cwnd.saturating_add(ack.bytes.min(ack.limit * mss));
            return;
        }
        // RFC 3465, 2.1: a segment for each window that was acknowledged.
        self.acked = self.acked.saturating_add(ack.bytes);
        if self.acked >= tcb.cwnd {
            self.acked -= tcb.cwnd;
            tcb.cwnd += mss;
        }
    }

    /// FlightSize / 2 (RFC 5681, 3.1, equation 4).
    pub(super) fn on_loss(&mut self, flight: u32) -> u32 {
        self.acked = 0;
        flight / 2
    }

    pub(super) fn on_timeout(&mut self) {
        self.acked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LIMIT, MAX_WINDOW};
    use super::*;
    use crate::time::Instant;

    fn ack(bytes: u32) -> Ack {
        Ack {
            bytes,
            now: Instant::ZERO,
            rtt: None,
            limit: LIMIT,
        }
    }

    fn tcb() -> Tcb {
        Tcb {
            mss: 1000,
            cwnd: 10_000,
            ..Tcb::FREE
        }
    }

    #[test]
    fn slow_start_adds_what_is_acknowledged_up_to_two_segments() {
        let (mut reno, mut tcb) = (Reno::default(), tcb());
        for (bytes, cwnd) in [(500, 10_500), (2000, 12_500), (5000, 14_500)] {
            reno.on_ack(&mut tcb, ack(bytes));
            assert_eq!(tcb.cwnd, cwnd);
        }
    }

    #[test]
    fn avoidance_adds_a_segment_per_window_whatever_the_acknowledgments() {
        for bytes in [500, 1000, 2000, 5000] {
            let (mut reno, mut tcb) = (Reno::default(), tcb());
            tcb.ssthresh = tcb.cwnd;
            for _ in 0..10_000 / bytes - 1 {
                reno.on_ack(&mut tcb, ack(bytes));
                assert_eq!(tcb.cwnd, 10_000);
            }
            reno.on_ack(&mut tcb, ack(bytes));
            assert_eq!(tcb.cwnd, 11_000);
        }
    }

    #[test]
    fn what_exceeds_a_window_counts_for_the_next() {
        let (mut reno, mut tcb) = (Reno::default(), tcb());
        tcb.ssthresh = tcb.cwnd;
        reno.on_ack(&mut tcb, ack(15_000));
        assert_eq!(tcb.cwnd, 11_000);
        reno.on_ack(&mut tcb, ack(6000));
        assert_eq!(tcb.cwnd, 12_000);
    }

    #[test]
    fn loss_halves_what_is_in_flight_and_begins_a_count() {
        let (mut reno, mut tcb) = (Reno::default(), tcb());
        tcb.ssthresh = tcb.cwnd;
        reno.on_ack(&mut tcb, ack(9000));
        assert_eq!(reno.on_loss(9000), 4500);
        reno.on_ack(&mut tcb, ack(9000));
        assert_eq!(tcb.cwnd, 10_000);
        tcb.cwnd = MAX_WINDOW;
        reno.on_ack(&mut tcb, ack(u32::MAX));
        assert_eq!(tcb.cwnd, MAX_WINDOW + 1000);
    }
}

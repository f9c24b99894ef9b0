//! Congestion control: NewReno (RFC 5681, RFC 6582).
//!
//! Window arithmetic only; what is sent again is [`crate::tcp::slow::segment`]'s and [`crate::tcp::slow::timers`]' to decide. A congestion
//! controller of another kind takes this module's place function by function.

use crate::tcp::tcb::Tcb;

/// The initial window: ten segments (RFC 6928).
pub(crate) fn initial_window(mss: u16) -> u32 {
    let mss = u32::from(mss);
    (10 * mss).min((2 * mss).max(14_600))
}

/// The largest congestion window: more than any window that a peer can offer.
const MAX_WINDOW: u32 = 1 << 30;

/// New data was acknowledged while the window limited the sender (RFC 5681, 3.1).
#[inline(never)]
pub(crate) fn on_ack(tcb: &mut Tcb, acked: u32) {
    let mss = u32::from(tcb.mss);
    let step = if tcb.cwnd < tcb.ssthresh {
        // Slow start: cwnd += min(N, SMSS).
        acked.min(mss)
    } else {
        // Congestion avoidance: cwnd += SMSS*SMSS/cwnd.
        (mss * mss / tcb.cwnd.max(1)).max(1)
    };
    tcb.cwnd = tcb.cwnd.saturating_add(step).min(MAX_WINDOW);
}

/// ssthresh = max(FlightSize / 2, 2*SMSS) (RFC 5681, 3.1, equation 4).
fn halve(tcb: &mut Tcb, flight: u32) {
    tcb.ssthresh = (flight / 2).max(2 * u32::from(tcb.mss));
}

/// The third duplicate acknowledgment: a segment is lost (RFC 5681, 3.2, steps 2 and 3).
pub(crate) fn on_fast_retransmit(tcb: &mut Tcb) {
    halve(tcb, tcb.in_flight());
    tcb.cwnd = tcb.ssthresh + 3 * u32::from(tcb.mss);
}

/// A further duplicate acknowledgment: another segment has left the network (RFC 5681, 3.2, step 4).
pub(crate) fn on_duplicate_in_recovery(tcb: &mut Tcb) {
    tcb.cwnd = tcb.cwnd.saturating_add(u32::from(tcb.mss)).min(MAX_WINDOW);
}

/// A partial acknowledgment during recovery deflates the window (RFC 6582, 3.2, step 3).
pub(crate) fn on_partial_ack(tcb: &mut Tcb, acked: u32) {
    let mss = u32::from(tcb.mss);
    tcb.cwnd = tcb.cwnd.saturating_sub(acked).max(mss);
    if acked >= mss {
        tcb.cwnd += mss;
    }
}

/// Everything that was outstanding at the loss is acknowledged (RFC 6582, 3.2, step 3, option 1).
pub(crate) fn on_recovered(tcb: &mut Tcb) {
    let mss = u32::from(tcb.mss);
    tcb.cwnd = tcb.ssthresh.min(tcb.in_flight().max(mss) + mss);
}

/// The retransmission timer fired (RFC 5681, 3.1): the loss window is one segment. The threshold is halved only by the
/// first of several in a row.
pub(crate) fn on_timeout(tcb: &mut Tcb, flight: u32, first: bool) {
    if first {
        halve(tcb, flight);
    }
    tcb.cwnd = u32::from(tcb.mss);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::SeqNumber;

    fn tcb() -> Tcb {
        Tcb {
            mss: 1000,
            cwnd: 10_000,
            snd_nxt: SeqNumber(10_000),
            ..Tcb::FREE
        }
    }

    #[test]
    fn slow_start_opens_by_what_is_acknowledged_and_avoidance_by_a_segment_per_window() {
        let mut t = tcb();
        on_ack(&mut t, 500);
        assert_eq!(t.cwnd, 10_500);
        on_ack(&mut t, 5000);
        assert_eq!(t.cwnd, 11_500);
        t.ssthresh = 10_000;
        t.cwnd = 10_000;
        on_ack(&mut t, 2000);
        assert_eq!(t.cwnd, 10_100);
    }

    #[test]
    fn losses_halve_what_is_in_flight() {
        let mut t = tcb();
        on_fast_retransmit(&mut t);
        assert_eq!((t.ssthresh, t.cwnd), (5000, 8000));
        on_duplicate_in_recovery(&mut t);
        assert_eq!(t.cwnd, 9000);
        on_partial_ack(&mut t, 3000);
        assert_eq!(t.cwnd, 7000);
        on_recovered(&mut t);
        assert_eq!(t.cwnd, 5000);
        let flight = t.in_flight();
        on_timeout(&mut t, flight, true);
        assert_eq!((t.ssthresh, t.cwnd), (5000, 1000));
    }

    #[test]
    fn the_initial_window_is_ten_segments() {
        assert_eq!(initial_window(1448), 14_480);
        assert_eq!(initial_window(8960), 17_920);
    }
}

//! The window in a fast recovery without SACK (RFC 5681, 3.2; RFC 6582, 3.2): inflated by what has left the network.
//!
//! These rules are those of every controller: it has set the threshold ([`Controllers::on_loss`](super::Controllers::on_loss)), and the
//! window comes down to it at the end.

use super::MAX_WINDOW;
use crate::tcp::tcb::Tcb;

/// The third duplicate acknowledgment: three segments have left the network (RFC 5681, 3.2, step 3).
pub(crate) fn on_fast_retransmit(tcb: &mut Tcb) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::SeqNumber;

    #[test]
    fn window_is_inflated_and_comes_down_to_the_threshold() {
        let mut tcb = Tcb {
            mss: 1000,
            cwnd: 10_000,
            ssthresh: 5000,
            snd_nxt: SeqNumber(10_000),
            ..Tcb::FREE
        };
        on_fast_retransmit(&mut tcb);
        assert_eq!(tcb.cwnd, 8000);
        on_duplicate_in_recovery(&mut tcb);
        assert_eq!(tcb.cwnd, 9000);
        on_partial_ack(&mut tcb, 3000);
        assert_eq!(tcb.cwnd, 7000);
        on_recovered(&mut tcb);
        assert_eq!(tcb.cwnd, 5000);
    }
}

//! RACK (RFC 8985): a segment is lost when one that was sent later has arrived, and it is overdue.
//!
//! Owns the times; which frames they fall on is [`super::scoreboard`]'s. It must never read a clock.

use crate::tcp::milestone::Milestone;
use crate::tcp::tcb::Tcb;
use tollgate_wire::SeqNumber;

/// Duplicate acknowledgments that mean a loss where nothing was ever reordered (RFC 8985, 6.2, step 4).
const DUP_THRESHOLD: u32 = 3;
/// Recoveries for which a wider reordering window is kept (RFC 8985, 6.2, step 4).
const PERSIST: u8 = 16;

/// Recent acknowledgment (RFC 8985, 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rack {
    /// When the segment was sent last that was sent last of all that were delivered, nanoseconds.
    sent_ns: u64,
    /// Behind that segment.
    end: SeqNumber,
    /// Round trip of that segment, nanoseconds. Zero while nothing was delivered.
    rtt_ns: u64,
    /// RACK.min_RTT as far as it is known at this acknowledgment, nanoseconds; `u64::MAX` while nothing was timed. What is kept of it
    /// from one to the next is the connection's [`Shortest`](super::shortest::Shortest).
    min_rtt_ns: u64,
    /// The shortest round trip that this acknowledgment tells of, nanoseconds; `u64::MAX` where it tells of none.
    sample_ns: u64,
    /// RACK.fack: behind the farthest that was delivered.
    farthest: SeqNumber,
    /// Something was delivered that was sent once, before the farthest.
    reordering_seen: bool,
    /// RACK.reo_wnd_mult.
    quarters: u8,
    /// RACK.reo_wnd_persist.
    persist: u8,
    /// RACK.dsack_round: the window grows once until this is acknowledged.
    round: Option<Milestone>,
}

/// A segment that was delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub(crate) sent_ns: u64,
    pub(crate) end: SeqNumber,
    pub(crate) again: bool,
    /// The timestamp that came back is older than its last transmission: an earlier one was delivered.
    pub(crate) spurious: bool,
}

impl Rack {
    /// Nothing was delivered yet that is known of.
    pub(crate) fn new(tcb: &Tcb) -> Self {
        Self {
            sent_ns: 0,
            end: tcb.snd_una,
            rtt_ns: 0,
            min_rtt_ns: u64::MAX,
            sample_ns: u64::MAX,
            farthest: tcb.snd_una,
            reordering_seen: false,
            quarters: 1,
            persist: 0,
            round: None,
        }
    }

    /// An acknowledgment is about to be looked at, with the shortest round trip until now, nanoseconds.
    pub(crate) fn look(&mut self, min_rtt_ns: Option<u64>) {
        self.min_rtt_ns = min_rtt_ns.unwrap_or(u64::MAX);
        self.sample_ns = u64::MAX;
    }

    /// The shortest round trip that the acknowledgment tells of, nanoseconds.
    pub(crate) fn sample_ns(&self) -> Option<u64> {
        (self.sample_ns != u64::MAX).then_some(self.sample_ns)
    }

    /// Tells whether something was delivered late.
    pub(crate) const fn reordering_seen(&self) -> bool {
        self.reordering_seen
    }

    /// Marks are about to stand, and none has until now: what was delivered before is acknowledged, how long ago ever.
    pub(crate) const fn begin(&mut self, tcb: &Tcb) {
        self.farthest = tcb.snd_una;
    }

    /// Takes in a segment that was delivered, cumulatively or selectively (6.2, steps 1 to 3).
    pub(crate) fn deliver(&mut self, segment: Delivered, now_ns: u64) {
        let Delivered {
            sent_ns,
            end,
            again,
            spurious,
        } = segment;
        if self.farthest.before(end) {
            self.farthest = end;
        } else if !again && end.before(self.farthest) {
            self.reordering_seen = true;
        }
        let took = now_ns.saturating_sub(sent_ns);
        // Which transmission has arrived is not known, and this one is too young.
        let too_young = self.min_rtt_ns != u64::MAX && took < self.min_rtt_ns;
        if again && (spurious || too_young) {
            return;
        }
        self.sample_ns = self.sample_ns.min(took);
        self.min_rtt_ns = self.min_rtt_ns.min(took);
        self.rtt_ns = took.max(1);
        if sent_after((sent_ns, end), (self.sent_ns, self.end)) {
            (self.sent_ns, self.end) = (sent_ns, end);
        }
    }

    /// The peer has received something twice, so it was not lost but late: the window grows, once in a round trip. Says whether it did.
    pub(crate) fn duplicate_reported(&mut self, tcb: &Tcb) -> bool {
        if self.round.is_some_and(|round| !round.is_reached(tcb)) {
            return false;
        }
        self.round = Some(Milestone::at(tcb, tcb.highest_sent()));
        self.quarters = self.quarters.saturating_add(1);
        self.persist = PERSIST;
        true
    }

    /// A recovery has ended, a fast one or one from a timeout, and the window has not grown with that (6.2, step 4).
    pub(crate) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Nanoseconds by which a segment may be late, with so many segments sacked (6.2, step 4).
    pub(crate) fn window_ns(&self, recovering: bool, sacked: u32, smoothed_ns: u64) -> u64 {
        if !self.reordering_seen && (recovering || sacked >= DUP_THRESHOLD) {
            return 0;
        }
        let quarters = u64::from(self.quarters);
        let window = (self.min_rtt_ns / 4).saturating_mul(quarters);
        window.min(smoothed_ns.max(1))
    }

    /// Nanoseconds until a segment is lost that was sent last at `sent_ns`, or 0 when it is; nothing while no segment was
    /// delivered that was sent after it (6.2, step 5).
    pub(crate) fn lost_in(
        &self,
        sent_ns: u64,
        end: SeqNumber,
        window: u64,
        now_ns: u64,
    ) -> Option<u64> {
        let known = self.rtt_ns != 0 && sent_after((self.sent_ns, self.end), (sent_ns, end));
        let due = sent_ns.saturating_add(self.rtt_ns).saturating_add(window);
        known.then(|| due.saturating_sub(now_ns))
    }
}

/// RACK_sent_after (6.2, step 2).
fn sent_after(one: (u64, SeqNumber), other: (u64, SeqNumber)) -> bool {
    one.0 > other.0 || one.0 == other.0 && other.1.before(one.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rack() -> Rack {
        let mut rack = Rack::new(&Tcb::FREE);
        rack.look(Some(20 * MS));
        rack
    }

    fn once(sent_ns: u64, end: u32) -> Delivered {
        Delivered {
            sent_ns,
            end: SeqNumber(end),
            again: false,
            spurious: false,
        }
    }

    #[test]
    fn only_what_was_sent_before_the_latest_delivery_is_lost_and_only_when_overdue() {
        let mut rack = rack();
        assert_eq!(rack.lost_in(0, SeqNumber(1_000), 0, 100 * MS), None);
        rack.deliver(once(10 * MS, 3_000), 32 * MS);
        assert_eq!(rack.lost_in(11 * MS, SeqNumber(4_000), 0, 90 * MS), None);
        assert_eq!(rack.lost_in(9 * MS, SeqNumber(2_000), 0, 32 * MS), Some(0));
        let window = rack.window_ns(false, 1, 40 * MS);
        assert_eq!(window, 5 * MS);
        assert_eq!(
            rack.lost_in(9 * MS, SeqNumber(2_000), window, 32 * MS),
            Some(4 * MS)
        );
        // Sent at the same time: the order of sequence numbers decides.
        assert_eq!(rack.lost_in(10 * MS, SeqNumber(2_000), 0, 32 * MS), Some(0));
        assert_eq!(rack.lost_in(10 * MS, SeqNumber(3_000), 0, 32 * MS), None);
    }

    #[test]
    fn window_is_none_for_three_sacked_segments_until_reordering_is_seen() {
        let mut rack = rack();
        rack.deliver(once(10 * MS, 3_000), 30 * MS);
        assert_eq!(rack.window_ns(false, 3, 40 * MS), 0);
        assert_eq!(rack.window_ns(true, 1, 40 * MS), 0);
        assert!(!rack.reordering_seen);
        rack.deliver(once(9 * MS, 2_000), 31 * MS);
        assert!(rack.reordering_seen);
        assert_eq!(rack.window_ns(true, 9, 40 * MS), 5 * MS);
    }

    #[test]
    fn window_grows_once_in_a_round_by_duplicates_and_falls_after_sixteen_recoveries() {
        let mut rack = rack();
        rack.reordering_seen = true;
        let mut tcb = Tcb {
            snd_nxt: SeqNumber(10_000),
            ..Tcb::FREE
        };
        for _ in 0..3 {
            rack.duplicate_reported(&tcb);
        }
        assert_eq!(rack.window_ns(true, 0, u64::MAX), 10 * MS);
        tcb.snd_una = tcb.snd_nxt;
        rack.duplicate_reported(&tcb);
        assert_eq!(rack.window_ns(true, 0, u64::MAX), 15 * MS);
        assert_eq!(rack.window_ns(true, 0, 12 * MS), 12 * MS);
        for _ in 0..15 {
            rack.recovered();
        }
        assert_eq!(rack.window_ns(true, 0, u64::MAX), 15 * MS);
        rack.recovered();
        assert_eq!(rack.window_ns(true, 0, u64::MAX), 5 * MS);
    }

    /// The farthest that was delivered is that of the marks that stand, not one that was passed 2 GiB ago.
    #[test]
    fn what_is_delivered_in_order_after_two_gibibytes_is_no_reordering() {
        let mut rack = rack();
        rack.deliver(once(10 * MS, 3_000), 30 * MS);
        let far = (1 << 31) + 10_000;
        rack.begin(&Tcb {
            snd_una: SeqNumber(far),
            ..Tcb::FREE
        });
        rack.deliver(once(50 * MS, far + 2_000), 70 * MS);
        assert!(!rack.reordering_seen);
        rack.deliver(once(49 * MS, far + 1_000), 70 * MS);
        assert!(rack.reordering_seen);
    }

    /// 6.2, step 1: what an acknowledgment tells of is taken in with the shortest of before.
    #[test]
    fn shortest_round_trip_of_an_acknowledgment_is_a_sample() {
        let mut rack = rack();
        assert_eq!(rack.sample_ns(), None);
        rack.deliver(once(9 * MS, 2_000), 40 * MS);
        rack.deliver(once(10 * MS, 3_000), 40 * MS);
        assert_eq!(
            (rack.sample_ns(), rack.min_rtt_ns),
            (Some(30 * MS), 20 * MS)
        );
        rack.look(Some(35 * MS));
        assert_eq!((rack.sample_ns(), rack.min_rtt_ns), (None, 35 * MS));
    }

    /// 6.2, step 2: a segment that was sent again and is acknowledged too soon was delivered the first time.
    #[test]
    fn retransmissions_that_are_too_young_tell_nothing() {
        let mut rack = rack();
        let again = |spurious| Delivered {
            again: true,
            spurious,
            ..once(50 * MS, 5_000)
        };
        rack.deliver(again(false), 60 * MS);
        rack.deliver(again(true), 90 * MS);
        assert_eq!(rack.rtt_ns, 0);
        rack.deliver(again(false), 71 * MS);
        assert_eq!((rack.sent_ns, rack.rtt_ns), (50 * MS, 21 * MS));
    }
}

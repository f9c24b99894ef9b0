//! Congestion control: the size of the congestion window (RFC 5681, RFC 9438).
//!
//! [`Controllers`] is all that the rest of TCP calls. A controller is one file and one arm of [`Controller`]: [`reno`] and
//! [`cubic`], which leaves its first slow start by [`hystart`]. [`inflation`] moves the window in a fast recovery without SACK,
//! whatever the controller. [`pacing`] spreads it over the round trip.
//!
//! The window and its threshold lie in the TCB. What a controller keeps besides lies here, for the connections that need it:
//! those whose window has limited them, or that have lost something. It must never decide what is sent again, and prediction
//! calls it only while the window limits the sender ([`flag::CWND_LIMITED`](crate::tcp::tcb::flag::CWND_LIMITED)).

pub(crate) mod cubic;
mod hystart;
mod inflation;
mod pacing;
mod reno;

use crate::config::{CongestionControl, Mechanisms, Pacing, Timers};
use crate::tcp::recovery::shortest::Shortest;
use crate::tcp::tcb::{Tcb, rare};
use crate::time::{Instant, Tick};
use alloc::collections::BTreeMap;
use core::num::NonZeroU64;
use cubic::Cubic;
pub(crate) use inflation::{
    on_duplicate_in_recovery, on_fast_retransmit, on_partial_ack, on_recovered,
};
use pacing::{Pace, Rate};
use reno::Reno;

/// The largest congestion window: more than any window that a peer can offer (RFC 7323, 2.3).
const MAX_WINDOW: u32 = 1 << 30;

/// The initial window: ten segments (RFC 6928).
pub(crate) fn initial_window(mss: u16) -> u32 {
    let mss = u32::from(mss);
    (10 * mss).min((2 * mss).max(14_600))
}

/// An acknowledgment of new data by which the window may grow.
#[derive(Clone, Copy, Debug)]
struct Ack {
    /// Bytes that it acknowledges.
    bytes: u32,
    now: Instant,
    /// Its round trip, nanoseconds, when what it acknowledges was sent once.
    rtt: Option<u64>,
    /// Segments that it may count for in slow start at most (RFC 3465, 2.2 and 2.3).
    limit: u32,
}

/// Segments that an acknowledgment may count for in slow start at most: L of RFC 3465, 2.2.
const LIMIT: u32 = 2;
/// That limit after a timeout, when acknowledgments may cover what had arrived before it (RFC 3465, 2.3).
const LIMIT_AFTER_TIMEOUT: u32 = 1;

/// State of a controller. It is copied when a loss is met, so that a reduction can be undone.
#[derive(Clone, Copy, Debug)]
enum Controller {
    NewReno(Reno),
    Cubic(Cubic),
}

impl Controller {
    fn new(kind: CongestionControl) -> Self {
        match kind {
            CongestionControl::Cubic => Self::Cubic(Cubic::default()),
            CongestionControl::NewReno => Self::NewReno(Reno::default()),
        }
    }

    /// Tells whether the window is in slow start.
    fn starts_slowly(&self, tcb: &Tcb) -> bool {
        match self {
            // RFC 5681, 3.1: either will do where both are equal.
            Self::NewReno(_) => tcb.cwnd < tcb.ssthresh,
            Self::Cubic(cubic) => cubic.starts_slowly(tcb),
        }
    }

    fn on_ack(&mut self, tcb: &mut Tcb, ack: Ack) {
        match self {
            Self::NewReno(reno) => reno.on_ack(tcb, ack),
            Self::Cubic(cubic) => cubic.on_ack(tcb, ack),
        }
    }

    /// The threshold after a loss, bytes.
    fn on_loss(&mut self, tcb: &Tcb, flight: u32) -> u32 {
        match self {
            Self::NewReno(reno) => reno.on_loss(flight),
            Self::Cubic(cubic) => cubic.on_loss(tcb.cwnd, flight),
        }
    }

    fn on_timeout(&mut self) {
        match self {
            Self::NewReno(reno) => reno.on_timeout(),
            Self::Cubic(cubic) => cubic.on_timeout(),
        }
    }
}

/// Window, threshold and controller before the last reduction.
#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u32,
    ssthresh: u32,
    controller: Controller,
}

/// State of a connection beside its TCB.
#[derive(Clone, Copy, Debug)]
struct State {
    controller: Controller,
    /// The timer has fired since the window was last in congestion avoidance.
    after_timeout: bool,
    undo: Option<Undo>,
    /// Valid while [`rare::PACED`].
    pace: Pace,
    /// RACK.min_RTT (RFC 8985, 5.3).
    shortest: Shortest,
}

impl State {
    /// Multiplicative decrease: sets the threshold, and remembers what it was (RFC 9438, 4.9.2).
    ///
    /// `flight` is all between the oldest and the newest segment, so it may hold what was sacked in an earlier recovery, and what
    /// limited transmit has sent (RFC 5681, 3.2). Neither was let out by the window, which therefore bounds it.
    fn reduce(&mut self, tcb: &mut Tcb, flight: u32) {
        self.undo = Some(Undo {
            cwnd: tcb.cwnd,
            ssthresh: tcb.ssthresh,
            controller: self.controller,
        });
        self.reduce_further(tcb, flight);
    }

    /// The same, without a change to what an undo brings back.
    fn reduce_further(&mut self, tcb: &mut Tcb, flight: u32) {
        let flight = flight.min(tcb.cwnd);
        let ssthresh = self.controller.on_loss(tcb, flight);
        tcb.ssthresh = ssthresh.max(2 * u32::from(tcb.mss));
    }
}

/// The congestion controllers of a stack's connections, by index, of those that have one.
///
/// A connection that has one is marked by [`rare::EXTENSION`].
#[derive(Debug)]
pub(crate) struct Controllers {
    kind: CongestionControl,
    /// Connections are paced that are suited to it.
    paces: bool,
    states: BTreeMap<u32, State>,
}

impl Controllers {
    /// None yet, as these mechanisms say. Pacing needs a timer, which only the wheel gives it.
    pub(crate) fn new(mechanisms: &Mechanisms) -> Self {
        Self {
            kind: mechanisms.congestion,
            paces: mechanisms.pacing == Pacing::On && mechanisms.timers == Timers::LazyWheel,
            states: BTreeMap::new(),
        }
    }

    fn state(&mut self, tcb: &mut Tcb, index: usize) -> &mut State {
        let kind = self.kind;
        tcb.rare |= rare::EXTENSION;
        self.states.entry(index as u32).or_insert_with(|| State {
            controller: Controller::new(kind),
            after_timeout: false,
            undo: None,
            pace: Pace::default(),
            shortest: Shortest::UNKNOWN,
        })
    }

    /// New data was acknowledged while the window limited the sender: it grows. `acked` bytes were, the last of which were sent
    /// once at `sent_at`, if that is known, in nanoseconds.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_ack(
        &mut self,
        tcb: &mut Tcb,
        index: usize,
        acked: u32,
        now: Instant,
        sent_at: Option<NonZeroU64>,
    ) {
        let state = self.state(tcb, index);
        state.after_timeout &= state.controller.starts_slowly(tcb);
        let rtt = sent_at.map(|at| now.as_nanos().wrapping_sub(at.get()));
        if let Some(took) = rtt {
            state.shortest.take(took, now.as_nanos());
        }
        let ack = Ack {
            bytes: acked,
            now,
            rtt,
            limit: if state.after_timeout {
                LIMIT_AFTER_TIMEOUT
            } else {
                LIMIT
            },
        };
        state.controller.on_ack(tcb, ack);
        tcb.cwnd = tcb.cwnd.min(MAX_WINDOW);
        if !tcb.is_rare(rare::PACED) {
            // What waited when it was paced last has long gone.
            state.pace.due = None;
        }
        tcb.set_paced(self.paces && pacing::suits(tcb));
    }

    /// Takes in a round trip of a connection that acknowledgments tell of while marks of the scoreboard stand, nanoseconds.
    #[cold]
    pub(crate) fn take_round_trip(&mut self, tcb: &mut Tcb, index: usize, took: u64, now: Instant) {
        let state = self.state(tcb, index);
        state.shortest.take(took, now.as_nanos());
    }

    /// The shortest round trip of a connection lately, nanoseconds, of those that were taken in.
    pub(crate) fn min_rtt_ns(&self, index: usize) -> Option<u64> {
        self.states.get(&(index as u32))?.shortest.ns()
    }

    /// Tells whether a connection that is paced may send `len` bytes now, which are counted then. Otherwise
    /// [`Controllers::pace_due`] says when.
    #[cold]
    pub(crate) fn pace(&mut self, tcb: &mut Tcb, index: usize, now: Instant, len: u16) -> bool {
        let state = self.state(tcb, index);
        let rate = Rate::of(tcb, state.controller.starts_slowly(tcb));
        state.pace.take(rate, now, len)
    }

    /// When a connection goes on that pacing holds back.
    pub(crate) fn pace_due(&self, tcb: &Tcb, index: usize) -> Option<Tick> {
        if !tcb.is_rare(rare::PACED) {
            return None;
        }
        self.states.get(&(index as u32))?.pace.due
    }

    /// Tells whether that time has come. It is told once.
    pub(crate) fn pace_comes(&mut self, tcb: &Tcb, index: usize, now: Tick) -> bool {
        let due = self.pace_due(tcb, index);
        let comes = due.is_some_and(|at| at.reached(now));
        if comes && let Some(state) = self.states.get_mut(&(index as u32)) {
            state.pace.due = None;
        }
        comes
    }

    /// Bytes per second at which a connection is paced.
    pub(crate) fn pacing_rate(&self, tcb: &Tcb, index: usize) -> Option<u64> {
        if !tcb.is_rare(rare::PACED) {
            return None;
        }
        let controller = self.states.get(&(index as u32))?.controller;
        Some(Rate::of(tcb, controller.starts_slowly(tcb)).per_second())
    }

    /// A segment is lost, or the network says that it is congested, for the first time in this window: sets the threshold by
    /// what is in flight, `flight` bytes. How the window gets there is the caller's to decide.
    #[cold]
    pub(crate) fn on_loss(&mut self, tcb: &mut Tcb, index: usize, flight: u32) {
        self.state(tcb, index).reduce(tcb, flight);
    }

    /// A segment that was sent again after a timeout is lost as well: the threshold is lowered a second time (RFC 5681, 4.3). An undo of
    /// the timeout takes both back.
    #[cold]
    pub(crate) fn on_further_loss(&mut self, tcb: &mut Tcb, index: usize, flight: u32) {
        self.state(tcb, index).reduce_further(tcb, flight);
    }

    /// The retransmission timer fired (RFC 5681, 3.1): the loss window is one segment. The threshold is lowered only by the
    /// `first` of several timeouts in a row.
    #[cold]
    pub(crate) fn on_timeout(&mut self, tcb: &mut Tcb, index: usize, flight: u32, first: bool) {
        let state = self.state(tcb, index);
        if first {
            state.reduce(tcb, flight);
        }
        state.controller.on_timeout();
        state.after_timeout = true;
        tcb.cwnd = u32::from(tcb.mss);
    }

    /// The last reduction was for nothing, since nothing was lost: takes it back, unless the window has outgrown what it was
    /// (RFC 9438, 4.9.2). Says whether it did. A reduction is taken back once.
    #[cold]
    pub(crate) fn on_undo(&mut self, tcb: &mut Tcb, index: usize) -> bool {
        let state = self.states.get_mut(&(index as u32));
        let Some((state, undo)) =
            state.and_then(|state| state.undo.take().map(|undo| (state, undo)))
        else {
            return false;
        };
        let undone = tcb.cwnd < undo.cwnd;
        if undone {
            tcb.cwnd = undo.cwnd;
            tcb.ssthresh = undo.ssthresh;
            state.controller = undo.controller;
            state.after_timeout = false;
        }
        undone
    }

    /// A connection that is freed leaves nothing behind.
    #[cold]
    pub(crate) fn forget(&mut self, index: usize) {
        self.states.remove(&(index as u32));
    }

    /// Indices of the connections that have a controller.
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> {
        self.states.keys().map(|&index| index as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::SeqNumber;

    const NOW: Instant = Instant::from_nanos(1 << 40);

    /// A connection with ten segments in flight and a window of ten.
    fn tcb() -> Tcb {
        Tcb {
            mss: 1000,
            cwnd: 10_000,
            snd_nxt: SeqNumber(10_000),
            ..Tcb::FREE
        }
    }

    fn controllers(kind: CongestionControl) -> Controllers {
        Controllers::new(&Mechanisms {
            congestion: kind,
            ..Mechanisms::DEFAULT
        })
    }

    #[test]
    fn initial_window_is_ten_segments() {
        assert_eq!(initial_window(1448), 14_480);
        assert_eq!(initial_window(8960), 17_920);
    }

    #[test]
    fn connection_with_a_controller_is_marked_until_it_is_forgotten() {
        for &kind in CongestionControl::ALL {
            let (mut controllers, mut tcb) = (controllers(kind), tcb());
            assert!(!tcb.is_rare(rare::EXTENSION));
            controllers.on_ack(&mut tcb, 7, 1000, NOW, None);
            assert!(tcb.is_rare(rare::EXTENSION));
            assert!(controllers.indices().eq([7]));
            controllers.forget(7);
            assert_eq!(controllers.indices().count(), 0);
        }
    }

    #[test]
    fn spurious_reduction_is_taken_back_once() {
        for &kind in CongestionControl::ALL {
            for timeout in [false, true] {
                let (mut controllers, mut tcb) = (controllers(kind), tcb());
                assert!(!controllers.on_undo(&mut tcb, 0));
                if timeout {
                    controllers.on_timeout(&mut tcb, 0, 10_000, true);
                    controllers.on_timeout(&mut tcb, 0, 1000, false);
                } else {
                    controllers.on_loss(&mut tcb, 0, 10_000);
                    tcb.cwnd = tcb.ssthresh;
                }
                assert!(tcb.cwnd < 10_000 && tcb.ssthresh < 10_000);
                assert!(controllers.on_undo(&mut tcb, 0));
                assert_eq!((tcb.cwnd, tcb.ssthresh), (10_000, u32::MAX));
                assert!(!controllers.on_undo(&mut tcb, 0));
            }
        }
    }

    #[test]
    fn window_that_has_outgrown_the_one_before_is_kept() {
        for &kind in CongestionControl::ALL {
            let (mut controllers, mut tcb) = (controllers(kind), tcb());
            controllers.on_loss(&mut tcb, 0, 10_000);
            let ssthresh = tcb.ssthresh;
            tcb.cwnd = 12_000;
            assert!(!controllers.on_undo(&mut tcb, 0));
            assert_eq!((tcb.cwnd, tcb.ssthresh), (12_000, ssthresh));
        }
    }

    #[test]
    fn acknowledgment_counts_for_two_segments_and_after_a_timeout_for_one() {
        for &kind in CongestionControl::ALL {
            let (mut controllers, mut tcb) = (controllers(kind), tcb());
            controllers.on_timeout(&mut tcb, 0, 100_000, true);
            assert_eq!(tcb.cwnd, 1000);
            controllers.on_ack(&mut tcb, 0, 5000, NOW, None);
            assert_eq!(tcb.cwnd, 2000);
            controllers.on_ack(&mut tcb, 0, 500, NOW, None);
            assert_eq!(tcb.cwnd, 2500);
            // Congestion avoidance ends what the timeout began.
            tcb.cwnd = tcb.ssthresh + 1000;
            controllers.on_ack(&mut tcb, 0, 1, NOW, None);
            tcb.cwnd = 2000;
            controllers.on_ack(&mut tcb, 0, 5000, NOW, None);
            assert_eq!(tcb.cwnd, 4000);
        }
    }

    /// RFC 5681, 3.2: what limited transmit has sent does not count; nor does what an earlier recovery had sacked.
    #[test]
    fn flight_counts_as_far_as_the_window_let_it_out() {
        for &kind in CongestionControl::ALL {
            let thresholds = [10_000, 40_000].map(|flight| {
                let (mut controllers, mut tcb) = (controllers(kind), tcb());
                controllers.on_loss(&mut tcb, 0, flight);
                tcb.ssthresh
            });
            assert_eq!(thresholds[0], thresholds[1]);
        }
    }

    #[test]
    fn second_timeout_in_a_row_leaves_the_threshold() {
        for &kind in CongestionControl::ALL {
            let (mut controllers, mut tcb) = (controllers(kind), tcb());
            controllers.on_timeout(&mut tcb, 0, 10_000, true);
            let ssthresh = tcb.ssthresh;
            controllers.on_timeout(&mut tcb, 0, 1000, false);
            assert_eq!((tcb.cwnd, tcb.ssthresh), (1000, ssthresh));
        }
    }

    #[test]
    fn threshold_is_at_least_two_segments() {
        for &kind in CongestionControl::ALL {
            let (mut controllers, mut tcb) = (controllers(kind), tcb());
            controllers.on_loss(&mut tcb, 0, 1000);
            assert_eq!(tcb.ssthresh, 2000);
        }
    }

    #[test]
    fn window_never_exceeds_what_a_peer_can_offer() {
        for &kind in CongestionControl::ALL {
            let (mut controllers, mut tcb) = (controllers(kind), tcb());
            tcb.cwnd = MAX_WINDOW;
            for ssthresh in [u32::MAX, 1000] {
                tcb.ssthresh = ssthresh;
                controllers.on_ack(&mut tcb, 0, u32::MAX, NOW, None);
                assert_eq!(tcb.cwnd, MAX_WINDOW);
            }
        }
    }
}

//! Recovery from loss: what is taken for lost, and when it is sent again.
//!
//! With selective acknowledgments (RFC 2018), where both ends take them and [`LossRecovery::Sack`](crate::config::LossRecovery) is set,
//! [`scoreboard`] marks what the peer has (RFC 6675, 2), [`rack`] tells from times what is lost (RFC 8985), and [`prr`] says how
//! much may be sent while it is repaired (RFC 9937). [`reported`] is the receiver's side: the ranges that it tells of. Without
//! selective acknowledgments three duplicates mean a loss (RFC 6582, in [`crate::tcp::slow::acknowledgment`]). [`rto`] is the
//! timeout that both have.
//!
//! The state lies beside the TCBs and is made when something is out of order, lost or doubled for the first time. The predicted path
//! must never look at it: while marks stand in the send queue, nothing is predicted.

pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod reported;
pub(crate) mod rto;
pub(crate) mod scoreboard;

use crate::likely::unlikely;
use crate::stack::Stack;
use crate::tcp::tcb::{Tcb, rare};
use core::time::Duration;
use prr::Prr;
use rack::Rack;
use reported::Reported;
use scoreboard::Scoreboard;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::SackBlock;

/// State of a connection that has seen a hole, a loss or a duplicate.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    /// Ranges that the peer is told of.
    pub(crate) reported: Reported,
    /// Segments that arrived again.
    pub(crate) duplicates: u32,
    /// Bytes sent again.
    pub(crate) bytes_retransmitted: u64,
    /// Segments that the peer says it has twice.
    pub(crate) reported_duplicates: u32,
    /// Marks in the send queue.
    pub(crate) board: Scoreboard,
    pub(crate) rack: Rack,
    pub(crate) prr: Prr,
    /// Evidence on whether the last recovery was right, until that is known.
    pub(crate) undo: Option<Undo>,
    /// Recoveries that were undone.
    pub(crate) undone: u32,
}

impl Recovery {
    fn of(tcb: &Tcb) -> Self {
        Self {
            reported: Reported::default(),
            duplicates: 0,
            bytes_retransmitted: 0,
            reported_duplicates: 0,
            board: Scoreboard::new(tcb),
            rack: Rack::new(tcb),
            prr: Prr::default(),
            undo: None,
            undone: 0,
        }
    }

    /// Time by which a segment may be late, once reordering was seen.
    pub(crate) fn reordering_window(&self, tcb: &Tcb) -> Option<Duration> {
        let smoothed = tcb.rtt.smoothed_ns();
        self.rack.reordering_seen().then(|| {
            Duration::from_nanos(
                self.rack
                    .window_ns(false, self.board.sacked_frames, smoothed),
            )
        })
    }
}

/// Evidence that nothing was lost after all, and the windows of before are the right ones (RFC 4015; RFC 2883, 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undo {
    /// Our timestamp when the recovery began.
    began: u32,
    /// Behind the segment that was sent again first.
    first: Option<SeqNumber>,
    /// From the first to the last byte that was sent again.
    range: Option<SackBlock>,
    /// Segments sent again.
    resent: u32,
    /// Segments within that range that the peer has reported to have twice.
    reported: u32,
    /// When this is acknowledged, no report of what was sent again will come any more. It is not known while the recovery goes on.
    end: Option<SeqNumber>,
}

impl Undo {
    /// A recovery begins, with this timestamp.
    fn new(began: u32) -> Self {
        Self {
            began,
            first: None,
            range: None,
            resent: 0,
            reported: 0,
            end: None,
        }
    }

    /// A segment is sent again.
    fn resend(&mut self, segment: SackBlock) {
        self.first.get_or_insert(segment.end);
        let range = self.range.get_or_insert(segment);
        range.start = range.start.earliest(segment.start);
        range.end = range.end.latest(segment.end);
        self.resent += 1;
    }

    /// The peer has these bytes twice. The network may double what was never sent again: that says nothing of this recovery.
    fn report(&mut self, duplicate: SackBlock) {
        let within = self.range.is_some_and(|range| {
            range.start.at_or_before(duplicate.start) && duplicate.end.at_or_before(range.end)
        });
        self.reported += u32::from(within);
    }

    /// Tells whether all that was sent again has arrived twice.
    fn is_doubled(&self) -> bool {
        self.resent != 0 && self.reported >= self.resent
    }

    /// Tells whether an acknowledgment up to `una` covers the first segment that was sent again and echoes a timestamp from before.
    fn is_echo_older(&self, una: SeqNumber, echo: Option<u32>) -> bool {
        self.first.is_some_and(|end| end.at_or_before(una))
            && echo.is_some_and(|echo| (echo.wrapping_sub(self.began) as i32) < 0)
    }
}

impl Stack {
    /// The state of a connection, if it has one.
    pub(crate) fn recovery(&self, index: usize) -> Option<&Recovery> {
        if unlikely(self.tcbs[index].is_rare(rare::RECOVERY_STATE)) {
            self.recoveries.get(&(index as u32)).map(|state| &**state)
        } else {
            None
        }
    }

    /// A connection and its state, which is made where there is none.
    pub(crate) fn recovery_of(&mut self, index: usize) -> (&mut Tcb, &mut Recovery) {
        let tcb = &mut self.tcbs[index];
        tcb.rare |= rare::RECOVERY_STATE;
        let state = self.recoveries.entry(index as u32);
        let state = state.or_insert_with(|| alloc::boxed::Box::new(Recovery::of(tcb)));
        (tcb, state)
    }

    /// The send queue is gone, and its marks with it.
    #[cold]
    pub(crate) fn clear_scoreboard(&mut self, index: usize) {
        let (tcb, state) = self.recovery_of(index);
        tcb.cwnd = state.board.window;
        tcb.rare &= !rare::SCOREBOARD;
        state.board = Scoreboard::new(tcb);
    }

    /// A connection that is freed leaves nothing behind.
    #[inline(always)]
    pub(crate) fn forget_recovery(&mut self, index: usize) {
        if unlikely(self.tcbs[index].is_rare(rare::RECOVERY_STATE)) {
            self.recoveries.remove(&(index as u32));
        }
    }
}

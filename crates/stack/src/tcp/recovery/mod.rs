//! Recovery from loss: what is taken for lost, and when it is sent again.
//!
//! With selective acknowledgments (RFC 2018), where both ends take them and [`LossRecovery::Sack`](crate::config::LossRecovery) is set,
//! [`scoreboard`] marks what the peer has (RFC 6675, 2) and finds its place by [`runs`], [`rack`] tells from times what is lost (RFC 8985), of which [`shortest`] keeps one, and [`prr`] says how
//! much may be sent while it is repaired (RFC 9937). [`reported`] is the receiver's side: the ranges that it tells of. Without
//! selective acknowledgments three duplicates mean a loss (RFC 6582, in [`crate::tcp::slow::acknowledgment`]). [`rto`] is the
//! timeout that both have, and [`probe`] what is sent before it where the end of a flight may be lost (RFC 8985, 7).
//! [`undo`] takes back what was done for nothing (RFC 3522, 4015, 3708).
//!
//! The state lies beside the TCBs and is made when something is out of order, lost or doubled for the first time. The predicted path
//! must never look at it: while marks stand in the send queue, nothing is predicted.

pub(crate) mod probe;
pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod reported;
pub(crate) mod rto;
mod runs;
pub(crate) mod scoreboard;
pub(crate) mod shortest;
pub(crate) mod undo;

use crate::stack::Stack;
use crate::tcp::milestone::Milestone;
use crate::tcp::tcb::{Tcb, rare};
use core::hint::cold_path;
use core::time::Duration;
use probe::Probe;
use prr::Prr;
use rack::Rack;
use reported::Reported;
use scoreboard::Scoreboard;
use undo::Undo;

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
    /// Evidence on whether the last recovery or timeout was right, until that is known.
    pub(crate) undo: Option<Undo>,
    /// Recoveries and timeouts that were undone.
    pub(crate) undone: u32,
    /// The tail loss probe that is out, valid while [`rare::PROBE`].
    pub(crate) probe: Option<Probe>,
    /// Behind the last probe. Nothing is probed for until something behind it is acknowledged.
    pub(crate) probed_up_to: Option<Milestone>,
    /// Tail loss probes that were sent.
    pub(crate) probes: u32,
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
            probe: None,
            probed_up_to: None,
            probes: 0,
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

impl Stack {
    /// The state of a connection, if it has one.
    pub(crate) fn recovery(&self, index: usize) -> Option<&Recovery> {
        if self.tcbs[index].is_rare(rare::RECOVERY_STATE) {
            cold_path();
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

    /// A recovery has ended, a fast one or one from a timeout, because of what was acknowledged or because it was undone.
    #[cold]
    pub(in crate::tcp) fn has_recovered(&mut self, index: usize) {
        if self.tcbs[index].is_rare(rare::RECOVERY_STATE) {
            let (_, state) = self.recovery_of(index);
            state.rack.recovered();
        }
    }

    /// A connection that is freed leaves nothing behind.
    #[inline(always)]
    pub(crate) fn forget_recovery(&mut self, index: usize) {
        if self.tcbs[index].is_rare(rare::RECOVERY_STATE) {
            cold_path();
            self.recoveries.remove(&(index as u32));
        }
    }
}

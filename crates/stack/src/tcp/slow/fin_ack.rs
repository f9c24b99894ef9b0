//! The acknowledgment of a FIN waits a turn for the application.
//!
//! An application that is told that its peer has closed mostly closes as well, and at once. Its FIN acknowledges the
//! peer's then, and there is one segment less. So the acknowledgment of a FIN that brings nothing else is left for the next
//! turn, which sends it when nothing else has (RFC 9293, 3.8.6.3, lets it wait much longer). It waits for one connection at a
//! time: whatever else arrives in the same turn is acknowledged in it.
//!
//! A turn that finds nothing to do must not pay for this. So the time looks as if it had moved on while somebody is awaited.

use crate::config::FinAcknowledgment;
use crate::stack::{Active, Stack};
use crate::tcp::tcb::State;
use tollgate_gate::Recorder;

/// Connection whose application has a poll's time to answer a FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinAck {
    /// Nobody ever is: the mechanism is off.
    Never,
    Nobody,
    /// The application of this connection, to the end of the turn after this one.
    Through(u32),
    /// The same, to the end of this turn.
    Until(u32),
}

impl FinAck {
    pub(crate) const fn new(mechanism: FinAcknowledgment) -> Self {
        match mechanism {
            FinAcknowledgment::Delayed => Self::Nobody,
            FinAcknowledgment::AtOnce => Self::Never,
        }
    }

    /// Tells whether there is somebody.
    pub(crate) const fn is_anybody(self) -> bool {
        matches!(self, Self::Through(_) | Self::Until(_))
    }
}

impl Stack {
    /// Waits for the application of a connection whose peer has closed; says whether it does.
    #[inline(always)]
    pub(in crate::tcp) fn await_close(&mut self, index: usize) -> bool {
        if self.fin_ack != FinAck::Nobody {
            return false;
        }
        self.fin_ack = FinAck::Through(index as u32);
        self.last_ticks = self.last_ticks.saturating_sub(1);
        true
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Looks who is awaited, at the end of a turn; says whether that is all that there is to do at `ticks`.
    #[inline(always)]
    pub(crate) fn look_for_fin_ack(&mut self, ticks: u64) -> bool {
        let since = self.stack.last_ticks + 1;
        match self.stack.fin_ack {
            FinAck::Never | FinAck::Nobody => return false,
            FinAck::Through(index) => self.stack.fin_ack = FinAck::Until(index),
            FinAck::Until(index) => {
                self.stack.fin_ack = FinAck::Nobody;
                self.stack.last_ticks = since;
                let index = index as usize;
                let tcb = &self.stack.tcbs[index];
                if tcb.state == State::CloseWait && tcb.unacked != 0 {
                    self.acknowledge(index);
                }
            }
        }
        since == ticks
    }
}

//! Soft errors: trouble that does not end a connection, told to its application (RFC 9293, 3.9.1.8, MUST-47).
//!
//! ICMP errors that are only soft (3.9.2.2), and retransmission beyond R1 (3.8.3), which also makes IP doubt the next hop.
//! The third thing that is to be reported, an advance of the urgent pointer, is [`crate::tcp::slow::urgent`]'s.

use super::tcb::rare;
use crate::socket::{ConnId, Error, readiness};
use crate::stack::Active;
use core::fmt;
use tollgate_gate::Recorder;
use tollgate_wire::icmp::{Message, Unreachable};

/// R1: retransmissions of a segment after which there is trouble (RFC 9293, 3.8.3, SHLD-10: at least 3).
pub(in crate::tcp) const R1: u8 = 3;

/// Trouble that does not end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftError {
    /// ICMP: the destination cannot be reached, for this reason.
    Unreachable(Unreachable),
    /// ICMP: a packet lived too long; the code is 0 on the way, 1 in reassembly.
    TimeExceeded(u8),
    /// ICMP: somebody could not make sense of a header; with ICMP's code.
    ParameterProblem(u8),
    /// A segment was sent again three times in a row without an answer.
    Retransmissions,
}

impl SoftError {
    /// The soft error in an ICMP message, if it is one that is to be reported.
    pub(crate) fn from_icmp(message: Message) -> Option<Self> {
        match message {
            // RFC 1191: acted on, and no trouble.
            Message::DestinationUnreachable(Unreachable::FragmentationNeeded { .. }) => None,
            Message::DestinationUnreachable(reason) => Some(Self::Unreachable(reason)),
            Message::TimeExceeded(code) => Some(Self::TimeExceeded(code)),
            Message::ParameterProblem(code) => Some(Self::ParameterProblem(code)),
            Message::EchoRequest { .. } | Message::EchoReply { .. } | Message::Other(..) => None,
        }
    }
}

impl fmt::Display for SoftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(Unreachable::Network) => f.write_str("the network is unreachable"),
            Self::Unreachable(Unreachable::Host) => f.write_str("the host is unreachable"),
            Self::Unreachable(Unreachable::Protocol) => {
                f.write_str("the host says that it does not speak TCP")
            }
            Self::Unreachable(Unreachable::Port) => {
                f.write_str("the host says that nobody is at the port")
            }
            Self::Unreachable(Unreachable::FragmentationNeeded { .. }) => {
                f.write_str("the path takes only smaller packets")
            }
            Self::Unreachable(Unreachable::Other(code)) => {
                write!(f, "the destination is unreachable (ICMP code {code})")
            }
            Self::TimeExceeded(code) => write!(f, "a packet lived too long (ICMP code {code})"),
            Self::ParameterProblem(code) => {
                write!(f, "a header was not understood (ICMP code {code})")
            }
            Self::Retransmissions => {
                f.write_str("the peer does not answer; segments are sent again and again")
            }
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Takes the last soft error of a connection, if there was one since the last call. An event with
    /// [`Readiness::soft_error`](crate::socket::Readiness::soft_error) tells that there is one.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn soft_error(&mut self, conn: ConnId) -> Result<Option<SoftError>, Error> {
        let index = self.stack.index(conn)?;
        if self.stack.extension(index).is_none() {
            return Ok(None);
        }
        let mut error = None;
        self.stack
            .change_extension(index, |extension| error = extension.soft_error.take());
        Ok(error)
    }

    /// Notes a soft error and tells the application, unless it does not want to be told (SHLD-20).
    #[cold]
    pub(crate) fn report(&mut self, index: usize, error: SoftError) {
        self.stack
            .change_extension(index, |extension| extension.soft_error = Some(error));
        if !self.stack.extension(index).is_some_and(|u| u.no_reports) {
            self.notify(index, readiness::SOFT_ERROR);
        }
    }

    /// Reports a segment that has been sent again `times` times. From R1 on IP is given negative advice about the
    /// next hop, which asks for its link address anew (RFC 1122, 3.3.1.4). The application is told once (SHLD-9).
    pub(super) fn sent_again(&mut self, index: usize, times: u8) {
        if times < R1 {
            return;
        }
        let tcb = &self.stack.tcbs[index];
        let (next_hop, has_user) = (
            tcb.next_hop,
            tcb.rare & (rare::UNACCEPTED | rare::ORPHAN) == 0,
        );
        self.stack.neighbours.doubt(next_hop, self.now);
        if times == R1 && has_user {
            self.report(index, SoftError::Retransmissions);
        }
    }
}

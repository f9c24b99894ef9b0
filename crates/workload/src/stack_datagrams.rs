//! A UDP socket of our stack, as an application uses it: a message is a datagram, sent and received whole.
//!
//! It must never send a datagram again: whoever waits for an answer knows whether it may ask twice.

use std::net::SocketAddr;

use tollgate_gate::Recorder;
use tollgate_run::PathId;
use tollgate_stack::config::{ChecksumPolicy, Receive};
use tollgate_stack::udp::UdpId;
use tollgate_stack::{Active, Error as Refusal, Link, SocketChecksums};

use crate::error::Error;
use crate::spec::Spec;

/// A socket and the address that it talks to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagrams {
    id: UdpId,
    to: SocketAddr,
    receive: Receive,
}

impl Datagrams {
    /// A socket on a port, or on a free one where that is 0, with the checksums that the policy says.
    pub(crate) fn open(
        path: PathId,
        spec: &Spec,
        active: &mut Active<'_>,
        port: u16,
        to: SocketAddr,
    ) -> Result<Self, Error> {
        let refused = |error| Error::stack(path, "opening a UDP socket", error);
        let id = active.udp_bind(port).map_err(refused)?;
        let checksums = match spec.mechanisms.checksum {
            ChecksumPolicy::Always | ChecksumPolicy::RedundancyAvoidance => SocketChecksums::Policy,
            ChecksumPolicy::Off => SocketChecksums::LeaveOut,
        };
        active.udp_set_checksums(id, checksums).map_err(refused)?;
        Ok(Self {
            id,
            to,
            receive: spec.mechanisms.receive,
        })
    }

    /// Gives the port back. What comes to it from now on belongs to nobody.
    pub(crate) fn close(self, path: PathId, active: &mut Active<'_>) -> Result<(), Error> {
        let refused = |error| Error::stack(path, "closing a UDP socket", error);
        active.udp_close(self.id).map_err(refused)
    }

    /// Sends a datagram; says whether the stack had room for it.
    #[inline]
    pub(crate) fn send<R: Recorder>(
        self,
        path: PathId,
        active: &mut Active<'_, R>,
        message: &[u8],
    ) -> Result<bool, Error> {
        match active.udp_send(self.id, self.to, message) {
            Ok(()) => Ok(true),
            Err(Refusal::NoFrame) => Ok(false),
            Err(error) => Err(Error::stack(path, "sending a datagram", error)),
        }
    }

    /// Polls, and takes the datagram that is next, which has to fill `into`; says whether there is one. Those that others have sent are
    /// thrown away, as by a socket of the kernel that is connected.
    #[inline]
    pub(crate) fn poll_receive<L: Link, R: Recorder>(
        self,
        path: PathId,
        active: &mut Active<'_, R>,
        link: &mut L,
        into: &mut [u8],
    ) -> Result<bool, Error> {
        const DOING: &str = "receiving a datagram";
        let received = match self.receive {
            Receive::Posted => active.udp_poll_receive(link, self.id, into),
            Receive::Queued => {
                active.poll(link);
                active.udp_receive_ends_into(self.id, into)
            }
        };
        match received.map(|(ends, len)| (ends.remote, len)) {
            Ok((from, len)) if len == into.len() && from == self.to => Ok(true),
            Ok((from, _)) if from != self.to => Ok(false),
            Ok((_, len)) => {
                let reason = format!("it has {len} bytes, not {}", into.len());
                Err(Error::stack(path, DOING, reason))
            }
            Err(Refusal::WouldBlock) => Ok(false),
            Err(error) => Err(Error::stack(path, DOING, error)),
        }
    }
}

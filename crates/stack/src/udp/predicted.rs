//! Input, predicted: a whole datagram in one frame, to an address of ours, for a socket that has room.
//!
//! Most datagrams are that, and of the same two hosts and for the same port as the one before ([`Flow`]). Its headers are compared in
//! a few words. Its payload is copied and summed in one pass: into the buffer of a reader that has posted one and has nothing in
//! its queue, else into the queue. Nothing is changed before every check has passed; whatever fails goes the general way
//! ([`super`]), which counts the reason.

use super::header::{self, Addresses, Head, LEAD};
use super::sockets::{Arrived, Enqueued, copy_verified};
use super::{DatagramEnds, UNNUMBERED, bytes_together};
use crate::buffer::Frame;
use crate::ipv6::is_unicast;
use crate::socket::Posted;
use crate::stack::Active;
use core::hint::cold_path;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tollgate_gate::{Gate, Recorder};
use tollgate_wire::udp;

/// Two hosts, the other one first, and the port of ours that datagrams between them go to. That they are another host's and ours has
/// been looked at.
#[derive(Debug)]
pub(super) struct Flow {
    addresses: Addresses,
    /// The port; its version's leading bytes in the upper half.
    port: u32,
    /// Of the socket on the port.
    slot: u32,
}

impl Flow {
    /// No packet is of it.
    pub(super) const NONE: Self = Self {
        addresses: [0; 32],
        port: u32::MAX,
        slot: u32::MAX,
    };

    /// Tells whether it is one of IPv6.
    #[inline(always)]
    const fn is_v6(&self) -> bool {
        self.port >> 16 == LEAD as u32
    }
}

/// A port with the version that a packet to it has.
#[inline(always)]
fn port<const L: usize>(head: &Head) -> u32 {
    u32::from(header::destination_port(head)) | (L as u32) << 16
}

/// The other host's address and ours.
#[inline(always)]
fn hosts<const L: usize>(addresses: &Addresses) -> (IpAddr, IpAddr) {
    let (halves, _) = addresses.as_chunks::<16>();
    let (words, _) = addresses.as_chunks::<4>();
    if L == 0 {
        (
            Ipv4Addr::from(words[6]).into(),
            Ipv4Addr::from(words[7]).into(),
        )
    } else {
        (
            Ipv6Addr::from(halves[0]).into(),
            Ipv6Addr::from(halves[1]).into(),
        )
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Takes a frame when it is a predicted datagram; otherwise has changed nothing. Says whether it did. The version that came last is
    /// tried first.
    #[inline(always)]
    pub(crate) fn datagram_predicted(&mut self, frame: &Frame, posted: &mut Posted<'_>) -> bool {
        let v6_first = self.stack.udp.flow.is_v6();
        v6_first && self.datagram_predicted_as::<LEAD>(frame, posted)
            || self.datagram_predicted_as::<0>(frame, posted)
            || !v6_first && self.datagram_predicted_as::<LEAD>(frame, posted)
    }

    /// Takes it, with `L` bytes in front of its [`header::HEADERS`]: none, or [`LEAD`] of IPv6.
    #[inline(never)]
    fn datagram_predicted_as<const L: usize>(
        &mut self,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) -> bool {
        let Some((lead, rest)) = self.pool.frame(frame).split_first_chunk::<L>() else {
            return false;
        };
        let Some((head, rest)) = rest.split_first_chunk::<{ header::HEADERS }>() else {
            return false;
        };
        self.rec.pass(Gate::IpInBegin, UNNUMBERED);
        let len = header::len(head);
        if !header::is_datagram(lead, head, self.stack.mac_word)
            || header::ip_payload_len(lead, head) != len
        {
            cold_path();
            return false;
        }
        let unsummed = header::has_no_checksum(head);
        let intact = if L == 0 {
            !self.stack.compiled.verify_ip || header::ip_header_is_intact(head)
        } else {
            !unsummed
        };
        // The length decides where the payload ends, not the frame's, which may be padded.
        let end = usize::from(len).wrapping_sub(udp::HEADER_LEN);
        let Some(payload) = rest.get(..end).filter(|_| intact) else {
            cold_path();
            return false;
        };
        self.rec.pass(Gate::DemuxBegin, UNNUMBERED);
        let flow = &self.stack.udp.flow;
        if flow.port != port::<L>(head) || !header::has_addresses::<L>(head, &flow.addresses) {
            cold_path();
            match self.flow_of::<L>(head) {
                Some(flow) => self.stack.udp.flow = flow,
                None => return false,
            }
        }
        self.rec.pass(Gate::TcpInBegin, UNNUMBERED);
        let stack = &mut *self.stack;
        let slot = stack.udp.flow.slot;
        let kernel = stack.compiled.kernel;
        let ahead =
            (!unsummed && !frame.checksum.is_verified()).then(|| header::sum::<L>(head, len));
        let ends = || {
            let (remote, local) = hosts::<L>(&header::addresses::<L>(head));
            DatagramEnds {
                remote: SocketAddr::new(remote, header::source_port(head)),
                local,
            }
        };
        self.rec.pass(Gate::ChecksumInBegin, UNNUMBERED);
        let taken = match posted.room_for_datagram(slot, payload.len()) {
            Some(room) => {
                // A buffer is posted where nothing waits, and what comes in a burst behind a datagram that went the general way
                // finds no buffer.
                debug_assert!(stack.udp.is_empty(slot), "a datagram would overtake others");
                let intact = copy_verified(room, payload, ahead, kernel);
                if intact {
                    posted.take_datagram(payload.len());
                    stack.udp.posted = ends();
                }
                intact
            }
            None => {
                let datagram = Arrived {
                    ends: ends(),
                    payload,
                    ahead,
                    kernel,
                };
                let together = bytes_together(self.pool);
                let sockets = &mut stack.udp;
                sockets.enqueue(slot, &datagram, together, &mut stack.ready) == Enqueued::Yes
            }
        };
        if !taken {
            cold_path();
            return false;
        }
        self.rec.pass(Gate::ChecksumInEnd, UNNUMBERED);
        stack.counters.predicted_datagrams += 1;
        stack.counters.unverified += u64::from(unsummed && !payload.is_empty());
        self.rec.pass(Gate::SocketQueued, UNNUMBERED);
        self.pool.release(frame.id);
        true
    }

    /// The flow of a datagram from another host to an address of ours, where a socket is on its port.
    #[inline(never)]
    fn flow_of<const L: usize>(&self, head: &Head) -> Option<Flow> {
        let addresses = header::addresses::<L>(head);
        let are_hosts = match hosts::<L>(&addresses) {
            (IpAddr::V4(remote), IpAddr::V4(local)) => {
                self.stack.is_ours(local) && self.is_another_host(remote)
            }
            (IpAddr::V6(remote), IpAddr::V6(local)) => {
                let own = &self.stack.ipv6.addresses;
                own.is_ours(local) && is_unicast(remote) && !own.is_ours(remote)
            }
            _ => false,
        };
        let slot = self.stack.udp.slot_at(header::destination_port(head))?;
        are_hosts.then_some(Flow {
            addresses,
            port: port::<L>(head),
            slot,
        })
    }
}

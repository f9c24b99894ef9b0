//! ICMP (RFC 792, RFC 1122 3.2.2): answers echoes, sends errors, and tells sockets of errors that come in.
//!
//! Errors about TCP are believed only when they quote a sequence number in flight (RFC 5927, 4.1), and are never fatal to
//! a synchronized connection (RFC 1122, 4.2.3.9: they are soft, or are treated so).

use crate::counters::Drop;
use crate::demux::FlowKey;
use crate::socket::Error;
use crate::stack::Active;
use crate::tcp::report::SoftError;
use crate::tcp::slow::redundancy::Agreement;
use crate::tcp::slow::time_wait::SLOT_BIT;
use crate::tcp::tcb::{State, rare};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use tollgate_checksum::sum_header;
use tollgate_gate::Recorder;
use tollgate_wire::icmp::{HEADER_LEN, Message, Unreachable};
use tollgate_wire::source_route::SourceRoute;
use tollgate_wire::{SeqNumber, icmpv6, ipv4};

/// Bytes of a packet that every host takes (RFC 791, 3.1); segments are not made smaller for a path.
const LEAST_MTU: u16 = 576;
/// Bytes of a packet that every link carries (RFC 791, 3.2). A router that says less, such as 0 (before RFC 1191), does not
/// know.
const IP_LEAST_MTU: u16 = 68;
/// Echo replies that wait to be read, and identifiers of requests that are remembered.
const ECHOES: usize = 64;
/// Bytes behind the header that an error quotes (RFC 792; RFC 1122, 3.2.2).
const QUOTED: usize = 8;
/// Bytes of the longest header.
const LONGEST_HEADER: usize = 60;
/// ICMP errors that are sent in a period, on average: about 900 a second (RFC 1812, 4.3.2.8; Linux allows 1,000 a second in
/// bursts of 50).
pub(crate) const ERRORS_PER_PERIOD: u32 = 60;
/// A period of the limit on ICMP errors: 64 ticks are 67 ms.
pub(crate) const ERROR_PERIOD: u32 = 64;

/// Meaning of an ICMP error, of either version, for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// Nobody is there: it ends an attempt to open (RFC 5461).
    Refused(SoftError),
    /// The path takes only packets of so many bytes.
    TooBig(u16),
    /// It is soft (RFC 1122, 4.2.3.9, MUST-56).
    Soft(SoftError),
}

impl Trouble {
    /// Meaning of a message of ICMP for IPv4; nothing where it is no error.
    fn from_icmp(message: Message) -> Option<Self> {
        let soft = SoftError::from_icmp(message);
        match message {
            Message::DestinationUnreachable(Unreachable::FragmentationNeeded { next_hop_mtu }) => {
                Some(Self::TooBig(next_hop_mtu))
            }
            Message::DestinationUnreachable(Unreachable::Port | Unreachable::Protocol) => {
                soft.map(Self::Refused)
            }
            _ => soft.map(Self::Soft),
        }
    }
}

/// The part of a packet that an error about it quotes, byte by byte as it came: the header, and the first bytes behind it (RFC 1122,
/// 3.2.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quote {
    bytes: [u8; LONGEST_HEADER + QUOTED],
    header: u8,
    len: u8,
}

impl Quote {
    /// The quotation of a packet that is not there any more.
    pub(crate) const NOTHING: Self = Self {
        bytes: [0; LONGEST_HEADER + QUOTED],
        header: 0,
        len: 0,
    };

    /// Quotes a packet with this header, of which at least the front is there.
    pub(crate) fn of(header: &ipv4::Header, packet: &[u8]) -> Self {
        let most = usize::from(header.header_len) + QUOTED;
        let len = most.min(header.total_len.into()).min(packet.len());
        let mut quote = Self {
            header: header.header_len.min(len as u8),
            len: len as u8,
            ..Self::NOTHING
        };
        quote.bytes[..len].copy_from_slice(&packet[..len]);
        quote
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The bytes behind the header.
    fn payload(&self) -> &[u8] {
        &self.bytes()[usize::from(self.header)..]
    }
}

/// An answer to an echo request of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Address of the host that answered.
    pub from: IpAddr,
    /// Whose echo it is.
    pub identifier: u16,
    /// Which of them.
    pub sequence: u16,
    /// The bytes that came back.
    pub data: Vec<u8>,
}

/// Echo replies that wait to be read, and the identifiers of the requests that were sent last.
#[derive(Debug, Default)]
pub(crate) struct Echoes {
    replies: VecDeque<Echo>,
    /// Each once, the one that was used last at the end.
    identifiers: VecDeque<u16>,
}

impl Echoes {
    /// Remembers the identifier of a request.
    fn sends(&mut self, identifier: u16) {
        if self.identifiers.back() == Some(&identifier) {
            return;
        }
        self.identifiers.retain(|&known| known != identifier);
        if self.identifiers.len() == ECHOES {
            self.identifiers.pop_front();
        }
        self.identifiers.push_back(identifier);
    }

    /// Tells whether a request of this identifier was sent lately.
    pub(crate) fn has_sent(&self, identifier: u16) -> bool {
        self.identifiers.contains(&identifier)
    }

    /// Keeps a reply, or says why not.
    fn keep(&mut self, echo: Echo) -> Result<(), Drop> {
        if !self.has_sent(echo.identifier) {
            return Err(Drop::IcmpImplausible);
        }
        if self.replies.len() == ECHOES {
            return Err(Drop::QueueFull);
        }
        self.replies.push_back(echo);
        Ok(())
    }
}

impl<R: Recorder> Active<'_, R> {
    pub(crate) fn icmp_input(&mut self, ip: &ipv4::Header, bytes: &[u8], unicast: bool) {
        if !self.stack.compiled.kernel.sum(bytes).is_valid() {
            self.stack.counters.dropped(Drop::Checksum);
            return;
        }
        let Ok(message) = Message::parse(bytes) else {
            self.stack.counters.dropped(Drop::Malformed);
            return;
        };
        let data = &bytes[HEADER_LEN..];
        match message {
            Message::EchoRequest {
                identifier,
                sequence,
            } if unicast => {
                self.icmp_output(
                    (ip.destination, ip.source),
                    Message::EchoReply {
                        identifier,
                        sequence,
                    },
                    data,
                );
            }
            // RFC 1122, 3.2.2.6: one to a broadcast address may be left unanswered.
            Message::EchoRequest { .. } => {}
            Message::EchoReply {
                identifier,
                sequence,
            } => self.keep_echo(Echo {
                from: ip.source.into(),
                identifier,
                sequence,
                data: data.to_vec(),
            }),
            Message::DestinationUnreachable(_)
            | Message::TimeExceeded(_)
            | Message::ParameterProblem(_) => {
                self.icmp_error_input(message, data);
            }
            Message::Other(..) => self.stack.counters.dropped(Drop::UnknownProtocol),
        }
    }

    /// Sends an echo request; the answer comes by [`Active::next_echo`].
    ///
    /// # Errors
    /// [`Error::NoFrame`] when the device queue or the pool has no room, [`Error::TooLong`] for more than 65,507 bytes,
    /// [`Error::Unreachable`] where no address of ours can reach that one or no router is known, [`Error::BadAddress`] for an
    /// address of this host, one of a loopback, the unspecified one and a group of IPv4.
    pub fn ping(
        &mut self,
        to: impl Into<IpAddr>,
        identifier: u16,
        sequence: u16,
        data: &[u8],
    ) -> Result<(), Error> {
        if data.len() > 65_507 {
            return Err(Error::TooLong);
        }
        let to = to.into().to_canonical();
        let sent = match to {
            IpAddr::V4(to) => {
                let source = self.stack.source_of_datagram_v4(None, to)?;
                let request = Message::EchoRequest {
                    identifier,
                    sequence,
                };
                self.stack.echoes.sends(identifier);
                self.icmp_output((source, to), request, data)
            }
            IpAddr::V6(to) => {
                let source = self.stack.source_of_datagram_v6(None, to)?;
                let request = icmpv6::Message::EchoRequest {
                    identifier,
                    sequence,
                };
                self.stack.echoes.sends(identifier);
                self.icmpv6_output((source, to), request, data)
            }
        };
        if sent {
            Ok(())
        } else {
            Err(self.reason_not_sent(to))
        }
    }

    /// The reason why a packet to this address could not be sent, from an address that can reach it.
    pub(crate) fn reason_not_sent(&self, to: IpAddr) -> Error {
        match to {
            IpAddr::V6(to) if self.has_no_route(to) => Error::Unreachable,
            IpAddr::V4(_) | IpAddr::V6(_) => Error::NoFrame,
        }
    }

    /// Keeps an answer to an echo request of ours, if there is room. Others would take it.
    pub(crate) fn keep_echo(&mut self, echo: Echo) {
        if let Err(reason) = self.stack.echoes.keep(echo) {
            self.stack.counters.dropped(reason);
        }
    }

    /// The next answer to an echo request.
    pub fn next_echo(&mut self) -> Option<Echo> {
        self.stack.echoes.replies.pop_front()
    }

    fn icmp_output(&mut self, ends: (Ipv4Addr, Ipv4Addr), message: Message, data: &[u8]) -> bool {
        let mut header = message.to_bytes();
        let sum = sum_header(&header) + self.stack.compiled.kernel.sum(data);
        header[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
        self.ip_output(ipv4::protocol::ICMP, ends, [&header, data])
    }

    /// Tells the sender of `ip` what is wrong with it.
    pub(crate) fn icmp_error(&mut self, ip: &ipv4::Header, quote: &Quote, message: Message) {
        // RFC 1122, 3.2.2: never about a fragment other than the first, nor about an ICMP error.
        let about_error = ip.protocol == ipv4::protocol::ICMP
            && !matches!(
                Message::parse(quote.payload()),
                Ok(Message::EchoRequest { .. } | Message::EchoReply { .. })
            );
        if ip.fragment_offset() != 0 || about_error {
            return;
        }
        let random = &mut self.stack.secrets.random;
        if !self.stack.icmp_errors.allow(self.now, random) {
            self.stack.counters.icmp_errors_limited += 1;
            return;
        }
        // RFC 1122, 3.2.2: from the address that it was sent to, unless that is others' as well.
        let from = if self.stack.is_ours(ip.destination) {
            ip.destination
        } else {
            self.stack.source_to(ip.source)
        };
        if from.is_unspecified() {
            return;
        }
        self.icmp_output((from, ip.source), message, quote.bytes());
    }

    /// An error about something that we sent.
    fn icmp_error_input(&mut self, message: Message, quoted: &[u8]) {
        // The quotation is cut short, so its lengths say more than is there.
        let Some((head, payload)) = quoted.split_first_chunk::<20>() else {
            self.stack.counters.dropped(Drop::Malformed);
            return;
        };
        let options = usize::from(head[0] & 0xf).saturating_sub(5) * 4;
        let Some(ports) = payload.get(options..).and_then(|p| p.first_chunk::<8>()) else {
            self.stack.counters.dropped(Drop::Malformed);
            return;
        };
        let source = Ipv4Addr::new(head[12], head[13], head[14], head[15]);
        // A packet that was on its way by a source route is addressed to a host on it.
        let addressed = Ipv4Addr::new(head[16], head[17], head[18], head[19]);
        let destination = SourceRoute::destination(&payload[..options]).unwrap_or(addressed);
        let local = u16::from_be_bytes([ports[0], ports[1]]);
        let remote = u16::from_be_bytes([ports[2], ports[3]]);
        // A fragment other than the first has no ports.
        let offset = u16::from_be_bytes([head[6], head[7]]) & ipv4::OFFSET_MASK;
        if !self.stack.is_ours(source) || offset != 0 {
            self.stack.counters.dropped(Drop::IcmpImplausible);
            return;
        }
        match head[9] {
            ipv4::protocol::TCP => {
                let seq = SeqNumber(u32::from_be_bytes([ports[4], ports[5], ports[6], ports[7]]));
                let key = FlowKey::new((destination, remote), (source, local));
                if let Some(trouble) = Trouble::from_icmp(message) {
                    self.trouble_for_tcp(trouble, key, seq);
                }
            }
            ipv4::protocol::UDP => {
                if let Some(trouble) = Trouble::from_icmp(message) {
                    self.error_for_udp(trouble, (destination.into(), remote), local);
                }
            }
            _ => {}
        }
    }

    /// An ICMP error about a segment of this number that we sent.
    pub(crate) fn trouble_for_tcp(&mut self, trouble: Trouble, key: FlowKey, seq: SeqNumber) {
        let index = match self.slot_of(key) {
            Some(slot) if slot & SLOT_BIT == 0 => slot as usize,
            _ => {
                self.stack.counters.dropped(Drop::IcmpImplausible);
                return;
            }
        };
        let tcb = &self.stack.tcbs[index];
        // RFC 5927, 4.1: only about what is in flight.
        if tcb.in_flight() == 0 || !seq.within(tcb.snd_una, tcb.snd_nxt - 1) {
            self.stack.counters.dropped(Drop::IcmpImplausible);
            return;
        }
        if tcb.is_rare(rare::FAST_OPEN) && self.fast_open_trouble(index, trouble) {
            return;
        }
        let tcb = &self.stack.tcbs[index];
        match trouble {
            Trouble::TooBig(mtu) => match key.pair() {
                None => self.fragmentation_needed(index, mtu),
                Some(pair) => self.packet_too_big(index, pair, mtu),
            },
            // RFC 5461: while a connection is opened, a hard error ends the attempt.
            Trouble::Refused(_) if tcb.state == State::SynSent => self.kill(index, Error::Refused),
            // Soft errors: the connection goes on trying (RFC 1122, 4.2.3.9, MUST-56).
            Trouble::Refused(error) | Trouble::Soft(error) => self.report(index, error),
        }
    }

    /// A router says that the path takes only packets of `next_hop_mtu` bytes (RFC 1191). Segments do not become smaller
    /// than every host takes (RFC 879). Where the path takes less, routers may fragment them.
    fn fragmentation_needed(&mut self, index: usize, next_hop_mtu: u16) {
        self.stack.keep_checksums(index, Agreement::RouterFound);
        let least = LEAST_MTU.min(self.stack.mtu);
        let is_sense = next_hop_mtu >= IP_LEAST_MTU;
        let before = self.stack.tcbs[index].mss;
        let mut newly = is_sense && next_hop_mtu < least && self.allow_fragments(index);
        self.path_mtu(index, next_hop_mtu.max(least).min(self.stack.mtu));
        let is_smaller = self.stack.tcbs[index].mss < before;
        if !is_sense && !is_smaller {
            // What every host takes is still too long.
            newly = self.allow_fragments(index);
        }
        if newly || is_smaller {
            self.stack.widen_path_later(index, self.now.tick());
        }
        if newly && !is_smaller {
            self.retransmit_first(index);
        }
    }
}

//! Counters of the stack. Nothing is lost in silence: each way to drop a packet has a number, and so has each reason
//! to miss a prediction.

/// The reason why a segment was not predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Miss {
    /// The frame is too short for a TCP segment, or shorter than its IP length.
    Short,
    /// Not addressed to us, not IPv4 without options, a fragment, damaged, or not TCP.
    NotTcp,
    /// No connection has this key.
    NoConnection,
    /// The state, the flags or the data offset are not those of a predicted segment.
    Flags,
    /// Not the next byte.
    Sequence,
    /// Acknowledges something outside what is in flight.
    Acknowledgment,
    /// The timestamp option is not where it is predicted.
    OptionLayout,
    /// An old timestamp (PAWS).
    Timestamp,
    /// The peer's window closed.
    ZeroWindow,
    /// More bytes than were offered.
    BeyondWindow,
    /// Neither data, nor a new acknowledgment, nor another window.
    Duplicate,
    /// Data with a new acknowledgment while prediction is unidirectional.
    Bidirectional,
    /// A checksum is wrong.
    Checksum,
    /// Less than a quarter of the pool is free and the reader is behind.
    Crowded,
}

impl Miss {
    /// Number of reasons.
    pub const COUNT: usize = 14;

    /// Every reason.
    pub const ALL: [Miss; Self::COUNT] = [
        Miss::Short,
        Miss::NotTcp,
        Miss::NoConnection,
        Miss::Flags,
        Miss::Sequence,
        Miss::Acknowledgment,
        Miss::OptionLayout,
        Miss::Timestamp,
        Miss::ZeroWindow,
        Miss::BeyondWindow,
        Miss::Duplicate,
        Miss::Bidirectional,
        Miss::Checksum,
        Miss::Crowded,
    ];

    /// The reason in words.
    pub const fn name(self) -> &'static str {
        match self {
            Miss::Short => "short frame",
            Miss::NotTcp => "not TCP",
            Miss::NoConnection => "no connection",
            Miss::Flags => "state or flags",
            Miss::Sequence => "sequence",
            Miss::Acknowledgment => "acknowledgment",
            Miss::OptionLayout => "option layout",
            Miss::Timestamp => "timestamp",
            Miss::ZeroWindow => "zero window",
            Miss::BeyondWindow => "beyond window",
            Miss::Duplicate => "duplicate",
            Miss::Bidirectional => "bidirectional",
            Miss::Checksum => "checksum",
            Miss::Crowded => "pool nearly full",
        }
    }
}

/// The reason why a segment that was not predicted as part of a data transfer, because it belongs to no connection or for its state or
/// flags, was not predicted to move a connection on to its next state either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HandshakeMiss {
    /// The flags or the data offset are not those of a SYN with the usual options, nor of an acknowledgment or a FIN with the
    /// timestamp option.
    Flags,
    /// It carries data, or is shorter than it says.
    Payload,
    /// The options are not those that are predicted, or not where they are.
    OptionLayout,
    /// A SYN that is not from one host to another.
    Address,
    /// The state of the connection or of the listener, or something that is going on with it.
    State,
    /// Not the next byte, or the window is closed.
    Sequence,
    /// Acknowledges something outside what is in flight.
    Acknowledgment,
    /// An old timestamp (PAWS).
    Timestamp,
    /// The peer's window closed.
    ZeroWindow,
    /// The checksum is wrong.
    Checksum,
}

impl HandshakeMiss {
    /// Number of reasons.
    pub const COUNT: usize = 10;

    /// Every reason.
    pub const ALL: [HandshakeMiss; Self::COUNT] = [
        HandshakeMiss::Flags,
        HandshakeMiss::Payload,
        HandshakeMiss::OptionLayout,
        HandshakeMiss::Address,
        HandshakeMiss::State,
        HandshakeMiss::Sequence,
        HandshakeMiss::Acknowledgment,
        HandshakeMiss::Timestamp,
        HandshakeMiss::ZeroWindow,
        HandshakeMiss::Checksum,
    ];

    /// The reason in words.
    pub const fn name(self) -> &'static str {
        match self {
            HandshakeMiss::Flags => "flags",
            HandshakeMiss::Payload => "payload",
            HandshakeMiss::OptionLayout => "option layout",
            HandshakeMiss::Address => "address",
            HandshakeMiss::State => "state",
            HandshakeMiss::Sequence => "sequence",
            HandshakeMiss::Acknowledgment => "acknowledgment",
            HandshakeMiss::Timestamp => "timestamp",
            HandshakeMiss::ZeroWindow => "zero window",
            HandshakeMiss::Checksum => "checksum",
        }
    }
}

/// The reason why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Drop {
    /// The frame or a header in it is malformed.
    Malformed,
    /// Addressed to another link or network address.
    NotForUs,
    /// A protocol that the stack does not speak.
    UnknownProtocol,
    /// A wrong IP, ICMP, UDP or TCP checksum.
    Checksum,
    /// No socket or connection takes it.
    NoSocket,
    /// The socket's queue is full.
    QueueFull,
    /// The pool is empty, or has no frame left for this purpose.
    NoFrame,
    /// The device queue is full.
    DeviceQueueFull,
    /// The link address of the next hop could not be found, or the packet found no room to wait for it.
    Unresolved,
    /// Reassembly timed out, overlapped or was full.
    Reassembly,
    /// A TCP segment outside the window, or not acceptable otherwise (RFC 9293, 3.10.7.4).
    Unacceptable,
    /// An old timestamp (RFC 7323, 5.3).
    Paws,
    /// A SYN that found no room and no cookie could be sent.
    SynBacklog,
    /// The table of connections is full.
    TableFull,
    /// An ICMP error that does not belong to a connection, or an implausible one (RFC 5927).
    IcmpImplausible,
    /// It came by a source route, which the configuration does not take.
    SourceRoute,
}

impl Drop {
    /// Number of reasons.
    pub const COUNT: usize = 16;

    /// Every reason.
    pub const ALL: [Drop; Self::COUNT] = [
        Drop::Malformed,
        Drop::NotForUs,
        Drop::UnknownProtocol,
        Drop::Checksum,
        Drop::NoSocket,
        Drop::QueueFull,
        Drop::NoFrame,
        Drop::DeviceQueueFull,
        Drop::Unresolved,
        Drop::Reassembly,
        Drop::Unacceptable,
        Drop::Paws,
        Drop::SynBacklog,
        Drop::TableFull,
        Drop::IcmpImplausible,
        Drop::SourceRoute,
    ];

    /// The reason in words.
    pub const fn name(self) -> &'static str {
        match self {
            Drop::Malformed => "malformed",
            Drop::NotForUs => "not for us",
            Drop::UnknownProtocol => "unknown protocol",
            Drop::Checksum => "checksum",
            Drop::NoSocket => "no socket",
            Drop::QueueFull => "queue full",
            Drop::NoFrame => "pool empty",
            Drop::DeviceQueueFull => "device queue full",
            Drop::Unresolved => "link address not found",
            Drop::Reassembly => "reassembly",
            Drop::Unacceptable => "outside the window",
            Drop::Paws => "old timestamp",
            Drop::SynBacklog => "SYN backlog",
            Drop::TableFull => "connection table full",
            Drop::IcmpImplausible => "implausible ICMP error",
            Drop::SourceRoute => "source route",
        }
    }
}

/// The counters of a stack, since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Segments that were predicted.
    pub predicted: u64,
    /// UDP datagrams that were predicted. They are not among the misses.
    pub predicted_datagrams: u64,
    /// Segments and other frames that were not, by [`Miss`].
    pub misses: [u64; Miss::COUNT],
    /// Segments that were predicted to move their connection from one state to the next. They are not among the misses.
    pub predicted_handshakes: u64,
    /// Segments among the misses by [`Miss::Flags`] and [`Miss::NoConnection`] for which that was tried, by [`HandshakeMiss`].
    pub handshake_misses: [u64; HandshakeMiss::COUNT],
    /// Segments for which the table was asked, because the last segment was another connection's.
    pub cache_misses: u64,
    /// Packets dropped, by [`Drop`].
    pub drops: [u64; Drop::COUNT],
    /// Frames received.
    pub frames_in: u64,
    /// Segments that carried retransmitted bytes.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes (RFC 8985, 7).
    pub tail_probes: u64,
    /// Probes of a path's MTU (RFC 4821, 7.5), and those of them that were lost.
    pub mtu_probes: u64,
    /// See [`Counters::mtu_probes`].
    pub mtu_probes_lost: u64,
    /// Times that a path was taken for one that drops full segments in silence (RFC 4821, 7.7).
    pub black_holes: u64,
    /// Bytes of payload that were to be sent on connections that are over. [`Stack::summed`](crate::Stack::summed) adds the others.
    pub(crate) queued_before: u64,
    /// Bytes of payload that were summed on their way out although they had been summed before.
    pub summed_again: u64,
    /// Fast retransmissions.
    pub fast_retransmits: u64,
    /// Segments that arrived out of order.
    pub out_of_order: u64,
    /// Challenge acknowledgments sent (RFC 5961).
    pub challenge_acks: u64,
    /// Challenge acknowledgments withheld by the rate limit.
    pub challenge_acks_limited: u64,
    /// SYN cookies sent.
    pub syn_cookies_sent: u64,
    /// Connections made from a returned cookie.
    pub syn_cookies_accepted: u64,
    /// Connections whose data was taken from their SYN (RFC 7413).
    pub fast_opens_accepted: u64,
    /// SYNs of ours that carried data (RFC 7413).
    pub syns_with_data: u64,
    /// Connections whose peers acknowledged all data in our SYN.
    pub fast_opens_acknowledged: u64,
    /// ICMP errors withheld by the rate limit.
    pub icmp_errors_limited: u64,
    /// ARP packets that were not believed, because they contradicted what was heard within the last second.
    pub arp_changes_limited: u64,
    /// Messages of neighbour discovery that were not believed, because they contradicted what was heard within the last second.
    pub neighbour_changes_limited: u64,
    /// Signs of another host that has an address of ours (RFC 4862, 5.4).
    pub address_conflicts: u64,
    /// Connections that were looked at because a neighbour's link address became another, was lost or was not found.
    pub neighbour_users_visited: u64,
    /// Destinations over IPv6 whose next hops were chosen again because routers or prefixes of the link became others.
    pub next_hops_chosen_again: u64,
    /// RSTs sent.
    pub resets_sent: u64,
    /// Connections that have come to leave checksums out, by agreement with their peers.
    pub unsummed_connections: u64,
    /// Segments and datagrams with payload that were taken without a checksum.
    pub unverified: u64,
}

impl Counters {
    #[inline(always)]
    pub(crate) fn miss(&mut self, miss: Miss) {
        self.misses[miss as usize] += 1;
    }

    #[inline(always)]
    pub(crate) fn handshake_miss(&mut self, miss: HandshakeMiss) {
        self.handshake_misses[miss as usize] += 1;
    }

    pub(crate) fn dropped(&mut self, reason: Drop) {
        self.drops[reason as usize] += 1;
    }

    /// Segments for which the one-entry cache held the connection: all that got as far as being looked up, less those for
    /// which the table was asked.
    pub fn cache_hits(&self) -> u64 {
        let looked_up: u64 = self.misses[Miss::NoConnection as usize..].iter().sum();
        (self.predicted + self.predicted_handshakes + looked_up).saturating_sub(self.cache_misses)
    }

    /// Packets that were dropped for `reason`.
    pub fn drops(&self, reason: Drop) -> u64 {
        self.drops[reason as usize]
    }

    /// Segments that were not predicted for `reason`.
    pub fn misses(&self, reason: Miss) -> u64 {
        self.misses[reason as usize]
    }

    /// Segments of the handshake that were not predicted for `reason`.
    pub fn handshake_misses(&self, reason: HandshakeMiss) -> u64 {
        self.handshake_misses[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_whole_and_in_order() {
        for (at, miss) in Miss::ALL.into_iter().enumerate() {
            assert_eq!(miss as usize, at);
        }
        for (at, miss) in HandshakeMiss::ALL.into_iter().enumerate() {
            assert_eq!(miss as usize, at);
        }
        for (at, reason) in Drop::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
        }
    }
}

//! Numbers of messages of each size, by protocol: the weights of a cost by size.
//!
//! Messages of one moment resemble each other (a transfer, a burst of one client). So they are counted by stretches
//! of the time of the trace, whose spread tells how far the trace stands for more of its kind. This module counts;
//! conclusions from the counts are not its business.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::rebuilt::Rebuilt;
use crate::rows::{Counted, Ends, FlowRow, MessageRow, PacketRow, Protocol, Rows};

/// Definition of a message of TCP; a datagram of UDP is one by either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Messages {
    /// The payload of a segment.
    #[default]
    Segments,
    /// Bytes that an application wrote, as far as the segments show it.
    Writes,
}

impl Messages {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Segments, Self::Writes];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Writes => "writes",
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Tells whether a message that was counted so is one.
    pub const fn holds(self, counted: Counted) -> bool {
        match self {
            Self::Segments => counted.is_segment(),
            Self::Writes => counted.is_write(),
        }
    }
}

/// Messages by their size in bytes of user data.
pub type Sizes = BTreeMap<u32, u64>;

/// Messages of one stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    tcp: Sizes,
    udp: Sizes,
}

impl Stretch {
    /// Counts `n` messages of a size.
    pub fn add(&mut self, protocol: Protocol, size: u32, n: u64) {
        let sizes = match protocol {
            Protocol::Tcp => &mut self.tcp,
            Protocol::Udp => &mut self.udp,
        };
        if n > 0 {
            *sizes.entry(size).or_default() += n;
        }
    }

    /// The messages of a protocol; no size has none.
    pub const fn of(&self, protocol: Protocol) -> &Sizes {
        match protocol {
            Protocol::Tcp => &self.tcp,
            Protocol::Udp => &self.udp,
        }
    }
}

/// The messages of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    stretches: Vec<Stretch>,
}

impl Traffic {
    /// The messages by stretches of time; those without any are left out.
    pub fn new(stretches: Vec<Stretch>) -> Self {
        let held = |stretch: &Stretch| !(stretch.tcp.is_empty() && stretch.udp.is_empty());
        Self {
            stretches: stretches.into_iter().filter(held).collect(),
        }
    }

    /// The messages of a rebuilt trace. Their order is made up, so they are one stretch.
    pub fn rebuilt(rebuilt: Rebuilt, messages: Messages) -> Self {
        let mut counting = Counting {
            messages,
            stretch: Stretch::default(),
        };
        match rebuilt.rows(rebuilt.messages(), &mut counting) {
            Ok(()) => Self::new(vec![counting.stretch]),
            Err(never) => match never {},
        }
    }

    /// The bounds of what is known of a rebuilt trace: the same messages, each as small and each as large as what was published
    /// allows.
    pub fn bounds(&self, rebuilt: Rebuilt) -> (Self, Self) {
        let moved = |place: fn((u32, u32)) -> u32| {
            let stretches = self.stretches.iter().map(|stretch| {
                let mut other = Stretch::default();
                for protocol in [Protocol::Tcp, Protocol::Udp] {
                    for (size, n) in stretch.of(protocol) {
                        other.add(protocol, place(rebuilt.between(protocol, *size)), *n);
                    }
                }
                other
            });
            Self::new(stretches.collect())
        };
        (moved(|(least, _)| least), moved(|(_, most)| most))
    }

    /// The stretches of time; each has messages.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Number of messages of a protocol.
    pub fn messages(&self, protocol: Protocol) -> u64 {
        self.stretches
            .iter()
            .flat_map(|one| one.of(protocol).values())
            .sum()
    }

    /// Bytes of user data in them.
    pub fn bytes(&self, protocol: Protocol) -> u64 {
        self.stretches
            .iter()
            .flat_map(|one| one.of(protocol))
            .map(|(size, n)| u64::from(*size) * n)
            .sum()
    }
}

/// Counts the rows of a rebuilt trace.
struct Counting {
    messages: Messages,
    stretch: Stretch,
}

impl Rows for Counting {
    type Error = Infallible;

    fn packet(&mut self, _row: &PacketRow) -> Result<(), Infallible> {
        Ok(())
    }

    fn message(&mut self, row: &MessageRow, ends: &Ends) -> Result<(), Infallible> {
        if self.messages.holds(row.counted) {
            self.stretch.add(ends.protocol, row.size, 1);
        }
        Ok(())
    }

    fn flow(&mut self, _row: &FlowRow) -> Result<(), Infallible> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebuilt::LAN_MESSAGES;

    #[test]
    fn a_rebuilt_trace_is_counted_whole() {
        for messages in Messages::ALL {
            let lan = Traffic::rebuilt(Rebuilt::KayLan, messages);
            let (tcp, udp) = (lan.messages(Protocol::Tcp), lan.messages(Protocol::Udp));
            assert_eq!((tcp, tcp + udp), (13_972, LAN_MESSAGES));
            let large = lan.stretches()[0].of(Protocol::Udp)[&8_192];
            assert_eq!(large, 125_748 - 125_748 * 910 / 1_000);
        }
    }

    #[test]
    fn the_bounds_of_a_rebuilt_trace_hold_it() {
        let lan = Traffic::rebuilt(Rebuilt::KayLan, Messages::Segments);
        let (least, most) = lan.bounds(Rebuilt::KayLan);
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            assert_eq!(least.messages(protocol), lan.messages(protocol));
            assert_eq!(most.messages(protocol), lan.messages(protocol));
            assert!(least.bytes(protocol) < lan.bytes(protocol));
            assert!(most.bytes(protocol) > lan.bytes(protocol));
        }
        // The median stands whatever the sizes on either side of it.
        let small: u64 = most.stretches()[0]
            .of(Protocol::Udp)
            .range(..=128)
            .map(|(_, n)| n)
            .sum();
        assert_eq!(small, 125_748 / 2);
    }

    #[test]
    fn bytes_are_those_of_all_stretches() {
        let mut one = Stretch::default();
        one.add(Protocol::Tcp, 10, 3);
        one.add(Protocol::Tcp, 7, 0);
        let mut other = Stretch::default();
        other.add(Protocol::Udp, 100, 2);
        other.add(Protocol::Tcp, 10, 1);
        let traffic = Traffic::new(vec![one, Stretch::default(), other]);
        assert_eq!(traffic.stretches().len(), 2);
        assert_eq!(traffic.messages(Protocol::Tcp), 4);
        assert_eq!(traffic.bytes(Protocol::Tcp), 40);
        assert_eq!(traffic.bytes(Protocol::Udp), 200);
        assert_eq!(traffic.stretches()[0].of(Protocol::Tcp).len(), 1);
    }
}

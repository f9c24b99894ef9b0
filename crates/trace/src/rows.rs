//! Rows of a capture: packets, messages and flows, in the order in which they are known.
//!
//! This is the schema of a trace, which docs/trace.md describes for people. A change of a field's meaning raises
//! [`VERSION`].

use std::net::IpAddr;

/// The version of the rows, and of the captures' descriptions beside them.
pub const VERSION: u32 = 3;

/// The oldest version that is read. Version 2 has the same rows, and other names in the descriptions.
pub const OLDEST: u32 = 2;

/// The protocols whose messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Protocol {
    /// TCP.
    Tcp = 6,
    /// UDP.
    Udp = 17,
}

impl Protocol {
    /// IANA's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct End {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
}

/// Both ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// End that opened the connection, as its SYN says. Without a SYN it is the end with the higher port, and with
    /// equal ports the sender of the first packet.
    pub client: End,
    /// The other end.
    pub server: End,
}

/// One packet of a flow; of a datagram that came in fragments, the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRow {
    /// When it was captured; nanoseconds since 1970-01-01 UTC.
    pub time_ns: i64,
    /// The flow's number.
    pub flow: u64,
    /// Tells whether the client sent it.
    pub to_server: bool,
    /// Bytes of user data.
    pub size: u32,
    /// The control bits of TCP, 0 for UDP.
    pub flags: u8,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// When its first packet was captured; nanoseconds since 1970-01-01 UTC.
    pub time_ns: i64,
    /// The flow's number.
    pub flow: u64,
    /// Tells whether the client sent it.
    pub to_server: bool,
    /// Bytes of user data, without headers.
    pub size: u32,
    /// Packets that carried it.
    pub packets: u32,
    /// Reason for which it counts as a message.
    pub counted: Counted,
    /// Tells whether all of it had been sent before.
    pub again: bool,
}

/// Definition by which a row is a message. A datagram is one by both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The payload of one segment, which is a part of what the application wrote, or a repetition.
    AsSegment,
    /// Bytes that the application wrote, in more than one segment.
    AsWrite,
    /// Both: what the application wrote fitted into this segment or datagram.
    AsBoth,
}

impl Counted {
    /// Tells whether it is the payload of a segment or datagram.
    pub const fn is_segment(self) -> bool {
        matches!(self, Self::AsSegment | Self::AsBoth)
    }

    /// Tells whether it is what an application wrote.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::AsWrite | Self::AsBoth)
    }
}

/// Traffic of one direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Packets, empty ones as well.
    pub packets: u64,
    /// Bytes of user data in them, repetitions included.
    pub bytes: u64,
    /// Segments with user data, and datagrams.
    pub segments: u64,
    /// Messages as the application wrote them.
    pub writes: u64,
    /// Packets whose user data had all been sent before.
    pub again: u64,
}

/// End of a flow, as far as the capture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both ends sent a FIN.
    Closed,
    /// One end sent a RST.
    Reset,
    /// It was open at the end of the capture, as datagram flows always are.
    Open,
    /// The table was full, and no flow had been silent longer. If it goes on, it does so as another flow.
    Evicted,
}

impl Ending {
    /// The name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::Open => "open",
            Self::Evicted => "evicted",
        }
    }
}

/// One flow, when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRow {
    /// Its number, unique in the trace.
    pub flow: u64,
    /// Both ends.
    pub ends: Ends,
    /// Its first packet; nanoseconds since 1970-01-01 UTC.
    pub first_ns: i64,
    /// Its last packet.
    pub last_ns: i64,
    /// Tells whether its SYN was captured.
    pub opened: bool,
    /// Its end.
    pub ending: Ending,
    /// From the client to the server.
    pub to_server: Carried,
    /// From the server to the client.
    pub to_client: Carried,
}

/// Keeper of the rows.
pub trait Rows {
    /// The reason why a row could not be kept.
    type Error;

    /// Takes a packet.
    ///
    /// # Errors
    /// When it could not be kept; the import ends.
    fn packet(&mut self, row: &PacketRow) -> Result<(), Self::Error>;

    /// Takes a message of the flow between `ends`.
    ///
    /// # Errors
    /// When it could not be kept; the import ends.
    fn message(&mut self, row: &MessageRow, ends: &Ends) -> Result<(), Self::Error>;

    /// Takes a flow that has ended.
    ///
    /// # Errors
    /// When it could not be kept; the import ends.
    fn flow(&mut self, row: &FlowRow) -> Result<(), Self::Error>;
}

/// All rows in memory: for tests and for traces that are small.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InMemory {
    /// The packets.
    pub packets: Vec<PacketRow>,
    /// The messages.
    pub messages: Vec<(MessageRow, Ends)>,
    /// The flows.
    pub flows: Vec<FlowRow>,
}

impl Rows for InMemory {
    type Error = std::convert::Infallible;

    fn packet(&mut self, row: &PacketRow) -> Result<(), Self::Error> {
        self.packets.push(*row);
        Ok(())
    }

    fn message(&mut self, row: &MessageRow, ends: &Ends) -> Result<(), Self::Error> {
        self.messages.push((*row, *ends));
        Ok(())
    }

    fn flow(&mut self, row: &FlowRow) -> Result<(), Self::Error> {
        self.flows.push(*row);
        Ok(())
    }
}

//! The spans of the way, as data.
//!
//! A [`SpanTable`] lists the spans in the order of the way. The spans *on the way* share their gates, the end of one
//! being the beginning of the next, so their times telescope: their sum is the time from the first gate to the last. A
//! span *inside* another lies between that one's gates, and its time is part of it. What the outer span has for itself
//! is its time less that of the spans inside it; so TCP's own share (Wolman's "segment") is `tcp` less `tcp.checksum`.
//! This also holds when a packet passes no checksum gate because checksums are left out: then TCP's own share is the
//! whole.
//!
//! The rows are those of Wolman, Voelker and Thekkath 1994, Tables 2 and 3; the categories those of Kay and Pasquale
//! 1996, section III. A table that has a gap does not compile.

use crate::id::{Gate, Kind, Layer};
use crate::set::GateSet;

#[cfg(feature = "std")]
mod joined;
mod kernel;

pub use kernel::KERNEL;

/// Tells whether a span lies with the sender, with the receiver, or between a message and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From `send()` to the link.
    Tx,
    /// From the link to the return of `recv()`.
    Rx,
    /// From the return of `recv()` to the `send()` of the answer.
    Between,
}

impl Direction {
    /// The name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tx => "transmit",
            Self::Rx => "receive",
            Self::Between => "between",
        }
    }
}

/// A row of Wolman, Voelker and Thekkath 1994, Tables 2 (transmit) and 3 (receive), sums aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WolmanRow {
    /// The system call and the copy between user and kernel.
    User,
    /// TCP: the checksum over data and header.
    Checksum,
    /// TCP: the copy that is kept for retransmission (transmit only).
    Mcopy,
    /// TCP: all the rest of it.
    Segment,
    /// IP.
    Ip,
    /// The driver of the ATM adapter.
    Atm,
    /// Waiting in the IP queue for the software interrupt (receive only).
    Ipq,
    /// Waiting for the reader to run (receive only).
    Wakeup,
}

impl WolmanRow {
    /// The name as the paper prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Checksum => "checksum",
            Self::Mcopy => "mcopy",
            Self::Segment => "segment",
            Self::Ip => "IP",
            Self::Atm => "ATM",
            Self::Ipq => "IPQ",
            Self::Wakeup => "Wakeup",
        }
    }

    /// Tells whether the paper sums the row under "TCP".
    pub const fn is_tcp(self) -> bool {
        matches!(self, Self::Checksum | Self::Mcopy | Self::Segment)
    }

    /// The rows of one direction in the order of the paper's table.
    pub const fn of(direction: Direction) -> &'static [Self] {
        match direction {
            Direction::Tx => &[
                Self::User,
                Self::Checksum,
                Self::Mcopy,
                Self::Segment,
                Self::Ip,
                Self::Atm,
            ],
            Direction::Between => &[],
            Direction::Rx => &[
                Self::Atm,
                Self::Ipq,
                Self::Ip,
                Self::Checksum,
                Self::Segment,
                Self::Wakeup,
                Self::User,
            ],
        }
    }
}

/// A category of Kay and Pasquale 1996, section III.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Computing checksums.
    Checksum,
    /// Moving data between user, kernel and device.
    DataMove,
    /// Handling network data structures: socket buffer, defragmentation queue, device queue.
    DataStruct,
    /// Checking for errors of the user and of the system.
    ErrorChk,
    /// Managing network buffers.
    Mbuf,
    /// Functions of the operating system: sleeping, waking, software interrupts.
    OpSys,
    /// Work that is particular to a protocol and in no other category.
    ProtSpec,
    /// Work that no other category holds.
    Other,
}

impl Category {
    /// Every category, in the order of the paper.
    pub const ALL: [Self; 8] = [
        Self::Checksum,
        Self::DataMove,
        Self::DataStruct,
        Self::ErrorChk,
        Self::Mbuf,
        Self::OpSys,
        Self::ProtSpec,
        Self::Other,
    ];

    /// The name as the paper abbreviates it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Checksum => "Checksum",
            Self::DataMove => "DataMove",
            Self::DataStruct => "DataStruct",
            Self::ErrorChk => "ErrorChk",
            Self::Mbuf => "Mbuf",
            Self::OpSys => "OpSys",
            Self::ProtSpec => "ProtSpec",
            Self::Other => "Other",
        }
    }
}

/// Position of a span in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// It begins where the span before it on the way ends.
    OnTheWay,
    /// It lies between the gates of the nearest span on the way above it in the table.
    Inside,
    /// It runs beside the way, while the message goes on elsewhere: shown, and in no sum.
    Beside,
}

/// The way between two gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The name; one name may occur once in each direction.
    pub name: &'static str,
    /// Sender or receiver.
    pub direction: Direction,
    /// The layer.
    pub layer: Layer,
    /// Work or waiting.
    pub kind: Kind,
    /// The row of Wolman's tables that holds it, if there is one.
    pub wolman: Option<WolmanRow>,
    /// The categories of Kay and Pasquale that it is made of, the foremost first.
    pub kay_pasquale: &'static [Category],
    /// On the way, or inside the span above.
    pub position: Position,
    /// The gate at its beginning.
    pub from: Gate,
    /// The gate at its end.
    pub to: Gate,
}

impl Span {
    /// Its two gates.
    pub const fn gates(&self) -> GateSet {
        GateSet::of(&[self.from, self.to])
    }
}

/// Fault of a table of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanTableError {
    /// There is no span, or the first is inside of nothing.
    NoBeginning,
    /// The span at this index ends at or before its beginning.
    Backwards(usize),
    /// The span at this index is on the way and does not begin where the one before it ends.
    Gap(usize),
    /// The span at this index does not lie inside the span above it, or overlaps its neighbour there.
    Outside(usize),
    /// The span at this index is the sender's and stands after one of the receiver.
    Order(usize),
}

impl core::fmt::Display for SpanTableError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoBeginning => write!(f, "the table does not begin with a span on the way"),
            Self::Backwards(at) => write!(f, "span {at} ends at or before its beginning"),
            Self::Gap(at) => write!(f, "span {at} does not begin where the one before it ends"),
            Self::Outside(at) => write!(f, "span {at} does not lie inside the span above it"),
            Self::Order(at) => write!(f, "span {at} is the sender's, after one of the receiver"),
        }
    }
}

impl core::error::Error for SpanTableError {}

/// Spans without a gap, in the order of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanTable {
    spans: &'static [Span],
}

impl SpanTable {
    /// The table of `spans`.
    ///
    /// # Errors
    ///
    /// When the spans leave a gap, run backwards, or an inner one does not lie in its outer one.
    pub const fn new(spans: &'static [Span]) -> Result<Self, SpanTableError> {
        if spans.is_empty() || !matches!(spans[0].position, Position::OnTheWay) {
            return Err(SpanTableError::NoBeginning);
        }
        let mut outer = &spans[0];
        let mut inner_end = outer.from;
        let mut at = 0;
        while at < spans.len() {
            let span = &spans[at];
            if span.from as u8 >= span.to as u8 {
                return Err(SpanTableError::Backwards(at));
            }
            match span.position {
                Position::OnTheWay => {
                    if at > 0 && span.from as u8 != outer.to as u8 {
                        return Err(SpanTableError::Gap(at));
                    }
                    if (span.direction as u8) < outer.direction as u8 {
                        return Err(SpanTableError::Order(at));
                    }
                    outer = span;
                    inner_end = span.from;
                }
                Position::Inside => {
                    if (span.from as u8) < inner_end as u8
                        || span.to as u8 > outer.to as u8
                        || span.direction as u8 != outer.direction as u8
                    {
                        return Err(SpanTableError::Outside(at));
                    }
                    inner_end = span.to;
                }
                Position::Beside => {}
            }
            at += 1;
        }
        Ok(Self { spans })
    }

    /// The spans, each inner one below its outer one.
    pub const fn spans(self) -> &'static [Span] {
        self.spans
    }

    /// The spans of one direction; none when the table has no such span.
    pub fn only(self, direction: Direction) -> Option<Self> {
        let on_the_way = |span: &&Span| span.position != Position::Beside;
        let begin = self
            .spans
            .iter()
            .take_while(on_the_way)
            .position(|span| span.direction == direction)?;
        let length = self.spans[begin..]
            .iter()
            .take_while(on_the_way)
            .take_while(|span| span.direction == direction)
            .count();
        Some(Self {
            spans: &self.spans[begin..begin + length],
        })
    }

    /// The index of the span that `index` lies inside; none for a span on the way.
    pub fn outer(self, index: usize) -> Option<usize> {
        match self.spans.get(index)?.position {
            Position::OnTheWay | Position::Beside => None,
            Position::Inside => self.spans[..index]
                .iter()
                .rposition(|span| span.position == Position::OnTheWay),
        }
    }

    /// The indices of the spans inside the span at `index`.
    pub fn inner(self, index: usize) -> impl Iterator<Item = usize> {
        (index + 1..self.spans.len()).take_while(move |&below| self.outer(below) == Some(index))
    }

    /// All gates that bound a span.
    pub fn gates(self) -> GateSet {
        self.spans
            .iter()
            .map(Span::gates)
            .fold(GateSet::EMPTY, GateSet::union)
    }
}

/// The spans of Tollgate's stack.
///
/// The order on the receiving side differs from Wolman's: there the driver puts what it received on the IP queue; here
/// the frame waits in the ring until the receiver polls, and then passes driver and IP in one go. `ip.queue` therefore
/// holds the transit of the ring too. There is no row for Wolman's Wakeup, since a receiver that polls is not woken;
/// when it blocks, its wakeup lies in the queue that it slept on.
pub static STACK: SpanTable = match SpanTable::new(&[
    Span {
        name: "socket",
        direction: Direction::Tx,
        layer: Layer::Socket,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::User),
        kay_pasquale: &[Category::DataMove, Category::ErrorChk, Category::OpSys],
        position: Position::OnTheWay,
        from: Gate::SocketOutBegin,
        to: Gate::TcpOutBegin,
    },
    Span {
        name: "tcp",
        direction: Direction::Tx,
        layer: Layer::Tcp,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::Segment),
        kay_pasquale: &[Category::ProtSpec],
        position: Position::OnTheWay,
        from: Gate::TcpOutBegin,
        to: Gate::IpOutBegin,
    },
    Span {
        name: "tcp.checksum",
        direction: Direction::Tx,
        layer: Layer::Tcp,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::Checksum),
        kay_pasquale: &[Category::Checksum],
        position: Position::Inside,
        from: Gate::ChecksumOutBegin,
        to: Gate::ChecksumOutEnd,
    },
    Span {
        name: "ip",
        direction: Direction::Tx,
        layer: Layer::Ip,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::Ip),
        kay_pasquale: &[Category::ProtSpec],
        position: Position::OnTheWay,
        from: Gate::IpOutBegin,
        to: Gate::DeviceQueueIn,
    },
    Span {
        name: "device.queue",
        direction: Direction::Tx,
        layer: Layer::Device,
        kind: Kind::Queueing,
        wolman: None,
        kay_pasquale: &[Category::DataStruct],
        position: Position::OnTheWay,
        from: Gate::DeviceQueueIn,
        to: Gate::DriverOutBegin,
    },
    Span {
        name: "driver",
        direction: Direction::Tx,
        layer: Layer::Driver,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::Atm),
        kay_pasquale: &[Category::DataMove],
        position: Position::OnTheWay,
        from: Gate::DriverOutBegin,
        to: Gate::DriverOutEnd,
    },
    Span {
        name: "ip.queue",
        direction: Direction::Rx,
        layer: Layer::Link,
        kind: Kind::Queueing,
        wolman: Some(WolmanRow::Ipq),
        kay_pasquale: &[Category::OpSys, Category::DataStruct],
        position: Position::OnTheWay,
        from: Gate::DriverOutEnd,
        to: Gate::DriverInBegin,
    },
    Span {
        name: "driver",
        direction: Direction::Rx,
        layer: Layer::Driver,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::Atm),
        kay_pasquale: &[Category::DataMove],
        position: Position::OnTheWay,
        from: Gate::DriverInBegin,
        to: Gate::IpInBegin,
    },
    Span {
        name: "ip",
        direction: Direction::Rx,
        layer: Layer::Ip,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::Ip),
        kay_pasquale: &[Category::ProtSpec],
        position: Position::OnTheWay,
        from: Gate::IpInBegin,
        to: Gate::DemuxBegin,
    },
    Span {
        name: "demux",
        direction: Direction::Rx,
        layer: Layer::Tcp,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::Segment),
        kay_pasquale: &[Category::ProtSpec],
        position: Position::OnTheWay,
        from: Gate::DemuxBegin,
        to: Gate::TcpInBegin,
    },
    Span {
        name: "tcp",
        direction: Direction::Rx,
        layer: Layer::Tcp,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::Segment),
        kay_pasquale: &[Category::ProtSpec],
        position: Position::OnTheWay,
        from: Gate::TcpInBegin,
        to: Gate::SocketQueued,
    },
    Span {
        name: "tcp.checksum",
        direction: Direction::Rx,
        layer: Layer::Tcp,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::Checksum),
        kay_pasquale: &[Category::Checksum],
        position: Position::Inside,
        from: Gate::ChecksumInBegin,
        to: Gate::ChecksumInEnd,
    },
    Span {
        name: "socket.queue",
        direction: Direction::Rx,
        layer: Layer::Socket,
        kind: Kind::Queueing,
        wolman: None,
        kay_pasquale: &[Category::DataStruct],
        position: Position::OnTheWay,
        from: Gate::SocketQueued,
        to: Gate::SocketInBegin,
    },
    Span {
        name: "socket",
        direction: Direction::Rx,
        layer: Layer::Socket,
        kind: Kind::Processing,
        wolman: Some(WolmanRow::User),
        kay_pasquale: &[Category::DataMove, Category::OpSys],
        position: Position::OnTheWay,
        from: Gate::SocketInBegin,
        to: Gate::SocketInEnd,
    },
]) {
    Ok(table) => table,
    Err(_) => panic!("the stack's spans are not contiguous"),
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::vec::Vec;

    const PLAIN: Span = Span {
        name: "a",
        direction: Direction::Tx,
        layer: Layer::Tcp,
        kind: Kind::Processing,
        wolman: None,
        kay_pasquale: &[],
        position: Position::OnTheWay,
        from: Gate::SocketOutBegin,
        to: Gate::IpOutBegin,
    };

    #[test]
    fn the_spans_on_the_way_share_their_gates() {
        let way: Vec<&Span> = STACK
            .spans()
            .iter()
            .filter(|span| span.position == Position::OnTheWay)
            .collect();
        for pair in way.windows(2) {
            assert_eq!(
                pair[0].to, pair[1].from,
                "{} -> {}",
                pair[0].name, pair[1].name
            );
        }
    }

    #[test]
    fn the_table_goes_from_the_first_gate_to_the_last_and_leaves_none_out() {
        assert_eq!(STACK.spans()[0].from, Gate::ALL[0]);
        assert_eq!(
            STACK.spans().last().map(|span| span.to),
            Some(Gate::SocketInEnd)
        );
        // Nobody who polls is woken, and the application's gates are those of the caller.
        let elsewhere = GateSet::of(&[Gate::ReaderRuns, Gate::ApplicationEnd, Gate::SocketOutEnd]);
        assert_eq!(STACK.gates().union(elsewhere), GateSet::ALL);
    }

    #[test]
    fn checksums_lie_inside_tcp() {
        let inner: Vec<(usize, &Span)> = STACK
            .spans()
            .iter()
            .enumerate()
            .filter(|(_, span)| span.position == Position::Inside)
            .collect();
        assert_eq!(inner.len(), 2);
        for (index, span) in inner {
            let outer = STACK.outer(index).unwrap();
            assert_eq!(span.name, "tcp.checksum");
            assert_eq!(STACK.spans()[outer].name, "tcp");
            assert_eq!(STACK.spans()[outer].direction, span.direction);
            assert_eq!(STACK.inner(outer).collect::<Vec<_>>(), [index]);
        }
    }

    #[test]
    fn a_name_occurs_once_in_a_direction() {
        let names: HashSet<_> = STACK
            .spans()
            .iter()
            .map(|span| (span.direction, span.name))
            .collect();
        assert_eq!(names.len(), STACK.spans().len());
    }

    #[test]
    fn every_wolman_row_belongs_to_its_direction() {
        for span in STACK.spans() {
            if let Some(row) = span.wolman {
                assert!(
                    WolmanRow::of(span.direction).contains(&row),
                    "{}",
                    span.name
                );
            }
            assert!(!span.kay_pasquale.is_empty(), "{}", span.name);
        }
    }

    #[test]
    fn directions_split_the_table() {
        let tx = STACK.only(Direction::Tx).unwrap();
        let rx = STACK.only(Direction::Rx).unwrap();
        assert_eq!(tx.spans().len() + rx.spans().len(), STACK.spans().len());
        assert_eq!(SpanTable::new(tx.spans()), Ok(tx));
        assert_eq!(SpanTable::new(rx.spans()), Ok(rx));
        assert_eq!(rx.only(Direction::Tx), None);
    }

    #[test]
    fn a_table_with_a_fault_is_refused() {
        const NONE: &[Span] = &[];
        assert_eq!(SpanTable::new(NONE), Err(SpanTableError::NoBeginning));
        const INSIDE: &[Span] = &[Span {
            position: Position::Inside,
            ..PLAIN
        }];
        assert_eq!(SpanTable::new(INSIDE), Err(SpanTableError::NoBeginning));
        const BACK: &[Span] = &[Span {
            to: Gate::SocketOutBegin,
            ..PLAIN
        }];
        assert_eq!(SpanTable::new(BACK), Err(SpanTableError::Backwards(0)));
        const GAP: &[Span] = &[
            PLAIN,
            Span {
                from: Gate::DeviceQueueIn,
                to: Gate::DriverOutBegin,
                ..PLAIN
            },
        ];
        assert_eq!(SpanTable::new(GAP), Err(SpanTableError::Gap(1)));
        const OUTSIDE: &[Span] = &[
            PLAIN,
            Span {
                position: Position::Inside,
                from: Gate::ChecksumOutEnd,
                to: Gate::DeviceQueueIn,
                ..PLAIN
            },
        ];
        assert_eq!(SpanTable::new(OUTSIDE), Err(SpanTableError::Outside(1)));
        const OVERLAP: &[Span] = &[
            PLAIN,
            Span {
                position: Position::Inside,
                to: Gate::ChecksumOutEnd,
                ..PLAIN
            },
            Span {
                position: Position::Inside,
                from: Gate::ChecksumOutBegin,
                ..PLAIN
            },
        ];
        assert_eq!(SpanTable::new(OVERLAP), Err(SpanTableError::Outside(2)));
        const ORDER: &[Span] = &[
            Span {
                direction: Direction::Rx,
                ..PLAIN
            },
            Span {
                from: Gate::IpOutBegin,
                to: Gate::DeviceQueueIn,
                ..PLAIN
            },
        ];
        assert_eq!(SpanTable::new(ORDER), Err(SpanTableError::Order(1)));
    }
}

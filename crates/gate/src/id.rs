//! The gates and what lies between them.
//!
//! The boundaries are those of Wolman, Voelker and Thekkath 1994, Tables 2 and 3, made finer where today's hooks allow it.

/// The layer that a span belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// The socket interface: the call, the copy between user and stack, and its queue.
    Socket,
    /// TCP proper, its checksum and its demultiplexing.
    Tcp,
    /// IPv4.
    Ip,
    /// The queue between the IP layer and the link.
    Device,
    /// The code that moves frames to and from the link.
    Driver,
    /// The way between the two ends.
    Link,
    /// Waiting for a processor.
    Scheduler,
}

/// Tells whether a span is work or waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A processor works on the packet.
    Processing,
    /// The packet waits.
    Queueing,
}

macro_rules! gates {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A named point that a packet passes. The order is the order of the way from `send()` to the return of `recv()`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Gate { $($(#[$doc])* $name,)* }

        impl Gate {
            /// Every gate, in the order of the way.
            pub const ALL: &'static [Gate] = &[$(Gate::$name,)*];

            /// Tells whether what is sent passes it: from `send()` until the link has taken the frame.
            pub const fn is_of_sender(self) -> bool {
                self as u8 <= Gate::DriverOutEnd as u8
            }

            /// The name as it is written in tables and files.
            pub const fn name(self) -> &'static str {
                match self { $(Gate::$name => $text,)* }
            }
        }
    };
}

gates! {
    /// The application calls `send()`.
    SocketOutBegin = "socket.out.begin",
    /// Payload lies in a pool buffer; TCP output decides what goes out.
    TcpOutBegin = "tcp.out.begin",
    /// The TCP checksum is about to be put together.
    ChecksumOutBegin = "tcp.out.checksum.begin",
    /// The TCP checksum is in the header.
    ChecksumOutEnd = "tcp.out.checksum.end",
    /// The segment goes to IP.
    IpOutBegin = "ip.out.begin",
    /// The frame joins the device queue.
    DeviceQueueIn = "device.queue.in",
    /// The frame leaves the device queue with its burst.
    DriverOutBegin = "driver.out.begin",
    /// The link has taken the frame.
    DriverOutEnd = "driver.out.end",
    /// The receiver asks the link for frames.
    DriverInBegin = "driver.in.begin",
    /// The link has given the frame.
    IpInBegin = "ip.in.begin",
    /// IP has accepted the datagram; the connection is looked up.
    DemuxBegin = "demux.begin",
    /// The connection is found; TCP input begins.
    TcpInBegin = "tcp.in.begin",
    /// The TCP checksum is about to be verified (and the payload copied when a reader has posted its buffer).
    ChecksumInBegin = "tcp.in.checksum.begin",
    /// The TCP checksum is verified.
    ChecksumInEnd = "tcp.in.checksum.end",
    /// The payload is in the socket queue or in the reader's posted buffer.
    SocketQueued = "socket.queue.in",
    /// The reader, which slept, runs again.
    ReaderRuns = "reader.runs",
    /// A reader takes the payload out of the socket queue.
    SocketInBegin = "socket.in.begin",
    /// `recv()` returns to the application.
    SocketInEnd = "socket.in.end",
    /// The application calls `send()` for its answer: the gate that the answer begins with, seen from the message before it.
    ApplicationEnd = "application.end",
    /// `send()` returns to the application. By then the message may have reached its reader.
    SocketOutEnd = "socket.out.end",
}

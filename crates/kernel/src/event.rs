//! Events, which the BPF programs write: one for each passage of a gate.
//!
//! The layout is that of `struct event` in `bpf/gates.bpf.c`.

use tollgate_gate::{Gate, Ticks};

/// A passage as the kernel noted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Event {
    /// CLOCK_MONOTONIC in nanoseconds; 0 in a slot that is not written yet.
    pub ktime: u64,
    /// Source port in the upper half, destination port in the lower one, as on the wire; 0 for a thread.
    pub ports: u32,
    /// Source and destination address, mixed.
    pub addresses: u32,
    /// The sequence number of the first byte; with [`Event::is_up_to`] that behind the last one.
    pub seq: u32,
    /// Bytes of payload; 0 with [`Event::is_up_to`] and where a send begins.
    pub len: u32,
    /// The thread that passed or was running; 0 where it has nothing to do with the packet.
    pub thread: u32,
    /// The processor.
    pub cpu: u16,
    gate: u8,
    flags: u8,
}

const UP_TO: u8 = 2;
const THREAD: u8 = 4;
const ACKNOWLEDGMENT: u8 = 8;

const _: () = assert!(size_of::<Event>() == 32);
// The programs have these numbers by heart.
const _: () = assert!(
    Gate::SocketOutBegin as u8 == 0
        && Gate::TcpOutBegin as u8 == 1
        && Gate::IpOutBegin as u8 == 4
        && Gate::DeviceQueueIn as u8 == 5
        && Gate::DriverOutBegin as u8 == 6
        && Gate::DriverOutEnd as u8 == 7
        && Gate::DriverInBegin as u8 == 8
        && Gate::IpInBegin as u8 == 9
        && Gate::DemuxBegin as u8 == 10
        && Gate::TcpInBegin as u8 == 11
        && Gate::SocketQueued as u8 == 14
        && Gate::ReaderRuns as u8 == 15
        && Gate::SocketInBegin as u8 == 16
        && Gate::SocketInEnd as u8 == 17
        && Gate::SocketOutEnd as u8 == 19
);

/// A connection in one direction, as far as the gates can tell: the ports, and a mix of the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// Source port above destination port.
    pub ports: u32,
    /// Both addresses, mixed.
    pub addresses: u32,
}

impl Flow {
    /// Flow of a stamp that a socket of its own end makes, to or from the port of the far end. Its messages are
    /// numbered, so its bytes are counted from 0 in every slice.
    pub const fn of_socket(far_port: u16, there: bool) -> Self {
        let shift = if there { 0 } else { 16 };
        Self {
            ports: (far_port as u32) << shift,
            addresses: 0,
        }
    }

    /// Tells whether its bytes are counted from 0 in every slice, and not by the connection's sequence numbers.
    pub const fn is_of_socket(self) -> bool {
        self.source() == 0 || self.destination() == 0
    }

    /// The port that it comes from.
    pub const fn source(self) -> u16 {
        (self.ports >> 16) as u16
    }

    /// The port that it goes to.
    pub const fn destination(self) -> u16 {
        self.ports as u16
    }
}

impl Event {
    /// A passage of `gate` at `ktime` by bytes of `flow`.
    pub const fn of_packet(ktime: u64, gate: Gate, flow: Flow, seq: u32, len: u32) -> Self {
        Self {
            ktime,
            ports: flow.ports,
            addresses: flow.addresses,
            seq,
            len,
            thread: 0,
            cpu: 0,
            gate: gate as u8,
            flags: 0,
        }
    }

    /// A passage of `gate` at `ktime` by all bytes of `flow` before `end`.
    pub const fn of_stream(ktime: u64, gate: Gate, flow: Flow, end: u32) -> Self {
        let mut event = Self::of_packet(ktime, gate, flow, end, 0);
        event.flags = UP_TO;
        event
    }

    /// A passage of `gate` at `ktime` by a thread.
    pub const fn of_thread(ktime: u64, gate: Gate, thread: u32) -> Self {
        let nothing = Flow {
            ports: 0,
            addresses: 0,
        };
        let mut event = Self::of_packet(ktime, gate, nothing, 0, 0);
        event.flags = THREAD;
        event.thread = thread;
        event
    }

    /// A passage of `gate` at `ktime` by a segment of `flow` without a byte.
    pub const fn of_acknowledgment(ktime: u64, gate: Gate, flow: Flow, seq: u32) -> Self {
        let mut event = Self::of_packet(ktime, gate, flow, seq, 0);
        event.flags = ACKNOWLEDGMENT;
        event
    }

    /// The event with this thread.
    #[must_use]
    pub const fn by(mut self, thread: u32) -> Self {
        self.thread = thread;
        self
    }

    /// The gate; none for a number that no gate has.
    pub fn gate(&self) -> Option<Gate> {
        Gate::ALL.get(usize::from(self.gate)).copied()
    }

    /// The time.
    pub const fn ticks(&self) -> Ticks {
        Ticks(self.ktime)
    }

    /// The connection; none for a thread.
    pub const fn flow(&self) -> Option<Flow> {
        if self.flags & THREAD == 0 {
            Some(Flow {
                ports: self.ports,
                addresses: self.addresses,
            })
        } else {
            None
        }
    }

    /// Tells whether it stands for all bytes before `seq`.
    pub const fn is_up_to(&self) -> bool {
        self.flags & UP_TO != 0
    }

    /// Tells whether what passed had no byte: it belongs to no message, and took its time at the gate all the same.
    pub const fn is_acknowledgment(&self) -> bool {
        self.flags & ACKNOWLEDGMENT != 0
    }
}

//! The memory that the programs of `bpf/observe.bpf.c` share with us, as in `bpf/observe.h`.
//!
//! Plain values without a method that decides anything; what they mean is in the modules beside this one.

use tollgate_kernel::filter::{Flow, Operation};

/// Processors that have counts.
pub const PROCESSORS: usize = 1024;
/// Bytes that can be followed at once.
pub const PASSAGES: usize = 1024;
/// Gates of a passage.
pub const STAMPS: usize = 14;
/// Spans and sums that have a histogram.
pub const SPANS: usize = 26;
/// Histogram buckets to an octave, as a power of two.
pub const FINEST_BITS: u32 = 6;
/// Buckets of a histogram.
pub const PLACES: usize = (40 - FINEST_BITS as usize + 1) << FINEST_BITS;
/// Operations of a filter.
pub const OPERATIONS: usize = 64;
/// Readers whose next send is waited for.
pub const SERVICES: usize = 256;
/// Processes whose traffic can be asked for.
pub const GROUPS: usize = 16;

/// States of a passage.
pub mod state {
    /// Its place is free.
    pub const FREE: u32 = 0;
    /// From the sender to the receiving socket.
    pub const ON_THE_WAY: u32 = 2;
    /// The reader was told.
    pub const WAITING: u32 = 3;
    /// It is being added up.
    pub const ENDING: u32 = 4;
}

/// Flags of a passage.
pub mod flag {
    /// An end is one whose traffic is asked for.
    pub const WANTED: u32 = 1;
    /// It was not sent within the call that gave it to the socket.
    pub const DEFERRED: u32 = 2;
    /// It was sent again.
    pub const RETRANSMITTED: u32 = 4;
    /// It came by a wire: there is no sender here.
    pub const BY_WIRE: u32 = 8;
    /// The receiving socket was locked, and its owner worked on the segment afterwards.
    pub const BACKLOG: u32 = 16;
    /// Bytes before it were missing.
    pub const DISORDER: u32 = 32;
    /// The reader was running already when it was told.
    pub const READER_RUNNING: u32 = 64;
    /// It went out again after it had come in.
    pub const FORWARDED: u32 = 128;
}

/// Request for an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Settings {
    /// One in so many; 0 takes no new sample.
    pub every: u32,
    /// For how many messages a sample stands that begins before `until`; a later one stands for `every`.
    pub weight: u32,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub until: u64,
    /// Operations of the filter.
    pub operations: u32,
    /// Tells whether only these processes.
    pub by_group: u32,
    /// Tells whether only the control groups in the map.
    pub by_cgroup: u32,
    /// Only this interface; 0 is any.
    pub interface: u32,
    /// The network namespace that the wires are in.
    pub namespace: u32,
    /// Tells whether there is a gate before IP on the way out.
    pub has_ip_out: u32,
    /// Tells whether there is a gate behind IP on the way in.
    pub has_demux: u32,
    /// Cost of a gate beyond the time in its program, in nanoseconds.
    pub call: u32,
    /// Tells whether a program runs when a driver returns.
    pub has_driver_end: u32,
    /// Tells whether programs run at the entry and the exit of system calls.
    pub has_calls: u32,
    /// Passages that take at least so many nanoseconds are written out; 0 is none.
    pub slower_than: u64,
    /// Processes.
    pub groups: [u32; GROUPS],
    /// The filter.
    pub operation: [Operation; OPERATIONS],
}

impl Default for Settings {
    /// Nothing is sampled, and nobody is left out.
    fn default() -> Self {
        Self {
            every: 0,
            weight: 0,
            until: 0,
            operations: 0,
            by_group: 0,
            by_cgroup: 0,
            interface: 0,
            namespace: 0,
            has_ip_out: 0,
            has_demux: 0,
            call: 0,
            has_driver_end: 0,
            has_calls: 0,
            slower_than: 0,
            groups: [0; GROUPS],
            operation: [Operation::default(); OPERATIONS],
        }
    }
}

/// Counts of samples. Each grows for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs, reason = "each is what `super::Counts` says of it")]
pub struct Totals {
    pub begun: u64,
    pub skipped: u64,
    pub finished: u64,
    pub left: u64,
    pub unwanted: u64,
    pub holes: u64,
    pub backwards: u64,
    pub slow: u64,
    pub slow_lost: u64,
    pub flows_lost: u64,
    pub ipv6: u64,
    pub backlog: u64,
    pub deferred: u64,
    pub retransmitted: u64,
    pub disorder: u64,
    pub forwarded: u64,
    pub shared: u64,
    pub gso: u64,
    pub gro: u64,
    pub taken: u64,
    pub spent: u64,
    pub shorter: u64,
    pub unseen: u64,
    pub passed_on: u64,
}

/// Counts that TCP keeps of a socket by itself; they wrap round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TcpCounts {
    /// Segments received.
    pub segments_in: u32,
    /// Those with payload.
    pub data_in: u32,
    /// Segments sent.
    pub segments_out: u32,
    /// Those with payload.
    pub data_out: u32,
    /// Segments sent again.
    pub retransmitted: u32,
}

/// A thread and its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Thread {
    /// The thread.
    pub thread: u32,
    /// The process.
    pub group: u32,
}

/// A byte on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Passage {
    /// One of [`state`].
    pub state: u32,
    /// Both addresses, mixed.
    pub mixed: u32,
    /// The connection.
    pub flow: Flow,
    /// The byte.
    pub seq: u32,
    /// For how many it stands.
    pub weight: u32,
    /// The network namespace that it is in.
    pub net: u32,
    /// CLOCK_MONOTONIC in nanoseconds at each gate; 0 where it was not seen.
    pub at: [u64; STAMPS],
    /// Nanoseconds from each gate on that the gate took.
    pub cost: [u32; STAMPS],
    /// Thread that sent it; 0 when it came by a wire.
    pub sender: Thread,
    /// Thread that read it; 0 when it left by a wire.
    pub reader: Thread,
    /// The sender's name.
    pub sender_name: [u8; 16],
    /// The reader's name.
    pub reader_name: [u8; 16],
    /// Of [`flag`].
    pub flags: u32,
    /// Bytes that the sending call had left.
    pub message: u32,
    /// The processor where the reader was told.
    pub ready_cpu: u32,
    /// Programs that had run there at the entry and the exit of system calls.
    pub ready_calls: u32,
    /// Payload of the segment that it went out with.
    pub sent: u32,
    /// Payload of the segment that it came in with.
    pub received: u32,
    /// The interface that it went out or came in by.
    pub interface: u32,
    /// Segments of the super-packet that it went out with; 0 or 1 for one.
    pub gso_out: u16,
    /// Segments of the super-packet that it came in with; 0 or 1 for one.
    pub gso_in: u16,
    /// Nanoseconds that the programs at system calls took of the wait for the reader.
    pub waited: u32,
    /// The sender's socket.
    pub counted_out: TcpCounts,
    /// The receiver's socket.
    pub counted_in: TcpCounts,
}

/// State of a processor.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Processor {
    /// Pieces that were copied into sockets.
    pub sent: u64,
    /// Segments that came in by wires.
    pub arrived: u64,
    /// When the thread that runs began to.
    pub since: u64,
    returned: u64,
    called: u64,
    calls: [u32; 4],
    driving: u64,
    driven: u64,
    driven_at: u64,
    /// Messages that passed, whether asked for or not.
    pub messages: u64,
    pad: [u64; 5],
}

/// A histogram: 64 buckets to an octave.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawHistogram {
    /// Samples.
    pub samples: u64,
    /// For how many they stand.
    pub weight: u64,
    /// Nanoseconds, each as often as its sample counts; negative where more was taken off than there was.
    pub sum: i64,
    /// Nanoseconds of the gates that were taken off, each as often as its sample counts.
    pub taken: u64,
    /// Weights by bucket.
    pub place: [u64; PLACES],
}

/// Time of a connection's samples, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Usage {
    /// Samples.
    pub samples: u64,
    /// For how many they stand.
    pub weight: u64,
    /// Nanoseconds at the sender, each as often as its sample counts.
    pub processing_out: i64,
    /// Nanoseconds of waiting at the sender.
    pub queueing_out: i64,
    /// Nanoseconds at the receiver.
    pub processing_in: i64,
    /// Nanoseconds of waiting at the receiver.
    pub queueing_in: i64,
    /// Slow passages.
    pub slow: u64,
    /// Thread that sent last.
    pub sender: Thread,
    /// Thread that read last.
    pub reader: Thread,
    /// The sender's name.
    pub sender_name: [u8; 16],
    /// The reader's name.
    pub reader_name: [u8; 16],
    /// The network namespace of its other end.
    pub remote_net: u32,
    /// The sender's socket at the first sample.
    pub first_out: TcpCounts,
    /// The sender's socket at the last sample.
    pub last_out: TcpCounts,
    /// The receiver's socket at the first sample.
    pub first_in: TcpCounts,
    /// The receiver's socket at the last sample.
    pub last_in: TcpCounts,
    /// When the last ones were.
    pub last_at: [u64; 2],
}

/// A reader that was followed to and has not sent since; `since` is 0 where there is none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Service {
    way: [u32; 2],
    thread: u32,
    weight: u32,
    since: u64,
}

/// Number of bytes that are followed.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Followed {
    /// From the sender to the receiving socket.
    pub on_the_way: u32,
    /// Bytes until the reader has them.
    pub waiting: u32,
    pad: [u64; 7],
}

// The sizes that clang gives them.
const _: () = assert!(size_of::<Flow>() == 44);
const _: () = assert!(size_of::<Operation>() == 48);
const _: () = assert!(size_of::<Settings>() == 64 + 4 * GROUPS + OPERATIONS * 48);
const _: () = assert!(size_of::<Totals>() == 24 * 8);
const _: () = assert!(size_of::<Passage>() == 360);
const _: () = assert!(size_of::<Processor>() == 128);
const _: () = assert!(size_of::<RawHistogram>() == 32 + 8 * PLACES);
const _: () = assert!(size_of::<Usage>() == 208);
const _: () = assert!(size_of::<Service>() == 24);
const _: () = assert!(size_of::<Followed>() == 64);

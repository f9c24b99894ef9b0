//! Observations by `tollgate observe` of traffic that is there, as numbers for people and programs.
//!
//! It owns the JSON of an observation; [`SCHEMA`] has its version. It must never compute a time.

use serde::Serialize;

/// Name and version of the JSON; a field that goes or changes its meaning raises the version.
pub const SCHEMA: (&str, u32) = ("tollgate-observe", 5);

/// Observations between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observation {
    /// "tollgate-observe".
    pub schema: &'static str,
    /// 5.
    pub version: u32,
    /// Seconds since the gates were live, at the first reading.
    pub from_s: f64,
    /// Seconds since the gates were live, at the second reading.
    pub to_s: f64,
    /// Seconds of it with the gates on.
    pub on_s: f64,
    /// At the end 1 in so many was sampled; 0 before the first choice.
    pub one_in: u32,
    /// Pieces that were copied into sockets while the gates were on, sampled or not.
    pub sends: u64,
    /// Segments with payload that came in by wires while the gates were on, sampled or not.
    pub arrivals: u64,
    /// The spans on the way that were passed, in its order.
    pub spans: Vec<Row>,
    /// Sums of spans.
    pub sums: Vec<Row>,
    /// Cost of the gates to the messages.
    pub gates: Gates,
    /// Samples by their fate, and how they went.
    pub samples: Samples,
    /// The sockets that cost the most processing, first those that cost most.
    pub sockets: Vec<Socket>,
    /// Sockets beyond those.
    pub more_sockets: usize,
    /// The pairs of processes whose connections cost the most processing, first those that cost most; of all sockets.
    pub pairs: Vec<ProcessPair>,
    /// Pairs beyond those.
    pub more_pairs: usize,
    /// Slow passages, the slowest first.
    pub slow: Vec<Slow>,
    /// Boundaries without a hook, and why.
    pub unresolved: Vec<String>,
}

impl Observation {
    /// The sum of this name.
    pub fn sum(&self, name: &str) -> Option<&Row> {
        self.sums.iter().find(|row| row.name == name)
    }
}

/// Cost of the gates to the messages. The part within a span is not in the span's time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gates {
    /// Nanoseconds that were taken off a sample's way, in the mean.
    pub taken_off_ns: f64,
    /// Spans that were shorter than what was to be taken off; they count as negative, so that means are right.
    pub shorter: u64,
    /// Nanoseconds that they cost a sample in all, in the mean: before its way and behind it, too.
    pub followed_ns: f64,
    /// Nanoseconds that they cost a message that is not sampled; measured on messages of our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_sampled_ns: Option<f64>,
    /// Of what they cost a sample, the nanoseconds for each gate that lie outside of its program; measured on messages of our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ns: Option<f64>,
    /// The 95 % interval of `call_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_interval_ns: Option<[f64; 2]>,
    /// Rounds of messages of our own that these are the medians of; further ones are made while it is observed.
    pub rounds: u64,
    /// The reason why these could not be measured; then they are missing, and what lies outside of the programs is not taken off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

/// Samples by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Samples {
    /// Begun.
    pub begun: u64,
    /// Followed to the reader.
    pub read: u64,
    /// Followed until they left by a wire.
    pub left_by_wire: u64,
    /// Of processes, control groups or interfaces that the options leave out.
    pub filtered_out: u64,
    /// Went on by a wire after they had come in: through a bridge or a router of this host; in no row.
    pub passed_on: u64,
    /// Never seen where they were expected: within ten seconds, or until what follows them was read.
    pub vanished: u64,
    /// Still on the way when a window of observation ended.
    pub cut: u64,
    /// Still waiting for their reader when a window of observation ended.
    pub unread: u64,
    /// Followed at the second reading.
    pub under_way: u64,
    /// Not begun since too many of their flows were followed already.
    pub skipped: u64,
    /// Runs of gates that the kernel left out.
    pub missed: u64,
    /// Lacked a gate: in the sums, and not in the rows on both sides of it.
    pub with_a_hole: u64,
    /// Spans whose end was noted before their beginning; in no row.
    pub backwards: u64,
    /// IPv6.
    pub ipv6: u64,
    /// Went out in a GSO super-packet.
    pub gso: u64,
    /// Came in in a super-packet (GRO, or GSO that was never split).
    pub gro: u64,
    /// Came in with other messages in one segment.
    pub shared: u64,
    /// Were not sent within the call that gave them to the socket.
    pub deferred: u64,
    /// Came while the receiver held its socket, which worked on them afterwards.
    pub backlog: u64,
    /// Were sent again.
    pub retransmitted: u64,
    /// Came before bytes that lie before them.
    pub out_of_order: u64,
    /// Went through a bridge or a router of this host.
    pub forwarded: u64,
    /// Slow ones.
    pub slow: u64,
    /// Slow ones that found no room to be listed.
    pub slow_lost: u64,
    /// Of connections beyond those that there was room for; in the rows, and in no socket.
    pub flows_lost: u64,
    /// Pure acknowledgments that the observed sockets received meanwhile, by TCP's own count; they are not sampled.
    pub pure_acks: u64,
    /// Segments with payload that the observed sockets received meanwhile, by TCP's own count.
    pub data_segments: u64,
}

impl Samples {
    /// The share of samples that were followed to their end, of those that had the time for it.
    pub fn joined(&self) -> Option<f64> {
        let ended = self.read + self.left_by_wire;
        let all = ended + self.vanished + self.cut;
        (all > 0).then(|| ended as f64 / all as f64)
    }

    /// The share of drawn samples that are in no row since they took too long or found no room.
    #[must_use]
    pub fn left_out(&self) -> f64 {
        let drawn = self.begun + self.skipped;
        (self.cut + self.unread + self.skipped) as f64 / drawn.max(1) as f64
    }
}

/// Cost of one end of a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Socket {
    /// This end.
    pub local: String,
    /// The other.
    pub remote: String,
    /// The network namespace of this end, as the number of its file.
    pub namespace: u32,
    /// Its process as last seen; 0 when it was not seen.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Samples.
    pub n: u64,
    /// For how many they stand.
    pub stands_for: u64,
    /// Nanoseconds of processing at its end, by estimate.
    pub processing_ns: i64,
    /// Nanoseconds of waiting at its end, by estimate.
    pub queueing_ns: i64,
    /// Slow passages among those that it received or sent.
    pub slow: u64,
    /// Segments sent again, by TCP's own count between its first sample and its last.
    pub retransmitted: u32,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// The connections between two processes, or between a process and a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessPair {
    /// The process at the end at which messages wait longer; missing where it was not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<Process>,
    /// Its address and port, with a star for what differs between the connections.
    pub waited_for_at: String,
    /// The process at the other end; missing where it was not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Process>,
    /// Its address and port, with a star for what differs between the connections.
    pub other_at: String,
    /// Connections.
    pub connections: u64,
    /// Samples.
    pub n: u64,
    /// Nanoseconds of processing at both ends, by estimate.
    pub processing_ns: i64,
    /// Nanoseconds of waiting at both ends, by estimate.
    pub queueing_ns: i64,
    /// Slow passages.
    pub slow: u64,
    /// Segments sent again, by TCP's own count between the first sample of each connection and its last.
    pub retransmitted: u64,
}

/// A passage, whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slow {
    /// Seconds since the gates were live, at its first gate.
    pub at_s: f64,
    /// The source.
    pub source: String,
    /// The destination.
    pub destination: String,
    /// The sender's process, 0 when it came by a wire.
    pub sender_pid: u32,
    /// Its name.
    pub sender: String,
    /// The reader's process, 0 when it left by a wire.
    pub reader_pid: u32,
    /// Its name.
    pub reader: String,
    /// From its first gate to its last.
    pub total_ns: i64,
    /// The span that took the most of it.
    pub worst: &'static str,
    /// Each span: name, kind, nanoseconds; negative where more was taken off than there was.
    pub spans: Vec<(&'static str, &'static str, i64)>,
    /// Payload of the segment that it went out with.
    pub segment_bytes: u32,
}

/// A span's times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// "transmit" or "receive"; missing for sums of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<&'static str>,
    /// "processing", "queueing", or "application" for the reader's own code; missing for sums of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// Samples.
    pub n: u64,
    /// For how many they stand.
    pub stands_for: u64,
    /// Nanoseconds; the mean of a short span may come out below 0, since what is taken off it has an error.
    pub mean_ns: f64,
    /// Nanoseconds; a percentile below 0 is 0.
    pub p50_ns: f64,
    /// Nanoseconds.
    pub p99_ns: f64,
    /// Nanoseconds.
    pub p999_ns: f64,
    /// The 95 % interval of the mean, in nanoseconds: of the sampling, and of what the calls of gates were measured to cost. It
    /// reaches below 0 where the span is too short to be told from 0. Missing where all samples came at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<[f64; 2]>,
    /// Nanoseconds of the gates that were taken off, in the mean.
    pub taken_off_ns: f64,
    /// Tells whether that was more than a third of the time between the gates at both ends.
    pub marked: bool,
    /// Of the time of all spans on the way; missing for sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

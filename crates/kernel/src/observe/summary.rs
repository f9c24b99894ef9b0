//! What was counted, as numbers for people and programs: a row for each span, the costs of connections, slow passages whole.
//!
//! Pure: two readings in, one observation out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use super::memory::{Flow, Passage, STAMPS, TcpCounts, Totals, Usage, flag};
use super::rows::{ON_THE_WAY, Row, rows};
use super::{Choice, Raw};

/// Name and version of the JSON; a field that goes or changes its meaning raises the version.
pub const SCHEMA: (&str, u32) = ("tollgate-observe", 3);

/// What was observed between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observation {
    /// "tollgate-observe".
    pub schema: &'static str,
    /// 3.
    pub version: u32,
    /// Seconds since the gates were live, at the first and at the second reading.
    pub from_s: f64,
    /// The same at the second reading.
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
    /// What the gates cost the messages.
    pub gates: Gates,
    /// What became of the samples, and how they went.
    pub samples: Samples,
    /// The sockets that cost the most processing, first those that cost most.
    pub sockets: Vec<Socket>,
    /// Sockets beyond those.
    pub more_sockets: usize,
    /// Slow passages, the slowest first.
    pub slow: Vec<Slow>,
    /// Boundaries without a hook, and why.
    pub unresolved: Vec<String>,
}

/// What the gates cost the messages. What of it lies within a span is not in the span's time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gates {
    /// Nanoseconds that were taken off a sample's way, in the mean.
    pub taken_off_ns: f64,
    /// Spans that were shorter than what was to be taken off; they count as 0 ns.
    pub shorter: u64,
    /// Nanoseconds that they cost a sample in all, in the mean: before its way and behind it, too.
    pub followed_ns: f64,
    /// Nanoseconds that they cost a message that they let go; measured on messages of our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub let_go_ns: Option<f64>,
    /// Of what they cost a sample, the nanoseconds for each gate that lie outside of its program; measured on messages of our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ns: Option<f64>,
    /// The 95 % interval of `call_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_interval_ns: Option<[f64; 2]>,
    /// Rounds of messages of our own that these are the medians of; further ones are made while it is observed.
    pub rounds: u64,
    /// Why these could not be measured; then they are missing, and what lies outside of the programs is not taken off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

impl Gates {
    fn between(before: Option<&Raw>, after: &Raw, choice: &Choice) -> Self {
        let of = |count: fn(&Totals) -> u64| {
            count(&after.totals) - before.map_or(0, |raw| count(&raw.totals))
        };
        let cost = after.cost.as_ref().ok();
        let in_rows = of(|totals| totals.finished + totals.left);
        let over = in_rows + of(|totals| totals.unwanted);
        // These calls are in nothing that the programs tell of.
        let beside = choice.calls_beside_the_way() as f64;
        let beside = cost.map_or(0.0, |cost| beside * cost.call.value);
        Self {
            taken_off_ns: of(|totals| totals.taken) as f64 / in_rows.max(1) as f64,
            shorter: of(|totals| totals.shorter),
            followed_ns: match over {
                0 => 0.0,
                over => of(|totals| totals.spent) as f64 / over as f64 + beside,
            },
            let_go_ns: cost.map(|cost| cost.let_go.value),
            call_ns: cost.map(|cost| cost.call.value),
            call_interval_ns: cost.map(|cost| [cost.call.interval.low, cost.call.interval.high]),
            rounds: cost.map_or(0, |cost| cost.call.n),
            not_measured: after.cost.as_ref().err().cloned(),
        }
    }
}

/// What became of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Samples {
    /// Begun.
    pub begun: u64,
    /// Followed to the reader.
    pub read: u64,
    /// Followed until they left by a wire.
    pub left_by_wire: u64,
    /// Of other processes, control groups or interfaces than asked for.
    pub not_asked_for: u64,
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
    pub fn left_out(&self) -> f64 {
        let drawn = self.begun + self.skipped;
        (self.cut + self.unread + self.skipped) as f64 / drawn.max(1) as f64
    }
}

/// What one end of a connection cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Socket {
    /// This end.
    pub local: String,
    /// The other.
    pub remote: String,
    /// Its process as last seen; 0 when it was not seen.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Samples.
    pub n: u64,
    /// For how many they stand.
    pub stands_for: u64,
    /// Nanoseconds of processing at its end, by estimate.
    pub processing_ns: u64,
    /// Nanoseconds of waiting at its end, by estimate.
    pub queueing_ns: u64,
    /// Slow passages among those that it received or sent.
    pub slow: u64,
    /// Segments sent again, by TCP's own count between its first sample and its last.
    pub retransmitted: u32,
}

/// A passage, whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slow {
    /// Seconds since the gates were live, at its first gate.
    pub at_s: f64,
    /// Where it comes from.
    pub source: String,
    /// Where it goes to.
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
    pub total_ns: u64,
    /// The span that took the most of it.
    pub worst: &'static str,
    /// Each span: name, kind, nanoseconds.
    pub spans: Vec<(&'static str, &'static str, u64)>,
    /// Payload of the segment that it went out with.
    pub segment_bytes: u32,
}

/// Connections listed, unless told otherwise.
pub const SOCKETS: usize = 10;
/// Slow passages listed whole, at most.
pub const SLOW: usize = 20;

impl Observation {
    /// What lies between two readings; without the first, all since the beginning. At most `most` sockets are listed.
    pub fn between(before: Option<&Raw>, after: &Raw, choice: &Choice, most: usize) -> Self {
        let mut rows = rows(before, after, choice).into_iter();
        let mut spans: Vec<Row> = rows.by_ref().take(ON_THE_WAY).flatten().collect();
        let all: f64 = spans
            .iter()
            .map(|row| row.mean_ns * row.stands_for as f64)
            .sum();
        for row in &mut spans {
            row.share = Some(row.mean_ns * row.stands_for as f64 / all.max(1.0));
        }
        let sums = rows.flatten().collect();
        let nothing = HashMap::new();
        let flows = before.map_or(&nothing, |raw| &raw.flows);
        let mut sockets = sockets(flows, &after.flows);
        let more_sockets = sockets.len().saturating_sub(most);
        sockets.truncate(most);
        let mut slow: Vec<Slow> = after.slow.iter().map(|one| Slow::of(one, after)).collect();
        slow.sort_by_key(|one| std::cmp::Reverse(one.total_ns));
        slow.truncate(SLOW);
        let start = |of: &dyn Fn(&Raw) -> f64| before.map_or(0.0, of);
        Self {
            schema: SCHEMA.0,
            version: SCHEMA.1,
            from_s: start(&|raw| raw.at.as_secs_f64()),
            to_s: after.at.as_secs_f64(),
            on_s: after.on.as_secs_f64() - start(&|raw| raw.on.as_secs_f64()),
            one_in: after.every,
            sends: after.sent - before.map_or(0, |raw| raw.sent),
            arrivals: after.arrived - before.map_or(0, |raw| raw.arrived),
            spans,
            sums,
            gates: Gates::between(before, after, choice),
            samples: samples(before, after),
            sockets,
            more_sockets,
            slow,
            unresolved: choice
                .missing
                .iter()
                .map(|(hook, reason)| format!("{} ({}): {reason}", hook.boundary, hook.name))
                .collect(),
        }
    }

    /// The sum of this name.
    pub fn sum(&self, name: &str) -> Option<&Row> {
        self.sums.iter().find(|row| row.name == name)
    }
}

fn samples(before: Option<&Raw>, after: &Raw) -> Samples {
    let of = |count: fn(&Totals) -> u64| {
        count(&after.totals) - before.map_or(0, |raw| count(&raw.totals))
    };
    let raw = |count: fn(&Raw) -> u64| count(after) - before.map_or(0, count);
    let (mut pure_acks, mut data_segments) = (0, 0);
    for (flow, usage) in &after.flows {
        let earlier = before.and_then(|raw| raw.flows.get(flow));
        let from = earlier.map_or(usage.first_in, |one| one.last_in);
        let (all, data) = received(from, usage.last_in);
        // The sender's socket receives what acknowledges; where both directions carry data both sockets are seen twice.
        let from = earlier.map_or(usage.first_out, |one| one.last_out);
        let (all_out, data_out) = received(from, usage.last_out);
        if !after.flows.contains_key(&flow.turned()) {
            pure_acks += u64::from(all_out - data_out.min(all_out));
        }
        pure_acks += u64::from(all - data.min(all));
        data_segments += u64::from(data);
    }
    Samples {
        begun: of(|totals| totals.begun),
        read: of(|totals| totals.finished),
        left_by_wire: of(|totals| totals.left),
        not_asked_for: of(|totals| totals.unwanted),
        vanished: raw(|raw| raw.vanished) + of(|totals| totals.unseen),
        cut: raw(|raw| raw.cut),
        unread: raw(|raw| raw.unread),
        under_way: after.waiting.len() as u64,
        skipped: of(|totals| totals.skipped),
        missed: raw(|raw| raw.missed),
        with_a_hole: of(|totals| totals.holes),
        backwards: of(|totals| totals.backwards),
        ipv6: of(|totals| totals.ipv6),
        gso: of(|totals| totals.gso),
        gro: of(|totals| totals.gro),
        shared: of(|totals| totals.shared),
        deferred: of(|totals| totals.deferred),
        backlog: of(|totals| totals.backlog),
        retransmitted: of(|totals| totals.retransmitted),
        out_of_order: of(|totals| totals.disorder),
        forwarded: of(|totals| totals.forwarded),
        slow: of(|totals| totals.slow),
        slow_lost: of(|totals| totals.slow_lost),
        flows_lost: of(|totals| totals.flows_lost),
        pure_acks,
        data_segments,
    }
}

/// Segments received, and those with payload, between two counts of one socket.
fn received(from: TcpCounts, to: TcpCounts) -> (u32, u32) {
    (
        to.segments_in.wrapping_sub(from.segments_in),
        to.data_in.wrapping_sub(from.data_in),
    )
}

impl Flow {
    /// The other direction.
    pub const fn turned(&self) -> Self {
        Self {
            ports: self.ports.rotate_left(16),
            family: self.family,
            source: self.destination,
            destination: self.source,
        }
    }

    fn end(&self, words: [[u8; 4]; 4], port: u32) -> String {
        let address: IpAddr = if self.family == 6 {
            let mut octets = [0; 16];
            octets.copy_from_slice(words.as_flattened());
            Ipv6Addr::from(octets).into()
        } else {
            Ipv4Addr::from(words[0]).into()
        };
        std::net::SocketAddr::new(address, port as u16).to_string()
    }

    /// Where it comes from, as ADDRESS:PORT.
    pub fn from(&self) -> String {
        self.end(self.source, self.ports >> 16)
    }

    /// Where it goes to, as ADDRESS:PORT.
    pub fn to(&self) -> String {
        self.end(self.destination, self.ports & 0xffff)
    }
}

fn name(bytes: [u8; 16]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(16);
    String::from_utf8_lossy(&bytes[..end])
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// Both directions of each end, put together; the dearest first.
fn sockets(before: &HashMap<Flow, Usage>, after: &HashMap<Flow, Usage>) -> Vec<Socket> {
    let mut ends: HashMap<Flow, Socket> = HashMap::new();
    for (flow, usage) in after {
        let none = Usage::default();
        let old = before.get(flow).unwrap_or(&none);
        let n = usage.samples - old.samples;
        if n == 0 {
            continue;
        }
        // An end is known by the direction that it sends in.
        let sides = [
            (
                *flow,
                usage.sender,
                usage.sender_name,
                usage.processing_out - old.processing_out,
                usage.queueing_out - old.queueing_out,
            ),
            (
                flow.turned(),
                usage.reader,
                usage.reader_name,
                usage.processing_in - old.processing_in,
                usage.queueing_in - old.queueing_in,
            ),
        ];
        let again = usage
            .last_out
            .retransmitted
            .wrapping_sub(usage.first_out.retransmitted);
        for (at, (end, thread, process, processing_ns, queueing_ns)) in
            sides.into_iter().enumerate()
        {
            if processing_ns == 0 && queueing_ns == 0 {
                continue;
            }
            let socket = ends.entry(end).or_insert_with(|| Socket {
                local: end.from(),
                remote: end.to(),
                pid: 0,
                process: String::new(),
                n: 0,
                stands_for: 0,
                processing_ns: 0,
                queueing_ns: 0,
                slow: 0,
                retransmitted: 0,
            });
            if thread.group != 0 {
                socket.pid = thread.group;
                socket.process = name(process);
            }
            socket.n += n;
            socket.stands_for += usage.weight - old.weight;
            socket.processing_ns += processing_ns;
            socket.queueing_ns += queueing_ns;
            socket.slow += usage.slow - old.slow;
            socket.retransmitted += if at == 0 { again } else { 0 };
        }
    }
    let mut sockets: Vec<Socket> = ends.into_values().collect();
    sockets.sort_by(|one, other| {
        other
            .processing_ns
            .cmp(&one.processing_ns)
            .then_with(|| one.local.cmp(&other.local))
    });
    sockets
}

impl Slow {
    fn of(passage: &Passage, raw: &Raw) -> Self {
        let spans = spans(passage);
        let first = passage
            .at
            .iter()
            .copied()
            .filter(|&at| at > 0)
            .min()
            .unwrap_or(0);
        let worst = spans
            .iter()
            .max_by_key(|span| span.2)
            .map_or("", |span| span.0);
        let begun = raw.now.saturating_sub(raw.at.as_nanos() as u64);
        Self {
            at_s: first.saturating_sub(begun) as f64 / 1e9,
            source: passage.flow.from(),
            destination: passage.flow.to(),
            sender_pid: passage.sender.group,
            sender: name(passage.sender_name),
            reader_pid: passage.reader.group,
            reader: name(passage.reader_name),
            total_ns: spans.iter().map(|span| span.2).sum(),
            worst,
            spans,
            segment_bytes: passage.sent.max(passage.received),
        }
    }
}

/// The gate at which a reader calls the kernel for what it copies.
const CALLED: usize = 11;

/// The spans of a passage between the gates that it was seen at, each named after the gate that it ends with.
fn spans(passage: &Passage) -> Vec<(&'static str, &'static str, u64)> {
    let has = |flag| passage.flags & flag != 0;
    let begins = if has(flag::RETRANSMITTED) {
        ("retransmission", "queueing")
    } else if has(flag::DEFERRED) {
        ("send.queue", "queueing")
    } else {
        ("tcp", "processing")
    };
    let names: [(&str, &str); STAMPS] = [
        ("", ""),
        begins,
        if passage.at[1] > 0 {
            ("ip", "processing")
        } else {
            begins
        },
        ("device.queue", "queueing"),
        ("driver", "processing"),
        ("ip.queue", "queueing"),
        ("ip", "processing"),
        if has(flag::BACKLOG) {
            ("backlog", "queueing")
        } else {
            ("demux", "processing")
        },
        if has(flag::DISORDER) {
            ("out.of.order", "queueing")
        } else {
            ("tcp", "processing")
        },
        ("wakeup", "queueing"),
        ("resume", "processing"),
        if has(flag::AWAKE) {
            ("socket.queue", "queueing")
        } else {
            ("application", "application")
        },
        if passage.at[CALLED] > 0 {
            ("syscall", "processing")
        } else if has(flag::AWAKE) {
            ("socket.queue", "queueing")
        } else {
            ("resume", "processing")
        },
        ("socket", "processing"),
    ];
    let mut spans = Vec::new();
    let (mut before, mut cost) = (0, 0);
    for (gate, &at) in passage.at.iter().enumerate().filter(|(_, at)| **at > 0) {
        if before > 0 {
            let ns = at.saturating_sub(before).saturating_sub(cost);
            spans.push((names[gate].0, names[gate].1, ns));
        }
        (before, cost) = (at, u64::from(passage.cost[gate]));
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_passage_names_what_made_it_slow() {
        let mut passage = Passage {
            flags: flag::AWAKE | flag::BACKLOG,
            ..Passage::default()
        };
        for (gate, at) in [
            (0, 100),
            (1, 200),
            (2, 250),
            (5, 300),
            (7, 900),
            (8, 950),
            (12, 5_000),
            (13, 5_100),
        ] {
            passage.at[gate] = at;
        }
        let spans = spans(&passage);
        assert_eq!(spans.iter().map(|span| span.2).sum::<u64>(), 5_000);
        assert!(spans.contains(&("backlog", "queueing", 600)));
        assert_eq!(
            spans.iter().max_by_key(|span| span.2),
            Some(&("socket.queue", "queueing", 4_050))
        );
    }

    #[test]
    fn what_gates_took_is_in_no_span_of_a_slow_passage() {
        let mut passage = Passage::default();
        for (gate, at, cost) in [
            (0, 1_000, 130),
            (2, 3_000, 400),
            (3, 3_300, 250),
            (4, 5_000, 9),
        ] {
            passage.at[gate] = at;
            passage.cost[gate] = cost;
        }
        let names: Vec<(&str, u64)> = spans(&passage).iter().map(|one| (one.0, one.2)).collect();
        assert_eq!(
            names,
            [("tcp", 1_870), ("device.queue", 0), ("driver", 1_450)]
        );
    }

    #[test]
    fn costs_go_to_the_end_that_bore_them() {
        let flow = Flow {
            ports: 80 << 16 | 5_000,
            family: 4,
            source: [[10, 0, 0, 1], [0; 4], [0; 4], [0; 4]],
            destination: [[10, 0, 0, 2], [0; 4], [0; 4], [0; 4]],
        };
        let mut usage = Usage {
            samples: 2,
            weight: 20,
            processing_out: 100,
            processing_in: 300,
            queueing_in: 7,
            ..Usage::default()
        };
        usage.reader.group = 42;
        usage.reader_name[..3].copy_from_slice(b"a\x1bb");
        let after = HashMap::from([(flow, usage)]);
        let sockets = sockets(&HashMap::new(), &after);
        assert_eq!(
            (
                sockets[0].local.as_str(),
                sockets[0].processing_ns,
                sockets[0].pid,
                sockets[0].process.as_str()
            ),
            ("10.0.0.2:5000", 300, 42, "a?b")
        );
        assert_eq!(
            (
                sockets[1].local.as_str(),
                sockets[1].processing_ns,
                sockets[1].queueing_ns
            ),
            ("10.0.0.1:80", 100, 0)
        );
        assert!(super::sockets(&after, &after).is_empty());
    }
}

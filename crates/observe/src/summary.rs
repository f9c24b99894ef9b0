//! The counts as numbers for people and programs: a row for each span, the costs of connections, slow passages whole.
//!
//! Pure: two readings in, one observation out.

use std::collections::HashMap;

use tollgate_kernel::filter::Flow;
use tollgate_kernel::sample_hooks::Choice;
use tollgate_run::observation::{Gates, Observation, Row, SCHEMA, Samples, Slow, Socket};

use crate::Raw;
use crate::memory::{Passage, STAMPS, TcpCounts, Totals, Usage, flag};
use crate::rows::{ON_THE_WAY, rows};

fn gates(before: Option<&Raw>, after: &Raw, choice: &Choice) -> Gates {
    let of = |count: fn(&Totals) -> u64| {
        count(&after.totals) - before.map_or(0, |raw| count(&raw.totals))
    };
    let cost = after.cost.as_ref().ok();
    let in_rows = of(|totals| totals.finished + totals.left);
    let over = in_rows + of(|totals| totals.unwanted);
    // These calls are in nothing that the programs tell of.
    let beside = choice.calls_beside_the_way() as f64;
    let beside = cost.map_or(0.0, |cost| beside * cost.call.value);
    Gates {
        taken_off_ns: of(|totals| totals.taken) as f64 / in_rows.max(1) as f64,
        shorter: of(|totals| totals.shorter),
        followed_ns: match over {
            0 => 0.0,
            over => of(|totals| totals.spent) as f64 / over as f64 + beside,
        },
        not_sampled_ns: cost.map(|cost| cost.not_sampled.value),
        call_ns: cost.map(|cost| cost.call.value),
        call_interval_ns: cost.map(|cost| [cost.call.interval.low, cost.call.interval.high]),
        rounds: cost.map_or(0, |cost| cost.call.n),
        not_measured: after.cost.as_ref().err().cloned(),
    }
}

/// Sockets and pairs of processes listed by default.
pub const SOCKETS: usize = 10;
/// Slow passages listed whole, at most.
pub const SLOW: usize = 20;

/// Gives each span its share of all time. None has one where the cost of gates, as it was measured, took off all of it.
fn share(spans: &mut [Row]) {
    let time = |row: &Row| row.mean_ns * row.stands_for as f64;
    let all: f64 = spans.iter().map(time).sum();
    for row in spans {
        row.share = (all > 0.0).then(|| time(row) / all);
    }
}

/// Observation between two readings; without the first, since the beginning. At most `most` sockets and pairs of processes are listed.
pub fn between(before: Option<&Raw>, after: &Raw, choice: &Choice, most: usize) -> Observation {
    let mut rows = rows(before, after, choice).into_iter();
    let mut spans: Vec<Row> = rows.by_ref().take(ON_THE_WAY).flatten().collect();
    share(&mut spans);
    let sums = rows.flatten().collect();
    let nothing = HashMap::new();
    let flows = before.map_or(&nothing, |raw| &raw.flows);
    let mut sockets = sockets(flows, &after.flows);
    let mut pairs = crate::pairs::pairs(&sockets);
    let more_pairs = pairs.len().saturating_sub(most);
    pairs.truncate(most);
    let more_sockets = sockets.len().saturating_sub(most);
    sockets.truncate(most);
    let mut slow: Vec<Slow> = after
        .slow
        .iter()
        .map(|one| slow_passage(one, after))
        .collect();
    slow.sort_by_key(|one| std::cmp::Reverse(one.total_ns));
    slow.truncate(SLOW);
    let start = |of: &dyn Fn(&Raw) -> f64| before.map_or(0.0, of);
    Observation {
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
        gates: gates(before, after, choice),
        samples: samples(before, after),
        sockets,
        more_sockets,
        pairs,
        more_pairs,
        slow,
        unresolved: choice
            .missing
            .iter()
            .map(|(hook, reason)| format!("{} ({}): {reason}", hook.boundary, hook.name))
            .collect(),
    }
}

fn samples(before: Option<&Raw>, after: &Raw) -> Samples {
    let of = |count: fn(&Totals) -> u64| {
        count(&after.totals) - before.map_or(0, |raw| count(&raw.totals))
    };
    let raw = |count: fn(&Raw) -> u64| count(after) - before.map_or(0, count);
    let (mut pure_acks, mut data_segments) = (0, 0);
    for (flow, usage) in &after.flows {
        let earlier = before
            .and_then(|raw| raw.flows.get(flow))
            .copied()
            .unwrap_or_default();
        let (all, data) = received(
            [earlier.first_in, earlier.last_in],
            [usage.first_in, usage.last_in],
        );
        // The sender's socket receives what acknowledges; where both directions carry data both sockets are seen twice.
        let (all_out, data_out) = received(
            [earlier.first_out, earlier.last_out],
            [usage.first_out, usage.last_out],
        );
        if !after.flows.contains_key(&flow.turned(usage.remote_net)) {
            pure_acks += u64::from(all_out - data_out.min(all_out));
        }
        pure_acks += u64::from(all - data.min(all));
        data_segments += u64::from(data);
    }
    Samples {
        begun: of(|totals| totals.begun),
        read: of(|totals| totals.finished),
        left_by_wire: of(|totals| totals.left),
        filtered_out: of(|totals| totals.unwanted),
        vanished: raw(|raw| raw.vanished) + of(|totals| totals.unseen),
        cut: raw(|raw| raw.cut),
        unread: raw(|raw| raw.unread),
        under_way: after.waiting.len() as u64,
        passed_on: of(|totals| totals.passed_on),
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

/// Segments received, and those with payload, between two readings of what was counted so far. The first counts of a connection move where its ports
/// are used again, so only differences from them tell.
fn received(before: [TcpCounts; 2], after: [TcpCounts; 2]) -> (u32, u32) {
    let of = |count: fn(&TcpCounts) -> u32| {
        let so_far = |[first, last]: &[TcpCounts; 2]| count(last).wrapping_sub(count(first));
        so_far(&after).wrapping_sub(so_far(&before))
    };
    (of(|one| one.segments_in), of(|one| one.data_in))
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
                flow.turned(usage.remote_net),
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
            // This end was not seen: its direction only arrives here, or only leaves.
            if processing_ns == 0 && queueing_ns == 0 {
                continue;
            }
            let socket = ends.entry(end).or_insert_with(|| Socket {
                local: end.from(),
                remote: end.to(),
                namespace: end.net,
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

fn slow_passage(passage: &Passage, raw: &Raw) -> Slow {
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
    Slow {
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

/// The gate at which a reader calls the kernel for what it copies.
const CALLED: usize = 11;

/// The spans of a passage between the gates that it was seen at, each named after the gate that it ends with. They are signed as in the sums: what
/// was taken off one may be more than it had.
fn spans(passage: &Passage) -> Vec<(&'static str, &'static str, i64)> {
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
        if has(flag::READER_RUNNING) {
            ("socket.queue", "queueing")
        } else {
            ("application", "application")
        },
        if passage.at[CALLED] > 0 {
            ("syscall", "processing")
        } else if has(flag::READER_RUNNING) {
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
            let ns = at.wrapping_sub(before).wrapping_sub(cost).cast_signed();
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
            flags: flag::READER_RUNNING | flag::BACKLOG,
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
        assert_eq!(spans.iter().map(|span| span.2).sum::<i64>(), 5_000);
        assert!(spans.contains(&("backlog", "queueing", 600)));
        assert_eq!(
            spans.iter().max_by_key(|span| span.2),
            Some(&("socket.queue", "queueing", 4_050))
        );
    }

    #[test]
    fn spans_without_any_time_left_have_no_share() {
        let row = |mean_ns| Row {
            name: "tcp",
            direction: None,
            kind: None,
            n: 10,
            stands_for: 10,
            mean_ns,
            p50_ns: 0.0,
            p99_ns: 0.0,
            p999_ns: 0.0,
            interval_ns: None,
            taken_off_ns: 300.0,
            marked: true,
            share: None,
        };
        let shares = |means: [f64; 2]| {
            let mut spans = means.map(row);
            share(&mut spans);
            spans.map(|row| row.share)
        };
        assert_eq!(shares([-100.0, 500.0]), [Some(-0.25), Some(1.25)]);
        assert_eq!(shares([-100.0, 40.0]), [None, None]);
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
        let names: Vec<(&str, i64)> = spans(&passage).iter().map(|one| (one.0, one.2)).collect();
        assert_eq!(
            names,
            [("tcp", 1_870), ("device.queue", -100), ("driver", 1_450)]
        );
    }

    #[test]
    fn segments_of_a_connection_that_uses_its_ports_again_are_counted_on() {
        let counts = |segments_in, data_in| TcpCounts {
            segments_in,
            data_in,
            ..TcpCounts::default()
        };
        let before = [counts(5, 3), counts(25, 13)];
        assert_eq!(received([TcpCounts::default(); 2], before), (20, 10));
        // The next socket has counted 2 and 1 when it is first seen: the first counts move by as much as the last ones.
        let after = [
            counts(5_u32.wrapping_sub(23), 3_u32.wrapping_sub(12)),
            counts(7, 4),
        ];
        assert_eq!(received(before, after), (5, 3));
    }

    #[test]
    fn costs_go_to_the_end_that_bore_them() {
        let flow = Flow {
            ports: 80 << 16 | 5_000,
            family: 4,
            net: 0,
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

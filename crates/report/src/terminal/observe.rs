//! An observation of live traffic as text: the finding, the spans, the sockets, slow passages, and how far to trust them.

use tollgate_run::observation::{Observation, Row};
use tollgate_run::{Unit, format::counted};

use super::{Ink, Page, clean, pad_left, pad_right, width};
use crate::format::{alone, group_thousands, percent};

/// Renders an observation for a terminal of `width` columns, with ANSI colours if `colour`.
#[must_use]
pub fn render_observation(observation: &Observation, width: usize, colour: bool) -> String {
    let mut page = Page::new(width, colour);
    page.wrap(Ink::Bold, "", 0, &finding(observation));
    if let Some(warning) = selection(observation) {
        page.wrap(Ink::Bold, "", 0, &warning);
    }
    if !observation.spans.is_empty() {
        page.line("");
        page.ways(observation);
    }
    page.sockets(observation);
    page.slow(observation);
    page.line("");
    for line in trust(observation) {
        page.wrap(Ink::Faint, "  ", 2, &line);
    }
    page.text
}

/// What the numbers say, in a sentence.
fn finding(observation: &Observation) -> String {
    let seconds = alone(
        Unit::Nanoseconds,
        (observation.to_s - observation.from_s) * 1e9,
    );
    if observation.spans.is_empty() {
        let why = match observation.samples.begun {
            0 => "no TCP segment with payload that was asked for passed while the gates were on",
            _ => "no sample came to its end",
        };
        return format!("Nothing to show for {seconds}: {why}.");
    }
    let share = |names: &[&str]| -> f64 {
        let rows = observation.spans.iter();
        rows.filter(|row| names.contains(&row.name))
            .filter_map(|row| row.share)
            .sum()
    };
    let queueing: f64 = observation
        .spans
        .iter()
        .filter(|row| row.kind == Some("queueing"))
        .filter_map(|row| row.share)
        .sum();
    let reader = share(&["wakeup", "socket.queue"]);
    let way = observation
        .sum("send to receive")
        .or_else(|| observation.sum("receive"))
        .or_else(|| observation.sum("transmit"));
    let long = way.map_or(String::new(), |way| {
        format!(
            ", which takes {} at the median",
            alone(Unit::Nanoseconds, way.p50_ns)
        )
    });
    if reader >= 0.3 {
        return format!(
            "{} of the way of a segment{long}, is waiting for the reader.",
            percent(reader)
        );
    }
    let most = observation.spans.iter().max_by(|one, other| {
        one.share
            .unwrap_or(0.0)
            .total_cmp(&other.share.unwrap_or(0.0))
    });
    let most = most.map_or(String::new(), |row| {
        format!(
            "; the longest part is {} ({}, {}), {}",
            row.name,
            row.direction.unwrap_or_default(),
            row.kind.unwrap_or_default(),
            percent(row.share.unwrap_or(0.0))
        )
    });
    format!(
        "{} of the way of a segment{long}, is waiting{most}.",
        percent(queueing)
    )
}

/// Rows leave out more than this share of the samples: then they are of a selection.
const SELECTION: f64 = 0.05;

/// A warning where the samples in the rows are not those of the traffic.
fn selection(observation: &Observation) -> Option<String> {
    let samples = &observation.samples;
    let share = samples.left_out();
    if share <= SELECTION {
        return None;
    }
    let count = |n: u64| group_thousands(&n.to_string());
    Some(format!(
        "The rows lack {} of the samples, mostly slow ones: {} cut on the way and {} unread as a window ended, {} skipped since too many of \
         their connections were followed already. --no-duty-cycle cuts none, and --sample N with a larger N skips fewer.",
        percent(share),
        count(samples.cut),
        count(samples.unread),
        count(samples.skipped),
    ))
}

const HEADINGS: [&str; 10] = [
    "", "", "", "n", "mean us", "+- us", "p50 us", "p99 us", "p99.9 us", "share",
];

/// Behind the mean of a row of which more than a third was taken off.
const MARK: &str = "*";

fn cells(row: &Row, direction: &str) -> [String; 10] {
    let us = |ns: f64| format!("{:.2}", ns / 1e3);
    [
        direction.to_owned(),
        row.name.to_owned(),
        row.kind.unwrap_or_default().to_owned(),
        group_thousands(&row.n.to_string()),
        group_thousands(&us(row.mean_ns)) + if row.marked { MARK } else { "" },
        row.interval_ns.map_or("-".to_owned(), |[_, high]| {
            group_thousands(&us(high - row.mean_ns))
        }),
        group_thousands(&us(row.p50_ns)),
        group_thousands(&us(row.p99_ns)),
        group_thousands(&us(row.p999_ns)),
        row.share.map(percent).unwrap_or_default(),
    ]
}

impl Page {
    fn ways(&mut self, observation: &Observation) {
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        let mut last = "";
        for row in &observation.spans {
            let direction = row.direction.unwrap_or_default();
            rows.push(cells(row, if direction == last { "" } else { direction }));
            last = direction;
        }
        let first_sum = rows.len();
        rows.extend(observation.sums.iter().map(|row| cells(row, "sum")));
        self.columns(&rows, 3, Some(first_sum));
    }

    /// Texts in columns, the first `left` of them at the left; a line is left free before a row.
    pub(super) fn columns<const N: usize>(
        &mut self,
        rows: &[[String; N]],
        left: usize,
        free: Option<usize>,
    ) {
        let widths: [usize; N] =
            std::array::from_fn(|at| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0));
        for (index, row) in rows.iter().enumerate() {
            if free == Some(index) {
                self.line("");
            }
            let cells: Vec<String> = (0..N)
                .map(|at| {
                    let text = clean(&row[at]);
                    if at < left {
                        pad_right(&text, widths[at])
                    } else {
                        pad_left(&text, widths[at])
                    }
                })
                .collect();
            let ink = if index == 0 { Ink::Faint } else { Ink::Plain };
            let line = self.ink(ink, &format!("  {}", cells.join("  ")));
            self.line(&line);
        }
    }

    fn sockets(&mut self, observation: &Observation) {
        if observation.sockets.is_empty() {
            return;
        }
        self.line("");
        self.wrap(
            Ink::Bold,
            "",
            0,
            "Sockets by the processing at their end, as the samples stand for it; passages of one segment or one receive overlap, so it is no processor time",
        );
        let headings = [
            "socket",
            "other end",
            "process",
            "n",
            "processing",
            "waiting",
            "slow",
            "sent again",
        ];
        let mut rows = vec![headings.map(str::to_owned)];
        for socket in &observation.sockets {
            let process = match socket.pid {
                0 => "not seen".to_owned(),
                pid => format!("{} ({pid})", socket.process),
            };
            rows.push([
                socket.local.clone(),
                socket.remote.clone(),
                process,
                group_thousands(&socket.n.to_string()),
                alone(Unit::Nanoseconds, socket.processing_ns as f64),
                alone(Unit::Nanoseconds, socket.queueing_ns as f64),
                group_thousands(&socket.slow.to_string()),
                group_thousands(&socket.retransmitted.to_string()),
            ]);
        }
        self.columns(&rows, 3, None);
        if observation.more_sockets > 0 {
            let more = format!(
                "and {} more",
                group_thousands(&observation.more_sockets.to_string())
            );
            self.wrap(Ink::Faint, "  ", 2, &more);
        }
    }

    fn slow(&mut self, observation: &Observation) {
        if observation.samples.slow == 0 {
            return;
        }
        self.line("");
        let listed = observation.slow.len() as u64;
        let all = group_thousands(&observation.samples.slow.to_string());
        let title = if listed < observation.samples.slow {
            format!("Slow passages: the {listed} slowest of {all}")
        } else {
            format!("Slow passages: {all}")
        };
        self.wrap(Ink::Bold, "", 0, &title);
        for slow in &observation.slow {
            let who = |pid: u32, name: &str| match pid {
                0 => "another host".to_owned(),
                pid => format!("{name} ({pid})"),
            };
            let head = format!(
                "{} at {:.6} s, made slow by {}: {} {} -> {} {}, {} B",
                alone(Unit::Nanoseconds, slow.total_ns as f64),
                slow.at_s,
                slow.worst,
                slow.source,
                who(slow.sender_pid, &slow.sender),
                slow.destination,
                who(slow.reader_pid, &slow.reader),
                group_thousands(&slow.segment_bytes.to_string()),
            );
            self.wrap(Ink::Plain, "  ", 4, &head);
            let spans: Vec<String> = slow
                .spans
                .iter()
                .map(|(name, _, ns)| format!("{name} {}", alone(Unit::Nanoseconds, *ns as f64)))
                .collect();
            self.wrap(Ink::Faint, "    ", 4, &spans.join(", "));
        }
    }
}

/// What no gate can tell by itself.
const QUEUES: &str = "what a message waits behind the gates of other messages cannot be taken off: where a queue never empties, rows of \
                      queueing are those of traffic that the gates slow down; where a rate limit sets the pace, its queue is shorter by \
                      what the gates take elsewhere";

/// What the gates cost, and what of it is in no row.
fn gates(observation: &Observation) -> Vec<String> {
    let gates = &observation.gates;
    let ns = |ns: f64| alone(Unit::Nanoseconds, ns);
    let sample = (!observation.spans.is_empty()).then(|| {
        format!(
            "the gates cost a sample {}; {} of it lay on its way and is taken off the rows",
            ns(gates.followed_ns),
            ns(gates.taken_off_ns),
        )
    });
    let shorter = (gates.shorter > 0).then(|| {
        format!(
            "{} as 0",
            counted(
                gates.shorter,
                "span was shorter than what its gates cost and counts",
                "spans were shorter than what their gates cost and count"
            )
        )
    });
    let let_go = gates
        .let_go_ns
        .map(|cost| format!("a message that is let go costs {}", ns(cost)));
    let not_measured = gates.not_measured.as_ref().map(|reason| {
        format!("what the kernel takes to call a gate could not be measured ({reason}) and is in the rows")
    });
    let calibrated = gates.call_interval_ns.map(|[low, high]| {
        format!(
            "calling a gate costs {} (95 %: {} to {}), the median of {}",
            ns(gates.call_ns.unwrap_or_default()),
            ns(low),
            ns(high),
            counted(gates.rounds, "round", "rounds"),
        )
    });
    let parts: Vec<String> = [sample, shorter, let_go, calibrated, not_measured]
        .into_iter()
        .flatten()
        .collect();
    if parts.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![parts.join("; ")];
    let rows = observation.spans.iter().chain(&observation.sums);
    if rows.clone().any(|row| row.marked) {
        lines.push(format!(
            "{MARK} more than a third of the time between its gates was the gates' own and is taken off: trust it less than its interval says"
        ));
    }
    if !observation.spans.is_empty() {
        lines.push(
            "+- is the 95 % interval of the mean: of the sampling, and of the cost of a call"
                .to_owned(),
        );
        lines.push(QUEUES.to_owned());
    }
    lines
}

/// What stands under the tables: how much was seen, what was lost, and how what is special was treated.
fn trust(observation: &Observation) -> Vec<String> {
    let samples = &observation.samples;
    let count = |n: u64| group_thousands(&n.to_string());
    let over = observation.to_s - observation.from_s;
    let mut lines = vec![format!(
        "{} s, gates on for {:.2} s of it ({}); {} sent and {} from other hosts passed meanwhile, 1 in {} sampled",
        group_thousands(&format!("{over:.2}")),
        observation.on_s,
        percent(observation.on_s / over.max(1e-9)),
        counted(observation.sends, "piece", "pieces"),
        counted(observation.arrivals, "segment", "segments"),
        observation.one_in,
    )];
    lines.extend(gates(observation));
    let joined = samples.joined().map_or(String::new(), |share| {
        format!("{:.2} % joined; ", share * 100.0)
    });
    lines.push(format!(
        "{} begun: {} read, {} left by a wire, {} not asked for, {} under way; {joined}unmatched: {} vanished, {} cut on the way and {} unread as a window ended",
        counted(samples.begun, "sample", "samples"),
        count(samples.read),
        count(samples.left_by_wire),
        count(samples.not_asked_for),
        count(samples.under_way),
        count(samples.vanished),
        count(samples.cut),
        count(samples.unread),
    ));
    lines.push(format!(
        "lost: {} left out by the kernel, {} skipped for want of room, {} not listed, {} in no socket's row; {} lacked a gate, {}",
        counted(samples.missed, "gate run", "gate runs"),
        counted(samples.skipped, "sample", "samples"),
        counted(samples.slow_lost, "slow passage", "slow passages"),
        counted(samples.flows_lost, "sample", "samples"),
        count(samples.with_a_hole),
        counted(
            samples.backwards,
            "span ended before it began",
            "spans ended before they began"
        ),
    ));
    lines.push(format!(
        "of the samples {} IPv6, {} sent as a GSO super-packet, {} received as a super-packet (GRO, or GSO never split), {} in one segment with other messages, {} sent after the call returned, {} worked on from the backlog, {} sent again, {} out of order, {} forwarded",
        count(samples.ipv6),
        count(samples.gso),
        count(samples.gro),
        count(samples.shared),
        count(samples.deferred),
        count(samples.backlog),
        count(samples.retransmitted),
        count(samples.out_of_order),
        count(samples.forwarded),
    ));
    lines.push(format!(
        "pure acknowledgments are not sampled: the observed sockets received {} beside {} with payload, by TCP's own count",
        count(samples.pure_acks),
        counted(samples.data_segments, "segment", "segments"),
    ));
    lines.extend(
        observation
            .unresolved
            .iter()
            .map(|what| format!("not taken: {what}")),
    );
    lines
}

#[cfg(test)]
mod tests {
    use tollgate_run::observation::{Gates, SCHEMA, Samples, Slow, Socket};

    use super::*;

    fn row(
        name: &'static str,
        direction: &'static str,
        kind: &'static str,
        mean_ns: f64,
        share: f64,
    ) -> Row {
        Row {
            name,
            direction: Some(direction),
            kind: Some(kind),
            n: 1_234,
            stands_for: 123_400,
            mean_ns,
            p50_ns: mean_ns * 0.9,
            p99_ns: mean_ns * 3.0,
            p999_ns: mean_ns * 10.0,
            interval_ns: Some([mean_ns * 0.95, mean_ns * 1.05]),
            taken_off_ns: 300.0,
            marked: mean_ns < 600.0,
            share: Some(share),
        }
    }

    fn sample() -> Observation {
        Observation {
            schema: SCHEMA.0,
            version: SCHEMA.1,
            from_s: 0.0,
            to_s: 5.0,
            on_s: 0.5,
            one_in: 20,
            sends: 50_000,
            arrivals: 0,
            spans: vec![
                row("tcp", "transmit", "processing", 1_000.0, 0.25),
                row("ip", "transmit", "processing", 500.0, 0.125),
                row("wakeup", "receive", "queueing", 2_500.0, 0.625),
            ],
            sums: vec![Row {
                direction: None,
                kind: None,
                share: None,
                ..row("send to receive", "", "", 4_000.0, 0.0)
            }],
            gates: Gates {
                taken_off_ns: 2_300.0,
                followed_ns: 2_700.0,
                shorter: 0,
                let_go_ns: Some(1_040.0),
                call_ns: Some(130.0),
                call_interval_ns: Some([120.0, 145.0]),
                rounds: 9,
                not_measured: None,
            },
            samples: Samples {
                begun: 1_240,
                read: 1_234,
                cut: 2,
                unread: 3,
                under_way: 1,
                slow: 1,
                data_segments: 9_000,
                pure_acks: 12,
                ..Samples::default()
            },
            sockets: vec![Socket {
                local: "127.0.0.1:7777".to_owned(),
                remote: "127.0.0.1:40000".to_owned(),
                pid: 42,
                process: "serve".to_owned(),
                n: 1_234,
                stands_for: 123_400,
                processing_ns: 120_000_000,
                queueing_ns: 300_000_000,
                slow: 1,
                retransmitted: 0,
            }],
            more_sockets: 0,
            slow: vec![Slow {
                at_s: 1.25,
                source: "127.0.0.1:40000".to_owned(),
                destination: "127.0.0.1:7777".to_owned(),
                sender_pid: 41,
                sender: "ask".to_owned(),
                reader_pid: 42,
                reader: "serve".to_owned(),
                total_ns: 1_500_000,
                worst: "wakeup",
                spans: vec![
                    ("tcp", "processing", 1_000),
                    ("wakeup", "queueing", 1_499_000),
                ],
                segment_bytes: 64,
            }],
            unresolved: Vec::new(),
        }
    }

    #[test]
    fn an_observation_reads_as_it_should() {
        insta::assert_snapshot!(render_observation(&sample(), 120, false));
    }

    #[test]
    fn costs_that_are_not_known_are_not_claimed() {
        let mut observation = sample();
        observation.gates = Gates {
            shorter: 3,
            let_go_ns: None,
            call_ns: None,
            call_interval_ns: None,
            rounds: 0,
            not_measured: Some("no connection over loopback: refused".to_owned()),
            ..observation.gates
        };
        insta::assert_snapshot!(
            gates(&observation)[0],
            @"the gates cost a sample 2.70 us; 2.30 us of it lay on its way and is taken off the rows; 3 spans were shorter than what their gates cost and count as 0; what the kernel takes to call a gate could not be measured (no connection over loopback: refused) and is in the rows"
        );
    }

    #[test]
    fn rows_of_a_selection_are_called_so() {
        let mut observation = sample();
        assert_eq!(selection(&observation), None);
        (observation.samples.begun, observation.samples.cut) = (145, 112);
        observation.samples.skipped = 1_983;
        insta::assert_snapshot!(
            selection(&observation).unwrap(),
            @"The rows lack 99 % of the samples, mostly slow ones: 112 cut on the way and 3 unread as a window ended, 1,983 skipped since too many of their connections were followed already. --no-duty-cycle cuts none, and --sample N with a larger N skips fewer."
        );
    }

    #[test]
    fn nothing_seen_is_said() {
        let nothing = Observation {
            spans: Vec::new(),
            sums: Vec::new(),
            samples: Samples::default(),
            sockets: Vec::new(),
            slow: Vec::new(),
            ..sample()
        };
        assert!(
            render_observation(&nothing, 80, false)
                .starts_with("Nothing to show for 5.00 s: no TCP segment")
        );
    }
}

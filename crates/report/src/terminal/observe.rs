//! An observation of live traffic as text: the finding, the spans, the sockets, slow passages, and how far to trust them.

use tollgate_run::observation::{Observation, Process, Row};
use tollgate_run::{Interval, Unit, format::counted};

use super::{Ink, Page};
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
    page.pairs(observation);
    page.slow(observation);
    page.line("");
    for line in trust(observation) {
        page.wrap(Ink::Faint, "  ", 2, &line);
    }
    page.text
}

/// A process by name and number, where it was seen.
fn process(process: Option<&Process>) -> Option<String> {
    process.map(|one| format!("{} ({})", one.name, one.pid))
}

/// Waiting for the reader makes at least this share of the way before the reader is named as what is waited for.
const READER: f64 = 0.3;

/// Says whose the time is, in a sentence or two: who waits for whom, how long a segment takes, what the program itself takes.
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
    let reader = share(observation, |row| {
        ["wakeup", "socket.queue"].contains(&row.name)
    });
    let queueing = share(observation, |row| row.kind == Some("queueing"));
    // The numbers are those of all connections, also of those whose processes found no room in the list.
    let busiest = observation.pairs.iter().max_by_key(|pair| pair.n);
    let (reader_name, other) = busiest.map_or((None, None), |pair| {
        let [waited_for, other] = [&pair.waited_for, &pair.other];
        (process(waited_for.as_ref()), process(other.as_ref()))
    });
    let are_all = observation.pairs.len() == 1 && observation.more_pairs == 0;
    let mostly = if are_all { "" } else { ", mostly" };
    let between = match (&other, &reader_name) {
        (Some(other), Some(reader)) => format!("{mostly} between {other} and {reader}"),
        (None, Some(one)) => format!("{mostly} to or from {one}"),
        (_, None) => String::new(),
    };
    let waits = match (&reader_name, reader, queueing) {
        (Some(name), Some(reader), _) if (reader.low + reader.high) / 2.0 >= READER => {
            let who = if are_all { name } else { "the reader" };
            format!("waiting for {who} to read takes {}", shares(reader))
        }
        (_, _, Some(queueing)) => format!("waiting takes {}", shares(queueing)),
        (_, _, None) => "this observation cannot tell how much of it is waiting".to_owned(),
    };
    let long = way(observation).map_or("an unknown time".to_owned(), mean);
    let mut text = format!("A segment takes {long}{between}; {waits}.");
    let application = observation.spans.iter().chain(&observation.sums);
    if let Some(own) = application
        .into_iter()
        .find(|row| row.name == "receive to send")
        .filter(|row| row.n > 0 && is_known(row))
    {
        text.push_str(&format!(
            " The program itself takes {} from a receive to the next send of the same thread, sleep included",
            mean(own)
        ));
        if let Some(share) = share_of_programs(observation, own) {
            text.push_str(&format!(
                ": {} of its time and the way together",
                shares(share)
            ));
        }
        text.push('.');
    }
    text
}

/// Half the width of the interval of a row's mean, in nanoseconds.
fn half_width(row: &Row) -> Option<f64> {
    row.interval_ns.map(|[low, high]| (high - low) / 2.0)
}

/// Tells whether a row's mean is known better than to an interval as wide as itself.
fn is_known(row: &Row) -> bool {
    half_width(row).is_some_and(|half| 2.0 * half < row.mean_ns)
}

/// The mean of a row with its interval.
fn mean(row: &Row) -> String {
    let shown = |ns: f64| alone(Unit::Nanoseconds, ns);
    match row.interval_ns {
        Some([_, high]) if high <= 0.0 => {
            "less time than the gates' cost that was taken off".to_owned()
        }
        Some([low, high]) if low < 0.0 => format!("below {} (95 %)", shown(high)),
        Some([low, high]) => format!(
            "{} (mean; 95 %: {} to {})",
            shown(row.mean_ns),
            shown(low),
            shown(high)
        ),
        None => format!("{} (mean, without an interval)", shown(row.mean_ns)),
    }
}

/// The share of the way that these rows have together, as an interval. None where it holds 0 or is as wide as the share itself.
fn share(observation: &Observation, wanted: impl Fn(&Row) -> bool) -> Option<Interval> {
    let (mut sum, mut half) = (0.0, 0.0);
    for row in observation.spans.iter().filter(|row| wanted(row)) {
        let Some(share) = row.share.filter(|share| *share != 0.0) else {
            continue;
        };
        sum += share;
        // Rows may err together, so their errors are added.
        half += share * half_width(row)? / row.mean_ns;
    }
    (sum > 2.0 * half).then_some(Interval {
        low: sum - half,
        high: (sum + half).min(1.0),
    })
}

/// The share of programs in all time: theirs, and that of the ways. Both are sums over all messages, so a program that answers one
/// message in ten counts a tenth. None where the interval holds 0 or is as wide as the share itself.
fn share_of_programs(observation: &Observation, own: &Row) -> Option<Interval> {
    let way = way(observation)?;
    let total = |row: &Row| row.mean_ns * row.stands_for as f64;
    let all_ways: f64 = observation.spans.iter().map(total).sum();
    let way_error = half_width(way)? / way.mean_ns;
    let [low, high] = own.interval_ns?;
    let share = |own_ns: f64, ways: f64| {
        let own = own_ns * own.stands_for as f64;
        own / (own + ways)
    };
    let low = share(low, all_ways * (1.0 + way_error));
    let high = share(high, all_ways * (1.0 - way_error).max(0.0));
    (low > 0.0 && high - low < share(own.mean_ns, all_ways)).then_some(Interval { low, high })
}

/// A share of the whole in words: its range, or one number where both ends round to it.
fn shares(share: Interval) -> String {
    let [low, high] = [share.low, share.high].map(|end| format!("{:.0}", 100.0 * end));
    if low == high {
        format!("{low} %")
    } else {
        format!("{low} to {high} %")
    }
}

/// The whole way, or as much of it as was seen.
fn way(observation: &Observation) -> Option<&Row> {
    ["send to receive", "receive", "transmit"]
        .iter()
        .find_map(|name| observation.sum(name))
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

const HEADINGS: [&str; 11] = [
    "", "", "", "share", "adds us", "n", "mean us", "+- us", "p50 us", "p99 us", "p99.9 us",
];

/// Behind the mean of a row of which more than a third was taken off.
const MARK: &str = "*";

/// The characters of the longest bar.
const BAR: usize = 8;

/// A row with less of the way is folded.
const FOLDED: f64 = 0.01;

/// A row of the table; `whole_ns` is the mean of the way, of which each span adds its share.
fn cells(row: &Row, direction: &str, whole_ns: Option<f64>) -> [String; 11] {
    let us = |ns: f64| group_thousands(&format!("{:.2}", ns / 1e3));
    let fine = |ns: f64| match ns {
        small if small < 10.0 => format!("{:.3}", small / 1e3),
        ns => us(ns),
    };
    let fill = match row.kind {
        Some("queueing") => "▒",
        Some("application") => "░",
        _ => "▇",
    };
    let length = row
        .share
        .map_or(0, |share| (share.min(1.0) * BAR as f64).round() as usize);
    [
        direction.to_owned(),
        row.name.to_owned(),
        fill.repeat(length),
        row.share.map(percent).unwrap_or_default(),
        match (row.share, whole_ns) {
            (Some(share), Some(whole)) => us(share * whole),
            _ => String::new(),
        },
        group_thousands(&row.n.to_string()),
        match row.interval_ns {
            Some([low, high]) if low < 0.0 => format!("below {}", fine(high)),
            _ => us(row.mean_ns),
        } + if row.marked { MARK } else { "" },
        match row.interval_ns {
            Some([low, high]) if low >= 0.0 => fine((high - row.mean_ns).max(row.mean_ns - low)),
            _ => "-".to_owned(),
        },
        us(row.p50_ns),
        us(row.p99_ns),
        us(row.p999_ns),
    ]
}

impl Page {
    fn ways(&mut self, observation: &Observation) {
        let whole = way(observation).map(|way| way.mean_ns);
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        let mut last = "";
        let small = |row: &&Row| row.share.is_some_and(|share| share < FOLDED);
        for row in observation.spans.iter().filter(|row| !small(row)) {
            let direction = match row.direction {
                Some("transmit") => "out",
                Some("receive") => "in",
                other => other.unwrap_or_default(),
            };
            let shown = if direction == last { "" } else { direction };
            rows.push(cells(row, shown, whole));
            last = direction;
        }
        let first_sum = rows.len();
        rows.extend(observation.sums.iter().map(|row| cells(row, "sum", None)));
        self.columns(&rows, 3, Some(first_sum));
        self.wrap(
            Ink::Faint,
            "  ",
            2,
            "▇ processing  ▒ waiting  ░ the program's own; `adds us` is the row's part of the mean way, and the parts add up",
        );
        let folded: Vec<&str> = observation
            .spans
            .iter()
            .filter(small)
            .map(|row| row.name)
            .collect();
        if !folded.is_empty() {
            let text = format!(
                "below 1 % each, and only in the JSON: {}",
                folded.join(", ")
            );
            self.wrap(Ink::Faint, "  ", 2, &text);
        }
    }

    fn pairs(&mut self, observation: &Observation) {
        if observation.pairs.is_empty() {
            return;
        }
        self.line("");
        self.wrap(
            Ink::Bold,
            "",
            0,
            "Pairs of processes by the processing at both ends, as the samples stand for it; passages overlap: no processor time",
        );
        let headings = [
            "waits for",
            "other end",
            "addresses",
            "connections",
            "n",
            "processing",
            "waiting",
            "slow",
            "sent again",
        ];
        let mut rows = vec![headings.map(str::to_owned)];
        for pair in &observation.pairs {
            let name = |one: &Option<Process>| {
                process(one.as_ref()).unwrap_or_else(|| "not seen".to_owned())
            };
            let count = |count: u64| group_thousands(&count.to_string());
            rows.push([
                name(&pair.waited_for),
                name(&pair.other),
                format!("{} - {}", pair.waited_for_at, pair.other_at),
                count(pair.connections),
                count(pair.n),
                alone(Unit::Nanoseconds, pair.processing_ns as f64),
                alone(Unit::Nanoseconds, pair.queueing_ns as f64),
                count(pair.slow),
                count(pair.retransmitted),
            ]);
        }
        // Most traffic has neither slow passages nor segments sent again.
        let common: Vec<[String; 7]> = rows
            .iter()
            .map(|row| std::array::from_fn(|at| row[at].clone()))
            .collect();
        let none = |row: &[String; 9]| row[7] == "0" && row[8] == "0";
        if rows.iter().skip(1).all(none) {
            self.columns(&common, 3, None);
        } else {
            self.columns(&rows, 3, None);
        }
        if observation.more_pairs > 0 {
            let more = format!(
                "and {} more",
                group_thousands(&observation.more_pairs.to_string())
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

/// Remark on the time that no gate can attribute.
const QUEUES: &str = "what a message waits behind the gates of other messages cannot be taken off: where a queue never empties, rows of \
                      queueing are those of traffic that the gates slow down; where a rate limit sets the pace, its queue is shorter by \
                      what the gates take elsewhere";

/// The cost of the gates, and the part of it that is in no row.
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
            "{} as negative, so that means are right",
            counted(
                gates.shorter,
                "span was shorter than what its gates cost and counts",
                "spans were shorter than what their gates cost and count"
            )
        )
    });
    let not_sampled = gates
        .not_sampled_ns
        .map(|cost| format!("a message that is not sampled costs {}", ns(cost)));
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
    let parts: Vec<String> = [sample, shorter, not_sampled, calibrated, not_measured]
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
            "+- is the 95 % interval of the mean: of the sampling, and of the cost of a call; a row whose interval reaches below 0 shows its upper end \
             alone, as `below`"
                .to_owned(),
        );
        lines.push(QUEUES.to_owned());
    }
    lines
}

/// Says how many of what passed were sampled, and how many at the end where that differs.
fn sampled(observation: &Observation) -> String {
    let passed = (observation.sends + observation.arrivals) as f64;
    let begun = observation.samples.begun as f64;
    let (at_the_end, one_in) = (f64::from(observation.one_in), passed / begun);
    if !one_in.is_finite() || (one_in / at_the_end - 1.0).abs() <= 0.1 {
        return format!("1 in {} sampled", observation.one_in);
    }
    format!(
        "1 in {} sampled, at the end 1 in {}",
        tollgate_run::format::factor(one_in),
        observation.one_in
    )
}

/// The lines under the tables: the coverage, the losses, and the treatment of special cases.
fn trust(observation: &Observation) -> Vec<String> {
    let samples = &observation.samples;
    let count = |n: u64| group_thousands(&n.to_string());
    let over = observation.to_s - observation.from_s;
    let mut lines = vec![format!(
        "{} s, gates on for {:.2} s of it ({}); {} sent and {} from other hosts passed meanwhile, {}",
        group_thousands(&format!("{over:.2}")),
        observation.on_s,
        percent(observation.on_s / over.max(1e-9)),
        counted(observation.sends, "piece", "pieces"),
        counted(observation.arrivals, "segment", "segments"),
        sampled(observation),
    )];
    lines.extend(gates(observation));
    let joined = samples.joined().map_or(String::new(), |share| {
        format!("{:.2} % joined; ", share * 100.0)
    });
    lines.push(format!(
        "{} begun: {} read, {} left by a wire, {} passed on to a wire, {} filtered out, {} under way; {joined}unmatched: {} vanished, {} cut on the way and {} unread as a window ended",
        counted(samples.begun, "sample", "samples"),
        count(samples.read),
        count(samples.left_by_wire),
        count(samples.passed_on),
        count(samples.filtered_out),
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
mod tests;

//! Tests of how observations read.

use tollgate_run::observation::{Gates, ProcessPair, SCHEMA, Samples, Slow, Socket};

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

fn socket([local, remote]: [&str; 2], (pid, name): (u32, &str), queueing_ns: i64) -> Socket {
    Socket {
        local: local.to_owned(),
        remote: remote.to_owned(),
        namespace: 7,
        pid,
        process: name.to_owned(),
        n: 1_234,
        stands_for: 123_400,
        processing_ns: 120_000_000,
        queueing_ns,
        slow: 1,
        retransmitted: 0,
    }
}

fn of(pid: u32, name: &str) -> Process {
    Process {
        pid,
        name: name.to_owned(),
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
            row("ip", "transmit", "processing", 500.0, 0.12),
            row("driver", "transmit", "processing", 20.0, 0.005),
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
            not_sampled_ns: Some(1_040.0),
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
        sockets: vec![
            socket(
                ["127.0.0.1:40000", "127.0.0.1:7777"],
                (41, "ask"),
                20_000_000,
            ),
            socket(
                ["127.0.0.1:7777", "127.0.0.1:40000"],
                (42, "serve"),
                300_000_000,
            ),
        ],
        more_sockets: 0,
        pairs: vec![ProcessPair {
            waited_for: Some(of(42, "serve")),
            waited_for_at: "127.0.0.1:7777".to_owned(),
            other: Some(of(41, "ask")),
            other_at: "127.0.0.1:40000".to_owned(),
            connections: 1,
            n: 1_234,
            processing_ns: 240_000_000,
            queueing_ns: 320_000_000,
            slow: 1,
            retransmitted: 0,
        }],
        more_pairs: 0,
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
fn finding_names_no_share_that_its_interval_does_not_support() {
    let mut observation = sample();
    let text = finding(&observation);
    assert!(
        text.contains("A segment takes 4.00 us (mean; 95 %: 3.80 us to 4.20 us) between"),
        "{text}"
    );
    assert!(text.contains("to read takes 59 to 66 %"), "{text}");
    let wakeup = &mut observation.spans[3];
    wakeup.interval_ns = Some([100.0, 4_900.0]);
    let text = finding(&observation);
    assert!(
        text.contains("cannot tell how much of it is waiting"),
        "{text}"
    );
    observation.spans[3].interval_ns = None;
    assert_eq!(finding(&observation), text);
}

#[test]
fn numbers_of_several_pairs_of_processes_are_not_said_of_one() {
    let mut observation = sample();
    observation.pairs[0].connections = 50;
    assert!(!finding(&observation).contains("mostly"));
    let mut hidden = observation.clone();
    hidden.more_pairs = 1;
    observation.pairs.push(ProcessPair {
        waited_for: Some(of(43, "serve")),
        n: 5,
        ..observation.pairs[0].clone()
    });
    for observation in [observation, hidden] {
        let text = finding(&observation);
        assert!(
            text.contains("mostly between ask (41) and serve (42)")
                && text.contains("waiting for the reader to read takes"),
            "{text}"
        );
    }
}

#[test]
fn connections_of_a_pair_of_processes_are_one_row() {
    let mut observation = sample();
    observation.pairs[0] = ProcessPair {
        other_at: "127.0.0.1:*".to_owned(),
        connections: 50,
        slow: 0,
        ..observation.pairs[0].clone()
    };
    let text = render_observation(&observation, 120, false);
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("serve (42)  ask (41)"))
        .collect();
    assert_eq!(rows.len(), 1, "{text}");
    let words: Vec<&str> = rows[0].split_whitespace().collect();
    assert_eq!(
        words[4..9],
        ["127.0.0.1:7777", "-", "127.0.0.1:*", "50", "1,234"]
    );
}

#[test]
fn time_of_the_program_has_its_share_with_an_interval() {
    let mut observation = sample();
    let own = Row {
        direction: None,
        kind: None,
        share: None,
        ..row("receive to send", "", "", 4_020.0, 0.0)
    };
    observation.sums.push(own);
    // The ways of the spans take 4,020 ns: half of all time, within 5 % on each side of both.
    let text = finding(&observation);
    assert!(
        text.ends_with(
            "The program itself takes 4.02 us (mean; 95 %: 3.82 us to 4.22 us) from a receive to the next send of the same thread, \
             sleep included: 48 to 52 % of its time and the way together."
        ),
        "{text}"
    );
    // One message in ten is answered.
    observation.sums[1].stands_for /= 10;
    assert!(
        finding(&observation).contains("sleep included: 8 to 10 % of"),
        "{}",
        finding(&observation)
    );
    observation.sums[0].interval_ns = None;
    assert!(finding(&observation).ends_with("sleep included."));
}

#[test]
fn sampling_is_told_as_it_was() {
    let mut observation = sample();
    assert_eq!(sampled(&observation), "1 in 40 sampled, at the end 1 in 20");
    observation.samples.begun = 2_490;
    assert_eq!(sampled(&observation), "1 in 20 sampled");
}

#[test]
fn span_that_cannot_be_told_from_0_is_said_to_lie_below_its_interval() {
    let mut short = row("demux", "receive", "processing", 8.0, 0.002);
    short.interval_ns = Some([-30.0, 46.0]);
    let shown = cells(&short, "in", Some(4_000.0));
    assert_eq!([&*shown[6], &*shown[7]], ["below 0.05*", "-"]);
    assert_eq!(mean(&short), "below 46.0 ns (95 %)");
    // A mean below 0 is no time.
    (short.mean_ns, short.interval_ns) = (-8.0, Some([-20.0, 4.0]));
    assert_eq!(cells(&short, "in", None)[6], "below 0.004*");
    // Where more is taken off than is told, the larger side is shown.
    (short.mean_ns, short.interval_ns) = (800.0, Some([700.0, 820.0]));
    assert_eq!(cells(&short, "in", None)[7], "0.10");
}

#[test]
fn parts_of_the_way_add_up_and_small_ones_are_folded() {
    let text = render_observation(&sample(), 120, false);
    assert!(text.contains("below 1 % each, and only in the JSON: driver"));
    let adds: f64 = sample()
        .spans
        .iter()
        .map(|row| 4.0 * row.share.unwrap())
        .sum();
    assert!((adds - 4.0).abs() < 1e-9);
    assert!(text.contains("2.50"), "{text}");
}

#[test]
fn costs_that_are_not_known_are_not_claimed() {
    let mut observation = sample();
    observation.gates = Gates {
        shorter: 3,
        not_sampled_ns: None,
        call_ns: None,
        call_interval_ns: None,
        rounds: 0,
        not_measured: Some("no connection over loopback: refused".to_owned()),
        ..observation.gates
    };
    insta::assert_snapshot!(
        gates(&observation)[0],
        @"the gates cost a sample 2.70 us; 2.30 us of it lay on its way and is taken off the rows; 3 spans were shorter than what their gates cost and count as negative, so that means are right; what the kernel takes to call a gate could not be measured (no connection over loopback: refused) and is in the rows"
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
        pairs: Vec::new(),
        slow: Vec::new(),
        ..sample()
    };
    assert!(
        render_observation(&nothing, 80, false)
            .starts_with("Nothing to show for 5.00 s: no TCP segment")
    );
}

#[test]
fn way_that_is_shorter_than_its_gates_has_no_length() {
    let mut observation = sample();
    for row in &mut observation.spans {
        row.share = None;
    }
    observation.sums[0].mean_ns = -400.0;
    observation.sums[0].interval_ns = Some([-500.0, -300.0]);
    let text = finding(&observation);
    assert!(
        text.starts_with("A segment takes less time than the gates' cost that was taken off"),
        "{text}"
    );
}

#[test]
fn tables_are_no_wider_than_the_terminal_and_lose_nothing() {
    let observation = sample();
    let words = |text: &str| {
        let words = text
            .split_whitespace()
            .filter(|word| word.contains(char::is_numeric));
        words
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let all = words(&render_observation(&observation, 200, false));
    for width in [60, 72, 80, 100] {
        let text = render_observation(&observation, width, false);
        for line in text.lines() {
            assert!(crate::terminal::width(line) <= width, "{width}: {line}");
        }
        let lost: Vec<_> = all.difference(&words(&text)).cloned().collect();
        assert!(lost.is_empty(), "{width}: {lost:?}\n{text}");
    }
}

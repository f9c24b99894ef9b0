use std::time::Duration;

use tollgate_run::{PathId, Placement};

use super::*;
use crate::context::{Cancel, Silent};

/// Runs a workload under all gates; none, with the reason printed, where the kernel allows none.
fn run(experiment: &GateCoverage, options: Options) -> Option<Coverage> {
    let mut context = Context::new(options, None, Cancel::default(), &Silent);
    context.begin("test", 1, 1);
    let sizes = context.options.sizes_or(&OF_WRITES);
    match coverage::run(experiment.name, experiment.workload, &sizes, &context) {
        Ok(coverage) => Some(coverage),
        Err(error) => {
            tollgate_skip::skipped!("{error}");
            None
        }
    }
}

fn options(path: PathId, sizes: &[usize], iterations: u64) -> Options {
    Options {
        paths: Some(vec![path]),
        sizes: Some(sizes.to_vec()),
        iterations: Some(iterations),
        ..Options::default()
    }
}

/// Every way at every size: as many as the bars ask for, and nothing lost.
fn check(experiment: &GateCoverage, options: Options, ways: usize) {
    let wanted = options.iterations.unwrap_or(0);
    let Some(coverage) = run(experiment, options) else {
        return;
    };
    assert_eq!(coverage.rows.len(), ways);
    for row in &coverage.rows {
        for seen in &row.sizes {
            let seen = seen.as_ref().unwrap();
            let label = row.carried.label();
            assert!(seen.messages.sent >= wanted, "{label}: {seen:?}");
            assert_eq!(seen.lost, 0, "{label}");
            let share = |share: Share| share.of_one().unwrap();
            assert!(
                share(seen.messages) >= MESSAGES,
                "{label}: {:?}",
                seen.missed
            );
            assert!(
                share(seen.segments) >= SEGMENTS,
                "{label}: {:?}",
                seen.missed
            );
            assert!(seen.messages.traced <= seen.messages.sent, "{label}");
            assert!(seen.segments.traced <= seen.segments.sent, "{label}");
        }
    }
}

#[test]
fn a_stream_over_loopback_is_followed() {
    check(
        &STREAM,
        options(PathId::KernelLoopback, &[64, 65_536], 600),
        2,
    );
}

#[test]
fn a_stream_over_devices_is_followed_whatever_they_do_with_segments() {
    check(
        &STREAM,
        options(PathId::KernelVeth, &[64, 1_448, 65_536], 300),
        6,
    );
}

#[test]
fn connections_over_loopback_are_followed() {
    check(&CRR, options(PathId::KernelLoopback, &[4, 8_000], 600), 2);
}

#[test]
fn connections_over_devices_are_followed_whatever_they_do_with_segments() {
    check(&CRR, options(PathId::KernelVeth, &[4, 8_000], 200), 6);
}

#[test]
fn requests_and_responses_are_followed() {
    for path in [PathId::KernelLoopback, PathId::KernelVeth] {
        check(&RR, options(path, &[4, 8_000], 400), 2);
    }
}

/// Coverage that was made up, so that its output does not depend on a kernel.
fn measured_somewhere() -> Coverage {
    let table = tollgate_gate::KERNEL
        .joined(tollgate_gate::GateSet::of(&[
            tollgate_gate::Gate::TcpOutBegin,
            tollgate_gate::Gate::IpInBegin,
            tollgate_gate::Gate::SocketInBegin,
        ]))
        .unwrap();
    let carried = coverage::Carried {
        path: PathId::KernelVeth,
        offload: Offload::Both,
        mode: tollgate_run::Mode {
            placement: Placement::OneCore,
            waiting: tollgate_run::Waiting::Blocking,
        },
    };
    let share = |sent, traced| Share { sent, traced };
    let seen = CellCoverage {
        messages: share(1_000, 985),
        segments: share(46_000, 45_990),
        events: 80_000,
        lost: 12,
        unmatched: 3,
        joint: (900, 40_000),
        missed: [(tollgate_gate::Gate::IpInBegin, 25)].into(),
        spans: vec![vec![1_000.0; 985], vec![2_000.0; 985]],
        ..CellCoverage::default()
    };
    Coverage {
        rows: vec![
            Row {
                carried: coverage::Carried {
                    offload: Offload::Usual,
                    ..carried
                },
                table,
                sizes: vec![Ok(seen.clone()), Err("the device has gone".to_owned())],
            },
            Row {
                carried,
                table,
                sizes: vec![Ok(seen)],
            },
        ],
        unresolved: vec![(tollgate_gate::Gate::DemuxBegin, "refused".to_owned())],
        stopped: true,
    }
}

#[test]
fn what_is_missing_is_said_and_never_rounded_away() {
    let shown = STREAM.shown(&measured_somewhere(), &[65_536, 4]);
    assert!(
        shown.finding.contains("at least 98.50 %"),
        "{}",
        shown.finding
    );
    assert!(shown.finding.contains("99.97 %"), "{}", shown.finding);
    let lines = |kind| shown.trust.iter().filter(move |line| line.kind == kind);
    assert!(
        lines(TrustKind::JoinRate)
            .all(|line| !line.holds && line.text.contains("25 at ip.in.begin"))
    );
    assert!(lines(TrustKind::EventsLost).all(|line| !line.holds && line.value == Some(12.0)));
    let warned = |word: &str| {
        shown
            .trust
            .iter()
            .any(|line| !line.holds && line.text.contains(word))
    };
    assert!(warned("the device has gone") && warned("stopped"));
    let messages = &shown.tables[0].rows[0].cells;
    assert_eq!(messages[0].number(), Some(98.5));
    assert!(
        matches!(&messages[1], Cell::NotAvailable { reason } if reason == "the device has gone")
    );
    assert!(
        matches!(&shown.tables[0].rows[1].cells[1], Cell::NotAvailable { reason } if reason.contains("stopped"))
    );
    // Times only of the way as it is made.
    assert_eq!(shown.tables.len(), 4);
    assert_eq!(shown.tables[3].rows.len(), 2);
}

#[test]
fn with_little_time_each_way_has_its_turn() {
    let mut options = options(PathId::KernelLoopback, &[4, 200], 1_000_000);
    options.placement = Some(Placement::OneCore);
    let budget = Some(Duration::from_millis(400));
    let mut context = Context::new(options, budget, Cancel::default(), &Silent);
    context.begin("test", 1, 1);
    let Ok(coverage) = coverage::run("test", Workload::Rr, &[4, 200], &context) else {
        tollgate_skip::skipped!("no gates here");
        return;
    };
    assert!(coverage.rows[0].sizes.iter().all(|seen| {
        let sent = seen.as_ref().unwrap().messages.sent;
        sent > 0 && sent < 1_000_000
    }));
}

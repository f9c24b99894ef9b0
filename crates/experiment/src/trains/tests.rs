use tollgate_gate::span::Place;
use tollgate_gate::{Direction, Kind};

use super::by_slice::BySlice;
use super::laden::Laden;
use super::seen::{AtSpan, Counts, Seen, Way};
use super::*;

const SPAN: Span = Span {
    name: "ip",
    direction: Direction::Rx,
    layer: tollgate_gate::Layer::Ip,
    kind: Kind::Processing,
    wolman: None,
    kay_pasquale: &[],
    place: Place::OnTheWay,
    from: Gate::IpInBegin,
    to: Gate::DemuxBegin,
};

fn way(from: f64, to: f64) -> Option<Way> {
    Some(Way {
        from,
        to,
        probes: 2.0,
        passages: 1,
        handed_over: false,
    })
}

fn one(kind: Kind, packets: &[Option<Way>]) -> AtSpan {
    let mut at = AtSpan::default();
    at.add_response(kind, packets);
    at
}

#[test]
fn packets_that_go_straight_through_are_work() {
    let at = one(
        Kind::Processing,
        &[way(0.0, 12.0), way(20.0, 42.0), way(50.0, 62.0)],
    );
    assert_eq!(at.work_ns(), Some((10.0 + 20.0 + 10.0) / 3.0));
    assert_eq!(at.wait_ns(), Some(0.0));
    assert_eq!(at.gaps_ns(), [None, Some(20.0), Some(30.0)]);
}

#[test]
fn a_packet_behind_another_waits_and_is_no_work() {
    let at = one(Kind::Processing, &[way(0.0, 12.0), way(5.0, 32.0)]);
    assert_eq!(at.work_ns(), Some(10.0));
    assert_eq!(at.wait_by_place_ns(), [Some(0.0), Some(25.0)]);
}

#[test]
fn what_another_processor_goes_on_with_has_waited() {
    let handed = way(20.0, 122.0).map(|way| Way {
        handed_over: true,
        ..way
    });
    let at = one(Kind::Processing, &[way(0.0, 12.0), handed]);
    assert_eq!(at.work_ns(), Some(10.0));
    assert_eq!(at.wait_by_place_ns(), [Some(0.0), Some(100.0)]);
}

#[test]
fn packets_in_one_piece_share_its_time() {
    let at = one(
        Kind::Processing,
        &[way(0.0, 32.0), way(0.0, 32.0), way(0.0, 32.0)],
    );
    assert_eq!(at.work_ns(), Some(10.0));
    assert_eq!(at.wait_ns(), Some(0.0));
    let queue = one(Kind::Queueing, &[way(0.0, 32.0), way(0.0, 32.0)]);
    assert_eq!((queue.work_ns(), queue.wait_ns()), (None, Some(30.0)));
}

#[test]
fn a_packet_that_was_not_seen_breaks_the_train() {
    let at = one(Kind::Processing, &[way(0.0, 12.0), None, way(5.0, 17.0)]);
    assert_eq!(at.work_ns(), Some(10.0));
    assert_eq!(at.gaps_ns(), [None, None, None]);
}

#[test]
fn the_way_of_the_last_byte_sums_to_the_round_trip() {
    let table = SpanTable::new(Box::leak(Box::new([SPAN]))).unwrap();
    let mut size = AtSize::new(1);
    let seen = Seen {
        packets: vec![vec![way(0.0, 12.0), None]],
        requests: vec![way(0.0, 32.0)],
        responses: vec![way(0.0, 42.0)],
        usual: vec![0],
        lost: 3,
        strange: 1,
        acknowledgments: 7,
        ..Seen::default()
    };
    size.add(0, &SPAN, &seen);
    assert_eq!(size.sum_ns(table), Some(70.0));
    assert_eq!(size.closure(table), None);
    size.usual_ungated = vec![100.0];
    assert!((size.closure(table).unwrap() - 0.3).abs() < 1e-9);
    size.turns_ns = Some(20.0);
    assert_eq!(size.open_ns(table), Some(10.0));
    assert_eq!((size.packets, size.messages), ((2, 1), (2, 2)));
    assert_eq!((size.lost, size.strange, size.acknowledgments), (3, 1, 7));
    // Where gates are timed from the first, spans are differences.
    size.reached.insert(SPAN.from, (vec![5.0], vec![6.0]));
    assert_eq!(size.whole_ns(0, &SPAN), None);
    size.reached.insert(SPAN.to, (vec![15.0], vec![36.0]));
    assert_eq!(size.whole_ns(0, &SPAN), Some((10.0, 30.0)));
}

#[test]
fn what_a_slow_machine_took_is_brought_to_the_usual_speed() {
    let table = SpanTable::new(Box::leak(Box::new([SPAN]))).unwrap();
    let mode = Mode {
        placement: tollgate_workload::Placement::OneCore,
        waiting: tollgate_workload::Waiting::BusyPoll,
    };
    let mut measured = Measured::new(Subject::Stack, mode, Some(table), 1);
    // The machine becomes half as fast for two of three slices; gates are looked at in one of each kind.
    for slowness in [1.0, 2.0, 2.0] {
        measured.drift.note(&[Some(100.0 * slowness)]);
        let taken = 30.0 * slowness;
        let seen = Seen {
            packets: vec![vec![way(0.0, taken + 2.0), way(40.0 * slowness, 90.0)]],
            requests: vec![way(0.0, taken)],
            responses: vec![way(10.0 * slowness, 10.0 * slowness + 2.0 * taken)],
            usual: vec![0],
            ..Seen::default()
        };
        let size = &mut measured.sizes[0];
        size.add(0, &SPAN, &seen.faster(slowness));
        size.spans[0].beside.0.push(110.0);
        size.add_ungated(Some(0), &[100.0], Some(100.0));
    }
    measured.probes.insert(SPAN.from, vec![2.0]);
    let usual = measured.drift().usual();
    assert!((usual - 5.0 / 3.0).abs() < 1e-9);
    let measured = measured.at_usual_speed();
    let size = &measured.sizes[0];
    assert!((size.round_trip_ns().unwrap() - 100.0 * usual).abs() < 1e-9);
    let (request, response) = size.whole_ns(0, &SPAN).unwrap();
    assert!((request - (30.0 - 2.0) * usual).abs() < 1e-9);
    assert!((response - (60.0 - 2.0) * usual).abs() < 1e-9);
    assert!((measured.probe_ns(SPAN.from).unwrap() - 2.0 * usual).abs() < 1e-9);
    assert!((size.spans[0].perturbation().unwrap() - 0.1).abs() < 1e-9);
    assert!((size.spans[0].gaps_ns()[1].unwrap() - 40.0 * usual).abs() < 1e-9);
}

/// One of two slices ran while the machine was slower by half, which no slice without gates saw.
#[test]
fn a_slice_is_brought_to_the_usual_by_its_own_round_trips() {
    let table = SpanTable::new(Box::leak(Box::new([SPAN]))).unwrap();
    let mode = Mode {
        placement: tollgate_workload::Placement::OneCore,
        waiting: tollgate_workload::Waiting::Blocking,
    };
    let train = Subject::Kernel(PathId::KernelLoopback, Carrier::Packets);
    let mut measured = Measured::new(train, mode, Some(table), 1);
    let cost = 2.0;
    // Four passages cost themselves, and all else takes a tenth longer for them.
    for disturbed in [1.0, 1.5] {
        let slower = 1.1 * disturbed;
        let taken = |ns: f64| ns * slower + cost;
        let size = &mut measured.sizes[0];
        let seen = Seen {
            packets: vec![vec![way(0.0, taken(30.0)), way(200.0, 200.0 + taken(30.0))]],
            requests: vec![way(0.0, taken(20.0))],
            responses: vec![way(0.0, taken(60.0))],
            usual: vec![0],
            laden: Some(Laden {
                round_trip_ns: 100.0 * slower + 4.0 * cost,
                passages: vec![(SPAN.from, 2.0), (SPAN.to, 2.0)],
            }),
            ..Seen::default()
        };
        size.add(0, &SPAN, &seen);
        size.add_ungated(Some(0), &[100.0], Some(100.0));
    }
    for gate in [SPAN.from, SPAN.to] {
        measured.probes.insert(gate, vec![cost]);
    }
    let untold = |mut measured: Measured| {
        measured.probes.remove(&SPAN.to);
        measured.at_usual_speed()
    };
    assert_eq!(untold(measured.clone()).slowed, None);
    let measured = measured.at_usual_speed();
    let size = &measured.sizes[0];
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(measured.slowed.unwrap(), 1.375));
    assert!(near(size.spans[0].work_ns().unwrap(), 30.0));
    let (request, response) = size.whole_ns(0, &SPAN).unwrap();
    assert!(near(request, 20.0) && near(response, 60.0));
    // What no span covers stays open.
    assert!(near(size.closure(table).unwrap(), 0.2));
}

#[test]
fn what_gates_timed_is_brought_to_code_without_gates() {
    let mode = Mode {
        placement: tollgate_workload::Placement::OneCore,
        waiting: tollgate_workload::Waiting::BusyPoll,
    };
    let table = SpanTable::new(Box::leak(Box::new([SPAN]))).unwrap();
    let mut measured = Measured::new(Subject::Stack, mode, Some(table), 1);
    let size = &mut measured.sizes[0];
    // One of three times is a step of the clock longer.
    let seen = Seen {
        packets: [24.0, 24.0, 30.0, 9_000.0]
            .map(|to| vec![way(0.0, to)])
            .into(),
        usual: vec![0, 1, 2],
        counts: Counts::Mean,
        ..Seen::default()
    };
    size.add(0, &SPAN, &seen);
    size.add_ungated(Some(0), &[100.0], Some(100.0));
    size.spans[0].beside.0.push(150.0);
    size.asleep.push(125.0);
    size.reached.insert(SPAN.to, (vec![50.0], vec![75.0]));
    let measured = measured.at_usual_speed();
    let size = &measured.sizes[0];
    assert!((size.spans[0].work_ns().unwrap() - 24.0 / 1.25).abs() < 1e-9);
    assert_eq!(size.reached_ns(SPAN.to), Some((40.0, 60.0)));
    assert_eq!(size.round_trip_ns(), Some(100.0));
    assert_eq!(size.spans[0].perturbation(), Some(0.5));
    assert_eq!(measured.asleep(), Some((1.25, 1.25)));
    assert_eq!(size.turns_ns(), None);
}

#[test]
fn sizes_are_the_papers_or_fewer_of_them() {
    let (all, fewer) = sizes(&Options::default(), None);
    assert_eq!((all.len(), fewer), (256, false));
    assert_eq!((all[0], all[1], all[255]), (256, 512, 65_536));
    let (few, fewer) = sizes(&Options::default(), Some(Duration::from_secs(2)));
    assert!(fewer && few.len() < 10);
    for size in [256, 8_192, 65_536] {
        assert!(few.contains(&size), "{few:?}");
    }
    let given = Options {
        sizes: Some(vec![300]),
        ..Options::default()
    };
    assert_eq!(sizes(&given, None), (vec![300], false));
}

#[test]
fn slices_are_as_long_as_time_allows() {
    let plan = |within| Plan {
        sizes: &[256],
        round_trips: 24,
        rounds: 4,
        within,
    };
    let paced = |within| plan(within).paced(Duration::from_millis(10), 10, 4);
    assert_eq!(paced(None), 24);
    assert_eq!(paced(Some(Duration::from_secs(60))), 24);
    assert_eq!(paced(Some(Duration::from_millis(5_650))), 10);
    assert_eq!(paced(Some(Duration::ZERO)), LEAST_ROUND_TRIPS);
    let left = |gone| plan(Some(Duration::from_secs(2))).after(gone).within;
    assert_eq!(
        left(Duration::from_millis(1_500)),
        Some(Duration::from_millis(500))
    );
    assert_eq!(left(Duration::from_secs(3)), Some(Duration::ZERO));
    assert_eq!(plan(None).after(Duration::from_secs(3)).within, None);
}

/// [`fixed`], with as much work for each packet at each span.
pub(crate) fn fixed_with_work(ns: f64) -> Trains {
    let mut trains = fixed();
    let sizes = trains.measured.iter_mut().flat_map(|one| &mut one.sizes);
    for span in sizes.flat_map(|size| &mut size.spans) {
        span.work = BySlice::default();
        for slice in 0..SLICES {
            span.work.add(slice, ns, 1.0);
        }
    }
    trains
}

/// Slices of each span in [`fixed`], so that its times have intervals.
const SLICES: usize = 16;

/// A path of packets with two spans and known times, one that could not be run, and one without gates.
pub(crate) fn fixed() -> Trains {
    let queue = Span {
        name: "ip.queue",
        kind: Kind::Queueing,
        layer: tollgate_gate::Layer::Link,
        from: Gate::DriverOutEnd,
        to: Gate::IpInBegin,
        ..SPAN
    };
    let send = Span {
        name: "tcp",
        direction: Direction::Tx,
        layer: tollgate_gate::Layer::Tcp,
        from: Gate::TcpOutBegin,
        to: Gate::DriverOutEnd,
        ..SPAN
    };
    let table = SpanTable::new(Box::leak(Box::new([send, queue, SPAN]))).unwrap();
    let mode = Mode {
        placement: tollgate_workload::Placement::TwoCores,
        waiting: tollgate_workload::Waiting::Blocking,
    };
    let sizes = vec![256, 8_192];
    let train = Subject::Kernel(PathId::KernelLoopback, Carrier::Packets);
    let mut measured = Measured::new(train, mode, Some(table), sizes.len());
    measured.settings = vec![("congestion", "cubic".to_owned())];
    measured.probes.insert(Gate::TcpOutBegin, vec![80.0]);
    measured.slowed = Some(1.031);
    measured.call_ns = Some(150.0);
    for slice in [15_000.0, 15_300.0, 14_700.0] {
        measured.drift.note(&[Some(slice)]);
    }
    measured.sizes[0].disturbed = 2;
    for (at, &size) in sizes.iter().enumerate() {
        let count = packets(size);
        for (index, span) in table.spans().iter().enumerate() {
            let began = 1_000.0 * index as f64;
            let seen = Seen {
                packets: vec![
                    (0..count)
                        .map(|place| {
                            let from = began + 9_000.0 * place as f64;
                            way(from, from + 802.0 + 100.0 * place as f64)
                        })
                        .collect(),
                ],
                requests: vec![way(0.0, 902.0)],
                responses: vec![way(0.0, 4_002.0)],
                usual: vec![0],
                ..Seen::default()
            };
            for _ in 0..SLICES {
                measured.sizes[at].add(index, span, &seen);
            }
            measured.sizes[at].spans[index].beside = (vec![15_300.0], vec![15_000.0]);
        }
        measured.sizes[at].add_ungated(None, &[15_000.0; 1_000], Some(15_000.0));
        measured.sizes[at].turns_ns = measured.call_ns;
    }
    let gso = Subject::Kernel(PathId::KernelLoopback, Carrier::Gso);
    let mut without = Measured::new(gso, mode, None, sizes.len());
    without.without_gates = Some("the kernel's types cannot be read".to_owned());
    without.sizes[1].add_ungated(None, &[30_000.0; 1_000], Some(30_000.0));
    Trains {
        sizes,
        fewer: false,
        measured: vec![measured, without],
        absent: vec![(Subject::Stack, "no processor is left".to_owned())],
        stopped: false,
    }
}

#[test]
fn packets_are_joined_on_the_running_kernel() {
    let mut shared = kernel::Shared::load();
    if let Some(reason) = shared.without_gates() {
        tollgate_skip::skipped!("{reason}");
        return;
    }
    let mode = Mode {
        placement: tollgate_workload::Placement::OneCore,
        waiting: tollgate_workload::Waiting::Blocking,
    };
    let context = Context::new(
        Options::default(),
        None,
        crate::context::Cancel::default(),
        &crate::context::Silent,
    );
    let plan = Plan {
        sizes: &[256, 8_192, 20_000],
        round_trips: 4,
        rounds: 1,
        within: None,
    };
    for subject in SUBJECTS {
        let Subject::Kernel(_, carrier) = subject else {
            continue;
        };
        let measured = kernel::run(subject, carrier, mode, &plan, &mut shared, &context).unwrap();
        assert_eq!(measured.without_gates, None, "{}", subject.label());
        assert!(
            matches!(measured.in_place, Some(Ok(_))),
            "{}",
            subject.label()
        );
        assert!(measured.packets_joined().unwrap() >= 0.95);
        assert!(measured.messages_joined().unwrap() >= 0.99);
        assert_eq!(measured.strange(), 0, "{}", subject.label());
        let table = measured.table.unwrap();
        assert!(
            measured
                .sizes
                .iter()
                .all(|size| size.sum_ns(table).is_some())
        );
    }
}

use std::collections::BTreeMap;

use tollgate_gate::span::Position;
use tollgate_gate::{Gate, Layer};
use tollgate_run::Waiting;

use super::*;
use crate::context::{Cancel, Silent};

const SPAN: Span = Span {
    name: "ip",
    direction: Direction::Rx,
    layer: Layer::Ip,
    kind: Kind::Processing,
    wolman: None,
    kay_pasquale: &[],
    position: Position::OnTheWay,
    from: Gate::IpInBegin,
    to: Gate::DemuxBegin,
};

const ONE_CORE: Mode = Mode {
    placement: Placement::OneCore,
    waiting: Waiting::Blocking,
};

const fn known(ns: f64, half_width: f64) -> Figure {
    Figure { ns, half_width }
}

fn context(options: Options) -> Context<'static> {
    Context::new(options, None, Cancel::default(), &Silent)
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
fn sampled_sizes_lie_one_in_each_part_and_at_no_fixed_place_of_a_segment() {
    let (few, fewer) = sizes(&Options::default(), Some(Duration::from_secs(32)));
    assert!(fewer);
    for part in 0..32 {
        let (from, to) = (part * 2_048, (part + 1) * 2_048);
        let inside = few.iter().filter(|&&size| (from + 1..=to).contains(&size));
        assert!(inside.count() >= 1, "none in {from} to {to}: {few:?}");
    }
    let places: std::collections::HashSet<usize> = few.iter().map(|size| size / 256 % 8).collect();
    assert_eq!(places.len(), 8, "{few:?}");
}

#[test]
fn a_sweep_visits_every_size_in_each_round_and_leaves_out_what_fails() {
    let all = all_sizes();
    let mut visits = BTreeMap::new();
    let shown = swept(&all, &|| 1.0, &mut |size| {
        *visits.entry(size).or_insert(0) += 1;
        match size {
            512 => Err("refused".to_owned()),
            _ => Ok(vec![size as f64; 8]),
        }
    });
    assert!(all.iter().all(|size| visits[size] == LEAST_ROUNDS));
    assert_eq!(shown.len(), 255);
    assert!(
        shown
            .iter()
            .all(|(size, known)| *size != 512 && (known.ns - *size as f64).abs() < 1e-6)
    );
    let stopped = swept(&all, &|| f64::INFINITY, &mut |_| {
        panic!("it was stopped before")
    });
    assert!(stopped.is_empty());
    // Given up in the first round, nothing is known; in a later one, what was measured until then.
    let ran = std::cell::Cell::new(0);
    let until = |most: usize| {
        ran.set(0);
        let passed = || if ran.get() < most { 0.5 } else { 3.0 };
        swept(&all, &passed, &mut |_| {
            ran.set(ran.get() + 1);
            Ok(vec![1.0; 8])
        })
        .len()
    };
    assert_eq!((until(300), until(600)), (0, 256));
}

#[test]
fn amount_is_what_time_and_user_allow() {
    let plan = |iterations, within| Plan {
        sizes: &[256],
        iterations,
        within,
    };
    let amount = |iterations, within| {
        let amount = plan(iterations, within).amount(KERNEL_ROUND_TRIPS);
        (amount.round_trips, amount.least_blocks, amount.time)
    };
    let second = Duration::from_secs(1);
    let least = LEAST_BLOCKS as u32;
    assert_eq!(amount(None, None), (32, BLOCKS, Duration::ZERO));
    assert_eq!(amount(None, Some(second)), (32, least, second));
    assert_eq!(amount(Some(1), None), (8, least, Duration::ZERO));
    assert_eq!(amount(Some(1_000), None), (32, least, Duration::ZERO));
}

/// [`fixed`], with as much work for each packet at each span.
pub(crate) fn fixed_with_work(ns: f64) -> PerPacket {
    let mut per_packet = fixed();
    let sizes = per_packet
        .measured
        .iter_mut()
        .flat_map(|one| &mut one.sizes);
    for ledger in sizes.flat_map(|size| &mut size.ledger) {
        ledger.work = [Some(known(ns, 0.5)); 2];
        for (time, figure) in &mut ledger.packets {
            if matches!(time, PacketTime::Work(_)) {
                figure.ns = ns;
            }
        }
    }
    per_packet
}

/// The ledger of a response of so many packets at three spans: one that sends, a queue, and one that receives.
fn at_gates(packets: usize, left: f64) -> AtGates {
    let mut times = BTreeMap::new();
    for span in 0..3 {
        if span != 1 {
            times.insert(PacketTime::Work(span), known(800.0, 20.0));
        }
        let wait = if span == 1 { 850.0 } else { 0.0 };
        times.insert(PacketTime::Wait(span), known(wait, 15.0));
        for place in 0..packets {
            let wait = if span == 1 {
                800.0 + 100.0 * place as f64
            } else {
                0.0
            };
            times.insert(PacketTime::WaitOf(span, place), known(wait, 25.0));
            if place > 0 {
                times.insert(PacketTime::Gap(span, place), known(9_000.0, 30.0));
            }
        }
    }
    AtGates {
        spans: vec![
            known(4_900.0, 60.0),
            known(4_850.0, 50.0),
            known(4_800.0, 40.0),
            known(300.0, 30.0),
        ],
        packets: times,
        work: [Some(known(800.0, 20.0)); 2],
        closure: Closure {
            left: known(left, 200.0),
            of_ns: 15_000.0,
        },
        unseen: vec![3],
        disabled: None,
        elsewhere: known(310.0, 90.0),
        perturbation: known(3_000.0, 120.0),
        slices: 264,
        blocks: 24,
    }
}

/// A path of packets with three spans and known times, one that could not be run, and one without gates.
pub(crate) fn fixed() -> PerPacket {
    let queue = Span {
        name: "ip.queue",
        kind: Kind::Queueing,
        layer: Layer::Link,
        from: Gate::DriverOutEnd,
        to: Gate::IpInBegin,
        ..SPAN
    };
    let send = Span {
        name: "tcp",
        direction: Direction::Tx,
        layer: Layer::Tcp,
        from: Gate::TcpOutBegin,
        to: Gate::DriverOutEnd,
        ..SPAN
    };
    let table = SpanTable::new(Box::leak(Box::new([send, queue, SPAN]))).unwrap();
    let sizes = vec![256, 8_192];
    let at_sizes = sizes.iter().zip([150.0, 180.0]);
    let at_sizes = at_sizes.map(|(&size, left)| AtSize {
        round_trip: Some(known(15_000.0, 300.0)),
        ledger: Some(at_gates(packets(size), left)),
        messages: (1_000, 995),
        round_trips: 2_000,
        lost: 0,
        failure: None,
    });
    let per_packet = Subject::Kernel(PathId::KernelLoopback, Carrier::Packets);
    let measured = Measured {
        settings: vec![("congestion", "cubic".to_owned())],
        ..Measured::new(per_packet, ONE_CORE, Some(table), at_sizes.collect())
    };
    let gso = Subject::Kernel(PathId::KernelLoopback, Carrier::Gso);
    let mut without = Measured {
        without_gates: Some("the kernel's types cannot be read".to_owned()),
        ..Measured::new(gso, ONE_CORE, None, vec![AtSize::default(); 2])
    };
    without.sizes[1].round_trip = Some(known(30_000.0, 600.0));
    without.sizes[1].round_trips = 1_000;
    PerPacket {
        sizes,
        fewer: false,
        measured: vec![measured, without],
        unavailable: vec![(Subject::Stack, "no processor is left".to_owned())],
        stopped: false,
    }
}

#[test]
fn stack_memory_has_a_ledger_at_each_size() {
    let options = Options {
        iterations: Some(32),
        ..Options::default()
    };
    let sizes = [256, 20_000];
    let plan = Plan {
        sizes: &sizes,
        iterations: options.iterations,
        within: Some(Duration::from_millis(300)),
    };
    let mode = Subject::Stack.mode(&options).unwrap();
    let measured = measure(Subject::Stack, mode, &plan, &context(options)).unwrap();
    assert!(measured.joined().unwrap() >= 0.99);
    for (size, at) in sizes.iter().zip(&measured.sizes) {
        let ledger = at.ledger.as_ref().expect("a ledger");
        assert_eq!(ledger.spans.len(), measured.spans().count() + 1);
        assert!(at.path(Direction::Rx).is_some());
        for (span, _) in measured.worked(Direction::Tx) {
            assert!(at.work(span).is_some());
            let waits = at.wait_by_place(span, packets(*size));
            assert!(waits.iter().all(Option::is_some));
        }
    }
}

#[test]
fn packets_are_joined_on_the_running_kernel() {
    let plan = Plan {
        sizes: &[256, 20_000],
        iterations: Some(8),
        within: None,
    };
    for subject in SUBJECTS {
        if subject == Subject::Stack {
            continue;
        }
        let measured = measure(subject, ONE_CORE, &plan, &context(Options::default()));
        let measured = match measured {
            Ok(measured) => measured,
            Err(reason) if !is_root() => {
                tollgate_skip::skipped!("no root: {reason}");
                return;
            }
            Err(reason) => panic!("{}: {reason}", subject.label()),
        };
        if let Some(reason) = measured.without_gates {
            tollgate_skip::skipped!("no gates here: {reason}");
            return;
        }
        assert_eq!(
            (measured.lost(), measured.unmatched),
            (0, 0),
            "{}",
            subject.label()
        );
        // Of a slice of eight round trips one message has no end yet.
        let joined = measured.joined().unwrap();
        assert!(joined >= 0.9, "{}: {joined}", subject.label());
        let ledgers = measured.sizes.iter().filter(|size| size.ledger.is_some());
        assert_eq!(ledgers.count(), 2, "{}", subject.label());
    }
}

/// Tells whether namespaces of its own may be made.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

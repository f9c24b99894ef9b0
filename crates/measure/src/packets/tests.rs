use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tollgate_gate::delay::Wait;
use tollgate_kernel::{Fault, FaultKind, Side};
use tollgate_run::{Mode, PathId, Placement, Waiting};
use tollgate_workload::Mechanisms;
use tollgate_workload::kernel::per_packet::Carrier;
use tollgate_workload::stack_gates;

use super::synthetic::Machine;
use super::*;
use crate::gated::{self, Amount, Gated, Sized};
use crate::ledger::{Figure, Ledger, Limit, Verdict};
use crate::schedule::Sets;

fn ledger(machine: &mut Machine, blocks: u32, seed: u64) -> Ledger {
    let amount = Amount {
        round_trips: 24,
        least_blocks: blocks,
        time: Duration::ZERO,
        sets: Sets::DEFAULT,
        seed,
    };
    let splits = machine.splits();
    let sized = gated::run(machine, &amount, || true).remove(0);
    assert_eq!((sized.failure, sized.joined), (None, sized.messages));
    Ledger::fit(machine.way(), &splits, &sized.slices, seed).unwrap()
}

/// Count of intervals that hold the true value.
#[derive(Default)]
struct Held {
    rows: u32,
    held: u32,
}

impl Held {
    fn count(&mut self, figure: &Figure, truth: f64) {
        self.rows += 1;
        self.held += u32::from(figure.contains(truth));
    }

    fn share(&self) -> f64 {
        f64::from(self.held) / f64::from(self.rows)
    }
}

/// Seeds are fixed, and so few that the share itself scatters by some hundredths.
#[test]
fn intervals_of_packets_hold_the_truth() {
    let mut held: [Held; 5] = Default::default();
    for seed in 1..=60 {
        let packets = [1, 2, 6][seed as usize % 3];
        let mut machine = Machine::new(packets, seed);
        let ledger = ledger(&mut machine, 16, seed);
        let (spans, work) = (machine.spans(), machine.work);
        for (figure, truth) in ledger.spans.iter().zip(spans) {
            held[0].count(figure, truth);
        }
        held[1].count(&ledger.closure.left, 0.0);
        held[2].count(&ledger.total, spans.iter().sum());
        for span in [1, 4] {
            held[3].count(&ledger.packets[&PacketTime::Work(span)], work[span]);
        }
        // A packet waits in the device queue for those behind it.
        let behind = (packets - 1) as f64 / 2.0;
        let wait = work[2] + behind * (work[1] + work[2]);
        held[4].count(&ledger.packets[&PacketTime::Wait(2)], wait);
    }
    let rows = ["span", "closure", "total", "work", "wait"];
    for (row, held) in rows.iter().zip(&held) {
        println!("{row}: {:.3} of {}", held.share(), held.rows);
        assert!(held.share() >= 0.85, "{row}: {}", held.share());
    }
}

#[test]
fn waits_and_gaps_are_those_of_each_place() {
    let mut machine = Machine::new(4, 7);
    let ledger = ledger(&mut machine, 24, 7);
    let work = machine.work;
    for place in 0..4 {
        let wait = work[2] + (3 - place) as f64 * (work[1] + work[2]);
        let found = ledger.packets[&PacketTime::WaitOf(2, place)];
        assert!(
            (found.ns - wait).abs() < 0.05 * wait,
            "{place} {found:?} {wait}"
        );
        let gap = ledger.packets.get(&PacketTime::Gap(4, place));
        let truth = (place > 0).then_some(work[4] + work[5]);
        assert_eq!(gap.is_some(), truth.is_some());
        for (gap, truth) in gap.iter().zip(truth) {
            assert!(
                (gap.ns - truth).abs() < 0.05 * truth,
                "{place} {gap:?} {truth}"
            );
        }
    }
    // Packets that receive one by one do not wait.
    assert_eq!(ledger.packets[&PacketTime::Wait(4)].ns, 0.0);
    assert_eq!(
        ledger.within.iter().map(|count| count.round()).sum::<f64>(),
        12.0
    );
}

#[test]
fn delay_behind_a_gate_is_found_in_its_span() {
    let mut usual = Machine::new(6, 3);
    let mut slow = Machine::new(6, 4);
    slow.work[4] += 300.0;
    let truth: Vec<f64> = slow
        .spans()
        .iter()
        .zip(usual.spans())
        .map(|(slow, usual)| slow - usual)
        .collect();
    let (usual, slow) = (ledger(&mut usual, 40, 3), ledger(&mut slow, 40, 4));
    let mut pairs = slow.spans.iter().zip(&usual.spans).zip(&truth);
    let outside = pairs.by_ref().filter(|((slow, usual), truth)| {
        let known = slow.half_width + usual.half_width;
        (slow.ns - usual.ns - **truth).abs() > known
    });
    assert_eq!(outside.count(), 0);
    // Behind its own gate for the last packet, and in the span before it for the five packets before.
    assert_eq!((truth[3], truth[4]), (1_500.0, 600.0));
    let work = |ledger: &Ledger| ledger.packets[&PacketTime::Work(4)].ns;
    let longer = work(&slow) - work(&usual);
    assert!((270.0..330.0).contains(&longer), "{longer}");
}

#[test]
fn span_left_out_does_not_close_or_is_named() {
    let mut machine = Machine::new(6, 5);
    let ledger = ledger(&mut machine, 40, 5);
    let unseen: Vec<usize> = ledger.unseen_by_closure().collect();
    for left_out in 0..7 {
        let others: Vec<usize> = (0..7).filter(|&span| span != left_out).collect();
        let verdict = ledger.closure_of(&others).verdict(Limit::ONE_CORE);
        let seen = verdict == Verdict::DoesNotClose;
        assert!(seen || unseen.contains(&left_out), "{left_out} {verdict:?}");
    }
    assert!(unseen.len() < 7, "{unseen:?}");
}

/// Without the passages beside the last packet's the spans would hold what these cost.
#[test]
fn passages_that_are_not_counted_leave_it_open() {
    let mut machine = Machine::new(12, 6);
    machine.uncounted = 1.0;
    let blind = ledger(&mut machine, 40, 6);
    assert_eq!(
        blind.closure.verdict(Limit::ONE_CORE),
        Verdict::DoesNotClose
    );
    let counted = ledger(&mut Machine::new(12, 6), 40, 6);
    assert_eq!(counted.closure.verdict(Limit::ONE_CORE), Verdict::Closes);
    assert!(counted.closure.left.ns.abs() < blind.closure.left.ns.abs());
}

/// Holds a ledger with a delay behind a gate against one without. The length of the delay follows from round trips without gates,
/// by the application's clock. `before` is the span in which the last packet waits for so many passages of others.
fn delay_is_found(usual: &Ledger, slow: &Ledger, gate: usize, (before, waits): (usize, f64)) {
    let others = usual.within[gate];
    let delay = (slow.total.ns - usual.total.ns) / (2.0 + others);
    // On a busy machine the delay itself is known within so much only.
    let about = (slow.total.half_width + usual.total.half_width) / (2.0 + others);
    assert!(delay > 100.0, "{delay}");
    // The intervals of both and of the delay, and a tenth of it: nothing else moves by as much.
    let moved = |slow: &Figure, usual: &Figure, times: f64| {
        let off = slow.ns - usual.ns - times * delay;
        let known =
            slow.half_width + usual.half_width + times * about + 0.1 * delay * times.max(1.0);
        assert!(
            off.abs() <= known,
            "{slow:?} {usual:?} {times} of {delay} +-{about}"
        );
    };
    // The last packet of the request and of the response.
    moved(&slow.spans[gate], &usual.spans[gate], 2.0);
    assert!(others >= 5.0, "{others}");
    moved(&slow.spans[before], &usual.spans[before], waits);
    let work = PacketTime::Work(gate);
    moved(&slow.packets[&work], &usual.packets[&work], 1.0);
}

fn place(gated: &impl Gated, gate: Gate) -> usize {
    let gates = gated.way().gates();
    gates.iter().position(|&one| one == gate).unwrap()
}

/// Ledgers without a fault and with it, block by block in turn, so that both see the same machine.
fn without_and_with<G: Gated, Kept>(
    gated: &mut G,
    round_trips: u64,
    fault: impl Fn(&mut G, bool) -> Kept,
) -> [Ledger; 2] {
    let amount = Amount {
        round_trips,
        least_blocks: 24,
        time: Duration::ZERO,
        sets: Sets::DEFAULT,
        seed: 1,
    };
    let mut random = ChaCha8Rng::seed_from_u64(amount.seed);
    let mut sized = [[Sized::default()], [Sized::default()]];
    for number in 0..amount.least_blocks {
        for (with, sized) in [false, true].into_iter().zip(&mut sized) {
            let kept = fault(gated, with);
            gated::block(gated, &amount, number, &mut random, sized);
            drop(kept);
        }
    }
    sized.map(|[sized]| sized.ledger(gated, 1).unwrap())
}

#[test]
fn delay_in_our_stack_is_found_in_its_span() {
    let mut stack = stack::StackPackets::open(&[8_192], Mechanisms::DEFAULT).unwrap();
    let [usual, slow] = without_and_with(&mut stack, 128, |stack, with| {
        stack.set_fault(with.then(|| stack_gates::Fault {
            gate: Gate::DemuxBegin,
            wait: Wait::calibrate(tollgate_workload::gate_clock(), 3_000.0),
        }));
    });
    let gate = place(&stack, Gate::DemuxBegin);
    // Five packets before it, and acknowledgments that come with the next request.
    let waits = usual.within[gate];
    delay_is_found(
        &usual,
        &slow,
        gate,
        (place(&stack, Gate::DriverInBegin), waits),
    );
}

#[test]
fn delay_in_the_kernel_is_found_in_its_span() {
    let mode = Mode {
        placement: Placement::OneCore,
        waiting: Waiting::Blocking,
    };
    let path = PathId::KernelLoopback;
    let mut kernel = match kernel::KernelPackets::open(path, Carrier::Packets, mode, &[8_192]) {
        Ok(kernel) => kernel,
        Err(reason) => {
            tollgate_skip::skipped!("no gates here: {reason}");
            return;
        }
    };
    let [usual, slow] = without_and_with(&mut kernel, 32, |kernel, with| {
        let delay = Fault {
            gate: Gate::DemuxBegin,
            side: Side::Behind,
            kind: FaultKind::Delay(Duration::from_micros(3)),
        };
        with.then(|| kernel.inject(delay).unwrap())
    });
    let gate = place(&kernel, Gate::DemuxBegin);
    // Five packets before it go all the way; the acknowledgment passes while nobody waits for it there.
    delay_is_found(
        &usual,
        &slow,
        gate,
        (place(&kernel, Gate::TcpOutBegin), 5.0),
    );
}

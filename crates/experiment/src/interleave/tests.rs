//! Tests of runs side by side.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;
use tollgate_stats::{Samples, Timing};

use super::*;
use crate::context::{Cancel, Options, Silent};

#[test]
fn a_row_names_its_contender() {
    let mode = Mode {
        placement: tollgate_run::Placement::OneCore,
        waiting: tollgate_run::Waiting::Blocking,
    };
    let one = Variant::new(PathId::KernelVeth, mode);
    assert_eq!(Variant::named("kernel-veth, 1 core, blocking"), Some(one));
    assert_eq!(Variant::named("kernel-veth, 3 cores"), None);
    let jumbo = Variant {
        mtu: Some(9_000),
        offload: Offload::Checksum,
        ..one
    };
    assert_eq!(
        jumbo.label(),
        "kernel-veth, 1 core, blocking, MTU 9000, no segmentation offload"
    );
    let datagrams = Variant {
        datagrams: true,
        ..one
    };
    assert_eq!(datagrams.label(), "kernel-veth, 1 core, blocking, UDP");
    let cells = Variant {
        link: Some(LinkKind::AtmAal34),
        ..one
    };
    assert_eq!(
        cells.label(),
        "kernel-veth, 1 core, blocking, link atm-aal34"
    );
    let switched = Variant {
        switched: Mechanisms::each().next().map(|(.., mechanisms)| Switched {
            mechanisms,
            label: None,
        }),
        ..one
    };
    assert_eq!(
        switched.label(),
        "kernel-veth, 1 core, blocking, prediction=unidirectional"
    );
}

#[test]
fn paths_that_are_dear_to_open_have_to_be_named() {
    let named = |path| Some(vec![PathId::StackMemory, path]);
    let has = |paths: Option<Vec<PathId>>, path| {
        let options = Options {
            paths,
            ..Options::default()
        };
        let context = Context::new(options, None, Cancel::default(), &Silent);
        let matrix = Matrix::of(Workload::Rr, &context).unwrap();
        let mut variants = matrix.variants.iter();
        variants.any(|variant| variant.path == path)
    };
    for path in [PathId::StackTap, PathId::StackPacket, PathId::StackXdp] {
        assert!(!has(None, path), "{path}");
        assert!(has(named(path), path), "{path}");
    }
}

#[test]
fn an_mtu_is_that_of_every_path_and_others_say_why_they_are_absent() {
    let options = Options {
        paths: Some(vec![PathId::StackMemory, PathId::PeerSmoltcp]),
        sizes: Some(vec![4]),
        mtu: Some(9_000),
        iterations: Some(8),
        ..Options::default()
    };
    let context = Context::new(options, None, Cancel::default(), &Silent);
    let matrix = Matrix::of(Workload::Rr, &context).unwrap();
    let paths: Vec<PathId> = matrix.variants.iter().map(|one| one.path).collect();
    assert_eq!(paths, [PathId::StackMemory]);
    assert_eq!(
        matrix.unavailable,
        [(
            "peer-smoltcp".to_owned(),
            "peer-smoltcp has an MTU of its own".to_owned()
        )]
    );
    let spec = matrix.variants[0].spec(Workload::Rr, 4, &context);
    let session = matrix.variants[0].open(&spec, &context).unwrap().unwrap();
    assert!(session.settings().contains(&("mtu", "9000".to_owned())));
}

/// Devices that sessions share: made for the first of them, gone with the last.
#[derive(Default)]
struct Shared {
    open: Cell<u32>,
    made: Cell<u32>,
}

/// A session on such devices, whose operations take no time.
struct OnShared(Rc<Shared>);

impl OnShared {
    fn open(shared: &Rc<Shared>) -> Self {
        if shared.open.replace(shared.open.get() + 1) == 0 {
            shared.made.set(shared.made.get() + 1);
            std::thread::sleep(Duration::from_millis(100));
        }
        Self(Rc::clone(shared))
    }
}

impl Drop for OnShared {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
    }
}

impl Session for OnShared {
    fn run(
        &mut self,
        iterations: u64,
        samples: &mut Samples,
    ) -> Result<(), tollgate_workload::Error> {
        samples.record(iterations, iterations as u32);
        samples.add_slice(iterations, iterations);
        Ok(())
    }

    fn timing(&self) -> Timing {
        Timing::Each
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

#[test]
fn pilot_makes_what_sessions_share_once_and_dear_sessions_go_on() {
    let options = Options {
        paths: Some(vec![PathId::KernelVeth]),
        iterations: Some(8),
        ..Options::default()
    };
    let little = Some(Duration::from_secs(10));
    let mut context = Context::new(options, little, Cancel::default(), &Silent);
    context.begin("", 1, 1);
    let shared = Rc::default();
    let opener = |_: &Variant, _: &Spec| -> Option<Result<Box<dyn Session>, _>> {
        Some(Ok(Box::new(OnShared::open(&shared))))
    };
    let matrix = Matrix::of(Workload::Rr, &context).unwrap();
    let mut run = InterleavedRun::new(matrix, &[4, 200], &context, &opener);
    run.pilot();
    assert_eq!(shared.made.get(), 1);
    // The first session was dear, for it made the devices; it stays for two repetitions.
    assert!(run.kept[0][0].is_some());
    run.repetitions();
    assert_eq!(run.outcome.repetitions, REPETITIONS);
    assert_eq!(shared.made.get(), REPETITIONS / DEAR_SERVES);
}

/// A clock that sessions move on.
fn clock() -> &'static Cell<Instant> {
    Box::leak(Box::new(Cell::new(Instant::now())))
}

/// The context of an experiment with so much time by that clock.
fn by(clock: &'static Cell<Instant>, path: PathId, time: Duration) -> Context<'static> {
    let options = Options {
        paths: Some(vec![path]),
        ..Options::default()
    };
    let now = Box::new(|| clock.get());
    let mut context = Context::by_clock(options, Some(time), Cancel::default(), &Silent, now);
    context.begin("", 1, 1);
    context
}

/// A session that takes a second for its fourth slice, and says that none takes any time.
struct Stalling {
    clock: &'static Cell<Instant>,
    ran: Rc<Cell<u32>>,
}

impl Session for Stalling {
    fn run(
        &mut self,
        iterations: u64,
        samples: &mut Samples,
    ) -> Result<(), tollgate_workload::Error> {
        self.ran.set(self.ran.get() + 1);
        if self.ran.get() == 4 {
            self.clock.set(self.clock.get() + Duration::from_secs(1));
        }
        samples.record(iterations, iterations as u32);
        samples.add_slice(iterations, iterations);
        Ok(())
    }

    fn timing(&self) -> Timing {
        Timing::Each
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

#[test]
fn slices_end_when_the_machine_has_taken_the_time() {
    let clock = clock();
    let context = by(clock, PathId::StackMemory, Duration::from_secs(1));
    let ran = Rc::<Cell<u32>>::default();
    let opener = |_: &Variant, _: &Spec| -> Option<Result<Box<dyn Session>, _>> {
        let ran = Rc::clone(&ran);
        Some(Ok(Box::new(Stalling { clock, ran })))
    };
    let matrix = Matrix::of(Workload::Rr, &context).unwrap();
    let mut run = InterleavedRun::new(matrix, &[4], &context, &opener);
    run.pilot();
    assert_eq!(ran.get(), 3);
    run.repetitions();
    // One slice in each of the repetitions that are always made.
    assert_eq!(ran.get(), 3 + ALWAYS);
}

/// A session on a clock of its own, by which an iteration takes 14 ms, as where 15 others want the processors.
struct Crowded {
    clock: &'static Cell<Instant>,
    warmup: u64,
}

const CROWDED: Duration = Duration::from_millis(14);

impl Session for Crowded {
    fn run(
        &mut self,
        iterations: u64,
        samples: &mut Samples,
    ) -> Result<(), tollgate_workload::Error> {
        let all = CROWDED * (self.warmup + iterations) as u32;
        self.clock.set(self.clock.get() + all);
        let ns = CROWDED.as_nanos() as u64;
        (0..iterations).for_each(|_| samples.record(ns, 1));
        samples.add_slice(iterations, iterations * ns);
        Ok(())
    }

    fn timing(&self) -> Timing {
        Timing::Each
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

#[test]
fn first_rounds_of_a_crowded_machine_keep_to_the_time() {
    let time = Duration::from_secs(5);
    let clock = clock();
    let begun = clock.get();
    let context = by(clock, PathId::KernelLoopback, time);
    let opener = |_: &Variant, spec: &Spec| -> Option<Result<Box<dyn Session>, _>> {
        let warmup = spec.warmup.into();
        Some(Ok(Box::new(Crowded { clock, warmup })))
    };
    let matrix = Matrix::of(Workload::Rr, &context).unwrap();
    let sizes = crate::context::SIZES;
    let mut run = InterleavedRun::new(matrix, &sizes, &context, &opener);
    let spent = || clock.get() - begun;
    let (variants, usual) = (run.outcome.matrix.variants.len() as u32, 8);
    let cells = variants * sizes.len() as u32;

    // Each variant is tried once, whatever that takes.
    run.pilot();
    let once = CROWDED * (usual + 1) * variants;
    assert!(spent() < time.mul_f64(PILOT_SHARE) + once, "{:?}", spent());
    assert!(run.costs.iter().flatten().all(|ns| *ns == 14e6));

    // Those that the time does not reach have one round trip in each session, so that there is an interval.
    run.repetitions();
    let late = CROWDED * (WARMUP_OF_SLOW + 1) * cells * ALWAYS;
    assert!(spent() < time + late, "{:?}", spent());
    for measurement in run.outcome.measurements.iter().flatten() {
        assert!(measurement.operations() >= ALWAYS.into());
    }
}

#[test]
fn sessions_of_a_group_fit_the_descriptors() {
    assert_eq!(most_open(Workload::Rr, Some(1_024)), 64);
    assert_eq!(most_open(Workload::Crr, Some(1_024)), 21);
    assert_eq!(most_open(Workload::Rr, None), usize::MAX);
    let options = Options {
        paths: Some(vec![PathId::KernelLoopback]),
        ..Options::default()
    };
    let second = Some(Duration::from_secs(1));
    let mut context = Context::new(options, second, Cancel::default(), &Silent);
    context.begin("", 1, 1);
    let shared = Rc::default();
    let opener = |_: &Variant, _: &Spec| -> Option<Result<Box<dyn Session>, _>> {
        Some(Ok(Box::new(OnShared::open(&shared))))
    };
    let matrix = Matrix::of(Workload::Rr, &context).unwrap();
    let sizes: Vec<usize> = (1..=100_000).collect();
    let mut run = InterleavedRun::new(matrix, &sizes, &context, &opener);
    run.short = true;
    let limit = getrlimit(Resource::Nofile).current;
    let most = most_open(Workload::Rr, limit).max(run.outcome.matrix.variants.len());
    assert!(run.groups().iter().all(|group| group.len() <= most));
}

#[test]
fn opening_leaves_half_of_the_time_for_running() {
    let seconds = Duration::from_secs;
    let within = |opening, serves, wanted| {
        repetitions_within(seconds(15), seconds(opening), (serves, wanted))
    };
    assert_eq!(within(2, 1, 20), 3);
    assert_eq!(within(1, 1, 20), 7);
    assert_eq!(within(0, 1, 6), 6);
    // Three sessions at least, where so many are wanted.
    assert_eq!(within(20, 1, 6), PLANNED);
    assert_eq!(within(20, DEAR_SERVES, 20), PLANNED * DEAR_SERVES);
    assert_eq!(within(20, 1, 1), 1);
}

#[test]
fn without_a_budget_all_run_in_full() {
    assert_eq!(
        shares(&[10.0, f64::INFINITY, 1e9], 500, None),
        [500, 0, 500]
    );
}

#[test]
fn the_slow_ones_give_way() {
    // 1 ns and 1,000 ns, 1,000 times each, in 501,000 ns: the first in full, the second half.
    assert_eq!(
        shares(&[1.0, 1_000.0], 1_000, Some(501_000.0)),
        [1_000, 500]
    );
    assert_eq!(shares(&[1_000.0], 1_000, Some(0.0)), [LEAST]);
}

#[test]
fn slices_add_up() {
    for iterations in [0, 1, 7, 8, 9, 40_000] {
        let sum: u64 = (0..8).map(|slice| slice_of(iterations, slice, 8)).sum();
        assert_eq!(sum, iterations);
        let one: Vec<u64> = (0..8).map(|slice| slice_of(iterations, slice, 1)).collect();
        assert_eq!(one, [iterations, 0, 0, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn scaling_keeps_a_least_number() {
    assert_eq!(scaled(40_000, 0.5), 20_000);
    assert_eq!(scaled(40_000, 0.0), LEAST);
    assert_eq!(scaled(5, 0.1), 5);
}

proptest! {
    #[test]
    fn shares_fit_the_budget_or_are_least(
        costs in prop::collection::vec(1.0f64..1e6, 1..20),
        wanted in 1u64..100_000,
        budget in 0.0f64..1e10,
    ) {
        let given = shares(&costs, wanted, Some(budget));
        let least = LEAST.min(wanted);
        prop_assert!(given.iter().all(|&n| n >= least && n <= wanted));
        let above: f64 = given.iter().zip(&costs).filter(|&(&n, _)| n > least).map(|(&n, cost)| n as f64 * cost).sum();
        prop_assert!(above <= budget * 1.000_001);
    }
}

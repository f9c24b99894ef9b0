//! Tests with a second process. They need a `main` of their own, which hands over to a child's role first; so this is a
//! plain program, run by `cargo test` (harness = false).

use std::fs;
use std::os::fd::AsFd;
use std::panic::catch_unwind;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use any_spec::{any_spec, seeds};
use tollgate_run::{Mode, PathId, Placement, Waiting, Workload};
use tollgate_workload::child::{self, Child, ChildEnd, Role};
use tollgate_workload::shared_memory::SharedMemory;
use tollgate_workload::{Error, FaultyLink, LinkKind, Mechanisms, Sockets, Spec, Transport, find};

mod any_spec;

/// Set in a copy of this program that opens a session and then sleeps, to be killed.
const VICTIM: &str = "TOLLGATE_TEST_VICTIM";

const ROLES: &[Role] = &[
    Role {
        name: "refuses",
        serve: refuses,
    },
    Role {
        name: "dies",
        serve: dies,
    },
    Role {
        name: "deaf",
        serve: deaf,
    },
];

fn refuses(mut child: ChildEnd<'_>) -> Result<(), Error> {
    child.server.next_order();
    Err(Error::Stopped {
        path: PathId::StackShm,
    })
}

fn dies(mut child: ChildEnd<'_>) -> Result<(), Error> {
    child.server.next_order();
    std::process::exit(7);
}

/// Takes orders, and does not listen when it is told to stop.
fn deaf(mut child: ChildEnd<'_>) -> Result<(), Error> {
    child.server.next_order();
    child.server.ready();
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn main() -> ExitCode {
    if let Some(outcome) = tollgate_workload::maybe_run_with(ROLES) {
        return if outcome.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    if std::env::var_os(VICTIM).is_some() {
        return victim();
    }
    let tests: &[(&str, fn())] = &[
        (
            "rr_carries_every_byte_between_processes",
            rr_carries_every_byte_between_processes,
        ),
        (
            "stacks_carry_every_byte_between_processes",
            stacks_carry_every_byte_between_processes,
        ),
        (
            "runs_of_any_kind_carry_their_bytes_between_processes",
            runs_of_any_kind_carry_their_bytes_between_processes,
        ),
        (
            "datagrams_carry_every_byte_between_processes",
            datagrams_carry_every_byte_between_processes,
        ),
        (
            "every_link_carries_every_byte_between_processes",
            every_link_carries_every_byte_between_processes,
        ),
        (
            "cells_meet_faults_between_processes",
            cells_meet_faults_between_processes,
        ),
        (
            "mechanisms_reach_both_processes",
            mechanisms_reach_both_processes,
        ),
        (
            "stacks_in_processes_outlast_long_pauses",
            stacks_in_processes_outlast_long_pauses,
        ),
        (
            "redundancy_avoidance_is_agreed_on_by_both_processes",
            redundancy_avoidance_is_agreed_on_by_both_processes,
        ),
        ("a_stack_that_dies_is_noticed", a_stack_that_dies_is_noticed),
        ("an_idle_child_sleeps", an_idle_child_sleeps),
        ("dropping_reaps_the_child", dropping_reaps_the_child),
        (
            "a_child_that_ignores_the_end_is_killed",
            a_child_that_ignores_the_end_is_killed,
        ),
        ("a_failing_child_says_why", a_failing_child_says_why),
        ("a_dying_child_is_noticed", a_dying_child_is_noticed),
        ("an_unknown_role_says_so", an_unknown_role_says_so),
        ("no_descriptor_is_left_open", no_descriptor_is_left_open),
        ("a_child_dies_with_its_parent", a_child_dies_with_its_parent),
        (
            "orders_that_cannot_be_read_are_refused",
            orders_that_cannot_be_read_are_refused,
        ),
    ];
    if !two_cores() {
        tollgate_skip::skipped!("one core only: the paths with two processes cannot run here");
        // In the form of the test harness: this program counts as one test, and as one that is skipped.
        println!("test result: ok. 1 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, test) in tests {
        let passed = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += usize::from(!passed);
    }
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {outcome}. {} passed; {failed} failed; 0 ignored",
        tests.len() - failed
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn two_cores() -> bool {
    tollgate_workload::cores::Cores::choose(Placement::TwoCores).is_ok()
}

fn spec(size: usize) -> Spec {
    Spec {
        warmup: 2,
        ..Spec::new(Workload::Rr, size)
    }
    .with_mode(Placement::TwoCores, Waiting::BusyPoll)
    .verified()
}

fn memory() -> SharedMemory {
    SharedMemory::create("tollgate-test", 4096).expect("memory")
}

fn spawn(role: &str) -> Child {
    Child::spawn(PathId::StackShm, role, &spec(4), memory().as_fd(), 0).expect("spawned")
}

/// The children of this process that have not been reaped.
fn children() -> Vec<u32> {
    let list = format!("/proc/self/task/{}/children", std::process::id());
    let text = fs::read_to_string(list).expect("the kernel lists children");
    text.split_whitespace()
        .map(|id| id.parse().expect("a number"))
        .collect()
}

/// The state letter of a process (proc_pid_stat(5)); `None` when there is no such process.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// Looks until it is so, at most so many times: a machine under load takes longer over them.
fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    const LOOKS: usize = 10_000;
    for _ in 0..LOOKS {
        if so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("never: {what}");
}

fn rr_carries_every_byte_between_processes() {
    let path = find(PathId::BareShm).expect("there");
    for size in [1, 4, 56, 57, 1400, 8000, 100_000] {
        let mut session = path.open(&spec(size)).expect("open");
        let mut samples = session.new_samples();
        for iterations in [20, 1, 0, 12] {
            session.run(iterations, &mut samples).expect("run");
        }
        assert_eq!(samples.operations(), 33);
        assert_eq!(samples.bytes(), 66 * size as u64);
    }
    assert_eq!(children(), [] as [u32; 0]);
}

fn stacks_carry_every_byte_between_processes() {
    let path = find(PathId::StackShm).expect("there");
    for mode in path.capabilities().modes {
        for (workload, sizes) in [
            (Workload::Rr, &[1, 4, 1448, 1449, 8000, 100_000][..]),
            (Workload::Crr, &[4, 1400, 8000]),
            (Workload::Stream, &[4, 1400, 8000, 100_000]),
        ] {
            for &size in sizes {
                let spec = Spec {
                    workload,
                    ..spec(size).with_mode(mode.placement, mode.waiting)
                };
                let mut session = path.open(&spec).expect("open");
                let mut samples = session.new_samples();
                for iterations in [20, 1, 0, 12] {
                    session
                        .run(iterations, &mut samples)
                        .unwrap_or_else(|error| panic!("{workload} {size} {mode}: {error}"));
                }
                assert_eq!(samples.operations(), 33);
                let ways = if workload == Workload::Stream { 1 } else { 2 };
                assert_eq!(samples.bytes(), 33 * ways * size as u64);
            }
        }
    }
    assert_eq!(children(), [] as [u32; 0]);
}

fn runs_of_any_kind_carry_their_bytes_between_processes() {
    for id in [PathId::StackShm, PathId::StackMemory] {
        let path = find(id).expect("there");
        let modes = path.capabilities().modes;
        for seed in seeds(1..=12) {
            let spec = any_spec(seed, modes, false).reversed(false);
            let mut session = path.open(&spec).expect("open");
            let mut samples = session.new_samples();
            session
                .run(40, &mut samples)
                .unwrap_or_else(|error| panic!("{id} seed {seed}: {spec:?}: {error}"));
            assert_eq!(samples.operations(), 40);
        }
    }
    assert_eq!(children(), [] as [u32; 0]);
}

fn datagrams_carry_every_byte_between_processes() {
    let path = find(PathId::StackShm).expect("there");
    for &link in LinkKind::ALL {
        for mode in path.capabilities().modes {
            for size in [1, 1_472, 1_473, 60_000] {
                let spec = Spec { link, ..spec(size) }
                    .with_mode(mode.placement, mode.waiting)
                    .over(Sockets {
                        transport: Transport::Udp,
                        ..Sockets::PLAIN
                    });
                let mut session = path.open(&spec).expect("open");
                let mut samples = session.new_samples();
                for iterations in [20, 1, 0, 12] {
                    session
                        .run(iterations, &mut samples)
                        .unwrap_or_else(|error| panic!("{link} {size} {mode}: {error}"));
                }
                assert_eq!(samples.bytes(), 33 * 2 * size as u64);
            }
        }
    }
    assert_eq!(children(), [] as [u32; 0]);
}

/// Both processes lose cells by the orders of the first, and the first tells the counts of both.
fn cells_meet_faults_between_processes() {
    let path = find(PathId::StackShm).expect("there");
    let FaultyLink { kind, faults } = "atm-aal34,loss=0.001,seed=7".parse().expect("valid");
    for mode in path.capabilities().modes {
        let spec = spec(1_000)
            .with_mode(mode.placement, mode.waiting)
            .with_link(kind)
            .with_cells(faults);
        let mut session = path.open(&spec).expect("open");
        let mut last = session.cell_counts().expect("cells move");
        for iterations in [200, 100] {
            session
                .run(iterations, &mut session.new_samples())
                .unwrap_or_else(|error| panic!("{mode}: {error}"));
            let counts = session.cell_counts().expect("cells move");
            // A message of 1,000 bytes takes more than 20 cells of 44 bytes.
            let sent = counts.since(&last).sent;
            assert!(sent > iterations * 2 * 20, "{mode}: {counts:?}");
            last = counts;
        }
        assert!(last.lost > 0 && last.gaps > 0, "{mode}: {last:?}");
        assert_eq!(last.damaged + last.bad_crcs, 0, "{mode}: {last:?}");
    }
    assert_eq!(children(), [] as [u32; 0]);
}

fn every_link_carries_every_byte_between_processes() {
    let path = find(PathId::StackShm).expect("there");
    for &link in LinkKind::ALL {
        for mode in path.capabilities().modes {
            for (workload, size) in [
                (Workload::Rr, 1),
                (Workload::Rr, 100_000),
                (Workload::Crr, 8_000),
                (Workload::Stream, 100_000),
            ] {
                let spec = Spec {
                    workload,
                    link,
                    ..spec(size).with_mode(mode.placement, mode.waiting)
                };
                let mut session = path.open(&spec).expect("open");
                for iterations in [5, 20] {
                    session
                        .run(iterations, &mut session.new_samples())
                        .unwrap_or_else(|error| panic!("{link} {workload} {size} {mode}: {error}"));
                }
            }
        }
    }
    assert_eq!(children(), [] as [u32; 0]);
}

/// A session of each value of each mechanism carries every byte.
fn mechanisms_reach_both_processes() {
    let path = find(PathId::StackShm).expect("there");
    let mode = path.capabilities().modes[0];
    for (name, value, mechanisms) in Mechanisms::each() {
        for (workload, size) in [(Workload::Rr, 5000), (Workload::Stream, 700)] {
            let spec = Spec {
                workload,
                ..spec(size).with_mode(mode.placement, mode.waiting)
            }
            .with_mechanisms(mechanisms);
            let mut session = path.open(&spec).expect("open");
            session
                .run(20, &mut session.new_samples())
                .unwrap_or_else(|error| panic!("{name}={value} {workload}: {error}"));
        }
    }
}

/// Longer than the retransmission timeout, with delayed ACKs due at both ends.
fn stacks_in_processes_outlast_long_pauses() {
    let mut session = find(PathId::StackShm)
        .expect("there")
        .open(&spec(8000))
        .expect("open");
    for _ in 0..2 {
        session.run(3, &mut session.new_samples()).expect("run");
        std::thread::sleep(Duration::from_millis(250));
    }
    session.run(3, &mut session.new_samples()).expect("run");
}

fn redundancy_avoidance_is_agreed_on_by_both_processes() {
    let mut mechanisms = Mechanisms::DEFAULT;
    mechanisms
        .set("checksum", "redundancy-avoidance")
        .expect("there is such a value");
    for &workload in Workload::ALL {
        let spec = Spec {
            workload,
            ..spec(2000)
        };
        let mut session = find(PathId::StackShm)
            .expect("there")
            .open(&spec.with_mechanisms(mechanisms).verified())
            .expect("open");
        session.run(16, &mut session.new_samples()).expect("run");
        let settings = session.settings();
        let told = settings.iter().find(|(name, _)| *name == "checksums");
        let (_, how) = told.expect("it is told");
        assert!(
            how.starts_with("redundancy avoidance, left out"),
            "{workload}: {how}"
        );
    }
}

fn a_stack_that_dies_is_noticed() {
    for &waiting in Waiting::ALL {
        let spec = spec(4).with_mode(Placement::TwoCores, waiting);
        let mut session = find(PathId::StackShm)
            .expect("there")
            .open(&spec)
            .expect("open");
        session.run(5, &mut session.new_samples()).expect("run");
        let [child] = children()[..] else {
            panic!("one child")
        };
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            let child = i32::try_from(child)
                .ok()
                .and_then(rustix::process::Pid::from_raw);
            rustix::process::kill_process(
                child.expect("a process id"),
                rustix::process::Signal::KILL,
            )
        });
        let error = loop {
            if let Err(error) = session.run(2000, &mut session.new_samples()) {
                break error;
            }
        };
        killer.join().expect("joined").expect("killed");
        assert!(
            error
                .to_string()
                .contains("the second process ended (signal: 9"),
            "{error}"
        );
    }
}

fn an_idle_child_sleeps() {
    for id in [PathId::BareShm, PathId::StackShm] {
        let mut session = find(id).expect("there").open(&spec(4)).expect("open");
        session.run(5, &mut session.new_samples()).expect("run");
        let [child] = children()[..] else {
            panic!("one child")
        };
        eventually("asleep", || state(child) == Some('S'));
        session
            .run(5, &mut session.new_samples())
            .expect("run again");
    }
}

fn dropping_reaps_the_child() {
    let path = find(PathId::BareShm).expect("there");
    let unused = path.open(&spec(4)).expect("open");
    let [child] = children()[..] else {
        panic!("one child")
    };
    drop(unused);
    assert_eq!(children(), [] as [u32; 0]);
    assert_eq!(state(child), None);

    let spec = spec(4);
    let shared = SharedMemory::create("tollgate-test", 1 << 16).expect("memory");
    let mut middle =
        Child::spawn(PathId::BareShm, "bare-shm", &spec, shared.as_fd(), 0).expect("spawned");
    middle.begin(1_000_000).expect("begun");
    drop(middle);
    assert_eq!(children(), [] as [u32; 0]);
}

fn a_child_that_ignores_the_end_is_killed() {
    let mut child = spawn("deaf");
    child.begin(1).expect("begun");
    let id = child.id();
    drop(child);
    assert_eq!(state(id), None);
}

fn a_failing_child_says_why() {
    let mut child = spawn("refuses");
    let error = child.begin(1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stack-shm: the other end failed: stack-shm: stopped in the middle of a slice"
    );
}

fn a_dying_child_is_noticed() {
    let mut child = spawn("dies");
    let error = child.begin(1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stack-shm: the other end failed: the second process ended (exit status: 7)"
    );
    assert!(child.check().is_err());
}

fn an_unknown_role_says_so() {
    let mut child = spawn("juggler");
    let error = child.begin(1).unwrap_err();
    assert!(
        error.to_string().contains("unknown role `juggler`"),
        "{error}"
    );
}

fn no_descriptor_is_left_open() {
    let open = || fs::read_dir("/proc/self/fd").expect("listed").count();
    let before = open();
    for id in [PathId::BareShm, PathId::StackShm, PathId::StackShm] {
        drop(find(id).expect("there").open(&spec(4)).expect("open"));
    }
    assert_eq!(open(), before);
}

/// Opens a session, says which child it has, and sleeps.
fn victim() -> ExitCode {
    let _session = find(PathId::BareShm)
        .expect("there")
        .open(&spec(4))
        .expect("open");
    println!("{}", children()[0]);
    std::thread::sleep(Duration::from_secs(60));
    ExitCode::SUCCESS
}

fn a_child_dies_with_its_parent() {
    use std::io::BufRead;
    let mut parent = Command::new("/proc/self/exe")
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawned");
    let mut line = String::new();
    std::io::BufReader::new(parent.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("read");
    let child: u32 = line.trim().parse().expect("a process id");
    assert!(state(child).is_some());
    parent.kill().expect("killed");
    parent.wait().expect("reaped");
    // Whoever inherits the orphan reaps it; until then it is a zombie.
    eventually("dead", || matches!(state(child), None | Some('Z')));
}

fn orders_that_cannot_be_read_are_refused() {
    for orders in ["", "{}", "{\"role\":"] {
        let status = Command::new("/proc/self/exe")
            .env(child::ORDERS, orders)
            .status()
            .expect("run");
        assert!(!status.success(), "{orders}");
    }
}

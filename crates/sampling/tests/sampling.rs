//! Sampling on the real kernel: an echo over loopback is seen, by function, and what is not the workload's is kept apart.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollgate_sampling::{
    CallPaths, Categories, Classifier, Clock, Mode, Profile, RATE, RING, SampleError, Sampler,
    Symbols, TaskKind,
};

/// The variable by which this program knows that it is in a process namespace of its own.
const INSIDE: &str = "TOLLGATE_TEST_INSIDE";

/// The sampler and the names, or why this machine gives none.
fn open(clock: Clock, ring: usize) -> Option<(Sampler, CallPaths)> {
    let cpus: Vec<usize> = (0..std::thread::available_parallelism().ok()?.get()).collect();
    let symbols = match Symbols::read() {
        Ok(symbols) => symbols,
        Err(reason) => {
            tollgate_skip::skipped!("{reason}");
            return None;
        }
    };
    match Sampler::open_with(clock, &cpus, RATE, ring) {
        Ok(sampler) => Some((sampler, CallPaths::new(symbols))),
        Err(reason @ (SampleError::Denied { .. } | SampleError::System { .. })) => {
            tollgate_skip::skipped!("{reason}");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Echoes for a while within one process.
fn echo(time: Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut buffer = [0; 2_000];
    let begun = Instant::now();
    while begun.elapsed() < time {
        client.write_all(&buffer).unwrap();
        server.read_exact(&mut buffer).unwrap();
        server.write_all(&buffer).unwrap();
        client.read_exact(&mut buffer).unwrap();
    }
}

fn an_echo_is_seen(clock: Clock) {
    let Some((mut sampler, mut call_paths)) = open(clock, RING) else {
        return;
    };
    let mut profile = Profile::default();
    sampler.start().unwrap();
    echo(Duration::from_millis(400));
    sampler.stop().unwrap();
    sampler.drain(&mut call_paths, &mut profile);
    assert_eq!(profile.malformed, 0);
    assert!(profile.count(TaskKind::Workload, Mode::Kernel).samples > 50);
    let mut classifier = Classifier::new(Categories::kay());
    let shown = classifier.breakdown(&call_paths, &profile);
    let categories = classifier.categories().clone();
    let share = |name: &str| {
        shown.shares[categories.position(name).unwrap()]
            .count
            .samples
    };
    assert!(share("ProtSpec") > 0 && share("OpSys") > 0, "{shown:?}");
    assert!(
        shown.covered().unwrap() >= 0.95,
        "{:?}",
        shown.other_functions
    );
    assert!(shown.total().weight > 0);

    // What a stopped sampler gives is nothing.
    let mut after = Profile::default();
    echo(Duration::from_millis(20));
    sampler.drain(&mut call_paths, &mut after);
    assert_eq!(after.samples(), 0);
}

#[test]
fn an_echo_is_seen_by_the_clock() {
    an_echo_is_seen(Clock::CpuClock);
}

#[test]
fn an_echo_is_seen_by_the_cycle_counter() {
    an_echo_is_seen(Clock::Cycles);
}

#[test]
fn every_embedded_file_covers_an_echo() {
    let Some((mut sampler, mut call_paths)) = open(Clock::CpuClock, RING) else {
        return;
    };
    let mut profile = Profile::default();
    sampler.start().unwrap();
    echo(Duration::from_millis(300));
    sampler.stop().unwrap();
    sampler.drain(&mut call_paths, &mut profile);
    for categories in [Categories::kay(), Categories::foong(), Categories::clark()] {
        let name = categories.name.clone();
        let shown = Classifier::new(categories).breakdown(&call_paths, &profile);
        let covered = shown.covered().unwrap();
        assert!(
            covered >= 0.95,
            "{name}: {covered}, {:?}",
            shown.other_functions
        );
    }
}

#[test]
fn a_ring_that_is_not_drained_loses_samples_and_says_so() {
    let Some((mut sampler, mut call_paths)) = open(Clock::CpuClock, 64 << 10) else {
        return;
    };
    sampler.start().unwrap();
    // Some 6,000 samples, of at least 32 bytes each.
    echo(Duration::from_millis(600));
    let mut profile = Profile::default();
    sampler.drain(&mut call_paths, &mut profile);
    // The record that tells of a loss is written with the first sample that has room again.
    echo(Duration::from_millis(50));
    sampler.stop().unwrap();
    sampler.drain(&mut call_paths, &mut profile);
    assert!(profile.lost > 0, "{} samples, none lost", profile.samples());
}

/// The part of the next test that runs in a process namespace of its own, while another process works outside of it.
#[test]
fn inside_a_process_namespace() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let Some((mut sampler, mut call_paths)) = open(Clock::CpuClock, RING) else {
        return;
    };
    sampler.start().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    sampler.stop().unwrap();
    let mut profile = Profile::default();
    sampler.drain(&mut call_paths, &mut profile);
    let count = |task| profile.count(task, Mode::User).samples;
    assert!(count(TaskKind::Other) > 50, "{}", count(TaskKind::Other));
    assert_eq!(count(TaskKind::Idle), 0);
}

#[test]
fn processes_outside_of_a_namespace_are_not_idle() {
    let is_over = AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let run = Command::new("unshare")
            .args(["--pid", "--fork", "--mount-proc"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "inside_a_process_namespace"])
            .env(INSIDE, "1")
            .output();
        is_over.store(true, Ordering::Relaxed);
        run
    });
    let output = match run {
        Ok(output) => output,
        Err(error) => {
            tollgate_skip::skipped!("unshare: {error}");
            return;
        }
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.starts_with("unshare: ") {
        tollgate_skip::skipped!("{errors}");
        return;
    }
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}{errors}");
}

#[test]
fn a_processor_that_does_not_exist_is_an_error() {
    let error = Sampler::open(&[100_000], RATE).unwrap_err();
    assert!(!error.to_string().is_empty());
}

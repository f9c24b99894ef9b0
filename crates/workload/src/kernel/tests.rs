//! Tests of `kernel-loopback` on the real kernel: content, failures, and that nothing is left behind.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::bulk::BulkSession;
use super::*;
use crate::slice::{CONNECTIONS_EACH, OtherEnd};
use crate::sockets::{Reading, Sending};
use crate::spec::MAX_SIZE;

fn modes() -> Vec<(Placement, Waiting)> {
    KernelLoopback::DEFAULT
        .capabilities()
        .modes
        .iter()
        .map(|mode| (mode.placement, mode.waiting))
        .collect()
}

fn spec(workload: Workload, size: usize, (placement, waiting): (Placement, Waiting)) -> Spec {
    Spec {
        warmup: 2,
        ..Spec::new(workload, size)
            .with_mode(placement, waiting)
            .verified()
    }
}

fn open(spec: &Spec) -> Result<KernelSession, Error> {
    KernelSession::open(spec, Network::Loopback)
}

/// Machines with one core run what one core can.
fn open_where_possible(spec: &Spec) -> Option<KernelSession> {
    match open(spec) {
        Ok(session) => Some(session),
        Err(Error::Cores { allowed: 1 }) if spec.placement == Placement::TwoCores => None,
        Err(error) => panic!("{spec:?}: {error}"),
    }
}

fn runs_whole(workload: Workload, bytes_per_iteration: impl Fn(usize) -> u64) {
    for mode in modes() {
        for size in [4, 1400, 8000] {
            let Some(mut session) = open_where_possible(&spec(workload, size, mode)) else {
                continue;
            };
            let mut samples = session.new_samples();
            for iterations in [20, 1, 0, 12] {
                session
                    .run(iterations, &mut samples)
                    .unwrap_or_else(|error| panic!("{mode:?} {size}: {error}"));
            }
            assert_eq!(samples.operations(), 33);
            assert_eq!(samples.bytes(), 33 * bytes_per_iteration(size));
        }
    }
}

#[test]
fn rr_carries_every_byte_both_ways() {
    runs_whole(Workload::Rr, |size| 2 * size as u64);
}

#[test]
fn crr_carries_every_byte_both_ways() {
    runs_whole(Workload::Crr, |size| 2 * size as u64);
}

#[test]
fn stream_carries_every_byte() {
    runs_whole(Workload::Stream, |size| size as u64);
}

#[test]
fn a_stream_comes_to_the_timed_end() {
    for mode in modes() {
        for size in [4, 1_400, 200_000] {
            let spec = spec(Workload::Stream, size, mode).reversed(true);
            let Some(mut session) = open_where_possible(&spec) else {
                continue;
            };
            let mut samples = session.new_samples();
            for iterations in [20, 1, 0, 12] {
                session.run(iterations, &mut samples).unwrap();
            }
            assert_eq!(samples.bytes(), 33 * size as u64);
        }
    }
}

#[test]
fn a_stream_larger_than_all_buffers_arrives_whole() {
    for mode in modes() {
        let Some(mut session) = open_where_possible(&spec(Workload::Stream, 200_000, mode)) else {
            continue;
        };
        let mut samples = session.new_samples();
        session.run(60, &mut samples).unwrap();
        assert_eq!(samples.bytes(), 12_000_000);
    }
}

#[test]
fn a_stream_under_nagle_ends_by_itself() {
    let spec = spec(Workload::Stream, 7, (Placement::OneCore, Waiting::Blocking)).with_nagle(true);
    let mut session = open(&spec).unwrap();
    let mut samples = session.new_samples();
    session.run(1001, &mut samples).unwrap();
    session.run(3, &mut samples).unwrap();
    assert_eq!(samples.bytes(), 7 * 1004);
    assert!(session.settings().contains(&("nagle", "on".to_owned())));
}

#[test]
fn settings_name_the_congestion_control_that_is_in_force() {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .unwrap_or_default();
    for workload in [Workload::Rr, Workload::Crr] {
        let session = open(&spec(workload, 4, (Placement::OneCore, Waiting::Blocking))).unwrap();
        let settings = session.settings();
        let congestion = &settings
            .iter()
            .find(|(name, _)| *name == "congestion")
            .expect("recorded")
            .1;
        assert!(
            available.split_whitespace().any(|name| name == congestion),
            "{congestion} not in {available}"
        );
        if available.contains("cubic") {
            assert_eq!(congestion, "cubic");
        }
    }
}

#[test]
fn samples_of_another_timing_are_refused_and_the_session_lives_on() {
    let mut session = open(&spec(
        Workload::Rr,
        4,
        (Placement::OneCore, Waiting::Blocking),
    ))
    .unwrap();
    let error = session
        .run(3, &mut Samples::new(Timing::Batch(7)))
        .unwrap_err();
    assert!(matches!(error, Error::Timing(_)));
    let mut samples = session.new_samples();
    session.run(3, &mut samples).unwrap();
    assert_eq!(samples.operations(), 3);
}

#[test]
fn wrong_bytes_are_reported_by_the_end_that_reads_them_and_poison_the_session() {
    for workload in [Workload::Rr, Workload::Crr] {
        for mode in modes() {
            let Some(mut session) = open_where_possible(&spec(workload, 80, mode)) else {
                continue;
            };
            // The other end still compares, and this one now sends zeros.
            session.client.spec.verify = false;
            let mut samples = session.new_samples();
            let error = session.run(5, &mut samples).unwrap_err();
            assert_eq!(
                error.to_string(),
                "kernel-loopback: the other end failed: kernel-loopback: request 0 differs from what was sent, first at \
                 byte 0"
            );
            assert!(matches!(
                session.run(1, &mut samples),
                Err(Error::Poisoned { .. })
            ));
        }
    }
}

/// The threads of this process that carry this name.
fn threads_named(name: &str) -> Vec<std::path::PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(Result::ok)
        .map(|task| task.path())
        .filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name))
        .collect()
}

fn name_of(session: &KernelSession) -> String {
    session.server.name().expect("named").to_owned()
}

/// Most polls; a machine under load takes longer for each.
const LOOKS: usize = 10_000;

/// Looks until there is something.
pub(super) fn eventually_some<T>(what: &str, mut so: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(it) = so() {
            return it;
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("never: {what}");
}

/// Looks until it is so.
fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    eventually_some(what, || so().then_some(()));
}

#[test]
fn an_idle_session_sleeps_even_when_it_busy_polls() {
    for mode in modes() {
        for &workload in Workload::ALL {
            let Some(mut session) = open_where_possible(&spec(workload, 4, mode)) else {
                continue;
            };
            session.run(3, &mut session.new_samples()).unwrap();
            eventually("asleep on a futex", || {
                threads_named(&name_of(&session)).iter().any(|task| {
                    // The state follows the name in parentheses (proc_pid_stat(5)); S is asleep.
                    let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
                    stat.rsplit(')')
                        .next()
                        .is_some_and(|rest| rest.trim_start().starts_with('S'))
                })
            });
        }
    }
}

#[test]
fn dropping_a_session_ends_its_thread_and_frees_its_ports() {
    for mode in modes() {
        for &workload in Workload::ALL {
            for in_the_middle in [false, true] {
                let Some(mut session) = open_where_possible(&spec(workload, 4, mode)) else {
                    continue;
                };
                session.run(2, &mut session.new_samples()).unwrap();
                if in_the_middle {
                    session.server.begin(1000).unwrap();
                }
                let name = name_of(&session);
                eventually("named", || threads_named(&name).len() == 1);
                let addresses = match session.client.client() {
                    ClientSockets::Connection(_) => Vec::new(),
                    ClientSockets::Destinations(addresses) => addresses.clone(),
                };
                drop(session);
                eventually("the thread gone", || threads_named(&name).is_empty());
                for address in addresses {
                    let refused = TcpStream::connect(address).unwrap_err();
                    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
                }
            }
        }
    }
}

#[test]
fn crr_goes_on_past_the_first_destination() {
    let mut session = open(&spec(
        Workload::Crr,
        1,
        (Placement::OneCore, Waiting::Blocking),
    ))
    .unwrap();
    let mut samples = session.new_samples();
    session.run(CONNECTIONS_EACH + 10, &mut samples).unwrap();
    assert_eq!(samples.operations(), CONNECTIONS_EACH + 10);
}

#[test]
fn udp_carries_every_byte_both_ways() {
    for (mode, transport) in modes()
        .into_iter()
        .flat_map(|mode| [(mode, Transport::Udp), (mode, Transport::UdpSendto)])
    {
        for size in [1, 1400, 8192, crate::sockets::MAX_DATAGRAM] {
            let spec = spec(Workload::Rr, size, mode).over(Sockets {
                transport,
                ..Sockets::PLAIN
            });
            let Some(mut session) = open_where_possible(&spec) else {
                continue;
            };
            let mut samples = session.new_samples();
            session.run(20, &mut samples).unwrap();
            session.run(3, &mut samples).unwrap();
            assert_eq!(samples.bytes(), 23 * 2 * size as u64);
        }
    }
}

/// Streams of every kind on one core, where all of them run; `None` where this machine does not have the way of sending.
fn bulk(
    sending: Sending,
    reading: Reading,
    size: usize,
    memory: usize,
) -> Option<Box<dyn Session>> {
    let spec = spec(
        Workload::Stream,
        size,
        (Placement::OneCore, Waiting::Blocking),
    )
    .over(Sockets {
        sending,
        reading,
        memory,
        ..Sockets::PLAIN
    });
    match KernelLoopback::DEFAULT.open(&spec) {
        Ok(session) => Some(session),
        Err(error @ Error::Unavailable { .. }) => {
            tollgate_skip::skipped!("{error}");
            None
        }
        Err(error) => panic!("{spec:?}: {error}"),
    }
}

#[test]
fn every_way_of_sending_and_reading_carries_every_byte() {
    for &sending in Sending::ALL {
        for &reading in Reading::ALL {
            // The last is more than a pipe may hold.
            for (size, memory) in [(64, 0), (4_096, 64_000), (200_000, 1), (MAX_SIZE, 0)] {
                if (sending, reading) == (Sending::Copy, Reading::Free) && memory == 0 {
                    continue;
                }
                let Some(mut session) = bulk(sending, reading, size, memory) else {
                    continue;
                };
                let mut samples = session.new_samples();
                for writes in [40, 1, 0, 12] {
                    session
                        .run(writes, &mut samples)
                        .unwrap_or_else(|error| panic!("{sending} {reading} {size}: {error}"));
                }
                assert_eq!(samples.bytes(), 53 * size as u64, "{sending} {reading}");
            }
        }
    }
}

#[test]
fn a_send_without_a_copy_says_whether_the_kernel_copied() {
    for sending in [Sending::ZeroCopy, Sending::UringZeroCopy] {
        let Some(mut session) = bulk(sending, Reading::Free, 32_000, 0) else {
            continue;
        };
        session.run(50, &mut session.new_samples()).unwrap();
        let settings = session.settings();
        let told = settings
            .iter()
            .find(|(name, _)| *name == "copied after all");
        // Loopback always copies what it hands to a reader on the same machine. Before Linux 6.2 io_uring does not say so.
        match told {
            Some((_, share)) => assert_eq!(share, "100 % of the sends"),
            None => assert_eq!(sending, Sending::UringZeroCopy),
        }
    }
}

/// The rings of io_uring that this process has.
fn rings() -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    descriptors
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|target| target.to_string_lossy().contains("[io_uring]"))
        .count()
}

#[test]
fn io_uring_is_given_back_on_every_way_out() {
    for sending in [Sending::Uring, Sending::UringZeroCopy] {
        drop(bulk(sending, Reading::Free, 4_096, 0));
        for reading in [Reading::Free, Reading::Posted] {
            let Some(mut session) = bulk(sending, reading, 4_096, 0) else {
                return;
            };
            session.run(300, &mut session.new_samples()).unwrap();
            let wrong = session.run(300, &mut Samples::new(Timing::Batch(7)));
            assert!(wrong.is_err());
        }
        let mode = (Placement::OneCore, Waiting::Blocking);
        let spec = spec(Workload::Stream, 4_096, mode).over(Sockets {
            sending,
            ..Sockets::PLAIN
        });
        let mut session = BulkSession::open(&spec, &Network::Loopback).unwrap();
        session.break_off();
        assert!(session.run(300, &mut session.new_samples()).is_err());
        assert!(matches!(
            session.run(1, &mut session.new_samples()),
            Err(Error::Poisoned { .. })
        ));
    }
    // Other tests of this process have rings as well, but not for long.
    eventually("no ring is left", || rings() == 0);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let refuse = |spec: &Spec| {
        KernelLoopback::DEFAULT
            .open(spec)
            .err()
            .unwrap()
            .to_string()
    };
    let udp = Sockets {
        transport: Transport::Udp,
        ..Sockets::PLAIN
    };
    assert_eq!(
        refuse(&Spec::new(Workload::Stream, 4).over(udp)),
        "kernel-loopback does not run stream over udp; it has: rr over udp"
    );
    assert_eq!(
        refuse(&Spec::new(Workload::Rr, 65_508).over(udp)),
        "size 65508 is out of range; a datagram has 1 to 65507 bytes"
    );
    let late = Sockets {
        reading: Reading::Late,
        ..Sockets::PLAIN
    };
    assert!(
        refuse(&Spec::new(Workload::Stream, 4).over(late)).contains("late reader on two cores")
    );
    assert!(refuse(&Spec::new(Workload::Rr, 4).over(late)).contains("rr with a way of sending"));
    let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::OneCore, Waiting::BusyPoll);
    let sendto = Sockets {
        transport: Transport::UdpSendto,
        ..Sockets::PLAIN
    };
    for (path, sockets, has) in [
        (PathId::StackMemory, sendto, "its own sockets"),
        (PathId::StackMemory, late, "its own sockets"),
        (PathId::PeerSmoltcp, udp, "tcp"),
    ] {
        let refused = crate::find(path).unwrap().open(&spec.clone().over(sockets));
        let reason = refused.err().unwrap().to_string();
        assert!(reason.ends_with(&format!("it has: {has}")), "{reason}");
    }
}

#[test]
fn a_loopback_of_its_own_has_its_mtu_and_leaves_the_machines_as_it_was() {
    let read = || fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
    let before = read();
    let path = KernelLoopback::with_mtu(1_500);
    let spec = spec(Workload::Rr, 8_000, (Placement::OneCore, Waiting::Blocking));
    let mut session = match path.open(&spec) {
        Ok(session) => session,
        Err(error) => {
            tollgate_skip::skipped!("{error}");
            return;
        }
    };
    session.run(20, &mut session.new_samples()).unwrap();
    let device = "a loopback in a network namespace of its own, MTU 1500".to_owned();
    assert!(session.settings().contains(&("device", device)));
    assert_eq!(read(), before);
    let crr = Spec::new(Workload::Crr, 4);
    assert!(matches!(path.open(&crr), Err(Error::Unsupported { .. })));
}

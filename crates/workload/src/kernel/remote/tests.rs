//! A server and its clients in one process, over loopback.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_gate::{Gate, GateSet};
use tollgate_run::{Placement, Waiting, Workload};

use super::*;
use crate::error::Error;
use crate::kernel::tests::eventually_some;
use crate::path::{Path, Session};
use crate::spec::Spec;

fn local() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Serves while `work` runs, and gives what the server was told of.
fn served<T>(service: Service, work: impl FnOnce(SocketAddr) -> T) -> (T, Vec<Notice>) {
    served_at(local(), service, work)
}

/// Serves at an address while `work` runs, and gives what the server was told of.
fn served_at<T>(
    address: SocketAddr,
    service: Service,
    work: impl FnOnce(SocketAddr) -> T,
) -> (T, Vec<Notice>) {
    let server = Server::listen(address, service).unwrap();
    let (stop, notices) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let worked = std::thread::scope(|scope| {
        let tell = |notice| notices.lock().unwrap().push(notice);
        let thread = scope.spawn({
            let (server, stop) = (&server, &stop);
            move || {
                server
                    .serve(&|| stop.load(Ordering::Relaxed), &tell)
                    .unwrap()
            }
        });
        /// Ends the server when the work panics, too.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let stop = Stop(&stop);
        let worked = work(server.address());
        drop(stop);
        thread.join().unwrap();
        worked
    });
    (worked, notices.into_inner().unwrap())
}

fn target(address: SocketAddr) -> Target {
    address.to_string().parse().unwrap()
}

fn connect(address: SocketAddr) -> Result<KernelRemote, Error> {
    KernelRemote::connect(&target(address), "a test")
}

/// Carries every workload in every mode.
fn carry_all(address: SocketAddr) {
    let remote = connect(address).unwrap();
    for mode in remote.capabilities().modes {
        for &workload in Workload::ALL {
            for size in [4, 8_000] {
                let spec = Spec::new(workload, size)
                    .with_mode(mode.placement, mode.waiting)
                    .verified();
                let mut session = remote.open(&spec).unwrap();
                let mut samples = session.new_samples();
                for _ in 0..2 {
                    session.run(20, &mut samples).unwrap();
                }
                assert_eq!(samples.operations(), 40);
            }
        }
    }
}

#[test]
fn every_workload_carries_its_bytes_to_the_server_and_back() {
    let ((), notices) = served(Service::default(), carry_all);
    let told: Vec<String> = notices.iter().map(ToString::to_string).collect();
    assert!(told[0].ends_with("served (a test)"), "{told:?}");
    assert!(told[1].ends_with(": rr, blocking"), "{told:?}");
    // The server is stopped as soon as the client is gone, and may see either first.
    let gone = told.last().unwrap().trim_end_matches(": stopped");
    assert!(gone.ends_with("gone after 12 sessions"), "{told:?}");
    assert_eq!(told.len(), 5, "one line for each workload: {told:?}");
}

/// A server at `[::]` takes clients of both versions of IP.
#[test]
fn every_workload_runs_over_ipv6() {
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        tollgate_skip::skipped!("this host has no IPv6");
        return;
    }
    let localhost = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    served_at(localhost, Service::default(), carry_all);
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    for client in [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ] {
        served_at(any, Service::default(), |address| {
            carry_all(SocketAddr::new(client, address.port()));
        });
    }
}

/// Connections of crr are made anew all along, with the congestion control that is asked for.
#[test]
fn congestion_control_of_all_workloads_is_told() {
    served(Service::default(), |address| {
        let remote = connect(address).unwrap();
        let told = |workload| {
            let session = remote.open(&Spec::new(workload, 80)).unwrap();
            let settings = session.settings();
            let congestion = settings.iter().find(|(name, _)| *name == "congestion");
            congestion.unwrap().1.clone()
        };
        assert_eq!(told(Workload::Crr), told(Workload::Rr));
    });
}

#[test]
fn sessions_take_turns_on_one_connection() {
    served(Service::default(), |address| {
        let remote = connect(address).unwrap();
        let mut sessions: Vec<_> = [4, 200, 8_000]
            .map(|size| {
                remote
                    .open(&Spec::new(Workload::Rr, size).verified())
                    .unwrap()
            })
            .into();
        for _ in 0..3 {
            for session in &mut sessions {
                session.run(5, &mut session.new_samples()).unwrap();
            }
        }
    });
}

#[test]
fn a_second_client_is_told_who_is_served() {
    served(Service::default(), |address| {
        let first = connect(address).unwrap();
        let error = connect(address).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "kernel-remote: connecting to {address}: it serves another client, 127.0.0.1:"
            )),
            "{error}"
        );
        assert!(
            error.ends_with("; try again when that one is done"),
            "{error}"
        );
        drop(first);
        eventually_some("served", || connect(address).ok());
    });
}

#[test]
fn without_the_token_nobody_is_served() {
    let service = Service {
        token: Some("open sesame".to_owned()),
        ..Service::default()
    };
    let ((), notices) = served(service, |address| {
        let connect = |token: Option<&str>| {
            let target = target(address).with_token(token.map(str::to_owned));
            KernelRemote::connect(&target, "a test")
        };
        for wrong in [None, Some(""), Some("open")] {
            let error = connect(wrong).unwrap_err().to_string();
            assert!(
                error.contains("it wants another token; give the one"),
                "{error}"
            );
        }
        assert!(connect(Some("open sesame")).is_ok());
    });
    assert!(
        notices[0]
            .to_string()
            .ends_with("not served: it does not have the token")
    );
}

#[test]
fn nobody_there_is_told_with_what_to_do() {
    let ((), _) = served(Service::default(), |_| ());
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = connect(address).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!(
            "kernel-remote: connecting to {address}: Connection refused"
        )) && error.contains("run `tollgate serve --listen ADDRESS` there"),
        "{error}"
    );
}

#[test]
fn another_version_is_told_on_both_sides() {
    let (heard, notices) = served(Service::default(), |address| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"TOLLGATE\x00\x09").unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        heard
    });
    assert_eq!(heard, b"TOLLGATE\x00\x04");
    assert!(
        notices[0].to_string().contains("it speaks version 9"),
        "{notices:?}"
    );

    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let old = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"TOLLGATE\x00\x02").unwrap();
        stream.read_to_end(&mut Vec::new())
    });
    let error = connect(address).unwrap_err().to_string();
    assert!(
        error.contains("it speaks version 2 of the control protocol, and this is version 4; install the same version"),
        "{error}"
    );
    // Whether it reads to the end or is reset does not matter.
    let _ = old.join().unwrap();
}

#[test]
fn rubbish_is_refused_and_the_next_client_served() {
    let ((), notices) = served(Service::default(), |address| {
        for rubbish in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"TOLLGATE\x00\x03\xff\xff\xff\xff",
            b"TOLLGATE\x00\x03\x00\x00\x00\x02{}",
            b"TOLLGATE\x00\x03\x00\x00\x00\x13{\"request\":\"gates\"}",
        ] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(rubbish).unwrap();
            // It ends the connection; what it says before is its greeting.
            let _ = stream.read_to_end(&mut Vec::new());
        }
        connect(address).unwrap();
    });
    let refused = notices
        .iter()
        .filter(|notice| matches!(notice, Notice::Refused { .. }));
    assert_eq!(refused.count(), 4, "{notices:?}");
}

#[test]
fn a_server_that_stops_in_the_middle_is_told_and_stays_told() {
    let server = Server::listen(local(), Service::default()).unwrap();
    let (address, stop) = (server.address(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| server.serve(&|| stop.load(Ordering::Relaxed), &|_| ()));
        let remote = connect(address).unwrap();
        let mut session = remote.open(&Spec::new(Workload::Rr, 4)).unwrap();
        session.run(5, &mut session.new_samples()).unwrap();
        assert!(remote.lost().is_none());
        stop.store(true, Ordering::Relaxed);
        let error = eventually_some("failed", || {
            session.run(5, &mut session.new_samples()).err()
        });
        assert!(matches!(error, Error::Remote { .. }), "{error}");
        assert!(session.run(5, &mut session.new_samples()).is_err());
        let error = remote.open(&Spec::new(Workload::Rr, 4)).err().unwrap();
        assert!(
            error.to_string().contains("the connection was closed"),
            "{error}"
        );
        assert!(remote.lost().is_some());
        thread.join().unwrap().unwrap();
    });
}

#[test]
fn bytes_that_differ_are_told_by_the_server() {
    served(Service::default(), |address| {
        let remote = connect(address).unwrap();
        let spec = Spec::new(Workload::Rr, 64).verified();
        let mut session = remote.open_session(&spec).unwrap();
        session.client_end().spec.verify = false;
        let error = session.run(5, &mut session.new_samples()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel-remote: the other end failed: kernel-remote: request 0 differs from what was sent, first at byte 0"
        );
    });
}

#[test]
fn what_it_cannot_do_is_refused() {
    served(Service::default(), |address| {
        let remote = connect(address).unwrap();
        let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::OneCore, Waiting::Blocking);
        let error = remote.open(&spec).err().unwrap();
        assert_eq!(
            error.to_string(),
            "kernel-remote does not run 1 core, blocking; it has: 2 cores, blocking; 2 cores, polling"
        );
    });
}

#[test]
fn the_servers_clock_stamps_every_message_that_is_wanted() {
    served(Service::default(), |address| {
        let remote = connect(address).unwrap();
        let gates = remote.gates().unwrap();
        let hook = |gate| {
            gates
                .boundaries()
                .iter()
                .find(|boundary| boundary.gate == gate)
                .and_then(|boundary| boundary.hook.clone())
        };
        let Some(name) = hook(Gate::SocketInEnd) else {
            tollgate_skip::skipped!("no clock of ours goes with the kernel's here");
            return;
        };
        assert_eq!(name, "clock after recv()");
        let spec = Spec {
            warmup: 0,
            ..Spec::new(Workload::Rr, 4)
        };
        let mut session = remote.open_session(&spec).unwrap();
        let wanted = GateSet::of(&[Gate::SocketInEnd, Gate::SocketOutBegin]);
        gates.attach(wanted).unwrap();
        session.run(10, &mut session.new_samples()).unwrap();
        let taken = gates.take(&session).unwrap();
        gates.detach().unwrap();
        let count = |gate| {
            let passed = taken
                .events
                .iter()
                .filter(|event| event.gate() == Some(gate));
            passed.count()
        };
        assert_eq!(
            (count(Gate::SocketInEnd), count(Gate::SocketOutBegin)),
            (10, 10)
        );
        session.run(10, &mut session.new_samples()).unwrap();
        assert!(gates.take(&session).unwrap().events.is_empty());
    });
}

#[test]
fn a_slice_beyond_all_memory_is_refused_and_the_session_lives_on() {
    served(Service::default(), |address| {
        let remote = connect(address).unwrap();
        let mut session = remote.open(&Spec::new(Workload::Stream, 4)).unwrap();
        let error = session
            .run(1 << 50, &mut session.new_samples())
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("1099511627776 iterations at the most"),
            "{error}"
        );
        let mut session = remote.open(&Spec::new(Workload::Stream, 4)).unwrap();
        session.run(3, &mut session.new_samples()).unwrap();
    });
}

#[test]
fn once_is_one_client() {
    let service = Service {
        once: true,
        ..Service::default()
    };
    let server = Server::listen(local(), service).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| server.serve(&|| stop.load(Ordering::Relaxed), &|_| ()));
        drop(connect(server.address()).unwrap());
        thread.join().unwrap().unwrap();
    });
}

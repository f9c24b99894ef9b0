//! Our stack beside the kernel's, which nobody here wrote: every test has a namespace and a device of its own.
//!
//! The list is that of every path over such a link: [`link_tests`] makes it anew for each.

#[path = "../../tests/any_spec/mod.rs"]
mod any_spec;
mod host;
mod ipv6;
mod killed;
mod mechanisms;
mod watch;

pub(crate) use host::{Counts, Host, Made, Subject, serve_echo};

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto,
    socket_with,
};
use tollgate_gate::Off;
use tollgate_link::Side;
use tollgate_link::fault::{Faults, Probability};
use tollgate_run::{Mode, Placement, Waiting, Workload};
use tollgate_stack::config::{Mechanisms, Segmentation, Transmit};
use tollgate_stack::{Error as Refusal, Received, State};

use super::check as check_spec;
use super::*;
use crate::namespace::{self, holders};
use crate::payload::check;
use crate::sockets::{Sockets, Transport};
use crate::stack_gates::{Forget, Gates};
use crate::stack_veth;
use any_spec::{any_spec, seeds};
use host::*;
pub(crate) use killed::*;
pub(crate) use mechanisms::*;

/// Makes the tests of a link out of the list.
macro_rules! link_tests {
    ($link:ty) => {
        $crate::stack_link::tests::link_tests!(@each $link: every_workload_carries_its_bytes,
            runs_of_any_kind_carry_their_bytes,
            pieces_that_are_refused_keep_their_place,
            datagrams_go_to_linux_and_back,
            streams_come_from_linux_as_well,
            checksums_cannot_be_left_out,
            every_mechanism_talks_to_linux,
            linux_declines_to_leave_checksums_out,
            a_device_that_is_deleted_is_told,
            each_message_returns_once,
            linux_gets_its_megabytes_back,
            segments_leave_alone_where_trains_are_off,
            linux_serves_our_megabytes,
            trains_of_every_length_leave,
            either_side_closes_first,
            closed_ports_refuse_both_ways,
            killed_run,
            killed_runs_leave_no_namespace_and_no_device,
            victim,
            killed_peers_are_noticed,
            a_reader_of_single_bytes_gets_them_all,
            a_writer_of_single_bytes_is_read_in_order,
            a_peer_that_reads_late_is_waited_for,
            small_and_large_mtus_carry_bytes,
            addresses_are_resolved_both_ways,
            pings_are_answered,
            options_are_agreed_on_as_linux_offers_them,
            feedback_of_marks_is_agreed_on_as_linux_knows_it,
            bytes_survive_a_bad_line,
            many_connections_come_and_go,
            devices_that_go_down_come_back,
            restless,
            killed_at_any_point_nothing_is_left,
            the_host_goes_on_beside_us);
    };
    (@each $link:ty: $($name:ident),+) => {
        $(
            #[test]
            fn $name() {
                $crate::stack_link::tests::$name::<$link>();
            }
        )+
    };
}
pub(crate) use link_tests;

/// Tells whether this machine has the link, or says why not.
fn available<L: Subject>() -> bool {
    made::<L>(1500).is_some()
}

/// Samples of a slice of so many iterations and a short one behind it; none where the machine has too few cores.
fn samples_of<L: Subject>(spec: &Spec, iterations: u64) -> Option<Samples> {
    let mut session = match L::path().open(spec) {
        Err(Error::Cores { .. }) => return None,
        session => session.unwrap(),
    };
    let mut samples = session.new_samples();
    for iterations in [iterations, 3] {
        session
            .run(iterations, &mut samples)
            .unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    }
    Some(samples)
}

pub(crate) fn every_workload_carries_its_bytes<L: Subject>() {
    if !available::<L>() {
        return;
    }
    for &workload in Workload::ALL {
        for mode in L::path().capabilities().modes {
            for size in [1, 1_448, 8_000, 100_000] {
                let spec = Spec::new(workload, size)
                    .with_mode(mode.placement, mode.waiting)
                    .verified();
                let Some(samples) = samples_of::<L>(&spec, 20) else {
                    continue;
                };
                assert_eq!(samples.operations(), 23);
            }
        }
    }
}

/// A short piece behind a full one: where the buffers are full, it has room earlier.
pub(crate) fn pieces_that_are_refused_keep_their_place<L: Subject>() {
    if !available::<L>() {
        return;
    }
    for mode in L::path().capabilities().modes {
        let spec = Spec::new(Workload::Stream, 65_636)
            .with_mode(mode.placement, mode.waiting)
            .with_mechanisms(Mechanisms {
                transmit: Transmit::ZeroCopy,
                ..Mechanisms::DEFAULT
            })
            .verified();
        samples_of::<L>(&spec, 40);
    }
}

pub(crate) fn runs_of_any_kind_carry_their_bytes<L: Subject>() {
    if !available::<L>() {
        return;
    }
    for seed in seeds(1..=12) {
        let spec = any_spec(seed, L::path().capabilities().modes, true);
        println!("{} seed {seed}: {spec:?}", L::PATH);
        if let Some(samples) = samples_of::<L>(&spec, 40) {
            assert_eq!(samples.operations(), 43, "seed {seed}");
        }
    }
}

pub(crate) fn datagrams_go_to_linux_and_back<L: Subject>() {
    if !available::<L>() {
        return;
    }
    for mode in L::path().capabilities().modes {
        for size in [1, 1_472, 8_000, 60_000] {
            let spec = Spec::new(Workload::Rr, size)
                .with_mode(mode.placement, mode.waiting)
                .over(Sockets {
                    transport: Transport::Udp,
                    ..Sockets::PLAIN
                })
                .verified();
            let Some(samples) = samples_of::<L>(&spec, 20) else {
                continue;
            };
            assert_eq!(samples.bytes(), 23 * 2 * size as u64);
        }
    }
}

pub(crate) fn streams_come_from_linux_as_well<L: Subject>() {
    if !available::<L>() {
        return;
    }
    for mode in L::path().capabilities().modes {
        for size in [1, 1_448, 65_536, 100_000] {
            let spec = Spec::new(Workload::Stream, size)
                .with_mode(mode.placement, mode.waiting)
                .reversed(true)
                .verified();
            let Some(samples) = samples_of::<L>(&spec, 40) else {
                continue;
            };
            assert_eq!(samples.bytes(), 43 * size as u64);
        }
    }
    let spec = Spec::new(Workload::Rr, 4).reversed(true);
    let refused = L::path().open(&spec).err().unwrap();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
}

/// Gates that count returns to the application.
#[derive(Default)]
struct Returns(u64);

impl Gates for Returns {
    const FREQUENT: bool = false;
    type Recorder<'a> = Off;

    fn at(&mut self, _side: Side) -> Off {
        Off
    }

    fn returned(&mut self, _side: Side) {
        self.0 += 1;
    }
}

impl Forget for Returns {
    fn forget(&mut self) {
        self.0 = 0;
    }
}

/// A call that finds nothing returns as well, before our end sleeps; it is no message's.
pub(crate) fn each_message_returns_once<L: Subject>() {
    const ROUND_TRIPS: u64 = 64;
    let Some(made) = made::<L>(1500) else {
        return;
    };
    made.side.bring_up(1500).unwrap();
    let spec = Spec::new(Workload::Rr, 64).with_mode(Placement::OneCore, Waiting::Blocking);
    let link = (made.link, made.pool);
    let mut session = LinkSession::open(&spec, made.side, link, 1500).unwrap();
    let mut returns = Returns::default();
    let LinkSession { client, server, .. } = &mut session;
    let clock = crate::gate_clock();
    let sleeps = client
        .slice_past(&mut returns, ROUND_TRIPS, &clock, |_, _| (), server)
        .unwrap();
    println!("our end slept {sleeps} times");
    assert_eq!(returns.0, ROUND_TRIPS);
}

pub(crate) fn a_device_that_is_deleted_is_told<L: Subject>() {
    if !available::<L>() {
        return;
    }
    for waiting in [Waiting::Blocking, Waiting::BusyPoll] {
        let placement = match waiting {
            Waiting::Blocking => Placement::OneCore,
            Waiting::BusyPoll => Placement::TwoCores,
        };
        let spec = Spec::new(Workload::Rr, 4).with_mode(placement, waiting);
        check_spec(L::PATH, &spec).unwrap();
        let made = L::make(1500).unwrap();
        made.side.bring_up(1500).unwrap();
        let link = (made.link, made.pool);
        let mut session = match LinkSession::open(&spec, made.side, link, 1500) {
            Err(Error::Cores { .. }) => continue,
            session => session.unwrap(),
        };
        session.run(10, &mut session.new_samples()).unwrap();
        session
            .side()
            .within(|| namespace::ip(L::PATH, &["link", "del", L::DEVICE]))
            .unwrap();
        let error = session.run(10, &mut session.new_samples()).unwrap_err();
        assert!(
            matches!(error, Error::Vanished { device, .. } if device == L::DEVICE),
            "{error}"
        );
    }
}

pub(crate) fn linux_gets_its_megabytes_back<L: Subject>() {
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    serve_echo(&mut host, 6 << 20);
    host.nothing_was_wrong();
    let counts = host.link_mut().counts();
    assert_eq!(counts.gathered > 0, L::GATHERS, "{counts:?}");
}

/// Gives one connection its bytes back.
fn echo_to_one(listener: TcpListener) -> JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        io::copy(&mut stream.try_clone()?, &mut stream)?;
        stream.shutdown(Shutdown::Write)
    })
}

pub(crate) fn linux_serves_our_megabytes<L: Subject>() {
    const LEN: usize = 6 << 20;
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    let (listener, address) = kernel_listener(&host);
    let peer = echo_to_one(listener);
    let conn = host.connect(address);
    let all = bytes(LEN);
    let (mut sent, mut got, mut buffer) = (0, 0, vec![0; 64 * 1024]);
    host.until("echo", |host| {
        if sent < LEN {
            match host.active().send(conn, &all[sent..]) {
                Ok(count) => sent += count,
                Err(error) => assert_eq!(error, Refusal::WouldBlock),
            }
            if sent == LEN {
                host.active().shutdown(conn).unwrap();
            }
        }
        match host.active().receive(conn, &mut buffer).unwrap() {
            Received::Data(count) => {
                check(&buffer[..count], SEED, got as u64).unwrap();
                got += count;
                None
            }
            Received::Nothing => None,
            Received::End => Some(()),
        }
    });
    assert_eq!((sent, got), (LEN, LEN));
    host.close(conn);
    host.join(peer);
    host.frames_are_back();
}

/// Up to the longest IP packet and the longest frame, headers counted or not: each length is sent at once.
pub(crate) fn trains_of_every_length_leave<L: Subject>() {
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    let (listener, address) = kernel_listener(&host);
    let peer = echo_to_one(listener);
    let conn = host.connect(address);
    // A short segment at the end does not wait for the others.
    stack_host::set_nagle(L::PATH, &mut host.active(), conn, false).unwrap();
    let mut buffer = vec![0; 64 * 1024];
    // The first ones open the window.
    for len in [65_000; 8].into_iter().chain(65_440..65_540) {
        host.send(conn, &bytes(len));
        let mut got = 0;
        while got < len {
            let count = host.receive(conn, &mut buffer);
            check(&buffer[..count], SEED, got as u64).unwrap();
            got += count;
        }
    }
    host.active().shutdown(conn).unwrap();
    assert_eq!(host.receive(conn, &mut buffer), 0);
    host.close(conn);
    host.join(peer);
    host.frames_are_back();
    host.nothing_was_wrong();
    assert_eq!(host.stack.counters().timeouts, 0);
}

pub(crate) fn either_side_closes_first<L: Subject>() {
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    let listener = host.listen();
    // Linux first: it is the one in TIME-WAIT.
    let peer = host.beside(|| {
        let mut stream = connect()?;
        stream.write_all(&bytes(100))?;
        stream.shutdown(Shutdown::Write)?;
        stream.read(&mut [0])
    });
    let conn = host.accept(listener);
    assert_eq!(host.receive_all(conn), 100);
    assert_eq!(host.active().state(conn), State::CloseWait);
    host.close(conn);
    assert_eq!(host.join(peer), 0);
    assert_eq!(host.stack.time_waits(), 0);
    // We first.
    let peer = host.beside(|| connect()?.read(&mut [0]));
    let conn = host.accept(listener);
    host.close(conn);
    assert_eq!(host.join(peer), 0);
    assert_eq!(host.stack.time_waits(), 1);
    // Both halves on their own: we still send after Linux has closed its direction, and the other way round.
    let peer = host.beside(|| {
        let mut stream = connect()?;
        stream.shutdown(Shutdown::Write)?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        Ok(all == bytes(5_000))
    });
    let conn = host.accept(listener);
    assert_eq!(host.receive_all(conn), 0);
    host.send(conn, &bytes(5_000));
    host.close(conn);
    assert!(host.join(peer));
    let peer = host.beside(|| {
        let mut stream = connect()?;
        assert_eq!(stream.read(&mut [0])?, 0);
        stream.write_all(&bytes(5_000))
    });
    let conn = host.accept(listener);
    host.active().shutdown(conn).unwrap();
    assert_eq!(host.receive_all(conn), 5_000);
    host.close(conn);
    host.join(peer);
    host.frames_are_back();
}

/// A port of the kernel's end that nobody listens on.
const UNUSED: u16 = 9;

pub(crate) fn closed_ports_refuse_both_ways<L: Subject>() {
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    let peer = host.beside(|| Ok(connect().err().map(|error| error.kind())));
    assert_eq!(host.join(peer), Some(io::ErrorKind::ConnectionRefused));
    let (_listener, mut address) = kernel_listener(&host);
    // A listener that is dropped would not do: a child of another test has it, too, until it executes its program.
    address.set_port(UNUSED);
    let conn = host.active().connect(address).unwrap();
    let error = host.until("refusal", |host| {
        host.active().receive(conn, &mut [0]).err()
    });
    assert_eq!(error, Refusal::Refused);
    host.frames_are_back();
}

pub(crate) fn a_reader_of_single_bytes_gets_them_all<L: Subject>() {
    const LEN: usize = 300_000;
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    let listener = host.listen();
    // So small a buffer closes its window again and again.
    host.sysctl("tcp_rmem", "4096 8192 16384");
    let peer = host.beside(|| {
        let mut stream = connect()?;
        let (mut got, mut one) = (0_u64, [0]);
        while stream.read(&mut one)? == 1 {
            check(&one, SEED, got).map_err(|at| io::Error::other(format!("byte {at} differs")))?;
            got += 1;
        }
        Ok(got)
    });
    let conn = host.accept(listener);
    host.send(conn, &bytes(LEN));
    host.close(conn);
    assert_eq!(host.join(peer), LEN as u64);
    host.frames_are_back();
}

pub(crate) fn a_writer_of_single_bytes_is_read_in_order<L: Subject>() {
    const LEN: usize = 20_000;
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    let listener = host.listen();
    let peer = host.beside(|| {
        let mut stream = connect()?;
        stream.set_nodelay(true)?;
        bytes(LEN)
            .iter()
            .try_for_each(|byte| stream.write_all(&[*byte]))
    });
    let conn = host.accept(listener);
    assert_eq!(host.receive_all(conn), LEN);
    host.close(conn);
    host.join(peer);
    host.frames_are_back();
}

pub(crate) fn a_peer_that_reads_late_is_waited_for<L: Subject>() {
    const LEN: usize = 1 << 20;
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    let listener = host.listen();
    host.sysctl("tcp_rmem", "4096 16384 65536");
    let peer = host.beside(|| {
        let mut stream = connect()?;
        // Longer than our retransmission timeout: the zero window is probed meanwhile.
        thread::sleep(Duration::from_millis(1_500));
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        Ok(all == bytes(LEN))
    });
    let conn = host.accept(listener);
    host.send(conn, &bytes(LEN));
    host.close(conn);
    assert!(host.join(peer));
    host.frames_are_back();
}

pub(crate) fn small_and_large_mtus_carry_bytes<L: Subject>() {
    // Linux sends segments of 88 bytes at least with their headers (net.ipv4.tcp_min_snd_mss).
    let mtus = [100, 296, 576, 1_499, 3_000, 9_000, 65_344];
    for mtu in mtus.into_iter().filter(|mtu| *mtu <= L::LARGEST_MTU) {
        let Some(mut host) = Host::<L>::new(mtu) else {
            return;
        };
        let len = if mtu < 500 { 40_000 } else { 1 << 20 };
        serve_echo(&mut host, len);
        host.nothing_was_wrong();
        let counts = host.link_mut().counts();
        assert_eq!((counts.too_long, counts.refused), (0, 0), "MTU {mtu}");
    }
}

pub(crate) fn addresses_are_resolved_both_ways<L: Subject>() {
    for ours_first in [false, true] {
        let Some(mut host) = Host::<L>::new(1500) else {
            return;
        };
        if ours_first {
            let (listener, address) = kernel_listener(&host);
            let conn = host.connect(address);
            drop(listener);
            host.active().abort(conn).unwrap();
        } else {
            serve_echo(&mut host, 1);
        }
        let known = host.run("ip", &["neigh", "show", "dev", L::DEVICE]);
        assert!(
            known.contains("10.0.0.1 lladdr 02:00:00:00:00:01"),
            "{known}"
        );
    }
}

pub(crate) fn pings_are_answered<L: Subject>() {
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    for len in [0, 56, 1_472, 8_000] {
        let peer = host.beside(move || {
            let socket = socket_with(
                AddressFamily::INET,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                Some(ipproto::ICMP),
            )?;
            // Echo, code 0, checksum, identifier and sequence number (RFC 792).
            let mut echo = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
            echo.extend(bytes(len));
            let sum = echo
                .chunks(2)
                .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
                .sum::<u32>();
            let sum = (sum >> 16) + (sum & 0xffff);
            let sum = !(sum + (sum >> 16)) as u16;
            echo[2..4].copy_from_slice(&sum.to_be_bytes());
            sendto(&socket, &echo, SendFlags::empty(), &OURS)?;
            let mut answer = vec![0; 10_000];
            loop {
                let (_, count) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
                let icmp = &answer[20..count];
                if icmp[0] == 0 {
                    return Ok(icmp[4..] == echo[4..]);
                }
            }
        });
        assert!(host.join(peer), "{len} bytes");
    }
}

pub(crate) fn options_are_agreed_on_as_linux_offers_them<L: Subject>() {
    const SWITCHES: [&str; 3] = ["tcp_timestamps", "tcp_window_scaling", "tcp_sack"];
    for offered in 0..8_u8 {
        let Some(mut host) = Host::<L>::new(1500) else {
            return;
        };
        let on = |switch: usize| offered >> switch & 1 == 1;
        for (switch, name) in SWITCHES.into_iter().enumerate() {
            host.sysctl(name, if on(switch) { "1" } else { "0" });
        }
        let listener = host.listen();
        let peer = host.beside(|| echo_of(200_000));
        let conn = host.accept(listener);
        let sockets = host.run("ss", &["-tinoH", "state", "connected"]);
        let has = |what: &str| {
            sockets
                .split_whitespace()
                .any(|word| word.starts_with(what))
        };
        assert_eq!(has("ts"), on(0), "{sockets}");
        assert_eq!(has("wscale:"), on(1), "{sockets}");
        assert_eq!(has("sack"), on(2), "{sockets}");
        host.echo(conn);
        host.close(conn);
        host.join(peer);
        // The other way round, Linux answers what we offer.
        let (listener, address) = kernel_listener(&host);
        let conn = host.connect(address);
        let sockets = host.run("ss", &["-tinoH", "state", "connected"]);
        let has = |what: &str| {
            sockets
                .split_whitespace()
                .any(|word| word.starts_with(what))
        };
        assert_eq!(has("ts"), on(0), "{sockets}");
        assert_eq!(has("wscale:"), on(1), "{sockets}");
        assert_eq!(has("sack"), on(2), "{sockets}");
        drop(listener);
        host.active().abort(conn).unwrap();
        host.frames_are_back();
    }
}

/// RFC 9768, 3.1.2: by `tcp_ecn` Linux knows no feedback of marks (0), classic one (1), or asks for and takes counters (3, from
/// Linux 6.18 on).
pub(crate) fn feedback_of_marks_is_agreed_on_as_linux_knows_it<L: Subject>() {
    use tollgate_stack::config::{Ecn, Mechanisms};
    let mut mechanisms = Mechanisms::DEFAULT;
    mechanisms.ecn = Ecn::Accurate;
    let spec = Spec::new(Workload::Rr, 1).with_mechanisms(mechanisms);
    for (known, ecn, counts) in [("0", false, false), ("1", true, false), ("3", true, true)] {
        let Some(mut host) = Host::<L>::of(1500, &spec) else {
            return;
        };
        if !host.try_sysctl("tcp_ecn", known) {
            tollgate_skip::skipped!("this kernel has no tcp_ecn={known}");
            return;
        }
        let agreed = |host: &mut Host<L>, conn| {
            let info = host.active().info(conn).unwrap();
            assert_eq!(info.ecn, ecn, "tcp_ecn={known}: {info:?}");
            assert_eq!(info.marked_packets.is_some(), counts, "tcp_ecn={known}");
            // Nothing on the way marks.
            assert_eq!(info.marked_packets.unwrap_or(0), 0, "tcp_ecn={known}");
        };
        let listener = host.listen();
        let peer = host.beside(|| echo_of(2_000_000));
        let conn = host.accept(listener);
        agreed(&mut host, conn);
        host.echo(conn);
        agreed(&mut host, conn);
        host.close(conn);
        host.join(peer);
        let (listener, address) = kernel_listener(&host);
        let peer = echo_to_one(listener);
        let conn = host.connect(address);
        agreed(&mut host, conn);
        host.send(conn, &bytes(50_000));
        host.active().shutdown(conn).unwrap();
        assert_eq!(host.receive_all(conn), 50_000);
        host.close(conn);
        host.join(peer);
        host.nothing_was_wrong();
        host.frames_are_back();
    }
}

pub(crate) fn bytes_survive_a_bad_line<L: Subject>() {
    let percent = |chance: u32| Probability::from_ppm(chance * 10_000).unwrap();
    let cases = [
        Faults {
            drop: percent(2),
            ..Faults::default()
        },
        Faults {
            duplicate: percent(5),
            ..Faults::default()
        },
        Faults {
            reorder: percent(5),
            delay: Duration::from_millis(1),
            ..Faults::default()
        },
        Faults {
            corrupt: percent(2),
            truncate: percent(1),
            ..Faults::default()
        },
        Faults {
            drop: percent(1),
            duplicate: percent(1),
            reorder: percent(2),
            corrupt: percent(1),
            delay: Duration::from_millis(2),
            jitter: Duration::from_millis(1),
            ..Faults::default()
        },
    ];
    for faults in cases {
        let Some(mut host) = Host::<L>::new(1500) else {
            return;
        };
        let listener = host.listen();
        host.set_faults(faults);
        let peer = host.beside(|| echo_of(400_000));
        let conn = host.accept(listener);
        host.echo(conn);
        host.close(conn);
        host.join(peer);
        let met = *host.line.stats();
        assert!(
            met.offered > met.passed || met.duplicated + met.reordered + met.corrupted > 0,
            "{met:?}"
        );
        host.set_faults(Faults::default());
        host.frames_are_back();
    }
}

pub(crate) fn many_connections_come_and_go<L: Subject>() {
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    let listener = host.listen();
    let peer = host.beside(|| (0..200).try_for_each(|_| echo_of(2_000)));
    for _ in 0..200 {
        let conn = host.accept(listener);
        host.echo(conn);
        // The next one comes before this one is over.
        host.active().close(conn).unwrap();
    }
    host.join(peer);
    host.frames_are_back();
}

pub(crate) fn devices_that_go_down_come_back<L: Subject>() {
    const LEN: usize = 400_000;
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    let listener = host.listen();
    let peer = host.beside(|| echo_of(LEN));
    let conn = host.accept(listener);
    let mut first = vec![0; LEN / 4];
    let got = host.receive(conn, &mut first);
    host.set_our_device("down");
    host.send(conn, &first[..got]);
    for _ in 0..20 {
        host.poll();
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!host.link().is_gone());
    host.set_our_device("up");
    host.echo(conn);
    host.close(conn);
    host.join(peer);
    host.frames_are_back();
}

/// Another host of the kernel on our device: what is not for us is its.
pub(crate) fn the_host_goes_on_beside_us<L: Subject>() {
    const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    // A tap device has one end of the kernel's only.
    let Some(ours) = &host.ours else { return };
    let listener = ours
        .within(|| {
            let device = ["dev", stack_veth::OUR_DEVICE];
            namespace::ip(
                L::PATH,
                &[&["address", "add", "10.0.0.9/24"][..], &device].concat(),
            )?;
            Ok(TcpListener::bind((HOST, 0)).unwrap())
        })
        .unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for _ in 0..20 {
            let (mut stream, _) = listener.accept()?;
            io::copy(&mut stream.try_clone()?, &mut stream)?;
        }
        Ok(())
    });
    let client = host.beside(move || {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(&bytes(5_000))?;
            stream.shutdown(Shutdown::Write)?;
            let mut back = Vec::new();
            stream.read_to_end(&mut back)?;
            assert!(back == bytes(5_000));
        }
        Ok(())
    });
    serve_echo(&mut host, 1 << 20);
    host.join(client);
    host.join(server);
    // The host has seen none of our segments: it would have answered by resets.
    let ours = host.ours.as_ref().unwrap();
    let counts = ours.within(|| Ok(fs::read_to_string("/proc/thread-self/net/snmp").unwrap()));
    assert_eq!(snmp(&counts.unwrap(), "Tcp:", "OutRsts"), "0");
    host.nothing_was_wrong();
}

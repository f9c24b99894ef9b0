//! Transfers of any kind by seed, between Linux's sockets and our stack, whatever happens to frames on the way.
//!
//! A seed chooses the MTU, the faults, up to four mechanisms, and up to six connections with what they carry. Our stack takes some of
//! them and opens the others. Each byte is held against the one that was sent. `TOLLGATE_SEEDS=first:last` tries other seeds.

#[path = "../../../workload/tests/any_spec/seeds.rs"]
mod seeds;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tollgate_link::fault::{Corrupt, Faults, Probability};
use tollgate_stack::config::{Mechanisms, MtuProbing};

use crate::sandbox::{PATIENCE, Sandbox};
use crate::serving::{ETHERNET_HEADER, On, OnTap, Serving, What};
use seeds::{Numbers, seeds};

/// Bytes of the shortest longest frame: our stack cuts segments to 576 bytes of IPv4 and no further (COMPLIANCE.md, PMTU-1).
const NARROWEST: usize = ETHERNET_HEADER + 576;

impl Numbers {
    /// A probability of up to `most` in a thousand frames; mostly none.
    fn chance(&mut self, most: usize) -> Probability {
        match self.below(3) {
            0 => Probability::from_ppm(self.below(most * 1000) as u32).unwrap(),
            _ => Probability::NEVER,
        }
    }

    fn micros(&mut self, most: usize) -> Duration {
        match self.below(2) {
            0 => Duration::from_micros(self.below(most) as u64),
            _ => Duration::ZERO,
        }
    }
}

/// Bytes that a connection carries there and back again.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    /// Our stack opens the connection, and Linux sends back what comes.
    is_ours: bool,
    /// Over IPv6, where the link carries it.
    is_v6: bool,
    seed: u64,
    len: usize,
    /// Bytes of the longest call.
    call: usize,
    /// Pause before some calls of the reader.
    pause: Duration,
}

fn any_transfer(numbers: &mut Numbers) -> Transfer {
    let len = match numbers.below(4) {
        0 => 1 + numbers.below(100),
        1 => 1_448 * (1 + numbers.below(60)) + numbers.below(9),
        _ => 1 + numbers.below(600_000),
    };
    let call = match numbers.below(4) {
        0 => 1 + numbers.below(200),
        1 => 1 + numbers.below(3_000),
        _ => 1 + numbers.below(100_000),
    };
    Transfer {
        is_ours: numbers.below(2) == 0,
        is_v6: numbers.below(2) == 0,
        seed: numbers.next(),
        // Short calls make many frames; those of a few bytes carry less.
        len: len.min(call * 2_000),
        call,
        pause: numbers.micros(3_000),
    }
}

/// The stack, its device and its line.
fn any_tap(numbers: &mut Numbers) -> OnTap {
    let mtu = match numbers.below(3) {
        0 => 1_500,
        1 => 576 + numbers.below(1_000),
        _ => 576 + numbers.below(9_000 - 576),
    };
    let delay = numbers.micros(5_000);
    let mut faults = Faults {
        drop: numbers.chance(20),
        duplicate: numbers.chance(20),
        reorder: numbers.chance(30),
        corrupt: numbers.chance(10),
        truncate: numbers.chance(5),
        // The Ethernet header has no check that a stack could see fail.
        corrupt_at: Corrupt::From(ETHERNET_HEADER as u16),
        delay,
        jitter: numbers.micros(2_000),
        ..Faults::default()
    };
    let mut mechanisms = Mechanisms::DEFAULT;
    for _ in 0..numbers.below(5) {
        let switch = Mechanisms::SWITCHES[numbers.below(Mechanisms::SWITCHES.len())];
        let value = switch.values[numbers.below(switch.values.len())];
        // Linux always sums.
        if (switch.name, value) != ("checksum", "off") {
            mechanisms.set(switch.name, value).unwrap();
        }
    }
    // A black hole, which a stack that believes routers alone does not find.
    if mechanisms.mtu_probing != MtuProbing::Off && numbers.below(3) == 0 {
        let most = ETHERNET_HEADER + mtu;
        faults.longest = Some((NARROWEST + numbers.below(most + 1 - NARROWEST)) as u16);
    }
    OnTap {
        mtu,
        faults,
        seed: numbers.next(),
        mechanisms,
    }
}

/// Writes what the transfer carries, in calls of any length, and says the end.
fn write(mut stream: &TcpStream, transfer: Transfer) {
    let mut numbers = Numbers(transfer.seed ^ 1);
    let bytes = bytes(transfer);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (now, later) = rest.split_at((1 + numbers.below(transfer.call)).min(rest.len()));
        stream.write_all(now).unwrap();
        rest = later;
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

fn bytes(transfer: Transfer) -> Vec<u8> {
    let mut numbers = Numbers(transfer.seed);
    (0..transfer.len).map(|_| numbers.next() as u8).collect()
}

/// Reads it back to the end, and holds every byte against the one that was sent.
fn read(mut stream: &TcpStream, transfer: Transfer) {
    let expected = bytes(transfer);
    let mut numbers = Numbers(transfer.seed ^ 2);
    let mut buffer = vec![0; transfer.call];
    let mut at = 0;
    loop {
        if numbers.below(4) == 0 {
            thread::sleep(transfer.pause);
        }
        let count = match stream.read(&mut buffer[..1 + numbers.below(transfer.call)]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) => panic!("at byte {at} of {}: {error}", transfer.len),
        };
        let sent = expected.get(at..at + count);
        assert!(sent == Some(&buffer[..count]), "behind byte {at}");
        at += count;
    }
    assert_eq!(at, transfer.len, "bytes came back");
}

/// Sends back what comes over a connection, until its end.
fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 20_000];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => stream.write_all(&buffer[..count]).unwrap(),
            Err(error) => panic!("Linux's echo: {error}"),
        }
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Carries out the transfers of a seed in a place of their own.
fn run(seed: u64) {
    let place = Sandbox::new(&[]).expect("a place, as before");
    let mut numbers = Numbers(seed);
    let on = any_tap(&mut numbers);
    let transfers: Vec<_> = (0..1 + numbers.below(6))
        .map(|_| any_transfer(&mut numbers))
        .collect();
    eprintln!("seed {seed}: {on:?} {transfers:?}");
    // Of both versions.
    let listener = place.within(|| TcpListener::bind("[::]:7").unwrap());
    // The addresses of the kernel at the other end of the first device of a place.
    let [v4, v6]: [SocketAddr; 2] =
        ["198.18.0.1:7", "[2001:2::1]:7"].map(|address| address.parse().unwrap());
    let what = [
        (7, What::Echo),
        (0, What::Outward(v4)),
        (0, What::Outward(v6)),
    ];
    let serving = Serving::start(&place, On::Tap(on), &what);
    let has_v6 = on.carries_v6() && !serving.at_v6.is_empty();
    let at = |transfer: Transfer| match (transfer.is_ours, transfer.is_v6 && has_v6) {
        (false, false) => serving.at[0],
        (false, true) => serving.at_v6[0],
        (true, false) => serving.at[1],
        (true, true) => serving.at[2],
    };
    let ours = transfers.iter().filter(|transfer| transfer.is_ours).count();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ours {
                let (stream, _) = listener.accept().unwrap();
                scope.spawn(|| echo(stream));
            }
        });
        for &transfer in &transfers {
            let (at, place) = (at(transfer), &place);
            scope.spawn(move || {
                place.enter();
                let stream = TcpStream::connect(at).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_write_timeout(Some(PATIENCE)).unwrap();
                thread::scope(|ends| {
                    ends.spawn(|| write(&stream, transfer));
                    read(&stream, transfer);
                });
            });
        }
    });
    let counts = serving.end();
    assert_eq!(counts.accepted, transfers.len() as u64);
    assert_eq!(counts.failed.values().sum::<u64>(), 0, "{counts:?}");
}

#[test]
fn transfers_of_any_kind_carry_their_bytes_whatever_happens_to_frames() {
    if Sandbox::new(&[]).is_none() {
        return;
    }
    for seed in seeds(1..=12) {
        run(seed);
    }
}

//! RFC 6528 and RFC 9293, 3.4.1: initial sequence numbers.

use crate::peer::*;
use std::collections::HashSet;
use std::time::Duration;

/// The initial sequence number of the stack's SYN,ACK to `port` now.
fn answer(peer: &mut Peer, port: u16) -> u32 {
    peer.port = port;
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    let iss = peer.iss;
    peer.inject(rst().seq(1));
    iss
}

/// RFC 9293, 3.4.1, MUST-8: "A TCP implementation MUST use the above type of 'clock' for clock-driven selection of initial
/// sequence numbers": a clock that ticks about every 4 microseconds. RFC 6528, 3: "ISN = M + F(localip, localport, remoteip,
/// remoteport, secretkey)".
#[test]
fn the_number_of_one_tuple_grows_with_a_clock_of_4_microseconds() {
    let mut peer = Peer::new();
    peer.listen();
    let first = answer(&mut peer, 40_000);
    for (passed, ticks) in [
        (Duration::from_micros(400), 100),
        (ms(1), 350),
        (s(1), 250_350),
    ] {
        peer.advance(passed);
        assert_eq!(answer(&mut peer, 40_000).wrapping_sub(first), ticks);
    }
}

/// RFC 9293, 3.4.1, SHLD-1: "where M is the 4 microsecond timer, and F() is a pseudorandom function (PRF) of the connection's
/// identifying parameters [...] and a secret key": numbers of different tuples tell nothing of each other.
#[test]
fn the_numbers_of_different_tuples_are_unrelated() {
    let mut peer = Peer::new();
    peer.listen();
    let numbers: Vec<u32> = (0..500).map(|n| answer(&mut peer, 20_000 + n)).collect();
    let steps: HashSet<u32> = numbers
        .windows(2)
        .map(|pair| pair[1].wrapping_sub(pair[0]))
        .collect();
    assert!(steps.len() > 490, "only {} different steps", steps.len());
    // No half of the space is left out.
    let high = numbers.iter().filter(|&&number| number >= 1 << 31).count();
    assert!(
        (150..=350).contains(&high),
        "{high} of 500 are in the upper half"
    );
}

/// RFC 9293, 3.4.1, MUST-9: "F() MUST NOT be computable from the outside": another secret gives other numbers, for
/// connections that come and for those that go.
#[test]
fn the_numbers_depend_on_the_secret() {
    let mut numbers = HashSet::new();
    for secret in 0..32 {
        let mut peer = Peer::with(|config| config.seed = [9, 9, 9, secret]);
        peer.listen();
        numbers.insert(answer(&mut peer, 40_000));
    }
    assert_eq!(numbers.len(), 32);
}

/// Active opens use the same generator as passive ones.
#[test]
fn an_active_open_uses_the_same_generator() {
    let mut peer = Peer::new();
    let mut numbers = HashSet::new();
    let mut ports = HashSet::new();
    for _ in 0..50 {
        let conn = peer.connect();
        peer.expect(syn());
        numbers.insert(peer.iss);
        // RFC 6056: ports are not handed out twice in a row.
        ports.insert(peer.local);
        peer.stack().close(conn).unwrap();
    }
    assert_eq!((numbers.len(), ports.len()), (50, 50));
}

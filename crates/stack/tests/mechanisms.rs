//! Effects of mechanisms that no other test of the stack shows: delayed acknowledgments, Nagle's algorithm as a
//! mechanism, and a connection's account of them.

mod common;

use common::{MTU, Pair, config, pattern};
use tollgate_stack::config::{Buffers, DelayedAck, Mechanisms, Nagle, Switch, Timers};
use tollgate_stack::{ConnId, Received, SocketOption};

/// Two hosts with these mechanisms, and an established connection.
fn connected(mechanisms: Mechanisms) -> (Pair, ConnId, ConnId) {
    let [a, b] = [1, 2].map(|host| {
        let mut config = config(host);
        config.mechanisms = mechanisms;
        config
    });
    let mut pair = Pair::with(a, b, MTU);
    let (client, server) = pair.connect();
    (pair, client, server)
}

/// Sends a byte to a reader that answers nothing; bytes in flight after that, before any timer.
fn in_flight_after_a_byte(delayed_ack: DelayedAck, posts: bool) -> u32 {
    let (mut pair, client, server) = connected(Mechanisms {
        delayed_ack,
        ..Mechanisms::HOST
    });
    pair.a().send(client, b"x").unwrap();
    pair.poll_a();
    if posts {
        let end = &mut pair.cable.end(tollgate_link::Side::B);
        let got = pair
            .b
            .at(pair.now, &mut pair.pool)
            .poll_receive(end, server, &mut [0; 8]);
        assert_eq!(got, Ok(Received::Data(1)));
    }
    pair.settle();
    pair.a().info(client).unwrap().in_flight
}

#[test]
fn acknowledgment_is_delayed_unless_that_is_off() {
    for posts in [false, true] {
        assert_eq!(in_flight_after_a_byte(DelayedAck::On, posts), 1);
        assert_eq!(in_flight_after_a_byte(DelayedAck::Off, posts), 0);
    }
}

#[test]
fn acknowledgment_at_once_is_one_for_each_segment() {
    let acknowledgments = |delayed_ack| {
        let (mut pair, client, server) = connected(Mechanisms {
            delayed_ack,
            ..Mechanisms::HOST
        });
        let before = pair.a.counters().frames_in;
        let segment = pair.a().mss(client).unwrap();
        pair.a().send(client, &pattern(8 * segment, 1)).unwrap();
        pair.settle();
        assert!(pair.read_b(server) == pattern(8 * segment, 1));
        pair.a.counters().frames_in - before
    };
    assert_eq!(acknowledgments(DelayedAck::On), 4);
    assert_eq!(acknowledgments(DelayedAck::Off), 8);
}

#[test]
fn nagle_is_a_mechanism_of_new_connections_and_an_option_of_each() {
    for (nagle, segments) in [(Nagle::On, 1), (Nagle::Off, 2)] {
        let (mut pair, client, _) = connected(Mechanisms {
            nagle,
            ..Mechanisms::DEFAULT
        });
        let before = pair.b.counters().frames_in;
        for byte in [b"x", b"y"] {
            pair.a().send(client, byte).unwrap();
        }
        pair.settle();
        assert_eq!(pair.b.counters().frames_in - before, segments);
        assert_eq!(pair.a().info(client).unwrap().mechanisms.nagle, nagle);
        let off = SocketOption::NoDelay(true);
        pair.a().set_option(client, off).unwrap();
        let said = pair.a().info(client).unwrap().mechanisms.nagle;
        assert_eq!(said, Nagle::Off);
    }
}

#[test]
fn mbufs_live_until_they_are_acknowledged() {
    let (mut pair, client, server) = connected(Mechanisms {
        buffers: Buffers::Mbufs,
        nagle: Nagle::Off,
        ..Mechanisms::DEFAULT
    });
    let data = pattern(8000, 1);
    assert_eq!(pair.a().send(client, &data), Ok(8000));
    let sent = pair.a.mbufs().unwrap();
    assert_eq!((sent.mbufs.in_use(), sent.clusters.in_use()), (2, 2));
    assert_eq!((sent.clusters.bytes, sent.gathered), (8000, 8000));
    // Six segments of 1,448 bytes at most; the third takes the end of one cluster and the beginning of the other.
    assert_eq!(sent.references, 7);
    // Where an mbuf is cut, either part is summed again: that is all of them here.
    assert_eq!(pair.a.counters().summed_again, 8000);
    pair.settle();
    assert!(pair.read_b(server) == data);
    pair.pass(100_000_000);
    let acknowledged = pair.a.mbufs().unwrap();
    assert_eq!(acknowledged.mbufs.in_use(), 0);
    assert_eq!(acknowledged.clusters.in_use(), 0);
    assert_eq!(pair.b.mbufs().unwrap().mbufs.allocated, 0);
}

#[test]
fn list_of_timers_is_as_coarse_as_its_walks() {
    let acknowledged_after = |timers| {
        let (mut pair, client, _) = connected(Mechanisms {
            timers,
            ..Mechanisms::HOST
        });
        pair.a().send(client, b"x").unwrap();
        pair.settle();
        let sent = pair.now;
        while pair.a().info(client).unwrap().in_flight != 0 {
            pair.pass(1_000_000);
            assert_eq!(pair.a.counters().retransmits, 0);
        }
        pair.now.nanos_since(sent) / 1_000_000
    };
    let exact = acknowledged_after(Timers::LazyWheel);
    assert!((40..=43).contains(&exact), "{exact} ms");
    // 2^40 ns are 1,048,576 ticks, and the next multiple of 191 comes 14 ticks later.
    let list = acknowledged_after(Timers::List);
    assert!((14..=16).contains(&list), "{list} ms");
}

#[test]
fn small_message_in_mbufs_is_summed_once() {
    let (mut pair, client, server) = connected(Mechanisms {
        buffers: Buffers::Mbufs,
        ..Mechanisms::DEFAULT
    });
    for size in [4, 20, 80, 108, 200, 500, 1400] {
        pair.a().send(client, &pattern(size, 1)).unwrap();
        pair.pass(100_000_000);
        assert!(pair.read_b(server) == pattern(size, 1));
    }
    assert_eq!(pair.a.counters().summed_again, 0);
    assert_eq!(pair.a.mbufs().unwrap().mbufs.in_use(), 0);
}

/// The table of `docs/stack.md` is made of the doc comments; it is what this test prints when it fails.
#[test]
fn docs_list_every_mechanism_and_what_its_values_do() {
    let table: String = Mechanisms::SWITCHES
        .iter()
        .map(Switch::to_markdown)
        .collect();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stack.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains(&table),
        "docs/stack.md has another table than this:\n{table}"
    );
}

#[test]
fn connection_says_which_mechanisms_it_has() {
    for (name, value, mechanisms) in Mechanisms::each() {
        let (mut pair, client, server) = connected(mechanisms);
        for said in [
            pair.a().info(client).unwrap().mechanisms,
            pair.b().info(server).unwrap().mechanisms,
        ] {
            assert_eq!(said, mechanisms, "{name}={value}");
        }
    }
}

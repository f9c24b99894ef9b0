//! Checksum redundancy avoidance (Kay and Pasquale 1996, VI) between two stacks, in all pairings, with a middlebox between them
//! that strips, mangles, loses and reorders.
//!
//! Every frame is looked at: what has a checksum has the right one, and SYN and RST always have one. Each test then says which
//! side leaves checksums out and why, and that nobody was sent what it does not take.

#[path = "sim/complete.rs"]
mod complete;
#[path = "redundancy/net.rs"]
mod net;
#[path = "random/wire.rs"]
mod wire;

use net::{
    CLIENT, MS, Net, PORT, SERVER, TCP, address, cable, config, doubting, mac, old, pattern,
    rewritten, tcp_of, willing,
};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tollgate_link::Side;
use tollgate_link::fault::{Corrupt, Fault, Faults, Probability};
use tollgate_link::memory::Memory;
use tollgate_stack::config::{ChecksumPolicy, LanEvidence, Mechanisms};
use tollgate_stack::link::Integrity;
use tollgate_stack::{
    Checksums, Config, Error, Instant, Open, Pool, Received, SocketChecksums, SocketOption, Stack,
    State,
};
use tollgate_wire::bpdu::{BRIDGE_GROUP, Bpdu};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::tcp::{Flags, NO_CHECKSUM};
use tollgate_wire::{arp, udp};

/// Neither side has dropped a segment for its checksum or waited for a timer.
const NO_TROUBLE: [(u64, u64); 2] = [(0, 0); 2];

fn is_syn(frame: &[u8]) -> bool {
    tcp_of(frame).is_some_and(|(header, _)| header.flags.has(Flags::SYN))
}

fn is_confirmation(frame: &[u8]) -> bool {
    tcp_of(frame).is_some_and(|(header, _)| header.options.empty_checksum_data)
}

fn is_unsummed(frame: &[u8]) -> bool {
    tcp_of(frame).is_some() && frame[TCP + 16..TCP + 18] == [0, 0]
}

/// Changes the option of the SYNs that one host sends.
fn with_option(host: usize, option: Option<u8>) -> impl FnMut(usize, Vec<u8>) -> Vec<Vec<u8>> {
    move |from, frame| {
        if from == host && is_syn(&frame) {
            vec![rewritten(&frame, |header| {
                header.options.alternate_checksum = option;
            })]
        } else {
            vec![frame]
        }
    }
}

/// Both sum everything, for these reasons, and everything arrives without any trouble.
#[track_caller]
fn both_sum(net: &mut Net, reasons: [Checksums; 2], middle: net::Middle<'_>) {
    let conns = net.connect(middle);
    net.talk(conns, 5, middle);
    assert_eq!(net.checksums(conns), reasons);
    assert_eq!(net.unsummed, [0; 2]);
    assert_eq!(net.trouble(), NO_TROUBLE);
}

#[test]
fn two_willing_hosts_leave_checksums_out() {
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let conns = net.connect(&mut cable);
    assert_eq!(
        net.checksums(conns),
        [Checksums::Negotiating, Checksums::Redundant]
    );
    net.talk(conns, 1, &mut cable);
    assert_eq!(net.checksums(conns), [Checksums::Redundant; 2]);
    assert_eq!(net.trouble(), NO_TROUBLE);
    // From then on everything is predicted, nothing is summed, and nothing goes the slow way.
    let before = (net.segments, net.unsummed);
    let predicted = |net: &Net| [0, 1].map(|host| net.hosts[host].stack.counters().predicted);
    let predicted_before = predicted(&net);
    net.talk(conns, 20, &mut cable);
    for host in [CLIENT, SERVER] {
        let sent = net.segments[host] - before.0[host];
        assert_eq!(net.unsummed[host] - before.1[host], sent);
        let arrived = net.segments[1 - host] - before.0[1 - host];
        assert_eq!(predicted(&net)[host] - predicted_before[host], arrived);
        assert!(net.hosts[host].stack.counters().unverified > 0);
    }
    assert_eq!(net.trouble(), NO_TROUBLE);
}

#[test]
fn stream_in_one_direction_leaves_checksums_out() {
    for from in [CLIENT, SERVER] {
        let mut net = Net::new(willing(CLIENT), willing(SERVER));
        let conns = net.connect(&mut cable);
        let data = pattern(300_000, 3);
        assert_eq!(net.carry(conns, from, &data, &mut cable), data);
        assert_eq!(net.checksums(conns), [Checksums::Redundant; 2]);
        // The first flight of a client at most has checksums.
        assert!(
            net.unsummed[from] > net.segments[from] - 20,
            "{:?}",
            net.unsummed
        );
        assert_eq!(net.trouble(), NO_TROUBLE);
    }
}

#[test]
fn hosts_without_the_policy_are_summed_with() {
    let pairs = [
        (
            willing(CLIENT),
            old(SERVER),
            [Checksums::Declined, Checksums::Policy],
        ),
        (
            old(CLIENT),
            willing(SERVER),
            [Checksums::Policy, Checksums::Declined],
        ),
        (old(CLIENT), old(SERVER), [Checksums::Policy; 2]),
    ];
    for (client, server, reasons) in pairs {
        both_sum(&mut Net::new(client, server), reasons, &mut cable);
    }
}

#[test]
fn policy_is_negotiated_whatever_the_other_mechanisms() {
    for (name, value, mechanisms) in Mechanisms::each() {
        if name == "checksum" {
            continue;
        }
        for changed in [CLIENT, SERVER] {
            let mut configs = [willing(CLIENT), willing(SERVER)];
            let checksum = configs[changed].mechanisms.checksum;
            configs[changed].mechanisms = Mechanisms {
                checksum,
                ..mechanisms
            };
            // Evidence has tests of its own.
            configs[changed].mechanisms.lan_evidence = LanEvidence::Subnet;
            let [client, server] = configs;
            let mut net = Net::new(client, server);
            let conns = net.connect(&mut cable);
            net.talk(conns, 4, &mut cable);
            assert_eq!(
                net.checksums(conns),
                [Checksums::Redundant; 2],
                "{name}={value}"
            );
            assert_eq!(net.trouble(), NO_TROUBLE, "{name}={value}");
        }
    }
}

#[test]
fn connections_without_options_leave_checksums_out() {
    let plain = |host| {
        let mut config = willing(host);
        config.timestamps = false;
        config.window_scaling = false;
        config
    };
    let mut net = Net::new(plain(CLIENT), willing(SERVER));
    let conns = net.connect(&mut cable);
    net.talk(conns, 5, &mut cable);
    assert_eq!(net.checksums(conns), [Checksums::Redundant; 2]);
    assert!(net.unsummed.iter().all(|&count| count > 3));
    assert_eq!(net.trouble(), NO_TROUBLE);
}

#[test]
fn option_stripped_from_the_syn_leaves_both_summing() {
    both_sum(
        &mut Net::new(willing(CLIENT), willing(SERVER)),
        [Checksums::Declined; 2],
        &mut with_option(CLIENT, None),
    );
}

/// The server has answered, but the client never saw it: it sums, and the server has no evidence and sums as well.
#[test]
fn option_stripped_from_the_answer_leaves_both_summing() {
    both_sum(
        &mut Net::new(willing(CLIENT), willing(SERVER)),
        [Checksums::Declined, Checksums::Negotiating],
        &mut with_option(SERVER, None),
    );
}

#[test]
fn option_mangled_on_the_way_leaves_both_summing() {
    for number in [0, 1, 2, 4, 255] {
        both_sum(
            &mut Net::new(willing(CLIENT), willing(SERVER)),
            [Checksums::Declined; 2],
            &mut with_option(CLIENT, Some(number)),
        );
        both_sum(
            &mut Net::new(willing(CLIENT), willing(SERVER)),
            [Checksums::Declined, Checksums::Negotiating],
            &mut with_option(SERVER, Some(number)),
        );
    }
}

/// A middlebox puts the option into the SYN of a host that does not know it, or into the answer of one.
#[test]
fn option_made_up_on_the_way_leaves_both_summing() {
    both_sum(
        &mut Net::new(old(CLIENT), willing(SERVER)),
        [Checksums::Policy, Checksums::Negotiating],
        &mut with_option(CLIENT, Some(NO_CHECKSUM)),
    );
    // The client believes that its peer has agreed, confirms, and waits for a segment without a checksum.
    both_sum(
        &mut Net::new(willing(CLIENT), old(SERVER)),
        [Checksums::Negotiating, Checksums::Policy],
        &mut with_option(SERVER, Some(NO_CHECKSUM)),
    );
}

#[test]
fn confirmation_stripped_leaves_both_summing() {
    both_sum(
        &mut Net::new(willing(CLIENT), willing(SERVER)),
        [Checksums::Negotiating; 2],
        &mut |_, frame| {
            if is_confirmation(&frame) {
                vec![rewritten(&frame, |header| {
                    header.options.empty_checksum_data = false;
                })]
            } else {
                vec![frame]
            }
        },
    );
}

#[test]
fn confirmation_that_is_lost_comes_with_another_acknowledgment() {
    let mut lost = 0;
    let mut middle = |_: usize, frame: Vec<u8>| {
        if is_confirmation(&frame) && lost < 2 {
            lost += 1;
            vec![]
        } else {
            vec![frame]
        }
    };
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let listener = net.listen(&Open::default());
    let client = net.open(&Open::default());
    net.settle(&mut middle);
    // Data completes the handshake, under a checksum.
    assert_eq!(net.at(CLIENT).send(client, b"hello"), Ok(5));
    net.settle(&mut middle);
    let server = net.at(SERVER).accept(listener).expect("it is complete");
    let conns = [client, server];
    assert_eq!(net.checksums(conns), [Checksums::Negotiating; 2]);
    // The server's data is acknowledged by segments of their own.
    let data = pattern(50_000, 1);
    assert_eq!(net.carry(conns, SERVER, &data, &mut middle), data);
    assert_eq!(net.checksums(conns), [Checksums::Redundant; 2]);
    assert_eq!(net.trouble(), NO_TROUBLE);
}

/// The confirmation is overtaken by the client's first data.
#[test]
fn confirmation_behind_data_is_as_good() {
    let mut held = Vec::new();
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let listener = net.listen(&Open::default());
    let client = net.open(&Open::default());
    net.settle(&mut |_, frame| {
        if is_confirmation(&frame) {
            held.push(frame);
            vec![]
        } else {
            vec![frame]
        }
    });
    assert_eq!(net.at(CLIENT).send(client, b"first"), Ok(5));
    net.settle(&mut |_, frame| {
        let late = if tcp_of(&frame).is_some_and(|(_, payload)| payload == b"first") {
            std::mem::take(&mut held)
        } else {
            vec![]
        };
        [vec![frame], late].concat()
    });
    let server = net.at(SERVER).accept(listener).expect("it is complete");
    let first = net.at(SERVER).receive(server, &mut [0; 8]);
    assert_eq!(first, Ok(Received::Data(5)));
    net.talk([client, server], 3, &mut cable);
    assert_eq!(net.checksums([client, server]), [Checksums::Redundant; 2]);
}

#[test]
fn lost_syns_and_answers_are_asked_again() {
    for from in [CLIENT, SERVER] {
        let mut lost = 0;
        let mut middle = |host: usize, frame: Vec<u8>| {
            if host == from && is_syn(&frame) && lost < 2 {
                lost += 1;
                vec![]
            } else {
                vec![frame]
            }
        };
        let mut net = Net::new(willing(CLIENT), willing(SERVER));
        let conns = net.connect(&mut middle);
        net.talk(conns, 3, &mut middle);
        assert_eq!(lost, 2);
        assert_eq!(net.checksums(conns), [Checksums::Redundant; 2]);
    }
}

/// Everything twice, and each second copy late.
#[test]
fn duplicates_do_not_confuse_the_negotiation() {
    let mut late = [Vec::new(), Vec::new()];
    let mut middle = |host: usize, frame: Vec<u8>| {
        let mut arriving = std::mem::take(&mut late[host]);
        if tcp_of(&frame).is_some_and(|(header, _)| !header.flags.has(Flags::RST)) {
            late[host].push(frame.clone());
        }
        arriving.push(frame);
        arriving
    };
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let conns = net.connect(&mut middle);
    net.talk(conns, 6, &mut middle);
    assert_eq!(net.checksums(conns), [Checksums::Redundant; 2]);
    assert!(net.unsummed.iter().all(|&count| count != 0));
}

#[test]
fn simultaneous_open_is_negotiated() {
    for are_willing in [[true, true], [true, false], [false, true]] {
        let pick = |host: usize| {
            if are_willing[host] {
                willing(host)
            } else {
                old(host)
            }
        };
        let mut net = Net::new(pick(CLIENT), pick(SERVER));
        // Both know each other's link address, so that both SYNs leave at once.
        for host in [CLIENT, SERVER] {
            net.at(host).add_neighbour(address(1 - host), mac(1 - host));
        }
        let from = |port| Open {
            local_port: Some(port),
            ..Open::default()
        };
        let conns = [CLIENT, SERVER].map(|host| {
            let to = SocketAddrV4::new(address(1 - host), [2000, 1000][host]);
            let open = from([1000, 2000][host]);
            net.at(host).connect_with(to, &open).expect("it is free")
        });
        for host in [CLIENT, SERVER] {
            net.poll(host);
        }
        net.settle(&mut cable);
        for host in [CLIENT, SERVER] {
            assert_eq!(net.at(host).state(conns[host]), State::Established);
        }
        net.talk(conns, 4, &mut cable);
        let checksums = net.checksums(conns);
        if are_willing == [true; 2] {
            assert_eq!(checksums, [Checksums::Redundant; 2]);
        } else {
            assert!(checksums.iter().all(|how| how.are_made()));
            assert_eq!(net.unsummed, [0; 2]);
        }
        assert_eq!(net.trouble(), NO_TROUBLE);
    }
}

#[test]
fn syn_cookie_holds_no_agreement() {
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let listener = net
        .at(SERVER)
        .listen_with(PORT, 1, &Open::default())
        .expect("the port is free");
    // The backlog is full of a connection whose handshake does not end.
    let _ = net.open(&Open::default());
    net.settle(&mut |host, frame| {
        if host == CLIENT && tcp_of(&frame).is_some_and(|(header, _)| !header.flags.has(Flags::SYN))
        {
            vec![]
        } else {
            vec![frame]
        }
    });
    let second = net.open(&Open::default());
    net.settle(&mut cable);
    let server = net
        .at(SERVER)
        .accept(listener)
        .expect("the cookie came back");
    assert_eq!(net.hosts[SERVER].stack.counters().syn_cookies_accepted, 1);
    net.talk([second, server], 3, &mut cable);
    assert_eq!(
        net.checksums([second, server]),
        [Checksums::Declined, Checksums::Cookie]
    );
    assert_eq!(net.trouble(), NO_TROUBLE);
}

#[test]
fn connection_closes_without_checksums() {
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let conns = net.connect(&mut cable);
    net.talk(conns, 3, &mut cable);
    let mut fins = 0;
    let mut middle = |_: usize, frame: Vec<u8>| {
        if tcp_of(&frame).is_some_and(|(header, _)| header.flags.has(Flags::FIN)) {
            assert!(is_unsummed(&frame));
            fins += 1;
        }
        vec![frame]
    };
    assert_eq!(net.at(CLIENT).close(conns[CLIENT]), Ok(()));
    net.settle(&mut middle);
    assert_eq!(
        net.at(SERVER).receive(conns[SERVER], &mut [0; 8]),
        Ok(Received::End)
    );
    assert_eq!(net.at(SERVER).close(conns[SERVER]), Ok(()));
    net.settle(&mut middle);
    net.pass(1000 * MS, &mut middle);
    assert_eq!(fins, 2);
    let open = [CLIENT, SERVER].map(|host| net.hosts[host].stack.connections());
    assert_eq!(open, [0, 0]);
    assert_eq!(net.trouble(), NO_TROUBLE);
}

/// The last acknowledgment is lost: the FIN comes again, with a checksum, and TIME-WAIT answers it.
#[test]
fn lost_last_acknowledgment_is_made_up_for() {
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let conns = net.connect(&mut cable);
    net.talk(conns, 3, &mut cable);
    assert_eq!(net.at(CLIENT).close(conns[CLIENT]), Ok(()));
    net.settle(&mut cable);
    assert_eq!(
        net.at(SERVER).receive(conns[SERVER], &mut [0; 8]),
        Ok(Received::End)
    );
    assert_eq!(net.at(SERVER).close(conns[SERVER]), Ok(()));
    net.settle(&mut |host, frame| if host == CLIENT { vec![] } else { vec![frame] });
    assert_eq!(net.hosts[SERVER].stack.connections(), 1);
    net.pass(3000 * MS, &mut cable);
    assert_eq!(net.hosts[SERVER].stack.connections(), 0);
}

#[test]
fn reset_has_a_checksum_and_is_verified() {
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let conns = net.connect(&mut cable);
    net.talk(conns, 3, &mut cable);
    let mut damage = |_: usize, mut frame: Vec<u8>| {
        if tcp_of(&frame).is_some_and(|(header, _)| header.flags.has(Flags::RST)) {
            frame[TCP + 16..TCP + 18].copy_from_slice(&[0, 0]);
        }
        vec![frame]
    };
    // The net itself holds that it is sent with one.
    assert_eq!(net.at(CLIENT).abort(conns[CLIENT]), Ok(()));
    net.settle(&mut damage);
    assert_eq!(net.at(SERVER).state(conns[SERVER]), State::Established);
    assert_eq!(net.trouble()[SERVER].0, 1);
}

#[test]
fn wrong_checksum_is_dropped_where_they_are_left_out() {
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let conns = net.connect(&mut cable);
    net.talk(conns, 3, &mut cable);
    let mut wrong = 0;
    let mut middle = |_: usize, mut frame: Vec<u8>| {
        if is_unsummed(&frame) && wrong == 0 {
            frame[TCP + 16] = 0xab;
            wrong += 1;
        }
        vec![frame]
    };
    let data = pattern(700, 9);
    assert_eq!(net.carry(conns, CLIENT, &data, &mut middle), data);
    assert_eq!(net.trouble()[SERVER], (1, 0));
}

#[test]
fn zero_field_is_verified_where_nothing_was_agreed() {
    for server in [old(SERVER), willing(SERVER)] {
        let mut net = Net::new(old(CLIENT), server);
        let conns = net.connect(&mut cable);
        let mut zeroed = 0;
        let mut middle = |host: usize, mut frame: Vec<u8>| {
            let (_, payload) = match tcp_of(&frame) {
                Some(segment) => segment,
                None => return vec![frame],
            };
            if host == CLIENT && !payload.is_empty() && zeroed < 3 {
                frame[TCP + 16..TCP + 18].copy_from_slice(&[0, 0]);
                zeroed += 1;
            }
            vec![frame]
        };
        let data = pattern(5_000, 9);
        assert_eq!(net.carry(conns, CLIENT, &data, &mut middle), data);
        assert_eq!(net.trouble()[SERVER].0, 3);
    }
}

/// A device on the way drops what has no checksum: the connection finds out by its timer and goes on with checksums, in
/// which the other side has no say.
#[test]
fn device_that_drops_what_is_unsummed_is_survived() {
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let conns = net.connect(&mut cable);
    net.talk(conns, 3, &mut cable);
    let mut middle = |_: usize, frame: Vec<u8>| {
        if is_unsummed(&frame) {
            vec![]
        } else {
            vec![frame]
        }
    };
    net.talk(conns, 5, &mut middle);
    assert_eq!(net.checksums(conns), [Checksums::TimedOut; 2]);
    let before = (net.unsummed, net.trouble());
    net.talk(conns, 5, &mut middle);
    assert_eq!((net.unsummed, net.trouble()), before);
}

/// Only one side has data: the other learns from its retransmissions that acknowledgments do not arrive.
#[test]
fn device_that_drops_unsummed_acknowledgments_is_survived() {
    for from in [CLIENT, SERVER] {
        let mut net = Net::new(willing(CLIENT), willing(SERVER));
        let conns = net.connect(&mut cable);
        net.talk(conns, 3, &mut cable);
        let mut middle = |_: usize, frame: Vec<u8>| {
            if is_unsummed(&frame) {
                vec![]
            } else {
                vec![frame]
            }
        };
        let data = pattern(100_000, 4);
        assert_eq!(net.carry(conns, from, &data, &mut middle), data);
        assert_eq!(net.checksums(conns), [Checksums::TimedOut; 2]);
    }
}

/// One side returns to checksums, the other goes on without them.
#[test]
fn either_side_may_return_to_checksums() {
    for who in [CLIENT, SERVER] {
        let mut net = Net::new(willing(CLIENT), willing(SERVER));
        let conns = net.connect(&mut cable);
        net.talk(conns, 3, &mut cable);
        let keep = SocketOption::Checksums(SocketChecksums::Keep);
        assert_eq!(net.at(who).set_option(conns[who], keep), Ok(()));
        let before = net.unsummed;
        net.talk(conns, 5, &mut cable);
        assert_eq!(net.unsummed[who], before[who]);
        assert!(net.unsummed[1 - who] > before[1 - who]);
        let mut expected = [Checksums::Redundant; 2];
        expected[who] = Checksums::Kept;
        assert_eq!(net.checksums(conns), expected);
        assert_eq!(net.trouble(), NO_TROUBLE);
        // There is no way back without a handshake.
        let leave_out = SocketOption::Checksums(SocketChecksums::LeaveOut);
        assert_eq!(
            net.at(who).set_option(conns[who], leave_out),
            Err(Error::BadOption)
        );
    }
}

#[test]
fn sockets_may_keep_their_checksums() {
    let keep = Open {
        checksums: SocketChecksums::Keep,
        ..Open::default()
    };
    let any = Open::default();
    let cases = [
        (&keep, &any, [Checksums::Kept, Checksums::Declined]),
        (&any, &keep, [Checksums::Declined, Checksums::Kept]),
    ];
    for (client, server, expected) in cases {
        let mut net = Net::new(willing(CLIENT), willing(SERVER));
        let listener = net.listen(server);
        let conns = net.connect_to(listener, client, &mut cable);
        net.talk(conns, 3, &mut cable);
        assert_eq!(net.checksums(conns), expected);
        assert_eq!(net.unsummed, [0; 2]);
    }
}

#[test]
fn sockets_may_leave_checksums_out_where_they_are_not_redundant() {
    let ask = Open {
        checksums: SocketChecksums::LeaveOut,
        ..Open::default()
    };
    let any = Open::default();
    let unguarded = |host| {
        let mut config = willing(host);
        config.integrity = Integrity::Unprotected;
        config
    };
    let cases = [
        (&ask, &ask, [Checksums::Asked; 2]),
        (&ask, &any, [Checksums::Declined, Checksums::Unguarded]),
        (&any, &ask, [Checksums::Unguarded; 2]),
        (&any, &any, [Checksums::Unguarded; 2]),
    ];
    for (client, server, expected) in cases {
        let mut net = Net::new(unguarded(CLIENT), unguarded(SERVER));
        let listener = net.listen(server);
        let conns = net.connect_to(listener, client, &mut cable);
        net.talk(conns, 3, &mut cable);
        assert_eq!(net.checksums(conns), expected);
        let left_out = expected == [Checksums::Asked; 2];
        assert_eq!(net.unsummed[CLIENT] != 0, left_out);
    }
}

#[test]
fn what_a_policy_does_not_allow_is_refused() {
    let ask = Open {
        checksums: SocketChecksums::LeaveOut,
        ..Open::default()
    };
    let keep = Open {
        checksums: SocketChecksums::Keep,
        ..Open::default()
    };
    let to = SocketAddrV4::new(address(SERVER), PORT);
    for (policy, open) in [
        (ChecksumPolicy::Always, ask),
        (ChecksumPolicy::Off, ask),
        (ChecksumPolicy::Off, keep),
    ] {
        let mut net = Net::new(config(CLIENT, policy), willing(SERVER));
        assert_eq!(
            net.at(CLIENT).connect_with(to, &open),
            Err(Error::BadOption)
        );
        assert_eq!(
            net.at(CLIENT).listen_with(PORT, 4, &open).map(|_| ()),
            Err(Error::BadOption)
        );
        assert_eq!(net.hosts[CLIENT].stack.connections(), 0);
    }
}

/// Two networks and a router between them, which hands packets on to the other side.
fn routed(frame: Vec<u8>, to: usize) -> Vec<u8> {
    let mut frame = frame;
    frame[..6].copy_from_slice(&mac(to).0);
    frame[6..12].copy_from_slice(&ROUTER.0);
    frame
}

const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 99]);

/// Both ends' neighbours are the router, by its link address.
fn by_router(net: &mut Net, next_hops: [Ipv4Addr; 2]) {
    for host in [CLIENT, SERVER] {
        net.at(host).add_neighbour(next_hops[host], ROUTER);
    }
}

/// Hands IP packets on from either side, and nothing else.
fn hand_on(host: usize, frame: Vec<u8>) -> Vec<Vec<u8>> {
    let header = ethernet::Header::parse(&frame).expect("a frame");
    if header.ethertype == EtherType::Ipv4 {
        vec![routed(frame, 1 - host)]
    } else {
        vec![]
    }
}

#[test]
fn router_between_keeps_checksums_on() {
    let behind = |host| {
        let mut config = willing(host);
        config.prefix_len = 32;
        config.gateway = Some(Ipv4Addr::new(10, 0, 0, 254));
        config
    };
    let mut net = Net::new(behind(CLIENT), behind(SERVER));
    by_router(&mut net, [Ipv4Addr::new(10, 0, 0, 254); 2]);
    both_sum(&mut net, [Checksums::Routed; 2], &mut hand_on);
}

/// A host without a gateway asks for everybody's link address, and somebody answers: that is no evidence of the same subnet.
#[test]
fn address_of_another_subnet_keeps_checksums_on() {
    let lost = |host| {
        let mut config = willing(host);
        config.prefix_len = 32;
        config
    };
    let mut net = Net::new(lost(CLIENT), lost(SERVER));
    by_router(&mut net, [address(SERVER), address(CLIENT)]);
    both_sum(&mut net, [Checksums::Routed; 2], &mut hand_on);
}

/// Proxy ARP: one host takes the other for a neighbour, the other knows of the router. Each judges by itself.
#[test]
fn proxy_arp_that_deceives_one_host_keeps_checksums_on() {
    for deceived in [CLIENT, SERVER] {
        let pick = |host| {
            let mut config = willing(host);
            if host != deceived {
                config.prefix_len = 32;
                config.gateway = Some(Ipv4Addr::new(10, 0, 0, 254));
            }
            config
        };
        let mut net = Net::new(pick(CLIENT), pick(SERVER));
        let hops = [CLIENT, SERVER].map(|host| {
            if host == deceived {
                address(1 - host)
            } else {
                Ipv4Addr::new(10, 0, 0, 254)
            }
        });
        by_router(&mut net, hops);
        let mut reasons = [Checksums::Routed; 2];
        reasons[deceived] = Checksums::Declined;
        both_sum(&mut net, reasons, &mut hand_on);
    }
}

/// Proxy ARP that deceives both is not told by the subnet alone, as the documentation says.
#[test]
fn proxy_arp_that_deceives_both_is_not_seen_by_the_subnet() {
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    by_router(&mut net, [address(SERVER), address(CLIENT)]);
    let conns = net.connect(&mut hand_on);
    net.talk(conns, 3, &mut hand_on);
    assert_eq!(net.checksums(conns), [Checksums::Redundant; 2]);
}

#[test]
fn announcements_prove_the_same_lan() {
    let mut units = [0; 2];
    let mut middle = |host: usize, frame: Vec<u8>| {
        let header = ethernet::Header::parse(&frame).expect("a frame");
        if header.destination == BRIDGE_GROUP {
            let len = header.ethertype.payload_len().expect("a length");
            let unit = Bpdu::parse(&frame[ethernet::HEADER_LEN..][..len]).expect("a unit");
            let Bpdu::Configuration(said) = unit else {
                panic!("{unit:?}");
            };
            assert_eq!(header.source, mac(host));
            assert!(said.message_age > said.max_age);
            units[host] += 1;
        }
        vec![frame]
    };
    let mut net = Net::new(doubting(CLIENT), doubting(SERVER));
    let conns = net.connect(&mut middle);
    net.talk(conns, 3, &mut middle);
    assert_eq!(net.checksums(conns), [Checksums::Redundant; 2]);
    assert_eq!(units, [1, 1]);
    assert_eq!(net.trouble(), NO_TROUBLE);
}

#[test]
fn bridge_that_passes_no_units_keeps_checksums_on() {
    let mut bridge = |_: usize, frame: Vec<u8>| {
        let header = ethernet::Header::parse(&frame).expect("a frame");
        // IEEE 802.1D, 7.12.6: frames for the reserved group addresses are not relayed.
        if header.destination == BRIDGE_GROUP {
            vec![]
        } else {
            vec![frame]
        }
    };
    let mut net = Net::new(doubting(CLIENT), doubting(SERVER));
    both_sum(
        &mut net,
        [Checksums::Declined, Checksums::Unproven],
        &mut bridge,
    );
    // Where one of both believes the subnet, the other does not go along.
    let mut net = Net::new(doubting(CLIENT), willing(SERVER));
    both_sum(
        &mut net,
        [Checksums::Unproven, Checksums::Negotiating],
        &mut bridge,
    );
    let mut net = Net::new(willing(CLIENT), doubting(SERVER));
    both_sum(
        &mut net,
        [Checksums::Declined, Checksums::Unproven],
        &mut bridge,
    );
}

#[test]
fn units_of_bridges_prove_nothing() {
    let mut middle = |_: usize, mut frame: Vec<u8>| {
        let header = ethernet::Header::parse(&frame).expect("a frame");
        if header.destination == BRIDGE_GROUP {
            // A bridge's own unit, whose link address somebody answers ARP with.
            let age = ethernet::HEADER_LEN + 3 + 27;
            frame[age..age + 2].copy_from_slice(&[0, 0]);
        }
        vec![frame]
    };
    let mut net = Net::new(doubting(CLIENT), doubting(SERVER));
    both_sum(
        &mut net,
        [Checksums::Declined, Checksums::Unproven],
        &mut middle,
    );
}

#[test]
fn units_are_not_sent_nor_read_by_default() {
    let mut net = Net::new(willing(CLIENT), willing(SERVER));
    let mut middle = |_: usize, frame: Vec<u8>| {
        let header = ethernet::Header::parse(&frame).expect("a frame");
        assert_ne!(header.destination, BRIDGE_GROUP);
        vec![frame]
    };
    let conns = net.connect(&mut middle);
    net.talk(conns, 2, &mut middle);
    let mut doubting = Net::new(doubting(CLIENT), willing(SERVER));
    let _ = doubting.connect(&mut cable);
    let unknown = tollgate_stack::counters::Drop::UnknownProtocol;
    assert_eq!(doubting.hosts[SERVER].stack.counters().drops(unknown), 1);
    assert_eq!(doubting.hosts[CLIENT].stack.counters().drops(unknown), 0);
}

/// Proxy ARP is silent: it answers for the peer but announces nothing. That both are deceived is seen by the silence.
#[test]
fn proxy_arp_that_deceives_both_is_seen_by_announcements() {
    let mut net = Net::new(doubting(CLIENT), doubting(SERVER));
    by_router(&mut net, [address(SERVER), address(CLIENT)]);
    both_sum(
        &mut net,
        [Checksums::Declined, Checksums::Unproven],
        &mut hand_on,
    );
}

/// A router takes over the peer's address in the middle of a connection, by another link address that nobody announced.
#[test]
fn proof_is_lost_with_the_link_address() {
    let mut net = Net::new(doubting(CLIENT), doubting(SERVER));
    let conns = net.connect(&mut cable);
    net.talk(conns, 3, &mut cable);
    assert_eq!(net.checksums(conns), [Checksums::Redundant; 2]);
    let before = net.unsummed;
    by_router(&mut net, [address(SERVER), address(CLIENT)]);
    assert_eq!(net.checksums(conns), [Checksums::Unproven; 2]);
    net.talk(conns, 5, &mut hand_on);
    assert_eq!(net.unsummed, before);
    assert_eq!(net.trouble(), NO_TROUBLE);
}

#[test]
fn made_up_units_are_bounded() {
    let mut net = Net::new(doubting(CLIENT), doubting(SERVER));
    let mut units = Vec::new();
    net.at(CLIENT).add_neighbour(address(SERVER), mac(SERVER));
    let _ = net.open(&Open::default());
    net.settle(&mut |_, frame| {
        if ethernet::Header::parse(&frame).is_ok_and(|header| header.destination == BRIDGE_GROUP) {
            units.push(frame.clone());
        }
        vec![frame]
    });
    let Some(unit) = units.pop() else {
        panic!("the server asks for the client's link address");
    };
    // Truncated, of any length, and from everybody.
    for cut in 0..unit.len() {
        net.hosts[CLIENT].wire.to_stack.push(unit[..cut].to_vec());
    }
    for host in 0..5_000u32 {
        let mut other = unit.clone();
        other[8..12].copy_from_slice(&host.to_be_bytes());
        net.hosts[CLIENT].wire.to_stack.push(other);
    }
    net.poll(CLIENT);
    assert_eq!(
        net.hosts[CLIENT].pool.capacity() - net.hosts[CLIENT].pool.available(),
        0
    );
}

/// A UDP datagram that a host sends, seen on the wire: its header.
fn datagram(net: &mut Net, wish: Option<SocketChecksums>, to: Ipv4Addr, len: usize) -> Vec<bool> {
    let socket = net.at(CLIENT).udp_bind(0).expect("a port is free");
    if let Some(wish) = wish {
        assert_eq!(net.at(CLIENT).udp_set_checksums(socket, wish), Ok(()));
    }
    let receiver = net.at(SERVER).udp_bind(9).expect("the port is free");
    let data = pattern(len, 5);
    let mut seen = Vec::new();
    let to = SocketAddrV4::new(to, 9);
    assert_eq!(net.at(CLIENT).udp_send(socket, to, &data), Ok(()));
    net.settle(&mut |host, frame| {
        let link = ethernet::Header::parse(&frame).expect("a frame");
        let is_first = frame
            .get(20..22)
            .is_some_and(|word| word[0] & 0x1f == 0 && word[1] == 0);
        if host == CLIENT && link.ethertype == EtherType::Ipv4 && frame[23] == 17 && is_first {
            let header = udp::Header::parse_front(&frame[34..]).expect("a datagram");
            seen.push(header.no_checksum);
        }
        hand_or_pass(host, frame)
    });
    let (_, got) = net.at(SERVER).udp_receive(receiver).expect("it arrived");
    assert_eq!(got, data);
    assert_eq!(net.at(SERVER).udp_close(receiver), Ok(()));
    seen
}

/// Frames for the router go on to the server, others pass.
fn hand_or_pass(host: usize, frame: Vec<u8>) -> Vec<Vec<u8>> {
    if frame[..6] == ROUTER.0 {
        hand_on(host, frame)
    } else {
        vec![frame]
    }
}

#[test]
fn datagrams_leave_checksums_out_where_they_are_redundant() {
    let server = address(SERVER);
    let plain = |config: Config| Net::new(config, willing(SERVER));
    // Datagrams before the link address is known are no different.
    let mut net = plain(willing(CLIENT));
    assert_eq!(datagram(&mut net, None, server, 100), [true]);
    assert_eq!(datagram(&mut net, None, server, 100), [true]);
    assert_eq!(
        datagram(&mut net, Some(SocketChecksums::Keep), server, 100),
        [false]
    );
    // A CRC does not cover how fragments are put together (RFC 4963).
    assert_eq!(datagram(&mut net, None, server, 4_000), [false]);
    assert_eq!(
        datagram(&mut net, Some(SocketChecksums::LeaveOut), server, 4_000),
        [true]
    );

    assert_eq!(
        datagram(&mut plain(old(CLIENT)), None, server, 100),
        [false]
    );
    let ask = Some(SocketChecksums::LeaveOut);
    assert_eq!(datagram(&mut plain(old(CLIENT)), ask, server, 100), [true]);
    let mut unguarded = willing(CLIENT);
    unguarded.integrity = Integrity::Unprotected;
    assert_eq!(datagram(&mut plain(unguarded), None, server, 100), [false]);
    let mut behind = willing(CLIENT);
    behind.prefix_len = 32;
    behind.gateway = Some(Ipv4Addr::new(10, 0, 0, 254));
    let mut net = plain(behind);
    net.at(CLIENT)
        .add_neighbour(Ipv4Addr::new(10, 0, 0, 254), ROUTER);
    assert_eq!(datagram(&mut net, None, server, 100), [false]);
    assert_eq!(datagram(&mut net, ask, server, 100), [true]);
}

#[test]
fn datagrams_need_the_evidence_that_is_asked_for() {
    let mut net = Net::new(doubting(CLIENT), doubting(SERVER));
    // The server has not answered yet.
    assert_eq!(datagram(&mut net, None, address(SERVER), 100), [false]);
    assert_eq!(datagram(&mut net, None, address(SERVER), 100), [true]);
}

#[test]
fn questions_announce_as_answers_do() {
    let mut net = Net::new(doubting(CLIENT), doubting(SERVER));
    let mut order = Vec::new();
    let _ = net.open(&Open::default());
    net.settle(&mut |host, frame| {
        let header = ethernet::Header::parse(&frame).expect("a frame");
        if header.ethertype == EtherType::Arp {
            let packet = arp::Packet::parse(&frame[ethernet::HEADER_LEN..]).expect("ARP");
            order.push((host, Some(packet.operation)));
        } else if header.destination == BRIDGE_GROUP {
            order.push((host, None));
        }
        vec![frame]
    });
    assert_eq!(
        order,
        [
            (CLIENT, Some(arp::Operation::Request)),
            (CLIENT, None),
            (SERVER, Some(arp::Operation::Reply)),
            (SERVER, None),
        ]
    );
}

/// Outcome of a stream over a link that damages payload behind its own check.
struct Damage {
    /// Bytes that the reader got wrong.
    wrong: usize,
    /// Frames that were damaged on their way to the server.
    damaged: u64,
    /// Segments that the server dropped for their checksum.
    dropped: u64,
    /// Segments that it took unverified.
    unverified: u64,
}

/// Sends a stream to a server whose link damages payload once both sides have settled how they go on.
fn over_damage(policy: ChecksumPolicy, seed: u64) -> Damage {
    const BYTES: u32 = 100_000;
    let mut now = Instant::from_nanos(1 << 40);
    let mut pool = Pool::new(512, Pool::frame_size_for(1500));
    let mut cable = Memory::new(1500);
    let [mut client, mut server] =
        [0, 1].map(|host| Stack::new(config(host, policy), 1500, now).expect("it is valid"));
    let listener = server
        .at(now, &mut pool)
        .listen(PORT, 4)
        .expect("it is free");
    let to = SocketAddrV4::new(address(1), PORT);
    let conn = client
        .at(now, &mut pool)
        .connect(to)
        .expect("a port is free");
    let mut accepted = None;
    let mut buffer = [0; 2048];
    let (mut sent, mut read) = (0u32, 0u32);
    let mut outcome = Damage {
        wrong: 0,
        damaged: 0,
        dropped: 0,
        unverified: 0,
    };
    for turn in 0..200_000u64 {
        now = now + Duration::from_millis(2);
        client.at(now, &mut pool).poll(&mut cable.end(Side::A));
        let how = client
            .at(now, &mut pool)
            .info(conn)
            .expect("it is open")
            .checksums;
        let is_settled = matches!(how, Checksums::Redundant | Checksums::Policy);
        let chance = if is_settled && sent != 0 { 0.3 } else { 0.0 };
        let faults = Faults {
            corrupt: Probability::new(chance).expect("it is one"),
            // Headers stay as they are.
            corrupt_at: Corrupt::From(66),
            ..Faults::default()
        };
        let mut fault = Fault::on_receive(cable.end(Side::B), faults, seed + turn);
        fault.set_now(now);
        server.at(now, &mut pool).poll(&mut fault);
        outcome.damaged += fault.stats().corrupted;
        fault.drain(&mut pool);
        client.at(now, &mut pool).poll(&mut cable.end(Side::A));
        accepted = accepted.or_else(|| server.at(now, &mut pool).accept(listener).ok());
        if client.at(now, &mut pool).state(conn) == State::Established && sent < BYTES {
            let data: Vec<u8> = (sent..sent + 800).map(|n| (n % 251) as u8).collect();
            sent += client.at(now, &mut pool).send(conn, &data).unwrap_or(0) as u32;
        }
        let Some(conn) = accepted else { continue };
        while let Ok(Received::Data(len)) = server.at(now, &mut pool).receive(conn, &mut buffer) {
            for &byte in &buffer[..len] {
                outcome.wrong += usize::from(byte != (read % 251) as u8);
                read += 1;
            }
        }
        if read == BYTES {
            break;
        }
    }
    assert_eq!(read, BYTES);
    let counters = server.counters();
    outcome.dropped = counters.drops(tollgate_stack::counters::Drop::Checksum);
    outcome.unverified = counters.unverified;
    outcome
}

#[test]
fn damage_reaches_the_reader_only_where_checksums_are_left_out() {
    for seed in 0..4 {
        let kept = over_damage(ChecksumPolicy::Always, seed << 32);
        assert_eq!((kept.wrong, kept.unverified), (0, 0));
        assert!(kept.damaged > 10, "{} frames were damaged", kept.damaged);
        assert_eq!(kept.dropped, kept.damaged);
        let left_out = over_damage(ChecksumPolicy::RedundancyAvoidance, seed << 32);
        assert!(
            left_out.damaged > 10,
            "{} frames were damaged",
            left_out.damaged
        );
        assert_eq!(left_out.dropped, 0);
        assert!(
            left_out.wrong as u64 >= left_out.damaged,
            "{} bytes are wrong",
            left_out.wrong
        );
        assert!(
            left_out.unverified > 100,
            "{} were taken unverified",
            left_out.unverified
        );
    }
}

//! TCP Fast Open at the client (RFC 7413).

use crate::peer::*;
use std::net::SocketAddrV4;
use std::time::Duration;
use tollgate_stack::config::{ChecksumPolicy, Ecn};
use tollgate_stack::link::Integrity;
use tollgate_stack::{ConnId, Error, FastOpen, Open, State};
use tollgate_wire::icmp::{Message, Unreachable};
use tollgate_wire::tcp::{FastOpenCookie, Flags};

/// Time after which a SYN is sent again.
const SYN_TIMEOUT: Duration = s(1);
const COOKIE: FastOpenCookie = FastOpenCookie::of_eight([1, 2, 3, 4, 5, 6, 7, 8]);
const NEXT: FastOpenCookie = FastOpenCookie::of_eight([9; 8]);

fn holding(mut first: Seg, cookie: FastOpenCookie) -> Seg {
    first.options.fast_open = Some(cookie);
    first
}

/// The stack opens a connection to the peer's port `port` with so many bytes of the stream.
#[track_caller]
fn open_at(peer: &mut Peer, port: u16, bytes: usize) -> ConnId {
    peer.port = port;
    let to = SocketAddrV4::new(PEER, port);
    let (conn, taken) = peer
        .stack()
        .connect_with_data(to, &Open::default(), &stream(1, bytes))
        .expect("a connection is opened");
    assert_eq!(taken, bytes);
    peer.local = peer.stack().info(conn).expect("it is there").local.port();
    check(peer);
    conn
}

#[track_caller]
fn open(peer: &mut Peer, bytes: usize) -> ConnId {
    open_at(peer, 80, bytes)
}

/// Holds what the stack keeps twice against each other.
#[track_caller]
fn check(peer: &Peer) {
    let verdict = peer.stack.check_consistency(&peer.pool);
    assert!(verdict.is_ok(), "{verdict:?}");
}

fn outcome(peer: &mut Peer, conn: ConnId) -> FastOpen {
    peer.stack().info(conn).expect("it is there").fast_open
}

#[track_caller]
fn abort(peer: &mut Peer, conn: ConnId) {
    check(peer);
    peer.stack().abort(conn).expect("it is there");
    peer.ignore();
    check(peer);
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

/// The peer gives the stack a cookie and this MSS.
#[track_caller]
fn give_cookie(peer: &mut Peer, cookie: FastOpenCookie, mss: u16) {
    let conn = open(peer, 10);
    peer.expect(syn());
    peer.inject(holding(syn_ack().seq(0).ack(1).mss(mss), cookie));
    peer.expect(ack().seq(1).ack(1).len(10));
    assert_eq!(outcome(peer, conn), FastOpen::CookieReceived);
    peer.inject(ack().seq(1).ack(11));
    abort(peer, conn);
}

/// A peer that knows the stack, and whose cookie the stack knows.
#[track_caller]
fn known() -> Peer {
    let mut peer = Peer::new();
    give_cookie(&mut peer, COOKIE, MSS);
    peer
}

/// The SYN of the stack.
#[track_caller]
fn next_syn(peer: &mut Peer) -> Sent {
    let sent = peer.next().expect("a SYN");
    assert_eq!(sent.header.flags, Flags::SYN);
    sent
}

/// TFO-8. RFC 7413, 4.2.1: without a cookie the SYN asks for one by an empty option. The data follows the handshake.
#[test]
fn first_connection_asks_for_a_cookie() {
    let mut peer = Peer::new();
    let conn = open(&mut peer, 2500);
    let first = next_syn(&mut peer);
    assert_eq!(
        first.header.options.fast_open,
        Some(FastOpenCookie::REQUEST)
    );
    assert!(first.data.is_empty());
    assert_eq!(outcome(&mut peer, conn), FastOpen::CookieRequested);
    peer.inject(holding(syn_ack().seq(0).ack(1).mss(1460), COOKIE));
    check(&peer);
    peer.expect(ack().seq(1).ack(1).len(1460));
    peer.inject(ack().seq(1).ack(1461));
    peer.expect(ack().seq(1461).ack(1).len(1040));
    assert_eq!(peer.state(conn), State::Established);
    assert_eq!(outcome(&mut peer, conn), FastOpen::CookieReceived);
    abort(&mut peer, conn);
}

/// TFO-9. RFC 7413, 4.2.2: with a cookie the SYN has it, and data up to the MSS that is known of the server; the answer acknowledges it, and what is left follows.
#[test]
fn second_connection_sends_data_in_its_syn() {
    let mut peer = known();
    let conn = open(&mut peer, 1500);
    let first = next_syn(&mut peer);
    assert_eq!(first.header.options.fast_open, Some(COOKIE));
    // A full segment less the options: MSS 4, selective acknowledgments 4, cookie 12.
    assert_eq!(first.data, stream(1, 980));
    assert_eq!(outcome(&mut peer, conn), FastOpen::DataSent);
    assert_eq!(peer.stack().info(conn).expect("it is there").in_flight, 981);
    peer.inject(syn_ack().seq(0).ack(981).mss(MSS));
    check(&peer);
    peer.expect(ack().seq(981).ack(1).data(&stream(981, 520)));
    assert_eq!(outcome(&mut peer, conn), FastOpen::DataAcknowledged);
    assert_eq!(peer.stack.counters().syns_with_data, 1);
    assert_eq!(peer.stack.counters().fast_opens_acknowledged, 1);
    peer.inject(ack().seq(1).ack(1501));
    let told = peer.stack().info(conn).expect("it is there");
    assert_eq!(
        (told.bytes_acknowledged, told.bytes_retransmitted),
        (1500, 0)
    );
    abort(&mut peer, conn);
}

/// The answer may come with its SYN: all of it in one round trip.
#[test]
fn response_comes_with_the_answer() {
    let mut peer = known();
    let conn = open(&mut peer, 100);
    next_syn(&mut peer);
    peer.inject(syn_ack().seq(0).ack(101).mss(MSS).data(&stream(1, 30)));
    peer.expect(ack().seq(101).ack(31));
    assert_eq!(peer.read(conn, 100), stream(1, 30));
    abort(&mut peer, conn);
}

/// TFO-10. RFC 7413, 4.2.2: data of the SYN that is not acknowledged goes again with the acknowledgment of the handshake.
#[test]
fn data_that_is_not_acknowledged_goes_with_the_handshake() {
    let mut peer = known();
    let conn = open(&mut peer, 1200);
    next_syn(&mut peer);
    // The cookie has become stale, and here is a new one.
    peer.inject(holding(syn_ack().seq(0).ack(1).mss(MSS), NEXT));
    check(&peer);
    peer.expect(ack().seq(1).ack(1).len(980));
    peer.inject(ack().seq(1).ack(981));
    peer.expect(ack().seq(981).ack(1).len(220));
    assert_eq!(outcome(&mut peer, conn), FastOpen::DataNotAcknowledged);
    let told = peer.stack().info(conn).expect("it is there");
    assert_eq!(told.bytes_retransmitted, 980);
    peer.inject(ack().seq(1).ack(1201));
    abort(&mut peer, conn);
    // The new one is used.
    let conn = open(&mut peer, 10);
    assert_eq!(next_syn(&mut peer).header.options.fast_open, Some(NEXT));
    abort(&mut peer, conn);
}

/// A server may take a part of the data.
#[test]
fn data_that_is_acknowledged_in_part_goes_on_from_there() {
    let mut peer = known();
    let conn = open(&mut peer, 600);
    next_syn(&mut peer);
    peer.inject(syn_ack().seq(0).ack(201).mss(MSS));
    check(&peer);
    peer.expect(ack().seq(1).ack(1).len(600));
    assert_eq!(outcome(&mut peer, conn), FastOpen::DataNotAcknowledged);
    peer.inject(ack().seq(1).ack(601));
    check(&peer);
    assert_eq!(peer.stack().info(conn).expect("it is there").in_flight, 0);
    abort(&mut peer, conn);
}

/// TFO-11. RFC 7413, 4.2.1, 4.2.2: a SYN that is sent again has neither data nor the option. An answer that acknowledges the SYN alone and has no cookie is to that one, and the path is avoided.
#[test]
fn syn_is_sent_again_without_data_and_option() {
    let mut peer = known();
    let conn = open(&mut peer, 300);
    assert_eq!(next_syn(&mut peer).data.len(), 300);
    let again = peer.expect_after(SYN_TIMEOUT, syn().seq(0));
    assert_eq!(
        (again.header.options.fast_open, again.data.len()),
        (None, 0)
    );
    assert_eq!(outcome(&mut peer, conn), FastOpen::Unanswered);
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    check(&peer);
    peer.expect(ack().seq(1).ack(1).len(300));
    assert_eq!(outcome(&mut peer, conn), FastOpen::Unanswered);
    peer.inject(ack().seq(1).ack(301));
    abort(&mut peer, conn);
    // The next one goes without.
    let conn = open(&mut peer, 300);
    let plain = next_syn(&mut peer);
    assert_eq!(
        (plain.header.options.fast_open, plain.data.len()),
        (None, 0)
    );
    assert_eq!(outcome(&mut peer, conn), FastOpen::Plain);
    abort(&mut peer, conn);
    // So it is at this port alone.
    let conn = open_at(&mut peer, 443, 300);
    assert_eq!(next_syn(&mut peer).data.len(), 300);
    abort(&mut peer, conn);
    // After a while it is tried again.
    peer.advance(s(60));
    let conn = open(&mut peer, 300);
    assert_eq!(next_syn(&mut peer).data.len(), 300);
    abort(&mut peer, conn);
}

/// The answer was lost: that to the second SYN acknowledges the first one's data.
#[test]
fn answer_to_the_second_syn_may_acknowledge_the_first() {
    let mut peer = known();
    let conn = open(&mut peer, 300);
    next_syn(&mut peer);
    peer.expect_after(SYN_TIMEOUT, syn().seq(0));
    peer.inject(syn_ack().seq(0).ack(301).mss(MSS));
    check(&peer);
    peer.expect(ack().seq(301).ack(1));
    assert_eq!(outcome(&mut peer, conn), FastOpen::DataAcknowledged);
    // Karn: which of them was acknowledged cannot be told.
    assert_eq!(
        peer.stack().info(conn).expect("it is there").rtt,
        Duration::ZERO
    );
    abort(&mut peer, conn);
    // Nothing is held against the server.
    let conn = open(&mut peer, 300);
    assert_eq!(next_syn(&mut peer).data.len(), 300);
    abort(&mut peer, conn);
}

/// TFO-12. RFC 7413, 4.1.3.1: negative answers are remembered; here it is no answer at all.
#[test]
fn server_that_never_answers_is_left_alone() {
    let mut peer = known();
    let conn = open(&mut peer, 300);
    peer.advance(s(200));
    peer.ignore();
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(peer.stack().close(conn), Err(Error::TimedOut));
    let conn = open(&mut peer, 300);
    assert_eq!(next_syn(&mut peer).data.len(), 0);
    assert_eq!(outcome(&mut peer, conn), FastOpen::Plain);
    abort(&mut peer, conn);
}

/// TFO-12. RFC 7413, 4.1.3.1: a server that does not acknowledge the data, and gives no new cookie.
#[test]
fn server_that_ignores_the_data_is_left_alone() {
    let mut peer = known();
    let conn = open(&mut peer, 300);
    next_syn(&mut peer);
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    peer.expect(ack().seq(1).ack(1).len(300));
    assert_eq!(outcome(&mut peer, conn), FastOpen::DataNotAcknowledged);
    abort(&mut peer, conn);
    let conn = open(&mut peer, 300);
    assert_eq!(next_syn(&mut peer).header.options.fast_open, None);
    abort(&mut peer, conn);
}

/// RFC 7413, 4.2.1: a server without Fast Open is not asked again before a while has passed.
#[test]
fn server_without_fast_open_is_not_asked_each_time() {
    let mut peer = Peer::new();
    for asks in [true, false, false] {
        let conn = open(&mut peer, 20);
        assert_eq!(next_syn(&mut peer).header.options.fast_open.is_some(), asks);
        peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
        peer.expect(ack().seq(1).ack(1).len(20));
        abort(&mut peer, conn);
    }
    peer.advance(s(60));
    let conn = open(&mut peer, 20);
    assert!(next_syn(&mut peer).header.options.fast_open.is_some());
    abort(&mut peer, conn);
}

/// RFC 7413, 4.2.1: a request that is not answered goes again without the option.
#[test]
fn request_is_sent_again_without_the_option() {
    let mut peer = Peer::new();
    let conn = open(&mut peer, 20);
    next_syn(&mut peer);
    let again = peer.expect_after(SYN_TIMEOUT, syn().seq(0));
    assert_eq!(again.header.options.fast_open, None);
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    peer.expect(ack().seq(1).ack(1).len(20));
    assert_eq!(outcome(&mut peer, conn), FastOpen::Unanswered);
    abort(&mut peer, conn);
}

/// TFO-12. RFC 7413, 4.1.3.1: errors of ICMP. Where the packet was too long, the SYN goes again at once, without data.
#[test]
fn errors_of_routers_count() {
    let mut peer = known();
    let conn = open(&mut peer, 900);
    let first = next_syn(&mut peer);
    let needed = Unreachable::FragmentationNeeded { next_hop_mtu: 600 };
    peer.inject_icmp(Message::DestinationUnreachable(needed), &first);
    let again = peer.expect(syn().seq(0));
    assert_eq!(
        (again.header.options.fast_open, again.data.len()),
        (None, 0)
    );
    // Once: what is left to complain about is a SYN as any other.
    peer.inject_icmp(Message::DestinationUnreachable(needed), &again);
    peer.expect_nothing();
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    check(&peer);
    assert!(
        peer.next()
            .is_some_and(|sent| sent.seq == 1 && !sent.data.is_empty())
    );
    abort(&mut peer, conn);
    let conn = open(&mut peer, 900);
    assert_eq!(next_syn(&mut peer).header.options.fast_open, None);
    abort(&mut peer, conn);

    let mut peer = known();
    let conn = open(&mut peer, 900);
    let first = next_syn(&mut peer);
    let host = Message::DestinationUnreachable(Unreachable::Host);
    peer.inject_icmp(host, &first);
    let again = peer.expect_after(SYN_TIMEOUT, syn().seq(0));
    assert_eq!(
        (again.header.options.fast_open, again.data.len()),
        (None, 0)
    );
    abort(&mut peer, conn);
    let conn = open(&mut peer, 900);
    assert_eq!(next_syn(&mut peer).header.options.fast_open, None);
    abort(&mut peer, conn);
}

/// A refusal ends the attempt, and the next one does without.
#[test]
fn refusal_counts() {
    let mut peer = known();
    let conn = open(&mut peer, 100);
    next_syn(&mut peer);
    peer.inject(rst_ack().seq(0).ack(101));
    assert_eq!(peer.stack().close(conn), Err(Error::Refused));
    let conn = open(&mut peer, 100);
    assert_eq!(next_syn(&mut peer).header.options.fast_open, None);
    abort(&mut peer, conn);
}

/// TFO-13. RFC 7413, 4.1.3: the MSS is kept with the cookie; without one 536 bytes go, and never more than 1,460.
#[test]
fn data_fits_the_mss_that_is_remembered() {
    // MSS 4, selective acknowledgments 4, cookie 12.
    for (mss, data) in [(600, 580), (1460, 1440), (9000, 1440)] {
        let mut peer = Peer::on_link(9000, |_| {});
        give_cookie(&mut peer, COOKIE, mss);
        let conn = open(&mut peer, 4000);
        assert_eq!(next_syn(&mut peer).data.len(), data);
        abort(&mut peer, conn);
    }
    let mut peer = Peer::new();
    let conn = open(&mut peer, 10);
    next_syn(&mut peer);
    peer.inject(holding(syn_ack().seq(0).ack(1), COOKIE));
    peer.ignore();
    abort(&mut peer, conn);
    let conn = open(&mut peer, 4000);
    assert_eq!(next_syn(&mut peer).data.len(), 516);
    abort(&mut peer, conn);
}

/// The peer's MSS has become smaller: what is queued is cut to it.
#[test]
fn queue_is_cut_to_the_mss_of_the_answer() {
    let mut peer = known();
    let conn = open(&mut peer, 3000);
    next_syn(&mut peer);
    peer.inject(syn_ack().seq(0).ack(1).mss(400));
    check(&peer);
    let mut at = 1;
    while at < 3001 {
        for sent in peer.drain() {
            assert!(sent.data.len() <= 400 && sent.seq == at, "{sent:?}");
            at += sent.data.len() as u32;
        }
        peer.inject(ack().seq(1).ack(at));
    }
    abort(&mut peer, conn);
}

/// RFC 7413, 4.2.2: where the options leave no room the attempt is given up. A cookie of 16 bytes takes all that the usual ones leave.
#[test]
fn cookie_that_finds_no_room_is_left_out() {
    for (more_options, fits) in [(false, true), (true, false)] {
        let mut peer = Peer::with(|config| {
            config.timestamps = true;
            config.window_scaling = true;
            config.integrity = Integrity::Crc;
            if more_options {
                config.mechanisms.checksum = ChecksumPolicy::RedundancyAvoidance;
            }
        });
        let conn = open(&mut peer, 10);
        let asked = next_syn(&mut peer);
        let stamp = asked.header.options.timestamps.expect("a timestamp").value;
        let asks = asked.header.options.alternate_checksum.is_some();
        assert_eq!(asks, more_options);
        let mut raw = vec![2, 4, 3, 232, 4, 2, 8, 10, 0, 0, 0, 1];
        raw.extend(stamp.to_be_bytes());
        raw.extend([1, 3, 3, 0, 1, 1, 34, 18]);
        raw.extend([7; 16]);
        peer.inject(syn_ack().seq(0).ack(1).raw_options(&raw));
        peer.ignore();
        assert_eq!(outcome(&mut peer, conn), FastOpen::CookieReceived);
        abort(&mut peer, conn);
        let conn = open(&mut peer, 10);
        let sent = next_syn(&mut peer);
        let held = sent.header.options.fast_open.map(|c| c.as_slice().to_vec());
        if fits {
            assert_eq!((sent.header.header_len, sent.data.len()), (60, 10));
            assert_eq!(held, Some(vec![7; 16]));
        } else {
            assert_eq!((held, sent.data.len()), (None, 0));
            assert_eq!(outcome(&mut peer, conn), FastOpen::Plain);
        }
        abort(&mut peer, conn);
    }
}

/// Both ends open at once: the data of the SYN is not lost.
#[test]
fn simultaneous_open_delivers_the_data() {
    for acked in [1, 101] {
        let mut peer = known();
        let conn = open(&mut peer, 100);
        next_syn(&mut peer);
        peer.inject(syn().seq(0).mss(MSS));
        check(&peer);
        let answer = peer.expect(syn_ack().seq(0).ack(1));
        assert_eq!(
            (answer.header.options.fast_open, answer.data.len()),
            (None, 0)
        );
        peer.inject(ack().seq(1).ack(acked));
        check(&peer);
        assert_eq!(peer.state(conn), State::Established);
        if acked == 1 {
            peer.expect(ack().seq(1).ack(1).len(100));
            peer.inject(ack().seq(1).ack(101));
        }
        peer.expect_nothing();
        assert_eq!(peer.stack().info(conn).expect("it is there").in_flight, 0);
        abort(&mut peer, conn);
    }
}

/// An application that gives up leaves nothing behind.
#[test]
fn close_before_the_answer_forgets_the_data() {
    let mut peer = known();
    let conn = open(&mut peer, 5000);
    next_syn(&mut peer);
    assert_eq!(peer.stack().close(conn), Ok(()));
    assert_eq!(peer.stack.connections(), 0);
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

/// RFC 3168, 6.1.5: what went with the SYN and was not taken goes again, and is not ECN-capable. What follows is.
#[test]
fn data_of_the_syn_goes_again_without_an_ecn_codepoint() {
    let mut peer = Peer::with(|config| config.mechanisms.ecn = Ecn::Classic);
    let first = open(&mut peer, 10);
    peer.next().expect("a SYN");
    peer.inject(holding(syn_ack().seq(0).ack(1).mss(1460), COOKIE));
    peer.ignore();
    peer.inject(ack().seq(1).ack(11));
    abort(&mut peer, first);
    let conn = open(&mut peer, 4000);
    let early = peer.next().expect("a SYN").data.len() as u32;
    assert!(early > 0 && outcome(&mut peer, conn) == FastOpen::DataSent);
    peer.inject(syn_ack().seq(0).ack(1).mss(1460).flag(Flags::ECE));
    let sent = peer.drain();
    let (again, new): (Vec<_>, Vec<_>) = sent.iter().partition(|sent| sent.seq <= early);
    assert!(!again.is_empty() && !new.is_empty());
    assert!(again.iter().all(|sent| sent.ip.tos == 0));
    assert!(new.iter().all(|sent| sent.ip.tos == 0b10));
    abort(&mut peer, conn);
}

//! RFC 4821, RFC 8899: path MTU discovery by probing.

use crate::peer::*;
use tollgate_stack::config::{MtuProbing, Pacing};
use tollgate_stack::{ConnId, SocketOption};
use tollgate_wire::icmp::{Message, Unreachable};
use tollgate_wire::tcp::Flags;

/// Payload of a full segment on a link of 1,500 bytes, without options, and of one that a black hole leaves.
const FULL: usize = 1460;
const SHORT: usize = 1024 - 40;

/// Holds what the stack keeps twice against each other.
#[track_caller]
fn check(peer: &Peer) {
    let verdict = peer.stack.check_consistency(&peer.pool);
    assert!(verdict.is_ok(), "{verdict:?}");
}

fn mss(peer: &mut Peer, conn: ConnId) -> usize {
    usize::from(peer.stack().info(conn).expect("it is there").mss)
}

fn window(peer: &mut Peer, conn: ConnId) -> (u32, u32) {
    let info = peer.stack().info(conn).expect("it is there");
    (info.congestion_window, info.slow_start_threshold)
}

/// A path that drops packets of more than `path` bytes in silence, and takes all else at once. The peer acknowledges each segment.
struct Path {
    peer: Peer,
    conn: ConnId,
    path: usize,
    /// The peer tells selectively what it has.
    selective: bool,
    /// Bytes that the application has sent.
    sent: u32,
    /// Bytes that the peer has: the next one, and what lies beyond.
    next: u32,
    beyond: Vec<(u32, u32)>,
    /// Packets that were dropped.
    dropped: Vec<usize>,
}

impl Path {
    fn new(probing: MtuProbing, selective: bool, path: usize) -> Self {
        let mut peer = Peer::with(|config| {
            config.mechanisms.mtu_probing = probing;
            // A turn ends when nothing is sent, whatever the time is.
            config.mechanisms.pacing = Pacing::Off;
            config.send_buffer = 64 * 1024;
        });
        let mut first = syn().mss(1460);
        if selective {
            first = first.sack_permitted();
        }
        let conn = peer.accepted(first);
        Self {
            peer,
            conn,
            path,
            selective,
            sent: 1,
            next: 1,
            beyond: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// The application sends as much as it can.
    fn write(&mut self) {
        let data = stream(self.sent, 60_000);
        if let Ok(taken) = self.peer.stack().send(self.conn, &data) {
            self.sent += taken as u32;
        }
    }

    /// Lets arrive, or not, what the stack has sent; the peer answers. Returns whether anything was sent.
    fn turn(&mut self) -> bool {
        let sent = self.peer.drain();
        let any = !sent.is_empty();
        if any {
            self.peer.advance(ms(10));
        }
        let mut answers = Vec::new();
        for segment in sent {
            let size = usize::from(segment.ip.total_len);
            if size > self.path {
                self.dropped.push(size);
                continue;
            }
            assert_eq!(
                segment.data,
                stream(segment.seq, segment.data.len()),
                "other bytes than before"
            );
            let (start, end) = (segment.seq, segment.seq + segment.data.len() as u32);
            self.beyond.push((start, end));
            self.beyond.sort_unstable();
            while let Some(n) = self
                .beyond
                .iter()
                .position(|&(start, _)| start <= self.next)
            {
                let (_, end) = self.beyond.remove(n);
                self.next = self.next.max(end);
            }
            let mut answer = ack().seq(1).ack(self.next);
            if self.selective && start > self.next {
                answer = answer.sack(self.peer.blocks(&[(start, end)]));
            }
            answers.push(answer);
        }
        for answer in answers {
            self.peer.inject(answer);
            check(&self.peer);
        }
        any
    }

    /// Works until the peer has so many bytes more, with round trips of 10 ms.
    fn transfer(&mut self, bytes: u32) {
        let goal = self.next + bytes;
        for _ in 0..20_000 {
            self.write();
            check(&self.peer);
            if !self.turn() {
                self.peer.wait(s(60));
            }
            if self.next >= goal {
                // All that is queued arrives.
                while self.turn() {}
                return;
            }
        }
        panic!("{} of {goal} bytes arrived", self.next);
    }

    fn mss(&mut self) -> usize {
        mss(&mut self.peer, self.conn)
    }

    fn end(mut self) {
        self.peer.ignore();
        self.peer.stack().abort(self.conn).expect("it is there");
        self.peer.ignore();
        assert_eq!(self.peer.pool.available(), self.peer.pool.capacity());
    }
}

/// Bytes of the first segment, each time that it is sent again in so many timeouts.
fn sent_again(peer: &mut Peer, timeouts: usize) -> Vec<usize> {
    let mut lengths = Vec::new();
    for _ in 0..timeouts {
        peer.wait(s(60));
        let sent = peer.next().expect("the first segment again");
        assert_eq!(sent.seq, 1);
        lengths.push(sent.data.len());
        peer.ignore();
        check(peer);
    }
    lengths
}

/// PMTU-1. RFC 4821, 7.7: a full-stop timeout, R1, is taken for a black hole: segments become as short as packets of 1,024 bytes, then
/// shorter.
#[test]
fn third_timeout_in_a_row_makes_segments_shorter() {
    let mut peer = Peer::new();
    let conn = peer.accepted(syn().mss(1460));
    peer.send(conn, 1, 5 * FULL);
    peer.drain();
    let lengths = sent_again(&mut peer, 5);
    assert_eq!(lengths, [FULL, FULL, SHORT, 576 - 40, 576 - 40]);
    assert_eq!(peer.stack.counters().black_holes, 2);
    peer.stack().abort(conn).expect("it is there");
    peer.ignore();
}

/// PMTU-1, where the first segment is shorter than what nearly every path takes: this one may not.
#[test]
fn third_timeout_of_a_segment_that_not_every_path_takes_makes_it_shorter() {
    let mut peer = Peer::new();
    let conn = peer.accepted(syn().mss(1460));
    peer.send(conn, 1, 900);
    peer.drain();
    let lengths = sent_again(&mut peer, 4);
    assert_eq!(lengths, [900, 900, 576 - 40, 576 - 40]);
    assert_eq!(peer.stack.counters().black_holes, 1);
    peer.stack().abort(conn).expect("it is there");
    peer.ignore();
}

/// PMTU-1, where all but the FIN of the first segment was acknowledged: the FIN goes without the bytes before it.
#[test]
fn fin_is_cut_off_what_was_acknowledged_before_it() {
    let mut peer = Peer::new();
    let conn = peer.accepted(syn().mss(1460));
    peer.stack()
        .set_option(conn, SocketOption::NoDelay(true))
        .expect("it is there");
    peer.send(conn, 1, FULL + 900);
    peer.ignore();
    // The first is sent again, and the second waits to be.
    peer.wait(s(60));
    peer.ignore();
    peer.stack().shutdown(conn).expect("it is open");
    let end = 1 + (FULL + 900) as u32;
    peer.inject(ack().seq(1).ack(end));
    peer.ignore();
    check(&peer);
    let mut last = None;
    for _ in 0..4 {
        peer.wait(s(60));
        last = peer.next();
        peer.ignore();
        check(&peer);
    }
    let last = last.expect("the FIN");
    assert!(last.header.flags.has(Flags::FIN));
    assert_eq!((last.seq, last.data.len()), (end, 0));
    peer.inject(ack().seq(1).ack(end + 1));
    peer.ignore();
    check(&peer);
}

/// A timeout says nothing of the path's MTU where the first segment is one that every path takes.
#[test]
fn timeouts_of_short_segments_are_no_black_hole() {
    let mut peer = Peer::new();
    let conn = peer.accepted(syn().mss(1460));
    peer.send(conn, 1, 500);
    peer.drain();
    for _ in 0..6 {
        peer.wait(s(60));
        let sent = peer.next().expect("the segment again");
        assert_eq!(sent.data.len(), 500);
    }
    assert_eq!(peer.stack.counters().black_holes, 0);
    assert_eq!(mss(&mut peer, conn), FULL);
    peer.stack().abort(conn).expect("it is there");
    peer.ignore();
}

/// With the mechanism off nothing but routers change the size.
#[test]
fn nothing_is_searched_for_when_it_is_off() {
    let mut peer = Peer::with(|config| config.mechanisms.mtu_probing = MtuProbing::Off);
    let conn = peer.accepted(syn().mss(1460));
    peer.send(conn, 1, 5 * FULL);
    peer.drain();
    for _ in 0..6 {
        peer.wait(s(60));
        assert_eq!(peer.next().expect("again").data.len(), FULL);
    }
    peer.stack().abort(conn).expect("it is there");
    peer.ignore();
}

/// PMTU-2. RFC 4821, 7.3, 7.6.1; RFC 8899, 5.3: the search ends close to what the path takes.
#[test]
fn search_ends_close_to_what_the_path_takes() {
    for selective in [true, false] {
        for path in [1100, 1300, 1499] {
            let mut path_of = Path::new(MtuProbing::BlackHole, selective, path);
            path_of.transfer(600_000);
            let size = path_of.mss() + 40;
            assert!(
                size <= path && path - size < 8,
                "{size} of {path}, selective {selective}"
            );
            path_of.end();
        }
    }
}

/// PMTU-3. RFC 4821, 7.4: a probe has at least three full segments behind it, and only one is out.
#[test]
fn probe_is_followed_by_three_segments() {
    let mut path = Path::new(MtuProbing::Always, true, 1500);
    assert_eq!(path.mss(), SHORT);
    path.write();
    // Ten segments and the first probe, which is the largest, as soon as the window lets it go.
    let first = path.peer.drain();
    assert!(first.iter().all(|sent| sent.data.len() == SHORT));
    path.peer.inject(ack().seq(1).ack(1 + 10 * SHORT as u32));
    let second = path.peer.drain();
    let longer: Vec<usize> = (0..second.len())
        .filter(|&n| second[n].data.len() > SHORT)
        .collect();
    assert_eq!(longer, [0], "{:?}", second[0].seq);
    assert_eq!(second[0].data.len(), FULL);
    assert!(second.len() > 3);
    check(&path.peer);
    let end = second.last().expect("segments").seq + SHORT as u32;
    path.peer.inject(ack().seq(1).ack(end));
    check(&path.peer);
    assert_eq!(path.mss(), FULL);
    assert_eq!(path.peer.stack.counters().mtu_probes, 1);
    path.end();
}

/// PMTU-3. RFC 4821, 7.4: too little is queued for a probe, or the peer's window has no room for it.
#[test]
fn probe_waits_for_data_and_window() {
    for (bytes, window) in [(11 * SHORT + 100, 0xffff), (60_000, 4000)] {
        let mut peer = Peer::with(|config| config.mechanisms.mtu_probing = MtuProbing::Always);
        let conn = peer.accepted(syn().mss(1460));
        peer.inject(ack().seq(1).ack(1).win(window));
        let data = stream(1, bytes);
        peer.stack().send(conn, &data).expect("room");
        let mut next = 1;
        for _ in 0..40 {
            for sent in peer.drain() {
                assert!(sent.data.len() <= SHORT);
                next = next.max(sent.seq + sent.data.len() as u32);
            }
            peer.inject(ack().seq(1).ack(next).win(window));
        }
        assert_eq!(peer.stack.counters().mtu_probes, 0);
        peer.stack().abort(conn).expect("it is there");
        peer.ignore();
    }
}

/// PMTU-4. RFC 4821, 7.6.2: the loss of a probe alone is no sign of congestion. Its bytes go again at once,
/// in short segments.
#[test]
fn loss_of_a_probe_alone_leaves_the_window() {
    for selective in [true, false] {
        let mut path = Path::new(MtuProbing::Always, selective, 1400);
        path.write();
        path.turn();
        let before = window(&mut path.peer, path.conn);
        // The probe is dropped, and those behind it arrive.
        let start = path.next;
        path.turn();
        assert_eq!(path.dropped, [1500], "selective {selective}");
        let again = path.peer.drain();
        let first: Vec<(u32, usize)> = again
            .iter()
            .filter(|sent| sent.seq < start + FULL as u32)
            .map(|sent| (sent.seq, sent.data.len()))
            .collect();
        let rest = (start + SHORT as u32, FULL - SHORT);
        assert_eq!(first[0], (start, SHORT));
        // Without selective acknowledgments the rest follows when the first part is acknowledged (RFC 6582).
        assert_eq!(first.get(1), Some(&rest).filter(|_| selective));
        let end = again.iter().map(|sent| sent.seq + sent.data.len() as u32);
        let end = end.max().expect("segments");
        path.peer.inject(ack().seq(1).ack(end));
        check(&path.peer);
        let after = window(&mut path.peer, path.conn);
        assert!(after.0 >= before.0, "{before:?} {after:?}");
        assert_eq!(after.1, before.1, "selective {selective}");
        assert_eq!(path.peer.stack.counters().mtu_probes_lost, 1);
        path.end();
    }
}

/// PMTU-5. RFC 4821, 7.6.4: where more than the probe is lost, the window comes down, and the probe tells nothing.
#[test]
fn other_losses_beside_a_probe_are_congestion() {
    let mut path = Path::new(MtuProbing::Always, true, 1500);
    path.write();
    path.turn();
    let before = window(&mut path.peer, path.conn);
    let sent = path.peer.drain();
    assert_eq!(sent[0].data.len(), FULL);
    // The probe and the next are lost.
    let blocks: Vec<(u32, u32)> = sent[2..]
        .iter()
        .map(|sent| (sent.seq, sent.seq + sent.data.len() as u32))
        .collect();
    let told = path
        .peer
        .blocks(&[(blocks[0].0, blocks[blocks.len() - 1].1)]);
    path.peer.advance(ms(5));
    path.peer.inject(ack().seq(1).ack(sent[0].seq).sack(told));
    path.peer.advance(ms(50));
    path.peer.inject(ack().seq(1).ack(sent[0].seq).sack(told));
    check(&path.peer);
    let after = window(&mut path.peer, path.conn);
    assert!(after.1 < before.0, "{before:?} {after:?}");
    assert_eq!(path.peer.stack.counters().mtu_probes_lost, 0);
    path.end();
}

/// PMTU-6. RFC 8899, 5.1.1: after PMTU_RAISE_TIMER, ten minutes, the search begins anew.
#[test]
fn search_begins_anew_after_ten_minutes() {
    let mut path = Path::new(MtuProbing::BlackHole, true, 1300);
    path.transfer(400_000);
    let low = path.mss();
    assert!(low + 40 > 1292 && low + 40 <= 1300);
    path.path = 1500;
    path.transfer(200_000);
    assert_eq!(path.mss(), low, "it is not looked again yet");
    path.peer.advance(s(601));
    path.transfer(200_000);
    assert_eq!(path.mss(), FULL);
    path.end();
}

/// PMTU-7. RFC 8899, 4.6; RFC 4821, 7.6.2: what a router tells bounds the search.
#[test]
fn what_a_router_tells_bounds_the_search() {
    let mut path = Path::new(MtuProbing::Always, true, 1400);
    path.write();
    path.turn();
    let sent = path.peer.drain();
    assert_eq!(sent[0].data.len(), FULL);
    let needed = Unreachable::FragmentationNeeded { next_hop_mtu: 1400 };
    path.peer
        .inject_icmp(Message::DestinationUnreachable(needed), &sent[0]);
    check(&path.peer);
    let end = sent.last().expect("segments");
    let end = end.seq + end.data.len() as u32;
    let told = path.peer.blocks(&[(sent[1].seq, end)]);
    path.beyond.push((sent[1].seq, end));
    path.peer.advance(ms(50));
    path.peer.inject(ack().seq(1).ack(sent[0].seq).sack(told));
    path.transfer(400_000);
    assert_eq!(path.dropped, [0; 0], "nothing longer is tried");
    assert_eq!(path.mss() + 40, 1400);
    path.end();
}

/// A window that shrinks cuts the probe that waits for it: then what arrives says nothing of its size.
#[test]
fn probe_that_is_cut_is_none() {
    let mut path = Path::new(MtuProbing::Always, true, 1500);
    path.write();
    let first = path.peer.drain();
    let end = 1 + (first.len() * SHORT) as u32;
    assert_eq!(path.peer.stack.counters().mtu_probes, 1);
    path.peer.inject(ack().seq(1).ack(end).win(1200));
    check(&path.peer);
    let mut next = end;
    for _ in 0..20 {
        path.peer.wait(s(60));
        for sent in path.peer.drain() {
            next = next.max(sent.seq + sent.data.len() as u32);
        }
        path.peer.inject(ack().seq(1).ack(next).win(1200));
        check(&path.peer);
    }
    assert_eq!(path.mss(), SHORT);
    path.end();
}

/// The end of a record stays where it is: no probe reaches beyond it.
#[test]
fn probe_leaves_the_ends_of_records() {
    let mut peer = Peer::with(|config| config.mechanisms.mtu_probing = MtuProbing::Always);
    let conn = peer.accepted(syn().mss(1460));
    let mut ends = Vec::new();
    let mut at = 1;
    while at < 40_000 {
        let record = stream(at, 700);
        let boundary = tollgate_stack::Boundary::EndOfRecord;
        if peer.stack().send_with(conn, &record, boundary) != Ok(700) {
            break;
        }
        at += 700;
        ends.push(at);
    }
    let mut next = 1;
    for _ in 0..40 {
        for sent in peer.drain() {
            let end = sent.seq + sent.data.len() as u32;
            assert_eq!(sent.data.len(), 700);
            assert!(sent.header.flags.has(Flags::PSH) && ends.contains(&end));
            next = next.max(end);
        }
        peer.inject(ack().seq(1).ack(next));
        check(&peer);
    }
    assert_eq!(next, at);
    peer.stack().abort(conn).expect("it is there");
    peer.ignore();
}

/// A path that was silent for a while takes full segments after one probe.
#[test]
fn outage_leaves_full_segments() {
    let mut path = Path::new(MtuProbing::BlackHole, true, 0);
    path.write();
    path.turn();
    for _ in 0..6 {
        path.peer.wait(s(60));
        path.turn();
    }
    assert!(path.mss() < SHORT);
    path.path = 1500;
    path.transfer(200_000);
    assert_eq!(path.mss(), FULL);
    assert_eq!(path.peer.stack.counters().mtu_probes, 1);
    path.end();
}

/// A segment that is acknowledged in part when its path turns out to be a black hole: what is acknowledged is not sent again.
#[test]
fn segment_that_is_acknowledged_in_part_is_cut_behind_that() {
    let mut peer = Peer::new();
    let conn = peer.accepted(syn().mss(1460));
    peer.send(conn, 1, 5 * FULL);
    peer.drain();
    let una = 1 + FULL as u32 + 1200;
    peer.inject(ack().seq(1).ack(una));
    check(&peer);
    peer.drain();
    let mut firsts = Vec::new();
    for _ in 0..5 {
        peer.wait(s(60));
        let sent = peer.drain();
        check(&peer);
        firsts.push(sent[0].seq);
    }
    assert_eq!(firsts[4], una, "{firsts:?}");
    assert!(peer.stack.counters().black_holes != 0);
    peer.stack().abort(conn).expect("it is there");
    peer.ignore();
}

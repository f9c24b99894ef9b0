//! RFC 9293, 3.8.5: the communication of urgent information.

use crate::peer::*;
use tollgate_stack::{ConnId, Received, SocketOption, State};
use tollgate_wire::ipv4;
use tollgate_wire::tcp::Flags;

/// Number of times that the application has been told of urgent data since it was last asked.
fn told(peer: &mut Peer, conn: ConnId) -> usize {
    std::iter::from_fn(|| peer.next_ready())
        .filter(|&(told, ready)| told == conn && ready.urgent())
        .count()
}

fn left(peer: &mut Peer, conn: ConnId) -> u32 {
    peer.stack().info(conn).unwrap().urgent
}

/// "Sixth, check the URG bit"; MUST-30: "TCP implementations MUST still include support for the urgent mechanism"; "a TCP
/// receiver should be robust to invalid urgent pointer values". Urgent bytes are delivered in line, as RFC 6093 recommends
/// to applications, and "data following the urgent pointer (non-urgent data) cannot be delivered to the user in the same
/// buffer with preceding urgent data unless the boundary is clearly marked" (3.9.1.3).
#[test]
fn urgent_data_is_delivered_in_line_whatever_the_pointer_says() {
    for pointer in [0, 1, 5, 10, 11, 20, 21, 0xffff] {
        let (mut peer, conn) = Peer::established();
        peer.inject(ack().seq(1).ack(1).urgent(pointer).len(10));
        peer.inject(ack().seq(11).ack(1).len(10));
        peer.expect(ack().seq(1).ack(21));
        let first = match pointer {
            0 | 20.. => 20,
            inside => usize::from(inside),
        };
        let mut all = peer.read(conn, 100);
        assert_eq!(all.len(), first, "pointer {pointer}");
        all.extend(peer.read(conn, 100));
        assert_eq!(all, stream(1, 20), "pointer {pointer}");
        // What the pointer promises beyond them may still come, or not: the peer closes.
        peer.inject(fin().seq(21).ack(1));
        peer.expect(ack().seq(1).ack(22));
        assert_eq!(left(&mut peer, conn), 0, "pointer {pointer}");
        assert_eq!(peer.state(conn), State::CloseWait);
        assert_eq!(
            peer.stack().receive(conn, &mut [0; 9]),
            Ok(Received::End),
            "pointer {pointer}"
        );
    }
}

/// MUST-32: "A TCP implementation MUST inform the application layer asynchronously whenever it receives an urgent pointer and
/// there was previously no pending urgent data, or whenever the urgent pointer advances in the data stream."; MUST-33: "MUST
/// provide a way for the application to learn how much urgent data remains to be read from the connection"
#[test]
fn the_application_is_told_of_urgent_data_and_how_much_is_left() {
    let (mut peer, conn) = Peer::established();
    told(&mut peer, conn);
    peer.inject(ack().seq(1).ack(1).urgent(30).len(10));
    assert_eq!(told(&mut peer, conn), 1);
    assert_eq!(left(&mut peer, conn), 30);
    // The same again, and one that recedes.
    peer.inject(ack().seq(11).ack(1).urgent(20).len(10));
    peer.inject(ack().seq(21).ack(1).urgent(5));
    assert_eq!(told(&mut peer, conn), 0);
    assert_eq!(peer.read(conn, 7), stream(1, 7));
    assert_eq!(left(&mut peer, conn), 23);
    // It advances.
    peer.inject(ack().seq(21).ack(1).urgent(20).len(30));
    assert_eq!(told(&mut peer, conn), 1);
    assert_eq!(left(&mut peer, conn), 33);
    assert_eq!(peer.read(conn, 100), stream(8, 33));
    assert_eq!(left(&mut peer, conn), 0);
    assert_eq!(peer.read(conn, 100), stream(41, 10));
    // A segment that comes again says nothing new, one with other urgent data does.
    peer.inject(ack().seq(21).ack(1).urgent(20).len(30));
    assert_eq!(told(&mut peer, conn), 0);
    peer.inject(ack().seq(51).ack(1).urgent(1).len(1));
    assert_eq!(told(&mut peer, conn), 1);
    assert_eq!(left(&mut peer, conn), 1);
    assert_eq!(peer.read(conn, 100), stream(51, 1));
    peer.advance(ms(50));
    peer.ignore();
}

/// "Whenever this point is in advance of the receive sequence number (RCV.NXT) at the receiving TCP endpoint, then the TCP
/// implementation must tell the user to go into 'urgent mode'": before the bytes are there. When they have been read,
/// segments are predicted again.
#[test]
fn urgent_data_is_announced_before_it_arrives() {
    let (mut peer, conn) = Peer::established();
    told(&mut peer, conn);
    peer.inject(ack().seq(1).ack(1).urgent(100));
    assert_eq!(told(&mut peer, conn), 1);
    assert_eq!(left(&mut peer, conn), 100);
    peer.inject(ack().seq(1).ack(1).len(60));
    peer.inject(ack().seq(61).ack(1).len(60));
    peer.expect(ack().seq(1).ack(121));
    assert_eq!(peer.read(conn, 1000), stream(1, 100));
    assert_eq!(peer.read(conn, 1000), stream(101, 20));
    let before = peer.stack.counters().predicted;
    peer.inject(ack().seq(121).ack(1).len(60));
    let predicts = crate::mechanisms().prediction != tollgate_stack::config::Prediction::Off;
    assert_eq!(
        peer.stack.counters().predicted - before,
        u64::from(predicts)
    );
    assert_eq!(peer.read(conn, 1000), stream(121, 60));
    peer.advance(ms(50));
    peer.ignore();
}

/// MUST-31: "A TCP implementation MUST support a sequence of urgent data of any length", here of one longer than a window
/// and than what the pointer's field can say.
#[test]
fn urgent_data_may_be_of_any_length() {
    // Received: each segment moves the pointer on.
    let (mut peer, conn) = Peer::established();
    let (len, end) = (1000, 200_000);
    told(&mut peer, conn);
    for seq in (1..=end).step_by(len as usize) {
        let pointer = (end + 1 - seq).min(0xffff) as u16;
        peer.inject(ack().seq(seq).ack(1).urgent(pointer).len(len as usize));
        let advanced = seq + u32::from(pointer) <= end || pointer == 0xffff || seq == 135_001;
        assert_eq!(told(&mut peer, conn), usize::from(advanced), "at {seq}");
        assert_eq!(left(&mut peer, conn), u32::from(pointer));
        assert_eq!(peer.read(conn, 1000), stream(seq, 1000));
    }
    assert_eq!(left(&mut peer, conn), 0);
    peer.ignore();

    // Sent: no segment's pointer lies beyond the end, and the last ones name it.
    let (mut peer, conn) = Peer::established();
    let data = stream(1, end as usize);
    let (mut queued, mut seen) = (0, 0);
    while seen < end {
        if queued < data.len() {
            queued += peer.stack().send_urgent(conn, &data[queued..]).unwrap_or(0);
        }
        for sent in peer.drain() {
            assert_eq!(sent.seq, 1 + seen);
            assert!(sent.header.flags.has(Flags::URG), "at {}", sent.seq);
            let pointer = u32::from(sent.header.urgent);
            let known = (1 + queued as u32) - sent.seq;
            assert_eq!(pointer, known.min(0xffff), "at {}", sent.seq);
            seen += sent.data.len() as u32;
        }
        peer.inject(ack().seq(1).ack(1 + seen));
    }
    assert_eq!(queued, data.len());
}

/// MUST-62: "The urgent pointer MUST point to the sequence number of the octet following the urgent data"; "The URG control
/// flag indicates that the urgent field is meaningful"; "The absence of this flag indicates that there is no urgent data
/// outstanding."
#[test]
fn the_pointer_that_is_sent_points_behind_the_urgent_data() {
    let (mut peer, conn) = Peer::established();
    peer.stack()
        .set_option(conn, SocketOption::NoDelay(true))
        .unwrap();
    peer.send(conn, 1, 10);
    let plain = peer.expect(ack().seq(1).ack(1).len(10));
    assert!(!plain.header.flags.has(Flags::URG));
    assert_eq!(peer.stack().send_urgent(conn, b""), Ok(0));
    assert_eq!(peer.stack().send_urgent(conn, &stream(11, 1500)), Ok(1500));
    let first = peer.expect(ack().flag(Flags::URG).seq(11).ack(1).len(1000));
    assert_eq!(first.header.urgent, 1500);
    let second = peer.expect(ack().flag(Flags::URG).seq(1011).ack(1).len(500));
    assert_eq!(second.header.urgent, 500);
    // What follows is not urgent, and acknowledgments from behind it say nothing of it.
    peer.send(conn, 1511, 20);
    let after = peer.expect(ack().seq(1511).ack(1).len(20));
    assert_eq!(after.header.urgent, 0);
    peer.inject(ack().seq(1).ack(1).len(10));
    peer.inject(ack().seq(11).ack(1).len(10));
    peer.expect(ack().seq(1531).ack(21));
    // Sent again it is as urgent as before, and what follows in the same segment is not.
    peer.inject(ack().seq(21).ack(1011));
    peer.wait(s(3));
    let again = peer.expect(ack().flag(Flags::URG).seq(1011).ack(21).len(520));
    assert_eq!(again.header.urgent, 500);
    peer.inject(ack().seq(21).ack(1531));
    // When it is acknowledged, nothing is left of it.
    peer.send(conn, 1531, 10);
    let last = peer.expect(ack().seq(1531).ack(21).len(10));
    assert_eq!(last.header.urgent, 0);
    peer.inject(ack().seq(21).ack(1541));
}

/// The pointer counts from where the segment begins, although what was put together from fragments is taken in parts.
#[test]
fn the_pointer_of_a_segment_in_fragments_is_its_own() {
    let (mut peer, conn) = Peer::established();
    let packet = peer.packet(&ack().seq(1).ack(1).urgent(100).len(4000));
    let header = ipv4::Header::parse(&packet).unwrap();
    for (n, part) in packet[20..].chunks(2000).enumerate() {
        let more = if n < 2 { ipv4::MORE_FRAGMENTS } else { 0 };
        let header = ipv4::Header {
            total_len: 20 + part.len() as u16,
            flags_and_offset: more | (n * 250) as u16,
            ..header
        };
        peer.inject_packet(&[&header.to_bytes(), part].concat());
    }
    assert_eq!(left(&mut peer, conn), 100);
    assert_eq!(peer.read(conn, 5000), stream(1, 100));
    assert_eq!(peer.read(conn, 5000), stream(101, 3900));
    peer.advance(ms(50));
    peer.ignore();
}

/// MUST-66: "A TCP receiver MUST process the RST and URG fields of all incoming segments, even when the receive window is
/// zero"
#[test]
fn urgent_data_is_announced_while_the_window_is_closed() {
    for len in [0, 1] {
        let (mut peer, conn) = Peer::established_with(|config| config.receive_buffer = 4096);
        for n in 0..4 {
            peer.inject(ack().seq(1 + 1024 * n).ack(1).len(1024));
        }
        peer.ignore();
        told(&mut peer, conn);
        assert_eq!(peer.stack().info(conn).unwrap().receive_window, 0);
        peer.inject(ack().seq(4097).ack(1).urgent(50).len(len));
        assert_eq!(told(&mut peer, conn), 1, "{len} bytes");
        assert_eq!(left(&mut peer, conn), 4146);
        peer.ignore();
    }
}

/// 3.8.5: the user is stimulated "to accept some urgent data": the peer learns of it at once, though its window is closed.
#[test]
fn urgent_data_that_cannot_be_sent_is_announced() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).win(0));
    assert_eq!(peer.stack().send_urgent(conn, &stream(1, 100)), Ok(100));
    let announced = peer.expect(ack().flag(Flags::URG).seq(1).ack(1));
    assert_eq!(announced.header.urgent, 100);
    peer.inject(ack().seq(1).ack(1).win(5000));
    let sent = peer.expect(ack().flag(Flags::URG).seq(1).ack(1).len(100));
    assert_eq!(sent.header.urgent, 100);
    peer.inject(ack().seq(1).ack(101).win(5000));
}

/// 3.9.1.3: buffers that are handed out end at the boundary as well.
#[test]
fn buffers_end_where_urgent_data_ends() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).urgent(4).len(10));
    for (seq, len) in [(1, 4), (5, 6)] {
        let buffer = peer.stack().receive_buffer(conn).unwrap().unwrap();
        assert_eq!(peer.pool.payload(&buffer), stream(seq, len));
        peer.pool.free(buffer);
    }
    peer.advance(ms(50));
    peer.expect(ack().seq(1).ack(11));
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

//! Timeouts for nothing: Eifel detection and response (RFC 3522, RFC 4015), D-SACK (RFC 2883, RFC 3708).

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::config::{Nagle, TailProbe, Undo};
use tollgate_stack::{Config, ConnId, Info};

/// The round trip of these scripts.
const ROUND_TRIP: Duration = Duration::from_millis(40);

fn info(peer: &mut Peer, conn: ConnId) -> Info {
    peer.stack().info(conn).expect("it is there")
}

/// A connection with timestamps that has sent eight segments, and the first of them again after a timeout. Returns besides the timestamps
/// of both.
fn timed_out(change: impl FnOnce(&mut Config)) -> (Peer, ConnId, Info, [u32; 2]) {
    let mut peer = Peer::with(|config| {
        config.timestamps = true;
        change(config);
    });
    let conn = peer.accepted_with_stamps(100);
    peer.send(conn, 1, 8000);
    let before = info(&mut peer, conn);
    let sent = peer.drain();
    let stamp = |sent: &Sent| sent.header.options.timestamps.expect("a timestamp").value;
    let first = stamp(&sent[0]);
    peer.wait(s(5));
    let again = peer.next().expect("a retransmission");
    assert_eq!(again.seq, 1);
    peer.expect_nothing();
    let now = info(&mut peer, conn);
    assert_eq!((now.timeouts, now.retransmits), (1, 1));
    assert_eq!(now.congestion_window, u32::from(before.mss));
    (peer, conn, before, [first, stamp(&again)])
}

/// UNDO-1. RFC 3522, 3.2: the first acknowledgment after the timeout echoes a timestamp from before it; RFC 4015, 3.2: "resume the
/// transmission with previously unsent data", and the windows are those of before.
#[test]
fn acknowledgment_of_the_original_undoes_a_timeout() {
    let (mut peer, conn, before, [first, _]) = timed_out(|_| {});
    let timeout = info(&mut peer, conn).rto;
    let mss = u32::from(before.mss);
    peer.send(conn, 8001, 2 * mss as usize);
    peer.inject(ack().seq(1).ack(1 + 2 * mss).stamps(101, first));
    let sent = peer.drain();
    assert!(sent.iter().all(|sent| sent.seq > 7000), "{sent:?}");
    assert!(!sent.is_empty(), "new data may go");
    let now = info(&mut peer, conn);
    assert_eq!((now.undone_recoveries, now.retransmits), (1, 1));
    assert!(now.congestion_window >= before.congestion_window);
    assert_eq!(now.slow_start_threshold, before.slow_start_threshold);
    // The delay is in the estimate.
    assert!(now.rto > timeout, "{:?} {timeout:?}", now.rto);
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
    let end = sent.last().map(|sent| sent.seq + sent.data.len() as u32);
    peer.inject(ack().seq(1).ack(end.unwrap_or(1)).stamps(102, first));
    peer.ignore();
    assert_eq!(info(&mut peer, conn).retransmits, 1);
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// UNDO-1, where more was sent after the retransmission than before the timeout: it stays sent.
#[test]
fn undo_keeps_what_was_sent_for_the_first_time_after_the_timeout() {
    let mut peer = Peer::with(|config| {
        config.timestamps = true;
        config.mechanisms.nagle = Nagle::Off;
    });
    let conn = peer.accepted_with_stamps(100);
    peer.send(conn, 1, 1);
    let stamp = |sent: &Sent| sent.header.options.timestamps.expect("a timestamp").value;
    let first = stamp(&peer.next().expect("a segment"));
    peer.wait(s(5));
    assert_eq!(peer.next().expect("a retransmission").seq, 1);
    peer.send(conn, 2, 1);
    assert_eq!(peer.next().expect("the second byte").seq, 2);
    peer.inject(ack().seq(1).ack(2).stamps(101, first));
    let now = info(&mut peer, conn);
    assert_eq!((now.undone_recoveries, now.in_flight), (1, 1));
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
    peer.send(conn, 3, 1);
    assert_eq!(peer.next().expect("the third byte").seq, 3);
    peer.inject(ack().seq(1).ack(4).stamps(102, first));
    assert_eq!(info(&mut peer, conn).in_flight, 0);
    peer.ignore();
}

/// UNDO-2. RFC 3522, 3.2: an acknowledgment of the retransmission says that the timeout was right, and later ones are not asked any more.
#[test]
fn acknowledgment_of_the_retransmission_undoes_nothing() {
    let (mut peer, conn, before, [first, again]) = timed_out(|_| {});
    let mss = u32::from(before.mss);
    peer.inject(ack().seq(1).ack(1 + mss).stamps(101, again));
    let sent: Vec<u32> = peer.drain().iter().map(|sent| sent.seq).collect();
    assert_eq!(sent.first(), Some(&(1 + mss)), "{sent:?}");
    peer.inject(ack().seq(1).ack(1 + 2 * mss).stamps(102, first));
    let now = info(&mut peer, conn);
    assert_eq!(now.undone_recoveries, 0);
    assert!(now.slow_start_threshold < before.congestion_window);
    peer.ignore();
}

/// UNDO-3. RFC 4015 is optional: without the mechanism the timeout stands.
#[test]
fn undo_can_be_switched_off() {
    let (mut peer, conn, _, [first, _]) = timed_out(|config| config.mechanisms.undo = Undo::Off);
    peer.inject(ack().seq(1).ack(3001).stamps(101, first));
    assert_eq!(info(&mut peer, conn).undone_recoveries, 0);
    peer.ignore();
}

/// UNDO-4. RFC 3708, 3; RFC 2883, 5: without timestamps the peer's reports that it has everything twice bring the windows back.
#[test]
fn reports_of_duplicates_undo_a_timeout() {
    let mut peer = Peer::with(|config| config.mechanisms.tail_probe = TailProbe::Off);
    let conn = peer.accepted_after(syn().mss(MSS).sack_permitted(), ROUND_TRIP);
    peer.send(conn, 1, 4000);
    let before = info(&mut peer, conn);
    peer.ignore();
    peer.wait(s(5));
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(1001));
    let mut again: Vec<u32> = peer.drain().iter().map(|sent| sent.seq).collect();
    peer.inject(ack().seq(1).ack(4001));
    again.extend(peer.drain().iter().map(|sent| sent.seq));
    assert!(again.len() >= 2, "{again:?}");
    assert!(info(&mut peer, conn).slow_start_threshold < before.congestion_window);
    for seq in [1].into_iter().chain(again) {
        assert_eq!(info(&mut peer, conn).undone_recoveries, 0);
        let told = peer.blocks(&[(seq, seq + 1000)]);
        peer.inject(ack().seq(1).ack(4001).sack(told));
    }
    let now = info(&mut peer, conn);
    assert_eq!(now.undone_recoveries, 1);
    assert!(now.congestion_window >= before.congestion_window);
    assert_eq!(now.slow_start_threshold, before.slow_start_threshold);
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// RFC 6582, 3.2, step 2: duplicates are not believed while they may come from what was sent again. What a timeout for nothing has sent
/// again is none of that.
#[test]
fn a_loss_behind_a_timeout_for_nothing_is_repaired_at_once() {
    let mut peer = Peer::with(|config| config.timestamps = true);
    let conn = peer.accepted_with_stamps(1000);
    peer.send(conn, 1, 8 * 988);
    let first = peer.next().expect("data");
    let stamp = first.header.options.timestamps.unwrap().value;
    let len = first.data.len() as u32;
    peer.ignore();
    let end = 1 + info(&mut peer, conn).in_flight;
    peer.wait(s(5));
    peer.ignore();
    peer.inject(ack().seq(1).ack(1 + len).stamps(1001, stamp));
    assert_eq!(info(&mut peer, conn).undone_recoveries, 1);
    peer.send(conn, end, 8 * 988);
    let sent = peer.drain();
    let latest = sent.last().map_or(stamp, |segment| {
        segment.header.options.timestamps.unwrap().value
    });
    for _ in 0..3 {
        let duplicate = ack().seq(1).ack(1 + len).stamps(1002, latest);
        peer.inject(duplicate);
    }
    let again = peer.drain();
    assert!(again.iter().any(|segment| segment.seq == 1 + len));
    assert_eq!(info(&mut peer, conn).fast_retransmits, 1);
}

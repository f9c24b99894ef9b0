//! Connections that have carried more than 2 GiB since something was last noted by its sequence number: what was noted stays passed.

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::config::{Ecn, Pacing};
use tollgate_stack::{Config, ConnId, Info};
use tollgate_wire::tcp::Flags;

const SEGMENT: u32 = 59_000;
const ROUND_TRIP: Duration = Duration::from_millis(40);
/// Bytes behind which a sequence number seems to lie ahead.
const FAR: u32 = (1 << 31) + (1 << 20);

/// A connection of long segments, and where its next byte goes.
struct Transfer {
    peer: Peer,
    conn: ConnId,
    at: u32,
}

impl Transfer {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut peer = Peer::on_link(60_000, |config| {
            config.window_scaling = true;
            config.send_buffer = 1 << 22;
            config.mechanisms.pacing = Pacing::Off;
            change(config);
        });
        let listener = peer.listen();
        let first = syn().flag(Flags(Flags::ECE.0 | Flags::CWR.0));
        peer.inject(first.mss(SEGMENT as u16).scale(7).sack_permitted());
        peer.next().expect("an answer");
        peer.advance(ROUND_TRIP);
        peer.inject(ack().seq(1).ack(1));
        let conn = peer.stack().accept(listener).expect("it is open");
        let mut transfer = Self { peer, conn, at: 1 };
        transfer.send(30);
        transfer.acknowledge(30);
        transfer
    }

    fn info(&mut self) -> Info {
        self.peer.stack().info(self.conn).expect("it is there")
    }

    fn send(&mut self, segments: u32) {
        let zeros = vec![0; SEGMENT as usize];
        for _ in 0..segments {
            assert_eq!(self.peer.stack().send(self.conn, &zeros), Ok(zeros.len()));
            self.peer.poll();
        }
        self.peer.ignore();
    }

    fn acknowledge(&mut self, segments: u32) {
        for _ in 0..segments {
            self.at += SEGMENT;
            self.peer.inject(ack().seq(1).ack(self.at));
            self.peer.ignore();
        }
    }

    /// Carries so many bytes, a segment at a time.
    fn pass(&mut self, bytes: u32) {
        for _ in 0..bytes.div_ceil(SEGMENT) {
            self.send(1);
            self.acknowledge(1);
        }
    }

    /// Opens the congestion window again, and lets the estimator see round trips of [`ROUND_TRIP`].
    fn grow(&mut self) {
        for _ in 0..6 {
            self.send(60);
            self.acknowledge(60);
        }
        for _ in 0..40 {
            self.send(1);
            self.peer.advance(ROUND_TRIP);
            self.acknowledge(1);
        }
    }

    /// Sends segments of which the first is lost, and lets the peer tell that it has the others.
    fn lose_the_first_of(&mut self, segments: u32) {
        self.send(segments);
        self.peer.advance(ROUND_TRIP);
        self.peer.ignore();
        let told = (self.at + SEGMENT, self.at + segments * SEGMENT);
        let told = self.peer.blocks(&[told]);
        self.peer.inject(ack().seq(1).ack(self.at).sack(told));
    }

    fn repair(&mut self, segments: u32) {
        self.peer.advance(ROUND_TRIP);
        self.peer.ignore();
        self.at += segments * SEGMENT;
        self.peer.inject(ack().seq(1).ack(self.at));
        self.peer.ignore();
        self.peer.advance(ROUND_TRIP);
    }
}

/// RFC 8985, 7.3: a probe is sent again once something was acknowledged that was sent after the last one.
#[test]
fn the_end_of_a_flight_is_probed_for() {
    let mut transfer = Transfer::new(|_| {});
    for probes in 1..=2 {
        transfer.send(2);
        let waited = transfer.peer.wait(s(10));
        let now = transfer.info();
        assert_eq!((now.tail_probes, now.timeouts), (probes, 0), "{waited:?}");
        transfer.peer.ignore();
        transfer.acknowledge(2);
        let told = (transfer.at - SEGMENT, transfer.at);
        let told = transfer.peer.blocks(&[told]);
        let twice = ack().seq(1).ack(transfer.at).sack(told);
        transfer.peer.inject(twice);
        if probes == 1 {
            transfer.pass(FAR);
            transfer.grow();
        }
    }
}

/// RFC 3168, 6.1.2: the sender reacts to a mark "at most once every window of data", and to one of every window.
#[test]
fn an_echo_of_congestion_reduces_the_window() {
    for accurate in [Ecn::Classic, Ecn::Off] {
        let mut transfer = Transfer::new(|config| config.mechanisms.ecn = accurate);
        for bytes in [0, FAR] {
            transfer.pass(bytes);
            transfer.send(60);
            transfer.acknowledge(60);
            transfer.send(10);
            let before = transfer.info().congestion_window;
            let echo = ack().flag(Flags::ECE).seq(1);
            transfer.at += 10 * SEGMENT;
            transfer.peer.inject(echo.ack(transfer.at));
            transfer.peer.ignore();
            let reduced = transfer.info().congestion_window < before;
            assert_eq!(reduced, accurate == Ecn::Classic, "after {bytes} bytes");
        }
    }
}

/// RFC 5681, 3.1: a loss sets the threshold from what is in flight, whatever was reduced for a long time ago.
#[test]
fn a_loss_reduces_the_window() {
    for ecn in [Ecn::Off, Ecn::Classic] {
        let mut transfer = Transfer::new(|config| config.mechanisms.ecn = ecn);
        for (bytes, segments) in [(0, 8), (FAR, 5)] {
            transfer.pass(bytes);
            transfer.grow();
            transfer.lose_the_first_of(segments);
            transfer.repair(segments);
            let threshold = transfer.info().slow_start_threshold;
            // RFC 9438, 4.6: 0.7 of what was in flight.
            assert_eq!(threshold, segments * SEGMENT / 10 * 7, "{ecn:?}, {bytes}");
        }
    }
}

/// RFC 8985, 6.2, steps 3 and 4: where nothing was ever reordered, three sacked segments show a loss at once.
#[test]
fn delivery_in_order_is_no_reordering() {
    let mut transfer = Transfer::new(|_| {});
    for losses in 1..=2 {
        transfer.lose_the_first_of(6);
        let now = transfer.info();
        assert_eq!(
            (now.fast_retransmits, now.reordering_window),
            (losses, None)
        );
        transfer.repair(6);
        if losses == 1 {
            transfer.pass(FAR);
            transfer.grow();
        }
    }
}

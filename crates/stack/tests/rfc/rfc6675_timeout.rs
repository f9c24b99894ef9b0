//! Recovery from a timeout with selective acknowledgments (RFC 6675, 2 and 5.1), by a receiver that takes what a script lets through.

use crate::peer::*;
use std::collections::BTreeMap;
use std::time::Duration;
use tollgate_stack::{ConnId, Info};

/// The round trip of these scripts.
const ROUND_TRIP: Duration = Duration::from_millis(40);
/// Bytes of a segment.
const LEN: u32 = 1000;

/// A receiver of segments of [`LEN`] bytes, the first of sequence number 1.
struct Receiver {
    peer: Peer,
    conn: ConnId,
    /// Ends of the ranges that have arrived behind `next`, by their beginnings.
    ranges: BTreeMap<u32, u32>,
    next: u32,
    /// Bytes that were written.
    written: u32,
    /// Times that a segment was sent, by its number.
    sent: BTreeMap<u32, u32>,
}

impl Receiver {
    /// Its connection has a window of so many segments, all of them in flight.
    fn with_window(segments: u32) -> Self {
        let mut peer = Peer::with(|config| {
            config.window_scaling = true;
            config.send_buffer = 4 << 20;
        });
        let conn = peer.accepted_after(syn().mss(1000).sack_permitted().scale(7), ROUND_TRIP);
        let mut new = Self {
            peer,
            conn,
            ranges: BTreeMap::new(),
            next: 1,
            written: 0,
            sent: BTreeMap::new(),
        };
        while new.info().congestion_window < LEN * segments {
            // What it limits lets it grow.
            let window = new.info().congestion_window / LEN;
            new.write(2 * window);
            new.rounds(|_, _| true, |now| now.in_flight == 0);
        }
        new.sent.clear();
        new.write(segments);
        new
    }

    fn info(&mut self) -> Info {
        self.peer.stack().info(self.conn).expect("it is there")
    }

    fn write(&mut self, segments: u32) {
        let from = self.written + 1;
        self.peer.send(self.conn, from, (LEN * segments) as usize);
        self.written += LEN * segments;
    }

    /// A segment has arrived, and is acknowledged.
    fn take(&mut self, seq: u32) {
        let end = seq + LEN;
        let mut newest = None;
        if seq == self.next {
            self.next = self.ranges.remove(&end).unwrap_or(end);
        } else if self.next < seq {
            let last = self.ranges.remove(&end).unwrap_or(end);
            let before = self.ranges.iter().find(|(_, e)| **e == seq);
            let start = before.map_or(seq, |(start, _)| *start);
            self.ranges.insert(start, last);
            newest = Some((start, last));
        }
        // RFC 2018, 4: the newest range first; the others are those in front.
        let others = self.ranges.iter().map(|(start, end)| (*start, *end));
        let told: Vec<(u32, u32)> = newest
            .into_iter()
            .chain(others.filter(|range| Some(*range) != newest))
            .take(4)
            .collect();
        let blocks = self.peer.blocks(&told);
        let answer = ack().seq(1).ack(self.next).win(u16::MAX);
        self.peer.inject(if told.is_empty() {
            answer
        } else {
            answer.sack(blocks)
        });
    }

    /// Round trips until it is `enough`. Of each segment `arrives` says whether it does, by its number from one on and how often it was sent.
    fn rounds(
        &mut self,
        arrives: impl Fn(u32, u32) -> bool,
        enough: impl Fn(&Info) -> bool,
    ) -> u32 {
        for round in 0..500 {
            if enough(&self.info()) {
                return round;
            }
            let sent = self.peer.drain();
            self.peer.advance(ROUND_TRIP);
            for segment in sent {
                let number = (segment.seq - 1) / LEN + 1;
                let times = self.sent.entry(number).or_default();
                *times += 1;
                if arrives(number, *times) {
                    self.take(segment.seq);
                }
            }
            assert_eq!(self.peer.stack.check_consistency(&self.peer.pool), Ok(()));
        }
        panic!("it goes on for ever: {:?}", self.info());
    }
}

/// SACK-10. RFC 6675, 2, "Pipe": what is sacked is not in flight. After a timeout the window, which opens from one segment, is for what is missing, and
/// not for the hundreds of segments between.
#[test]
fn holes_are_repaired_after_a_timeout_as_slow_start_lets_them() {
    let mut receiver = Receiver::with_window(1000);
    let first = receiver.next / LEN;
    // Fifty holes and the last segments, and nothing that is sent again arrives before the timeout.
    let arrives = |number: u32, _: u32| {
        let number = number - first;
        number <= 980 && number % 20 != 1
    };
    let timeouts = receiver.info().timeouts;
    receiver.rounds(arrives, |now| now.timeouts > timeouts);
    let rounds = receiver.rounds(|_, _| true, |now| now.in_flight == 0);
    let now = receiver.info();
    assert_eq!(now.timeouts, timeouts + 1);
    // 69 segments are missing: 1, 2, 4, 8, 16 and 32 in a round trip each, and the rest in one more.
    assert!(rounds <= 7, "{rounds} round trips");
}

/// SACK-9. RFC 8985, 6.2: what goes again after a timeout and is lost once more is found by what was sent after it, and not by another
/// timeout. RFC 5681, 4.3: it is a second sign of congestion.
#[test]
fn lost_retransmission_is_found_after_a_timeout_as_well() {
    let mut receiver = Receiver::with_window(100);
    let first = receiver.next / LEN;
    let timeouts = receiver.info().timeouts;
    receiver.rounds(|_, _| false, |now| now.timeouts > timeouts);
    let threshold = receiver.info().slow_start_threshold;
    receiver.sent.clear();
    // Of the third window after the timeout, which is four segments, the third is lost, and so is the first try to repair it.
    let lost = first + 5;
    receiver.rounds(
        |number, times| number != lost || times > 2,
        |now| now.in_flight == 0,
    );
    let now = receiver.info();
    assert_eq!(now.timeouts, timeouts + 1);
    assert!(now.slow_start_threshold < threshold / 2);
    assert_eq!(receiver.sent[&lost], 3);
    assert!(
        receiver
            .sent
            .iter()
            .all(|(n, times)| *n == lost || *times == 1)
    );
}

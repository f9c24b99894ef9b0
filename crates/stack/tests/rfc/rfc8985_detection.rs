//! Losses that RACK finds (RFC 8985, 6.2), against the RFC's own steps: a naive RACK that keeps every segment and walks over all of them
//! with each acknowledgment.
//!
//! Scripts are random: segments and acknowledgments are lost, late and doubled, and application data comes in pieces. Of the stack the
//! naive one sees what it sends and what [`Info`] says of times that are not RACK's own: the smoothed and the shortest round trip, and
//! whether it is recovering.

use crate::peer::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tollgate_stack::config::MtuProbing;
use tollgate_stack::{CongestionState, ConnId, Info, Instant};

/// Bytes of a segment.
const LEN: u32 = 1000;
/// Time from a segment to its acknowledgment where nothing is late.
const ROUND_TRIP: u64 = 20;
/// Time by which the stack's timer may be late: what all its timers may be, and twice a tick, by which a wait is rounded up.
const LATEST: Duration = SLACK.saturating_add(TICK).saturating_add(TICK);
/// "DupThresh" (RFC 8985, 6.2, step 4; RFC 5681, 3.2).
const DUP_THRESH: usize = 3;

/// A segment of the stack's, and what is known of it (RFC 8985, 5.2).
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Segment.end_seq.
    end: u32,
    /// Segment.xmit_ts, nanoseconds.
    sent: u64,
    /// Segment.retransmitted.
    again: bool,
    /// Segment.lost, until it is acknowledged.
    lost: bool,
    /// It was lost and is on its way again.
    resent: bool,
    /// It was in flight when the retransmission timer fired, and has not been sent since.
    waits: bool,
    /// It is acknowledged, cumulatively or selectively.
    delivered: bool,
    /// Its timestamp, where there are any.
    stamp: Option<u32>,
}

/// RACK as the RFC writes it down (5.3 and 6.2).
#[derive(Debug, Default)]
struct Naive {
    segments: Vec<Segment>,
    una: u32,
    /// RACK.xmit_ts and RACK.end_seq.
    latest: (u64, u32),
    /// RACK.rtt.
    rtt: Option<u64>,
    /// RACK.fack.
    farthest: u32,
    reordering_seen: bool,
    /// RACK.reo_wnd_mult, less one.
    widened: u64,
    persist: u32,
    /// RACK.dsack_round.
    round: Option<u32>,
    /// RACK.reo_wnd when losses were looked for last.
    window: u64,
}

fn recovers(info: &Info) -> bool {
    matches!(
        info.congestion_state,
        CongestionState::Recovery | CongestionState::Loss
    )
}

fn leaves_loss(before: &Info, after: &Info) -> bool {
    before.congestion_state == CongestionState::Loss
        && after.congestion_state != CongestionState::Loss
}

impl Naive {
    fn nxt(&self) -> u32 {
        self.segments.last().map_or(1, |last| last.end)
    }

    /// The stack has sent a segment (6.1).
    fn transmit(&mut self, seq: u32, stamp: Option<u32>, now: u64) {
        let end = seq + LEN;
        match self.segments.iter_mut().find(|s| s.end == end) {
            Some(segment) => {
                segment.resent = segment.lost;
                segment.sent = now;
                segment.again = true;
                segment.waits = false;
                segment.stamp = stamp;
            }
            None => {
                assert_eq!(seq, self.nxt(), "segments have one length");
                self.segments.push(Segment {
                    end,
                    sent: now,
                    again: false,
                    lost: false,
                    resent: false,
                    waits: false,
                    delivered: false,
                    stamp,
                });
            }
        }
    }

    /// The retransmission timer has fired: all that is not delivered goes again.
    fn time_out(&mut self) {
        for segment in self.segments.iter_mut().filter(|s| !s.delivered) {
            (segment.lost, segment.resent) = (false, false);
            segment.waits = true;
        }
    }

    fn missing(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.segments.iter_mut().filter(|s| !s.delivered)
    }

    /// An acknowledgment has arrived (6.2). `before` and `after` are the stack's account.
    fn acknowledge(&mut self, told: &Told, (before, after): (&Info, &Info), now: u64) {
        let is_told = |s: &Segment| {
            let within = |&(start, end): &(u32, u32)| start <= s.end - LEN && s.end <= end;
            s.end <= told.next || told.ranges.iter().any(within)
        };
        let newly: Vec<usize> = (0..self.segments.len())
            .filter(|&n| !self.segments[n].delivered && is_told(&self.segments[n]))
            .collect();
        self.una = self.una.max(told.next);
        // Step 1: RACK.min_RTT.
        let once = newly.iter().filter(|&&n| !self.segments[n].again);
        let fresh = once.map(|&n| now - self.segments[n].sent).min();
        let known = before.min_rtt.map(|d| d.as_nanos() as u64);
        let min_rtt = known.into_iter().chain(fresh).min();
        for &n in &newly {
            self.segments[n].delivered = true;
            let segment = self.segments[n];
            // Step 3, whose order with step 2 does not matter.
            if segment.end > self.farthest {
                self.farthest = segment.end;
            } else if segment.end < self.farthest && !segment.again {
                self.reordering_seen = true;
            }
            // Step 2.
            let rtt = now - segment.sent;
            let is_older = match (told.echo, segment.stamp) {
                (Some(echo), Some(stamp)) => (echo.wrapping_sub(stamp) as i32) < 0,
                _ => false,
            };
            if segment.again && (is_older || min_rtt.is_some_and(|min| rtt < min)) {
                continue;
            }
            self.rtt = Some(rtt);
            self.latest = self.latest.max((segment.sent, segment.end));
        }
        // Step 4.
        self.round = self.round.filter(|&round| self.una < round);
        if told.twice.is_some() && self.round.is_none() {
            self.round = Some(self.nxt());
            self.widened += 1;
            self.persist = 16;
        } else if recovers(before) && !recovers(after) {
            self.persist = self.persist.saturating_sub(1);
            if self.persist == 0 {
                self.widened = 0;
            }
        }
        if after.undone_recoveries != before.undone_recoveries {
            // A timeout that was for nothing: what was in flight then still is.
            let over = leaves_loss(before, after);
            for segment in self.missing() {
                (segment.lost, segment.resent) = (false, false);
                segment.waits &= !over;
            }
        }
        self.detect(before, after, min_rtt, now);
    }

    /// Step 5, with the window of step 4.
    fn detect(&mut self, before: &Info, after: &Info, min_rtt: Option<u64>, now: u64) {
        self.window = self.window_now(before, after, min_rtt);
        for n in self.overdue(self.window, now) {
            let segment = &mut self.segments[n];
            (segment.lost, segment.resent) = (true, false);
        }
    }

    fn window_now(&self, before: &Info, after: &Info, min_rtt: Option<u64>) -> u64 {
        let behind = self.segments.iter().filter(|s| s.end > self.una);
        let sacked = behind.filter(|s| s.delivered).count();
        let undone = after.undone_recoveries != before.undone_recoveries;
        let recovering = recovers(before) && !leaves_loss(before, after) && !undone;
        if !self.reordering_seen && (recovering || sacked >= DUP_THRESH) {
            return 0;
        }
        let window = min_rtt.map_or(u64::MAX, |min| min / 4 * (self.widened + 1));
        window.min(after.rtt.as_nanos() as u64)
    }

    /// The segments that are lost at `now` and are not known to be.
    fn overdue(&self, window: u64, now: u64) -> Vec<usize> {
        let Some(rtt) = self.rtt else {
            return Vec::new();
        };
        let is_overdue = |s: &Segment| {
            let known = s.lost && !s.resent;
            let counts = !s.delivered && !s.waits && !known;
            counts && self.latest > (s.sent, s.end) && s.sent + rtt + window <= now
        };
        let all = self.segments.iter().enumerate();
        all.filter(|(_, s)| is_overdue(s)).map(|(n, _)| n).collect()
    }

    /// Bytes that are lost, and of these bytes that are on their way again.
    fn sums(&self) -> (u32, u32) {
        let lost = self.segments.iter().filter(|s| !s.delivered && s.lost);
        let resent = lost.clone().filter(|s| s.resent);
        (LEN * lost.count() as u32, LEN * resent.count() as u32)
    }
}

/// Content of an acknowledgment.
#[derive(Clone, Debug)]
struct Told {
    next: u32,
    /// Ranges behind that, the newest first.
    ranges: Vec<(u32, u32)>,
    /// The segment has arrived for the second time.
    twice: Option<(u32, u32)>,
    /// The timestamp that it echoes.
    echo: Option<u32>,
}

/// Fate of a segment and of its acknowledgment.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    /// Its acknowledgment is.
    Unacknowledged,
    /// So many milliseconds.
    Late(u64),
    Doubled,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Arrives),
        3 => Just(Fate::Lost),
        1 => Just(Fate::Unacknowledged),
        2 => (1u64..40).prop_map(Fate::Late),
        1 => Just(Fate::Doubled),
    ]
}

/// Bytes of the timestamp option with its padding.
const STAMPS: u32 = 12;

/// A segment with a timestamp, where there is one to echo.
fn stamped(segment: Seg, now: Instant, echo: Option<u32>) -> Seg {
    let value = (now.as_nanos() / 1_000_000) as u32;
    match echo {
        Some(echo) => segment.stamps(value, echo),
        None => segment,
    }
}

/// The receiver, the line to it, and the naive RACK beside the stack's.
struct Run {
    peer: Peer,
    conn: ConnId,
    naive: Naive,
    fates: Vec<Fate>,
    /// Segments that were sent.
    count: usize,
    /// Segments on their way, by when they arrive and in which order they were sent: where they begin, their
    /// timestamp, and whether anybody hears of it.
    line: BTreeMap<(u64, usize), (u32, Option<u32>, bool)>,
    /// Beginnings of the segments that have arrived behind `next`.
    early: BTreeSet<u32>,
    next: u32,
    /// TS.Recent (RFC 7323, 4.3), with timestamps.
    recent: Option<u32>,
    before: Info,
}

impl Run {
    /// A connection, with timestamps or without.
    fn new(fates: Vec<Fate>, stamps: bool) -> Self {
        let mut peer = Peer::with(|config| {
            config.window_scaling = true;
            config.timestamps = stamps;
            config.send_buffer = 1 << 20;
            // After timeouts in a row segments would become shorter.
            config.mechanisms.mtu_probing = MtuProbing::Off;
        });
        let options = if stamps { STAMPS } else { 0 };
        let first = syn().mss((LEN + options) as u16).sack_permitted().scale(7);
        let listener = peer.listen();
        peer.inject(stamped(first, peer.now, stamps.then_some(0)));
        let answer = peer.expect(syn_ack().seq(0).ack(1));
        let recent = answer.header.options.timestamps.map(|stamps| stamps.value);
        assert_eq!(recent.is_some(), stamps);
        peer.advance(Duration::from_millis(ROUND_TRIP));
        peer.inject(stamped(ack().seq(1).ack(1), peer.now, recent));
        let conn = peer
            .stack()
            .accept(listener)
            .expect("the handshake is complete");
        let before = peer.stack().info(conn).expect("it is there");
        Self {
            peer,
            conn,
            naive: Naive {
                una: 1,
                ..Naive::default()
            },
            fates,
            count: 0,
            line: BTreeMap::new(),
            early: BTreeSet::new(),
            next: 1,
            recent,
            before,
        }
    }

    fn now(&self) -> u64 {
        self.peer.now.as_nanos()
    }

    /// Puts what the stack has sent on the line. When all fates are used up, everything arrives.
    fn take_sent(&mut self) {
        let now = self.now();
        for sent in self.peer.drain() {
            let stamp = sent.header.options.timestamps.map(|stamps| stamps.value);
            self.naive.transmit(sent.seq, stamp, now);
            let fate = self.fates.get(self.count).copied();
            let (late, copies, is_heard) = match fate.unwrap_or(Fate::Arrives) {
                Fate::Arrives => (0, 1, true),
                Fate::Lost => (0, 0, true),
                Fate::Unacknowledged => (0, 1, false),
                Fate::Late(late) => (late, 1, true),
                Fate::Doubled => (0, 2, true),
            };
            for copy in 0..copies {
                let at = now + (ROUND_TRIP + late) * 1_000_000;
                let key = (at, 2 * self.count + copy);
                self.line.insert(key, (sent.seq, stamp, is_heard));
            }
            self.count += 1;
        }
    }

    /// A segment arrives at the receiver. Returns what it says.
    fn arrives(&mut self, start: u32, stamp: Option<u32>) -> Told {
        if start <= self.next {
            let newer =
                |recent: &u32| stamp.is_some_and(|stamp| (stamp.wrapping_sub(*recent) as i32) >= 0);
            self.recent = if self.recent.as_ref().is_some_and(newer) {
                stamp
            } else {
                self.recent
            };
        }
        let twice = start < self.next || !self.early.insert(start);
        while self.early.remove(&self.next) {
            self.next += LEN;
        }
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &start in &self.early {
            match ranges.last_mut() {
                Some(last) if last.1 == start => last.1 += LEN,
                _ => ranges.push((start, start + LEN)),
            }
        }
        // RFC 2018, 4: the range that has just grown is told of first; RFC 2883, 4: behind the duplicate that lies in it.
        ranges.sort_by_key(|&(from, end)| !(from <= start && start < end));
        let blocks = if self.recent.is_some() { 3 } else { 4 };
        ranges.truncate(blocks - usize::from(twice));
        Told {
            next: self.next,
            ranges,
            twice: twice.then_some((start, start + LEN)),
            echo: self.recent,
        }
    }

    /// The stack hears of it.
    fn hears(&mut self, told: &Told) {
        let blocks: Vec<_> = told.twice.iter().chain(&told.ranges).copied().collect();
        let answer = ack().seq(1).ack(told.next).win(u16::MAX);
        let answer = stamped(answer, self.peer.now, told.echo);
        self.peer.inject(if blocks.is_empty() {
            answer
        } else {
            answer.sack(self.peer.blocks(&blocks))
        });
        let after = self.peer.stack().info(self.conn).expect("it is there");
        self.naive
            .acknowledge(told, (&self.before, &after), self.peer.now.as_nanos());
        self.compare(after);
    }

    /// A tick at most goes by.
    fn wait(&mut self, until: u64) {
        let left = Duration::from_nanos(until - self.now());
        self.peer.wait(left.min(TICK));
        let now = self.now();
        let after = self.peer.stack().info(self.conn).expect("it is there");
        let min_rtt = after.min_rtt.map(|d| d.as_nanos() as u64);
        // Something was found when the timer came.
        let looks = |info: &Info| (info.lost, info.resent, info.retransmits);
        if after.timeouts != self.before.timeouts {
            self.naive.time_out();
        } else if looks(&after) != looks(&self.before) {
            self.naive.detect(&self.before, &after, min_rtt, now);
        }
        let late = now - LATEST.as_nanos() as u64;
        // When the timer has come it is asked for the window anew.
        let window = self.naive.window_now(&self.before, &after, min_rtt);
        let overdue = self.naive.overdue(self.naive.window.max(window), late);
        assert!(
            overdue.is_empty(),
            "{overdue:?} are overdue in {:?}",
            self.naive
        );
        self.compare(after);
    }

    /// Both say the same of what is lost.
    fn compare(&mut self, after: Info) {
        self.take_sent();
        assert_eq!(
            (after.lost, after.resent),
            self.naive.sums(),
            "lost, and sent again, at {} with {:?}",
            self.peer.now.as_nanos(),
            self.naive
        );
        let consistent = self.peer.stack.check_consistency(&self.peer.pool);
        assert_eq!(consistent, Ok(()));
        self.before = after;
    }

    /// Until everything has arrived and is acknowledged.
    fn finish(&mut self) {
        let end = self.now() + 600_000_000_000;
        while self.before.in_flight != 0 || self.before.unsent != 0 {
            assert!(self.now() < end, "it stands still: {:?}", self.before);
            let first = self.line.first_entry();
            match first {
                Some(first) if first.key().0 <= self.peer.now.as_nanos() => {
                    let (start, stamp, is_heard) = first.remove();
                    let told = self.arrives(start, stamp);
                    if is_heard {
                        self.hears(&told);
                    }
                }
                first => {
                    let until = first.map_or(end, |first| first.key().0);
                    self.wait(until);
                }
            }
        }
    }
}

/// SACK-7, SACK-8. RFC 8985, 6.2: in random transfers just those segments are taken for lost that its steps take for it, as soon as an
/// acknowledgment or the timer lets them.
#[test]
fn losses_are_those_of_the_rfc() {
    let fates = prop::collection::vec(fate(), 1..120);
    let writes = prop::collection::vec(1u32..60, 1..4);
    proptest!(ProptestConfig::with_cases(128), |(fates in fates, writes in writes, stamps: bool)| {
        let mut run = Run::new(fates, stamps);
        let mut from = 1;
        for segments in writes {
            run.peer.send(run.conn, from, (LEN * segments) as usize);
            from += LEN * segments;
            run.take_sent();
            run.before = run.peer.stack().info(run.conn).expect("it is there");
            run.finish();
        }
    });
}

/// SACK-7. 6.2, step 5: of a retransmission the peer takes the first half, and the rest is lost like anything else that is not acknowledged
/// when something has arrived that was sent later.
#[test]
fn rest_of_a_retransmission_that_was_taken_in_part_is_found() {
    let mut peer = Peer::new();
    let round_trip = Duration::from_millis(ROUND_TRIP);
    let conn = peer.accepted_after(syn().mss(MSS).sack_permitted(), round_trip);
    peer.send(conn, 1, 40 * LEN as usize);
    peer.ignore();
    peer.advance(round_trip);
    peer.inject(ack().seq(1).ack(1).sack(peer.blocks(&[(1001, 5001)])));
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.ignore();
    peer.advance(round_trip);
    // All else that was sent has arrived.
    peer.inject(ack().seq(1).ack(501).sack(peer.blocks(&[(1001, 10_001)])));
    let sent = peer.drain();
    assert!(sent.iter().all(|sent| sent.seq > 10_000), "{sent:?}");
    let next = sent.first().expect("new data");
    let end = next.seq + next.data.len() as u32;
    peer.advance(round_trip);
    peer.inject(
        ack()
            .seq(1)
            .ack(501)
            .sack(peer.blocks(&[(1001, 10_001), (next.seq, end)])),
    );
    let sent = peer.drain();
    let holds = |sent: &Sent| sent.seq <= 501 && sent.seq + sent.data.len() as u32 == 1001;
    assert!(sent.iter().any(holds), "{sent:?}");
    assert_eq!(peer.stack.counters().timeouts, 0);
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

//! HyStart++ (RFC 9406): the first slow start ends when round trips grow longer, before a queue overflows.
//!
//! A round is what was in flight when the round before it ended. When the shortest round trip of a round exceeds that of the round
//! before by a threshold, growth goes on at a quarter of the pace (conservative slow start). Should round trips become shorter
//! again, that was for nothing and slow start goes on; otherwise slow start ends after five rounds.

use super::Ack;
use crate::tcp::milestone::Milestone;
use crate::tcp::tcb::{Tcb, rare};

/// MIN_RTT_THRESH, nanoseconds (RFC 9406, 4.3).
const MIN_RTT_THRESH: u64 = 4_000_000;
/// MAX_RTT_THRESH, nanoseconds (RFC 9406, 4.3).
const MAX_RTT_THRESH: u64 = 16_000_000;
/// MIN_RTT_DIVISOR (RFC 9406, 4.3).
const MIN_RTT_DIVISOR: u64 = 8;
/// N_RTT_SAMPLE (RFC 9406, 4.3).
const N_RTT_SAMPLE: u32 = 8;
/// CSS_GROWTH_DIVISOR (RFC 9406, 4.3).
const CSS_GROWTH_DIVISOR: u32 = 4;
/// CSS_ROUNDS (RFC 9406, 4.3).
const CSS_ROUNDS: u8 = 5;
/// L of a sender that does not pace, in segments; one that does has none (RFC 9406, 4.3).
const LIMIT: u32 = 8;
/// L in bytes where that is more. What leaves as one train is put together again by the receiver and acknowledged once (GRO; decision
/// 24): by eight segments a window would grow by a fifth in each round trip, for the sake of bursts that trains are in any case.
const TRAIN: u32 = 65_535;

/// L of a sender that does not pace, in bytes.
pub(super) fn limit(mss: u16) -> u32 {
    TRAIN.max(LIMIT * u32::from(mss))
}

/// No round trip: "infinity" of RFC 9406, 4.2.
const INFINITY: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    /// Conservative slow start: the shortest round trip at its beginning (cssBaselineMinRtt), and rounds that it has lasted.
    Conservative {
        baseline: u64,
        rounds: u8,
    },
}

/// State of a first slow start. Round trips are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    phase: Phase,
    /// windowEnd: the round ends when this is acknowledged; none before the first.
    window_end: Option<Milestone>,
    /// lastRoundMinRTT.
    last: u64,
    /// currentRoundMinRTT.
    current: u64,
    /// rttSampleCount.
    samples: u32,
}

impl Default for HyStart {
    fn default() -> Self {
        Self {
            phase: Phase::SlowStart,
            window_end: None,
            last: INFINITY,
            current: INFINITY,
            samples: 0,
        }
    }
}

impl HyStart {
    /// Grows the window; says whether slow start has ended (RFC 9406, 4.2).
    pub(super) fn on_ack(&mut self, tcb: &mut Tcb, ack: Ack) -> bool {
        let counted = if tcb.is_rare(rare::PACED) {
            ack.bytes
        } else {
            ack.bytes.min(limit(tcb.mss))
        };
        let step = match self.phase {
            Phase::SlowStart => counted,
            Phase::Conservative { .. } => counted / CSS_GROWTH_DIVISOR,
        };
        tcb.cwnd = tcb.cwnd.saturating_add(step);
        if let Some(rtt) = ack.rtt {
            self.current = self.current.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples >= N_RTT_SAMPLE {
            self.judge();
        }
        let next = Milestone::at(tcb, tcb.snd_nxt);
        let end = *self.window_end.get_or_insert(next);
        if !end.is_reached(tcb) {
            return false;
        }
        self.window_end = Some(next);
        self.last = self.current;
        self.current = INFINITY;
        self.samples = 0;
        match &mut self.phase {
            Phase::SlowStart => false,
            Phase::Conservative { rounds, .. } => {
                *rounds += 1;
                *rounds >= CSS_ROUNDS
            }
        }
    }

    /// Holds the shortest round trip of this round against that of the last, or against the baseline.
    fn judge(&mut self) {
        match self.phase {
            Phase::SlowStart if self.last != INFINITY => {
                let threshold = (self.last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if self.current >= self.last.saturating_add(threshold) {
                    self.phase = Phase::Conservative {
                        baseline: self.current,
                        rounds: 0,
                    };
                }
            }
            Phase::SlowStart => {}
            Phase::Conservative { baseline, .. } => {
                if self.current < baseline {
                    self.phase = Phase::SlowStart;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::milestone::tests::acknowledge;
    use crate::time::Instant;
    use tollgate_wire::SeqNumber;

    const MSS: u32 = 1000;
    const MS: u64 = 1_000_000;

    /// A sender that keeps its window full.
    struct Sender {
        tcb: Tcb,
        hystart: HyStart,
        ended: bool,
    }

    impl Sender {
        fn new() -> Self {
            let tcb = Tcb {
                mss: MSS as u16,
                cwnd: 10 * MSS,
                snd_una: SeqNumber(u32::MAX - 20_000),
                snd_nxt: SeqNumber(u32::MAX - 10_000),
                ..Tcb::FREE
            };
            Self {
                tcb,
                hystart: HyStart::default(),
                ended: false,
            }
        }

        fn ack(&mut self, bytes: u32, rtt: Option<u64>) -> u32 {
            let before = self.tcb.cwnd;
            acknowledge(&mut self.tcb, bytes);
            let ack = Ack {
                bytes,
                now: Instant::ZERO,
                rtt,
                limit: super::super::LIMIT,
            };
            self.ended |= self.hystart.on_ack(&mut self.tcb, ack);
            self.tcb.snd_nxt = self.tcb.snd_una + self.tcb.cwnd;
            self.tcb.cwnd - before
        }

        /// Acknowledges a round, segment by segment, after round trips of so many milliseconds.
        fn round(&mut self, rtt: u64) {
            let next = Milestone::at(&self.tcb, self.tcb.snd_nxt);
            let end = self.hystart.window_end.unwrap_or(next);
            while !end.is_reached(&self.tcb) {
                self.ack(MSS, Some(rtt * MS));
            }
        }

        fn conserves(&self) -> bool {
            matches!(self.hystart.phase, Phase::Conservative { .. })
        }
    }

    #[test]
    fn window_grows_by_what_is_acknowledged_while_round_trips_stay() {
        let mut sender = Sender::new();
        for _ in 0..5 {
            let flight = sender.tcb.in_flight();
            while sender.tcb.cwnd < 2 * flight {
                assert_eq!(sender.ack(MSS, Some(20 * MS)), MSS);
            }
        }
        assert!(!sender.conserves() && !sender.ended);
    }

    /// RFC 9406, 4.2: a round ends where its end is acknowledged, however much was before the window limited the sender again.
    #[test]
    fn a_round_ends_after_two_gibibytes_that_did_not_fill_the_window() {
        let mut sender = Sender::new();
        sender.round(20);
        for _ in 0..3 {
            acknowledge(&mut sender.tcb, 1 << 30);
        }
        sender.tcb.snd_nxt = sender.tcb.snd_una + sender.tcb.cwnd;
        sender.ack(MSS, Some(20 * MS));
        sender.round(20);
        assert!(!sender.conserves());
        sender.round(300);
        assert!(sender.conserves());
    }

    #[test]
    fn acknowledgment_counts_for_a_train_at_most_unless_paced() {
        let mut sender = Sender::new();
        assert_eq!(sender.ack(65 * MSS, None), 65 * MSS);
        assert_eq!(sender.ack(66 * MSS, None), TRAIN);
        sender.tcb.rare |= rare::PACED;
        assert_eq!(sender.ack(66 * MSS, None), 66 * MSS);
    }

    #[test]
    fn acknowledgment_counts_for_eight_large_segments() {
        let mut sender = Sender::new();
        sender.tcb.mss = 9_000;
        assert_eq!(sender.ack(9 * 9_000, None), 8 * 9_000);
    }

    #[test]
    fn threshold_is_an_eighth_within_four_and_sixteen_milliseconds() {
        for (last, threshold) in [(8, 4), (32, 4), (80, 10), (128, 16), (1000, 16)] {
            for more in [threshold - 1, threshold] {
                let mut sender = Sender::new();
                sender.round(last);
                sender.round(last);
                sender.round(last + more);
                assert_eq!(sender.conserves(), more == threshold, "{last} + {more}");
            }
        }
    }

    #[test]
    fn seven_samples_tell_nothing() {
        let mut sender = Sender::new();
        sender.round(20);
        for _ in 0..7 {
            sender.ack(MSS, Some(30 * MS));
        }
        sender.ack(MSS, None);
        assert!(!sender.conserves());
        sender.ack(MSS, Some(30 * MS));
        assert!(sender.conserves());
    }

    #[test]
    fn conservative_slow_start_grows_by_a_quarter_and_ends_after_five_rounds() {
        let mut sender = Sender::new();
        sender.round(20);
        sender.round(30);
        assert!(sender.conserves());
        // The round in whose midst it began counts.
        for _ in 0..3 {
            let before = sender.tcb.cwnd;
            sender.round(30);
            let grown = sender.tcb.cwnd - before;
            assert!((before / 4 - MSS..=before / 4).contains(&grown), "{grown}");
            assert!(!sender.ended);
        }
        sender.round(30);
        assert!(sender.ended);
    }

    #[test]
    fn shorter_round_trips_resume_slow_start() {
        let mut sender = Sender::new();
        sender.round(20);
        sender.round(30);
        assert!(sender.conserves());
        sender.round(21);
        assert!(!sender.conserves() && !sender.ended);
        assert_eq!(sender.ack(MSS, Some(21 * MS)), MSS);
    }
}

//! Pacing: the segments of a window are spread over the round trip instead of following each other as fast as the link takes them.
//!
//! Owns the rate, and when a connection may send again. The rate is that of RFC 9002, 7.7: the window in each smoothed round trip,
//! times a factor. Time counts in ticks, so a connection sends what its rate gives for a tick, 1.05 ms, and then waits for
//! the next: bursts are as long as is good for segmentation by a device, and a path whose round trip takes no more than two ticks is not
//! paced. It must never hold back what a recovery sends: PRR counts that by what arrives (RFC 9937).

use crate::tcp::cc::initial_window;
use crate::tcp::tcb::{Tcb, rare};
use crate::time::{Instant, Tick};

/// Nanoseconds of a tick.
const TICK: u64 = 1 << Tick::SHIFT;
/// The shortest smoothed round trip of a paced connection, nanoseconds.
const SHORTEST: u64 = 2 * TICK;
/// The factor on the window in slow start, in quarters: it doubles in a round trip, as in Linux (`tcp_pacing_ss_ratio`).
const IN_SLOW_START: u64 = 8;
/// The factor otherwise, in quarters (RFC 9002, 7.7).
const OTHERWISE: u64 = 5;

/// State of a connection that is paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Pace {
    /// When the next segment may go, nanoseconds since the epoch.
    next: u64,
    /// When output goes on that was held back.
    pub(super) due: Option<Tick>,
}

/// A rate: `bytes` in each `nanos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    bytes: u64,
    nanos: u64,
}

impl Rate {
    /// The rate of a connection whose round trip is known.
    pub(super) fn of(tcb: &Tcb, starts_slowly: bool) -> Self {
        let factor = if starts_slowly {
            IN_SLOW_START
        } else {
            OTHERWISE
        };
        Self {
            bytes: u64::from(tcb.cwnd.max(1)) * factor,
            nanos: 4 * tcb.rtt.smoothed_ns().max(1),
        }
    }

    /// Nanoseconds that `len` bytes take.
    fn time_of(self, len: u16) -> u64 {
        u64::from(len) * self.nanos / self.bytes
    }

    /// Bytes per second.
    pub(super) fn per_second(self) -> u64 {
        let rate = u128::from(self.bytes) * 1_000_000_000 / u128::from(self.nanos);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// Tells whether a connection is to be paced: its window is larger than the one that any connection may send at once, and a round trip
/// long enough for its parts to be told.
pub(super) fn suits(tcb: &Tcb) -> bool {
    tcb.cwnd > initial_window(tcb.mss) && tcb.rtt.smoothed_ns() > SHORTEST
}

impl Pace {
    /// Counts a segment of `len` bytes that goes now, if it may; otherwise says in [`Pace::due`] when it may.
    pub(super) fn take(&mut self, rate: Rate, now: Instant, len: u16) -> bool {
        let now = now.as_nanos();
        if self.next > now {
            self.due = Some(Tick(((self.next >> Tick::SHIFT) + 1) as u32));
            return false;
        }
        // What was not used is kept for a tick, which is as late as the timer may fire.
        self.next = self.next.max(now.saturating_sub(TICK)) + rate.time_of(len);
        self.due = None;
        true
    }
}

impl Tcb {
    /// Sets [`rare::PACED`], and which way output goes with it.
    pub(in crate::tcp) fn set_paced(&mut self, paced: bool) {
        if paced == self.is_rare(rare::PACED) {
            return;
        }
        if paced {
            self.rare |= rare::PACED;
        } else {
            self.rare &= !rare::PACED;
        }
        self.choose_transmit_path();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::recovery::rto::Rtt;
    use alloc::vec::Vec;

    const MS: u64 = 1_000_000;
    const MSS: u16 = 1000;

    fn tcb(segments: u32, round_trip: u64) -> Tcb {
        let mut rtt = Rtt::UNKNOWN;
        rtt.update(round_trip);
        Tcb {
            mss: MSS,
            cwnd: segments * u32::from(MSS),
            rtt,
            ..Tcb::FREE
        }
    }

    #[test]
    fn rate_is_a_window_in_each_round_trip_times_a_factor() {
        let tcb = tcb(100, 100 * MS);
        // 1,000 segments in a second.
        assert_eq!(Rate::of(&tcb, false).per_second(), 1_250_000);
        assert_eq!(Rate::of(&tcb, true).per_second(), 2_000_000);
        assert_eq!(Rate::of(&tcb, true).time_of(MSS), MS / 2);
    }

    #[test]
    fn short_round_trips_and_small_windows_are_not_paced() {
        assert!(suits(&tcb(11, 3 * MS)));
        assert!(!suits(&tcb(10, 3 * MS)));
        assert!(!suits(&tcb(11, 2 * MS)));
    }

    /// Twenty milliseconds at a segment in each 0.1 ms: what goes in a tick is what the rate gives for it, and all together too.
    #[test]
    fn tick_carries_what_the_rate_gives_for_it() {
        let tcb = tcb(160, 20 * MS);
        let rate = Rate::of(&tcb, false);
        let (mut pace, begin) = (Pace::default(), 1 << 40);
        let (mut now, mut sent) = (begin, Vec::new());
        while now < begin + 20 * TICK {
            let mut burst = 0;
            while pace.take(rate, Instant::from_nanos(now), MSS) {
                burst += 1;
            }
            sent.push(burst);
            now = u64::from(pace.due.unwrap().0) << Tick::SHIFT;
        }
        // A tick's worth and one more at first, since nothing has been sent for longer.
        assert_eq!(sent[0], 11);
        assert!(
            sent.iter().all(|burst| (10..=11).contains(burst)),
            "{sent:?}"
        );
        let all: u64 = sent.iter().sum();
        assert!((209..=221).contains(&all), "{all}");
    }

    #[test]
    fn silence_is_made_up_for_by_one_tick() {
        let tcb = tcb(160, 20 * MS);
        let rate = Rate::of(&tcb, false);
        let mut pace = Pace::default();
        assert!(pace.take(rate, Instant::from_nanos(1 << 40), MSS));
        let late = Instant::from_nanos(1 << 41);
        let burst = (0..100).filter(|_| pace.take(rate, late, MSS)).count();
        assert_eq!(burst, 11);
    }
}

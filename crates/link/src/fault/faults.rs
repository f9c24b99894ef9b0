//! Faults of a link: probabilities, places, times and rates, all valid by construction.

use std::num::NonZeroU64;
use std::time::Duration;

/// Probability of an event for each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Probability {
    /// Out of 2^32.
    threshold: u64,
}

impl Probability {
    /// Happens to no frame.
    pub const NEVER: Self = Self { threshold: 0 };
    /// Happens to every frame.
    pub const ALWAYS: Self = Self { threshold: 1 << 32 };

    /// `chance` between 0 and 1, rounded to a multiple of 2^-32.
    ///
    /// # Errors
    /// [`ProbabilityError`] outside of 0..=1 and for NaN.
    pub fn new(chance: f64) -> Result<Self, ProbabilityError> {
        if (0.0..=1.0).contains(&chance) {
            Ok(Self {
                threshold: (chance * (1u64 << 32) as f64).round() as u64,
            })
        } else {
            Err(ProbabilityError { given: chance })
        }
    }

    /// `ppm` frames out of a million.
    ///
    /// # Errors
    /// [`ProbabilityError`] above a million.
    pub fn from_ppm(ppm: u32) -> Result<Self, ProbabilityError> {
        Self::new(f64::from(ppm) / 1e6)
    }

    /// Between 0 and 1.
    pub fn as_f64(self) -> f64 {
        self.threshold as f64 / (1u64 << 32) as f64
    }

    /// Tells whether it happens, for 32 uniform bits.
    pub(crate) const fn happens(self, draw: u32) -> bool {
        (draw as u64) < self.threshold
    }

    pub(super) const fn is_possible(self) -> bool {
        self.threshold > 0
    }
}

/// Not a probability.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{given} is not a probability; give a number between 0 and 1")]
pub struct ProbabilityError {
    /// Number that was given instead.
    pub given: f64,
}

/// Bytes in which bits are flipped.
///
/// The flipped bits of a frame are 1 to 3 neighbours. The Internet checksum notices every such change of what it covers;
/// ARP has no checksum, and believes what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Corrupt {
    /// Anywhere in the frame, the Ethernet header included (a frame that is damaged there is lost, as a rule).
    #[default]
    Anywhere,
    /// At this byte of the frame or behind it: 14 spares the Ethernet header, 66 hits only the payload of a TCP
    /// segment with timestamps. Shorter frames pass unharmed.
    From(u16),
}

/// Distance by which a frame falls back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reorder {
    /// Delay until this many later frames have passed, or until it was held for this long when no more come.
    Frames(u16, Duration),
    /// For this long, while later frames pass.
    Time(Duration),
}

impl Default for Reorder {
    fn default() -> Self {
        Self::Frames(3, Duration::from_millis(10))
    }
}

/// A line of limited speed with a queue in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Speed of the line in bits per second; the frame's own bytes count, no preamble or gap.
    pub bits_per_second: NonZeroU64,
    /// Bytes that wait for the line at most; what comes on top is dropped. An idle line takes any frame.
    pub queue: usize,
}

/// Faults that a link inflicts on frames. The default is none.
///
/// Each frame meets the faults in the order of the fields. A fault's decisions come from a random stream of its own, so
/// that switching one on does not change what another does to the n-th frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Bytes of the longest frame that passes, with its Ethernet header. Longer ones vanish without a word, as in a black hole of
    /// path MTU discovery (RFC 2923, 2.1).
    pub longest: Option<u16>,
    /// Frames that vanish.
    pub drop: Probability,
    /// Frames that lose bytes at their end: 1 byte to all but one, uniformly.
    pub truncate: Probability,
    /// Frames in which bits are flipped.
    pub corrupt: Probability,
    /// The bytes in which they are flipped.
    pub corrupt_at: Corrupt,
    /// Frames that come twice; the copy goes through everything below on its own.
    pub duplicate: Probability,
    /// Speed of the line.
    pub rate: Option<Rate>,
    /// Bytes that wait for the line from which on it marks ECN-capable IPv4 packets (CE, RFC 3168, 5). A full queue drops all the same.
    pub mark_from: Option<usize>,
    /// Time that every frame takes.
    pub delay: Duration,
    /// Additional time at most, distributed uniformly. Jitter alone never lets one frame overtake another.
    pub jitter: Duration,
    /// Frames that fall back behind later ones.
    pub reorder: Probability,
    /// Distance by which they fall back.
    pub reorder_by: Reorder,
    /// Frames that are held at the same time at most; what comes on top is dropped.
    pub limit: usize,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            longest: None,
            drop: Probability::NEVER,
            truncate: Probability::NEVER,
            corrupt: Probability::NEVER,
            corrupt_at: Corrupt::Anywhere,
            duplicate: Probability::NEVER,
            rate: None,
            mark_from: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            reorder: Probability::NEVER,
            reorder_by: Reorder::default(),
            limit: 1024,
        }
    }
}

impl Faults {
    /// Tells whether some frame's bytes may be changed.
    pub const fn damages(&self) -> bool {
        self.truncate.is_possible() || self.corrupt.is_possible()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_between_zero_and_one() {
        assert_eq!(Probability::new(0.0), Ok(Probability::NEVER));
        assert_eq!(Probability::new(1.0), Ok(Probability::ALWAYS));
        assert_eq!(Probability::from_ppm(1_000_000), Ok(Probability::ALWAYS));
        assert!((Probability::from_ppm(20_000).unwrap().as_f64() - 0.02).abs() < 1e-9);
        for bad in [-0.1, 1.1, f64::INFINITY] {
            assert_eq!(Probability::new(bad), Err(ProbabilityError { given: bad }));
        }
        assert!(Probability::new(f64::NAN).is_err());
        assert!(Probability::from_ppm(1_000_001).is_err());
    }

    #[test]
    fn never_and_always_mean_what_they_say() {
        assert!(!Probability::NEVER.happens(0));
        assert!(Probability::ALWAYS.happens(u32::MAX));
    }
}

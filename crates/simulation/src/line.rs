//! The line: its rate, queue, delay and loss.

use std::num::NonZeroU64;
use std::time::Duration;
use tollgate_link::fault::{Faults, Probability, Rate, Reorder};

/// A time in which a line holds everything back, both ways, and then goes on where it stood: a handover of a wireless link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When it begins, from the beginning of the transfer.
    pub at: Duration,
    /// Duration.
    pub lasts: Duration,
}

impl Stall {
    /// Time that has passed for the line when `since` has passed for the hosts.
    pub(crate) fn line_time(&self, since: Duration) -> Duration {
        since.min(self.at).max(since.saturating_sub(self.lasts))
    }

    /// Time that has passed for the hosts when `line` has passed for the line.
    pub(crate) fn host_time(&self, line: Duration) -> Duration {
        if line <= self.at {
            line
        } else {
            line + self.lasts
        }
    }
}

/// A line in both directions. Reordering meets data only, not its acknowledgments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Bits per second, Ethernet headers counted.
    pub bits_per_second: NonZeroU64,
    /// Time from one end to the other and back, beside what frames take to be sent and wait.
    pub round_trip: Duration,
    /// Bytes that wait in front of the line at most; a frame that finds no room is lost.
    pub queue: usize,
    /// Frames that are lost at random on the way from the sender.
    pub loss: Probability,
    /// Frames that are lost at random on the way back, acknowledgments as a rule.
    pub loss_back: Probability,
    /// Frames that fall back behind three later ones.
    pub reorder: Probability,
    /// A time without delivery.
    pub stall: Option<Stall>,
    /// Bytes that wait from which on ECN-capable packets are marked.
    pub mark_from: Option<usize>,
}

impl Line {
    /// A line without random loss whose queue holds what is on it: a bandwidth-delay product.
    pub fn new(bits_per_second: NonZeroU64, round_trip: Duration) -> Self {
        let line = Self {
            bits_per_second,
            round_trip,
            queue: 0,
            loss: Probability::NEVER,
            loss_back: Probability::NEVER,
            reorder: Probability::NEVER,
            stall: None,
            mark_from: None,
        };
        Self {
            queue: line.bandwidth_delay_product(),
            ..line
        }
    }

    /// Bytes that fill the line for a round trip.
    pub fn bandwidth_delay_product(&self) -> usize {
        let bits = u128::from(self.bits_per_second.get()) * self.round_trip.as_nanos();
        (bits / 8_000_000_000) as usize
    }

    /// Faults of the way from the sender.
    pub(crate) fn forth(&self, limit: usize) -> Faults {
        Faults {
            drop: self.loss,
            reorder: self.reorder,
            reorder_by: Reorder::default(),
            ..self.back(limit)
        }
    }

    /// Faults of the way to the sender.
    pub(crate) fn back(&self, limit: usize) -> Faults {
        Faults {
            rate: Some(Rate {
                bits_per_second: self.bits_per_second,
                queue: self.queue,
            }),
            drop: self.loss_back,
            mark_from: self.mark_from,
            delay: self.round_trip / 2,
            limit,
            ..Faults::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_is_a_bandwidth_delay_product_unless_set() {
        let rate = NonZeroU64::new(100_000_000).unwrap();
        let line = Line::new(rate, Duration::from_millis(20));
        assert_eq!(line.bandwidth_delay_product(), 250_000);
        assert_eq!(line.queue, 250_000);
    }

    #[test]
    fn line_stands_still_in_a_stall() {
        let ms = Duration::from_millis;
        let stall = Stall {
            at: ms(20),
            lasts: ms(10),
        };
        for (host, line) in [(5, 5), (20, 20), (25, 20), (30, 20), (31, 21)] {
            assert_eq!(stall.line_time(ms(host)), ms(line), "{host} ms");
        }
        for (line, host) in [(5, 5), (20, 20), (21, 31)] {
            assert_eq!(stall.host_time(ms(line)), ms(host), "{line} ms");
        }
    }
}

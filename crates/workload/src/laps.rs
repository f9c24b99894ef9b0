//! Laps of one slice: reads the clock and records the times in samples.

use tollgate_stats::{Samples, Timing};

use crate::clock::now_ns;
use crate::error::Error;

/// Takes the times of one slice: one reading of the clock ends one lap and starts the next.
#[derive(Debug)]
pub struct Laps {
    per_reading: u32,
    pending: u32,
    start: u64,
    last: u64,
}

impl Laps {
    /// Starts the slice now.
    ///
    /// # Errors
    /// [`Error::Timing`] when `samples` is timed otherwise than `timing`.
    pub fn start(timing: Timing, samples: &Samples) -> Result<Self, Error> {
        samples.check_timing(timing)?;
        let now = now_ns();
        Ok(Self {
            per_reading: timing.operations(),
            pending: 0,
            start: now,
            last: now,
        })
    }

    /// One operation has ended. The clock is read when the batch is full.
    #[inline]
    pub fn lap(&mut self, samples: &mut Samples) {
        self.pending += 1;
        if self.pending >= self.per_reading {
            self.read(samples);
        }
    }

    /// Leaves out the operation that has just ended, and with it those of its batch so far. Tells how many these are.
    #[cold]
    pub fn leave_out(&mut self) -> u64 {
        let now = now_ns();
        self.start += now - self.last;
        self.last = now;
        u64::from(std::mem::take(&mut self.pending)) + 1
    }

    /// Records operations that no full batch holds. Call it right after the last operation.
    pub fn flush(&mut self, samples: &mut Samples) {
        if self.pending > 0 {
            self.read(samples);
        }
    }

    /// Ends the slice, in which `bytes` user bytes were carried. The slice lasted until the last reading, or until now
    /// when `tail` says that something came after the last operation.
    pub fn finish(mut self, samples: &mut Samples, bytes: u64, tail: bool) {
        self.flush(samples);
        let end = if tail { now_ns() } else { self.last };
        samples.add_slice(bytes, end - self.start);
    }

    #[inline]
    fn read(&mut self, samples: &mut Samples) {
        let now = now_ns();
        samples.record(now - self.last, self.pending);
        self.last = now;
        self.pending = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laps_record_every_operation_even_when_the_last_batch_is_short() {
        let timing = Timing::Batch(4);
        let mut samples = Samples::new(timing);
        let mut laps = Laps::start(timing, &samples).unwrap();
        for _ in 0..10 {
            laps.lap(&mut samples);
        }
        laps.finish(&mut samples, 1234, false);
        assert_eq!(samples.operations(), 10);
        assert_eq!(samples.readings(), 3);
        assert_eq!(samples.bytes(), 1234);
        assert_eq!(u128::from(samples.elapsed_ns()), samples.sum_ns());
        assert!(Laps::start(Timing::Each, &samples).is_err());
    }

    #[test]
    fn laps_that_are_left_out_count_into_no_time() {
        let mut samples = Samples::new(Timing::Batch(4));
        let mut laps = Laps::start(Timing::Batch(4), &samples).unwrap();
        (0..6).for_each(|_| laps.lap(&mut samples));
        // Two of the second batch have ended, and this one.
        assert_eq!(laps.leave_out(), 3);
        (0..4).for_each(|_| laps.lap(&mut samples));
        laps.finish(&mut samples, 0, false);
        assert_eq!((samples.operations(), samples.readings()), (8, 2));
        assert_eq!(u128::from(samples.elapsed_ns()), samples.sum_ns());
    }
}

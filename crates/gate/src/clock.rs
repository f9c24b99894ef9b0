//! The clock: the invariant TSC where it can be trusted, else the monotonic raw clock, and what reading it costs.
//!
//! Nothing here guesses: [`Clock::source`] says which clock is read and, when it is not the TSC, why. The rate of the
//! TSC is measured against `CLOCK_MONOTONIC_RAW`, the bound on its error is kept, and so are the cost of a reading and
//! the step of the counter, measured at start. The module never prints them.

#[cfg(target_arch = "x86_64")]
mod tsc;

use std::hint::black_box;

use crate::ticks::{RateOutOfRange, TickScale, Ticks};

#[cfg(target_arch = "x86_64")]
use tsc::{calibrate as calibrate_tsc, trusted as trusted_tsc};

/// Source of the ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// The processor's time-stamp counter, which runs at the same rate in every power state.
    Tsc {
        /// Ticks per second, as calibrated.
        hz: u64,
    },
    /// `CLOCK_MONOTONIC_RAW`; a tick is a nanosecond.
    MonotonicRaw {
        /// The reason why the TSC is not used.
        reason: TscRefused,
    },
}

/// The reason why the TSC is not used.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum TscRefused {
    /// The processor has none that we know how to read.
    #[error("this processor's architecture has no TSC")]
    NoTsc,
    /// CPUID leaf 0x80000007, EDX bit 8, is clear.
    #[error("the TSC is not invariant (CPUID 0x80000007, EDX bit 8 is clear)")]
    NotInvariant,
    /// The kernel keeps time by another clock because it found the TSC unsteady, or was told so.
    #[error("the kernel does not trust the TSC: its clock source is {}", .0.name())]
    KernelDistrusts(KernelClock),
    /// The readings were too far apart to give a rate.
    #[error("the TSC's rate is known within {error_ppm:.0} ppm only")]
    Unsteady {
        /// The bound on the error of the rate, in millionths.
        error_ppm: f64,
    },
    /// The rate is that of no processor.
    #[error("the TSC's rate is implausible: {0}")]
    Rate(RateOutOfRange),
}

/// The clock source that the kernel uses, a second witness for the TSC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelClock {
    /// `tsc`.
    Tsc,
    /// `kvm-clock`, a scaled TSC.
    Kvm,
    /// `hyperv_clocksource_tsc_page`, a scaled TSC.
    HypervTscPage,
    /// Any other clock: `hpet`, `acpi_pm`, `jiffies`, `xen`...
    Other,
    /// `/sys` did not tell.
    Unreadable,
}

impl KernelClock {
    const PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

    /// The clock source in use.
    fn read() -> Self {
        std::fs::read_to_string(Self::PATH).map_or(Self::Unreadable, |text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        match text.trim() {
            "tsc" => Self::Tsc,
            "kvm-clock" => Self::Kvm,
            "hyperv_clocksource_tsc_page" => Self::HypervTscPage,
            "" => Self::Unreadable,
            _ => Self::Other,
        }
    }

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tsc => "tsc",
            Self::Kvm => "kvm-clock",
            Self::HypervTscPage => "hyperv_clocksource_tsc_page",
            Self::Other => "another clock",
            Self::Unreadable => "unreadable",
        }
    }

    /// Tells whether the kernel speaks against the TSC. A witness that cannot be read says nothing.
    pub const fn speaks_against_tsc(self) -> bool {
        matches!(self, Self::Other)
    }
}

/// The rate of the TSC as one process has calibrated it, for another that reads the same counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TscRate {
    /// Ticks per second.
    pub hz: u64,
    /// The bound on the error of the rate, in millionths.
    pub error_ppm: f64,
}

/// Cost of one reading of the clock, the median of many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadCost {
    /// Nanoseconds for [`Clock::now`].
    pub plain_ns: f64,
    /// Nanoseconds for [`Clock::now_ordered`].
    pub ordered_ns: f64,
}

/// A calibrated clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    source: Source,
    scale: TickScale,
    error_ppm: f64,
    kernel: KernelClock,
    cost: ReadCost,
    resolution_ns: f64,
}

impl Clock {
    /// Finds the best clock of this machine, calibrates it and measures what it costs. Takes about 20 ms.
    pub fn calibrate() -> Self {
        Self::at_rate_of(calibrate_tsc)
    }

    /// The clock of a process whose parent has calibrated it: reads the TSC at this rate where it can be trusted here too.
    /// Takes about 1 ms.
    pub fn with_rate(rate: TscRate) -> Self {
        Self::at_rate_of(|kernel| trusted_tsc(kernel).map(|()| rate))
    }

    fn at_rate_of(tsc: impl FnOnce(KernelClock) -> Result<TscRate, TscRefused>) -> Self {
        let kernel = KernelClock::read();
        let scaled = tsc(kernel).and_then(|rate| {
            let scale = TickScale::from_hz(rate.hz).map_err(TscRefused::Rate)?;
            Ok((scale, rate.error_ppm))
        });
        let (source, scale, error_ppm) = match scaled {
            Ok((scale, error_ppm)) => (Source::Tsc { hz: scale.hz() }, scale, error_ppm),
            Err(reason) => (Source::MonotonicRaw { reason }, TickScale::NANOSECONDS, 0.0),
        };
        let mut clock = Self {
            source,
            scale,
            error_ppm,
            kernel,
            cost: ReadCost {
                plain_ns: 0.0,
                ordered_ns: 0.0,
            },
            resolution_ns: 0.0,
        };
        clock.cost = ReadCost {
            plain_ns: clock.cost_of(Self::now),
            ordered_ns: clock.cost_of(Self::now_ordered),
        };
        clock.resolution_ns = clock.measure_resolution();
        clock
    }

    /// The clock that is read.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The rate of the TSC; none of another clock.
    pub fn rate(&self) -> Option<TscRate> {
        match self.source {
            Source::Tsc { hz } => Some(TscRate {
                hz,
                error_ppm: self.error_ppm,
            }),
            Source::MonotonicRaw { .. } => None,
        }
    }

    /// The bound on the error of the rate against `CLOCK_MONOTONIC_RAW`, in millionths; 0 when that clock is read
    /// itself.
    pub fn error_ppm(&self) -> f64 {
        self.error_ppm
    }

    /// The clock source that the kernel uses.
    pub fn kernel_clock(&self) -> KernelClock {
        self.kernel
    }

    /// Cost of a reading.
    pub fn cost_ns(&self) -> ReadCost {
        self.cost
    }

    /// The step of the counter in nanoseconds, which can be far more than a tick: AMD's counter of 2.6 GHz moves by 26
    /// ticks at a time. A single span is known within one step; the mean of many is known better, because they begin at
    /// any point of a step.
    pub fn resolution_ns(&self) -> f64 {
        self.resolution_ns
    }

    /// The conversion of this clock's ticks, for ledgers that are made elsewhere.
    pub fn scale(&self) -> TickScale {
        self.scale
    }

    /// Now. The processor may take the reading earlier or later than the neighbouring instructions, by as many as it
    /// has in flight (some tens of nanoseconds).
    #[inline(always)]
    pub fn now(&self) -> Ticks {
        #[cfg(target_arch = "x86_64")]
        if matches!(self.source, Source::Tsc { .. }) {
            return tsc::read();
        }
        monotonic_raw()
    }

    /// Now, after all that stands before and before all that stands after: `lfence; rdtsc; lfence` (Intel SDM volume 2,
    /// RDTSC). Costs more and drains the pipeline, so it slows the code that it measures. A store may still be on its
    /// way to memory.
    #[inline(always)]
    pub fn now_ordered(&self) -> Ticks {
        #[cfg(target_arch = "x86_64")]
        if matches!(self.source, Source::Tsc { .. }) {
            return tsc::read_ordered();
        }
        monotonic_raw()
    }

    /// Nanoseconds from the clock's zero to `ticks`.
    #[inline]
    pub fn to_ns(&self, ticks: Ticks) -> u64 {
        self.scale.to_ns(ticks)
    }

    /// Nanoseconds from one point to another, with fractions.
    #[inline]
    pub fn ns_between(&self, from: Ticks, to: Ticks) -> f64 {
        self.scale.ns_between(from, to)
    }

    fn cost_of(&self, read: impl Fn(&Self) -> Ticks) -> f64 {
        const BATCHES: usize = 201;
        const READS: u32 = 64;
        let mut batches: Vec<f64> = (0..BATCHES)
            .map(|_| {
                let begin = read(self);
                let mut end = begin;
                for _ in 0..READS {
                    end = black_box(read(self));
                }
                self.ns_between(begin, end) / f64::from(READS)
            })
            .collect();
        batches.sort_by(f64::total_cmp);
        batches[BATCHES / 2]
    }

    fn measure_resolution(&self) -> f64 {
        // The work between two readings varies, so that a constant cost of reading does not pass for a step.
        let readings: Vec<Ticks> = (0..1_024u32)
            .map(|i| {
                for work in 0..i % 61 {
                    black_box(work);
                }
                self.now_ordered()
            })
            .collect();
        self.ns_between(Ticks(0), Ticks(step(&readings)))
    }
}

/// The largest number of ticks, up to 1,024, of which at least 95 in 100 of the differences between successive readings
/// are multiples; 0 when no two readings differ.
///
/// Not their greatest common divisor: some processors add a tick to tell two readings within one step apart.
fn step(readings: &[Ticks]) -> u64 {
    let differences: Vec<u64> = readings
        .windows(2)
        .map(|pair| pair[1].0.saturating_sub(pair[0].0))
        .filter(|&difference| difference > 0)
        .collect();
    if differences.is_empty() {
        return 0;
    }
    let fits = |step: &u64| {
        let multiples = differences
            .iter()
            .filter(|&difference| difference % step == 0)
            .count();
        multiples * 100 >= differences.len() * 95
    };
    (1..=1_024).rev().find(fits).unwrap_or(1)
}

#[cfg(not(target_arch = "x86_64"))]
fn calibrate_tsc(_kernel: KernelClock) -> Result<TscRate, TscRefused> {
    Err(TscRefused::NoTsc)
}

#[cfg(not(target_arch = "x86_64"))]
fn trusted_tsc(_kernel: KernelClock) -> Result<(), TscRefused> {
    Err(TscRefused::NoTsc)
}

/// `CLOCK_MONOTONIC_RAW` in nanoseconds, which is what its ticks are.
#[inline]
fn monotonic_raw() -> Ticks {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that lives through the call. The call fails only for a clock that the kernel does
    // not have, and every Linux since 2.6.28 has this one; the value would then stay zero.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    debug_assert_eq!(status, 0);
    Ticks(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_of_another_process_gives_the_same_clock() {
        let clock = Clock::calibrate();
        let Some(rate) = clock.rate() else {
            assert!(matches!(clock.source(), Source::MonotonicRaw { .. }));
            return;
        };
        let other = Clock::with_rate(rate);
        assert_eq!((other.rate(), other.scale()), (Some(rate), clock.scale()));
        let slow = Clock::with_rate(TscRate { hz: 1, ..rate });
        let refused = TscRefused::Rate(RateOutOfRange { hz: 1 });
        assert_eq!(slow.source(), Source::MonotonicRaw { reason: refused });
    }

    #[test]
    fn calibration_gives_a_usable_clock() {
        let clock = Clock::calibrate();
        match clock.source() {
            Source::Tsc { hz } => {
                assert!((200_000_000..=10_000_000_000).contains(&hz), "{hz} Hz");
                assert!(clock.error_ppm() > 0.0 && clock.error_ppm() <= 100.0);
                assert_eq!(clock.scale().hz(), hz);
            }
            Source::MonotonicRaw { reason } => {
                assert_eq!(clock.scale(), TickScale::NANOSECONDS);
                assert!(!reason.to_string().is_empty());
            }
        }
        assert!(clock.cost_ns().plain_ns > 0.0 && clock.cost_ns().ordered_ns > 0.0);
        assert!(clock.resolution_ns() > 0.0);
    }

    #[test]
    fn ordered_readings_on_one_thread_do_not_go_back() {
        let clock = Clock::calibrate();
        let mut last = clock.now_ordered();
        for _ in 0..1_000 {
            let now = clock.now_ordered();
            assert!(now.since(last) >= 0);
            last = now;
        }
    }

    #[test]
    fn the_kernels_clock_source_is_recognised() {
        assert_eq!(KernelClock::parse("tsc\n"), KernelClock::Tsc);
        assert_eq!(KernelClock::parse("kvm-clock"), KernelClock::Kvm);
        assert_eq!(
            KernelClock::parse("hyperv_clocksource_tsc_page\n"),
            KernelClock::HypervTscPage
        );
        assert_eq!(KernelClock::parse("hpet\n"), KernelClock::Other);
        assert_eq!(KernelClock::parse("\n"), KernelClock::Unreadable);
        assert!(KernelClock::parse("acpi_pm").speaks_against_tsc());
        assert!(!KernelClock::Unreadable.speaks_against_tsc());
    }

    #[test]
    fn the_step_is_what_nearly_all_differences_are_multiples_of() {
        let mut now = 1_000;
        let mut readings: Vec<Ticks> = (0..100u64)
            .map(|i| {
                now += 26 * (1 + i % 7);
                Ticks(now)
            })
            .collect();
        assert_eq!(step(&readings), 26);
        readings[40].0 += 1;
        assert_eq!(step(&readings), 26);
        readings
            .iter_mut()
            .step_by(3)
            .for_each(|reading| reading.0 += 1);
        assert_eq!(step(&readings), 1);
        assert_eq!(step(&[Ticks(5), Ticks(5)]), 0);
        assert_eq!(step(&[]), 0);
    }
}

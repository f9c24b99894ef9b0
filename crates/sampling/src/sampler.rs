//! The sampler: its events and one ring for each processor that is watched.
//!
//! An event is the processor's cycle counter where there is one, and the kernel's clock for each processor (`cpu-clock`)
//! where there is none, as in most virtual machines. It samples whatever runs on the processor, so the kernel's work in
//! interrupts is seen; whose it is is kept with each sample. Everything is given back when the sampler is dropped.
//!
//! `cpu-clock` is two timers that never keep step with each other, see [`periods_ns`]: a single one keeps step with what it
//! watches.

use std::f64::consts::GOLDEN_RATIO;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use perf_event_open_sys as sys;
use perf_event_open_sys::bindings;

use super::call_paths::{CallPaths, Key, Mode, Profile, TaskKind};
use super::record::{Record, Records, SAMPLE_TYPE};
use super::ring::Ring;

/// Samples per second and processor.
pub const RATE: u32 = 20_000;
/// Bytes of records for each processor: some 30,000 samples with 30 callers.
pub const RING: usize = 8 << 20;
const NANOSECONDS: u64 = 1_000_000_000;
/// Bytes that a sample takes in the ring, with 30 callers.
const SAMPLE_BYTES: usize = 280;

/// The reason why there is no sampler.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The kernel does not let this process watch processors.
    #[error(
        "the kernel does not let this process sample a processor ({source}; kernel.perf_event_paranoid is {paranoid}); run as \
         root, or have root run: sysctl kernel.perf_event_paranoid=-1"
    )]
    Denied {
        /// The value of `kernel.perf_event_paranoid`, or `unknown`.
        paranoid: String,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The kernel has no such event, or the processor is offline.
    #[error("sampling processor {cpu}: {doing}: {source}")]
    System {
        /// The processor.
        cpu: usize,
        /// Step that failed.
        doing: &'static str,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

/// Clock that drives the samples, and so the unit of their weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The processor's cycle counter: weights are cycles.
    Cycles,
    /// The kernel's timer: weights are ns.
    CpuClock,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cycles => "the cycle counter",
            Self::CpuClock => "cpu-clock",
        })
    }
}

struct Watched {
    cpu: usize,
    /// All write into the ring, which is that of the first.
    events: Vec<OwnedFd>,
    ring: Ring,
}

/// Samples what given processors do.
pub struct Sampler {
    watched: Vec<Watched>,
    clock: Clock,
    rate: u32,
    process: u32,
    /// Tells whether samples name all processes. In a process namespace of its own those outside of it have the number 0, as the
    /// idle task has (`perf_event_pid_type` of the kernel).
    names_all: bool,
    bytes: Vec<u8>,
}

/// The process namespace in which all processes have a number; `PROC_PID_INIT_INO` of linux/proc_ns.h.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

impl Sampler {
    /// Watches these processors, `rate` times a second each; the workload is this process. It does not sample before
    /// [`Sampler::start`].
    ///
    /// # Errors
    /// [`SampleError`].
    pub fn open(cpus: &[usize], rate: u32) -> Result<Self, SampleError> {
        match Self::open_with(Clock::Cycles, cpus, rate, RING) {
            // No counters, or not for us: the timer has no such limits.
            Err(SampleError::System { .. }) => Self::open_with(Clock::CpuClock, cpus, rate, RING),
            opened => opened,
        }
    }

    /// Like [`Sampler::open`], with this clock and no other, and rings of `ring` bytes where the kernel allows it.
    ///
    /// # Errors
    /// [`SampleError`].
    pub fn open_with(
        clock: Clock,
        cpus: &[usize],
        rate: u32,
        ring: usize,
    ) -> Result<Self, SampleError> {
        let mut cpus = cpus.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        let mut watched = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            watched.push(watch(cpu, clock, rate, ring)?);
        }
        Ok(Self {
            watched,
            clock,
            rate,
            process: std::process::id(),
            names_all: std::fs::metadata("/proc/self/ns/pid")
                .map_or(true, |file| file.ino() == FIRST_NAMESPACE),
            bytes: Vec::new(),
        })
    }

    /// Clock that drives the samples.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Samples per second and processor that were asked for.
    #[must_use]
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Time that it may run before its rings are drained, in seconds: until half of the smallest is full.
    #[must_use]
    pub fn longest_s(&self) -> f64 {
        let smallest = self
            .watched
            .iter()
            .map(|one| one.ring.capacity())
            .min()
            .unwrap_or(0);
        smallest as f64 / 2.0 / SAMPLE_BYTES as f64 / f64::from(self.rate)
    }

    /// Begins to sample.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn start(&self) -> Result<(), SampleError> {
        self.each("starting", |fd| {
            // SAFETY: the descriptor is that of an open event, and the request takes no pointer.
            unsafe { sys::ioctls::ENABLE(fd, 0) }
        })
    }

    /// Stops to sample.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn stop(&self) -> Result<(), SampleError> {
        self.each("stopping", |fd| {
            // SAFETY: the descriptor is that of an open event, and the request takes no pointer.
            unsafe { sys::ioctls::DISABLE(fd, 0) }
        })
    }

    fn each(&self, doing: &'static str, call: impl Fn(i32) -> i32) -> Result<(), SampleError> {
        for one in &self.watched {
            for event in &one.events {
                check(one.cpu, doing, call(event.as_raw_fd()))?;
            }
        }
        Ok(())
    }

    /// Adds all samples since the last call to `profile`.
    pub fn drain(&mut self, call_paths: &mut CallPaths, profile: &mut Profile) {
        let stands_for = |period| match self.clock {
            Clock::Cycles => period,
            // Both timers see all of the time, each at its own rate, so a sample of either stands for the same.
            Clock::CpuClock => NANOSECONDS / u64::from(self.rate.max(1)),
        };
        for one in &mut self.watched {
            self.bytes.clear();
            one.ring.take(&mut self.bytes);
            for record in Records::new(&self.bytes) {
                match record {
                    Record::Sample {
                        pid,
                        kernel,
                        period,
                        chain,
                    } => {
                        let path = call_paths.enter(&chain);
                        let task = match pid {
                            0 if self.names_all || call_paths.is_idle(path) => TaskKind::Idle,
                            pid if pid == self.process => TaskKind::Workload,
                            _ => TaskKind::Other,
                        };
                        let mode = if kernel { Mode::Kernel } else { Mode::User };
                        let key = Key {
                            path,
                            task,
                            mode,
                            cpu: one.cpu as u32,
                        };
                        profile.add(key, stands_for(period));
                    }
                    Record::Lost(samples) => profile.lost += samples,
                    Record::Throttled => profile.throttled += 1,
                    Record::Malformed => profile.malformed += 1,
                    Record::Other => {}
                }
            }
        }
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<usize> = self.watched.iter().map(|one| one.cpu).collect();
        f.debug_struct("Sampler")
            .field("cpus", &cpus)
            .field("clock", &self.clock)
            .field("rate", &self.rate)
            .finish_non_exhaustive()
    }
}

/// Rate or period by which one event samples.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// Cycles, so that it comes to about this many samples a second.
    Cycles { rate: u32 },
    /// Time on the processor.
    Every { period_ns: u64 },
}

/// The periods of the two timers that together sample `rate` times a second, in ns.
///
/// The sampled work repeats itself every few microseconds, and a timer's interrupt holds it up for as long as the
/// interrupt takes. So a timer with one period falls into step with it. Echoes whose system functions take 48 % of
/// the time, as samples that are far apart agree, had 25 or 58 % from one slice to the next with a timer of 20 kHz,
/// and 34 % on average. Two timers leave all times up to the shorter period between two samples. Their periods are as
/// 1 to the golden ratio, which is further from every ratio of small integers than any other number. So they do not
/// fall into step with each other or with the kernel's ticks.
fn periods_ns(rate: u32) -> [u64; 2] {
    // 1 / g + 1 / g^2 = 1: the rates of both make the whole.
    let period = |times: f64| (times * NANOSECONDS as f64 / f64::from(rate.max(1))) as u64;
    [period(GOLDEN_RATIO), period(GOLDEN_RATIO * GOLDEN_RATIO)]
}

fn watch(cpu: usize, clock: Clock, rate: u32, ring: usize) -> Result<Watched, SampleError> {
    let first = |pace| -> Result<(OwnedFd, Ring), SampleError> {
        let event = open_event(pace, cpu)?;
        let ring = Ring::map(&event, ring).map_err(|source| SampleError::System {
            cpu,
            doing: "mapping the ring (see kernel.perf_event_mlock_kb)",
            source,
        })?;
        Ok((event, ring))
    };
    let (events, ring) = match clock {
        Clock::Cycles => {
            let (event, ring) = first(Pace::Cycles { rate })?;
            (vec![event], ring)
        }
        Clock::CpuClock => {
            let [short, long] = periods_ns(rate);
            let (event, ring) = first(Pace::Every { period_ns: short })?;
            let other = open_event(Pace::Every { period_ns: long }, cpu)?;
            // SAFETY: both descriptors are those of open events, and the request takes no pointer.
            let joined = unsafe { sys::ioctls::SET_OUTPUT(other.as_raw_fd(), event.as_raw_fd()) };
            check(cpu, "joining two events in one ring", joined)?;
            (vec![event, other], ring)
        }
    };
    Ok(Watched { cpu, events, ring })
}

/// Checks the result of a request to an event of this processor.
fn check(cpu: usize, doing: &'static str, returned: i32) -> Result<(), SampleError> {
    if returned < 0 {
        return Err(SampleError::System {
            cpu,
            doing,
            source: io::Error::last_os_error(),
        });
    }
    Ok(())
}

fn open_event(pace: Pace, cpu: usize) -> Result<OwnedFd, SampleError> {
    let mut attributes = bindings::perf_event_attr {
        size: size_of::<bindings::perf_event_attr>() as u32,
        sample_type: SAMPLE_TYPE,
        ..bindings::perf_event_attr::default()
    };
    attributes.set_disabled(1);
    attributes.set_exclude_callchain_user(1);
    match pace {
        Pace::Cycles { rate } => {
            attributes.type_ = bindings::PERF_TYPE_HARDWARE;
            attributes.config = u64::from(bindings::PERF_COUNT_HW_CPU_CYCLES);
            attributes.set_freq(1);
            attributes.__bindgen_anon_1.sample_freq = u64::from(rate);
        }
        Pace::Every { period_ns } => {
            attributes.type_ = bindings::PERF_TYPE_SOFTWARE;
            attributes.config = u64::from(bindings::PERF_COUNT_SW_CPU_CLOCK);
            attributes.__bindgen_anon_1.sample_period = period_ns;
        }
    }
    let flags = u64::from(bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attributes are whole, of the size that they give, and live during the call.
    let fd = unsafe { sys::perf_event_open(&raw mut attributes, -1, cpu as i32, -1, flags) };
    if fd < 0 {
        let source = io::Error::last_os_error();
        return Err(match source.kind() {
            io::ErrorKind::PermissionDenied => SampleError::Denied {
                paranoid: std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
                    .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
                source,
            },
            _ => SampleError::System {
                cpu,
                doing: "opening the event",
                source,
            },
        });
    }
    // SAFETY: the call has just made this descriptor, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_timers_together_sample_as_often_as_asked() {
        for rate in [1, 1_000, RATE, 40_000] {
            let [short, long] = periods_ns(rate).map(|period| period as f64);
            let both = NANOSECONDS as f64 * (1.0 / short + 1.0 / long);
            assert!((both / f64::from(rate) - 1.0).abs() < 1e-4, "{both}");
            assert!((long / short - GOLDEN_RATIO).abs() < 1e-3);
        }
        assert!(periods_ns(0)[0] > NANOSECONDS);
    }
}

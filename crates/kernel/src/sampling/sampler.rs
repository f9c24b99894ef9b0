//! The sampler: one event and one ring for each processor that is watched.
//!
//! The event is the processor's cycle counter where there is one, and the kernel's clock for each processor (`cpu-clock`)
//! where there is none, as in most virtual machines. It samples whatever runs on the processor, so the kernel's work in
//! interrupts is seen; whose it is is kept with each sample. Everything is given back when the sampler is dropped.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf_event_open_sys as sys;
use perf_event_open_sys::bindings;

use super::book::{Book, Key, Mode, Owner, Profile};
use super::record::{Record, Records, SAMPLE_TYPE};
use super::ring::Ring;

/// Samples per second and processor.
pub const RATE: u32 = 20_000;
/// Bytes of records for each processor: some 30,000 samples with 30 callers.
pub const RING: usize = 8 << 20;
/// Bytes that a sample takes in the ring, with 30 callers.
const SAMPLE_BYTES: usize = 280;

/// Why there is no sampler.
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
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The kernel has no such event, or the processor is offline.
    #[error("sampling processor {cpu}: {doing}: {source}")]
    System {
        /// The processor.
        cpu: usize,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What drives the samples, and so what their weight counts.
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
    event: OwnedFd,
    ring: Ring,
}

/// Samples what given processors do.
pub struct Sampler {
    watched: Vec<Watched>,
    clock: Clock,
    rate: u32,
    process: u32,
    bytes: Vec<u8>,
}

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

    /// As [`Sampler::open`], with this clock and no other, and rings of `ring` bytes where the kernel allows it.
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
            let event = open_event(clock, cpu, rate)?;
            let ring = Ring::map(&event, ring).map_err(|source| SampleError::System {
                cpu,
                doing: "mapping the ring (see kernel.perf_event_mlock_kb)",
                source,
            })?;
            watched.push(Watched { cpu, event, ring });
        }
        Ok(Self {
            watched,
            clock,
            rate,
            process: std::process::id(),
            bytes: Vec::new(),
        })
    }

    /// What drives the samples.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Samples per second and processor that were asked for.
    #[must_use]
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// How long it may run before its rings are drained, in seconds: until half of the smallest is full.
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
    /// What the system says.
    pub fn start(&self) -> Result<(), SampleError> {
        self.each("starting", |fd| {
            // SAFETY: the descriptor is that of an open event, and the request takes no pointer.
            unsafe { sys::ioctls::ENABLE(fd, 0) }
        })
    }

    /// Stops to sample.
    ///
    /// # Errors
    /// What the system says.
    pub fn stop(&self) -> Result<(), SampleError> {
        self.each("stopping", |fd| {
            // SAFETY: the descriptor is that of an open event, and the request takes no pointer.
            unsafe { sys::ioctls::DISABLE(fd, 0) }
        })
    }

    fn each(&self, doing: &'static str, call: impl Fn(i32) -> i32) -> Result<(), SampleError> {
        for one in &self.watched {
            if call(one.event.as_raw_fd()) < 0 {
                return Err(SampleError::System {
                    cpu: one.cpu,
                    doing,
                    source: io::Error::last_os_error(),
                });
            }
        }
        Ok(())
    }

    /// Adds all samples since the last call to `profile`.
    pub fn drain(&mut self, book: &mut Book, profile: &mut Profile) {
        for one in &mut self.watched {
            self.bytes.clear();
            one.ring.take(&mut self.bytes);
            for record in Records::new(&self.bytes) {
                match record {
                    Record::Sample {
                        pid,
                        kernel,
                        weight,
                        chain,
                    } => {
                        let owner = match pid {
                            0 => Owner::Idle,
                            pid if pid == self.process => Owner::Workload,
                            _ => Owner::Other,
                        };
                        let mode = if kernel { Mode::Kernel } else { Mode::User };
                        let key = Key {
                            path: book.enter(&chain),
                            owner,
                            mode,
                            cpu: one.cpu as u32,
                        };
                        profile.add(key, weight);
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

/// The time between two samples: a little longer than asked for, so that samples do not keep step with the kernel's ticks and
/// see the same part of what ticks bring about.
fn period_ns(rate: u32) -> u64 {
    const NANOSECONDS: u64 = 1_000_000_000;
    NANOSECONDS * 1_003 / 1_000 / u64::from(rate.max(1))
}

fn open_event(clock: Clock, cpu: usize, rate: u32) -> Result<OwnedFd, SampleError> {
    let mut attributes = bindings::perf_event_attr {
        size: size_of::<bindings::perf_event_attr>() as u32,
        sample_type: SAMPLE_TYPE,
        ..bindings::perf_event_attr::default()
    };
    attributes.set_disabled(1);
    attributes.set_exclude_callchain_user(1);
    match clock {
        Clock::Cycles => {
            attributes.type_ = bindings::PERF_TYPE_HARDWARE;
            attributes.config = u64::from(bindings::PERF_COUNT_HW_CPU_CYCLES);
            attributes.set_freq(1);
            attributes.__bindgen_anon_1.sample_freq = u64::from(rate);
        }
        Clock::CpuClock => {
            attributes.type_ = bindings::PERF_TYPE_SOFTWARE;
            attributes.config = u64::from(bindings::PERF_COUNT_SW_CPU_CLOCK);
            attributes.__bindgen_anon_1.sample_period = period_ns(rate);
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

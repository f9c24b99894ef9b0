//! Cores of the two ends, pinning threads to them, and how threads that share one take turns.
//!
//! The choice keeps to the process's affinity mask, so `taskset` decides. Two cores are two physical cores where the mask
//! has them: hyperthreads of one core share its units, which would measure something else.

use std::cell::RefCell;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tollgate_run::Placement;

use crate::error::Error;

/// Task of [`still_pinned`], for errors.
pub(crate) const KEEPING: &str = "keeping a thread on its processor";

/// The CPUs of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// The CPU of the end that is timed: the client, the sender.
    pub client: usize,
    /// The CPU of the other end.
    pub server: usize,
    /// Tells whether the two CPUs are hyperthreads of one core.
    pub siblings: bool,
}

impl Cores {
    /// Chooses among the CPUs that the calling thread may run on.
    ///
    /// # Errors
    /// [`Error::Cores`] when two are needed and one is allowed, or when the mask cannot be read.
    pub fn choose(placement: Placement) -> Result<Self, Error> {
        let mask = sched_getaffinity(None).map_err(|_| Error::Cores { allowed: 0 })?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|&cpu| mask.is_set(cpu))
            .collect();
        Self::choose_among(placement, &allowed, siblings_of)
    }

    fn choose_among(
        placement: Placement,
        allowed: &[usize],
        siblings_of: impl Fn(usize) -> Vec<usize>,
    ) -> Result<Self, Error> {
        let too_few = Error::Cores {
            allowed: allowed.len(),
        };
        let Some((&client, others)) = allowed.split_first() else {
            return Err(too_few);
        };
        match placement {
            Placement::OneCore => Ok(Self {
                client,
                server: client,
                siblings: false,
            }),
            Placement::TwoCores => {
                let siblings = siblings_of(client);
                let apart = others.iter().copied().find(|cpu| !siblings.contains(cpu));
                match (apart, others.first()) {
                    (Some(server), _) => Ok(Self {
                        client,
                        server,
                        siblings: false,
                    }),
                    (None, Some(&server)) => Ok(Self {
                        client,
                        server,
                        siblings: true,
                    }),
                    (None, None) => Err(too_few),
                }
            }
        }
    }

    /// The choice in words, for the settings of a session.
    pub fn describe(&self) -> String {
        if self.client == self.server {
            format!("{}", self.client)
        } else if self.siblings {
            format!(
                "{} and {} (hyperthreads of one core)",
                self.client, self.server
            )
        } else {
            format!("{} and {}", self.client, self.server)
        }
    }
}

/// The CPUs that share a core with `cpu`, itself included; empty when the system does not tell.
fn siblings_of(cpu: usize) -> Vec<usize> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(file)
        .map(|text| parse_list(&text))
        .unwrap_or_default()
}

/// Reads a list of CPUs such as `0-1,4` (the kernel's format in sysfs). Parts that are no numbers are left out.
fn parse_list(text: &str) -> Vec<usize> {
    text.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((
                first.trim().parse::<usize>().ok()?,
                last.trim().parse::<usize>().ok()?,
            ))
        })
        .flat_map(|(first, last)| first..=last.min(CpuSet::MAX_CPU))
        .collect()
}

/// Pins the calling thread to one CPU for good.
///
/// # Errors
/// The error of the system; a CPU that is offline is named as such.
pub fn pin(cpu: usize) -> io::Result<()> {
    let set = only(cpu).ok_or(Errno::INVAL)?;
    sched_setaffinity(None, &set).map_err(|error| match error {
        Errno::INVAL => gone(cpu),
        error => error.into(),
    })
}

/// Refuses when the calling thread, which was pinned to this CPU, is so no longer: the kernel moves the threads of a CPU that goes
/// offline to others, and forgets that they were pinned. What it measured since is not what was asked for.
///
/// # Errors
/// That the CPU was taken away, or what the system says.
pub fn still_pinned(cpu: usize) -> io::Result<()> {
    let now = sched_getaffinity(None)?;
    if only(cpu).is_some_and(|set| set == now) {
        Ok(())
    } else {
        Err(gone(cpu))
    }
}

fn only(cpu: usize) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    (cpu < CpuSet::MAX_CPU).then(|| {
        set.set(cpu);
        set
    })
}

fn gone(cpu: usize) -> io::Error {
    io::Error::other(format!(
        "processor {cpu} was taken away from this end (offline, or out of its cpuset), so it runs elsewhere; bring it back (echo 1 > \
         /sys/devices/system/cpu/cpu{cpu}/online) and run again, or use one core"
    ))
}

/// The guards of a thread that are held, and the mask that it had before the first.
#[derive(Debug, Default)]
struct Held {
    /// CPUs by the numbers of their guards, in the order of pinning.
    guards: Vec<(u64, usize)>,
    next: u64,
    before: Option<CpuSet>,
}

thread_local! {
    static HELD: RefCell<Held> = RefCell::default();
}

/// Pins the calling thread to one CPU until it is dropped. Guards may be dropped in any order: the thread is where the last one of
/// those that are left has pinned it, and after all of them where it was before the first.
#[derive(Debug)]
pub struct Pinned {
    number: u64,
    // The mask belongs to the thread that was pinned.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Pinned {
    /// Pins the calling thread.
    ///
    /// # Errors
    /// The error of the system.
    pub fn to(cpu: usize) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        pin(cpu)?;
        let number = HELD.with_borrow_mut(|held| {
            if held.guards.is_empty() {
                held.before = Some(before);
            }
            held.next += 1;
            held.guards.push((held.next, cpu));
            held.next
        });
        Ok(Self {
            number,
            _not_send: std::marker::PhantomData,
        })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mask = HELD.with_borrow_mut(|held| {
            held.guards.retain(|(number, _)| *number != self.number);
            match held.guards.last() {
                Some((_, cpu)) => only(*cpu),
                None => held.before.take(),
            }
        });
        if let Some(mask) = mask {
            // The mask was valid before; if its CPUs have gone since, the thread stays where it is.
            let _ = sched_setaffinity(None, &mask);
        }
    }
}

/// Runs the calling thread, and the threads that it starts meanwhile, by SCHED_FIFO (sched(7)) until it is dropped: a thread that is
/// woken does not preempt another of these. Of two ends on one core each then works while the other sleeps. Otherwise the scheduler
/// decides by the time that each has used, and a known delay at one end changes what it decides.
///
/// Threads that were started meanwhile stay what they are. SCHED_BATCH keeps threads from preempting as well, but not where others
/// wait for the same core.
#[derive(Debug)]
pub struct Fifo {
    /// The policy that the thread had; none where it was one of real time.
    before: Option<libc::c_int>,
    // The policy belongs to the thread that was changed.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Fifo {
    /// Changes the calling thread.
    ///
    /// # Errors
    /// The error of the system: it takes CAP_SYS_NICE.
    pub fn begin() -> io::Result<Self> {
        let before = policy()?;
        let is_real_time = matches!(before, libc::SCHED_FIFO | libc::SCHED_RR);
        if !is_real_time {
            set_policy(libc::SCHED_FIFO, 1)?;
        }
        Ok(Self {
            before: (!is_real_time).then_some(before),
            _not_send: std::marker::PhantomData,
        })
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // A thread may always give real time up.
            let _ = set_policy(before, 0);
        }
    }
}

/// The policy of the calling thread.
#[expect(unsafe_code)]
fn policy() -> io::Result<libc::c_int> {
    // SAFETY: the call takes no pointer.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    match libc::c_int::try_from(policy) {
        Ok(policy) if policy >= 0 => Ok(policy),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the policy of the calling thread. By the kernel's call, since musl has none.
#[expect(unsafe_code)]
fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let priority = &raw const priority;
    // SAFETY: a `sched_param` is this one number, which the call reads.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifo_is_inherited_and_ends_with_the_guard() {
        let before = policy().unwrap();
        {
            let _fifo = match Fifo::begin() {
                Ok(fifo) => fifo,
                Err(reason) => return tollgate_skip::skipped!("{reason}"),
            };
            let of_thread = std::thread::spawn(|| policy().unwrap()).join().unwrap();
            assert_eq!([policy().unwrap(), of_thread], [libc::SCHED_FIFO; 2]);
            // One within another ends nothing.
            drop(Fifo::begin().unwrap());
            assert_eq!(policy().unwrap(), libc::SCHED_FIFO);
        }
        assert_eq!(policy().unwrap(), before);
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(parse_list("0\n"), [0]);
        assert_eq!(parse_list("0-2,7\n"), [0, 1, 2, 7]);
        assert_eq!(parse_list(""), [] as [usize; 0]);
        assert_eq!(parse_list("x,3"), [3]);
    }

    #[test]
    fn two_cores_are_physical_ones_where_there_are_two() {
        let pairs = |cpu: usize| vec![cpu & !1, cpu | 1];
        let cores = Cores::choose_among(Placement::TwoCores, &[2, 3, 6], pairs).unwrap();
        assert_eq!(
            cores,
            Cores {
                client: 2,
                server: 6,
                siblings: false
            }
        );
        let cores = Cores::choose_among(Placement::TwoCores, &[2, 3], pairs).unwrap();
        assert_eq!(
            cores,
            Cores {
                client: 2,
                server: 3,
                siblings: true
            }
        );
        assert_eq!(cores.describe(), "2 and 3 (hyperthreads of one core)");
    }

    #[test]
    fn one_allowed_cpu_is_not_enough_for_two_cores() {
        let error = Cores::choose_among(Placement::TwoCores, &[5], |_| vec![5]).unwrap_err();
        assert!(matches!(error, Error::Cores { allowed: 1 }));
        let cores = Cores::choose_among(Placement::OneCore, &[5], |_| vec![5]).unwrap();
        assert_eq!((cores.client, cores.server), (5, 5));
    }

    #[test]
    fn pinning_ends_with_the_guard() {
        let before = sched_getaffinity(None).unwrap();
        let cores = Cores::choose(Placement::OneCore).unwrap();
        {
            let _pinned = Pinned::to(cores.client).unwrap();
            let now = sched_getaffinity(None).unwrap();
            assert_eq!(now.count(), 1);
            assert!(now.is_set(cores.client));
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    /// Sessions that are pinned for life end in the order in which they were opened.
    #[test]
    fn guards_may_be_dropped_in_any_order() {
        let before = sched_getaffinity(None).unwrap();
        let cpu = Cores::choose(Placement::OneCore).unwrap().client;
        let other = Cores::choose(Placement::TwoCores).map_or(cpu, |cores| cores.server);
        let [first, second] = [cpu, other].map(|cpu| Pinned::to(cpu).unwrap());
        drop(first);
        assert_eq!(sched_getaffinity(None).unwrap(), only(other).unwrap());
        drop(second);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        let [first, second] = [cpu, other].map(|cpu| Pinned::to(cpu).unwrap());
        drop(second);
        assert_eq!(sched_getaffinity(None).unwrap(), only(cpu).unwrap());
        drop(first);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn a_thread_that_was_moved_is_noticed() {
        let cpu = Cores::choose(Placement::OneCore).unwrap().client;
        let all = sched_getaffinity(None).unwrap();
        {
            let _pinned = Pinned::to(cpu).unwrap();
            still_pinned(cpu).unwrap();
            // What the kernel does to threads of a CPU that goes offline.
            sched_setaffinity(None, &all).unwrap();
            if all.count() > 1 {
                let error = still_pinned(cpu).unwrap_err().to_string();
                assert!(error.contains(&format!("cpu{cpu}/online")), "{error}");
            }
        }
        let absent = CpuSet::MAX_CPU - 1;
        let error = pin(absent).unwrap_err().to_string();
        assert!(error.contains("was taken away"), "{error}");
        assert!(pin(CpuSet::MAX_CPU).is_err());
    }
}

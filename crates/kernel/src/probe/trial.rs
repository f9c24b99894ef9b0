//! Functions of the kernel that segments pass: a program at the entry of each, and a few segments over loopback.
//!
//! A function with a name among the kernel's types, which takes a program, need not be called by anybody. Compilers put copies of
//! functions into their callers. With `kernel.ftrace_enabled` at 0 no program at a function's entry is ever called.
//!
//! Owns what it attaches, which goes when [`run`] returns. It never judges a function of IPv6 where IPv6 carries no segments.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libbpf_rs::{ErrorKind, Link, MapCore, Object, ObjectBuilder};

use crate::programs::{Aligned, Mapped, error_text, listen};
use crate::threads::ThreadNumbers;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/trial.bpf.o")));

/// Programs of the object, `SLOTS` there.
pub(super) const SLOTS: usize = 16;
/// Round trips after which segments count as not passing a function. One is enough where the software interrupt runs on the
/// thread that sends; a busy machine leaves some of them to another thread.
const ROUND_TRIPS: u32 = 64;
/// Time that an end waits for the other before the trial is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Functions that do not serve, and why.
type Unfit = BTreeMap<&'static str, String>;

/// While this is 0 the kernel calls nothing at the entries of functions.
const FTRACE_ENABLED: &str = "/proc/sys/kernel/ftrace_enabled";

/// Memory that the programs share with us, `struct trial` there.
#[repr(C)]
#[derive(Clone, Copy)]
struct Shared {
    passed: [u64; SLOTS],
    thread: u32,
}

/// Programs at functions, as long as this lives.
struct Attached {
    /// The functions and their slots.
    functions: Vec<(usize, &'static str)>,
    shared: Mapped,
    // Only held; links go before the programs.
    _links: Vec<Link>,
    _object: Object,
}

/// Tries functions that the kernel's types name, some of which only segments of IPv6 pass. Returns those that do not serve as
/// hooks, and why.
///
/// # Errors
/// The reason why no program is allowed at any function.
pub(super) fn run(
    functions: &BTreeSet<&'static str>,
    of_ipv6: &BTreeSet<&'static str>,
) -> Result<Unfit, String> {
    let names: Vec<&str> = functions.iter().copied().collect();
    if names.is_empty() {
        return Err("this kernel's types name none of the functions that are needed".to_owned());
    }
    let mut unfit = Unfit::new();
    let mut attached = Vec::new();
    for some in names.chunks(SLOTS) {
        match load(some) {
            Ok(object) => attached.push(Attached::new(object, some, &mut unfit)?),
            // What is forbidden for some is forbidden for all.
            Err((ErrorKind::PermissionDenied, reason)) => return Err(reason),
            // One of them is at fault.
            Err(_) => {
                for name in some {
                    let one = std::slice::from_ref(name);
                    match load(one) {
                        Ok(object) => {
                            attached.push(Attached::new(object, one, &mut unfit)?);
                        }
                        Err((_, reason)) => {
                            unfit.insert(name, reason);
                        }
                    }
                }
            }
        }
    }
    for (address, of_ipv6_only) in [
        (IpAddr::V4(Ipv4Addr::LOCALHOST), false),
        (IpAddr::V6(Ipv6Addr::LOCALHOST), true),
    ] {
        let waiting = || -> BTreeSet<&'static str> {
            let idle = attached.iter().flat_map(Attached::idle);
            idle.filter(|name| of_ipv6.contains(name) == of_ipv6_only)
                .collect()
        };
        // Without a loopback that carries segments nothing is said against a function.
        if run_round_trips(address, || waiting().is_empty()).is_ok() {
            let reason = |name| (name, why_idle());
            unfit.extend(waiting().into_iter().map(reason));
        }
    }
    Ok(unfit)
}

/// Loads a program for each function, of which there are at most [`SLOTS`].
fn load(functions: &[&str]) -> Result<Object, (ErrorKind, String)> {
    listen();
    let trial_error = |error: libbpf_rs::Error| (error.kind(), error_text(&error));
    let mut open = ObjectBuilder::default()
        .name("tollgate_trial")
        .and_then(|builder| builder.open_memory(&OBJECT.0))
        .map_err(trial_error)?;
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let place = slot(&name).and_then(|slot| functions.get(slot));
        program.set_autoload(place.is_some());
        if let Some(function) = place {
            program
                .set_attach_target(0, Some((*function).to_owned()))
                .map_err(trial_error)?;
        }
    }
    open.load().map_err(trial_error)
}

/// The slot of a program.
fn slot(program: &str) -> Option<usize> {
    program.strip_prefix("slot_")?.parse().ok()
}

impl Attached {
    fn new(object: Object, functions: &[&'static str], unfit: &mut Unfit) -> Result<Self, String> {
        let map = object
            .maps()
            .find(|map| map.name().to_string_lossy() == ".bss.trial")
            .ok_or("the programs have no memory")?;
        let shared = Mapped::new(map.as_fd(), size_of::<Shared>()).map_err(|e| e.to_string())?;
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let numbers = ThreadNumbers::default().of(&[thread.unsigned_abs()]);
        let thread = numbers.map_err(|error| error.to_string())?;
        shared.write(Shared {
            passed: [0; SLOTS],
            thread: thread.first().map_or(0, |thread| thread.first),
        });
        let mut links = Vec::new();
        let mut taken = Vec::new();
        for program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let Some((slot, function)) =
                slot(&name).and_then(|slot| Some((slot, *functions.get(slot)?)))
            else {
                continue;
            };
            match program.attach() {
                Ok(link) => {
                    links.push(link);
                    taken.push((slot, function));
                }
                Err(error) => {
                    unfit.insert(function, format!("{error:#}"));
                }
            }
        }
        Ok(Self {
            functions: taken,
            shared,
            _links: links,
            _object: object,
        })
    }

    /// The functions that have not been passed yet.
    fn idle(&self) -> impl Iterator<Item = &'static str> {
        self.functions
            .iter()
            .filter(|(slot, _)| {
                let passed = self.shared.slot::<AtomicU64>(*slot);
                // SAFETY: the slot is a word of the mapping, which the programs change by atomic operations only.
                unsafe { passed.as_ref() }.load(Ordering::Relaxed) == 0
            })
            .map(|(_, name)| *name)
    }
}

/// The reason why a program that was attached is not called.
fn why_idle() -> String {
    let switch = std::fs::read_to_string(FTRACE_ENABLED);
    let why = if switch.is_ok_and(|value| value.trim() == "0") {
        "kernel.ftrace_enabled is 0"
    } else {
        "the compiler has put copies of the function into its callers"
    };
    format!("a program was attached, and no segment passed it, since {why}")
}

/// Round trips of one byte, both ends on this thread, until `enough`, at most [`ROUND_TRIPS`] of them.
fn run_round_trips(address: IpAddr, enough: impl Fn() -> bool) -> io::Result<()> {
    let listener = TcpListener::bind((address, 0))?;
    let mut client = TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE)?;
    let (mut server, _) = listener.accept()?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
        end.set_read_timeout(Some(PATIENCE))?;
    }
    let mut byte = [0; 1];
    for _ in 0..ROUND_TRIPS {
        if enough() {
            break;
        }
        client.write_all(&byte)?;
        server.read_exact(&mut byte)?;
        server.write_all(&byte)?;
        client.read_exact(&mut byte)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_has_a_program_for_each_slot() {
        let open = ObjectBuilder::default().open_memory(&OBJECT.0).unwrap();
        let mut slots: Vec<usize> = open
            .progs()
            .filter_map(|program| slot(&program.name().to_string_lossy()))
            .collect();
        slots.sort_unstable();
        assert_eq!(slots, (0..SLOTS).collect::<Vec<_>>());
    }

    #[test]
    fn round_trips_end_when_it_is_enough() {
        let calls = std::cell::Cell::new(0);
        run_round_trips(Ipv4Addr::LOCALHOST.into(), || {
            calls.set(calls.get() + 1);
            calls.get() == 3
        })
        .unwrap();
        assert_eq!(calls.get(), 3);
    }

    #[test]
    fn without_a_function_there_is_nothing_to_try() {
        let none = BTreeSet::new();
        assert!(run(&none, &none).unwrap_err().contains("name none"));
    }
}

//! The BPF programs: loaded once, attached a few at a time, read without a system call.
//!
//! Programs and maps belong to this process: when it ends, in whatever way, the kernel takes everything away again. Nothing is
//! pinned.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use libbpf_rs::{Link, MapCore, Object, ObjectBuilder, OpenObject, ProgramMut};
use tollgate_gate::{Gate, GateSet};

use crate::error::Error;
use crate::event::Event;
use crate::fault::ExtraCost;
use crate::hook::{Hook, Need, Netfilter};
use crate::plan::Plan;
use crate::programs::{
    Aligned, FAMILIES, Mapped, Ranks, error_text, link_at_free_ranks, listen, missed_runs, within,
};
use crate::threads::{Number, ThreadNumbers};
use crate::watch::{Namespace, THREADS, Taken, Watch};

mod fault;
mod memory;

pub use fault::Injected;

use fault::{FaultSettings, Registry};
use memory::{cursor, take_event};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/gates.bpf.o")));
/// The programs with a cost that is set before they are loaded.
static EXTRA_COST_OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
    env!("OUT_DIR"),
    "/gates_extra_cost.bpf.o"
)));

/// Processors that have a cursor, `CPUS` of the programs.
const PROCESSORS: usize = 1024;
/// The reason why a program cannot be attached that the plan does not know.
const NOT_LOADED: &str = "its program was not loaded";

/// A processor's cursor in the memory that it shares with the programs.
#[repr(C)]
struct Cursor {
    head: AtomicU64,
    tail: AtomicU64,
    lost: AtomicU64,
    pad: [u64; 5],
}

/// The settings in the memory that the programs read.
#[repr(C)]
struct Settings {
    ports: [u64; 1024],
    threads: [u32; THREADS],
    send_calls: [u32; 4],
    receive_calls: [u32; 4],
    acknowledgments: u32,
}

/// The system calls that send: sendto, sendmsg, write, writev.
#[cfg(target_arch = "x86_64")]
const SEND_CALLS: [u32; 4] = [44, 46, 1, 20];
/// The system calls that receive: recvfrom, recvmsg, read, readv.
#[cfg(target_arch = "x86_64")]
const RECEIVE_CALLS: [u32; 4] = [45, 47, 0, 19];
#[cfg(target_arch = "aarch64")]
const SEND_CALLS: [u32; 4] = [206, 211, 64, 66];
#[cfg(target_arch = "aarch64")]
const RECEIVE_CALLS: [u32; 4] = [207, 212, 63, 65];

/// Programs that are loaded.
pub struct Gates {
    // The links of `Attached` hold their programs by themselves.
    object: Object,
    plan: Plan,
    room: u32,
    processors: usize,
    cursors: Mapped,
    settings: Mapped,
    events: Mapped,
    /// Runs that the kernel left out because the program was running already, as last seen.
    missed: Cell<u64>,
    numbers: ThreadNumbers,
    /// The threads that are watched.
    threads: RefCell<Vec<Number>>,
    registry: Mutex<Registry>,
}

/// Gates that are attached; they are detached when this is dropped.
pub struct Attached {
    gates: GateSet,
    links: Vec<(Gate, OneLink)>,
    _alive: Arc<()>,
}

/// Link that keeps a program attached while it is open.
enum OneLink {
    OfLibrary(#[expect(dead_code, reason = "only held")] Link),
    Own(#[expect(dead_code, reason = "only held")] OwnedFd),
}

impl Attached {
    /// The gates.
    pub const fn gates(&self) -> GateSet {
        self.gates
    }
}

impl Gates {
    /// Loads the programs of a plan, with room for `room` events (rounded up to a power of two) on each processor.
    ///
    /// # Errors
    /// [`Error::Load`] with what the kernel said, [`Error::Processors`].
    pub fn load(plan: &Plan, room: u32) -> Result<Self, Error> {
        Self::load_with_extra_cost(plan, room, &ExtraCost::default())
    }

    /// Loads the programs of a plan so that each of them costs more than it has to. Without any cost these are the programs of
    /// [`Self::load`]; with one they are a copy of their own, so that gates without it have no instruction more.
    ///
    /// # Errors
    /// Those of [`Self::load`], and [`Error::TooMany`] for a cost of more than [`crate::fault::LONGEST_DELAY`].
    pub fn load_with_extra_cost(plan: &Plan, room: u32, cost: &ExtraCost) -> Result<Self, Error> {
        let extra = FaultSettings::of_gates(cost)?;
        let processors = libbpf_rs::num_possible_cpus()
            .map_err(|error| Error::load("counting processors", error))?;
        if processors > PROCESSORS {
            return Err(Error::Processors {
                found: processors,
                most: PROCESSORS,
            });
        }
        let room = room.clamp(64, 1 << 20).next_power_of_two();
        let wanted: Vec<&str> = plan
            .boundaries()
            .iter()
            .flat_map(|boundary| boundary.programs.iter().copied())
            .collect();
        let mut open = open_object(if *cost == ExtraCost::default() {
            OBJECT
        } else {
            EXTRA_COST_OBJECT
        })?;
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(wanted.contains(&name.as_str()));
        }
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let outcome = match name.as_str() {
                "events" => map.set_max_entries(room * processors as u32),
                ".rodata.fault" => map.set_initial_value(&extra.to_bytes()),
                ".rodata.limits" => map.set_initial_value(&room.to_ne_bytes()),
                _ => Ok(()),
            };
            outcome.map_err(|error| Error::load("sizing the maps", error))?;
        }
        let object = open
            .load()
            .map_err(|error| Error::load("loading the BPF programs", error_text(&error)))?;
        let map = |name: &str, length: usize| map_of(&object, name, length);
        let cursors = map(".bss.cursors", PROCESSORS * size_of::<Cursor>())?;
        let settings = map(".bss.settings", size_of::<Settings>())?;
        let events = map("events", room as usize * processors * size_of::<Event>())?;
        let gates = Self {
            object,
            plan: plan.clone(),
            room,
            processors,
            cursors,
            settings,
            events,
            missed: Cell::new(0),
            numbers: ThreadNumbers::default(),
            threads: RefCell::default(),
            registry: Mutex::default(),
        };
        gates.watch(&Watch::default())?;
        Ok(gates)
    }

    /// The plan whose programs these are.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Changes whose packets, calls and wakeups are recorded, at once.
    ///
    /// # Errors
    /// [`Error::Threads`] when there are more than [`THREADS`]; [`Error::Load`] or [`Error::System`] when this process has a
    /// namespace of its own and the kernel does not tell its threads' numbers outside. Nothing is changed then.
    pub fn watch(&self, watch: &Watch) -> Result<(), Error> {
        if watch.threads.len() > THREADS {
            return Err(Error::Threads {
                found: watch.threads.len(),
                most: THREADS,
            });
        }
        let threads = self.numbers.of(&watch.threads)?;
        let mut settings = Settings {
            ports: [0; 1024],
            threads: [0; THREADS],
            send_calls: SEND_CALLS,
            receive_calls: RECEIVE_CALLS,
            acknowledgments: u32::from(watch.acknowledgments),
        };
        for &port in &watch.ports {
            settings.ports[usize::from(port) / 64] |= 1 << (port % 64);
        }
        for (place, thread) in settings.threads.iter_mut().zip(&threads) {
            *place = thread.first;
        }
        self.settings.write(settings);
        // Those that have ended are nobody.
        let alive = threads.into_iter().filter(|thread| thread.first != 0);
        self.threads.replace(alive.collect());
        Ok(())
    }

    /// Attaches the gates in the namespace.
    ///
    /// # Errors
    /// [`Error::NoHook`] for a gate that the plan does not take, [`Error::Attach`]; nothing stays attached then.
    pub fn attach(&self, gates: GateSet, namespaces: &[Namespace<'_>]) -> Result<Attached, Error> {
        let links = self.link(gates, namespaces)?;
        Ok(Attached {
            gates,
            links,
            _alive: self.note_attached(gates),
        })
    }

    /// Attaches these gates instead of others in the same namespaces: those that both have stay, new ones are attached before
    /// the others are detached. The kernel lets nobody attach to a tracepoint until all processors have forgotten what was
    /// detached last (kernel/tracepoint.c, `tp_rcu_cond_sync`), some milliseconds; in this order they are often over.
    ///
    /// # Errors
    /// Those of [`Self::attach`].
    pub fn attach_instead(
        &self,
        before: Attached,
        gates: GateSet,
        namespaces: &[Namespace<'_>],
    ) -> Result<Attached, Error> {
        let new = gates.iter().filter(|&gate| !before.gates.contains(gate));
        let mut links = self.link(new.collect(), namespaces)?;
        let kept = before.links.into_iter();
        links.extend(kept.filter(|(gate, _)| gates.contains(*gate)));
        Ok(Attached {
            gates,
            links,
            _alive: self.note_attached(gates),
        })
    }

    /// Attaches the programs of gates, and attaches faults again that have to come after them.
    fn link(
        &self,
        gates: GateSet,
        namespaces: &[Namespace<'_>],
    ) -> Result<Vec<(Gate, OneLink)>, Error> {
        let mut links = Vec::new();
        for gate in gates.iter() {
            // The answer's first gate stands for it.
            if gate == Gate::ApplicationEnd {
                continue;
            }
            let boundary = self.plan.boundary(gate).ok_or(Error::NoHook(gate))?;
            let hook = boundary.hook.ok_or(Error::NoHook(gate))?;
            for program in &boundary.programs {
                if let Need::Netfilter(at) = hook.need {
                    let filters = self.attach_filters(hook, program, at, namespaces)?;
                    links.extend(filters.into_iter().map(|link| (gate, link)));
                    continue;
                }
                let (program, refused) = self.program(hook, program);
                let link = program
                    .ok_or_else(|| refused(NOT_LOADED.to_owned()))?
                    .attach();
                let link = link.map_err(|error| refused(format!("{error:#}")))?;
                links.push((gate, OneLink::OfLibrary(link)));
            }
        }
        self.attach_faults_after(gates)?;
        Ok(links)
    }

    /// The program of a hook, and what to say when it cannot be attached.
    fn program(
        &self,
        hook: &'static Hook,
        program: &str,
    ) -> (Option<ProgramMut<'_>>, impl Fn(String) -> Error + use<>) {
        let refused = |reason: String| Error::Attach {
            gate: hook.gate,
            hook: hook.name,
            reason,
        };
        (find(&self.object, program), refused)
    }

    /// Attaches the program of a netfilter hook in each of the namespaces.
    fn attach_filters(
        &self,
        hook: &'static Hook,
        program: &str,
        at: Netfilter,
        namespaces: &[Namespace<'_>],
    ) -> Result<Vec<OneLink>, Error> {
        let (gate, refused) = self.program(hook, program);
        let gate = gate.ok_or_else(|| refused(NOT_LOADED.to_owned()))?;
        let fds = [gate.as_fd()];
        let mut links = Vec::new();
        for namespace in namespaces {
            for family in FAMILIES {
                let made = within(*namespace, || {
                    link_at_free_ranks(&fds, family, at, Ranks::Gates)
                });
                links.extend(made.map_err(&refused)?.into_iter().map(OneLink::Own));
            }
        }
        Ok(links)
    }

    /// Takes what was recorded since the last time. Programs may go on writing meanwhile.
    pub fn take(&self) -> Taken {
        let mut taken = Taken::default();
        let threads = self.threads.borrow();
        for processor in 0..self.processors {
            let cursor: &Cursor = cursor(&self.cursors, processor);
            let (mut at, head) = (
                cursor.tail.load(Ordering::Relaxed),
                cursor.head.load(Ordering::Acquire),
            );
            while at < head {
                let slot =
                    processor * self.room as usize + (at & u64::from(self.room - 1)) as usize;
                let Some(mut event) = take_event(&self.events, slot) else {
                    // Its program is still writing.
                    break;
                };
                let thread = threads.iter().find(|thread| thread.first == event.thread);
                event.thread = thread.map_or(event.thread, |thread| thread.own);
                taken.events.push(event);
                at += 1;
            }
            cursor.tail.store(at, Ordering::Release);
            taken.lost += cursor.lost.swap(0, Ordering::Relaxed);
        }
        let missed = self.missed();
        taken.lost += missed - self.missed.replace(missed);
        taken
    }

    /// Runs that the kernel has left out so far because the program was running already on that processor.
    fn missed(&self) -> u64 {
        self.object
            .progs()
            .map(|program| missed_runs(program.as_fd()))
            .sum()
    }
}

/// A map of a loaded object, mapped into this process.
fn map_of(object: &Object, name: &str, length: usize) -> Result<Mapped, Error> {
    let map = object
        .maps()
        .find(|map| map.name().to_string_lossy() == name)
        .ok_or_else(|| Error::load("looking for a map", name))?;
    Mapped::new(map.as_fd(), length)
}

fn open() -> Result<OpenObject, Error> {
    open_object(OBJECT)
}

fn open_object(object: &Aligned<[u8]>) -> Result<OpenObject, Error> {
    listen();
    ObjectBuilder::default()
        .name("tollgate")
        .and_then(|builder| builder.open_memory(&object.0))
        .map_err(|error| Error::load("opening the BPF programs", error_text(&error)))
}

pub(crate) fn find<'a>(object: &'a Object, name: &str) -> Option<ProgramMut<'a>> {
    object
        .progs_mut()
        .find(|program| program.name().to_string_lossy() == name)
}

/// Loads one program alone and attaches it, to see whether this kernel allows that.
pub(crate) fn attempt(name: &str) -> Result<(), String> {
    let mut open = open().map_err(|error| error.to_string())?;
    for mut program in open.progs_mut() {
        let wanted = program.name().to_string_lossy() == name;
        program.set_autoload(wanted);
    }
    let object = open.load().map_err(|error| error_text(&error))?;
    let program = find(&object, name).ok_or_else(|| format!("there is no program {name}"))?;
    let hook = crate::hook::HOOKS
        .iter()
        .find(|hook| hook.program == Some(name));
    match hook.map(|hook| hook.need) {
        Some(Need::Netfilter(at)) => {
            link_at_free_ranks(&[program.as_fd()], FAMILIES[0], at, Ranks::Gates).map(drop)
        }
        _ => program
            .attach()
            .map(drop)
            .map_err(|error| format!("{error:#}")),
    }
}

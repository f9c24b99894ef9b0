//! Programs that delay what passes a gate's hook, attached before or behind the gate's own program.
//!
//! Owns the programs of faults and their links, which go when [`Injected`] is dropped. It must never record an event, never delay
//! what the gate's own program would not record, and never leave a fault on the other side than the one that was asked for.
//!
//! The kernel calls the programs of a tracepoint in the order in which they were attached, and those of a function the last one
//! first; netfilter calls them by priority. So a fault that has to be attached after its gate is attached again after each
//! [`Gates::attach`], and one that has to be attached before its gate is refused while the gate is attached.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use libbpf_rs::{MapCore, Object};
use tollgate_gate::{Gate, GateSet};

use super::memory::cursor;
use super::{Cursor, Gates, NOT_LOADED, OneLink, PROCESSORS, find};
use crate::error::Error;
use crate::fault::{ExtraCost, Fault, FaultKind, LONGEST_DELAY, Side};
use crate::hook::{Hook, Need};
use crate::programs::{Aligned, FAMILIES, Mapped, Ranks, error_text, link_at_free_ranks, within};
use crate::watch::Namespace;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/fault.bpf.o")));

/// Nanoseconds that a fault's program takes without a delay: the hook, the filter, and the last reading of the clock. Measured by
/// `examples/delay.rs` on one machine (Linux 6.18, Sapphire Rapids, virtual): 90 without any delay, 100 to 120 with one.
const OVERHEAD: u64 = 100;

/// The constants of a load, `struct fault` of the programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FaultSettings {
    before: u64,
    behind: u64,
    touches: u64,
}

impl FaultSettings {
    /// Those of a fault's programs.
    fn of_fault(kind: FaultKind) -> Result<Self, Error> {
        let (behind, touches) = match kind {
            FaultKind::Delay(delay) => (nanoseconds(delay)?.saturating_sub(OVERHEAD), 0),
            FaultKind::Touch32KiB => (0, 1),
        };
        Ok(Self {
            before: 0,
            behind,
            touches,
        })
    }

    /// Those of gates.
    pub(super) fn of_gates(cost: &ExtraCost) -> Result<Self, Error> {
        Ok(Self {
            before: nanoseconds(cost.before)?,
            behind: nanoseconds(cost.behind)?,
            touches: u64::from(cost.touches_32_kib),
        })
    }

    /// The bytes that the programs read.
    pub(super) fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (to, value) in bytes
            .chunks_exact_mut(8)
            .zip([self.before, self.behind, self.touches])
        {
            to.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }
}

fn nanoseconds(delay: Duration) -> Result<u64, Error> {
    if delay > LONGEST_DELAY {
        return Err(Error::TooMany {
            what: "nanoseconds of delay",
            found: usize::try_from(delay.as_nanos()).unwrap_or(usize::MAX),
            most: LONGEST_DELAY.as_nanos() as usize,
        });
    }
    Ok(delay.as_nanos() as u64)
}

/// A fault that is in force until this is dropped.
pub struct Injected {
    core: Arc<Mutex<Core>>,
    fault: Fault,
}

impl std::fmt::Debug for Injected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Injected")
            .field("fault", &self.fault)
            .field("runs", &self.runs())
            .finish_non_exhaustive()
    }
}

impl Injected {
    /// The fault.
    pub const fn fault(&self) -> Fault {
        self.fault
    }

    /// Packets, calls or wakeups that it has delayed so far.
    pub fn runs(&self) -> u64 {
        let core = lock(&self.core);
        (0..PROCESSORS)
            .map(|processor| {
                cursor(&core.cursors, processor)
                    .head
                    .load(Ordering::Relaxed)
            })
            .sum()
    }
}

/// Faults that are in force and the gates' own programs, as the gates have to know them.
#[derive(Default)]
pub(super) struct Registry {
    faults: Vec<Weak<Mutex<Core>>>,
    attached: Vec<(GateSet, Weak<()>)>,
}

impl Registry {
    fn is_attached(&self, gate: Gate) -> bool {
        self.attached
            .iter()
            .any(|(gates, alive)| gates.contains(gate) && alive.strong_count() > 0)
    }
}

/// The programs of a fault.
struct Core {
    // Links go before the programs.
    links: Vec<OneLink>,
    object: Object,
    cursors: Mapped,
    hook: &'static Hook,
    programs: Vec<&'static str>,
    side: Side,
}

impl Core {
    /// Tells whether it is on its side only when it is attached after its gate.
    const fn comes_after_gate(&self) -> bool {
        comes_after_gate(self.hook, self.side)
    }

    /// Attaches its programs, or attaches them again as the last ones.
    fn attach(&mut self, namespaces: &[Namespace<'_>]) -> Result<(), Error> {
        self.links.clear();
        let refused = |reason: String| Error::Attach {
            gate: self.hook.gate,
            hook: self.hook.name,
            reason,
        };
        let mut links = Vec::new();
        for name in &self.programs {
            let program = find(&self.object, name).ok_or_else(|| refused(NOT_LOADED.to_owned()))?;
            if let Need::Netfilter(at) = self.hook.need {
                let ranks = match self.side {
                    Side::Before => Ranks::BeforeGates,
                    Side::Behind => Ranks::BehindGates,
                };
                let fds = [program.as_fd()];
                for namespace in namespaces {
                    for family in FAMILIES {
                        let made =
                            within(*namespace, || link_at_free_ranks(&fds, family, at, ranks));
                        links.extend(made.map_err(refused)?.into_iter().map(OneLink::Own));
                    }
                }
            } else {
                let link = program
                    .attach()
                    .map_err(|error| refused(format!("{error:#}")))?;
                links.push(OneLink::OfLibrary(link));
            }
        }
        self.links = links;
        Ok(())
    }
}

const fn comes_after_gate(hook: &Hook, side: Side) -> bool {
    match hook.need {
        Need::Tracepoint(_) => matches!(side, Side::Behind),
        // A function calls the program first that came last (kernel/bpf/trampoline.c, hlist_add_head).
        Need::Function(_) => matches!(side, Side::Before),
        Need::Netfilter(_) | Need::OwnCall | Need::OwnSocket => false,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gates {
    /// Puts a program on a gate's hook that delays what the gate's own program would record, whether that is attached or not,
    /// until the result is dropped. The namespaces matter to hooks of netfilter only.
    ///
    /// At a gate that the application takes with its own clock, the program stands at the system call. It can be behind the
    /// beginning of a send, and before the end of a send or of a receive.
    ///
    /// # Errors
    /// [`Error::Order`] where this order cannot be had, [`Error::NoHook`] for a gate that the plan does not take,
    /// [`Error::TooMany`] for a delay of more than [`LONGEST_DELAY`], [`Error::Load`], [`Error::Attach`]. Nothing stays attached
    /// then.
    pub fn inject(&self, fault: Fault, namespaces: &[Namespace<'_>]) -> Result<Injected, Error> {
        let settings = FaultSettings::of_fault(fault.kind)?;
        let (hook, programs) = self.place(fault)?;
        let mut registry = lock(&self.registry);
        // A gate that the application takes has no program that could be there first.
        let has_program = self
            .plan()
            .hook(fault.gate)
            .is_some_and(|hook| hook.program.is_some());
        let late = has_program
            && matches!(hook.need, Need::Tracepoint(_) | Need::Function(_))
            && !comes_after_gate(hook, fault.side);
        if late && registry.is_attached(fault.gate) {
            return Err(order(
                fault,
                hook,
                "the gate is attached already, and this kind of hook runs programs in the order of attaching",
            ));
        }
        let object = self.load_fault(settings, &programs)?;
        let cursors = super::map_of(&object, ".bss.cursors", PROCESSORS * size_of::<Cursor>())?;
        let mut core = Core {
            links: Vec::new(),
            object,
            cursors,
            hook,
            programs,
            side: fault.side,
        };
        core.attach(namespaces)?;
        let core = Arc::new(Mutex::new(core));
        registry.faults.retain(|fault| fault.strong_count() > 0);
        registry.faults.push(Arc::downgrade(&core));
        Ok(Injected { core, fault })
    }

    /// The hook of a fault and its programs.
    fn place(&self, fault: Fault) -> Result<(&'static Hook, Vec<&'static str>), Error> {
        let none = || Error::NoHook(fault.gate);
        let boundary = self.plan().boundary(fault.gate).ok_or_else(none)?;
        let hook = boundary.hook.ok_or_else(none)?;
        if hook.program.is_some() {
            return Ok((hook, boundary.programs.clone()));
        }
        let coarser =
            Hook::of(fault.gate).find_map(|hook| hook.program.map(|program| (hook, program)));
        let side = match fault.gate {
            Gate::SocketOutBegin => Side::Behind,
            _ => Side::Before,
        };
        match (hook.need, coarser) {
            (Need::OwnCall, Some((at, program))) if fault.side == side => Ok((at, vec![program])),
            (Need::OwnCall, _) => Err(order(
                fault,
                hook,
                "the application takes this gate outside the kernel, where no program can stand",
            )),
            _ => Err(order(
                fault,
                hook,
                "the kernel takes this stamp itself, and calls no program there",
            )),
        }
    }

    /// Loads programs of faults that watch whatever the gates watch.
    fn load_fault(&self, settings: FaultSettings, programs: &[&str]) -> Result<Object, Error> {
        let mut open = super::open_object(OBJECT)?;
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(programs.contains(&name.as_str()));
        }
        let shared = self
            .object
            .maps()
            .find(|map| map.name() == ".bss.settings")
            .ok_or_else(|| Error::load("looking for a map", ".bss.settings"))?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let outcome = match name.as_str() {
                ".bss.settings" => map.reuse_fd(shared.as_fd()),
                ".rodata.fault" => map.set_initial_value(&settings.to_bytes()),
                _ => Ok(()),
            };
            outcome.map_err(|error| Error::load("preparing a fault", error))?;
        }
        open.load()
            .map_err(|error| Error::load("loading a fault", error_text(&error)))
    }

    /// Attaches faults again that have to come after these gates, which were just attached.
    pub(super) fn attach_faults_after(&self, gates: GateSet) -> Result<(), Error> {
        let registry = lock(&self.registry);
        for fault in registry.faults.iter().filter_map(Weak::upgrade) {
            let mut core = lock(&fault);
            if core.comes_after_gate() && gates.contains(core.hook.gate) {
                // Netfilter alone needs namespaces, and has priorities.
                core.attach(&[])?;
            }
        }
        Ok(())
    }

    /// Notes that gates are attached as long as the result lives.
    pub(super) fn note_attached(&self, gates: GateSet) -> Arc<()> {
        let mut registry = lock(&self.registry);
        registry
            .attached
            .retain(|(_, alive)| alive.strong_count() > 0);
        let alive = Arc::new(());
        registry.attached.push((gates, Arc::downgrade(&alive)));
        alive
    }
}

const fn order(fault: Fault, hook: &'static Hook, reason: &'static str) -> Error {
    Error::Order {
        gate: fault.gate,
        side: fault.side.name(),
        hook: hook.name,
        reason,
    }
}

//! The programs of `bpf/observe.bpf.c`: loaded, attached, told what is asked for, and read.
//!
//! Programs, maps and links belong to this process: when it ends, in whatever way, the kernel takes everything away again. Nothing
//! is pinned.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, RingBufferBuilder};

use super::hooks::{Choice, DEMUX_BOUNDARY, IP_OUT_BOUNDARY, WIRE};
use super::memory::{
    Flow, Followed, GROUPS, OPERATIONS, PASSAGES, PROCESSORS, Passage, Processor, RawHistogram,
    SPANS, Settings, Totals, Usage, WIRES, state,
};
use super::{Ask, Raw, rate};
use crate::error::Error;
use crate::gates::system::{Mapped, link_netfilter, missed_runs};
use crate::gates::{Aligned, FAMILIES, Namespace, quiet, within};
use crate::hook::Need;

static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/observe.bpf.o")));

/// How long a byte may be on its way before it is given up, unless its socket is waited for.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// Programs that observe traffic.
pub struct Watcher {
    object: Object,
    settings: Mapped,
    totals: Mapped,
    processors: Mapped,
    passages: Mapped,
    histograms: Mapped,
    followed: Mapped,
    count: usize,
    choice: Choice,
    // Only held.
    _links: Vec<Link>,
    _filters: Vec<OwnedFd>,
    rate: rate::Chooser,
    aside: Aside,
    begun: Instant,
}

/// What is not counted by the programs but here.
#[derive(Default)]
struct Aside {
    /// Bytes that never arrived where they were expected.
    vanished: u64,
    slow: Vec<Passage>,
}

impl Watcher {
    /// Loads the programs of a choice and attaches them; samples begin at once.
    ///
    /// # Errors
    /// [`Error::Load`] with what the kernel said, [`Error::Missing`] when a boundary that must be there is not,
    /// [`Error::Processors`]; nothing stays attached then.
    pub fn start(choice: Choice, ask: &Ask, namespaces: &[Namespace<'_>]) -> Result<Self, Error> {
        if let Some((hook, reason)) = choice.stopped_by() {
            return Err(Error::Missing {
                hook: hook.name,
                reason: reason.clone(),
            });
        }
        let count = libbpf_rs::num_possible_cpus()
            .map_err(|error| Error::load("counting processors", error))?;
        if count > PROCESSORS {
            return Err(Error::Processors {
                found: count,
                most: PROCESSORS,
            });
        }
        let wanted: Vec<&str> = choice
            .taken
            .iter()
            .map(|hook| match hook.program {
                program if program == WIRE.0 && !ask.wires.is_empty() => WIRE.1,
                program => program,
            })
            .collect();
        quiet();
        let mut open = ObjectBuilder::default()
            .name("tollgate_observe")
            .and_then(|builder| builder.open_memory(&OBJECT.0))
            .map_err(|error| Error::load("opening the BPF programs", error))?;
        for mut program in open.progs_mut() {
            let load = wanted.contains(&&*program.name().to_string_lossy());
            program.set_autoload(load);
        }
        let object = open
            .load()
            .map_err(|error| Error::load("loading the BPF programs", error))?;
        let map = |name: &str, length: usize| {
            let map = object
                .maps()
                .find(|map| map.name().to_string_lossy() == name)
                .ok_or_else(|| Error::load("looking for a map", name))?;
            Mapped::new(map.as_fd(), length)
        };
        let mut watcher = Self {
            settings: map(".bss.settings", size_of::<Settings>())?,
            totals: map(".bss.totals", size_of::<Totals>())?,
            processors: map(".bss.processors", PROCESSORS * size_of::<Processor>())?,
            passages: map(".bss.passages", PASSAGES * size_of::<Passage>())?,
            histograms: map(".bss.histograms", SPANS * size_of::<RawHistogram>())?,
            followed: map(".bss.followed", size_of::<Followed>())?,
            object,
            count,
            choice,
            _links: Vec::new(),
            _filters: Vec::new(),
            rate: rate::Chooser::new(ask.every),
            aside: Aside::default(),
            begun: Instant::now(),
        };
        watcher.ask(ask)?;
        watcher.attach(&wanted, namespaces)?;
        watcher.begun = Instant::now();
        Ok(watcher)
    }

    /// Tells the programs what is asked for.
    fn ask(&self, ask: &Ask) -> Result<(), Error> {
        let mut settings = Settings {
            every: ask.every.unwrap_or(0),
            operations: ask.filter.len() as u32,
            by_group: u32::from(!ask.groups.is_empty()),
            by_cgroup: u32::from(ask.cgroups.is_some()),
            interface: ask.interface,
            namespace: ask.namespace,
            has_ip_out: u32::from(self.choice.takes(IP_OUT_BOUNDARY)),
            has_demux: u32::from(self.choice.takes(DEMUX_BOUNDARY)),
            slower_than: ask
                .slower_than
                .map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            groups: [0; GROUPS],
            wires: [0; WIRES],
            operation: [Default::default(); OPERATIONS],
        };
        let too_many = |what, found, most| Error::TooMany { what, found, most };
        if ask.filter.len() > OPERATIONS {
            return Err(too_many("parts of a filter", ask.filter.len(), OPERATIONS));
        }
        if ask.groups.len() > GROUPS {
            return Err(too_many("processes", ask.groups.len(), GROUPS));
        }
        if ask.wires.len() > WIRES {
            return Err(too_many("interfaces", ask.wires.len(), WIRES));
        }
        settings.operation[..ask.filter.len()].copy_from_slice(&ask.filter);
        settings.groups[..ask.groups.len()].copy_from_slice(&ask.groups);
        settings.wires[..ask.wires.len()].copy_from_slice(&ask.wires);
        if let Some(cgroups) = &ask.cgroups {
            let map = self.map("cgroups")?;
            for id in cgroups {
                map.update(&id.to_ne_bytes(), &[1], MapFlags::ANY)
                    .map_err(|error| Error::load("naming the control groups", error))?;
            }
        }
        self.settings.write(settings);
        Ok(())
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, Error> {
        self.object
            .maps()
            .find(|map| map.name().to_string_lossy() == name)
            .ok_or_else(|| Error::load("looking for a map", name))
    }

    fn attach(&mut self, wanted: &[&str], namespaces: &[Namespace<'_>]) -> Result<(), Error> {
        for (hook, program_name) in self.choice.taken.iter().zip(wanted) {
            let refused = |reason: String| Error::Hook {
                hook: hook.name,
                reason,
            };
            let program = self
                .object
                .progs_mut()
                .find(|program| program.name().to_string_lossy() == *program_name)
                .ok_or_else(|| refused("its program was not loaded".to_owned()))?;
            let Need::Netfilter(at) = hook.need else {
                let link = program.attach();
                self._links
                    .push(link.map_err(|error| refused(format!("{error:#}")))?);
                continue;
            };
            let fd = program.as_fd();
            for namespace in namespaces {
                for family in FAMILIES {
                    let link = within(*namespace, || link_netfilter(fd, family, at, false));
                    self._filters.push(link.map_err(refused)?);
                }
            }
        }
        Ok(())
    }

    /// The hooks that are taken.
    pub const fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Looks after the samples: chooses how many are taken by the traffic there is, takes what was slow, and gives up bytes
    /// that never arrived. To be called ten times a second.
    ///
    /// # Errors
    /// [`Error::Load`] when a map cannot be read.
    pub fn tend(&mut self) -> Result<(), Error> {
        let seen = self.seen();
        if let Some(every) = self.rate.choose(self.begun.elapsed(), seen.0 + seen.1) {
            let at = self.settings.slot::<Settings>(0);
            // SAFETY: the field lies within the mapping, aligned, and is only ever read whole.
            let field = unsafe { &raw mut (*at.as_ptr()).every };
            // SAFETY: as above; the programs read it, nobody else writes it.
            let field = unsafe { AtomicU32::from_ptr(field) };
            field.store(every, Ordering::Relaxed);
        }
        self.give_up();
        self.take_slow()
    }

    /// Candidates so far: pieces that were sent, and segments that came in by wires.
    fn seen(&self) -> (u64, u64) {
        let mut seen = (0, 0);
        for index in 0..self.count {
            // SAFETY: integers only, within the mapping; the programs may write meanwhile, each field as a whole.
            let processor = unsafe { self.processors.slot::<Processor>(index).read_volatile() };
            seen.0 += processor.sent.seen;
            seen.1 += processor.arrived.seen;
        }
        seen
    }

    fn passage(&self, index: usize) -> Passage {
        // SAFETY: integers only, within the mapping; a passage that changes meanwhile is told by its state.
        unsafe { self.passages.slot::<Passage>(index).read_volatile() }
    }

    /// A word in the memory of the programs.
    fn word(&self, of: &Mapped, index: usize) -> &AtomicU32 {
        let at = of.slot::<AtomicU32>(index);
        // SAFETY: within the mapping, aligned, and changed by atomic operations only on both sides.
        unsafe { at.as_ref() }
    }

    fn give_up(&mut self) {
        let Some(limit) = now().checked_sub(LOST_AFTER.as_nanos() as u64) else {
            return;
        };
        for index in 0..PASSAGES {
            let passage = self.passage(index);
            // What waits for its reader may wait for ever; it is told of as such.
            if passage.state != state::ON_THE_WAY || passage.last().is_none_or(|(_, at)| at > limit)
            {
                continue;
            }
            let word = self.word(&self.passages, index * size_of::<Passage>() / 4);
            let taken = word.compare_exchange(
                state::ON_THE_WAY,
                state::ENDING,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                self.word(&self.followed, 0).fetch_sub(1, Ordering::AcqRel);
                word.store(state::FREE, Ordering::Release);
                self.aside.vanished += 1;
            }
        }
    }

    fn take_slow(&mut self) -> Result<(), Error> {
        let mut taken = Vec::new();
        {
            let map = self.map("slow")?;
            let mut builder = RingBufferBuilder::new();
            builder
                .add(&map, |bytes: &[u8]| {
                    taken.extend(Passage::read(bytes));
                    0
                })
                .map_err(|error| Error::load("reading slow passages", error))?;
            let ring = builder
                .build()
                .map_err(|error| Error::load("reading slow passages", error))?;
            ring.consume()
                .map_err(|error| Error::load("reading slow passages", error))?;
        }
        self.aside.slow.append(&mut taken);
        Ok(())
    }

    /// All that was counted so far. Slow passages are given once.
    ///
    /// # Errors
    /// [`Error::Load`] when a map cannot be read.
    pub fn read(&mut self) -> Result<Raw, Error> {
        self.tend()?;
        let mut histograms = Vec::with_capacity(SPANS);
        for index in 0..SPANS {
            let at = self.histograms.slot::<RawHistogram>(index);
            // SAFETY: integers only, within the mapping, each changed as a whole.
            histograms.push(Box::new(unsafe { at.read_volatile() }));
        }
        // SAFETY: as above.
        let totals = unsafe { self.totals.slot::<Totals>(0).read_volatile() };
        let mut flows = HashMap::new();
        let map = self.map("flows")?;
        for key in map.keys() {
            let value = map
                .lookup(&key, MapFlags::ANY)
                .map_err(|error| Error::load("reading connections", error))?;
            if let (Some(flow), Some(usage)) =
                (Flow::read(&key), value.as_deref().and_then(Usage::read))
            {
                flows.insert(flow, usage);
            }
        }
        let waiting = (0..PASSAGES)
            .map(|index| self.passage(index))
            .filter(|passage| matches!(passage.state, state::ON_THE_WAY | state::WAITING))
            .collect();
        let (sent, arrived) = self.seen();
        let missed = self
            .object
            .progs()
            .map(|program| missed_runs(program.as_fd()))
            .sum();
        Ok(Raw {
            at: self.begun.elapsed(),
            now: now(),
            sent,
            arrived,
            every: self.rate.every(),
            totals,
            histograms,
            flows,
            waiting,
            slow: std::mem::take(&mut self.aside.slow),
            vanished: self.aside.vanished,
            missed,
        })
    }
}

/// CLOCK_MONOTONIC, as the programs read it.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The value that bytes from a map begin with.
macro_rules! read {
    ($($kind:ty),*) => {$(
        impl $kind {
            fn read(bytes: &[u8]) -> Option<Self> {
                if bytes.len() < size_of::<Self>() {
                    return None;
                }
                // SAFETY: there are enough bytes, and every pattern of bits is one of these integers.
                Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
            }
        }
    )*};
}
read!(Passage, Flow, Usage);

const _: () = assert!(align_of::<AtomicU64>() == 8);

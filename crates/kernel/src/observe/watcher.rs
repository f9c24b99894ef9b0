//! The programs of `bpf/observe.bpf.c`: loaded, attached, told what is asked for, and read.
//!
//! Programs, maps and links belong to this process: when it ends, in whatever way, the kernel takes everything away again. Nothing
//! is pinned.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, RingBufferBuilder};

use super::hooks::{Choice, DEMUX_BOUNDARY, IP_OUT_BOUNDARY, WIRE};
use super::memory::{
    Flow, Followed, GROUPS, OPERATIONS, PASSAGES, PROCESSORS, Passage, Processor, RawHistogram,
    SPANS, Settings, Totals, Usage, WIRES, state,
};
use super::pace::{AGAIN, FIRST, Pace, WINDOW};
use super::{Ask, Raw};
use crate::error::Error;
use crate::gates::system::{Mapped, link_at_free_ranks, missed_runs};
use crate::gates::{Aligned, FAMILIES, in_words, listen, within};
use crate::hook::Need;
use crate::watch::Namespace;

static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/observe.bpf.o")));

/// How long a byte may be on its way before it is given up, unless its socket is waited for.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// How often what is slow is fetched and what vanished is given up.
const TIDY: Duration = Duration::from_millis(200);
/// How long bytes that are under way may take to their end when a window ends.
const PATIENCE: Duration = Duration::from_millis(50);

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
    wanted: Vec<&'static str>,
    namespaces: Vec<OwnedFd>,
    links: Vec<OneLink>,
    pace: Pace,
    phase: Phase,
    /// Candidates, and messages of each processor, when the present choice was made.
    before: (u64, Vec<u64>),
    on: Duration,
    patience: Duration,
    tidied: Instant,
    aside: Aside,
    begun: Instant,
}

/// What keeps a program attached while it is open.
enum OneLink {
    OfLibrary(#[expect(dead_code, reason = "only held")] Link),
    Own(#[expect(dead_code, reason = "only held")] OwnedFd),
}

/// What the gates do.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// They are on and count, and nothing is sampled yet.
    Looking(Instant),
    /// They are on, and samples begin; the choice was made at the second time.
    Open(Instant, Instant),
    /// They are on, and samples that began come to their end.
    Draining(Instant, Instant),
    /// They are off until then.
    Closed(Instant),
}

/// What is not counted by the programs but here.
#[derive(Default)]
struct Aside {
    cut: u64,
    unread: u64,
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
    ///
    /// `namespaces` are those that netfilter links are made in, besides that of the calling thread.
    pub fn start(choice: Choice, ask: &Ask, namespaces: Vec<OwnedFd>) -> Result<Self, Error> {
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
        let wanted: Vec<&'static str> = choice
            .programs
            .iter()
            .map(|&(_, program)| match program {
                program if program == WIRE.0 && !ask.wires.is_empty() => WIRE.1,
                program => program,
            })
            .collect();
        listen();
        let mut open = ObjectBuilder::default()
            .name("tollgate_observe")
            .and_then(|builder| builder.open_memory(&OBJECT.0))
            .map_err(|error| Error::load("opening the BPF programs", in_words(&error)))?;
        for mut program in open.progs_mut() {
            let load = wanted.contains(&&*program.name().to_string_lossy());
            program.set_autoload(load);
        }
        let object = open
            .load()
            .map_err(|error| Error::load("loading the BPF programs", in_words(&error)))?;
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
            wanted,
            namespaces,
            links: Vec::new(),
            tidied: Instant::now(),
            pace: Pace::new(ask.every, ask.budget),
            phase: Phase::Looking(Instant::now()),
            before: (0, vec![0; count]),
            on: Duration::ZERO,
            // What is called slow must have the time to become it.
            patience: ask
                .slower_than
                .map_or(PATIENCE, |slow| (slow * 2).clamp(PATIENCE, PATIENCE * 20)),
            aside: Aside::default(),
            begun: Instant::now(),
        };
        watcher.ask(ask)?;
        watcher.attach()?;
        watcher.begun = Instant::now();
        watcher.phase = Phase::Looking(watcher.begun);
        Ok(watcher)
    }

    /// Tells the programs what is asked for.
    fn ask(&self, ask: &Ask) -> Result<(), Error> {
        let mut settings = Settings {
            every: 0,
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

    fn attach(&mut self) -> Result<(), Error> {
        let mut links = Vec::new();
        for ((hook, _), name) in self.choice.programs.iter().zip(&self.wanted) {
            let refused = |reason: String| Error::Hook {
                hook: hook.name,
                reason,
            };
            let program = self
                .object
                .progs_mut()
                .find(|program| program.name().to_string_lossy() == *name)
                .ok_or_else(|| refused("its program was not loaded".to_owned()))?;
            let Need::Netfilter(at) = hook.need else {
                let link = program.attach();
                links.push(OneLink::OfLibrary(
                    link.map_err(|error| refused(format!("{error:#}")))?,
                ));
                continue;
            };
            let fd = program.as_fd();
            let others = self.namespaces.iter().map(|fd| Namespace::Of(fd.as_fd()));
            for namespace in std::iter::once(Namespace::Own).chain(others) {
                for family in FAMILIES {
                    let made = within(namespace, || link_at_free_ranks(&[fd], family, at));
                    links.extend(made.map_err(refused)?.into_iter().map(OneLink::Own));
                }
            }
        }
        self.links = links;
        Ok(())
    }

    /// The hooks that are taken.
    pub const fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Looks after the gates and the samples: opens and closes windows, chooses by the traffic there is how many packets are
    /// sampled, takes what was slow, and gives up bytes that never arrived. To be called a hundred times a second.
    ///
    /// # Errors
    /// [`Error::Hook`] when the gates cannot be put on again, [`Error::Load`] when a map cannot be read.
    pub fn tend(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        match self.phase {
            Phase::Looking(since) if now - since >= FIRST => {
                self.choose(now - since);
                self.sample(self.pace.every());
                self.phase = Phase::Open(since, now);
            }
            Phase::Open(since, chosen) => {
                let over = now - chosen;
                if over >= WINDOW && self.pace.gap(over, 0.5).is_some() {
                    self.choose(over);
                    self.sample(0);
                    self.phase = Phase::Draining(since, now);
                } else if over >= AGAIN {
                    self.choose(over);
                    self.sample(self.pace.every());
                    self.phase = Phase::Open(since, now);
                }
            }
            Phase::Draining(since, drained)
                if self.followed() == 0 || now - drained >= self.patience =>
            {
                self.links.clear();
                self.cut();
                let open = now - since;
                self.on += open;
                let luck = (crate::observe::watcher::now() % 1_000) as f64 / 1e3;
                let gap = self.pace.gap(open, luck).unwrap_or_default();
                self.phase = Phase::Closed(now + gap);
            }
            Phase::Closed(until) if now >= until => {
                self.before = self.seen();
                self.attach()?;
                let now = Instant::now();
                self.sample(self.pace.every());
                self.phase = Phase::Open(now, now);
            }
            _ => {}
        }
        if now - self.tidied >= TIDY {
            self.tidied = now;
            self.give_up();
            self.take_slow()?;
        }
        Ok(())
    }

    /// Chooses by what passed since the last choice.
    fn choose(&mut self, over: Duration) {
        let seen = self.seen();
        let messages = seen.1.iter().zip(&self.before.1);
        let busiest = messages.map(|(now, before)| now - before).max();
        self.pace
            .choose(over, seen.0 - self.before.0, busiest.unwrap_or(0));
        self.before = seen;
    }

    /// Lets 1 in so many be sampled from now on.
    fn sample(&self, every: u32) {
        self.word(&self.settings, 0).store(every, Ordering::Relaxed);
    }

    /// Bytes that are followed.
    fn followed(&self) -> u32 {
        let at = |index| self.word(&self.followed, index).load(Ordering::Relaxed);
        at(0) + at(1)
    }

    fn processor(&self, index: usize) -> Processor {
        // SAFETY: integers only, within the mapping; the programs may write meanwhile, each field as a whole.
        unsafe { self.processors.slot::<Processor>(index).read_volatile() }
    }

    /// Candidates so far, and messages of each processor.
    fn seen(&self) -> (u64, Vec<u64>) {
        let all = (0..self.count).map(|index| self.processor(index));
        let candidates = all.clone().map(|one| one.sent.seen + one.arrived.seen);
        (candidates.sum(), all.map(|one| one.messages).collect())
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

    /// Takes a byte back that is followed in this state; whether it still was.
    fn take_back(&self, index: usize, from: u32) -> bool {
        let word = self.word(&self.passages, index * size_of::<Passage>() / 4);
        let taken = word.compare_exchange(from, state::ENDING, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            let count = usize::from(from == state::WAITING);
            self.word(&self.followed, count)
                .fetch_sub(1, Ordering::AcqRel);
            word.store(state::FREE, Ordering::Release);
        }
        taken.is_ok()
    }

    /// Gives up what never arrived. What waits for its reader may wait for ever; it is told of as such.
    fn give_up(&mut self) {
        let Some(limit) = now().checked_sub(LOST_AFTER.as_nanos() as u64) else {
            return;
        };
        for index in 0..PASSAGES {
            let passage = self.passage(index);
            if passage.state == state::ON_THE_WAY
                && passage.last().is_some_and(|(_, at)| at < limit)
                && self.take_back(index, state::ON_THE_WAY)
            {
                self.aside.vanished += 1;
            }
        }
    }

    /// Takes back all that is followed, since the gates are off.
    fn cut(&mut self) {
        for index in 0..PASSAGES {
            if self.take_back(index, state::ON_THE_WAY) {
                self.aside.cut += 1;
            } else if self.take_back(index, state::WAITING) {
                self.aside.unread += 1;
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
        self.take_slow()?;
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
        let (mut sent, mut arrived) = (0, 0);
        for processor in (0..self.count).map(|index| self.processor(index)) {
            sent += processor.sent.seen;
            arrived += processor.arrived.seen;
        }
        let on = match self.phase {
            Phase::Looking(since) | Phase::Open(since, _) | Phase::Draining(since, _) => {
                self.on + since.elapsed()
            }
            Phase::Closed(_) => self.on,
        };
        let missed = self
            .object
            .progs()
            .map(|program| missed_runs(program.as_fd()))
            .sum();
        Ok(Raw {
            at: self.begun.elapsed(),
            on,
            now: now(),
            sent,
            arrived,
            every: self.pace.every(),
            totals,
            histograms,
            flows,
            waiting,
            slow: std::mem::take(&mut self.aside.slow),
            vanished: self.aside.vanished,
            cut: self.aside.cut,
            unread: self.aside.unread,
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

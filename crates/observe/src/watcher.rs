//! The programs of `bpf/observe.bpf.c`: loaded, attached, told what is asked for, and read.
//!
//! Programs, maps and links belong to this process: when it ends, in whatever way, the kernel takes everything away again. Nothing
//! is pinned.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, RingBufferBuilder};
use tollgate_kernel::filter::Flow;
use tollgate_kernel::programs::{
    FAMILIES, Mapped, OBSERVE, Ranks, error_text, link_at_free_ranks, listen, missed_runs, within,
};
use tollgate_kernel::sample_hooks::{
    Choice, DEMUX_BOUNDARY, DRIVER_END_BOUNDARY, IP_OUT_BOUNDARY, WIRE,
};
use tollgate_kernel::{Error, KernelClock, Namespace, Need};

use crate::cost::{Calibration, Cost, Pair, ROUNDS, Round, TripCost};
use crate::memory::{
    Followed, GROUPS, OPERATIONS, PASSAGES, PROCESSORS, Passage, Processor, RawHistogram, SERVICES,
    SPANS, Service, Settings, Totals, Usage, state,
};
use crate::pace::{FIRST, LONGEST_PATIENCE, PATIENCE, Pace, SETTLE, Standing, WINDOW, patience};
use crate::series::{Amount, Amounts, Series};
use crate::{Ask, Raw};

mod tallies;

use tallies::Tallies;

/// Time that a byte may be on its way before it is given up, unless its socket is waited for.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// Interval at which slow passages are fetched and vanished bytes are given up.
const TIDY: Duration = Duration::from_millis(200);
/// Length of a part of an observation; intervals are computed from the parts.
const PART: Duration = Duration::from_millis(50);

/// Programs that observe traffic.
pub struct Watcher {
    object: Object,
    settings: Mapped,
    totals: Mapped,
    processors: Mapped,
    passages: Mapped,
    histograms: Mapped,
    followed: Mapped,
    services: Mapped,
    count: usize,
    choice: Choice,
    wanted: Vec<&'static str>,
    namespaces: Vec<OwnedFd>,
    links: Vec<OneLink>,
    pace: Pace,
    phase: Phase,
    /// The time that the samples of the present choice stand for.
    standing: Standing,
    /// The clock that the programs read.
    clock: KernelClock,
    /// Tallies when the present choice was made.
    before: Tallies,
    /// Cost of the gates, or the reason why it is not known.
    cost: Result<Cost, String>,
    calibration: Calibration,
    /// The connection that it is measured on, and what its round trips took without gates where the gates were just off.
    pair: Option<(Pair, Option<TripCost>)>,
    /// Settings of the programs while nobody measures their cost.
    base_settings: Settings,
    whole: Series,
    recent: Series,
    /// When the last part ended.
    parted: Instant,
    on: Duration,
    patience: Duration,
    tidied: Instant,
    aside: Aside,
    begun: Instant,
}

/// Link that keeps a program attached while it is open.
enum OneLink {
    OfLibrary(#[expect(dead_code, reason = "only held")] Link),
    Own(#[expect(dead_code, reason = "only held")] OwnedFd),
}

/// State of the gates.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// They are on and count, and nothing is sampled yet.
    Looking(Instant),
    /// They were put on, at the second time, after nothing was sampled since the first.
    Settling(Instant, Instant),
    /// They are on, and samples begin.
    Open {
        since: Instant,
        /// When the present choice was made; before it samples did not begin yet.
        chosen: Instant,
        begin: Instant,
    },
    /// They are on, and samples that began come to their end.
    Draining {
        since: Instant,
        chosen: Instant,
        drained: Instant,
    },
    /// They are off until the second time; nothing was sampled since the first.
    Closed(Instant, Instant),
}

/// Counts that the programs do not keep.
#[derive(Default)]
struct Aside {
    cut: u64,
    unread: u64,
    /// Bytes that never arrived where they were expected.
    vanished: u64,
    slow: Vec<Passage>,
    /// Messages that passed while the cost of the gates was measured.
    own: Own,
}

/// Counts of the programs that are not told of.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    sent: u64,
    arrived: u64,
    totals: Totals,
}

impl Own {
    /// Adds what came between two counts.
    fn add(&mut self, before: &Self, after: &Self) {
        let (own, from, to) = (&mut self.totals, &before.totals, &after.totals);
        self.sent += after.sent - before.sent;
        self.arrived += after.arrived - before.arrived;
        own.begun += to.begun - from.begun;
        own.unwanted += to.unwanted - from.unwanted;
        own.skipped += to.skipped - from.skipped;
        own.spent += to.spent - from.spent;
    }
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
            .and_then(|builder| builder.open_memory(OBSERVE))
            .map_err(|error| Error::load("opening the BPF programs", error_text(&error)))?;
        for mut program in open.progs_mut() {
            let load = wanted.contains(&&*program.name().to_string_lossy());
            program.set_autoload(load);
        }
        let object = open
            .load()
            .map_err(|error| Error::load("loading the BPF programs", error_text(&error)))?;
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
            services: map(".bss.services", SERVICES * size_of::<Service>())?,
            object,
            count,
            choice,
            wanted,
            namespaces,
            links: Vec::new(),
            tidied: Instant::now(),
            pace: Pace::new(ask.every, ask.budget),
            phase: Phase::Looking(Instant::now()),
            standing: Standing::of(0, Duration::ZERO),
            clock: KernelClock::of_this_process(),
            before: Tallies::default(),
            cost: Err(String::new()),
            calibration: Calibration::new(Instant::now()),
            pair: None,
            base_settings: Settings::default(),
            whole: Series::default(),
            recent: Series::default(),
            parted: Instant::now(),
            on: Duration::ZERO,
            // What is called slow must have the time to become it.
            patience: ask.slower_than.map_or(PATIENCE, |slow| {
                (slow * 2).clamp(PATIENCE, LONGEST_PATIENCE)
            }),
            aside: Aside::default(),
            begun: Instant::now(),
        };
        watcher.base_settings = watcher.settings(ask)?;
        watcher.measure()?;
        if watcher.links.is_empty() {
            watcher.attach()?;
        }
        watcher.before = watcher.tallies();
        watcher.aside.own.add(&Own::default(), &watcher.own());
        watcher.begun = Instant::now();
        watcher.phase = Phase::Looking(watcher.begun);
        Ok(watcher)
    }

    /// Measures what the gates cost before the first sample; an error only where they cannot be put on.
    fn measure(&mut self) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            self.links.clear();
            self.settings.write(self.base_settings);
            if !self.measure_bare() {
                return Ok(());
            }
            self.attach()?;
            self.measure_gates();
        }
        Ok(())
    }

    /// Measures the round trips without gates, which must be off. Whether it could; the reason is told where nothing is known yet.
    fn measure_bare(&mut self) -> bool {
        self.calibration.tried(Instant::now());
        if self.pair.is_none() {
            match Pair::new() {
                Ok(pair) => self.pair = Some((pair, None)),
                Err(error) => {
                    self.not_measured(format!("no connection over loopback: {error}"));
                    return false;
                }
            }
        }
        let Some((mut pair, _)) = self.pair.take() else {
            return false;
        };
        match pair.measure(|| self.totals().spent) {
            Ok(bare) => self.pair = Some((pair, Some(bare))),
            Err(error) => self.not_measured(format!("messages of our own over loopback: {error}")),
        }
        self.pair.is_some()
    }

    /// Measures the round trips with gates that let them go and with gates that follow them, after those without; the gates must be on
    /// and nothing else sampled. The programs know the new cost from then on.
    fn measure_gates(&mut self) {
        let Some((mut pair, Some(bare))) = self.pair.take() else {
            return;
        };
        let not_sampled = pair.measure(|| self.totals().spent);
        self.settings.write(pair.settings(&self.base_settings));
        self.draw(1, 1);
        let followed = pair.measure(|| self.totals().spent);
        self.draw(0, 0);
        match (not_sampled, followed) {
            (Ok(not_sampled), Ok(followed)) => {
                self.calibration.add(Round {
                    bare,
                    not_sampled,
                    followed,
                });
                self.pair = Some((pair, None));
                self.cost = self.calibration.cost(self.choice.gates_of_a_message());
                if let Ok(cost) = &self.cost {
                    self.base_settings.call = cost.call.value.round() as u32;
                }
            }
            (Err(error), _) | (_, Err(error)) => {
                self.not_measured(format!("messages of our own over loopback: {error}"));
            }
        }
        self.settings.write(self.base_settings);
        // A message of ours that did not come back is followed no longer.
        for index in 0..PASSAGES {
            let _ =
                self.take_back(index, state::ON_THE_WAY) || self.take_back(index, state::WAITING);
        }
    }

    /// Keeps the reason where no cost is known; what is known stays so.
    fn not_measured(&mut self, reason: String) {
        if self.cost.is_err() {
            self.cost = Err(reason);
        }
    }

    /// Measures once more between the putting on of the gates and the first sample. Messages that pass meanwhile are
    /// in no count. Says whether it measured.
    fn measure_again(&mut self) -> bool {
        if !matches!(self.pair, Some((_, Some(_)))) {
            return false;
        }
        let before = self.own();
        self.measure_gates();
        self.aside.own.add(&before, &self.own());
        self.before = self.tallies();
        true
    }

    /// Counts that what passes at the moment is added to.
    fn own(&self) -> Own {
        let tallies = self.tallies();
        Own {
            sent: tallies.sent,
            arrived: tallies.arrived,
            totals: self.totals(),
        }
    }

    /// Amounts counted of each span so far.
    fn amounts(&self) -> Amounts {
        std::array::from_fn(|index| {
            // The head of a histogram, without its places.
            let at = self
                .histograms
                .slot::<RawHistogram>(index)
                .cast::<[u64; 3]>();
            // SAFETY: within the mapping, aligned, integers that are each changed as a whole.
            let [_, weight, sum] = unsafe { at.read_volatile() };
            Amount {
                weight,
                sum: sum.cast_signed(),
            }
        })
    }

    /// Ends a part of the observation.
    fn part(&mut self, now: Instant) {
        self.parted = now;
        let amounts = self.amounts();
        self.whole.add(&amounts);
        self.recent.add(&amounts);
    }

    fn totals(&self) -> Totals {
        // SAFETY: integers only, within the mapping, each changed as a whole.
        unsafe { self.totals.slot::<Totals>(0).read_volatile() }
    }

    /// Settings of the programs for this request.
    fn settings(&self, ask: &Ask) -> Result<Settings, Error> {
        let mut settings = Settings {
            operations: ask.filter.len() as u32,
            by_group: u32::from(!ask.groups.is_empty()),
            by_cgroup: u32::from(ask.cgroups.is_some()),
            interface: ask.interface,
            namespace: ask.namespace,
            has_ip_out: u32::from(self.choice.takes(IP_OUT_BOUNDARY)),
            has_demux: u32::from(self.choice.takes(DEMUX_BOUNDARY)),
            has_driver_end: u32::from(self.choice.takes(DRIVER_END_BOUNDARY)),
            has_calls: u32::from(self.choice.takes_calls()),
            slower_than: ask
                .slower_than
                .map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            ..Settings::default()
        };
        let too_many = |what, found, most| Error::TooMany { what, found, most };
        if ask.filter.len() > OPERATIONS {
            return Err(too_many("parts of a filter", ask.filter.len(), OPERATIONS));
        }
        if ask.groups.len() > GROUPS {
            return Err(too_many("processes", ask.groups.len(), GROUPS));
        }
        settings.operation[..ask.filter.len()].copy_from_slice(&ask.filter);
        settings.groups[..ask.groups.len()].copy_from_slice(&ask.groups);
        let cgroups = ask.cgroups.iter().flatten();
        self.put("cgroups", cgroups.map(|id| id.to_ne_bytes()))?;
        self.put("wires", ask.wires.iter().map(|wire| wire.to_ne_bytes()))?;
        Ok(settings)
    }

    /// Puts keys into a set of the programs.
    fn put<const N: usize>(
        &self,
        name: &'static str,
        keys: impl Iterator<Item = [u8; N]>,
    ) -> Result<(), Error> {
        let map = self.map(name)?;
        for key in keys {
            map.update(&key, &[1], MapFlags::ANY)
                .map_err(|error| Error::load("naming what is asked for", error))?;
        }
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
                    let made = within(namespace, || {
                        link_at_free_ranks(&[fd], family, at, Ranks::Gates)
                    });
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
                self.phase = self.choose_again(since, now - since, Duration::ZERO, now);
            }
            Phase::Settling(unseen, since) if now - since >= SETTLE => {
                let measured = self.measure_again();
                let begin = Instant::now();
                self.sample(begin - unseen);
                self.phase = Phase::Open {
                    since,
                    chosen: if measured { begin } else { since },
                    begin,
                };
            }
            Phase::Open {
                since,
                chosen,
                begin,
            } => {
                let over = now - chosen;
                let passed = self.tallies().since(&self.before);
                let is_long = now - begin >= WINDOW;
                let closes =
                    self.pace.gap(over, passed, 0.5).is_some() || self.calibration.is_overdue(now);
                if is_long && closes {
                    self.draw(0, 0);
                    self.phase = Phase::Draining {
                        since,
                        chosen,
                        drained: now,
                    };
                } else if is_long || self.pace.is_late(over, passed) {
                    let unseen = self.standing.rest(now - begin);
                    self.phase = self.choose_again(since, over, unseen, now);
                }
            }
            Phase::Draining {
                since,
                chosen,
                drained,
            } if self.followed() == 0 || now - drained >= self.patience => {
                let passed = self.tallies().since(&self.before);
                self.links.clear();
                self.patience = patience(self.patience, self.cut(), passed.samples);
                self.on += now - since;
                self.pace.choose(now - chosen, passed);
                let luck = (self.clock.now() % 1_000) as f64 / 1e3;
                let gap = self.pace.gap(now - chosen, passed, luck);
                self.phase = Phase::Closed(drained, now + gap.unwrap_or_default());
            }
            Phase::Closed(unseen, until) if now >= until => {
                if self.calibration.is_due(now) {
                    self.measure_bare();
                }
                self.before = self.tallies();
                self.attach()?;
                self.phase = Phase::Settling(unseen, Instant::now());
            }
            _ => {}
        }
        if now - self.parted >= PART {
            self.part(now);
        }
        if now - self.tidied >= TIDY {
            self.tidied = now;
            self.give_up();
            self.take_slow()?;
        }
        Ok(())
    }

    /// Chooses by what passed since the last choice, `over` ago, while the gates stay on and samples begin; nothing stands for `unseen` yet.
    fn choose_again(
        &mut self,
        since: Instant,
        over: Duration,
        unseen: Duration,
        now: Instant,
    ) -> Phase {
        let tallies = self.tallies();
        self.pace.choose(over, tallies.since(&self.before));
        self.before = tallies;
        self.sample(unseen);
        Phase::Open {
            since,
            chosen: now,
            begin: now,
        }
    }

    /// Lets samples begin, after none began for so long.
    fn sample(&mut self, unseen: Duration) {
        let every = self.pace.every();
        self.standing = Standing::of(every, unseen);
        let until = self.clock.now() + self.standing.length.as_nanos() as u64;
        let at = self.settings.slot::<AtomicU64>(1);
        // SAFETY: within the mapping, aligned, and the programs read the word at once.
        unsafe { at.as_ref() }.store(until, Ordering::Release);
        self.draw(every, self.standing.weight);
    }

    /// Lets 1 in so many be sampled from now on, standing for so many; 0 lets none.
    fn draw(&self, every: u32, weight: u32) {
        let at = self.settings.slot::<AtomicU64>(0);
        // SAFETY: within the mapping, aligned, and the programs read both words at once.
        let both = unsafe { at.as_ref() };
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&every.to_ne_bytes());
        bytes[4..].copy_from_slice(&weight.to_ne_bytes());
        both.store(u64::from_ne_bytes(bytes), Ordering::Release);
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

    fn tallies(&self) -> Tallies {
        let totals = self.totals();
        let mut tallies = Tallies {
            samples: totals.begun,
            skipped: totals.skipped,
            ..Tallies::default()
        };
        for processor in (0..self.count).map(|index| self.processor(index)) {
            tallies.sent += processor.sent;
            tallies.arrived += processor.arrived;
            tallies.messages.push(processor.messages);
        }
        tallies
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
        let Some(limit) = self.clock.now().checked_sub(LOST_AFTER.as_nanos() as u64) else {
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

    /// Takes back all that is followed, since the gates are off; how many bytes were still on the way.
    fn cut(&mut self) -> u64 {
        let before = self.aside.cut;
        // What a reader sends while the gates are off is not seen.
        self.services.write([Service::default(); SERVICES]);
        for index in 0..PASSAGES {
            if self.take_back(index, state::ON_THE_WAY) {
                self.aside.cut += 1;
            } else if self.take_back(index, state::WAITING) {
                self.aside.unread += 1;
            }
        }
        self.aside.cut - before
    }

    fn take_slow(&mut self) -> Result<(), Error> {
        let mut taken = Vec::new();
        {
            let map = self.map("slow")?;
            let mut builder = RingBufferBuilder::new();
            builder
                .add(&map, |bytes: &[u8]| {
                    taken.extend(Passage::from_map(bytes));
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
        self.part(Instant::now());
        let next = Series::since(self.amounts());
        let recent = std::mem::replace(&mut self.recent, next);
        let mut histograms = Vec::with_capacity(SPANS);
        for index in 0..SPANS {
            let at = self.histograms.slot::<RawHistogram>(index);
            // SAFETY: integers only, within the mapping, each changed as a whole.
            histograms.push(Box::new(unsafe { at.read_volatile() }));
        }
        let mut totals = self.totals();
        let own = self.aside.own;
        totals.begun -= own.totals.begun;
        // Those of our own are of no process that was asked for.
        totals.unwanted -= own.totals.unwanted;
        totals.skipped -= own.totals.skipped;
        totals.spent -= own.totals.spent;
        let mut flows = HashMap::new();
        let map = self.map("flows")?;
        for key in map.keys() {
            let value = map
                .lookup(&key, MapFlags::ANY)
                .map_err(|error| Error::load("reading connections", error))?;
            if let (Some(flow), Some(usage)) = (
                Flow::from_map(&key),
                value.as_deref().and_then(Usage::from_map),
            ) {
                flows.insert(flow, usage);
            }
        }
        let waiting = (0..PASSAGES)
            .map(|index| self.passage(index))
            .filter(|passage| matches!(passage.state, state::ON_THE_WAY | state::WAITING))
            .collect();
        let tallies = self.tallies();
        let on = match self.phase {
            Phase::Looking(since)
            | Phase::Settling(_, since)
            | Phase::Open { since, .. }
            | Phase::Draining { since, .. } => self.on + since.elapsed(),
            Phase::Closed(..) => self.on,
        };
        let missed = self
            .object
            .progs()
            .map(|program| missed_runs(program.as_fd()))
            .sum();
        Ok(Raw {
            at: self.begun.elapsed(),
            on,
            now: self.clock.now(),
            sent: tallies.sent - own.sent,
            arrived: tallies.arrived - own.arrived,
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
            whole: self.whole.clone(),
            recent,
            cost: self.cost.clone(),
        })
    }
}

/// Type that the programs write into maps as it is.
trait FromMap: Copy {
    /// The value that the bytes begin with; none when they are too few.
    fn from_map(bytes: &[u8]) -> Option<Self>;
}

macro_rules! from_map {
    ($($kind:ty),*) => {$(
        impl FromMap for $kind {
            fn from_map(bytes: &[u8]) -> Option<Self> {
                if bytes.len() < size_of::<Self>() {
                    return None;
                }
                // SAFETY: there are enough bytes, and every pattern of bits is one of these integers.
                Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
            }
        }
    )*};
}
from_map!(Passage, Flow, Usage);

#[cfg(test)]
mod tests;

//! Context of an experiment: the options, its time, the request to stop, and the receiver of its progress.

use std::any::Any;
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollgate_budget::valgrind::Program;
use tollgate_qemu::counts::Counts;
use tollgate_run::{Mode, PathId, Placement, Waiting, format};
use tollgate_sampling::Categories;
use tollgate_workload::remote::{CAPABILITIES, KernelRemote, Target};
use tollgate_workload::stack_to::{Checksums, Shared, StackTo, Way};
use tollgate_workload::{
    Capabilities, CellFaults, LinkKind, Mechanisms, Nagle, Path, carries_datagrams, find, reverses,
};

use crate::error::Error;

/// Message sizes in bytes, as in Wolman, Voelker and Thekkath 1994.
pub const SIZES: [usize; 8] = [4, 20, 80, 200, 500, 1_400, 4_000, 8_000];
/// Iterations of a repetition: with [`REPETITIONS`] as many as the three times 40,000 of Wolman, Voelker and Thekkath 1994,
/// section 1.2.
pub const ITERATIONS: u64 = 20_000;
/// Repetitions: sessions that are opened anew. An interval is told from what differs between them, for which three are few.
pub const REPETITIONS: u32 = 6;

/// Bits per second of a line when none is asked for: that of a common server's port today. Lehmann and Benz 2002 had a tenth of it.
pub const LINE_RATE: u64 = 10_000_000_000;

/// Divisor of the budget for work that takes a fixed time.
const KEPT: u32 = 3;

/// A capture that was replayed into a one-entry cache of connections for each host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The file, as it was named.
    pub file: String,
    /// Hosts that received TCP, those with most segments first.
    pub hosts: Vec<ReplayedHost>,
    /// Segments of all hosts, and those that their caches served.
    pub all: (u64, u64),
    /// Places at which the file was damaged, and what lies there was left out.
    pub damaged_places: u64,
}

/// The cache of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedHost {
    /// Its address.
    pub address: IpAddr,
    /// TCP segments that it received.
    pub segments: u64,
    /// Those of the same connection as the one before.
    pub hits: u64,
    /// Its connections.
    pub connections: u64,
}

/// Requests of the user; `None` leaves a choice to the experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The paths to compare, in this order; all that can run it unless given.
    pub paths: Option<Vec<PathId>>,
    /// Bytes per message or write.
    pub sizes: Option<Vec<usize>>,
    /// Only this placement.
    pub placement: Option<Placement>,
    /// Only this way of waiting.
    pub waiting: Option<Waiting>,
    /// Iterations of a repetition, [`ITERATIONS`] unless given.
    pub iterations: Option<u64>,
    /// Repetitions, [`REPETITIONS`] unless given.
    pub repetitions: Option<u32>,
    /// Samples per second and processor, [`RATE`](tollgate_sampling::RATE) unless given.
    pub rate: Option<u32>,
    /// The categories of sampled processor time; the experiment's own unless given.
    pub categories: Option<Categories>,
    /// The host on which the other end of [`PathId::KernelRemote`] runs; without it there is no such path.
    pub to: Option<Target>,
    /// The interface on which our stack reaches that host by `stack-packet` or `stack-xdp`.
    pub shared: Option<Shared>,
    /// Bits per second of the line for which packets have a budget of time, [`LINE_RATE`] unless given.
    pub line_rate: Option<u64>,
    /// The mechanisms of Tollgate's stack, and Nagle's algorithm on every path that has one: see
    /// [`Spec::mechanisms`](tollgate_workload::Spec::mechanisms).
    pub mechanisms: Mechanisms,
    /// The link between Tollgate's stacks, see [`Spec::link`](tollgate_workload::Spec::link).
    pub link: LinkKind,
    /// Faults of its line, see [`Spec::cells`](tollgate_workload::Spec::cells).
    pub cells: CellFaults,
    /// Bytes of the largest IP packet on every path; as each has it unless given.
    pub mtu: Option<usize>,
    /// A capture of which the hosts' one-entry caches are told.
    pub replayed: Option<Replayed>,
    /// Ledgers are made with two gates at a time ([`Sets::GENTLE`](tollgate_measure::schedule::Sets::GENTLE)).
    pub gentle: bool,
    /// Streams come to the timed end ([`Spec::reverse`](tollgate_workload::Spec::reverse)).
    pub reverse: bool,
    /// Messages of request-response are datagrams ([`Transport::Udp`](tollgate_workload::Transport::Udp)).
    pub datagrams: bool,
}

impl Options {
    /// Tells whether Nagle's algorithm is on.
    #[must_use]
    pub fn nagle(&self) -> bool {
        self.mechanisms.nagle == Nagle::On
    }

    /// The way on which our stack reaches `to`, an echo or a discard; `None` where that is a server of ours, or nobody.
    #[must_use]
    pub fn way_to_a_service(&self) -> Option<Way> {
        self.to.as_ref()?;
        match (self.paths.as_deref()?, &self.shared) {
            ([PathId::StackTap], None) => Some(Way::Tap),
            ([PathId::StackPacket], Some(shared)) => Some(Way::Packet(shared.clone())),
            ([PathId::StackXdp], Some(shared)) => Some(Way::Xdp(shared.clone())),
            _ => None,
        }
    }

    /// Tells whether only one session can be open at a time: two stacks at one address would reset each other's connections.
    #[must_use]
    pub const fn is_sequential(&self) -> bool {
        self.shared.is_some()
    }

    /// The mechanisms that Tollgate's stack alone has, and that are not the default, by name.
    pub fn stack_mechanisms(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        self.mechanisms
            .changed()
            .filter(|(name, _)| *name != Nagle::NAME)
    }

    /// The flags of the command that give the options which differ from the usual, each with a space before it.
    #[must_use]
    pub fn flags(&self) -> String {
        let mut flags = String::new();
        let mut add = |flag: &str, values: Vec<String>| {
            flags.push_str(&format!(" --{flag} {}", format::quoted(&values.join(","))));
        };
        if let Some(host) = &self.to {
            add("to", vec![host.to_string()]);
        }
        if let Some(Shared {
            interface, place, ..
        }) = &self.shared
        {
            add("on", vec![interface.clone()]);
            add(
                "address",
                vec![format!("{}/{}", place.address, place.prefix)],
            );
            if let Some(gateway) = place.gateway {
                add("gateway", vec![gateway.to_string()]);
            }
            if let Some(ipv6) = place.ipv6 {
                add("address", vec![format!("{}/{}", ipv6.address, ipv6.prefix)]);
                if let Some(gateway) = ipv6.gateway {
                    add("gateway", vec![gateway.to_string()]);
                }
            }
        }
        let implied = self.to.is_some() && self.paths.as_deref() == Some(&[PathId::KernelRemote]);
        if let Some(paths) = self.paths.as_ref().filter(|_| !implied) {
            add("path", paths.iter().map(ToString::to_string).collect());
        }
        if let Some(sizes) = &self.sizes {
            add("size", sizes.iter().map(ToString::to_string).collect());
        }
        if let Some(placement) = self.placement {
            let cores = match placement {
                Placement::OneCore => "1",
                Placement::TwoCores => "2",
            };
            add("cores", vec![cores.to_owned()]);
        }
        if let Some(waiting) = self.waiting {
            let wait = match waiting {
                Waiting::Blocking => "block",
                Waiting::BusyPoll => "poll",
            };
            add("wait", vec![wait.to_owned()]);
        }
        if let Some(iterations) = self.iterations {
            add("iterations", vec![iterations.to_string()]);
        }
        if let Some(repetitions) = self.repetitions {
            add("repetitions", vec![repetitions.to_string()]);
        }
        if let Some(rate) = self.rate {
            add("rate", vec![rate.to_string()]);
        }
        if let Some(categories) = &self.categories {
            add("categories", vec![categories.file.clone()]);
        }
        if let Some(rate) = self.line_rate {
            add("line-rate", vec![rate.to_string()]);
        }
        let checksums = self.shared.as_ref().map(|shared| shared.checksums);
        if checksums == Some(Checksums::Trust) {
            flags.push_str(" --trust-checksums");
        }
        if self.nagle() {
            flags.push_str(" --nagle");
        }
        for (name, value) in self.stack_mechanisms() {
            flags.push_str(&format!(" --set {name}={value}"));
        }
        if self.link != LinkKind::Ethernet {
            flags.push_str(&format!(" --link {}{}", self.link, self.cells));
        }
        if let Some(mtu) = self.mtu {
            flags.push_str(&format!(" --mtu {mtu}"));
        }
        if let Some(replayed) = &self.replayed {
            flags.push_str(&format!(" --capture {}", format::quoted(&replayed.file)));
        }
        if self.gentle {
            flags.push_str(" --gentle");
        }
        if self.reverse {
            flags.push_str(" --reverse");
        }
        if self.datagrams {
            flags.push_str(" --udp");
        }
        flags
    }

    /// The sizes to measure; `usual` unless given.
    #[must_use]
    pub fn sizes_or(&self, usual: &[usize]) -> Vec<usize> {
        self.sizes.clone().unwrap_or_else(|| usual.to_vec())
    }

    /// Tells whether the user wants this path. A stack of ours beside Linux has to be named: a session makes devices and namespaces,
    /// which takes longer than all that others measure in that time.
    #[must_use]
    pub fn wants(&self, path: PathId) -> bool {
        match &self.paths {
            Some(paths) => paths.contains(&path),
            None => {
                !path.is_stack_beside_linux()
                    && (!self.reverse || reverses(path))
                    && (!self.datagrams || carries_datagrams(path))
            }
        }
    }

    /// Tells whether the user wants one of these paths.
    #[must_use]
    pub(crate) fn wants_any(&self, paths: &[PathId]) -> bool {
        paths.iter().any(|&path| self.wants(path))
    }

    /// Tells whether the user wants `stack-memory`, which both ends run on one core, polling.
    #[must_use]
    pub(crate) fn want_stack_memory(&self) -> bool {
        self.wants(PathId::StackMemory)
            && self
                .placement
                .is_none_or(|placement| placement == Placement::OneCore)
            && self
                .waiting
                .is_none_or(|waiting| waiting == Waiting::BusyPoll)
    }

    /// The capabilities of a path; `None` when there is none of that name, or it takes a host and none is given.
    pub fn capabilities(&self, path: PathId) -> Option<Capabilities> {
        match path {
            PathId::KernelRemote => self.to.as_ref().map(|_| CAPABILITIES),
            _ => find(path).map(Path::capabilities),
        }
    }

    /// The mode of a path in which gates take turns: both ends on one core where that fits, since waking another core takes
    /// longer than all spans together, and never twice the same.
    pub(crate) fn gated_mode(&self, capabilities: &Capabilities) -> Option<Mode> {
        let modes = self.modes(capabilities);
        let one_core = |mode: &&Mode| mode.placement == Placement::OneCore;
        modes.iter().find(one_core).or(modes.first()).copied()
    }

    /// The modes of a path that fit.
    pub fn modes(&self, capabilities: &Capabilities) -> Vec<Mode> {
        capabilities
            .modes
            .iter()
            .copied()
            .filter(|mode| {
                self.placement
                    .is_none_or(|placement| placement == mode.placement)
                    && self.waiting.is_none_or(|waiting| waiting == mode.waiting)
            })
            .collect()
    }

    /// The options that restrict what runs, as they are typed, for messages.
    #[must_use]
    pub fn restrictions(&self) -> String {
        let restricting = Self {
            paths: self.paths.clone(),
            to: self.to.clone(),
            placement: self.placement,
            waiting: self.waiting,
            mechanisms: self.mechanisms,
            datagrams: self.datagrams,
            ..Self::default()
        };
        match restricting.flags().trim_start() {
            "" => "all paths, in all modes".to_owned(),
            flags => flags.to_owned(),
        }
    }
}

/// Asks running experiments to stop; clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that is also raised elsewhere, for example by a signal handler.
    #[must_use]
    pub fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// The flag, for those who know no more of it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Asks to stop after the slice under way.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Tells whether to stop.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Receiver of progress: what runs and how long is left.
pub trait Progress {
    /// `what` runs now; a share `done` (0 to 1) of all is done, and about `left` is left.
    fn update(&self, what: &str, done: f64, left: Duration);
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn update(&self, _what: &str, _done: f64, _left: Duration) {}
}

/// Context of an experiment.
pub struct Context<'a> {
    /// The requests of the user.
    pub options: Options,
    /// Raised when it is to stop.
    pub cancel: Cancel,
    /// The program that runs itself under Callgrind; `None` where instructions cannot be counted.
    pub counter: Option<Program>,
    /// A kernel's instructions, counted in QEMU before; `None` when nobody gave them.
    pub linux_counts: Option<Counts>,
    /// The server of `options.to`, when it has said welcome.
    pub remote: Option<KernelRemote>,
    /// The server of `options.to` that our stack reaches.
    pub service: Option<StackTo>,
    /// Tells whether no experiment is left out where the time is spent, since what follows needs all of them.
    pub needs_all: bool,
    progress: &'a dyn Progress,
    clock: Box<dyn Fn() -> Instant + 'a>,
    begun: Instant,
    /// For all experiments together; `None` takes what it needs.
    budget: Option<Duration>,
    /// When the experiment under way must end.
    ends: Option<Instant>,
    /// Expected for the experiments after the one under way.
    later: Duration,
    /// The part of the budget that is kept back for what takes a fixed time.
    kept: Duration,
    /// The experiment that runs at the moment.
    title: &'static str,
    /// The measurements that several experiments share.
    kept_for_others: RefCell<Vec<Rc<dyn Any>>>,
}

impl<'a> Context<'a> {
    /// A context whose time begins now.
    pub fn new(
        options: Options,
        budget: Option<Duration>,
        cancel: Cancel,
        progress: &'a dyn Progress,
    ) -> Self {
        Self::by_clock(options, budget, cancel, progress, Box::new(Instant::now))
    }

    /// A context whose time is that of a clock.
    pub(crate) fn by_clock(
        options: Options,
        budget: Option<Duration>,
        cancel: Cancel,
        progress: &'a dyn Progress,
        clock: Box<dyn Fn() -> Instant + 'a>,
    ) -> Self {
        Self {
            options,
            cancel,
            counter: None,
            linux_counts: None,
            remote: None,
            service: None,
            needs_all: false,
            progress,
            begun: clock(),
            clock,
            budget,
            ends: None,
            later: Duration::ZERO,
            kept: Duration::ZERO,
            title: "",
            kept_for_others: RefCell::default(),
        }
    }

    /// The time now.
    pub(crate) fn now(&self) -> Instant {
        (self.clock)()
    }

    /// The time since the beginning.
    fn spent(&self) -> Duration {
        self.now().saturating_duration_since(self.begun)
    }

    /// Tells whether a path is our stack's way to a service.
    pub(crate) fn is_way(&self, id: PathId) -> bool {
        self.service
            .as_ref()
            .is_some_and(|service| service.id() == id)
    }

    /// The path of this name; `None` when it cannot be opened here.
    pub(crate) fn path(&self, id: PathId) -> Option<&dyn Path> {
        match id {
            PathId::KernelRemote => self.remote.as_ref().map(|remote| remote as &dyn Path),
            _ => match &self.service {
                Some(service) if self.is_way(id) => Some(service),
                _ => find(id).map(|path| path as &dyn Path),
            },
        }
    }

    /// Gives the experiment called `title` a share of `weight` among the `weights` of all that are still to run.
    pub(crate) fn begin(&mut self, title: &'static str, weight: u32, weights: u32) {
        self.title = title;
        let Some(budget) = self.budget else {
            return;
        };
        let left = budget.saturating_sub(self.spent() + self.kept);
        let own = left.mul_f64(f64::from(weight) / f64::from(weights.max(1)));
        self.ends = Some(self.now() + own);
        self.later = left.saturating_sub(own) + self.kept;
    }

    /// Keeps a third of the budget back for the experiments that take a fixed time, which come last.
    pub(crate) fn keep_back(&mut self) {
        self.kept = self.budget.unwrap_or_default() / KEPT;
    }

    /// Gives the experiment called `title` all that is left of the budget: what was kept back, unless a slow machine took it.
    pub(crate) fn begin_kept(&mut self, title: &'static str) {
        self.title = title;
        let Some(budget) = self.budget else {
            return;
        };
        let left = budget.saturating_sub(self.spent());
        self.ends = Some(self.now() + left);
        self.later = Duration::ZERO;
    }

    /// Tells whether all of the budget is spent.
    pub(crate) fn is_spent(&self) -> bool {
        self.budget.is_some_and(|budget| self.spent() >= budget)
    }

    /// The time that is left for the experiment under way; `None` for as long as it needs.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.ends
            .map(|ends| ends.saturating_duration_since(self.now()))
    }

    /// Runs a part of the experiment under way within a share (0 to 1) of the time that is left for it.
    pub(crate) fn within_share<T>(&mut self, share: f64, part: impl FnOnce(&mut Self) -> T) -> T {
        let (ends, later) = (self.ends, self.later);
        if let Some(left) = self.remaining() {
            let own = left.mul_f64(share);
            self.ends = Some(self.now() + own);
            self.later += left - own;
        }
        let done = part(self);
        (self.ends, self.later) = (ends, later);
        done
    }

    /// Shares one measurement between several experiments: returns the one of this type that `is` accepts, or makes it at the first
    /// call.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn once<T: 'static>(
        &self,
        is: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Rc<T>, Error> {
        let kept = self.kept_for_others.borrow().iter().find_map(|one| {
            let one = Rc::clone(one).downcast::<T>().ok()?;
            is(&one).then_some(one)
        });
        match kept {
            Some(kept) => Ok(kept),
            None => {
                let made = Rc::new(make()?);
                let kept: Rc<dyn Any> = Rc::<T>::clone(&made);
                self.kept_for_others.borrow_mut().push(kept);
                Ok(made)
            }
        }
    }

    /// Says what runs, and how long this experiment still needs.
    pub fn tell(&self, what: &str, left_here: Duration) {
        let left = left_here + self.later;
        let spent = self.spent();
        let whole = (spent + left).as_secs_f64();
        let done = if whole > 0.0 {
            spent.as_secs_f64() / whole
        } else {
            0.0
        };
        let what = if what.is_empty() {
            self.title.to_owned()
        } else {
            format!("{}: {what}", self.title)
        };
        self.progress.update(&what, done, left);
    }
}

/// Refuses a time in which not even the `least` of a plan can be measured; of that a machine may need the part `sooner` alone.
///
/// # Errors
/// [`Error::NoTime`].
pub(crate) fn check_time(
    experiment: &'static str,
    (least, sooner): (Duration, f64),
    left: Option<Duration>,
) -> Result<(), Error> {
    match left {
        Some(left) if left < least.mul_f64(sooner) => Err(Error::NoTime {
            experiment,
            least,
            left,
        }),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[derive(Default)]
    struct Last(RefCell<Option<(String, f64, Duration)>>);

    impl Progress for Last {
        fn update(&self, what: &str, done: f64, left: Duration) {
            *self.0.borrow_mut() = Some((what.to_owned(), done, left));
        }
    }

    #[test]
    fn the_budget_is_shared_by_weight() {
        let mut context = Context::new(
            Options::default(),
            Some(Duration::from_secs(3_600)),
            Cancel::default(),
            &Silent,
        );
        context.begin("first", 1, 4);
        let first = context.remaining().unwrap().as_secs_f64();
        assert!((800.0..=900.0).contains(&first), "{first}");
        context.begin("last", 3, 3);
        let last = context.remaining().unwrap().as_secs_f64();
        assert!((3_500.0..=3_600.0).contains(&last), "{last}");
    }

    #[test]
    fn a_third_of_the_budget_is_kept_for_what_takes_a_fixed_time() {
        let hour = Some(Duration::from_secs(3_600));
        let mut context = Context::new(Options::default(), hour, Cancel::default(), &Silent);
        context.keep_back();
        context.begin("all that is measured", 1, 1);
        let measured = context.remaining().unwrap().as_secs_f64();
        assert!((2_300.0..=2_400.0).contains(&measured), "{measured}");
        context.begin_kept("what is counted");
        let counted = context.remaining().unwrap();
        assert!(counted > Duration::from_secs(1_200), "{counted:?}");
    }

    #[test]
    fn what_is_left_includes_the_later_experiments() {
        let last = Last::default();
        let mut context = Context::new(
            Options::default(),
            Some(Duration::from_secs(3_600)),
            Cancel::default(),
            &last,
        );
        context.begin("first", 1, 2);
        context.tell("4 bytes", Duration::from_secs(60));
        let (what, done, left) = last.0.borrow().clone().unwrap();
        assert_eq!(what, "first: 4 bytes");
        assert!(done < 0.1);
        assert!(left > Duration::from_secs(1_800) && left <= Duration::from_secs(1_860));
    }

    #[test]
    fn without_a_budget_there_is_no_end() {
        let mut context = Context::new(Options::default(), None, Cancel::default(), &Silent);
        context.begin("only", 1, 1);
        assert_eq!(context.remaining(), None);
    }

    #[test]
    fn modes_are_restricted() {
        let path = find(PathId::KernelLoopback).unwrap();
        let mut options = Options::default();
        assert_eq!(options.modes(&path.capabilities()).len(), 3);
        options.placement = Some(Placement::OneCore);
        assert_eq!(options.modes(&path.capabilities()).len(), 1);
        options.waiting = Some(Waiting::BusyPoll);
        assert!(options.modes(&path.capabilities()).is_empty());
        assert_eq!(options.restrictions(), "--cores 1 --wait poll");
    }
}

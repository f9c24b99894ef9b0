//! The ledgers of a path by message size: measured once by `tollgate_measure`, shown by several experiments.
//!
//! Owns how much is measured, and which span of the tables each stretch between two gates belongs to. It must never compute a
//! time: the ledger does.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_gate::span::Position;
use tollgate_gate::{Direction, Gate, Layer, STACK, Span, SpanTable};
use tollgate_kernel::Plan;
use tollgate_measure::gated::{self, Amount, Gated, Reopened};
use tollgate_measure::kernel::Kernel;
use tollgate_measure::remote::{Boundaries, OneWay, Remote};
use tollgate_measure::schedule::Sets;
use tollgate_measure::stack_link::{Sleeps, StackLink};
use tollgate_measure::stack_memory::{self, StackMemory};
use tollgate_measure::{Figure, Host, Ledger, Limit, Way};
use tollgate_run::{
    Interval, Measured, Mode, Offload, PathId, Placement, Waiting, Workload, format,
};
use tollgate_workload::{Sockets, Spec, Transport, find_with_mtu};

use crate::context::Context;
use crate::control::between_slices;
use crate::error::Error;

/// Round trips of a slice: attaching gates takes the kernel as long as many of them.
const KERNEL_ROUND_TRIPS: u64 = 64;
/// Round trips of a slice of `stack-memory`, in which a batch is 16.
const STACK_ROUND_TRIPS: u64 = 256;
/// Round trips of a slice over a link: that the other end is woken takes as long as some of them.
const LINK_ROUND_TRIPS: u64 = 128;
/// Blocks without a time budget.
const BLOCKS: u32 = 60;
/// The fewest blocks: a bootstrap over less of them often draws none that tells two of sixteen gates apart.
const LEAST_BLOCKS: u32 = 10;
/// The MTU that Wolman et al. 1994 had on ATM, section 1.2: "close to our ATM MTU of 9K".
const ATM_MTU: usize = 9_000;
/// The largest packet of IPv4 (RFC 791, 3.1).
const LARGEST_MTU: usize = 65_535;
/// Headers of IP and TCP with timestamps.
const HEADERS: usize = 52;
/// Two of our stacks in one thread, in the one mode that they have.
const STACK_MEMORY: (PathId, Mode) = (
    PathId::StackMemory,
    Mode {
        placement: Placement::OneCore,
        waiting: Waiting::BusyPoll,
    },
);
/// Seed of the sets of gates and of the bootstrap.
const SEED: u64 = 1;
/// Round trips of the slice that bounds the times of one way between two hosts.
const ONE_WAY_ROUND_TRIPS: u64 = 256;

/// The ledgers of one path in one mode.
#[derive(Debug, Clone)]
pub(crate) struct Ledgers {
    pub(crate) path: PathId,
    pub(crate) mode: Mode,
    /// The protocol of its messages.
    pub(crate) transport: Transport,
    /// The span that each stretch of the way belongs to, in the order of the way. A span may have several stretches.
    pub(crate) spans: Vec<Span>,
    /// Times that a round trip passes each gate.
    pub(crate) passages: usize,
    /// The kernel's hook plan; none for our own stack, and none where there are two hosts.
    pub(crate) plan: Option<Plan>,
    /// The data of the two hosts, where there are two.
    pub(crate) hosts: Option<Hosts>,
    /// Tells whether each block has sessions of its own; all are of one session otherwise.
    pub(crate) anew: bool,
    /// In the order of the sizes.
    pub(crate) sizes: Vec<Sized>,
    /// The user stopped it.
    pub(crate) stopped: bool,
}

/// Data of two hosts beside their ledger.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    /// The server, as the user named it.
    pub(crate) server: String,
    /// The host that has each stretch; none has what lies between them.
    pub(crate) of_stretches: Vec<Option<Host>>,
    /// The boundaries that each host's kernel allows, in the order of [`Host::BOTH`].
    boundaries: [Boundaries; 2],
    /// The bounds of the one-way times between them, in the order of the sizes; or the reason why there are none.
    pub(crate) ways: Vec<Result<OneWay, String>>,
    /// The time until gates were live.
    pub(crate) start_up: Duration,
}

impl Hosts {
    pub(crate) const fn boundaries(&self, host: Host) -> &Boundaries {
        &self.boundaries[host as usize]
    }
}

/// The ledger of one size.
#[derive(Debug, Clone)]
pub(crate) struct Sized {
    pub(crate) size: usize,
    /// The ledger, or why there is none.
    pub(crate) ledger: Result<Ledger, String>,
    /// Messages that were sent while gates watched.
    pub(crate) messages: u64,
    /// Those of them that passed every gate that was there.
    pub(crate) joined: u64,
    /// Events that found no room.
    pub(crate) lost: u64,
    /// Sleeps of our end without gates and with, where it is one end of a link.
    pub(crate) sleeps: Option<[Sleeps; 2]>,
}

/// The application's turn behind the last gate of our stack's way.
const APPLICATION: Span = Span {
    name: "application",
    direction: Direction::Between,
    layer: Layer::Socket,
    kind: tollgate_gate::Kind::Processing,
    wolman: None,
    kay_pasquale: &[],
    position: Position::OnTheWay,
    from: Gate::SocketInEnd,
    to: Gate::ApplicationEnd,
};

/// Span between the ends where ours alone has gates: the link there, the other end, and the link back.
const OTHER_END: Span = Span {
    name: "link and other end",
    layer: Layer::Link,
    kind: tollgate_gate::Kind::Queueing,
    from: Gate::DriverOutEnd,
    to: Gate::DriverInBegin,
    ..APPLICATION
};

/// Span between two hosts, there and back.
const NETWORK: Span = Span {
    name: "network and clocks",
    layer: Layer::Link,
    kind: tollgate_gate::Kind::Queueing,
    from: Gate::DriverOutBegin,
    to: Gate::IpInBegin,
    ..APPLICATION
};

impl Ledgers {
    /// Messages that pass each stretch in a round trip: one does where gates are on its way alone.
    pub(crate) const fn messages(&self) -> f64 {
        self.passages as f64
    }

    /// The host that has the stretch at this place; none on one host, and between two.
    pub(crate) fn host_of(&self, stretch: usize) -> Option<Host> {
        *self.hosts.as_ref()?.of_stretches.get(stretch)?
    }

    /// The widest interval of a closure of which "closes" may be said.
    pub(crate) const fn limit(&self) -> Limit {
        match self.mode.placement {
            Placement::OneCore => Limit::ONE_CORE,
            Placement::TwoCores => Limit::TWO_CORES,
        }
    }

    /// The path, and how it is run.
    pub(crate) fn label(&self) -> String {
        format!("{}, {}", self.path, self.mode)
    }

    /// The ledger of the size at this place.
    pub(crate) fn at(&self, at: usize) -> Option<&Ledger> {
        self.sizes.get(at)?.ledger.as_ref().ok()
    }

    /// The stretches of the way that are wanted, by their host and span.
    pub(crate) fn stretches(&self, wanted: impl Fn(Option<Host>, &Span) -> bool) -> Vec<usize> {
        let spans = self.spans.iter().enumerate();
        spans
            .filter(|(stretch, span)| wanted(self.host_of(*stretch), span))
            .map(|(stretch, _)| stretch)
            .collect()
    }

    /// The time of some spans of a round trip, at the size at this place; none where nothing of the way belongs to them.
    pub(crate) fn sum(
        &self,
        at: usize,
        wanted: impl Fn(Option<Host>, &Span) -> bool,
    ) -> Option<Figure> {
        let stretches = self.stretches(wanted);
        (!stretches.is_empty()).then(|| Some(self.at(at)?.sum_of(&stretches)))?
    }

    /// The part of a time of round trips that each message has.
    pub(crate) const fn per_message(&self, figure: Figure) -> Figure {
        Figure {
            ns: figure.ns / self.messages(),
            half_width: figure.half_width / self.messages(),
        }
    }

    /// The share of some spans in the time of all that are meant, in hundredths. The bounds hold whatever the errors of these and of the
    /// rest have to do with each other. `None` where the way has no such span or nothing else, and of times that are not above zero.
    pub(crate) fn share(
        &self,
        at: usize,
        wanted: impl Fn(&Span) -> bool,
        of_all: impl Fn(&Span) -> bool,
    ) -> Option<Measured> {
        let sum = |is_in: bool| self.sum(at, |_, span| of_all(span) && wanted(span) == is_in);
        let (own, rest) = (sum(true)?, sum(false)?);
        let share = |own: f64, rest: f64| 100.0 * (own / (own + rest));
        if own.ns + rest.ns <= 0.0 {
            return None;
        }
        let ends = |own: f64, rest: f64| match (own.max(0.0), rest.max(0.0)) {
            (0.0, _) => 0.0,
            // An interval without a bound.
            (f64::INFINITY, _) => 100.0,
            (own, rest) => share(own, rest),
        };
        Some(Measured {
            value: share(own.ns, rest.ns),
            ci: Some(Interval {
                low: ends(own.ns - own.half_width, rest.ns + rest.half_width),
                high: ends(own.ns + own.half_width, rest.ns - rest.half_width),
            }),
            n: self.sizes.get(at).map(|sized| sized.messages),
            ..Measured::default()
        })
    }
}

/// The ledgers of a path in a mode over a protocol, measured at the first call in this share of the time that is left.
fn once(
    of: (PathId, Mode, Transport),
    share: f64,
    context: &Context<'_>,
    measure: impl FnOnce(Option<Duration>) -> Result<Ledgers, Error>,
) -> Result<Rc<Ledgers>, Error> {
    context.once(
        |known: &Ledgers| (known.path, known.mode, known.transport) == of,
        || measure(context.remaining().map(|left| left.mul_f64(share))),
    )
}

/// The ledgers of a path of the kernel, measured at the first call in this share of the time that is left.
///
/// # Errors
/// [`Error::NothingMeasured`] with the reason, [`Error::Stopped`].
pub(crate) fn of_kernel(
    experiment: &'static str,
    (path, mode): (PathId, Mode),
    sizes: &[usize],
    share: f64,
    context: &Context<'_>,
) -> Result<Rc<Ledgers>, Error> {
    once((path, mode, Transport::Tcp), share, context, |within| {
        kernel(experiment, (path, mode), sizes, within, context)
    })
}

fn kernel(
    experiment: &'static str,
    (path, mode): (PathId, Mode),
    sizes: &[usize],
    within: Option<Duration>,
    context: &Context<'_>,
) -> Result<Ledgers, Error> {
    let until = within.map(|within| Instant::now() + within);
    let spec = Spec::new(Workload::Rr, 0)
        .with_mode(mode.placement, mode.waiting)
        .with_nagle(context.options.nagle());
    let mut kernel = Kernel::open(path, &spec, sizes)
        .map_err(|reason| Error::NothingMeasured { experiment, reason })?;
    let plan = kernel.plan().clone();
    let spans = spans_of(kernel.way(), kernel.table());
    let passages = kernel.way().passages();
    // Sessions differ by less than what the machine drifts, and opening them takes the time that a quick report has for the rest.
    let (sizes, stopped) =
        run_in_one_session(&mut kernel, sizes, KERNEL_ROUND_TRIPS, until, context);
    Ledgers {
        path,
        mode,
        transport: Transport::Tcp,
        spans,
        passages,
        plan: Some(plan),
        hosts: None,
        anew: false,
        sizes,
        stopped,
    }
    .or_nothing(experiment)
}

/// The ledgers of `kernel-veth` with checksums left to the devices, and with checksums computed and verified by the kernel,
/// interleaved slice by slice, each block with sessions of its own. Packets are so large that a message is one in both.
///
/// # Errors
/// Those of [`of_kernel`].
pub(crate) fn of_checksums(
    experiment: &'static str,
    mode: Mode,
    sizes: &[usize],
    context: &Context<'_>,
) -> Result<[Ledgers; 2], Error> {
    let path = PathId::KernelVeth;
    let until = context.remaining().map(|left| Instant::now() + left);
    let specs = [Offload::Checksum, Offload::Neither].map(|offload| {
        let spec = |&size: &usize| {
            Spec::new(Workload::Rr, size)
                .with_mode(mode.placement, mode.waiting)
                .with_nagle(context.options.nagle())
                .over(Sockets {
                    offload,
                    ..Sockets::PLAIN
                })
        };
        sizes.iter().map(spec).collect::<Vec<_>>()
    });
    let largest = sizes.iter().copied().max().unwrap_or_default();
    let mtu = (largest + HEADERS).clamp(ATM_MTU, LARGEST_MTU);
    let kernel = find_with_mtu(path, mtu).ok_or_else(|| format!("{path} cannot be opened here"));
    let mut kernel = kernel
        .and_then(|path| Kernel::open_each(path, specs.concat()))
        .map_err(|reason| Error::NothingMeasured { experiment, reason })?;
    let plan = kernel.plan().clone();
    let spans = spans_of(kernel.way(), kernel.table());
    let all = [sizes, sizes].concat();
    let (mut with, stopped) = run(&mut kernel, &all, KERNEL_ROUND_TRIPS, until, context);
    let without = with.split_off(sizes.len().min(with.len()));
    let [with, without] = [with, without].map(|sizes| {
        Ledgers {
            path,
            mode,
            transport: Transport::Tcp,
            spans: spans.clone(),
            passages: kernel.way().passages(),
            plan: Some(plan.clone()),
            hosts: None,
            anew: true,
            sizes,
            stopped,
        }
        .or_nothing(experiment)
    });
    Ok([with?, without?])
}

/// The ledgers of round trips to another host, measured at the first call in this share of the time that is left.
///
/// # Errors
/// Those of [`of_kernel`].
pub(crate) fn of_hosts(
    experiment: &'static str,
    mode: Mode,
    sizes: &[usize],
    share: f64,
    context: &Context<'_>,
) -> Result<Rc<Ledgers>, Error> {
    let of = (PathId::KernelRemote, mode, Transport::Tcp);
    once(of, share, context, |within| {
        two_hosts(experiment, mode, sizes, within, context)
    })
}

fn two_hosts(
    experiment: &'static str,
    mode: Mode,
    sizes: &[usize],
    within: Option<Duration>,
    context: &Context<'_>,
) -> Result<Ledgers, Error> {
    let refused = |reason| Error::NothingMeasured { experiment, reason };
    let Some(server) = &context.remote else {
        return Err(refused(
            "kernel-remote takes a host that serves: --to HOST".to_owned(),
        ));
    };
    let begun = Instant::now();
    let until = within.map(|within| begun + within);
    let mut remote = Remote::open(server, mode, context.options.nagle(), sizes).map_err(refused)?;
    let start_up = begun.elapsed();
    let way = remote.way().clone();
    let mut stretches: Vec<(Option<Host>, Span)> = Vec::new();
    for (place, station) in way.stations().enumerate() {
        if way.span_of(place) == stretches.len() {
            stretches.push(match remote.span_at(station) {
                _ if way.span_between_hosts() == Some(stretches.len()) => (None, NETWORK),
                Some(span) => (Some(station.host), *span),
                None => (Some(station.host), APPLICATION),
            });
        }
    }
    // The other host opens its ends once.
    let (measured, stopped) =
        run_in_one_session(&mut remote, sizes, KERNEL_ROUND_TRIPS, until, context);
    let ways = (0..sizes.len()).map(|at| {
        if stopped {
            return Err("the run was stopped before".to_owned());
        }
        remote.one_way(at, ONE_WAY_ROUND_TRIPS)
    });
    let hosts = Hosts {
        server: server.target().to_string(),
        of_stretches: stretches.iter().map(|(host, _)| *host).collect(),
        ways: ways.collect(),
        boundaries: Host::BOTH.map(|host| remote.boundaries(host).clone()),
        start_up,
    };
    Ledgers {
        path: PathId::KernelRemote,
        mode,
        transport: Transport::Tcp,
        spans: stretches.into_iter().map(|(_, span)| span).collect(),
        passages: way.passages(),
        plan: None,
        hosts: Some(hosts),
        anew: false,
        sizes: measured,
        stopped,
    }
    .or_nothing(experiment)
}

/// The ledgers of `stack-memory` over TCP, measured at the first call in this share of the time that is left.
///
/// # Errors
/// Those of [`of_kernel`].
pub(crate) fn of_stack(
    experiment: &'static str,
    sizes: &[usize],
    share: f64,
    context: &Context<'_>,
) -> Result<Rc<Ledgers>, Error> {
    of_stack_over(experiment, Transport::Tcp, sizes, share, context)
}

/// The ledgers of `stack-memory` over a protocol, measured at the first call in this share of the time that is left.
///
/// # Errors
/// Those of [`of_kernel`].
pub(crate) fn of_stack_over(
    experiment: &'static str,
    transport: Transport,
    sizes: &[usize],
    share: f64,
    context: &Context<'_>,
) -> Result<Rc<Ledgers>, Error> {
    let (path, mode) = STACK_MEMORY;
    once((path, mode, transport), share, context, |within| {
        stack(experiment, transport, sizes, within, context)
    })
}

fn stack(
    experiment: &'static str,
    transport: Transport,
    sizes: &[usize],
    within: Option<Duration>,
    context: &Context<'_>,
) -> Result<Ledgers, Error> {
    let until = within.map(|within| Instant::now() + within);
    // What no segment holds has no ledger, and takes those that have one nothing.
    let fits = |size: &usize| *size <= stack_memory::LARGEST;
    let fitting: Vec<usize> = sizes.iter().copied().filter(fits).collect();
    let mut stack = StackMemory::open_over(transport, &fitting, context.options.mechanisms)
        .map_err(|reason| Error::NothingMeasured { experiment, reason })?;
    let spans = spans_of(stack.way(), STACK);
    let (measured, stopped) = run(&mut stack, &fitting, STACK_ROUND_TRIPS, until, context);
    let mut measured = measured.into_iter();
    let all = sizes.iter().map(|size| {
        let one = fits(size).then(|| measured.next()).flatten();
        one.unwrap_or_else(|| Sized {
            size: *size,
            ledger: Err(format!(
                "gate by gate a message is one segment, which holds {} at most",
                format::size(stack_memory::LARGEST)
            )),
            messages: 0,
            joined: 0,
            lost: 0,
            sleeps: None,
        })
    });
    Ledgers {
        path: STACK_MEMORY.0,
        mode: STACK_MEMORY.1,
        transport,
        spans,
        passages: stack.way().passages(),
        plan: None,
        hosts: None,
        anew: true,
        sizes: all.collect(),
        stopped,
    }
    .or_nothing(experiment)
}

/// The ledgers of our stack at one end of a link, a socket of the kernel being the other.
///
/// # Errors
/// Those of [`of_kernel`].
pub(crate) fn of_link(
    experiment: &'static str,
    (path, mode): (PathId, Mode),
    sizes: &[usize],
    share: f64,
    context: &Context<'_>,
) -> Result<Rc<Ledgers>, Error> {
    once((path, mode, Transport::Tcp), share, context, |within| {
        link(experiment, (path, mode), sizes, within, context)
    })
}

fn link(
    experiment: &'static str,
    (path, mode): (PathId, Mode),
    sizes: &[usize],
    within: Option<Duration>,
    context: &Context<'_>,
) -> Result<Ledgers, Error> {
    let until = within.map(|within| Instant::now() + within);
    let mut link = StackLink::open(path, mode, context.options.mechanisms, sizes)
        .map_err(|reason| Error::NothingMeasured { experiment, reason })?;
    let mut spans = spans_of(link.way(), STACK);
    for span in &mut spans {
        if span.from == OTHER_END.from {
            *span = OTHER_END;
        }
    }
    let passages = link.way().passages();
    let (mut sizes, stopped) =
        run_in_one_session(&mut link, sizes, LINK_ROUND_TRIPS, until, context);
    for (at, sized) in sizes.iter_mut().enumerate() {
        sized.sleeps = Some(link.sleeps(at));
    }
    Ledgers {
        path,
        mode,
        transport: Transport::Tcp,
        spans,
        passages,
        plan: None,
        hosts: None,
        anew: false,
        sizes,
        stopped,
    }
    .or_nothing(experiment)
}

/// Runs blocks with sessions of their own, which differ by more than blocks of one.
fn run(
    gated: &mut impl Reopened,
    sizes: &[usize],
    round_trips: u64,
    until: Option<Instant>,
    context: &Context<'_>,
) -> (Vec<Sized>, bool) {
    run_by(
        |gated, amount, goes_on| gated::run_anew(gated, amount, goes_on),
        gated,
        sizes,
        round_trips,
        until,
        context,
    )
}

/// Runs blocks of one session, where opening another is dear or not possible: intervals are of that session.
fn run_in_one_session(
    gated: &mut impl Gated,
    sizes: &[usize],
    round_trips: u64,
    until: Option<Instant>,
    context: &Context<'_>,
) -> (Vec<Sized>, bool) {
    run_by(
        |gated, amount, goes_on| gated::run(gated, amount, goes_on),
        gated,
        sizes,
        round_trips,
        until,
        context,
    )
}

/// Runs blocks by one of the ways of [`gated`].
fn run_by<G: Gated>(
    blocks: impl FnOnce(&mut G, &Amount, &mut dyn FnMut() -> bool) -> Vec<gated::Sized>,
    gated: &mut G,
    sizes: &[usize],
    round_trips: u64,
    until: Option<Instant>,
    context: &Context<'_>,
) -> (Vec<Sized>, bool) {
    let left = || until.map(|until| until.saturating_duration_since(Instant::now()));
    let iterations = context.options.iterations;
    // A quarter of the batches is left out at either end, and the last one has no next round trip.
    let fewest = 8 * gated.batch() as u64;
    let round_trips = iterations.map_or(round_trips, |most| most.clamp(fewest, round_trips));
    let wanted = iterations.map_or(BLOCKS, |iterations| {
        u32::try_from(iterations / round_trips.max(1)).unwrap_or(BLOCKS)
    });
    let amount = Amount {
        round_trips,
        least_blocks: match (left(), iterations) {
            (Some(_), None) => LEAST_BLOCKS,
            _ => wanted.clamp(LEAST_BLOCKS, BLOCKS),
        },
        time: left().filter(|_| iterations.is_none()).unwrap_or_default(),
        sets: if context.options.gentle {
            Sets::GENTLE
        } else {
            Sets::DEFAULT
        },
        seed: SEED,
    };
    let mut stopped = false;
    let measured = blocks(gated, &amount, &mut || {
        between_slices(context, "", left().unwrap_or_default());
        stopped = context.cancel.is_raised();
        !stopped
    });
    let sizes = sizes.iter().zip(measured).map(|(&size, sized)| Sized {
        size,
        ledger: sized
            .ledger(gated, SEED)
            .map_err(|reason| reason.to_string()),
        messages: sized.messages,
        joined: sized.joined,
        lost: sized.lost,
        sleeps: None,
    });
    (sizes.collect(), stopped)
}

impl Ledgers {
    /// These, or why there is none at any size.
    fn or_nothing(self, experiment: &'static str) -> Result<Self, Error> {
        if self.sizes.iter().any(|sized| sized.ledger.is_ok()) {
            return Ok(self);
        }
        if self.stopped {
            return Err(Error::Stopped);
        }
        let mut reasons = self
            .sizes
            .into_iter()
            .filter_map(|sized| sized.ledger.err());
        Err(Error::NothingMeasured {
            experiment,
            reason: reasons
                .next()
                .unwrap_or_else(|| "no size is wanted".to_owned()),
        })
    }
}

/// The innermost span of the table around each stretch of a way. A stretch over several spans is of the last of them; the one
/// behind the last gate is the application's.
fn spans_of(way: &Way, table: SpanTable) -> Vec<Span> {
    let gates = way.gates();
    let ends = gates.iter().skip(1).map(|&to| to as u8);
    let inner = gates.iter().zip(ends).map(|(&from, to)| {
        let spans = table.spans().iter().rev();
        let mut spans = spans.filter(|span| span.position != Position::Beside);
        let around = |span: &&Span| span.from as u8 <= from as u8 && to <= span.to as u8;
        let ends_with = |span: &&Span| span.to as u8 == to;
        let found = spans.clone().find(around).or_else(|| spans.find(ends_with));
        found.copied().unwrap_or(APPLICATION)
    });
    inner.chain([APPLICATION]).collect()
}

#[cfg(test)]
mod tests {
    use tollgate_gate::KERNEL;

    use super::*;

    fn names(way: &Way, table: SpanTable) -> Vec<&'static str> {
        let spans = spans_of(way, table);
        spans.iter().map(|span| span.name).collect()
    }

    #[test]
    fn stretches_of_our_stack_belong_to_the_innermost_span() {
        let stack = StackMemory::open(&[64], tollgate_workload::Mechanisms::DEFAULT).unwrap();
        assert_eq!(
            names(stack.way(), STACK),
            [
                "socket",
                "tcp",
                "tcp.checksum",
                "tcp",
                "ip",
                "device.queue",
                "driver",
                "ip.queue",
                "driver",
                "ip",
                "demux",
                "tcp",
                "tcp.checksum",
                "tcp",
                "socket",
                "application"
            ]
        );
    }

    #[test]
    fn stretches_of_the_kernel_are_its_spans() {
        let spans = KERNEL.spans().iter();
        let on_the_way = spans.filter(|span| span.position == Position::OnTheWay);
        let spans: Vec<&Span> = on_the_way.collect();
        let way = Way::new(spans.iter().map(|span| span.from).collect()).unwrap();
        let expected: Vec<&str> = spans.iter().map(|span| span.name).collect();
        assert_eq!(names(&way, KERNEL), expected);
    }
}

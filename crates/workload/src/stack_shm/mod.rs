//! `stack-shm`: two of Tollgate's stacks in two processes over a shared-memory link.
//!
//! - Each process has its own stack, pool and clock; frames are copied into the link's rings and out of them.
//! - The ends busy poll on two cores, or sleep in the link until they are woken, on two cores or on one.
//! - The reader's buffer is posted: the copy into it is the pass that verifies the checksum.
//! - A message of several segments is written segment by segment, each followed by a poll, so that the other end takes in
//!   the first while this one copies the next.
//! - Busy polling, the clock is read once in 32 calls of the stack; blocking, after each sleep as well.
//! - `crr` and `stream` are those of `stack-memory`.
//!
//! Between slices both processes sleep and nobody polls the stacks. So the client polls before it orders a slice: what it
//! owes the other (delayed ACKs) then arrives before that one looks at its timers.

use tollgate_link::atm::{Adapter, Atm};
use tollgate_link::shm::{Config, Segment, ShmLink, Waiting as LinkWaiting};
use tollgate_link::{Side, Waitable};
use tollgate_run::{PathId, Waiting, Workload};
use tollgate_stack::Pool;
use tollgate_stats::{Samples, Timing};

use crate::cell_faults::CellCounts;
use crate::child::{Child, ChildEnd, Role};
use crate::cores::{self, Cores, KEEPING};
use crate::error::Error;
use crate::input::{self, InputCounts};
use crate::link_kind::LinkKind;
use crate::path::{Capabilities, Path, Session};
use crate::payload::{STREAM_SEED, check, fill, request_seed, response_seed};
use crate::placed::Placed;
use crate::slice::{Control, PATIENCE, Server};
use crate::spec::Spec;
use crate::stack_end::{Client, End, MODES, Wait};
use crate::stack_host::{self, BUFFER, CLIENT, DEFAULT_MTU, SERVER};

const PATH: PathId = PathId::StackShm;

/// The role of the second process.
pub(crate) const ROLE: Role = Role {
    name: "stack-shm",
    serve,
};

/// Frames that wait in each direction at most: more than a full window of 64 KiB.
const SLOTS: usize = 128;

/// A link with the pool of its end.
fn with_pool<L>(link: L, mtu: usize) -> (L, Pool) {
    (link, stack_host::pool(PATH, mtu))
}

/// The path `stack-shm`.
#[derive(Debug, Clone, Copy)]
pub struct StackShm {
    mtu: usize,
}

impl StackShm {
    /// The path with an IP MTU of 1500 bytes, so that it compares with `stack-memory`.
    pub const DEFAULT: Self = Self::with_mtu(DEFAULT_MTU);

    /// The path with IP packets of at most `mtu` bytes, 68 to 65,344; another number is refused when a session is opened.
    pub const fn with_mtu(mtu: usize) -> Self {
        Self { mtu }
    }
}

impl Path for StackShm {
    fn id(&self) -> PathId {
        PATH
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            workloads: Workload::ALL,
            modes: &MODES,
            round_trip_timing: Timing::Batch(16),
            stream_timing: Timing::Batch(16),
            links: LinkKind::ALL,
        }
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        self.capabilities().check(PATH, spec)?;
        let mtu = stack_host::mtu(PATH, spec, self.mtu)?;
        let waiting = match spec.waiting {
            Waiting::BusyPoll => LinkWaiting::BusyPoll,
            Waiting::Blocking => LinkWaiting::Sleep,
        };
        let config = match spec.link.aal() {
            Some(_) => Config::for_cells(waiting),
            None => Config {
                mtu,
                slots: SLOTS,
                waiting,
            },
        };
        let segment = Segment::create(config)
            .map_err(|error| Error::stack(PATH, "making a shared-memory link", error))?;
        Ok(match stack_host::adapter(spec, CLIENT) {
            Some(adapter) => {
                let link = |line| Atm::new(Adapter::new(adapter), line);
                Box::new(ShmSession::open(spec, &segment, mtu, (link, of_adapter))?)
            }
            None => Box::new(ShmSession::open(
                spec,
                &segment,
                mtu,
                (|line| line, of_none),
            )?),
        })
    }
}

/// This process's side of a segment.
fn side(spec: &Spec, segment: &Segment, side: Side) -> Result<ShmLink, Error> {
    ShmLink::new(segment, side, stack_host::kernel_of_link(spec))
        .map_err(|error| Error::stack(PATH, "taking a side of the link", error))
}

/// Counts of the adapter at an end.
type Counted<L> = fn(&L) -> Option<CellCounts>;

fn of_adapter(link: &Atm<Adapter, ShmLink>) -> Option<CellCounts> {
    Some(CellCounts::of(link.adapter()))
}

const fn of_none(_: &ShmLink) -> Option<CellCounts> {
    None
}

struct ShmSession<L> {
    counted: Counted<L>,
    mtu: usize,
    /// Frames, or cells, that wait in each direction at most.
    slots: usize,
    cores: Cores,
    // Ends before the client's side of the link is closed, so that it never finds its peer gone.
    child: Child,
    client: Client<L>,
    failed: bool,
}

impl<L: Waitable> ShmSession<L> {
    fn open(
        spec: &Spec,
        segment: &Segment,
        mtu: usize,
        (link, counted): (impl FnOnce(ShmLink) -> L, Counted<L>),
    ) -> Result<Self, Error> {
        let cores = Cores::choose(spec.placement)?;
        let child = Child::spawn(PATH, ROLE.name, spec, segment.fd(), cores.server)?;
        let link = link(side(spec, segment, Side::A)?);
        let mut session = Self {
            counted,
            client: Client::new(
                spec,
                StackShm::DEFAULT.capabilities().timing(spec),
                cores.client,
                End::new(PATH, spec, with_pool(link, mtu), mtu, CLIENT)?,
                vec![stack_host::server_address().into()],
            ),
            mtu,
            slots: segment.config().slots,
            cores,
            child,
            failed: false,
        };
        // The first order brings the connection up; for crr and datagrams this one resolves the addresses.
        session.child.begin(0)?;
        session.client.connect(&mut session.child)?;
        if !spec.keeps_connection() {
            session.client.close(&mut session.child)?;
        }
        if spec.is_datagrams() {
            let to = stack_host::server_address();
            let end = &mut session.client.end;
            end.open_datagrams(spec, to.port(), to.into())?;
        }
        session.client.end.poll();
        session.child.finish()?;
        Ok(session)
    }
}

impl<L: Waitable> Session for ShmSession<L> {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned { path: PATH });
        }
        samples.check_timing(self.client.timing())?;
        let outcome = self.client.slice(iterations, samples, &mut self.child);
        self.failed = outcome.is_err();
        outcome
    }

    fn timing(&self) -> Timing {
        self.client.timing()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let spec = self.client.spec();
        let checksums = self.client.end.checksums(spec);
        let mut settings = stack_host::settings(PATH, spec, self.mtu, checksums);
        settings.push(("cores", self.cores.describe()));
        settings.push(("ends", "two processes".to_owned()));
        let unit = match self.client.spec().link.aal() {
            Some(_) => "cells",
            None => "frames",
        };
        settings.push(("ring", format!("{} {unit} each way", self.slots)));
        settings
    }

    fn input_counts(&self) -> Option<[InputCounts; 2]> {
        let theirs = InputCounts::from_words(self.child.control().numbers());
        Some([self.client.end.input_counts(), theirs])
    }

    fn cell_counts(&self) -> Option<CellCounts> {
        let ours = (self.counted)(self.client.end.link())?;
        let numbers = self.child.control().numbers();
        let theirs = numbers.get(input::WORDS..)?.first_chunk()?;
        Some(ours.plus(&CellCounts::from_words(*theirs)))
    }
}

fn corrupt(what: &'static str, message: u64) -> impl Fn(u64) -> Error {
    move |offset| Error::Corrupt {
        path: PATH,
        what,
        message,
        offset,
    }
}

/// The second process: serves slices, and sleeps in between.
fn serve(child: ChildEnd<'_>) -> Result<(), Error> {
    let ChildEnd {
        spec,
        memory,
        control,
        server: orders,
        core,
    } = child;
    spec.check()?;
    let segment =
        Segment::attach(memory).map_err(|error| Error::stack(PATH, "mapping the link", error))?;
    let line = side(&spec, &segment, Side::B)?;
    match stack_host::adapter(&spec, SERVER) {
        Some(adapter) => {
            let link = Atm::new(Adapter::new(adapter), line);
            let end = End::new(
                PATH,
                &spec,
                with_pool(link, adapter.mtu),
                adapter.mtu,
                SERVER,
            )?;
            serve_slices(ServerApp::new(end, control, spec), orders, core, of_adapter)
        }
        None => {
            let mtu = segment.config().mtu;
            let end = End::new(PATH, &spec, with_pool(line, mtu), mtu, SERVER)?;
            serve_slices(ServerApp::new(end, control, spec), orders, core, of_none)
        }
    }
}

/// Serves slices for as long as they are ordered.
fn serve_slices<L: Waitable>(
    mut server: ServerApp<'_, L>,
    mut orders: Server<'_>,
    core: usize,
    counted: Counted<L>,
) -> Result<(), Error> {
    let control = server.control;
    let listener = server.end.listen()?;
    let mut connected = false;
    while let Some(iterations) = orders.next_order() {
        cores::still_pinned(core).map_err(|error| Error::system(PATH, KEEPING, error))?;
        server.end.poll();
        orders.ready();
        let outcome = if connected {
            server.slice(iterations, listener)
        } else {
            connected = true;
            server.first_connection(listener)
        };
        match outcome.and_then(|()| server.end.drain(|| look(control))) {
            // The other end ended the session in the middle of a slice: that is no failure of this one.
            Err(Error::Stopped { .. }) => return Ok(()),
            other => other?,
        }
        let cells = counted(server.end.link()).unwrap_or_default();
        let input = server.end.input_counts();
        orders.tell(&[input.words().as_slice(), &cells.words()].concat());
        orders.done();
    }
    Ok(())
}

/// Tells whether to go on.
fn look(control: &Control) -> Result<(), Error> {
    match control.is_quit() {
        true => Err(Error::Stopped { path: PATH }),
        false => Ok(()),
    }
}

/// The server's application.
struct ServerApp<'a, L> {
    spec: Spec,
    end: End<L>,
    control: &'a Control,
    out: Placed,
    inn: Placed,
    message: u64,
    read: u64,
}

impl<'a, L: Waitable> ServerApp<'a, L> {
    fn new(end: End<L>, control: &'a Control, spec: Spec) -> Self {
        Self {
            end,
            control,
            out: Placed::new(1, spec.size, spec.places[0]),
            inn: Placed::new(0, spec.size.max(BUFFER), spec.places[1]),
            spec,
            message: 0,
            read: 0,
        }
    }

    fn first_connection(&mut self, listener: tollgate_stack::ListenerId) -> Result<(), Error> {
        let control = self.control;
        self.end.accept(listener, || look(control))?;
        if !self.spec.keeps_connection() {
            self.end_connection()?;
            self.end.closed(|| look(control))?;
        }
        if self.spec.is_datagrams() {
            let to = stack_host::client_address();
            self.end.open_datagrams(&self.spec, to.port(), to.into())?;
        }
        Ok(())
    }

    fn slice(
        &mut self,
        iterations: u64,
        listener: tollgate_stack::ListenerId,
    ) -> Result<(), Error> {
        let control = self.control;
        match self.spec.workload {
            Workload::Rr => {
                for _ in 0..iterations {
                    self.answer()?;
                }
            }
            Workload::Crr => {
                for _ in 0..iterations {
                    self.end.accept(listener, || look(control))?;
                    self.answer()?;
                    self.end_connection()?;
                }
                self.end.closed(|| look(control))?;
            }
            Workload::Stream => self.read_stream(iterations * self.spec.size as u64)?,
        }
        Ok(())
    }

    /// Waits for a request and answers it.
    #[inline(always)]
    fn answer(&mut self) -> Result<(), Error> {
        let control = self.control;
        let message = self.message;
        self.message += 1;
        let inn = &mut self.inn[..self.spec.size];
        if self.spec.is_datagrams() {
            self.end.receive_datagram(inn, PATIENCE, || look(control))?;
        } else {
            self.end.receive(inn, || look(control))?;
        }
        if self.spec.verify {
            check(inn, request_seed(message), 0).map_err(corrupt("request", message))?;
            fill(&mut self.out, response_seed(message), 0);
        }
        if self.spec.is_datagrams() {
            self.end.send_datagram(&self.out, || look(control))
        } else {
            self.end.send(&self.out, || look(control))
        }
    }

    /// Closes after the other end has.
    fn end_connection(&mut self) -> Result<(), Error> {
        let control = self.control;
        self.end.receive_end(|| look(control))?;
        self.end.close()
    }

    /// Reads `bytes` of the stream and says so with one byte.
    fn read_stream(&mut self, bytes: u64) -> Result<(), Error> {
        let control = self.control;
        let until = self.read + bytes;
        let mut wait = Wait::new("reading a stream");
        while self.read < until {
            let most = self.inn.len().min((until - self.read) as usize);
            let inn = &mut self.inn[..most];
            let got = self.end.read(inn, &mut wait, &mut || look(control))?;
            if got == 0 {
                continue;
            }
            if self.spec.verify {
                check(&inn[..got], STREAM_SEED, self.read).map_err(corrupt("stream", 0))?;
            }
            self.read += got as u64;
            wait = Wait::new("reading a stream");
        }
        self.end.send(&[1], || look(control))
    }
}

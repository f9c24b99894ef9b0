//! `stack-memory`: two of Tollgate's stacks in one thread over a memory link, the counterpart of `peer-smoltcp`.
//!
//! - The link hands frames over without copying them; both stacks share one pool.
//! - Over a link of cells both adapters are in the same thread, too; see [`LinkKind`].
//! - Nobody waits: one thread runs both ends in turn, which counts as busy polling on one core.
//! - Time is real, read once per round trip, or once per turn of a stream.
//! - The reader's buffer is posted: the copy into it is the pass that verifies the checksum.
//! - `crr`: the client connects, one message goes each way, the client closes first and keeps the TIME-WAIT. There are
//!   at most 1,024 of those; the oldest makes room. Local ports are the stack's choice.
//! - `rr` over UDP: the same turns with sockets that take datagrams; a first connection resolves the addresses.
//! - `stream`: segments gather in the device queue and are carried over in bursts; at the end Nagle is switched off for a
//!   moment so that the last short segment leaves.
//!
//! [`traced`] runs the same round trips with gates, [`sampling`] with a few of them recorded, [`counted`] in virtual time.

pub mod counted;
mod hosts;
pub mod per_packet;
pub mod sampling;
pub mod traced;

#[cfg(test)]
mod tests;

use crate::cell_faults::CellCounts;
use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::input::InputCounts;
use crate::laps::Laps;
use crate::link_kind::LinkKind;
use crate::path::{Capabilities, Path, Session};
use crate::payload::{STREAM_SEED, check, fill, request_seed, response_seed};
use crate::placed::Placed;
use crate::spec::Spec;
use crate::stack_gates::{Gates, Ungated};
use crate::stack_host::{self, BUFFER, CLIENT, DEFAULT_MTU, SERVER};

use hosts::{Between, Hosts, Time};
use tollgate_link::Side;
use tollgate_link::atm::Cable;
use tollgate_link::memory::Memory;
use tollgate_run::{Mode, PathId, Placement, Waiting, Workload};
use tollgate_stats::{Samples, Timing};

const PATH: PathId = PathId::StackMemory;

/// The path `stack-memory`.
#[derive(Debug, Clone, Copy)]
pub struct StackMemory {
    mtu: usize,
}

impl StackMemory {
    /// The path with an IP MTU of 1500 bytes, as `peer-smoltcp` has it.
    pub const DEFAULT: Self = Self::with_mtu(DEFAULT_MTU);

    /// The path with IP packets of at most `mtu` bytes, 68 to 65,535; another number is refused when a session is opened.
    pub const fn with_mtu(mtu: usize) -> Self {
        Self { mtu }
    }
}

impl Path for StackMemory {
    fn id(&self) -> PathId {
        PATH
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            workloads: Workload::ALL,
            modes: &[Mode {
                placement: Placement::OneCore,
                waiting: Waiting::BusyPoll,
            }],
            round_trip_timing: Timing::Batch(16),
            stream_timing: Timing::Batch(16),
            links: LinkKind::ALL,
        }
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        let adapters = [CLIENT, SERVER].map(|host| stack_host::adapter(spec, host));
        Ok(match adapters {
            [Some(client), Some(server)] => {
                let cable = |_| Cable::new(client, server);
                Box::new(MemorySession::open(spec, self.mtu, cable)?)
            }
            _ => Box::new(MemorySession::open(spec, self.mtu, Memory::new)?),
        })
    }
}

struct MemorySession<C> {
    spec: Spec,
    mtu: usize,
    timing: Timing,
    cores: Cores,
    ends: Ends<C>,
    failed: bool,
}

impl<C: Between> MemorySession<C> {
    /// A session over the cable that `cable` makes for an MTU; the path's own is `own_mtu`.
    fn open(spec: &Spec, own_mtu: usize, cable: impl FnOnce(usize) -> C) -> Result<Self, Error> {
        let capabilities = StackMemory::DEFAULT.capabilities();
        capabilities.check(PATH, spec)?;
        let mtu = stack_host::mtu(PATH, spec, own_mtu)?;
        Ok(Self {
            timing: capabilities.timing(spec),
            cores: Cores::choose(spec.placement)?,
            ends: Ends::on(Hosts::on(cable(mtu), spec, mtu, Time::Real)?, spec)?,
            spec: spec.clone(),
            mtu,
            failed: false,
        })
    }

    fn slice(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        let _pinned = Pinned::to(self.cores.client)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        let size = self.spec.size as u64;
        let ends = &mut self.ends;
        ends.hosts.catch_up();
        match self.spec.workload {
            Workload::Rr if self.spec.is_datagrams() => {
                for _ in 0..self.spec.warmup {
                    ends.datagram_round_trip(&mut Ungated)?;
                }
                let mut laps = Laps::start(self.timing, samples)?;
                for _ in 0..iterations {
                    ends.datagram_round_trip(&mut Ungated)?;
                    laps.lap(samples);
                }
                laps.finish(samples, 2 * iterations * size, false);
            }
            Workload::Rr => {
                for _ in 0..self.spec.warmup {
                    ends.round_trip(&mut Ungated)?;
                }
                let mut laps = Laps::start(self.timing, samples)?;
                for _ in 0..iterations {
                    ends.round_trip(&mut Ungated)?;
                    laps.lap(samples);
                }
                laps.finish(samples, 2 * iterations * size, false);
            }
            Workload::Crr => {
                for _ in 0..self.spec.warmup {
                    ends.connection()?;
                }
                let mut laps = Laps::start(self.timing, samples)?;
                for _ in 0..iterations {
                    ends.connection()?;
                    laps.lap(samples);
                }
                laps.finish(samples, 2 * iterations * size, false);
            }
            Workload::Stream => {
                let mut laps = Laps::start(self.timing, samples)?;
                for _ in 0..iterations {
                    ends.write()?;
                    laps.lap(samples);
                }
                laps.flush(samples);
                ends.finish_stream()?;
                laps.finish(samples, iterations * size, true);
            }
        }
        Ok(())
    }
}

impl<C: Between> Session for MemorySession<C> {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned { path: PATH });
        }
        samples.check_timing(self.timing)?;
        let outcome = self.slice(iterations, samples);
        self.failed = outcome.is_err();
        outcome
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let checksums = self.ends.hosts.checksums(&self.spec);
        let mut settings = stack_host::settings(PATH, &self.spec, self.mtu, checksums);
        settings.push(("cores", self.cores.describe()));
        settings.push(("ends", "one thread".to_owned()));
        settings
    }

    fn input_counts(&self) -> Option<[InputCounts; 2]> {
        Some(self.ends.hosts.counters().map(InputCounts::of))
    }

    fn cell_counts(&self) -> Option<CellCounts> {
        self.ends.hosts.cell_counts()
    }
}

/// The two applications and their hosts.
struct Ends<C = Memory> {
    hosts: Hosts<C>,
    nagle: bool,
    verify: bool,
    size: usize,
    out: Placed,
    inn: Placed,
    /// Messages since the session was opened.
    message: u64,
    /// Bytes written to the stream, and read from it, since the session was opened.
    written: u64,
    read: u64,
}

impl Ends {
    fn open(spec: &Spec, mtu: usize, time: Time) -> Result<Self, Error> {
        Self::on(Hosts::new(spec, mtu, time)?, spec)
    }
}

impl<C: Between> Ends<C> {
    fn on(mut hosts: Hosts<C>, spec: &Spec) -> Result<Self, Error> {
        // For crr and datagrams this connection resolves the addresses.
        hosts.connect()?;
        hosts.accept()?;
        if !spec.keeps_connection() {
            hosts.close()?;
        }
        if spec.is_datagrams() {
            hosts.open_datagrams(spec)?;
        }
        Ok(Self {
            hosts,
            nagle: spec.nagle(),
            verify: spec.verify,
            size: spec.size,
            out: Placed::new(0, spec.size, spec.places[0]),
            inn: Placed::new(0, spec.size.max(BUFFER), spec.places[1]),
            message: 0,
            written: 0,
            read: 0,
        })
    }

    /// A request and its response on the open connection.
    #[inline(always)]
    fn round_trip<G: Gates>(&mut self, gates: &mut G) -> Result<(), Error> {
        self.exchange(|hosts, from, message, into| hosts.carry(from, message, into, gates))
    }

    /// A request and its response as datagrams.
    #[inline(always)]
    fn datagram_round_trip<G: Gates>(&mut self, gates: &mut G) -> Result<(), Error> {
        self.exchange(|hosts, from, message, into| hosts.carry_datagram(from, message, into, gates))
    }

    /// A request and its response, each carried from a side into a buffer.
    #[inline(always)]
    fn exchange(
        &mut self,
        mut carry: impl FnMut(&mut Hosts<C>, Side, &[u8], &mut [u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.hosts.read_clock();
        let inn = &mut self.inn[..self.size];
        let message = self.message;
        self.message += 1;
        if self.verify {
            fill(&mut self.out, request_seed(message), 0);
        }
        carry(&mut self.hosts, Side::A, &self.out, inn)?;
        if self.verify {
            check(inn, request_seed(message), 0).map_err(corrupt("request", message))?;
            fill(&mut self.out, response_seed(message), 0);
        }
        carry(&mut self.hosts, Side::B, &self.out, inn)?;
        if self.verify {
            check(inn, response_seed(message), 0).map_err(corrupt("response", message))?;
        }
        Ok(())
    }

    /// Connects, carries a request and its response, and closes.
    #[inline]
    fn connection(&mut self) -> Result<(), Error> {
        self.hosts.read_clock();
        let inn = &mut self.inn[..self.size];
        let message = self.message;
        self.message += 1;
        if self.verify {
            fill(&mut self.out, request_seed(message), 0);
        }
        self.hosts.connect()?;
        self.hosts.first_request(&self.out, inn)?;
        if self.verify {
            check(inn, request_seed(message), 0).map_err(corrupt("request", message))?;
            fill(&mut self.out, response_seed(message), 0);
        }
        self.hosts.carry(Side::B, &self.out, inn, &mut Ungated)?;
        if self.verify {
            check(inn, response_seed(message), 0).map_err(corrupt("response", message))?;
        }
        self.hosts.close()
    }

    /// One write of the stream; segments that have gathered are carried over.
    #[inline]
    fn write(&mut self) -> Result<(), Error> {
        if self.verify {
            fill(&mut self.out, STREAM_SEED, self.written);
        }
        self.written += self.size as u64;
        let mut done = self.hosts.offer(&self.out)?;
        if done < self.size {
            let mut patience = self.hosts.patience("sending a stream");
            while done < self.size {
                patience.turn()?;
                self.move_stream()?;
                done += self.hosts.offer(&self.out[done..])?;
            }
        }
        if self.hosts.burst_has_gathered() {
            self.move_stream()?;
        }
        Ok(())
    }

    /// Carries over what has gathered, reads it at the other end, and brings its ACKs back.
    fn move_stream(&mut self) -> Result<(), Error> {
        self.hosts.read_clock();
        self.hosts.poll(Side::A);
        loop {
            let got = self.hosts.take(&mut self.inn)?;
            if got == 0 {
                break;
            }
            if self.verify {
                check(&self.inn[..got], STREAM_SEED, self.read).map_err(corrupt("stream", 0))?;
            }
            self.read += got as u64;
        }
        self.hosts.poll(Side::A);
        Ok(())
    }

    /// Brings the rest of the stream over; then the reader says with one byte that it has read all.
    fn finish_stream(&mut self) -> Result<(), Error> {
        let mut patience = self.hosts.patience("ending a stream");
        self.hosts.set_nagle(false)?;
        while self.read < self.written {
            patience.turn()?;
            self.move_stream()?;
        }
        self.hosts.set_nagle(self.nagle)?;
        self.hosts.carry(Side::B, &[1], &mut [0], &mut Ungated)
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

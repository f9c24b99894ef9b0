//! The timed end of a session over kernel sockets: sends and receives what a slice orders, and takes the times. It knows the other
//! end only by what a [`OtherEnd`] can be told.

use std::net::SocketAddr;
use std::sync::Arc;

use rustix::net::Shutdown;
use tollgate_run::Workload;
use tollgate_stats::{Samples, Timing};

use super::PATH;
use super::socket::{End, Options};
use crate::cores::{self, KEEPING, Pinned};
use crate::error::Error;
use crate::laps::Laps;
use crate::payload::{STREAM_SEED, check, check_stream, fill, request_seed, response_seed};
use crate::slice::{Control, OtherEnd, destination};
use crate::spec::Spec;
use crate::stamps::{Stamper, Stamps};

/// Sockets of the timed end.
pub(super) enum ClientSockets {
    /// One connection for the whole session.
    Connection(End),
    /// A connection for each iteration, to these destinations in turn.
    Destinations(Vec<SocketAddr>),
}

/// The timed end.
pub(super) struct ClientEnd {
    pub(super) spec: Spec,
    timing: Timing,
    /// The processor that it is pinned to in a slice.
    core: usize,
    options: Options,
    control: Arc<Control>,
    client: ClientSockets,
    stamps: Arc<Stamps>,
    stamper: Stamper,
    out: Vec<u8>,
    inn: Vec<u8>,
    /// Messages (rr, crr) since the session was opened.
    message: u64,
    /// Bytes that have been streamed since the session was opened.
    streamed: u64,
}

impl ClientEnd {
    /// The end on the calling thread. A loop that polls looks at `control` now and then.
    pub(super) fn new(
        spec: &Spec,
        timing: Timing,
        core: usize,
        options: Options,
        client: ClientSockets,
        control: Arc<Control>,
        stamps: Arc<Stamps>,
    ) -> Self {
        Self {
            timing,
            core,
            options,
            control,
            client,
            stamps,
            stamper: Stamper::new(false),
            out: vec![0; spec.size],
            inn: vec![0; spec.size],
            message: 0,
            streamed: 0,
            spec: spec.clone(),
        }
    }

    pub(super) const fn timing(&self) -> Timing {
        self.timing
    }

    pub(super) const fn client(&self) -> &ClientSockets {
        &self.client
    }

    pub(super) fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// Runs a slice.
    pub(super) fn slice(
        &mut self,
        iterations: u64,
        samples: &mut Samples,
        server: &mut dyn OtherEnd,
    ) -> Result<(), Error> {
        let _pinned = Pinned::to(self.core)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        let size = self.spec.size as u64;
        let warmup = match self.spec.workload {
            Workload::Rr | Workload::Crr => u64::from(self.spec.warmup),
            Workload::Stream => 0,
        };
        self.stamper.begin(&self.stamps, iterations + warmup);
        if let ClientSockets::Connection(end) = &self.client {
            end.begin_stamps(&self.stamper)?;
        }
        server.begin(iterations + warmup)?;
        for _ in 0..warmup {
            self.round_trip()?;
        }
        self.stamper.timed(&self.stamps);
        let mut laps = Laps::start(self.timing, samples)?;
        match self.spec.workload {
            Workload::Rr | Workload::Crr => {
                for _ in 0..iterations {
                    self.round_trip()?;
                    laps.lap(samples);
                }
                laps.finish(samples, 2 * iterations * size, false);
            }
            Workload::Stream if self.spec.reverse => {
                for _ in 0..iterations {
                    self.read()?;
                    laps.lap(samples);
                }
                laps.finish(samples, iterations * size, false);
            }
            Workload::Stream => {
                for _ in 0..iterations {
                    self.write()?;
                    laps.lap(samples);
                }
                laps.flush(samples);
                self.await_acknowledgement()?;
                laps.finish(samples, iterations * size, true);
            }
        }
        if let ClientSockets::Connection(end) = &self.client {
            end.end_stamps(&mut self.stamper)?;
        }
        self.stamper.end(&self.stamps);
        cores::still_pinned(self.core).map_err(|error| Error::system(PATH, KEEPING, error))?;
        server.finish()
    }

    #[inline]
    fn round_trip(&mut self) -> Result<(), Error> {
        let message = self.message;
        self.message += 1;
        if self.spec.verify {
            fill(&mut self.out, request_seed(message), 0);
        }
        match &self.client {
            ClientSockets::Connection(end) => {
                end.send_message(&self.out, &self.control, &mut self.stamper)?;
                end.recv_message(&mut self.inn, &self.control, &mut self.stamper)?;
            }
            ClientSockets::Destinations(addresses) => {
                let end = End::connect(
                    &addresses[destination(message, addresses.len())],
                    &self.options,
                )?;
                end.send_message(&self.out, &self.control, &mut self.stamper)?;
                end.recv_message(&mut self.inn, &self.control, &mut self.stamper)?;
                end.shutdown(Shutdown::Write)?;
                end.recv_end(&self.control)?;
            }
        }
        if self.spec.verify {
            check(&self.inn, response_seed(message), 0).map_err(|offset| Error::Corrupt {
                path: PATH,
                what: "response",
                message,
                offset,
            })?;
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self) -> Result<(), Error> {
        if self.spec.verify {
            fill(&mut self.out, STREAM_SEED, self.streamed);
        }
        self.streamed += self.spec.size as u64;
        match &self.client {
            ClientSockets::Connection(end) => end.send_all(&self.out, &self.control),
            ClientSockets::Destinations(_) => Err(Error::Closed {
                path: PATH,
                doing: "streaming without a connection",
            }),
        }
    }

    /// Reads what the other end writes at once.
    #[inline]
    fn read(&mut self) -> Result<(), Error> {
        let ClientSockets::Connection(end) = &self.client else {
            return Err(Error::Closed {
                path: PATH,
                doing: "streaming without a connection",
            });
        };
        end.recv_exact(&mut self.inn, &self.control)?;
        if self.spec.verify {
            check_stream(PATH, &self.inn, self.streamed)?;
        }
        self.streamed += self.spec.size as u64;
        Ok(())
    }

    /// Waits for the byte by which the reader says that it has read the whole slice.
    fn await_acknowledgement(&mut self) -> Result<(), Error> {
        match &self.client {
            ClientSockets::Connection(end) => {
                if !self.options.nodelay {
                    end.push()?;
                }
                end.recv_exact(&mut [0], &self.control)
            }
            ClientSockets::Destinations(_) => Err(Error::Closed {
                path: PATH,
                doing: "streaming without a connection",
            }),
        }
    }
}

//! The timed application over our stack: rr, crr and stream from the client's end, over any link.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tollgate_gate::{Clock, Ticks};
use tollgate_link::Waitable;
use tollgate_run::Workload;
use tollgate_stats::{Samples, Timing};

use super::End;
use crate::cores::Pinned;
use crate::error::Error;
use crate::laps::Laps;
use crate::payload::{STREAM_SEED, check, check_stream, fill, request_seed, response_seed};
use crate::placed::Placed;
use crate::slice::{OtherEnd, PATIENCE, destination};
use crate::spec::Spec;
use crate::stack_gates::{Forget, Gates, Ungated};

/// Shortest time after which a request to a service counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(1);
/// Times the largest round trip that it takes at least.
const LOST_AFTER_TRIPS: u32 = 3;

/// The other end of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// One of ours: it answers requests by bytes of its own, and a stream's slice by one byte.
    Ours,
    /// Anybody's echo for rr and crr, anybody's discard for streams, and anybody's chargen for those that come to us: a slice of a
    /// stream ends when all is acknowledged, or read. A chargen goes on between slices, so each begins with what it has sent ahead.
    Service,
}

/// The timed application and its end.
pub(crate) struct Client<L> {
    spec: Spec,
    timing: Timing,
    peer: Peer,
    /// The processor that it is pinned to in a slice.
    core: usize,
    pub(crate) end: End<L>,
    /// Connections of `crr` go to these by turns ([`destination`]), all others to the first.
    destinations: Vec<SocketAddr>,
    out: Placed,
    inn: Placed,
    /// Messages since the session was opened.
    message: u64,
    /// Bytes that have been streamed since the session was opened.
    streamed: u64,
    /// The largest round trip so far.
    largest: Duration,
}

impl<L: Waitable> Client<L> {
    /// The application at this end.
    pub(crate) fn new(
        spec: &Spec,
        timing: Timing,
        core: usize,
        end: End<L>,
        destinations: Vec<SocketAddr>,
    ) -> Self {
        Self {
            spec: spec.clone(),
            timing,
            peer: Peer::Ours,
            core,
            end,
            destinations,
            out: Placed::new(0, spec.size, spec.places[0]),
            inn: Placed::new(0, spec.size, spec.places[1]),
            message: 0,
            streamed: 0,
            largest: Duration::ZERO,
        }
    }

    /// Sets another peer for the application.
    pub(crate) fn with_peer(mut self, peer: Peer) -> Self {
        self.peer = peer;
        self
    }

    /// The spec that it carries out.
    pub(crate) const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Timing of its samples.
    pub(crate) const fn timing(&self) -> Timing {
        self.timing
    }

    /// Connects to the destination that is next, and waits until the connection is established.
    pub(crate) fn connect(&mut self, other: &mut dyn OtherEnd) -> Result<(), Error> {
        let to = destination(self.message, self.destinations.len());
        self.end.connect(self.destinations[to], || other.check())
    }

    /// Runs a slice.
    pub(crate) fn slice(
        &mut self,
        iterations: u64,
        samples: &mut Samples,
        other: &mut dyn OtherEnd,
    ) -> Result<(), Error> {
        let _pinned = self.begin(iterations, other)?;
        let bytes = iterations * self.spec.size as u64;
        let warmup = self.spec.warmup;
        match self.spec.workload {
            Workload::Rr => {
                for _ in 0..warmup {
                    let lost = self.round_trip(&mut Ungated, other)?;
                    samples.add_lost(lost);
                }
                let mut laps = Laps::start(self.timing, samples)?;
                let mut left_out = 0;
                for _ in 0..iterations {
                    match self.round_trip(&mut Ungated, other)? {
                        0 => laps.lap(samples),
                        lost => {
                            samples.add_lost(lost);
                            left_out += laps.leave_out();
                        }
                    }
                }
                let timed = iterations - left_out;
                laps.finish(samples, 2 * timed * self.spec.size as u64, false);
                let largest = samples.max_ns().map(Duration::from_nanos);
                self.largest = self.largest.max(largest.unwrap_or_default());
            }
            Workload::Crr => {
                for _ in 0..warmup {
                    self.connection(other)?;
                }
                let mut laps = Laps::start(self.timing, samples)?;
                for _ in 0..iterations {
                    self.connection(other)?;
                    laps.lap(samples);
                }
                laps.finish(samples, 2 * bytes, false);
            }
            Workload::Stream if self.spec.reverse => {
                if self.peer == Peer::Service {
                    self.read_ahead(other)?;
                }
                let mut laps = Laps::start(self.timing, samples)?;
                for _ in 0..iterations {
                    self.read(other)?;
                    laps.lap(samples);
                }
                laps.finish(samples, bytes, false);
            }
            Workload::Stream => {
                let mut laps = Laps::start(self.timing, samples)?;
                for _ in 0..iterations {
                    self.write(other)?;
                    laps.lap(samples);
                }
                laps.flush(samples);
                self.end.push(|| other.check())?;
                match self.peer {
                    Peer::Ours => self.end.receive(&mut [0], || other.check())?,
                    Peer::Service => self.end.acknowledged(|| other.check())?,
                }
                self.end.switch_nagle(false)?;
                laps.finish(samples, bytes, true);
            }
        }
        self.end.drain(|| other.check())?;
        other.finish()
    }

    /// Runs a slice of round trips past gates, and tells how many times this end slept in them. `lap` gets the time of each, in ticks
    /// of the clock, from the end of the one before.
    pub(crate) fn slice_past(
        &mut self,
        gates: &mut (impl Gates + Forget),
        round_trips: u64,
        clock: &Clock,
        mut lap: impl FnMut(Ticks, Ticks),
        other: &mut dyn OtherEnd,
    ) -> Result<u64, Error> {
        let _pinned = self.begin(round_trips, other)?;
        for _ in 0..self.spec.warmup {
            self.round_trip(gates, other)?;
        }
        gates.forget();
        let slept_before = self.end.waiter.counts().sleeps;
        let mut last = clock.now();
        for _ in 0..round_trips {
            // Our own end is at the other side, and loses nothing.
            self.round_trip(gates, other)?;
            let now = clock.now();
            lap(last, now);
            last = now;
        }
        let sleeps = self.end.waiter.counts().sleeps - slept_before;
        self.end.drain(|| other.check())?;
        other.finish()?;
        Ok(sleeps)
    }

    /// Pins the thread, and has the other end begin a slice.
    fn begin(&mut self, iterations: u64, other: &mut dyn OtherEnd) -> Result<Pinned, Error> {
        let path = self.end.path;
        let pinned = Pinned::to(self.core)
            .map_err(|error| Error::system(path, "pinning a thread", error))?;
        self.end.poll();
        let warmup = match self.spec.workload {
            Workload::Rr | Workload::Crr => self.spec.warmup,
            Workload::Stream => 0,
        };
        other.begin(iterations + u64::from(warmup))?;
        Ok(pinned)
    }

    /// Sends a request and waits for its response. Counts the datagrams that were lost, without which the trip has no time.
    #[inline(always)]
    fn round_trip(
        &mut self,
        gates: &mut impl Gates,
        other: &mut dyn OtherEnd,
    ) -> Result<u64, Error> {
        let message = self.message;
        self.message += 1;
        if self.spec.verify {
            fill(&mut self.out, request_seed(message), 0);
        }
        let mut lost = 0;
        if self.spec.is_datagrams() {
            lost = self.datagrams(other)?;
        } else {
            self.end.send_past(gates, &self.out, || other.check())?;
            self.end
                .receive_past(gates, &mut self.inn, || other.check())?;
        }
        if self.spec.verify {
            let seed = match self.peer {
                Peer::Ours => response_seed(message),
                Peer::Service => request_seed(message),
            };
            check(&self.inn, seed, 0).map_err(|offset| Error::Corrupt {
                path: self.end.path,
                what: "response",
                message,
                offset,
            })?;
        }
        Ok(lost)
    }

    /// Sends the request as a datagram and waits for the response. Counts the datagrams that were lost.
    ///
    /// Only a service is asked again. Our own end counts the messages of a slice, over links of this host, which lose none.
    #[inline]
    pub(crate) fn datagrams(&mut self, other: &mut dyn OtherEnd) -> Result<u64, Error> {
        let patience = match self.peer {
            Peer::Ours => PATIENCE,
            Peer::Service => LOST_AFTER
                .max(LOST_AFTER_TRIPS * self.largest)
                .min(PATIENCE),
        };
        match self.exchange(patience, other) {
            Ok(()) => Ok(0),
            Err(Error::Timeout { .. }) if patience < PATIENCE => self.ask_again(patience, other),
            Err(error) => Err(error),
        }
    }

    fn exchange(&mut self, patience: Duration, other: &mut dyn OtherEnd) -> Result<(), Error> {
        self.end.send_datagram(&self.out, || other.check())?;
        let (end, inn) = (&mut self.end, &mut self.inn);
        end.receive_datagram(inn, patience, || other.check())
    }

    /// Sends the request again until it is answered, with twice the patience each time. Counts the datagrams that were lost.
    ///
    /// Each goes from another port: a late response must not be taken for that of a later request.
    #[cold]
    fn ask_again(&mut self, first: Duration, other: &mut dyn OtherEnd) -> Result<u64, Error> {
        let (mut lost, mut waited, mut patience) = (0, Duration::ZERO, first);
        while waited + patience < PATIENCE {
            lost += 1;
            waited += patience;
            patience = (2 * patience).min(PATIENCE - waited);
            self.end
                .open_datagrams(&self.spec, 0, self.destinations[0])?;
            let sent = Instant::now();
            match self.exchange(patience, other) {
                Ok(()) => {
                    self.largest = self.largest.max(sent.elapsed());
                    return Ok(lost);
                }
                Err(Error::Timeout { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Timeout {
            path: self.end.path,
            doing: "receiving a datagram",
            seconds: PATIENCE.as_secs(),
        })
    }

    /// Connects, carries a request and its response, and closes.
    fn connection(&mut self, other: &mut dyn OtherEnd) -> Result<(), Error> {
        self.connect(other)?;
        self.round_trip(&mut Ungated, other)?;
        self.close(other)
    }

    /// Closes, and waits until the other end has closed as well.
    pub(crate) fn close(&mut self, other: &mut dyn OtherEnd) -> Result<(), Error> {
        self.end.close()?;
        self.end.closed(|| other.check())
    }

    /// Reads what the other end of the stream writes at once.
    #[inline]
    fn read(&mut self, other: &mut dyn OtherEnd) -> Result<(), Error> {
        self.end.receive(&mut self.inn, || other.check())?;
        if self.spec.verify {
            check_stream(self.end.path, &self.inn, self.streamed)?;
        }
        self.streamed += self.spec.size as u64;
        Ok(())
    }

    /// Reads what a server that is told of no slice may have sent before this one: as much as the receive buffer holds. The clock
    /// does not run, since those bytes are there already.
    fn read_ahead(&mut self, other: &mut dyn OtherEnd) -> Result<(), Error> {
        let mut ahead = vec![0; self.end.receive_buffer()?];
        self.streamed += ahead.len() as u64;
        self.end.receive(&mut ahead, || other.check())
    }

    /// One write of the stream.
    #[inline]
    fn write(&mut self, other: &mut dyn OtherEnd) -> Result<(), Error> {
        if self.spec.verify {
            fill(&mut self.out, STREAM_SEED, self.streamed);
        }
        self.streamed += self.spec.size as u64;
        self.end.stream(&self.out, || other.check())
    }
}

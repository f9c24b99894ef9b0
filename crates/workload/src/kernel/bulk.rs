//! One-way streams over kernel sockets that hand bytes over, or read them, in a way of their own: see
//! [`Sockets`](crate::sockets::Sockets).
//!
//! Byte `p` of the stream is byte `p` modulo the walked memory of a fixed sequence, so the reader can compare it whichever way
//! it was sent: the writer's memory, and the file in memory that sendfile(2) and splice(2) take from, hold that sequence.
//!
//! A late reader is the writer's own thread: it writes what the socket takes without waiting, and then reads it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tollgate_stats::{Samples, Timing};

use super::socket::{self, End, Options};
use super::uring::{Taking, Uring};
use super::zero_copy::Completions;
use super::{KernelLoopback, Network, PATH, thread_name};
use crate::cores::{self, Cores, KEEPING, Pinned};
use crate::error::Error;
use crate::laps::Laps;
use crate::path::{Path, Session};
use crate::payload::{STREAM_SEED, check, fill};
use crate::slice::{Control, LOOK_AGAIN, PATIENCE, Server, sleep_on, wake};
use crate::sockets::{Reading, Sending, Sockets};
use crate::spec::Spec;

const ZEROCOPY: SendFlags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);
/// Sends without a copy between two looks at the completions.
const REAP_EVERY: u64 = 32;
/// Sends without a copy that may be under way.
const MOST_UNDER_WAY: u64 = 1_024;

/// Bytes that every pipe holds.
const PIPE: usize = 65_536;

/// State that both ends share beside the control.
#[derive(Debug, Default)]
struct Shared {
    /// The count of posted reads since the session was opened.
    posted: AtomicU32,
}

pub(super) struct BulkSession {
    spec: Spec,
    timing: Timing,
    cores: Cores,
    congestion: String,
    control: Arc<Control>,
    shared: Arc<Shared>,
    client: End,
    /// The other end, when this thread reads it, too.
    own_reader: Option<Reader>,
    thread: Option<JoinHandle<()>>,
    source: Source,
    /// The offset of the next write in the memory.
    at: usize,
    writes: u32,
    failed: bool,
}

/// Source of written bytes.
enum Source {
    Memory(Vec<u8>),
    ZeroCopy(Vec<u8>, Completions),
    Uring(Box<Uring>),
    File {
        file: OwnedFd,
        len: usize,
        /// For splice(2): the pipe's reading and writing end.
        pipe: Option<(OwnedFd, OwnedFd)>,
    },
}

impl Source {
    fn make(sockets: &Sockets, len: usize, size: usize) -> Result<Self, Error> {
        let mut bytes = vec![0; len];
        fill(&mut bytes, STREAM_SEED, 0);
        let system = |doing| move |error: Errno| Error::system(PATH, doing, error);
        match sockets.sending {
            Sending::Copy => Ok(Self::Memory(bytes)),
            Sending::ZeroCopy => Ok(Self::ZeroCopy(bytes, Completions::default())),
            Sending::Uring => Uring::new(PATH, bytes, Taking::Copy).map(Self::uring),
            Sending::UringZeroCopy => Uring::new(PATH, bytes, Taking::ZeroCopy).map(Self::uring),
            Sending::Sendfile | Sending::Splice => {
                let file = memfd_create("tollgate-stream", MemfdFlags::CLOEXEC)
                    .map_err(system("making a file in memory"))?;
                let mut written = 0;
                while written < bytes.len() {
                    written += rustix::io::write(&file, &bytes[written..])
                        .map_err(system("filling a file in memory"))?;
                }
                let pipe = if sockets.sending == Sending::Splice {
                    let pipe = pipe_with(PipeFlags::CLOEXEC).map_err(system("making a pipe"))?;
                    // A file's pages need a slot of the pipe each, also those used in part; what does not fit goes in turns.
                    widen(&pipe.1, (2 * size).next_power_of_two().max(PIPE))
                        .map_err(system("widening a pipe"))?;
                    Some(pipe)
                } else {
                    None
                };
                Ok(Self::File { file, len, pipe })
            }
        }
    }

    fn uring(uring: Uring) -> Self {
        Self::Uring(Box::new(uring))
    }

    fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) | Self::ZeroCopy(bytes, _) => bytes.len(),
            Self::Uring(uring) => uring.len(),
            Self::File { len, .. } => *len,
        }
    }
}

/// The reading end.
struct Reader {
    end: End,
    memory: Vec<u8>,
    /// The offset of the next read in the memory.
    at: usize,
    size: usize,
    verify: bool,
}

impl Reader {
    /// Reads at most `most` bytes, as far as one call gives them, or all of them.
    fn read(&mut self, most: usize, all: bool, flags: RecvFlags) -> Result<usize, Error> {
        let room = (self.memory.len() - self.at).min(most);
        let buffer = &mut self.memory[self.at..self.at + room];
        let flags = if all {
            flags | RecvFlags::WAITALL
        } else {
            flags
        };
        let got = loop {
            match recv(self.end.fd(), &mut *buffer, flags) {
                Ok((_, 0)) => {
                    return Err(Error::Closed {
                        path: PATH,
                        doing: "receiving",
                    });
                }
                Ok((_, got)) => break got,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(late("receiving")),
                Err(error) => return Err(Error::system(PATH, "receiving", error)),
            }
        };
        if self.verify {
            check(&buffer[..got], STREAM_SEED, self.at as u64).map_err(|offset| {
                Error::Corrupt {
                    path: PATH,
                    what: "stream",
                    message: 0,
                    offset,
                }
            })?;
        }
        self.at = (self.at + got) % self.memory.len();
        Ok(got)
    }

    /// Reads exactly `bytes`, no more than the size of a write with one call.
    fn drain(&mut self, mut bytes: u64) -> Result<(), Error> {
        while bytes > 0 {
            let most = usize::try_from(bytes).unwrap_or(self.size).min(self.size);
            bytes -= self.read(most, false, RecvFlags::empty())? as u64;
        }
        Ok(())
    }
}

fn late(doing: &'static str) -> Error {
    Error::Timeout {
        path: PATH,
        doing,
        seconds: PATIENCE.as_secs(),
    }
}

/// The thread's body: reads the slices that are ordered, and says with a byte when each is read.
fn serve(mut reader: Reader, reading: Reading, core: usize, control: &Control, shared: &Shared) {
    let mut orders = Server::new(control);
    let outcome = cores::pin(core)
        .map_err(|error| Error::system(PATH, "pinning a thread", error))
        .and_then(|()| {
            while let Some(writes) = orders.next_order() {
                orders.ready();
                let size = reader.size;
                if reading == Reading::Posted {
                    for _ in 0..writes {
                        shared.posted.fetch_add(1, Ordering::Release);
                        wake(&shared.posted);
                        let mut got = 0;
                        while got < size {
                            got += reader.read(size - got, true, RecvFlags::empty())?;
                        }
                    }
                } else {
                    reader.drain(writes * size as u64)?;
                }
                cores::still_pinned(core).map_err(|error| Error::system(PATH, KEEPING, error))?;
                reader.end.send_all(&[1], control)?;
                orders.done();
            }
            Ok(())
        });
    match outcome {
        Ok(()) => {}
        // The session was dropped in the middle of a slice: nobody is left to be told.
        Err(_) if control.is_quit() => {}
        Err(error) => orders.fail(&error.to_string()),
    }
}

impl BulkSession {
    pub(super) fn open(spec: &Spec, place: &Network) -> Result<Self, Error> {
        let cores = Cores::choose(spec.placement)?;
        let options = Options::of(spec);
        let (client, server, _) = socket::pair(&options, place)?;
        let congestion = client.congestion()?;
        let sockets = spec.sockets;
        // Whole writes only, so that none is cut at the memory's end.
        let memory = spec.size * (sockets.memory / spec.size).max(1);
        let source = Source::make(&sockets, memory, spec.size)?;
        if sockets.sending == Sending::ZeroCopy {
            Completions::enable(client.fd())
                .map_err(|error| Error::system(PATH, "setting SO_ZEROCOPY", error))?;
        }
        let reader = Reader {
            end: server,
            memory: vec![0; memory],
            at: 0,
            size: spec.size,
            verify: spec.verify,
        };
        let control = Arc::new(Control::new());
        let shared = Arc::new(Shared::default());
        let (own_reader, thread) = if sockets.reading == Reading::Late {
            (Some(reader), None)
        } else {
            let thread = thread::Builder::new()
                .name(thread_name())
                .spawn({
                    let (control, shared) = (Arc::clone(&control), Arc::clone(&shared));
                    move || serve(reader, sockets.reading, cores.server, &control, &shared)
                })
                .map_err(|error| Error::system(PATH, "starting a thread", error))?;
            (None, Some(thread))
        };
        Ok(Self {
            timing: KernelLoopback::DEFAULT.capabilities().timing(spec),
            cores,
            congestion,
            control,
            shared,
            client,
            own_reader,
            thread,
            source,
            at: 0,
            writes: 0,
            failed: false,
            spec: spec.clone(),
        })
    }

    /// Shuts the connection down under the session, as a peer that dies does.
    #[cfg(test)]
    pub(super) fn break_off(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
    }

    fn slice(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        let _pinned = Pinned::to(self.cores.client)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        let size = self.spec.size;
        if self.thread.is_some() {
            self.control.begin(PATH, iterations, || Ok(()))?;
        }
        let mut laps = Laps::start(self.timing, samples)?;
        for _ in 0..iterations {
            self.write()?;
            self.at = (self.at + size) % self.source.len();
            laps.lap(samples);
        }
        laps.flush(samples);
        if self.thread.is_some() {
            if self.spec.nagle() {
                self.client.push()?;
            }
            self.client.recv_exact(&mut [0], &self.control)?;
        }
        self.await_completions()?;
        laps.finish(samples, iterations * size as u64, true);
        cores::still_pinned(self.cores.client)
            .map_err(|error| Error::system(PATH, KEEPING, error))?;
        if self.thread.is_some() {
            self.control.finish(PATH, || Ok(()))?;
        }
        Ok(())
    }

    /// One write of the stream, and with a late reader the reads of it.
    fn write(&mut self) -> Result<(), Error> {
        self.writes = self.writes.wrapping_add(1);
        if self.spec.sockets.reading == Reading::Posted {
            self.await_posted(self.writes)?;
        }
        let end = self.at + self.spec.size;
        let mut at = self.at;
        while at < end {
            let sent = self.send(at, end - at)?;
            at += sent;
            if let Some(reader) = &mut self.own_reader {
                reader.drain(sent as u64)?;
            }
        }
        Ok(())
    }

    /// Hands the kernel up to `len` bytes from `at` on; gives how many it took.
    fn send(&mut self, at: usize, len: usize) -> Result<usize, Error> {
        // With a late reader a full socket must not block: it is read next.
        let flags = match self.own_reader {
            Some(_) => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            None => SendFlags::NOSIGNAL,
        };
        loop {
            let sent = match &mut self.source {
                Source::Memory(bytes) => send(self.client.fd(), &bytes[at..at + len], flags),
                Source::ZeroCopy(bytes, completions) => {
                    let sent = send(self.client.fd(), &bytes[at..at + len], flags | ZEROCOPY);
                    if sent.is_ok() {
                        completions.sent();
                    }
                    let under_way = completions.under_way();
                    if sent == Err(Errno::NOBUFS) || under_way.is_multiple_of(REAP_EVERY) {
                        reap(completions, &self.client, MOST_UNDER_WAY)?;
                    }
                    match sent {
                        // Completions have been read, so there is room again.
                        Err(Errno::NOBUFS) if under_way > 0 => continue,
                        sent => sent,
                    }
                }
                Source::Uring(uring) => {
                    uring.send(self.client.fd(), at, len, flags.bits().cast_signed())
                }
                Source::File {
                    file, pipe: None, ..
                } => sendfile(self.client.fd(), &file, Some(&mut (at as u64)), len),
                Source::File {
                    file,
                    pipe: Some((from, into)),
                    ..
                } => splice(
                    &file,
                    Some(&mut (at as u64)),
                    &into,
                    None,
                    len,
                    SpliceFlags::empty(),
                )
                .and_then(|filled| empty(from, &self.client, filled)),
            };
            match sent {
                Ok(0) => {
                    return Err(Error::Closed {
                        path: PATH,
                        doing: "sending",
                    });
                }
                Ok(sent) => return Ok(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::TIME) => return Err(late("sending")),
                Err(Errno::CONNRESET | Errno::PIPE) => {
                    return Err(Error::Closed {
                        path: PATH,
                        doing: "sending",
                    });
                }
                Err(error) => return Err(Error::system(PATH, "sending", error)),
            }
        }
    }

    /// Waits until the reader waits for this write.
    fn await_posted(&self, write: u32) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let posted = self.shared.posted.load(Ordering::Acquire);
            if posted == write {
                return Ok(());
            }
            if let Some(reason) = self.control.failure() {
                return Err(Error::Peer { path: PATH, reason });
            }
            if Instant::now() >= deadline {
                return Err(late("waiting for the reader"));
            }
            sleep_on(&self.shared.posted, posted, Some(LOOK_AGAIN));
        }
    }

    fn await_completions(&mut self) -> Result<(), Error> {
        match &mut self.source {
            Source::ZeroCopy(_, completions) => reap(completions, &self.client, 0),
            Source::Uring(uring) => uring.settle(0).map_err(|error| match error {
                Errno::TIME => late("waiting for notifications of io_uring"),
                error => Error::system(PATH, "waiting for notifications of io_uring", error),
            }),
            Source::Memory(_) | Source::File { .. } => Ok(()),
        }
    }
}

/// Widens a pipe to so many bytes, or to as many as one may have without privileges (/proc/sys/fs/pipe-max-size, pipe(7)).
fn widen(pipe: &OwnedFd, bytes: usize) -> rustix::io::Result<()> {
    match fcntl_setpipe_size(pipe, bytes) {
        Err(Errno::PERM) if bytes > PIPE => widen(pipe, bytes / 2),
        outcome => outcome.map(drop),
    }
}

/// Moves all that a pipe holds into the socket.
fn empty(pipe: &OwnedFd, client: &End, filled: usize) -> rustix::io::Result<usize> {
    let mut left = filled;
    while left > 0 {
        match splice(pipe, None, client.fd(), None, left, SpliceFlags::empty()) {
            Ok(0) => return Err(Errno::PIPE),
            Ok(moved) => left -= moved,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads completions until at most `most` sends are under way.
fn reap(completions: &mut Completions, client: &End, most: u64) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        completions
            .reap(client.fd())
            .map_err(|error| Error::system(PATH, "reading the error queue", error))?;
        if completions.under_way() <= most {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(late("waiting for completions of MSG_ZEROCOPY"));
        }
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK_AGAIN.as_nanos() as i64,
        };
        // An error queue that is not empty is POLLERR, which needs no asking.
        let mut fds = [PollFd::from_borrowed_fd(client.fd(), PollFlags::empty())];
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                return Err(Error::system(PATH, "waiting for completions", error));
            }
        }
    }
}

impl Session for BulkSession {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned { path: PATH });
        }
        samples.check_timing(self.timing)?;
        let outcome = self.slice(iterations, samples);
        self.failed = outcome.is_err();
        match (outcome, self.control.failure()) {
            (Err(_), Some(reason)) => Err(Error::Peer { path: PATH, reason }),
            (outcome, _) => outcome,
        }
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let sockets = &self.spec.sockets;
        let mut settings = vec![
            ("congestion", self.congestion.clone()),
            self.spec.nagle_setting(),
            ("cores", self.cores.describe()),
            ("sending", sockets.sending.to_string()),
            ("reading", sockets.reading.to_string()),
            ("memory", format!("{} bytes", self.source.len())),
        ];
        let copied = match &self.source {
            Source::ZeroCopy(_, completions) => Some(completions.copied()),
            Source::Uring(uring) => uring.copied(),
            Source::Memory(_) | Source::File { .. } => None,
        };
        if let Some((copied, done @ 1..)) = copied {
            let share = 100.0 * copied as f64 / done as f64;
            settings.push(("copied after all", format!("{share:.0} % of the sends")));
        }
        settings
    }
}

impl Drop for BulkSession {
    fn drop(&mut self) {
        self.control.quit();
        // The reader may sleep in recv, which returns when the connection is shut down.
        let _ = self.client.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

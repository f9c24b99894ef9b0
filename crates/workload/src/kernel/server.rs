//! The other end of `kernel-loopback`: a thread that answers, or reads, exactly what a slice orders.

use std::os::fd::OwnedFd;

use tollgate_run::{PathId, Workload};

use super::PATH;
use super::socket::{End, Options, accept};
use crate::cores::{self, KEEPING};
use crate::error::Error;
use crate::payload::{STREAM_SEED, check, check_stream, fill, request_seed, response_seed};
use crate::slice::{Control, Server, destination};
use crate::spec::Spec;
use crate::stamps::{Stamper, Stamps};

/// Bytes that the reader of a stream asks for at once.
const READ: usize = 64 * 1024;

/// Connections that the thread serves.
pub(crate) enum Job {
    /// One connection for the whole session.
    Connection(End),
    /// A connection for each iteration, accepted from the listeners in turn.
    Listeners,
}

/// The thread's body: serves slices until told to stop, and reports why when it cannot.
#[expect(
    clippy::too_many_arguments,
    reason = "the body of a thread, called in one place"
)]
pub(super) fn serve(
    path: PathId,
    spec: &Spec,
    options: Options,
    core: usize,
    control: &Control,
    job: Job,
    listeners: &[OwnedFd],
    stamps: &Stamps,
) {
    let mut orders = Server::new(control);
    let mut server = ServerApp {
        spec,
        options,
        control,
        listeners,
        path,
        stamps,
        stamper: Stamper::new(true),
        buffer: match spec.workload {
            Workload::Rr | Workload::Crr => vec![0; spec.size],
            Workload::Stream => vec![0; READ],
        },
        out: vec![1; spec.size],
        message: 0,
        streamed: 0,
    };
    let outcome = cores::pin(core)
        .map_err(|error| Error::system(PATH, "pinning a thread", error))
        .and_then(|()| server.serve(&mut orders, &job, core));
    match outcome {
        // The session was dropped in the middle of a slice: nobody is left to be told.
        Ok(()) => {}
        Err(_) if control.is_quit() => {}
        Err(error) => orders.fail(&error.on(path).to_string()),
    }
    // Only now: a failure has to be there to be read before the closed connection tells the timed end that something is
    // wrong.
    drop(job);
}

struct ServerApp<'a> {
    spec: &'a Spec,
    options: Options,
    control: &'a Control,
    listeners: &'a [OwnedFd],
    path: PathId,
    stamps: &'a Stamps,
    stamper: Stamper,
    buffer: Vec<u8>,
    out: Vec<u8>,
    message: u64,
    streamed: u64,
}

impl ServerApp<'_> {
    fn serve(&mut self, orders: &mut Server<'_>, job: &Job, core: usize) -> Result<(), Error> {
        let pinned =
            || cores::still_pinned(core).map_err(|error| Error::system(PATH, KEEPING, error));
        while let Some(iterations) = orders.next_order() {
            pinned()?;
            self.stamper.begin(self.stamps, iterations);
            if let Job::Connection(end) = job {
                end.begin_stamps(&self.stamper)?;
            }
            orders.ready();
            match (job, self.spec.workload) {
                (Job::Connection(end), Workload::Stream) if self.spec.reverse => {
                    self.feed(end, iterations)?;
                }
                (Job::Connection(end), Workload::Stream) => self.drain(end, iterations)?,
                (Job::Connection(end), Workload::Rr | Workload::Crr) => {
                    for _ in 0..iterations {
                        self.answer(end)?;
                    }
                }
                (Job::Listeners, _) => {
                    for _ in 0..iterations {
                        let listener =
                            &self.listeners[destination(self.message, self.listeners.len())];
                        let end = accept(listener, self.options.waiting, self.control)?;
                        let outcome = self.answer(&end).and_then(|()| end.recv_end(self.control));
                        outcome.map_err(|error| self.tell_first(orders, error))?;
                    }
                }
            }
            if let Job::Connection(end) = job {
                end.end_stamps(&mut self.stamper)?;
            }
            self.stamper.end(self.stamps);
            pinned()?;
            orders.done();
        }
        Ok(())
    }

    /// Reports a failure before the connection is closed by being dropped.
    fn tell_first(&self, orders: &Server<'_>, error: Error) -> Error {
        let error = error.on(self.path);
        if !self.control.is_quit() {
            orders.fail(&error.to_string());
        }
        error
    }

    #[inline]
    fn answer(&mut self, end: &End) -> Result<(), Error> {
        let message = self.message;
        self.message += 1;
        end.recv_message(&mut self.buffer, self.control, &mut self.stamper)?;
        if self.spec.verify {
            check(&self.buffer, request_seed(message), 0).map_err(|offset| Error::Corrupt {
                path: PATH,
                what: "request",
                message,
                offset,
            })?;
            fill(&mut self.out, response_seed(message), 0);
        }
        end.send_message(&self.out, self.control, &mut self.stamper)
    }

    /// Writes a slice's bytes.
    fn feed(&mut self, end: &End, writes: u64) -> Result<(), Error> {
        for _ in 0..writes {
            if self.spec.verify {
                fill(&mut self.out, STREAM_SEED, self.streamed);
            }
            self.streamed += self.out.len() as u64;
            end.send_all(&self.out, self.control)?;
        }
        Ok(())
    }

    /// Reads a slice's bytes, then says so with one byte.
    fn drain(&mut self, end: &End, writes: u64) -> Result<(), Error> {
        let mut left = writes * self.spec.size as u64;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(READ).min(READ);
            let got = end.recv_some(&mut self.buffer[..most], self.control)?;
            if self.spec.verify {
                check_stream(PATH, &self.buffer[..got], self.streamed)?;
            }
            self.streamed += got as u64;
            left -= got as u64;
        }
        end.send_all(&[1], self.control)
    }
}

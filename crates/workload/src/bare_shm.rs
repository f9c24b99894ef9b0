//! `bare-shm`: two processes that copy messages through shared memory with no protocol at all.
//!
//! It is the floor under `stack-shm`: what two cores need to pass `size` bytes there and back. Each direction has one
//! lane: a sequence word at the start of a cache line of its own, and the bytes right behind it, so that a short message
//! travels in the same line as its word. The writer copies the message in and stores the word (release); the reader polls
//! the word (acquire) and copies the message out. Nobody overwrites a lane before its reader has answered, so one word per
//! direction is enough. Both ends pause between two polls (PAUSE on x86): on an AMD Zen 5
//! messages up to 80 bytes came back sooner than without it, longer ones about as soon. Processors with a longer PAUSE may
//! differ.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_run::{Mode, PathId, Placement, Waiting, Workload};
use tollgate_stats::{Samples, Timing};

use crate::child::{Child, ChildEnd, Role};
use crate::cores::{self, Cores, KEEPING, Pinned};
use crate::error::Error;
use crate::laps::Laps;
use crate::link_kind::LinkKind;
use crate::path::{Capabilities, Path, Session};
use crate::payload::{check, fill, request_seed, response_seed};
use crate::shared_memory::SharedMemory;
use crate::slice::{Control, Look, PATIENCE, Server, Spin};
use crate::spec::Spec;

const PATH: PathId = PathId::BareShm;

/// The role of the second process.
pub(crate) const ROLE: Role = Role {
    name: "bare-shm",
    serve,
};

/// Lanes start at multiples of this many bytes: two lines, since processors fetch lines in pairs.
const SLOT_ALIGN: usize = 128;
/// Bytes before the message in its lane: the sequence word.
const WORD: usize = 8;
/// Turns of the polling loop between two looks at the other end.
const TURNS: u32 = 1 << 16;

/// The path `bare-shm`.
#[derive(Debug, Clone, Copy)]
pub struct BareShm;

impl Path for BareShm {
    fn id(&self) -> PathId {
        PATH
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            workloads: &[Workload::Rr],
            modes: &[Mode {
                placement: Placement::TwoCores,
                waiting: Waiting::BusyPoll,
            }],
            round_trip_timing: Timing::Batch(16),
            stream_timing: Timing::Batch(16),
            links: &[LinkKind::Ethernet],
        }
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        self.capabilities().check(PATH, spec)?;
        let cores = Cores::choose(spec.placement)?;
        let memory = SharedMemory::create("tollgate-bare-shm", needed(spec.size))
            .map_err(|error| Error::system(PATH, "making shared memory", error))?;
        let child = Child::spawn(PATH, ROLE.name, spec, memory.as_fd(), cores.server)?;
        Ok(Box::new(BareSession {
            timing: self.capabilities().timing(spec),
            end: End::new(spec, 0),
            spec: spec.clone(),
            cores,
            memory,
            child,
            failed: false,
        }))
    }
}

struct BareSession {
    spec: Spec,
    timing: Timing,
    cores: Cores,
    end: End,
    // Ends before the memory is unmapped; the child has a mapping of its own, so the order matters to nobody else.
    child: Child,
    memory: SharedMemory,
    failed: bool,
}

impl Session for BareSession {
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
        vec![
            ("cores", self.cores.describe()),
            ("ends", "two processes".to_owned()),
            (
                "lane",
                format!(
                    "sequence word and {} bytes, from a line's start",
                    self.spec.size
                ),
            ),
        ]
    }
}

impl BareSession {
    fn slice(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        let _pinned = Pinned::to(self.cores.client)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        self.child.begin(iterations + u64::from(self.spec.warmup))?;
        let lanes = Lanes::of(&self.memory, self.spec.size);
        let mut around = || self.child.check().and_then(|()| kept(self.cores.client));
        for _ in 0..self.spec.warmup {
            self.end.round_trip(&lanes, &mut around)?;
        }
        let mut laps = Laps::start(self.timing, samples)?;
        for _ in 0..iterations {
            self.end.round_trip(&lanes, &mut around)?;
            laps.lap(samples);
        }
        laps.finish(samples, 2 * iterations * self.spec.size as u64, false);
        self.child.finish()
    }
}

/// Refuses when the end has lost its processor: two that poll on one would wait for each other's time slices.
fn kept(core: usize) -> Result<(), Error> {
    cores::still_pinned(core).map_err(|error| Error::system(PATH, KEEPING, error))
}

/// The second process: answers as many messages as it is ordered to, and sleeps in between.
fn serve(child: ChildEnd<'_>) -> Result<(), Error> {
    let ChildEnd {
        spec,
        memory,
        control,
        server: mut orders,
        core,
    } = child;
    spec.check()?;
    let memory = SharedMemory::open(memory, needed(spec.size))
        .map_err(|error| Error::system(PATH, "mapping shared memory", error))?;
    answer_slices(&spec, &memory, control, &mut orders, || kept(core))
}

fn answer_slices(
    spec: &Spec,
    memory: &SharedMemory,
    control: &Control,
    orders: &mut Server<'_>,
    kept: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let lanes = Lanes::of(memory, spec.size);
    let mut end = End::new(spec, 1);
    while let Some(iterations) = orders.next_order() {
        kept()?;
        orders.ready();
        for _ in 0..iterations {
            let answered = end.answer(&lanes, || match control.is_quit() {
                true => Err(Error::Stopped { path: PATH }),
                false => kept(),
            });
            match answered {
                // The other end ended the session in the middle of a slice: that is no failure of this one.
                Err(Error::Stopped { .. }) => return Ok(()),
                other => other?,
            }
        }
        orders.done();
    }
    Ok(())
}

/// Bytes of shared memory for messages of `size` bytes.
fn needed(size: usize) -> usize {
    2 * stride(size)
}

fn stride(size: usize) -> usize {
    (WORD + size).next_multiple_of(SLOT_ALIGN)
}

/// The two lanes in a mapping.
struct Lanes<'a> {
    request: Lane<'a>,
    response: Lane<'a>,
}

impl<'a> Lanes<'a> {
    /// The lanes for messages of `size` bytes. The mapping is as long as [`needed`] says, which every caller has seen to.
    fn of(memory: &'a SharedMemory, size: usize) -> Self {
        assert!(
            memory.len() >= needed(size),
            "the mapping was made or checked for this size"
        );
        Self {
            request: Lane {
                memory,
                at: 0,
                size,
            },
            response: Lane {
                memory,
                at: stride(size),
                size,
            },
        }
    }
}

/// One direction.
struct Lane<'a> {
    memory: &'a SharedMemory,
    at: usize,
    size: usize,
}

impl Lane<'_> {
    #[inline]
    fn word(&self) -> &AtomicU64 {
        // SAFETY: `at` is a multiple of 128 and lies in the mapping with 8 bytes to spare (`Lanes::of` has checked it).
        let start = unsafe { self.memory.as_ptr().add(self.at) };
        // SAFETY: aligned, mapped for as long as `self.memory` lives, and both ends use these bytes as an atomic only.
        unsafe { start.cast::<AtomicU64>().as_ref() }
    }

    #[inline]
    fn bytes(&self) -> *mut u8 {
        // SAFETY: within the mapping, as `Lanes::of` has checked.
        unsafe { self.memory.as_ptr().add(self.at + WORD) }.as_ptr()
    }

    /// Writes message number `number` for the other end to read. Its previous message must have been answered.
    #[inline]
    fn put(&self, number: u64, message: &[u8]) {
        let len = message.len().min(self.size);
        // SAFETY: `len` bytes lie in the mapping behind the word, and do not overlap the caller's slice; the other end
        // reads them only after the store below and has left them before it answered the message before.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), self.bytes(), len) };
        self.word().store(number, Ordering::Release);
    }

    /// Waits for message number `number` and copies it out. `around` is asked now and then whether to go on.
    #[inline]
    fn take(
        &self,
        number: u64,
        message: &mut [u8],
        around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.word().load(Ordering::Acquire) != number {
            self.poll(number, around)?;
        }
        let len = message.len().min(self.size);
        // SAFETY: `len` bytes lie in the mapping behind the word; the other end wrote them before it stored the number,
        // which the acquiring load has seen, and writes again only after it is answered.
        unsafe { std::ptr::copy_nonoverlapping(self.bytes(), message.as_mut_ptr(), len) };
        Ok(())
    }

    #[inline]
    fn poll(
        &self,
        number: u64,
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut spin = Spin::new(TURNS);
        while self.word().load(Ordering::Acquire) != number {
            match spin.turn() {
                Look::Go => {}
                Look::Around => around()?,
                Look::Late => {
                    let doing = "polling for a message";
                    return Err(Error::Timeout {
                        path: PATH,
                        doing,
                        seconds: PATIENCE.as_secs(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// One end's user buffers and its count of messages.
struct End {
    out: Vec<u8>,
    inn: Vec<u8>,
    verify: bool,
    message: u64,
}

impl End {
    fn new(spec: &Spec, filler: u8) -> Self {
        Self {
            out: vec![filler; spec.size],
            inn: vec![0; spec.size],
            verify: spec.verify,
            message: 0,
        }
    }

    /// Sends a request and waits for its response.
    #[inline]
    fn round_trip(
        &mut self,
        lanes: &Lanes<'_>,
        around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let message = self.message;
        self.message += 1;
        if self.verify {
            fill(&mut self.out, request_seed(message), 0);
        }
        lanes.request.put(self.message, &self.out);
        lanes.response.take(self.message, &mut self.inn, around)?;
        if self.verify {
            check(&self.inn, response_seed(message), 0).map_err(|offset| Error::Corrupt {
                path: PATH,
                what: "response",
                message,
                offset,
            })?;
        }
        Ok(())
    }

    /// Waits for a request and answers it.
    #[inline]
    fn answer(
        &mut self,
        lanes: &Lanes<'_>,
        around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let message = self.message;
        self.message += 1;
        lanes.request.take(self.message, &mut self.inn, around)?;
        if self.verify {
            check(&self.inn, request_seed(message), 0).map_err(|offset| Error::Corrupt {
                path: PATH,
                what: "request",
                message,
                offset,
            })?;
            fill(&mut self.out, response_seed(message), 0);
        }
        lanes.response.put(self.message, &self.out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread::{self, JoinHandle};

    use super::*;

    fn spec(size: usize) -> Spec {
        Spec::new(Workload::Rr, size)
            .with_mode(Placement::TwoCores, Waiting::BusyPoll)
            .verified()
    }

    /// The answering end as a thread, which says how it fails before it returns that.
    fn answering(
        size: usize,
        memory: SharedMemory,
        kept: impl Fn() -> Result<(), Error> + Send + 'static,
    ) -> (Arc<Control>, JoinHandle<Result<(), Error>>) {
        let control = Arc::new(Control::new());
        let other = thread::spawn({
            let control = Arc::clone(&control);
            move || {
                let mut orders = Server::new(&control);
                let outcome = answer_slices(&spec(size), &memory, &control, &mut orders, kept);
                if let Err(error) = &outcome {
                    orders.fail(&error.to_string());
                }
                outcome
            }
        });
        (control, other)
    }

    /// Both ends as threads over two mappings of one file; gives what the answering end returned.
    fn ping_pong(
        size: usize,
        slices: &[u64],
        spoil: bool,
    ) -> (Result<(), Error>, Result<(), Error>) {
        let spec = spec(size);
        let client = SharedMemory::create("tollgate-test", needed(size)).unwrap();
        let server =
            SharedMemory::open(client.as_fd().try_clone_to_owned().unwrap(), needed(size)).unwrap();
        let (control, other) = answering(size, server, || Ok(()));
        let lanes = Lanes::of(&client, size);
        let mut end = End::new(&spec, 0);
        let mut outcome = Ok(());
        'all: for &iterations in slices {
            control.begin(PATH, iterations, || Ok(())).unwrap();
            for _ in 0..iterations {
                if spoil {
                    end.verify = false;
                }
                let around = || match control.failure() {
                    Some(reason) => Err(Error::Peer { path: PATH, reason }),
                    None => Ok(()),
                };
                outcome = end.round_trip(&lanes, around);
                if outcome.is_err() {
                    break 'all;
                }
            }
            control.finish(PATH, || Ok(())).unwrap();
        }
        control.quit();
        (outcome, other.join().unwrap())
    }

    #[test]
    fn messages_of_all_sizes_arrive_whole_in_several_slices() {
        for size in [1, 4, 55, 56, 57, 120, 1400, 8000] {
            let (client, server) = ping_pong(size, &[3, 0, 20], false);
            client.unwrap();
            server.unwrap();
        }
    }

    #[test]
    fn wrong_bytes_are_noticed_and_reported() {
        let (client, server) = ping_pong(80, &[1], true);
        assert!(
            matches!(
                server,
                Err(Error::Corrupt {
                    what: "request",
                    message: 0,
                    offset: 0,
                    ..
                })
            ),
            "{server:?}"
        );
        let text = client.unwrap_err().to_string();
        assert!(
            text.contains("request 0 differs from what was sent"),
            "{text}"
        );
    }

    #[test]
    fn quitting_in_the_middle_of_a_slice_is_no_failure() {
        let memory = SharedMemory::create("tollgate-test", needed(64)).unwrap();
        let (control, other) = answering(64, memory, || Ok(()));
        control.begin(PATH, 1000, || Ok(())).unwrap();
        control.quit();
        other.join().unwrap().unwrap();
    }

    #[test]
    fn an_end_that_has_lost_its_processor_says_so_before_it_polls() {
        let memory = SharedMemory::create("tollgate-test", needed(64)).unwrap();
        let (control, other) = answering(64, memory, || kept(usize::MAX));
        let error = control.begin(PATH, 1000, || Ok(())).unwrap_err();
        assert!(error.to_string().contains("was taken away"), "{error}");
        other.join().unwrap().unwrap_err();
    }

    #[test]
    fn lanes_start_on_lines_of_their_own() {
        for size in [1, 56, 120, 121, 8000] {
            assert_eq!(stride(size) % SLOT_ALIGN, 0);
            assert!(stride(size) >= size + WORD);
            assert_eq!(needed(size), 2 * stride(size));
        }
    }
}

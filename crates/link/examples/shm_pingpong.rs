//! Round trips through the shared-memory link beside a bare ping-pong of the same size, in one run.
//!
//! Two threads, each pinned to a core of its own where there are two, poll busily. `bare` is the floor: a word and the
//! bytes behind it in one buffer for each direction, copied out of and into private memory with memcpy. `copy` and `sum`
//! are the link without and with the checksum kernel, pools included. Repetitions are interleaved and cut into slices; the
//! table gives the median slice, and the one that 9 of 10 are slower than, which is what a busy machine does not disturb.
//!
//! `cargo run --release -p tollgate-link --example shm_pingpong [SLICES]`

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;
use tollgate_checksum::Kernel;
use tollgate_link::Side;
use tollgate_link::shm::{Config, Segment, ShmLink};
use tollgate_stack::buffer::{Frame, FrameId, PAYLOAD_OFFSET, Pool, RxChecksum};
use tollgate_stack::link::Link;

const SIZES: [usize; 4] = [66, 130, 266, 1514];
const REPETITIONS: u64 = 9;
/// Round trips in a slice.
const SLICE: u64 = 500;

fn main() {
    let slices = std::env::args()
        .nth(1)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(100);
    let kernel = Kernel::best();
    println!(
        "nanoseconds per round trip, {REPETITIONS} x {slices} slices of {SLICE}, kernel {}",
        kernel.name()
    );
    println!(
        "{:>6} {:>6} {:>8} {:>8} {:>8} {:>10} {:>10}",
        "bytes", "", "bare", "copy", "sum", "copy/bare", "sum/bare"
    );
    for size in SIZES {
        let mut results = [const { Vec::new() }; 3];
        for _ in 0..REPETITIONS {
            results[0].extend(bare(size, slices));
            results[1].extend(link(size, slices, None));
            results[2].extend(link(size, slices, Some(kernel)));
        }
        for times in &mut results {
            times.sort_by(f64::total_cmp);
        }
        for (name, divisor) in [("p10", 10), ("median", 2)] {
            let [bare, copy, sum] =
                [0, 1, 2].map(|which| results[which][results[which].len() / divisor]);
            let ratios = (copy / bare, sum / bare);
            println!(
                "{size:>6} {name:>6} {bare:>8.0} {copy:>8.0} {sum:>8.0} {:>10.2} {:>10.2}",
                ratios.0, ratios.1
            );
        }
    }
}

/// Pins the calling thread; a machine that does not allow it is measured as it is.
fn pin(core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &cores) {
        eprintln!("not pinned to core {core}: {error}");
    }
}

/// Runs `pong` on core 1 while `slices` calls of `ping` are timed on core 0, each a slice; nanoseconds per round trip.
fn time(slices: u64, mut ping: impl FnMut(), pong: impl FnOnce() + Send) -> Vec<f64> {
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            pong();
        });
        pin(0);
        let mut slice = || {
            let start = Instant::now();
            ping();
            start.elapsed().as_nanos() as f64 / SLICE as f64
        };
        (0..slices).map(|_| slice()).collect()
    })
}

/// One direction of the bare ping-pong.
#[repr(C, align(128))]
struct Channel {
    number: AtomicU64,
    bytes: UnsafeCell<[u8; 2040]>,
}

// SAFETY: the number says whose turn it is to use the bytes.
unsafe impl Sync for Channel {}

impl Channel {
    const fn new() -> Self {
        Self {
            number: AtomicU64::new(0),
            bytes: UnsafeCell::new([0; 2040]),
        }
    }

    fn send(&self, number: u64, from: &[u8]) {
        // SAFETY: the other side has read the bytes before it answered, and reads them again only after the store below.
        let bytes = unsafe { &mut *self.bytes.get() };
        bytes[..from.len()].copy_from_slice(from);
        self.number.store(number, Ordering::Release);
    }

    fn receive(&self, number: u64, to: &mut [u8]) {
        while self.number.load(Ordering::Acquire) != number {
            std::hint::spin_loop();
        }
        // SAFETY: the other side writes the bytes again only after it was answered.
        let bytes = unsafe { &*self.bytes.get() };
        to.copy_from_slice(&bytes[..to.len()]);
    }
}

fn bare(size: usize, slices: u64) -> Vec<f64> {
    let (there, back) = (Channel::new(), Channel::new());
    let (message, mut answer) = (vec![0x5A; size], vec![0; size]);
    let mut next = 1;
    let ping = || {
        for number in next..next + SLICE {
            there.send(number, &message);
            back.receive(number, &mut answer);
        }
        next += SLICE;
    };
    let pong = || {
        let (message, mut answer) = (vec![0x5A; size], vec![0; size]);
        for number in 1..=slices * SLICE {
            there.receive(number, &mut answer);
            back.send(number, &message);
        }
    };
    time(slices, ping, pong)
}

fn link(size: usize, slices: u64, kernel: Option<Kernel>) -> Vec<f64> {
    let segment = Segment::create(Config::default()).expect("shared memory");
    let [mut ping, mut pong] =
        [Side::A, Side::B].map(|side| End::new(&segment, side, kernel, size));
    let ping = || {
        for _ in 0..SLICE {
            ping.send();
            ping.receive();
        }
    };
    let pong = || {
        for _ in 0..slices * SLICE {
            pong.receive();
            pong.send();
        }
    };
    time(slices, ping, pong)
}

/// One end of the link, with a frame that it sends again and again.
struct End {
    link: ShmLink,
    pool: Pool,
    message: FrameId,
    size: u16,
    burst: Vec<Frame>,
}

impl End {
    fn new(segment: &Segment, side: Side, kernel: Option<Kernel>, size: usize) -> Self {
        let link = ShmLink::new(segment, side, kernel).expect("a new segment");
        let mut pool = Pool::new(16, Pool::frame_size_for(link.mtu()));
        let message = pool.alloc().expect("a new pool");
        Self {
            link,
            pool,
            message,
            size: size as u16,
            burst: Vec::with_capacity(1),
        }
    }

    fn send(&mut self) {
        self.pool.retain(self.message);
        let offset = PAYLOAD_OFFSET as u16 - 66;
        self.burst.push(Frame {
            id: self.message,
            offset,
            len: self.size,
            checksum: RxChecksum::Unknown,
        });
        self.link.transmit(&mut self.pool, &mut self.burst);
        assert!(self.burst.is_empty(), "the ring has room for one frame");
    }

    fn receive(&mut self) {
        loop {
            self.link.receive(&mut self.pool, &mut self.burst);
            if let Some(frame) = self.burst.pop() {
                return self.pool.release(frame.id);
            }
            std::hint::spin_loop();
        }
    }
}

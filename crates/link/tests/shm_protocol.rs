//! The shared-memory protocol under a model checker: every interleaving that the memory model allows, for a few steps.
//!
//! The protocol's source is compiled a second time, here, over loom's atomics.

#[allow(dead_code, reason = "each model uses a part")]
#[path = "../src/shm/protocol.rs"]
mod protocol;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use protocol::{For, Slot};
use sync::{AtomicU32, AtomicU64, Ordering};

const SLOTS: u32 = 2;

/// A ring of two slots whose bytes are checked for access by two threads at once.
struct Ring {
    words: [AtomicU64; SLOTS as usize],
    bytes: [UnsafeCell<u64>; SLOTS as usize],
    head: AtomicU64,
}

impl Ring {
    fn new() -> Self {
        Self {
            words: [0, 1].map(|index| AtomicU64::new(protocol::first_word(index, SLOTS))),
            bytes: [0, 0].map(UnsafeCell::new),
            head: AtomicU64::new(0),
        }
    }

    fn has_room(&self, tail: u64) -> bool {
        tail - self.head.load(Ordering::Acquire) < u64::from(SLOTS)
    }

    fn push(&self, tail: u64) {
        let slot = (tail % u64::from(SLOTS)) as usize;
        // SAFETY: loom checks that nobody else uses the cell meanwhile; that is what the model is for.
        self.bytes[slot].with_mut(|bytes| unsafe { *bytes = tail + 100 });
        protocol::publish(&self.words[slot], tail, 64);
    }

    fn inspect(&self, head: u64) -> Slot {
        protocol::inspect(&self.words[(head % u64::from(SLOTS)) as usize], head, SLOTS)
    }

    fn pop(&self, head: u64) {
        assert_eq!(self.inspect(head), Slot::Full(64));
        let slot = (head % u64::from(SLOTS)) as usize;
        // SAFETY: as above.
        let bytes = self.bytes[slot].with(|bytes| unsafe { *bytes });
        assert_eq!(bytes, head + 100);
        self.head.store(head + 1, Ordering::Release);
    }
}

/// The kernel's part of a futex: compare and sleep in one step.
struct Sleeper {
    word: AtomicU32,
    kernel: Mutex<()>,
    woken: Condvar,
}

impl Sleeper {
    fn new() -> Self {
        Self {
            word: AtomicU32::new(protocol::AWAKE),
            kernel: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    fn futex_wait(&self, expected: For) {
        let kernel = self.kernel.lock().unwrap();
        if self.word.load(Ordering::Relaxed) == expected as u32 {
            drop(self.woken.wait(kernel).unwrap());
        }
    }

    fn futex_wake(&self) {
        let _kernel = self.kernel.lock().unwrap();
        self.woken.notify_all();
    }

    /// Sleeps until `ready`, like `ShmLink::wait`. A wake-up that is lost is a deadlock, which loom reports.
    fn wait(&self, what: For, ready: impl Fn() -> bool) {
        while !ready() {
            protocol::announce(&self.word, what);
            if !ready() {
                self.futex_wait(what);
            }
            protocol::retract(&self.word);
        }
    }
}

#[test]
fn bytes_are_seen_before_their_word_and_left_before_their_slot() {
    loom::model(|| {
        let ring = Arc::new(Ring::new());
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || {
                for tail in 0..3 {
                    while !ring.has_room(tail) {
                        thread::yield_now();
                    }
                    ring.push(tail);
                }
            })
        };
        for head in 0..3 {
            while ring.inspect(head) == Slot::Empty {
                thread::yield_now();
            }
            ring.pop(head);
        }
        producer.join().unwrap();
    });
}

#[test]
fn a_consumer_that_sleeps_is_woken_for_every_frame() {
    // Without a bound it passes too, and takes a minute.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new((Ring::new(), Sleeper::new()));
        let producer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (ring, sleeper) = &*shared;
                for tail in 0..2 {
                    ring.push(tail);
                    if protocol::must_wake_for_frames(&sleeper.word) {
                        sleeper.futex_wake();
                    }
                }
            })
        };
        let (ring, sleeper) = &*shared;
        for head in 0..2 {
            sleeper.wait(For::Frames, || ring.inspect(head) != Slot::Empty);
            ring.pop(head);
        }
        producer.join().unwrap();
    });
}

#[test]
fn a_producer_that_sleeps_for_room_is_woken() {
    loom::model(|| {
        let shared = Arc::new((Ring::new(), Sleeper::new()));
        (0..2).for_each(|tail| shared.0.push(tail));
        let consumer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (ring, sleeper) = &*shared;
                ring.pop(0);
                if protocol::must_wake_for_room(&sleeper.word) {
                    sleeper.futex_wake();
                }
            })
        };
        let (ring, sleeper) = &*shared;
        sleeper.wait(For::FramesOrRoom, || ring.has_room(2));
        ring.push(2);
        consumer.join().unwrap();
    });
}

#[test]
fn a_side_that_sleeps_for_frames_is_left_alone_when_slots_come_back() {
    loom::model(|| {
        let sleep = AtomicU32::new(protocol::AWAKE);
        protocol::announce(&sleep, For::Frames);
        assert!(!protocol::must_wake_for_room(&sleep));
        assert!(protocol::must_wake_for_frames(&sleep));
        assert!(!protocol::must_wake_for_frames(&sleep));
    });
}

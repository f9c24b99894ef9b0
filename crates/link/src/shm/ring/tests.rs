//! The ring over heap memory, so that Miri can watch it.

use super::*;
use crate::shm::sync::AtomicU64;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::thread;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[expect(dead_code, reason = "read and written through pointers")] [u8; CACHE_LINE]);

/// A ring's memory on the heap.
struct Heap {
    lines: *mut [Line],
    memory: Memory,
}

impl Heap {
    fn new(slots: u32, max_frame: u16) -> Self {
        let geometry = Geometry::new(slots, max_frame).unwrap();
        let lines =
            vec![Line([0xEE; CACHE_LINE]); 1 + geometry.size() / CACHE_LINE].into_boxed_slice();
        let lines = Box::into_raw(lines);
        let head = NonNull::new(lines.cast::<AtomicU64>()).unwrap();
        // SAFETY: the first line is the index, the slots begin behind it.
        let slots = unsafe { head.cast::<u8>().add(CACHE_LINE) };
        // SAFETY: the memory lives as long as `self`, and each test makes one producer and one consumer.
        let memory = unsafe { Memory::new(slots, head, geometry) };
        memory.prepare();
        Self { lines, memory }
    }

    fn ends(&self) -> (Producer, Consumer) {
        (Producer::new(self.memory), Consumer::new(self.memory))
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: `new` took the box apart, and no test keeps an end for longer.
        drop(unsafe { Box::from_raw(self.lines) });
    }
}

fn pop(consumer: &mut Consumer) -> Option<Vec<u8>> {
    let bytes = match consumer.peek() {
        Peek::Empty => return None,
        Peek::Frame(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    consumer.advance();
    consumer.give_back();
    Some(bytes)
}

/// Frames that differ in every byte from their neighbours.
fn frame(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + at) as u8).collect()
}

#[test]
fn geometries_hold_word_and_frame_in_whole_lines() {
    let geometry = Geometry::new(4, 1514).unwrap();
    assert_eq!((geometry.slot_size(), geometry.size()), (1536, 4 * 1536));
    assert_eq!(Geometry::new(2, 56).unwrap().slot_size(), 64);
    assert_eq!(Geometry::new(2, 57).unwrap().slot_size(), 128);
    for (slots, max_frame) in [(0, 100), (1, 100), (3, 100), (1 << 17, 100), (4, 13)] {
        assert_eq!(Geometry::new(slots, max_frame), None);
    }
}

#[test]
fn frames_of_every_size_come_out_as_they_went_in() {
    let most = if cfg!(miri) { 140 } else { 1514 };
    let heap = Heap::new(4, most);
    let (mut producer, mut consumer) = heap.ends();
    for len in MIN_FRAME..=usize::from(most) {
        assert!(producer.room(1).unwrap() > 0);
        assert!(producer.push(&frame(len, len)));
        assert_eq!(pop(&mut consumer), Some(frame(len, len)));
        assert!(consumer.is_empty());
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let heap = Heap::new(2, 100);
    let (mut producer, mut consumer) = heap.ends();
    for len in [0, MIN_FRAME - 1, 101, 70_000] {
        assert!(!producer.push(&frame(0, len)));
    }
    assert_eq!(pop(&mut consumer), None);
}

#[test]
fn a_full_ring_takes_nothing_until_slots_are_given_back() {
    let heap = Heap::new(2, 64);
    let (mut producer, mut consumer) = heap.ends();
    assert_eq!(producer.room(9), Ok(2));
    assert!(producer.push(&frame(1, 20)) && producer.push(&frame(2, 20)));
    assert!(!producer.push(&frame(3, 20)));
    assert_eq!(producer.room(1), Ok(0));
    assert!(matches!(consumer.peek(), Peek::Frame(_)));
    consumer.advance();
    assert!(!producer.has_news());
    assert_eq!(producer.room(1), Ok(0));
    consumer.give_back();
    assert!(producer.has_news());
    assert_eq!(producer.room(1), Ok(1));
    assert!(producer.push(&frame(3, 20)));
    assert_eq!(pop(&mut consumer), Some(frame(2, 20)));
    assert_eq!(pop(&mut consumer), Some(frame(3, 20)));
}

#[test]
fn turns_wrap_around() {
    let heap = Heap::new(4, 64);
    let start = u64::from(u32::MAX) - 5;
    for position in start..start + 4 {
        let one_lap_ago = u64::from((position as u32).wrapping_sub(3)) << 32;
        heap.memory
            .word(position)
            .store(one_lap_ago, Ordering::Relaxed);
    }
    heap.memory.head().store(start, Ordering::Relaxed);
    let mut producer = Producer {
        tail: start,
        head_seen: start,
        ..Producer::new(heap.memory)
    };
    let mut consumer = Consumer {
        head: start,
        ..Consumer::new(heap.memory)
    };
    for number in 0..20 {
        assert!(consumer.is_empty());
        assert_eq!(producer.room(1).map(|room| room > 0), Ok(true));
        assert!(producer.push(&frame(number, 30)));
        assert_eq!(pop(&mut consumer), Some(frame(number, 30)));
    }
}

#[test]
fn an_index_that_cannot_be_breaks_the_ring() {
    for head in [2, u64::MAX, 1 << 32] {
        let heap = Heap::new(2, 64);
        let (mut producer, _) = heap.ends();
        assert!(producer.push(&frame(0, 20)));
        heap.memory.head().store(head, Ordering::Relaxed);
        assert_eq!(producer.room(2), Err(Broken));
    }
    let heap = Heap::new(2, 64);
    let (mut producer, mut consumer) = heap.ends();
    assert!(producer.push(&frame(0, 20)));
    assert!(pop(&mut consumer).is_some());
    assert_eq!(producer.room(2), Ok(2));
    heap.memory.head().store(0, Ordering::Relaxed);
    assert!(producer.push(&frame(0, 20)));
    assert_eq!(producer.room(2), Err(Broken), "the index went back");
}

#[test]
fn turns_and_lengths_that_cannot_be_are_reported() {
    let heap = Heap::new(2, 64);
    let (_, mut consumer) = heap.ends();
    for turn in [2u64, 7, 0xFFFF_FFFE, 0] {
        heap.memory
            .word(0)
            .store(turn << 32 | 20, Ordering::Relaxed);
        assert_eq!(consumer.peek(), Peek::Broken);
        assert!(!consumer.is_empty());
    }
    for len in [0, 13, 65, 0xFFFF] {
        heap.memory.word(0).store(1 << 32 | len, Ordering::Relaxed);
        assert_eq!(consumer.peek(), Peek::BadLength);
    }
}

#[test]
fn two_threads_lose_nothing() {
    let count = if cfg!(miri) { 60 } else { 200_000 };
    let heap = Heap::new(8, 200);
    let (mut producer, mut consumer) = heap.ends();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut sent = 0;
            while sent < count {
                for _ in 0..producer.room(3).unwrap().min(count - sent) {
                    assert!(producer.push(&frame(sent, MIN_FRAME + sent % 180)));
                    sent += 1;
                }
                thread::yield_now();
            }
        });
        for number in 0..count {
            let bytes = loop {
                match pop(&mut consumer) {
                    Some(bytes) => break bytes,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(bytes, frame(number, MIN_FRAME + number % 180));
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn behaves_as_a_bounded_queue(
        slots in 1u32..5,
        steps in proptest::collection::vec((any::<bool>(), 0usize..12, MIN_FRAME..180), 0..120),
    ) {
        let slots = 1 << slots;
        let heap = Heap::new(slots, 180);
        let (mut producer, mut consumer) = heap.ends();
        let mut model = VecDeque::new();
        let mut number = 0;
        for (send, count, len) in steps {
            if send {
                let room = producer.room(count).unwrap();
                prop_assert!(room <= slots as usize - model.len());
                prop_assert!(room >= count.min(slots as usize - model.len()));
                for _ in 0..room.min(count) {
                    prop_assert!(producer.push(&frame(number, len)));
                    model.push_back(frame(number, len));
                    number += 1;
                }
            } else {
                for _ in 0..count {
                    prop_assert_eq!(pop(&mut consumer), model.pop_front());
                }
            }
        }
    }
}

use super::pcapng::tests::{Read, read};
use super::*;
use crate::Side;
use crate::memory::Memory;
use crate::shm::{self, Segment, ShmLink};
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

fn config() -> Config {
    Config {
        name: "a".into(),
        snaplen: 0,
        epoch: Duration::from_secs(1_000_000_000),
    }
}

fn frame(nanos: u64, flags: u32, bytes: &[u8], comment: &str) -> Read {
    let nanos = 1_000_000_000_000_000_000 + nanos;
    Read {
        nanos,
        flags,
        bytes: bytes.to_vec(),
        original: bytes.len(),
        comment: comment.into(),
    }
}

#[test]
fn both_directions_are_written_with_their_times() {
    let mut pool = Pool::new(8, 2048);
    let mut cable = Memory::new(1500);
    let mut file = Vec::new();
    let mut burst = vec![pool.frame_from(&[3; 61]).unwrap()];
    cable.end(Side::B).transmit(&mut pool, &mut burst);
    let mut capture = Capture::new(cable.end(Side::A), &mut file, &config());
    assert_eq!(capture.mtu(), 1500);
    let mut burst = vec![
        pool.frame_from(&[1; 60]).unwrap(),
        pool.frame_from(&[2; 1514]).unwrap(),
    ];
    capture.set_now(Instant::from_nanos(5));
    capture.comment("the first");
    capture.transmit(&mut pool, &mut burst);
    capture.set_now(Instant::from_nanos(7));
    let mut arrived = Vec::new();
    capture.receive(&mut pool, &mut arrived);
    capture.receive(&mut pool, &mut arrived);
    let stats = capture.finish().unwrap();
    assert_eq!((stats.inbound, stats.outbound, stats.lost), (1, 2, 0));
    assert_eq!(stats.bytes, file.len() as u64);
    let frames = vec![
        frame(5, 2, &[1; 60], "the first"),
        frame(5, 2, &[2; 1514], ""),
        frame(7, 1, &[3; 61], ""),
    ];
    assert_eq!(read(&file), Ok(("a".into(), 0, frames)));
}

#[test]
fn frames_that_stay_in_the_link_for_want_of_frames_are_not_written() {
    let segment = Segment::create(shm::Config::default()).unwrap();
    let [mut a, b] = [Side::A, Side::B].map(|side| ShmLink::new(&segment, side, None).unwrap());
    let mut ample = Pool::new(8, 2048);
    let mut burst = vec![ample.frame_from(&[1; 60]).unwrap()];
    a.transmit(&mut ample, &mut burst);
    let mut scarce = Pool::new(1, 2048);
    let held = scarce.alloc().unwrap();
    let mut file = Vec::new();
    let mut capture = Capture::new(b, &mut file, &config());
    let mut arrived = Vec::new();
    capture.receive(&mut scarce, &mut arrived);
    assert_eq!((arrived.len(), capture.stats().inbound), (0, 0));
    assert_eq!(capture.inner().stats().no_frame, 1);
    scarce.release(held);
    capture.receive(&mut scarce, &mut arrived);
    assert_eq!((arrived.len(), capture.stats().inbound), (1, 1));
}

#[test]
fn a_clock_is_read_once_for_a_burst() {
    let reads = Rc::new(Cell::new(0));
    let clock = {
        let reads = reads.clone();
        move || {
            reads.set(reads.get() + 1);
            Instant::from_nanos(reads.get())
        }
    };
    let mut pool = Pool::new(8, 2048);
    let mut cable = Memory::new(1500);
    let mut file = Vec::new();
    let mut capture = Capture::with_clock(cable.end(Side::A), &mut file, &config(), clock);
    for _ in 0..2 {
        let mut burst = vec![
            pool.frame_from(&[1; 20]).unwrap(),
            pool.frame_from(&[2; 20]).unwrap(),
        ];
        capture.transmit(&mut pool, &mut burst);
    }
    capture.finish().unwrap();
    let times: Vec<_> = read(&file)
        .unwrap()
        .2
        .iter()
        .map(|frame| frame.nanos % 10)
        .collect();
    assert_eq!(times, [1, 1, 2, 2]);
}

#[test]
fn only_frames_that_the_link_took_are_written_and_once() {
    let mut pool = Pool::new(8, 2048);
    let mut cable = Memory::with_capacity(1500, 1);
    let mut file = Vec::new();
    let mut burst: Vec<_> = (1..=3)
        .map(|byte| pool.frame_from(&[byte; 20]).unwrap())
        .collect();
    for _ in 0..3 {
        let mut capture = Capture::new(cable.end(Side::A), Vec::new(), &config());
        capture.transmit(&mut pool, &mut burst);
        assert_eq!(capture.stats().outbound, 1);
        capture.transmit(&mut pool, &mut burst);
        assert_eq!(capture.stats().outbound, 1);
        file.push(capture.file.out.buffer().to_vec());
        let mut arrived = Vec::new();
        cable.end(Side::B).receive(&mut pool, &mut arrived);
    }
    for (byte, file) in (1..=3).zip(file) {
        assert_eq!(read(&file).unwrap().2, [frame(0, 2, &[byte; 20], "")]);
    }
}

#[test]
fn a_dropped_capture_is_flushed() {
    let mut pool = Pool::new(1, 2048);
    let mut cable = Memory::new(1500);
    let mut file = Vec::new();
    let mut capture = Capture::new(cable.end(Side::A), &mut file, &config());
    let mut burst = vec![pool.frame_from(&[1; 20]).unwrap()];
    capture.transmit(&mut pool, &mut burst);
    drop(capture);
    assert_eq!(read(&file).unwrap().2.len(), 1);
}

/// Takes so many bytes, then fails.
struct Disk(usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_does_not_disturb_the_traffic() {
    let mut pool = Pool::new(200, 2048);
    let mut cable = Memory::with_capacity(1500, 200);
    let mut capture = Capture::new(cable.end(Side::A), Disk(100_000), &config());
    for _ in 0..200 {
        let mut burst = vec![pool.frame_from(&[1; 1514]).unwrap()];
        capture.transmit(&mut pool, &mut burst);
        assert!(burst.is_empty());
    }
    let error = capture.finish().unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
    assert!(error.stats.lost > 0);
    assert_eq!(error.stats.outbound + error.stats.lost, 200);
    assert!(error.to_string().contains("lacks"));
    assert_eq!(cable.waiting_for(Side::B), 200);
}

proptest! {
    #[test]
    fn lengths_and_snap_length_agree(lengths in proptest::collection::vec(1usize..1515, 1..20), snaplen in 0u32..200) {
        let mut pool = Pool::new(32, 2048);
        let mut cable = Memory::new(1500);
        let mut file = Vec::new();
        let mut capture = Capture::new(cable.end(Side::A), &mut file, &Config { snaplen, ..config() });
        let mut burst: Vec<_> = lengths.iter().map(|&len| pool.frame_from(&vec![9; len]).unwrap()).collect();
        capture.transmit(&mut pool, &mut burst);
        capture.finish().unwrap();
        let (_, kept, frames) = read(&file).unwrap();
        prop_assert_eq!(kept, snaplen);
        let limit = if snaplen == 0 { usize::MAX } else { snaplen as usize };
        for (frame, len) in frames.iter().zip(&lengths) {
            prop_assert_eq!((frame.original, frame.bytes.len()), (*len, (*len).min(limit)));
        }
        prop_assert_eq!(frames.len(), lengths.len());
    }
}

use super::super::cut::tests::large_v4;
use super::super::layout;
use super::*;
use proptest::prelude::*;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use tollgate_wire::tcp::Flags;

const LONGEST: usize = 1514;
const HEADERS: usize = 66;

/// The inlet at one end of a socket that keeps frames apart, as a tap device does.
struct Line {
    inlet: Inlet,
    pool: Pool,
    ours: UnixDatagram,
    theirs: UnixDatagram,
}

impl Line {
    fn new(frames: usize) -> Self {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        Self {
            inlet: Inlet::new(),
            pool: Pool::new(frames, 2048),
            ours,
            theirs,
        }
    }

    /// Gives a frame, of several segments where `segment` is not 0, and reads it.
    fn pass(&mut self, frame: &[u8], segment: u16) -> (Read, Vec<Frame>) {
        let mut bytes = if segment == 0 {
            let mut header = header::COMPLETE;
            header[0] = 1;
            header
        } else {
            header::segmented(false, HEADERS, segment.into(), (34, 16))
        }
        .to_vec();
        bytes.extend_from_slice(frame);
        assert_eq!(self.theirs.send(&bytes).unwrap(), bytes.len());
        self.read()
    }

    fn read(&mut self) -> (Read, Vec<Frame>) {
        let mut frames = Vec::new();
        let fd = self.ours.as_fd();
        let outcome = self.inlet.read(fd, &mut self.pool, LONGEST, &mut frames);
        (outcome, frames)
    }

    /// Passes a frame and compares what comes of it.
    fn check(&mut self, frame: &[u8], segment: u16) {
        let (outcome, frames) = self.pass(frame, segment);
        assert_eq!(outcome, Read::Frames);
        if segment == 0 {
            assert_eq!(frames.len(), 1);
            assert_eq!(self.pool.frame(&frames[0]), frame);
            assert_eq!(frames[0].checksum, RxChecksum::Verified);
        } else {
            let payload = &frame[HEADERS..];
            let chunks = payload.chunks(segment.into());
            assert_eq!(frames.len(), chunks.len());
            let first = layout::be32(frame, layout::TCP + 4);
            let last = frames.len() - 1;
            for (number, (frame, chunk)) in frames.iter().zip(chunks).enumerate() {
                let (headers, rest) = self.pool.frame(frame).split_at(HEADERS);
                assert_eq!(rest, chunk, "segment {number}");
                let sequence = first.wrapping_add(u32::from(segment) * number as u32);
                assert_eq!(layout::be32(headers, layout::TCP + 4), sequence);
                let expected = if number == last {
                    RxChecksum::Verified
                } else {
                    RxChecksum::VerifiedInTrain
                };
                assert_eq!(frame.checksum, expected);
            }
        }
        self.release(frames);
    }

    fn release(&mut self, frames: Vec<Frame>) {
        for frame in frames {
            self.pool.release(frame.id);
        }
    }
}

fn large(payload: usize) -> Vec<u8> {
    large_v4(payload as u32, payload, Flags::ACK.0)
}

#[test]
fn large_frames_are_read_where_their_segments_lie() {
    let mut line = Line::new(1024);
    // The first one is not expected.
    line.check(&large(65_160), 1448);
    assert_eq!(line.inlet.cuts.moved, 44);
    for payload in [65_160, 1448 * 3, 1448 * 2 + 1, 65_160, 65_160 - 1] {
        line.check(&large(payload), 1448);
    }
    assert_eq!(line.inlet.cuts.moved, 44);
    assert_eq!((line.inlet.cuts.large, line.inlet.cuts.lost), (6, 0));
    // An acknowledgment among them takes no more than its frame.
    line.check(&large(0), 0);
    assert_eq!(line.inlet.cuts.moved, 44);
}

#[test]
fn other_cuts_than_expected_are_mended() {
    let mut line = Line::new(4096);
    for (payload, segment) in [
        (10_000, 1448),
        (10_000, 536),
        (600, 536),
        (1448, 0),
        (65_160, 1448),
        (65_483, 1448),
        (20_000, 36),
        (1000, 0),
        (100, 36),
    ] {
        line.check(&large(payload), segment);
    }
    assert!(line.inlet.cuts.moved > 0);
}

#[test]
fn frames_for_segments_are_given_back() {
    let mut line = Line::new(1024);
    line.check(&large(65_160), 1448);
    line.check(&large(65_160), 1448);
    for _ in 0..PATIENCE {
        let (outcome, frames) = line.read();
        assert_eq!((outcome, frames.len()), (Read::Nothing, 0));
        assert!(line.pool.available() >= 1024 - 45);
    }
    assert_eq!(line.pool.available(), 1024);
    line.check(&large(65_160), 1448);
}

#[test]
fn a_small_pool_loses_the_end_of_a_train() {
    let mut line = Line::new(32);
    for _ in 0..3 {
        let (outcome, frames) = line.pass(&large(65_160), 1448);
        assert_eq!(outcome, Read::Frames);
        // The reserve is for acknowledgments.
        assert!(!frames.is_empty() && frames.len() < 32, "{}", frames.len());
        let last = frames.last().unwrap();
        assert_eq!(last.checksum, RxChecksum::Verified);
        line.release(frames);
    }
    assert!(line.inlet.cuts.lost > 0);
    let held: Vec<_> = std::iter::from_fn(|| line.pool.alloc_for_receive()).collect();
    assert_eq!(line.read().0, Read::NoFrame);
    for id in held {
        line.pool.release(id);
    }
}

#[test]
fn frames_that_fit_nowhere_are_refused() {
    let mut line = Line::new(64);
    for warm in [false, true] {
        if warm {
            line.check(&large(3 * 1448), 1448);
        }
        let before = line.pool.available();
        // One byte more than the MTU allows, a segment that is longer, a virtio-net header cut short.
        for (frame, segment) in [(large(1449), 0), (large(3000), 1449), (large(0), 100)] {
            let (outcome, frames) = line.pass(&frame, segment);
            assert_eq!((outcome, frames.len()), (Read::Refused, 0));
        }
        line.theirs.send(&[0; 9]).unwrap();
        assert_eq!(line.read().0, Read::Refused);
        assert!(line.pool.available() >= before);
    }
}

proptest! {
    /// Whatever comes behind whatever, every byte is where it belongs, and no frame is lost.
    #[test]
    fn any_order_of_frames_keeps_every_byte(
        passed in proptest::collection::vec((1_usize..20_000, 0_usize..5), 1..30),
        frames in prop_oneof![Just(1024_usize), Just(4096)],
    ) {
        let mut line = Line::new(frames);
        for (payload, which) in passed {
            let segment = [0, 36, 536, 1448, 1448][which];
            let payload = if segment == 0 { payload % 1448 } else { payload };
            let payload = payload.min(usize::from(segment.max(1)) * 40).max(1);
            let payload = if segment == 0 { payload.min(1448) } else { payload };
            line.check(&large(payload), segment);
            prop_assert!(line.pool.available() >= frames - MOST);
        }
        while line.pool.available() != frames {
            prop_assert_eq!(line.read().0, Read::Nothing);
        }
    }
}

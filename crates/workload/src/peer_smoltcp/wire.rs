//! The in-memory link between two smoltcp interfaces: frames change hands, their bytes are not copied.
//!
//! Each direction has a fixed set of buffers. The sender writes its frame straight into the buffer that was freed last, which
//! is the one most likely still in the cache; the receiver reads it there, and the buffer is free again. Nothing is allocated
//! after the link is made.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// The largest IP packet, in bytes.
pub(super) const MTU: usize = 1500;
/// The largest frame: an Ethernet header of 14 bytes and the packet.
const FRAME: usize = 14 + MTU;
/// Buffers per direction: more than twice the frames of a full window of 64 KiB.
const FRAMES: usize = 128;

struct Frame {
    bytes: Box<[u8; FRAME]>,
    len: usize,
}

/// One direction.
struct Wire {
    under_way: VecDeque<Frame>,
    free: Vec<Frame>,
    carried: u64,
}

impl Wire {
    fn new() -> Rc<RefCell<Self>> {
        let frame = || Frame {
            bytes: Box::new([0; FRAME]),
            len: 0,
        };
        Rc::new(RefCell::new(Self {
            under_way: VecDeque::with_capacity(FRAMES),
            free: (0..FRAMES).map(|_| frame()).collect(),
            carried: 0,
        }))
    }
}

/// One end of the link.
pub(super) struct LinkEnd {
    out: Rc<RefCell<Wire>>,
    inn: Rc<RefCell<Wire>>,
}

/// Makes a link and gives its two ends.
pub(super) fn link() -> (LinkEnd, LinkEnd) {
    let (there, back) = (Wire::new(), Wire::new());
    (
        LinkEnd {
            out: Rc::clone(&there),
            inn: Rc::clone(&back),
        },
        LinkEnd {
            out: back,
            inn: there,
        },
    )
}

impl LinkEnd {
    /// Tells whether a frame has arrived.
    #[inline]
    pub(super) fn has_arrived(&self) -> bool {
        !self.inn.borrow().under_way.is_empty()
    }

    /// Frames sent from this end since the link was made.
    #[cfg(test)]
    pub(super) fn sent(&self) -> u64 {
        self.out.borrow().carried
    }
}

impl Device for LinkEnd {
    type RxToken<'a> = Arrived<'a>;
    type TxToken<'a> = Room<'a>;

    #[inline]
    fn receive(&mut self, _: Instant) -> Option<(Arrived<'_>, Room<'_>)> {
        // A frame is only given out with room for the reply that it may cause, as smoltcp wants it.
        (self.has_arrived() && !self.out.borrow().free.is_empty())
            .then_some((Arrived(&self.inn), Room(&self.out)))
    }

    #[inline]
    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        (!self.out.borrow().free.is_empty()).then_some(Room(&self.out))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        // Checksums stay at their default: computed and verified by smoltcp.
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME;
        capabilities
    }
}

/// A frame that can be received.
pub(super) struct Arrived<'a>(&'a RefCell<Wire>);

impl RxToken for Arrived<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        // The wire is not borrowed while the frame is read: reading may send.
        let frame = self.0.borrow_mut().under_way.pop_front();
        match frame {
            Some(frame) => {
                let result = read(&frame.bytes[..frame.len]);
                self.0.borrow_mut().free.push(frame);
                result
            }
            // `receive` gives out a token only when a frame has arrived; smoltcp passes over an empty one.
            None => read(&[]),
        }
    }
}

/// Room for a frame to be sent.
pub(super) struct Room<'a>(&'a RefCell<Wire>);

impl TxToken for Room<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let frame = self.0.borrow_mut().free.pop();
        let mut frame = frame.expect(
            "tokens are given out only when a buffer is free, and one at a time per direction",
        );
        frame.len = len;
        let result = write(&mut frame.bytes[..len]);
        let mut wire = self.0.borrow_mut();
        wire.carried += 1;
        wire.under_way.push_back(frame);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_in_order_and_buffers_come_back() {
        let (mut a, mut b) = link();
        for round in 0..3 * FRAMES {
            for byte in [1, 2] {
                let room = a.transmit(Instant::ZERO).expect("room");
                room.consume(byte as usize, |frame| frame.fill(byte));
            }
            for byte in [1, 2] {
                let (arrived, _room) = b.receive(Instant::ZERO).expect("arrived");
                arrived
                    .consume(|frame| assert_eq!(frame, vec![byte; byte as usize], "round {round}"));
            }
            assert!(!b.has_arrived());
        }
        assert_eq!(a.sent(), 6 * FRAMES as u64);
        assert_eq!(b.sent(), 0);
    }

    #[test]
    fn a_full_link_gives_no_room() {
        let (mut a, mut b) = link();
        for _ in 0..FRAMES {
            a.transmit(Instant::ZERO).expect("room").consume(60, |_| ());
        }
        assert!(a.transmit(Instant::ZERO).is_none());
        b.receive(Instant::ZERO).expect("arrived").0.consume(|_| ());
        assert!(a.transmit(Instant::ZERO).is_some());
    }
}

//! One virtual LAN on a link (IEEE 802.1Q): a wrapper that tags what is sent, and gives the stack what arrives with its tag.
//!
//! Tags have priority 0. Frames without a tag and those of other LANs are dropped and counted. A tag takes 4 bytes, so the link
//! inside is made for packets that are 4 bytes longer than those of the LAN; a device's own MTU stays what it is. A frame that
//! nobody else holds is tagged where it lies; one that the stack keeps, to send it again, is copied.
//!
//! A tap device must hand over segments one by one ([`Tap::set_offloads`](crate::tap::Tap::set_offloads)): large frames
//! are cut by their headers, which are not where they are without a tag. This module must never look behind the tag.

use crate::wait::{WaitOutcome, Waitable, WaitableBeside};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tollgate_stack::buffer::{Frame, Pool};
use tollgate_stack::config::Segmentation;
use tollgate_stack::link::{Integrity, Link};
use tollgate_wire::ethernet;

/// Bytes of a tag.
pub const TAG: usize = 4;
/// Bytes of both link addresses, behind which a tag stands.
const ADDRESSES: usize = 12;
/// The type that announces a tag (IEEE 802.1Q, 9.6).
const TPID: [u8; 2] = [0x81, 0x00];
/// Bits of a tag that name the LAN (IEEE 802.1Q, 9.6); the others are priority and eligibility for being dropped.
const ID_BITS: u16 = 0x0fff;

/// Counts so far, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Given to the link inside with a tag.
    pub sent: u64,
    /// Taken with our tag.
    pub received: u64,
    /// Dropped: without a tag.
    pub untagged: u64,
    /// Dropped: with the tag of another LAN.
    pub others: u64,
    /// Lost: shorter than an Ethernet header, or with the tag longer than a frame of the pool.
    pub bad_length: u64,
    /// Times that the pool had no frame for a copy: what is sent stays with the stack, what has arrived is lost.
    pub no_frame: u64,
}

/// A virtual LAN of a link.
#[derive(Debug)]
pub struct Vlan<L> {
    inner: L,
    tag: [u8; TAG],
    /// Tagged frames that the link inside has not taken yet.
    tagged: Vec<Frame>,
    arrived: Vec<Frame>,
    stats: Stats,
}

/// A number that no virtual LAN has: those have 1 to 4,094.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a virtual LAN cannot have the number {0}; it is 1 to 4094")]
pub struct NoSuchLan(pub u16);

/// Outcome of tagging a frame.
enum Tagged {
    Done(Frame),
    BadLength,
    NoFrame,
}

impl<L: Link> Vlan<L> {
    /// The LAN with this number, 1 to 4,094, on `inner`, whose MTU is 4 bytes more than the LAN's.
    ///
    /// # Errors
    /// [`NoSuchLan`] for another number.
    pub fn new(inner: L, number: u16) -> Result<Self, NoSuchLan> {
        if !(1..=4094).contains(&number) {
            return Err(NoSuchLan(number));
        }
        let [high, low] = number.to_be_bytes();
        Ok(Self {
            inner,
            tag: [TPID[0], TPID[1], high, low],
            tagged: Vec::new(),
            arrived: Vec::new(),
            stats: Stats::default(),
        })
    }

    /// Counts so far.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The link inside.
    pub const fn inner(&self) -> &L {
        &self.inner
    }

    /// The link inside, to be changed.
    pub const fn inner_mut(&mut self) -> &mut L {
        &mut self.inner
    }

    /// Gives every frame that waits back to `pool`, before the link is dropped.
    pub fn drain(&mut self, pool: &mut Pool) {
        for frame in self.tagged.drain(..) {
            pool.release(frame.id);
        }
    }

    /// Puts the tag into a frame, or into a copy of one that somebody else holds.
    fn tag(&self, pool: &mut Pool, frame: &Frame) -> Tagged {
        let (at, len) = (usize::from(frame.offset), usize::from(frame.len));
        if len < ethernet::HEADER_LEN || len + TAG > pool.frame_size() {
            return Tagged::BadLength;
        }
        if !pool.is_shared(frame.id) && (at >= TAG || at + len + TAG <= pool.frame_size()) {
            let bytes = pool.bytes_mut(frame.id);
            let at = if at >= TAG {
                bytes.copy_within(at..at + ADDRESSES, at - TAG);
                at - TAG
            } else {
                bytes.copy_within(at + ADDRESSES..at + len, at + ADDRESSES + TAG);
                at
            };
            bytes[at + ADDRESSES..at + ADDRESSES + TAG].copy_from_slice(&self.tag);
            let tagged = Frame {
                id: frame.id,
                offset: at as u16,
                len: (len + TAG) as u16,
                checksum: frame.checksum,
            };
            return Tagged::Done(tagged);
        }
        let (addresses, rest) = pool.frame(frame).split_at(ADDRESSES);
        let bytes = [addresses, &self.tag, rest].concat();
        match pool.frame_from(&bytes) {
            Ok(copy) => {
                pool.release(frame.id);
                Tagged::Done(Frame {
                    checksum: frame.checksum,
                    ..copy
                })
            }
            Err(_) => Tagged::NoFrame,
        }
    }

    /// Takes the tag from a frame, if it is ours.
    fn untag(&mut self, pool: &mut Pool, frame: &Frame) -> Option<Frame> {
        let bytes = pool.frame(frame);
        let tag = bytes.get(ADDRESSES..ADDRESSES + TAG);
        let Some([first, second, high, low]) = tag.and_then(|tag| tag.first_chunk::<TAG>()) else {
            self.stats.untagged += 1;
            return None;
        };
        if [*first, *second] != TPID {
            self.stats.untagged += 1;
            return None;
        }
        let number = u16::from_be_bytes([*high, *low]) & ID_BITS;
        if number != u16::from_be_bytes([self.tag[2], self.tag[3]]) {
            self.stats.others += 1;
            return None;
        }
        let at = usize::from(frame.offset);
        let len = frame.len - TAG as u16;
        if pool.is_shared(frame.id) {
            let bytes = [&bytes[..ADDRESSES], &bytes[ADDRESSES + TAG..]].concat();
            let Ok(copy) = pool.frame_from(&bytes) else {
                self.stats.no_frame += 1;
                return None;
            };
            pool.release(frame.id);
            return Some(Frame {
                checksum: frame.checksum,
                ..copy
            });
        }
        let bytes = pool.bytes_mut(frame.id);
        bytes.copy_within(at..at + ADDRESSES, at + TAG);
        Some(Frame {
            id: frame.id,
            offset: (at + TAG) as u16,
            len,
            checksum: frame.checksum,
        })
    }
}

impl<L: Link> Link for Vlan<L> {
    fn mtu(&self) -> usize {
        self.inner.mtu() - TAG
    }

    fn integrity(&self) -> Integrity {
        self.inner.integrity()
    }

    fn set_segmentation(&mut self, segmentation: Segmentation) {
        self.inner.set_segmentation(segmentation);
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        // What the link had no room for goes first.
        if !self.tagged.is_empty() {
            self.inner.transmit(pool, &mut self.tagged);
            if !self.tagged.is_empty() {
                return;
            }
        }
        let mut done = 0;
        for frame in frames.iter() {
            match self.tag(pool, frame) {
                Tagged::Done(tagged) => {
                    self.tagged.push(tagged);
                    self.stats.sent += 1;
                }
                Tagged::BadLength => {
                    self.stats.bad_length += 1;
                    pool.release(frame.id);
                }
                Tagged::NoFrame => {
                    self.stats.no_frame += 1;
                    break;
                }
            }
            done += 1;
        }
        frames.drain(..done);
        if !self.tagged.is_empty() {
            self.inner.transmit(pool, &mut self.tagged);
        }
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        if !self.tagged.is_empty() {
            self.inner.transmit(pool, &mut self.tagged);
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        match self.inner.arrived() {
            Some(there) => arrived.append(there),
            None => self.inner.receive(pool, &mut arrived),
        }
        for frame in arrived.drain(..) {
            match self.untag(pool, &frame) {
                Some(ours) => {
                    self.stats.received += 1;
                    frames.push(ours);
                }
                None => pool.release(frame.id),
            }
        }
        self.arrived = arrived;
    }
}

impl<L: Waitable> Waitable for Vlan<L> {
    fn wait(&self, timeout: Duration) -> WaitOutcome {
        self.inner.wait(timeout)
    }

    fn is_sending(&self) -> bool {
        !self.tagged.is_empty() || self.inner.is_sending()
    }

    fn kept(&self) -> usize {
        self.inner.kept()
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }
}

impl<L: WaitableBeside> WaitableBeside for Vlan<L> {
    fn wait_beside(&self, other: BorrowedFd<'_>, timeout: Duration) -> (WaitOutcome, bool) {
        self.inner.wait_beside(other, timeout)
    }
}

#[cfg(test)]
mod tests;

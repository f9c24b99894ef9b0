//! Trains: segments of one connection that follow each other, given to the kernel as one frame (TCP segmentation offload by the
//! virtio-net header, virtio 1.2, 5.1.6.2).
//!
//! The stack sends segments, each in a frame of its own; here those that one frame can stand for are found and put behind one
//! header. No payload is moved: the train's parts are gathered by writev(2). Whoever gets a train may cut it where we did, so every
//! segment but the last has the length of the first. The rules are those by which Linux puts segments together (GRO). A segment
//! with another acknowledgment, window or option begins a new train.
//!
//! PSH is the exception: the train has it when one of its segments does, and all are delivered at once.

use super::header;
use super::layout::{
    ETHER_TYPE, FRAGMENT, IP, IP_CHECKSUM, PROTOCOL, TCP, TOTAL_LENGTH, be16, be32,
};
use std::net::Ipv4Addr;
use tollgate_wire::tcp::{self, Flags};
use tollgate_wire::{ethernet, ipv4};

/// Segments of a train at most: 64 KiB of payload with timestamps at an MTU of 1500 bytes is 46.
pub(crate) const MOST: usize = 64;

/// Bytes of the largest IP packet.
const LARGEST: usize = u16::MAX as usize;
const LONGEST: usize = TCP + tcp::MAX_HEADER_LEN;

// Offsets in a frame without IP options (RFC 791, 3.1; RFC 9293, 3.1).
const SOURCE: usize = IP + 12;
const DESTINATION: usize = IP + 16;
const SEQUENCE: usize = TCP + 4;
const ACKNOWLEDGMENT: usize = TCP + 8;
const DATA_OFFSET: usize = TCP + 12;
const FLAGS: usize = TCP + 13;
const WINDOW: usize = TCP + 14;
const CHECKSUM: usize = TCP + 16;
const URGENT: usize = TCP + 18;

/// Version 4, and a header of five words.
const VERSION_AND_LENGTH: u8 = 0x45;

/// A train that is being put together.
pub(crate) struct Train {
    headers: [u8; LONGEST],
    /// Bytes of the headers.
    len: usize,
    /// Bytes of payload of the first segment.
    segment: usize,
    /// Bytes of payload so far.
    payload: usize,
    /// The sequence number of the next segment.
    next: u32,
    /// The last segment was shorter than the first: none may follow.
    ended: bool,
}

impl Train {
    /// A train that begins with this frame; none when the frame is no segment that others can follow.
    #[inline]
    pub(crate) fn begin(frame: &[u8]) -> Option<Self> {
        let front = frame.first_chunk::<{ TCP + tcp::HEADER_LEN }>()?;
        let fragment = be16(front, FRAGMENT) & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK);
        let len = TCP + 4 * usize::from(front[DATA_OFFSET] >> 4);
        let is_segment = be16(front, ETHER_TYPE) == ethernet::EtherType::Ipv4.to_u16()
            && front[IP] == VERSION_AND_LENGTH
            && front[PROTOCOL] == ipv4::protocol::TCP
            && fragment == 0
            && usize::from(be16(front, TOTAL_LENGTH)) == frame.len() - IP
            && len >= TCP + tcp::HEADER_LEN
            && is_data(front[FLAGS]);
        let segment = frame.len().checked_sub(len)?;
        if !is_segment || segment == 0 {
            return None;
        }
        let mut headers = [0; LONGEST];
        headers[..len].copy_from_slice(&frame[..len]);
        Some(Self {
            headers,
            len,
            segment,
            payload: segment,
            next: be32(front, SEQUENCE).wrapping_add(segment as u32),
            ended: false,
        })
    }

    /// Puts a frame behind the last one, if it continues the train; tells whether it does.
    #[inline]
    pub(crate) fn take(&mut self, frame: &[u8]) -> bool {
        let (ours, len) = (&self.headers, self.len);
        let Some((theirs, payload)) = frame.split_at_checked(len) else {
            return false;
        };
        let same = |from: usize, to: usize| ours[from..to] == theirs[from..to];
        let follows = !self.ended
            && !payload.is_empty()
            && payload.len() <= self.segment
            && len - IP + self.payload + payload.len() <= LARGEST
            && usize::from(be16(theirs, TOTAL_LENGTH)) == frame.len() - IP
            && be32(theirs, SEQUENCE) == self.next
            && is_data(theirs[FLAGS])
            && same(0, TOTAL_LENGTH)
            && same(FRAGMENT, IP_CHECKSUM)
            && same(SOURCE, SEQUENCE)
            && same(ACKNOWLEDGMENT, FLAGS)
            && same(WINDOW, CHECKSUM)
            && same(URGENT, len);
        if follows {
            self.headers[FLAGS] |= theirs[FLAGS];
            self.payload += payload.len();
            self.next = self.next.wrapping_add(payload.len() as u32);
            self.ended = payload.len() < self.segment;
        }
        follows
    }

    /// Tells whether another full segment may join.
    pub(crate) const fn may_grow(&self) -> bool {
        !self.ended && self.len - IP + self.payload + self.segment <= LARGEST
    }

    /// Completes the headers of a train of several segments, and gives the header that says how to cut it.
    pub(crate) fn finish(&mut self) -> [u8; header::LEN] {
        let total = (self.len - IP + self.payload) as u16;
        put(&mut self.headers, TOTAL_LENGTH, total.to_be_bytes());
        put(&mut self.headers, IP_CHECKSUM, [0; 2]);
        let sum = tollgate_checksum::sum_header(&self.headers[IP..TCP]).finish();
        put(&mut self.headers, IP_CHECKSUM, sum.to_ne_bytes());
        let [source, destination] =
            [SOURCE, DESTINATION].map(|at| Ipv4Addr::from(be32(&self.headers, at)));
        let segment = total - ipv4::HEADER_LEN as u16;
        let pseudo = ipv4::pseudo_header(source, destination, ipv4::protocol::TCP, segment);
        put(&mut self.headers, CHECKSUM, pseudo.fold().to_ne_bytes());
        header::segmented(self.len, self.segment, (TCP, CHECKSUM - TCP))
    }

    /// Headers of the train.
    pub(crate) fn headers(&self) -> &[u8] {
        &self.headers[..self.len]
    }
}

/// Tells whether these are the flags of data and of nothing else.
const fn is_data(flags: u8) -> bool {
    flags & !Flags::PSH.0 == Flags::ACK.0
}

fn put(bytes: &mut [u8], at: usize, two: [u8; 2]) {
    bytes[at..at + 2].copy_from_slice(&two);
}

#[cfg(test)]
mod tests;

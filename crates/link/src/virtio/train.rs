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
    ETHER_TYPE, FRAGMENT, IDENTIFICATION, IP, IP_CHECKSUM, PROTOCOL, TCP, TOTAL_LENGTH, be16, be32,
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
const DATA_OFFSET: usize = TCP + 12;
const FLAGS: usize = TCP + 13;
const CHECKSUM: usize = TCP + 16;

/// Bytes of headers without TCP options.
const FIXED: usize = TCP + tcp::HEADER_LEN;
/// Bytes of TCP options that hold timestamps and nothing else (RFC 7323, appendix A).
const TIMESTAMPS: usize = 12;

/// Bits of headers that all segments of a train have in common. The others follow from those of the first, or are looked at.
const COMMON: [u8; FIXED] = {
    const OWN: [(usize, usize); 6] = [
        (TOTAL_LENGTH, 2),
        (IDENTIFICATION, 2),
        (IP_CHECKSUM, 2),
        (SEQUENCE, 4),
        (FLAGS, 1),
        (CHECKSUM, 2),
    ];
    let mut common = [0xff; FIXED];
    let mut field = 0;
    while field < OWN.len() {
        let (at, len) = OWN[field];
        let mut byte = at;
        while byte < at + len {
            common[byte] = 0;
            byte += 1;
        }
        field += 1;
    }
    common
};

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
        let front = frame.first_chunk::<FIXED>()?;
        let fragment = be16(front, FRAGMENT) & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK);
        let len = TCP + 4 * usize::from(front[DATA_OFFSET] >> 4);
        let is_segment = be16(front, ETHER_TYPE) == ethernet::EtherType::Ipv4.to_u16()
            && front[IP] == VERSION_AND_LENGTH
            && front[PROTOCOL] == ipv4::protocol::TCP
            && fragment == 0
            && usize::from(be16(front, TOTAL_LENGTH)) == frame.len() - IP
            && len >= FIXED
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
        let Some((theirs, payload)) = frame.split_at_checked(self.len) else {
            return false;
        };
        let (Some((ours, our_options)), Some((theirs, their_options))) = (
            self.headers[..self.len].split_first_chunk(),
            theirs.split_first_chunk(),
        ) else {
            return false;
        };
        let follows = !self.ended
            && !payload.is_empty()
            && payload.len() <= self.segment
            && self.len - IP + self.payload + payload.len() <= LARGEST
            && usize::from(be16(theirs, TOTAL_LENGTH)) == frame.len() - IP
            && be32(theirs, SEQUENCE) == self.next
            && is_data(theirs[FLAGS])
            && are_alike(ours, theirs)
            && are_equal(our_options, their_options);
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

/// Tells whether headers agree where those of all segments of a train do.
#[inline(always)]
fn are_alike(ours: &[u8; FIXED], theirs: &[u8; FIXED]) -> bool {
    // Without a branch, so that it is a few vector instructions.
    let bytes = ours.iter().zip(theirs).zip(&COMMON);
    bytes.fold(0, |all, ((ours, theirs), common)| {
        all | (ours ^ theirs) & common
    }) == 0
}

/// Tells whether options are the same. A call of memcmp(3) takes longer than a compare of timestamps.
#[inline(always)]
fn are_equal(ours: &[u8], theirs: &[u8]) -> bool {
    match (
        <&[u8; TIMESTAMPS]>::try_from(ours),
        <&[u8; TIMESTAMPS]>::try_from(theirs),
    ) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        _ => ours == theirs,
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

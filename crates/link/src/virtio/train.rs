//! Trains: segments of one connection that follow each other, given to the kernel as one frame (TCP segmentation offload by the
//! virtio-net header, virtio 1.2, 5.1.6.2).
//!
//! The stack sends segments, each in a frame of its own; here those that one frame can stand for are found and put behind one
//! header. No payload is moved: the train's parts are gathered by writev(2). Whoever gets a train may cut it where we did, so every
//! segment but the last has the length of the first. The rules are those by which Linux puts segments together (GRO). A segment
//! with another acknowledgment, window or option begins a new train.
//!
//! PSH is the exception: the train has it when one of its segments does, and all are delivered at once.

use super::layout::{
    IDENTIFICATION, IP, IP_CHECKSUM, LENGTH_V6, TCP, TCP_V6, TOTAL_LENGTH, be16, be32, put16,
};
use super::{header, unfinished};
use tollgate_wire::tcp::{self, Flags};

/// Segments of a train at most: those with timestamps at an MTU of 1500 bytes are 45, and a shorter one behind them.
pub(crate) const MOST: usize = 64;

/// Bytes of the longest train, its link header counted: Linux cuts a frame before its device when it is not shorter than 65,536 bytes,
/// counted so (netif_get_gso_max_size), and drops what it would have to cut where no queueing discipline is passed.
const LARGEST: usize = u16::MAX as usize;
/// Bytes of the longest headers.
const LONGEST: usize = TCP_V6 + tcp::MAX_HEADER_LEN;

// Offsets in the header of TCP (RFC 9293, 3.1).
const SEQUENCE: usize = 4;
const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;

/// Bytes of headers without TCP options, over IPv4 and IPv6.
const FIXED: usize = TCP + tcp::HEADER_LEN;
const FIXED_V6: usize = TCP_V6 + tcp::HEADER_LEN;
/// Bytes of TCP options that hold timestamps and nothing else (RFC 7323, appendix A).
const TIMESTAMPS: usize = 12;

/// Bits of headers that all segments of a train have in common. The others follow from those of the first, or are looked at.
const COMMON: [u8; FIXED] = all_but([
    (TOTAL_LENGTH, 2),
    (IDENTIFICATION, 2),
    (IP_CHECKSUM, 2),
    (TCP + SEQUENCE, 4),
    (TCP + FLAGS, 1),
    (TCP + CHECKSUM, 2),
]);
const COMMON_V6: [u8; FIXED_V6] = all_but([
    (LENGTH_V6, 2),
    (TCP_V6 + SEQUENCE, 4),
    (TCP_V6 + FLAGS, 1),
    (TCP_V6 + CHECKSUM, 2),
]);

/// All bits but those of fields, each so many bytes at a place.
const fn all_but<const N: usize, const FIELDS: usize>(fields: [(usize, usize); FIELDS]) -> [u8; N] {
    let mut bits = [0xff; N];
    let mut field = 0;
    while field < FIELDS {
        let (at, len) = fields[field];
        let mut byte = at;
        while byte < at + len {
            bits[byte] = 0;
            byte += 1;
        }
        field += 1;
    }
    bits
}

/// A train that is being put together.
pub(crate) struct Train {
    headers: [u8; LONGEST],
    /// Offset of the TCP header.
    tcp: usize,
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
        let tcp = unfinished::tcp_at(frame)?;
        let front = frame.get(tcp..)?.first_chunk::<{ tcp::HEADER_LEN }>()?;
        let len = tcp + 4 * usize::from(front[DATA_OFFSET] >> 4);
        let is_segment = is_whole(frame, frame.len(), tcp)
            && len >= tcp + tcp::HEADER_LEN
            && is_data(front[FLAGS]);
        let segment = frame.len().checked_sub(len)?;
        if !is_segment || segment == 0 {
            return None;
        }
        let mut headers = [0; LONGEST];
        headers[..len].copy_from_slice(&frame[..len]);
        Some(Self {
            headers,
            tcp,
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
        if self.tcp == TCP {
            self.take_behind::<TCP, FIXED>(frame, &COMMON)
        } else {
            self.take_behind::<TCP_V6, FIXED_V6>(frame, &COMMON_V6)
        }
    }

    /// [`Train::take`] where the TCP header begins at `AT`.
    #[inline(always)]
    fn take_behind<const AT: usize, const FIXED: usize>(
        &mut self,
        frame: &[u8],
        common: &[u8; FIXED],
    ) -> bool {
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
            && self.len + self.payload + payload.len() <= LARGEST
            && is_whole(theirs, frame.len(), AT)
            && be32(theirs, AT + SEQUENCE) == self.next
            && is_data(theirs[AT + FLAGS])
            && are_alike(ours, theirs, common)
            && are_equal(our_options, their_options);
        if follows {
            self.headers[AT + FLAGS] |= theirs[AT + FLAGS];
            self.payload += payload.len();
            self.next = self.next.wrapping_add(payload.len() as u32);
            self.ended = payload.len() < self.segment;
        }
        follows
    }

    /// Tells whether another full segment may join.
    pub(crate) const fn may_grow(&self) -> bool {
        !self.ended && self.len + self.payload + self.segment <= LARGEST
    }

    /// Completes the headers of a train of several segments, and gives the header that says how to cut it.
    pub(crate) fn finish(&mut self) -> [u8; header::LEN] {
        let segment = self.len - self.tcp + self.payload;
        if self.tcp == TCP {
            let total = self.len - IP + self.payload;
            put16(&mut self.headers, TOTAL_LENGTH, total as u16);
            put16(&mut self.headers, IP_CHECKSUM, 0);
            let sum = tollgate_checksum::sum_header(&self.headers[IP..TCP]).finish();
            self.headers[IP_CHECKSUM..][..2].copy_from_slice(&sum.to_ne_bytes());
        } else {
            put16(&mut self.headers, LENGTH_V6, segment as u16);
        }
        unfinished::put_pseudo_header(&mut self.headers, self.tcp, segment);
        header::segmented(
            self.tcp == TCP_V6,
            self.len,
            self.segment,
            (self.tcp, CHECKSUM),
        )
    }

    /// Headers of the train.
    pub(crate) fn headers(&self) -> &[u8] {
        &self.headers[..self.len]
    }
}

/// Tells whether the packet of a frame is as long as that.
#[inline(always)]
fn is_whole(headers: &[u8], frame: usize, tcp: usize) -> bool {
    if tcp == TCP {
        IP + usize::from(be16(headers, TOTAL_LENGTH)) == frame
    } else {
        TCP_V6 + usize::from(be16(headers, LENGTH_V6)) == frame
    }
}

/// Tells whether headers agree where those of all segments of a train do.
#[inline(always)]
fn are_alike<const N: usize>(ours: &[u8; N], theirs: &[u8; N], common: &[u8; N]) -> bool {
    // Without a branch, so that it is a few vector instructions.
    let bytes = ours.iter().zip(theirs).zip(common);
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

#[cfg(test)]
mod tests;

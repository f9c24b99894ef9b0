//! The copy of a received frame into the pool, with its checksum in the same pass when there is a kernel for it.

use tollgate_checksum::Kernel;
use tollgate_stack::buffer::{Frame, PAYLOAD_OFFSET, Pool, RxChecksum, SUMMED_FROM};

/// Offset of a received frame in its pool frame: the payload of a TCP segment with timestamps (14 + 20 + 32 bytes of headers)
/// begins at a cache line.
const PLACED_AT: usize = PAYLOAD_OFFSET - 66;

/// Fate of a frame that arrived.
pub(crate) enum Taken {
    /// It is in the pool.
    Frame(Frame),
    /// The pool has no frame to spare.
    NoFrame,
    /// No frame of the pool is long enough.
    TooLong,
}

/// Copies one frame into the pool.
#[inline(always)]
pub(crate) fn take(bytes: &[u8], kernel: Option<&Kernel>, pool: &mut Pool) -> Taken {
    if PLACED_AT + bytes.len() > pool.frame_size() {
        return Taken::TooLong;
    }
    let Some(id) = pool.alloc_for_receive() else {
        return Taken::NoFrame;
    };
    let place = &mut pool.bytes_mut(id)[PLACED_AT..PLACED_AT + bytes.len()];
    let checksum = match (
        kernel,
        place.split_at_mut_checked(SUMMED_FROM),
        bytes.split_at_checked(SUMMED_FROM),
    ) {
        (Some(kernel), Some((headers_to, to)), Some((headers, from))) => {
            headers_to.copy_from_slice(headers);
            RxChecksum::Complete(kernel.copy_and_sum(to, from))
        }
        _ => {
            place.copy_from_slice(bytes);
            RxChecksum::Unknown
        }
    };
    Taken::Frame(Frame {
        id,
        offset: PLACED_AT as u16,
        len: bytes.len() as u16,
        checksum,
    })
}

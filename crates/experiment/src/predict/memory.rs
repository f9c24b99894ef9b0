//! How many bytes memory moves in a second, by copying more than a cache holds.

use std::time::Instant;

/// Bytes that are copied, from one buffer to another of the same size.
const COPIED: usize = 64 << 20;
/// Copies, of which the quickest counts: others share the machine's memory.
const TIMES: usize = 6;

/// Bytes a second that this machine's memory moves for one processor, each byte of a copy counted twice: it is read and
/// written. Takes some tenths of a second and 128 MiB.
#[must_use]
pub fn bandwidth() -> f64 {
    let from = vec![1_u8; COPIED];
    let mut to = vec![0_u8; COPIED];
    let quickest = (0..TIMES)
        .map(|_| {
            let begun = Instant::now();
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
            begun.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    2.0 * COPIED as f64 / quickest.max(f64::MIN_POSITIVE)
}

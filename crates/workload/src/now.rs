//! The clock of the workloads.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the first call in this process, on a clock that never goes back.
///
/// Times of two processes cannot be compared with each other.
#[inline]
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::now_ns;

    #[test]
    fn never_goes_back() {
        let mut last = now_ns();
        for _ in 0..10_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }
}

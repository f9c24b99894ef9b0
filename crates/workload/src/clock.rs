//! The clock of the workloads.

use std::sync::OnceLock;

use tollgate_gate::{Clock, Ticks, TscRate};

static CLOCK: OnceLock<(Clock, Ticks)> = OnceLock::new();

/// The process's clock, and its reading when it was calibrated.
fn clock() -> &'static (Clock, Ticks) {
    CLOCK.get_or_init(|| started(Clock::calibrate()))
}

fn started(clock: Clock) -> (Clock, Ticks) {
    (clock, clock.now_ordered())
}

/// Takes the rate that the parent process has calibrated, which spares the 20 ms; does nothing once the clock was read.
pub(crate) fn take_rate(rate: TscRate) {
    CLOCK.get_or_init(|| started(Clock::with_rate(rate)));
}

/// The calibrated clock behind [`now_ns`], for gates that are to read the same time. The first call takes some 20 ms.
pub fn gate_clock() -> Clock {
    clock().0
}

/// Nanoseconds since the first call in this process, by the TSC where it can be trusted, else by the monotonic raw clock
/// ([`Clock::source`]). The first call takes some 20 ms.
///
/// Times of two processes cannot be compared with each other.
#[inline]
pub fn now_ns() -> u64 {
    let (clock, start) = clock();
    // A CPU that lags the one of the first call by a few ticks must not show a time far ahead.
    let elapsed = clock.now().0.saturating_sub(start.0);
    clock.to_ns(Ticks(elapsed))
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

    #[test]
    fn keeps_pace_with_the_systems_clock() {
        let (system, ours) = (std::time::Instant::now(), now_ns());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let ours = now_ns() - ours;
        let system = system.elapsed().as_nanos() as u64;
        // Ours was read later and then earlier, so it is the shorter one but for the error of its rate.
        assert!(ours >= 20_000_000 - 20_000, "{ours} ns of at least 20 ms");
        assert!(ours <= system + system / 1000, "{ours} ns of {system} ns");
    }
}

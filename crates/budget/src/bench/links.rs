//! Rows of the links to Linux: our stack at one end of a link and a socket of Linux at the other, over Linux at both ends of a veth pair.
//!
//! Bars are those of times: where throughput is to be at least 0.8 of Linux's, a byte may take 1.25 of its time.

use super::{Effort, Failure, Line, Measured, RATIO, path_over_path, row, session_over_session};
use rustix::time::{ClockId, clock_gettime};
use tollgate_run::{PathId, Placement, Waiting, Workload};
use tollgate_workload::Spec;

/// Linux at both ends.
const LINUX: PathId = PathId::KernelVeth;
/// Bytes of a write.
const WRITE: usize = 64 << 10;

/// All rows. A path that this machine does not give stands with its reason.
pub(super) fn lines(effort: Effort) -> Vec<Line> {
    let mut lines = beside_linux(effort);
    let (ours, other) = (PathId::StackShm, PathId::KernelLoopback);
    let what = format!("stream of 64 KiB writes, polling, {ours} over {other}");
    lines.push(row(what, RATIO, Some(0.4), || {
        let spec = stream(Waiting::BusyPoll);
        stream_over(ours, other, &spec, Clock::Wall, effort)
    }));
    lines
}

/// A stream on two cores.
const fn stream(waiting: Waiting) -> Spec {
    Spec::new(Workload::Stream, WRITE).with_mode(Placement::TwoCores, waiting)
}

/// Rows with a socket of Linux at the other end.
fn beside_linux(effort: Effort) -> Vec<Line> {
    let sent = stream(Waiting::Blocking);
    let received = stream(Waiting::Blocking).reversed(true);
    let tap = PathId::StackTap;
    let mut lines = vec![
        row(
            "stream of 64 KiB writes, stack-tap over kernel-veth",
            RATIO,
            Some(1.25),
            || stream_over(tap, LINUX, &sent, Clock::Wall, effort),
        ),
        row("  the same towards our end", RATIO, Some(1.33), || {
            stream_over(tap, LINUX, &received, Clock::Wall, effort)
        }),
        row("  processor time of our end", RATIO, Some(0.8), || {
            stream_over(tap, LINUX, &sent, Clock::Processor, effort)
        }),
    ];
    for path in [tap, PathId::StackXdp] {
        let what = format!("round trip, polling, {path} over {LINUX}, 64 B");
        let spec = Spec::new(Workload::Rr, 64).with_mode(Placement::TwoCores, Waiting::BusyPoll);
        lines.push(row(what, RATIO, Some(0.9), || {
            path_over_path(path, LINUX, &spec, effort)
        }));
    }
    let what = format!("connect, 1 B each way, close, polling, {tap} over {LINUX}");
    lines.push(row(what, RATIO, Some(1.0), || {
        let spec = Spec::new(Workload::Crr, 1).with_mode(Placement::TwoCores, Waiting::BusyPoll);
        path_over_path(tap, LINUX, &spec, effort)
    }));
    lines
}

/// Time that a byte takes.
#[derive(Clone, Copy)]
enum Clock {
    /// Until the next one.
    Wall,
    /// Of the timed end's processor.
    Processor,
}

/// A stream over another stream, time per byte.
fn stream_over(
    ours: PathId,
    other: PathId,
    spec: &Spec,
    clock: Clock,
    effort: Effort,
) -> Result<Measured, Failure> {
    let (estimate, times) = session_over_session((ours, other), spec, effort, |session| {
        let mut samples = session.new_samples();
        let used = processor_ns();
        session.run(effort.round_trips, &mut samples)?;
        let used = processor_ns() - used;
        if samples.bytes() == 0 {
            return Err("nothing was sent".into());
        }
        let ns = match clock {
            Clock::Wall => samples.elapsed_ns() as f64,
            Clock::Processor => used,
        };
        // A kilobyte, of which numbers are long enough to be read.
        Ok(1024.0 * ns / samples.bytes() as f64)
    })?;
    Ok((estimate, format!("{times} per KiB")))
}

/// Processor time of this thread so far, in nanoseconds.
fn processor_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Outcome;

    #[test]
    fn every_bar_of_the_links_has_a_row_that_is_measured_or_says_why_not() {
        let effort = Effort {
            pairs: 2,
            round_trips: 8,
        };
        let lines = beside_linux(effort);
        assert_eq!(lines.len(), 6);
        for line in &lines {
            assert!(line.bar.is_some(), "{}", line.what);
            match &line.outcome {
                Outcome::Measured(estimate) => assert!(estimate.median > 0.0, "{}", line.what),
                Outcome::Unavailable(why) => {
                    assert!(!why.is_empty(), "{}", line.what);
                    tollgate_skip::skipped!("{}: {why}", line.what);
                }
            }
        }
    }
}

//! The time of each end of a one-way stream between two of Tollgate's stacks, told apart: what `foong-direction` and `foong-offload`
//! show of our stack.
//!
//! Both stacks run in one thread and take turns, so that a clock between the turns tells them apart: the sender writes, sends and
//! takes acknowledgments; the receiver polls, reads into a posted buffer and acknowledges. As with ttcp in Foong et al. 2003, section
//! 2.2, both ends reuse a buffer of the transfer's size. It must never know what is made of the times.

use std::rc::Rc;
use std::time::Duration;

use tollgate_budget::hosts::{Ends, Hosts};
use tollgate_budget::scenario::MTU;
use tollgate_run::Placement;
use tollgate_stats as stats;
use tollgate_workload::Mechanisms;
use tollgate_workload::config::{ChecksumPolicy, Receive, Segmentation, Transmit};
use tollgate_workload::cores::{Cores, Pinned};
use tollgate_workload::now_ns;

use crate::context::{Context, REPETITIONS};
use crate::control::between_slices;
use crate::error::Error;
use crate::turns::Rounds;

/// Sizes of a write, those of `streams`.
const SIZES: [usize; 6] = [64, 256, 1_024, 4_096, 16_384, 65_536];
/// Mechanisms that the ends here cannot take from the options: they call the stack in one way, and its link is not asked to segment.
pub(crate) const OWN: [&str; 3] = [Receive::NAME, Transmit::NAME, Segmentation::NAME];
/// States of both ends.
const STATES: usize = 2;
/// Bytes that the sender has written when the receiver's turn comes, but for a write that is larger.
const TURN: usize = 16_384;
/// Bytes after which windows are open and queues have found their lengths.
const WARM_UP: u64 = 1 << 20;
/// Nanoseconds of the stacks' time between turns.
const BETWEEN: u64 = 1_000;
/// Length of a slice, when nobody is in a hurry.
const SLICE: Duration = Duration::from_millis(4);
/// The shortest slice.
const LEAST: Duration = Duration::from_micros(100);
/// Part of the time that is left; the samples of the kernel's streams have the rest.
const SHARE: f64 = 0.2;
/// Rounds for each of the repetitions that the options give.
const ROUNDS: u32 = 2;

/// The two ends of a stream: nanoseconds for each byte, by round.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndTimes {
    pub(crate) transmit: Rounds,
    pub(crate) receive: Rounds,
}

/// The ends by size of a write.
#[derive(Debug)]
pub(crate) struct StackEnds {
    /// Bytes of a write and of a read.
    pub(crate) sizes: Vec<usize>,
    /// In each of the states ([`states`]), by size.
    pub(crate) times: [Vec<EndTimes>; STATES],
}

/// Both ends as the options set them, and both without checksums: what a device that sums for them would leave.
const fn states(set: Mechanisms) -> [Mechanisms; STATES] {
    let checksum = ChecksumPolicy::Off;
    [set, Mechanisms { checksum, ..set }]
}

/// Measures, at the first call.
///
/// # Errors
/// [`Error::Stopped`] when the user stopped it before each had a round, [`Error::NothingMeasured`] when the stacks cannot be made.
pub(crate) fn of_stack(
    experiment: &'static str,
    context: &Context<'_>,
) -> Result<Rc<StackEnds>, Error> {
    context.once(|_| true, || run(experiment, context))
}

fn run(experiment: &'static str, context: &Context<'_>) -> Result<StackEnds, Error> {
    let options = &context.options;
    let sizes = options.sizes_or(&SIZES);
    let states = states(options.mechanisms);
    let mut times = states.map(|_| vec![EndTimes::default(); sizes.len()]);
    let rounds = options.repetitions.unwrap_or(REPETITIONS).max(1) * ROUNDS;
    let turns = (rounds as usize * STATES * sizes.len()).max(1) as u32;
    let slice = match context.remaining() {
        Some(left) => (left.mul_f64(SHARE) / turns).clamp(LEAST, SLICE),
        None => SLICE,
    };
    let mut done = 0;
    // Where it cannot be pinned it runs where the system puts it.
    let _pinned = Cores::choose(Placement::OneCore)
        .ok()
        .and_then(|cores| Pinned::to(cores.client).ok());
    'rounds: for round in 0..rounds {
        for (at, &size) in sizes.iter().enumerate() {
            for (mechanisms, times) in states.into_iter().zip(&mut times) {
                if context.cancel.is_raised() {
                    match round {
                        0 => return Err(Error::Stopped),
                        _ => break 'rounds,
                    }
                }
                between_slices(context, "both ends of our stack", slice * (turns - done));
                done += 1;
                let until = match options.iterations {
                    Some(writes) => Until::Bytes(writes * size as u64),
                    None => Until::Passed(slice.as_nanos() as u64),
                };
                let timed = timed(size, mechanisms, until);
                let timed = timed.map_err(|error| Error::NothingMeasured {
                    experiment,
                    reason: error.to_string(),
                })?;
                timed.add_to(&mut times[at], size);
            }
        }
    }
    Ok(StackEnds { sizes, times })
}

/// End of a slice.
#[derive(Debug, Clone, Copy)]
enum Until {
    /// So many bytes are carried.
    Bytes(u64),
    /// So many nanoseconds have passed.
    Passed(u64),
}

/// Times of a slice.
#[derive(Debug, Clone, Default)]
struct Timed {
    /// Nanoseconds of both ends, transmit first, for each byte of a turn.
    turns: [Vec<f64>; 2],
    ns: u64,
    bytes: u64,
}

impl Timed {
    /// Adds the median over the turns: a processor that is taken away in one of them does not move it.
    fn add_to(mut self, times: &mut EndTimes, size: usize) {
        let ends = [&mut times.transmit, &mut times.receive];
        for (end, turns) in ends.into_iter().zip(&mut self.turns) {
            turns.sort_by(f64::total_cmp);
            end.ns.push(stats::middle(turns));
            end.operations += self.bytes / size.max(1) as u64;
        }
    }
}

/// A slice of a stream with writes of `size`, between stacks that are made for it.
fn timed(
    size: usize,
    mechanisms: Mechanisms,
    until: Until,
) -> Result<Timed, tollgate_budget::Error> {
    let (mut hosts, ends) = connected(mechanisms)?;
    let (message, mut buffer) = (vec![7; size.max(1)], vec![0; size.max(1)]);
    let mut slice = Timed::default();
    while slice.bytes < WARM_UP {
        turn(&mut hosts, ends, &message, &mut buffer, &mut slice);
    }
    let mut slice = Timed::default();
    loop {
        turn(&mut hosts, ends, &message, &mut buffer, &mut slice);
        let is_over = match until {
            Until::Bytes(bytes) => slice.bytes >= bytes,
            Until::Passed(ns) => slice.ns >= ns,
        };
        if is_over {
            return Ok(slice);
        }
    }
}

/// Stacks with these mechanisms, and a connection between them.
fn connected(mechanisms: Mechanisms) -> Result<(Hosts, Ends), tollgate_budget::Error> {
    let mut hosts = Hosts::new(16, MTU, |config| config.mechanisms = mechanisms)?;
    let ends = hosts.connect()?;
    Ok((hosts, ends))
}

/// A turn of each end: writes, reads of all that has arrived, and the acknowledgments.
fn turn(hosts: &mut Hosts, ends: Ends, message: &[u8], buffer: &mut [u8], slice: &mut Timed) {
    let begun = now_ns();
    for _ in 0..(TURN / message.len()).max(1) {
        let sender = &mut hosts.client.at(hosts.now, &mut hosts.pool);
        // A part of a write that has no room is not offered again: its bytes are as any others.
        if sender.send(ends.0, message).is_err() {
            break;
        }
    }
    hosts.poll_client();
    let sent = now_ns();
    hosts.tick(BETWEEN);
    let mut bytes = 0;
    loop {
        match hosts.read(ends.1, buffer) {
            0 => break,
            read => bytes += read as u64,
        }
    }
    let received = now_ns();
    hosts.poll_client();
    let acknowledged = now_ns();
    slice.ns += acknowledged - begun;
    slice.bytes += bytes;
    if bytes > 0 {
        let transmit = (sent - begun) + (acknowledged - received);
        let ends = [transmit, received - sent];
        for (turns, ns) in slice.turns.iter_mut().zip(ends) {
            turns.push(ns as f64 / bytes as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Options, Silent};

    #[test]
    fn both_ends_have_a_time_at_every_size() {
        let options = Options {
            sizes: Some(vec![64, 65_536]),
            iterations: Some(8),
            repetitions: Some(1),
            ..Options::default()
        };
        let context = Context::new(options, None, Cancel::default(), &Silent);
        let ends = of_stack("test", &context).unwrap();
        assert_eq!(ends.sizes, [64, 65_536]);
        for times in ends.times.iter().flatten() {
            for end in [&times.transmit, &times.receive] {
                assert_eq!(end.ns.len(), ROUNDS as usize);
                assert!(end.ns.iter().all(|ns| ns.is_some_and(|ns| ns > 0.0)));
            }
            assert_eq!(times.transmit.operations, times.receive.operations);
        }
    }

    #[test]
    fn ends_run_the_mechanisms_that_are_set() {
        let cache_hits = |mechanisms| {
            let (mut hosts, ends) = connected(mechanisms).unwrap();
            let mut slice = Timed::default();
            for _ in 0..8 {
                turn(&mut hosts, ends, &[7; 1_024], &mut [0; 1_024], &mut slice);
            }
            assert!(slice.bytes > 0);
            hosts.server.counters().cache_hits()
        };
        let list = Mechanisms {
            demux: tollgate_workload::config::Demux::List,
            ..Mechanisms::DEFAULT
        };
        let [as_set, without_checksums] = states(list);
        assert_eq!(as_set, list);
        assert_eq!(without_checksums.checksum, ChecksumPolicy::Off);
        assert!(cache_hits(Mechanisms::DEFAULT) > 0);
        assert_eq!([as_set, without_checksums].map(cache_hits), [0, 0]);
    }

    #[test]
    fn stream_never_stalls() {
        for size in [1, 64, 5_000, 65_536, 300_000] {
            let bytes = 3 << 20;
            let slice = timed(size, Mechanisms::DEFAULT, Until::Bytes(bytes)).unwrap();
            assert!(slice.bytes >= bytes, "{size}");
        }
    }

    #[test]
    fn stop_before_the_first_round_is_an_error() {
        let cancel = Cancel::default();
        cancel.raise();
        let context = Context::new(Options::default(), None, cancel, &Silent);
        assert!(matches!(of_stack("test", &context), Err(Error::Stopped)));
    }
}

//! Cost of the gates to a message, measured with messages of our own over loopback. One thread sends and takes them,
//! so that nobody has to wake up.
//!
//! Equal round trips are made without gates, with gates that do not sample them, and with gates that follow each
//! message. The programs measure their own time on a followed message, by reading the clock when they begin and when
//! they are done. The rest of the additional time is the kernel's, which calls a program and comes back. It is
//! divided equally among the gates, and taken off every span.
//!
//! This module owns the connection it measures on. It must never look at the traffic of others, nor guess where it
//! could not measure.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tollgate_kernel::filter::{Filter, Operation, Side};
use tollgate_stats::{Estimate, StatsError};

use crate::memory::Settings;

/// Rounds before the first sample: the fewest whose median has an interval ([`tollgate_stats::median`]).
pub(super) const ROUNDS: usize = 6;
/// Rounds that are kept; older ones tell of a machine that has gone.
const KEPT: usize = 32;
/// Time after a round at which the next one is due when the gates are put on anyway.
const DUE: Duration = Duration::from_secs(2);
/// Time after a round at which the gates are taken off for the next one where they would stay on. That takes some
/// tens of milliseconds.
const OVERDUE: Duration = Duration::from_secs(5);
/// Round trips of a turn, after a few that warm up.
const ROUND_TRIPS: usize = 60;
const WARM_UP: usize = 15;
/// Bytes of a message.
const SIZE: usize = 64;
/// Loopback answers within microseconds, if it answers.
const PATIENCE: Duration = Duration::from_millis(200);

/// Cost of the gates to a message, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// One that is looked at and let go.
    pub not_sampled: Estimate,
    /// For each gate that follows one, what lies outside of its program.
    pub call: Estimate,
}

/// The middle of a turn's round trips, in nanoseconds for each message of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct TripCost {
    /// Time of the round trips, without the time that the programs measured.
    pub(super) rest_ns: f64,
}

/// A round of turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// Without gates.
    pub(super) bare: TripCost,
    /// With gates that let messages go.
    pub(super) not_sampled: TripCost,
    /// With gates that follow them.
    pub(super) followed: TripCost,
}

impl Cost {
    /// The medians over rounds, where a message passes so many programs.
    ///
    /// # Errors
    /// Of fewer than [`ROUNDS`] rounds.
    pub(super) fn of(
        rounds: impl Iterator<Item = Round> + Clone,
        programs: usize,
    ) -> Result<Self, StatsError> {
        let programs = programs.max(1) as f64;
        let estimate = |of: &dyn Fn(&Round) -> f64| -> Result<Estimate, StatsError> {
            let values: Vec<f64> = rounds.clone().map(|round| of(&round)).collect();
            let mut estimate = tollgate_stats::median(&values)?;
            // Gates that cost nothing give nothing back.
            for ns in [
                &mut estimate.value,
                &mut estimate.interval.low,
                &mut estimate.interval.high,
            ] {
                *ns = ns.max(0.0);
            }
            Ok(estimate)
        };
        Ok(Self {
            not_sampled: estimate(&|round| round.not_sampled.rest_ns - round.bare.rest_ns)?,
            call: estimate(&|round| (round.followed.rest_ns - round.bare.rest_ns) / programs)?,
        })
    }
}

/// The rounds so far, and when the next one is due.
#[derive(Debug)]
pub(super) struct Calibration {
    rounds: VecDeque<Round>,
    last: Instant,
}

impl Calibration {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            rounds: VecDeque::with_capacity(KEPT),
            last: now,
        }
    }

    pub(super) fn add(&mut self, round: Round) {
        if self.rounds.len() == KEPT {
            self.rounds.pop_front();
        }
        self.rounds.push_back(round);
    }

    /// Notes that a round was tried.
    pub(super) fn tried(&mut self, now: Instant) {
        self.last = now;
    }

    /// Tells whether a round is due when the gates are put on.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= DUE
    }

    /// Tells whether the gates have to be taken off for a round.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= OVERDUE
    }

    /// Cost of the gates by the rounds that are kept.
    pub(super) fn cost(&self, programs: usize) -> Result<Cost, String> {
        Cost::of(self.rounds.iter().copied(), programs).map_err(|error| error.to_string())
    }
}

/// Both ends of a connection over loopback.
pub(super) struct Pair {
    ends: [TcpStream; 2],
    ports: [u16; 2],
}

impl Pair {
    pub(super) fn new() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let at = listener.local_addr()?;
        let client = TcpStream::connect_timeout(&at, PATIENCE)?;
        let from = client.local_addr()?;
        let ends = [client, accept(&listener, from)?];
        for end in &ends {
            end.set_nodelay(true)?;
            end.set_read_timeout(Some(PATIENCE))?;
            end.set_write_timeout(Some(PATIENCE))?;
        }
        Ok(Self {
            ends,
            ports: [from.port(), at.port()],
        })
    }

    /// Ports of both ends.
    #[cfg(all(test, feature = "bpf"))]
    pub(super) const fn ports(&self) -> [u16; 2] {
        self.ports
    }

    /// Settings with which the programs follow messages of this connection, and no other, and add them to no row.
    /// None is sampled yet: these are many words, and the programs may see half of them.
    pub(super) fn settings(&self, base: &Settings) -> Settings {
        let [client, server] = self
            .ports
            .map(|port| Filter::Ports(Side::Either, port, port));
        let filter = Filter::And(Box::new(client), Box::new(server)).operations();
        let mut settings = Settings {
            every: 0,
            weight: 0,
            until: 0,
            operations: filter.len() as u32,
            // Of no process, since none is named.
            by_group: 1,
            groups: Default::default(),
            call: 0,
            operation: [Operation::default(); crate::memory::OPERATIONS],
            ..*base
        };
        settings.operation[..filter.len()].copy_from_slice(&filter);
        settings
    }

    /// A turn of round trips. `spent` tells what the programs have spent on followed messages so far, in nanoseconds.
    pub(super) fn measure(&mut self, spent: impl Fn() -> u64) -> io::Result<TripCost> {
        let mut rests = Vec::with_capacity(ROUND_TRIPS);
        let mut message = [0; SIZE];
        let [client, server] = &mut self.ends;
        for at in 0..WARM_UP + ROUND_TRIPS {
            let (before, begun) = (spent(), Instant::now());
            client.write_all(&message)?;
            server.read_exact(&mut message)?;
            server.write_all(&message)?;
            client.read_exact(&mut message)?;
            let (took, spent) = (begun.elapsed(), spent().wrapping_sub(before));
            if at >= WARM_UP {
                // A round trip is two messages.
                rests.push((took.as_nanos() as f64 - spent as f64) / 2.0);
            }
        }
        rests.sort_by(f64::total_cmp);
        let rest_ns = tollgate_stats::middle(&rests).ok_or(io::ErrorKind::InvalidData)?;
        Ok(TripCost { rest_ns })
    }
}

/// The connection that comes from there; whoever else connects meanwhile is turned away.
fn accept(listener: &TcpListener, from: SocketAddr) -> io::Result<TcpStream> {
    loop {
        let (stream, peer) = listener.accept()?;
        if peer == from {
            return Ok(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(bare: f64, not_sampled: f64, followed: f64) -> Round {
        let measure = |rest_ns| TripCost { rest_ns };
        Round {
            bare: measure(bare),
            not_sampled: measure(not_sampled),
            followed: measure(followed),
        }
    }

    #[test]
    fn what_programs_do_not_tell_of_is_shared_by_the_gates() {
        // All were made at other speeds, and one was disturbed.
        let mut rounds = vec![round(9_000.0, 5_960.0, 6_200.0)];
        for speed in [0.0, 500.0, 700.0, 900.0, 1_000.0, 1_100.0] {
            rounds.push(round(4_000.0 + speed, 4_960.0 + speed, 5_200.0 + speed));
        }
        let cost = Cost::of(rounds.iter().copied(), 12).unwrap();
        assert_eq!((cost.not_sampled.value, cost.call.value), (960.0, 100.0));
        // The disturbed one is in the interval, which seven rounds cannot shorten further.
        assert_eq!(
            (cost.call.interval.low, cost.call.interval.high),
            (0.0, 100.0)
        );
        assert!(Cost::of(rounds[..5].iter().copied(), 12).is_err());
    }

    #[test]
    fn calibration_forgets_the_machine_that_was() {
        let begun = Instant::now();
        let mut calibration = Calibration::new(begun);
        assert!(calibration.cost(12).is_err());
        for _ in 0..KEPT {
            calibration.add(round(4_000.0, 4_960.0, 5_200.0));
        }
        assert_eq!(calibration.cost(12).unwrap().call.value, 100.0);
        for _ in 0..KEPT {
            calibration.add(round(4_000.0, 4_960.0, 6_400.0));
        }
        let cost = calibration.cost(12).unwrap();
        assert_eq!((cost.call.value, cost.call.n), (200.0, KEPT as u64));
    }

    #[test]
    fn calibration_goes_on() {
        let begun = Instant::now();
        let mut calibration = Calibration::new(begun);
        assert!(!calibration.is_due(begun) && calibration.is_due(begun + DUE));
        assert!(!calibration.is_overdue(begun + DUE) && calibration.is_overdue(begun + OVERDUE));
        calibration.tried(begun + OVERDUE);
        assert!(!calibration.is_due(begun + OVERDUE));
    }

    #[test]
    fn gates_that_cost_nothing_are_not_paid_back() {
        let rounds = [round(4_000.0, 3_900.0, 3_950.0); ROUNDS];
        let cost = Cost::of(rounds.into_iter(), 12).unwrap();
        assert_eq!((cost.not_sampled.value, cost.call.value), (0.0, 0.0));
        assert_eq!(cost.call.interval.high, 0.0);
    }

    #[test]
    fn what_was_spent_is_no_part_of_the_rest() {
        let mut pair = Pair::new().unwrap();
        assert!(pair.measure(|| 0).unwrap().rest_ns > 0.0);
        // As if all the time had been spent, and more.
        let calls = std::cell::Cell::new(0);
        let measure = pair.measure(|| {
            calls.set(calls.get() + 1_000_000_000);
            calls.get()
        });
        assert!(measure.unwrap().rest_ns < 0.0);
    }

    #[test]
    fn only_the_own_connection_is_followed() {
        let pair = Pair::new().unwrap();
        let settings = pair.settings(&Settings::default());
        assert_eq!(settings.every, 0);
        // Of two ports and what joins them, and of no process.
        assert_eq!((settings.operations, settings.by_group), (3, 1));
        let ports: Vec<u32> = settings.operation[..2].iter().map(|one| one.low).collect();
        assert_eq!(ports, pair.ports.map(u32::from));
    }
}

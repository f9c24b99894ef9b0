//! Control benchmarks: the speed of the machine itself during a run.
//!
//! A virtual processor that shares its core with another machine's work is slower by half for minutes on end, and two of them lie on
//! one core now and further apart then, which makes a cache line between them take four times as long. Each number of a run that
//! falls into such a time is as exact as ever. So a run also times, again and again between its slices, two things that neither the
//! kernel nor Tollgate's stack is part of: round trips of `peer-smoltcp` on one core, and of `bare-shm` between two. `compare` holds two
//! runs' controls against each other.
//!
//! It owns these times. It must never change what an experiment measures, nor fail a run: what cannot be opened is left out.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_run::{Control, ControlMean, Cores, PathId, Placement, Waiting, Workload};
use tollgate_stats as stats;
use tollgate_workload::{Session, Spec, find};

use crate::context::Context;
use crate::error::Error;

/// The least time from one look at the control benchmarks to the next: a look takes some 0.1 ms. A machine may change its speed several
/// times a second; looks 100 ms apart left 3.6 % of a path's differences between runs unexplained, where its neighbours left 1.6 %.
const EVERY: Duration = Duration::from_millis(20);
/// Round trips of a look, of whose times the median is kept.
const ROUND_TRIPS: u64 = 128;
/// Bytes of a message.
const SIZE: usize = 4;
/// The part of the looks that lies below `low`, and of those above `high`. A row is a median over slices that lie all over its experiment,
/// so what lasts for less than a quarter of that hardly moves it.
const BESIDE: f64 = 0.25;
/// The fewest looks that tell of an experiment. One with fewer shows what an experiment before it has measured, and so do its controls.
const LEAST: usize = 4;

/// The control benchmarks of a run.
#[derive(Default)]
struct Controls(RefCell<Option<Looked>>);

struct Looked {
    last: Instant,
    yards: [Yard; 2],
}

struct Yard {
    cores: Cores,
    path: PathId,
    /// None where it could not be opened, or has failed.
    session: Option<Box<dyn Session>>,
    /// The median round trip of each look, in nanoseconds: those of the experiment under way, and of the last one that had enough.
    samples: Vec<f64>,
    before: Vec<f64>,
}

impl Yard {
    fn open(cores: Cores) -> Self {
        let (path, placement) = match cores {
            Cores::One => (PathId::PeerSmoltcp, Placement::OneCore),
            Cores::Two => (PathId::BareShm, Placement::TwoCores),
        };
        let spec = Spec::new(Workload::Rr, SIZE).with_mode(placement, Waiting::BusyPoll);
        Self {
            cores,
            path,
            session: find(path).and_then(|path| path.open(&spec).ok()),
            samples: Vec::new(),
            before: Vec::new(),
        }
    }

    fn sample(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        let mut samples = session.new_samples();
        match session.run(ROUND_TRIPS, &mut samples) {
            Ok(()) => self
                .samples
                .extend(samples.quantile_ns(0.5).map(|ns| ns as f64)),
            Err(_) => self.session = None,
        }
    }

    /// Ends an experiment.
    fn take(&mut self, experiment: &str) -> Option<Control> {
        let mut samples = std::mem::take(&mut self.samples);
        if samples.len() < LEAST && self.before.len() > samples.len() {
            samples.clone_from(&self.before);
        }
        self.before.clone_from(&samples);
        let mean = mean(&samples);
        samples.sort_by(f64::total_cmp);
        let beside = (BESIDE * samples.len() as f64) as usize;
        Some(Control {
            experiment: experiment.to_owned(),
            cores: self.cores,
            path: self.path.to_string(),
            median_ns: stats::middle(&samples)?,
            low_ns: *samples.get(beside)?,
            high_ns: *samples.get(samples.len().checked_sub(1 + beside)?)?,
            mean,
            n: samples.len() as u64,
        })
    }
}

/// The geometric mean of samples in the order of time; none of fewer than two, or of times of zero. A machine stays at a speed for longer
/// than a look, so samples say how far their mean may be off by the differences of neighbours (von Neumann, "Distribution of the ratio
/// of the mean square successive difference to the variance" (1941)), not by how far they lie from it.
fn mean(samples: &[f64]) -> Option<ControlMean> {
    let logs: Vec<f64> = samples.iter().map(|ns| ns.ln()).collect();
    let n = logs.len() as f64;
    let neighbours = logs.windows(2).map(|two| (two[1] - two[0]).powi(2));
    let variance = neighbours.sum::<f64>() / 2.0 / (n - 1.0);
    let mean = ControlMean {
        ns: (logs.iter().sum::<f64>() / n).exp(),
        error: (variance / n).sqrt(),
    };
    (mean.ns > 0.0 && mean.error.is_finite()).then_some(mean)
}

/// The pause between two slices of an experiment: says what runs and how long it still needs, and looks at the control benchmarks.
pub(crate) fn between_slices(context: &Context<'_>, what: &str, left: Duration) {
    context.tell(what, left);
    sample(context);
}

/// Looks at the control benchmarks of the run.
pub(crate) fn sample(context: &Context<'_>) {
    if let Ok(controls) = of(context) {
        controls.sample();
    }
}

/// Takes the samples of the run's control benchmarks since the experiment before this one ended.
pub(crate) fn take(context: &Context<'_>, experiment: &str) -> Vec<Control> {
    of(context).map_or_else(|_| Vec::new(), |controls| controls.take(experiment))
}

fn of(context: &Context<'_>) -> Result<Rc<Controls>, Error> {
    context.once(|_| true, || Ok(Controls::default()))
}

impl Controls {
    /// Looks at both, unless the last look was a moment ago.
    fn sample(&self) {
        let mut looked = self.0.borrow_mut();
        if looked
            .as_ref()
            .is_some_and(|one| one.last.elapsed() < EVERY)
        {
            return;
        }
        let looked = looked.get_or_insert_with(|| Looked {
            last: Instant::now(),
            yards: [Cores::One, Cores::Two].map(Yard::open),
        });
        looked.yards.iter_mut().for_each(Yard::sample);
        looked.last = Instant::now();
    }

    /// Takes their samples since the experiment before this one ended; none of one that could not be opened.
    fn take(&self, experiment: &str) -> Vec<Control> {
        let mut looked = self.0.borrow_mut();
        let yards = looked.iter_mut().flat_map(|one| &mut one.yards);
        yards.filter_map(|yard| yard.take(experiment)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yard(samples: &[f64]) -> Yard {
        Yard {
            cores: Cores::Two,
            path: PathId::BareShm,
            session: None,
            samples: samples.to_vec(),
            before: Vec::new(),
        }
    }

    #[test]
    fn a_quarter_of_the_looks_lies_beside() {
        let samples: Vec<f64> = (0..20).map(|at| f64::from((at * 7) % 20)).collect();
        let taken = yard(&samples).take("rr").unwrap();
        assert_eq!(
            (taken.low_ns, taken.median_ns, taken.high_ns, taken.n),
            (5.0, 9.5, 14.0, 20)
        );
        assert_eq!(yard(&[]).take("rr"), None);
    }

    #[test]
    fn mean_is_of_the_time_at_each_speed_and_its_error_of_the_changes() {
        // Three quarters of the time at one speed, then a quarter at twice the time.
        let samples: Vec<f64> = (0..20).map(|at| if at < 15 { 1.0 } else { 2.0 }).collect();
        let mean = mean(&samples).unwrap();
        assert!((mean.ns - 2.0_f64.powf(0.25)).abs() < 1e-9);
        let of_one_change = 2.0_f64.ln() / (2.0 * 19.0 * 20.0_f64).sqrt();
        assert!((mean.error - of_one_change).abs() < 1e-9);
        assert_eq!(super::mean(&[1.0]), None);
        assert_eq!(super::mean(&[0.0, 1.0]), None);
    }

    #[test]
    fn an_experiment_that_measured_nothing_has_the_controls_of_the_one_before() {
        let mut yard = yard(&[1.0, 2.0, 3.0, 4.0]);
        yard.take("measures");
        yard.samples.push(100.0);
        let taken = yard.take("shows").unwrap();
        assert_eq!(
            (taken.experiment.as_str(), taken.high_ns, taken.n),
            ("shows", 3.0, 4)
        );
        yard.samples.extend([100.0; 4]);
        assert_eq!(yard.take("measures, too").unwrap().low_ns, 100.0);
    }

    #[test]
    fn what_cannot_be_opened_is_left_out_and_looks_lie_apart() {
        let controls = Controls::default();
        assert_eq!(controls.take("nothing"), []);
        controls.sample();
        controls.sample();
        // The test program starts no second process, so bare-shm cannot be opened.
        let taken = controls.take("rr");
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].cores, taken[0].n), (Cores::One, 1));
        assert!(taken[0].median_ns > 0.0);
    }
}

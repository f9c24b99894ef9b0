//! Runs several experiments one after the other within one time budget.

use tollgate_run as run;

use crate::context::Context;
use crate::control;
use crate::error::Error;
use crate::experiments::Experiment;

/// Results of the experiments.
#[derive(Debug, Default)]
pub struct Conducted {
    /// The results, in the order of the experiments.
    pub shown: Vec<run::Experiment>,
    /// The experiments that had nothing to show, by name.
    pub failed: Vec<(&'static str, Error)>,
    /// The experiments that the time did not reach to, by name.
    pub left_out: Vec<&'static str>,
    /// The experiments that the user's stop left out or cut short, by name.
    pub stopped: Vec<&'static str>,
    /// The control benchmarks meanwhile.
    pub controls: Vec<run::Control>,
}

/// The experiments that the first screen is made of: what a round trip takes, and where it goes.
const FIRST: [&str; 3] = ["rr-by-size", "wolman-transmit", "wolman-receive"];

/// The experiments in the order in which they run, each with its place: those of the first screen first, so that a busy machine leaves out
/// others; those whose time is fixed last.
fn in_turn(experiments: &[&'static dyn Experiment]) -> Vec<(usize, &'static dyn Experiment)> {
    let mut order: Vec<_> = experiments.iter().copied().enumerate().collect();
    order.sort_by_key(|(_, one)| (one.weight() == 0, !FIRST.contains(&one.name())));
    order
}

/// Runs the experiments in their turn and shows them in the order given. One that fails does not keep the others from running; a raised
/// cancel flag does.
pub fn conduct(experiments: &[&'static dyn Experiment], context: &mut Context<'_>) -> Conducted {
    let mut conducted = Conducted::default();
    let order = in_turn(experiments);
    let is_fixed = |experiment: &dyn Experiment| experiment.weight() == 0;
    if order.iter().any(|(_, one)| is_fixed(*one)) {
        context.keep_back();
    }
    let mut shown: Vec<(usize, run::Experiment)> = Vec::new();
    for (turn, &(place, experiment)) in order.iter().enumerate() {
        let name = experiment.name();
        if context.cancel.is_raised() {
            conducted.stopped.push(name);
            continue;
        }
        // The first one is measured in any case: a run of nothing helps nobody.
        if turn > 0 && context.is_spent() && !context.needs_all {
            conducted.left_out.push(name);
            continue;
        }
        let weights = order[turn..].iter().map(|(_, one)| one.weight()).sum();
        if is_fixed(experiment) {
            context.begin_kept(experiment.title());
        } else {
            context.begin(experiment.title(), experiment.weight(), weights);
        }
        control::sample(context);
        let outcome = experiment.run(context);
        control::sample(context);
        conducted.controls.extend(control::take(context, name));
        if context.cancel.is_raised() {
            conducted.stopped.push(name);
        }
        match outcome {
            Ok(part) => shown.push((place, part)),
            Err(Error::Stopped) => {}
            Err(error) => conducted.failed.push((name, error)),
        }
    }
    shown.sort_by_key(|(place, _)| *place);
    conducted.shown = shown.into_iter().map(|(_, part)| part).collect();
    conducted
}

#[cfg(test)]
mod tests {
    use tollgate_run::PathId;

    use super::*;
    use crate::context::{Cancel, Options, Silent};
    use crate::experiments::all;

    fn options() -> Options {
        Options {
            paths: Some(vec![PathId::BareShm]),
            sizes: Some(vec![4]),
            iterations: Some(8),
            repetitions: Some(1),
            ..Options::default()
        }
    }

    #[test]
    fn a_failure_does_not_keep_the_others_from_running() {
        // The test program starts no second process, so bare-shm cannot be opened, and it runs no crr at all.
        let mut context = Context::new(options(), None, Cancel::default(), &Silent);
        let names: Vec<&str> = ["rr-by-size", "crr"].into();
        let two: Vec<&'static dyn Experiment> = all()
            .iter()
            .copied()
            .filter(|experiment| names.contains(&experiment.name()))
            .collect();
        let conducted = conduct(&two, &mut context);
        let failed: Vec<&str> = conducted.failed.iter().map(|(name, _)| *name).collect();
        assert_eq!(failed, names);
        assert!(conducted.failed[0].1.to_string().contains("maybe_run"));
    }

    #[test]
    fn experiments_that_find_no_time_are_left_out() {
        let options = Options {
            paths: Some(vec![PathId::PeerSmoltcp]),
            ..options()
        };
        let none = Some(std::time::Duration::ZERO);
        let mut context = Context::new(options, none, Cancel::default(), &Silent);
        let names = ["rr-by-size", "crr", "stream-by-write-size"];
        let wanted = |one: &&dyn Experiment| names.contains(&one.name());
        let three: Vec<&'static dyn Experiment> = all().iter().copied().filter(wanted).collect();
        let conducted = conduct(&three, &mut context);
        assert_eq!(conducted.shown.len(), 1);
        assert_eq!(conducted.left_out, names[1..]);
        context.needs_all = true;
        assert_eq!(conduct(&three, &mut context).shown.len(), 3);
    }

    #[test]
    fn experiments_of_the_first_screen_run_first_and_fixed_ones_last() {
        let wanted: Vec<&'static dyn Experiment> = all().to_vec();
        let names: Vec<&str> = in_turn(&wanted).iter().map(|(_, one)| one.name()).collect();
        assert_eq!(names[..3], FIRST);
        let fixed = |name: &&str| {
            let one = wanted.iter().find(|one| one.name() == *name);
            one.is_some_and(|one| one.weight() == 0)
        };
        let begin = names.iter().position(fixed).unwrap();
        assert!(names[begin..].iter().all(fixed), "{names:?}");
    }

    #[test]
    fn a_stop_leaves_the_rest_out() {
        let cancel = Cancel::default();
        cancel.raise();
        let mut context = Context::new(options(), None, cancel, &Silent);
        let conducted = conduct(all(), &mut context);
        assert!(conducted.shown.is_empty() && conducted.failed.is_empty());
        assert_eq!(conducted.stopped.len(), all().len());
    }
}

//! Trust in sampled processor time.

use tollgate_run::{TrustKind, TrustLine, Unit, format, present::note, present::warning};
use tollgate_sampling::{Breakdown, Categories, Classifier, SampleCount};
use tollgate_stats::Estimate;

use super::{Mean, Round, Survey};

/// The share of the samples that rules must cover.
const COVERED: f64 = 0.95;
/// The most that sampling may add to an operation.
const PERTURBED: f64 = 0.05;
/// Largest relative difference between the samples and the process's clock.
const MAX_DIFFERENCE: f64 = 0.05;
/// Largest excess over chance of the shares' variation from round to round where the subject is steady: beyond it, samples kept
/// step with it. The sampler's two timers give 1.2, since a sample in the interrupt of another one sees the same place.
const SCATTERED: f64 = 2.0;
/// Largest variation of a steady subject's processor time from round to round, without the sampler (standard deviation over the
/// mean). Blocking ends on one core have shown 0.01 to 0.05, streams between two 0.08 to 0.34.
const STEADY: f64 = 0.05;
/// The fewest samples of a category in a round, on average, for its chi-square to mean something (Cochran 1954).
const FEWEST: u64 = 5;
/// Functions of `Other` that are named.
const NAMED: usize = 5;

impl Survey {
    /// The lines of trust: sampling, losses, its cost and omissions, by the files' common rules on that.
    pub(crate) fn trust(&self, categories: &Categories) -> Vec<TrustLine> {
        let all = self.all();
        let breakdown = self.breakdown(categories);
        let rounds = self.observed.iter().map(|one| one.rounds.len() as u64);
        let rounds = format::range(rounds.filter(|&rounds| rounds > 0)).unwrap_or_default();
        let mut lines = vec![note(format!(
            "{} of the kernel by {}, {} a second on each processor; all take turns in each round, of which there were {rounds}; a \
             value is the mean over the rounds, its interval that of the mean",
            format::counted(all.samples(), "sample", "samples"),
            self.clock,
            format::whole(u64::from(self.rate)),
        ))];
        lines.push(TrustLine {
            kind: TrustKind::EventsLost,
            value: Some(all.lost as f64),
            unit: Unit::Count,
            holds: all.lost * 1_000 <= all.samples() && all.throttled == 0 && all.malformed == 0,
            text: match (all.lost, all.throttled) {
                (0, 0) => "no sample was lost, and the kernel did not throttle".to_owned(),
                (lost, throttled) => format!(
                    "{} lost, and the kernel throttled {}",
                    format::counted(lost, "sample was", "samples were"),
                    format::counted(throttled, "time", "times")
                ),
            },
        });
        lines.extend(self.drift.trust_text("without the sampler").map(note));
        lines.extend(self.scatter(categories).map(|scatter| scatter.trust_line()));
        lines.extend(self.cost());
        lines.push(left_out(&breakdown));
        lines.extend(self.agreement().map(|agreement| TrustLine {
            kind: TrustKind::Closure,
            value: Some(100.0 * (agreement - 1.0)),
            unit: Unit::Percent,
            holds: (agreement - 1.0).abs() <= MAX_DIFFERENCE,
            text: format!(
                "the samples of this process, user mode included, make {:.1} % of what its processor clock counted, which also \
                 counts what a hypervisor took away",
                100.0 * agreement
            ),
        }));
        let mut failures: Vec<&str> = Vec::new();
        for (subject, one) in self.subjects.iter().zip(&self.observed) {
            if let Some(reason) = &one.failure
                && !failures.contains(&reason.as_str())
            {
                failures.push(reason);
                lines.push(warning(format!("{} failed: {reason}", subject.label)));
            }
        }
        if self.stopped {
            lines.push(warning(
                "the run was stopped; what is shown was measured until then",
            ));
        }
        lines
    }

    /// The variation of the categories' shares from round to round. `None` when there are too few samples or rounds.
    fn scatter(&self, categories: &Categories) -> Option<Scatter> {
        let mut classifier = Classifier::new(categories.clone());
        let mut scatter = Scatter::default();
        for (subject, observed) in self.observed.iter().enumerate() {
            let splits = self.splits(subject, &mut classifier);
            let mut excess = Vec::new();
            for category in 0..categories.categories.len() {
                let counts: Vec<(u64, u64)> = splits
                    .iter()
                    .filter_map(|split| {
                        let share = split.breakdown.shares.get(category)?;
                        Some((share.count.samples, split.breakdown.total().samples))
                    })
                    .collect();
                excess.extend(dispersion(&counts));
            }
            // The machine's speed is told by all subjects, and those that change would make a steady one look as they do.
            let costs =
                |ns: fn(&Round) -> f64| spread(&observed.rounds.iter().map(ns).collect::<Vec<_>>());
            let spreads = [costs(|round| round.plain_ns), costs(Round::normalised_ns)];
            if let Some(least) = spreads.into_iter().flatten().reduce(f64::min)
                && !excess.is_empty()
            {
                scatter.note(&excess, least);
            }
        }
        scatter.all().is_some().then_some(scatter)
    }

    /// The share of the samples that the rules cover, and the remainder.
    pub(crate) fn covered(&self, categories: &Categories) -> TrustLine {
        coverage(&self.breakdown(categories), categories)
    }

    fn cost(&self) -> Option<TrustLine> {
        Some(disturbed(self.perturbation()?))
    }
}

/// Cost of the sampler in an operation: the quotient of its cost with the sampler and without. It holds when the whole interval
/// lies within the bar.
fn disturbed(cost: Estimate) -> TrustLine {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let bar = 100.0 * PERTURBED;
    let (low, high) = (percent(cost.interval.low), percent(cost.interval.high));
    let verdict = if high <= bar {
        format!("at most {bar:.0} %")
    } else if low > bar {
        format!("more than {bar:.0} %")
    } else {
        format!("whether that is at most {bar:.0} % cannot be told")
    };
    TrustLine {
        kind: TrustKind::Perturbation,
        value: Some(percent(cost.value)),
        unit: Unit::Percent,
        holds: high <= bar,
        text: format!(
            "with the sampler an operation takes {:+.1} % processor time ({low:+.1} to {high:+.1} %; {verdict}); how much there is to \
             share out was therefore counted in neighbouring slices without it, and only the shares are from samples (a lower \
             --rate disturbs them less)",
            percent(cost.value),
        ),
    }
}

/// The variance of a category's share over the rounds, relative to that of samples at random: Pearson's chi-square over its degrees
/// of freedom. A round is the category's samples and all.
fn dispersion(rounds: &[(u64, u64)]) -> Option<f64> {
    let rounds: Vec<_> = rounds.iter().filter(|(_, all)| *all > 0).collect();
    let (part, whole) = rounds
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let count = rounds.len() as u64;
    if count < 2 || part < FEWEST * count || whole - part < FEWEST * count {
        return None;
    }
    let share = part as f64 / whole as f64;
    let squares = rounds.iter().map(|&&(part, all)| {
        let all = all as f64;
        (part as f64 - share * all).powi(2) / (all * share * (1.0 - share))
    });
    Some(squares.sum::<f64>() / (count - 1) as f64)
}

/// The standard deviation as a part of the mean.
fn spread(values: &[f64]) -> Option<f64> {
    let mean = Mean::of(values)?;
    // The standard error is the deviation over the root of the number.
    Some(mean.relative_error()? * (mean.rounds as f64).sqrt())
}

/// Variances of shares from round to round over those of random samples, by subject.
#[derive(Debug, Default)]
struct Scatter {
    /// Of subjects that are steady.
    steady: Vec<f64>,
    /// Of those that are not.
    changing: Vec<f64>,
    /// The count of steady subjects.
    steady_subjects: usize,
    /// The variation of the others' processor time, without the sampler.
    spreads: Vec<f64>,
}

impl Scatter {
    /// A subject's relative variances, and the spread of its processor time without the sampler.
    fn note(&mut self, excess: &[f64], spread: f64) {
        if spread <= STEADY {
            self.steady.extend(excess);
            self.steady_subjects += 1;
        } else {
            self.changing.extend(excess);
            self.spreads.push(spread);
        }
    }

    /// The ratio of standard deviations: 1 is no more than chance.
    fn ratio(excess: impl Iterator<Item = f64> + Clone) -> Option<f64> {
        let count = excess.clone().count();
        (count > 0).then(|| (excess.sum::<f64>() / count as f64).sqrt())
    }

    fn all(&self) -> Option<f64> {
        Self::ratio(self.steady.iter().chain(&self.changing).copied())
    }

    fn trust_line(&self) -> TrustLine {
        let all = self.all();
        let steady = Self::ratio(self.steady.iter().copied());
        let mut text = format!(
            "shares differ from round to round {:.1} times as much as those of samples at random would",
            all.unwrap_or(1.0)
        );
        let percent = |spread: &f64| (100.0 * spread).round() as u64;
        let spreads = format::range(self.spreads.iter().map(percent));
        let scattered = [all, steady]
            .into_iter()
            .flatten()
            .any(|ratio| ratio > SCATTERED);
        match spreads.filter(|_| scattered) {
            None => text.push_str(
                "; samples that keep step with what they watch, or interrupts that disturb it, make them differ more (a lower \
                 --rate does less of both)",
            ),
            Some(spreads) => {
                let changing = self.spreads.len();
                let subjects = (changing + self.steady_subjects) as u64;
                text.push_str(&format!(
                    ", since what is sampled changes: without the sampler, too, an operation's processor time differs by {spreads} % \
                     (standard deviation) in {changing} of {} (ends of a stream on two processors sleep more or less often); intervals \
                     are those of rounds and hold it",
                    format::counted(subjects, "workload", "workloads")
                ));
                if let Some(steady) = steady {
                    text.push_str(&format!(
                        "; where it differs by {:.0} % at most, shares differ {steady:.1} times as much as by chance",
                        100.0 * STEADY
                    ));
                }
            }
        }
        TrustLine {
            kind: TrustKind::Note,
            value: all,
            unit: Unit::None,
            holds: steady.is_none_or(|steady| steady <= SCATTERED),
            text,
        }
    }
}

fn percent(part: SampleCount, whole: u64) -> f64 {
    100.0 * part.weight as f64 / whole.max(1) as f64
}

fn coverage(breakdown: &Breakdown, categories: &Categories) -> TrustLine {
    let covered = breakdown.covered().unwrap_or(0.0);
    let total = breakdown.total().weight;
    let largest: Vec<String> = breakdown
        .other_functions
        .iter()
        .take(NAMED)
        .map(|(name, count)| format!("{name} ({:.2} %)", percent(*count, total)))
        .collect();
    let rest = if largest.is_empty() {
        String::new()
    } else {
        format!(
            "; the rest is {}, mostly {}",
            categories.other,
            format::list(&largest)
        )
    };
    TrustLine {
        kind: TrustKind::Note,
        value: Some(100.0 * covered),
        unit: Unit::Percent,
        holds: covered >= COVERED,
        text: format!(
            "the rules of {} cover {:.1} % of the samples, {:.1} % through a caller{rest}",
            categories.file,
            100.0 * covered,
            percent(breakdown.by_caller, total)
        ),
    }
}

fn left_out(breakdown: &Breakdown) -> TrustLine {
    let total = breakdown.total().weight;
    let apart = [
        (breakdown.idle, "idle"),
        (breakdown.foreign, "other processes"),
        (breakdown.user, "this process outside of the kernel"),
        (
            breakdown.excluded,
            "the measuring program's own system calls and others' tracing programs",
        ),
    ];
    let whole = total + apart.iter().map(|(count, _)| count.weight).sum::<u64>();
    let told: Vec<String> = apart
        .iter()
        .map(|&(count, what)| format!("{what} {:.1} %", percent(count, whole)))
        .collect();
    note(format!(
        "processor time in the kernel only; left out, of all samples on these processors: {}; counted, though another process or \
         none ran: {:.1} %",
        format::list(&told),
        percent(breakdown.elsewhere, whole)
    ))
}

#[cfg(test)]
mod tests {
    use tollgate_stats::Interval;

    use super::*;

    #[test]
    fn verdicts_hold_when_all_of_the_interval_does() {
        for (low, high, holds, words) in [
            (1.01, 1.04, true, "at most 5 %)"),
            (1.02, 1.09, false, "cannot be told"),
            (1.06, 1.09, false, "more than 5 %"),
        ] {
            let told = disturbed(Estimate {
                value: f64::midpoint(low, high),
                interval: Interval { low, high },
                n: 9,
            });
            assert_eq!(told.holds, holds, "{}", told.text);
            assert!(told.text.contains(words), "{}", told.text);
        }
    }

    #[test]
    fn samples_at_random_scatter_as_much_as_chance_has_it() {
        // Of 100 samples at a half, the standard deviation is 5.
        let counts = |away: u64| [(50 - away, 100), (50 + away, 100)];
        assert_eq!(dispersion(&counts(0)), Some(0.0));
        assert!((dispersion(&counts(5)).unwrap() - 2.0).abs() < 1e-9);
        let around = [(45, 100), (50, 100), (55, 100)];
        assert!((dispersion(&around).unwrap() - 1.0).abs() < 1e-9);
        // A round without samples tells nothing.
        assert_eq!(
            dispersion(&[(45, 100), (0, 0), (55, 100)]),
            dispersion(&counts(5))
        );
    }

    #[test]
    fn few_samples_tell_no_scatter() {
        assert_eq!(dispersion(&[]), None);
        assert_eq!(dispersion(&[(50, 100)]), None);
        assert_eq!(dispersion(&[(1, 100), (2, 100)]), None);
        assert_eq!(dispersion(&[(99, 100), (99, 100)]), None);
    }

    #[test]
    fn a_spread_is_the_deviation_as_a_part_of_the_mean() {
        assert!((spread(&[9.0, 10.0, 11.0]).unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(spread(&[5.0]), None);
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn shares_that_jump_are_flagged_unless_what_is_sampled_does() {
        let jumping = dispersion(&[(250, 1_000), (580, 1_000), (480, 1_000)]).unwrap();
        let told = |subjects: &[(f64, f64)]| {
            let mut scatter = Scatter::default();
            for &(excess, spread) in subjects {
                scatter.note(&[excess], spread);
            }
            scatter.trust_line()
        };
        assert!(!told(&[(jumping, 0.01)]).holds);
        assert!(told(&[(1.44, 0.01)]).holds);
        // The one that jumps is known to change; the other one is not, and tells of the sampler.
        let mixed = told(&[(jumping, 0.3), (1.0, 0.02)]);
        assert!(mixed.holds);
        assert!(!told(&[(jumping, 0.3), (jumping, 0.02)]).holds);
        insta::assert_snapshot!(mixed.text, @"shares differ from round to round 7.7 times as much as those of samples at random would, since what is sampled changes: without the sampler, too, an operation's processor time differs by 30 % (standard deviation) in 1 of 2 workloads (ends of a stream on two processors sleep more or less often); intervals are those of rounds and hold it; where it differs by 5 % at most, shares differ 1.0 times as much as by chance");
        insta::assert_snapshot!(told(&[(1.44, 0.3)]).text, @"shares differ from round to round 1.2 times as much as those of samples at random would; samples that keep step with what they watch, or interrupts that disturb it, make them differ more (a lower --rate does less of both)");
    }
}

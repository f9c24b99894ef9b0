//! What is said of how far sampled processor time can be trusted.

use tollgate_kernel::sampling::{Breakdown, Categories, Count};

use super::Survey;
use crate::run::{TrustKind, TrustLine, Unit};
use crate::shapes::{note, warning};
use crate::words;

/// The share of the samples that rules must cover.
const COVERED: f64 = 0.95;
/// The most that sampling may add to an operation.
const PERTURBED: f64 = 0.05;
/// How far samples and the process's clock may be apart.
const APART: f64 = 0.05;
/// Functions of `Other` that are named.
const NAMED: usize = 5;

impl Survey {
    /// How it was sampled, what was lost, what sampling cost, what was left out, by the files' common rules on that.
    pub(crate) fn trust(&self, categories: &Categories) -> Vec<TrustLine> {
        let all = self.all();
        let breakdown = self.breakdown(categories);
        let rounds = self.observed.iter().map(|one| one.rounds.len() as u64);
        let rounds = words::range(rounds.filter(|&rounds| rounds > 0)).unwrap_or_default();
        let mut lines = vec![note(format!(
            "{} of the kernel by {}, {} a second on each processor; all take turns in each round, of which there were {rounds}; a \
             value is the mean over the rounds, its interval that of the mean",
            words::counted(all.samples(), "sample", "samples"),
            self.clock,
            words::whole(u64::from(self.rate)),
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
                    words::counted(lost, "sample was", "samples were"),
                    words::counted(throttled, "time", "times")
                ),
            },
        });
        lines.extend(self.drift.told("without the sampler").map(note));
        lines.extend(self.cost());
        lines.push(left_out(&breakdown));
        lines.extend(self.agreement().map(|agreement| TrustLine {
            kind: TrustKind::Closure,
            value: Some(100.0 * (agreement - 1.0)),
            unit: Unit::Percent,
            holds: (agreement - 1.0).abs() <= APART,
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

    /// How much of the samples the rules cover, and what they leave.
    pub(crate) fn covered(&self, categories: &Categories) -> TrustLine {
        coverage(&self.breakdown(categories), categories)
    }

    fn cost(&self) -> Option<TrustLine> {
        let cost = self.perturbation()?;
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        Some(TrustLine {
            kind: TrustKind::Perturbation,
            value: Some(percent(cost.value)),
            unit: Unit::Percent,
            // Nothing is shown against it when the interval reaches below the bar.
            holds: cost.interval.low - 1.0 <= PERTURBED,
            text: format!(
                "with the sampler an operation takes {:+.1} % processor time ({:+.1} to {:+.1} %); how much there is to share out was \
                 therefore counted in neighbouring slices without it, and only the shares are from samples (a lower --rate \
                 disturbs them less)",
                percent(cost.value),
                percent(cost.interval.low),
                percent(cost.interval.high)
            ),
        })
    }
}

fn percent(part: Count, whole: u64) -> f64 {
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
            words::list(&largest)
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
        words::list(&told),
        percent(breakdown.elsewhere, whole)
    ))
}

//! Trust of `ablation`: its rounds, its intervals, the default against itself, and the code that was counted.
//!
//! It must never judge an effect.

use tollgate_budget::mechanisms;
use tollgate_run::{TrustLine, Unit, Workload, format, present};
use tollgate_stats::Estimate;

use super::{DEFAULTS, Effects, is_counted, is_to_kernel};
use crate::layout;
use crate::paired::PLAIN;

/// Half the width of an interval on time, relative to its value, that is warned of when it is passed.
const WIDE: f64 = 0.05;

impl Effects {
    /// Remarks on the times, and on the code that was counted.
    pub(super) fn trust(&self) -> Vec<TrustLine> {
        let mut lines = Vec::new();
        match &self.counted {
            Ok(counts) => {
                let here = mechanisms::kernel();
                let kernel = if counts.kernel == here {
                    format!("by the checksum kernel {here}")
                } else {
                    format!(
                        "by the checksum kernel {}, since valgrind has no AVX-512; times are of {here}",
                        counts.kernel
                    )
                };
                lines.push(present::note(format!(
                    "instructions are counted by Callgrind, both ends of stack-memory with their applications, in virtual time: exact, the same \
                     in every run, {kernel}; the mean of {} {} after a warm-up",
                    format::whole(counts.operations),
                    self.operation().names
                )));
            }
            Err(reason) if self.paired.outcome.matrix.variants.iter().any(is_counted) => {
                lines.push(present::warning(format!(
                    "instructions were not counted: {reason}"
                )));
            }
            Err(_) => {}
        }
        let variants = &self.paired.outcome.matrix.variants;
        if variants.iter().any(|variant| is_to_kernel(variant.path)) {
            lines.push(present::note(
                "mechanisms of our end alone are switched over a real link, whose other end is the kernel's; without checksum=off, since the \
                 kernel drops such segments"
                    .to_owned(),
            ));
        }
        lines.extend(self.rounds());
        lines.extend(self.control());
        lines.extend(self.chance());
        lines.extend(self.wide());
        if self.paired.outcome.matrix.workload == Workload::Stream {
            lines.push(present::note(
                "the time and the instructions of a write are those of both ends, with its reading, the acknowledgments and its part of what \
                 is left at the end",
            ));
        }
        let names = self.operation().names;
        lines.extend(layout::remarks(&self.paired.outcome, names));
        lines
    }

    /// Says what a round is, and how many there were.
    fn rounds(&self) -> Option<TrustLine> {
        let [least, most] = self.paired.rounds()?;
        Some(present::note(format!(
            "{} to {} rounds for each change in time, more where quotients scatter more, as a trial showed that counts for nothing else; in a \
             round setting and default are opened anew, run in turns within milliseconds, and give one quotient; a change is the median \
             of the quotients, its interval that of the order statistics",
            format::whole(least as u64),
            format::whole(most as u64)
        )))
    }

    /// Compares the default with itself: no difference, where the run can be trusted.
    fn control(&self) -> Option<TrustLine> {
        let pairs = self.defaults().flat_map(|default| {
            let sizes = 0..self.paired.outcome.sizes.len();
            sizes.filter_map(move |at| Some((at, self.paired.ratio(default + 1, at).ok()?)))
        });
        let (at, most) = pairs.max_by(|a, b| distance(&a.1).total_cmp(&distance(&b.1)))?;
        let percent = |ratio: f64| layout::percent(ratio - 1.0);
        let text = format!(
            "the default, measured twice, differs from itself most at {}: {} (95 %: {} to {})",
            format::bytes(self.paired.outcome.sizes[at]),
            percent(most.value),
            percent(most.interval.low),
            percent(most.interval.high)
        );
        Some(present::note(text))
    }

    /// The intervals on time: half the width of each relative to its value, with the setting and the size.
    fn widths(&self) -> Vec<Width> {
        let mut widths = Vec::new();
        for default in self.defaults() {
            for (place, setting) in self.settings.iter().enumerate() {
                let variant = default + DEFAULTS + place;
                for (at, &size) in self.paired.outcome.sizes.iter().enumerate() {
                    if let Ok(ratio) = self.paired.ratio(variant, at) {
                        let half = (ratio.interval.high - ratio.interval.low) / 2.0;
                        widths.push(Width {
                            relative: half / ratio.value,
                            ratio: ratio.value,
                            of: self.label(variant, setting.label()),
                            size,
                        });
                    }
                }
            }
        }
        widths
    }

    /// Tells the number of intervals, the widest, and the number that miss by chance.
    fn chance(&self) -> Option<TrustLine> {
        let widths: Vec<f64> = self.widths().iter().map(|one| one.relative).collect();
        let widest = widths.iter().copied().reduce(f64::max)?;
        let middle = tollgate_stats::median_of(&widths)?;
        Some(present::note(format!(
            "{} of 95 % on time, half a width of {} in the middle and {} at most; of as many, about {} would show a difference where there is none",
            format::counted(widths.len() as u64, "interval", "intervals"),
            layout::percent(middle),
            layout::percent(widest),
            format::whole((0.05 * widths.len() as f64).round() as u64)
        )))
    }

    /// Warns of intervals on time that are wider than [`WIDE`]: how many they are, and which is the widest. Those of changes beyond
    /// [`PLAIN`] are meant to be: they have the fewest rounds.
    fn wide(&self) -> Option<TrustLine> {
        let widths = self.widths();
        let all = widths.len();
        let wide: Vec<Width> = widths
            .into_iter()
            .filter(|one| one.relative > WIDE && one.ratio <= PLAIN)
            .collect();
        let count = wide.len();
        let widest = wide
            .into_iter()
            .max_by(|a, b| a.relative.total_cmp(&b.relative))?;
        Some(TrustLine {
            value: Some(count as f64),
            unit: Unit::Count,
            ..present::warning(format!(
                "{} of {} on time wider than +-{}, the widest with {} at {}: +-{}; more time (--for) or an idle machine narrows them",
                format::whole(count as u64),
                format::counted(all as u64, "interval is", "intervals are"),
                layout::percent(WIDE),
                widest.of,
                format::bytes(widest.size),
                layout::percent(widest.relative)
            ))
        })
    }
}

/// Half the width of an interval.
struct Width {
    /// Relative to the value.
    relative: f64,
    /// The value.
    ratio: f64,
    /// The setting.
    of: String,
    /// Bytes of the message.
    size: usize,
}

/// Distance of a quotient from 1.
fn distance(ratio: &Estimate) -> f64 {
    (ratio.value - 1.0).abs()
}

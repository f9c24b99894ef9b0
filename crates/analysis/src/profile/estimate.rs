//! Costs by size, weighted with the sizes of traffic: sums, shares, and how well they are known.
//!
//! A cost between two measured sizes lies on the line between them, below the smallest it is that of the smallest, beyond the
//! largest it goes on as between the last two. So each sum over messages is a sum over the measured sizes, each with a weight
//! ([`weights`]), and an error of a measured cost goes through with that weight.
//!
//! Two things are uncertain. The run: at each size the whole is known within its standard error, and so is each part; parts of
//! a number of samples make each other less, as those of a multinomial distribution do. The trace: it is one of many that could
//! have been captured; its stretches of time, or its messages where their order is made up, are taken as drawn from them. Both are
//! carried to first order (Cochran, "Sampling Techniques" (1977), chapters 6 and 9: ratios, and clusters of unequal size, with the jackknife's
//! weights for stretches that hold much); degrees of freedom are Welch's and Satterthwaite's.

use tollgate_run::Interval;
use tollgate_stats::student_t;
use tollgate_trace::rows::Protocol;
use tollgate_trace::traffic::Traffic;

use super::costs::Costs;

/// A number, and where it lies with 95 % confidence where that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) interval: Option<Interval>,
    /// Of the variance, what comes from the trace, from 0 to 1.
    pub(super) from_trace: f64,
}

impl Estimate {
    /// Half the width of the 95 % interval; zero where none is known.
    pub(super) fn half_width(&self) -> f64 {
        self.interval
            .map_or(0.0, |interval| (interval.high - interval.low) / 2.0)
    }
}

/// Divisor of a sum.
#[derive(Debug, Clone, Copy)]
pub(super) enum Per<'a> {
    /// The number of messages.
    Message,
    /// The sum of the parts with these factors.
    Parts(&'a [f64]),
}

/// Messages of one protocol beside what they cost.
#[derive(Debug)]
struct Line<'a> {
    protocol: Protocol,
    costs: &'a Costs,
    /// Sizes and how many messages have them, by stretch of time.
    stretches: Vec<Vec<(f64, f64)>>,
    /// The weight of each measured size.
    weights: Vec<f64>,
}

/// Messages beside what they cost: of one protocol, or of several whose costs have the same parts.
#[derive(Debug, Default)]
pub(super) struct Load<'a> {
    lines: Vec<Line<'a>>,
}

/// The measured sizes that a size lies between, the lower one's place, and the weights of both. `sizes` are two or more,
/// ascending.
pub(super) fn weights(sizes: &[f64], size: f64) -> (usize, f64, f64) {
    let at = sizes.partition_point(|one| *one <= size);
    if at == 0 {
        return (0, 1.0, 0.0);
    }
    let low = (at - 1).min(sizes.len() - 2);
    let share = (size - sizes[low]) / (sizes[low + 1] - sizes[low]);
    (low, 1.0 - share, share)
}

/// A cost at a size, from those at the measured ones.
fn at(sizes: &[f64], costs: &[f64], size: f64) -> f64 {
    let (low, here, above) = weights(sizes, size);
    here * costs[low] + above * costs[low + 1]
}

impl<'a> Line<'a> {
    /// Messages by stretch of time.
    fn new(protocol: Protocol, costs: &'a Costs, stretches: Vec<Vec<(f64, f64)>>) -> Self {
        let mut sums = vec![0.0; costs.sizes.len()];
        for (size, n) in stretches.iter().flatten() {
            let (low, here, above) = weights(&costs.sizes, *size);
            sums[low] += n * here;
            sums[low + 1] += n * above;
        }
        Self {
            protocol,
            costs,
            stretches,
            weights: sums,
        }
    }

    /// The sum of the parts with these factors, at each measured size.
    fn sums(&self, factors: &[f64]) -> Vec<f64> {
        let parts = || self.costs.parts.iter().zip(factors);
        (0..self.costs.sizes.len())
            .map(|at| parts().map(|(part, by)| part.cells[at].value * by).sum())
            .collect()
    }

    fn whole(&self, factors: &[f64]) -> f64 {
        dot(&self.weights, &self.sums(factors))
    }

    fn messages(&self) -> f64 {
        self.stretches.iter().flatten().map(|(_, n)| n).sum()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl<'a> Load<'a> {
    /// The messages of these protocols, each beside its costs; a protocol without messages takes no part.
    pub(super) fn of(traffic: &Traffic, costs: &[(Protocol, &'a Costs)]) -> Self {
        let lines = costs
            .iter()
            .filter(|(protocol, _)| traffic.messages(*protocol) > 0)
            .map(|(protocol, costs)| {
                let stretches = traffic.stretches().iter().map(|stretch| {
                    let sizes = stretch.of(*protocol).iter();
                    sizes
                        .map(|(size, n)| (f64::from(*size), *n as f64))
                        .collect()
                });
                Line::new(*protocol, costs, stretches.collect())
            });
        Self {
            lines: lines.collect(),
        }
    }

    /// Messages of one size and nothing else, as a benchmark sends them.
    pub(super) fn benchmark(protocol: Protocol, costs: &'a Costs, size: f64) -> Self {
        Self {
            lines: vec![Line::new(protocol, costs, vec![vec![(size, 1.0)]])],
        }
    }

    /// Tells whether there is nothing to weight.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The sum of the parts with these factors over all messages, divided. None where there is nothing to divide by.
    pub(super) fn ratio(&self, factors: &[f64], per: Per<'_>) -> Option<Estimate> {
        let sum: f64 = self.lines.iter().map(|line| line.whole(factors)).sum();
        let messages: f64 = self.lines.iter().map(Line::messages).sum();
        let below = match per {
            Per::Message => messages,
            Per::Parts(parts) => self.lines.iter().map(|line| line.whole(parts)).sum(),
        };
        if below <= 0.0 {
            return None;
        }
        let value = sum / below;
        // What a message adds to the sum beyond its share of the divisor: these, of all messages, sum to nothing.
        let (excess, each): (Vec<f64>, f64) = match per {
            Per::Message => (factors.to_vec(), value),
            Per::Parts(parts) => (
                factors
                    .iter()
                    .zip(parts)
                    .map(|(a, b)| a - value * b)
                    .collect(),
                0.0,
            ),
        };
        let mut variance = Variance::default();
        for line in &self.lines {
            self.add_run(line, &excess, below, &mut variance);
        }
        let sums: Vec<Vec<f64>> = self.lines.iter().map(|line| line.sums(&excess)).collect();
        let divisors: Vec<Vec<f64>> = match per {
            Per::Message => Vec::new(),
            Per::Parts(parts) => self.lines.iter().map(|line| line.sums(parts)).collect(),
        };
        let trace = self.trace(below, |line, size| {
            let sizes = &self.lines[line].costs.sizes;
            let divisor = divisors.get(line).map_or(1.0, |sums| at(sizes, sums, size));
            (at(sizes, &sums[line], size) - each, divisor)
        });
        Some(variance.estimate(value, trace, below))
    }

    /// The share of all time that is saved when each two messages of TCP of these sizes become one of twice the size. None where no time was
    /// measured.
    pub(super) fn in_pairs(&self, becomes: impl Fn(f64) -> bool) -> Option<Estimate> {
        let merged = |line: &Line<'_>, size| line.protocol == Protocol::Tcp && becomes(size);
        let wholes = |line: &Line<'_>| {
            line.costs
                .totals
                .iter()
                .map(|one| one.value)
                .collect::<Vec<f64>>()
        };
        let costs: Vec<Vec<f64>> = self.lines.iter().map(wholes).collect();
        let below: f64 = self
            .lines
            .iter()
            .zip(&costs)
            .map(|(line, costs)| dot(&line.weights, costs))
            .sum();
        if below <= 0.0 {
            return None;
        }
        // What each measured size weighs in what is saved: its share of one message, less half of its share of one twice as large.
        let saved: Vec<Vec<f64>> = self
            .lines
            .iter()
            .map(|line| {
                let sizes = &line.costs.sizes;
                let mut saved = vec![0.0; sizes.len()];
                for (size, n) in line
                    .stretches
                    .iter()
                    .flatten()
                    .filter(|(size, _)| merged(line, *size))
                {
                    for (size, n) in [(*size, *n), (2.0 * size, -n / 2.0)] {
                        let (low, here, above) = weights(sizes, size);
                        saved[low] += n * here;
                        saved[low + 1] += n * above;
                    }
                }
                saved
            })
            .collect();
        let sum: f64 = saved
            .iter()
            .zip(&costs)
            .map(|(saved, costs)| dot(saved, costs))
            .sum();
        let value = sum / below;
        let mut variance = Variance::default();
        for (line, saved) in self.lines.iter().zip(&saved) {
            for ((total, weight), saved) in line.costs.totals.iter().zip(&line.weights).zip(saved) {
                if let Some(degrees) = total.degrees {
                    let scale = (saved - value * weight) / below;
                    variance.add(scale * scale * total.variance, Some(degrees));
                }
            }
        }
        let trace = self.trace(below, |line, size| {
            let cost = |size| at(&self.lines[line].costs.sizes, &costs[line], size);
            let saved = if merged(&self.lines[line], size) {
                cost(size) - cost(2.0 * size) / 2.0
            } else {
                0.0
            };
            (saved - value * cost(size), cost(size))
        });
        Some(variance.estimate(value, trace, below))
    }

    /// Adds the variance of the run: that of the wholes and that of the parts' shares of them.
    fn add_run(&self, line: &Line<'_>, excess: &[f64], below: f64, variance: &mut Variance) {
        for (at, (total, weight)) in line.costs.totals.iter().zip(&line.weights).enumerate() {
            if total.value <= 0.0 {
                continue;
            }
            let parts = || line.costs.parts.iter().map(|part| part.cells[at]);
            let share = |value: f64| value / total.value;
            let mean: f64 = parts()
                .zip(excess)
                .map(|(part, excess)| share(part.value) * excess)
                .sum();
            let scale = weight / below;
            if let Some(degrees) = total.degrees {
                variance.add((scale * mean).powi(2) * total.variance, Some(degrees));
            }
            for (part, excess) in parts().zip(excess) {
                let Some(degrees) = part.degrees else {
                    continue;
                };
                // The part's own error holds that of the whole, which has been added.
                let p = share(part.value);
                let own = (part.variance - p * p * total.variance).max(0.0);
                // As counts, parts depend on nothing but their own mean; that they sum to the whole takes (1 - p) of it.
                let count = if p < 0.999 { own / (1.0 - p) } else { 0.0 };
                variance.add((scale * (excess - mean)).powi(2) * count, Some(degrees));
            }
        }
    }

    /// The variance, over the traces that could have been captured, of a ratio times the sum `below` that is divided by, and its degrees of
    /// freedom. A message of each line adds so much by its size to an excess, which over this trace sums to nothing, and so much to
    /// what is divided by.
    fn trace(&self, below: f64, adds: impl Fn(usize, f64) -> (f64, f64)) -> (f64, Option<u64>) {
        let stretches = self.lines.iter().map(|line| line.stretches.len()).max();
        let stretches = stretches.unwrap_or(0);
        let (mut apart, mut together) = (0.0, 0.0);
        for stretch in 0..stretches {
            let (mut sum, mut part) = (0.0, 0.0);
            for (line, messages) in self.lines.iter().enumerate() {
                for (size, n) in &messages.stretches[stretch] {
                    let (excess, divisor) = adds(line, *size);
                    sum += n * excess;
                    part += n * divisor;
                    apart += n * excess * excess;
                }
            }
            // Without this stretch the ratio would be another by so much (the jackknife).
            let without = (1.0 - part / below).max(f64::EPSILON);
            together += (sum / without).powi(2);
        }
        if stretches < 2 {
            return (apart, None);
        }
        let count = stretches as f64;
        let together = together * (count - 1.0) / count;
        // Messages that hang together spread more, never less; less is chance.
        if together > apart {
            (together, Some(stretches as u64 - 1))
        } else {
            (apart, None)
        }
    }
}

/// A variance from several sources, each with its degrees of freedom.
#[derive(Debug, Default)]
struct Variance {
    sum: f64,
    /// The squares of the sources, each over its degrees.
    squares: f64,
}

impl Variance {
    /// Adds a source; one without degrees is known exactly.
    fn add(&mut self, variance: f64, degrees: Option<u64>) {
        self.sum += variance;
        if let Some(degrees) = degrees {
            self.squares += variance * variance / degrees as f64;
        }
    }

    /// The number with its interval: to what the run adds comes what the trace does to the sum that is divided by `below`.
    fn estimate(mut self, value: f64, trace: (f64, Option<u64>), below: f64) -> Estimate {
        let (trace, degrees) = (trace.0 / (below * below), trace.1);
        self.add(trace, degrees);
        // Less than this is rounding.
        let known = self.sum.sqrt() > 1e-12 * value.abs();
        Estimate {
            value,
            interval: known.then(|| {
                let half_width = student_t(self.degrees()) * self.sum.sqrt();
                Interval {
                    low: value - half_width,
                    high: value + half_width,
                }
            }),
            from_trace: if known { trace / self.sum } else { 0.0 },
        }
    }

    /// Degrees of freedom of the sum, one at least (Welch 1947; Satterthwaite 1946).
    fn degrees(&self) -> u64 {
        const MANY: f64 = 1e6;
        if self.squares <= 0.0 {
            return MANY as u64;
        }
        (self.sum * self.sum / self.squares).clamp(1.0, MANY) as u64
    }
}

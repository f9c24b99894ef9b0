//! Costs from times by size: least squares of relative errors, and how well a size is told that was left out.
//!
//! Relative, because a time of 60 us and one of 80 ns are both to be told within some percent. A cost below zero means nothing, so
//! the fit is the best of those without one (non-negative least squares; Lawson and Hanson 1974, chapter 23), and a cost that is
//! not in it says why.

use super::model::packets;
use crate::run::Interval;
use crate::stats::student_t;

/// A cost with its 95 % interval, where there are sizes enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    pub(super) value: f64,
    pub(super) ci: Option<Interval>,
}

/// What a message costs; each cost that cannot be told says why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Costs {
    pub(super) per_message: Result<Cost, &'static str>,
    pub(super) per_packet: Result<Cost, &'static str>,
    pub(super) per_byte: Result<Cost, &'static str>,
    /// Bytes of a segment.
    mss: f64,
}

pub(super) const UNCUT: &str =
    "no message of these sizes is cut into packets here; it is part of what a message costs";
const NO_PACKET: &str = "these sizes show no cost of a packet beside those of messages and bytes";
const NO_MESSAGE: &str =
    "these sizes show no cost of a message beside those of its packets and bytes";
const NO_BYTE: &str = "these sizes show no cost of a byte beside those of messages and packets";

/// What a time is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Message,
    Byte,
    Packet,
}

impl Term {
    /// How many of it a message of so many bytes has.
    fn count(self, size: f64, mss: f64) -> f64 {
        match self {
            Self::Message => 1.0,
            Self::Byte => size,
            Self::Packet => packets(size, mss),
        }
    }
}

/// All that a time may be made of: at equal errors the first counts.
const MODELS: [&[Term]; 7] = [
    &[Term::Message],
    &[Term::Byte],
    &[Term::Packet],
    &[Term::Message, Term::Byte],
    &[Term::Byte, Term::Packet],
    &[Term::Message, Term::Packet],
    &[Term::Message, Term::Byte, Term::Packet],
];

impl Costs {
    /// The costs that fit these times best: pairs of bytes and nanoseconds. None with fewer than three sizes.
    pub(super) fn fit(points: &[(f64, f64)], mss: f64) -> Option<Self> {
        if points.len() < 3 || points.iter().any(|&(_, ns)| ns <= 0.0) {
            return None;
        }
        let cut = points.iter().any(|&(size, _)| packets(size, mss) > 1.0);
        let fits = MODELS
            .iter()
            .filter(|terms| cut || !terms.contains(&Term::Packet))
            .filter_map(|&terms| Some((terms, least_squares(points, mss, terms)?)))
            .filter(|(_, (costs, _))| costs.iter().all(|cost| cost.value >= 0.0));
        let (terms, (costs, _)) = fits.min_by(|(_, one), (_, other)| one.1.total_cmp(&other.1))?;
        let cost = |term: Term, why: &'static str| {
            let at = terms.iter().position(|one| *one == term).ok_or(why)?;
            Ok(costs[at])
        };
        Some(Self {
            per_message: cost(Term::Message, NO_MESSAGE),
            per_packet: cost(Term::Packet, if cut { NO_PACKET } else { UNCUT }),
            per_byte: cost(Term::Byte, NO_BYTE),
            mss,
        })
    }

    /// The time of a message of so many bytes.
    pub(super) fn at(&self, size: f64) -> f64 {
        let value = |cost: &Result<Cost, _>| cost.as_ref().map_or(0.0, |cost: &Cost| cost.value);
        value(&self.per_message)
            + value(&self.per_byte) * size
            + value(&self.per_packet) * packets(size, self.mss)
    }

    /// What a message costs besides its bytes, when it is one packet; and what a byte costs.
    pub(super) fn message_and_byte(&self) -> (f64, f64) {
        let byte = self.per_byte.map_or(0.0, |cost| cost.value);
        (self.at(0.0), byte)
    }
}

/// For each size the relative error of what the other sizes say of it.
pub(super) fn left_out(points: &[(f64, f64)], mss: f64) -> Vec<Option<f64>> {
    (0..points.len())
        .map(|at| {
            let mut others = points.to_vec();
            let (size, ns) = others.remove(at);
            Some(Costs::fit(&others, mss)?.at(size) / ns - 1.0)
        })
        .collect()
}

/// The costs of these terms by weighted least squares (Jain 1991, chapter 15), and the sum of the squared residuals, which are
/// shares of the time. None when the terms depend on each other.
fn least_squares(points: &[(f64, f64)], mss: f64, terms: &[Term]) -> Option<(Vec<Cost>, f64)> {
    let mut rows: Vec<Vec<f64>> = points
        .iter()
        .map(|&(size, ns)| {
            terms
                .iter()
                .map(|term| term.count(size, mss) / ns)
                .collect()
        })
        .collect();
    // Bytes count in thousands, packets in ones: each term is scaled to its largest.
    let scale: Vec<f64> = (0..terms.len())
        .map(|term| rows.iter().map(|row| row[term]).fold(0.0, f64::max))
        .collect();
    for row in &mut rows {
        for (count, scale) in row.iter_mut().zip(&scale) {
            *count /= scale;
        }
    }
    let sum = |f: &dyn Fn(&[f64]) -> f64| rows.iter().map(|row| f(row)).sum::<f64>();
    let each = 0..terms.len();
    let normal = each
        .clone()
        .map(|i| each.clone().map(|j| sum(&|row| row[i] * row[j])).collect())
        .collect();
    let inverse = inverted(normal)?;
    let right: Vec<f64> = each.map(|i| sum(&|row| row[i])).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let scaled: Vec<f64> = inverse.iter().map(|row| dot(row, &right)).collect();
    let left = sum(&|row| (1.0 - dot(row, &scaled)).powi(2));
    let degrees = points.len().saturating_sub(terms.len());
    let costs = scaled
        .iter()
        .zip(&scale)
        .enumerate()
        .map(|(i, (cost, scale))| {
            let value = cost / scale;
            let ci = (degrees > 0).then(|| {
                let error = (left / degrees as f64 * inverse[i][i].max(0.0)).sqrt() / scale;
                let reach = student_t(degrees as u64) * error;
                Interval {
                    low: value - reach,
                    high: value + reach,
                }
            });
            Cost { value, ci }
        })
        .collect();
    Some((costs, left))
}

/// The inverse of a matrix whose entries are of the order of 1, by Gauss and Jordan's method; none when it has none.
fn inverted(mut left: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let n = left.len();
    let mut right: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| if i == j { 1.0 } else { 0.0 }).collect())
        .collect();
    for at in 0..n {
        let pivot = (at..n).max_by(|&a, &b| left[a][at].abs().total_cmp(&left[b][at].abs()))?;
        // Counts of finite times are finite and scaled to 1, so less than this is rounding.
        if left[pivot][at].abs() < 1e-12 {
            return None;
        }
        left.swap(at, pivot);
        right.swap(at, pivot);
        let by = left[at][at];
        for value in left[at].iter_mut().chain(&mut right[at]) {
            *value /= by;
        }
        let (from_left, from_right) = (left[at].clone(), right[at].clone());
        for row in (0..n).filter(|&row| row != at) {
            let by = left[row][at];
            for column in 0..n {
                left[row][column] -= by * from_left[column];
                right[row][column] -= by * from_right[column];
            }
        }
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZES: [f64; 8] = [4.0, 20.0, 80.0, 200.0, 500.0, 1_400.0, 4_000.0, 8_000.0];

    fn points(cost: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        SIZES.iter().map(|&size| (size, cost(size))).collect()
    }

    #[test]
    fn all_three_costs_are_found_where_messages_are_cut() {
        let costs = Costs::fit(
            &points(|size| 700.0 + 0.1 * size + 150.0 * packets(size, 1_448.0)),
            1_448.0,
        )
        .unwrap();
        for (cost, want) in [
            (costs.per_message, 700.0),
            (costs.per_byte, 0.1),
            (costs.per_packet, 150.0),
        ] {
            let cost = cost.unwrap();
            assert!((cost.value / want - 1.0).abs() < 1e-6, "{costs:?}");
            assert!(
                cost.ci.unwrap().high - cost.value < 1e-3 * want,
                "{costs:?}"
            );
        }
        assert!((costs.at(3_000.0) - 1_450.0).abs() < 1e-3);
    }

    #[test]
    fn what_cannot_be_told_apart_is_said() {
        let uncut = Costs::fit(&points(|size| 700.0 + 0.1 * size), 65_483.0).unwrap();
        assert_eq!(uncut.per_packet, Err(UNCUT));
        assert!((uncut.per_message.unwrap().value - 700.0).abs() < 1e-6);
        let costs = |cost: &dyn Fn(f64) -> f64| Costs::fit(&points(cost), 1_448.0).unwrap();
        let fewer = costs(&|size| 700.0 + 0.5 * size - 100.0 * packets(size, 1_448.0));
        assert_eq!(fewer.per_packet, Err(NO_PACKET));
        let cheaper = costs(&|size| 700.0 - 0.01 * size + 100.0 * packets(size, 1_448.0));
        assert_eq!(cheaper.per_byte, Err(NO_BYTE));
        let packet = costs(&|size| 0.1 * size + 100.0 * packets(size, 1_448.0) - 20.0);
        assert_eq!(packet.per_message, Err(NO_MESSAGE));
        assert!(
            (packet.message_and_byte().0 - 100.0).abs() < 30.0,
            "{packet:?}"
        );
        assert_eq!(Costs::fit(&[(4.0, 1.0), (20.0, 2.0)], 1_448.0), None);
        assert_eq!(
            Costs::fit(&[(4.0, 1.0), (20.0, 0.0), (80.0, 1.0)], 1_448.0),
            None
        );
        assert_eq!(
            least_squares(&[(4.0, 1.0); 5], 1_448.0, &[Term::Message, Term::Byte]),
            None
        );
    }

    #[test]
    fn a_size_that_is_left_out_is_predicted_by_the_others() {
        let errors = left_out(&points(|size| 700.0 + 0.1 * size), 65_483.0);
        assert!(
            errors.iter().all(|error| error.unwrap().abs() < 1e-9),
            "{errors:?}"
        );
        let mut off = points(|size| 700.0 + 0.1 * size);
        off[3].1 *= 1.1;
        let error = left_out(&off, 65_483.0)[3].unwrap();
        assert!((error + 1.0 - 1.0 / 1.1).abs() < 1e-9, "{error}");
    }

    proptest! {
        #[test]
        fn costs_are_found_again_whatever_their_order(message in 1.0f64..1e6, byte in 1e-3f64..10.0, packet in 1.0f64..1e4) {
            let costs = Costs::fit(&points(|size| message + byte * size + packet * packets(size, 1_448.0)), 1_448.0);
            let costs = costs.unwrap();
            for &size in &SIZES {
                let want = message + byte * size + packet * packets(size, 1_448.0);
                prop_assert!((costs.at(size) / want - 1.0).abs() < 1e-6);
            }
        }
    }
}

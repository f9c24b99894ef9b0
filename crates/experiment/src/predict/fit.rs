//! Costs from times by size: least squares of relative errors, and how well a size is told that was left out.
//!
//! Relative, because a time of 60 us and one of 80 ns are both to be told within some percent. A cost below zero means nothing, so
//! the packets' term is left out when a cost comes out so; and it cannot be told at all where no message is cut.

use super::model::packets;
use crate::run::Interval;
use crate::stats::student_t;

/// A cost with its 95 % interval, where there are sizes enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    pub(super) value: f64,
    pub(super) ci: Option<Interval>,
}

/// What a message costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Costs {
    pub(super) per_message: Cost,
    /// Why not, where it cannot be told apart.
    pub(super) per_packet: Result<Cost, &'static str>,
    pub(super) per_byte: Cost,
    /// Bytes of a segment.
    mss: f64,
}

/// Why packets have no cost of their own.
pub(super) const UNCUT: &str =
    "no message of these sizes is cut into packets here; it is part of what a message costs";
const MINGLED: &str =
    "packets and bytes cannot be told apart by these sizes; it is part of what a byte costs";

impl Costs {
    /// The costs that fit these times best: pairs of bytes and nanoseconds. None with fewer than three sizes.
    pub(super) fn fit(points: &[(f64, f64)], mss: f64) -> Option<Self> {
        if points.len() < 3 || points.iter().any(|&(_, ns)| ns <= 0.0) {
            return None;
        }
        let cut = points.iter().any(|&(size, _)| packets(size, mss) > 1.0);
        let with_packets = (cut && points.len() > 3)
            .then(|| {
                least_squares(points, |size| [1.0, size, packets(size, mss)])
                    .filter(|costs| costs.iter().all(|cost| cost.value >= 0.0))
            })
            .flatten();
        if let Some([per_message, per_byte, per_packet]) = with_packets {
            return Some(Self {
                per_message,
                per_packet: Ok(per_packet),
                per_byte,
                mss,
            });
        }
        let [per_message, per_byte] = least_squares(points, |size| [1.0, size])?;
        Some(Self {
            per_message,
            per_packet: Err(if cut { MINGLED } else { UNCUT }),
            per_byte,
            mss,
        })
    }

    /// The time of a message of so many bytes.
    pub(super) fn at(&self, size: f64) -> f64 {
        let packet = self.per_packet.map_or(0.0, |cost| cost.value);
        self.per_message.value + self.per_byte.value * size + packet * packets(size, self.mss)
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

/// The costs of the terms that `terms` gives for a size, by weighted least squares (Jain 1991, chapter 15): residuals are shares
/// of the time. None when the terms depend on each other.
fn least_squares<const N: usize>(
    points: &[(f64, f64)],
    terms: impl Fn(f64) -> [f64; N],
) -> Option<[Cost; N]> {
    let rows: Vec<[f64; N]> = points
        .iter()
        .map(|&(size, ns)| terms(size).map(|term| term / ns))
        .collect();
    // Bytes count in thousands, packets in ones: each term is scaled to its largest.
    let scale: [f64; N] =
        std::array::from_fn(|term| rows.iter().map(|row| row[term].abs()).fold(0.0, f64::max));
    if scale.contains(&0.0) {
        return None;
    }
    let rows: Vec<[f64; N]> = rows
        .iter()
        .map(|row| std::array::from_fn(|term| row[term] / scale[term]))
        .collect();
    let mut normal = [[0.0; N]; N];
    let mut right = [0.0; N];
    for row in &rows {
        for i in 0..N {
            right[i] += row[i];
            for j in 0..N {
                normal[i][j] += row[i] * row[j];
            }
        }
    }
    let inverse = inverted(normal)?;
    let costs: [f64; N] =
        std::array::from_fn(|i| inverse[i].iter().zip(&right).map(|(a, b)| a * b).sum());
    let left: f64 = rows
        .iter()
        .map(|row| (1.0 - row.iter().zip(&costs).map(|(a, b)| a * b).sum::<f64>()).powi(2))
        .sum();
    let degrees = points.len().saturating_sub(N);
    Some(std::array::from_fn(|i| {
        let value = costs[i] / scale[i];
        let ci = (degrees > 0).then(|| {
            let error = (left / degrees as f64 * inverse[i][i].max(0.0)).sqrt() / scale[i];
            let reach = student_t(degrees as u64) * error;
            Interval {
                low: value - reach,
                high: value + reach,
            }
        });
        Cost { value, ci }
    }))
}

/// The inverse of a matrix whose entries are of the order of 1, by Gauss and Jordan's method; none when it has none.
fn inverted<const N: usize>(mut left: [[f64; N]; N]) -> Option<[[f64; N]; N]> {
    let mut right: [[f64; N]; N] =
        std::array::from_fn(|i| std::array::from_fn(|j| if i == j { 1.0 } else { 0.0 }));
    for at in 0..N {
        let pivot = (at..N).max_by(|&a, &b| left[a][at].abs().total_cmp(&left[b][at].abs()))?;
        if left[pivot][at].abs() < 1e-12 {
            return None;
        }
        left.swap(at, pivot);
        right.swap(at, pivot);
        let by = left[at][at];
        for column in 0..N {
            left[at][column] /= by;
            right[at][column] /= by;
        }
        let (from_left, from_right) = (left[at], right[at]);
        for row in (0..N).filter(|&row| row != at) {
            let by = left[row][at];
            for column in 0..N {
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
        let packet = costs.per_packet.unwrap();
        for (cost, want) in [
            (costs.per_message, 700.0),
            (costs.per_byte, 0.1),
            (packet, 150.0),
        ] {
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
        assert!((uncut.per_message.value - 700.0).abs() < 1e-6);
        let odd = Costs::fit(
            &points(|size| 700.0 + 0.5 * size - 100.0 * packets(size, 1_448.0)),
            1_448.0,
        )
        .unwrap();
        assert_eq!(odd.per_packet, Err(MINGLED));
        assert_eq!(Costs::fit(&[(4.0, 1.0), (20.0, 2.0)], 1_448.0), None);
        assert_eq!(
            Costs::fit(&[(4.0, 1.0), (20.0, 0.0), (80.0, 1.0)], 1_448.0),
            None
        );
        assert_eq!(Costs::fit(&[(4.0, 1.0); 5], 1_448.0), None);
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

//! Costs from times by size: least squares of relative errors, and how well a size is told that was left out.
//!
//! Relative, because a time of 60 us and one of 80 ns are both to be told within some percent. A cost below zero means nothing, so
//! the fit is the best of those without one (non-negative least squares; Lawson and Hanson 1974, chapter 23), and a cost that is
//! not in it says why.

use tollgate_run::Interval;
use tollgate_stats::student_t;

use super::model::packets;

/// A cost with its 95 % interval, where there are sizes enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    pub(super) value: f64,
    pub(super) ci: Option<Interval>,
}

/// The MTUs whose effect is told and tried: that of Ethernet, on which costs are fitted, between, and that of jumbo frames.
pub(super) const USUAL_MTU: usize = 1_500;
pub(super) const MTUS: [usize; 2] = [3_000, 9_000];
/// Bytes of a packet for IP, TCP and TCP's timestamps (Lehmann and Benz 2002, section 3.2).
const HEADERS: usize = 52;

/// Bytes of a full segment in packets of at most `mtu` bytes.
pub(super) const fn segment(mtu: usize) -> f64 {
    (mtu - HEADERS) as f64
}

/// Bytes of a datagram in each fragment in packets of at most `mtu` bytes, in steps of eight (RFC 791, 3.2).
pub(super) const fn fragment(mtu: usize) -> f64 {
    ((mtu - 20) / 8 * 8) as f64
}

/// Model of the time of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CostModel {
    /// Each segment of so many bytes is a packet of its own; those after the first cost what a packet does.
    Packets(f64),
    /// Segments of so many bytes pass together, up to 64 KiB at once (GSO), so their number costs nothing. But a message longer
    /// than one of them is acknowledged as soon as it is read, by a packet of its own and not by the answer (Linux,
    /// `__tcp_cleanup_rbuf`: more than `rcv_mss` was read).
    Together(f64),
    /// Like [`CostModel::Together`], but each segment is a packet of its own and costs as such (no segmentation offload).
    Alone(f64),
    /// A write of a stream over kernel sockets: what it hands over beyond so many bytes takes further segments (GSO). Small writes pile up
    /// behind the reader and leave together, larger ones each make a segment of their own; from where on shows in the times.
    Piled(f64),
    /// A message costs what it is and what its bytes are: nothing is cut, or what is cut has no borders in the stream.
    Whole,
    /// Like [`CostModel::Whole`], but the ends work at the same time, each on a processor of its own. The reader takes what it finds, many
    /// writes at once, so it pays for bytes alone; the slower end sets the pace.
    BothEnds,
}

impl CostModel {
    /// The terms that the method of least squares fits.
    const fn terms(self) -> &'static [Term] {
        match self {
            Self::Packets(_) | Self::Piled(_) => &[Term::Message, Term::Byte, Term::Packet],
            Self::Together(_) => &[Term::Message, Term::Byte, Term::Long],
            Self::Alone(_) => &[Term::Message, Term::Byte, Term::Packet, Term::Long],
            Self::Whole | Self::BothEnds => &[Term::Message, Term::Byte],
        }
    }

    /// Bytes of a segment.
    const fn mss(self) -> f64 {
        match self {
            Self::Packets(mss) | Self::Together(mss) | Self::Alone(mss) | Self::Piled(mss) => mss,
            Self::Whole | Self::BothEnds => f64::INFINITY,
        }
    }

    /// The model with packets of at most `mtu` bytes.
    pub(super) const fn with_mtu(self, mtu: usize) -> Self {
        match self {
            Self::Packets(_) => Self::Packets(segment(mtu)),
            Self::Together(_) => Self::Together(segment(mtu)),
            Self::Alone(_) => Self::Alone(segment(mtu)),
            Self::Piled(_) | Self::Whole | Self::BothEnds => self,
        }
    }
}

/// Costs of a message; each undetermined cost has a reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Costs {
    pub(super) per_message: Result<Cost, &'static str>,
    /// Each packet after the first, which is part of the message.
    pub(super) per_packet: Result<Cost, &'static str>,
    /// The cost that a message has once when it is longer than a segment.
    pub(super) per_long: Result<Cost, &'static str>,
    /// The extra cost of a write that makes a segment of its own.
    pub(super) per_own: Result<Cost, &'static str>,
    pub(super) per_byte: Result<Cost, &'static str>,
    /// The cost of a byte at the end that reads at the same time.
    pub(super) per_byte_read: Result<Cost, &'static str>,
    /// Between which sizes writes come to make segments of their own.
    own: Option<Between>,
    cost_model: CostModel,
}

pub(super) const UNCUT: &str =
    "no message of these sizes is cut into packets here; it is part of what a message costs";
const TOGETHER: &str = "segments pass together here (GSO), so their number costs nothing";
const SHORT: &str = "no message of these sizes is longer than a segment";
const NO_LONG: &str = "these sizes show no cost of being longer than a segment";
const NOT_CUT: &str = "each segment is a packet here and costs as such";
const STREAMED: &str = "what is cut of a stream has no borders; it is part of what a byte costs";
const NO_PACKET: &str = "these sizes show no cost of a packet beside those of messages and bytes";
const NO_MESSAGE: &str =
    "these sizes show no cost of a message beside those of its packets and bytes";
const NO_BYTE: &str = "these sizes show no cost of a byte beside those of messages and packets";
const NOT_PILED: &str = "nothing piles up here";
const NO_OWN: &str = "these sizes show no cost of a segment of its own";
const IN_TURN: &str = "the ends take turns here";
const NOT_SLOWER: &str = "at none of these sizes is reading slower than writing";

/// The fewest sizes at which it is looked for where writes come to make segments of their own: two more than a time has costs.
const ENOUGH: usize = 6;

/// Two sizes, between which what did not happen comes to happen each time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Between {
    none: f64,
    all: f64,
}

impl Between {
    /// The share of cases at this size, 0 to 1: in proportion on a logarithmic scale.
    fn share(self, size: f64) -> f64 {
        ((size / self.none).ln() / (self.all / self.none).ln()).clamp(0.0, 1.0)
    }
}

/// Term of a time.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Term {
    /// Its first packet is part of it.
    Message,
    Byte,
    /// Each further one.
    Packet,
    /// Once, when it is longer than a segment.
    Long,
    /// Once, when it makes a segment of its own.
    Own(Between),
}

impl Term {
    /// The multiplicity of the term in a message of so many bytes.
    fn count(self, size: f64, mss: f64) -> f64 {
        match self {
            Self::Message => 1.0,
            Self::Byte => size,
            Self::Packet => packets(size, mss) - 1.0,
            Self::Long => f64::from(u8::from(size > mss)),
            Self::Own(between) => between.share(size),
        }
    }
}

impl Costs {
    /// The costs that fit these times best: pairs of bytes and nanoseconds, the sizes ascending. None with fewer than three sizes.
    pub(super) fn fit(points: &[(f64, f64)], cost_model: CostModel) -> Option<Self> {
        if points.len() < 3 || points.iter().any(|&(_, ns)| ns <= 0.0) {
            return None;
        }
        let best = Self::in_turn(points, cost_model, None)?;
        let others: Vec<Self> = match cost_model {
            CostModel::BothEnds => {
                let cuts = 2..points.len();
                cuts.filter_map(|at| Self::at_once(points, at)).collect()
            }
            CostModel::Piled(_) if points.len() >= ENOUGH => points
                .windows(2)
                .filter_map(|pair| {
                    let own = Between {
                        none: pair[0].0,
                        all: pair[1].0,
                    };
                    Self::in_turn(points, cost_model, Some(own))
                })
                .collect(),
            CostModel::Packets(_)
            | CostModel::Together(_)
            | CostModel::Alone(_)
            | CostModel::Piled(_)
            | CostModel::Whole => Vec::new(),
        };
        let off = |costs: &Self| -> f64 {
            let errors = points.iter().map(|&(size, ns)| costs.at(size) / ns - 1.0);
            errors.map(|error| error * error).sum()
        };
        // The first of equals: without a second end, or segments of their own, where they do not tell more.
        std::iter::once(best)
            .chain(others)
            .min_by(|one, other| off(one).total_cmp(&off(other)))
    }

    /// The best sum of costs none of which is below zero.
    fn in_turn(points: &[(f64, f64)], cost_model: CostModel, own: Option<Between>) -> Option<Self> {
        let mss = cost_model.mss();
        let cut = points.iter().any(|&(size, _)| packets(size, mss) > 1.0);
        let usable = |term: &Term| cut || !matches!(term, Term::Packet | Term::Long);
        let usual = cost_model.terms().iter().copied().filter(usable);
        let all: Vec<Term> = usual.chain(own.map(Term::Own)).collect();
        let subsets = (1..1_usize << all.len()).map(|chosen| {
            let terms = all.iter().enumerate();
            let terms = terms.filter(|(at, _)| chosen >> at & 1 == 1);
            terms.map(|(_, term)| *term).collect::<Vec<Term>>()
        });
        let fits = subsets
            .filter_map(|terms| {
                let (costs, left) = least_squares(points, mss, &terms)?;
                Some((terms, costs, left))
            })
            .filter(|(_, costs, _)| costs.iter().all(|cost| cost.value >= 0.0));
        let (terms, costs, _) = fits.min_by(|one, other| one.2.total_cmp(&other.2))?;
        let cost = |term: Term, why: &'static str| {
            let at = terms.iter().position(|one| *one == term).ok_or(why)?;
            Ok(costs[at])
        };
        let (no_packet, no_long) = match cost_model {
            CostModel::Packets(_) | CostModel::Piled(_) if cut => (NO_PACKET, NOT_CUT),
            CostModel::Packets(_) | CostModel::Piled(_) => (UNCUT, NOT_CUT),
            CostModel::Together(_) if cut => (TOGETHER, NO_LONG),
            CostModel::Together(_) => (UNCUT, SHORT),
            CostModel::Alone(_) if cut => (NO_PACKET, NO_LONG),
            CostModel::Alone(_) => (UNCUT, SHORT),
            CostModel::Whole | CostModel::BothEnds => (STREAMED, STREAMED),
        };
        Some(Self {
            per_message: cost(Term::Message, NO_MESSAGE),
            per_packet: cost(Term::Packet, no_packet),
            per_long: cost(Term::Long, no_long),
            per_own: match (own, cost_model) {
                (Some(own), _) => cost(Term::Own(own), NO_OWN),
                (None, CostModel::Piled(_)) => Err(NO_OWN),
                (None, _) => Err(NOT_PILED),
            },
            per_byte: cost(Term::Byte, NO_BYTE),
            per_byte_read: Err(match cost_model {
                CostModel::BothEnds => NOT_SLOWER,
                CostModel::Packets(_)
                | CostModel::Together(_)
                | CostModel::Alone(_)
                | CostModel::Piled(_)
                | CostModel::Whole => IN_TURN,
            }),
            own,
            cost_model,
        })
    }

    /// The costs of two ends of which the writer sets the pace at the sizes before this place, the reader at the others.
    fn at_once(points: &[(f64, f64)], place: usize) -> Option<Self> {
        let writer = Self::in_turn(&points[..place], CostModel::BothEnds, None)?;
        let (reader, _) = least_squares(&points[place..], f64::INFINITY, &[Term::Byte])?;
        Some(Self {
            per_byte_read: Ok(*reader.first()?),
            ..writer
        })
    }

    /// Widens the intervals by an error that all times share, which the fit does not see: half of its 95 % interval is this share of
    /// each cost.
    pub(super) fn widened(mut self, share: f64) -> Self {
        for cost in [
            &mut self.per_message,
            &mut self.per_packet,
            &mut self.per_long,
            &mut self.per_own,
            &mut self.per_byte,
            &mut self.per_byte_read,
        ] {
            if let Ok(Cost {
                value,
                ci: Some(ci),
            }) = cost
            {
                let half = ((ci.high - ci.low) / 2.0).hypot(share * *value);
                (ci.low, ci.high) = (*value - half, *value + half);
            }
        }
        self
    }

    /// The costs with packets of at most `mtu` bytes.
    pub(super) const fn with_mtu(self, mtu: usize) -> Self {
        Self {
            cost_model: self.cost_model.with_mtu(mtu),
            ..self
        }
    }

    /// The time of a message of so many bytes.
    pub(super) fn at(&self, size: f64) -> f64 {
        let of = |cost: &Result<Cost, _>, term: Term| {
            let value = cost.as_ref().map_or(0.0, |cost: &Cost| cost.value);
            // Nothing of what is not there, also where it would be infinitely often.
            if value > 0.0 {
                value * term.count(size, self.cost_model.mss())
            } else {
                0.0
            }
        };
        let writer = of(&self.per_message, Term::Message)
            + of(&self.per_byte, Term::Byte)
            + of(&self.per_packet, Term::Packet)
            + of(&self.per_long, Term::Long)
            + self
                .own
                .map_or(0.0, |own| of(&self.per_own, Term::Own(own)));
        writer.max(of(&self.per_byte_read, Term::Byte))
    }

    /// The cost of a message of one packet without its bytes, and the cost of a byte at the slower end.
    pub(super) fn message_and_byte(&self) -> (f64, f64) {
        let byte = |cost: &Result<Cost, _>| cost.as_ref().map_or(0.0, |cost: &Cost| cost.value);
        (
            self.at(0.0),
            byte(&self.per_byte).max(byte(&self.per_byte_read)),
        )
    }
}

/// Costs, and what they leave of the times that they are fitted to.
///
/// The residual is not noise alone: on one core, writes of some KiB now travel alone and now pile up behind the reader. No cost of
/// a write or a byte explains that. The residual of a size between two others lies between theirs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    costs: Costs,
    /// The logarithms of a size, and of its time over what costs say; the sizes ascending.
    left: Vec<(f64, f64)>,
}

impl Curve {
    /// Through these times: pairs of bytes and nanoseconds, the sizes ascending. None with fewer than three sizes.
    pub(super) fn fit(points: &[(f64, f64)], cost_model: CostModel) -> Option<Self> {
        let costs = Costs::fit(points, cost_model)?;
        let left = points.iter().map(|&(size, ns)| {
            let predicted = costs.at(size);
            (predicted > 0.0).then(|| (size.ln(), (ns / predicted).ln()))
        });
        Some(Self {
            costs,
            left: left.collect::<Option<_>>()?,
        })
    }

    /// The time of a message of so many bytes: what costs say, times what they leave at the sizes around it, in proportion to how near
    /// they lie on a logarithmic scale; beyond the first and the last, what they leave there.
    pub(super) fn at(&self, size: f64) -> f64 {
        let at = size.ln();
        let after = self.left.partition_point(|(one, _)| *one < at);
        let left = match (
            after.checked_sub(1).map(|before| self.left[before]),
            self.left.get(after),
        ) {
            (Some((from, low)), Some(&(to, high))) => {
                low + (high - low) * (at - from) / (to - from)
            }
            (Some((_, left)), None) => left,
            (None, Some(&(_, left))) => left,
            (None, None) => 0.0,
        };
        self.costs.at(size) * left.exp()
    }
}

/// For each size the relative error of what the other sizes say of it.
pub(super) fn left_out(points: &[(f64, f64)], cost_model: CostModel) -> Vec<Option<f64>> {
    (0..points.len())
        .map(|at| {
            let mut others = points.to_vec();
            let (size, ns) = others.remove(at);
            Some(Curve::fit(&others, cost_model)?.at(size) / ns - 1.0)
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
    // Where writes begin to have segments of their own was looked for, too.
    let searched = terms.iter().filter(|term| matches!(term, Term::Own(_)));
    let degrees = points.len().saturating_sub(terms.len() + searched.count());
    let costs = scaled
        .iter()
        .zip(&scale)
        .enumerate()
        .map(|(i, (cost, scale))| {
            let value = cost / scale;
            let ci = (degrees > 0).then(|| {
                let error = (left / degrees as f64 * inverse[i][i].max(0.0)).sqrt() / scale;
                let half_width_factor = student_t(degrees as u64) * error;
                Interval {
                    low: value - half_width_factor,
                    high: value + half_width_factor,
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
            CostModel::Packets(1_448.0),
        )
        .unwrap();
        for (cost, want) in [
            (costs.per_message, 850.0),
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
        let uncut = Costs::fit(
            &points(|size| 700.0 + 0.1 * size),
            CostModel::Packets(65_483.0),
        )
        .unwrap();
        assert_eq!(uncut.per_packet, Err(UNCUT));
        assert!((uncut.per_message.unwrap().value - 700.0).abs() < 1e-6);
        let costs = |cost: &dyn Fn(f64) -> f64| {
            Costs::fit(&points(cost), CostModel::Packets(1_448.0)).unwrap()
        };
        let fewer = costs(&|size| 700.0 + 0.5 * size - 100.0 * packets(size, 1_448.0));
        assert_eq!(fewer.per_packet, Err(NO_PACKET));
        let cheaper = costs(&|size| 700.0 - 0.01 * size + 100.0 * packets(size, 1_448.0));
        assert_eq!(cheaper.per_byte, Err(NO_BYTE));
        let packet = costs(&|size| 0.1 * size - 0.2 + 100.0 * (packets(size, 1_448.0) - 1.0));
        assert_eq!(packet.per_message, Err(NO_MESSAGE));
        assert_eq!(packet.message_and_byte().0, 0.0);
        assert_eq!(
            Costs::fit(&[(4.0, 1.0), (20.0, 2.0)], CostModel::Whole),
            None
        );
        assert_eq!(
            Costs::fit(&[(4.0, 1.0), (20.0, 0.0), (80.0, 1.0)], CostModel::Whole),
            None
        );
        assert_eq!(
            least_squares(&[(4.0, 1.0); 5], 1_448.0, &[Term::Message, Term::Byte]),
            None
        );
    }

    #[test]
    fn a_size_that_is_left_out_is_predicted_by_the_others() {
        let errors = left_out(&points(|size| 700.0 + 0.1 * size), CostModel::Whole);
        assert!(
            errors.iter().all(|error| error.unwrap().abs() < 1e-9),
            "{errors:?}"
        );
        let mut off = points(|size| 700.0 + 0.1 * size);
        off[3].1 *= 1.1;
        let error = left_out(&off, CostModel::Whole)[3].unwrap();
        assert!((error + 1.0 - 1.0 / 1.1).abs() < 1e-9, "{error}");
    }

    #[test]
    fn a_message_longer_than_a_segment_costs_once_where_segments_pass_together() {
        let cost_model = CostModel::Together(1_448.0);
        let time = |size: f64| 14_000.0 + 0.05 * size + if size > 1_448.0 { 4_700.0 } else { 0.0 };
        let costs = Costs::fit(&points(time), cost_model).unwrap();
        assert!((costs.per_long.unwrap().value - 4_700.0).abs() < 1e-3);
        assert_eq!(costs.per_packet, Err(TOGETHER));
        for size in [1_000.0, 1_500.0, 12_000.0] {
            assert!((costs.at(size) / time(size) - 1.0).abs() < 1e-6);
        }
        // In larger packets the step comes later.
        let jumbo = costs.with_mtu(9_000);
        assert!((jumbo.at(6_000.0) - 14_300.0).abs() < 1e-3);
        assert!((jumbo.at(9_000.0) - time(9_000.0)).abs() < 1e-3);
    }

    #[test]
    fn of_two_ends_at_work_at_the_same_time_the_slower_sets_the_pace() {
        let time = |size: f64| (5_000.0 + 0.01 * size).max(0.16 * size);
        let sizes = [64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 131_072.0];
        let points = sizes.map(|size| (size, time(size)));
        let costs = Costs::fit(&points, CostModel::BothEnds).unwrap();
        assert!((costs.per_byte_read.unwrap().value - 0.16).abs() < 1e-6);
        for size in [512.0, 30_000.0, 50_000.0, 200_000.0] {
            assert!((costs.at(size) / time(size) - 1.0).abs() < 1e-6, "{size}");
        }
        let in_turn = sizes.map(|size| (size, 500.0 + 0.1 * size));
        let costs = Costs::fit(&in_turn, CostModel::BothEnds).unwrap();
        assert_eq!(costs.per_byte_read, Err(NOT_SLOWER));
    }

    #[test]
    fn where_writes_come_to_make_segments_of_their_own_shows_in_the_times() {
        const SEGMENT: f64 = 65_483.0;
        let sizes = [
            64.0, 256.0, 1_024.0, 1_448.0, 4_096.0, 16_384.0, 32_768.0, 65_536.0,
        ];
        let time = |size: f64| {
            let own = if size >= 16_384.0 { 1_700.0 } else { 0.0 };
            560.0 + 0.1 * size + own + 2_700.0 * (packets(size, SEGMENT) - 1.0)
        };
        let points = sizes.map(|size| (size, time(size)));
        let costs = Costs::fit(&points, CostModel::Piled(SEGMENT)).unwrap();
        assert!((costs.per_own.unwrap().value / 1_700.0 - 1.0).abs() < 1e-6);
        assert!((costs.per_packet.unwrap().value / 2_700.0 - 1.0).abs() < 1e-6);
        for size in [96.0, 2_048.0, 32_768.0, 131_072.0] {
            assert!((costs.at(size) / time(size) - 1.0).abs() < 1e-6, "{size}");
        }
        // Between, half of them.
        assert!((costs.at(8_192.0) - 560.0 - 819.2 - 850.0).abs() < 1e-3);
        // Few sizes do not tell so much.
        let few = Costs::fit(&points[3..], CostModel::Piled(SEGMENT)).unwrap();
        assert_eq!(few.per_own, Err(NO_OWN));
        let straight = sizes.map(|size| (size, 560.0 + 0.1 * size));
        let costs = Costs::fit(&straight, CostModel::Piled(SEGMENT)).unwrap();
        assert!((costs.at(131_072.0) / 13_667.2 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_costs_leave_is_carried_to_the_sizes_between() {
        let bump = |size: f64| if size == 4_000.0 { 1.2 } else { 1.0 };
        let time = |size: f64| (500.0 + 0.1 * size) * bump(size);
        let points = points(time);
        let curve = Curve::fit(&points, CostModel::Whole).unwrap();
        for (size, ns) in points {
            assert!((curve.at(size) / ns - 1.0).abs() < 1e-9, "{size}");
        }
        let costs = Costs::fit(&SIZES.map(|size| (size, time(size))), CostModel::Whole).unwrap();
        let left = |size: f64| curve.at(size) / costs.at(size);
        let between = (4_000.0_f64 * 8_000.0).sqrt();
        assert!((left(between) - (left(4_000.0) * left(8_000.0)).sqrt()).abs() < 1e-9);
        assert!((left(1.0) - left(4.0)).abs() < 1e-9);
        assert!((left(1e6) - left(8_000.0)).abs() < 1e-9);
        assert_eq!(
            Curve::fit(&[(4.0, 1.0), (20.0, 2.0)], CostModel::Whole),
            None
        );
    }

    proptest! {
        #[test]
        fn costs_are_found_again_whatever_their_order(message in 1.0f64..1e6, byte in 1e-3f64..10.0, packet in 1.0f64..1e4) {
            let costs = Costs::fit(&points(|size| message + byte * size + packet * packets(size, 1_448.0)), CostModel::Packets(1_448.0));
            let costs = costs.unwrap();
            for &size in &SIZES {
                let want = message + byte * size + packet * packets(size, 1_448.0);
                prop_assert!((costs.at(size) / want - 1.0).abs() < 1e-6);
            }
        }
    }
}

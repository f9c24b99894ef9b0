//! What the rounds of a run make of its spans, at one size.
//!
//! A span holds what its own gates cost in it ([`super::passage`]): of its first gate what comes behind the reading of the clock, of its
//! last one what comes before. Where in a passage the clock is read nobody can tell from outside; half of each is taken, which matters
//! only where a dear gate stands at one end and a cheap one at the other, and never to the sum of all spans. Gates also make everything else slower, since what they push out
//! of caches and predictors is missed all over the round trip, and the span has its share of that. How much it is shows in the
//! slice's round trips: those with gates, less what the passages in them cost, over those of the slices without gates before and after it. A
//! machine that was quicker or slower in one of the two goes out by the same division.
//!
//! Only ratios of round trips are looked at here, so nothing makes a sum of spans that leave out a part of the way come out whole.
//! It owns the spans' fair times and how far they leave the round trip open; it must never judge how close is close enough.

use tollgate_gate::span::Place;
use tollgate_gate::{Gate, Span, SpanTable};
use tollgate_stats::{Interval, interquartile_mean, mean};

use super::passage::{Crossed, Prices};
use super::{InPlace, twinned};

/// A slice with the gates of a span, in nanoseconds for each round trip.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spanned {
    /// What the span took.
    pub(super) raw: f64,
    /// What the passages of its first gate and those of its last one cost by their twins.
    pub(super) probes: [f64; 2],
    /// How often each gate was passed.
    pub(super) passages: Vec<(Gate, f64)>,
    /// The usual one of the round trips that gates followed.
    pub(super) followed: f64,
    /// The usual one of all, with those that gates slept through.
    pub(super) gated: f64,
    /// Those of the slices without gates before and after it.
    pub(super) ungated: Option<Ungated>,
}

/// The usual round trips of slices without gates, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ungated {
    pub(super) before: f64,
    pub(super) after: f64,
    pub(super) both: f64,
}

/// How far the slices without gates on both sides may lie apart for what gates disturb to show between them.
const APART: f64 = 0.1;

impl Ungated {
    /// From their times; none where one side has none.
    pub(super) fn of(before: &[f64], after: &[f64]) -> Option<Self> {
        Some(Self {
            before: interquartile_mean(before)?,
            after: interquartile_mean(after)?,
            both: interquartile_mean(&[before, after].concat())?,
        })
    }

    /// Whether the machine was as quick before as after.
    fn is_steady(self) -> bool {
        (self.after / self.before - 1.0).abs() <= APART
    }
}

impl Spanned {
    /// What the span takes where there are no gates.
    fn fair(&self, span: &Span, prices: Prices<'_>) -> f64 {
        let factors = twinned(span).map(|gate| prices.factor(gate));
        let costs = factors.iter().zip(self.probes);
        let own = self.raw
            - costs
                .map(|(factor, probes)| 0.5 * factor * probes)
                .sum::<f64>();
        own / self.slowed(prices).unwrap_or(1.0)
    }

    /// How many times as long everything but the gates themselves took for them; none where the cost of one is not known.
    fn slowed(&self, prices: Prices<'_>) -> Option<f64> {
        let costs = self.passages.iter();
        let cost: Option<f64> = costs
            .map(|&(gate, passages)| Some(passages * prices.cost_ns(gate)?))
            .sum();
        let slowed = (self.followed - cost?) / self.ungated?.both;
        (slowed.is_finite() && slowed > 0.0).then_some(slowed)
    }
}

/// One turn through all spans.
#[derive(Debug, Clone)]
pub(super) struct Round {
    /// By span of the table.
    pub(super) spans: Vec<Option<Spanned>>,
    /// What gates cost where they stand.
    pub(super) crossed: Vec<Crossed>,
}

impl Round {
    pub(super) fn new(table: SpanTable) -> Self {
        Self {
            spans: vec![None; table.spans().len()],
            crossed: Vec::new(),
        }
    }

    /// How many times as long as without any a round trip takes with the gates of the span at this place: those of the slice that
    /// `which` picks. None where the machine became quicker or slower meanwhile.
    pub(super) fn longer(&self, index: usize, which: impl Fn(&Spanned) -> f64) -> Option<f64> {
        let spanned = self.spans.get(index)?.as_ref()?;
        let ungated = spanned.ungated.filter(|ungated| ungated.is_steady())?;
        let longer = which(spanned) / ungated.both;
        longer.is_finite().then_some(longer)
    }

    /// The round trip less the sum of the spans; none when a span was not measured.
    fn residual(&self, table: SpanTable, prices: Prices<'_>) -> Option<f64> {
        let spans = table.spans().iter().zip(&self.spans);
        let sum: Option<f64> = spans
            .filter(|(span, _)| span.place == Place::OnTheWay)
            .map(|(span, spanned)| Some(spanned.as_ref()?.fair(span, prices)))
            .sum();
        let spanned = self.spans.iter().flatten();
        let ungated: Vec<f64> = spanned
            .filter_map(|spanned| Some(spanned.ungated?.both))
            .collect();
        let total = ungated.iter().sum::<f64>() / ungated.len() as f64;
        Some(total - sum?).filter(|residual| residual.is_finite())
    }
}

/// The slices with the gates of the span at this place.
fn spanned(rounds: &[Round], index: usize) -> impl Iterator<Item = &Spanned> {
    let spans = rounds
        .iter()
        .filter_map(move |round| round.spans.get(index));
    spans.flatten()
}

/// How many times what the twins of its first gate show is to be subtracted from the span at this place; none where nothing was measured.
pub(super) fn subtracted(
    rounds: &[Round],
    table: SpanTable,
    index: usize,
    in_place: &InPlace,
) -> Option<f64> {
    let span = table.spans().get(index)?;
    let (too_much, by_twins) =
        spanned(rounds, index).fold((0.0, 0.0), |(too_much, by_twins), spanned| {
            let fair = spanned.fair(span, in_place.prices());
            (too_much + spanned.raw - fair, by_twins + spanned.probes[0])
        });
    Some(too_much / by_twins).filter(|factor| factor.is_finite())
}

/// How much slower gates made everything but themselves, over all spans: the mean of the middle half; none where nothing tells.
pub(super) fn slowed<'a>(
    rounds: impl Iterator<Item = &'a Round>,
    in_place: &InPlace,
) -> Option<f64> {
    let spanned = rounds.flat_map(|round| round.spans.iter().flatten());
    let slowed = spanned.filter_map(|spanned| spanned.slowed(in_place.prices()));
    interquartile_mean(&slowed.collect::<Vec<_>>())
}

/// How far the mean of a span over the rounds reaches to either side with 95 % confidence, in nanoseconds for each round trip; none of
/// fewer than two rounds that measured it.
pub(super) fn reach(
    rounds: &[Round],
    table: SpanTable,
    index: usize,
    in_place: &InPlace,
) -> Option<f64> {
    let span = table.spans().get(index)?;
    let times: Vec<f64> = spanned(rounds, index)
        .map(|spanned| spanned.fair(span, in_place.prices()))
        .collect();
    let estimate = mean(&times).ok()?;
    Some(estimate.interval.high - estimate.value)
}

/// The mean of what the rounds leave open, with its 95 % interval, in nanoseconds; none of fewer than two whole rounds.
///
/// What a passage costs was found from the same rounds, so the interval is that of the jackknife: each round is left out in turn,
/// of the mean and of what the cost is found from.
pub(super) fn residual(
    rounds: &[Round],
    table: SpanTable,
    in_place: &InPlace,
) -> Option<(f64, Interval)> {
    let open = |prices: Prices<'_>| -> Vec<(usize, f64)> {
        let rounds = rounds.iter().enumerate();
        rounds
            .filter_map(|(at, round)| Some((at, round.residual(table, prices)?)))
            .collect()
    };
    let average = |residuals: &[(usize, f64)], without: Option<usize>| {
        let kept = residuals.iter().filter(|(at, _)| Some(*at) != without);
        let (sum, n) = kept.fold((0.0, 0.0), |(sum, n), (_, open)| (sum + open, n + 1.0));
        sum / n
    };
    let all = open(in_place.prices());
    let (value, n) = (average(&all, None), all.len() as f64);
    let pseudo: Vec<f64> = all
        .iter()
        .map(|&(at, _)| {
            let others = open(in_place.prices_without(at));
            n * value - (n - 1.0) * average(&others, Some(at))
        })
        .collect();
    let spread = mean(&pseudo).ok()?.interval;
    let reach = (spread.high - spread.low) / 2.0;
    Some((
        value,
        Interval {
            low: value - reach,
            high: value + reach,
        },
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tollgate_gate::KERNEL;
    use tollgate_kernel::{Abilities, Ability, Plan, Traffic};

    use super::*;

    /// Of a kernel that has netfilter's hooks and no others, where a passage costs so many times what its twin shows.
    fn in_place(factor: f64, by_twins: &[(Gate, f64)]) -> InPlace {
        let abilities = Abilities {
            netfilter: Ability::Works,
            ..Abilities::none("not looked for")
        };
        let crossed = Crossed {
            gate: Gate::IpOutBegin,
            by_ns: 10.0 * factor,
            by_twins_ns: 10.0,
        };
        InPlace::of(
            &vec![vec![crossed]; 3],
            &Plan::choose(&abilities, Traffic::Ours),
            BTreeMap::from_iter(by_twins.iter().copied()),
        )
    }

    /// A round whose spans all took `raw`, of which twins explain 10 ns; what runs beside the way counts for nothing.
    fn round(raw: f64, gated: f64, ungated: f64) -> Round {
        let spanned = Spanned {
            raw,
            probes: [10.0; 2],
            passages: vec![(Gate::IpOutBegin, 2.0)],
            followed: gated,
            gated,
            ungated: Ungated::of(&[ungated], &[ungated]),
        };
        Round {
            spans: vec![Some(spanned); KERNEL.spans().len()],
            crossed: Vec::new(),
        }
    }

    fn spans_on_the_way() -> f64 {
        let spans = KERNEL.spans().iter();
        spans
            .filter(|span| span.place == Place::OnTheWay)
            .fold(0.0, |n, _| n + 1.0)
    }

    #[test]
    fn rounds_tell_what_is_open_and_how_well_that_is_known() {
        let totals = [1_290.0, 1_310.0, 1_300.0];
        let rounds: Vec<Round> = totals.map(|total| round(110.0, total, total)).into();
        let in_place_as_twins = in_place(1.0, &[]);
        let (value, interval) = residual(&rounds, KERNEL, &in_place_as_twins).unwrap();
        let open = 1_300.0 - 100.0 * spans_on_the_way();
        assert!((value - open).abs() < 1e-9, "{value}");
        let reaches = |ns: f64| interval.contains(open - ns) && interval.contains(open + ns);
        assert!(reaches(23.0) && !reaches(27.0), "{interval:?}");
        assert!(residual(&rounds[..1], KERNEL, &in_place_as_twins).is_none());

        // A fifth more of each passage's 10 ns goes from the two spans that begin at a hook of netfilter.
        let (dearer, within) = residual(&rounds, KERNEL, &in_place(1.2, &[])).unwrap();
        assert!((dearer - value - 4.0).abs() < 1e-9, "{dearer}");
        assert!((within.high - dearer - (interval.high - value)).abs() < 1e-9);

        let reach = |rounds| reach(rounds, KERNEL, 3, &in_place_as_twins);
        assert_eq!(reach(&rounds), Some(0.0));
        assert_eq!(reach(&rounds[..1]), None);
        let mut partial = rounds;
        partial[0].spans[3] = None;
        partial[1].spans[4] = None;
        assert!(residual(&partial, KERNEL, &in_place_as_twins).is_none());
    }

    /// Gates make all else take a tenth longer, and the machine is the same; or there is no gate's cost, and the machine is slower.
    #[test]
    fn what_is_slower_beside_the_gates_goes_from_each_span_by_its_share() {
        let prices = in_place(1.0, &[(Gate::IpOutBegin, 10.0)]);
        let ungated = 1_000.0;
        for (raw, gated, by_twins) in [
            (120.0, 1_120.0, &prices),
            (120.0, 1_100.0, &in_place(1.0, &[(Gate::IpOutBegin, 0.0)])),
        ] {
            let rounds = vec![round(raw, gated, ungated); 3];
            let slowed = slowed(rounds.iter(), by_twins).unwrap();
            assert!((slowed - 1.1).abs() < 1e-9, "{slowed}");
            let (open, _) = residual(&rounds, KERNEL, by_twins).unwrap();
            // A part of the way that no span covers stays open.
            let expected = ungated - spans_on_the_way() * 110.0 / 1.1;
            assert!((open - expected).abs() < 1e-9, "{open}");
            let subtracted = subtracted(&rounds, KERNEL, 0, by_twins).unwrap();
            assert!(
                (raw - subtracted * 10.0 - 100.0).abs() < 1e-9,
                "{subtracted}"
            );
        }
    }

    #[test]
    fn a_slice_is_held_against_those_without_gates() {
        let mut round = round(110.0, 1_050.0, 1_000.0);
        let longer = |round: &Round, index| round.longer(index, |spanned| spanned.gated);
        assert_eq!(longer(&round, 3), Some(1.05));
        let mut beside = |before: &[f64], after: &[f64]| {
            round.spans[3].as_mut().unwrap().ungated = Ungated::of(before, after);
            longer(&round, 3)
        };
        assert_eq!(beside(&[1_020.0], &[1_080.0]), Some(1.0));
        assert_eq!(beside(&[1_000.0], &[1_150.0]), None);
        assert_eq!(beside(&[1_150.0], &[1_000.0]), None);
        assert_eq!(beside(&[1_000.0], &[]), None);
        assert_eq!(beside(&[0.0], &[0.0]), None);
        round.spans[4] = None;
        assert_eq!((longer(&round, 4), longer(&round, 99)), (None, None));
    }

    #[test]
    fn where_a_passages_cost_is_unknown_nothing_is_divided() {
        let rounds = vec![round(110.0, 1_500.0, 1_000.0); 3];
        let unknown = in_place(1.0, &[]);
        assert_eq!(slowed(rounds.iter(), &unknown), None);
        let subtracted = subtracted(&rounds, KERNEL, 0, &unknown).unwrap();
        assert!((subtracted - 1.0).abs() < 1e-9);
    }
}

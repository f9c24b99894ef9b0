//! Numbers that stand in several tables of a run, and are one fact.
//!
//! A fact is compared once, where it stands first; the places where it stands again are listed with it. Two numbers are one fact when
//! they are equal to the last digit in every run, value and interval, and stand in different tables. A rate is one fact with the time
//! whose reciprocal it is. Counts without an interval are never folded: two small counts are easily equal by chance.

use std::collections::{HashMap, HashSet};

use tollgate_run::{Measured, Unit, format};

use super::cells::{CellKey, Pair};

/// Largest relative difference at which the product of a rate and a time is still one number: rounding of the computation.
const ONE_NUMBER: f64 = 1e-9;
/// Largest relative difference at which rows of one name in two tables are one number. Of an even number of slices the median rate
/// is not the reciprocal of the median time.
const ONE_ROW: f64 = 0.1;

/// The pairs, each fact once, in their order.
pub(super) fn fold(pairs: Vec<Pair<'_>>) -> Vec<Pair<'_>> {
    let same: Vec<Option<usize>> = {
        let repeated = repeated(&pairs);
        let rates = rates_that_are_times(&pairs);
        repeated
            .into_iter()
            .zip(rates)
            .map(|(one, other)| one.or(other))
            .collect()
    };
    // A rate may be that of a time which is folded itself.
    let first = |mut at: usize| {
        while let Some(earlier) = same[at] {
            at = earlier;
        }
        at
    };
    let mut also: HashMap<usize, Vec<CellKey>> = HashMap::new();
    for (at, _) in same.iter().enumerate().filter(|(_, same)| same.is_some()) {
        also.entry(first(at))
            .or_default()
            .push(pairs[at].place.clone());
    }
    let kept = pairs
        .into_iter()
        .enumerate()
        .filter(|(at, _)| same[*at].is_none());
    kept.map(|(at, pair)| Pair {
        also: also.remove(&at).unwrap_or_default(),
        ..pair
    })
    .collect()
}

/// Of each number the earlier one of another table that it repeats.
fn repeated(pairs: &[Pair<'_>]) -> Vec<Option<usize>> {
    let mut first: HashMap<Vec<Option<[u64; 3]>>, Vec<usize>> = HashMap::new();
    let mut taken: HashSet<(usize, &str, &str)> = HashSet::new();
    let bits = |measured: Option<&Measured>| match measured {
        None => Some(None),
        Some(Measured { value, ci, .. }) => {
            ci.map(|ci| Some([*value, ci.low, ci.high].map(f64::to_bits)))
        }
    };
    let mut found = Vec::with_capacity(pairs.len());
    for (at, pair) in pairs.iter().enumerate() {
        let digits: Option<Vec<_>> = pair.all().map(bits).collect();
        let Some(digits) = digits else {
            found.push(None);
            continue;
        };
        let (experiment, table) = (pair.place.experiment.as_str(), pair.place.table.as_str());
        let seen = first.entry(digits).or_default();
        // Equal numbers within one table are different facts, so each is repeated once by a table at most.
        let earlier = seen.iter().copied().find(|&one| {
            let other = &pairs[one];
            (other.unit, other.kind) == (pair.unit, pair.kind)
                && (other.place.experiment.as_str(), other.place.table.as_str())
                    != (experiment, table)
                && !taken.contains(&(one, experiment, table))
        });
        taken.extend(earlier.map(|one| (one, experiment, table)));
        if earlier.is_none() {
            seen.push(at);
        }
        found.push(earlier);
    }
    found
}

/// Of each rate the time of its experiment and column whose reciprocal it is, when that has an interval in every run.
fn rates_that_are_times(pairs: &[Pair<'_>]) -> Vec<Option<usize>> {
    let mut times: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    let known = |pair: &Pair<'_>| is_time(pair) && pair.all().flatten().all(|one| one.ci.is_some());
    for (at, pair) in pairs.iter().enumerate().filter(|(_, pair)| known(pair)) {
        let place = (pair.place.experiment.as_str(), pair.place.column.as_str());
        times.entry(place).or_default().push(at);
    }
    pairs
        .iter()
        .map(|rate| {
            let place = (rate.place.experiment.as_str(), rate.place.column.as_str());
            let mut beside = times.get(&place).into_iter().flatten();
            let time = beside.find(|&&time| is_rate(rate) && is_reciprocal(rate, &pairs[time]))?;
            Some(*time)
        })
        .collect()
}

const fn is_rate(pair: &Pair<'_>) -> bool {
    matches!(pair.unit, Unit::BytesPerSecond | Unit::PerSecond)
}

const fn is_time(pair: &Pair<'_>) -> bool {
    matches!(pair.unit, Unit::Nanoseconds | Unit::NanosecondsPerByte)
}

/// Tells whether this rate is that time's reciprocal: of one thing, or of as many bytes as the column says.
fn is_reciprocal(rate: &Pair<'_>, time: &Pair<'_>) -> bool {
    let second = 1e9;
    let bytes = format::parse_size(&rate.place.column);
    let off = if rate.place.row == time.place.row {
        ONE_ROW
    } else {
        ONE_NUMBER
    };
    rate.all().zip(time.all()).all(|both| match both {
        (Some(rate), Some(time)) => {
            let product = rate.value * time.value;
            let is = |wanted: f64| (product / wanted - 1.0).abs() < off;
            is(second) || bytes.is_some_and(|bytes| is(second * bytes))
        }
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    })
}

//! Claims: the figures that a finding may state, and the sentence that is made of them.
//!
//! It owns what a figure must show before a finding states it: a closure that holds, a value that is possible, enough
//! operations and an interval. It must never measure, and never state a figure that was refused.

use std::fmt;

use tollgate_run::{Cell, Interval, Measured, format};
use tollgate_stats as stats;

/// The fewest operations that a finding may rest on: a median of fewer has no 99th percentile beside it worth the name.
const LEAST: u64 = 1_000;

/// Share of a value by which its interval's ends may be off where a finding states the value alone.
const EXACT: f64 = 0.1;

/// The most times by which the ends of an interval may be apart: a figure that may be anything between them tells nothing.
const WIDEST: f64 = 100.0;

/// The most by which two amounts may differ that are called the same, as a share.
const SAME: f64 = 0.5;

/// Words before the reason why an experiment could not be run.
pub const UNAVAILABLE: &str = "Not available here: ";

/// Words before the figures that are withheld, because the run does not support them.
pub const REFUSED: &str = "This run cannot tell ";

/// A figure with what it rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    value: f64,
    interval: Option<Interval>,
    operations: u64,
    unattributed: Option<f64>,
}

impl Evidence {
    /// A figure, its 95 % interval, and the operations that it rests on.
    pub const fn new(value: f64, interval: Option<Interval>, operations: u64) -> Self {
        Self {
            value,
            interval,
            operations,
            unattributed: None,
        }
    }

    /// A number that was counted and is the same in every run.
    pub const fn exact(value: f64) -> Self {
        let interval = Interval {
            low: value,
            high: value,
        };
        Self::new(value, Some(interval), LEAST)
    }

    /// A share of counted operations, in percent; exact, since all of them were counted.
    pub fn counted(part: u64, whole: u64) -> Self {
        let share = 100.0 * part as f64 / whole as f64;
        Self {
            operations: whole,
            ..Self::exact(share)
        }
    }

    /// The mean of figures of equal weight, by their interquartile mean, as are its interval's ends; none of none. It closes where
    /// most of them do.
    pub fn mean_of(all: &[Self]) -> Option<Self> {
        let mean = |of: &dyn Fn(&Self) -> Option<f64>| {
            let values: Option<Vec<f64>> = all.iter().map(of).collect();
            stats::interquartile_mean(&values?)
        };
        let open: Vec<f64> = all.iter().filter_map(|one| one.unattributed).collect();
        let low = mean(&|one| Some(one.interval?.low));
        let high = mean(&|one| Some(one.interval?.high));
        Some(Self {
            value: mean(&|one| Some(one.value))?,
            interval: low.zip(high).map(|(low, high)| Interval { low, high }),
            operations: all.iter().map(|one| one.operations).sum(),
            unattributed: stats::interquartile_mean(&open).filter(|_| 2 * open.len() > all.len()),
        })
    }

    /// The figure of a cell; refused where the cell has none.
    pub fn of(cell: &Cell) -> Result<Self, Refusal> {
        match cell {
            Cell::Value(Measured { value, ci, n, .. }) => {
                Ok(Self::new(*value, *ci, n.unwrap_or(0)))
            }
            Cell::NotAvailable { reason } => Err(Refusal::NotMeasured(reason.clone())),
            Cell::Published { .. } | Cell::Text { .. } => {
                Err(Refusal::NotMeasured("it was not measured".to_owned()))
            }
        }
    }

    /// The figure, whatever it may state.
    #[must_use]
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// Its 95 % interval, where it has one.
    #[must_use]
    pub const fn interval(&self) -> Option<Interval> {
        self.interval
    }

    /// The quotient of what pairs of rounds took, which had so many operations; refused where there are too few pairs.
    pub fn quotient(a: &[f64], b: &[f64], operations: u64) -> Result<Self, Refusal> {
        let common = a.len().min(b.len());
        let ratio = stats::ratio(&a[..common], &b[..common]).map_err(|_| Refusal::NoInterval)?;
        let interval = ratio.interval.into();
        Ok(Self::new(ratio.value, Some(interval), operations))
    }

    /// The quotient of the means of pairs of rounds, which had so many operations; refused where there are too few pairs.
    pub fn quotient_of_means(a: &[f64], b: &[f64], operations: u64) -> Result<Self, Refusal> {
        let ratio = stats::ratio_of_means(a, b).map_err(|_| Refusal::NoInterval)?;
        let interval = ratio.interval.into();
        Ok(Self::new(ratio.value, Some(interval), operations))
    }

    /// The quotient of two figures that were not measured in pairs: its interval holds every quotient of theirs.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        let interval = self.interval.zip(other.interval);
        Self {
            value: self.value / other.value,
            interval: interval
                .filter(|(_, below)| below.low > 0.0)
                .map(|(above, below)| Interval {
                    low: above.low / below.high,
                    high: above.high / below.low,
                }),
            operations: self.operations.min(other.operations),
            unattributed: self.unattributed.or(other.unattributed),
        }
    }

    /// Returns this figure as a part of a ledger that leaves this share of the whole unattributed, where that is too much.
    pub const fn leaving(self, unattributed: Option<f64>) -> Self {
        Self {
            unattributed,
            ..self
        }
    }

    /// Returns this figure times a number that is known exactly.
    pub fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            interval: self.interval.map(|interval| Interval {
                low: interval.low * factor,
                high: interval.high * factor,
            }),
            ..self
        }
    }

    /// A claim on an amount that cannot be below zero: a time, a rate, a quotient of two.
    pub fn amount(self) -> Result<Claim, Refusal> {
        if let Some(share) = self.unattributed {
            return Err(Refusal::Open(share));
        }
        if self.operations < LEAST {
            return Err(Refusal::Few(self.operations));
        }
        let Some(interval) = self.interval else {
            return Err(Refusal::NoInterval);
        };
        if !self.value.is_finite() || self.value < 0.0 || interval.low < 0.0 {
            return Err(Refusal::BelowZero);
        }
        if interval.low > 0.0 && interval.high > WIDEST * interval.low {
            return Err(Refusal::WideInterval);
        }
        Ok(Claim {
            value: self.value,
            interval,
        })
    }

    /// A claim on a share of a whole, in hundredths.
    pub fn share(self) -> Result<Claim, Refusal> {
        let claim = self.amount()?;
        if claim.value > 100.0 {
            return Err(Refusal::BeyondWhole);
        }
        Ok(claim)
    }
}

/// A figure that a finding may state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    value: f64,
    interval: Interval,
}

impl Claim {
    /// The figure.
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// Its 95 % interval.
    pub const fn interval(&self) -> Interval {
        self.interval
    }

    /// Tells whether the interval holds this number, so that the figure is not told from it.
    pub fn may_be(&self, number: f64) -> bool {
        (self.interval.low..=self.interval.high).contains(&number)
    }

    /// This claim times a number that is known exactly.
    pub fn times(self, factor: f64) -> Self {
        let Interval { low, high } = self.interval;
        Self {
            value: self.value * factor,
            interval: Interval {
                low: low * factor,
                high: high * factor,
            },
        }
    }

    /// This amount over the claim, which is above zero.
    #[must_use]
    pub fn under(self, amount: f64) -> Self {
        let Interval { low, high } = self.interval;
        Self {
            value: amount / self.value,
            interval: Interval {
                low: amount / high,
                high: amount / low,
            },
        }
    }

    /// Words of the value, or of its range where an end of the interval is farther off than [`EXACT`] allows: one number would be
    /// taken for more than is known.
    fn words(&self, one: impl Fn(f64) -> String, range: impl Fn(f64, f64) -> String) -> String {
        let Interval { low, high } = self.interval;
        if (high - self.value).max(self.value - low) <= EXACT * self.value {
            one(self.value)
        } else {
            range(low, high)
        }
    }

    /// A time in nanoseconds, in words.
    pub fn duration(&self) -> String {
        self.words(format::duration, format::duration_between)
    }

    /// A share, in words.
    pub fn percent(&self) -> String {
        let one = |value: f64| match value {
            small if small < 1.0 => "less than 1 %".to_owned(),
            value => format!("{value:.0} %"),
        };
        self.words(one, |low, high| match (low.floor(), high.ceil()) {
            (low, high) if high - low <= 2.0 => one(self.value),
            (low, high) => format!("{low:.0} to {high:.0} %"),
        })
    }

    /// A count, to the next whole number.
    pub fn count(&self) -> String {
        format::whole(self.value.round() as u64)
    }

    /// Three significant digits.
    pub fn significant(&self) -> String {
        self.words(format::significant, format::between)
    }

    /// Words of a quotient as what stands against it; none where no difference is shown. Where the quotient is told by what it adds,
    /// that is what has to be known.
    fn against(
        &self,
        one: impl Fn(f64) -> String,
        range: impl Fn(f64, f64) -> String,
    ) -> Option<String> {
        if self.may_be(1.0) {
            return None;
        }
        let Interval { low, high } = self.interval;
        let factor = |quotient: f64| match self.value < 1.0 {
            true => 1.0 / quotient,
            false => quotient,
        };
        let told = factor(self.value);
        let off = [low, high].map(|end| (factor(end) - told).abs());
        // Whole hundredths are told: one more or less is as near as they come.
        let known = match told < format::LEAST_FACTOR {
            true => (told - 1.0).max(0.1),
            false => told,
        };
        Some(match off[0].max(off[1]) <= EXACT * known {
            true => one(self.value),
            false => range(low, high),
        })
    }

    /// A quotient of two costs as how much quicker the first is; none where no difference is shown.
    pub fn speed(&self) -> Option<String> {
        self.against(format::speed, format::speed_between)
    }

    /// A quotient of two amounts as how much more or less the first is; none where no difference is shown.
    pub fn amount_against(&self) -> Option<String> {
        self.against(format::amount_against, format::amount_against_between)
    }

    /// A quotient of two amounts that may be equal: how far apart they may be, in words. Refused where they may be anything.
    pub fn same_within(&self) -> Result<String, Refusal> {
        let Interval { low, high } = self.interval;
        let half_width = (high - 1.0).max(1.0 - low);
        if half_width > SAME {
            return Err(Refusal::Uncertain { low, high });
        }
        let percent = format::significant(100.0 * half_width);
        Ok(format!("the same within {percent} %"))
    }
}

/// The reason why a finding does not state a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// There is none; the reason.
    NotMeasured(String),
    /// It rests on this few operations.
    Few(u64),
    /// It has no interval: too few repetitions, or none.
    NoInterval,
    /// Its ledger leaves this share of the whole unattributed.
    Open(f64),
    /// It is below zero, or not told from what is.
    BelowZero,
    /// The ends of its interval are too far apart.
    WideInterval,
    /// A share is larger than its whole.
    BeyondWhole,
    /// A quotient may be 1, and be anything between these.
    Uncertain {
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMeasured(reason) => f.write_str(reason),
            Self::Few(n) => write!(
                f,
                "{}, fewer than {}",
                format::counted(*n, "operation", "operations"),
                format::whole(LEAST)
            ),
            Self::NoInterval => f.write_str("it has no interval"),
            Self::Open(share) => f.write_str(&does_not_close(*share)),
            Self::BelowZero => f.write_str("it may be zero"),
            Self::WideInterval => {
                write!(f, "the ends of its interval are over {WIDEST} times apart")
            }
            Self::BeyondWhole => f.write_str("the part came out larger than the whole"),
            Self::Uncertain { low, high } => {
                write!(
                    f,
                    "it may be {} times as much",
                    format::between(*low, *high)
                )
            }
        }
    }
}

/// Says by which share a ledger fails to close. A share that is no part of a whole is not stated.
pub fn does_not_close(share: f64) -> String {
    let percent = 100.0 * share.abs();
    if percent > 100.0 || !percent.is_finite() {
        "the spans and the whole differ by more than the whole".to_owned()
    } else if share < 0.0 {
        format!("the spans sum to {percent:.1} % more than the whole")
    } else {
        format!("{percent:.1} % of the whole is unattributed")
    }
}

/// A finding in the making: what is stated, and what cannot be told.
#[derive(Debug, Default)]
pub struct Finding {
    clauses: Vec<String>,
    /// The figures that were refused, by reason.
    untold: Vec<(String, Vec<String>)>,
}

impl Finding {
    /// Adds a clause that is stated.
    pub fn say(&mut self, clause: impl Into<String>) {
        self.clauses.push(clause.into());
    }

    /// Notes that `what` cannot be told.
    pub fn refuse(&mut self, what: impl Into<String>, why: &Refusal) {
        let (what, why) = (what.into(), why.to_string());
        match self.untold.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, all)) if all.contains(&what) => {}
            Some((_, all)) => all.push(what),
            None => self.untold.push((why, vec![what])),
        }
    }

    /// The claim on `what`; a refusal is noted.
    pub fn claim(
        &mut self,
        what: impl Into<String>,
        claim: Result<Claim, Refusal>,
    ) -> Option<Claim> {
        claim.map_err(|why| self.refuse(what, &why)).ok()
    }

    /// Words of a quotient: those that `words` has where a difference is shown, else how far apart the two may be. A refusal is noted.
    pub fn comparison(
        &mut self,
        what: impl Into<String>,
        quotient: Result<Claim, Refusal>,
        words: impl Fn(&Claim) -> Option<String>,
    ) -> Option<String> {
        let what = what.into();
        let claim = self.claim(what.clone(), quotient)?;
        words(&claim)
            .map_or_else(|| claim.same_within(), Ok)
            .map_err(|why| self.refuse(what, &why))
            .ok()
    }

    /// Tells whether nothing is stated.
    pub const fn is_silent(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Tells whether there is nothing in it, stated or refused.
    pub const fn is_empty(&self) -> bool {
        self.clauses.is_empty() && self.untold.is_empty()
    }

    /// A sentence for each reason for which something cannot be told; none where nothing was refused.
    #[must_use]
    pub fn refused(&self) -> Option<String> {
        let sentence = |(why, what): &(String, Vec<String>)| {
            let named: Vec<String> = match what.as_slice() {
                [first, rest @ ..] if rest.len() > 1 => {
                    let more = format!("{} more", format::whole(rest.len() as u64));
                    vec![first.clone(), more]
                }
                all => all.to_vec(),
            };
            format!("{REFUSED}{} ({why}).", format::list(&named))
        };
        let sentences: Vec<String> = self.untold.iter().map(sentence).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// The text: a sentence for each clause that is stated, and one for each reason of what cannot be told.
    #[must_use]
    pub fn finish(self) -> FindingText {
        let clauses = self.clauses.iter();
        let mut sentences: Vec<String> = clauses
            .map(|clause| format::sentence(std::slice::from_ref(clause)))
            .collect();
        sentences.extend(self.refused());
        if sentences.is_empty() {
            sentences.push("Nothing was measured.".to_owned());
        }
        FindingText(sentences.join(" "))
    }
}

/// The text of a finding, which nothing else can make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingText(String);

impl FindingText {
    /// Finding of an experiment that cannot be run here, with the reason.
    pub fn unavailable(reason: &str) -> Self {
        Self(format!("{UNAVAILABLE}{reason}."))
    }
}

impl From<FindingText> for String {
    fn from(told: FindingText) -> Self {
        told.0
    }
}

impl fmt::Display for FindingText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::ops::Deref for FindingText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<&str> for FindingText {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(value: f64) -> Evidence {
        let interval = Interval {
            low: value - 0.5,
            high: value + 0.5,
        };
        Evidence::new(value, Some(interval), LEAST)
    }

    #[test]
    fn claims_are_made_of_what_can_be() {
        let claim = evidence(40.0).share().unwrap();
        assert_eq!((claim.value(), claim.percent().as_str()), (40.0, "40 %"));
        assert!(claim.may_be(40.4) && !claim.may_be(41.0));
        assert_eq!(evidence(100.0).share().map(|one| one.value()), Ok(100.0));
    }

    #[test]
    fn claims_that_are_not_exact_state_their_range() {
        let claim = |value: f64, low: f64, high: f64| {
            let interval = Some(Interval { low, high });
            Evidence::new(value, interval, LEAST).amount().unwrap()
        };
        let exact = claim(234.0, 220.0, 250.0);
        assert_eq!(exact.duration(), "234 ns");
        let wide = claim(234.0, 73.0, 395.0);
        assert_eq!(wide.duration(), "73 to 400 ns");
        assert_eq!(wide.times(1e-3).significant(), "0.073 to 0.40");
        assert_eq!(claim(30.0, 20.6, 39.4).percent(), "20 to 40 %");
        // Whole percents are as near as their neighbours.
        assert_eq!(claim(2.0, 1.4, 2.6).percent(), "2 %");
        assert_eq!(claim(0.5, 0.2, 1.4).percent(), "less than 1 %");
        assert_eq!(claim(0.5, 0.0, 30.0).percent(), "0 to 30 %");
        let quotient = claim(0.036, 0.011, 0.076);
        assert_eq!(quotient.speed().unwrap(), "13 to 91 times faster");
        assert_eq!(
            claim(0.036, 0.034, 0.038).speed().unwrap(),
            "28 times faster"
        );
        assert_eq!(claim(0.9, 0.7, 1.1).speed(), None);
        // A small difference is known as well as the difference, and not as the quotient.
        assert_eq!(
            claim(0.98, 0.961, 0.999).speed().unwrap(),
            "0 to 5 % faster"
        );
        assert_eq!(claim(0.9, 0.897, 0.903).speed().unwrap(), "11 % faster");
        assert_eq!(
            claim(1.1, 1.06, 1.14).amount_against().unwrap(),
            "6 to 14 % more"
        );
    }

    #[test]
    fn amounts_that_may_be_anything_are_not_called_the_same() {
        let quotient = |low: f64, high: f64| {
            let interval = Some(Interval { low, high });
            Evidence::new(1.1, interval, LEAST).amount()
        };
        let mut finding = Finding::default();
        let mut of = |quotient| finding.comparison("a against b", quotient, Claim::amount_against);
        assert_eq!(
            of(quotient(0.95, 1.3)).as_deref(),
            Some("the same within 30.0 %")
        );
        assert_eq!(of(quotient(1.09, 1.11)).as_deref(), Some("10 % more"));
        assert_eq!(of(quotient(0.2, 15.25)), None);
        assert_eq!(
            finding.finish(),
            "This run cannot tell a against b (it may be 0.20 to 16 times as much)."
        );
    }

    #[test]
    fn claims_are_refused_with_the_reason() {
        let few = Evidence {
            operations: 999,
            ..evidence(1.0)
        };
        assert_eq!(
            few.amount().unwrap_err().to_string(),
            "999 operations, fewer than 1,000"
        );
        let once = Evidence {
            interval: None,
            ..evidence(1.0)
        };
        assert_eq!(once.amount(), Err(Refusal::NoInterval));
        for below in [-3.0, 0.4, f64::NAN] {
            assert_eq!(evidence(below).amount(), Err(Refusal::BelowZero), "{below}");
        }
        let wide = |low| Evidence::new(0.13, Some(Interval { low, high: 121.0 }), LEAST).amount();
        assert_eq!(
            wide(0.0001).unwrap_err().to_string(),
            "the ends of its interval are over 100 times apart"
        );
        // One that reaches zero is an upper limit.
        assert!(wide(0.0).is_ok() && wide(1.3).is_ok());
        assert_eq!(evidence(115.0).share(), Err(Refusal::BeyondWhole));
        assert!(evidence(115.0).amount().is_ok());
        let open = evidence(40.0).leaving(Some(0.12)).share().unwrap_err();
        assert_eq!(open.to_string(), "12.0 % of the whole is unattributed");
    }

    #[test]
    fn claims_state_no_unattributed_share_beyond_the_whole() {
        for share in [-11.66, 7.91, f64::NAN] {
            assert!(!does_not_close(share).contains('%'), "{share}");
        }
        assert!(does_not_close(-0.07).ends_with("sum to 7.0 % more than the whole"));
    }

    #[test]
    fn findings_say_what_cannot_be_told_and_why() {
        let mut finding = Finding::default();
        assert!(finding.claim("a", Err(Refusal::NoInterval)).is_none());
        finding.refuse("b", &Refusal::NoInterval);
        finding.refuse("b", &Refusal::NoInterval);
        finding.refuse("c", &Refusal::BeyondWhole);
        assert!(!finding.is_empty());
        finding.say("d takes 2 ns");
        assert_eq!(
            finding.finish(),
            "D takes 2 ns. This run cannot tell a and b (it has no interval). This run cannot tell c (the part came out larger than the \
             whole)."
        );
        assert_eq!(Finding::default().finish(), "Nothing was measured.");
    }
}

//! Numbers as people read them: three significant digits, thousands apart, one unit for all that is compared.

use tollgate_run::{Interval, Unit};

/// The least number that is shown by its power of ten: in full it would be longer than a column is wide.
const LONGEST: f64 = 1e12;
/// An interval is lopsided where its middle is more than this share of half its width beside the value.
const LOPSIDED: f64 = 0.25;
/// Times a value beyond which its error has no more digits than a value of the error's size.
const FAR_BEYOND: f64 = 100.0;
/// The share of a value below which nobody sees that its interval is lopsided.
const UNSEEN: f64 = 0.05;

/// Format of the numbers of one unit: a divisor, and the name of the scaled unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FormattedColumn {
    divisor: f64,
    /// The name in ASCII, empty when there is none.
    pub(crate) name: &'static str,
    /// Tells whether whole numbers are shown to the last digit.
    exact: bool,
}

const TIME: &[(f64, &str)] = &[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")];
const BYTE_RATE: &[(f64, &str)] = &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")];
const RATE: &[(f64, &str)] = &[(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s")];

/// Times a value up to which the upper end of its interval bounds it.
const BOUND: f64 = 1_000.0;

impl FormattedColumn {
    /// Chooses the prefix for numbers that are shown together: the largest that leaves the (geometric) middle between the
    /// least and the most at 1 or above.
    pub(crate) fn choose(unit: Unit, values: impl IntoIterator<Item = f64> + Clone) -> Self {
        let fixed = |name, exact| Self {
            divisor: 1.0,
            name,
            exact,
        };
        let steps = match unit {
            Unit::Nanoseconds => TIME,
            Unit::BytesPerSecond => BYTE_RATE,
            Unit::PerSecond => RATE,
            Unit::None => return fixed("", false),
            Unit::NanosecondsPerByte => return fixed("ns/B", false),
            Unit::Instructions => return fixed("instr", true),
            Unit::Bytes => return fixed("B", true),
            Unit::Percent => return fixed("%", false),
            Unit::Ratio => return fixed("x", false),
            Unit::Count => return fixed("", true),
            Unit::Cycles => return fixed("cycles", true),
        };
        let sizes = || {
            values
                .clone()
                .into_iter()
                .map(f64::abs)
                .filter(|v| v.is_finite() && *v > 0.0)
        };
        let least = sizes().fold(f64::INFINITY, f64::min);
        let most = sizes().fold(0.0, f64::max);
        let middle = if most > 0.0 {
            least.sqrt() * most.sqrt()
        } else {
            0.0
        };
        let fitting = steps.iter().rev().find(|(divisor, _)| middle >= *divisor);
        let (divisor, name) = *fitting.unwrap_or(&steps[0]);
        Self {
            divisor,
            name,
            exact: false,
        }
    }

    /// The number without its unit.
    pub(crate) fn number(self, value: f64) -> String {
        let scaled = value / self.divisor;
        if self.exact && scaled.fract() == 0.0 {
            return group_thousands(&format!("{scaled:.0}"));
        }
        significant(scaled)
    }

    /// An error of the value: with as many decimals as the value has, and with as many more as show a digit other than zero.
    pub(crate) fn like(self, error: f64, value: f64) -> String {
        let shown = value / self.divisor;
        let value = self.number(value);
        let error = error / self.divisor;
        if error.abs() >= LONGEST || error.abs() > FAR_BEYOND * shown.abs() {
            return significant(error);
        }
        let decimals = fraction_width(&value).saturating_sub(1);
        let shows = |decimals: &usize| error.abs() * 10_f64.powi(*decimals as i32) >= 0.5;
        let decimals = (decimals..=9).find(shows).unwrap_or(decimals);
        group_thousands(&format!("{error:.decimals$}"))
    }

    /// The error of a value as it stands behind it: half the width of its interval, or the ends where half the width would be taken for
    /// another interval. An interval of few sessions by their logarithms may end so far up that its end says nothing.
    pub(crate) fn error(self, value: f64, ci: Interval) -> String {
        if ci.low > 0.0 && ci.high > BOUND * value {
            return "(unbounded)".to_owned();
        }
        let half = (ci.high - ci.low) / 2.0;
        let off = ((ci.high + ci.low) / 2.0 - value).abs();
        let lopsided = off > LOPSIDED * half && off > UNSEEN * value.abs();
        if lopsided {
            let [low, high] = [ci.low, ci.high].map(|end| self.like(end, value));
            format!("({low} to {high})")
        } else {
            format!("±{}", self.like(half, value))
        }
    }

    /// The number with its unit.
    pub(crate) fn with_unit(self, value: f64) -> String {
        let number = self.number(value);
        match self.name {
            "" => number,
            name => format!("{number} {name}"),
        }
    }
}

/// One number with the unit that suits it.
pub(crate) fn alone(unit: Unit, value: f64) -> String {
    FormattedColumn::choose(unit, [value]).with_unit(value)
}

/// Three significant digits, at least the whole part, thousands apart; of what is very large the power of ten.
pub(crate) fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return value.to_string();
    }
    if value.abs() >= LONGEST {
        return format!("{value:.2e}");
    }
    // Rounding may carry into another digit: 9.996 becomes 10.0, not 10.00.
    let exponent = value.abs().log10().floor();
    let rounded = format!("{:.2e}", value);
    let exponent = rounded
        .rsplit_once('e')
        .map_or(exponent, |(_, e)| e.parse().unwrap_or(exponent));
    let decimals = (2.0 - exponent).clamp(0.0, 9.0);
    group_thousands(&format!("{value:.0$}", decimals as usize))
}

/// Puts a comma between each three digits of the whole part.
pub(crate) fn group_thousands(number: &str) -> String {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number),
    };
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

/// Counts the characters behind the whole part, the point included.
pub(crate) fn fraction_width(number: &str) -> usize {
    number.find('.').map_or(0, |at| number.len() - at)
}

/// A share as percent with two significant digits.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = match percent.abs() {
        ..0.995 => 2,
        ..9.95 => 1,
        _ => 0,
    };
    format!("{percent:.digits$} %")
}

/// Percent with a sign, for differences and residuals.
pub(crate) fn signed_percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = if percent.abs() < 10.0 { 1 } else { 0 };
    let text = format!("{percent:+.digits$}");
    if text.trim_start_matches(['+', '-', '0', '.']).is_empty() {
        return "0 %".to_owned();
    }
    format!("{text} %")
}

/// A number of bytes of memory in binary units.
pub(crate) fn memory(bytes: u64) -> String {
    const GIB: f64 = 1_073_741_824.0;
    let gib = bytes as f64 / GIB;
    if gib >= 1.0 {
        format!("{gib:.1} GiB")
    } else {
        format!("{:.0} MiB", gib * 1_024.0)
    }
}

/// A frequency.
pub(crate) fn frequency(hz: f64) -> String {
    if hz >= 1e9 {
        format!("{} GHz", significant(hz / 1e9))
    } else if hz >= 1e6 {
        format!("{} MHz", significant(hz / 1e6))
    } else {
        format!("{} Hz", significant(hz))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_digits_count() {
        for (value, text) in [
            (0.0, "0"),
            (0.320_4, "0.320"),
            (0.001_234, "0.00123"),
            (9.996, "10.0"),
            (14.12, "14.1"),
            (99.96, "100"),
            (999.6, "1,000"),
            (123.4, "123"),
            (40_000.0, "40,000"),
            (1_234_567.8, "1,234,568"),
            (-4_475.0, "-4,475"),
            (-0.5, "-0.500"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn the_middle_chooses_the_unit_for_all() {
        let shown = FormattedColumn::choose(Unit::Nanoseconds, [340.0, 5_700.0, 14_100.0]);
        assert_eq!(shown.name, "us");
        assert_eq!(
            [340.0, 5_700.0, 14_100.0].map(|ns| shown.number(ns)),
            ["0.340", "5.70", "14.1"]
        );
        assert_eq!(
            FormattedColumn::choose(Unit::Nanoseconds, [22.0]).with_unit(22.0),
            "22.0 ns"
        );
        assert_eq!(FormattedColumn::choose(Unit::Nanoseconds, []).name, "ns");
        assert_eq!(
            FormattedColumn::choose(Unit::Nanoseconds, [f64::NAN, 2e6]).name,
            "ms"
        );
        assert_eq!(alone(Unit::BytesPerSecond, 3.2e9), "3.20 GB/s");
    }

    #[test]
    fn counts_are_shown_to_the_last_digit() {
        assert_eq!(alone(Unit::Instructions, 4_475.0), "4,475 instr");
        assert_eq!(alone(Unit::Instructions, 12.0), "12 instr");
        assert_eq!(alone(Unit::Instructions, 12.345), "12.3 instr");
    }

    #[test]
    fn errors_of_lopsided_intervals_are_their_ends() {
        let shown = FormattedColumn::choose(Unit::Nanoseconds, [791.0]);
        let error = |value: f64, low: f64, high: f64| shown.error(value, Interval { low, high });
        assert_eq!(error(791.0, 781.0, 803.0), "±11");
        assert_eq!(error(791.0, 101.0, 2_938.0), "(101 to 2,938)");
        assert_eq!(error(791.0, -300.0, 1_882.0), "±1,091");
        assert_eq!(error(14.3, -7.4, 36.0), "±21.7");
        // Nobody sees this in three digits.
        assert_eq!(error(791.0, 790.0, 804.0), "±7");
    }

    #[test]
    fn an_interval_that_bounds_nothing_has_no_ends() {
        let column = FormattedColumn::choose(Unit::Nanoseconds, [120.0]);
        let error = |low: f64, high: f64| column.error(120.0, Interval { low, high });
        assert_eq!(error(1e-27, 9.24e30), "(unbounded)");
        assert_eq!(error(12.0, 12_000.0), "(12 to 12,000)");
        // One about zero is of a difference: it says how large that may be.
        let difference = Interval {
            low: -800.0,
            high: 800.2,
        };
        assert_eq!(column.error(0.1, difference), "±800");
    }

    #[test]
    fn very_large_numbers_are_shown_by_their_power_of_ten() {
        assert_eq!(significant(2.964e175), "2.96e175");
        assert_eq!(significant(-4e12), "-4.00e12");
        assert_eq!(significant(4e11), "400,000,000,000");
    }

    #[test]
    fn shares_have_two_digits() {
        assert_eq!(
            [0.002, 0.0099, 0.012, 0.0996, 0.5].map(percent),
            ["0.20 %", "0.99 %", "1.2 %", "10 %", "50 %"]
        );
    }

    #[test]
    fn shares_carry_their_sign() {
        assert_eq!(signed_percent(0.008), "+0.8 %");
        assert_eq!(signed_percent(-0.123), "-12 %");
        assert_eq!(signed_percent(-0.000_01), "0 %");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_within_half_a_unit_of_the_third_digit(value in -1e12_f64..1e12) {
            let shown: f64 = significant(value).replace(',', "").parse().unwrap();
            prop_assert!((shown - value).abs() <= value.abs() * 0.005_000_1 + 1e-9);
        }

        #[test]
        fn commas_stand_before_each_three_digits(number in 0_u64..u64::MAX) {
            let grouped = group_thousands(&number.to_string());
            prop_assert_eq!(grouped.replace(',', ""), number.to_string());
            let mut groups = grouped.split(',');
            prop_assert!((1..=3).contains(&groups.next().unwrap().len()));
            prop_assert!(groups.all(|group| group.len() == 3));
        }
    }
}

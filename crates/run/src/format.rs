//! Numbers in sentences for people.

/// Three significant digits, with commas between thousands.
#[must_use]
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = |value: f64| {
        let exponent = value.abs().log10().floor() as i32;
        usize::try_from(2 - exponent).unwrap_or(0).min(9)
    };
    let text = format!("{value:.*}", digits(value));
    // Rounding may have added a digit in front: 9.996 is 10.0.
    let text = match text.parse::<f64>() {
        Ok(rounded) if digits(rounded) < digits(value) => {
            format!("{rounded:.*}", digits(rounded))
        }
        _ => text,
    };
    thousands_of(&text)
}

/// Commas between the thousands of a number's digits.
fn thousands_of(text: &str) -> String {
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", thousands(whole)),
        None => thousands(text),
    }
}

/// Commas between the thousands of a whole number's digits.
fn thousands(digits: &str) -> String {
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits), |rest| ("-", rest));
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

/// A whole number, with commas between thousands.
#[must_use]
pub fn whole(value: u64) -> String {
    thousands(&value.to_string())
}

/// A count of things: `counted(n, "packet is", "packets are")` gives `1 packet is` or `2,000 packets are`.
#[must_use]
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", whole(n), if n == 1 { one } else { many })
}

/// A word as a shell reads it back.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A count of bytes, in a sentence; [`size`] is for headings.
#[must_use]
pub fn bytes(n: usize) -> String {
    counted(n as u64, "byte", "bytes")
}

/// Nanoseconds in the unit that suits them.
#[must_use]
pub fn duration(ns: f64) -> String {
    let (unit, name) = unit(ns);
    format!("{} {name}", significant(ns / unit))
}

/// The unit that suits so many nanoseconds: how many it has, and its name.
fn unit(ns: f64) -> (f64, &'static str) {
    match ns.abs() {
        size if size >= 999.5e6 => (1e9, "s"),
        size if size >= 999.5e3 => (1e6, "ms"),
        size if size >= 999.5 => (1e3, "us"),
        _ => (1.0, "ns"),
    }
}

/// The end of a range.
#[derive(Clone, Copy)]
enum End {
    Low,
    High,
}

/// An end of a range in two significant digits, rounded so that the range grows.
fn two_digits(value: f64, end: End) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let step = 10_f64.powi(value.abs().log10().floor() as i32 - 1);
    // What is a whole number of steps but for its last bits stays.
    let steps = match end {
        End::Low => (value / step + 1e-9).floor(),
        End::High => (value / step - 1e-9).ceil(),
    };
    let decimals = usize::try_from(-step.log10().round() as i32).unwrap_or(0);
    thousands_of(&format!("{:.decimals$}", steps * step))
}

/// The two ends of a range with what comes behind them, which is said once where both have it.
fn range_of((low, low_unit): (String, &str), (high, high_unit): (String, &str)) -> String {
    if low_unit != high_unit {
        format!("{low} {low_unit} to {high} {high_unit}")
    } else if low == high {
        format!("{high} {high_unit}")
    } else {
        format!("{low} to {high} {high_unit}")
    }
}

/// The range of a number: `0.41 to 1.3`.
#[must_use]
pub fn between(low: f64, high: f64) -> String {
    let ends = [two_digits(low, End::Low), two_digits(high, End::High)];
    ends.join(" to ")
}

/// The range of a time in nanoseconds, in the unit that suits its end: `73 to 400 ns`.
#[must_use]
pub fn duration_between(low: f64, high: f64) -> String {
    let (unit, name) = unit(high);
    format!("{} {name}", between(low / unit, high / unit))
}

/// Text of a quotient, as a multiple or a share: `0.41`, `12`.
#[must_use]
pub fn factor(ratio: f64) -> String {
    match ratio {
        r if r >= 9.95 => whole(r.round() as u64),
        r if r >= 0.995 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

/// A quotient of two costs as how much quicker the first is: `2.5 times faster`, `4 % slower`.
#[must_use]
pub fn speed(ratio: f64) -> String {
    if ratio < 1.0 {
        format!("{} faster", by_how_much(1.0 / ratio))
    } else {
        format!("{} slower", by_how_much(ratio))
    }
}

/// The range of such a quotient, which does not hold 1: `13 to 90 times faster`.
#[must_use]
pub fn speed_between(low: f64, high: f64) -> String {
    if high < 1.0 {
        format!("{} faster", by_how_much_between(1.0 / high, 1.0 / low))
    } else {
        format!("{} slower", by_how_much_between(low, high))
    }
}

/// A quotient of two amounts as how much more or less the first is: `2.5 times more`, `4 % less`.
#[must_use]
pub fn amount_against(ratio: f64) -> String {
    if ratio < 1.0 {
        format!("{} less", by_how_much(1.0 / ratio))
    } else {
        format!("{} more", by_how_much(ratio))
    }
}

/// The range of such a quotient, which does not hold 1: `2 to 9 % less`.
#[must_use]
pub fn amount_against_between(low: f64, high: f64) -> String {
    if high < 1.0 {
        format!("{} less", by_how_much_between(1.0 / high, 1.0 / low))
    } else {
        format!("{} more", by_how_much_between(low, high))
    }
}

/// The factor from which on it is stated itself, and not what it adds in percent.
pub const LEAST_FACTOR: f64 = 1.2;

/// A factor of 1 or more; a small one as what it adds.
fn by_how_much(factor: f64) -> String {
    match 100.0 * (factor - 1.0) {
        percent if percent < 1.0 => "less than 1 %".to_owned(),
        percent if factor < LEAST_FACTOR => format!("{percent:.0} %"),
        _ => format!("{} times", self::factor(factor)),
    }
}

/// The range of a factor of 1 or more; small ones as what they add. Both ends have one unit.
fn by_how_much_between(low: f64, high: f64) -> String {
    let low = low.max(1.0);
    let adds_nothing = low < 1.01;
    if !high.is_finite() {
        return match adds_nothing {
            true => "any number of times".to_owned(),
            false => format!("at least {} times", low_factor(low)),
        };
    }
    if low < LEAST_FACTOR && high >= LEAST_FACTOR {
        let high = two_digits(high, End::High);
        return match adds_nothing {
            true => format!("up to {high} times"),
            false => format!("{} to {high} times", low_factor(low)),
        };
    }
    let end = |factor: f64, end: End| {
        if factor >= LEAST_FACTOR {
            return (two_digits(factor, end), "times");
        }
        let percent = 100.0 * (factor - 1.0);
        let percent = match end {
            End::Low => (percent + 1e-9).floor(),
            End::High => (percent - 1e-9).ceil(),
        };
        (format!("{percent:.0}"), "%")
    };
    range_of(end(low, End::Low), end(high, End::High))
}

/// The lower end of a range of factors: a small one in hundredths, rounded down.
fn low_factor(low: f64) -> String {
    match low < LEAST_FACTOR {
        true => format!("{:.2}", (100.0 * low + 1e-9).floor() / 100.0),
        false => two_digits(low, End::Low),
    }
}

/// A size as the heading of a column.
#[must_use]
pub fn size(bytes: usize) -> String {
    format!("{} B", whole(bytes as u64))
}

/// The bytes that a size in words like `1,400 B` gives.
#[must_use]
pub fn parse_size(words: &str) -> Option<f64> {
    words.strip_suffix(" B")?.replace(',', "").parse().ok()
}

/// `one`, `one and two`, `one, two and three`.
#[must_use]
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The least and the most, once when they are the same.
#[must_use]
pub fn range(values: impl Iterator<Item = u64>) -> Option<String> {
    let (mut least, mut most) = (u64::MAX, 0);
    for value in values {
        least = least.min(value);
        most = most.max(value);
    }
    (least <= most).then(|| {
        if least == most {
            whole(least)
        } else {
            format!("{} to {}", whole(least), whole(most))
        }
    })
}

/// One sentence of several findings; empty when there are none.
#[must_use]
pub fn sentence(findings: &[String]) -> String {
    let text = findings.join("; ");
    let mut rest = text.chars();
    match rest.next() {
        None => String::new(),
        Some(first) => format!("{}{}.", first.to_uppercase(), rest.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        for (value, text) in [
            (0.0, "0"),
            (0.320_4, "0.320"),
            (9.996, "10.0"),
            (14.12, "14.1"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-40_000.0, "-40,000"),
        ] {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn one_is_one_and_all_else_is_many() {
        let told = |n| counted(n, "packet is", "packets are");
        assert_eq!(told(0), "0 packets are");
        assert_eq!(told(1), "1 packet is");
        assert_eq!(told(2_000), "2,000 packets are");
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(8_192), "8,192 bytes");
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("--size=4,20"), "--size=4,20");
        assert_eq!(quoted("my file"), "'my file'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn durations_choose_their_unit() {
        assert_eq!(duration(118.2), "118 ns");
        assert_eq!(duration(999.6), "1.00 us");
        assert_eq!(duration(14_100.0), "14.1 us");
        assert_eq!(duration(2.5e6), "2.50 ms");
        assert_eq!(duration(1.25e9), "1.25 s");
    }

    #[test]
    fn factors_are_short() {
        assert_eq!(factor(0.406), "0.41");
        assert_eq!(factor(0.997), "1.0");
        assert_eq!(factor(2.53), "2.5");
        assert_eq!(factor(111.2), "111");
    }

    #[test]
    fn quotients_say_how_much_faster_or_slower() {
        for (ratio, text) in [
            (0.04, "25 times faster"),
            (0.4, "2.5 times faster"),
            (0.96, "4 % faster"),
            (1.001, "less than 1 % slower"),
            (1.1, "10 % slower"),
            (3.0, "3.0 times slower"),
        ] {
            assert_eq!(speed(ratio), text);
        }
        assert_eq!(amount_against(0.5), "2.0 times less");
        assert_eq!(amount_against(1.04), "4 % more");
    }

    #[test]
    fn ranges_hold_what_they_are_made_of() {
        assert_eq!(between(0.413, 1.21), "0.41 to 1.3");
        assert_eq!(between(0.0, 40.0), "0 to 40");
        assert_eq!(between(0.3, 2_030.0), "0.30 to 2,100");
        assert_eq!(duration_between(73.4, 395.0), "73 to 400 ns");
        assert_eq!(duration_between(900.0, 1_210.0), "0.90 to 1.3 us");
        for (low, high, text) in [
            (0.011, 0.076, "13 to 91 times faster"),
            (0.90, 0.975, "2 to 12 % faster"),
            (0.5, 0.95, "1.05 to 2.0 times faster"),
            (1.0 / 10.9, 0.998, "up to 11 times faster"),
            (1.003, 1.31, "up to 1.4 times slower"),
            (0.0, 0.3, "at least 3.3 times faster"),
            (1.001, 1.04, "0 to 4 % slower"),
            (2.0, 3.01, "2.0 to 3.1 times slower"),
        ] {
            assert_eq!(speed_between(low, high), text);
        }
        assert_eq!(amount_against_between(0.41, 0.5), "2.0 to 2.5 times less");
    }

    #[test]
    fn lists_read_as_english() {
        let words =
            |items: &[&str]| list(&items.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&[]), "");
        assert_eq!(words(&["a"]), "a");
        assert_eq!(words(&["a", "b", "c"]), "a, b and c");
        assert_eq!(
            range([3, 1_000, 20].into_iter()).as_deref(),
            Some("3 to 1,000")
        );
        assert_eq!(range([7, 7].into_iter()).as_deref(), Some("7"));
        assert_eq!(range(std::iter::empty()), None);
    }

    #[test]
    fn findings_make_one_sentence() {
        let findings = ["a stream takes 2".to_owned(), "b takes 3".to_owned()];
        assert_eq!(sentence(&findings), "A stream takes 2; b takes 3.");
        assert_eq!(sentence(&[]), "");
    }
}

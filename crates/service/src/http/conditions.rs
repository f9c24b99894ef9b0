//! Conditions of a request and the part of a file that it asks for (RFC 9110, 13 and 14).

use std::time::{Duration, SystemTime};

use super::request::Conditions;
use super::root::Document;

/// Outcome of the conditions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All of the file.
    Whole,
    /// From this byte on so many bytes.
    Part(u64, u64),
    /// No byte of the file is in the range.
    Unsatisfiable,
    /// The peer has it already.
    NotModified,
    /// The file is not the one that the peer means.
    PreconditionFailed,
}

/// Evaluates conditions in the order of RFC 9110, 13.2.2.
pub(super) fn evaluate(conditions: &Conditions<'_>, document: &Document) -> Verdict {
    let modified = whole_seconds(document.modified);
    let date = |field: Option<&str>| field.and_then(|text| httpdate::parse_http_date(text).ok());
    match &conditions.if_match {
        Some(tags) if !matches(tags, &document.tag, Comparison::Strong) => {
            return Verdict::PreconditionFailed;
        }
        Some(_) => {}
        None => {
            if date(conditions.if_unmodified_since).is_some_and(|date| modified > date) {
                return Verdict::PreconditionFailed;
            }
        }
    }
    match &conditions.if_none_match {
        Some(tags) if matches(tags, &document.tag, Comparison::Weak) => {
            return Verdict::NotModified;
        }
        Some(_) => {}
        None => {
            if date(conditions.if_modified_since).is_some_and(|date| modified <= date) {
                return Verdict::NotModified;
            }
        }
    }
    let Some(range) = conditions.range else {
        return Verdict::Whole;
    };
    let applies = match conditions.if_range {
        None => true,
        Some(tag) if tag.starts_with('"') => tag == document.tag,
        // A date is a strong validator only when nothing can have changed within its second (RFC 9110, 13.1.5 and 8.8.2.2).
        Some(text) => {
            date(Some(text)) == Some(modified)
                && SystemTime::now()
                    .duration_since(modified)
                    .is_ok_and(|age| age >= Duration::from_secs(1))
        }
    };
    if !applies {
        return Verdict::Whole;
    }
    part(range, document.length)
}

/// The part that a Range field names. Several parts, other units and what is no range are ignored, as RFC 9110, 14.2 permits.
fn part(range: &str, length: u64) -> Verdict {
    let Some((unit, spec)) = range.split_once('=') else {
        return Verdict::Whole;
    };
    let spec = spec.trim();
    if !unit.trim().eq_ignore_ascii_case("bytes") || spec.contains(',') {
        return Verdict::Whole;
    }
    let Some((first, last)) = spec.split_once('-') else {
        return Verdict::Whole;
    };
    // Numbers that are too large for any file are behind the end of this one.
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if last < first => Verdict::Whole,
        (Some(first), _) if first >= length && (last.is_empty() || number(last).is_some()) => {
            Verdict::Unsatisfiable
        }
        (Some(first), Some(last)) => Verdict::Part(first, last.min(length - 1) - first + 1),
        (Some(first), None) if last.is_empty() => Verdict::Part(first, length - first),
        (None, Some(0)) if first.is_empty() => Verdict::Unsatisfiable,
        (None, Some(_)) if first.is_empty() && length == 0 => Verdict::Unsatisfiable,
        (None, Some(suffix)) if first.is_empty() => {
            let bytes = suffix.min(length);
            Verdict::Part(length - bytes, bytes)
        }
        _ => Verdict::Whole,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Tells whether a list of entity tags has this one, which is strong (RFC 9110, 8.8.3.2).
fn matches(tags: &str, tag: &str, comparison: Comparison) -> bool {
    tags.split(',').map(str::trim).any(|given| {
        let weak = given.strip_prefix("W/");
        match comparison {
            _ if given == "*" => true,
            Comparison::Strong => given == tag,
            Comparison::Weak => weak.unwrap_or(given) == tag,
        }
    })
}

/// A time as HTTP tells it.
pub(super) fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.map_or(0, |since| since.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_are_those_of_the_rfc() {
        for (range, verdict) in [
            ("bytes=0-499", Verdict::Part(0, 500)),
            ("bytes=9500-", Verdict::Part(9500, 500)),
            ("bytes=-500", Verdict::Part(9500, 500)),
            ("bytes=-99999", Verdict::Part(0, 10_000)),
            ("bytes=9999-99999999999999999999999", Verdict::Part(9999, 1)),
            ("bytes=10000-", Verdict::Unsatisfiable),
            ("bytes=10000-10001", Verdict::Unsatisfiable),
            ("bytes=-0", Verdict::Unsatisfiable),
            ("bytes=5-4", Verdict::Whole),
            ("bytes=0-1,5-6", Verdict::Whole),
            ("lines=0-1", Verdict::Whole),
            ("bytes=a-b", Verdict::Whole),
            ("bytes=-", Verdict::Whole),
            ("bytes", Verdict::Whole),
            ("bytes=99999-x", Verdict::Whole),
        ] {
            assert_eq!(part(range, 10_000), verdict, "{range}");
        }
        assert_eq!(part("bytes=-5", 0), Verdict::Unsatisfiable);
    }

    proptest! {
        #[test]
        fn parts_lie_within_the_file(range in "bytes=[0-9]{0,3}-[0-9]{0,3}", length in 0u64..200) {
            if let Verdict::Part(at, bytes) = part(&range, length) {
                prop_assert!(bytes > 0 && at + bytes <= length);
            }
        }
    }

    #[test]
    fn tags_are_compared_strongly_and_weakly() {
        assert!(matches("\"a\", \"b\"", "\"b\"", Comparison::Strong));
        assert!(!matches("W/\"b\"", "\"b\"", Comparison::Strong));
        assert!(matches("W/\"b\"", "\"b\"", Comparison::Weak));
        assert!(matches("*", "\"b\"", Comparison::Weak));
    }
}

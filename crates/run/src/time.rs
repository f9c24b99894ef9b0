//! Moments as a run carries them: whole seconds in UTC, written as RFC 3339 section 5.6.
//!
//! This module never reads the clock; the caller hands over a `SystemTime`.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment, in whole seconds since 1970 UTC; written as RFC 3339 (`2026-11-21T20:39:00Z`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Timestamp {
    unix_seconds: u64,
}

/// The text is not a moment that a run can carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot read {text:?} as a time: expected RFC 3339 in UTC with whole seconds, like 2026-11-21T20:39:00Z, \
     of 1970 or later"
)]
pub struct TimestampError {
    text: String,
}

const SECONDS_PER_DAY: u64 = 86_400;

impl From<SystemTime> for Timestamp {
    /// Drops the fraction of a second. A clock set before 1970 gives 1970.
    fn from(time: SystemTime) -> Self {
        let unix_seconds = time
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Self {
            unix_seconds: unix_seconds.min(Self::LAST),
        }
    }
}

impl Timestamp {
    /// The last second of the year 9999: RFC 3339 has four digits for the year.
    const LAST: u64 = 253_402_300_799;

    /// Seconds since 1970 UTC.
    #[must_use]
    pub fn unix_seconds(self) -> u64 {
        self.unix_seconds
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.unix_seconds / SECONDS_PER_DAY);
        let second = self.unix_seconds % SECONDS_PER_DAY;
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z",
            second % 60
        )
    }
}

impl From<Timestamp> for String {
    fn from(timestamp: Timestamp) -> Self {
        timestamp.to_string()
    }
}

impl TryFrom<String> for Timestamp {
    type Error = TimestampError;

    fn try_from(text: String) -> Result<Self, TimestampError> {
        match parse_timestamp(&text) {
            Some(timestamp) => Ok(timestamp),
            None => Err(TimestampError { text }),
        }
    }
}

fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let days = days_from_civil(number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let seconds = number(11, 13)? * 3_600 + number(14, 16)? * 60 + number(17, 19)?;
    let timestamp = Timestamp {
        unix_seconds: days? * SECONDS_PER_DAY + seconds,
    };
    // Writing it back proves separators, ranges and the length of the month at once.
    (timestamp.to_string() == text).then_some(timestamp)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The civil date of a day counted from 1970-01-01, by walking years and months: at most some thousand steps.
fn civil_from_days(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    while days >= days_in_month(year, month) {
        days -= days_in_month(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let years: u64 = (1970..year)
        .map(|year| 365 + u64::from(is_leap(year)))
        .sum();
    let months: u64 = (1..month).map(|month| days_in_month(year, month)).sum();
    Some(years + months + day - 1)
}

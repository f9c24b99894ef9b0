//! Faults as words: `drop=0.01,duplicate=0.01,delay=10ms`.

use super::{Corrupt, Faults, Probability};
use std::str::FromStr;
use std::time::Duration;

/// Words that are no faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultsError {
    /// There is no fault of this name.
    #[error(
        "unknown fault `{name}`; known: drop, duplicate, reorder, corrupt, truncate (each with a probability), delay, jitter (each \
         with a time such as 10ms), longest (bytes)"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A fault has no such value.
    #[error("`{value}` is no value of the fault {name}: {wanted}")]
    Value {
        /// The fault's name.
        name: String,
        /// The value that was given.
        value: String,
        /// Values that it takes.
        wanted: &'static str,
    },
}

impl FromStr for Faults {
    type Err = FaultsError;

    /// Reads faults by their fields' names, separated by commas. Damage leaves the Ethernet header whole.
    fn from_str(given: &str) -> Result<Self, FaultsError> {
        let mut faults = Self {
            corrupt_at: Corrupt::From(ETHERNET_HEADER),
            ..Self::default()
        };
        for word in given.split(',') {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let refused = |wanted| FaultsError::Value {
                name: name.to_owned(),
                value: value.to_owned(),
                wanted,
            };
            let probability = || {
                let chance = value.parse().ok();
                chance
                    .and_then(|chance| Probability::new(chance).ok())
                    .ok_or_else(|| refused("give a number between 0 and 1"))
            };
            let time = || {
                milliseconds(value)
                    .ok_or_else(|| refused("give a time in milliseconds, such as 10ms"))
            };
            match name {
                "drop" => faults.drop = probability()?,
                "duplicate" => faults.duplicate = probability()?,
                "reorder" => faults.reorder = probability()?,
                "corrupt" => faults.corrupt = probability()?,
                "truncate" => faults.truncate = probability()?,
                "delay" => faults.delay = time()?,
                "jitter" => faults.jitter = time()?,
                "longest" => {
                    let bytes = value.parse();
                    faults.longest = Some(bytes.map_err(|_| refused("give a number of bytes"))?);
                }
                _ => {
                    return Err(FaultsError::Name {
                        name: name.to_owned(),
                    });
                }
            }
        }
        Ok(faults)
    }
}

/// Bytes of an Ethernet header, which has no check that a stack could see fail.
const ETHERNET_HEADER: u16 = tollgate_wire::ethernet::HEADER_LEN as u16;

fn milliseconds(given: &str) -> Option<Duration> {
    let number: f64 = given.strip_suffix("ms")?.parse().ok()?;
    Duration::try_from_secs_f64(number / 1e3).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_by_name() {
        let faults: Faults = "drop=0.25,delay=1.5ms,longest=900".parse().unwrap();
        assert_eq!(faults.drop, Probability::new(0.25).unwrap());
        assert_eq!(faults.delay, Duration::from_micros(1500));
        assert_eq!(faults.longest, Some(900));
        assert_eq!(faults.duplicate, Probability::NEVER);
    }

    #[test]
    fn words_that_are_no_faults_are_refused() {
        for given in [
            "",
            "loss=1",
            "drop",
            "drop=2",
            "delay=10",
            "delay=-1ms",
            "longest=x",
        ] {
            assert!(given.parse::<Faults>().is_err(), "{given}");
        }
        assert_eq!(
            "drop=2".parse::<Faults>().unwrap_err().to_string(),
            "`2` is no value of the fault drop: give a number between 0 and 1"
        );
    }
}

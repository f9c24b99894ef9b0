//! Faults of a line of cells, as users give them behind the name of its link: `loss=1e-4,bits=1e-6,seed=3,when-full=lose`.
//!
//! It owns the names, ranges and texts of these, and the counts that a session tells of its adapters. How a line makes
//! faults is [`tollgate_link::atm`]'s.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tollgate_link::atm::{Adapter, Noise, WhenFull};
use tollgate_link::fault::Probability;
use tollgate_wire::atm::CELL;

use crate::input;
use crate::link_kind::LinkKind;
use crate::slice::NUMBERS;

/// Parts in which a chance is kept, of which 1 has so many.
const PARTS: f64 = 1e12;
/// The least chance above zero. A line draws 32 bits for each cell.
const LEAST: f64 = 1e-9;
/// The largest rate of bit errors: a line inverts one bit of a cell at most, and 424 of that rate are one in 2.4 cells.
const MOST_BITS: f64 = 1e-3;
/// Names of the options.
const KNOWN: &str = "loss, bits, seed, when-full";

/// Faults of a line of cells. The default is none: a line that waits for a full FIFO.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellFaults {
    /// Chance that a cell is lost, in parts.
    loss: u64,
    /// Chance that a bit is wrong, in parts.
    bits: u64,
    /// Seed of both.
    seed: u64,
    /// Cells that find the FIFO full are lost.
    overflows: bool,
}

impl CellFaults {
    /// None.
    pub const NONE: Self = Self {
        loss: 0,
        bits: 0,
        seed: 0,
        overflows: false,
    };

    /// Errors that a line makes in cells.
    pub(crate) fn noise(self) -> Noise {
        let chance = |parts: u64| parts as f64 / PARTS;
        // Of all bits of a cell at least one is wrong.
        let cell = -f64::exp_m1(8.0 * CELL as f64 * f64::ln_1p(-chance(self.bits)));
        // Both are in range, as they are read.
        let probability = |chance| Probability::new(chance).unwrap_or_default();
        Noise {
            lose: probability(chance(self.loss)),
            damage: probability(cell),
        }
    }

    /// Fate of a cell that finds a FIFO full.
    pub(crate) const fn when_full(self) -> WhenFull {
        match self.overflows {
            true => WhenFull::Lose,
            false => WhenFull::Wait,
        }
    }

    /// The seed of one of both ends.
    pub(crate) const fn seed(self, is_server: bool) -> u64 {
        self.seed.wrapping_mul(2).wrapping_add(is_server as u64)
    }

    /// Tells whether anything can happen to a cell.
    #[must_use]
    pub fn is_any(self) -> bool {
        self != Self::default()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "loss" => self.loss = parts("loss", value, 1.0)?,
            "bits" => self.bits = parts("bits", value, MOST_BITS)?,
            "seed" => {
                self.seed = value
                    .parse()
                    .map_err(|_| format!("seed={value}: give a whole number"))?;
            }
            "when-full" => {
                self.overflows = match value {
                    "lose" => true,
                    "wait" => false,
                    _ => return Err(format!("when-full={value}: it is wait or lose")),
                };
            }
            _ => {
                return Err(format!(
                    "unknown option `{name}` of a line of cells; known: {KNOWN}"
                ));
            }
        }
        Ok(())
    }
}

/// A chance in parts, from 0 to `most`.
fn parts(name: &str, value: &str, most: f64) -> Result<u64, String> {
    match value.parse::<f64>() {
        Ok(chance) if chance == 0.0 || (LEAST..=most).contains(&chance) => {
            Ok((chance * PARTS).round() as u64)
        }
        _ => Err(format!(
            "{name}={value}: give a chance of {LEAST:e} to {most}, or 0"
        )),
    }
}

impl fmt::Display for CellFaults {
    /// The options that differ from the default, each with a comma before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, parts) in [("loss", self.loss), ("bits", self.bits)] {
            if parts > 0 {
                write!(f, ",{name}={}", parts as f64 / PARTS)?;
            }
        }
        if self.seed > 0 {
            write!(f, ",seed={}", self.seed)?;
        }
        if self.overflows {
            f.write_str(",when-full=lose")?;
        }
        Ok(())
    }
}

/// A link, and the faults of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultyLink {
    /// The link.
    pub kind: LinkKind,
    /// Faults of its line; none where whole frames move.
    pub faults: CellFaults,
}

impl FromStr for FaultyLink {
    type Err = String;

    /// Reads a link's name with options behind commas.
    fn from_str(given: &str) -> Result<Self, String> {
        let (name, options) = match given.split_once(',') {
            None => (given, None),
            Some((name, options)) => (name, Some(options)),
        };
        let kind: LinkKind = name.parse().map_err(|error| format!("{error}"))?;
        let mut faults = CellFaults::default();
        let mut names = Vec::new();
        for option in options.iter().flat_map(|options| options.split(',')) {
            if kind.aal().is_none() {
                return Err(format!(
                    "{name} moves whole frames and has no options; those of atm-aal34 and atm-aal5 are {KNOWN}"
                ));
            }
            let (name, value) = option
                .split_once('=')
                .ok_or_else(|| format!("`{option}` is no NAME=VALUE; known names: {KNOWN}"))?;
            faults.set(name, value)?;
            if names.contains(&name) {
                return Err(format!("{name} is given twice"));
            }
            names.push(name);
        }
        Ok(Self { kind, faults })
    }
}

/// Counts of both adapters of a line of cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CellCounts {
    /// Cells put on the line.
    pub sent: u64,
    /// Cells that the line lost.
    pub lost: u64,
    /// Cells that arrived with a wrong bit.
    pub damaged: u64,
    /// Cells that found the receive FIFO full and were lost.
    pub overflowed: u64,
    /// Cells that were dropped for a wrong header (HEC).
    pub bad_headers: u64,
    /// Cells of AAL3/4, or frames of AAL5, that were dropped for a wrong CRC.
    pub bad_crcs: u64,
    /// Cells and frames that were dropped for a gap: by sequence number, beginning, end, tag or length.
    pub gaps: u64,
}

/// Counts as numbers.
pub(crate) const WORDS: usize = 7;

const _: () = assert!(
    input::WORDS + WORDS <= NUMBERS,
    "a second process has room for its counts"
);

impl CellCounts {
    /// Those of one adapter since it was made.
    pub(crate) fn of(adapter: &Adapter) -> Self {
        let (stats, found) = (adapter.stats(), adapter.reassembly());
        Self {
            sent: stats.cells_sent,
            lost: stats.lost,
            damaged: stats.damaged,
            overflowed: stats.overflowed,
            bad_headers: found.bad_header,
            bad_crcs: found.bad_crc10 + found.bad_crc32,
            gaps: found.no_beginning
                + found.bad_sequence
                + found.no_end
                + found.bad_tags
                + found.bad_length
                + found.too_long,
        }
    }

    /// The counts as numbers, for another process.
    pub(crate) const fn words(&self) -> [u64; WORDS] {
        let Self {
            sent,
            lost,
            damaged,
            overflowed,
            bad_headers,
            bad_crcs,
            gaps,
        } = *self;
        [sent, lost, damaged, overflowed, bad_headers, bad_crcs, gaps]
    }

    /// The counts that another process has given as numbers.
    pub(crate) const fn from_words(words: [u64; WORDS]) -> Self {
        let [sent, lost, damaged, overflowed, bad_headers, bad_crcs, gaps] = words;
        Self {
            sent,
            lost,
            damaged,
            overflowed,
            bad_headers,
            bad_crcs,
            gaps,
        }
    }

    /// Those that came after the counts of `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (now, then) = (self.words(), earlier.words());
        Self::from_words(std::array::from_fn(|at| now[at].saturating_sub(then[at])))
    }

    /// The sum with others.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (own, more) = (self.words(), other.words());
        Self::from_words(std::array::from_fn(|at| own[at] + more[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(given: &str) -> Result<FaultyLink, String> {
        given.parse()
    }

    #[test]
    fn options_are_read_and_written_back() {
        let given = "atm-aal5,loss=1e-4,bits=1e-6,seed=3,when-full=lose";
        let FaultyLink { kind, faults } = link(given).unwrap();
        assert_eq!(kind, LinkKind::AtmAal5);
        let written = format!("{kind}{faults}");
        assert_eq!(
            written,
            "atm-aal5,loss=0.0001,bits=0.000001,seed=3,when-full=lose"
        );
        assert_eq!(link(&written), link(given));
        let Noise { lose, damage } = faults.noise();
        assert_eq!(lose, Probability::new(1e-4).unwrap());
        // 424 bits of a cell, less what falls on the same cell.
        assert!((damage.as_f64() - 423.91e-6).abs() < 1e-8, "{damage:?}");
        assert_eq!(faults.when_full(), WhenFull::Lose);
        assert_ne!(faults.seed(false), faults.seed(true));
        for quiet in ["atm-aal34", "fddi", "atm-aal5,when-full=wait,loss=0"] {
            let quiet = link(quiet).unwrap();
            assert!(!quiet.faults.is_any());
            assert_eq!(quiet.faults.noise(), Noise::default());
        }
    }

    #[test]
    fn wrong_options_are_refused_with_a_reason() {
        for (given, reason) in [
            (
                "atm-aal5,loss=2",
                "loss=2: give a chance of 1e-9 to 1, or 0",
            ),
            ("atm-aal5,loss=-0.1", "give a chance"),
            ("atm-aal5,loss=nan", "give a chance"),
            ("atm-aal5,loss=1e-12", "give a chance"),
            ("atm-aal5,bits=0.01", "1e-9 to 0.001, or 0"),
            ("atm-aal5,seed=x", "whole number"),
            ("atm-aal5,when-full=drop", "wait or lose"),
            ("atm-aal5,jitter=1", "unknown option `jitter`"),
            ("atm-aal5,loss", "no NAME=VALUE"),
            ("atm-aal5,", "no NAME=VALUE"),
            ("atm-aal5,loss=0.1,loss=0.1", "loss is given twice"),
            ("ethernet,loss=0.1", "ethernet moves whole frames"),
            ("token-ring,loss=0.1", "unknown link `token-ring`"),
        ] {
            let told = link(given).unwrap_err();
            assert!(told.contains(reason), "{given}: {told}");
        }
    }

    #[test]
    fn counts_survive_as_numbers() {
        let counts = CellCounts::from_words([7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(counts.words(), [7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(counts.plus(&counts).since(&counts), counts);
    }
}

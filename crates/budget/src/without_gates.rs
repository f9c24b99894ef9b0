//! Whether gates that are off cost nothing: the same scenario, counted in this program and in one that was built from a
//! stack out of whose source every call of the recorder was taken (`crates/budget/without-gates.sh`).

use crate::Error;
use crate::scenario;
use crate::valgrind::Program;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// The scenario that is counted in both.
const SCENARIO: &str = "rr-64";

/// Instructions of the same scenario, counted in both programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// With the recorder `Off`.
    pub off: u64,
    /// With the recorder's calls removed from the source.
    pub removed: u64,
}

impl Comparison {
    /// Whether both are the same, to the instruction.
    pub fn same(&self) -> bool {
        self.off == self.removed
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.same() { "the same" } else { "FAIL, not the same" };
        write!(f, "gates off: {} instructions; recorder's calls removed: {}; {verdict}", self.off, self.removed)
    }
}

/// Counts the scenario in `program` and in `without`, both called in the same way.
///
/// # Errors
/// As [`Program::count`].
pub fn compare(program: &Program, without: &Path) -> Result<Comparison, Error> {
    let count = scenario::find(SCENARIO)?.count;
    let off = program.count(SCENARIO, count)?.collected;
    let removed = Program::new(without, ["scenario"]).count(SCENARIO, count)?.collected;
    Ok(Comparison { off, removed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instruction_is_a_difference() {
        assert!(Comparison { off: 7, removed: 7 }.same());
        let more = Comparison { off: 8, removed: 7 };
        assert!(!more.same());
        assert!(more.to_string().contains("FAIL"));
    }
}

//! Tells whether gates that are off cost nothing: the same scenario, counted in this program and in one that was built from a
//! stack out of whose source every call of the recorder was taken (`crates/budget/without-gates.sh`).

use crate::Error;
use crate::scenario;
use crate::table::number;
use crate::valgrind::Program;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// The scenario that is counted in both.
const SCENARIO: &str = "rr-64";

/// Instructions per operation of the same scenario, counted in both programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// With the recorder `Off`.
    pub off: f64,
    /// With the recorder's calls removed from the source.
    pub removed: f64,
    /// The functions, with what is inlined into them, whose counts differ: name, with `Off`, with the calls removed. When
    /// the whole differs by little, the compiler has allotted registers otherwise there.
    pub functions: Vec<(String, f64, f64)>,
}

impl Comparison {
    /// Tells whether both are the same, to the instruction.
    pub fn same(&self) -> bool {
        self.off == self.removed && self.functions.is_empty()
    }

    /// The percentage that gates which are off add to the whole.
    pub fn percent(&self) -> f64 {
        (self.off / self.removed - 1.0) * 100.0
    }

    /// Tells whether gates that are off cost at most `tolerance_percent`.
    pub fn within(&self, tolerance_percent: f64) -> bool {
        self.percent() <= tolerance_percent
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "gates off: {} instructions; recorder's calls removed: {}; ",
            number(self.off),
            number(self.removed)
        )?;
        if self.same() {
            return f.write_str("the same in every function");
        }
        write!(f, "not the same ({:+.2} %), in", self.percent())?;
        for (n, (name, off, removed)) in self.functions.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(
                f,
                "{comma} {name} ({} and {})",
                number(*off),
                number(*removed)
            )?;
        }
        Ok(())
    }
}

/// Counts the scenario in `program` and in `without`, both called in the same way.
///
/// # Errors
/// Those of [`Program::profile`].
pub fn compare(program: &Program, without: &Path) -> Result<Comparison, Error> {
    let count = scenario::find(SCENARIO)?.count;
    let of = |program: &Program| -> Result<(f64, BTreeMap<String, u64>), Error> {
        let (done, profile) = program.profile(SCENARIO, count)?;
        let [called, _] = profile.by_function();
        Ok((done.operations as f64, called.into_iter().collect()))
    };
    let (operations, off) = of(program)?;
    let (_, removed) = of(&Program::new(without, ["scenario"]))?;
    let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>() as f64 / operations;
    let names: BTreeSet<&String> = off.keys().chain(removed.keys()).collect();
    let per_operation = |counts: &BTreeMap<String, u64>, name| {
        counts.get(name).copied().unwrap_or(0) as f64 / operations
    };
    let functions = names
        .into_iter()
        .map(|name| {
            (
                name.clone(),
                per_operation(&off, name),
                per_operation(&removed, name),
            )
        })
        .filter(|(_, off, removed)| off != removed)
        .collect();
    Ok(Comparison {
        off: sum(&off),
        removed: sum(&removed),
        functions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instruction_is_a_difference() {
        let same = Comparison {
            off: 700.0,
            removed: 700.0,
            functions: Vec::new(),
        };
        assert!(same.same() && same.within(0.0));
        assert!(same.to_string().ends_with("the same in every function"));
        let more = Comparison {
            off: 701.0,
            removed: 700.0,
            functions: vec![("turn".to_owned(), 8.0, 7.0)],
        };
        assert!(!more.same() && more.within(1.0) && !more.within(0.1));
        assert_eq!(
            more.to_string(),
            "gates off: 701 instructions; recorder's calls removed: 700; not the same (+0.14 %), in turn (8 and 7)"
        );
    }
}

//! The budgets file: what was recorded for each row.
//!
//! ```toml
//! tolerance_percent = 1.0
//!
//! [budgets]
//! rr-64 = 1150.25
//! ```
//!
//! Counts belong to one compiler and one instruction set; after a change of either, record them anew and look at the
//! difference.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Recorded values by row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    /// A value may exceed its budget by so much before the check fails, in percent.
    pub tolerance_percent: f64,
    /// The values, in the row's unit.
    pub budgets: BTreeMap<String, f64>,
}

/// Comment at the head of the file.
const HEAD: &str = "# Instruction budgets, written by `tollgate-budget record` (built as `make budget` builds it).\n\
    # A value that exceeds its budget by more than the tolerance fails the check.\n\n";

impl Default for Budgets {
    fn default() -> Self {
        Self {
            tolerance_percent: 1.0,
            budgets: BTreeMap::new(),
        }
    }
}

impl Budgets {
    /// Reads the text of a budgets file.
    ///
    /// # Errors
    /// The defect of the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let budgets: Self = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if !(0.0..=100.0).contains(&budgets.tolerance_percent) {
            return Err(format!(
                "tolerance_percent is {}, not 0 to 100",
                budgets.tolerance_percent
            ));
        }
        match budgets
            .budgets
            .iter()
            .find(|(_, value)| !value.is_finite() || **value < 0.0)
        {
            Some((row, value)) => Err(format!("the budget of {row} is {value}")),
            None => Ok(budgets),
        }
    }

    /// Reads a budgets file.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Budgets`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|what| Error::Budgets {
            path: path.to_owned(),
            what,
        })
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{HEAD}tolerance_percent = {:?}\n\n[budgets]\n",
            self.tolerance_percent
        );
        for (row, value) in &self.budgets {
            text.push_str(&format!("{row} = {value:?}\n"));
        }
        text
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        std::fs::write(path, self.to_text()).map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })
    }

    /// Takes new values over, rounded to hundredths; the tolerance stays.
    pub fn record<'a>(&mut self, values: impl IntoIterator<Item = (&'a str, f64)>) {
        self.budgets = values
            .into_iter()
            .map(|(row, value)| (row.to_owned(), (value * 100.0).round() / 100.0))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_wrong_is_named() {
        assert!(
            Budgets::parse("tolerance_percent = 1.0\n")
                .unwrap_err()
                .contains("budgets")
        );
        assert!(Budgets::parse("tolerance_percent = 1.0\n[budgets]\na = \"b\"\n").is_err());
        assert!(
            Budgets::parse("tolerance_percent = 1.0\nmore = 2\n[budgets]\n")
                .unwrap_err()
                .contains("more")
        );
        assert_eq!(
            Budgets::parse("tolerance_percent = 1.0\n[budgets]\nrr-64 = -1.0\n").unwrap_err(),
            "the budget of rr-64 is -1"
        );
        assert!(Budgets::parse("tolerance_percent = nan\n[budgets]\n").is_err());
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Budgets::read(Path::new("/nonexistent/budgets.toml"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("/nonexistent/budgets.toml: "), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_recorded_is_read_back(values in prop::collection::btree_map("[a-z][a-z0-9-]{0,12}", 0.0..1e9f64, 0..8)) {
            let mut budgets = Budgets::default();
            budgets.record(values.iter().map(|(row, value)| (row.as_str(), *value)));
            let back = Budgets::parse(&budgets.to_text()).unwrap();
            prop_assert_eq!(&back, &budgets);
            for (row, value) in &values {
                prop_assert!((back.budgets[row] - value).abs() <= 0.0051);
            }
        }
    }
}

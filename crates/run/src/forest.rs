//! Rows of a forest plot: ratios to a reference, with the intervals of those that are estimates.
//!
//! It owns what such a row is, and when it can be drawn. It must never draw.

use serde::{Deserialize, Serialize};

use crate::{Interval, RunError};

/// A row of a forest plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForestRow {
    /// The label at the left.
    pub label: String,
    /// The ratios in each panel.
    pub panels: Vec<Vec<Ratio>>,
}

/// A ratio to the reference of a forest plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The quantity whose ratio it is.
    pub label: String,
    /// The ratio, above zero.
    pub value: f64,
    /// The 95 % confidence interval; none where the ratio is exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci: Option<Interval>,
}

impl ForestRow {
    pub(crate) fn check(&self, panels: usize) -> Result<(), RunError> {
        if self.panels.len() != panels {
            return Err(RunError::PanelCount {
                row: self.label.clone(),
                given: self.panels.len(),
                panels,
            });
        }
        let mut ratios = self.panels.iter().flatten();
        match ratios.find(|ratio| !(ratio.value.is_finite() && ratio.value > 0.0)) {
            None => Ok(()),
            Some(ratio) => Err(RunError::Ratio {
                row: self.label.clone(),
                label: ratio.label.clone(),
                value: ratio.value.to_string(),
            }),
        }
    }
}

impl Ratio {
    /// Tells whether it differs from 1: the whole interval of an estimate does.
    #[must_use]
    pub fn shows_difference(&self) -> bool {
        match self.ci {
            Some(ci) => ci.low > 1.0 || ci.high < 1.0,
            None => self.value != 1.0,
        }
    }
}

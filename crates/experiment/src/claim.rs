//! Claims that rest on rounds of samples; what a claim must show is in [`tollgate_analysis::claim`].

pub(crate) use tollgate_analysis::claim::{Claim, Evidence, Finding, FindingText, Refusal};

use tollgate_run::{Cell, Measured};

use crate::sampled::{Mean, Split};

/// The operations of rounds of samples.
pub(crate) fn operations(rounds: &[Split]) -> u64 {
    rounds.iter().map(|split| split.operations).sum()
}

/// The mean over these rounds of samples; refused where there is none.
pub(crate) fn mean(mean: Option<Mean>, rounds: &[Split]) -> Result<Evidence, Refusal> {
    let mean = mean.ok_or_else(|| Refusal::NotMeasured("it has no round".to_owned()))?;
    Ok(Evidence::new(
        mean.value,
        mean.interval(),
        operations(rounds),
    ))
}

/// The cell of a figure of so many rounds, or why there is none.
pub(crate) fn cell(evidence: Result<Evidence, Refusal>, rounds: usize) -> Cell {
    match evidence {
        Ok(evidence) => Cell::Value(Measured {
            value: evidence.value(),
            ci: evidence.interval(),
            n: Some(rounds as u64),
            ..Measured::default()
        }),
        Err(why) => Cell::NotAvailable {
            reason: why.to_string(),
        },
    }
}

/// The cell of the mean over rounds; a single round has no interval.
pub(crate) fn mean_cell(values: &[f64]) -> Cell {
    Mean::of(values).map_or_else(
        || Cell::NotAvailable {
            reason: "no round was measured".to_owned(),
        },
        |mean| mean.cell(),
    )
}

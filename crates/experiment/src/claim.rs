//! Claims that rest on rounds of samples; what a claim must show is in [`tollgate_analysis::claim`].

pub(crate) use tollgate_analysis::claim::{Claim, Evidence, Finding, FindingText, Refusal};

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

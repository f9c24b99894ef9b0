//! The compiled mechanisms: choices of the configuration in the form that the predicted path tests.
//!
//! The predicted path is compiled once for each pair of checksums and prediction. One flag selects the common pair, so that a
//! frame costs one test.

use crate::config::{ChecksumPolicy, Config, Prediction};
use tollgate_checksum::Kernel;

/// Mechanisms of a stack, worked out once when it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled {
    /// Kernel that sums, and that copies received payload.
    pub(crate) kernel: Kernel,
    /// Kernel that copies payload to be sent. It sums nothing when checksums are off.
    pub(crate) copy_kernel: Kernel,
    /// Tells whether the predicted path of output does what the mechanisms ask for.
    pub(crate) fast_send: bool,
    /// Tells whether checksums are made and verified.
    pub(crate) checksums: bool,
    /// Tells whether prediction refuses data that acknowledges data.
    pub(crate) unidirectional: bool,
    /// Tells whether checksums are made and verified, and prediction is not unidirectional.
    pub(crate) bidirectional_and_summed: bool,
}

impl Compiled {
    /// Works out the mechanisms of `config`.
    pub(crate) fn new(config: &Config) -> Self {
        let mechanisms = &config.mechanisms;
        let checksums = mechanisms.checksum == ChecksumPolicy::Always;
        let kernel = mechanisms.checksum_kernel.kernel(config.kernel);
        let unidirectional = mechanisms.prediction == Prediction::Unidirectional;
        Self {
            kernel,
            copy_kernel: match mechanisms.checksum {
                ChecksumPolicy::Always => kernel,
                ChecksumPolicy::Off => Kernel::COPY_ONLY,
            },
            fast_send: mechanisms.allow_fast_send(),
            checksums,
            unidirectional,
            bidirectional_and_summed: checksums && !unidirectional,
        }
    }
}

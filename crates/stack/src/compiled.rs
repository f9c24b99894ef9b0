//! The compiled mechanisms: choices of the configuration in the form that the predicted path tests.
//!
//! The predicted path is compiled with checksums and without, and for the other mechanisms of input at their defaults or as they
//! are. One flag selects the common version, so that a frame costs one test.

use crate::config::{Buffers, ChecksumPolicy, Config, DelayedAck, Prediction};
use crate::tcp::deadline::DELAYED_UP_TO;
use tollgate_checksum::Kernel;

/// Mechanisms of a stack, worked out once when it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled {
    /// Kernel that sums, and that copies received payload.
    pub(crate) kernel: Kernel,
    /// Kernel that copies payload to be sent. It sums nothing when checksums are off, and copies nothing either where frames hold
    /// no payload.
    pub(crate) copy_kernel: Kernel,
    /// Tells whether the predicted path of output does what the mechanisms ask for.
    pub(crate) fast_send: bool,
    /// Tells whether checksums are made and verified.
    pub(crate) checksums: bool,
    /// Tells whether prediction refuses data that acknowledges data.
    pub(crate) unidirectional: bool,
    /// Segments with data that make an acknowledgment due (RFC 9293, 3.8.6.3: at least every second one).
    pub(crate) ack_after: u8,
    /// Tells whether the mechanisms of input are the default ones, checksum policy and prediction's being on apart.
    pub(crate) common: bool,
    /// Tells whether checksums are made and verified as well.
    pub(crate) common_and_summed: bool,
}

impl Compiled {
    /// Works out the mechanisms of `config`.
    pub(crate) fn new(config: &Config) -> Self {
        let mechanisms = &config.mechanisms;
        let checksums = mechanisms.checksum == ChecksumPolicy::Always;
        let kernel = mechanisms.checksum_kernel.kernel(config.kernel);
        let unidirectional = mechanisms.prediction == Prediction::Unidirectional;
        let common = !unidirectional
            && mechanisms.delayed_ack == DelayedAck::On
            && mechanisms.buffers == Buffers::Pool;
        Self {
            kernel,
            copy_kernel: match (mechanisms.buffers, mechanisms.checksum) {
                (Buffers::Mbufs, _) => Kernel::NOTHING,
                (Buffers::Pool, ChecksumPolicy::Always) => kernel,
                (Buffers::Pool, ChecksumPolicy::Off) => Kernel::COPY_ONLY,
            },
            fast_send: mechanisms.allow_fast_send(),
            checksums,
            unidirectional,
            ack_after: match mechanisms.delayed_ack {
                DelayedAck::On => DELAYED_UP_TO,
                DelayedAck::Off => 1,
            },
            common,
            common_and_summed: checksums && common,
        }
    }

    /// [`Compiled::ack_after`], which the compiler knows where the mechanisms of input are `COMMON`.
    #[inline(always)]
    pub(crate) const fn ack_after<const COMMON: bool>(&self) -> u8 {
        if COMMON {
            DELAYED_UP_TO
        } else {
            self.ack_after
        }
    }
}

//! The compiled mechanisms: choices of the configuration in the form that the predicted path tests.
//!
//! The predicted path is compiled for each verification, and for the other mechanisms of input at their defaults or as they are. One flag
//! selects the common version, so that a frame costs one test.

use crate::config::{Buffers, ChecksumPolicy, Config, DelayedAck, Prediction};
use crate::tcp::deadline::DELAYED_UP_TO;
use tollgate_checksum::Kernel;

/// Verification of received segments. It is an argument of compiled paths by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Verify {
    /// Every checksum.
    All = ALL,
    /// Every one, except where the segment's connection takes unsummed segments.
    ByConnection = BY_CONNECTION,
    /// None.
    None = NONE,
}

/// Numbers of [`Verify`].
pub(crate) const ALL: u8 = 0;
pub(crate) const BY_CONNECTION: u8 = 1;
pub(crate) const NONE: u8 = 2;
/// None, since the link has verified those of a train.
pub(crate) const TRAIN: u8 = 3;

/// Segments of a train that are acknowledged together at most: 64 KiB at an MTU of 1500 bytes are 46.
pub(crate) const ACK_AFTER_IN_TRAIN: u8 = 64;

/// Mechanisms of a stack, worked out once when it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled {
    /// Kernel that sums, and that copies received payload.
    pub(crate) kernel: Kernel,
    /// Kernel that copies payload to be sent. It sums nothing where segments leave without checksums, and copies nothing either where frames hold
    /// no payload.
    pub(crate) copy_kernel: Kernel,
    /// Tells whether the predicted path of output does what the mechanisms ask for.
    pub(crate) fast_send: bool,
    /// Verification of received segments.
    pub(crate) verify: Verify,
    /// Tells whether checksums of IPv4 headers are verified.
    pub(crate) verify_ip: bool,
    /// Tells whether datagrams are predicted.
    pub(crate) predicts_datagrams: bool,
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
        let kernel = mechanisms.checksum_kernel.kernel(config.kernel);
        let verify = match mechanisms.checksum {
            ChecksumPolicy::Always => Verify::All,
            ChecksumPolicy::RedundancyAvoidance => Verify::ByConnection,
            ChecksumPolicy::Off => Verify::None,
        };
        let unidirectional = mechanisms.prediction == Prediction::Unidirectional;
        let common = !unidirectional
            && mechanisms.delayed_ack == DelayedAck::On
            && mechanisms.buffers == Buffers::Pool;
        Self {
            kernel,
            // With redundancy avoidance segments that need a sum get it in a pass of its own.
            copy_kernel: match mechanisms.buffers {
                Buffers::Mbufs => Kernel::NOTHING,
                Buffers::Pool if config.sums_segments() => kernel,
                Buffers::Pool => Kernel::COPY_ONLY,
            },
            fast_send: mechanisms.allow_fast_send(),
            verify,
            verify_ip: mechanisms.checksum.sums_ip(),
            predicts_datagrams: mechanisms.prediction != Prediction::Off,
            unidirectional,
            ack_after: match mechanisms.delayed_ack {
                DelayedAck::On => DELAYED_UP_TO,
                DelayedAck::Off => 1,
            },
            common,
            common_and_summed: verify == Verify::All && common,
        }
    }

    /// [`Compiled::ack_after`], which the compiler knows where the mechanisms of input are `COMMON`.
    ///
    /// Of a train, segments that were one frame when they came, only the last is acknowledged. That at least every second full segment
    /// SHOULD be (RFC 9293, 3.8.6.3; RFC 5681, 4.2) keeps the sender's clock: here all acknowledgments would leave at one time, and the
    /// last one says what the others do. Linux acknowledges once what it has put together, too (`__tcp_ack_snd_check`).
    #[inline(always)]
    pub(crate) const fn ack_after<const VERIFY: u8, const COMMON: bool>(&self) -> u8 {
        if VERIFY == TRAIN {
            ACK_AFTER_IN_TRAIN
        } else if COMMON {
            DELAYED_UP_TO
        } else {
            self.ack_after
        }
    }
}

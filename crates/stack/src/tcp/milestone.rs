//! Sequence numbers that are waited for, and may be asked about long after they were passed.
//!
//! A [`SeqNumber`] says before or after only within 2^31 of another: what was passed lies ahead again 2 GiB later. A [`Milestone`]
//! holds for 2^47 bytes, 128 TiB. It costs the fast path nothing, since [`Tcb::wraps`] is counted in any case.

use crate::tcp::tcb::Tcb;
use tollgate_wire::SeqNumber;

/// Bits of a position: 32 of a sequence number, and those of its wraps.
const BITS: u32 = 32 + u16::BITS;

/// A sequence number of ours that is to be acknowledged, or was long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Milestone(u64);

impl Milestone {
    /// The place of `seq`, which lies within 2^31 of what is acknowledged.
    pub(crate) fn at(tcb: &Tcb, seq: SeqNumber) -> Self {
        let ahead = i64::from(seq.signed_distance(tcb.snd_una));
        Self(acknowledged(tcb).wrapping_add_signed(ahead))
    }

    /// Tells whether all before it is acknowledged.
    pub(crate) fn is_reached(self, tcb: &Tcb) -> bool {
        self.behind(tcb) >= 0
    }

    /// Tells whether something behind it is acknowledged.
    pub(crate) fn is_passed(self, tcb: &Tcb) -> bool {
        self.behind(tcb) > 0
    }

    /// Bytes by which what is acknowledged goes beyond it.
    const fn behind(self, tcb: &Tcb) -> i64 {
        let unused = u64::BITS - BITS;
        (acknowledged(tcb).wrapping_sub(self.0) << unused) as i64 >> unused
    }
}

/// SND.UNA with its wraps.
const fn acknowledged(tcb: &Tcb) -> u64 {
    (tcb.wraps[0] as u64) << 32 | tcb.snd_una.0 as u64
}

#[cfg(test)]
pub(in crate::tcp) mod tests {
    use super::*;

    /// Acknowledges so many bytes, as the path of acknowledgments counts them.
    pub(in crate::tcp) fn acknowledge(tcb: &mut Tcb, bytes: u32) {
        tcb.acknowledge_up_to(tcb.snd_una + bytes);
    }

    #[test]
    fn what_was_passed_stays_passed() {
        for (wraps, first) in [(0, 0), (0, u32::MAX - 5), (u16::MAX, 1 << 31)] {
            let mut tcb = Tcb {
                wraps: [wraps, 0],
                snd_una: SeqNumber(first),
                ..Tcb::FREE
            };
            let milestone = Milestone::at(&tcb, tcb.snd_una + 1000);
            let before = Milestone::at(&tcb, tcb.snd_una - 1);
            assert!(before.is_passed(&tcb) && !milestone.is_reached(&tcb));
            acknowledge(&mut tcb, 999);
            assert!(!milestone.is_reached(&tcb));
            acknowledge(&mut tcb, 1);
            assert!(milestone.is_reached(&tcb) && !milestone.is_passed(&tcb));
            for _ in 0..20 {
                acknowledge(&mut tcb, 1 << 30);
                assert!(milestone.is_passed(&tcb) && before.is_passed(&tcb));
            }
        }
    }
}

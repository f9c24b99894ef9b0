//! The recorder: what a stack calls when a packet passes a gate.
//!
//! Recorders are chosen by static dispatch, per call into the stack. A caller that samples one packet in many calls the
//! copy of the path that is compiled with a recorder for that packet and the copy compiled with [`Off`] for all others,
//! so that an unsampled packet does not pay for a test at each gate.

use crate::Gate;

/// Key that joins the passages of one packet: the sequence number of the first byte of its payload.
///
/// Both ends see the same number, so the passages through two stacks join without anything added to the packet. A datagram has no such
/// number: its recorder numbers the turns of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct PacketId(pub u32);

/// Notes that a packet passes a gate.
pub trait Recorder {
    /// Tells whether passages are recorded at all. Work that serves only the recorder is done only when this is true.
    const ON: bool;

    /// The recorder as it is handed down by value: nothing at all for [`Off`], so that no register is spent on it.
    type Lent<'a>: Recorder
    where
        Self: 'a;

    /// Lends the recorder to a part of the path.
    fn lend(&mut self) -> Self::Lent<'_>;

    /// `packet` passes `gate` now.
    fn pass(&mut self, gate: Gate, packet: PacketId);
}

/// Records nothing and compiles to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Recorder for Off {
    const ON: bool = false;
    type Lent<'a> = Off;

    #[inline(always)]
    fn lend(&mut self) -> Off {
        Off
    }

    #[inline(always)]
    fn pass(&mut self, _gate: Gate, _packet: PacketId) {}
}

impl<R: Recorder> Recorder for &mut R {
    const ON: bool = R::ON;
    type Lent<'b>
        = R::Lent<'b>
    where
        Self: 'b;

    #[inline(always)]
    fn lend(&mut self) -> R::Lent<'_> {
        (**self).lend()
    }

    #[inline(always)]
    fn pass(&mut self, gate: Gate, packet: PacketId) {
        (**self).pass(gate, packet);
    }
}

//! A recorder that counts the instructions between gates.

use crate::callgrind::toggle_collect;
use tollgate_gate::{Gate, GateSet, PacketId, Recorder};

/// Switches Callgrind's counting at each gate of `GATES` (bits as in [`bits`]), and does nothing at any other.
///
/// The first gate of the set that a packet passes switches counting on, the second off, and so on. Which gates are in the
/// set is known at compile time, so the others cost nothing. A gate of the set is a barrier to the compiler: what the path
/// holds in registers across it may be loaded again behind it, and that is counted. So a count by gates errs upwards.
#[derive(Clone, Copy, Debug)]
pub struct GateToggle<const GATES: u32>;

impl<const GATES: u32> Recorder for GateToggle<GATES> {
    const ON: bool = true;
    type Lent<'a> = Self;

    #[inline(always)]
    fn lend(&mut self) -> Self {
        *self
    }

    #[inline(always)]
    fn pass(&mut self, gate: Gate, _packet: PacketId) {
        if GATES & 1 << gate as u8 != 0 {
            toggle_collect();
        }
    }
}

/// The bits of `gates`, for [`GateToggle`].
pub const fn bits(gates: &[Gate]) -> u32 {
    let mut bits = 0;
    let mut i = 0;
    while i < gates.len() {
        bits |= 1 << gates[i] as u8;
        i += 1;
    }
    bits
}

/// Count of times that a packet switches counting on when it passes each of `gates` once.
pub const fn pairs(gates: u32) -> u64 {
    gates.count_ones() as u64 / 2
}

/// The gates of `bits`, in words.
pub fn describe(gates: u32) -> String {
    let set: GateSet = Gate::ALL
        .iter()
        .copied()
        .filter(|gate| gates & 1 << *gate as u8 != 0)
        .collect();
    let gates: Vec<&str> = set.iter().map(Gate::name).collect();
    gates
        .chunks(2)
        .map(|pair| pair.join(" to "))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_described_pair_by_pair() {
        let set = bits(&[
            Gate::IpInBegin,
            Gate::ChecksumInBegin,
            Gate::ChecksumInEnd,
            Gate::SocketQueued,
        ]);
        assert_eq!(pairs(set), 2);
        assert_eq!(
            describe(set),
            "ip.in.begin to tcp.in.checksum.begin, tcp.in.checksum.end to socket.queue.in"
        );
    }
}

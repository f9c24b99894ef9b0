//! Congestion marks: CE in packets that permit it (RFC 3168, 5), as an active queue sets them in place of a drop.

use super::Wire;
use tollgate_checksum::Checksum;
use tollgate_stack::buffer::{Frame, Pool};
use tollgate_wire::ethernet::{self, EtherType};

/// The place where the IP header lies in a frame.
const IP: usize = ethernet::HEADER_LEN;
/// The bits of the codepoint in the second byte of an IPv4 header.
const CODEPOINT: u8 = 0b11;

/// Marks an IPv4 packet whose codepoint is ECT(0) or ECT(1); says whether it did.
fn mark_congestion(bytes: &mut [u8]) -> bool {
    let is_ipv4 = ethernet::Header::parse(bytes)
        .is_ok_and(|header| matches!(header.ethertype, EtherType::Ipv4));
    let Some(ip) = bytes.get_mut(IP..IP + 20).filter(|_| is_ipv4) else {
        return false;
    };
    let capable = !matches!(ip[1] & CODEPOINT, 0 | CODEPOINT);
    if capable {
        let before = u16::from_be_bytes([ip[0], ip[1]]);
        ip[1] |= CODEPOINT;
        let after = u16::from_be_bytes([ip[0], ip[1]]);
        let checksum = Checksum::from_ne_bytes([ip[10], ip[11]]).update(before, after);
        ip[10..12].copy_from_slice(&checksum.to_ne_bytes());
    }
    capable
}

impl Wire {
    /// Marks a frame where its packet permits it. What others hold, too, is copied; nothing, and one frame lost, when the pool is empty.
    pub(super) fn mark(&mut self, pool: &mut Pool, frame: Frame) -> Option<Frame> {
        let frame = self.own(pool, frame)?;
        self.stats.marked += u64::from(mark_congestion(pool.frame_mut(&frame)));
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_checksum::sum_header;

    /// RFC 3168, 5: only ECT(0) and ECT(1) become CE, and the header stays valid.
    #[test]
    fn only_capable_packets_are_marked() {
        for (codepoint, marked) in [(0, false), (1, true), (2, true), (3, false)] {
            let mut frame = [0; 54];
            frame[12..14].copy_from_slice(&[0x08, 0x00]);
            frame[14..16].copy_from_slice(&[0x45, 0xb8 | codepoint]);
            let sum = sum_header(&frame[14..34]).finish();
            frame[24..26].copy_from_slice(&sum.to_ne_bytes());
            assert_eq!(mark_congestion(&mut frame), marked);
            let after = if marked { CODEPOINT } else { codepoint };
            assert_eq!(frame[15], 0xb8 | after);
            assert!(sum_header(&frame[14..34]).is_valid());
            // Another protocol is left alone.
            frame[13] = 0x06;
            assert!(!mark_congestion(&mut frame));
        }
    }
}

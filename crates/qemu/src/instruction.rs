//! Effect of an x86-64 instruction on the flow of control, as far as following calls needs it.
//!
//! Only three things matter: calls, returns, and string instructions with a repeat prefix, which QEMU executes one
//! repetition at a time while a processor counts one instruction.

/// Kind of an instruction for one who follows calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A near call, direct or indirect: it pushes the return address.
    Call,
    /// A near return: it pops the return address.
    Return,
    /// A string instruction with a repeat prefix.
    Repeated,
    /// Anything else.
    Other,
}

/// Kind of the instruction made of `bytes`.
#[must_use]
pub fn kind(bytes: &[u8]) -> Kind {
    let mut repeat = false;
    let mut rest = bytes;
    let opcode = loop {
        let [first, after @ ..] = rest else {
            return Kind::Other;
        };
        rest = after;
        match first {
            0xf2 | 0xf3 => repeat = true,
            // Segment overrides (as padding of calls, too), operand and address size, lock, REX.
            0x2e | 0x36 | 0x3e | 0x26 | 0x64..=0x67 | 0xf0 | 0x40..=0x4f => {}
            opcode => break *opcode,
        }
    };
    match opcode {
        0xe8 => Kind::Call,
        0xff if rest.first().is_some_and(|modrm| modrm >> 3 & 7 == 2) => Kind::Call,
        0xc2 | 0xc3 => Kind::Return,
        0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf if repeat => Kind::Repeated,
        _ => Kind::Other,
    }
}

/// Address that a direct call goes to, made of `bytes` at `pc`; none for any other instruction.
#[must_use]
pub fn call_target(pc: u64, bytes: &[u8]) -> Option<u64> {
    let (front, distance) = bytes.split_last_chunk()?;
    // An indirect call may have this byte in its address, behind its own opcode.
    let is_direct =
        kind(bytes) == Kind::Call && front.last() == Some(&0xe8) && !front.contains(&0xff);
    let distance = i64::from(i32::from_le_bytes(*distance));
    let behind = pc.wrapping_add(bytes.len() as u64);
    is_direct.then(|| behind.wrapping_add_signed(distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_returns_and_repetitions_are_recognised() {
        for (bytes, expected) in [
            (&[0xe8, 1, 2, 3, 4][..], Kind::Call),
            (&[0x2e, 0xe8, 1, 2, 3, 4], Kind::Call),
            (&[0xff, 0xd0], Kind::Call),
            (&[0x41, 0xff, 0xd2], Kind::Call),
            (&[0xff, 0x15, 1, 2, 3, 4], Kind::Call),
            (&[0xff, 0xe0], Kind::Other),
            (&[0xff, 0x35, 1, 2, 3, 4], Kind::Other),
            (&[0xc3], Kind::Return),
            (&[0xf3, 0xc3], Kind::Return),
            (&[0xc2, 8, 0], Kind::Return),
            (&[0xf3, 0xa4], Kind::Repeated),
            (&[0xf3, 0x48, 0xa5], Kind::Repeated),
            (&[0xa4], Kind::Other),
            (&[0xf3, 0x90], Kind::Other),
            (&[0x0f, 0xe8, 0xc0], Kind::Other),
            (&[0x48, 0xcf], Kind::Other),
            (&[], Kind::Other),
        ] {
            assert_eq!(kind(bytes), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn target_of_a_direct_call_lies_behind_it_or_before() {
        let target = |bytes: &[u8]| call_target(0x1000, bytes);
        assert_eq!(target(&[0xe8, 0x10, 0, 0, 0]), Some(0x1015));
        assert_eq!(target(&[0x2e, 0xe8, 0xfa, 0xff, 0xff, 0xff]), Some(0x1000));
        assert_eq!(target(&[0xff, 0xd0]), None);
        // An indirect call whose place in memory has the direct one's byte.
        assert_eq!(target(&[0xff, 0x95, 0xe8, 0, 0, 0]), None);
        assert_eq!(target(&[0xff, 0x94, 0xe8, 1, 2, 3, 4]), None);
        assert_eq!(target(&[0xe9, 0x10, 0, 0, 0]), None);
        assert_eq!(target(&[]), None);
    }
}

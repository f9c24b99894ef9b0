//! VLAN tags (IEEE 802.1Q), which stand between the addresses and the type of an Ethernet frame.

use crate::be16;

/// Tells whether `ethertype` announces a tag: of a customer, of a provider (802.1ad), or of those who began before 802.1ad did.
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100)
}

/// Skips the tags in `rest`, which is what lies behind the field with `ethertype`: the type of what they carry, and how
/// many bytes they take. Nothing when the slice ends within a tag.
pub fn skip_tags(mut ethertype: u16, rest: &[u8]) -> Option<(u16, usize)> {
    let mut skipped = 0;
    while is_tag(ethertype) {
        let tag = rest.get(skipped..skipped + 4)?;
        ethertype = be16(tag, 2);
        skipped += 4;
    }
    Some((ethertype, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_skipped_however_many() {
        assert_eq!(skip_tags(0x0800, &[]), Some((0x0800, 0)));
        let two = [0, 1, 0x81, 0, 0, 2, 0x86, 0xdd];
        assert_eq!(skip_tags(0x88a8, &two), Some((0x86dd, 8)));
        assert_eq!(skip_tags(0x88a8, &two[..7]), None);
    }
}

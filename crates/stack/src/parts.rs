//! A datagram's header and payload, which lie apart until they are put into frames.

/// Fills `into` with what lies `offset` bytes behind the beginning of the two parts.
///
/// # Panics
/// When there are fewer bytes.
pub(crate) fn copy_parts(parts: [&[u8]; 2], offset: usize, into: &mut [u8]) {
    let [first, second] = parts;
    let ahead = &first[offset.min(first.len())..];
    let (begin, rest) = into.split_at_mut(ahead.len().min(into.len()));
    begin.copy_from_slice(&ahead[..begin.len()]);
    let offset = offset.saturating_sub(first.len());
    rest.copy_from_slice(&second[offset..offset + rest.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn any_piece_of_two_parts_is_copied() {
        let all: [u8; 12] = core::array::from_fn(|n| n as u8);
        for split in 0..=all.len() {
            let (first, second) = all.split_at(split);
            for from in 0..=all.len() {
                for to in from..=all.len() {
                    let mut into = vec![0xff; to - from];
                    copy_parts([first, second], from, &mut into);
                    assert_eq!(into, all[from..to], "{split} {from} {to}");
                }
            }
        }
    }
}

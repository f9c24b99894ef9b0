//! The papers' lists of message sizes, by name.
//!
//! It owns no size: each list is that of the experiments after its paper.

use crate::context::SIZES;
use crate::{echoes, per_packet};

/// Names of the lists, each with the paper whose list it is.
pub const NAMES: [(&str, &str); 3] = [
    ("kay", "the 40 of Kay and Pasquale 1996"),
    ("lehmann", "the 256 of Lehmann and Benz 2002"),
    ("wolman", "the 8 of Wolman et al. 1994"),
];

/// The sizes of this name, in bytes, the smallest first; `None` when no list has it.
#[must_use]
pub fn named(name: &str) -> Option<Vec<usize>> {
    Some(match name {
        "kay" => echoes::default_sizes(echoes::SIZES),
        "lehmann" => per_packet::all_sizes(),
        "wolman" => SIZES.to_vec(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_as_many_sizes_as_it_says() {
        for (name, told) in NAMES {
            let sizes = named(name).unwrap();
            assert!(told.contains(&format!("the {} of", sizes.len())), "{told}");
            assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
        }
        assert_eq!(named("kay").unwrap()[39], 8_192);
        assert_eq!(named("clark"), None);
    }
}

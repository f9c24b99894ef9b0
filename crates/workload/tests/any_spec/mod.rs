//! Specs of any kind by seed: what nobody thought of trying.
//!
//! It is a part of the tests of the library and of those between processes; both say which types it is about.

use super::{Mechanisms, Mode, Spec, Workload};

/// A spec of any workload, size, mode and mechanism, by its seed. `with_checksums` leaves out the policy that has none.
pub(super) fn any_spec(seed: u64, modes: &[Mode], with_checksums: bool) -> Spec {
    let mut state = seed;
    // SplitMix64 (Steele, Lea and Flood 2014).
    let mut below = |n: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    };
    // Small ones, those about a number of full segments and about 64 KiB, and any.
    let size = match below(4) {
        0 => 1 + below(100),
        1 => 1_448 * (1 + below(100)) + below(9) - 4,
        2 => 65_536 - 600 + below(1_200),
        _ => 1 + below(200_000),
    };
    let mode = modes[below(modes.len())];
    let workload = Workload::ALL[below(Workload::ALL.len())];
    let reverse = below(3) == 0;
    let mut spec = Spec::new(workload, size)
        .with_mode(mode.placement, mode.waiting)
        .with_nagle(below(2) == 0)
        .verified();
    if workload == Workload::Stream {
        spec = spec.reversed(reverse);
    }
    let mechanisms: Vec<_> = Mechanisms::each()
        .filter(|&(name, value, _)| !with_checksums || (name, value) != ("checksum", "off"))
        .collect();
    if below(2) == 0 {
        spec = spec.with_mechanisms(mechanisms[below(mechanisms.len())].2);
    }
    spec
}

/// The seeds that are tried: `usual` ones, or those of `TOLLGATE_SEEDS=first:last`.
pub(super) fn seeds(usual: std::ops::RangeInclusive<u64>) -> std::ops::RangeInclusive<u64> {
    let Ok(given) = std::env::var("TOLLGATE_SEEDS") else {
        return usual;
    };
    let (first, last) = given.split_once(':').expect("TOLLGATE_SEEDS=first:last");
    first.parse().expect("a number")..=last.parse().expect("a number")
}

//! Specs of any kind by seed: what nobody thought of trying.
//!
//! It is a part of the tests of the library and of those between processes; both say which types it is about.

#[path = "seeds.rs"]
mod seeds;

use super::{Mechanisms, Mode, Spec, Workload};
use seeds::Numbers;
pub(crate) use seeds::seeds;

/// A spec of any workload, size, mode and mechanism, by its seed. `with_checksums` leaves out the policy that has none.
pub(super) fn any_spec(seed: u64, modes: &[Mode], with_checksums: bool) -> Spec {
    let mut numbers = Numbers(seed);
    let mut below = |n: usize| numbers.below(n);
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

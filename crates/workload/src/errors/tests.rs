//! Counts that theory knows, and that the same seed gives again.

use super::*;
use tollgate_stack::config::Mechanisms;

/// Errors of each case.
const TRIED: u64 = 300;

fn frames() -> Frames {
    Frames::make(1).unwrap()
}

fn tried(place: FaultSite, damage: Damage, aal: Aal) -> Counts {
    try_case(&frames(), Case { place, damage }, aal, TRIED, 7)
}

const AALS: [Aal; 2] = [Aal::Aal34, Aal::Aal5];

#[test]
fn frames_are_segments_whose_checksums_hold() {
    let frames = frames();
    let mut random = random::Random::new(3);
    for &payload in Payload::ALL {
        for _ in 0..50 {
            let (one, other) = frames.two(payload, &mut random);
            assert_ne!(one, other);
            assert!(checks::holds(one) && checks::holds(other));
            assert_eq!(one.len(), other.len());
        }
    }
}

#[test]
fn same_seed_gives_the_same_counts() {
    for aal in AALS {
        let case = Case {
            place: FaultSite::Switch,
            damage: Damage::Garbage,
        };
        let counts =
            [5, 5, 6].map(|seed| try_case(&Frames::make(2).unwrap(), case, aal, 3_000, seed));
        assert_eq!(counts[0], counts[1]);
        assert_eq!(counts[0].injected, 3_000);
    }
    let handed = || application(Damage::DistantWords, 300, 9, || true).unwrap();
    assert_eq!(handed(), handed());
}

#[test]
fn small_errors_pass_nothing_where_a_crc_covers_them() {
    for aal in AALS {
        for place in [FaultSite::Link, FaultSite::Switch] {
            for damage in [Damage::Bit, Damage::Burst] {
                let counts = tried(place, damage, aal);
                assert_eq!(counts.injected, TRIED);
                assert_eq!(
                    (counts.crc, counts.layer, counts.both),
                    (0, 0, 0),
                    "{place} {damage}"
                );
                assert_eq!(counts.checksum, 0);
            }
        }
    }
}

#[test]
fn errors_in_memory_pass_every_crc() {
    for aal in AALS {
        for place in [FaultSite::Adapter, FaultSite::Gateway] {
            for damage in IN_MEMORY {
                let counts = tried(place, damage, aal);
                assert!(counts.injected > TRIED * 2 / 3, "{damage}");
                assert_eq!(counts.crc, counts.injected);
                assert_eq!(counts.layer, counts.injected);
                assert_eq!(counts.both, counts.checksum);
            }
            let swapped = tried(place, Damage::SwappedWords, aal);
            assert!(swapped.checksum * 10 > swapped.injected * 8, "{swapped:?}");
            assert_eq!(tried(place, Damage::Bit, aal).checksum, 0);
        }
    }
}

#[test]
fn lost_cells_pass_crc10_and_no_adaptation_layer() {
    for aal in AALS {
        for damage in [Damage::LostCell, Damage::SixteenLostCells, Damage::Splice] {
            let counts = tried(FaultSite::Switch, damage, aal);
            assert_eq!(counts.injected, TRIED, "{damage}");
            assert_eq!(
                counts.crc == TRIED,
                aal == Aal::Aal34,
                "{damage} {counts:?}"
            );
            assert_eq!((counts.layer, counts.both), (0, 0), "{damage}");
        }
    }
}

#[test]
fn distant_cells_pass_all_of_aal34_and_the_checksum() {
    let random = 0;
    let counts = tried(FaultSite::Switch, Damage::DistantCells, Aal::Aal34);
    assert_eq!(counts.crc, counts.injected);
    // Of 183 cells the first and the last cannot change places unseen.
    assert!(counts.layer * 2 > counts.injected, "{counts:?}");
    assert!(
        counts.checksum_by[random] * 10 > counts.injected_by[random] * 8,
        "{counts:?}"
    );
    assert_eq!(counts.both, counts.checksum);
    let counts = tried(FaultSite::Switch, Damage::DistantCells, Aal::Aal5);
    assert_eq!((counts.crc, counts.both), (0, 0));
    assert!(
        counts.checksum_by[random] * 10 > counts.injected_by[random] * 8,
        "{counts:?}"
    );
}

#[test]
fn applications_get_only_what_the_checksum_cannot_see() {
    for damage in IN_MEMORY {
        let handed = application(damage, 2_000, 11, || true).unwrap();
        assert_eq!(handed.injected, 2_000);
        assert_eq!(handed.seen + handed.unseen, 2_000);
        assert_eq!(handed.wrong_seen, 0, "{damage} {handed:?}");
        let swaps = matches!(damage, Damage::SwappedWords | Damage::DistantWords);
        assert_eq!(handed.wrong_unseen > 100, swaps, "{damage} {handed:?}");
    }
}

/// The fault that the count of wrong reads is there for: stacks that verify nothing.
#[test]
fn stacks_that_verify_nothing_are_found() {
    let mut off = Mechanisms::DEFAULT;
    off.set("checksum", "off").unwrap();
    for damage in IN_MEMORY {
        let handed = application::application_over(off, damage, 500, 11, || true).unwrap();
        assert!(handed.wrong_seen > 100, "{damage} {handed:?}");
    }
}

#[test]
fn cases_are_told_apart() {
    let all = cases();
    let unique: std::collections::HashSet<Case> = all.iter().copied().collect();
    assert_eq!(unique.len(), all.len());
    for &place in FaultSite::ALL {
        assert!(all.iter().any(|case| case.place == place));
    }
}

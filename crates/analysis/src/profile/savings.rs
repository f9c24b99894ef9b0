//! Savings by optimisations: the part of the time that each would take away.
//!
//! A saving is a factor for each category, or for each part of a category where the run holds parts: 0.5 for a checksum at half its
//! cost. It takes nothing else to be changed: buffers that are freed sooner, or caches that stay warm, are not in it.

/// Something that would take less time.
pub(super) struct Saving {
    pub(super) label: &'static str,
    /// The definition in terms of the measured parts.
    pub(super) meaning: &'static str,
    pub(super) of: Of,
}

/// Part of the time that is saved, as a share.
pub(super) enum Of {
    /// Of a whole category.
    Category(&'static str, f64),
    /// Of parts of a category, by their names.
    Parts(&'static [&'static str], f64),
    /// The cost of two full segments beyond one that holds as much as both.
    Pairs,
}

/// Octets of a full segment where packets have at most 1,500: without IP's header and TCP's, and up to all 40 octets of options.
pub(super) const FULL: std::ops::RangeInclusive<f64> = 1_420.0..=1_460.0;

/// Optimisations that Kay and Pasquale discuss (sections VI to VIII), and later ones.
pub(super) const SAVINGS: [Saving; 9] = [
    Saving {
        label: "Checksum at half its cost",
        meaning: "half of Checksum",
        of: Of::Category("Checksum", 0.5),
    },
    Saving {
        label: "No checksum",
        meaning: "all of Checksum",
        of: Of::Category("Checksum", 1.0),
    },
    Saving {
        label: "One copy of two dropped",
        meaning: "half of DataMove",
        of: Of::Category("DataMove", 0.5),
    },
    Saving {
        label: "No byte moved",
        meaning: "all of DataMove",
        of: Of::Category("DataMove", 1.0),
    },
    Saving {
        label: "Twice the MTU",
        meaning: "of each two full segments one, its bytes apart",
        of: Of::Pairs,
    },
    Saving {
        label: "Buffers at half their cost",
        meaning: "half of Mbuf",
        of: Of::Category("Mbuf", 0.5),
    },
    Saving {
        label: "Operating system at half its cost",
        meaning: "half of OpSys",
        of: Of::Category("OpSys", 0.5),
    },
    Saving {
        label: "Nobody is woken",
        meaning: "all of Wakeup, Sleep and Proc restart",
        of: Of::Parts(&["Wakeup", "Sleep", "Proc restart"], 1.0),
    },
    Saving {
        label: "Protocols at half their cost",
        meaning: "half of ProtSpec",
        of: Of::Category("ProtSpec", 0.5),
    },
];

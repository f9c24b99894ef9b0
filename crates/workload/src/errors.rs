//! Errors on the way of frames over ATM, and which check finds them (Wolman, Voelker and Thekkath 1994, section 4.2.1).
//!
//! Frames are made by two of Tollgate's stacks that talk ([`Frames`]). A [`Case`] is an error ([`Damage`]) at a [`FaultSite`]. What a CRC can
//! see follows from the place: cells on the link and in a switch keep the CRC that their sender made; between an adapter and its host, and
//! in a gateway's memory, data changes where no CRC covers it. [`try_case`] counts what passes each check; [`application`] hands damaged
//! frames to a stack and compares what its application reads.
//!
//! Everything follows from the seed. This module must never measure time.

mod application;
mod checks;
mod damage;
mod frames;
mod random;

pub use application::{Handed, application};
pub use checks::{Counts, try_case};
pub use frames::{Frames, Payload};
pub use tollgate_link::atm::Aal;

use tollgate_run::names;

/// Source of an error: one of the four that the paper lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultSite {
    /// On the line: any of a cell's 53 bytes, or a whole cell.
    Link,
    /// In a switch between its ports: payloads, for it makes each cell's header anew, and whole cells.
    Switch,
    /// Between the memory of a host and its adapter: in front of the sender's CRC or behind the receiver's check.
    Adapter,
    /// In the memory of a gateway, which has checked the CRC and makes a new one.
    Gateway,
}

names!(FaultSite, "place", Link => "link", Switch => "switch", Adapter => "adapter", Gateway => "gateway");

/// Damage to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Damage {
    /// One bit is inverted.
    Bit,
    /// 2 to 8 bits in a row change, the first and the last of them surely.
    Burst,
    /// 48 bytes become random ones.
    Garbage,
    /// Two neighbouring words of 16 bits change places.
    SwappedWords,
    /// Two words of 16 bits anywhere in the packet change places.
    DistantWords,
    /// 32 bytes become zeros.
    ZeroedBlock,
    /// A cell is lost.
    LostCell,
    /// 16 cells in a row are lost, which a sequence number of four bits does not show.
    SixteenLostCells,
    /// Cells are lost from inside a frame up to the same place of the next: what is left has the length of one frame.
    Splice,
    /// A cell comes twice.
    DuplicatedCell,
    /// Two neighbouring cells change places.
    SwappedCells,
    /// Two cells with 15 between them change places: they have the same sequence number.
    DistantCells,
}

names!(
    Damage, "damage",
    Bit => "one wrong bit",
    Burst => "burst of 2 to 8 bits",
    Garbage => "48 random bytes",
    SwappedWords => "neighbouring 16-bit words swapped",
    DistantWords => "distant 16-bit words swapped",
    ZeroedBlock => "32 bytes zeroed",
    LostCell => "cell lost",
    SixteenLostCells => "16 cells lost in a row",
    Splice => "two frames spliced",
    DuplicatedCell => "cell duplicated",
    SwappedCells => "neighbouring cells swapped",
    DistantCells => "cells 16 apart swapped"
);

/// The errors in the bytes of a packet: those that a host's memory can have.
pub const IN_MEMORY: [Damage; 6] = [
    Damage::Bit,
    Damage::Burst,
    Damage::Garbage,
    Damage::SwappedWords,
    Damage::DistantWords,
    Damage::ZeroedBlock,
];

/// An error at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Case {
    /// The source of the error.
    pub place: FaultSite,
    /// The damage.
    pub damage: Damage,
}

/// Every case that is told apart, by place.
#[must_use]
pub fn cases() -> Vec<Case> {
    let on_link = [
        Damage::Bit,
        Damage::Burst,
        Damage::Garbage,
        Damage::LostCell,
        Damage::DuplicatedCell,
    ];
    let in_switch = [
        Damage::Bit,
        Damage::Burst,
        Damage::Garbage,
        Damage::SwappedWords,
        Damage::ZeroedBlock,
        Damage::LostCell,
        Damage::SixteenLostCells,
        Damage::Splice,
        Damage::DuplicatedCell,
        Damage::SwappedCells,
        Damage::DistantCells,
    ];
    let by_place: [(FaultSite, &[Damage]); 4] = [
        (FaultSite::Link, &on_link),
        (FaultSite::Switch, &in_switch),
        (FaultSite::Adapter, &IN_MEMORY),
        (FaultSite::Gateway, &IN_MEMORY),
    ];
    let of = |(place, damages): (FaultSite, &[Damage])| -> Vec<Case> {
        let case = |&damage| Case { place, damage };
        damages.iter().map(case).collect()
    };
    by_place.into_iter().flat_map(of).collect()
}

/// Probability that an error passes a check, where theory knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chance {
    /// It is always found.
    Never,
    /// The check does not cover it.
    Always,
    /// About one in so many passes, for random data.
    OneIn(u64),
    /// It depends on the data.
    Unknown,
}

impl Case {
    /// The probability of passing CRC-10 (with AAL3/4) or CRC-32 (with AAL5), the HEC included.
    #[must_use]
    pub const fn passes_crc(self, aal: Aal) -> Chance {
        if matches!(self.place, FaultSite::Adapter | FaultSite::Gateway) {
            return Chance::Always;
        }
        match (self.damage, aal) {
            (Damage::Bit | Damage::Burst, _) => Chance::Never,
            // A generator of degree n leaves one in 2^n of the longer bursts (Peterson and Brown 1961).
            (Damage::Garbage | Damage::ZeroedBlock, Aal::Aal34) => Chance::OneIn(1 << 10),
            // Such an error is a multiple of x^16 + 1, so the generator's factor x + 1 finds none of them.
            (Damage::SwappedWords, Aal::Aal34) => Chance::OneIn(1 << 9),
            // 32 bits at most.
            (Damage::SwappedWords, Aal::Aal5) => Chance::Never,
            (_, Aal::Aal5) => Chance::OneIn(1 << 32),
            // Each cell has a CRC of its own, which goes with it.
            (_, Aal::Aal34) => Chance::Always,
        }
    }

    /// The probability of passing the Internet checksum, and without a CRC the sequence numbers and lengths of the layer. Errors
    /// that hit headers are found more often.
    #[must_use]
    pub const fn passes_checksum(self, aal: Aal) -> Chance {
        match self.damage {
            Damage::Bit | Damage::Burst => Chance::Never,
            // A sum does not know the order of its terms.
            Damage::SwappedWords | Damage::DistantWords => Chance::Always,
            // Of 2^16 sums, 0000 and ffff are one.
            Damage::Garbage | Damage::ZeroedBlock => Chance::OneIn(65_535),
            Damage::DistantCells => Chance::Always,
            // AAL3/4 has sequence numbers and tags.
            Damage::SwappedCells if matches!(aal, Aal::Aal5) => Chance::Always,
            Damage::Splice if matches!(aal, Aal::Aal5) => Chance::Unknown,
            Damage::SwappedCells
            | Damage::Splice
            | Damage::LostCell
            | Damage::SixteenLostCells
            | Damage::DuplicatedCell => Chance::Never,
        }
    }
}

#[cfg(test)]
mod tests;

//! The errors themselves: what changes in bytes and in cells.

use super::random::Random;
use super::{Damage, FaultSite};
use tollgate_wire::atm::{CELL, Cell, HEADER, PAYLOAD};

/// Bytes that [`Damage::ZeroedBlock`] changes.
const BLOCK: usize = 32;
/// Bits of the longest [`Damage::Burst`].
const BURST: usize = 8;
/// Cells after which AAL3/4 uses a sequence number again.
const SEQUENCE: usize = 16;

/// Damages bytes; those that are too few for it, or that it happens to leave as they are, stay.
pub(super) fn bytes(damage: Damage, bytes: &mut [u8], random: &mut Random) {
    let words = bytes.len() / 2;
    match damage {
        Damage::Bit => flip(bytes, random.below(8 * bytes.len())),
        Damage::Burst => {
            let len = 2 + random.below(BURST - 1);
            let Some(places) = (8 * bytes.len()).checked_sub(len - 1) else {
                return;
            };
            let first = random.below(places);
            let inner = random.next();
            for bit in 0..len {
                if bit == 0 || bit == len - 1 || inner >> bit & 1 == 1 {
                    flip(bytes, first + bit);
                }
            }
        }
        Damage::Garbage => {
            let len = bytes.len().min(PAYLOAD);
            let from = random.below(bytes.len() - len + 1);
            for byte in &mut bytes[from..from + len] {
                *byte = random.next() as u8;
            }
        }
        Damage::SwappedWords if words >= 2 => {
            let first = random.below(words - 1);
            swap(bytes, first, first + 1);
        }
        Damage::DistantWords if words >= 2 => {
            let (one, other) = (random.below(words), random.below(words));
            swap(bytes, one, other);
        }
        Damage::ZeroedBlock => {
            let len = bytes.len().min(BLOCK);
            let from = 4 * random.below((bytes.len() - len) / 4 + 1);
            bytes[from..from + len].fill(0);
        }
        Damage::SwappedWords
        | Damage::DistantWords
        | Damage::LostCell
        | Damage::SixteenLostCells
        | Damage::Splice
        | Damage::DuplicatedCell
        | Damage::SwappedCells
        | Damage::DistantCells => {}
    }
}

fn flip(bytes: &mut [u8], bit: usize) {
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 0x80 >> (bit % 8);
    }
}

/// Exchanges two words, counted from the front.
fn swap(bytes: &mut [u8], one: usize, other: usize) {
    for byte in 0..2 {
        bytes.swap(2 * one + byte, 2 * other + byte);
    }
}

/// Damages the cells of two frames, of which the first has `first`; fewer cells than the error needs stay as they are.
pub(super) fn cells(
    (place, damage): (FaultSite, Damage),
    cells: &mut Vec<Cell>,
    first: usize,
    random: &mut Random,
) {
    match damage {
        Damage::LostCell => {
            cells.remove(random.below(first));
        }
        Damage::SixteenLostCells if first > SEQUENCE => {
            let from = random.below(first - SEQUENCE + 1);
            cells.drain(from..from + SEQUENCE);
        }
        // The first cell of the first frame and the last of the second stay.
        Damage::Splice if first >= 2 && cells.len() == 2 * first => {
            let from = 1 + random.below(first - 1);
            cells.drain(from..from + first);
        }
        Damage::DuplicatedCell => {
            let at = random.below(first);
            cells.insert(at, cells[at]);
        }
        Damage::SwappedCells if first >= 2 => {
            let at = random.below(first - 1);
            cells.swap(at, at + 1);
        }
        Damage::DistantCells if first > SEQUENCE => {
            let at = random.below(first - SEQUENCE);
            cells.swap(at, at + SEQUENCE);
        }
        Damage::SixteenLostCells | Damage::Splice | Damage::SwappedCells | Damage::DistantCells => {
        }
        Damage::Bit
        | Damage::Burst
        | Damage::Garbage
        | Damage::SwappedWords
        | Damage::DistantWords
        | Damage::ZeroedBlock => {
            let cell = &mut cells[random.below(first)];
            let from = match (place, damage) {
                (FaultSite::Link, Damage::Bit | Damage::Burst) => 0,
                _ => HEADER,
            };
            bytes(damage, &mut cell[from..CELL], random);
        }
    }
}

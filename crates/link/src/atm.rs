//! ATM as Wolman, Voelker and Thekkath (1994) had it: an adapter with two FIFOs of cells, AAL3/4 or AAL5.
//!
//! The adapter is FORE's TCA-100 (section 1.1 of the paper): the host writes cells into a transmit FIFO of [`TRANSMIT_FIFO`] cells and
//! reads them from a receive FIFO of [`RECEIVE_FIFO`]. An [`Adapter`] cuts frames into cells and puts them together; a [`Line`] carries
//! cells: between two ends in one thread ([`Cable`]) or between two processes ([`ShmLink`](crate::shm::ShmLink)).
//!
//! A frame's packet is carried with LLC encapsulation (RFC 2684, 5.1). A channel has two ends, so the Ethernet addresses stay behind: the
//! receiver writes those that its [`Config`] names. The EtherType is all that this link reads of a frame.
//!
//! The time that a line takes is not simulated. A cell leaves the transmit FIFO at once, as from the adapter, which begins with
//! the first whole cell. The receive FIFO is emptied whenever its host polls. Once it is full, [`WhenFull`] decides: the line waits, as one
//! of 140 Mb/s does in effect, which takes 0.9 ms to fill the FIFO; or cells are lost, as when a host is too slow for that. The driver
//! never overruns its own transmit FIFO: it goes on when the FIFO has room.

mod memory;
mod reassemble;
mod segment;

pub use memory::{Cable, MemoryLine};
pub use reassemble::{Reassembler, Stats as ReassemblyStats};
pub use segment::Segmenter;

use crate::fault::{Probability, Random};
use crate::take::{self, Taken};
use std::borrow::BorrowMut;
use std::collections::VecDeque;
use tollgate_checksum::Kernel;
use tollgate_stack::buffer::{Frame, Pool};
use tollgate_stack::link::{BURST, Integrity, Link};
use tollgate_wire::atm::{CELL, Cell, Channel, llc};
use tollgate_wire::ethernet::{self, MacAddr};

/// Cells that the transmit FIFO holds (Wolman et al. 1994, section 1.1).
pub const TRANSMIT_FIFO: usize = 36;

/// Cells that the receive FIFO holds (Wolman et al. 1994, section 1.1).
pub const RECEIVE_FIFO: usize = 292;

/// Bytes of the largest IP packet, as of FORE's driver; the paper says "our ATM MTU of 9K" (section 1.2).
///
/// RFC 1626 recommends 9,180 for IP over AAL5, which with its LLC encapsulation of eight bytes makes the same number.
pub const MTU: usize = 9_188;

/// The channel that both directions use: the first that is not the network's own.
pub const CHANNEL: Channel = Channel {
    path: 0,
    channel: 32,
};

/// The adaptation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aal {
    /// 44 bytes of payload in each cell, with sequence number, length and CRC-10.
    Aal34,
    /// 48 bytes of payload in each cell, and length and CRC-32 at the end of a PDU.
    Aal5,
}

/// Fate of a cell that finds the other end's receive FIFO full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// It waits on the line: a host that keeps up with its line.
    #[default]
    Wait,
    /// It is lost: a host that does not. The adapter has no way to say so to the sender.
    Lose,
}

/// Errors that a line makes in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Noise {
    /// Cells that vanish.
    pub lose: Probability,
    /// Cells of which one bit is flipped, in header or payload.
    pub damage: Probability,
}

/// Configuration of an adapter.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The adaptation layer.
    pub aal: Aal,
    /// Bytes of the largest IP packet.
    pub mtu: usize,
    /// The Ethernet address of this end's stack, to which arriving frames are addressed.
    pub local: MacAddr,
    /// The Ethernet address that arriving frames come from.
    pub peer: MacAddr,
    /// Fate of a cell that finds the other end's FIFO full.
    pub when_full: WhenFull,
    /// Errors of the line in cells that this end sends.
    pub noise: Noise,
    /// Seed of the noise.
    pub seed: u64,
    /// Sums packets while they are copied out of the reassembly buffer; without one they are only copied.
    pub kernel: Option<Kernel>,
}

impl Config {
    /// An end of a quiet line that waits, with the MTU of the paper.
    #[must_use]
    pub const fn new(aal: Aal, local: MacAddr, peer: MacAddr) -> Self {
        Self {
            aal,
            mtu: MTU,
            local,
            peer,
            when_full: WhenFull::Wait,
            noise: Noise {
                lose: Probability::NEVER,
                damage: Probability::NEVER,
            },
            seed: 0,
            kernel: None,
        }
    }
}

/// Counts so far at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Frames cut into cells.
    pub sent: u64,
    /// Frames that arrived whole.
    pub received: u64,
    /// Frames not sent: shorter than an Ethernet header or longer than the MTU allows.
    pub bad_size: u64,
    /// Cells put on the line.
    pub cells_sent: u64,
    /// Times that the transmit FIFO was full and its driver had to wait.
    pub transmit_full: u64,
    /// Cells lost because the other end's receive FIFO was full.
    pub overflowed: u64,
    /// Cells lost by [`Noise::lose`].
    pub lost: u64,
    /// Cells damaged by [`Noise::damage`].
    pub damaged: u64,
    /// Times that a frame had to wait because the pool had none to spare.
    pub no_frame: u64,
    /// Frames lost: longer than the pool's frames.
    pub too_long: u64,
    /// Payloads without the LLC header of a routed packet.
    pub bad_encapsulation: u64,
}

/// Something that carries cells from one adapter to the other, in order.
pub trait Line {
    /// Cells that the other end's receive FIFO has room for.
    fn room(&mut self) -> usize;

    /// Carries a cell there. The caller has looked for [room](Self::room).
    fn send(&mut self, cell: &Cell);

    /// Says that no more cells follow for now; `waiting` tells whether more will when there is room.
    fn end_sending(&mut self, waiting: bool);

    /// The oldest cell in this end's receive FIFO.
    fn receive(&mut self) -> Option<Cell>;

    /// Says that no more cells are read for now; `starved` tells whether that is for want of frames.
    fn end_receiving(&mut self, starved: bool);
}

/// An adapter and its driver.
#[derive(Debug)]
pub struct Adapter {
    config: Config,
    segmenter: Segmenter,
    /// The transmit FIFO.
    fifo: VecDeque<Cell>,
    reassembler: Reassembler,
    random: Random,
    stats: Stats,
}

impl Adapter {
    /// An adapter without cells.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let Config { aal, mtu, seed, .. } = config;
        Self {
            segmenter: Segmenter::new(aal, CHANNEL),
            fifo: VecDeque::with_capacity(TRANSMIT_FIFO),
            reassembler: Reassembler::new(aal, CHANNEL, llc::HEADER + mtu),
            random: Random::new(seed, 0),
            config,
            stats: Stats::default(),
        }
    }

    /// Counts so far.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Counts of the cells that arrived, by their fate.
    #[must_use]
    pub const fn reassembly(&self) -> &ReassemblyStats {
        self.reassembler.stats()
    }

    /// Tells whether cells wait to be sent.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        !self.fifo.is_empty() || self.segmenter.left() > 0
    }

    /// Tells whether a whole packet waits for a frame of the pool.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        self.reassembler.payload().is_some()
    }

    /// Writes the cells of frames into the FIFO for as long as it has room.
    fn transmit(&mut self, line: &mut impl Line, pool: &mut Pool, frames: &mut Vec<Frame>) {
        let mut taken = 0;
        while self.write(line) {
            let Some(frame) = frames.get(taken) else {
                break;
            };
            taken += 1;
            self.begin(pool.frame(frame));
        }
        for frame in frames.drain(..taken) {
            pool.release(frame.id);
        }
        let waiting = self.is_sending() || !frames.is_empty();
        self.stats.transmit_full += u64::from(waiting);
        line.end_sending(waiting);
    }

    /// Begins a frame's PDU.
    fn begin(&mut self, frame: &[u8]) {
        match frame.split_first_chunk::<{ ethernet::HEADER_LEN }>() {
            Some((header, packet)) if packet.len() <= self.config.mtu => {
                let ether_type = u16::from_be_bytes([header[12], header[13]]);
                self.segmenter.begin([&llc::header(ether_type), packet]);
                self.stats.sent += 1;
            }
            _ => self.stats.bad_size += 1,
        }
    }

    /// Writes the rest of a PDU into the FIFO; tells whether all of it is there.
    fn write(&mut self, line: &mut impl Line) -> bool {
        loop {
            self.drive(line);
            if self.fifo.len() == TRANSMIT_FIFO {
                return false;
            }
            match self.segmenter.next() {
                Some(cell) => self.fifo.push_back(cell),
                None => return true,
            }
        }
    }

    /// Moves cells from the FIFO to the other end, as the transmit engine does.
    #[inline]
    fn drive(&mut self, line: &mut impl Line) {
        while !self.fifo.is_empty() {
            let room = line.room() > 0;
            if !room && self.config.when_full == WhenFull::Wait {
                return;
            }
            let Some(mut cell) = self.fifo.pop_front() else {
                return;
            };
            self.stats.cells_sent += 1;
            if !self.survives(&mut cell) {
                self.stats.lost += 1;
            } else if room {
                line.send(&cell);
            } else {
                self.stats.overflowed += 1;
            }
        }
    }

    /// Makes the line's errors in a cell; tells whether it arrives.
    #[inline]
    fn survives(&mut self, cell: &mut Cell) -> bool {
        let Noise { lose, damage } = self.config.noise;
        if lose == Probability::NEVER && damage == Probability::NEVER {
            return true;
        }
        let lost = lose.happens(self.random.next_u32());
        if damage.happens(self.random.next_u32()) {
            let bit = self.random.below(8 * CELL as u64) as usize;
            cell[bit / 8] ^= 1 << (bit % 8);
            self.stats.damaged += u64::from(!lost);
        }
        !lost
    }

    /// Puts the cells in the receive FIFO together.
    fn receive(&mut self, line: &mut impl Line, pool: &mut Pool, frames: &mut Vec<Frame>) {
        if self.is_sending() {
            self.write(line);
            let waiting = self.is_sending();
            line.end_sending(waiting);
        }
        let mut starved = false;
        let enough = frames.len() + BURST;
        while frames.len() < enough {
            if self.reassembler.payload().is_some() && !self.deliver(pool, frames) {
                starved = true;
                break;
            }
            let Some(cell) = line.receive() else {
                break;
            };
            self.reassembler.push(&cell);
        }
        line.end_receiving(starved);
    }

    /// Makes a frame of the payload that is complete; `false` when it must wait for one of the pool.
    fn deliver(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) -> bool {
        let ether_type = self.reassembler.payload().and_then(llc::parse);
        let Some((ether_type, _)) = ether_type else {
            self.stats.bad_encapsulation += 1;
            self.reassembler.take();
            return true;
        };
        let header = ethernet::Header {
            destination: self.config.local,
            source: self.config.peer,
            ethertype: ethernet::EtherType::from_u16(ether_type),
        };
        let kernel = self.config.kernel.as_ref();
        let front = header.to_bytes();
        if let Some(bytes) = self.reassembler.with_front(llc::HEADER, &front) {
            match take::take(bytes, kernel, pool) {
                Taken::Frame(frame) => {
                    frames.push(frame);
                    self.stats.received += 1;
                }
                Taken::NoFrame => {
                    self.stats.no_frame += 1;
                    // The next try finds what this one has found.
                    let front = llc::header(ether_type);
                    self.reassembler.with_front(llc::HEADER, &front);
                    return false;
                }
                Taken::TooLong => self.stats.too_long += 1,
            }
        }
        self.reassembler.take();
        true
    }
}

/// An adapter on its line: a link.
///
/// The adapter may be borrowed, for an end that lives as long as a stack needs it.
#[derive(Debug)]
pub struct Atm<A, L> {
    adapter: A,
    line: L,
}

impl<A: BorrowMut<Adapter>, L: Line> Atm<A, L> {
    /// Puts an adapter on a line.
    pub const fn new(adapter: A, line: L) -> Self {
        Self { adapter, line }
    }

    /// The adapter.
    pub fn adapter(&self) -> &Adapter {
        self.adapter.borrow()
    }

    /// The line.
    pub const fn line(&self) -> &L {
        &self.line
    }
}

impl<A: BorrowMut<Adapter>, L: Line> Link for Atm<A, L> {
    fn mtu(&self) -> usize {
        self.adapter.borrow().config.mtu
    }

    /// AAL3/4 has a CRC of 10 bits in each cell, AAL5 one of 32 in each frame.
    fn integrity(&self) -> Integrity {
        Integrity::Crc
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.adapter
            .borrow_mut()
            .transmit(&mut self.line, pool, frames);
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.adapter
            .borrow_mut()
            .receive(&mut self.line, pool, frames);
    }
}

#[cfg(test)]
mod tests;

//! The mapped ring: blocks that the kernel fills and hands over whole.
//!
//! A block is ours from when its status says so until we write that it is the kernel's again. What stands in it is read by
//! offset and with bounds, as bytes of a file are.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{sockaddr_ll, tpacket_block_desc, tpacket_hdr_v1, tpacket3_hdr};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::Packet;

/// Offsets of a block's fields.
const STATUS: usize =
    offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, block_status);
const COUNT: usize = offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, num_pkts);
const FIRST: usize =
    offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);
/// Offset of the sender's address in a packet: behind its header, aligned (linux/if_packet.h).
const ADDRESS: usize = size_of::<tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// The ring.
#[derive(Debug)]
pub(super) struct Ring {
    start: NonNull<u8>,
    block: usize,
    blocks: usize,
    /// The block that is filled next.
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and is valid on every thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of `socket`, which has `blocks` blocks of `block` bytes.
    pub(super) fn map(socket: &OwnedFd, block: usize, blocks: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice, which no other part of the program knows.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                block * blocks,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                socket.as_fd(),
                0,
            )
        }?;
        Ok(Self {
            start: NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?,
            block,
            blocks,
            next: 0,
        })
    }

    /// Tells whether there is a block to take.
    pub(super) fn is_ready(&self) -> bool {
        // Acquire: what the block holds was written before.
        self.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Gives the packets of all blocks that are there.
    pub(super) fn take<E>(
        &mut self,
        mut each: impl FnMut(&Packet<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut any = false;
        for _ in 0..self.blocks {
            if !self.is_ready() {
                break;
            }
            for packet in Packets::of(self.bytes(self.next)) {
                any = true;
                each(&packet)?;
            }
            // Release: what was read of the block was read before.
            let status = self.status(self.next);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.blocks;
        }
        Ok(any)
    }

    fn at(&self, block: usize) -> *mut u8 {
        debug_assert!(block < self.blocks);
        // SAFETY: the mapping has `blocks` blocks.
        unsafe { self.start.as_ptr().add(block * self.block) }
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        // SAFETY: the field lies in the block's front.
        let status = unsafe { self.at(block).add(STATUS) };
        // SAFETY: it is aligned to its 4 bytes, and both sides use it as one word.
        unsafe { AtomicU32::from_ptr(status.cast()) }
    }

    /// The bytes of a block that is ours.
    fn bytes(&self, block: usize) -> &[u8] {
        // SAFETY: the block lies in the mapping, which lives as long as `self`; the kernel leaves it alone until its status
        // is set back, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.at(block), self.block) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let len = self.block * self.blocks;
        // SAFETY: the mapping is this value's own and no reference into it outlives a call.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), len) };
        // It only fails for addresses that are not mapped.
        debug_assert!(unmapped.is_ok());
    }
}

/// The packets of a block.
struct Packets<'a> {
    block: &'a [u8],
    at: usize,
    left: u32,
}

impl<'a> Packets<'a> {
    fn of(block: &'a [u8]) -> Self {
        Self {
            block,
            at: word(block, FIRST).unwrap_or(0) as usize,
            left: word(block, COUNT).unwrap_or(0),
        }
    }

    /// The packet whose header stands at `from`, and where the next one's does.
    fn read(&self, from: usize) -> Option<(Packet<'a>, usize)> {
        let header = self.block.get(from..)?;
        let field = |at| word(header, at);
        let data = usize::from(half(header, offset_of!(tpacket3_hdr, tp_mac))?);
        let kept = field(offset_of!(tpacket3_hdr, tp_snaplen))? as usize;
        let seconds = u64::from(field(offset_of!(tpacket3_hdr, tp_sec))?);
        let nanos = u64::from(field(offset_of!(tpacket3_hdr, tp_nsec))?);
        let address = header.get(ADDRESS..ADDRESS + size_of::<sockaddr_ll>())?;
        let byte = |at: usize| address.get(at).copied();
        let sender = address.get(offset_of!(sockaddr_ll, sll_addr)..)?;
        let len = usize::from(byte(offset_of!(sockaddr_ll, sll_halen))?);
        let packet = Packet {
            nanos: seconds * 1_000_000_000 + nanos,
            bytes: header.get(data..data.checked_add(kept)?)?,
            wire_len: field(offset_of!(tpacket3_hdr, tp_len))?,
            protocol: u16::from_be(half(address, offset_of!(sockaddr_ll, sll_protocol))?),
            interface: word(address, offset_of!(sockaddr_ll, sll_ifindex))?,
            hardware: half(address, offset_of!(sockaddr_ll, sll_hatype))?,
            kind: byte(offset_of!(sockaddr_ll, sll_pkttype))?,
            sender: &sender[..len.min(sender.len())],
        };
        let next = field(offset_of!(tpacket3_hdr, tp_next_offset))? as usize;
        Some((packet, from + next))
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        self.left = self.left.checked_sub(1)?;
        // A block that the kernel wrote holds as many as it says.
        let (packet, next) = self.read(self.at)?;
        self.at = next;
        Some(packet)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block with these packets, laid out as the kernel does.
    fn block(packets: &[(u32, &[u8])]) -> Vec<u8> {
        let mut block = vec![0; size_of::<tpacket_block_desc>()];
        let first = block.len() as u32;
        block[COUNT..COUNT + 4].copy_from_slice(&(packets.len() as u32).to_ne_bytes());
        block[FIRST..FIRST + 4].copy_from_slice(&first.to_ne_bytes());
        for (nanos, bytes) in packets {
            let data = (ADDRESS + size_of::<sockaddr_ll>()).next_multiple_of(16);
            let mut packet = vec![0; data];
            let next = (data + bytes.len()).next_multiple_of(8);
            for (at, value) in [
                (offset_of!(tpacket3_hdr, tp_next_offset), next as u32),
                (offset_of!(tpacket3_hdr, tp_sec), 7),
                (offset_of!(tpacket3_hdr, tp_nsec), *nanos),
                (offset_of!(tpacket3_hdr, tp_snaplen), bytes.len() as u32),
                (offset_of!(tpacket3_hdr, tp_len), 1_500),
                (offset_of!(tpacket3_hdr, tp_mac), data as u32),
                (ADDRESS + offset_of!(sockaddr_ll, sll_ifindex), 3),
            ] {
                packet[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            }
            let at = ADDRESS + offset_of!(sockaddr_ll, sll_protocol);
            packet[at..at + 2].copy_from_slice(&0x86dd_u16.to_be_bytes());
            packet[ADDRESS + offset_of!(sockaddr_ll, sll_pkttype)] = 4;
            packet[ADDRESS + offset_of!(sockaddr_ll, sll_halen)] = 6;
            packet.extend_from_slice(bytes);
            packet.resize(next, 0);
            block.extend(packet);
        }
        block
    }

    #[test]
    fn the_packets_of_a_block_are_read_in_their_order() {
        let block = block(&[(1, b"first"), (2, b"")]);
        let packets: Vec<Packet<'_>> = Packets::of(&block).collect();
        assert_eq!(packets.len(), 2);
        assert_eq!(
            packets[0],
            Packet {
                nanos: 7_000_000_001,
                bytes: b"first",
                wire_len: 1_500,
                protocol: 0x86dd,
                interface: 3,
                hardware: 0,
                kind: 4,
                sender: &[0; 6],
            }
        );
        assert!(packets[0].is_outgoing());
        assert_eq!(
            (packets[1].nanos, packets[1].bytes),
            (7_000_000_002, &b""[..])
        );
    }

    #[test]
    fn no_bytes_make_it_read_beyond_a_block() {
        let mut block = block(&[(1, b"first")]);
        for at in 0..block.len() {
            for value in [0, 0x7f, 0xff] {
                let before = std::mem::replace(&mut block[at], value);
                assert!(Packets::of(&block).take(10).count() <= 10);
                block[at] = before;
            }
        }
        for len in 0..block.len() {
            let _ = Packets::of(&block[..len]).count();
        }
    }
}

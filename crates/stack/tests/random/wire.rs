//! Both directions of the stack's link: bytes in, bytes out.

use super::complete::complete;
use tollgate_stack::{Frame, Link, Pool};

/// Bytes of the largest IP packet.
pub const MTU: usize = 1500;

/// The stack's end of a link that takes everything at once.
#[derive(Debug, Default)]
pub struct Wire {
    pub to_stack: Vec<Vec<u8>>,
    pub from_stack: Vec<Vec<u8>>,
    /// Another form that frames have between the wire and the stack.
    pub translation: Option<Translation>,
    /// Frames that were translated for the stack.
    pub translated: u32,
    /// It completes checksums where it is asked to.
    pub willing: bool,
    /// It does so.
    pub completes: bool,
    /// Frames whose checksum was another before.
    pub completed: u64,
}

/// Frames of the peer as the stack gets them, of which so many came before, and a frame of the stack as the peer gets it.
#[derive(Clone, Copy, Debug)]
pub struct Translation {
    pub from_peer: fn(&[u8], u32) -> Vec<Vec<u8>>,
    pub to_peer: fn(&[u8]) -> Vec<u8>,
}

impl Link for Wire {
    fn mtu(&self) -> usize {
        MTU
    }

    fn complete_checksums(&mut self, wanted: bool) -> bool {
        self.completes = wanted && self.willing;
        self.completes
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            if self.completes {
                let before = pool.frame(&frame).to_vec();
                complete(pool.frame_mut(&frame));
                self.completed += u64::from(pool.frame(&frame) != before);
            }
            let raw = pool.frame(&frame);
            let to_peer = self.translation.map(|translation| translation.to_peer);
            self.from_stack
                .push(to_peer.map_or_else(|| raw.to_vec(), |to_peer| to_peer(raw)));
            pool.release(frame.id);
        }
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for raw in self.to_stack.drain(..) {
            // Where the pool is empty the frame is lost, as on any device.
            let Some(translation) = self.translation else {
                frames.extend(pool.frame_from(&raw));
                continue;
            };
            self.translated += 1;
            for raw in (translation.from_peer)(&raw, self.translated) {
                frames.extend(pool.frame_from(&raw));
            }
        }
    }
}

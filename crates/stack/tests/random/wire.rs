//! Both directions of the stack's link: bytes in, bytes out.

use tollgate_stack::{Frame, Link, Pool};

/// Bytes of the largest IP packet.
pub const MTU: usize = 1500;

/// The stack's end of a link that takes everything at once.
#[derive(Debug, Default)]
pub struct Wire {
    pub to_stack: Vec<Vec<u8>>,
    pub from_stack: Vec<Vec<u8>>,
}

impl Link for Wire {
    fn mtu(&self) -> usize {
        MTU
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            self.from_stack.push(pool.frame(&frame).to_vec());
            pool.release(frame.id);
        }
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for raw in self.to_stack.drain(..) {
            // Where the pool is empty the frame is lost, as on any device.
            frames.extend(pool.frame_from(&raw));
        }
    }
}

//! Both directions of the stack's link: bytes in, bytes out.

use super::ipv6;
use super::peer::PEER;
use std::net::IpAddr;
use tollgate_stack::{Frame, Link, Pool};

/// Bytes of the largest IP packet.
pub const MTU: usize = 1500;

/// The stack's end of a link that takes everything at once.
#[derive(Debug, Default)]
pub struct Wire {
    pub to_stack: Vec<Vec<u8>>,
    pub from_stack: Vec<Vec<u8>>,
    /// TCP goes over IPv6 between the wire and the stack, and segments that the peer has sent so.
    pub over_ipv6: bool,
    segments: u32,
}

impl Wire {
    /// A wire of either version.
    pub fn new(over_ipv6: bool) -> Self {
        Self {
            over_ipv6,
            ..Self::default()
        }
    }

    /// The peer's address.
    pub fn peer(&self) -> IpAddr {
        if self.over_ipv6 {
            ipv6::PEER_V6.into()
        } else {
            PEER.into()
        }
    }
}

impl Link for Wire {
    fn mtu(&self) -> usize {
        MTU
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            let raw = pool.frame(&frame);
            self.from_stack.push(if self.over_ipv6 {
                ipv6::to_peer(raw)
            } else {
                raw.to_vec()
            });
            pool.release(frame.id);
        }
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for raw in self.to_stack.drain(..) {
            // Where the pool is empty the frame is lost, as on any device.
            if self.over_ipv6 {
                self.segments += 1;
                for raw in ipv6::from_peer(&raw, self.segments) {
                    frames.extend(pool.frame_from(&raw));
                }
            } else {
                frames.extend(pool.frame_from(&raw));
            }
        }
    }
}

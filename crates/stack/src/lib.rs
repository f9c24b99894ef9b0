//! A sans-I/O userspace TCP/IP stack that counts its own cost.
//!
//! The stack does no I/O, reads no clock and holds no globals: frames, time and randomness are arguments. A
//! [`Stack`] is joined with a buffer [`Pool`] and the time for each call ([`Stack::at`]), and with a [`Link`] when it is
//! polled. What it spends on a packet can be counted on its own, gate by gate, and each mechanism that saves something can
//! be switched off ([`config::Mechanisms`]).
//!
//! TCP is RFC 9293 with RFC 5681, 5961, 6298, 6528, 6582 and 7323; IPv4 with fragments, ARP, ICMP and UDP are beside it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod buffer;
pub mod config;
pub mod counters;
mod demux;
pub mod icmp;
mod ip;
mod likely;
mod neighbour;
pub mod port;
mod reassembly;
pub mod socket;
pub mod stack;
mod tcp;
pub mod time;
mod timer;
pub mod udp;

pub use buffer::{Buffer, Frame, FrameId, Pool};
pub use config::Config;
pub use port::Link;
pub use socket::{ConnId, Error, Event, Info, ListenerId, Received, SocketOption};
pub use stack::{Active, Stack};
pub use tcp::tcb::State;
pub use time::Instant;

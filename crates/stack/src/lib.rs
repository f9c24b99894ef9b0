//! A sans-I/O userspace TCP/IP stack that counts its own cost.
//!
//! The stack does no I/O, reads no clock and holds no globals: frames, time and randomness are arguments. A
//! [`Stack`] is joined with a buffer [`Pool`] and the time for each call ([`Stack::at`]), and with a [`Link`] when it is
//! polled. What it spends on a packet can be counted on its own, gate by gate, and each mechanism that saves something can
//! be switched off ([`config::Mechanisms`]).
//!
//! ```
//! use std::net::{Ipv4Addr, SocketAddr};
//! use tollgate_link::{Side, memory::Memory};
//! use tollgate_stack::{Config, Event, Instant, Pool, Received, Stack};
//! use tollgate_wire::ethernet::MacAddr;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Instant::from_nanos(1);
//! let mut pool = Pool::new(64, Pool::frame_size_for(1500));
//! let mut cable = Memory::new(1500);
//! let host = |n| Config::new(MacAddr([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n), 24, [n.into(); 4]);
//! let (mut a, mut b) = (Stack::new(host(1), 1500, now)?, Stack::new(host(2), 1500, now)?);
//!
//! b.at(now, &mut pool).listen(7, 16)?;
//! a.at(now, &mut pool).connect("10.0.0.2:7".parse::<SocketAddr>()?)?;
//! let mut greeting = [0; 5];
//! 'talk: loop {
//!     let mut client = a.at(now, &mut pool);
//!     client.poll(&mut cable.end(Side::A)); // one turn: send, receive, timers
//!     while let Some(event) = client.next_event() {
//!         if let Event::Connection { conn, ready, .. } = event
//!             && ready.connected()
//!         {
//!             client.send(conn, b"hello")?;
//!         }
//!     }
//!     let mut server = b.at(now, &mut pool);
//!     server.poll(&mut cable.end(Side::B));
//!     while let Some(event) = server.next_event() {
//!         match event {
//!             Event::Listener { listener, .. } => {
//!                 server.accept(listener)?; // it has events of its own from now on
//!             }
//!             Event::Connection { conn, ready, .. } if ready.readable() => {
//!                 if server.receive(conn, &mut greeting)? == Received::Data(5) {
//!                     break 'talk;
//!                 }
//!             }
//!             Event::Connection { .. } | Event::Datagrams { .. } => {}
//!         }
//!     }
//! }
//! assert_eq!(&greeting, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! TCP is RFC 9293 with RFC 5681, 5961, 6298, 6528, 6582 and 7323; IPv4 and IPv6 with fragments, ARP, neighbour discovery, both
//! ICMPs and UDP are beside it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod addresses;
pub mod buffer;
mod compiled;
pub mod config;
mod conflict;
pub mod counters;
pub mod demux;
mod destinations;
pub mod dhcp;
pub mod icmp;
mod info;
mod ip;
pub mod ipv6;
mod lan;
mod likely;
mod limit;
pub mod link;
mod mechanisms;
mod memory_area;
mod neighbour;
mod next_hops;
mod options;
mod parts;
mod random;
mod ready;
mod reassembly;
pub mod socket;
pub mod stack;
mod tcp;
pub mod time;
mod timer;
pub mod udp;

pub use addresses::{AddressState, OwnAddress, Route};
pub use buffer::{Buffer, Frame, FrameId, Pool};
pub use config::Config;
pub use link::{Link, MAX_MTU};
pub use memory_area::MemoryArea;
pub use socket::{
    CongestionState, ConnId, Error, Event, Info, ListenerId, Open, Received, SocketOption,
};
pub use stack::{Active, Stack};
pub use tcp::consistency::Inconsistency;
pub use tcp::report::SoftError;
pub use tcp::slow::cork::Boundary;
pub use tcp::slow::fast_open_client::FastOpen;
pub use tcp::slow::redundancy::{Checksums, SocketChecksums};
pub use tcp::tcb::State;
pub use time::Instant;

//! Links, which move frames between stacks: memory, shared memory, and the fault and capture wrappers.
//!
//! Every link implements [`tollgate_stack::link::Link`], the stack's only view of the world below it. One link, one
//! file:
//!
//! - [`memory`]: two ends in one thread that hand frames over;
//! - [`shm`]: two processes, rings in shared memory (Clark's "two UNIX address spaces");
//! - [`tap`]: a tap device of Linux, with the kernel at the other end;
//! - [`packet`]: an interface that is shared with the host, by a packet socket;
//! - [`xdp`]: the same by AF_XDP, with the pool as the memory that the kernel writes to;
//! - [`atm`]: frames cut into cells by an adapter of 1994, over memory or shared memory;
//! - [`fault`]: a wrapper that loses, duplicates, reorders, damages and delays frames, seeded;
//! - [`faulty`]: faults in both directions and in real time, around a link that can be waited for;
//! - [`capture`]: a wrapper that writes every frame to a pcapng file;
//! - [`vlan`]: a wrapper that makes a link of one virtual LAN.
//!
//! [`host`] sets up the kernel's end of a device, and a [`InterfaceConfig`] has the addresses of a stack beside the kernel. A link that can be
//! waited for is [`Waitable`], and a [`Waiter`] decides whether its loop polls or sleeps. [`huge_pages`] are asked for under the tables of a stack with many connections.
//!
//! A link never looks into a frame beyond its length (`atm` reads its EtherType, `vlan` its tag, `tap` the headers of segments that it puts
//! together), never panics on what the other end does, and never blocks in
//! `transmit` or `receive`.
#![deny(unsafe_code)]

pub mod atm;
pub mod capture;
pub mod fault;
pub mod faulty;
pub mod host;
#[allow(unsafe_code)]
pub mod huge_pages;
mod integrity;
mod interface;
mod interface_config;
mod jumps;
pub mod memory;
pub mod packet;
pub mod shm;
mod side;
#[allow(unsafe_code)]
mod socket;
mod take;
pub mod tap;
mod virtio;
pub mod vlan;
mod wait;
mod waiter;
pub mod xdp;

pub use interface::{Addresses, OpenError, USUAL_MTU, mtu_on};
pub use interface_config::{DuplicateAddress, InterfaceConfig, InterfaceConfigV6, has_addresses};
pub use side::Side;
pub use wait::{WaitOutcome, Waitable, WaitableBeside};
pub use waiter::{WaitCounts, WaitMode, Waiter};

//! Servers and forwarders, each over the kernel's sockets or over Tollgate's stack.
//!
//! [`Sockets`] is the small trait that both stacks implement. A [`Server`] is one event loop over it: thousands of connections,
//! each a state machine that is asked to go on when its sockets may have become ready. Services are echo, discard and chargen
//! (RFC 862, 863, 864), the first two also by UDP, files by HTTP/1.1 (RFC 9110, 9112), and a forwarder to a server that the kernel
//! reaches.
//!
//! This crate moves bytes and never prints. Files are read where the loop runs: a disk that is slow holds up all connections.

mod datagrams;
mod forward;
mod http;
mod kernel;
mod pattern;
mod pipe;
mod server;
mod sockets;
mod stack;
mod table;

use std::time::Duration;

pub use datagrams::DatagramCounts;
pub use http::Root;
pub use kernel::KernelSockets;
pub use server::{Counts, Server, Service};
pub use sockets::{Ends, Event, Sockets};
pub use stack::{StackSockets, in_errno};

/// Frames of a stack that serves: 32 MB where IP packets have 1,500 bytes.
pub const FRAMES: usize = 16 * 1024;
/// Silence after which a peer is asked whether it is still there.
const KEEP_IDLE: Duration = Duration::from_secs(60);
/// Silence between two such questions.
const KEEP_INTERVAL: Duration = Duration::from_secs(10);
/// Questions without an answer after which a connection is over.
const KEEP_COUNT: u8 = 6;

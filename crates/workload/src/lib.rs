//! Request-response, connect-request-response and stream over any path.
//!
//! A [`Path`] is a way on which two ends talk; opening it with a [`Spec`] gives a [`Session`] that stays open, so that
//! slices of several paths can be interleaved (A B A B). A slice adds what it measured to [`Samples`](tollgate_stats::Samples).
//!
//! This crate drives the ends and takes the times. It never decides what is compared with what, never computes
//! statistics, and never prints.
//!
//! | path | workloads | ways to run | ends |
//! |---|---|---|---|
//! | `kernel-loopback` | rr (also over UDP), crr, stream (in several [ways](Sockets)) | one core blocking, two cores blocking or busy polling | two threads |
//! | `kernel-veth` | rr, crr, stream | as `kernel-loopback` | two threads, two network namespaces |
//! | `kernel-remote` | rr, crr, stream | two cores blocking or busy polling | two hosts, the other one served by [`kernel::remote::Server`] |
//! | `stack-memory` | rr, crr, stream | one core, polled | one thread |
//! | `stack-shm` | rr, crr, stream | two cores busy polling or blocking, one core blocking | two processes |
//! | `stack-tap` | rr, crr, stream | as `kernel-loopback` | Tollgate's stack and the kernel's sockets, two threads |
//! | `stack-packet` | rr, crr, stream | as `kernel-loopback` | as `stack-tap` |
//! | `stack-xdp` | rr, crr, stream | as `kernel-loopback` | as `stack-tap` |
//! | `peer-smoltcp` | rr, crr, stream | one core, polled | one thread |
//! | `bare-shm` | rr | two cores, busy polling | two processes |

pub mod bare_shm;
mod cell_faults;
pub mod child;
mod clock;
pub mod cores;
mod error;
pub mod errors;
pub mod gates;
mod input;
pub mod kernel;
mod laps;
mod link_kind;
pub mod links;
pub mod lossy_line;
pub mod many_streams;
mod namespace;
pub mod path;
mod paths;
pub mod payload;
pub mod peer_smoltcp;
pub mod per_packet;
pub mod placed;
pub mod shared_memory;
pub mod slice;
mod sockets;
mod spec;
mod stack_datagrams;
mod stack_end;
pub mod stack_gates;
mod stack_host;
mod stack_link;
pub mod stack_memory;
pub mod stack_packet;
pub mod stack_shm;
pub mod stack_tap;
pub mod stack_to;
mod stack_veth;
pub mod stack_xdp;
mod stamps;

pub use cell_faults::{CellCounts, CellFaults, FaultyLink};
pub use clock::{gate_clock, now_ns};
pub use error::Error;
pub use input::InputCounts;
pub use kernel::remote;
pub use laps::Laps;
pub use link_kind::LinkKind;
pub use tollgate_stack::buffer;
pub use tollgate_stack::config::{self, Mechanisms, Nagle, UnknownSetting};
pub use tollgate_stack::counters;

pub use path::{Capabilities, KernelEnds, Path, Session, StackGates, reverses};
pub use paths::{find, find_with_mtu, maybe_run, maybe_run_with, paths};
pub use sockets::{
    DATAGRAM_MECHANISMS, MAX_DATAGRAM, Reading, Sending, Sockets, Transport, carries_datagrams,
};
pub use spec::{MAX_SIZE, Spec};
pub use stamps::{SOCKET_STAMPED, STAMPED, Stamp, Stamps};

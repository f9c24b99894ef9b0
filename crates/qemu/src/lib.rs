//! Instructions per layer of a stock Linux kernel, counted exactly in QEMU.
//!
//! The kernel of a distribution boots in QEMU with one nanosecond of virtual time per instruction, and talks TCP to itself
//! over its loopback device. A plugin inside QEMU counts every instruction between two markers by the path of calls that
//! led to it, which disturbs the guest not at all: it sees the same clock with the plugin and without. Rules in
//! `layers.toml` say which function belongs to which layer.
//!
//! Without counting, the same machine runs other programs (`guest_run`), so that they can be tested on that kernel.
//!
//! Without the feature `host` only what the guest (`tollgate-qemu-guest`) and the plugin (`tollgate-qemu-plugin`) share is built.

pub mod instruction;
pub mod protocol;
pub mod tally;

#[cfg(feature = "host")]
mod host;
#[cfg(feature = "host")]
pub use host::*;

//! `kernel-remote`: Linux TCP to another host, on which `tollgate serve` runs the other end. `docs/remote.md` tells users of it.
//!
//! ```text
//! client                                          server (`tollgate serve`)
//! KernelRemote ── control connection (TCP) ────── Server: one thread for each client
//!   RemoteSession, timed end ── data connection ── FarThread, the same as on kernel-loopback
//!   gates of this host                              Keeper: gates of that host
//! ```
//!
//! **The control connection** carries a request, then its answer, and so on (`message`). It opens with ten octets in each
//! direction that tell what speaks and in which version (`frame`), and no later version may change them. Everything behind them
//! is JSON with its length in front; it is never on the measured path: while a slice runs, nothing is said.
//!
//! **Sessions** are what they are on `kernel-loopback`: the timed end runs here (`client`), the other there
//! (`server_thread`). The server opens the data ports on the address at which its client has reached it, and takes data
//! connections of that client's address only. A client may have many sessions, which take turns.
//!
//! **Gates** of the server are attached and detached as the client says, so that only the host whose span is being measured
//! carries any. Its events go to the client as they are: with the times of the server's own clock, which nobody converts. Who
//! compares them must compare differences (`tollgate-experiment`, `remote`).
//!
//! **Nothing stays**: what a client has opened or attached goes with its control connection, in whatever way that ends; and each
//! end of a data connection gives up when nothing moves for as long as [`PATIENCE`](crate::slice::PATIENCE) allows.
//!
//! Octets that come from the network are never trusted: every length has its limit, every count too, and nothing that is read can
//! make this module panic. There is no encryption. The token keeps strangers from using the server by mistake; it crosses the
//! network as it is.

mod client;
mod frame;
mod message;
mod server;
mod session;
mod target;
#[cfg(test)]
mod tests;

pub use client::{KernelRemote, RemoteBoundary, RemoteGates};
pub use server::{Notice, Server, Service};
pub use session::{CAPABILITIES, RemoteSession};
pub use target::{PORT, Target, first_address};

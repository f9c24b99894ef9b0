//! Gates of the Linux kernel.
//!
//! This crate finds out which hooks this kernel allows, puts gates on the path of a packet with the finest of them, joins what
//! they record to passages and gives these to the ledger of `tollgate-gate`. It also samples where processors spend their time,
//! by kernel function and call path.
//!
//! It owns all that is attached to the kernel and gives it back on every way out. It must never decide what is measured (that is
//! the experiment's part), never print, and never leave out an event in silence.

pub mod sampling;

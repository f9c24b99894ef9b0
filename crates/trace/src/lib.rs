//! Packet captures become messages: their flow, their size, their packets, their times.
//!
//! The way of a packet: [`input`] reads a file or standard input, decompresses it and hashes it. [`capture`] finds
//! the packets in pcap and pcapng and gets over damaged places. [`decode`] finds IP, TCP and UDP in a packet.
//! [`fragments`] puts fragmented datagrams together. [`flows`] knows the flows and cuts TCP into messages.
//! [`Importer`] is all of that in one loop, and gives rows ([`rows`]) to whoever keeps them.
//!
//! Memory is bounded whatever the input: one block of a capture, [`flows::Limits::flows`] flows, and
//! [`fragments::LIMIT`] datagrams in fragments. Each loss to a bound is counted. Payload is measured and never kept.
//!
//! Modules that have nothing to do with captures, the rebuilt traces and [`traffic`], are there without the feature
//! `captures`, too.
//!
//! This crate must never know how rows are stored, nor print.
#![forbid(unsafe_code)]

#[cfg(feature = "captures")]
pub mod anonymise;
#[cfg(feature = "captures")]
pub mod capture;
#[cfg(all(test, feature = "captures"))]
mod craft;
#[cfg(feature = "captures")]
pub mod decode;
#[cfg(feature = "captures")]
pub mod flows;
#[cfg(feature = "captures")]
pub mod fragments;
#[cfg(feature = "captures")]
mod import;
#[cfg(feature = "captures")]
pub mod input;
pub mod rebuilt;
#[cfg(feature = "captures")]
pub mod ring;
pub mod rows;
#[cfg(feature = "captures")]
pub mod tcb_cache;
pub mod traffic;

#[cfg(feature = "captures")]
pub use import::{Counts, Importer, Settings};

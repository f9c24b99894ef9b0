//! Packet captures become messages: what was sent, how large, in how many packets, on which flow.
//!
//! The way of a packet: [`input`] reads a file or standard input, decompresses it and hashes what it reads; [`capture`] finds
//! the packets in pcap and pcapng and gets over damaged places; [`decode`] finds IP, TCP and UDP in a packet;
//! [`fragments`] puts fragmented datagrams together; [`flows`] knows the flows and cuts TCP into messages. [`Importer`]
//! is all of that in one loop, and gives rows ([`rows`]) to whoever keeps them.
//!
//! Memory is bounded whatever the input: one block of a capture, [`flows::Limits::flows`] flows, and
//! [`fragments::LIMIT`] datagrams in parts. What a bound drives out is counted. Payload is measured and never kept.
//!
//! This crate must never know how rows are stored, nor print.
#![forbid(unsafe_code)]

pub mod anonymise;
pub mod capture;
#[cfg(test)]
mod craft;
pub mod decode;
pub mod flows;
pub mod fragments;
mod import;
pub mod input;
pub mod rebuilt;
pub mod ring;
pub mod rows;
pub mod tcb_cache;

pub use import::{Counts, Importer, Settings};

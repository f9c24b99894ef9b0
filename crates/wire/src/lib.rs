//! Headers of Ethernet, ARP, BPDUs, IPv4, IPv6, both ICMPs, neighbour discovery, UDP and TCP as views over bytes, parsed and
//! written in place; those of VLAN tags and Linux's cooked captures are only read. Cells of ATM and the PDUs of its adaptation layers are written and read.
//!
//! A `parse` looks at untrusted bytes, checks every length before it reads, and returns a small value; it never panics
//! and never reads beyond the slice. A `parse_front` does so with a packet of which only the front was captured. An `emit` writes a header into the front of a slice that the caller has sized.
//! Checksums are verified by their owners (the stack decides by policy), so `parse` does not look at them, except where
//! the header is its only user ([`ipv4::Header::checksum_is_valid`]) and in cells, which are nothing without their checks.
//!
//! This crate must never allocate, keep state or know about connections.
#![no_std]
#![forbid(unsafe_code)]

pub mod arp;
pub mod atm;
pub mod bpdu;
pub mod cooked;
pub mod ethernet;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod mld;
pub mod ndp;
mod seq;
pub mod source_route;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use seq::SeqNumber;

use core::fmt;

/// The reason why bytes are not the header that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The slice ends before the header, or before the length that the header names.
    Truncated,
    /// The version field is not the protocol's.
    Version,
    /// A length field contradicts itself or its header.
    Length,
    /// A field has a value that the protocol does not know.
    Field,
    /// An option's length is wrong or leaves the header.
    Option,
    /// A check sequence does not hold.
    Check,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Truncated => "ends before its header does",
            Malformed::Version => "has another version",
            Malformed::Length => "has a length field that contradicts itself",
            Malformed::Field => "has a field of unknown value",
            Malformed::Option => "has an option of wrong length",
            Malformed::Check => "has a check sequence that does not hold",
        })
    }
}

impl core::error::Error for Malformed {}

/// Reads a big-endian 16-bit word; the caller has checked the length.
#[inline(always)]
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Reads a big-endian 32-bit word; the caller has checked the length.
#[inline(always)]
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

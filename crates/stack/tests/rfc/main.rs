//! Conformance to the RFCs, section by section.
//!
//! Each test is a script: a peer made of hand-written segments talks to one stack over a wire in memory, in virtual
//! time, and expects exact answers. A test is named after what it proves; the clause it proves stands above it in the
//! RFC's words. `rfc_baseline` runs the same scripts without the mechanisms that make the stack fast. Sequence numbers are
//! relative to each side's initial one, so a SYN has number 0 and the first byte 1.

mod account;
mod buffer_sizes;
mod host_limits;
mod long_transfers;
mod node;
mod peer;
mod rfc1122_hosts;
mod rfc1122_icmp;
mod rfc1122_udp;
mod rfc1146_alternate_checksums;
mod rfc1191_path_mtu;
mod rfc2018_selective;
mod rfc2131_dhcp;
mod rfc3168_ecn;
mod rfc4015_undo;
mod rfc4821_probing;
mod rfc4861_ipv6;
mod rfc4861_neighbours;
mod rfc4861_redirects;
mod rfc4861_routers;
mod rfc5227_addresses;
mod rfc5681_congestion;
mod rfc5961_blind_attacks;
mod rfc6298_timeout;
mod rfc6528_sequence_numbers;
mod rfc6675_timeout;
mod rfc7323_timestamps;
mod rfc7413_client;
mod rfc7413_fast_open;
mod rfc8200_fragments;
mod rfc8201_path_mtu;
mod rfc8985_detection;
mod rfc8985_probe;
mod rfc9293_close;
mod rfc9293_header;
mod rfc9293_interface;
mod rfc9293_open;
mod rfc9293_repackaging;
mod rfc9293_segment_arrives;
mod rfc9293_sending;
mod rfc9293_source_routes;
mod rfc9293_urgent;
mod rfc9293_windows;
mod rfc9768_accurate_ecn;
mod rfc9777_groups;
mod socket_calls;
mod socket_options;

use tollgate_stack::config::Mechanisms;

/// The mechanisms of the stack that the scripts talk to.
pub fn mechanisms() -> Mechanisms {
    Mechanisms::HOST
}

//! The scripts of `rfc` once more, against a stack with every mechanism at the papers' baseline: without prediction every
//! segment goes through the full state machine, and what the fast paths do must not differ from it.

#[path = "rfc/account.rs"]
mod account;
#[path = "rfc/buffer_sizes.rs"]
mod buffer_sizes;
#[path = "rfc/host_limits.rs"]
mod host_limits;
#[path = "rfc/node.rs"]
mod node;
#[path = "rfc/peer.rs"]
mod peer;
#[path = "rfc/rfc1122_hosts.rs"]
mod rfc1122_hosts;
#[path = "rfc/rfc1122_icmp.rs"]
mod rfc1122_icmp;
#[path = "rfc/rfc1122_udp.rs"]
mod rfc1122_udp;
#[path = "rfc/rfc1146_alternate_checksums.rs"]
mod rfc1146_alternate_checksums;
#[path = "rfc/rfc1191_path_mtu.rs"]
mod rfc1191_path_mtu;
#[path = "rfc/rfc2018_selective.rs"]
mod rfc2018_selective;
#[path = "rfc/rfc2131_dhcp.rs"]
mod rfc2131_dhcp;
#[path = "rfc/rfc3168_ecn.rs"]
mod rfc3168_ecn;
#[path = "rfc/rfc4015_undo.rs"]
mod rfc4015_undo;
#[path = "rfc/rfc4821_probing.rs"]
mod rfc4821_probing;
#[path = "rfc/rfc4861_ipv6.rs"]
mod rfc4861_ipv6;
#[path = "rfc/rfc4861_neighbours.rs"]
mod rfc4861_neighbours;
#[path = "rfc/rfc4861_redirects.rs"]
mod rfc4861_redirects;
#[path = "rfc/rfc4861_routers.rs"]
mod rfc4861_routers;
#[path = "rfc/rfc5227_addresses.rs"]
mod rfc5227_addresses;
#[path = "rfc/rfc5681_congestion.rs"]
mod rfc5681_congestion;
#[path = "rfc/rfc5961_blind_attacks.rs"]
mod rfc5961_blind_attacks;
#[path = "rfc/rfc6298_timeout.rs"]
mod rfc6298_timeout;
#[path = "rfc/rfc6528_sequence_numbers.rs"]
mod rfc6528_sequence_numbers;
#[path = "rfc/rfc7323_timestamps.rs"]
mod rfc7323_timestamps;
#[path = "rfc/rfc7413_client.rs"]
mod rfc7413_client;
#[path = "rfc/rfc7413_fast_open.rs"]
mod rfc7413_fast_open;
#[path = "rfc/rfc8200_fragments.rs"]
mod rfc8200_fragments;
#[path = "rfc/rfc8201_path_mtu.rs"]
mod rfc8201_path_mtu;
#[path = "rfc/rfc8985_probe.rs"]
mod rfc8985_probe;
#[path = "rfc/rfc9293_close.rs"]
mod rfc9293_close;
#[path = "rfc/rfc9293_header.rs"]
mod rfc9293_header;
#[path = "rfc/rfc9293_interface.rs"]
mod rfc9293_interface;
#[path = "rfc/rfc9293_open.rs"]
mod rfc9293_open;
#[path = "rfc/rfc9293_segment_arrives.rs"]
mod rfc9293_segment_arrives;
#[path = "rfc/rfc9293_sending.rs"]
mod rfc9293_sending;
#[path = "rfc/rfc9293_source_routes.rs"]
mod rfc9293_source_routes;
#[path = "rfc/rfc9293_urgent.rs"]
mod rfc9293_urgent;
#[path = "rfc/rfc9293_windows.rs"]
mod rfc9293_windows;
#[path = "rfc/rfc9768_accurate_ecn.rs"]
mod rfc9768_accurate_ecn;
#[path = "rfc/rfc9777_groups.rs"]
mod rfc9777_groups;
#[path = "rfc/socket_calls.rs"]
mod socket_calls;
#[path = "rfc/socket_options.rs"]
mod socket_options;

use tollgate_stack::config::{
    Buffers, ChecksumKernel, Demux, FinAcknowledgment, HeaderTemplate, Mechanisms, Prediction,
    RetransmitCopy,
};

/// The mechanisms of the stack that the scripts talk to.
pub fn mechanisms() -> Mechanisms {
    Mechanisms {
        prediction: Prediction::Off,
        demux: Demux::List,
        template: HeaderTemplate::Off,
        checksum_kernel: ChecksumKernel::Separate,
        retransmit: RetransmitCopy::Copy,
        buffers: Buffers::Mbufs,
        fin: FinAcknowledgment::AtOnce,
        ..Mechanisms::HOST
    }
}

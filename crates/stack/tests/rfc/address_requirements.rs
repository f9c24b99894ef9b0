//! Requirements of RFC 5227 and RFC 2131 on addresses of IPv4, and the tests that prove it.

use super::requirements::{
    Requirement,
    Status::{NotYet, Partly, Proven},
    row,
};

/// Addresses and routes (RFC 1122, 5227).
pub const ADDRESSES: [Requirement; 11] = [
    row(
        "ADDR-1",
        "RFC 5227, 2.1.1",
        "An address is probed three times and announced twice, at the RFC's times",
        Proven(&["rfc5227_addresses::address_is_probed_then_ours_and_announced"]),
    ),
    row(
        "ADDR-2",
        "RFC 5227, 2.1.1",
        "An address that another host has or probes for does not become ours",
        Proven(&[
            "rfc5227_addresses::address_that_another_host_has_or_probes_for_does_not_become_ours",
        ]),
    ),
    row(
        "ADDR-3",
        "RFC 5227, 2.4 (b)",
        "An address that was probed is defended once in ten seconds, and then given up",
        Proven(&["rfc5227_addresses::probed_address_is_defended_once_then_given_up"]),
    ),
    row(
        "ADDR-4",
        "RFC 5227, 2.4 (c)",
        "An address that was added without a probe is defended and never given up",
        Partly(
            &["rfc5227_addresses::configured_address_is_defended_and_never_given_up"],
            "the address of `Config::ip` is neither announced nor defended",
        ),
    ),
    row(
        "ADDR-5",
        "RFC 5227, 2.1.1",
        "After ten conflicts a host probes once a minute at most",
        NotYet("whoever probes again decides when; the client of DHCP waits ten seconds"),
    ),
    row(
        "ADDR-6",
        "RFC 1122, 3.3.4.2",
        "Connections end with the address that they are from, and no others",
        Proven(&["rfc5227_addresses::connections_of_a_removed_address_time_out_at_once"]),
    ),
    row(
        "ADDR-7",
        "RFC 1122, 3.3.1 and 3.3.4.3",
        "The longest prefix gives the next hop, and the next hop's network the source",
        Proven(&["rfc5227_addresses::longest_prefix_gives_next_hop_and_source"]),
    ),
    row(
        "ADDR-8",
        "RFC 1122, 3.3.1.2",
        "Open connections follow a route that changes",
        Proven(&["rfc5227_addresses::open_connection_follows_its_route"]),
    ),
    row(
        "ADDR-9",
        "RFC 1122, 3.2.1.3",
        "A host without an address sends nothing and takes nothing that is not broadcast",
        Proven(&[
            "rfc5227_addresses::host_without_an_address_is_silent",
            "rfc1122_udp::host_without_an_address_sends_no_datagram",
        ]),
    ),
    row(
        "ADDR-10",
        "RFC 1122, 4.1.3.5",
        "A datagram tells the address that it came to, and can be answered from there",
        Proven(&["rfc1122_udp::answer_comes_from_the_address_that_was_asked"]),
    ),
    row(
        "ADDR-11",
        "RFC 1122, 3.2.1.3",
        "Nothing is sent to a loopback, the host itself or the unspecified address",
        Proven(&[
            "rfc1122_udp::nothing_goes_to_addresses_that_are_not_on_the_link",
            "rfc9293_interface::opening_to_an_invalid_address_is_an_error",
        ]),
    ),
];

/// The client of DHCP (RFC 2131, 3442, 4361, 6842).
pub const DHCP: [Requirement; 14] = [
    row(
        "DHCP-1",
        "RFC 2131, 3.1 and table 5; RFC 4361, 6.1",
        "A lease comes by DISCOVER, OFFER, REQUEST and ACK, each with the fields that the table asks for",
        Proven(&["rfc2131_dhcp::lease_comes_by_discover_offer_request_acknowledgment"]),
    ),
    row(
        "DHCP-2",
        "RFC 2131, 4.1 and 4.4.1",
        "The client begins after a random time; retransmissions back off from 4 to 64 s, randomised",
        Proven(&["rfc2131_dhcp::discover_backs_off_where_nobody_answers"]),
    ),
    row(
        "DHCP-3",
        "RFC 2131, 3.1, step 5",
        "Messages that are lost are sent again; four REQUESTs without an answer begin anew",
        Proven(&["rfc2131_dhcp::lost_messages_are_sent_again"]),
    ),
    row(
        "DHCP-4",
        "RFC 2131, 3.1, step 4",
        "A NAK takes the address away and begins anew",
        Proven(&["rfc2131_dhcp::refusal_begins_anew"]),
    ),
    row(
        "DHCP-5",
        "RFC 2131, 4.4.5",
        "From T1 on the server is asked by unicast to renew",
        Proven(&["rfc2131_dhcp::lease_is_renewed_by_its_server"]),
    ),
    row(
        "DHCP-6",
        "RFC 2131, 4.4.5",
        "From T2 on all servers are asked; at the lease's end the address goes",
        Proven(&["rfc2131_dhcp::lease_is_rebound_by_any_server_or_ends"]),
    ),
    row(
        "DHCP-7",
        "RFC 2131, 3.1, step 5; RFC 5227, 2.4",
        "An address that another host has is declined; ten seconds pass before the next attempt",
        Proven(&["rfc2131_dhcp::address_of_another_host_is_declined"]),
    ),
    row(
        "DHCP-8",
        "RFC 2131, 4.4.6",
        "A lease is released by unicast",
        Proven(&["rfc2131_dhcp::lease_is_released"]),
    ),
    row(
        "DHCP-9",
        "RFC 3442",
        "Classless routes replace the router",
        Proven(&["rfc2131_dhcp::classless_routes_replace_the_router"]),
    ),
    row(
        "DHCP-10",
        "RFC 2131, 4.4.1; RFC 6842, 3",
        "Answers to other transactions and other clients are discarded",
        Proven(&["rfc2131_dhcp::answers_for_others_are_not_taken"]),
    ),
    row(
        "DHCP-11",
        "RFC 2131, 3.3",
        "A lease of 2^32 - 1 s has no end",
        Proven(&["rfc2131_dhcp::lease_without_end_is_not_renewed"]),
    ),
    row(
        "DHCP-12",
        "RFC 2131, 3.2",
        "A client that remembers its address asks for it again (INIT-REBOOT)",
        NotYet("nothing is kept over a restart"),
    ),
    row(
        "DHCP-13",
        "RFC 2131, 3.4",
        "A host with an address asks for the other parameters (INFORM)",
        NotYet("such a host is configured"),
    ),
    row(
        "DHCP-14",
        "RFC 2131, 3.1, step 3",
        "A REQUEST has the seconds of its DISCOVER",
        Proven(&["rfc2131_dhcp::request_has_the_seconds_of_the_discover"]),
    ),
];

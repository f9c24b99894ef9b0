//! Requirements of loss recovery and congestion control beyond selective acknowledgments, and the tests that prove them.

use super::requirements::Requirement;
use super::requirements::Status::{NotApplicable, Partly, Proven};
use super::requirements::row;

/// Requirements of tail loss probes.
pub const PROBES: [Requirement; 7] = [
    row(
        "TLP-1",
        "RFC 8985, 7.2 and 7.3",
        "Two smoothed round trips without an answer, and the last segment is sent again",
        Proven(&["rfc8985_probe::last_segment_is_sent_again_after_two_round_trips"]),
    ),
    row(
        "TLP-2",
        "RFC 8985, 7.3",
        "New data is sent instead where the peer's window takes it",
        Proven(&["rfc8985_probe::new_data_is_the_probe_where_there_is_some"]),
    ),
    row(
        "TLP-3",
        "RFC 8985, 7.2",
        "The probe is never later than the timeout; for a single segment the acknowledgment's delay is waited for",
        Partly(
            &["rfc8985_probe::lone_segment_is_probed_when_the_timeout_has_come"],
            "a single segment is always probed when the timeout has come; the RFC would probe sooner where round trips are longer than `min_rto` and vary",
        ),
    ),
    row(
        "TLP-4",
        "RFC 8985, 7.4",
        "A loss that the probe has repaired is a sign of congestion, unless a duplicate is reported",
        Proven(&["rfc8985_probe::repaired_loss_counts_unless_a_duplicate_is_reported"]),
    ),
    row(
        "TLP-5",
        "RFC 8985, 7.3",
        "One probe is out at most, and none follows before a round trip is measured",
        Proven(&["rfc8985_probe::second_probe_waits_for_a_round_trip_that_was_measured"]),
    ),
    row(
        "TLP-6",
        "RFC 8985, 7.2",
        "Probes are sent with selective acknowledgments only",
        Proven(&[
            "rfc8985_probe::without_selective_acknowledgments_or_the_mechanism_there_is_no_probe",
        ]),
    ),
    row(
        "TLP-7",
        "RFC 8985, 7.2",
        "Each acknowledgment and each new segment moves the probe on",
        Proven(&["rfc8985_probe::answered_flight_is_not_probed_for"]),
    ),
];

/// Requirements of undoing what was done for nothing.
pub const UNDO: [Requirement; 4] = [
    row(
        "UNDO-1",
        "RFC 3522, 3.2; RFC 4015, 3.2",
        "A timeout that was for nothing, as a timestamp shows, is undone: new data follows, windows and timer are as the path asks for",
        Proven(&[
            "rfc4015_undo::acknowledgment_of_the_original_undoes_a_timeout",
            "simulation::stalls::timeout_that_a_stall_has_caused_is_undone",
        ]),
    ),
    row(
        "UNDO-2",
        "RFC 3522, 3.2",
        "The first acknowledgment that moves on decides",
        Proven(&["rfc4015_undo::acknowledgment_of_the_retransmission_undoes_nothing"]),
    ),
    row(
        "UNDO-3",
        "RFC 4015, 3.2",
        "The response can be left out",
        Proven(&["rfc4015_undo::undo_can_be_switched_off"]),
    ),
    row(
        "UNDO-4",
        "RFC 3708, 3; RFC 2883, 5",
        "A timeout is undone when all that was sent again is reported to have arrived twice",
        Proven(&["rfc4015_undo::reports_of_duplicates_undo_a_timeout"]),
    ),
];

/// Requirements of explicit congestion notification.
pub const ECN: [Requirement; 10] = [
    row(
        "ECN-1",
        "RFC 3168, 6.1.1",
        "Both ends agree in the handshake, or nothing is marked",
        Proven(&["rfc3168_ecn::both_ends_agree_or_nothing_is_marked"]),
    ),
    row(
        "ECN-2",
        "RFC 3168, 6.1.1.1",
        "A SYN that is not answered goes again without the flags",
        Proven(&["rfc3168_ecn::syn_that_is_dropped_for_its_flags_goes_without_them"]),
    ),
    row(
        "ECN-3",
        "RFC 3168, 6.1.4 to 6.1.6",
        "Only new data is ECN-capable",
        Proven(&[
            "rfc3168_ecn::only_new_data_is_marked",
            "rfc3168_ecn::byte_of_a_probe_is_not_marked_when_it_goes_again",
            "rfc7413_client::data_of_the_syn_goes_again_without_an_ecn_codepoint",
        ]),
    ),
    row(
        "ECN-4",
        "RFC 3168, 6.1.3",
        "A mark is echoed until the peer has reacted",
        Proven(&[
            "rfc3168_ecn::mark_is_echoed_until_the_peer_has_reacted",
            "rfc3168_ecn::mark_is_echoed_in_time_wait",
        ]),
    ),
    row(
        "ECN-5",
        "RFC 3168, 6.1.2",
        "An echo reduces the window as a loss does, once for a window, and the peer is told",
        Proven(&["rfc3168_ecn::echo_reduces_the_window_once"]),
    ),
    row(
        "ECN-6",
        "RFC 3168, 6.1.2",
        "A loss in a window that was reduced reduces it no more",
        Proven(&["rfc3168_ecn::loss_in_a_window_that_was_reduced_reduces_it_no_more"]),
    ),
    row(
        "ECN-7",
        "RFC 3168, 5",
        "Without agreement marks and echoes say nothing",
        Proven(&["rfc3168_ecn::marks_and_echoes_without_agreement_change_nothing"]),
    ),
    row(
        "ECN-8",
        "RFC 3168, 6.1.1; RFC 4987, 3.6",
        "A connection from a cookie has no agreement",
        Proven(&["rfc3168_ecn::cookie_agrees_on_nothing"]),
    ),
    row(
        "ECN-9",
        "RFC 3168, 5",
        "Flows over a line that marks share it and send next to nothing again",
        Proven(&["simulation::congestion::sixty_four_flows_share_a_line_that_marks"]),
    ),
    row(
        "ECN-10",
        "RFC 3168, 5.3",
        "A mark on a fragment is not lost",
        Proven(&["rfc3168_ecn::mark_on_a_fragment_is_not_lost"]),
    ),
];

/// Requirements of more accurate feedback of explicit congestion notification.
pub const ACCURATE_ECN: [Requirement; 12] = [
    row(
        "ACC-1",
        "RFC 9768, 3.1.1 to 3.1.3",
        "A client asks for counters and takes up what the server knows: counters, classic feedback or none",
        Proven(&["rfc9768_accurate_ecn::client_takes_up_what_the_server_knows"]),
    ),
    row(
        "ACC-2",
        "RFC 9768, 3.1.2 and 3.1.3",
        "A server agrees on what it is asked for, and tells of the codepoint of the SYN",
        Proven(&["rfc9768_accurate_ecn::server_agrees_on_what_it_is_asked"]),
    ),
    row(
        "ACC-3",
        "RFC 9768, 3.1.4.1",
        "A SYN asks twice and then goes without the bits",
        Proven(&["rfc9768_accurate_ecn::syn_that_is_not_answered_goes_without_the_bits"]),
    ),
    row(
        "ACC-4",
        "RFC 9768, 3.2.3.2.2 and 3.1.5",
        "An answer that is lost goes without the option, then without the bits",
        Proven(&["rfc9768_accurate_ecn::answer_that_is_lost_goes_without_option_and_bits"]),
    ),
    row(
        "ACC-5",
        "RFC 9768, 3.1.5",
        "Two kinds of handshake end a connection",
        Proven(&["rfc9768_accurate_ecn::two_kinds_of_handshake_end_the_connection"]),
    ),
    row(
        "ACC-6",
        "RFC 9768, 3.2.2.1",
        "The acknowledgment of the answer tells of its codepoint",
        Proven(&["rfc9768_accurate_ecn::acknowledgment_tells_of_the_codepoint_of_the_answer"]),
    ),
    row(
        "ACC-7",
        "RFC 9768, 3.2.2.2, 3.2.2.5.1 and 3.2.3.3",
        "The receiver counts marks, tells of them at once, and of bytes by the option",
        Proven(&["rfc9768_accurate_ecn::receiver_counts_marks"]),
    ),
    row(
        "ACC-8",
        "RFC 9768, 3.1.5; RFC 3168, 6.1.2",
        "Counted marks reduce the window, once for a window",
        Proven(&["rfc9768_accurate_ecn::sender_takes_counted_marks_for_congestion"]),
    ),
    row(
        "ACC-9",
        "RFC 9768, 3.2.2.5.2",
        "A counter that may have gone round has, unless the option says otherwise",
        Proven(&["rfc9768_accurate_ecn::counter_that_may_have_gone_round_has"]),
    ),
    row(
        "ACC-10",
        "RFC 9768, 3.2.2.3 and 3.2.2.4",
        "Where bits are changed or cleared on the way nothing is sent as ECN-capable",
        Proven(&["rfc9768_accurate_ecn::changed_bits_end_what_is_sent_as_capable"]),
    ),
    row(
        "ACC-11",
        "RFC 9768, 3.2.2.5",
        "Flows over a line that marks share it and send next to nothing again",
        Proven(&["simulation::congestion::sixty_four_flows_share_a_line_that_counts_marks"]),
    ),
    row(
        "ACC-12",
        "RFC 9768, 3.2",
        "The counter is in every segment, in TIME-WAIT as well",
        Proven(&["rfc9768_accurate_ecn::counter_is_told_in_time_wait"]),
    ),
];

/// Requirements of congestion control.
pub const CONGESTION: [Requirement; 7] = [
    row(
        "CC-1",
        "RFC 9438, 4.2 and 4.10",
        "The window is a cubic function of time",
        Proven(&["simulation::congestion::window_of_cubic_without_loss"]),
    ),
    row(
        "CC-2",
        "RFC 9406, 4.2",
        "The first slow start ends when round trips grow",
        Proven(&[
            "simulation::congestion::hystart_ends_slow_start_before_the_queue_overflows",
            "simulation::congestion::hystart_drops_less_where_the_queue_is_short",
        ]),
    ),
    row(
        "CC-3",
        "RFC 9438, 4.6; RFC 5681, 3.1",
        "A loss leaves 0.7 of the window, or half of it with NewReno",
        Proven(&["simulation::congestion::windows_with_loss"]),
    ),
    row(
        "CC-4",
        "RFC 9438, 4.3",
        "Where Reno would be faster, CUBIC is as fast",
        Proven(&[
            "simulation::congestion::cubic_is_no_slower_than_newreno_where_segments_are_lost_at_random",
        ]),
    ),
    row(
        "CC-5",
        "RFC 9438, 5.1",
        "The mean rate at a loss rate is that of the formula, to 5 %",
        Proven(&["simulation::goodput::random_loss_costs_no_more_than_the_formula_says"]),
    ),
    row(
        "CC-6",
        "RFC 9438, 5.3 and 5.4",
        "Flows share a line and fill it, and none starves",
        Proven(&["simulation::congestion::sixty_four_flows_share_a_line_and_fill_it"]),
    ),
    row(
        "CC-7",
        "RFC 5681, 4.1; RFC 2861, 3.1",
        "A connection that was silent for a timeout has the initial window again",
        Partly(
            &[
                "rfc5681_congestion::window_of_an_idle_connection_is_halved_with_each_timeout",
                "rfc5681_congestion::long_silence_leaves_the_initial_window",
                "rfc5681_congestion::trickle_keeps_the_window_and_a_loss_leaves_a_part_of_the_flight",
            ],
            "each timeout's time of silence halves the window, down to the initial one, as RFC 2861 and Linux have it; a trickle that does not fill the window leaves it as it is: RFC 5681 asks this of silence alone. RFC 7661, which is experimental, keeps the window for five minutes of such sending. Linux halves the difference by RFC 2861, which RFC 7661 has made historic. A loss then leaves 0.7 of what was in flight, or half of it with NewReno, and not of the window",
        ),
    ),
];

/// Requirements of path MTU discovery over IPv4, by what routers say.
pub const PATH_MTU: [Requirement; 5] = [
    row(
        "MTU4-1",
        "RFC 1191, 3",
        "A host reduces its estimate of the path MTU by what the message says, at once",
        Proven(&["rfc9293_interface::a_smaller_path_mtu_makes_smaller_segments"]),
    ),
    row(
        "MTU4-2",
        "RFC 1191, 3",
        "The estimate never goes below 68 octets",
        Partly(
            &[
                "rfc1191_path_mtu::path_below_576_may_fragment_segments",
                "rfc1191_path_mtu::path_below_576_concerns_its_connection_only",
            ],
            "it stays at 576, below which segments are sent without DF for routers to fragment",
        ),
    ),
    row(
        "MTU4-3",
        "RFC 1191, 5",
        "A message without the MTU, of a router older than the RFC, is taken for 576 first",
        Proven(&["rfc1191_path_mtu::nonsense_mtu_is_taken_for_576_first"]),
    ),
    row(
        "MTU4-4",
        "RFC 1191, 3 and 6.3",
        "The path is taken to be as wide as the link again after 10 minutes, no sooner than 5",
        Proven(&[
            "rfc1191_path_mtu::segments_are_longer_again_after_ten_minutes",
            "rfc1191_path_mtu::routers_may_not_fragment_any_more_after_ten_minutes",
        ]),
    ),
    row(
        "MTU4-5",
        "RFC 1191, 6.4",
        "What was too long is sent again at once, by slow start",
        Proven(&["rfc9293_interface::flight_is_sent_again_when_the_path_mtu_shrinks"]),
    ),
];

/// Requirements of path MTU discovery by probing.
pub const PROBING: [Requirement; 8] = [
    row(
        "PMTU-1",
        "RFC 4821, 7.7",
        "A full-stop timeout of a full segment is taken for a black hole: the size goes down to 1,024 bytes, and further with more timeouts",
        Partly(
            &["rfc4821_probing::third_timeout_in_a_row_makes_segments_shorter"],
            "over IPv4 it goes down to 576 bytes; the RFC allows 68, which any outage would lead to",
        ),
    ),
    row(
        "PMTU-2",
        "RFC 4821, 7.3, 7.6.1; RFC 8899, 5.3",
        "A probe that arrives raises the size; the search ends close to what the path takes",
        Proven(&["rfc4821_probing::search_ends_close_to_what_the_path_takes"]),
    ),
    row(
        "PMTU-3",
        "RFC 4821, 7.4, 7.5",
        "A probe is data that is next to be sent, alone, where the windows take it and enough is queued to see its loss",
        Proven(&[
            "rfc4821_probing::probe_is_followed_by_three_segments",
            "rfc4821_probing::probe_waits_for_data_and_window",
        ]),
    ),
    row(
        "PMTU-4",
        "RFC 4821, 7.6.2",
        "The loss of a probe alone is no sign of congestion",
        Proven(&["rfc4821_probing::loss_of_a_probe_alone_leaves_the_window"]),
    ),
    row(
        "PMTU-5",
        "RFC 4821, 7.6.4",
        "Where more is lost than the probe, the probe tells nothing, and the window is reduced",
        Proven(&["rfc4821_probing::other_losses_beside_a_probe_are_congestion"]),
    ),
    row(
        "PMTU-6",
        "RFC 8899, 5.1.1",
        "The search begins anew after PMTU_RAISE_TIMER, 600 s",
        Proven(&["rfc4821_probing::search_begins_anew_after_ten_minutes"]),
    ),
    row(
        "PMTU-7",
        "RFC 4821, 7.6.2; RFC 8899, 4.6",
        "What a router tells of what was sent bounds the search",
        Proven(&["rfc4821_probing::what_a_router_tells_bounds_the_search"]),
    ),
    row(
        "PMTU-8",
        "RFC 8899, 4.1, 4.2",
        "Probes of padding, and of data that need not be sent again",
        NotApplicable("TCP has no padding: probes carry data (RFC 4821, 10.1)"),
    ),
];

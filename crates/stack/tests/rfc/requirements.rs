//! The requirements of RFC 9293 (appendix B) and the tests that prove each.

/// Extent to which a requirement is met.
pub enum Status {
    /// These tests prove it.
    Proven(&'static [&'static str]),
    /// These tests prove a part; what is missing is said.
    Partly(&'static [&'static str], &'static str),
    /// Not met, with the reason.
    NotYet(&'static str),
    /// There is nothing to meet, with the reason.
    NotApplicable(&'static str),
}

use Status::{NotApplicable, NotYet, Partly, Proven};

/// A requirement: its id, its section, what it asks for in own words.
pub struct Requirement {
    pub id: &'static str,
    pub section: &'static str,
    pub clause: &'static str,
    pub status: Status,
}

pub const fn row(
    id: &'static str,
    section: &'static str,
    clause: &'static str,
    status: Status,
) -> Requirement {
    Requirement {
        id,
        section,
        clause,
        status,
    }
}

/// Number of MUSTs and MUST NOTs that the RFC numbers.
pub const MUSTS: usize = 69;
/// Number of SHOULDs and SHOULD NOTs that the RFC numbers.
pub const SHOULDS: usize = 31;

/// MUST and MUST NOT.
pub const MUST: [Requirement; MUSTS] = [
    row(
        "MUST-1",
        "3.1",
        "The window is an unsigned number",
        Proven(&["rfc9293_header::a_window_above_32767_is_not_negative"]),
    ),
    row(
        "MUST-2",
        "3.1",
        "The sender generates the checksum",
        Proven(&["rfc9293_header::every_segment_has_a_right_checksum"]),
    ),
    row(
        "MUST-3",
        "3.1",
        "The receiver checks the checksum",
        Proven(&["rfc9293_header::a_segment_with_a_wrong_checksum_is_dropped_in_silence"]),
    ),
    row(
        "MUST-4",
        "3.1",
        "End of options, no operation and MSS are understood",
        Proven(&["rfc9293_header::the_mandatory_options_are_understood_at_any_alignment"]),
    ),
    row(
        "MUST-5",
        "3.1",
        "Any segment may have options",
        Proven(&["rfc9293_header::options_may_be_in_any_segment_and_unknown_ones_are_skipped"]),
    ),
    row(
        "MUST-6",
        "3.1",
        "Unknown options are ignored",
        Proven(&["rfc9293_header::options_may_be_in_any_segment_and_unknown_ones_are_skipped"]),
    ),
    row(
        "MUST-7",
        "3.1",
        "Illegal option lengths do no harm",
        Proven(&["rfc9293_header::illegal_option_lengths_do_no_harm"]),
    ),
    row(
        "MUST-8",
        "3.4.1",
        "Initial sequence numbers follow a clock",
        Proven(&[
            "rfc6528_sequence_numbers::the_number_of_one_tuple_grows_with_a_clock_of_4_microseconds",
        ]),
    ),
    row(
        "MUST-9",
        "3.4.1",
        "Initial sequence numbers cannot be computed from outside",
        Proven(&[
            "rfc6528_sequence_numbers::the_numbers_depend_on_the_secret",
            "rfc6528_sequence_numbers::the_numbers_of_different_tuples_are_unrelated",
        ]),
    ),
    row(
        "MUST-10",
        "3.5",
        "Both sides may open at the same time",
        Proven(&[
            "rfc9293_open::a_simultaneous_open_goes_by_syn_received_to_established",
            "rfc9293_open::a_simultaneous_open_is_completed_by_a_plain_acknowledgment",
        ]),
    ),
    row(
        "MUST-11",
        "3.5",
        "SYN-RECEIVED knows whether it came from a passive or an active open",
        Proven(&[
            "rfc9293_open::syn_received_from_a_passive_open_goes_back_to_listen_on_a_reset",
            "rfc9293_open::syn_received_from_an_active_open_is_refused_by_a_reset",
        ]),
    ),
    row(
        "MUST-12",
        "3.6",
        "The application learns whether the peer closed or aborted",
        Proven(&["rfc9293_close::the_application_learns_whether_the_peer_closed_or_aborted"]),
    ),
    row(
        "MUST-13",
        "3.6.1",
        "An active close lingers in TIME-WAIT for 2 MSL",
        Proven(&["rfc9293_close::time_wait_lasts_twice_the_segment_lifetime"]),
    ),
    row(
        "MUST-14",
        "3.7.1",
        "The MSS option is sent and received",
        Proven(&[
            "rfc9293_header::the_mss_option_is_sent_on_every_syn_and_fits_the_link",
            "rfc9293_header::the_mandatory_options_are_understood_at_any_alignment",
        ]),
    ),
    row(
        "MUST-15",
        "3.7.1",
        "Without the option the send MSS is 536 over IPv4, 1,220 over IPv6",
        Proven(&[
            "rfc9293_header::without_the_option_the_send_mss_is_536",
            "rfc4861_ipv6::without_the_option_the_send_mss_is_1220",
        ]),
    ),
    row(
        "MUST-16",
        "3.7.1",
        "The effective send MSS is the smaller of the peer's and the link's, less options",
        Proven(&[
            "rfc9293_header::the_effective_mss_is_the_smaller_of_the_peers_and_the_links_less_options",
        ]),
    ),
    row(
        "MUST-17",
        "3.7.4",
        "Nagle's algorithm can be disabled for a connection",
        Proven(&["rfc9293_sending::nagle_can_be_disabled"]),
    ),
    row(
        "MUST-18",
        "3.8.1",
        "The retransmission timeout follows RFC 6298 with Karn's algorithm",
        Proven(&[
            "rfc6298_timeout::the_timeout_follows_the_round_trips",
            "rfc6298_timeout::a_retransmitted_segment_is_not_timed",
            "rfc6298_timeout::the_timeout_stays_backed_off_until_something_is_timed",
            "rfc6298_timeout::after_a_lost_syn_data_begins_with_three_seconds",
            "rfc6298_timeout::timer_is_set_earlier_after_an_outage",
            "rfc6298_timeout::long_round_trips_are_waited_for",
            "rfc6298_timeout::segment_behind_a_hole_is_not_timed",
            "rfc6298_timeout::even_round_trips_leave_room_for_a_delayed_acknowledgment",
            "rfc7323_timestamps::retransmitted_segment_is_timed_by_its_echo",
            "rfc7323_timestamps::echo_of_a_retransmission_ends_the_back_off",
        ]),
    ),
    row(
        "MUST-19",
        "3.8.2",
        "Slow start, congestion avoidance, exponential back-off",
        Proven(&[
            "rfc5681_congestion::slow_start_adds_what_is_acknowledged_up_to_two_segments",
            "rfc5681_congestion::congestion_avoidance_adds_a_segment_per_window",
            "rfc6298_timeout::data_is_sent_again_with_back_off",
            "rfc5681_congestion::fast_retransmission_works_after_two_gibibytes",
        ]),
    ),
    row(
        "MUST-20",
        "3.8.3",
        "Excessive retransmission: advice to IP at R1, the connection is closed at R2",
        Proven(&[
            "rfc9293_sending::a_silent_peer_is_given_up_after_r2",
            "rfc9293_interface::excessive_retransmission_is_reported_and_the_next_hop_is_asked_for",
        ]),
    ),
    row(
        "MUST-21",
        "3.8.3",
        "The application can set R2 for a connection",
        Proven(&["rfc9293_sending::the_user_timeout_can_be_set_for_a_connection"]),
    ),
    row(
        "MUST-22",
        "3.8.3",
        "SYNs are retransmitted in the same way, and failure is told",
        Proven(&["rfc9293_sending::a_syn_is_retransmitted_for_three_minutes_and_then_given_up"]),
    ),
    row(
        "MUST-23",
        "3.8.3",
        "R2 of a SYN is at least 3 minutes",
        Proven(&["rfc9293_sending::a_syn_is_retransmitted_for_three_minutes_and_then_given_up"]),
    ),
    row(
        "MUST-24",
        "3.8.4",
        "Keepalive can be turned on and off for a connection",
        Proven(&["rfc9293_sending::keepalive_can_be_turned_on_and_off"]),
    ),
    row(
        "MUST-25",
        "3.8.4",
        "Keepalive is off by default",
        Proven(&["rfc9293_sending::keepalive_is_off_by_default"]),
    ),
    row(
        "MUST-26",
        "3.8.4",
        "Probes are sent only after an interval of silence with nothing outstanding",
        Proven(&["rfc9293_sending::keepalive_waits_for_a_silent_interval"]),
    ),
    row(
        "MUST-27",
        "3.8.4",
        "That interval can be configured",
        Proven(&["rfc9293_sending::keepalive_can_be_turned_on_and_off"]),
    ),
    row(
        "MUST-28",
        "3.8.4",
        "Its default is at least two hours",
        NotApplicable("there is no default: keepalive is turned on by naming an interval"),
    ),
    row(
        "MUST-29",
        "3.8.4",
        "One unanswered probe does not mean a dead connection",
        Proven(&[
            "rfc9293_sending::keepalive_tolerates_lost_answers_and_gives_up_after_its_count",
            "rfc9293_sending::keepalive_answers_with_other_windows_count",
        ]),
    ),
    row(
        "MUST-30",
        "3.8.5",
        "The urgent mechanism is supported",
        Proven(&[
            "rfc9293_urgent::urgent_data_is_delivered_in_line_whatever_the_pointer_says",
            "rfc9293_urgent::the_pointer_that_is_sent_points_behind_the_urgent_data",
        ]),
    ),
    row(
        "MUST-31",
        "3.8.5",
        "Urgent data may be of any length",
        Proven(&["rfc9293_urgent::urgent_data_may_be_of_any_length"]),
    ),
    row(
        "MUST-32",
        "3.8.5",
        "The application is told of urgent data",
        Proven(&[
            "rfc9293_urgent::the_application_is_told_of_urgent_data_and_how_much_is_left",
            "rfc9293_urgent::urgent_data_is_announced_before_it_arrives",
        ]),
    ),
    row(
        "MUST-33",
        "3.8.5",
        "The application can learn how much urgent data is left",
        Proven(&["rfc9293_urgent::the_application_is_told_of_urgent_data_and_how_much_is_left"]),
    ),
    row(
        "MUST-34",
        "3.8.6",
        "The sender is robust against a window that shrinks",
        Proven(&[
            "rfc9293_windows::a_window_that_shrinks_is_obeyed",
            "rfc9293_windows::shrunken_window_does_not_forget_what_was_sent",
        ]),
    ),
    row(
        "MUST-35",
        "3.8.6",
        "A window that shrinks to zero is probed",
        Proven(&[
            "rfc9293_windows::a_window_that_shrinks_to_zero_is_probed_and_does_not_time_out",
            "rfc9293_windows::shrunken_window_does_not_forget_what_was_sent",
        ]),
    ),
    row(
        "MUST-36",
        "3.8.6.1",
        "Zero windows are probed",
        Proven(&[
            "rfc9293_windows::a_zero_window_is_probed_with_back_off",
            "rfc9293_windows::acknowledgments_lie_in_a_window_that_is_probed",
        ]),
    ),
    row(
        "MUST-37",
        "3.8.6.1",
        "The connection stays open while probes are answered",
        Proven(&[
            "rfc9293_windows::a_zero_window_may_last_while_probes_are_answered",
            "rfc9293_windows::a_window_that_shrinks_to_zero_is_probed_and_does_not_time_out",
        ]),
    ),
    row(
        "MUST-38",
        "3.8.6.2.1",
        "The sender avoids silly windows",
        Proven(&[
            "rfc9293_windows::the_sender_does_not_fill_a_silly_window",
            "rfc9293_windows::a_silly_window_is_used_after_a_timeout",
            "rfc9293_windows::silly_window_is_used_after_a_timeout_while_the_peer_sends",
            "rfc9293_windows::full_last_segment_goes_when_the_window_opens",
        ]),
    ),
    row(
        "MUST-39",
        "3.8.6.2.2",
        "The receiver avoids silly windows",
        Proven(&["rfc9293_windows::the_receiver_does_not_offer_a_silly_window"]),
    ),
    row(
        "MUST-40",
        "3.8.6.3",
        "An acknowledgment is delayed by less than 0.5 s",
        Proven(&["rfc9293_sending::an_acknowledgment_is_delayed_by_less_than_half_a_second"]),
    ),
    row(
        "MUST-41",
        "3.9.1.1",
        "A passive open does not affect other connections",
        Proven(&["rfc9293_interface::a_passive_open_leaves_connections_alone"]),
    ),
    row(
        "MUST-42",
        "3.9.1.1",
        "A port can be listened on while connections with it are being opened",
        Proven(&[
            "rfc9293_interface::a_port_can_be_listened_on_while_connections_with_it_are_being_opened",
        ]),
    ),
    row(
        "MUST-43",
        "3.9.1.1",
        "An open call can name the local address",
        Proven(&[
            "rfc9293_interface::an_active_open_can_name_its_local_address",
            "rfc9293_interface::a_passive_open_can_name_its_local_address",
        ]),
    ),
    row(
        "MUST-44",
        "3.9.1.1",
        "IP chooses the local address before the first SYN",
        Proven(&[
            "rfc9293_interface::the_local_address_is_the_stacks_from_the_first_segment_to_the_last",
        ]),
    ),
    row(
        "MUST-45",
        "3.9.1.1",
        "A connection keeps its local address",
        Proven(&[
            "rfc9293_interface::the_local_address_is_the_stacks_from_the_first_segment_to_the_last",
        ]),
    ),
    row(
        "MUST-46",
        "3.9.1.1",
        "Opening to an invalid address is an error",
        Proven(&["rfc9293_interface::opening_to_an_invalid_address_is_an_error"]),
    ),
    row(
        "MUST-47",
        "3.9.1.8",
        "Soft errors can be reported to the application",
        Proven(&[
            "rfc9293_interface::soft_icmp_errors_are_reported",
            "rfc9293_interface::excessive_retransmission_is_reported_and_the_next_hop_is_asked_for",
            "rfc9293_urgent::the_application_is_told_of_urgent_data_and_how_much_is_left",
        ]),
    ),
    row(
        "MUST-48",
        "3.9.1.9",
        "The application can specify the Diffserv field",
        Proven(&[
            "rfc9293_interface::the_diffserv_field_can_be_specified_and_changed",
            "rfc9293_interface::a_connection_can_be_opened_with_a_diffserv_field",
        ]),
    ),
    row(
        "MUST-49",
        "3.9.2",
        "The TTL can be configured",
        Proven(&[
            "rfc9293_interface::the_ttl_is_configured_and_in_every_segment",
            "socket_options::time_to_live_is_that_of_the_socket_from_its_first_segment_to_its_last",
        ]),
    ),
    row(
        "MUST-50",
        "3.9.2",
        "IP options that are not understood are ignored",
        Proven(&["rfc9293_interface::ip_options_are_ignored"]),
    ),
    row(
        "MUST-51",
        "3.9.2.1",
        "The application can specify a source route",
        Proven(&["rfc9293_source_routes::an_active_open_can_specify_a_source_route"]),
    ),
    row(
        "MUST-52",
        "3.9.2.1",
        "It takes precedence over a received one",
        Proven(&["rfc9293_source_routes::an_active_open_can_specify_a_source_route"]),
    ),
    row(
        "MUST-53",
        "3.9.2.1",
        "The return route of a received source route is used, where `Config::source_routes` takes such packets",
        Proven(&[
            "rfc9293_source_routes::the_return_route_of_a_connection_request_is_used",
            "rfc9293_source_routes::a_cookie_goes_by_the_return_route",
        ]),
    ),
    row(
        "MUST-54",
        "3.9.2.2",
        "ICMP errors are directed to the connection that they are about",
        Proven(&[
            "rfc9293_interface::a_hard_icmp_error_ends_the_attempt_that_it_is_about",
            "rfc9293_interface::a_smaller_path_mtu_makes_smaller_segments",
        ]),
    ),
    row(
        "MUST-55",
        "3.9.2.2",
        "Source Quench is discarded",
        Proven(&["rfc9293_interface::source_quench_is_discarded"]),
    ),
    row(
        "MUST-56",
        "3.9.2.2",
        "Soft ICMP errors do not abort",
        Proven(&["rfc9293_interface::soft_icmp_errors_do_not_abort"]),
    ),
    row(
        "MUST-57",
        "3.9.2.3",
        "A SYN to a broadcast or multicast address is discarded",
        Proven(&["rfc9293_interface::a_syn_to_a_broadcast_or_multicast_address_is_discarded"]),
    ),
    row(
        "MUST-58",
        "3.10.7.4",
        "Acknowledgments are aggregated",
        Proven(&[
            "rfc9293_segment_arrives::filling_a_gap_in_front_of_many_segments_draws_one_acknowledgment",
            "rfc9293_sending::every_second_segment_is_acknowledged_at_once",
        ]),
    ),
    row(
        "MUST-59",
        "3.10.7.4",
        "All queued segments are processed before an acknowledgment",
        Proven(&[
            "rfc9293_segment_arrives::filling_a_gap_in_front_of_many_segments_draws_one_acknowledgment",
        ]),
    ),
    row(
        "MUST-60",
        "3.9.1.2",
        "Without a PUSH flag in the call data is not buffered indefinitely",
        Proven(&[
            "rfc9293_sending::data_is_not_buffered_indefinitely",
            "socket_options::corked_segment_waits_200_milliseconds_at_most",
        ]),
    ),
    row(
        "MUST-61",
        "3.9.1.2",
        "Without a PUSH flag in the call the last queued segment is pushed",
        Proven(&[
            "rfc9293_sending::the_last_segment_is_pushed",
            "rfc9293_sending::last_segment_is_pushed_when_it_is_sent_again",
        ]),
    ),
    row(
        "MUST-62",
        "3.8.5",
        "The urgent pointer points behind the urgent data",
        Proven(&["rfc9293_urgent::the_pointer_that_is_sent_points_behind_the_urgent_data"]),
    ),
    row(
        "MUST-63",
        "3.9.2.3",
        "A SYN from an invalid address is ignored",
        Proven(&["rfc9293_interface::a_syn_from_an_invalid_address_is_ignored"]),
    ),
    row(
        "MUST-64",
        "3.2",
        "Options need not begin at a word",
        Proven(&["rfc9293_header::the_mandatory_options_are_understood_at_any_alignment"]),
    ),
    row(
        "MUST-65",
        "3.2",
        "The MSS option is sent on SYNs only",
        Proven(&["rfc9293_header::options_that_are_sent_are_well_formed"]),
    ),
    row(
        "MUST-66",
        "3.4",
        "RST and URG are processed with a zero window",
        Proven(&[
            "rfc9293_segment_arrives::a_reset_is_taken_while_the_window_is_closed",
            "rfc9293_urgent::urgent_data_is_announced_while_the_window_is_closed",
        ]),
    ),
    row(
        "MUST-67",
        "3.7.1",
        "The MSS that is sent fits what can be received",
        Proven(&["rfc9293_header::the_mss_option_is_sent_on_every_syn_and_fits_the_link"]),
    ),
    row(
        "MUST-68",
        "3.1",
        "Every option but end and no operation has a length",
        Proven(&["rfc9293_header::options_that_are_sent_are_well_formed"]),
    ),
    row(
        "MUST-69",
        "3.1",
        "Padding behind the end of options is zero",
        Proven(&["rfc9293_header::options_that_are_sent_are_well_formed"]),
    ),
];

/// SHOULD and SHOULD NOT.
pub const SHOULD: [Requirement; SHOULDS] = [
    row(
        "SHLD-1",
        "3.4.1",
        "Initial sequence numbers are a clock and a keyed function of the tuple",
        Proven(&["rfc6528_sequence_numbers::the_numbers_of_different_tuples_are_unrelated"]),
    ),
    row(
        "SHLD-2",
        "3.5.3",
        "A RST may carry data",
        Proven(&["rfc9293_segment_arrives::a_reset_may_carry_data"]),
    ),
    row(
        "SHLD-3",
        "3.6.1",
        "A close that loses data sends a RST",
        Proven(&[
            "rfc9293_close::closing_with_unread_data_resets",
            "rfc9293_close::data_after_close_is_answered_by_a_reset",
        ]),
    ),
    row(
        "SHLD-4",
        "3.6.1",
        "Timestamps shorten TIME-WAIT for new SYNs (RFC 6191)",
        Proven(&[
            "rfc9293_close::timestamps_tell_a_new_syn_in_time_wait",
            "rfc9293_close::older_timestamp_does_not_reopen_from_time_wait",
        ]),
    ),
    row(
        "SHLD-5",
        "3.7.1",
        "The MSS option is sent on every SYN",
        Proven(&["rfc9293_header::the_mss_option_is_sent_on_every_syn_and_fits_the_link"]),
    ),
    row(
        "SHLD-6",
        "3.7.3",
        "With a varying MTU the smallest is offered",
        NotApplicable("the MTU of a link does not vary"),
    ),
    row(
        "SHLD-7",
        "3.7.4",
        "Nagle's algorithm",
        Proven(&["rfc9293_sending::nagle_holds_a_short_segment_while_anything_is_unacknowledged"]),
    ),
    row(
        "SHLD-8",
        "3.8.2",
        "ECN",
        Partly(
            &["rfc3168_ecn::both_ends_agree_or_nothing_is_marked"],
            "with the mechanism `ecn=classic`; by default it is neither asked for nor agreed on",
        ),
    ),
    row(
        "SHLD-9",
        "3.8.3",
        "The application is told of trouble between R1 and R2",
        Proven(&[
            "rfc9293_interface::excessive_retransmission_is_reported_and_the_next_hop_is_asked_for",
        ]),
    ),
    row(
        "SHLD-10",
        "3.8.3",
        "R1 is at least 3 retransmissions",
        Proven(&[
            "rfc9293_interface::excessive_retransmission_is_reported_and_the_next_hop_is_asked_for",
        ]),
    ),
    row(
        "SHLD-11",
        "3.8.3",
        "R2 is at least 100 s",
        Proven(&["rfc9293_sending::a_silent_peer_is_given_up_after_r2"]),
    ),
    row(
        "SHLD-12",
        "3.8.4",
        "A keepalive probe has no data",
        Proven(&["rfc9293_sending::keepalive_can_be_turned_on_and_off"]),
    ),
    row(
        "SHLD-13",
        "3.8.5",
        "New applications do not use the urgent mechanism",
        NotApplicable("it is asked of applications"),
    ),
    row(
        "SHLD-14",
        "3.8.6",
        "The receiver does not shrink its window",
        Partly(
            &[
                "rfc9293_windows::the_right_edge_never_moves_left",
                "rfc7323_timestamps::what_a_rounded_window_once_offered_is_taken",
            ],
            "with window scaling the edge that a peer sees is rounded down, by less than 2 to the power of the shift; what was once offered is taken all the same (RFC 7323, 2.4)",
        ),
    ),
    row(
        "SHLD-15",
        "3.8.6",
        "No new data is sent into a window that has shrunk",
        Proven(&["rfc9293_windows::a_window_that_shrinks_is_obeyed"]),
    ),
    row(
        "SHLD-16",
        "3.8.6",
        "Old data within it is retransmitted",
        Proven(&["rfc9293_windows::a_window_that_shrinks_is_obeyed"]),
    ),
    row(
        "SHLD-17",
        "3.8.6",
        "Data beyond it does not time the connection out",
        Proven(&[
            "rfc9293_windows::a_window_that_shrinks_to_zero_is_probed_and_does_not_time_out",
            "rfc9293_windows::shrunken_window_does_not_forget_what_was_sent",
        ]),
    ),
    row(
        "SHLD-18",
        "3.8.6.3",
        "Acknowledgments are delayed",
        Proven(&["rfc9293_sending::an_acknowledgment_is_delayed_by_less_than_half_a_second"]),
    ),
    row(
        "SHLD-19",
        "3.8.6.3",
        "Every second full segment is acknowledged; of a train that came as one frame, the last",
        Proven(&[
            "rfc9293_sending::every_second_segment_is_acknowledged_at_once",
            "rfc9293_sending::a_train_is_acknowledged_once",
        ]),
    ),
    row(
        "SHLD-20",
        "3.9.1.8",
        "Reports of soft errors can be disabled",
        Proven(&["rfc9293_interface::reports_can_be_disabled"]),
    ),
    row(
        "SHLD-21",
        "3.9.1.9",
        "The Diffserv field can be changed during a connection",
        Proven(&["rfc9293_interface::the_diffserv_field_can_be_specified_and_changed"]),
    ),
    row(
        "SHLD-22",
        "3.9.1.9",
        "The Diffserv field is passed to IP unchanged",
        Proven(&["rfc9293_interface::the_diffserv_field_can_be_specified_and_changed"]),
    ),
    row(
        "SHLD-23",
        "3.9.2",
        "Applications do not change the Diffserv field during a connection",
        NotApplicable("it is asked of applications"),
    ),
    row(
        "SHLD-24",
        "3.9.2.1",
        "A later source route overrides an earlier one",
        NotYet(
            "the route of the first packet stays: a later one proves nothing, and anybody who hits the window could turn the connection round",
        ),
    ),
    row(
        "SHLD-25",
        "3.9.2.2",
        "Soft ICMP errors are made known to the application",
        Proven(&["rfc9293_interface::soft_icmp_errors_are_reported"]),
    ),
    row(
        "SHLD-26",
        "3.9.2.2",
        "Hard ICMP errors abort",
        Partly(
            &["rfc9293_interface::a_hard_icmp_error_ends_the_attempt_that_it_is_about"],
            "only while a connection is being opened; later they count as soft, as RFC 5927 has it against blind attacks",
        ),
    ),
    row(
        "SHLD-27",
        "3.9.1.2",
        "Successive pushes are collapsed",
        Proven(&["rfc9293_sending::short_calls_are_packed_into_full_segments"]),
    ),
    row(
        "SHLD-28",
        "3.9.1.2",
        "Full segments are sent when possible",
        Proven(&["rfc9293_sending::short_calls_are_packed_into_full_segments"]),
    ),
    row(
        "SHLD-29",
        "3.8.6.1",
        "The first probe of a zero window comes after the retransmission timeout",
        Proven(&["rfc9293_windows::a_zero_window_is_probed_with_back_off"]),
    ),
    row(
        "SHLD-30",
        "3.8.6.1",
        "The interval between probes grows exponentially",
        Proven(&["rfc9293_windows::a_zero_window_is_probed_with_back_off"]),
    ),
    row(
        "SHLD-31",
        "3.10.7.4",
        "Segments out of order are held",
        Proven(&[
            "rfc9293_segment_arrives::segments_out_of_order_are_held_and_put_together",
            "rfc9293_segment_arrives::small_segments_behind_a_hole_fill_the_window",
            "rfc9293_segment_arrives::full_segments_behind_a_hole_fill_a_large_window",
        ]),
    ),
];

/// Requirements of selective acknowledgments and of what rests on them.
pub const SELECTIVE: [Requirement; 13] = [
    row(
        "SACK-1",
        "RFC 2018, 2",
        "The permission is in a SYN only: in ours, and in the answer to one that has it",
        Proven(&[
            "rfc2018_selective::permission_is_in_every_first_syn_and_in_the_answer_to_one_that_has_it",
        ]),
    ),
    row(
        "SACK-2",
        "RFC 2018, 3",
        "Without permission no range is told",
        Proven(&["rfc2018_selective::without_permission_nothing_is_told"]),
    ),
    row(
        "SACK-3",
        "RFC 2018, 4",
        "The first block holds what has just arrived, the others repeat the last ones",
        Proven(&["rfc2018_selective::newest_range_is_told_first_and_at_once"]),
    ),
    row(
        "SACK-4",
        "RFC 2018, 4",
        "Ranges are told while anything is out of order",
        Partly(
            &["rfc2018_selective::data_does_not_keep_ranges_from_being_told"],
            "segments with data carry none: an acknowledgment without data goes before them",
        ),
    ),
    row(
        "SACK-5",
        "RFC 2883, 4",
        "A duplicate is told once, in the first block",
        Partly(
            &["rfc2018_selective::duplicate_is_told_once_and_before_all_ranges"],
            "a segment out of order that was there in part is not told as a duplicate",
        ),
    ),
    row(
        "SACK-6",
        "RFC 2018, 5; RFC 6675, 5",
        "What is sacked is not sent again, what is lost goes again at once",
        Proven(&["rfc2018_selective::only_what_is_missing_is_sent_again"]),
    ),
    row(
        "SACK-7",
        "RFC 8985, 6.2",
        "A segment is lost when a later one has arrived and it is overdue",
        Proven(&[
            "rfc2018_selective::single_sacked_segment_waits_for_the_reordering_window",
            "rfc8985_detection::losses_are_those_of_the_rfc",
            "rfc8985_detection::rest_of_a_retransmission_that_was_taken_in_part_is_found",
        ]),
    ),
    row(
        "SACK-8",
        "RFC 8985, 6.2",
        "Where segments change places the window stays open",
        Proven(&[
            "rfc2018_selective::late_segment_is_not_sent_again",
            "rfc2018_selective::shortest_round_trip_is_also_one_without_loss",
            "rfc2018_selective::wider_window_is_not_kept_for_more_than_sixteen_timeouts",
        ]),
    ),
    row(
        "SACK-9",
        "RFC 8985, 3",
        "A lost retransmission is found without a timeout, or without another one",
        Proven(&[
            "rfc2018_selective::lost_retransmission_is_found_without_a_timeout",
            "rfc6675_timeout::lost_retransmission_is_found_after_a_timeout_as_well",
        ]),
    ),
    row(
        "SACK-10",
        "RFC 2018, 8; RFC 6675, 5.1",
        "After a timeout what is sacked is left out, unless the peer has dropped it",
        Proven(&[
            "rfc6675_timeout::holes_are_repaired_after_a_timeout_as_slow_start_lets_them",
            "rfc2018_selective::after_a_timeout_what_is_sacked_is_not_sent_again_unless_it_was_dropped",
        ]),
    ),
    row(
        "SACK-11",
        "RFC 2883, 5; RFC 4015",
        "A recovery for nothing is undone",
        Proven(&[
            "rfc2018_selective::recovery_for_nothing_is_undone",
            "rfc2018_selective::duplicate_of_something_else_undoes_nothing",
        ]),
    ),
    row(
        "SACK-12",
        "RFC 9937, 6",
        "The flight comes down to the threshold in proportion to what is delivered",
        Proven(&["rfc2018_selective::flight_comes_down_in_proportion"]),
    ),
    row(
        "SACK-13",
        "RFC 2018, 5",
        "Blocks that cannot be true change nothing",
        Proven(&["rfc2018_selective::blocks_about_what_was_not_sent_are_ignored"]),
    ),
];

/// Requirements of RFC 1146, alternate checksums.
pub const ALTERNATE_CHECKSUMS: [Requirement; 6] = [
    row(
        "CSUM-1",
        "Alternate Checksum Request",
        "An algorithm that both SYNs ask for is used: here number 3, which leaves checksums out, once its use is confirmed",
        Proven(&[
            "rfc1146_alternate_checksums::algorithm_that_both_syns_ask_for_is_used",
            "rfc1146_alternate_checksums::algorithm_is_asked_for_in_the_first_syn",
        ]),
    ),
    row(
        "CSUM-2",
        "Alternate Checksum Request",
        "Otherwise the standard checksum is used for the entire connection",
        Proven(&["rfc1146_alternate_checksums::different_algorithms_mean_the_standard_one"]),
    ),
    row(
        "CSUM-3",
        "Alternate Checksum Request",
        "SYNs use the standard checksum",
        Proven(&["rfc1146_alternate_checksums::syn_uses_the_standard_checksum"]),
    ),
    row(
        "CSUM-4",
        "Alternate Checksum Request",
        "RSTs use the standard checksum",
        Proven(&["rfc1146_alternate_checksums::reset_uses_the_standard_checksum"]),
    ),
    row(
        "CSUM-5",
        "Alternate Checksum Request",
        "The request is sent with SYNs only",
        Proven(&["rfc1146_alternate_checksums::request_is_sent_with_a_syn_only"]),
    ),
    row(
        "CSUM-6",
        "Alternate Checksum Data",
        "Data of a length that is not the algorithm's reset the connection",
        Partly(
            &["rfc1146_alternate_checksums::checksum_data_of_another_length_are_skipped"],
            "such an option is skipped, so that a device on the way cannot end connections",
        ),
    ),
];

/// Requirements of RFC 7413, Fast Open.
pub const FAST_OPEN: [Requirement; 13] = [
    row(
        "TFO-1",
        "4.1.1, 4.2.1",
        "A client that asks is given a cookie, bound to its address",
        Proven(&["rfc7413_fast_open::cookie_is_given_to_who_asks"]),
    ),
    row(
        "TFO-2",
        "4.1.1",
        "Where Fast Open is off the option is ignored",
        Proven(&["rfc7413_fast_open::cookie_is_not_given_where_fast_open_is_off"]),
    ),
    row(
        "TFO-3",
        "4.2.2",
        "Data in a SYN with a valid cookie is acknowledged and delivered, and the server may answer before the handshake is complete",
        Proven(&[
            "rfc7413_fast_open::request_in_a_syn_is_answered_before_the_handshake_is_complete",
        ]),
    ),
    row(
        "TFO-4",
        "4.2.2",
        "With an invalid cookie only the SYN is acknowledged, and a valid one is given",
        Proven(&["rfc7413_fast_open::data_with_a_made_up_cookie_is_left_to_be_sent_again"]),
    ),
    row(
        "TFO-5",
        "4.1.2",
        "Cookies expire",
        Proven(&["rfc7413_fast_open::cookie_expires"]),
    ),
    row(
        "TFO-6",
        "5.1",
        "Connections with data before their handshake are limited; those that were reset count for a while",
        Proven(&["rfc7413_fast_open::connections_with_early_data_are_limited"]),
    ),
    row(
        "TFO-7",
        "4.2.2",
        "A SYN that is sent again is answered again, and delivers nothing twice to its connection",
        Proven(&["rfc7413_fast_open::syn_that_comes_again_delivers_nothing_twice"]),
    ),
    row(
        "TFO-8",
        "4.2.1",
        "A client without a cookie asks for one, and its data follows the handshake",
        Proven(&["rfc7413_client::first_connection_asks_for_a_cookie"]),
    ),
    row(
        "TFO-9",
        "4.2.2",
        "A client with a cookie sends it with data in its SYN",
        Proven(&["rfc7413_client::second_connection_sends_data_in_its_syn"]),
    ),
    row(
        "TFO-10",
        "4.2.2",
        "Data that the answer does not acknowledge goes with the handshake's last segment",
        Proven(&["rfc7413_client::data_that_is_not_acknowledged_goes_with_the_handshake"]),
    ),
    row(
        "TFO-11",
        "4.2.1, 4.2.2",
        "A SYN that is not answered is sent again without data and option",
        Proven(&["rfc7413_client::syn_is_sent_again_without_data_and_option"]),
    ),
    row(
        "TFO-12",
        "4.1.3.1",
        "A client remembers servers that do not answer, do not take the data, or cannot be reached, and leaves them alone for a while",
        Proven(&[
            "rfc7413_client::server_that_never_answers_is_left_alone",
            "rfc7413_client::server_that_ignores_the_data_is_left_alone",
            "rfc7413_client::errors_of_routers_count",
        ]),
    ),
    row(
        "TFO-13",
        "4.1.3",
        "A client remembers the MSS with the cookie, up to 1,460 bytes over IPv4 and 1,440 over IPv6, and sends no more in a SYN",
        Proven(&["rfc7413_client::data_fits_the_mss_that_is_remembered"]),
    ),
];

/// Requirements of IPv6 for hosts, by the RFCs that its parts come from.
pub const IPV6: [Requirement; 45] = [
    row(
        "IP6-1",
        "RFC 4861, 7.1",
        "Messages of discovery with a hop limit below 255 are not believed",
        Proven(&["rfc4861_ipv6::discovery_that_a_router_may_have_forwarded_is_not_believed"]),
    ),
    row(
        "IP6-2",
        "RFC 4861, 7.2.4",
        "A solicitation is answered to who asks, with our link address",
        Proven(&["rfc4861_ipv6::solicitation_is_answered_to_who_asks"]),
    ),
    row(
        "IP6-3",
        "RFC 4861, 7.2.4",
        "Who tries our address is told with all nodes",
        Proven(&["rfc4861_ipv6::who_tries_our_address_is_told_with_all_nodes"]),
    ),
    row(
        "IP6-4",
        "RFC 4862, 5.4.2",
        "An address is tried before it is ours",
        Proven(&["rfc4861_ipv6::address_is_tried_before_it_is_ours"]),
    ),
    row(
        "IP6-5",
        "RFC 4862, 5.4.3",
        "An address that another tries or has is a duplicate",
        Proven(&["rfc4861_ipv6::address_that_another_tries_or_has_is_a_duplicate"]),
    ),
    row(
        "IP6-6",
        "RFC 4861, 7.2.2",
        "A neighbour is asked for by its group, three times",
        Proven(&["rfc4861_ipv6::neighbour_is_asked_for_three_times"]),
    ),
    row(
        "IP6-7",
        "RFC 4862, 5.5.3",
        "A prefix makes an address with its lifetimes",
        Proven(&["rfc4861_ipv6::prefix_makes_an_address_with_its_lifetimes"]),
    ),
    row(
        "IP6-8",
        "RFC 4862, 5.5.3",
        "An advertisement leaves an address at least two hours",
        Proven(&["rfc4861_ipv6::forged_lifetime_leaves_two_hours"]),
    ),
    row(
        "IP6-9",
        "RFC 4861, 6.3.7",
        "Routers are asked for until one answers",
        Proven(&["rfc4861_ipv6::routers_are_asked_for_until_one_answers"]),
    ),
    row(
        "IP6-10",
        "RFC 4861, 6.3.4",
        "A router serves what is elsewhere, with the hop limit that it advertises",
        Proven(&["rfc4861_ipv6::router_serves_what_is_elsewhere"]),
    ),
    row(
        "IP6-11",
        "RFC 8200, 8.1",
        "A datagram without a checksum is discarded",
        Proven(&["rfc4861_ipv6::datagram_without_a_checksum_is_discarded"]),
    ),
    row(
        "IP6-12",
        "RFC 5095, 3",
        "A routing header of type 0 with segments left is refused",
        Proven(&["rfc4861_ipv6::routing_header_of_type_0_is_refused"]),
    ),
    row(
        "IP6-13",
        "RFC 4443, 3.4",
        "An unknown next header is told to its sender",
        Proven(&["rfc4861_ipv6::unknown_protocol_is_told"]),
    ),
    row(
        "IP6-14",
        "RFC 4443, 2.4",
        "Errors are limited in rate",
        Proven(&["rfc4861_ipv6::errors_are_limited_in_rate"]),
    ),
    row(
        "IP6-15",
        "RFC 4443, 2.4",
        "Echoes are answered, and no error is about an error",
        Proven(&["rfc4861_ipv6::echo_is_answered_and_an_unknown_error_is_not"]),
    ),
    row(
        "IP6-16",
        "RFC 8201, 4",
        "Packets are cut to what the path takes",
        Proven(&[
            "rfc4861_ipv6::datagrams_are_cut_to_the_path",
            "rfc8201_path_mtu::busy_socket_is_told_of_the_path",
            "rfc8201_path_mtu::echo_request_is_told_of_the_path",
        ]),
    ),
    row(
        "IP6-17",
        "RFC 8200, 4.5",
        "Fragments are put together",
        Proven(&[
            "rfc8200_fragments::fragments_in_any_order_make_the_packet",
            "rfc8200_fragments::headers_on_both_sides_of_the_fragment_header_are_passed_over",
            "rfc8200_fragments::segment_in_fragments_is_taken",
            "rfc8200_fragments::datagrams_longer_than_the_link_go_and_come",
        ]),
    ),
    row(
        "IP6-18",
        "RFC 4861, 8.3",
        "Redirects change the next hop",
        Proven(&[
            "rfc4861_redirects::redirect_changes_one_destination",
            "rfc4861_redirects::destination_on_the_link_is_a_neighbour",
        ]),
    ),
    row(
        "IP6-19",
        "RFC 9777, 6.1",
        "Joining and leaving a group is reported to multicast routers and switches",
        Proven(&[
            "rfc9777_groups::group_is_joined_before_its_address_is_tried",
            "rfc9777_groups::group_is_left_with_its_address",
        ]),
    ),
    row(
        "IP6-20",
        "RFC 4861, 6.3.6",
        "Changes of routers and prefixes reach all connections, for a share of each tick",
        Proven(&["rfc4861_ipv6::changes_of_routers_cost_a_share_of_each_tick"]),
    ),
    row(
        "IP6-21",
        "RFC 5722, 4",
        "Fragments that overlap drop their packet, without an error",
        Proven(&["rfc8200_fragments::overlap_drops_the_packet"]),
    ),
    row(
        "IP6-22",
        "RFC 6946, 4",
        "An atomic fragment is handled apart from all others",
        Proven(&["rfc8200_fragments::atomic_fragment_stays_apart"]),
    ),
    row(
        "IP6-23",
        "RFC 6980, 5",
        "Messages of discovery in fragments are ignored",
        Proven(&["rfc8200_fragments::discovery_in_fragments_is_ignored"]),
    ),
    row(
        "IP6-24",
        "RFC 8200, 4.5",
        "After 60 s a packet is given up; its sender is told where the first fragment has come",
        Proven(&["rfc8200_fragments::sender_is_told_that_the_time_is_up"]),
    ),
    row(
        "IP6-25",
        "RFC 8200, 4.5",
        "A fragment of a length that cannot be right is told to its sender",
        Proven(&["rfc8200_fragments::length_that_cannot_be_right_is_told"]),
    ),
    row(
        "IP6-26",
        "RFC 8200, 4.5",
        "A first fragment without all headers is discarded and told to its sender",
        Proven(&["rfc8200_fragments::first_fragment_without_all_headers_is_told"]),
    ),
    row(
        "IP6-27",
        "RFC 4861, 8.1",
        "Redirects that are not valid change nothing",
        Proven(&["rfc4861_redirects::redirects_that_are_not_valid_change_nothing"]),
    ),
    row(
        "IP6-28",
        "RFC 4861, 7.3.3",
        "A redirect to a neighbour that does not answer is undone",
        Proven(&[
            "rfc4861_redirects::redirect_to_nobody_is_undone",
            "rfc4861_routers::redirect_to_a_dead_router_is_undone",
        ]),
    ),
    row(
        "IP6-29",
        "RFC 9777, 6.2",
        "Queries for groups are answered within their time",
        Proven(&[
            "rfc9777_groups::queries_are_answered",
            "rfc9777_groups::code_of_a_query_is_ignored",
        ]),
    ),
    row(
        "IP6-30",
        "RFC 9777, 6.2",
        "Queries that no router of the link has sent are discarded",
        Proven(&["rfc9777_groups::queries_from_elsewhere_are_discarded"]),
    ),
    row(
        "IP6-31",
        "RFC 9777, 8.2.1",
        "An older querier is told by its version",
        Proven(&["rfc9777_groups::older_querier_is_told_by_its_version"]),
    ),
    row(
        "IP6-32",
        "RFC 4443, 2.4 (e)",
        "A redirect brings no error",
        Proven(&["rfc4861_ipv6::redirect_brings_no_error"]),
    ),
    row(
        "IP6-33",
        "RFC 8201, 4",
        "A path of less than 1,280 bytes is not believed",
        Proven(&["rfc8201_path_mtu::less_than_every_link_carries_is_discarded"]),
    ),
    row(
        "IP6-34",
        "RFC 8201, 5.3",
        "After ten minutes a path is taken to be as wide as the link again",
        Proven(&[
            "rfc8201_path_mtu::path_is_taken_to_be_wider_after_ten_minutes",
            "rfc8201_path_mtu::segments_are_longer_again_after_ten_minutes",
        ]),
    ),
    row(
        "IP6-35",
        "RFC 4861, 6.3.4",
        "An advertisement takes nothing from a configured prefix",
        Proven(&["rfc4861_routers::configured_prefix_outlasts_an_advertised_one"]),
    ),
    row(
        "IP6-36",
        "RFC 4861, 6.3.4",
        "The MTU that a router advertises holds for what is open and known, too",
        Proven(&[
            "rfc4861_routers::mtu_of_the_link_reaches_what_is_open",
            "rfc4861_routers::changes_of_the_mtu_cost_a_share_of_each_tick",
            "rfc4861_routers::mtu_of_ipv4_leaves_that_of_ipv6",
        ]),
    ),
    row(
        "IP6-37",
        "RFC 4861, 7.3.3",
        "Connections that are being opened go by another router where one does not answer",
        Proven(&["rfc4861_routers::attempts_go_by_the_router_that_answers"]),
    ),
    row(
        "IP6-38",
        "RFC 4861, 6.3.6",
        "Routers of which none answers are tried in turn; one that is idle has not failed",
        Proven(&[
            "rfc4861_routers::routers_that_do_not_answer_are_tried_in_turn",
            "rfc4861_routers::idle_router_stays_the_router",
        ]),
    ),
    row(
        "IP6-39",
        "RFC 4861, 5.2",
        "Who sends something that no router is known for is told",
        Proven(&["rfc4861_routers::without_a_route_nothing_is_sent"]),
    ),
    row(
        "IP6-40",
        "RFC 4861, 7.2.5",
        "A router that says that it is none is none any more, where its advertisement counts and it is not configured",
        Proven(&[
            "rfc4861_neighbours::router_that_says_that_it_is_none_is_none",
            "rfc4861_neighbours::advertisement_that_updates_nothing_leaves_the_router",
            "rfc4861_neighbours::configured_gateway_stays_one",
        ]),
    ),
    row(
        "IP6-41",
        "RFC 4861, 7.2.2",
        "The socket of a datagram is told of a neighbour that does not answer",
        Proven(&["rfc4861_neighbours::socket_is_told_of_a_neighbour_that_does_not_answer"]),
    ),
    row(
        "IP6-42",
        "RFC 4861, 7.2.4",
        "Who asks without naming its link address is asked for it, and answered",
        Proven(&["rfc4861_neighbours::solicitation_without_a_link_address_is_answered"]),
    ),
    row(
        "IP6-43",
        "RFC 4861, 7.2.5",
        "An advertisement that overrides the link address counts a second after the neighbour was heard",
        Proven(&["rfc4861_neighbours::override_counts_whenever_the_neighbour_was_heard"]),
    ),
    row(
        "IP6-44",
        "RFC 9777, 5.2.14",
        "Groups are told of again once the link-local address is ours",
        Proven(&["rfc9777_groups::groups_are_told_again_from_the_link_local_address"]),
    ),
    row(
        "IP6-45",
        "RFC 6437, 2 and 3",
        "Each flow has a flow label of its own, which is hard to guess",
        Proven(&["rfc4861_ipv6::each_flow_has_a_label_of_its_own"]),
    ),
];

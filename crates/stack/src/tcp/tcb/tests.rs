use super::*;

#[test]
fn only_a_clean_established_connection_is_predicted() {
    let mut tcb = Tcb {
        state: State::Established,
        snd_wnd: 1,
        ..Tcb::FREE
    };
    tcb.predict();
    assert_eq!(tcb.predicted, PREDICTED_WITHOUT_OPTIONS);
    tcb.flags |= flag::TIMESTAMPS;
    tcb.predict();
    assert_eq!(tcb.predicted, PREDICTED_WITH_TIMESTAMPS);
    tcb.dup_acks = 1;
    tcb.predict();
    assert_eq!(tcb.predicted, UNPREDICTABLE);
}

/// Bytes that were queued may be more than 2^32 while those that were acknowledged are not.
#[test]
fn queued_bytes_are_more_than_a_sequence_number_holds() {
    let tcb = Tcb {
        iss: SeqNumber(9),
        snd_una: SeqNumber(u32::MAX),
        snd_end: SeqNumber(2010),
        ..Tcb::FREE
    };
    assert_eq!(tcb.queued(), (1 << 32) + 2000);
}

const LIVING: [State; 8] = [
    State::SynSent,
    State::SynReceived,
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
];

#[test]
fn what_ends_a_state_is_not_data() {
    for state in LIVING {
        let mut tcb = Tcb {
            state,
            snd_wnd: 1,
            flags: flag::TIMESTAMPS,
            ..Tcb::FREE
        };
        tcb.predict();
        assert_ne!(tcb.predicted & NOTHING_MOVES, 0);
        assert_eq!(tcb.predicted & PSH != 0, state == State::Established);
        assert_eq!(tcb.sendable, 0);
        tcb.flags = 0;
        tcb.predict();
        assert_eq!(tcb.predicted & NOTHING_MOVES, 0);
    }
}

#[test]
fn a_state_that_is_moved_to_is_predicted_as_any() {
    for from in LIVING {
        for to in LIVING {
            for (snd_wnd, flags) in [(1, flag::TIMESTAMPS), (0, flag::TIMESTAMPS), (1, 0)] {
                let mut moved = Tcb {
                    state: from,
                    snd_wnd,
                    flags,
                    mss: 1,
                    snd_limit: 1,
                    ..Tcb::FREE
                };
                moved.predict();
                let mut predicted = Tcb { state: to, ..moved };
                predicted.predict();
                moved.move_to(to);
                assert_eq!(moved.state, to);
                assert_eq!(moved.predicted, predicted.predicted);
                assert_eq!(moved.sendable, predicted.sendable);
            }
        }
    }
}

use super::*;
use proptest::prelude::*;

const MSS: u32 = 1000;

fn feedback(receiver: &mut Accurate, packets: u32) -> Feedback {
    Feedback {
        ace: receiver.send(true),
        option: None,
        packets,
        mss: MSS,
    }
}

/// RFC 9768, tables 2 to 4: the codepoint that each word of the handshake tells of.
#[test]
fn handshake_tells_of_codepoints() {
    assert_eq!(
        [0, ECT1, ECT0, CE].map(handshake_bits),
        [0b010, 0b011, 0b100, 0b110]
    );
    for bits in 0..8 {
        let mut server = Accurate::NEW;
        server.confirmed(bits);
        let changed = matches!(bits, 0 | 0b011 | 0b100 | 0b110);
        assert_eq!(server.sends_capable, !changed, "{bits:03b}");
        assert_eq!(server.listens, bits != 0);
        assert_eq!(server.marked, if bits == 0b110 { 6 } else { 5 });
    }
    let mut client = Accurate::NEW;
    client.agreed(0b010, CE);
    client.agreed(0b010, CE);
    assert_eq!(client.send(true), 0b110);
    assert_eq!(client.send(true), 6);
}

/// RFC 9768, 3.2.2.4: a first field of zero ends it for what is sent, and what arrives is told all the same.
#[test]
fn first_field_of_zero_is_not_believed() {
    let mut accurate = Accurate::NEW;
    let zero = Feedback {
        ace: 0,
        option: None,
        packets: 3,
        mss: MSS,
    };
    assert_eq!(accurate.take(zero), 0);
    assert!(!accurate.sends_capable);
    accurate.arrive(CE, MSS);
    assert_eq!(accurate.send(true), 6);
}

/// RFC 9768, 3.2.2.5.1: the first marked packet, and each second or, without data, third one are told of at once.
#[test]
fn marks_are_told_at_once() {
    let mut accurate = Accurate::NEW;
    let mut urgent = |codepoint, len| {
        accurate.arrive(codepoint, len);
        let urgent = accurate.is_urgent();
        if urgent {
            accurate.send(true);
        }
        urgent
    };
    let data = [ECT0, CE, CE, CE, ECT0, CE].map(|codepoint| urgent(codepoint, MSS));
    assert_eq!(data, [false, true, false, true, false, true]);
    assert!(!urgent(ECT0, MSS));
    let plain = [CE, CE, CE, CE].map(|codepoint| urgent(codepoint, 0));
    assert_eq!(plain, [false, false, true, false]);
}

/// RFC 9768, 3.2.3.3: two ranges come first; what has moved is told whole or not at all.
#[test]
fn option_leaves_room_for_two_ranges() {
    let arrived = |codepoints: &[u8]| {
        let mut accurate = Accurate::NEW;
        for codepoint in codepoints {
            accurate.arrive(*codepoint, 100);
        }
        accurate
    };
    let fields = |mut accurate: Accurate, others, ranges| {
        let option = accurate.option(others, ranges)?;
        Some((option.ect0, option.ce, option.ect1))
    };
    let all = arrived(&[ECT0, CE, ECT1]);
    assert_eq!(fields(all, 12, 0), Some((Some(101), Some(100), Some(101))));
    assert_eq!(fields(all, 12, 3), None);
    assert_eq!(fields(all, 0, 4), Some((Some(101), Some(100), Some(101))));
    let two = arrived(&[ECT0, CE]);
    assert_eq!(fields(two, 12, 3), Some((Some(101), Some(100), None)));
    assert_eq!(
        fields(arrived(&[ECT1, CE]), 12, 3),
        Some((None, Some(100), Some(101)))
    );
    // One of three has moved since the last one.
    let mut later = all;
    assert!(later.option(12, 0).is_some());
    assert!(!later.owes_option());
    later.arrive(CE, 50);
    assert_eq!(fields(later, 12, 2), Some((Some(101), Some(150), None)));
}

/// RFC 9768, appendix A.2.2: by the option a field that has gone round is told from one that has not.
#[test]
fn option_tells_how_often_the_field_went_round() {
    for (marked, packets) in [(0, 20), (1, 20), (9, 20), (8, 8), (3, 11)] {
        let mut receiver = Accurate::NEW;
        let mut sender = Accurate::NEW;
        for n in 0..packets {
            receiver.arrive(if n < marked { CE } else { ECT0 }, MSS);
        }
        let mut told = feedback(&mut receiver, packets);
        told.option = receiver.option(12, 0);
        sender.take(told);
        assert_eq!(sender.marked_packets(), marked, "{marked} of {packets}");
    }
}

proptest! {
    /// RFC 9768, 3.2.2.5.2: over acknowledgments that come for any number of packets, the others being lost, a sender never counts
    /// fewer marks than a naive counter, counts the same where each acknowledges fewer than eight packets, and never more than packets.
    #[test]
    fn marks_are_never_undercounted(
        packets in prop::collection::vec(any::<bool>(), 1..400),
        gaps in prop::collection::vec(1usize..30, 1..100),
        short: bool,
        options: bool,
    ) {
        let (mut receiver, mut sender) = (Accurate::NEW, Accurate::NEW);
        let mut naive = 0;
        let mut left = packets.as_slice();
        let mut sent = 0;
        for gap in gaps.iter().cycle() {
            let gap = if short { gap % 7 + 1 } else { *gap };
            let (batch, after) = left.split_at(gap.min(left.len()));
            for marked in batch {
                receiver.arrive(if *marked { CE } else { ECT0 }, MSS);
                naive += u32::from(*marked);
            }
            sent += batch.len() as u32;
            let mut told = feedback(&mut receiver, batch.len() as u32);
            told.option = receiver.option(12, 0).filter(|_| options);
            sender.take(told);
            let counted = sender.marked_packets();
            prop_assert!(counted >= naive, "{counted} of {naive}");
            prop_assert!(counted <= sent);
            if short || options {
                prop_assert_eq!(counted, naive);
            }
            left = after;
            if left.is_empty() {
                break;
            }
        }
    }
}

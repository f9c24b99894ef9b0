//! Ledgers of our stack with each mechanism switched: every message still passes every gate, and the stacks do as they were set.

use std::time::Duration;

use tollgate_measure::gated::{self, Amount, Gated, Sized};
use tollgate_measure::packets::stack::StackPackets;
use tollgate_measure::schedule::Sets;
use tollgate_measure::stack_memory::StackMemory;
use tollgate_workload::Mechanisms;

const AMOUNT: Amount = Amount {
    round_trips: 128,
    least_blocks: 1,
    time: Duration::ZERO,
    sets: Sets::DEFAULT,
    seed: 1,
};

fn is_complete(gated: &mut impl Gated, what: &str) {
    // A thread that is held up within a message for longer than joining waits (`JoinPlan::slack`) loses that one.
    is_joined(gated, what, |joined, messages| {
        joined <= messages && 100 * joined >= 99 * messages
    });
}

fn is_joined(gated: &mut impl Gated, what: &str, expected: impl Fn(u64, u64) -> bool) {
    for Sized {
        failure,
        messages,
        joined,
        lost,
        ..
    } in gated::run(gated, &AMOUNT, || true)
    {
        assert_eq!((failure, lost), (None, 0), "{what}");
        let as_expected = messages > 0 && expected(joined, messages);
        assert!(as_expected, "{what}: {joined} of {messages}");
    }
}

fn with(name: &str, value: &str) -> Mechanisms {
    let mut mechanisms = Mechanisms::DEFAULT;
    mechanisms.set(name, value).unwrap();
    mechanisms
}

#[test]
fn every_value_of_every_mechanism_has_a_ledger_of_messages() {
    for (name, value, mechanisms) in Mechanisms::each() {
        let mut stack = StackMemory::open(&[64, 8_000], mechanisms).unwrap();
        let what = format!("{name}={value}");
        match what.as_str() {
            // An acknowledgment alone bears the number of the next message: by some sets of gates the two are one.
            "delayed-ack=off" => {
                is_joined(&mut stack, &what, |joined, all| 100 * joined < 99 * all)
            }
            // A message is sent in several segments, of which each is one.
            "mtu-probing=always" => is_joined(&mut stack, &what, |joined, all| joined >= all),
            _ => is_complete(&mut stack, &what),
        }
    }
}

#[test]
fn every_value_of_every_mechanism_has_a_ledger_of_packets() {
    for (name, value, mechanisms) in Mechanisms::each() {
        let opened = StackPackets::open(&[8_192], mechanisms);
        // A write without a copy puts no number into the first request.
        if (name, value) == ("transmit", "zero-copy") {
            assert!(opened.is_err_and(|error| error.to_string().contains("differs")));
            continue;
        }
        is_complete(&mut opened.unwrap(), &format!("{name}={value}"));
    }
}

#[test]
fn stacks_of_a_ledger_run_the_mechanisms_that_are_set() {
    let hits = |mechanisms| {
        let mut stack = StackMemory::open(&[64], mechanisms).unwrap();
        is_complete(&mut stack, "messages");
        let mut packets = StackPackets::open(&[8_192], mechanisms).unwrap();
        is_complete(&mut packets, "packets");
        let both = [stack.input_counts(0).unwrap(), packets.input_counts()];
        both.map(|counts| {
            counts
                .each_ref()
                .map(|one| (one.cache_hits(), one.predicted()))
        })
    };
    assert!(
        hits(Mechanisms::DEFAULT)
            .iter()
            .flatten()
            .all(|&(hits, predicted)| hits > 0 && predicted > 0)
    );
    assert!(
        hits(with("demux", "list"))
            .iter()
            .flatten()
            .all(|&(hits, _)| hits == 0)
    );
    assert!(
        hits(with("prediction", "off"))
            .iter()
            .flatten()
            .all(|&(_, predicted)| predicted == 0)
    );
}

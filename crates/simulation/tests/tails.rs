//! Messages whose last segments are lost: what a tail loss probe saves (RFC 8985, 7).

use std::num::NonZeroU64;
use std::time::Duration;
use tollgate_simulation::{Line, Mechanisms, Messages, Outcome, Probability, Transfer};

const ROUND_TRIP: Duration = Duration::from_millis(20);

/// Messages of ten segments over a line that loses 2 % of its frames.
fn messages(probe: &str) -> Outcome {
    let rate = NonZeroU64::new(100_000_000).expect("not zero");
    let mut mechanisms = Mechanisms::HOST;
    mechanisms
        .set("tail-probe", probe)
        .expect("there is such a value");
    let transfer = Transfer {
        flows: 4,
        messages: Some(Messages {
            bytes: 14_480,
            pause: Duration::from_millis(5),
        }),
        mechanisms,
        ..Transfer::new(
            Line {
                loss: Probability::from_ppm(20_000).expect("less than a million"),
                ..Line::new(rate, ROUND_TRIP)
            },
            Duration::from_secs(20),
        )
    };
    transfer
        .run()
        .expect("the scenario is one that the stack takes")
}

/// TLP-1. RFC 8985, 3.1: most lost tails are repaired without the timeout, whose floor is 200 ms here. What remains are lost probes, and
/// lost retransmissions with nothing behind them.
#[test]
fn lost_tails_do_not_wait_for_the_timeout() {
    let (with, without) = (messages("on"), messages("off"));
    let timeouts = |outcome: &Outcome| -> u32 {
        let flows = outcome.flows.iter();
        flows.map(|flow| flow.timeouts).sum()
    };
    let (few, many) = (timeouts(&with), timeouts(&without));
    assert!(many > 20 && 3 * few < many, "{few} and {many} timeouts");
    let (more, fewer) = (with.messages.len(), without.messages.len());
    assert!(more > fewer, "{more} and {fewer} messages in the same time");
    assert!(without.flows.iter().all(|flow| flow.tail_probes == 0));
}

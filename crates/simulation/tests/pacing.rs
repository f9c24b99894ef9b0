//! Pacing where the queue in front of the line is short, and where it is not.

use std::num::NonZeroU64;
use std::time::Duration;
use tollgate_simulation::{Line, Mechanisms, Messages, Outcome, Transfer};

/// Ten seconds over 100 Mb/s and 20 ms whose queue holds this part of a bandwidth-delay product, with pacing and without.
fn transfers(part: usize, messages: Option<Messages>) -> [Outcome; 2] {
    ["on", "off"].map(|pacing| {
        let mut mechanisms = Mechanisms::HOST;
        mechanisms
            .set("pacing", pacing)
            .expect("there is such a value");
        let rate = NonZeroU64::new(100_000_000).expect("not zero");
        let line = Line::new(rate, Duration::from_millis(20));
        let line = Line {
            queue: line.queue / part,
            ..line
        };
        let transfer = Transfer {
            messages,
            mechanisms,
            ..Transfer::new(line, Duration::from_secs(10))
        };
        transfer
            .run()
            .expect("the scenario is one that the stack takes")
    })
}

fn mean(messages: &[Duration]) -> Duration {
    let all: Duration = messages.iter().sum();
    all / u32::try_from(messages.len()).expect("few")
}

/// Messages of one and a half bandwidth-delay products, each after a pause, over a queue of eight frames. A window that is sent at once
/// overflows it.
#[test]
fn messages_fit_into_a_short_queue() {
    let messages = Messages {
        bytes: 375_000,
        pause: Duration::from_millis(100),
    };
    let [paced, unpaced] = transfers(20, Some(messages));
    let (few, many) = (paced.dropped, unpaced.dropped);
    assert!(many > 100 && 10 * few < many, "{few} and {many} dropped");
    let (short, long) = (mean(&paced.messages), mean(&unpaced.messages));
    assert!(2 * short < long, "{short:?} and {long:?} for a message");
}

/// Pacing takes nothing from the line where the queue is long enough for a window.
#[test]
fn line_with_a_long_queue_stays_full() {
    let [paced, unpaced] = transfers(1, None).map(|outcome| outcome.utilisation());
    assert!(
        paced > 0.98 && paced > unpaced - 0.01,
        "{paced} and {unpaced}"
    );
}

/// A stream through a short queue loses less to bursts.
#[test]
fn stream_through_a_short_queue_carries_more() {
    let [paced, unpaced] = transfers(20, None).map(|outcome| outcome.utilisation());
    assert!(paced > unpaced + 0.02, "{paced} and {unpaced}");
}

use tollgate_kernel::filter::{Filter, Side};

use super::*;

/// Sums of a row in nanoseconds, and for how many messages they stand.
fn sum_of(watcher: &Watcher, index: usize) -> (i64, u64) {
    let one = watcher.amounts()[index];
    (one.sum, one.weight)
}

/// Rows on the way before the sums, in `enum span` of bpf/observe.h.
const ON_THE_WAY: usize = 20;
/// From the send to the return of the receive.
const WHOLE: usize = 22;

/// The cost that is taken off is an estimate. Spans that are shorter count as negative; cut off at 0 they would make means too long.
#[test]
fn spans_shorter_than_their_gates_count_as_negative() {
    if !rustix::process::geteuid().is_root() {
        tollgate_skip::skipped!("observing needs root");
        return;
    }
    let choice = Choice::of(&tollgate_kernel::kernel_features());
    if let Some((hook, reason)) = choice.stopped_by() {
        tollgate_skip::skipped!("this kernel has no hook {}: {reason}", hook.name);
        return;
    }
    let mut pair = Pair::new().unwrap();
    let [from, to] = pair.ports();
    let port = |port| Filter::Ports(Side::Either, port, port);
    let ask = Ask {
        filter: Filter::And(Box::new(port(from)), Box::new(port(to))).operations(),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice, &ask, Vec::new()).unwrap();
    // A call that costs more than any span takes.
    watcher.base_settings.call = 1_000_000_000;
    watcher.settings.write(watcher.base_settings);
    watcher.draw(1, 1);
    pair.measure(|| 0).unwrap();
    watcher.draw(0, 0);
    let totals = watcher.totals();
    assert!(totals.finished > 100 && totals.holes == 0, "{totals:?}");
    let mut parts = 0;
    for index in 0..ON_THE_WAY {
        let (sum, weight) = sum_of(&watcher, index);
        assert!(weight == 0 || sum < 0, "row {index}: {sum}");
        parts += sum;
    }
    assert_eq!(sum_of(&watcher, WHOLE), (parts, totals.finished));
}

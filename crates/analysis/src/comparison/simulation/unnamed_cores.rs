//! Rows that do not say on how many processors they ran, and feel both control benchmarks.

use super::*;

/// Paths with the shares that they feel of the benchmark on one processor, and of that between two.
const FEELS: [(&str, [f64; 2]); 4] = [
    ("kernel-loopback", [0.0, 0.2]),
    ("kernel-veth", [0.6, 0.0]),
    ("kernel-remote", [0.0, 1.0]),
    ("stack-shm", [0.3, 0.6]),
];

/// A run of four paths at eight sizes, between runs of which the benchmarks differ by 30 %.
fn unnamed(dice: &mut Dice, slower: f64) -> Run {
    let benchmarks = [(); 2].map(|()| 0.3 * ONE_OF_TWO * dice.normal());
    let rows: Vec<(&str, Vec<Cell>)> = FEELS
        .iter()
        .map(|(path, feels)| {
            let felt: f64 = feels.iter().zip(benchmarks).map(|(b, x)| b * x).sum();
            let own = 0.03 * ONE_OF_TWO * dice.normal();
            let slower = if *path == "kernel-veth" { slower } else { 1.0 };
            let cells = (0..8).map(|_| {
                let row = ROWS * ONE_OF_TWO * dice.normal();
                let value = 10_000.0 * slower * (felt + own + row).exp();
                known(value, 1.96 * ONE_OF_TWO * ROWS * value)
            });
            (*path, cells.collect())
        })
        .collect();
    Run {
        controls: vec![
            control(Cores::One, "peer-smoltcp", 270.0 * benchmarks[0].exp()),
            control(Cores::Two, "bare-shm", 130.0 * benchmarks[1].exp()),
        ],
        ..run(Unit::Nanoseconds, &rows)
    }
}

/// Compares so many pairs of sides, and counts those in which the changed path is told, and those in which another path or row is.
fn verdicts(seed: u64, pairs: usize, runs: usize, slower: f64) -> [usize; 2] {
    let mut dice = Dice(seed);
    let mut counts = [0; 2];
    for _ in 0..pairs {
        let [a, b] = [1.0, slower].map(|slower| {
            (0..runs)
                .map(|_| unnamed(&mut dice, slower))
                .collect::<Vec<_>>()
        });
        let [a, b] = [&a, &b].map(|runs| runs.iter().collect::<Vec<&Run>>());
        let comparison = compare(&a, &b, &Options::default()).unwrap();
        let differs = |verdict: &Verdict| *verdict != Verdict::NoDifference;
        let changed = Some("kernel-veth").filter(|_| slower > 1.0);
        counts[0] += usize::from(
            comparison
                .paths
                .iter()
                .any(|one| one.path.as_deref() == changed && differs(&one.verdict)),
        );
        let others = comparison
            .paths
            .iter()
            .filter(|one| one.path.as_deref() != changed);
        let rows = comparison
            .rows
            .iter()
            .filter(|one| Some(one.place.row.as_str()) != changed);
        let wrong = others
            .map(|one| &one.verdict)
            .chain(rows.map(|one| &one.verdict));
        counts[1] += usize::from(wrong.into_iter().any(differs));
    }
    counts
}

#[test]
fn rows_that_do_not_say_their_processors_have_the_slopes_that_runs_show() {
    const PAIRS: usize = 300;
    // With slopes between their bounds, as of one run a side, at most 3 % are found.
    for (seed, runs, least) in [
        (2_101, 2, 15),
        (2_102, 3, 55),
        (2_103, 4, 90),
        (2_104, 6, 98),
    ] {
        let [_, alarms] = verdicts(seed, PAIRS, runs, 1.0);
        let [found, wrong] = verdicts(seed, PAIRS, runs, 1.1);
        // One in twenty, and two standard deviations of the count.
        assert!(
            alarms <= 22,
            "{alarms} of {PAIRS} equal pairs, {runs} a side"
        );
        assert!(wrong <= 22, "{wrong} of {PAIRS}, {runs} a side");
        assert!(
            found * 100 >= least * PAIRS,
            "{found} of {PAIRS}, {runs} a side"
        );
    }
}

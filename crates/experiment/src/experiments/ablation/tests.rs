use tollgate_budget::mechanisms::SwitchedCounts;
use tollgate_run::{Placement, Waiting};
use tollgate_stats::{Samples, Timing};

use super::*;
use crate::context::{Cancel, Silent};
use crate::outcome::Outcome;

/// Effects of two sizes: each setting takes so many times as long as the default, and so many instructions more.
fn effects(factor: f64, more: f64) -> Effects {
    let settings = settings(&[]);
    let context = Context::new(Options::default(), None, Cancel::default(), &Silent);
    let matrix = matrix(Workload::Rr, &settings, &context).unwrap();
    let quotients = |pair: Pair| {
        let factor = if pair.variant < DEFAULTS { 1.0 } else { factor };
        let rounds = (0..20).map(|round| factor * (1.0 + 1e-3 * f64::from(round % 3 - 1)));
        (pair, rounds.collect())
    };
    let pairs = pairs(settings.len(), matrix.variants.len(), 2);
    let pairs = pairs.into_iter().map(quotients).collect();
    let mut outcome = Outcome::new(matrix, vec![4, 8_000]);
    for (variant, sizes) in outcome.measurements.iter_mut().enumerate() {
        for measurement in sizes {
            for session in 0..6 {
                let factor = if variant < DEFAULTS { 1.0 } else { factor };
                let ns = (1_000.0 * factor) as u64 + u64::from((session * 7 + variant as u32) % 5);
                let mut samples = Samples::new(Timing::Each);
                for _ in 0..200 {
                    samples.record(ns, 1);
                }
                measurement.add_slice((session, 0), &samples);
            }
        }
    }
    let switched = settings
        .iter()
        .enumerate()
        .map(|(place, setting)| SwitchedCounts {
            name: setting.name.clone(),
            value: setting.value.clone(),
            instructions: vec![2_000.0 + more * (1 + place) as f64; 2],
        });
    Effects {
        counted: Ok(MechanismCounts {
            kernel: "avx2".to_owned(),
            operations: 256,
            defaults: vec![2_000.0; 2],
            switched: switched.collect(),
        }),
        settings,
        paired: Paired { outcome, pairs },
    }
}

#[test]
fn every_setting_has_a_row_with_time_and_instructions_of_each_size() {
    let effects = effects(1.25, 10.0);
    let table = effects.effects();
    assert_eq!(table.rows.len(), Mechanisms::each().count());
    assert_eq!(table.columns.len(), 4);
    assert_eq!(table.rows[0].label, "prediction=unidirectional");
    let time = table.rows[0].cells[0].measured().unwrap();
    assert!((time.value - 25.0).abs() < 0.5, "{time:?}");
    assert!(time.ci.unwrap().low > 24.0);
    assert_eq!(table.rows[1].cells[1].number(), Some(20.0));
    let all = effects.measured();
    assert_eq!(all.rows.len(), table.rows.len() + DEFAULTS);
    assert_eq!(all.rows[0].cells[1], Cell::text("-"));
    assert_eq!(all.rows[3].cells[2].number(), Some(2_020.0));
}

#[test]
fn intervals_that_hold_zero_say_no_difference_and_keep_their_numbers() {
    let effects = effects(1.0, 0.0);
    for row in &effects.effects().rows {
        assert_eq!(row.cells[0], Cell::text(NO_DIFFERENCE), "{}", row.label);
        assert_eq!(row.cells[1].number(), Some(0.0));
    }
    let change = effects.measured().rows[2].cells[1].clone();
    assert!(holds_zero(change.measured().unwrap()));
    assert_eq!(
        effects.finding(),
        "No switch adds instructions to a round trip of 4 bytes. No switch shows a difference in time at 8,000 bytes."
    );
}

#[test]
fn the_finding_names_what_adds_most() {
    let effects = effects(1.25, 10.0);
    let count = effects.settings.len();
    let [first, second, third] = [1, 2, 3].map(|nth| {
        (
            effects.settings[count - nth].label(),
            10 * (count + 1 - nth),
        )
    });
    assert_eq!(
        effects.finding().to_string(),
        format!(
            "Most is added by {}, {} and {}: {}, {} and {} instructions more than the 2,000 of a round trip of 4 bytes. Most time is added by \
             {}: a round trip of 8,000 bytes is 1.2 times slower with it.",
            first.0, second.0, third.0, first.1, second.1, third.1, first.0
        )
    );
}

#[test]
fn the_finding_names_what_is_slow_at_the_largest_size_alone() {
    let mut effects = effects(1.0, 10.0);
    let place = effects
        .settings
        .iter()
        .position(|one| one.label() == "nagle=on");
    let slow = DEFAULTS + place.unwrap();
    for (pair, quotients) in &mut effects.paired.pairs {
        if pair.variant == slow && pair.at == 1 {
            quotients.iter_mut().for_each(|one| *one *= 118_000.0);
        }
    }
    let finding = effects.finding().to_string();
    assert!(
        finding.contains(
            "Most time is added by nagle=on: a round trip of 8,000 bytes is 118,000 times slower with it."
        ),
        "{finding}"
    );
}

#[test]
fn a_run_of_too_few_rounds_says_what_it_cannot_tell() {
    let mut effects = Effects {
        counted: Err("not on this path".to_owned()),
        ..effects(1.0, 10.0)
    };
    for (_, quotients) in &mut effects.paired.pairs {
        quotients.truncate(2);
    }
    let finding = effects.finding().to_string();
    assert!(
        finding.contains("cannot tell which switch adds most time at 4 bytes and which"),
        "{finding}"
    );
}

#[test]
fn without_counts_times_stand_and_the_reason_is_told() {
    let effects = Effects {
        counted: Err("valgrind is not installed".to_owned()),
        ..effects(1.25, 10.0)
    };
    let table = effects.effects();
    assert!(table.rows[0].cells[0].measured().is_some());
    assert!(
        matches!(&table.rows[0].cells[1], Cell::NotAvailable { reason } if reason.contains("valgrind"))
    );
    let finding = effects.finding().to_string();
    assert!(finding.contains("slower with "), "{finding}");
    assert!(finding.contains("valgrind is not installed"), "{finding}");
    assert!(!effects.trust()[0].holds);
    let Some(Drawing::Forest { rows, .. }) = effects.figure("c") else {
        panic!("a forest plot");
    };
    let mut ratios = rows.iter().flat_map(|row| &row.panels).flatten();
    assert!(ratios.all(|ratio| ratio.label == "time"));
}

#[test]
fn figure_holds_all_sizes_with_time_and_instructions() {
    let effects = effects(1.25, 100.0);
    let Some(Drawing::Forest { panels, rows, .. }) = effects.figure("c") else {
        panic!("a forest plot");
    };
    assert_eq!(panels, ["4 B", "8,000 B"]);
    assert_eq!(rows.len(), effects.settings.len());
    for (place, row) in rows.iter().enumerate() {
        assert_eq!(row.label, effects.settings[place].label());
        for panel in &row.panels {
            let [time, counted] = &panel[..] else {
                panic!("two ratios");
            };
            assert!((time.value - 1.25).abs() < 0.01 && time.shows_difference());
            let added = 100.0 * (1 + place) as f64;
            assert_eq!(counted.value, (2_000.0 + added) / 2_000.0);
            assert!(counted.ci.is_none());
        }
    }
}

#[test]
fn intervals_wider_than_the_bar_are_warned_of_and_the_widest_is_named() {
    let mut effects = effects(1.0, 0.0);
    let warned = |effects: &Effects| {
        let lines = effects.trust().into_iter();
        let mut lines = lines.filter(|line| !line.holds && line.text.contains("wider than"));
        lines.next().map(|line| (line.value, line.text))
    };
    assert_eq!(warned(&effects), None);
    let scatter = |effects: &mut Effects, variant: usize, by: f64| {
        let pairs = effects.paired.pairs.iter_mut();
        for (pair, rounds) in pairs.filter(|(pair, _)| (pair.variant, pair.at) == (variant, 1)) {
            for (round, quotient) in rounds.iter_mut().enumerate() {
                *quotient = if round % 2 == 0 { 1.0 - by } else { 1.0 + by };
            }
            assert!(pair.variant >= DEFAULTS);
        }
    };
    scatter(&mut effects, DEFAULTS, 0.2);
    scatter(&mut effects, DEFAULTS + 1, 0.1);
    let (count, text) = warned(&effects).unwrap();
    assert_eq!(count, Some(2.0));
    let all = 2 * effects.settings.len();
    assert!(
        text.starts_with(&format!("2 of {all} intervals are")),
        "{text}"
    );
    let widest = effects.settings[0].label();
    assert!(
        text.contains(&format!("with {widest} at 8,000 bytes: +-20")),
        "{text}"
    );
    // One that waits for a timer, which no more time narrows.
    let pairs = effects.paired.pairs.iter_mut();
    let slow = pairs.filter(|(pair, _)| (pair.variant, pair.at) == (DEFAULTS, 1));
    slow.for_each(|(_, rounds)| rounds.iter_mut().for_each(|quotient| *quotient *= 1e4));
    let (count, text) = warned(&effects).unwrap();
    assert_eq!(count, Some(1.0), "{text}");
}

#[test]
fn paths_without_our_stack_have_nothing_to_switch() {
    let only = |paths: Vec<PathId>| Options {
        paths: Some(paths),
        ..Options::default()
    };
    assert!(!RR.concerns(&only(vec![PathId::KernelLoopback])));
    assert!(RR.concerns(&only(vec![PathId::StackShm])));
    let two_cores = Options {
        placement: Some(Placement::TwoCores),
        ..Options::default()
    };
    assert!(!RR.concerns(&two_cores));
    let mut switched = Options::default();
    switched.mechanisms.set("demux", "list").unwrap();
    assert!(!RR.concerns(&switched));
    let both = only(vec![PathId::StackMemory, PathId::StackShm]);
    let modes: Vec<Waiting> = paths(&both).iter().map(|(_, mode)| mode.waiting).collect();
    assert_eq!(modes, [Waiting::BusyPoll, Waiting::BusyPoll]);
}

#[test]
fn checksums_stay_on_where_the_kernel_is_the_other_end() {
    let off = |path| {
        let only = Options {
            paths: Some(vec![path]),
            ..Options::default()
        };
        let labels: Vec<String> = settings(&paths(&only)).iter().map(Setting::label).collect();
        assert!(labels.contains(&"demux=list".to_owned()), "{labels:?}");
        labels.contains(&"checksum=off".to_owned())
    };
    assert!(off(PathId::StackMemory));
    assert!(!off(PathId::StackTap));
}

#[test]
fn round_trips_are_measured_with_every_setting() {
    let options = Options {
        sizes: Some(vec![4]),
        iterations: Some(16),
        repetitions: Some(2),
        ..Options::default()
    };
    let mut context = Context::new(options, None, Cancel::default(), &Silent);
    let shown = RR.run(&mut context).unwrap();
    let measured = &shown.tables[1];
    assert!(
        measured
            .rows
            .iter()
            .all(|row| row.cells[0].measured().is_some())
    );
    // This test has no program that counts.
    assert!(
        shown
            .trust
            .iter()
            .any(|line| !line.holds && line.text.contains("not counted"))
    );
}

/// Half of the time may go into counting, so twice as much is needed.
#[test]
fn least_time_is_that_of_rounds_and_counting() {
    let seconds = Duration::from_secs;
    let rounds = Error::NoTime {
        experiment: "ablation",
        least: seconds(40),
        left: seconds(2),
    };
    let told = with_counting(rounds, Some(seconds(3))).to_string();
    assert!(
        told.contains("takes 80.0 s at least, and has 3.00 s"),
        "{told}"
    );
}

#[test]
fn streams_are_measured_with_every_setting_by_the_byte() {
    let options = Options {
        sizes: Some(vec![64, 16_384]),
        iterations: Some(64),
        repetitions: Some(6),
        ..Options::default()
    };
    let mut context = Context::new(options, None, Cancel::default(), &Silent);
    let shown = STREAM.run(&mut context).unwrap();
    assert!(
        shown.command.contains("stream-ablation"),
        "{}",
        shown.command
    );
    let measured = &shown.tables[1];
    assert_eq!(measured.columns[0].name, "64 B, each byte");
    assert_eq!(measured.columns[0].unit, Unit::NanosecondsPerByte);
    for row in &measured.rows {
        let byte = row.cells[0].measured().unwrap();
        assert!(byte.value > 0.0 && byte.ci.is_some(), "{row:?}");
    }
    // Of so few writes nothing is claimed, and nothing is called a round trip.
    let words = format!("{shown:?}");
    assert!(!words.contains("round trip"), "{words}");
}

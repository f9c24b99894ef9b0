//! Segmentation left to the kernel behind Tollgate's stack, and not: its part of `foong-offload`, after Foong et al. 2003, section 5.3.
//!
//! Between two stacks of ours there is nothing to cut. Over a tap device and over a packet socket our sender hands trains of segments to
//! the kernel (generic segmentation offload), or each segment alone. The reader is a socket of the kernel.

use tollgate_run::{PathId, Table, TrustLine, Unit, Workload, format, present};
use tollgate_workload::Mechanisms;
use tollgate_workload::config::Segmentation;

use super::foong_hz::column;
use crate::claim::{Claim, Finding};
use crate::compare;
use crate::context::{Context, Options};
use crate::error::Error;
use crate::outcome::Figure;
use crate::switched::{Comparison, Plan, Saving, Setting};

/// The paths on which segments can go in trains.
const PATHS: [PathId; 2] = [PathId::StackTap, PathId::StackPacket];
/// Values of the mechanism.
const SETTINGS: [Setting; 2] = [
    Setting {
        label: "segmentation by the kernel",
        set: |usual| with(usual, Segmentation::Gso),
        offload: None,
    },
    Setting {
        label: "segmentation before the link",
        set: |usual| with(usual, Segmentation::PerPacket),
        offload: None,
    },
];
/// Saved by the offload: of the time of a stream, and of the processor time of our end.
const SAVINGS: [Saving; 2] = [
    Saving {
        with: 0,
        without: 1,
        figure: Figure::PerByte,
    },
    Saving {
        with: 0,
        without: 1,
        figure: Figure::ProcessorPerByte,
    },
];

const fn with(usual: Mechanisms, segmentation: Segmentation) -> Mechanisms {
    Mechanisms {
        segmentation,
        ..usual
    }
}

/// Tells whether a path is wanted on which there is something to switch: one has to be named, as every stack of ours beside Linux.
pub(super) fn is_wanted(options: &Options) -> bool {
    PATHS.iter().any(|&path| {
        options.wants(path)
            && options
                .capabilities(path)
                .is_some_and(|capabilities| !options.modes(&capabilities).is_empty())
    })
}

/// Streams of our stack to the kernel, with segments in trains and alone.
///
/// # Errors
/// Those of [`Plan::run`].
pub(super) fn measure(
    experiment: &'static str,
    sizes: &[usize],
    context: &Context<'_>,
) -> Result<Comparison, Error> {
    let plan = Plan {
        experiment,
        workload: Workload::Stream,
        datagrams: false,
        settings: &SETTINGS,
        paths: &PATHS,
        mtu: None,
    };
    plan.run(sizes, context)
}

/// The table of each path; the sentence on the largest write goes to `finding`.
pub(super) fn tables(comparison: &Comparison, finding: &mut Finding) -> Vec<Table> {
    let outcome = &comparison.outcome;
    let tables = comparison.lines.iter().map(|line| {
        let rows = outcome.sizes.iter().enumerate().map(|(at, &size)| {
            let cells = SAVINGS.iter().flat_map(|&saving| {
                let settings = line.variants.iter();
                let times = settings.map(move |&variant| outcome.cell(variant, at, saving.figure));
                times.chain([comparison.cell(line, at, saving)])
            });
            present::plain_row(format::size(size), cells.collect())
        });
        let columns = ["Stream", "Our end"].into_iter().flat_map(|of| {
            [
                column(format!("{of}, by the kernel"), Unit::NanosecondsPerByte),
                column(format!("{of}, before the link"), Unit::NanosecondsPerByte),
                column(format!("{of}, saved"), Unit::Percent),
            ]
        });
        Table {
            id: format!("segmentation-{}", line.path),
            title: format!(
                "Time for each byte, and processor time of our end, by where segments are cut, {}",
                line.path
            ),
            columns: columns.collect(),
            rows: rows.collect(),
        }
    });
    say(comparison, finding);
    tables.collect()
}

fn say(comparison: &Comparison, finding: &mut Finding) {
    let outcome = &comparison.outcome;
    let Some((at, &size)) = outcome.sizes.iter().enumerate().next_back() else {
        return;
    };
    let [saving, _] = SAVINGS;
    let mut words = Vec::new();
    for line in &comparison.lines {
        let Some((with, without)) = line.pair(saving) else {
            continue;
        };
        let ratio = compare::ratio(outcome, with, without, at, saving.figure);
        let what = format!("segmentation by the kernel over {}", line.path);
        if let Some(amount) = finding.comparison(what, ratio, Claim::amount_against) {
            words.push(format!("{amount} over {}", line.path));
        }
    }
    if !words.is_empty() {
        finding.say(format!(
            "with segments cut by the kernel a stream of our stack, written {} at a time, takes {}",
            format::bytes(size),
            format::list(&words)
        ));
    }
}

/// The note under the tables.
pub(super) fn note() -> TrustLine {
    present::note(
        "over a tap and a packet socket our stack sends to a socket of the kernel: segments go in trains that the kernel cuts, or passes \
         whole, or each goes alone; processor time is that of our thread, with what the kernel does in its calls. Between two stacks of ours \
         nothing is cut",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn settings_differ_in_segmentation_alone() {
        let [gso, alone] = SETTINGS.map(|setting| (setting.set)(Mechanisms::DEFAULT));
        assert_eq!(gso.segmentation, Segmentation::Gso);
        assert_eq!(alone.segmentation, Segmentation::PerPacket);
        assert_eq!(with(alone, Segmentation::Gso), gso);
    }

    #[test]
    fn paths_between_our_stacks_have_nothing_to_cut() {
        let only = |path| Options {
            paths: Some(vec![path]),
            ..Options::default()
        };
        assert!(!is_wanted(&only(PathId::StackMemory)));
        assert!(!is_wanted(&only(PathId::KernelVeth)));
        assert!(!is_wanted(&Options::default()));
        assert!(PATHS.into_iter().all(|path| is_wanted(&only(path))));
    }

    #[test]
    fn streams_over_a_tap_stand_with_trains_and_without() {
        let options = Options {
            paths: Some(vec![PathId::StackTap]),
            iterations: Some(64),
            repetitions: Some(6),
            ..Options::default()
        };
        let context = Context::new(options, None, Cancel::default(), &Silent);
        let comparison = match measure("test", &[65_536], &context) {
            Ok(comparison) => comparison,
            Err(error) => {
                tollgate_skip::skipped!("{error}");
                return;
            }
        };
        let mut finding = Finding::default();
        let tables = tables(&comparison, &mut finding);
        let [table] = &tables[..] else {
            panic!("one table");
        };
        assert_eq!(table.id, "segmentation-stack-tap");
        let cells = &table.rows[0].cells;
        assert_eq!(cells.len(), table.columns.len());
        for at in [0, 1, 3, 4] {
            let time = cells[at].measured().unwrap();
            assert!(time.value > 0.0 && time.ci.is_some(), "{at}");
        }
        for at in [2, 5] {
            assert!(cells[at].measured().unwrap().ci.is_some(), "{at}");
        }
        assert!(!finding.is_empty());
    }
}

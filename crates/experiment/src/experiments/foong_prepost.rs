//! `foong-prepost`: streams into a buffer that the reader has posted, and into the socket queue; after Foong et al. 2003, section 3.1.
//!
//! Into a posted buffer the stack copies in the pass that verifies the checksum; what is queued is verified first and copied when the
//! reader comes. The paper draws both ways (Fig. 1) and has no times for them. The kernel's two ways are in `foong-sendfile`, since
//! there a writer has to wait for its reader.

use tollgate_run::{Source, Unit, Workload, format, present};
use tollgate_workload::Mechanisms;
use tollgate_workload::config::Receive;

use super::foong_hz::source;
use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Claim, Finding, FindingText};
use crate::compare;
use crate::context::{Context, ITERATIONS, Options, REPETITIONS};
use crate::error::Error;
use crate::layout;
use crate::outcome::Figure;
use crate::switched::{self, Comparison, Plan, Saving, Setting};

/// Sizes of a write, as those of the readers of `foong-sendfile`.
const SIZES: [usize; 4] = [64, 1_024, 8_192, 32_768];

/// Values of the mechanism.
const SETTINGS: [Setting; 2] = [
    Setting {
        label: "posted",
        set: |usual| with(usual, Receive::Posted),
        offload: None,
    },
    Setting {
        label: "queued",
        set: |usual| with(usual, Receive::Queued),
        offload: None,
    },
];
const SAVING: Saving = Saving {
    with: 0,
    without: 1,
    figure: Figure::PerByte,
};

const fn with(usual: Mechanisms, receive: Receive) -> Mechanisms {
    Mechanisms { receive, ..usual }
}

/// Posted and queued receive.
pub(super) struct FoongPrepost;

impl Experiment for FoongPrepost {
    fn name(&self) -> &'static str {
        "foong-prepost"
    }

    fn title(&self) -> &'static str {
        "Posted and queued receive"
    }

    fn paper(&self) -> Option<Source> {
        source("Fig. 1, section 3.1")
    }

    fn summary(&self) -> &'static str {
        "streams into a posted buffer and into the socket queue of Tollgate's stack, by size of a write"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        2
    }

    fn concerns(&self, options: &Options) -> bool {
        options.wants_any(&switched::STACKS)
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet {
            but: &[Receive::NAME],
        }
    }

    fn takes_link(&self) -> bool {
        true
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let plan = Plan {
            experiment: self.name(),
            workload: Workload::Stream,
            datagrams: false,
            settings: &SETTINGS,
            paths: &switched::STACKS,
            mtu: None,
        };
        let comparison = plan.run(&sizes, context)?;
        let outcome = &comparison.outcome;
        let figure = layout::lines_by_size(
            "Time per byte into posted buffers and through the queue",
            "Size of a write",
            ("Time per byte, both ends", Unit::NanosecondsPerByte),
            outcome,
            Figure::PerByte,
            Vec::new(),
            command,
        );
        let mut trust = layout::trust(
            outcome,
            context.options.iterations.unwrap_or(ITERATIONS),
            context.options.repetitions.unwrap_or(REPETITIONS),
            "writes",
        );
        trust.push(present::note(
            "the paper has no times of the two ways; the kernel's, posted readers and late ones, are told by foong-sendfile",
        ));
        let cost = layout::table_by_size(
            "cost",
            "Time per byte, both ends",
            Unit::NanosecondsPerByte,
            outcome,
            Figure::PerByte,
        );
        Ok(Content {
            finding: finding(&comparison),
            tables: vec![
                comparison.savings(
                    "savings",
                    "What a posted buffer saves of the time per byte",
                    SAVING,
                    None,
                ),
                cost,
            ],
            figures: vec![figure],
            trust,
        })
    }
}

/// Says what a byte takes into a posted buffer against the queue, at the last size.
fn finding(comparison: &Comparison) -> FindingText {
    let mut finding = Finding::default();
    let Some((at, &size)) = comparison.outcome.sizes.iter().enumerate().next_back() else {
        return finding.finish();
    };
    let mut words = Vec::new();
    for line in &comparison.lines {
        let Some((posted, queued)) = line.pair(SAVING) else {
            continue;
        };
        let ratio = compare::ratio(&comparison.outcome, posted, queued, at, SAVING.figure);
        let what = format!("posted against queued on {}", line.path);
        if let Some(amount) = finding.comparison(what, ratio, Claim::amount_against) {
            words.push(format!("{amount} on {}", line.path));
        }
    }
    if !words.is_empty() {
        finding.say(format!(
            "into a posted buffer a byte takes, against the queue, {}, written {} at a time",
            format::list(&words),
            format::bytes(size)
        ));
    }
    finding.finish()
}

#[cfg(test)]
mod tests {
    use tollgate_run::PathId;

    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn both_ways_have_a_cost_and_a_saving() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            sizes: Some(vec![1_024, 8_192]),
            iterations: Some(64),
            repetitions: Some(2),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let content = FoongPrepost.measure(&mut context, "command").unwrap();
        let [savings, cost] = &content.tables[..] else {
            panic!("two tables");
        };
        assert_eq!(cost.rows[1].label, "stack-memory, 1 core, polling, queued");
        assert_eq!((savings.rows.len(), savings.columns.len()), (2, 1));
        let cells = savings
            .rows
            .iter()
            .chain(&cost.rows)
            .flat_map(|row| &row.cells);
        assert!(cells.into_iter().all(|cell| cell.measured().is_some()));
    }
}

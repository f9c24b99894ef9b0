//! `crr`: connect, request, response, close, over all paths.

use tollgate_run::{PathId, Source, Unit, Workload, format};

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Finding, FindingText};
use crate::compare;
use crate::context::{Context, ITERATIONS, REPETITIONS};
use crate::error::Error;
use crate::interleave::{self, Matrix};
use crate::layout;
use crate::outcome::{Figure, Outcome};
use crate::prediction;

/// Sizes unless given: the connection costs more than the bytes, so few suffice.
const SIZES: [usize; 4] = [4, 200, 1_400, 8_000];

/// Connections by size.
pub(super) struct Crr;

impl Experiment for Crr {
    fn name(&self) -> &'static str {
        "crr"
    }

    fn title(&self) -> &'static str {
        "Connect, request, response, close"
    }

    fn paper(&self) -> Option<Source> {
        None
    }

    fn summary(&self) -> &'static str {
        "a connection for each request, the paths side by side, by the size of the message"
    }

    fn reported(&self) -> Reported {
        Reported::Always
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet { but: &[] }
    }

    fn takes_link(&self) -> bool {
        true
    }

    fn takes_mtu(&self) -> bool {
        true
    }

    fn weight(&self) -> u32 {
        4
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let matrix = Matrix::of(Workload::Crr, context)?;
        let outcome = interleave::run(self.name(), matrix, &sizes, context)?;
        let table = layout::table_by_size(
            "connections",
            "Connect, request, response and close, median",
            Unit::Nanoseconds,
            &outcome,
            Figure::Median,
        );
        let figure = layout::lines_by_size(
            "Connect, request, response and close over the size of the message, each way",
            "Size of the message",
            ("Connection, median", Unit::Nanoseconds),
            &outcome,
            Figure::Median,
            Vec::new(),
            command,
        );
        Ok(Content {
            finding: finding(&outcome),
            tables: std::iter::once(table)
                .chain(prediction::table(&outcome))
                .collect(),
            figures: vec![figure],
            trust: layout::trust(
                &outcome,
                context.options.iterations.unwrap_or(ITERATIONS),
                context.options.repetitions.unwrap_or(REPETITIONS),
                "connections",
            ),
        })
    }
}

fn finding(outcome: &Outcome) -> FindingText {
    let paths = [
        PathId::KernelLoopback,
        PathId::KernelRemote,
        PathId::StackShm,
        PathId::StackMemory,
    ];
    let mut finding = Finding::default();
    if let Some((size, takes)) =
        compare::at_first_size(outcome, &paths, Figure::Median, &mut finding)
    {
        let size = format::bytes(size);
        finding.say(format!(
            "to connect, exchange {size} each way and close takes {takes}"
        ));
    }
    for (a, b) in [
        (PathId::StackShm, PathId::KernelLoopback),
        (PathId::StackMemory, PathId::PeerSmoltcp),
    ] {
        compare::over_sizes(outcome, a, b, Figure::Median, &mut finding);
    }
    finding.finish()
}

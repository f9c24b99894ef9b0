//! `stream-by-write-size`: one-way streams over all paths, by the size of a write.

use tollgate_run::{PathId, Source, Unit, Workload, format, present};

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Finding, FindingText};
use crate::compare;
use crate::context::{Context, ITERATIONS, REPETITIONS};
use crate::error::Error;
use crate::interleave::{self, Matrix};
use crate::layout;
use crate::outcome::{Figure, Outcome};
use crate::prediction;

/// Sizes of a write unless given: powers of four, a full segment, and both sides of the step at 65,483 bytes, which GSO passes at once.
const SIZES: [usize; 8] = [64, 256, 1_024, 1_448, 4_096, 16_384, 32_768, 65_536];

/// Streams by the size of a write.
pub(super) struct StreamByWriteSize;

impl Experiment for StreamByWriteSize {
    fn name(&self) -> &'static str {
        "stream-by-write-size"
    }

    fn title(&self) -> &'static str {
        "One-way stream by the size of a write"
    }

    fn paper(&self) -> Option<Source> {
        None
    }

    fn summary(&self) -> &'static str {
        "bytes one way on one connection, the paths side by side, by the size of a write"
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

    fn takes_reverse(&self) -> bool {
        true
    }

    fn weight(&self) -> u32 {
        4
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let matrix = Matrix::of(Workload::Stream, context)?;
        let outcome = interleave::run(self.name(), matrix, &sizes, context)?;
        let cost = layout::table_by_size(
            "cost",
            "Time per byte, both ends",
            Unit::NanosecondsPerByte,
            &outcome,
            Figure::PerByte,
        );
        let rate = layout::table_by_size(
            "throughput",
            "Throughput",
            Unit::BytesPerSecond,
            &outcome,
            Figure::Rate,
        );
        let figure = layout::lines_by_size(
            "Time per byte over the size of a write",
            "Size of a write",
            ("Time per byte", Unit::NanosecondsPerByte),
            &outcome,
            Figure::PerByte,
            Vec::new(),
            command,
        );
        let mut trust = layout::trust(
            &outcome,
            context.options.iterations.unwrap_or(ITERATIONS),
            context.options.repetitions.unwrap_or(REPETITIONS),
            "writes",
        );
        trust.push(present::note(if context.options.reverse {
            "bytes come to the timed end; a slice ends when it has read every one"
        } else {
            "a slice ends when the reader has read every byte and said so with a byte of its own"
        }));
        Ok(Content {
            finding: finding(&outcome),
            tables: [cost, rate]
                .into_iter()
                .chain(prediction::table(&outcome))
                .collect(),
            figures: vec![figure],
            trust,
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
        compare::at_last_size(outcome, &paths, Figure::PerByte, &mut finding)
    {
        let size = format::bytes(size);
        finding.say(format!("written {size} at a time, a stream takes {takes}"));
    }
    for (a, b) in [
        (PathId::StackShm, PathId::KernelLoopback),
        (PathId::StackMemory, PathId::PeerSmoltcp),
    ] {
        compare::over_sizes(outcome, a, b, Figure::PerByte, &mut finding);
    }
    finding.finish()
}

//! `links`: our stack over every link, and the kernel over the same kind of wire: round trips, connections and streams.
//!
//! Over a link with the kernel at the other end our stack replaces one of two ends of `kernel-veth`, so the quotient of the two says
//! what it saves or costs there. Both run in the same mode and in turns. Where both ends are ours there is no such pair, and times
//! stand alone.

use tollgate_run::{
    Cell, Measured, PathId, Placement, Row, Source, Table, TrustLine, Unit, Waiting, Workload,
    format, present,
};
use tollgate_workload::reverses;

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Claim, Finding};
use crate::compare;
use crate::context::{Context, ITERATIONS, Options, REPETITIONS};
use crate::error::Error;
use crate::interleave::{self, Matrix, Variant};
use crate::layout;
use crate::outcome::{Figure, Outcome};

/// The path that the others are held against: the kernel at both ends.
const BASELINE: PathId = PathId::KernelVeth;
/// The baseline, the links with the kernel at the other end, and those with our stack at both.
const PATHS: [PathId; 6] = [
    BASELINE,
    PathId::StackTap,
    PathId::StackPacket,
    PathId::StackXdp,
    PathId::StackShm,
    PathId::StackMemory,
];

/// One workload: what is measured, and how it is shown.
struct Panel {
    workload: Workload,
    /// Bytes come from the other end to ours.
    reverse: bool,
    /// Sizes unless given.
    sizes: &'static [usize],
    /// Its part of the time that is left when it begins.
    share: f64,
    /// Operations that a session counts, in words.
    operations: &'static str,
    figure: Figure,
    unit: Unit,
    /// The id of its table, and the heading.
    id: &'static str,
    heading: &'static str,
    /// Id and heading of the table of quotients.
    quotients: (&'static str, &'static str),
    /// The drawing: its title, and the axis of sizes.
    drawing: (&'static str, &'static str),
    /// Subject of the finding at a size, in words.
    subject: fn(&str) -> String,
}

const PANELS: [Panel; 4] = [
    Panel {
        workload: Workload::Rr,
        reverse: false,
        sizes: &[64, 1_400, 8_000],
        share: 0.4,
        operations: "round trips",
        figure: Figure::Median,
        unit: Unit::Nanoseconds,
        id: "round-trips",
        heading: "Round trip, median",
        quotients: (
            "round-trips-quotients",
            "Round trip as a multiple of the kernel's over veth in the same mode",
        ),
        drawing: (
            "Round trip by link over the size of the message, each way",
            "Size of the message",
        ),
        subject: |size| format!("a round trip of {size}"),
    },
    Panel {
        workload: Workload::Crr,
        reverse: false,
        sizes: &[64],
        share: 0.4,
        operations: "connections",
        figure: Figure::Median,
        unit: Unit::Nanoseconds,
        id: "connections",
        heading: "Connect, request, response and close, median",
        quotients: (
            "connections-quotients",
            "Connection as a multiple of the kernel's over veth in the same mode",
        ),
        drawing: (
            "Connection by link over the size of the message, each way",
            "Size of the message",
        ),
        subject: |size| format!("a connection with {size} each way"),
    },
    STREAMS,
    RECEIVED,
];

/// Streams from our end.
const STREAMS: Panel = Panel {
    workload: Workload::Stream,
    reverse: false,
    sizes: &[1_448, 16_384, 65_536],
    share: 0.6,
    operations: "writes",
    figure: Figure::PerByte,
    unit: Unit::NanosecondsPerByte,
    id: "streams",
    heading: "Stream from our end, time per byte",
    quotients: (
        "streams-quotients",
        "Time per byte as a multiple of the kernel's over veth in the same mode",
    ),
    drawing: (
        "Time per byte by link over the size of a write",
        "Size of a write",
    ),
    subject: |size| format!("a byte of a stream written {size} at a time"),
};

/// The processor time of streams: what the timed end's thread had of its processor, of the ends that sleep.
const PROCESSOR: Panel = Panel {
    figure: Figure::ProcessorPerByte,
    id: "streams-processor",
    heading: "Stream from our end, processor time of its thread per byte",
    quotients: (
        "streams-processor-quotients",
        "Processor time per byte as a multiple of the kernel's over veth in the same mode",
    ),
    drawing: (
        "Processor time per byte by link over the size of a write",
        "Size of a write",
    ),
    subject: |size| format!("the processor time of a byte of a stream written {size} at a time"),
    ..STREAMS
};

/// Streams to our end. Sessions are dear to open, and the kernel's small writes say little of our end.
const RECEIVED: Panel = Panel {
    reverse: true,
    sizes: &[16_384, 65_536],
    share: 1.0,
    operations: "writes of the other end",
    id: "streams-received",
    heading: "Stream to our end, time per byte",
    quotients: (
        "streams-received-quotients",
        "Time per byte received as a multiple of the kernel's over veth in the same mode",
    ),
    drawing: (
        "Time per byte received by link over the size of a write",
        "Size of a write",
    ),
    subject: |size| format!("a byte received of a stream written {size} at a time"),
    ..STREAMS
};

/// The processor time of streams to our end.
const RECEIVED_PROCESSOR: Panel = Panel {
    figure: Figure::ProcessorPerByte,
    id: "streams-received-processor",
    heading: "Stream to our end, processor time of its thread per byte",
    quotients: (
        "streams-received-processor-quotients",
        "Processor time per byte received as a multiple of the kernel's over veth in the same mode",
    ),
    drawing: (
        "Processor time per byte received by link over the size of a write",
        "Size of a write",
    ),
    subject: |size| {
        format!("the processor time of a byte received of a stream written {size} at a time")
    },
    ..RECEIVED
};

/// Our stack by link.
pub(super) struct Links;

impl Experiment for Links {
    fn name(&self) -> &'static str {
        "links"
    }

    fn title(&self) -> &'static str {
        "Our stack over every link"
    }

    fn paper(&self) -> Option<Source> {
        None
    }

    fn summary(&self) -> &'static str {
        "round trips, connections and streams both ways with the kernel over each link, beside kernel to kernel over veth"
    }

    fn reported(&self) -> Reported {
        Reported::Full
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
        5
    }

    fn concerns(&self, options: &Options) -> bool {
        options.paths.is_none() || options.wants_any(&PATHS)
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let wanted = context.options.paths.clone();
        // They are dear to open, and other experiments run them only where they are named; here they are what is asked about.
        context.options.paths = Some(match &wanted {
            None => PATHS.to_vec(),
            Some(paths) => {
                let is_there = |path: &PathId| PATHS.contains(path);
                paths.iter().copied().filter(is_there).collect()
            }
        });
        let content = self.content(context, command);
        context.options.paths = wanted;
        content
    }
}

impl Links {
    fn content(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let mut finding = Finding::default();
        let (mut tables, mut quotients, mut figures) = (Vec::new(), Vec::new(), Vec::new());
        let mut trust: Vec<TrustLine> = Vec::new();
        let mut failed = None;
        for panel in &PANELS {
            let asked = context.options.paths.clone();
            if !panel.choose_paths(&mut context.options) {
                // Streams of both ends of ours have one direction.
                context.options.paths = asked;
                context.options.reverse = false;
                continue;
            }
            let sizes = context.options.sizes_or(panel.sizes);
            let outcome = context.within_share(panel.share, |context| {
                let mut matrix = Matrix::of(panel.workload, context)?;
                if context.options.placement.is_none() {
                    leave_out_one_core(&mut matrix.variants);
                }
                interleave::run(self.name(), matrix, &sizes, context)
            });
            context.options.paths = asked;
            context.options.reverse = false;
            let outcome = match outcome {
                Ok(outcome) => outcome,
                // What was measured before is shown.
                Err(Error::Stopped) => break,
                Err(error) => {
                    trust.push(present::warning(format!(
                        "{} are left out: {error}",
                        panel.operations
                    )));
                    failed.get_or_insert(error);
                    continue;
                }
            };
            tables.extend(panel.table(&outcome));
            quotients.extend(panel.quotients(&outcome));
            figures.push(layout::lines_by_size(
                panel.drawing.0,
                panel.drawing.1,
                (panel.heading, panel.unit),
                &outcome,
                panel.figure,
                Vec::new(),
                command,
            ));
            panel.say(&outcome, &mut finding);
            if panel.workload == Workload::Stream {
                // An end that polls has its processor all the time.
                let sleeping = outcome.only(|variant| variant.mode.waiting == Waiting::Blocking);
                let processor = if panel.reverse {
                    RECEIVED_PROCESSOR
                } else {
                    PROCESSOR
                };
                quotients.extend(processor.quotients(&sleeping));
                tables.extend(processor.table(&sleeping));
                processor.say(&sleeping, &mut finding);
            }
            trust.extend(layout::trust(
                &outcome,
                context.options.iterations.unwrap_or(ITERATIONS),
                context.options.repetitions.unwrap_or(REPETITIONS),
                panel.operations,
            ));
        }
        if tables.is_empty() {
            return Err(failed.unwrap_or(Error::Stopped));
        }
        trust.push(present::note(
            "a multiple compares sessions of the same repetition; both ends of the kernel use cubic and have Nagle off",
        ));
        trust.push(present::note(
            "small writes of a stream are not alike: our end puts what several writes leave into full segments and trains, and the kernel \
             with Nagle off sends each write at once",
        ));
        trust.push(present::note(
            "processor time is that of our end's thread, with what the kernel does on it within calls and interrupts, for the other end \
             as well: over veth and over a tap the sender carries a frame up to the receiver's socket",
        ));
        trust.push(present::note(
            "of a stream that is received the kernel's thread copies alone, since its sender's does TCP on both sides; ours does all of TCP",
        ));
        trust.push(present::note(
            "a tap has no queue towards the kernel: what the kernel does with our frame, up to its socket, it does within our write(2)",
        ));
        // What is asked first is how the links compare.
        quotients.append(&mut tables);
        Ok(Content {
            finding: finding.finish(),
            tables: quotients,
            figures,
            trust,
        })
    }
}

/// Leaves variants on one core out where their path runs on two: sessions over links are dear to open, and one core is not how
/// a link is used.
fn leave_out_one_core(variants: &mut Vec<Variant>) {
    let on_two: Vec<PathId> = variants
        .iter()
        .filter(|variant| variant.mode.placement == Placement::TwoCores)
        .map(|variant| variant.path)
        .collect();
    variants.retain(|variant| {
        variant.mode.placement == Placement::TwoCores || !on_two.contains(&variant.path)
    });
}

/// The variants that have a baseline, each with it: the kernel at both ends, in the same mode.
fn pairs(variants: &[Variant]) -> impl Iterator<Item = (usize, usize)> + '_ {
    variants.iter().enumerate().filter_map(|(ours, variant)| {
        let is_baseline = |one: &Variant| one.path == BASELINE && one.mode == variant.mode;
        let theirs = variants.iter().position(is_baseline)?;
        (variant.path != BASELINE).then_some((ours, theirs))
    })
}

impl Panel {
    /// Leaves the paths whose streams run in this panel's direction, and tells whether there are any.
    fn choose_paths(&self, options: &mut Options) -> bool {
        options.reverse = self.reverse;
        let Some(paths) = &mut options.paths else {
            return true;
        };
        paths.retain(|&path| !self.reverse || reverses(path));
        !paths.is_empty()
    }

    /// Table of the figures; none where no variant is left.
    fn table(&self, outcome: &Outcome) -> Option<Table> {
        let table = layout::table_by_size(self.id, self.heading, self.unit, outcome, self.figure);
        (!outcome.matrix.variants.is_empty()).then_some(table)
    }

    /// The quotients of all variants that have a baseline; none where none has.
    fn quotients(&self, outcome: &Outcome) -> Option<Table> {
        let cell = |ours, theirs, at| match outcome.ratio(ours, theirs, at, self.figure) {
            Some(ratio) => Cell::Value(Measured {
                value: ratio.value,
                ci: Some(ratio.interval.into()),
                n: Some(ratio.n),
                ..Measured::default()
            }),
            None => Cell::NotAvailable {
                reason: "one of the two was not measured often enough".to_owned(),
            },
        };
        let variants = &outcome.matrix.variants;
        let rows: Vec<Row> = pairs(variants)
            .map(|(ours, theirs)| {
                let cells = (0..outcome.sizes.len()).map(|at| cell(ours, theirs, at));
                present::plain_row(variants[ours].label(), cells.collect())
            })
            .collect();
        let (id, title) = self.quotients;
        (!rows.is_empty()).then(|| Table {
            id: id.to_owned(),
            title: title.to_owned(),
            columns: present::size_columns(&outcome.sizes, Unit::Ratio),
            rows,
        })
    }

    /// Says how each link with the kernel at the other end stands to the kernel alone, in the first mode that both have, at the
    /// first size of round trips and the last of streams.
    fn say(&self, outcome: &Outcome, finding: &mut Finding) {
        let at = match self.workload {
            Workload::Rr | Workload::Crr => 0,
            Workload::Stream => outcome.sizes.len().saturating_sub(1),
        };
        let Some(&size) = outcome.sizes.get(at) else {
            return;
        };
        let variants = &outcome.matrix.variants;
        let subject = (self.subject)(&format::bytes(size));
        let (mut words, mut said) = (Vec::new(), Vec::new());
        for (ours, theirs) in pairs(variants) {
            let path = variants[ours].path;
            // Where both ends are ours the quotient stands in the table alone.
            if said.contains(&path) || !path.is_stack_beside_linux() {
                continue;
            }
            said.push(path);
            let what = format!("{subject} over {path}");
            let ratio = compare::ratio(outcome, ours, theirs, at, self.figure);
            if let Some(amount) = finding.comparison(what, ratio, Claim::amount_against) {
                words.push(format!(
                    "{amount} over {path} ({})",
                    variants[ours].mode.words()
                ));
            }
        }
        if !words.is_empty() {
            finding.say(format!(
                "against kernel-veth, {subject} takes {}",
                format::list(&words)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Mode, Waiting};

    use super::*;
    use crate::context::{Cancel, Silent};

    const fn variant(path: PathId, placement: Placement, waiting: Waiting) -> Variant {
        Variant::new(path, Mode { placement, waiting })
    }

    #[test]
    fn links_are_held_against_the_kernel_in_the_same_mode() {
        let variants = [
            variant(BASELINE, Placement::TwoCores, Waiting::Blocking),
            variant(BASELINE, Placement::TwoCores, Waiting::BusyPoll),
            variant(PathId::StackTap, Placement::TwoCores, Waiting::BusyPoll),
            variant(PathId::StackTap, Placement::OneCore, Waiting::Blocking),
            variant(PathId::StackMemory, Placement::OneCore, Waiting::BusyPoll),
        ];
        assert_eq!(pairs(&variants).collect::<Vec<_>>(), [(2, 1)]);
        let mut variants = variants.to_vec();
        leave_out_one_core(&mut variants);
        assert_eq!(variants.len(), 4);
        assert_eq!(variants[3].path, PathId::StackMemory);
    }

    #[test]
    fn a_link_alone_has_times_and_no_quotients() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            iterations: Some(16),
            repetitions: Some(1),
            ..Options::default()
        };
        let mut context = Context::new(options.clone(), None, Cancel::default(), &Silent);
        let content = Links.measure(&mut context, "").unwrap();
        assert_eq!(context.options.paths, options.paths);
        let ids: Vec<&str> = content.tables.iter().map(|table| &*table.id).collect();
        assert_eq!(ids, ["round-trips", "connections", "streams"]);
        assert!(content.tables.iter().all(|table| table.rows.len() == 1));
    }

    #[test]
    fn streams_are_shown_in_both_directions_where_the_kernel_is_at_the_other_end() {
        let options = Options {
            paths: Some(vec![BASELINE, PathId::StackTap, PathId::StackMemory]),
            placement: Some(Placement::TwoCores),
            waiting: Some(Waiting::Blocking),
            sizes: Some(vec![16_384]),
            iterations: Some(16),
            repetitions: Some(3),
            ..Options::default()
        };
        let mut context = Context::new(options.clone(), None, Cancel::default(), &Silent);
        let content = match Links.measure(&mut context, "") {
            Ok(content) => content,
            Err(reason) => return tollgate_skip::skipped!("{reason}"),
        };
        assert_eq!(context.options, options);
        let named = |id: &str| content.tables.iter().find(|table| table.id == id);
        let Some(quotients) = named("streams-quotients") else {
            return tollgate_skip::skipped!("{:?}", content.trust);
        };
        for id in [
            "streams-received-quotients",
            "streams-received-processor-quotients",
        ] {
            let received = named(id).unwrap();
            let labels = |table: &Table| -> Vec<String> {
                table.rows.iter().map(|row| row.label.clone()).collect()
            };
            assert_eq!(labels(received), labels(quotients), "{id}");
            assert!(
                received
                    .rows
                    .iter()
                    .all(|row| row.cells[0].number().is_some_and(|one| one > 0.0)),
                "{id}"
            );
        }
        // Both ends of ours have no streams to the timed end.
        let received = named("streams-received").unwrap();
        assert_eq!(received.rows.len(), 2);
    }
}

//! `foong-direction`: which end of a one-way stream costs more, by size of a write, in the kernel and in Tollgate's stack; after Foong
//! et al. 2003, section 5.2.

use tollgate_run::{
    self as run, Cell, Figure, PathId, Source, Table, Unit, Workload, format, present,
};
use tollgate_stats as stats;

use super::foong_hz::{cell_of, column, common_trust, id, lines, source, titled, unavailable};
use super::{Content, Experiment, Reported, Uses, uses};
use crate::claim::{Claim, Evidence, Finding, Refusal, operations};
use crate::context::{Context, Options};
use crate::ends::{self, EndTimes, StackEnds};
use crate::error::Error;
use crate::sampled::{Sampled, Split};
use crate::streams::{self, Panel, RECEIVE, Streams, TRANSMIT, per_byte};
use crate::turns;

/// Transmit against receive.
pub(super) struct FoongDirection;

impl Experiment for FoongDirection {
    fn name(&self) -> &'static str {
        "foong-direction"
    }

    fn title(&self) -> &'static str {
        "Transmit against receive"
    }

    fn paper(&self) -> Option<Source> {
        source("Fig. 13, section 5.2")
    }

    fn summary(&self) -> &'static str {
        "what transmitting and receiving a byte of a stream cost, by size of a write: the kernel, and our stack"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet { but: &ends::OWN }
    }

    fn weight(&self) -> u32 {
        1
    }

    fn concerns(&self, options: &Options) -> bool {
        !streams::stream_paths(options).is_empty() || options.want_stack_memory()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let options = &context.options;
        let in_kernel = !streams::stream_paths(options).is_empty();
        if !in_kernel && !options.want_stack_memory() {
            return Err(Error::NothingToRun {
                workload: Workload::Stream,
                asked: options.restrictions(),
            });
        }
        // First, since samples take what time is left.
        let stack = match options.want_stack_memory() {
            true => Some(ends::of_stack(self.name(), context)?),
            false => None,
        };
        let sampled = match in_kernel {
            true => Some(streams::of(self.name(), context)?),
            false => None,
        };
        let mut finding = Finding::default();
        let mut content = match sampled.as_deref() {
            Some(Sampled::Measured(streams)) => {
                say(streams, &mut finding);
                let panels = || streams.panels.iter();
                Content {
                    finding: Finding::default().finish(),
                    tables: panels().map(|panel| table(streams, panel)).collect(),
                    figures: panels()
                        .filter_map(|panel| figure(streams, panel, command))
                        .collect(),
                    trust: common_trust(streams),
                }
            }
            Some(Sampled::Unavailable(reason)) => unavailable(reason),
            None => Content {
                finding: Finding::default().finish(),
                tables: Vec::new(),
                figures: Vec::new(),
                trust: Vec::new(),
            },
        };
        if let Some(stack) = &stack {
            say_of_stack(stack, &mut finding);
            content.tables.push(table_of_stack(stack));
            content.figures.extend(figure_of_stack(stack, command));
            content.trust.extend(uses::note(&context.options));
            content.trust.push(present::note(
                "the ends of our stack take turns in one thread, and a clock between the turns tells them apart; the sender takes the \
                 acknowledgments, the receiver reads into a posted buffer of the write's size. Error: that of the rounds' median",
            ));
        }
        if !finding.is_empty() {
            content.finding = finding.finish();
        }
        Ok(content)
    }
}

/// The ends of our stack with checksums, by size of a write.
fn ends_of(stack: &StackEnds) -> impl Iterator<Item = (usize, &EndTimes)> {
    stack.sizes.iter().copied().zip(&stack.times[0])
}

fn table_of_stack(stack: &StackEnds) -> Table {
    let rows = ends_of(stack).map(|(size, EndTimes { transmit, receive })| {
        let ratio = receive.each(transmit, |receive, transmit| receive / transmit);
        let cells = vec![transmit.cell(), receive.cell(), ratio.cell()];
        present::plain_row(format::size(size), cells)
    });
    Table {
        id: "direction-stack".to_owned(),
        title: format!(
            "Time of each end in Tollgate's stack for each byte, {}",
            PathId::StackMemory
        ),
        columns: columns(),
        rows: rows.collect(),
    }
}

fn figure_of_stack(stack: &StackEnds, command: &str) -> Option<Figure> {
    let line = |label, of: fn(&EndTimes) -> Cell| {
        turns::line(label, &stack.sizes, stack.times[0].iter().map(of))
    };
    let lines = [
        line("transmit", |ends| ends.transmit.cell()),
        line("receive", |ends| ends.receive.cell()),
    ];
    let series: Vec<run::Series> = lines.into_iter().flatten().collect();
    (!series.is_empty()).then(|| {
        turns::figure(
            "Transmit against receive in Tollgate's stack",
            ("Size of a write", Unit::Bytes),
            ("Time for each byte", Unit::NanosecondsPerByte),
            series,
            command,
        )
    })
}

/// Says which end of our stack takes more, at the smallest and at the largest write.
fn say_of_stack(stack: &StackEnds, finding: &mut Finding) {
    let last = stack.sizes.len().saturating_sub(1);
    let mut parts = Vec::new();
    let places = ends_of(stack).enumerate();
    for (_, (size, ends)) in places.filter(|(at, _)| *at == 0 || *at == last) {
        let size = format::size(size);
        let what = format!("receiving against transmitting for {size} in our stack");
        let ratio = ends.receive.ratio(&ends.transmit);
        if let Some(amount) = finding.comparison(what, ratio, Claim::amount_against) {
            parts.push(format!("{amount} for {size}"));
        }
    }
    if !parts.is_empty() {
        finding.say(format!(
            "in our stack receiving takes, against transmitting, {}",
            format::list(&parts)
        ));
    }
}

/// Columns of both ends.
fn columns() -> Vec<run::Column> {
    vec![
        column("Transmit", Unit::NanosecondsPerByte),
        column("Receive", Unit::NanosecondsPerByte),
        column("Receive / transmit", Unit::Ratio),
    ]
}

/// The time of receiving over that of transmitting, round by round.
fn ratio(rounds: &[Split]) -> Option<stats::Estimate> {
    let of = |category: usize| -> Vec<f64> {
        rounds
            .iter()
            .map(|split| split.category_ns(category))
            .collect()
    };
    stats::ratio(&of(RECEIVE), &of(TRANSMIT)).ok()
}

fn ratio_cell(rounds: &[Split]) -> Cell {
    match ratio(rounds) {
        Some(ratio) => Cell::Value(run::Measured {
            value: ratio.value,
            ci: Some(run::Interval {
                low: ratio.interval.low,
                high: ratio.interval.high,
            }),
            n: Some(ratio.n),
            ..run::Measured::default()
        }),
        None => Cell::NotAvailable {
            reason: "too few rounds, or one direction without a sample".to_owned(),
        },
    }
}

fn table(streams: &Streams, panel: &Panel) -> Table {
    let rows = streams.loads.iter().enumerate().map(|(at, load)| {
        let rounds = &panel.splits[at];
        let mut cells: Vec<Cell> = [TRANSMIT, RECEIVE]
            .iter()
            .map(|&category| {
                let mean = per_byte(rounds, |split| split.category_ns(category));
                cell_of(streams, panel, at, mean)
            })
            .collect();
        cells.push(ratio_cell(rounds));
        present::plain_row(load.label(), cells)
    });
    Table {
        id: id(streams, panel, "direction"),
        title: titled(streams, panel, "Processor time in the kernel for each byte"),
        columns: columns(),
        rows: rows.collect(),
    }
}

fn figure(streams: &Streams, panel: &Panel, command: &str) -> Option<Figure> {
    let of = |category: usize| {
        move |at: usize| per_byte(&panel.splits[at], |split| split.category_ns(category))
    };
    let (transmit, receive) = (of(TRANSMIT), of(RECEIVE));
    lines(
        titled(streams, panel, "Transmit against receive"),
        ("Processor time for each byte", Unit::NanosecondsPerByte),
        streams,
        &[("transmit", &transmit), ("receive", &receive)],
        command,
    )
}

/// The smallest and the largest write; a ratio whose interval holds 1 is no difference.
fn say(streams: &Streams, finding: &mut Finding) {
    for panel in &streams.panels {
        let in_cache = || (0..streams.loads.len()).filter(|&at| streams.loads[at].is_in_cache());
        let mut places: Vec<usize> = in_cache()
            .next()
            .into_iter()
            .chain(in_cache().next_back())
            .collect();
        places.dedup();
        let (mut parts, mut alike) = (Vec::new(), Vec::new());
        for at in places {
            let label = streams.loads[at].label();
            let rounds = &panel.splits[at];
            let claim = ratio(rounds).ok_or(Refusal::NoInterval).and_then(|ratio| {
                let interval = ratio.interval.into();
                Evidence::new(ratio.value, Some(interval), operations(rounds)).amount()
            });
            let what = format!(
                "receiving against transmitting for {label} over {}",
                panel.path
            );
            let Some(claim) = finding.claim(what, claim) else {
                continue;
            };
            match claim.amount_against() {
                Some(more) => parts.push(format!(
                    "receiving takes {more} than transmitting for {label}"
                )),
                None => alike.push(label),
            }
        }
        if !alike.is_empty() {
            parts.push(format!(
                "no difference is shown for {}",
                format::list(&alike)
            ));
        }
        if !parts.is_empty() {
            finding.say(format!("over {}, {}", panel.path, format::list(&parts)));
        }
    }
    if !finding.is_silent() {
        finding.say("in 2003 receiving took more at 800 MHz and transmitting at 2.4 GHz");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn ends_of_our_stack_have_a_table_of_their_own() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            sizes: Some(vec![64, 16_384]),
            iterations: Some(16),
            repetitions: Some(2),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let content = FoongDirection.measure(&mut context, "command").unwrap();
        let [table] = &content.tables[..] else {
            panic!("one table");
        };
        assert_eq!(table.id, "direction-stack");
        assert_eq!(table.columns.len(), 3);
        for row in &table.rows {
            assert!(row.cells.iter().all(|cell| cell.number().unwrap() > 0.0));
        }
        assert_eq!(content.figures.len(), 1);
        assert!(!content.finding.is_empty());
    }
}

//! `foong-direction`: which end of a one-way stream costs more, by size of a write; after Foong et al. 2003, section 5.2.

use tollgate_run::{self as run, Cell, Figure, Source, Table, Unit, format, present};
use tollgate_stats as stats;

use super::foong_hz::{cell_of, column, common_trust, id, lines, source, titled, unavailable};
use super::{Content, Experiment, Reported};
use crate::claim::{Evidence, Finding, FindingText, Refusal, operations};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::sampled::{Sampled, Split};
use crate::streams::{self, Panel, RECEIVE, Streams, TRANSMIT, per_byte};

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
        "what transmitting and receiving a byte of a stream cost, by size of a write"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn weight(&self) -> u32 {
        1
    }

    fn concerns(&self, options: &Options) -> bool {
        !streams::stream_paths(options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sampled = streams::of(self.name(), context)?;
        Ok(match &*sampled {
            Sampled::Measured(streams) => {
                let panels = || streams.panels.iter();
                Content {
                    finding: finding(streams),
                    tables: panels().map(|panel| table(streams, panel)).collect(),
                    figures: panels()
                        .filter_map(|panel| figure(streams, panel, command))
                        .collect(),
                    trust: common_trust(streams),
                }
            }
            Sampled::Unavailable(reason) => unavailable(reason),
        })
    }
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
        columns: vec![
            column("Transmit", Unit::NanosecondsPerByte),
            column("Receive", Unit::NanosecondsPerByte),
            column("Receive / transmit", Unit::Ratio),
        ],
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
fn finding(streams: &Streams) -> FindingText {
    let mut finding = Finding::default();
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
    finding.finish()
}

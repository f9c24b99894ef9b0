//! `foong-profile`: where the processor time of each end of a stream goes, by group of functions; after Foong et al. 2003, figures 3
//! and 4. Beside it the same samples by the categories of the study of 2021, which profiled such streams.

use tollgate_papers as papers;
use tollgate_run::{Cell, Figure, Source, Table, Unit, format, present};
use tollgate_sampling::{Categories, Classifier};

use super::foong_hz::{MeanAt, column, common_trust, id, lines, source, titled, unavailable};
use super::{Content, Experiment, Reported};
use crate::claim::{self, Evidence, Finding};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::sampled::{Mean, Sampled, Split};
use crate::streams::{self, Panel, RECEIVE, Streams, TRANSMIT};

/// Loads that the tables show, of those that reuse one buffer.
const SHOWN: usize = 5;

/// The distribution by group.
pub(super) struct FoongProfile;

impl Experiment for FoongProfile {
    fn name(&self) -> &'static str {
        "foong-profile"
    }

    fn title(&self) -> &'static str {
        "Processor time of a stream by group of functions"
    }

    fn paper(&self) -> Option<Source> {
        source("Figs. 3 and 4, section 3.2")
    }

    fn summary(&self) -> &'static str {
        "where each end's time goes: data, protocol, sockets, kernel, buffers, driver"
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
        let categories = context.options.categories.clone();
        let groups = categories.unwrap_or_else(Categories::foong);
        let sampled = streams::of(self.name(), context)?;
        Ok(match &*sampled {
            Sampled::Measured(streams) => shown(streams, &groups, command),
            Sampled::Unavailable(reason) => unavailable(reason),
        })
    }
}

/// The rounds of each load of a path by group.
type Groups = Vec<Vec<Split>>;

fn shown(streams: &Streams, groups: &Categories, command: &str) -> Content {
    let mut directions = Classifier::new(streams.directions.clone());
    let mut classifier = Classifier::new(groups.clone());
    let mut whole = Classifier::new(Categories::host_stack());
    let (mut tables, mut figures) = (Vec::new(), Vec::new());
    let mut finding = Finding::default();
    for panel in &streams.panels {
        for (direction, name) in [(TRANSMIT, "transmit"), (RECEIVE, "receive")] {
            let splits: Groups = (0..streams.loads.len())
                .map(|at| {
                    let piece = (&mut directions, direction);
                    let subject = panel.first + at;
                    streams.survey.splits_of(subject, piece, &mut classifier)
                })
                .collect();
            let title = format!("Shares of the processor time of {name}");
            tables.push(table(streams, panel, groups, &splits, (name, &title)));
            figures.extend(figure(streams, panel, groups, &splits, &title, command));
            let who = match streams.panels.len() {
                1 => name.to_owned(),
                _ => format!("{name} over {}", panel.path),
            };
            largest(streams, groups, &splits, &who, &mut finding);
        }
        let splits: Groups = (0..streams.loads.len())
            .map(|at| streams.survey.splits(panel.first + at, &mut whole))
            .collect();
        let title = "Both ends by the categories of Cai et al., SIGCOMM 2021";
        let study = Categories::host_stack();
        tables.push(table(
            streams,
            panel,
            &study,
            &splits,
            ("host-stack-2021", title),
        ));
    }
    tables.push(in_2003());
    let mut trust = common_trust(streams);
    trust.push(streams.survey.covered(groups));
    Content {
        finding: finding.finish(),
        tables,
        figures,
        trust,
    }
}

fn names(categories: &Categories) -> impl Iterator<Item = &str> {
    let all = categories.categories.iter();
    all.map(|category| category.name.as_str())
        .chain([categories.other.as_str()])
}

fn share(rounds: &[Split], category: usize) -> Option<Mean> {
    let values: Vec<f64> = rounds
        .iter()
        .filter(|split| split.total_ns() > 0.0)
        .map(|split| 100.0 * split.category_ns(category) / split.total_ns())
        .collect();
    Mean::of(&values)
}

fn table(
    streams: &Streams,
    panel: &Panel,
    categories: &Categories,
    splits: &Groups,
    (name, title): (&str, &str),
) -> Table {
    let in_cache: Vec<usize> = (0..streams.loads.len())
        .filter(|&at| streams.loads[at].is_in_cache())
        .collect();
    let mut places: Vec<usize> = present::some(in_cache.len().max(1), SHOWN)
        .into_iter()
        .filter_map(|at| in_cache.get(at).copied())
        .collect();
    places.extend((0..streams.loads.len()).filter(|&at| !streams.loads[at].is_in_cache()));
    let rows = names(categories).enumerate().map(|(category, label)| {
        let cells = places.iter().map(|&at| match share(&splits[at], category) {
            Some(mean) => mean.cell(),
            None => Cell::text("-"),
        });
        present::plain_row(label, cells.collect())
    });
    Table {
        id: id(streams, panel, name),
        title: titled(streams, panel, title),
        columns: places
            .iter()
            .map(|&at| column(streams.loads[at].label(), Unit::Percent))
            .collect(),
        rows: rows.collect(),
    }
}

fn figure(
    streams: &Streams,
    panel: &Panel,
    categories: &Categories,
    splits: &Groups,
    title: &str,
    command: &str,
) -> Option<Figure> {
    let means: Vec<_> = (0..names(categories).count())
        .map(|category| move |at: usize| share(&splits[at], category))
        .collect();
    let all: Vec<(&str, &MeanAt<'_>)> = names(categories)
        .zip(&means)
        .map(|(name, mean)| (name, mean as &MeanAt<'_>))
        .collect();
    lines(
        titled(streams, panel, title),
        ("Share of the time", Unit::Percent),
        streams,
        &all,
        command,
    )
}

/// The largest group at the smallest and at the largest write.
fn largest(
    streams: &Streams,
    categories: &Categories,
    splits: &Groups,
    direction: &str,
    finding: &mut Finding,
) {
    let in_cache = || (0..streams.loads.len()).filter(|&at| streams.loads[at].is_in_cache());
    let mut places: Vec<usize> = in_cache()
        .next()
        .into_iter()
        .chain(in_cache().next_back())
        .collect();
    places.dedup();
    let mut parts = Vec::new();
    for at in places {
        let largest = names(categories)
            .enumerate()
            .filter_map(|(category, name)| Some((share(&splits[at], category)?, name)))
            .max_by(|a, b| a.0.value.total_cmp(&b.0.value));
        let label = streams.loads[at].label();
        let what = format!("what takes most of {direction} for {label}");
        let claim = claim::mean(largest.map(|(mean, _)| mean), &splits[at]);
        let claim = finding.claim(what, claim.and_then(Evidence::share));
        if let (Some((_, name)), Some(claim)) = (largest, claim) {
            parts.push((name, format!("{} for {label}", claim.percent())));
        }
    }
    let most = match parts.as_slice() {
        [] => return,
        [(first, little), (second, much)] if first == second => {
            format!("{first} ({little}, {much})")
        }
        parts => {
            let parts: Vec<String> = (parts.iter())
                .map(|(name, share)| format!("{name} ({share})"))
                .collect();
            format::list(&parts)
        }
    };
    finding.say(format!("{direction} spends most on {most}"));
}

/// The shares that the paper's text states.
fn in_2003() -> Table {
    let row = |label: &str, fact: &str| {
        let cell = papers::fact(&format!("foong-2003/{fact}")).and_then(|fact| {
            let source = source(&format!("section {}", fact.place))?;
            Some(present::published_cell(Some(fact.value), &source))
        });
        present::plain_row(label, vec![cell.unwrap_or_else(|| Cell::text("-"))])
    };
    Table {
        id: "published".to_owned(),
        title: "Shares in 2003, Linux 2.4.16".to_owned(),
        columns: vec![column("Of the time that is not idle", Unit::Percent)],
        rows: vec![
            row("Protocol, receive", "protocol-receive"),
            row("Protocol, transmit, least", "protocol-transmit-least"),
            row("Protocol, transmit, most", "protocol-transmit-most"),
            row(
                "Sockets interface, small transfers, at most",
                "sockets-small-most",
            ),
            row("Driver, least", "driver-least"),
            row("Driver, most", "driver-most"),
            row(
                "Data touching, large transfers, at least",
                "data-touching-large",
            ),
            row("Data touching, receiving 64 B", "data-touching-64-receive"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_shares_are_found() {
        let table = in_2003();
        assert!(table.rows.iter().all(|row| row.cells[0].number().is_some()));
        assert_eq!(table.rows[0].cells[0].number(), Some(7.0));
    }
}

//! `foong-profile`: where the processor time of each end of a stream goes, by group of functions; after Foong et al. 2003, figures 3
//! and 4. Beside it the same samples by the categories of the study of 2021, which profiled such streams, and Tollgate's stack by the
//! spans of its ledger.

use tollgate_gate::{Direction, Span};
use tollgate_papers as papers;
use tollgate_run::{Cell, Figure, Measured, Source, Table, Unit, Workload, format, present};
use tollgate_sampling::{Categories, Classifier};

use super::foong_hz::{MeanAt, column, common_trust, id, lines, source, titled, unavailable};
use super::{Content, Experiment, Reported, Uses, uses};
use crate::claim::{self, Evidence, Finding};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::ledgers::{self, Ledgers};
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
        "where each end's time goes: data, protocol, sockets, kernel, buffers, driver; and in our stack, by its ledger"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet { but: &[] }
    }

    fn weight(&self) -> u32 {
        1
    }

    fn concerns(&self, options: &Options) -> bool {
        !streams::stream_paths(options).is_empty() || options.want_stack_memory()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let categories = context.options.categories.clone();
        let groups = categories.unwrap_or_else(Categories::foong);
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
            true => {
                let sizes = options.sizes_or(&STACK_SIZES);
                match ledgers::of_stack(self.name(), &sizes, STACK_SHARE, context) {
                    Err(Error::Stopped) => return Err(Error::Stopped),
                    stack => Some(stack),
                }
            }
            false => None,
        };
        let mut finding = Finding::default();
        let mut content = match in_kernel {
            true => match &*streams::of(self.name(), context)? {
                Sampled::Measured(streams) => shown(streams, &groups, command, &mut finding),
                Sampled::Unavailable(reason) => unavailable(reason),
            },
            false => Content {
                finding: Finding::default().finish(),
                tables: Vec::new(),
                figures: Vec::new(),
                trust: Vec::new(),
            },
        };
        match &stack {
            Some(Ok(ledgers)) => {
                for (direction, name) in ENDS {
                    content
                        .tables
                        .push(table_of_stack(ledgers, direction, name));
                }
                say_of_stack(ledgers, &mut finding);
                content.trust.extend(uses::note(&context.options));
                content.trust.push(present::note(
                    "our stack's shares are of the spans of its ledger over round trips, not of samples of a stream. On the way out the \
                     copy, with its sum where one pass makes both, lies in the socket call, so the two groups are one; queues are \
                     in no group of the paper. A bound has each \
                     part at the end of its interval",
                ));
            }
            Some(Err(error)) => content
                .trust
                .push(present::warning(format!("our stack is left out: {error}"))),
            None => {}
        }
        if !finding.is_empty() {
            content.finding = finding.finish();
        }
        Ok(content)
    }
}

/// Sizes of the stack's messages, each of which is one packet.
const STACK_SIZES: [usize; 3] = [64, 1_024, 8_000];
/// The stack's part of the time, where nothing has measured its ledgers before.
const STACK_SHARE: f64 = 0.3;
/// The ends of the stack's ledger.
const ENDS: [(Direction, &str); 2] = [(Direction::Tx, "transmit"), (Direction::Rx, "receive")];

/// Groups of the stack, named as the paper's: spans of its ledger.
const STACK_GROUPS: [(&str, &[&str]); 4] = [
    ("Data touching and sockets", &["tcp.checksum", "socket"]),
    ("Protocol", &["tcp", "ip", "demux"]),
    ("Driver", &["driver"]),
    ("Queues", &["device.queue", "ip.queue", "socket.queue"]),
];

/// The share of a group of spans in the time of one end, in hundredths.
fn share_of_stack(
    ledgers: &Ledgers,
    at: usize,
    direction: Direction,
    group: &[&str],
) -> Option<Measured> {
    let is_in = |span: &Span| group.contains(&span.name);
    ledgers.share(at, is_in, |span| span.direction == direction)
}

fn table_of_stack(ledgers: &Ledgers, direction: Direction, name: &str) -> Table {
    let rows = STACK_GROUPS.iter().map(|(label, group)| {
        let cells = ledgers.sizes.iter().enumerate().map(|(at, sized)| {
            match (share_of_stack(ledgers, at, direction, group), &sized.ledger) {
                (Some(share), _) => Cell::Value(share),
                (None, Err(reason)) => Cell::NotAvailable {
                    reason: reason.clone(),
                },
                (None, Ok(_)) => Cell::text("-"),
            }
        });
        present::plain_row(*label, cells.collect())
    });
    let sizes: Vec<usize> = ledgers.sizes.iter().map(|sized| sized.size).collect();
    Table {
        id: format!("{name}-stack"),
        title: format!("Shares of the time of {name} in Tollgate's stack"),
        columns: present::size_columns(&sizes, Unit::Percent),
        rows: rows.collect(),
    }
}

/// The largest group of each end of our stack, at the largest message.
fn say_of_stack(ledgers: &Ledgers, finding: &mut Finding) {
    let last = ledgers.sizes.len().saturating_sub(1);
    let mut parts = Vec::new();
    for (direction, end) in ENDS {
        let shares = STACK_GROUPS.iter().filter_map(|(label, group)| {
            let share = share_of_stack(ledgers, last, direction, group)?;
            Some((*label, share))
        });
        let largest = shares.max_by(|a, b| a.1.value.total_cmp(&b.1.value));
        if let Some((label, share)) = largest {
            let claim = Evidence::of(&Cell::Value(share)).and_then(Evidence::share);
            if let Some(claim) = finding.claim(format!("the largest part of {end}"), claim) {
                parts.push(format!("{end} on {label} ({})", claim.percent()));
            }
        }
    }
    if let (Some(sized), false) = (ledgers.sizes.get(last), parts.is_empty()) {
        finding.say(format!(
            "for {} our stack spends most of {}",
            format::bytes(sized.size),
            format::list(&parts)
        ));
    }
}

/// The rounds of each load of a path by group.
type Groups = Vec<Vec<Split>>;

/// Shows what was sampled; the sentence on it goes to `finding`.
fn shown(streams: &Streams, groups: &Categories, command: &str, finding: &mut Finding) -> Content {
    let mut directions = Classifier::new(streams.directions.clone());
    let mut classifier = Classifier::new(groups.clone());
    let mut whole = Classifier::new(Categories::host_stack());
    let (mut tables, mut figures) = (Vec::new(), Vec::new());
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
            largest(streams, groups, &splits, &who, finding);
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
        finding: Finding::default().finish(),
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
    use crate::context::{Cancel, Silent};

    #[test]
    fn groups_of_our_stack_are_all_of_an_end() {
        let options = Options {
            paths: Some(vec![tollgate_run::PathId::StackMemory]),
            sizes: Some(vec![64, 1_400]),
            iterations: Some(16),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let content = FoongProfile.measure(&mut context, "command").unwrap();
        let ids: Vec<&str> = content.tables.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["transmit-stack", "receive-stack"]);
        for table in &content.tables {
            for at in 0..2 {
                let cells = table.rows.iter().filter_map(|row| row.cells[at].measured());
                let shares: Vec<f64> = cells.map(|share| share.value).collect();
                // On a machine that stalls, the few round trips of a test may come out below zero: nothing has a share then.
                if !shares.is_empty() {
                    assert!(
                        (shares.iter().sum::<f64>() - 100.0).abs() < 1e-6,
                        "{shares:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_published_shares_are_found() {
        let table = in_2003();
        assert!(table.rows.iter().all(|row| row.cells[0].number().is_some()));
        assert_eq!(table.rows[0].cells[0].number(), Some(7.0));
    }
}

//! `wolman-networks`: round trips over the kernel's networks, by the size of the message, and what the second takes of the first;
//! after Wolman, Voelker and Thekkath 1994, Table 1, which has Ethernet and ATM.

use tollgate_papers as papers;
use tollgate_run::{
    Cell, Interval, Measured, Mode, PathId, Row, Source, Table, Unit, Workload, format, present,
};

use super::rr_by_size::{published_lines, published_ns, published_table};
use super::{Content, Experiment, Reported, remote_tables};
use crate::claim::{Evidence, Finding, Refusal};
use crate::compare;
use crate::context::{Context, ITERATIONS, Options, REPETITIONS, SIZES};
use crate::error::Error;
use crate::interleave::{self, Matrix};
use crate::layout;
use crate::ledgers;
use crate::outcome::{Figure, Outcome};

/// The part of the time that the ledgers of two hosts take, where there are two.
const HOSTS_SHARE: f64 = 0.5;
/// The networks unless the user names others.
const NETWORKS: [PathId; 2] = [PathId::KernelLoopback, PathId::KernelVeth];

/// Round trips by network.
pub(super) struct WolmanNetworks;

impl Experiment for WolmanNetworks {
    fn name(&self) -> &'static str {
        "wolman-networks"
    }

    fn title(&self) -> &'static str {
        "Round trips by network"
    }

    fn paper(&self) -> Option<Source> {
        papers::source("wolman-1994/table-1")
    }

    fn summary(&self) -> &'static str {
        "kernel sockets over loopback and over veth, beside Ethernet and ATM of 1994"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        NETWORKS.iter().any(|&path| options.wants(path)) || remote_mode(options).is_some()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let wanted = context.options.paths.clone();
        context
            .options
            .paths
            .get_or_insert_with(|| NETWORKS.to_vec());
        // First, since round trips take what time is left.
        let hosts = match remote_mode(&context.options) {
            Some(mode) => {
                match ledgers::of_hosts(self.name(), mode, &sizes, HOSTS_SHARE, context) {
                    Err(Error::Stopped) => return Err(Error::Stopped),
                    hosts => Some(hosts),
                }
            }
            None => None,
        };
        let outcome = Matrix::of(Workload::Rr, context)
            .and_then(|matrix| interleave::run(self.name(), matrix, &sizes, context));
        context.options.paths = wanted;
        let outcome = outcome?;
        let table = layout::table_by_size(
            "networks",
            "Round trip, median",
            Unit::Nanoseconds,
            &outcome,
            Figure::Median,
        );
        let figure = layout::lines_by_size(
            "Round trip by network over the size of the message, each way",
            "Size of the message",
            ("Round trip, median", Unit::Nanoseconds),
            &outcome,
            Figure::Median,
            published_lines(&sizes),
            command,
        );
        let pair = pair(&outcome);
        let mut trust = layout::trust(
            &outcome,
            context.options.iterations.unwrap_or(ITERATIONS),
            context.options.repetitions.unwrap_or(REPETITIONS),
            "round trips",
        );
        if outcome
            .matrix
            .variants
            .iter()
            .any(|one| one.path != PathId::KernelRemote)
        {
            trust.push(present::note(
                "the paper's networks are two machines and a wire; but for kernel-remote both ends are on one machine, and no wire is \
                 between them",
            ));
        }
        let mut finding = Finding::default();
        let (mut tables, mut figures) = (vec![table], vec![figure]);
        tables.extend(pair.map(|pair| ratios(&outcome, pair)));
        match &hosts {
            Some(Ok(ledgers)) => {
                if let Some(shown) = remote_tables::RemoteTables::of(ledgers) {
                    tables.extend([shown.table(), shown.ways()]);
                    figures.extend(shown.figure(command));
                    trust.extend(shown.trust());
                    shown.say(&mut finding);
                }
            }
            Some(Err(error)) => trust.push(present::warning(format!(
                "where the time of kernel-remote goes is left out: {error}"
            ))),
            None => {}
        }
        if finding.is_empty() {
            say(&outcome, pair, &mut finding);
        }
        tables.extend(published_table(&sizes));
        Ok(Content {
            finding: finding.finish(),
            tables,
            figures,
            trust,
        })
    }
}

/// The mode of the path to another host, when there is one and it is wanted.
fn remote_mode(options: &Options) -> Option<Mode> {
    let path = PathId::KernelRemote;
    let capabilities = options.capabilities(path).filter(|_| options.wants(path))?;
    options.modes(&capabilities).first().copied()
}

/// Two variants that run in the same way on the two networks: the first such pair.
fn pair(outcome: &Outcome) -> Option<(usize, usize)> {
    let variants = &outcome.matrix.variants;
    let on = |path| move |at: &usize| variants[*at].path == path;
    (0..variants.len())
        .filter(on(NETWORKS[0]))
        .find_map(|first| {
            let second = (0..variants.len())
                .filter(on(NETWORKS[1]))
                .find(|&second| variants[second].mode == variants[first].mode)?;
            Some((first, second))
        })
}

/// Table of the round trip over veth divided by that over loopback, and of ATM by Ethernet.
fn ratios(outcome: &Outcome, (first, second): (usize, usize)) -> Table {
    let variants = &outcome.matrix.variants;
    let cells =
        (0..outcome.sizes.len()).map(
            |at| match outcome.ratio(second, first, at, Figure::Median) {
                Some(ratio) => Cell::Value(Measured {
                    value: 100.0 * ratio.value,
                    ci: Some(Interval {
                        low: 100.0 * ratio.interval.low,
                        high: 100.0 * ratio.interval.high,
                    }),
                    n: Some(ratio.n),
                    ..Measured::default()
                }),
                None => Cell::NotAvailable {
                    reason: "one of the two was not measured often enough".to_owned(),
                },
            },
        );
    let mut rows: Vec<Row> = vec![present::plain_row(
        format!(
            "{} of {}",
            variants[second].label(),
            variants[first].label()
        ),
        cells.collect(),
    )];
    if let Some(source) = papers::source("wolman-1994/table-1") {
        let then = outcome.sizes.iter().map(|&size| {
            let share = published_ns(size, "atm")
                .zip(published_ns(size, "ethernet"))
                .map(|(atm, ethernet)| 100.0 * atm / ethernet);
            present::published_cell(share, &source)
        });
        rows.push(present::plain_row("ATM of Ethernet, 1994", then.collect()));
    }
    Table {
        id: "ratios".to_owned(),
        title: "What a round trip over the second network takes of one over the first".to_owned(),
        columns: present::size_columns(&outcome.sizes, Unit::Percent),
        rows,
    }
}

fn say(outcome: &Outcome, pair: Option<(usize, usize)>, finding: &mut Finding) {
    let Some(((first, second), &size)) = pair.zip(outcome.sizes.first()) else {
        let why = Refusal::NotMeasured("one of them was not measured".to_owned());
        return finding.refuse("how the two networks compare", &why);
    };
    let what = format!("a {}-byte round trip", format::whole(size as u64));
    let cell = outcome.cell(first, 0, Figure::Median);
    let takes = Evidence::of(&cell).and_then(Evidence::amount);
    if let Some(takes) = finding.claim(format!("{what} over kernel-loopback"), takes) {
        finding.say(format!(
            "{what} over kernel-loopback takes {}",
            takes.duration()
        ));
    }
    let between = format!("{what} over kernel-veth against kernel-loopback");
    let ratio = compare::ratio(outcome, second, first, 0, Figure::Median);
    if let Some(ratio) = finding.claim(between, ratio) {
        let then = published_ns(size, "atm")
            .zip(published_ns(size, "ethernet"))
            .map(|(atm, ethernet)| {
                format!(
                    " (1994: ATM {} than Ethernet)",
                    format::speed(atm / ethernet)
                )
            });
        let compared = match ratio.speed() {
            Some(speed) => format!("kernel-veth is {speed} than kernel-loopback"),
            None => "kernel-veth and kernel-loopback show no difference".to_owned(),
        };
        finding.say(format!("{compared}{}", then.unwrap_or_default()));
    }
}

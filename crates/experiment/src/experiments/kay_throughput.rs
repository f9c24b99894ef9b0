//! `kay-throughput`: streams, and datagrams to and fro, with and without checksums; beside Kay and Pasquale 1996, Table I.
//!
//! Their improvement is of checksum redundancy avoidance with an improved checksum. Here it stands beside checksums that are left out
//! by switch, which verifies and negotiates nothing. On the kernel's path, which has no redundancy avoidance, the devices of a veth
//! pair take the checksum over, with segmentation off in both states. Packets have the MTU of their network, FDDI. Datagrams
//! need no fragments there: those keep their checksums.

use tollgate_papers as papers;
use tollgate_run::{Cell, Column, Offload, Source, Table, Unit, Workload, format, present};
use tollgate_workload::Mechanisms;
use tollgate_workload::config::ChecksumPolicy;

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Claim, Finding, FindingText};
use crate::compare;
use crate::context::{Context, ITERATIONS, Options, REPETITIONS};
use crate::error::Error;
use crate::layout;
use crate::outcome::Figure;
use crate::switched::{self, Comparison, Plan, Saving, Setting};

const TABLE: &str = "kay-pasquale-1996/table-1";
/// Bytes of a write.
const WRITE: usize = 65_536;
/// Bytes of the largest IP packet over FDDI (RFC 1390).
const FDDI_MTU: usize = 4_352;
/// Bytes of the largest datagram that needs no fragments there.
const DATAGRAM: usize = FDDI_MTU - 20 - 8;
const BYTES_PER_MEGABIT: f64 = 125_000.0;

/// Values of the mechanism.
const SETTINGS: [Setting; 3] = [
    Setting {
        label: "checksums always",
        set: |usual| with(usual, ChecksumPolicy::Always),
        offload: Some(Offload::Neither),
    },
    Setting {
        label: "checksums off",
        set: |usual| with(usual, ChecksumPolicy::Off),
        offload: Some(Offload::Checksum),
    },
    Setting {
        label: "redundancy avoidance",
        set: |usual| with(usual, ChecksumPolicy::RedundancyAvoidance),
        offload: None,
    },
];
/// Gained by the paper's mechanism.
const AVOIDANCE: Saving = Saving {
    with: 2,
    without: 0,
    figure: Figure::Rate,
};
/// Gained without any checksum.
const GAIN: Saving = Saving {
    with: 1,
    without: 0,
    figure: Figure::Rate,
};

const fn with(usual: Mechanisms, checksum: ChecksumPolicy) -> Mechanisms {
    Mechanisms { checksum, ..usual }
}

/// Throughput with and without checksums.
pub(super) struct KayThroughput;

impl Experiment for KayThroughput {
    fn name(&self) -> &'static str {
        "kay-throughput"
    }

    fn title(&self) -> &'static str {
        "Throughput without checksums"
    }

    fn paper(&self) -> Option<Source> {
        papers::source(TABLE)
    }

    fn summary(&self) -> &'static str {
        "streams of 64 KiB writes, and datagrams, with checksums and without: both stacks of ours, and the kernel's over a veth pair"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        2
    }

    fn concerns(&self, options: &Options) -> bool {
        options.wants_any(&switched::STACKS_AND_KERNEL)
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet {
            but: &[ChecksumPolicy::NAME],
        }
    }

    fn takes_link(&self) -> bool {
        true
    }

    fn measure(&self, context: &mut Context<'_>, _: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&[WRITE]);
        let mtu = switched::network_mtu(&context.options, Some(FDDI_MTU));
        let streams = Plan {
            experiment: self.name(),
            workload: Workload::Stream,
            datagrams: false,
            settings: &SETTINGS,
            paths: &switched::STACKS,
            mtu,
        };
        let streams = context.within_share(0.5, |context| streams.run(&sizes, context))?;
        let datagrams = Plan {
            experiment: self.name(),
            workload: Workload::Rr,
            datagrams: true,
            settings: &SETTINGS,
            paths: &switched::STACKS,
            mtu,
        };
        let datagrams = datagrams.run(&[DATAGRAM], context)?;
        let panels = [(&TCP, &streams), (&UDP, &datagrams)];
        let rates = panels.map(|(protocol, comparison)| {
            layout::table_by_size(
                protocol.table,
                protocol.title,
                Unit::BytesPerSecond,
                &comparison.outcome,
                Figure::Rate,
            )
        });
        let tables = std::iter::once(gains(&panels))
            .chain(rates)
            .chain(published());
        let mut trust = Vec::new();
        for (protocol, comparison) in panels {
            trust.extend(layout::trust(
                &comparison.outcome,
                context.options.iterations.unwrap_or(ITERATIONS),
                context.options.repetitions.unwrap_or(REPETITIONS),
                protocol.operations,
            ));
        }
        trust.push(present::note(
            "the paper's gain also has an improved checksum in it, for the messages that keep one; its network was FDDI, and packets of both \
             protocols are as long as there",
        ));
        trust.push(present::note(
            "on kernel-veth the devices of both ends take checksums over, and since they are memory nobody computes them",
        ));
        Ok(Content {
            finding: finding(&panels),
            tables: tables.collect(),
            figures: Vec::new(),
            trust,
        })
    }
}

/// A protocol of the paper's table, and how it is measured here.
struct Protocol {
    /// Its row in the paper.
    row: &'static str,
    name: &'static str,
    /// Carriers of a size of bytes.
    units: &'static str,
    operations: &'static str,
    /// The table of its throughput, and its title.
    table: &'static str,
    title: &'static str,
    /// The subject and the verb of the finding.
    carries: &'static str,
}

const TCP: Protocol = Protocol {
    row: "tcp",
    name: "TCP",
    units: "writes",
    operations: "writes",
    table: "throughput",
    title: "Throughput, TCP",
    carries: "a stream carries",
};
const UDP: Protocol = Protocol {
    row: "udp",
    name: "UDP",
    units: "datagrams",
    operations: "round trips",
    table: "datagrams",
    title: "Throughput, UDP, both ways together",
    carries: "datagrams carry",
};

impl Protocol {
    /// The gain in the paper, in percent.
    fn published(&self) -> Option<f64> {
        papers::table(TABLE)?.cell(self.row, "improvement")
    }
}

/// Table of the throughput gained without checksums, by protocol and size.
fn gains(panels: &[(&Protocol, &Comparison)]) -> Table {
    let column = |name: String| Column {
        name,
        unit: Unit::Percent,
    };
    let source = papers::source(TABLE);
    let mut rows = Vec::new();
    for (protocol, comparison) in panels {
        for (at, &size) in comparison.outcome.sizes.iter().enumerate() {
            let row = |what: &str, gain, published| {
                let lines = comparison.lines.iter();
                let ours = lines.map(|line| comparison.cell(line, at, gain));
                let (name, units) = (protocol.name, protocol.units);
                let label = format!("{name}, {what}, {units} of {}", format::bytes(size));
                present::plain_row(label, std::iter::once(published).chain(ours).collect())
            };
            let published = source.as_ref().map_or(Cell::text("-"), |source| {
                present::published_cell(protocol.published(), source)
            });
            rows.push(row("redundancy avoidance", AVOIDANCE, published));
            rows.push(row("no checksums", GAIN, Cell::text("-")));
        }
    }
    // Both protocols ran on the same paths.
    let paths = panels.iter().take(1).flat_map(|(_, one)| &one.lines);
    Table {
        id: "gains".to_owned(),
        title: "Throughput gained without checksums".to_owned(),
        columns: source
            .iter()
            .map(|source| column(source.year.to_string()))
            .chain(paths.map(|line| column(line.path.to_string())))
            .collect(),
        rows,
    }
}

/// The published throughput.
fn published() -> Option<Table> {
    let (table, source) = papers::table(TABLE).zip(papers::source(TABLE))?;
    let columns = [("Ultrix 4.2a", "ultrix"), ("With CRA+", "cra-plus")];
    Some(Table {
        id: "published".to_owned(),
        title: "Throughput in 1996, FDDI".to_owned(),
        columns: columns
            .map(|(name, _)| Column {
                name: name.to_owned(),
                unit: Unit::BytesPerSecond,
            })
            .into(),
        rows: table
            .rows
            .iter()
            .map(|row| {
                let cells = columns.map(|(_, column)| {
                    let rate = table.cell(&row.id, column);
                    let rate = rate.map(|megabits| megabits * BYTES_PER_MEGABIT);
                    present::published_cell(rate, &source)
                });
                present::plain_row(row.label(), cells.into())
            })
            .collect(),
    })
}

/// Says what each protocol gains on each path at its last size.
fn finding(panels: &[(&Protocol, &Comparison)]) -> FindingText {
    let mut finding = Finding::default();
    for (protocol, comparison) in panels {
        let Some(at) = comparison.outcome.sizes.len().checked_sub(1) else {
            continue;
        };
        let mut words = Vec::new();
        for line in &comparison.lines {
            let Some((with, without)) = line.pair(AVOIDANCE) else {
                continue;
            };
            let ratio = compare::ratio(&comparison.outcome, with, without, at, AVOIDANCE.figure);
            let what = format!("the gain of {} on {}", protocol.name, line.path);
            if let Some(amount) = finding.comparison(what, ratio, Claim::amount_against) {
                words.push(format!("{amount} on {}", line.path));
            }
        }
        if words.is_empty() {
            continue;
        }
        let then = protocol.published().map_or_else(String::new, |percent| {
            format!(" (1996: {percent:.0} % more)")
        });
        finding.say(format!(
            "with redundancy avoidance {} {}{then}",
            protocol.carries,
            format::list(&words)
        ));
    }
    finding.finish()
}

#[cfg(test)]
mod tests {
    use tollgate_run::PathId;
    use tollgate_workload::LinkKind;

    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn a_link_keeps_the_mtu_of_its_own() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            iterations: Some(16),
            repetitions: Some(2),
            link: LinkKind::Fddi,
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let content = KayThroughput.measure(&mut context, "command").unwrap();
        let cells = content.tables[0].rows.iter().map(|row| &row.cells[1]);
        assert!(cells.into_iter().all(|cell| cell.measured().is_some()));
    }

    #[test]
    fn gains_stand_beside_the_published_one() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            iterations: Some(16),
            repetitions: Some(2),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let content = KayThroughput.measure(&mut context, "command").unwrap();
        let [gains, throughput, datagrams, published] = &content.tables[..] else {
            panic!("four tables");
        };
        let names: Vec<&str> = gains.columns.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["1996", "stack-memory"]);
        let then: Vec<_> = gains.rows.iter().map(|row| row.cells[0].number()).collect();
        assert_eq!(then, [Some(47.0), None, Some(74.0), None]);
        for row in &gains.rows {
            assert!(row.cells[1].measured().unwrap().ci.is_some(), "{row:?}");
        }
        assert_eq!((throughput.rows.len(), datagrams.rows.len()), (3, 3));
        for row in throughput.rows.iter().chain(&datagrams.rows) {
            assert!(row.label.contains("MTU 4352"), "{}", row.label);
        }
        assert_eq!(published.rows[1].cells[0].number(), Some(2_375_000.0));
    }
}

//! `kay-throughput`: streams with and without checksums; beside Kay and Pasquale 1996, Table I.
//!
//! Their improvement is of checksum redundancy avoidance with an improved checksum. Here it stands beside checksums that are left out
//! by switch, which verifies and negotiates nothing. On the kernel's path, which has no redundancy avoidance, the devices of a veth
//! pair take the checksum over, with segmentation off in both states.

use tollgate_papers as papers;
use tollgate_run::{Cell, Column, Offload, Source, Table, Unit, Workload, format, present};
use tollgate_workload::Mechanisms;
use tollgate_workload::config::ChecksumPolicy;

use super::{Content, Experiment, Reported};
use crate::claim::{Finding, FindingText};
use crate::compare;
use crate::context::{Context, ITERATIONS, Options, REPETITIONS};
use crate::error::Error;
use crate::layout;
use crate::outcome::Figure;
use crate::switched::{self, Comparison, Plan, Saving, Setting};

const TABLE: &str = "kay-pasquale-1996/table-1";
/// Bytes of a write.
const WRITE: usize = 65_536;
const BYTES_PER_MEGABIT: f64 = 125_000.0;

/// Values of the mechanism.
const SETTINGS: [Setting; 3] = [
    Setting {
        words: "checksums always",
        set: |usual| with(usual, ChecksumPolicy::Always),
        offload: Some(Offload::Neither),
    },
    Setting {
        words: "checksums off",
        set: |usual| with(usual, ChecksumPolicy::Off),
        offload: Some(Offload::Checksum),
    },
    Setting {
        words: "redundancy avoidance",
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
        "streams of 64 KiB writes with checksums and without: both stacks of ours, and the kernel's over a veth pair"
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

    fn takes_mechanisms(&self) -> bool {
        true
    }

    fn measure(&self, context: &mut Context<'_>, _: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&[WRITE]);
        let plan = Plan {
            experiment: self.name(),
            workload: Workload::Stream,
            settings: &SETTINGS,
            mtu: None,
        };
        let comparison = plan.run(&sizes, context)?;
        let mut tables = vec![
            gains(&comparison),
            layout::table_by_size(
                "throughput",
                "Throughput",
                Unit::BytesPerSecond,
                &comparison.outcome,
                Figure::Rate,
            ),
        ];
        tables.extend(published());
        let mut trust = layout::trust(
            &comparison.outcome,
            context.options.iterations.unwrap_or(ITERATIONS),
            context.options.repetitions.unwrap_or(REPETITIONS),
            "writes",
        );
        trust.push(present::note(
            "the paper's gain also has an improved checksum in it, for the messages that keep one; its network was FDDI",
        ));
        trust.push(present::note(
            "on kernel-veth the devices of both ends take checksums over, and since they are memory nobody computes them",
        ));
        Ok(Content {
            finding: finding(&comparison),
            tables,
            figures: Vec::new(),
            trust,
        })
    }
}

/// Table of the throughput gained without checksums, by size of a write.
fn gains(comparison: &Comparison) -> Table {
    let column = |name: String| Column {
        name,
        unit: Unit::Percent,
    };
    let lines = &comparison.lines;
    let then = papers::table(TABLE).and_then(|table| table.cell("tcp", "improvement"));
    let rows = comparison
        .outcome
        .sizes
        .iter()
        .enumerate()
        .flat_map(|(at, &size)| {
            let row = |what: &str, gain, published| {
                let ours = lines.iter().map(|line| comparison.cell(line, at, gain));
                let label = format!("{what}, writes of {}", format::bytes(size));
                present::plain_row(label, std::iter::once(published).chain(ours).collect())
            };
            let source = papers::source(TABLE);
            let published = source.map_or(Cell::text("-"), |source| {
                present::published_cell(then, &source)
            });
            [
                row("Redundancy avoidance", AVOIDANCE, published),
                row("No checksums", GAIN, Cell::text("-")),
            ]
        });
    Table {
        id: "gains".to_owned(),
        title: "Throughput gained without checksums".to_owned(),
        columns: papers::source(TABLE)
            .map(|source| column(source.year.to_string()))
            .into_iter()
            .chain(lines.iter().map(|line| column(line.path.to_string())))
            .collect(),
        rows: rows.collect(),
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

/// Says what throughput gains on each path at the last size.
fn finding(comparison: &Comparison) -> FindingText {
    let mut finding = Finding::default();
    let Some(at) = comparison.outcome.sizes.len().checked_sub(1) else {
        return finding.finish();
    };
    let mut words = Vec::new();
    for line in &comparison.lines {
        let Some((with, without)) = line.pair(AVOIDANCE) else {
            continue;
        };
        let ratio = compare::ratio(&comparison.outcome, with, without, at, AVOIDANCE.figure);
        if let Some(ratio) = finding.claim(format!("the gain on {}", line.path), ratio) {
            let amount = ratio.amount_against();
            let amount = amount.unwrap_or_else(|| ratio.same_within());
            words.push(format!("{amount} on {}", line.path));
        }
    }
    if !words.is_empty() {
        let then = papers::table(TABLE).and_then(|table| table.cell("tcp", "improvement"));
        let then = then.map_or_else(String::new, |percent| {
            format!(" (1996: {percent:.0} % more)")
        });
        let carried = format::list(&words);
        finding.say(format!(
            "with redundancy avoidance a stream carries {carried}{then}"
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
    fn gains_stand_beside_the_published_one() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            iterations: Some(16),
            repetitions: Some(2),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let content = KayThroughput.measure(&mut context, "command").unwrap();
        let [gains, throughput, published] = &content.tables[..] else {
            panic!("three tables");
        };
        let names: Vec<&str> = gains.columns.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["1996", "stack-memory"]);
        assert_eq!(gains.rows[0].cells[0].number(), Some(47.0));
        assert!(gains.rows[0].cells[1].measured().unwrap().ci.is_some());
        assert_eq!(throughput.rows.len(), 3);
        assert_eq!(published.rows[0].cells[0].number(), Some(2_125_000.0));
    }
}

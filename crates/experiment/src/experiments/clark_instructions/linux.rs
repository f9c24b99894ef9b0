//! The part of `clark-instructions` that is Linux's: the layers of a stock kernel, counted in QEMU by `make qemu`.

use tollgate_qemu::counts::{Counts, LayerCount, Operation, RegionCounts};
use tollgate_qemu::profile::InstructionCount;
use tollgate_qemu::protocol::Workload;
use tollgate_run::{
    Bar, Cell, Column, Figure, Layer, Row, RowKind, Segment, SegmentKind, Table, TrustKind,
    TrustLine, Unit, format, present,
};

use crate::claim::{Evidence, Finding};

/// The share of the kernel's instructions that the rules may leave uncovered.
const UNCOVERED: f64 = 0.05;

/// `Linux 6.1.0-56-amd64`.
pub(super) fn name(counts: &Counts) -> String {
    match counts.facts.get("kernel") {
        Some(release) => format!("Linux {release}"),
        None => counts.package.clone(),
    }
}

/// An operation of the kernel, by its id in the table of our stack.
pub(super) fn operation<'a>(counts: &'a Counts, id: &str) -> Option<&'a Operation> {
    counts.operations().find(|operation| operation.id == id)
}

/// The reason why the kernel has no such operation on its common path.
pub(super) fn missing(id: &str) -> &'static str {
    match id {
        "timer-set" | "wheel-insert" => {
            "Linux sets a timer that still runs from the segment before: see the row on resetting"
        }
        "timer-clear" => "Linux lets the timer of an acknowledged segment run out",
        "tcb-lookup" => "Linux keeps no connection of the last packet: every lookup is in the hash",
        _ => "not counted for Linux",
    }
}

/// All that one region shows, in the order of the columns: round trips by size, then messages one way.
fn regions(counts: &Counts) -> Vec<&RegionCounts> {
    let mut regions = counts.of(Workload::RequestResponse);
    regions.extend(counts.of(Workload::OneWay));
    regions
}

fn column_name(region: &RegionCounts) -> String {
    let size = format::whole(region.size);
    match region.workload {
        Workload::RequestResponse => format!("{size} B"),
        Workload::OneWay => format!("{size} B one way"),
    }
}

/// The layers of a round trip, size by size.
pub(super) fn table(counts: &Counts) -> Table {
    let regions = regions(counts);
    let columns = regions.iter().map(|region| Column {
        name: column_name(region),
        unit: Unit::Instructions,
    });
    let first: &[LayerCount] = regions.first().map_or(&[], |region| &region.layers);
    let mut rows: Vec<Row> = first
        .iter()
        .map(|layer| {
            let of = |region: &&RegionCounts| {
                let same = region.layers.iter().find(|other| other.id == layer.id);
                Cell::exact(
                    region.each(same.map_or_else(InstructionCount::default, |layer| layer.count)),
                )
            };
            Row {
                kind: RowKind::Processing,
                layer: layer_of(&layer.layer),
                ..present::plain_row(layer.label.clone(), regions.iter().map(of).collect())
            }
        })
        .filter(|row| {
            row.cells
                .iter()
                .any(|cell| cell.number().is_some_and(|number| number > 0.0))
        })
        .collect();
    let cells =
        |of: &dyn Fn(&RegionCounts) -> Cell| regions.iter().map(|region| of(region)).collect();
    let each =
        |region: &RegionCounts, steps: u64| Cell::exact(steps as f64 / region.times.max(1) as f64);
    rows.push(Row {
        kind: RowKind::Unattributed,
        note: Some(others(&regions)),
        ..present::plain_row(
            "Other",
            cells(&|region| Cell::exact(region.each(region.other()))),
        )
    });
    rows.push(Row {
        kind: RowKind::Total,
        ..present::plain_row(
            "Total",
            cells(&|region| Cell::exact(region.each(region.total))),
        )
    });
    let repetitions = "of string instructions, which a processor does not count";
    rows.push(Row {
        note: Some(repetitions.to_owned()),
        ..present::plain_row(
            "Repetitions",
            cells(&|region| each(region, region.total.repetitions)),
        )
    });
    let clock = |region: &RegionCounts| match region.clock_differs_by() {
        Some(_) => each(region, region.clock),
        None => Cell::NotAvailable {
            reason: "between the messages the guest rests, and its clock jumps over that"
                .to_owned(),
        },
    };
    rows.push(Row {
        kind: RowKind::Total,
        note: Some("by how much the guest's own clock moved: total and repetitions".to_owned()),
        ..present::plain_row("Guest's clock", cells(&clock))
    });
    Table {
        id: "linux-layers".to_owned(),
        title: format!(
            "Instructions of each layer in {}, both ends, for each round trip or message",
            name(counts)
        ),
        columns: columns.collect(),
        rows,
    }
}

/// The functions that most of what no rule covers was executed in.
fn others(regions: &[&RegionCounts]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for region in regions {
        for other in region.others.iter().take(3) {
            if !names.contains(&other.function.as_str()) && names.len() < 5 {
                names.push(&other.function);
            }
        }
    }
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        format!("mostly {}", names.join(", "))
    }
}

fn layer_of(name: &str) -> Option<Layer> {
    Layer::ALL.into_iter().find(|layer| layer.name() == name)
}

/// The layers of a run with what they take in a region, the largest first.
fn by_layer(region: &RegionCounts) -> Vec<(Layer, f64)> {
    let sum = |layer: Layer| {
        let mine = region
            .layers
            .iter()
            .filter(|row| layer_of(&row.layer) == Some(layer));
        mine.map(|row| region.each(row.count)).sum::<f64>()
    };
    let mut sums: Vec<(Layer, f64)> = Layer::ALL
        .into_iter()
        .map(|layer| (layer, sum(layer)))
        .collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    sums
}

/// The layers as bars.
pub(super) fn figure(counts: &Counts, command: &str) -> Figure {
    let bar = |region: &&RegionCounts| {
        let kernel = region
            .layers
            .iter()
            .filter(|row| row.count.instructions > 0);
        let mut segments: Vec<Segment> = kernel
            .map(|row| Segment {
                label: row.label.clone(),
                layer: layer_of(&row.layer),
                kind: SegmentKind::Processing,
                value: region.each(row.count),
            })
            .collect();
        segments.push(Segment {
            label: "Other".to_owned(),
            layer: None,
            kind: SegmentKind::Unattributed,
            value: region.each(region.other()),
        });
        let outside = region.clock.saturating_sub(region.total.repetitions);
        Bar {
            label: column_name(region),
            total_measured: region
                .clock_differs_by()
                .map(|_| outside as f64 / region.times.max(1) as f64),
            segments,
        }
    };
    Figure::StackedBars {
        title: format!("Where the instructions of {} go", name(counts)),
        unit: Unit::Instructions,
        bars: regions(counts).iter().map(bar).collect(),
        command: command.to_owned(),
    }
}

/// Says what a round trip takes, and which layers take most of it; at 200 bytes, or what is nearest.
pub(super) fn say(counts: &Counts, finding: &mut Finding) {
    let regions = counts.of(Workload::RequestResponse).into_iter();
    let Some(region) = regions.min_by_key(|region| region.size.abs_diff(200)) else {
        return;
    };
    let what = format!(
        "a {}-byte round trip in {}",
        format::whole(region.size),
        name(counts)
    );
    let all = region.each(region.total);
    let Some(total) = finding.claim(what.clone(), Evidence::exact(all).amount()) else {
        return;
    };
    let mut share = |value: f64| {
        let share = Evidence::exact(100.0 * value / all).share();
        finding.claim(format!("a layer's part of {what}"), share)
    };
    let told: Vec<String> = by_layer(region)
        .into_iter()
        .filter(|(_, value)| *value > 0.0)
        .take(3)
        .filter_map(|(layer, value)| {
            let what = match layer {
                Layer::Scheduler => "scheduling and waking",
                Layer::Socket => "sockets, system calls and copies",
                Layer::Tcp => "TCP with its buffers and timers",
                Layer::Ip => "IP",
                Layer::Device => "the device queue",
                Layer::Driver => "the driver",
                Layer::Link => "the link",
            };
            Some(format!("{} in {what}", share(value)?.percent()))
        })
        .collect();
    finding.say(format!(
        "{what} takes {} instructions, {}",
        total.count(),
        format::list(&told)
    ));
}

/// Lines of trust of the counts.
pub(super) fn trust(counts: &Counts) -> Vec<TrustLine> {
    let mut lines = Vec::new();
    let differences: Vec<u64> = counts
        .regions
        .iter()
        .filter_map(RegionCounts::clock_differs_by)
        .collect();
    if let Some(&most) = differences.iter().max() {
        lines.push(TrustLine {
            kind: TrustKind::Closure,
            value: Some(most as f64),
            unit: Unit::Instructions,
            holds: most == 0,
            text: if most == 0 {
                format!("{}: the layers add up to what the guest's own clock counted, to the instruction", name(counts))
            } else {
                format!(
                    "{}: the layers and the guest's own clock differ by up to {}",
                    name(counts),
                    format::counted(most, "instruction", "instructions")
                )
            },
        });
    }
    let uncovered = counts
        .regions
        .iter()
        .map(RegionCounts::share_uncovered)
        .fold(0.0, f64::max);
    lines.push(TrustLine {
        kind: TrustKind::Residual,
        value: Some(100.0 * uncovered),
        unit: Unit::Percent,
        holds: uncovered < UNCOVERED,
        text: format!(
            "{:.2} % of the kernel's instructions at most are covered by no rule",
            100.0 * uncovered
        ),
    });
    let alone: Vec<u64> = counts
        .regions
        .iter()
        .filter_map(|region| Some(region.clock_alone?.abs_diff(region.clock)))
        .collect();
    if let Some(&most) = alone.iter().max() {
        lines.push(TrustLine {
            kind: TrustKind::Perturbation,
            value: Some(most as f64),
            unit: Unit::Instructions,
            holds: most == 0,
            text: format!(
                "without the counting plugin the guest's clock moves by {} more or less",
                format::counted(most, "instruction", "instructions")
            ),
        });
    }
    lines.push(TrustLine {
        holds: counts.repetitions > 1,
        ..present::note(match counts.repetitions {
            0 | 1 => "Linux was counted once; whether a second run gives the same was not looked at".to_owned(),
            times => format!("Linux was booted and counted {times} times, with the same result to the instruction"),
        })
    });
    let workarounds: Vec<&str> = counts
        .facts
        .iter()
        .filter_map(|(name, value)| {
            let fault = name.strip_prefix("mitigation/")?;
            value.contains("Mitigation").then_some(fault)
        })
        .collect();
    let fact = |name: &str| counts.facts.get(name).map_or("unknown", String::as_str);
    lines.push(present::note(format!(
        "{} ({}) in {}, one processor, loopback, both ends blocking, congestion control {}, clock source {}, workarounds \
         active against {}",
        name(counts),
        counts.package,
        counts.qemu,
        fact("congestion"),
        fact("clocksource"),
        if workarounds.is_empty() { "none".to_owned() } else { workarounds.join(", ") }
    )));
    lines
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use tollgate_qemu::counts::{Schema, UncoveredCount, VERSION};

    use super::*;

    fn count(instructions: u64) -> InstructionCount {
        InstructionCount {
            instructions,
            repetitions: instructions / 100,
        }
    }

    fn region(workload: Workload, size: u64, scale: u64) -> RegionCounts {
        let layer = |id: &str, layer: &str, instructions: u64| LayerCount {
            id: id.to_owned(),
            label: format!("Label of {id}"),
            layer: layer.to_owned(),
            count: count(instructions * scale),
        };
        let layers = vec![
            layer("user", "socket", 200),
            layer("sleep", "scheduler", 0),
            layer("tcp-input", "tcp", 2_000),
            layer("ip-input", "ip", 700),
        ];
        let others = vec![UncoveredCount {
            function: "rcu_do_batch".to_owned(),
            count: count(100 * scale),
        }];
        let mut total = InstructionCount::default();
        for row in &layers {
            total += row.count;
        }
        total += count(100 * scale);
        RegionCounts {
            workload,
            size,
            times: 10,
            clock: total.steps(),
            clock_alone: Some(total.steps()),
            total,
            layers,
            others,
            operations: match workload {
                Workload::RequestResponse => Vec::new(),
                Workload::OneWay => vec![Operation {
                    id: "tcp-input-receiver".to_owned(),
                    times: 10,
                    count: count(11_730),
                    counted: "from here to there".to_owned(),
                }],
            },
        }
    }

    pub(in super::super) fn sample() -> Counts {
        let facts = [
            ("kernel", "6.1.0-56-amd64"),
            ("clocksource", "tsc"),
            ("congestion", "cubic"),
            ("mitigation/meltdown", "Not affected"),
            ("mitigation/spectre_v2", "Mitigation: Retpolines"),
        ];
        Counts {
            schema: Schema::QemuCounts,
            version: VERSION,
            package: "linux-image-6.1.0-56-amd64 6.1.192-2".to_owned(),
            qemu: "QEMU emulator version 7.2.22".to_owned(),
            facts: facts
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            repetitions: 2,
            regions: vec![
                region(Workload::OneWay, 1_400, 12),
                region(Workload::RequestResponse, 1_400, 11),
                region(Workload::RequestResponse, 4, 10),
            ],
        }
    }

    fn lines(table: &Table) -> String {
        let cell = |cell: &Cell| match (cell.number(), cell) {
            (Some(number), _) => number.to_string(),
            (None, Cell::NotAvailable { reason }) => format!("n/a: {reason}"),
            (None, _) => "-".to_owned(),
        };
        let head: Vec<&str> = table
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        let mut text = format!("{}\n{}\n", table.title, head.join(" | "));
        for row in &table.rows {
            let cells: Vec<String> = row.cells.iter().map(cell).collect();
            text += &format!(
                "{} [{:?}, {:?}]: {}",
                row.label,
                row.kind,
                row.layer,
                cells.join(" | ")
            );
            text += &row
                .note
                .as_ref()
                .map_or(String::new(), |note| format!(" ({note})"));
            text.push('\n');
        }
        text
    }

    #[test]
    fn the_layers_of_a_kernel() {
        insta::assert_snapshot!(lines(&table(&sample())));
    }

    #[test]
    fn every_row_is_in_the_total() {
        let table = table(&sample());
        for at in 0..table.columns.len() {
            let number = |row: &Row| row.cells[at].number().unwrap();
            let parts = table
                .rows
                .iter()
                .filter(|row| matches!(row.kind, RowKind::Processing | RowKind::Unattributed));
            let total = table.rows.iter().find(|row| row.label == "Total").unwrap();
            assert!((parts.map(number).sum::<f64>() - number(total)).abs() < 1e-6);
        }
    }

    #[test]
    fn the_finding_tells_the_largest_layers_of_the_size_nearest_to_200_bytes() {
        let told = |counts: &Counts| {
            let mut finding = Finding::default();
            say(counts, &mut finding);
            finding.finish()
        };
        assert_eq!(
            told(&sample()),
            "A 4-byte round trip in Linux 6.1.0-56-amd64 takes 3,000 instructions, 67 % in TCP with its buffers and timers, 23 % \
             in IP and 7 % in sockets, system calls and copies."
        );
        let mut counts = sample();
        counts.regions.clear();
        assert_eq!(told(&counts), "Nothing was measured.");
        assert!(
            matches!(figure(&counts, "make qemu"), Figure::StackedBars { bars, .. } if bars.is_empty())
        );
    }

    #[test]
    fn what_does_not_hold_is_told() {
        assert!(trust(&sample()).iter().all(|line| line.holds));
        let broken = |change: &dyn Fn(&mut Counts)| -> Vec<TrustKind> {
            let mut counts = sample();
            change(&mut counts);
            let lines = trust(&counts);
            lines
                .iter()
                .filter(|line| !line.holds)
                .map(|line| line.kind)
                .collect()
        };
        assert_eq!(
            broken(&|counts| counts.regions[1].clock += 1),
            [TrustKind::Closure, TrustKind::Perturbation]
        );
        assert_eq!(
            broken(&|counts| counts.regions[0].clock_alone = Some(1)),
            [TrustKind::Perturbation]
        );
        assert_eq!(broken(&|counts| counts.repetitions = 1), [TrustKind::Note]);
        assert_eq!(
            broken(&|counts| counts.regions[2].others[0].count = count(5_000)),
            [TrustKind::Residual]
        );
    }

    #[test]
    fn no_fact_is_needed() {
        let mut counts = sample();
        counts.facts = BTreeMap::new();
        assert_eq!(name(&counts), "linux-image-6.1.0-56-amd64 6.1.192-2");
        assert!(
            trust(&counts)
                .last()
                .unwrap()
                .text
                .contains("congestion control unknown")
        );
    }
}

//! Published numbers that no experiment shows in one row with ours, and where in a run their counterparts stand.
//!
//! Most of them stand in a paper's running text, since its figures are plots. Each is one line of [`ALL`].

use tollgate_papers as papers;
use tollgate_run::{Cell, Experiment, Measured, Row, Run, Table, Unit, present};

/// A published number and how its counterpart is read from a run.
pub(super) struct Published {
    /// The published table that it stands in, or the paper when it stands in its text.
    pub(super) of: &'static str,
    /// The label of the row.
    pub(super) label: &'static str,
    pub(super) unit: Unit,
    /// The source of the number.
    published: Source,
    /// Its counterpart, or why this run has none.
    measured: fn(&Run) -> MeasuredOrReason,
    /// Tells whether it is a saving, which is below zero where it costs.
    is_saving: bool,
}

/// A counterpart, or why a run has none.
pub(super) type MeasuredOrReason = Result<Measured, String>;

/// Source of a published number, with the rule that makes it one of the unit.
#[derive(PartialEq)]
enum Source {
    Fact(&'static str, f64),
    Cell(&'static str, &'static str, &'static str, f64),
    /// The quotient of two facts.
    Quotient(&'static str, &'static str, f64),
    /// The sum of a column's cells in one row of several tables.
    Sum(&'static [&'static str], &'static str, &'static str),
}

/// A number of a paper's text that an experiment shows, but beside another quantity.
pub(super) struct Unlike {
    /// Its id.
    pub(super) fact: &'static str,
    /// The label of the row.
    pub(super) label: &'static str,
    /// The difference between the quantities.
    pub(super) why: &'static str,
}

impl Unlike {
    /// The paper in whose text it stands.
    pub(super) fn of(&self) -> &'static str {
        self.fact.split('/').next().unwrap_or(self.fact)
    }
}

impl Published {
    /// The published number with its source; none when it is not published after all, which a test rules out.
    pub(super) fn published(&self) -> Option<(f64, Cell)> {
        let fact = |id: &str| papers::fact(id);
        let (value, place) = match self.published {
            Source::Fact(id, factor) => (factor * fact(id)?.value, place_of(id)?),
            Source::Cell(table, row, column, factor) => {
                let found = papers::table(table)?;
                (factor * found.cell(row, column)?, found.place.clone())
            }
            Source::Quotient(above, below, factor) => (
                factor * fact(above)?.value / fact(below)?.value,
                place_of(above)?,
            ),
            Source::Sum(tables, row, column) => {
                let cell = |id: &&str| papers::table(id)?.cell(row, column);
                let sum = tables.iter().map(cell).sum::<Option<f64>>()?;
                (sum, papers::table(tables.first()?)?.place.clone())
            }
        };
        let paper = papers::paper(self.of.split('/').next()?)?;
        let source = papers::source_at(paper, &place);
        Some((value, present::published_cell(Some(value), &source)))
    }

    /// Tells whether its counterpart can have this value.
    pub(super) fn may_be(&self, value: f64) -> bool {
        match self.is_saving {
            true => super::is_saving(self.unit, value),
            false => super::is_possible(self.unit, value),
        }
    }

    /// Tells whether both are of the same published number.
    pub(super) fn is_of_the_same(&self, other: &Self) -> bool {
        self.published == other.published
    }

    /// Tells whether the number stands in this row of a table.
    fn stands_in(&self, table: &str, row: &str) -> bool {
        match self.published {
            Source::Cell(of, one, ..) => of == table && one == row,
            Source::Sum(tables, one, _) => tables.contains(&table) && one == row,
            Source::Fact(..) | Source::Quotient(..) => false,
        }
    }

    /// The ids of the published tables and facts that it is made of.
    #[cfg(test)]
    pub(super) fn ids(&self) -> Vec<&'static str> {
        match self.published {
            Source::Fact(id, _) | Source::Cell(id, ..) => vec![id],
            Source::Quotient(above, below, _) => vec![above, below],
            Source::Sum(tables, ..) => tables.to_vec(),
        }
    }

    /// Its counterpart in the run, or why there is none.
    pub(super) fn measured(&self, run: &Run) -> MeasuredOrReason {
        (self.measured)(run)
    }
}

/// Tells whether a run has the counterpart of a row of a published table.
pub(super) fn has(table: &str, row: &str) -> bool {
    ALL.iter().any(|number| number.stands_in(table, row))
}

fn place_of(fact: &str) -> Option<String> {
    let fact = papers::fact(fact)?;
    Some(match fact.page {
        Some(page) => format!("{}, p. {page}", fact.place),
        None => format!("section {}", fact.place),
    })
}

/// Rule that selects a row of a table.
enum RowSelector {
    Named(&'static str),
    Ending(&'static str),
    With(&'static str),
}

impl RowSelector {
    fn find<'a>(&self, rows: &'a [Row]) -> Option<&'a Row> {
        match self {
            Self::Named(label) => rows.iter().find(|row| row.label == *label),
            Self::Ending(end) => rows.iter().find(|row| row.label.ends_with(end)),
            Self::With(part) => rows.iter().find(|row| row.label.contains(part)),
        }
    }
}

fn experiment<'a>(run: &'a Run, name: &str) -> Result<&'a Experiment, String> {
    let found = run.experiments.iter().find(|one| one.name == name);
    found.ok_or_else(|| {
        format!("the run holds no {name}; `tollgate experiment run {name}` measures it")
    })
}

/// The first table of an experiment whose id begins so.
fn table<'a>(run: &'a Run, name: &str, id: &str) -> Result<&'a Table, String> {
    let experiment = experiment(run, name)?;
    let found = experiment.tables.iter().find(|one| one.id.starts_with(id));
    found.ok_or_else(|| {
        format!(
            "{name} shows no such table in this run: {}",
            experiment.finding
        )
    })
}

/// The number in the row, in the column of this name, or in the last that has one when no column is named.
fn number(table: &Table, selector: &RowSelector, name: Option<&str>) -> MeasuredOrReason {
    let row = selector
        .find(&table.rows)
        .ok_or_else(|| format!("the table {:?} has no such row in this run", table.title))?;
    let cells = || table.columns.iter().zip(&row.cells);
    let cell = match name {
        Some(name) => cells().find(|(column, _)| column.name == name),
        None => cells().rfind(|(_, cell)| cell.measured().is_some()),
    };
    match cell.map(|(_, cell)| cell) {
        Some(Cell::Value(measured)) => Ok(measured.clone()),
        Some(Cell::NotAvailable { reason }) => Err(reason.clone()),
        Some(Cell::Text { text }) => Err(text.clone()),
        Some(Cell::Published { .. }) | None => Err(format!(
            "the table {:?} has no such number in this run",
            table.title
        )),
    }
}

fn read(
    run: &Run,
    name: &str,
    id: &str,
    selector: &RowSelector,
    column: Option<&str>,
) -> MeasuredOrReason {
    number(table(run, name, id)?, selector, column)
}

/// `a` for each `b`: with the interval of `a`, since what compares the two is not in the run.
fn quotient(a: &Measured, b: &Measured, factor: f64) -> MeasuredOrReason {
    if b.value <= 0.0 {
        return Err("what it is held against is not above zero in this run".to_owned());
    }
    Ok(a.times(factor / b.value))
}

/// A share of the category in the time of a TCP message of the largest size.
fn category_share(run: &Run, category: &str, selector: &RowSelector) -> MeasuredOrReason {
    let table = table(run, "kay-breakdown", "time-tcp")?;
    let part = number(table, selector, Some(category))?;
    quotient(&part, &number(table, selector, Some("Total"))?, 100.0)
}

fn touching(run: &Run, id: &str, selector: &RowSelector) -> MeasuredOrReason {
    read(run, "kay-breakdown", id, selector, Some("Touching data"))
}

fn hz(run: &Run, row: &'static str, column: &str) -> MeasuredOrReason {
    read(
        run,
        "foong-hz",
        "hz",
        &RowSelector::Named(row),
        Some(column),
    )
}

/// Work for a packet in a direction, as cycles of the clock: the least over the sizes, as the paper has it.
fn packet_cycles(run: &Run, row: &'static str) -> MeasuredOrReason {
    let table = table(run, "lehmann-processing", "work-")?;
    let found = RowSelector::Named(row).find(&table.rows);
    let found = found.ok_or_else(|| format!("the table {:?} has no such row", table.title))?;
    let least = found
        .cells
        .iter()
        .filter_map(Cell::measured)
        .min_by(|a, b| a.value.total_cmp(&b.value));
    let ns = least.ok_or("every size lacks a part of it")?;
    Ok(ns.times(run.clock.hz / 1e9))
}

/// The experiments that they stand in.
pub(super) const EXPERIMENTS: [&str; 12] = [
    "foong-csumcopy",
    "foong-hz",
    "foong-offload",
    "foong-profile",
    "kay-breakdown",
    "lehmann-budget",
    "lehmann-processing",
    "lehmann-queues",
    "wolman-checksum",
    "wolman-mbuf",
    "wolman-pcb",
    "wolman-prediction",
];

/// A column of the copies and sums of 1 KB, as `wolman-checksum` measures them where that size is asked for.
fn of_a_kilobyte(run: &Run, row: &'static str) -> MeasuredOrReason {
    let times = table(run, "wolman-checksum", "times")?;
    number(times, &RowSelector::Named(row), Some("1,024 B")).map_err(|_| {
        "the run's wolman-checksum has no such size; `tollgate experiment run wolman-checksum --size 1024` measures it".to_owned()
    })
}

/// Segments of round trips that prediction took, in hundredths, by the size of a message and the kind of prediction.
fn predicted(run: &Run, size: &'static str, kind: &str) -> MeasuredOrReason {
    let row = RowSelector::Named(size);
    read(run, "wolman-prediction", "predicted", &row, Some(kind))
}

/// Nanoseconds of a microsecond.
const NANOSECONDS: f64 = 1_000.0;
/// Cycles of a microsecond on the machine that was measured (Lehmann and Benz 2002, section 3.1).
const MHZ_800: f64 = 800.0;

/// The tables of traffic to memory, one for each end.
const MEMORY: [&str; 2] = ["foong-2003/memory-transmit", "foong-2003/memory-receive"];

/// Numbers of the papers' texts that experiments show beside other quantities.
pub(super) const UNLIKE: &[Unlike] = &[
    Unlike {
        fact: "wolman-1994/checksum-errors-wide",
        label: "CRC errors for each error that the checksum found, wide-area traffic",
        why: "it tells the errors of networks in use; wolman-errors makes its own",
    },
    Unlike {
        fact: "wolman-1994/checksum-errors-local",
        label: "errors that the checksum found, local traffic",
        why: "it tells the errors of networks in use; wolman-errors makes its own",
    },
    Unlike {
        fact: "foong-2003/small-transfer-most",
        label: "Hz per bit/s, small transfers, at most",
        why: "it is the upper end of a range, whose lower end is compared",
    },
    Unlike {
        fact: "foong-2003/frequency-scaling",
        label: "performance for the frequency",
        why: "a run is of one frequency; `tollgate papers --from A.json,B.json` compares two",
    },
    Unlike {
        fact: "foong-2003/protocol-transmit-most",
        label: "protocol, sending, at most",
        why: "it is the upper end of a range, whose lower end is compared",
    },
    Unlike {
        fact: "foong-2003/sockets-small-most",
        label: "sockets interface and library, small transfers, at most",
        why: "samples are of the kernel, without the library's part",
    },
    Unlike {
        fact: "foong-2003/driver-least",
        label: "driver, at least",
        why: "the group of today holds interrupts, too, and loopback has no adapter",
    },
    Unlike {
        fact: "foong-2003/driver-most",
        label: "driver, at most",
        why: "the group of today holds interrupts, too, and loopback has no adapter",
    },
];

/// All numbers that have a counterpart.
pub(super) const ALL: &[Published] = &[
    Published {
        of: "kay-pasquale-1996",
        label: "touching data, message of 1 byte, TCP",
        unit: Unit::Percent,
        published: Source::Fact("kay-pasquale-1996/data-touching-1-byte", 1.0),
        measured: |run| touching(run, "time-tcp", &RowSelector::Named("1 B")),
        is_saving: false,
    },
    Published {
        of: "kay-pasquale-1996",
        label: "touching data, message of 8 KB, TCP",
        unit: Unit::Percent,
        published: Source::Fact("kay-pasquale-1996/data-touching-large", 1.0),
        measured: |run| touching(run, "time-tcp", &RowSelector::Named("8,192 B")),
        is_saving: false,
    },
    Published {
        of: "kay-pasquale-1996",
        label: "checksum alone, message of 8 KB, TCP (then at most)",
        unit: Unit::Percent,
        published: Source::Fact("kay-pasquale-1996/checksum-large", 1.0),
        measured: |run| category_share(run, "Checksum", &RowSelector::Named("8,192 B")),
        is_saving: false,
    },
    Published {
        of: "wolman-1994",
        label: "search of a list of 20 PCBs (now beyond a hit of the cache)",
        unit: Unit::Nanoseconds,
        published: Source::Fact("wolman-1994/pcb-search-20", NANOSECONDS),
        measured: |run| {
            let row = RowSelector::Named("20 connections");
            read(run, "wolman-pcb", "lookups", &row, Some("list"))
        },
        is_saving: false,
    },
    Published {
        of: "wolman-1994",
        label: "search of a list of 1,000 PCBs (now beyond a hit of the cache)",
        unit: Unit::Nanoseconds,
        published: Source::Fact("wolman-1994/pcb-search-1000", NANOSECONDS),
        measured: |run| {
            let row = RowSelector::Named("1,000 connections");
            read(run, "wolman-pcb", "lookups", &row, Some("list"))
        },
        is_saving: false,
    },
    Published {
        of: "wolman-1994",
        label: "each PCB more in that list (then at most)",
        unit: Unit::Nanoseconds,
        published: Source::Fact("wolman-1994/pcb-search-per-entry", NANOSECONDS),
        measured: |run| {
            let row = RowSelector::Named("From 20 to 1,000 connections");
            read(run, "wolman-pcb", "per-connection", &row, Some("list"))
        },
        is_saving: false,
    },
    Published {
        of: "wolman-1994",
        label: "an mbuf, allocated and freed",
        unit: Unit::Nanoseconds,
        published: Source::Fact("wolman-1994/mbuf-allocate-free", NANOSECONDS),
        measured: |run| {
            let row = RowSelector::Named("4 B");
            read(run, "wolman-mbuf", "allocation", &row, Some("one mbuf"))
        },
        is_saving: false,
    },
    Published {
        of: "wolman-1994",
        label: "segments predicted by the rule of 4.4BSD, round trips of 4 bytes",
        unit: Unit::Percent,
        published: Source::Fact("wolman-1994/prediction-hits-below-8000", 1.0),
        measured: |run| predicted(run, "4 B", "unidirectional"),
        is_saving: false,
    },
    Published {
        of: "wolman-1994",
        label: "segments predicted in both directions (then by the rule of 4.4BSD), round trips of 4 bytes",
        unit: Unit::Percent,
        published: Source::Fact("wolman-1994/prediction-hits-below-8000", 1.0),
        measured: |run| predicted(run, "4 B", "bidirectional"),
        is_saving: false,
    },
    Published {
        of: "wolman-1994",
        label: "segments predicted by the rule of 4.4BSD, round trips of 8,000 bytes",
        unit: Unit::Percent,
        published: Source::Fact("wolman-1994/prediction-hits-8000", 1.0),
        measured: |run| predicted(run, "8,000 B", "unidirectional"),
        is_saving: false,
    },
    Published {
        of: "wolman-1994",
        label: "segments predicted in both directions (then by the rule of 4.4BSD), round trips of 8,000 bytes",
        unit: Unit::Percent,
        published: Source::Fact("wolman-1994/prediction-hits-8000", 1.0),
        measured: |run| predicted(run, "8,000 B", "bidirectional"),
        is_saving: false,
    },
    Published {
        of: "wolman-1994/copy-and-checksum-1kb",
        label: "checksum of 1 KB, unrolled loop",
        unit: Unit::Nanoseconds,
        published: Source::Cell(
            "wolman-1994/copy-and-checksum-1kb",
            "decstation",
            "checksum",
            NANOSECONDS,
        ),
        measured: |run| of_a_kilobyte(run, "Sum, unrolled"),
        is_saving: false,
    },
    Published {
        of: "wolman-1994/copy-and-checksum-1kb",
        label: "copy of 1 KB",
        unit: Unit::Nanoseconds,
        published: Source::Cell(
            "wolman-1994/copy-and-checksum-1kb",
            "decstation",
            "copy",
            NANOSECONDS,
        ),
        measured: |run| of_a_kilobyte(run, "Copy"),
        is_saving: false,
    },
    Published {
        of: "wolman-1994/copy-and-checksum-1kb",
        label: "copy and checksum of 1 KB in one pass, unrolled loop",
        unit: Unit::Nanoseconds,
        published: Source::Cell(
            "wolman-1994/copy-and-checksum-1kb",
            "decstation",
            "integrated",
            NANOSECONDS,
        ),
        measured: |run| of_a_kilobyte(run, "One pass, unrolled"),
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "Hz per bit/s, sending 64 KB at a time (rule of thumb)",
        unit: Unit::None,
        published: Source::Fact("foong-2003/rule-of-thumb", 1.0),
        measured: |run| hz(run, "65,536 B", "Transmit"),
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "Hz per bit/s, receiving 64 KB at a time (rule of thumb)",
        unit: Unit::None,
        published: Source::Fact("foong-2003/rule-of-thumb", 1.0),
        measured: |run| hz(run, "65,536 B", "Receive"),
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "Hz per bit/s, sending 64 bytes at a time (then small transfers, at least)",
        unit: Unit::None,
        published: Source::Fact("foong-2003/small-transfer-least", 1.0),
        measured: |run| hz(run, "64 B", "Transmit"),
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "Hz per bit/s, receiving 64 bytes at a time (then small transfers, at least)",
        unit: Unit::None,
        published: Source::Fact("foong-2003/small-transfer-least", 1.0),
        measured: |run| hz(run, "64 B", "Receive"),
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "touching data, large transfers, receiving (then at least)",
        unit: Unit::Percent,
        published: Source::Fact("foong-2003/data-touching-large", 1.0),
        measured: |run| {
            let row = RowSelector::Named("Data touching");
            read(run, "foong-profile", "receive", &row, Some("65,536 B"))
        },
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "touching data, receiving 64 bytes",
        unit: Unit::Percent,
        published: Source::Fact("foong-2003/data-touching-64-receive", 1.0),
        measured: |run| {
            read(
                run,
                "foong-profile",
                "receive",
                &RowSelector::Named("Data touching"),
                Some("64 B"),
            )
        },
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "protocol, receiving",
        unit: Unit::Percent,
        published: Source::Fact("foong-2003/protocol-receive", 1.0),
        measured: |run| {
            read(
                run,
                "foong-profile",
                "receive",
                &RowSelector::Named("Protocol"),
                Some("65,536 B"),
            )
        },
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "protocol, sending (then at least)",
        unit: Unit::Percent,
        published: Source::Fact("foong-2003/protocol-transmit-least", 1.0),
        measured: |run| {
            read(
                run,
                "foong-profile",
                "transmit",
                &RowSelector::Named("Protocol"),
                Some("65,536 B"),
            )
        },
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "the copy in a copy with checksum, 64 KiB",
        unit: Unit::Percent,
        published: Source::Fact("foong-2003/copy-share-of-csum-copy", 1.0),
        measured: |run| {
            let row = RowSelector::Named("65,536 B");
            read(run, "foong-csumcopy", "copy-share", &row, Some("one pass"))
        },
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "saved by checksum offload, receiving 64 KiB at a time, kernel-veth",
        unit: Unit::Percent,
        published: Source::Fact("foong-2003/checksum-offload-gain", 1.0),
        measured: |run| {
            let row = RowSelector::Named("65,536 B");
            read(
                run,
                "foong-offload",
                "receive",
                &row,
                Some("saved by checksum"),
            )
        },
        is_saving: true,
    },
    Published {
        of: "foong-2003",
        label: "saved without checksums, receiving 64 KiB at a time, Tollgate's stack",
        unit: Unit::Percent,
        published: Source::Fact("foong-2003/checksum-offload-gain", 1.0),
        measured: |run| {
            let row = RowSelector::Named("65,536 B");
            read(
                run,
                "foong-offload",
                "receive-stack",
                &row,
                Some("Receive, saved"),
            )
        },
        is_saving: true,
    },
    Published {
        of: "foong-2003",
        label: "bytes on the memory bus for each byte, both ends, within the cache (then with a device's)",
        unit: Unit::Ratio,
        published: Source::Sum(&MEMORY, "total", "in-cache-measured"),
        measured: |run| {
            let row = RowSelector::Named("Both ends, today");
            read(
                run,
                "foong-hz",
                "memory-traffic",
                &row,
                Some("Within the last cache"),
            )
        },
        is_saving: false,
    },
    Published {
        of: "foong-2003",
        label: "bytes on the memory bus for each byte, both ends, beyond the cache (then with a device's)",
        unit: Unit::Ratio,
        published: Source::Sum(&MEMORY, "total", "beyond-cache-measured"),
        measured: |run| {
            let row = RowSelector::Named("Both ends, today");
            read(run, "foong-hz", "memory-traffic", &row, Some("Beyond it"))
        },
        is_saving: false,
    },
    Published {
        of: "lehmann-benz-2002/processing",
        label: "work for a packet, receiving, in cycles (then at least)",
        unit: Unit::Cycles,
        published: Source::Cell("lehmann-benz-2002/processing", "receive", "least", MHZ_800),
        measured: |run| packet_cycles(run, "receive: all layers"),
        is_saving: false,
    },
    Published {
        of: "lehmann-benz-2002/processing",
        label: "work for a packet, sending, in cycles (then at least)",
        unit: Unit::Cycles,
        published: Source::Cell("lehmann-benz-2002/processing", "send", "least", MHZ_800),
        measured: |run| packet_cycles(run, "send: all layers"),
        is_saving: false,
    },
    Published {
        of: "lehmann-benz-2002/queueing",
        label: "wait in the IP queue, response of 8 KB",
        unit: Unit::Nanoseconds,
        published: Source::Cell("lehmann-benz-2002/queueing", "ip-queue", "delay", 1_000.0),
        measured: |run| {
            let row = RowSelector::With("(IP queue)");
            read(run, "lehmann-queues", "wait-", &row, Some("8,192 B"))
        },
        is_saving: false,
    },
    Published {
        of: "lehmann-benz-2002",
        label: "of a gigabit's budget, receiving (then at least)",
        unit: Unit::Percent,
        published: Source::Quotient(
            "lehmann-benz-2002/receive-processing-least",
            "lehmann-benz-2002/gigabit-budget",
            100.0,
        ),
        measured: |run| {
            let row = RowSelector::Ending(", receive");
            read(run, "lehmann-budget", "budget", &row, Some("Of the budget"))
        },
        is_saving: false,
    },
    Published {
        of: "lehmann-benz-2002",
        label: "of a gigabit's budget, sending (then at least)",
        unit: Unit::Percent,
        published: Source::Quotient(
            "lehmann-benz-2002/send-processing-least",
            "lehmann-benz-2002/gigabit-budget",
            100.0,
        ),
        measured: |run| {
            let row = RowSelector::Ending(", send");
            read(run, "lehmann-budget", "budget", &row, Some("Of the budget"))
        },
        is_saving: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_published_under_its_paper() {
        for row in ALL {
            let (value, cell) = row.published().unwrap_or_else(|| panic!("{}", row.label));
            assert!(value >= 0.0, "{}", row.label);
            assert_eq!(cell.number(), Some(value));
        }
    }
}

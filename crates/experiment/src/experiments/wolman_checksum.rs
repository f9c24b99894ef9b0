//! `wolman-checksum`: copies and checksums at user level by size, beside Wolman, Voelker and Thekkath 1994, Table 5.
//!
//! The loops are those of `tollgate-checksum`: ULTRIX's over halfwords, one over unrolled 64-bit words, and the processor's fastest.
//! Two passes are timed together, as a copy and then a sum over it.

use std::hint::black_box;

use tollgate_checksum::Kernel;
use tollgate_papers as papers;
use tollgate_run::{Cell, Column, Figure, Source, Table, Unit, format, present};

use super::{Content, Experiment, Reported};
use crate::claim::{Finding, FindingText};
use crate::context::{Context, Options, SIZES};
use crate::error::Error;
use crate::turns::{self, Operation, Repeat, Rounds};

const TABLE: &str = "wolman-1994/table-5";
const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;

/// Timed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// A sum alone.
    Sum,
    /// A copy with what the loop sums of it.
    Copy,
}

/// A loop; it is asked for in each round.
pub(super) type Loop = fn() -> Kernel;

/// Timed line: its name, the published column beside it, and the loop.
struct Line {
    label: &'static str,
    published: Option<&'static str>,
    work: Work,
    kernel: Loop,
}

const fn line(
    label: &'static str,
    published: Option<&'static str>,
    work: Work,
    kernel: Loop,
) -> Line {
    Line {
        label,
        published,
        work,
        kernel,
    }
}

const LINES: [Line; 9] = [
    line(
        "Sum by halfwords",
        Some("ultrix-checksum"),
        Work::Sum,
        || Kernel::HALFWORD,
    ),
    line("Copy", Some("ultrix-bcopy"), Work::Copy, || {
        Kernel::COPY_ONLY
    }),
    line(
        "Copy, then sum by halfwords",
        Some("ultrix-total"),
        Work::Copy,
        || Kernel::HALFWORD.separate(),
    ),
    line(
        "Sum, unrolled",
        Some("optimized-checksum"),
        Work::Sum,
        || Kernel::UNROLLED,
    ),
    line("One pass, unrolled", Some("integrated"), Work::Copy, || {
        Kernel::UNROLLED
    }),
    line("Copy, then sum, unrolled", None, Work::Copy, || {
        Kernel::UNROLLED.separate()
    }),
    line("Sum, fastest", None, Work::Sum, Kernel::best),
    line("One pass, fastest", None, Work::Copy, Kernel::best),
    line("Copy, then sum, fastest", None, Work::Copy, || {
        Kernel::best().separate()
    }),
];
/// One pass and two of each loop: the names of the columns, and the places of their lines.
const PAIRS: [(&str, usize, usize); 2] = [("unrolled", 4, 5), ("fastest", 7, 8)];
const FASTEST: usize = 1;

/// Copies and checksums alone.
pub(super) struct WolmanChecksum;

impl Experiment for WolmanChecksum {
    fn name(&self) -> &'static str {
        "wolman-checksum"
    }

    fn title(&self) -> &'static str {
        "Copy and checksum at user level"
    }

    fn paper(&self) -> Option<Source> {
        papers::source(TABLE)
    }

    fn summary(&self) -> &'static str {
        "sums, copies, and both in one pass and in two, by size: ULTRIX's halfword loop, an unrolled one, the fastest"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        1
    }

    fn concerns(&self, _: &Options) -> bool {
        true
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let operations: Vec<Operation<'_>> = LINES
            .iter()
            .flat_map(|line| {
                sizes
                    .iter()
                    .map(|&size| operation(line.label, (line.work, line.kernel), size))
            })
            .collect();
        let taken = turns::measure(&operations, context)?;
        let view = View {
            sizes: &sizes,
            taken: taken.chunks(sizes.len().max(1)).collect(),
        };
        let mut tables = vec![view.savings(), view.times()];
        tables.extend(view.published());
        Ok(Content {
            finding: view.finding(),
            tables,
            figures: vec![view.figure(command)],
            trust: vec![
                present::note(format!(
                    "the fastest loop of this processor is {}; source and copy lie in its caches",
                    Kernel::best().name()
                )),
                present::note(
                    "loops and sizes take turns in rounds, each with memory of its own; a round is the median of its five parts, the value that of the rounds, with the \
                     error of a median",
                ),
                present::note(
                    "the paper's saving is of the unrolled sum and the copy timed apart; here two passes are timed together, over the same \
                     bytes",
                ),
            ],
        })
    }
}

/// A loop over a block of its own.
pub(super) fn operation(
    label: &str,
    (work, kernel): (Work, Loop),
    size: usize,
) -> Operation<'static> {
    Operation {
        label: format!("{label}, {}", format::size(size)),
        make: Box::new(move || {
            let kernel = kernel();
            let source: Vec<u8> = (0..size).map(|at| (at * 7) as u8).collect();
            let mut copy = vec![0u8; size];
            let repeat: Repeat<'static> = match work {
                Work::Sum => Box::new(move |count| {
                    for _ in 0..count {
                        let _ = black_box(kernel.sum(black_box(&source)));
                    }
                }),
                Work::Copy => Box::new(move |count| {
                    for _ in 0..count {
                        let sum = kernel.copy_and_sum(&mut copy, black_box(&source));
                        let _ = black_box(sum);
                        black_box(&mut copy);
                    }
                }),
            };
            Ok(repeat)
        }),
    }
}

fn published_ns(size: usize, column: &str) -> Option<f64> {
    let us = papers::table(TABLE)?.cell(&size.to_string(), column)?;
    Some(us * NANOSECONDS_PER_MICROSECOND)
}

/// Measurements, by line and then by size.
struct View<'a> {
    sizes: &'a [usize],
    taken: Vec<&'a [Rounds]>,
}

impl View<'_> {
    fn times(&self) -> Table {
        let rows = LINES.iter().zip(&self.taken).map(|(line, sizes)| {
            let cells = sizes.iter().map(Rounds::cell);
            present::plain_row(line.label, cells.collect())
        });
        Table {
            id: "times".to_owned(),
            title: "Time of each".to_owned(),
            columns: present::size_columns(self.sizes, Unit::Nanoseconds),
            rows: rows.collect(),
        }
    }

    fn savings(&self) -> Table {
        let column = |name: &str| Column {
            name: name.to_owned(),
            unit: Unit::Percent,
        };
        let names = PAIRS.iter().map(|(name, ..)| column(name));
        let rows = self.sizes.iter().enumerate().map(|(at, &size)| {
            let published = papers::source(TABLE).map_or(Cell::text("-"), |source| {
                let table = papers::table(TABLE);
                let saving = table.and_then(|table| table.cell(&size.to_string(), "saving"));
                present::published_cell(saving, &source)
            });
            let ours = PAIRS
                .iter()
                .map(|&(_, one, two)| self.taken[one][at].saved_of(&self.taken[two][at]).cell());
            let cells = std::iter::once(published).chain(ours);
            present::plain_row(format::size(size), cells.collect())
        });
        Table {
            id: "savings".to_owned(),
            title: "What copy and checksum in one pass save of two".to_owned(),
            columns: std::iter::once(column("1994")).chain(names).collect(),
            rows: rows.collect(),
        }
    }

    fn published(&self) -> Option<Table> {
        let source = papers::source(TABLE)?;
        let known = |&size: &usize| published_ns(size, "integrated").is_some();
        self.sizes.iter().any(known).then(|| Table {
            id: "published".to_owned(),
            title: "The same in 1994, DECstation 5000/200".to_owned(),
            columns: present::size_columns(self.sizes, Unit::Nanoseconds),
            rows: LINES
                .iter()
                .filter_map(|line| {
                    let column = line.published?;
                    let cells = self
                        .sizes
                        .iter()
                        .map(|&size| present::published_cell(published_ns(size, column), &source));
                    Some(present::plain_row(line.label, cells.collect()))
                })
                .collect(),
        })
    }

    fn figure(&self, command: &str) -> Figure {
        let lines = LINES.iter().zip(&self.taken);
        let series = lines
            .filter_map(|(line, sizes)| {
                turns::line(line.label, self.sizes, sizes.iter().map(Rounds::cell))
            })
            .collect();
        turns::figure(
            "Copies and checksums by size",
            ("Bytes", Unit::Bytes),
            ("Time", Unit::Nanoseconds),
            series,
            command,
        )
    }

    /// Says what one pass of the fastest loop saves at the last size.
    fn finding(&self) -> FindingText {
        let mut finding = Finding::default();
        let (_, one, two) = PAIRS[FASTEST];
        if let Some((at, &size)) = self.sizes.iter().enumerate().next_back() {
            let ratio = self.taken[one][at].ratio(&self.taken[two][at]);
            if let Some(ratio) = finding.claim("one pass against two", ratio) {
                let takes = match ratio.amount_against() {
                    None => "as long as".to_owned(),
                    Some(amount) => format!("{amount} time than"),
                };
                let table = papers::table(TABLE);
                let then = table.and_then(|table| table.cell(&size.to_string(), "saving"));
                let then = then.map_or_else(String::new, |then| {
                    format!(" (1994: {} % less)", format::significant(then))
                });
                finding.say(format!(
                    "copying and summing {} in one pass takes {takes} a copy and then a sum{then}",
                    format::bytes(size)
                ));
            }
        }
        finding.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    fn shown(sizes: Vec<usize>) -> Content {
        let options = Options {
            sizes: Some(sizes),
            iterations: Some(500),
            // Six rounds have an interval that one slow round does not make a hundred times as wide.
            repetitions: Some(3),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        WolmanChecksum.measure(&mut context, "command").unwrap()
    }

    #[test]
    fn every_loop_has_a_time_and_the_papers_stand_beside() {
        let content = shown(vec![4, 8_000]);
        let [savings, times, published] = &content.tables[..] else {
            panic!("three tables");
        };
        assert_eq!(times.rows.len(), LINES.len());
        let cells = times.rows.iter().flat_map(|row| &row.cells);
        assert!(cells.clone().count() == 18);
        assert!(cells.into_iter().all(|cell| cell.number().unwrap() > 0.0));
        assert_eq!(savings.rows[1].cells[0].number(), Some(40.0));
        assert_eq!(published.rows[2].cells[1].number(), Some(2_303_000.0));
        assert!(
            content.finding.contains("8,000 bytes"),
            "{}",
            content.finding
        );
    }

    #[test]
    fn sizes_of_nobody_have_no_published_table() {
        let content = shown(vec![64]);
        assert_eq!(content.tables.len(), 2);
        assert_eq!(content.tables[0].rows[0].cells[0].number(), None);
    }
}

//! `foong-csumcopy`: a copy with its checksum against the copy alone, by size and across the processor's caches; after Foong et al.
//! 2003, Fig. 16.
//!
//! The figure is a plot; the text says that the copy is about 90 % of the routine. Here that is the quotient of two loops that took
//! turns, since instructions of one loop have no times of their own.

use std::path::Path;

use tollgate_checksum::Kernel;
use tollgate_papers as papers;
use tollgate_run::{Cell, Column, Figure, Source, Table, Unit, format, present};
use tollgate_sampling::last_level_cache;

use super::foong_hz::source;
use super::wolman_checksum::{Loop, Work, operation};
use super::{Content, Experiment, Reported};
use crate::claim::{Finding, FindingText};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::turns::{self, Operation, Rounds};

/// Sizes of a copy in bytes, in the caches and beyond.
const SIZES: [usize; 11] = [
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
];
const FACT: &str = "foong-2003/copy-share-of-csum-copy";

/// Ways of copying a block, by place.
const WAYS: [(&str, Loop); 3] = [
    ("Copy", || Kernel::COPY_ONLY),
    ("Copy and checksum in one pass", Kernel::best),
    ("Copy, then checksum", || Kernel::best().separate()),
];
const COPY: usize = 0;
const ONE_PASS: usize = 1;
const TWO_PASSES: usize = 2;

/// A copy with its checksum and without.
pub(super) struct FoongCsumcopy;

impl Experiment for FoongCsumcopy {
    fn name(&self) -> &'static str {
        "foong-csumcopy"
    }

    fn title(&self) -> &'static str {
        "A copy with its checksum, across the caches"
    }

    fn paper(&self) -> Option<Source> {
        source("Fig. 16, section 5.3")
    }

    fn summary(&self) -> &'static str {
        "a copy alone, with its checksum in one pass, and in two, from 64 bytes to beyond the caches"
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
        let operations: Vec<Operation<'_>> = WAYS
            .iter()
            .flat_map(|&(label, kernel)| {
                let sizes = sizes.iter();
                sizes.map(move |&size| operation(label, (Work::Copy, kernel), size))
            })
            .collect();
        let taken = turns::measure(&operations, context)?;
        let view = View {
            sizes: &sizes,
            taken: taken.chunks(sizes.len().max(1)).collect(),
        };
        let cache = match last_level_cache(Path::new("/")) {
            Ok(bytes) => format!("the last-level cache has {}", format::bytes(bytes)),
            Err(error) => format!("the size of the last-level cache is not known: {error}"),
        };
        Ok(Content {
            finding: view.finding(),
            tables: vec![view.shares(), view.times()],
            figures: vec![view.figure(command)],
            trust: vec![
                present::note(format!(
                    "{cache}; each block is copied to another, so both together have twice its size"
                )),
                present::note(format!(
                    "sums are those of the loop {}, the fastest of this processor",
                    Kernel::best().name()
                )),
                present::note(
                    "loops and sizes take turns in rounds, each with memory of its own; a round is the median of its five parts, the value that of the rounds, with the \
                     error of a median",
                ),
            ],
        })
    }
}

/// Measurements, by way and then by size.
struct View<'a> {
    sizes: &'a [usize],
    taken: Vec<&'a [Rounds]>,
}

impl View<'_> {
    /// The copy's share of a copy with checksum, by round.
    fn share(&self, with: usize, at: usize) -> Rounds {
        let (copy, with) = (&self.taken[COPY][at], &self.taken[with][at]);
        copy.each(with, |copy, with| 100.0 * copy / with)
    }

    fn shares(&self) -> Table {
        let column = |name: &str| Column {
            name: name.to_owned(),
            unit: Unit::Percent,
        };
        let published = papers::fact(FACT).zip(papers::paper("foong-2003"));
        let rows = self.sizes.iter().enumerate().map(|(at, &size)| {
            let then = published.map_or(Cell::text("-"), |(fact, paper)| {
                let source = papers::source_at(paper, &format!("section {}", fact.place));
                present::published_cell(Some(fact.value), &source)
            });
            let cells = vec![
                then,
                self.share(ONE_PASS, at).cell(),
                self.share(TWO_PASSES, at).cell(),
            ];
            present::plain_row(format::size(size), cells)
        });
        Table {
            id: "copy-share".to_owned(),
            title: "The copy's part of a copy with checksum".to_owned(),
            columns: vec![
                column("2003, text"),
                column("one pass"),
                column("two passes"),
            ],
            rows: rows.collect(),
        }
    }

    /// Nanoseconds for each byte.
    fn per_byte(&self, way: usize, at: usize) -> Cell {
        let rounds = &self.taken[way][at];
        let size = self.sizes[at].max(1) as f64;
        rounds.each(rounds, |ns, _| ns / size).cell()
    }

    fn times(&self) -> Table {
        let rows = WAYS.iter().enumerate().map(|(way, (label, _))| {
            let cells = (0..self.sizes.len()).map(|at| self.per_byte(way, at));
            present::plain_row(*label, cells.collect())
        });
        Table {
            id: "times".to_owned(),
            title: "Time for each byte".to_owned(),
            columns: present::size_columns(self.sizes, Unit::NanosecondsPerByte),
            rows: rows.collect(),
        }
    }

    fn figure(&self, command: &str) -> Figure {
        let ways = WAYS.iter().enumerate();
        let series = ways
            .filter_map(|(way, (label, _))| {
                let cells = (0..self.sizes.len()).map(|at| self.per_byte(way, at));
                turns::line(label, self.sizes, cells)
            })
            .collect();
        turns::figure(
            "A copy with its checksum and without",
            ("Bytes", Unit::Bytes),
            ("Time for each byte", Unit::NanosecondsPerByte),
            series,
            command,
        )
    }

    /// Says what the checksum adds to a copy at the last size that was copied often enough.
    fn finding(&self) -> FindingText {
        let mut finding = Finding::default();
        let ratio = |at: usize| self.taken[ONE_PASS][at].ratio(&self.taken[COPY][at]);
        let mut places = (0..self.sizes.len()).rev();
        let known = places.find(|&at| ratio(at).is_ok());
        if let Some(at) = known.or(self.sizes.len().checked_sub(1)) {
            let (size, ratio) = (self.sizes[at], ratio(at));
            if let Some(ratio) = finding.claim("the checksum's part of a copy", ratio) {
                let takes = match ratio.amount_against() {
                    None => "as long as".to_owned(),
                    Some(amount) => format!("{amount} time than"),
                };
                let then = papers::fact(FACT).map_or_else(String::new, |fact| {
                    format!(" (2003: the copy is {:.0} % of it)", fact.value)
                });
                finding.say(format!(
                    "summed in the same pass, a copy of {} takes {takes} the copy alone{then}",
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

    #[test]
    fn shares_and_times_stand_at_every_size() {
        let options = Options {
            sizes: Some(vec![64, 65_536]),
            iterations: Some(500),
            // Six rounds have an interval that one slow round does not make a hundred times as wide.
            repetitions: Some(3),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let content = FoongCsumcopy.measure(&mut context, "command").unwrap();
        let [shares, times] = &content.tables[..] else {
            panic!("two tables");
        };
        assert_eq!(shares.rows[0].cells[0].number(), Some(90.0));
        assert!(shares.rows[1].cells[1].number().unwrap() > 0.0);
        let cells = times.rows.iter().flat_map(|row| &row.cells);
        assert!(cells.into_iter().all(|cell| cell.number().unwrap() > 0.0));
        assert!(
            content.finding.contains("65,536 bytes"),
            "{}",
            content.finding
        );
    }
}

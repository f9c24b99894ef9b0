//! `wolman-offload`: what the kernel's checksum takes on the way out and on the way in, by switching the checksum offload of a veth pair
//! off, beside the checksum and driver rows of Wolman, Voelker and Thekkath 1994, Tables 2 and 3.
//!
//! Nobody can put a gate around a checksum that the kernel computes within another function. So the ledger with the offload is held
//! against the ledger without it, both from one interleaved run; it must never compare two runs.

use tollgate_gate::{Direction, Span, WolmanRow};
use tollgate_measure::Figure;
use tollgate_measure::ledger::LedgerTerm;
use tollgate_papers as papers;
use tollgate_run::{
    Cell, Column, Mode, PathId, Row, RowKind, Source, Table, TrustLine, Unit, format, present,
};
use tollgate_workload::find;

use super::wolman_ledger::{LedgerTables, disturbed_first, measured};
use super::wolman_rows::{RECEIVE, TRANSMIT, Wolman, WolmanLabel};
use super::{Content, Experiment, Reported};
use crate::claim::{Evidence, Finding, FindingText, Refusal};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::layout::layer;
use crate::ledgers::{self, Ledgers};

const PATH: PathId = PathId::KernelVeth;
/// Sizes of a message: those of the paper that say most, of one packet and of several.
const SIZES: [usize; 4] = [4, 200, 1_400, 8_000];

/// Checksums that the kernel computes.
pub(super) struct WolmanOffload;

impl Experiment for WolmanOffload {
    fn name(&self) -> &'static str {
        "wolman-offload"
    }

    fn title(&self) -> &'static str {
        "The kernel's checksum, by switching its offload off"
    }

    fn paper(&self) -> Option<Source> {
        let paper = papers::paper("wolman-1994")?;
        Some(papers::source_at(paper, "Tables 2 and 3"))
    }

    fn summary(&self) -> &'static str {
        "what the kernel's checksum takes each way, as the difference of a veth pair's ledgers"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        mode(options).is_some()
    }

    fn measure(&self, context: &mut Context<'_>, _: &str) -> Result<Content, Error> {
        let Some(mode) = mode(&context.options) else {
            return Err(Error::NothingToRun {
                workload: tollgate_run::Workload::Rr,
                asked: context.options.restrictions(),
            });
        };
        let sizes = context.options.sizes_or(&SIZES);
        let [with, without] = ledgers::of_checksums(self.name(), mode, &sizes, context)?;
        let pair = Pair { with, without };
        Ok(Content {
            finding: pair.finding(),
            tables: pair.tables(),
            figures: Vec::new(),
            trust: pair.trust(),
        })
    }
}

/// The mode of the gated path, where the options want it.
fn mode(options: &Options) -> Option<Mode> {
    let path = options.wants(PATH).then(|| find(PATH))??;
    options.gated_mode(&path.capabilities())
}

/// The ledgers with checksums left to the devices, and with checksums in software.
struct Pair {
    with: Ledgers,
    without: Ledgers,
}

fn cell(figure: Result<Figure, String>) -> Cell {
    match figure {
        Ok(figure) => measured(figure, None),
        Err(reason) => Cell::NotAvailable { reason },
    }
}

const fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Tx => "transmit",
        Direction::Rx | Direction::Between => "receive",
    }
}

impl Pair {
    fn sizes(&self) -> impl Iterator<Item = (usize, usize)> {
        let sizes = self.with.sizes.iter().map(|sized| sized.size);
        sizes.enumerate()
    }

    /// Some spans of a message, with the offload and without.
    fn both(&self, at: usize, wanted: impl Fn(&Span) -> bool) -> Option<[Figure; 2]> {
        let of = |ledgers: &Ledgers| {
            let figure = ledgers.sum(at, |_, span| wanted(span))?;
            Some(Figure {
                ns: figure.ns / ledgers.messages(),
                half_width: figure.half_width / ledgers.messages(),
            })
        };
        Some([of(&self.with)?, of(&self.without)?])
    }

    /// The time that software checksums add to some spans of a message, or the reason why it is not known.
    fn added(&self, at: usize, wanted: impl Fn(&Span) -> bool) -> Result<Figure, String> {
        let stretches = self.with.stretches(|_, span| wanted(span));
        let ledgers = self.with.at(at).zip(self.without.at(at));
        let Some((with, without)) = ledgers.filter(|_| !stretches.is_empty()) else {
            return Err(self.missing(at));
        };
        let added = without.growth_since(with, LedgerTerm::Spans(&stretches), 1);
        let added = added.map_err(|reason| reason.to_string())?;
        Ok(Figure {
            ns: added.ns / self.with.messages(),
            half_width: added.half_width / self.with.messages(),
        })
    }

    /// The time that software checksums add to a message.
    fn checksum(&self, at: usize, direction: Direction) -> Result<Figure, String> {
        self.added(at, |span| span.direction == direction)
    }

    /// The reason why a size has no ledger.
    fn missing(&self, at: usize) -> String {
        let reasons = [&self.with, &self.without].map(|ledgers| ledgers.sizes.get(at));
        let reason = reasons
            .into_iter()
            .flatten()
            .find_map(|sized| sized.ledger.as_ref().err());
        reason
            .cloned()
            .unwrap_or_else(|| "no span of this way belongs to it".to_owned())
    }

    fn cell(&self, at: usize, figure: Option<Figure>) -> Cell {
        cell(figure.ok_or_else(|| self.missing(at)))
    }

    fn tables(&self) -> Vec<Table> {
        let rows = [TRANSMIT, RECEIVE].map(|wolman| self.rows(&wolman));
        let spans = [Direction::Tx, Direction::Rx].map(|direction| self.spans(direction));
        rows.into_iter().chain(spans).collect()
    }

    /// The checksum and the driver of each size, beside the paper's.
    fn rows(&self, wolman: &Wolman) -> Table {
        let direction = wolman.direction;
        let source = papers::source(wolman.table_id());
        let then = |row, size| {
            let value = wolman.published_ns(WolmanLabel::Row(row), size);
            match value.zip(source.as_ref()) {
                Some((value, source)) => present::published_cell(Some(value), source),
                None => Cell::text("-"),
            }
        };
        let rows = self.sizes().map(|(at, size)| {
            let whole = self.both(at, |span| span.direction == direction);
            let [with, without] = match whole {
                Some([with, without]) => [Some(with), Some(without)],
                None => [None, None],
            };
            let driver = self.both(at, |span| {
                span.direction == direction && span.wolman == Some(WolmanRow::Atm)
            });
            let driver = match (driver, direction) {
                (Some([_, without]), _) => measured(without, None),
                (None, Direction::Tx) => self.cell(at, None),
                (None, Direction::Rx | Direction::Between) => Cell::NotAvailable {
                    reason: "the driver of the sender carries the segment into the queue of IP; it is on the way out"
                        .to_owned(),
                },
            };
            let cells = vec![
                self.cell(at, with),
                self.cell(at, without),
                cell(self.checksum(at, direction)),
                then(WolmanRow::Checksum, size),
                driver,
                then(WolmanRow::Atm, size),
            ];
            Row {
                kind: RowKind::Processing,
                ..present::plain_row(format::size(size), cells)
            }
        });
        let column = |name: &str| Column {
            name: name.to_owned(),
            unit: Unit::Nanoseconds,
        };
        Table {
            id: way(direction).to_owned(),
            title: format!(
                "{}, per message: the ledger with checksums in the devices and in software, and their difference",
                match direction {
                    Direction::Tx => "Transmit",
                    Direction::Rx | Direction::Between => "Receive",
                }
            ),
            columns: vec![
                column("Offload on"),
                column("Offload off"),
                column("Checksum, by difference"),
                column("Checksum, 1994"),
                column("Driver, offload off"),
                column("Driver, 1994"),
            ],
            rows: rows.collect(),
        }
    }

    /// The span that the checksum falls into.
    fn spans(&self, direction: Direction) -> Table {
        let mut spans: Vec<Span> = Vec::new();
        for span in &self.with.spans {
            if span.direction == direction && !spans.contains(span) {
                spans.push(*span);
            }
        }
        let rows = spans.into_iter().map(|span| {
            let cells = self
                .sizes()
                .map(|(at, _)| cell(self.added(at, |one| *one == span)));
            Row {
                layer: Some(layer(span.layer)),
                ..present::plain_row(span.name, cells.collect())
            }
        });
        let sizes: Vec<usize> = self.sizes().map(|(_, size)| size).collect();
        Table {
            id: format!("spans-{}", way(direction)),
            title: format!(
                "Where software checksums add their time, {}, per message",
                way(direction)
            ),
            columns: present::size_columns(&sizes, Unit::Nanoseconds),
            rows: rows.collect(),
        }
    }

    /// The largest size, each way.
    fn finding(&self) -> FindingText {
        let mut finding = Finding::default();
        let Some((at, size)) = self.sizes().last() else {
            return finding.finish();
        };
        let joined = |ledgers: &Ledgers| ledgers.sizes[at].joined;
        let messages = joined(&self.with).min(joined(&self.without));
        for (direction, does) in [
            (Direction::Tx, "computing the checksum"),
            (Direction::Rx, "verifying it"),
        ] {
            let claim = self
                .checksum(at, direction)
                .map_err(Refusal::NotMeasured)
                .and_then(|figure| {
                    let interval = tollgate_run::Interval {
                        low: figure.ns - figure.half_width,
                        high: figure.ns + figure.half_width,
                    };
                    Evidence::new(figure.ns, Some(interval), messages).amount()
                });
            let what = format!("what {does} takes");
            if let Some(claim) = finding.claim(what, claim) {
                finding.say(format!(
                    "{does} of {} takes the kernel {}",
                    format::bytes(size),
                    claim.duration()
                ));
            }
        }
        finding.finish()
    }

    fn trust(&self) -> Vec<TrustLine> {
        let mut lines = vec![
            present::note(
                "the checksum row is a difference: the ledger of a veth pair whose devices neither compute nor verify checksums, less the \
                 ledger of one whose devices do; slices of both are interleaved, each block has sessions of its own, and the intervals of \
                 differences hold what differs between sessions",
            ),
            present::note(
                "the devices have an MTU of 9,000 bytes, as ATM had in 1994 (larger for larger messages), so a message is one packet in both \
                 and the two differ in the checksum alone",
            ),
            present::note(
                "in 1994 the checksum was a pass of its own in BSD's TCP; here it is computed behind IP, when the device queue hands the \
                 packet to the driver, and verified in TCP",
            ),
        ];
        for (ledgers, name) in [
            (&self.with, "checksums in the devices"),
            (&self.without, "checksums in software"),
        ] {
            let shown = LedgerTables {
                direction: Direction::Tx,
                name: format!("{PATH}, {name}"),
                host: None,
                ledgers,
            };
            lines.extend(shown.trust());
        }
        disturbed_first(&mut lines);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn a_path_that_is_not_wanted_does_not_concern_it() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            ..Options::default()
        };
        assert!(!WolmanOffload.concerns(&options));
        assert!(WolmanOffload.concerns(&Options::default()));
    }

    #[test]
    fn both_ways_stand_beside_the_papers() {
        let options = Options {
            sizes: Some(vec![4, 1_400]),
            iterations: Some(64),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let shown = match WolmanOffload.run(&mut context) {
            Ok(shown) => shown,
            Err(error) => {
                tollgate_skip::skipped!("{error}");
                return;
            }
        };
        let ids: Vec<&str> = shown.tables.iter().map(|table| table.id.as_str()).collect();
        assert_eq!(
            ids,
            ["transmit", "receive", "spans-transmit", "spans-receive"]
        );
        for table in &shown.tables[..2] {
            let small = &table.rows[0];
            assert!(small.cells[3].number().is_some(), "{table:?}");
            let numbers: Vec<Option<f64>> = small.cells[..3].iter().map(Cell::number).collect();
            if let [Some(with), Some(without), Some(difference)] = numbers[..] {
                assert!((without - with - difference).abs() < 1e-6);
            }
        }
        assert!(
            shown
                .trust
                .iter()
                .any(|line| line.text.contains("interleaved"))
        );
    }
}

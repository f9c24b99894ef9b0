//! `clark-direct`: what a packet and what a byte cost, by operation; beside them the direct measure of Clark, Jacobson, Romkey and
//! Salwen 1989, Table I.
//!
//! A message of an echo is one packet over loopback. Its processor time over its size is a line: where it begins is the cost of
//! a packet, how steep it is that of a byte. So it is of Tollgate's stack, whose times are those of its ledger.

use tollgate_papers as papers;
use tollgate_run::{
    Axis, Cell, Figure, Interval, Measured, Point, Row, RowKind, Scale, Series, Source, Table,
    Unit, Workload, format, present,
};
use tollgate_sampling::{Categories, Classifier};
use tollgate_stats::{self as stats, Estimate, Line};

use super::foong_hz::{column, unavailable};
use super::{Content, Experiment, Reported, Uses, uses};
use crate::claim::{self, Evidence, Finding, Refusal};
use crate::context::{Context, Options};
use crate::echoes::{self, Echoes};
use crate::error::Error;
use crate::ledgers::{self, Ledgers};
use crate::sampled::{Mean, Sampled, Split};

const TABLE: &str = "clark-1989/table-1";
/// Data bytes of the paper's packets.
const PACKET: f64 = 1_460.0;
/// Column with the time of a packet of that size, as in the paper.
const PACKET_COLUMN: &str = "Packet of 1,460 bytes";
/// The paper's.
const PUBLISHED_COLUMN: &str = "1989, 1,460 bytes";
const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;
/// Sizes of the stack's messages, each of which is one packet.
const STACK_SIZES: [usize; 5] = [4, 500, 1_400, 4_000, 8_000];
/// The stack's part of the time, where nothing has measured its ledgers before.
const STACK_SHARE: f64 = 0.3;

/// Costs of a packet and of a byte.
pub(super) struct ClarkDirect;

impl Experiment for ClarkDirect {
    fn name(&self) -> &'static str {
        "clark-direct"
    }

    fn title(&self) -> &'static str {
        "The cost of a packet and of a byte"
    }

    fn paper(&self) -> Option<Source> {
        papers::source(TABLE)
    }

    fn summary(&self) -> &'static str {
        "costs per packet and per byte in the kernel's TCP and in Tollgate's stack, by a fit over sizes"
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
        !echoes::kernel_paths(options).is_empty() || options.want_stack_memory()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let options = &context.options;
        let in_kernel = !echoes::kernel_paths(options).is_empty();
        if !in_kernel && !options.want_stack_memory() {
            return Err(Error::NothingToRun {
                workload: Workload::Rr,
                asked: options.restrictions(),
            });
        }
        // First, since samples take what time is left.
        let stack = match options.want_stack_memory() {
            true => Some(stack(self.name(), context)?),
            false => None,
        };
        let kernel = match in_kernel {
            true => Some(echoes::of(self.name(), context)?),
            false => None,
        };
        let mut finding = Finding::default();
        let mut content = match kernel.as_deref() {
            Some(Sampled::Measured(echoes)) => shown(echoes, command, &mut finding),
            Some(Sampled::Unavailable(reason)) => unavailable(reason),
            None => Content {
                finding: Finding::default().finish(),
                tables: Vec::new(),
                figures: Vec::new(),
                trust: Vec::new(),
            },
        };
        if let Some(stack) = &stack {
            stack.add_to(&mut content, &mut finding);
            content.trust.extend(uses::note(&context.options));
        }
        if !finding.is_empty() {
            content.finding = finding.finish();
        }
        Ok(content)
    }
}

/// A row of the stack: its label, the paper's row beside it, and the spans of its ledger.
type StackRow = (&'static str, Option<&'static str>, &'static [&'static str]);

/// Rows of the stack. It copies and sums in one pass, which lies in the socket call on the way out, and where a segment is verified on
/// the way in. Its link is memory, which hands frames over.
const STACK_ROWS: [StackRow; 5] = [
    (
        "User-system copy out with its sum, socket calls",
        Some("user-system-copy"),
        &["socket"],
    ),
    (
        "TCP checksum in with its copy",
        Some("tcp-checksum"),
        &["tcp.checksum"],
    ),
    (
        "TCP + IP + ARP protocols",
        Some("protocols"),
        &["tcp", "ip", "demux"],
    ),
    (
        "Driver of a link in memory",
        Some("ethernet-driver"),
        &["driver"],
    ),
    (
        "Queues of stack and link",
        None,
        &["device.queue", "ip.queue", "socket.queue"],
    ),
];
/// Turn of the application, which no row of a packet holds.
const APPLICATION: &str = "application";

/// Lines through the stack's ledgers; or why there are none.
struct StackCosts(Result<Vec<Fitted>, String>);

/// Fits the stack's ledgers.
fn stack(experiment: &'static str, context: &Context<'_>) -> Result<StackCosts, Error> {
    let sizes = context.options.sizes_or(&STACK_SIZES);
    match ledgers::of_stack(experiment, &sizes, STACK_SHARE, context) {
        Ok(ledgers) => Ok(StackCosts(Ok(fits_of_stack(&ledgers)))),
        Err(Error::Stopped) => Err(Error::Stopped),
        Err(error) => Ok(StackCosts(Err(error.to_string()))),
    }
}

/// ns for each packet by row, and of all, over the sizes of the ledgers.
fn fits_of_stack(ledgers: &Ledgers) -> Vec<Fitted> {
    let fit = |label: &str, id, wanted: &dyn Fn(&str) -> bool| {
        let packets = ledgers.messages();
        let points = ledgers.sizes.iter().enumerate().filter_map(|(at, sized)| {
            let figure = ledgers.sum(at, |_, span| wanted(span.name))?;
            let (value, half) = (figure.ns / packets, figure.half_width / packets);
            Some(Point {
                x: sized.size as f64,
                y: value,
                ci: Some(Interval {
                    low: value - half,
                    high: value + half,
                }),
            })
        });
        let messages = ledgers.sizes.iter().map(|sized| sized.messages).sum();
        Fitted::through(label, id, points.collect(), messages)
    };
    let rows = STACK_ROWS
        .iter()
        .map(|&(label, id, spans)| fit(label, id, &|name| spans.contains(&name)));
    let total = fit("Total", None, &|name| name != APPLICATION);
    rows.chain([total]).collect()
}

impl StackCosts {
    /// Adds the stack's table to the kernel's, and what it says to `finding`.
    fn add_to(&self, content: &mut Content, finding: &mut Finding) {
        let fits = match &self.0 {
            Ok(fits) => fits,
            Err(reason) => {
                let why = Refusal::NotMeasured(reason.clone());
                return finding.refuse("what a packet costs of our stack's time", &why);
            }
        };
        content.tables.push(table(
            "costs-stack",
            "Time in Tollgate's stack for each packet, sending and receiving together",
            fits,
        ));
        say(fits, "our stack's", false, finding);
        content.trust.push(present::note(
            "the stack's times are spans of its ledger, which wolman-transmit and wolman-receive close; a message is one packet of a round \
             trip, and carries the acknowledgment of the one before",
        ));
        content.trust.push(present::note(
            "by default the stack copies and sums in one pass: on the way out in the socket call, on the way in where it verifies. \
             The paper \
             does not say which direction its rows cover; these are of both together. The stack's link hands frames over in memory, so nothing is copied there, and no operating \
             system is in between",
        ));
    }
}

/// Names of the paper's rows in the category file.
const ROWS: [(&str, &str); 6] = [
    ("user-system-copy", "User-system copy"),
    ("tcp-checksum", "TCP checksum"),
    ("network-memory-copy", "Network-memory copy"),
    ("ethernet-driver", "Ethernet driver"),
    ("protocols", "TCP + IP + ARP protocols"),
    ("operating-system", "Operating system overhead"),
];

/// A row's times by size, and the line through them.
struct Fitted {
    label: String,
    /// The paper's id of the row; none for sums.
    id: Option<&'static str>,
    points: Vec<Point>,
    line: Option<Line>,
    /// The echoes or messages that it rests on.
    operations: u64,
}

impl Fitted {
    fn through(label: &str, id: Option<&'static str>, points: Vec<Point>, operations: u64) -> Self {
        let plain: Vec<(f64, f64)> = points.iter().map(|point| (point.x, point.y)).collect();
        Self {
            label: label.to_owned(),
            id,
            points,
            line: stats::line(&plain),
            operations,
        }
    }
}

/// ns for each packet by operation, and of all, over the sizes of TCP's messages on the first path.
fn fits(echoes: &Echoes) -> Vec<Fitted> {
    let mut classifier = Classifier::new(Categories::clark());
    let categories = classifier.categories().clone();
    let Some(panel) = echoes.panels.first() else {
        return Vec::new();
    };
    let splits: Vec<Vec<Split>> = (panel.first..panel.first + echoes.sizes.len())
        .map(|at| echoes.survey.splits(at, &mut classifier))
        .collect();
    let fit = |label: &str, id, figure: &dyn Fn(&Split) -> f64| {
        let points: Vec<Point> = echoes
            .sizes
            .iter()
            .zip(&splits)
            .filter_map(|(&size, rounds)| {
                let packets = |split: &Split| 2.0 * split.operations.max(1) as f64;
                let values: Vec<f64> = rounds
                    .iter()
                    .map(|split| figure(split) / packets(split))
                    .collect();
                let mean = Mean::of(&values)?;
                Some(Point {
                    x: size as f64,
                    y: mean.value,
                    ci: mean.interval(),
                })
            })
            .collect();
        let operations = splits.iter().map(|rounds| claim::operations(rounds)).sum();
        Fitted::through(label, id, points, operations)
    };
    let mut all: Vec<Fitted> = ROWS
        .iter()
        .filter_map(|&(id, label)| {
            let category = categories.position(label)?;
            Some(fit(label, Some(id), &|split| split.category_ns(category)))
        })
        .collect();
    let other = categories.categories.len();
    all.push(fit(&categories.other, None, &|split| {
        split.category_ns(other)
    }));
    all.push(fit("Total", None, &Split::total_ns));
    all
}

fn estimate_cell(estimate: Option<Estimate>, scale: f64) -> Cell {
    match estimate {
        Some(estimate) => Cell::Value(Measured {
            value: estimate.value * scale,
            ci: Some(Interval {
                low: estimate.interval.low * scale,
                high: estimate.interval.high * scale,
            }),
            n: Some(estimate.n),
            ..Measured::default()
        }),
        None => Cell::NotAvailable {
            reason: "a line with an interval takes three sizes".to_owned(),
        },
    }
}

fn table(id: &str, title: &str, fits: &[Fitted]) -> Table {
    let (published, source) = (papers::table(TABLE), papers::source(TABLE));
    let rows: Vec<Row> = fits
        .iter()
        .map(|fitted| {
            let slope = || fitted.line.as_ref().and_then(Line::slope);
            let intercept = fitted.line.as_ref().and_then(Line::intercept);
            let then = fitted.id.and_then(|id| {
                let us = published?.cell(id, "cost")?;
                let source = source.as_ref()?;
                Some(present::published_cell(
                    Some(us * NANOSECONDS_PER_MICROSECOND),
                    source,
                ))
            });
            Row {
                kind: match fitted.label.as_str() {
                    "Total" => RowKind::Total,
                    _ => RowKind::Plain,
                },
                ..present::plain_row(
                    fitted.label.clone(),
                    vec![
                        estimate_cell(intercept, 1.0),
                        estimate_cell(slope(), 1.0),
                        estimate_cell(slope(), PACKET),
                        estimate_cell(fitted.line.as_ref().and_then(|line| line.at(PACKET)), 1.0),
                        then.unwrap_or_else(|| Cell::text("-")),
                    ],
                )
            }
        })
        .collect();
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        columns: vec![
            column("Per packet", Unit::Nanoseconds),
            column("Per byte", Unit::NanosecondsPerByte),
            column("Bytes of 1,460", Unit::Nanoseconds),
            column(PACKET_COLUMN, Unit::Nanoseconds),
            column(PUBLISHED_COLUMN, Unit::Nanoseconds),
        ],
        rows,
    }
}

fn figure(fits: &[Fitted], command: &str) -> Option<Figure> {
    let series: Vec<Series> = fits
        .iter()
        .filter(|fitted| fitted.points.len() > 1)
        .filter(|fitted| fitted.points.iter().any(|point| point.y > 0.0))
        .map(|fitted| Series {
            label: fitted.label.clone(),
            points: fitted.points.clone(),
            published: false,
        })
        .collect();
    (!series.is_empty()).then(|| Figure::Lines {
        title: "Processor time for each packet over its data".to_owned(),
        x: Axis {
            label: "Data of the packet".to_owned(),
            unit: Unit::Bytes,
            scale: Scale::Linear,
        },
        y: Axis {
            label: "Time for each packet".to_owned(),
            unit: Unit::Nanoseconds,
            scale: Scale::Linear,
        },
        series,
        command: command.to_owned(),
    })
}

/// Says what a packet and a byte cost of `whose` time, and the shares of the rows that the paper has; beside them the paper's, where
/// `published` is wanted.
fn say(fits: &[Fitted], whose: &str, published: bool, finding: &mut Finding) {
    let evidence = |fitted: &Fitted, of: fn(&Line) -> Option<Estimate>| {
        let estimate = fitted.line.as_ref().and_then(of);
        let estimate = estimate.ok_or_else(|| {
            Refusal::NotMeasured(
                "it takes three sizes to tell a packet's cost from a byte's".to_owned(),
            )
        })?;
        let interval = estimate.interval.into();
        Ok(Evidence::new(
            estimate.value,
            Some(interval),
            fitted.operations,
        ))
    };
    let what = format!("what a packet costs of {whose} time, whatever it carries");
    let Some(total) = fits.iter().find(|one| one.label == "Total") else {
        return;
    };
    let packet = evidence(total, Line::intercept).and_then(Evidence::amount);
    let Some(packet) = finding.claim(what, packet) else {
        return;
    };
    let mut text = format!(
        "a packet costs {} of {whose} time, whatever it carries",
        packet.duration()
    );
    let byte = evidence(total, Line::slope).and_then(Evidence::amount);
    if let Some(byte) = finding.claim(format!("what each byte adds to {whose} time"), byte) {
        text.push_str(&format!(", and each byte {} ns more", byte.significant()));
    }
    let mut shares = Vec::new();
    for fitted in fits.iter().filter(|one| one.id.is_some()) {
        let label = &fitted.label;
        let share = evidence(fitted, Line::intercept)
            .and_then(|cost| cost.times(100.0 / packet.value()).share());
        let share = finding.claim(format!("the part of {label} in {whose} time"), share);
        if let Some(share) = share.filter(|share| share.value() >= 1.0) {
            shares.push(format!("{label} {}", share.percent()));
        }
    }
    if !shares.is_empty() {
        text.push_str(&format!("; of a packet's cost, {}", format::list(&shares)));
    }
    let then = |id: &str| papers::table(TABLE).filter(|_| published)?.cell(id, "cost");
    if let (Some(driver), Some(protocols), Some(system)) = (
        then("ethernet-driver"),
        then("protocols"),
        then("operating-system"),
    ) {
        text.push_str(&format!(
            " (1989: {:.0}, {:.0} and {:.0} % for driver, protocols and operating system)",
            100.0 * driver / (driver + protocols + system),
            100.0 * protocols / (driver + protocols + system),
            100.0 * system / (driver + protocols + system)
        ));
    }
    finding.say(text);
}

/// The kernel's costs; what they say goes to `finding`.
fn shown(echoes: &Echoes, command: &str, finding: &mut Finding) -> Content {
    let fits = fits(echoes);
    say(&fits, "the kernel's", true, finding);
    let mut trust = echoes.survey.trust(&Categories::clark());
    trust.push(echoes.survey.covered(&Categories::clark()));
    if let Some(total) = fits.last().and_then(|fitted| fitted.line) {
        trust.push(present::note(format!(
            "a line over {} sizes, each with the same weight, explains {:.0} % of the variance of the total; intervals hold 95 % \
             when the sizes' errors are alike",
            total.n,
            100.0 * total.explained
        )));
    }
    trust.push(present::note(
        "over loopback nothing is copied to a network's memory, checksums are left out and no address is resolved; the paper \
         does not say which direction its rows cover",
    ));
    Content {
        finding: Finding::default().finish(),
        tables: vec![table(
            "costs",
            "Processor time in the kernel for each packet, sending and receiving together",
            &fits,
        )],
        figures: figure(&fits, command).into_iter().collect(),
        trust,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(label: &str, id: Option<&'static str>, a: f64, b: f64) -> Fitted {
        let points: Vec<Point> = [1.0, 2_000.0, 4_000.0, 8_192.0]
            .into_iter()
            .enumerate()
            .map(|(at, x)| {
                let off = if at % 2 == 0 { 1.0 } else { -1.0 };
                Point {
                    x,
                    y: a + b * x + off,
                    ci: None,
                }
            })
            .collect();
        Fitted::through(label, id, points, 4_000)
    }

    fn finding_of(fits: &[Fitted]) -> String {
        let mut finding = Finding::default();
        say(fits, "the kernel's", true, &mut finding);
        finding.finish().into()
    }

    #[test]
    fn costs_stand_beside_the_papers() {
        let fits = [
            fitted("User-system copy", Some("user-system-copy"), 40.0, 0.1),
            fitted("TCP + IP + ARP protocols", Some("protocols"), 1_960.0, 0.0),
            fitted("Total", None, 2_000.0, 0.1),
        ];
        let table = table("costs", "Costs", &fits);
        let copy = &table.rows[0].cells;
        assert!((copy[1].number().unwrap() - 0.1).abs() < 0.01);
        assert!((copy[2].number().unwrap() - 146.0).abs() < 5.0);
        assert!((copy[3].number().unwrap() - 186.0).abs() < 5.0);
        assert_eq!(copy[4].number(), Some(200_000.0));
        assert!(copy[0].measured().unwrap().ci.is_some());
        let told = finding_of(&fits);
        assert!(
            told.starts_with("A packet costs 2.00 us of the kernel's time"),
            "{told}"
        );
        assert!(told.contains("TCP + IP + ARP protocols 98 %"), "{told}");
        assert!(told.contains("1989: 23, 23 and 55 %"), "{told}");
    }

    #[test]
    fn a_cost_that_may_be_none_is_not_told() {
        let told_of_little = finding_of(&[fitted("Total", None, 0.5, 0.1)]);
        assert!(
            told_of_little.contains("it may be zero"),
            "{told_of_little}"
        );
        let of_two = |a: f64| Fitted {
            line: stats::line(&[(1.0, a), (2.0, a + 1.0)]),
            ..fitted("Total", None, 0.0, 0.0)
        };
        assert!(finding_of(&[of_two(50.0)]).contains("it takes three sizes"));
    }

    #[test]
    fn rows_of_the_stack_add_up_and_stand_beside_the_papers() {
        let options = Options {
            paths: Some(vec![tollgate_run::PathId::StackMemory]),
            sizes: Some(vec![4, 1_400, 4_000]),
            iterations: Some(16),
            ..Options::default()
        };
        let cancel = crate::context::Cancel::default();
        let mut context = Context::new(options, None, cancel, &crate::context::Silent);
        let content = ClarkDirect.measure(&mut context, "command").unwrap();
        let [costs] = &content.tables[..] else {
            panic!("one table");
        };
        assert_eq!(costs.id, "costs-stack");
        assert_eq!(costs.rows.len(), STACK_ROWS.len() + 1);
        let column = |at: usize| -> Vec<f64> {
            let cells = costs.rows.iter().map(|row| row.cells[at].number());
            cells.map(Option::unwrap).collect()
        };
        // A line through sums is the sum of the lines.
        for at in 0..4 {
            let numbers = column(at);
            let (total, rows) = numbers.split_last().unwrap();
            let sum: f64 = rows.iter().sum();
            assert!((sum - total).abs() <= 1e-6 * total.abs().max(1.0), "{at}");
        }
        assert_eq!(costs.rows[0].cells[4].number(), Some(200_000.0));
        assert_eq!(costs.rows[2].cells[4].number(), Some(100_000.0));
        assert!(!content.finding.is_empty());
    }

    #[test]
    fn every_row_of_the_paper_has_a_category() {
        let categories = Categories::clark();
        let table = papers::table(TABLE).unwrap();
        for (id, label) in ROWS {
            assert!(categories.position(label).is_some(), "{label}");
            assert!(table.cell(id, "cost").is_some(), "{id}");
        }
        assert_eq!(table.rows.len(), ROWS.len());
    }
}

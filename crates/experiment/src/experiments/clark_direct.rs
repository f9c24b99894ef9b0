//! `clark-direct`: what a packet and what a byte cost, by operation; beside them the direct measure of Clark, Jacobson, Romkey and
//! Salwen 1989, Table I.
//!
//! A message of an echo is one packet over loopback. Its processor time over its size is a line: where it begins is the cost of
//! a packet, how steep it is that of a byte.

use tollgate_papers as papers;
use tollgate_run::{
    Axis, Cell, Figure, Interval, Measured, Point, Row, RowKind, Scale, Series, Source, Table,
    Unit, format, present,
};
use tollgate_sampling::{Categories, Classifier};
use tollgate_stats::{self as stats, Estimate, Line};

use super::foong_hz::{column, unavailable};
use super::{Content, Experiment, Reported};
use crate::claim::{self, Evidence, Finding, FindingText, Refusal};
use crate::context::{Context, Options};
use crate::echoes::{self, Echoes};
use crate::error::Error;
use crate::sampled::{Mean, Sampled, Split};

const TABLE: &str = "clark-1989/table-1";
/// Data bytes of the paper's packets.
const PACKET: f64 = 1_460.0;
/// Column with the time of a packet of that size, as in the paper.
const PACKET_COLUMN: &str = "Packet of 1,460 bytes";
/// The paper's.
const PUBLISHED_COLUMN: &str = "1989, 1,460 bytes";
const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;

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
        "costs per packet and per byte in the kernel's TCP, by a fit over sizes"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn weight(&self) -> u32 {
        1
    }

    fn concerns(&self, options: &Options) -> bool {
        !echoes::kernel_paths(options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sampled = echoes::of(self.name(), context)?;
        Ok(match &*sampled {
            Sampled::Measured(echoes) => shown(echoes, command),
            Sampled::Unavailable(reason) => unavailable(reason),
        })
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
    points: Vec<(f64, Mean)>,
    line: Option<Line>,
    /// The echoes that it rests on.
    operations: u64,
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
        let points: Vec<(f64, Mean)> = echoes
            .sizes
            .iter()
            .zip(&splits)
            .filter_map(|(&size, rounds)| {
                let packets = |split: &Split| 2.0 * split.operations.max(1) as f64;
                let values: Vec<f64> = rounds
                    .iter()
                    .map(|split| figure(split) / packets(split))
                    .collect();
                Some((size as f64, Mean::of(&values)?))
            })
            .collect();
        let plain: Vec<(f64, f64)> = points.iter().map(|(x, mean)| (*x, mean.value)).collect();
        Fitted {
            label: label.to_owned(),
            id,
            points,
            line: stats::line(&plain),
            operations: splits.iter().map(|rounds| claim::operations(rounds)).sum(),
        }
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

fn table(fits: &[Fitted]) -> Table {
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
        id: "costs".to_owned(),
        title: "Processor time in the kernel for each packet, sending and receiving together"
            .to_owned(),
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
        .filter(|fitted| fitted.points.iter().any(|(_, mean)| mean.value > 0.0))
        .map(|fitted| Series {
            label: fitted.label.clone(),
            points: fitted
                .points
                .iter()
                .map(|(x, mean)| Point {
                    x: *x,
                    y: mean.value,
                    ci: mean.interval(),
                })
                .collect(),
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

fn finding(fits: &[Fitted]) -> FindingText {
    let fit = |label: &str| fits.iter().find(|one| one.label == label);
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
    let mut finding = Finding::default();
    let what = "what a packet costs whatever it carries";
    let Some(total) = fit("Total") else {
        return finding.finish();
    };
    let packet = evidence(total, Line::intercept).and_then(Evidence::amount);
    let Some(packet) = finding.claim(what, packet) else {
        return finding.finish();
    };
    let mut text = format!(
        "a packet costs {} of the kernel's time, whatever it carries",
        packet.duration()
    );
    let byte = evidence(total, Line::slope).and_then(Evidence::amount);
    if let Some(byte) = finding.claim("what each byte adds", byte) {
        text.push_str(&format!(", and each byte {} ns more", byte.significant()));
    }
    let mut shares = Vec::new();
    for (_, label) in ROWS {
        let Some(fitted) = fit(label) else { continue };
        let share = evidence(fitted, Line::intercept)
            .and_then(|cost| cost.times(100.0 / packet.value()).share());
        let share = finding.claim(format!("the part of {label}"), share);
        if let Some(share) = share.filter(|share| share.value() >= 1.0) {
            shares.push(format!("{label} {}", share.percent()));
        }
    }
    if !shares.is_empty() {
        text.push_str(&format!("; of a packet's cost, {}", format::list(&shares)));
    }
    let then = |id: &str| papers::table(TABLE)?.cell(id, "cost");
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
    finding.finish()
}

fn shown(echoes: &Echoes, command: &str) -> Content {
    let fits = fits(echoes);
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
        finding: finding(&fits),
        tables: vec![table(&fits)],
        figures: figure(&fits, command).into_iter().collect(),
        trust,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(label: &str, id: Option<&'static str>, a: f64, b: f64) -> Fitted {
        let points: Vec<(f64, Mean)> = [1.0, 2_000.0, 4_000.0, 8_192.0]
            .into_iter()
            .enumerate()
            .map(|(at, x)| {
                let off = if at % 2 == 0 { 1.0 } else { -1.0 };
                (x, Mean::of(&[a + b * x + off]).unwrap())
            })
            .collect();
        let plain: Vec<(f64, f64)> = points.iter().map(|(x, mean)| (*x, mean.value)).collect();
        Fitted {
            label: label.to_owned(),
            id,
            points,
            line: stats::line(&plain),
            operations: 4_000,
        }
    }

    #[test]
    fn costs_stand_beside_the_papers() {
        let fits = [
            fitted("User-system copy", Some("user-system-copy"), 40.0, 0.1),
            fitted("TCP + IP + ARP protocols", Some("protocols"), 1_960.0, 0.0),
            fitted("Total", None, 2_000.0, 0.1),
        ];
        let table = table(&fits);
        let copy = &table.rows[0].cells;
        assert!((copy[1].number().unwrap() - 0.1).abs() < 0.01);
        assert!((copy[2].number().unwrap() - 146.0).abs() < 5.0);
        assert!((copy[3].number().unwrap() - 186.0).abs() < 5.0);
        assert_eq!(copy[4].number(), Some(200_000.0));
        assert!(copy[0].measured().unwrap().ci.is_some());
        let told = finding(&fits);
        assert!(
            told.starts_with("A packet costs 2.00 us of the kernel's time"),
            "{told}"
        );
        assert!(told.contains("TCP + IP + ARP protocols 98 %"), "{told}");
        assert!(told.contains("1989: 23, 23 and 55 %"), "{told}");
    }

    #[test]
    fn a_cost_that_may_be_none_is_not_told() {
        let told = finding(&[fitted("Total", None, 0.5, 0.1)]);
        assert!(told.contains("not told from zero"), "{told}");
        let of_two = |a: f64| Fitted {
            line: stats::line(&[(1.0, a), (2.0, a + 1.0)]),
            ..fitted("Total", None, 0.0, 0.0)
        };
        assert!(finding(&[of_two(50.0)]).contains("it takes three sizes"));
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

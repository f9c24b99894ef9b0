//! `kay-pcb`: what a datagram takes the kernel more when its socket is not connected; after Kay and Pasquale 1996, Fig. 8(b), "(Dis)connect
//! (PCB)".
//!
//! ULTRIX connected the protocol control block of such a socket for each sendto(2) and disconnected it again (`in_pcbconnect`,
//! `in_pcbdisconnect`). Linux connects nothing: it takes the address from the user, checks it, and looks the route up each time. So
//! the row is a difference of echoes that take turns, connected and not; it must never be read off one of them.

use std::time::Duration;

use tollgate_run::{
    Cell, Column, Mode, PathId, Source, Table, TrustLine, Unit, Workload, format, present,
};
use tollgate_sampling::{Categories, Classifier};
use tollgate_workload::{Sockets, Spec, Transport};

use super::kay_breakdown::{names, source, unavailable};
use super::{Content, Experiment, Reported};
use crate::claim::{Evidence, Finding, FindingText, Refusal, operations};
use crate::context::{Context, Options};
use crate::echoes;
use crate::error::Error;
use crate::sampled::{self, Mean, Sampled, Split, Subject, Survey};

/// Message sizes: the least and the most of the paper, its median over UDP, and one packet.
const SIZES: [usize; 4] = [1, 128, 1_024, 8_192];
/// For each size and way, when nobody is in a hurry.
const EACH: Duration = Duration::from_millis(2_000);
/// Connected sockets, and sockets that name the other end in each call.
const WAYS: [Transport; 2] = [Transport::Udp, Transport::UdpSendto];

/// Connect and disconnect.
pub(super) struct KayPcb;

impl Experiment for KayPcb {
    fn name(&self) -> &'static str {
        "kay-pcb"
    }

    fn title(&self) -> &'static str {
        "Datagrams over sockets that are not connected"
    }

    fn paper(&self) -> Option<Source> {
        source("Fig. 8(b), section VIII-B")
    }

    fn summary(&self) -> &'static str {
        "what connect and disconnect of sendto() take: UDP over connected sockets and over others"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        place(options).is_some()
    }

    fn measure(&self, context: &mut Context<'_>, _: &str) -> Result<Content, Error> {
        let Some((path, mode)) = place(&context.options) else {
            return Err(Error::NothingToRun {
                workload: Workload::Rr,
                asked: context.options.restrictions(),
            });
        };
        let categories = context.options.categories.clone();
        let categories = categories.unwrap_or_else(Categories::kay);
        let sizes = context.options.sizes_or(&SIZES);
        let subjects = subjects(path, mode, &sizes);
        Ok(
            match sampled::survey(self.name(), subjects, EACH, context)? {
                Sampled::Measured(survey) => View::of(&survey, &sizes, &categories).shown(&survey),
                Sampled::Unavailable(reason) => unavailable(&categories, &reason),
            },
        )
    }
}

/// The first path that the options allow, and its mode.
fn place(options: &Options) -> Option<(PathId, Mode)> {
    let path = echoes::kernel_paths(options).first().copied()?;
    Some((path, echoes::mode(path, options)?))
}

/// Every way over the sizes.
fn subjects(path: PathId, mode: Mode, sizes: &[usize]) -> Vec<Subject> {
    let of = |transport: Transport| {
        sizes.iter().map(move |&size| Subject {
            label: format!("{transport}, {}", format::bytes(size)),
            path,
            // What is not timed would be sampled: no warm-up.
            spec: Spec {
                warmup: 0,
                ..Spec::new(Workload::Rr, size)
            }
            .with_mode(mode.placement, mode.waiting)
            .over(Sockets {
                transport,
                ..Sockets::PLAIN
            }),
        })
    };
    WAYS.into_iter().flat_map(of).collect()
}

/// Measurements, by way and then by size.
struct View<'a> {
    sizes: &'a [usize],
    categories: &'a Categories,
    splits: Vec<Vec<Split>>,
    failures: Vec<Option<String>>,
}

impl<'a> View<'a> {
    fn of(survey: &Survey, sizes: &'a [usize], categories: &'a Categories) -> Self {
        let mut classifier = Classifier::new(categories.clone());
        Self {
            sizes,
            categories,
            splits: (0..survey.subjects.len())
                .map(|at| survey.splits(at, &mut classifier))
                .collect(),
            failures: (survey.observed.iter())
                .map(|one| one.failure.clone())
                .collect(),
        }
    }

    fn shown(&self, survey: &Survey) -> Content {
        let mut trust = survey.trust(self.categories);
        trust.push(survey.covered(self.categories));
        trust.extend(notes());
        Content {
            finding: self.finding(),
            tables: vec![self.table(), self.by_category()],
            figures: Vec::new(),
            trust,
        }
    }

    /// A figure of each round for each message that is received and sent back: two for each round trip, one at each end.
    fn each(&self, way: usize, size: usize, figure: &dyn Fn(&Split) -> f64) -> Vec<f64> {
        let rounds = self.splits[way * self.sizes.len() + size].iter();
        rounds
            .map(|split| figure(split) / (2.0 * split.operations.max(1) as f64))
            .collect()
    }

    /// The extra time of sockets that are not connected, round by round.
    fn more(&self, size: usize, figure: &dyn Fn(&Split) -> f64) -> Option<Mean> {
        let (connected, others) = (self.each(0, size, figure), self.each(1, size, figure));
        let rounds = connected.iter().zip(&others);
        Mean::of(&rounds.map(|(a, b)| b - a).collect::<Vec<_>>())
    }

    fn cell(&self, size: usize, mean: Option<Mean>) -> Cell {
        mean.map_or_else(
            || {
                let failures =
                    [0, 1].map(|way| self.failures[way * self.sizes.len() + size].clone());
                Cell::NotAvailable {
                    reason: failures
                        .into_iter()
                        .flatten()
                        .next()
                        .unwrap_or_else(|| "the run was stopped before it came to this".to_owned()),
                }
            },
            |mean| mean.cell(),
        )
    }

    fn table(&self) -> Table {
        let plot = source("Fig. 8(b)").map_or_else(
            || "Fig. 8(b) is a plot".to_owned(),
            |source| format!("{source} is a plot; its text gives no number of this row"),
        );
        let rows = self.sizes.iter().enumerate().map(|(at, &size)| {
            let mean = |way| Mean::of(&self.each(way, at, &Split::total_ns));
            let cells = vec![
                self.cell(at, mean(0)),
                self.cell(at, mean(1)),
                self.cell(at, self.more(at, &Split::total_ns)),
                Cell::NotAvailable {
                    reason: plot.clone(),
                },
            ];
            present::plain_row(format::size(size), cells)
        });
        let column = |name: &str| Column {
            name: name.to_owned(),
            unit: Unit::Nanoseconds,
        };
        Table {
            id: "pcb".to_owned(),
            title: "UDP: processor time in the kernel for each message received and sent back"
                .to_owned(),
            columns: vec![
                column("Connected, send()"),
                column("Not connected, sendto()"),
                column("Connect and disconnect"),
                column("Connect and disconnect, 1996"),
            ],
            rows: rows.collect(),
        }
    }

    /// The categories that the difference falls into.
    fn by_category(&self) -> Table {
        let rows = names(self.categories).enumerate().map(|(category, name)| {
            let cells = (0..self.sizes.len())
                .map(|at| self.cell(at, self.more(at, &|split| split.category_ns(category))));
            present::plain_row(name, cells.collect())
        });
        Table {
            id: "pcb-categories".to_owned(),
            title: "What sockets that are not connected take more, by category".to_owned(),
            columns: present::size_columns(self.sizes, Unit::Nanoseconds),
            rows: rows.collect(),
        }
    }

    /// The smallest message.
    fn finding(&self) -> FindingText {
        let mut finding = Finding::default();
        let Some(&size) = self.sizes.first() else {
            return finding.finish();
        };
        let [connected, others] = [0, 1].map(|way| self.each(way, 0, &Split::total_ns));
        let rounds = [0, self.sizes.len()].map(|at| operations(&self.splits[at]));
        let fewest = rounds[0].min(rounds[1]);
        let quotient = Evidence::quotient(&others, &connected, fewest).and_then(Evidence::amount);
        let what = "what a socket takes that is not connected";
        let Some(quotient) = finding.claim(what, quotient) else {
            return finding.finish();
        };
        let of = format!("for a message of {}", format::bytes(size));
        match quotient.amount_against() {
            None => finding.say(format!(
                "sockets that are connected and sockets that are not show no difference {of}"
            )),
            Some(more) => {
                let difference = self.more(0, &Split::total_ns);
                let claim = difference
                    .ok_or(Refusal::NoInterval)
                    .and_then(|mean| Evidence::new(mean.value, mean.interval(), fewest).amount());
                let ns = finding.claim("the time of connect and disconnect", claim);
                let ns = ns.map_or_else(String::new, |ns| format!(", {}", ns.duration()));
                finding.say(format!(
                    "a socket that is not connected takes {more} processor time than a connected one {of}{ns}"
                ));
            }
        }
        finding.finish()
    }
}

/// Notes on the meaning of the row in Linux.
fn notes() -> Vec<TrustLine> {
    vec![
        present::note(
            "ULTRIX connected the control block for each sendto() and disconnected it again; Linux takes the address from the user, checks \
             it and looks the route up, and that is what the difference holds",
        ),
        present::note(
            "both ends of an echo are alike, connected or not; slices of both take turns, and a difference is that of the slices of a round",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn subjects_stand_by_way_and_then_by_size() {
        let (path, mode) = place(&Options::default()).unwrap();
        let subjects = subjects(path, mode, &SIZES);
        assert_eq!(subjects.len(), WAYS.len() * SIZES.len());
        for (way, transport) in WAYS.into_iter().enumerate() {
            let spec = &subjects[way * SIZES.len() + 1].spec;
            assert_eq!((spec.sockets.transport, spec.size), (transport, SIZES[1]));
        }
    }

    #[test]
    fn a_difference_is_that_of_two_columns_and_of_its_categories() {
        let options = Options {
            sizes: Some(vec![1, 1_024]),
            ..Options::default()
        };
        let budget = Some(Duration::from_secs(2));
        let mut context = Context::new(options, budget, Cancel::default(), &Silent);
        context.begin("test", 1, 1);
        let shown = KayPcb.run(&mut context).unwrap();
        if shown.tables[0].id != "pcb" {
            tollgate_skip::skipped!("{}", shown.finding);
            return;
        }
        for (at, row) in shown.tables[0].rows.iter().enumerate() {
            let numbers: Vec<f64> = row.cells[..3].iter().filter_map(Cell::number).collect();
            let [connected, others, more] = numbers[..] else {
                panic!("{row:?}");
            };
            assert!((others - connected - more).abs() < 1e-6, "{row:?}");
            let parts = shown.tables[1].rows.iter();
            let sum: f64 = parts.filter_map(|row| row.cells[at].number()).sum();
            assert!((sum - more).abs() < 1e-6);
            assert!(matches!(row.cells[3], Cell::NotAvailable { .. }));
        }
    }
}

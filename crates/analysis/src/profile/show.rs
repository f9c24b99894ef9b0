//! Tables of a profile: those of Kay and Pasquale's figures 5 to 12, the savings and the finding.

use tollgate_papers as papers;
use tollgate_run::{
    Bar, Cell, Column, Experiment, Figure, Interval, Measured, PathId, Row, RowKind, Run, Segment,
    SegmentKind, Source, Table, Unit, format, present, present::plain_row,
};
use tollgate_trace::rows::Protocol;
use tollgate_trace::traffic::Messages;

use super::costs::Costs;
use super::estimate::{Estimate, Per};
use super::savings::{FULL, Of, SAVINGS, Saving};
use super::{MOST_BEYOND, Origin, PROTOCOLS, Profile, View};

const PAPER: &str = "kay-pasquale-1996";

impl Profile<'_> {
    pub(super) fn shown(&self, run: &Run) -> Experiment {
        let mut tables = vec![
            self.messages(),
            self.aggregate(),
            self.published_and_measured(),
        ];
        tables.extend(self.inside());
        tables.push(self.savings());
        Experiment {
            name: "estimate".to_owned(),
            title: format!("Where the time goes on {}", self.trace.name),
            paper: source("Figs. 5 to 12, sections VII and VIII"),
            finding: self.finding(),
            command: self.command(),
            tables,
            figures: self.figure().into_iter().collect(),
            trust: self.trust(run),
        }
    }

    /// The command that gives the same page.
    fn command(&self) -> String {
        let trace = format::quoted(self.trace.name);
        let mut command = format!("tollgate estimate --trace {trace}");
        if self.trace.messages != Messages::default() {
            command.push_str(&format!(" --messages {}", self.trace.messages.name()));
        }
        if self.measured.path != PathId::KernelLoopback {
            command.push_str(&format!(" --path {}", self.measured.path));
        }
        match self.origin {
            Origin::Run(name) => command.push_str(&format!(" --from {}", format::quoted(name))),
            Origin::Measured(flags) => command.push_str(flags),
        }
        command
    }

    /// The table of messages: their count, their time, and the share that is larger than any measured size.
    fn messages(&self) -> Table {
        let row = |view: &View<'_>| {
            let protocols = view.protocols;
            let count: u64 = protocols
                .iter()
                .map(|one| self.trace.traffic.messages(*one))
                .sum();
            let octets: u64 = protocols
                .iter()
                .map(|one| self.trace.traffic.bytes(*one))
                .sum();
            let each = if count == 0 {
                missing("there are none")
            } else {
                Cell::exact(octets as f64 / count as f64)
            };
            let all = vec![1.0; self.categories().len()];
            let time = match &view.load {
                Ok(load) => time_cell(load.ratio(&all, Per::Message).ok_or_else(nothing)),
                Err(reason) => missing(reason),
            };
            let compared = protocols.iter().any(|one| self.measured.of(*one).is_some());
            let beyond = |of_octets: bool| {
                if compared && count > 0 {
                    Cell::exact(100.0 * self.beyond(protocols, of_octets))
                } else {
                    missing("there is nothing to compare")
                }
            };
            let cells = vec![
                Cell::exact(count as f64),
                each,
                time,
                beyond(false),
                beyond(true),
            ];
            plain_row(view.name.as_str(), cells)
        };
        Table {
            id: "messages".to_owned(),
            title: format!(
                "The messages of {}, and the time to receive each and send one of its size",
                self.trace.name
            ),
            columns: vec![
                column("messages", Unit::Count),
                column("user data each", Unit::Bytes),
                column("time each", Unit::Nanoseconds),
                column("beyond the sizes measured", Unit::Percent),
                column("of the user data", Unit::Percent),
            ],
            rows: self.views.iter().map(row).collect(),
        }
    }

    /// The share of messages, or of their octets, that are larger than the largest that was measured.
    pub(super) fn beyond(&self, protocols: &[Protocol], of_octets: bool) -> f64 {
        super::beyond(self.trace.traffic, self.measured, protocols, of_octets)
    }

    /// Figures 5 and 6: the categories' shares of all time.
    fn aggregate(&self) -> Table {
        let both = &self.views[2];
        let names = self.categories();
        let row = |at: usize| {
            let share = |view| self.share(view, |name| is(name == names[at]));
            let mut cells: Vec<Cell> = self
                .views
                .iter()
                .map(|view| share_cell(share(view)))
                .collect();
            let up_to = self.share(both, |name| is(names[..=at].contains(&name)));
            cells.push(share_cell(up_to));
            cells.extend(self.benchmarks.iter().map(|view| share_cell(share(view))));
            plain_row(names[at], cells)
        };
        let mut rows: Vec<Row> = (0..names.len()).map(row).collect();
        let touching = |touching: bool| {
            let share = |view| {
                let estimate = self.touching(view)?;
                Ok(if touching { estimate } else { rest(estimate) })
            };
            let mut cells: Vec<Cell> = self
                .views
                .iter()
                .map(|view| share_cell(share(view)))
                .collect();
            cells.push(Cell::text(""));
            cells.extend(self.benchmarks.iter().map(|view| share_cell(share(view))));
            Row {
                kind: RowKind::Total,
                ..plain_row(
                    if touching {
                        "Touching data"
                    } else {
                        "All else"
                    },
                    cells,
                )
            }
        };
        rows.extend([touching(true), touching(false)]);
        let mut columns: Vec<Column> = self
            .views
            .iter()
            .map(|view| column(&view.name, Unit::Percent))
            .collect();
        columns.push(column("cumulative", Unit::Percent));
        columns.extend(
            self.benchmarks
                .iter()
                .map(|view| column(&view.name, Unit::Percent)),
        );
        Table {
            id: "aggregate".to_owned(),
            title: format!(
                "Shares of all time on {}, and in a benchmark that sends nothing but messages of {}",
                self.trace.name,
                format::size(self.benchmark as usize)
            ),
            columns,
            rows,
        }
    }

    /// The shares that the paper's text states, beside today's.
    fn published_and_measured(&self) -> Table {
        let traces: &[(&str, &str)] = match self.trace.name {
            "kay-lan" => &[("lan", "LAN")],
            "kay-wan" => &[("wan", "WAN")],
            _ => &[("lan", "LAN"), ("wan", "WAN")],
        };
        let protocols = [("tcp", "TCP"), ("udp", "UDP")];
        let mut columns: Vec<Column> = self.views[..2]
            .iter()
            .map(|view| column(&view.name, Unit::Percent))
            .collect();
        for (_, trace) in traces {
            columns.extend(
                protocols.iter().map(|(_, protocol)| {
                    column(&format!("1996, {trace}, {protocol}"), Unit::Percent)
                }),
            );
        }
        let row = |label: &str,
                   measured: &dyn Fn(&View<'_>) -> Result<Estimate, String>,
                   published: &dyn Fn(&str, &str) -> Cell| {
            let mut cells: Vec<Cell> = self.views[..2]
                .iter()
                .map(|view| share_cell(measured(view)))
                .collect();
            for (trace, _) in traces {
                cells.extend(
                    protocols
                        .iter()
                        .map(|(protocol, _)| published(trace, protocol)),
                );
            }
            plain_row(label, cells)
        };
        let touching =
            |trace: &str, protocol: &str| printed("data-touching-share", trace, protocol);
        // The text tells the shares of ProtSpec for the LAN trace alone.
        let protocol_share = |row: &'static str| {
            move |trace: &str, protocol: &str| match trace {
                "lan" => printed("protspec-share", row, protocol),
                _ => missing(
                    "Kay and Pasquale 1996 give it for their LAN trace alone, elsewhere in a plot",
                ),
            }
        };
        let transport = |view: &View<'_>| {
            let parts = ["TCP protl", "UDP protl"];
            self.part_share(view, |name, _| parts.contains(&name))
        };
        let mut rows = vec![
            row("Touching data", &|view| self.touching(view), &touching),
            row(
                "ProtSpec",
                &|view| self.share(view, |name| is(name == "ProtSpec")),
                &protocol_share("protspec"),
            ),
        ];
        if !self.measured.parts.is_empty() && self.measured.path.is_kernel() {
            rows.push(Row {
                depth: 1,
                ..row(
                    "of which TCP's or UDP's own",
                    &transport,
                    &protocol_share("transport"),
                )
            });
        }
        Table {
            id: "then-and-now".to_owned(),
            title:
                "Beside Kay and Pasquale's text, which states these shares of their figures 5 and 6"
                    .to_owned(),
            columns,
            rows,
        }
    }

    /// The share of some parts of categories in all time.
    fn part_share(
        &self,
        view: &View<'_>,
        holds: impl Fn(&str, &str) -> bool,
    ) -> Result<Estimate, String> {
        let load = view.parts.as_ref().map_err(Clone::clone)?;
        let Some((_, costs)) = self.measured.parts.first() else {
            return Err("the run holds no kay-detail".to_owned());
        };
        let factors: Vec<f64> = costs
            .parts
            .iter()
            .map(|part| is(holds(&part.name, &part.category)))
            .collect();
        let all = vec![1.0; factors.len()];
        load.ratio(&factors, Per::Parts(&all)).ok_or_else(nothing)
    }

    /// Figures 7 to 12: the parts of the categories.
    fn inside(&self) -> Option<Table> {
        let (_, costs) = self.measured.parts.first()?;
        let views = &self.views[..2];
        let load = |view: &'_ View<'_>, part: usize| -> (Cell, Cell) {
            let load = match &view.parts {
                Ok(load) => load,
                Err(reason) => return (missing(reason), missing(reason)),
            };
            let factors = one(costs, |at| at == part);
            let category = one(costs, |at| {
                costs.parts[at].category == costs.parts[part].category
            });
            let all = vec![1.0; factors.len()];
            let of_category = load.ratio(&factors, Per::Parts(&category));
            let of_all = load.ratio(&factors, Per::Parts(&all));
            (
                share_cell(of_category.ok_or_else(|| "the category takes no time here".to_owned())),
                share_cell(of_all.ok_or_else(nothing)),
            )
        };
        let mut rows = Vec::new();
        let mut heading = "";
        for (at, part) in costs.parts.iter().enumerate() {
            if part.category != heading {
                heading = &part.category;
                rows.push(Row {
                    kind: RowKind::Total,
                    ..plain_row(heading, Vec::new())
                });
            }
            let (of_category, of_all): (Vec<Cell>, Vec<Cell>) =
                views.iter().map(|view| load(view, at)).unzip();
            let cells = of_category.into_iter().chain(of_all).collect();
            rows.push(Row {
                depth: 1,
                ..plain_row(&part.name, cells)
            });
        }
        let names = ["of the category", "of all"]
            .into_iter()
            .flat_map(|of| views.iter().map(move |view| format!("{}, {of}", view.name)));
        Some(Table {
            id: "inside".to_owned(),
            title: format!("Inside each category on {}", self.trace.name),
            columns: names.map(|name| column(&name, Unit::Percent)).collect(),
            rows,
        })
    }

    /// The table of savings by each optimisation, on this traffic and in a benchmark.
    fn savings(&self) -> Table {
        let views = || self.views.iter().chain(&self.benchmarks);
        let row = |saving: &Saving| {
            let cells = views().map(|view| {
                let saved = match saving.of {
                    Of::Category(category, share) => self.saved_of_category(view, category, share),
                    Of::Parts(parts, share) => self.saved_of_parts(view, parts, share),
                    Of::Pairs => self.saved_of_pairs(view),
                };
                share_cell(saved)
            });
            Row {
                note: Some(saving.meaning.to_owned()),
                ..plain_row(saving.label, cells.collect())
            }
        };
        Table {
            id: "savings".to_owned(),
            title: format!(
                "What would be saved of all time on {}, and in a benchmark with messages of {}",
                self.trace.name,
                format::size(self.benchmark as usize)
            ),
            columns: views()
                .map(|view| column(&view.name, Unit::Percent))
                .collect(),
            rows: SAVINGS.iter().map(row).collect(),
        }
    }

    fn saved_of_category(
        &self,
        view: &View<'_>,
        category: &str,
        share: f64,
    ) -> Result<Estimate, String> {
        if !self.categories().contains(&category) {
            return Err(format!("the run has no category {category}"));
        }
        self.share(view, |name| share * is(name == category))
    }

    /// A larger MTU makes full segments larger. Datagrams are cut below UDP, which costs of datagrams do not show.
    fn saved_of_pairs(&self, view: &View<'_>) -> Result<Estimate, String> {
        if !view.protocols.contains(&Protocol::Tcp) {
            return Err(
                "only segments of TCP are messages that a larger MTU makes larger".to_owned(),
            );
        }
        if self.trace.messages != Messages::Segments {
            return Err(
                "what applications write is not cut by the MTU; --messages segments shows segments"
                    .to_owned(),
            );
        }
        let load = view.load.as_ref().map_err(Clone::clone)?;
        load.in_pairs(|size| FULL.contains(&size))
            .ok_or_else(nothing)
    }

    fn saved_of_parts(
        &self,
        view: &View<'_>,
        parts: &[&str],
        share: f64,
    ) -> Result<Estimate, String> {
        let (_, costs) = self
            .measured
            .parts
            .first()
            .ok_or("the run holds no kay-detail, which has these parts")?;
        let factors: Vec<f64> = costs
            .parts
            .iter()
            .map(|part| share * is(parts.contains(&part.name.as_str())))
            .collect();
        if factors.iter().all(|factor| *factor == 0.0) {
            return Err(format!("{} has no such parts", self.measured.path));
        }
        let load = view.parts.as_ref().map_err(Clone::clone)?;
        let all = vec![1.0; factors.len()];
        load.ratio(&factors, Per::Parts(&all)).ok_or_else(nothing)
    }

    /// The categories as bars: the time of a mean message of each protocol, and of the benchmark's.
    fn figure(&self) -> Option<Figure> {
        let names = self.categories();
        let bar = |view: &View<'_>| {
            // Parts of which nothing is told make no whole.
            let _ = self.touching(view).and_then(stated).ok()?;
            let load = view.load.as_ref().ok()?;
            let segments = (0..names.len()).map(|at| {
                let factors: Vec<f64> = (0..names.len()).map(|one| is(one == at)).collect();
                Some(Segment {
                    label: names[at].to_owned(),
                    layer: None,
                    kind: SegmentKind::Processing,
                    value: load.ratio(&factors, Per::Message)?.value.max(0.0),
                })
            });
            Some(Bar {
                label: view.name.clone(),
                total_measured: None,
                segments: segments.collect::<Option<_>>()?,
            })
        };
        let bars: Vec<Bar> = self
            .views
            .iter()
            .chain(&self.benchmarks)
            .filter_map(bar)
            .collect();
        (!bars.is_empty()).then(|| Figure::StackedBars {
            title: format!(
                "The mean time of a message on {}, by category",
                self.trace.name
            ),
            unit: Unit::Nanoseconds,
            bars,
            command: self.command(),
        })
    }

    fn finding(&self) -> String {
        let percent = |view: &View<'_>| {
            let touching = self.touching(view).and_then(stated).ok()?;
            Some(100.0 * (1.0 - touching.value))
        };
        let untold: Vec<String> = self.views[..2]
            .iter()
            .filter(|view| self.trace.traffic.messages(view.protocols[0]) > 0)
            .filter_map(|view| {
                let reason = self.touching(view).and_then(stated).err()?;
                Some(format!("nothing of {}, since {reason}", view.name))
            })
            .collect();
        let named: Vec<(&View<'_>, f64)> = self.views[..2]
            .iter()
            .filter_map(|view| Some((view, percent(view)?)))
            .collect();
        let benchmark: Vec<String> = self
            .benchmarks
            .iter()
            .zip(&self.views)
            .filter(|(_, view)| view.load.is_ok())
            .filter_map(|(one, view)| Some(format!("{:.0} % for {}", percent(one)?, view.name)))
            .collect();
        let whole = percent(&self.views[2]).or(named.first().map(|(_, share)| *share));
        let (Some(whole), [first, ..]) = (whole, named.as_slice()) else {
            let advice = if self.beyond(PROTOCOLS[2], true) > MOST_BEYOND {
                " Without --from, or with --size, larger ones are measured."
            } else {
                " A longer measurement (--for) tells more."
            };
            return format!(
                "Where the time goes on {} cannot be told from these costs: {}.{advice}",
                self.trace.name,
                untold.join("; ")
            );
        };
        let of = match named.as_slice() {
            [_] => format!(" ({} alone)", first.0.name),
            all => {
                let all: Vec<String> = all
                    .iter()
                    .map(|(view, share)| format!("{} {share:.0} %", view.name))
                    .collect();
                format!(" ({})", all.join(", "))
            }
        };
        format!(
            "On {}, {whole:.0} % of the time over {} goes to what does not touch data{of}; in a benchmark with messages of {} it would be {}{}.",
            self.trace.name,
            self.measured.path,
            format::size(self.benchmark as usize),
            format::list(&benchmark),
            untold
                .iter()
                .map(|one| format!("; {one}"))
                .collect::<String>(),
        )
    }
}

pub(super) fn is(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

fn one(costs: &Costs, holds: impl Fn(usize) -> bool) -> Vec<f64> {
    (0..costs.parts.len()).map(|at| is(holds(at))).collect()
}

fn rest(share: Estimate) -> Estimate {
    Estimate {
        value: 1.0 - share.value,
        interval: share.interval.map(|interval| Interval {
            low: 1.0 - interval.high,
            high: 1.0 - interval.low,
        }),
        ..share
    }
}

fn nothing() -> String {
    "no time was measured".to_owned()
}

fn missing(reason: impl Into<String>) -> Cell {
    Cell::NotAvailable {
        reason: reason.into(),
    }
}

fn column(name: &str, unit: Unit) -> Column {
    Column {
        name: name.to_owned(),
        unit,
    }
}

/// Of a share that is known no better than this to either side nothing is told: the categories of a message differ by less.
const LEAST_STATED: f64 = 0.2;

/// The share, unless too little is known of it.
fn stated(share: Estimate) -> Result<Estimate, String> {
    let half_width = share.half_width();
    if half_width < LEAST_STATED {
        return Ok(share);
    }
    Err(format!(
        "known to within ±{} % only",
        format::significant(100.0 * half_width)
    ))
}

/// A share in percent, with its interval.
fn share_cell(share: Result<Estimate, String>) -> Cell {
    cell(share.and_then(stated), 100.0)
}

/// A time with its interval, unless it could as well be none.
fn time_cell(time: Result<Estimate, String>) -> Cell {
    let time = time.and_then(|time| {
        if time.half_width() < time.value {
            return Ok(time);
        }
        Err(format!(
            "known to within ±{} only",
            format::duration(time.half_width())
        ))
    });
    cell(time, 1.0)
}

/// A cell with its interval.
fn cell(estimate: Result<Estimate, String>, scale: f64) -> Cell {
    match estimate {
        Ok(estimate) => Cell::Value(Measured {
            value: scale * estimate.value,
            ci: estimate.interval.map(|interval| Interval {
                low: scale * interval.low,
                high: scale * interval.high,
            }),
            ..Measured::default()
        }),
        Err(reason) => missing(reason),
    }
}

fn source(place: &str) -> Option<Source> {
    Some(papers::source_at(papers::paper(PAPER)?, place))
}

/// A number of one of the paper's tables.
fn printed(table: &str, row: &str, column: &str) -> Cell {
    let id = format!("{PAPER}/{table}");
    match (papers::table(&id), papers::source(&id)) {
        (Some(table), Some(source)) => present::published_cell(table.cell(row, column), &source),
        _ => missing("the paper has no such table"),
    }
}

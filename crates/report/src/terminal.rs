//! The run as text for a terminal: on one screen, or experiment by experiment with the finding, the tables, the bars, and how far
//! to trust them.
//!
//! Pure text: the caller knows whether there is a terminal, how wide it is and whether `NO_COLOR` is set. Control
//! characters in the run are replaced, so that no name can move the cursor.

use std::fmt::Write;

use tollgate_run::{
    Axis, Cell, Clock, Column, Experiment, Figure, Host, Layer, Measured, Reading, Row, RowKind,
    Run, Series, Table, TrustLine, format::counted,
};

use crate::format::{alone, frequency, memory, significant};

mod bars;
mod columns;
mod comparison;
mod forest;
mod observe;
mod screen;
mod table;

pub use comparison::render_comparison;
pub use observe::render_observation;
pub use screen::{Rest, render_screen};

/// The widths that tables are laid out for; others are brought into this range.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=200;
/// Space between columns.
const GAP: usize = 2;

/// Amount of an experiment that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The finding, the first table and one line of trust; what else there is is named.
    Brief,
    /// The finding, all tables and bars, and one line of trust.
    Tables,
    /// All of it.
    Whole,
}

/// Renders the experiments of the run for a terminal of `width` columns (60 to 200; other widths are brought into that range), with
/// ANSI colours if `colour`.
///
/// Curves are not drawn: their numbers are in the tables. Lines that belong to no table are shown as one.
#[must_use]
pub fn render(run: &Run, detail: Detail, width: usize, colour: bool) -> String {
    let mut page = Page::new(width, colour);
    page.head(run);
    for experiment in &run.experiments {
        page.experiment(experiment, detail);
    }
    page.text
}

/// Renders one experiment of a run, as [`render`] does; with `table`, that one of its tables alone.
#[must_use]
pub fn render_experiment(
    experiment: &Experiment,
    table: Option<&Table>,
    detail: Detail,
    width: usize,
    colour: bool,
) -> String {
    let mut page = Page::new(width, colour);
    match table {
        Some(table) => page.table(table),
        None => page.experiment(experiment, detail),
    }
    page.text.trim_start_matches('\n').to_owned()
}

/// Renders a finding, its tables, and how far to trust them, of something that is no run; as [`render`] does.
#[must_use]
pub fn render_tables(
    finding: &str,
    tables: &[Table],
    trust: &[String],
    width: usize,
    colour: bool,
) -> String {
    let mut page = Page::new(width, colour);
    page.wrap(Ink::Bold, "", 0, finding);
    tables.iter().for_each(|table| page.table(table));
    if !trust.is_empty() {
        page.line("");
    }
    for line in trust {
        page.wrap(Ink::Faint, "  ", 2, line);
    }
    page.text
}

/// Emphasis of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ink {
    Plain,
    Bold,
    Faint,
    Warning,
    Of(Layer),
}

/// The text under construction.
struct Page {
    text: String,
    width: usize,
    colour: bool,
}

impl Page {
    /// An empty page; widths that tables are not laid out for are brought into range.
    fn new(width: usize, colour: bool) -> Self {
        Self {
            text: String::new(),
            width: width.clamp(*WIDTHS.start(), *WIDTHS.end()),
            colour,
        }
    }

    /// The text in the given ink; the caller has padded it already.
    fn ink(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            _ if !self.colour => return text.to_owned(),
            Ink::Plain => return text.to_owned(),
            Ink::Bold => "1",
            Ink::Faint => "2",
            Ink::Warning => "1;33",
            // The nearest colours of the 256-colour cube to those of the HTML figures.
            Ink::Of(Layer::Socket) => "38;5;32",
            Ink::Of(Layer::Tcp) => "38;5;202",
            Ink::Of(Layer::Ip) => "38;5;214",
            Ink::Of(Layer::Device) => "38;5;36",
            Ink::Of(Layer::Driver) => "38;5;176",
            Ink::Of(Layer::Link) => "38;5;117",
            Ink::Of(Layer::Scheduler) => "38;5;168",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    /// Wraps words to the width; lines after the first are indented by `hang`.
    fn wrap(&mut self, ink: Ink, first: &str, hang: usize, text: &str) {
        for (at, line) in wrap_words(&clean(text), self.width - hang)
            .iter()
            .enumerate()
        {
            let lead = if at == 0 {
                first.to_owned()
            } else {
                " ".repeat(hang)
            };
            let line = lead + &self.ink(ink, line);
            self.line(&line);
        }
    }

    fn head(&mut self, run: &Run) {
        let tool = format!("Tollgate {}", run.tool.version);
        let parts = [tool, host_line(&run.host), clock_line(&run.clock)];
        self.wrap(Ink::Bold, "", 0, &parts.join(" · "));
        let kind = if run.quick { "quick run" } else { "run" };
        let mut facts = vec![format!(
            "{} · {kind} of {} s",
            run.started,
            significant(run.elapsed_s)
        )];
        facts.extend(host_facts(&run.host));
        self.wrap(Ink::Faint, "", 0, &facts.join(" · "));
        if let Some(remote) = &run.remote {
            let mut facts = vec![host_line(&remote.host)];
            facts.extend(host_facts(&remote.host));
            let line = format!("other end: {} · {}", remote.address, facts.join(" · "));
            self.wrap(Ink::Faint, "", 0, &line);
        }
        self.warnings(run);
    }

    fn warnings(&mut self, run: &Run) {
        for warning in &run.warnings {
            self.warning(warning);
        }
    }

    fn warning(&mut self, warning: &str) {
        let lead = self.ink(Ink::Warning, "warning: ");
        self.wrap(Ink::Plain, &lead, 9, warning);
    }

    fn experiment(&mut self, experiment: &Experiment, detail: Detail) {
        self.line("");
        let paper = experiment
            .paper
            .as_ref()
            .map_or(String::new(), |source| format!(" (after {source})"));
        let rule = "─".repeat(self.width);
        let rule = self.ink(Ink::Faint, &rule);
        self.line(&rule);
        self.wrap(Ink::Bold, "", 0, &format!("{}{paper}", experiment.title));
        self.wrap(Ink::Plain, "", 0, &experiment.finding);
        let tables = match detail {
            Detail::Brief => experiment.tables.len().min(1),
            Detail::Tables | Detail::Whole => experiment.tables.len(),
        };
        let (shown, other) = experiment.tables.split_at(tables);
        shown.iter().for_each(|table| self.table(table));
        let drawn = match detail {
            Detail::Brief => &[][..],
            Detail::Tables | Detail::Whole => &experiment.figures[..],
        };
        for figure in drawn {
            match figure {
                Figure::StackedBars {
                    title,
                    unit,
                    bars,
                    command: _,
                } => self.bars(title, *unit, bars),
                Figure::Lines {
                    title,
                    x,
                    y,
                    series,
                    command: _,
                } if experiment.tables.is_empty() => {
                    self.table(&lines_as_table(title, x, y, series));
                }
                Figure::Lines { .. } => {}
                Figure::Forest {
                    title,
                    panels,
                    rows,
                    command: _,
                } => self.forest(title, panels, rows),
            }
        }
        if !experiment.trust.is_empty() || !other.is_empty() {
            self.line("");
        }
        match detail {
            Detail::Whole => experiment.trust.iter().for_each(|line| self.trust(line)),
            Detail::Brief | Detail::Tables => self.trust_in_one_line(&experiment.trust),
        }
        if !other.is_empty() {
            let names: Vec<&str> = other.iter().map(|table| table.id.as_str()).collect();
            let text = format!("not shown: {}; --verbose prints all", names.join(", "));
            self.wrap(Ink::Faint, "  ", 2, &text);
        }
        self.wrap(
            Ink::Faint,
            &self.ink(Ink::Faint, "$ "),
            2,
            &experiment.command,
        );
    }

    fn trust(&mut self, line: &TrustLine) {
        let lead = if line.holds {
            "  ".to_owned()
        } else {
            self.ink(Ink::Warning, "! ")
        };
        let ink = if line.holds { Ink::Faint } else { Ink::Plain };
        self.wrap(ink, &lead, 2, &line.text);
    }

    /// The first warning, or the first remark where nothing is to be warned of, and how many more there are.
    fn trust_in_one_line(&mut self, lines: &[TrustLine]) {
        let Some(first) = lines.iter().find(|line| !line.holds).or(lines.first()) else {
            return;
        };
        let warnings = lines.iter().filter(|line| !line.holds).count();
        let others = lines.len() - 1;
        let more = counted(others as u64, "more remark", "more remarks");
        let text = match (others, warnings) {
            (0, _) => first.text.clone(),
            (_, 0..=1) => format!("{} ({more} with --verbose)", first.text),
            (_, warnings) => format!(
                "{} ({more} with --verbose, {} of them warnings)",
                first.text,
                warnings - 1
            ),
        };
        self.trust(&TrustLine {
            text,
            ..first.clone()
        });
    }
}

/// A table with a row for each line and a column for each x.
fn lines_as_table(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> Table {
    let mut xs: Vec<f64> = series
        .iter()
        .flat_map(|line| line.points.iter().map(|point| point.x))
        .collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let column = |at: &f64| Column {
        name: alone(x.unit, *at),
        unit: y.unit,
    };
    let row = |line: &Series| Row {
        label: line.label.clone(),
        depth: 0,
        kind: RowKind::Plain,
        layer: None,
        note: line.published.then(|| "published".to_owned()),
        cells: xs
            .iter()
            .map(|at| match line.points.iter().find(|point| point.x == *at) {
                Some(point) => Cell::Value(Measured {
                    value: point.y,
                    ci: point.ci,
                    ..Measured::default()
                }),
                None => Cell::text(""),
            })
            .collect(),
    };
    Table {
        id: "lines".to_owned(),
        title: title.to_owned(),
        columns: xs.iter().map(column).collect(),
        rows: series.iter().map(row).collect(),
    }
}

fn host_line(host: &Host) -> String {
    let kernel = match &host.kernel {
        Reading::Value { value } => format!("Linux {value}"),
        Reading::NotAvailable { reason } => format!("kernel not available: {reason}"),
    };
    let model = match &host.cpu_model {
        Reading::Value { value } => value.clone(),
        Reading::NotAvailable { reason } => format!("processor not available: {reason}"),
    };
    let cores = match &host.cores {
        Reading::Value { value } => counted((*value).into(), "core", "cores"),
        Reading::NotAvailable { reason } => format!("number of cores not available: {reason}"),
    };
    format!("{kernel} · {model}, {cores}")
}

fn clock_line(clock: &Clock) -> String {
    format!(
        "{} {}, {} to read, resolution {}",
        clock.source.to_uppercase(),
        frequency(clock.hz),
        alone(tollgate_run::Unit::Nanoseconds, clock.read_cost_ns),
        alone(tollgate_run::Unit::Nanoseconds, clock.resolution_ns),
    )
}

/// Facts of the host beyond the head line, and at the end the names of unknown ones. The reasons are in the other renderers.
fn host_facts(host: &Host) -> Vec<String> {
    fn fact<T>(name: &str, reading: &Reading<T>, show: impl Fn(&T) -> String) -> Option<String> {
        Some(format!("{name} {}", show(reading.value()?)))
    }
    let facts = [
        (
            "memory",
            fact("memory", &host.memory_bytes, |bytes| memory(*bytes)),
        ),
        (
            "hypervisor",
            fact("hypervisor", &host.hypervisor, String::clone),
        ),
        ("governor", fact("governor", &host.governor, String::clone)),
        (
            "frequency",
            fact("frequency", &host.frequency_hz, |hz| frequency(*hz as f64)),
        ),
        (
            "mitigations",
            fact("mitigations", &host.mitigations, |list| {
                let count =
                    |state: &str| list.iter().filter(|m| m.state.starts_with(state)).count();
                format!(
                    "{} active, {} vulnerable of {}",
                    count("Mitigation"),
                    count("Vulnerable"),
                    list.len()
                )
            }),
        ),
    ];
    let missing: Vec<&str> = facts
        .iter()
        .filter(|(_, fact)| fact.is_none())
        .map(|(name, _)| *name)
        .collect();
    let mut known: Vec<String> = facts.into_iter().filter_map(|(_, fact)| fact).collect();
    if !missing.is_empty() {
        known.push(format!("not available: {}", missing.join(", ")));
    }
    known
}

/// Replaces control characters.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The number of columns that the text takes; every character counts as one.
fn width(text: &str) -> usize {
    text.chars().count()
}

fn pad_right(text: &str, to: usize) -> String {
    let mut padded = text.to_owned();
    padded.extend(std::iter::repeat_n(' ', to.saturating_sub(width(text))));
    padded
}

fn pad_left(text: &str, to: usize) -> String {
    " ".repeat(to.saturating_sub(width(text))) + text
}

/// Breaks the text between words; a word that is wider than `limit` gets a line of its own.
fn wrap_words(text: &str, limit: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last].push_str(word);
        } else if width(&lines[last]) + 1 + width(word) <= limit {
            let _ = write!(lines[last], " {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_none_is_lost() {
        let text = "one two  three reallyquitelongword four";
        assert_eq!(
            wrap_words(text, 9),
            ["one two", "three", "reallyquitelongword", "four"]
        );
        assert_eq!(wrap_words("", 9), [""]);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\nc\u{9b}d"), "a [2Jb c d");
    }

    #[test]
    fn padding_counts_characters_not_bytes() {
        assert_eq!(pad_right("µ", 3), "µ  ");
        assert_eq!(pad_left("µs", 3), " µs");
        assert_eq!(pad_left("long", 3), "long");
    }
}

//! The run on one screen: the machine, the anatomy of a round trip, at most six findings, how far to trust them, what could not be
//! measured, and where the rest is.
//!
//! It must never take more than 60 lines, at 60 columns or more: what is longer is counted and left to the other renderings.

use tollgate_analysis::summary::{Anatomy, RoundTrip, Stage, Summary, summary};
use tollgate_run::{Layer, Run, Unit};

use super::{Ink, Page, clean, width};
use crate::format::{FormattedColumn, alone, signed_percent};

/// The most lines of a screen.
const SCREEN: usize = 60;
/// Lines on what could not be measured.
const MISSING: usize = 3;
/// The longest sentence on what is missing and the longest list of names, in lines.
const LINES: usize = 2;
/// A bar shorter than this share of the room is drawn again, magnified.
const SHORT: f64 = 0.34;

/// Files and commands with the rest of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rest<'a> {
    /// The HTML file.
    pub html: Option<&'a str>,
    /// The JSON file.
    pub json: Option<&'a str>,
}

/// Renders the run on one screen, for a terminal of `width` columns, with ANSI colours if `colour`.
#[must_use]
pub fn render_screen(run: &Run, rest: &Rest<'_>, width: usize, colour: bool) -> String {
    let summary = summary(run);
    let screen = |words, findings| {
        let page = Page::new(width, colour);
        page.screen(run, &summary, rest, words, findings)
    };
    let all = summary.findings.len();
    let explained = Words::ALL.map(|words| (words, all));
    let fewer = (0..all).rev().map(|findings| (Words::None, findings));
    let mut screens = explained
        .into_iter()
        .chain(fewer)
        .map(|(words, findings)| screen(words, findings));
    let fits = |text: &String| text.lines().count() <= SCREEN;
    screens.find(fits).unwrap_or_else(|| screen(Words::None, 0))
}

/// Amount of explanation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Words {
    /// Only what the numbers are, and the first part of each warning.
    None,
    /// The letters of the bars beside.
    Letters,
    /// The page that says what the words beside the bars mean.
    Referred,
    /// The meaning of a share, of left open and of disabled gates.
    Explained,
}

impl Words {
    const ALL: [Self; 4] = [Self::Explained, Self::Referred, Self::Letters, Self::None];
}

/// Length of the bar, in ns: the spans may sum to more than the round trip.
fn extent(one: &RoundTrip) -> f64 {
    one.total.value.max(one.lengths().iter().sum::<f64>())
}

const fn letter(part: Stage) -> char {
    match part {
        Stage::Application => 'A',
        Stage::Socket => 'S',
        Stage::Tcp => 'T',
        Stage::Ip => 'I',
        Stage::Driver => 'D',
        Stage::DeviceQueue => 'Q',
        Stage::IpQueue => 'P',
        Stage::Wakeup => 'W',
    }
}

const fn ink(part: Stage) -> Ink {
    match part {
        Stage::Application => Ink::Plain,
        Stage::Socket => Ink::Of(Layer::Socket),
        Stage::Tcp => Ink::Of(Layer::Tcp),
        Stage::Ip => Ink::Of(Layer::Ip),
        Stage::Driver => Ink::Of(Layer::Driver),
        Stage::DeviceQueue => Ink::Of(Layer::Device),
        Stage::IpQueue => Ink::Of(Layer::Link),
        Stage::Wakeup => Ink::Of(Layer::Scheduler),
    }
}

impl Page {
    /// The whole screen, with so much about its words and so many findings.
    fn screen(
        mut self,
        run: &Run,
        summary: &Summary,
        rest: &Rest<'_>,
        words: Words,
        findings: usize,
    ) -> String {
        self.short_head(run, words);
        if let Some(anatomy) = &summary.anatomy {
            self.line("");
            let title = format!(
                "Where a round trip of {} goes, to scale",
                tollgate_run::format::bytes(anatomy.size)
            );
            self.wrap(Ink::Bold, "", 0, &title);
            let longest = anatomy.round_trips.iter().map(extent).fold(0.0, f64::max);
            for one in &anatomy.round_trips {
                self.round_trip(one, longest, words);
            }
            self.legend_of_parts(anatomy, words);
        }
        self.findings(summary, words, findings);
        self.section("Trust", &summary.trust, usize::MAX, LINES);
        let (missing, lines) = if words == Words::None {
            (1, 1)
        } else {
            (MISSING, LINES)
        };
        self.section("Not measured", &summary.missing, missing, lines);
        self.rest(run, rest, words);
        self.text
    }

    /// The program, the machine and the time, and what must be known before any number is believed.
    fn short_head(&mut self, run: &Run, words: Words) {
        let kind = if run.quick { "quick run" } else { "run" };
        let parts = [
            format!("Tollgate {}", run.tool.version),
            super::host_line(&run.host),
            format!("{}, {kind} of {:.0} s", run.started, run.elapsed_s),
        ];
        self.wrap(Ink::Bold, "", 0, &parts.join(" · "));
        if let Some(remote) = &run.remote {
            let line = format!(
                "other end: {} · {}",
                remote.address,
                super::host_line(&remote.host)
            );
            self.wrap(Ink::Faint, "", 0, &line);
        }
        for warning in &run.warnings {
            self.warning(if words == Words::None {
                first_clause(warning)
            } else {
                warning
            });
        }
    }

    /// A round trip: its name and total, the bar on the common scale, the bar magnified where that is short, its largest parts.
    fn round_trip(&mut self, one: &RoundTrip, longest: f64, words: Words) {
        let name = format!("{}, {}", one.path, one.mode.words());
        let shown = FormattedColumn::choose(Unit::Nanoseconds, [one.total.value]);
        let mut total = shown.with_unit(one.total.value);
        if let Some(ci) = one.total.ci {
            total = format!("{total} {}", shown.error(one.total.value, ci));
        }
        let mut line = format!("{name}  {}", self.ink(Ink::Bold, &total));
        let remark = if one.stretches.is_empty() {
            "  (no ledger)"
        } else {
            ""
        };
        let fits = width(&name) + 2 + width(&total) + width(remark) <= self.width;
        if fits {
            line += &self.ink(Ink::Faint, remark);
        }
        self.line(&line);
        if !fits && words != Words::None {
            let remark = self.ink(Ink::Faint, remark);
            self.line(&remark);
        }
        let room = self.width - 2;
        let cells = (extent(one) / longest * room as f64).max(1.0);
        let bar = self.bar(one, cells);
        self.line(&format!("  {bar}"));
        if one.stretches.is_empty() {
            return;
        }
        if cells < SHORT * room as f64 {
            let exact = extent(one) / longest * room as f64;
            let factor = ((room as f64 - 6.0) / exact).floor();
            let times = format!("x{factor} ");
            let bar = self.bar(one, exact * factor);
            let lead = self.ink(Ink::Faint, &times);
            self.line(&format!("  {lead}{bar}"));
        }
        let most = if words == Words::None { 1 } else { usize::MAX };
        self.wrap(Ink::Plain, "  ", 2, &largest(one, most));
    }

    /// A bar of so many characters; each stretch begins with its letter where it has room.
    fn bar(&self, one: &RoundTrip, cells: f64) -> String {
        let extent = extent(one);
        let at = |ns: f64| (ns / extent * cells).round() as usize;
        let (mut bar, mut drawn, mut sum) = (String::new(), 0, 0.0);
        // One character stands for no part of several.
        if one.stretches.is_empty() || at(extent) < 2 {
            return "▇".repeat(at(extent).max(1));
        }
        for (stretch, length) in one.stretches.iter().zip(one.lengths()) {
            sum += length;
            let end = at(sum);
            let cells = end.saturating_sub(drawn);
            drawn = drawn.max(end);
            if cells > 0 {
                let fill = if stretch.part.waits() { "▒" } else { "▇" };
                let text = letter(stretch.part).to_string() + &fill.repeat(cells - 1);
                bar += &self.ink(ink(stretch.part), &text);
            }
        }
        let open = at(extent).saturating_sub(drawn);
        bar += &self.ink(Ink::Faint, &"░".repeat(open));
        bar
    }

    /// The text, cut at a word where it takes more lines.
    fn shortened(&self, text: &str, lines: usize) -> String {
        let longest = lines * (self.width - 2) - 8;
        if width(text) <= longest {
            return text.to_owned();
        }
        let kept: String = text.chars().take(longest).collect();
        let end = kept.rfind(' ').unwrap_or(kept.len());
        format!("{} ...", &kept[..end])
    }

    fn legend_of_parts(&mut self, anatomy: &Anatomy, words: Words) {
        let parts: Vec<String> = Stage::ALL
            .iter()
            .map(|part| format!("{} {}", letter(*part), part.name()))
            .collect();
        self.wrap(
            Ink::Faint,
            "",
            0,
            &format!("{} · ▇ processing ▒ waiting ░ left open", parts.join("  ")),
        );
        let mut explained =
            "A share is a range: what is left open may belong to any part. Left open: time in no span; below 0 the spans sum to more."
                .to_owned();
        if anatomy.round_trips.iter().any(|one| one.disabled_ns > 0.0) {
            explained += " Disabled gates: measuring code that is off; spans include it, the round trip does not.";
        }
        let text = match words {
            Words::Explained => explained,
            Words::Referred => "docs/spans.md says what each of these words means.".to_owned(),
            Words::Letters | Words::None => return,
        };
        self.wrap(Ink::Faint, "", 0, &text);
    }

    fn findings(&mut self, summary: &Summary, words: Words, most: usize) {
        if summary.findings.is_empty() && summary.refused.is_none() {
            return;
        }
        self.line("");
        self.wrap(Ink::Bold, "", 0, "Findings");
        for (at, finding) in summary.findings.iter().take(most).enumerate() {
            let lead = format!("{} ", at + 1);
            self.wrap(Ink::Plain, &lead, 2, &finding.text);
        }
        self.more(summary.findings.len().saturating_sub(most));
        if let Some(refused) = summary.refused.as_ref().filter(|_| words != Words::None) {
            let text = self.shortened(refused, LINES);
            self.wrap(Ink::Faint, "  ", 2, &text);
        }
    }

    /// A heading with at most so many texts of so many lines under it.
    fn section(&mut self, heading: &str, texts: &[String], most: usize, lines: usize) {
        if texts.is_empty() {
            return;
        }
        self.line("");
        self.wrap(Ink::Bold, "", 0, heading);
        for text in texts.iter().take(most) {
            let text = self.shortened(text, lines);
            self.wrap(Ink::Plain, "  ", 2, &text);
        }
        self.more(texts.len().saturating_sub(most));
    }

    /// Says that so many others are left to the other renderings.
    fn more(&mut self, more: usize) {
        if more > 0 {
            let text = format!("and {more} more, in the files below");
            self.wrap(Ink::Faint, "  ", 2, &text);
        }
    }

    /// Writes the commands that show the rest.
    fn rest(&mut self, run: &Run, rest: &Rest<'_>, words: Words) {
        self.line("");
        self.wrap(Ink::Bold, "", 0, "Next");
        let json = rest
            .json
            .map_or("RUN.json".to_owned(), tollgate_run::format::quoted);
        let mut lines = Vec::new();
        if let Some(html) = rest.html {
            lines.push((html.to_owned(), "every figure and table on one page"));
        }
        if run.quick {
            lines.push((
                "tollgate report".to_owned(),
                "adds instructions, processor time, packets, queues: 3 minutes",
            ));
        }
        lines.push((
            format!("tollgate compare {json} AFTER.json"),
            "what a change made worse or better",
        ));
        lines.push((
            "tollgate doctor --self-test".to_owned(),
            "whether known delays are found",
        ));
        lines.push((
            format!("tollgate show {json} NAME"),
            "prints the tables of NAME",
        ));
        let commands = lines.iter().map(|(command, _)| width(command)).max();
        let explained = lines.iter().map(|(_, what)| width(what)).max();
        let (commands, explained) = (commands.unwrap_or(0), explained.unwrap_or(0));
        let is_wide = commands + explained + 4 <= self.width;
        for (command, what) in &lines {
            if is_wide {
                let lead = format!("  {:commands$}  ", clean(command));
                self.wrap(Ink::Faint, &lead, commands + 4, what);
            } else {
                // What they do would take the lines that a narrow screen needs for findings.
                self.line(&format!("  {}", clean(command)));
            }
        }
        let names: Vec<&str> = run
            .experiments
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        let all = format!("NAME is one of: {}", names.join(" "));
        let is_short = super::wrap_words(&all, self.width - 4).len() <= LINES;
        let listed = format!(
            "NAME is one of {} that tollgate experiment list shows",
            names.len()
        );
        let is_listed = is_short || is_wide && words != Words::None;
        let text = if is_listed { &all } else { &listed };
        self.wrap(Ink::Faint, "    ", 4, text);
    }
}

/// A warning without what follows from it.
fn first_clause(warning: &str) -> &str {
    let end = warning.find([':', ';']).unwrap_or(warning.len());
    &warning[..end]
}

/// At most so many of the three largest parts, and what the ledger leaves open. With one part alone it is a line.
fn largest(one: &RoundTrip, most: usize) -> String {
    let parts = one.largest_stages();
    let mut words: Vec<String> = parts
        .iter()
        .take(most)
        .map(|(part, ns)| {
            let share = one.share_in_words(*part);
            let share = share.map_or(String::new(), |share| format!(" ({share})"));
            format!("{} {}{share}", part.name(), alone(Unit::Nanoseconds, *ns))
        })
        .collect();
    if one.disabled_ns > 0.0 && most > 1 {
        words.push(format!(
            "disabled gates {}",
            signed_percent(one.disabled_ns / one.total.value)
        ));
    }
    if let Some(open) = one.open_ns {
        words.push(format!(
            "left open {}",
            signed_percent(open / one.total.value)
        ));
    }
    words.join(" · ")
}

//! The run as one HTML file: the anatomy of a round trip, six findings and the round trip by size on the first screen; then chapters
//! that open on demand, each experiment with its first figure, its first table and one line of trust, all else folded.
//!
//! The file needs no network, no font and no script: figures are inline SVG, values appear on hovering by `<title>`,
//! light and dark follow the reader's system. Everything that comes from the run is escaped.

use std::collections::BTreeSet;

use tollgate_analysis::summary::{Anatomy, Summary, ledger, summary};
use tollgate_run::{
    Clock, Experiment, Figure, Host, Mitigation, Reading, RemoteEnd, Run, Table, TrustKind,
    TrustLine, Unit, format, format::counted,
};

use crate::format::{alone, frequency, memory, significant};

mod anatomy;
mod bars;
mod forest;
mod lines;
mod markup;
mod palette;
mod panels;
mod table;

use markup::Markup;
use panels::{Drawing, Lines};
use table::Hover;

const STYLE: &str = include_str!("html/style.css");

/// Renders the run as a complete HTML document.
#[must_use]
pub fn render(run: &Run) -> String {
    let mut page = Page {
        out: Markup::default(),
        figures: 0,
        tables: 0,
        folded_figures: MOST_FIGURES.saturating_sub(1 + run.experiments.len()),
        lines: palette::LineStyles::of(run),
        drawn: BTreeSet::new(),
        said: BTreeSet::new(),
    };
    page.document(run);
    page.out.into_text()
}

/// The anatomy of a round trip as an SVG document.
pub(crate) fn standalone_anatomy(anatomy: &Anatomy) -> String {
    let style = format!(
        "{}{}\n{}",
        palette::style(),
        STYLE,
        ".chart{font-family:system-ui,sans-serif}svg{background:var(--paper)}"
    );
    anatomy::standalone(anatomy, &style)
}

/// The document under construction, with the numbers of figures and tables so far.
struct Page {
    out: Markup,
    figures: usize,
    tables: usize,
    /// Figures that may still be drawn beside the anatomy and the first of each experiment.
    folded_figures: usize,
    lines: palette::LineStyles,
    /// The drawings that stand on the first screen: the experiment, and which of its drawings.
    drawn: BTreeSet<(String, usize)>,
    /// The remarks that stand somewhere already.
    said: BTreeSet<String>,
}

/// The most figures of a page. The first figure of each experiment goes before those that are folded.
const MOST_FIGURES: usize = 40;
/// Bytes of the longest remark below the findings that is not folded.
const LONGEST_REMARK: usize = 200;

/// A chapter of the page.
struct Chapter {
    title: &'static str,
    /// Its experiments; none for those of no other chapter.
    experiments: &'static [&'static str],
}

/// The chapter with the ledger of both directions, above the tables of the paper.
const LEDGER: &str = "Where the time goes";
/// The chapter of what other commands add to a run.
const TRAFFIC: &str = "Your traffic";

const CHAPTERS: [Chapter; 11] = [
    Chapter {
        title: "Latency",
        experiments: &["rr-by-size", "crr", "wolman-networks"],
    },
    Chapter {
        title: LEDGER,
        experiments: &["wolman-transmit", "wolman-receive", "wolman-offload"],
    },
    Chapter {
        title: "Throughput, and cycles for each bit",
        experiments: &[
            "stream-by-write-size",
            "foong-hz",
            "foong-direction",
            "foong-memory",
            "foong-offload",
            "foong-sendfile",
        ],
    },
    Chapter {
        title: "Over real links",
        experiments: &["links", "links-ledger"],
    },
    Chapter {
        title: "The processor",
        experiments: &[
            "kay-breakdown",
            "kay-detail",
            "kay-pcb",
            "kay-stack",
            "foong-profile",
            "clark-direct",
        ],
    },
    Chapter {
        title: "Packets and queues",
        experiments: &[
            "lehmann-bandwidth",
            "lehmann-processing",
            "lehmann-queues",
            "lehmann-budget",
        ],
    },
    Chapter {
        title: "Mechanisms",
        experiments: &[
            "ablation",
            "stream-ablation",
            "wolman-prediction",
            "wolman-mbuf",
            "wolman-pcb",
            "clark-tcb-cache",
            "wolman-checksum",
            "wolman-combined",
            "wolman-elimination",
            "foong-csumcopy",
            "foong-prepost",
            "kay-throughput",
            "wolman-errors",
            "congestion",
        ],
    },
    Chapter {
        title: "Instructions",
        experiments: &["clark-instructions"],
    },
    Chapter {
        title: TRAFFIC,
        experiments: &["estimate"],
    },
    Chapter {
        title: "More",
        experiments: &[],
    },
    Chapter {
        title: "The five papers, then and now",
        // Runs of schema 1 call it history.
        experiments: &["papers", "history"],
    },
];

/// The chapter on the reader's traffic where a run holds none.
const NO_TRAFFIC: &str = "<p class=\"finding\">This run has no traffic of yours: <code>tollgate observe --port PORT</code> shows where \
     the time of live traffic goes, <code>tollgate trace sizes FILE</code> the message sizes of a capture, and <code>tollgate estimate \
     --trace FILE</code> the time that such traffic takes here.</p>\n";

/// Tells whether the statement is about a ledger: those stand together.
const fn is_of_ledger(line: &TrustLine) -> bool {
    !matches!(line.kind, TrustKind::Note)
}

const fn about(kind: TrustKind) -> &'static str {
    match kind {
        TrustKind::Closure => "Closure",
        TrustKind::Residual => "Left open",
        TrustKind::Perturbation => "Gate cost",
        TrustKind::EventsLost => "Events lost",
        TrustKind::JoinRate => "Coverage",
        TrustKind::Note => "Remark",
    }
}

impl Page {
    fn document(&mut self, run: &Run) {
        self.out
            .raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        self.out
            .raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        self.out
            .raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
        // Nothing may be fetched, whatever a name in the run may look like.
        self.out.raw(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n",
        );
        self.out.element("title", &title(run));
        self.out
            .raw("\n<style>\n")
            .raw(&palette::style())
            .raw(STYLE)
            .raw("</style>\n</head>\n<body>\n");
        self.out.raw(&palette::patterns());
        let summary = summary(run);
        self.header(run);
        self.out.raw("<main>\n");
        self.first_screen(run, &summary);
        self.chapters(run, &summary);
        self.belief(run);
        self.host(run);
        self.out.raw("</main>\n");
        self.footer(run);
        self.out.raw("</body>\n</html>\n");
    }

    fn header(&mut self, run: &Run) {
        let out = &mut self.out;
        out.raw("<header>\n<p class=\"kicker\">Tollgate</p>\n<h1>Where the nanoseconds of TCP/IP go</h1>\n");
        out.raw("<p class=\"dateline\">");
        out.text(&format!("{} · {}", machine(&run.host), when(run)));
        out.raw("</p>\n");
        for warning in &run.warnings {
            out.raw("<p class=\"warning\">");
            out.element("b", "Warning")
                .raw(" ")
                .text(warning)
                .raw("</p>\n");
        }
        out.raw("</header>\n");
    }

    /// Writes the part that is read without opening anything: the anatomy, the findings, the round trip by size.
    fn first_screen(&mut self, run: &Run, summary: &Summary) {
        if let Some(anatomy) = &summary.anatomy {
            self.out
                .raw("<section class=\"first\" aria-label=\"Anatomy\">\n");
            let title = format!(
                "Where a round trip of {} goes, to scale",
                format::bytes(anatomy.size)
            );
            self.figure(&title, None, |page| anatomy::draw(&mut page.out, anatomy));
            self.out.raw("</section>\n");
        }
        if !summary.findings.is_empty() || !summary.trust.is_empty() {
            self.findings(run, summary);
        }
        let rr = run.experiments.iter().find(|one| one.name == "rr-by-size");
        if let (Some(rr), false) = (rr, summary.findings.is_empty())
            && let Some(Drawing::Lines(lines)) = panels::join(&rr.figures).first()
        {
            self.out
                .raw("<section class=\"first\" aria-label=\"Round trip by size\">\n");
            self.lines_figure(lines, Some(&rr.command));
            self.out.raw("</section>\n");
            self.drawn.insert((rr.name.clone(), 0));
        }
    }

    fn findings(&mut self, run: &Run, summary: &Summary) {
        let chapter_of = |name: &str| run.experiments.iter().position(|one| one.name == name);
        let out = &mut self.out;
        out.raw("<section class=\"first\" aria-labelledby=\"findings\">\n<h2 id=\"findings\">Findings</h2>\n<ol class=\"findings\">\n");
        for finding in &summary.findings {
            out.raw("<li>").text(&micro(&finding.text));
            if let Some(at) = chapter_of(finding.experiment) {
                out.raw(&format!(" <a href=\"#e{}\">numbers</a>", at + 1));
            }
            out.raw("</li>\n");
        }
        out.raw("</ol>\n");
        for line in summary.refused.iter().chain(&summary.missing) {
            // What is missing begins with the name of what lacks it.
            let folded = line
                .split_once(": ")
                .filter(|_| line.len() > LONGEST_REMARK);
            if let Some((name, _)) = folded {
                out.raw("<details class=\"refused\"><summary>")
                    .text(name)
                    .raw(": what this run cannot tell, and why</summary>\n");
            }
            out.raw("<p class=\"refused\">")
                .text(&micro(line))
                .raw("</p>\n");
            if folded.is_some() {
                out.raw("</details>\n");
            }
        }
        if !summary.trust.is_empty() {
            out.raw("<p class=\"refused\"><b>Trust.</b> ");
            out.text(&micro(&summary.trust.join(" ")));
            out.raw(" <a href=\"#belief\">Every ledger</a></p>\n");
        }
        out.raw("</section>\n");
    }

    /// The chapters, each closed; a run of few experiments shows them opened.
    fn chapters(&mut self, run: &Run, summary: &Summary) {
        let is_report = run.experiments.len() > 2;
        let open = if is_report { "" } else { " open" };
        for (at, chapter) in CHAPTERS.iter().enumerate() {
            let mine = |name: &str| match chapter.experiments {
                [] => !CHAPTERS.iter().any(|one| one.experiments.contains(&name)),
                names => names.contains(&name),
            };
            let all: Vec<usize> = (0..run.experiments.len())
                .filter(|&at| mine(&run.experiments[at].name))
                .collect();
            let lacks_traffic = all.is_empty() && chapter.title == TRAFFIC && is_report;
            if all.is_empty() && !lacks_traffic {
                continue;
            }
            self.out.raw(&format!(
                "<details class=\"chapter\" id=\"chapter-{}\"{open}><summary><h2>{}</h2></summary>\n",
                at + 1,
                chapter.title
            ));
            let both = summary.anatomy.as_ref().filter(|_| chapter.title == LEDGER);
            let both = both.and_then(|anatomy| ledger(run, anatomy));
            if let Some(both) = &both {
                self.both_directions(both);
                self.out
                    .raw("<details class=\"more\"><summary>")
                    .text("By direction, at every size, beside the numbers of 1994")
                    .raw("</summary>\n");
            }
            for at in all {
                self.experiment(at, &run.experiments[at]);
            }
            if both.is_some() {
                self.out.raw("</details>\n");
            }
            if lacks_traffic {
                self.out.raw(NO_TRAFFIC);
            }
            self.out.raw("</details>\n");
        }
    }

    /// Writes the table of a whole round trip, with the sentence that says how it closes.
    fn both_directions(&mut self, both: &Table) {
        self.out.raw("<section aria-label=\"Both directions\">\n<p class=\"finding\">").text(
            "The spans of both directions and what is left open sum to the round trip without gates.",
        );
        self.out.raw("</p>\n");
        self.table(both, Hover::Nothing);
        self.out.raw("</section>\n");
    }

    /// An experiment: the finding, the first figure, the first table and one line of trust; the rest is folded.
    fn experiment(&mut self, at: usize, experiment: &Experiment) {
        let number = at + 1;
        self.out.raw(&format!(
            "<section id=\"e{number}\" aria-labelledby=\"e{number}-title\">\n<h3 class=\"title\" id=\"e{number}-title\">"
        ));
        self.out.text(&experiment.title).raw("</h3>\n");
        if let Some(paper) = &experiment.paper {
            self.out
                .raw("<p class=\"paper\">after ")
                .text(&paper.to_string())
                .raw("</p>\n");
        }
        self.out
            .raw("<p class=\"finding\">")
            .text(&micro(&experiment.finding))
            .raw("</p>\n");
        let drawings = panels::join(&experiment.figures);
        let mut drawings: Vec<&Drawing<'_>> = drawings
            .iter()
            .enumerate()
            .filter(|(at, _)| !self.drawn.contains(&(experiment.name.clone(), *at)))
            .map(|(_, drawing)| drawing)
            .collect();
        let folded = drawings.split_off(drawings.len().min(1));
        for drawing in drawings {
            self.drawing(drawing);
        }
        let (first, more) = experiment.tables.split_at(experiment.tables.len().min(1));
        for table in first {
            self.table(table, Hover::Percentiles);
        }
        // Each remark stands once on the page.
        let fresh: Vec<&TrustLine> = experiment
            .trust
            .iter()
            .filter(|line| !is_of_ledger(line) && self.said.insert(line.text.clone()))
            .collect();
        let main = fresh.iter().position(|line| !line.holds).unwrap_or(0);
        if let Some(line) = fresh.get(main) {
            self.trust(&[*line]);
        }
        let rest: Vec<&TrustLine> = fresh
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != main)
            .map(|(_, line)| *line)
            .collect();
        if !folded.is_empty() || !more.is_empty() || !rest.is_empty() {
            let counts = [
                (folded.len(), "figure", "figures"),
                (more.len(), "table", "tables"),
                (rest.len(), "remark", "remarks"),
            ];
            let words: Vec<String> = counts
                .iter()
                .filter(|(count, ..)| *count > 0)
                .map(|(count, one, many)| counted(*count as u64, one, many))
                .collect();
            self.out
                .raw("<details class=\"more\"><summary>")
                .text(&format!("{} more", format::list(&words)))
                .raw("</summary>\n");
            let room = folded.len().min(self.folded_figures);
            self.folded_figures -= room;
            for drawing in &folded[..room] {
                self.drawing(drawing);
            }
            if room < folded.len() {
                let more = counted(
                    (folded.len() - room) as u64,
                    "more figure is",
                    "more figures are",
                );
                self.out
                    .raw("<p class=\"command\">")
                    .text(&format!("{more} in the run’s JSON."))
                    .raw("</p>\n");
            }
            for table in more {
                self.table(table, Hover::Nothing);
            }
            if !rest.is_empty() {
                self.trust(&rest);
            }
            self.out.raw("</details>\n");
        }
        self.out
            .raw("<p class=\"command\">")
            .element("code", &experiment.command)
            .raw("</p>\n</section>\n");
    }

    fn table(&mut self, table: &Table, hover: Hover) {
        self.tables += 1;
        table::draw(&mut self.out, self.tables, table, hover);
    }

    fn drawing(&mut self, drawing: &Drawing<'_>) {
        match drawing {
            Drawing::Whole(Figure::StackedBars {
                title, unit, bars, ..
            }) => self.figure(title, None, |page| {
                bars::draw(&mut page.out, title, *unit, bars)
            }),
            Drawing::Whole(Figure::Forest {
                title,
                panels,
                rows,
                command: _,
            }) => self.figure(title, None, |page| {
                forest::draw(&mut page.out, title, panels, rows)
            }),
            Drawing::Whole(Figure::Lines { .. }) => {}
            Drawing::Lines(lines) => self.lines_figure(lines, None),
        }
    }

    fn lines_figure(&mut self, lines: &[Lines<'_>], command: Option<&str>) {
        let title = match lines {
            [one] => one.title.to_owned(),
            several => panels::titles(several).0,
        };
        self.figure(&title, command, |page| {
            panels::draw(&mut page.out, &page.lines, lines)
        });
    }

    /// Writes the statements on the trust in all ledgers, each once. The id is inside: who follows a link to it finds it opened.
    fn belief(&mut self, run: &Run) {
        let mut lines: Vec<(&str, &TrustLine)> = Vec::new();
        for experiment in &run.experiments {
            for line in experiment.trust.iter().filter(|line| is_of_ledger(line)) {
                if self.said.insert(line.text.clone()) {
                    lines.push((&experiment.title, line));
                }
            }
        }
        if lines.is_empty() {
            return;
        }
        self.out.raw(
            "<details class=\"chapter\"><summary><h2>Can I believe it?</h2></summary>\n<div class=\"table\" id=\"belief\"><div \
             class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"What bears on trust\">\n<table \
             class=\"belief\">\n<thead><tr><th scope=\"col\">About</th><th scope=\"col\">Experiment</th><th \
             scope=\"col\">Statement</th></tr></thead>\n<tbody>\n",
        );
        lines.sort_by_key(|(_, line)| about(line.kind));
        for (title, line) in lines {
            let class = if line.holds { "" } else { " class=\"doubt\"" };
            self.out
                .raw("<tr><th scope=\"row\">")
                .text(about(line.kind))
                .raw("</th><td class=\"words\">");
            self.out
                .text(title)
                .raw(&format!("</td><td class=\"words\"><span{class}>"));
            self.out.text(&micro(&line.text)).raw("</span></td></tr>\n");
        }
        self.out.raw("</tbody>\n</table></div></div>\n</details>\n");
    }

    /// A figure with its caption, and its command where no other line has it; `draw` returns a remark for the caption, or nothing.
    fn figure(
        &mut self,
        title: &str,
        command: Option<&str>,
        draw: impl FnOnce(&mut Self) -> Option<String>,
    ) {
        self.figures += 1;
        let number = self.figures;
        self.out.raw(&format!("<figure id=\"figure-{number}\">\n"));
        let remark = draw(self);
        self.out
            .raw(&format!("<figcaption><p><b>Figure {number}</b> "));
        self.out.text(title).raw(".");
        if let Some(remark) = remark {
            self.out.raw(" ").text(&remark);
        }
        self.out.raw("</p>");
        if let Some(command) = command {
            self.out
                .raw("<p class=\"command\">")
                .element("code", command)
                .raw("</p>");
        }
        self.out.raw("</figcaption>\n</figure>\n");
    }

    fn trust(&mut self, lines: &[&TrustLine]) {
        self.out.raw("<div class=\"trust\">\n<ul>\n");
        for line in lines {
            let (class, lead) = if line.holds {
                ("", "")
            } else {
                (" class=\"doubt\"", "<b>Doubtful:</b> ")
            };
            self.out
                .raw(&format!("<li{class}>{lead}"))
                .text(&micro(&line.text))
                .raw("</li>\n");
        }
        self.out.raw("</ul>\n</div>\n");
    }

    fn machine_facts(&mut self, host: &Host) {
        self.fact("Kernel", &host.kernel, |release| format!("Linux {release}"));
        self.fact("Processor", &host.cpu_model, String::clone);
        self.fact("Cores online", &host.cores, u32::to_string);
        self.fact("Memory", &host.memory_bytes, |bytes| memory(*bytes));
        self.fact("Hypervisor", &host.hypervisor, String::clone);
        self.fact("Frequency governor", &host.governor, String::clone);
        self.fact("Frequency", &host.frequency_hz, |hz| frequency(*hz as f64));
    }

    /// The last of a machine's facts, which end their list.
    fn mitigation_facts(&mut self, host: &Host) {
        self.fact("Mitigations", &host.mitigations, |list| {
            mitigation_words(list)
        });
        self.out.raw("</dl>\n");
        if let Reading::Value { value: list } = &host.mitigations
            && !list.is_empty()
        {
            self.out.raw("<details><summary>Every mitigation, in the kernel’s words</summary>\n<dl class=\"facts\">\n");
            for Mitigation { name, state } in list {
                self.fact(name, &value(state.clone()), String::clone);
            }
            self.out.raw("</dl></details>\n");
        }
    }

    fn host(&mut self, run: &Run) {
        let Run {
            host,
            remote,
            clock,
            tool,
            command,
            ..
        } = run;
        self.out.raw("<details class=\"chapter\" id=\"host\"><summary><h2>The machine and the clock</h2></summary>\n<dl class=\"facts\">\n");
        self.machine_facts(host);
        self.fact("Clock", &value(clock_words(clock)), String::clone);
        let git = tool
            .git
            .as_ref()
            .map_or(String::new(), |git| format!(" ({git})"));
        self.fact(
            "Measured by",
            &value(format!("{} {}{git}", tool.name, tool.version)),
            String::clone,
        );
        self.fact("Command", &value(command.clone()), String::clone);
        self.mitigation_facts(host);
        if let Some(RemoteEnd {
            address,
            server,
            host,
        }) = remote
        {
            self.out
                .raw("<h3>The machine at the other end</h3>\n<dl class=\"facts\">\n");
            self.fact(
                "Server",
                &value(format!("{server} at {address}")),
                String::clone,
            );
            self.machine_facts(host);
            self.mitigation_facts(host);
        }
        self.out.raw("</details>\n");
    }

    fn fact<T>(&mut self, name: &str, reading: &Reading<T>, show: impl Fn(&T) -> String) {
        self.out.raw("<div>").element("dt", name);
        match reading {
            Reading::Value { value } => self.out.element("dd", &show(value)),
            Reading::NotAvailable { reason } => self
                .out
                .raw("<dd class=\"missing\">not available: ")
                .text(reason)
                .raw("</dd>"),
        };
        self.out.raw("</div>\n");
    }

    fn footer(&mut self, run: &Run) {
        self.out.raw("<footer><p>");
        let tool = format!("{} {}", run.tool.name, run.tool.version);
        self.out.text(&format!(
            "Made by {tool} from a run with the schema tollgate.run, version {}. ",
            run.version
        ));
        self.out
            .raw("Intervals are 95 % confidence intervals.</p></footer>\n");
    }
}

fn value<T>(value: T) -> Reading<T> {
    Reading::Value { value }
}

fn title(run: &Run) -> String {
    format!("Tollgate: {}, {}", machine(&run.host), run.started)
}

fn machine(host: &Host) -> String {
    let known = |reading: &Reading<String>, name: &str| match reading.value() {
        Some(value) => value.clone(),
        None => format!("unknown {name}"),
    };
    let cores = match host.cores.value() {
        Some(&cores) => format!(", {}", counted(cores.into(), "core", "cores")),
        None => String::new(),
    };
    format!(
        "{}{cores} · Linux {}",
        known(&host.cpu_model, "processor"),
        known(&host.kernel, "kernel")
    )
}

fn when(run: &Run) -> String {
    let kind = if run.quick { "quick run" } else { "run" };
    let started = run
        .started
        .to_string()
        .replace('T', " ")
        .replace('Z', " UTC");
    format!("{started}, {kind} of {} s", significant(run.elapsed_s))
}

fn clock_words(clock: &Clock) -> String {
    format!(
        "{} at {}; one reading costs {}, resolution {}",
        clock.source,
        frequency(clock.hz),
        alone(Unit::Nanoseconds, clock.read_cost_ns),
        alone(Unit::Nanoseconds, clock.resolution_ns),
    )
}

fn mitigation_words(list: &[Mitigation]) -> String {
    let with = |start: &str| list.iter().filter(|m| m.state.starts_with(start)).count();
    format!(
        "{} active, {} vulnerable of {}",
        with("Mitigation"),
        with("Vulnerable"),
        list.len()
    )
}

/// A minus sign in place of a hyphen, and µ in place of u where a number stands before "us".
fn micro(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut result = String::with_capacity(text.len());
    for (at, word) in words.iter().enumerate() {
        let follows_number = at > 0 && words[at - 1].ends_with(|c: char| c.is_ascii_digit());
        let tail = word
            .strip_prefix("us")
            .filter(|tail| tail.chars().all(|c| c.is_ascii_punctuation()));
        if at > 0 {
            result.push(if follows_number && word.len() <= 5 {
                '\u{a0}'
            } else {
                ' '
            });
        }
        match tail {
            Some(tail) if follows_number => {
                result.push_str("µs");
                result.push_str(tail);
            }
            _ => result.push_str(word),
        }
    }
    result
}

/// A number and its unit as HTML shows them: a real minus sign, µ, no break between the two.
fn typographic(text: &str) -> String {
    let text = match text.strip_prefix('-') {
        Some(rest) => format!("−{rest}"),
        None => text.to_owned(),
    };
    micro(&text).replace(' ', "\u{a0}")
}

/// The unit's name as HTML shows it.
fn unit_name(name: &str) -> &str {
    match name {
        "us" => "µs",
        "x" => "×",
        "instr" => "instructions",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_get_their_letter_only_after_a_number() {
        assert_eq!(
            micro("takes 14.6 us, tell us 3 us."),
            "takes 14.6\u{a0}µs, tell us 3\u{a0}µs."
        );
        assert_eq!(micro("give us 62 % of usual"), "give us 62\u{a0}% of usual");
        assert_eq!(typographic("-0.5 us"), "−0.5\u{a0}µs");
    }
}

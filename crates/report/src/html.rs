//! The run as one HTML file: findings first, then figures and tables, then how far they can be trusted.
//!
//! The file needs no network, no font and no script: figures are inline SVG, values appear on hovering by `<title>`,
//! light and dark follow the reader's system. Everything that comes from the run is escaped.

use tollgate_run::{
    Clock, Experiment, FarEnd, Figure, Host, Mitigation, Reading, Run, TrustLine, Unit,
    format::counted,
};

use crate::format::{alone, frequency, memory, significant};

mod bars;
mod lines;
mod markup;
mod palette;
mod table;

use markup::Markup;

const STYLE: &str = include_str!("html/style.css");

/// Renders the run as a complete HTML document.
#[must_use]
pub fn render(run: &Run) -> String {
    let mut page = Page {
        out: Markup::default(),
        figures: 0,
        tables: 0,
        lines: palette::LineStyles::of(run),
    };
    page.document(run);
    page.out.into_text()
}

/// The document under construction, with the numbers of figures and tables so far.
struct Page {
    out: Markup,
    figures: usize,
    tables: usize,
    lines: palette::LineStyles,
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
        self.header(run);
        self.out.raw("<main>\n");
        for (at, experiment) in run.experiments.iter().enumerate() {
            self.experiment(at, experiment);
        }
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
        if !run.experiments.is_empty() {
            out.raw("<nav aria-labelledby=\"findings\">\n<h2 id=\"findings\">Findings</h2>\n<ol class=\"findings\">\n");
            for (at, experiment) in run.experiments.iter().enumerate() {
                out.raw(&format!("<li><a href=\"#e{}\">", at + 1));
                out.text(&experiment.title)
                    .raw("</a><p>")
                    .text(&micro(&experiment.finding))
                    .raw("</p></li>\n");
            }
            out.raw("</ol>\n<p class=\"also\"><a href=\"#host\">The machine and the clock</a></p>\n</nav>\n");
        }
        out.raw("</header>\n");
    }

    fn experiment(&mut self, at: usize, experiment: &Experiment) {
        let number = at + 1;
        self.out.raw(&format!(
            "<section id=\"e{number}\" aria-labelledby=\"e{number}-title\">\n<h2 id=\"e{number}-title\">\
             <span class=\"number\">{number}</span> "
        ));
        self.out.text(&experiment.title).raw("</h2>\n");
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
        for figure in &experiment.figures {
            self.figures += 1;
            match figure {
                Figure::Lines {
                    title,
                    x,
                    y,
                    series,
                    command,
                } => {
                    let chart = lines::Chart {
                        title,
                        x,
                        y,
                        series,
                    };
                    self.figure(title, command, |page| {
                        lines::draw(&mut page.out, &page.lines, chart)
                    });
                }
                Figure::StackedBars {
                    title,
                    unit,
                    bars,
                    command,
                } => {
                    self.figure(title, command, |page| {
                        bars::draw(&mut page.out, title, *unit, bars)
                    });
                }
            }
        }
        for table in &experiment.tables {
            self.tables += 1;
            table::draw(&mut self.out, self.tables, table);
        }
        if !experiment.trust.is_empty() {
            self.trust(&experiment.trust);
        }
        let told = |figure: &Figure| match figure {
            Figure::Lines { command, .. } | Figure::StackedBars { command, .. } => {
                *command == experiment.command
            }
        };
        if !experiment.figures.iter().any(told) {
            self.out
                .raw("<p class=\"command\">")
                .element("code", &experiment.command)
                .raw("</p>\n");
        }
        self.out.raw("</section>\n");
    }

    /// A figure with its caption and its command; `draw` returns a remark for the caption, or nothing.
    fn figure(
        &mut self,
        title: &str,
        command: &str,
        draw: impl FnOnce(&mut Self) -> Option<String>,
    ) {
        let number = self.figures;
        self.out.raw(&format!("<figure id=\"figure-{number}\">\n"));
        let remark = draw(self);
        self.out
            .raw(&format!("<figcaption><p><b>Figure {number}</b> "));
        self.out.text(title).raw(".");
        if let Some(remark) = remark {
            self.out.raw(" ").text(&remark);
        }
        self.out
            .raw("</p><p class=\"command\">")
            .element("code", command)
            .raw("</p></figcaption>\n</figure>\n");
    }

    fn trust(&mut self, lines: &[TrustLine]) {
        self.out
            .raw("<div class=\"trust\">\n<h3>How far to trust this</h3>\n<ul>\n");
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
            far,
            clock,
            tool,
            command,
            ..
        } = run;
        self.out.raw("<section id=\"host\" aria-labelledby=\"host-title\">\n<h2 id=\"host-title\">The machine and the clock</h2>\n<dl class=\"facts\">\n");
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
        if let Some(FarEnd {
            address,
            server,
            host,
        }) = far
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
        self.out.raw("</section>\n");
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

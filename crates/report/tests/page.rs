//! The page as readers get it: how much stands on it before anything is opened, how large a whole report is, and what a real browser
//! says of it in light, dark, printed and on a narrow screen, where there is one.

mod sample;
mod whole;

use std::process::Command;

use tollgate_report::html::render;
use tollgate_run::fixture;

use whole::whole;

/// The most words before anything is opened, of any report.
const WORDS: usize = 1_500;
/// The most figures of a report.
const FIGURES: usize = 40;
/// The most bytes of a report.
const BYTES: usize = 1_500_000;

/// The words that are read before anything is opened: those outside of `details`, and the summaries of the outermost.
fn unfolded(html: &str) -> usize {
    let body = &html[html.find("<body>").unwrap()..];
    let (mut depth, mut summary, mut words) = (0_usize, false, 0);
    for part in body.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap();
        match tag.split(' ').next().unwrap() {
            "details" => (depth, summary) = (depth + 1, false),
            "/details" => (depth, summary) = (depth - 1, false),
            "summary" => summary = depth == 1,
            "/summary" => summary = false,
            _ => {}
        }
        if (depth == 0 || summary) && tag != "title" {
            words += text.split_whitespace().count();
        }
    }
    words
}

#[test]
fn whole_report_keeps_to_its_words_figures_and_bytes() {
    let run = whole();
    assert!(run.experiments.len() >= 20, "{}", run.experiments.len());
    let html = render(&run);
    let words = unfolded(&html);
    assert!((100..=WORDS).contains(&words), "{words} words");
    let figures = html.matches("<figure ").count();
    assert!((10..=FIGURES).contains(&figures), "{figures} figures");
    assert!(html.len() <= BYTES, "{} bytes", html.len());
    for table in run.experiments.iter().flat_map(|one| &one.tables) {
        assert!(
            html.contains(&table.title.replace('"', "&quot;").replace('\'', "&#39;")),
            "{}",
            table.title
        );
    }
}

#[test]
fn first_screen_of_a_report_is_short_and_the_rest_is_folded() {
    let html = render(&fixture::report());
    let words = unfolded(&html);
    assert!((100..=WORDS).contains(&words), "{words}");
    assert!(html.find("class=\"chart anatomy\"") < html.find("id=\"findings\""));
    assert!(html.matches("<details class=\"chapter\"").count() >= 4);
}

#[test]
fn long_refusals_below_the_findings_are_folded() {
    let mut run = fixture::report();
    let before = unfolded(&render(&run));
    let refusals = |count: usize| ["This run cannot tell it."].repeat(count).join(" ");
    let [short, long] = [1, 40].map(|count| {
        run.experiments[1].finding = refusals(count);
        let html = render(&run);
        assert!(html.contains(&refusals(count)[1..]), "{count}");
        unfolded(&html)
    });
    assert!(short > before);
    // Its name and the line that stands for it, in place of 200 words.
    assert!(long < before + 20, "{before} {short} {long}");
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A way to look at the page, with the arguments by which Chromium shows it so.
#[derive(Clone, Copy, Debug)]
struct View {
    name: &'static str,
    args: &'static [&'static str],
    /// The line that a page's own script logs in this view: see [`PROBE`].
    logs: &'static str,
    printed: bool,
}

const VIEWS: [View; 4] = [
    View {
        name: "light",
        args: &["--window-size=1280,900"],
        logs: "probe: dark false, 1280 px",
        printed: false,
    },
    View {
        name: "dark",
        args: &["--window-size=1280,900", "--force-dark-mode"],
        logs: "probe: dark true, 1280 px",
        printed: false,
    },
    View {
        name: "narrow",
        args: &["--window-size=800,900"],
        logs: "probe: dark false, 800 px",
        printed: false,
    },
    View {
        name: "printed",
        args: &[],
        logs: "probe: printed",
        printed: true,
    },
];

/// A script that logs the view that it is shown in, how far the page reaches beyond the window, and an error.
const PROBE: &str = "<script>addEventListener('beforeprint', () => console.log('probe: printed'));\
    addEventListener('load', () => {\
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;\
    console.log('probe: dark ' + dark + ', ' + innerWidth + ' px');\
    console.log('probe: beyond ' + (document.documentElement.scrollWidth - document.documentElement.clientWidth));\
    const anatomy = document.querySelector('.anatomy');\
    const edge = document.documentElement.clientWidth;\
    if (anatomy) console.log('probe: anatomy within ' + (anatomy.getBoundingClientRect().right <= edge));\
    throw new Error('broken') })</script>";

/// The browser's answer to a page.
struct Answer {
    /// The document after it was parsed and laid out; none where it was printed.
    dom: String,
    /// The lines that the page and the browser wrote on the console.
    console: Vec<String>,
    /// The bytes of the printed page.
    printed: Vec<u8>,
}

/// Shows a page in headless Chromium; none where there is no Chromium, which is told.
fn show(html: &str, view: View) -> Option<Answer> {
    if !is_on_path("chromium") {
        tollgate_skip::skipped!(
            "chromium is not on PATH; install it with: apt-get install chromium"
        );
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, paper) = (
        folder.path().join("page.html"),
        folder.path().join("page.pdf"),
    );
    std::fs::write(&file, html).unwrap();
    let mut command = Command::new("chromium");
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--enable-logging=stderr", "--v=0"])
        .args(view.args)
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ));
    match view.printed {
        true => command.arg(format!("--print-to-pdf={}", paper.display())),
        false => command.arg("--dump-dom"),
    };
    let output = command
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium starts");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {log}", view.name);
    let console = log.lines().filter(|line| line.contains("CONSOLE"));
    Some(Answer {
        dom: String::from_utf8(output.stdout).expect("the document is UTF-8"),
        console: console.map(str::to_owned).collect(),
        printed: if view.printed {
            std::fs::read(&paper).unwrap()
        } else {
            Vec::new()
        },
    })
}

#[test]
fn browser_reports_errors_in_every_view_and_shows_the_view_that_is_meant() {
    for view in VIEWS {
        let Some(answer) = show(&format!("<!DOCTYPE html><title>x</title>{PROBE}"), view) else {
            return;
        };
        for words in [view.logs, "broken"] {
            let found = answer.console.iter().any(|line| line.contains(words));
            assert!(found, "{}: {words}: {:?}", view.name, answer.console);
        }
    }
}

#[test]
fn whole_report_has_no_error_in_light_dark_narrow_and_printed() {
    let html = render(&whole());
    for view in VIEWS {
        let Some(answer) = show(&html, view) else {
            return;
        };
        assert!(
            answer.console.is_empty(),
            "{}: {:?}",
            view.name,
            answer.console
        );
        if view.printed {
            assert!(
                answer.printed.starts_with(b"%PDF"),
                "{}",
                answer.printed.len()
            );
        } else {
            assert_parsed_as_written(&answer.dom, &html);
        }
    }
}

#[test]
fn whole_report_is_no_wider_than_a_window_of_800_pixels() {
    // A script of the page's own needs what its policy forbids; what is folded is opened, since it has the widest tables.
    let html = render(&whole())
        .replace("default-src 'none';", "default-src 'unsafe-inline';")
        .replace("<details", "<details open")
        .replace("</body>", &format!("{PROBE}</body>"));
    let narrow = VIEWS
        .into_iter()
        .find(|view| view.name == "narrow")
        .unwrap();
    let Some(answer) = show(&html, narrow) else {
        return;
    };
    for words in ["probe: beyond 0\"", "probe: anatomy within true"] {
        let found = answer.console.iter().any(|line| line.contains(words));
        assert!(found, "{words}: {:?}", answer.console);
    }
}

#[test]
fn sample_report_is_parsed_as_it_was_written() {
    let run = sample::run();
    let html = render(&run);
    let Some(answer) = show(&html, VIEWS[0]) else {
        return;
    };
    assert!(answer.console.is_empty(), "{:?}", answer.console);
    for experiment in &run.experiments {
        assert!(
            answer.dom.contains(&experiment.title),
            "{}",
            experiment.title
        );
    }
    assert_parsed_as_written(&answer.dom, &html);
}

/// Panics where the parser moved an element: each that was written is to be where it was written.
fn assert_parsed_as_written(dom: &str, html: &str) {
    for name in [
        "<rect", "<path", "<tspan", "<td", "<li", "<section", "<text", "<title",
    ] {
        assert_eq!(
            dom.matches(name).count(),
            html.matches(name).count(),
            "{name}"
        );
    }
}

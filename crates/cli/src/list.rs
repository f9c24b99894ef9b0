//! `tollgate experiment list`.

use std::process::ExitCode;

use serde::Serialize;
use tollgate_experiment::experiments::{self, Reported};

use crate::args::{GlobalArgs, List};
use crate::error::Error;
use crate::output;
use crate::results;
use crate::wrap::wrapped;

/// One experiment in the JSON.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: &'static str,
    summary: &'static str,
    /// The reports that it is in: `quick` (and the full one), `full`, or `none`.
    report: &'static str,
    /// Published table or figure that it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    paper: Option<String>,
}

/// Lists the experiments.
pub(crate) fn list(list: &List, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let listed: Vec<Listed> = experiments::all()
        .iter()
        .map(|experiment| Listed {
            name: experiment.name(),
            title: experiment.title(),
            summary: experiment.summary(),
            report: match experiment.reported() {
                Reported::Always => "quick",
                Reported::Full => "full",
                Reported::ByName => "none",
            },
            paper: experiment.paper().map(|source| source.to_string()),
        })
        .collect();
    results::put(
        &list.json,
        global,
        || Ok(serde_json::to_string_pretty(&listed)? + "\n"),
        || wrapped(&text(&listed), output::width()),
    )?;
    Ok(ExitCode::SUCCESS)
}

fn text(listed: &[Listed]) -> String {
    let width = listed.iter().map(|one| one.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (report, heading) in [
        ("quick", "In every report, `report --quick` too:"),
        ("full", "In the full report:"),
        ("none", "By name only:"),
    ] {
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{gap}{heading}\n"));
        for one in listed.iter().filter(|one| one.report == report) {
            text.push_str(&format!("  {:width$}  {}\n", one.name, one.summary));
            if let Some(paper) = &one.paper {
                text.push_str(&format!("  {:width$}  after {paper}\n", ""));
            }
        }
    }
    text
}

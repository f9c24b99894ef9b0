//! `tollgate experiment list`.

use std::process::ExitCode;

use serde::Serialize;
use tollgate_experiment::experiments;

use crate::args::{List, Sink};
use crate::error::Error;
use crate::output;

/// One experiment in the JSON.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: &'static str,
    summary: &'static str,
    /// What it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    paper: Option<String>,
}

/// Lists the experiments.
pub(crate) fn list(list: &List) -> Result<ExitCode, Error> {
    let listed: Vec<Listed> = experiments::all()
        .iter()
        .map(|experiment| Listed {
            name: experiment.name(),
            title: experiment.title(),
            summary: experiment.summary(),
            paper: experiment.paper().map(|source| source.to_string()),
        })
        .collect();
    match &list.json.to {
        None => output::print(&text(&listed))?,
        Some(sink) => {
            let json = serde_json::to_string_pretty(&listed)? + "\n";
            match sink {
                Sink::Stdout => output::print(&json)?,
                Sink::File(path) => tollgate_report::write_file(path, json)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text(listed: &[Listed]) -> String {
    let width = listed.iter().map(|one| one.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for one in listed {
        text.push_str(&format!("{:width$}  {}\n", one.name, one.summary));
        if let Some(paper) = &one.paper {
            text.push_str(&format!("{:width$}  after {paper}\n", ""));
        }
    }
    text
}

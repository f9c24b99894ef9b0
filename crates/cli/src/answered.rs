//! The answer to a query in SQL: as text, or as JSON.

use tollgate_table::answer::Answer;

use crate::error::Error;
use crate::output;
use crate::values::{Json, Sink};

/// Puts an answer out.
pub(crate) fn show(answer: &Answer, json: &Json) -> Result<(), Error> {
    match &json.to {
        None => output::print(&answer.text()),
        Some(sink) => {
            let json = serde_json::to_string_pretty(answer)? + "\n";
            match sink {
                Sink::Stdout => output::print(&json),
                Sink::File(path) => Ok(tollgate_report::write_file(path, json)?),
            }
        }
    }
}

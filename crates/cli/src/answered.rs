//! The answer to a query in SQL: as text, or as JSON.

use tollgate_table::answer::Answer;

use crate::args::GlobalArgs;
use crate::error::Error;
use crate::results;
use crate::values::Json;

/// Puts an answer out.
pub(crate) fn show(answer: &Answer, json: &Json, global: &GlobalArgs) -> Result<(), Error> {
    results::put(
        json,
        global,
        || Ok(serde_json::to_string_pretty(answer)? + "\n"),
        || answer.text(),
    )
}

//! Runs that are read from files and stores.

use std::path::Path;

use tollgate_run::Run;

use crate::error::Error;

/// The run in this file, or the one that a store keeps as `STORE#ID`.
///
/// # Errors
/// [`Error::Input`], which names the file.
pub(crate) fn run(path: &Path) -> Result<Run, Error> {
    let wrong = |error| Error::Input {
        path: path.to_owned(),
        error,
    };
    #[cfg(feature = "sql")]
    if let Some((store, id)) = path.to_str().and_then(|text| text.rsplit_once('#'))
        && !path.exists()
    {
        let store = tollgate_table::runs::Store::open(&crate::runs::location(store))?;
        return tollgate_report::json::parse(&store.json(id)?).map_err(wrong);
    }
    tollgate_report::json::read(path).map_err(wrong)
}

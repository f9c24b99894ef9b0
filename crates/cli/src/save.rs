//! `--save STORE`: a run that was measured goes to a store of runs, when this build knows them.

use tollgate_run::Run;

use crate::args::GlobalArgs;
use crate::error::Error;

/// A store that was opened before anything is measured, so that nobody waits for a run that cannot be saved.
pub(crate) struct Store(Kind);

#[cfg(feature = "sql")]
type Kind = tollgate_table::runs::Store;
#[cfg(not(feature = "sql"))]
type Kind = std::convert::Infallible;

#[cfg(feature = "sql")]
impl Store {
    /// Opens the store with this name, or makes it.
    pub(crate) fn prepare(name: &str) -> Result<Self, Error> {
        Ok(Self(Kind::prepare(&crate::runs::location(name))?))
    }

    /// Saves what this host measured.
    pub(crate) fn save(&self, run: &Run, global: &GlobalArgs) -> Result<(), Error> {
        let node = rustix::system::uname();
        let host = node.nodename().to_string_lossy();
        let json = tollgate_report::json::render(run)?;
        let saved = self.0.save(run, &json, Some(&host))?;
        if !global.quiet {
            crate::output::say(&crate::runs::saved_text(&saved, self.0.location()));
        }
        Ok(())
    }
}

#[cfg(not(feature = "sql"))]
impl Store {
    /// There are no stores in this build.
    pub(crate) fn prepare(name: &str) -> Result<Self, Error> {
        Err(Error::NoSaving(name.to_owned()))
    }

    /// There is none.
    pub(crate) fn save(&self, _: &Run, _: &GlobalArgs) -> Result<(), Error> {
        match self.0 {}
    }
}

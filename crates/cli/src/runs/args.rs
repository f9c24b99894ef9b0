//! The command line of `tollgate runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::values::Json;

/// The commands on stores of runs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// The runs in a store, the oldest first.
    List(List),
    /// Ask the tables `runs`, `numbers` and `settings` in SQL.
    Sql(Sql),
    /// Add runs that --json wrote to files.
    Add(Add),
    /// Print a run as JSON, as --json would have written it.
    Get(Get),
}

/// `runs list`
#[derive(Debug, Args)]
pub(crate) struct List {
    /// The store: a folder, or s3://BUCKET/PREFIX.
    #[arg(value_name = "STORE")]
    pub(crate) store: String,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `runs sql`
#[derive(Debug, Args)]
pub(crate) struct Sql {
    /// The store: a folder, or s3://BUCKET/PREFIX.
    #[arg(value_name = "STORE")]
    pub(crate) store: String,
    /// The query: "SELECT host, path, value FROM numbers WHERE experiment = 'rr-by-size' AND size = 200".
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `runs add`
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The store; it is made where it is not there.
    #[arg(value_name = "STORE")]
    pub(crate) store: String,
    /// The runs: files that --json wrote.
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Name of the host that measured them; files do not have it.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
}

/// `runs get`
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// The store: a folder, or s3://BUCKET/PREFIX.
    #[arg(value_name = "STORE")]
    pub(crate) store: String,
    /// The run's name, or as much of its beginning as tells it from others; `last` is the one that began last.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

//! The command line of `tollgate trace`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tollgate_table::prefix::{self, LOCAL, Prefix};

use crate::args::{Json, duration};

/// The commands on traces.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Read captures, pcap or pcapng, into a trace. Payload is measured and not kept.
    Import(Import),
    /// What is in a trace, and what of its captures could not be read.
    Info(Info),
    /// How large messages are, by protocol, on the LAN and on the WAN.
    Sizes(Sizes),
    /// How many flows, how long, how large, and how many at the same time.
    Flows(Flows),
    /// How often the connection of a segment is found at once: the one-entry cache, lists by a hash.
    Cache(Cache),
    /// Ask the tables `packets`, `messages` and `flows` in SQL.
    Sql(Sql),
}

/// What the trace is called where one is read.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The directory of a trace, or kay-lan or kay-wan, which are rebuilt from published facts.
    #[arg(value_name = "TRACE")]
    pub(crate) name: String,
}

/// `trace import`
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The captures; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The directory of the trace; it is made where it is not there.
    #[arg(long, value_name = "DIR", default_value = "tollgate-trace")]
    pub(crate) into: PathBuf,
    /// Replace addresses so that those with a common prefix still have one (Crypto-PAn), with a key that is thrown away.
    #[arg(long, alias = "anonymize")]
    pub(crate) anonymise: bool,
    /// Do so with the 32 octets in this file, so that several imports fit together.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// A sender's silence that ends what its application wrote.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub(crate) pause: Duration,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `trace info`
#[derive(Debug, Args)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `trace sizes`
#[derive(Debug, Args)]
pub(crate) struct Sizes {
    #[command(flatten)]
    pub(crate) which: Which,
    /// What is LAN: messages between two addresses within these prefixes [default: private, link-local and loopback].
    #[arg(long, value_name = "PREFIX,..", value_delimiter = ',', value_parser = one_prefix)]
    pub(crate) lan: Option<Vec<Prefix>>,
    /// Show every bin of sizes.
    #[arg(long)]
    pub(crate) bins: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

impl Sizes {
    /// The prefixes that were given, or those that reach no further than a site.
    pub(crate) fn local(&self) -> Vec<Prefix> {
        match &self.lan {
            Some(list) => list.clone(),
            // The constant is one; its test reads it.
            None => prefix::list(LOCAL).unwrap_or_default(),
        }
    }
}

/// `trace flows`
#[derive(Debug, Args)]
pub(crate) struct Flows {
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `trace cache`
#[derive(Debug, Args)]
pub(crate) struct Cache {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Hosts listed.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) top: usize,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `trace sql`
#[derive(Debug, Args)]
pub(crate) struct Sql {
    #[command(flatten)]
    pub(crate) which: Which,
    /// The query: "SELECT protocol, count(*) FROM messages GROUP BY protocol".
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) json: Json,
}

fn one_prefix(given: &str) -> Result<Prefix, String> {
    given
        .parse()
        .map_err(|error: prefix::NoPrefix| error.to_string())
}

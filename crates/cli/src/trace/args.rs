//! The command line of `tollgate trace`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tollgate_kernel::filter::Filter;
use tollgate_table::engine::{Engine, NoEngine};
use tollgate_table::location::Location;
use tollgate_table::prefix::{self, LOCAL, Prefix};

use crate::values::{Json, amount, duration, filter};

/// The commands on traces.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Read captures, pcap or pcapng, into a trace. Payload is measured and not kept.
    Import(Import),
    /// Capture what passes an interface, and import it (needs root).
    Capture(Capture),
    /// Show what a trace holds, and what of its captures could not be read.
    Info(Info),
    /// Show sizes of messages, by protocol, on the LAN and on the WAN.
    Sizes(Sizes),
    /// Show flows: their number, length and size, and how many ran at the same time.
    Flows(Flows),
    /// Show how often the connection of a segment is found at once: the one-entry cache, lists by a hash.
    Cache(Cache),
    /// Ask the tables `packets`, `messages` and `flows` in SQL.
    Sql(Sql),
}

/// Name of the trace that is read.
#[derive(Debug, Args)]
pub(crate) struct TraceArg {
    /// A trace: a folder, s3://BUCKET/PREFIX, or kay-lan or kay-wan, which are rebuilt from published facts.
    #[arg(value_name = "TRACE")]
    pub(crate) name: String,
}

/// Engine that queries run on.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// Ask on a Ballista cluster, ballista://HOST:PORT of its scheduler; its executors have to see the trace under the same path.
    #[arg(long, value_name = "ENGINE", value_parser = engine)]
    pub(crate) engine: Option<Engine>,
    /// Give up a query on a cluster when for this time no task of it ends and no row arrives [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "engine")]
    pub(crate) cluster_timeout: Option<Duration>,
}

/// `trace import`
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The captures; - is standard input.
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// The trace: a folder, or s3://BUCKET/PREFIX; it is made where it is not there.
    #[arg(long, value_name = "TRACE", default_value = "tollgate-trace")]
    pub(crate) into: Location,
    /// Exit with 0 even if nothing of a capture could be read, or not its end, or not a tenth of it.
    #[arg(long)]
    pub(crate) lenient: bool,
    #[command(flatten)]
    pub(crate) how: ImportArgs,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// Options by which captures become a trace.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Replace addresses so that those with a common prefix still have one (Crypto-PAn), with a key that is thrown away.
    #[arg(long, alias = "anonymize")]
    pub(crate) anonymise: bool,
    /// Do so with the 32 bytes in this file, so that several imports fit together.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) key: Option<PathBuf>,
    /// A sender's silence that ends what its application wrote.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub(crate) write_gap: Duration,
}

/// `trace capture`
#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// The interface, or any for all of this network namespace.
    #[arg(long, value_name = "NAME")]
    pub(crate) iface: String,
    /// The trace: a folder, or s3://BUCKET/PREFIX; it is made where it is not there.
    #[arg(long, value_name = "TRACE", default_value = "tollgate-trace")]
    pub(crate) into: Location,
    /// Only what this filter passes, in the syntax of pcap-filter: host, net, port, portrange, src, dst, tcp, udp, ip, ip6, and, or,
    /// not.
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    pub(crate) filter: Option<Filter>,
    /// Bytes kept of each packet until it is imported, counted from its IP header on.
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pub(crate) snaplen: u32,
    /// End after this time [default: at Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) within: Option<Duration>,
    /// Begin another file when one has this size, as 100M.
    #[arg(long, value_name = "BYTES", value_parser = file_size)]
    pub(crate) file_size: Option<u64>,
    /// Begin another file after this time.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) seconds: Option<Duration>,
    /// Keep the last N files, and remove those before; the files are 100 MB large unless --file-size or --seconds says otherwise.
    #[arg(long, value_name = "N")]
    pub(crate) ring: Option<NonZeroUsize>,
    /// Keep the files after they were imported, with what payload they hold: in DIR/captures, or for a bucket in a folder of TMPDIR.
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) how: ImportArgs,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `trace info`
#[derive(Debug, Args)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) which: TraceArg,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `trace sizes`
#[derive(Debug, Args)]
pub(crate) struct Sizes {
    #[command(flatten)]
    pub(crate) which: TraceArg,
    /// Count as LAN the messages between two addresses within these prefixes [default: private, link-local and loopback].
    #[arg(long, value_name = "PREFIX,..", value_delimiter = ',', value_parser = one_prefix)]
    pub(crate) lan: Option<Vec<Prefix>>,
    /// Show every bin of sizes.
    #[arg(long)]
    pub(crate) bins: bool,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
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
    pub(crate) which: TraceArg,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `trace cache`
#[derive(Debug, Args)]
pub(crate) struct Cache {
    #[command(flatten)]
    pub(crate) which: TraceArg,
    /// Hosts listed.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) top: usize,
    /// Taken to say why it is refused.
    #[arg(long, value_name = "ENGINE", hide = true)]
    pub(crate) engine: Option<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `trace sql`
#[derive(Debug, Args)]
pub(crate) struct Sql {
    #[command(flatten)]
    pub(crate) which: TraceArg,
    /// The query: "SELECT protocol, count(*) FROM messages GROUP BY protocol".
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) json: Json,
}

fn engine(given: &str) -> Result<Engine, String> {
    given.parse().map_err(|error: NoEngine| error.to_string())
}

fn one_prefix(given: &str) -> Result<Prefix, String> {
    given
        .parse()
        .map_err(|error: prefix::NoPrefix| error.to_string())
}

/// The smallest file of a ring: one packet of the largest size fits.
const SMALLEST_FILE: f64 = 1e5;

fn file_size(given: &str) -> Result<u64, String> {
    amount(given)
        .filter(|size| (SMALLEST_FILE..=1e12).contains(size))
        .map(|size| size as u64)
        .ok_or_else(|| {
            format!("unknown size of a file `{given}`; give bytes as 100M or 1G, from 100k to 1T")
        })
}

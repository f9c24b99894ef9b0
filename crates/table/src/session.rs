//! A trace that is open for SQL.
//!
//! Owns the tables `packets`, `messages` and `flows` as queries see them.

use std::cell::Cell;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::runtime::Runtime;
use tollgate_trace::rebuilt::Rebuilt;

use crate::Error;
use crate::cluster::{self, Watch};
use crate::engine::{Engine, Scheduler};
use crate::location::Location;
use crate::queries::{self, Rows, context};
use crate::schema::Table;
use crate::store::{Source, Trace};
use crate::writer::{Batches, Writer};

/// Source of a trace.
#[derive(Debug)]
pub enum Origin {
    /// Captures in a folder or a bucket.
    Stored(Trace),
    /// Published facts.
    Rebuilt(Rebuilt),
}

impl Origin {
    /// The trace by what the user calls it: the name of a rebuilt one, or a folder or bucket.
    ///
    /// # Errors
    /// When it is neither.
    pub fn named(name: &str) -> Result<Self, Error> {
        match Rebuilt::named(name) {
            Some(rebuilt) => Ok(Self::Rebuilt(rebuilt)),
            None => {
                let Ok(location) = name.parse();
                Trace::open(&location).map(Self::Stored)
            }
        }
    }

    /// Tells whether addresses were replaced in some of it.
    pub fn is_anonymised(&self) -> bool {
        match self {
            Self::Stored(trace) => trace.sources().iter().any(|source| source.anonymised),
            Self::Rebuilt(_) => false,
        }
    }
}

/// A trace that is open for SQL.
pub struct Session {
    origin: Origin,
    engine: Engine,
    watch: Watch,
    /// Tells whether the cluster is known to find the trace.
    seen: Cell<bool>,
    runtime: Runtime,
    context: SessionContext,
}

impl Session {
    /// Opens a trace whose queries run on this machine.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub fn open(origin: Origin) -> Result<Self, Error> {
        Self::on(&Engine::Here, origin)
    }

    /// Opens a trace whose queries run there.
    ///
    /// # Errors
    /// When its files cannot be read, or the cluster does not answer, or could not read the trace.
    pub fn on(engine: &Engine, origin: Origin) -> Result<Self, Error> {
        Self::watched(engine, origin, Watch::default())
    }

    /// Opens a trace whose queries run there, and are watched so when that is a cluster.
    ///
    /// # Errors
    /// Those of [`Self::on`].
    pub fn watched(engine: &Engine, origin: Origin, watch: Watch) -> Result<Self, Error> {
        match (engine, &origin) {
            (Engine::Ballista(_), Origin::Rebuilt(rebuilt)) => {
                return Err(Error::NotStored(rebuilt.name()));
            }
            (Engine::Ballista(_), Origin::Stored(trace)) => {
                if let location @ Location::Bucket { .. } = trace.location() {
                    return Err(Error::InBucket(location.to_string()));
                }
            }
            (Engine::Here, _) => {}
        }
        let runtime = queries::threads()?;
        let context = runtime.block_on(engine.context())?;
        match &origin {
            Origin::Stored(trace) => {
                trace.see_tables()?;
                register_files(&context, engine, trace, trace.sources())?;
            }
            Origin::Rebuilt(rebuilt) => register_rebuilt(&context, *rebuilt)?,
        }
        Ok(Self {
            origin,
            engine: engine.clone(),
            watch,
            seen: Cell::new(false),
            runtime,
            context,
        })
    }

    /// Source of the trace.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The rows of a query, and their columns.
    ///
    /// # Errors
    /// [`Error::Query`] when the query is not understood or fails; on a cluster, what went wrong there.
    pub fn query(&self, sql: &str) -> Result<Rows, Error> {
        let context = &self.context;
        match &self.engine {
            Engine::Here => self.runtime.block_on(queries::ask(context, sql)),
            Engine::Ballista(scheduler) => {
                self.see(scheduler)?;
                let asked = cluster::ask(context, scheduler, &self.watch, sql);
                self.runtime
                    .block_on(asked)
                    .map_err(|error| scheduler.failed(error))
            }
        }
    }

    /// Sees, before the first query, that the scheduler finds the trace. Files that it does not find are to it a table without rows.
    fn see(&self, scheduler: &Scheduler) -> Result<(), Error> {
        let Origin::Stored(trace) = &self.origin else {
            return Ok(());
        };
        let sources = trace.sources().iter();
        let held: u64 = sources.map(|source| source.counts.messages).sum();
        if held == 0 || self.seen.get() {
            return Ok(());
        }
        let count = "SELECT count(*) FROM messages";
        let asked = cluster::ask(&self.context, scheduler, &self.watch, count);
        let counted = (self.runtime.block_on(asked)).map_err(|error| scheduler.failed(error))?;
        let batches = counted.1.iter().filter(|batch| batch.num_rows() > 0);
        let numbers = batches.map(|batch| batch.column(0).as_primitive::<Int64Type>().value(0));
        let found = numbers.sum::<i64>().unsigned_abs();
        if found != held {
            return Err(Error::Unseen {
                scheduler: scheduler.to_string(),
                location: trace.location().to_string(),
                found,
                held,
            });
        }
        self.seen.set(true);
        Ok(())
    }

    /// Gives the rows of a query on each capture alone, on this machine, one capture after the other in the order of their first packets, and
    /// each in the order in which its rows were written.
    pub(crate) fn in_order(
        &self,
        sql: &str,
        mut take: impl FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // One thread reads one file from its beginning to its end.
        let config = || SessionConfig::new().with_target_partitions(1);
        let mut contexts = Vec::new();
        match &self.origin {
            Origin::Stored(trace) => {
                for source in trace.sources() {
                    let context = context(config());
                    register_files(&context, &Engine::Here, trace, std::slice::from_ref(source))?;
                    contexts.push(context);
                }
            }
            Origin::Rebuilt(rebuilt) => {
                let context = context(config());
                register_rebuilt(&context, *rebuilt)?;
                contexts.push(context);
            }
        }
        for context in contexts {
            self.runtime.block_on(async {
                let frame = context.sql(sql).await?;
                let mut stream = frame.execute_stream().await?;
                while let Some(batch) = queries::next(&mut stream).await {
                    take(batch?)?;
                }
                Ok::<(), Error>(())
            })?;
        }
        Ok(())
    }
}

/// Makes the tables of these captures of a trace the tables of a context.
fn register_files(
    context: &SessionContext,
    engine: &Engine,
    trace: &Trace,
    sources: &[Source],
) -> Result<(), Error> {
    trace.opened().reached_by(context)?;
    for table in Table::ALL {
        let urls = trace.urls(table, sources)?;
        queries::register_files(context, table.name(), engine.columns(table.schema()), &urls)?;
    }
    Ok(())
}

fn register_rebuilt(context: &SessionContext, rebuilt: Rebuilt) -> Result<(), Error> {
    let mut writer = Writer::new(Batches::default());
    rebuilt.rows(rebuilt.messages(), &mut writer)?;
    let batches = writer.finish()?;
    for (table, batches) in Table::ALL.into_iter().zip(batches.tables) {
        queries::register_batches(context, table.name(), table.schema(), batches)?;
    }
    Ok(())
}

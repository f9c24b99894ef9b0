//! A trace that is open for SQL.
//!
//! Owns the tables `packets`, `messages` and `flows` as queries see them.

use arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::runtime::Runtime;
use tollgate_trace::rebuilt::Rebuilt;

use crate::Error;
use crate::engine::Engine;
use crate::place::Place;
use crate::queries::{self, Rows, context};
use crate::schema::Table;
use crate::store::{Source, Trace};
use crate::writer::{Batches, Writer};

/// Where a trace comes from.
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
                let Ok(place) = name.parse();
                Trace::open(&place).map(Self::Stored)
            }
        }
    }

    /// Whether addresses were replaced in some of it.
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
        match (engine, &origin) {
            (Engine::Ballista(_), Origin::Rebuilt(rebuilt)) => {
                return Err(Error::NotStored(rebuilt.name()));
            }
            (Engine::Ballista(_), Origin::Stored(trace)) => {
                if let place @ Place::Bucket { .. } = trace.place() {
                    return Err(Error::InBucket(place.to_string()));
                }
            }
            (Engine::Here, _) => {}
        }
        let runtime = queries::threads()?;
        let context = runtime.block_on(engine.context())?;
        match &origin {
            Origin::Stored(trace) => register_files(&context, engine, trace, trace.sources())?,
            Origin::Rebuilt(rebuilt) => register_rebuilt(&context, *rebuilt)?,
        }
        Ok(Self {
            origin,
            engine: engine.clone(),
            runtime,
            context,
        })
    }

    /// Where the trace comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The rows of a query, and their columns.
    ///
    /// # Errors
    /// [`Error::Query`] when the query is not understood or fails.
    pub fn query(&self, sql: &str) -> Result<Rows, Error> {
        let asked = self.runtime.block_on(queries::ask(&self.context, sql));
        asked.map_err(|error| match &self.engine {
            Engine::Here => error,
            Engine::Ballista(scheduler) => scheduler.failed(error),
        })
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
                while let Some(batch) = next(&mut stream).await {
                    take(batch?)?;
                }
                Ok::<(), Error>(())
            })?;
        }
        Ok(())
    }
}

type Stream = datafusion::execution::SendableRecordBatchStream;

/// The next batch of a stream.
async fn next(stream: &mut Stream) -> Option<Result<RecordBatch, DataFusionError>> {
    std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await
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

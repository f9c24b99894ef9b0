//! A trace that is open for SQL.
//!
//! Owns how DataFusion is set up: the tables `packets`, `messages` and `flows`, and the function `in_prefix`. Queries read and
//! nothing else: statements that would write files or change tables are refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use tokio::runtime::{Builder, Runtime};
use tollgate_trace::rebuilt::Rebuilt;

use crate::schema::Table;
use crate::store::Trace;
use crate::writer::{Batches, Writer};
use crate::{Error, prefix};

/// Where a trace comes from.
#[derive(Debug)]
pub enum Origin {
    /// Captures on disk.
    Stored(Trace),
    /// Published facts.
    Rebuilt(Rebuilt),
}

impl Origin {
    /// The trace by what the user calls it: the name of a rebuilt one, or a directory.
    ///
    /// # Errors
    /// When it is neither.
    pub fn named(name: &str) -> Result<Self, Error> {
        match Rebuilt::named(name) {
            Some(rebuilt) => Ok(Self::Rebuilt(rebuilt)),
            None => Trace::open(Path::new(name)).map(Self::Stored),
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
    runtime: Runtime,
    context: SessionContext,
}

impl Session {
    /// Opens a trace.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub fn open(origin: Origin) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .build()
            .map_err(Error::Threads)?;
        let context = context(SessionConfig::new());
        match &origin {
            Origin::Stored(trace) => {
                let sources = trace.sources();
                let directories: Vec<PathBuf> =
                    sources.iter().map(|one| trace.tables_of(one)).collect();
                register_files(&context, &directories)?;
            }
            Origin::Rebuilt(rebuilt) => register_rebuilt(&context, *rebuilt)?,
        }
        Ok(Self {
            origin,
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
    pub fn query(&self, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>), Error> {
        let options = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        self.runtime.block_on(async {
            let frame = self.context.sql_with_options(sql, options).await?;
            let schema = Arc::clone(frame.schema().inner());
            Ok((schema, frame.collect().await?))
        })
    }

    /// Gives the rows of a query on each capture alone, one capture after the other in the order of their first packets, and
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
                    register_files(&context, &[trace.tables_of(source)])?;
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

fn context(config: SessionConfig) -> SessionContext {
    let context = SessionContext::new_with_config(config.with_information_schema(true));
    context.register_udf(prefix::function());
    context
}

/// Makes the tables in these directories the tables of a context.
fn register_files(context: &SessionContext, directories: &[PathBuf]) -> Result<(), Error> {
    for table in Table::ALL {
        if directories.is_empty() {
            register_batches(context, table, Vec::new())?;
            continue;
        }
        let urls = directories.iter().map(|directory| {
            let file = directory.join(table.file());
            let file = std::path::absolute(&file).map_err(|source| Error::File {
                what: "find",
                path: file,
                source,
            })?;
            Ok(ListingTableUrl::parse(file.to_string_lossy())?)
        });
        let urls = urls.collect::<Result<Vec<_>, Error>>()?;
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options)
            .with_schema(table.schema());
        context.register_table(table.name(), Arc::new(ListingTable::try_new(config)?))?;
    }
    Ok(())
}

fn register_rebuilt(context: &SessionContext, rebuilt: Rebuilt) -> Result<(), Error> {
    let mut writer = Writer::new(Batches::default());
    rebuilt.rows(rebuilt.messages(), &mut writer)?;
    let batches = writer.finish()?;
    for (table, batches) in Table::ALL.into_iter().zip(batches.tables) {
        register_batches(context, table, batches)?;
    }
    Ok(())
}

fn register_batches(
    context: &SessionContext,
    table: Table,
    batches: Vec<RecordBatch>,
) -> Result<(), Error> {
    let memory = MemTable::try_new(table.schema(), vec![batches])?;
    context.register_table(table.name(), Arc::new(memory))?;
    Ok(())
}

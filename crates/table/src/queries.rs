//! The query machine: DataFusion, its threads, and what queries may do.
//!
//! Queries read and nothing else: statements that would write files or change tables are refused.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, SQLOptions, SessionConfig, SessionContext, ident};
use tokio::runtime::{Builder, Runtime};

use crate::{Error, prefix};

/// The rows of a query, and their columns.
pub type Rows = (SchemaRef, Vec<RecordBatch>);

/// The threads on which queries run, and on which stores are spoken to.
///
/// # Errors
/// [`Error::Threads`].
pub(crate) fn threads() -> Result<Runtime, Error> {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::Threads)
}

/// A context without tables, for this machine.
pub(crate) fn context(config: SessionConfig) -> SessionContext {
    let context = SessionContext::new_with_config(config.with_information_schema(true));
    context.register_udf(prefix::function());
    context
}

/// Plans a query, which may only read.
pub(crate) async fn frame(context: &SessionContext, sql: &str) -> Result<DataFrame, Error> {
    let options = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    Ok(context.sql_with_options(sql, options).await?)
}

/// Asks a context.
pub(crate) async fn ask(context: &SessionContext, sql: &str) -> Result<Rows, Error> {
    let frame = frame(context, sql).await?;
    let schema = Arc::clone(frame.schema().inner());
    Ok((schema, frame.collect().await?))
}

/// The next batch of a stream.
pub(crate) async fn next(
    stream: &mut SendableRecordBatchStream,
) -> Option<Result<RecordBatch, DataFusionError>> {
    std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await
}

/// Makes the Parquet files at these addresses one table of a context.
pub(crate) fn register_files(
    context: &SessionContext,
    name: &str,
    schema: SchemaRef,
    urls: &[String],
) -> Result<(), Error> {
    if urls.is_empty() {
        return register_batches(context, name, schema, Vec::new());
    }
    context.register_table(name, Arc::new(files(schema, urls)?))?;
    Ok(())
}

/// Makes the Parquet files at these addresses one table of a context, whose columns are called as in `schema` and not as in the files.
pub(crate) fn register_renamed(
    context: &SessionContext,
    name: &str,
    stored: SchemaRef,
    schema: &SchemaRef,
    urls: &[String],
) -> Result<(), Error> {
    if urls.is_empty() || stored == *schema {
        return register_files(context, name, Arc::clone(schema), urls);
    }
    let pairs = stored.fields().iter().zip(schema.fields());
    let columns: Vec<Expr> = pairs
        .map(|(stored, column)| ident(stored.name()).alias(column.name()))
        .collect();
    let renamed = context
        .read_table(Arc::new(files(stored, urls)?))?
        .select(columns)?;
    context.register_table(name, renamed.into_view())?;
    Ok(())
}

/// The Parquet files at these addresses as one table.
fn files(schema: SchemaRef, urls: &[String]) -> Result<ListingTable, Error> {
    let urls = urls.iter().map(ListingTableUrl::parse);
    let urls = urls.collect::<Result<Vec<_>, _>>()?;
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
    let config = ListingTableConfig::new_with_multi_paths(urls)
        .with_listing_options(options)
        .with_schema(schema);
    Ok(ListingTable::try_new(config)?)
}

/// Makes rows in memory a table of a context.
pub(crate) fn register_batches(
    context: &SessionContext,
    name: &str,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
) -> Result<(), Error> {
    let memory = MemTable::try_new(schema, vec![batches])?;
    context.register_table(name, Arc::new(memory))?;
    Ok(())
}

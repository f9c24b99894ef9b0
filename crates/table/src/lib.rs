//! Traces and runs as Parquet tables, and SQL over them.
//!
//! [`store`] is a trace in a folder or in a bucket ([`location`]), with one directory for each capture that was imported, which appears
//! whole or not at all. [`import`] fills it. [`session`] opens it, or a rebuilt trace in memory, for SQL on DataFusion; [`sizes`],
//! [`flows`], [`tcb`] and [`traffic`] are the analyses, each a query and what is made of its result.
//!
//! [`engine`] says where queries run, [`cluster`] watches those on a cluster. [`runs`] is a store of runs in such a location, which is open for SQL as well.
//!
//! This is the only crate that knows Parquet, DataFusion and object stores, so that nothing else has to wait for them to be
//! built.
//!
//! docs/trace.md and docs/runs.md have the tables, column by column.
//!
//! It must never print, nor decode a packet, nor change a number.
#![forbid(unsafe_code)]

pub mod answer;
mod bucket;
pub mod cluster;
mod columns;
mod distribution;
pub mod engine;
mod error;
pub mod flows;
pub mod import;
pub mod location;
mod pages;
pub mod prefix;
mod queries;
pub mod runs;
pub mod schema;
pub mod session;
pub mod sizes;
pub mod store;
pub mod tcb;
pub mod traffic;
mod writer;

pub use distribution::{Bin, Modes, Sizes};
pub use error::Error;

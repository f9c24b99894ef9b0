//! Traces as Parquet tables, and SQL over them.
//!
//! [`store`] is a trace on disk: a directory with one directory for each capture that was imported, which appears whole or
//! not at all. [`import`] fills it. [`session`] opens it, or a rebuilt trace in memory, for SQL on DataFusion; [`sizes`],
//! [`flows`], [`tcb`] and [`traffic`] are the analyses, each a query and what is made of its result.
//!
//! This is the only crate that knows Parquet and DataFusion, so that nothing else has to wait for them to be built. A cluster
//! (Ballista) or an object store would replace what [`session`] opens, and nothing else.
//!
//! docs/trace.md has the tables, column by column.
//!
//! It must never print, nor decode a packet.
#![forbid(unsafe_code)]

pub mod answer;
mod columns;
mod distribution;
mod error;
pub mod flows;
pub mod import;
mod pages;
pub mod prefix;
pub mod schema;
pub mod session;
pub mod sizes;
pub mod store;
pub mod tcb;
pub mod traffic;
mod writer;

pub use distribution::{Bin, Modes, Sizes};
pub use error::Error;

//! The columns of the three tables; docs/trace.md describes them for people.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// The version of the tables, that of the rows.
pub const VERSION: u32 = tollgate_trace::rows::VERSION;

/// The oldest version that is read.
pub const OLDEST: u32 = tollgate_trace::rows::OLDEST;

/// A table of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One row for each packet of TCP and UDP.
    Packets,
    /// One row for each message.
    Messages,
    /// One row for each flow.
    Flows,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Packets, Self::Messages, Self::Flows];

    /// Its name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Messages => "messages",
            Self::Flows => "flows",
        }
    }

    /// The name of its file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Packets => "packets.parquet",
            Self::Messages => "messages.parquet",
            Self::Flows => "flows.parquet",
        }
    }

    /// Its columns.
    pub fn schema(self) -> SchemaRef {
        let ends = || {
            vec![
                column("protocol", DataType::UInt8),
                column("client", text()),
                column("client_port", DataType::UInt16),
                column("server", text()),
                column("server_port", DataType::UInt16),
            ]
        };
        let columns = match self {
            Self::Packets => vec![
                column("time", time()),
                column("flow", DataType::UInt64),
                column("to_server", DataType::Boolean),
                column("size", DataType::UInt32),
                column("flags", DataType::UInt8),
            ],
            Self::Messages => {
                let mut columns = vec![
                    column("time", time()),
                    column("flow", DataType::UInt64),
                    column("to_server", DataType::Boolean),
                    column("size", DataType::UInt32),
                    column("packets", DataType::UInt32),
                    column("is_segment", DataType::Boolean),
                    column("is_write", DataType::Boolean),
                    column("again", DataType::Boolean),
                ];
                columns.extend(ends());
                columns
            }
            Self::Flows => {
                let mut columns = vec![column("flow", DataType::UInt64)];
                columns.extend(ends());
                columns.extend([
                    column("first", time()),
                    column("last", time()),
                    column("opened", DataType::Boolean),
                    column("ending", text()),
                ]);
                for way in ["to_server", "to_client"] {
                    for what in ["packets", "bytes", "segments", "writes", "again"] {
                        columns.push(column(&format!("{what}_{way}"), DataType::UInt64));
                    }
                }
                columns
            }
        };
        Arc::new(Schema::new(columns))
    }
}

fn column(name: &str, kind: DataType) -> Field {
    Field::new(name, kind, false)
}

/// Nanoseconds since 1970-01-01 UTC.
fn time() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// Text of which there are few different values.
fn text() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

//! The rows of a run, and their columns; docs/runs.md describes them for people.
//!
//! The numbers are those that `tollgate compare` puts side by side. Must never change one.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, RecordBatch, TimestampNanosecondArray,
    UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef, TimeUnit};
use serde::Serialize;
use tollgate_analysis::comparison::{self, Number};
use tollgate_run::{Host, Interval, Measured, Reading, RemoteEnd, Run};

use crate::Error;

/// The version of the tables that a new store gets.
pub const VERSION: u32 = 2;

/// The oldest version that is read and added to. A store keeps the version that it was made with.
pub const OLDEST: u32 = 1;

/// The columns that version 1 has under other names: today's name, and its own.
const RENAMED: [(&str, &str); 2] = [("remote", "far"), ("remote_kernel", "far_kernel")];

/// A table of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One row for each number.
    Numbers,
    /// One row for each setting of a host.
    Settings,
    /// One row for each run.
    Runs,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Numbers, Self::Settings, Self::Runs];

    /// Its name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Numbers => "numbers",
            Self::Settings => "settings",
            Self::Runs => "runs",
        }
    }

    /// The name of its file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Numbers => "numbers.parquet",
            Self::Settings => "settings.parquet",
            Self::Runs => "runs.parquet",
        }
    }

    /// Its columns.
    pub fn schema(self) -> SchemaRef {
        let columns = match self {
            Self::Numbers => vec![
                text("run"),
                time("started"),
                maybe(text("host")),
                maybe(text("kernel")),
                text("experiment"),
                text("table_id"),
                text("row_label"),
                text("column_name"),
                maybe(text("path")),
                maybe(whole("size")),
                text("kind"),
                maybe(text("layer")),
                text("unit"),
                real("value"),
                maybe(real("low")),
                maybe(real("high")),
                maybe(whole("n")),
                maybe(real("mean")),
                maybe(real("p50")),
                maybe(real("p99")),
                maybe(real("p99_9")),
            ],
            Self::Settings => vec![
                text("run"),
                maybe(text("host")),
                flag("remote"),
                text("kind"),
                text("name"),
                text("state"),
            ],
            Self::Runs => vec![
                text("run"),
                time("started"),
                real("elapsed_s"),
                maybe(text("host")),
                text("tool"),
                text("command"),
                flag("quick"),
                maybe(text("kernel")),
                maybe(text("cpu_model")),
                maybe(Field::new("cores", DataType::UInt32, true)),
                maybe(whole("memory_bytes")),
                maybe(text("hypervisor")),
                maybe(text("governor")),
                text("clock"),
                maybe(text("remote")),
                maybe(text("remote_kernel")),
                whole("numbers"),
                whole("warnings"),
            ],
        };
        Arc::new(Schema::new(columns))
    }

    /// Its columns as they are called in the files of a store of this version.
    pub(crate) fn schema_of(self, version: u32) -> SchemaRef {
        if version == VERSION {
            return self.schema();
        }
        let schema = self.schema();
        let columns = schema.fields().iter().map(|field| {
            let renamed = RENAMED.iter().find(|(now, _)| now == field.name());
            let name = renamed.map_or(field.name().as_str(), |(_, before)| before);
            field.as_ref().clone().with_name(name)
        });
        Arc::new(Schema::new(columns.collect::<Vec<_>>()))
    }
}

fn text(name: &str) -> Field {
    let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Field::new(name, kind, false)
}

fn whole(name: &str) -> Field {
    Field::new(name, DataType::UInt64, false)
}

fn real(name: &str) -> Field {
    Field::new(name, DataType::Float64, false)
}

fn flag(name: &str) -> Field {
    Field::new(name, DataType::Boolean, false)
}

fn time(name: &str) -> Field {
    let kind = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    Field::new(name, kind, false)
}

/// A column that may be null.
fn maybe(field: Field) -> Field {
    field.with_nullable(true)
}

/// A run that becomes rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    /// The run's name in the store.
    pub(crate) id: &'a str,
    /// The host's name, if known.
    pub(crate) host: Option<&'a str>,
    /// The run.
    pub(crate) run: &'a Run,
}

impl Rows<'_> {
    /// Those of one table, in a store of this version.
    pub(crate) fn of(&self, table: Table, version: u32) -> Result<RecordBatch, Error> {
        let columns = match table {
            Table::Numbers => self.numbers(),
            Table::Settings => self.settings(),
            Table::Runs => self.one(),
        };
        Ok(RecordBatch::try_new(table.schema_of(version), columns)?)
    }

    fn numbers(&self) -> Vec<ArrayRef> {
        let numbers = comparison::numbers(self.run);
        let rows = numbers.len();
        let kernel = self.run.host.kernel.value().map(String::as_str);
        let words = |of: fn(&Number) -> Option<String>| {
            let words: Vec<Option<String>> = numbers.iter().map(of).collect();
            texts(words.iter().map(Option::as_deref))
        };
        let reals = |of: fn(&Measured) -> Option<f64>| -> ArrayRef {
            let values = numbers.iter().map(|one| of(one.measured));
            Arc::new(values.collect::<Float64Array>())
        };
        let counts = |of: fn(&Number) -> Option<u64>| -> ArrayRef {
            Arc::new(numbers.iter().map(of).collect::<UInt64Array>())
        };
        vec![
            same(Some(self.id), rows),
            self.started(rows),
            same(self.host, rows),
            same(kernel, rows),
            texts(numbers.iter().map(|one| Some(&*one.place.experiment))),
            texts(numbers.iter().map(|one| Some(&*one.place.table))),
            texts(numbers.iter().map(|one| Some(&*one.place.row))),
            texts(numbers.iter().map(|one| Some(&*one.place.column))),
            texts(numbers.iter().map(|one| one.path().map(|path| path.name()))),
            counts(|one| one.size()),
            words(|one| word(&one.kind)),
            texts(
                numbers
                    .iter()
                    .map(|one| one.layer.map(|layer| layer.name())),
            ),
            words(|one| word(&one.unit)),
            reals(|one| Some(one.value)),
            reals(|one| one.ci.map(|Interval { low, .. }| low)),
            reals(|one| one.ci.map(|Interval { high, .. }| high)),
            counts(|one| one.measured.n),
            reals(|one| one.mean),
            reals(|one| one.p50),
            reals(|one| one.p99),
            reals(|one| one.p99_9),
        ]
    }

    fn settings(&self) -> Vec<ArrayRef> {
        let mut rows = settings(&self.run.host, false);
        if let Some(remote) = &self.run.remote {
            rows.extend(settings(&remote.host, true));
        }
        vec![
            same(Some(self.id), rows.len()),
            same(self.host, rows.len()),
            Arc::new(BooleanArray::from_iter(
                rows.iter().map(|row| Some(row.remote)),
            )),
            texts(rows.iter().map(|row| Some(row.kind))),
            texts(rows.iter().map(|row| Some(row.name))),
            texts(rows.iter().map(|row| Some(row.state))),
        ]
    }

    fn one(&self) -> Vec<ArrayRef> {
        let Self { run, .. } = self;
        let host = &run.host;
        let one = |text: Option<&str>| same(text, 1);
        let whole = |value: Option<u64>| -> ArrayRef { Arc::new(UInt64Array::from(vec![value])) };
        let tool = &run.tool;
        let tool = match &tool.git {
            Some(git) => format!("{} {} {git}", tool.name, tool.version),
            None => format!("{} {}", tool.name, tool.version),
        };
        let remote = run.remote.as_ref();
        vec![
            one(Some(self.id)),
            self.started(1),
            Arc::new(Float64Array::from(vec![run.elapsed_s])),
            one(self.host),
            one(Some(&tool)),
            one(Some(&run.command)),
            Arc::new(BooleanArray::from(vec![run.quick])),
            one(fact(&host.kernel)),
            one(fact(&host.cpu_model)),
            Arc::new(UInt32Array::from(vec![host.cores.value().copied()])),
            whole(host.memory_bytes.value().copied()),
            one(fact(&host.hypervisor)),
            one(fact(&host.governor)),
            one(Some(&run.clock.source)),
            one(remote.map(|RemoteEnd { address, .. }| address.as_str())),
            one(remote.and_then(|remote| fact(&remote.host.kernel))),
            whole(Some(comparison::numbers(run).len() as u64)),
            whole(Some(run.warnings.len() as u64)),
        ]
    }

    fn started(&self, rows: usize) -> ArrayRef {
        // A time of this schema is before the year 10000, where seconds fit; nanoseconds do until 2262.
        let ns = i64::try_from(self.run.started.unix_seconds())
            .ok()
            .and_then(|seconds| seconds.checked_mul(1_000_000_000))
            .unwrap_or(i64::MAX);
        Arc::new(TimestampNanosecondArray::from_value(ns, rows).with_timezone("UTC"))
    }
}

/// A setting of a host.
struct SettingRow<'a> {
    remote: bool,
    kind: &'static str,
    name: &'a str,
    state: &'a str,
}

fn settings(host: &Host, remote: bool) -> Vec<SettingRow<'_>> {
    let mitigations = host.mitigations.value().into_iter().flatten();
    let mut rows: Vec<SettingRow<'_>> = mitigations
        .map(|one| SettingRow {
            remote,
            kind: "mitigation",
            name: &one.name,
            state: &one.state,
        })
        .collect();
    for (kind, list) in [("sysctl", &host.sysctls), ("offload", &host.offloads)] {
        let list = list.as_ref().and_then(Reading::value).into_iter().flatten();
        rows.extend(list.map(|one| SettingRow {
            remote,
            kind,
            name: &one.name,
            state: &one.state,
        }));
    }
    rows
}

fn fact(reading: &Reading<String>) -> Option<&str> {
    reading.value().map(String::as_str)
}

/// The word by which a run's JSON calls it.
fn word(one: &impl Serialize) -> Option<String> {
    let value = serde_json::to_value(one).ok()?;
    value.as_str().map(str::to_owned)
}

fn texts<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(texts.collect::<DictionaryArray<Int32Type>>())
}

/// Column with one text in all rows.
fn same(text: Option<&str>, rows: usize) -> ArrayRef {
    texts(std::iter::repeat_n(text, rows))
}

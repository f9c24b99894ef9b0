//! Rows into batches of columns, and batches to whoever keeps them: Parquet files, or memory.
//!
//! Must never hold more than a batch of each table; what the Parquet writers hold is bounded by the size of a row group.

use std::collections::HashMap;
use std::fs::File;
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, RecordBatch, StringArray,
    TimestampNanosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Int32Type;
use foldhash::fast::RandomState;
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use tollgate_trace::rows::{Carried, Ends, FlowRow, MessageRow, PacketRow, Rows};

use crate::Error;
use crate::columns::Columns;
use crate::schema::Table;
use crate::store::TableFiles;

/// Rows that become columns together.
const BATCH: usize = 1 << 14;
/// Rows of a row group, whose encoded columns are held until it is written.
const ROW_GROUP: usize = 1 << 20;

/// Destination of batches.
pub(crate) trait Keep {
    /// Takes a batch. Where it goes on from the batch before of the same table, its dictionaries begin with those of that one.
    fn keep(&mut self, table: Table, batch: RecordBatch, goes_on: bool) -> Result<(), Error>;
}

/// Parquet files.
pub(crate) struct Files {
    tables: [ParquetFile; Table::ALL.len()],
}

impl Files {
    /// Begins the tables in three empty files, in the order of [`Table::ALL`].
    pub(crate) fn new(files: TableFiles) -> Result<Self, Error> {
        let table =
            |file, table| ParquetFile::new(file, table).map_err(|source| failed(table, source));
        let [packets, messages, flows] = files;
        Ok(Self {
            tables: [
                table(packets, Table::Packets)?,
                table(messages, Table::Messages)?,
                table(flows, Table::Flows)?,
            ],
        })
    }

    /// Ends the tables, and gives their files.
    pub(crate) fn finish(self) -> Result<TableFiles, Error> {
        let finish =
            |file: ParquetFile, table| file.finish().map_err(|source| failed(table, source));
        let [packets, messages, flows] = self.tables;
        Ok([
            finish(packets, Table::Packets)?,
            finish(messages, Table::Messages)?,
            finish(flows, Table::Flows)?,
        ])
    }
}

impl Keep for Files {
    fn keep(&mut self, table: Table, batch: RecordBatch, goes_on: bool) -> Result<(), Error> {
        let file = &mut self.tables[table as usize];
        file.write(&batch, goes_on)
            .map_err(|source| failed(table, source))
    }
}

/// A Parquet file, and the row group that comes next in it.
struct ParquetFile {
    file: SerializedFileWriter<File>,
    next: Columns,
}

impl ParquetFile {
    fn new(file: File, table: Table) -> Result<Self, ParquetError> {
        let schema = table.schema();
        let mut properties = WriterProperties::builder().build();
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let root = ArrowSchemaConverter::new()
            .convert(&schema)?
            .root_schema_ptr();
        Ok(Self {
            file: SerializedFileWriter::new(file, root, properties.into())?,
            next: Columns::new(&schema)?,
        })
    }

    fn write(&mut self, batch: &RecordBatch, goes_on: bool) -> Result<(), ParquetError> {
        self.next.add(batch, goes_on);
        if self.next.rows() >= ROW_GROUP {
            self.next.flush(&mut self.file)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<File, ParquetError> {
        self.next.flush(&mut self.file)?;
        self.file.into_inner()
    }
}

fn failed(table: Table, source: ParquetError) -> Error {
    Error::Write {
        table: table.name(),
        source,
    }
}

/// Batches in memory.
#[derive(Default)]
pub(crate) struct Batches {
    pub(crate) tables: [Vec<RecordBatch>; Table::ALL.len()],
}

impl Keep for Batches {
    fn keep(&mut self, table: Table, batch: RecordBatch, _: bool) -> Result<(), Error> {
        self.tables[table as usize].push(batch);
        Ok(())
    }
}

/// Turns rows into batches.
pub(crate) struct Writer<K> {
    keep: K,
    packets: Packets,
    messages: Messages,
    flows: Flows,
}

impl<K: Keep> Writer<K> {
    pub(crate) fn new(keep: K) -> Self {
        Self {
            keep,
            packets: Packets::default(),
            messages: Messages::default(),
            flows: Flows::default(),
        }
    }

    /// Gives the batches that are not full, and whoever kept them.
    pub(crate) fn finish(mut self) -> Result<K, Error> {
        self.give_packets()?;
        self.give_messages()?;
        self.give_flows()?;
        Ok(self.keep)
    }

    fn give_packets(&mut self) -> Result<(), Error> {
        let batch = self.packets.take()?;
        self.keep.keep(Table::Packets, batch, false)
    }

    fn give_messages(&mut self) -> Result<(), Error> {
        let goes_on = self.messages.ends.goes_on;
        let batch = self.messages.take()?;
        self.keep.keep(Table::Messages, batch, goes_on)
    }

    fn give_flows(&mut self) -> Result<(), Error> {
        let batch = self.flows.take()?;
        self.keep.keep(Table::Flows, batch, false)
    }
}

impl<K: Keep> Rows for Writer<K> {
    type Error = Error;

    #[inline]
    fn packet(&mut self, row: &PacketRow) -> Result<(), Error> {
        self.packets.push(row);
        if self.packets.time.len() == BATCH {
            self.give_packets()?;
        }
        Ok(())
    }

    #[inline]
    fn message(&mut self, row: &MessageRow, ends: &Ends) -> Result<(), Error> {
        self.messages.push(row, ends);
        if self.messages.time.len() == BATCH {
            self.give_messages()?;
        }
        Ok(())
    }

    fn flow(&mut self, row: &FlowRow) -> Result<(), Error> {
        self.flows.push(row);
        if self.flows.flow.len() == BATCH {
            self.give_flows()?;
        }
        Ok(())
    }
}

/// Takes the values of a column, and makes room for as many.
fn take<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len());
    mem::replace(values, room)
}

/// Takes the values of a column.
macro_rules! column {
    ($array:ty, $values:expr) => {
        Arc::new(<$array>::from(take(&mut $values))) as ArrayRef
    };
}

fn times(values: &mut Vec<i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(take(values)).with_timezone("UTC"))
}

/// Texts by their numbers in a dictionary, whose first texts are those of the batch before where it lasts.
#[derive(Default)]
struct Texts {
    keys: Vec<i32>,
    /// All texts, one behind the other.
    bytes: Vec<u8>,
    /// The end of each of them.
    ends: Vec<i32>,
}

impl Texts {
    /// The number of a text that is put behind the others.
    fn add(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> i32 {
        put(&mut self.bytes);
        self.ends.push(self.bytes.len() as i32);
        self.ends.len() as i32 - 1
    }

    /// The column, and begins the next one.
    fn take(&mut self) -> Result<ArrayRef, Error> {
        let keys = Int32Array::from(take(&mut self.keys));
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let offsets = OffsetBuffer::new(begins.collect());
        let values = StringArray::try_new(offsets, self.bytes.clone().into(), None)?;
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
            keys,
            Arc::new(values),
        )?))
    }
}

impl Texts {
    /// Begins another dictionary.
    fn forget(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Addresses as text, each once in a dictionary.
#[derive(Default)]
struct Addresses {
    texts: Texts,
    known: HashMap<IpAddr, i32, RandomState>,
}

impl Addresses {
    fn key(&mut self, address: IpAddr) -> i32 {
        let texts = &mut self.texts;
        *self
            .known
            .entry(address)
            .or_insert_with(|| texts.add(|bytes| put_address(address, bytes)))
    }

    fn forget(&mut self) {
        self.known.clear();
        self.texts.forget();
    }
}

/// Puts an address as text behind `bytes`. Among many flows each message brings another address, so one of IPv4 does not go through
/// the formatting of the standard library, whose text this is.
fn put_address(address: IpAddr, bytes: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => {
            for (at, number) in v4.octets().into_iter().enumerate() {
                if at > 0 {
                    bytes.push(b'.');
                }
                if number >= 100 {
                    bytes.push(b'0' + number / 100);
                }
                if number >= 10 {
                    bytes.push(b'0' + number / 10 % 10);
                }
                bytes.push(b'0' + number % 10);
            }
        }
        IpAddr::V6(v6) => bytes.extend_from_slice(v6.to_string().as_bytes()),
    }
}

/// Texts of a dictionary that are enough to begin another one: it stands with every batch.
const MOST_TEXTS: usize = 1 << 16;
/// Flows whose addresses are found without looking for them.
const NEAR: usize = 1 << 15;

/// The keys of a flow's addresses.
#[derive(Clone, Copy)]
struct Near {
    flow: u64,
    client: i32,
    server: i32,
}

impl Near {
    /// No flow's: no key is negative.
    const NONE: Self = Self {
        flow: 0,
        client: -1,
        server: -1,
    };
}

/// The columns that say between whom.
#[derive(Default)]
struct EndColumns {
    protocol: Vec<u8>,
    client: Addresses,
    client_port: Vec<u16>,
    server: Addresses,
    server_port: Vec<u16>,
    /// By the lower bits of the flow's number; empty until there is a flow.
    near: Vec<Near>,
    /// The dictionaries begin with those of the batch before.
    goes_on: bool,
}

impl EndColumns {
    #[inline]
    fn push(&mut self, flow: u64, ends: &Ends) {
        let near = self.near.get(flow as usize % NEAR);
        let (client, server) = match near {
            Some(near) if near.flow == flow && near.client >= 0 => (near.client, near.server),
            _ => self.keys(flow, ends),
        };
        self.protocol.push(ends.protocol.number());
        self.client.texts.keys.push(client);
        self.client_port.push(ends.client.port);
        self.server.texts.keys.push(server);
        self.server_port.push(ends.server.port);
    }

    #[inline(never)]
    fn keys(&mut self, flow: u64, ends: &Ends) -> (i32, i32) {
        let client = self.client.key(ends.client.address);
        let server = self.server.key(ends.server.address);
        self.near.resize(NEAR, Near::NONE);
        self.near[flow as usize % NEAR] = Near {
            flow,
            client,
            server,
        };
        (client, server)
    }

    /// The columns, and begins the next ones; their dictionaries may go on from these where they `last`.
    fn take(&mut self, last: bool) -> Result<[ArrayRef; 5], Error> {
        let columns = [
            column!(UInt8Array, self.protocol),
            self.client.texts.take()?,
            column!(UInt16Array, self.client_port),
            self.server.texts.take()?,
            column!(UInt16Array, self.server_port),
        ];
        let most = self.client.known.len().max(self.server.known.len());
        self.goes_on = last && most < MOST_TEXTS;
        if !self.goes_on {
            self.client.forget();
            self.server.forget();
            self.near.fill(Near::NONE);
        }
        Ok(columns)
    }
}

#[derive(Default)]
struct Packets {
    time: Vec<i64>,
    flow: Vec<u64>,
    to_server: Vec<bool>,
    size: Vec<u32>,
    flags: Vec<u8>,
}

impl Packets {
    #[inline]
    fn push(&mut self, row: &PacketRow) {
        let PacketRow {
            time_ns,
            flow,
            to_server,
            size,
            flags,
        } = *row;
        self.time.push(time_ns);
        self.flow.push(flow);
        self.to_server.push(to_server);
        self.size.push(size);
        self.flags.push(flags);
    }

    fn take(&mut self) -> Result<RecordBatch, Error> {
        let columns = vec![
            times(&mut self.time),
            column!(UInt64Array, self.flow),
            column!(BooleanArray, self.to_server),
            column!(UInt32Array, self.size),
            column!(UInt8Array, self.flags),
        ];
        Ok(RecordBatch::try_new(Table::Packets.schema(), columns)?)
    }
}

#[derive(Default)]
struct Messages {
    time: Vec<i64>,
    flow: Vec<u64>,
    to_server: Vec<bool>,
    size: Vec<u32>,
    packets: Vec<u32>,
    is_segment: Vec<bool>,
    is_write: Vec<bool>,
    again: Vec<bool>,
    ends: EndColumns,
}

impl Messages {
    #[inline]
    fn push(&mut self, row: &MessageRow, ends: &Ends) {
        let MessageRow {
            time_ns,
            flow,
            to_server,
            size,
            packets,
            counted,
            again,
        } = *row;
        self.time.push(time_ns);
        self.flow.push(flow);
        self.to_server.push(to_server);
        self.size.push(size);
        self.packets.push(packets);
        self.is_segment.push(counted.is_segment());
        self.is_write.push(counted.is_write());
        self.again.push(again);
        self.ends.push(flow, ends);
    }

    fn take(&mut self) -> Result<RecordBatch, Error> {
        let mut columns = vec![
            times(&mut self.time),
            column!(UInt64Array, self.flow),
            column!(BooleanArray, self.to_server),
            column!(UInt32Array, self.size),
            column!(UInt32Array, self.packets),
            column!(BooleanArray, self.is_segment),
            column!(BooleanArray, self.is_write),
            column!(BooleanArray, self.again),
        ];
        columns.extend(self.ends.take(true)?);
        Ok(RecordBatch::try_new(Table::Messages.schema(), columns)?)
    }
}

#[derive(Default)]
struct Flows {
    flow: Vec<u64>,
    ends: EndColumns,
    first: Vec<i64>,
    last: Vec<i64>,
    opened: Vec<bool>,
    endings: HashMap<&'static str, i32>,
    ending: Texts,
    /// Five columns to the server, five to the client.
    carried: [Vec<u64>; 10],
}

impl Flows {
    fn push(&mut self, row: &FlowRow) {
        let FlowRow {
            flow,
            ends,
            first_ns,
            last_ns,
            opened,
            ending,
            to_server,
            to_client,
        } = row;
        self.flow.push(*flow);
        self.ends.push(*flow, ends);
        self.first.push(*first_ns);
        self.last.push(*last_ns);
        self.opened.push(*opened);
        let texts = &mut self.ending;
        let key = *self.endings.entry(ending.name()).or_insert_with(|| {
            texts.add(|bytes| bytes.extend_from_slice(ending.name().as_bytes()))
        });
        texts.keys.push(key);
        let numbers = |carried: &Carried| {
            let Carried {
                packets,
                bytes,
                segments,
                writes,
                again,
            } = *carried;
            [packets, bytes, segments, writes, again]
        };
        let numbers = numbers(to_server).into_iter().chain(numbers(to_client));
        for (column, number) in self.carried.iter_mut().zip(numbers) {
            column.push(number);
        }
    }

    fn take(&mut self) -> Result<RecordBatch, Error> {
        self.endings.clear();
        let mut columns = vec![column!(UInt64Array, self.flow)];
        columns.extend(self.ends.take(false)?);
        columns.extend([
            times(&mut self.first),
            times(&mut self.last),
            column!(BooleanArray, self.opened),
            self.ending.take()?,
        ]);
        self.ending.forget();
        for column in &mut self.carried {
            columns.push(column!(UInt64Array, *column));
        }
        Ok(RecordBatch::try_new(Table::Flows.schema(), columns)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_is_put_as_the_standard_library_prints_it(address in any::<IpAddr>()) {
            let mut bytes = b"before ".to_vec();
            put_address(address, &mut bytes);
            prop_assert_eq!(bytes, format!("before {address}").into_bytes());
        }
    }

    #[test]
    fn each_address_stands_once_in_a_batch_and_batches_know_nothing_of_each_other() {
        let mut addresses = Addresses::default();
        let [one, other] = ["192.0.2.7", "2001:db8::1"].map(|text| text.parse().unwrap());
        for batch in [vec![one, other, one], vec![other]] {
            for &address in &batch {
                let key = addresses.key(address);
                addresses.texts.keys.push(key);
            }
            let array = addresses.texts.take().unwrap();
            addresses.forget();
            let array: &DictionaryArray<Int32Type> = array.as_any().downcast_ref().unwrap();
            let texts = array.downcast_dict::<StringArray>().unwrap();
            let texts: Vec<String> = texts.into_iter().flatten().map(str::to_owned).collect();
            let expected: Vec<String> = batch.iter().map(IpAddr::to_string).collect();
            assert_eq!(texts, expected);
            assert_eq!(array.values().len(), batch.len().min(2));
        }
    }
}

//! The columns of a row group on their way into a Parquet file.
//!
//! Parquet's own writer for Arrow hashes each value of each row; here the encoding follows from what is known of the columns.
//! Numbers that grow are differences. Numbers and texts of which there are few are looked up: small numbers in an array, texts once
//! for each dictionary of the batches, which says already which are alike. Nothing is compressed on top of that. The files are Parquet
//! like any other.
//!
//! Must never know which table it writes.

use std::collections::HashMap;
use std::io::Write;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{
    DataType, Int32Type, SchemaRef, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use bytes::Bytes;
use foldhash::fast::RandomState;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::pages;

/// A row group that is being filled.
pub(crate) struct Columns {
    columns: Vec<Column>,
    rows: usize,
}

impl Columns {
    /// None yet.
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self, ParquetError> {
        let fields = schema.fields().iter();
        let columns = fields.map(|field| Column::new(field.data_type()));
        Ok(Self {
            columns: columns.collect::<Result<_, _>>()?,
            rows: 0,
        })
    }

    /// The count of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows. Where they go on from those that were added last, their dictionaries begin with those of these.
    pub(crate) fn add(&mut self, batch: &RecordBatch, goes_on: bool) {
        if batch.num_rows() == 0 {
            return;
        }
        self.rows += batch.num_rows();
        for (column, values) in self.columns.iter_mut().zip(batch.columns()) {
            column.add(values, goes_on);
        }
    }

    /// Writes them as a row group, and begins the next one.
    pub(crate) fn flush<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows) as u64;
        if rows == 0 {
            return Ok(());
        }
        let descriptors = file.schema_descr().columns().to_vec();
        let mut group = file.next_row_group()?;
        for (column, descriptor) in self.columns.iter_mut().zip(descriptors) {
            let (chunk, result) = column.take(descriptor, rows)?;
            group.append_column(&chunk, result)?;
        }
        group.close()?;
        Ok(())
    }
}

struct Column {
    values: Values,
    /// The pages so far, and the rows of each.
    pages: Vec<(u32, Vec<u8>)>,
}

/// Values of a column, by their encoding.
enum Values {
    Bits,
    /// Numbers that grow.
    Times(Range<i64>),
    Counts(Range<u64>),
    /// Numbers of which there are few.
    Few(Few),
    Texts(Texts),
}

impl Column {
    fn new(kind: &DataType) -> Result<Self, ParquetError> {
        let values = match kind {
            DataType::Boolean => Values::Bits,
            DataType::Timestamp(..) => Values::Times(Range::default()),
            DataType::UInt64 => Values::Counts(Range::default()),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Values::Few(Few::default()),
            DataType::Dictionary(..) => Values::Texts(Texts::default()),
            other => return Err(ParquetError::NYI(format!("columns of {other}"))),
        };
        let pages = Vec::new();
        Ok(Self { values, pages })
    }

    /// Adds a page with these values, which are of the type of the column.
    fn add(&mut self, array: &dyn Array, goes_on: bool) {
        let mut out = Vec::new();
        match &mut self.values {
            // Arrow and Parquet lay bits out alike.
            Values::Bits => {
                let bits = array.as_boolean().values();
                out.extend_from_slice(bits.sliced().as_slice());
                out.truncate(bits.len().div_ceil(8));
            }
            Values::Times(range) => {
                let values = array.as_primitive::<TimestampNanosecondType>().values();
                range.widen(values);
                pages::deltas(values, &mut out);
            }
            Values::Counts(range) => {
                let values = array.as_primitive::<UInt64Type>().values();
                range.widen(values);
                pages::deltas(values.inner().typed_data(), &mut out);
            }
            Values::Few(few) => {
                let keys: Vec<u32> = match array.data_type() {
                    DataType::UInt8 => few.keys(array.as_primitive::<UInt8Type>().values()),
                    DataType::UInt16 => few.keys(array.as_primitive::<UInt16Type>().values()),
                    _ => few.keys(array.as_primitive::<UInt32Type>().values()),
                };
                pages::keys(&keys, last(few.values.len()), &mut out);
            }
            Values::Texts(texts) => {
                let array = array.as_dictionary::<Int32Type>();
                let values = array.values().as_string::<i32>();
                if !goes_on {
                    texts.keys.clear();
                }
                texts.keys.resize(values.len(), None);
                let keys = array.keys().values().iter();
                let keys: Vec<u32> = keys
                    .map(|key| texts.key_at(values, *key as usize))
                    .collect();
                pages::keys(&keys, last(texts.known.len()), &mut out);
            }
        }
        self.pages.push((array.len() as u32, out));
    }

    /// All pages as they stand in the file, the dictionary first, and what the file says of them.
    fn take(
        &mut self,
        descriptor: ColumnDescPtr,
        rows: u64,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut chunk = TrackedWrite::new(Vec::new());
        let mut writer = SerializedPageWriter::new(&mut chunk);
        let mut builder = ColumnChunkMetaData::builder(descriptor);
        let (encoding, statistics, dictionary) = self.values.take();
        let mut encodings = vec![encoding];
        let mut bytes = 0;
        if let Some((num_values, buf)) = dictionary {
            encodings.push(Encoding::PLAIN);
            let len = buf.len();
            let page = Page::DictionaryPage {
                buf: buf.into(),
                num_values,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            let written = writer.write_page(CompressedPage::new(page, len))?;
            bytes += written.bytes_written;
            builder = builder.set_dictionary_page_offset(Some(written.offset as i64));
        }
        builder = builder.set_data_page_offset(bytes as i64);
        let mut index = OffsetIndexBuilder::new();
        for (num_values, buf) in self.pages.drain(..) {
            let len = buf.len();
            let page = Page::DataPage {
                buf: buf.into(),
                num_values,
                encoding,
                // There are no levels, since nothing is null and nothing repeats.
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let written = writer.write_page(CompressedPage::new(page, len))?;
            bytes += written.bytes_written;
            index.append_row_count(num_values.into());
            index.append_offset_and_size(written.offset as i64, written.bytes_written as i32);
        }
        if let Some(statistics) = statistics {
            builder = builder.set_statistics(statistics);
        }
        let metadata = builder
            .set_encodings(encodings)
            .set_compression(Compression::UNCOMPRESSED)
            .set_num_values(rows as i64)
            .set_total_compressed_size(bytes as i64)
            .set_total_uncompressed_size(bytes as i64)
            .build()?;
        let result = ColumnCloseResult {
            bytes_written: bytes,
            rows_written: rows,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: Some(index.build()),
        };
        Ok((chunk.into_inner()?.into(), result))
    }
}

/// A dictionary's length and its bytes.
type Dictionary = Option<(u32, Vec<u8>)>;

impl Values {
    /// The encoding of the pages so far, what is known of their values, and their dictionary; begins the next one.
    fn take(&mut self) -> (Encoding, Option<Statistics>, Dictionary) {
        match self {
            Self::Bits => (Encoding::PLAIN, None, None),
            Self::Times(range) => {
                let Range { least, most } = std::mem::take(range);
                let statistics = Statistics::int64(least, most, None, Some(0), false);
                (Encoding::DELTA_BINARY_PACKED, Some(statistics), None)
            }
            Self::Counts(range) => {
                // In the order of numbers without a sign, as the column's type says.
                let Range { least, most } = std::mem::take(range);
                let [least, most] = [least, most].map(|end| end.map(u64::cast_signed));
                let statistics = Statistics::int64(least, most, None, Some(0), false);
                (Encoding::DELTA_BINARY_PACKED, Some(statistics), None)
            }
            Self::Few(few) => {
                let values = few.take();
                let least = values.iter().min().copied().map(u32::cast_signed);
                let most = values.iter().max().copied().map(u32::cast_signed);
                let statistics = Statistics::int32(least, most, None, Some(0), false);
                let bytes = values.iter().flat_map(|value| value.to_le_bytes());
                let dictionary = (values.len() as u32, bytes.collect());
                (Encoding::RLE_DICTIONARY, Some(statistics), Some(dictionary))
            }
            Self::Texts(texts) => {
                let Texts { known, bytes, .. } = std::mem::take(texts);
                let text = |text: &String| ByteArray::from(text.as_bytes().to_vec());
                let (least, most) = (known.keys().min().map(text), known.keys().max().map(text));
                let statistics = Statistics::byte_array(least, most, None, Some(0), false);
                let dictionary = (known.len() as u32, bytes);
                (Encoding::RLE_DICTIONARY, Some(statistics), Some(dictionary))
            }
        }
    }
}

/// The largest key of a dictionary with so many values.
fn last(values: usize) -> u32 {
    values.saturating_sub(1) as u32
}

/// From the least to the most of what was seen.
#[derive(Default)]
struct Range<T> {
    least: Option<T>,
    most: Option<T>,
}

impl<T: Ord + Copy> Range<T> {
    fn widen(&mut self, values: &[T]) {
        self.least = values.iter().copied().chain(self.least).min();
        self.most = values.iter().copied().chain(self.most).max();
    }
}

/// Numbers below this are looked up in an array.
const SMALL: usize = 1 << 16;

/// A dictionary of numbers.
struct Few {
    values: Vec<u32>,
    /// The key of each small number and 1, or 0.
    small: Vec<u32>,
    large: HashMap<u32, u32, RandomState>,
}

impl Default for Few {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            small: vec![0; SMALL],
            large: HashMap::default(),
        }
    }
}

impl Few {
    fn keys<T: Copy + Into<u32>>(&mut self, values: &[T]) -> Vec<u32> {
        values
            .iter()
            .map(|value| self.key((*value).into()))
            .collect()
    }

    #[inline]
    fn key(&mut self, value: u32) -> u32 {
        match self.small.get(value as usize) {
            Some(&key) if key > 0 => key - 1,
            _ => self.far_or_new(value),
        }
    }

    fn far_or_new(&mut self, value: u32) -> u32 {
        let new = self.values.len() as u32;
        let key = match self.small.get_mut(value as usize) {
            Some(small) => {
                *small = new + 1;
                new
            }
            None => *self.large.entry(value).or_insert(new),
        };
        if key == new {
            self.values.push(value);
        }
        key
    }

    /// Forgets all, and gives the numbers in the order of their keys.
    fn take(&mut self) -> Vec<u32> {
        for value in &self.values {
            if let Some(small) = self.small.get_mut(*value as usize) {
                *small = 0;
            }
        }
        self.large.clear();
        std::mem::take(&mut self.values)
    }
}

/// A dictionary of texts.
#[derive(Default)]
struct Texts {
    known: HashMap<String, u32, RandomState>,
    /// The texts in the form of the dictionary's page: each with its length in front.
    bytes: Vec<u8>,
    /// The keys of the texts of the batches' dictionary, as far as they were asked for.
    keys: Vec<Option<u32>>,
}

impl Texts {
    /// The key of the text that has the number `at` in the batch's dictionary.
    #[inline]
    fn key_at(&mut self, values: &StringArray, at: usize) -> u32 {
        if let Some(key) = self.keys[at] {
            return key;
        }
        let key = self.key(values.value(at));
        self.keys[at] = Some(key);
        key
    }

    fn key(&mut self, text: &str) -> u32 {
        if let Some(key) = self.known.get(text) {
            return *key;
        }
        let key = self.known.len() as u32;
        self.known.insert(text.to_owned(), key);
        self.bytes
            .extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        key
    }
}

#[cfg(test)]
mod tests;

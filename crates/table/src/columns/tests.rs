//! Tests that Parquet's own reader reads what is written.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, TimestampNanosecondArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, TimeUnit};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

use super::*;

type Row = (i64, u64, bool, u32, u16, u8, String);

fn schema() -> SchemaRef {
    let text = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let fields = [
        ("time", time),
        ("count", DataType::UInt64),
        ("bit", DataType::Boolean),
        ("size", DataType::UInt32),
        ("port", DataType::UInt16),
        ("small", DataType::UInt8),
        ("text", text),
    ];
    let fields = fields.map(|(name, kind)| Field::new(name, kind, false));
    Arc::new(Schema::new(fields.to_vec()))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let times = TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.0));
    let texts: DictionaryArray<Int32Type> = rows.iter().map(|row| row.6.as_str()).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(times.with_timezone("UTC")),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.2)))),
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.3))),
        Arc::new(UInt16Array::from_iter_values(rows.iter().map(|row| row.4))),
        Arc::new(UInt8Array::from_iter_values(rows.iter().map(|row| row.5))),
        Arc::new(texts),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The file of these row groups, each of several batches.
fn write(groups: &[Vec<RecordBatch>]) -> Bytes {
    write_as(groups, false)
}

/// The file of row groups whose batches may go on from each other.
fn write_as(groups: &[Vec<RecordBatch>], goes_on: bool) -> Bytes {
    let mut properties = WriterProperties::builder().build();
    parquet::arrow::add_encoded_arrow_schema_to_metadata(&schema(), &mut properties);
    let descriptor = ArrowSchemaConverter::new().convert(&schema()).unwrap();
    let root = descriptor.root_schema_ptr();
    let mut file = SerializedFileWriter::new(Vec::new(), root, properties.into()).unwrap();
    let mut columns = Columns::new(&schema()).unwrap();
    for group in groups {
        group.iter().for_each(|batch| columns.add(batch, goes_on));
        columns.flush(&mut file).unwrap();
    }
    file.into_inner().unwrap().into()
}

fn read(file: Bytes) -> RecordBatch {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(builder.schema().fields(), schema().fields());
    let reader = builder.with_batch_size(1_000).build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    concat_batches(&schema(), &batches).unwrap()
}

/// Renders a batch as text, since a dictionary's keys may differ.
fn shown(batch: &RecordBatch) -> Vec<String> {
    let columns = batch.columns().iter();
    let texts = columns.map(|column| arrow::compute::cast(column, &DataType::Utf8).unwrap());
    let texts: Vec<ArrayRef> = texts.collect();
    let row = |row| {
        let cells = texts.iter().map(|text| text.as_string::<i32>().value(row));
        cells.collect::<Vec<_>>().join(" ")
    };
    (0..batch.num_rows()).map(row).collect()
}

fn row() -> impl Strategy<Value = Row> {
    let count = prop_oneof![0..10_u64, any::<u64>()];
    let size = prop_oneof![0..10_u32, any::<u32>()];
    let text = "[a-c]{0,2}";
    // Far from the ends of the calendar, so that they can be shown.
    let time = -1_000_000_000_000_000_000..4_000_000_000_000_000_000_i64;
    (
        time,
        count,
        any::<bool>(),
        size,
        any::<u16>(),
        any::<u8>(),
        text,
    )
}

/// Puts the rows in batches each of whose dictionaries begins with that of the batch before.
fn growing(groups: &[Vec<Vec<Row>>]) -> Vec<Vec<RecordBatch>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut grown = |batch_rows: &Vec<Row>| {
        let before = rows.len();
        rows.extend_from_slice(batch_rows);
        batch(&rows).slice(before, batch_rows.len())
    };
    let groups = groups.iter();
    groups
        .map(|group| group.iter().map(&mut grown).collect())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn dictionaries_that_go_on_are_written_as_those_that_do_not(
        groups in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(row(), 0..300), 1..4), 1..3),
    ) {
        let apart: Vec<Vec<RecordBatch>> = groups
            .iter()
            .map(|group| group.iter().map(|rows| batch(rows)).collect())
            .collect();
        prop_assert_eq!(write_as(&growing(&groups), true), write(&apart));
    }

    #[test]
    fn what_is_written_is_read_again(
        groups in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(row(), 0..300), 1..4), 0..3),
    ) {
        let groups: Vec<Vec<RecordBatch>> = groups
            .iter()
            .map(|group| group.iter().map(|rows| batch(rows)).collect())
            .collect();
        let all: Vec<RecordBatch> = groups.iter().flatten().cloned().collect();
        let all = concat_batches(&schema(), &all).unwrap();
        prop_assert_eq!(shown(&read(write(&groups))), shown(&all));
    }
}

#[test]
fn many_values_and_extremes_are_read_again() {
    let ends = [
        (i64::MIN, 0, 0),
        (i64::MAX, u64::MAX, u32::MAX),
        (0, 1 << 63, 1 << 31),
    ];
    let rows = (0..200_000_u32).map(|at| {
        let (time, count, size) = match ends.get(at as usize) {
            Some(end) => *end,
            None => (i64::from(at) * 1_000, at.into(), at.wrapping_mul(40_503)),
        };
        let text = format!("10.0.{}.{}", at / 256 % 300, at % 256);
        (time, count, at % 3 == 0, size, at as u16, at as u8, text)
    });
    let rows: Vec<Row> = rows.collect();
    let groups = vec![rows.chunks(30_000).map(batch).collect::<Vec<_>>()];
    let (all, found) = (batch(&rows), read(write(&groups)));
    for (column, read) in all.columns().iter().zip(found.columns()) {
        // Times as numbers: not all of them are within the calendar.
        let of = |column: &ArrayRef| match column.data_type() {
            DataType::Timestamp(..) => arrow::compute::cast(column, &DataType::Int64).unwrap(),
            DataType::Dictionary(..) => arrow::compute::cast(column, &DataType::Utf8).unwrap(),
            _ => Arc::clone(column),
        };
        assert_eq!(of(column).as_ref(), of(read).as_ref());
    }
}

#[test]
fn row_groups_say_what_lies_in_them() {
    let row = |at: u32| {
        (
            i64::from(at),
            u64::MAX - u64::from(at),
            true,
            at << 31,
            0,
            0,
            format!("t{at}"),
        )
    };
    let file = write(&[vec![batch(&[row(0), row(1)])], vec![batch(&[row(5)])]]);
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let groups = builder.metadata().row_groups();
    assert_eq!(groups.len(), 2);
    let range = |column: usize| groups[0].column(column).statistics().cloned().unwrap();
    assert_eq!(
        range(0),
        Statistics::int64(Some(0), Some(1), None, Some(0), false)
    );
    assert_eq!(
        range(1),
        Statistics::int64(Some(-2), Some(-1), None, Some(0), false)
    );
    assert_eq!(
        range(3),
        Statistics::int32(Some(0), Some(i32::MIN), None, Some(0), false)
    );
    let text = |text: &str| Some(ByteArray::from(text.as_bytes().to_vec()));
    assert_eq!(
        range(6),
        Statistics::byte_array(text("t0"), text("t1"), None, Some(0), false)
    );
}

//! The rows of any query as values: for JSON, and as aligned text.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, Schema, UInt64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::Serialize;
use serde_json::Value;

use crate::Error;

/// Rows by columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// A value for each column in each row: numbers, true and false, null, and text for all else.
    pub rows: Vec<Vec<Value>>,
}

impl Answer {
    /// The rows of batches.
    ///
    /// # Errors
    /// When a value has no text.
    pub fn of(schema: &Schema, batches: &[RecordBatch]) -> Result<Self, Error> {
        let fields = schema.fields().iter();
        let mut answer = Self {
            columns: fields.map(|field| field.name().clone()).collect(),
            rows: Vec::new(),
        };
        for batch in batches {
            let columns = batch.columns().iter().map(values);
            let columns = columns.collect::<Result<Vec<_>, Error>>()?;
            answer.rows.extend(
                (0..batch.num_rows())
                    .map(|row| columns.iter().map(|column| column[row].clone()).collect()),
            );
        }
        Ok(answer)
    }

    /// Renders a table in text: numbers to the right, all else to the left.
    pub fn text(&self) -> String {
        let cell = |value: &Value| match value {
            Value::Null => String::new(),
            Value::String(text) => text
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect(),
            other => other.to_string(),
        };
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(cell).collect())
            .collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let cells = rows.iter().map(|row| row[at].chars().count());
                cells
                    .chain([self.columns[at].chars().count()])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let right: Vec<bool> = (0..self.columns.len())
            .map(|at| {
                let mut values = self.rows.iter().map(|row| &row[at]);
                values.all(|value| value.is_number() || value.is_null()) && !self.rows.is_empty()
            })
            .collect();
        let line = |cells: &[String]| {
            let mut line = String::new();
            for (at, text) in cells.iter().enumerate() {
                let pad = " ".repeat(widths[at] - text.chars().count());
                let (before, behind) = if right[at] { (&*pad, "") } else { ("", &*pad) };
                line.push_str(&format!("{before}{text}{behind}  "));
            }
            line.trim_end().to_owned() + "\n"
        };
        let mut text = line(&self.columns);
        rows.iter().for_each(|row| text.push_str(&line(row)));
        text
    }
}

/// The values of a column.
fn values(column: &ArrayRef) -> Result<Vec<Value>, Error> {
    let plain = |kind: &DataType| cast(column, kind);
    let at = |row: usize, value: Value| {
        if column.is_null(row) {
            Value::Null
        } else {
            value
        }
    };
    let rows = 0..column.len();
    Ok(match column.data_type() {
        DataType::Boolean => {
            let column = column.as_boolean();
            rows.map(|row| at(row, column.value(row).into())).collect()
        }
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            let column = plain(&DataType::UInt64)?;
            let column = column.as_primitive::<UInt64Type>();
            rows.map(|row| at(row, column.value(row).into())).collect()
        }
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            let column = plain(&DataType::Int64)?;
            let column = column.as_primitive::<Int64Type>();
            rows.map(|row| at(row, column.value(row).into())).collect()
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let column = plain(&DataType::Float64)?;
            let column = column.as_primitive::<Float64Type>();
            rows.map(|row| at(row, column.value(row).into())).collect()
        }
        _ => {
            let options = FormatOptions::default();
            let texts = ArrayFormatter::try_new(column.as_ref(), &options)?;
            let text = |row| Ok(at(row, texts.value(row).try_to_string()?.into()));
            rows.map(text).collect::<Result<_, Error>>()?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_under_each_other_and_nothing_moves_the_cursor() {
        let answer = Answer {
            columns: vec!["name".into(), "count".into()],
            rows: vec![
                vec!["a\u{1b}[2J".into(), 7.into()],
                vec![Value::Null, 1_234.into()],
            ],
        };
        assert_eq!(answer.text(), "name   count\na [2J      7\n        1234\n");
    }
}

//! A table as CSV (RFC 4180), one line for each cell, so that spreadsheets and data frames need no unpivoting.
//!
//! Numbers are in the column's unit, in full, without thousands separators. A field that does not apply is empty.

use tollgate_run::{Cell, Measured, RowKind, Table, Unit};

const HEADER: &str =
    "table,row,depth,kind,layer,column,unit,type,value,ci_low,ci_high,n,mean,p50,p99,p99_9,text";

/// The table as CSV with a header line. Lines end in CR LF. A row without cells gives one line of the type `heading`.
#[must_use]
pub fn render(table: &Table) -> String {
    let mut csv = Csv::default();
    csv.text.push_str(HEADER);
    csv.end();
    for row in &table.rows {
        let layer = row.layer.map_or("", |layer| layer.name());
        let start = |csv: &mut Csv, column: &str, unit: &str| {
            csv.field(&table.id);
            csv.field(&row.label);
            csv.field(&row.depth.to_string());
            csv.field(kind_name(row.kind));
            csv.field(layer);
            csv.field(column);
            csv.field(unit);
        };
        if row.cells.is_empty() {
            start(&mut csv, "", "");
            csv.tail("heading", None, "");
        }
        for (column, cell) in table.columns.iter().zip(&row.cells) {
            start(&mut csv, &column.name, unit_name(column.unit));
            match cell {
                Cell::Value(measured) => csv.tail("value", Some(measured), ""),
                Cell::Published { value, source } => {
                    let measured = Measured {
                        value: *value,
                        ..Measured::default()
                    };
                    csv.tail("published", Some(&measured), &source.to_string());
                }
                Cell::NotAvailable { reason } => csv.tail("not_available", None, reason),
                Cell::Text { text } => csv.tail("text", None, text),
            }
        }
    }
    csv.text
}

#[derive(Default)]
struct Csv {
    text: String,
    /// Tells whether the line has a field already.
    started: bool,
}

impl Csv {
    fn field(&mut self, text: &str) {
        if self.started {
            self.text.push(',');
        }
        self.started = true;
        if text.contains([',', '"', '\r', '\n']) {
            self.text.push('"');
            self.text.push_str(&text.replace('"', "\"\""));
            self.text.push('"');
        } else {
            self.text.push_str(text);
        }
    }

    fn tail(&mut self, kind: &str, measured: Option<&Measured>, text: &str) {
        let number =
            |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
        let of = |part: fn(&Measured) -> Option<f64>| number(measured.and_then(part));
        self.field(kind);
        self.field(&of(|m| Some(m.value)));
        self.field(&of(|m| Some(m.ci?.low)));
        self.field(&of(|m| Some(m.ci?.high)));
        self.field(
            &measured
                .and_then(|m| m.n)
                .map_or(String::new(), |n| n.to_string()),
        );
        self.field(&of(|m| m.mean));
        self.field(&of(|m| m.p50));
        self.field(&of(|m| m.p99));
        self.field(&of(|m| m.p99_9));
        self.field(text);
        self.end();
    }

    fn end(&mut self) {
        self.text.push_str("\r\n");
        self.started = false;
    }
}

/// The word that the run's JSON has for the kind.
fn kind_name(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Processing => "processing",
        RowKind::Queueing => "queueing",
        RowKind::Total => "total",
        RowKind::Unattributed => "unattributed",
        RowKind::Plain => "plain",
    }
}

/// The word that the run's JSON has for the unit.
fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::None => "none",
        Unit::Nanoseconds => "ns",
        Unit::NanosecondsPerByte => "ns/byte",
        Unit::Instructions => "instructions",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "bytes/s",
        Unit::PerSecond => "1/s",
        Unit::Percent => "percent",
        Unit::Ratio => "ratio",
        Unit::Count => "count",
        Unit::Cycles => "cycles",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_run::{Column, Interval, Row};

    use super::*;

    fn table(cells: Vec<Cell>) -> Table {
        let row = |label: &str, cells| Row {
            label: label.into(),
            depth: 1,
            kind: RowKind::Plain,
            layer: None,
            note: None,
            cells,
        };
        let columns = cells
            .iter()
            .map(|_| Column {
                name: "c".into(),
                unit: Unit::Nanoseconds,
            })
            .collect();
        let rows = vec![row("head", vec![]), row("a,b", cells)];
        Table {
            id: "t".into(),
            title: "T".into(),
            columns,
            rows,
        }
    }

    #[test]
    fn each_kind_of_cell_has_its_line() {
        let measured = Measured {
            value: 1_234.5,
            ci: Some(Interval {
                low: 1_200.0,
                high: 1_300.0,
            }),
            n: Some(40_000),
            ..Measured::default()
        };
        let cells = vec![
            Cell::Value(measured),
            Cell::NotAvailable {
                reason: "no \"PMU\"".into(),
            },
            Cell::text("two\nlines"),
        ];
        let csv = render(&table(cells));
        let lines: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(lines[0], HEADER);
        assert_eq!(lines[1], "t,head,1,plain,,,,heading,,,,,,,,,");
        assert_eq!(
            lines[2],
            "t,\"a,b\",1,plain,,c,ns,value,1234.5,1200,1300,40000,,,,,"
        );
        assert_eq!(
            lines[3],
            "t,\"a,b\",1,plain,,c,ns,not_available,,,,,,,,,\"no \"\"PMU\"\"\""
        );
        assert_eq!(
            lines[4],
            "t,\"a,b\",1,plain,,c,ns,text,,,,,,,,,\"two\nlines\""
        );
        assert_eq!(lines[5..], [""]);
    }

    #[test]
    fn names_are_those_of_the_json() {
        for kind in [
            RowKind::Processing,
            RowKind::Queueing,
            RowKind::Total,
            RowKind::Unattributed,
            RowKind::Plain,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind_name(kind));
        }
        for unit in [
            Unit::None,
            Unit::Nanoseconds,
            Unit::NanosecondsPerByte,
            Unit::Instructions,
            Unit::Bytes,
            Unit::BytesPerSecond,
            Unit::PerSecond,
            Unit::Percent,
            Unit::Ratio,
            Unit::Count,
            Unit::Cycles,
        ] {
            assert_eq!(serde_json::to_value(unit).unwrap(), unit_name(unit));
        }
    }

    /// Splits CSV by RFC 4180, independently of the writer.
    fn split(csv: &str) -> Vec<Vec<String>> {
        let (mut lines, mut line, mut field) = (vec![], vec![], String::new());
        let mut chars = csv.chars().peekable();
        let mut quoted = false;
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    field.push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => line.push(std::mem::take(&mut field)),
                '\r' if !quoted => {
                    chars.next();
                    line.push(std::mem::take(&mut field));
                    lines.push(std::mem::take(&mut line));
                }
                c => field.push(c),
            }
        }
        lines
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in "[a\",\r\n é]{0,12}") {
            let lines = split(&render(&table(vec![Cell::text(text.clone())])));
            prop_assert_eq!(lines.len(), 3);
            prop_assert!(lines.iter().all(|line| line.len() == HEADER.split(',').count()));
            prop_assert_eq!(&lines[2][16], &text);
        }
    }
}

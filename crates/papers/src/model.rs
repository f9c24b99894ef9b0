//! The shape of the published numbers: papers, tables, rows, cells and facts.
//!
//! Owns the types and the check that a file is coherent. Must never change a value: what the paper prints is kept in
//! the paper's own unit.

use std::collections::HashSet;

use serde::Deserialize;

use super::error::LoadError;

/// One paper with all its transcribed numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Paper {
    /// Unique id: first author's or authors' surname and year, such as `wolman-1994`.
    pub id: String,
    /// Title of the paper.
    pub title: String,
    /// Full names in the printed order; never empty in an embedded file.
    pub authors: Vec<String>,
    /// Year of publication.
    pub year: u16,
    /// Journal, conference or institution.
    pub venue: String,
    /// Pages in the venue, where known.
    pub pages: Option<String>,
    /// Machine that was measured, unless a table says otherwise.
    pub machine: String,
    /// Parts of the paper that are not transcribed, and why.
    #[serde(default)]
    pub omitted: Vec<String>,
    /// Single numbers from the running text.
    #[serde(default)]
    pub facts: Vec<Fact>,
    /// Tables, those of the paper and those put together from its running text.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
}

impl Paper {
    /// Reads one file and checks that its names, cell counts and values are coherent.
    pub(super) fn parse(text: &str) -> Result<Self, LoadError> {
        let mut paper: Self = toml::from_str(text)?;
        paper.check()?;
        let citation = paper.citation();
        for table in &mut paper.tables {
            table.citation = format!("{citation}, {}, {}", paper.venue, table.place);
            if let Some(page) = table.page {
                table.citation.push_str(&format!(", p. {page}"));
            }
            if table.machine.is_empty() {
                table.machine.clone_from(&paper.machine);
            }
        }
        Ok(paper)
    }

    /// The single number with this id, such as `tcb-lookup`.
    pub fn fact(&self, id: &str) -> Option<&Fact> {
        self.facts.iter().find(|fact| fact.id == id)
    }

    /// Authors and year as they are cited: `Wolman, Voelker and Thekkath 1994`; above three authors, `Clark et al. 1989`.
    pub fn citation(&self) -> String {
        let surnames: Vec<&str> = self
            .authors
            .iter()
            .map(|name| name.rsplit(' ').next().unwrap_or(name))
            .collect();
        let who = match surnames.as_slice() {
            [] => self.title.clone(),
            [one] => (*one).to_string(),
            [first, second] => format!("{first} and {second}"),
            [first, second, third] => format!("{first}, {second} and {third}"),
            [first, ..] => format!("{first} et al."),
        };
        format!("{who} {}", self.year)
    }

    fn check(&self) -> Result<(), LoadError> {
        let facts = unique(&self.id, self.facts.iter().map(|fact| fact.id.as_str()))?;
        for fact in &self.facts {
            if !fact.value.is_finite() {
                return Err(LoadError::NotFinite {
                    owner: self.id.clone(),
                    name: fact.id.clone(),
                });
            }
            known(&self.id, &facts, fact.inputs.iter())?;
        }
        unique(&self.id, self.tables.iter().map(|table| table.id.as_str()))?;
        let prefix = format!("{}/", self.id);
        for table in &self.tables {
            if !table.id.starts_with(&prefix) {
                return Err(LoadError::ForeignTable {
                    paper: self.id.clone(),
                    table: table.id.clone(),
                });
            }
            table.check()?;
        }
        Ok(())
    }
}

/// Bound that a printed number puts on the true one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Stated as it is.
    #[default]
    Exact,
    /// "About", "approximately", an estimate.
    About,
    /// This or more.
    AtLeast,
    /// This or less; also "nearly".
    AtMost,
}

/// A single number from the running text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Fact {
    /// Id, unique in its paper.
    pub id: String,
    /// The number, in `unit`; always finite.
    pub value: f64,
    /// Unit as the paper uses it.
    pub unit: String,
    /// Tells whether the paper states the number, estimates it, or gives a bound.
    #[serde(default)]
    pub bound: Bound,
    /// Section, table or figure of the paper.
    pub place: String,
    /// Printed page, where known.
    pub page: Option<u32>,
    /// The paper's words, at most 15 of them.
    pub quote: String,
    /// Ids of the facts that the paper computes this number from; empty when it is measured or assumed.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// The reason why the number may not be what the authors meant.
    pub doubt: Option<String>,
}

/// A table of the paper, or one put together from its running text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Table {
    /// Unique id: the paper's, a slash, and the table's, such as `wolman-1994/table-2`.
    pub id: String,
    /// Title, close to the paper's caption.
    pub title: String,
    /// Table or section of the paper.
    pub place: String,
    /// Printed page, where known.
    pub page: Option<u32>,
    /// Description of the measurement.
    #[serde(default)]
    pub machine: String,
    /// Unit of all cells whose column has none of its own.
    pub unit: String,
    /// Quantity that the columns range over, when their ids are values, such as message sizes in bytes.
    pub columns_by: Option<String>,
    /// Quantity that the rows range over, when their ids are values.
    pub rows_by: Option<String>,
    /// Columns in the printed order.
    pub columns: Vec<Column>,
    /// Rows in the printed order.
    pub rows: Vec<Row>,
    /// Columns that the paper computes from others.
    #[serde(default)]
    pub derived: Vec<Derived>,
    /// Cells that are not what the table's own numbers make them.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// Notes that a reader needs to compare.
    #[serde(default)]
    pub notes: Vec<String>,
    #[serde(skip)]
    citation: String,
}

impl Table {
    /// Authors, year, venue, place and page in one line.
    pub fn citation(&self) -> &str {
        &self.citation
    }

    /// The number at this row and column; `None` when there is no such cell or it holds no number.
    pub fn cell(&self, row: &str, column: &str) -> Option<f64> {
        self.content(row, column)?.content.number()
    }

    /// The cell at this row and column, with its doubt.
    pub fn content(&self, row: &str, column: &str) -> Option<&Cell> {
        self.row(row)?.cells.get(self.column_index(column)?)
    }

    /// The row with this id.
    pub fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// The rows directly under this one, in the printed order.
    pub fn children<'a>(&'a self, parent: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows
            .iter()
            .filter(move |row| row.parent.as_deref() == Some(parent))
    }

    /// The first row that covers this span of the ledger, such as `socket (tx)`.
    pub fn row_of_span(&self, span: &str) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.spans.iter().any(|covered| covered == span))
    }

    /// Unit of this column's cells.
    pub fn unit_of(&self, column: &str) -> Option<&str> {
        let column = &self.columns[self.column_index(column)?];
        Some(column.unit.as_deref().unwrap_or(&self.unit))
    }

    /// Every doubted cell: row, column, reason.
    pub fn doubts(&self) -> impl Iterator<Item = (&Row, &Column, &str)> {
        self.rows.iter().flat_map(|row| {
            row.cells
                .iter()
                .zip(&self.columns)
                .filter_map(move |(cell, column)| Some((row, column, cell.doubt.as_deref()?)))
        })
    }

    pub(super) fn column_index(&self, id: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    fn check(&self) -> Result<(), LoadError> {
        let columns = unique(
            &self.id,
            self.columns.iter().map(|column| column.id.as_str()),
        )?;
        let rows = unique(&self.id, self.rows.iter().map(|row| row.id.as_str()))?;
        for row in &self.rows {
            if row.cells.len() != self.columns.len() {
                return Err(LoadError::CellCount {
                    table: self.id.clone(),
                    row: row.id.clone(),
                    expected: self.columns.len(),
                    found: row.cells.len(),
                });
            }
            if row.cells.iter().any(|cell| {
                cell.content
                    .number()
                    .is_some_and(|value| !value.is_finite())
            }) {
                return Err(LoadError::NotFinite {
                    owner: self.id.clone(),
                    name: row.id.clone(),
                });
            }
            known(&self.id, &rows, row.parent.iter())?;
            self.check_nesting(row)?;
        }
        for derived in &self.derived {
            known(&self.id, &columns, derived.names())?;
        }
        for gap in &self.gaps {
            known(&self.id, &rows, [&gap.row])?;
            known(&self.id, &columns, [&gap.column])?;
        }
        Ok(())
    }

    fn check_nesting(&self, row: &Row) -> Result<(), LoadError> {
        let mut ancestor = row;
        for _ in 0..self.rows.len() {
            match ancestor.parent.as_deref().and_then(|id| self.row(id)) {
                Some(parent) => ancestor = parent,
                None => return Ok(()),
            }
        }
        Err(LoadError::NestingCycle {
            table: self.id.clone(),
            row: row.id.clone(),
        })
    }
}

/// A column of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Column {
    /// Id, unique in its table.
    pub id: String,
    label: Option<String>,
    /// Unit, where it is not the table's.
    pub unit: Option<String>,
}

impl Column {
    /// Heading of the column.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.id)
    }
}

/// Unit that a row counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A processor works.
    Processing,
    /// Something waits.
    Queueing,
    /// The sum of other rows, or a whole that was measured as one.
    Total,
    /// Neither time nor work: a description, a share of messages.
    #[default]
    Plain,
}

/// A row of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Row {
    /// Id, unique in its table.
    pub id: String,
    label: Option<String>,
    /// Heading that the paper prints over several rows.
    pub group: Option<String>,
    /// Unit that the row counts.
    #[serde(default)]
    pub kind: Kind,
    /// The row that this one is a part of.
    pub parent: Option<String>,
    /// The paper names this part of its parent but not the rest, so the parts do not add up to the parent.
    #[serde(default)]
    pub of_which: bool,
    /// The spans of the ledger that the row covers, such as `tcp.checksum (rx)`; empty when none fits.
    #[serde(default)]
    pub spans: Vec<String>,
    /// One cell for each column.
    pub cells: Vec<Cell>,
}

impl Row {
    /// Label of the row.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.id)
    }
}

/// Content of a cell as the paper prints it.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A number in the column's unit.
    Number(f64),
    /// Words.
    Text(String),
    /// The row does not occur in this column; it counts as nothing in a sum. Written `"-"` in the files.
    NotApplicable,
    /// The row occurs, but the paper does not print the value. Written `"?"` in the files.
    NotStated,
}

impl Content {
    /// The number, if the cell holds one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Text(_) | Self::NotApplicable | Self::NotStated => None,
        }
    }
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "CellInFile")]
#[non_exhaustive]
pub struct Cell {
    /// Number as the paper prints it.
    pub content: Content,
    /// The reason why it may not be what the authors measured.
    pub doubt: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CellInFile {
    Plain(ContentInFile),
    Doubted(DoubtedInFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DoubtedInFile {
    value: ContentInFile,
    doubt: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ContentInFile {
    Number(f64),
    Text(String),
}

impl From<CellInFile> for Cell {
    fn from(cell: CellInFile) -> Self {
        match cell {
            CellInFile::Plain(content) => Self {
                content: content.into(),
                doubt: None,
            },
            CellInFile::Doubted(DoubtedInFile { value, doubt }) => Self {
                content: value.into(),
                doubt: Some(doubt),
            },
        }
    }
}

impl From<ContentInFile> for Content {
    fn from(content: ContentInFile) -> Self {
        match content {
            ContentInFile::Number(value) => Self::Number(value),
            ContentInFile::Text(text) if text == "-" => Self::NotApplicable,
            ContentInFile::Text(text) if text == "?" => Self::NotStated,
            ContentInFile::Text(text) => Self::Text(text),
        }
    }
}

/// Rule by which the paper computes a column from others.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "formula", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Derived {
    /// The sum of the columns `of`.
    Sum {
        /// The computed column.
        column: String,
        /// The columns that are added.
        of: Vec<String>,
    },
    /// `100 * (from - to) / from`, each the sum of its columns: what is saved, relative to where one comes from.
    DecreasePercent {
        /// The computed column.
        column: String,
        /// The columns before the change.
        from: Vec<String>,
        /// The columns after it.
        to: Vec<String>,
    },
    /// `100 * (to - from) / from`, each the sum of its columns.
    IncreasePercent {
        /// The computed column.
        column: String,
        /// The columns that are the base.
        from: Vec<String>,
        /// The columns that are compared with it.
        to: Vec<String>,
    },
}

impl Derived {
    /// The computed column.
    pub fn column(&self) -> &str {
        match self {
            Self::Sum { column, .. }
            | Self::DecreasePercent { column, .. }
            | Self::IncreasePercent { column, .. } => column,
        }
    }

    fn names(&self) -> Vec<&String> {
        match self {
            Self::Sum { column, of } => [column].into_iter().chain(of).collect(),
            Self::DecreasePercent { column, from, to }
            | Self::IncreasePercent { column, from, to } => {
                [column].into_iter().chain(from).chain(to).collect()
            }
        }
    }
}

/// A printed cell that the table's own numbers do not give.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Gap {
    /// The row.
    pub row: String,
    /// The column.
    pub column: String,
    /// Printed value less computed value, in the column's unit.
    pub by: f64,
    /// Remark on it.
    pub why: String,
}

fn unique<'a>(
    owner: &str,
    ids: impl Iterator<Item = &'a str>,
) -> Result<HashSet<&'a str>, LoadError> {
    let mut seen = HashSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(LoadError::DuplicateId {
                owner: owner.to_string(),
                id: id.to_string(),
            });
        }
    }
    Ok(seen)
}

fn known<'a>(
    owner: &str,
    ids: &HashSet<&str>,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<(), LoadError> {
    match names.into_iter().find(|name| !ids.contains(name.as_str())) {
        None => Ok(()),
        Some(name) => Err(LoadError::UnknownName {
            owner: owner.to_string(),
            name: name.clone(),
        }),
    }
}

//! The published numbers of the five papers, as data.
//!
//! Owns the transcription of every table, and of every number in the running text that belongs beside a measurement,
//! of Clark, Jacobson, Romkey and Salwen 1989; Wolman, Voelker and Thekkath 1994; Kay and Pasquale 1996; Foong, Huff,
//! Hum, Patwardhan and Regnier 2003; Lehmann and Benz 2002. One TOML file per paper, embedded in the binary.
//!
//! It must never hold a number that its paper does not print: a cell that the paper leaves open is
//! [`Content::NotStated`], a cell that contradicts its neighbours carries a doubt, and a total that its parts do not
//! reach is listed as a [`Gap`] with the amount. Figures whose points are only drawn are named in [`Paper::omitted`].
//!
//! ```
//! let transmit = tollgate_papers::table("wolman-1994/table-2").expect("a transcribed table");
//! assert_eq!(transmit.cell("tcp.checksum", "8000"), Some(1149.0));
//! ```

mod closure;
mod error;
mod model;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use tollgate_run::Source;

pub use closure::Closure;
pub use model::{Bound, Cell, Column, Content, Derived, Fact, Gap, Kind, Paper, Row, Table};

use error::LoadError;

/// The embedded files, oldest paper first.
const FILES: [&str; 5] = [
    include_str!("clark-1989.toml"),
    include_str!("wolman-1994.toml"),
    include_str!("kay-pasquale-1996.toml"),
    include_str!("foong-2003.toml"),
    include_str!("lehmann-benz-2002.toml"),
];

/// The papers, oldest first; read once, at the first call.
///
/// This cannot fail at run time: the files are part of the binary, no input reaches them, and the tests of this module
/// read the same bytes. A file that does not parse is a defect of the build, and stops the program with its reason.
pub fn all() -> &'static [Paper] {
    static PAPERS: OnceLock<Vec<Paper>> = OnceLock::new();
    PAPERS.get_or_init(|| match load() {
        Ok(papers) => papers,
        Err(error) => unreachable!("embedded published numbers: {error}"),
    })
}

/// The paper with this id, such as `wolman-1994`.
pub fn paper(id: &str) -> Option<&'static Paper> {
    all().iter().find(|paper| paper.id == id)
}

/// The table with this id, such as `wolman-1994/table-2`.
pub fn table(id: &str) -> Option<&'static Table> {
    let (paper_id, _) = id.split_once('/')?;
    paper(paper_id)?.tables.iter().find(|table| table.id == id)
}

/// The single number with this id behind its paper's, such as `clark-1989/tcb-lookup`.
pub fn fact(id: &str) -> Option<&'static Fact> {
    let (paper_id, fact_id) = id.split_once('/')?;
    paper(paper_id)?.fact(fact_id)
}

/// The source of a published table.
pub fn source(table_id: &str) -> Option<Source> {
    let (paper, table) = (paper(table_id.split_once('/')?.0)?, table(table_id)?);
    Some(source_at(paper, &table.place))
}

/// A place in a paper.
#[must_use]
pub fn source_at(paper: &Paper, place: &str) -> Source {
    let cited = paper.citation();
    let authors = cited
        .rsplit_once(' ')
        .map_or(cited.as_str(), |(who, _)| who);
    Source {
        authors: authors.to_owned(),
        year: paper.year,
        place: place.to_owned(),
    }
}

/// Reads all embedded files.
fn load() -> Result<Vec<Paper>, LoadError> {
    FILES.iter().map(|text| Paper::parse(text)).collect()
}

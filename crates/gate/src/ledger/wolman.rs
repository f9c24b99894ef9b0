//! The ledger in the rows of Wolman, Voelker and Thekkath 1994, Tables 2 and 3.

use crate::span::{Direction, Place, WolmanRow};

use super::{Ledger, Statistic};

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WolmanLabel {
    /// A row of the paper.
    Row(WolmanRow),
    /// The paper's sum of the rows under "TCP".
    TcpTotal,
    /// Spans that the paper has no row for: waiting in the device queue and in the socket queue.
    NotInPaper,
    /// The sum of the rows and of what is not in the paper.
    Total,
}

impl WolmanLabel {
    /// The name, as the paper prints it where it is in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Row(row) => row.name(),
            Self::TcpTotal => "TCP total",
            Self::NotInPaper => "not in the paper",
            Self::Total => "Total",
        }
    }
}

/// A line of Wolman's tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WolmanLine {
    /// What it is.
    pub label: WolmanLabel,
    /// Nanoseconds per *message*; none when no span of the row was measured, or none exists.
    pub ns: Option<f64>,
}

impl Ledger {
    /// The lines of one direction in the paper's order, in nanoseconds per message.
    ///
    /// In a ledger of round trips each line is the mean over the request and its answer, whose spans were measured one
    /// by one; no total is halved.
    pub fn wolman_rows(&self, direction: Direction, statistic: Statistic) -> Vec<WolmanLine> {
        let messages = f64::from(self.scope().messages());
        let sum = |counts: &dyn Fn(Option<WolmanRow>) -> bool| {
            self.table()
                .spans()
                .iter()
                .enumerate()
                .filter(|(_, span)| span.place != Place::Beside)
                .filter(|(_, span)| span.direction == direction && counts(span.wolman))
                .filter_map(|(index, _)| self.own_per_unit_ns(index, statistic))
                .fold(None, |sum, ns| Some(sum.unwrap_or(0.0) + ns / messages))
        };
        let is_tcp = |row: Option<WolmanRow>| row.is_some_and(WolmanRow::is_tcp);
        let mut lines = Vec::new();
        let mut rows = WolmanRow::of(direction).iter().copied().peekable();
        while let Some(row) = rows.next() {
            let label = WolmanLabel::Row(row);
            lines.push(WolmanLine {
                label,
                ns: sum(&|other| other == Some(row)),
            });
            if row.is_tcp() && !rows.peek().is_some_and(|next| next.is_tcp()) {
                lines.push(WolmanLine {
                    label: WolmanLabel::TcpTotal,
                    ns: sum(&is_tcp),
                });
            }
        }
        lines.push(WolmanLine {
            label: WolmanLabel::NotInPaper,
            ns: sum(&|row| row.is_none()),
        });
        lines.push(WolmanLine {
            label: WolmanLabel::Total,
            ns: sum(&|_| true),
        });
        lines
    }
}

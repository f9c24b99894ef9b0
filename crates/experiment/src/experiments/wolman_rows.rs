//! The two tables of Wolman, Voelker and Thekkath 1994 that divide a message's time, and their rows.
//!
//! It owns the names of rows and the paper's numbers beside them; it must never measure.

use tollgate_gate::{Direction, WolmanRow};
use tollgate_papers as papers;
use tollgate_run::{Layer, RowKind};

const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;

/// One direction of the paper's ledger.
#[derive(Clone, Copy)]
pub(super) struct Wolman {
    pub(super) direction: Direction,
}

/// Table 2.
pub(super) const TRANSMIT: Wolman = Wolman {
    direction: Direction::Tx,
};

/// Table 3.
pub(super) const RECEIVE: Wolman = Wolman {
    direction: Direction::Rx,
};

impl Wolman {
    pub(super) fn table_id(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "wolman-1994/table-2",
            Direction::Rx | Direction::Between => "wolman-1994/table-3",
        }
    }

    pub(super) fn way(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "from send() until the link, or the kernel's queue of IP, has it",
            Direction::Rx | Direction::Between => {
                "from the link, or the kernel's queue of IP, to the return of recv()"
            }
        }
    }

    /// The paper's number in nanoseconds.
    pub(super) fn published_ns(&self, label: WolmanLabel, size: usize) -> Option<f64> {
        let table = papers::table(self.table_id())?;
        let us = table.cell(published_id(label)?, &size.to_string())?;
        Some(us * NANOSECONDS_PER_MICROSECOND)
    }
}

/// A line of one of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WolmanLabel {
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
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Row(row) => row.name(),
            Self::TcpTotal => "TCP total",
            Self::NotInPaper => "not in the paper",
            Self::Total => "Total",
        }
    }
}

/// The labels of one direction in the order of the paper, its sum below the rows of TCP.
pub(super) fn labels(direction: Direction) -> Vec<WolmanLabel> {
    let mut labels = Vec::new();
    let rows = WolmanRow::of(direction);
    for (at, &row) in rows.iter().enumerate() {
        labels.push(WolmanLabel::Row(row));
        if row.is_tcp() && !rows.get(at + 1).is_some_and(|next| next.is_tcp()) {
            labels.push(WolmanLabel::TcpTotal);
        }
    }
    labels.extend([WolmanLabel::NotInPaper, WolmanLabel::Total]);
    labels
}

/// The id of a label's row in the published tables; none when it is not in the paper.
pub(super) fn published_id(label: WolmanLabel) -> Option<&'static str> {
    Some(match label {
        WolmanLabel::Row(row) => match row {
            WolmanRow::User => "user",
            WolmanRow::Checksum => "tcp.checksum",
            WolmanRow::Mcopy => "tcp.mcopy",
            WolmanRow::Segment => "tcp.segment",
            WolmanRow::Ip => "ip",
            WolmanRow::Atm => "atm",
            WolmanRow::Ipq => "ipq",
            WolmanRow::Wakeup => "wakeup",
        },
        WolmanLabel::TcpTotal => "tcp",
        WolmanLabel::NotInPaper => return None,
        WolmanLabel::Total => "total",
    })
}

/// The name of a row: the paper's, and what it is today where that differs.
pub(super) fn name(label: WolmanLabel, direction: Direction) -> &'static str {
    match label {
        WolmanLabel::Row(WolmanRow::Checksum) => "TCP checksum",
        WolmanLabel::Row(WolmanRow::Mcopy) => "TCP mcopy",
        WolmanLabel::Row(WolmanRow::Segment) => "TCP segment",
        WolmanLabel::Row(WolmanRow::Atm) => "ATM (driver)",
        WolmanLabel::NotInPaper => match direction {
            Direction::Tx => "device queue",
            Direction::Rx | Direction::Between => "socket queue",
        },
        WolmanLabel::Row(_) | WolmanLabel::TcpTotal | WolmanLabel::Total => label.name(),
    }
}

pub(super) fn manner(label: WolmanLabel, direction: Direction) -> (RowKind, Option<Layer>, u8) {
    match label {
        WolmanLabel::Row(row) => match row {
            WolmanRow::User => (RowKind::Processing, Some(Layer::Socket), 0),
            WolmanRow::Checksum | WolmanRow::Mcopy | WolmanRow::Segment => {
                (RowKind::Processing, Some(Layer::Tcp), 1)
            }
            WolmanRow::Ip => (RowKind::Processing, Some(Layer::Ip), 0),
            WolmanRow::Atm => (RowKind::Processing, Some(Layer::Driver), 0),
            WolmanRow::Ipq => (RowKind::Queueing, Some(Layer::Link), 0),
            WolmanRow::Wakeup => (RowKind::Queueing, Some(Layer::Scheduler), 0),
        },
        WolmanLabel::NotInPaper => {
            let layer = match direction {
                Direction::Tx => Layer::Device,
                Direction::Rx | Direction::Between => Layer::Socket,
            };
            (RowKind::Queueing, Some(layer), 0)
        }
        WolmanLabel::TcpTotal | WolmanLabel::Total => (RowKind::Total, None, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_paper_has_its_line() {
        for wolman in [&TRANSMIT, &RECEIVE] {
            let labels = labels(wolman.direction);
            for row in WolmanRow::of(wolman.direction) {
                let label = WolmanLabel::Row(*row);
                assert_eq!(labels.iter().filter(|one| **one == label).count(), 1);
            }
            let table = papers::table(wolman.table_id()).unwrap();
            for label in labels {
                if let Some(id) = published_id(label) {
                    assert!(table.cell(id, "4").is_some(), "{id}");
                }
            }
        }
    }
}

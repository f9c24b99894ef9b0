//! The parts of a packet's way, counted as Clark, Jacobson, Romkey and Salwen (1989) counted theirs.
//!
//! Each part says between which gates it is counted, or whose instructions are counted. Where our layers are cut
//! otherwise than theirs (one template writes the headers of all layers; one check covers both checksums), the part says
//! so. A timer of the paper is a deadline here, a write into the TCB; its entry in the wheel is counted apart.

use crate::Error;
use crate::rows::{self, Row};
use crate::scenario;
use crate::valgrind::Program;
use serde::{Deserialize, Serialize};

/// A part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClarkRow {
    /// The row of the paper's table (`clark-1989/operations`) that it stands beside.
    pub id: String,
    /// The name of the row.
    pub label: String,
    /// Instructions.
    pub instructions: f64,
    /// The counted part: the gates, or the functions.
    pub counted: String,
}

/// A row of the paper, the row of ours, and what was counted when the scenario does not say it all.
struct ProfilePart {
    id: &'static str,
    label: &'static str,
    row: &'static str,
    scenario: &'static str,
    of_which: &'static str,
}

const fn part(id: &'static str, label: &'static str, row: &'static str) -> ProfilePart {
    ProfilePart {
        id,
        label,
        row,
        scenario: row,
        of_which: "",
    }
}

const POOL: &str = "; of this the buffer pool's instructions, inlined ones included";
const SET: &str =
    "; of this the instructions that set a deadline of the TCB, per setting (4 in a round trip)";
const CLEAR: &str = "; of this the instructions whose source lines clear or compare a deadline of the TCB, per clearing (4 in \
                     a round trip)";
const RESET: &str = "; of this the function that starts a running timer anew";
const UNCOPIED: &str = "; without the copy";
const WHEEL: &str = "; of this the timing wheel's instructions, inlined ones included";

const PROFILE_PARTS: &[ProfilePart] = &[
    part(
        "tcp-input-receiver",
        "TCP input, receiver of data",
        "tcp-input-receiver",
    ),
    part(
        "tcp-input-sender",
        "TCP input, sender of data",
        "tcp-input-sender",
    ),
    ProfilePart {
        of_which: UNCOPIED,
        ..part("tcp-output", "TCP output, either end", "tcp-output")
    },
    ProfilePart {
        of_which: UNCOPIED,
        ..part(
            "tcp-output-untemplated",
            "TCP output without a template, and so not predicted",
            "tcp-output-untemplated",
        )
    },
    part("ip-input", "IP, packet receipt", "ip-in"),
    part("ip-output", "IP, sending a packet", "ip-out"),
    ProfilePart {
        scenario: "send-data",
        of_which: POOL,
        ..part(
            "buffer-send",
            "Buffers, sending a data packet",
            "buffer-send",
        )
    },
    ProfilePart {
        scenario: "receive-data",
        of_which: POOL,
        ..part(
            "buffer-receive",
            "Buffers, receiving a data packet",
            "buffer-receive",
        )
    },
    ProfilePart {
        scenario: "receive-ack",
        of_which: POOL,
        ..part(
            "buffer-ack",
            "Buffers, receiving an acknowledgment",
            "buffer-ack",
        )
    },
    ProfilePart {
        scenario: "rr-64",
        of_which: SET,
        ..part("timer-set", "Set a timer", "timer-set")
    },
    ProfilePart {
        scenario: "rr-64",
        of_which: CLEAR,
        ..part("timer-clear", "Clear a timer", "timer-clear")
    },
    ProfilePart {
        of_which: RESET,
        ..part("timer-reset", "Reset a timer", "timer-reset")
    },
    ProfilePart {
        of_which: WHEEL,
        ..part("wheel-insert", "Put a timer into the wheel", "wheel-insert")
    },
    ProfilePart {
        scenario: "wheel-insert",
        of_which: WHEEL,
        ..part("wheel-move", "Move a timer in the wheel", "wheel-move")
    },
    ProfilePart {
        of_which: WHEEL,
        ..part(
            "wheel-cancel",
            "Take a timer out of the wheel",
            "wheel-cancel",
        )
    },
    part(
        "tcb-lookup",
        "TCB lookup, connection of the last segment",
        "lookup-cached",
    ),
    part("tcb-lookup-hash", "TCB lookup by the hash", "lookup-hashed"),
];

/// The ends whose TCP input is told piece by piece: the beginning of the rows' ids, and the scenario.
pub const ENDS: [(&str, &str); 2] = [
    ("receiver", "tcp-input-receiver"),
    ("sender", "tcp-input-sender"),
];

/// Pieces of TCP input: the end of the rows' ids, which but for the last two is that of the paper's row
/// (`clark-1989/tcp-input`), and what they are. Together they are all of it.
pub const PIECES: [(&str, &str); 8] = [
    ("common", "Common path"),
    ("sequencing", "Sequencing the data"),
    ("ack", "Acknowledgment"),
    ("window", "Window"),
    ("congestion-window", "Congestion window"),
    ("rtt", "Round-trip estimate"),
    ("buffers", "Buffers"),
    ("timers", "Timers"),
];

/// A piece of an end's TCP input, of what [`clark`] counted.
pub fn piece<'a>(rows: &'a [ClarkRow], end: &str, piece: &str) -> Option<&'a ClarkRow> {
    let id = format!("{end}-{piece}");
    rows.iter().find(|row| row.id == id)
}

/// Tells whether a row is a piece of TCP input.
pub fn is_piece(row: &ClarkRow) -> bool {
    ENDS.iter().any(|(end, _)| {
        let rest = row.id.strip_prefix(end);
        let rest = rest.and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| PIECES.iter().any(|(piece, _)| *piece == rest))
    })
}

/// Counts every part in `program`.
///
/// # Errors
/// Those of [`Program::count`].
pub fn clark(program: &Program) -> Result<Vec<ClarkRow>, Error> {
    let pieces = || {
        ENDS.into_iter().flat_map(|(end, scenario)| {
            PIECES.map(|(piece, label)| {
                (
                    format!("{end}-{piece}"),
                    format!("{end}: {label}"),
                    scenario,
                )
            })
        })
    };
    let is_wanted = |row: &&Row| {
        PROFILE_PARTS.iter().any(|part| part.row == row.id) || pieces().any(|(id, ..)| id == row.id)
    };
    let all = rows::ROWS.iter().chain(rows::PIECES);
    let wanted: Vec<Row> = all.filter(is_wanted).copied().collect();
    let values = rows::measure_all(program, &wanted)?;
    let parts = PROFILE_PARTS.iter().map(|part| {
        let told = (part.label.to_owned(), part.scenario, part.of_which);
        (part.id.to_owned(), part.row.to_owned(), told)
    });
    let pieces = pieces().map(|(id, label, scenario)| {
        let told = (
            label,
            scenario,
            "; of this the instructions of this piece, by function",
        );
        (id.clone(), id, told)
    });
    parts
        .chain(pieces)
        .filter_map(|(id, row, told)| Some((id, *values.get(row.as_str())?, told)))
        .map(|(id, instructions, (label, scenario, of_which))| {
            Ok(ClarkRow {
                id,
                label,
                instructions,
                counted: format!("{}{of_which}", scenario::find(scenario)?.about),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_row_and_its_scenario() {
        for part in PROFILE_PARTS {
            assert!(rows::find(part.row).is_some(), "{} is no row", part.row);
            assert!(
                scenario::find(part.scenario).is_ok(),
                "{} is no scenario",
                part.scenario
            );
        }
    }

    #[test]
    fn every_piece_has_its_row() {
        for (end, scenario) in ENDS {
            assert!(scenario::find(scenario).is_ok(), "{scenario}");
            for (piece, _) in PIECES {
                let id = format!("{end}-{piece}");
                assert!(rows::find(&id).is_some(), "{id} is no row");
            }
        }
        let row = |id: &str| ClarkRow {
            id: id.to_owned(),
            label: String::new(),
            instructions: 1.0,
            counted: String::new(),
        };
        assert!(is_piece(&row("sender-ack")));
        assert!(!is_piece(&row("tcp-input-sender")) && !is_piece(&row("sender-nothing")));
    }
}

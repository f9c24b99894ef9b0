//! The parts of a packet's way, counted as Clark, Jacobson, Romkey and Salwen (1989) counted theirs.
//!
//! Each part says between which gates it is counted, or whose instructions are counted. Where our layers are cut
//! otherwise than theirs (one template writes the headers of all layers; one check covers both checksums), the part says
//! so. Sending a reset of a timer apart makes no sense here: setting, clearing and moving a deadline are each a write
//! into the TCB.

use crate::Error;
use crate::rows::{self, Row};
use crate::scenario;
use crate::valgrind::Program;
use serde::{Deserialize, Serialize};

/// A part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClarkRow {
    /// The row of the paper's table (`clark-1989/counts`) that it stands beside.
    pub id: String,
    /// What it is.
    pub label: String,
    /// Instructions.
    pub instructions: f64,
    /// What was counted: the gates, or the functions.
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
const DEADLINE: &str = "; of this the instructions whose source lines set, clear or compare a deadline of the TCB, per \
                        setting or clearing (8 in a round trip)";
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
        of_which: "; without the copy",
        ..part("tcp-output", "TCP output, either end", "tcp-output")
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
        of_which: DEADLINE,
        ..part("timer-set", "Set a timer", "deadline")
    },
    ProfilePart {
        scenario: "rr-64",
        of_which: DEADLINE,
        ..part("timer-clear", "Clear a timer", "deadline")
    },
    ProfilePart {
        scenario: "rr-64",
        of_which: DEADLINE,
        ..part("timer-reset", "Reset a timer", "deadline")
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

/// Counts every part in `program`.
///
/// # Errors
/// Those of [`Program::count`].
pub fn clark(program: &Program) -> Result<Vec<ClarkRow>, Error> {
    let wanted: Vec<Row> = rows::ROWS
        .iter()
        .filter(|row| PROFILE_PARTS.iter().any(|part| part.row == row.id))
        .copied()
        .collect();
    let values = rows::measure_all(program, &wanted)?;
    PROFILE_PARTS
        .iter()
        .filter_map(|part| values.get(part.row).map(|value| (part, *value)))
        .map(|(part, instructions)| {
            Ok(ClarkRow {
                id: part.id.to_owned(),
                label: part.label.to_owned(),
                instructions,
                counted: format!("{}{}", scenario::find(part.scenario)?.about, part.of_which),
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
}

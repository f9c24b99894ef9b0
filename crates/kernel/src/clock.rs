//! Whether this process's CLOCK_MONOTONIC is the one that the kernel's gates read.

use std::fs;
use std::io;

use crate::plan::Ability;

const OFFSETS: &str = "/proc/self/timens_offsets";

/// A time namespace (time_namespaces(7)) moves the clock that processes see, and not that of BPF programs.
pub(crate) fn ability() -> Ability {
    match fs::read_to_string(OFFSETS) {
        Ok(text) => judge(&text),
        // A kernel without time namespaces has one clock for all.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ability::Works,
        Err(error) => Ability::Refused(format!("{OFFSETS} cannot be read: {error}")),
    }
}

/// Judges lines of a clock's name, seconds and nanoseconds.
fn judge(offsets: &str) -> Ability {
    let moved = offsets.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("monotonic") && words.any(|word| word != "0")
    });
    if moved {
        Ability::Refused(
            "this process is in a time namespace whose clock is not the kernel's".to_owned(),
        )
    } else {
        Ability::Works
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_clock_is_refused() {
        assert!(
            judge("monotonic           0         0\nboottime            7         0\n").works()
        );
        assert!(
            !judge("monotonic           0         5\nboottime            0         0\n").works()
        );
        assert!(!judge("monotonic       -86400         0\n").works());
        assert!(judge("").works());
    }

    #[test]
    fn it_is_tried_here() {
        if let Ability::Refused(reason) = ability() {
            println!("our clock is not the kernel's: {reason}");
        }
    }
}

//! The progress on standard error: a bar on a terminal that says what runs and how long is left; elsewhere nothing, or with
//! `-v` a line whenever something else runs.

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_experiment::context::Progress;

use crate::args::GlobalArgs;
use crate::output;

/// Parts of the bar.
const PARTS: u64 = 1_000;
/// Drawings a second, at most.
const HERTZ: u8 = 8;

/// Shows the progress as the user wants it.
pub(crate) enum ProgressLine {
    /// A bar.
    Bar(ProgressBar),
    /// Lines, of which the last is kept.
    Lines(RefCell<String>),
    /// Nothing.
    Nothing,
}

impl ProgressLine {
    /// A bar on a terminal, lines with `-v`, else nothing.
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        if global.quiet {
            Self::Nothing
        } else if io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(
                Some(PARTS),
                ProgressDrawTarget::stderr_with_hz(HERTZ),
            );
            if let Ok(style) = ProgressStyle::with_template("{bar:20} {wide_msg}") {
                bar.set_style(style);
            }
            Self::Bar(bar)
        } else if global.verbose > 0 {
            Self::Lines(RefCell::default())
        } else {
            Self::Nothing
        }
    }

    /// Shows how far what runs is where nobody knows how long is left. Without a terminal `detail` alone makes no line.
    #[cfg(feature = "sql")]
    pub(crate) fn tell(&self, what: &str, detail: &str, done: f64) {
        match self {
            Self::Bar(bar) => {
                bar.set_position((done.clamp(0.0, 1.0) * PARTS as f64) as u64);
                bar.set_message(format!("{what}{detail}"));
            }
            Self::Lines(last) => {
                if *last.borrow() != what {
                    output::say(&format!("{what}{detail}"));
                    what.clone_into(&mut last.borrow_mut());
                }
            }
            Self::Nothing => {}
        }
    }

    /// Says a line beside the progress.
    #[cfg(feature = "sql")]
    pub(crate) fn say(&self, line: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| output::say(line)),
            Self::Lines(_) | Self::Nothing => output::say(line),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Progress for ProgressLine {
    fn update(&self, what: &str, done: f64, left: Duration) {
        match self {
            Self::Bar(bar) => {
                bar.set_position((done.clamp(0.0, 1.0) * PARTS as f64) as u64);
                bar.set_message(format!("{} left · {what}", words(left)));
            }
            Self::Lines(last) => {
                if *last.borrow() != what {
                    output::say(&format!("{what}, {} left", words(left)));
                    what.clone_into(&mut last.borrow_mut());
                }
            }
            Self::Nothing => {}
        }
    }
}

/// `12 s`, `2 min 5 s`.
fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds:02} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_whole_seconds() {
        assert_eq!(words(Duration::ZERO), "0 s");
        assert_eq!(words(Duration::from_millis(1_200)), "2 s");
        assert_eq!(words(Duration::from_secs(125)), "2 min 05 s");
    }
}

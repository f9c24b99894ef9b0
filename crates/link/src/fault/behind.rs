//! Frames that are held until later ones have gone past them.
//!
//! Owns which of them waits for how many, and until when. A long line holds some hundred of them, all of which have later frames in
//! front of them than the one that goes past. So it must never look at one that has not been overtaken.

use std::collections::{BTreeMap, BTreeSet};
use tollgate_stack::buffer::Frame;
use tollgate_stack::time::Instant;

/// A frame that waits.
#[derive(Debug)]
struct Waiting {
    /// Later ones that must still go past.
    frames: u16,
    /// When it goes in any case.
    until: Instant,
    frame: Frame,
}

/// Frames that wait for later ones, by their number on the line.
#[derive(Debug, Default)]
pub(super) struct Behind {
    waiting: BTreeMap<u64, Waiting>,
    deadlines: BTreeSet<(Instant, u64)>,
}

impl Behind {
    /// Frames that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the next one goes in any case.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(until, _)| until)
    }

    /// Holds a frame back behind so many later ones, until then at most.
    pub(super) fn push(&mut self, number: u64, (frames, until): (u16, Instant), frame: Frame) {
        self.deadlines.insert((until, number));
        let waiting = Waiting {
            frames,
            until,
            frame,
        };
        self.waiting.insert(number, waiting);
    }

    /// Frame `number` goes past those before it. Gives those for which it was the last to `ready`.
    pub(super) fn let_past(&mut self, number: u64, ready: &mut Vec<Frame>) {
        let mut done = Vec::new();
        for (&overtaken, waiting) in self.waiting.range_mut(..number) {
            waiting.frames = waiting.frames.saturating_sub(1);
            if waiting.frames == 0 {
                done.push(overtaken);
            }
        }
        self.release(&done, ready);
    }

    /// Gives those whose time has come to `ready`, in the order in which they came.
    pub(super) fn release_due(&mut self, now: Instant, ready: &mut Vec<Frame>) {
        let due = self.deadlines.iter().take_while(|(until, _)| *until <= now);
        let mut due: Vec<u64> = due.map(|&(_, number)| number).collect();
        due.sort_unstable();
        self.release(&due, ready);
    }

    fn release(&mut self, numbers: &[u64], ready: &mut Vec<Frame>) {
        for number in numbers {
            if let Some(waiting) = self.waiting.remove(number) {
                self.deadlines.remove(&(waiting.until, *number));
                ready.push(waiting.frame);
            }
        }
    }

    /// Gives all of them away, in the order in which they came.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Frame> + use<> {
        self.deadlines.clear();
        let all = std::mem::take(&mut self.waiting);
        all.into_values().map(|waiting| waiting.frame)
    }
}

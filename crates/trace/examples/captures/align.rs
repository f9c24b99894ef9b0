//! Alignment of the frames of one program with those of the other.
//!
//! Frames stand in the order of the file in both. A frame that only one of them has is passed over where the frames
//! behind it agree again in time and length.

use crate::frame::Frame;
use crate::{ours, rules, theirs};

/// Frames that are looked at for the place where both agree again.
const MAX_SHIFT: usize = 16;

/// A frame of both programs, or of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub ours: Option<usize>,
    pub theirs: Option<usize>,
}

type Ours = [(Frame, ours::Details)];
type Theirs = [(Frame, theirs::Details)];

/// Goes through both.
pub fn align(ours: &Ours, theirs: &Theirs) -> Vec<Step> {
    let mut steps = Vec::with_capacity(ours.len().max(theirs.len()));
    let (mut one, mut other) = (0, 0);
    while one < ours.len() || other < theirs.len() {
        let (skipped, passed) = next(&ours[one..], &theirs[other..]);
        let only_ours = (0..skipped).map(|at| Step {
            ours: Some(one + at),
            theirs: None,
        });
        steps.extend(only_ours);
        let only_theirs = (0..passed).map(|at| Step {
            ours: None,
            theirs: Some(other + at),
        });
        steps.extend(only_theirs);
        (one, other) = (one + skipped, other + passed);
        if skipped == 0 && passed == 0 {
            steps.push(Step {
                ours: Some(one),
                theirs: Some(other),
            });
            (one, other) = (one + 1, other + 1);
        }
    }
    steps
}

/// Number of frames of either to pass over; none when the first two belong together.
fn next(ours: &Ours, theirs: &Theirs) -> (usize, usize) {
    let (Some(one), Some(other)) = (ours.first(), theirs.first()) else {
        return (ours.len(), theirs.len());
    };
    if !other.1.is_packet {
        return (0, 1);
    }
    if agree(one, other) {
        return (0, 0);
    }
    let theirs_on = (1..theirs.len().min(MAX_SHIFT)).find(|&at| agree(one, &theirs[at]));
    let ours_on = (1..ours.len().min(MAX_SHIFT)).find(|&at| agree(&ours[at], other));
    match (ours_on, theirs_on) {
        (Some(skipped), Some(passed)) if skipped < passed => (skipped, 0),
        (_, Some(passed)) => (0, passed),
        (Some(skipped), None) => (skipped, 0),
        (None, None) => (0, 0),
    }
}

/// Tells whether both are the same frame by time and length.
fn agree(one: &(Frame, ours::Details), other: &(Frame, theirs::Details)) -> bool {
    let is_time = other.0.time_ns.is_none()
        || one.0.time_ns == other.0.time_ns
        || rules::is_carried(one.0.time_ns, other.1.printed_time);
    is_time && one.0.captured == other.0.captured
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ours::Fate;
    use tollgate_trace::capture::LinkType;

    fn frame(time: i64) -> Frame {
        Frame {
            time_ns: Some(time),
            wire_len: 60,
            captured: 60,
            transport: None,
        }
    }

    fn ours(times: &[i64]) -> Vec<(Frame, ours::Details)> {
        let details = ours::Details {
            link: LinkType::Ethernet,
            fate: Fate::Transport,
            payload: None,
        };
        times
            .iter()
            .map(|at| (frame(*at), details.clone()))
            .collect()
    }

    fn theirs(times: &[i64]) -> Vec<(Frame, theirs::Details)> {
        let details = theirs::Details {
            is_packet: true,
            ..theirs::Details::default()
        };
        times
            .iter()
            .map(|at| (frame(*at), details.clone()))
            .collect()
    }

    fn places(steps: &[Step]) -> Vec<(Option<usize>, Option<usize>)> {
        steps.iter().map(|step| (step.ours, step.theirs)).collect()
    }

    #[test]
    fn frame_of_one_program_is_passed_over() {
        let steps = align(&ours(&[1, 2, 3, 5]), &theirs(&[1, 3, 4, 5]));
        let expected = [
            (Some(0), Some(0)),
            (Some(1), None),
            (Some(2), Some(1)),
            (None, Some(2)),
            (Some(3), Some(3)),
        ];
        assert_eq!(places(&steps), expected);
    }

    #[test]
    fn frames_that_never_agree_are_paired_by_order() {
        let steps = align(&ours(&[1, 2]), &theirs(&[7, 8, 9]));
        let expected = [(Some(0), Some(0)), (Some(1), Some(1)), (None, Some(2))];
        assert_eq!(places(&steps), expected);
    }
}

//! Two readings of a file, frame beside frame.

use std::collections::HashMap;

use tollgate_trace::rows::Protocol;

use crate::frame::{Aspect, Frame, Transport};
use crate::rules::{self, Rule};
use crate::{align, ours, theirs};

/// A difference in one frame.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The frame's number, from 1 on: tshark's, or the reader's where tshark has none.
    pub frame: usize,
    pub aspect: Aspect,
    /// Both sides, for people.
    pub text: String,
    /// The rule that explains it, if one does.
    pub rule: Option<Rule>,
}

/// Everything that one frame shows of itself in both programs.
pub struct Pair<'a> {
    pub ours: &'a Frame,
    pub our_details: &'a ours::Details,
    pub theirs: &'a Frame,
    pub their_details: &'a theirs::Details,
}

/// The comparison of one file.
#[derive(Default)]
pub struct Comparison {
    /// Frames of either program.
    pub frames: usize,
    pub differences: Vec<Difference>,
}

/// Compares two readings of a file.
pub fn compare(ours: &ours::Read, theirs: &theirs::Read) -> Comparison {
    let mut found = Comparison::default();
    let mut flows = Flows::default();
    for step in align::align(&ours.frames, &theirs.frames) {
        found.frames += 1;
        let (one, other) = match (step.ours, step.theirs) {
            (Some(one), Some(other)) => (one, other),
            (one, other) => {
                let (frame, rule, text) = match (one, other) {
                    (_, Some(at)) => (
                        at,
                        rules::only_theirs(ours, theirs, at),
                        "only tshark has it",
                    ),
                    (at, None) => (
                        at.unwrap_or_default(),
                        rules::only_ours(theirs),
                        "only the reader has it",
                    ),
                };
                found.differences.push(Difference {
                    frame: frame + 1,
                    aspect: Aspect::Frames,
                    text: text.to_owned(),
                    rule,
                });
                continue;
            }
        };
        let ((one, our_details), (them, their_details)) =
            (&ours.frames[one], &theirs.frames[other]);
        let pair = Pair {
            ours: one,
            our_details,
            theirs: them,
            their_details,
        };
        let mut add = |aspect, text| {
            found.differences.push(Difference {
                frame: other + 1,
                aspect,
                text,
                rule: rules::of(aspect, &pair),
            });
        };
        headers(&pair, &mut add);
        if let (Some(one), Some(other)) = (&one.transport, &them.transport) {
            transport(one, other, &mut add);
            if let Some(text) = flows.step(one, other) {
                add(Aspect::Flow, text);
            }
        }
    }
    found
}

fn headers(pair: &Pair<'_>, add: &mut impl FnMut(Aspect, String)) {
    let (one, other) = (pair.ours, pair.theirs);
    if one.time_ns != other.time_ns {
        add(Aspect::Time, beside(&one.time_ns, &other.time_ns));
    }
    let lengths = |frame: &Frame| (frame.wire_len, frame.captured);
    if lengths(one) != lengths(other) {
        add(Aspect::Length, beside(&lengths(one), &lengths(other)));
    }
    let protocols = || pair.their_details.protocols.join(":");
    let fate = &pair.our_details.fate;
    match (&one.transport, &other.transport) {
        (None, None) if pair.their_details.any_transport => {
            add(Aspect::Missing, format!("{fate:?}, {}", protocols()));
        }
        (None, Some(_)) => add(Aspect::Missing, format!("{fate:?}, {}", protocols())),
        (Some(one), None) => add(Aspect::Extra, format!("{one:?}, {}", protocols())),
        _ => {}
    }
}

fn transport(one: &Transport, other: &Transport, add: &mut impl FnMut(Aspect, String)) {
    if one.protocol != other.protocol {
        add(Aspect::Protocol, beside(&one.protocol, &other.protocol));
        return;
    }
    if one.addresses != other.addresses {
        add(Aspect::Addresses, beside(&one.addresses, &other.addresses));
    }
    if one.ports != other.ports {
        add(Aspect::Ports, beside(&one.ports, &other.ports));
    }
    if one.size != other.size {
        add(Aspect::Size, beside(&one.size, &other.size));
    }
    if one.flags != other.flags {
        add(Aspect::Flags, beside(&one.flags, &other.flags));
    }
}

fn beside(one: &impl std::fmt::Debug, other: &impl std::fmt::Debug) -> String {
    format!("{one:?}, tshark {other:?}")
}

/// Flows of one program and their counterparts of the other, as far as the frames have shown.
#[derive(Default)]
struct Flows {
    to_theirs: HashMap<(Protocol, u64), u64>,
    to_ours: HashMap<(Protocol, u64), u64>,
}

impl Flows {
    /// Says so when the frame joins other flows than the frames before.
    fn step(&mut self, one: &Transport, other: &Transport) -> Option<String> {
        let theirs = self.to_theirs.insert((one.protocol, one.flow), other.flow);
        let ours = self.to_ours.insert((other.protocol, other.flow), one.flow);
        match (ours, theirs) {
            (None, None) => None,
            (Some(ours), Some(theirs)) if ours == one.flow && theirs == other.flow => None,
            (Some(_), None) => Some("begins, tshark goes on".to_owned()),
            (None, Some(_)) => Some("goes on, tshark begins".to_owned()),
            (Some(_), Some(_)) => Some("goes on with another one than in tshark".to_owned()),
        }
    }
}

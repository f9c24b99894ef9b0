//! Damaged frames for a stack with checksums on: what its application is handed.
//!
//! The error is behind the last CRC, between adapter and memory, so that the Internet checksum is the only check. Each frame that a
//! message made is damaged and given to the receiver. Unless its application then has the message, the frame follows as it was sent.
//! Every byte that the application reads is compared with what was written.

use super::checks::holds;
use super::frames::{Pair, Payload, SIZES};
use super::random::Random;
use super::{Damage, damage};
use crate::error::Error;
use tollgate_stack::config::Mechanisms;
use tollgate_wire::ethernet;

/// Bytes of messages of each kind, from which they are cut.
const CORPUS: usize = 1 << 16;

/// Frames between two times that somebody is asked whether to go on.
const BETWEEN: u64 = 1 << 14;

/// Outcomes of damaged frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handed {
    /// Frames that were damaged and given to the stack.
    pub injected: u64,
    /// The Internet checksum fails: the stack must refuse them.
    pub seen: u64,
    /// The Internet checksum holds, so that no check of IP or TCP sees the damage.
    pub unseen: u64,
    /// Times that an application read other bytes than were written, after a frame of `unseen`.
    pub wrong_unseen: u64,
    /// Times that it did so, and no frame was to blame that the checksum cannot see: a defect.
    pub wrong_seen: u64,
    /// Connections opened anew: lost to a frame of `unseen`, or given up because link addresses had to be asked for again.
    pub connections: u64,
}

impl Handed {
    /// The sum with others.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            injected: self.injected + other.injected,
            seen: self.seen + other.seen,
            unseen: self.unseen + other.unseen,
            wrong_unseen: self.wrong_unseen + other.wrong_unseen,
            wrong_seen: self.wrong_seen + other.wrong_seen,
            connections: self.connections + other.connections,
        }
    }
}

/// Damages `count` frames, with payloads of each kind and messages of several sizes in turn; `go_on` is asked now and then.
///
/// # Errors
/// When the stacks cannot be connected.
pub fn application(
    kind: Damage,
    count: u64,
    seed: u64,
    go_on: impl FnMut() -> bool,
) -> Result<Handed, Error> {
    application_over(Mechanisms::DEFAULT, kind, count, seed, go_on)
}

/// [`application`] over stacks with these mechanisms.
pub(super) fn application_over(
    mechanisms: Mechanisms,
    kind: Damage,
    count: u64,
    seed: u64,
    mut go_on: impl FnMut() -> bool,
) -> Result<Handed, Error> {
    let mut random = Random::new(seed);
    let mut pair = Pair::new(mechanisms, seed)?;
    let mut handed = Handed::default();
    let corpora: Vec<Vec<u8>> = Payload::ALL
        .iter()
        .map(|payload| payload.bytes(CORPUS, seed))
        .collect();
    let mut buffer = vec![0; CORPUS];
    // A frame that the checksum could not see waits in the receiver, out of order, perhaps.
    let mut unseen_before = false;
    let mut attempts = 0u64;
    while handed.injected < count {
        attempts += 1;
        if attempts.is_multiple_of(BETWEEN) && !go_on() {
            break;
        }
        let corpus = &corpora[random.below(corpora.len())];
        let size = SIZES[random.below(SIZES.len() - 1)];
        let from = random.below(CORPUS - size);
        let message = &corpus[from..from + size];
        let Some(clean) = pair.frame(message) else {
            handed.connections += 1;
            unseen_before = false;
            pair.connect()?;
            continue;
        };
        let mut changed = clean.clone();
        damage::bytes(kind, &mut changed[ethernet::HEADER_LEN..], &mut random);
        let injects = changed != clean;
        let unseen = injects && holds(&changed[ethernet::HEADER_LEN..]);
        if injects {
            handed.injected += 1;
            handed.unseen += u64::from(unseen);
            handed.seen += u64::from(!unseen);
        }
        unseen_before |= unseen;
        let read = match injects {
            true => pair.deliver(&changed, &mut buffer),
            false => Some(0),
        };
        // What was refused, or lies where it does not belong, comes again as it was sent.
        let read = match read {
            Some(0) => pair.deliver(&clean, &mut buffer),
            read => read,
        };
        let right = read.is_some_and(|read| buffer[..read] == *message);
        if right {
            continue;
        }
        let wrong = read.is_some_and(|read| {
            let common = read.min(size);
            read > size || buffer[..common] != message[..common]
        });
        match (wrong, unseen_before) {
            (true, true) => handed.wrong_unseen += 1,
            (true, false) => handed.wrong_seen += 1,
            (false, true) => {}
            // Nothing wrong was read, and yet the message has not come: only a frame that was taken can do that.
            (false, false) => handed.wrong_seen += 1,
        }
        handed.connections += 1;
        unseen_before = false;
        pair.connect()?;
    }
    Ok(handed)
}

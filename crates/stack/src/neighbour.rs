//! The neighbour cache: from IPv4 addresses to link addresses by ARP (RFC 826; RFC 1122, 2.3.2).
//!
//! A state machine without I/O: it says when to ask and takes what was heard; sending, and the pool of the frames that
//! wait, are the caller's. An entry is
//!
//! - *incomplete* while its address is asked for: once a second (RFC 1122, 2.3.2.1), three times, and then it fails. Up
//!   to four frames wait for the answer, of which the latest are kept (2.3.2.2);
//! - *reachable* for 19 minutes after its neighbour was last heard;
//! - *stale* for one more minute. It is still used, but its first use asks again in the same way, and three questions
//!   without an answer remove it (RFC 1122, 2.3.2.1, mechanism 2). After 20 minutes without a sign it goes in any case.
//!
//! Header templates hold link addresses, too, and are not seen using them. So it is told when an entry becomes stale, that
//! whoever has its address may [doubt](Cache::doubt) it, and when it goes, that nobody uses it any longer.
//!
//! # Floods of lies
//!
//! ARP proves nothing, so who is on the link can lie about a neighbour that the cache knows. What is bounded is the harm
//! of a flood: an answer to a question that was not asked makes no entry; a request addressed to this host makes one, but
//! such an entry, until it is used, takes the place of its own kind only, and is the first to go when room is needed. So
//! no flood drives out a neighbour in use, and the number of entries never exceeds the capacity.
//!
//! This module must never own a pool: each [`Frame`] that it is given comes back through a return value or an
//! [`Action`].

use crate::buffer::Frame;
use crate::time::Instant;
use alloc::collections::BTreeMap;
use core::net::Ipv4Addr;
use core::time::Duration;
use tollgate_wire::ethernet::MacAddr;

/// Frames that wait for one address.
pub(crate) const PENDING: usize = 4;
/// Time between questions for one address (RFC 1122, 2.3.2.1: at most one per second).
pub(crate) const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// Questions that go without an answer before the neighbour is given up.
pub(crate) const TRIES: u8 = 3;
/// How long a neighbour is trusted after it was last heard.
pub(crate) const REACHABLE: Duration = Duration::from_secs(19 * 60);
/// How long its entry lasts after that.
pub(crate) const STALE: Duration = Duration::from_secs(60);

/// No deadline.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// What the cache knows about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The neighbour's link address.
    Found(MacAddr),
    /// Nothing yet: [`Cache::resolve`] with a frame asks for it.
    Wait,
}

/// What becomes of a frame.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// To be sent to this link address.
    Send(MacAddr, Frame),
    /// It waits for an answer.
    Queued {
        /// Whether the caller has to ask for the address now.
        ask: bool,
        /// Frames that had to make room, to be released: the oldest one for the same address, or all those of another
        /// address whose entry was given up.
        dropped: Frames,
        /// Whose known link address had to make room: no template may hold it any longer.
        evicted: Option<Ipv4Addr>,
    },
}

/// In what an address was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A request whose target is this host: the sender is about to talk to it.
    Request,
    /// A reply, or a request for somebody else (such as a gratuitous one): counts only for addresses in the cache.
    Other,
}

/// What hearing an address changed.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Update {
    /// The neighbour's link address now.
    pub(crate) mac: MacAddr,
    /// Whether it was another one before, so that header templates for it must be made anew.
    pub(crate) changed: bool,
    /// Frames that waited for it, in order, to be sent.
    pub(crate) pending: Frames,
}

/// What the passage of time asks for.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Broadcast a request for the address.
    Ask(Ipv4Addr),
    /// The neighbour was not heard for long: who holds its link address may doubt it.
    Stale(Ipv4Addr),
    /// The neighbour's link address is not known any more: no template may hold it any longer.
    Gone(Ipv4Addr),
    /// The address did not answer. The frame waited for it and is the caller's again: to be released, after its
    /// sender was told that the host is unreachable.
    Fail(Ipv4Addr, Frame),
}

/// At most [`PENDING`] frames, first in, first out.
#[must_use]
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Frames {
    frames: [Option<Frame>; PENDING],
}

impl Frames {
    fn one(frame: Frame) -> Self {
        Self {
            frames: [Some(frame), None, None, None],
        }
    }

    /// Appends a frame; the oldest comes out when there are too many.
    fn push(&mut self, frame: Frame) -> Option<Frame> {
        if let Some(free) = self.frames.iter_mut().find(|place| place.is_none()) {
            *free = Some(frame);
            return None;
        }
        let oldest = self.next();
        self.frames[PENDING - 1] = Some(frame);
        oldest
    }
}

impl Iterator for Frames {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        let first = self.frames[0].take();
        self.frames.rotate_left(1);
        first
    }
}

/// Questions about one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Questions {
    /// Asked so far.
    asked: u8,
    /// When the next question, or giving up, is due.
    next: Instant,
}

#[derive(Debug)]
enum State {
    Incomplete {
        questions: Questions,
        pending: Frames,
    },
    /// Reachable until `stale_at`, then stale; `questions` once the stale entry was used.
    Known {
        mac: MacAddr,
        stale_at: Instant,
        /// Whether [`Action::Stale`] was told.
        told: bool,
        questions: Option<Questions>,
    },
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// When a frame or a lookup last asked for the address; nothing while only the neighbour itself has spoken.
    used: Option<Instant>,
}

impl Entry {
    /// When time next changes the entry.
    fn deadline(&self) -> Instant {
        match &self.state {
            State::Incomplete { questions, .. } => questions.next,
            State::Known {
                stale_at,
                told,
                questions,
                ..
            } => {
                let end = if *told { *stale_at + STALE } else { *stale_at };
                questions.map_or(end, |questions| questions.next.min(end))
            }
        }
    }

    /// The order in which entries are given up for others: those that nobody has used, then known neighbours by their
    /// last use, and only then those with frames that wait.
    fn eviction_rank(&self) -> (bool, Option<Instant>) {
        (matches!(self.state, State::Incomplete { .. }), self.used)
    }
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: BTreeMap<Ipv4Addr, Entry>,
    capacity: usize,
    /// No entry's deadline is earlier.
    wake: Instant,
}

impl Cache {
    /// Makes a cache of at most `capacity` entries (at least one).
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            capacity: capacity.max(1),
            wake: NEVER,
        }
    }

    /// The link address of `ip`, if it is known. This counts as use of the entry.
    pub(crate) fn lookup(&mut self, ip: Ipv4Addr, now: Instant) -> Lookup {
        let Some(Entry {
            state:
                State::Known {
                    mac,
                    stale_at,
                    questions,
                    ..
                },
            used,
        }) = self.entries.get_mut(&ip)
        else {
            return Lookup::Wait;
        };
        let stale = now >= *stale_at;
        if stale && now >= *stale_at + STALE {
            // Time is up; the next poll removes it.
            return Lookup::Wait;
        }
        *used = Some(now);
        if stale && questions.is_none() {
            *questions = Some(Questions {
                asked: 0,
                next: now,
            });
            self.wake = self.wake.min(now);
        }
        Lookup::Found(*mac)
    }

    /// Asks whether a known neighbour is still there, in the same way as for a stale one that is used: traffic by way of
    /// it makes no progress, or its link address is used where the cache does not see it. A neighbour that was heard in the
    /// last second is not asked again.
    pub(crate) fn doubt(&mut self, ip: Ipv4Addr, now: Instant) {
        if let Some(Entry {
            state:
                State::Known {
                    stale_at,
                    questions,
                    ..
                },
            ..
        }) = self.entries.get_mut(&ip)
            && questions.is_none()
            && now + REACHABLE >= *stale_at + ASK_INTERVAL
        {
            *questions = Some(Questions {
                asked: 0,
                next: now,
            });
            self.wake = self.wake.min(now);
        }
    }

    /// Says where to send `frame`, whose next hop is `ip`, or keeps it until that is known.
    pub(crate) fn resolve(&mut self, ip: Ipv4Addr, frame: Frame, now: Instant) -> Resolution {
        if let Lookup::Found(mac) = self.lookup(ip, now) {
            return Resolution::Send(mac, frame);
        }
        if let Some(Entry {
            state: State::Incomplete { pending, .. },
            used,
        }) = self.entries.get_mut(&ip)
        {
            *used = Some(now);
            let dropped = pending.push(frame).map(Frames::one).unwrap_or_default();
            return Resolution::Queued {
                ask: false,
                dropped,
                evicted: None,
            };
        }
        // A known entry whose time is up makes room for its successor.
        self.entries.remove(&ip);
        let (dropped, evicted) = if self.entries.len() < self.capacity {
            (Frames::default(), None)
        } else {
            self.evict()
        };
        let pending = Frames::one(frame);
        let questions = Questions {
            asked: 1,
            next: now + ASK_INTERVAL,
        };
        self.wake = self.wake.min(questions.next);
        self.entries.insert(
            ip,
            Entry {
                state: State::Incomplete { questions, pending },
                used: Some(now),
            },
        );
        Resolution::Queued {
            ask: true,
            dropped,
            evicted,
        }
    }

    /// Takes note that `ip` was heard to be at `mac`, as the sender of an ARP packet. Nothing comes back, and nothing
    /// changes, when the cache does not concern itself with the address, or when either address cannot be a single
    /// host's.
    pub(crate) fn heard(
        &mut self,
        ip: Ipv4Addr,
        mac: MacAddr,
        heard: Heard,
        now: Instant,
    ) -> Option<Update> {
        if !mac.is_unicast() || !is_host(ip) {
            return None;
        }
        let known = State::Known {
            mac,
            stale_at: now + REACHABLE,
            told: false,
            questions: None,
        };
        if let Some(entry) = self.entries.get_mut(&ip) {
            let (changed, pending) = match core::mem::replace(&mut entry.state, known) {
                State::Incomplete { pending, .. } => (false, pending),
                State::Known { mac: before, .. } => (before != mac, Frames::default()),
            };
            return Some(Update {
                mac,
                changed,
                pending,
            });
        }
        if heard != Heard::Request || !self.room_for_unused() {
            return None;
        }
        self.wake = self.wake.min(now + REACHABLE);
        self.entries.insert(
            ip,
            Entry {
                state: known,
                used: None,
            },
        );
        Some(Update {
            mac,
            changed: false,
            pending: Frames::default(),
        })
    }

    /// Carries out what is due at `now`.
    pub(crate) fn poll(&mut self, now: Instant, act: &mut dyn FnMut(Action)) {
        if now < self.wake {
            return;
        }
        let mut wake = NEVER;
        self.entries.retain(|ip, entry| {
            let keep = poll_entry(*ip, entry, now, act);
            if keep {
                wake = wake.min(entry.deadline());
            }
            keep
        });
        self.wake = wake;
    }

    /// When [`Cache::poll`] may have something to do: never later than it has, sometimes earlier.
    pub(crate) fn next(&self) -> Option<Instant> {
        (self.wake != NEVER).then_some(self.wake)
    }

    /// Gives the first entry by [`Entry::eviction_rank`] up: the frames that waited there, or whose link address was known.
    fn evict(&mut self) -> (Frames, Option<Ipv4Addr>) {
        let victim = self
            .entries
            .iter()
            .min_by_key(|(_, entry)| entry.eviction_rank())
            .map(|(ip, _)| *ip);
        match victim.and_then(|ip| self.entries.remove(&ip)) {
            Some(Entry {
                state: State::Incomplete { pending, .. },
                ..
            }) => (pending, None),
            _ => (Frames::default(), victim),
        }
    }

    /// Makes room for an entry that nobody has used, at the cost of no other than its own kind: the one that was heard
    /// the longest ago.
    fn room_for_unused(&mut self) -> bool {
        if self.entries.len() < self.capacity {
            return true;
        }
        let unused = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.used.is_none());
        let Some(oldest) = unused
            .min_by_key(|(_, entry)| entry.deadline())
            .map(|(ip, _)| *ip)
        else {
            return false;
        };
        self.entries.remove(&oldest);
        true
    }
}

/// Carries out what is due for one entry; false when the entry is to go.
fn poll_entry(ip: Ipv4Addr, entry: &mut Entry, now: Instant, act: &mut dyn FnMut(Action)) -> bool {
    match &mut entry.state {
        State::Incomplete { questions, pending } => {
            let goes_on = ask(ip, questions, now, act);
            if !goes_on {
                pending.for_each(|frame| act(Action::Fail(ip, frame)));
            }
            goes_on
        }
        State::Known {
            stale_at,
            told,
            questions,
            ..
        } => {
            let goes_on = now < *stale_at + STALE
                && questions
                    .as_mut()
                    .is_none_or(|questions| ask(ip, questions, now, act));
            if !goes_on {
                act(Action::Gone(ip));
            } else if now >= *stale_at && !*told {
                *told = true;
                act(Action::Stale(ip));
            }
            goes_on
        }
    }
}

/// Asks if that is due; false when it is time to give up.
fn ask(ip: Ipv4Addr, questions: &mut Questions, now: Instant, act: &mut dyn FnMut(Action)) -> bool {
    if now < questions.next {
        return true;
    }
    if questions.asked >= TRIES {
        return false;
    }
    questions.asked += 1;
    questions.next = now + ASK_INTERVAL;
    act(Action::Ask(ip));
    true
}

/// Whether a single host on the link can have this address.
fn is_host(ip: Ipv4Addr) -> bool {
    !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_broadcast())
}

#[cfg(test)]
mod tests;

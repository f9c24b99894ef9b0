//! The neighbour cache: from addresses to link addresses, of IPv4 by ARP (RFC 826; RFC 1122, 2.3.2) and of IPv6 by neighbour
//! discovery (RFC 4861, 7).
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
//! For IPv6 the states are those of RFC 4861, 7.3.2. *Reachable* lasts for half a minute, as the router says
//! ([`Cache::set_times`]). *Stale* begins with it or with a message that proves nothing, and lasts for ten minutes of
//! silence at most, for want of room. Its first use is *delay*: the questions, now to the neighbour itself (*probe*), begin
//! five seconds later. What an advertisement changes is [`Cache::advertised`]'s.
//!
//! Header templates hold link addresses, too, and are not seen using them. So it is told when an entry becomes stale, that
//! whoever has its address may [doubt](Cache::doubt) it, and when it goes, that nobody uses it any longer.
//!
//! # Floods of lies
//!
//! ARP proves nothing, so who is on the link can lie about a neighbour that the cache knows. What is bounded is the harm
//! of a flood:
//!
//! - Entries that are asked for and entries that are known have a capacity each. A question takes the place of the
//!   oldest question, so destinations that do not exist drive out no known neighbour.
//! - A neighbour that has answered takes the place of one that nobody has used, or else of the least recently used one
//!   that no template holds. Only when [`LOOKS`] in a row are held does one of those go.
//! - An answer to a question that was not asked makes no entry. A request addressed to this host makes one, but such an
//!   entry, until it is used, takes the place of its own kind only, and is the first to go.
//! - What contradicts an address that was heard within the last second is not believed (Linux: `locktime`). So a
//!   neighbour's templates are written anew once a second at most.
//! - The frames that wait have a limit in all, which the caller sets from what its pool can spare.
//!
//! Neither a packet nor a tick makes the cache walk all its entries: what has to go, and what is due, is found in an
//! order that is kept.
//!
//! This module must never own a pool: each [`Frame`] that it is given comes back through a return value or an
//! [`Action`].

use crate::buffer::Frame;
use crate::time::Instant;
use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt::Debug;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use tollgate_wire::ethernet::MacAddr;

pub(crate) use frames::Frames;

/// Frames that wait for one address while few wait in all: all fragments of the longest datagram, where a frame carries 1,500 bytes.
pub(crate) const PENDING: usize = 64;
/// Frames that wait for one address while many wait for others.
pub(crate) const FEW: usize = 4;
/// Time between questions for one address (RFC 1122, 2.3.2.1: at most one per second).
pub(crate) const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// Questions that go without an answer before the neighbour is given up.
pub(crate) const TRIES: u8 = 3;
/// Time for which a neighbour is trusted after it was last heard.
pub(crate) const REACHABLE: Duration = Duration::from_secs(19 * 60);
/// Time for which its entry lasts after that.
pub(crate) const STALE: Duration = Duration::from_secs(60);

/// Time for which an address that was heard is believed against a contradiction.
pub(crate) const LOCKED: Duration = Duration::from_secs(1);
/// Uses of an entry within this time are one.
const USE_INTERVAL: Duration = Duration::from_secs(1);
/// Known neighbours that are looked at for one that no template holds, when there is no room.
pub(crate) const LOOKS: usize = 8;

/// An address that neighbours are known by.
pub(crate) trait Address: Copy + Ord + Debug {
    /// Time for which an entry lasts when it has become stale.
    const STALE: Duration;
    /// Time from the use of a stale entry to the first question.
    const DELAY: Duration;

    /// Tells whether a single host on the link can have this address.
    fn is_host(self) -> bool;
}

impl Address for Ipv4Addr {
    const STALE: Duration = STALE;
    const DELAY: Duration = Duration::ZERO;

    fn is_host(self) -> bool {
        !(self.is_unspecified() || self.is_loopback() || self.is_multicast() || self.is_broadcast())
    }
}

impl Address for Ipv6Addr {
    const STALE: Duration = Duration::from_secs(600);
    /// RFC 4861, 10: `DELAY_FIRST_PROBE_TIME`.
    const DELAY: Duration = Duration::from_secs(5);

    fn is_host(self) -> bool {
        !(self.is_unspecified() || self.is_loopback() || self.is_multicast())
    }
}

/// State of an address in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The neighbour's link address.
    Found(MacAddr),
    /// Nothing yet: [`Cache::keep`] with a frame asks for it.
    Wait,
}

/// Fate of a frame whose next hop is not known yet.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Tells whether the caller has to ask for the address now.
    pub(crate) ask: bool,
    /// The frame itself, when it found no room, to be released.
    pub(crate) refused: Option<Frame>,
    /// Frames that had to make room, to be released: the oldest one for the same address, or all those of another
    /// address whose question was given up.
    pub(crate) dropped: Frames,
    /// True when the address was known until its time was up: no template may hold it any longer.
    pub(crate) lost: bool,
}

/// In what an address was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A request whose target is this host: the sender is about to talk to it.
    Request,
    /// A reply, or a request for somebody else (such as a gratuitous one): counts only for addresses in the cache.
    Other,
    /// The configuration: certain, and not limited in rate.
    Configured,
}

/// Effect on the cache of hearing an address.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Update<A> {
    /// Nothing: the cache does not concern itself with the address, or it cannot be a single host's.
    Ignored,
    /// Nothing: the packet contradicts what was heard within the last second.
    Locked,
    /// Nothing: the packet says what is known, and proves nothing.
    Same,
    /// The packet contradicts what is known and does not override it: the neighbour is stale.
    Doubted,
    /// The neighbour is there.
    Known {
        /// True when its link address was another one before, or asked for: header templates for it must be made anew.
        changed: bool,
        /// Frames that waited for it, in order, to be sent.
        pending: Frames,
        /// Whose known link address had to make room: no template may hold it any longer.
        evicted: Option<A>,
    },
}

/// Action that the passage of time asks for.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action<A> {
    /// Broadcast a request for the address.
    Ask(A),
    /// The neighbour was not heard for long: who holds its link address may doubt it.
    Stale(A),
    /// The neighbour was not heard for so long that it is forgotten: no template may hold its link address any longer.
    Gone(A),
    /// A neighbour whose link address was known has not answered: no template may hold it any longer.
    Silent(A),
    /// The address did not answer. The frames that waited for it, if any, are the caller's again: to be released, after
    /// their senders were told that the host is unreachable.
    Fail(A, Frames),
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
        /// When the neighbour was last heard to be there; none where nothing proves that packets reach it.
        heard_at: Option<Instant>,
        stale_at: Instant,
        /// Tells whether [`Action::Stale`] was told.
        told: bool,
        questions: Option<Questions>,
    },
}

impl State {
    /// A neighbour that was heard at `now` and is trusted for `time`.
    fn reachable(mac: MacAddr, time: Duration, now: Instant) -> Self {
        Self::Known {
            mac,
            heard_at: Some(now),
            stale_at: now + time,
            told: false,
            questions: None,
        }
    }

    /// A neighbour of which nothing proves that packets reach it.
    fn stale(mac: MacAddr, now: Instant) -> Self {
        Self::Known {
            mac,
            heard_at: None,
            stale_at: now,
            told: true,
            questions: None,
        }
    }
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// When it came to its place in the order in which entries make room: when it was made or used, or, unused, heard.
    since: Instant,
    /// True when a frame or a lookup has asked for the address; false while only the neighbour itself has spoken.
    used: bool,
    /// When it is looked at. Deadlines that move away leave it where it is.
    wake: Instant,
}

impl Entry {
    /// Frames that wait.
    fn frames(&self) -> usize {
        match &self.state {
            State::Incomplete { pending, .. } => pending.len(),
            State::Known { .. } => 0,
        }
    }

    /// When time next changes the entry.
    fn deadline(&self, stale: Duration) -> Instant {
        match &self.state {
            State::Incomplete { questions, .. } => questions.next,
            State::Known {
                stale_at,
                told,
                questions,
                ..
            } => {
                let end = if *told { *stale_at + stale } else { *stale_at };
                questions.map_or(end, |questions| questions.next.min(end))
            }
        }
    }
}

/// Entries in the order in which they make room: those that nobody has used before the others, the oldest first.
type Order<A> = BTreeSet<(bool, Instant, A)>;

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache<A> {
    entries: BTreeMap<A, Entry>,
    /// The entries that are asked for.
    asked: Order<A>,
    /// The entries that are known.
    known: Order<A>,
    /// Entries of either kind.
    capacity: usize,
    /// Frames that wait.
    waiting: usize,
    /// One for each entry: when it is looked at, at its deadline or earlier.
    wakes: BTreeSet<(Instant, A)>,
    /// Time for which a neighbour is trusted after it was last heard.
    reachable: Duration,
    /// Time between questions.
    ask_interval: Duration,
}

impl<A: Address> Cache<A> {
    /// Makes a cache of at most `capacity` known neighbours, and as many questions (at least one).
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            asked: Order::new(),
            known: Order::new(),
            capacity: capacity.max(1),
            waiting: 0,
            wakes: BTreeSet::new(),
            reachable: REACHABLE,
            ask_interval: ASK_INTERVAL,
        }
    }

    /// Sets for how long a neighbour is trusted, and the time between questions, from now on.
    pub(crate) fn set_times(&mut self, reachable: Duration, ask_interval: Duration) {
        self.reachable = reachable;
        self.ask_interval = ask_interval;
    }

    /// The link address of `ip`, if it is known. This does not count as use.
    pub(crate) fn known_mac(&self, ip: A) -> Option<MacAddr> {
        match self.entries.get(&ip)?.state {
            State::Known { mac, .. } => Some(mac),
            State::Incomplete { .. } => None,
        }
    }

    /// Frames that wait.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// The link address of `ip`, if it is known. This counts as use of the entry.
    pub(crate) fn lookup(&mut self, ip: A, now: Instant) -> Lookup {
        let Some(entry) = self.entries.get_mut(&ip) else {
            return Lookup::Wait;
        };
        let State::Known {
            mac,
            stale_at,
            questions,
            ..
        } = &mut entry.state
        else {
            return Lookup::Wait;
        };
        let (mac, stale) = (*mac, now >= *stale_at);
        if stale && now >= *stale_at + A::STALE {
            // Time is up; the next poll removes it.
            return Lookup::Wait;
        }
        if stale && questions.is_none() {
            let next = now + A::DELAY;
            *questions = Some(Questions { asked: 0, next });
            wake_at(&mut self.wakes, ip, &mut entry.wake, next);
        }
        if !entry.used || now - entry.since >= USE_INTERVAL {
            self.renew(ip, true, now);
        }
        Lookup::Found(mac)
    }

    /// The link address of `ip` that a lookup has found at `now`, and a time until which lookups find it, as long as nothing is heard and
    /// nothing is due, and change nothing. None where it is not known.
    pub(crate) fn certain(&self, ip: A, now: Instant) -> Option<(MacAddr, Instant)> {
        let entry = self.entries.get(&ip)?;
        let State::Known {
            mac,
            stale_at,
            questions,
            ..
        } = entry.state
        else {
            return None;
        };
        let until = match questions {
            _ if now < stale_at => stale_at,
            Some(_) => stale_at + A::STALE,
            None => return None,
        };
        (entry.used).then_some((mac, until.min(entry.since + USE_INTERVAL)))
    }

    /// Asks whether a known neighbour is still there, in the same way as for a stale one that is used: traffic by way of
    /// it makes no progress, or its link address is used where the cache does not see it. A neighbour that was heard in the
    /// last second is not asked again.
    pub(crate) fn doubt(&mut self, ip: A, now: Instant) {
        if let Some(Entry {
            state:
                State::Known {
                    heard_at,
                    questions,
                    ..
                },
            wake,
            ..
        }) = self.entries.get_mut(&ip)
            && questions.is_none()
            && heard_at.is_none_or(|heard| now >= heard + self.ask_interval)
        {
            *questions = Some(Questions {
                asked: 0,
                next: now,
            });
            wake_at(&mut self.wakes, ip, wake, now);
        }
    }

    /// Keeps `frame`, whose next hop is `ip`, until that is known, if not more than `may_wait` frames wait then in all. The address is
    /// asked for in any case. It must be one that [`Cache::lookup`] has just not found. Half of what may wait is for those of whom [`FEW`]
    /// do, so that a neighbour that is not there leaves room for others.
    pub(crate) fn keep(&mut self, ip: A, frame: Frame, may_wait: usize, now: Instant) -> Kept {
        if let Some(Entry {
            state: State::Incomplete { pending, .. },
            ..
        }) = self.entries.get_mut(&ip)
        {
            // The latest frame is the one to keep (RFC 1122, 2.3.2.2): without room it takes its predecessor's.
            let mut dropped = Frames::default();
            if self.waiting >= may_wait && may_wait != 0 {
                dropped = pending.next().map(Frames::one).unwrap_or_default();
                self.waiting -= dropped.len();
            }
            let refused = if self.waiting < may_wait {
                let most = if self.waiting < may_wait / 2 {
                    PENDING
                } else {
                    FEW
                };
                self.waiting += 1;
                if let Some(oldest) = pending.push(frame, most) {
                    self.waiting -= 1;
                    dropped.frames.push_back(oldest);
                }
                None
            } else {
                Some(frame)
            };
            return Kept {
                ask: false,
                refused,
                dropped,
                lost: false,
            };
        }
        // A known entry whose time is up makes room for its successor.
        let lost = self.remove(ip).is_some();
        let mut dropped = Frames::default();
        if self.asked.len() >= self.capacity
            && let Some(&(.., oldest)) = self.asked.first()
            && let Some(State::Incomplete { pending, .. }) = self.remove(oldest)
        {
            dropped = pending;
        }
        let (pending, refused) = if self.waiting < may_wait {
            (Frames::one(frame), None)
        } else {
            (Frames::default(), Some(frame))
        };
        let questions = Questions {
            asked: 1,
            next: now + self.ask_interval,
        };
        self.insert(ip, State::Incomplete { questions, pending }, true, now);
        Kept {
            ask: true,
            refused,
            dropped,
            lost,
        }
    }

    /// Takes note that `ip` was heard to be at `mac`, as the sender of an ARP packet. `is_held` says whether a template
    /// holds a neighbour's link address.
    pub(crate) fn heard(
        &mut self,
        ip: A,
        mac: MacAddr,
        heard: Heard,
        is_held: &mut dyn FnMut(A) -> bool,
        now: Instant,
    ) -> Update<A> {
        if !mac.is_unicast() || !ip.is_host() {
            return Update::Ignored;
        }
        let known = State::reachable(mac, self.reachable, now);
        match self.entries.get_mut(&ip) {
            Some(Entry {
                state:
                    State::Known {
                        mac: before,
                        heard_at,
                        ..
                    },
                used,
                ..
            }) => {
                let (changed, used) = (*before != mac, *used);
                let is_locked = heard_at.is_some_and(|heard| heard + LOCKED > now);
                if changed && is_locked && heard != Heard::Configured {
                    return Update::Locked;
                }
                if let Some(entry) = self.entries.get_mut(&ip) {
                    entry.state = known;
                }
                if !used {
                    self.renew(ip, false, now);
                }
                Update::Known {
                    changed,
                    pending: Frames::default(),
                    evicted: None,
                }
            }
            Some(_) => {
                let pending = match self.remove(ip) {
                    Some(State::Incomplete { pending, .. }) => pending,
                    _ => Frames::default(),
                };
                let evicted = self.make_room(is_held, now);
                self.insert(ip, known, true, now);
                Update::Known {
                    changed: true,
                    pending,
                    evicted,
                }
            }
            None => {
                let evicted = match heard {
                    Heard::Other => return Update::Ignored,
                    Heard::Configured => self.make_room(is_held, now),
                    Heard::Request if self.known.len() < self.capacity => None,
                    Heard::Request => match self.known.first() {
                        Some(&(false, _, unused)) => {
                            self.remove(unused);
                            Some(unused)
                        }
                        _ => return Update::Ignored,
                    },
                };
                self.insert(ip, known, heard == Heard::Configured, now);
                Update::Known {
                    changed: false,
                    pending: Frames::default(),
                    evicted,
                }
            }
        }
    }

    /// Takes note that a neighbour of IPv6 names its own link address in a message that proves nothing about the way to it: a
    /// solicitation, or a router's message (RFC 4861, 7.2.3 and 6.3.4).
    pub(crate) fn named(
        &mut self,
        ip: A,
        mac: MacAddr,
        is_held: &mut dyn FnMut(A) -> bool,
        now: Instant,
    ) -> Update<A> {
        if !mac.is_unicast() || !ip.is_host() {
            return Update::Ignored;
        }
        if self.known_mac(ip) == Some(mac) {
            return Update::Ignored;
        }
        let update = self.heard(ip, mac, Heard::Request, is_held, now);
        if matches!(update, Update::Known { .. }) {
            self.set_state(ip, State::stale(mac, now));
        }
        update
    }

    /// Takes note of a neighbour's advertisement (RFC 4861, 7.2.5). What contradicts an address that was heard within the last
    /// second is not believed.
    pub(crate) fn advertised(
        &mut self,
        ip: A,
        mac: Option<MacAddr>,
        (solicited, overrides): (bool, bool),
        is_held: &mut dyn FnMut(A) -> bool,
        now: Instant,
    ) -> Update<A> {
        let known = self.known_mac(ip);
        let told = match (mac, known) {
            (Some(mac), Some(before)) if mac != before && !overrides => {
                // It casts doubt on what is known, no more.
                if let Some(Entry {
                    state: State::Known { stale_at, .. },
                    ..
                }) = self.entries.get(&ip)
                    && now < *stale_at
                {
                    self.set_state(ip, State::stale(before, now));
                    return Update::Doubted;
                }
                return Update::Ignored;
            }
            (Some(mac), _) => mac,
            (None, Some(before)) => before,
            (None, None) => return Update::Ignored,
        };
        let update = match (solicited, known) {
            (false, Some(before)) if before == told => return Update::Same,
            _ => self.heard(ip, told, Heard::Other, is_held, now),
        };
        if matches!(update, Update::Known { .. }) && !solicited {
            self.set_state(ip, State::stale(told, now));
        }
        update
    }

    /// Gives a known entry another state.
    fn set_state(&mut self, ip: A, state: State) {
        if let Some(entry) = self.entries.get_mut(&ip) {
            entry.state = state;
            let wake = entry.deadline(A::STALE);
            wake_at(&mut self.wakes, ip, &mut entry.wake, wake);
        }
    }

    /// Carries out what is due at `now`.
    pub(crate) fn poll(&mut self, now: Instant, act: &mut dyn FnMut(Action<A>)) {
        while let Some(&(at, ip)) = self.wakes.first()
            && at <= now
        {
            let Some(entry) = self.entries.get_mut(&ip) else {
                self.wakes.pop_first();
                continue;
            };
            let frames = entry.frames();
            let goes_on = poll_entry(ip, entry, self.ask_interval, now, act);
            self.waiting -= frames - entry.frames();
            if goes_on {
                self.wakes.remove(&(entry.wake, ip));
                entry.wake = entry.deadline(A::STALE);
                self.wakes.insert((entry.wake, ip));
            } else {
                self.remove(ip);
            }
        }
    }

    /// When [`Cache::poll`] may have something to do: never later than it has, sometimes earlier.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.wakes.first().map(|&(at, _)| at)
    }

    /// Makes room for a known neighbour; says whose link address is not known any more for it. Held ones that it comes by
    /// go to the end of the order: their templates use them, which the cache does not see.
    fn make_room(&mut self, is_held: &mut dyn FnMut(A) -> bool, now: Instant) -> Option<A> {
        if self.known.len() < self.capacity {
            return None;
        }
        for _ in 0..LOOKS {
            let &(used, _, ip) = self.known.first()?;
            if !used || !is_held(ip) {
                break;
            }
            self.renew(ip, true, now);
        }
        let &(.., ip) = self.known.first()?;
        self.remove(ip);
        Some(ip)
    }

    fn insert(&mut self, ip: A, state: State, used: bool, since: Instant) {
        match &state {
            State::Incomplete { pending, .. } => {
                self.waiting += pending.len();
                self.asked.insert((used, since, ip));
            }
            State::Known { .. } => {
                self.known.insert((used, since, ip));
            }
        }
        let mut entry = Entry {
            state,
            since,
            used,
            wake: since,
        };
        entry.wake = entry.deadline(A::STALE);
        self.wakes.insert((entry.wake, ip));
        self.entries.insert(ip, entry);
    }

    fn remove(&mut self, ip: A) -> Option<State> {
        let Entry {
            state,
            since,
            used,
            wake,
        } = self.entries.remove(&ip)?;
        self.wakes.remove(&(wake, ip));
        match &state {
            State::Incomplete { pending, .. } => {
                self.waiting -= pending.len();
                self.asked.remove(&(used, since, ip));
            }
            State::Known { .. } => {
                self.known.remove(&(used, since, ip));
            }
        }
        Some(state)
    }

    /// Moves a known entry to the place in the order that it has when it is used, or heard, now.
    fn renew(&mut self, ip: A, used: bool, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&ip) {
            self.known.remove(&(entry.used, entry.since, ip));
            entry.used = used;
            entry.since = now;
            self.known.insert((used, now, ip));
        }
    }
}

/// Sees to it that an entry, which is looked at at `wake`, is looked at at `now`.
fn wake_at<A: Address>(
    wakes: &mut BTreeSet<(Instant, A)>,
    ip: A,
    wake: &mut Instant,
    now: Instant,
) {
    if now < *wake {
        wakes.remove(&(*wake, ip));
        *wake = now;
        wakes.insert((now, ip));
    }
}

/// Carries out what is due for one entry; false when the entry is to go.
fn poll_entry<A: Address>(
    ip: A,
    entry: &mut Entry,
    interval: Duration,
    now: Instant,
    act: &mut dyn FnMut(Action<A>),
) -> bool {
    match &mut entry.state {
        State::Incomplete { questions, pending } => {
            let goes_on = ask(ip, questions, interval, now, act);
            if !goes_on {
                act(Action::Fail(ip, core::mem::take(pending)));
            }
            goes_on
        }
        State::Known {
            stale_at,
            told,
            questions,
            ..
        } => {
            if now >= *stale_at + A::STALE {
                act(Action::Gone(ip));
                return false;
            }
            if let Some(questions) = questions
                && !ask(ip, questions, interval, now, act)
            {
                act(Action::Silent(ip));
                return false;
            }
            if now >= *stale_at && !*told {
                *told = true;
                act(Action::Stale(ip));
            }
            true
        }
    }
}

/// Asks if that is due; false when it is time to give up.
fn ask<A: Address>(
    ip: A,
    questions: &mut Questions,
    interval: Duration,
    now: Instant,
    act: &mut dyn FnMut(Action<A>),
) -> bool {
    if now < questions.next {
        return true;
    }
    if questions.asked >= TRIES {
        return false;
    }
    questions.asked += 1;
    questions.next = now + interval;
    act(Action::Ask(ip));
    true
}

mod frames;
#[cfg(test)]
mod tests;

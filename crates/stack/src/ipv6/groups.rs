//! Groups that this host listens to, and what multicast routers and switches are told of them (RFC 9777, which was RFC 3810).
//!
//! The groups are the solicited-node groups of our addresses (RFC 4861, 7.2.1), each from when its address is tried on. So
//! there are no more than addresses, and those left within the last second. All nodes' group is never told of (RFC 9777, 6).
//! Nobody asks for sources of these groups, so a query that names some is answered as one that names none.
//!
//! Messages are those of RFC 2710 for a while when a querier of version 1 is heard. Other listeners' reports do not make
//! ours unnecessary: switches want to hear each.
//!
//! This module must never send anything: [`Groups::poll`] says what is to be sent.

use crate::random::Random;
use crate::time::Instant;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;
use tollgate_wire::mld::{Query, Record};

/// RFC 9777, 9.1: the Robustness Variable; a change is told so many times.
const ROBUSTNESS: u8 = 2;
/// RFC 9777, 9.11: the Unsolicited Report Interval, the longest time until a change is told again.
const AGAIN_MS: u32 = 1000;
/// RFC 9777, 9.12: the Older Version Querier Present Timeout, with the default query and response intervals.
const OLDER_QUERIER: Duration = Duration::from_secs(2 * 125 + 10);

/// A group.
#[derive(Clone, Copy, Debug)]
struct Group {
    address: Ipv6Addr,
    is_left: bool,
    /// Times that the change is to be told yet, and when the next is due.
    untold: u8,
    due: Instant,
    /// When a query for this group is answered.
    answer: Option<Instant>,
}

/// The groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// Number of the addresses that the groups are those of.
    version: u32,
    /// When a query for all groups is answered.
    answer: Option<Instant>,
    /// Until when a querier of version 1 is taken to be there.
    older_until: Option<Instant>,
}

impl Groups {
    /// Joins the groups that are wanted and leaves others, unless `version` is that of last time.
    pub(crate) fn follow(
        &mut self,
        version: u32,
        wanted: impl Iterator<Item = Ipv6Addr> + Clone,
        now: Instant,
    ) {
        if self.version == version {
            return;
        }
        self.version = version;
        for group in &mut self.groups {
            let is_left = !wanted.clone().any(|address| address == group.address);
            if group.is_left != is_left {
                group.is_left = is_left;
                group.untold = ROBUSTNESS;
                group.due = now;
                group.answer = None;
            }
        }
        for address in wanted {
            if self.groups.iter().all(|group| group.address != address) {
                self.groups.push(Group {
                    address,
                    is_left: false,
                    untold: ROBUSTNESS,
                    due: now,
                    answer: None,
                });
            }
        }
    }

    /// Tells of all groups again as of new ones.
    pub(crate) fn tell_again(&mut self, now: Instant) {
        for group in self.groups.iter_mut().filter(|group| !group.is_left) {
            group.untold = ROBUSTNESS;
            group.due = now;
        }
    }

    /// Tells whether the groups are those of other addresses than of these.
    pub(crate) const fn is_behind(&self, version: u32) -> bool {
        self.version != version
    }

    /// Takes a query, which is answered after a random time (RFC 9777, 6.2).
    pub(crate) fn asked(&mut self, query: &Query, random: &mut Random, now: Instant) {
        if query.is_v1 {
            self.older_until = Some(now + OLDER_QUERIER);
        }
        let most = query.max_response.as_millis() as u32;
        let due = now + Duration::from_millis(random.below(most + 1).into());
        let sooner = |pending: Option<Instant>| pending.is_some_and(|pending| pending <= due);
        if sooner(self.answer) {
            return;
        }
        if query.group.is_unspecified() {
            self.answer = Some(due);
            return;
        }
        let mut groups = self.groups.iter_mut();
        if let Some(group) = groups.find(|group| group.address == query.group && !group.is_left)
            && !sooner(group.answer)
        {
            group.answer = Some(due);
        }
    }

    /// Records that are due, one for each group at most, and whether they are told by version 1.
    pub(crate) fn poll(
        &mut self,
        random: &mut Random,
        now: Instant,
    ) -> (bool, Vec<(Record, Ipv6Addr)>) {
        let mut records = Vec::new();
        if self.next().is_none_or(|next| next > now) {
            return (false, records);
        }
        self.older_until = self.older_until.filter(|&until| until > now);
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let all = is_due(self.answer);
        if all {
            self.answer = None;
        }
        self.groups.retain_mut(|group| {
            let is_asked = (all || is_due(group.answer)) && !group.is_left;
            if is_asked {
                group.answer = None;
            }
            if group.untold > 0 && group.due <= now {
                group.untold -= 1;
                let again = u64::from(random.below(AGAIN_MS)) + 1;
                group.due = now + Duration::from_millis(again);
                let change = if group.is_left {
                    Record::Leaves
                } else {
                    Record::Joins
                };
                records.push((change, group.address));
            } else if is_asked {
                records.push((Record::Listens, group.address));
            }
            !group.is_left || group.untold > 0
        });
        (self.older_until.is_some(), records)
    }

    /// When something is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let changes = self.groups.iter();
        let changes = changes.filter_map(|group| (group.untold > 0).then_some(group.due));
        let answers = self.groups.iter().filter_map(|group| group.answer);
        let until = self.older_until;
        changes.chain(answers).chain(self.answer).chain(until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    const TWO: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2);

    /// A host in one or two groups that has told of it.
    struct Bench {
        groups: Groups,
        random: Random,
        now: Instant,
    }

    impl Bench {
        fn new(wanted: &[Ipv6Addr]) -> Self {
            let mut bench = Self {
                groups: Groups::default(),
                random: Random::new([1, 2]),
                now: Instant::ZERO,
            };
            bench.follow(1, wanted);
            bench.pass(2000);
            bench
        }

        fn follow(&mut self, version: u32, wanted: &[Ipv6Addr]) {
            self.groups
                .follow(version, wanted.iter().copied(), self.now);
        }

        /// The records of so many milliseconds.
        fn pass(&mut self, millis: u32) -> Vec<(Record, Ipv6Addr)> {
            let mut all = Vec::new();
            for _ in 0..millis {
                all.extend(self.groups.poll(&mut self.random, self.now).1);
                self.now = self.now + Duration::from_millis(1);
            }
            all
        }

        fn ask(&mut self, group: Ipv6Addr, is_v1: bool, millis: u64) {
            let query = Query {
                is_v1,
                max_response: Duration::from_millis(millis),
                group,
            };
            self.groups.asked(&query, &mut self.random, self.now);
        }
    }

    #[test]
    fn changes_are_told_twice() {
        let mut bench = Bench::new(&[]);
        bench.follow(2, &[ONE, ONE]);
        assert_eq!(bench.pass(1), [(Record::Joins, ONE)]);
        assert_eq!(bench.pass(2000), [(Record::Joins, ONE)]);
        assert_eq!(bench.groups.next(), None);
        bench.follow(3, &[TWO]);
        let told = [(Record::Leaves, ONE), (Record::Joins, TWO)];
        assert_eq!(bench.pass(1), told);
        assert_eq!(bench.pass(2000).len(), 2);
        assert_eq!(bench.groups.groups.len(), 1);
        // Joined again before it was left for good.
        bench.follow(4, &[]);
        bench.pass(1);
        bench.follow(5, &[TWO]);
        assert_eq!(bench.pass(2000), [(Record::Joins, TWO); 2]);
    }

    /// RFC 9777, 6.2: an answer that is due sooner serves, too.
    #[test]
    fn queries_are_answered_once_within_their_time() {
        let mut bench = Bench::new(&[ONE, TWO]);
        let none = Ipv6Addr::UNSPECIFIED;
        for _ in 0..100 {
            bench.ask(none, false, 1000);
        }
        assert_eq!(bench.pass(1001).len(), 2);
        bench.ask(TWO, false, 500);
        bench.ask(TWO, false, 500);
        assert_eq!(bench.pass(501), [(Record::Listens, TWO)]);
        bench.ask(none, false, 0);
        bench.ask(TWO, false, 1000);
        assert_eq!(bench.pass(1001).len(), 2);
        // Not in that group.
        bench.ask(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), false, 10);
        assert_eq!(bench.groups.next(), None);
    }

    /// RFC 9777, 8.2.1.
    #[test]
    fn older_querier_is_believed_for_a_while() {
        let mut bench = Bench::new(&[ONE]);
        bench.ask(ONE, true, 0);
        let (is_v1, records) = bench.groups.poll(&mut bench.random, bench.now);
        assert_eq!((is_v1, records.len()), (true, 1));
        bench.now = bench.now + OLDER_QUERIER;
        bench.ask(ONE, false, 0);
        let (is_v1, records) = bench.groups.poll(&mut bench.random, bench.now);
        assert_eq!((is_v1, records.len()), (false, 1));
    }
}

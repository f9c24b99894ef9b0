//! The timing wheel: one timer for each connection, by its index.
//!
//! Hierarchical timing wheels after Varghese and Lauck (1987), scheme 7: five levels of 64 slots and one of four span
//! the whole circle of 2^32 ticks. A timer lies at the level of the highest digit (base 64) in which its time differs
//! from the present, so that everything at one level comes before everything at the next. Its slot's list is emptied
//! when the present enters the slot: at level 0 the timers there expire, higher up they move down. A timer moves at most
//! five times, and a bitmap for each level finds the next slot that is not empty, however far away it is.
//!
//! # Lazy use
//!
//! The data path does not come here. Setting a deadline or clearing it only writes the connection's TCB; the wheel holds
//! one entry for each connection, which must fire no later than the earliest deadline in the TCB. So only a deadline
//! that is earlier than the entry moves it (rare: deadlines mostly move away), and an entry that fires when the TCB's
//! deadline has meanwhile moved away or been cleared is put back at the deadline that stands now, or left out.
//!
//! The wheel must never know what a timer means, read a clock or allocate for a timer within its capacity.

use crate::memory_area::MemoryArea;
use crate::time::Tick;
use alloc::vec::Vec;
use core::hint::cold_path;

/// Bits of the time that one level tells apart.
const DIGIT: u32 = 6;
/// Slots of a level.
const SLOTS: u32 = 1 << DIGIT;
/// The level of the last two bits: four slots of 2^30 ticks.
const TOP: u32 = 5;
/// Its slots, as bits.
const TOP_SLOTS: u64 = 0b1111;
/// The list of timers whose time had come when they were set. It stands behind the slots of the top level, so that all
/// lists are alike.
const DUE: u32 = TOP * SLOTS + 4;
/// The list of timers that have expired and that nobody has taken yet.
const EXPIRED: u32 = DUE + 1;
/// Room for all lists: a power of two, so that a list's number cut to it needs no further check.
const LISTS: usize = (EXPIRED as usize + 1).next_power_of_two();
/// Words with a bit for each.
const WORDS: usize = LISTS / SLOTS as usize;
/// In place of a list: the timer is in none. In place of a timer: there is none.
const NONE: u32 = u32::MAX;
/// An advance by more ticks than this is a clock that was set back (by at most 18 minutes).
const FARTHEST: u32 = u32::MAX - (1 << 20);

/// For each number of leading zeros in the difference between a time and the present, the place of that time: the
/// first list of its level in the upper half, the shift that brings its digit down in the lower.
const PLACES: [u32; 33] = {
    let mut places = [0; 33];
    let mut zeros = 0;
    while zeros < 32 {
        let level = (31 - zeros as u32) / DIGIT;
        places[zeros] = ((level * SLOTS) << 16) | (level * DIGIT);
        zeros += 1;
    }
    places
};

/// A timer, in a doubly linked list or in none.
#[derive(Clone, Copy, Debug)]
struct Node {
    next: u32,
    prev: u32,
    at: Tick,
    list: u32,
}

const _: () = assert!(size_of::<Node>() == 16);

/// Bytes of a timer.
pub(crate) const BYTES_PER_TIMER: usize = size_of::<Node>();

/// The wheel. Timers are named by small indexes, one timer for each.
#[derive(Debug)]
pub(crate) struct Wheel {
    now: Tick,
    nodes: Vec<Node>,
    /// A bit for each list that is not empty.
    occupied: [u64; WORDS],
    /// The first timer of each list.
    heads: [u32; LISTS],
}

impl Wheel {
    /// Makes a wheel that stands at `now` and has room reserved for the timers `0..capacity`. Their memory is touched
    /// as [`Wheel::ensure`] comes to them.
    pub(crate) fn new(capacity: usize, now: Tick) -> Self {
        let nodes = Vec::with_capacity(capacity);
        Self {
            now,
            nodes,
            occupied: [0; WORDS],
            heads: [NONE; LISTS],
        }
    }

    /// Memory of the timers.
    pub(crate) const fn memory(&self) -> MemoryArea {
        MemoryArea::reserved(&self.nodes)
    }

    /// Sees to it that the timers up to `index` exist, unarmed if they are new. Beyond the capacity this allocates.
    #[inline]
    pub(crate) fn ensure(&mut self, index: u32) {
        if index as usize >= self.nodes.len() {
            let unarmed = Node {
                next: NONE,
                prev: NONE,
                at: self.now,
                list: NONE,
            };
            self.nodes.resize(index as usize + 1, unarmed);
        }
    }

    /// Sets timer `index` to expire at `at`, less than 2^31 ticks (26 days) away; moves it when it is armed already. A
    /// time that has come expires at the next [`Wheel::advance`], even if that one is to the same tick.
    #[inline(never)]
    pub(crate) fn insert(&mut self, index: u32, at: Tick) {
        let Some(timer) = self.nodes.get_mut(index as usize) else {
            return self.insert_first(index, at);
        };
        timer.at = at;
        let list = list_for(at, self.now);
        if timer.list != NONE {
            self.unlink(index);
        }
        self.link(index, list);
    }

    /// Takes timer `index` out, also if it has expired and not been taken yet. No effect when it is not armed.
    #[inline]
    pub(crate) fn cancel(&mut self, index: u32) {
        if self.is_armed(index) {
            self.unlink(index);
            self.nodes[index as usize].list = NONE;
        }
    }

    /// Tells whether timer `index` is set and [`Wheel::pop_expired`] has not returned it.
    #[inline]
    pub(crate) fn is_armed(&self, index: u32) -> bool {
        self.nodes
            .get(index as usize)
            .is_some_and(|timer| timer.list != NONE)
    }

    /// The time of timer `index` while it is armed.
    #[cold]
    pub(crate) fn time_of(&self, index: u32) -> Option<Tick> {
        let timer = self.nodes.get(index as usize)?;
        (timer.list != NONE).then_some(timer.at)
    }

    /// Moves the present to `now`: the timers whose time has come wait for [`Wheel::pop_expired`] from then on.
    ///
    /// The cost grows with the timers that expire or move down a level, not with those that stay nor with the distance.
    /// The distance may be almost the whole circle (52 days); a clock that was set back by at most 18 minutes expires
    /// nothing but what was due when it was set.
    #[inline]
    pub(crate) fn advance(&mut self, now: Tick) {
        if now != self.now || self.heads[DUE as usize] != NONE {
            self.go_to(now);
        }
    }

    /// Takes one of the timers that have expired, in no particular order. It is unarmed by that.
    #[inline]
    pub(crate) fn pop_expired(&mut self) -> Option<u32> {
        let index = self.heads[EXPIRED as usize];
        if index == NONE {
            return None;
        }
        self.cancel(index);
        Some(index)
    }

    /// When [`Wheel::advance`] has something to do: the present, when timers are due or expired; else the beginning of
    /// the earliest slot that is not empty. That is the time of the earliest timer if it differs from the present in
    /// its last digit only, and else, at level `n`, at most 64^n - 1 ticks before it: advancing to then moves the timer
    /// down, and the next answer is closer.
    #[inline]
    pub(crate) fn next(&self) -> Option<Tick> {
        if self.occupied[TOP as usize] & !TOP_SLOTS != 0 {
            return Some(self.now);
        }
        self.earliest().map(|(_, start)| start)
    }

    #[cold]
    fn insert_first(&mut self, index: u32, at: Tick) {
        self.ensure(index);
        self.insert(index, at);
    }

    /// [`Wheel::advance`], when there may be something to do.
    #[inline(never)]
    fn go_to(&mut self, now: Tick) {
        if self.heads[DUE as usize] != NONE {
            self.move_all(DUE, |_| EXPIRED);
        }
        if now.0.wrapping_sub(self.now.0) > FARTHEST {
            return;
        }
        while let Some((list, start)) = self.earliest() {
            let distance = now.0.wrapping_sub(self.now.0);
            if start.0.wrapping_sub(self.now.0) > distance {
                break;
            }
            self.enter(list, start, now);
        }
        self.now = now;
    }

    /// Moves the present to `start`, where the slot `list` begins, on the way to `now`.
    #[inline(never)]
    fn enter(&mut self, list: u32, start: Tick, now: Tick) {
        self.now = start;
        self.move_all(list, |at| {
            let has_come = at.0.wrapping_sub(start.0) <= now.0.wrapping_sub(start.0);
            if has_come {
                EXPIRED
            } else {
                list_for(at, start)
            }
        });
    }

    /// The first slot that is not empty, and the tick at which it begins.
    #[inline(always)]
    fn earliest(&self) -> Option<(u32, Tick)> {
        for level in 0..TOP {
            let occupied = self.occupied[level as usize];
            if occupied != 0 {
                let digit = occupied.trailing_zeros();
                let around = self.now.0 & (u32::MAX << ((level + 1) * DIGIT));
                return Some((
                    level * SLOTS + digit,
                    Tick(around | digit << (level * DIGIT)),
                ));
            }
        }
        let occupied = self.occupied[TOP as usize] & TOP_SLOTS;
        if occupied == 0 {
            return None;
        }
        // The top level is a circle: its first slot is the first one behind the present, whose own is empty.
        let present = self.now.0 >> (TOP * DIGIT);
        let twice_round = occupied | occupied << 4;
        let digit = (present + (twice_round >> present).trailing_zeros()) & 3;
        Some((TOP * SLOTS + digit, Tick(digit << (TOP * DIGIT))))
    }

    /// Moves every timer of `from` to the list that `to` names for its time, which must not be `from`.
    fn move_all(&mut self, from: u32, to: impl Fn(Tick) -> u32) {
        let mut index = core::mem::replace(self.head(from), NONE);
        *self.word(from) &= !bit(from);
        while index != NONE {
            let Node { next, at, .. } = self.nodes[index as usize];
            self.link(index, to(at));
            index = next;
        }
    }

    /// Puts a timer that is in no list in front of `list`.
    #[inline(always)]
    fn link(&mut self, index: u32, list: u32) {
        let next = core::mem::replace(self.head(list), index);
        let Some(timer) = self.nodes.get_mut(index as usize) else {
            return;
        };
        timer.next = next;
        timer.prev = NONE;
        timer.list = list;
        // There is no node at NONE.
        match self.nodes.get_mut(next as usize) {
            Some(next) => next.prev = index,
            None => *self.word(list) |= bit(list),
        }
    }

    /// Takes a timer out of its list.
    #[inline(always)]
    fn unlink(&mut self, index: u32) {
        let Some(&Node {
            next, prev, list, ..
        }) = self.nodes.get(index as usize)
        else {
            return;
        };
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.prev = prev;
        }
        match self.nodes.get_mut(prev as usize) {
            Some(prev) => prev.next = next,
            None => {
                *self.head(list) = next;
                if next == NONE {
                    *self.word(list) &= !bit(list);
                }
            }
        }
    }

    /// The first timer of `list`.
    #[inline(always)]
    fn head(&mut self, list: u32) -> &mut u32 {
        &mut self.heads[list as usize % LISTS]
    }

    /// The word of [`Wheel::occupied`] with the bit of `list`.
    #[inline(always)]
    fn word(&mut self, list: u32) -> &mut u64 {
        &mut self.occupied[(list / SLOTS) as usize % WORDS]
    }
}

/// The list that a timer at `at` belongs to while the present is `now`.
#[inline(always)]
fn list_for(at: Tick, now: Tick) -> u32 {
    if at.reached(now) {
        cold_path();
        return DUE;
    }
    let place = PLACES[(at.0 ^ now.0).leading_zeros() as usize];
    (place >> 16) + (at.0 >> (place & 31) & (SLOTS - 1))
}

/// The bit of `list` in its word of [`Wheel::occupied`].
#[inline(always)]
const fn bit(list: u32) -> u64 {
    1 << (list % SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn drain(wheel: &mut Wheel) -> Vec<u32> {
        let mut expired: Vec<u32> = core::iter::from_fn(|| wheel.pop_expired()).collect();
        expired.sort_unstable();
        expired
    }

    #[test]
    fn a_timer_fires_once_at_its_tick() {
        let mut wheel = Wheel::new(4, Tick(10));
        wheel.insert(3, Tick(12));
        assert!(wheel.is_armed(3) && !wheel.is_armed(0) && !wheel.is_armed(9));
        assert_eq!(wheel.next(), Some(Tick(12)));
        wheel.advance(Tick(11));
        assert_eq!(wheel.pop_expired(), None);
        wheel.advance(Tick(12));
        assert!(wheel.is_armed(3));
        assert_eq!(wheel.pop_expired(), Some(3));
        assert!(!wheel.is_armed(3));
        wheel.advance(Tick(5000));
        assert_eq!((wheel.pop_expired(), wheel.next()), (None, None));
    }

    #[test]
    fn a_time_that_has_come_waits_for_the_next_advance_to_any_tick() {
        let mut wheel = Wheel::new(4, Tick(10));
        wheel.insert(0, Tick(10));
        wheel.insert(1, Tick(2));
        assert_eq!(wheel.pop_expired(), None);
        assert_eq!(wheel.next(), Some(Tick(10)));
        wheel.advance(Tick(10));
        wheel.insert(2, Tick(10));
        assert_eq!(drain(&mut wheel), [0, 1]);
        wheel.advance(Tick(10));
        assert_eq!(drain(&mut wheel), [2]);
    }

    #[test]
    fn cancelling_and_moving_reach_a_timer_that_expired_and_was_not_taken() {
        let mut wheel = Wheel::new(2, Tick(0));
        wheel.insert(0, Tick(5));
        wheel.insert(1, Tick(5));
        wheel.advance(Tick(5));
        wheel.cancel(0);
        wheel.insert(1, Tick(7));
        assert_eq!(wheel.pop_expired(), None);
        wheel.cancel(0);
        wheel.advance(Tick(7));
        assert_eq!(drain(&mut wheel), [1]);
    }

    #[test]
    fn memory_is_reserved_at_the_start_and_used_as_timers_come_to_be() {
        let mut wheel = Wheel::new(1000, Tick(0));
        let start = wheel.nodes.as_ptr();
        assert_eq!(wheel.nodes.len(), 0);
        wheel.insert(4, Tick(1));
        assert_eq!(wheel.nodes.len(), 5);
        wheel.ensure(999);
        assert_eq!((wheel.nodes.len(), wheel.nodes.as_ptr()), (1000, start));
        wheel.cancel(2000);
        assert_eq!(wheel.nodes.len(), 1000);
    }

    #[test]
    fn a_clock_that_is_set_back_expires_nothing() {
        let mut wheel = Wheel::new(2, Tick(100));
        wheel.insert(0, Tick(150));
        wheel.advance(Tick(40));
        assert_eq!((wheel.pop_expired(), wheel.next()), (None, Some(Tick(128))));
        wheel.advance(Tick(149));
        assert_eq!(wheel.pop_expired(), None);
        wheel.advance(Tick(150));
        assert_eq!(wheel.pop_expired(), Some(0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32, i64),
        Cancel(u32),
        Advance(u64),
        ToNext,
        Pop(usize),
    }

    /// Distances of every order of magnitude up to `bits` bits.
    fn distance(bits: u32) -> impl Strategy<Value = u64> {
        (0..=bits, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
    }

    fn step() -> impl Strategy<Value = Step> {
        let index = 0u32..24;
        prop_oneof![
            6 => (index.clone(), distance(31)).prop_map(|(index, ahead)| Step::Insert(index, ahead as i64)),
            1 => (index.clone(), distance(20)).prop_map(|(index, ago)| Step::Insert(index, -(ago as i64))),
            2 => index.prop_map(Step::Cancel),
            3 => distance(32).prop_map(|ticks| Step::Advance(ticks.min(u64::from(FARTHEST)))),
            2 => Just(Step::ToNext),
            3 => (0usize..30).prop_map(Step::Pop),
        ]
    }

    /// Expected content of the wheel, in a time that does not wrap.
    struct Model {
        now: u64,
        armed: BTreeMap<u32, u64>,
        expired: Vec<u32>,
    }

    impl Model {
        fn forget(&mut self, index: u32) {
            self.armed.remove(&index);
            self.expired.retain(|&other| other != index);
        }

        fn advance(&mut self, wheel: &mut Wheel, now: u64) {
            self.now = now;
            wheel.advance(Tick(now as u32));
            let come: Vec<u32> = self
                .armed
                .iter()
                .filter(|(_, at)| **at <= now)
                .map(|(index, _)| *index)
                .collect();
            come.iter().for_each(|index| _ = self.armed.remove(index));
            self.expired.extend(come);
        }

        /// Tells whether the wheel's next time is neither late nor earlier than the earliest timer's level makes it.
        fn check_next(&self, wheel: &Wheel) {
            let earliest = self.armed.values().min().copied();
            let next = wheel
                .next()
                .map(|tick| self.now + u64::from(tick.0.wrapping_sub(self.now as u32)));
            match (next, earliest) {
                (Some(next), _) if !self.expired.is_empty() => assert_eq!(next, self.now),
                (Some(next), Some(earliest)) if earliest <= self.now => assert_eq!(next, self.now),
                (Some(next), Some(earliest)) => {
                    let level = ((earliest as u32 ^ self.now as u32).ilog2()) / DIGIT;
                    assert_eq!(next, earliest >> (level * DIGIT) << (level * DIGIT));
                }
                (next, earliest) => assert_eq!((next, earliest), (None, None)),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn every_timer_fires_exactly_once_and_at_the_first_advance_to_its_time(
            start in prop_oneof![Just(u32::MAX - 70), any::<u32>()],
            steps in prop::collection::vec(step(), 1..120),
        ) {
            let mut wheel = Wheel::new(16, Tick(start));
            // One turn up, so that there is a past.
            let mut model = Model { now: u64::from(start) + (1 << 32), armed: BTreeMap::new(), expired: Vec::new() };
            for step in steps {
                match step {
                    Step::Insert(index, ahead) => {
                        let at = model.now.saturating_add_signed(ahead);
                        model.forget(index);
                        model.armed.insert(index, at);
                        wheel.insert(index, Tick(at as u32));
                    }
                    Step::Cancel(index) => {
                        model.forget(index);
                        wheel.cancel(index);
                    }
                    Step::Advance(ticks) => {
                        let to = model.now + ticks;
                        model.advance(&mut wheel, to);
                    }
                    Step::ToNext => {
                        if let Some(next) = wheel.next() {
                            let to = model.now + u64::from(next.0.wrapping_sub(model.now as u32));
                            model.advance(&mut wheel, to);
                        }
                    }
                    Step::Pop(times) => {
                        for _ in 0..times {
                            let popped = wheel.pop_expired();
                            prop_assert_eq!(popped.is_none(), model.expired.is_empty());
                            if let Some(index) = popped {
                                prop_assert!(model.expired.contains(&index));
                                model.forget(index);
                            }
                        }
                    }
                }
                model.check_next(&wheel);
                for index in 0..24 {
                    let armed = model.armed.contains_key(&index) || model.expired.contains(&index);
                    prop_assert_eq!(wheel.is_armed(index), armed);
                }
            }
            let to = model.now + u64::from(FARTHEST);
            model.advance(&mut wheel, to);
            model.expired.sort_unstable();
            prop_assert_eq!(drain(&mut wheel), model.expired);
            prop_assert_eq!(wheel.next(), None);
        }
    }
}

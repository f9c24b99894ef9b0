//! A table of connections whose tokens go stale: a late event never meets the next one in the same slot.

/// Values by token.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Uses of the slot so far, of 31 bits: the token's highest bit is the sockets' own.
    generation: u32,
    value: Option<T>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The token that the next value will have.
    pub(crate) fn next_token(&self) -> u64 {
        match self.free.last() {
            Some(&slot) => token(slot, self.slots[slot as usize].generation),
            None => token(self.slots.len() as u32, 0),
        }
    }

    /// Puts a value under [`Table::next_token`].
    pub(crate) fn insert(&mut self, value: T) {
        match self.free.pop() {
            Some(slot) => self.slots[slot as usize].value = Some(value),
            None => self.slots.push(Slot {
                generation: 0,
                value: Some(value),
            }),
        }
    }

    pub(crate) fn get_mut(&mut self, token: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut(token as u32 as usize)?;
        (u64::from(slot.generation) == token >> 32)
            .then_some(slot.value.as_mut())
            .flatten()
    }

    pub(crate) fn remove(&mut self, token: u64) -> Option<T> {
        self.get_mut(token)?;
        let number = token as u32;
        let slot = &mut self.slots[number as usize];
        slot.generation = (slot.generation + 1) & (u32::MAX >> 1);
        self.free.push(number);
        slot.value.take()
    }

    /// Values that there are.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The tokens of all values.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().enumerate().filter_map(|(number, slot)| {
            slot.value.as_ref()?;
            Some(token(number as u32, slot.generation))
        })
    }
}

const fn token(slot: u32, generation: u32) -> u64 {
    (generation as u64) << 32 | slot as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_stale() {
        let mut table = Table::new();
        let first = table.next_token();
        table.insert('a');
        let second = table.next_token();
        table.insert('b');
        assert_eq!(table.remove(first), Some('a'));
        let third = table.next_token();
        table.insert('c');
        assert_ne!(first, third);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get_mut(second), Some(&mut 'b'));
        assert_eq!(table.get_mut(third), Some(&mut 'c'));
        assert_eq!(table.tokens().collect::<Vec<_>>(), [third, second]);
        assert_eq!(table.len(), 2);
    }
}

//! A table of connections whose tokens go stale: a late event never meets the next one in the same place.

/// Values by token.
#[derive(Debug)]
pub(crate) struct Table<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    /// Uses of the place so far, of 31 bits: the token's highest bit is the sockets' own.
    generation: u32,
    value: Option<T>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The token that the next value will have.
    pub(crate) fn next_token(&self) -> u64 {
        match self.free.last() {
            Some(&place) => token(place, self.places[place as usize].generation),
            None => token(self.places.len() as u32, 0),
        }
    }

    /// Puts a value under [`Table::next_token`].
    pub(crate) fn insert(&mut self, value: T) {
        match self.free.pop() {
            Some(place) => self.places[place as usize].value = Some(value),
            None => self.places.push(Place {
                generation: 0,
                value: Some(value),
            }),
        }
    }

    pub(crate) fn get_mut(&mut self, token: u64) -> Option<&mut T> {
        let place = self.places.get_mut(token as u32 as usize)?;
        (u64::from(place.generation) == token >> 32)
            .then_some(place.value.as_mut())
            .flatten()
    }

    pub(crate) fn remove(&mut self, token: u64) -> Option<T> {
        self.get_mut(token)?;
        let number = token as u32;
        let place = &mut self.places[number as usize];
        place.generation = (place.generation + 1) & (u32::MAX >> 1);
        self.free.push(number);
        place.value.take()
    }

    /// Values that there are.
    pub(crate) const fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The tokens of all values.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u64> + '_ {
        self.places
            .iter()
            .enumerate()
            .filter_map(|(number, place)| {
                place.value.as_ref()?;
                Some(token(number as u32, place.generation))
            })
    }
}

const fn token(place: u32, generation: u32) -> u64 {
    (generation as u64) << 32 | place as u64
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

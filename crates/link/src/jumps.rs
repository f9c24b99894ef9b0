//! Jumps of a program that is being written, by the places that they lead to.

/// Jumps and places, by the numbers of their instructions.
#[derive(Debug)]
pub(crate) struct Jumps<L> {
    jumps: Vec<(usize, L)>,
    places: Vec<(L, usize)>,
}

impl<L> Default for Jumps<L> {
    fn default() -> Self {
        Self {
            jumps: Vec::new(),
            places: Vec::new(),
        }
    }
}

impl<L: PartialEq> Jumps<L> {
    /// Notes that an instruction jumps to a place, which comes later.
    pub(crate) fn jump(&mut self, at: usize, to: L) {
        self.jumps.push((at, to));
    }

    /// Notes that a place is in front of an instruction.
    pub(crate) fn place(&mut self, label: L, at: usize) {
        self.places.push((label, at));
    }

    /// Every jump, with the instructions that it leaves out.
    pub(crate) fn distances(&self) -> impl Iterator<Item = (usize, usize)> {
        self.jumps.iter().map(|(at, label)| {
            let place = self.places.iter().find(|(known, _)| known == label);
            let (_, place) = place.expect("every label is placed");
            (*at, place - at - 1)
        })
    }
}

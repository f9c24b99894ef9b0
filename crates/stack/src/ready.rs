//! Connections, listeners and UDP sockets with events to tell, in the order in which they came to have them: entries of
//! [`Stack::ready`](crate::Stack).
//!
//! An entry names its subject by index, in four bytes. It never says what there is to tell: the subject does, when it is asked.

/// The bits that tell subjects apart; the indices of connections are smaller than both.
const LISTENER: u32 = 1 << 31;
const DATAGRAMS: u32 = 1 << 30;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u32);

/// The subject of an entry, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Connection(usize),
    Listener(u32),
    /// A UDP socket.
    Datagrams(u32),
}

impl Entry {
    #[inline(always)]
    pub(crate) const fn connection(index: usize) -> Self {
        Self(index as u32)
    }

    #[inline(always)]
    pub(crate) const fn listener(index: u32) -> Self {
        Self(index | LISTENER)
    }

    #[inline(always)]
    pub(crate) const fn datagrams(index: u32) -> Self {
        Self(index | DATAGRAMS)
    }

    #[inline(always)]
    pub(crate) const fn subject(self) -> Subject {
        if self.0 < DATAGRAMS {
            Subject::Connection(self.0 as usize)
        } else if self.0 & LISTENER != 0 {
            Subject::Listener(self.0 & !LISTENER)
        } else {
            Subject::Datagrams(self.0 & !DATAGRAMS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_name_their_subjects() {
        // More connections than a configuration allows, and more ports than there are.
        for index in [0, 1, 65_535, 1 << 22] {
            let connection = Entry::connection(index);
            assert_eq!(connection.subject(), Subject::Connection(index));
            let index = index as u32;
            assert_eq!(Entry::listener(index).subject(), Subject::Listener(index));
            assert_eq!(Entry::datagrams(index).subject(), Subject::Datagrams(index));
        }
    }
}

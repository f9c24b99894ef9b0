//! One byte of the TCB for two things that few connections have: an error, and an agreement on checksums.
//!
//! It owns how both lie in the byte. It must never grow: the TCB's lines are full.

use crate::tcp::slow::redundancy::Agreement;

/// The error that a connection ended with, and what it has agreed on about checksums, in four bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Marks(u8);

impl Marks {
    /// No error, and nothing to agree on.
    pub(crate) const NONE: Self = Self(0);

    /// Tells whether there is neither an error nor anything to agree on.
    #[inline(always)]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The error's code, or 0.
    #[inline(always)]
    pub(crate) const fn error(self) -> u8 {
        self.0 & 0x0f
    }

    pub(crate) fn set_error(&mut self, code: u8) {
        self.0 = self.0 & 0xf0 | code & 0x0f;
    }

    #[inline(always)]
    pub(crate) const fn agreement(self) -> Agreement {
        Agreement::from_number(self.0 >> 4)
    }

    pub(crate) fn set_agreement(&mut self, agreement: Agreement) {
        self.0 = self.0 & 0x0f | (agreement as u8) << 4;
    }
}

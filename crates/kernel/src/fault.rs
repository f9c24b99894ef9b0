//! Faults of the kernel's gates, for tests of what is computed from them: plain values that every build has.
//!
//! Owns the words for a fault: which hook, on which side of the gate's own program, and what the program does there. It must
//! never attach anything ([`crate::Gates::inject`] does), and nothing outside tests may ask for one.

use std::time::Duration;

use tollgate_gate::Gate;

/// The longest delay of a fault.
pub const LONGEST_DELAY: Duration = Duration::from_millis(1);

/// A program on a gate's hook that takes time, for the packets and threads that the gate's own program records
/// ([`crate::Gates::watch`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The gate whose hook it is put on.
    pub gate: Gate,
    /// Its order relative to the gate's own program.
    pub side: Side,
    /// The effect on whatever passes.
    pub kind: FaultKind,
}

/// The order of a fault's program relative to the gate's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The fault takes its time before the gate's stamp: in the span that ends with the gate.
    Before,
    /// The fault takes its time behind the gate's stamp: in the span that begins with the gate.
    Behind,
}

impl Side {
    /// Its name in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Behind => "behind",
        }
    }
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The processor is busy for this long, at most [`LONGEST_DELAY`]. The program itself takes about 100 ns, which are part of the
    /// delay; a shorter delay takes these, too, and a delay of 0 is the control.
    Delay(Duration),
    /// The program reads each cache line of 32 KiB of memory.
    Touch32KiB,
}

/// Time and memory that every gate's own program takes beyond what it needs, for what it records; only while the gate is
/// attached, and not while it sleeps. A time that is not 0 comes out some 50 ns longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraCost {
    /// Time before the stamp is taken, at most [`LONGEST_DELAY`].
    pub before: Duration,
    /// Time behind the stamp, at most [`LONGEST_DELAY`].
    pub behind: Duration,
    /// Tells whether each cache line of 32 KiB of memory is read behind the stamp.
    pub touches_32_kib: bool,
}

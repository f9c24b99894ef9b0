//! Errors of the kernel's gates: the step, the reason, and the remedy.

use std::io;

use tollgate_gate::Gate;

/// The failure of a gate, or of all of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This program was built without the feature `bpf`.
    #[error(
        "this build has no BPF programs; build it where clang, libelf and zlib are installed (scripts/setup.sh report)"
    )]
    NotBuilt,
    /// A step of loading failed for all programs.
    #[error("{doing}: {reason}")]
    Load {
        /// Step that failed.
        doing: &'static str,
        /// Message of libbpf or of the kernel.
        reason: String,
    },
    /// A program that was loaded could not be attached.
    #[error("the gate {} could not be attached to {hook}: {reason}", gate.name())]
    Attach {
        /// The gate.
        gate: Gate,
        /// Its hook.
        hook: &'static str,
        /// Message of the kernel.
        reason: String,
    },
    /// A fault cannot be put on this side of a gate.
    #[error("no fault can be put {side} the gate {} at {hook}: {reason}", gate.name())]
    Order {
        /// The gate.
        gate: Gate,
        /// The side, [`crate::fault::Side::name`].
        side: &'static str,
        /// The gate's hook.
        hook: &'static str,
        /// The reason why not.
        reason: &'static str,
    },
    /// The plan has no hook for this gate.
    #[error("this kernel has no hook for the gate {}", .0.name())]
    NoHook(Gate),
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// Step that failed.
        doing: &'static str,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The machine has more processors than the programs have memory for.
    #[error("{found} processors are more than the {most} that the gates' programs have room for")]
    Processors {
        /// Those of the machine.
        found: usize,
        /// Those that there is room for.
        most: usize,
    },
    /// A boundary without which nothing can be observed has no hook.
    #[error("this kernel has no hook {hook}: {reason}")]
    Missing {
        /// The finest hook of the boundary.
        hook: &'static str,
        /// The reason why neither it nor another one can be had.
        reason: String,
    },
    /// A program that was loaded could not be attached.
    #[error("the program of {hook} could not be attached: {reason}")]
    Hook {
        /// Its hook.
        hook: &'static str,
        /// Message of the kernel.
        reason: String,
    },
    /// More was asked for than the programs have room for.
    #[error("{found} {what} are more than the {most} that the programs have room for")]
    TooMany {
        /// Name of the thing of which there is too much.
        what: &'static str,
        /// Number that was asked for.
        found: usize,
        /// Number that is allowed.
        most: usize,
    },
    /// More threads were to be watched than the programs look for.
    #[error("{found} threads are more than the {most} that can be watched")]
    Threads {
        /// Those that were asked for.
        found: usize,
        /// Those that can be.
        most: usize,
    },
}

impl Error {
    #[cfg(feature = "bpf")]
    pub(crate) fn system(doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::System {
            doing,
            source: source.into(),
        }
    }

    /// Error of a step that loads programs, with its reason.
    pub fn load(doing: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::Load {
            doing,
            reason: format!("{reason:#}"),
        }
    }
}

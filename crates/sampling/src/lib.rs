//! Samples of processors: their time by kernel function and call path.
//!
//! A [`Sampler`] interrupts given processors so many times a second (perf_event_open(2)) and keeps what they were doing as call paths
//! in a [`CallPaths`], by name through the [`Symbols`] of this kernel. A [`Categories`] file says to which category a call path
//! belongs: rules go by function, and a function that no rule names belongs to its caller. A [`Classifier`] turns a [`Profile`]
//! into a [`Breakdown`].
//!
//! It never decides what is compared, and never leaves out a sample in silence: what was lost, throttled, idle, of another
//! process, of user mode, or of no category is counted apart.

mod call_paths;
mod categories;
mod classify;
pub mod limit;
mod machine;
mod record;
mod ring;
mod sampler;
mod symbols;

pub use call_paths::{CallPaths, Mode, Profile, SampleCount, TaskKind};
pub use categories::{Categories, CategoriesError, Category};
pub use classify::{Breakdown, Classifier, Share};
pub use machine::{
    Frequencies, FrequencyGuard, MachineError, TrafficMeter, last_level_cache, nominal_hz,
};
pub use sampler::{Clock, RATE, RING, SampleError, Sampler};
pub use symbols::{FunctionId, Symbols, SymbolsError};

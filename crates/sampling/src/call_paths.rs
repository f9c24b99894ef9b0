//! Call paths, each kept once, and profiles that count them.
//!
//! A [`CallPaths`] gives every call path a number; a [`Profile`] holds the weight of each for one piece of a measurement, so that
//! hundreds of profiles cost little. Neither knows what a function is for.

use std::collections::HashMap;

use super::symbols::{FunctionId, Symbols};

/// Functions of the idle task (kernel/sched/idle.c).
const IDLE: [&str; 2] = ["do_idle", "cpu_startup_entry"];

/// On whose behalf a processor ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskKind {
    /// The process that is measured.
    Workload,
    /// The idle task.
    Idle,
    /// Another process, or a thread of the kernel.
    Other,
}

/// In which mode a processor ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// In the kernel.
    Kernel,
    /// In a program.
    User,
}

/// The number of a call path in its [`CallPaths`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PathNumber(pub(super) u32);

/// Key that a sample is counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) path: PathNumber,
    pub(super) task: TaskKind,
    pub(super) mode: Mode,
    pub(super) cpu: u32,
}

/// Samples and their weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleCount {
    /// Number of samples.
    pub samples: u64,
    /// Their weight: ns, or cycles.
    pub weight: u64,
}

impl SampleCount {
    pub(super) fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.weight += other.weight;
    }
}

/// All call paths that were seen, by function.
#[derive(Debug)]
pub struct CallPaths {
    symbols: Symbols,
    numbers: HashMap<Box<[FunctionId]>, PathNumber>,
    paths: Vec<Box<[FunctionId]>>,
    scratch: Vec<FunctionId>,
}

impl CallPaths {
    /// An empty book that names functions by these symbols.
    #[must_use]
    pub fn new(symbols: Symbols) -> Self {
        Self {
            symbols,
            numbers: HashMap::new(),
            paths: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The names.
    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The number of the call path of these addresses, innermost first.
    pub(super) fn enter(&mut self, addresses: &[u64]) -> PathNumber {
        self.scratch.clear();
        let symbols = &self.symbols;
        // What a caller's address names is where it goes on, which may lie just behind the function that called.
        self.scratch
            .extend(addresses.iter().enumerate().map(|(at, &address)| {
                symbols.function(if at == 0 {
                    address
                } else {
                    address.saturating_sub(1)
                })
            }));
        if let Some(&number) = self.numbers.get(self.scratch.as_slice()) {
            return number;
        }
        let number = PathNumber(self.paths.len() as u32);
        let path: Box<[FunctionId]> = self.scratch.as_slice().into();
        self.paths.push(path.clone());
        self.numbers.insert(path, number);
        number
    }

    /// Tells whether the idle task runs on this path, or what has interrupted it.
    pub(super) fn is_idle(&self, number: PathNumber) -> bool {
        let mut functions = self.path(number).iter();
        functions.any(|&function| IDLE.contains(&self.symbols.name(function)))
    }

    /// The functions of a call path, innermost first.
    pub(super) fn path(&self, number: PathNumber) -> &[FunctionId] {
        self.paths
            .get(number.0 as usize)
            .map_or(&[], |path| &path[..])
    }
}

/// Samples of processors during one piece of a measurement.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    pub(super) counts: HashMap<Key, SampleCount>,
    /// Samples for which the ring had no room.
    pub lost: u64,
    /// Number of times that the kernel held the sampling back.
    pub throttled: u64,
    /// Records that were not of the form that they should have.
    pub malformed: u64,
}

impl Profile {
    pub(super) fn add(&mut self, key: Key, weight: u64) {
        self.counts
            .entry(key)
            .or_default()
            .add(SampleCount { samples: 1, weight });
    }

    /// Adds all that `other`, of the same book, holds.
    pub fn merge(&mut self, other: &Self) {
        for (&key, &count) in &other.counts {
            self.counts.entry(key).or_default().add(count);
        }
        self.lost += other.lost;
        self.throttled += other.throttled;
        self.malformed += other.malformed;
    }

    /// The samples of this owner in this mode.
    #[must_use]
    pub fn count(&self, task: TaskKind, mode: Mode) -> SampleCount {
        let mut sum = SampleCount::default();
        for (key, &count) in &self.counts {
            if key.task == task && key.mode == mode {
                sum.add(count);
            }
        }
        sum
    }

    /// All samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.counts.values().map(|count| count.samples).sum()
    }
}

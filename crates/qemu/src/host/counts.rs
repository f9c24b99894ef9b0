//! The result: what was counted, as one JSON file that the experiments read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Error;
use super::profile::InstructionCount;
use crate::protocol::Workload;

/// The version of the file that this build writes and reads.
pub const VERSION: u32 = 1;

/// The name in the field `schema`, by which a file is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Schema {
    /// Counts from QEMU.
    #[serde(rename = "tollgate.qemu-counts")]
    QemuCounts,
}

/// Everything that was counted in one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Always `tollgate.qemu-counts`.
    pub schema: Schema,
    /// Version of the file, see [`VERSION`].
    pub version: u32,
    /// The kernel's package and its version.
    pub package: String,
    /// The first line of what QEMU says of itself.
    pub qemu: String,
    /// Facts that the guest reports of itself: its kernel, its clock, its workarounds for faults of the processor.
    pub facts: BTreeMap<String, String>,
    /// Number of times that everything was counted, with the same result to the last instruction.
    pub repetitions: u32,
    /// Counts of each region.
    pub regions: Vec<RegionCounts>,
}

/// Counts of one task of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionCounts {
    /// Workload of the two ends.
    pub workload: Workload,
    /// Bytes of a message.
    pub size: u64,
    /// Round trips or messages.
    pub times: u64,
    /// The progress of the guest's own clock. It moves by one with each instruction and each repetition of a string instruction,
    /// and jumps over the moments in which the guest has nothing to do.
    pub clock: u64,
    /// The clock without the plugin, which shows that counting disturbs nothing; `None` when it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_alone: Option<u64>,
    /// Everything that was counted.
    pub total: InstructionCount,
    /// By layer, in the order of the rules, user space first.
    pub layers: Vec<LayerCount>,
    /// Counts of the functions that no rule covers, the most first.
    pub others: Vec<UncoveredCount>,
    /// The operations that are counted on their own.
    pub operations: Vec<Operation>,
}

/// Counts of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerCount {
    /// Its id in the rules.
    pub id: String,
    /// Its name for people.
    pub label: String,
    /// The layer of a run that it belongs to: socket, tcp, ip, device, driver, link or scheduler.
    pub layer: String,
    /// Instructions that were executed.
    pub count: InstructionCount,
}

/// Count of a function that no rule covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncoveredCount {
    /// The function.
    pub function: String,
    /// Instructions that were executed.
    pub count: InstructionCount,
}

/// Cost of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Its id, as in `clark-instructions`.
    pub id: String,
    /// Number of times that it took place.
    pub times: u64,
    /// Instructions that were executed in all.
    pub count: InstructionCount,
    /// Description of the counted work, for people.
    pub counted: String,
}

impl Operation {
    /// Instructions of one of them.
    #[must_use]
    pub fn each(&self) -> f64 {
        self.count.instructions as f64 / self.times.max(1) as f64
    }
}

impl RegionCounts {
    /// Instructions for each round trip or message.
    #[must_use]
    pub fn each(&self, count: InstructionCount) -> f64 {
        count.instructions as f64 / self.times.max(1) as f64
    }

    /// Instructions that no rule covers.
    #[must_use]
    pub fn other(&self) -> InstructionCount {
        let mut count = InstructionCount::default();
        for other in &self.others {
            count += other.count;
        }
        count
    }

    /// The share of the kernel's instructions that no rule covers, from 0 to 1.
    #[must_use]
    pub fn share_uncovered(&self) -> f64 {
        let user = self
            .layers
            .first()
            .map_or(0, |layer| layer.count.instructions);
        let kernel = self.total.instructions.saturating_sub(user);
        self.other().instructions as f64 / kernel.max(1) as f64
    }

    /// The difference in instructions between the guest's own clock and the plugin; `None` where the guest had rests, over which
    /// its clock jumps.
    #[must_use]
    pub fn clock_differs_by(&self) -> Option<u64> {
        (self.workload == Workload::RequestResponse)
            .then(|| self.clock.abs_diff(self.total.steps()))
    }
}

impl Counts {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Counts`] when the file is of another kind or version.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(Error::file(path))?;
        let wrong = |what: String| Error::Counts {
            path: path.to_owned(),
            what,
        };
        let counts: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if counts.version != VERSION {
            return Err(wrong(format!(
                "it has version {}, and {VERSION} is read",
                counts.version
            )));
        }
        Ok(counts)
    }

    /// The file's text.
    ///
    /// # Errors
    /// None that can be expected: the counts are numbers and words.
    pub fn to_json(&self) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Tally {
            what: error.to_string(),
        })?;
        Ok(text + "\n")
    }

    /// Notes by how much the guest's clock moved in each region when nothing counted.
    pub fn set_clocks_alone(&mut self, clocks: &[u64]) {
        for (region, clock) in self.regions.iter_mut().zip(clocks) {
            region.clock_alone = Some(*clock);
        }
    }

    /// The operations of all regions.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.regions.iter().flat_map(|region| &region.operations)
    }

    /// The regions of a workload, in the order of their sizes.
    #[must_use]
    pub fn of(&self, workload: Workload) -> Vec<&RegionCounts> {
        let mut regions: Vec<_> = self
            .regions
            .iter()
            .filter(|region| region.workload == workload)
            .collect();
        regions.sort_by_key(|region| region.size);
        regions
    }
}

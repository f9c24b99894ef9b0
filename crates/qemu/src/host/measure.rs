//! Counting: boots the machine twice, makes layers of what was counted, and holds the two runs against each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::Error;
use super::counts::{Counts, RegionCounts, Schema, VERSION};
use super::initrd::{self, Entry};
use super::kernel::Kernel;
use super::layers::Rules;
use super::machine::{self, Machine, Outcome};
use super::profile::{self, Region};
use super::symbols::Symbols;
use crate::protocol::{Message, Task};

/// Number of differences between two runs that are listed.
const DIFFERENCES: usize = 20;

/// Inputs of a count.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The guest's program, linked statically.
    pub guest: &'a Path,
    /// The plugin.
    pub plugin: &'a Path,
    /// Tasks of the guest.
    pub tasks: &'a [Task],
    /// The rules for the layers.
    pub rules: &'a Rules,
    /// The time after which a machine is stopped.
    pub limit: Duration,
}

/// One run of the machine: what was counted, with all ways.
#[derive(Debug, Clone)]
pub struct Counted {
    /// The result.
    pub counts: Counts,
    /// The profiles that it was made from, in the order of the regions.
    pub profiles: Vec<Region>,
}

/// The kernel's account of one of its functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    /// Its name.
    pub function: String,
    /// Number of calls.
    pub calls: u64,
    /// Nanoseconds in it and in all that it called.
    pub ns: u64,
}

/// Two runs that were not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference(pub String);

impl Setup<'_> {
    /// Boots the machine once and counts.
    ///
    /// # Errors
    /// Those of the machine, and when what it left does not fit together.
    pub fn count(&self, stop: &AtomicBool) -> Result<Counted, Error> {
        let qemu = machine::version()?;
        let outcome = self.run(Some(self.plugin), &[], stop)?;
        self.evaluate(&outcome, qemu)
    }

    /// Boots the machine without the plugin and returns by how much its clock moved in each region.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn clocks_alone(&self, stop: &AtomicBool) -> Result<Vec<u64>, Error> {
        let outcome = self.run(None, &[], stop)?;
        let clock = |message: &Message| match message {
            Message::Region(_, clock) => Some(*clock),
            _ => None,
        };
        Ok(outcome.messages.iter().filter_map(clock).collect())
    }

    /// Boots the machine without the plugin and lets the kernel itself time some of its functions while the first task
    /// runs. A nanosecond is an instruction or a repetition, see [`crate::profile::InstructionCount::steps`].
    ///
    /// # Errors
    /// Those of the machine, and when the kernel cannot trace one of the functions.
    pub fn traced(&self, functions: &[&str], stop: &AtomicBool) -> Result<Vec<Traced>, Error> {
        let outcome = self.run(None, functions, stop)?;
        let traced = |message: &Message| match message {
            Message::Traced(function, calls, ns) => Some(Traced {
                function: function.clone(),
                calls: *calls,
                ns: *ns,
            }),
            _ => None,
        };
        Ok(outcome.messages.iter().filter_map(traced).collect())
    }

    fn run(
        &self,
        plugin: Option<&Path>,
        traced: &[&str],
        stop: &AtomicBool,
    ) -> Result<Outcome, Error> {
        let program = fs::read(self.guest).map_err(Error::file(self.guest))?;
        let mut archive =
            tempfile::NamedTempFile::new().map_err(Error::file(&std::env::temp_dir()))?;
        let entries = [
            Entry::Directory { path: "dev" },
            Entry::Directory { path: "proc" },
            Entry::Directory { path: "sys" },
            Entry::Device {
                path: "dev/console",
                major: 5,
                minor: 1,
            },
            Entry::File {
                path: "init",
                content: &program,
            },
        ];
        initrd::write(&mut archive, &entries).map_err(Error::file(&std::env::temp_dir()))?;
        let machine = Machine {
            image: &self.kernel.image,
            initrd: archive.path(),
            plugin,
            tasks: self.tasks,
            traced,
            limit: self.limit,
        };
        machine.run(stop)
    }

    fn evaluate(&self, outcome: &Outcome, qemu: String) -> Result<Counted, Error> {
        let mut facts = BTreeMap::new();
        let mut done = Vec::new();
        let mut functions = Vec::new();
        for message in &outcome.messages {
            match message {
                Message::Fact(name, value) => {
                    facts.insert(name.clone(), value.clone());
                }
                Message::Region(task, clock) => done.push((*task, *clock)),
                Message::Symbol(address, name) => functions.push((*address, name.clone())),
                Message::Traced(..)
                | Message::Line(..)
                | Message::Ended(_)
                | Message::Failed(_)
                | Message::Done => {}
            }
        }
        let profiles = profile::read(&outcome.tally, &Symbols::new(functions))?;
        if done.len() != self.tasks.len() || profiles.len() != done.len() {
            return Err(Error::Tally {
                what: format!(
                    "{} tasks were given, {} carried out, {} counted",
                    self.tasks.len(),
                    done.len(),
                    profiles.len()
                ),
            });
        }
        let regions = done
            .iter()
            .zip(&profiles)
            .map(|((task, clock), profile)| self.region(task, *clock, profile))
            .collect();
        let counts = Counts {
            schema: Schema::QemuCounts,
            version: VERSION,
            package: self.kernel.package.clone(),
            qemu,
            facts,
            repetitions: 1,
            regions,
        };
        Ok(Counted { counts, profiles })
    }

    fn region(&self, task: &Task, clock: u64, profile: &Region) -> RegionCounts {
        let (layers, others) = self.rules.layers(profile);
        RegionCounts {
            workload: task.workload,
            size: task.size as u64,
            times: task.count.into(),
            clock,
            clock_alone: None,
            total: profile.total(),
            layers,
            others,
            operations: self.rules.operations(task.workload, profile),
        }
    }
}

impl Counted {
    /// Holds another run against this one, way by way.
    ///
    /// # Errors
    /// The differences, for people.
    pub fn same_as(&self, other: &Self) -> Result<(), Difference> {
        if self.counts == other.counts && self.profiles == other.profiles {
            return Ok(());
        }
        let mut output_text = String::new();
        let mut left = 0;
        let mut tell = |line: String| {
            left += 1;
            if left <= DIFFERENCES {
                // Writing to a string cannot fail.
                let _ = writeln!(output_text, "{line}");
            }
        };
        let regions = self.counts.regions.iter().zip(&other.counts.regions);
        for ((a, b), (a_profile, b_profile)) in
            regions.zip(self.profiles.iter().zip(&other.profiles))
        {
            let name = format!("{} {}", a.workload, a.size);
            if a.clock != b.clock {
                tell(format!(
                    "{name}: the guest's clock moved by {} and by {}",
                    a.clock, b.clock
                ));
            }
            let (a, b) = (by_way(a_profile), by_way(b_profile));
            let ways: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for way in ways {
                let count = |counts: &BTreeMap<String, u64>| counts.get(way).copied().unwrap_or(0);
                if count(&a) != count(&b) {
                    tell(format!("{name}: {} and {} in {way}", count(&a), count(&b)));
                }
            }
        }
        if self.counts.facts != other.counts.facts {
            tell("the two machines say different things of themselves".to_owned());
        }
        if left > DIFFERENCES {
            let _ = writeln!(output_text, "and {} more", left - DIFFERENCES);
        }
        Err(Difference(output_text))
    }
}

fn by_way(region: &Region) -> BTreeMap<String, u64> {
    let user = ("user space".to_owned(), region.user.steps());
    let places = region.places.iter();
    places
        .map(|place| (place.way.join(" > "), place.count.steps()))
        .chain([user])
        .collect()
}

//! The matrix: every scenario with each value of each mechanism.
//!
//! A value that the line or the applications carry out is obeyed by them: `receive`, `transmit` and `checksum-offload`.
//! Scenarios without such a setting draw what they do, so that one run has both.
//!
//! Values that the simulation cannot exercise:
//!
//! - [`Segmentation`] is left out: a cable between two of our stacks has nothing to cut. `crates/workload/src/stack_link/tests.rs` has it.
//! - `lan-evidence=spanning-tree` by itself makes hosts announce themselves and changes nothing else. The matrix has it
//!   with `checksum=redundancy-avoidance`, too.
//! - `checksum=off` and `checksum=redundancy-avoidance` are for links with a CRC. What the cable would damage is lost.
//! - `mtu-probing=off` gets through no black hole. The cable has none then.
//! - Reads that are posted always leave data of other connections in the queue, where it is read as ever.

use super::scenario::{self, Scenario};
use std::fmt;
use tollgate_stack::config::{
    ChecksumOffload, ChecksumPolicy, LanEvidence, Mechanisms, Receive, Segmentation, Transmit,
};

/// Mechanisms whose value a scenario draws when it is not set.
const DRAWN: [&str; 3] = [Receive::NAME, Transmit::NAME, ChecksumOffload::NAME];

/// The mechanisms of the papers' baseline.
const BASELINE: [&str; 8] = [
    "prediction=unidirectional",
    "demux=list",
    "template=off",
    "checksum-kernel=halfword",
    "retransmit=copy",
    "buffers=mbufs",
    "timers=list",
    "fin=at-once",
];

/// Settings of mechanisms, by name; the others are those of [`Mechanisms::HOST`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(Vec<(&'static str, &'static str)>);

impl Settings {
    /// Settings of the form `name=value`.
    ///
    /// # Errors
    /// The first that is none, and what there is instead.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut settings = Self::default();
        for text in texts {
            let (name, value) = text
                .split_once('=')
                .ok_or(format!("{text} is not of the form name=value"))?;
            let mut mechanisms = Mechanisms::HOST;
            mechanisms
                .set(name, value)
                .map_err(|error| format!("{text}: {error}"))?;
            let known = Mechanisms::SWITCHES
                .iter()
                .find(|switch| switch.name == name);
            let pair = known.and_then(|switch| {
                let value = switch.values.iter().find(|known| **known == value)?;
                Some((switch.name, *value))
            });
            settings.0.extend(pair);
        }
        Ok(settings)
    }

    /// Tells whether a mechanism is set.
    pub fn sets(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.0.iter().copied()
    }

    /// Sets what is set.
    pub fn apply(&self, mechanisms: &mut Mechanisms) {
        for (name, value) in self.iter() {
            mechanisms
                .set(name, value)
                .expect("the name and the value were found among the switches");
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, value)) in self.iter().enumerate() {
            write!(f, "{}{name}={value}", if n == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Each value of each mechanism that the scenarios do not have by themselves, and sets of values that belong together.
pub fn variants() -> Vec<Settings> {
    let own: Vec<_> = Mechanisms::HOST.settings().collect();
    let switches = Mechanisms::SWITCHES.iter();
    let exercised = switches.filter(|switch| switch.name != Segmentation::NAME);
    let each = exercised.flat_map(|switch| {
        let pairs = switch.values.iter().map(|value| (switch.name, *value));
        pairs.filter(|pair| DRAWN.contains(&pair.0) || !own.contains(pair))
    });
    let mut variants: Vec<_> = each.map(|pair| Settings(vec![pair])).collect();
    // Evidence is asked for where checksums are to be left out.
    variants.push(Settings(vec![
        (
            ChecksumPolicy::NAME,
            ChecksumPolicy::RedundancyAvoidance.name(),
        ),
        (LanEvidence::NAME, LanEvidence::SpanningTree.name()),
    ]));
    variants.push(Settings::parse(BASELINE).expect("the baseline has values of our mechanisms"));
    variants
}

/// The scenarios that run with each variant: links, sizes, options and resources.
fn scenarios() -> Vec<Scenario> {
    let families = [
        scenario::links(),
        scenario::sizes(),
        scenario::options(),
        scenario::resources(),
    ];
    families.into_iter().flatten().collect()
}

/// Every scenario with these settings.
pub fn row(settings: &Settings) -> Vec<Scenario> {
    let with = |scenario: Scenario| scenario.with_settings(settings.clone());
    scenarios().into_iter().map(with).collect()
}

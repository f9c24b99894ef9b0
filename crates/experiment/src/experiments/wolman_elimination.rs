//! `wolman-elimination`: round trips with and without the TCP checksum, beside Wolman, Voelker and Thekkath 1994, Table 7.
//!
//! On the kernel's path the devices of a veth pair take the checksum off the protocol: nobody computes it then, as in the paper.
//! Segmentation is off in both states, so that they differ in the checksum only.

use tollgate_papers as papers;
use tollgate_run::{Offload, PathId, Source, Workload, present};
use tollgate_workload::Mechanisms;
use tollgate_workload::config::ChecksumPolicy;

use super::{Content, Experiment, Reported};
use crate::claim::Finding;
use crate::context::{Context, Options, SIZES};
use crate::error::Error;
use crate::outcome::Figure;
use crate::switched::{Plan, Published, SaidAt, Saving, Setting, Words};

const PUBLISHED: Published = Published {
    table: "wolman-1994/table-7",
    times: &[("Checksum", "checksum"), ("No checksum", "no-checksum")],
    saving: "saving",
};

/// Values of the mechanism.
const SETTINGS: [Setting; 2] = [
    Setting {
        words: "checksums always",
        set: |usual| Mechanisms {
            checksum: ChecksumPolicy::Always,
            ..usual
        },
        offload: Some(Offload::Neither),
    },
    Setting {
        words: "checksums off",
        set: |usual| Mechanisms {
            checksum: ChecksumPolicy::Off,
            ..usual
        },
        offload: Some(Offload::Checksum),
    },
];
const ALWAYS: usize = 0;
const OFF: usize = 1;

/// The TCP checksum on and off.
pub(super) struct WolmanElimination;

impl Experiment for WolmanElimination {
    fn name(&self) -> &'static str {
        "wolman-elimination"
    }

    fn title(&self) -> &'static str {
        "Leaving the checksum out"
    }

    fn paper(&self) -> Option<Source> {
        papers::source(PUBLISHED.table)
    }

    fn summary(&self) -> &'static str {
        "round trips with and without the TCP checksum: both stacks of ours, and the kernel's over a veth pair"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        options.wants_any(&[PathId::StackMemory, PathId::StackShm, PathId::KernelVeth])
    }

    fn takes_mechanisms(&self) -> bool {
        true
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let plan = Plan {
            experiment: self.name(),
            workload: Workload::Rr,
            settings: &SETTINGS,
            mtu: None,
        };
        let comparison = plan.run(&sizes, context)?;
        let saving = Saving {
            with: OFF,
            without: ALWAYS,
            figure: Figure::Median,
        };
        let words = Words {
            with: "without checksums",
            savings: "What leaving the checksum out saves of a round trip",
            figure: "Round trip with and without the TCP checksum",
            said: SaidAt::Last,
        };
        let mut content = comparison.content(
            Finding::default(),
            saving,
            &words,
            Some(&PUBLISHED),
            context,
            command,
        );
        content.trust.push(present::note(
            "in Tollgate's stack a checksum is summed while bytes are copied; without it the same copy is made alone. Headers of IP are \
             not summed either",
        ));
        content.trust.push(present::note(
            "on kernel-veth the devices of both ends take checksums over, and since they are memory nobody computes them; that is the \
             same as leaving them out. IP's own checksum is always computed",
        ));
        Ok(content)
    }
}

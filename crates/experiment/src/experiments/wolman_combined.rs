//! `wolman-combined`: round trips with copy and checksum in one pass and in two, beside Wolman, Voelker and Thekkath 1994, Table 6.
//!
//! Two passes are a copy and then the sum of the same loop. The kernel has no such switch.

use tollgate_papers as papers;
use tollgate_run::{Source, Workload, present};
use tollgate_workload::config::ChecksumKernel;
use tollgate_workload::{LinkKind, Mechanisms};

use super::{Content, Experiment, Reported, Uses};
use crate::claim::Finding;
use crate::context::{Context, Options, SIZES};
use crate::error::Error;
use crate::outcome::Figure;
use crate::switched::{self, Captions, Plan, Published, SaidAt, Saving, Setting};

const PUBLISHED: Published = Published {
    table: "wolman-1994/table-6",
    times: &[
        ("Standard checksum", "standard"),
        ("Combined copy and checksum", "combined"),
    ],
    saving: "saving",
};

/// Values of the mechanism.
const SETTINGS: [Setting; 3] = [
    Setting {
        label: "one pass",
        set: |usual| with(usual, ChecksumKernel::Integrated),
        offload: None,
    },
    Setting {
        label: "two passes",
        set: |usual| with(usual, ChecksumKernel::Separate),
        offload: None,
    },
    Setting {
        label: "two passes, halfword",
        set: |usual| with(usual, ChecksumKernel::Halfword),
        offload: None,
    },
];
const INTEGRATED: usize = 0;
const SEPARATE: usize = 1;
const HALFWORD: usize = 2;

const fn with(usual: Mechanisms, checksum_kernel: ChecksumKernel) -> Mechanisms {
    Mechanisms {
        checksum_kernel,
        ..usual
    }
}

/// Copy and checksum in one pass and in two.
pub(super) struct WolmanCombined;

impl Experiment for WolmanCombined {
    fn name(&self) -> &'static str {
        "wolman-combined"
    }

    fn title(&self) -> &'static str {
        "Copy and checksum in one pass, on round trips"
    }

    fn paper(&self) -> Option<Source> {
        papers::source(PUBLISHED.table)
    }

    fn summary(&self) -> &'static str {
        "round trips with copy and checksum in one pass, in two, and with ULTRIX's halfword loop"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        options.wants_any(&switched::STACKS)
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet {
            but: &[ChecksumKernel::NAME],
        }
    }

    fn takes_link(&self) -> bool {
        true
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let plan = Plan {
            experiment: self.name(),
            workload: Workload::Rr,
            datagrams: false,
            settings: &SETTINGS,
            paths: &switched::STACKS,
            mtu: switched::network_mtu(&context.options, LinkKind::Fddi.mtu()),
        };
        let comparison = plan.run(&sizes, context)?;
        let saving = |without| Saving {
            with: INTEGRATED,
            without,
            figure: Figure::Median,
        };
        let words = Captions {
            with: "with copy and checksum in one pass",
            savings: "What one pass saves of a round trip with two",
            figure: "Round trip with copy and checksum in one pass and in two",
            said: SaidAt::Last,
        };
        let mut content = comparison.content(
            Finding::default(),
            saving(SEPARATE),
            &words,
            Some(&PUBLISHED),
            context,
            command,
        );
        let halfword = comparison.savings(
            "savings-halfword",
            "What one pass saves of a round trip with a copy and ULTRIX's halfword sum",
            saving(HALFWORD),
            Some(&PUBLISHED),
        );
        content.tables.insert(1, halfword);
        content.trust.push(present::note(
            "two passes are a copy and then the fastest sum of this processor; the paper's standard checksum is ULTRIX's halfword loop, \
             which the second table has",
        ));
        content.trust.push(present::note(
            "the kernel has no switch between one pass and two, so no kernel path is compared",
        ));
        content.trust.push(present::note(
            "packets have up to 4,352 bytes, so that 8,000 bytes are two of them, as in the paper; a link that is asked for has its own",
        ));
        Ok(content)
    }
}

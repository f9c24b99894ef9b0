//! `wolman-elimination`: round trips with and without the TCP checksum, beside Wolman, Voelker and Thekkath 1994, Table 7.
//!
//! On the kernel's path the devices of a veth pair take the checksum off the protocol: nobody computes it then, as in the paper.
//! Segmentation is off in both states, so that they differ in the checksum only. The stacks have redundancy avoidance besides
//! (Kay and Pasquale 1996, VI), which negotiates what the switch takes for granted; the kernel has no such mechanism.

use tollgate_papers as papers;
use tollgate_run::{Offload, Source, Workload, format, present};
use tollgate_workload::config::ChecksumPolicy;
use tollgate_workload::{LinkKind, Mechanisms};

use super::{Content, Experiment, Reported, Uses};
use crate::claim::Finding;
use crate::context::{Context, Options, SIZES};
use crate::error::Error;
use crate::outcome::Figure;
use crate::switched::{self, Captions, Plan, Published, SaidAt, Saving, Setting};

const PUBLISHED: Published = Published {
    table: "wolman-1994/table-7",
    times: &[("Checksum", "checksum"), ("No checksum", "no-checksum")],
    saving: "saving",
};

/// Values of the mechanism.
const SETTINGS: [Setting; 3] = [
    Setting {
        label: "checksums always",
        set: |usual| with(usual, ChecksumPolicy::Always),
        offload: Some(Offload::Neither),
    },
    Setting {
        label: "checksums off",
        set: |usual| with(usual, ChecksumPolicy::Off),
        offload: Some(Offload::Checksum),
    },
    Setting {
        label: "redundancy avoidance",
        set: |usual| with(usual, ChecksumPolicy::RedundancyAvoidance),
        offload: None,
    },
];
const ALWAYS: usize = 0;
const OFF: usize = 1;
const AVOIDANCE: usize = 2;

const fn with(usual: Mechanisms, checksum: ChecksumPolicy) -> Mechanisms {
    Mechanisms { checksum, ..usual }
}

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
        "round trips with the TCP checksum, without, and with redundancy avoidance: our stacks; the kernel over veth"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        options.wants_any(&switched::STACKS_AND_KERNEL)
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet {
            but: &[ChecksumPolicy::NAME],
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
        let saving = |with| Saving {
            with,
            without: ALWAYS,
            figure: Figure::Median,
        };
        let words = Captions {
            with: "without checksums",
            savings: "What leaving the checksum out saves of a round trip",
            figure: "Round trip with and without the TCP checksum",
            said: SaidAt::Last,
        };
        let mut finding = Finding::default();
        if let Some((at, &size)) = sizes.iter().enumerate().next_back() {
            let clause = format!(
                "with redundancy avoidance a round trip of {} takes",
                format::bytes(size)
            );
            comparison.say(at, saving(AVOIDANCE), &clause, None, &mut finding);
        }
        let mut content = comparison.content(
            finding,
            saving(OFF),
            &words,
            Some(&PUBLISHED),
            context,
            command,
        );
        let avoidance = comparison.savings(
            "savings-avoidance",
            "What redundancy avoidance saves of a round trip",
            saving(AVOIDANCE),
            None,
        );
        content.tables.insert(1, avoidance);
        content.trust.push(present::note(
            "with redundancy avoidance both ends agree to leave checksums out when they connect; segments that come before are summed",
        ));
        content.trust.push(present::note(
            "in Tollgate's stack a checksum is summed while bytes are copied; without it the same copy is made alone. Headers of IP are \
             not summed either",
        ));
        content.trust.push(present::note(
            "on kernel-veth the devices of both ends take checksums over, and since they are memory nobody computes them; that is the \
             same as leaving them out. IP's own checksum is always computed",
        ));
        content.trust.push(present::note(
            "packets have up to 4,352 bytes, so that 8,000 bytes are two of them, as in the paper; a link that is asked for has its own",
        ));
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::PathId;

    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn redundancy_avoidance_stands_beside_checksums_that_are_off() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            sizes: Some(vec![4, 8_000]),
            iterations: Some(64),
            // Six sessions have an interval that one slow session does not make a hundred times as wide.
            repetitions: Some(6),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let content = WolmanElimination.measure(&mut context, "command").unwrap();
        let [off, avoidance, round_trips, published] = &content.tables[..] else {
            panic!("four tables");
        };
        // The paper has no redundancy avoidance.
        assert_eq!(off.rows[1].cells[0].number(), Some(41.0));
        assert_eq!(avoidance.columns.len(), 1);
        let ours = avoidance.rows.iter().map(|row| &row.cells[0]);
        assert!(ours.into_iter().all(|cell| cell.measured().is_some()));
        assert_eq!(round_trips.rows.len(), SETTINGS.len());
        let labels = round_trips.rows.iter().map(|row| &row.label);
        assert!(labels.into_iter().all(|label| label.contains("MTU 4352")));
        assert_eq!(published.rows[1].cells[1].number(), Some(6_233_000.0));
        let finding = &content.finding;
        assert!(finding.contains("8,000 bytes"), "{finding}");
    }
}

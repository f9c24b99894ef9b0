//! Trust in a profile: its invented, measured and extrapolated parts, and the errors that its intervals include.

use tollgate_run::{PathId, Run, TrustLine, format, present::note, present::warning};
use tollgate_trace::rows::Protocol;
use tollgate_trace::traffic::Messages;

use super::costs::touches_data;
use super::estimate::{Load, Per};
use super::savings::FULL;
use super::show::is;
use super::{OF_KERNEL, OF_STACK, Profile};

impl Profile<'_> {
    pub(super) fn trust(&self, run: &Run) -> Vec<TrustLine> {
        let mut lines = Vec::new();
        if let Some(remark) = self.trace.remark {
            lines.push(warning(format!("{} is {remark}", self.trace.name)));
        }
        lines.extend(self.sizes_stated());
        lines.push(note(match self.trace.messages {
            Messages::Segments => {
                "a message of TCP is the payload of a segment, as in the paper's traces, which are of packets; --messages writes takes what \
                 applications wrote"
            }
            Messages::Writes => {
                "a message of TCP is what an application wrote, as far as segments show it; --messages segments takes segments, as the \
                 paper's traces do"
            }
        }));
        lines.extend(self.uncertainty());
        lines.push(note(format!(
            "with twice the MTU, each two segments of {} to {} bytes become one: what is saved is all that the second one costs but its bytes, \
             its system call too, so it is a bound",
            format::whole(*FULL.start() as u64),
            format::whole(*FULL.end() as u64),
        )));
        lines.push(note(
            "a saving takes away its part of the time and changes nothing else; where two are made, the second finds less",
        ));
        let (how, measured_by) = match self.measured.path {
            PathId::StackMemory => (
                "spans are given whole to the foremost of their categories, so a span that copies counts as touching data with all that it \
                 does; messages larger than a segment were measured as one larger segment",
                OF_STACK,
            ),
            PathId::KernelLoopback => (
                "over loopback, messages of up to 64 KiB are not cut into packets and no checksum is computed: these costs hold one packet for \
                 each message and next to no checksum",
                OF_KERNEL,
            ),
            _ => (
                "as a device with offloads would, the path leaves checksums and the cutting of TCP's segments to the link, where nobody \
                 does them: next to none of it is in these costs",
                OF_KERNEL,
            ),
        };
        lines.push(note(how));
        // Both experiments have the same doubts where they were measured together.
        let doubts = run
            .experiments
            .iter()
            .filter(|one| one.name == measured_by[0]);
        for experiment in doubts {
            for line in experiment.trust.iter().filter(|line| !line.holds) {
                lines.push(warning(format!("{}: {}", experiment.name, line.text)));
            }
        }
        lines
    }

    /// Reports the measured sizes, and what lies beyond.
    fn sizes_stated(&self) -> Vec<TrustLine> {
        let mut lines = Vec::new();
        for (what, all) in [
            ("costs", &self.measured.categories),
            ("parts of categories", &self.measured.parts),
        ] {
            if let Some((_, costs)) = all.first() {
                lines.push(note(format!(
                    "{what} were measured at {} from {} to {}; between two they lie on the line between",
                    format::counted(costs.sizes.len() as u64, "size", "sizes"),
                    format::size(costs.sizes[0] as usize),
                    format::size(costs.largest() as usize),
                )));
            }
        }
        let both = [Protocol::Tcp, Protocol::Udp];
        let beyond = self.beyond(&both, false);
        if beyond > 0.0 {
            lines.push(warning(format!(
                "{} % of the messages, with {} % of the user data, are larger than any that was measured; their costs go on as between the \
                 last two sizes",
                format::significant(100.0 * beyond),
                format::significant(100.0 * self.beyond(&both, true)),
            )));
        }
        lines
    }

    /// Reports how much the share that touches data depends on the invented part of a rebuilt trace.
    fn made_up(&self) -> Option<TrustLine> {
        let (least, most) = self.trace.bounds?;
        let share = |traffic| {
            let all: Vec<_> = self
                .measured
                .categories
                .iter()
                .map(|(protocol, costs)| (*protocol, costs))
                .collect();
            let names = self.categories();
            let touching: Vec<f64> = names.iter().map(|name| is(touches_data(name))).collect();
            let share =
                Load::of(traffic, &all).ratio(&touching, Per::Parts(&vec![1.0; names.len()]))?;
            Some(100.0 * share.value)
        };
        let ends = [share(least)?, share(most)?];
        Some(note(format!(
            "sizes between the published points are made up: with all of them as small, or as large, as was published, what touches data takes \
             {} % to {} %",
            format::significant(ends[0].min(ends[1])),
            format::significant(ends[0].max(ends[1])),
        )))
    }

    fn uncertainty(&self) -> Vec<TrustLine> {
        let mut lines = Vec::new();
        let stretches = self.trace.traffic.stretches().len();
        let of_trace = if stretches < 2 {
            "its messages as drawn one by one".to_owned()
        } else {
            format!("its {stretches} stretches of time as drawn one by one")
        };
        let of_run = if self.measured.has_errors() {
            "the errors of the measured costs"
        } else {
            "nothing of the measured costs, for which the run has no intervals"
        };
        let mut views = self.views.iter().rev();
        let share = views.find_map(|view| self.touching(view).ok());
        let part = share.map_or(String::new(), |share| {
            format!(
                "; {:.0} % of the variance of the share that touches data comes from the trace",
                100.0 * share.from_trace
            )
        });
        lines.push(note(format!(
            "intervals of 95 % hold {of_run}, and the trace with {of_trace}{part}"
        )));
        lines.extend(self.made_up());
        if !self.measured.has_errors() {
            lines.push(warning(
                "the run gives no intervals for these costs, so these hold the trace's part alone",
            ));
        }
        lines
    }
}

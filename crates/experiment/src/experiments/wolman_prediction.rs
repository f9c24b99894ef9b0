//! `wolman-prediction`: round trips with header prediction, with that of 4.4BSD and without any, beside Wolman, Voelker and Thekkath
//! 1994, Table 4; and which share of the segments each of the two predicts, by reason of the misses.
//!
//! Packets are cut as theirs were: a message up to 4,000 bytes is one packet, one of 8,000 is two. That is FDDI's MTU (Kay and
//! Pasquale 1996, section V). Linux has no switch for header prediction, so the kernel takes no part.

use tollgate_papers as papers;
use tollgate_run::{
    Cell, Column, Mode, PathId, Placement, Source, Table, Unit, Waiting, Workload, format, present,
};
use tollgate_workload::config::Prediction;
use tollgate_workload::counters::Miss;
use tollgate_workload::{InputCounts, Mechanisms, Spec, find, find_with_mtu};

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Evidence, Finding};
use crate::context::{Context, Options, SIZES};
use crate::error::Error;
use crate::outcome::Figure;
use crate::prediction;
use crate::switched::{self, Captions, Plan, Published, SaidAt, Saving, Setting};

const PUBLISHED: Published = Published {
    table: "wolman-1994/table-4",
    times: &[
        ("No prediction", "no-prediction"),
        ("Prediction", "prediction"),
    ],
    saving: "decrease",
};

/// Values of the mechanism.
const SETTINGS: [Setting; 3] = [
    Setting {
        label: "prediction bidirectional",
        set: |usual| with(usual, Prediction::Bidirectional),
        offload: None,
    },
    Setting {
        label: "prediction unidirectional",
        set: |usual| with(usual, Prediction::Unidirectional),
        offload: None,
    },
    Setting {
        label: "prediction off",
        set: |usual| with(usual, Prediction::Off),
        offload: None,
    },
];
const BIDIRECTIONAL: usize = 0;
const UNIDIRECTIONAL: usize = 1;
const OFF: usize = 2;

const fn with(usual: Mechanisms, prediction: Prediction) -> Mechanisms {
    Mechanisms {
        prediction,
        ..usual
    }
}

/// Iterations of a workload whose segments are counted.
const COUNTED: u64 = 2_000;
/// Both ends of a counted session.
const POLLED: Mode = Mode {
    placement: Placement::OneCore,
    waiting: Waiting::BusyPoll,
};

/// Header prediction on and off.
pub(super) struct WolmanPrediction;

impl Experiment for WolmanPrediction {
    fn name(&self) -> &'static str {
        "wolman-prediction"
    }

    fn title(&self) -> &'static str {
        "Header prediction"
    }

    fn paper(&self) -> Option<Source> {
        papers::source(PUBLISHED.table)
    }

    fn summary(&self) -> &'static str {
        "round trips with header prediction, with that of 4.4BSD and without; segments predicted, misses by reason"
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
            but: &[Prediction::NAME],
        }
    }

    fn takes_link(&self) -> bool {
        true
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let mtu = papers::fact("kay-pasquale-1996/fddi-mtu").map(|fact| fact.value as usize);
        let counts = Counts::of(&context.options, &sizes, mtu);
        let plan = Plan {
            experiment: self.name(),
            workload: Workload::Rr,
            datagrams: false,
            settings: &SETTINGS,
            paths: &switched::STACKS,
            mtu: switched::network_mtu(&context.options, mtu),
        };
        let comparison = plan.run(&sizes, context)?;
        let saving = |with| Saving {
            with,
            without: OFF,
            figure: Figure::Median,
        };
        let words = Captions {
            with: "with prediction",
            savings: "What prediction saves of a round trip",
            figure: "Round trip with and without header prediction",
            said: SaidAt::First,
        };
        let mut finding = Finding::default();
        counts.say(&mut finding);
        let mut content = comparison.content(
            finding,
            saving(BIDIRECTIONAL),
            &words,
            Some(&PUBLISHED),
            context,
            command,
        );
        let unidirectional = comparison.savings(
            "savings-unidirectional",
            "What the prediction of 4.4BSD saves of a round trip",
            saving(UNIDIRECTIONAL),
            Some(&PUBLISHED),
        );
        let counted = [counts.by_size(), counts.by_reason(), unidirectional];
        content.tables.splice(1..1, counted);
        content.trust.push(present::note(format!(
            "segments are counted in sessions of {} iterations that nobody times, over stack-memory, both ends; nothing is lost there",
            format::whole(COUNTED)
        )));
        content.trust.push(present::note(
            "the paper's times without prediction are also without its one-entry PCB cache; the stack's cache stays on, see \
             wolman-pcb",
        ));
        content.trust.push(present::note(
            "of messages of two packets each end acknowledges the second at once, in a segment of its own; so data carry no new \
             acknowledgment, and the rule of 4.4BSD hits where the paper's hit half the time",
        ));
        content.trust.push(present::note(
            "Linux has no switch for header prediction, so no kernel path is compared",
        ));
        Ok(content)
    }
}

/// Segments of a counted session, or why there are none.
type Counted = Result<InputCounts, String>;

/// Counts over `stack-memory`.
struct Counts {
    sizes: Vec<usize>,
    /// Of each column of the table by size, those of each size.
    by_size: Vec<(&'static str, Vec<Counted>)>,
    /// Of each column of the table by reason.
    by_workload: Vec<(String, Counted)>,
}

impl Counts {
    fn of(options: &Options, sizes: &[usize], mtu: Option<usize>) -> Self {
        let count = |workload, size, setting: usize, mtu: Option<usize>| -> Counted {
            let spec = Spec::new(workload, size)
                .with_mode(POLLED.placement, POLLED.waiting)
                .with_nagle(options.nagle())
                .with_mechanisms((SETTINGS[setting].set)(options.mechanisms));
            let path = PathId::StackMemory;
            let counted = match mtu.and_then(|mtu| find_with_mtu(path, mtu)) {
                Some(path) => prediction::count(path.as_ref(), &spec, COUNTED),
                None => match find(path) {
                    Some(path) => prediction::count(path, &spec, COUNTED),
                    None => return Err(format!("this build has no {path}")),
                },
            };
            counted.map_err(|error| error.to_string())
        };
        let column = |setting, mtu| {
            let sizes = sizes.iter();
            sizes
                .map(|&size| count(Workload::Rr, size, setting, mtu))
                .collect()
        };
        let by_size = vec![
            (THEIRS, column(UNIDIRECTIONAL, mtu)),
            ("bidirectional", column(BIDIRECTIONAL, mtu)),
            ("unidirectional, MTU 1,500", column(UNIDIRECTIONAL, None)),
            ("bidirectional, MTU 1,500", column(BIDIRECTIONAL, None)),
        ];
        let ends = [sizes.first(), sizes.first(), sizes.last()];
        let by_workload = [BIDIRECTIONAL, UNIDIRECTIONAL]
            .into_iter()
            .flat_map(|setting| {
                let workloads = Workload::ALL.iter().zip(ends);
                workloads.filter_map(move |(&workload, size)| {
                    let size = *size?;
                    let words = SETTINGS[setting].label.trim_start_matches("prediction ");
                    let name = format!("{workload}, {}, {words}", format::size(size));
                    Some((name, count(workload, size, setting, None)))
                })
            });
        Self {
            by_workload: by_workload.collect(),
            sizes: sizes.to_vec(),
            by_size,
        }
    }

    /// Shares of predicted segments in round trips, beside those of 4.4BSD.
    fn by_size(&self) -> Table {
        let names = std::iter::once("1994").chain(self.by_size.iter().map(|(name, _)| *name));
        let rows = self.sizes.iter().enumerate().map(|(at, &size)| {
            let ours = self.by_size.iter().map(|(_, sizes)| share(&sizes[at]));
            let cells = std::iter::once(published(size)).chain(ours);
            present::plain_row(format::size(size), cells.collect())
        });
        Table {
            id: "predicted".to_owned(),
            title: "Segments of round trips that are predicted".to_owned(),
            columns: names.map(percent).collect(),
            rows: rows.collect(),
        }
    }

    /// Table of the segments of each workload, by the reason of their path.
    fn by_reason(&self) -> Table {
        let columns = self.by_workload.iter().map(|(name, _)| percent(name));
        let row = |label: &str, part: &dyn Fn(&InputCounts) -> u64| {
            let cells = self.by_workload.iter().map(|(_, counted)| match counted {
                Ok(hits) => prediction::share(hits, part(hits)),
                Err(reason) => Cell::NotAvailable {
                    reason: reason.clone(),
                },
            });
            present::plain_row(label, cells.collect())
        };
        let happens = |miss: &Miss| {
            let counted = self
                .by_workload
                .iter()
                .filter_map(|(_, one)| one.as_ref().ok());
            counted.map(|hits| hits.misses(*miss)).sum::<u64>() > 0
        };
        let mut rows = vec![
            row("Predicted, transfer", &|hits| hits.predicted()),
            row("Predicted, opening or closing", &|hits| {
                hits.predicted_handshakes()
            }),
        ];
        rows.extend(Miss::ALL.iter().filter(|miss| happens(miss)).map(|&miss| {
            let label = format!("Missed: {}", miss.name());
            row(&label, &|hits| hits.misses(miss))
        }));
        rows.push(row("Connection found in the cache", &|hits| {
            hits.cache_hits()
        }));
        Table {
            id: "reasons".to_owned(),
            title: "Segments by what prediction made of them".to_owned(),
            columns: columns.collect(),
            rows,
        }
    }

    /// Says the shares of each kind of prediction over the sizes.
    fn say(&self, finding: &mut Finding) {
        let of = |at: usize| -> Option<Vec<(u64, u64)>> {
            let sizes: Result<Vec<&InputCounts>, _> =
                self.by_size[at].1.iter().map(Result::as_ref).collect();
            let all = sizes.ok()?.into_iter();
            let mut shares: Vec<_> = all
                .map(|hits| (hits.predicted(), hits.segments()))
                .collect();
            shares.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
            Some(shares)
        };
        let mut claim = |share: Option<&(u64, u64)>| {
            let &(part, whole) = share?;
            finding.claim(
                "the share of predicted segments",
                Evidence::counted(part, whole).share(),
            )
        };
        let [ours, theirs] = [1, 0].map(|at| of(at).unwrap_or_default());
        let claims = [ours.first(), theirs.first(), theirs.last()].map(&mut claim);
        if let [Some(ours), Some(least), Some(most)] = claims {
            let least = hundredths(least.value());
            let most = hundredths(most.value());
            let theirs = match least == most {
                true => least,
                false => format!("{least} to {most}, by the size"),
            };
            finding.say(format!(
                "prediction in both directions hits at least {} of a round trip's segments at every size, that of 4.4BSD {theirs}",
                hundredths(ours.value()),
            ));
        }
    }
}

/// The column that repeats the paper's.
const THEIRS: &str = "unidirectional";

fn percent(name: impl Into<String>) -> Column {
    Column {
        name: name.into(),
        unit: Unit::Percent,
    }
}

fn hundredths(share: f64) -> String {
    match share.fract() == 0.0 {
        true => format!("{share:.0} %"),
        false => format!("{share:.1} %"),
    }
}

/// The share of predicted segments.
fn share(counted: &Counted) -> Cell {
    match counted {
        Ok(hits) => prediction::share(hits, hits.predicted()),
        Err(reason) => Cell::NotAvailable {
            reason: reason.clone(),
        },
    }
}

/// The size from which the paper's fast path was taken at all, in bytes.
const TWO_PACKETS: usize = 8_000;

/// The paper's rate of its fast path at a size; a dash for sizes that it does not have.
fn published(size: usize) -> Cell {
    let known = SIZES.contains(&size);
    let id = match size {
        TWO_PACKETS => "wolman-1994/prediction-hits-8000",
        _ => "wolman-1994/prediction-hits-below-8000",
    };
    let fact = papers::fact(id).filter(|_| known);
    let place = papers::paper("wolman-1994").zip(papers::fact(id));
    match place {
        Some((paper, at)) => {
            let source = papers::source_at(paper, &format!("section {}", at.place));
            present::published_cell(fact.map(|fact| fact.value), &source)
        }
        None => Cell::text("-"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        Counts::of(&Options::default(), &SIZES, Some(4_352))
    }

    #[test]
    fn round_trips_are_predicted_at_every_size_and_bsd_misses_them() {
        let counts = counts();
        let shares = |at: usize| -> Vec<f64> {
            let cells = counts.by_size[at].1.iter().map(share);
            cells.map(|cell| cell.number().unwrap()).collect()
        };
        // The bar: at least 99 % at every size, without loss, and 0 % below 8,000 bytes by the rule of 4.4BSD.
        for at in [1, 3] {
            assert!(
                shares(at).iter().all(|&share| share >= 99.0),
                "{:?}",
                shares(at)
            );
        }
        let table = counts.by_size();
        for (row, share) in table.rows.iter().zip(shares(0)) {
            let published = row.cells[0].number().unwrap();
            match published {
                0.0 => assert!(share < 1.0, "{}: {share}", row.label),
                // Each end acknowledges the second packet at once, so no data carry a new acknowledgment.
                _ => assert!(share >= 99.0, "{}: {share}", row.label),
            }
        }
        let at_last = counts.by_size[0].1.last().unwrap().as_ref().unwrap();
        assert!(at_last.segments() >= 6 * COUNTED, "{at_last:?}");
        let lost = counts.by_size.iter().flat_map(|(_, sizes)| sizes);
        assert!(lost.flatten().all(|hits| hits.retransmits() == 0));
    }

    #[test]
    fn finding_says_between_which_shares_bsd_hits() {
        let mut finding = Finding::default();
        counts().say(&mut finding);
        let said = finding.finish();
        assert!(said.contains("that of 4.4BSD 0 % to "), "{said}");
        assert!(said.ends_with(", by the size."), "{said}");
    }

    #[test]
    fn shares_by_reason_sum_to_all_segments() {
        let table = counts().by_reason();
        assert_eq!(table.columns.len(), 6);
        for at in 0..table.columns.len() {
            let shares = table.rows.iter().rev().skip(1);
            let sum: f64 = shares.filter_map(|row| row.cells[at].number()).sum();
            assert!((sum - 100.0).abs() < 1e-9, "{}", table.columns[at].name);
        }
    }

    #[test]
    fn sizes_that_the_paper_does_not_have_have_no_published_share() {
        assert_eq!(published(4).number(), Some(0.0));
        assert_eq!(published(8_000).number(), Some(50.0));
        assert_eq!(published(9_000).number(), None);
    }
}

//! The experiments, one file each, and the list of them.
//!
//! To add one, copy its neighbour and name it in [`all`].

mod ablation;
mod clark_direct;
mod clark_instructions;
mod clark_tcb_cache;
mod congestion;
mod coverage;
mod crr;
mod foong_csumcopy;
mod foong_direction;
mod foong_hz;
mod foong_memory;
mod foong_offload;
mod foong_prepost;
mod foong_profile;
mod foong_segmentation;
mod foong_sendfile;
mod goodput;
mod kay_breakdown;
mod kay_detail;
mod kay_modes;
mod kay_pcb;
mod kay_stack;
mod kay_throughput;
mod lehmann;
mod links;
mod links_ledger;
mod many_streams;
mod remote_tables;
mod rr_by_size;
mod stream_by_write_size;
mod uses;
mod wolman;
mod wolman_checksum;
mod wolman_combined;
mod wolman_elimination;
mod wolman_errors;
mod wolman_ledger;
mod wolman_mbuf;
mod wolman_networks;
mod wolman_offload;
mod wolman_paths;
mod wolman_pcb;
mod wolman_prediction;
mod wolman_rows;

use tollgate_run as run;

pub use uses::{Uses, takes, that_take, why_not};

use crate::claim::FindingText;
use crate::context::{Context, Options};
use crate::error::Error;
use crate::layout;

/// Reports that an experiment is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reported {
    /// In every report, `report --quick` included.
    Always,
    /// In the full report.
    Full,
    /// In none; it is run by its name.
    ByName,
}

/// Workload, paths and sizes that give one part of a run.
pub trait Experiment: Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// The heading.
    fn title(&self) -> &'static str;

    /// The published table or figure that it repeats, by its id in [`tollgate_papers`].
    fn paper(&self) -> Option<run::Source>;

    /// The subject of the experiment, in one line.
    fn summary(&self) -> &'static str;

    /// The reports that it is in. Time is short in a quick one, and each experiment takes it from the others.
    fn reported(&self) -> Reported;

    /// Its part of a run's time, relative to the others; 0 when it takes what it takes. Those come last, within a third of
    /// the time, so that none of the others stands still meanwhile.
    fn weight(&self) -> u32;

    /// Tells whether there is something to measure with these options; a report leaves out what is not concerned.
    fn concerns(&self, options: &Options) -> bool {
        let _ = options;
        true
    }

    /// The mechanisms of Tollgate's stack that it runs with.
    fn mechanisms(&self) -> Uses {
        Uses::NoStack
    }

    /// Tells whether all that it measures of Tollgate's stack runs over [`Options::link`].
    fn takes_link(&self) -> bool {
        false
    }

    /// Tells whether all that it measures runs with [`Options::mtu`].
    fn takes_mtu(&self) -> bool {
        false
    }

    /// Tells whether its streams may come to the timed end ([`Options::reverse`]).
    fn takes_reverse(&self) -> bool {
        false
    }

    /// Tells whether its messages may be datagrams ([`Options::datagrams`]).
    fn takes_datagrams(&self) -> bool {
        false
    }

    /// The command that repeats it with these options.
    fn command(&self, options: &Options) -> String {
        layout::command(self.name(), options)
    }

    /// Measures; figures are marked with the command.
    ///
    /// # Errors
    /// When there is nothing to show; a part that could not be measured says so in its cells.
    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error>;

    /// Measures, and puts a heading over what it shows.
    ///
    /// # Errors
    /// Those of [`Self::measure`].
    fn run(&self, context: &mut Context<'_>) -> Result<run::Experiment, Error> {
        let command = self.command(&context.options);
        let content = self.measure(context, &command)?;
        Ok(self.headed(content, command))
    }

    /// The content under the heading.
    fn headed(&self, content: Content, command: String) -> run::Experiment {
        run::Experiment {
            name: self.name().to_owned(),
            title: self.title().to_owned(),
            paper: self.paper(),
            finding: content.finding.into(),
            command,
            tables: content.tables,
            figures: content.figures,
            trust: content.trust,
        }
    }
}

/// Content of an experiment below its heading.
#[derive(Debug)]
pub struct Content {
    pub(crate) finding: FindingText,
    pub(crate) tables: Vec<run::Table>,
    pub(crate) figures: Vec<run::Figure>,
    pub(crate) trust: Vec<run::TrustLine>,
}

/// All experiments, in the order in which a report shows them.
#[must_use]
pub fn all() -> &'static [&'static dyn Experiment] {
    &[
        &rr_by_size::RrBySize,
        &crr::Crr,
        &stream_by_write_size::StreamByWriteSize,
        &links::Links,
        &links_ledger::LinksLedger,
        &wolman_networks::WolmanNetworks,
        &wolman_prediction::WolmanPrediction,
        &wolman_mbuf::WolmanMbuf,
        &wolman_pcb::WolmanPcb,
        &clark_tcb_cache::ClarkTcbCache,
        &wolman_checksum::WolmanChecksum,
        &wolman_combined::WolmanCombined,
        &wolman_elimination::WolmanElimination,
        &wolman_rows::TRANSMIT,
        &wolman_rows::RECEIVE,
        &wolman_offload::WolmanOffload,
        &kay_breakdown::KayBreakdown,
        &kay_detail::KayDetail,
        &kay_pcb::KayPcb,
        &kay_stack::KayStack,
        &foong_hz::FoongHz,
        &foong_direction::FoongDirection,
        &foong_profile::FoongProfile,
        &foong_memory::FoongMemory,
        &foong_offload::FoongOffload,
        &foong_sendfile::FoongSendfile,
        &foong_csumcopy::FoongCsumcopy,
        &foong_prepost::FoongPrepost,
        &kay_throughput::KayThroughput,
        &clark_direct::ClarkDirect,
        &lehmann::BANDWIDTH,
        &lehmann::PROCESSING,
        &lehmann::QUEUES,
        &lehmann::BUDGET,
        &ablation::RR,
        &ablation::STREAM,
        &congestion::Congestion,
        &goodput::Goodput,
        &many_streams::Many,
        &clark_instructions::ClarkInstructions,
        &wolman_errors::WolmanErrors,
        &coverage::RR,
        &coverage::CRR,
        &coverage::STREAM,
    ]
}

/// The experiments of a report.
pub fn of_report(quick: bool) -> impl Iterator<Item = &'static dyn Experiment> {
    let most = if quick {
        Reported::Always
    } else {
        Reported::Full
    };
    all()
        .iter()
        .copied()
        .filter(move |experiment| experiment.reported() <= most)
}

/// Names that experiments had before, each with the present one.
const FORMER_NAMES: [(&str, &str); 3] = [
    ("rr-gates", "rr-coverage"),
    ("crr-gates", "crr-coverage"),
    ("stream-gates", "stream-coverage"),
];

/// The experiment of this name, or of this former name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    let former = FORMER_NAMES.iter().find(|(former, _)| *former == name);
    let name = former.map_or(name, |&(_, present)| present);
    all()
        .iter()
        .copied()
        .find(|experiment| experiment.name() == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use tollgate_run::PathId;

    use super::*;
    use crate::context::{Cancel, Progress, Silent};

    fn small(paths: Vec<PathId>) -> Options {
        Options {
            paths: Some(paths),
            sizes: Some(vec![4, 200]),
            iterations: Some(16),
            repetitions: Some(1),
            ..Options::default()
        }
    }

    fn run(name: &str, options: Options) -> Result<run::Experiment, Error> {
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        find(name).unwrap().run(&mut context)
    }

    #[test]
    fn experiments_that_analysis_reads_are_there() {
        use tollgate_analysis::{papers, profile};
        let read = papers::experiments().into_iter();
        for name in read.chain(profile::OF_KERNEL).chain(profile::OF_STACK) {
            assert!(find(name).is_some(), "{name}");
        }
    }

    /// Experiments over `stack-memory`, sizes, and the beginnings of the labels that the papers' numbers have beside theirs.
    type Expected = (&'static str, &'static [usize], &'static [&'static str]);

    const EXPECTED: [Expected; 8] = [
        (
            "wolman-pcb",
            &[64],
            &[
                "search of a list of 20 PCBs",
                "search of a list of 1,000 PCBs",
                "each PCB more",
            ],
        ),
        ("wolman-mbuf", &[4], &["an mbuf, allocated and freed"]),
        (
            "wolman-prediction",
            &[4, 8_000],
            &[
                "segments predicted by the rule of 4.4BSD, round trips of 4 bytes",
                "segments predicted by the rule of 4.4BSD, round trips of 8,000 bytes",
                "segments predicted in both directions (then by the rule of 4.4BSD), round trips of 4 bytes",
                "segments predicted in both directions (then by the rule of 4.4BSD), round trips of 8,000 bytes",
            ],
        ),
        (
            "foong-csumcopy",
            &[65_536],
            &["the copy in a copy with checksum"],
        ),
        (
            "foong-offload",
            &[64, 65_536],
            &["saved without checksums, receiving"],
        ),
        (
            "wolman-checksum",
            &[1_024],
            &[
                "checksum of 1 KB",
                "copy of 1 KB",
                "copy and checksum of 1 KB",
            ],
        ),
        (
            "clark-direct",
            &[4, 1_400, 4_000],
            &[
                "TCP + IP + ARP protocols, packet",
                "Driver of a link in memory, packet",
            ],
        ),
        (
            "wolman-networks",
            &[4],
            &["Saved by ATM against Ethernet, 4 B, stack-memory"],
        ),
    ];

    /// The row behind a label in the tables beside the papers: paired, or refused for what was measured and not for want of a number.
    fn is_compared(shown: &run::Experiment, label: &str) -> bool {
        let mut rows = shown.tables.iter().flat_map(|table| &table.rows);
        rows.any(|row| match &row.cells[..] {
            // A row that was refused does not say of which of today's paths.
            [run::Cell::NotAvailable { reason }] => {
                let is_it = label.starts_with(&row.label) || row.label.starts_with(label);
                reason.contains("below zero") && is_it
            }
            cells => cells.len() == 3 && row.label.starts_with(label),
        })
    }

    #[test]
    fn numbers_of_the_papers_find_those_that_experiments_show_beside_them() {
        use tollgate_analysis::papers::{Extent, beside};
        for (name, sizes, labels) in EXPECTED {
            let options = Options {
                sizes: Some(sizes.to_vec()),
                repetitions: Some(2),
                ..small(vec![PathId::StackMemory])
            };
            // Where there is more time, wolman-pcb opens 100,000 connections.
            let budget = Some(Duration::from_secs(5));
            let mut context = Context::new(options, budget, Cancel::default(), &Silent);
            let shown = find(name).unwrap().run(&mut context).unwrap();
            let run = run::fixture::run_of(vec![shown]);
            let shown = beside(&run, Extent::Whole);
            for label in labels {
                assert!(is_compared(&shown, label), "{name}: {label}");
            }
        }
    }

    #[test]
    fn names_are_unique_and_found() {
        let names: HashSet<&str> = all().iter().map(|experiment| experiment.name()).collect();
        assert_eq!(names.len(), all().len());
        assert!(find("no-such").is_none());
        for (former, present) in FORMER_NAMES {
            assert!(!names.contains(former) && names.contains(present));
            assert_eq!(find(former).unwrap().name(), present);
        }
    }

    #[test]
    fn a_quick_report_is_a_part_of_a_full_one() {
        let names = |quick| of_report(quick).map(|one| one.name()).collect::<Vec<_>>();
        let (quick, full) = (names(true), names(false));
        assert!(quick.len() < full.len() && full.len() < all().len());
        assert!(quick.iter().all(|name| full.contains(name)));
    }

    #[test]
    fn round_trips_fill_a_table_and_a_figure() {
        let options = Options {
            // Six sessions have an interval that one slow session does not make a hundred times as wide.
            repetitions: Some(6),
            ..small(vec![PathId::PeerSmoltcp])
        };
        let shown = run("rr-by-size", options).unwrap();
        assert_eq!(shown.tables[0].columns.len(), 2);
        let measured = shown.tables[0].rows[0].cells[1].measured().unwrap();
        assert_eq!(measured.n, Some(96));
        assert!(measured.ci.is_some());
        assert!(shown.finding.contains("peer-smoltcp"), "{}", shown.finding);
        let run::Figure::Lines { series, .. } = &shown.figures[0] else {
            panic!("lines");
        };
        assert_eq!(series.iter().filter(|line| !line.published).count(), 1);
        assert_eq!(series.iter().filter(|line| line.published).count(), 2);
    }

    #[test]
    fn with_little_time_sessions_are_kept_and_all_repetitions_run() {
        let mut options = small(vec![PathId::PeerSmoltcp]);
        options.repetitions = Some(2);
        let budget = Some(Duration::from_secs(10));
        let mut context = Context::new(options, budget, Cancel::default(), &Silent);
        let rr: &'static dyn Experiment = find("rr-by-size").unwrap();
        let conducted = crate::conduct::conduct(&[rr], &mut context);
        let measured = conducted.shown[0].tables[0].rows[0].cells[0].measured();
        assert_eq!(measured.unwrap().n, Some(32));
    }

    #[test]
    fn a_connection_and_a_stream_are_measured() {
        for name in ["crr", "stream-by-write-size"] {
            let shown = run(name, small(vec![PathId::PeerSmoltcp])).unwrap();
            for table in &shown.tables {
                for cell in &table.rows[0].cells {
                    assert!(cell.measured().is_some_and(|m| m.value > 0.0), "{name}");
                }
            }
        }
    }

    #[test]
    fn both_directions_come_from_one_set_of_ledgers() {
        let mut options = small(vec![PathId::StackMemory]);
        options.sizes = Some(vec![1_400]);
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let transmit = find("wolman-transmit").unwrap().run(&mut context).unwrap();
        let receive = find("wolman-receive").unwrap().run(&mut context).unwrap();
        let closure = |shown: &run::Experiment| shown.tables.last().cloned();
        assert_eq!(closure(&transmit), closure(&receive));
        assert_eq!(transmit.figures.len(), 3);
        for shown in [&transmit, &receive] {
            let today = &shown.tables[0];
            let total = today.rows.last().unwrap();
            assert_eq!(total.label, "Total");
            // The columns of the paper come first; its rows are rounded.
            for (at, cell) in total.cells.iter().enumerate().skip(2) {
                // The rows but sums add up to the total.
                let parts: f64 = today
                    .rows
                    .iter()
                    .filter(|row| row.kind != run::RowKind::Total)
                    .filter_map(|row| row.cells[at].number())
                    .sum();
                match cell.number() {
                    Some(whole) => assert!((parts - whole).abs() < 1e-6),
                    // On a machine that stalls the few round trips of a test may come out below zero: nothing has a share then.
                    None => assert!(total.cells[at - 1].number().unwrap() <= 0.0, "{total:?}"),
                }
            }
            let kinds: HashSet<_> = shown.trust.iter().map(|line| line.kind as u8).collect();
            assert!(kinds.len() >= 5);
        }
        let mcopy = transmit.tables[0]
            .rows
            .iter()
            .find(|row| row.label == "TCP mcopy")
            .unwrap();
        assert!(
            matches!(&mcopy.cells[2], run::Cell::NotAvailable { reason } if reason.contains("reference"))
        );
        let wakeup = receive.tables[0]
            .rows
            .iter()
            .find(|row| row.label == "Wakeup")
            .unwrap();
        assert!(
            matches!(&wakeup.cells[2], run::Cell::NotAvailable { reason } if reason.contains("polls"))
        );
    }

    #[test]
    fn ledgers_concern_one_path() {
        let wolman = find("wolman-receive").unwrap();
        assert!(wolman.concerns(&Options::default()));
        assert!(!wolman.concerns(&small(vec![PathId::PeerSmoltcp])));
        let mut options = small(vec![PathId::StackMemory]);
        assert!(wolman.concerns(&options));
        options.placement = Some(tollgate_run::Placement::TwoCores);
        assert!(!wolman.concerns(&options));
    }

    #[test]
    fn what_a_path_cannot_do_is_said_in_its_row() {
        let options = small(vec![PathId::PeerSmoltcp, PathId::BareShm]);
        let shown = run("stream-by-write-size", options).unwrap();
        let row = &shown.tables[0].rows[1];
        assert_eq!(row.label, "bare-shm");
        let run::Cell::NotAvailable { reason } = &row.cells[0] else {
            panic!("not available");
        };
        assert_eq!(reason, "bare-shm does not run stream; it runs rr");
    }

    #[test]
    fn nothing_that_fits_is_an_error() {
        let mut options = small(vec![PathId::PeerSmoltcp]);
        options.placement = Some(tollgate_run::Placement::TwoCores);
        assert_eq!(
            run("crr", options).unwrap_err().to_string(),
            "no path runs crr as asked (--path peer-smoltcp --cores 2); `tollgate doctor` lists what each path can do"
        );
    }

    /// An experiment that samples, with little time; `None` where this machine does not allow it.
    fn sampled(name: &str, sizes: Vec<usize>) -> Option<run::Experiment> {
        let options = Options {
            paths: Some(vec![PathId::KernelLoopback]),
            sizes: Some(sizes),
            ..Options::default()
        };
        let budget = Some(Duration::from_millis(1_500));
        let mut context = Context::new(options, budget, Cancel::default(), &Silent);
        context.begin("test", 1, 1);
        let shown = find(name).unwrap().run(&mut context).unwrap();
        if shown.finding.starts_with("Not available") {
            tollgate_skip::skipped!("{}", shown.finding);
            return None;
        }
        assert!(shown.command.contains(name));
        Some(shown)
    }

    /// The cells of a row, as numbers.
    fn numbers(table: &run::Table, row: usize) -> Vec<f64> {
        let cells = table.rows[row].cells.iter();
        cells.filter_map(run::Cell::number).collect()
    }

    #[test]
    fn categories_add_up_to_the_total_at_every_size() {
        let Some(shown) = sampled("kay-breakdown", vec![1, 4_000, 8_192]) else {
            return;
        };
        let of = |id: &str| -> Vec<&run::Table> {
            let tables = shown.tables.iter();
            tables.filter(|table| table.id.starts_with(id)).collect()
        };
        assert_eq!(of("time-").len(), 2);
        for table in of("time-") {
            assert_eq!(table.rows.len(), 3);
            for row in 0..3 {
                let cells = numbers(table, row);
                let (parts, total) = (&cells[..8], cells[8]);
                assert!((parts.iter().sum::<f64>() - total).abs() < 1e-6 * total);
            }
        }
        // Cumulative shares end at all of it.
        let cumulative = numbers(of("cumulative-")[0], 0);
        assert!((cumulative.last().unwrap() - 100.0).abs() < 1e-6);
        assert!(shown.finding.contains("over TCP"), "{}", shown.finding);
        assert_eq!(
            shown.figures.len(),
            4,
            "the small-message view needs two small sizes"
        );
    }

    #[test]
    fn parts_add_up_to_no_more_than_their_category() {
        let Some(shown) = sampled("kay-detail", vec![1, 8_192]) else {
            return;
        };
        for table in &shown.tables {
            let (mut category, mut parts) = (f64::INFINITY, 0.0);
            for row in 0..table.rows.len() {
                let value = numbers(table, row)[0];
                if table.rows[row].depth == 0 {
                    assert!(parts <= category * (1.0 + 1e-9));
                    (category, parts) = (value, 0.0);
                } else {
                    parts += value;
                }
            }
        }
    }

    #[test]
    fn streams_are_told_apart_by_direction_and_group() {
        for name in [
            "foong-hz",
            "foong-direction",
            "foong-profile",
            "foong-sendfile",
        ] {
            let Some(shown) = sampled(name, vec![1_024, 16_384]) else {
                return;
            };
            let first = numbers(&shown.tables[0], 0);
            assert!(first.iter().any(|&value| value > 0.0), "{name}: {first:?}");
            assert!(!shown.finding.contains("Nothing was measured"), "{name}");
        }
    }

    #[test]
    fn a_packet_and_a_byte_have_a_cost() {
        let Some(shown) = sampled("clark-direct", vec![1, 2_000, 4_000, 8_192]) else {
            return;
        };
        let table = &shown.tables[0];
        let (total, operations) = table.rows.split_last().unwrap();
        let cost = |row: &run::Row, column: usize| row.cells[column].measured().unwrap().clone();
        let (packet, byte) = (cost(total, 0), cost(total, 1));
        // However the machine was disturbed: lines through the parts sum to the line through all, and that lies above none at some size.
        for (column, all) in [(0, &packet), (1, &byte)] {
            let parts: Vec<f64> = operations
                .iter()
                .map(|row| cost(row, column).value)
                .collect();
            let sizes = parts.iter().map(|part| part.abs()).sum::<f64>();
            let off = parts.iter().sum::<f64>() - all.value;
            assert!(off.abs() <= 1e-9 * sizes, "{column}: {parts:?} {all:?}");
        }
        assert!(packet.value > 0.0 || packet.value + 8_192.0 * byte.value > 0.0);
        let least = packet.ci.unwrap().low;
        assert_eq!(
            shown.finding.starts_with("A packet costs"),
            least > 0.0,
            "{} {packet:?}",
            shown.finding
        );
    }

    #[test]
    fn what_is_sampled_concerns_kernel_paths_only() {
        for name in ["kay-breakdown", "kay-detail", "foong-hz"] {
            let experiment = find(name).unwrap();
            assert!(experiment.concerns(&Options::default()));
            assert!(!experiment.concerns(&small(vec![PathId::StackMemory])));
        }
    }

    #[test]
    fn what_is_sampled_beside_our_stack_concerns_either() {
        for name in [
            "clark-direct",
            "foong-direction",
            "foong-profile",
            "foong-offload",
        ] {
            let experiment = find(name).unwrap();
            assert!(experiment.concerns(&small(vec![PathId::KernelVeth])));
            assert!(experiment.concerns(&small(vec![PathId::StackMemory])));
            assert!(!experiment.concerns(&small(vec![PathId::PeerSmoltcp])));
        }
    }

    /// Raises the flag when it has been told a number of times.
    struct StopAfter(std::cell::Cell<u32>, Cancel);

    impl Progress for StopAfter {
        fn update(&self, _what: &str, _done: f64, _left: Duration) {
            self.0.set(self.0.get().saturating_sub(1));
            if self.0.get() == 0 {
                self.1.raise();
            }
        }
    }

    #[test]
    fn a_stopped_run_shows_what_it_has() {
        let cancel = Cancel::default();
        // Two pilots, and then a slice of the first size.
        let stop = StopAfter(std::cell::Cell::new(3), cancel.clone());
        let mut context = Context::new(small(vec![PathId::PeerSmoltcp]), None, cancel, &stop);
        let shown = find("rr-by-size").unwrap().run(&mut context).unwrap();
        let cells = &shown.tables[0].rows[0].cells;
        assert!(cells[0].measured().is_some());
        assert!(matches!(cells[1], run::Cell::NotAvailable { .. }));
        assert!(
            shown
                .trust
                .iter()
                .any(|line| !line.holds && line.text.contains("stopped"))
        );
    }

    #[test]
    fn a_run_that_was_stopped_at_once_has_nothing() {
        let cancel = Cancel::default();
        cancel.raise();
        let options = small(vec![PathId::PeerSmoltcp]);
        let mut context = Context::new(options, None, cancel, &Silent);
        let error = find("crr").unwrap().run(&mut context).unwrap_err();
        assert!(matches!(error, Error::Stopped));
    }
}

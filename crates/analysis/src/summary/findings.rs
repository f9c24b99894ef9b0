//! The findings of a run that answer what people ask first: what a round trip costs, where it goes, how much of it is TCP, how
//! Tollgate's stack compares, what a connection costs and what a stream carries.

use tollgate_run::{
    Cell, Experiment, Mode, PathId, Placement, Run, Table, Waiting, format, path_and_mode,
};

use super::anatomy::percents;
use super::{Anatomy, RoundTrip, Sentence, Stage};
use crate::claim::{Claim, Evidence, Finding, Refusal};

const SLEEPING: (Placement, Waiting) = (Placement::TwoCores, Waiting::Blocking);
const POLLING: (Placement, Waiting) = (Placement::TwoCores, Waiting::BusyPoll);
const ONE_CORE: (Placement, Waiting) = (Placement::OneCore, Waiting::Blocking);

/// The sentences, those that answer the first question first, and the reason for those that are missing.
pub(super) fn findings(run: &Run, anatomy: Option<&Anatomy>) -> (Vec<Sentence>, Option<String>) {
    let mut found = Found {
        run,
        sentences: Vec::new(),
        finding: Finding::default(),
    };
    if let Some(anatomy) = anatomy {
        found.round_trip(anatomy);
        found.largest(anatomy);
        found.tcp(anatomy);
    }
    found.stack(anatomy);
    found.connection();
    found.stream();
    (found.sentences, found.finding.refused())
}

struct Found<'a> {
    run: &'a Run,
    sentences: Vec<Sentence>,
    finding: Finding,
}

/// A mode in a sentence.
fn where_it_runs((placement, waiting): (Placement, Waiting)) -> &'static str {
    match (placement, waiting) {
        (Placement::OneCore, _) => "on one core",
        (Placement::TwoCores, Waiting::Blocking) => "between two cores that sleep",
        (Placement::TwoCores, Waiting::BusyPoll) => "between two cores that poll",
    }
}

/// A path in a sentence.
fn over(path: PathId) -> &'static str {
    match path {
        PathId::KernelLoopback => "the kernel's loopback",
        PathId::KernelVeth => "a veth pair",
        PathId::KernelRemote => "the network",
        PathId::StackMemory | PathId::StackShm => "Tollgate's stack",
        PathId::StackTap => "Tollgate's stack on a tap device",
        PathId::StackPacket => "Tollgate's stack on a packet socket",
        PathId::StackXdp => "Tollgate's stack on AF_XDP",
        PathId::PeerSmoltcp => "smoltcp",
        PathId::BareShm => "shared memory",
    }
}

impl Found<'_> {
    fn say(&mut self, experiment: &'static str, text: String) {
        self.sentences.push(Sentence { text, experiment });
    }

    /// The kernel's round trips that are there, in the order of the modes.
    fn of_kernel(
        anatomy: &Anatomy,
        modes: &[(Placement, Waiting)],
    ) -> Vec<(RoundTrip, (Placement, Waiting))> {
        let find = |mode: &(Placement, Waiting)| {
            let mut all = anatomy.round_trips.iter();
            let found = all.find(|one| one.path.is_kernel() && one.is(mode.0, mode.1))?;
            Some((found.clone(), *mode))
        };
        modes.iter().filter_map(find).collect()
    }

    /// Finds the time of a round trip over the kernel.
    fn round_trip(&mut self, anatomy: &Anatomy) {
        let mut takes = Vec::new();
        let mut path = None;
        for (one, mode) in Self::of_kernel(anatomy, &[ONE_CORE, SLEEPING]) {
            let words = where_it_runs(mode);
            let claim = Evidence::of(&Cell::Value(one.total.clone())).and_then(Evidence::amount);
            if let Some(claim) = self.finding.claim(format!("a round trip {words}"), claim) {
                takes.push(format!("{} {words}", claim.duration()));
                path = Some(one.path);
            }
        }
        if let Some(path) = path {
            let size = format::whole(anatomy.size as u64);
            self.say(
                "wolman-receive",
                format!(
                    "A {size}-byte round trip over {} takes {}.",
                    over(path),
                    takes.join(", ")
                ),
            );
        }
    }

    /// Finds the part that takes most.
    fn largest(&mut self, anatomy: &Anatomy) {
        let mut by_stage: Vec<(Stage, bool, Vec<String>)> = Vec::new();
        for (one, mode) in Self::of_kernel(anatomy, &[ONE_CORE, SLEEPING]) {
            let words = where_it_runs(mode);
            let Some((part, share)) = one
                .largest()
                .and_then(|part| Some((part, one.share(part)?)))
            else {
                self.finding.refuse(
                    format!("what takes most {words}"),
                    &Refusal::NotMeasured(
                        "parts differ by no more than the ledger leaves open".to_owned(),
                    ),
                );
                continue;
            };
            let clause = format!("{} {words}", percents(share));
            let is_most = share.low > 50.0;
            match by_stage.iter_mut().find(|(known, ..)| *known == part) {
                Some((_, all, clauses)) => {
                    *all &= is_most;
                    clauses.push(clause);
                }
                None => by_stage.push((part, is_most, vec![clause])),
            }
        }
        for (part, is_most, clauses) in by_stage {
            let much = if is_most {
                "most of it"
            } else {
                "the largest part"
            };
            let subject = match part {
                Stage::Application => "The application takes",
                Stage::Socket => "The socket interface takes",
                Stage::Tcp => "TCP takes",
                Stage::Ip => "IP takes",
                Stage::Driver => "The driver takes",
                Stage::DeviceQueue => "Waiting in the device queue takes",
                Stage::IpQueue => "Waiting in the IP queue takes",
                Stage::Wakeup => "Waking the reader takes",
            };
            self.say(
                "wolman-receive",
                format!("{subject} {much}: {}.", clauses.join(", ")),
            );
        }
    }

    /// Finds the time of TCP itself.
    fn tcp(&mut self, anatomy: &Anatomy) {
        let mut clauses = Vec::new();
        for (one, mode) in Self::of_kernel(anatomy, &[ONE_CORE, POLLING]) {
            let Some(share) = one.share(Stage::Tcp) else {
                continue;
            };
            if share.low <= 0.0 && share.high >= 100.0 {
                let why = "the ledger leaves open as much as the whole".to_owned();
                let what = format!("what TCP takes {}", where_it_runs(mode));
                self.finding.refuse(what, &Refusal::NotMeasured(why));
            } else {
                clauses.push(format!("{} {}", percents(share), where_it_runs(mode)));
            }
        }
        if !clauses.is_empty() {
            self.say(
                "wolman-receive",
                format!("TCP itself takes {}.", clauses.join(", ")),
            );
        }
    }

    /// Compares Tollgate's stack with the kernel, both between two processors that poll.
    fn stack(&mut self, anatomy: Option<&Anatomy>) {
        let run = self.run;
        let Some(table) = experiment(run, "rr-by-size").and_then(|rr| rr.tables.first()) else {
            return;
        };
        let size_at = |at: usize| format::parse_size(&table.columns[at].name);
        let wanted = anatomy.map_or(200, |one| one.size) as f64;
        let Some(at) = (0..table.columns.len())
            .find(|&at| size_at(at) == Some(wanted))
            .or_else(|| (0..table.columns.len()).find(|&at| size_at(at).is_some()))
        else {
            return;
        };
        let size = size_at(at).unwrap_or(0.0) as usize;
        let mode = Mode {
            placement: POLLING.0,
            waiting: POLLING.1,
        };
        let evidence = |path| Some(Evidence::of(cell(table, path, mode, at)?));
        // A kernel that had too little time for its own row has a ledger of the same size.
        let ledger = anatomy.filter(|one| one.size == size).and_then(|one| {
            let (one, _) = Self::of_kernel(one, &[POLLING]).pop()?;
            Some(Evidence::of(&Cell::Value(one.total)))
        });
        let kernel = evidence(PathId::KernelLoopback)
            .filter(|one| one.clone().and_then(Evidence::amount).is_ok())
            .or(ledger);
        let (Some(ours), Some(kernel)) = (evidence(PathId::StackShm), kernel) else {
            return;
        };
        let quotient = ours
            .clone()
            .and_then(|ours| kernel.and_then(|kernel| ours.over(kernel).amount()));
        let what = "Tollgate's stack beside the kernel";
        let takes = self.finding.claim(what, ours.and_then(Evidence::amount));
        let quotient = self.finding.claim(what, quotient);
        let (Some(takes), Some(quotient)) = (takes, quotient) else {
            return;
        };
        let size = format::bytes(size);
        let text = match quotient.speed() {
            Some(speed) => format!(
                "Between two cores that poll, Tollgate's stack is {speed} than the kernel: {} for {size}.",
                takes.duration()
            ),
            None => format!(
                "Between two cores that poll, Tollgate's stack and the kernel show no difference at {size}."
            ),
        };
        self.say("rr-by-size", text);
    }

    /// Finds the time of a connection.
    fn connection(&mut self) {
        let run = self.run;
        let Some(table) = experiment(run, "crr").and_then(|one| one.tables.first()) else {
            return;
        };
        let mode = Mode {
            placement: ONE_CORE.0,
            waiting: ONE_CORE.1,
        };
        let Some(cell) = cell(table, PathId::KernelLoopback, mode, 0) else {
            return;
        };
        let size = format::parse_size(&table.columns[0].name);
        let size = format::bytes(size.unwrap_or(0.0) as usize);
        let claim = Evidence::of(cell).and_then(Evidence::amount);
        if let Some(claim) = self.finding.claim("what a connection takes", claim) {
            self.say(
                "crr",
                format!(
                    "To connect, exchange {size} and close takes the kernel {} on one core.",
                    claim.duration()
                ),
            );
        }
    }

    /// Finds the highest throughput of a stream between two ends.
    fn stream(&mut self) {
        let run = self.run;
        let Some(table) = experiment(run, "stream-by-write-size")
            .and_then(|one| one.tables.iter().find(|table| table.id == "throughput"))
        else {
            return;
        };
        let mut carries = Vec::new();
        for path in [PathId::KernelLoopback, PathId::StackShm] {
            let what = format!("what a stream over {} carries", over(path));
            let Some(best) = best(table, path) else {
                continue;
            };
            if let Some(rate) = self.finding.claim(what, best) {
                let gigabits = rate.times(8.0 / 1e9).significant();
                carries.push(format!("{gigabits} Gb/s over {}", over(path)));
            }
        }
        if !carries.is_empty() {
            self.say(
                "stream-by-write-size",
                format!("The fastest stream carries {}.", format::list(&carries)),
            );
        }
    }
}

fn experiment<'a>(run: &'a Run, name: &str) -> Option<&'a Experiment> {
    run.experiments.iter().find(|one| one.name == name)
}

/// The cell of a path in a mode.
fn cell(table: &Table, path: PathId, mode: Mode, at: usize) -> Option<&Cell> {
    let mut rows = table.rows.iter();
    let row = rows.find(|row| path_and_mode(&row.label) == Some((path, mode)))?;
    row.cells.get(at)
}

/// The most that a path carries in any mode and in writes of any size.
fn best(table: &Table, path: PathId) -> Option<Result<Claim, Refusal>> {
    let of_path =
        |row: &&tollgate_run::Row| path_and_mode(&row.label).is_some_and(|(one, _)| one == path);
    let cells = table.rows.iter().filter(of_path).flat_map(|row| &row.cells);
    let most = cells
        .filter(|cell| cell.number().is_some())
        .max_by(|a, b| {
            a.number()
                .unwrap_or(0.0)
                .total_cmp(&b.number().unwrap_or(0.0))
        })?;
    Some(Evidence::of(most).and_then(Evidence::amount))
}

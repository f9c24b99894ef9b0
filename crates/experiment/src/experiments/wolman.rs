//! `wolman-transmit` and `wolman-receive`: where a message's time goes in Tollgate's own stack and in the Linux kernel, with both
//! ends on one core and on two (`wolman_ledger`), in the rows of Wolman, Voelker and Thekkath 1994, Tables 2 and 3, beside the paper's numbers.
//!
//! What the rows hold differs from the paper in places, which the notes under the tables say.

use tollgate_gate::ledger::WolmanLabel;
use tollgate_gate::{Direction, WolmanRow};
use tollgate_papers as papers;
use tollgate_run::{
    self as run, Layer, Mode, PathId, RowKind, SegmentKind, Source, TrustLine, Workload, present,
};

use super::wolman_joined::{Joined, Part};
use super::wolman_ledger::Shown;
use super::{Experiment, Reported, remote_shown};
use crate::context::{Context, Options, SIZES};
use crate::error::Error;
use crate::remote::Host;
use crate::shapes;

/// The paths whose gates are the kernel's.
const KERNEL_PATHS: [PathId; 3] = [
    PathId::KernelLoopback,
    PathId::KernelVeth,
    PathId::KernelRemote,
];
/// The time that `stack-memory` needs beside that of one of them: its round trips are shorter.
const STACK_SHARE: f64 = 0.5;
const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;

/// One direction of the paper's ledger.
#[derive(Clone, Copy)]
pub(super) struct Wolman {
    pub(super) direction: Direction,
}

/// Table 2.
pub(super) const TRANSMIT: Wolman = Wolman {
    direction: Direction::Tx,
};

/// Table 3.
pub(super) const RECEIVE: Wolman = Wolman {
    direction: Direction::Rx,
};

impl Wolman {
    fn table_id(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "wolman-1994/table-2",
            Direction::Rx | Direction::Between => "wolman-1994/table-3",
        }
    }

    pub(super) fn way(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "from send() until the link, or the kernel's queue of IP, has it",
            Direction::Rx | Direction::Between => {
                "from the link, or the kernel's queue of IP, to the return of recv()"
            }
        }
    }
}

impl Wolman {
    /// The paper's number in nanoseconds.
    pub(super) fn then(&self, label: WolmanLabel, size: usize) -> Option<f64> {
        let table = papers::table(self.table_id())?;
        let us = table.cell(published_id(label)?, &size.to_string())?;
        Some(us * NANOSECONDS_PER_MICROSECOND)
    }
}

impl Experiment for Wolman {
    fn name(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "wolman-transmit",
            Direction::Rx | Direction::Between => "wolman-receive",
        }
    }

    fn title(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "Where the time goes: transmit",
            Direction::Rx | Direction::Between => "Where the time goes: receive",
        }
    }

    fn paper(&self) -> Option<Source> {
        papers::source(self.table_id())
    }

    fn summary(&self) -> &'static str {
        match self.direction {
            Direction::Tx => {
                "the layers of the kernel and of stack-memory on the way out, by size, beside the DECstation's of 1994"
            }
            Direction::Rx | Direction::Between => {
                "the layers of the kernel and of stack-memory on the way in, by size, beside the DECstation's of 1994"
            }
        }
    }

    fn reported(&self) -> Reported {
        Reported::Always
    }

    /// Whichever comes first measures for both.
    fn weight(&self) -> u32 {
        match self.direction {
            Direction::Tx => 8,
            Direction::Rx | Direction::Between => 1,
        }
    }

    fn concerns(&self, options: &Options) -> bool {
        options.want_stack_memory() || !kernel_modes(options).is_empty()
    }

    fn run(&self, context: &mut Context<'_>) -> Result<run::Experiment, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let command = shapes::command(self.name(), &context.options);
        let mut shown = Gathered::default();
        let kernel = kernel_modes(&context.options);
        let main = |path| {
            kernel
                .iter()
                .find(|(one, _)| *one == path)
                .map(|(_, mode)| *mode)
        };
        let stack = if context.options.want_stack_memory() {
            STACK_SHARE
        } else {
            0.0
        };
        for (at, &(path, mode)) in kernel.iter().enumerate() {
            let share = 1.0 / ((kernel.len() - at) as f64 + stack);
            if path == PathId::KernelRemote {
                match context.two_hosts(self.name(), mode, &sizes) {
                    Ok(hosts) => {
                        let remote = remote_shown::Shown {
                            sizes: &sizes,
                            hosts: &hosts,
                        };
                        let parts = Host::BOTH.map(|host| remote.part(host, self.direction));
                        shown.parts.extend(parts);
                        shown.trust.extend(remote.trust());
                    }
                    Err(Error::Stopped) => return Err(Error::Stopped),
                    Err(error) => shown.leave_out(path, error),
                }
                continue;
            }
            match context.kernel_ledgers(self.name(), path, mode, &sizes, share) {
                Ok(ledgers) => {
                    let name = if main(path) == Some(mode) {
                        path.to_string()
                    } else {
                        ledgers.label()
                    };
                    let kernel = Shown {
                        direction: self.direction,
                        name,
                        ledgers: &ledgers,
                    };
                    shown.add(kernel.part(), kernel.trust());
                }
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) => shown.leave_out(path, error),
            }
        }
        if context.options.want_stack_memory() {
            let ledgers = context.stack_ledgers(self.name(), &sizes)?;
            let stack = Shown {
                direction: self.direction,
                name: PathId::StackMemory.to_string(),
                ledgers: &ledgers,
            };
            shown.add(stack.part(), stack.trust());
        }
        shown.finish(self, &sizes, command)
    }
}

/// The kernel's paths that are wanted, in all modes that are. With both ends on one core comes first: so is `stack-memory`, and
/// nobody waits for another processor there. Two hosts have the one mode that fits.
fn kernel_modes(options: &Options) -> Vec<(PathId, Mode)> {
    let mut modes = Vec::new();
    for path in KERNEL_PATHS.into_iter().filter(|&path| options.wants(path)) {
        let Some(capabilities) = options.capabilities(path) else {
            continue;
        };
        let first = options.gated_mode(&capabilities);
        let mut others = Vec::new();
        if path != PathId::KernelRemote {
            others = options.modes(&capabilities);
            others.retain(|mode| Some(*mode) != first);
        }
        modes.extend(first.into_iter().chain(others).map(|mode| (path, mode)));
    }
    modes
}

/// What several paths have to show.
#[derive(Default)]
struct Gathered {
    parts: Vec<Part>,
    trust: Vec<TrustLine>,
    /// The first reason why a path was left out.
    refused: Option<Error>,
}

impl Gathered {
    fn add(&mut self, part: Part, trust: Vec<TrustLine>) {
        self.parts.push(part);
        self.trust.extend(trust);
    }

    fn leave_out(&mut self, path: PathId, error: Error) {
        self.trust
            .push(present::warning(format!("{path} is left out: {error}")));
        self.refused.get_or_insert(error);
    }

    fn finish(
        self,
        wolman: &Wolman,
        sizes: &[usize],
        command: String,
    ) -> Result<run::Experiment, Error> {
        if self.parts.is_empty() {
            return Err(self.refused.unwrap_or(Error::NothingToRun {
                workload: Workload::Rr,
                asked: "the paths that have gates".to_owned(),
            }));
        }
        let joined = Joined {
            wolman,
            sizes,
            parts: &self.parts,
        };
        Ok(run::Experiment {
            name: wolman.name().to_owned(),
            title: wolman.title().to_owned(),
            paper: wolman.paper(),
            finding: joined.finding(),
            tables: joined.tables(),
            figures: joined.figures(&command),
            command,
            trust: self.trust,
        })
    }
}

/// The labels of one direction in the order of the paper, its sum below the rows of TCP.
pub(super) fn labels(direction: Direction) -> Vec<WolmanLabel> {
    let mut labels = Vec::new();
    let rows = WolmanRow::of(direction);
    for (at, &row) in rows.iter().enumerate() {
        labels.push(WolmanLabel::Row(row));
        if row.is_tcp() && !rows.get(at + 1).is_some_and(|next| next.is_tcp()) {
            labels.push(WolmanLabel::TcpTotal);
        }
    }
    labels.extend([WolmanLabel::NotInPaper, WolmanLabel::Total]);
    labels
}

/// The id of a label's row in the published tables; none when it is not in the paper.
pub(super) fn published_id(label: WolmanLabel) -> Option<&'static str> {
    Some(match label {
        WolmanLabel::Row(row) => match row {
            WolmanRow::User => "user",
            WolmanRow::Checksum => "tcp.checksum",
            WolmanRow::Mcopy => "tcp.mcopy",
            WolmanRow::Segment => "tcp.segment",
            WolmanRow::Ip => "ip",
            WolmanRow::Atm => "atm",
            WolmanRow::Ipq => "ipq",
            WolmanRow::Wakeup => "wakeup",
        },
        WolmanLabel::TcpTotal => "tcp",
        WolmanLabel::NotInPaper => return None,
        WolmanLabel::Total => "total",
    })
}

/// The name of a row: the paper's, and what it is today where that differs.
pub(super) fn name(label: WolmanLabel, direction: Direction) -> &'static str {
    match label {
        WolmanLabel::Row(WolmanRow::Checksum) => "TCP checksum",
        WolmanLabel::Row(WolmanRow::Mcopy) => "TCP mcopy",
        WolmanLabel::Row(WolmanRow::Segment) => "TCP segment",
        WolmanLabel::Row(WolmanRow::Atm) => "ATM (driver)",
        WolmanLabel::NotInPaper => match direction {
            Direction::Tx => "device queue",
            Direction::Rx | Direction::Between => "socket queue",
        },
        WolmanLabel::Row(_) | WolmanLabel::TcpTotal | WolmanLabel::Total => label.name(),
    }
}

pub(super) fn manner(label: WolmanLabel, direction: Direction) -> (RowKind, Option<Layer>, u8) {
    match label {
        WolmanLabel::Row(row) => match row {
            WolmanRow::User => (RowKind::Processing, Some(Layer::Socket), 0),
            WolmanRow::Checksum | WolmanRow::Mcopy | WolmanRow::Segment => {
                (RowKind::Processing, Some(Layer::Tcp), 1)
            }
            WolmanRow::Ip => (RowKind::Processing, Some(Layer::Ip), 0),
            WolmanRow::Atm => (RowKind::Processing, Some(Layer::Driver), 0),
            WolmanRow::Ipq => (RowKind::Queueing, Some(Layer::Link), 0),
            WolmanRow::Wakeup => (RowKind::Queueing, Some(Layer::Scheduler), 0),
        },
        WolmanLabel::NotInPaper => {
            let layer = match direction {
                Direction::Tx => Layer::Device,
                Direction::Rx | Direction::Between => Layer::Socket,
            };
            (RowKind::Queueing, Some(layer), 0)
        }
        WolmanLabel::TcpTotal | WolmanLabel::Total => (RowKind::Total, None, 0),
    }
}

pub(super) fn layer(layer: tollgate_gate::Layer) -> Layer {
    use tollgate_gate::Layer as Gate;
    match layer {
        Gate::Socket => Layer::Socket,
        Gate::Tcp => Layer::Tcp,
        Gate::Ip => Layer::Ip,
        Gate::Device => Layer::Device,
        Gate::Driver => Layer::Driver,
        Gate::Link => Layer::Link,
        Gate::Scheduler => Layer::Scheduler,
    }
}

pub(super) const fn segment_kind(kind: tollgate_gate::Kind) -> SegmentKind {
    match kind {
        tollgate_gate::Kind::Processing => SegmentKind::Processing,
        tollgate_gate::Kind::Queueing => SegmentKind::Queueing,
    }
}

/// The times as lengths: one below zero gets none, and what it lacks is taken off those after it, then off those before it.
/// So the sum stays, unless it is below zero itself.
pub(super) fn lengths(mut times: Vec<f64>) -> Vec<f64> {
    let mut owed = 0.0;
    let mut take = |time: &mut f64| {
        let left = *time + owed;
        owed = left.min(0.0);
        *time = left.max(0.0);
    };
    times.iter_mut().for_each(&mut take);
    times.iter_mut().rev().for_each(&mut take);
    times
}

/// The least and the most.
pub(super) fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    Some((low, high))
}

/// `-1.2 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// `-1.2 % to 3.4 %`.
pub(super) fn between_percents(low: f64, high: f64) -> String {
    format!("{} to {}", percent(low), percent(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_not_negative_and_keep_the_sum() {
        assert_eq!(lengths(vec![5.0, -2.0, 3.0]), [5.0, 0.0, 1.0]);
        assert_eq!(lengths(vec![5.0, -2.0, 1.0, -1.5]), [2.5, 0.0, 0.0, 0.0]);
        assert_eq!(lengths(vec![-1.0, -1.0, 4.0]), [0.0, 0.0, 2.0]);
        assert_eq!(lengths(vec![-1.0]), [0.0]);
        assert!(lengths(Vec::new()).is_empty());
    }

    #[test]
    fn every_row_of_the_paper_has_its_line() {
        for wolman in [&TRANSMIT, &RECEIVE] {
            let labels = labels(wolman.direction);
            for row in WolmanRow::of(wolman.direction) {
                let label = WolmanLabel::Row(*row);
                assert_eq!(labels.iter().filter(|one| **one == label).count(), 1);
            }
            let table = papers::table(wolman.table_id()).unwrap();
            for label in labels {
                if let Some(id) = published_id(label) {
                    assert!(table.cell(id, "4").is_some(), "{id}");
                }
            }
        }
    }
}

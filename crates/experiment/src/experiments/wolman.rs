//! `wolman-transmit` and `wolman-receive`: where a message's time goes in Tollgate's own stack and in the Linux kernel, with both
//! ends on one core and on two (`wolman_ledger`), in the rows of Wolman, Voelker and Thekkath 1994, Tables 2 and 3, beside the paper's numbers.
//!
//! The rows differ from the paper's in places, which the notes under the tables state.

use std::rc::Rc;
use std::time::Duration;

use tollgate_gate::Direction;
use tollgate_papers as papers;
use tollgate_run::{Mode, PathId, Placement, Source, TrustLine, Waiting, Workload, present};

use super::wolman_ledger::{LedgerTables, disturbed_first};
use super::wolman_paths::{CombinedTable, PathRows};
use super::wolman_rows::Wolman;
use super::{Content, Experiment, Reported, Uses, remote_tables, uses};
use crate::context::{Context, Options, SIZES};
use crate::error::Error;
use crate::ledgers;

/// The paths whose gates are the kernel's.
const KERNEL_PATHS: [PathId; 3] = [
    PathId::KernelLoopback,
    PathId::KernelVeth,
    PathId::KernelRemote,
];
/// The time that `stack-memory` needs beside that of one of them: its round trips are shorter.
const STACK_SHARE: f64 = 0.5;
/// With less time for each size of a ledger, less is measured: a closure that can tell is worth more than a column more. In half of
/// it the fewest blocks of a ledger fit on the slowest path.
const EACH_SIZE: Duration = Duration::from_millis(700);
/// The sizes that are left then.
const FEW_SIZES: [usize; 4] = [4, 200, 1_400, 8_000];
/// The size that is measured when there is no time for those.
const ONE_SIZE: [usize; 1] = [200];
/// The time that the fewest slices of a size take.
const LEAST: Duration = Duration::from_millis(200);

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

    /// The first of the two measures for both.
    fn mechanisms(&self) -> Uses {
        Uses::AsSet { but: &[] }
    }

    fn weight(&self) -> u32 {
        match self.direction {
            Direction::Tx => 8,
            Direction::Rx | Direction::Between => 1,
        }
    }

    fn concerns(&self, options: &Options) -> bool {
        options.want_stack_memory() || !kernel_modes(options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let mut shown = Gathered::default();
        let scope = Scope::of(context)?;
        let Scope { sizes, kernel, .. } = &*scope;
        let main = |path| {
            kernel
                .iter()
                .find(|(one, _)| *one == path)
                .map(|(_, mode)| *mode)
        };
        let stack = stack_share(&context.options);
        for (at, &(path, mode)) in kernel.iter().enumerate() {
            let share = 1.0 / ((kernel.len() - at) as f64 + stack);
            if path == PathId::KernelRemote {
                match ledgers::of_hosts(self.name(), mode, sizes, share, context) {
                    Ok(ledgers) => {
                        if let Some(remote) = remote_tables::RemoteTables::of(&ledgers) {
                            shown.parts.extend(remote.path_rows(self.direction));
                            shown.trust.extend(remote.trust());
                        }
                    }
                    Err(Error::Stopped) => return Err(Error::Stopped),
                    Err(error) => shown.leave_out(path, error),
                }
                continue;
            }
            match ledgers::of_kernel(self.name(), (path, mode), sizes, share, context) {
                Ok(ledgers) => {
                    let name = if main(path) == Some(mode) {
                        path.to_string()
                    } else {
                        ledgers.label()
                    };
                    let kernel = LedgerTables {
                        direction: self.direction,
                        name,
                        host: None,
                        ledgers: &ledgers,
                    };
                    shown.add(kernel.part(), kernel.trust());
                }
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) => shown.leave_out(path, error),
            }
        }
        if context.options.want_stack_memory() {
            let ledgers = ledgers::of_stack(self.name(), sizes, 1.0, context)?;
            let stack = LedgerTables {
                direction: self.direction,
                name: PathId::StackMemory.to_string(),
                host: None,
                ledgers: &ledgers,
            };
            shown.add(stack.part(), stack.trust());
            shown.trust.extend(uses::note(&context.options));
        }
        shown.trust.extend(scope.notes());
        shown.finish(self, sizes, command)
    }
}

/// The time that the fewest slices of a size take, about; between processors that sleep a round trip takes ten times as long.
fn least(mode: Mode) -> Duration {
    match (mode.placement, mode.waiting) {
        (Placement::TwoCores, Waiting::Blocking) => 3 * LEAST,
        (Placement::TwoCores, Waiting::BusyPoll) | (Placement::OneCore, _) => LEAST,
    }
}

/// The time that `stack-memory` needs, if it is wanted.
fn stack_share(options: &Options) -> f64 {
    if options.want_stack_memory() {
        STACK_SHARE
    } else {
        0.0
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

/// Scope of the measurement, for both directions.
struct Scope {
    sizes: Vec<usize>,
    /// The kernel's paths, each in one mode or more.
    kernel: Vec<(PathId, Mode)>,
    /// The modes that there is no time for.
    left_out: Vec<(PathId, Mode)>,
}

impl Scope {
    /// All that the options want, or as much of it as there is time for, chosen at the first call. With less time fewer sizes are
    /// measured, and the first path alone in all modes.
    fn of(context: &Context<'_>) -> Result<Rc<Self>, Error> {
        context.once(
            |_| true,
            || Ok(Self::within(context.remaining(), &context.options)),
        )
    }

    fn within(time: Option<Duration>, options: &Options) -> Self {
        let mut kernel = kernel_modes(options);
        let stack = stack_share(options);
        let all = options.sizes_or(&SIZES);
        let takes = EACH_SIZE.mul_f64((kernel.len() as f64 + stack) * all.len() as f64);
        if time.is_none_or(|time| time >= takes) {
            return Self {
                sizes: all,
                kernel,
                left_out: Vec::new(),
            };
        }
        let first = kernel.first().map(|(path, _)| *path);
        let mut shown = Vec::new();
        let is_other = |(path, _): &mut (PathId, Mode)| {
            let is_other = Some(*path) != first && shown.contains(path);
            shown.push(*path);
            is_other
        };
        let mut left_out: Vec<(PathId, Mode)> = kernel.extract_if(.., is_other).collect();
        let time = time.unwrap_or_default();
        let takes_at_least = |kernel: &[(PathId, Mode)], sizes: &[usize]| {
            let modes = kernel.iter().map(|(_, mode)| least(*mode));
            let of_stack = LEAST.mul_f64(stack);
            (modes.sum::<Duration>() + of_stack).mul_f64(sizes.len() as f64)
        };
        let mut sizes = options.sizes_or(&FEW_SIZES);
        if takes_at_least(&kernel, &sizes) > time {
            sizes = options.sizes_or(&ONE_SIZE);
        }
        // The first mode stays, however short the time is.
        while kernel.len() > 1 && takes_at_least(&kernel, &sizes) > time {
            left_out.extend(kernel.pop());
        }
        Self {
            sizes,
            kernel,
            left_out,
        }
    }

    /// Notes on what is left out.
    fn notes(&self) -> impl Iterator<Item = TrustLine> {
        self.left_out.iter().map(|(path, mode)| {
            present::note(format!(
                "{path}, {mode}, is left out, since time is short; `tollgate experiment run wolman-receive --path {path}` measures it"
            ))
        })
    }
}

/// Rows and trust of several paths.
#[derive(Default)]
struct Gathered {
    parts: Vec<PathRows>,
    trust: Vec<TrustLine>,
    /// The first reason why a path was left out.
    refused: Option<Error>,
}

impl Gathered {
    fn add(&mut self, part: PathRows, trust: Vec<TrustLine>) {
        self.parts.push(part);
        self.trust.extend(trust);
    }

    fn leave_out(&mut self, path: PathId, error: Error) {
        self.trust
            .push(present::warning(format!("{path} is left out: {error}")));
        self.refused.get_or_insert(error);
    }

    fn finish(mut self, wolman: &Wolman, sizes: &[usize], command: &str) -> Result<Content, Error> {
        if self.parts.is_empty() {
            return Err(self.refused.unwrap_or(Error::NothingToRun {
                workload: Workload::Rr,
                asked: "the paths that have gates".to_owned(),
            }));
        }
        disturbed_first(&mut self.trust);
        let joined = CombinedTable {
            wolman,
            sizes,
            parts: &self.parts,
        };
        Ok(Content {
            finding: joined.finding(),
            tables: joined.tables(),
            figures: joined.figures(command),
            trust: self.trust,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_of_time_fewer_sizes_and_modes_are_measured() {
        let options = Options::default();
        let whole = Scope::within(None, &options);
        assert_eq!(whole.sizes, SIZES);
        assert!(whole.left_out.is_empty() && whole.notes().count() == 0);
        let enough = Scope::within(Some(Duration::from_secs(3_600)), &options);
        assert_eq!(
            (enough.sizes, enough.kernel),
            (whole.sizes.clone(), whole.kernel.clone())
        );
        let short = Scope::within(Some(Duration::from_secs(8)), &options);
        assert_eq!(short.sizes, FEW_SIZES);
        // Each path is there, and what is not is told.
        assert_eq!(
            short.kernel.len() + short.left_out.len(),
            whole.kernel.len()
        );
        for (path, _) in &short.left_out {
            assert!(short.kernel.iter().any(|(shown, _)| shown == path));
        }
        let first = whole.kernel[0].0;
        let modes = |scope: &Scope, wanted| {
            let modes = scope.kernel.iter().filter(|(path, _)| *path == wanted);
            modes.count()
        };
        assert_eq!(modes(&short, first), modes(&whole, first));
        assert!(
            whole
                .kernel
                .iter()
                .all(|(path, _)| *path == first || modes(&short, *path) == 1)
        );
    }

    #[test]
    fn very_short_of_time_one_size_and_the_first_mode_are_measured() {
        let options = Options::default();
        let whole = Scope::within(None, &options);
        let three = Scope::within(Some(Duration::from_secs(3)), &options);
        assert_eq!(three.sizes, ONE_SIZE);
        assert!(three.kernel.len() > 1);
        let least = Scope::within(Some(Duration::from_millis(100)), &options);
        assert_eq!(least.kernel, whole.kernel[..1]);
        assert_eq!(
            least.kernel.len() + least.left_out.len(),
            whole.kernel.len()
        );
    }

    #[test]
    fn sizes_of_the_user_stay() {
        let options = Options {
            sizes: Some(vec![64]),
            ..Options::default()
        };
        let short = Scope::within(Some(Duration::from_millis(1)), &options);
        assert_eq!(short.sizes, [64]);
    }
}

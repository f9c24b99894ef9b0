//! The processor time of one-way streams over kernel sockets, by size of a write: what `foong-hz`, `foong-direction` and
//! `foong-profile` show.
//!
//! The streams are those of ttcp in Foong et al. 2003, section 2.2: both ends reuse a buffer of the transfer's size. To go beyond
//! the last-level cache, writes and reads walk through twice its size of memory. The ends have a processor each where there are
//! two.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tollgate_run::{Mode, PathId, Placement, Waiting, Workload, format};
use tollgate_sampling::{Categories, Classifier, last_level_cache};
use tollgate_workload::{Sockets, Spec, find};

use crate::context::{Context, Options};
use crate::echoes::kernel_paths;
use crate::error::Error;
use crate::sampled::{self, Mean, Sampled, Split, Subject, Survey};

/// Sizes of a write: powers of two from 64 bytes to 64 KiB.
const SIZES: [usize; 11] = [
    64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536,
];
/// The same, when time is short.
const FEW: [usize; 4] = [64, 1_024, 8_192, 65_536];
/// For each size, when nobody is in a hurry.
const EACH: Duration = Duration::from_millis(1_500);
/// With less for each, fewer sizes are measured.
const LEAST: Duration = Duration::from_millis(120);
/// The write that walks through more memory than the last cache holds.
const BEYOND: usize = 65_536;
/// The most memory that each end walks through.
const MOST_MEMORY: usize = 512 << 20;

/// One way of writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Load {
    /// Bytes of a write and of a read.
    pub(crate) size: usize,
    /// Bytes of memory that they walk through.
    pub(crate) memory: usize,
}

impl Load {
    /// Writes from one buffer of their size.
    pub(crate) fn in_cache(size: usize) -> Self {
        Self { size, memory: size }
    }

    /// Writes through twice the last-level cache of the machine under `root`, or why not.
    pub(crate) fn beyond_cache(root: &Path) -> Result<Self, String> {
        let cache = last_level_cache(root).map_err(|error| error.to_string())?;
        let memory = 2 * cache;
        if memory > MOST_MEMORY {
            return Err(format!(
                "twice the last-level cache is {} bytes, more than the {} that each end may take",
                format::whole(memory as u64),
                format::whole(MOST_MEMORY as u64)
            ));
        }
        Ok(Self {
            size: BEYOND,
            memory,
        })
    }

    /// The name of its row.
    pub(crate) fn label(&self) -> String {
        if self.is_in_cache() {
            format::size(self.size)
        } else {
            format!(
                "{} through {} MiB",
                format::size(self.size),
                format::whole((self.memory >> 20) as u64)
            )
        }
    }

    /// Tells whether one buffer is used again and again.
    pub(crate) fn is_in_cache(&self) -> bool {
        self.memory == self.size
    }

    /// The spec of its stream.
    pub(crate) fn spec(&self, mode: Mode, sockets: Sockets) -> Spec {
        Spec::new(Workload::Stream, self.size)
            .with_mode(mode.placement, mode.waiting)
            .over(Sockets {
                memory: self.memory,
                ..sockets
            })
    }
}

/// One path.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) path: PathId,
    /// The place of the first load among the survey's subjects.
    pub(crate) first: usize,
    /// The rounds of each load by direction.
    pub(crate) splits: Vec<Vec<Split>>,
}

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) survey: Survey,
    pub(crate) directions: Categories,
    pub(crate) loads: Vec<Load>,
    /// The reason why none goes beyond the last cache.
    pub(crate) no_beyond: Option<String>,
    /// Tells whether sizes were left out to end in time.
    pub(crate) cut: bool,
    pub(crate) panels: Vec<Panel>,
}

/// The mode of a path: blocking, on two cores where there are two, unless the options want otherwise.
pub(crate) fn mode(path: PathId, options: &Options) -> Option<Mode> {
    let modes: Vec<Mode> = options
        .modes(&find(path)?.capabilities())
        .into_iter()
        .filter(|mode| mode.waiting == Waiting::Blocking)
        .collect();
    let two = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    let fits = |mode: &&Mode| two || mode.placement == Placement::OneCore;
    modes.iter().find(fits).copied()
}

/// The paths that carry such streams as the options want.
pub(crate) fn stream_paths(options: &Options) -> Vec<PathId> {
    let mut paths = kernel_paths(options);
    paths.retain(|&path| mode(path, options).is_some());
    paths
}

/// Measures.
///
/// # Errors
/// [`Error::NothingToRun`], and as [`sampled::survey`].
pub(crate) fn of(
    experiment: &'static str,
    context: &Context<'_>,
) -> Result<Rc<Sampled<Streams>>, Error> {
    context.once(|_| true, || run(experiment, context))
}

fn run(experiment: &'static str, context: &Context<'_>) -> Result<Sampled<Streams>, Error> {
    let options = &context.options;
    let paths = stream_paths(options);
    if paths.is_empty() {
        return Err(Error::NothingToRun {
            workload: Workload::Stream,
            asked: options.restrictions(),
        });
    }
    let whole = LEAST * ((SIZES.len() + 1) * paths.len()) as u32;
    let cut = options.sizes.is_none() && context.remaining().is_some_and(|left| left < whole);
    let sizes = options.sizes_or(if cut { &FEW } else { &SIZES });
    let mut loads: Vec<Load> = sizes.iter().copied().map(Load::in_cache).collect();
    let beyond = Load::beyond_cache(Path::new("/"));
    loads.extend(beyond.iter().cloned());
    let mut subjects = Vec::new();
    let mut panels = Vec::new();
    for &path in &paths {
        let Some(mode) = mode(path, options) else {
            continue;
        };
        panels.push(Panel {
            path,
            first: subjects.len(),
            splits: Vec::new(),
        });
        subjects.extend(loads.iter().map(|load| Subject {
            label: format!("{path}, {}", load.label()),
            path,
            spec: load.spec(mode, Sockets::PLAIN),
        }));
    }
    let survey = match sampled::survey(experiment, subjects, EACH, context)? {
        Sampled::Measured(survey) => survey,
        Sampled::Unavailable(reason) => return Ok(Sampled::Unavailable(reason)),
    };
    let directions = Categories::direction();
    let mut classifier = Classifier::new(directions.clone());
    for panel in &mut panels {
        panel.splits = (panel.first..panel.first + loads.len())
            .map(|at| survey.splits(at, &mut classifier))
            .collect();
    }
    Ok(Sampled::Measured(Streams {
        survey,
        directions,
        loads,
        no_beyond: beyond.err(),
        cut,
        panels,
    }))
}

/// The places of the directions in [`Categories::direction`], and of what is neither.
pub(crate) const TRANSMIT: usize = 0;
pub(crate) const RECEIVE: usize = 1;
pub(crate) const NEITHER: usize = 2;

/// ns of the process's user mode.
pub(crate) fn user_ns(split: &Split) -> f64 {
    split.ns(split.breakdown.user.weight)
}

/// ns in the kernel and in user mode, both ends.
pub(crate) fn all_ns(split: &Split) -> f64 {
    split.total_ns() + user_ns(split)
}

/// The mean over rounds of a figure for each byte carried.
pub(crate) fn per_byte(rounds: &[Split], figure: impl Fn(&Split) -> f64) -> Option<Mean> {
    let values: Vec<f64> = rounds
        .iter()
        .filter(|split| split.bytes > 0)
        .map(|split| figure(split) / split.bytes as f64)
        .collect();
    Mean::of(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_cache_is_twice_its_size_or_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let reason = Load::beyond_cache(root.path()).unwrap_err();
        assert!(reason.contains("shows no cache"), "{reason}");
        let cache = root.path().join("sys/devices/system/cpu/cpu0/cache/index3");
        std::fs::create_dir_all(&cache).unwrap();
        std::fs::write(cache.join("level"), "3").unwrap();
        std::fs::write(cache.join("size"), "32M").unwrap();
        let load = Load::beyond_cache(root.path()).unwrap();
        assert_eq!((load.size, load.memory), (65_536, 64 << 20));
        assert_eq!(load.label(), "65,536 B through 64 MiB");
        std::fs::write(cache.join("size"), "1G").unwrap();
        assert!(Load::beyond_cache(root.path()).is_err());
    }

    #[test]
    fn a_stream_in_the_cache_reuses_one_buffer() {
        let load = Load::in_cache(64);
        assert!(load.is_in_cache());
        let mode = mode(PathId::KernelLoopback, &Options::default()).unwrap();
        assert_eq!(load.spec(mode, Sockets::PLAIN).sockets.memory, 64);
    }
}

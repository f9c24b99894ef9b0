//! Other activity during a run: load before it, processor time that a hypervisor took away during it.
//!
//! It reads `/proc` and says what the reader must know; it measures no network and decides on no number.

use std::path::{Path, PathBuf};

use tollgate_run::format::counted;

/// Above this load per processor before the run, others were busy on the same processors.
const BUSY: f64 = 0.25;
/// Above this share of processor time taken away, times are too long.
const STOLEN: f64 = 0.01;

/// Watches from the start of a run.
#[derive(Debug)]
pub struct Noise {
    root: PathBuf,
    load: Option<f64>,
    times: Option<Times>,
}

/// Processor time since the machine started, in ticks, all processors together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    stolen: u64,
    all: u64,
}

impl Noise {
    /// Starts to watch this machine.
    #[must_use]
    pub fn begin() -> Self {
        Self::begin_in(Path::new("/"))
    }

    /// Starts to watch the machine whose `proc` lies under `root`.
    #[must_use]
    pub fn begin_in(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            load: load(root),
            times: times(root),
        }
    }

    /// The load average of the minute before the run; `None` when it cannot be read.
    #[must_use]
    pub fn load(&self) -> Option<f64> {
        self.load
    }

    /// Remarks on a run on `cores` processors that ends now.
    #[must_use]
    pub fn end(&self, cores: u32) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(load) = self.load
            && load > BUSY * f64::from(cores)
        {
            warnings.push(format!(
                "the load average was {load:.2} on {} before the run: others were busy, so times are longer and vary more \
                 than on an idle machine",
                counted(cores.into(), "processor", "processors")
            ));
        }
        if let (Some(begin), Some(end)) = (self.times, times(&self.root)) {
            let all = end.all.saturating_sub(begin.all);
            let stolen = end.stolen.saturating_sub(begin.stolen);
            if all > 0 && stolen as f64 / all as f64 > STOLEN {
                warnings.push(format!(
                    "the hypervisor took away {:.0} % of the processor time during the run; means and high \
                     percentiles are too long",
                    100.0 * stolen as f64 / all as f64
                ));
            }
        }
        warnings
    }
}

/// The first number of `/proc/loadavg`: the load of the last minute.
fn load(root: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(root.join("proc/loadavg")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal (proc(5)); what follows is part of
/// user and nice.
fn times(root: &Path) -> Option<Times> {
    let text = std::fs::read_to_string(root.join("proc/stat")).ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    Some(Times {
        stolen: *ticks.get(7)?,
        all: ticks.iter().sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(load: &str, stat: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/loadavg"), load).unwrap();
        std::fs::write(root.path().join("proc/stat"), stat).unwrap();
        root
    }

    #[test]
    fn a_quiet_machine_gives_no_warning() {
        let root = machine("0.10 0.5 0.5 1/100 5", "cpu  10 0 10 70 0 0 0 0 0 0\n");
        let noise = Noise::begin_in(root.path());
        std::fs::write(
            root.path().join("proc/stat"),
            "cpu  60 0 60 80 0 0 0 1 0 0\n",
        )
        .unwrap();
        assert_eq!(noise.end(2), [""; 0]);
        assert_eq!(noise.load(), Some(0.1));
    }

    #[test]
    fn load_and_stolen_time_are_told() {
        let root = machine("1.50 0.5 0.5 1/100 5", "cpu  10 0 10 70 0 0 0 0 0 0\n");
        let noise = Noise::begin_in(root.path());
        std::fs::write(
            root.path().join("proc/stat"),
            "cpu  60 0 10 100 0 0 0 20 5 5\n",
        )
        .unwrap();
        let warnings = noise.end(2);
        assert!(warnings[0].contains("1.50 on 2 processors"), "{warnings:?}");
        assert!(warnings[1].contains("20 %"), "{warnings:?}");
    }

    #[test]
    fn what_cannot_be_read_is_not_told() {
        let root = machine("nonsense", "cpu  1 2\n");
        assert_eq!(Noise::begin_in(root.path()).end(2), [""; 0]);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(Noise::begin_in(empty.path()).end(2), [""; 0]);
    }
}

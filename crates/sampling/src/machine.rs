//! Properties of the machine that bear on processor time: the last cache's size, the processors' frequency, the
//! traffic to memory.
//!
//! All is read under a root, so that tests can show both a machine that has it and one that has not. A missing
//! property is an error that names the remedy; nothing is guessed. A frequency that was set is given back when its
//! guard is dropped.

use std::path::{Path, PathBuf};

/// The reason why the machine does not tell, or does not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The kernel shows no caches.
    #[error("{} shows no cache; a hypervisor may hide them", path.display())]
    NoCaches {
        /// The path of the file.
        path: PathBuf,
    },
    /// The frequency cannot be read or set.
    #[error(
        "{} does not exist: the kernel has no cpufreq driver here, as in most virtual machines",
        path.display()
    )]
    NoCpufreq {
        /// The path of the file.
        path: PathBuf,
    },
    /// No counter of memory traffic.
    #[error("no counter of memory traffic: {resctrl}; {uncore}")]
    NoTraffic {
        /// The reason why resctrl does not tell.
        resctrl: String,
        /// The reason why the memory controllers do not tell.
        uncore: String,
    },
    /// A file could not be read or written, or holds something else.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Fault of it.
        problem: String,
    },
}

fn file_error(path: &Path, problem: impl ToString) -> MachineError {
    MachineError::File {
        path: path.to_owned(),
        problem: problem.to_string(),
    }
}

fn read(path: &Path) -> Result<String, MachineError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(file_error(path, error)),
    }
}

fn number(path: &Path) -> Result<u64, MachineError> {
    let text = read(path)?;
    text.parse()
        .map_err(|_| file_error(path, format!("`{text}` is no whole number")))
}

/// The entries of a directory whose names begin so, by name; none when it cannot be read.
fn entries(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// The size of the last-level cache of the first processor, in bytes.
///
/// # Errors
/// [`MachineError::NoCaches`].
pub fn last_level_cache(root: &Path) -> Result<usize, MachineError> {
    let path = root.join("sys/devices/system/cpu/cpu0/cache");
    entries(&path, "index")
        .iter()
        .filter_map(|cache| {
            let level = number(&cache.join("level")).ok()?;
            Some((level, bytes(&read(&cache.join("size")).ok()?)?))
        })
        .max()
        .map(|(_, size)| size)
        .ok_or(MachineError::NoCaches { path })
}

/// `512K`, `32M`, in bytes.
fn bytes(text: &str) -> Option<usize> {
    let (digits, scale) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) if text.ends_with('K') => (digits, 1 << 10),
        Some(digits) if text.ends_with('M') => (digits, 1 << 20),
        Some(digits) => (digits, 1 << 30),
        None => (text, 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(scale)
}

/// The frequency at which the first processor says that it runs, in Hz, from `/proc/cpuinfo`: the nominal one where nothing
/// changes it.
///
/// # Errors
/// [`MachineError::File`] when it does not say.
pub fn nominal_hz(root: &Path) -> Result<f64, MachineError> {
    let path = root.join("proc/cpuinfo");
    read(&path)?
        .lines()
        .find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == "cpu MHz").then(|| value.trim().parse::<f64>().ok())?
        })
        .filter(|mhz| *mhz > 0.0)
        .map(|mhz| mhz * 1e6)
        .ok_or_else(|| file_error(&path, "it names no `cpu MHz`"))
}

/// The frequencies that processors can be set to (cpufreq).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frequencies {
    processors: Vec<PathBuf>,
    /// In kHz, ascending.
    steps: Vec<u64>,
    lowest: u64,
}

impl Frequencies {
    /// Frequencies that these processors can be set to.
    ///
    /// # Errors
    /// [`MachineError::NoCpufreq`], or a file that holds something else.
    pub fn read(root: &Path, cpus: &[usize]) -> Result<Self, MachineError> {
        let processors: Vec<PathBuf> = cpus
            .iter()
            .map(|cpu| root.join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq")))
            .collect();
        let first = processors.first().ok_or_else(|| MachineError::NoCpufreq {
            path: root.join("sys/devices/system/cpu"),
        })?;
        if let Some(path) = processors.iter().find(|path| !path.is_dir()) {
            return Err(MachineError::NoCpufreq { path: path.clone() });
        }
        let lowest = number(&first.join("cpuinfo_min_freq"))?;
        let highest = number(&first.join("cpuinfo_max_freq"))?;
        let listed = read(&first.join("scaling_available_frequencies")).unwrap_or_default();
        let mut steps: Vec<u64> = listed
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        if steps.is_empty() {
            steps = vec![lowest, u64::midpoint(lowest, highest), highest];
        }
        steps.sort_unstable();
        steps.dedup();
        Ok(Self {
            processors,
            steps,
            lowest,
        })
    }

    /// The frequencies in kHz, ascending: those that the driver lists, or its lowest, middle and highest.
    #[must_use]
    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// Holds the processors at this frequency until the guard is dropped.
    ///
    /// # Errors
    /// Errors of the system, such as missing rights; the previous setting is given back then.
    pub fn hold(&self, khz: u64) -> Result<FrequencyGuard, MachineError> {
        let mut guard = FrequencyGuard {
            before: Vec::new(),
            lowest: self.lowest,
        };
        for processor in &self.processors {
            let least = number(&processor.join("scaling_min_freq"))?;
            let most = number(&processor.join("scaling_max_freq"))?;
            guard.before.push((processor.clone(), least, most));
            set(processor, self.lowest, khz, khz)?;
        }
        Ok(guard)
    }
}

/// Bounds a processor's frequency. The lower bound goes first to the lowest, since it may never lie above the upper.
fn set(processor: &Path, lowest: u64, least: u64, most: u64) -> Result<(), MachineError> {
    for (name, khz) in [
        ("scaling_min_freq", lowest),
        ("scaling_max_freq", most),
        ("scaling_min_freq", least),
    ] {
        let path = processor.join(name);
        std::fs::write(&path, khz.to_string()).map_err(|error| file_error(&path, error))?;
    }
    Ok(())
}

/// Processors that are held at a frequency; dropping it gives them back their bounds.
#[derive(Debug)]
pub struct FrequencyGuard {
    before: Vec<(PathBuf, u64, u64)>,
    lowest: u64,
}

impl Drop for FrequencyGuard {
    fn drop(&mut self) {
        for (processor, least, most) in &self.before {
            // What could be written before can be written again; else there is nobody to tell.
            let _ = set(processor, self.lowest, *least, *most);
        }
    }
}

/// Counts the bytes that go to and come from memory.
#[derive(Debug)]
pub struct TrafficMeter {
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// A file for each last-level cache that counts bytes.
    Resctrl(Vec<PathBuf>),
    /// Counters of the memory controllers, each with its bytes per count.
    Uncore(Vec<(uncore::Counter, f64)>),
}

impl TrafficMeter {
    /// The machine's counters, whichever there are.
    ///
    /// # Errors
    /// [`MachineError::NoTraffic`] with both reasons.
    pub fn open(root: &Path) -> Result<Self, MachineError> {
        let resctrl = match resctrl(root) {
            Ok(files) => {
                let meter = Self {
                    source: Source::Resctrl(files),
                };
                match meter.bytes() {
                    Ok(_) => return Ok(meter),
                    Err(error) => error.to_string(),
                }
            }
            Err(reason) => reason,
        };
        match uncore::open(root) {
            Ok(counters) => Ok(Self {
                source: Source::Uncore(counters),
            }),
            Err(uncore) => Err(MachineError::NoTraffic { resctrl, uncore }),
        }
    }

    /// Name of the counter.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.source {
            Source::Resctrl(_) => "resctrl",
            Source::Uncore(_) => "counters of the memory controllers",
        }
    }

    /// Bytes so far, all processors together.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn bytes(&self) -> Result<f64, MachineError> {
        match &self.source {
            Source::Resctrl(files) => files
                .iter()
                .map(|path| number(path).map(|bytes| bytes as f64))
                .sum(),
            Source::Uncore(counters) => counters
                .iter()
                .map(|(counter, scale)| match counter.read() {
                    Ok(count) => Ok(count as f64 * scale),
                    Err(error) => Err(file_error(Path::new("perf_event_open"), error)),
                })
                .sum(),
        }
    }
}

/// The files of resctrl that count all bytes (Documentation/filesystems/resctrl.rst), or why there are none.
fn resctrl(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mount = root.join("sys/fs/resctrl");
    if !mount.is_dir() {
        return Err("the kernel or the processor has no resctrl".to_owned());
    }
    let data = mount.join("mon_data");
    if !data.is_dir() {
        return Err(format!(
            "{} is not mounted (mount -t resctrl resctrl /sys/fs/resctrl), or the processor does not monitor",
            mount.display()
        ));
    }
    let files: Vec<PathBuf> = entries(&data, "mon_L3_")
        .into_iter()
        .map(|domain| domain.join("mbm_total_bytes"))
        .filter(|path| path.is_file())
        .collect();
    if files.is_empty() {
        return Err("resctrl does not count memory bandwidth here".to_owned());
    }
    Ok(files)
}

/// Counters of Intel's memory controllers, as the kernel describes them under `event_source`.
mod uncore {
    use std::io;
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::path::Path;

    use perf_event_open_sys as sys;
    use perf_event_open_sys::bindings;

    use super::{entries, number, read};

    /// An open counter.
    #[derive(Debug)]
    pub(super) struct Counter(OwnedFd);

    impl Counter {
        pub(super) fn read(&self) -> io::Result<u64> {
            let mut word = [0; 8];
            rustix::io::read(&self.0, &mut word)?;
            Ok(u64::from_ne_bytes(word))
        }
    }

    /// Description of an event by the kernel: the place where it is counted, and its configuration.
    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct Event {
        pub(super) kind: u32,
        pub(super) config: u64,
        pub(super) cpu: i32,
        /// Bytes for each count.
        pub(super) scale: f64,
    }

    /// Opens all of them, or says why there are none.
    pub(super) fn open(root: &Path) -> Result<Vec<(Counter, f64)>, String> {
        let events = events(root)?;
        events
            .iter()
            .map(|event| match counter(event) {
                Ok(counter) => Ok((counter, event.scale)),
                Err(error) => Err(format!("counting at a memory controller: {error}")),
            })
            .collect()
    }

    /// Reads and writes of every memory controller.
    pub(super) fn events(root: &Path) -> Result<Vec<Event>, String> {
        let devices = root.join("sys/bus/event_source/devices");
        let controllers = entries(&devices, "uncore_imc");
        let mut found = Vec::new();
        for controller in &controllers {
            for name in ["cas_count_read", "cas_count_write"] {
                if let Some(event) = event(controller, name) {
                    found.push(event);
                }
            }
        }
        if found.is_empty() {
            return Err(format!(
                "{} shows no memory controller whose reads and writes can be counted",
                devices.display()
            ));
        }
        Ok(found)
    }

    fn event(controller: &Path, name: &str) -> Option<Event> {
        let words = read(&controller.join("events").join(name)).ok()?;
        let mut config = 0;
        for word in words.split(',') {
            let (field, value) = word.split_once('=')?;
            let value = u64::from_str_radix(value.trim_start_matches("0x"), 16).ok()?;
            let place = read(&controller.join("format").join(field)).ok()?;
            let (low, _) = place.strip_prefix("config:")?.split_once('-')?;
            config |= value << low.parse::<u32>().ok().filter(|&bit| bit < 64)?;
        }
        let scale: f64 = read(&controller.join(format!("events/{name}.scale")))
            .ok()?
            .parse()
            .ok()?;
        let unit = match read(&controller.join(format!("events/{name}.unit")))
            .ok()?
            .as_str()
        {
            "MiB" => f64::from(1 << 20),
            "Bytes" => 1.0,
            _ => return None,
        };
        let cpus = read(&controller.join("cpumask")).ok()?;
        Some(Event {
            kind: number(&controller.join("type")).ok()?.try_into().ok()?,
            config,
            cpu: cpus.split([',', '-']).next()?.parse().ok()?,
            scale: scale * unit,
        })
    }

    fn counter(event: &Event) -> io::Result<Counter> {
        let mut attributes = bindings::perf_event_attr {
            type_: event.kind,
            config: event.config,
            size: size_of::<bindings::perf_event_attr>() as u32,
            ..bindings::perf_event_attr::default()
        };
        let flags = u64::from(bindings::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: the attributes are whole, of the size that they give, and live during the call.
        let fd = unsafe { sys::perf_event_open(&raw mut attributes, -1, event.cpu, -1, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made this descriptor, and nothing else knows it.
        Ok(Counter(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_last_cache_is_the_one_of_the_highest_level() {
        let root = tempfile::tempdir().unwrap();
        let error = last_level_cache(root.path()).unwrap_err();
        assert!(error.to_string().contains("shows no cache"));
        for (index, level, size) in [
            (0, "1", "48K"),
            (1, "1", "32K"),
            (2, "2", "1024K"),
            (3, "3", "32M"),
        ] {
            let cache = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            write(root.path(), &format!("{cache}/level"), level);
            write(root.path(), &format!("{cache}/size"), size);
        }
        assert_eq!(last_level_cache(root.path()).unwrap(), 32 << 20);
    }

    #[test]
    fn the_frequency_is_that_of_cpuinfo() {
        let root = tempfile::tempdir().unwrap();
        assert!(nominal_hz(root.path()).is_err());
        write(
            root.path(),
            "proc/cpuinfo",
            "processor\t: 0\ncpu MHz\t\t: 2600.000\n",
        );
        assert_eq!(nominal_hz(root.path()).unwrap(), 2.6e9);
    }

    #[test]
    fn frequencies_are_held_and_given_back() {
        let root = tempfile::tempdir().unwrap();
        let error = Frequencies::read(root.path(), &[0, 1]).unwrap_err();
        assert!(error.to_string().contains("no cpufreq driver"), "{error}");
        for cpu in [0, 1] {
            let cpufreq = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
            for (name, value) in [
                ("cpuinfo_min_freq", "800000"),
                ("cpuinfo_max_freq", "2400000"),
                ("scaling_min_freq", "900000"),
                ("scaling_max_freq", "2300000"),
            ] {
                write(root.path(), &format!("{cpufreq}/{name}"), value);
            }
        }
        let frequencies = Frequencies::read(root.path(), &[0, 1]).unwrap();
        assert_eq!(frequencies.steps(), [800_000, 1_600_000, 2_400_000]);
        let bounds = |cpu: usize| {
            let cpufreq = root
                .path()
                .join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq"));
            let read = |name: &str| number(&cpufreq.join(name)).unwrap();
            (read("scaling_min_freq"), read("scaling_max_freq"))
        };
        let guard = frequencies.hold(1_600_000).unwrap();
        assert_eq!(
            (bounds(0), bounds(1)),
            ((1_600_000, 1_600_000), (1_600_000, 1_600_000))
        );
        drop(guard);
        assert_eq!(
            (bounds(0), bounds(1)),
            ((900_000, 2_300_000), (900_000, 2_300_000))
        );
        write(
            root.path(),
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_available_frequencies",
            "2400000 1200000 800000 \n",
        );
        let listed = Frequencies::read(root.path(), &[0, 1]).unwrap();
        assert_eq!(listed.steps(), [800_000, 1_200_000, 2_400_000]);
    }

    #[test]
    fn memory_traffic_is_counted_by_resctrl_where_it_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        let message = TrafficMeter::open(root.path()).unwrap_err().to_string();
        assert!(
            message.contains("has no resctrl") && message.contains("no memory controller"),
            "{message}"
        );
        std::fs::create_dir_all(root.path().join("sys/fs/resctrl")).unwrap();
        let message = TrafficMeter::open(root.path()).unwrap_err().to_string();
        assert!(message.contains("mount -t resctrl"), "{message}");
        for (domain, bytes) in [("00", "1000"), ("01", "24")] {
            let file = format!("sys/fs/resctrl/mon_data/mon_L3_{domain}/mbm_total_bytes");
            write(root.path(), &file, bytes);
        }
        let meter = TrafficMeter::open(root.path()).unwrap();
        assert_eq!((meter.name(), meter.bytes().unwrap()), ("resctrl", 1_024.0));
        write(
            root.path(),
            "sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes",
            "Unavailable",
        );
        assert!(
            meter
                .bytes()
                .unwrap_err()
                .to_string()
                .contains("`Unavailable`")
        );
    }

    #[test]
    fn memory_controllers_are_read_as_the_kernel_describes_them() {
        let root = tempfile::tempdir().unwrap();
        let imc = "sys/bus/event_source/devices/uncore_imc_0";
        for (name, text) in [
            ("type", "14"),
            ("cpumask", "0-1"),
            ("format/event", "config:0-7"),
            ("format/umask", "config:8-15"),
            ("events/cas_count_read", "event=0x04,umask=0x03"),
            ("events/cas_count_read.scale", "6.103515625e-5"),
            ("events/cas_count_read.unit", "MiB"),
        ] {
            write(root.path(), &format!("{imc}/{name}"), text);
        }
        let events = uncore::events(root.path()).unwrap();
        assert_eq!(
            events,
            [uncore::Event {
                kind: 14,
                config: 0x304,
                cpu: 0,
                // A cache line.
                scale: 64.0,
            }]
        );
    }
}

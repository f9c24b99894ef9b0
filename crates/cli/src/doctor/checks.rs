//! Checks of the doctor, one function each.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity};
use tollgate_checksum::Kernel;
use tollgate_experiment::noise::Noise;
use tollgate_gate::{Clock, Source};
use tollgate_run::{Host, Placement, Reading, format::counted};
use tollgate_workload::cores::Cores;

use super::{Check, State, privileges};

/// Load per processor above which others disturb.
const BUSY: f64 = 0.25;

/// All checks, the most important first.
pub(super) fn all(time: &Clock) -> Vec<Check> {
    let host = Host::read();
    let mut checks = vec![
        build(),
        kernel(&host),
        clock(time),
        cores(),
        load(&host),
        hypervisor(&host),
        governor(&host),
        checksum(),
        valgrind(),
        counters(Path::new("/")),
        root(rustix::process::geteuid().is_root()),
    ];
    checks.extend(privileges::all(Path::new("/")));
    checks.extend([
        congestion(Path::new("/")),
        huge_pages(Path::new("/")),
        chromium(),
    ]);
    checks
}

pub(super) fn check(
    name: impl Into<Cow<'static, str>>,
    state: State,
    found: impl Into<String>,
) -> Check {
    Check {
        name: name.into(),
        state,
        found: found.into(),
        advice: None,
    }
}

impl Check {
    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// The content of a file without the blanks at its ends.
pub(super) fn read(root: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(root.join(path))
        .ok()
        .map(|text| text.trim().to_owned())
}

/// The program's file, when it is on the PATH.
fn on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn build() -> Check {
    if cfg!(debug_assertions) {
        check(
            "build",
            State::Improvable,
            "debug: many times slower than release",
        )
        .advice("cargo build --release -p tollgate")
    } else {
        check("build", State::Good, "release")
    }
}

fn kernel(host: &Host) -> Check {
    match (&host.kernel, &host.cpu_model) {
        (Reading::Value { value: kernel }, Reading::Value { value: model }) => {
            check("system", State::Good, format!("Linux {kernel}, {model}"))
        }
        (Reading::NotAvailable { reason }, _) | (_, Reading::NotAvailable { reason }) => {
            check("system", State::Improvable, reason.clone())
        }
    }
}

fn clock(clock: &Clock) -> Check {
    let cost = clock.cost_ns();
    let facts = format!(
        "{:.0} ns to read, {:.0} ns in order, steps of {:.0} ns",
        cost.plain_ns,
        cost.ordered_ns,
        clock.resolution_ns()
    );
    match clock.source() {
        Source::Tsc { hz } => check(
            "clock",
            State::Good,
            format!(
                "invariant TSC, {:.3} GHz within {:.1} ppm, {facts}",
                hz as f64 / 1e9,
                clock.error_ppm()
            ),
        ),
        Source::MonotonicRaw { reason } => check(
            "clock",
            State::Improvable,
            format!("CLOCK_MONOTONIC_RAW, since {reason}; {facts}"),
        )
        .advice("use a machine whose TSC is invariant and whose kernel has the clock source tsc"),
    }
}

fn cores() -> Check {
    let allowed = sched_getaffinity(None)
        .map(|mask: CpuSet| mask.count())
        .unwrap_or(0);
    match Cores::choose(Placement::TwoCores) {
        Ok(cores) if cores.siblings => check(
            "cores",
            State::Improvable,
            format!("the ends run on {}", cores.describe()),
        )
        .advice("allow two physical cores: taskset -c with CPUs of different cores"),
        Ok(cores) => check(
            "cores",
            State::Good,
            format!("{allowed} allowed; the ends run on {}", cores.describe()),
        ),
        Err(error) => check("cores", State::Missing, error.to_string())
            .advice("allow two CPUs: taskset, or the container's cpuset"),
    }
}

fn load(host: &Host) -> Check {
    let cores = host.cores.value().copied().unwrap_or(1);
    let processors = counted(cores.into(), "processor", "processors");
    match Noise::begin().load() {
        None => check("load", State::Improvable, "/proc/loadavg cannot be read"),
        Some(load) if load > BUSY * f64::from(cores) => check(
            "load",
            State::Improvable,
            format!("{load:.2} on {processors}: others are busy"),
        )
        .advice("wait until they are done, or stop them; intervals grow with them"),
        Some(load) => check("load", State::Good, format!("{load:.2} on {processors}")),
    }
}

fn hypervisor(host: &Host) -> Check {
    match &host.hypervisor {
        Reading::Value { value } if value == "none" => {
            check("hypervisor", State::Good, "none: bare metal")
        }
        Reading::Value { value } => check(
            "hypervisor",
            State::Improvable,
            format!("{value}: it may take processors away, and hides counters"),
        ),
        Reading::NotAvailable { reason } => check("hypervisor", State::Improvable, reason.clone()),
    }
}

fn governor(host: &Host) -> Check {
    match &host.governor {
        Reading::Value { value } if value == "performance" => {
            check("governor", State::Good, "performance")
        }
        Reading::Value { value } => check(
            "governor",
            State::Improvable,
            format!("{value}: the frequency may change during a run"),
        )
        .advice("cpupower frequency-set -g performance (as root)"),
        Reading::NotAvailable { reason } => check(
            "governor",
            State::Improvable,
            format!("not available: {reason}"),
        ),
    }
}

fn checksum() -> Check {
    check(
        "checksum",
        State::Good,
        format!(
            "{} kernel, chosen for this processor",
            Kernel::best().name()
        ),
    )
}

fn valgrind() -> Check {
    let missing = || {
        check(
            "valgrind",
            State::Missing,
            "not installed, so clark-instructions cannot count",
        )
        .advice("apt-get install valgrind")
    };
    if on_path("valgrind").is_none() {
        return missing();
    }
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) if output.status.success() => check(
            "valgrind",
            State::Good,
            format!(
                "{}: exact instruction counts",
                String::from_utf8_lossy(&output.stdout).trim()
            ),
        ),
        Ok(_) | Err(_) => missing(),
    }
}

fn counters(root: &Path) -> Check {
    if root.join("sys/bus/event_source/devices/cpu").exists()
        || root.join("sys/bus/event_source/devices/cpu_core").exists()
    {
        check(
            "counters",
            State::Good,
            "the processor's counters can be read",
        )
    } else {
        check(
            "counters",
            State::Improvable,
            "no hardware counters here: cycles and cache misses are not available",
        )
    }
}

fn root(is_root: bool) -> Check {
    if is_root {
        check("privileges", State::Good, "root")
    } else {
        check(
            "privileges",
            State::Improvable,
            "not root: the kernel's gates take it, and so do paths below that say so",
        )
    }
}

fn congestion(root: &Path) -> Check {
    let all = read(root, "proc/sys/net/ipv4/tcp_available_congestion_control");
    let usual = read(root, "proc/sys/net/ipv4/tcp_congestion_control");
    match (all, usual) {
        (Some(all), usual) if all.split_whitespace().any(|one| one == "cubic") => check(
            "congestion",
            State::Good,
            format!(
                "cubic is set for measured sockets (the system's choice is {})",
                usual.as_deref().unwrap_or("unknown")
            ),
        ),
        (_, Some(usual)) => check(
            "congestion",
            State::Improvable,
            format!("{usual}: cubic is not there, so runs compare badly with others"),
        )
        .advice("modprobe tcp_cubic (as root)"),
        (_, None) => check(
            "congestion",
            State::Improvable,
            "/proc/sys/net/ipv4/tcp_congestion_control cannot be read",
        ),
    }
}

fn huge_pages(root: &Path) -> Check {
    let text = read(root, "sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = text
        .as_deref()
        .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned()));
    match chosen {
        Some(chosen) if chosen != "never" => {
            check("huge pages", State::Good, format!("transparent: {chosen}"))
        }
        Some(_) => check(
            "huge pages",
            State::Improvable,
            "transparent huge pages are off: more TLB misses with many connections",
        )
        .advice("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)"),
        None => check(
            "huge pages",
            State::Improvable,
            "this kernel does not tell of transparent huge pages",
        ),
    }
}

fn chromium() -> Check {
    let browser = ["chromium", "chromium-browser", "google-chrome", "firefox"]
        .into_iter()
        .find(|program| on_path(program).is_some());
    match browser {
        Some(program) => check(
            "browser",
            State::Good,
            format!("{program} shows the report"),
        ),
        None => check(
            "browser",
            State::Good,
            "none here; the report is one HTML file that can be copied elsewhere",
        ),
    }
}

/// A directory with these files, for tests.
#[cfg(test)]
pub(super) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_control_is_judged_by_what_can_be_set() {
        let files = |available| {
            tree(&[
                (
                    "proc/sys/net/ipv4/tcp_available_congestion_control",
                    available,
                ),
                ("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n"),
            ])
        };
        let good = congestion(files("reno cubic bbr\n").path());
        assert_eq!(good.state, State::Good);
        assert!(good.found.contains("bbr"));
        let other = congestion(files("reno bbr\n").path());
        assert_eq!(other.state, State::Improvable);
        assert!(other.advice.is_some());
        assert_eq!(congestion(tree(&[]).path()).state, State::Improvable);
    }

    #[test]
    fn huge_pages_are_read_between_the_brackets() {
        let of = |text| {
            let root = tree(&[("sys/kernel/mm/transparent_hugepage/enabled", text)]);
            huge_pages(root.path())
        };
        assert_eq!(of("always [madvise] never\n").found, "transparent: madvise");
        assert_eq!(of("always madvise [never]\n").state, State::Improvable);
        assert_eq!(huge_pages(tree(&[]).path()).state, State::Improvable);
    }

    #[test]
    fn what_takes_root_is_said_to_others() {
        assert_eq!(root(true).state, State::Good);
        let nobody = root(false);
        assert_eq!(nobody.state, State::Improvable);
        assert!(nobody.found.contains("gates take it"), "{}", nobody.found);
    }

    #[test]
    fn counters_need_a_processor_that_shows_them() {
        assert_eq!(counters(tree(&[]).path()).state, State::Improvable);
        let root = tree(&[("sys/bus/event_source/devices/cpu/type", "4")]);
        assert_eq!(counters(root.path()).state, State::Good);
    }

    #[test]
    fn every_check_has_its_own_name() {
        let checks = all(&Clock::calibrate());
        let names: std::collections::HashSet<_> = checks.iter().map(|check| &check.name).collect();
        assert_eq!(names.len(), checks.len());
        assert!(checks.iter().all(|check| !check.found.is_empty()));
    }
}

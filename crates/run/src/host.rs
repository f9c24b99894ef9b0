//! The description of the machine, read from `/proc` and `/sys`.
//!
//! Each fact is read by itself: what cannot be read says why, and nothing is guessed in its place.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Network, Reading};

/// Facts of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release, as `uname -r` prints it.
    pub kernel: Reading<String>,
    /// Name of the processor, as the kernel reports it.
    pub cpu_model: Reading<String>,
    /// Number of logical processors that are online.
    pub cores: Reading<u32>,
    /// The kernel's account of each processor vulnerability and its mitigation, by name.
    pub mitigations: Reading<Vec<Mitigation>>,
    /// The frequency governor of processor 0.
    pub governor: Reading<String>,
    /// The present frequency of processor 0 as the governor reports it, in hertz.
    pub frequency_hz: Reading<u64>,
    /// Memory that the kernel manages, in bytes.
    pub memory_bytes: Reading<u64>,
    /// The hypervisor's name, or `none` on bare metal.
    pub hypervisor: Reading<String>,
    /// The kernel's settings that networking depends on, by name, see `SYSCTLS`; not in runs of before they were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sysctls: Option<Reading<Vec<Setting>>>,
    /// Offloads of the loopback device for the protocols above it, like `lo gso`; not in runs of before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offloads: Option<Reading<Vec<Setting>>>,
    /// Obstacles of packets; not in runs of before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
}

/// A setting of the kernel or of a device, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name, like `net.ipv4.tcp_congestion_control`.
    pub name: String,
    /// Value that it is set to, in the kernel's words.
    pub state: String,
}

/// The settings that are recorded: those that decide how TCP sends, buffers, waits and is scheduled. One that a kernel does
/// not have is left out.
pub const SYSCTLS: [&str; 20] = [
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
    "net.core.bpf_jit_enable",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// One line of `/sys/devices/system/cpu/vulnerabilities`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mitigation {
    /// Name of the vulnerability, like `spectre_v2`.
    pub name: String,
    /// The kernel's words, like `Mitigation: Retpolines`.
    pub state: String,
}

impl Host {
    /// Reads the description of this machine from `/proc` and `/sys`.
    #[must_use]
    pub fn read() -> Self {
        Self::read_from(Path::new("/"))
    }

    /// Reads the description from a tree that has `proc` and `sys` under `root`.
    #[must_use]
    pub fn read_from(root: &Path) -> Self {
        let tree = Tree { root };
        let cpu = "sys/devices/system/cpu";
        Self {
            kernel: tree.line("proc/sys/kernel/osrelease").into(),
            cpu_model: tree.field("proc/cpuinfo", "model name").into(),
            cores: tree
                .parse(
                    &format!("{cpu}/online"),
                    "a list of processors",
                    count_cpu_list,
                )
                .into(),
            mitigations: tree.mitigations(&format!("{cpu}/vulnerabilities")).into(),
            governor: tree
                .line(&format!("{cpu}/cpu0/cpufreq/scaling_governor"))
                .into(),
            frequency_hz: tree
                .parse(
                    &format!("{cpu}/cpu0/cpufreq/scaling_cur_freq"),
                    "kilohertz",
                    |text| text.parse::<u64>().ok()?.checked_mul(1_000),
                )
                .into(),
            memory_bytes: tree.memory().into(),
            hypervisor: tree.hypervisor().into(),
            sysctls: Some(tree.sysctls().into()),
            offloads: None,
            network: None,
        }
    }

    /// Adds what this machine does with packets beside its protocols, and what a device of it does for the protocols above it, or why that
    /// is not known.
    #[must_use]
    pub fn with_network(
        mut self,
        device: &str,
        features: Result<Vec<(&str, bool)>, String>,
    ) -> Self {
        self.network = Some(Network::read());
        let setting = |(name, on): (&str, bool)| Setting {
            name: format!("{device} {name}"),
            state: if on { "on" } else { "off" }.to_owned(),
        };
        let settings = features.map(|features| features.into_iter().map(setting).collect());
        self.offloads = Some(
            settings
                .map_err(|error| format!("the offloads of {device} cannot be read: {error}"))
                .into(),
        );
        self
    }
}

impl<T> From<Result<T, String>> for Reading<T> {
    /// The error is the reason.
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(value) => Self::Value { value },
            Err(reason) => Self::NotAvailable { reason },
        }
    }
}

/// A tree that holds `proc` and `sys`. Every error is the reason, naming the path as on the real machine.
struct Tree<'a> {
    root: &'a Path,
}

impl Tree<'_> {
    fn text(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(self.root.join(path)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("/{path} does not exist here"),
            _ => format!("/{path} cannot be read: {error}"),
        })
    }

    /// The trimmed content of a file that holds one line.
    fn line(&self, path: &str) -> Result<String, String> {
        let text = self.text(path)?;
        match text.trim() {
            "" => Err(format!("/{path} is empty")),
            line => Ok(line.to_owned()),
        }
    }

    fn parse<T>(
        &self,
        path: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, String> {
        let line = self.line(path)?;
        parse(&line).ok_or_else(|| format!("/{path} holds {line:?}, which is not {expected}"))
    }

    /// The first `name: value` of a file made of such lines.
    fn field(&self, path: &str, name: &str) -> Result<String, String> {
        let text = self.text(path)?;
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, value)| key.trim() == name && !value.trim().is_empty())
            .map(|(_, value)| value.trim().to_owned())
            .ok_or_else(|| format!("/{path} has no field {name:?}"))
    }

    fn memory(&self) -> Result<u64, String> {
        let text = self.field("proc/meminfo", "MemTotal")?;
        text.strip_suffix("kB")
            .and_then(|kib| kib.trim().parse::<u64>().ok()?.checked_mul(1_024))
            .ok_or_else(|| {
                format!("/proc/meminfo holds MemTotal {text:?}, which is not a size in kB")
            })
    }

    fn mitigations(&self, path: &str) -> Result<Vec<Mitigation>, String> {
        let entries = std::fs::read_dir(self.root.join(path))
            .map_err(|error| format!("/{path} cannot be read: {error}"))?;
        let mut mitigations = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| format!("/{path} cannot be read: {error}"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let state = self.line(&format!("{path}/{name}"))?;
            mitigations.push(Mitigation { name, state });
        }
        mitigations.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(mitigations)
    }

    fn sysctls(&self) -> Result<Vec<Setting>, String> {
        let settings: Vec<Setting> = SYSCTLS
            .iter()
            .filter_map(|name| {
                let state = self
                    .line(&format!("proc/sys/{}", name.replace('.', "/")))
                    .ok()?;
                let state = state.split_whitespace().collect::<Vec<_>>().join(" ");
                Some(Setting {
                    name: (*name).to_owned(),
                    state,
                })
            })
            .collect();
        if settings.is_empty() {
            return Err("/proc/sys holds none of the settings that are recorded".to_owned());
        }
        Ok(settings)
    }

    /// x86 tells by a processor flag whether there is a hypervisor; its name is in DMI or in Xen's own file.
    fn hypervisor(&self) -> Result<String, String> {
        if let Ok(name) = self.line("sys/hypervisor/type") {
            return Ok(name);
        }
        let flags = self.field("proc/cpuinfo", "flags").map_err(|_| {
            "this processor does not tell whether it is virtual (no flags in /proc/cpuinfo)"
                .to_owned()
        })?;
        if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
            return Ok("none".to_owned());
        }
        let dmi = |file: &str| self.line(&format!("sys/class/dmi/id/{file}")).ok();
        let words: Vec<String> = [dmi("sys_vendor"), dmi("product_name")]
            .into_iter()
            .flatten()
            .collect();
        if words.is_empty() {
            return Err("there is one (processor flag), but it does not give its name".to_owned());
        }
        Ok(words.join(" "))
    }
}

/// Counts the processors of a kernel list like `0-3,8`.
fn count_cpu_list(list: &str) -> Option<u32> {
    let mut count = 0_u32;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (
            first.trim().parse::<u32>().ok()?,
            last.trim().parse::<u32>().ok()?,
        );
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

//! Privileges of this process, and what the system's settings, mounts and namespaces have to do with it.

use std::path::Path;

use tollgate_sampling::limit;

use super::checks::{check, read};
use super::{Check, State};

/// A capability that something of ours asks for, by its number in linux/capability.h.
struct Capability {
    name: &'static str,
    number: u32,
    /// Without it the kernel's gates cannot be had.
    for_gates: bool,
}

/// CAP_SYS_ADMIN, which stands for CAP_BPF and CAP_PERFMON, too, but not for CAP_NET_ADMIN.
const SYS_ADMIN: u32 = 21;
const NET_ADMIN: u32 = 12;
const CAPABILITIES: [Capability; 6] = [
    Capability {
        name: "CAP_BPF",
        number: 39,
        for_gates: true,
    },
    Capability {
        name: "CAP_PERFMON",
        number: 38,
        for_gates: true,
    },
    Capability {
        name: "CAP_NET_ADMIN",
        number: NET_ADMIN,
        for_gates: true,
    },
    Capability {
        name: "CAP_SYS_ADMIN",
        number: SYS_ADMIN,
        for_gates: false,
    },
    Capability {
        name: "CAP_IPC_LOCK",
        number: 14,
        for_gates: false,
    },
    Capability {
        name: "CAP_SYS_RESOURCE",
        number: 24,
        for_gates: false,
    },
];

/// All checks; files are looked for below `root`.
pub(super) fn all(root: &Path) -> Vec<Check> {
    vec![
        capabilities(root),
        settings(root),
        sample_rate(root),
        lockdown(root),
        cgroups(root),
        namespace(root),
    ]
}

/// The set of effective capabilities in `/proc/self/status`.
fn effective(root: &Path) -> Option<u64> {
    let status = read(root, "proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn capabilities(root: &Path) -> Check {
    let Some(set) = effective(root) else {
        return check(
            "capabilities",
            State::Improvable,
            "/proc/self/status does not tell them",
        );
    };
    let has = |number: u32| set >> number & 1 == 1;
    let (held, lacking): (Vec<_>, Vec<_>) = CAPABILITIES.iter().partition(|one| has(one.number));
    let names = |some: &[&Capability]| {
        let names: Vec<&str> = some.iter().map(|one| one.name).collect();
        names.join(", ")
    };
    let found = match (held.as_slice(), lacking.as_slice()) {
        ([], _) => "none of those that hooks ask for".to_owned(),
        (_, []) => names(&held),
        (_, _) => format!("{}; not {}", names(&held), names(&lacking)),
    };
    let stood_for = |one: &Capability| one.number != NET_ADMIN && has(SYS_ADMIN);
    let enough = !lacking.iter().any(|one| one.for_gates && !stood_for(one));
    let state = if enough {
        State::Good
    } else {
        State::Improvable
    };
    check("capabilities", state, found)
}

fn settings(root: &Path) -> Check {
    let value = |name: &str| read(root, &format!("proc/sys/kernel/{name}"));
    let names = [
        "unprivileged_bpf_disabled",
        "perf_event_paranoid",
        "kptr_restrict",
    ];
    let found: Vec<String> = names
        .iter()
        .map(|name| {
            let value = value(name).unwrap_or_else(|| "not there".to_owned());
            format!("kernel.{name} {value}")
        })
        .collect();
    let found = found.join(", ");
    let number = |name: &str| value(name).and_then(|text| text.parse::<i32>().ok());
    let privileged =
        effective(root).is_some_and(|set| set >> 38 & 1 == 1 || set >> SYS_ADMIN & 1 == 1);
    // At 1 addresses are for those with CAP_SYSLOG.
    let sees_addresses = effective(root).is_some_and(|set| set >> 34 & 1 == 1);
    if number("kptr_restrict") == Some(2) {
        let advice = if sees_addresses {
            "sysctl kernel.kptr_restrict=1 (as root)"
        } else {
            "run as root with sysctl kernel.kptr_restrict=1, or sysctl kernel.kptr_restrict=0 (as root)"
        };
        return check(
            "settings",
            State::Improvable,
            format!("{found}: addresses are hidden even from root, so samples have no names"),
        )
        .advice(advice);
    }
    if !privileged && number("perf_event_paranoid").is_some_and(|level| level > -1) {
        return check(
            "settings",
            State::Improvable,
            format!("{found}: processors cannot be sampled without CAP_PERFMON"),
        )
        .advice("run as root, or sysctl kernel.perf_event_paranoid=-1 (as root)");
    }
    if number("kptr_restrict") == Some(1) && !sees_addresses {
        return check(
            "settings",
            State::Improvable,
            format!("{found}: addresses are hidden without CAP_SYSLOG, so samples have no names"),
        )
        .advice("run as root, or sysctl kernel.kptr_restrict=0 (as root)");
    }
    check("settings", State::Good, found)
}

/// The limit on samples, which the kernel lowers for good when samples take it long.
fn sample_rate(root: &Path) -> Check {
    let name = "sample rate";
    match limit::Limit::read_from(root).found() {
        None => check(name, State::Improvable, "the kernel has no perf events"),
        Some(rate) if rate < limit::DEFAULT => check(
            name,
            State::Improvable,
            format!("kernel.perf_event_max_sample_rate {rate}: lowered, by the kernel or by hand"),
        )
        .advice(format!(
            "sysctl kernel.perf_event_max_sample_rate={} (as root)",
            limit::DEFAULT
        )),
        Some(rate) => check(
            name,
            State::Good,
            format!("kernel.perf_event_max_sample_rate {rate}"),
        ),
    }
}

fn lockdown(root: &Path) -> Check {
    let Some(text) = read(root, "sys/kernel/security/lockdown") else {
        return check(
            "lockdown",
            State::Good,
            "this kernel reports none, or to root only",
        );
    };
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text.as_str(), |(chosen, _)| chosen);
    match chosen {
        "confidentiality" => check(
            "lockdown",
            State::Missing,
            "confidentiality: programs may not read the kernel's memory, so no gate can be taken",
        )
        .advice("boot with lockdown=integrity or none"),
        other => check("lockdown", State::Good, other),
    }
}

fn cgroups(root: &Path) -> Check {
    let mounts = read(root, "proc/self/mounts").unwrap_or_default();
    let place = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (place, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup2").then(|| place.to_owned())
    });
    match place {
        Some(place) => check("cgroup2", State::Good, format!("mounted at {place}")),
        None => check(
            "cgroup2",
            State::Improvable,
            "not mounted, so traffic cannot be told by its control group",
        )
        .advice("mount -t cgroup2 none /sys/fs/cgroup/unified (as root)"),
    }
}

fn namespace(root: &Path) -> Check {
    let of = |process: &str| {
        std::fs::read_link(root.join(format!("proc/{process}/ns/net")))
            .map(|link| link.to_string_lossy().into_owned())
    };
    match (of("self"), of("1")) {
        (Ok(own), Ok(first)) if own == first => check(
            "namespace",
            State::Good,
            format!(
                "{own}, that of process 1; netfilter links, tc and XDP belong to one namespace each"
            ),
        ),
        (Ok(own), Ok(_)) => check(
            "namespace",
            State::Good,
            format!(
                "{own}, another than that of process 1: netfilter links, tc and XDP were tried in it"
            ),
        ),
        (Ok(own), Err(_)) => check("namespace", State::Good, own),
        (Err(error), _) => check(
            "namespace",
            State::Improvable,
            format!("/proc/self/ns/net cannot be read: {error}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::checks::tree;
    use super::*;

    fn with_status(set: &str, other: &[(&str, &str)]) -> tempfile::TempDir {
        let status = format!("Name:\ttollgate\nCapEff:\t{set}\nThreads:\t1\n");
        let mut files = vec![("proc/self/status", status.as_str())];
        files.extend_from_slice(other);
        tree(&files)
    }

    #[test]
    fn capabilities_are_told_by_name() {
        let root = with_status("000001fffeffffff", &[]);
        let all = capabilities(root.path());
        assert_eq!(all.state, State::Good);
        assert_eq!(
            all.found,
            "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_IPC_LOCK; not CAP_SYS_RESOURCE"
        );
        let none = capabilities(with_status("0000000000000000", &[]).path());
        assert_eq!(
            (none.state, none.found.as_str()),
            (State::Improvable, "none of those that hooks ask for")
        );
        assert_eq!(capabilities(tree(&[]).path()).state, State::Improvable);
        // CAP_SYS_ADMIN alone stands for CAP_BPF and CAP_PERFMON; with CAP_NET_ADMIN that is all that gates ask for.
        let of = |set| capabilities(with_status(set, &[]).path()).state;
        assert_eq!(of("0000000000200000"), State::Improvable);
        assert_eq!(of("0000000000201000"), State::Good);
    }

    #[test]
    fn settings_matter_to_those_who_lack_the_capability() {
        let files = [
            ("proc/sys/kernel/unprivileged_bpf_disabled", "2\n"),
            ("proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("proc/sys/kernel/kptr_restrict", "1\n"),
        ];
        let root = settings(with_status("000001ffffffffff", &files).path());
        assert_eq!(root.state, State::Good);
        assert_eq!(
            root.found,
            "kernel.unprivileged_bpf_disabled 2, kernel.perf_event_paranoid 2, kernel.kptr_restrict 1"
        );
        let nobody = settings(with_status("0000000000000000", &files).path());
        assert_eq!(nobody.state, State::Improvable);
        assert!(nobody.advice.is_some());
    }

    #[test]
    fn settings_of_addresses_have_the_advice_for_their_value() {
        let of = |value, set| {
            let files = [
                ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
                ("proc/sys/kernel/kptr_restrict", value),
            ];
            settings(with_status(set, &files).path())
        };
        let (root, nobody) = ("000001ffffffffff", "0000000000000000");
        assert_eq!(of("0\n", nobody).state, State::Good);
        assert_eq!(of("1\n", root).state, State::Good);
        let advice = of("1\n", nobody).advice.unwrap();
        assert!(advice.contains("kptr_restrict=0"), "{advice}");
        let advice = of("2\n", root).advice.unwrap();
        assert!(advice.ends_with("kptr_restrict=1 (as root)"), "{advice}");
        let advice = of("2\n", nobody).advice.unwrap();
        assert!(advice.contains("kptr_restrict=0"), "{advice}");
    }

    #[test]
    fn sample_rates_that_were_lowered_are_told() {
        let of = |text| {
            sample_rate(tree(&[("proc/sys/kernel/perf_event_max_sample_rate", text)]).path())
        };
        assert_eq!(of("100000\n").state, State::Good);
        let lowered = of("7000\n");
        assert_eq!(lowered.state, State::Improvable);
        assert!(lowered.advice.unwrap().ends_with("=100000 (as root)"));
        assert_eq!(sample_rate(tree(&[]).path()).state, State::Improvable);
    }

    #[test]
    fn lockdown_is_read_between_the_brackets() {
        let of = |text| lockdown(tree(&[("sys/kernel/security/lockdown", text)]).path());
        assert_eq!(of("[none] integrity confidentiality\n").found, "none");
        assert_eq!(
            of("none integrity [confidentiality]\n").state,
            State::Missing
        );
        assert_eq!(lockdown(tree(&[]).path()).state, State::Good);
    }

    #[test]
    fn cgroup2_is_found_among_mounts() {
        let of = |text| cgroups(tree(&[("proc/self/mounts", text)]).path());
        let found = of(
            "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
        );
        assert_eq!(found.found, "mounted at /sys/fs/cgroup/unified");
        assert_eq!(of("proc /proc proc rw 0 0\n").state, State::Improvable);
    }
}

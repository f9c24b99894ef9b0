//! The hook plan at its three levels on a stock kernel of Debian 12 (Linux 6.1), in QEMU: with programs on functions, which take the
//! boundaries that this kernel has no newer hooks for; with tracepoints only; and for somebody who may load no program.
//!
//! Nothing is said about times: QEMU translates. Leaves itself out, with the reason, where QEMU or the kernel cannot be had.
#![cfg(all(feature = "bpf", target_arch = "x86_64"))]

#[path = "../../qemu/tests/stock/mod.rs"]
mod stock;

use std::path::Path;

use serde_json::Value;
use tollgate_qemu::guest_run::Report;
use tollgate_qemu::protocol::GuestCommand;

const ROOT: u32 = 0;
const NOBODY: u32 = 65_534;

fn tollgate(arguments: &str) -> Vec<String> {
    let args = arguments.split(' ').map(str::to_owned);
    ["/bin/program".to_owned()]
        .into_iter()
        .chain(args)
        .collect()
}

const DOCTOR: &str = "doctor --json -";
/// One round of few round trips: what is looked at is which messages are seen, not when.
const MEASURE: &str = "experiment run wolman-transmit --path kernel-loopback --cores 1 --size 200 --iterations 32 --quiet --json -";
/// Nobody talks meanwhile: what is looked at is whether its programs go together with this kernel.
const OBSERVE: &str = "observe --for 1s --quiet --json -";

fn run(user: u32, arguments: &str) -> GuestCommand {
    GuestCommand::Run {
        user,
        args: tollgate(arguments),
    }
}

/// Parses the output of a program that succeeded.
fn json(report: &Report) -> Value {
    assert_eq!(report.outcome, "exit status: 0", "{}", report.err);
    serde_json::from_str(&report.out).unwrap()
}

/// The boundaries of a plan and the hooks that take them.
fn plan(doctor: &Value) -> Vec<(&str, Option<&str>)> {
    let boundaries = doctor["gates"]["boundaries"].as_array().unwrap();
    boundaries
        .iter()
        .map(|one| (one["gate"].as_str().unwrap(), one["hook"].as_str()))
        .collect()
}

/// Asserts that at least 99 of 100 messages were seen at every gate; returns the names of the spans.
fn spans(run: &Value) -> Vec<String> {
    let experiment = &run["experiments"][0];
    let of_kind = |kind: &str| {
        let trust = experiment["trust"].as_array().unwrap();
        let one = trust.iter().find(|one| one["kind"] == kind);
        one.and_then(|one| one["value"].as_f64()).unwrap()
    };
    assert!(of_kind("join_rate") >= 99.0, "{experiment}");
    assert_eq!(of_kind("events_lost"), 0.0);
    let tables = experiment["tables"].as_array().unwrap();
    let spans = tables
        .iter()
        .find(|table| table["id"] == "spans-kernel-loopback")
        .unwrap();
    let rows = spans["rows"].as_array().unwrap();
    for row in rows {
        let messages = row["cells"][0]["n"].as_u64().unwrap_or(0);
        assert!(messages >= 32, "{row}");
    }
    rows.iter()
        .map(|row| row["label"].as_str().unwrap().to_owned())
        .collect()
}

/// A translated kernel takes a few hundred samples a second without falling behind.
const KAY: &str = "experiment run kay-breakdown --path kernel-loopback --size 1,1024,8192 --rate 1000 --for 15s --quiet --json -";
/// The share of the samples that rules must cover, in percent.
const COVERED: f64 = 95.0;

/// Kay and Pasquale's categories name the functions of this kernel, too.
#[test]
fn the_categories_cover_a_stock_kernel() {
    let kernel = match stock::kernel() {
        Ok(kernel) => kernel,
        Err(reason) => {
            tollgate_skip::skipped!("{reason}");
            return;
        }
    };
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate"));
    let reports = stock::run_guest(&kernel, program, &[run(ROOT, KAY)]);
    let [kay] = reports.as_slice() else {
        panic!("{reports:?}")
    };
    let kay = json(kay);
    let trust = kay["experiments"][0]["trust"].as_array().unwrap();
    let text = |line: &Value| line["text"].as_str().unwrap_or_default().to_owned();
    let covered = trust
        .iter()
        .find(|line| text(line).starts_with("the rules of"));
    let covered = covered.unwrap_or_else(|| panic!("{trust:?}"));
    println!("{}", text(covered));
    assert!(
        covered["value"].as_f64().unwrap() >= COVERED,
        "{}",
        text(covered)
    );
}

/// Both ends on a processor of their own, long enough for one of them to go.
const TWO_CORES: &str = "experiment run wolman-transmit --path kernel-loopback --cores 2 --size 200 --iterations 128 --quiet --json -";

/// Takes the second processor away in the midst of a program.
fn unplugged(thread: &str, arguments: &str) -> GuestCommand {
    GuestCommand::During {
        path: SECOND.to_owned(),
        value: "0".to_owned(),
        thread: thread.to_owned(),
        user: ROOT,
        args: tollgate(arguments),
    }
}

/// File that switches the second processor.
const SECOND: &str = "/sys/devices/system/cpu/cpu1/online";

/// A processor that is unplugged while gates are attached, and a kernel whose types nobody can read: both are said, and nothing stays
/// attached.
#[test]
fn bad_days_end_with_words() {
    let kernel = match stock::kernel() {
        Ok(kernel) => kernel,
        Err(reason) => {
            tollgate_skip::skipped!("{reason}");
            return;
        }
    };
    let back = || GuestCommand::Write {
        path: SECOND.to_owned(),
        value: "1".to_owned(),
    };
    let commands = [
        unplugged("tg-peer", TWO_CORES),
        GuestCommand::Leftovers,
        back(),
        unplugged("tollgate", OBSERVE),
        GuestCommand::Leftovers,
        back(),
        GuestCommand::Hide {
            path: "/sys/kernel/btf".to_owned(),
        },
        run(ROOT, DOCTOR),
        run(ROOT, OBSERVE),
        run(ROOT, MEASURE),
        GuestCommand::Leftovers,
    ];
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate"));
    let reports = stock::run_guest_with(2, &kernel, program, &commands);
    let [
        measured,
        left,
        first_back,
        observed,
        left_observer,
        second_back,
        hidden,
        doctor,
        blind,
        stamped,
        left_blind,
    ] = reports.as_slice()
    else {
        panic!("{reports:?}")
    };
    for left in [left, left_observer, left_blind] {
        assert_eq!(left.outcome, "programs 0, links 0, functions 0");
    }
    // The processor was away, or it could not have come back.
    for back in [first_back, second_back] {
        assert_eq!(back.outcome, "written");
    }
    let said = format!("{}{}", measured.out, measured.err);
    assert!(said.contains("processor 1 was taken away"), "{said}");
    assert_eq!(json(observed)["schema"], "tollgate-observe");

    assert_eq!(hidden.outcome, "hidden");
    let doctor = json(doctor);
    assert!(
        plan(&doctor)
            .iter()
            .flat_map(|(_, hook)| hook)
            .all(|hook| hook.starts_with("clock") || hook.starts_with("SO_TIMESTAMPING")),
        "{:?}",
        plan(&doctor)
    );
    assert_eq!(blind.outcome, "exit status: 1", "{}", blind.out);
    assert!(blind.err.contains("BTF"), "{}", blind.err);
    assert_eq!(
        spans(&json(stamped)),
        ["socket + tcp + ip", "device.queue", "driver"]
    );
}

#[test]
fn the_plan_has_its_three_levels_on_a_stock_kernel() {
    let kernel = match stock::kernel() {
        Ok(kernel) => kernel,
        Err(reason) => {
            tollgate_skip::skipped!("{reason}");
            return;
        }
    };
    let ftrace = |value: &str| GuestCommand::Write {
        path: "/proc/sys/kernel/ftrace_enabled".to_owned(),
        value: value.to_owned(),
    };
    let commands = [
        run(ROOT, DOCTOR),
        run(ROOT, MEASURE),
        GuestCommand::Leftovers,
        GuestCommand::Kill {
            user: ROOT,
            args: tollgate(MEASURE),
        },
        GuestCommand::Leftovers,
        run(ROOT, OBSERVE),
        GuestCommand::Kill {
            user: ROOT,
            args: tollgate(OBSERVE),
        },
        GuestCommand::Leftovers,
        // Programs on functions are attached then, and never called.
        ftrace("0"),
        run(ROOT, DOCTOR),
        run(ROOT, MEASURE),
        ftrace("1"),
        run(NOBODY, DOCTOR),
        run(NOBODY, MEASURE),
        GuestCommand::Leftovers,
    ];
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate"));
    let reports = stock::run_guest(&kernel, program, &commands);
    let [
        doctor,
        measured,
        left,
        killed,
        left_killed,
        observed,
        observer,
        left_observer,
        off,
        without,
        poor,
        on,
        nobody,
        nobodys,
        left_all,
    ] = reports.as_slice()
    else {
        panic!("{reports:?}")
    };
    for left in [left, left_killed, left_observer, left_all] {
        assert_eq!(left.outcome, "programs 0, links 0, functions 0");
    }
    for killed in [killed, observer] {
        assert_eq!(killed.outcome, "signal: 9 (SIGKILL)", "{}", killed.err);
    }
    assert_eq!(
        json(observed)["unresolved"].as_array().map(Vec::len),
        Some(0)
    );
    assert_eq!(
        (off.outcome.as_str(), on.outcome.as_str()),
        ("written", "written")
    );

    // With functions: nothing is missing.
    let doctor = json(doctor);
    assert_eq!(
        plan(&doctor),
        [
            ("socket.out.begin", Some("clock before send()")),
            ("tcp.out.begin", Some("fentry tcp_sendmsg_locked")),
            ("ip.out.begin", Some("fentry ip_queue_xmit")),
            ("device.queue.in", Some("net_dev_queue")),
            ("driver.out.begin", Some("net_dev_start_xmit")),
            ("driver.out.end", Some("netif_rx_entry")),
            ("ip.in.begin", Some("netif_receive_skb")),
            ("demux.begin", Some("fentry tcp_v4_rcv")),
            ("tcp.in.begin", Some("tcp_probe")),
            ("socket.queue.in", Some("fentry sock_def_readable")),
            ("reader.runs", Some("sched_switch")),
            ("socket.in.begin", Some("skb_copy_datagram_iovec")),
            ("socket.in.end", Some("clock after recv()")),
            ("socket.out.end", Some("clock after send()")),
        ]
    );
    let whole = ["socket", "tcp", "ip", "device.queue", "driver"];
    assert_eq!(spans(&json(measured)), whole);

    // Without: the rows beside what this kernel cannot tell are joined.
    let without = json(without);
    // What could be opened all the same is no gate, and the reason is told.
    let others = without["gates"]["others"].as_array().unwrap();
    let kprobes = others.iter().find(|one| one["name"] == "kprobes").unwrap();
    let reason = kprobes["reason"].as_str().unwrap();
    assert!(reason.contains("no program takes ip.out.begin"), "{reason}");
    let missing: Vec<&str> = plan(&without)
        .into_iter()
        .filter_map(|(gate, hook)| hook.is_none().then_some(gate))
        .collect();
    assert_eq!(
        missing,
        [
            "tcp.out.begin",
            "ip.out.begin",
            "demux.begin",
            "socket.queue.in"
        ]
    );
    assert_eq!(
        spans(&json(poor)),
        ["socket + tcp + ip", "device.queue", "driver"]
    );

    // Nobody: what the callers' clocks and the kernel's stamps for sockets tell.
    let nobody = json(nobody);
    assert!(
        plan(&nobody)
            .iter()
            .flat_map(|(_, hook)| hook)
            .all(|hook| hook.starts_with("clock") || hook.starts_with("SO_TIMESTAMPING")),
        "{:?}",
        plan(&nobody)
    );
    assert_eq!(
        spans(&json(nobodys)),
        ["socket + tcp + ip", "device.queue", "driver"]
    );
}

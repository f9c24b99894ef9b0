//! `tollgate serve` and `--to`, as processes: over loopback, and between two network namespaces where we may make them.

mod nobody;

use nobody::Place;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use tollgate_run::{Experiment, Run};
use tollgate_workload::kernel::Pair;

fn tollgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .args(arguments)
        .env_remove("TOLLGATE_TOKEN")
        .env("COLUMNS", "200")
        .stdin(Stdio::null());
    command
}

/// A server that is killed when the test ends.
struct Serving {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Serving {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let address = line
            .strip_prefix("waiting at ")
            .and_then(|rest| rest.split(' ').next())
            .unwrap_or_else(|| panic!("{line:?}"))
            .to_owned();
        Self {
            child,
            lines,
            address,
        }
    }

    fn here(arguments: &[&str]) -> Self {
        let listen = ["serve", "--listen", "127.0.0.1:0"];
        Self::start(tollgate(&[&listen, arguments].concat()))
    }

    /// Waits for the end and returns exit code and output.
    fn said(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.lines.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It fails only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn run_of(output: &Output) -> Run {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();
    run.check().unwrap();
    run
}

const SMALL: [&str; 5] = [
    "--size=4,200",
    "--iterations=40",
    "--repetitions=1",
    "--quiet",
    "--json=-",
];

#[test]
fn every_workload_runs_to_a_server_that_says_what_it_does() {
    let server = Serving::here(&["--once"]);
    let to = format!("--to={}", server.address);
    let names = ["rr-by-size", "crr", "stream-by-write-size"];
    let mut arguments = vec!["experiment", "run"];
    arguments.extend(names);
    arguments.push(&to);
    arguments.extend(SMALL);
    let run = run_of(&tollgate(&arguments).output().unwrap());
    let ran: Vec<&str> = run
        .experiments
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(ran, names);
    for experiment in &run.experiments {
        let row = &experiment.tables[0].rows[0];
        assert_eq!(row.label, "kernel-remote, 2 cores, blocking");
        for cell in &row.cells {
            assert_eq!(cell.measured().unwrap().n, Some(40), "{}", experiment.name);
        }
        assert!(
            experiment
                .command
                .contains(&format!("--to {}", server.address))
        );
    }
    let remote = run.remote.unwrap();
    assert_eq!(
        (remote.address, remote.host.kernel),
        (server.address.clone(), run.host.kernel)
    );
    let (code, said) = server.said();
    assert_eq!(code, Some(0));
    for word in [
        "served (tollgate",
        "rr, blocking",
        "crr, blocking",
        "stream, blocking",
        "gone after",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// A run that cannot be: exit code 1, one line, nothing on standard output.
fn refused(arguments: &[&str]) -> String {
    let output = tollgate(&[&["rr"], arguments, &SMALL].concat())
        .output()
        .unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(output.stdout.is_empty());
    error
}

#[test]
fn a_host_that_does_not_serve_is_told_in_one_line() {
    let gone = Serving::here(&[]).address.clone();
    let error = refused(&["--to", &gone]);
    assert!(
        error.starts_with(&format!("error: kernel-remote: connecting to {gone}: ")),
        "{error}"
    );
    assert!(
        error.contains("run `tollgate serve --listen ADDRESS` there"),
        "{error}"
    );
    let error = refused(&["--to", "no.such.host.invalid"]);
    assert!(
        error.contains("looking up no.such.host.invalid:8655"),
        "{error}"
    );
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let web = std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    });
    let error = refused(&["--to", &address]);
    assert!(
        error.contains("what answers there is not Tollgate; give the port"),
        "{error}"
    );
    web.join().unwrap().unwrap();
}

#[test]
fn without_the_token_nobody_is_served_and_it_is_in_no_run() {
    let server = Serving::here(&["--token", "open-sesame"]);
    let error = refused(&["--to", &server.address]);
    assert!(error.contains("it wants another token"), "{error}");
    let mut arguments = vec!["rr", "--to", &server.address, "--token", "open-sesame"];
    arguments.extend(SMALL);
    let output = tollgate(&arguments).output().unwrap();
    run_of(&output);
    assert!(!text(&output.stdout).contains("open-sesame"));
}

#[test]
fn a_server_that_is_killed_in_the_middle_is_one_error() {
    let mut server = Serving::here(&[]);
    let arguments = [
        "rr",
        "-v",
        "--to",
        &server.address,
        "--size=4",
        "--iterations=1000000",
        "--repetitions=1000",
        "--json=-",
    ];
    let mut client = tollgate(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stderr.take().unwrap()).lines();
    let begun = lines
        .by_ref()
        .find(|line| line.as_ref().unwrap().contains(": 1 of "));
    assert!(begun.is_some());
    // SIGKILL.
    server.child.kill().unwrap();
    let told: Vec<String> = lines.map(Result::unwrap).collect();
    let errors: Vec<&String> = told
        .iter()
        .filter(|line| line.starts_with("error: "))
        .collect();
    assert_eq!(errors.len(), 1, "{told:?}");
    assert!(
        errors[0].contains(&format!(" {}: ", server.address)),
        "{told:?}"
    );
    assert!(
        errors[0].contains("look at what `tollgate serve` says there"),
        "{told:?}"
    );
    assert_eq!(client.wait().unwrap().code(), Some(1));
}

#[test]
fn ctrl_c_ends_a_server_in_good_order() {
    let server = Serving::here(&[]);
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(server.said(), (Some(0), String::new()));
}

/// Experiments to a server, whose sums and counts are held against each other.
const GATED: [&str; 10] = [
    "experiment",
    "run",
    "wolman-networks",
    "wolman-transmit",
    "wolman-receive",
    "--size=4,8000",
    "--iterations=512",
    "--repetitions=1",
    "--quiet",
    "--json=-",
];

fn gated(server: &Serving) -> Vec<&str> {
    [&GATED[..], &["--to", &server.address]].concat()
}

fn experiment<'a>(run: &'a Run, name: &str) -> &'a Experiment {
    let found = run.experiments.iter().find(|one| one.name == name);
    found.unwrap_or_else(|| panic!("{name}: {:?}", run.warnings))
}

/// The numbers of the row with this label in the table of both hosts.
fn numbers(run: &Run, label: &str) -> Vec<f64> {
    let networks = experiment(run, "wolman-networks");
    let table = networks.tables.iter().find(|table| table.id == "hosts");
    let table = table.unwrap_or_else(|| panic!("{:#?}", networks.trust));
    let row = table.rows.iter().find(|row| row.label == label);
    let row = row.unwrap_or_else(|| panic!("{label}: {:#?}", table.rows));
    let number = |cell: &tollgate_run::Cell| cell.number();
    (row.cells.iter())
        .map(|cell| number(cell).unwrap_or_else(|| panic!("{label}: {cell:?}")))
        .collect()
}

/// The parts of a round trip, whatever spans they have.
const PARTS: [&str; 7] = [
    "client, transmit",
    "server, receive",
    "server, application",
    "server, transmit",
    "client, receive",
    "client, application",
    "network and clocks, both ways",
];

/// The parts give the sum, and the sum and the rest the round trip; messages were joined; what no clock can tell has bounds.
fn check_both_hosts(run: &Run) {
    let sum = numbers(run, "sum of the spans");
    let rest = numbers(run, "left open");
    let total = numbers(run, "round trip without gates");
    let parts = PARTS.map(|part| numbers(run, part));
    for at in 0..sum.len() {
        let added: f64 = parts.iter().map(|part| part[at]).sum();
        assert!(
            (added - sum[at]).abs() < 1e-6 * total[at],
            "{added} {sum:?}"
        );
        assert!((sum[at] + rest[at] - total[at]).abs() < 1e-6 * total[at]);
    }
    let networks = experiment(run, "wolman-networks");
    let trust = |kind| {
        let kind = serde_json::json!(kind);
        let lines = networks
            .trust
            .iter()
            .filter(move |line| serde_json::json!(line.kind) == kind);
        lines.map(|line| line.value.unwrap()).collect::<Vec<f64>>()
    };
    assert_eq!(trust("closure").len(), 1);
    assert_eq!(trust("events_lost"), [0.0]);
    let rates = trust("join_rate");
    assert_eq!(rates.len(), 1);
    assert!(
        rates.iter().all(|&rate| rate >= 90.0),
        "{:#?}",
        networks.trust
    );
    let ways = networks
        .tables
        .iter()
        .find(|table| table.id == "one-way")
        .unwrap();
    let bound = |row: usize, at: usize| ways.rows[row].cells[at].number().unwrap();
    for at in 0..sum.len() {
        for (low, high) in [(0, 1), (2, 3)] {
            assert!(bound(low, at) <= bound(high, at), "{ways:#?}");
        }
    }
    // Both are one machine here, so its clock is no further from itself than any message took.
    let ahead = (networks.trust.iter())
        .find(|line| line.text.contains("CLOCK_MONOTONIC of the server"))
        .and_then(|line| line.value)
        .unwrap();
    let widest = (0..sum.len())
        .map(|at| bound(1, at) + bound(3, at))
        .fold(0.0, f64::max);
    assert!(ahead.abs() <= widest, "{ahead} {widest}");
    for name in ["wolman-transmit", "wolman-receive"] {
        let shown = experiment(run, name);
        let columns: Vec<&str> = shown.tables[0]
            .columns
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(
            columns[2..],
            [
                "kernel-remote, client",
                "share",
                "kernel-remote, server",
                "share"
            ]
        );
    }
}

#[test]
fn between_two_namespaces_both_hosts_are_joined() {
    let pair = match Pair::new() {
        Ok(pair) => pair,
        Err(reason) => {
            tollgate_skip::skipped!("{reason}");
            return;
        }
    };
    let listen = format!("{}:0", pair.server_address());
    let server = pair
        .server(|| Ok(Serving::start(tollgate(&["serve", "--listen", &listen]))))
        .unwrap();
    let arguments = gated(&server);
    let output = pair
        .client(|| Ok(tollgate(&arguments).output()))
        .unwrap()
        .unwrap();
    let run = run_of(&output);
    check_both_hosts(&run);
    assert_eq!(run.remote.unwrap().address, server.address);
    // With programs, there is more than the callers' own clocks.
    let networks = text(&output.stdout);
    if networks.contains("net_dev_start_xmit") {
        for span in ["wakeup", "demux", "device.queue"] {
            assert!(
                networks.contains(&format!("\"label\":\"{span}\""))
                    || networks.contains(&format!("\"label\": \"{span}\""))
            );
        }
    }
}

#[test]
fn nobody_gets_fewer_rows_of_both_hosts_and_no_error() {
    let place = Place::new();
    let server = Serving::start(place.command(&["serve", "--listen=127.0.0.1:0"]));
    let arguments = gated(&server);
    let output = place.command(&arguments).output().unwrap();
    check_both_hosts(&run_of(&output));
    let printed = text(&output.stdout);
    for host in ["client", "server"] {
        assert!(printed.contains(&format!(
            "of the {host} is not resolved, and its rows are joined"
        )));
    }
}

/// Hundredths of a second for which a process has had a processor.
fn busy(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = fields.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_server_short_of_descriptors_waits_for_them() {
    let mut command = Command::new("sh");
    let script = "ulimit -n 12; exec \"$0\" serve --listen 127.0.0.1:0";
    command.args(["-c", script, env!("CARGO_BIN_EXE_tollgate")]);
    let server = Serving::start(command);
    // They say nothing, and there are more of them than descriptors.
    let connect = |_| std::net::TcpStream::connect(&server.address).unwrap();
    let clients: Vec<_> = (0..14).map(connect).collect();
    let before = busy(server.child.id());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let used = busy(server.child.id()) - before;
    assert!(used < 50, "{used} hundredths of a second");
    drop(clients);
}

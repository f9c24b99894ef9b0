//! The kernel's rows for somebody who may load no program: fewer of them, and no error.

mod nobody;

use nobody::Place;
use std::process::Output;

fn as_nobody(arguments: &[&str]) -> Output {
    Place::new().command(arguments).output().unwrap()
}

#[test]
fn nobody_gets_fewer_rows_and_no_error() {
    let done = as_nobody(&[
        "experiment",
        "run",
        "wolman-transmit",
        "--path",
        "kernel-loopback",
        "--cores",
        "1",
        "--size",
        "4,8000",
        "--iterations",
        "200",
        "--quiet",
        "--json",
        "-",
    ]);
    let complaints = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{complaints}");
    let run = String::from_utf8(done.stdout).unwrap();
    for row in ["socket + tcp + ip", "device.queue", "driver"] {
        assert!(
            run.contains(&format!("\"label\": \"{row}\""))
                || run.contains(&format!("\"label\":\"{row}\"")),
            "{row}: {run}"
        );
    }
    assert!(run.contains("is not resolved, and its rows are joined"));
    assert!(run.contains("SO_TIMESTAMPING"));
}

#[test]
fn runs_that_measure_nothing_end_with_one() {
    let args = [
        "experiment",
        "run",
        "kay-pcb",
        "--for=1s",
        "--quiet",
        "--json=-",
    ];
    let done = as_nobody(&args);
    let run: tollgate_run::Run = serde_json::from_slice(&done.stdout).unwrap();
    let cells = run.experiments[0]
        .tables
        .iter()
        .flat_map(|table| &table.rows);
    let has_any = cells
        .flat_map(|row| &row.cells)
        .any(|cell| cell.measured().is_some());
    assert_eq!(done.status.code(), Some(i32::from(!has_any)));
}

#[test]
fn self_test_says_what_needs_root() {
    let done = as_nobody(&["doctor", "--self-test", "--quick", "--quiet"]);
    let printed = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("Left out: kernel-loopback: faults are put in by programs in the kernel, which takes root"),
        "{printed}"
    );
    // On a busy machine not every delay is found.
    assert!(printed.contains("in its place"), "{printed}");
    assert!(
        printed.contains("stack-memory, round trips of 64 bytes, 1 core, polling"),
        "{printed}"
    );
}

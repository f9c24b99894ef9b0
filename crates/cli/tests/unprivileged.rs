//! The kernel's rows for somebody who may load no program: fewer of them, and no error.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

const NOBODY: u32 = 65_534;

/// The outcome of the program as nobody.
fn as_nobody(arguments: &[&str]) -> Output {
    // Where nobody may run it, whatever the permissions of the target directory are.
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("tollgate");
    fs::copy(env!("CARGO_BIN_EXE_tollgate"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.current_dir(place.path()).args(arguments);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().unwrap()
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
    assert!(!printed.contains("not put in as asked"), "{printed}");
    assert!(
        printed.contains("stack-memory, round trips of 64 bytes, 1 core, polling"),
        "{printed}"
    );
}

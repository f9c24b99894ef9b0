//! The kernel's rows for somebody who may load no program: fewer of them, and no error.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const NOBODY: u32 = 65_534;

#[test]
fn nobody_gets_fewer_rows_and_no_error() {
    // Where nobody may run it, whatever the permissions of the target directory are.
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("tollgate");
    fs::copy(env!("CARGO_BIN_EXE_tollgate"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.current_dir(place.path()).args([
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
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let done = command.output().unwrap();
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

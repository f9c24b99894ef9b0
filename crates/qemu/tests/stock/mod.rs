//! Needs of tests that boot a stock kernel: the kernel, and the programs that run inside of QEMU. Also used by the
//! tests of other crates.
#![allow(dead_code, reason = "each test uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tollgate_qemu::guest_run::{GuestRun, Report, with_libraries};
use tollgate_qemu::kernel::{self, Kernel};
use tollgate_qemu::protocol::GuestCommand;
use tollgate_qemu::{Error, machine};

/// Cache of `make qemu`, so that neither fetches nor builds what the other has.
fn cache() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.join("qemu")
}

/// The kernel, where both it and QEMU can be had.
pub fn kernel() -> Result<Kernel, Error> {
    machine::version()?;
    kernel::fetch(&cache())
}

/// Builds the guest's program and the plugin.
pub fn parts() -> (PathBuf, PathBuf) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../qemu/parts.sh");
    let output = Command::new(script)
        .arg(cache().join("parts"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().map(PathBuf::from);
    (lines.next().unwrap(), lines.next().unwrap())
}

/// Carries a program into a machine with that kernel and lets it carry out these commands, where it is `/bin/program`.
pub fn run_guest(kernel: &Kernel, program: &Path, commands: &[GuestCommand]) -> Vec<Report> {
    run_guest_with(1, kernel, program, commands)
}

/// Runs a guest in a machine with so many processors.
pub fn run_guest_with(
    processors: u32,
    kernel: &Kernel,
    program: &Path,
    commands: &[GuestCommand],
) -> Vec<Report> {
    let (guest, _) = parts();
    // What only debuggers read would be most of what the guest has to unpack.
    let place = tempfile::tempdir().unwrap();
    let stripped = place.path().join("program");
    let strip = Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(program)
        .status();
    let program = match strip {
        Ok(status) if status.success() => stripped.as_path(),
        Ok(_) | Err(_) => program,
    };
    let run_guest = GuestRun {
        kernel,
        guest: &guest,
        files: &with_libraries(program, "bin/program").unwrap(),
        commands,
        processors,
        limit: Duration::from_secs(300),
    };
    run_guest.run(&AtomicBool::new(false)).unwrap()
}

/// Runs tests of the calling test program in a machine with a stock kernel; leaves them out, with the reason, where that cannot be
/// had.
pub fn run_there(tests: &[&str]) {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(reason) => {
            tollgate_skip::skipped!("{reason}");
            return;
        }
    };
    let args = ["/bin/program", "--exact", "--nocapture", "--test-threads=1"];
    let commands = [
        GuestCommand::Run {
            user: 0,
            args: args
                .iter()
                .chain(tests)
                .map(|&word| word.to_owned())
                .collect(),
        },
        GuestCommand::Leftovers,
    ];
    let program = std::env::current_exe().unwrap();
    let reports = run_guest(&kernel, &program, &commands);
    let (ran, left) = (&reports[0], &reports[1]);
    assert_eq!(ran.outcome, "exit status: 0", "{}{}", ran.out, ran.err);
    let passed = format!("test result: ok. {} passed", tests.len());
    assert!(
        ran.out.contains(&passed) && !ran.err.contains("skipped:"),
        "{}{}",
        ran.out,
        ran.err
    );
    assert_eq!(left.outcome, "programs 0, links 0, functions 0");
}

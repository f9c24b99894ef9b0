//! What tests need that boot a stock kernel: the kernel, and what runs inside of QEMU. Also used by the tests of other crates.

use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate_qemu::kernel::{self, Kernel};
use tollgate_qemu::{Error, machine};

/// Where `make qemu` keeps the same things, so that neither fetches nor builds what the other has.
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

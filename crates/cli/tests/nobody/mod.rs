//! The program as somebody without rights, wherever the target directory lies.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const NOBODY: u32 = 65_534;

/// A folder that anybody may enter, with the program in it.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // Written by a process of its own: what another test begins meanwhile would keep it open for writing, and nobody could run it.
        let mut copy = Command::new("install");
        copy.args(["-m", "755", env!("CARGO_BIN_EXE_tollgate")]);
        assert!(copy.arg(place.path()).status().unwrap().success());
        Self(place)
    }

    /// The program in that folder, as nobody where this is root.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.0.path().join("tollgate"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

//! Servers as processes: started by a test, and ended with it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server. It ends when the value goes, and when the test does.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts a server and waits until it says that it listens.
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate-cluster"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("ready ");
        let port = port.unwrap_or_else(|| panic!("{arguments:?}: {line}"));
        Self {
            port: port.parse().unwrap(),
            child,
        }
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process.
    #[allow(dead_code, reason = "one of the two test programs uses it")]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, by SIGKILL.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

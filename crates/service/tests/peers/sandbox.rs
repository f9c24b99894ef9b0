//! A sandbox for programs that nobody here wrote: namespaces of network, processes and mounts that end with the test, whatever ends it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The longest time for which anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The sandbox. Its first process ends when its input does, which this process holds; with it the kernel ends all others.
pub struct Sandbox {
    anchor: Child,
    servers: Mutex<Vec<Child>>,
}

impl Sandbox {
    /// Makes one; says why where this machine gives none, or lacks one of these programs.
    pub fn new(programs: &[&str]) -> Option<Self> {
        for program in programs {
            if !is_installed(program) {
                tollgate_skip::skipped!("{program} is not installed");
                return None;
            }
        }
        if !rustix::process::geteuid().is_root() {
            tollgate_skip::skipped!("it takes root to make network namespaces");
            return None;
        }
        let script = "ip link set lo up && mount -t tmpfs tmpfs /run && mkdir /run/sshd && echo up && exec cat";
        let anchor = Command::new("unshare")
            .args(["--net", "--pid", "--mount", "--fork", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let mut anchor = match anchor {
            Ok(anchor) => anchor,
            Err(error) => {
                tollgate_skip::skipped!("running unshare: {error}");
                return None;
            }
        };
        let mut line = String::new();
        let said = BufReader::new(anchor.stdout.take().unwrap()).read_line(&mut line);
        let place = Self {
            anchor,
            servers: Mutex::default(),
        };
        if said.is_err() || line != "up\n" {
            tollgate_skip::skipped!("this machine gives no namespaces");
            return None;
        }
        Some(place)
    }

    fn namespace(&self, name: &str) -> String {
        format!("/proc/{}/ns/{name}", self.anchor.id())
    }

    /// Moves the calling thread into the place's network.
    pub fn enter(&self) {
        let namespace = File::open(self.namespace("net")).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }

    /// Does something in the place, on a thread of its own.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                self.enter();
                work()
            });
            inside.join().expect("the work in the place is done")
        })
    }

    /// Captures what passes a device while something is done, and gives what tshark's expert says of
    /// it, from this severity on.
    pub fn expert(&self, device: &str, severity: &str, work: impl FnOnce()) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("capture.pcapng");
        let file = file.to_str().unwrap();
        // Not in the place's namespace of processes, so that it can be asked to end.
        let mut capture = Command::new("nsenter")
            .arg(format!("--net={}", self.namespace("net")))
            .args([
                "dumpcap",
                "-q",
                "-B",
                "64",
                "-a",
                "duration:120",
                "-i",
                device,
                "-w",
                file,
            ])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(capture.stderr.take().unwrap()).lines();
        let begun = said.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("File: ")));
        assert!(begun.is_some(), "dumpcap captures");
        work();
        let pid = rustix::process::Pid::from_child(&capture);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let lost = said.map_while(Result::ok).collect::<Vec<_>>();
        assert!(capture.wait().unwrap().success(), "{lost:?}");
        assert!(
            lost.iter().any(|line| line.contains("/0 (pcap:0/")),
            "{lost:?}"
        );
        let serious = format!("_ws.expert.severity >= \"{severity}\"");
        let fields = [
            "-T",
            "fields",
            "-e",
            "frame.number",
            "-e",
            "_ws.expert.message",
        ];
        let found = self.run(
            "tshark",
            &[&["-r", file, "-Y", &serious], &fields[..]].concat(),
        );
        found.lines().map(str::to_owned).collect()
    }

    /// A program in the place.
    pub fn program(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", self.namespace("net")))
            .arg(format!("--pid={}", self.namespace("pid_for_children")))
            .arg(format!("--mount={}", self.namespace("mnt")))
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Runs a program to its end and gives what it wrote.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.program(program, arguments).output().unwrap();
        written(program, &output)
    }

    /// Starts a server, which ends with the place, and waits until this port of the kernel takes connections.
    pub fn start(&self, program: &str, arguments: &[&str], port: u16) {
        let server = self
            .program(program, arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.servers.lock().unwrap().push(server);
        let until = Instant::now() + PATIENCE;
        let open = || {
            let listeners = self.run("ss", &["-Hltn", &format!("sport = :{port}")]);
            !listeners.trim().is_empty()
        };
        while !open() {
            assert!(
                Instant::now() < until,
                "{program} does not listen on {port}"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(self.anchor.stdin.take());
        // They have nothing to tell but that they are over.
        let _ = self.anchor.wait();
        for server in self.servers.get_mut().unwrap() {
            let _ = server.wait();
        }
    }
}

/// Output of a program that has ended well.
pub fn written(program: &str, output: &Output) -> String {
    assert!(
        output.status.success(),
        "{program}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    places
        .into_iter()
        .any(|place| Path::new(&place).join(program).is_file())
}

//! `tollgate serve` with services for any client, as a process: what it prints, what it refuses, and that nothing of it stays.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

fn tollgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Makes a pair of devices, and goes on as the command that follows. Sockets may have any address, as on hosts that stand in for each other.
const PAIR: &str = "ip link add kernel type veth peer name ours
    ip addr add 10.9.8.1/24 dev kernel
    [ ! -e /proc/net/if_inet6 ] || ip addr add 2001:db8:9::1/64 dev kernel nodad
    ip link set kernel up
    ip link set ours up
    echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind
    exec \"$0\" \"$@\"";

/// A server that is killed when the test ends.
struct Serving {
    child: Child,
    /// The lines that it printed until it served.
    said: Vec<String>,
    rest: BufReader<std::process::ChildStdout>,
}

impl Serving {
    /// Starts one; none, with what it said, where it ended at once.
    fn start(arguments: &[&str]) -> Result<Self, String> {
        Self::run(tollgate(arguments))
    }

    /// Starts one on an interface of a network namespace of its own, whose other end is the kernel's, 10.9.8.1/24 and where it speaks
    /// IPv6 2001:db8:9::1/64.
    fn on_an_interface(arguments: &[&str]) -> Option<Self> {
        let serve = ["serve", "--on=ours", "--address=10.9.8.2/24", "-v"];
        Self::with_pair(&[&serve[..], arguments].concat())
    }

    /// Starts one in a network namespace of its own with such a pair of devices.
    fn with_pair(arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-ec", PAIR, env!("CARGO_BIN_EXE_tollgate")]);
        command.args(arguments).stdin(Stdio::null());
        Self::run(command)
            .inspect_err(|reason| tollgate_skip::skipped!("{reason}"))
            .ok()
    }

    /// Answer to a request of curl's in the server's namespace.
    fn curl(&self, url: &str) -> Vec<u8> {
        let namespace = format!("--net=/proc/{}/ns/net", self.child.id());
        let curl = ["curl", "--silent", "--show-error", "--max-time", "60", url];
        let output = Command::new("nsenter").arg(namespace).args(curl).output();
        let output = output.unwrap();
        let reason = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{reason}");
        output.stdout
    }

    /// Starts another one in the namespace of this one.
    fn beside_this(&self, arguments: &[&str]) -> Result<Self, String> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.child.id()));
        command.args([env!("CARGO_BIN_EXE_tollgate"), "serve"]);
        command.args(arguments).stdin(Stdio::null());
        Self::run(command)
    }

    /// Does something with sockets of the server's namespace.
    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/proc/{}/ns/net", self.child.id())).unwrap();
        let enter = || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), network).unwrap();
            work()
        };
        std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
    }

    fn run(mut command: Command) -> Result<Self, String> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let rest = BufReader::new(child.stdout.take().unwrap());
        let mut serving = Self {
            child,
            said: Vec::new(),
            rest,
        };
        loop {
            let mut line = String::new();
            if serving.rest.read_line(&mut line).unwrap() == 0 {
                let mut reason = String::new();
                let stderr = serving.child.stderr.as_mut().unwrap();
                stderr.read_to_string(&mut reason).unwrap();
                return Err(reason);
            }
            let serves = line.contains(" serves; Ctrl-C ends it");
            serving.said.push(line.trim_end().to_owned());
            if serves {
                return Ok(serving);
            }
        }
    }

    /// One over our stack; says why where this machine gives no device.
    fn beside(arguments: &[&str]) -> Option<Self> {
        Self::start(&[&["serve", "--path=stack-tap", "-v"], arguments].concat())
            .inspect_err(|reason| tollgate_skip::skipped!("{reason}"))
            .ok()
    }

    /// Waits for the end of a server whose device was deleted.
    fn check_end_by_deletion(&mut self) {
        let until = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it goes on");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(1));
        let mut reason = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut reason).unwrap();
        assert!(reason.contains("its device was deleted"), "{reason}");
    }

    fn device(&self) -> String {
        let words: Vec<_> = self.said.last().unwrap().split(' ').collect();
        words[3].to_owned()
    }

    /// Sends a signal; gives the exit code and what was printed since.
    fn end(&mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut said = String::new();
        self.rest.read_to_string(&mut said).unwrap();
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

fn is_there(device: &str) -> bool {
    Path::new("/sys/class/net").join(device).exists()
}

/// The answer to a request for a URL of the form `http://ADDRESS/`.
fn get(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().trim_end_matches('/');
    let address = match address.contains(':') && !address.ends_with(']') {
        true => address.to_owned(),
        false => format!("{address}:80"),
    };
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn files_are_served_and_the_device_goes_with_the_server() {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("a.txt"), "a file").unwrap();
    let http = format!("--http={}", files.path().display());
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let Some(mut serving) = Serving::beside(&[&http, "--echo=7"]) else {
            return;
        };
        let device = serving.device();
        assert!(is_there(&device), "{:?}", serving.said);
        // Over IPv4, and over IPv6 where this host speaks that.
        let lines = serving.said.iter().filter(|line| line.starts_with("http"));
        let urls: Vec<_> = lines.map(|line| line.split(' ').next().unwrap()).collect();
        let has_v6 = Path::new("/proc/net/if_inet6").exists();
        assert_eq!(urls.len(), 1 + usize::from(has_v6), "{:?}", serving.said);
        for url in &urls {
            let answer = get(url, "/a.txt");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\na file"), "{answer}");
        }
        let connections = urls.len();
        let (code, said) = serving.end(signal);
        match signal {
            Signal::KILL => assert_eq!(code, None),
            _ => {
                assert_eq!(code, Some(0), "{said}");
                let words = format!("connections: {connections} accepted, {connections} done");
                assert!(said.contains(&words), "{said}");
                assert!(
                    said.contains("frames back in the pool: 16384 of 16384"),
                    "{said}"
                );
            }
        }
        let until = Instant::now() + Duration::from_secs(60);
        while is_there(&device) {
            assert!(Instant::now() < until, "{device} stays");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_device_that_is_deleted_ends_the_server_with_the_reason() {
    let Some(mut serving) = Serving::beside(&["--echo=7"]) else {
        return;
    };
    let deleted = Command::new("ip")
        .args(["link", "del", &serving.device()])
        .status();
    assert!(deleted.unwrap().success());
    serving.check_end_by_deletion();
}

#[test]
fn an_interface_that_is_deleted_ends_an_idle_server_with_the_reason() {
    for path in ["--path=stack-packet", "--path=stack-xdp"] {
        for commands in [
            &["link del ours"][..],
            &["link set ours down", "link del ours"],
        ] {
            let Some(mut serving) = Serving::on_an_interface(&[path, "--echo=7"]) else {
                return;
            };
            for command in commands {
                let namespace = format!("--net=/proc/{}/ns/net", serving.child.id());
                let mut ip = Command::new("nsenter");
                ip.args([&namespace, "ip"]).args(command.split(' '));
                assert!(ip.status().unwrap().success(), "{command}");
                // It has nothing else to do meanwhile.
                std::thread::sleep(Duration::from_millis(300));
            }
            serving.check_end_by_deletion();
        }
    }
}

#[test]
fn files_are_served_on_an_interface_that_the_host_has() {
    let files = tempfile::tempdir().unwrap();
    let big: Vec<u8> = (0..3_000_000_u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    std::fs::write(files.path().join("big"), &big).unwrap();
    let http = format!("--http={}", files.path().display());
    let unharmed: &[&str] = &[];
    let faulty: &[&str] = &["--faults=drop=0.01,corrupt=0.01"];
    let switched: &[&str] = &["--set=segmentation=per-packet,ecn=classic"];
    for (path, others) in [
        (&["--path=stack-packet"][..], unharmed),
        (&["--path=stack-packet"], faulty),
        (&["--path=stack-packet"], switched),
        (&["--path=stack-xdp", "--trust-checksums"], unharmed),
    ] {
        let arguments = [path, &[&http], others].concat();
        let Some(mut serving) = Serving::on_an_interface(&arguments) else {
            return;
        };
        assert!(
            serving.said[0].starts_with("http://10.9.8.2/ "),
            "{:?}",
            serving.said
        );
        assert_eq!(
            serving
                .said
                .iter()
                .any(|line| line.contains("with ecn=classic, segmentation=per-packet serves")),
            others == switched,
            "{:?}",
            serving.said
        );
        assert!(serving.curl("http://10.9.8.2/big") == big, "{path:?}");
        let (code, said) = serving.end(Signal::INT);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("connections: 1 accepted, 1 done"), "{said}");
        let (back, of) = match path.len() {
            1 => ("16384 of 16384\n", ""),
            _ => ("16384 of ", " are with the kernel to receive into"),
        };
        let line = said
            .lines()
            .find(|line| line.starts_with("frames back"))
            .unwrap_or("");
        let line = format!("{line}\n");
        assert!(line.contains(back) && line.contains(of), "{said}");
        assert_eq!(said.contains("met faults"), others == faulty, "{said}");
    }
}

/// Sleeps and looks of a server, as `-v` tells them at its end.
fn waiting(said: &str) -> (u64, u64) {
    let line = said.lines().find(|line| line.starts_with("waiting ("));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let number = |word: &str| -> u64 {
        let before = line.split(word).next().unwrap().trim_end();
        let number = before.rsplit(' ').next().unwrap();
        number.replace(',', "").parse().unwrap()
    };
    (number(" sleep"), number(" look"))
}

#[test]
fn waiting_is_chosen_on_every_link_and_said_at_the_end() {
    let files = tempfile::tempdir().unwrap();
    let big = vec![7; 300_000];
    std::fs::write(files.path().join("big"), &big).unwrap();
    let http = format!("--http={}", files.path().display());
    let processors = std::thread::available_parallelism().unwrap().get();
    let interface: &[&str] = &["--on=ours", "--address=10.9.8.2/24"];
    for (path, place, url) in [
        ("--path=stack-tap", &[][..], "http://198.18.0.2/big"),
        ("--path=stack-packet", interface, "http://10.9.8.2/big"),
        ("--path=stack-xdp", interface, "http://10.9.8.2/big"),
    ] {
        for wait in ["block", "poll", "adaptive"] {
            let option = format!("--wait={wait}");
            let trust: &[&str] = match path {
                "--path=stack-xdp" => &["--trust-checksums"],
                _ => &[],
            };
            let arguments = [&["serve", "-v", path, &http, &option], place, trust].concat();
            let Some(mut serving) = Serving::with_pair(&arguments) else {
                return;
            };
            assert!(serving.curl(url) == big, "{path} {wait}");
            // Nothing comes meanwhile, and who adapts goes to sleep.
            std::thread::sleep(Duration::from_millis(20));
            let (code, said) = serving.end(Signal::INT);
            assert_eq!(code, Some(0), "{path} {said}");
            assert!(said.contains("connections: 1 accepted, 1 done"), "{said}");
            assert!(said.contains("processor time: "), "{said}");
            let (sleeps, looks) = waiting(&said);
            match wait {
                "block" => assert!(sleeps > 0 && looks == 0, "{path} {said}"),
                "poll" => assert!(sleeps == 0 && looks > 0, "{path} {said}"),
                _ => assert!(
                    sleeps > 0 && (looks > 0 || processors == 1),
                    "{path} {said}"
                ),
            }
        }
    }
}

#[test]
fn polling_servers_end_when_their_device_is_deleted() {
    for path in [
        "--path=stack-tap",
        "--path=stack-packet",
        "--path=stack-xdp",
    ] {
        let (place, device): (&[&str], _) = match path {
            "--path=stack-tap" => (&[], "tollgate0"),
            _ => (&["--on=ours", "--address=10.9.8.2/24"], "ours"),
        };
        let arguments = [&["serve", path, "--echo=7", "--wait=poll"], place].concat();
        let Some(mut serving) = Serving::with_pair(&arguments) else {
            return;
        };
        let namespace = format!("--net=/proc/{}/ns/net", serving.child.id());
        let mut ip = Command::new("nsenter");
        ip.args([&namespace, "ip", "link", "del", device]);
        assert!(ip.status().unwrap().success(), "{path}");
        serving.check_end_by_deletion();
    }
}

/// Findings of `doctor --on` in a server's namespace: the states of its rows by their names, and all that it printed.
fn doctor_on(serving: &Serving, interface: &str) -> (Vec<(String, String)>, String) {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", serving.child.id()));
    command.args([
        env!("CARGO_BIN_EXE_tollgate"),
        "doctor",
        "--on",
        interface,
        "--json",
    ]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let reason = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{reason}");
    let said = String::from_utf8(output.stdout).unwrap();
    let found: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(found["interface"]["name"], interface);
    let checks = found["interface"]["checks"].as_array().unwrap().iter();
    let words = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let states = checks.map(|one| (words(&one["name"]), words(&one["state"])));
    (states.collect(), said)
}

/// Settings of an interface in a server's namespace, as `ip` prints them.
fn settings(serving: &Serving, interface: &str) -> String {
    let namespace = format!("--net=/proc/{}/ns/net", serving.child.id());
    let mut ip = Command::new("nsenter");
    ip.args([&namespace, "ip", "-d", "link", "show", "dev", interface]);
    String::from_utf8(ip.output().unwrap().stdout).unwrap()
}

#[test]
fn an_interface_is_examined_and_left_as_it_was() {
    let arguments = ["serve", "--listen=10.9.8.1", "--echo=7"];
    let Some(serving) = Serving::with_pair(&arguments) else {
        return;
    };
    for interface in ["ours", "lo"] {
        let before = settings(&serving, interface);
        let (states, said) = doctor_on(&serving, interface);
        assert_eq!(settings(&serving, interface), before);
        let state = |name: &str| {
            let found = states.iter().find(|(of, _)| of == name);
            found.map(|(_, state)| state.as_str())
        };
        assert_eq!(state("XDP program"), Some("good"), "{said}");
        assert_eq!(state("afterwards"), Some("good"), "{said}");
        let is_up = if interface == "lo" { "missing" } else { "good" };
        assert_eq!(state("interface"), Some(is_up), "{said}");
        let modes = states.iter().filter(|(name, _)| name.starts_with("xdp, "));
        assert_eq!(modes.count(), 3, "{said}");
    }
}

#[test]
fn another_program_on_the_interface_is_reported_and_stays() {
    let arguments = ["--path=stack-xdp", "--trust-checksums", "--echo=7"];
    let Some(mut serving) = Serving::on_an_interface(&arguments) else {
        return;
    };
    let (states, said) = doctor_on(&serving, "ours");
    let is_missing = |name: &str| {
        let found = states.iter().find(|(of, _)| of == name);
        found.is_some_and(|(_, state)| state == "missing")
    };
    for name in [
        "XDP program",
        "xdp, native with a copy",
        "xdp, generic with a copy",
    ] {
        assert!(is_missing(name), "{said}");
    }
    assert!(said.contains("xdp off"), "{said}");
    // It goes on.
    serving.within(|| echo("10.9.8.2:7"));
    assert_eq!(serving.end(Signal::INT).0, Some(0));
}

#[test]
fn an_interface_that_is_not_there_is_not_examined() {
    let output = tollgate(&["doctor", "--on", "no-such"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let reason = String::from_utf8_lossy(&output.stderr);
    assert!(
        reason.contains("there is no interface \"no-such\""),
        "{reason}"
    );
}

/// Has an echo answer a message of the kernel's by TCP and a datagram.
fn echo(address: &str) {
    let patience = Some(Duration::from_secs(60));
    let mut answer = [0; 5];
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(patience).unwrap();
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    let any = if address.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let socket = UdpSocket::bind(any).unwrap();
    socket.set_read_timeout(patience).unwrap();
    socket.send_to(b"again", address).unwrap();
    assert_eq!(socket.recv(&mut answer).unwrap(), 5);
    assert_eq!(&answer, b"again");
}

#[test]
fn both_versions_of_ip_are_served_on_an_interface_and_duplicates_refused() {
    if !Path::new("/proc/net/if_inet6").exists() {
        return tollgate_skip::skipped!("this host does not speak IPv6");
    }
    let ours = "--address=2001:db8:9::2/64";
    for path in [
        &["--path=stack-packet"][..],
        &["--path=stack-xdp", "--trust-checksums"],
    ] {
        let arguments = [path, &["--echo=7", ours]].concat();
        let Some(mut serving) = Serving::on_an_interface(&arguments) else {
            return;
        };
        let addresses = ["10.9.8.2:7", "[2001:db8:9::2]:7"];
        for (address, said) in addresses.iter().zip(&serving.said) {
            assert_eq!(said, &format!("{address} is echo, by TCP and UDP"));
        }
        serving.within(|| addresses.map(echo));
        // The other end is the second server's now.
        for (addresses, words) in [
            (
                &["--address=10.9.8.3/24", ours][..],
                "another host of the network has 2001:db8:9::2 already",
            ),
            (
                &["--address=10.9.8.3/24", "--address=2001:db8:9::1/64"],
                "the host has 2001:db8:9::1 itself",
            ),
        ] {
            let arguments = [path, &["--echo=7", "--on=kernel"], addresses].concat();
            let reason = serving.beside_this(&arguments).err().expect("refused");
            assert!(reason.contains(words), "{reason}");
        }
        let (code, said) = serving.end(Signal::INT);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("connections: 2 accepted, 2 done"), "{said}");
    }
}

#[test]
fn an_address_of_the_host_and_an_interface_that_is_not_there_are_refused() {
    for (arguments, words) in [
        (
            ["--on=lo", "--address=127.0.0.1/8"],
            "the host has 127.0.0.1 itself",
        ),
        (
            ["--on=no-such", "--address=192.0.2.7/24"],
            "there is no interface \"no-such\"",
        ),
    ] {
        let arguments = [
            &["serve", "--path=stack-packet", "--echo=7"][..],
            &arguments,
        ]
        .concat();
        let reason = Serving::start(&arguments).err().expect("refused");
        if reason.contains("run as root") {
            return tollgate_skip::skipped!("{reason}");
        }
        assert!(reason.contains(words), "{reason}");
    }
}

#[test]
fn the_kernel_serves_as_well() {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("index.html"), "<p>").unwrap();
    let http = format!("--http={}", files.path().display());
    for listen in ["::1", "127.0.0.1"] {
        if listen == "::1" && !Path::new("/proc/net/if_inet6").exists() {
            continue;
        }
        let arguments = ["serve", &http, "--http-port=0", "--listen", listen];
        let serving = Serving::start(&arguments).unwrap();
        let url = serving.said[0].split(' ').next().unwrap();
        assert!(get(url, "/").ends_with("\r\n\r\n<p>"), "{url}");
    }
    let mut serving = Serving::start(&["serve", &http, "--http-port=0"]).unwrap();
    let url = serving.said[0].split(' ').next().unwrap().to_owned();
    // A port that is taken is told.
    let port = url.trim_end_matches('/').rsplit(':').next().unwrap();
    let reason = Serving::start(&["serve", "--echo", port])
        .err()
        .expect("refused");
    assert!(reason.contains("Address already in use"), "{reason}");
    assert_eq!(serving.end(Signal::INT).0, Some(0));
}

#[test]
fn connections_that_are_not_accepted_are_noted_once_and_counted() {
    // Of these descriptors the server has some itself, and connections wait for the rest.
    let script = "ulimit -n 14; exec \"$0\" serve --echo=0 -v";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tollgate")]);
    let mut serving = Serving::run(command).unwrap();
    let address = serving.said[0].split(' ').next().unwrap().to_owned();
    let clients: Vec<_> = (0..16)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    let mut noted = String::new();
    serving.rest.read_line(&mut noted).unwrap();
    let reason = "Too many open files";
    assert!(noted.contains(reason), "{noted}");
    drop(clients);
    let (code, said) = serving.end(Signal::INT);
    assert_eq!(code, Some(0));
    let is_told = |line: &str| line.starts_with("not accepted ") && line.contains(reason);
    assert_eq!(
        said.lines().filter(|line| is_told(line)).count(),
        1,
        "{said}"
    );
    assert!(!said.contains("could not be accepted"), "{said}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (arguments, words) in [
        (&["--path=stack-tap"][..], "takes a service"),
        (
            &["--path=stack-packet", "--echo=7"],
            "share an interface with the host",
        ),
        (
            &["--echo=7", "--on=lo", "--address=10.0.0.1/24"],
            "--on is for",
        ),
        (
            &[
                "--path=stack-packet",
                "--echo=7",
                "--on=lo",
                "--address=10.0.0.1",
            ],
            "no address with the bits",
        ),
        (
            &[
                "--path=stack-packet",
                "--echo=7",
                "--on=lo",
                "--address=10.0.0.1/24",
                "--trust-checksums",
            ],
            "--trust-checksums is for",
        ),
        (
            &[
                "--path=stack-packet",
                "--echo=7",
                "--on=lo",
                "--address=2001:db8::7/64",
            ],
            "add --address 192.0.2.7/24",
        ),
        (
            &[
                "--path=stack-packet",
                "--echo=7",
                "--on=lo",
                "--address=192.0.2.7/24",
                "--address=2001:db8::7/64",
                "--address=2001:db8::8/64",
            ],
            "--address is given twice for IPv6",
        ),
        (
            &[
                "--path=stack-packet",
                "--echo=7",
                "--on=lo",
                "--address=192.0.2.7/24",
                "--gateway=192.0.2.1",
                "--gateway=192.0.2.2",
            ],
            "--gateway is given twice for IPv4",
        ),
        (
            &[
                "--path=stack-packet",
                "--echo=7",
                "--on=lo",
                "--address=192.0.2.7/24",
                "--gateway=fe80::1",
            ],
            "the gateway fe80::1 is for IPv6",
        ),
        (&["--on=lo", "--address=2001:db8::7/128"], "1 to 127"),
        (&["--on=lo", "--address=2001:db8::7/0"], "1 to 127"),
        (&["--on=lo", "--address=192.0.2.7/31"], "1 to 30"),
        (&["--on=lo", "--address=ff02::1/64"], "a group's address"),
        (&["--on=lo", "--address=::/64"], "no host's address"),
        (&["--on=lo", "--address=::1/64"], "this host's own address"),
        (&["--on=lo", "--address=fe80::7/64"], "a link-local address"),
        (
            &["--on=lo", "--address=::ffff:192.0.2.7/64"],
            "an IPv4 address in the form of IPv6",
        ),
        (&["--faults=drop=0.1"], "for Tollgate's stack"),
        (&["--mtu=9k"], "--mtu, --network"),
        (&["--echo=7", "--wait=poll"], "for Tollgate's stack"),
        (
            &["--path=stack-tap", "--echo=7", "--wait=spin"],
            "[possible values: block, poll, adaptive]",
        ),
        (
            &["--path=stack-tap", "--echo=7", "--mtu=64k"],
            "--mtu: unknown MTU `64k`; an MTU is a number of bytes from 68 to 65535",
        ),
        (&["--echo=7", "--mtu=9000"], "--mtu, --network"),
        (
            &["--path=stack-tap", "--echo=7", "--listen=0.0.0.0"],
            "--listen is for --path kernel",
        ),
        (
            &[
                "--path=stack-tap",
                "--outward=1=127.0.0.1:2",
                "--listen=0.0.0.0",
            ],
            "--outward listens on 127.0.0.1",
        ),
        (&["--echo=7", "--set=ecn=classic"], "for Tollgate's stack"),
        (
            &["--path=stack-tap", "--echo=7", "--set=receive=queued"],
            "what applications choose",
        ),
        (
            &["--path=stack-tap", "--echo=7", "--set=nagle=on"],
            "what applications choose",
        ),
        (
            &["--path=stack-tap", "--echo=7", "--set=checksum=off"],
            "peers would drop",
        ),
        (
            &["--echo=7", "--outward=1=127.0.0.1:2"],
            "for Tollgate's stack",
        ),
        (&["--echo=7", "--once"], "the other end of --to"),
        (
            &["--echo=7", "--listen=127.0.0.1:8655"],
            "have ports of their own",
        ),
        (&["--echo=7", "--listen=[::1]:0"], "have ports of their own"),
        (&["--forward=x=127.0.0.1:2"], "no PORT=HOST:PORT"),
        (
            &["--path=stack-tap", "--echo=7", "--faults=loss=1"],
            "unknown fault `loss`",
        ),
        (
            &["--path=stack-tap", "--echo=7", "--network=10.0.0.1/30"],
            "no network",
        ),
    ] {
        let output = tollgate(&[&["serve"], arguments].concat())
            .output()
            .unwrap();
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {reason}");
        assert!(reason.contains(words), "{arguments:?} {reason}");
    }
}

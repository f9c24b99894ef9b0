//! Programs that nobody here wrote, as clients of our servers and as servers behind them. Each test has namespaces of its own.

mod any_transfer;
mod gone;
mod sandbox;
mod serving;
mod stalled;

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Stdio;

use sandbox::{Sandbox, written};
use serving::{On, OnTap, Serving, What, tap};
use sha2::{Digest, Sha256};
use tollgate_link::fault::Faults;

const KB: usize = 1024;
const MB: usize = 1024 * KB;

/// Bytes that no compression and no pattern makes smaller, piece by piece.
struct Noise(u64);

impl Noise {
    const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// The next bytes; the rest of the last eight is left out.
    fn next(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend_from_slice(&self.0.to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

fn noise(len: usize) -> Vec<u8> {
    Noise::new().next(len)
}

fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

/// A sum in words, as `sha256sum` has it.
fn hex(sum: Sha256) -> String {
    sum.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A directory with `small.txt` and `large` of so many bytes; gives the sum of `large`.
fn files(large: usize) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    // Servers that give up root read it, too.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(directory.path(), open).unwrap();
    fs::write(directory.path().join("small.txt"), "Hello, world!\n").unwrap();
    // It may be larger than memory.
    let mut file = fs::File::create(directory.path().join("large")).unwrap();
    let (mut noise, mut sum) = (Noise::new(), Sha256::new());
    for at in (0..large).step_by(MB) {
        let piece = noise.next(MB.min(large - at));
        file.write_all(&piece).unwrap();
        sum.update(&piece);
    }
    (directory, hex(sum))
}

/// The sum of what curl fetches. It is given up where nothing comes for a minute.
fn fetched(place: &Sandbox, url: &str, more: &[&str]) -> String {
    let patient = ["--speed-limit", "1", "--speed-time", "60"];
    let arguments = [&["-sS", "--fail", url], &patient[..], more].concat();
    let mut curl = place.program("curl", &arguments);
    let mut curl = curl.stdout(Stdio::piped()).spawn().unwrap();
    let mut sum = Sha256::new();
    let mut output = curl.stdout.take().unwrap();
    let mut piece = vec![0; MB];
    loop {
        match output.read(&mut piece).unwrap() {
            0 => break,
            count => sum.update(&piece[..count]),
        }
    }
    assert!(curl.wait().unwrap().success(), "curl {url}");
    hex(sum)
}

/// Bytes of the files of the longest transfers: `TOLLGATE_PEERS_BYTES`, or 40 MiB.
fn longest_transfer() -> usize {
    let Ok(given) = std::env::var("TOLLGATE_PEERS_BYTES") else {
        return 40 * MB;
    };
    given.parse().expect("a number of bytes")
}

/// A server of the kernel in the place.
fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[test]
fn curl_gets_files_ranges_and_refusals() {
    let Some(place) = Sandbox::new(&["curl"]) else {
        return;
    };
    let (directory, sum) = files(20 * MB);
    for on in [On::Kernel, tap()] {
        let serving = Serving::start(
            &place,
            on,
            &[(8080, What::Http(directory.path().to_owned()))],
        );
        assert_eq!(fetched(&place, &serving.url("/large"), &[]), sum, "{on:?}");
        // Two files on one connection, and a part of one.
        let (small, large) = (serving.url("/small.txt"), serving.url("/large"));
        let said = place.run(
            "curl",
            &[
                "-sS",
                "-w",
                "%{num_connects} %{http_code}\n",
                &small,
                &small,
            ],
        );
        assert_eq!(said, "Hello, world!\n1 200\nHello, world!\n0 200\n");
        let part = fetched(&place, &large, &["-r", "1000000-2999999"]);
        assert_eq!(part, sha256(&noise(20 * MB)[1_000_000..3_000_000]));
        let code = |arguments: &[&str]| {
            let always = ["-sS", "-o", "/dev/null", "-w", "%{http_code}"];
            place.run("curl", &[&always, arguments].concat())
        };
        assert_eq!(code(&["-I", &large]), "200");
        assert_eq!(code(&[&serving.url("/nothing")]), "404");
        assert_eq!(
            code(&["--path-as-is", &serving.url("/../../etc/passwd")]),
            "400"
        );
        assert_eq!(code(&["-X", "DELETE", &small]), "405");
        assert_eq!(code(&["-d", "content", &small]), "405");
        assert_eq!(
            code(&[
                "-T",
                directory.path().join("large").to_str().unwrap(),
                &small
            ]),
            "405"
        );
        assert_eq!(code(&["-r", "99999999-", &large]), "416");
        let file = directory.path().join("small.txt");
        assert_eq!(code(&["-z", file.to_str().unwrap(), &small]), "304");
        assert_eq!(code(&["--http1.0", &small]), "200");
        let counts = serving.end();
        assert_eq!(counts.failed.values().sum::<u64>(), 0, "{counts:?}");
    }
}

#[test]
fn wrk_finds_no_error_on_many_connections() {
    let Some(place) = Sandbox::new(&["wrk"]) else {
        return;
    };
    let (directory, _) = files(100 * KB);
    for on in [On::Kernel, tap()] {
        let serving = Serving::start(
            &place,
            on,
            &[(8080, What::Http(directory.path().to_owned()))],
        );
        for (file, connections) in [("/small.txt", "400"), ("/large", "50")] {
            let url = serving.url(file);
            let said = place.run(
                "wrk",
                &["-t1", "-c", connections, "-d1s", "--timeout", "30s", &url],
            );
            assert!(
                !said.contains("Socket errors") && !said.contains("Non-2xx"),
                "{on:?} {said}"
            );
            let requests: u64 = said
                .lines()
                .find_map(|line| line.trim().split_once(" requests in "))
                .and_then(|(count, _)| count.parse().ok())
                .unwrap_or_else(|| panic!("{said}"));
            assert!(requests >= 50, "{said}");
        }
        serving.end();
    }
}

#[test]
fn iperf3_runs_through_the_forwarder_both_ways() {
    let Some(place) = Sandbox::new(&["iperf3"]) else {
        return;
    };
    place.start("iperf3", &["-s"], 5201);
    let serving = Serving::start(&place, tap(), &[(5201, What::Forward(local(5201)))]);
    let to = serving.at[0].ip().to_string();
    for direction in [&[][..], &["-R"], &["--bidir"], &["-P", "4"]] {
        let arguments = ["-c", &to, "-t", "1", "-J"];
        let said = place.run("iperf3", &[&arguments, direction].concat());
        assert!(!said.contains("\"error\""), "{said}");
        assert!(said.contains("\"sum_received\""), "{said}");
    }
    serving.end();
}

#[test]
fn redis_is_served_through_the_forwarder() {
    let Some(place) = Sandbox::new(&["redis-server", "redis-benchmark", "redis-cli"]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().to_str().unwrap();
    place.start(
        "redis-server",
        &["--port", "6379", "--dir", home, "--save", ""],
        6379,
    );
    let serving = Serving::start(&place, tap(), &[(6379, What::Forward(local(6379)))]);
    let host = serving.at[0].ip().to_string();
    let said = place.run(
        "redis-benchmark",
        &[
            "-h",
            &host,
            "-t",
            "set,get,lpush",
            "-n",
            "3000",
            "-c",
            "50",
            "-P",
            "4",
            "-d",
            "900",
            "--csv",
        ],
    );
    for test in ["SET", "GET", "LPUSH"] {
        assert!(said.contains(&format!("\"{test}\"")), "{said}");
    }
    let value = "v".repeat(500 * KB / 10);
    place.run("redis-cli", &["-h", &host, "set", "key", &value]);
    assert_eq!(
        place
            .run("redis-cli", &["-h", &host, "get", "key"])
            .trim_end(),
        value
    );
    let counts = serving.end();
    assert!(counts.accepted >= 100, "{counts:?}");
}

/// Starts an OpenSSH server on port 2222 of the place; gives the options with which ssh lets itself be let in.
fn ssh_server(place: &Sandbox, home: &Path) -> Vec<String> {
    let path = |name: &str| home.join(name).display().to_string();
    for key in ["host", "user"] {
        place.run(
            "ssh-keygen",
            &["-q", "-t", "ed25519", "-N", "", "-f", &path(key)],
        );
    }
    let config = format!(
        "Port 2222\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
         PidFile none\n",
        path("host"),
        path("user.pub")
    );
    fs::write(home.join("config"), config).unwrap();
    place.start("/usr/sbin/sshd", &["-D", "-f", &path("config")], 2222);
    let mut options = vec!["-F", "none", "-i"]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    options.push(path("user"));
    for option in [
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "BatchMode=yes",
        "LogLevel=ERROR",
    ] {
        options.extend(["-o".to_owned(), option.to_owned()]);
    }
    options
}

#[test]
fn ssh_carries_files_through_the_forwarder_and_out_by_our_stack() {
    let Some(place) = Sandbox::new(&["sshd", "ssh", "ssh-keygen"]) else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let options = ssh_server(&place, home.path());
    let (directory, sum) = files(8 * MB);
    // In: our stack is the server. Out: it is the client, of the kernel at its other end.
    let serving = Serving::start(&place, tap(), &[(22, What::Forward(local(2222)))]);
    let at = serving.at[0].ip().to_string();
    let ssh = |to: &str, port: &str, command: &str| {
        let mut arguments: Vec<&str> = options.iter().map(String::as_str).collect();
        let user = format!("root@{to}");
        arguments.extend(["-p", port, &user, command]);
        let mut ssh = place.program("ssh", &arguments);
        ssh.stdin(fs::File::open(directory.path().join("large")).unwrap());
        written("ssh", &ssh.stdout(Stdio::piped()).output().unwrap())
    };
    let first = ssh(&at, "22", "sha256sum");
    assert_eq!(first.split(' ').next(), Some(sum.as_str()));
    let back = format!("cat {}", directory.path().join("large").display());
    let mut arguments: Vec<&str> = options.iter().map(String::as_str).collect();
    let user = format!("root@{at}");
    arguments.extend([user.as_str(), back.as_str()]);
    let output = place.program("ssh", &arguments).output().unwrap();
    assert!(output.status.success());
    assert_eq!(sha256(&output.stdout), sum);
    serving.end();
}

/// Starts nginx with the files of a directory, on this port.
fn nginx(place: &Sandbox, home: &Path, files: &Path, port: u16) {
    let config = format!(
        "daemon off; master_process off; error_log stderr; pid {home}/pid;\nevents {{ }}\nhttp {{ access_log off; sendfile on;\n\
         client_body_temp_path {home}; proxy_temp_path {home}; fastcgi_temp_path {home}; uwsgi_temp_path {home}; scgi_temp_path {home};\n\
         server {{ listen 0.0.0.0:{port}; listen [::]:{port} ipv6only=on; root {files}; }} }}\n",
        home = home.display(),
        files = files.display()
    );
    let file = home.join("nginx.conf");
    fs::write(&file, config).unwrap();
    place.start(
        "nginx",
        &["-c", file.to_str().unwrap(), "-e", "stderr"],
        port,
    );
}

/// Faults by which frames meet all that may happen to them.
fn storm(more: &str) -> Faults {
    let all = "drop=0.005,duplicate=0.005,reorder=0.01,corrupt=0.002,delay=1ms,jitter=0.5ms";
    format!("{all}{more}").parse().unwrap()
}

/// The files without faults have 40 MiB. `TOLLGATE_PEERS_BYTES=5000000000` makes the first of these larger, so that sequence numbers
/// wrap; `make soak` does so.
#[test]
fn nginx_serves_our_stack_and_through_it_whatever_happens_to_frames() {
    let Some(place) = Sandbox::new(&["nginx", "curl"]) else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    for (mtu, faults, size) in [
        (1500, Faults::default(), longest_transfer()),
        (1500, storm(""), 3 * MB),
        (576, storm(""), MB),
        // Black holes of path MTU discovery, in both directions: the first is too narrow for IPv6.
        (1500, storm(",longest=1000"), MB),
        (9000, storm(",longest=1300"), MB),
        (9000, Faults::default(), 40 * MB),
    ] {
        let (directory, sum) = files(size);
        let place = Sandbox::new(&[]).unwrap_or_else(|| panic!("a second place"));
        nginx(&place, home.path(), directory.path(), 8000);
        let on = OnTap {
            mtu,
            faults,
            ..OnTap::default()
        };
        // The addresses of the kernel at the other end are known once the device is: the first one of a place is tollgate0.
        let kernel = "198.18.0.1:8000".parse().unwrap();
        let kernel_v6 = "[2001:2::1]:8000".parse().unwrap();
        let what = [
            (80, What::Forward(local(8000))),
            (8001, What::Outward(kernel)),
            (8002, What::Outward(kernel_v6)),
        ];
        let serving = Serving::start(&place, On::Tap(on), &what);
        let mut ways = vec![("in", serving.at[0]), ("out", serving.at[1])];
        // A link of shorter packets carries no IPv6.
        if on.carries_v6() {
            ways.extend([
                ("in over IPv6", serving.at_v6[0]),
                ("out over IPv6", serving.at[2]),
            ]);
        } else if mtu < 1280 {
            assert_eq!(serving.at_v6, []);
        }
        for (way, at) in &ways {
            let url = format!("http://{at}/large");
            assert_eq!(fetched(&place, &url, &["-g"]), sum, "{way}: {on:?}");
        }
        let counts = serving.end();
        assert_eq!(counts.accepted, ways.len() as u64);
    }
    drop(place);
}

#[test]
fn an_expert_finds_nothing_wrong_with_what_we_send() {
    let Some(place) = Sandbox::new(&["curl", "dumpcap", "tshark", "nginx"]) else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let (directory, sum) = files(2 * MB);
    nginx(&place, home.path(), directory.path(), 8000);
    let kernel: SocketAddr = "198.18.0.1:8000".parse().unwrap();
    let what = [
        (80, What::Http(directory.path().to_owned())),
        (8001, What::Outward(kernel)),
        (81, What::Forward(local(8000))),
    ];
    let lossy = On::Tap(OnTap {
        faults: "drop=0.01,duplicate=0.01,reorder=0.02,delay=1ms"
            .parse()
            .unwrap(),
        ..OnTap::default()
    });
    for (on, severity) in [(tap(), "Warning"), (lossy, "Error")] {
        let serving = Serving::start(&place, on, &what);
        let found = place.expert("tollgate0", severity, || {
            for at in serving.at.iter().chain(&serving.at_v6) {
                assert_eq!(fetched(&place, &format!("http://{at}/large"), &["-g"]), sum);
                let small = format!("http://{at}/small.txt");
                assert_eq!(place.run("curl", &["-sSg", &small]), "Hello, world!\n");
            }
        });
        // A reader that is slower than its sender closes its window, which is no defect. Nor is sending again what was lost, or late on
        // a busy machine: pieces of a frame that was cut overlap it in the expert's eyes.
        let expected = [
            "TCP window specified by the receiver is now completely full",
            "D-SACK Sequence",
            "New fragment overlaps old data (retransmission?)",
        ];
        let is_defect = |line: &&String| {
            let known = expected.iter().any(|end| line.ends_with(end));
            !known || line.contains("overlaps") && !line.contains("(suspected)")
        };
        let defects: Vec<_> = found.iter().filter(is_defect).collect();
        assert!(defects.is_empty(), "{on:?} {defects:#?}");
        serving.end();
    }
}

#[test]
fn thousands_of_connections_are_served_at_once() {
    let Some(place) = Sandbox::new(&[]) else {
        return;
    };
    const CONNECTIONS: usize = 1500;
    tollgate_link::host::raise_descriptor_limit();
    for on in [On::Kernel, tap()] {
        let what = [(7, What::Echo), (9, What::Discard), (19, What::Chargen)];
        let serving = Serving::start(&place, on, &what);
        let [echo, discard, chargen] = serving.at[..] else {
            unreachable!("three services");
        };
        place.within(|| {
            let connect = |to| {
                let stream = TcpStream::connect(to).unwrap();
                stream.set_read_timeout(Some(sandbox::PATIENCE)).unwrap();
                stream
            };
            let mut echoes: Vec<_> = (0..CONNECTIONS).map(|_| connect(echo)).collect();
            for (number, stream) in echoes.iter_mut().enumerate() {
                stream.write_all(&noise(100 + number)).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            }
            for (number, stream) in echoes.iter_mut().enumerate() {
                let mut back = Vec::new();
                stream.read_to_end(&mut back).unwrap();
                assert_eq!(back, noise(100 + number));
            }
            let mut stream = connect(discard);
            stream.write_all(&noise(MB)).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            let mut lines = vec![0; 2 * MB];
            let mut stream = connect(chargen);
            stream.read_exact(&mut lines).unwrap();
            for (number, line) in lines.chunks_exact(74).enumerate() {
                assert_eq!(usize::from(line[0]), 32 + number % 95);
                assert_eq!(line[72..], *b"\r\n");
            }
            stream.shutdown(Shutdown::Write).unwrap();
            assert!(stream.read_to_end(&mut Vec::new()).is_ok());
        });
        let counts = serving.end();
        assert_eq!(counts.accepted, CONNECTIONS as u64 + 2);
        assert_eq!(counts.done, counts.accepted, "{counts:?}");
    }
}

#[test]
fn datagrams_are_echoed_and_discarded() {
    let Some(place) = Sandbox::new(&[]) else {
        return;
    };
    // The longest are fragments, where the device carries 1,500 bytes.
    const SIZES: [usize; 5] = [0, 1, 1_000, 1_473, 30_000];
    for on in [On::Kernel, tap()] {
        let what = [(7, What::Echo), (9, What::Discard), (19, What::Chargen)];
        let serving = Serving::start(&place, on, &what);
        let mut sent = 0;
        place.within(|| {
            let versions = [&serving.at, &serving.at_v6];
            for version in versions.into_iter().filter(|at| !at.is_empty()) {
                let (echo, discard) = (version[0], version[1]);
                let bind = |port| match echo {
                    SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)),
                    SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)),
                };
                // What a service may have sent is not answered: two of them would not come to an end.
                let service = bind(999).unwrap();
                service.send_to(b"an answer?", echo).unwrap();
                let client = bind(0).unwrap();
                client.set_read_timeout(Some(sandbox::PATIENCE)).unwrap();
                let mut back = vec![0; 65_536];
                for (number, size) in SIZES.into_iter().cycle().take(200).enumerate() {
                    let out = noise(size + number);
                    client.send_to(b"nothing comes back", discard).unwrap();
                    client.send_to(&out, echo).unwrap();
                    let (len, from) = client.recv_from(&mut back).unwrap();
                    assert_eq!((from, &back[..len]), (echo, &out[..]));
                    sent += 1;
                }
                service.set_nonblocking(true).unwrap();
                let answer = service.recv_from(&mut back).map_err(|error| error.kind());
                assert_eq!(answer, Err(std::io::ErrorKind::WouldBlock));
                // Nobody serves this port, and the sender is told.
                let nobody = SocketAddr::new(echo.ip(), 19);
                client.connect(nobody).unwrap();
                client.send(b"x").unwrap();
                let refused = client.recv(&mut back).map_err(|error| error.kind());
                assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));
            }
        });
        let counts = serving.end().datagrams;
        let versions = sent / 200;
        assert_eq!((counts.answered, counts.lost), (sent, 0));
        assert_eq!(counts.suspicious, versions);
        assert_eq!(counts.received, 2 * sent + versions);
    }
}

//! Fast Open (RFC 7413) with Linux at the other end of a tap device, in a network namespace of the test's own: each end as client and
//! as server, over IPv4 and IPv6.

mod linux;

use linux::{in_a_namespace, until};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sendto, socket_with};
use std::io::{Error, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;
use std::{fs, thread};
use tollgate_link::host::{self, Beside, Network};
use tollgate_stack::config::Ipv6;
use tollgate_stack::{Active, Config, ConnId, FastOpen, Open, Pool, Received, Stack, State};
use tollgate_wire::ethernet::MacAddr;

const MTU: usize = 1500;
const PORT: u16 = 7413;
const REQUEST: &[u8] = b"a request that goes with the SYN";
const ANSWER: &[u8] = b"an answer";

/// Our stack on its end of the device.
struct Ours {
    stack: Stack,
    pool: Pool,
    beside: Beside,
    begin: Instant,
}

const fn v6(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host)
}

impl Ours {
    fn new(beside: Beside) -> Self {
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        let network = beside.network;
        let mut config = Config::new(mac, network.stack(), network.prefix(), [1, 2, 3, 4]);
        config.ipv6 = Some(Ipv6 {
            address: Some((v6(2), 64)),
            duplicate_checks: 0,
            router_advertisements: false,
            ..Ipv6::default()
        });
        let now = tollgate_stack::Instant::from_nanos(1 << 40);
        Self {
            stack: Stack::new(config, MTU, now).unwrap(),
            pool: Pool::new(256, Pool::frame_size_for(MTU)),
            beside,
            begin: Instant::now(),
        }
    }

    fn now(&self) -> tollgate_stack::Instant {
        let nanos = (1 << 40) + self.begin.elapsed().as_nanos() as u64;
        tollgate_stack::Instant::from_nanos(nanos)
    }

    fn at(&mut self) -> Active<'_> {
        let now = self.now();
        self.stack.at(now, &mut self.pool)
    }

    /// Works until `done` says so.
    fn until<T>(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        until(what, || {
            let now = self.now();
            let mut active = self.stack.at(now, &mut self.pool);
            active.poll(&mut self.beside.tap);
            active.flush(&mut self.beside.tap);
            done(self)
        })
    }

    fn read(&mut self, conn: ConnId, bytes: usize) -> Vec<u8> {
        let mut got = Vec::new();
        self.until("bytes", |this| {
            let mut buffer = [0; 100];
            if let Received::Data(n) = this.at().receive(conn, &mut buffer).unwrap() {
                got.extend_from_slice(&buffer[..n]);
            }
            (got.len() >= bytes).then_some(())
        });
        got
    }

    fn close(&mut self, conn: ConnId) {
        self.at().close(conn).unwrap();
        self.until("the end", |this| {
            (this.stack.connections() == 0).then_some(())
        });
    }
}

/// A listener of the kernel's that takes data in SYNs.
fn kernel_listener(address: IpAddr) -> TcpListener {
    let listener = TcpListener::bind((address, PORT)).unwrap();
    let queue: libc::c_int = 5;
    // SAFETY: the option's value is an int, which lives as long as the call.
    let set = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_FASTOPEN,
            (&raw const queue).cast(),
            size_of_val(&queue) as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "{}", Error::last_os_error());
    listener.set_nonblocking(true).unwrap();
    listener
}

/// Opens a connection from the kernel with data.
fn kernel_connects(to: SocketAddr) -> TcpStream {
    let family = if to.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let with_data = SendFlags::from_bits_retain(libc::MSG_FASTOPEN as u32);
    let sent = sendto(&socket, REQUEST, with_data, &to).unwrap();
    assert_eq!(sent, REQUEST.len());
    socket.into()
}

/// A counter of the namespace's kernel.
fn counter(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|found| found == name).unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// Does something with our stack beside Linux, where both take Fast Open, unless this machine cannot.
fn beside_linux(work: impl FnOnce(Ours) + Send + 'static) {
    in_a_namespace(|| {
        let beside = match Beside::open(Some(network()), MTU) {
            Ok(beside) => beside,
            Err(error) => return tollgate_skip::skipped!("no tap device: {error}"),
        };
        let name = beside.tap.name().to_owned();
        let address = format!("{}/64", v6(1));
        host::ip(&["-6", "address", "add", &address, "dev", &name, "nodad"]).unwrap();
        fs::write("/proc/sys/net/ipv4/tcp_fastopen", "3").unwrap();
        work(Ours::new(beside));
    });
}

fn network() -> Network {
    "198.18.0.0/30".parse().unwrap()
}

/// Addresses of Linux and of our stack, of both versions.
fn addresses() -> [(IpAddr, IpAddr); 2] {
    let network = network();
    [
        (network.kernel().into(), network.stack().into()),
        (v6(1).into(), v6(2).into()),
    ]
}

/// TFO-9. Our client: the first connection gets Linux' cookie, the second has its data in the SYN.
#[test]
fn linux_takes_data_from_our_syn() {
    beside_linux(|mut ours| {
        for (kernel, _) in addresses() {
            let listener = kernel_listener(kernel);
            for outcome in [FastOpen::CookieReceived, FastOpen::DataAcknowledged] {
                let before = counter("TCPFastOpenPassive");
                let to = SocketAddr::new(kernel, PORT);
                let opened = ours.at().connect_with_data(to, &Open::default(), REQUEST);
                let (conn, taken) = opened.unwrap();
                assert_eq!(taken, REQUEST.len());
                let (mut socket, _) = ours.until("Linux' server", |_| listener.accept().ok());
                ours.until("the handshake", |this| {
                    (this.at().state(conn) == State::Established).then_some(())
                });
                let mut request = vec![0; REQUEST.len()];
                socket.read_exact(&mut request).unwrap();
                assert_eq!(request, REQUEST);
                socket.write_all(ANSWER).unwrap();
                assert_eq!(ours.read(conn, ANSWER.len()), ANSWER);
                let info = ours.at().info(conn).unwrap();
                assert_eq!(info.fast_open, outcome, "{kernel}");
                let passive = u64::from(outcome == FastOpen::DataAcknowledged);
                assert_eq!(counter("TCPFastOpenPassive") - before, passive);
                drop(socket);
                ours.close(conn);
            }
        }
    });
}

/// TFO-3. Our server: Linux' client gets our cookie with its first connection, and its second one's data is taken from the SYN.
#[test]
fn we_take_data_from_the_syn_of_linux() {
    beside_linux(|mut ours| {
        let open = Open {
            fast_open: 5,
            ..Open::default()
        };
        let listener = ours.at().listen_with(PORT, 5, &open).unwrap();
        for (_, stack) in addresses() {
            for accepted in [0, 1] {
                let before = ours.stack.counters().fast_opens_accepted;
                let active = counter("TCPFastOpenActive");
                // It blocks until its SYN is answered, unless it knows a cookie.
                let client = thread::spawn(move || {
                    let mut socket = kernel_connects(SocketAddr::new(stack, PORT));
                    let mut answer = vec![0; ANSWER.len()];
                    socket.read_exact(&mut answer).unwrap();
                    answer
                });
                let conn = ours.until("Linux' client", |this| this.at().accept(listener).ok());
                assert_eq!(ours.read(conn, REQUEST.len()), REQUEST);
                ours.at().send(conn, ANSWER).unwrap();
                ours.until("the answer", |_| client.is_finished().then_some(()));
                assert_eq!(client.join().unwrap(), ANSWER);
                let taken = ours.stack.counters().fast_opens_accepted - before;
                assert_eq!(taken, accepted, "{stack}");
                assert_eq!(counter("TCPFastOpenActive") - active, accepted);
                ours.close(conn);
            }
        }
    });
}

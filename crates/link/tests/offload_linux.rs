//! Segmentation and TCP's checksums that are left to Linux at the other end of a tap device, in a network namespace of the test's own,
//! over IPv4 and IPv6. Linux takes them itself, and forwards them to a device that has none of this.

mod linux;

use linux::{in_a_namespace, until};
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Instant;
use std::{fs, thread};
use tollgate_link::host::{self, Beside};
use tollgate_link::tap::Offloads;
use tollgate_stack::config::{Ipv6, Nagle};
use tollgate_stack::{Active, Config, ConnId, Error, Pool, Received, Stack};
use tollgate_wire::ethernet::MacAddr;

const MTU: usize = 1500;
const PORT: u16 = 7000;
/// Bytes of a stream: many trains, and a last segment that is not full.
const STREAM: usize = 1_000_003;

fn stream() -> Vec<u8> {
    (0..STREAM).map(|at| (at ^ at >> 8) as u8).collect()
}

/// The host of an address of a tap device's network, over IPv6.
const fn v6(net: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, net, 0, 0, 0, host)
}

/// Our stack on its end of a device.
struct Ours {
    stack: Stack,
    pool: Pool,
    beside: Beside,
    begin: Instant,
}

impl Ours {
    /// A stack in the network of this number. Routers and hosts of others are behind Linux.
    fn new(net: u8) -> Option<Self> {
        let network = format!("198.18.{net}.0/30").parse().unwrap();
        let mut beside = match Beside::open(Some(network), MTU) {
            Ok(beside) => beside,
            Err(error) => {
                tollgate_skip::skipped!("no tap device: {error}");
                return None;
            }
        };
        let address = format!("{}/64", v6(net.into(), 1));
        let name = beside.tap.name();
        host::ip(&["-6", "address", "add", &address, "dev", name, "nodad"]).unwrap();
        let mac = MacAddr([2, 0, 0, 0, 9, net]);
        let mut config = Config::new(mac, network.stack(), network.prefix(), [1, 2, 3, 4]);
        config.gateway = Some(network.kernel());
        config.mechanisms.nagle = Nagle::Off;
        config.ipv6 = Some(Ipv6 {
            address: Some((v6(net.into(), 2), 64)),
            duplicate_checks: 0,
            router_advertisements: false,
            ..Ipv6::default()
        });
        let config = config.for_link(&mut beside.tap);
        assert!(config.completes_checksums);
        let now = tollgate_stack::Instant::from_nanos(1 << 40);
        Some(Self {
            stack: Stack::new(config, MTU, now).unwrap(),
            pool: Pool::new(1024, Pool::frame_size_for(MTU)),
            beside,
            begin: Instant::now(),
        })
    }

    fn now(&self) -> tollgate_stack::Instant {
        let nanos = (1 << 40) + self.begin.elapsed().as_nanos() as u64;
        tollgate_stack::Instant::from_nanos(nanos)
    }

    fn at(&mut self) -> Active<'_> {
        let now = self.now();
        self.stack.at(now, &mut self.pool)
    }

    fn turn(&mut self) {
        let now = self.now();
        let mut active = self.stack.at(now, &mut self.pool);
        active.poll(&mut self.beside.tap);
        active.flush(&mut self.beside.tap);
    }

    /// Gives what the connection takes of a stream from `sent` on, and closes behind it.
    fn send(&mut self, conn: ConnId, stream: &[u8], sent: &mut usize) {
        while *sent < stream.len() {
            match self.at().send(conn, &stream[*sent..]) {
                Ok(taken) => *sent += taken,
                Err(Error::WouldBlock | Error::NotConnected) => return,
                Err(error) => panic!("{error}"),
            }
            if *sent == stream.len() {
                self.at().close(conn).unwrap();
            }
        }
    }
}

/// A counter of TCP of the namespace's kernel.
fn counter(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|found| found == name).unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

#[test]
fn linux_takes_trains_and_begun_checksums_of_both_versions() {
    in_a_namespace(|| {
        let Some(mut ours) = Ours::new(0) else { return };
        let network = ours.beside.network;
        let sent_to: [IpAddr; 2] = [network.kernel().into(), v6(0, 1).into()];
        for kernel in sent_to {
            let listener = TcpListener::bind((kernel, PORT)).unwrap();
            let reader = thread::spawn(move || {
                let (mut socket, _) = listener.accept().unwrap();
                let mut read = Vec::new();
                socket.read_to_end(&mut read).unwrap();
                read
            });
            let before = *ours.beside.tap.stats();
            let conn = ours.at().connect(SocketAddr::new(kernel, PORT)).unwrap();
            let (stream, mut sent) = (stream(), 0);
            until("the end of the stream", || {
                ours.turn();
                ours.send(conn, &stream, &mut sent);
                reader.is_finished().then_some(())
            });
            assert!(reader.join().unwrap() == stream, "{kernel}: other bytes");
            let after = ours.beside.tap.stats();
            let (frames, writes) = (after.sent - before.sent, after.writes - before.writes);
            assert!(frames > STREAM as u64 / MTU as u64);
            assert!(
                writes * 4 < frames,
                "{kernel}: {frames} frames in {writes} writes"
            );
        }
        assert_eq!(counter("InCsumErrors"), 0);
    });
}

#[test]
fn linux_completes_what_leaves_by_a_device_without_offloads() {
    in_a_namespace(|| {
        let (Some(mut sender), Some(mut receiver)) = (Ours::new(0), Ours::new(1)) else {
            return;
        };
        for forwards in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            fs::write(format!("/proc/sys/net/{forwards}"), "1").unwrap();
        }
        receiver.beside.tap.set_offloads(Offloads::Nothing).unwrap();
        let listener = receiver.at().listen(PORT, 1).unwrap();
        let to = SocketAddr::new(receiver.beside.network.stack().into(), PORT);
        let conn = sender.at().connect(to).unwrap();
        let (stream, mut sent) = (stream(), 0);
        let (mut accepted, mut read) = (None, Vec::new());
        let mut buffer = vec![0; 64 * 1024];
        until("the end of the stream", || {
            sender.turn();
            sender.send(conn, &stream, &mut sent);
            receiver.turn();
            accepted = accepted.or_else(|| receiver.at().accept(listener).ok());
            loop {
                match receiver.at().receive(accepted?, &mut buffer) {
                    Ok(Received::Data(len)) => read.extend_from_slice(&buffer[..len]),
                    Ok(Received::End) => return Some(()),
                    Ok(Received::Nothing) => return None,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        assert!(read == stream, "other bytes");
        let stats = receiver.beside.tap.stats();
        assert_eq!(stats.large, 0, "Linux gave a frame uncut");
        let trains = sender.beside.tap.stats().trains;
        assert!(trains > 0, "nothing was left to Linux");
    });
}

//! A host of ours on a tap device, its peers of the kernel, and what tests do with both.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tollgate_link::fault::{Fault, Faults};
use tollgate_link::{WaitOutcome, Waitable as _};
use tollgate_run::Workload;
use tollgate_stack::link::Integrity;
use tollgate_stack::{ConnId, Error as Refusal, Instant, ListenerId, Pool, Received, Stack, State};

use super::super::*;
use crate::clock::now_ns;
use crate::payload::{check, fill};
use crate::stack_host::{self, CLIENT, PORT};

/// The longest time for which a peer of the kernel waits for anything.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Turns of [`Host::until`] before it gives up: between one and five minutes where nothing comes.
const TURNS: u32 = 60_000;
/// The longest sleep of a turn.
const NAP: Duration = Duration::from_millis(5);
/// The seed of the bytes.
pub(super) const SEED: u64 = 9;
/// The address of our stack, and the port that it listens on.
pub(super) const OURS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), PORT);

/// A device in a namespace of its own; none where this machine gives neither, which is said.
pub(super) fn device(mtu: usize) -> Option<(KernelSide, Tap)> {
    let made = KernelSide::new(PATH, DEVICE).and_then(|side| {
        let tap = tap(&side, mtu)?;
        Ok((side, tap))
    });
    made.inspect_err(|reason| tollgate_skip::skipped!("{reason}"))
        .ok()
}

/// A stack of ours on a tap device.
pub(super) struct Host {
    pub(super) stack: Stack,
    pub(super) pool: Pool,
    pub(super) line: Fault<Fault<Tap>>,
    pub(super) side: Arc<KernelSide>,
}

impl Host {
    /// A host whose device has this MTU; none where this machine gives no namespace, which is said.
    pub(super) fn new(mtu: usize) -> Option<Self> {
        let (side, tap) = device(mtu)?;
        side.bring_up(mtu).unwrap();
        let spec = Spec::new(Workload::Rr, 1);
        let link = (mtu, Integrity::Unprotected);
        let now = Instant::from_nanos(now_ns());
        Some(Self {
            stack: stack_host::stack(PATH, &spec, CLIENT, link, now).unwrap(),
            pool: stack_host::pool(PATH, mtu),
            line: Fault::on_transmit(
                Fault::on_receive(tap, Faults::default(), 1),
                Faults::default(),
                2,
            ),
            side: Arc::new(side),
        })
    }

    pub(super) fn tap(&self) -> &Tap {
        self.line.inner().inner()
    }

    pub(super) fn tap_mut(&mut self) -> &mut Tap {
        self.line.inner_mut().inner_mut()
    }

    /// Lets frames of both directions meet faults from now on.
    pub(super) fn set_faults(&mut self, faults: Faults) {
        self.line.set_faults(faults);
        self.line.inner_mut().set_faults(faults);
    }

    pub(super) fn active(&mut self) -> tollgate_stack::Active<'_> {
        self.stack.at(Instant::from_nanos(now_ns()), &mut self.pool)
    }

    pub(super) fn poll(&mut self) {
        let now = Instant::from_nanos(now_ns());
        self.line.set_now(now);
        self.line.inner_mut().set_now(now);
        self.stack.at(now, &mut self.pool).poll(&mut self.line);
        self.line.poll(&mut self.pool);
    }

    /// Polls and sleeps until `look` finds something.
    pub(super) fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        for _ in 0..TURNS {
            self.poll();
            if let Some(found) = look(self) {
                return found;
            }
            let now = Instant::from_nanos(now_ns());
            let held = [self.line.next_event(), self.line.inner().next_event()];
            let due = self.stack.next_deadline(now).into_iter();
            let due = due.chain(held.into_iter().flatten()).min();
            let due = due.map_or(u64::MAX, |due| due.nanos_since(now));
            let nap = Duration::from_nanos(due).min(NAP);
            assert_ne!(self.tap().wait(nap), WaitOutcome::PeerGone);
        }
        panic!("no {what} in {TURNS} turns");
    }

    pub(super) fn listen(&mut self) -> ListenerId {
        self.active().listen(PORT, 16).unwrap()
    }

    pub(super) fn accept(&mut self, listener: ListenerId) -> ConnId {
        self.until("connection", |host| host.active().accept(listener).ok())
    }

    pub(super) fn connect(&mut self, to: SocketAddrV4) -> ConnId {
        let conn = self.active().connect(to).unwrap();
        self.until("handshake", |host| {
            (host.active().state(conn) == State::Established).then_some(conn)
        })
    }

    /// Sends all of it.
    pub(super) fn send(&mut self, conn: ConnId, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let sent = self.until("room", |host| match host.active().send(conn, bytes) {
                Ok(sent) => Some(sent),
                Err(Refusal::WouldBlock) => None,
                Err(error) => panic!("sending: {error}"),
            });
            bytes = &bytes[sent..];
        }
    }

    /// Receives at least one byte; none at the end.
    pub(super) fn receive(&mut self, conn: ConnId, into: &mut [u8]) -> usize {
        self.until("bytes", |host| match host.active().receive(conn, into) {
            Ok(Received::Data(count)) => Some(count),
            Ok(Received::End) => Some(0),
            Ok(Received::Nothing) => None,
            Err(error) => panic!("receiving: {error}"),
        })
    }

    /// Receives the bytes of the seed to the end, and gives how many there were.
    pub(super) fn receive_all(&mut self, conn: ConnId) -> usize {
        let (mut buffer, mut got) = (vec![0; 64 * 1024], 0);
        loop {
            match self.receive(conn, &mut buffer) {
                0 => return got,
                count => {
                    check(&buffer[..count], SEED, got as u64).unwrap();
                    got += count;
                }
            }
        }
    }

    /// Sends back what comes, to the end.
    pub(super) fn echo(&mut self, conn: ConnId) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match self.receive(conn, &mut buffer) {
                0 => return,
                count => self.send(conn, &buffer[..count]),
            }
        }
    }

    /// Closes the only connection, and waits until the other end has closed it as well.
    pub(super) fn close(&mut self, conn: ConnId) {
        self.active().close(conn).unwrap();
        self.until("close", |host| {
            (host.stack.connections() == 0).then_some(())
        });
    }

    /// Does something beside our stack, in the namespace of the kernel's side.
    pub(super) fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> JoinHandle<io::Result<T>> {
        let side = Arc::clone(&self.side);
        thread::spawn(move || side.within(|| Ok(work())).unwrap())
    }

    /// Polls until the work beside is done.
    pub(super) fn join<T>(&mut self, peer: JoinHandle<io::Result<T>>) -> T {
        self.until("end of the peer", |_| peer.is_finished().then_some(()));
        peer.join().unwrap().unwrap()
    }

    /// Polls while a program runs in the kernel's namespace, and gives what it wrote.
    pub(super) fn run(&mut self, program: &'static str, arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&one| one.to_owned()).collect();
        let peer = self.beside(move || Command::new(program).args(arguments).output());
        let done = self.join(peer);
        assert!(done.status.success(), "{program}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Sets a switch of the kernel's side.
    pub(super) fn sysctl(&self, name: &'static str, value: &'static str) {
        let set = self.beside(move || fs::write(format!("/proc/sys/net/ipv4/{name}"), value));
        set.join().unwrap().unwrap();
    }

    /// Linux has found no wrong checksum and no wrong header in what we sent.
    pub(super) fn nothing_was_wrong(&mut self) {
        let snmp = self.run("cat", &["/proc/thread-self/net/snmp"]);
        let count = |layer: &str, name: &str| {
            let mut lines = snmp.lines().filter(|line| line.starts_with(layer));
            let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
            let at = names.split(' ').position(|one| one == name).unwrap();
            values.split(' ').nth(at).unwrap().to_owned()
        };
        for (layer, name) in [
            ("Tcp:", "InCsumErrors"),
            ("Tcp:", "InErrs"),
            ("Ip:", "InHdrErrors"),
        ] {
            assert_eq!(count(layer, name), "0", "{layer} {name}: {snmp}");
        }
        assert_eq!(self.tap().stats().refused, 0);
    }

    /// Every frame is back in the pool once no connection is left.
    pub(super) fn frames_are_back(&mut self) {
        self.until("last frame", |host| {
            (host.pool.available() == host.pool.capacity()).then_some(())
        });
    }
}

pub(super) fn bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, SEED, 0);
    bytes
}

pub(super) fn connect() -> io::Result<TcpStream> {
    let stream = TcpStream::connect(OURS)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// A socket of the kernel sends the bytes of the seed to our echo and compares what comes back.
pub(super) fn echo_of(len: usize) -> io::Result<()> {
    let mut stream = connect()?;
    let writer = {
        let mut stream = stream.try_clone()?;
        thread::spawn(move || {
            stream.write_all(&bytes(len))?;
            stream.shutdown(Shutdown::Write)
        })
    };
    let mut back = Vec::new();
    stream.read_to_end(&mut back)?;
    writer.join().unwrap()?;
    if back != bytes(len) {
        return Err(io::Error::other("the echo is another than what was sent"));
    }
    Ok(())
}

/// Our stack echoes to a socket of the kernel that connects to it.
pub(super) fn serve_echo(host: &mut Host, len: usize) {
    let listener = host.listen();
    let peer = host.beside(move || echo_of(len));
    let conn = host.accept(listener);
    host.echo(conn);
    host.close(conn);
    host.join(peer);
    host.frames_are_back();
}

/// A listener of the kernel's side.
pub(super) fn kernel_listener(host: &Host) -> (TcpListener, SocketAddrV4) {
    let address = host.side.address();
    let listener = host.beside(move || TcpListener::bind((address, 0)));
    let listener = listener.join().unwrap().unwrap();
    match listener.local_addr().unwrap() {
        SocketAddr::V4(address) => (listener, address),
        SocketAddr::V6(_) => unreachable!("bound to an IPv4 address"),
    }
}

//! A host of ours on a link, its peers of the kernel, and what tests do with both.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tollgate_link::fault::{Fault, Faults};
use tollgate_link::{WaitOutcome, Waitable};
use tollgate_run::{PathId, Workload};
use tollgate_stack::{ConnId, Error as Refusal, Instant, ListenerId, Pool, Received, Stack, State};

use super::super::*;
use crate::clock::now_ns;
use crate::namespace;
use crate::path::Path;
use crate::payload::{check, fill};
use crate::stack_host::{self, CLIENT, PORT};
use crate::stack_veth::{self, OurSide};

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

/// A link that the tests run over.
pub(crate) trait Subject: Waitable + Sized + 'static {
    /// The path over it.
    const PATH: PathId;
    /// The name of the kernel's device.
    const DEVICE: &'static str;
    /// Segments leave in trains.
    const GATHERS: bool;
    /// Bytes of the largest IP packet that it carries.
    const LARGEST_MTU: usize;
    /// The module that has its tests.
    const TESTS: &'static str;

    /// Both ends of a link, whose kernel's end has no address yet.
    fn make(mtu: usize) -> Result<Made<Self>, Error>;

    /// Opens a link as `make` does, in the calling thread's namespace, where its device is or will be.
    fn open_here(mtu: usize) -> Result<(Self, Pool), Error>;

    fn counts(&mut self) -> Counts;

    fn path() -> &'static dyn Path {
        crate::find(Self::PATH).unwrap()
    }

    /// The full name of one of its tests, as the program takes it.
    fn test(name: &str) -> String {
        let (_, module) = Self::TESTS.split_once("::").unwrap();
        format!("{module}::{name}")
    }
}

/// Both ends of a link.
pub(crate) struct Made<L> {
    pub(crate) side: KernelSide,
    /// The side where our device lives, unless both ends are one device.
    pub(crate) ours: Option<OurSide>,
    pub(crate) link: L,
    pub(crate) pool: Pool,
}

/// Counts that every link has, in frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Messages of several segments.
    pub(crate) gathered: u64,
    pub(crate) refused: u64,
    pub(crate) too_long: u64,
}

/// A link; none where this machine does not give one, which is said.
pub(super) fn made<L: Subject>(mtu: usize) -> Option<Made<L>> {
    L::make(mtu)
        .inspect_err(|reason| tollgate_skip::skipped!("{reason}"))
        .ok()
}

/// A stack of ours on a link.
pub(crate) struct Host<L: Subject> {
    pub(super) stack: Stack,
    pub(super) line: Fault<Fault<L>>,
    pub(super) pool: Pool,
    pub(super) side: Arc<KernelSide>,
    pub(crate) ours: Option<OurSide>,
}

impl<L: Subject> Host<L> {
    /// A host whose device has this MTU; none where this machine gives no namespace, which is said.
    pub(crate) fn new(mtu: usize) -> Option<Self> {
        Self::of(mtu, &Spec::new(Workload::Rr, 1))
    }

    /// A host with the mechanisms of a specification.
    pub(super) fn of(mtu: usize, spec: &Spec) -> Option<Self> {
        let made = made::<L>(mtu)?;
        made.side.bring_up(mtu).unwrap();
        let now = Instant::from_nanos(now_ns());
        let mut line = Fault::on_transmit(
            Fault::on_receive(made.link, Faults::default(), 1),
            Faults::default(),
            2,
        );
        Some(Self {
            stack: stack_host::stack(L::PATH, spec, CLIENT, &mut line, now).unwrap(),
            pool: made.pool,
            line,
            side: Arc::new(made.side),
            ours: made.ours,
        })
    }

    pub(crate) fn link(&self) -> &L {
        self.line.inner().inner()
    }

    pub(crate) fn link_mut(&mut self) -> &mut L {
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
            assert_ne!(self.link().wait(nap), WaitOutcome::PeerGone);
        }
        panic!("no {what} in {TURNS} turns");
    }

    pub(super) fn listen(&mut self) -> ListenerId {
        self.active().listen(PORT, 16).unwrap()
    }

    pub(super) fn accept(&mut self, listener: ListenerId) -> ConnId {
        self.until("connection", |host| host.active().accept(listener).ok())
    }

    pub(super) fn connect(&mut self, to: impl Into<SocketAddr>) -> ConnId {
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

    /// Sets a switch of the kernel's side; says whether the kernel has this value.
    pub(super) fn try_sysctl(&self, name: &'static str, value: &'static str) -> bool {
        let set = self.beside(move || fs::write(format!("/proc/sys/net/ipv4/{name}"), value));
        set.join().unwrap().is_ok()
    }

    /// Sets a switch of the kernel's side.
    pub(super) fn sysctl(&self, name: &'static str, value: &'static str) {
        let set = self.beside(move || fs::write(format!("/proc/sys/net/ipv4/{name}"), value));
        set.join().unwrap().unwrap();
    }

    /// Sets our device up or down; the kernel's, where both are one.
    pub(super) fn set_our_device(&self, state: &str) {
        match &self.ours {
            Some(ours) => ours
                .within(|| namespace::ip(L::PATH, &["link", "set", stack_veth::OUR_DEVICE, state])),
            None => self
                .side
                .within(|| namespace::ip(L::PATH, &["link", "set", L::DEVICE, state])),
        }
        .unwrap();
    }

    /// Linux has found no wrong checksum and no wrong header in what we sent.
    pub(crate) fn nothing_was_wrong(&mut self) {
        let counts = self.run("cat", &["/proc/thread-self/net/snmp"]);
        for (layer, name) in [
            ("Tcp:", "InCsumErrors"),
            ("Tcp:", "InErrs"),
            ("Ip:", "InHdrErrors"),
        ] {
            assert_eq!(snmp(&counts, layer, name), "0", "{layer} {name}: {counts}");
        }
        assert_eq!(self.link_mut().counts().refused, 0);
    }

    /// Every frame is back in the pool once no connection is left.
    pub(super) fn frames_are_back(&mut self) {
        self.until("last frame", |host| {
            (host.pool.available() + host.link().kept() == host.pool.capacity()).then_some(())
        });
    }
}

/// A count of the kernel's, in what /proc/net/snmp says.
pub(super) fn snmp<'a>(counts: &'a str, layer: &str, name: &str) -> &'a str {
    let mut lines = counts.lines().filter(|line| line.starts_with(layer));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|one| one == name).unwrap();
    values.split(' ').nth(at).unwrap()
}

pub(super) fn bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, SEED, 0);
    bytes
}

pub(super) fn connect() -> io::Result<TcpStream> {
    connect_to(OURS.into())
}

pub(super) fn connect_to(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// A socket of the kernel sends the bytes of the seed to our echo and compares what comes back.
pub(super) fn echo_of(len: usize) -> io::Result<()> {
    echo_on(connect()?, len)
}

/// Sends and compares on a connection that is there.
pub(super) fn echo_on(mut stream: TcpStream, len: usize) -> io::Result<()> {
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
pub(crate) fn serve_echo<L: Subject>(host: &mut Host<L>, len: usize) {
    let listener = host.listen();
    let peer = host.beside(move || echo_of(len));
    let conn = host.accept(listener);
    host.echo(conn);
    host.close(conn);
    host.join(peer);
    host.frames_are_back();
}

/// A listener of the kernel's side.
pub(super) fn kernel_listener<L: Subject>(host: &Host<L>) -> (TcpListener, SocketAddrV4) {
    let address = host.side.address();
    let listener = host.beside(move || TcpListener::bind((address, 0)));
    let listener = listener.join().unwrap().unwrap();
    match listener.local_addr().unwrap() {
        SocketAddr::V4(address) => (listener, address),
        SocketAddr::V6(_) => unreachable!("bound to an IPv4 address"),
    }
}

//! The event loop: connections of all services over one kind of sockets, and those that are joined to them over the kernel's.
//!
//! A connection goes on when an event says that it may, and yields after some reads, so that none starves the others. One that
//! is not served for as long as its service is patient is ended. An error of one connection ends that one only.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::datagrams::{Bound, DatagramCounts};
use crate::forward::{Forward, Side};
use crate::http::{self, Root};
use crate::kernel::KernelSockets;
use crate::pattern::{Chargen, discard};
use crate::pipe::{Pipe, Progress};
use crate::sockets::{Event, Handle, Sockets, Stream};
use crate::table::Table;

/// Bytes that are read at once, for all connections together.
const SCRATCH: usize = 64 * 1024;
/// The longest sleep: signals are looked for, and patience is measured.
const NAP: Duration = Duration::from_millis(250);
/// Interval in which acknowledgments of what is left are looked for, and the time for which that is done so often: no event tells of them.
const BLINK: Duration = Duration::from_millis(2);
const BLINKS: Duration = Duration::from_secs(1);
/// Time for which a connection of HTTP may be silent, and a peer may take nothing of what is left for it once its service is done.
const PATIENCE: Duration = Duration::from_secs(60);
/// Connections that are accepted before those that are open go on.
const ACCEPTS: usize = 64;

/// Service of a port.
#[derive(Clone, Debug)]
pub enum Service {
    /// Sends back what comes (RFC 862).
    Echo,
    /// Throws away what comes (RFC 863).
    Discard,
    /// Sends lines of characters (RFC 864).
    Chargen,
    /// Files by HTTP/1.1.
    Http(Rc<Root>),
    /// Joins each connection to one of the kernel's to this server.
    Forward(SocketAddr),
}

impl Service {
    fn handler(&self) -> Handler {
        match self {
            Self::Echo => Handler::Echo(Pipe::default()),
            Self::Discard => Handler::Discard,
            Self::Chargen => Handler::Chargen(Chargen::default()),
            Self::Http(root) => Handler::Http(Box::new(http::Connection::new(Rc::clone(root)))),
            Self::Forward(_) => Handler::Forward(Box::new(Forward::to(Side::Kernel))),
        }
    }
}

/// Server that a port of the kernel is joined to: each connection to the port becomes one over the other sockets to this server. So any program
/// is a client over these.
type Outward = SocketAddr;

/// Counts of a server so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that are open.
    pub open: usize,
    /// Connections that ended in good order.
    pub done: u64,
    /// Connections that were ended since nothing moved.
    pub idle: u64,
    /// Bytes of payload that were received, or sent by chargen and HTTP.
    pub moved: u64,
    /// Datagrams.
    pub datagrams: DatagramCounts,
    /// Connections that failed, by the error's number in errno.
    pub failed: BTreeMap<i32, u64>,
    /// Times that a connection could not be accepted, by the error's number in errno.
    pub refused: BTreeMap<i32, u64>,
}

/// The state machine of a connection, by service.
#[derive(Debug)]
enum Handler {
    Echo(Pipe),
    Discard,
    Chargen(Chargen),
    Http(Box<http::Connection>),
    Forward(Box<Forward>),
}

/// A connection.
#[derive(Debug)]
struct Connection<C> {
    conn: C,
    /// The connection of the kernel that it is joined to.
    joined: Option<u32>,
    handler: Handler,
    /// When it went on last, or its peer acknowledged something.
    active: Instant,
    /// Bytes that its peer had not acknowledged at the last look; none where it has gone on since.
    unacknowledged: Option<u64>,
    /// It is on the list of those that go on without an event.
    again: bool,
    /// It is on the list of those that end.
    ending: bool,
    /// Its service is done. It stays until its peer has acknowledged all: nobody would look after the frames of who does not.
    done: bool,
}

/// A listener and what it leads to.
#[derive(Debug)]
struct Port<L, T> {
    listener: L,
    to: T,
    /// Connections may wait to be accepted.
    incoming: bool,
}

/// A server over one kind of sockets.
#[derive(Debug)]
pub struct Server<S: Sockets> {
    front: S,
    /// The kernel's sockets, of connections that are joined to those in front.
    kernel: KernelSockets,
    ports: Vec<Port<S::Listener, Service>>,
    outward: Vec<Port<u32, Outward>>,
    datagrams: Vec<Bound<S::Datagrams>>,
    connections: Table<Connection<S::Conn>>,
    /// Connections that go on without an event.
    again: Vec<u64>,
    /// Connections that end once their peer has acknowledged what is left.
    ending: Vec<u64>,
    events: Vec<Event>,
    scratch: Vec<u8>,
    looked: Instant,
    blinked: Instant,
    patience: Duration,
    counts: Counts,
}

impl<S: Sockets> Server<S> {
    /// A server that serves nothing yet.
    ///
    /// # Errors
    /// The system's.
    pub fn new(front: S) -> io::Result<Self> {
        Ok(Self {
            front,
            kernel: KernelSockets::new(Ipv4Addr::LOCALHOST.into())?,
            ports: Vec::new(),
            outward: Vec::new(),
            datagrams: Vec::new(),
            connections: Table::new(),
            again: Vec::new(),
            ending: Vec::new(),
            events: Vec::new(),
            scratch: vec![0; SCRATCH],
            looked: Instant::now(),
            blinked: Instant::now(),
            patience: PATIENCE,
            counts: Counts::default(),
        })
    }

    /// Serves on a port, and gives the addresses with it.
    ///
    /// # Errors
    /// Those of [`Sockets::listen`].
    pub fn serve(&mut self, port: u16, service: Service) -> io::Result<Vec<SocketAddr>> {
        let (listener, addresses) = self.front.listen(port, self.ports.len() as u64)?;
        self.ports.push(Port {
            listener,
            to: service,
            incoming: false,
        });
        Ok(addresses)
    }

    /// Serves datagrams on a port, and gives the addresses with it. Nothing is served for a service that has no form by UDP here.
    ///
    /// # Errors
    /// Those of [`Sockets::bind`].
    pub fn serve_datagrams(&mut self, port: u16, service: &Service) -> io::Result<Vec<SocketAddr>> {
        let echoes = match service {
            Service::Echo => true,
            Service::Discard => false,
            Service::Chargen | Service::Http(_) | Service::Forward(_) => return Ok(Vec::new()),
        };
        let (socket, addresses) = self.front.bind(port, self.datagrams.len() as u64)?;
        self.datagrams.push(Bound {
            socket,
            port: addresses.first().map_or(port, SocketAddr::port),
            echoes,
            incoming: false,
        });
        Ok(addresses)
    }

    /// Joins connections to a port of the kernel, on 127.0.0.1, to connections over the sockets to a server, and gives the addresses
    /// with the port.
    ///
    /// # Errors
    /// Those of [`Sockets::listen`].
    pub fn serve_outward(&mut self, port: u16, to: SocketAddr) -> io::Result<Vec<SocketAddr>> {
        let token = self.outward.len() as u64;
        let (listener, addresses) = self.kernel.listen(port, token)?;
        self.outward.push(Port {
            listener,
            to,
            incoming: false,
        });
        Ok(addresses)
    }

    /// Has patience for this time, in place of a minute: with connections of HTTP that are silent, and with peers that take nothing of what
    /// is left for them once their service is done.
    pub const fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// The sockets.
    pub const fn sockets(&self) -> &S {
        &self.front
    }

    /// The sockets, to be changed.
    pub const fn sockets_mut(&mut self) -> &mut S {
        &mut self.front
    }

    /// The connections that are open.
    pub fn open_connections(&mut self) -> Vec<S::Conn> {
        let tokens: Vec<_> = self.connections.tokens().collect();
        let found = tokens.into_iter();
        found
            .filter_map(|token| self.connections.get_mut(token).map(|one| one.conn))
            .collect()
    }

    /// Counts so far.
    pub fn counts(&self) -> Counts {
        Counts {
            open: self.connections.len(),
            ..self.counts.clone()
        }
    }

    /// Times that a connection could not be accepted so far, by the error's number in errno.
    pub const fn refused(&self) -> &BTreeMap<i32, u64> {
        &self.counts.refused
    }

    /// Waits for events, at most `nap`, and serves what has become ready.
    ///
    /// # Errors
    /// Those of [`Sockets::wait`]: the link has gone, or the system refuses to wait.
    pub fn poll_once(&mut self, nap: Duration) -> io::Result<()> {
        let waiting = self.ports.iter().any(|port| port.incoming)
            || self.outward.iter().any(|port| port.incoming)
            || self.datagrams.iter().any(|bound| bound.incoming);
        let nap = if waiting || !self.again.is_empty() {
            Duration::ZERO
        } else if !self.ending.is_empty() {
            nap.min(BLINK)
        } else {
            nap.min(NAP)
        };
        let mut events = std::mem::take(&mut self.events);
        self.front
            .wait(&mut events, nap, Some(self.kernel.events()))?;
        for event in events.drain(..) {
            match event {
                Event::Incoming { token } => incoming(&mut self.ports, token),
                Event::Ready { token, writable } => self.ready(token, writable, Side::Front),
                Event::Datagrams { token } => {
                    if let Some(bound) = self.datagrams.get_mut(token as usize) {
                        bound.incoming = true;
                    }
                }
            }
        }
        self.kernel.wait(&mut events, Duration::ZERO, None)?;
        for event in events.drain(..) {
            match event {
                Event::Incoming { token } => incoming(&mut self.outward, token),
                Event::Ready { token, writable } => self.ready(token, writable, Side::Kernel),
                // The kernel's sockets are for connections alone here.
                Event::Datagrams { .. } => {}
            }
        }
        self.events = events;
        let served: Vec<u16> = self.datagrams.iter().map(|bound| bound.port).collect();
        for bound in self.datagrams.iter_mut().filter(|bound| bound.incoming) {
            let counts = &mut self.counts.datagrams;
            bound.go(&mut self.front, &served, &mut self.scratch, counts);
        }
        self.accept_all();
        for token in std::mem::take(&mut self.again) {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.again = false;
                self.go(token);
            }
        }
        if !self.ending.is_empty() && self.blinked.elapsed() >= BLINK {
            self.blinked = Instant::now();
            for token in std::mem::take(&mut self.ending) {
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.ending = false;
                    self.go(token);
                }
            }
        }
        if self.looked.elapsed() >= NAP {
            self.looked = Instant::now();
            self.end_idle();
        }
        Ok(())
    }

    /// Ends all connections by resets, and lets the resets leave.
    ///
    /// # Errors
    /// Those of [`Server::poll_once`].
    pub fn end(&mut self) -> io::Result<()> {
        for token in self.connections.tokens().collect::<Vec<_>>() {
            self.give_back(token, true);
        }
        self.poll_once(Duration::ZERO)
    }

    fn accept_all(&mut self) {
        for at in 0..self.ports.len() {
            for _ in 0..ACCEPTS {
                if !self.ports[at].incoming {
                    break;
                }
                self.accept(at);
            }
        }
        for at in 0..self.outward.len() {
            for _ in 0..ACCEPTS {
                if !self.outward[at].incoming {
                    break;
                }
                self.accept_outward(at);
            }
        }
    }

    fn accept(&mut self, at: usize) {
        let token = self.connections.next_token();
        let port = &mut self.ports[at];
        let accepted = self.front.accept(port.listener, token);
        let Some(conn) = self.counts.accepted(accepted, &mut port.incoming) else {
            return;
        };
        let handler = port.to.handler();
        let joined = match &port.to {
            Service::Forward(to) => match self.kernel.connect(*to, token) {
                Ok(joined) => Some(joined),
                Err(error) => {
                    self.front.abort(conn);
                    self.counts.failed(&error);
                    return;
                }
            },
            Service::Echo | Service::Discard | Service::Chargen | Service::Http(_) => None,
        };
        self.begin(conn, joined, handler, token);
    }

    fn accept_outward(&mut self, at: usize) {
        let token = self.connections.next_token();
        let port = &mut self.outward[at];
        let accepted = self.kernel.accept(port.listener, token);
        let Some(joined) = self.counts.accepted(accepted, &mut port.incoming) else {
            return;
        };
        match self.front.connect(port.to, token) {
            Ok(conn) => {
                let handler = Handler::Forward(Box::new(Forward::to(Side::Front)));
                self.begin(conn, Some(joined), handler, token);
            }
            Err(error) => {
                self.kernel.abort(joined);
                self.counts.failed(&error);
            }
        }
    }

    fn begin(&mut self, conn: S::Conn, joined: Option<u32>, handler: Handler, token: u64) {
        self.connections.insert(Connection {
            conn,
            joined,
            handler,
            active: Instant::now(),
            unacknowledged: None,
            again: false,
            ending: false,
            done: false,
        });
        self.go(token);
    }

    /// Something has become ready at one side of a connection.
    fn ready(&mut self, token: u64, writable: bool, side: Side) {
        if let Some(connection) = self.connections.get_mut(token)
            && let Handler::Forward(forward) = &mut connection.handler
        {
            forward.ready(side, writable);
        }
        self.go(token);
    }

    /// Lets a connection go on.
    fn go(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        let before = self.counts.moved;
        let moved = &mut self.counts.moved;
        let mut handle = Handle {
            sockets: &mut self.front,
            conn: connection.conn,
        };
        let scratch = &mut self.scratch[..];
        let outcome = match &mut connection.handler {
            _ if connection.done => handle.failure().map(|()| Progress::Done),
            Handler::Echo(pipe) => pipe.go(&mut handle, scratch, moved),
            Handler::Discard => discard(&mut handle, scratch, moved),
            Handler::Chargen(chargen) => chargen.go(&mut handle, scratch, moved),
            Handler::Http(http) => http.go(&mut handle, scratch, moved),
            Handler::Forward(forward) => {
                let mut joined = connection.joined.map(|conn| Handle {
                    sockets: &mut self.kernel,
                    conn,
                });
                forward.go(&mut handle, joined.as_mut(), scratch, moved)
            }
        };
        if self.counts.moved != before {
            connection.active = Instant::now();
            connection.unacknowledged = None;
        }
        let mut ends = false;
        match outcome {
            Ok(Progress::Wait) => {
                if let Handler::Forward(forward) = &connection.handler {
                    ends = forward.failed().is_some();
                }
            }
            Ok(Progress::Again) => {
                if !connection.again {
                    connection.again = true;
                    self.again.push(token);
                }
            }
            Ok(Progress::Done) => {
                // Sockets that cannot tell have nothing left.
                if handle.unacknowledged().unwrap_or(0) > 0 {
                    if !connection.done {
                        connection.done = true;
                        // Most services have closed their direction by then.
                        let _ = handle.shutdown();
                    }
                    ends = true;
                } else {
                    self.counts.done += 1;
                    return self.give_back(token, false);
                }
            }
            Err(error) => {
                self.counts.failed(&error);
                return self.give_back(token, true);
            }
        }
        if ends && !connection.ending && connection.active.elapsed() < BLINKS {
            connection.ending = true;
            self.ending.push(token);
        }
    }

    /// Ends a connection at both ends.
    fn give_back(&mut self, token: u64, abort: bool) {
        let Some(connection) = self.connections.remove(token) else {
            return;
        };
        if abort {
            self.front.abort(connection.conn);
            connection.joined.inspect(|&conn| self.kernel.abort(conn));
        } else {
            self.front.close(connection.conn);
            connection.joined.inspect(|&conn| self.kernel.close(conn));
        }
    }

    /// Ends connections whose service has lost patience, and tries again to accept and to take datagrams where that failed.
    fn end_idle(&mut self) {
        for port in &mut self.ports {
            port.incoming = true;
        }
        for port in &mut self.outward {
            port.incoming = true;
        }
        for bound in &mut self.datagrams {
            bound.incoming = true;
        }
        for token in self.connections.tokens().collect::<Vec<_>>() {
            self.look_at(token);
        }
    }

    /// Ends a connection whose service has lost patience. Its peer may still take what was queued long ago, and then it goes on.
    fn look_at(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        let silent = connection.active.elapsed();
        if silent < NAP && !connection.done {
            return;
        }
        let unacknowledged = match (&connection.handler, connection.joined) {
            _ if connection.done => self.front.unacknowledged(connection.conn),
            (Handler::Http(_), _) if connection.unacknowledged == Some(0) => Ok(0),
            (Handler::Http(_), _) => self.front.unacknowledged(connection.conn),
            (Handler::Forward(forward), Some(joined)) => match forward.failed() {
                None => return,
                Some(Side::Front) => self.kernel.unacknowledged(joined),
                Some(Side::Kernel) => self.front.unacknowledged(connection.conn),
            },
            (Handler::Echo(_) | Handler::Discard | Handler::Chargen(_), _)
            | (Handler::Forward(_), None) => return,
        };
        // Sockets that cannot tell have nothing left.
        let unacknowledged = unacknowledged.unwrap_or(0);
        let before = connection.unacknowledged.replace(unacknowledged);
        if before.is_some_and(|before| unacknowledged < before) {
            connection.active = Instant::now();
        } else {
            let (patience, unfinished) = match &connection.handler {
                Handler::Http(http) if !connection.done => {
                    let delivered = unacknowledged == 0;
                    let patience = http.patience(self.patience, delivered);
                    (patience, !delivered || http.is_sending())
                }
                Handler::Http(_)
                | Handler::Echo(_)
                | Handler::Discard
                | Handler::Chargen(_)
                | Handler::Forward(_) => (self.patience, true),
            };
            if silent >= patience {
                self.counts.idle += 1;
                // A close in good order would tell that the answer is whole, and keep what is queued for who does not read.
                return self.give_back(token, unfinished);
            }
        }
        if connection.done || matches!(connection.handler, Handler::Forward(_)) {
            self.go(token);
        }
    }
}

impl Counts {
    fn failed(&mut self, error: &io::Error) {
        *self.failed.entry(errno(error)).or_default() += 1;
    }

    /// The connection that was accepted, if one was. `incoming` tells whether more may wait.
    fn accepted<C>(&mut self, outcome: io::Result<C>, incoming: &mut bool) -> Option<C> {
        match outcome {
            Ok(conn) => {
                self.accepted += 1;
                return Some(conn);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => *incoming = false,
            Err(error) => {
                // It is tried again in a while: what is short now, descriptors or memory, comes free without an event.
                *incoming = error.kind() == io::ErrorKind::ConnectionAborted;
                *self.refused.entry(errno(&error)).or_default() += 1;
            }
        }
        None
    }
}

/// Notes that connections wait.
fn incoming<L, T>(ports: &mut [Port<L, T>], token: u64) {
    if let Some(port) = ports.get_mut(token as usize) {
        port.incoming = true;
    }
}

/// The number of an error in errno; EIO for one that has none.
fn errno(error: &io::Error) -> i32 {
    error
        .raw_os_error()
        .unwrap_or_else(|| Errno::IO.raw_os_error())
}

//! `tollgate serve`: the other end of sessions, for one client at a time.
//!
//! It prints nothing; whoever runs it is told what happens ([`Notice`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tollgate_gate::GateSet;
use tollgate_kernel::{Namespace, Plan, Transfer, Watch};
use tollgate_run::{PathId, Placement, Workload};

use super::super::listen_for;
use super::super::server::Job;
use super::super::server_thread::ServerThread;
use super::super::socket::{self, Options, accept};
use super::frame::{Channel, ChannelError, MAX_REQUEST, MAX_RESPONSE};
use super::message::{BoundaryMessage, EventMessage, Refusal, Request, Response, gate_named};
use super::session::CAPABILITIES;
use crate::cores::Cores;
use crate::error::Error;
use crate::gates::Keeper;
use crate::slice::{Control, OtherEnd};
use crate::sockets::Sockets;
use crate::spec::Spec;
use crate::stamps::Stamps;

const PATH: PathId = PathId::KernelRemote;
/// Longest time until a client has said who it is.
const GREETING: Duration = Duration::from_secs(5);
/// Clients that may be saying who they are at the same time.
const GREETINGS: usize = 16;
/// Sessions that a client may have at the same time: all sizes of an experiment are far fewer.
const SESSIONS: usize = 256;
/// Iterations of a slice; so many writes of the largest size are bytes that can be counted.
const ITERATIONS: u64 = 1 << 40;
/// Iterations of a slice with gates: an end that stamps sets memory aside for each.
const GATED_ITERATIONS: u64 = 1 << 20;
/// Data connections of others that are closed before a session gives up waiting for its client's.
const UNKNOWN_PEERS: usize = 64;
/// Interval in which a waiting server checks for a stop.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Pause before a client is accepted again after that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// Silence after which the system asks whether the client is still there, and how often and how many times it asks.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 3);

/// Tells whether a server is to stop.
type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Settings of a server.
#[derive(Clone, Default)]
pub struct Service {
    /// The token that clients must send; none lets all in.
    pub token: Option<String>,
    /// Tells whether it ends with its first client.
    pub once: bool,
    /// The server's version, for people.
    pub tool: String,
    /// The description of this host, for the client's run.
    pub host: serde_json::Value,
}

/// Event at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A client is served.
    Serves {
        /// Its address.
        client: SocketAddr,
        /// Its version.
        tool: String,
    },
    /// A client runs a workload; sent once for each.
    Runs {
        /// Its address.
        client: SocketAddr,
        /// The workload.
        what: String,
    },
    /// A client was not served.
    Refused {
        /// Its address.
        client: SocketAddr,
        /// The reason why not.
        why: String,
    },
    /// A client is gone.
    Gone {
        /// Its address.
        client: SocketAddr,
        /// Sessions that it has had.
        sessions: u32,
        /// The error, if there was one.
        wrong: Option<String>,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serves { client, tool } => write!(f, "{client}: served ({tool})"),
            Self::Runs { client, what } => write!(f, "{client}: {what}"),
            Self::Refused { client, why } => write!(f, "{client}: not served: {why}"),
            Self::Gone {
                client,
                sessions,
                wrong,
            } => {
                let plural = if *sessions == 1 { "" } else { "s" };
                write!(f, "{client}: gone after {sessions} session{plural}")?;
                wrong
                    .as_ref()
                    .map_or(Ok(()), |wrong| write!(f, ": {wrong}"))
            }
        }
    }
}

/// Waits for clients.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    service: Service,
    /// The client that is being served.
    served: Mutex<Option<SocketAddr>>,
    greeting: AtomicUsize,
    /// One client was served.
    any: AtomicBool,
}

impl Server {
    /// Listens at this address; port 0 takes a free one.
    ///
    /// # Errors
    /// The refusal of the system.
    pub fn listen(address: SocketAddr, service: Service) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::Remote {
            host: address.to_string(),
            doing: "listening at",
            reason: error.to_string(),
            advice: "give an address of this host and a free port with --listen",
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self {
            address: listener.local_addr().map_err(failed)?,
            listener,
            service,
            served: Mutex::new(None),
            greeting: AtomicUsize::new(0),
            any: AtomicBool::new(false),
        })
    }

    /// The address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves clients until `stop` says so, or until the first is gone when that was asked for. All that clients have opened is
    /// given back when it returns.
    ///
    /// # Errors
    /// The refusal of the system.
    pub fn serve(&self, stop: Stop<'_>, tell: &(dyn Fn(Notice) + Sync)) -> Result<(), Error> {
        std::thread::scope(|scope| {
            while !stop() && !self.is_over() {
                let mut wait = [PollFd::new(&self.listener, PollFlags::IN)];
                match poll(&mut wait, Some(&LOOK)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(Error::system(PATH, "waiting for clients", error)),
                }
                let (stream, client) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Nobody was there, or is any more.
                        let passes = matches!(
                            error.kind(),
                            ErrorKind::WouldBlock
                                | ErrorKind::ConnectionAborted
                                | ErrorKind::Interrupted
                        );
                        if !passes {
                            // Descriptors or memory are short, and the client waits on.
                            std::thread::sleep(PAUSE);
                        }
                        continue;
                    }
                };
                if self.greeting.fetch_add(1, Ordering::Relaxed) >= GREETINGS {
                    self.greeting.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                scope.spawn(move || self.client(stream, client, stop, tell));
            }
            Ok(())
        })
    }

    fn is_over(&self) -> bool {
        self.service.once && self.any.load(Ordering::Acquire) && self.lock().is_none()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<SocketAddr>> {
        // Whoever panicked left a whole value.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's body: hears who the client is, and serves it.
    fn client(
        &self,
        stream: TcpStream,
        client: SocketAddr,
        stop: Stop<'_>,
        tell: &(dyn Fn(Notice) + Sync),
    ) {
        let greeted = self.greet(stream, client, stop);
        self.greeting.fetch_sub(1, Ordering::Relaxed);
        let (channel, place, tool) = match greeted {
            Ok(greeted) => greeted,
            Err(why) => return tell(Notice::Refused { client, why }),
        };
        tell(Notice::Serves { client, tool });
        let mut serving = Serving {
            channel,
            place,
            client,
            stop,
            tell,
            sessions: BTreeMap::new(),
            opened: 0,
            announced: BTreeSet::new(),
            gates: None,
            attached: false,
        };
        let wrong = match serving.run() {
            // So a client goes.
            ChannelError::Closed => None,
            wrong => Some(wrong.to_string()),
        };
        let sessions = serving.opened;
        // All of the client's is given back before the next one may come.
        drop(serving);
        self.any.store(true, Ordering::Release);
        *self.lock() = None;
        tell(Notice::Gone {
            client,
            sessions,
            wrong,
        });
    }

    fn greet(
        &self,
        stream: TcpStream,
        client: SocketAddr,
        stop: Stop<'_>,
    ) -> Result<(Channel, ControlAddresses, String), String> {
        let place = ControlAddresses::of(&stream)?;
        keep_alive(&stream)?;
        let words = |error: ChannelError| error.to_string();
        let deadline = Instant::now() + GREETING;
        let mut go_on = || {
            if stop() {
                Err(ChannelError::Stopped)
            } else if Instant::now() >= deadline {
                Err(ChannelError::Silence {
                    seconds: GREETING.as_secs(),
                })
            } else {
                Ok(())
            }
        };
        let mut channel = Channel::new(stream).map_err(words)?;
        channel.greet(&mut go_on).map_err(words)?;
        let Request::Hello { tool, token } =
            channel.receive(MAX_REQUEST, &mut go_on).map_err(words)?
        else {
            return Err("it did not say who it is".to_owned());
        };
        let refusal = match &self.service.token {
            Some(wanted) if !same(wanted, token.as_deref().unwrap_or_default()) => {
                Some((Refusal::Token, "it does not have the token".to_owned()))
            }
            _ => self.take_slot(client).map(|other| {
                let why = format!("{other} is being served");
                let client = other.to_string();
                (Refusal::Busy { client }, why)
            }),
        };
        if let Some((why, words)) = refusal {
            // It may be gone already.
            let _ = channel.send(&Response::Refused { why }, MAX_RESPONSE);
            return Err(words);
        }
        let welcome = Response::Welcome {
            tool: self.service.tool.clone(),
            host: self.service.host.clone(),
        };
        channel.send(&welcome, MAX_RESPONSE).map_err(|error| {
            *self.lock() = None;
            words(error)
        })?;
        Ok((channel, place, clean(&tool)))
    }

    /// Takes the one client's place; gives who has it when it is taken.
    fn take_slot(&self, client: SocketAddr) -> Option<SocketAddr> {
        let mut served = self.lock();
        match *served {
            Some(other) => Some(other),
            None => {
                *served = Some(client);
                None
            }
        }
    }
}

/// Words from the network, fit to be printed.
fn clean(words: &str) -> String {
    words.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// Compares in a time that does not tell how much of it is right.
fn same(wanted: &str, given: &str) -> bool {
    let differences = wanted
        .bytes()
        .zip(given.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    wanted.len() == given.len() && differences == 0
}

fn keep_alive(stream: &TcpStream) -> Result<(), String> {
    use rustix::net::sockopt;
    let (idle, interval, count) = KEEP_ALIVE;
    sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, idle))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, interval))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, count))
        .map_err(|error| format!("setting SO_KEEPALIVE: {error}"))
}

/// The addresses of a control connection, which are those of its data connections, too.
#[derive(Debug, Clone, Copy)]
struct ControlAddresses {
    own: IpAddr,
    client: IpAddr,
}

impl ControlAddresses {
    fn of(stream: &TcpStream) -> Result<Self, String> {
        let ends = stream
            .local_addr()
            .and_then(|own| Ok((own, stream.peer_addr()?)));
        let (own, client) = ends.map_err(|error| error.to_string())?;
        // A listener of IPv6 takes IPv4 as well, and names it so.
        Ok(Self {
            own: own.ip().to_canonical(),
            client: client.ip().to_canonical(),
        })
    }
}

/// A session of the client.
enum Session {
    /// Its ports are open, and nobody is connected.
    Open {
        spec: Spec,
        listeners: Vec<OwnedFd>,
        ports: Vec<u16>,
    },
    /// Its other end runs.
    Running {
        server_thread: ServerThread,
        transfer: Transfer,
        watch: Watch,
    },
}

impl Session {
    fn stamps(&self) -> Option<&Stamps> {
        match self {
            Self::Open { .. } => None,
            Self::Running { server_thread, .. } => Some(server_thread.stamps()),
        }
    }
}

/// One client while it is served.
struct Serving<'a> {
    channel: Channel,
    place: ControlAddresses,
    client: SocketAddr,
    stop: Stop<'a>,
    tell: &'a (dyn Fn(Notice) + Sync),
    sessions: BTreeMap<u32, Session>,
    /// Sessions so far.
    opened: u32,
    /// The workloads that were told.
    announced: BTreeSet<&'static str>,
    gates: Option<Keeper>,
    /// Gates are attached, or ends stamp.
    attached: bool,
}

/// The reason why a request could not be done, in words for the client.
type Failed = String;

impl Serving<'_> {
    /// Serves the client's requests until the connection ends, and returns why it ended.
    fn run(&mut self) -> ChannelError {
        let stop = self.stop;
        let mut go_on = || match stop() {
            true => Err(ChannelError::Stopped),
            false => Ok(()),
        };
        loop {
            // A client that is never silent does not keep the server from stopping.
            let received = go_on().and_then(|()| self.channel.receive(MAX_REQUEST, &mut go_on));
            let request = match received {
                Ok(request) => request,
                Err(error) => return error,
            };
            let response = self
                .answer(request)
                .unwrap_or_else(|reason| Response::Failed { reason });
            if let Err(error) = self.channel.send(&response, MAX_RESPONSE) {
                return error;
            }
        }
    }

    fn answer(&mut self, request: Request) -> Result<Response, Failed> {
        let words = |error: Error| error.on(PATH).to_string();
        match request {
            Request::Hello { .. } => Err("a client says who it is once".to_owned()),
            Request::Open { spec } => self.open(spec),
            Request::Start { session } => self.start(session),
            Request::Begin {
                session,
                iterations,
            } => {
                let most = match self.attached {
                    true => GATED_ITERATIONS,
                    false => ITERATIONS,
                };
                if iterations > most {
                    return Err(format!("a slice has {most} iterations at the most here"));
                }
                if let (Some(gates), Some(Session::Running { watch, .. })) =
                    (&self.gates, self.sessions.get(&session))
                {
                    gates.watch(watch).map_err(|error| error.to_string())?;
                }
                self.server_of(session)?.begin(iterations).map_err(words)?;
                Ok(Response::Done)
            }
            Request::Finish { session } => {
                self.server_of(session)?.finish().map_err(words)?;
                Ok(Response::Done)
            }
            Request::Status { session } => match self.server_of(session)?.control().failure() {
                Some(reason) => Err(reason),
                None => Ok(Response::Done),
            },
            Request::Close { session } => {
                self.sessions.remove(&session);
                Ok(Response::Done)
            }
            Request::Gates => {
                let gates = match self.gates.take() {
                    Some(gates) => gates,
                    None => Keeper::load().map_err(|error| error.to_string())?,
                };
                let boundaries = announced(gates.plan());
                self.gates = Some(gates);
                Ok(Response::Plan { boundaries })
            }
            Request::Attach { gates } => {
                let named: GateSet = gates
                    .iter()
                    .map(|name| gate_named(name).ok_or_else(|| format!("there is no gate {name}")))
                    .collect::<Result<Vec<_>, _>>()?
                    .into_iter()
                    .collect();
                let keeper = self.gates.as_mut().ok_or(NO_GATES)?;
                self.attached = true;
                let ends = self.sessions.values().filter_map(Session::stamps);
                keeper
                    .attach(named, &[Namespace::Own], ends)
                    .map_err(|error| error.to_string())?;
                Ok(Response::Done)
            }
            Request::Detach => {
                let keeper = self.gates.as_mut().ok_or(NO_GATES)?;
                keeper.detach(self.sessions.values().filter_map(Session::stamps));
                self.attached = false;
                Ok(Response::Done)
            }
            Request::Take { session } => {
                let keeper = self.gates.as_ref().ok_or(NO_GATES)?;
                let Some(Session::Running {
                    server_thread,
                    transfer,
                    ..
                }) = self.sessions.get(&session)
                else {
                    return Err(no_session(session));
                };
                let taken = keeper.take(server_thread.stamps(), *transfer);
                Ok(Response::Taken {
                    events: taken.events.iter().filter_map(EventMessage::of).collect(),
                    lost: taken.lost,
                })
            }
        }
    }

    fn server_of(&mut self, session: u32) -> Result<&mut ServerThread, Failed> {
        match self.sessions.get_mut(&session) {
            Some(Session::Running { server_thread, .. }) => Ok(server_thread),
            Some(Session::Open { .. }) | None => Err(no_session(session)),
        }
    }

    fn open(&mut self, spec: Spec) -> Result<Response, Failed> {
        let words = |error: Error| error.on(PATH).to_string();
        CAPABILITIES.check(PATH, &spec).map_err(words)?;
        if spec.sockets != Sockets::PLAIN {
            return Err("it uses sockets plainly only".to_owned());
        }
        if self.sessions.len() >= SESSIONS {
            return Err(format!(
                "a client may have {SESSIONS} sessions at the same time"
            ));
        }
        let options = Options::of(&spec);
        let (listeners, addresses) =
            listen_for(spec.workload, &options, self.place.own).map_err(words)?;
        let ports: Vec<u16> = addresses.iter().map(SocketAddr::port).collect();
        if self.announced.insert(spec.workload.name()) {
            (self.tell)(Notice::Runs {
                client: self.client,
                what: format!("{}, {}", spec.workload, spec.waiting),
            });
        }
        let session = self.opened;
        self.opened = self.opened.wrapping_add(1);
        self.sessions.insert(
            session,
            Session::Open {
                spec,
                listeners,
                ports: ports.clone(),
            },
        );
        Ok(Response::Opened { session, ports })
    }

    fn start(&mut self, session: u32) -> Result<Response, Failed> {
        let words = |error: Error| error.on(PATH).to_string();
        let Some(Session::Open {
            spec,
            listeners,
            ports,
        }) = self.sessions.remove(&session)
        else {
            return Err(no_session(session));
        };
        let options = Options::of(&spec);
        // With another end on the same host, this one is the server.
        let cores = Cores::choose(Placement::TwoCores)
            .or_else(|_| Cores::choose(Placement::OneCore))
            .map_err(words)?;
        let server_thread = match spec.workload {
            Workload::Rr | Workload::Stream => {
                let end = self.accept(&spec, &listeners).map_err(words)?;
                let wakes = end.again().map_err(words)?;
                let job = Job::Connection(end);
                ServerThread::start(
                    PATH,
                    &spec,
                    options,
                    cores.server,
                    job,
                    Vec::new(),
                    Some(wakes),
                )
            }
            Workload::Crr => {
                let job = Job::Listeners;
                ServerThread::start(PATH, &spec, options, cores.server, job, listeners, None)
            }
        }
        .map_err(words)?;
        let thread = server_thread.id();
        let transfer = Transfer {
            server_port: ports.first().copied().unwrap_or(0),
            // Threads of another host are nobody here.
            client: 0,
            server: thread,
            size: u32::try_from(spec.size).unwrap_or(u32::MAX),
        };
        let watch = Watch {
            ports,
            threads: vec![thread],
            acknowledgments: false,
        };
        self.sessions.insert(
            session,
            Session::Running {
                server_thread,
                transfer,
                watch,
            },
        );
        Ok(Response::Started {
            thread,
            core: cores.server,
        })
    }

    /// Takes the client's data connection; those of others are closed.
    fn accept(&self, spec: &Spec, listeners: &[OwnedFd]) -> Result<socket::End, Error> {
        let nobody = Error::Closed {
            path: PATH,
            doing: "waiting for the client's data connection",
        };
        let Some(listener) = listeners.first() else {
            return Err(nobody);
        };
        let control = Control::new();
        for _ in 0..UNKNOWN_PEERS {
            let end = accept(listener, spec.waiting, &control)?;
            if end.peer()? == self.place.client {
                return Ok(end);
            }
        }
        Err(nobody)
    }
}

const NO_GATES: &str = "gates were not asked for";

fn no_session(session: u32) -> Failed {
    format!("there is no session {session} that does this")
}

/// A plan as clients are told.
fn announced(plan: &Plan) -> Vec<BoundaryMessage> {
    plan.boundaries()
        .iter()
        .map(|boundary| BoundaryMessage {
            gate: boundary.gate.name().to_owned(),
            hook: boundary.hook.map(|hook| hook.name.to_owned()),
            missed: boundary
                .missed
                .iter()
                .map(|(hook, reason)| format!("{}: {reason}", hook.name))
                .collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_whole() {
        assert!(same("abc", "abc") && same("", ""));
        for wrong in ["", "ab", "abcd", "abd"] {
            assert!(!same("abc", wrong), "{wrong}");
        }
    }

    #[test]
    fn words_of_strangers_are_fit_to_print() {
        assert_eq!(clean("a\x1b[31m\nb"), "a[31mb");
        assert_eq!(clean(&"x".repeat(500)).len(), 80);
    }
}

//! The client's side of the control connection: the path `kernel-remote`, and the gates of the server.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_gate::{Gate, GateSet};
use tollgate_kernel::Taken;
use tollgate_run::PathId;

use super::frame::{Channel, ChannelError, MAX_REQUEST, MAX_RESPONSE, VERSION};
use super::message::{EventMessage, Refusal, Request, Response, gate_named};
use super::session::{CAPABILITIES, RemoteSession};
use super::target::Target;
use crate::error::Error;
use crate::path::{Capabilities, Path, Session};
use crate::spec::Spec;

const PATH: PathId = PathId::KernelRemote;
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for an answer: longer than any of the server's own patience.
const ANSWER: Duration = Duration::from_secs(30);

/// The control connection, while there is one.
pub(super) struct Link {
    target: Target,
    /// Or why there is none any more.
    channel: Result<Channel, String>,
}

impl Link {
    /// Asks, and waits for the answer. What the server could not do is [`Error::Peer`]; after any other failure the connection is
    /// gone.
    pub(super) fn call(
        &mut self,
        request: &Request,
        doing: &'static str,
    ) -> Result<Response, Error> {
        let channel = self
            .channel
            .as_mut()
            .map_err(|reason| lost(&self.target, doing, reason.clone()))?;
        let answered = channel
            .send(request, MAX_REQUEST)
            .and_then(|()| channel.receive(MAX_RESPONSE, &mut until(ANSWER)));
        match answered {
            Ok(Response::Failed { reason }) => Err(Error::Peer { path: PATH, reason }),
            Ok(response) => Ok(response),
            Err(error) => Err(self.give_up(doing, error.to_string())),
        }
    }

    /// For an answer that is none to what was asked.
    pub(super) fn out_of_turn(&mut self, doing: &'static str) -> Error {
        self.give_up(doing, "it answered what was not asked".to_owned())
    }

    fn give_up(&mut self, doing: &'static str, reason: String) -> Error {
        self.channel = Err(reason.clone());
        lost(&self.target, doing, reason)
    }
}

fn lost(target: &Target, doing: &'static str, reason: String) -> Error {
    Error::Remote {
        host: target.to_string(),
        doing,
        reason,
        advice: "look at what `tollgate serve` says there, and run this again",
    }
}

/// Goes on for so long.
fn until(patience: Duration) -> impl FnMut() -> Result<(), ChannelError> {
    let deadline = Instant::now() + patience;
    move || match Instant::now() < deadline {
        true => Ok(()),
        false => Err(ChannelError::Silence {
            seconds: patience.as_secs(),
        }),
    }
}

/// A control connection that sessions share.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Link>>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Link> {
        // Whoever panicked left a connection that is whole, or fails.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for something to which the answer is that it is done.
    pub(super) fn done(&self, request: &Request, doing: &'static str) -> Result<(), Error> {
        let mut link = self.lock();
        match link.call(request, doing)? {
            Response::Done => Ok(()),
            _ => Err(link.out_of_turn(doing)),
        }
    }
}

/// The path `kernel-remote`: a server that has said welcome.
#[derive(Clone)]
pub struct KernelRemote {
    target: Target,
    address: SocketAddr,
    link: Shared,
    tool: String,
    host: serde_json::Value,
}

impl fmt::Debug for KernelRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelRemote({})", self.target)
    }
}

impl KernelRemote {
    /// Connects, and says who this is: `tool` is the client's version, for people.
    ///
    /// # Errors
    /// [`Error::Remote`] when nobody answers, or it does not serve this client.
    pub fn connect(target: &Target, tool: &str) -> Result<Self, Error> {
        let address = target.resolve()?;
        let failed = |reason: String, advice: &'static str| Error::Remote {
            host: target.to_string(),
            doing: "connecting to",
            reason,
            advice,
        };
        let stream = TcpStream::connect_timeout(&address, CONNECT).map_err(|error| {
            failed(
                error.to_string(),
                "run `tollgate serve --listen ADDRESS` there, and see that no firewall lies between",
            )
        })?;
        let broken = |error: ChannelError| {
            let advice = match &error {
                ChannelError::Version { .. } => "install the same version on both hosts",
                ChannelError::UnknownPeer => "give the port of `tollgate serve` as HOST:PORT",
                _ => "look at what `tollgate serve` says there",
            };
            failed(error.to_string(), advice)
        };
        let mut channel = Channel::new(stream).map_err(broken)?;
        channel.greet(&mut until(CONNECT)).map_err(broken)?;
        let hello = Request::Hello {
            tool: tool.to_owned(),
            token: target.token().map(str::to_owned),
        };
        let answer = channel
            .send(&hello, MAX_REQUEST)
            .and_then(|()| channel.receive(MAX_RESPONSE, &mut until(CONNECT)));
        match answer.map_err(broken)? {
            Response::Welcome { tool, host } => Ok(Self {
                link: Shared(Arc::new(Mutex::new(Link {
                    target: target.clone(),
                    channel: Ok(channel),
                }))),
                target: target.clone(),
                address,
                tool,
                host,
            }),
            Response::Refused {
                why: Refusal::Busy { client },
            } => Err(failed(
                format!("it serves another client, {client}"),
                "try again when that one is done",
            )),
            Response::Refused {
                why: Refusal::Token,
            } => Err(failed(
                "it wants another token".to_owned(),
                "give the one that it was started with: --token",
            )),
            _ => Err(broken(ChannelError::UnknownPeer)),
        }
    }

    /// The server, as the user named it.
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// The server's version.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The server's description of its host.
    pub const fn host(&self) -> &serde_json::Value {
        &self.host
    }

    /// The version of the protocol that both speak.
    pub const fn protocol(&self) -> u16 {
        VERSION
    }

    /// The reason why the connection is gone, if it is.
    pub fn lost(&self) -> Option<Error> {
        let link = self.link.lock();
        let reason = link.channel.as_ref().err()?;
        Some(lost(&self.target, "measuring with", reason.clone()))
    }

    /// Like [`Path::open`], with what only such a session has.
    ///
    /// # Errors
    /// Those of [`Path::open`].
    pub fn open_session(&self, spec: &Spec) -> Result<RemoteSession, Error> {
        CAPABILITIES.check(PATH, spec)?;
        RemoteSession::open(spec, self.address.ip(), &self.link)
    }

    /// The gates of the server. Its programs are loaded at the first call, and stay until the connection ends.
    ///
    /// # Errors
    /// [`Error::Peer`] with what its kernel refused, [`Error::Remote`].
    pub fn gates(&self) -> Result<RemoteGates, Error> {
        const DOING: &str = "asking for the gates of";
        let mut link = self.link.lock();
        let Response::Plan { boundaries } = link.call(&Request::Gates, DOING)? else {
            return Err(link.out_of_turn(DOING));
        };
        let boundaries = boundaries
            .into_iter()
            .filter_map(|told| {
                Some(RemoteBoundary {
                    gate: gate_named(&told.gate)?,
                    hook: told.hook,
                    missed: told.missed,
                })
            })
            .collect();
        Ok(RemoteGates {
            link: self.link.clone(),
            boundaries,
        })
    }
}

impl Path for KernelRemote {
    fn id(&self) -> PathId {
        PATH
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(self.open_session(spec)?))
    }
}

/// A boundary of the server's hook plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteBoundary {
    /// The gate.
    pub gate: Gate,
    /// The name of the hook that takes it; none when it stays unresolved.
    pub hook: Option<String>,
    /// The reason why finer hooks could not be had.
    pub missed: Vec<String>,
}

/// The gates of the server.
pub struct RemoteGates {
    link: Shared,
    boundaries: Vec<RemoteBoundary>,
}

impl RemoteGates {
    /// The hooks of the server's boundaries, in the order of the way.
    pub fn boundaries(&self) -> &[RemoteBoundary] {
        &self.boundaries
    }

    /// Attaches these gates instead of those before.
    ///
    /// # Errors
    /// [`Error::Peer`] with what its kernel refused, [`Error::Remote`].
    pub fn attach(&self, gates: GateSet) -> Result<(), Error> {
        let gates = gates.iter().map(|gate| gate.name().to_owned()).collect();
        let request = Request::Attach { gates };
        self.link.done(&request, "attaching gates on")
    }

    /// Detaches all gates.
    ///
    /// # Errors
    /// [`Error::Remote`].
    pub fn detach(&self) -> Result<(), Error> {
        self.link.done(&Request::Detach, "detaching gates on")
    }

    /// Takes the events recorded for this session since the last time, with the times of the server's clock.
    ///
    /// # Errors
    /// [`Error::Remote`].
    pub fn take(&self, session: &RemoteSession) -> Result<Taken, Error> {
        const DOING: &str = "taking events from";
        let request = Request::Take {
            session: session.number(),
        };
        let mut link = self.link.lock();
        let Response::Taken { events, lost } = link.call(&request, DOING)? else {
            return Err(link.out_of_turn(DOING));
        };
        let known: Vec<_> = events.iter().filter_map(EventMessage::event).collect();
        let unknown = (events.len() - known.len()) as u64;
        Ok(Taken {
            events: known,
            lost: lost.saturating_add(unknown),
        })
    }
}

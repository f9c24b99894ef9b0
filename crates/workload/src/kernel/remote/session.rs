//! A session with another host: the timed end here, the other one there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustix::net::Shutdown;
use tollgate_run::{Mode, PathId, Placement, Waiting, Workload};
use tollgate_stats::{Samples, Timing};

use super::super::client::{ClientEnd, ClientSockets};
use super::super::server_thread::thread_id;
use super::super::socket::{self, End, Options};
use super::client::Shared;
use super::message::{Request, Response};
use crate::cores::Cores;
use crate::error::Error;
use crate::link_kind::LinkKind;
use crate::path::{Capabilities, KernelEnds, Session};
use crate::slice::{Control, OtherEnd};
use crate::spec::Spec;
use crate::stamps::Stamps;

const PATH: PathId = PathId::KernelRemote;

/// Capabilities of the path: each end is on a processor of its own host.
pub const CAPABILITIES: Capabilities = Capabilities {
    workloads: Workload::ALL,
    modes: &[
        Mode {
            placement: Placement::TwoCores,
            waiting: Waiting::Blocking,
        },
        Mode {
            placement: Placement::TwoCores,
            waiting: Waiting::BusyPoll,
        },
    ],
    round_trip_timing: Timing::Each,
    stream_timing: Timing::Batch(16),
    links: &[LinkKind::Ethernet],
};

/// A session with another host.
pub struct RemoteSession {
    client: ClientEnd,
    server: RemoteEnd,
    cores: (usize, usize),
    congestion: String,
    /// The timed end's thread, and the other end's on its host.
    threads: (u32, u32),
    ports: Vec<u16>,
    failed: bool,
}

impl RemoteSession {
    pub(super) fn open(spec: &Spec, host: IpAddr, link: &Shared) -> Result<Self, Error> {
        const OPENING: &str = "opening a session with";
        let core = Cores::choose(Placement::OneCore)?.client;
        let options = Options::of(spec);
        let (session, ports) = {
            let mut link = link.lock();
            let request = Request::Open { spec: spec.clone() };
            match link.call(&request, OPENING)? {
                Response::Opened { session, ports } if !ports.is_empty() => (session, ports),
                _ => return Err(link.out_of_turn(OPENING)),
            }
        };
        // From here on the session is closed when it is dropped.
        let server = RemoteEnd {
            link: link.clone(),
            session,
        };
        let mut addresses = ports.iter().map(|&port| SocketAddr::new(host, port));
        let here = |error: Error| error.on(PATH);
        let (client, congestion) = match (spec.workload, addresses.next()) {
            (Workload::Rr | Workload::Stream, Some(address)) => {
                let end = End::connect(&address, &options).map_err(here)?;
                socket::set_timeouts(end.fd()).map_err(here)?;
                let congestion = end.congestion().map_err(here)?;
                (ClientSockets::Connection(end), congestion)
            }
            (_, first) => {
                let destinations = first.into_iter().chain(addresses).collect();
                let congestion = socket::congestion_with(host, &options).map_err(here)?;
                (ClientSockets::Destinations(destinations), congestion)
            }
        };
        let (thread, server_core) = {
            let mut link = link.lock();
            match link.call(&Request::Start { session }, OPENING)? {
                Response::Started { thread, core } => (thread, core),
                _ => return Err(link.out_of_turn(OPENING)),
            }
        };
        let client = ClientEnd::new(
            spec,
            CAPABILITIES.timing(spec),
            core,
            options,
            client,
            // Nobody but this end looks at it.
            Arc::new(Control::new()),
            Arc::new(Stamps::default()),
        );
        Ok(Self {
            client,
            server,
            cores: (core, server_core),
            congestion,
            threads: (thread_id(), thread),
            ports,
            failed: false,
        })
    }

    #[cfg(test)]
    pub(super) const fn client_end(&mut self) -> &mut ClientEnd {
        &mut self.client
    }

    /// Its number at the server.
    pub(super) const fn number(&self) -> u32 {
        self.server.session
    }
}

impl Session for RemoteSession {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned { path: PATH });
        }
        samples.check_timing(self.client.timing())?;
        let outcome = self.client.slice(iterations, samples, &mut self.server);
        self.failed = outcome.is_err();
        outcome.map_err(|error| match error.on(PATH) {
            // These say what the server said already.
            error @ (Error::Remote { .. } | Error::Peer { .. }) => error,
            // Its reason says more than the closed connection on this side.
            error => self.server.why().unwrap_or(error),
        })
    }

    fn timing(&self) -> Timing {
        self.client.timing()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let (here, there) = self.cores;
        let mut settings = vec![
            ("congestion", self.congestion.clone()),
            self.client.spec.nagle_setting(),
            ("cores", format!("{here} here and {there} there")),
            ("ends", "two hosts".to_owned()),
        ];
        if let ClientSockets::Destinations(addresses) = self.client.client() {
            settings.push(("destinations", addresses.len().to_string()));
        }
        settings
    }

    /// The server's thread is one of the other host, and none here.
    fn kernel_ends(&self) -> Option<KernelEnds<'_>> {
        Some(KernelEnds {
            client: self.threads.0,
            server: self.threads.1,
            server_ports: self.ports.clone(),
            namespaces: Vec::new(),
            stamps: self.client.stamps(),
        })
    }
}

impl Drop for RemoteSession {
    fn drop(&mut self) {
        // The other end may sleep in recv; a connection that is gone refuses, and then nobody sleeps on it.
        if let ClientSockets::Connection(end) = self.client.client() {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// The other end, as the control connection reaches it.
struct RemoteEnd {
    link: Shared,
    session: u32,
}

impl RemoteEnd {
    /// The server's reason for a failure; none when it knows of none.
    fn why(&self) -> Option<Error> {
        let request = Request::Status {
            session: self.session,
        };
        self.link.done(&request, "asking what went wrong at").err()
    }
}

impl OtherEnd for RemoteEnd {
    fn begin(&mut self, iterations: u64) -> Result<(), Error> {
        let request = Request::Begin {
            session: self.session,
            iterations,
        };
        self.link.done(&request, "beginning a slice with")
    }

    fn finish(&mut self) -> Result<(), Error> {
        let request = Request::Finish {
            session: self.session,
        };
        self.link.done(&request, "ending a slice with")
    }
}

impl Drop for RemoteEnd {
    fn drop(&mut self) {
        let request = Request::Close {
            session: self.session,
        };
        // A server that is gone has closed it.
        let _ = self.link.done(&request, "closing a session with");
    }
}

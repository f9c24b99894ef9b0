//! `stack-tap` to a server of anybody's: our stack beside the kernel of this host, and an echo or a discard behind it.
//!
//! The device is in the network namespace of the process, and the kernel is our router. So the server may be on this host or on any
//! that this one forwards packets to. Nothing but the bytes of the workload crosses: rr and crr take an echo (RFC 862), streams a
//! discard (RFC 863).

use std::net::SocketAddrV4;

use tollgate_link::Waitable as _;
use tollgate_link::host::Beside;
use tollgate_link::tap::Tap;
use tollgate_run::{PathId, Workload};
use tollgate_stats::{Samples, Timing};

use crate::cores::Cores;
use crate::error::Error;
use crate::path::{Capabilities, Path, Session};
use crate::remote::Target;
use crate::slice::OtherEnd;
use crate::spec::Spec;
use crate::stack_end::{Client, End, Peer};
use crate::stack_host::{self, DEFAULT_MTU};
use crate::stack_link;

const PATH: PathId = PathId::StackTap;

/// The path `stack-tap` to a server.
#[derive(Debug, Clone)]
pub struct StackTapTo {
    to: SocketAddrV4,
}

impl StackTapTo {
    /// The path to this server. A loopback address stands for this host, which our stack reaches by the kernel's address on the
    /// link; the server must listen there.
    ///
    /// # Errors
    /// [`Error::Remote`] when the name is not known.
    pub fn new(target: &Target) -> Result<Self, Error> {
        Ok(Self {
            to: target.resolve()?,
        })
    }
}

impl Path for StackTapTo {
    fn id(&self) -> PathId {
        PATH
    }

    fn capabilities(&self) -> Capabilities {
        stack_link::CAPABILITIES
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        stack_link::check(PATH, spec)?;
        let cores = Cores::choose(spec.placement)?;
        let mtu = DEFAULT_MTU;
        let Beside { tap, network } = Beside::open(None, mtu)
            .map_err(|error| Error::stack(PATH, "making its link", error))?;
        let device = tap.name().to_owned();
        let to = if self.to.ip().is_loopback() {
            SocketAddrV4::new(network.kernel(), self.to.port())
        } else {
            self.to
        };
        let link = (tap, stack_host::pool(PATH, mtu));
        let mut end = End::beside(PATH, spec, link, mtu, network)?;
        let refused = |error: Error| {
            let reason = format!(
                "{error}; name HOST:PORT of an echo for rr and crr, of a discard for stream (tollgate serve --listen 0.0.0.0 --echo 7 \
                 --discard 9)"
            );
            Error::stack(PATH, "connecting to the server of --to", reason)
        };
        end.connect(to, || Ok(())).map_err(refused)?;
        match spec.workload {
            Workload::Rr | Workload::Stream => {}
            Workload::Crr => {
                // That connection was to find out whether anybody is there.
                end.close()?;
                end.closed(|| Ok(()))?;
            }
        }
        let timing = stack_link::CAPABILITIES.timing(spec);
        let client = Client::new(spec, timing, cores.client, end, vec![to]);
        Ok(Box::new(ServiceSession {
            client: client.with_peer(Peer::Service),
            cores,
            to,
            device,
            failed: false,
        }))
    }
}

/// A server that is not told of slices.
struct Nobody;

impl OtherEnd for Nobody {
    fn begin(&mut self, _iterations: u64) -> Result<(), Error> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// A session of our stack with a server.
struct ServiceSession {
    client: Client<Tap>,
    cores: Cores,
    to: SocketAddrV4,
    device: String,
    failed: bool,
}

impl Session for ServiceSession {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned { path: PATH });
        }
        samples.check_timing(self.client.timing())?;
        let outcome = self.client.slice(iterations, samples, &mut Nobody);
        self.failed = outcome.is_err();
        outcome.map_err(|error| {
            self.client.end.poll();
            if self.client.end.link().is_gone() {
                return Error::Vanished {
                    path: PATH,
                    device: "of the run",
                };
            }
            error
        })
    }

    fn timing(&self) -> Timing {
        self.client.timing()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let spec = self.client.spec();
        let checksums = self.client.end.checksums(spec);
        let mut settings = stack_host::settings(PATH, spec, DEFAULT_MTU, checksums);
        settings.push(("cores", self.cores.describe()));
        settings.push(("server", self.to.to_string()));
        settings.push(("device", format!("{}, beside the kernel", self.device)));
        settings
    }
}

impl Drop for ServiceSession {
    fn drop(&mut self) {
        self.client.end.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::thread;

    use tollgate_run::{Placement, Waiting};

    use super::*;
    use crate::namespace;

    /// A listener whose connections are each served by a thread that ends with them.
    fn listen(serve: fn(TcpStream)) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(move || serve(stream.unwrap()));
            }
        });
        port
    }

    fn echo(mut stream: TcpStream) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..count]).unwrap();
        }
    }

    fn discard(mut stream: TcpStream) {
        while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
    }

    /// Does something in a namespace of its own, where there is one.
    fn alone(work: impl FnOnce() + Send) {
        match namespace::make(PATH) {
            Ok(own) => namespace::within(PATH, own.as_fd(), || {
                work();
                Ok(())
            })
            .unwrap(),
            Err(reason) => tollgate_skip::skipped!("{reason}"),
        }
    }

    fn to(port: u16) -> StackTapTo {
        StackTapTo::new(&format!("127.0.0.1:{port}").parse().unwrap()).unwrap()
    }

    #[test]
    fn every_workload_runs_against_an_echo_or_a_discard() {
        alone(|| {
            let (echo, discard) = (listen(echo), listen(discard));
            for (workload, port) in [
                (Workload::Rr, echo),
                (Workload::Crr, echo),
                (Workload::Stream, discard),
            ] {
                for size in [1, 1_448, 20_000] {
                    let spec = Spec::new(workload, size)
                        .with_mode(Placement::OneCore, Waiting::Blocking)
                        .verified();
                    let mut session = to(port).open(&spec).unwrap();
                    let mut samples = session.new_samples();
                    session.run(20, &mut samples).unwrap();
                    session.run(3, &mut samples).unwrap();
                    assert_eq!(samples.operations(), 23, "{workload} {size}");
                }
            }
        });
    }

    #[test]
    fn a_server_that_is_not_there_is_told_with_advice() {
        alone(|| {
            let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::OneCore, Waiting::Blocking);
            let error = to(9).open(&spec).err().expect("nobody listens");
            assert!(error.to_string().contains("of an echo for rr"), "{error}");
        });
    }
}

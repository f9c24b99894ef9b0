//! Services of `tollgate serve` that need no client of ours: what they say, and how they end.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tollgate_experiment::context::Cancel;
use tollgate_link::faulty::Faulty;
use tollgate_link::host::Beside;
use tollgate_link::packet::Packet;
use tollgate_link::xdp::{self, Mode, Xdp};
use tollgate_link::{
    InterfaceConfig, USUAL_MTU, WaitMode, WaitableBeside, Waiter, has_addresses, mtu_on,
};
use tollgate_run::format::counted;
use tollgate_service::{FRAMES, KernelSockets, Root, Server, Service, Sockets, StackSockets};
use tollgate_workload::buffer::Pool;
use tollgate_workload::stack_to::Shared;

use super::args::{Serve, ServePath};
use crate::args::GlobalArgs;
use crate::error::Error;
use crate::{interrupt, output};

/// The longest sleep of the loop.
const NAP: Duration = Duration::from_millis(250);
/// Time between two looks at the addresses that are tried for duplicates.
const LOOK: Duration = Duration::from_millis(10);

/// Serves until Ctrl-C or SIGTERM.
pub(super) fn run(serve: &Serve, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let running = Running {
        cancel: interrupt::prepare()?,
        serve,
        global,
    };
    match serve.path {
        ServePath::Kernel => {
            let sockets = KernelSockets::new(serve.listen().ip());
            running.run(sockets.map_err(Error::Serve)?, "the kernel", |_| None)
        }
        ServePath::StackTap => {
            let mtu = serve.mtu.unwrap_or(USUAL_MTU);
            let beside = Beside::open(serve.network, mtu)?;
            let place = InterfaceConfig::from(&beside);
            let device = beside.tap.name().to_owned();
            let pool = Pool::new(FRAMES, Pool::frame_size_for(mtu));
            running.over(beside.tap, pool, &place, &device)
        }
        ServePath::StackPacket => {
            let shared = serve.shared.interface()?;
            let Shared {
                interface, place, ..
            } = &shared;
            let mtu = mtu_on(interface, serve.mtu)?;
            let link = Packet::open(interface, place.addresses(), mtu)?;
            let pool = Pool::new(FRAMES, Pool::frame_size_for(mtu));
            running.over(link, pool, place, interface)
        }
        ServePath::StackXdp => {
            let Shared {
                interface,
                place,
                checksums,
            } = serve.shared.interface()?;
            let (link, pool) = Xdp::open(&xdp::Config {
                interface: &interface,
                addresses: place.addresses(),
                mtu: mtu_on(&interface, serve.mtu)?,
                frames: FRAMES,
                checksums,
                modes: &Mode::ALL,
            })?;
            let device = format!("{interface} ({})", link.mode());
            running.over(link, pool, &place, &device)
        }
    }
}

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// The waiting of the stack, in words.
fn waiting(waiter: &Waiter) -> String {
    let how = match waiter.mode() {
        WaitMode::Block => "block".to_owned(),
        WaitMode::Poll => "poll".to_owned(),
        WaitMode::Adaptive if waiter.window().is_zero() => {
            "adaptive, with one processor: it never polls".to_owned()
        }
        WaitMode::Adaptive => format!("adaptive, {} us", waiter.window().as_micros()),
    };
    let counts = waiter.counts();
    format!(
        "waiting ({how}): {}, {} that found nothing before\n",
        counted(counts.sleeps, "sleep", "sleeps"),
        counted(counts.looks, "look", "looks")
    )
}

/// Frames that are in the pool once all connections are over.
fn stack_at_end<L: WaitableBeside>(stack: &mut StackSockets<L>) -> String {
    let pool = stack.pool();
    let kept = match stack.link().kept() {
        0 => String::new(),
        kept => format!(", {kept} are with the kernel to receive into"),
    };
    format!(
        "{}frames back in the pool: {} of {}{kept}\n",
        waiting(stack.waiter()),
        pool.available(),
        pool.capacity()
    )
}

/// Frames that met faults, once all connections are over and no frame is held back.
fn faults_at_end<L: WaitableBeside>(stack: &mut StackSockets<Faulty<L>>) -> String {
    let (link, pool) = stack.link_and_pool();
    link.drain(pool);
    let [sent, received] = link.stats();
    let mut words = String::new();
    for (way, stats) in [("sent", sent), ("received", received)] {
        let _ = writeln!(
            words,
            "frames {way}: {} met faults: {} dropped, {} too long, {} damaged, {} duplicated, {} reordered",
            stats.offered,
            stats.dropped,
            stats.too_long,
            stats.corrupted + stats.truncated,
            stats.duplicated,
            stats.reordered
        );
    }
    words
}

/// A server while it runs.
struct Running<'a> {
    cancel: Cancel,
    serve: &'a Serve,
    global: &'a GlobalArgs,
}

impl Running<'_> {
    fn say(&self, words: &str) -> Result<(), Error> {
        if self.global.quiet {
            return Ok(());
        }
        output::print(words)
    }

    /// Waits until the stack's addresses are its own, which takes a second or two where they are tried for duplicates.
    fn settle<L: WaitableBeside>(&self, stack: &mut StackSockets<L>) -> Result<(), Error> {
        // Nobody listens yet, so there are no events.
        while !has_addresses(stack.stack())? && !self.cancel.is_raised() {
            stack
                .wait(&mut Vec::new(), LOOK, None)
                .map_err(Error::Serve)?;
        }
        Ok(())
    }

    /// Serves at a place over our stack on this link, whose frames are those of the pool.
    fn over<L: WaitableBeside>(
        &self,
        link: L,
        pool: Pool,
        place: &InterfaceConfig,
        device: &str,
    ) -> Result<ExitCode, Error> {
        let mut config = place.config();
        let usual = config.mechanisms;
        self.serve.switch(&mut config.mechanisms)?;
        let switched: Vec<String> = config
            .mechanisms
            .changed_from(&usual)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut what = format!("Tollgate's stack on {device}");
        if link.mtu() != USUAL_MTU {
            what += &format!(", MTU {}", link.mtu());
        }
        if !switched.is_empty() {
            what += &format!(" with {}", switched.join(", "));
        }
        let wait = self.serve.wait.unwrap_or_default().into();
        match self.serve.faults {
            None => {
                let mut sockets = StackSockets::with_pool(config, link, pool)?;
                sockets.set_wait_mode(wait);
                self.settle(&mut sockets)?;
                self.run(sockets, &what, |stack| Some(stack_at_end(stack)))
            }
            Some(faults) => {
                let faulty = Faulty::new(link, faults, self.serve.fault_seed);
                let mut sockets = StackSockets::with_pool(config, faulty, pool)?;
                sockets.set_wait_mode(wait);
                self.settle(&mut sockets)?;
                self.run(sockets, &what, |stack| {
                    Some(faults_at_end(stack) + &stack_at_end(stack))
                })
            }
        }
    }

    fn run<S: Sockets>(
        &self,
        sockets: S,
        what: &str,
        at_end: impl FnOnce(&mut S) -> Option<String>,
    ) -> Result<ExitCode, Error> {
        let mut server = Server::new(sockets).map_err(Error::Serve)?;
        for (port, service, words) in self.services()? {
            let failed = |error| Error::Port { port, error };
            let addresses = server.serve(port, service.clone()).map_err(failed)?;
            // Port 0 has become one that was free.
            let port = addresses.first().map_or(port, SocketAddr::port);
            let datagrams = server.serve_datagrams(port, &service).map_err(failed)?;
            for address in addresses {
                let transport = if datagrams.contains(&address) {
                    ", by TCP and UDP"
                } else {
                    ""
                };
                let words = words.replace("ADDRESS", &address.to_string());
                let words = words.replace("TRANSPORT", transport);
                // Nobody types the port that a URL has by default.
                let words = words.strip_prefix("http://").map_or(words.clone(), |rest| {
                    format!("http://{}", rest.replacen(":80/", "/", 1))
                });
                self.say(&words)?;
            }
        }
        for outward in &self.serve.outward {
            let (port, to) = (outward.port, outward.to);
            let addresses = server
                .serve_outward(port, to)
                .map_err(|error| Error::Port { port, error })?;
            for address in addresses {
                self.say(&format!("{address} goes out by the stack to {to}\n"))?;
            }
        }
        self.say(&format!("{what} serves; Ctrl-C ends it\n"))?;
        let (began, used_before) = (Instant::now(), processor_time());
        let mut is_noted = false;
        while !self.cancel.is_raised() {
            server.poll_once(NAP).map_err(Error::Serve)?;
            if !is_noted && let Some((&errno, _)) = server.refused().first_key_value() {
                is_noted = true;
                let error = std::io::Error::from_raw_os_error(errno);
                // A reader that has gone away does not keep clients from being served.
                let _ = self.say(&format!(
                    "a connection could not be accepted: {error}; it is tried again, and -v says at the end how often that was\n"
                ));
            }
        }
        server.end().map_err(Error::Serve)?;
        let took = began.elapsed();
        if self.global.verbose > 0 {
            let counts = server.counts();
            self.say(&format!(
                "connections: {} accepted, {} done, {} idle, {} failed; {} bytes\n",
                counts.accepted,
                counts.done,
                counts.idle,
                counts.failed.values().sum::<u64>(),
                counts.moved
            ))?;
            let datagrams = counts.datagrams;
            if datagrams.received > 0 {
                self.say(&format!(
                    "datagrams: {} received, {} sent back, {} of them lost here, {} not answered since a service may have sent them\n",
                    datagrams.received,
                    datagrams.answered + datagrams.lost,
                    datagrams.lost,
                    datagrams.suspicious
                ))?;
            }
            for (errno, count) in &counts.failed {
                let error = std::io::Error::from_raw_os_error(*errno);
                self.say(&format!("failed {count} times: {error}\n"))?;
            }
            for (errno, count) in &counts.refused {
                let error = std::io::Error::from_raw_os_error(*errno);
                self.say(&format!("not accepted {count} times: {error}\n"))?;
            }
            let used = processor_time().saturating_sub(used_before);
            self.say(&format!(
                "processor time: {:.3} of {:.3} s\n",
                used.as_secs_f64(),
                took.as_secs_f64()
            ))?;
            if let Some(words) = at_end(server.sockets_mut()) {
                self.say(&words)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Ports with their services and what is said of each.
    fn services(&self) -> Result<Vec<(u16, Service, String)>, Error> {
        let serve = self.serve;
        let mut services = Vec::new();
        if let Some(directory) = &serve.http {
            let root = Root::open(directory).map_err(|error| Error::Directory {
                path: directory.clone(),
                error,
            })?;
            let words = format!("http://ADDRESS/ has the files of {}\n", directory.display());
            services.push((serve.http_port(), Service::Http(Rc::new(root)), words));
        }
        let plain = [
            (serve.echo, Service::Echo, "echo"),
            (serve.discard, Service::Discard, "discard"),
            (serve.chargen, Service::Chargen, "chargen"),
        ];
        for (port, service, name) in plain {
            services
                .extend(port.map(|port| (port, service, format!("ADDRESS is {name}TRANSPORT\n"))));
        }
        for forward in &serve.forward {
            let words = format!("ADDRESS goes on to {}\n", forward.to);
            services.push((forward.port, Service::Forward(forward.to), words));
        }
        Ok(services)
    }
}

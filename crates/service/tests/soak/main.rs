//! A soak: connections that come and go over our stack by the hundred, while links fail, addresses change and peers misbehave.
//!
//! `make soak` runs it for an hour. `TOLLGATE_SOAK_SECONDS` sets how long; without it the test takes some seconds. It fails when
//! bytes are wrong, when an error has no number in errno, when frames or connections are left, or when memory grows.

mod actor;
#[path = "../peers/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use actor::{Actor, Manner, Step, is_expected};
use sandbox::Sandbox;
use tollgate_link::fault::Faults;
use tollgate_link::faulty::Faulty;
use tollgate_link::host::Beside;
use tollgate_link::host::Network;
use tollgate_link::tap::Tap;
use tollgate_service::{Counts, Event, KernelSockets, Server, Service, Sockets, StackSockets};
use tollgate_stack::socket::KeepAlive;

/// Clients at a time.
const CLIENTS: usize = 1000;
/// Clients of a run of some seconds.
const FEW: usize = 200;
/// The time of one disturbance.
const STEP: Duration = Duration::from_millis(1200);
/// The time between two bytes of those that send them one at a time.
const TICK: Duration = Duration::from_millis(20);
/// Ticks after which a client gives up: some disturbances leave nobody who answers.
const OLDEST: u32 = 250;
/// The longest time without progress after which our stack gives a connection up.
const GIVE_UP: Duration = Duration::from_secs(8);
/// Silence until a connection without anything to send finds out that its peer has gone: 8 s in all.
const KEEP_ALIVE: KeepAlive = KeepAlive {
    idle: Duration::from_secs(4),
    interval: Duration::from_secs(1),
    count: 4,
};
/// Growth of memory that is none: what allocators keep, and tables of the largest number of connections.
const SLACK_KB: u64 = 24 * 1024;

/// A disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    None,
    Storm,
    Loss,
    SmallMtu,
    /// The cable is pulled, and put back.
    LinkDown,
    /// The kernel's address changes, and back.
    AddressGone,
    /// The kernel's link address changes: the neighbour that we know is not there any more.
    NeighbourGone,
}

const TROUBLES: [Trouble; 11] = [
    Trouble::None,
    Trouble::Storm,
    Trouble::None,
    Trouble::LinkDown,
    Trouble::None,
    Trouble::AddressGone,
    Trouble::Loss,
    Trouble::None,
    Trouble::NeighbourGone,
    Trouble::SmallMtu,
    Trouble::None,
];

impl Trouble {
    fn faults(self) -> Faults {
        let words = match self {
            Self::None | Self::LinkDown | Self::AddressGone | Self::NeighbourGone => {
                return Faults::default();
            }
            Self::Storm => {
                "drop=0.01,duplicate=0.02,reorder=0.02,corrupt=0.01,truncate=0.005,delay=2ms,jitter=1ms"
            }
            Self::Loss => "drop=0.1",
            Self::SmallMtu => "longest=600,drop=0.01",
        };
        words.parse().unwrap()
    }

    /// Runs `ip` in the place's network; `begins` tells which end of the disturbance this is.
    fn disturb(self, place: &Sandbox, device: &str, network: Network, begins: bool) {
        let address = format!("{}/{}", network.kernel(), network.prefix());
        let ip = |arguments: &[&str]| {
            place.run("ip", arguments);
        };
        match (self, begins) {
            (Self::None | Self::Storm | Self::Loss | Self::SmallMtu, _) => {}
            (Self::LinkDown, true) => ip(&["link", "set", device, "down"]),
            (Self::LinkDown, false) => ip(&["link", "set", device, "up"]),
            (Self::AddressGone, true) => ip(&["address", "del", &address, "dev", device]),
            (Self::AddressGone, false) => ip(&["address", "add", &address, "dev", device]),
            (Self::NeighbourGone, true) => {
                ip(&["link", "set", device, "address", "02:00:00:00:00:77"])
            }
            (Self::NeighbourGone, false) => {
                ip(&["link", "set", device, "address", "02:00:00:00:00:78"])
            }
        }
    }
}

/// Observations of the clients.
#[derive(Debug, Default)]
struct Seen {
    connections: u64,
    whole: u64,
    left: u64,
    gave_up: u64,
    errors: BTreeMap<i32, u64>,
    defects: Vec<String>,
}

/// Orders to the server.
enum Order {
    Faults(Faults),
    /// Ends when all connections are over.
    End,
}

/// A server of ours on a device, on a thread in the place.
struct Serving {
    orders: mpsc::Sender<Order>,
    device: String,
    network: Network,
    outward: SocketAddr,
    thread: JoinHandle<Result<Counts, String>>,
}

/// The port of the kernel's echo.
const KERNEL_PORT: u16 = 7007;

impl Serving {
    fn start(place: &Sandbox) -> Self {
        let (orders, taken) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let thread = place.within(|| {
            thread::spawn(move || {
                let Beside { tap, network, .. } = Beside::open(None, 1500).unwrap();
                let device = tap.name().to_owned();
                let mut config = tollgate_link::InterfaceConfig::from(network).config();
                config.user_timeout = GIVE_UP;
                config.connect_timeout = GIVE_UP;
                config.fin_wait_2_timeout = GIVE_UP;
                config.max_time_wait = 512;
                let link = Faulty::new(tap, Faults::default(), 11);
                let mut sockets = StackSockets::new(config, link, 8192).unwrap();
                sockets.set_keep_alive(KEEP_ALIVE);
                let mut server = Server::new(sockets).unwrap();
                server.serve(7, Service::Echo).unwrap();
                let kernel = SocketAddr::from((network.kernel(), KERNEL_PORT));
                let outward = server.serve_outward(0, kernel).unwrap()[0];
                tell.send((device, network, outward)).unwrap();
                loop {
                    match taken.try_recv() {
                        Ok(Order::Faults(faults)) => {
                            server.sockets_mut().link_mut().set_faults(faults)
                        }
                        Ok(Order::End) | Err(mpsc::TryRecvError::Disconnected) => break,
                        Err(mpsc::TryRecvError::Empty) => {}
                    }
                    if let Err(error) = server.poll_once(Duration::from_millis(5)) {
                        return Err(gone(server, &error));
                    }
                    check(&server)?;
                }
                let until = Instant::now() + 4 * GIVE_UP;
                while !is_over(&mut server) {
                    if Instant::now() >= until {
                        return Err(left_over(&mut server));
                    }
                    if let Err(error) = server.poll_once(Duration::from_millis(5)) {
                        return Err(gone(server, &error));
                    }
                }
                Ok(server.counts())
            })
        });
        let (device, network, outward) = told.recv_timeout(sandbox::PATIENCE).unwrap();
        Self {
            orders,
            device,
            network,
            outward,
            thread,
        }
    }
}

type Served = Server<StackSockets<Faulty<Tap>>>;

/// Every invariant of the stack holds, and there are no more connections than clients open.
fn check(server: &Served) -> Result<(), String> {
    let sockets = server.sockets();
    let stack = sockets.stack();
    let consistent = stack.check_consistency(sockets.pool());
    consistent.map_err(|inconsistency| inconsistency.to_string())?;
    if stack.connections() > 4 * CLIENTS {
        return Err(format!("{} connections", stack.connections()));
    }
    Ok(())
}

/// Nothing is left, and every frame is back.
fn is_over(server: &mut Served) -> bool {
    if server.counts().open > 0 || server.sockets().stack().connections() > 0 {
        return false;
    }
    let (link, pool) = server.sockets_mut().link_and_pool();
    link.drain(pool);
    pool.available() == pool.capacity()
}

fn left_over(server: &mut Served) -> String {
    let open = server.open_connections();
    let sockets = server.sockets_mut();
    let accounts: Vec<_> = open
        .iter()
        .map(|&conn| sockets.active().info(conn))
        .collect();
    format!(
        "left over: {} open, {} connections of the stack, {} of {} frames; {accounts:#?}",
        open.len(),
        sockets.stack().connections(),
        sockets.pool().available(),
        sockets.pool().capacity(),
    )
}

/// Report of a server whose device has gone: why it ended, and whether every frame came back.
fn gone(mut server: Served, error: &io::Error) -> String {
    // Its resets go nowhere.
    let _ = server.end();
    let until = Instant::now() + 4 * GIVE_UP;
    while !is_over(&mut server) {
        if Instant::now() >= until {
            return left_over(&mut server);
        }
        // The link is gone, and says so each time.
        let _ = server.poll_once(Duration::from_millis(5));
        thread::sleep(Duration::from_millis(1));
    }
    format!("gone: {error}")
}

/// Clients over the kernel's sockets, as many at a time, until they are told to stop.
fn clients(count: usize, to: [SocketAddr; 2], stop: &AtomicBool) -> Seen {
    let mut sockets = KernelSockets::new(Ipv4Addr::LOCALHOST.into()).unwrap();
    let mut actors: Vec<Option<Actor<u32>>> = (0..count).map(|_| None).collect();
    let mut lives = vec![0_u64; count];
    let mut seen = Seen::default();
    let mut events = Vec::new();
    let mut ticked = Instant::now();
    let mut number = 0_u64;
    loop {
        let stops = stop.load(Ordering::Relaxed);
        if stops && actors.iter().all(Option::is_none) {
            return seen;
        }
        let tick = ticked.elapsed() >= TICK;
        let mut ready: Vec<usize> = Vec::new();
        if tick {
            ticked = Instant::now();
            // A few at a time come, so that they do not all connect in one storm.
            let mut fresh = count / 20 + 1;
            for (place, actor) in actors.iter_mut().enumerate() {
                match actor {
                    Some(actor) => {
                        actor.age += 1;
                        ready.push(place);
                    }
                    None if !stops && fresh > 0 => {
                        fresh -= 1;
                        number += 1;
                        lives[place] += 1;
                        let manner = Manner::ALL[(number % 5) as usize];
                        let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                        let token = lives[place] << 32 | place as u64;
                        match sockets.connect(to[(number / 5 % 2) as usize], token) {
                            Ok(conn) => {
                                seen.connections += 1;
                                *actor = Some(Actor::new(conn, manner, seed));
                            }
                            Err(error) => seen.note(&error, manner),
                        }
                    }
                    None => {}
                }
            }
        }
        sockets
            .wait(&mut events, Duration::from_millis(5), None)
            .unwrap();
        for event in events.drain(..) {
            if let Event::Ready { token, writable } = event {
                let place = token as u32 as usize;
                if lives[place] == token >> 32
                    && let Some(actor) = &mut actors[place]
                {
                    if writable {
                        actor.writable();
                    }
                    ready.push(place);
                }
            }
        }
        for place in ready {
            let Some(actor) = &mut actors[place] else {
                continue;
            };
            let step = actor.go(&mut sockets, tick);
            let conn = actor.conn;
            match step {
                Ok(Step::Goes) if actor.age < OLDEST => continue,
                Ok(Step::Goes) => {
                    seen.gave_up += 1;
                    sockets.abort(conn);
                }
                Ok(Step::Whole) => {
                    seen.whole += 1;
                    sockets.close(conn);
                }
                Ok(Step::Leaves { reset }) => {
                    seen.left += 1;
                    if reset {
                        sockets.abort(conn);
                    } else {
                        sockets.close(conn);
                    }
                }
                Err(error) => {
                    seen.note(&error, actor.manner);
                    sockets.abort(conn);
                }
            }
            actors[place] = None;
        }
    }
}

impl Seen {
    fn note(&mut self, error: &io::Error, manner: Manner) {
        if is_expected(error) {
            *self
                .errors
                .entry(error.raw_os_error().unwrap_or(0))
                .or_default() += 1;
        } else {
            self.defects.push(format!("{manner:?}: {error}"));
        }
    }
}

/// An echo of the kernel, which our stack reaches by the kernel's address.
fn kernel_echo(place: &Sandbox, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let stop = Arc::clone(stop);
    place.within(move || {
        thread::spawn(move || {
            let sockets = KernelSockets::new(Ipv4Addr::UNSPECIFIED.into()).unwrap();
            let mut server = Server::new(sockets).unwrap();
            server.serve(KERNEL_PORT, Service::Echo).unwrap();
            while !stop.load(Ordering::Relaxed) {
                server.poll_once(Duration::from_millis(50)).unwrap();
            }
        })
    })
}

/// Memory of this process that is in use, in KB.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap()
}

/// One server with its clients for about `time`; afterwards its device is deleted under it, or it ends in good order.
fn session(place: &Sandbox, time: Duration, count: usize, delete: bool, seen: &mut Seen) -> String {
    let serving = Serving::start(place);
    let stop = Arc::new(AtomicBool::new(false));
    let to = [
        SocketAddr::from((serving.network.stack(), 7)),
        serving.outward,
    ];
    let clients = {
        let stop = Arc::clone(&stop);
        place.within(move || thread::spawn(move || clients(count, to, &stop)))
    };
    let until = Instant::now() + time;
    for trouble in TROUBLES.iter().cycle() {
        if Instant::now() >= until || serving.thread.is_finished() {
            break;
        }
        // The server sees no more orders when it has ended with a defect, which is told below.
        let _ = serving.orders.send(Order::Faults(trouble.faults()));
        trouble.disturb(place, &serving.device, serving.network, true);
        thread::sleep(STEP / 2);
        trouble.disturb(place, &serving.device, serving.network, false);
        thread::sleep(STEP / 2);
    }
    let _ = serving.orders.send(Order::Faults(Faults::default()));
    if delete {
        place.run("ip", &["link", "del", &serving.device]);
    }
    stop.store(true, Ordering::Relaxed);
    let these = clients.join().unwrap();
    let _ = serving.orders.send(Order::End);
    let ended = serving.thread.join().unwrap();
    match (delete, &ended) {
        (false, Ok(_)) => {}
        (true, Err(reason)) if reason.starts_with("gone: No such device") => {}
        (_, ended) => seen
            .defects
            .push(format!("the server ended with {ended:?}")),
    }
    seen.connections += these.connections;
    seen.whole += these.whole;
    seen.left += these.left;
    seen.gave_up += these.gave_up;
    for (number, count) in these.errors {
        *seen.errors.entry(number).or_default() += count;
    }
    seen.defects.extend(these.defects);
    ended.map_or_else(|reason| reason, |counts| format!("{counts:?}"))
}

#[test]
fn connections_come_and_go_whatever_happens() {
    let Some(place) = Sandbox::new(&["ip"]) else {
        return;
    };
    tollgate_link::host::raise_descriptor_limit();
    let seconds = std::env::var("TOLLGATE_SOAK_SECONDS");
    let seconds: Option<u64> = seconds
        .ok()
        .map(|text| text.parse().expect("a number of seconds"));
    let count = seconds.map_or(FEW, |_| CLIENTS);
    let total = Duration::from_secs(seconds.unwrap_or(10));
    let stop = Arc::new(AtomicBool::new(false));
    let echo = kernel_echo(&place, &stop);
    let begun = Instant::now();
    let one = (total / 12).clamp(Duration::from_secs(2), Duration::from_secs(30));
    let (mut seen, mut memory) = (Seen::default(), Vec::new());
    let mut number = 0;
    // Both ends of a session are seen at least once.
    while number < 2 || begun.elapsed() < total {
        number += 1;
        let time = one.min(total.saturating_sub(begun.elapsed()).max(STEP));
        let said = session(&place, time, count, number % 2 == 0, &mut seen);
        memory.push(resident_kb());
        let seconds = begun.elapsed().as_secs();
        println!("{seconds} s: {} KB resident; {said}", resident_kb());
        if !seen.defects.is_empty() {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    echo.join().unwrap();
    let mut summary = format!(
        "{number} devices, {} connections: {} whole, {} left, {} gave up",
        seen.connections, seen.whole, seen.left, seen.gave_up
    );
    for (number, count) in &seen.errors {
        let _ = write!(
            summary,
            "; {count} ended with {}",
            io::Error::from_raw_os_error(*number)
        );
    }
    println!("soak: {summary}");
    assert!(seen.defects.is_empty(), "{:#?}", seen.defects);
    assert!(seen.whole > seen.connections / 20, "{summary}");
    // The first sessions fill what is kept.
    if let [_, _, early, .., last] = memory[..] {
        assert!(last < early + SLACK_KB, "memory grows: {memory:?} KB");
    }
}

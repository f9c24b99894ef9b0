//! Traffic that is already there, on this kernel: skipped, and said so, without root or where the kernel has no hooks.

#![cfg(feature = "bpf")]

#[cfg(target_arch = "x86_64")]
#[path = "../../../qemu/tests/stock/mod.rs"]
mod stock;

mod bulk;
mod namespaces;
mod peeking;
mod reuse;
mod sampling;
mod wires;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tollgate_kernel::filter::{Filter, Side};
use tollgate_kernel::sample_hooks::Choice;
use tollgate_observe::{Ask, Watcher, summary};
use tollgate_run::observation::{Observation, Row, Slow};

/// A pair that asks and answers on an address until this is dropped.
struct Traffic {
    port: u16,
    stop: Arc<AtomicBool>,
    round_trips: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Traffic {
    fn on(address: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind((address, 0))?;
        let to = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let server = std::thread::spawn(move || {
            let Ok((mut stream, _)) = listener.accept() else {
                return;
            };
            let mut message = [0; 200];
            while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {}
        });
        let stopped = stop.clone();
        let round_trips = Arc::new(AtomicU64::new(0));
        let count = round_trips.clone();
        let client = std::thread::spawn(move || {
            let Ok(mut stream) = TcpStream::connect(to) else {
                return;
            };
            let mut message = [7; 200];
            while !stopped.load(Ordering::Relaxed)
                && stream.write_all(&message).is_ok()
                && stream.read_exact(&mut message).is_ok()
            {
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Ok(Self {
            port: to.port(),
            stop,
            round_trips,
            threads: vec![server, client],
        })
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Choice of hooks that the kernel allows; none, with the reason printed, where nothing can be observed.
fn choice() -> Option<Choice> {
    if !rustix::process::geteuid().is_root() {
        tollgate_skip::skipped!("observing needs root");
        return None;
    }
    let choice = Choice::of(&tollgate_kernel::kernel_features());
    if let Some((hook, reason)) = choice.stopped_by() {
        tollgate_skip::skipped!("this kernel has no hook {}: {reason}", hook.name);
        return None;
    }
    Some(choice)
}

/// Observes traffic until so many samples have come to their end, or half a minute is over, and reads when the traffic has ended: then
/// nothing moves between one counter's reading and the next.
fn observe(choice: &Choice, ask: &Ask, wanted: u64, traffic: Vec<Traffic>) -> Observation {
    let mut watcher = Watcher::start(choice.clone(), ask, Vec::new()).unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        std::thread::sleep(Duration::from_millis(10));
        watcher.tend().unwrap();
        let raw = watcher.read().unwrap();
        if raw.totals.finished >= wanted || Instant::now() > until {
            drop(traffic);
            let mut last = watcher.read().unwrap();
            last.slow.extend(raw.slow);
            return summary::between(None, &last, choice, 10);
        }
    }
}

fn port(port: u16) -> Filter {
    Filter::Ports(Side::Either, port, port)
}

fn check(address: &str) {
    let Some(choice) = choice() else { return };
    let traffic = match Traffic::on(address) {
        Ok(traffic) => traffic,
        Err(error) => {
            tollgate_skip::skipped!("no listener on {address}: {error}");
            return;
        }
    };
    let ask = Ask {
        filter: port(traffic.port).operations(),
        every: Some(1),
        slower_than: Some(Duration::from_nanos(1)),
        ..Ask::default()
    };
    let observed = observe(&choice, &ask, 200, vec![traffic]);
    let samples = observed.samples;
    assert!(samples.read >= 200, "{samples:?}");
    assert_eq!((samples.backwards, samples.vanished), (0, 0), "{samples:?}");
    // An interrupt within a program has its own run of it left out, which an emulated machine with much to do sees now and then.
    assert!(50 * samples.missed <= samples.read, "{samples:?}");
    // What the gates cost was measured, with messages that are told of nowhere.
    assert_eq!(observed.gates.not_measured, None);
    assert!(observed.gates.not_sampled_ns.is_some() && observed.gates.call_ns.is_some());
    assert!(observed.gates.rounds >= 6, "{:?}", observed.gates);
    for row in observed
        .spans
        .iter()
        .chain(&observed.sums)
        .filter(|row| row.n > 100)
    {
        let [low, high] = row.interval_ns.unwrap();
        assert!(low <= row.mean_ns && row.mean_ns <= high, "{row:?}");
        assert!(row.taken_off_ns > 0.0, "{row:?}");
    }
    assert!(observed.gates.followed_ns > observed.gates.taken_off_ns);
    assert!(observed.gates.taken_off_ns > 0.0);
    assert_eq!((samples.filtered_out, samples.skipped), (0, 0));
    // The reader of a request sends the answer, so both gates of a loopback passage are there.
    let n = |name: &str| observed.sum(name).map_or(0, |row| row.n);
    assert_eq!(n("send to receive"), samples.read, "{samples:?}");
    assert!(
        observed
            .spans
            .iter()
            .any(|row| row.name == "tcp" && row.n > 0)
    );
    // Both ends answer what they read, by the thread that read it.
    assert!(n("receive to send") >= samples.read / 2, "{samples:?}");
    // Spans count as they are, also those that are shorter than what was taken off: nothing is left over.
    assert!(samples.with_a_hole <= samples.missed, "{samples:?}");
    let total = |row: &Row| row.mean_ns * row.stands_for as f64;
    let parts: f64 = observed.spans.iter().map(total).sum();
    let way = observed.sum("send to receive").unwrap();
    let whole = total(way);
    assert!(
        (parts / whole - 1.0).abs() < 1e-9,
        "{parts} {whole}, {} shorter",
        observed.gates.shorter
    );
    assert!(
        observed
            .sockets
            .iter()
            .all(|socket| socket.pid == std::process::id())
    );
    let shares: Vec<f64> = observed.spans.iter().filter_map(|row| row.share).collect();
    if whole > 0.0 {
        assert_eq!(shares.len(), observed.spans.len());
        assert!(
            (shares.iter().sum::<f64>() - 1.0).abs() < 1e-6,
            "{shares:?}"
        );
    } else {
        assert!(shares.is_empty(), "{shares:?}");
    }
    // An emulated machine that others disturb does not know the cost of its gates, and may take off all of a passage.
    if way.taken_off_ns < way.mean_ns {
        assert!(samples.slow >= 200 && !observed.slow.is_empty());
    }
    for slow in &observed.slow {
        assert_eq!(
            slow.spans.iter().map(|span| span.2).sum::<i64>(),
            slow.total_ns
        );
    }
}

#[test]
fn every_gate_of_a_round_trip_is_seen() {
    check("127.0.0.1");
}

#[test]
fn ipv6_is_seen_alike() {
    check("::1");
}

#[test]
fn what_the_filter_keeps_out_is_not_sampled() {
    let Some(choice) = choice() else { return };
    let wanted = Traffic::on("127.0.0.1").unwrap();
    let other = Traffic::on("127.0.0.1").unwrap();
    let only = format!(
        "ip and host 127.0.0.1 and port {} and not port {}",
        wanted.port, other.port
    );
    let ask = Ask {
        filter: Filter::parse(&only).unwrap().operations(),
        every: Some(1),
        ..Ask::default()
    };
    let end = format!(":{}", wanted.port);
    let observed = observe(&choice, &ask, 100, vec![wanted, other]);
    assert!(observed.samples.read >= 100);
    for socket in &observed.sockets {
        assert!(
            socket.local.ends_with(&end) || socket.remote.ends_with(&end),
            "{socket:?}"
        );
    }
}

#[test]
fn other_processes_are_counted_and_left_out() {
    let Some(choice) = choice() else { return };
    let traffic = Traffic::on("127.0.0.1").unwrap();
    let ask = Ask {
        filter: port(traffic.port).operations(),
        groups: vec![1],
        every: Some(1),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice.clone(), &ask, Vec::new()).unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while watcher.read().unwrap().totals.unwanted < 50 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let raw = watcher.read().unwrap();
    let observed = summary::between(None, &raw, &choice, 10);
    assert!(
        observed.samples.filtered_out >= 50,
        "{:?}",
        observed.samples
    );
    assert!(observed.spans.is_empty() && observed.sockets.is_empty());
}

/// Time that the reader of [`epoll_reader`] computes between epoll's return and its call of recv().
const COMPUTES: Duration = Duration::from_micros(50);

/// Answers on a connection: sleeps in epoll, computes for [`COMPUTES`], reads and writes.
fn epoll_reader(listener: &TcpListener) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(
        &epoll,
        &stream,
        epoll::EventData::new_u64(0),
        epoll::EventFlags::IN,
    )?;
    let mut events = Vec::with_capacity(1);
    let mut message = [0; 100];
    loop {
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        events.clear();
        let returned = Instant::now();
        while returned.elapsed() < COMPUTES {
            std::hint::spin_loop();
        }
        stream.read_exact(&mut message)?;
        stream.write_all(&message)?;
    }
}

#[test]
fn epoll_readers_own_code_is_in_no_row_of_the_kernel() {
    let Some(choice) = choice() else { return };
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = listener.local_addr().unwrap();
    // It ends with an error when the client is gone.
    let server = std::thread::spawn(move || drop(epoll_reader(&listener)));
    let mut client = TcpStream::connect(at).unwrap();
    let ask = Ask {
        filter: Filter::parse(&format!("dst port {}", at.port()))
            .unwrap()
            .operations(),
        every: Some(1),
        slower_than: Some(Duration::from_nanos(1)),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice.clone(), &ask, Vec::new()).unwrap();
    let mut slow = Vec::new();
    let mut message = [0; 100];
    let mut last = watcher.read().unwrap();
    for _ in 0..10_000 {
        client.write_all(&message).unwrap();
        client.read_exact(&mut message).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        last = watcher.read().unwrap();
        slow.append(&mut last.slow);
        if last.totals.finished >= 200 {
            break;
        }
    }
    drop(client);
    server.join().unwrap();
    last.slow = slow;
    let observed = summary::between(None, &last, &choice, 10);
    let row = |name: &str| {
        let mut rows = observed.spans.iter();
        rows.find(|row| row.name == name && row.direction == Some("receive"))
            .unwrap()
    };
    let (application, resume) = (row("application"), row("resume"));
    assert_eq!(application.kind, Some("application"));
    assert!(application.n >= 100, "{:?}", observed.samples);
    // Percentiles are within 1 %.
    let computed = COMPUTES.as_nanos() as f64;
    assert!(application.p50_ns >= 0.99 * computed, "{application:?}");
    assert!(resume.p50_ns < computed, "{resume:?}");
    // It is in neither sum of the kernel's, and those and it make the way.
    let total = |row: &Row| row.mean_ns * row.n as f64;
    let [whole, processing, queueing] = ["send to receive", "processing", "queueing"]
        .map(|name| total(observed.sum(name).unwrap()));
    let parts = processing + queueing + total(application);
    assert!(
        (parts / whole - 1.0).abs() < 1e-3,
        "{whole} {parts} {:?}",
        observed.sums
    );
    // Whole passages tell the same, in the order of the way.
    let in_order = ["wakeup", "resume", "application", "syscall", "socket"];
    let ends = |slow: &Slow| {
        let names: Vec<&str> = slow.spans.iter().map(|span| span.0).collect();
        names.ends_with(&in_order)
    };
    assert!(observed.slow.iter().any(ends), "{:?}", observed.slow);
}

/// Connections of [`saturate`].
const CONNECTIONS: u64 = 50;

/// Asks on each connection and, as soon as an answer has come, again, until told to stop: the server always has a queue.
fn saturate(to: std::net::SocketAddr, stop: &AtomicBool) -> std::io::Result<()> {
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        streams.push(TcpStream::connect(to)?);
    }
    let mut message = [0; 100];
    for stream in &mut streams {
        stream.write_all(&message)?;
    }
    while !stop.load(Ordering::Relaxed) {
        for stream in &mut streams {
            stream.read_exact(&mut message)?;
            stream.write_all(&message)?;
        }
    }
    Ok(())
}

/// Answers on all connections by one thread, which sleeps in epoll, until all are gone.
fn serve(listener: &TcpListener, stop: &AtomicBool) -> std::io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut streams = Vec::new();
    for at in 0..CONNECTIONS {
        let (stream, _) = listener.accept()?;
        let data = epoll::EventData::new_u64(at);
        epoll::add(&epoll, &stream, data, epoll::EventFlags::IN)?;
        streams.push(stream);
    }
    let mut events = Vec::with_capacity(CONNECTIONS as usize);
    let mut message = [0; 100];
    while !stop.load(Ordering::Relaxed) {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let stream = &mut streams[event.data.u64() as usize];
            stream.read_exact(&mut message)?;
            stream.write_all(&message)?;
        }
    }
    Ok(())
}

/// Little's law: as many requests are under way as there are connections, so the mean times of a request, of its answer and of both
/// turns make the connections over the rate. The rate is that of the time in which the gates were on: without them it is higher.
#[test]
fn saturated_server_has_the_sum_that_its_rate_under_gates_asks_for() {
    let Some(choice) = choice() else { return };
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (served, asked) = (stop.clone(), stop.clone());
    // Both end with an error when the other is gone.
    let server = std::thread::spawn(move || drop(serve(&listener, &served)));
    let client = std::thread::spawn(move || drop(saturate(at, &asked)));
    let ask = Ask {
        filter: port(at.port()).operations(),
        every: Some(31),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice.clone(), &ask, Vec::new()).unwrap();
    let mut look = || {
        std::thread::sleep(Duration::from_millis(10));
        watcher.tend().unwrap();
        watcher.read().unwrap()
    };
    let mut first = look();
    for _ in 0..300 {
        if first.totals.finished > 0 {
            break;
        }
        first = look();
    }
    // Long enough for a calibration on the way, for which the gates are taken off.
    let rounds = |raw: &tollgate_observe::Raw| raw.cost.as_ref().unwrap().call.n;
    let mut last = first.clone();
    for _ in 0..12_000 {
        last = look();
        if rounds(&last) > rounds(&first) {
            break;
        }
    }
    assert!(rounds(&last) > rounds(&first));
    for _ in 0..100 {
        last = look();
    }
    drop(watcher);
    stop.store(true, Ordering::Relaxed);
    client.join().unwrap();
    server.join().unwrap();
    let observed = summary::between(Some(&first), &last, &choice, 10);
    let mean = |name: &str| observed.sum(name).unwrap().mean_ns;
    let sum = 2.0 * (mean("send to receive") + mean("receive to send"));
    // Two pieces make a request and its answer.
    let rate = observed.sends as f64 / 2.0 / (observed.on_s * 1e9);
    let asked = CONNECTIONS as f64 / rate;
    assert!(
        (sum / asked - 1.0).abs() < 0.1,
        "{sum} ns, and {asked} ns by the rate: {:?}",
        observed.sums
    );
}

/// A network namespace; it goes with this.
struct Room(Child);

impl Room {
    fn new() -> Option<Self> {
        let mut process = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo made; exec sleep infinity"])
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let said = process.stdout.take();
        let room = Self(process);
        let mut line = String::new();
        BufReader::new(said?).read_line(&mut line).ok()?;
        (line == "made\n").then_some(room)
    }

    fn net(&self) -> File {
        File::open(format!("/proc/{}/ns/net", self.0.id())).unwrap()
    }

    /// Tells whether a command succeeds in there.
    fn runs(&self, command: &str) -> bool {
        let status = Command::new("nsenter")
            .arg(format!("--net=/proc/{}/ns/net", self.0.id()))
            .args(command.split(' '))
            .status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Moves the calling thread into a namespace.
fn enter(net: &File) {
    move_into_link_name_space(net.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// Two namespaces with a cable between them; none, with the reason printed, where they cannot be made.
fn rooms_with_a_cable() -> Option<[Room; 2]> {
    let (Some(client), Some(server)) = (Room::new(), Room::new()) else {
        tollgate_skip::skipped!("no network namespaces can be made (unshare of util-linux)");
        return None;
    };
    let far = server.0.id();
    let made = client.runs(&format!(
        "ip link add client0 type veth peer name server0 netns {far}"
    )) && client.runs("ip link set client0 up")
        && server.runs("ip link set server0 up");
    if !made {
        tollgate_skip::skipped!("no veth pair can be made (ip of iproute2)");
        return None;
    }
    Some([client, server])
}

/// A client and a server whose requests go through a token bucket; none, with the reason printed, where there is none to be had.
fn rooms_behind_a_bucket() -> Option<[Room; 2]> {
    let [client, server] = rooms_with_a_cable()?;
    let made = client.runs("ip addr add 192.0.2.1/24 dev client0")
        && server.runs("ip addr add 192.0.2.2/24 dev server0")
        && client
            .runs("tc qdisc replace dev client0 root tbf rate 40mbit burst 1600 latency 100ms");
    if !made {
        tollgate_skip::skipped!("no token bucket can be made (ip and tc of iproute2)");
        return None;
    }
    Some([client, server])
}

/// Messages that go through the token bucket.
const THROUGH_A_BUCKET: usize = 1_000;

/// The wait in the bucket is one for the device. It gets shorter by what the gates take elsewhere in the loop, since the bucket sets
/// the pace: so the rows make a round trip together with the gates, and less than one without them.
#[test]
fn token_bucket_path_closes_with_its_gates() {
    let Some(choice) = choice() else { return };
    let mut opens = Vec::new();
    // Others on the machine hold a loop up where no sample stands for it, or the reader until places are short. Three times in a
    // row they do not.
    for _ in 0..3 {
        match through_a_bucket(&choice) {
            Ok(()) => return,
            Err(open) => opens.push(open),
        }
    }
    panic!("{opens:#?}");
}

/// Observes round trips through a bucket; an error where too few are seen, or their rows do not make a round trip.
fn through_a_bucket(choice: &Choice) -> Result<(), String> {
    let Some(rooms) = rooms_behind_a_bucket() else {
        return Ok(());
    };
    let [near, far] = [rooms[0].net(), rooms[1].net()];
    let namespaces = [&near, &far].map(|net| net.try_clone().unwrap().into());
    let (tell, port_of_server) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        enter(&far);
        let listener = TcpListener::bind((Ipv4Addr::new(192, 0, 2, 2), 0)).unwrap();
        tell.send(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut message = [0; THROUGH_A_BUCKET];
        while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {}
    });
    let at = port_of_server.recv().unwrap();
    let ask = Ask {
        filter: port(at.port()).operations(),
        every: Some(1),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice.clone(), &ask, Vec::from(namespaces)).unwrap();
    let client = std::thread::spawn(move || {
        enter(&near);
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut message = [0; THROUGH_A_BUCKET];
        let mut round_trips = Vec::new();
        for _ in 0..4_000 {
            let begun = Instant::now();
            stream.write_all(&message).unwrap();
            stream.read_exact(&mut message).unwrap();
            round_trips.push(begun.elapsed().as_nanos() as f64);
        }
        round_trips.iter().sum::<f64>() / round_trips.len() as f64
    });
    while !client.is_finished() {
        std::thread::sleep(Duration::from_millis(10));
        watcher.tend().unwrap();
    }
    let round_trip = client.join().unwrap();
    server.join().unwrap();
    let raw = watcher.read().unwrap();
    let observed = summary::between(None, &raw, choice, 10);
    // Bytes that gates did not see come in take no place from those behind them.
    if observed.samples.read < 6_000 {
        return Err(format!("{:?}", observed.samples));
    }
    let mut rows = observed.spans.iter();
    let queue = rows.find(|row| row.name == "device.queue").unwrap();
    // A request takes the bucket 213 us, and all else of a round trip some 30 us.
    assert!(queue.p99_ns > 100_000.0, "{queue:?}");
    let mean = |name: &str| observed.sum(name).unwrap().mean_ns;
    let sum =
        2.0 * (mean("send to receive") + mean("receive to send") + observed.gates.followed_ns);
    if (sum / round_trip - 1.0).abs() >= 0.1 {
        let (samples, sums) = (observed.samples, observed.sums);
        return Err(format!(
            "{sum} ns, and {round_trip} ns by the client: {samples:?} {sums:?}"
        ));
    }
    // And each sample's rows make its sum, but for those of which a gate was not run.
    let total = |row: &Row| row.mean_ns * row.stands_for as f64;
    let parts: f64 = observed.spans.iter().map(total).sum();
    let way = observed.sum("send to receive").unwrap();
    let whole = total(way);
    assert!((parts / whole - 1.0).abs() < 1e-2, "{parts} {whole}");
    Ok(())
}

/// Looks until the first sample has come to its end; none after half a minute.
fn first_sample(watcher: &mut Watcher) -> Option<()> {
    for _ in 0..12_000 {
        if watcher.read().unwrap().totals.finished > 0 {
            return Some(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

#[test]
fn slow_passages_without_room_are_counted() {
    let Some(choice) = choice() else { return };
    let traffic = Traffic::on("127.0.0.1").unwrap();
    let ask = Ask {
        filter: port(traffic.port).operations(),
        every: Some(1),
        slower_than: Some(Duration::from_nanos(1)),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice.clone(), &ask, Vec::new()).unwrap();
    first_sample(&mut watcher).unwrap();
    // Two passages each, of 312 bytes and a header; nobody fetches them, and there is room for a mebibyte.
    let begun = traffic.round_trips.load(Ordering::Relaxed);
    while traffic.round_trips.load(Ordering::Relaxed) < begun + 3_000 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let raw = watcher.read().unwrap();
    let observed = summary::between(None, &raw, &choice, 10);
    assert!(observed.samples.slow_lost > 0, "{:?}", observed.samples);
    assert!(
        raw.slow.len() as u64 + observed.samples.slow_lost <= observed.samples.slow,
        "{} {:?}",
        raw.slow.len(),
        observed.samples
    );
    assert!(
        observed.samples.read >= observed.samples.slow,
        "{:?}",
        observed.samples
    );
}

#[test]
fn bytes_that_there_is_no_room_to_follow_are_counted() {
    let Some(choice) = choice() else { return };
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let ask = Ask {
        filter: port(client.peer_addr().unwrap().port()).operations(),
        every: Some(1),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice.clone(), &ask, Vec::new()).unwrap();
    let mut message = [0; 100];
    for _ in 0..12_000 {
        client.write_all(&message).unwrap();
        server.read_exact(&mut message).unwrap();
        if watcher.read().unwrap().totals.finished > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // All of one connection, nobody reads, and 16 can be followed.
    for _ in 0..64 {
        client.write_all(&message).unwrap();
    }
    let before = watcher.read().unwrap();
    assert!(before.totals.skipped >= 64 - 16, "{:?}", before.totals);
    let observed = summary::between(None, &before, &choice, 10);
    assert_eq!(observed.samples.skipped, before.totals.skipped);
    assert!(observed.samples.under_way > 0, "{:?}", observed.samples);
    for _ in 0..64 {
        server.read_exact(&mut message).unwrap();
    }
    let after = watcher.read().unwrap();
    assert!(after.totals.finished > before.totals.finished);
}

/// A kernel that lacks the newest hooks is seen as well: functions take their place.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_stock_kernel_is_seen_as_well() {
    stock::run_there(&[
        "every_gate_of_a_round_trip_is_seen",
        "ipv6_is_seen_alike",
        "what_the_filter_keeps_out_is_not_sampled",
        "other_processes_are_counted_and_left_out",
        "reuse::bytes_dropped_before_their_socket_do_not_wait_for_the_next_reader",
    ]);
}

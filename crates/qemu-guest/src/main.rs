//! The first program of a machine of ours, and the only one of that in which the kernel's instructions are counted.
//!
//! Process 1 brings up the loopback device, carries out the tasks that stand on the kernel's command line, sends the
//! host its messages ([`Message`]), and powers off. Called with `peer` the program is the other end of a task. If its
//! file system has a list of commands, it carries out these instead.

use std::arch::asm;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};
use tollgate_qemu::protocol::{
    COMMANDS, Marker, Message, PORT, TASK_PREFIX, TRACE_PREFIX, Task, Workload,
};

mod commands;
mod trace;

/// Between two messages in one direction everything comes to rest.
const REST: Duration = Duration::from_millis(2);

/// Turns before counting begins. The first 16 segments of a connection are acknowledged at once (`TCP_MAX_QUICKACKS`), later
/// ones with data or when they have been read.
const WARM_UP: u32 = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, address, task] = arguments.as_slice()
        && role == "peer"
    {
        // The other end sees the connection close when this one cannot go on, and tells.
        if let Err(error) = peer(address, task) {
            eprintln!("tollgate-qemu-guest: peer: {error}");
        }
        return;
    }
    let last = match run(&arguments) {
        Ok(()) => Message::Done,
        Err(error) => Message::Failed(error.to_string()),
    };
    // Without the port nothing can be told, and the host misses the last message.
    let _ = say(&last);
    let _ = reboot(RebootCommand::PowerOff);
}

fn run(arguments: &[String]) -> io::Result<()> {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys")] {
        mount(kind, place, kind, MountFlags::empty(), None)
            .map_err(|error| io::Error::other(format!("mounting {place}: {error}")))?;
    }
    loopback_up()?;
    if let Ok(list) = fs::read_to_string(format!("/{COMMANDS}")) {
        return commands::carry_out(&list);
    }
    facts()?;
    let mut tasks = Vec::new();
    for argument in arguments {
        if let Some(task) = argument.strip_prefix(TASK_PREFIX) {
            tasks.push(task.parse::<Task>().map_err(io::Error::other)?);
        }
    }
    for task in &tasks {
        let clock = carry_out(task, |_| Ok(()))
            .map_err(|error| io::Error::other(format!("carrying out {task}: {error}")))?;
        say(&Message::Region(*task, clock))?;
    }
    let functions = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix(TRACE_PREFIX));
    if let (Some(functions), Some(task)) = (functions, tasks.first()) {
        for function in functions.split(',') {
            let traced = trace::time(function, || carry_out(task, trace::switch).map(drop))
                .map_err(|error| io::Error::other(format!("tracing {function}: {error}")))?;
            say(&traced)?;
        }
    }
    symbols()
}

/// Tells whether this process may write to the port that the host reads. It may only while it speaks: each switch to a process that
/// may would cost the kernel instructions that are not the network's.
fn allow_port(allowed: bool) -> io::Result<()> {
    // SAFETY: the call only changes which ports this process may use.
    match unsafe { libc::ioperm(PORT.into(), 1, allowed.into()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn say(message: &Message) -> io::Result<()> {
    say_all([message])
}

fn say_all<'a>(messages: impl IntoIterator<Item = &'a Message>) -> io::Result<()> {
    allow_port(true)?;
    for message in messages {
        for byte in message.to_string().replace('\n', " ").bytes() {
            out(byte);
        }
        out(b'\n');
    }
    allow_port(false)
}

fn out(byte: u8) {
    // SAFETY: only called between the two calls of `allow_port`; QEMU's debug console takes any byte.
    unsafe {
        asm!("out dx, al", in("dx") PORT, in("al") byte, options(nomem, nostack, preserves_flags))
    }
}

fn loopback_up() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: the request is a valid `ifreq`, and the kernel only reads it.
    match unsafe { libc::ioctl(fd, libc::SIOCSIFFLAGS, &request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Says what bears on the counts: the kernel, its clock, its workarounds for the processor's faults.
fn facts() -> io::Result<()> {
    let faults = "/sys/devices/system/cpu/vulnerabilities";
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut places = vec![
        ("kernel".to_owned(), "/proc/sys/kernel/osrelease".to_owned()),
        ("version".to_owned(), "/proc/sys/kernel/version".to_owned()),
        ("clocksource".to_owned(), clock.to_owned()),
        (
            "congestion".to_owned(),
            "/proc/sys/net/ipv4/tcp_congestion_control".to_owned(),
        ),
    ];
    let mut names: Vec<String> = fs::read_dir(faults)
        .map(|entries| {
            entries
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    places.extend(
        names
            .iter()
            .map(|name| (format!("mitigation/{name}"), format!("{faults}/{name}"))),
    );
    for (name, path) in places {
        if let Ok(text) = fs::read_to_string(path) {
            say(&Message::Fact(name, text.trim().to_owned()))?;
        }
    }
    Ok(())
}

/// Says where each function of the kernel is.
fn symbols() -> io::Result<()> {
    let text = fs::read_to_string("/proc/kallsyms")?;
    let symbols: Vec<Message> = text.lines().filter_map(symbol).collect();
    say_all(&symbols)
}

/// The function of a line of `/proc/kallsyms`: address, type, name.
fn symbol(line: &str) -> Option<Message> {
    let mut words = line.split_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let address = u64::from_str_radix(address, 16).ok()?;
    matches!(kind, "t" | "T" | "w" | "W").then(|| Message::Symbol(address, name.to_owned()))
}

/// Runs a task; returns by how much the clock moved while it was counted. `around` is called with `true` before and with
/// `false` behind what is counted.
fn carry_out(task: &Task, around: impl Fn(bool) -> io::Result<()>) -> io::Result<u64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let peer = spawn_peer(listener.local_addr()?, task)?;
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut client = Client {
        stream,
        buffer: vec![0x5a; task.size],
    };
    marker_arm();
    for _ in 0..WARM_UP {
        client.operate(task.workload)?;
    }
    around(true)?;
    marker_begin();
    let begin = clock();
    for _ in 0..task.count {
        client.operate(task.workload)?;
    }
    let end = clock();
    marker_end();
    around(false)?;
    drop(client);
    finish(peer)?;
    Ok(end - begin)
}

struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    #[inline(always)]
    fn operate(&mut self, workload: Workload) -> io::Result<()> {
        self.stream.write_all(&self.buffer)?;
        match workload {
            Workload::RequestResponse => self.stream.read_exact(&mut self.buffer),
            Workload::OneWay => {
                std::thread::sleep(REST);
                Ok(())
            }
        }
    }
}

fn spawn_peer(address: SocketAddr, task: &Task) -> io::Result<Child> {
    Command::new("/init")
        .args(["peer", &address.to_string(), &task.to_string()])
        .spawn()
}

fn finish(mut peer: Child) -> io::Result<()> {
    match peer.wait()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("the peer ended with {status}"))),
    }
}

/// The other end: reads each message whole, answers it when an answer is wanted, until the connection closes.
fn peer(address: &str, task: &str) -> io::Result<()> {
    let task: Task = task.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; task.size];
    loop {
        match stream.read_exact(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            outcome => outcome?,
        }
        if task.workload == Workload::RequestResponse {
            stream.write_all(&buffer)?;
        }
    }
}

/// The time-stamp counter, which moves by one with each instruction.
fn clock() -> u64 {
    // SAFETY: every processor with 64 bits has it, and the kernel lets programs read it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

macro_rules! marker {
    ($name:ident, $marker:expr) => {
        #[inline(always)]
        fn $name() {
            // SAFETY: an instruction without effect; the compiler must not move memory accesses over it.
            unsafe {
                asm!(".byte 0x0f, 0x1f, 0x80", ".long {number}", number = const $marker as u32, options(nostack, preserves_flags))
            }
        }
    };
}
marker!(marker_arm, Marker::Arm);
marker!(marker_begin, Marker::Begin);
marker!(marker_end, Marker::End);

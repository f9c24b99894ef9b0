//! A stream over a tap link, per full segment that is taken in: reading it, its way through the stack into a posted buffer, and the
//! acknowledgments. The kernel's part is not counted; in its place is a pair of sockets that keep frames apart.

use super::{Done, SEGMENT, Scenario, pattern, require};
use crate::Error;
use crate::callgrind::counted;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use tollgate_checksum::Kernel;
use tollgate_link::tap::Tap;
use tollgate_stack::config::{Nagle, Segmentation};
use tollgate_stack::{Config, ConnId, Instant, Link as _, Pool, Received, Stack};
use tollgate_wire::ethernet::MacAddr;

pub(super) const TRAINS_IN: Scenario = Scenario {
    name: "tap-trains-in",
    about: "1,448 bytes of a stream taken in over a tap, 45 segments as one frame of Linux's, cut where they lie",
    count: 9_000,
    run: |count| stream("tap-trains-in", 1500, true, count),
};

pub(super) const SEGMENTS_IN: Scenario = Scenario {
    name: "tap-segments-in",
    about: "the same where each segment is a frame of its own",
    count: 9_000,
    run: |count| stream("tap-segments-in", 1500, false, count),
};

pub(super) const JUMBOS_IN: Scenario = Scenario {
    name: "tap-jumbos-in",
    about: "the same bytes as segments of 65,292 bytes in frames of 64 KiB: the least that one large segment in place of 45 takes",
    count: 9_000,
    run: |count| stream("tap-jumbos-in", tollgate_stack::MAX_MTU, false, count),
};

const PORT: u16 = 7;
/// Bytes of a train of 45 segments.
const TRAIN: usize = 45 * SEGMENT;
/// Nanoseconds between turns.
const TURN: u64 = 1_000;

/// A stack, its pool and its end of the line.
struct End {
    stack: Stack,
    pool: Pool,
    tap: Tap,
}

impl End {
    fn new(host: u8, socket: OwnedFd, mtu: usize, now: Instant) -> Result<Self, Error> {
        let mac = MacAddr([2, 0, 0, 0, 0, host]);
        let seed = [u64::from(host), 2, 3, 4];
        let mut config = Config::new(mac, address(host), 24, seed);
        config.send_buffer = 4 * TRAIN as u32;
        config.receive_buffer = 4 * TRAIN as u32;
        config.kernel = Kernel::best();
        config.mechanisms.nagle = Nagle::Off;
        Ok(Self {
            stack: Stack::new(config, mtu, now)?,
            pool: Pool::new(1024, Pool::frame_size_for(mtu)),
            tap: Tap::of(socket, "socket".to_owned(), mtu),
        })
    }

    fn poll(&mut self, now: Instant) {
        self.stack.at(now, &mut self.pool).poll(&mut self.tap);
    }
}

const fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

fn derailed(name: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
    move |error| Error::Derailed {
        name,
        what: error.to_string(),
    }
}

/// Segments' worth of a stream, a train or one large segment a turn.
fn stream(name: &'static str, mtu: usize, trains: bool, segments: u64) -> Result<Done, Error> {
    let mut now = Instant::from_nanos(1 << 40);
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(derailed(name))?;
    let (mut from, mut to) = (End::new(1, a, mtu, now)?, End::new(2, b, mtu, now)?);
    from.tap.set_segmentation(if trains {
        Segmentation::Gso
    } else {
        Segmentation::PerPacket
    });
    let listener = to.stack.at(now, &mut to.pool).listen(PORT, 1)?;
    let server = SocketAddrV4::new(address(2), PORT);
    let client = from.stack.at(now, &mut from.pool).connect(server)?;
    for _ in 0..4 {
        from.poll(now);
        to.poll(now);
    }
    let conn = to.stack.at(now, &mut to.pool).accept(listener)?;
    let message = pattern(TRAIN);
    let mut buffer = vec![0; TRAIN];
    // The congestion window opens; what comes is expected.
    let mut turns = 0;
    let (mut warm, mut done) = (0, 0);
    let misses = |end: &End| end.stack.counters().misses.iter().sum::<u64>();
    let mut missed = 0;
    while done < segments as usize * SEGMENT {
        now = Instant::from_nanos(now.as_nanos() + TURN);
        from.poll(now);
        // What finds no room is offered again.
        let _ = from.stack.at(now, &mut from.pool).send(client, &message);
        from.poll(now);
        if warm < 64 * TRAIN {
            warm += receive(&mut to, conn, now, &mut buffer);
            missed = misses(&to);
            continue;
        }
        let mut got = 0;
        counted(|| got = receive(&mut to, conn, now, &mut buffer));
        require(name, got == TRAIN, || format!("{got} bytes came in a turn"))?;
        done += got;
        turns += 1;
    }
    let missed = misses(&to) - missed;
    require(name, missed == 0, || {
        format!("{missed} segments were not predicted")
    })?;
    let stats = *to.tap.stats();
    require(
        name,
        (stats.large != 0) == trains && stats.cut_off == 0,
        || format!("{stats:?}"),
    )?;
    Ok(Done {
        operations: (done / SEGMENT) as u64,
        pairs: turns,
    })
}

/// Takes in what a turn has brought, and acknowledges it.
#[inline(never)]
fn receive(end: &mut End, conn: ConnId, now: Instant, buffer: &mut [u8]) -> usize {
    let mut got = 0;
    while got < buffer.len() {
        let stack = &mut end.stack.at(now, &mut end.pool);
        match stack.poll_receive(&mut end.tap, conn, &mut buffer[got..]) {
            Ok(Received::Data(bytes)) => got += bytes,
            _ => break,
        }
    }
    end.stack.at(now, &mut end.pool).flush(&mut end.tap);
    got
}

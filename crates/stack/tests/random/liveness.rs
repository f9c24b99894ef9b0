//! The liveness test: an odd but legal peer on a bad path, both of which become good, after which everything must arrive.
//!
//! While the peer is odd its window closes, opens, grows and shrinks, its acknowledgments come late, and segments are lost,
//! doubled and overtake each other. Then it reads everything at once on a path that loses nothing. Both sides have a
//! stream to send. A run fails when a byte is missing or wrong, when the connection does not end, or when a frame
//! does not come back to the pool.
//!
//! The peer negotiates what the numbers say of selective acknowledgments, timestamps, window scaling and explicit congestion
//! notification, and keeps to their RFCs: it tells of what it holds and of what has come twice, echoes marks, and may drop what it
//! told of (RFC 2018, 8). The stack's mechanisms are drawn as well. A run fails, too, where the stack tells of bytes or marks that
//! have not arrived, or sends as ECN-capable what must not be.

use super::craft;
use super::ipv6;
use super::marks::{self, Marks, bits_of, with_bits, with_codepoint};
use super::numbers::Numbers;
use super::peer::{COOKIE, PEER, PEER_MAC, PORT, STACK, STACK_MAC, link_answer, pattern};
use super::ranges::Ranges;
use super::trace::{Trace, Way};
use super::wire::{MTU, Wire};
use std::net::SocketAddr;
use std::time::Duration;
use tollgate_stack::config::{Ecn, MtuProbing, Nagle};
use tollgate_stack::{Config, ConnId, Error, Instant, Open, Pool, Received, Stack};
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::{AccurateEcn, Flags, Header, Options, Timestamps};

/// Frames of the pool.
const FRAMES: usize = 1024;
/// Everything must have arrived so long after the peer has become good: the longest timeout of the stack three times, and
/// far below its user timeout of 15 minutes.
const LIMIT: Duration = Duration::from_secs(200);
/// TIME-WAIT may last so much longer.
const TIME_WAIT: Duration = Duration::from_secs(70);
/// The peer's retransmission timeout.
const PEER_RTO: Duration = Duration::from_millis(400);
/// Window that a good peer advertises.
const FULL_WINDOW: u32 = 60_000;
const PEER_PORT: u16 = 40_000;
/// Bytes of payload that leave room for all options.
const MOST_PAYLOAD: u32 = 1420;
/// In front of the name of a setting: as it was before peers negotiated anything but timestamps and window scaling.
const BARE: &str = "bare-";

/// Faults that the peer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Name on the command line.
    pub name: &'static str,
    /// The right edge of the peer's window moves left (RFC 9293, 3.8.6: discouraged, and to be survived).
    pub shrinks: bool,
    /// At most so many frames in a hundred are lost in each direction.
    pub loss: u64,
    /// The stack opens its connection with data (RFC 7413), to a peer whose cookie it knows.
    pub early: bool,
    /// The path drops what is longer than it takes, in silence, also when it is good (RFC 4821, 7.7).
    pub black_hole: bool,
    /// It runs over IPv6, with extension headers and fragments.
    pub ipv6: bool,
    /// Nothing but timestamps and one window scale is negotiated, and the mechanisms are a host's.
    pub bare: bool,
}

/// Windows that close and open.
const GENTLE: Setting = Setting {
    name: "windows",
    shrinks: false,
    loss: 0,
    early: false,
    black_hole: false,
    ipv6: false,
    bare: false,
};

/// From gentle to harsh.
pub const SETTINGS: [Setting; 7] = [
    GENTLE,
    Setting {
        name: "loss",
        loss: 20,
        ..GENTLE
    },
    Setting {
        name: "shrinking",
        shrinks: true,
        ..GENTLE
    },
    Setting {
        name: "shrinking-loss",
        shrinks: true,
        loss: 20,
        ..GENTLE
    },
    Setting {
        name: "early",
        shrinks: true,
        loss: 20,
        early: true,
        ..GENTLE
    },
    Setting {
        name: "black-hole",
        shrinks: true,
        loss: 5,
        black_hole: true,
        ..GENTLE
    },
    Setting {
        name: "shrinking-loss-ipv6",
        shrinks: true,
        loss: 20,
        ipv6: true,
        ..GENTLE
    },
];

/// The setting of that name, `bare-` in front of it or not.
pub fn setting(name: &str) -> Option<Setting> {
    let usual = name.strip_prefix(BARE);
    let bare = usual.is_some();
    let known = SETTINGS
        .into_iter()
        .find(|setting| setting.name == usual.unwrap_or(name))?;
    Some(Setting { bare, ..known })
}

impl Setting {
    /// The name by which [`setting`] finds it.
    pub fn label(&self) -> String {
        format!("{}{}", if self.bare { BARE } else { "" }, self.name)
    }
}

/// Outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Frames of both sides, and those that were lost.
    pub frames: u64,
    pub lost: u64,
    /// Times that the peer's right edge moved left.
    pub shrunk: u64,
    /// Frames that the path has marked.
    pub marked: u64,
    /// Acknowledgments of the peer that told of ranges, and times that it dropped what it had told of.
    pub told: u64,
    pub reneged: u64,
    /// Both have agreed on selective acknowledgments, and on this feedback of marks.
    pub selective: bool,
    pub feedback: Option<Ecn>,
    /// From the moment at which the peer is good to the last byte and FIN.
    pub took: Duration,
    /// The first contradiction in the stack's own records.
    pub inconsistency: Option<String>,
}

/// Runs a seed.
///
/// # Errors
/// A description of the bytes that did not arrive, or did not come back.
pub fn run(setting: &Setting, seed: u64, trace: bool) -> Result<Summary, String> {
    run_with(setting, Numbers::new(setting.name, seed), trace)
}

/// Runs what a stream of numbers says.
///
/// # Errors
/// Those of [`run`].
pub fn run_with(setting: &Setting, numbers: Numbers<'_>, trace: bool) -> Result<Summary, String> {
    let mut world = World::new(setting, numbers, trace);
    let outcome = world.go();
    outcome.map_err(|failure| format!("{failure}; {}", world.describe()))
}

/// One direction of the path: frames and when they arrive.
#[derive(Default)]
struct Path {
    frames: Vec<(Instant, u64, Vec<u8>)>,
}

impl Path {
    /// Takes out the frame that has arrived first.
    fn arrived(&mut self, now: Instant) -> Option<Vec<u8>> {
        let first = (0..self.frames.len()).min_by_key(|&n| (self.frames[n].0, self.frames[n].1))?;
        (self.frames[first].0 <= now).then(|| self.frames.swap_remove(first).2)
    }

    fn next(&self) -> Option<Instant> {
        self.frames.iter().map(|(at, ..)| *at).min()
    }
}

struct World<'a> {
    setting: Setting,
    numbers: Numbers<'a>,
    stack: Stack,
    pool: Pool,
    wire: Wire,
    now: Instant,
    begin: Instant,
    /// From here on peer and path are good.
    good: Instant,
    to_stack: Path,
    to_peer: Path,
    count: u64,
    /// Frames lost in a hundred.
    loss: u64,
    /// ECN-capable frames that are marked in a hundred, while the path is bad.
    marked: u64,
    /// The longest packet of the stack that the path takes, if it is a black hole.
    path: Option<usize>,
    peer: Peer,
    stack_sent: StackSent,
    app: App,
    complete: Option<Instant>,
    summary: Summary,
    trace: Option<Trace>,
}

/// The application on the stack.
struct App {
    conn: Option<ConnId>,
    to_write: u32,
    written: u32,
    to_read: u32,
    read: u32,
    shut: bool,
    end: bool,
    next: Instant,
}

/// Account of what the stack was given and has sent, by which its segments are judged.
#[derive(Default)]
struct StackSent {
    /// Behind everything that it sent. Numbers are relative, as the peer's.
    highest: u32,
    /// Bytes of the peer that were given to it, by number.
    arrived: Vec<bool>,
    /// Marked packets, and their bytes, that were given to it, and packets that it has told of.
    marks: u32,
    marked_bytes: u32,
    told: u32,
    /// The last counter in its segments.
    counter: u8,
    /// It opened the connection: its first acknowledgment ends the handshake.
    confirms: bool,
}

/// Choices that a peer of today has, and the stack's.
struct Offers {
    sack: bool,
    shift: Option<u8>,
    marks: Marks,
    marked: u64,
}

impl Offers {
    /// Neither selective acknowledgments nor explicit congestion notification.
    fn bare(shift: u8) -> Self {
        Self {
            sack: false,
            shift: (shift != 0).then_some(shift),
            marks: Marks::off(),
            marked: 0,
        }
    }

    /// Draws them, and the mechanisms.
    fn draw(numbers: &mut Numbers<'_>, config: &mut Config, black_hole: bool) -> Self {
        let usual = config.mechanisms;
        config.mechanisms = numbers.mechanisms(usual, |name| {
            // These were drawn.
            !(name == "nagle" || name == "mtu-probing" && black_hole)
        });
        if numbers.one_in(2) {
            config.mechanisms.ecn = numbers.pick(&[Ecn::Classic, Ecn::Accurate]);
        }
        config.window_scaling = !numbers.one_in(4);
        let shift = numbers.pick(&[None, Some(0), Some(1), Some(3), Some(7), Some(10)]);
        let asks = numbers.pick(&[Ecn::Off, Ecn::Classic, Ecn::Accurate, Ecn::Accurate]);
        let arrived_as = match numbers.below(16) {
            0 => numbers.pick(&[marks::ECT0, marks::ECT1, marks::CE]),
            _ => marks::NOT_ECT,
        };
        let codepoint = numbers.pick(&[marks::ECT0, marks::ECT0, marks::ECT1]);
        let marks = Marks::new(asks, arrived_as, codepoint, numbers.one_in(2));
        Self {
            sack: !numbers.one_in(4),
            shift,
            marks,
            marked: numbers.skewed(0, 40),
        }
    }
}

/// The peer. Numbers are relative: the first byte has number 1.
#[derive(Clone)]
struct Peer {
    /// It negotiates nothing of [`Offers`], and echoes every timestamp.
    bare: bool,
    /// It takes data from the stack's SYN.
    takes_early: bool,
    /// Its SYN brings a cookie.
    gives_cookie: bool,
    isn: u32,
    iss: u32,
    stack_port: u16,
    shift: Option<u8>,
    stack_shift: u8,
    stamps: bool,
    echo: u32,
    sack: bool,
    marks: Marks,
    mss: u32,
    // What it receives.
    got: u32,
    ranges: Ranges,
    /// The last acknowledgment that it sent.
    acknowledged: u32,
    end_at: Option<u32>,
    window: u32,
    edge: u32,
    change_at: Instant,
    ack_at: Option<Instant>,
    // What it sends.
    to_send: u32,
    una: u32,
    next: u32,
    highest: u32,
    stack_edge: u32,
    last_heard: (u32, u32),
    again_at: Option<Instant>,
}

impl<'a> World<'a> {
    fn new(setting: &Setting, mut numbers: Numbers<'a>, trace: bool) -> Self {
        let seed = [numbers.below(u64::MAX), 2, 3, 4];
        let mut config = Config::new(STACK_MAC, STACK, 24, seed);
        config.max_connections = 2;
        config.max_time_wait = 2;
        config.timestamps = !numbers.one_in(3);
        if numbers.one_in(2) {
            config.mechanisms.nagle = Nagle::Off;
        }
        config.ipv6 = setting.ipv6.then(ipv6::config);
        config.send_buffer = numbers.pick(&[4096, 32 * 1024, 128 * 1024]);
        config.receive_buffer = numbers.pick(&[4096, 32 * 1024, 256 * 1024]);
        let path = setting
            .black_hole
            .then(|| numbers.between(600, 1500) as usize);
        if setting.black_hole && numbers.one_in(2) {
            config.mechanisms.mtu_probing = MtuProbing::Always;
        }
        // Bare peers take the shift from its place among the other numbers.
        let offers =
            (!setting.bare).then(|| Offers::draw(&mut numbers, &mut config, setting.black_hole));
        let now = Instant::from_nanos(1 << 40);
        let mut pool = Pool::new(FRAMES, Pool::frame_size_for(MTU));
        let mut stack = Stack::new(config, MTU, now).expect("the configuration is valid");
        let mut active = stack.at(now, &mut pool);
        active.add_neighbour(PEER, PEER_MAC);
        if setting.ipv6 {
            active.add_neighbour(ipv6::PEER_V6, PEER_MAC);
        }
        let mss = numbers.pick(&[1460, 1460, 536, 200]);
        let isn = numbers.pick(&[0xffff_f000, 7, 0x7fff_ff00]);
        let shift = numbers.pick(&[0, 0, 3]);
        let offers = offers.unwrap_or_else(|| Offers::bare(shift));
        let peer = Peer {
            bare: setting.bare,
            takes_early: false,
            gives_cookie: false,
            isn,
            iss: 0,
            stack_port: PORT,
            shift: offers.shift,
            stack_shift: 0,
            stamps: !numbers.one_in(3),
            echo: 0,
            sack: offers.sack,
            marks: offers.marks,
            mss,
            got: 1,
            ranges: Ranges::default(),
            acknowledged: 1,
            end_at: None,
            window: FULL_WINDOW,
            edge: 1,
            change_at: now,
            ack_at: None,
            to_send: numbers.skewed(0, 60_000) as u32,
            una: 1,
            next: 1,
            highest: 1,
            stack_edge: 1,
            last_heard: (0, 0),
            again_at: None,
        };
        let app = App {
            conn: None,
            to_write: if numbers.one_in(3) {
                numbers.skewed(1, 20_000)
            } else {
                numbers.between(20_000, 200_000)
            } as u32,
            written: 0,
            to_read: peer.to_send,
            read: 0,
            shut: false,
            end: false,
            next: now,
        };
        let good = now + Duration::from_millis(numbers.between(500, 30_000));
        let loss = numbers.between(0, setting.loss);
        Self {
            setting: *setting,
            numbers,
            stack,
            pool,
            wire: ipv6::wire(setting.ipv6),
            now,
            begin: now,
            good,
            to_stack: Path::default(),
            to_peer: Path::default(),
            count: 0,
            loss,
            marked: offers.marked,
            path,
            stack_sent: StackSent {
                highest: 1,
                arrived: vec![false; peer.to_send as usize + 2],
                counter: marks::FIRST_COUNTER,
                ..StackSent::default()
            },
            peer,
            app,
            complete: None,
            summary: Summary::default(),
            trace: trace.then(|| Trace::new(now)),
        }
    }

    fn is_good(&self) -> bool {
        self.now >= self.good
    }

    fn ms(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.numbers.between(low * 1000, high * 1000))
    }

    /// The handshake, which nothing disturbs.
    fn open(&mut self) -> Result<(), String> {
        let broken = |error: Error| format!("the handshake: {error}");
        let active = self.setting.early || self.numbers.one_in(2);
        let mut listener = None;
        let to = SocketAddr::new(ipv6::peer(self.setting.ipv6), PEER_PORT);
        if self.setting.early {
            self.ask_for_a_cookie(to).map_err(broken)?;
            let most = self.app.to_write.min(4_000);
            let bytes = self.numbers.between(1, u64::from(most)) as u32;
            let data: Vec<u8> = (1..=bytes).map(pattern).collect();
            self.peer.takes_early = self.numbers.one_in(2);
            let mut stack = self.stack.at(self.now, &mut self.pool);
            let opened = stack.connect_with_data(to, &Open::default(), &data);
            let (conn, taken) = opened.map_err(broken)?;
            self.app.conn = Some(conn);
            self.app.written = taken as u32;
            if self.stack.counters().syns_with_data != 1 {
                return Err("the SYN has no data".to_owned());
            }
        } else if active {
            let conn = self.stack.at(self.now, &mut self.pool).connect(to);
            self.app.conn = Some(conn.map_err(broken)?);
        } else {
            let mut stack = self.stack.at(self.now, &mut self.pool);
            listener = Some(stack.listen(PORT, 1).map_err(broken)?);
            let syn = self.peer.syn(self.now, false);
            self.wire.to_stack.push(syn);
        }
        self.poll();
        let (answer, early) = self.heard_with_data().ok_or("no SYN")?;
        self.peer.hear_syn(&answer);
        self.summary.selective = self.peer.sack;
        self.summary.feedback = Some(self.peer.marks.agreed).filter(|&kind| kind != Ecn::Off);
        self.stack_sent.highest = 1 + early;
        self.stack_sent.confirms = active;
        if self.peer.takes_early {
            self.peer.got += early;
        }
        let reply = if active {
            self.peer.syn(self.now, true)
        } else {
            self.peer.segment(self.now, self.peer.una, 0)
        };
        self.wire.to_stack.push(reply);
        self.poll();
        // What follows the data of the SYN at once is on the path.
        for raw in std::mem::take(&mut self.wire.from_stack) {
            if let Some((_, header, payload)) = craft::parse_tcp(&raw) {
                self.judge(&raw)?;
                if payload.is_empty() {
                    self.peer.take_window(&header);
                } else {
                    self.count += 1;
                    self.to_peer.frames.push((self.now, self.count, raw));
                }
            }
        }
        if let Some(listener) = listener {
            let mut stack = self.stack.at(self.now, &mut self.pool);
            self.app.conn = Some(stack.accept(listener).map_err(broken)?);
            stack.close_listener(listener).map_err(broken)?;
        }
        Ok(())
    }

    /// A connection that brings the peer's cookie, and is given up.
    fn ask_for_a_cookie(&mut self, to: SocketAddr) -> Result<(), Error> {
        let mut stack = self.stack.at(self.now, &mut self.pool);
        let (conn, _) = stack.connect_with_data(to, &Open::default(), &[])?;
        self.poll();
        if let Some((syn, _)) = self.heard_with_data() {
            let mut peer = self.peer.clone();
            peer.hear_syn(&syn);
            peer.gives_cookie = true;
            let answer = peer.syn(self.now, true);
            self.wire.to_stack.push(answer);
        }
        self.poll();
        self.stack.at(self.now, &mut self.pool).abort(conn)?;
        self.poll();
        self.wire.from_stack.clear();
        Ok(())
    }

    /// The last segment that the stack has just sent, and how many bytes it carries.
    fn heard_with_data(&mut self) -> Option<(Header, u32)> {
        let frames = std::mem::take(&mut self.wire.from_stack);
        let header = |raw: &Vec<u8>| {
            craft::parse_tcp(raw).map(|(_, header, payload)| (header, payload.len() as u32))
        };
        frames.iter().rev().find_map(header)
    }

    fn poll(&mut self) {
        if let Some(trace) = &mut self.trace {
            for raw in &self.wire.to_stack {
                trace.frame(self.now, 0, Way::Gets, raw);
            }
        }
        let mut stack = self.stack.at(self.now, &mut self.pool);
        stack.poll(&mut self.wire);
        stack.flush(&mut self.wire);
        if let Some(trace) = &mut self.trace {
            for raw in &self.wire.from_stack {
                trace.frame(self.now, 0, Way::Sends, raw);
            }
        }
        if self.summary.inconsistency.is_none()
            && let Err(found) = self.stack.check_consistency(&self.pool)
        {
            if self.trace.is_some() {
                println!("{found}");
            }
            self.summary.inconsistency = Some(found.to_string());
        }
    }

    fn go(&mut self) -> Result<Summary, String> {
        self.open()?;
        self.change_window();
        for _ in 0..2_000_000 {
            self.settle()?;
            if self.is_over() {
                return self.sum_up();
            }
            let limit = match self.complete {
                None => self.good + LIMIT,
                Some(_) => self.good + LIMIT + TIME_WAIT,
            };
            if self.now > limit {
                return Err(match self.complete {
                    None => "not everything has arrived".to_owned(),
                    Some(_) => "the connection does not end".to_owned(),
                });
            }
            let Some(next) = self.next_event() else {
                return Err("everything waits and nothing is due".to_owned());
            };
            self.now = next;
        }
        Err("they never fall silent".to_owned())
    }

    /// When something happens next, later than now.
    fn next_event(&self) -> Option<Instant> {
        let tick = Instant::from_nanos(((self.now.as_nanos() >> 20) + 1) << 20);
        let after = |at: Instant| if at <= self.now { tick } else { at };
        let odd = |at: Instant| (!self.is_good()).then_some(at);
        let app = (!self.app.shut || !self.app.end).then_some(self.app.next);
        [
            self.stack.next_deadline(self.now),
            self.to_stack.next(),
            self.to_peer.next(),
            self.peer.ack_at,
            self.peer.again_at,
            odd(self.peer.change_at),
            odd(self.good),
            app.filter(|&at| at > self.now),
        ]
        .into_iter()
        .flatten()
        .map(after)
        .min()
    }

    /// Lets everything happen that happens now.
    fn settle(&mut self) -> Result<(), String> {
        if self.is_good() && self.peer.window != FULL_WINDOW {
            self.peer.window = FULL_WINDOW;
            self.peer.ack_at = Some(self.now);
        } else if !self.is_good() && self.peer.change_at <= self.now {
            self.change_window();
        }
        while let Some(raw) = self.to_peer.arrived(self.now) {
            self.peer_hears(&raw)?;
        }
        self.peer_speaks();
        while let Some(raw) = self.to_stack.arrived(self.now) {
            self.stack_sent.arrive(&self.peer, &raw);
            self.wire.to_stack.push(raw);
        }
        self.poll();
        if self.app.next <= self.now {
            self.act()?;
            self.poll();
        }
        for raw in std::mem::take(&mut self.wire.from_stack) {
            match link_answer(&raw) {
                Some(answer) => self.wire.to_stack.push(answer),
                None => {
                    self.judge(&raw)?;
                    self.carry(raw, true);
                }
            }
        }
        let app = &self.app;
        let all = self.peer.end_at == Some(self.peer.got)
            && app.shut
            && app.end
            && self.peer.una > self.peer.to_send + 1;
        if all && self.complete.is_none() {
            self.complete = Some(self.now);
            self.summary.took = self.now - self.good;
        }
        Ok(())
    }

    /// Puts a frame on the path.
    fn carry(&mut self, mut raw: Vec<u8>, to_peer: bool) {
        if to_peer && self.path.is_some_and(|path| raw.len() > 14 + path) {
            self.summary.lost += 1;
            return;
        }
        self.summary.frames += 1;
        let marked = if self.is_good() {
            self.marked / 8
        } else {
            self.marked
        };
        if marked != 0
            && craft::parse_tcp(&raw).is_some_and(|(ip, ..)| ip.tos & marks::CE != marks::NOT_ECT)
            && self.numbers.percent(marked)
        {
            self.summary.marked += 1;
            raw = with_codepoint(raw, marks::CE);
        }
        let mut copies = 1;
        let mut delay = Duration::from_millis(5);
        if !self.is_good() {
            if self.numbers.percent(self.loss) {
                self.summary.lost += 1;
                copies = 0;
            } else if self.loss != 0 && self.numbers.one_in(30) {
                copies = 2;
            }
        }
        for _ in 0..copies {
            if !self.is_good() && self.loss != 0 {
                let most = if self.numbers.one_in(10) { 120 } else { 12 };
                delay = self.ms(1, most);
            }
            self.count += 1;
            let path = if to_peer {
                &mut self.to_peer
            } else {
                &mut self.to_stack
            };
            path.frames
                .push((self.now + delay, self.count, raw.clone()));
        }
    }

    fn change_window(&mut self) {
        let mss = u64::from(self.peer.mss);
        let wanted = match self.numbers.below(10) {
            0..=2 => 0,
            3 => self.numbers.between(1, mss),
            4..=5 => self.numbers.between(mss, 4 * mss),
            6..=7 => self.numbers.between(4 * mss, 20_000),
            _ => u64::from(FULL_WINDOW) - 1,
        } as u32;
        let promised = self.peer.edge.saturating_sub(self.peer.got);
        if self.setting.shrinks {
            self.summary.shrunk += u64::from(wanted < promised);
            self.peer.window = wanted;
        } else {
            self.peer.window = wanted.max(promised);
        }
        self.peer.change_at = self.now + Duration::from_millis(self.numbers.skewed(5, 3000));
        if !self.numbers.one_in(4) {
            self.peer.ack_at = Some(self.now);
        }
    }

    fn peer_hears(&mut self, raw: &[u8]) -> Result<(), String> {
        let Some((ip, header, payload)) = craft::parse_tcp(raw) else {
            return Ok(());
        };
        let all = self.peer.end_at == Some(self.peer.got) && self.peer.una > self.peer.to_send + 1;
        if header.flags.has(Flags::RST) && !all {
            return Err("the stack reset the connection".to_owned());
        }
        if header.flags.any(Flags::SYN | Flags::RST) {
            // A connection that both sides have closed is forgotten; a SYN is being answered.
            return Ok(());
        }
        let peer = &mut self.peer;
        let seq = header.seq.0.wrapping_sub(peer.iss);
        if let Some(stamps) = header.options.timestamps
            && !peer.take_stamp(seq, stamps.value)
        {
            peer.ack_at = Some(self.now);
            return Ok(());
        }
        peer.take_window(&header);
        let ack = header.ack.0.wrapping_sub(peer.isn);
        peer.marks.hear_echo(header.flags, ack, peer.highest);
        if ack > peer.una && ack <= peer.highest {
            peer.una = ack;
            peer.next = peer.next.max(ack);
            peer.again_at = (ack != peer.highest).then_some(self.now + PEER_RTO);
        }
        let fin = header.flags.has(Flags::FIN);
        let len = payload.len() as u32;
        if peer.is_acceptable(seq, len + u32::from(fin))
            && peer.marks.arrive(header.flags, ip.tos & marks::CE, len)
        {
            peer.ack_at = Some(self.now);
        }
        if payload.is_empty() && !fin {
            return Ok(());
        }
        for (at, &byte) in (seq..).zip(&payload) {
            if byte != pattern(at) {
                return Err(format!("byte {at} of the stack is {byte}"));
            }
        }
        let end = seq + payload.len() as u32;
        if fin {
            if end != self.app.to_write + 1 {
                return Err(format!("the stack's FIN lies at {end}"));
            }
        } else if end > self.app.to_write + 1 {
            return Err(format!("the stack sends up to {end}"));
        }
        self.take_data(seq, end, fin);
        Ok(())
    }

    /// Data within the window is kept, the rest has no room.
    fn take_data(&mut self, seq: u32, end: u32, fin: bool) {
        let stingy = !self.is_good() && self.numbers.one_in(30);
        let peer = &mut self.peer;
        let edge = peer.accepts_up_to();
        let mut kept = end.min(edge);
        if stingy && seq < kept {
            kept = seq + (kept - seq) / 2;
        }
        if fin && kept == end && seq <= edge {
            kept = end + 1;
            peer.end_at = Some(kept);
        }
        let before = peer.got;
        if seq < kept {
            peer.got = peer.ranges.arrive(peer.got, seq, kept);
        }
        // The window is a buffer's: what fills it has to be read first.
        let taken = peer.got - before;
        let good = self.is_good();
        if !good {
            self.peer.window = self.peer.window.saturating_sub(taken);
        }
        let out_of_order = !self.peer.ranges.is_empty() || taken == 0;
        if !good && !self.setting.bare && !self.peer.ranges.is_empty() && self.numbers.one_in(150) {
            self.summary.reneged += u64::from(self.peer.sack);
            self.peer.ranges.renege();
        }
        let delay = if good || out_of_order || self.numbers.one_in(2) {
            Duration::ZERO
        } else {
            self.ms(1, 400)
        };
        let at = self.now + delay;
        self.peer.ack_at = Some(self.peer.ack_at.map_or(at, |before| before.min(at)));
    }

    /// Sends what the peer may send, again what was lost, and the acknowledgment that is due.
    fn peer_speaks(&mut self) {
        if self.peer.again_at.is_some_and(|at| at <= self.now) {
            self.peer.next = self.peer.una;
            self.peer.again_at = None;
        }
        let mut frames = Vec::new();
        loop {
            let peer = &mut self.peer;
            let end = peer.to_send + 1;
            let room = peer.stack_edge.saturating_sub(peer.next);
            let most = if peer.bare {
                peer.mss
            } else {
                peer.mss.min(MOST_PAYLOAD)
            };
            let len = (end.saturating_sub(peer.next)).min(room).min(most);
            let fin = peer.next + len == end;
            if peer.next > end || len == 0 && !fin {
                break;
            }
            frames.push(peer.segment(self.now, peer.next, len));
            peer.next += len + u32::from(fin);
            peer.highest = peer.highest.max(peer.next);
            peer.ack_at = None;
            peer.again_at = peer.again_at.or(Some(self.now + PEER_RTO));
        }
        let peer = &mut self.peer;
        if peer.next <= peer.to_send + 1 && peer.next == peer.una && peer.again_at.is_none() {
            // A closed window: a probe of one byte.
            frames.push(peer.segment(self.now, peer.next, 1));
            peer.highest = peer.highest.max(peer.next + 1);
            peer.again_at = Some(self.now + PEER_RTO);
        }
        if peer.ack_at.is_some_and(|at| at <= self.now) {
            peer.ack_at = None;
            frames.push(peer.segment(self.now, peer.highest, 0));
        }
        for frame in frames {
            let sack = craft::parse_tcp(&frame).and_then(|(_, header, _)| header.options.sack);
            self.summary.told += u64::from(sack.is_some());
            self.carry(frame, false);
        }
    }

    /// Holds a segment of the stack against the rules that no segment breaks.
    fn judge(&mut self, raw: &[u8]) -> Result<(), String> {
        let Some((ip, header, payload)) = craft::parse_tcp(raw) else {
            return Ok(());
        };
        if header.flags.any(Flags::SYN | Flags::RST) {
            return Ok(());
        }
        let (peer, sent) = (&self.peer, &mut self.stack_sent);
        if header.options.timestamps.is_some() != peer.stamps {
            return Err(format!(
                "timestamps are {}",
                if peer.stamps {
                    "missing"
                } else {
                    "uncalled for"
                }
            ));
        }
        sent.judge_blocks(peer, &header)?;
        let seq = header.seq.0.wrapping_sub(peer.iss);
        let len = payload.len() as u32;
        let codepoint = ip.tos & marks::CE;
        if codepoint != marks::NOT_ECT {
            // RFC 3168, 6.1.4 and 6.1.5.
            if peer.marks.agreed == Ecn::Off {
                return Err("ECN-capable without agreement".to_owned());
            }
            if len == 0 || seq < sent.highest {
                return Err(format!(
                    "bytes {seq} to {} are ECN-capable, {} was sent",
                    seq + len,
                    sent.highest
                ));
            }
        }
        match peer.marks.agreed {
            Ecn::Off if bits_of(&header) != 0 => {
                return Err("congestion is told of without agreement".to_owned());
            }
            Ecn::Accurate => {
                let is_plain = len == 0 && header.options.sack.is_none();
                sent.judge_counters(&header, is_plain)?;
            }
            Ecn::Off | Ecn::Classic => {}
        }
        sent.highest = sent.highest.max(seq + len);
        Ok(())
    }

    /// The application writes, reads and closes.
    fn act(&mut self) -> Result<(), String> {
        let Some(conn) = self.app.conn else {
            return Ok(());
        };
        let good = self.is_good();
        let pause = if good {
            Duration::from_millis(2)
        } else {
            self.ms(0, 60)
        };
        self.app.next = self.now + pause.max(Duration::from_micros(100));
        let most = if good {
            u64::from(u16::MAX)
        } else {
            self.numbers.skewed(1, 20_000)
        } as u32;
        let mut stack = self.stack.at(self.now, &mut self.pool);
        let app = &mut self.app;
        let before = (app.written, app.read);
        while stack.next_event().is_some() {}
        if app.written < app.to_write {
            let len = most.min(app.to_write - app.written);
            let data: Vec<u8> = (app.written + 1..=app.written + len).map(pattern).collect();
            match stack.send(conn, &data) {
                Ok(taken) => app.written += taken as u32,
                Err(Error::WouldBlock) => {}
                Err(error) => return Err(format!("send: {error}")),
            }
        } else if !app.shut {
            stack
                .shutdown(conn)
                .map_err(|error| format!("shutdown: {error}"))?;
            app.shut = true;
        }
        let mut buffer = vec![0; most as usize];
        match stack.receive(conn, &mut buffer) {
            Ok(Received::Data(len)) => {
                for &byte in &buffer[..len] {
                    app.read += 1;
                    if byte != pattern(app.read) {
                        return Err(format!("byte {} of the peer is {byte}", app.read));
                    }
                }
            }
            Ok(Received::Nothing) => {}
            Ok(Received::End) if app.read != app.to_read => {
                return Err(format!("the end came after {} bytes", app.read));
            }
            Ok(Received::End) => app.end = true,
            Err(error) => return Err(format!("receive: {error}")),
        }
        if good && before == (app.written, app.read) {
            app.next = self.now + Duration::from_millis(100);
        }
        if app.shut && app.end {
            app.conn = None;
            stack
                .close(conn)
                .map_err(|error| format!("close: {error}"))?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.complete.is_some()
            && self.stack.connections() == 0
            && self.stack.time_waits() == 0
            && self.stack.device_queue_len() == 0
    }

    fn sum_up(&mut self) -> Result<Summary, String> {
        let (free, all) = (self.pool.available(), self.pool.capacity());
        if free != all {
            return Err(format!("{} frames did not come back", all - free));
        }
        Ok(self.summary.clone())
    }

    fn describe(&self) -> String {
        let (app, peer) = (&self.app, &self.peer);
        let after = if self.is_good() {
            format!("{:?} after the peer became good", self.now - self.good)
        } else {
            "while the peer is odd".to_owned()
        };
        format!(
            "{:?} after the start, {after}: the stack wrote {} of {} bytes and read {} of {}, the peer got {} and has {} \
             acknowledged, {} connections, {} timeouts",
            self.now - self.begin,
            app.written,
            app.to_write,
            app.read,
            app.to_read,
            peer.got - 1,
            peer.una - 1,
            self.stack.connections(),
            self.stack.counters().timeouts,
        )
    }
}

impl Peer {
    fn hear_syn(&mut self, header: &Header) {
        self.iss = header.seq.0;
        self.stack_port = header.source_port;
        self.stamps &= header.options.timestamps.is_some();
        self.echo = header.options.timestamps.map_or(0, |stamps| stamps.value);
        match header.options.window_scale {
            Some(shift) if self.shift.is_some() => self.stack_shift = shift,
            _ => self.shift = None,
        }
        self.sack &= header.options.sack_permitted;
        self.marks.hear_syn(header);
        self.stack_edge = 1 + u32::from(header.window);
    }

    /// The window of a segment that is not older than the last one.
    fn take_window(&mut self, header: &Header) {
        let seq = header.seq.0.wrapping_sub(self.iss);
        let ack = header.ack.0.wrapping_sub(self.isn);
        if (ack, seq) >= self.last_heard {
            self.last_heard = (ack, seq);
            self.stack_edge = ack + (u32::from(header.window) << self.stack_shift);
        }
    }

    /// Takes in a timestamp. Says whether the segment is as new as those before it (RFC 7323, 4.3 and 5.3).
    fn take_stamp(&mut self, seq: u32, value: u32) -> bool {
        if !self.bare && (value.wrapping_sub(self.echo) as i32) < 0 {
            return false;
        }
        if self.bare || seq <= self.acknowledged {
            self.echo = value;
        }
        true
    }

    /// Behind everything that finds room. A bare peer forgets that it has promised more.
    fn accepts_up_to(&self) -> u32 {
        let edge = self.got + self.window;
        if self.bare { edge } else { edge.max(self.edge) }
    }

    /// Tells whether a segment has something within the window (RFC 9293, 3.10.7.4).
    fn is_acceptable(&self, seq: u32, len: u32) -> bool {
        let edge = self.accepts_up_to();
        match len {
            0 => (self.got..=edge).contains(&seq),
            len => seq < edge && seq + len > self.got,
        }
    }

    fn stamps(&self, now: Instant) -> Option<Timestamps> {
        self.stamps.then_some(Timestamps {
            value: (now.as_nanos() >> 20) as u32,
            echo: self.echo,
        })
    }

    fn syn(&mut self, now: Instant, answers: bool) -> Vec<u8> {
        let (flags, ack) = if answers {
            (Flags::SYN | Flags::ACK, self.iss.wrapping_add(self.got))
        } else {
            (Flags::SYN, 0)
        };
        let header = Header {
            window: FULL_WINDOW as u16,
            options: Options {
                mss: Some(self.mss as u16),
                window_scale: self.shift,
                timestamps: self.stamps(now),
                sack_permitted: self.sack,
                fast_open: self.gives_cookie.then_some(COOKIE),
                accurate_ecn: self.marks.option().filter(|_| answers),
                ..Options::default()
            },
            ..craft::header(
                PEER_PORT,
                self.stack_port,
                flags,
                SeqNumber(self.isn),
                SeqNumber(ack),
            )
        };
        let header = with_bits(header, self.marks.of_syn(answers));
        craft::tcp(STACK_MAC, PEER, STACK, &header, &[])
    }

    /// Bytes from `seq` on, with the FIN behind the last one.
    fn segment(&mut self, now: Instant, seq: u32, len: u32) -> Vec<u8> {
        // Rounded up, so that a window that is promised not to shrink does not shrink by rounding.
        let shift = self.shift.unwrap_or(0);
        let raw = self.window.div_ceil(1 << shift).min(65_535);
        self.edge = self.got + (raw << shift);
        self.acknowledged = self.got;
        let end = self.to_send + 1;
        let mut flags = Flags::ACK;
        if seq + len == end && (len != 0 || seq == end && self.next == end) {
            flags |= Flags::FIN;
        }
        let payload: Vec<u8> = (seq..seq + len).map(pattern).collect();
        // A probe of a closed window is none (RFC 3168, 6.1.6).
        let has_new_data = len != 0 && seq >= self.highest && seq < self.stack_edge;
        let sack = if self.sack {
            self.ranges.blocks(self.iss)
        } else {
            None
        };
        let is_plain = len == 0 && sack.is_none() && !flags.has(Flags::FIN);
        let header = Header {
            window: raw as u16,
            options: Options {
                timestamps: self.stamps(now),
                sack,
                accurate_ecn: self.marks.option().filter(|_| sack.is_none()),
                ..Options::default()
            },
            ..craft::header(
                PEER_PORT,
                self.stack_port,
                flags,
                SeqNumber(self.isn.wrapping_add(seq)),
                SeqNumber(self.iss.wrapping_add(self.got)),
            )
        };
        let header = with_bits(header, self.marks.of_segment(has_new_data, is_plain));
        let frame = craft::tcp(STACK_MAC, PEER, STACK, &header, &payload);
        with_codepoint(frame, self.marks.codepoint(has_new_data))
    }
}

impl StackSent {
    /// A frame of the peer is given to the stack.
    fn arrive(&mut self, peer: &Peer, raw: &[u8]) {
        let Some((ip, header, payload)) = craft::parse_tcp(raw) else {
            return;
        };
        let seq = header.seq.0.wrapping_sub(peer.isn);
        let end = seq + payload.len() as u32 + u32::from(header.flags.has(Flags::FIN));
        if end > seq {
            self.arrived[seq as usize..end as usize].fill(true);
        }
        if ip.tos & marks::CE == marks::CE {
            self.marks += 1;
            self.marked_bytes += payload.len() as u32;
        }
    }

    /// RFC 2018, 4, and RFC 2883, 4: blocks name what has arrived behind the acknowledgment, but for the first, which may name what has
    /// come twice; none of the others overlaps another.
    fn judge_blocks(&self, peer: &Peer, header: &Header) -> Result<(), String> {
        let Some(sack) = header.options.sack else {
            return Ok(());
        };
        let relative = |number: SeqNumber| number.0.wrapping_sub(peer.isn);
        let ack = relative(header.ack);
        let blocks = sack.as_slice().iter();
        let blocks: Vec<(u32, u32)> = blocks
            .map(|block| (relative(block.start), relative(block.end)))
            .collect();
        let fail = |what: &str| Err(format!("blocks {blocks:?} over {ack}: {what}"));
        if !peer.sack {
            return fail("they were not agreed on");
        }
        let within =
            |inner: (u32, u32), outer: (u32, u32)| outer.0 <= inner.0 && inner.1 <= outer.1;
        for (n, &(start, end)) in blocks.iter().enumerate() {
            let is_duplicate = n == 0
                && (end <= ack
                    || blocks
                        .get(1)
                        .is_some_and(|&second| within((start, end), second)));
            let arrived = self.arrived.get(start as usize..end as usize);
            if start >= end || !arrived.is_some_and(|bytes| bytes.iter().all(|&there| there)) {
                return fail("they name what has not arrived");
            }
            if start <= ack && !is_duplicate {
                return fail("they begin before what is missing");
            }
            let others = &blocks[n + 1..];
            if !is_duplicate && others.iter().any(|&(a, b)| a < end && start < b) {
                return fail("they overlap");
            }
        }
        Ok(())
    }

    /// RFC 9768, 3.2: no mark is told of that did not arrive.
    fn judge_counters(&mut self, header: &Header, is_plain: bool) -> Result<(), String> {
        if std::mem::take(&mut self.confirms) && is_plain {
            // 3.2.2.1: it tells of the codepoint of the answer to the SYN.
            return Ok(());
        }
        let counter = bits_of(header);
        let before = std::mem::replace(&mut self.counter, counter);
        self.told += u32::from((counter + 8 - before) % 8);
        if self.told > self.marks {
            return Err(format!("{} of {} marks are told", self.told, self.marks));
        }
        let option = header.options.accurate_ecn;
        match option.and_then(|AccurateEcn { ce, .. }| ce) {
            Some(bytes) if bytes > self.marked_bytes => Err(format!(
                "{bytes} of {} marked bytes are told",
                self.marked_bytes
            )),
            _ => Ok(()),
        }
    }
}

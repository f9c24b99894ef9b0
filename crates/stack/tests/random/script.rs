//! Scripts of the differential test: segments, calls and steps of the clock, drawn at random.
//!
//! A step says what is done relative to where the connection stands ("acknowledge half of what is in flight"), so the same
//! script makes sense with any step taken out. That is how a script that fails is made small.

use super::marks;
use super::numbers::Numbers;
use tollgate_stack::config::{Ecn, Mechanisms};

/// Bytes of payload that fill a segment of the stack on the links of these tests.
const FULL: u64 = 1448;

/// Range of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Name on the command line.
    pub name: &'static str,
    /// Either end closes.
    pub fin: bool,
    /// The peer's window changes, shrinks and closes.
    pub windows: bool,
    /// Sends are so large that the congestion window limits.
    pub congestion: bool,
    /// User timeout, resets, stray SYNs, urgent data, and connections after the first.
    pub rest: bool,
    /// Keepalive probes.
    pub keepalive: bool,
    /// The stack opens connections with data (RFC 7413).
    pub early: bool,
    /// It is played over IPv6, with extension headers and fragments.
    pub ipv6: bool,
    /// Neither selective acknowledgments nor explicit congestion notification, and the usual mechanisms.
    pub bare: bool,
}

/// In front of the name of a setting: as it was before scripts had more.
const BARE: &str = "bare-";

/// Data and acknowledgments only.
const PLAIN: Setting = Setting {
    name: "plain",
    fin: false,
    windows: false,
    congestion: false,
    rest: false,
    keepalive: false,
    early: false,
    ipv6: false,
    bare: false,
};

/// From narrow to wide.
pub const SETTINGS: [Setting; 8] = [
    PLAIN,
    Setting {
        name: "fin",
        fin: true,
        ..PLAIN
    },
    Setting {
        name: "windows",
        windows: true,
        ..PLAIN
    },
    Setting {
        name: "congestion",
        congestion: true,
        ..PLAIN
    },
    Setting {
        name: "wide",
        keepalive: false,
        ..WIDEST
    },
    WIDEST,
    Setting {
        name: "early",
        early: true,
        ..WIDEST
    },
    Setting {
        name: "widest-ipv6",
        ipv6: true,
        ..WIDEST
    },
];

/// Everything but what the applications must ask for.
pub const WIDEST: Setting = Setting {
    name: "widest",
    fin: true,
    windows: true,
    congestion: true,
    rest: true,
    keepalive: true,
    early: false,
    ipv6: false,
    bare: false,
};

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

/// The end that opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The peer.
    Passive,
    /// The stack.
    Active,
    /// Both at once.
    Simultaneous,
}

/// Setup of stack and peer.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub opening: Opening,
    /// The stack offers timestamps, and the peer does.
    pub timestamps: (bool, bool),
    /// The stack offers window scaling, and the peer this shift.
    pub scaling: (bool, Option<u8>),
    pub mss: Option<u16>,
    pub window: u16,
    pub no_delay: bool,
    pub receive_buffer: u32,
    pub isn: u32,
    pub seed: u64,
    /// Nanoseconds before the peer answers the first segment of a handshake.
    pub answer_after: u64,
    /// Bytes that the stack opens its connections with, if any, and whether the peer takes them from a SYN.
    pub early: Option<(u32, bool)>,
    pub ipv6: bool,
    /// The peer takes selective acknowledgments.
    pub sack: bool,
    /// Feedback of marks that the peer asks for and agrees on, and the codepoint that the stack's SYN seems to have had.
    pub ecn: (Ecn, u8),
    /// Mechanisms of both plays, but for those that are compared.
    pub mechanisms: Mechanisms,
}

/// The place where a segment of the peer begins.
#[derive(Clone, Copy, Debug)]
pub enum SequencePosition {
    /// Behind everything that the peer sent in order.
    Next,
    /// So far beyond that.
    Ahead(u16),
    /// So far before it.
    Back(u16),
    /// At what the stack has not acknowledged, all of which is sent again.
    Unacknowledged,
}

/// Acknowledgment that a segment of the peer carries.
#[derive(Clone, Copy, Debug)]
pub enum Ack {
    /// Everything that arrived in order.
    All,
    /// The number that the last one carried.
    Same,
    /// A part of what is new, in 256ths.
    Part(u8),
    /// So much less than the last one.
    Old(u16),
    /// So much more than was sent.
    Future(u16),
}

/// The window that a segment of the peer offers.
#[derive(Clone, Copy, Debug)]
pub enum Window {
    /// The one that the peer usually offers.
    Usual,
    /// The last one again.
    Same,
    Zero,
    /// So many bytes, whatever is in flight; from 2,000 on they become usual.
    Bytes(u32),
    /// The bytes in flight and so many more.
    Flight(u16),
}

/// The timestamp of a segment of the peer.
#[derive(Clone, Copy, Debug)]
pub enum Stamp {
    /// The peer's clock.
    Now,
    /// The last one again.
    Same,
    /// So much before the last one.
    Old(u16),
    /// None, although the option is on.
    Missing,
}

/// Ranges that a segment of the peer tells of.
#[derive(Clone, Copy, Debug)]
pub enum Blocks {
    /// Ranges that it holds out of order and those that have come twice, if both ends take that.
    Held,
    /// None.
    Missing,
    /// Bytes from this part of what the stack has sent on, in 256ths, so many, whether they have arrived or not.
    Claimed(u8, u16),
    /// The same, and others that overlap them.
    Overlapping(u8, u16),
    /// The same, end and beginning changed.
    Reversed(u8, u16),
    /// No byte, in the middle of what was sent.
    Empty(u8),
    /// Bytes so far behind everything that was sent.
    Unsent(u16),
    /// Bytes from so far before the acknowledgment on, up to it or beyond it.
    Old(u32, u16),
}

/// Explicit congestion notification of a segment of the peer.
#[derive(Clone, Copy, Debug)]
pub struct Marking {
    /// Codepoint of its packet, where it is not the honest one.
    pub codepoint: Option<u8>,
    /// Changes its bits.
    pub lie: u8,
    /// So many of the stack's packets from here on are marked.
    pub marks: u8,
}

impl Marking {
    /// Nothing is marked, and what is told is true.
    pub const NONE: Self = Self {
        codepoint: None,
        lie: 0,
        marks: 0,
    };
}

/// A segment of the peer.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub place: SequencePosition,
    pub len: u16,
    pub ack: Ack,
    pub window: Window,
    pub stamp: Stamp,
    pub fin: bool,
    pub push: bool,
    pub urgent: Option<u8>,
    /// The peer does not send beyond the window that it was offered.
    pub obeys: bool,
    /// It waits at the link, to arrive in one burst with the next.
    pub waits: bool,
    pub blocks: Blocks,
    pub marking: Marking,
}

/// A call of the application.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    Send(u32),
    SendBuffer(u16),
    Receive(u16),
    PollReceive(u16),
    ReceiveBuffer,
    Shutdown,
    Close,
    Abort,
    NoDelay(bool),
    /// Idle time and interval in milliseconds, probes.
    KeepAlive(u32, u32, u8),
    UserTimeout(u32),
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Segment(Segment),
    /// A segment of the peer once more, so many before the last.
    Repeat(u8),
    /// A RST, so far from where it belongs.
    Reset(i16),
    /// A SYN in the middle of a connection.
    Syn(u16),
    /// The next segments of the stack are lost.
    Deaf(u8),
    Call(Call),
    /// Nanoseconds pass.
    Pass(u64),
    /// Another connection is opened, when there is none; from the same port or the next.
    Open(Opening, bool),
}

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    pub setup: Setup,
    pub steps: Vec<Step>,
}

impl Script {
    /// Copy of the script without segments that a stack takes or not by what it has sent so far: those that acknowledge more (RFC 9293,
    /// 3.10.7.4), or have an old timestamp (RFC 7323, 4.3).
    pub fn at_any_pace(&self) -> Self {
        let mut script = self.clone();
        for step in &mut script.steps {
            if let Step::Segment(segment) = step {
                if let Ack::Future(_) = segment.ack {
                    segment.ack = Ack::All;
                }
                if let Stamp::Old(_) = segment.stamp {
                    segment.stamp = Stamp::Now;
                }
            }
        }
        script
    }

    /// Tells whether it has no such segments.
    pub fn is_at_any_pace(&self) -> bool {
        self.steps.iter().all(|step| match step {
            Step::Segment(segment) => {
                !matches!(segment.ack, Ack::Future(_)) && !matches!(segment.stamp, Stamp::Old(_))
            }
            _ => true,
        })
    }

    /// Draws a script.
    pub fn draw(setting: &Setting, numbers: &mut Numbers<'_>) -> Self {
        let setup = setup(setting, numbers);
        let count = numbers.between(20, 300);
        let steps = (0..count).map(|_| step(setting, numbers)).collect();
        Self { setup, steps }
    }

    /// A script with as few steps as taking out leaves, of which `fails` still says yes.
    pub fn minimised(mut self, fails: impl Fn(&Self) -> bool) -> Self {
        let mut size = self.steps.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            let before = self.steps.len();
            while at < self.steps.len() {
                let mut less = self.clone();
                less.steps.drain(at..(at + size).min(self.steps.len()));
                if fails(&less) {
                    self = less;
                } else {
                    at += size;
                }
            }
            if size > 1 {
                size = size.div_ceil(2);
            } else if self.steps.len() == before {
                return self;
            }
        }
    }
}

fn setup(setting: &Setting, numbers: &mut Numbers<'_>) -> Setup {
    let on = |numbers: &mut Numbers<'_>| !numbers.one_in(5);
    Setup {
        opening: opening(setting, numbers),
        timestamps: (on(numbers), on(numbers)),
        scaling: (
            on(numbers),
            on(numbers)
                .then_some(0)
                .map(|_| numbers.between(0, 9) as u8),
        ),
        mss: numbers.weighted(&[(10, Some(1460)), (2, Some(536)), (1, Some(100)), (1, None)]),
        window: numbers.weighted(&[(8, 65_535), (2, 8_000), (1, 1_000), (1, 0)]),
        no_delay: numbers.one_in(2),
        receive_buffer: numbers.weighted(&[(6, 256 * 1024), (2, 16 * 1024), (1, 4096)]),
        isn: numbers.weighted(&[(3, 0xffff_fc00), (1, 0x7fff_fe00), (1, 7)]),
        seed: numbers.below(u64::MAX),
        answer_after: numbers.weighted(&[(8, 100_000), (2, 30_000_000), (1, 1_500_000_000)]),
        early: setting
            .early
            .then(|| (numbers.skewed(0, 3 * FULL) as u32, !numbers.one_in(3))),
        ipv6: setting.ipv6,
        sack: !setting.bare && !numbers.one_in(4),
        ecn: ecn(setting, numbers),
        mechanisms: mechanisms(setting, numbers),
    }
}

/// State of explicit congestion notification at the peer.
fn ecn(setting: &Setting, numbers: &mut Numbers<'_>) -> (Ecn, u8) {
    if setting.bare {
        return (Ecn::Off, marks::NOT_ECT);
    }
    let asks = numbers.pick(&[Ecn::Off, Ecn::Classic, Ecn::Accurate, Ecn::Accurate]);
    let arrived_as = numbers.weighted(&[
        (13, marks::NOT_ECT),
        (1, marks::ECT0),
        (1, marks::ECT1),
        (1, marks::CE),
    ]);
    (asks, arrived_as)
}

/// Mechanisms that decide what is sent, and when.
fn mechanisms(setting: &Setting, numbers: &mut Numbers<'_>) -> Mechanisms {
    const DRAWN: [&str; 9] = [
        "recovery",
        "tail-probe",
        "undo",
        "delayed-ack",
        "tuning",
        "congestion",
        "pacing",
        "fin",
        "mtu-probing",
    ];
    if setting.bare || numbers.one_in(3) {
        return Mechanisms::DEFAULT;
    }
    Mechanisms {
        ecn: numbers.pick(Ecn::ALL),
        ..numbers.mechanisms(Mechanisms::DEFAULT, |name| DRAWN.contains(&name))
    }
}

fn opening(setting: &Setting, numbers: &mut Numbers<'_>) -> Opening {
    let odd = u64::from(setting.rest);
    numbers.weighted(&[
        (10, Opening::Passive),
        (10, Opening::Active),
        (odd, Opening::Simultaneous),
    ])
}

fn step(setting: &Setting, numbers: &mut Numbers<'_>) -> Step {
    match numbers.below(100) {
        0..=49 => Step::Segment(segment(setting, numbers)),
        50..=51 => Step::Repeat(numbers.below(6) as u8),
        52 => Step::Deaf(numbers.between(1, 3) as u8),
        53..=77 => Step::Call(call(setting, numbers)),
        78..=94 => Step::Pass(time(setting, numbers)),
        98 if setting.rest => match numbers.below(8) {
            0 => Step::Reset(numbers.weighted(&[(2, 0), (1, 1), (1, -1), (1, 900)])),
            1 => Step::Syn(numbers.below(2000) as u16),
            _ => Step::Open(opening(setting, numbers), numbers.one_in(2)),
        },
        95..=97 | 99 if setting.fin => Step::Open(opening(setting, numbers), numbers.one_in(2)),
        _ => Step::Segment(segment(setting, numbers)),
    }
}

/// Mostly a few bytes, at times up to a full segment.
fn length(numbers: &mut Numbers<'_>) -> u16 {
    match numbers.below(8) {
        0..=1 => 0,
        2..=5 => numbers.between(1, 20) as u16,
        6 => numbers.skewed(1, FULL) as u16,
        _ => numbers.pick(&[100, 536, 1000, FULL as u16]),
    }
}

fn segment(setting: &Setting, numbers: &mut Numbers<'_>) -> Segment {
    let drawn = any_segment(setting, numbers);
    if drawn.fin && numbers.one_in(3) {
        // It overtakes what comes before it.
        return Segment {
            place: SequencePosition::Ahead(numbers.between(1, 300) as u16),
            len: 0,
            ..drawn
        };
    }
    drawn
}

fn any_segment(setting: &Setting, numbers: &mut Numbers<'_>) -> Segment {
    Segment {
        place: match numbers.below(20) {
            0..=14 => SequencePosition::Next,
            15 => SequencePosition::Ahead(numbers.between(1, 300) as u16),
            16 => SequencePosition::Back(numbers.skewed(1, 2000) as u16),
            _ => SequencePosition::Unacknowledged,
        },
        len: length(numbers),
        ack: match numbers.below(40) {
            0..=28 => Ack::All,
            29..=32 => Ack::Same,
            33..=37 => Ack::Part(numbers.below(256) as u8),
            38 => Ack::Old(numbers.skewed(1, 70_000).min(65_535) as u16),
            _ => Ack::Future(numbers.between(1, 3000) as u16),
        },
        window: window(setting, numbers),
        stamp: match numbers.below(40) {
            0..=31 => Stamp::Now,
            32..=37 => Stamp::Same,
            38 => Stamp::Old(numbers.between(1, 50) as u16),
            _ => Stamp::Missing,
        },
        fin: setting.fin && numbers.one_in(80),
        push: numbers.one_in(2),
        urgent: (setting.rest && numbers.one_in(150)).then(|| numbers.below(200) as u8),
        obeys: !numbers.one_in(10),
        waits: numbers.one_in(8),
        blocks: blocks(setting, numbers),
        marking: marking(setting, numbers),
    }
}

fn blocks(setting: &Setting, numbers: &mut Numbers<'_>) -> Blocks {
    if setting.bare || !numbers.one_in(6) {
        return Blocks::Held;
    }
    let from = numbers.below(256) as u8;
    let len = numbers.skewed(1, 3 * FULL) as u16;
    match numbers.below(10) {
        0 => Blocks::Missing,
        1..=3 => Blocks::Claimed(from, len),
        4 => Blocks::Overlapping(from, len),
        5 => Blocks::Reversed(from, len),
        6 => Blocks::Empty(from),
        7 => Blocks::Unsent(len),
        _ => Blocks::Old(numbers.skewed(1, 1 << 31) as u32, len),
    }
}

fn marking(setting: &Setting, numbers: &mut Numbers<'_>) -> Marking {
    if setting.bare || !numbers.one_in(4) {
        return Marking::NONE;
    }
    Marking {
        codepoint: numbers
            .one_in(2)
            .then(|| numbers.weighted(&[(4, marks::CE), (1, marks::ECT1), (1, marks::NOT_ECT)])),
        lie: match numbers.below(8) {
            0 => numbers.below(8) as u8,
            _ => 0,
        },
        marks: numbers.below(4) as u8,
    }
}

fn window(setting: &Setting, numbers: &mut Numbers<'_>) -> Window {
    let usual = if setting.windows { 65 } else { 100 };
    if numbers.percent(usual) {
        return Window::Usual;
    }
    match numbers.below(12) {
        0..=3 => Window::Same,
        4 => Window::Zero,
        5 => Window::Flight(0),
        6..=7 => Window::Flight(numbers.skewed(1, 4000) as u16),
        8 => Window::Bytes(numbers.between(1, 2000) as u32),
        9 => Window::Bytes(1 << 20),
        _ => Window::Bytes(numbers.between(2000, 65_535) as u32),
    }
}

fn call(setting: &Setting, numbers: &mut Numbers<'_>) -> Call {
    match numbers.below(100) {
        0..=39 => Call::Send(match numbers.below(8) {
            0..=4 => numbers.between(1, 200) as u32,
            5..=6 => numbers.skewed(1, 4 * FULL) as u32,
            _ if setting.congestion => numbers.between(4 * FULL, 60_000) as u32,
            _ => numbers.between(FULL, 4 * FULL) as u32,
        }),
        40..=47 => Call::SendBuffer(numbers.between(0, FULL + 20) as u16),
        48..=62 => Call::Receive(numbers.skewed(1, 4096) as u16),
        63..=77 => Call::PollReceive(numbers.skewed(1, 4096) as u16),
        78..=85 => Call::ReceiveBuffer,
        86..=89 => Call::NoDelay(numbers.one_in(2)),
        90..=91 if setting.fin => Call::Shutdown,
        92 if setting.fin => Call::Close,
        95 if setting.rest && numbers.one_in(3) => Call::Abort,
        96..=97 if setting.keepalive => Call::KeepAlive(
            numbers.between(200, 20_000) as u32,
            numbers.between(200, 20_000) as u32,
            numbers.between(1, 4) as u8,
        ),
        98 if setting.rest => Call::UserTimeout(numbers.between(1_000, 200_000) as u32),
        _ => Call::Receive(4096),
    }
}

/// From microseconds over delayed acknowledgments and retransmission timeouts to minutes.
fn time(setting: &Setting, numbers: &mut Numbers<'_>) -> u64 {
    const MS: u64 = 1_000_000;
    match numbers.below(20) {
        0..=9 => numbers.between(1_000, MS),
        10..=13 => numbers.between(MS, 39 * MS),
        14..=16 => numbers.between(40 * MS, 300 * MS),
        17 => numbers.between(300 * MS, 2_000 * MS),
        18 => numbers.between(2_000 * MS, 20_000 * MS),
        _ if setting.rest => numbers.between(20_000 * MS, 200_000 * MS),
        _ => numbers.between(MS, 300 * MS),
    }
}

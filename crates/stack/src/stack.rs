//! The stack: its state, and one turn of its crank.
//!
//! A [`Stack`] owns connections, tables and timers, but no buffers, no clock and no link: [`Stack::at`] joins it with
//! the pool and the time for as long as a call lasts, and [`Active::poll`] with a link. Nothing happens in between, so a
//! whole network of stacks runs in one thread, in virtual time.

use crate::addresses::Routes;
use crate::buffer::{CACHE_LINE, Frame, FrameId, Pool, RxChecksum};
use crate::compiled::{ALL, BY_CONNECTION, Compiled, NONE, TRAIN, Verify};
use crate::config::{Config, Demux, InvalidConfig};
use crate::conflict::Claims;
use crate::counters::{Counters, Drop, Miss};
use crate::demux::Table;
use crate::destinations::Destinations;
use crate::icmp::{ERROR_PERIOD, ERRORS_PER_PERIOD, Echoes};
use crate::ipv6::Interface;
use crate::lan;
use crate::limit::RateLimit;
use crate::link::{BURST, Link, MAX_MTU, MIN_MTU};
use crate::neighbour;
use crate::next_hops::NextHops;
use crate::ready::Entry;
use crate::reassembly::{Limits, Reassembler};
use crate::socket::Posted;
use crate::tcp::cc::Controllers;
use crate::tcp::isn::Secrets;
use crate::tcp::recovery::Recovery;
use crate::tcp::recovery::rto::Floor;
use crate::tcp::slow::answers::answer_limit;
use crate::tcp::slow::chains::Chains;
use crate::tcp::slow::cookie::CookieJar;
use crate::tcp::slow::extension::Extension;
use crate::tcp::slow::fast_open_cache;
use crate::tcp::slow::fin_ack::FinAck;
use crate::tcp::slow::listener::Listener;
use crate::tcp::slow::syn::{FirstMtu, Sizes};
use crate::tcp::slow::time_wait::TimeWaitTable;
use crate::tcp::slow::timers::Periods;
use crate::tcp::tcb::{Tcb, rare};
use crate::tcp::tcb_template::TcbTemplate;
use crate::tcp::template::Common;
use crate::time::{Instant, Tick, ticks};
use crate::timer::Wheel;
use crate::udp;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::hint::cold_path;
use core::mem;
use core::net::{Ipv4Addr, Ipv6Addr};
use tollgate_gate::{Gate, Off, PacketId, Recorder};
use tollgate_wire::ipv6;
use tollgate_wire::source_route::SourceRoute;

/// The MTUs that a stack takes, for the error that says so.
const MTU_RANGE: &str = "68 to 65,344 bytes";
const _: () = assert!(MIN_MTU == 68 && MAX_MTU == 65_344, "the text is another");

/// A TCP/IP stack for one interface and one core.
#[derive(Debug)]
pub struct Stack {
    // What the predicted path reads comes first.
    pub(crate) cached: usize,
    pub(crate) tcbs: Vec<Tcb>,
    pub(crate) mac_word: u64,
    /// Tells whether a frame is first taken for one of TCP over IPv4: [`Compiled::common_and_summed`] holds, and what was predicted
    /// last was neither of IPv6 nor of UDP.
    pub(crate) ipv4_first: bool,
    /// Tells whether one that is not is first taken for one of TCP over IPv6, for which the same holds, but that nothing of UDP was
    /// predicted last.
    ipv6_else: bool,
    pub(crate) compiled: Compiled,
    pub(crate) delayed_ack: u32,
    pub(crate) floor: Floor,
    /// Header fields that the templates of all connections share.
    pub(crate) template: Common,
    pub(crate) device: Vec<Frame>,
    pub(crate) incoming: Vec<Frame>,
    /// Frames of the burst behind the one that is being taken in and was not predicted.
    pub(crate) behind: usize,
    /// When timers were last looked at, in ticks since the epoch, so that months without a poll are not a clock that was set
    /// back; a tick earlier while somebody is awaited.
    pub(crate) last_ticks: u64,
    pub(crate) fin_ack: FinAck,
    pub(crate) counters: Counters,
    pub(crate) config: Config,
    pub(crate) table: Table,
    pub(crate) wheel: Wheel,
    /// Connections, listeners and UDP sockets with events, each at most once.
    pub(crate) ready: VecDeque<Entry>,
    pub(crate) output_waiting: VecDeque<u32>,
    /// Not zero when the link had no room for frames when it was asked last, or `output_waiting` is not empty.
    pub(crate) link_waits: usize,
    /// When the link is asked again that had no room when it was asked last.
    ask_again: Option<Instant>,
    /// Places of connections that are free, the last one taken first.
    pub(crate) free: Vec<u32>,
    pub(crate) open_connections: usize,
    pub(crate) tcb_template: TcbTemplate,
    pub(crate) sizes: Sizes,
    pub(crate) periods: Periods,
    pub(crate) listeners: Vec<Option<Listener>>,
    /// By index, whether [`Stack::ready`] has an entry for the listener there. The entry outlives a listener that is closed.
    pub(crate) announced: Vec<bool>,
    pub(crate) listener_generation: u32,
    pub(crate) time_wait: TimeWaitTable,
    /// The way back of the packet that is being taken in.
    pub(crate) return_route: Option<SourceRoute>,
    /// Ours, beside the first, and the bits of their prefixes.
    pub(crate) addresses: Vec<(Ipv4Addr, u8)>,
    /// Addresses that are probed, announced or defended.
    pub(crate) claims: Claims,
    pub(crate) routes: Routes,
    /// Addresses or routes have changed since connections were last looked at.
    pub(crate) ways_changed: bool,
    /// Connections whose application was refused for want of frames.
    pub(crate) want_frames: BTreeSet<u32>,
    /// When it is looked for frames for them at the latest, and how many ticks after the look before.
    pub(crate) frames_check: (Tick, u32),
    /// By index of the connection, of those that have it.
    pub(crate) extension: BTreeMap<u32, Extension>,
    /// By index of the connection, of those that have seen a hole, a loss or a duplicate.
    pub(crate) recoveries: BTreeMap<u32, Box<Recovery>>,
    /// Bytes by which buffers have grown ([`crate::tcp::slow::tuning`]).
    pub(crate) grown: u64,
    pub(crate) controllers: Controllers,
    pub(crate) neighbours: neighbour::Cache<Ipv4Addr>,
    /// IPv6 of this host; its neighbours, and the destinations that the keys of connections name.
    pub(crate) ipv6: Interface,
    pub(crate) neighbours6: neighbour::Cache<Ipv6Addr>,
    pub(crate) destinations: Destinations,
    /// Hosts that have proven to be on the same LAN.
    pub(crate) announced_hosts: lan::Announced,
    /// Connections by next hop.
    pub(crate) next_hops: NextHops,
    pub(crate) reassembler: Reassembler,
    pub(crate) udp: udp::Sockets,
    pub(crate) echoes: Echoes,
    pub(crate) secrets: Secrets,
    pub(crate) cookies: CookieJar,
    /// Servers and their cookies (RFC 7413).
    pub(crate) fast_open_cache: fast_open_cache::Cache,
    /// RSTs in answer to segments that no connection takes.
    pub(crate) refusals: RateLimit,
    /// Answers by connections in TIME-WAIT.
    pub(crate) time_wait_answers: RateLimit,
    /// ICMP errors that we send.
    pub(crate) icmp_errors: RateLimit,
    pub(crate) mtu: u16,
    pub(crate) first_mtu: FirstMtu,
    /// The MTU that the stack was made with.
    pub(crate) link_mtu: u16,
    pub(crate) max_rto: u32,
    pub(crate) scratch: Vec<u8>,
    /// Payload to be sent, where it does not lie in frames.
    pub(crate) chains: Option<Box<Chains>>,
}

/// A stack together with what a call needs: the pool, the time, and the recorder of its gates.
#[derive(Debug)]
pub struct Active<'a, R = Off> {
    pub(crate) stack: &'a mut Stack,
    pub(crate) pool: &'a mut Pool,
    pub(crate) now: Instant,
    pub(crate) rec: R,
}

impl Stack {
    /// Makes a stack for links of at most `mtu` bytes per IP packet, 68 (RFC 791; with IPv6 1,280, RFC 8200, 5) to [`MAX_MTU`], at time
    /// `now`.
    ///
    /// # Errors
    /// A field of `config` that is out of its range.
    pub fn new(config: Config, mtu: usize, now: Instant) -> Result<Self, InvalidConfig> {
        config.validate()?;
        if !(MIN_MTU..=MAX_MTU).contains(&mtu) {
            return Err(InvalidConfig {
                field: "mtu",
                range: MTU_RANGE,
            });
        }
        if config.ipv6.is_some() && mtu < usize::from(ipv6::MIN_MTU) {
            return Err(InvalidConfig {
                field: "mtu",
                range: "at least 1280 with IPv6 (RFC 8200, 5)",
            });
        }
        let mac = config.mac.0;
        let secrets = Secrets::new(config.seed);
        let connections = match config.ipv6 {
            Some(_) => config.max_connections + config.max_time_wait,
            None => 0,
        };
        let compiled = Compiled::new(&config);
        let mut stack = Self {
            cached: usize::MAX,
            tcbs: Vec::with_capacity(config.max_connections),
            mac_word: u64::from_le_bytes([0, 0, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]]),
            ipv4_first: compiled.common_and_summed,
            ipv6_else: compiled.common_and_summed,
            compiled,
            delayed_ack: ticks(config.delayed_ack),
            floor: Floor::new(config.min_rto),
            template: Common::new(&config),
            device: Vec::with_capacity(config.device_queue),
            incoming: Vec::with_capacity(BURST),
            behind: 0,
            last_ticks: now.ticks(),
            fin_ack: FinAck::new(config.mechanisms.fin),
            counters: Counters::default(),
            table: Table::new(
                config.max_connections + config.max_time_wait,
                secrets.table_key(),
            ),
            wheel: Wheel::new(config.max_connections, now.tick()),
            ready: VecDeque::new(),
            output_waiting: VecDeque::new(),
            link_waits: 0,
            ask_again: None,
            free: Vec::with_capacity(config.max_connections),
            open_connections: 0,
            tcb_template: TcbTemplate::new(&config),
            sizes: Sizes::default(),
            periods: Periods::new(&config),
            listeners: Vec::new(),
            announced: Vec::new(),
            listener_generation: 0,
            time_wait: TimeWaitTable::new(config.max_time_wait),
            return_route: None,
            addresses: Vec::new(),
            claims: Claims::default(),
            routes: Routes::new(&config),
            ways_changed: false,
            want_frames: BTreeSet::new(),
            frames_check: (now.tick(), 1),
            extension: BTreeMap::new(),
            recoveries: BTreeMap::new(),
            grown: 0,
            controllers: Controllers::new(&config.mechanisms),
            neighbours: neighbour::Cache::new(config.max_neighbours),
            ipv6: Interface::new(config.ipv6, config.ttl, mtu as u16),
            neighbours6: neighbour::Cache::new(config.max_neighbours),
            destinations: Destinations::new(connections, secrets.destinations_key()),
            announced_hosts: lan::Announced::new(config.max_neighbours),
            next_hops: NextHops::new(config.max_connections),
            reassembler: Reassembler::new(Limits {
                datagrams: config.reassembly_frames,
                frames: config.reassembly_frames,
            }),
            udp: udp::Sockets::default(),
            echoes: Echoes::default(),
            cookies: CookieJar::new(),
            fast_open_cache: fast_open_cache::Cache::default(),
            refusals: answer_limit(),
            time_wait_answers: answer_limit(),
            icmp_errors: RateLimit::new(ERRORS_PER_PERIOD, ERROR_PERIOD),
            secrets,
            mtu: mtu as u16,
            first_mtu: FirstMtu::new(&config, mtu as u16),
            link_mtu: mtu as u16,
            max_rto: ticks(config.max_rto),
            scratch: Vec::new(),
            chains: Chains::new(&config),
            config,
        };
        stack.start_ipv6(now);
        Ok(stack)
    }

    /// Joins the stack with the pool that its frames live in and with the time, which must not go backwards: no timer fires
    /// while it does, and a round trip that spans the step is measured as a very long one.
    #[inline(always)]
    pub fn at<'a>(&'a mut self, now: Instant, pool: &'a mut Pool) -> Active<'a, Off> {
        Active {
            stack: self,
            pool,
            now,
            rec: Off,
        }
    }

    /// Like [`Stack::at`], recording the gates that packets pass.
    #[inline(always)]
    pub fn recorded<'a, R: Recorder>(
        &'a mut self,
        now: Instant,
        pool: &'a mut Pool,
        recorder: R,
    ) -> Active<'a, R> {
        Active {
            stack: self,
            pool,
            now,
            rec: recorder,
        }
    }

    /// Counters since the stack was made.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes of payload that were summed on their way out for the first time: each that an application has given to a connection,
    /// once. [`Counters::summed_again`] has those that were summed more often. It is worked out here, connection by connection.
    /// With redundancy avoidance a segment is summed when it leaves, if at all, and counts in neither.
    pub fn summed(&self) -> u64 {
        if self.compiled.verify != Verify::All {
            return 0;
        }
        let open: u64 = self.tcbs.iter().map(Tcb::queued).sum();
        self.counters.queued_before + open
    }

    /// Finds connections in another way from the next segment on. The hash table is kept whatever the way.
    pub fn set_demux(&mut self, demux: Demux) {
        self.config.mechanisms.demux = demux;
        self.cached = usize::MAX;
    }

    /// Configuration that the stack was made with, with the first address as it stands: 0.0.0.0 where the host has none.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Connections that are open, TIME-WAIT apart.
    pub fn connections(&self) -> usize {
        self.open_connections
    }

    /// Connections in TIME-WAIT.
    pub fn time_waits(&self) -> usize {
        self.time_wait.len()
    }

    /// Bytes that one idle established connection takes, buffers aside: its TCB, its entries in the wheel, in the list of
    /// its next hop and in a table of connections that is half full.
    pub const fn bytes_per_connection() -> usize {
        size_of::<Tcb>()
            + crate::timer::BYTES_PER_TIMER
            + crate::next_hops::BYTES_PER_CONNECTION
            + 2 * crate::demux::BYTES_PER_ENTRY
    }

    /// Bytes that a connection in TIME-WAIT takes.
    pub const fn bytes_per_time_wait() -> usize {
        size_of::<crate::tcp::slow::time_wait::TimeWait>()
    }

    /// Frames that wait for the link.
    pub fn device_queue_len(&self) -> usize {
        self.device.len()
    }

    /// Tells whether TCP's checksums are left to the link ([`Config::completes_checksums`](crate::Config::completes_checksums)).
    pub const fn completes_checksums(&self) -> bool {
        self.config.completes_checksums
    }

    /// Tells whether frames are left that the link had no room for when it was asked last. A loop that can wait for room in the
    /// link does so then, and polls when there is some.
    pub const fn wants_link(&self) -> bool {
        self.ask_again.is_some()
    }

    /// When the stack wants to be polled again at the latest, should nothing arrive before. Frames that wait are due now,
    /// unless the link had no room for them ([`Stack::wants_link`]): it is asked again in the next tick of about a
    /// millisecond, for loops that cannot wait for it.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let queued = !self.device.is_empty() || !self.output_waiting.is_empty();
        if queued && self.ask_again.is_none() || self.fin_ack.is_anybody() {
            return Some(now);
        }
        let ticks = [
            self.wheel.next(),
            self.time_wait.next(),
            self.next_walk(now),
        ];
        // Frames come free without a sign.
        let frames = (!self.want_frames.is_empty()).then(|| self.frames_check.0.to_instant(now));
        let of_ticks = ticks.into_iter().flatten().map(|tick| tick.to_instant(now));
        let others = [
            self.neighbours.next(),
            self.reassembler.next(),
            self.neighbours6.next(),
            self.ipv6.next(),
            self.destinations.next(),
            self.claims.next().map(|due| due.max(now)),
            self.ways_changed.then_some(now),
        ]
        .into_iter()
        .flatten();
        // They are looked at once in each tick: what is due in one that was polled already waits for the next.
        let polled = now.ticks() == self.last_ticks;
        let next_look = polled.then(|| now.tick().after(1).to_instant(now));
        let others = others.map(|due| next_look.map_or(due, |next| due.max(next)));
        let link = self.ask_again.map(|at| at.max(now));
        of_ticks.chain(others).chain(frames).chain(link).min()
    }
}

/// Tells whether the next frame of the burst is of the same train.
#[inline(always)]
fn is_followed(frame: &Frame) -> bool {
    frame.checksum == RxChecksum::VerifiedInTrain
}

const _: () = assert!(
    Stack::bytes_per_connection() <= 384,
    "an idle connection has outgrown its budget"
);
const _: () = assert!(
    Stack::bytes_per_time_wait() <= CACHE_LINE,
    "TIME-WAIT has outgrown its budget"
);

impl<R: Recorder> Active<'_, R> {
    /// Sends what waits, takes in what has arrived, and does what is due.
    #[inline(always)]
    pub fn poll<L: Link>(&mut self, link: &mut L) {
        self.poll_once(link, &mut Posted::none());
    }

    /// One turn of the crank, with a reader's buffer posted or none.
    #[inline(always)]
    pub(crate) fn poll_once<L: Link>(&mut self, link: &mut L, posted: &mut Posted<'_>) {
        if !self.stack.device.is_empty() {
            self.give(link);
            if self.stack.link_waits != 0 {
                cold_path();
                self.check_link();
            }
        }
        self.rec.pass(Gate::DriverInBegin, PacketId(0));
        match link.arrived() {
            Some(frames) => {
                self.receive_burst(frames, posted);
                frames.clear();
            }
            None => {
                let mut frames = mem::take(&mut self.stack.incoming);
                link.receive(self.pool, &mut frames);
                self.receive_burst(&frames, posted);
                frames.clear();
                self.stack.incoming = frames;
            }
        }
        let ticks = self.now.ticks();
        if ticks != self.stack.last_ticks {
            cold_path();
            self.on_tick(ticks);
        }
        if !self.stack.device.is_empty() {
            cold_path();
            self.flush(link);
        }
    }

    /// Takes what has arrived in, of which husks are left.
    #[inline(always)]
    fn receive_burst(&mut self, frames: &[Frame], posted: &mut Posted<'_>) {
        if frames.is_empty() {
            return;
        }
        if self.stack.ipv4_first {
            self.receive_frames::<ALL, true>(frames, posted);
        } else if self.stack.ipv6_else {
            cold_path();
            self.receive_after_v6(frames, posted);
        } else {
            cold_path();
            self.receive_uncommon(frames, posted);
        }
    }

    /// [`Active::receive_frames`] where IPv6 came last.
    #[inline(never)]
    fn receive_after_v6(&mut self, frames: &[Frame], posted: &mut Posted<'_>) {
        match frames {
            [frame] => self.receive_one_v6(frame, posted),
            _ => self.receive_frames::<ALL, true>(frames, posted),
        }
    }

    /// [`Active::receive_burst`] where a datagram of UDP came last.
    #[inline(never)]
    fn receive_after_datagram(&mut self, frames: &[Frame], posted: &mut Posted<'_>) {
        match frames {
            [frame] if self.datagram_predicted(frame, posted) => self.stack.counters.frames_in += 1,
            [_] => self.receive_segments_after_all(frames, posted),
            _ => self.receive_datagrams(frames, posted),
        }
    }

    #[inline(never)]
    fn receive_datagrams(&mut self, frames: &[Frame], posted: &mut Posted<'_>) {
        for (at, frame) in frames.iter().enumerate() {
            if !self.datagram_predicted(frame, posted) {
                return self.receive_segments_after_all(&frames[at..], posted);
            }
            self.stack.counters.frames_in += 1;
        }
    }

    /// Receives frames of which the first is no predicted datagram, though one came last.
    #[cold]
    #[inline(never)]
    fn receive_segments_after_all(&mut self, frames: &[Frame], posted: &mut Posted<'_>) {
        self.stack.ipv4_first = self.stack.compiled.common_and_summed;
        self.stack.ipv6_else = self.stack.compiled.common_and_summed;
        self.stack.udp.first = false;
        self.receive_burst(frames, posted);
    }

    /// [`Active::receive_frames`] where a datagram came last, or for the mechanisms that the first version is not compiled for.
    #[inline(never)]
    fn receive_uncommon(&mut self, frames: &[Frame], posted: &mut Posted<'_>) {
        if self.stack.udp.first {
            return self.receive_after_datagram(frames, posted);
        }
        let Compiled { verify, common, .. } = self.stack.compiled;
        match (verify, common) {
            (Verify::All, true) => self.receive_frames::<ALL, true>(frames, posted),
            (Verify::All, false) => self.receive_frames::<ALL, false>(frames, posted),
            (Verify::ByConnection, true) => {
                self.receive_frames::<BY_CONNECTION, true>(frames, posted);
            }
            (Verify::ByConnection, false) => {
                self.receive_frames::<BY_CONNECTION, false>(frames, posted);
            }
            (Verify::None, true) => self.receive_frames::<NONE, true>(frames, posted),
            (Verify::None, false) => self.receive_frames::<NONE, false>(frames, posted),
        }
    }

    /// Takes every frame in that has arrived. It is compiled apart for each [`Verify`], and for the other mechanisms
    /// of input at their defaults, which is `COMMON`.
    #[inline(always)]
    fn receive_frames<const VERIFY: u8, const COMMON: bool>(
        &mut self,
        frames: &[Frame],
        posted: &mut Posted<'_>,
    ) {
        match frames {
            [frame] => self.receive_one::<VERIFY, COMMON>(frame, posted),
            [first, .., before_last, _]
                if VERIFY == ALL && COMMON && (is_followed(first) || is_followed(before_last)) =>
            {
                cold_path();
                self.receive_trains(frames, posted);
            }
            _ => self.receive_many::<VERIFY, COMMON>(frames, posted),
        }
    }

    #[inline(never)]
    fn receive_many<const VERIFY: u8, const COMMON: bool>(
        &mut self,
        frames: &[Frame],
        posted: &mut Posted<'_>,
    ) {
        let mut rest = frames.iter();
        while let Some(frame) = rest.next() {
            self.receive_frame::<VERIFY, COMMON>(frame, rest.as_slice(), posted);
        }
    }

    /// Receives a burst with trains in it, of which the link has verified all checksums.
    #[inline(never)]
    fn receive_trains(&mut self, frames: &[Frame], posted: &mut Posted<'_>) {
        let mut rest = frames.iter();
        // Tells whether the frame before was predicted, and this one is of the same train.
        let mut follows = false;
        while let Some(frame) = rest.next() {
            if !is_followed(frame) {
                self.receive_frame::<ALL, true>(frame, rest.as_slice(), posted);
                follows = false;
                continue;
            }
            // Gates are passed by every segment.
            if follows && !R::ON && self.stack.follows_in_train(self.pool, frame, posted) {
                self.stack.counters.frames_in += 1;
                continue;
            }
            let before = self.stack.counters.predicted;
            self.receive_frame::<TRAIN, true>(frame, rest.as_slice(), posted);
            follows = self.stack.counters.predicted != before;
        }
    }

    /// Receives one frame, which is the usual size of a request or a response. Without a loop around it the compiler
    /// has more registers for the frame's fields.
    #[inline(never)]
    fn receive_one<const VERIFY: u8, const COMMON: bool>(
        &mut self,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) {
        self.receive_frame::<VERIFY, COMMON>(frame, &[], posted);
    }

    /// Receives one frame where IPv6 came last, and probably comes again.
    #[inline(always)]
    fn receive_one_v6(&mut self, frame: &Frame, posted: &mut Posted<'_>) {
        let predicted = self.stack.predicted_v6::<ALL, true, _>(
            self.pool,
            self.now,
            self.rec.lend(),
            frame,
            posted,
        );
        if predicted.is_err_and(|miss| matches!(miss, Miss::NotTcp | Miss::Short)) {
            cold_path();
            self.stack.ipv4_first = true;
            return self.receive_one::<ALL, true>(frame, posted);
        }
        self.stack.counters.frames_in += 1;
        if let Err(miss) = predicted {
            cold_path();
            self.stack.behind = 0;
            self.not_predicted(frame.hand_over(), miss);
        }
    }

    #[inline(always)]
    fn receive_frame<const VERIFY: u8, const COMMON: bool>(
        &mut self,
        frame: &Frame,
        behind: &[Frame],
        posted: &mut Posted<'_>,
    ) {
        self.stack.counters.frames_in += 1;
        if let Err(miss) = self.stack.predicted::<VERIFY, COMMON, _>(
            self.pool,
            self.now,
            self.rec.lend(),
            frame,
            posted,
        ) {
            cold_path();
            self.stack.behind = behind.len();
            self.not_predicted(frame.hand_over(), miss);
        }
    }

    #[cold]
    fn not_predicted(&mut self, frame: Frame, miss: Miss) {
        if matches!(miss, Miss::NotTcp | Miss::Short)
            && self.stack.compiled.predicts_datagrams
            && self.datagram_predicted(&frame, &mut Posted::none())
        {
            self.stack.ipv4_first = false;
            self.stack.ipv6_else = false;
            self.stack.udp.first = true;
            return;
        }
        self.stack.counters.miss(miss);
        match miss {
            Miss::Short | Miss::NotTcp | Miss::NoConnection => self.ethernet_input(frame),
            // Other reasons were found behind the gates of the checksum.
            Miss::Flags => self.tcp_input_found(frame, true),
            Miss::Sequence
            | Miss::Acknowledgment
            | Miss::OptionLayout
            | Miss::Timestamp
            | Miss::ZeroWindow
            | Miss::BeyondWindow
            | Miss::Duplicate
            | Miss::Bidirectional
            | Miss::Checksum
            | Miss::Crowded => self.tcp_input_found(frame, false),
        }
    }

    /// Gives waiting frames to the link, and lets connections go on that waited for room. [`Active::poll`] begins with
    /// this; on its own it sends a message that was just queued without asking the link for others.
    #[inline(always)]
    pub fn flush<L: Link>(&mut self, link: &mut L) {
        if self.stack.device.is_empty() {
            return;
        }
        self.give(link);
        // One test for both.
        if self.stack.link_waits | self.stack.device.len() != 0 {
            cold_path();
            self.check_link();
        }
    }

    /// Gives waiting frames to the link.
    #[inline(always)]
    fn give<L: Link>(&mut self, link: &mut L) {
        self.rec.pass(Gate::DriverOutBegin, PacketId(0));
        link.transmit(self.pool, &mut self.stack.device);
        self.rec.pass(Gate::DriverOutEnd, PacketId(0));
    }

    /// Notes whether the link has left frames behind, and lets connections go on that waited for room.
    #[inline(never)]
    fn check_link(&mut self) {
        let next_tick = self.now.tick().after(1).to_instant(self.now);
        self.stack.ask_again = (!self.stack.device.is_empty()).then_some(next_tick);
        self.resume_output();
        let waits = self.stack.wants_link() || !self.stack.output_waiting.is_empty();
        self.stack.link_waits = usize::from(waits);
    }

    fn resume_output(&mut self) {
        for _ in 0..self.stack.output_waiting.len() {
            if !self.device_has_room() {
                return;
            }
            let Some(index) = self.stack.output_waiting.pop_front() else {
                return;
            };
            let index = index as usize;
            if let Some(tcb) = self.stack.tcbs.get_mut(index) {
                tcb.rare &= !rare::OUTPUT_LISTED;
                self.output(index);
            }
        }
    }

    /// Time has moved on, or looks as if it had ([`Stack::await_close`]).
    #[inline(never)]
    fn on_tick(&mut self, ticks: u64) {
        if ticks < self.stack.last_ticks || self.look_for_fin_ack(ticks) {
            return;
        }
        self.do_what_is_due(ticks);
    }

    #[inline(never)]
    fn do_what_is_due(&mut self, ticks: u64) {
        let before = self.stack.last_ticks;
        self.stack.last_ticks = match self.stack.fin_ack {
            FinAck::Never | FinAck::Nobody => ticks,
            FinAck::Through(_) | FinAck::Until(_) => ticks.saturating_sub(1),
        };
        self.tcp_timers(before, ticks);
        self.neighbour_timers();
        self.reassembly_timers();
        if self.stack.ways_changed || !self.stack.claims.is_empty() {
            self.address_timers();
        }
        if self.stack.ipv6.is_on() {
            self.ipv6_timers();
        }
        if !self.stack.want_frames.is_empty() {
            self.look_for_frames();
        }
    }

    /// Tells whether another frame may join the device queue.
    #[inline(always)]
    pub(crate) fn device_has_room(&self) -> bool {
        self.stack.device.len() < self.stack.config.device_queue
    }

    /// Drops a frame, counted.
    pub(crate) fn drop_frame(&mut self, id: FrameId, reason: Drop) {
        self.stack.counters.dropped(reason);
        self.pool.release(id);
    }
}

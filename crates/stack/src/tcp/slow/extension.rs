//! TCB extensions: urgent data on its way, a Diffserv field (RFC 9293, 3.9.1.9), a source route (3.9.2.1), a path
//! that has to fragment (RFC 1191), a soft error to be reported.
//!
//! Extensions lie beside the TCBs, since few connections have one. Their header fields are written after the
//! template, in frames that leave by [`Active::transmit_slow`]. The predicted paths look at nothing of them.

use crate::buffer::Frame;
use crate::demux::FlowKey;
use crate::options::Open;
use crate::stack::{Active, Stack};
use crate::tcp::deadline;
use crate::tcp::ecn::Ecn;
use crate::tcp::report::SoftError;
use crate::tcp::slow::fast_open_client::Attempt;
use crate::tcp::slow::mtu_search::Search;
use crate::tcp::slow::redundancy::Agreement;
use crate::tcp::slow::syn::Syn;
use crate::tcp::slow::tuning::Taken;
use crate::tcp::tcb::rare;
use crate::time::{Tick, ticks};
use core::hint::cold_path;
use core::net::Ipv4Addr;
use core::num::NonZeroU8;
use core::time::Duration;
use tollgate_checksum::{Checksum, sum_header};
use tollgate_gate::Recorder;
use tollgate_wire::source_route::{self, SourceRoute};
use tollgate_wire::tcp::{FastOpenCookie, Flags};
use tollgate_wire::{SeqNumber, ipv4};

/// The place where the IP header lies in a frame.
const ETHERNET: usize = 14;
/// The place where the TCP header lies in a frame whose IP header has no options.
const TCP: usize = 34;

/// Time after which a path is taken to be as wide as the link again (RFC 1191, 3: twice the least, which is 5 minutes).
const WIDEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// State that few connections have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extension {
    /// SND.UP: the byte behind the urgent data that was sent (RFC 9293, 3.3.1), until that is acknowledged.
    pub(crate) snd_up: Option<SeqNumber>,
    /// RCV.UP: the byte behind the urgent data that the peer sent, until that is read.
    pub(crate) rcv_up: Option<SeqNumber>,
    /// The Diffserv field of every segment, as it lies in the IP header.
    pub(crate) diffserv: u8,
    /// Hops that every segment may take, where it is not the stack's own number.
    pub(crate) ttl: Option<NonZeroU8>,
    /// The largest MSS, both ways.
    pub(crate) max_segment: Option<u16>,
    /// Ticks without progress after which the connection is given up, where it is not the stack's own time.
    pub(crate) user_timeout: Option<u32>,
    /// Routers may fragment segments: the path carries less than the least that we send (RFC 1191, 3).
    pub(crate) fragmentable: bool,
    /// When the path, which a router has said to be narrow, is taken to be as wide as the link again.
    widen_at: Option<Tick>,
    /// The way of every segment (RFC 9293, 3.9.2.1).
    pub(crate) route: Option<SourceRoute>,
    /// The last soft error, until the application takes it.
    pub(crate) soft_error: Option<SoftError>,
    /// The application does not want to be told of soft errors.
    pub(crate) no_reports: bool,
    /// The Fast Open option of its SYN.
    pub(crate) fast_open: Option<FastOpenCookie>,
    /// Attempt to send data in its SYN.
    pub(crate) attempt: Attempt,
    /// Bytes that the application had taken when the receive buffer was looked at last.
    pub(in crate::tcp) taken: Option<Taken>,
    /// Bytes by which the buffers have grown.
    pub(crate) grown: u32,
    /// The application has chosen the size of the send buffer.
    pub(crate) send_buffer_chosen: bool,
    /// The application wants checksums left out where they are not redundant.
    pub(crate) asks_unsummed: bool,
    /// Search for the size that the path takes.
    pub(crate) mtu_search: Option<Search>,
    /// Explicit congestion notification is asked for, or agreed on (RFC 3168).
    pub(crate) ecn: Option<Ecn>,
}

/// Options of an open call that few connections have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Particular {
    /// The Diffserv field, as it lies in the IP header.
    diffserv: u8,
    ttl: Option<NonZeroU8>,
    max_segment: Option<u16>,
}

impl Particular {
    /// Those of an open call, if it has any.
    #[inline(always)]
    pub(crate) fn of(open: &Open<'_>) -> Option<Self> {
        let some = open.diffserv != 0 || open.ttl.is_some() || open.max_segment.is_some();
        some.then_some(Self {
            diffserv: open.diffserv << 2,
            ttl: open.ttl,
            max_segment: open.max_segment,
        })
    }

    pub(in crate::tcp) const fn max_segment(&self) -> Option<u16> {
        self.max_segment
    }

    /// A peer's SYN of this key, with an MSS that is no larger than ours.
    pub(in crate::tcp) fn limit(&self, syn: &Syn, key: FlowKey) -> Syn {
        let mut syn = *syn;
        if let Some(most) = self.max_segment {
            syn.limit_mss(most, key);
        }
        syn
    }
}

impl Extension {
    /// Tells whether the headers of segments say more than the template.
    fn amends(&self) -> bool {
        self.snd_up.is_some()
            || self.diffserv != 0
            || self.ttl.is_some()
            || self.fragmentable
            || self.route.is_some()
            || self.ecn.is_some()
    }
}

impl Stack {
    /// The extension of a connection, if it has one.
    pub(crate) fn extension(&self, index: usize) -> Option<&Extension> {
        if self.tcbs[index].is_rare(rare::EXTENSION) {
            self.extension.get(&(index as u32))
        } else {
            None
        }
    }

    /// Changes what is unusual about a connection.
    pub(crate) fn change_extension(&mut self, index: usize, change: impl FnOnce(&mut Extension)) {
        let extension = self.extension.entry(index as u32).or_default();
        change(extension);
        let tcb = &mut self.tcbs[index];
        tcb.rare |= rare::EXTENSION;
        if extension.max_segment.is_some() || extension.fast_open.is_some() {
            tcb.rare |= rare::OWN_SYN;
        } else {
            tcb.rare &= !rare::OWN_SYN;
        }
        if extension.amends() {
            tcb.rare |= rare::AMENDED;
        } else {
            tcb.rare &= !rare::AMENDED;
        }
        tcb.choose_transmit_path();
    }

    /// Gives a connection what its open call asked for.
    #[cold]
    pub(in crate::tcp) fn specify(&mut self, index: usize, particular: &Particular) {
        self.change_extension(index, |extension| {
            extension.diffserv = particular.diffserv;
            extension.ttl = particular.ttl;
            extension.max_segment = particular.max_segment;
        });
    }

    /// The largest MSS that a connection is to have, both ways.
    pub(crate) fn max_segment(&self, index: usize) -> Option<u16> {
        let own = self.tcbs[index].is_rare(rare::OWN_SYN);
        own.then(|| self.extension(index)?.max_segment).flatten()
    }

    /// A connection that is freed leaves nothing behind, its congestion controller neither.
    #[inline(always)]
    pub(crate) fn forget_extension(&mut self, index: usize) {
        if self.tcbs[index].is_rare(rare::EXTENSION) {
            cold_path();
            if let Some(own) = self.extension.remove(&(index as u32)) {
                self.grown -= u64::from(own.grown);
            }
            self.controllers.forget(index);
        }
    }
}

impl Stack {
    /// When the path of a connection over IPv4 is taken to be wider.
    pub(in crate::tcp) fn path_widens_at(&self, index: usize) -> Option<Tick> {
        self.extension(index)?.widen_at
    }

    /// A router's word has narrowed the path of a connection over IPv4, which counts for [`WIDEN_AFTER`].
    #[cold]
    pub(crate) fn widen_path_later(&mut self, index: usize, now: Tick) {
        let at = now.after(ticks(WIDEN_AFTER));
        self.change_extension(index, |own| own.widen_at = Some(at));
        deadline::arm(at, &mut self.tcbs[index].armed, &mut self.wheel, index);
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Takes the path of a connection to be as wide as the link again where the time for that has come (RFC 1191, 6.3).
    #[inline]
    pub(in crate::tcp) fn widen_path_if_due(&mut self, index: usize, tick: Tick) {
        let at = self.stack.path_widens_at(index);
        if at.is_some_and(|at| at.reached(tick)) {
            cold_path();
            self.stack.change_extension(index, |own| {
                own.widen_at = None;
                own.fragmentable = false;
            });
            self.path_is_wider(index);
        }
    }

    /// Sends a frame whose headers come from the template and that does not go straight to the device queue.
    #[cold]
    #[inline(never)]
    pub(crate) fn transmit_slow(&mut self, index: usize, frame: Frame) {
        let frame = self.amend(index, frame);
        if let Some(pair) = self.stack.tcbs[index].key.pair() {
            return self.hand_to_destination(pair, frame);
        }
        if self.stack.tcbs[index].known_link().is_none() {
            self.fill_link_address(index);
        }
        let tcb = &self.stack.tcbs[index];
        let (next_hop, link) = (tcb.next_hop, tcb.known_link());
        self.hand_to_link(next_hop, link, frame);
    }

    /// Writes into a segment's headers what the template does not know.
    #[cold]
    pub(crate) fn amend(&mut self, index: usize, frame: Frame) -> Frame {
        let tcb = &self.stack.tcbs[index];
        let (amended, summed_apart) = (tcb.is_rare(rare::AMENDED), tcb.is_summed_apart());
        let extension = self.stack.extension(index).copied().filter(|_| amended);
        // A link completes no checksum behind IP options.
        let routed = extension.is_some_and(|extension| extension.route.is_some());
        let summed_apart = summed_apart || routed && self.stack.config.completes_checksums;
        if let Some(extension) = &extension {
            self.amend_headers(index, extension, &frame);
        }
        let frame = if summed_apart {
            self.sum_apart(index, frame)
        } else {
            frame
        };
        match extension.and_then(|extension| extension.route) {
            Some(route) => self.set_out(&route, frame),
            None => frame,
        }
    }

    /// Writes what an extension asks for, its route apart.
    fn amend_headers(&mut self, index: usize, extension: &Extension, frame: &Frame) {
        if let Some(up) = extension.snd_up {
            if up.at_or_before(self.stack.tcbs[index].snd_una) {
                self.stack
                    .change_extension(index, |extension| extension.snd_up = None);
            } else {
                let at = self.stack.tcbs[index].tcp_at();
                self.point_to(up, at, frame);
            }
        }
        if extension.diffserv != 0 {
            match self.stack.tcbs[index].key.pair() {
                None => self.mark_diffserv(extension.diffserv, frame),
                Some(_) => self.mark_traffic_class(extension.diffserv, frame),
            }
        }
        if let Some(ttl) = extension.ttl {
            match self.stack.tcbs[index].key.pair() {
                None => self.mark_ttl(ttl.get(), frame),
                Some(_) => self.mark_hop_limit(ttl.get(), frame),
            }
        }
        if extension.fragmentable {
            self.clear_dont_fragment(index, frame);
        }
        if let Some(ecn) = extension.ecn {
            self.mark_segment(index, ecn, frame);
        }
    }

    /// Puts a source route into a packet's IP header, in front of which there is room. Its destination becomes the first
    /// hop; the TCP checksum stays that of the last (RFC 9293, 3.9.2.1).
    #[cold]
    pub(crate) fn set_out(&mut self, route: &SourceRoute, frame: Frame) -> Frame {
        let (at, len) = (usize::from(frame.offset), route.option_len());
        let start = at - len;
        let bytes = self.pool.bytes_mut(frame.id);
        bytes.copy_within(at..at + TCP, start);
        let ip = &mut bytes[start + ETHERNET..start + TCP + len];
        let (fixed, options) = ip.split_at_mut(ipv4::HEADER_LEN);
        let destination = Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]);
        let mut option = [0; source_route::MAX_LEN];
        route.emit(destination, &mut option);
        options.copy_from_slice(&option[..len]);
        let total_len = u16::from_be_bytes([fixed[2], fixed[3]]) + len as u16;
        fixed[0] += (len / 4) as u8;
        fixed[2..4].copy_from_slice(&total_len.to_be_bytes());
        fixed[10..12].copy_from_slice(&[0, 0]);
        fixed[16..20].copy_from_slice(&route.first().octets());
        let sum = sum_header(ip).finish();
        ip[10..12].copy_from_slice(&sum.to_ne_bytes());
        Frame {
            offset: start as u16,
            len: frame.len + len as u16,
            ..frame
        }
    }

    /// Lets every segment of a connection go by way of `route`, from the first on; says whether a segment has room for it.
    pub(crate) fn go_by(&mut self, index: usize, route: SourceRoute) -> bool {
        // What is left holds TCP's options and as much payload as the smallest MSS.
        if usize::from(self.stack.mtu) < 40 + 12 + 64 + route.option_len() {
            return false;
        }
        self.stack
            .change_extension(index, |extension| extension.route = Some(route));
        self.stack.tcbs[index].ip_options = route.option_len() as u8;
        let next_hop = self.next_hop(route.first());
        self.go_by_hop(index, next_hop);
        true
    }

    /// Lets every segment of a connection go by way of `next_hop`. What proved that the peer is on the LAN proves it no more.
    pub(crate) fn go_by_hop(&mut self, index: usize, next_hop: Ipv4Addr) {
        self.stack.keep_checksums(index, Agreement::RouterFound);
        self.stack.tcbs[index].next_hop = next_hop;
        self.stack.next_hops.change(index as u32, next_hop);
        self.fill_link_address(index);
    }

    /// Puts the Diffserv field into a packet's IP header.
    fn mark_diffserv(&mut self, diffserv: u8, frame: &Frame) {
        let summed = self.stack.config.mechanisms.checksum.sums_ip();
        let at = usize::from(frame.offset) + ETHERNET;
        let Some(ip) = self.pool.bytes_mut(frame.id)[at..].first_chunk_mut::<20>() else {
            return;
        };
        let word = u16::from_be_bytes([ip[0], ip[1]]);
        ip[1] = diffserv;
        if summed {
            let checksum = Checksum::from_ne_bytes([ip[10], ip[11]])
                .update(word, u16::from_be_bytes([ip[0], diffserv]));
            ip[10..12].copy_from_slice(&checksum.to_ne_bytes());
        }
    }

    /// Puts the number of hops into a packet's IP header.
    fn mark_ttl(&mut self, ttl: u8, frame: &Frame) {
        let summed = self.stack.config.mechanisms.checksum.sums_ip();
        let at = usize::from(frame.offset) + ETHERNET;
        let Some(ip) = self.pool.bytes_mut(frame.id)[at..].first_chunk_mut::<20>() else {
            return;
        };
        let word = u16::from_be_bytes([ip[8], ip[9]]);
        ip[8] = ttl;
        if summed {
            let checksum = Checksum::from_ne_bytes([ip[10], ip[11]])
                .update(word, u16::from_be_bytes([ttl, ip[9]]));
            ip[10..12].copy_from_slice(&checksum.to_ne_bytes());
        }
    }

    /// Puts the number of hops into a packet's header of IPv6.
    fn mark_hop_limit(&mut self, hop_limit: u8, frame: &Frame) {
        let at = usize::from(frame.offset) + ETHERNET;
        if let Some([_, _, _, _, _, _, _, hops, ..]) = self.pool.bytes_mut(frame.id).get_mut(at..) {
            *hops = hop_limit;
        }
    }

    /// Puts the Diffserv field into a packet's header of IPv6 (RFC 8200, 7).
    fn mark_traffic_class(&mut self, diffserv: u8, frame: &Frame) {
        let at = usize::from(frame.offset) + ETHERNET;
        if let Some([first, second, ..]) = self.pool.bytes_mut(frame.id).get_mut(at..) {
            *first = *first & 0xf0 | diffserv >> 4;
            *second = *second & 0x0f | diffserv << 4;
        }
    }

    /// Lets routers fragment the segments of a connection from now on. Returns whether they could not before.
    pub(crate) fn allow_fragments(&mut self, index: usize) -> bool {
        let before = self
            .stack
            .extension(index)
            .is_some_and(|extension| extension.fragmentable);
        self.stack
            .change_extension(index, |extension| extension.fragmentable = true);
        !before
    }

    /// Clears DF in a packet's IP header, and gives the packet an identification of its own: without DF it is not atomic
    /// (RFC 6864, 4.3).
    fn clear_dont_fragment(&mut self, index: usize, frame: &Frame) {
        let summed = self.stack.config.mechanisms.checksum.sums_ip();
        let tcb = &self.stack.tcbs[index];
        let (local, remote) = (tcb.local_ip(), tcb.remote_ip());
        let secrets = &mut self.stack.secrets;
        let identification = secrets.next_identification(local, remote, ipv4::protocol::TCP);
        let at = usize::from(frame.offset) + ETHERNET;
        let Some(ip) = self.pool.bytes_mut(frame.id)[at..].first_chunk_mut::<20>() else {
            return;
        };
        let before = u16::from_be_bytes([ip[4], ip[5]]);
        let flags = u16::from_be_bytes([ip[6], ip[7]]);
        let cleared = flags & !ipv4::DONT_FRAGMENT;
        ip[4..6].copy_from_slice(&identification.to_be_bytes());
        ip[6..8].copy_from_slice(&cleared.to_be_bytes());
        if summed {
            let checksum = Checksum::from_ne_bytes([ip[10], ip[11]])
                .update(before, identification)
                .update(flags, cleared);
            ip[10..12].copy_from_slice(&checksum.to_ne_bytes());
        }
    }

    /// Puts the urgent pointer into a segment in front of `up`. Where that lies beyond what the field can say, it says as
    /// much as it can and is moved on by later segments, so urgent data may be of any length (RFC 9293, MUST-31).
    fn point_to(&mut self, up: SeqNumber, tcp_at: usize, frame: &Frame) {
        let summed = self.stack.config.sums_segments();
        let at = usize::from(frame.offset) + tcp_at;
        let Some(tcp) = self.pool.bytes_mut(frame.id)[at..].first_chunk_mut::<20>() else {
            return;
        };
        let seq = SeqNumber(u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]));
        let flags = Flags(tcp[13]);
        if !seq.before(up) || flags.any(Flags::SYN | Flags::RST) {
            return;
        }
        let pointer = (up - seq).min(u32::from(u16::MAX)) as u16;
        let word = u16::from_be_bytes([tcp[12], tcp[13]]);
        let urgent = word | u16::from(Flags::URG.0);
        tcp[12..14].copy_from_slice(&urgent.to_be_bytes());
        tcp[18..20].copy_from_slice(&pointer.to_be_bytes());
        if summed {
            let checksum = Checksum::from_ne_bytes([tcp[16], tcp[17]])
                .update(word, urgent)
                .update(0, pointer);
            tcp[16..18].copy_from_slice(&checksum.to_ne_bytes());
        }
    }
}

//! SYN: what ours say, what the peer's says, and what follows from it (RFC 9293, 3.5, 3.7.1; RFC 7323, 1.3 and 2.2).
//!
//! A SYN with the usual options is read and written at fixed places; any other goes by way of [`Header`] and
//! [`Options`], whose order of options is the same.

use crate::buffer::{Frame, FrameId, PAYLOAD_OFFSET, Pool, RxChecksum, Taken};
use crate::config::{Config, MtuProbing};
use crate::counters::Drop;
use crate::demux::FlowKey;
use crate::destinations::Destinations;
use crate::likely::likely;
use crate::stack::Active;
use crate::tcp::cc;
use crate::tcp::deadline::Deadline;
use crate::tcp::ecn::Setup;
use crate::tcp::recovery::rto::Rtt;
use crate::tcp::slow::mtu_search::{BASE_V4, BASE_V6};
use crate::tcp::tcb::{State, Tcb, flag, rare};
use crate::tcp::template::{self, Common};
use crate::time::Tick;
use core::hint::cold_path;
use tollgate_checksum::{Accumulator, Partial};
use tollgate_gate::Recorder;
use tollgate_wire::tcp::{
    self, Flags, Header, Options, SYN_OPTIONS_LEN, TIMESTAMP_LAYOUT, Timestamps,
};
use tollgate_wire::{SeqNumber, ipv4};

/// The largest shift (RFC 7323, 2.3).
pub(in crate::tcp) const MAX_SHIFT: u8 = 14;
/// Bytes of a frame with a SYN that carries MSS, window scale and timestamps.
pub(in crate::tcp) const COMMON_SYN: usize = 14 + 20 + 20 + SYN_OPTIONS_LEN;

/// The least MSS: a peer that names a smaller one does not get smaller segments.
pub(crate) const LEAST_MSS: u16 = 64;
/// The MSS of a peer over IPv4 that names none (RFC 9293, 3.7.1).
pub(in crate::tcp) const DEFAULT_MSS: u16 = 536;
/// That of one over IPv6: what every link carries, less 60 bytes of headers (RFC 9293, 3.7.1).
const DEFAULT_MSS_V6: u16 = 1220;

/// Selective acknowledgments permitted, then the timestamp option: kind 4, length 2, kind 8, length 10.
const SACK_THEN_STAMPS: u32 = 0x0402_080a;

/// Fields and options of a SYN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syn {
    pub(crate) seq: SeqNumber,
    pub(crate) ack: SeqNumber,
    /// Window as on the wire: that of a SYN is never scaled (RFC 7323, 2.2).
    pub(crate) window: u16,
    pub(crate) options: Options,
    /// Setup of explicit congestion notification (RFC 3168, 6.1.1; RFC 9768, 3.1).
    pub(crate) ecn: Setup,
}

impl Syn {
    /// Lets a SYN of this key offer no larger MSS than `most`.
    pub(in crate::tcp) fn limit_mss(&mut self, most: u16, key: FlowKey) {
        let mss = self.options.mss.unwrap_or_else(|| default_mss(key));
        self.options.mss = Some(mss.min(most));
    }
}

impl From<&Header> for Syn {
    fn from(header: &Header) -> Self {
        Self {
            seq: header.seq,
            ack: header.ack,
            window: header.window,
            options: header.options,
            ecn: Setup::of(header),
        }
    }
}

/// Bytes of the first packets of a connection at most: the link's MTU, unless the path is searched for from below.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstMtu {
    v4: u16,
    v6: u16,
}

impl FirstMtu {
    pub(crate) fn new(config: &Config, mtu: u16) -> Self {
        match config.mechanisms.mtu_probing {
            MtuProbing::BlackHole | MtuProbing::Off => Self { v4: mtu, v6: mtu },
            MtuProbing::Always => Self {
                v4: mtu.min(BASE_V4),
                v6: mtu.min(BASE_V6),
            },
        }
    }

    /// Takes another MTU for IPv4.
    pub(crate) fn with_v4(self, config: &Config, mtu: u16) -> Self {
        Self {
            v6: self.v6,
            ..Self::new(config, mtu)
        }
    }

    /// Takes another MTU for IPv6.
    pub(crate) fn with_v6(self, config: &Config, mtu: u16) -> Self {
        Self {
            v4: self.v4,
            ..Self::new(config, mtu)
        }
    }

    const fn for_key(self, key: FlowKey) -> u16 {
        match key.pair() {
            None => self.v4,
            Some(_) => self.v6,
        }
    }
}

/// Sizes that follow from a peer's MSS where no option changes them, of the last MSS that was told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    peer_mss: u16,
    mss: u16,
    window_step: u16,
    cwnd: u32,
}

impl Sizes {
    /// Sets what follows from `tcb.peer_mss`.
    #[inline(always)]
    fn apply(
        &mut self,
        tcb: &mut Tcb,
        (mtu, destinations): (FirstMtu, &Destinations),
        pool: &Pool,
        common: bool,
    ) {
        if common && tcb.peer_mss == self.peer_mss {
            tcb.mss = self.mss;
            tcb.window_step = self.window_step;
            tcb.cwnd = self.cwnd;
        } else {
            cold_path();
            self.find_out(tcb, (mtu, destinations), pool, common);
        }
    }

    #[cold]
    #[inline(never)]
    fn find_out(
        &mut self,
        tcb: &mut Tcb,
        (mtu, destinations): (FirstMtu, &Destinations),
        pool: &Pool,
        common: bool,
    ) {
        let mtu = destinations.bound_mtu(tcb.key, mtu.for_key(tcb.key));
        // A segment lies in one frame.
        set_mss(tcb, pool.bound_mtu(mtu));
        tcb.cwnd = cc::initial_window(tcb.mss);
        if common {
            *self = Self {
                peer_mss: tcb.peer_mss,
                mss: tcb.mss,
                window_step: tcb.window_step,
                cwnd: tcb.cwnd,
            };
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Sets the send side of a connection that has just been opened to its beginning, and sends the SYN. No frame is kept for
    /// it: a SYN is made anew whenever it is sent. One that is not that of most is sent by `send_own`. False when there is no frame.
    #[inline(always)]
    pub(crate) fn begin(
        &mut self,
        index: usize,
        iss: SeqNumber,
        send_own: impl FnOnce(&mut Self),
    ) -> bool {
        let tick = self.now.tick();
        let stack = &mut *self.stack;
        if self.pool.available() == 0 {
            cold_path();
            stack.counters.dropped(Drop::NoFrame);
            return false;
        }
        let tcb = &mut stack.tcbs[index];
        tcb.iss = iss;
        tcb.snd_una = iss;
        tcb.snd_nxt = iss + 1;
        tcb.snd_end = iss + 1;
        tcb.rtt = Rtt::of_syn(self.now);
        let again = tick.after(u32::from(tcb.rto));
        // RFC 9293, 3.8.3, MUST-23: R2 of a SYN.
        let give_up = tick.after(stack.periods.connect);
        tcb.rtx_deadline
            .set(again, &mut tcb.armed, &mut stack.wheel, index);
        tcb.user_deadline
            .set(give_up, &mut tcb.armed, &mut stack.wheel, index);
        let (scaling, stamps) = syn_options(tcb, &stack.config);
        if likely!(
            scaling
                && stamps
                && tcb.rare & (rare::SACK_PERMITTED | rare::OWN_SYN) == stack.tcb_template.syn.kind
                && !tcb.is(flag::SLOW_TRANSMIT)
                && stack.device.len() < stack.config.device_queue,
        ) && let Some(Taken { id, meta, head, .. }) =
            self.pool.take::<COMMON_SYN>(FrameId::NONE, 0)
        {
            meta.refs = 1;
            // The connection has just been opened from what was prepared in this tick.
            stack.tcb_template.syn.write(head, tcb, syn_flags(tcb));
            stack.device.push(common_syn_frame(id));
        } else {
            cold_path();
            send_own(self);
        }
        true
    }

    /// Takes the peer's SYN: its sequence number, MSS, window scaling, timestamps.
    #[inline(always)]
    pub(crate) fn take_syn(&mut self, index: usize, syn: &Syn) {
        let config = &self.stack.config;
        let options = &syn.options;
        let timestamps = config.timestamps && options.timestamps.is_some();
        let scaling = config.window_scaling && options.window_scale.is_some();
        let (mtu, ttl) = (self.stack.first_mtu, config.ttl);
        let tcb = &mut self.stack.tcbs[index];
        tcb.irs = syn.seq;
        tcb.rcv_nxt = syn.seq + 1;
        tcb.peer_mss = options
            .mss
            .unwrap_or_else(|| default_mss(tcb.key))
            .max(LEAST_MSS);
        if timestamps {
            tcb.ts_recent = options.timestamps.map_or(0, |t| t.value);
        } else if tcb.is(flag::TIMESTAMPS) {
            tcb.flags &= !flag::TIMESTAMPS;
            make_template(tcb, ttl, self.stack.destinations.addresses_sum(tcb.key));
            tcb.predict();
        }
        if !options.sack_permitted {
            cold_path();
            tcb.rare &= !rare::SACK_PERMITTED;
        }
        if scaling {
            // RFC 7323, 2.3: a larger shift counts as 14.
            tcb.snd_shift = options.window_scale.unwrap_or(0).min(MAX_SHIFT);
        } else {
            tcb.snd_shift = 0;
            tcb.rcv_shift = 0;
            tcb.rcv_limit = tcb.rcv_limit.min(0xffff);
            tcb.rx_free = tcb.rcv_limit;
        }
        // The window of a SYN is never scaled (RFC 7323, 2.2).
        tcb.snd_wnd = u32::from(syn.window);
        if tcb.snd_wnd == 0 {
            cold_path();
            tcb.predict();
        }
        tcb.max_snd_wnd = tcb.snd_wnd;
        tcb.rcv_edge = tcb.rcv_nxt + tcb.rx_free.min(0xffff);
        let common = timestamps && scaling && tcb.ip_options == 0;
        let destinations = &self.stack.destinations;
        self.stack
            .sizes
            .apply(tcb, (mtu, destinations), self.pool, common);
        if syn.ecn.says_something() || self.stack.tcbs[index].is_rare(rare::AMENDED) {
            cold_path();
            self.stack.agree_on_ecn(index, syn);
        }
    }

    /// Sends the SYN, or the SYN with the acknowledgment of the peer's, for the first time or again.
    pub(crate) fn send_syn(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        let flags = syn_flags(tcb);
        let (scaling, stamps) = syn_options(tcb, &self.stack.config);
        let own = tcb.is(flag::SLOW_TRANSMIT) || tcb.is_rare(rare::OWN_SYN);
        if scaling && stamps && !own {
            self.send_common_syn(index, flags);
        } else {
            self.send_uncommon_syn(index);
        }
        let tcb = &mut self.stack.tcbs[index];
        if flags.has(Flags::ACK) {
            tcb.unacked = 0;
            tcb.ack_deadline = Deadline::NONE;
        }
    }

    /// A SYN with every option that the stack knows, straight to a link address that is known: at once in its frame.
    fn send_common_syn(&mut self, index: usize, flags: Flags) {
        if !self.device_has_room() {
            self.stack.counters.dropped(Drop::DeviceQueueFull);
            return;
        }
        let mss = self.our_mss();
        let Some(id) = self.pool.alloc() else {
            self.stack.counters.dropped(Drop::NoFrame);
            return;
        };
        if let Some(head) = self.pool.front::<COMMON_SYN>(id) {
            let tcb = &self.stack.tcbs[index];
            SynTemplate::of(tcb, &self.stack.template, mss, self.now.tick())
                .write(head, tcb, flags);
        }
        self.stack.device.push(common_syn_frame(id));
    }

    /// Any other SYN.
    #[cold]
    fn send_uncommon_syn(&mut self, index: usize) {
        self.stack.label_flow(index);
        let header = self.syn_header(index);
        let way = self.way_of(index);
        self.send_header(way, &header);
    }

    /// The header of a connection's SYN.
    pub(in crate::tcp) fn syn_header(&self, index: usize) -> Header {
        let tcb = &self.stack.tcbs[index];
        let flags = syn_flags(tcb);
        let (scaling, stamps) = syn_options(tcb, &self.stack.config);
        let ecn = self.stack.ecn_of_syn(index);
        Header {
            source_port: tcb.local_port(),
            destination_port: tcb.remote_port(),
            seq: tcb.iss,
            ack: acknowledged(tcb, flags),
            header_len: 0,
            flags: flags | ecn.flags,
            window: tcb.rx_free.min(0xffff) as u16,
            urgent: 0,
            accurate_ecn: ecn.accurate,
            options: Options {
                mss: Some(self.offered_mss(index)),
                window_scale: scaling.then_some(tcb.rcv_shift),
                timestamps: stamps.then_some(Timestamps {
                    value: self.now.tick().0.wrapping_add(tcb.ts_offset),
                    echo: tcb.ts_recent,
                }),
                sack_permitted: tcb.is_rare(rare::SACK_PERMITTED),
                alternate_checksum: tcb.alternate_checksum(),
                fast_open: self.stack.extension(index).and_then(|own| own.fast_open),
                accurate_ecn: ecn.option,
                ..Options::default()
            },
        }
    }
}

/// The flags of a connection's SYN: whether it answers the peer's.
#[inline(always)]
fn syn_flags(tcb: &Tcb) -> Flags {
    if tcb.state == State::SynSent {
        Flags::SYN
    } else {
        Flags::SYN | Flags::ACK
    }
}

/// Tells whether a connection's SYN carries a window scale and timestamps.
#[inline(always)]
fn syn_options(tcb: &Tcb, config: &Config) -> (bool, bool) {
    if tcb.state == State::SynSent {
        (config.window_scaling, config.timestamps)
    } else {
        (
            tcb.rcv_shift != 0 || tcb.snd_shift != 0,
            tcb.is(flag::TIMESTAMPS),
        )
    }
}

/// Acknowledgment number of a SYN with these flags.
#[inline(always)]
fn acknowledged(tcb: &Tcb, flags: Flags) -> SeqNumber {
    if flags.has(Flags::ACK) {
        tcb.rcv_nxt
    } else {
        SeqNumber(0)
    }
}

/// The frame of a SYN with the common options.
#[inline(always)]
fn common_syn_frame(id: FrameId) -> Frame {
    Frame {
        id,
        offset: (PAYLOAD_OFFSET - COMMON_SYN) as u16,
        len: COMMON_SYN as u16,
        checksum: RxChecksum::Unknown,
    }
}

/// All headers of a SYN with the usual options, in the order of [`Options::emit`], but for what one connection's differ in from
/// another's to the same peer in the same tick.
#[derive(Clone, Debug)]
pub(crate) struct SynTemplate {
    head: [u8; COMMON_SYN],
    /// Of the segment's length, options and window, in host order; addresses, ports and the layout of the timestamps are in
    /// the sum that the connection's own template has.
    sum: u64,
    /// Data offset and window, in the word that holds the flags.
    word: u32,
    /// [`rare::SACK_PERMITTED`] where they permit selective acknowledgments: the order is another then.
    kind: u32,
}

impl SynTemplate {
    /// Its bytes in the TCP header.
    const TCP_LEN: u16 = (COMMON_SYN - 34) as u16;

    /// None yet.
    pub(in crate::tcp) const EMPTY: Self = Self {
        head: [0; COMMON_SYN],
        sum: 0,
        word: 0,
        kind: 0,
    };

    /// Of a connection's SYNs now.
    pub(in crate::tcp) fn of(tcb: &Tcb, common: &Common, mss: u16, now: Tick) -> Self {
        let mut head = [0; COMMON_SYN];
        let mut put = |at: usize, word: u32| {
            head[at..at + 4].copy_from_slice(&word.to_be_bytes());
        };
        let mss = 0x0204_0000 | u32::from(mss);
        let shift = 0x0103_0300 | u32::from(tcb.rcv_shift);
        let value = now.0.wrapping_add(tcb.ts_offset);
        let stamps = u32::from_be_bytes(TIMESTAMP_LAYOUT);
        let sack = tcb.is_rare(rare::SACK_PERMITTED);
        put(54, mss);
        if sack {
            put(58, SACK_THEN_STAMPS);
            put(62, value);
            put(70, shift);
        } else {
            put(58, shift);
            put(62, stamps);
            put(66, value);
        }
        let permission = if sack { SACK_THEN_STAMPS - stamps } else { 0 };
        let total_len = Self::TCP_LEN + 20;
        template::write_front(&mut head, tcb, common, u32::from(total_len));
        let ip = tcb.ip_checksum.with_word(total_len.to_be());
        head[24..26].copy_from_slice(&ip.to_ne_bytes());
        let constant = [mss, shift, value, u32::from(Self::TCP_LEN), permission];
        Self {
            head,
            sum: constant.into_iter().map(u64::from).sum(),
            word: u32::from(Self::TCP_LEN / 4) << 28 | tcb.rx_free.min(0xffff),
            kind: tcb.rare & rare::SACK_PERMITTED,
        }
    }

    /// Writes the headers of a connection's SYN with these flags.
    #[inline(always)]
    fn write(&self, head: &mut [u8; COMMON_SYN], tcb: &Tcb, flags: Flags) {
        let put = |head: &mut [u8; COMMON_SYN], at: usize, word: u32| {
            head[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        };
        let ack = acknowledged(tcb, flags).0;
        let word = self.word | u32::from(flags.0) << 16;
        *head = self.head;
        put(head, 34, tcb.key.ports.rotate_left(16));
        put(head, 38, tcb.iss.0.to_be());
        put(head, 42, ack.to_be());
        put(head, 46, word.to_be());
        let echo_at = if self.kind != 0 { 66 } else { 70 };
        put(head, echo_at, tcb.ts_recent.to_be());
        let varying = [tcb.iss.0, ack, word, tcb.ts_recent];
        let sum = varying.into_iter().map(u64::from).sum::<u64>() + self.sum;
        let transport = Accumulator::from_be_sum(sum)
            .add_partial(Partial::from_folded(tcb.tcp_sum))
            .finish();
        let [first, second] = transport.to_ne_bytes();
        // The urgent pointer is zero.
        put(head, 50, u32::from_ne_bytes([first, second, 0, 0]));
    }
}

/// The smallest shift with which a window of `buffer` bytes fits into 16 bits.
pub(in crate::tcp) fn shift_for(buffer: u32) -> u8 {
    let mut shift = 0;
    while buffer >> shift > 0xffff && shift < MAX_SHIFT {
        shift += 1;
    }
    shift
}

/// The MSS of a peer of this key that names none (RFC 9293, 3.7.1).
pub(in crate::tcp) const fn default_mss(key: FlowKey) -> u16 {
    match key.pair() {
        None => DEFAULT_MSS,
        Some(_) => DEFAULT_MSS_V6,
    }
}

/// The payload of a full segment: the smaller of both ends' MSS, less the options of every segment (RFC 6691).
pub(crate) fn set_mss(tcb: &mut Tcb, mtu: u16) {
    let options = (tcb.header_len() - tcp::HEADER_LEN) as u16;
    // RFC 9293, 3.7.1: Eff.snd.MSS = min(SendMSS+20, MMS_S) - TCPhdrsize - IPoptionsize.
    let (headers, ip_options) = match tcb.key.pair() {
        None => (40, u16::from(tcb.ip_options)),
        Some(_) => (60, 0),
    };
    let mss = tcb.peer_mss.min(mtu.saturating_sub(headers));
    // Frames of the pool may be small, too.
    set_mss_to(tcb, mss.saturating_sub(options + ip_options).max(8));
}

/// Sets the payload of a full segment, and what follows from it.
pub(in crate::tcp) fn set_mss_to(tcb: &mut Tcb, mss: u16) {
    tcb.mss = mss;
    tcb.window_step = (tcb.rcv_limit / 2).min(u32::from(mss)) as u16;
    tcb.predict_sending();
}

/// Sums what is constant in the headers of every segment, where `addresses` is the sum of both. The header of IPv6 has none.
pub(crate) fn make_template(tcb: &mut Tcb, ttl: u8, addresses: u64) {
    let protocol = u16::from(ipv4::protocol::TCP);
    let stamps = if tcb.is(flag::TIMESTAMPS) {
        u32::from_ne_bytes(TIMESTAMP_LAYOUT)
    } else {
        0
    };
    let transport =
        addresses + u64::from(tcb.key.ports) + u64::from(protocol.to_be()) + u64::from(stamps);
    tcb.tcp_sum = Partial::from_ne_u64(transport).fold();
    let ip = addresses
        + u64::from(0x4500u16.to_be())
        + u64::from(ipv4::DONT_FRAGMENT.to_be())
        + u64::from((u16::from(ttl) << 8 | protocol).to_be());
    tcb.ip_checksum = Partial::from_ne_u64(ip).finish();
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;
    use tollgate_checksum::sum_header;
    use tollgate_wire::ethernet::{self, EtherType, MacAddr};

    proptest! {
        /// A SYN's template gives the bytes that the writers of header and options give.
        #[test]
        fn a_common_syn_is_written_as_any_other(
            ports: (u16, u16),
            addresses: (u32, u32),
            numbers: (u32, u32, u32, u32, u32),
            answer: bool,
            shift in 0u8..15,
            sack: bool,
            mss: u16,
            ttl in 1u8..,
        ) {
            let (local, remote) = (Ipv4Addr::from(addresses.0), Ipv4Addr::from(addresses.1));
            let mut tcb = Tcb {
                key: FlowKey::new((remote, ports.1), (local, ports.0)),
                iss: SeqNumber(numbers.0),
                rcv_nxt: SeqNumber(numbers.1),
                ts_offset: numbers.2,
                ts_recent: numbers.3,
                rx_free: numbers.4,
                rcv_shift: shift,
                link: [2, 3, 4, 5, 6, 7, 8, 9],
                flags: flag::TIMESTAMPS,
                rare: if sack { rare::SACK_PERMITTED } else { 0 },
                ..Tcb::FREE
            };
            make_template(&mut tcb, ttl, u64::from(u32::from_ne_bytes(local.octets())) + u64::from(u32::from_ne_bytes(remote.octets())));
            let mut config = Config::new(MacAddr([8, 9, 10, 11, 12, 13]), local, 24, [1, 2, 3, 4]);
            config.ttl = ttl;
            let common = Common::new(&config);
            let flags = if answer { Flags::SYN | Flags::ACK } else { Flags::SYN };
            let mut head = [0xaa; COMMON_SYN];
            SynTemplate::of(&tcb, &common, mss, Tick(5)).write(&mut head, &tcb, flags);

            let header = Header {
                source_port: ports.0,
                destination_port: ports.1,
                seq: tcb.iss,
                ack: if answer { tcb.rcv_nxt } else { SeqNumber(0) },
                header_len: 0,
                flags,
                window: tcb.rx_free.min(0xffff) as u16,
                urgent: 0,
                accurate_ecn: false,
                options: Options {
                    mss: Some(mss),
                    window_scale: Some(shift),
                    timestamps: Some(Timestamps {
                        value: numbers.2.wrapping_add(5),
                        echo: numbers.3,
                    }),
                    sack_permitted: sack,
                    ..Options::default()
                },
            };
            let mut transport = [0; tcp::MAX_HEADER_LEN];
            let len = header.emit(&mut transport);
            let sum = ipv4::pseudo_header(local, remote, ipv4::protocol::TCP, len as u16)
                + sum_header(&transport[..len]);
            transport[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
            let ip = ipv4::Header {
                header_len: 20,
                tos: 0,
                total_len: 20 + len as u16,
                identification: 0,
                flags_and_offset: ipv4::DONT_FRAGMENT,
                ttl,
                protocol: ipv4::protocol::TCP,
                source: local,
                destination: remote,
            };
            let ethernet = ethernet::Header {
                destination: MacAddr([2, 3, 4, 5, 6, 7]),
                source: MacAddr([8, 9, 10, 11, 12, 13]),
                ethertype: EtherType::Ipv4,
            };
            prop_assert_eq!(&head[..14], &ethernet.to_bytes());
            prop_assert_eq!(&head[14..34], &ip.to_bytes());
            prop_assert_eq!(&head[34..], &transport[..len]);
        }
    }
}

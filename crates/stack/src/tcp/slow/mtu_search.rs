//! Path MTU discovery by probing (RFC 4821, RFC 8899): finds the size that a path takes where no router tells it.
//!
//! Owns the search of a connection: the sizes between which the answer lies, the probe that is out, and when it is looked again. Sizes
//! are those of packets, in bytes. A full-stop timeout means a black hole where a path may not take the segment at the head of the queue
//! (RFC 4821, 7.7). Segments become shorter than it, at first as short as nearly every path takes. From there the search goes up again.
//! A probe is the data that is next to be sent, in one longer segment (7.3 to 7.5). If it arrives, segments become as long; if it alone is
//! lost, the path takes less, and the congestion window stays as it was (7.6.2). The first probe has the largest size, for paths that were
//! only silent for a while.
//!
//! A probe is made where the window holds output back, since then enough is queued. The search ends when its bounds are close, and
//! begins anew after ten minutes. It costs nothing until a black hole was met, unless every connection is to search
//! ([`MtuProbing::Always`]): its state is in the connection's extension, [`rare::MTU_SEARCH`] says that it may be there, and
//! [`rare::MTU_PROBE`] keeps what arrives away from prediction while a probe is queued or out. It must never have two probes out, nor send
//! one while anything is lost.

use crate::buffer::{FrameId, Transmissions};
use crate::config::MtuProbing;
use crate::stack::{Active, Stack};
use crate::tcp::report::R1;
use crate::tcp::slow::syn::set_mss;
use crate::tcp::tcb::{Tcb, rare};
use crate::time::{Tick, ticks};
use core::hint::cold_path;
use core::time::Duration;
use tollgate_gate::Recorder;
use tollgate_wire::tcp::{self, Flags};
use tollgate_wire::{SeqNumber, ipv4, ipv6};

/// The size to which a black hole takes a connection over IPv4 (RFC 4821, 7.2).
pub(crate) const BASE_V4: u16 = 1024;
/// That over IPv6: what every link carries (RFC 8200, 5).
pub(crate) const BASE_V6: u16 = 1280;
/// The least size over IPv4: what every host takes (RFC 791, 3.1). RFC 4821, 7.7 allows to go down to 68; an outage would end there.
const LEAST_V4: u16 = 576;
/// Bounds that are closer than this end the search (Linux: tcp_probe_threshold).
const CLOSE: u16 = 8;
/// MAX_PROBES of one size (RFC 8899, 5.1.2).
const MAX_PROBES: u8 = 3;
/// Full segments that are to follow a probe, so that its loss is seen (RFC 4821, 7.4).
const FOLLOWERS: u32 = 3;
/// PMTU_RAISE_TIMER (RFC 8899, 5.1.1).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// A probe that is queued or out, valid while [`rare::MTU_PROBE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// The bytes that it carries.
    start: SeqNumber,
    end: SeqNumber,
    /// Bytes of its packet.
    size: u16,
}

/// The search of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    /// A size that passes, or is taken to (search_low).
    low: u16,
    /// The largest size that may pass (search_high).
    high: u16,
    /// Probes of the next size that were lost.
    lost: u8,
    /// The largest size has been tried.
    largest_tried: bool,
    pub(crate) probe: Option<Probe>,
    /// When the search, which has come to its end, begins anew.
    raise_at: Option<Tick>,
    /// The threshold of slow start, while a recovery repairs the loss of a probe and of nothing else.
    threshold: Option<u32>,
}

impl Search {
    fn new(low: u16, high: u16) -> Self {
        Self {
            low,
            high: high.max(low),
            lost: 0,
            largest_tried: false,
            probe: None,
            raise_at: None,
            threshold: None,
        }
    }

    /// The size that is to be probed next; none when the search is over.
    fn next(&self) -> Option<u16> {
        let range = self.high - self.low;
        if range < CLOSE {
            None
        } else if self.largest_tried {
            Some(self.low + range.div_ceil(2))
        } else {
            Some(self.high)
        }
    }

    /// A probe of this size has arrived (RFC 4821, 7.6.1).
    fn passed(&mut self, size: u16) {
        self.low = self.low.max(size);
        self.high = self.high.max(self.low);
        self.lost = 0;
    }

    /// A probe of this size was lost (RFC 4821, 7.6.2). The largest is tried once, others [`MAX_PROBES`] times.
    fn failed(&mut self, size: u16) {
        if size > self.high {
            // A router has told more than that.
            return;
        }
        self.lost += 1;
        if self.largest_tried && self.lost < MAX_PROBES {
            return;
        }
        self.largest_tried = true;
        self.lost = 0;
        self.high = self.high.min(size - 1).max(self.low);
    }

    /// A router says that this is the largest size (RFC 4821, 7.6.2; RFC 8899, 4.6).
    fn packet_too_big(&mut self, size: u16) {
        if size < self.high {
            self.low = self.low.min(size);
            self.high = size;
            self.lost = 0;
            self.largest_tried = false;
        }
    }
}

/// Headers of TCP and IP without options.
const fn headers(tcb: &Tcb) -> u16 {
    match tcb.key.pair() {
        None => (ipv4::HEADER_LEN + tcp::HEADER_LEN) as u16,
        Some(_) => (ipv6::HEADER_LEN + tcp::HEADER_LEN) as u16,
    }
}

/// Bytes of headers and options in the packet of every segment.
fn overhead(tcb: &Tcb) -> u16 {
    let options = (tcb.header_len() - tcp::HEADER_LEN) as u16;
    let ip_options = match tcb.key.pair() {
        None => u16::from(tcb.ip_options),
        Some(_) => 0,
    };
    headers(tcb) + options + ip_options
}

/// The size to which a black hole takes a connection, and the least size.
const fn base_and_least(tcb: &Tcb) -> (u16, u16) {
    match tcb.key.pair() {
        None => (BASE_V4, LEAST_V4),
        Some(_) => (BASE_V6, BASE_V6),
    }
}

impl Stack {
    fn search_of(&self, index: usize) -> Option<Search> {
        if !self.tcbs[index].is_rare(rare::MTU_SEARCH) {
            return None;
        }
        self.extension(index)?.mtu_search
    }

    fn keep_search(&mut self, index: usize, search: Search) {
        self.change_extension(index, |own| own.mtu_search = Some(search));
        let tcb = &mut self.tcbs[index];
        tcb.rare |= rare::MTU_SEARCH;
        let was = tcb.rare;
        if search.probe.is_some() {
            tcb.rare |= rare::MTU_PROBE;
        } else {
            tcb.rare &= !rare::MTU_PROBE;
        }
        if tcb.rare != was {
            tcb.predict();
        }
    }

    /// The largest packet that the connection may send on its link, and that the peer takes.
    fn largest_packet(&self, index: usize) -> u16 {
        let tcb = &self.tcbs[index];
        let link = match tcb.key.pair() {
            None => self.mtu,
            Some(_) => self.ipv6.mtu,
        };
        link.min(tcb.peer_mss.saturating_add(headers(tcb)))
    }

    /// A frame of the send queue is cut in two: a probe that was in it is none any more.
    #[inline]
    pub(in crate::tcp) fn frame_is_cut(&mut self, index: usize, start: SeqNumber) {
        if self.tcbs[index].is_rare(rare::MTU_PROBE) {
            cold_path();
            self.forget_probe(index, start);
        }
    }

    #[inline(never)]
    fn forget_probe(&mut self, index: usize, start: SeqNumber) {
        if let Some(mut search) = self.search_of(index)
            && search.probe.is_some_and(|probe| probe.start == start)
        {
            search.probe = None;
            self.keep_search(index, search);
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// The window holds output back: queues a probe where one is due and its preconditions hold (RFC 4821, 7.4).
    #[cold]
    #[inline(never)]
    pub(in crate::tcp) fn consider_mtu_probe(&mut self, index: usize) {
        const BUSY: u32 = rare::RECOVERY
            | rare::SCOREBOARD
            | rare::LOSS
            | rare::PERSIST
            | rare::PROBE
            | rare::MTU_PROBE
            | rare::CORKED
            | rare::MORE;
        let tcb = &self.stack.tcbs[index];
        let quiet = tcb.rare & BUSY == 0 && tcb.backoff | tcb.dup_acks == 0;
        if !quiet || !tcb.state.is_synchronized() {
            return;
        }
        let now = self.now.tick();
        let size = tcb.mss + overhead(tcb);
        let largest = self.pool.bound_mtu(self.stack.largest_packet(index));
        let mut search = match self.stack.search_of(index) {
            Some(search) => search,
            None => Search::new(size, largest),
        };
        match search.raise_at {
            Some(at) if !at.reached(now) => return,
            Some(_) => search = Search::new(size, largest),
            None => {}
        }
        let Some(next) = search.next() else {
            search.raise_at = Some(now.after(ticks(RAISE_AFTER)));
            return self.stack.keep_search(index, search);
        };
        let payload = next - overhead(tcb);
        let window = tcb.snd_wnd.min(tcb.cwnd);
        let needed = u32::from(payload) + FOLLOWERS * u32::from(tcb.mss);
        if payload <= tcb.mss || window < needed || tcb.snd_end - tcb.snd_nxt < needed {
            return;
        }
        let first = tcb.unsent;
        if self.lengthen(index, first, payload) {
            let meta = self.pool.meta(first);
            search.probe = Some(Probe {
                start: meta.tx_seq,
                end: meta.tx_end,
                size: next,
            });
            self.stack.keep_search(index, search);
            self.stack.counters.mtu_probes += 1;
        }
    }

    /// Moves bytes of the frames behind it into the first unsent frame, up to `len` bytes. Returns whether all of them were such as may
    /// be moved: never sent, and without the end of a record or of the stream.
    fn lengthen(&mut self, index: usize, first: FrameId, len: u16) -> bool {
        // All is looked at before anything is changed.
        let mut id = first;
        let mut found = 0;
        while found < u32::from(len) {
            let Some(meta) = self.pool.meta_if(id) else {
                return false;
            };
            let movable =
                meta.transmissions.is_none() && meta.tx_flags == Flags(0) && meta.refs == 1;
            if !movable {
                return false;
            }
            found += u32::from(meta.tx_len);
            id = meta.tx_next;
        }
        loop {
            let before = self.pool.meta(first).tx_len;
            if before >= len {
                return true;
            }
            let next = self.pool.meta(first).tx_next;
            let room = len - before;
            if self.pool.meta(next).tx_len > room && !self.split(index, next, room) {
                // What has been moved stays where it is: longer than a segment, it would be a probe that nobody knows of.
                let mss = self.stack.tcbs[index].mss;
                self.split(index, first, mss);
                return false;
            }
            self.join_next(index, first);
        }
    }

    /// An acknowledgment has been taken in while a probe is queued or out: finds out whether it has arrived (RFC 4821, 7.6.1).
    #[cold]
    #[inline(never)]
    pub(in crate::tcp) fn mtu_probe_answered(&mut self, index: usize) {
        let Some(mut search) = self.stack.search_of(index) else {
            return;
        };
        let una = self.stack.tcbs[index].snd_una;
        let Some(probe) = search.probe.filter(|probe| probe.end.at_or_before(una)) else {
            return;
        };
        search.passed(probe.size);
        search.probe = None;
        self.stack.keep_search(index, search);
        let size = self.pool.bound_mtu(probe.size);
        set_mss(&mut self.stack.tcbs[index], size);
        self.stack.open_coalescing(self.pool, index);
    }

    /// A recovery is to begin. Says whether all that is lost is a probe, whose bytes then are in segments of the usual length again:
    /// that is no sign of congestion (RFC 4821, 7.6.2). If something else is lost, the probe tells nothing (7.6.4).
    #[cold]
    #[inline(never)]
    pub(in crate::tcp) fn mtu_probe_is_lost_alone(&mut self, index: usize) -> bool {
        let lost = self
            .stack
            .recovery(index)
            .map_or(0, |state| state.board.lost);
        let Some(mut search) = self.stack.search_of(index) else {
            return false;
        };
        let Some(probe) = search.probe.take() else {
            return false;
        };
        let frame = self.frame_at(index, probe.start);
        let meta = self.pool.meta_if(frame);
        let marked = meta.is_some_and(|meta| meta.transmissions.is(Transmissions::LOST));
        let alone = marked && lost == probe.end - probe.start;
        if alone {
            self.leave_window(index, &mut search, probe);
        }
        self.stack.keep_search(index, search);
        self.shorten(index, frame);
        alone
    }

    /// Without selective acknowledgments: three duplicates have come, and a recovery is to begin. Says whether what is missing is a probe,
    /// whose bytes then are in segments of the usual length again.
    #[cold]
    #[inline(never)]
    pub(in crate::tcp) fn mtu_probe_is_missing(&mut self, index: usize) -> bool {
        let Some(mut search) = self.stack.search_of(index) else {
            return false;
        };
        let Some(probe) = search.probe.take() else {
            return false;
        };
        let missing = probe.start == self.stack.tcbs[index].snd_una;
        if missing {
            self.leave_window(index, &mut search, probe);
        }
        self.stack.keep_search(index, search);
        let frame = self.frame_at(index, probe.start);
        self.shorten(index, frame);
        missing
    }

    /// A probe and nothing else is lost: the window is to stay what it is, and the threshold of slow start is to be so again when all is
    /// repaired.
    fn leave_window(&mut self, index: usize, search: &mut Search, probe: Probe) {
        search.failed(probe.size);
        let tcb = &mut self.stack.tcbs[index];
        search.threshold = Some(tcb.ssthresh);
        tcb.ssthresh = tcb.cwnd;
        self.stack.counters.mtu_probes_lost += 1;
    }

    /// A recovery of a lost probe has seen another loss, or is over. Brings the threshold of slow start back that the probe's loss was
    /// not to change, and says whether there was such a recovery.
    #[inline]
    pub(in crate::tcp) fn mtu_recovery_ends(&mut self, index: usize) -> bool {
        if !self.stack.tcbs[index].is_rare(rare::MTU_SEARCH) {
            return false;
        }
        cold_path();
        self.bring_threshold_back(index)
    }

    #[inline(never)]
    fn bring_threshold_back(&mut self, index: usize) -> bool {
        let Some(mut search) = self.stack.search_of(index) else {
            return false;
        };
        let Some(threshold) = search.threshold.take() else {
            return false;
        };
        self.stack.tcbs[index].ssthresh = threshold;
        self.stack.keep_search(index, search);
        true
    }

    /// The retransmission timer has fired: a probe that is out counts as lost (RFC 4821, 7.6.3), and nothing is probed for before all is
    /// repaired.
    #[cold]
    #[inline(never)]
    pub(in crate::tcp) fn mtu_probe_timed_out(&mut self, index: usize) {
        self.mtu_recovery_ends(index);
        let Some(mut search) = self.stack.search_of(index) else {
            return;
        };
        let Some(probe) = search.probe.take() else {
            return;
        };
        let frame = self.frame_at(index, probe.start);
        let sent = self.pool.meta_if(frame);
        if sent.is_some_and(|meta| !meta.transmissions.is_none()) {
            search.failed(probe.size);
            self.stack.counters.mtu_probes_lost += 1;
        }
        self.stack.keep_search(index, search);
        self.shorten(index, frame);
    }

    /// The timer has fired `times` in a row, and everything is to be sent again: from R1 on, where the first segment is longer than what
    /// every path takes, the path is taken for a black hole (RFC 4821, 7.7). Segments become shorter than that one.
    #[cold]
    #[inline(never)]
    pub(in crate::tcp) fn suspect_black_hole(&mut self, index: usize, times: u8) {
        let probing = self.stack.config.mechanisms.mtu_probing;
        if times < R1 || probing == MtuProbing::Off {
            return;
        }
        let tcb = &self.stack.tcbs[index];
        let (base, least) = base_and_least(tcb);
        let head = self.pool.meta_if(tcb.tx_head);
        let size = head.map_or(0, |head| head.tx_len) + overhead(tcb);
        if size <= least {
            // Every path takes it.
            return;
        }
        let search = self.stack.search_of(index);
        let low = search.map_or(base, |search| search.low);
        let smaller = if low < size {
            low
        } else if base < size {
            base
        } else {
            (size / 2).max(least)
        };
        let largest = self.pool.bound_mtu(self.stack.largest_packet(index));
        self.stack.keep_search(index, Search::new(smaller, largest));
        self.stack.counters.black_holes += 1;
        let size = self.pool.bound_mtu(smaller);
        let tcb = &mut self.stack.tcbs[index];
        set_mss(tcb, size);
        let mss = tcb.mss;
        // RFC 5681, 3.1: the loss window is one full segment.
        tcb.cwnd = u32::from(mss);
        self.cut_queue(index, mss);
    }

    /// A router says that the path takes only packets of `mtu` bytes: the search does not go beyond.
    #[cold]
    #[inline(never)]
    pub(in crate::tcp) fn mtu_is_told(&mut self, index: usize, mtu: u16) {
        if let Some(mut search) = self.stack.search_of(index) {
            search.packet_too_big(mtu);
            self.stack.keep_search(index, search);
        }
    }

    /// The frame of the send queue that begins there.
    fn frame_at(&self, index: usize, start: SeqNumber) -> FrameId {
        let mut id = self.stack.tcbs[index].tx_head;
        while let Some(meta) = self.pool.meta_if(id)
            && meta.tx_seq != start
        {
            id = meta.tx_next;
        }
        id
    }

    /// Cuts a frame to segments of the usual length, unless the peer has it, or a part of it.
    fn shorten(&mut self, index: usize, mut id: FrameId) {
        let tcb = &self.stack.tcbs[index];
        let (mss, una) = (tcb.mss, tcb.snd_una);
        while let Some(meta) = self.pool.meta_if(id)
            && meta.tx_len > mss
            && una.at_or_before(meta.tx_seq)
            && !meta.transmissions.is(Transmissions::SACKED)
            && self.split(index, id, mss)
        {
            id = self.pool.meta(id).tx_next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a path that takes `path` bytes; gives the size that is found, and the probes that it took.
    fn search(low: u16, high: u16, path: u16) -> (u16, u32) {
        let mut search = Search::new(low, high);
        let mut probes = 0;
        while let Some(size) = search.next() {
            assert!(search.low < size && size <= search.high);
            probes += 1;
            assert!(probes < 100, "the search does not end");
            if size <= path {
                search.passed(size);
            } else {
                search.failed(size);
            }
        }
        (search.low, probes)
    }

    /// RFC 8899, 5.3.2: every size is found to within the least gain that is worth a probe.
    #[test]
    fn search_comes_close_to_every_size() {
        for (low, high) in [(1024, 1500), (1280, 1500), (576, 9000), (1024, 65_344)] {
            for path in (low..=high).step_by(7) {
                let (found, probes) = search(low, high, path);
                assert!(found <= path && path - found < CLOSE, "{path}: {found}");
                assert!(probes < 60, "{probes} probes for {path}");
            }
        }
    }

    /// The path that was only silent for a while costs one probe.
    #[test]
    fn largest_size_is_tried_first() {
        assert_eq!(search(1024, 1500, 1500), (1500, 1));
        assert_eq!(search(1024, 1028, 1028), (1024, 0));
    }

    /// RFC 8899, 5.1.2: MAX_PROBES losses of one size are needed, the largest apart.
    #[test]
    fn single_losses_do_not_end_a_size() {
        let mut search = Search::new(1024, 1500);
        search.failed(1500);
        assert_eq!((search.low, search.high), (1024, 1499));
        let size = search.next().unwrap();
        for _ in 1..MAX_PROBES {
            search.failed(size);
            assert_eq!(search.next(), Some(size));
        }
        search.failed(size);
        assert_eq!(search.high, size - 1);
    }

    /// RFC 4821, 7.6.2: what a router tells bounds the search.
    #[test]
    fn told_size_is_the_upper_bound() {
        let mut search = Search::new(1024, 1500);
        search.packet_too_big(1300);
        assert_eq!((search.low, search.high), (1024, 1300));
        assert_eq!(search.next(), Some(1300));
        // The probe that it was told of is lost, which is no news.
        search.failed(1500);
        assert_eq!(search.next(), Some(1300));
        search.packet_too_big(900);
        assert_eq!((search.low, search.high), (900, 900));
        assert_eq!(search.next(), None);
    }
}

//! TCP Fast Open, the server's side (RFC 7413): data in a SYN is taken before the handshake is complete.
//!
//! A client that proves by a cookie that it can be reached at its address (4.1) may send data in its SYN. The connection is accepted at
//! once, and the application may answer before the handshake is complete. The cookie is a keyed hash of both addresses and of the
//! hour, so the server keeps nothing; one of the hour before is still good (4.1.2). A SYN without a good cookie opens a connection as
//! any other does, and its answer brings one (4.2.1); data in it is left to be sent again.
//!
//! Work that an attacker with a cookie can make is bounded (5.1): a listener has so many connections whose handshake is not
//! complete ([`crate::Open::fast_open`]), and one that was reset counts for a minute more. Beyond that SYNs are taken without
//! their data. Until the handshake is complete nothing of such a connection is predicted, and Nagle's algorithm is off: what is
//! unacknowledged is no data. Data in a SYN may be delivered twice, when the network doubles a SYN (6.1); so a listener has it off
//! unless it asks.

use crate::demux::{FlowKey, Sip};
use crate::stack::{Active, Stack};
use crate::tcp::deadline::{Deadline, Due};
use crate::tcp::receive_queue;
use crate::tcp::slow::segment::Segment;
use crate::tcp::tcb::{State, Tcb, flag, rare};
use crate::time::{Instant, Tick, ticks};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::hint::cold_path;
use core::time::Duration;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::FastOpenCookie;

/// Time for which the connection of a client counts that has reset it (RFC 7413, 5.1).
const RESET_COUNTS: Duration = Duration::from_secs(60);
/// Nanoseconds of the period of a cookie: an hour.
const PERIOD: u64 = 3_600_000_000_000;

/// Makes and checks cookies.
#[derive(Clone, Debug)]
pub(crate) struct Cookies(Sip);

impl Cookies {
    /// Cookies under this key.
    pub(crate) const fn new(key: Sip) -> Self {
        Self(key)
    }

    fn of_period(&self, key: FlowKey, period: u64) -> FastOpenCookie {
        let hash = self.0.flow::<2, 4>(FlowKey {
            ports: period as u32,
            ..key
        });
        FastOpenCookie::of_eight(hash.to_be_bytes())
    }

    /// The cookie of a client that sends packets with this key.
    fn make(&self, key: FlowKey, now: Instant) -> FastOpenCookie {
        self.of_period(key, now.as_nanos() / PERIOD)
    }

    /// Tells whether a cookie was made for this client in this hour or the one before.
    fn check(&self, key: FlowKey, cookie: FastOpenCookie, now: Instant) -> bool {
        let period = now.as_nanos() / PERIOD;
        [period, period.wrapping_sub(1)]
            .into_iter()
            .any(|period| self.of_period(key, period) == cookie)
    }
}

/// Connections of a listener that carry data before their handshake is complete.
#[derive(Debug, Default)]
pub(crate) struct Early {
    /// The most that there may be.
    limit: u16,
    /// Connections whose handshake is not complete.
    pub(in crate::tcp) open: u16,
    /// When those are forgotten that were reset by their client.
    resets: VecDeque<Tick>,
}

impl Early {
    /// The count of a listener that takes early data of so many connections, if any.
    pub(in crate::tcp) fn new(limit: u16) -> Option<Box<Self>> {
        (limit != 0).then(|| {
            Box::new(Self {
                limit,
                ..Self::default()
            })
        })
    }

    fn has_room(&mut self, now: Tick) -> bool {
        while self.resets.front().is_some_and(|until| until.reached(now)) {
            self.resets.pop_front();
        }
        usize::from(self.open) + self.resets.len() < usize::from(self.limit)
    }
}

impl Tcb {
    /// Tells whether the application may send although the handshake is not complete.
    #[cold]
    pub(crate) fn sends_early(&self) -> bool {
        self.state == State::SynReceived
            && self.is_rare(rare::FAST_OPEN)
            && self.listener != u32::MAX
    }
}

impl Stack {
    /// The count of a listener, where Fast Open is on.
    fn early_of(&mut self, listener: u32) -> Option<&mut Early> {
        let listener = self.listeners.get_mut(listener as usize)?.as_mut()?;
        listener.early.as_deref_mut()
    }

    /// A connection with early data has completed its handshake, or is over.
    fn leave_early(&mut self, index: usize) {
        let tcb = &mut self.tcbs[index];
        tcb.rare &= !rare::FAST_OPEN;
        let listener = tcb.listener;
        if let Some(early) = self.early_of(listener) {
            early.open = early.open.saturating_sub(1);
        }
    }

    /// A connection goes: it no longer counts as one whose handshake is not complete.
    #[cold]
    pub(in crate::tcp) fn forget_early(&mut self, index: usize) {
        if self.tcbs[index].is_rare(rare::FAST_OPEN) {
            self.leave_early(index);
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// A SYN with the Fast Open option for a port that somebody listens on. Returns whether its frame was kept.
    pub(in crate::tcp) fn fast_open_arrives(
        &mut self,
        listener: u32,
        (key, cookie): (FlowKey, FastOpenCookie),
        segment: &Segment,
        last: Option<SeqNumber>,
    ) -> bool {
        let syn = segment.syn();
        let now = self.now;
        let Some(early) = self.stack.early_of(listener) else {
            self.syn_for_listener(listener, key, &syn, last, |_, _| {});
            return false;
        };
        let room = early.has_room(now.tick());
        // Cookies are of addresses, and not of the id that their pair has for now.
        let label = self.stack.label_of(key);
        let cookies = &self.stack.secrets.fast_open;
        let good = cookies.check(label, cookie, now);
        let answer = (!good).then(|| cookies.make(label, now));
        let takes = good && room && segment.len != 0;
        let mut kept = false;
        self.syn_for_listener(listener, key, &syn, last, |this, index| {
            if let Some(cookie) = answer {
                this.stack
                    .change_extension(index, |own| own.fast_open = Some(cookie));
            }
            kept = takes && this.take_early_data(index, segment);
        });
        kept
    }

    /// Takes the data of a SYN, and lets the connection be accepted. Returns whether there was room for it.
    fn take_early_data(&mut self, index: usize, segment: &Segment) -> bool {
        let tcb = &self.stack.tcbs[index];
        let fits = u32::from(segment.len) <= tcb.rx_free;
        let behind = self.stack.behind;
        if !fits || !receive_queue::takes(tcb, self.pool, segment.id, segment.len, behind) {
            return false;
        }
        self.deliver(index, segment.id, segment.offset, segment.len);
        let tcb = &mut self.stack.tcbs[index];
        // The SYN that answers acknowledges it.
        tcb.unacked = 0;
        tcb.ack_deadline = Deadline::NONE;
        tcb.rcv_edge = tcb.rcv_nxt + tcb.rx_free.min(0xffff);
        tcb.rare |= rare::FAST_OPEN;
        if !tcb.is(flag::NO_DELAY) {
            tcb.flags |= flag::NO_DELAY;
            tcb.rare |= rare::NAGLE_LATER;
        }
        tcb.predict();
        let listener = tcb.listener;
        if let Some(early) = self.stack.early_of(listener) {
            early.open += 1;
        }
        self.stack.counters.fast_opens_accepted += 1;
        self.stack.queue_to_accept(index);
        true
    }

    /// The handshake is complete, of a connection that may carry data already. `echo` is that of [`Active::answered_after_loss`].
    #[inline(always)]
    pub(in crate::tcp) fn established_maybe_early(&mut self, index: usize, echo: Option<u32>) {
        if self.stack.tcbs[index].is_rare(rare::FAST_OPEN) {
            cold_path();
            self.established_early(index, echo);
        } else {
            self.established(index);
            self.answered_after_loss(index, echo);
        }
    }

    #[cold]
    fn established_early(&mut self, index: usize, echo: Option<u32>) {
        self.early_data_answered(index);
        self.stack.leave_early(index);
        let tcb = &mut self.stack.tcbs[index];
        // It stands in its listener's list already, or was accepted.
        let unaccepted = tcb.rare & rare::UNACCEPTED;
        if tcb.is_rare(rare::NAGLE_LATER) {
            tcb.flags &= !flag::NO_DELAY;
        }
        tcb.rare &= !(rare::UNACCEPTED | rare::NAGLE_LATER);
        self.established(index);
        self.answered_after_loss(index, echo);
        let tcb = &mut self.stack.tcbs[index];
        tcb.rare |= unaccepted;
        tcb.predict();
        if tcb.in_flight() != 0 {
            // The round trip is known, or the SYN was lost: the timeout is another, and what was sent early is under way since now.
            let rto = u32::from(tcb.rto);
            self.set_due(index, Due::Retransmission, rto);
            self.stack.arm_probe(self.pool, index, self.now);
        }
    }

    /// The client of a connection has reset it before the handshake was complete.
    pub(in crate::tcp) fn early_reset(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        if !tcb.is_rare(rare::FAST_OPEN) {
            return;
        }
        let until = self.now.tick().after(ticks(RESET_COUNTS));
        let listener = tcb.listener;
        if let Some(early) = self.stack.early_of(listener) {
            early.resets.push_back(until);
        }
    }
}

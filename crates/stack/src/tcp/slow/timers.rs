//! Timers: retransmission (RFC 6298), tail loss probes, probes of a closed window (RFC 9293, 3.8.6.1), delayed acknowledgments,
//! keepalive (3.8.4), user timeout (3.8.3).

use crate::config::{Config, Timers};
use crate::socket::Error;
use crate::stack::{Active, Stack};
use crate::tcp::cc;
use crate::tcp::deadline::{Deadline, Due};
use crate::tcp::recovery::rto::{Rtt, backed_off};
use crate::tcp::slow::redundancy::Agreement;
use crate::tcp::tcb::{LOOK, QUIET_LOOKS, State, Tcb, flag, rare};
use crate::time::{Instant, Tick, ticks};
use tollgate_checksum::Accumulator;
use tollgate_gate::Recorder;
use tollgate_wire::tcp::Flags;

/// Times that a connection stays in states that wait, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periods {
    /// A SYN is tried.
    pub(crate) connect: u32,
    /// FIN-WAIT-2 without an application.
    pub(crate) fin_wait_2: u32,
    /// TIME-WAIT: twice the maximum segment lifetime.
    pub(crate) time_wait: u32,
}

impl Periods {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            connect: ticks(config.connect_timeout),
            fin_wait_2: ticks(config.fin_wait_2_timeout),
            time_wait: ticks(config.msl) * 2,
        }
    }
}

/// Ticks between walks for acknowledgments that wait: 200 ms (4.3BSD, tcp_fasttimo).
const FAST: u64 = 191;
/// Ticks between walks for all other deadlines: 500 ms (4.3BSD, tcp_slowtimo).
const SLOW: u64 = 477;

impl Stack {
    /// Ticks without progress after which a connection is given up (RFC 9293, 3.8.3, R2).
    fn user_timeout(&self, index: usize) -> u32 {
        let own = self.extension(index).and_then(|own| own.user_timeout);
        own.unwrap_or_else(|| ticks(self.config.user_timeout))
    }

    /// Ticks from now after which a connection is given up whose retransmission timer has fired and that has seen no progress since
    /// `since`. Where that time is over already, because it is shorter than the retransmission timeout or because nobody has
    /// polled, one retransmission may still be answered.
    fn time_to_give_up(&self, index: usize, now: Tick, since: Option<Tick>) -> u32 {
        let limit = self.user_timeout(index);
        let waited = since.map_or(0, |since| now.since(since));
        if waited < limit {
            limit - waited
        } else {
            limit.min(u32::from(self.tcbs[index].rto))
        }
    }

    /// Tells whether a silent peer is given up before all probes are out: the application has set a timeout of its own, and the
    /// silence with so many unanswered probes is as long.
    fn outlives_user_timeout(&self, index: usize, unanswered: u8) -> bool {
        let tcb = &self.tcbs[index];
        let own = self.extension(index).and_then(|own| own.user_timeout);
        let silence =
            u64::from(tcb.keep_idle) + u64::from(unanswered) * u64::from(tcb.keep_interval);
        unanswered != 0 && own.is_some_and(|timeout| silence >= u64::from(timeout))
    }

    /// When connections are walked next, where they are ([`Timers::List`]).
    pub(crate) fn next_walk(&self, now: Instant) -> Option<Tick> {
        let walks = self.config.mechanisms.timers == Timers::List && self.open_connections != 0;
        let next = |interval: u64| (now.ticks() / interval + 1) * interval;
        walks.then(|| Tick(next(FAST).min(next(SLOW)) as u32))
    }
}

impl Tcb {
    /// The peer has shown that it is there.
    pub(crate) fn keep_probes_answered(&mut self) {
        let probed = self.is_probed();
        self.keep_looks = 0;
        if probed {
            self.predict();
        }
    }

    /// Ticks to the next look of the keepalive timer while nothing is probed. An even number, since deadlines are odd, but for
    /// the last of them, which makes up the whole time.
    pub(crate) fn keep_look_interval(&self) -> u32 {
        let looks = u32::from(QUIET_LOOKS);
        let interval = (self.keep_idle / looks) & !1;
        if self.keep_looks + 1 == QUIET_LOOKS {
            self.keep_idle - (looks - 1) * interval
        } else {
            interval
        }
    }

    /// RFC 2861, 3.1: the window of a connection that has sent nothing is halved with each timeout's time that goes by, down to the
    /// initial one, and the threshold keeps three quarters of it. RFC 5681, 4.1 would have it begin with the initial window after
    /// the first: but what the network took a timeout ago it likely takes still, and pacing spreads it (RFC 7661, 1; decision 28). Returns
    /// when it is to be looked at for that. The timer's entry fires once within a timeout of the last segment; from there on the
    /// quiet is measured.
    fn decay_while_idle(&mut self, now: Tick) -> Option<Tick> {
        let least = cc::initial_window(self.mss);
        if self.in_flight() != 0 || self.unsent.is_some() || self.cwnd <= least {
            return None;
        }
        if !self.is(flag::QUIET) {
            self.flags |= flag::QUIET;
            self.quiet_since = now.0 as u16;
        }
        let mut quiet = (now.0 as u16).wrapping_sub(self.quiet_since);
        while quiet >= self.rto {
            quiet -= self.rto;
            self.quiet_since = self.quiet_since.wrapping_add(self.rto);
            self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
            self.cwnd = least.max(self.cwnd / 2);
            if self.cwnd == least {
                self.set_paced(false);
                return None;
            }
        }
        Some(now.after(u32::from(self.rto - quiet)))
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Does what is due at `ticks` since the epoch, having last looked at `before`.
    pub(crate) fn tcp_timers(&mut self, before: u64, ticks: u64) {
        // The wheel goes at most once round at a time, and after twice round everything has come.
        const HALF_ROUND: u64 = 1 << 31;
        let mut at = before.max(ticks.saturating_sub(4 * HALF_ROUND));
        while ticks - at > HALF_ROUND {
            at += HALF_ROUND;
            self.stack.wheel.advance(Tick(at as u32));
        }
        let tick = Tick(ticks as u32);
        let timers = self.stack.config.mechanisms.timers;
        if timers == Timers::List {
            self.walk_connections(before, ticks);
        }
        self.stack.wheel.advance(tick);
        while let Some(index) = self.stack.wheel.pop_expired() {
            let index = index as usize;
            match timers {
                Timers::LazyWheel => self.connection_timer(index, tick),
                Timers::List => self.look_at_connection(index, tick),
            }
        }
        while let Some(index) = self.stack.time_wait.expired(tick) {
            self.forget_time_wait(index);
        }
    }

    /// A connection's wheel entry fired: does what is due, if anything is, and sets the entry to what is due next.
    fn connection_timer(&mut self, index: usize, tick: Tick) {
        let generation = self.stack.tcbs[index].generation;
        // An entry that is set while this runs must be earlier than this to count.
        self.stack.tcbs[index].armed = tick.after(LOOK);
        self.do_what_is_due_on(index, tick);
        if self.stack.tcbs[index].generation == generation {
            self.look_at_connection(index, tick);
        }
    }

    /// Does what is due on a connection.
    fn do_what_is_due_on(&mut self, index: usize, tick: Tick) {
        let tcb = &mut self.stack.tcbs[index];
        if tcb.ack_deadline.reached(tick) {
            tcb.ack_deadline = Deadline::NONE;
            self.acknowledge(index);
            self.stack.tcbs[index].acknowledge_quickly();
        }
        self.do_what_else_is_due_on(index, tick);
    }

    /// Does what is due on a connection, acknowledgments apart.
    fn do_what_else_is_due_on(&mut self, index: usize, tick: Tick) {
        let probe = self.stack.next_probe(self.pool, index, tick);
        if probe.is_some_and(|at| at.reached(tick)) {
            self.send_tail_probe(index);
        }
        if self.stack.tcbs[index].rtx_deadline.reached(tick) {
            self.retransmission_timeout(index);
        }
        let Stack {
            tcbs, controllers, ..
        } = &mut *self.stack;
        if controllers.pace_comes(&tcbs[index], index, tick) {
            self.output(index);
        }
        self.widen_path_if_due(index, tick);
        if self.stack.tcbs[index].keep_deadline.reached(tick) {
            self.keep_alive(index);
        }
        if self.stack.tcbs[index].user_deadline.reached(tick) {
            self.give_up(index);
        }
    }

    /// Looks for what no deadline tells of, and sets the connection's entry to what is due next.
    fn look_at_connection(&mut self, index: usize, tick: Tick) {
        let timers = self.stack.config.mechanisms.timers;
        let tcb = &mut self.stack.tcbs[index];
        if matches!(tcb.state, State::Closed | State::TimeWait) {
            return;
        }
        tcb.check_ts_recent(tick);
        self.tune_receive_buffer(index);
        let tcb = &mut self.stack.tcbs[index];
        let look = tcb.decay_while_idle(tick).unwrap_or(tick.after(LOOK));
        let earliest = match timers {
            Timers::LazyWheel => tcb.earliest_deadline(),
            // Whoever walks comes to it in any case.
            Timers::List => None,
        };
        let probe = self.stack.next_probe(self.pool, index, tick);
        let wider = self.stack.path_widens_at(index);
        let Stack {
            tcbs, controllers, ..
        } = &*self.stack;
        let pace = controllers.pace_due(&tcbs[index], index);
        let next = [earliest, probe, pace, wider];
        let next = next.into_iter().flatten();
        let next = next.fold(look, |next, at| if at.before(next) { at } else { next });
        self.stack.tcbs[index].armed = next;
        self.stack.wheel.insert(index as u32, next);
    }

    /// Walks all connections for acknowledgments that wait, or for what else is due, when the time for that has come since
    /// `before`.
    fn walk_connections(&mut self, before: u64, ticks: u64) {
        let has_come = |interval: u64| before / interval != ticks / interval;
        if has_come(FAST) {
            for index in 0..self.stack.tcbs.len() {
                if self.stack.tcbs[index].ack_deadline.is_set() {
                    self.stack.tcbs[index].ack_deadline = Deadline::NONE;
                    self.acknowledge(index);
                    self.stack.tcbs[index].acknowledge_quickly();
                    self.tune_receive_buffer(index);
                }
            }
        }
        if has_come(SLOW) {
            for index in 0..self.stack.tcbs.len() {
                self.do_what_else_is_due_on(index, Tick(ticks as u32));
            }
        }
    }

    fn retransmission_timeout(&mut self, index: usize) {
        let max_rto = self.stack.max_rto;
        let since = self.stack.unanswered_since(index);
        let tcb = &mut self.stack.tcbs[index];
        tcb.rtx_deadline = Deadline::NONE;
        if self.stack.waits_for_reordering(index) {
            return self.reordering_timeout(index);
        }
        let tcb = &self.stack.tcbs[index];
        let opening = matches!(tcb.state, State::SynSent | State::SynReceived);
        if tcb.tx_head.is_none() && !opening {
            return;
        }
        if tcb.waits_for_more() {
            return self.send_partial(index);
        }
        let first = tcb.backoff == 0;
        let unanswered = tcb.user_deadline.is_set() || !tcb.is_rare(rare::PERSIST);
        if unanswered && tcb.leaves_checksums_out() {
            // A device on the way may drop what has no checksum.
            self.stack.keep_checksums(index, Agreement::TimedOut);
        }
        let tcb = &mut self.stack.tcbs[index];
        tcb.backoff = tcb.backoff.saturating_add(1);
        let again = backed_off(tcb.rto, tcb.backoff, max_rto);
        // RFC 9293, 3.8.3: R2; RFC 5482, 1: "how long transmitted data may remain unacknowledged". What waits for a window was not sent.
        let since = since.filter(|_| first && tcb.in_flight() != 0);
        let now = self.now.tick();
        let limit =
            (!tcb.user_deadline.is_set()).then(|| self.stack.time_to_give_up(index, now, since));
        self.set_due(index, Due::Retransmission, again);
        if let Some(limit) = limit {
            self.set_due(index, Due::GiveUp, limit);
        }
        let tcb = &mut self.stack.tcbs[index];
        if tcb.snd_wnd == 0 && tcb.state.is_synchronized() {
            // The window shrank to nothing over what is in flight: that is probed as well (RFC 9293, MUST-35).
            tcb.rare |= rare::PERSIST;
            tcb.predict();
        }
        if tcb.is_rare(rare::PERSIST) {
            self.probe_window(index);
            return;
        }
        tcb.timeouts = tcb.timeouts.saturating_add(1);
        let times = tcb.backoff;
        self.stack.counters.timeouts += 1;
        self.sent_again(index, times);
        if opening {
            self.syn_timeout(index);
            return;
        }
        let again = self.stack.tcbs[index].is_rare(rare::LOSS);
        self.forget_losses(index);
        self.mtu_probe_timed_out(index);
        self.suspect_timeout(index, first && !again);
        let tcb = &mut self.stack.tcbs[index];
        let flight = tcb.in_flight();
        self.stack.controllers.on_timeout(tcb, index, flight, first);
        self.stack.window_reduced(index);
        let tcb = &mut self.stack.tcbs[index];
        tcb.rare &= !rare::RECOVERY;
        tcb.dup_acks = 0;
        tcb.go_back();
        self.suspect_black_hole(index, times);
        self.settle_if_marked(index);
        self.output(index);
        let tcb = &mut self.stack.tcbs[index];
        if tcb.snd_nxt == tcb.snd_una {
            // Not even the first fits into the window, or there was no room for it.
            self.retransmit_first(index);
        }
    }

    /// The SYN was not answered: again.
    fn syn_timeout(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.retransmits = tcb.retransmits.saturating_add(1);
        // Karn: what was sent twice is not timed, unless the answer says to which it is. Only the general path looks.
        tcb.rtt = Rtt::UNKNOWN;
        tcb.rare |= rare::UNPREDICTED;
        tcb.predict();
        self.stack.counters.retransmits += 1;
        self.stack.syn_unanswered(index);
        self.fast_open_timeout(index);
        self.send_syn(index);
    }

    /// One byte, or what fits, into a window that is closed (RFC 9293, 3.8.6.1, MUST-36).
    fn probe_window(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        let in_flight = tcb.snd_nxt != tcb.snd_una;
        let id = if in_flight { tcb.tx_head } else { tcb.unsent };
        if id.is_none() {
            return;
        }
        // The peer may have taken the first bytes of the frame already.
        let taken = tcb.snd_una - self.pool.meta(id).tx_seq;
        let bytes =
            (taken + tcb.snd_wnd.clamp(1, u32::from(tcb.mss))).min(u32::from(u16::MAX)) as u16;
        // A frame that is short enough is sent whole.
        self.split(index, id, bytes);
        if in_flight {
            // The path may not take more than a probe, either.
            self.retransmit(index, id);
        } else {
            self.send_probe(index);
        }
    }

    fn send_probe(&mut self, index: usize) {
        let id = self.stack.tcbs[index].unsent;
        if !self.retransmit(index, id) {
            // The timer runs, and it is still to be sent.
            return;
        }
        let tcb = &mut self.stack.tcbs[index];
        let meta = self.pool.meta_mut(id);
        tcb.unsent = meta.tx_next;
        tcb.snd_nxt = meta.tx_end;
        // Counted as a retransmission, so that its round trip is not timed: the peer answers when it has room.
        meta.transmissions.increment();
        meta.tx_limit = 0;
    }

    /// RFC 9293, 3.8.4: asks an idle peer whether it is still there.
    fn keep_alive(&mut self, index: usize) {
        let tick = self.now.tick();
        let tcb = &mut self.stack.tcbs[index];
        let since = tcb.keep_deadline.tick().unwrap_or(tick);
        tcb.keep_deadline = Deadline::NONE;
        if tcb.keep_idle == 0 || matches!(tcb.state, State::Closed | State::TimeWait) {
            return;
        }
        let seen = tcb.moved();
        let opening = !tcb.state.is_synchronized();
        if opening || seen != tcb.keep_seen || tcb.in_flight() != 0 {
            // Something moved, or the retransmission timer is asking already, as it is while the handshake goes on.
            tcb.keep_seen = seen;
            tcb.keep_probes_answered();
            let look = tcb.keep_look_interval();
            self.set_due(index, Due::KeepAlive, since.after(look).since(tick));
            return;
        }
        if !tcb.is_probed() {
            // A stack that was polled late has missed some looks.
            let missed = tick.since(since) / tcb.keep_look_interval().max(1);
            let looks = u32::from(tcb.keep_looks) + 1 + missed;
            tcb.keep_looks = looks.min(u32::from(QUIET_LOOKS) - 1) as u8;
            if looks < u32::from(QUIET_LOOKS) {
                let look = tcb.keep_look_interval();
                self.set_due(index, Due::KeepAlive, since.after(look).since(tick));
                return;
            }
        }
        let unanswered = tcb.keep_looks + 1 - QUIET_LOOKS;
        if unanswered >= tcb.keep_count || self.stack.outlives_user_timeout(index, unanswered) {
            self.kill(index, Error::TimedOut);
            return;
        }
        let tcb = &mut self.stack.tcbs[index];
        let interval = tcb.keep_interval;
        // An old sequence number draws an acknowledgment and carries nothing.
        let seq = tcb.highest_sent() - 1;
        let room = self.device_has_room();
        let Some(id) = room.then(|| self.pool.alloc()).flatten() else {
            // It is no probe that the peer has left unanswered.
            self.set_due(index, Due::KeepAlive, 1);
            return;
        };
        let tcb = &mut self.stack.tcbs[index];
        tcb.keep_looks += 1;
        tcb.predict();
        self.set_due(index, Due::KeepAlive, interval);
        self.emit(index, id, seq, Flags::ACK, 0, Accumulator::ZERO);
    }

    /// Sets the connection's own user timeout. One that runs ends when it would have, had it begun with that.
    #[cold]
    pub(crate) fn set_user_timeout(&mut self, index: usize, timeout: Option<u32>) {
        let before = self.stack.user_timeout(index);
        self.stack
            .change_extension(index, |extension| extension.user_timeout = timeout);
        let limit = self.stack.user_timeout(index);
        let tcb = &self.stack.tcbs[index];
        // While a connection is opened the time to connect counts.
        if let Some(end) = tcb.user_deadline.tick()
            && tcb.state.is_synchronized()
        {
            let began = Tick(end.0.wrapping_sub(before));
            let left = began.after(limit).since(self.now.tick());
            self.set_due(index, Due::GiveUp, left);
        }
    }

    /// The time that a connection had is over.
    fn give_up(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.user_deadline = Deadline::NONE;
        match tcb.state {
            State::Closed | State::Listen | State::TimeWait => {}
            State::FinWait2 if tcb.is_rare(rare::ORPHAN) => self.end_fin_wait_2(index),
            _ => {
                if tcb.state.is_synchronized() {
                    self.send_reset_of(index);
                }
                self.kill(index, Error::TimedOut);
            }
        }
    }

    /// A sign of life while probes or retransmissions are out: the time to give up starts anew.
    pub(crate) fn progress(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        if !tcb.is_rare(rare::ORPHAN) || tcb.state != State::FinWait2 {
            tcb.user_deadline = Deadline::NONE;
        }
        tcb.keep_probes_answered();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_of_an_idle_connection_decays_and_its_threshold_remembers() {
        let mut tcb = Tcb {
            mss: 1_000,
            cwnd: 64_000,
            ssthresh: 20_000,
            rto: 200,
            ..Tcb::FREE
        };
        let mut look = |at: u32| {
            let next = tcb.decay_while_idle(Tick(at));
            (next, tcb.cwnd, tcb.ssthresh)
        };
        // The first look begins to measure.
        assert_eq!(look(1_000), (Some(Tick(1_200)), 64_000, 20_000));
        assert_eq!(look(1_199), (Some(Tick(1_200)), 64_000, 20_000));
        assert_eq!(look(1_200), (Some(Tick(1_400)), 32_000, 48_000));
        // A look that comes late makes up for two.
        assert_eq!(look(1_700), (None, 10_000, 48_000));
        assert_eq!(look(9_000), (None, 10_000, 48_000));
    }

    #[test]
    fn window_with_something_in_flight_does_not_decay() {
        let mut tcb = Tcb {
            mss: 1_000,
            cwnd: 64_000,
            rto: 200,
            ..Tcb::FREE
        };
        tcb.snd_nxt = tcb.snd_una + 1;
        assert_eq!(tcb.decay_while_idle(Tick(1_000)), None);
        assert_eq!(tcb.decay_while_idle(Tick(9_000)), None);
        assert_eq!(tcb.cwnd, 64_000);
    }
}

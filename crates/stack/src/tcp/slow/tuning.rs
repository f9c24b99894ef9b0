//! Sizes of buffers that follow what a connection needs ([`Tuning::On`]).
//!
//! The receive buffer, and with it the window, becomes twice what the application has taken in a round trip (dynamic
//! right-sizing, Fisk and Feng 2001; Linux does so, too): a sender that doubles its window in the next round trip finds room. The send buffer becomes twice
//! the window, as soon as an application is refused that could fill it.
//!
//! Growth of all buffers together is at most a quarter of what the pool holds ([`SHARE`]), so the shares of all others
//! stand as before. A buffer does not shrink: a window that was offered is not taken back (RFC 9293, SHLD-14). What a connection
//! has grown by is given back when it ends.
//!
//! Measuring costs the predicted path nothing. The timer of a connection that receives fires about as often as an acknowledgment
//! may be delayed, and looks then. This module must never make a buffer smaller, nor one of a connection whose application has
//! chosen its size.

use crate::config::{Config, Tuning};
use crate::stack::{Active, Stack};
use crate::tcp::slow::syn::{set_mss_to, shift_for};
use crate::tcp::tcb::rare;
use crate::time::{Tick, ticks};
use core::hint::cold_path;
use core::time::Duration;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;

/// Part of the pool's payload by which buffers may have grown, all together.
const SHARE: usize = 4;
/// Bytes by which a buffer grows at least: less is not worth it.
const STEP: u32 = 4096;
/// Segments that are added to what was taken, for a sender that begins slowly (Linux adds as many).
const SLOW_START: u32 = 16;

/// Bytes that the application had taken, and the time of that look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    up_to: SeqNumber,
    at: Tick,
}

impl Config {
    /// The largest receive buffer that a connection may come to have.
    pub(crate) fn largest_receive_buffer(&self) -> u32 {
        match self.mechanisms.tuning {
            Tuning::On => self.receive_buffer.max(self.max_receive_buffer),
            Tuning::Off => self.receive_buffer,
        }
    }

    /// The shift of the windows that we offer (RFC 7323, 2.2): it is said once, for the largest window.
    pub(crate) fn window_shift(&self) -> u8 {
        shift_for(self.largest_receive_buffer())
    }
}

impl Stack {
    /// Bytes by which a buffer of `size` may grow towards `wanted`, which are counted as taken.
    fn take_share(&mut self, index: usize, payload: usize, size: u32, wanted: u32) -> u32 {
        let share = (payload / SHARE) as u64;
        let left = u32::try_from(share.saturating_sub(self.grown)).unwrap_or(u32::MAX);
        let more = wanted.saturating_sub(size).min(left);
        if more < STEP {
            return 0;
        }
        self.grown += u64::from(more);
        self.change_extension(index, |extension| extension.grown += more);
        more
    }

    /// Bytes by which all buffers have grown beyond their configured sizes.
    pub fn grown_buffers(&self) -> u64 {
        self.grown
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Lets the receive buffer follow what the application has taken. Called now and then while a connection receives.
    #[inline(always)]
    pub(in crate::tcp) fn tune_receive_buffer(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        // Most connections never receive so much.
        if tcb.wraps[1] != 0 || tcb.rcv_nxt - tcb.irs > tcb.rcv_limit {
            cold_path();
            self.look_at_receive_buffer(index);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_at_receive_buffer(&mut self, index: usize) {
        let now = self.now.tick();
        let config = &self.stack.config;
        let tcb = &self.stack.tcbs[index];
        let largest = config.largest_receive_buffer().min(0xffff << tcb.rcv_shift);
        if config.mechanisms.tuning == Tuning::Off
            || tcb.rcv_limit >= largest
            || !tcb.state.may_receive()
            || tcb.is_rare(rare::ORPHAN)
        {
            return;
        }
        let taken = Taken {
            up_to: tcb.consumed(self.pool),
            at: now,
        };
        let before = self.stack.extension(index).and_then(|own| own.taken);
        let round_trip = tcb.rtt.is_known().then(|| tcb.rtt.smoothed_ns());
        let Some(before) = before else {
            self.stack
                .change_extension(index, |own| own.taken = Some(taken));
            return;
        };
        let elapsed = now.since(before.at);
        // A round trip that was never measured is not told from the time between two looks.
        let round_trip = round_trip.map_or(elapsed, |ns| ticks(Duration::from_nanos(ns)).max(1));
        if elapsed == 0 || elapsed < round_trip {
            return;
        }
        self.stack
            .change_extension(index, |own| own.taken = Some(taken));
        let bytes =
            u64::from(taken.up_to - before.up_to) * u64::from(round_trip) / u64::from(elapsed);
        let slow_start = u64::from(SLOW_START) * u64::from(self.our_mss());
        let wanted = u32::try_from(2 * bytes + slow_start)
            .unwrap_or(u32::MAX)
            .min(largest);
        let size = self.stack.tcbs[index].rcv_limit;
        let payload = self.pool.capacity() * self.pool.payload_room();
        let more = self.stack.take_share(index, payload, size, wanted);
        let tcb = &mut self.stack.tcbs[index];
        tcb.rcv_limit += more;
        tcb.rx_free = tcb.rx_free.wrapping_add(more);
        // Windows open in steps that follow from it.
        set_mss_to(tcb, tcb.mss);
    }

    /// Lets the send buffer of an application that was refused follow the window; says whether it has grown.
    #[cold]
    pub(crate) fn tune_send_buffer(&mut self, index: usize) -> bool {
        let config = &self.stack.config;
        let tcb = &self.stack.tcbs[index];
        let chosen = self
            .stack
            .extension(index)
            .is_some_and(|own| own.send_buffer_chosen);
        if config.mechanisms.tuning == Tuning::Off || chosen || self.pool.is_low() {
            return false;
        }
        let largest = config.send_buffer.max(config.max_send_buffer);
        let wanted = tcb.snd_wnd.min(tcb.cwnd).saturating_mul(2).min(largest);
        let size = tcb.snd_limit;
        let payload = self.pool.capacity() * self.pool.payload_room();
        let more = self.stack.take_share(index, payload, size, wanted);
        let tcb = &mut self.stack.tcbs[index];
        tcb.snd_limit += more;
        tcb.predict_sending();
        more != 0
    }
}

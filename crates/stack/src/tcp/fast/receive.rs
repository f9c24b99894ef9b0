//! Input, predicted: the way of most segments, from the frame to the reader, in reading order.
//!
//! Nothing is changed before every check has passed ([`super`] has them as a table); whatever fails goes to
//! [`crate::tcp::slow::segment`] untouched, and the reason is counted. [`super::layout`] chooses how a frame is read,
//! [`super::expect`] has what the segment must say, and what it changes that has passed is [`super::accept`]'s.

use super::accept::{accept, advance};
use super::expect::expect;
use super::header::{self, LEAD};
use super::look_up::is_of;
use crate::buffer::{Frame, Pool};
use crate::compiled::{BY_CONNECTION, NONE, TRAIN};
use crate::counters::Miss;
use crate::demux::Search;
use crate::likely::unlikely;
use crate::socket::Posted;
use crate::socket::readiness;
use crate::stack::{Active, Stack};
use crate::tcp::receive_queue;
use crate::tcp::slow::time_wait::SLOT_BIT;
use crate::tcp::tcb::PSH;
use crate::tcp::template::PLAIN;
use crate::time::Instant;
use core::hint::cold_path;
use tollgate_gate::{Gate, PacketId, Recorder};

impl Stack {
    /// Takes a frame when it is predicted; otherwise has changed nothing and says why. Its headers have `N` bytes, behind `L` that
    /// lead: none, or [`LEAD`] ([`super::layout`]).
    #[inline(always)]
    pub(super) fn predicted_as<
        const L: usize,
        const N: usize,
        const VERIFY: u8,
        const COMMON: bool,
        R: Recorder,
    >(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        mut rec: R,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) -> Result<(), Miss> {
        let Some((lead, bytes)) = pool.frame(frame).split_first_chunk::<L>() else {
            cold_path();
            return Err(Miss::Short);
        };
        let Some((head, behind)) = bytes.split_first_chunk::<N>() else {
            cold_path();
            return Err(Miss::Short);
        };
        let packet = PacketId(if R::ON { header::sequence(head).0 } else { 0 });
        let v6 = lead.first_chunk::<LEAD>();
        rec.pass(Gate::IpInBegin, packet);
        if let Some(lead) = v6 {
            if !header::is_tcp_v6(lead, head, self.mac_word) {
                cold_path();
                return Err(Miss::NotTcp);
            }
        } else {
            if !header::is_tcp(head, self.mac_word) {
                cold_path();
                return self
                    .predicted_after_all::<VERIFY, COMMON, R>(pool, now, rec, frame, posted);
            }
            if VERIFY != NONE && VERIFY != TRAIN && !header::ip_header_is_intact(head) {
                cold_path();
                return Err(Miss::NotTcp);
            }
        }
        rec.pass(Gate::DemuxBegin, packet);
        let mut index = self.cached;
        let destinations = &self.destinations;
        let tcb = match self.tcbs.get_mut(index) {
            Some(tcb) if is_of::<L, N>(tcb, head, destinations) => tcb,
            _ => {
                cold_path();
                let search = match v6 {
                    None => self.look_up(head),
                    Some(_) => self.look_up_v6(header::ends_v6(head), header::ports(head))?,
                };
                match search {
                    Search::Found(slot) if slot & SLOT_BIT == 0 => index = slot as usize,
                    nothing if v6.is_none() => {
                        return self.syn_predicted(pool, now, rec, frame, nothing);
                    }
                    _ => return Err(Miss::NoConnection),
                }
                self.tcbs.get_mut(index).ok_or(Miss::NoConnection)?
            }
        };
        rec.pass(Gate::TcpInBegin, packet);
        // Data offset and flags, PSH set either way. This also stands for the state. A frame that ends within its options is read as
        // one without.
        let expected = header::offset_and_flags(head) | PSH == tcb.predicted;
        if !expected || N == PLAIN && header::has_options(head) {
            cold_path();
            if v6.is_some() {
                return Err(Miss::Flags);
            }
            return self.handshake_predicted(pool, now, rec, index, frame);
        }
        let total_len = v6.map_or_else(|| header::total_len(head), header::total_len_v6);
        // The IP length decides where the payload ends, not the frame's, which may be padded.
        let payload = if header::ETHERNET + usize::from(total_len) == bytes.len() {
            behind
        } else {
            cold_path();
            let end = header::ETHERNET + usize::from(total_len);
            bytes.get(N..end).ok_or(Miss::Short)?
        };

        // Verify, and copy in the same pass when a reader has posted its buffer and is next in turn. A copy that is not
        // wanted after all lies beyond what the reader is told of.
        rec.pass(Gate::ChecksumInBegin, packet);
        let len = payload.len();
        let unsummed = VERIFY == BY_CONNECTION
            && tcb.takes_unsummed(header::checksum(head))
            && !tcb.waits_for_unsummed();
        let verify =
            VERIFY != NONE && VERIFY != TRAIN && !unsummed && !frame.checksum.is_verified();
        let room = if tcb.rx_head.is_none() {
            posted.room(index, len)
        } else {
            None
        };
        let direct = room.is_some();
        let intact = match room {
            Some(room) if verify => {
                let sum = self.compiled.kernel.copy_and_accumulate(room, payload);
                header::is_intact::<L, N>(head, total_len, sum)
            }
            Some(room) => {
                room.copy_from_slice(payload);
                true
            }
            // Whether its queue may hold more is looked at in general.
            None if unlikely!(len != 0 && pool.is_crowded()) => return Err(Miss::Crowded),
            None => {
                !verify || {
                    let bytes = if L == 0 { bytes } else { pool.frame(frame) };
                    let sum = header::sum_in_place(self.compiled.kernel, frame, bytes, payload);
                    header::is_intact::<L, N>(head, total_len, sum.into())
                }
            }
        };
        if !intact {
            cold_path();
            return Err(Miss::Checksum);
        }
        rec.pass(Gate::ChecksumInEnd, packet);
        let says = expect(head, tcb, len as u32)?;
        let both_ways = len != 0 && says.ack != tcb.snd_una;
        if !COMMON && unlikely!(self.compiled.unidirectional && both_ways) {
            return Err(Miss::Bidirectional);
        }

        // Every check has passed: act.
        self.counters.predicted += 1;
        if VERIFY == BY_CONNECTION {
            self.counters.unverified += u64::from(unsummed && len != 0);
        }
        let parts = (&mut self.wheel, &mut self.controllers);
        let mut ready = accept(tcb, pool, parts, index, now, says, self.floor);
        if len != 0 {
            rec.pass(Gate::SocketQueued, packet);
            let at = now.tick().after(self.delayed_ack);
            let (deadline, armed) = (&mut tcb.ack_deadline, &mut tcb.armed);
            deadline.set(at, armed, &mut self.wheel, index);
        }
        if len == 0 {
            pool.release(frame.id);
        } else if direct {
            posted.filled += len;
            advance(tcb, len as u32);
            pool.release(frame.id);
        } else {
            let offset = frame.offset + (L + N) as u16;
            receive_queue::push(tcb, pool, frame.id, offset, len as u16);
            advance(tcb, len as u32);
            ready |= readiness::READABLE;
        }
        // A new acknowledgment or a new window may let more out; every second segment is acknowledged (RFC 9293, 3.8.6.3).
        let ack_after = self.compiled.ack_after::<VERIFY, COMMON>();
        let follows = ready != 0 || tcb.unsent.is_some() || tcb.unacked >= ack_after;
        if !COMMON {
            self.trim_chain(pool, index);
        }
        if follows {
            cold_path();
            Active {
                stack: self,
                pool,
                now,
                rec,
            }
            .follow_up::<VERIFY, COMMON>(index, ready);
        }
        Ok(())
    }
}

//! The predicted path of SYNs: one for a listener with room, and one that acknowledges ours.
//!
//! Both are expected to carry the options that most hosts send, in an order that most hosts use, and no data: that is one
//! compare of the option layout. What the SYN then means is what [`super::handshake`] and [`super::syn`] do in any case.
//! Nothing is changed before every check has passed; whatever fails goes the general way untouched, and the reason is
//! counted by [`super::predicted_change`].

use super::listener::Listener;
use super::predicted::{be16, be32, key_of};
use super::syn::{Syn, USUAL};
use super::tcb::{State, rare};
use crate::buffer::{Frame, RxChecksum};
use crate::counters::ChangeMiss;
use crate::demux::{FlowKey, Search};
use crate::likely::unlikely;
use crate::stack::Active;
use core::net::Ipv4Addr;
use tollgate_checksum::{Partial, Wide};
use tollgate_gate::Recorder;
use tollgate_wire::tcp::{Flags, Options};
use tollgate_wire::{SeqNumber, ipv4};

/// Data offset of ten words, in the word of data offset and flags.
const USUAL_OFFSET: u16 = 0xa000;
/// That word of a SYN for a listener, and of one that acknowledges ours.
const SYN: u16 = USUAL_OFFSET | Flags::SYN.0 as u16;
pub(super) const SYN_ACK: u16 = SYN | Flags::ACK.0 as u16;
/// The IP packet's octets, no payload included.
const TOTAL_LEN: u16 = (USUAL - 14) as u16;

/// Whether pseudo-header and segment are intact.
#[inline(always)]
fn is_intact(head: &[u8; USUAL]) -> bool {
    let rest = Partial::from_be_word(TOTAL_LEN - 20 + u16::from(ipv4::protocol::TCP));
    head[26..]
        .first_chunk::<{ USUAL - 26 }>()
        .is_some_and(|octets| Wide::of(octets).add_partial(rest).is_valid())
}

impl<R: Recorder> Active<'_, R> {
    /// Takes a SYN that opens a connection to a listener. The search for its connection came to `search`.
    #[inline(always)]
    pub(super) fn syn_predicted(
        &mut self,
        frame: &Frame,
        search: Search,
    ) -> Result<(), ChangeMiss> {
        let (key, syn) = self.expect_syn(frame, SYN)?;
        // What lies before TCP was looked at only as far as the table needs it.
        let local = Ipv4Addr::from(key.local.to_ne_bytes());
        let remote = Ipv4Addr::from(key.remote.to_ne_bytes());
        if unlikely(!self.stack.is_ours(local) || !self.is_another_host(remote)) {
            return Err(ChangeMiss::Address);
        }
        let Some(listener) = self.listener_for(key) else {
            return Err(ChangeMiss::State);
        };
        let room = self.stack.listeners[listener as usize]
            .as_ref()
            .is_some_and(Listener::has_room);
        let Search::Vacant(vacant) = search else {
            // TIME-WAIT: whether the SYN is certainly new is looked at in general.
            return Err(ChangeMiss::State);
        };
        if unlikely(!room) {
            return Err(ChangeMiss::State);
        }
        self.half_open(listener, (key, vacant), &syn, None);
        self.pool.release(frame.id);
        Ok(())
    }

    /// Takes a SYN that acknowledges ours, but for its frame.
    #[inline(always)]
    pub(super) fn syn_ack_predicted(
        &mut self,
        index: usize,
        frame: &Frame,
    ) -> Result<(), ChangeMiss> {
        let (_, syn) = self.expect_syn(frame, SYN_ACK)?;
        let tcb = self.stack.tcbs.get(index).ok_or(ChangeMiss::State)?;
        let usual = tcb.state == State::SynSent
            && tcb.unsent.is_none()
            && tcb.rare & !(rare::ORPHAN | rare::UNUSUAL | rare::AMENDED) == 0;
        if unlikely(!usual) {
            return Err(ChangeMiss::State);
        }
        if unlikely(syn.ack != tcb.snd_nxt) {
            return Err(ChangeMiss::Acknowledgment);
        }
        self.syn_acknowledged(index, &syn);
        self.acknowledge_now(index);
        Ok(())
    }

    /// A SYN with these flags and the usual options, and its connection's key.
    #[inline(always)]
    fn expect_syn(&self, frame: &Frame, word: u16) -> Result<(FlowKey, Syn), ChangeMiss> {
        let Some(head) = self.pool.frame(frame).first_chunk::<USUAL>() else {
            return Err(ChangeMiss::Payload);
        };
        if unlikely(be16(head, 46) != word) {
            return Err(ChangeMiss::Flags);
        }
        if unlikely(be16(head, 16) != TOTAL_LEN) {
            return Err(ChangeMiss::Payload);
        }
        let options = head[54..].first_chunk().and_then(Options::of_usual_syn);
        let Some(options) = options else {
            return Err(ChangeMiss::OptionLayout);
        };
        let verify = self.stack.sums && frame.checksum != RxChecksum::Verified;
        if verify && unlikely(!is_intact(head)) {
            return Err(ChangeMiss::Checksum);
        }
        let key = key_of(head);
        let syn = Syn {
            seq: SeqNumber(be32(head, 38)),
            ack: SeqNumber(be32(head, 42)),
            window: be16(head, 48),
            options,
        };
        Ok((key, syn))
    }
}

//! The predicted path of SYNs: one for a listener with room, and one that acknowledges ours.
//!
//! Both are expected to carry the options that most hosts send, in an order that most hosts use, and no data: that is one
//! compare of the option layout. What the SYN then means is what [`crate::tcp::slow::handshake`] and [`crate::tcp::slow::syn`] do in any case.
//! Nothing is changed before every check has passed; whatever fails goes the general way untouched, and the reason is
//! counted by [`crate::tcp::fast::handshake`].

use super::header;
use crate::counters::HandshakeMiss;
use crate::demux::{FlowKey, Search};
use crate::likely::unlikely;
use crate::stack::Active;
use crate::tcp::ecn::Setup;
use crate::tcp::slow::syn::{COMMON_SYN, Syn};
use crate::tcp::tcb::{State, Tcb, rare};
use core::hint::cold_path;
use core::net::Ipv4Addr;
use tollgate_checksum::{Accumulator, Partial};
use tollgate_gate::Recorder;
use tollgate_wire::ipv4;
use tollgate_wire::tcp::{Flags, Options};

/// Data offset of ten words, in the word of data offset and flags.
const COMMON_SYN_OFFSET: u16 = 0xa000;
/// That word of a SYN for a listener, and of one that acknowledges ours.
pub(in crate::tcp) const SYN: u16 = COMMON_SYN_OFFSET | Flags::SYN.0 as u16;
pub(in crate::tcp) const SYN_ACK: u16 = SYN | Flags::ACK.0 as u16;
/// The IP packet's bytes, no payload included.
const TOTAL_LEN: u16 = (COMMON_SYN - header::ETHERNET) as u16;

/// Tells whether pseudo-header and segment are intact.
#[inline(always)]
fn is_intact(head: &[u8; COMMON_SYN]) -> bool {
    let rest =
        Partial::from_be_word(TOTAL_LEN - header::IPV4 as u16 + u16::from(ipv4::protocol::TCP));
    head[header::ADDRESSES..]
        .first_chunk::<{ COMMON_SYN - header::ADDRESSES }>()
        .is_some_and(|bytes| Accumulator::of(bytes).add_partial(rest).is_valid())
}

impl<R: Recorder> Active<'_, R> {
    /// Takes a SYN that opens a connection to a listener. The search for its connection came to `search`.
    #[inline(always)]
    pub(in crate::tcp) fn syn_opens(
        &mut self,
        key: FlowKey,
        syn: &Syn,
        search: Search,
    ) -> Result<(), HandshakeMiss> {
        // What lies before TCP was looked at only as far as the table needs it, unless connections were opened between these
        // addresses lately.
        let known = self.stack.tcb_template.is_for(key, self.now.tick());
        if unlikely!(!known) && !self.are_hosts(key) {
            return Err(HandshakeMiss::Address);
        }
        let Some(listener) = self.listener_for_v4(key) else {
            return Err(HandshakeMiss::State);
        };
        let room = self.takes_half_open(listener);
        let Search::Vacant(vacant) = search else {
            // TIME-WAIT: whether the SYN is certainly new is looked at in general.
            return Err(HandshakeMiss::State);
        };
        if !room {
            cold_path();
            return Err(HandshakeMiss::State);
        }
        self.half_open(listener, (key, vacant), (syn, None), None, |_, _| {});
        Ok(())
    }

    /// Tells whether a packet is for us and comes from another host.
    #[cold]
    #[inline(never)]
    pub(in crate::tcp) fn are_hosts(&self, key: FlowKey) -> bool {
        if let Some(pair) = key.pair() {
            // Both were looked at when the pair was entered.
            let local = self.stack.destinations.get(pair).map(|pair| pair.local());
            return local.is_some_and(|local| self.stack.ipv6.addresses.is_ours(local));
        }
        let local = Ipv4Addr::from(key.local.to_ne_bytes());
        let remote = Ipv4Addr::from(key.remote.to_ne_bytes());
        self.stack.is_ours(local) && self.is_another_host(remote)
    }

    /// Takes a SYN that acknowledges ours.
    #[inline(always)]
    pub(in crate::tcp) fn syn_ack_moves(&mut self, index: usize, syn: &Syn) {
        self.syn_acknowledged(index, syn, None);
        self.acknowledge_now(index);
    }
}

/// The prediction of a SYN that acknowledges a connection's.
#[inline(always)]
pub(in crate::tcp) fn expect_syn_ack(
    frame: &[u8],
    tcb: &Tcb,
    verify: bool,
) -> Result<Syn, HandshakeMiss> {
    const NOT_IN_THE_WAY: u32 =
        rare::ORPHAN | rare::EXTENSION | rare::AMENDED | rare::SACK_PERMITTED;
    let (_, syn) = expect_syn(frame, SYN_ACK, verify)?;
    let eligible =
        tcb.state == State::SynSent && tcb.unsent.is_none() && tcb.rare & !NOT_IN_THE_WAY == 0;
    if !eligible {
        cold_path();
        return Err(HandshakeMiss::State);
    }
    if syn.ack != tcb.snd_nxt {
        cold_path();
        return Err(HandshakeMiss::Acknowledgment);
    }
    Ok(syn)
}

/// A SYN whose data offset and flags are `word`, with the usual options, and its connection's key.
#[inline(always)]
pub(in crate::tcp) fn expect_syn(
    frame: &[u8],
    word: u16,
    verify: bool,
) -> Result<(FlowKey, Syn), HandshakeMiss> {
    let Some(head) = frame.first_chunk::<COMMON_SYN>() else {
        cold_path();
        return Err(HandshakeMiss::Payload);
    };
    if header::offset_and_flags(head) != word {
        cold_path();
        return Err(HandshakeMiss::Flags);
    }
    if header::total_len(head) != TOTAL_LEN {
        cold_path();
        return Err(HandshakeMiss::Payload);
    }
    let options = head[header::OPTIONS..]
        .first_chunk()
        .and_then(Options::of_common_syn);
    let Some(options) = options else {
        return Err(HandshakeMiss::OptionLayout);
    };
    if verify && unlikely!(!is_intact(head)) {
        return Err(HandshakeMiss::Checksum);
    }
    let key = header::key(head);
    let syn = Syn {
        seq: header::sequence(head),
        ack: header::acknowledgment(head),
        window: header::window_field(head),
        options,
        // A SYN with its flags is another word.
        ecn: Setup::NONE,
    };
    Ok((key, syn))
}

//! The TCB template: a TCB that is made for the last peer, to be copied when a connection is opened.
//!
//! Most hosts open many connections to few peers. These have in common the next hop and its link address, the offset
//! of timestamps, and the sums of addresses. That is worked out once in a tick and not for each, as a header template
//! does for segments (Clark et al. 1989). The template must not outlive what it was made of. It is forgotten with the
//! tick, so that the neighbour cache sees that the neighbour is used, and whenever a link address changes.

use super::tcb::{LOOK, Tcb};
use crate::config::Config;
use crate::demux::FlowKey;
use crate::destinations::Destinations;
use crate::neighbour::Lookup;
use crate::stack::{Active, Stack};
use crate::tcp::slow::syn::{SynTemplate, make_template};
use crate::tcp::tcb::IPV6_HEADER_EXCESS;
use crate::tcp::template::front_v6;
use crate::time::Tick;
use alloc::boxed::Box;
use core::net::Ipv4Addr;
use tollgate_checksum::Partial;
use tollgate_gate::Recorder;
use tollgate_wire::ethernet::MacAddr;

/// TCBs to be copied. Boxed: a cache line's alignment in the stack would move everything else.
#[derive(Debug)]
pub(crate) struct TcbTemplate {
    /// A connection to anyone.
    fresh: Box<Tcb>,
    /// A connection between two addresses, its ports zero. No host has the address 0.0.0.0: then it is for nobody.
    tcb: Box<Tcb>,
    /// The tick in which it may be used.
    tick: Tick,
    /// The SYNs of such a connection in that tick.
    pub(super) syn: Box<SynTemplate>,
}

impl TcbTemplate {
    pub(crate) fn new(config: &Config) -> Self {
        let fresh = Tcb::fresh(config);
        Self {
            fresh: Box::new(fresh),
            tcb: Box::new(fresh),
            tick: Tick(0),
            syn: Box::new(SynTemplate::EMPTY),
        }
    }

    /// Something that it was made of has changed.
    fn forget(&mut self) {
        self.tcb.key = FlowKey::default();
    }

    /// Tells whether it is for connections between these addresses, which then are another host's and ours.
    #[inline(always)]
    pub(crate) fn is_for(&self, key: FlowKey, tick: Tick) -> bool {
        self.tcb.key.addresses() == key.addresses() && self.tick == tick
    }

    /// The connection `key` between the addresses that it is for.
    #[inline(always)]
    pub(crate) fn write(&self, tcb: &mut Tcb, key: FlowKey) {
        *tcb = *self.tcb;
        tcb.key.ports = key.ports;
        tcb.tcp_sum = Partial::from_ne_u64(u64::from(tcb.tcp_sum) + u64::from(key.ports)).fold();
    }
}

impl Stack {
    /// An address, a route, a link address or a limit has changed that templates were made of, those of connections apart.
    pub(crate) fn forget_templates(&mut self) {
        self.tcb_template.forget();
        self.udp.forget();
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Prepares for connections between the addresses of `key`.
    #[cold]
    #[inline(never)]
    pub(super) fn prepare(&mut self, key: FlowKey) {
        let tick = self.now.tick();
        let (next_hop, link, agreement) = match key.pair() {
            None => {
                let remote = Ipv4Addr::from(key.remote.to_ne_bytes());
                let next_hop = self.next_hop(remote);
                let link = match self.stack.neighbours.lookup(next_hop, self.now) {
                    Lookup::Found(mac) => mac,
                    Lookup::Wait => MacAddr::default(),
                };
                (next_hop, link, self.stack.first_agreement(remote, next_hop))
            }
            // Link address and next hop are the destination's.
            Some(pair) => (
                Destinations::list_of(pair),
                MacAddr::default(),
                self.stack.agreement_over_ipv6(),
            ),
        };
        let label = self.stack.label_of(key);
        let ts_offset = self.stack.secrets.timestamp_offset(label);
        let addresses = self.stack.destinations.addresses_sum(key);
        // For addresses that are not two hosts' it serves one connection only.
        let until = if self.are_hosts(key) {
            tick
        } else {
            tick.after(u32::MAX)
        };
        let mss = self.our_mss();
        let config = &self.stack.config;
        let TcbTemplate {
            fresh,
            tcb,
            tick: valid,
            syn,
        } = &mut self.stack.tcb_template;
        **tcb = **fresh;
        *valid = until;
        tcb.key = FlowKey { ports: 0, ..key };
        tcb.ts_offset = ts_offset;
        tcb.ts_seen_at = tick;
        tcb.armed = tick.after(LOOK);
        tcb.next_hop = next_hop;
        tcb.marks.set_agreement(agreement);
        make_template(tcb, config.ttl, addresses);
        tcb.set_link(link, config.mac);
        if key.pair().is_some() {
            tcb.ip_options = IPV6_HEADER_EXCESS;
            // Each connection's own follows with its SYN ([`Stack::label_flow`]).
            tcb.link = front_v6(0);
        }
        **syn = SynTemplate::of(tcb, &self.stack.template, mss, tick);
    }
}

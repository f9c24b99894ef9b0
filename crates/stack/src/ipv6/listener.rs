//! Multicast listener discovery (RFC 9777, which was RFC 3810), the listener's side: queries in, reports out.

use super::input::Arrived;
use crate::counters::Drop;
use crate::stack::Active;
use core::net::Ipv6Addr;
use tollgate_checksum::sum_header;
use tollgate_gate::Recorder;
use tollgate_wire::ipv6::{self, protocol};
use tollgate_wire::mld::{self, Query};

/// RFC 9777, 5: the hop limit of every message.
const HOP_LIMIT: u8 = 1;

impl<R: Recorder> Active<'_, R> {
    /// Takes a router's query, if it came from this link (RFC 9777, 6.2).
    pub(super) fn listener_query(&mut self, arrived: &Arrived, message: &[u8]) {
        let header = &arrived.header;
        let is_valid = header.source.is_unicast_link_local()
            && header.hop_limit == HOP_LIMIT
            && arrived.router_alert;
        match Query::parse(message) {
            Ok(query) if is_valid => {
                let random = &mut self.stack.secrets.random;
                self.stack.ipv6.groups.asked(&query, random, self.now);
            }
            Ok(_) | Err(_) => self.stack.counters.dropped(Drop::Malformed),
        }
    }

    /// Joins and leaves groups with the addresses that they are those of, and tells what is due.
    pub(super) fn report_groups(&mut self) {
        let ipv6 = &mut self.stack.ipv6;
        let (addresses, groups) = (&ipv6.addresses, &mut ipv6.groups);
        groups.follow(addresses.version(), addresses.groups(), self.now);
        let (is_v1, records) = groups.poll(&mut self.stack.secrets.random, self.now);
        if is_v1 {
            for (kind, group) in records {
                let (mut message, to) = mld::emit_v1(kind, group);
                self.send_report(to, &mut message);
            }
        } else {
            for records in records.chunks(mld::MAX_RECORDS) {
                let mut message = [0; mld::MAX_LEN];
                let len = mld::emit_report(records, &mut message);
                self.send_report(mld::ALL_LISTENING_ROUTERS, &mut message[..len]);
            }
        }
    }

    /// Completes a message by its checksum and queues it. Until the link-local address is ours it comes from the unspecified one:
    /// switches take it from there (RFC 9777, 5.2.13; RFC 3590, 4).
    fn send_report(&mut self, to: Ipv6Addr, message: &mut [u8]) {
        let source = self.stack.ipv6.addresses.link_local();
        let source = source.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let len = message.len() as u32;
        let sum = ipv6::pseudo_header(source, to, protocol::ICMP, len) + sum_header(message);
        message[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
        let header = ipv6::Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: (mld::HOP_BY_HOP.len() + message.len()) as u16,
            // A hop-by-hop header.
            next_header: 0,
            hop_limit: HOP_LIMIT,
            source,
            destination: to,
        };
        self.queue_to_group(&header, &[&mld::HOP_BY_HOP, message]);
    }
}

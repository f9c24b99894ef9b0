//! Multicast listener discovery, the listener's side (RFC 9777, which was RFC 3810; RFC 2710): queries in, reports out.
//!
//! Its messages are ICMPv6 behind a hop-by-hop header with a router alert. Checksum, hop limit, source and alert are the
//! caller's to check.

use crate::{Malformed, be16};
use core::net::Ipv6Addr;
use core::time::Duration;

/// Type of a query (RFC 9777, 5.1).
pub const QUERY: u8 = 130;
/// Type of a report of version 2 (RFC 9777, 5.2).
pub const REPORT: u8 = 143;
/// Types of version 1: a report, and that a group is left (RFC 2710, 3.1).
pub const REPORT_V1: u8 = 131;
/// See [`REPORT_V1`].
pub const DONE_V1: u8 = 132;

/// All routers that listen to reports of version 2 (RFC 9777, 5.2.14).
pub const ALL_LISTENING_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// The hop-by-hop header in front of every message: a router alert for multicast listener discovery (RFC 2711, 2.1), and padding,
/// in front of ICMPv6.
pub const HOP_BY_HOP: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];

/// Bytes of a message of version 1, and of a query of version 2 without sources.
const V1_LEN: usize = 24;
const QUERY_LEN: usize = 28;
/// Bytes of a report in front of its records.
const REPORT_LEN: usize = 8;
/// Bytes of a record without sources.
const RECORD_LEN: usize = 20;
/// Records of a report, at most.
pub const MAX_RECORDS: usize = 32;
/// Bytes of the longest report.
pub const MAX_LEN: usize = REPORT_LEN + MAX_RECORDS * RECORD_LEN;

/// A router's question who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// It is one of version 1 (RFC 9777, 8.1).
    pub is_v1: bool,
    /// Time within which listeners answer.
    pub max_response: Duration,
    /// The group that it asks for; all, if it is unspecified.
    pub group: Ipv6Addr,
}

impl Query {
    /// Reads a message of ICMPv6 that is one by its type.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let Some((head, _)) = message.split_first_chunk::<V1_LEN>() else {
            return Err(Malformed::Truncated);
        };
        let is_v1 = message.len() == V1_LEN;
        if !is_v1 && message.len() < QUERY_LEN {
            return Err(Malformed::Length);
        }
        let mut group = [0; 16];
        group.copy_from_slice(&head[8..]);
        let group = Ipv6Addr::from(group);
        if !group.is_unspecified() && !group.is_multicast() {
            return Err(Malformed::Field);
        }
        let code = u32::from(be16(head, 4));
        // RFC 9777, 5.1.3: a floating point number from 32,768 on.
        let millis = if is_v1 || code < 0x8000 {
            code
        } else {
            (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3)
        };
        Ok(Self {
            is_v1,
            max_response: Duration::from_millis(millis.into()),
            group,
        })
    }
}

/// Kind of a record (RFC 9777, 5.2.12), as far as a host without lists of sources has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// It listens, whatever the source.
    Listens = 2,
    /// It listens no longer.
    Leaves = 3,
    /// It has begun to listen, whatever the source.
    Joins = 4,
}

/// Writes a report of version 2, its checksum field zero, with as many records as fit; says how long it is.
pub fn emit_report(records: &[(Record, Ipv6Addr)], out: &mut [u8; MAX_LEN]) -> usize {
    let records = &records[..records.len().min(MAX_RECORDS)];
    out[..REPORT_LEN].copy_from_slice(&[REPORT, 0, 0, 0, 0, 0, 0, records.len() as u8]);
    let (places, _) = out[REPORT_LEN..].as_chunks_mut::<RECORD_LEN>();
    for (place, (kind, group)) in places.iter_mut().zip(records) {
        place[..4].copy_from_slice(&[*kind as u8, 0, 0, 0]);
        place[4..].copy_from_slice(&group.octets());
    }
    REPORT_LEN + records.len() * RECORD_LEN
}

/// A message of version 1 with its checksum field zero, and where it is sent: to the group, or to all routers where it is left
/// (RFC 2710, 4).
pub fn emit_v1(kind: Record, group: Ipv6Addr) -> ([u8; V1_LEN], Ipv6Addr) {
    let (number, to) = match kind {
        Record::Listens | Record::Joins => (REPORT_V1, group),
        Record::Leaves => (DONE_V1, crate::ipv6::ALL_ROUTERS),
    };
    let mut out = [0; V1_LEN];
    out[0] = number;
    out[8..].copy_from_slice(&group.octets());
    (out, to)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec;

    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);

    fn query(code: u16, len: usize) -> vec::Vec<u8> {
        let mut message = vec![QUERY, 0, 0, 0];
        message.extend(code.to_be_bytes());
        message.extend([0, 0]);
        message.extend(GROUP.octets());
        message.resize(len, 0);
        message
    }

    /// RFC 9777, 5.1.3 and 8.1.
    #[test]
    fn query_says_its_version_by_its_length() {
        let v1 = Query::parse(&query(0x8000, 24)).unwrap();
        assert!(v1.is_v1);
        assert_eq!(v1.max_response, Duration::from_millis(0x8000));
        let v2 = Query::parse(&query(0x8000, 28)).unwrap();
        assert!(!v2.is_v1);
        assert_eq!(v2.max_response, Duration::from_millis(0x1000 << 3));
        let longest = Query::parse(&query(0xffff, 44)).unwrap();
        assert_eq!(longest.max_response, Duration::from_millis(0x1fff << 10));
        assert_eq!(Query::parse(&query(1, 23)), Err(Malformed::Truncated));
        assert_eq!(Query::parse(&query(1, 26)), Err(Malformed::Length));
        let mut unicast = query(1, 28);
        unicast[8] = 0x20;
        assert_eq!(Query::parse(&unicast), Err(Malformed::Field));
    }

    #[test]
    fn reports_have_the_layout_of_the_rfcs() {
        let mut out = [0xee; MAX_LEN];
        let records = [(Record::Joins, GROUP), (Record::Leaves, GROUP)];
        assert_eq!(emit_report(&records, &mut out), 48);
        assert_eq!(out[..8], [143, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(out[8..12], [4, 0, 0, 0]);
        assert_eq!(out[12..28], GROUP.octets());
        assert_eq!(out[28..32], [3, 0, 0, 0]);
        assert_eq!(emit_report(&[records[0]; 40], &mut out), MAX_LEN);
        let (done, to) = emit_v1(Record::Leaves, GROUP);
        assert_eq!((done[0], to), (132, crate::ipv6::ALL_ROUTERS));
        let (report, to) = emit_v1(Record::Listens, GROUP);
        assert_eq!((report[0], to), (131, GROUP));
        assert_eq!(report[8..], GROUP.octets());
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_query_without_a_group(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(query) = Query::parse(&bytes) {
                prop_assert!(query.group.is_multicast() || query.group.is_unspecified());
                prop_assert!(query.max_response <= Duration::from_millis(0x1fff << 10));
            }
        }
    }
}

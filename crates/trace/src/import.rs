//! The loop from a capture to rows, and what it counts.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;

use serde::{Deserialize, Serialize};

use crate::anonymise::Anonymiser;
use crate::capture::{Capture, Step};
use crate::decode::{self, Datagram, Ignored, LengthAnomaly, Transport};
use crate::flows::{Flows, Limits};
use crate::fragments::Fragments;
use crate::rows::{Protocol, Rows};

/// Settings of an import.
#[derive(Debug, Default)]
pub struct Settings {
    /// Bounds of flows and writes.
    pub limits: Limits,
    /// Replaces the addresses.
    pub anonymiser: Option<Anonymiser>,
    /// The number of the first flow.
    pub first_flow: u64,
}

/// Traffic of one protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Segments or datagrams; one that came in fragments counts once.
    pub packets: u64,
    /// Bytes of user data in them.
    pub bytes: u64,
    /// Flows.
    pub flows: u64,
}

/// Counts of a capture's packets by their fate. A datagram that was put together from fragments counts as one packet
/// more, of its own kind. So `packets` and `reassembled` together are the sum of `tcp.packets`, `udp.packets`,
/// `fragments`, `other_protocols`, `not_ip`, `unknown_links`, `malformed` and `headers_cut`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets in the file.
    pub packets: u64,
    /// Bytes of them that were captured.
    #[serde(alias = "captured_octets")]
    pub captured_bytes: u64,
    /// Packets of which only the front was captured.
    pub cut_packets: u64,
    /// When the first was captured; nanoseconds since 1970-01-01 UTC.
    pub first_ns: i64,
    /// When the last was captured.
    pub last_ns: i64,
    /// TCP that came in one packet each, and what was put together.
    pub tcp: Traffic,
    /// UDP likewise.
    pub udp: Traffic,
    /// IP fragments.
    pub fragments: u64,
    /// Datagrams that were put together from fragments.
    pub reassembled: u64,
    /// Datagrams of which fragments are missing.
    pub incomplete: u64,
    /// Datagrams whose fragments overlap or contradict each other.
    pub contradictory: u64,
    /// Fragments that came twice.
    pub duplicate_fragments: u64,
    /// Packets of which IP names more bytes than the frame held on the wire; their payload ends with the frame.
    pub beyond_frame: u64,
    /// Packets of IP that are neither TCP nor UDP.
    pub other_protocols: u64,
    /// Packets that are no IP.
    pub not_ip: u64,
    /// Packets of link types that are not known, by link type.
    pub unknown_links: BTreeMap<String, u64>,
    /// Packets, and datagrams put together, whose headers contradict themselves.
    pub malformed: u64,
    /// Packets, and datagrams put together, whose headers were not captured whole.
    pub headers_cut: u64,
    /// Rows of messages.
    pub messages: u64,
    /// Flows that went, open as they were, since the table was full.
    pub evicted_flows: u64,
    /// Places where bytes of a TCP connection are missing or come late.
    pub gaps: u64,
}

impl Counts {
    /// Packets of link types that are not known.
    pub fn unread_links(&self) -> u64 {
        self.unknown_links.values().sum()
    }
}

/// Segments and datagrams whose flows are fetched while those before them are taken: what the memory system has under way at
/// once is some ten lines, and a flow has six.
const AHEAD: usize = 8;

/// A segment or datagram that waits for its flow.
struct Waiting {
    transport: Transport,
    time_ns: i64,
    /// In how many packets it came, and when the first of them did.
    came: (u32, i64),
}

/// Turns one capture into rows.
pub struct Importer {
    flows: Flows,
    fragments: Fragments,
    counts: Counts,
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
}

impl Importer {
    /// Ready for the first packet.
    pub fn new(settings: Settings) -> Self {
        Self {
            flows: Flows::new(settings.limits, settings.anonymiser, settings.first_flow),
            fragments: Fragments::default(),
            counts: Counts::default(),
            waiting: VecDeque::with_capacity(AHEAD + 1),
        }
    }

    /// Reads up to `count` packets, or as far as the first place where there is none; false when the capture has no more.
    /// Their rows have been given when it returns.
    ///
    /// # Errors
    /// Errors of `rows`.
    pub fn read<S: Read, R: Rows>(
        &mut self,
        capture: &mut Capture<S>,
        count: u64,
        rows: &mut R,
    ) -> Result<bool, R::Error> {
        let more = self.steps(capture, count, rows)?;
        self.take_waiting(rows)?;
        Ok(more)
    }

    fn steps<S: Read, R: Rows>(
        &mut self,
        capture: &mut Capture<S>,
        count: u64,
        rows: &mut R,
    ) -> Result<bool, R::Error> {
        for _ in 0..count {
            let packet = match capture.step() {
                Step::Packet(packet) => packet,
                Step::Other => return Ok(true),
                Step::End => return Ok(false),
            };
            let counts = &mut self.counts;
            if counts.packets == 0 {
                (counts.first_ns, counts.last_ns) = (packet.time_ns, packet.time_ns);
            }
            counts.packets += 1;
            counts.captured_bytes += packet.bytes.len() as u64;
            counts.cut_packets += u64::from((packet.bytes.len() as u64) < packet.wire_len.into());
            counts.first_ns = counts.first_ns.min(packet.time_ns);
            counts.last_ns = counts.last_ns.max(packet.time_ns);
            match decode::datagram(&packet) {
                Ok(datagram) => self.datagram(&datagram, packet.time_ns, rows)?,
                Err(ignored) => self.ignore(ignored),
            }
        }
        Ok(true)
    }

    /// Packets that were read so far.
    pub const fn packets(&self) -> u64 {
        self.counts.packets
    }

    /// Gives the rows that are still open, and returns the counts.
    ///
    /// # Errors
    /// Errors of `rows`.
    pub fn finish<R: Rows>(self, rows: &mut R) -> Result<Counts, R::Error> {
        let mut counts = self.counts;
        let tally = self.flows.finish(rows)?;
        counts.messages = tally.messages;
        counts.evicted_flows = tally.evicted;
        counts.gaps = tally.gaps;
        let fates = self.fragments.finish();
        counts.incomplete = fates.incomplete;
        counts.contradictory = fates.contradictory;
        counts.duplicate_fragments = fates.duplicates;
        Ok(counts)
    }

    #[inline]
    fn datagram<R: Rows>(
        &mut self,
        datagram: &Datagram<'_>,
        time_ns: i64,
        rows: &mut R,
    ) -> Result<(), R::Error> {
        self.counts.beyond_frame += u64::from(datagram.anomaly == Some(LengthAnomaly::BeyondFrame));
        let Some(part) = datagram.part else {
            return self.whole(datagram, time_ns, (1, time_ns), rows);
        };
        self.counts.fragments += 1;
        let Some(whole) = self.fragments.push(datagram, part, time_ns) else {
            return Ok(());
        };
        self.counts.reassembled += 1;
        let came = (whole.fragments, whole.began_ns);
        self.whole(&whole.datagram(), time_ns, came, rows)
    }

    #[inline]
    fn whole<R: Rows>(
        &mut self,
        datagram: &Datagram<'_>,
        time_ns: i64,
        came: (u32, i64),
        rows: &mut R,
    ) -> Result<(), R::Error> {
        match decode::transport(datagram) {
            Ok(transport) => self.transport(&transport, time_ns, came, rows),
            Err(ignored) => {
                self.ignore(ignored);
                Ok(())
            }
        }
    }

    #[inline]
    fn transport<R: Rows>(
        &mut self,
        transport: &Transport,
        time_ns: i64,
        came: (u32, i64),
        rows: &mut R,
    ) -> Result<(), R::Error> {
        if !self.flows.is_out_of_cache() {
            return self.take(transport, time_ns, came, rows);
        }
        self.flows.fetch(transport);
        self.waiting.push_back(Waiting {
            transport: *transport,
            time_ns,
            came,
        });
        if self.waiting.len() > AHEAD
            && let Some(next) = self.waiting.pop_front()
        {
            self.take(&next.transport, next.time_ns, next.came, rows)?;
        }
        Ok(())
    }

    /// Takes what waits for its flow.
    fn take_waiting<R: Rows>(&mut self, rows: &mut R) -> Result<(), R::Error> {
        while let Some(next) = self.waiting.pop_front() {
            self.take(&next.transport, next.time_ns, next.came, rows)?;
        }
        Ok(())
    }

    #[inline]
    fn take<R: Rows>(
        &mut self,
        transport: &Transport,
        time_ns: i64,
        came: (u32, i64),
        rows: &mut R,
    ) -> Result<(), R::Error> {
        let traffic = match transport.protocol() {
            Protocol::Tcp => &mut self.counts.tcp,
            Protocol::Udp => &mut self.counts.udp,
        };
        traffic.packets += 1;
        traffic.bytes += u64::from(transport.size);
        let before = self.flows.tally().flows;
        self.flows.push(transport, time_ns, came, rows)?;
        traffic.flows += self.flows.tally().flows - before;
        Ok(())
    }

    #[cold]
    fn ignore(&mut self, ignored: Ignored) {
        let counts = &mut self.counts;
        match ignored {
            Ignored::LinkType(link) => {
                *counts.unknown_links.entry(link.to_string()).or_default() += 1;
            }
            Ignored::NotIp => counts.not_ip += 1,
            Ignored::Protocol => counts.other_protocols += 1,
            Ignored::Malformed => counts.malformed += 1,
            Ignored::HeadersCut => counts.headers_cut += 1,
        }
    }
}

#[cfg(test)]
mod tests;

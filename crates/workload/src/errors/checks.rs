//! One case tried many times: which checks say nothing about a packet that is not what was sent.

use super::frames::{Frames, Payload};
use super::random::Random;
use super::{Aal, Case, FaultSite, damage};
use tollgate_checksum::crc::crc10_holds;
use tollgate_checksum::{Checksum, Kernel};
use tollgate_link::atm::{CHANNEL, MTU, Reassembler, Segmenter};
use tollgate_wire::atm::{self, Cell, Header, aal5, llc};
use tollgate_wire::{ethernet, ipv4};

/// Tries for an error that changes something: zeros among zeros do not.
const TRIES: usize = 64;

/// Outcomes of the errors of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Errors that changed something.
    pub injected: u64,
    /// Found neither by the header error control nor by the CRC of any cell or PDU.
    pub crc: u64,
    /// Found by no check of the adaptation layer: a packet comes out that was not sent.
    pub layer: u64,
    /// With no CRC, found neither by sequence numbers and lengths nor by the checksums of IP and TCP.
    pub checksum: u64,
    /// Found by nothing.
    pub both: u64,
    /// The errors that changed something, by kind of payload.
    pub injected_by: [u64; Payload::ALL.len()],
    /// Those of `checksum`, by kind of payload.
    pub checksum_by: [u64; Payload::ALL.len()],
}

impl Counts {
    /// The counts of both together.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.injected += other.injected;
        self.crc += other.crc;
        self.layer += other.layer;
        self.checksum += other.checksum;
        self.both += other.both;
        for at in 0..Payload::ALL.len() {
            self.injected_by[at] += other.injected_by[at];
            self.checksum_by[at] += other.checksum_by[at];
        }
        self
    }
}

/// Results of the checks of two packets' cells.
#[derive(Debug, Clone, Copy, Default)]
struct Verdict {
    crc: bool,
    layer: bool,
    checksum: bool,
    both: bool,
}

/// Injects about `count` errors of `case` into frames of each kind in turn.
///
/// Zeroed blocks in frames of zeros often change nothing: then fewer are injected.
#[must_use]
pub fn try_case(frames: &Frames, case: Case, aal: Aal, count: u64, seed: u64) -> Counts {
    let mut random = Random::new(seed);
    let mut counts = Counts::default();
    for number in 0..count {
        let kind = (number % Payload::ALL.len() as u64) as usize;
        let verdict = (0..TRIES).find_map(|_| {
            let pair = frames.two(Payload::ALL[kind], &mut random);
            try_once(pair, case, aal, &mut random)
        });
        let Some(verdict) = verdict else {
            continue;
        };
        counts.injected += 1;
        counts.injected_by[kind] += 1;
        counts.crc += u64::from(verdict.crc);
        counts.layer += u64::from(verdict.layer);
        counts.checksum += u64::from(verdict.checksum);
        counts.checksum_by[kind] += u64::from(verdict.checksum);
        counts.both += u64::from(verdict.both);
    }
    counts
}

/// One error in the first of two packets; `None` when it changed nothing.
fn try_once(
    (first, second): (&[u8], &[u8]),
    Case { place, damage }: Case,
    aal: Aal,
    random: &mut Random,
) -> Option<Verdict> {
    match place {
        FaultSite::Link | FaultSite::Switch => {
            let clean = cells(aal, &[first, second]);
            let own = cells(aal, &[first]).len();
            let mut changed = clean.clone();
            damage::cells((place, damage), &mut changed, own, random);
            (changed != clean).then(|| judge(aal, &changed, &[first, second]))
        }
        FaultSite::Adapter | FaultSite::Gateway => {
            let mut changed = first.to_vec();
            damage::bytes(damage, &mut changed, random);
            if changed == first {
                return None;
            }
            let mut sent = first.to_vec();
            if place == FaultSite::Gateway {
                forward(&mut changed);
                forward(&mut sent);
            }
            if place == FaultSite::Adapter && random.below(2) == 1 {
                // At the receiver: every check of the cells is over.
                let accepted = holds(&changed);
                return Some(Verdict {
                    crc: true,
                    layer: true,
                    checksum: accepted,
                    both: accepted,
                });
            }
            let cells = cells(aal, &[&changed, second]);
            Some(judge(aal, &cells, &[&sent, second]))
        }
    }
}

/// Forwards a packet as a gateway: one hop less, and the header's checksum updated for that (RFC 1624). So an error in the header
/// stays one.
fn forward(packet: &mut [u8]) {
    let Some(header) = packet.first_chunk_mut::<{ ipv4::HEADER_LEN }>() else {
        return;
    };
    let old = u16::from_be_bytes([header[8], header[9]]);
    header[8] = header[8].wrapping_sub(1);
    let new = u16::from_be_bytes([header[8], header[9]]);
    let checksum = Checksum::from_ne_bytes([header[10], header[11]]).update(old, new);
    header[10..12].copy_from_slice(&checksum.to_ne_bytes());
}

/// The cells of packets, one after the other.
fn cells(aal: Aal, packets: &[&[u8]]) -> Vec<Cell> {
    let mut segmenter = Segmenter::new(aal, CHANNEL);
    let header = llc::header(ethernet::EtherType::Ipv4.to_u16());
    let mut all = Vec::new();
    for packet in packets {
        segmenter.begin([&header, packet]);
        all.extend(segmenter.by_ref());
    }
    all
}

/// Runs the checks on cells that should carry the packets `sent`.
fn judge(aal: Aal, cells: &[Cell], sent: &[&[u8]]) -> Verdict {
    let limit = llc::HEADER + MTU;
    let checked = foreign(Reassembler::new(aal, CHANNEL, limit), cells, sent);
    let unchecked = foreign(
        Reassembler::new(aal, CHANNEL, limit).without_crc(),
        cells,
        sent,
    );
    Verdict {
        crc: crcs_hold(aal, cells),
        layer: checked.came,
        checksum: unchecked.accepted,
        both: checked.accepted,
    }
}

/// Packets that came out and were not sent.
#[derive(Debug, Clone, Copy, Default)]
struct Foreign {
    /// There was one.
    came: bool,
    /// There was one that IP and TCP take.
    accepted: bool,
}

fn foreign(mut reassembler: Reassembler, cells: &[Cell], sent: &[&[u8]]) -> Foreign {
    let mut found = Foreign::default();
    for cell in cells {
        let Some(payload) = reassembler.push(cell) else {
            continue;
        };
        match llc::parse(payload) {
            Some((ether_type, packet)) => {
                let ours = ether_type == ethernet::EtherType::Ipv4.to_u16();
                // Bytes behind the datagram are nobody's.
                let len =
                    ipv4::Header::parse(packet).map_or(packet.len(), |ip| ip.total_len.into());
                let packet = packet.get(..len).unwrap_or(packet);
                if !ours || !sent.contains(&packet) {
                    found.came = true;
                    found.accepted |= ours && holds(packet);
                }
            }
            None => found.came = true,
        }
    }
    found
}

/// Tells whether each cell's header error control holds, and the CRC-10 of each cell or the CRC-32 of each PDU.
fn crcs_hold(aal: Aal, cells: &[Cell]) -> bool {
    let mut pdu = Vec::new();
    for cell in cells {
        let Ok(header) = Header::parse(cell) else {
            return false;
        };
        let payload = atm::payload(cell);
        match aal {
            Aal::Aal34 if !crc10_holds(payload) => return false,
            Aal::Aal34 => {}
            Aal::Aal5 => {
                pdu.extend_from_slice(payload);
                if header.ends_pdu() {
                    if !aal5::crc_holds(&pdu) {
                        return false;
                    }
                    pdu.clear();
                }
            }
        }
    }
    true
}

/// Tells whether IP's and TCP's lengths and checksums say that this is a segment of TCP: the Internet checksum's word, by the
/// plainest kernel and in no code of the stack.
pub(super) fn holds(packet: &[u8]) -> bool {
    let Ok(header) = ipv4::Header::parse(packet) else {
        return false;
    };
    let segment = packet.get(usize::from(header.header_len)..usize::from(header.total_len));
    let Some(segment) = segment else {
        return false;
    };
    if header.protocol != ipv4::protocol::TCP
        || header.is_fragment()
        || !ipv4::Header::checksum_is_valid(packet)
    {
        return false;
    }
    let pseudo = ipv4::pseudo_header(
        header.source,
        header.destination,
        header.protocol,
        segment.len() as u16,
    );
    (pseudo + Kernel::HALFWORD.sum(segment)).is_valid()
}

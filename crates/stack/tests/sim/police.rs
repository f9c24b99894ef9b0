//! Rules that every segment on the wire must keep, whoever sends it and whatever happened before.
//!
//! No byte is sent beyond the window that the peer has advertised, but for the one of a probe (RFC 9293, 3.8.6.1). No
//! advertised window is ever taken back (SHLD-14). A retransmission has the bytes of the first transmission: the
//! applications see to that.

use std::collections::HashMap;
use tollgate_wire::SeqNumber;
use tollgate_wire::ethernet;
use tollgate_wire::ipv4;
use tollgate_wire::tcp::{Flags, Header};

/// One direction of a connection: the sender's port and the receiver's, and which host sends.
type Direction = (usize, u16, u16);

/// Window that a host has advertised to its peer.
#[derive(Clone, Copy, Debug)]
struct AdvertisedWindow {
    /// Shift of its windows, once the peer's SYN has shown that both scale.
    shift: Option<u8>,
    acknowledged: SeqNumber,
    /// The sequence number that the peer must not send.
    edge: SeqNumber,
    /// Window of its SYN, which counts for data that comes before the handshake is complete (RFC 7413, 4.2.2).
    opening: u16,
}

/// Watches everything that both hosts send.
#[derive(Debug, Default)]
pub struct Police {
    windows: HashMap<Direction, AdvertisedWindow>,
    /// The first offence.
    pub offence: Option<String>,
}

impl Police {
    /// Looks at a frame before anything happens to it.
    pub fn look(&mut self, host: usize, bytes: &[u8]) {
        let Some(packet) = bytes.get(ethernet::HEADER_LEN..) else {
            return;
        };
        let Ok(ip) = ipv4::Header::parse(packet) else {
            return;
        };
        if ip.protocol != ipv4::protocol::TCP || ip.is_fragment() {
            return;
        }
        let segment = &packet[usize::from(ip.header_len)..usize::from(ip.total_len)];
        let Ok(header) = Header::parse(segment) else {
            return;
        };
        let len = (segment.len() - usize::from(header.header_len)) as u32;
        let mine = (host, header.source_port, header.destination_port);
        let theirs = (1 - host, header.destination_port, header.source_port);
        if let Err(what) = self.advertised(mine, theirs, &header) {
            self.note(host, &header, &what);
        }
        let Some(advertised) = self.windows.get(&theirs) else {
            return;
        };
        if advertised.edge == SeqNumber(0) && advertised.acknowledged == SeqNumber(0) {
            // Early data that overtakes the answer to the SYN, which found no room at the link: where its window begins is not known yet.
            return;
        }
        let beyond = (header.seq + len).signed_distance(advertised.edge);
        if beyond > 1 && len > 1 && !header.flags.has(Flags::SYN) {
            self.note(
                host,
                &header,
                &format!("{len} bytes end {beyond} beyond the window"),
            );
        }
    }

    /// Takes note of what a segment offers.
    fn advertised(
        &mut self,
        mine: Direction,
        theirs: Direction,
        header: &Header,
    ) -> Result<(), String> {
        if header.flags.has(Flags::RST) || !header.flags.has(Flags::ACK) {
            if header.flags.has(Flags::SYN) {
                let shift = header.options.window_scale;
                self.windows.insert(
                    mine,
                    AdvertisedWindow {
                        shift,
                        acknowledged: SeqNumber(0),
                        edge: SeqNumber(0),
                        opening: header.window,
                    },
                );
            }
            return Ok(());
        }
        if header.flags.has(Flags::SYN) {
            // An answer scales only when the question did; both do, or neither.
            let shift = header.options.window_scale;
            if let Some(asked) = self.windows.get_mut(&theirs) {
                if shift.is_none() {
                    asked.shift = None;
                }
                if asked.edge == SeqNumber(0) && asked.acknowledged == SeqNumber(0) {
                    asked.acknowledged = header.seq + 1;
                    asked.edge = header.seq + 1 + u32::from(asked.opening);
                }
            }
            let edge = header.ack + u32::from(header.window);
            self.windows.insert(
                mine,
                AdvertisedWindow {
                    shift,
                    acknowledged: header.ack,
                    edge,
                    opening: header.window,
                },
            );
            return Ok(());
        }
        let Some(advertised) = self.windows.get_mut(&mine) else {
            return Ok(());
        };
        let edge = header.ack + (u32::from(header.window) << advertised.shift.unwrap_or(0));
        if advertised.edge == SeqNumber(0) && advertised.acknowledged == SeqNumber(0) {
            *advertised = AdvertisedWindow {
                acknowledged: header.ack,
                edge,
                ..*advertised
            };
            return Ok(());
        }
        let back = advertised.edge.signed_distance(edge);
        // The shift rounds down.
        let rounding = 1 << advertised.shift.unwrap_or(0);
        if header.ack.before(advertised.acknowledged) {
            return Err(format!(
                "acknowledges {} less than before",
                advertised.acknowledged - header.ack
            ));
        }
        advertised.acknowledged = header.ack;
        advertised.edge = advertised.edge.latest(edge);
        if back >= rounding {
            return Err(format!("takes {back} bytes of window back"));
        }
        Ok(())
    }

    fn note(&mut self, host: usize, header: &Header, what: &str) {
        let name = ["a", "b"][host];
        self.offence.get_or_insert_with(|| {
            format!(
                "{name} sends from port {} {:?} {:?}: {what}",
                header.source_port, header.flags, header.seq
            )
        });
    }
}

//! A capture as the trace reader sees it, frame by frame.

use std::fs::File;
use std::path::Path;

use tollgate_trace::capture::{Capture, Damage, LinkType, Packet, Refused, Step};
use tollgate_trace::decode::{self, Ignored};
use tollgate_trace::flows::Limits;
use tollgate_trace::rows::{InMemory, Protocol};
use tollgate_trace::{Importer, Settings};

use crate::frame::{Frame, Transport};

/// Reader's verdict on a packet that gave no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It gave a row, or is a whole datagram that should have.
    Transport,
    /// It is a fragment.
    Fragment,
    /// Nothing is read of it, for this reason.
    Ignored(Ignored),
}

/// Facts that the reader knows of a frame, besides those that are compared.
#[derive(Clone, Debug)]
pub struct Details {
    pub link: LinkType,
    pub fate: Fate,
    /// Bytes of the datagram's payload by its headers, and of those the captured ones.
    pub payload: Option<(u32, usize)>,
}

/// All of a capture.
pub struct Read {
    pub frames: Vec<(Frame, Details)>,
    pub damage: Damage,
}

/// A file that the reader refuses.
pub enum Failure {
    /// It has none of the marks of a capture.
    NoCapture,
    /// It has, and is refused all the same.
    Refused(String),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unknown { .. } | Refused::Empty | Refused::Read(_) => Self::NoCapture,
            other => Self::Refused(other.to_string()),
        }
    }
}

fn open(path: &Path) -> Result<Capture<File>, Failure> {
    let file = File::open(path).map_err(|_| Failure::NoCapture)?;
    Ok(Capture::new(file)?)
}

/// Reads the capture at `path`: once for what each packet is, and once for the rows.
pub fn read(path: &Path) -> Result<Read, Failure> {
    let mut frames = packets(path)?;
    let damage = rows(path, &mut frames)?;
    Ok(Read { frames, damage })
}

fn packets(path: &Path) -> Result<Vec<(Frame, Details)>, Failure> {
    let mut capture = open(path)?;
    let mut frames = Vec::new();
    loop {
        match capture.step() {
            Step::Packet(packet) => frames.push(looked_at(&packet)),
            Step::Other => {}
            Step::End => return Ok(frames),
        }
    }
}

fn looked_at(packet: &Packet<'_>) -> (Frame, Details) {
    let frame = Frame {
        time_ns: Some(packet.time_ns),
        wire_len: packet.wire_len,
        captured: packet.bytes.len() as u32,
        transport: None,
    };
    let datagram = decode::datagram(packet);
    let fate = match &datagram {
        Ok(datagram) if datagram.part.is_some() => Fate::Fragment,
        Ok(datagram) => decode::transport(datagram).map_or_else(Fate::Ignored, |_| Fate::Transport),
        Err(ignored) => Fate::Ignored(*ignored),
    };
    let details = Details {
        link: packet.link,
        fate,
        payload: datagram.ok().map(|it| (it.len, it.payload.len())),
    };
    (frame, details)
}

/// Runs the importer packet by packet and puts each row into the frame that completed it.
fn rows(path: &Path, frames: &mut [(Frame, Details)]) -> Result<Damage, Failure> {
    let mut capture = open(path)?;
    let mut importer = Importer::new(Settings {
        limits: Limits {
            // A flow that goes for want of room would be another difference.
            flows: 1 << 20,
            ..Limits::default()
        },
        ..Settings::default()
    });
    let mut rows = InMemory::default();
    let mut places = Vec::new();
    let (mut packets, mut known) = (0, 0);
    while let Ok(true) = importer.read(&mut capture, 1, &mut rows) {
        if importer.packets() > packets {
            packets = importer.packets();
            places.push((rows.packets.len() > known).then_some(known));
            known = rows.packets.len();
        }
    }
    let Ok(_) = importer.finish(&mut rows);
    let mut ends: Vec<_> = rows.flows.iter().map(|row| (row.flow, row.ends)).collect();
    ends.sort_unstable_by_key(|(flow, _)| *flow);
    for ((frame, _), place) in frames.iter_mut().zip(places) {
        let Some(row) = place.map(|at| &rows.packets[at]) else {
            continue;
        };
        let found = ends.binary_search_by_key(&row.flow, |(flow, _)| *flow);
        frame.transport = found.ok().map(|at| {
            let ends = ends[at].1;
            let (source, destination) = if row.to_server {
                (ends.client, ends.server)
            } else {
                (ends.server, ends.client)
            };
            Transport {
                protocol: ends.protocol,
                addresses: Some((source.address, destination.address)),
                ports: Some((source.port, destination.port)),
                size: Some(row.size.into()),
                flags: (ends.protocol == Protocol::Tcp).then_some(row.flags),
                flow: row.flow,
            }
        });
    }
    let damage = capture.damage().clone();
    Ok(damage)
}

//! Any cells, as they come or with checks that hold: reassembly never gives more than it may, and views read what they write.
//! Any bytes as a payload come back from their cells.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_checksum::crc;
use tollgate_link::atm::{Aal, CHANNEL, Reassembler, Segmenter};
use tollgate_wire::atm::aal34::{self, SarPdu};
use tollgate_wire::atm::{self, CELL, Cell, Header, PAYLOAD, aal5, llc};

/// Bytes of the longest payload.
const LIMIT: usize = 500;

/// Makes header error control and CRC-10 hold, and the channel ours.
fn repair(cell: &mut Cell) {
    let end = cell[3] & 2 != 0;
    let mut payload: [u8; PAYLOAD] = *atm::payload(cell);
    let [high, low] = crc::crc10(&payload).to_be_bytes();
    payload[PAYLOAD - 2] = payload[PAYLOAD - 2] & 0xfc | high;
    payload[PAYLOAD - 1] = low;
    *cell = atm::cell(Header::user_data(CHANNEL, end), &payload);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, bytes)) = bytes.split_first() else {
        return;
    };
    let aal = if mode & 1 == 0 { Aal::Aal34 } else { Aal::Aal5 };
    let mut reassembler = Reassembler::new(aal, CHANNEL, LIMIT);
    if mode & 4 != 0 {
        reassembler = reassembler.without_crc();
    }
    for chunk in bytes.as_chunks::<CELL>().0 {
        let mut cell = *chunk;
        if mode & 2 != 0 {
            repair(&mut cell);
        }
        if let Ok(header) = Header::parse(&cell) {
            assert_eq!(header.to_bytes()[..], cell[..5]);
        }
        if let Ok(pdu) = SarPdu::parse(atm::payload(&cell)) {
            assert_eq!(SarPdu::parse(&pdu.to_bytes()), Ok(pdu));
        }
        if let Some(payload) = reassembler.push(&cell) {
            assert!(payload.len() <= LIMIT);
        }
    }
    let stats = reassembler.stats();
    assert_eq!(stats.cells, bytes.len() as u64 / CELL as u64);
    // An error is an answer, too.
    let _ = (
        aal34::cpcs_payload(bytes),
        aal5::payload(bytes),
        llc::parse(bytes),
    );

    let mut segmenter = Segmenter::new(aal, CHANNEL);
    if segmenter.begin([&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2..]]) {
        let mut whole = Reassembler::new(aal, CHANNEL, bytes.len());
        let mut came = None;
        for cell in segmenter {
            assert!(came.is_none());
            came = whole.push(&cell).map(<[u8]>::to_vec);
        }
        assert_eq!(came.as_deref(), Some(bytes));
    }
});

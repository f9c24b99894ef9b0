//! Any bytes as a capture, and as what follows the header of one: reading ends, nothing panics, packets add up, and what came
//! out as rows is what was counted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_trace::capture::Capture;
use tollgate_trace::flows::Limits;
use tollgate_trace::rows::InMemory;
use tollgate_trace::{Importer, Settings};

/// The headers of a pcap file of Ethernet and of raw IP, and of a pcapng file with an interface of Linux cooked packets.
const FRONTS: [&[u8]; 4] = [
    b"",
    b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0",
    b"\xa1\xb2\x3c\x4d\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\0\0\0\x65",
    b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0\
      \x01\0\0\0\x14\0\0\0\x14\x01\0\0\0\0\0\0\x14\0\0\0",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else {
        return;
    };
    let file = [FRONTS[usize::from(*choice) % FRONTS.len()], rest].concat();
    let Ok(mut capture) = Capture::new(&file[..]) else {
        return;
    };
    let limits = Limits {
        flows: 4,
        ..Limits::default()
    };
    let mut importer = Importer::new(Settings {
        limits,
        ..Settings::default()
    });
    let mut rows = InMemory::default();
    while importer.read(&mut capture, 100, &mut rows) == Ok(true) {}
    let Ok(counts) = importer.finish(&mut rows);
    let (content, damage) = capture.finish().expect("a slice can be read");
    assert_eq!(content.bytes, file.len() as u64);
    assert_eq!(counts.messages, rows.messages.len() as u64);
    assert_eq!(counts.tcp.packets + counts.udp.packets, rows.packets.len() as u64);
    assert_eq!(counts.tcp.flows + counts.udp.flows, rows.flows.len() as u64);
    let unknown: u64 = counts.unknown_links.values().sum();
    assert_eq!(
        counts.packets + counts.reassembled,
        counts.tcp.packets
            + counts.udp.packets
            + counts.fragments
            + counts.other_protocols
            + counts.not_ip
            + unknown
            + counts.malformed
            + counts.headers_cut
    );
    let carried: u64 = rows
        .flows
        .iter()
        .map(|flow| flow.to_server.bytes + flow.to_client.bytes)
        .sum();
    assert_eq!(counts.tcp.bytes + counts.udp.bytes, carried);
    // Only what is compressed can be longer than the file.
    if capture_is_plain(&file) {
        assert!(damage.skipped_bytes + damage.cut_bytes <= file.len() as u64);
    }
});

fn capture_is_plain(file: &[u8]) -> bool {
    !file.starts_with(&[0x1f, 0x8b]) && !file.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

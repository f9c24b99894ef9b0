//! Tests of `stack-memory`: content, prediction, and that nothing grows.

use super::*;
use crate::cell_faults::FaultyLink;
use crate::sockets::{MAX_DATAGRAM, Sockets, Transport};

fn spec(workload: Workload, size: usize) -> Spec {
    Spec {
        warmup: 2,
        ..Spec::new(workload, size)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .verified()
    }
}

fn open(workload: Workload, size: usize) -> MemorySession<Memory> {
    MemorySession::open(&spec(workload, size), DEFAULT_MTU, Memory::new).unwrap()
}

fn runs_whole(workload: Workload, sizes: &[usize], per_iteration: u64) {
    for &size in sizes {
        let mut session = open(workload, size);
        let mut samples = session.new_samples();
        for iterations in [20, 1, 0, 12] {
            session
                .run(iterations, &mut samples)
                .unwrap_or_else(|error| panic!("{size}: {error}"));
        }
        assert_eq!(samples.operations(), 33);
        assert_eq!(samples.bytes(), 33 * per_iteration * size as u64);
    }
}

#[test]
fn rr_carries_every_byte_both_ways() {
    runs_whole(
        Workload::Rr,
        &[1, 4, 1400, 1448, 1449, 8000, 65_536, 200_000],
        2,
    );
}

fn datagrams(size: usize, checksum: &str) -> MemorySession<Memory> {
    let mut spec = spec(Workload::Rr, size).over(Sockets {
        transport: Transport::Udp,
        ..Sockets::PLAIN
    });
    spec.mechanisms.set("checksum", checksum).unwrap();
    MemorySession::open(&spec, DEFAULT_MTU, Memory::new).unwrap()
}

#[test]
fn datagrams_carry_every_byte_both_ways() {
    for checksum in ["always", "redundancy-avoidance", "off"] {
        for size in [1, 4, 1472, 1473, 8000, MAX_DATAGRAM] {
            let mut session = datagrams(size, checksum);
            let mut samples = session.new_samples();
            for iterations in [20, 1, 0, 12] {
                session.run(iterations, &mut samples).unwrap();
            }
            assert_eq!(samples.operations(), 33);
            assert_eq!(samples.bytes(), 33 * 2 * size as u64);
        }
    }
}

#[test]
fn datagrams_are_whole_only_where_they_need_no_fragments_without_checksums() {
    let unverified = |size, checksum| {
        let mut session = datagrams(size, checksum);
        session.run(10, &mut session.new_samples()).unwrap();
        let unverified = session.ends.hosts.counters().map(|one| one.unverified);
        if checksum == "redundancy-avoidance" {
            let settings = session.settings();
            let told = settings.iter().find(|(name, _)| *name == "checksums");
            let come = match unverified[0] {
                0 => "none has come without",
                _ => "some have come without",
            };
            assert!(told.unwrap().1.ends_with(come), "{told:?}");
        }
        unverified
    };
    assert_eq!(unverified(1472, "always"), [0, 0]);
    // Two of each slice warm it up.
    assert_eq!(unverified(1472, "redundancy-avoidance"), [12, 12]);
    assert_eq!(unverified(1473, "redundancy-avoidance"), [0, 0]);
    assert_eq!(unverified(1473, "off"), [12, 12]);
}

#[test]
fn datagrams_are_request_response_and_within_their_limit() {
    for (workload, size) in [
        (Workload::Crr, 4),
        (Workload::Stream, 4),
        (Workload::Rr, MAX_DATAGRAM + 1),
    ] {
        let spec = spec(workload, size).over(Sockets {
            transport: Transport::Udp,
            ..Sockets::PLAIN
        });
        assert!(StackMemory::DEFAULT.open(&spec).is_err(), "{workload}");
    }
}

#[test]
fn crr_carries_every_byte_both_ways() {
    runs_whole(Workload::Crr, &[4, 1400, 8000, 100_000], 2);
}

#[test]
fn stream_carries_every_byte() {
    runs_whole(Workload::Stream, &[4, 1400, 8000, 65_536, 200_000], 1);
}

#[test]
fn a_large_mtu_carries_every_byte_too() {
    for workload in Workload::ALL {
        let mut session = MemorySession::open(&spec(*workload, 20_000), 9000, Memory::new).unwrap();
        session.run(20, &mut session.new_samples()).unwrap();
    }
    let error = MemorySession::open(&spec(Workload::Rr, 4), 20, Memory::new)
        .err()
        .unwrap();
    assert!(matches!(error, Error::Stack { .. }), "{error}");
}

#[test]
fn a_long_stream_of_small_writes_arrives_whole() {
    for nagle in [true, false] {
        let spec = spec(Workload::Stream, 7).with_nagle(nagle);
        let mut session = MemorySession::open(&spec, DEFAULT_MTU, Memory::new).unwrap();
        session.run(30_000, &mut session.new_samples()).unwrap();
        assert_eq!(session.ends.read, 210_000);
        assert_eq!(session.ends.written, 210_000);
    }
}

#[test]
fn round_trips_of_one_segment_are_predicted() {
    let mut session = open(Workload::Rr, 80);
    let before = session.ends.hosts.counters().map(|counters| *counters);
    session.run(500, &mut session.new_samples()).unwrap();
    let after = session.ends.hosts.counters();
    for (before, after) in before.iter().zip(after) {
        assert!(after.predicted - before.predicted >= 502);
        // Whether an ACK delay of 40 ms runs out in between is up to the machine.
        assert!(after.frames_in - before.frames_in <= 512);
    }
}

#[test]
fn time_waits_are_bounded() {
    let mut session = open(Workload::Crr, 4);
    session.run(1500, &mut session.new_samples()).unwrap();
    assert_eq!(session.ends.hosts.time_waits(), 1024);
}

#[test]
fn nagle_fills_the_segments_of_a_stream() {
    let spec = spec(Workload::Stream, 64).with_nagle(true);
    let mut session = MemorySession::open(&spec, DEFAULT_MTU, Memory::new).unwrap();
    session.run(10_000, &mut session.new_samples()).unwrap();
    let [_, server] = session.ends.hosts.counters();
    let full = 640_000 / 1448;
    assert!(
        server.frames_in >= full && server.frames_in <= full + full / 4 + 10,
        "{} frames for {full} full segments",
        server.frames_in
    );
}

#[test]
fn wrong_bytes_are_noticed() {
    let mut session = open(Workload::Stream, 4);
    session.ends.read = 1;
    session.ends.written = 1;
    session.ends.hosts.offer(&[0]).unwrap();
    let mut samples = session.new_samples();
    let error = session.run(3, &mut samples).unwrap_err();
    assert!(
        matches!(error, Error::Corrupt { what: "stream", .. }),
        "{error}"
    );
    assert!(matches!(
        session.run(1, &mut samples),
        Err(Error::Poisoned { .. })
    ));
}

#[test]
fn settings_say_what_was_chosen() {
    let rr = open(Workload::Rr, 4).settings();
    assert!(rr.contains(&("nagle", "off".to_owned())));
    assert!(rr.contains(&("mtu", "1500".to_owned())));
    let stream = open(Workload::Stream, 4).settings();
    assert!(stream.contains(&("nagle", "off".to_owned())));
}

#[test]
fn every_link_carries_every_byte_of_every_workload() {
    for &link in LinkKind::ALL {
        for &workload in Workload::ALL {
            for size in [1, 200, 8_000, 40_000] {
                let spec = spec(workload, size).with_link(link);
                let mut session = StackMemory::DEFAULT.open(&spec).unwrap();
                session.run(20, &mut session.new_samples()).unwrap();
                let settings = session.settings();
                let told = |name| settings.iter().find(|(known, _)| *known == name);
                let mtu = link.mtu().unwrap_or(DEFAULT_MTU).to_string();
                assert_eq!(told("mtu").unwrap().1, mtu);
                let link_told = told("link").map_or("ethernet", |(_, told)| told);
                assert!(link_told.starts_with(link.name()), "{link_told}");
            }
        }
    }
}

/// A line that loses and damages cells, and a receive FIFO that overflows: every byte arrives, and the counts tell what was sent again.
#[test]
fn cells_are_lost_and_damaged_as_told_and_every_byte_arrives() {
    for name in ["atm-aal34", "atm-aal5"] {
        for (options, workload, size, iterations) in [
            ("loss=0.001,seed=3", Workload::Rr, 1_000, 300),
            ("bits=0.000002,seed=3", Workload::Rr, 1_000, 300),
            ("when-full=lose", Workload::Stream, 40_000, 20),
        ] {
            let FaultyLink { kind, faults } = format!("{name},{options}").parse().unwrap();
            let spec = spec(workload, size).with_link(kind).with_cells(faults);
            // About 16 of some 16,000 cells meet a fault, and each costs a timeout or a probe.
            let mut session = StackMemory::DEFAULT.open(&spec).unwrap();
            session.run(iterations, &mut session.new_samples()).unwrap();
            let (settings, counts) = (session.settings(), session.cell_counts().unwrap());
            let told = settings.iter().find(|(name, _)| *name == "link").unwrap();
            assert!(
                told.1.starts_with(&format!("{name},{options}, FIFOs")),
                "{told:?}"
            );
            let found = counts.bad_headers + counts.bad_crcs + counts.gaps;
            assert!(found > 0, "{name},{options}: {counts:?}");
            let met = [
                (options.starts_with("loss"), counts.lost),
                (options.starts_with("bits"), counts.damaged),
                (options.starts_with("when-full"), counts.overflowed),
            ];
            for (expected, met) in met {
                assert_eq!(expected, met > 0, "{name},{options}: {counts:?}");
            }
        }
        let quiet = spec(Workload::Rr, 1_000).with_link(name.parse().unwrap());
        let mut session = StackMemory::DEFAULT.open(&quiet).unwrap();
        session.run(60, &mut session.new_samples()).unwrap();
        let CellCounts { sent, .. } = session.cell_counts().unwrap();
        let expected = CellCounts {
            sent,
            ..CellCounts::default()
        };
        assert_eq!(session.cell_counts(), Some(expected));
        assert!(sent > 60 * 2 * 20, "{sent}");
    }
    assert!(open(Workload::Rr, 4).cell_counts().is_none());
}

#[test]
fn streams_of_the_longest_packets_have_buffers_for_several_and_arrive_whole() {
    for (mtu, buffers) in [(1_500, 65_536), (9_000, 65_536), (65_344, 261_376)] {
        // A write is a full segment and a short one.
        let spec = spec(Workload::Stream, 65_536);
        let mut session = StackMemory::with_mtu(mtu).open(&spec).unwrap();
        for writes in [20, 1, 224] {
            session.run(writes, &mut session.new_samples()).unwrap();
        }
        let grow = " at first, they grow with what a connection carries";
        let told = ("socket buffers", format!("{buffers} bytes{grow}"));
        assert!(session.settings().contains(&told), "{mtu}");
    }
    let mut fixed = spec(Workload::Stream, 65_536);
    fixed.mechanisms.set("tuning", "off").unwrap();
    let session = StackMemory::DEFAULT.open(&fixed).unwrap();
    let told = ("socket buffers", "65536 bytes".to_owned());
    assert!(session.settings().contains(&told));
}

#[test]
fn a_link_and_an_mtu_of_the_paths_own_exclude_each_other() {
    let spec = spec(Workload::Rr, 4).with_link(LinkKind::Fddi);
    let error = StackMemory::with_mtu(9_000).open(&spec).err().unwrap();
    assert_eq!(
        error.to_string(),
        "stack-memory does not run an MTU of 9000 bytes over the link fddi; it has: its own 4352 bytes"
    );
}

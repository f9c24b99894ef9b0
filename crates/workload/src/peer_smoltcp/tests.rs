//! Tests of `peer-smoltcp`: content, and that no frame more than needed crosses the link.

use super::*;

fn spec(workload: Workload, size: usize) -> Spec {
    Spec {
        warmup: 2,
        ..Spec::new(workload, size)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .verified()
    }
}

fn runs_whole(workload: Workload, sizes: &[usize], per_iteration: u64) {
    for &size in sizes {
        let mut session = SmoltcpSession::open(&spec(workload, size)).unwrap();
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
        &[4, 1400, 1460, 1461, 8000, 65_536, 200_000],
        2,
    );
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
fn a_long_stream_of_small_writes_arrives_whole() {
    for nagle in [true, false] {
        let mut session =
            SmoltcpSession::open(&spec(Workload::Stream, 7).with_nagle(nagle)).unwrap();
        let mut samples = session.new_samples();
        session.run(30_000, &mut samples).unwrap();
        assert_eq!(session.read, 210_000);
        assert_eq!(session.written, 210_000);
    }
}

fn frames(session: &SmoltcpSession) -> u64 {
    session.client.link.sent() + session.server.link.sent()
}

/// Tells whether an ACK delay of 10 ms runs out in between is up to the machine, so a few more frames are allowed for it.
const SLACK: u64 = 10;

#[test]
fn a_round_trip_of_one_segment_is_two_frames() {
    let mut session = SmoltcpSession::open(&spec(Workload::Rr, 80)).unwrap();
    let mut samples = session.new_samples();
    let before = frames(&session);
    session.run(200, &mut samples).unwrap();
    let carried = frames(&session) - before;
    assert!(
        (2 * 202..=2 * 202 + SLACK).contains(&carried),
        "{carried} frames"
    );
}

#[test]
fn a_connection_is_seven_frames() {
    let mut session = SmoltcpSession::open(&spec(Workload::Crr, 80)).unwrap();
    let mut samples = session.new_samples();
    let before = frames(&session);
    session.run(200, &mut samples).unwrap();
    let carried = frames(&session) - before;
    // SYN, SYN and ACK, request, response, FIN, FIN and ACK, ACK.
    assert!(
        (7 * 202..=7 * 202 + SLACK).contains(&carried),
        "{carried} frames"
    );
}

#[test]
fn nagle_fills_the_segments_of_a_stream() {
    let mut session = SmoltcpSession::open(&spec(Workload::Stream, 64).with_nagle(true)).unwrap();
    let mut samples = session.new_samples();
    let before = session.client.link.sent();
    session.run(10_000, &mut samples).unwrap();
    let (carried, full) = (session.client.link.sent() - before, 640_000 / MSS as u64);
    assert!(
        carried >= full && carried <= full + full / 4 + SLACK,
        "{carried} frames for {full} full segments"
    );
}

#[test]
fn local_ports_come_round_after_the_last() {
    let mut session = SmoltcpSession::open(&spec(Workload::Crr, 4)).unwrap();
    session.connections = u64::from(LOCAL_PORTS.1) - 2;
    let mut samples = session.new_samples();
    session.run(5, &mut samples).unwrap();
    assert_eq!(session.connections, u64::from(LOCAL_PORTS.1) + 5);
}

#[test]
fn wrong_bytes_are_noticed() {
    let mut session = SmoltcpSession::open(&spec(Workload::Stream, 4)).unwrap();
    session.read = 1;
    session.written = 1;
    session.client.send(&[0]).unwrap();
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
    let rr = SmoltcpSession::open(&spec(Workload::Rr, 4))
        .unwrap()
        .settings();
    assert!(rr.contains(&("nagle", "off".to_owned())));
    let stream = SmoltcpSession::open(&spec(Workload::Stream, 4))
        .unwrap()
        .settings();
    assert!(stream.contains(&("nagle", "off".to_owned())));
}

use super::*;

const SPAN: Span = Span {
    name: "ip",
    direction: Direction::Rx,
    layer: tollgate_gate::Layer::Ip,
    kind: Kind::Processing,
    wolman: None,
    kay_pasquale: &[],
    place: Place::OnTheWay,
    from: Gate::IpInBegin,
    to: Gate::DemuxBegin,
};

fn way(from: f64, to: f64) -> Option<Way> {
    Some(Way {
        from,
        to,
        probes: 2.0,
        handed_over: false,
    })
}

fn one(kind: Kind, packets: &[Option<Way>]) -> AtSpan {
    let mut at = AtSpan::default();
    at.add_response(kind, packets);
    at
}

#[test]
fn packets_that_go_straight_through_are_work() {
    let at = one(
        Kind::Processing,
        &[way(0.0, 12.0), way(20.0, 42.0), way(50.0, 62.0)],
    );
    assert_eq!(at.work_ns(), Some((10.0 + 20.0 + 10.0) / 3.0));
    assert_eq!(at.wait_ns(), Some(0.0));
    assert_eq!(at.gaps_ns(), [None, Some(20.0), Some(30.0)]);
}

#[test]
fn a_packet_behind_another_waits_and_is_no_work() {
    let at = one(Kind::Processing, &[way(0.0, 12.0), way(5.0, 32.0)]);
    assert_eq!(at.work_ns(), Some(10.0));
    assert_eq!(at.wait_by_place_ns(), [Some(0.0), Some(25.0)]);
}

#[test]
fn what_another_processor_goes_on_with_has_waited() {
    let handed = way(20.0, 122.0).map(|way| Way {
        handed_over: true,
        ..way
    });
    let at = one(Kind::Processing, &[way(0.0, 12.0), handed]);
    assert_eq!(at.work_ns(), Some(10.0));
    assert_eq!(at.wait_by_place_ns(), [Some(0.0), Some(100.0)]);
}

#[test]
fn packets_in_one_piece_share_its_time() {
    let at = one(
        Kind::Processing,
        &[way(0.0, 32.0), way(0.0, 32.0), way(0.0, 32.0)],
    );
    assert_eq!(at.work_ns(), Some(10.0));
    assert_eq!(at.wait_ns(), Some(0.0));
    let queue = one(Kind::Queueing, &[way(0.0, 32.0), way(0.0, 32.0)]);
    assert_eq!((queue.work_ns(), queue.wait_ns()), (None, Some(30.0)));
}

#[test]
fn a_packet_that_was_not_seen_breaks_the_train() {
    let at = one(Kind::Processing, &[way(0.0, 12.0), None, way(5.0, 17.0)]);
    assert_eq!(at.work_ns(), Some(10.0));
    assert_eq!(at.gaps_ns(), [None, None, None]);
}

#[test]
fn the_longest_twentieth_is_left_out() {
    let mut values = vec![10.0; 19];
    values.push(1_000.0);
    assert_eq!(typical(&values), Some(10.0));
    assert_eq!(typical(&[]), None);
    assert_eq!(typical(&[3.0]), Some(3.0));
}

#[test]
fn the_way_of_the_last_byte_sums_to_the_round_trip() {
    let table = SpanTable::new(Box::leak(Box::new([SPAN]))).unwrap();
    let mut size = AtSize::new(1);
    let seen = Seen {
        packets: vec![vec![way(0.0, 12.0), None]],
        requests: vec![way(0.0, 32.0).unwrap()],
        responses: vec![way(0.0, 42.0).unwrap()],
        lost: 3,
        strange: 1,
        messages: 2,
    };
    size.add(0, &SPAN, &seen);
    assert_eq!(size.sum_ns(table), Some(70.0));
    assert_eq!(size.closure(table), None);
    size.ungated = vec![100.0];
    assert!((size.closure(table).unwrap() - 0.3).abs() < 1e-9);
    assert_eq!((size.packets, size.messages), ((2, 1), (2, 2)));
    assert_eq!((size.lost, size.strange), (3, 1));
}

#[test]
fn sizes_are_the_papers_or_fewer_of_them() {
    let (all, fewer) = sizes(&Options::default(), None);
    assert_eq!((all.len(), fewer), (256, false));
    assert_eq!((all[0], all[1], all[255]), (256, 512, 65_536));
    let (few, fewer) = sizes(&Options::default(), Some(Duration::from_secs(2)));
    assert!(fewer && few.len() < 10);
    for size in [256, 8_192, 65_536] {
        assert!(few.contains(&size), "{few:?}");
    }
    let given = Options {
        sizes: Some(vec![300]),
        ..Options::default()
    };
    assert_eq!(sizes(&given, None), (vec![300], false));
}

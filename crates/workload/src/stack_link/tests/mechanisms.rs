//! Our stack beside Linux's with each mechanism switched, and what Linux does not go along with.

use std::thread;

use tollgate_run::Workload;
use tollgate_stack::Checksums;
use tollgate_wire::tcp::NO_CHECKSUM;

use super::watch::Watch;
use super::*;

pub(crate) fn checksums_cannot_be_left_out<L: Subject>() {
    let mut spec = Spec::new(Workload::Rr, 4);
    spec.mechanisms.set("checksum", "off").unwrap();
    let error = L::path().open(&spec).err().expect("refused");
    assert_eq!(
        error.to_string(),
        format!(
            "{} does not run without checksums: the kernel verifies them; it has: checksum=always, \
             checksum=redundancy-avoidance",
            L::PATH
        )
    );
}

pub(crate) fn every_mechanism_talks_to_linux<L: Subject>() {
    if !available::<L>() {
        return;
    }
    for (name, value, mechanisms) in Mechanisms::each() {
        if (name, value) == ("checksum", "off") {
            continue;
        }
        for &workload in Workload::ALL {
            let spec = Spec::new(workload, 3_000)
                .with_mode(Placement::OneCore, Waiting::Blocking)
                .with_mechanisms(mechanisms)
                .verified();
            let mut session = L::path().open(&spec).unwrap();
            let mut samples = session.new_samples();
            session
                .run(6, &mut samples)
                .unwrap_or_else(|error| panic!("{name}={value} {workload}: {error}"));
            if workload == Workload::Stream {
                let settings = session.settings();
                let writes = settings.iter().find(|(name, _)| *name == "writes");
                let trains = L::GATHERS && mechanisms.segmentation == Segmentation::Gso;
                assert_eq!(writes.unwrap().1.ends_with("trains"), trains, "{writes:?}");
            }
        }
    }
}

/// RFC 1146 makes the option one that hosts may ignore. Both ways, with either evidence that the peer is on the same LAN.
pub(crate) fn linux_declines_to_leave_checksums_out<L: Subject>() {
    const LEN: usize = 1 << 20;
    for evidence in ["subnet", "spanning-tree"] {
        let mut spec = Spec::new(Workload::Rr, 1);
        for (name, value) in [
            ("checksum", "redundancy-avoidance"),
            ("lan-evidence", evidence),
            // A probe of a reader that is late is no retransmission that a wrong checksum asks for.
            ("tail-probe", "off"),
        ] {
            spec.mechanisms.set(name, value).unwrap();
        }
        let Some(mut host) = Host::<L>::of(1500, &spec) else {
            return;
        };
        let watch = Watch::new(&host);
        let (listener, address) = kernel_listener(&host);
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            let mut read = vec![0; LEN];
            stream.read_exact(&mut read)?;
            assert!(read == bytes(LEN), "other bytes");
            stream.write_all(&read)
        });
        let conn = host.connect(address);
        host.send(conn, &bytes(LEN));
        assert_eq!(host.receive_all(conn), LEN);
        let info = host.active().info(conn).unwrap();
        assert_eq!(info.checksums, Checksums::Declined, "{evidence}");
        assert_eq!((info.retransmits, info.bytes_retransmitted), (0, 0));
        host.close(conn);
        host.join(peer);
        // Linux does not ask, so it is not answered either.
        serve_echo(&mut host, LEN);
        let syns = watch.syns();
        let asked: Vec<(bool, bool, Option<u8>)> = syns
            .iter()
            .map(|syn| (syn.is_ours, syn.is_answer, syn.alternate_checksum))
            .collect();
        let expected = [
            (true, false, Some(NO_CHECKSUM)),
            (false, true, None),
            (false, false, None),
            (true, true, None),
        ];
        assert_eq!(asked, expected, "{evidence}");
        let counters = *host.stack.counters();
        assert_eq!((counters.unverified, counters.unsummed_connections), (0, 0));
        host.nothing_was_wrong();
    }
}

pub(crate) fn segments_leave_alone_where_trains_are_off<L: Subject>() {
    let alone = Spec::new(Workload::Rr, 1).with_mechanisms(Mechanisms {
        segmentation: Segmentation::PerPacket,
        ..Mechanisms::DEFAULT
    });
    let Some(mut host) = Host::<L>::of(1500, &alone) else {
        return;
    };
    serve_echo(&mut host, 1 << 20);
    host.nothing_was_wrong();
    assert_eq!(host.link_mut().counts().gathered, 0);
}

//! TCP between two stacks over cells that are lost, damaged and overflow: every byte arrives, and none is wrong.

use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_link::Side;
use tollgate_link::atm::{Aal, Cable, Config as AtmConfig, MTU, Noise, WhenFull};
use tollgate_link::fault::Probability;
use tollgate_stack::{Config, Error, Instant, Pool, Received, Stack};
use tollgate_wire::ethernet::MacAddr;

const PORT: u16 = 7;
const BYTES: usize = 400_000;

fn mac(host: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, host])
}

fn stack(host: u8, now: Instant) -> Stack {
    let ip = Ipv4Addr::new(10, 0, 0, host);
    let config = Config::new(mac(host), ip, 24, [host.into(), 2, 3, 4]);
    Stack::new(config, MTU, now).unwrap()
}

/// The cable over which [`BYTES`] were sent, and arrived as they were.
fn transfer(aal: Aal, change: impl Fn(&mut AtmConfig)) -> Cable {
    let mut now = Instant::from_nanos(1 << 40);
    let mut pool = Pool::new(512, Pool::frame_size_for(MTU));
    let [a, b] = [(1, 2), (2, 1)].map(|(local, peer)| {
        let mut config = AtmConfig::new(aal, mac(local), mac(peer));
        config.seed = local.into();
        change(&mut config);
        config
    });
    let mut cable = Cable::new(a, b);
    let (mut client, mut server) = (stack(1, now), stack(2, now));
    let listener = server.at(now, &mut pool).listen(PORT, 1).unwrap();
    let to = SocketAddrV4::new(server.config().ip, PORT);
    let conn = client.at(now, &mut pool).connect(to).unwrap();
    let sent: Vec<u8> = (0..BYTES).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect();
    let (mut queued, mut accepted, mut read) = (0, None, Vec::new());
    let mut buffer = vec![0; 65_536];
    for _ in 0..200_000 {
        let mut active = client.at(now, &mut pool);
        match active.send(conn, &sent[queued..]) {
            Ok(count) => queued += count,
            Err(Error::WouldBlock | Error::NotConnected) => {}
            Err(error) => panic!("{error}"),
        }
        active.poll(&mut cable.end(Side::A));
        let mut active = server.at(now, &mut pool);
        active.poll(&mut cable.end(Side::B));
        accepted = accepted.or_else(|| active.accept(listener).ok());
        if let Some(conn) = accepted {
            while let Ok(Received::Data(count)) = active.receive(conn, &mut buffer) {
                read.extend_from_slice(&buffer[..count]);
            }
        }
        if read.len() == BYTES {
            assert!(read == sent);
            return cable;
        }
        now = Instant::from_nanos(now.as_nanos() + 2_000_000);
    }
    panic!("{} of {BYTES} bytes arrived", read.len());
}

#[test]
fn a_quiet_line_that_waits_loses_no_cell() {
    for aal in [Aal::Aal34, Aal::Aal5] {
        let cable = transfer(aal, |_| {});
        for side in [Side::A, Side::B] {
            let reassembly = *cable.adapter(side).reassembly();
            assert_eq!(reassembly.payloads, cable.adapter(side).stats().received);
            assert_eq!(reassembly.bad_length + reassembly.bad_sequence, 0);
        }
        assert!(cable.adapter(Side::A).stats().transmit_full > 0);
    }
}

#[test]
fn noise_costs_frames_and_no_byte() {
    for aal in [Aal::Aal34, Aal::Aal5] {
        let cable = transfer(aal, |config| {
            config.noise = Noise {
                lose: Probability::new(2e-4).unwrap(),
                damage: Probability::new(2e-4).unwrap(),
            };
        });
        let stats = cable.adapter(Side::A).stats();
        assert!(stats.lost > 0 && stats.damaged > 0, "{stats:?}");
        assert!(cable.adapter(Side::B).stats().received < stats.sent);
    }
}

#[test]
fn an_overflowing_fifo_costs_frames_and_no_byte() {
    for aal in [Aal::Aal34, Aal::Aal5] {
        let cable = transfer(aal, |config| config.when_full = WhenFull::Lose);
        assert!(cable.adapter(Side::A).stats().overflowed > 0);
    }
}

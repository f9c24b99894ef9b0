//! The client of DHCP and a scripted server (RFC 2131, 2132, 3442, 4361, 5227, 6842).

use crate::peer::{Peer, ip_packet, ms, s};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tollgate_stack::dhcp::{Client, Lease, State};
use tollgate_stack::{AddressState, Error, Instant, Route};
use tollgate_wire::arp::{self, Operation};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::{ipv4, udp};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SERVER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const OFFERED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 50);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
/// The lease's length in seconds.
const LEASE: u32 = 3600;

const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const DECLINE: u8 = 4;
const ACK: u8 = 5;
const NAK: u8 = 6;
const RELEASE: u8 = 7;

/// A message of the client, and how it was sent.
#[derive(Debug)]
struct Heard {
    at: Instant,
    kind: u8,
    from: Ipv4Addr,
    to: Ipv4Addr,
    /// The fixed part and the options as they are.
    bytes: Vec<u8>,
}

impl Heard {
    fn option(&self, code: u8) -> Option<&[u8]> {
        let mut rest = &self.bytes[240..];
        while let [found, len, tail @ ..] = rest {
            if *found == 255 {
                return None;
            }
            let (value, tail) = tail.split_at(usize::from(*len));
            if *found == code {
                return Some(value);
            }
            rest = tail;
        }
        None
    }

    fn ciaddr(&self) -> [u8; 4] {
        self.bytes[12..16].try_into().unwrap()
    }

    fn xid(&self) -> &[u8] {
        &self.bytes[4..8]
    }

    fn is_broadcast_wanted(&self) -> bool {
        self.bytes[10] & 0x80 != 0
    }
}

/// The client, its stack, and the server's side of the wire.
struct Scene {
    peer: Peer,
    client: Client,
    /// Messages of the client that were not looked at yet.
    heard: Vec<Heard>,
    /// Options behind the usual ones of offers and acknowledgments.
    more: Vec<u8>,
    lease: u32,
}

impl Scene {
    fn new() -> Self {
        let peer = Peer::with(|config| {
            config.ip = Ipv4Addr::UNSPECIFIED;
            config.prefix_len = 32;
        });
        let mut client = Client::new([1, 2]);
        client.begin_at_once();
        Self {
            peer,
            client,
            heard: Vec::new(),
            more: Vec::new(),
            lease: LEASE,
        }
    }

    /// Lets client and stack work, and takes what they send.
    fn turn(&mut self) {
        for _ in 0..2 {
            self.peer.poll();
            let mut active = self.peer.stack();
            self.client.poll(&mut active).unwrap();
            while let Some(frame) = self.peer.next_frame() {
                self.take(&frame);
            }
        }
    }

    fn take(&mut self, frame: &[u8]) {
        let link = ethernet::Header::parse(frame).unwrap();
        if link.ethertype != EtherType::Ipv4 {
            return;
        }
        let packet = &frame[ethernet::HEADER_LEN..];
        let ip = ipv4::Header::parse(packet).unwrap();
        let datagram = &packet[ipv4::HEADER_LEN..];
        if ip.protocol != ipv4::protocol::UDP {
            return;
        }
        let header = udp::Header::parse(datagram).unwrap();
        assert_eq!((header.source_port, header.destination_port), (68, 67));
        if ip.destination == Ipv4Addr::BROADCAST {
            assert_eq!(link.destination, MacAddr::BROADCAST);
        }
        let bytes = datagram[udp::HEADER_LEN..].to_vec();
        assert_eq!(bytes[240..242], [53, 1]);
        self.heard.push(Heard {
            at: self.peer.now,
            kind: bytes[242],
            from: ip.source,
            to: ip.destination,
            bytes,
        });
    }

    fn pass(&mut self, time: Duration) {
        let end = self.peer.now + time;
        self.turn();
        while self.peer.now < end {
            let stack = self.peer.stack.next_deadline(self.peer.now);
            let next = stack.into_iter().chain(self.client.next_deadline()).min();
            let tick = self.peer.now + ms(2);
            self.peer.now = next.unwrap_or(end).max(tick).min(end);
            self.turn();
        }
    }

    /// The next message of the client, within `limit`.
    #[track_caller]
    fn hear(&mut self, kind: u8, limit: Duration) -> Heard {
        let end = self.peer.now + limit;
        self.turn();
        while self.heard.is_empty() {
            assert!(self.peer.now < end, "no message {kind} came");
            self.pass(ms(50));
        }
        let heard = self.heard.remove(0);
        assert_eq!(heard.kind, kind, "{heard:?}");
        heard
    }

    /// Sends an answer to a message, changed by `change`.
    fn answer_with(&mut self, to: &Heard, kind: u8, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = vec![0; 240];
        bytes[..3].copy_from_slice(&[2, 1, 6]);
        bytes[4..8].copy_from_slice(to.xid());
        if kind != NAK {
            bytes[16..20].copy_from_slice(&OFFERED.octets());
        }
        bytes[28..34].copy_from_slice(&to.bytes[28..34]);
        bytes[236..].copy_from_slice(&[99, 130, 83, 99]);
        bytes.extend_from_slice(&[53, 1, kind, 54, 4]);
        bytes.extend_from_slice(&SERVER.octets());
        if kind != NAK {
            bytes.extend_from_slice(&[51, 4]);
            bytes.extend_from_slice(&self.lease.to_be_bytes());
            bytes.extend_from_slice(&[1, 4, 255, 255, 255, 0, 3, 4]);
            bytes.extend_from_slice(&ROUTER.octets());
            bytes.extend_from_slice(&self.more);
        }
        bytes.push(255);
        change(&mut bytes);
        let header = udp::Header {
            source_port: 67,
            destination_port: 68,
            len: (udp::HEADER_LEN + bytes.len()) as u16,
            no_checksum: true,
        };
        let datagram = [&header.to_bytes()[..], &bytes].concat();
        let destination = if to.ciaddr() == [0; 4] {
            Ipv4Addr::BROADCAST
        } else {
            to.ciaddr().into()
        };
        let packet = ip_packet(ipv4::protocol::UDP, SERVER, destination, &datagram);
        self.peer.inject_packet(&packet);
        self.turn();
    }

    fn answer(&mut self, to: &Heard, kind: u8) {
        self.answer_with(to, kind, |_| {});
    }

    /// A lease without incident.
    fn bind(&mut self) -> Lease {
        let discover = self.hear(DISCOVER, s(1));
        self.answer(&discover, OFFER);
        let request = self.hear(REQUEST, s(1));
        self.answer(&request, ACK);
        assert_eq!(self.client.state(), State::Probing);
        self.pass(s(10));
        assert_eq!(self.client.state(), State::Bound);
        self.client.lease().unwrap().clone()
    }

    fn own(&self) -> Vec<(Ipv4Addr, u8, AddressState)> {
        let all = self.peer.stack.addresses();
        all.map(|own| (own.address, own.prefix_len, own.state))
            .collect()
    }

    /// Nothing is left of a lease.
    #[track_caller]
    fn assert_bare(&self) {
        assert_eq!(self.own(), []);
        assert_eq!(self.peer.stack.routes(), []);
        assert_eq!(self.peer.stack.mtu(), 1500);
        assert!(self.client.lease().is_none());
    }

    /// Another host claims the offered address.
    fn claim(&mut self) {
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        let link = ethernet::Header {
            destination: MacAddr::BROADCAST,
            source: mac,
            ethertype: EtherType::Arp,
        };
        let packet = arp::Packet {
            operation: Operation::Reply,
            sender_mac: mac,
            sender_ip: OFFERED,
            target_mac: MacAddr::default(),
            target_ip: OFFERED,
        };
        let frame = [&link.to_bytes()[..], &packet.to_bytes()].concat();
        self.peer.inject_frame(frame);
        self.turn();
    }
}

/// DHCP-1.
/// RFC 2131, 3.1 and table 5; 4.1: "must be set to 0" of the source address; RFC 4361, 6.1: the identifier in every message.
#[test]
fn lease_comes_by_discover_offer_request_acknowledgment() {
    let mut scene = Scene::new();
    let discover = scene.hear(DISCOVER, s(1));
    assert_eq!(discover.from, Ipv4Addr::UNSPECIFIED);
    assert_eq!(discover.to, Ipv4Addr::BROADCAST);
    assert_eq!(discover.ciaddr(), [0; 4]);
    assert!(discover.is_broadcast_wanted());
    assert!(discover.option(50).is_none() && discover.option(54).is_none());
    let id = discover.option(61).unwrap().to_vec();
    assert_eq!(id[..9], [255, 0, 0, 0, 1, 0, 3, 0, 1]);
    assert!(discover.option(55).unwrap().contains(&121));
    scene.answer(&discover, OFFER);
    let request = scene.hear(REQUEST, s(1));
    assert_eq!(request.xid(), discover.xid());
    assert_eq!(
        (request.from, request.to),
        (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)
    );
    assert_eq!(request.option(50), Some(&OFFERED.octets()[..]));
    assert_eq!(request.option(54), Some(&SERVER.octets()[..]));
    assert_eq!(request.option(61), Some(&id[..]));
    assert_eq!(request.ciaddr(), [0; 4]);
    scene.answer(&request, ACK);
    // RFC 5227, 2.1: asked for before it is used.
    assert_eq!(scene.own(), [(OFFERED, 24, AddressState::Tentative)]);
    assert!(scene.client.lease().is_none());
    scene.pass(s(10));
    assert_eq!(scene.own(), [(OFFERED, 24, AddressState::Assigned)]);
    assert_eq!(scene.peer.stack.routes(), [Route::default_by(ROUTER)]);
    let lease = scene.client.lease().unwrap();
    assert_eq!((lease.address, lease.server), (OFFERED, SERVER));
    // RFC 2131, 4.4.1: the lease counts from when the REQUEST was sent.
    assert_eq!(lease.expires_at, Some(request.at + s(LEASE.into())));
    let to = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80);
    let conn = scene.peer.stack().connect(to).unwrap();
    assert_eq!(scene.peer.stack().info(conn).unwrap().local.ip(), OFFERED);
}

/// DHCP-2.
/// RFC 2131, 4.4.1: "The client SHOULD wait a random time between one and ten seconds"; 4.1: "the delay before the first
/// retransmission SHOULD be 4 seconds randomized by the value of a uniform random number chosen from the range -1 to +1",
/// "doubled with subsequent retransmissions up to a maximum of 64 seconds".
#[test]
fn discover_backs_off_where_nobody_answers() {
    let mut scene = Scene::new();
    scene.client = Client::new([7, 8]);
    let begin = scene.peer.now;
    let mut last = scene.hear(DISCOVER, s(11)).at;
    assert!(last - begin >= s(1) && last - begin <= s(11));
    let mut gaps = Vec::new();
    for wait in [4, 8, 16, 32, 64, 64, 64] {
        let next = scene.hear(DISCOVER, s(70)).at;
        let gap = next - last;
        assert!(
            gap + ms(60) >= s(wait - 1) && gap <= s(wait + 1) + ms(60),
            "{gap:?} of {wait}"
        );
        gaps.push(gap);
        last = next;
    }
    // They are not all in the middle.
    assert!(gaps[4..].windows(2).any(|pair| pair[0] != pair[1]));
}

/// DHCP-3.
/// RFC 2131, 3.1, 5: "The client times out and retransmits the DHCPREQUEST message"; "might retransmit the DHCPREQUEST message four
/// times ... before restarting the initialization procedure".
#[test]
fn lost_messages_are_sent_again() {
    let mut scene = Scene::new();
    let _lost = scene.hear(DISCOVER, s(1));
    let discover = scene.hear(DISCOVER, s(6));
    scene.answer(&discover, OFFER);
    let _lost = scene.hear(REQUEST, s(1));
    let request = scene.hear(REQUEST, s(6));
    assert_eq!(request.xid(), discover.xid());
    scene.answer(&request, ACK);
    scene.pass(s(10));
    assert_eq!(scene.client.state(), State::Bound);

    let mut scene = Scene::new();
    let discover = scene.hear(DISCOVER, s(1));
    scene.answer(&discover, OFFER);
    for _ in 0..4 {
        scene.hear(REQUEST, s(40));
    }
    let again = scene.hear(DISCOVER, s(60));
    assert_ne!(again.xid(), discover.xid());
    scene.assert_bare();
}

/// DHCP-4.
/// RFC 2131, 3.1, 4: "If the client receives a DHCPNAK message, the client restarts the configuration process".
#[test]
fn refusal_begins_anew() {
    let mut scene = Scene::new();
    let discover = scene.hear(DISCOVER, s(1));
    scene.answer(&discover, OFFER);
    let request = scene.hear(REQUEST, s(1));
    scene.answer(&request, NAK);
    assert_eq!(scene.client.state(), State::Init);
    scene.bind_later();
    // While it renews the address goes at once.
    scene.pass(s(1800));
    let renewal = scene.heard.remove(0);
    assert_eq!(renewal.kind, REQUEST);
    scene.answer(&renewal, NAK);
    scene.assert_bare();
    scene.hear(DISCOVER, s(11));
    assert_eq!(scene.client.counters().naks, 2);
}

impl Scene {
    /// A lease after the random time of a new beginning.
    fn bind_later(&mut self) {
        let discover = self.hear(DISCOVER, s(21));
        self.answer(&discover, OFFER);
        let request = self.hear(REQUEST, s(1));
        self.answer(&request, ACK);
        self.pass(s(10));
        assert_eq!(self.client.state(), State::Bound);
    }
}

/// DHCP-5.
/// RFC 2131, 4.4.5: "At time T1 the client moves to RENEWING state and sends (via unicast) a DHCPREQUEST message to the server";
/// table 5: neither 'requested IP address' nor 'server identifier', and the address in 'ciaddr'.
#[test]
fn lease_is_renewed_by_its_server() {
    let mut scene = Scene::new();
    let lease = scene.bind();
    let half = Duration::from_secs((LEASE / 2).into());
    let renew_at = lease.renew_at.unwrap();
    let begin = Instant::from_nanos(
        lease.expires_at.unwrap().as_nanos() - u64::from(LEASE) * 1_000_000_000,
    );
    assert!(renew_at <= begin + half && renew_at + half / 16 + s(1) >= begin + half);
    scene.peer.stack().add_neighbour(SERVER, SERVER_MAC);
    let renewal = scene.hear(REQUEST, half);
    assert!(renewal.at >= renew_at);
    assert_eq!((renewal.from, renewal.to), (OFFERED, SERVER));
    assert_eq!(renewal.ciaddr(), OFFERED.octets());
    assert!(renewal.option(50).is_none() && renewal.option(54).is_none());
    assert!(!renewal.is_broadcast_wanted());
    assert_eq!(scene.client.state(), State::Renewing);
    // One that is lost is sent again after half of the time to T2, a minute at least.
    let second = scene.hear(REQUEST, half);
    assert!(second.at - renewal.at >= s(60));
    scene.more = vec![26, 2, 5, 20];
    scene.answer(&second, ACK);
    assert_eq!(scene.client.state(), State::Bound);
    let lease = scene.client.lease().unwrap();
    assert_eq!(lease.expires_at, Some(second.at + s(LEASE.into())));
    assert_eq!(scene.own(), [(OFFERED, 24, AddressState::Assigned)]);
    assert_eq!(scene.peer.stack.routes(), [Route::default_by(ROUTER)]);
    assert_eq!(scene.peer.stack.mtu(), 1300);
}

/// DHCP-6.
/// RFC 2131, 4.4.5: "At time T2 the client moves to REBINDING state and sends (via broadcast) a DHCPREQUEST message"; "If the lease
/// expires before the client receives a DHCPACK, the client moves to INIT state, MUST immediately stop any other network
/// processing".
#[test]
fn lease_is_rebound_by_any_server_or_ends() {
    let mut scene = Scene::new();
    scene.bind();
    scene.peer.stack().add_neighbour(SERVER, SERVER_MAC);
    scene.pass(s(3140 - 10));
    assert!(!scene.heard.is_empty());
    assert!(scene.heard.iter().all(|heard| heard.to == SERVER));
    scene.heard.clear();
    let rebinding = scene.hear(REQUEST, s(60));
    assert_eq!(
        (rebinding.from, rebinding.to),
        (OFFERED, Ipv4Addr::BROADCAST)
    );
    assert_eq!(rebinding.ciaddr(), OFFERED.octets());
    assert_eq!(scene.client.state(), State::Rebinding);
    // Another server answers.
    let other = Ipv4Addr::new(10, 0, 0, 3);
    scene.answer_with(&rebinding, ACK, |bytes| {
        bytes[245..249].copy_from_slice(&other.octets());
    });
    assert_eq!(scene.client.state(), State::Bound);
    assert_eq!(scene.client.lease().unwrap().server, other);

    let mut scene = Scene::new();
    scene.more = vec![26, 2, 5, 20];
    scene.bind();
    assert_eq!(scene.peer.stack.mtu(), 1300);
    let to = SocketAddrV4::new(SERVER, 80);
    let conn = scene.peer.stack().connect(to).unwrap();
    scene.pass(s(3601));
    scene.assert_bare();
    let told = scene.peer.stack().receive(conn, &mut [0; 4]);
    assert!(matches!(told, Err(Error::TimedOut)), "{told:?}");
    assert_eq!(scene.client.counters().expired, 1);
    scene.heard.clear();
    scene.bind_later();
}

/// DHCP-7.
/// RFC 2131, 3.1, 5: "If the client detects that the address is already in use ... the client MUST send a DHCPDECLINE message to the
/// server and restarts the configuration process. The client SHOULD wait a minimum of ten seconds".
#[test]
fn address_of_another_host_is_declined() {
    let mut scene = Scene::new();
    let discover = scene.hear(DISCOVER, s(1));
    scene.answer(&discover, OFFER);
    let request = scene.hear(REQUEST, s(1));
    scene.answer(&request, ACK);
    scene.pass(s(2));
    scene.claim();
    let decline = scene.hear(DECLINE, ms(100));
    assert_eq!(
        (decline.from, decline.to),
        (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)
    );
    assert_eq!(decline.option(50), Some(&OFFERED.octets()[..]));
    assert_eq!(decline.option(54), Some(&SERVER.octets()[..]));
    assert_eq!(decline.ciaddr(), [0; 4]);
    scene.assert_bare();
    let again = scene.hear(DISCOVER, s(21));
    assert!(again.at - decline.at >= s(10));
    scene.answer(&again, OFFER);
    let request = scene.hear(REQUEST, s(1));
    scene.answer(&request, ACK);
    scene.pass(s(10));
    // RFC 5227, 2.4: one claim is answered, a second one soon after it ends the lease.
    scene.claim();
    assert_eq!(scene.client.state(), State::Bound);
    scene.claim();
    scene.hear(DECLINE, ms(100));
    scene.assert_bare();
    assert_eq!(scene.client.counters().conflicts, 2);
}

/// DHCP-8.
/// RFC 2131, 4.4.6: "the client sends a DHCPRELEASE message to the server", with its address in 'ciaddr'; 4.4.4: "The DHCP client unicasts
/// DHCPRELEASE messages to the server", in whatever state it is.
#[test]
fn lease_is_released() {
    for (wait, state) in [
        (s(1), State::Bound),
        (s(1810), State::Renewing),
        (s(3200), State::Rebinding),
    ] {
        let mut scene = Scene::new();
        scene.bind();
        scene.peer.stack().add_neighbour(SERVER, SERVER_MAC);
        scene.pass(wait);
        scene.heard.clear();
        assert_eq!(scene.client.state(), state);
        let mut active = scene.peer.stack.at(scene.peer.now, &mut scene.peer.pool);
        scene.client.release(&mut active);
        let release = scene.hear(RELEASE, ms(10));
        assert_eq!((release.from, release.to), (OFFERED, SERVER), "{state:?}");
        assert_eq!(release.ciaddr(), OFFERED.octets());
        assert_eq!(release.option(54), Some(&SERVER.octets()[..]));
        assert!(release.option(50).is_none());
        scene.assert_bare();
        scene.pass(s(100));
        assert!(scene.heard.is_empty());
        assert_eq!(scene.client.state(), State::Released);
        assert!(scene.peer.stack().udp_bind(68).is_ok());
    }
}

/// DHCP-9.
/// RFC 3442: "If the DHCP server returns both a Classless Static Routes option and a Router option, the DHCP client MUST ignore the
/// Router option."
#[test]
fn classless_routes_replace_the_router() {
    let mut scene = Scene::new();
    scene.more = vec![
        121, 15, 16, 172, 16, 10, 0, 0, 9, 24, 192, 168, 5, 0, 0, 0, 0,
    ];
    scene.bind();
    let expected = [
        Route {
            destination: Ipv4Addr::new(192, 168, 5, 0),
            prefix_len: 24,
            gateway: None,
        },
        Route {
            destination: Ipv4Addr::new(172, 16, 0, 0),
            prefix_len: 16,
            gateway: Some(Ipv4Addr::new(10, 0, 0, 9)),
        },
    ];
    assert_eq!(scene.peer.stack.routes(), expected);
}

/// DHCP-10.
/// RFC 2131, 4.4.1: answers with another 'xid' are discarded; RFC 6842, 3: so are those with another's identifier.
#[test]
fn answers_for_others_are_not_taken() {
    let mut scene = Scene::new();
    let discover = scene.hear(DISCOVER, s(1));
    scene.answer_with(&discover, OFFER, |bytes| bytes[4] ^= 1);
    scene.answer_with(&discover, OFFER, |bytes| bytes[33] ^= 1);
    scene.answer_with(&discover, OFFER, |bytes| {
        bytes.pop();
        bytes.extend_from_slice(&[61, 2, 1, 2, 255]);
    });
    scene.answer(&discover, ACK);
    scene.answer(&discover, NAK);
    assert_eq!(scene.client.state(), State::Selecting);
    assert_eq!(scene.client.counters().ignored, 5);
    scene.answer(&discover, OFFER);
    let request = scene.hear(REQUEST, s(1));
    // Of another server, or for another address than was offered.
    for kind in [ACK, NAK] {
        scene.answer_with(&request, kind, |bytes| bytes[248] ^= 1);
    }
    scene.answer_with(&request, ACK, |bytes| bytes[19] ^= 1);
    assert_eq!(scene.client.state(), State::Requesting);
    assert_eq!(scene.client.counters().ignored, 8);
    scene.answer(&request, ACK);
    assert_eq!(scene.client.state(), State::Probing);
}

/// Hostile servers: addresses that no host has, leases without time, times in disorder, an MTU of nothing, routes by way of
/// ourselves. What cannot be used is not, and nothing else is lost.
#[test]
fn hostile_offers_do_no_harm() {
    let mut scene = Scene::new();
    let discover = scene.hear(DISCOVER, s(1));
    for address in [
        [0; 4],
        [255; 4],
        [127, 0, 0, 1],
        [224, 0, 0, 1],
        SERVER.octets(),
    ] {
        scene.answer_with(&discover, OFFER, |bytes| {
            bytes[16..20].copy_from_slice(&address)
        });
    }
    for server in [[0; 4], [255; 4], [127, 0, 0, 1]] {
        scene.answer_with(&discover, OFFER, |bytes| {
            bytes[245..249].copy_from_slice(&server)
        });
    }
    scene.lease = 0;
    scene.answer(&discover, OFFER);
    scene.answer_with(&discover, OFFER, |bytes| bytes.truncate(100));
    scene.answer_with(&discover, OFFER, |bytes| {
        bytes.pop();
        bytes.extend_from_slice(&[1, 200, 1]);
    });
    assert_eq!(scene.client.state(), State::Selecting);
    assert_eq!(scene.client.counters().ignored, 9);
    assert_eq!(scene.client.counters().malformed, 2);
    // T1 behind T2 behind the end; an MTU of 68; routes to us, to a broadcast address, and twice to one network.
    scene.lease = 1000;
    scene.more = vec![
        58, 4, 255, 255, 255, 254, 59, 4, 255, 255, 255, 253, 26, 2, 0, 68,
    ];
    let routes = [
        [8, 11, 10, 0, 0, 50],
        [8, 12, 10, 0, 0, 255],
        [8, 13, 10, 0, 0, 9],
        [8, 13, 10, 0, 0, 8],
    ];
    scene.more.extend_from_slice(&[121, 24]);
    scene.more.extend(routes.concat());
    scene.answer(&discover, OFFER);
    let request = scene.hear(REQUEST, s(1));
    scene.answer(&request, ACK);
    scene.pass(s(10));
    let lease = scene.client.lease().unwrap();
    let end = lease.expires_at.unwrap();
    assert_eq!(end, request.at + s(1000));
    assert!(lease.renew_at.unwrap() < lease.rebind_at.unwrap());
    assert_eq!(lease.rebind_at, Some(request.at + s(875)));
    assert_eq!(scene.peer.stack.mtu(), 1500);
    assert_eq!(scene.peer.stack.routes().len(), 1);
    assert_eq!(scene.client.counters().routes_refused, 3);
    assert_eq!(scene.peer.stack.check_consistency(&scene.peer.pool), Ok(()));
}

/// DHCP-11.
/// RFC 2131, 3.3: a lease of 2^32 - 1 seconds has no end.
#[test]
fn lease_without_end_is_not_renewed() {
    let mut scene = Scene::new();
    scene.lease = u32::MAX;
    let lease = scene.bind();
    assert_eq!(
        (lease.renew_at, lease.rebind_at, lease.expires_at),
        (None, None, None)
    );
    scene.pass(Duration::from_secs(40 * 86_400));
    assert!(scene.heard.is_empty());
    assert_eq!(scene.client.state(), State::Bound);
}

/// A host with an address of its own takes another by DHCP, and keeps its own when the lease ends.
#[test]
fn configured_address_outlives_a_lease() {
    let own = Ipv4Addr::new(172, 16, 0, 1);
    let mut scene = Scene::new();
    scene.peer.stack.add_address(own, 24).unwrap();
    scene.bind();
    assert_eq!(
        scene.own(),
        [
            (own, 24, AddressState::Assigned),
            (OFFERED, 24, AddressState::Assigned)
        ]
    );
    scene.pass(s(3601));
    assert_eq!(scene.own(), [(own, 24, AddressState::Assigned)]);
    assert_eq!(scene.peer.stack.routes(), []);
}

/// DHCP-14. RFC 2131, 3.1, step 3: "The DHCPREQUEST message MUST use the same value in the DHCP message header's 'secs' field [...] as the
/// original DHCPDISCOVER message."
#[test]
fn request_has_the_seconds_of_the_discover() {
    let seconds = |heard: &Heard| u16::from_be_bytes([heard.bytes[8], heard.bytes[9]]);
    let mut scene = Scene::new();
    scene.hear(DISCOVER, s(1));
    let again = scene.hear(DISCOVER, s(10));
    assert!(seconds(&again) >= 3);
    scene.pass(s(2));
    scene.answer(&again, OFFER);
    for _ in 0..2 {
        let request = scene.hear(REQUEST, s(10));
        assert_eq!(seconds(&request), seconds(&again));
    }
}

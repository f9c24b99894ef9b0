//! Our stack beside Linux's over IPv6: neighbours, connections both ways, echoes, an address that is taken, an address that
//! a router's advertisement makes.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{set_ipv6_multicast_hops, set_ipv6_unicast_hops};
use rustix::net::{SocketAddrV6, bind};
use tollgate_link::tap::Tap;
use tollgate_stack::config::{Config, InterfaceId, Ipv6};
use tollgate_stack::ipv6::AddressState;
use tollgate_stack::{Instant, Stack};

use super::*;
use crate::clock::now_ns;

/// The host, on a tap device.
type TapHost = Host<Tap>;

const DEVICE: &str = <Tap as Subject>::DEVICE;

/// The kernel's address, and ours.
const LINUX: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const STACK: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
/// The address that the kernel advertises itself by.
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
/// The network that the router advertises.
const ADVERTISED: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, 0);

/// A host that speaks IPv6 with this configuration, and Linux at the other end with its address.
fn host(ipv6: Ipv6) -> Option<TapHost> {
    let mut host = TapHost::new(1500)?;
    let linux = format!("{LINUX}/64");
    host.run("ip", &["address", "add", &linux, "dev", DEVICE, "nodad"]);
    let config = Config {
        ipv6: Some(ipv6),
        ..*host.stack.config()
    };
    let now = Instant::from_nanos(now_ns());
    host.stack = Stack::new(config, 1500, now).unwrap();
    Some(host)
}

fn with_address(address: Ipv6Addr) -> Ipv6 {
    Ipv6 {
        address: Some((address, 64)),
        router_advertisements: false,
        interface_id: InterfaceId::LinkAddress,
        ..Ipv6::default()
    }
}

/// The state of an address, once it is no longer being tried.
fn settled(host: &mut TapHost, address: Ipv6Addr) -> AddressState {
    host.until("address", |host| {
        let mut own = host.stack.ipv6_addresses();
        let state = own.find(|own| own.address == address)?.state;
        (state != AddressState::Tentative).then_some(state)
    })
}

/// A raw socket of ICMPv6 that sends with the hop limit of neighbour discovery. The kernel makes the checksum.
fn raw_socket() -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::INET6,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(ipproto::ICMPV6),
    )?;
    set_ipv6_multicast_hops(&socket, 255)?;
    set_ipv6_unicast_hops(&socket, Some(255))?;
    Ok(socket)
}

#[test]
fn connections_go_both_ways_over_ipv6() {
    let Some(mut host) = host(with_address(STACK)) else {
        return;
    };
    assert_eq!(settled(&mut host, STACK), AddressState::Preferred);
    let listener = host.listen();
    let peer = host.beside(|| echo_over((STACK, stack_host::PORT).into(), 1 << 20));
    let conn = host.accept(listener);
    assert!(host.active().info(conn).unwrap().remote.is_ipv6());
    host.echo(conn);
    host.close(conn);
    host.join(peer);

    let bound = host.beside(|| TcpListener::bind((LINUX, 0)));
    let bound = bound.join().unwrap().unwrap();
    let to = bound.local_addr().unwrap();
    let peer = host.beside(move || {
        let (mut stream, from) = bound.accept()?;
        assert!(from.is_ipv6());
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        check(&bytes, SEED, 0).map_err(|error| io::Error::other(format!("{error:?}")))?;
        Ok(bytes.len())
    });
    let conn = host.connect(to);
    let len = 300_000;
    host.send(conn, &bytes(len));
    host.active().shutdown(conn).unwrap();
    let mut rest = [0; 1];
    assert_eq!(host.receive(conn, &mut rest), 0);
    host.close(conn);
    assert_eq!(host.join(peer), len);
    host.frames_are_back();
    let errors = host.run("cat", &["/proc/thread-self/net/snmp6"]);
    for name in ["Ip6InHdrErrors", "Icmp6InErrors", "Icmp6InCsumErrors"] {
        let line = errors.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.ends_with("\t0"), "{line}");
    }
}

#[test]
fn echo_goes_both_ways_over_ipv6() {
    let Some(mut host) = host(with_address(STACK)) else {
        return;
    };
    settled(&mut host, STACK);
    host.active().ping(LINUX, 7, 1, &[1, 2, 3]).unwrap();
    let echo = host.until("echo", |host| host.active().next_echo());
    assert_eq!((echo.from, &echo.data[..]), (LINUX.into(), &[1, 2, 3][..]));
    let peer = host.beside(|| {
        let socket = raw_socket()?;
        bind(&socket, &SocketAddrV6::new(LINUX, 0, 0, 0))?;
        let request = [128, 0, 0, 0, 0, 9, 0, 1, 42, 43];
        let to = SocketAddrV6::new(STACK, 0, 0, 0);
        sendto(&socket, &request, SendFlags::empty(), &to)?;
        let mut buffer = [0; 1500];
        loop {
            let (len, _) = recv(&socket, &mut buffer, RecvFlags::empty())?;
            if buffer[0] == 129 {
                return Ok(buffer[4..len].to_vec());
            }
        }
    });
    assert_eq!(host.join(peer), [0, 9, 0, 1, 42, 43]);
}

/// RFC 4862, 5.4, beside Linux, which has the address.
#[test]
fn address_that_linux_has_is_not_taken() {
    let Some(mut host) = host(with_address(LINUX)) else {
        return;
    };
    assert_eq!(settled(&mut host, LINUX), AddressState::Duplicate);
    assert_eq!(host.stack.counters().address_conflicts, 1);
}

/// RFC 4862, 5.4.3: Linux tries an address that we have, and leaves it to us.
#[test]
fn linux_does_not_take_an_address_of_ours() {
    let Some(mut host) = host(with_address(STACK)) else {
        return;
    };
    settled(&mut host, STACK);
    let ours = format!("{STACK}/64");
    host.run("ip", &["address", "add", &ours, "dev", DEVICE]);
    let told = host.until("sign of the duplicate", |host| {
        let shown = host.run("ip", &["-6", "address", "show", "dev", DEVICE]);
        shown.contains("dadfailed").then_some(shown)
    });
    assert!(told.contains(&STACK.to_string()));
}

/// RFC 4862, 5.5: a prefix that is advertised makes an address, and the router that advertises it serves what is elsewhere.
#[test]
fn router_advertisement_makes_an_address_and_a_route() {
    let ipv6 = Ipv6 {
        router_advertisements: true,
        ..Ipv6::default()
    };
    let Some(mut host) = host(ipv6) else { return };
    // Linux answers for the network that lies behind it.
    let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 9, 0, 0, 0, 1);
    let behind = format!("{far}/128");
    host.run("ip", &["address", "add", &behind, "dev", "lo", "nodad"]);
    host.run("ip", &["link", "set", "lo", "up"]);
    let route = format!("{ADVERTISED}/64");
    host.run("ip", &["-6", "route", "add", &route, "dev", DEVICE]);
    let router = format!("{ROUTER}/64");
    host.run("ip", &["address", "add", &router, "dev", DEVICE, "nodad"]);
    let peer = host.beside(|| {
        let index = fs::read_to_string(format!("/sys/class/net/{DEVICE}/ifindex"));
        let index = match index {
            Ok(index) => index.trim().parse().map_err(io::Error::other)?,
            Err(_) => interface_index()?,
        };
        let mut message = vec![134, 0, 0, 0, 61, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        message.extend([3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 7, 8, 0, 0, 0, 0]);
        message.extend(ADVERTISED.octets());
        let all_nodes = SocketAddrV6::new("ff02::1".parse().unwrap(), 0, 0, index);
        let socket = raw_socket()?;
        // RFC 4861, 6.1.2: it comes from a link-local address.
        bind(&socket, &SocketAddrV6::new(ROUTER, 0, 0, index))?;
        sendto(&socket, &message, SendFlags::empty(), &all_nodes)?;
        Ok(())
    });
    host.join(peer);
    let made = host.until("address", |host| {
        let mut own = host.stack.ipv6_addresses();
        let made = own.find(|own| own.address.octets()[..8] == ADVERTISED.octets()[..8])?;
        made.is_ours().then_some(made.address)
    });
    let bound = host.beside(move || TcpListener::bind((far, 0)));
    let bound = bound.join().unwrap().unwrap();
    let to = bound.local_addr().unwrap();
    let conn = host.connect(to);
    assert_eq!(host.active().info(conn).unwrap().local.ip(), made);
    host.active().abort(conn).unwrap();
}

/// The index of the device, where the namespace has no sysfs of its own.
fn interface_index() -> io::Result<u32> {
    let shown = Command::new("ip")
        .args(["-o", "link", "show", "dev", DEVICE])
        .output()?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let index = shown.split(':').next().unwrap_or_default().trim();
    index.parse().map_err(io::Error::other)
}

/// A socket of the kernel sends the bytes of the seed to an echo and compares what comes back.
fn echo_over(to: SocketAddr, len: usize) -> io::Result<()> {
    echo_on(connect_to(to)?, len)
}

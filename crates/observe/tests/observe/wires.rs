//! Packets of other hosts.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use tollgate_kernel::scope;
use tollgate_observe::{Ask, Raw, Watcher};

use super::{Room, choice, enter, port, rooms_with_a_cable};

/// The number of an interface in a namespace.
fn number_of(room: &Room, name: &str) -> u32 {
    let (net, name) = (room.net(), CString::new(name).unwrap());
    let number = std::thread::spawn(move || {
        enter(&net);
        // SAFETY: the name ends with a zero and lives through the call.
        unsafe { libc::if_nametoindex(name.as_ptr()) }
    });
    number.join().unwrap()
}

/// Puts frames on the cable as they are.
fn send(room: &Room, interface: u32, frames: Vec<Vec<u8>>) {
    let net = room.net();
    let sent = std::thread::spawn(move || -> io::Result<()> {
        enter(&net);
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::PACKET,
            rustix::net::SocketType::RAW,
            None,
        )?;
        // SAFETY: all fields are integers.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = interface as i32;
        for frame in &frames {
            // SAFETY: the frame and the address live through the call, and their lengths are right.
            let sent = unsafe {
                libc::sendto(
                    socket.as_raw_fd(),
                    frame.as_ptr().cast(),
                    frame.len(),
                    0,
                    (&raw const to).cast(),
                    size_of_val(&to) as libc::socklen_t,
                )
            };
            if sent < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    });
    sent.join().unwrap().unwrap();
}

/// Samples begin after this time.
const FIRST: Duration = Duration::from_millis(60);

const PORT: u16 = 7_777;

/// The link address that frames go to.
const TO: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// An Ethernet frame of a TCP segment with so much payload, padded to the least that Ethernet carries, to a host behind the other one.
fn frame(payload: usize, fragment_offset: u16) -> Vec<u8> {
    let mut frame = Vec::from(TO);
    frame.extend([2, 0, 0, 0, 0, 1, 0x08, 0x00]);
    let mut ip = vec![0x45, 0];
    ip.extend(((40 + payload) as u16).to_be_bytes());
    ip.extend([0, 1]);
    ip.extend((fragment_offset / 8).to_be_bytes());
    ip.extend([64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 9]);
    let words = ip
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(ip);
    frame.extend(4_000_u16.to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.resize(frame.len() + payload, 7);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// Request for each segment that comes to the server's end of the cable.
fn ask(server: &Room) -> Ask {
    Ask {
        filter: port(PORT).operations(),
        every: Some(1),
        wires: vec![number_of(server, "server0")],
        namespace: server.net().metadata().unwrap().ino() as u32,
        ..Ask::default()
    }
}

/// Looks until a count is there; it is what it is after two seconds. The counts after it are the answer.
fn look(watcher: &mut Watcher, mut is_there: impl FnMut(&Raw) -> bool) -> Raw {
    let mut raw = watcher.read().unwrap();
    for _ in 0..1_000 {
        if is_there(&raw) {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
        raw = watcher.read().unwrap();
    }
    raw
}

/// An acknowledgment of 40 bytes comes with 6 bytes of padding, which are no payload. A later fragment has no header of TCP.
#[test]
fn padding_and_later_fragments_are_no_segments_with_payload() {
    let Some(choice) = choice() else { return };
    let Some([client, server]) = rooms_with_a_cable() else {
        return;
    };
    let mut watcher = Watcher::start(choice, &ask(&server), Vec::new()).unwrap();
    let from = number_of(&client, "client0");
    let mut arrived = |frames: Vec<Vec<u8>>, expected: u64| {
        let before = watcher.read().unwrap().arrived;
        send(&client, from, frames);
        // Soft interrupts take them from the queue, in order.
        look(&mut watcher, |raw| raw.arrived >= before + expected).arrived - before
    };
    let data = || frame(10, 0);
    assert_eq!(arrived(vec![data(), frame(1, 0), data()], 3), 3);
    assert_eq!(arrived(vec![frame(0, 0), data()], 1), 1);
    assert_eq!(arrived(vec![frame(100, 1_480), data()], 1), 1);
}

/// Segments that a host sends on have no reader there. They give their places back: those that wait for ten seconds leave none for others.
#[test]
fn segments_that_are_routed_on_give_their_places_back() {
    let Some(choice) = choice() else { return };
    let Some([client, server]) = rooms_with_a_cable() else {
        return;
    };
    let routes = [
        "ip link set server0 address 02:00:00:00:00:02",
        "ip addr add 192.0.2.2/24 dev server0",
        "ip route add 198.51.100.0/24 dev server0",
        "ip neigh add 198.51.100.9 lladdr 02:00:00:00:00:09 dev server0",
        "sysctl -qw net.ipv4.ip_forward=1",
    ];
    if !routes.iter().all(|command| server.runs(command)) {
        tollgate_skip::skipped!("no routes can be made (ip of iproute2, sysctl of procps)");
        return;
    }
    let mut watcher = Watcher::start(choice, &ask(&server), Vec::new()).unwrap();
    let begun = look(&mut watcher, |raw| raw.every == 1 && raw.at > FIRST)
        .totals
        .begun;
    watcher.tend().unwrap();
    let from = number_of(&client, "client0");
    // More than can be followed of a connection at once, but not at once.
    for count in 1..=64 {
        send(&client, from, vec![frame(10, 0)]);
        look(&mut watcher, |raw| {
            raw.totals.begun + raw.totals.skipped >= begun + count
        });
    }
    let raw = look(&mut watcher, |raw| raw.waiting.is_empty());
    let totals = raw.totals;
    assert_eq!(
        (totals.begun, totals.skipped),
        (begun + 64, 0),
        "{totals:?}"
    );
    assert_eq!((totals.passed_on, raw.waiting.len()), (64, 0), "{totals:?}");
}

/// Two namespaces with a VXLAN over the cable between them; none, with the reason printed, where it cannot be made.
fn rooms_with_a_tunnel() -> Option<[Room; 2]> {
    let rooms = rooms_with_a_cable()?;
    let made = ["client", "server"].iter().zip([1, 2]).all(|(name, host)| {
        let commands = [
            format!("ip addr add 192.0.2.{host}/24 dev {name}0"),
            format!(
                "ip link add tunnel0 type vxlan id 7 dstport 4789 local 192.0.2.{host} remote 192.0.2.{} dev {name}0",
                3 - host
            ),
            format!("ip addr add 198.51.100.{host}/24 dev tunnel0"),
            "ip link set tunnel0 up".to_owned(),
        ];
        commands.iter().all(|command| rooms[host - 1].runs(command))
    });
    if !made {
        tollgate_skip::skipped!("no VXLAN can be made (ip of iproute2, vxlan of the kernel)");
        return None;
    }
    Some(rooms)
}

/// A port that no other test watches.
const TUNNELLED: u16 = 7_779;

/// Samples end at a tunnel's driver as at that of a wire, since no gate sees them behind it. Those that wait for ten seconds leave no
/// places for others.
#[test]
fn segments_that_go_into_a_tunnel_end_there() {
    let Some(choice) = choice() else { return };
    let Some([client, server]) = rooms_with_a_tunnel() else {
        return;
    };
    let in_server = server.net();
    let (mut reader, mut writer) = std::thread::scope(|scope| {
        let (tell, port) = std::sync::mpsc::channel();
        let reader = scope.spawn(move || {
            enter(&in_server);
            let listener = TcpListener::bind((Ipv4Addr::new(198, 51, 100, 2), TUNNELLED)).unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            listener.accept().unwrap().0
        });
        let in_client = client.net();
        let writer = scope.spawn(move || {
            enter(&in_client);
            TcpStream::connect(port.recv().unwrap()).unwrap()
        });
        (reader.join().unwrap(), writer.join().unwrap())
    });
    writer.set_nodelay(true).unwrap();
    let in_client = client.net();
    let wires = std::thread::spawn(move || {
        enter(&in_client);
        scope::wires()
    });
    let ask = Ask {
        filter: port(TUNNELLED).operations(),
        every: Some(1),
        wires: wires.join().unwrap().unwrap(),
        namespace: client.net().metadata().unwrap().ino() as u32,
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice, &ask, vec![client.net().into()]).unwrap();
    let mut message = [7; 100];
    look(&mut watcher, |raw| {
        writer.write_all(&message).unwrap();
        reader.read_exact(&mut message).unwrap();
        raw.every == 1 && raw.at > FIRST
    });
    let before = look(&mut watcher, |raw| raw.waiting.is_empty()).totals;
    for _ in 0..32 {
        writer.write_all(&message).unwrap();
        reader.read_exact(&mut message).unwrap();
    }
    // Nobody takes these off the other end of the tunnel, and they are fewer than a new connection may send at once.
    assert!(server.runs("ip link set tunnel0 down"));
    for _ in 0..8 {
        writer.write_all(&message).unwrap();
    }
    let raw = watcher.read().unwrap();
    let (from, to) = (&before, &raw.totals);
    assert_eq!(
        (
            to.begun - from.begun,
            to.left - from.left,
            raw.waiting.len()
        ),
        (40, 40, 0),
        "{to:?}"
    );
    assert_eq!((to.holes, to.skipped), (0, 0), "{to:?}");
}

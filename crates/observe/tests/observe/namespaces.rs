//! Connections of the same addresses and ports in two network namespaces.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::net;
use tollgate_observe::{Ask, Watcher, summary};

use super::{Room, choice, enter, port};

const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7_778);
const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 40_778);

/// A client and a server on the loopback of a namespace.
fn connected(room: &Room) -> [TcpStream; 2] {
    let net = room.net();
    let both = std::thread::spawn(move || {
        enter(&net);
        let listener = TcpListener::bind(SERVER).unwrap();
        let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
        net::bind(&socket, &CLIENT).unwrap();
        net::connect(&socket, &SERVER).unwrap();
        let client = TcpStream::from(socket);
        client.set_nodelay(true).unwrap();
        [client, listener.accept().unwrap().0]
    });
    both.join().unwrap()
}

/// Sequence number of the next byte that a socket sends.
fn next_byte(socket: &TcpStream) -> u32 {
    let set = |option, value: i32| {
        // SAFETY: the value lives through the call, and its length is right.
        let done = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                option,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    const SEND_QUEUE: i32 = 2;
    const OFF_WITHOUT_A_PROBE: i32 = -1;
    set(libc::TCP_REPAIR, 1);
    set(libc::TCP_REPAIR_QUEUE, SEND_QUEUE);
    let (mut next, mut length) = (0_u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: both live through the call, and the length is that of the value.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUEUE_SEQ,
            (&raw mut next).cast(),
            &raw mut length,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    set(libc::TCP_REPAIR, OFF_WITHOUT_A_PROBE);
    next
}

/// The kernel draws initial sequence numbers from addresses, ports and the time, and not from the namespace: equal connections of two
/// containers are near each other. Here they send the same bytes of their streams.
#[test]
fn equal_connections_in_two_namespaces_are_two() {
    let Some(choice) = choice() else { return };
    let (Some(one), Some(other)) = (Room::new(), Room::new()) else {
        tollgate_skip::skipped!("no network namespaces can be made (unshare of util-linux)");
        return;
    };
    if ![&one, &other]
        .map(|room| room.runs("ip link set lo up"))
        .iter()
        .all(|up| *up)
    {
        tollgate_skip::skipped!("no loopback can be set up (ip of iproute2)");
        return;
    }
    let [mut unread, mut late] = connected(&one);
    let [mut client, mut server] = connected(&other);
    let behind = next_byte(&client).wrapping_sub(next_byte(&unread)) as usize;
    assert!(
        behind < 1 << 28,
        "{behind} bytes: not by the time between both"
    );
    let mut filler = vec![0; 1 << 16];
    let mut rest = behind;
    while rest > 0 {
        let part = rest.min(filler.len());
        unread.write_all(&filler[..part]).unwrap();
        late.read_exact(&mut filler[..part]).unwrap();
        rest -= part;
    }
    assert_eq!(next_byte(&client), next_byte(&unread));
    let ask = Ask {
        filter: port(SERVER.port()).operations(),
        every: Some(1),
        ..Ask::default()
    };
    let namespaces = [&one, &other].map(|room| room.net().into());
    let mut watcher = Watcher::start(choice.clone(), &ask, Vec::from(namespaces)).unwrap();
    let mut message = [7; 100];
    for _ in 0..1_000 {
        for (from, to) in [(&mut unread, &mut late), (&mut client, &mut server)] {
            from.write_all(&message).unwrap();
            to.read_exact(&mut message).unwrap();
        }
        if watcher.read().unwrap().totals.finished > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = watcher.read().unwrap().totals;
    assert!(before.finished > 0);
    unread.write_all(&message).unwrap();
    client.write_all(&message).unwrap();
    server.read_exact(&mut message).unwrap();
    let raw = watcher.read().unwrap();
    // Only one of both was read.
    assert_eq!(
        (raw.totals.begun, raw.totals.finished, raw.waiting.len()),
        (before.begun + 2, before.finished + 1, 1),
        "{:?}",
        raw.totals
    );
    late.read_exact(&mut message).unwrap();
    let raw = watcher.read().unwrap();
    assert_eq!(
        (raw.totals.finished, raw.waiting.len()),
        (before.finished + 2, 0),
        "{:?}",
        raw.totals
    );
    assert_eq!(
        (raw.totals.backwards, raw.totals.unseen, raw.totals.holes),
        (0, 0, 0)
    );
    // Two ends of each.
    let observed = summary::between(None, &raw, &choice, 10);
    assert_eq!(observed.sockets.len(), 4, "{:?}", observed.sockets);
}

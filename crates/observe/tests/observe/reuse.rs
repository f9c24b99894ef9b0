//! Ports that are used again.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::net;
use tollgate_observe::memory::state;
use tollgate_observe::{Ask, Watcher};

use super::{choice, port};

/// A connection from a port that was used before.
fn connect(from: u16, to: SocketAddrV4) -> rustix::io::Result<TcpStream> {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
    net::sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, from))?;
    net::connect(&socket, &to)?;
    Ok(socket.into())
}

/// A byte that nobody read is not read by the next connection of the same ports.
#[test]
fn bytes_of_a_connection_that_ended_are_not_read_by_the_next_one() {
    let Some(choice) = choice() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
    let mut client = TcpStream::connect(to).unwrap();
    let from = client.local_addr().unwrap().port();
    let (mut server, _) = listener.accept().unwrap();
    let ask = Ask {
        filter: port(to.port()).operations(),
        every: Some(1),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice, &ask, Vec::new()).unwrap();
    let mut message = [7; 100];
    for _ in 0..1_000 {
        client.write_all(&message).unwrap();
        server.read_exact(&mut message).unwrap();
        if watcher.read().unwrap().totals.finished > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = watcher.read().unwrap().totals;
    assert!(before.finished > 0);
    client.write_all(&message).unwrap();
    // It is there, and nobody takes it: closing resets the connection, so the ports are free at once.
    while server.peek(&mut message).unwrap() < message.len() {}
    drop(server);
    drop(client);
    // The next initial sequence number is further on, by the time that has passed (RFC 6528).
    std::thread::sleep(Duration::from_millis(200));
    let mut client = connect(from, to).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(&message).unwrap();
    server.read_exact(&mut message).unwrap();
    let raw = watcher.read().unwrap();
    assert_eq!(
        (raw.totals.begun, raw.totals.finished),
        (before.begun + 2, before.finished + 1),
        "{:?}",
        raw.totals
    );
    assert_eq!(raw.waiting.len(), 1);
}

/// Lets a socket drop all that comes to it.
fn drop_all(socket: &TcpStream) {
    let mut none = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut none,
    };
    // SAFETY: the program and its length live through the call, and are right.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// A byte that was dropped before its socket is not what the next connection of the same ports has received, far as that is behind it.
#[test]
fn bytes_dropped_before_their_socket_do_not_wait_for_the_next_reader() {
    let Some(choice) = choice() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
    let mut client = TcpStream::connect(to).unwrap();
    let from = client.local_addr().unwrap().port();
    let (mut server, _) = listener.accept().unwrap();
    let ask = Ask {
        filter: port(to.port()).operations(),
        every: Some(1),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice, &ask, Vec::new()).unwrap();
    let mut message = [7; 100];
    for _ in 0..1_000 {
        client.write_all(&message).unwrap();
        server.read_exact(&mut message).unwrap();
        if watcher.read().unwrap().totals.finished > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = watcher.read().unwrap().totals;
    assert!(before.finished > 0);
    drop_all(&server);
    client.write_all(&message).unwrap();
    // It is reset, so its ports are free at once.
    net::sockopt::set_socket_linger(&server, Some(Duration::ZERO)).unwrap();
    drop(server);
    drop(client);
    std::thread::sleep(Duration::from_millis(200));
    let mut client = connect(from, to).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(&message).unwrap();
    while server.peek(&mut message).unwrap() < message.len() {}
    let waiting = watcher.read().unwrap().waiting;
    let states = |wanted| waiting.iter().filter(|byte| byte.state == wanted).count();
    assert_eq!(
        (states(state::ON_THE_WAY), states(state::WAITING)),
        (1, 1),
        "{waiting:?}"
    );
    // The reader that reads on gives its place back.
    server.read_exact(&mut message).unwrap();
    let raw = watcher.read().unwrap();
    assert_eq!(
        (raw.totals.finished, raw.totals.unseen, raw.waiting.len()),
        (before.finished + 1, 1, 0),
        "{:?}",
        raw.totals
    );
}

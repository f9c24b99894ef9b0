//! Peers of the forwarder that go: what the other side is told, and gets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use crate::sandbox::{PATIENCE, Sandbox};
use crate::serving::{Serving, What, tap};
use crate::{KB, local, noise};

/// A listener in the place, and what is served in front of it: it is reached by the kernel, and by our stack.
fn behind(place: &Sandbox) -> (TcpListener, [(u16, What); 2]) {
    let listener = place.within(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let behind = SocketAddr::from((Ipv4Addr::new(198, 18, 0, 1), port));
    let what = [(7, What::Forward(local(port))), (0, What::Outward(behind))];
    (listener, what)
}

#[test]
fn a_client_that_is_killed_ends_the_connection_behind_the_forwarder() {
    let Some(place) = Sandbox::new(&[]) else {
        return;
    };
    // The server behind takes everything and answers nothing.
    let (listener, what) = behind(&place);
    let serving = Serving::start(&place, tap(), &what);
    for &at in &serving.at {
        let mut client = place.within(|| TcpStream::connect(at).unwrap());
        let (mut server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(b"all that is said").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut said = Vec::new();
        server.read_to_end(&mut said).unwrap();
        assert_eq!(said, b"all that is said");
        // The forwarder has nothing to read from the client any more, and hears of its end all the same.
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        let until = Instant::now() + PATIENCE;
        // Linux says EPIPE where the other direction has been closed before.
        while server.take_error().unwrap().is_none() {
            assert!(Instant::now() < until, "{at}: nothing is heard");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let counts = serving.end();
    assert_eq!(counts.failed.values().sum::<u64>(), 2, "{counts:?}");
}

#[test]
fn an_answer_arrives_whole_before_the_reset_behind_it() {
    let Some(place) = Sandbox::new(&[]) else {
        return;
    };
    // They leave the kernel at once. The first one takes our stack several round trips.
    const ANSWERS: [usize; 2] = [60 * KB, 10 * KB];
    let (listener, what) = behind(&place);
    let serving = Serving::start(&place, tap(), &what);
    for (&at, size) in serving.at.iter().zip(ANSWERS) {
        let mut client = place.within(|| TcpStream::connect(at).unwrap());
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(&noise(300 * KB)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.read_exact(&mut [0; KB]).unwrap();
        server.write_all(&noise(size)).unwrap();
        // What it has not read makes its end a reset.
        drop(server);
        let mut answer = Vec::new();
        let end = client.read_to_end(&mut answer);
        assert!(answer == noise(size), "{at}: {} bytes", answer.len());
        let end = end.map_err(|error| error.kind());
        assert_eq!(end, Err(ErrorKind::ConnectionReset), "{at}");
    }
    let counts = serving.end();
    assert_eq!(counts.failed.values().sum::<u64>(), 2, "{counts:?}");
}

#[test]
fn a_client_that_is_killed_is_not_connected_any_more() {
    let Some(place) = Sandbox::new(&["ip"]) else {
        return;
    };
    // A neighbour that takes frames and says nothing, so that connecting takes minutes.
    for command in [
        "link add here type veth peer name there",
        "addr add 10.9.8.1/24 dev here",
        "link set here up",
        "link set there up",
        "neigh add 10.9.8.2 lladdr 02:00:00:00:00:09 nud permanent dev here",
    ] {
        place.run("ip", &command.split(' ').collect::<Vec<_>>());
    }
    let silent = "10.9.8.2:7".parse().unwrap();
    let what = [(7, What::Forward(silent)), (0, What::Outward(silent))];
    let serving = Serving::start(&place, tap(), &what);
    for &at in &serving.at {
        let mut client = place.within(|| TcpStream::connect(at).unwrap());
        client.write_all(b"a request").unwrap();
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    }
    // The connections are over before their servers are given up.
    let counts = serving.end();
    assert_eq!((counts.accepted, counts.open), (2, 0), "{counts:?}");
    assert!(!counts.failed.contains_key(&110), "{counts:?}");
}

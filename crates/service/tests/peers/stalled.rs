//! Readers that are slow, and readers that read nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::sandbox::{PATIENCE, Sandbox};
use crate::serving::{On, Serving, What, tap};
use crate::{KB, MB, fetched, files, sha256};

/// A reader to whom the answer to a request for the large file is on its way.
fn reader(at: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    stream.read_exact(&mut [0; 17]).unwrap();
    stream
}

#[test]
fn stalled_readers_leave_frames_for_others() {
    let Some(place) = Sandbox::new(&["curl"]) else {
        return;
    };
    const READERS: usize = 200;
    let (directory, _) = files(4 * MB);
    let sum = sha256(b"Hello, world!\n");
    let what = [(80, What::Http(directory.path().to_owned()))];
    let serving = Serving::start(&place, tap(), &what);
    let url = serving.url("/small.txt");
    let readers: Vec<_> = place.within(|| (0..READERS).map(|_| reader(serving.at[0])).collect());
    for _ in 0..20 {
        assert_eq!(fetched(&place, &url, &[]), sum);
    }
    drop(readers);
    assert_eq!(serving.end().accepted, READERS as u64 + 20);
}

#[test]
fn stalled_readers_are_ended_by_a_reset() {
    let Some(place) = Sandbox::new(&[]) else {
        return;
    };
    const READERS: usize = 30;
    let (directory, _) = files(8 * MB);
    let what = [(80, What::Http(directory.path().to_owned()))];
    for on in [On::Kernel, tap()] {
        let patience = Some(Duration::from_secs(1));
        let serving = Serving::start_with(&place, on, &what, patience);
        let mut readers: Vec<_> =
            place.within(|| (0..READERS).map(|_| reader(serving.at[0])).collect());
        let until = Instant::now() + PATIENCE;
        while serving.idle() < READERS as u64 {
            assert!(Instant::now() < until, "{on:?}: {}", serving.idle());
            thread::sleep(Duration::from_millis(5));
        }
        // Who reads on is told that this is not all.
        let end = readers[0].read_to_end(&mut Vec::new());
        let end = end.map_err(|error| error.kind());
        assert_eq!(end, Err(ErrorKind::ConnectionReset), "{on:?}");
        // Every frame is back while the readers are still there.
        assert_eq!(serving.end().idle, READERS as u64, "{on:?}");
    }
}

#[test]
fn stalled_readers_that_have_ended_give_frames_back() {
    let Some(place) = Sandbox::new(&[]) else {
        return;
    };
    const READERS: usize = 30;
    // The kernel takes a part of it, and the send queue the rest: the service is done.
    let (directory, _) = files(220 * KB);
    let what = [
        (80, What::Http(directory.path().to_owned())),
        (19, What::Chargen),
    ];
    for on in [On::Kernel, tap()] {
        let patience = Some(Duration::from_secs(1));
        let serving = Serving::start_with(&place, on, &what, patience);
        let readers: Vec<_> = place.within(|| {
            let all = serving.at.iter().cycle().take(READERS);
            all.map(|&at| {
                let reader = reader(at);
                reader.shutdown(Shutdown::Write).unwrap();
                reader
            })
            .collect()
        });
        let counts = serving.end();
        assert_eq!(counts.accepted, READERS as u64, "{on:?}");
        drop(readers);
    }
}

#[test]
fn slow_readers_get_all() {
    let Some(place) = Sandbox::new(&[]) else {
        return;
    };
    let (directory, sum) = files(8 * MB);
    let what = [(80, What::Http(directory.path().to_owned()))];
    for on in [On::Kernel, tap()] {
        let patience = Duration::from_millis(1_500);
        let serving = Serving::start_with(&place, on, &what, Some(patience));
        let mut stream = place.within(|| reader(serving.at[0]));
        let mut answer = Vec::new();
        let until = Instant::now() + 4 * patience;
        while Instant::now() < until {
            let mut bytes = vec![0; 20 * KB];
            let read = stream.read(&mut bytes).unwrap();
            answer.extend_from_slice(&bytes[..read]);
            thread::sleep(Duration::from_millis(100));
        }
        stream.read_to_end(&mut answer).unwrap();
        let content = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let content = content.map_or(0, |at| at + 4);
        assert_eq!(sha256(&answer[content..]), sum, "{on:?}");
        drop(stream);
        assert_eq!(serving.end().idle, 0, "{on:?}");
    }
}

//! Readers that look at what has come before they take it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tollgate_observe::{Ask, Watcher, summary};

use super::choice;

/// Time that the reader computes between looking and taking.
const COMPUTES: Duration = Duration::from_micros(500);

/// A look copies the bytes, and so does the receive after it: only that one is the kernel's time of the receive.
#[test]
fn readers_own_code_between_a_look_and_its_receive_is_not_the_kernels() {
    let Some(choice) = choice() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut message = [0; 100];
        while stream.peek(&mut message).is_ok_and(|count| count > 0) {
            let looked = Instant::now();
            while looked.elapsed() < COMPUTES {
                std::hint::spin_loop();
            }
            if stream.read_exact(&mut message).is_err() || stream.write_all(&message).is_err() {
                break;
            }
        }
    });
    let mut stream = TcpStream::connect(at).unwrap();
    let ask = Ask {
        filter: tollgate_kernel::filter::Filter::parse(&format!("dst port {}", at.port()))
            .unwrap()
            .operations(),
        every: Some(1),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice.clone(), &ask, Vec::new()).unwrap();
    let mut message = [0; 100];
    let mut raw = watcher.read().unwrap();
    for _ in 0..10_000 {
        if raw.totals.finished >= 200 {
            break;
        }
        stream.write_all(&message).unwrap();
        stream.read_exact(&mut message).unwrap();
        raw = watcher.read().unwrap();
    }
    drop(stream);
    reader.join().unwrap();
    let observed = summary::between(None, &raw, &choice, 10);
    assert!(observed.samples.read >= 200, "{:?}", observed.samples);
    let row = |name: &str| observed.spans.iter().find(|row| row.name == name);
    let socket = row("socket").unwrap();
    let computed = COMPUTES.as_nanos() as f64;
    assert!(socket.p50_ns < computed, "{socket:?}");
    if choice.takes_calls() {
        // Percentiles are within 1 %.
        let application = row("application").unwrap();
        assert!(application.p50_ns >= 0.99 * computed, "{application:?}");
    }
    let total = |row: &tollgate_run::observation::Row| row.mean_ns * row.stands_for as f64;
    let parts: f64 = observed.spans.iter().map(total).sum();
    let whole = total(observed.sum("send to receive").unwrap());
    assert!((parts / whole - 1.0).abs() < 1e-9, "{parts} {whole}");
}

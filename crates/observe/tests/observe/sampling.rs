//! For how many messages samples stand.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tollgate_observe::{Ask, Watcher, summary};

use super::{choice, port};

/// A message each so long, by the clock: gates do not slow this traffic down.
const INTERVAL: Duration = Duration::from_micros(500);
/// One in so many: more than pass in a window.
const EVERY: u32 = 128;
/// A share of the processor at which the gates are off for about half of the time.
const BUDGET: f64 = 0.002;

/// Windows of 20 ms hold 40 messages, so most of them hold no sample, and those that do stand for all.
#[test]
fn few_messages_in_a_window_are_sampled_as_often_as_many() {
    let Some(choice) = choice() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut message = [0; 100];
        let mut count = 0_u64;
        while stream.read_exact(&mut message).is_ok() {
            count += 1;
        }
        count
    });
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_nodelay(true).unwrap();
    let ask = Ask {
        filter: port(at.port()).operations(),
        every: Some(EVERY),
        budget: Some(BUDGET),
        ..Ask::default()
    };
    let mut watcher = Watcher::start(choice.clone(), &ask, Vec::new()).unwrap();
    let begun = Instant::now();
    let mut due = begun;
    let mut sent = 0_u64;
    let mut raw = watcher.read().unwrap();
    while raw.totals.finished < 300 && begun.elapsed() < Duration::from_secs(100) {
        stream.write_all(&[1; 100]).unwrap();
        sent += 1;
        due += INTERVAL;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if sent.is_multiple_of(20) {
            watcher.tend().unwrap();
        }
        if sent.is_multiple_of(500) {
            raw = watcher.read().unwrap();
        }
    }
    drop(stream);
    assert_eq!(reader.join().unwrap(), sent);
    let observed = summary::between(None, &raw, &choice, 10);
    let samples = observed.samples;
    if samples.read < 100 {
        tollgate_skip::skipped!(
            "other traffic of this machine kept the gates off: {} samples in {:?}",
            samples.read,
            begun.elapsed()
        );
        return;
    }
    let stands_for = observed.sum("send to receive").unwrap().stands_for;
    // Each sample stands for 128 messages and the pause before its window, and each differs from the next.
    let share = stands_for as f64 / sent as f64;
    let band = 4.0 * 1.1 / (samples.read as f64).sqrt();
    assert!(
        (share - 1.0).abs() < band,
        "{share} of {sent} messages, give or take {band}: {samples:?}, on for {} of {} s",
        observed.on_s,
        observed.to_s
    );
}

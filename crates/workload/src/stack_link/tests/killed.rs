//! Processes that are killed: peers whose end is noticed, and our own, which leave nothing.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tollgate_run::{Placement, Waiting, Workload};
use tollgate_stack::{Error as Refusal, Received};

use super::host::*;
use super::*;

/// The variable by which this program knows that it is the peer to be killed.
const VICTIM: &str = "TOLLGATE_TEST_TAP_VICTIM";

/// Waits for a word of a child's output, and gives what stands behind it.
fn word_of(child: &mut Child, word: &str) -> String {
    let output = child.stdout.take().unwrap();
    BufReader::new(output)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once(word)?.1.trim().to_owned()))
        .expect("the child ended before it said so")
}

/// The child of the next test: opens a session and waits to be killed.
pub(crate) fn killed_run<L: Subject>() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::OneCore, Waiting::Blocking);
    let made = L::make(1500).unwrap();
    made.side.bring_up(1500).unwrap();
    let inode = made.side.inode();
    let link = (made.link, made.pool);
    let mut session = LinkSession::open(&spec, made.side, link, 1500).unwrap();
    session.run(10, &mut session.new_samples()).unwrap();
    println!("namespace {inode}");
    thread::sleep(PATIENCE);
}

pub(crate) fn killed_runs_leave_no_namespace_and_no_device<L: Subject>() {
    if !available::<L>() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &L::test("killed_run"), "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let inode: u64 = word_of(&mut child, "namespace ").parse().unwrap();
    assert!(
        !holders(inode).is_empty(),
        "the search does not find {inode}"
    );
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(holders(inode), Vec::<String>::new());
}

/// The child of the next test: connects, sends and waits to be killed.
pub(crate) fn victim<L: Subject>() {
    let Ok(task) = std::env::var(VICTIM) else {
        return;
    };
    let mut stream = connect().unwrap();
    stream.write_all(b"x").unwrap();
    if task == "read" {
        let mut all = [0; 4];
        stream.read_exact(&mut all).unwrap();
        stream.write_all(b"y").unwrap();
    }
    thread::sleep(PATIENCE);
}

pub(crate) fn killed_peers_are_noticed<L: Subject>() {
    let Some(mut host) = Host::<L>::new(1500) else {
        return;
    };
    let listener = host.listen();
    for (task, ends_with) in [("read", None), ("leave", Some(Refusal::Reset))] {
        let child: JoinHandle<io::Result<Child>> = host.beside(move || {
            Command::new(std::env::current_exe()?)
                .args(["--exact", &L::test("victim"), "--nocapture"])
                .env(VICTIM, task)
                .stdout(Stdio::null())
                .spawn()
        });
        let mut child = host.join(child);
        let conn = host.accept(listener);
        assert_eq!(host.receive(conn, &mut [0]), 1);
        host.send(conn, b"four");
        if task == "read" {
            assert_eq!(host.receive(conn, &mut [0]), 1);
        }
        host.until("acknowledgment", |host| {
            (host.active().info(conn).unwrap().in_flight == 0).then_some(())
        });
        // SIGKILL. Linux ends a connection with unread bytes by a reset, any other by a FIN (RFC 2525, 2.17).
        child.kill().unwrap();
        child.wait().unwrap();
        let end = host.until("end", |host| match host.active().receive(conn, &mut [0]) {
            Ok(Received::Nothing) => None,
            Ok(Received::End) => Some(None),
            Ok(Received::Data(_)) => panic!("bytes came that nobody sent"),
            Err(error) => Some(Some(error)),
        });
        assert_eq!(end, ends_with, "{task}");
        if end.is_none() {
            host.close(conn);
        }
    }
    host.frames_are_back();
}

/// The child of the next test: opens links and closes them until it is killed.
pub(crate) fn restless<L: Subject>() {
    if std::env::var(VICTIM).as_deref() != Ok("restless") {
        return;
    }
    println!("restless");
    loop {
        let (mut link, mut pool) = L::open_here(1500).unwrap();
        let mut arrived = Vec::new();
        for _ in 0..20 {
            // A broadcast of an EtherType for experiments (IEEE 802, 9.2.3).
            let mut frame = [0xff; 60];
            frame[12..14].copy_from_slice(&[0x88, 0xb5]);
            let mut frames: Vec<_> = pool.frame_from(&frame).into_iter().collect();
            link.transmit(&mut pool, &mut frames);
            link.receive(&mut pool, &mut arrived);
            arrived.drain(..).for_each(|frame| pool.release(frame.id));
            frames.drain(..).for_each(|frame| pool.release(frame.id));
        }
    }
}

pub(crate) fn killed_at_any_point_nothing_is_left<L: Subject>() {
    let Some(Made {
        side, ours, link, ..
    }) = made::<L>(1500)
    else {
        return;
    };
    drop(link);
    if ours.is_some() {
        side.bring_up(1500).unwrap();
    }
    let here = |work: &(dyn Fn() -> Result<String, Error> + Sync)| match &ours {
        Some(ours) => ours.within(work),
        None => side.within(work),
    };
    let text = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    // Devices with their flags, counts of promiscuity and programs; packet sockets.
    let state = || {
        here(&|| {
            let links = text("ip", &["-d", "link", "show"]);
            Ok(links + &text("cat", &["/proc/thread-self/net/packet"]))
        })
        .unwrap()
    };
    // A carrier is told some time after the other end has come up.
    while ours.is_some() && state().contains("NO-CARRIER") {
        thread::sleep(Duration::from_millis(1));
    }
    let before = state();
    for round in 0..10_u64 {
        let child = std::sync::Mutex::new(None);
        here(&|| {
            let mut child = child.lock().unwrap();
            *child = Some(
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", &L::test("restless"), "--nocapture"])
                    .env(VICTIM, "restless")
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap(),
            );
            Ok(String::new())
        })
        .unwrap();
        let mut child = child.into_inner().unwrap().unwrap();
        word_of(&mut child, "restless");
        // Each time at another point: within the first link, or some links later.
        thread::sleep(Duration::from_micros(37 * round * round * round));
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        assert_eq!(ended.code(), None, "it ended by itself: {ended}");
        assert_eq!(state(), before, "round {round}");
    }
    // The next one has all it needs.
    here(&|| {
        L::open_here(1500)?;
        Ok(String::new())
    })
    .unwrap();
}

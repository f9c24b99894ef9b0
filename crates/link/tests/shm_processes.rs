//! The shared-memory link between two processes: this test program starts itself again, with the segment as its standard
//! input, and the child sends back what it receives.

use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tollgate_checksum::Kernel;
use tollgate_link::Side;
use tollgate_link::shm::{Config, Segment, ShmLink, Waiting};
use tollgate_link::{WaitOutcome, Waitable};
use tollgate_stack::buffer::Pool;
use tollgate_stack::link::Link;

const CHILD: &str = "TOLLGATE_LINK_TEST_CHILD";
const PATIENCE: Duration = Duration::from_secs(30);

fn spawn(segment: &Segment, task: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_child", "--nocapture"])
        .env(CHILD, task)
        .stdin(Stdio::from(segment.fd().try_clone_to_owned().unwrap()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The child's part; nothing when it is run as a test.
#[test]
fn the_child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let segment = Segment::attach(io::stdin().as_fd().try_clone_to_owned().unwrap()).unwrap();
    let mut link = ShmLink::new(&segment, Side::B, Some(Kernel::best())).unwrap();
    let mut pool = Pool::new(64, 2048);
    let mut frames = Vec::new();
    loop {
        match link.wait(PATIENCE) {
            WaitOutcome::Ready => {}
            WaitOutcome::PeerGone => return,
            WaitOutcome::TimedOut => panic!("the parent does not send"),
        }
        link.receive(&mut pool, &mut frames);
        if task == "die" {
            std::process::abort();
        }
        link.transmit(&mut pool, &mut frames);
    }
}

#[test]
fn frames_go_there_and_back() {
    for waiting in [Waiting::BusyPoll, Waiting::Sleep] {
        let segment = Segment::create(Config {
            waiting,
            slots: 16,
            ..Config::default()
        })
        .unwrap();
        let mut link = ShmLink::new(&segment, Side::A, Some(Kernel::best())).unwrap();
        let mut child = spawn(&segment, "echo");
        let mut pool = Pool::new(64, 2048);
        let (mut sent, mut returned) = (0u32, 0u32);
        const COUNT: u32 = 2000;
        let bytes = |number: u32| number.to_be_bytes().repeat(5 + number as usize % 370);
        while returned < COUNT {
            let mut burst = Vec::new();
            while sent < COUNT && sent - returned < 8 {
                burst.push(pool.frame_from(&bytes(sent)).unwrap());
                sent += 1;
            }
            link.transmit(&mut pool, &mut burst);
            assert!(burst.is_empty());
            assert_eq!(link.wait(PATIENCE), WaitOutcome::Ready);
            let mut frames = Vec::new();
            link.receive(&mut pool, &mut frames);
            for frame in frames {
                assert_eq!(pool.frame(&frame), bytes(returned));
                returned += 1;
                pool.release(frame.id);
            }
        }
        assert_eq!(pool.available(), 64);
        drop(link);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_peer_that_dies_is_noticed() {
    for waiting in [Waiting::BusyPoll, Waiting::Sleep] {
        let segment = Segment::create(Config {
            waiting,
            ..Config::default()
        })
        .unwrap();
        let mut link = ShmLink::new(&segment, Side::A, None).unwrap();
        let mut child = spawn(&segment, "die");
        let mut pool = Pool::new(4, 2048);
        let mut burst = vec![pool.frame_from(&[0; 60]).unwrap()];
        link.transmit(&mut pool, &mut burst);
        // A process that has ended stays known until it is waited for; that must not hide its end.
        assert_eq!(link.wait(PATIENCE), WaitOutcome::PeerGone);
        assert!(!link.peer_closed() && !link.peer_alive());
        assert!(!child.wait().unwrap().success());
    }
}

//! The list of every link, in the mode that a veth pair gives and in the generic one.

use std::time::Duration;

use tollgate_link::{WaitOutcome, Waitable};
use tollgate_stack::Pool;
use tollgate_stack::buffer::Frame;
use tollgate_stack::link::{Integrity, Link};

use super::*;
use crate::namespace;
use crate::stack_link::tests::{Counts, Made, Subject};

/// A link in one mode alone.
pub(crate) struct In<const GENERIC: bool>(Xdp);

impl<const GENERIC: bool> Link for In<GENERIC> {
    fn mtu(&self) -> usize {
        self.0.mtu()
    }

    fn integrity(&self) -> Integrity {
        self.0.integrity()
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.0.transmit(pool, frames);
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.0.receive(pool, frames);
    }
}

impl<const GENERIC: bool> Waitable for In<GENERIC> {
    fn wait(&self, timeout: Duration) -> WaitOutcome {
        self.0.wait(timeout)
    }

    fn is_sending(&self) -> bool {
        self.0.is_sending()
    }

    fn kept(&self) -> usize {
        self.0.kept()
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }
}

impl<const GENERIC: bool> Subject for In<GENERIC> {
    const PATH: PathId = PATH;
    const DEVICE: &'static str = KERNEL_DEVICE;
    const GATHERS: bool = false;
    // A native program on a veth device has room for some 3,500 bytes.
    const LARGEST_MTU: usize = 3_000;
    const TESTS: &'static str = if GENERIC {
        concat!(module_path!(), "::generic")
    } else {
        concat!(module_path!(), "::native")
    };

    fn make(mtu: usize) -> Result<Made<Self>, Error> {
        let side = KernelSide::new(PATH, KERNEL_DEVICE)?;
        let ours = OurSide::join(&side, mtu, OFFLOAD)?;
        let (link, pool) = ours.within(|| Self::open_here(mtu))?;
        Ok(Made {
            link,
            pool,
            ours: Some(ours),
            side,
        })
    }

    fn open_here(mtu: usize) -> Result<(Self, Pool), Error> {
        let mode = if GENERIC { Mode::Generic } else { Mode::Native };
        let (link, pool) = xdp(mtu, &[mode])?;
        Ok((Self(link), pool))
    }

    fn counts(&mut self) -> Counts {
        let stats = self.0.stats();
        assert_eq!(stats.invalid, 0, "{stats:?}");
        Counts {
            gathered: 0,
            refused: stats.refused,
            too_long: stats.too_long,
        }
    }
}

mod native {
    use super::In;
    crate::stack_link::tests::link_tests!(In<false>);
}

mod generic {
    use super::In;
    crate::stack_link::tests::link_tests!(In<true>);
}

#[test]
fn every_queue_has_a_socket_and_a_second_link_is_refused() {
    let made = match In::<false>::make(1500) {
        Ok(made) => made,
        Err(reason) => {
            tollgate_skip::skipped!("{reason}");
            return;
        }
    };
    let ours = made.ours.unwrap();
    let refused = ours.within(|| xdp(1500, &[Mode::Native])).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("another XDP program is attached"), "{text}");
    drop((made.link, made.pool));
    // The kernel takes its time to take the queue from a socket that was closed.
    for queues in [1, 2] {
        let count = queues.to_string();
        let set = |ours: &OurSide| {
            ours.within(|| {
                let done = std::process::Command::new("ethtool")
                    .args(["-L", OUR_DEVICE, "rx", &count, "tx", &count])
                    .output();
                Ok(done.is_ok_and(|done| done.status.success()))
            })
        };
        if !set(&ours).unwrap() {
            tollgate_skip::skipped!("ethtool does not set {queues} queues");
            return;
        }
        let (link, pool) = ours.within(|| xdp(1500, &Mode::ALL)).unwrap();
        assert_eq!(link.queues(), queues);
        assert_eq!(link.mode(), Mode::Native);
        // A veth pair has no driver that reads the pool.
        assert!(
            matches!(link.refused(), [(Mode::ZeroCopy, _)]),
            "{:?}",
            link.refused()
        );
        assert_eq!(link.kept(), Xdp::KEPT);
        assert_eq!(pool.available() + link.kept(), pool.capacity());
    }
}

/// Frames that a device that is down does not take wait in the ring, and then with the sender; none of it is lost.
#[test]
fn full_rings_keep_what_has_no_room() {
    const FRAMES: usize = 600;
    for mode in [Mode::Native, Mode::Generic] {
        let made = KernelSide::new(PATH, KERNEL_DEVICE).and_then(|side| {
            let ours = OurSide::join(&side, 1500, OFFLOAD)?;
            let link = ours.within(|| xdp(1500, &[mode]))?;
            Ok((side, ours, link))
        });
        let (side, ours, (mut link, mut pool)) = match made {
            Ok(made) => made,
            Err(reason) => {
                tollgate_skip::skipped!("{reason}");
                return;
            }
        };
        side.bring_up(1500).unwrap();
        let set = |state| {
            ours.within(|| namespace::ip(PATH, &["link", "set", OUR_DEVICE, state]))
                .unwrap();
        };
        let received = || {
            let counts =
                side.within(|| Ok(std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()));
            let counts = counts.unwrap();
            let line = counts.lines().find(|line| line.contains(KERNEL_DEVICE));
            let packets = line.unwrap().split_whitespace().nth(2).unwrap();
            packets.parse::<usize>().unwrap()
        };
        set("down");
        let mut waiting: Vec<Frame> = (0..FRAMES)
            .map(|_| {
                // A broadcast of an EtherType for experiments (IEEE 802, 9.2.3).
                let mut bytes = [0xff; 60];
                bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
                pool.frame_from(&bytes).unwrap()
            })
            .collect();
        let before = received();
        link.transmit(&mut pool, &mut waiting);
        let left = waiting.len();
        assert!(left > 0 && left < FRAMES, "{left}");
        assert_eq!(link.stats().full, 1);
        assert!(link.is_sending() && !link.is_gone());
        assert_eq!(link.wait(Duration::from_micros(1)), WaitOutcome::Ready);
        set("up");
        let mut arrived = Vec::new();
        for _ in 0..10_000 {
            link.transmit(&mut pool, &mut waiting);
            link.receive(&mut pool, &mut arrived);
            if pool.available() + link.kept() == pool.capacity() {
                break;
            }
            link.wait(Duration::from_millis(1));
        }
        assert!(waiting.is_empty() && !link.is_sending());
        assert_eq!(pool.available() + link.kept(), pool.capacity());
        let stats = link.stats();
        assert_eq!((stats.sent, stats.invalid), (FRAMES as u64, 0), "{stats:?}");
        // The kernel's own frames come the same way.
        let lost = stats.refused as usize;
        assert!(received() - before + lost >= FRAMES, "{mode}: {stats:?}");
    }
}

#[test]
fn mtus_that_a_page_does_not_hold_are_refused() {
    let error = StackXdp::with_mtu(9_000)
        .open(&Spec::new(tollgate_run::Workload::Rr, 4))
        .err()
        .expect("refused");
    let text = error.to_string();
    assert!(
        text.contains("this link carries 68 to 3764") || text.contains("CAP_SYS_ADMIN"),
        "{text}"
    );
}

use tollgate_link::tap::Offloads;
use tollgate_stack::Pool;
use tollgate_stack::link::MAX_MTU;

use super::*;
use crate::stack_link::tests::{Counts, Host, Made, Subject, link_tests, serve_echo};

impl Subject for Tap {
    const PATH: PathId = PATH;
    const DEVICE: &'static str = DEVICE;
    const GATHERS: bool = true;
    const LARGEST_MTU: usize = MAX_MTU;
    const TESTS: &'static str = module_path!();

    fn make(mtu: usize) -> Result<Made<Self>, Error> {
        let side = KernelSide::new(PATH, DEVICE)?;
        let (link, pool) = side.within(|| Self::open_here(mtu))?;
        Ok(Made {
            link,
            pool,
            ours: None,
            side,
        })
    }

    fn open_here(mtu: usize) -> Result<(Self, Pool), Error> {
        Ok((tap(mtu)?, stack_host::pool(PATH, mtu)))
    }

    fn counts(&mut self) -> Counts {
        let stats = self.stats();
        Counts {
            gathered: stats.trains,
            refused: stats.refused,
            too_long: stats.too_long,
        }
    }
}

link_tests!(Tap);

#[test]
fn large_frames_are_cut_by_the_link_or_by_linux() {
    for offloads in [
        Offloads::Nothing,
        Offloads::Checksums,
        Offloads::LargeFrames,
    ] {
        let Some(mut host) = Host::<Tap>::new(1500) else {
            return;
        };
        host.link().set_offloads(Offloads::Nothing).unwrap();
        host.link().set_offloads(offloads).unwrap();
        serve_echo(&mut host, 6 << 20);
        host.nothing_was_wrong();
        let stats = host.link().stats();
        let large = offloads == Offloads::LargeFrames;
        assert_eq!(stats.large != 0, large, "{stats:?}");
        // Cuts are predicted.
        assert!(4 * stats.moved < stats.received, "{stats:?}");
        assert_eq!((stats.too_long, stats.cut_off), (0, 0), "{stats:?}");
    }
}

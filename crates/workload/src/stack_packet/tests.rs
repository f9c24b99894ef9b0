use tollgate_stack::Pool;
use tollgate_stack::link::MAX_MTU;

use super::*;
use crate::stack_link::tests::{Counts, Made, Subject, link_tests};

impl Subject for Packet {
    const PATH: PathId = PATH;
    const DEVICE: &'static str = KERNEL_DEVICE;
    const GATHERS: bool = true;
    const LARGEST_MTU: usize = MAX_MTU;
    const TESTS: &'static str = module_path!();

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
        Ok((packet(mtu)?, stack_host::pool(PATH, mtu)))
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

link_tests!(Packet);

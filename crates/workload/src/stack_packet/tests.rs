use tollgate_stack::Pool;
use tollgate_stack::link::MAX_MTU;

use super::*;
use crate::namespace;
use crate::stack_link::tests::{Counts, Host, Made, Subject, link_tests, serve_echo};

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

#[test]
fn interface_that_refuses_trains_of_a_length_gets_their_frames_alone() {
    let Some(mut host) = Host::<Packet>::new(1500) else {
        return;
    };
    let ours = host.ours.as_ref().unwrap();
    ours.within(|| {
        let limit = ["link", "set", OUR_DEVICE, "gso_max_size", "8000"];
        namespace::ip(PATH, &limit)
    })
    .unwrap();
    serve_echo(&mut host, 1 << 20);
    host.nothing_was_wrong();
    let stats = host.link_mut().stats();
    // Short ones leave, long ones are refused.
    assert!(stats.trains > 0 && stats.taken_apart > 0, "{stats:?}");
}

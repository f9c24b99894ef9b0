//! The paths that there are, by name.
//!
//! It owns the list; what a path does is its own. A new path is a line here, and one more when it has a second process.

use tollgate_run::PathId;

use crate::child::{self, Role};
use crate::error::Error;
use crate::path::Path;
use crate::{
    bare_shm, kernel, peer_smoltcp, stack_memory, stack_packet, stack_shm, stack_tap, stack_xdp,
};

/// The paths that can be opened here, in the order in which tables show them. [`PathId::KernelRemote`] is none of them: it takes a
/// host, see [`kernel::remote::KernelRemote::connect`].
pub fn paths() -> &'static [&'static dyn Path] {
    &[
        &kernel::KernelLoopback::DEFAULT,
        &kernel::KernelVeth::DEFAULT,
        &stack_memory::StackMemory::DEFAULT,
        &stack_shm::StackShm::DEFAULT,
        &stack_tap::StackTap::DEFAULT,
        &stack_packet::StackPacket::DEFAULT,
        &stack_xdp::StackXdp::DEFAULT,
        &peer_smoltcp::PeerSmoltcp,
        &bare_shm::BareShm,
    ]
}

/// The path of this name, or `None` when it cannot be opened here.
pub fn find(id: PathId) -> Option<&'static dyn Path> {
    paths().iter().copied().find(|path| path.id() == id)
}

/// The path of this name with IP packets of at most `mtu` bytes, or `None` when it has no devices or packets of its own.
pub fn find_with_mtu(id: PathId, mtu: usize) -> Option<Box<dyn Path>> {
    match id {
        PathId::KernelLoopback => Some(Box::new(kernel::KernelLoopback::with_mtu(mtu))),
        PathId::KernelVeth => Some(Box::new(kernel::KernelVeth::with_mtu(mtu))),
        PathId::StackMemory => Some(Box::new(stack_memory::StackMemory::with_mtu(mtu))),
        PathId::StackShm => Some(Box::new(stack_shm::StackShm::with_mtu(mtu))),
        PathId::StackTap => Some(Box::new(stack_tap::StackTap::with_mtu(mtu))),
        PathId::StackPacket => Some(Box::new(stack_packet::StackPacket::with_mtu(mtu))),
        PathId::StackXdp => Some(Box::new(stack_xdp::StackXdp::with_mtu(mtu))),
        PathId::KernelRemote | PathId::PeerSmoltcp | PathId::BareShm => None,
    }
}

/// The roles of the paths that have a second process.
const ROLES: &[Role] = &[bare_shm::ROLE, stack_shm::ROLE];

/// Takes over when this process is the second one of a path; call it first in `main`.
///
/// `None`: this is an ordinary process, go on. `Some`: the child's work is over and `main` should end, with failure if it
/// is an error. The parent has been told already.
pub fn maybe_run() -> Option<Result<(), Error>> {
    maybe_run_with(&[])
}

/// Runs a role of this crate or of `more`, if this process is a child.
pub fn maybe_run_with(more: &[Role]) -> Option<Result<(), Error>> {
    child::take_over(&[ROLES, more].concat())
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Placement, Waiting, Workload};

    use super::*;
    use crate::link_kind::LinkKind;
    use crate::spec::Spec;
    use tollgate_stack::config::Mechanisms;
    use tollgate_stats::Samples;

    #[test]
    fn path_names_are_read_back() {
        for &id in PathId::ALL {
            assert_eq!(id.to_string().parse::<PathId>().unwrap(), id);
        }
    }

    #[test]
    fn unknown_path_lists_the_known_ones() {
        let error = "kernel-lo".parse::<PathId>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown path `kernel-lo`; known: kernel-loopback, kernel-veth, kernel-remote, stack-memory, stack-shm, \
             stack-tap, stack-packet, stack-xdp, peer-smoltcp, bare-shm"
        );
    }

    #[test]
    fn every_path_is_found_by_its_name_and_has_a_mode() {
        for path in paths() {
            let found = find(path.id()).expect("listed");
            assert_eq!(found.id(), path.id());
            assert!(!found.capabilities().modes.is_empty());
            assert!(!found.capabilities().workloads.is_empty());
        }
    }

    #[test]
    fn refusals_name_what_is_there() {
        let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::OneCore, Waiting::BusyPoll);
        let error = find(PathId::KernelLoopback)
            .unwrap()
            .open(&spec)
            .err()
            .expect("refused");
        assert_eq!(
            error.to_string(),
            "kernel-loopback does not run 1 core, polling; it has: 2 cores, blocking; 2 cores, polling; 1 core, blocking"
        );
        let spec = Spec::new(Workload::Stream, 4).with_mode(Placement::TwoCores, Waiting::BusyPoll);
        let error = find(PathId::BareShm)
            .unwrap()
            .open(&spec)
            .err()
            .expect("refused");
        assert_eq!(
            error.to_string(),
            "bare-shm does not run stream; it has: rr"
        );
        let spec = Spec::new(Workload::Rr, 4).with_link(LinkKind::AtmAal5);
        let error = find(PathId::KernelLoopback)
            .unwrap()
            .open(&spec)
            .err()
            .expect("refused");
        assert_eq!(
            error.to_string(),
            "kernel-loopback does not run over the link atm-aal5; it has: ethernet"
        );
    }

    #[test]
    fn nagle_is_one_setting_on_every_path() {
        for id in [
            PathId::KernelLoopback,
            PathId::StackMemory,
            PathId::PeerSmoltcp,
        ] {
            let path = find(id).expect("listed");
            let mode = path.capabilities().modes[0];
            for &workload in Workload::ALL {
                let usual = Spec::new(workload, 64).with_mode(mode.placement, mode.waiting);
                for (spec, word) in [(usual.clone(), "off"), (usual.with_nagle(true), "on")] {
                    let settings = path.open(&spec).unwrap().settings();
                    let said = settings.iter().find(|(name, _)| *name == "nagle");
                    assert_eq!(said.expect("said").1, word, "{id} {workload}");
                }
            }
        }
    }

    #[test]
    fn mechanisms_reach_both_ends_and_are_told() {
        for (name, value, mechanisms) in Mechanisms::each() {
            let spec = Spec::new(Workload::Rr, 64)
                .with_mode(Placement::OneCore, Waiting::BusyPoll)
                .with_mechanisms(mechanisms)
                .verified();
            let mut session = find(PathId::StackMemory)
                .expect("listed")
                .open(&spec)
                .unwrap();
            let mut samples = Samples::new(session.timing());
            session.run(8, &mut samples).unwrap();
            let settings = session.settings();
            let told = match name {
                "checksum" => settings.iter().any(|(said, how)| {
                    *said == "checksums" && how.contains(&value.replace('-', " "))
                }),
                _ => settings.contains(&(name, value.to_owned())),
            };
            assert!(told, "{name}={value}: {settings:?}");
        }
    }

    #[test]
    fn redundancy_avoidance_is_agreed_on_and_told() {
        let mut mechanisms = Mechanisms::DEFAULT;
        mechanisms.set("checksum", "redundancy-avoidance").unwrap();
        for evidence in ["subnet", "spanning-tree"] {
            mechanisms.set("lan-evidence", evidence).unwrap();
            let path = find(PathId::StackMemory).expect("listed");
            let mode = path.capabilities().modes[0];
            for &workload in Workload::ALL {
                let spec = Spec::new(workload, 2_000)
                    .with_mode(mode.placement, mode.waiting)
                    .with_mechanisms(mechanisms)
                    .verified();
                let mut session = path.open(&spec).unwrap();
                let mut samples = Samples::new(session.timing());
                session.run(16, &mut samples).unwrap();
                let settings = session.settings();
                let told = settings.iter().find(|(name, _)| *name == "checksums");
                let (_, how) = told.expect("it is told");
                assert!(
                    how.starts_with("redundancy avoidance, left out"),
                    "{workload}: {how}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_allowed_is_refused_by_every_path() {
        for path in paths() {
            for &workload in Workload::ALL {
                for &placement in Placement::ALL {
                    for &waiting in Waiting::ALL {
                        let spec = Spec::new(workload, 4).with_mode(placement, waiting);
                        let allowed = path.capabilities().allows(&spec);
                        assert_eq!(path.capabilities().check(path.id(), &spec).is_ok(), allowed);
                        if !allowed {
                            assert!(matches!(path.open(&spec), Err(Error::Unsupported { .. })));
                        }
                    }
                }
            }
        }
    }
}

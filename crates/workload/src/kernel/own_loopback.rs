//! A loopback of our own, in a network namespace that nothing but a connection of ours lives in.
//!
//! The segmentation of a loopback, by its MTU and by the segments in an skb, is a property of the device. The machine's own
//! loopback carries other people's traffic, so it is left alone; a new namespace has a loopback of its own. Nothing has to be
//! restored: the namespace goes with the last socket and descriptor in it, however the process ends.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use super::PATH;
use crate::error::Error;
use crate::namespace;

/// Segmentation on a loopback of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The default of loopbacks: several segments as one skb (GSO).
    Default,
    /// Every segment is a packet of its own.
    IntoPackets,
}

/// A network namespace with a loopback of its own.
#[derive(Debug)]
pub(super) struct OwnLoopback {
    namespace: File,
    mtu: usize,
}

impl OwnLoopback {
    /// Makes it, with this MTU.
    ///
    /// # Errors
    /// When namespaces cannot be made here (it needs CAP_SYS_ADMIN), or its loopback cannot be set up.
    pub(super) fn make(mtu: usize, cut: Cut) -> Result<Self, Error> {
        let namespace = namespace::make(PATH)?;
        let own = Self { namespace, mtu };
        let mtu = mtu.to_string();
        let mut arguments = vec!["link", "set", "dev", "lo", "mtu", &mtu];
        match cut {
            Cut::Default => {}
            Cut::IntoPackets => arguments.extend(["gso_max_segs", "1"]),
        }
        arguments.push("up");
        own.within(|| namespace::ip(PATH, &arguments))?;
        Ok(own)
    }

    /// The MTU of its loopback.
    pub(super) const fn mtu(&self) -> usize {
        self.mtu
    }

    /// Runs a function in it, on a thread of its own.
    pub(super) fn within<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        namespace::within(PATH, self.namespace.as_fd(), work)
    }

    /// The namespace.
    pub(super) fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

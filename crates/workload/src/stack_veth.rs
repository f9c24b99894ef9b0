//! The veth pair under a path whose link shares an interface: our end in a network namespace of its own, the kernel's on its side.
//!
//! Our end has no address, so the kernel has nothing to say there. It is where the link lives; the devices go with both namespaces.
//! What a veth pair leaves undone in its host's memory, checksums and segmentation, is switched here at the kernel's end, as the
//! link can take it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

use tollgate_run::{Offload, PathId};

use crate::error::Error;
use crate::kernel::offload;
use crate::namespace;
use crate::stack_link::KernelSide;

/// The name of our device, in its namespace.
pub(crate) const OUR_DEVICE: &str = "tollgate0";
/// The name of the kernel's, in its own.
pub(crate) const KERNEL_DEVICE: &str = "tollgate1";

/// Our end of a pair.
#[derive(Debug)]
pub(crate) struct OurSide {
    path: PathId,
    namespace: File,
}

impl OurSide {
    /// Makes a pair whose other device is the kernel's side's, with IP packets of at most `mtu` bytes, and brings our end up. The
    /// kernel's end has these offloads.
    ///
    /// # Errors
    /// Those of the system; it takes root, or CAP_SYS_ADMIN and CAP_NET_ADMIN.
    pub(crate) fn join(side: &KernelSide, mtu: usize, offload: Offload) -> Result<Self, Error> {
        let path = side.path();
        let ours = Self {
            path,
            namespace: namespace::make(path)?,
        };
        let own = format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            ours.namespace.as_raw_fd()
        );
        let mtu = mtu.to_string();
        side.within(|| {
            let device = side.device();
            let ends = ["type", "veth", "peer", "name", OUR_DEVICE, "netns", &own];
            namespace::ip(path, &[&["link", "add", device][..], &ends].concat())?;
            offload::switch(device, offload).map_err(|error| error.on(path))
        })?;
        ours.within(|| namespace::ip(path, &["link", "set", OUR_DEVICE, "mtu", &mtu, "up"]))?;
        Ok(ours)
    }

    /// Does something in its namespace, on a thread of its own.
    ///
    /// # Errors
    /// Those of the system, and those of the work.
    pub(crate) fn within<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        namespace::within(self.path, self.namespace.as_fd(), work)
    }
}

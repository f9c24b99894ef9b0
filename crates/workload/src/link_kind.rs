//! The links that Tollgate's stacks can be joined by, by name, with their MTUs.

use serde::{Deserialize, Serialize};
use tollgate_link::atm::{self, Aal};
use tollgate_run::names;

/// Bytes of the largest IP packet on FDDI (RFC 1390).
const FDDI_MTU: usize = 4_352;

/// The kind of link between the two stacks of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// Whole frames, with the path's own MTU: 1,500 bytes unless told otherwise.
    #[default]
    Ethernet,
    /// Whole frames with the MTU of FDDI, 4,352 bytes.
    Fddi,
    /// Cells of AAL3/4 with the MTU of [`atm`], 9,188 bytes.
    AtmAal34,
    /// Cells of AAL5 with the same MTU.
    AtmAal5,
}

names!(LinkKind, "link", Ethernet => "ethernet", Fddi => "fddi", AtmAal34 => "atm-aal34", AtmAal5 => "atm-aal5");

impl LinkKind {
    /// Bytes of the largest IP packet; `None` where the path decides.
    #[must_use]
    pub const fn mtu(self) -> Option<usize> {
        match self {
            Self::Ethernet => None,
            Self::Fddi => Some(FDDI_MTU),
            Self::AtmAal34 | Self::AtmAal5 => Some(atm::MTU),
        }
    }

    /// The adaptation layer, where frames become cells.
    pub(crate) const fn aal(self) -> Option<Aal> {
        match self {
            Self::Ethernet | Self::Fddi => None,
            Self::AtmAal34 => Some(Aal::Aal34),
            Self::AtmAal5 => Some(Aal::Aal5),
        }
    }
}

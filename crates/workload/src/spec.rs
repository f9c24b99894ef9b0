//! Specification of a session.

use serde::{Deserialize, Serialize};
use tollgate_run::{Placement, Waiting, Workload};
use tollgate_stack::config::{Mechanisms, Nagle};
use tollgate_stats::Timing;

use crate::cell_faults::CellFaults;
use crate::error::Error;
use crate::link_kind::LinkKind;
use crate::sockets::Sockets;

/// The largest message or write, in bytes (1 MiB).
pub const MAX_SIZE: usize = 1 << 20;

/// Specification of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The workload of the two ends.
    pub workload: Workload,
    /// Bytes of user data per message (rr, crr: each way) or per write (stream); 1 to [`MAX_SIZE`].
    pub size: usize,
    /// The placement of the two ends.
    pub placement: Placement,
    /// The waiting of an end for the other.
    pub waiting: Waiting,
    /// Round trips at the start of each slice that are made and not timed, so that a slice does not pay for the caches
    /// that another path's slice has emptied. Streams have none.
    pub warmup: u32,
    /// The operations per reading of the clock; `None` leaves them to the path.
    pub timing: Option<Timing>,
    /// Tells whether the bytes of a stream come to the timed end, from the other one ([`Workload::Stream`] only).
    #[serde(default)]
    pub reverse: bool,
    /// Tells whether each message carries other bytes and the receiver compares every one. It costs time, so it is for tests
    /// and for doubts, not for measurements.
    pub verify: bool,
    /// The use of sockets; all but the transport is the kernel's, and [`Sockets::PLAIN`] on every other path.
    pub sockets: Sockets,
    /// The mechanisms of Tollgate's stack, at both ends. Other paths have Nagle's algorithm alone ([`Spec::nagle`]).
    #[serde(with = "by_name")]
    pub mechanisms: Mechanisms,
    /// The link between Tollgate's stacks; other paths have [`LinkKind::Ethernet`] only.
    pub link: LinkKind,
    /// Faults of its line, where it carries cells.
    #[serde(default)]
    pub cells: CellFaults,
    /// Bytes by which the buffers that applications send from and receive into lie further behind than the allocator puts them, over
    /// Tollgate's stacks: those who average over sessions draw them (see [`crate::placed`]).
    pub places: [usize; 2],
}

/// Mechanisms as pairs of names, for the second process.
mod by_name {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tollgate_stack::config::Mechanisms;

    pub(super) fn serialize<S: Serializer>(
        mechanisms: &Mechanisms,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let settings: Vec<(&str, &str)> = mechanisms.settings().collect();
        settings.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Mechanisms, D::Error> {
        let settings = Vec::<(String, String)>::deserialize(deserializer)?;
        let mut mechanisms = Mechanisms::DEFAULT;
        for (name, value) in settings {
            mechanisms.set(&name, &value).map_err(D::Error::custom)?;
        }
        Ok(mechanisms)
    }
}

impl Spec {
    /// A spec with the defaults: two cores, blocking, 8 round trips of warm-up, Nagle's algorithm off, the path's own
    /// timing, bytes not compared.
    pub const fn new(workload: Workload, size: usize) -> Self {
        Self {
            workload,
            size,
            placement: Placement::TwoCores,
            waiting: Waiting::Blocking,
            warmup: 8,
            timing: None,
            reverse: false,
            verify: false,
            sockets: Sockets::PLAIN,
            mechanisms: Mechanisms::DEFAULT,
            link: LinkKind::Ethernet,
            cells: CellFaults::NONE,
            places: [0; 2],
        }
    }

    /// Sets placement and waiting.
    #[must_use]
    pub const fn with_mode(mut self, placement: Placement, waiting: Waiting) -> Self {
        self.placement = placement;
        self.waiting = waiting;
        self
    }

    /// Sets Nagle's algorithm on or off at both ends.
    #[must_use]
    pub const fn with_nagle(mut self, nagle: bool) -> Self {
        self.mechanisms.nagle = if nagle { Nagle::On } else { Nagle::Off };
        self
    }

    /// Tells whether Nagle's algorithm (RFC 9293, section 3.7.4) is on at both ends, on every path alike. It is off by default,
    /// so that a table compares paths that do the same.
    #[must_use]
    pub const fn nagle(&self) -> bool {
        matches!(self.mechanisms.nagle, Nagle::On)
    }

    /// Sets the mechanisms of Tollgate's stack.
    #[must_use]
    pub const fn with_mechanisms(mut self, mechanisms: Mechanisms) -> Self {
        self.mechanisms = mechanisms;
        self
    }

    /// Sets the link between Tollgate's stacks.
    #[must_use]
    pub const fn with_link(mut self, link: LinkKind) -> Self {
        self.link = link;
        self
    }

    /// Sets the faults of a line of cells.
    #[must_use]
    pub const fn with_cells(mut self, cells: CellFaults) -> Self {
        self.cells = cells;
        self
    }

    /// Places the buffers of applications.
    #[must_use]
    pub const fn with_places(mut self, places: [usize; 2]) -> Self {
        self.places = places;
        self
    }

    /// Tells whether messages are datagrams.
    #[must_use]
    pub const fn is_datagrams(&self) -> bool {
        self.sockets.transport.is_datagram()
    }

    /// Tells whether a session's first connection is the one that carries its messages. Otherwise it only resolves addresses, and is
    /// closed.
    pub(crate) const fn keeps_connection(&self) -> bool {
        match self.workload {
            Workload::Rr | Workload::Stream => !self.is_datagrams(),
            Workload::Crr => false,
        }
    }

    /// Nagle's algorithm as a setting of a session: `on` or `off`.
    pub(crate) fn nagle_setting(&self) -> (&'static str, String) {
        (Nagle::NAME, self.mechanisms.nagle.name().to_owned())
    }

    /// Has every byte compared.
    #[must_use]
    pub const fn verified(mut self) -> Self {
        self.verify = true;
        self
    }

    /// Has the bytes of a stream come to the timed end.
    #[must_use]
    pub const fn reversed(mut self, reverse: bool) -> Self {
        self.reverse = reverse;
        self
    }

    /// Sets the use of sockets.
    #[must_use]
    pub const fn over(mut self, sockets: Sockets) -> Self {
        self.sockets = sockets;
        self
    }

    /// Checks what holds for every path.
    ///
    /// # Errors
    /// [`Error::Size`] and [`Error::EmptyBatch`].
    pub fn check(&self) -> Result<(), Error> {
        if self.size == 0 || self.size > MAX_SIZE {
            return Err(Error::Size {
                size: self.size,
                max: MAX_SIZE,
            });
        }
        if self.timing == Some(Timing::Batch(0)) {
            return Err(Error::EmptyBatch);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for &workload in Workload::ALL {
            assert_eq!(workload.to_string().parse::<Workload>().unwrap(), workload);
        }
        for &placement in Placement::ALL {
            assert_eq!(
                placement.to_string().parse::<Placement>().unwrap(),
                placement
            );
        }
        for &waiting in Waiting::ALL {
            assert_eq!(waiting.to_string().parse::<Waiting>().unwrap(), waiting);
        }
    }

    #[test]
    fn unknown_workload_lists_the_known_ones() {
        let error = "ping".parse::<Workload>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown workload `ping`; known: rr, crr, stream"
        );
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        assert!(Spec::new(Workload::Rr, 0).check().is_err());
        assert!(Spec::new(Workload::Rr, 1).check().is_ok());
        assert!(Spec::new(Workload::Rr, MAX_SIZE).check().is_ok());
        let error = Spec::new(Workload::Rr, MAX_SIZE + 1).check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "size 1048577 is out of range; a message has 1 to 1048576 bytes"
        );
    }

    #[test]
    fn a_spec_survives_serialization() {
        let mut spec = Spec {
            timing: Some(Timing::Batch(16)),
            link: LinkKind::AtmAal34,
            ..Spec::new(Workload::Crr, 80)
        }
        .with_nagle(true)
        .verified();
        spec.mechanisms.set("demux", "list").unwrap();
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    }
}

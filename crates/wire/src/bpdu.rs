//! Bridge protocol data units of the spanning tree protocol (IEEE 802.1D, 9.3), with the LLC header in front of them.
//!
//! Hosts take no part in the protocol. Kay and Pasquale (1996, VI.E) let them send and hear its packets, since bridges pass none on.

use crate::ethernet::MacAddr;
use crate::{Malformed, be16, be32};

/// The group address that bridges listen on and do not forward (IEEE 802.1D, 7.12.3).
pub const BRIDGE_GROUP: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0]);
/// Bytes of the LLC header: both service access points and unnumbered information (IEEE 802.1D, 7.12.3).
pub const LLC_LEN: usize = 3;
/// Bytes of the longest unit that is written, its LLC header included.
pub const MAX_LEN: usize = LLC_LEN + RAPID_LEN;

/// Service access points of the spanning tree protocol, and the control field of unnumbered information.
const LLC: [u8; LLC_LEN] = [0x42, 0x42, 0x03];
/// Bytes of a unit that says that the topology has changed.
const TOPOLOGY_CHANGE_LEN: usize = 4;
/// Bytes of a configuration unit.
const CONFIGURATION_LEN: usize = 35;
/// Bytes of a rapid spanning tree unit.
const RAPID_LEN: usize = 36;
/// Types of units (IEEE 802.1D, 9.3.1 to 9.3.3).
const CONFIGURATION: u8 = 0x00;
const TOPOLOGY_CHANGE: u8 = 0x80;
const RAPID: u8 = 0x02;
/// Version of the rapid spanning tree protocol. Later ones begin in the same way (IEEE 802.1D, 9.3.4).
const RAPID_VERSION: u8 = 2;

/// A bridge's identifier: the lower one is preferred as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct BridgeId {
    /// The configured priority, compared first.
    pub priority: u16,
    /// The bridge's address.
    pub address: [u8; 6],
}

/// A time in units of 1/256 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub u16);

impl Time {
    /// A number of seconds below 256.
    pub const fn seconds(seconds: u8) -> Self {
        Self((seconds as u16) << 8)
    }
}

/// The fields of a configuration unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Configuration {
    /// Topology change and its acknowledgment; in a rapid unit also role and state of the port.
    pub flags: u8,
    /// The bridge that the sender takes for the root.
    pub root: BridgeId,
    /// Cost of the sender's path to the root.
    pub root_path_cost: u32,
    /// The sender.
    pub bridge: BridgeId,
    /// The port that it was sent through.
    pub port: u16,
    /// Age of what the root said.
    pub message_age: Time,
    /// Age at which it is to be forgotten.
    pub max_age: Time,
    /// Interval between the root's units.
    pub hello_time: Time,
    /// Time that a port spends in each state on its way to forwarding.
    pub forward_delay: Time,
}

/// A unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bpdu {
    /// Configuration (spanning tree protocol).
    Configuration(Configuration),
    /// Notification that the topology has changed.
    TopologyChange,
    /// Configuration (rapid spanning tree protocol, and what later versions have in common with it).
    Rapid(Configuration),
}

impl Bpdu {
    /// Reads the unit behind an Ethernet header, of which `bytes` holds as many bytes as its length field says.
    ///
    /// # Errors
    /// [`Malformed::Field`] for other protocols, versions and types, [`Malformed::Truncated`] when it ends too early.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some((llc, unit)) = bytes.split_first_chunk::<LLC_LEN>() else {
            return Err(Malformed::Truncated);
        };
        if *llc != LLC {
            return Err(Malformed::Field);
        }
        let Some(&[protocol_high, protocol_low, version, kind]) = unit.first_chunk() else {
            return Err(Malformed::Truncated);
        };
        if [protocol_high, protocol_low] != [0, 0] {
            return Err(Malformed::Field);
        }
        match (version, kind) {
            (_, TOPOLOGY_CHANGE) => Ok(Self::TopologyChange),
            (_, CONFIGURATION) => Configuration::parse(unit).map(Self::Configuration),
            (RAPID_VERSION.., RAPID) if unit.len() < RAPID_LEN => Err(Malformed::Truncated),
            (RAPID_VERSION.., RAPID) => Configuration::parse(unit).map(Self::Rapid),
            _ => Err(Malformed::Field),
        }
    }

    /// Writes LLC header and unit into the front of `out` and returns their bytes, which the Ethernet length field is to say.
    pub fn emit(&self, out: &mut [u8; MAX_LEN]) -> usize {
        *out = [0; MAX_LEN];
        out[..LLC_LEN].copy_from_slice(&LLC);
        let unit = &mut out[LLC_LEN..];
        let len = match self {
            Self::Configuration(configuration) => {
                configuration.emit(unit);
                CONFIGURATION_LEN
            }
            Self::TopologyChange => {
                unit[3] = TOPOLOGY_CHANGE;
                TOPOLOGY_CHANGE_LEN
            }
            Self::Rapid(configuration) => {
                configuration.emit(unit);
                (unit[2], unit[3]) = (RAPID_VERSION, RAPID);
                RAPID_LEN
            }
        };
        LLC_LEN + len
    }
}

impl Configuration {
    /// Reads the fields behind the type of a unit.
    fn parse(unit: &[u8]) -> Result<Self, Malformed> {
        let Some(unit) = unit.first_chunk::<CONFIGURATION_LEN>() else {
            return Err(Malformed::Truncated);
        };
        let bridge = |at: usize| {
            let mut address = [0; 6];
            address.copy_from_slice(&unit[at + 2..at + 8]);
            BridgeId {
                priority: be16(unit, at),
                address,
            }
        };
        let time = |at: usize| Time(be16(unit, at));
        Ok(Self {
            flags: unit[4],
            root: bridge(5),
            root_path_cost: be32(unit, 13),
            bridge: bridge(17),
            port: be16(unit, 25),
            message_age: time(27),
            max_age: time(29),
            hello_time: time(31),
            forward_delay: time(33),
        })
    }

    /// Writes the fields behind the type of a unit, for which there is room.
    fn emit(&self, unit: &mut [u8]) {
        let mut put = |at: usize, bytes: &[u8]| unit[at..at + bytes.len()].copy_from_slice(bytes);
        put(4, &[self.flags]);
        for (at, bridge) in [(5, self.root), (17, self.bridge)] {
            put(at, &bridge.priority.to_be_bytes());
            put(at + 2, &bridge.address);
        }
        put(13, &self.root_path_cost.to_be_bytes());
        put(25, &self.port.to_be_bytes());
        let times = [
            self.message_age,
            self.max_age,
            self.hello_time,
            self.forward_delay,
        ];
        for (n, time) in times.into_iter().enumerate() {
            put(27 + 2 * n, &time.0.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    /// A unit that a bridge of an unconfigured network sends every two seconds.
    const HELLO: [u8; 38] = [
        0x42, 0x42, 0x03, 0, 0, 0, 0, 0, 0x80, 0, 8, 0, 2, 0, 0x29, 0x36, 0, 0, 0, 0, 0x80, 0, 8,
        0, 2, 0, 0x29, 0x36, 0x80, 0x01, 0, 0, 20, 0, 2, 0, 15, 0,
    ];

    #[test]
    fn hello_of_a_bridge_is_read() {
        let bridge = BridgeId {
            priority: 0x8000,
            address: [8, 0, 2, 0, 0x29, 0x36],
        };
        let expected = Configuration {
            root: bridge,
            bridge,
            port: 0x8001,
            max_age: Time::seconds(20),
            hello_time: Time::seconds(2),
            forward_delay: Time::seconds(15),
            ..Configuration::default()
        };
        assert_eq!(Bpdu::parse(&HELLO), Ok(Bpdu::Configuration(expected)));
        for cut in 0..HELLO.len() {
            assert_eq!(Bpdu::parse(&HELLO[..cut]), Err(Malformed::Truncated));
        }
    }

    #[test]
    fn other_protocols_versions_and_types_are_refused() {
        for (at, value) in [(0, 0xaa), (1, 0xaa), (2, 0), (3, 1), (4, 1), (6, 1)] {
            let mut other = HELLO;
            other[at] = value;
            assert_eq!(Bpdu::parse(&other), Err(Malformed::Field), "byte {at}");
        }
        // A rapid unit is longer by its length of version 1.
        let mut rapid = HELLO;
        (rapid[5], rapid[6]) = (2, 2);
        assert_eq!(Bpdu::parse(&rapid), Err(Malformed::Truncated));
        let longer = [&rapid[..], &[0]].concat();
        assert!(matches!(Bpdu::parse(&longer), Ok(Bpdu::Rapid(_))));
    }

    fn any_configuration() -> impl Strategy<Value = Configuration> {
        let bridge = || (any::<u16>(), any::<[u8; 6]>());
        let times = any::<[u16; 4]>();
        (any::<(u8, u32, u16)>(), bridge(), bridge(), times).prop_map(
            |((flags, root_path_cost, port), root, bridge, times)| {
                let id = |(priority, address)| BridgeId { priority, address };
                let [message_age, max_age, hello_time, forward_delay] = times.map(Time);
                Configuration {
                    flags,
                    root: id(root),
                    root_path_cost,
                    bridge: id(bridge),
                    port,
                    message_age,
                    max_age,
                    hello_time,
                    forward_delay,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn unit_survives_the_way_out_and_in(configuration in any_configuration(), kind in 0..3) {
            let unit = match kind {
                0 => Bpdu::Configuration(configuration),
                1 => Bpdu::TopologyChange,
                _ => Bpdu::Rapid(configuration),
            };
            let mut out = [0xaa; MAX_LEN];
            let len = unit.emit(&mut out);
            prop_assert_eq!(Bpdu::parse(&out[..len]), Ok(unit));
            // Ethernet pads what is shorter than its least payload.
            prop_assert_eq!(Bpdu::parse(&[&out[..len], &[0; 20]].concat()), Ok(unit));
            for cut in 0..len {
                prop_assert!(Bpdu::parse(&out[..cut]).is_err());
            }
        }

        #[test]
        fn parser_takes_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let read = [Bpdu::parse(&bytes), Bpdu::parse(&[&LLC[..], &[0, 0], &bytes].concat())];
            for unit in read.into_iter().flatten() {
                let mut out = [0; MAX_LEN];
                let len = unit.emit(&mut out);
                prop_assert_eq!(Bpdu::parse(&out[..len]), Ok(unit));
            }
        }
    }
}

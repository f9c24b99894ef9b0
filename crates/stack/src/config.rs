//! Configuration of a stack: addresses, limits, and the mechanisms that can be switched.

use crate::addresses::mask;
use crate::link::{Integrity, Link};
use crate::tcp::recovery::rto::HIGHEST_FLOOR;
use core::fmt;
use core::net::Ipv4Addr;
use core::time::Duration;
use tollgate_checksum::Kernel;
use tollgate_wire::ethernet::MacAddr;

pub use crate::ipv6::{InterfaceId, Ipv6};
pub use crate::mechanisms::{
    Buffers, ChecksumKernel, ChecksumOffload, ChecksumPolicy, CongestionControl, DelayedAck, Demux,
    Ecn, FinAcknowledgment, HeaderTemplate, LanEvidence, LossRecovery, Mechanisms, MtuProbing,
    Nagle, Pacing, Prediction, Receive, RetransmitCopy, Segmentation, Switch, TailProbe, Timers,
    Transmit, Tuning, Undo, UnknownSetting,
};

/// Configuration of a stack, given when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Our link address.
    pub mac: MacAddr,
    /// Our address; 0.0.0.0 for none yet, as before DHCP.
    pub ip: Ipv4Addr,
    /// Leading bits of `ip` that name the local network, 0 to 32.
    pub prefix_len: u8,
    /// The router to all other networks.
    pub gateway: Option<Ipv4Addr>,
    /// IPv6, or none: then the host speaks IPv4 alone.
    pub ipv6: Option<Ipv6>,
    /// Random bits that nobody else knows: sequence numbers, hash keys, ports and cookies come from them.
    pub seed: [u64; 4],
    /// Connections, TIME-WAIT apart. Room is reserved, and touched only as connections come to be.
    pub max_connections: usize,
    /// Connections in TIME-WAIT; when there are more, the oldest is let go.
    pub max_time_wait: usize,
    /// Bytes that a connection queues for sending, at least 4,096.
    pub send_buffer: u32,
    /// Bytes that a connection queues for reading, 4,096 to 2^30.
    pub receive_buffer: u32,
    /// Bytes to which a send buffer may grow with the window ([`Tuning::On`]), at most 2^30; no less than `send_buffer` counts.
    pub max_send_buffer: u32,
    /// Bytes to which a receive buffer may grow with what the application takes ([`Tuning::On`]), at most 2^30; no less than
    /// `receive_buffer` counts.
    pub max_receive_buffer: u32,
    /// Offer the timestamp option (RFC 7323).
    pub timestamps: bool,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// The floor under the variation's share of the retransmission timeout, at most 50 s, and so the lower bound of the
    /// timeout. RFC 6298, 2.4 asks for 1 s; 200 ms is what hosts use today.
    pub min_rto: Duration,
    /// The upper bound of the retransmission timeout (RFC 6298, 2.5: at least 60 s).
    pub max_rto: Duration,
    /// Hops that our packets may take (RFC 9293, 3.9.2, MUST-49), at least 1.
    pub ttl: u8,
    /// Take packets with a completed source route, and answer connection requests by the way that they came (RFC 9293,
    /// 3.9.2.1, MUST-53). Off by default, and then they are dropped, unless they are a connection's that was opened with a
    /// route: who names the way back can speak for any address (RFC 7126, 4.3).
    pub source_routes: bool,
    /// Longest delay of an acknowledgment that waits for data to go with (RFC 9293, 3.8.6.3: less than 0.5 s).
    pub delayed_ack: Duration,
    /// Maximum segment lifetime; TIME-WAIT lasts twice as long.
    pub msl: Duration,
    /// Without progress for this long a connection is given up (RFC 9293, 3.8.3: R2 at least 100 s).
    pub user_timeout: Duration,
    /// Time for which a SYN is retransmitted (R2 for SYN: at least 3 minutes).
    pub connect_timeout: Duration,
    /// Time for which FIN-WAIT-2 is kept for a connection that the application has closed.
    pub fin_wait_2_timeout: Duration,
    /// The first and the last port that connections are opened from, where none is named. RFC 6056, 3.2 asks for as many as there
    /// can be; which is taken is not to be guessed from outside (its algorithm 4).
    pub ephemeral_ports: (u16, u16),
    /// Frames that wait for the link.
    pub device_queue: usize,
    /// Neighbours whose link addresses are kept; as many others may be asked for at a time.
    pub max_neighbours: usize,
    /// Datagrams being reassembled hold at most this many frames, and at most a quarter of the pool; those of one source
    /// half of that.
    pub reassembly_frames: usize,
    /// Protection of frames by the link ([`Link::integrity`]).
    pub integrity: Integrity,
    /// The link completes TCP's checksums ([`Link::complete_checksums`]).
    pub completes_checksums: bool,
    /// Checksum kernel of this processor; [`Mechanisms::checksum_kernel`] says how it is used.
    pub kernel: Kernel,
    /// Switchable mechanisms; Nagle's algorithm is that of new connections.
    pub mechanisms: Mechanisms,
}

impl Config {
    /// A host at `ip`/`prefix_len` with the defaults that the fields' documentation names.
    pub fn new(mac: MacAddr, ip: Ipv4Addr, prefix_len: u8, seed: [u64; 4]) -> Self {
        Self {
            mac,
            ip,
            prefix_len,
            gateway: None,
            ipv6: None,
            seed,
            max_connections: 16_384,
            max_time_wait: 32_768,
            send_buffer: 256 * 1024,
            receive_buffer: 256 * 1024,
            // What Linux allows (tcp_wmem, tcp_rmem).
            max_send_buffer: 4 << 20,
            max_receive_buffer: 6 << 20,
            timestamps: true,
            window_scaling: true,
            min_rto: Duration::from_millis(200),
            max_rto: Duration::from_secs(60),
            // The recommended value (IANA, IP option numbers).
            ttl: 64,
            source_routes: false,
            delayed_ack: Duration::from_millis(40),
            msl: Duration::from_secs(30),
            user_timeout: Duration::from_secs(15 * 60),
            connect_timeout: Duration::from_secs(3 * 60),
            fin_wait_2_timeout: Duration::from_secs(60),
            // What Linux takes.
            ephemeral_ports: (32_768, 60_999),
            device_queue: 256,
            max_neighbours: 1024,
            reassembly_frames: 256,
            integrity: Integrity::Unprotected,
            completes_checksums: false,
            kernel: Kernel::best(),
            mechanisms: Mechanisms::HOST,
        }
    }

    /// This configuration for a stack on `link`, which is told of the mechanisms that concern it.
    #[must_use]
    pub fn for_link(self, link: &mut impl Link) -> Self {
        link.set_segmentation(self.mechanisms.segmentation);
        let leaves = self.mechanisms.checksum_offload == ChecksumOffload::On
            && self.mechanisms.checksum == ChecksumPolicy::Always;
        Self {
            integrity: link.integrity(),
            completes_checksums: link.complete_checksums(leaves),
            ..self
        }
    }

    /// Tells whether segments have checksums when they go to the link.
    pub(crate) const fn sums_segments(&self) -> bool {
        self.mechanisms.checksum.sums_in_template() && !self.completes_checksums
    }

    /// Checks the ranges that the fields name.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        let check = |holds: bool, field: &'static str, range: &'static str| {
            if holds {
                Ok(())
            } else {
                Err(InvalidConfig { field, range })
            }
        };
        check(self.mac.is_unicast(), "mac", "a unicast address")?;
        check(
            !self.ip.is_multicast() && !self.ip.is_broadcast(),
            "ip",
            "a unicast address, or 0.0.0.0",
        )?;
        check(self.prefix_len <= 32, "prefix_len", "0 to 32")?;
        if let Some(ipv6) = &self.ipv6 {
            let address = ipv6.address.is_none_or(|(address, len)| {
                crate::ipv6::addresses::is_unicast(address) && (1..=128).contains(&len)
            });
            check(address, "ipv6.address", "a unicast address, 1 to 128 bits")?;
        }
        check(
            (1..=1 << 22).contains(&self.max_connections),
            "max_connections",
            "1 to 4,194,304",
        )?;
        check(
            (1..=1 << 22).contains(&self.max_time_wait),
            "max_time_wait",
            "1 to 4,194,304",
        )?;
        check(
            (4096..=1 << 30).contains(&self.send_buffer),
            "send_buffer",
            "4,096 to 2^30 bytes",
        )?;
        check(
            (4096..=1 << 30).contains(&self.receive_buffer),
            "receive_buffer",
            "4,096 to 2^30 bytes",
        )?;
        check(
            self.max_send_buffer <= 1 << 30,
            "max_send_buffer",
            "at most 2^30 bytes",
        )?;
        check(
            self.max_receive_buffer <= 1 << 30,
            "max_receive_buffer",
            "at most 2^30 bytes",
        )?;
        check(
            self.delayed_ack < Duration::from_millis(500),
            "delayed_ack",
            "less than 0.5 s (RFC 9293, 3.8.6.3)",
        )?;
        check(self.ttl != 0, "ttl", "1 to 255 hops")?;
        let (lowest, highest) = self.ephemeral_ports;
        check(
            lowest != 0 && lowest <= highest,
            "ephemeral_ports",
            "1 to 65,535, the first no later than the last",
        )?;
        check(
            self.min_rto <= self.max_rto && self.min_rto <= HIGHEST_FLOOR,
            "min_rto",
            "at most max_rto and 50 s",
        )?;
        check(
            (1..=65_536).contains(&self.device_queue),
            "device_queue",
            "1 to 65,536 frames",
        )
    }

    /// Tells whether `ip` is on the local network.
    pub(crate) fn is_local(&self, ip: Ipv4Addr) -> bool {
        (u32::from(ip) ^ u32::from(self.ip)) & mask(self.prefix_len) == 0
    }

    /// Tells whether `ip` is a broadcast address here.
    pub(crate) fn is_broadcast(&self, ip: Ipv4Addr) -> bool {
        let host = u32::MAX
            .checked_shr(u32::from(self.prefix_len))
            .unwrap_or(0);
        ip.is_broadcast() || (host > 1 && u32::from(ip) == u32::from(self.ip) | host)
    }
}

/// A field of [`Config`] is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidConfig {
    /// Which field.
    pub field: &'static str,
    /// Permitted range of its values.
    pub range: &'static str,
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the configuration's {} must be {}",
            self.field, self.range
        )
    }
}

impl core::error::Error for InvalidConfig {}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(prefix_len: u8) -> Config {
        Config::new(
            MacAddr([2, 0, 0, 0, 0, 1]),
            Ipv4Addr::new(10, 1, 2, 3),
            prefix_len,
            [1, 2, 3, 4],
        )
    }

    #[test]
    fn networks_and_broadcasts() {
        let net = config(24);
        assert!(net.is_local(Ipv4Addr::new(10, 1, 2, 200)));
        assert!(!net.is_local(Ipv4Addr::new(10, 1, 3, 200)));
        assert!(net.is_broadcast(Ipv4Addr::new(10, 1, 2, 255)));
        assert!(!net.is_broadcast(Ipv4Addr::new(10, 1, 3, 255)));
        assert!(config(0).is_local(Ipv4Addr::new(1, 1, 1, 1)));
        assert!(!config(32).is_broadcast(Ipv4Addr::new(10, 1, 2, 3)));
    }

    #[test]
    fn ranges_are_checked_and_named() {
        assert_eq!(config(24).validate(), Ok(()));
        let bad = Config {
            delayed_ack: Duration::from_millis(500),
            ..config(24)
        };
        assert_eq!(bad.validate().unwrap_err().field, "delayed_ack");
        let bad = Config {
            mac: MacAddr::BROADCAST,
            ..config(24)
        };
        assert_eq!(bad.validate().unwrap_err().field, "mac");
    }
}

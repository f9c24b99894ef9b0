//! The mechanisms that can be switched, so that the worth of each is measured: what Clark, Wolman, Kay and Foong disagree about.
//!
//! One macro makes of each line the type, its values' names, and its place in [`Mechanisms`]; command lines, tables and simulations
//! go through [`Mechanisms::SWITCHES`], so a new mechanism needs no other list. The first value is the default.
//!
//! It must never be asked on the predicted path: what that path does is chosen when a stack or a connection is made.

use alloc::format;
use alloc::string::String;
use core::fmt;
use tollgate_checksum::Kernel;

/// A mechanism by name, and the values that it takes; the first is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The name.
    pub name: &'static str,
    /// Its doc comment, in one line.
    pub about: &'static str,
    /// The names of its values.
    pub values: &'static [&'static str],
    /// Their doc comments, value by value.
    pub abouts: &'static [&'static str],
}

impl Switch {
    /// The mechanism and its values as rows of a Markdown table: name, values, what each does.
    pub fn to_markdown(&self) -> String {
        let plain = |text: &str| text.trim().replace("[`", "`").replace("`]", "`");
        let mut rows = format!("| **`{}`** | {} |\n", self.name, plain(self.about));
        for (value, about) in self.values.iter().zip(self.abouts) {
            rows.push_str(&format!("| `{value}` | {} |\n", plain(about)));
        }
        rows
    }
}

/// The name of a mechanism: that of its field, with hyphens.
const fn hyphenated<const N: usize>(field: &str) -> [u8; N] {
    let mut name = [0; N];
    let mut at = 0;
    while at < N {
        let byte = field.as_bytes()[at];
        name[at] = if byte == b'_' { b'-' } else { byte };
        at += 1;
    }
    name
}

macro_rules! mechanisms {
    ($($(#[doc = $doc:literal])+ $field:ident: $kind:ident {
        $($(#[doc = $about:literal])+ $variant:ident = $value:literal,)+
    })+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $kind {
                $($(#[doc = $about])+ $variant,)+
            }

            impl $kind {
                /// The mechanism's name.
                pub const NAME: &'static str = {
                    const FIELD: &str = stringify!($field);
                    const NAME: [u8; FIELD.len()] = hyphenated(FIELD);
                    match str::from_utf8(&NAME) {
                        Ok(name) => name,
                        Err(_) => FIELD,
                    }
                };

                /// The mechanism with its values.
                pub const SWITCH: Switch = Switch {
                    name: Self::NAME,
                    about: concat!($($doc),+),
                    values: &[$($value),+],
                    abouts: &[$(concat!($($about),+)),+],
                };

                /// All values, the default first.
                pub const ALL: &'static [Self] = &[$(Self::$variant),+];

                /// The name of the value.
                pub const fn name(self) -> &'static str {
                    match self {
                        $(Self::$variant => $value,)+
                    }
                }
            }

            impl Default for $kind {
                fn default() -> Self {
                    Self::ALL[0]
                }
            }
        )+

        /// The mechanisms of a stack.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Mechanisms {
            $($(#[doc = $doc])+ pub $field: $kind,)+
        }

        impl Mechanisms {
            /// The default of each, with which commands measure.
            pub const DEFAULT: Self = Self { $($field: $kind::ALL[0],)+ };

            /// Each mechanism with its values.
            pub const SWITCHES: &'static [Switch] = &[
                $($kind::SWITCH,)+
            ];

            /// Sets a mechanism by the name of the value.
            ///
            /// # Errors
            /// [`UnknownSetting`], and nothing is changed.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), UnknownSetting> {
                match name {
                    $($kind::NAME => {
                        let known = $kind::ALL.iter().find(|known| known.name() == value);
                        self.$field = *known.ok_or(UnknownSetting::Value($kind::SWITCH))?;
                        Ok(())
                    })+
                    _ => Err(UnknownSetting::Name),
                }
            }

            /// Each mechanism with its value, by name.
            pub fn settings(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
                [$(($kind::NAME, self.$field.name())),+].into_iter()
            }
        }
    };
}

mechanisms! {
    /// Header prediction on input.
    prediction: Prediction {
        /// Pure acknowledgments, data, data with a new acknowledgment, and window changes are predicted; so are the segments that
        /// open and close a connection in the usual way, and datagrams of UDP.
        Bidirectional = "bidirectional",
        /// Only pure acknowledgments and only data without a new acknowledgment, as in 4.4BSD (Wolman et al. 1994, 3).
        Unidirectional = "unidirectional",
        /// None: every segment goes through the full state machine, every datagram the general way.
        Off = "off",
    }
    /// Demultiplexing: finds the connection of a segment.
    demux: Demux {
        /// The connection of the last segment, then a keyed hash table.
        CacheHash = "cache+hash",
        /// The keyed hash table alone.
        Hash = "hash",
        /// A walk over all connections (the papers' baseline).
        List = "list",
    }
    /// Header templates.
    template: HeaderTemplate {
        /// From the template of the connection, or of a UDP socket's destination: constant bytes and sums prepared.
        On = "on",
        /// Field by field, each checksum summed anew.
        Off = "off",
    }
    /// Computing and verifying the checksums of TCP and IP headers.
    checksum: ChecksumPolicy {
        /// Always.
        Always = "always",
        /// TCP's and UDP's are left out where the link's CRC makes them redundant and, for TCP, the peer agrees (Kay and Pasquale
        /// 1996, VI).
        RedundancyAvoidance = "redundancy-avoidance",
        /// Never: only for measuring what checksums cost, on links that cannot corrupt. The peer must do the same.
        Off = "off",
    }
    /// Copying payload and summing it, on the way out and on the way in.
    checksum_kernel: ChecksumKernel {
        /// In one pass, by the fastest loop of the processor (Wolman et al. 1994, 4.1).
        Integrated = "integrated",
        /// A copy, then the fastest sum of the processor over it.
        Separate = "separate",
        /// A copy, then a sum by 64-bit words, unrolled (the optimised checksum of Wolman et al. 1994, Table 5).
        Unrolled = "unrolled",
        /// A copy, then a sum by 16-bit words (ULTRIX in the same table).
        Halfword = "halfword",
    }
    /// Completing TCP's checksums on the way out, where checksums are always made.
    checksum_offload: ChecksumOffload {
        /// By the link where it can, as tap devices and packet sockets do: payload is copied without a sum.
        On = "on",
        /// By the stack, always.
        Off = "off",
    }
    /// Evidence that a peer is on the same LAN, without which no checksum is left out as redundant.
    lan_evidence: LanEvidence {
        /// Its address is in our subnet, and it is the next hop itself.
        Subnet = "subnet",
        /// Besides, it has announced itself by a unit of the spanning tree protocol (Kay and Pasquale 1996, VI.E). Bridges and
        /// routers do not pass such units on. This host announces itself, too.
        SpanningTree = "spanning-tree",
    }
    /// Data that a retransmission keeps hold of.
    retransmit: RetransmitCopy {
        /// A reference to the frame that was sent.
        Reference = "reference",
        /// The frame; a copy of it is sent (mbuf copy of the papers' baseline).
        Copy = "copy",
    }
    /// Buffers of payload that is to be sent.
    buffers: Buffers {
        /// Frames of the pool, one for each segment.
        Pool = "pool",
        /// Chains of mbufs, small ones of 108 bytes and clusters of 4,096, copied and gathered for each segment (Wolman et al.
        /// 1994, 2.2.1). Messages leave by the general path of output.
        Mbufs = "mbufs",
    }
    /// Timers of connections.
    timers: Timers {
        /// One entry of a timing wheel for each connection, which moves only when it would fire too late.
        LazyWheel = "lazy-wheel",
        /// No entries: all connections are walked every 200 ms for acknowledgments that wait, and every 500 ms for all else. So does
        /// 4.3BSD (tcp_fasttimo, tcp_slowtimo). Timers are as coarse as that.
        List = "list",
    }
    /// Recovery from loss.
    recovery: LossRecovery {
        /// Selective acknowledgments, where the peer takes them, with RACK and proportional rate reduction (RFC 2018, 2883, 6675,
        /// 8985, 9937); NewReno otherwise.
        Sack = "sack",
        /// Three duplicate acknowledgments mean a loss, a partial one the next (RFC 5681, 6582). Selective acknowledgments are
        /// neither offered nor taken.
        NewReno = "newreno",
    }
    /// Tail loss probes (RFC 8985, 7).
    tail_probe: TailProbe {
        /// Sends a segment where nothing is heard for two round trips, so that the peer tells what is missing.
        On = "on",
        /// The end of a flight that is lost is sent again by the retransmission timer.
        Off = "off",
    }
    /// Undo of reductions of the congestion window.
    undo: Undo {
        /// Brings the windows of before back where a timestamp or the peer's report shows that nothing was lost (RFC 3522, 4015, 3708).
        On = "on",
        /// Leaves reduced what was reduced.
        Off = "off",
    }
    /// Delayed acknowledgments (RFC 9293, 3.8.6.3).
    delayed_ack: DelayedAck {
        /// An acknowledgment is sent with data, with the second segment, or when the delay ends.
        On = "on",
        /// Every segment with data is acknowledged at once.
        Off = "off",
    }
    /// Nagle's algorithm (RFC 9293, 3.7.4). Commands measure every path without it by default; [`Mechanisms::HOST`] has it.
    nagle: Nagle {
        /// A partial segment goes at once.
        Off = "off",
        /// A partial segment waits while anything is unacknowledged.
        On = "on",
    }
    /// Receiving: what an application does. The stack cannot force it; workloads obey.
    receive: Receive {
        /// The reader posts its buffer before it polls: data is copied there in the pass that verifies it (Foong et al. 2003, 3.1).
        Posted = "posted",
        /// The reader polls, and reads what has been queued.
        Queued = "queued",
    }
    /// Transmitting: what an application does. The stack cannot force it; workloads obey.
    transmit: Transmit {
        /// The stack copies the application's data.
        Copy = "copy",
        /// The application's data comes to be in buffers of the pool, which are sent as they are.
        ZeroCopy = "zero-copy",
    }
    /// Sizes of the buffers of a connection.
    tuning: Tuning {
        /// They grow with what the connection needs. The receive buffer grows to twice what the application takes in a round trip, the
        /// send buffer to twice the window. All together grow by a quarter of the pool at most.
        On = "on",
        /// They are as configured.
        Off = "off",
    }
    /// Congestion control: how the window grows and what a loss leaves of it.
    congestion: CongestionControl {
        /// CUBIC, which leaves its first slow start by HyStart++ (RFC 9438, RFC 9406).
        Cubic = "cubic",
        /// NewReno, counting bytes (RFC 5681, RFC 6582, RFC 3465).
        NewReno = "newreno",
    }
    /// Pacing: when the segments of a window go.
    pacing: Pacing {
        /// A window above the initial one is spread over the round trip, a millisecond's worth at a time. This needs a round trip of more than
        /// 2 ms, and the timing wheel.
        On = "on",
        /// They go as fast as the link takes them.
        Off = "off",
    }
    /// Explicit congestion notification.
    ecn: Ecn {
        /// It is neither asked for nor agreed on.
        Off = "off",
        /// Connections ask for it and agree on it: routers may mark segments where they would drop them (RFC 3168).
        Classic = "classic",
        /// They ask for feedback that counts the marks, and take classic or none where the peer knows no other (RFC 9768).
        Accurate = "accurate",
    }
    /// The acknowledgment of a peer's FIN that nothing else carries.
    fin: FinAcknowledgment {
        /// In the next turn, unless the application has closed by then and its own FIN carries it.
        Delayed = "delayed",
        /// At once. RFC 9293, 3.8.6.3, allows both.
        AtOnce = "at-once",
    }
    /// Path MTU discovery by probing, beside what routers tell (RFC 4821, RFC 8899).
    mtu_probing: MtuProbing {
        /// Shorter segments where a full one is not acknowledged after three timeouts in a row, and then a search for what the path takes.
        BlackHole = "black-hole",
        /// Nothing is known but what routers tell.
        Off = "off",
        /// Every connection begins with packets of 1,024 bytes, over IPv6 with 1,280, and searches upwards.
        Always = "always",
    }
    /// Segmentation: where a burst of segments is cut up, on links to the kernel. Links between two stacks of ours have nothing to cut.
    segmentation: Segmentation {
        /// In the kernel, if at all: segments go to a tap device and to a packet socket in trains (generic segmentation offload).
        Gso = "gso",
        /// Before the link, which takes every segment alone.
        PerPacket = "per-packet",
    }
}

impl Default for Mechanisms {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl ChecksumKernel {
    /// The kernel that copies and sums, where `best` is the processor's.
    pub fn kernel(self, best: Kernel) -> Kernel {
        match self {
            Self::Integrated => best,
            Self::Separate => best.separate(),
            Self::Unrolled => Kernel::UNROLLED.separate(),
            Self::Halfword => Kernel::HALFWORD.separate(),
        }
    }
}

impl ChecksumPolicy {
    /// Tells whether IP headers have checksums, which are made and verified.
    pub(crate) const fn sums_ip(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Tells whether every segment leaves the template with its checksum.
    pub(crate) const fn sums_in_template(self) -> bool {
        matches!(self, Self::Always)
    }
}

impl Mechanisms {
    /// The mechanisms of a host that nobody measures: [`Mechanisms::DEFAULT`] with Nagle's algorithm (RFC 9293, SHLD-7).
    pub const HOST: Self = Self {
        nagle: Nagle::On,
        ..Self::DEFAULT
    };

    /// The mechanisms whose value is not the default, by name.
    pub fn changed(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        self.changed_from(&Self::DEFAULT)
    }

    /// The mechanisms whose value is another than there, by name.
    pub fn changed_from(
        &self,
        usual: &Self,
    ) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        let pairs = self.settings().zip(usual.settings());
        pairs.filter_map(|(own, usual)| (own != usual).then_some(own))
    }

    /// The defaults with one value changed, for each value of each mechanism, with the names of both.
    ///
    /// ```
    /// # use tollgate_stack::config::{Mechanisms, Prediction};
    /// let (name, value, first) = Mechanisms::each().next().unwrap();
    /// assert_eq!((name, value), ("prediction", "unidirectional"));
    /// assert_eq!(first.prediction, Prediction::Unidirectional);
    /// ```
    pub fn each() -> impl Iterator<Item = (&'static str, &'static str, Self)> {
        let switches = Self::SWITCHES.iter();
        let others = switches.flat_map(|switch| {
            switch
                .values
                .iter()
                .skip(1)
                .map(|value| (switch.name, *value))
        });
        others.filter_map(|(name, value)| {
            let mut changed = Self::DEFAULT;
            changed.set(name, value).ok()?;
            Some((name, value, changed))
        })
    }
}

/// A name or a value that no mechanism has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownSetting {
    /// There is no mechanism of this name.
    Name,
    /// The mechanism has no such value; it has these.
    Value(Switch),
}

impl fmt::Display for UnknownSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, names: &mut dyn Iterator<Item = &'static str>| {
            for (at, name) in names.enumerate() {
                write!(f, "{}{name}", if at == 0 { "" } else { ", " })?;
            }
            Ok(())
        };
        match self {
            Self::Name => {
                f.write_str("unknown mechanism; known: ")?;
                list(
                    f,
                    &mut Mechanisms::SWITCHES.iter().map(|switch| switch.name),
                )
            }
            Self::Value(switch) => {
                write!(f, "unknown value of {}; known: ", switch.name)?;
                list(f, &mut switch.values.iter().copied())
            }
        }
    }
}

impl core::error::Error for UnknownSetting {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn each_value_is_set_by_its_name_and_told_by_it() {
        assert_eq!(Mechanisms::DEFAULT.changed().count(), 0);
        let mut count = 0;
        for (name, value, changed) in Mechanisms::each() {
            let told: Vec<_> = changed.changed().collect();
            assert_eq!(told, [(name, value)]);
            count += 1;
        }
        let values: usize = Mechanisms::SWITCHES
            .iter()
            .map(|switch| switch.values.len())
            .sum();
        assert_eq!(count, values - Mechanisms::SWITCHES.len());
    }

    #[test]
    fn unknown_names_and_values_list_the_known_ones_and_change_nothing() {
        let mut mechanisms = Mechanisms::DEFAULT;
        let value = mechanisms.set("prediction", "on").unwrap_err();
        assert_eq!(
            value.to_string(),
            "unknown value of prediction; known: bidirectional, unidirectional, off"
        );
        let name = mechanisms.set("predict", "off").unwrap_err();
        assert_eq!(
            name.to_string(),
            "unknown mechanism; known: prediction, demux, template, checksum, checksum-kernel, checksum-offload, lan-evidence, retransmit, buffers, timers, recovery, tail-probe, undo, delayed-ack, nagle, \
             receive, transmit, tuning, congestion, pacing, ecn, fin, mtu-probing, segmentation"
        );
        assert_eq!(mechanisms, Mechanisms::DEFAULT);
    }
}

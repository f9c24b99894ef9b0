//! The rules that explain a difference by what the frame itself shows. Each says what both programs do, and why.

use tollgate_trace::capture::LinkType;
use tollgate_trace::decode::Ignored;
use tollgate_trace::rows::Protocol;

use crate::compare::Pair;
use crate::frame::Aspect;
use crate::ours::Fate;
use crate::{ours, theirs};

/// A known difference that is recognised wherever it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    LinkType,
    Encapsulation,
    Tunnel,
    Quoted,
    FirstFragment,
    UdpLength,
    TcpHeader,
    Carried,
    WithoutTime,
    WireLength,
    Pseudoheader,
    NoPacket,
    Resync,
}

impl Rule {
    pub const fn name(self) -> &'static str {
        match self {
            Self::LinkType => "link-type",
            Self::Encapsulation => "encapsulation",
            Self::Tunnel => "tunnel",
            Self::Quoted => "quoted",
            Self::FirstFragment => "first-fragment",
            Self::UdpLength => "udp-length",
            Self::TcpHeader => "tcp-header",
            Self::Carried => "carried",
            Self::WithoutTime => "without-time",
            Self::WireLength => "wire-length",
            Self::Pseudoheader => "pseudoheader",
            Self::NoPacket => "no-packet",
            Self::Resync => "resync",
        }
    }

    pub const fn text(self) -> &'static str {
        match self {
            Self::LinkType => {
                "link type 6, 9, 10, 104, 178, 239 or 242 is not read; the importer counts its packets"
            }
            Self::Encapsulation => {
                "IP lies behind a header that is not read: PPPoE, MPLS, NSH, MACsec or CFP"
            }
            Self::Tunnel => {
                "tshark also looks into the tunnel; the reader counts the outer datagram"
            }
            Self::Quoted => {
                "tshark shows the datagram that an ICMP error quotes; nobody sent that one here"
            }
            Self::FirstFragment => {
                "tshark shows the ports of a first fragment whose datagram is not whole"
            }
            Self::UdpLength => {
                "the UDP length contradicts the IP length; the reader counts it as malformed"
            }
            Self::TcpHeader => {
                "the TCP header is shorter than 20 bytes or longer than its segment; malformed"
            }
            Self::Carried => {
                "the fraction is a second or more: the reader carries it, tshark keeps its low 32 bits"
            }
            Self::WithoutTime => {
                "a simple packet block has no time; the reader gives it that of the packet before"
            }
            Self::WireLength => {
                "fewer bytes on the wire than captured; the reader takes the captured ones for both"
            }
            Self::Pseudoheader => {
                "tshark takes the 4 bytes of the SunATM header for none of the packet's"
            }
            Self::NoPacket => "tshark numbers a custom block, which is no packet",
            Self::Resync => {
                "a record contradicts itself; the reader looks for the next that fits, tshark believes it"
            }
        }
    }
}

/// Headers in front of IP that the reader does not read.
const ENCAPSULATIONS: [&str; 5] = ["pppoes", "mpls", "nsh", "macsec", "cfp"];
/// Bytes of a UDP header, and the least of a TCP header.
const UDP_HEADER: i64 = 8;
const TCP_HEADER: u32 = 20;
/// Link types that are not read: Token Ring, PPP, FDDI, Cisco HDLC, Juniper Ethernet, NFLOG, IP over InfiniBand.
const LINK_TYPES: [u16; 7] = [6, 9, 10, 104, 178, 239, 242];
const SUN_ATM: LinkType = LinkType::Other(123);

/// The rule that explains a difference of this aspect.
pub fn of(aspect: Aspect, pair: &Pair<'_>) -> Option<Rule> {
    match aspect {
        Aspect::Missing => missing(pair),
        Aspect::Time => time(pair),
        Aspect::Length => length(pair),
        _ => None,
    }
}

fn missing(pair: &Pair<'_>) -> Option<Rule> {
    let (mine, details) = (pair.our_details, pair.their_details);
    let has =
        |names: &[String], wanted: &[&str]| names.iter().any(|it| wanted.contains(&it.as_str()));
    let carried = details.carried();
    match mine.fate {
        Fate::Ignored(Ignored::LinkType(LinkType::Other(number))) => {
            LINK_TYPES.contains(&number).then_some(Rule::LinkType)
        }
        Fate::Ignored(Ignored::NotIp) => {
            has(details.in_front(), &ENCAPSULATIONS).then_some(Rule::Encapsulation)
        }
        Fate::Ignored(Ignored::Protocol) => {
            let is_icmp = has(carried.get(..1)?, &["icmp", "icmpv6"]);
            let rule = if is_icmp { Rule::Quoted } else { Rule::Tunnel };
            has(carried, &["ip", "ipv6"]).then_some(rule)
        }
        _ if is_short_tcp(pair) => Some(Rule::TcpHeader),
        Fate::Ignored(Ignored::Malformed) if is_odd_udp(pair) => Some(Rule::UdpLength),
        Fate::Fragment if details.is_first_fragment => Some(Rule::FirstFragment),
        _ => None,
    }
}

/// Tells whether a TCP header has an impossible length.
fn is_short_tcp(pair: &Pair<'_>) -> bool {
    let theirs = pair.theirs.transport.as_ref();
    let is_tcp = theirs.is_some_and(|it| it.protocol == Protocol::Tcp);
    let payload = match pair.our_details.fate {
        Fate::Fragment => None,
        _ => pair.our_details.payload,
    };
    let is_impossible =
        |header: u32| header < TCP_HEADER || payload.is_some_and(|(on_wire, _)| header > on_wire);
    is_tcp && pair.their_details.tcp_header.is_some_and(is_impossible)
}

/// Tells whether a UDP length is less than its header's, or more than the datagram has.
fn is_odd_udp(pair: &Pair<'_>) -> bool {
    let theirs = pair.theirs.transport.as_ref();
    let Some((size, (on_wire, _))) = theirs
        .filter(|it| it.protocol == Protocol::Udp)
        .and_then(|it| it.size)
        .zip(pair.our_details.payload)
    else {
        return false;
    };
    size < 0 || size + UDP_HEADER > on_wire.into()
}

fn time(pair: &Pair<'_>) -> Option<Rule> {
    match pair.their_details.printed_time {
        None => Some(Rule::WithoutTime),
        printed => is_carried(pair.ours.time_ns, printed).then_some(Rule::Carried),
    }
}

/// Tells whether one time has the fraction carried into the seconds, and the other has it in 32 bits with a sign, of which
/// nothing was carried.
pub fn is_carried(ours: Option<i64>, printed: Option<(i64, i64)>) -> bool {
    let Some((ours, (seconds, fraction))) = ours.zip(printed) else {
        return false;
    };
    let whole = seconds.abs().checked_mul(1_000_000_000);
    let Some(rest) = whole.and_then(|whole| ours.checked_sub(whole)) else {
        return false;
    };
    rest >= 1_000_000_000 && i64::from(rest as i32) == fraction
}

fn length(pair: &Pair<'_>) -> Option<Rule> {
    let lengths = |frame: &crate::frame::Frame| (frame.wire_len, frame.captured);
    let (ours, theirs) = (lengths(pair.ours), lengths(pair.theirs));
    let is_less = ours.1 == theirs.1 && theirs.0 < theirs.1 && ours.0 == ours.1;
    let is_atm = pair.our_details.link == SUN_ATM && ours == (theirs.0 + 4, theirs.1 + 4);
    match (is_less, is_atm) {
        (true, _) => Some(Rule::WireLength),
        (_, true) => Some(Rule::Pseudoheader),
        _ => None,
    }
}

/// The rule that explains a frame that only tshark has.
pub fn only_theirs(ours: &ours::Read, theirs: &theirs::Read, at: usize) -> Option<Rule> {
    if !theirs.frames[at].1.is_packet {
        return Some(Rule::NoPacket);
    }
    (ours.damage.places > 0).then_some(Rule::Resync)
}

/// The rule that explains a frame that only the reader has.
pub fn only_ours(theirs: &theirs::Read) -> Option<Rule> {
    let is_damage = |complaint: &String| complaint.contains("damaged or corrupt");
    theirs
        .stopped
        .as_ref()
        .filter(|it| is_damage(it))
        .map(|_| Rule::Resync)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Rule; 13] = [
        Rule::LinkType,
        Rule::Encapsulation,
        Rule::Tunnel,
        Rule::Quoted,
        Rule::FirstFragment,
        Rule::UdpLength,
        Rule::TcpHeader,
        Rule::Carried,
        Rule::WithoutTime,
        Rule::WireLength,
        Rule::Pseudoheader,
        Rule::NoPacket,
        Rule::Resync,
    ];

    #[test]
    fn fraction_of_a_second_or_more_is_carried_by_one_program() {
        // 808,464,432 s and 808,464,432 us, of which tshark keeps the low 32 bits of the nanoseconds.
        let fraction = i64::from((808_464_432_i64 * 1_000) as i32);
        let ours = 808_464_432 * 1_000_000_000 + 808_464_432_000;
        assert!(is_carried(Some(ours), Some((808_464_432, fraction))));
        assert!(!is_carried(Some(ours), Some((808_464_432, fraction + 1))));
        assert!(!is_carried(Some(1_500_000_000), Some((1, 500_000_000))));
        assert!(!is_carried(None, Some((1, 0))));
    }

    #[test]
    fn rules_have_distinct_names() {
        let mut names: Vec<_> = ALL.iter().map(|rule| rule.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}

//! Filters in the syntax of pcap-filter(7), as far as it speaks of connections: `host`, `net`, `port`, `portrange`,
//! `src`, `dst`, `tcp`, `udp`, `ip`, `ip6`, `and`, `or`, `not` and parentheses.
//!
//! An unknown word is refused by name and column; the parser never passes or drops traffic by a filter that it did
//! not understand. In pcap-filter and here, `and` and `or` bind alike and from the left, and `not` binds to the
//! primitive behind it. A number without a word before it is refused.

pub mod classic;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const AND: u32 = 0;
const OR: u32 = 1;
const NOT: u32 = 2;
const FAMILY: u32 = 3;
const ADDRESS: u32 = 4;
const PORT: u32 = 5;
const CONSTANT: u32 = 6;

/// A connection in one direction. An IPv4 address is the first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct Flow {
    /// Source port above destination port.
    pub ports: u32,
    /// 4 or 6.
    pub family: u32,
    /// Network namespace that its bytes are sent in, as the number of its file; 0 where that does not matter.
    pub net: u32,
    /// In the order of the wire.
    pub source: [[u8; 4]; 4],
    /// In the order of the wire.
    pub destination: [[u8; 4]; 4],
}

impl Flow {
    /// The other direction, whose bytes are sent in this network namespace.
    pub const fn turned(&self, net: u32) -> Self {
        Self {
            ports: self.ports.rotate_left(16),
            family: self.family,
            net,
            source: self.destination,
            destination: self.source,
        }
    }

    fn end(&self, words: [[u8; 4]; 4], port: u32) -> String {
        let address: IpAddr = if self.family == 6 {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(words.as_flattened());
            Ipv6Addr::from(bytes).into()
        } else {
            Ipv4Addr::from(words[0]).into()
        };
        SocketAddr::new(address, port as u16).to_string()
    }

    /// Its source, as ADDRESS:PORT.
    pub fn from(&self) -> String {
        self.end(self.source, self.ports >> 16)
    }

    /// Its destination, as ADDRESS:PORT.
    pub fn to(&self) -> String {
        self.end(self.destination, self.ports & 0xffff)
    }
}

/// An operation of a filter; as the programs run it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Operation {
    /// The operation.
    pub what: u32,
    /// 1 is the source, 2 the destination, 3 either.
    pub sides: u32,
    /// The least port, the family, or the truth of a constant.
    pub low: u32,
    /// The greatest port.
    pub high: u32,
    /// The address.
    pub address: [[u8; 4]; 4],
    /// The bits of it that count.
    pub mask: [[u8; 4]; 4],
}

/// End of a message that a primitive refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The source.
    Source,
    /// The destination.
    Destination,
    /// One of both.
    Either,
}

impl Side {
    const fn bits(self) -> u32 {
        match self {
            Self::Source => 1,
            Self::Destination => 2,
            Self::Either => 3,
        }
    }
}

/// Traffic that a filter passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Addresses whose first so many bits are these.
    Net(Side, IpAddr, u8),
    /// Ports from the first to the last, both included.
    Ports(Side, u16, u16),
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// TCP: of connections, all.
    Tcp,
    /// UDP: of connections, none.
    Udp,
    /// Traffic that the other does not pass.
    Not(Box<Self>),
    /// Traffic that both pass.
    And(Box<Self>, Box<Self>),
    /// Traffic that at least one of them passes.
    Or(Box<Self>, Box<Self>),
}

/// The reason why a filter is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {reason}")]
pub struct FilterError {
    /// The place, counted from 1 in characters.
    pub column: usize,
    /// The fault there.
    pub reason: String,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// [`FilterError`] with the column of the first thing that is not understood.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
            end: text.chars().count() + 1,
            depth: 0,
        };
        let filter = parser.expression()?;
        match parser.tokens.get(parser.at) {
            None => Ok(filter),
            Some((column, ")")) => Err(error(*column, "there is no ( for this )")),
            Some((column, word)) => Err(error(
                *column,
                format!(
                    "`{word}` was not expected; and, or or the end of the filter may stand here"
                ),
            )),
        }
    }

    /// Tells whether a connection passes.
    pub fn passes(&self, flow: &Flow) -> bool {
        let side = |side: Side, test: &dyn Fn(bool) -> bool| {
            (side.bits() & 1 != 0 && test(true)) || (side.bits() & 2 != 0 && test(false))
        };
        match self {
            Self::Net(ends, net, bits) => {
                let (family, address) = words_of(*net);
                let mask = mask(*bits);
                flow.family == family
                    && side(*ends, &|source| {
                        let is = if source {
                            flow.source
                        } else {
                            flow.destination
                        };
                        (0..16).all(|at| {
                            (is[at / 4][at % 4] ^ address[at / 4][at % 4]) & mask[at / 4][at % 4]
                                == 0
                        })
                    })
            }
            Self::Ports(ends, first, last) => side(*ends, &|source| {
                let port = if source {
                    flow.ports >> 16
                } else {
                    flow.ports & 0xffff
                };
                (u32::from(*first)..=u32::from(*last)).contains(&port)
            }),
            Self::Ip => flow.family == 4,
            Self::Ip6 => flow.family == 6,
            Self::Tcp => true,
            Self::Udp => false,
            Self::Not(one) => !one.passes(flow),
            Self::And(one, other) => one.passes(flow) && other.passes(flow),
            Self::Or(one, other) => one.passes(flow) || other.passes(flow),
        }
    }

    /// The operations in reverse Polish notation, as the programs take them.
    pub fn operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        self.emit(&mut operations);
        operations
    }

    fn emit(&self, operations: &mut Vec<Operation>) {
        let what = |what| Operation {
            what,
            ..Operation::default()
        };
        let operation = match self {
            Self::Net(side, net, bits) => {
                let (family, address) = words_of(*net);
                Operation {
                    sides: side.bits(),
                    low: family,
                    address,
                    mask: mask(*bits),
                    ..what(ADDRESS)
                }
            }
            Self::Ports(side, first, last) => Operation {
                sides: side.bits(),
                low: (*first).into(),
                high: (*last).into(),
                ..what(PORT)
            },
            Self::Ip => Operation {
                low: 4,
                ..what(FAMILY)
            },
            Self::Ip6 => Operation {
                low: 6,
                ..what(FAMILY)
            },
            Self::Tcp => Operation {
                low: 1,
                ..what(CONSTANT)
            },
            Self::Udp => what(CONSTANT),
            Self::Not(one) => {
                one.emit(operations);
                what(NOT)
            }
            Self::And(one, other) | Self::Or(one, other) => {
                one.emit(operations);
                other.emit(operations);
                what(if matches!(self, Self::And(..)) {
                    AND
                } else {
                    OR
                })
            }
        };
        operations.push(operation);
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "src ",
            Self::Destination => "dst ",
            Self::Either => "",
        })
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(side, net, bits) => write!(f, "{side}net {net}/{bits}"),
            Self::Ports(side, first, last) => write!(f, "{side}portrange {first}-{last}"),
            Self::Ip => f.write_str("ip"),
            Self::Ip6 => f.write_str("ip6"),
            Self::Tcp => f.write_str("tcp"),
            Self::Udp => f.write_str("udp"),
            Self::Not(one) => write!(f, "not ({one})"),
            Self::And(one, other) => write!(f, "({one}) and ({other})"),
            Self::Or(one, other) => write!(f, "({one}) or ({other})"),
        }
    }
}

fn words_of(address: IpAddr) -> (u32, [[u8; 4]; 4]) {
    let mut words = [[0; 4]; 4];
    match address {
        IpAddr::V4(address) => {
            words[0] = address.octets();
            (4, words)
        }
        IpAddr::V6(address) => {
            for (at, byte) in address.octets().into_iter().enumerate() {
                words[at / 4][at % 4] = byte;
            }
            (6, words)
        }
    }
}

fn mask(bits: u8) -> [[u8; 4]; 4] {
    let whole = u128::MAX
        .checked_shl(128 - u32::from(bits.min(128)))
        .unwrap_or(0)
        .to_be_bytes();
    std::array::from_fn(|word| std::array::from_fn(|at| whole[word * 4 + at]))
}

fn error(column: usize, reason: impl Into<String>) -> FilterError {
    FilterError {
        column,
        reason: reason.into(),
    }
}

/// The words with their columns; parentheses and `!` are words of their own, `&&` and `||` too.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut chars = text.char_indices().enumerate().peekable();
    while let Some((column, (from, first))) = chars.next() {
        if first.is_whitespace() {
            continue;
        }
        let mut to = from + first.len_utf8();
        let alone = |c: char| matches!(c, '(' | ')' | '!');
        if !alone(first) {
            while let Some((_, (at, c))) = chars.peek().copied() {
                if c.is_whitespace() || alone(c) {
                    break;
                }
                to = at + c.len_utf8();
                chars.next();
            }
        }
        words.push((column + 1, &text[from..to]));
    }
    words
}

/// Parentheses and negations inside each other, at most.
const DEPTH: usize = 32;

struct Parser<'a> {
    tokens: Vec<(usize, &'a str)>,
    at: usize,
    end: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|(_, word)| *word)
    }

    fn next(&mut self, wanted: &str) -> Result<(usize, &'a str), FilterError> {
        let word = self.tokens.get(self.at).copied();
        self.at += 1;
        word.ok_or_else(|| error(self.end, format!("{wanted} is missing")))
    }

    fn expression(&mut self) -> Result<Filter, FilterError> {
        let mut filter = self.primitive()?;
        loop {
            let and = match self.peek() {
                Some("and" | "&&") => true,
                Some("or" | "||") => false,
                _ => return Ok(filter),
            };
            self.at += 1;
            let (one, other) = (Box::new(filter), Box::new(self.primitive()?));
            filter = if and {
                Filter::And(one, other)
            } else {
                Filter::Or(one, other)
            };
        }
    }

    fn deeper<T>(
        &mut self,
        column: usize,
        inside: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        if self.depth == DEPTH {
            return Err(error(
                column,
                format!("more than {DEPTH} parentheses or negations inside each other"),
            ));
        }
        self.depth += 1;
        let outcome = inside(self);
        self.depth -= 1;
        outcome
    }

    fn primitive(&mut self) -> Result<Filter, FilterError> {
        let (column, word) = self.next("a condition (host, net, port, tcp, ip ..)")?;
        match word {
            "(" => {
                let filter = self.deeper(column, Self::expression)?;
                match self.next("the ) for the ( before it")? {
                    (_, ")") => Ok(filter),
                    (column, word) => Err(error(
                        column,
                        format!("`{word}` stands where a ) was expected"),
                    )),
                }
            }
            "not" | "!" => {
                let filter = self.deeper(column, Self::primitive)?;
                Ok(Filter::Not(Box::new(filter)))
            }
            "src" => {
                // `src or dst port 80` and `src and dst` are pcap-filter's, too; the first is what no side means.
                if let (Some("or"), Some((_, "dst"))) = (self.peek(), self.tokens.get(self.at + 1))
                {
                    self.at += 2;
                    return self.sided(Side::Either);
                }
                self.sided(Side::Source)
            }
            "dst" => self.sided(Side::Destination),
            "host" | "net" | "port" | "portrange" => {
                self.at -= 1;
                self.sided(Side::Either)
            }
            "ip" | "ip6" | "tcp" | "udp" => {
                let filter = match word {
                    "ip" => Filter::Ip,
                    "ip6" => Filter::Ip6,
                    "tcp" => Filter::Tcp,
                    _ => Filter::Udp,
                };
                // `tcp port 80`, `ip host 10.0.0.1`: both.
                if matches!(
                    self.peek(),
                    Some("src" | "dst" | "host" | "net" | "port" | "portrange")
                ) {
                    let other = self.primitive()?;
                    return Ok(Filter::And(Box::new(filter), Box::new(other)));
                }
                Ok(filter)
            }
            "and" | "or" | "&&" | "||" => Err(error(
                column,
                format!("a condition is missing before `{word}`"),
            )),
            ")" => Err(error(column, "a condition is missing before this )")),
            _ => Err(error(
                column,
                format!(
                    "`{word}` is not known here; known are host, net, port, portrange, src, dst, tcp, udp, ip, ip6, and, or, not"
                ),
            )),
        }
    }

    /// Parses the word that stands behind `src`, `dst` or nothing.
    fn sided(&mut self, side: Side) -> Result<Filter, FilterError> {
        let (column, word) = self.next("host, net, port or portrange")?;
        match word {
            "host" => {
                let (column, text) = self.next("an address")?;
                let address = address(column, text)?;
                Ok(Filter::Net(side, address, most(address)))
            }
            "net" => {
                let (column, text) = self.next("a network as ADDRESS/BITS")?;
                let (number, bits) = text.split_once('/').unwrap_or((text, ""));
                let address = address(column, number)?;
                let bits = match bits {
                    "" if !text.contains('/') => most(address),
                    bits => bits
                        .parse()
                        .ok()
                        .filter(|&bits| bits <= most(address))
                        .ok_or_else(|| {
                            error(
                                column + number.chars().count() + 1,
                                format!(
                                    "`{bits}` is no length of a prefix; 0 to {}",
                                    most(address)
                                ),
                            )
                        })?,
                };
                Ok(Filter::Net(side, address, bits))
            }
            "port" => {
                let (column, text) = self.next("a port")?;
                let port = port(column, text)?;
                Ok(Filter::Ports(side, port, port))
            }
            "portrange" => {
                let (column, text) = self.next("ports as FIRST-LAST")?;
                let (first, last) = text.split_once('-').ok_or_else(|| {
                    error(
                        column,
                        format!("`{text}` is no range of ports; write it as FIRST-LAST"),
                    )
                })?;
                let (first, last) = (
                    port(column, first)?,
                    port(column + first.chars().count() + 1, last)?,
                );
                if first > last {
                    return Err(error(
                        column,
                        format!("the range {first}-{last} holds no port"),
                    ));
                }
                Ok(Filter::Ports(side, first, last))
            }
            _ if address(column, word).is_ok() => {
                let address = address(column, word)?;
                Ok(Filter::Net(side, address, most(address)))
            }
            _ => Err(error(
                column,
                format!("`{word}` stands where host, net, port or portrange was expected"),
            )),
        }
    }
}

const fn most(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn address(column: usize, text: &str) -> Result<IpAddr, FilterError> {
    text.parse().map_err(|_| {
        error(
            column,
            format!("`{text}` is no address; names are not looked up, so that no packet is sent"),
        )
    })
}

fn port(column: usize, text: &str) -> Result<u16, FilterError> {
    text.parse().map_err(|_| {
        error(
            column,
            format!("`{text}` is no port; a port is a number from 0 to 65535"),
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flow(source: &str, destination: &str, from: u16, to: u16) -> Flow {
        let (family, source) = words_of(source.parse().unwrap());
        let (_, destination) = words_of(destination.parse().unwrap());
        Flow {
            ports: u32::from(from) << 16 | u32::from(to),
            family,
            net: 0,
            source,
            destination,
        }
    }

    fn passes(filter: &str, flow: &Flow) -> bool {
        Filter::parse(filter).unwrap().passes(flow)
    }

    #[test]
    fn primitives_pass_what_pcap_filter_says() {
        let web = flow("10.1.2.3", "192.0.2.7", 40_000, 80);
        for filter in [
            "port 80",
            "tcp port 80",
            "dst port 80",
            "src or dst port 80",
            "host 10.1.2.3",
            "src 10.1.2.3",
            "src net 10.0.0.0/8",
            "ip",
            "tcp",
            "not udp",
            "!udp",
            "portrange 79-81",
            "ip and not (port 22 or port 443)",
            "dst host 192.0.2.7 && src port 40000",
            "net 0.0.0.0/0",
        ] {
            assert!(passes(filter, &web), "{filter}");
        }
        for filter in [
            "port 81",
            "src port 80",
            "dst host 10.1.2.3",
            "udp",
            "ip6",
            "net 10.2.0.0/16",
            "net ::/0",
            "not ip",
        ] {
            assert!(!passes(filter, &web), "{filter}");
        }
        let six = flow("2001:db8::1", "2001:db8:1::2", 1, 2);
        assert!(passes(
            "ip6 and src net 2001:db8::/32 and dst host 2001:db8:1::2",
            &six
        ));
        assert!(!passes("net 2001:db8:2::/48", &six));
    }

    #[test]
    fn and_and_or_bind_alike_from_the_left() {
        let flow = flow("10.0.0.1", "10.0.0.2", 1, 2);
        // ((tcp or udp) and udp), not (tcp or (udp and udp)).
        assert!(!passes("tcp or udp and udp", &flow));
        assert!(passes("tcp or (udp and udp)", &flow));
        assert!(passes("not udp and tcp", &flow));
    }

    #[test]
    fn errors_name_the_column_and_what_stands_there() {
        for (filter, column, says) in [
            ("", 1, "missing"),
            ("tcp and", 8, "missing"),
            ("tcp port", 9, "a port is missing"),
            ("tcp port http", 10, "`http` is no port"),
            ("host example.org", 6, "not looked up"),
            ("net 10.0.0.0/33", 14, "`33` is no length"),
            ("tcp[13] & 2 != 0", 1, "`tcp[13]` is not known"),
            ("vlan 4", 1, "`vlan`"),
            ("(tcp", 5, ") for the ("),
            ("tcp)", 4, "no ("),
            ("tcp tcp", 5, "not expected"),
            ("or tcp", 1, "missing before `or`"),
            ("portrange 9-3", 11, "no port"),
            ("ä ö", 1, "`ä`"),
        ] {
            let error = Filter::parse(filter).unwrap_err();
            assert_eq!(error.column, column, "{filter}: {error}");
            assert!(error.reason.contains(says), "{filter}: {error}");
        }
        assert!(Filter::parse(&"(".repeat(100_000)).is_err());
        assert!(Filter::parse(&"! ".repeat(100_000)).is_err());
    }

    pub(super) fn any_filter() -> impl Strategy<Value = Filter> {
        let side = prop_oneof![
            Just(Side::Source),
            Just(Side::Destination),
            Just(Side::Either)
        ];
        let leaf =
            prop_oneof![
                (side.clone(), any::<[u8; 4]>(), 0..=32_u8)
                    .prop_map(|(side, net, bits)| Filter::Net(side, net.into(), bits)),
                (side.clone(), any::<[u8; 16]>(), 0..=128_u8)
                    .prop_map(|(side, net, bits)| Filter::Net(side, net.into(), bits)),
                (side, any::<(u16, u16)>()).prop_map(|(side, (a, b))| Filter::Ports(
                    side,
                    a.min(b),
                    a.max(b)
                )),
                Just(Filter::Ip),
                Just(Filter::Ip6),
                Just(Filter::Tcp),
                Just(Filter::Udp),
            ];
        leaf.prop_recursive(4, 24, 2, |inner| {
            prop_oneof![
                inner.clone().prop_map(|one| Filter::Not(Box::new(one))),
                (inner.clone(), inner.clone())
                    .prop_map(|(a, b)| Filter::And(Box::new(a), Box::new(b))),
                (inner.clone(), inner).prop_map(|(a, b)| Filter::Or(Box::new(a), Box::new(b))),
            ]
        })
    }

    /// Runs the operations as the programs do.
    fn run(operations: &[Operation], flow: &Flow) -> bool {
        let mut stack: u64 = 0;
        for operation in operations {
            let sides = |test: &dyn Fn(bool) -> bool| {
                u64::from(
                    (operation.sides & 1 != 0 && test(true))
                        || (operation.sides & 2 != 0 && test(false)),
                )
            };
            let push = |bit: u64| stack << 1 | bit;
            stack = match operation.what {
                AND => stack >> 1 & (stack | !1),
                OR => stack >> 1 | (stack & 1),
                NOT => stack ^ 1,
                FAMILY => push((flow.family == operation.low).into()),
                ADDRESS => push(if flow.family == operation.low {
                    sides(&|source| {
                        let is = if source {
                            flow.source
                        } else {
                            flow.destination
                        };
                        (0..4).all(|word| {
                            let word = |of: [[u8; 4]; 4]| u32::from_ne_bytes(of[word]);
                            (word(is) ^ word(operation.address)) & word(operation.mask) == 0
                        })
                    })
                } else {
                    0
                }),
                PORT => push(sides(&|source| {
                    let port = if source {
                        flow.ports >> 16
                    } else {
                        flow.ports & 0xffff
                    };
                    (operation.low..=operation.high).contains(&port)
                })),
                _ => push(operation.low.into()),
            };
        }
        stack & 1 == 1
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(filter in any_filter()) {
            prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
        }

        #[test]
        fn operations_pass_what_the_filter_passes(
            filter in any_filter(), four in any::<bool>(), source in any::<[u8; 16]>(), destination in any::<[u8; 16]>(), ports in any::<u32>(),
        ) {
            let words = |bytes: [u8; 16]| {
                let mut words: [[u8; 4]; 4] = std::array::from_fn(|word| std::array::from_fn(|at| bytes[word * 4 + at]));
                if four { words[1..].fill([0; 4]); }
                words
            };
            let flow = Flow { ports, family: if four { 4 } else { 6 }, net: 0, source: words(source), destination: words(destination) };
            prop_assert_eq!(run(&filter.operations(), &flow), filter.passes(&flow));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}") {
            if let Err(error) = Filter::parse(&text) {
                prop_assert!((1..=text.chars().count() + 1).contains(&error.column));
            }
        }

        #[test]
        fn no_row_of_words_makes_it_panic(words in proptest::collection::vec(
            proptest::sample::select(vec!["host", "net", "port", "src", "dst", "or", "and", "not", "(", ")", "!", "10.0.0.0/8", "::1", "80", "1-2", "portrange", "tcp"]), 0..12))
        {
            let _ = Filter::parse(&words.join(" "));
        }
    }
}

//! Messages of DHCP: reading a server's and writing a client's (RFC 2131, 2; RFC 2132; RFC 3396; RFC 3442).
//!
//! A server's message is hostile until it is read: a message is refused whole when an option's length is wrong, and
//! everything that is kept of it has a bound. This module must never keep state.

use crate::addresses::Route;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use tollgate_wire::Malformed;
use tollgate_wire::ethernet::MacAddr;

/// Bytes before the options, magic cookie included (RFC 2131, 2).
pub(super) const FIXED: usize = 240;
/// RFC 2131, 3: the first four bytes of the options.
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Bytes of the shortest message that we send: old relays drop shorter ones (RFC 1542, 2.1).
const SHORTEST: usize = 300;
/// Bytes of the longest message that we ask for: that which every host takes (RFC 2131, 2).
const LONGEST: u16 = 576;
/// Classless routes that are kept of a message; the ones behind them are left out.
pub const MAX_ROUTES: usize = 64;
/// Name servers that are kept of a message; the ones behind them are left out.
pub const MAX_NAME_SERVERS: usize = 8;

/// Codes of options (RFC 2132; 121: RFC 3442).
mod code {
    pub(super) const PAD: u8 = 0;
    pub(super) const SUBNET_MASK: u8 = 1;
    pub(super) const ROUTER: u8 = 3;
    pub(super) const NAME_SERVERS: u8 = 6;
    pub(super) const MTU: u8 = 26;
    pub(super) const REQUESTED: u8 = 50;
    pub(super) const LEASE_TIME: u8 = 51;
    pub(super) const OVERLOAD: u8 = 52;
    pub(super) const MESSAGE_TYPE: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const PARAMETERS: u8 = 55;
    pub(super) const MAX_SIZE: u8 = 57;
    pub(super) const RENEWAL: u8 = 58;
    pub(super) const REBINDING: u8 = 59;
    pub(super) const CLIENT_ID: u8 = 61;
    pub(super) const CLASSLESS_ROUTES: u8 = 121;
    pub(super) const END: u8 = 255;
}

/// Types of the messages that a server sends (RFC 2132, 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// DHCPOFFER.
    Offer,
    /// DHCPACK.
    Ack,
    /// DHCPNAK.
    Nak,
}

/// Types of the messages that a client sends (RFC 2132, 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Discover = 1,
    Request = 3,
    Decline = 4,
    Release = 7,
}

/// A message of a server. Times are in seconds; 2^32 - 1 is without end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Type.
    pub kind: Kind,
    /// The transaction that it belongs to.
    pub xid: u32,
    /// The link address of the client that it is for.
    pub client: MacAddr,
    /// The client's identifier, if the server repeats it (RFC 6842).
    pub client_id: Option<Vec<u8>>,
    /// The client's address.
    pub address: Ipv4Addr,
    /// The server, by its identifier.
    pub server: Option<Ipv4Addr>,
    /// Bits of the subnet mask.
    pub prefix_len: Option<u8>,
    /// The first router.
    pub router: Option<Ipv4Addr>,
    /// Classless routes; routers do not count where there are such (RFC 3442), even where none is left.
    pub routes: Option<Vec<Route>>,
    /// Name servers.
    pub name_servers: Vec<Ipv4Addr>,
    /// The MTU, in bytes.
    pub mtu: Option<u16>,
    /// The lease's length.
    pub lease: Option<u32>,
    /// T1, when renewing begins.
    pub renewal: Option<u32>,
    /// T2, when rebinding begins.
    pub rebinding: Option<u32>,
}

/// The bytes of each option, pieces of one code joined in order (RFC 3396, 7).
struct Gathered {
    options: Vec<(u8, Vec<u8>)>,
}

impl Gathered {
    /// Adds the options of one field of the message.
    fn read(&mut self, mut field: &[u8]) -> Result<(), Malformed> {
        loop {
            match field {
                // Not every server ends its options; a field may also end with its last one.
                [] | [code::END, ..] => return Ok(()),
                [code::PAD, rest @ ..] => field = rest,
                [code, len, rest @ ..] => {
                    let (value, rest) = rest
                        .split_at_checked(usize::from(*len))
                        .ok_or(Malformed::Option)?;
                    match self.options.iter_mut().find(|(known, _)| known == code) {
                        Some((_, bytes)) => bytes.extend_from_slice(value),
                        None => self.options.push((*code, value.to_vec())),
                    }
                    field = rest;
                }
                [_] => return Err(Malformed::Option),
            }
        }
    }

    fn get(&self, code: u8) -> Option<&[u8]> {
        let found = self.options.iter().find(|(known, _)| *known == code);
        found.map(|(_, bytes)| &bytes[..])
    }

    /// An option of `N` bytes.
    fn array<const N: usize>(&self, code: u8) -> Result<Option<[u8; N]>, Malformed> {
        let Some(bytes) = self.get(code) else {
            return Ok(None);
        };
        bytes.try_into().map(Some).map_err(|_| Malformed::Option)
    }

    fn word(&self, code: u8) -> Result<Option<u32>, Malformed> {
        Ok(self.array(code)?.map(u32::from_be_bytes))
    }

    /// A list of addresses, at least one.
    fn addresses(&self, code: u8) -> Result<Vec<Ipv4Addr>, Malformed> {
        let Some(bytes) = self.get(code) else {
            return Ok(Vec::new());
        };
        match bytes.as_chunks::<4>() {
            (chunks @ [_, ..], []) => Ok(chunks.iter().map(|&chunk| chunk.into()).collect()),
            _ => Err(Malformed::Option),
        }
    }
}

/// Reads the routes of RFC 3442: the bits of a prefix, as many bytes as these take, and a router.
fn classless_routes(mut bytes: &[u8]) -> Result<Vec<Route>, Malformed> {
    let mut routes = Vec::new();
    while let [prefix_len, rest @ ..] = bytes {
        if *prefix_len > 32 {
            return Err(Malformed::Option);
        }
        let (network, rest) = rest
            .split_at_checked(usize::from(prefix_len.div_ceil(8)))
            .ok_or(Malformed::Option)?;
        let (gateway, rest) = rest.split_first_chunk::<4>().ok_or(Malformed::Option)?;
        let mut destination = [0; 4];
        destination[..network.len()].copy_from_slice(network);
        // RFC 3442: bits that the mask does not have are to be cleared.
        let mask = crate::addresses::mask(*prefix_len);
        let gateway = Ipv4Addr::from(*gateway);
        if routes.len() < MAX_ROUTES {
            routes.push(Route {
                destination: Ipv4Addr::from(u32::from_be_bytes(destination) & mask),
                prefix_len: *prefix_len,
                // "a router address of 0.0.0.0": the network is on the link.
                gateway: (!gateway.is_unspecified()).then_some(gateway),
            });
        }
        bytes = rest;
    }
    Ok(routes)
}

impl Reply {
    /// Reads a message of a server.
    ///
    /// # Errors
    /// [`Malformed`] for what is no such message or contradicts itself.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some((fixed, options)) = bytes.split_first_chunk::<FIXED>() else {
            return Err(Malformed::Truncated);
        };
        // A reply, over Ethernet, to a link address of six bytes.
        if fixed[..3] != [2, 1, 6] || fixed[236..] != COOKIE {
            return Err(Malformed::Field);
        }
        let mut found = Gathered {
            options: Vec::new(),
        };
        found.read(options)?;
        // RFC 2132, 9.3: the fields of the file's and the server's name hold options, too.
        let overload = match found.array(code::OVERLOAD)? {
            None => 0,
            Some([fields @ 1..=3]) => fields,
            Some(_) => return Err(Malformed::Option),
        };
        if overload & 1 != 0 {
            found.read(&fixed[108..236])?;
        }
        if overload & 2 != 0 {
            found.read(&fixed[44..108])?;
        }
        let kind = match found.array(code::MESSAGE_TYPE)? {
            Some([2]) => Kind::Offer,
            Some([5]) => Kind::Ack,
            Some([6]) => Kind::Nak,
            Some(_) => return Err(Malformed::Field),
            // BOOTP.
            None => return Err(Malformed::Option),
        };
        let prefix_len = match found.word(code::SUBNET_MASK)? {
            None => None,
            Some(mask) if mask.leading_ones() + mask.trailing_zeros() >= 32 => {
                Some(mask.leading_ones() as u8)
            }
            Some(_) => return Err(Malformed::Option),
        };
        let mut name_servers = found.addresses(code::NAME_SERVERS)?;
        name_servers.truncate(MAX_NAME_SERVERS);
        let routes = found.get(code::CLASSLESS_ROUTES).map(classless_routes);
        let mac = |at: usize| {
            let mut mac = [0; 6];
            mac.copy_from_slice(&fixed[at..at + 6]);
            MacAddr(mac)
        };
        let word = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        Ok(Self {
            kind,
            xid: word(4),
            client: mac(28),
            client_id: found.get(code::CLIENT_ID).map(<[u8]>::to_vec),
            address: word(16).into(),
            server: found.word(code::SERVER)?.map(Ipv4Addr::from),
            prefix_len,
            router: found.addresses(code::ROUTER)?.first().copied(),
            routes: routes.transpose()?,
            name_servers,
            mtu: found.array(code::MTU)?.map(u16::from_be_bytes),
            lease: found.word(code::LEASE_TIME)?,
            renewal: found.word(code::RENEWAL)?,
            rebinding: found.word(code::REBINDING)?,
        })
    }
}

/// The identifier of a client (RFC 4361, 6.1): an interface number and a DUID of the link address (RFC 8415, 11.4).
pub(super) fn client_id(mac: MacAddr) -> [u8; 15] {
    let [a, b, c, d, e, f] = mac.0;
    [255, 0, 0, 0, 1, 0, 3, 0, 1, a, b, c, d, e, f]
}

/// A message of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) ask: Ask,
    pub(super) xid: u32,
    /// Seconds since the client began.
    pub(super) secs: u16,
    pub(super) mac: MacAddr,
    /// The client's address, where it answers for it.
    pub(super) ciaddr: Ipv4Addr,
    /// The address that is asked for or refused.
    pub(super) requested: Option<Ipv4Addr>,
    pub(super) server: Option<Ipv4Addr>,
}

impl Request {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SHORTEST);
        bytes.extend_from_slice(&[1, 1, 6, 0]);
        bytes.extend_from_slice(&self.xid.to_be_bytes());
        bytes.extend_from_slice(&self.secs.to_be_bytes());
        // RFC 2131, 4.1: who takes no unicast before it has an address sets the broadcast bit.
        let asks = matches!(self.ask, Ask::Discover | Ask::Request);
        let broadcast = asks && self.ciaddr.is_unspecified();
        bytes.extend_from_slice(&[u8::from(broadcast) << 7, 0]);
        bytes.extend_from_slice(&self.ciaddr.octets());
        bytes.resize(28, 0);
        bytes.extend_from_slice(&self.mac.0);
        bytes.resize(FIXED - COOKIE.len(), 0);
        bytes.extend_from_slice(&COOKIE);
        let mut option = |code: u8, value: &[u8]| {
            bytes.extend_from_slice(&[code, value.len() as u8]);
            bytes.extend_from_slice(value);
        };
        option(code::MESSAGE_TYPE, &[self.ask as u8]);
        // RFC 2131, table 5; RFC 4361, 6.1: in every message.
        option(code::CLIENT_ID, &client_id(self.mac));
        if let Some(requested) = self.requested {
            option(code::REQUESTED, &requested.octets());
        }
        if let Some(server) = self.server {
            option(code::SERVER, &server.octets());
        }
        if asks {
            option(code::MAX_SIZE, &LONGEST.to_be_bytes());
            // RFC 3442: classless routes before routers.
            let wanted = [
                code::SUBNET_MASK,
                code::CLASSLESS_ROUTES,
                code::ROUTER,
                code::NAME_SERVERS,
                code::MTU,
                code::LEASE_TIME,
                code::RENEWAL,
                code::REBINDING,
            ];
            option(code::PARAMETERS, &wanted);
        }
        bytes.push(code::END);
        let len = bytes.len().max(SHORTEST);
        bytes.resize(len, 0);
        bytes
    }
}

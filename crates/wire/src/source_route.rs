//! The loose and strict source route options of IPv4 (RFC 791, 3.1; RFC 1122, 3.2.1.8).
//!
//! While a packet is on its way, its destination is the next address of the route, and the option holds those that are
//! left; each host on the route writes its own address in place of the one that it took out.

use core::net::Ipv4Addr;

/// Addresses that an option has room for.
pub const MAX_HOPS: usize = 9;
/// Bytes of the longest option, padding included.
pub const MAX_LEN: usize = 4 + 4 * MAX_HOPS;

/// Loose source and record route.
const LOOSE: u8 = 131;
/// Strict source and record route.
const STRICT: u8 = 137;

/// Route in a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It has no source route.
    None,
    /// Its route ends here. This is the way back, unless it came straight from its source.
    Completed(Option<SourceRoute>),
    /// Its route goes on, or the option is malformed: it is not for this host.
    Elsewhere,
}

/// The hosts that a packet goes by on its way to its destination, 1 to [`MAX_HOPS`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRoute {
    strict: bool,
    len: u8,
    hops: [Ipv4Addr; MAX_HOPS],
}

impl SourceRoute {
    /// A loose route by way of `hops`; nothing when there are none or too many.
    pub fn loose(hops: &[Ipv4Addr]) -> Option<Self> {
        let mut route = Self {
            strict: false,
            len: hops.len() as u8,
            hops: [Ipv4Addr::UNSPECIFIED; MAX_HOPS],
        };
        route.hops.get_mut(..hops.len())?.copy_from_slice(hops);
        (!hops.is_empty()).then_some(route)
    }

    /// The hosts in the order in which they are passed.
    pub fn hops(&self) -> &[Ipv4Addr] {
        &self.hops[..usize::from(self.len)]
    }

    /// The destination address of a packet that sets out on the route.
    pub fn first(&self) -> Ipv4Addr {
        self.hops[0]
    }

    /// Bytes of the option and its padding, a multiple of 4.
    pub const fn option_len(&self) -> usize {
        4 + 4 * self.len as usize
    }

    /// Writes the option of a packet that sets out for `destination`; returns its bytes, padding included.
    pub fn emit(&self, destination: Ipv4Addr, out: &mut [u8; MAX_LEN]) -> usize {
        let kind = if self.strict { STRICT } else { LOOSE };
        // A no-operation in front aligns the addresses.
        out[..4].copy_from_slice(&[1, kind, 3 + 4 * self.len, 4]);
        let rest = self.hops()[1..].iter().chain([&destination]);
        let (places, _) = out[4..].as_chunks_mut::<4>();
        for (place, address) in places.iter_mut().zip(rest) {
            *place = address.octets();
        }
        self.option_len()
    }

    /// Reads the options of a packet that came from `source`. The way back is the recorded route turned round, without
    /// the source, which some hosts record as well (RFC 1122, 3.2.1.8 (c)).
    pub fn received(options: &[u8], source: Ipv4Addr) -> Received {
        let Some(option) = find(options) else {
            return Received::None;
        };
        let Some((kind, len, pointer, addresses)) = parts(option) else {
            return Received::Elsewhere;
        };
        if pointer <= len {
            return Received::Elsewhere;
        }
        let mut route = Self {
            strict: kind == STRICT,
            len: 0,
            hops: [Ipv4Addr::UNSPECIFIED; MAX_HOPS],
        };
        for (place, address) in route.hops.iter_mut().zip(addresses.iter().rev()) {
            *place = Ipv4Addr::from(*address);
            route.len += 1;
        }
        if route.hops().last() == Some(&source) {
            route.len -= 1;
            // Routes are compared with what lies behind their last hop.
            route.hops[usize::from(route.len)] = Ipv4Addr::UNSPECIFIED;
        }
        Received::Completed((route.len != 0).then_some(route))
    }

    /// The last address of a route that is not completed, in the options of a packet: where the packet is bound for.
    pub fn destination(options: &[u8]) -> Option<Ipv4Addr> {
        let (_, len, pointer, addresses) = parts(find(options)?)?;
        let last = addresses.last()?;
        (pointer <= len).then(|| Ipv4Addr::from(*last))
    }
}

/// The source route among a packet's options. What cannot be read is ignored, as any other option.
fn find(mut options: &[u8]) -> Option<&[u8]> {
    while let Some((&kind, rest)) = options.split_first() {
        if kind == 0 {
            return None;
        }
        if kind == 1 {
            options = rest;
            continue;
        }
        let len = usize::from(*rest.first()?);
        if len < 2 || len > options.len() {
            return None;
        }
        if kind == LOOSE || kind == STRICT {
            return Some(&options[..len]);
        }
        options = &options[len..];
    }
    None
}

/// Kind, length, pointer and addresses of a source route; nothing when they do not fit together.
fn parts(option: &[u8]) -> Option<(u8, u8, u8, &[[u8; 4]])> {
    let (&[kind, len, pointer], recorded) = option.split_first_chunk::<3>()?;
    let (addresses, rest) = recorded.as_chunks::<4>();
    (rest.is_empty() && addresses.len() <= MAX_HOPS).then_some((kind, len, pointer, addresses))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const C: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

    #[test]
    fn a_route_sets_out_and_comes_back() {
        let route = SourceRoute::loose(&[A, B]).unwrap();
        let mut out = [0; MAX_LEN];
        let len = route.emit(C, &mut out);
        assert_eq!(out[..len], [1, 131, 11, 4, 10, 0, 0, 2, 10, 0, 0, 3]);
        assert_eq!(route.first(), A);
        assert_eq!(SourceRoute::destination(&out[..len]), Some(C));
        // Both hosts have passed it on.
        out[3] = 12;
        out[4..12].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let Received::Completed(Some(back)) = SourceRoute::received(&out[..len], C) else {
            panic!("the route is complete");
        };
        assert_eq!(back.hops(), [B, A]);
        assert_eq!(SourceRoute::destination(&out[..len]), None);
    }

    #[test]
    fn a_recorded_source_is_left_out() {
        let option = [131, 11, 12, 10, 0, 0, 3, 10, 0, 0, 1, 0];
        let back = SourceRoute::loose(&[A]);
        assert_eq!(SourceRoute::received(&option, C), Received::Completed(back));
        assert_eq!(
            SourceRoute::received(&[137, 7, 8, 10, 0, 0, 3, 0], C),
            Received::Completed(None)
        );
    }

    #[test]
    fn what_is_no_completed_route_is_told() {
        assert_eq!(SourceRoute::received(&[], C), Received::None);
        assert_eq!(
            SourceRoute::received(&[7, 7, 4, 0, 0, 0, 0, 0], C),
            Received::None
        );
        assert_eq!(SourceRoute::received(&[131], C), Received::None);
        assert_eq!(SourceRoute::received(&[131, 9, 4, 0], C), Received::None);
        assert_eq!(
            SourceRoute::received(&[131, 7, 4, 10, 0, 0, 1, 0], C),
            Received::Elsewhere
        );
        assert_eq!(
            SourceRoute::received(&[131, 2, 1, 1], C),
            Received::Elsewhere
        );
        assert_eq!(
            SourceRoute::received(&[131, 6, 9, 10, 0, 0, 1, 0], C),
            Received::Elsewhere
        );
        assert_eq!(SourceRoute::loose(&[]), None);
        assert_eq!(SourceRoute::loose(&[A; 10]), None);
    }
}

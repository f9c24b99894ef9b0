//! The client's memory of servers for Fast Open (RFC 7413, 4.1.3): cookies, the MSS that goes with them, and servers that are left
//! alone for a while.
//!
//! Cookies are of a pair of addresses. Fast Open is on or off for each port of a server, so what went wrong is of a pair and a port
//! (4.1.3.1). Both lists are bounded; only our own connections make entries. It must never look at a connection.

use crate::time::Instant;
use alloc::collections::BTreeMap;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use tollgate_wire::tcp::FastOpenCookie;

/// Entries of either list. When there are more, the one that was used least lately goes.
const MOST: usize = 256;
/// Time for which a server is left alone after the first negative answer; each that follows doubles it. RFC 7413, 4.1.3.1 gives no
/// number; Linux begins with 60 s, too.
const FIRST_SUSPENSION: Duration = Duration::from_secs(60);
/// Times that it is doubled at most: 17 hours.
const MOST_DOUBLINGS: u8 = 10;

/// The remote and the local address.
type Pair = (IpAddr, IpAddr);

/// A server's cookie for one of our addresses.
#[derive(Clone, Copy, Debug)]
struct Known {
    cookie: FastOpenCookie,
    mss: Option<u16>,
    used: u64,
}

/// A server's port that has answered badly, or not at all.
#[derive(Clone, Copy, Debug)]
struct Suspended {
    until: Instant,
    /// Negative answers in a row.
    times: u8,
    used: u64,
}

/// Way in which a connection to a server is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Without the option.
    Plain,
    /// With the request for a cookie.
    Request,
    /// With this cookie, and data that fits this MSS, if the server has named one.
    Data(FastOpenCookie, Option<u16>),
}

/// The cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    cookies: BTreeMap<Pair, Known>,
    suspended: BTreeMap<(Pair, u16), Suspended>,
    /// Counts uses, so that the entry that was used least lately is known.
    uses: u64,
}

/// Makes room for one more entry.
fn make_room<K: Ord + Copy, V>(map: &mut BTreeMap<K, V>, used: impl Fn(&V) -> u64) {
    if map.len() >= MOST
        && let Some(oldest) = map.iter().min_by_key(|(_, entry)| used(entry))
    {
        let oldest = *oldest.0;
        map.remove(&oldest);
    }
}

impl Cache {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    /// Says how a connection from `local` to `remote` is to be opened.
    pub(super) fn advice(&mut self, remote: SocketAddr, local: IpAddr, now: Instant) -> Advice {
        let used = self.next_use();
        let pair = (remote.ip(), local);
        if let Some(entry) = self.suspended.get_mut(&(pair, remote.port()))
            && now < entry.until
        {
            entry.used = used;
            return Advice::Plain;
        }
        match self.cookies.get_mut(&pair) {
            Some(known) => {
                known.used = used;
                Advice::Data(known.cookie, known.mss)
            }
            None => Advice::Request,
        }
    }

    /// Keeps the newest cookie of a server, with the MSS of the same answer (RFC 7413, 4.1.3: at most one for a pair). Without a cookie
    /// the MSS alone moves, where a cookie is known.
    pub(super) fn learn(
        &mut self,
        remote: IpAddr,
        local: IpAddr,
        cookie: Option<FastOpenCookie>,
        mss: Option<u16>,
    ) {
        let used = self.next_use();
        let pair = (remote, local);
        match (self.cookies.get_mut(&pair), cookie) {
            (Some(known), cookie) => {
                known.cookie = cookie.unwrap_or(known.cookie);
                known.mss = mss.or(known.mss);
                known.used = used;
            }
            (None, Some(cookie)) => {
                make_room(&mut self.cookies, |known| known.used);
                self.cookies.insert(pair, Known { cookie, mss, used });
            }
            (None, None) => {}
        }
    }

    /// The server has answered as it should.
    pub(super) fn trust(&mut self, remote: SocketAddr, local: IpAddr) {
        self.suspended
            .remove(&((remote.ip(), local), remote.port()));
    }

    /// The server has not answered, or not as it should: it is left alone for a while (RFC 7413, 4.1.3.1).
    pub(super) fn suspend(&mut self, remote: SocketAddr, local: IpAddr, now: Instant) {
        let used = self.next_use();
        let key = ((remote.ip(), local), remote.port());
        let times = self.suspended.get(&key).map_or(0, |entry| entry.times);
        let period = FIRST_SUSPENSION * (1 << times.min(MOST_DOUBLINGS));
        if times == 0 {
            make_room(&mut self.suspended, |entry| entry.used);
        }
        let entry = Suspended {
            until: now + period,
            times: times.saturating_add(1),
            used,
        };
        self.suspended.insert(key, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const START: Instant = Instant::from_nanos(1 << 40);

    fn server(n: u32, port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::from_bits(0x0a01_0000 + n), port))
    }

    fn cookie(n: u8) -> FastOpenCookie {
        FastOpenCookie::of_eight([n; 8])
    }

    /// RFC 7413, 4.1.3: one cookie for a pair of addresses, the last one; it is good for every port.
    #[test]
    fn newest_cookie_of_a_pair_is_kept_with_its_mss() {
        let mut cache = Cache::default();
        let one = server(1, 80);
        assert_eq!(cache.advice(one, LOCAL, START), Advice::Request);
        cache.learn(one.ip(), LOCAL, None, Some(900));
        assert_eq!(cache.advice(one, LOCAL, START), Advice::Request);
        cache.learn(one.ip(), LOCAL, Some(cookie(1)), Some(1000));
        cache.learn(one.ip(), LOCAL, Some(cookie(2)), None);
        cache.learn(one.ip(), LOCAL, None, Some(1200));
        let known = Advice::Data(cookie(2), Some(1200));
        assert_eq!(cache.advice(server(1, 443), LOCAL, START), known);
        let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
        assert_eq!(cache.advice(one, other, START), Advice::Request);
    }

    /// RFC 7413, 4.1.3.1: a port that answered badly is left alone, longer each time.
    #[test]
    fn port_is_suspended_for_longer_each_time() {
        let mut cache = Cache::default();
        let (bad, good) = (server(1, 80), server(1, 443));
        let mut now = START;
        for minutes in [1, 2, 4, 8] {
            cache.suspend(bad, LOCAL, now);
            let almost = now + Duration::from_secs(60 * minutes - 1);
            assert_eq!(cache.advice(bad, LOCAL, almost), Advice::Plain);
            assert_eq!(cache.advice(good, LOCAL, almost), Advice::Request);
            now = now + Duration::from_secs(60 * minutes);
            assert_eq!(cache.advice(bad, LOCAL, now), Advice::Request);
        }
        cache.trust(bad, LOCAL);
        cache.suspend(bad, LOCAL, now);
        now = now + FIRST_SUSPENSION;
        assert_eq!(cache.advice(bad, LOCAL, now), Advice::Request);
        for _ in 0..300 {
            cache.suspend(bad, LOCAL, now);
        }
        now = now + Duration::from_secs(60 << MOST_DOUBLINGS);
        assert_eq!(cache.advice(bad, LOCAL, now), Advice::Request);
    }

    #[test]
    fn both_lists_are_bounded_and_what_was_used_lately_stays() {
        let mut cache = Cache::default();
        let first = server(0, 80);
        for n in 0..2 * MOST as u32 {
            let one = server(n, 80);
            cache.learn(one.ip(), LOCAL, Some(cookie(1)), None);
            cache.suspend(server(n, 81), LOCAL, START);
            let known = Advice::Data(cookie(1), None);
            assert_eq!(cache.advice(first, LOCAL, START), known);
            assert_eq!(cache.advice(server(0, 81), LOCAL, START), Advice::Plain);
        }
        assert_eq!((cache.cookies.len(), cache.suspended.len()), (MOST, MOST));
        assert_eq!(cache.advice(server(1, 80), LOCAL, START), Advice::Request);
    }
}

//! SYN cookies (RFC 4987, 3.6): a listener whose backlog is full answers without keeping anything.
//!
//! The sequence number carries the time, the peer's MSS and a keyed hash. What does not fit there, window scaling, is put
//! into the low bits of our timestamp when the peer offers timestamps, and is left out otherwise.

use crate::demux::FlowKey;
use crate::tcp::isn::Secrets;
use crate::time::{Instant, Tick};
use tollgate_wire::SeqNumber;

/// A period of 2^16 ticks is 69 s.
const PERIOD_SHIFT: u32 = 16;
/// MSS values that a cookie can name; the largest that the peer can take is chosen.
const MSS: [u16; 8] = [216, 536, 1024, 1220, 1360, 1440, 1460, 8960];
/// Low bits of a timestamp that carry options.
const TIMESTAMP_BITS: u32 = 0x1f;
/// In place of a window shift: no window scaling.
const NO_SHIFT: u8 = 0x0f;

/// When cookies were last sent: only then are they accepted. In 64 bits, since it may be long ago.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieJar {
    last_sent: Option<Instant>,
}

fn salt(period: u32, peer_isn: SeqNumber, mss_index: u32) -> u32 {
    peer_isn.0 ^ (period << 3 | mss_index).wrapping_mul(0x9e37_79b1)
}

impl CookieJar {
    pub(crate) const fn new() -> Self {
        Self { last_sent: None }
    }

    /// The sequence number of a SYN-ACK for which nothing is kept.
    pub(crate) fn make(
        &mut self,
        secrets: &Secrets,
        key: FlowKey,
        peer_isn: SeqNumber,
        mss: u16,
        now: Instant,
    ) -> SeqNumber {
        self.last_sent = Some(now);
        let index = MSS.iter().rposition(|&m| m <= mss).unwrap_or(0) as u32;
        let period = now.tick().0 >> PERIOD_SHIFT;
        let hash = secrets.cookie(key, salt(period, peer_isn, index));
        SeqNumber((period & 0x1f) << 27 | index << 24 | hash >> 8)
    }

    /// The peer's MSS when `cookie` was made for this connection in this or the last period.
    pub(crate) fn check(
        &self,
        secrets: &Secrets,
        key: FlowKey,
        peer_isn: SeqNumber,
        cookie: SeqNumber,
        now: Instant,
    ) -> Option<u16> {
        if now.nanos_since(self.last_sent?) >> (Tick::SHIFT + PERIOD_SHIFT) > 1 {
            return None;
        }
        let period = now.tick().0 >> PERIOD_SHIFT;
        let age = period.wrapping_sub(cookie.0 >> 27) & 0x1f;
        let index = cookie.0 >> 24 & 7;
        let hash = secrets.cookie(key, salt(period.wrapping_sub(age), peer_isn, index));
        (age <= 1 && hash >> 8 == cookie.0 & 0x00ff_ffff).then(|| MSS[index as usize])
    }
}

/// Our timestamp in a cookie's SYN-ACK: never later than `now`, with the peer's window shift in its low bits.
pub(crate) const fn stamp(now: u32, shift: Option<u8>) -> u32 {
    let shift = match shift {
        Some(shift) if shift <= 14 => shift,
        Some(_) => 14,
        None => NO_SHIFT,
    };
    let value = now & !TIMESTAMP_BITS | shift as u32;
    if value > now {
        value.wrapping_sub(TIMESTAMP_BITS + 1)
    } else {
        value
    }
}

/// The peer's window shift in an echoed timestamp of [`stamp`].
pub(crate) const fn shift_in(echo: u32) -> Option<u8> {
    let shift = (echo & 0x0f) as u8;
    if shift == NO_SHIFT { None } else { Some(shift) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of a period.
    fn at(period: u64) -> Instant {
        Instant::from_nanos(period << (PERIOD_SHIFT + Tick::SHIFT))
    }

    #[test]
    fn a_cookie_is_good_for_its_connection_and_time_only() {
        let secrets = Secrets::new([1, 2, 3, 4]);
        let key = FlowKey {
            remote: 1,
            local: 2,
            ports: 3,
        };
        let mut jar = CookieJar::new();
        let now = at(5);
        let isn = SeqNumber(77);
        assert_eq!(jar.check(&secrets, key, isn, SeqNumber(1), now), None);
        let cookie = jar.make(&secrets, key, isn, 1460, now);
        assert_eq!(jar.check(&secrets, key, isn, cookie, now), Some(1460));
        assert_eq!(jar.check(&secrets, key, isn, cookie, at(6)), Some(1460));
        assert_eq!(jar.check(&secrets, key, isn, cookie, at(8)), None);
        assert_eq!(jar.check(&secrets, key, isn + 1, cookie, now), None);
        assert_eq!(
            jar.check(&secrets, FlowKey { ports: 4, ..key }, isn, cookie, now),
            None
        );
        assert_eq!(jar.check(&secrets, key, isn, cookie + 1, now), None);
    }

    /// The periods of a cookie come again after 32 of them, and ticks of 32 bits after 52 days. Without cookies sent lately
    /// no guess is to be accepted then.
    #[test]
    fn old_cookies_stay_refused_for_ever() {
        let secrets = Secrets::new([1, 2, 3, 4]);
        let key = FlowKey::default();
        let mut jar = CookieJar::new();
        let cookie = jar.make(&secrets, key, SeqNumber(7), 1460, at(5));
        for periods in [5 + (1 << 15), 5 + 3 * (1 << 14), 5 + (1 << 16)] {
            // What the cookie of this very moment would be.
            let current = CookieJar::new().make(&secrets, key, SeqNumber(7), 1460, at(periods));
            for guess in [cookie, current] {
                let accepted = jar.check(&secrets, key, SeqNumber(7), guess, at(periods));
                assert_eq!(accepted, None, "after {periods} periods");
            }
        }
    }

    #[test]
    fn the_mss_is_the_largest_that_the_peer_takes() {
        let secrets = Secrets::new([1, 2, 3, 4]);
        let key = FlowKey::default();
        let mut jar = CookieJar::new();
        for (offered, named) in [(100, 216), (536, 536), (1459, 1440), (65_000, 8960)] {
            let cookie = jar.make(&secrets, key, SeqNumber(0), offered, at(0));
            assert_eq!(
                jar.check(&secrets, key, SeqNumber(0), cookie, at(0)),
                Some(named)
            );
        }
    }

    #[test]
    fn stamps_carry_the_shift_and_are_never_in_the_future() {
        for now in 64..200 {
            for shift in [None, Some(0), Some(7), Some(14)] {
                let value = stamp(now, shift);
                assert!(value <= now);
                assert!(now - value <= 32);
                assert_eq!(shift_in(value), shift);
            }
        }
    }
}

//! Addresses replaced so that prefixes stay the same. Two addresses that share their first n bits share n bits
//! afterwards, and no more (Crypto-PAn: Xu, Fan, Ammar and Moon, "Prefix-preserving IP address anonymization", ICNP
//! 2002).
//!
//! Anybody who knows the key can undo it. Anybody who knows some true addresses learns of others as many bits as they
//! share with those. A trace that is published should be made with a key that is then thrown away.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use aes::Aes128;
use aes::cipher::{Block, BlockCipherEncrypt, KeyInit};

/// Bytes of a key: one half for the cipher, the other for the padding.
pub const KEY_LEN: usize = 32;

/// Replaces addresses under one key.
pub struct Anonymiser {
    cipher: Aes128,
    pad: u128,
}

impl std::fmt::Debug for Anonymiser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Anonymiser(..)")
    }
}

impl Anonymiser {
    /// With a key of random bytes.
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        let (mut first, mut second) = ([0; 16], [0; 16]);
        first.copy_from_slice(&key[..16]);
        second.copy_from_slice(&key[16..]);
        let cipher = Aes128::new(&first.into());
        let mut anonymiser = Self { cipher, pad: 0 };
        anonymiser.pad = anonymiser.encrypt(u128::from_be_bytes(second));
        anonymiser
    }

    /// The address that stands for `address`, of the same version.
    pub fn address(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) => {
                let bits = u128::from(v4.to_bits()) << 96;
                IpAddr::V4(Ipv4Addr::from_bits((self.bits(bits, 32) >> 96) as u32))
            }
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(self.bits(v6.to_bits(), 128))),
        }
    }

    /// The first `count` bits of `bits`, each flipped or not as the cipher says of those before it.
    fn bits(&self, bits: u128, count: u32) -> u128 {
        let flips = (0..count).fold(0, |flips, at| {
            // The bits before this one, and the padding's behind them.
            let known = u128::MAX.checked_shl(128 - at).unwrap_or(0);
            let input = bits & known | self.pad & !known;
            flips | (self.encrypt(input) >> 127) << (127 - at)
        });
        bits ^ flips
    }

    fn encrypt(&self, input: u128) -> u128 {
        let mut block: Block<Aes128> = input.to_be_bytes().into();
        self.cipher.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The key that comes with the authors' implementation.
    const KEY: [u8; KEY_LEN] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131,
        121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2,
    ];

    /// Of the sample trace that comes with the authors' implementation.
    #[test]
    fn the_authors_sample_trace_is_anonymised_as_theirs() {
        let anonymiser = Anonymiser::new(&KEY);
        for (raw, expected) in [
            ("128.11.68.132", "135.242.180.132"),
            ("129.118.74.4", "134.136.186.123"),
            ("130.132.252.244", "133.68.164.234"),
            ("141.223.7.43", "141.167.8.160"),
            ("141.233.145.108", "141.129.237.235"),
            ("152.163.225.39", "151.140.114.167"),
            ("156.29.3.236", "147.225.12.42"),
        ] {
            let raw: IpAddr = raw.parse().unwrap();
            assert_eq!(anonymiser.address(raw).to_string(), expected);
        }
    }

    fn shared_bits(one: u128, other: u128) -> u32 {
        (one ^ other).leading_zeros()
    }

    proptest! {
        #[test]
        fn as_many_bits_are_shared_afterwards_as_before(one: u128, other: u128, same in 0..=128u32) {
            let known = u128::MAX.checked_shl(128 - same).unwrap_or(0);
            let other = one & known | other & !known;
            let anonymiser = Anonymiser::new(&KEY);
            let bits = |bits: u128| match anonymiser.address(Ipv6Addr::from_bits(bits).into()) {
                IpAddr::V6(v6) => v6.to_bits(),
                IpAddr::V4(v4) => panic!("{v4}"),
            };
            prop_assert_eq!(shared_bits(bits(one), bits(other)), shared_bits(one, other));
        }
    }
}

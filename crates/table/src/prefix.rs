//! Prefixes of addresses, and the SQL function that asks whether an address lies in one.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};

pub(crate) mod spelled;

/// The function's name.
const NAME: &str = "in_prefix";

/// A prefix: `10.0.0.0/8`, `fe80::/10`, or an address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

/// Networks that reach no further than a site: private (RFC 1918, RFC 4193), link-local (RFC 3927, RFC 4291) and loopback.
pub const LOCAL: &str =
    "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,169.254.0.0/16,127.0.0.0/8,fc00::/7,fe80::/10,::1/128";

/// The rejected text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no prefix; give an address, or an address and a length: 10.0.0.0/8, fe80::/10")]
pub struct NoPrefix(String);

impl FromStr for Prefix {
    type Err = NoPrefix;

    fn from_str(text: &str) -> Result<Self, NoPrefix> {
        let wrong = || NoPrefix(text.to_owned());
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let len = match len {
            Some(len) => len.trim().parse().map_err(|_| wrong())?,
            None => longest,
        };
        (len <= longest)
            .then_some(Self { address, len })
            .ok_or_else(wrong)
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl Prefix {
    /// Tells whether `address` lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (mine, other, width) = match (self.address, address) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                (u128::from(mine.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => (mine.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        (mine ^ other)
            .checked_shr(width - u32::from(self.len))
            .unwrap_or(0)
            == 0
    }

    /// Its first address and its last, as numbers.
    fn bounds(&self) -> (u128, u128) {
        let (bits, width) = match self.address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        // Ones where the addresses of the prefix differ.
        let differ = (u128::MAX >> (128 - width))
            .checked_shr(self.len.into())
            .unwrap_or(0);
        (bits & !differ, bits | differ)
    }
}

/// Prefixes in a list with commas.
///
/// # Errors
/// The first that is none.
pub fn list(text: &str) -> Result<Vec<Prefix>, NoPrefix> {
    text.split(',').map(str::parse).collect()
}

/// `in_prefix(address, '10.0.0.0/8,fe80::/10')`.
pub(crate) fn function() -> ScalarUDF {
    create_udf(
        NAME,
        vec![DataType::Utf8, DataType::Utf8],
        DataType::Boolean,
        Volatility::Immutable,
        Arc::new(in_prefix),
    )
}

fn in_prefix(arguments: &[ColumnarValue]) -> Result<ColumnarValue, DataFusionError> {
    let invalid = |message: String| DataFusionError::Execution(format!("in_prefix: {message}"));
    let [addresses, prefixes] = arguments else {
        return Err(invalid(
            "takes an address and a list of prefixes".to_owned(),
        ));
    };
    let ColumnarValue::Scalar(ScalarValue::Utf8(Some(prefixes))) = prefixes else {
        return Err(invalid(
            "the list of prefixes is to be a text such as '10.0.0.0/8'".to_owned(),
        ));
    };
    let prefixes = list(prefixes).map_err(|error| invalid(error.to_string()))?;
    let rows = match addresses {
        ColumnarValue::Array(array) => array.len(),
        ColumnarValue::Scalar(_) => 1,
    };
    let array = addresses.to_array(rows)?;
    let texts = cast(&array, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    let found: BooleanArray = (0..texts.len())
        .map(|at| {
            let text = texts.is_valid(at).then(|| texts.value(at))?;
            let address: IpAddr = text.parse().ok()?;
            Some(prefixes.iter().any(|prefix| prefix.contains(address)))
        })
        .collect();
    Ok(ColumnarValue::Array(Arc::new(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_their_addresses() {
        let local = list(LOCAL).unwrap();
        let is_local = |address: &str| {
            let address = address.parse().unwrap();
            local.iter().any(|prefix| prefix.contains(address))
        };
        for yes in [
            "10.1.2.3",
            "172.31.0.1",
            "127.0.0.1",
            "fd00::1",
            "fe80::1",
            "::1",
        ] {
            assert!(is_local(yes), "{yes}");
        }
        for no in ["11.0.0.0", "172.32.0.1", "8.8.8.8", "2001:db8::1", "::2"] {
            assert!(!is_local(no), "{no}");
        }
        let all: Prefix = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.1.2.3".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/-1", "x"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }
}

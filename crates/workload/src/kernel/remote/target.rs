//! Server of a client: `HOST[:PORT]`.

use std::fmt;
use std::net::{SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::str::FromStr;

use crate::error::Error;

/// The port on which `tollgate serve` listens unless told otherwise: TOLL on the keys of a telephone. IANA has given it to nobody.
pub const PORT: u16 = 8655;

/// A server, as the user names it.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
    /// The token that the server requires, if any.
    token: Option<String>,
}

impl Target {
    /// Sets the token that the server requires.
    #[must_use]
    pub fn with_token(mut self, token: Option<String>) -> Self {
        self.token = token;
        self
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Its first IPv4 address, or where it has none the first of IPv6.
    ///
    /// # Errors
    /// [`Error::Remote`] when the name is not known.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, Error> {
        first_address((self.host.as_str(), self.port)).map_err(|reason| Error::Remote {
            host: self.to_string(),
            doing: "looking up",
            reason,
            advice: "give a name or an address of the host that runs `tollgate serve`, or an echo, a discard or a chargen",
        })
    }
}

/// The first IPv4 address of a name, which every host speaks, or where it has none the first of IPv6.
///
/// # Errors
/// The reason in words where the name is not known, or has no address.
pub fn first_address(name: impl ToSocketAddrs) -> Result<SocketAddr, String> {
    let found = name.to_socket_addrs().map_err(|error| error.to_string())?;
    let found: Vec<SocketAddr> = found.collect();
    let over_v4 = found.iter().find(|address| address.is_ipv4());
    let address = over_v4.or(found.first());
    address
        .copied()
        .ok_or_else(|| "it has no address".to_owned())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Without the token.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "unknown host `{given}`; give a name or an address as HOST or HOST:PORT, one of IPv6 as [ADDR]:PORT"
            )
        };
        if let Ok(address) = given.parse::<SocketAddrV6>()
            && address.port() != 0
        {
            return Ok(Self {
                host: address.ip().to_string(),
                port: address.port(),
                token: None,
            });
        }
        let (host, port) = match given.split_once(':') {
            None => (given, PORT),
            Some((host, port)) => (host, port.parse().map_err(|_| refused())?),
        };
        let strange = |c: char| c.is_whitespace() || c.is_control() || "/@[]".contains(c);
        if host.is_empty() || port == 0 || host.contains(strange) {
            return Err(refused());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            token: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port() {
        let target: Target = "192.0.2.7".parse().unwrap();
        assert_eq!(target.to_string(), format!("192.0.2.7:{PORT}"));
        let target: Target = "box.example:99".parse().unwrap();
        assert_eq!(target.to_string(), "box.example:99");
        let target: Target = "[2001:db8::7]:99".parse().unwrap();
        assert_eq!(target.to_string(), "[2001:db8::7]:99");
        let found = target.resolve().unwrap();
        assert_eq!(found, "[2001:db8::7]:99".parse().unwrap());
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for given in [
            "", ":1", "a:", "a:0", "a:65536", "a b", "::1", "[::1]", "[::1]:0", "http://a",
        ] {
            let error = given.parse::<Target>().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{given}: {error}");
        }
    }

    #[test]
    fn a_token_is_not_shown() {
        let target: Target = "a".parse().unwrap();
        let target = target.with_token(Some("secret".to_owned()));
        assert!(!format!("{target:?} {target}").contains("secret"));
    }
}

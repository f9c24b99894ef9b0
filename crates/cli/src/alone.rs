//! Tells whether another tollgate measures on this machine: two that measure at once disturb each other.
//!
//! A name in the abstract namespace of Unix sockets is taken for as long as this process measures; the kernel gives it back
//! however the process ends. Network namespaces have names of their own, so those in others are not seen.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

const NAME: &[u8] = b"tollgate-measuring";

/// The name, or what the reader of the run must know.
pub(crate) fn claim() -> Result<UnixListener, String> {
    named(NAME)
}

fn named(name: &[u8]) -> Result<UnixListener, String> {
    let address = SocketAddr::from_abstract_name(name);
    let bound = address.and_then(|address| UnixListener::bind_addr(&address));
    bound.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => "another tollgate measured on this machine when this began: each takes time from the other; \
                                 run one at a time"
            .to_owned(),
        _ => format!("whether another tollgate measures on this machine is not known: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_one_is_told_of_the_first_until_that_ends() {
        let name = format!("tollgate-test-{}", std::process::id());
        let first = named(name.as_bytes()).unwrap();
        let told = named(name.as_bytes()).unwrap_err();
        assert!(told.starts_with("another tollgate measured"), "{told}");
        drop(first);
        assert!(named(name.as_bytes()).is_ok());
    }
}

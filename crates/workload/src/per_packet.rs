//! Requests of one size that are answered by responses of any size, measured per packet, as in Lehmann and Benz 2002.
//!
//! A request says how long its response is to be, so one connection serves all sizes. The kernel's paths
//! ([`crate::kernel::per_packet`]) and our own stack's ([`crate::stack_memory::per_packet`]) share sizes and the form of a request.

use tollgate_run::PathId;

use crate::error::Error;

/// Bytes of a request, as in Lehmann and Benz 2002, section 3.1.
pub const REQUEST: usize = 128;
/// Bytes of the largest response.
pub const MAX_RESPONSE: usize = 1 << 20;
/// Bytes of the largest IP packet, as in the same, section 3.2.
pub const MTU: usize = 1_500;
/// Bytes of payload in a full packet: the MTU without IP's header, TCP's and its timestamps (the same, section 3.2).
pub const SEGMENT: usize = MTU - 20 - 20 - 12;

/// Refuses a response that no path carries.
pub(crate) fn check(response: usize) -> Result<(), Error> {
    if response == 0 || response > MAX_RESPONSE {
        return Err(Error::Size {
            size: response,
            max: MAX_RESPONSE,
        });
    }
    Ok(())
}

/// Writes into a request how long its response is to be.
pub(crate) fn ask(request: &mut [u8; REQUEST], response: usize) {
    if let Some(head) = request.first_chunk_mut::<8>() {
        *head = (response as u64).to_le_bytes();
    }
}

/// Reads the requested length of a response, in bytes.
///
/// # Errors
/// [`Error::Corrupt`] when it is none that was asked for.
pub(crate) fn asked(request: &[u8; REQUEST], path: PathId, message: u64) -> Result<usize, Error> {
    let length = request
        .first_chunk::<8>()
        .map(|head| u64::from_le_bytes(*head));
    length
        .and_then(|length| usize::try_from(length).ok())
        .filter(|&length| check(length).is_ok())
        .ok_or(Error::Corrupt {
            path,
            what: "request",
            message,
            offset: 0,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_how_long_its_response_is_to_be() {
        let mut request = [0; REQUEST];
        for response in [1, SEGMENT, MAX_RESPONSE] {
            ask(&mut request, response);
            assert_eq!(asked(&request, PathId::StackMemory, 0).unwrap(), response);
        }
        for wrong in [0, MAX_RESPONSE + 1] {
            ask(&mut request, wrong);
            assert!(asked(&request, PathId::StackMemory, 3).is_err());
            assert!(check(wrong).is_err());
        }
    }

    #[test]
    fn a_full_packet_carries_what_the_paper_says() {
        assert_eq!(SEGMENT, 1_448);
    }
}

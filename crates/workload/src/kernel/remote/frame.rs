//! Frames of the control connection: ten octets that tell what speaks, then messages with their length in front.
//!
//! The first octets are the same in every version, so that two versions can tell each other that they differ.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of the protocol. Anything that changes a message raises it.
pub(super) const VERSION: u16 = 4;
const MAGIC: [u8; 8] = *b"TOLLGATE";
const PREAMBLE: usize = MAGIC.len() + 2;
/// The longest request, in octets.
pub(super) const MAX_REQUEST: usize = 64 * 1024;
/// The longest answer, in octets: a slice's events are among them.
pub(super) const MAX_RESPONSE: usize = 64 * 1024 * 1024;
/// Octets that memory is asked for at once, whatever length is announced.
const STEP: usize = 64 * 1024;
/// Interval in which a waiting end checks for a stop.
const LOOK: Duration = Duration::from_millis(100);

/// The reason why the control connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChannelError {
    /// The first bytes are not those of Tollgate.
    #[error("what answers there is not Tollgate")]
    UnknownPeer,
    /// The other end speaks another version.
    #[error("it speaks version {theirs} of the control protocol, and this is version {VERSION}")]
    Version {
        /// Its version.
        theirs: u16,
    },
    /// A message is longer than any may be.
    #[error("a message of {length} octets was announced; the most is {most}")]
    Length {
        /// Octets that were announced, or are to be sent.
        length: usize,
        /// Octets that are allowed.
        most: usize,
    },
    /// The octets are no message of this version.
    #[error("a message is not understood: {0}")]
    Message(serde_json::Error),
    /// The other end has closed.
    #[error("the connection was closed")]
    Closed,
    /// Nothing came for as long as was waited.
    #[error("no answer for {seconds} s")]
    Silence {
        /// The time that was waited, in seconds.
        seconds: u64,
    },
    /// The one who waits was told to stop.
    #[error("stopped")]
    Stopped,
    /// The system said so.
    #[error("{0}")]
    System(io::Error),
}

/// Tells whether an end that waits should go on.
pub(super) type GoOn<'a> = &'a mut dyn FnMut() -> Result<(), ChannelError>;

/// The control connection.
#[derive(Debug)]
pub(super) struct Channel {
    stream: TcpStream,
}

impl Channel {
    /// Over a connection that is established.
    pub(super) fn new(stream: TcpStream) -> Result<Self, ChannelError> {
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(LOOK)))
            .and_then(|()| stream.set_write_timeout(Some(crate::slice::PATIENCE)))
            .map_err(ChannelError::System)?;
        Ok(Self { stream })
    }

    /// Says what speaks, and hears it of the other end.
    pub(super) fn greet(&mut self, go_on: GoOn<'_>) -> Result<(), ChannelError> {
        self.write(&preamble(VERSION))?;
        let mut theirs = [0; PREAMBLE];
        fill(&mut self.stream, &mut theirs, go_on)?;
        check_preamble(&theirs)
    }

    pub(super) fn send<T: Serialize>(
        &mut self,
        message: &T,
        most: usize,
    ) -> Result<(), ChannelError> {
        let body = serde_json::to_vec(message).map_err(ChannelError::Message)?;
        let length = body.len();
        let too_long = ChannelError::Length { length, most };
        let header = match u32::try_from(length) {
            Ok(header) if length <= most => header,
            _ => return Err(too_long),
        };
        let mut frame = header.to_be_bytes().to_vec();
        frame.extend(body);
        self.write(&frame)
    }

    pub(super) fn receive<T: DeserializeOwned>(
        &mut self,
        most: usize,
        go_on: GoOn<'_>,
    ) -> Result<T, ChannelError> {
        read_message(&mut self.stream, most, go_on)
    }

    fn write(&mut self, octets: &[u8]) -> Result<(), ChannelError> {
        self.stream.write_all(octets).map_err(lost)
    }
}

fn lost(error: io::Error) -> ChannelError {
    match error.kind() {
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::UnexpectedEof => ChannelError::Closed,
        _ => ChannelError::System(error),
    }
}

fn preamble(version: u16) -> [u8; PREAMBLE] {
    let mut octets = [0; PREAMBLE];
    octets[..MAGIC.len()].copy_from_slice(&MAGIC);
    octets[MAGIC.len()..].copy_from_slice(&version.to_be_bytes());
    octets
}

fn check_preamble(octets: &[u8; PREAMBLE]) -> Result<(), ChannelError> {
    let (magic, version) = octets.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(ChannelError::UnknownPeer);
    }
    match u16::from_be_bytes([version[0], version[1]]) {
        VERSION => Ok(()),
        theirs => Err(ChannelError::Version { theirs }),
    }
}

fn read_message<T: DeserializeOwned>(
    from: &mut impl Read,
    most: usize,
    go_on: GoOn<'_>,
) -> Result<T, ChannelError> {
    let mut header = [0; 4];
    fill(from, &mut header, go_on)?;
    let length = u32::from_be_bytes(header) as usize;
    if length > most {
        return Err(ChannelError::Length { length, most });
    }
    let mut body = Vec::new();
    while body.len() < length {
        let at = body.len();
        body.resize((at + STEP).min(length), 0);
        fill(from, &mut body[at..], go_on)?;
    }
    serde_json::from_slice(&body).map_err(ChannelError::Message)
}

/// Fills `octets`; asks now and then whether to go on.
fn fill(from: &mut impl Read, octets: &mut [u8], go_on: GoOn<'_>) -> Result<(), ChannelError> {
    let mut at = 0;
    while at < octets.len() {
        match from.read(&mut octets[at..]) {
            Ok(0) => return Err(ChannelError::Closed),
            Ok(got) => at += got,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => go_on()?,
                _ => return Err(lost(error)),
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::message::{Request, Response};
    use super::*;
    use crate::spec::Spec;
    use tollgate_run::Workload;

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut frame = (body.len() as u32).to_be_bytes().to_vec();
        frame.extend(body);
        frame
    }

    fn read<T: DeserializeOwned>(octets: &[u8], most: usize) -> Result<T, ChannelError> {
        read_message(&mut &octets[..], most, &mut || Ok(()))
    }

    #[test]
    fn another_version_and_a_stranger_are_told_apart() {
        assert!(check_preamble(&preamble(VERSION)).is_ok());
        let error = check_preamble(&preamble(7)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it speaks version 7 of the control protocol, and this is version 4"
        );
        let error = check_preamble(b"SSH-2.0-Op").unwrap_err();
        assert!(matches!(error, ChannelError::UnknownPeer));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_it_is_read() {
        let error = read::<Request>(&u32::MAX.to_be_bytes(), MAX_REQUEST).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a message of 4294967295 octets was announced; the most is 65536"
        );
    }

    #[test]
    fn a_message_that_ends_early_is_told() {
        let whole = framed(&serde_json::to_vec(&Request::Gates).unwrap());
        for cut in 0..whole.len() {
            let error = read::<Request>(&whole[..cut], MAX_REQUEST).unwrap_err();
            assert!(matches!(error, ChannelError::Closed), "{cut}: {error}");
        }
        assert!(read::<Request>(&whole, MAX_REQUEST).is_ok());
    }

    #[test]
    fn deep_nesting_is_no_stack_overflow() {
        let body = "[".repeat(MAX_REQUEST);
        assert!(matches!(
            read::<Request>(&framed(body.as_bytes()), MAX_REQUEST),
            Err(ChannelError::Message(_))
        ));
    }

    proptest! {
        #[test]
        fn octets_never_panic(octets in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read::<Request>(&octets, MAX_REQUEST);
            let _ = read::<Response>(&octets, MAX_REQUEST);
            let _ = read::<Request>(&framed(&octets), MAX_REQUEST);
            if let Ok(first) = octets[..].try_into() {
                let _ = check_preamble(first);
            }
        }

        #[test]
        fn a_damaged_message_is_another_message_or_an_error(at in 0usize..400, octet in any::<u8>()) {
            let spec = Spec::new(Workload::Crr, 80).verified();
            let mut body = serde_json::to_vec(&Request::Open { spec }).unwrap();
            let at = at % body.len();
            body[at] = octet;
            let _ = read::<Request>(&framed(&body), MAX_REQUEST);
        }

        #[test]
        fn what_is_sent_is_read(session in any::<u32>(), iterations in any::<u64>()) {
            let body = serde_json::to_vec(&Request::Begin { session, iterations }).unwrap();
            let read = read::<Request>(&framed(&body), MAX_REQUEST).unwrap();
            prop_assert_eq!(read, Request::Begin { session, iterations });
        }
    }
}

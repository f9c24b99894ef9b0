//! Reasons for which a call of a socket fails or a connection ends, and their words.

use core::fmt;

/// The reason why a connection ended, or a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It cannot be done now; an event will tell when it can.
    WouldBlock,
    /// The handle is stale, or the connection is in a state in which this call means nothing.
    NotConnected,
    /// This side has closed its direction.
    Shutdown,
    /// The peer reset the connection.
    Reset,
    /// The peer refused the connection.
    Refused,
    /// The peer did not answer in time.
    TimedOut,
    /// The network says that the peer cannot be reached.
    Unreachable,
    /// This side aborted the connection.
    Aborted,
    /// The address or port is in use, or both are with this peer.
    InUse,
    /// No local port is free for this peer.
    NoPort,
    /// The table of connections or sockets is full.
    TableFull,
    /// The pool has no frame.
    NoFrame,
    /// The message or buffer is longer than can be sent at once.
    TooLong,
    /// The address is not one that can be connected to or listened on.
    BadAddress,
    /// The value of an option is out of its range.
    BadOption,
}

impl Error {
    pub(crate) const fn code(self) -> u8 {
        self as u8 + 1
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            4 => Error::Reset,
            5 => Error::Refused,
            6 => Error::TimedOut,
            7 => Error::Unreachable,
            8 => Error::Aborted,
            _ => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::WouldBlock => "it cannot be done now; wait for an event and try again",
            Error::NotConnected => "there is no such connection, or it is not connected",
            Error::Shutdown => "this side has closed its direction of the connection",
            Error::Reset => "the peer reset the connection",
            Error::Refused => "the peer refused the connection",
            Error::TimedOut => "the peer did not answer in time",
            Error::Unreachable => "the peer cannot be reached",
            Error::Aborted => "the connection was aborted",
            Error::InUse => "the address or port is in use",
            Error::NoPort => "no local port is free for this peer",
            Error::TableFull => "the table of connections is full; raise max_connections",
            Error::NoFrame => "the buffer pool is empty; make it larger",
            Error::TooLong => "the message is longer than can be sent at once",
            Error::BadAddress => "the address cannot be used",
            Error::BadOption => "the option has no such value",
        })
    }
}

impl core::error::Error for Error {}

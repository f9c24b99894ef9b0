//! One of many clients: what it asks of the server, what it does to it, and what it must never see.

use std::io;

use rustix::io::Errno;
use tollgate_service::Sockets;

/// Behaviour of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Sends all at once, and compares what comes back.
    Echo,
    /// Sends a byte at a time.
    Trickle,
    /// Never reads what it asked for.
    NeverReads,
    /// Is killed in the middle: its end is a reset.
    Killed,
    /// Leaves nothing behind but its silence: its end closes while bytes are on the way.
    Hasty,
}

impl Manner {
    pub const ALL: [Self; 5] = [
        Self::Echo,
        Self::Trickle,
        Self::NeverReads,
        Self::Killed,
        Self::Hasty,
    ];
}

/// State of a client after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Goes,
    /// All that was sent has come back.
    Whole,
    /// It ends itself, by a close or by a reset.
    Leaves {
        reset: bool,
    },
}

/// A client and its connection.
pub struct Actor<C> {
    pub conn: C,
    pub manner: Manner,
    seed: u64,
    size: u64,
    sent: u64,
    back: u64,
    shut: bool,
    connected: bool,
    /// Turns of the loop since it began.
    pub age: u32,
}

/// The byte at this place of what a client sends.
fn byte(seed: u64, at: u64) -> u8 {
    let mixed = (at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

/// Bytes that are sent or read at once.
const PIECE: usize = 4096;

impl<C: Copy> Actor<C> {
    pub fn new(conn: C, manner: Manner, seed: u64) -> Self {
        let size = match manner {
            Manner::Trickle => 20 + seed % 60,
            _ => 1 + seed % 200_000,
        };
        Self {
            conn,
            manner,
            seed,
            size,
            sent: 0,
            back: 0,
            shut: false,
            connected: false,
            age: 0,
        }
    }

    /// The connection is established, or over.
    pub fn writable(&mut self) {
        self.connected = true;
    }

    /// Goes on; `tick` tells that time has passed.
    ///
    /// # Errors
    /// Those of the connection; [`io::ErrorKind::InvalidData`] for bytes that nobody sent.
    pub fn go<S: Sockets<Conn = C>>(&mut self, sockets: &mut S, tick: bool) -> io::Result<Step> {
        if !self.connected {
            return Ok(Step::Goes);
        }
        self.send(sockets, tick)?;
        if self.manner == Manner::NeverReads {
            return Ok(Step::Goes);
        }
        let mut piece = [0; PIECE];
        // Others have their turn as well.
        for _ in 0..8 {
            let count = match sockets.receive(self.conn, &mut piece) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(0) if self.back == self.size && self.shut => return Ok(Step::Whole),
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "an end before the end",
                    ));
                }
                outcome => outcome?,
            };
            for &got in &piece[..count] {
                if self.back >= self.sent || got != byte(self.seed, self.back) {
                    let words = format!("byte {} is another", self.back);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, words));
                }
                self.back += 1;
            }
        }
        let half = self.back * 2 >= self.size;
        Ok(match self.manner {
            Manner::Killed if half => Step::Leaves { reset: true },
            Manner::Hasty if half => Step::Leaves { reset: false },
            _ => Step::Goes,
        })
    }

    fn send<S: Sockets<Conn = C>>(&mut self, sockets: &mut S, tick: bool) -> io::Result<()> {
        let most = match self.manner {
            Manner::Trickle if !tick => return Ok(()),
            Manner::Trickle => 1,
            _ => PIECE as u64,
        };
        for _ in 0..8 {
            let count = most.min(self.size - self.sent);
            if count == 0 {
                if !self.shut {
                    sockets.shutdown(self.conn)?;
                    self.shut = true;
                }
                return Ok(());
            }
            let bytes: Vec<u8> = (self.sent..self.sent + count)
                .map(|at| byte(self.seed, at))
                .collect();
            match sockets.send(self.conn, &bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                outcome => self.sent += outcome? as u64,
            }
            if self.manner == Manner::Trickle {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Errors by which a connection may end while links fail and addresses change.
pub fn is_expected(error: &io::Error) -> bool {
    let Some(number) = error.raw_os_error() else {
        return false;
    };
    [
        Errno::CONNRESET,
        Errno::CONNREFUSED,
        Errno::CONNABORTED,
        Errno::TIMEDOUT,
        Errno::HOSTUNREACH,
        Errno::NETUNREACH,
        Errno::NETDOWN,
        Errno::PIPE,
        Errno::NOTCONN,
        Errno::ADDRNOTAVAIL,
    ]
    .iter()
    .any(|expected| expected.raw_os_error() == number)
}

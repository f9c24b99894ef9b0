//! Kernel sockets: made, connected, and read and written in full, sleeping or polling.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, accept_with, bind,
    connect, getpeername, getsockname, listen as listen_on, recv, send, sendto, shutdown,
    socket_with, sockopt,
};
use tollgate_gate::Gate;
use tollgate_run::Waiting;

use super::software_stamps::{self, Sent};
use super::{Network, PATH};
use crate::error::Error;
use crate::slice::{Control, Look, PATIENCE, Spin};
use crate::spec::Spec;
use crate::stamps::Stamper;

/// Turns of a polling loop, each a system call of 0.1 us or more, between two looks at the deadline.
const TURNS: u32 = 1 << 12;
/// The congestion control that is asked for, the same on every machine.
const CONGESTION: &str = "cubic";
/// Connections that may wait to be accepted; there is never more than one.
const BACKLOG: i32 = 16;

/// The options of both ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// TCP_NODELAY.
    pub(super) nodelay: bool,
    /// Tells whether calls sleep or are repeated.
    pub(super) waiting: Waiting,
    /// TCP_MAXSEG in bytes; as the device has it unless given.
    pub(super) max_segment: Option<u32>,
}

impl Options {
    /// Those of a session for this spec.
    pub(crate) fn of(spec: &Spec) -> Self {
        Self {
            nodelay: !spec.nagle(),
            waiting: spec.waiting,
            max_segment: None,
        }
    }
}

/// A TCP socket of the version of IP of an address.
fn tcp_socket(address: IpAddr) -> Result<OwnedFd, Error> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| Error::system(PATH, "making a socket", error))
}

/// Sets what every end has. A congestion control that this kernel does not have leaves its default in place.
fn set_options(fd: impl AsFd, options: &Options) -> Result<(), Error> {
    let fd = fd.as_fd();
    match sockopt::set_tcp_congestion(fd, CONGESTION) {
        Ok(()) | Err(Errno::NOENT | Errno::PERM) => {}
        Err(error) => return Err(Error::system(PATH, "setting TCP_CONGESTION", error)),
    }
    if let Some(bytes) = options.max_segment {
        set_max_segment(fd, bytes)
            .map_err(|error| Error::system(PATH, "setting TCP_MAXSEG", error))?;
    }
    sockopt::set_tcp_nodelay(fd, options.nodelay)
        .map_err(|error| Error::system(PATH, "setting TCP_NODELAY", error))
}

/// A stream of the standard library to `to`, with the congestion control that is asked for. The time limit is that of connecting and
/// of each write.
///
/// It is set before connecting: a socket whose default was BBR keeps that one's pacing when it takes another one later
/// (nothing takes `sk_pacing_status` back).
pub(crate) fn stream_to(to: SocketAddrV4, limit: Duration) -> Result<TcpStream, Error> {
    let fd = sending_socket()?;
    sockopt::set_socket_timeout(&fd, sockopt::Timeout::Send, Some(limit))
        .map_err(|error| Error::system(PATH, "setting a socket's timeout", error))?;
    connect(&fd, &to).map_err(|error| Error::system(PATH, "connecting", error))?;
    Ok(fd.into())
}

/// A socket that is not connected, with the congestion control that is asked for.
fn sending_socket() -> Result<OwnedFd, Error> {
    let fd = tcp_socket(Ipv4Addr::UNSPECIFIED.into())?;
    sockopt::set_tcp_congestion(&fd, CONGESTION)
        .map_err(|error| Error::system(PATH, "choosing the congestion control cubic", error))?;
    Ok(fd)
}

fn set_max_segment(fd: BorrowedFd<'_>, bytes: u32) -> std::io::Result<()> {
    let value = bytes as libc::c_int;
    // SAFETY: the kernel reads as many bytes as an int has from a place where there is one.
    let outcome = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match outcome {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Lets no call on the socket take longer than a session is patient.
pub(super) fn set_timeouts(fd: impl AsFd) -> Result<(), Error> {
    let fd = fd.as_fd();
    for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(fd, which, Some(PATIENCE))
            .map_err(|error| Error::system(PATH, "setting a socket's timeout", error))?;
    }
    Ok(())
}

/// The congestion control that connections with an address have, where each iteration makes one.
pub(super) fn congestion_with(address: IpAddr, options: &Options) -> Result<String, Error> {
    let fd = tcp_socket(address)?;
    set_options(&fd, options)?;
    congestion_of(fd)
}

/// The congestion control that a socket really has.
pub(crate) fn congestion_of(fd: impl AsFd) -> Result<String, Error> {
    sockopt::tcp_congestion(fd)
        .map_err(|error| Error::system(PATH, "reading TCP_CONGESTION", error))
}

/// A listener on a free port of the address, with the options and timeouts that accepted connections inherit.
pub(super) fn listen(options: &Options, address: IpAddr) -> Result<(OwnedFd, SocketAddr), Error> {
    let fd = tcp_socket(address)?;
    set_options(&fd, options)?;
    set_timeouts(&fd)?;
    if options.waiting == Waiting::BusyPoll {
        rustix::io::ioctl_fionbio(&fd, true)
            .map_err(|error| Error::system(PATH, "unblocking a listener", error))?;
    }
    bind(&fd, &SocketAddr::new(address, 0))
        .map_err(|error| Error::system(PATH, "binding to a free port", error))?;
    listen_on(&fd, BACKLOG).map_err(|error| Error::system(PATH, "listening", error))?;
    let address = getsockname(&fd)
        .and_then(SocketAddr::try_from)
        .map_err(|error| Error::system(PATH, "reading a listener's port", error))?;
    Ok((fd, address))
}

/// Waits for a connection. `control` is looked at while polling.
pub(crate) fn accept(
    listener: impl AsFd,
    waiting: Waiting,
    control: &Control,
) -> Result<End, Error> {
    let listener = listener.as_fd();
    let doing = "waiting for a connection";
    let fd = persist(waiting, control, doing, || {
        accept_with(listener, SocketFlags::CLOEXEC)
    })?;
    Ok(End {
        fd,
        waiting,
        to: None,
    })
}

/// Two connected ends, and the port that the server was listened for on. The listener that brought them together is closed
/// again.
pub(super) fn pair(options: &Options, place: &Network) -> Result<(End, End, u16), Error> {
    let (listener, address) = place.server(|| listen(options, place.server_address().into()))?;
    let client = place.client(|| End::connect(&address, options))?;
    set_timeouts(&client.fd)?;
    let server = accept(&listener, options.waiting, &Control::new())?;
    Ok((client, server, address.port()))
}

/// A UDP socket on a free port of an address, and that port.
fn udp_socket(address: Ipv4Addr) -> Result<(OwnedFd, SocketAddrV4), Error> {
    let fd = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| Error::system(PATH, "making a UDP socket", error))?;
    set_timeouts(&fd)?;
    bind(&fd, &SocketAddrV4::new(address, 0))
        .map_err(|error| Error::system(PATH, "binding to a free UDP port", error))?;
    let address = getsockname(&fd)
        .and_then(SocketAddrV4::try_from)
        .map_err(|error| Error::system(PATH, "reading a UDP port", error))?;
    Ok((fd, address))
}

fn connect_udp(fd: &OwnedFd, peer: SocketAddrV4) -> Result<(), Error> {
    connect(fd, &peer).map_err(|error| Error::system(PATH, "connecting UDP", error))
}

/// A UDP socket of an address that talks to `peer` alone, and where it is.
pub(crate) fn datagrams_with(
    options: &Options,
    address: Ipv4Addr,
    peer: SocketAddrV4,
) -> Result<(End, SocketAddrV4), Error> {
    let (fd, at) = udp_socket(address)?;
    connect_udp(&fd, peer)?;
    let end = End {
        fd,
        waiting: options.waiting,
        to: None,
    };
    Ok((end, at))
}

/// Two UDP sockets, connected to each other or with each other's address in every send. A message is a datagram, so it is sent and
/// received whole.
pub(super) fn datagram_pair(
    options: &Options,
    place: &Network,
    connected: bool,
) -> Result<(End, End), Error> {
    let (client, client_at) = place.client(|| udp_socket(place.client_address()))?;
    let (server, server_at) = place.server(|| udp_socket(place.server_address()))?;
    if connected {
        for (fd, peer) in [(&client, server_at), (&server, client_at)] {
            connect_udp(fd, peer)?;
        }
    }
    let end = |fd, peer| End {
        fd,
        waiting: options.waiting,
        to: (!connected).then_some(peer),
    };
    Ok((end(client, server_at), end(server, client_at)))
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    fd: OwnedFd,
    waiting: Waiting,
    /// The other end, where the socket is not connected to it.
    to: Option<SocketAddrV4>,
}

impl End {
    /// Connects. The handshake is over when connect(2) returns, so this never polls.
    pub(super) fn connect(address: &SocketAddr, options: &Options) -> Result<Self, Error> {
        let fd = tcp_socket(address.ip())?;
        set_options(&fd, options)?;
        connect(&fd, address).map_err(|error| {
            let doing = match error {
                Errno::ADDRNOTAVAIL => {
                    "connecting: all ephemeral ports are in use, widen net.ipv4.ip_local_port_range"
                }
                _ => "connecting",
            };
            Error::system(PATH, doing, error)
        })?;
        Ok(Self {
            fd,
            waiting: options.waiting,
            to: None,
        })
    }

    /// The address of the other end.
    pub(super) fn peer(&self) -> Result<IpAddr, Error> {
        getpeername(&self.fd)
            .map_err(|error| Error::system(PATH, "reading a peer's address", error))
            .and_then(|address| {
                let address = address.map(SocketAddr::try_from);
                match address {
                    Some(Ok(address)) => Ok(address.ip()),
                    Some(Err(_)) | None => Err(Error::Closed {
                        path: PATH,
                        doing: "reading a peer's address",
                    }),
                }
            })
    }

    /// The congestion control that this end really has.
    pub(super) fn congestion(&self) -> Result<String, Error> {
        congestion_of(&self.fd)
    }

    /// Duplicates the end, for whoever must wake a thread that sleeps on it.
    pub(crate) fn again(&self) -> Result<Self, Error> {
        let fd = self
            .fd
            .try_clone()
            .map_err(|error| Error::system(PATH, "duplicating a socket", error))?;
        Ok(Self {
            fd,
            waiting: self.waiting,
            to: self.to,
        })
    }

    /// Ends the connection by a reset when the socket is closed, also by the end of the process.
    pub(crate) fn reset_on_close(&self) -> Result<(), Error> {
        sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO))
            .map_err(|error| Error::system(PATH, "setting SO_LINGER", error))
    }

    /// The socket, for calls of a kind of its own.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends all of `data`.
    #[inline]
    pub(super) fn send_all(&self, mut data: &[u8], control: &Control) -> Result<(), Error> {
        let flags = match self.waiting {
            Waiting::Blocking => SendFlags::NOSIGNAL,
            Waiting::BusyPoll => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        };
        while !data.is_empty() {
            let sent = persist(self.waiting, control, "sending", || match &self.to {
                None => send(&self.fd, data, flags),
                Some(to) => sendto(&self.fd, data, flags, to),
            })?;
            data = &data[sent.min(data.len())..];
        }
        Ok(())
    }

    /// Receives at least one byte, at most as many as `buffer` holds.
    ///
    /// # Errors
    /// [`Error::Closed`] when the other end has sent its FIN.
    #[inline]
    pub(super) fn recv_some(&self, buffer: &mut [u8], control: &Control) -> Result<usize, Error> {
        match self.recv(buffer, control)? {
            0 => Err(Error::Closed {
                path: PATH,
                doing: "receiving",
            }),
            got => Ok(got),
        }
    }

    /// Fills `buffer`.
    #[inline]
    pub(super) fn recv_exact(&self, buffer: &mut [u8], control: &Control) -> Result<(), Error> {
        let mut at = 0;
        while at < buffer.len() {
            at += self.recv_some(&mut buffer[at..], control)?;
        }
        Ok(())
    }

    /// Sends a message, and stamps the call.
    #[inline]
    pub(super) fn send_message(
        &self,
        data: &[u8],
        control: &Control,
        stamper: &mut Stamper,
    ) -> Result<(), Error> {
        stamper.pass(Gate::SocketOutBegin);
        self.send_all(data, control)?;
        stamper.pass(Gate::SocketOutEnd);
        Ok(())
    }

    /// Receives a message, and stamps the return of the call.
    #[inline]
    pub(super) fn recv_message(
        &self,
        buffer: &mut [u8],
        control: &Control,
        stamper: &mut Stamper,
    ) -> Result<(), Error> {
        if !stamper.of_socket().is_empty() {
            return self.recv_with_stamps(buffer, control, stamper);
        }
        self.recv_exact(buffer, control)?;
        stamper.pass(Gate::SocketInEnd);
        Ok(())
    }

    /// Receives where the kernel stamps for the socket. Everything sent before has been stamped by now.
    #[cold]
    fn recv_with_stamps(
        &self,
        buffer: &mut [u8],
        control: &Control,
        stamper: &mut Stamper,
    ) -> Result<(), Error> {
        let flags = match self.waiting {
            Waiting::Blocking => 0,
            Waiting::BusyPoll => libc::MSG_DONTWAIT,
        };
        let (mut at, mut came) = (0, None);
        while at < buffer.len() {
            let (got, time) = persist(self.waiting, control, "receiving", || {
                software_stamps::recv(self.fd(), &mut buffer[at..], flags)
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
            })?;
            if got == 0 {
                return Err(Error::Closed {
                    path: PATH,
                    doing: "receiving",
                });
            }
            at += got;
            came = time;
        }
        stamper.pass(Gate::SocketInEnd);
        if let Some(came) = came {
            stamper.came(came);
        }
        self.take_stamps(|sent, at| match sent {
            Sent::Passed(gate) => stamper.sent(gate, at),
            Sent::Acknowledged => stamper.acknowledged(at),
        })?;
        stamper.next_message();
        Ok(())
    }

    fn take_stamps(&self, each: impl FnMut(Sent, u64)) -> Result<(), Error> {
        software_stamps::of_sends(self.fd(), each)
            .map_err(|error| Error::system(PATH, "reading time stamps of a socket", error))
    }

    /// Has the kernel make the stamps that a slice wants.
    pub(super) fn begin_stamps(&self, stamper: &Stamper) -> Result<(), Error> {
        if stamper.of_socket().is_empty() {
            return Ok(());
        }
        software_stamps::switch(self.fd(), stamper.of_socket()).map_err(|error| {
            Error::system(PATH, "asking for time stamps (SO_TIMESTAMPING)", error)
        })?;
        if stamper.of_socket().contains(Gate::DriverOutEnd) {
            software_stamps::settle();
        }
        Ok(())
    }

    /// Takes the last stamps of a slice and ends their making.
    pub(super) fn end_stamps(&self, stamper: &mut Stamper) -> Result<(), Error> {
        if stamper.of_socket().is_empty() {
            return Ok(());
        }
        self.take_stamps(|sent, at| match sent {
            Sent::Passed(gate) => stamper.sent(gate, at),
            // No message of this slice has brought it.
            Sent::Acknowledged => {}
        })?;
        software_stamps::switch(self.fd(), tollgate_gate::GateSet::EMPTY)
            .map_err(|error| Error::system(PATH, "ending time stamps (SO_TIMESTAMPING)", error))
    }

    /// Waits for the other end's FIN.
    ///
    /// # Errors
    /// [`Error::Peer`] when it sends data instead.
    pub(super) fn recv_end(&self, control: &Control) -> Result<(), Error> {
        match self.recv(&mut [0], control)? {
            0 => Ok(()),
            _ => Err(Error::Peer {
                path: PATH,
                reason: "it sent more than it was asked for".to_owned(),
            }),
        }
    }

    /// Lets go of a last short segment that Nagle's algorithm holds back.
    pub(super) fn push(&self) -> Result<(), Error> {
        let set = |on| {
            sockopt::set_tcp_nodelay(&self.fd, on)
                .map_err(|error| Error::system(PATH, "setting TCP_NODELAY", error))
        };
        set(true)?;
        set(false)
    }

    /// Ends one direction or both.
    pub(super) fn shutdown(&self, how: Shutdown) -> Result<(), Error> {
        shutdown(&self.fd, how)
            .map_err(|error| Error::system(PATH, "shutting a connection down", error))
    }

    #[inline]
    fn recv(&self, buffer: &mut [u8], control: &Control) -> Result<usize, Error> {
        let flags = match self.waiting {
            Waiting::Blocking => RecvFlags::empty(),
            Waiting::BusyPoll => RecvFlags::DONTWAIT,
        };
        persist(self.waiting, control, "receiving", || {
            recv(&self.fd, &mut *buffer, flags).map(|(_, got)| got)
        })
    }
}

/// Repeats a call until it gives a result: after a signal always, after EAGAIN when polling. EAGAIN of a blocking call
/// means that its timeout has passed.
#[inline]
fn persist<T>(
    waiting: Waiting,
    control: &Control,
    doing: &'static str,
    mut call: impl FnMut() -> rustix::io::Result<T>,
) -> Result<T, Error> {
    let mut spin = Spin::new(TURNS);
    loop {
        match call() {
            Ok(result) => return Ok(result),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if waiting == Waiting::BusyPoll => match spin.turn() {
                Look::Go => {}
                Look::Around if control.is_quit() => return Err(Error::Stopped { path: PATH }),
                Look::Around if control.failure().is_some() => {
                    return Err(Error::Closed { path: PATH, doing });
                }
                Look::Around => {}
                Look::Late => return Err(late(doing)),
            },
            Err(Errno::AGAIN) => return Err(late(doing)),
            Err(Errno::CONNRESET | Errno::PIPE) => return Err(Error::Closed { path: PATH, doing }),
            Err(error) => return Err(Error::system(PATH, doing, error)),
        }
    }
}

fn late(doing: &'static str) -> Error {
    Error::Timeout {
        path: PATH,
        doing,
        seconds: PATIENCE.as_secs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_has_its_congestion_control_before_it_connects() {
        let available = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let available = std::fs::read_to_string(available).unwrap_or_default();
        if !available.split_whitespace().any(|name| name == CONGESTION) {
            tollgate_skip::skipped!("this kernel has no {CONGESTION}");
            return;
        }
        let socket = sending_socket().unwrap();
        assert_eq!(getpeername(&socket).err(), Some(Errno::NOTCONN));
        assert_eq!(congestion_of(&socket).unwrap(), CONGESTION);
    }
}

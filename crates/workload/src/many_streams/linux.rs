//! Sockets of Linux as the senders of many streams, over one device of a veth pair.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll;

use super::{EVENTS, ManyStreams, NAP, PATH, PATIENCE, WRITE, nap};
use crate::error::Error;
use crate::kernel::{Pair, stream_to};

/// Writes after which epoll(7) is asked, as our stack asks its device.
const WRITES: usize = 4;

/// Sockets with their connections.
pub(super) struct Sender {
    poll: OwnedFd,
    sockets: Vec<TcpStream>,
    /// Connections that may take bytes, by their place.
    writable: VecDeque<usize>,
    /// Tells of each connection whether it is among those.
    waits: Vec<bool>,
}

impl Sender {
    /// Opens the connections from the client's side of the pair.
    pub(super) fn new(
        streams: &ManyStreams,
        pair: &Pair,
        to: SocketAddrV4,
        over: &AtomicBool,
    ) -> Result<Self, Error> {
        let fail = |error: std::io::Error| Error::system(PATH, "opening connections", error);
        let sockets = pair.client(|| {
            let mut sockets = Vec::with_capacity(streams.connections);
            while sockets.len() < streams.connections && !over.load(Ordering::Relaxed) {
                let socket = stream_to(to, PATIENCE).map_err(|error| error.on(PATH))?;
                socket.set_nonblocking(true).map_err(fail)?;
                sockets.push(socket);
            }
            Ok(sockets)
        })?;
        let watch = |error| Error::system(PATH, "watching a socket", error);
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(watch)?;
        for (place, socket) in sockets.iter().enumerate() {
            // Once each time that it takes bytes again.
            let events = epoll::EventFlags::OUT | epoll::EventFlags::ET;
            let place = epoll::EventData::new_u64(place as u64);
            epoll::add(&poll, socket, place, events).map_err(watch)?;
        }
        Ok(Self {
            poll,
            writable: (0..sockets.len()).collect(),
            waits: vec![true; sockets.len()],
            sockets,
        })
    }

    /// Sends on all connections until it is over.
    pub(super) fn send(mut self, over: &AtomicBool) -> Result<(), Error> {
        let data = vec![0; WRITE];
        let mut ready = Vec::with_capacity(EVENTS);
        while !over.load(Ordering::Relaxed) {
            for _ in 0..WRITES {
                let Some(place) = self.writable.pop_front() else {
                    break;
                };
                match self.sockets[place].write(&data) {
                    Ok(len) if len == data.len() => self.writable.push_back(place),
                    // epoll(7) says when it takes more.
                    Ok(_) => self.waits[place] = false,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.waits[place] = false;
                    }
                    // The receiver resets the connections at the end.
                    Err(_) if over.load(Ordering::Relaxed) => return Ok(()),
                    Err(error) => return Err(Error::system(PATH, "sending", error)),
                }
            }
            let patience = nap(if self.writable.is_empty() {
                NAP
            } else {
                std::time::Duration::ZERO
            });
            ready.clear();
            let room = rustix::buffer::spare_capacity(&mut ready);
            epoll::wait(&self.poll, room, Some(&patience))
                .map_err(|error| Error::system(PATH, "waiting for room", error))?;
            for event in &ready {
                let place = event.data.u64() as usize;
                if !self.waits[place] {
                    self.waits[place] = true;
                    self.writable.push_back(place);
                }
            }
        }
        Ok(())
    }
}

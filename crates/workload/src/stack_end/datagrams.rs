//! Datagrams at one end.

use std::net::SocketAddr;
use std::time::Duration;

use tollgate_link::Waitable;

use super::{End, Wait};
use crate::error::Error;
use crate::spec::Spec;
use crate::stack_datagrams::Datagrams;

impl<L: Waitable> End<L> {
    /// Opens the socket by which messages go from a port, or from a free one where that is 0, to `to`. One that was open is closed.
    pub(crate) fn open_datagrams(
        &mut self,
        spec: &Spec,
        port: u16,
        to: SocketAddr,
    ) -> Result<(), Error> {
        let path = self.path;
        if let Some(datagrams) = self.datagrams.take() {
            datagrams.close(path, &mut self.active())?;
        }
        let datagrams = Datagrams::open(path, spec, &mut self.active(), port, to)?;
        self.datagrams = Some(datagrams);
        Ok(())
    }

    fn datagrams(&self) -> Result<Datagrams, Error> {
        self.datagrams.ok_or(Error::Closed {
            path: self.path,
            doing: "using a UDP socket that was never opened",
        })
    }

    /// Sends a datagram, which leaves with the next call that polls.
    #[inline]
    pub(crate) fn send_datagram(
        &mut self,
        message: &[u8],
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (datagrams, path) = (self.datagrams()?, self.path);
        let mut wait = Wait::new("sending a datagram");
        while !datagrams.send(path, &mut self.active(), message)? {
            self.poll();
            self.wait(&mut wait, &mut around)?;
        }
        Ok(())
    }

    /// Fills `into` with the datagram that comes next, sending first what waits.
    #[inline]
    pub(crate) fn receive_datagram(
        &mut self,
        into: &mut [u8],
        patience: Duration,
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (datagrams, path) = (self.datagrams()?, self.path);
        let mut wait = Wait::within(patience, "receiving a datagram");
        loop {
            self.tick();
            let mut active = self.stack.at(self.now, &mut self.pool);
            if datagrams.poll_receive(path, &mut active, &mut self.link, into)? {
                return Ok(());
            }
            self.wait(&mut wait, &mut around)?;
        }
    }
}

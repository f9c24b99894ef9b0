//! One end of a connection: an application that writes what its peer can foresee, and checks what it reads.

use super::random::Random;
use super::scenario::Behaviour;
use sha2::{Digest, Sha256};
use std::num::NonZeroU8;
use std::time::Duration;
use tollgate_stack::config::{Receive, Transmit};
use tollgate_stack::socket::{KeepAlive, Readiness};
use tollgate_stack::{
    Active, Boundary, Buffer, ConnId, Error, Instant, Pool, Received, SocketOption, Stack,
};

/// A host while one of its applications has the word.
pub struct Host<'a> {
    /// Its stack.
    pub stack: &'a mut Stack,
    /// The pool of both hosts.
    pub pool: &'a mut Pool,
    /// The time.
    pub now: Instant,
}

impl Host<'_> {
    /// The stack, ready for a call.
    pub fn at(&mut self) -> Active<'_> {
        self.stack.at(self.now, self.pool)
    }

    fn buffer_of(&mut self, bytes: &[u8]) -> Option<Buffer> {
        let mut buffer = self.pool.buffer(bytes.len()).ok()?;
        self.pool.payload_mut(&mut buffer).copy_from_slice(bytes);
        Some(buffer)
    }
}

/// Reason for which an end cannot go on.
pub type Broken = String;

/// The bytes of one direction, made from a seed.
#[derive(Clone, Debug)]
struct Stream {
    random: Random,
    word: [u8; 8],
    at: usize,
}

impl Stream {
    fn new(random: Random) -> Self {
        Self {
            random,
            word: [0; 8],
            at: 8,
        }
    }

    fn next(&mut self) -> u8 {
        if self.at == 8 {
            self.word = self.random.next().to_le_bytes();
            self.at = 0;
        }
        self.at += 1;
        self.word[self.at - 1]
    }
}

/// One direction, as seen from one of its ends.
#[derive(Debug)]
struct Direction {
    stream: Stream,
    bytes: u64,
    hash: Sha256,
}

impl Direction {
    fn new(stream: Stream) -> Self {
        Self {
            stream,
            bytes: 0,
            hash: Sha256::new(),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
    }
}

/// Bytes that a connection is to carry.
#[derive(Clone, Debug)]
pub struct Plan {
    seeds: [Random; 2],
    bytes: [u64; 2],
}

impl Plan {
    /// Draws the plan of a connection.
    pub fn new(random: &mut Random, most: u64) -> Self {
        let bytes = [0, 1].map(|_| {
            if random.one_in(6) {
                0
            } else {
                random.between(1, most)
            }
        });
        Self {
            seeds: [random.fork(), random.fork()],
            bytes,
        }
    }

    /// The first bytes that the client is to send, at most so many.
    pub fn first_bytes(&self, most: u64) -> Vec<u8> {
        let mut stream = Stream::new(self.seeds[0].clone());
        (0..self.bytes[0].min(most))
            .map(|_| stream.next())
            .collect()
    }
}

/// Reason for which an end was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Not yet.
    Open,
    /// Closed after everything was sent and read.
    Closed,
    /// Aborted, or ended by the other's abort.
    Aborted,
}

/// An end.
#[derive(Debug)]
pub struct End {
    conn: ConnId,
    random: Random,
    behaviour: Behaviour,
    limit: u64,
    /// Bytes that may be queued and not sent.
    low_water: u64,
    connected: bool,
    writing: Direction,
    to_write: u64,
    /// Bytes made but not taken by the stack yet.
    chunk: Vec<u8>,
    reading: Direction,
    to_read: u64,
    readable: bool,
    writable: bool,
    next_write: Instant,
    next_read: Instant,
    close_at: Option<Instant>,
    abort_at: Option<Instant>,
    shut: bool,
    end_seen: bool,
    /// It polls with its buffer posted.
    pub posts: bool,
    held: Vec<(Instant, Buffer)>,
    over: Over,
    /// Reads that found data in the stack's queue.
    pub queued_reads: u64,
    /// Writes of buffers of the pool.
    pub zero_copies: u64,
    /// Writes that the stack copied.
    pub copies: u64,
}

impl End {
    /// An end of a connection that is being opened; `host` says which.
    pub fn new(
        conn: ConnId,
        host: usize,
        plan: &Plan,
        mut random: Random,
        behaviour: Behaviour,
        send_buffer: u32,
        now: Instant,
    ) -> Self {
        let [mine, theirs] = [host, 1 - host];
        // One of both ends aborts.
        let aborts = behaviour.aborts && plan.bytes[mine] <= plan.bytes[theirs];
        Self {
            conn,
            behaviour,
            limit: u64::from(send_buffer),
            low_water: u64::MAX,
            connected: false,
            writing: Direction::new(Stream::new(plan.seeds[mine].clone())),
            to_write: plan.bytes[mine],
            chunk: Vec::new(),
            reading: Direction::new(Stream::new(plan.seeds[theirs].clone())),
            to_read: plan.bytes[theirs],
            readable: false,
            writable: false,
            next_write: now,
            next_read: now,
            close_at: None,
            abort_at: aborts.then(|| now + random.up_to(Duration::from_millis(150))),
            shut: false,
            end_seen: false,
            // Drawn in any case, so that the run is the same otherwise.
            posts: match (random.one_in(3), behaviour.receive) {
                (drawn, None) => drawn,
                (_, Some(receive)) => receive == Receive::Posted,
            },
            held: Vec::new(),
            over: Over::Open,
            queued_reads: 0,
            zero_copies: 0,
            copies: 0,
            random,
        }
    }

    /// The connection was opened with the first bytes.
    pub fn has_written(&mut self, bytes: &[u8]) {
        for _ in bytes {
            self.writing.stream.next();
        }
        self.writing.take(bytes);
    }

    /// The connection's handle.
    pub const fn conn(&self) -> ConnId {
        self.conn
    }

    /// Bytes written and read, and how far the application has come otherwise: it changes when anything moves.
    pub fn progress(&self) -> u64 {
        let steps = u64::from(self.connected)
            + u64::from(self.end_seen)
            + u64::from(self.over != Over::Open);
        self.writing.bytes + self.reading.bytes + steps
    }

    /// Tells whether the application is done with the connection.
    pub fn is_over(&self) -> bool {
        self.over != Over::Open && self.held.is_empty()
    }

    /// Tells whether a read may be tried with a posted buffer now.
    pub fn may_post(&self, now: Instant) -> bool {
        self.posts
            && self.connected
            && self.over == Over::Open
            && !self.end_seen
            && self.next_read <= now
    }

    /// When the application wants to go on by itself.
    pub fn next_event(&self, now: Instant) -> Option<Instant> {
        let held = self.held.iter().map(|(until, _)| *until);
        if self.over != Over::Open {
            return held.min();
        }
        let write = (self.writable && !self.shut).then_some(self.next_write);
        let read = ((self.readable || self.posts) && !self.end_seen).then_some(self.next_read);
        [write, read, self.close_at, self.abort_at]
            .into_iter()
            .flatten()
            .chain(held)
            .filter(|&at| at > now)
            .min()
    }

    /// Takes note of an event.
    pub fn event(&mut self, ready: Readiness) {
        self.connected |= ready.connected();
        self.readable |= ready.readable() || ready.closed();
        self.writable |= ready.writable() || ready.closed();
    }

    /// Does what the application wants to do now; returns whether it did anything.
    pub fn act(&mut self, host: &mut Host<'_>) -> Result<bool, Broken> {
        let now = host.now;
        let before = self.held.len();
        while let Some(due) = self.held.iter().position(|(until, _)| *until <= now) {
            let (_, buffer) = self.held.swap_remove(due);
            host.pool.free(buffer);
        }
        let mut acted = self.held.len() != before;
        if self.over != Over::Open || !self.connected {
            return Ok(acted);
        }
        if self.abort_at.is_some_and(|at| at <= now) {
            host.at()
                .abort(self.conn)
                .map_err(|e| format!("abort: {e}"))?;
            self.over = Over::Aborted;
            return Ok(true);
        }
        if self.readable && !self.end_seen && self.next_read <= now {
            acted |= self.read(host)?;
        }
        if self.over == Over::Open && self.writable && !self.shut && self.next_write <= now {
            acted |= self.write(host)?;
        }
        if self.over == Over::Open && self.end_seen && self.writing.bytes == self.to_write {
            acted |= self.close(host)?;
        }
        Ok(acted)
    }

    fn read(&mut self, host: &mut Host<'_>) -> Result<bool, Broken> {
        let now = host.now;
        if self.random.one_in(4) && self.held.len() < 3 {
            match host.at().receive_buffer(self.conn) {
                Ok(Some(buffer)) => {
                    let bytes = host.pool.payload(&buffer).to_vec();
                    self.check(&bytes)?;
                    self.queued_reads += 1;
                    self.held
                        .push((now + self.random.up_to(self.behaviour.read_pause), buffer));
                    self.pause_reading(now);
                }
                Ok(None) => self.end(now)?,
                Err(Error::WouldBlock) => self.readable = false,
                Err(error) => return self.failed(host, error),
            }
            return Ok(true);
        }
        let mut buffer = vec![0; self.read_size()];
        match host.at().receive(self.conn, &mut buffer) {
            Ok(received) => {
                self.queued_reads += u64::from(matches!(received, Received::Data(_)));
                self.took(received, &buffer, now)?;
            }
            Err(error) => return self.failed(host, error),
        }
        Ok(true)
    }

    /// The size of the next read.
    pub fn read_size(&mut self) -> usize {
        self.random.skewed(1, self.behaviour.read) as usize
    }

    /// Takes note of what a read found.
    pub fn took(&mut self, received: Received, buffer: &[u8], now: Instant) -> Result<(), Broken> {
        match received {
            Received::Data(bytes) => {
                self.check(&buffer[..bytes])?;
                self.pause_reading(now);
            }
            Received::Nothing => self.readable = false,
            Received::End => self.end(now)?,
        }
        Ok(())
    }

    /// Takes note of an error of the connection.
    pub fn failed(&mut self, host: &mut Host<'_>, error: Error) -> Result<bool, Broken> {
        let expected = self.behaviour.aborts
            && matches!(
                error,
                Error::Reset | Error::TimedOut | Error::NotConnected | Error::Refused
            );
        if !expected {
            return Err(format!("the connection ended with: {error}"));
        }
        // The handle is given back; why the connection ended is known already.
        let _ = host.at().close(self.conn);
        self.over = Over::Aborted;
        Ok(true)
    }

    fn check(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let at = self.reading.bytes;
        for (n, &byte) in bytes.iter().enumerate() {
            if byte != self.reading.stream.next() {
                return Err(format!("byte {} is not what was sent", at + n as u64));
            }
        }
        self.reading.take(bytes);
        if self.reading.bytes > self.to_read {
            return Err(format!(
                "{} bytes arrived of {}",
                self.reading.bytes, self.to_read
            ));
        }
        Ok(())
    }

    fn pause_reading(&mut self, now: Instant) {
        if self.random.one_in(6) {
            self.next_read = now + self.random.up_to(self.behaviour.read_pause);
        }
    }

    fn end(&mut self, now: Instant) -> Result<(), Broken> {
        if self.reading.bytes != self.to_read && !self.behaviour.aborts {
            return Err(format!(
                "the end came after {} of {}",
                self.reading.bytes, self.to_read
            ));
        }
        self.end_seen = true;
        self.close_at = Some(now + self.random.up_to(Duration::from_millis(300)));
        Ok(())
    }

    fn write(&mut self, host: &mut Host<'_>) -> Result<bool, Broken> {
        let now = host.now;
        if self.writing.bytes == self.to_write && self.chunk.is_empty() {
            return self.shut_down(host);
        }
        if self.chunk.is_empty() {
            let left = self.to_write - self.writing.bytes;
            let len = self.random.skewed(1, self.behaviour.write).min(left);
            self.chunk = (0..len).map(|_| self.writing.stream.next()).collect();
        }
        if self.behaviour.options && self.random.one_in(3) {
            self.change_option(host)?;
        }
        let info = host
            .at()
            .info(self.conn)
            .map_err(|e| format!("info: {e}"))?;
        let sent = if self.behaviour.options && self.random.one_in(3) {
            self.write_in_particular(host)
        } else if self.sends_a_buffer() {
            let len = self
                .chunk
                .len()
                .min(usize::from(info.mss))
                .min(self.limit as usize / 4);
            match host.buffer_of(&self.chunk[..len]) {
                None => Err(Error::WouldBlock),
                Some(buffer) => match host.at().send_buffer(self.conn, buffer) {
                    Ok(()) => {
                        self.zero_copies += 1;
                        Ok(len)
                    }
                    Err((error, buffer)) => {
                        host.pool.free(buffer);
                        Err(error)
                    }
                },
            }
        } else {
            self.copies += 1;
            host.at().send(self.conn, &self.chunk)
        };
        match sent {
            Ok(taken) => {
                self.writing.take(&self.chunk[..taken]);
                self.chunk.drain(..taken);
                if self.random.one_in(4) {
                    self.next_write = now + self.random.up_to(self.behaviour.write_pause);
                }
                Ok(true)
            }
            Err(Error::WouldBlock) => {
                // After a timeout some are neither in flight nor unsent.
                let queued = self.writing.bytes - info.bytes_acknowledged;
                if queued >= self.limit / 2 || u64::from(info.unsent) >= self.low_water {
                    // An event tells when there is room.
                    self.writable = false;
                } else if host.pool.available() <= host.pool.capacity() / 8 + 8 {
                    // Nothing tells when frames come back to the pool.
                    self.next_write = now
                        + Duration::from_millis(2)
                        + self.random.up_to(Duration::from_millis(50));
                } else {
                    return Err(format!(
                        "a send was refused with {queued} bytes queued and {} frames free",
                        host.pool.available()
                    ));
                }
                Ok(true)
            }
            Err(error) => self.failed(host, error),
        }
    }

    fn sends_a_buffer(&mut self) -> bool {
        match (self.random.one_in(4), self.behaviour.transmit) {
            (drawn, None) => drawn,
            (_, Some(transmit)) => transmit == Transmit::ZeroCopy,
        }
    }

    /// Writes with what follows, or urgently.
    fn write_in_particular(&mut self, host: &mut Host<'_>) -> Result<usize, Error> {
        let mut stack = host.at();
        match self.random.between(0, 4) {
            0 => stack.send_urgent(self.conn, &self.chunk),
            1 => stack.send_with(self.conn, &self.chunk, Boundary::EndOfRecord),
            _ => stack.send_with(self.conn, &self.chunk, Boundary::More),
        }
    }

    /// Sets an option to a value that none of the bytes should mind.
    fn change_option(&mut self, host: &mut Host<'_>) -> Result<(), Broken> {
        let on = self.random.one_in(2);
        let option = match self.random.between(0, 8) {
            0 | 1 => SocketOption::NoDelay(on),
            2 => SocketOption::Cork(self.random.one_in(4)),
            3 => SocketOption::QuickAcknowledgments(on),
            4 => {
                let bytes = self.random.skewed(4096, 60_000);
                self.limit = bytes;
                SocketOption::SendBuffer(bytes as u32)
            }
            5 => SocketOption::Diffserv(if on { 46 } else { 0 }),
            6 => SocketOption::TimeToLive(NonZeroU8::new(if on { 9 } else { 0 })),
            _ => {
                let mark = on.then(|| self.random.skewed(1, 20_000));
                self.low_water = mark.unwrap_or(u64::MAX);
                SocketOption::NotSentLowWater(mark.map(|bytes| bytes as u32))
            }
        };
        host.at()
            .set_option(self.conn, option)
            .map_err(|e| format!("{option:?}: {e}"))
    }

    fn shut_down(&mut self, host: &mut Host<'_>) -> Result<bool, Broken> {
        let now = host.now;
        if self.random.one_in(3) {
            // Later.
            self.next_write = now + self.random.up_to(Duration::from_millis(200));
            return Ok(true);
        }
        if self.end_seen && self.random.one_in(2) {
            // Closing will do.
            self.shut = true;
            return Ok(true);
        }
        self.shut = true;
        match host.at().shutdown(self.conn) {
            Ok(()) => Ok(true),
            Err(error) => self.failed(host, error),
        }
    }

    fn close(&mut self, host: &mut Host<'_>) -> Result<bool, Broken> {
        let now = host.now;
        if self.close_at.is_none_or(|at| at > now) {
            return Ok(false);
        }
        match host.at().close(self.conn) {
            Ok(()) => self.over = Over::Closed,
            Err(_) if self.behaviour.aborts => self.over = Over::Aborted,
            Err(error) => return Err(format!("close: {error}")),
        }
        Ok(true)
    }

    /// Turns keepalive on, so that an abort is noticed whose RST is lost.
    pub fn watch(&self, host: &mut Host<'_>) -> Result<(), Broken> {
        let keep = KeepAlive {
            idle: Duration::from_secs(5),
            interval: Duration::from_secs(1),
            count: 8,
        };
        host.at()
            .set_option(self.conn, SocketOption::KeepAlive(Some(keep)))
            .map_err(|e| format!("keepalive: {e}"))
    }

    /// Account of the end, for a failure's text.
    pub fn describe(&self, host: &mut Host<'_>) -> String {
        let info = host
            .at()
            .info(self.conn)
            .map_or_else(|e| format!("{e}"), |info| format!("{info:?}"));
        format!(
            "wrote {} of {}, read {} of {}, readable {}, writable {}, shut {}, end seen {}, {:?}\n      {info}",
            self.writing.bytes,
            self.to_write,
            self.reading.bytes,
            self.to_read,
            self.readable,
            self.writable,
            self.shut,
            self.end_seen,
            self.over,
        )
    }
}

/// Compares what both ends saw of both directions; returns the bytes carried.
pub fn compare(ends: &[End; 2]) -> Result<u64, Broken> {
    for (from, to) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
        if from.over == Over::Closed && to.over == Over::Closed {
            let (sent, read) = (&from.writing, &to.reading);
            if sent.bytes != read.bytes
                || sent.hash.clone().finalize() != read.hash.clone().finalize()
            {
                return Err(format!(
                    "{} bytes were sent, {} read, or their hashes differ",
                    sent.bytes, read.bytes
                ));
            }
        }
    }
    Ok(ends[0].reading.bytes + ends[1].reading.bytes)
}

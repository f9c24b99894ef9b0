//! Slices: the timed end starts and ends them at the other end, which sleeps in between.
//!
//! One [`Control`] lies where both ends see it: in an `Arc` between threads, in shared memory between processes. The
//! timed end orders a slice of so many iterations and waits until the other says that it stands ready; after the slice
//! the other end says that it is done and sleeps on a futex (futex(2)) until the next order. All words are atomics that start
//! as zero, so a fresh shared mapping is a valid `Control`.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use tollgate_run::PathId;

use crate::error::Error;

/// Longest wait of an end for the other. Generous, since machines under load stall for seconds.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Interval in which a waiting end checks that the other still lives.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The longest failure message that crosses, in bytes.
const REASON: usize = 1000;
/// Numbers that cross with a slice that is done, at most.
pub(crate) const NUMBERS: usize = 48;

/// Control of the slices at the other end: in this process, in a second one or on another host.
pub(crate) trait OtherEnd {
    /// Orders a slice of so many iterations and waits until the other end stands ready for it.
    fn begin(&mut self, iterations: u64) -> Result<(), Error>;

    /// Waits until the other end is done with the slice.
    fn finish(&mut self) -> Result<(), Error>;

    /// Refuses when the other end is known to have failed or died; asked now and then while this one waits.
    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Connections before `crr` moves on to the next destination.
pub(crate) const CONNECTIONS_EACH: u64 = 1024;

/// Which of `count` destinations the connection with this number goes to.
pub(crate) const fn destination(connection: u64, count: usize) -> usize {
    (connection / CONNECTIONS_EACH) as usize % count
}

/// The words that both ends share.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Control {
    /// Number of the order; the other end sleeps on it.
    order: AtomicU32,
    /// The last order for which the other end stands ready.
    ready: AtomicU32,
    /// The last order that is done.
    done: AtomicU32,
    /// 1 when both ends are to stop.
    quit: AtomicU32,
    /// 1 when the other end has failed and `reason` holds why.
    failed: AtomicU32,
    reason_len: AtomicU32,
    /// Iterations of the present order.
    iterations: AtomicU64,
    /// Numbers that the other end tells of itself.
    numbers: [AtomicU64; NUMBERS],
    reason: [AtomicU8; REASON],
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}

impl Control {
    /// A control with no order given.
    pub const fn new() -> Self {
        Self {
            order: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            done: AtomicU32::new(0),
            quit: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            reason_len: AtomicU32::new(0),
            iterations: AtomicU64::new(0),
            numbers: [const { AtomicU64::new(0) }; NUMBERS],
            reason: [const { AtomicU8::new(0) }; REASON],
        }
    }

    /// Orders a slice and waits until the other end stands ready for it. `alive` is asked now and then whether the other
    /// end still exists, and gives the reason when it does not.
    ///
    /// # Errors
    /// [`Error::Peer`] when it failed or died, [`Error::Timeout`].
    pub fn begin(
        &self,
        path: PathId,
        iterations: u64,
        alive: impl FnMut() -> Result<(), String>,
    ) -> Result<(), Error> {
        self.iterations.store(iterations, Ordering::Relaxed);
        let order = self.order.load(Ordering::Relaxed).wrapping_add(1);
        self.order.store(order, Ordering::Release);
        wake(&self.order);
        self.await_word(
            &self.ready,
            order,
            path,
            "waiting for the other end to stand ready",
            alive,
        )
    }

    /// Waits until the other end says that the slice is done.
    ///
    /// # Errors
    /// [`Error::Peer`] when it failed or died, [`Error::Timeout`].
    pub fn finish(
        &self,
        path: PathId,
        alive: impl FnMut() -> Result<(), String>,
    ) -> Result<(), Error> {
        let order = self.order.load(Ordering::Relaxed);
        self.await_word(
            &self.done,
            order,
            path,
            "waiting for the other end to finish a slice",
            alive,
        )
    }

    /// Tells the other end to stop, in the middle of a slice or asleep. It does not wait.
    pub fn quit(&self) {
        self.quit.store(1, Ordering::Release);
        self.order.fetch_add(1, Ordering::Release);
        wake(&self.order);
    }

    /// Tells whether both ends are to stop. Busy-polling ends look at it now and then.
    pub fn is_quit(&self) -> bool {
        self.quit.load(Ordering::Acquire) != 0
    }

    /// The numbers that the other end has told with the slices that are done; zero where it told none.
    pub fn numbers(&self) -> [u64; NUMBERS] {
        std::array::from_fn(|at| self.numbers[at].load(Ordering::Relaxed))
    }

    /// The reason why the other end failed, if it did.
    pub fn failure(&self) -> Option<String> {
        (self.failed.load(Ordering::Acquire) != 0).then(|| {
            let len = (self.reason_len.load(Ordering::Relaxed) as usize).min(REASON);
            let bytes: Vec<u8> = self.reason[..len]
                .iter()
                .map(|byte| byte.load(Ordering::Relaxed))
                .collect();
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }

    fn await_word(
        &self,
        word: &AtomicU32,
        order: u32,
        path: PathId,
        doing: &'static str,
        mut alive: impl FnMut() -> Result<(), String>,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = word.load(Ordering::Acquire);
            if seen == order {
                return Ok(());
            }
            if let Some(reason) = self.failure() {
                return Err(Error::Peer { path, reason });
            }
            if let Err(reason) = alive() {
                // It may have left its own word of why just before it went.
                return Err(Error::Peer {
                    path,
                    reason: self.failure().unwrap_or(reason),
                });
            }
            if Instant::now() >= deadline {
                return Err(Error::Timeout {
                    path,
                    doing,
                    seconds: PATIENCE.as_secs(),
                });
            }
            sleep_on(word, seen, Some(LOOK_AGAIN));
        }
    }
}

/// The other end's view of a [`Control`]: takes orders one after the other.
#[derive(Debug)]
pub struct Server<'a> {
    control: &'a Control,
    seen: u32,
}

impl<'a> Server<'a> {
    /// Takes orders from this control. Make one, before the first order is given.
    pub const fn new(control: &'a Control) -> Self {
        Self { control, seen: 0 }
    }

    /// Sleeps until there is an order and gives its iterations; `None` when it is time to stop.
    pub fn next_order(&mut self) -> Option<u64> {
        loop {
            if self.control.is_quit() {
                return None;
            }
            let order = self.control.order.load(Ordering::Acquire);
            if order != self.seen {
                self.seen = order;
                return Some(self.control.iterations.load(Ordering::Relaxed));
            }
            sleep_on(&self.control.order, order, None);
        }
    }

    /// Says that this end stands ready for the order.
    pub fn ready(&self) {
        self.control.ready.store(self.seen, Ordering::Release);
        wake(&self.control.ready);
    }

    /// Tells numbers, which the other end has with the next order that is done; those beyond `NUMBERS` are left out.
    pub fn tell(&self, numbers: &[u64]) {
        for (to, from) in self.control.numbers.iter().zip(numbers) {
            to.store(*from, Ordering::Relaxed);
        }
    }

    /// Says that the order is done.
    pub fn done(&self) {
        self.control.done.store(self.seen, Ordering::Release);
        wake(&self.control.done);
    }

    /// Says that this end has failed and why. It takes no orders after that.
    pub fn fail(&self, reason: &str) {
        let mut len = reason.len().min(REASON);
        while !reason.is_char_boundary(len) {
            len -= 1;
        }
        for (to, from) in self.control.reason.iter().zip(&reason.as_bytes()[..len]) {
            to.store(*from, Ordering::Relaxed);
        }
        self.control.reason_len.store(len as u32, Ordering::Relaxed);
        self.control.failed.store(1, Ordering::Release);
        wake(&self.control.ready);
        wake(&self.control.done);
    }
}

/// Sleeps while `word` is `seen`, at most for `limit`. May wake early.
pub(crate) fn sleep_on(word: &AtomicU32, seen: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| futex::Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    });
    match futex::wait(word, Flags::empty(), seen, limit.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        // A system without futexes: give the core away, the caller looks again.
        Err(_) => std::thread::sleep(Duration::from_millis(1)),
    }
}

pub(crate) fn wake(word: &AtomicU32) {
    // It can only fail for an address that is not mapped, and a reference is.
    let _ = futex::wake(word, Flags::empty(), i32::MAX as u32);
}

/// Counts the turns of a busy-polling loop and says now and then that it is time to look around.
#[derive(Debug)]
pub(crate) struct Spin {
    turns: u32,
    every: u32,
    patience: Duration,
    deadline: Option<Instant>,
}

/// Result of a check while polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Keep polling.
    Go,
    /// No progress for as long as the loop is patient.
    Late,
    /// Go on, but look whether the other end lives.
    Around,
}

impl Spin {
    /// A loop that has just begun; it looks around once in `every` turns.
    pub(crate) const fn new(every: u32) -> Self {
        Self::within(every, PATIENCE)
    }

    /// A loop that has just begun, with a patience of its own.
    pub(crate) const fn within(every: u32, patience: Duration) -> Self {
        Self {
            turns: 0,
            every,
            patience,
            deadline: None,
        }
    }

    /// One more turn without progress.
    #[inline]
    pub(crate) fn turn(&mut self) -> Look {
        self.turns += 1;
        if self.turns < self.every {
            return Look::Go;
        }
        self.look()
    }

    #[cold]
    fn look(&mut self) -> Look {
        self.turns = 0;
        let now = Instant::now();
        match self.deadline {
            None => {
                self.deadline = Some(now + self.patience);
                Look::Around
            }
            Some(deadline) if now >= deadline => Look::Late,
            Some(_) => Look::Around,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    const PATH: PathId = PathId::BareShm;

    #[test]
    fn destinations_change_in_blocks_and_come_round() {
        assert_eq!(destination(0, 16), 0);
        assert_eq!(destination(CONNECTIONS_EACH - 1, 16), 0);
        assert_eq!(destination(CONNECTIONS_EACH, 16), 1);
        assert_eq!(destination(CONNECTIONS_EACH * 16, 16), 0);
        assert_eq!(destination(CONNECTIONS_EACH * 5, 1), 0);
    }

    #[test]
    fn orders_are_carried_out_in_turn() {
        let control = Arc::new(Control::new());
        let other = thread::spawn({
            let control = Arc::clone(&control);
            move || {
                let mut server = Server::new(&control);
                let mut taken = Vec::new();
                while let Some(iterations) = server.next_order() {
                    server.ready();
                    taken.push(iterations);
                    server.done();
                }
                taken
            }
        });
        for iterations in [3, 0, 3, 900] {
            control.begin(PATH, iterations, || Ok(())).unwrap();
            control.finish(PATH, || Ok(())).unwrap();
        }
        control.quit();
        assert_eq!(other.join().unwrap(), [3, 0, 3, 900]);
    }

    #[test]
    fn numbers_cross_with_the_order_that_is_done() {
        let control = Arc::new(Control::new());
        let other = thread::spawn({
            let control = Arc::clone(&control);
            move || {
                let mut server = Server::new(&control);
                while let Some(iterations) = server.next_order() {
                    server.ready();
                    server.tell(&[iterations, 7]);
                    server.done();
                }
            }
        });
        for iterations in [3, 900] {
            control.begin(PATH, iterations, || Ok(())).unwrap();
            control.finish(PATH, || Ok(())).unwrap();
            assert_eq!(control.numbers()[..3], [iterations, 7, 0]);
        }
        control.quit();
        other.join().unwrap();
    }

    #[test]
    fn a_failure_crosses_with_its_reason() {
        let control = Arc::new(Control::new());
        let other = thread::spawn({
            let control = Arc::clone(&control);
            move || {
                let mut server = Server::new(&control);
                assert_eq!(server.next_order(), Some(5));
                server.fail("the bridge is out");
            }
        });
        let error = control.begin(PATH, 5, || Ok(())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "bare-shm: the other end failed: the bridge is out"
        );
        other.join().unwrap();
    }

    #[test]
    fn a_dead_end_is_noticed() {
        let control = Control::new();
        let error = control
            .begin(PATH, 1, || Err("exit status 7".to_owned()))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "bare-shm: the other end failed: exit status 7"
        );
    }

    #[test]
    fn long_reasons_are_cut_at_a_character() {
        let control = Control::new();
        Server::new(&control).fail(&"é".repeat(REASON));
        assert_eq!(control.failure().unwrap(), "é".repeat(REASON / 2));
    }

    #[test]
    fn quitting_wakes_a_sleeper() {
        let control = Arc::new(Control::new());
        let other = thread::spawn({
            let control = Arc::clone(&control);
            move || Server::new(&control).next_order()
        });
        control.quit();
        assert_eq!(other.join().unwrap(), None);
    }
}

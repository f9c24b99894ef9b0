//! The cable: a memory link with a fault wrapper on each way out, and a trace of both ends.

use super::complete::complete;
use super::police::Police;
use super::trace::{Trace, Way};
use std::cell::RefCell;
use std::rc::Rc;
use tollgate_link::fault::{Fault, Faults, Stats};
use tollgate_link::memory::OwnedEnd;
use tollgate_stack::link::Integrity;
use tollgate_stack::{Frame, Instant, Link, Pool};

/// The link of a host.
#[derive(Debug)]
pub struct Plug {
    fault: Fault<OwnedEnd>,
    host: usize,
    now: Instant,
    trace: Option<Rc<RefCell<Trace>>>,
    police: Rc<RefCell<Police>>,
    /// Frames that the host sent or got.
    pub moved: u64,
    /// It completes checksums where it is asked to.
    pub willing: bool,
    /// It does so.
    completes: bool,
    /// Frames that it was to complete.
    pub completed: u64,
}

/// Both ends of a cable whose ways out have these faults.
pub fn cable(
    mtu: usize,
    faults: [Faults; 2],
    seeds: [u64; 2],
    trace: Option<&Rc<RefCell<Trace>>>,
) -> [Plug; 2] {
    let police = Rc::new(RefCell::new(Police::default()));
    let mut host = 0;
    OwnedEnd::pair(mtu, 4096).map(|end| {
        let plug = Plug {
            fault: Fault::on_transmit(end, faults[host], seeds[host]),
            host,
            now: Instant::ZERO,
            trace: trace.cloned(),
            police: Rc::clone(&police),
            moved: 0,
            willing: false,
            completes: false,
            completed: 0,
        };
        host += 1;
        plug
    })
}

impl Plug {
    /// Moves time on, and frames that are due.
    pub fn set_now(&mut self, now: Instant, pool: &mut Pool) {
        self.now = now;
        self.fault.set_now(now);
        self.fault.poll(pool);
    }

    /// When the next frame of ours is due at the other end.
    pub fn next_event(&self) -> Option<Instant> {
        self.fault.next_event()
    }

    /// Counts of the faults in the frames that the host sent.
    pub const fn stats(&self) -> &Stats {
        self.fault.stats()
    }

    /// Makes the way out lose everything, or not.
    pub fn set_faults(&mut self, faults: Faults) {
        self.fault.set_faults(faults);
    }

    /// The first thing that a host sent and must not send.
    pub fn offence(&self) -> Option<String> {
        self.police.borrow_mut().offence.take()
    }

    /// Tells whether nothing is on its way from or to this host.
    pub fn is_idle(&self) -> bool {
        self.fault.held() == 0 && self.fault.inner().is_idle()
    }

    fn log(&mut self, pool: &Pool, way: Way, frames: &[Frame]) {
        self.moved += frames.len() as u64;
        if let Some(trace) = &self.trace {
            for frame in frames {
                trace
                    .borrow_mut()
                    .frame(self.now, self.host, way, pool.frame(frame));
            }
        }
    }
}

impl Link for Plug {
    fn mtu(&self) -> usize {
        self.fault.mtu()
    }

    /// Redundancy avoidance asks for it; the faults are those of a link with a CRC then ([`Scenario::faults`]).
    ///
    /// [`Scenario::faults`]: super::Scenario::faults
    fn integrity(&self) -> Integrity {
        Integrity::Crc
    }

    fn complete_checksums(&mut self, wanted: bool) -> bool {
        self.completes = wanted && self.willing;
        self.completes
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        if self.completes {
            for frame in frames.iter() {
                complete(pool.frame_mut(frame));
            }
            self.completed += frames.len() as u64;
        }
        self.log(pool, Way::Sends, frames);
        for frame in frames.iter() {
            self.police.borrow_mut().look(self.host, pool.frame(frame));
        }
        self.fault.transmit(pool, frames);
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        let before = frames.len();
        self.fault.receive(pool, frames);
        self.log(pool, Way::Gets, &frames[before..]);
    }
}

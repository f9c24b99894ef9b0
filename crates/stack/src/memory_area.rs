//! Places of the tables that grow with connections, so that a host can have them in huge pages.
//!
//! A stack with many connections reaches these at random. In pages of 4 KiB they are more than a processor's TLB holds, and each round
//! trip then walks the page tables several times. What to do about it is the host's: a stack asks no operating system for anything
//! (`tollgate_link::huge_pages` does on Linux).

use alloc::vec::Vec;

use crate::buffer::Pool;
use crate::stack::Stack;

/// Memory of a table, whether it is in use yet or only reserved. It is valid until its owner goes, and never to be read through this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryArea {
    /// The first byte.
    pub start: *const u8,
    /// Length in bytes.
    pub bytes: usize,
    /// All of it was written to when it was made; of others only what is in use.
    pub is_written: bool,
}

impl MemoryArea {
    /// All that a vector has reserved.
    pub(crate) const fn reserved<T>(entries: &Vec<T>) -> Self {
        Self {
            start: entries.as_ptr().cast(),
            bytes: entries.capacity() * size_of::<T>(),
            is_written: false,
        }
    }
}

impl Stack {
    /// Places of the tables whose size follows from [`max_connections`](crate::Config::max_connections) and
    /// [`max_time_wait`](crate::Config::max_time_wait): control blocks, the table that finds them, timers, next hops, TIME-WAIT.
    ///
    /// ```
    /// # use std::net::Ipv4Addr;
    /// # use tollgate_stack::{Config, Instant, Stack};
    /// # use tollgate_wire::ethernet::MacAddr;
    /// # let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    /// let mut config = Config::new(mac, Ipv4Addr::new(10, 0, 0, 1), 24, [1, 2, 3, 4]);
    /// config.max_connections = 100_000;
    /// let stack = Stack::new(config, 1500, Instant::from_nanos(0)).unwrap();
    /// let bytes: usize = stack.large_tables().iter().map(|table| table.bytes).sum();
    /// assert!(bytes > 20_000_000);
    /// ```
    pub fn large_tables(&self) -> [MemoryArea; 5] {
        [
            MemoryArea::reserved(&self.tcbs),
            self.table.memory(),
            self.wheel.memory(),
            self.next_hops.memory(),
            self.time_wait.memory(),
        ]
    }
}

impl Pool {
    /// Places of the frames, and of what is known of each.
    pub fn large_tables(&mut self) -> [MemoryArea; 2] {
        let (start, bytes) = (self.start_of_region(), self.region_len());
        let frames = MemoryArea {
            start,
            bytes,
            is_written: false,
        };
        let records = MemoryArea {
            is_written: true,
            ..self.records()
        };
        [frames, records]
    }
}

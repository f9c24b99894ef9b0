//! Send queues in mbufs: what [`Buffers::Mbufs`] puts in place of payload in frames.
//!
//! The send queue stays a chain of frames, one for each segment, which say where the stream was cut. Its payload lies in one chain
//! of mbufs for each connection until it is acknowledged. Whenever a segment is sent, output copies its part of that chain, sums
//! the copy and gathers it into the segment's frame: 4.3BSD's sosend, m_copy and in_cksum, and a driver that copies into its
//! adapter (Wolman et al. 1994, 2.2.1 and 4.1.1). Headers are written in front of the frame as ever; no mbuf holds them.
//!
//! This module must never change what is sent: `tests/differential.rs` holds it against the frames of the pool.
//!
//! [`Buffers::Mbufs`]: crate::config::Buffers::Mbufs

use crate::buffer::mbuf::{Chain, Mbufs, Statistics, Summed, Summing};
use crate::buffer::{FrameId, PAYLOAD_OFFSET, Pool};
use crate::config::{Buffers, ChecksumKernel, ChecksumPolicy, Config};
use crate::stack::{Active, Stack};
use crate::tcp::tcb::{Tcb, flag, rare};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tollgate_checksum::Accumulator;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;

/// The payload that a connection has to send or to send again.
#[derive(Debug)]
struct Queue {
    chain: Chain,
    /// Sequence number of the chain's first byte.
    first: SeqNumber,
}

impl Queue {
    const EMPTY: Self = Self {
        chain: Chain::EMPTY,
        first: SeqNumber(0),
    };
}

/// The chains of a stack's connections, and their mbufs.
#[derive(Debug)]
pub(crate) struct Chains {
    mbufs: Mbufs,
    /// By index of the connection.
    queues: Vec<Queue>,
}

impl Chains {
    /// Makes the chains, where the configuration asks for mbufs.
    pub(crate) fn new(config: &Config) -> Option<Box<Self>> {
        let mechanisms = &config.mechanisms;
        match mechanisms.buffers {
            Buffers::Pool => return None,
            Buffers::Mbufs => {}
        }
        let summing = match (mechanisms.checksum, mechanisms.checksum_kernel) {
            (ChecksumPolicy::Off, _) => Summing::Never,
            (_, ChecksumKernel::Integrated) => Summing::InTheCopy,
            (_, ChecksumKernel::Separate | ChecksumKernel::Unrolled | ChecksumKernel::Halfword) => {
                Summing::AtOutput
            }
        };
        let kernel = mechanisms.checksum_kernel.kernel(config.kernel);
        Some(Box::new(Self {
            mbufs: Mbufs::new(kernel, summing),
            queues: Vec::new(),
        }))
    }

    /// Puts a write of connection `index` behind its chain; `data` begins at `at`.
    pub(crate) fn append(&mut self, index: usize, at: SeqNumber, data: &[u8]) {
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, || Queue::EMPTY);
        }
        let queue = &mut self.queues[index];
        if queue.chain.is_empty() {
            queue.first = at;
        }
        debug_assert!(queue.first + queue.chain.len() as u32 == at);
        self.mbufs.append(&mut queue.chain, data);
    }

    /// Takes what lies before `seq` out of a chain.
    fn trim(&mut self, index: usize, seq: SeqNumber) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        let passed = seq.signed_distance(queue.first);
        if !queue.chain.is_empty() && passed > 0 {
            self.mbufs.drop_front(&mut queue.chain, passed as usize);
            queue.first = seq;
        }
    }

    fn release(&mut self, index: usize) {
        if let Some(queue) = self.queues.get_mut(index) {
            self.mbufs.release(&mut queue.chain);
        }
    }

    /// Copies, sums and gathers the part of a chain that begins at `seq`, as long as `into`.
    fn fill(&mut self, index: usize, seq: SeqNumber, into: &mut [u8]) -> (Accumulator, Summed) {
        let Some(queue) = self.queues.get(index) else {
            return (Accumulator::ZERO, Summed::default());
        };
        let from = (seq - queue.first) as usize;
        let mut copy = self.mbufs.copy(&queue.chain, from, into.len());
        debug_assert_eq!(copy.len(), into.len());
        let summed = self.mbufs.sum(&copy);
        self.mbufs.gather(&copy, into);
        self.mbufs.release(&mut copy);
        summed
    }

    /// The stretch of sequence numbers that a connection's chain covers.
    pub(in crate::tcp) fn stretch(&self, index: usize) -> Option<(SeqNumber, SeqNumber)> {
        let queue = self.queues.get(index)?;
        let len = queue.chain.len();
        (len != 0).then(|| (queue.first, queue.first + len as u32))
    }
}

impl Tcb {
    /// The sequence number after the last byte of payload that was given to the connection.
    pub(in crate::tcp) fn payload_end(&self) -> SeqNumber {
        let fin = self.is(flag::FIN_QUEUED) && !self.is_rare(rare::FIN_PENDING);
        self.snd_end - u32::from(fin)
    }
}

impl Stack {
    /// Counts of mbufs, where the stack has them ([`Buffers::Mbufs`]).
    pub fn mbufs(&self) -> Option<Statistics> {
        self.chains.as_ref().map(|chains| chains.mbufs.statistics())
    }

    /// Bytes of payload that small writes may fill a frame up to: none where frames hold no payload.
    pub(in crate::tcp) fn coalescing_room(&self, pool: &Pool) -> usize {
        match self.chains {
            None => pool.payload_room(),
            Some(_) => 0,
        }
    }

    /// Frees a connection's chain.
    pub(in crate::tcp) fn release_chain(&mut self, index: usize) {
        if let Some(chains) = &mut self.chains {
            chains.release(index);
        }
    }

    /// Takes what is acknowledged out of a connection's chain, segment by segment: one of which the peer has a part is sent whole.
    pub(in crate::tcp) fn trim_chain(&mut self, pool: &Pool, index: usize) {
        let Some(chains) = &mut self.chains else {
            return;
        };
        let tcb = &self.tcbs[index];
        let seq = match pool.meta_if(tcb.tx_head) {
            Some(first) => first.tx_seq,
            None => tcb.payload_end(),
        };
        chains.trim(index, seq);
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Puts `data`, which begins at `at`, behind a connection's chain, where payload lies in mbufs.
    pub(crate) fn append_to_chain(&mut self, index: usize, at: SeqNumber, data: &[u8]) {
        self.stack.trim_chain(self.pool, index);
        if let Some(chains) = &mut self.stack.chains {
            chains.append(index, at, data);
        }
    }

    /// Fills a segment's frame from its connection's chain, where payload lies in mbufs, and returns its sum; otherwise both are
    /// there, and the sum is `sum`.
    pub(in crate::tcp) fn fill_from_chain(
        &mut self,
        index: usize,
        id: FrameId,
        (seq, len, sum): (SeqNumber, u16, Accumulator),
        again: bool,
    ) -> Accumulator {
        let Some(chains) = &mut self.stack.chains else {
            return sum;
        };
        if len == 0 {
            return Accumulator::ZERO;
        }
        let into = &mut self.pool.bytes_mut(id)[PAYLOAD_OFFSET..][..usize::from(len)];
        let (sum, summed) = chains.fill(index, seq, into);
        let first = if again { summed.first } else { 0 };
        self.stack.counters.summed_again += (summed.again + first) as u64;
        sum
    }
}

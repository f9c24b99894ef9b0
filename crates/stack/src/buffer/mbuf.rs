//! Mbufs: the send buffers of the papers' systems, in chains.
//!
//! A small mbuf holds 108 bytes, a cluster 4,096 (Wolman et al. 1994, 2.2.1). A socket write fills clusters while more than
//! 1 KB is left, and small mbufs below that. TCP output copies what a segment takes: the bytes of small mbufs, references to
//! clusters. The checksum walks that copy, and the driver gathers it into one frame. Each mbuf carries the partial checksum
//! of its bytes (4.1.1); a segment that takes a part of an mbuf sums that part again.
//!
//! The allocator has free lists of its own and asks for memory only when they are empty. What comes free stays with it.
//! The stack's chains are its own; [`Mbufs`] is public so that what the allocator takes can be measured alone.
//! This module must never know a sequence number, nor give an mbuf out twice.

use alloc::boxed::Box;
use alloc::vec::Vec;
use tollgate_checksum::{Accumulator, Kernel, Partial};

/// Bytes that a small mbuf holds (Wolman et al. 1994, 2.2.1).
pub const SMALL: usize = 108;
/// Bytes that a cluster holds: a page of the DECstation 5000/200 (the same).
pub const CLUSTER: usize = 4096;
/// A write fills clusters while more than this is left of it ("once the data transfer size grows above 1 KB", the same).
pub const CLUSTERS_ABOVE: usize = 1024;

/// In place of an mbuf or a cluster: there is none.
const NONE: u32 = u32::MAX;

/// An mbuf: 108 bytes of its own, or a part of a cluster. Its alignment keeps counts of instructions free of where it lies.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Mbuf {
    next: u32,
    /// The cluster that its bytes lie in, or [`NONE`].
    cluster: u32,
    /// The place of the first byte.
    start: u16,
    len: u16,
    /// The partial checksum of its bytes, from an even offset, when it is known.
    sum: Option<Partial>,
    bytes: [u8; SMALL],
}

// Wolman's 108 bytes are what a header leaves of 128, and so it is here.
const _: () = assert!(size_of::<Mbuf>() == 128);

/// The bytes of a cluster, which is a page, as it was there.
#[derive(Debug)]
#[repr(align(4096))]
struct Cluster([u8; CLUSTER]);

/// A chain of mbufs, the oldest bytes first. It is used with the [`Mbufs`] that filled it, and given back by
/// [`Mbufs::release`].
#[derive(Debug)]
#[must_use]
pub struct Chain {
    head: u32,
    tail: u32,
    len: usize,
    /// Bytes at the beginning of the first mbuf that are no longer the chain's. The mbuf keeps them, and so its sum.
    gone: usize,
}

impl Chain {
    /// No mbufs.
    pub const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        len: 0,
        gone: 0,
    };

    /// Bytes in the chain.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Tells whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Counts of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Uses {
    /// Times that one was allocated.
    pub allocated: u64,
    /// Times that one came free.
    pub freed: u64,
    /// Bytes that were copied into them.
    pub bytes: u64,
}

impl Uses {
    /// Number in use.
    pub const fn in_use(&self) -> u64 {
        self.allocated - self.freed
    }
}

/// Counts of a stack's mbufs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Mbufs. Each cluster that is in use has at least one that refers to it.
    pub mbufs: Uses,
    /// Clusters.
    pub clusters: Uses,
    /// References to clusters that were made in place of copies.
    pub references: u64,
    /// Bytes that were gathered into frames.
    pub gathered: u64,
}

/// Time at which bytes are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summing {
    /// In the pass that copies them into an mbuf.
    InTheCopy,
    /// When a segment is made of them, each time anew.
    AtOutput,
    /// Never.
    Never,
}

/// Bytes that were summed for one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summed {
    /// For the first time.
    pub(crate) first: usize,
    /// Although they had been summed before.
    pub(crate) again: usize,
}

/// The allocator: mbufs, clusters, and their free lists.
#[derive(Debug)]
pub struct Mbufs {
    kernel: Kernel,
    summing: Summing,
    mbufs: Vec<Mbuf>,
    free_mbuf: u32,
    clusters: Vec<Box<Cluster>>,
    /// Of each cluster: mbufs that refer to it; while it is free, the next free one.
    references: Vec<u32>,
    free_cluster: u32,
    statistics: Statistics,
}

impl Mbufs {
    /// Makes an allocator that has nothing yet. Payload is summed by `kernel`.
    pub const fn new(kernel: Kernel, summing: Summing) -> Self {
        Self {
            kernel,
            summing,
            mbufs: Vec::new(),
            free_mbuf: NONE,
            clusters: Vec::new(),
            references: Vec::new(),
            free_cluster: NONE,
            statistics: Statistics {
                mbufs: Uses {
                    allocated: 0,
                    freed: 0,
                    bytes: 0,
                },
                clusters: Uses {
                    allocated: 0,
                    freed: 0,
                    bytes: 0,
                },
                references: 0,
                gathered: 0,
            },
        }
    }

    /// Counts from the beginning.
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Takes an mbuf without bytes, which refers to `cluster` or has room of its own.
    fn mbuf(&mut self, cluster: u32) -> u32 {
        self.statistics.mbufs.allocated += 1;
        let fresh = Mbuf {
            next: NONE,
            cluster,
            start: 0,
            len: 0,
            sum: Some(Partial::ZERO),
            bytes: [0; SMALL],
        };
        match self.mbufs.get_mut(self.free_mbuf as usize) {
            Some(mbuf) => {
                let id = self.free_mbuf;
                self.free_mbuf = mbuf.next;
                // Its own bytes are left as they are, as an allocator of the time did.
                (mbuf.next, mbuf.cluster) = (NONE, cluster);
                (mbuf.start, mbuf.len, mbuf.sum) = (0, 0, Some(Partial::ZERO));
                id
            }
            None => {
                self.mbufs.push(fresh);
                self.mbufs.len() as u32 - 1
            }
        }
    }

    /// Takes a cluster, referred to once.
    fn cluster(&mut self) -> u32 {
        self.statistics.clusters.allocated += 1;
        let id = self.free_cluster;
        match self.references.get_mut(id as usize) {
            Some(references) => {
                self.free_cluster = core::mem::replace(references, 1);
                id
            }
            None => {
                self.clusters.push(Box::new(Cluster([0; CLUSTER])));
                self.references.push(1);
                self.clusters.len() as u32 - 1
            }
        }
    }

    /// Gives an mbuf back, and its cluster with the last reference; returns the next of its chain.
    fn free(&mut self, id: u32) -> u32 {
        self.statistics.mbufs.freed += 1;
        let mbuf = &mut self.mbufs[id as usize];
        let (next, cluster) = (mbuf.next, mbuf.cluster);
        mbuf.next = core::mem::replace(&mut self.free_mbuf, id);
        if let Some(references) = self.references.get_mut(cluster as usize) {
            *references -= 1;
            if *references == 0 {
                *references = core::mem::replace(&mut self.free_cluster, cluster);
                self.statistics.clusters.freed += 1;
            }
        }
        next
    }

    /// Puts an mbuf behind a chain.
    fn link(&mut self, chain: &mut Chain, id: u32) {
        match self.mbufs.get_mut(chain.tail as usize) {
            Some(tail) => tail.next = id,
            None => chain.head = id,
        }
        chain.tail = id;
        chain.len += usize::from(self.mbufs[id as usize].len);
    }

    /// The bytes of an mbuf.
    fn bytes(&self, id: u32) -> &[u8] {
        let mbuf = &self.mbufs[id as usize];
        let all: &[u8] = match self.clusters.get(mbuf.cluster as usize) {
            Some(cluster) => &cluster.0,
            None => &mbuf.bytes,
        };
        &all[usize::from(mbuf.start)..][..usize::from(mbuf.len)]
    }

    /// A write: puts `data` behind a chain. As 4.3BSD's sbcompress, what fits goes behind the bytes of a last small mbuf.
    pub fn append(&mut self, chain: &mut Chain, mut data: &[u8]) {
        let room = match self.mbufs.get(chain.tail as usize) {
            Some(tail) if tail.cluster == NONE => SMALL - usize::from(tail.start + tail.len),
            _ => 0,
        };
        if data.is_empty() {
            return;
        }
        if data.len() <= room {
            self.put(chain.tail, data);
            chain.len += data.len();
            return;
        }
        while !data.is_empty() {
            let (id, room) = self.mbuf_for(data.len());
            let (piece, rest) = data.split_at(data.len().min(room));
            self.put(id, piece);
            self.link(chain, id);
            data = rest;
        }
    }

    /// Takes an mbuf for the next piece of a write of which `left` bytes are left, and tells how many it holds.
    fn mbuf_for(&mut self, left: usize) -> (u32, usize) {
        if left > CLUSTERS_ABOVE {
            let cluster = self.cluster();
            (self.mbuf(cluster), CLUSTER)
        } else {
            (self.mbuf(NONE), SMALL)
        }
    }

    /// Takes the mbufs of a write of `len` bytes, whose bytes are whatever lies there: an allocation without a copy.
    pub fn allocate(&mut self, len: usize) -> Chain {
        let mut chain = Chain::EMPTY;
        while chain.len < len {
            let left = len - chain.len;
            let (id, room) = self.mbuf_for(left);
            let mbuf = &mut self.mbufs[id as usize];
            (mbuf.len, mbuf.sum) = (left.min(room) as u16, None);
            self.link(&mut chain, id);
        }
        chain
    }

    /// Copies bytes behind those of an mbuf that is nobody else's, which has room for them.
    fn put(&mut self, id: u32, data: &[u8]) {
        let mbuf = &mut self.mbufs[id as usize];
        let (all, uses): (&mut [u8], _) = match self.clusters.get_mut(mbuf.cluster as usize) {
            Some(cluster) => (&mut cluster.0[..], &mut self.statistics.clusters),
            None => (&mut mbuf.bytes, &mut self.statistics.mbufs),
        };
        uses.bytes += data.len() as u64;
        let before = usize::from(mbuf.len);
        let to = &mut all[usize::from(mbuf.start) + before..][..data.len()];
        mbuf.sum = match (self.summing, mbuf.sum) {
            (Summing::InTheCopy, Some(sum)) => {
                Some(sum.append(before, self.kernel.copy_and_sum(to, data)))
            }
            _ => {
                to.copy_from_slice(data);
                None
            }
        };
        mbuf.len += data.len() as u16;
    }

    /// Takes the first `len` bytes out of a chain (sbdrop). An mbuf comes free with the last of its bytes.
    pub(crate) fn drop_front(&mut self, chain: &mut Chain, len: usize) {
        let len = len.min(chain.len);
        chain.len -= len;
        chain.gone += len;
        while let Some(first) = self.mbufs.get(chain.head as usize) {
            let held = usize::from(first.len);
            if chain.gone < held {
                return;
            }
            chain.gone -= held;
            chain.head = self.free(chain.head);
        }
        *chain = Chain::EMPTY;
    }

    /// Frees a chain (m_freem).
    pub fn release(&mut self, chain: &mut Chain) {
        let len = chain.len;
        self.drop_front(chain, len);
    }

    /// Copies `len` bytes of a chain behind the first `from` (m_copy): the bytes of small mbufs, references to clusters.
    pub fn copy(&mut self, chain: &Chain, from: usize, len: usize) -> Chain {
        let mut copy = Chain::EMPTY;
        let mut skip = chain.gone + from;
        let mut left = len;
        let mut id = chain.head;
        while left != 0 {
            let Some(mbuf) = self.mbufs.get(id as usize) else {
                break;
            };
            let (next, held, cluster) = (mbuf.next, usize::from(mbuf.len), mbuf.cluster);
            if skip < held {
                let taken = left.min(held - skip);
                let start = usize::from(mbuf.start) + skip;
                // The sum is that of the whole.
                let sum = mbuf.sum.filter(|_| taken == held);
                let own = self.mbuf(cluster);
                match self.references.get_mut(cluster as usize) {
                    Some(references) => {
                        *references += 1;
                        self.statistics.references += 1;
                        self.mbufs[own as usize].start = start as u16;
                    }
                    None => {
                        self.statistics.mbufs.bytes += taken as u64;
                        let bytes = self.mbufs[id as usize].bytes;
                        self.mbufs[own as usize].bytes[..taken]
                            .copy_from_slice(&bytes[start..start + taken]);
                    }
                }
                let mbuf = &mut self.mbufs[own as usize];
                (mbuf.len, mbuf.sum) = (taken as u16, sum);
                self.link(&mut copy, own);
                left -= taken;
            }
            skip = skip.saturating_sub(held);
            id = next;
        }
        copy
    }

    /// The sum of a chain's bytes: partial checksums that are there are combined, all others are made.
    pub(crate) fn sum(&self, chain: &Chain) -> (Accumulator, Summed) {
        let mut total = Accumulator::ZERO;
        let mut summed = Summed::default();
        if self.summing == Summing::Never {
            return (total, summed);
        }
        let mut done = 0;
        let mut id = chain.head;
        while let Some(mbuf) = self.mbufs.get(id as usize) {
            let len = usize::from(mbuf.len);
            let sum = mbuf.sum.unwrap_or_else(|| {
                match self.summing {
                    Summing::InTheCopy => summed.again += len,
                    Summing::AtOutput | Summing::Never => summed.first += len,
                }
                self.kernel.sum(self.bytes(id))
            });
            total = total.append(done, sum.into());
            done += len;
            id = mbuf.next;
        }
        (total, summed)
    }

    /// Copies a chain's bytes into a frame, as a driver does.
    pub(crate) fn gather(&mut self, chain: &Chain, mut into: &mut [u8]) {
        self.statistics.gathered += chain.len as u64;
        let mut id = chain.head;
        while let Some(mbuf) = self.mbufs.get(id as usize) {
            let bytes = self.bytes(id);
            let Some((to, rest)) = into.split_at_mut_checked(bytes.len()) else {
                return;
            };
            to.copy_from_slice(bytes);
            into = rest;
            id = mbuf.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(len: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        (0..len)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect()
    }

    fn all(mbufs: &mut Mbufs, chain: &Chain) -> Vec<u8> {
        let copy = mbufs.copy(chain, 0, chain.len());
        let mut raw = alloc::vec![0; chain.len()];
        mbufs.gather(&copy, &mut raw);
        let mut copy = copy;
        mbufs.release(&mut copy);
        raw
    }

    #[test]
    fn writes_fill_small_mbufs_up_to_1_kb_and_clusters_above() {
        let mut mbufs = Mbufs::new(Kernel::UNROLLED, Summing::InTheCopy);
        for (len, small, clusters) in [
            (1, 1, 0),
            (108, 1, 0),
            (109, 2, 0),
            (1024, 10, 0),
            (1025, 1, 1),
            (4096, 1, 1),
            (4200, 2, 1),
            (8000, 2, 2),
        ] {
            let before = mbufs.statistics();
            let mut chain = Chain::EMPTY;
            mbufs.append(&mut chain, &bytes(len, 3));
            let now = mbufs.statistics();
            let taken = |now: Uses, before: Uses| now.allocated - before.allocated;
            assert_eq!(taken(now.mbufs, before.mbufs), small, "{len}");
            assert_eq!(taken(now.clusters, before.clusters), clusters, "{len}");
            mbufs.release(&mut chain);
        }
        let end = mbufs.statistics();
        assert_eq!((end.mbufs.in_use(), end.clusters.in_use()), (0, 0));
    }

    #[test]
    fn allocation_takes_the_mbufs_of_a_write_and_is_summed_from_its_bytes() {
        let mut mbufs = Mbufs::new(Kernel::UNROLLED, Summing::InTheCopy);
        for len in [0, 1, 108, 109, 1024, 1025, 4096, 4097, 5120, 5121, 8000] {
            let mut taken = [(0, 0); 2];
            for (written, taken) in [false, true].into_iter().zip(&mut taken) {
                let before = mbufs.statistics();
                let mut chain = Chain::EMPTY;
                match written {
                    true => mbufs.append(&mut chain, &bytes(len, 3)),
                    false => chain = mbufs.allocate(len),
                }
                assert_eq!(chain.len(), len);
                let raw = all(&mut mbufs, &chain);
                assert_eq!(mbufs.sum(&chain).0.narrow(), Kernel::UNROLLED.sum(&raw));
                let now = mbufs.statistics();
                *taken = (
                    now.mbufs.in_use() - before.mbufs.in_use(),
                    now.clusters.in_use() - before.clusters.in_use(),
                );
                mbufs.release(&mut chain);
            }
            assert_eq!(taken[0], taken[1], "{len}");
        }
        assert_eq!(mbufs.statistics().mbufs.in_use(), 0);
    }

    #[test]
    fn small_mbufs_are_copied_and_clusters_referred_to() {
        let mut mbufs = Mbufs::new(Kernel::UNROLLED, Summing::InTheCopy);
        let mut chain = Chain::EMPTY;
        mbufs.append(&mut chain, &bytes(4096 + 100, 1));
        let before = mbufs.statistics();
        let mut copy = mbufs.copy(&chain, 0, 4196);
        let now = mbufs.statistics();
        assert_eq!(now.references - before.references, 1);
        assert_eq!(now.clusters, before.clusters);
        assert_eq!(now.mbufs.bytes - before.mbufs.bytes, 100);
        // The cluster lives until the last reference is gone.
        mbufs.release(&mut chain);
        assert_eq!(mbufs.statistics().clusters.in_use(), 1);
        assert_eq!(all(&mut mbufs, &copy), bytes(4196, 1));
        mbufs.release(&mut copy);
        assert_eq!(mbufs.statistics().clusters.in_use(), 0);
    }

    #[test]
    fn small_writes_share_an_mbuf() {
        let mut mbufs = Mbufs::new(Kernel::UNROLLED, Summing::InTheCopy);
        let mut chain = Chain::EMPTY;
        for byte in 0..108 {
            mbufs.append(&mut chain, &[byte]);
        }
        assert_eq!(mbufs.statistics().mbufs.in_use(), 1);
        mbufs.append(&mut chain, &[108]);
        assert_eq!(mbufs.statistics().mbufs.in_use(), 2);
        assert_eq!(all(&mut mbufs, &chain), (0..=108).collect::<Vec<u8>>());
        mbufs.release(&mut chain);
    }

    #[test]
    fn whole_mbufs_are_not_summed_again() {
        let mut mbufs = Mbufs::new(Kernel::UNROLLED, Summing::InTheCopy);
        let mut chain = Chain::EMPTY;
        mbufs.append(&mut chain, &bytes(300, 1));
        let summed = |mbufs: &mut Mbufs, from, len| {
            let mut copy = mbufs.copy(&chain, from, len);
            let (_, summed) = mbufs.sum(&copy);
            mbufs.release(&mut copy);
            summed.again
        };
        assert_eq!(summed(&mut mbufs, 0, 216), 0);
        assert_eq!(summed(&mut mbufs, 0, 217), 1);
        assert_eq!(summed(&mut mbufs, 1, 299), 107);
    }

    proptest! {
        #[test]
        fn chain_is_a_queue_of_bytes(
            steps in proptest::collection::vec((1usize..9000, 0usize..9000, any::<(u16, u16)>()), 1..24),
            seed in any::<u64>(),
            summing in prop_oneof![Just(Summing::InTheCopy), Just(Summing::AtOutput)],
        ) {
            let mut mbufs = Mbufs::new(Kernel::UNROLLED, summing);
            let mut chain = Chain::EMPTY;
            let mut model: Vec<u8> = Vec::new();
            for (write, drop, (from, len)) in steps {
                let data = bytes(write, seed ^ write as u64);
                mbufs.append(&mut chain, &data);
                model.extend_from_slice(&data);
                let drop = drop.min(model.len());
                mbufs.drop_front(&mut chain, drop);
                model.drain(..drop);
                prop_assert_eq!(chain.len(), model.len());
                let from = usize::from(from) % (model.len() + 1);
                let len = usize::from(len) % (model.len() - from + 1);
                let mut copy = mbufs.copy(&chain, from, len);
                prop_assert_eq!(copy.len(), len);
                let mut raw = alloc::vec![0; len];
                mbufs.gather(&copy, &mut raw);
                prop_assert_eq!(&raw[..], &model[from..from + len]);
                let (sum, _) = mbufs.sum(&copy);
                prop_assert_eq!(sum.narrow(), Kernel::UNROLLED.sum(&raw));
                mbufs.release(&mut copy);
            }
            mbufs.release(&mut chain);
            let end = mbufs.statistics();
            prop_assert_eq!((end.mbufs.in_use(), end.clusters.in_use()), (0, 0));
        }

        /// Chains and copies of parts of them, which may live longer, are what vectors of bytes are. Counts of what is in use are those of
        /// a walk, nothing is on a free list and in a chain, and memory is asked for only when the free lists are empty.
        #[test]
        fn chains_and_their_copies_are_vectors(
            steps in proptest::collection::vec((0u8..8, 0usize..4, 0usize..6000, any::<u16>()), 1..60),
            seed in any::<u64>(),
        ) {
            let mut mbufs = Mbufs::new(Kernel::UNROLLED, Summing::InTheCopy);
            let mut chains = [(); 4].map(|()| (Chain::EMPTY, Vec::new()));
            let mut copies: Vec<(Chain, Vec<u8>)> = Vec::new();
            let mut most = (0, 0);
            for (n, (action, which, len, from)) in steps.into_iter().enumerate() {
                let (chain, model) = &mut chains[which];
                match action {
                    // Many writes are short, so that small mbufs are filled up.
                    0..=3 => {
                        let data = bytes(if action < 2 { len % 150 } else { len }, seed ^ n as u64);
                        mbufs.append(chain, &data);
                        model.extend_from_slice(&data);
                    }
                    4 => {
                        mbufs.drop_front(chain, len);
                        model.drain(..len.min(model.len()));
                    }
                    5 => {
                        mbufs.release(chain);
                        model.clear();
                    }
                    6 => {
                        let from = usize::from(from) % (model.len() + 1);
                        let len = len % (model.len() - from + 1);
                        copies.push((mbufs.copy(chain, from, len), model[from..][..len].to_vec()));
                    }
                    _ if copies.is_empty() => {}
                    _ => {
                        let (mut copy, _) = copies.swap_remove(usize::from(from) % copies.len());
                        mbufs.release(&mut copy);
                    }
                }
                let mut walked = Vec::new();
                for (chain, model) in chains.iter().chain(&copies) {
                    prop_assert_eq!(chain.len(), model.len());
                    let mut raw = alloc::vec![0; chain.gone + chain.len()];
                    mbufs.gather(chain, &mut raw);
                    prop_assert_eq!(&raw[chain.gone..], &model[..]);
                    let walk = core::iter::successors(Some(chain.head), |&id| {
                        mbufs.mbufs.get(id as usize).map(|mbuf| mbuf.next)
                    });
                    walked.extend(walk.take_while(|&id| id != NONE));
                }
                let clusters = walked.iter().map(|&id| mbufs.mbufs[id as usize].cluster);
                let mut clusters: Vec<u32> = clusters.filter(|&cluster| cluster != NONE).collect();
                let references = clusters.len() as u32;
                walked.sort_unstable();
                clusters.sort_unstable();
                clusters.dedup();
                prop_assert!(walked.windows(2).all(|two| two[0] != two[1]), "an mbuf is in two chains");
                prop_assert_eq!(clusters.iter().map(|&id| mbufs.references[id as usize]).sum::<u32>(), references);
                let free = core::iter::successors(Some(mbufs.free_mbuf), |&id| {
                    mbufs.mbufs.get(id as usize).map(|mbuf| mbuf.next)
                });
                let free = free.take_while(|&id| id != NONE).count();
                prop_assert_eq!(walked.len() + free, mbufs.mbufs.len());
                let now = mbufs.statistics();
                let in_use = (now.mbufs.in_use(), now.clusters.in_use());
                prop_assert_eq!(in_use, (walked.len() as u64, clusters.len() as u64));
                most = (most.0.max(in_use.0), most.1.max(in_use.1));
            }
            prop_assert_eq!(mbufs.mbufs.len() as u64, most.0);
            prop_assert_eq!(mbufs.clusters.len() as u64, most.1);
            for (mut chain, _) in chains.into_iter().chain(copies) {
                mbufs.release(&mut chain);
            }
            let end = mbufs.statistics();
            prop_assert_eq!((end.mbufs.in_use(), end.clusters.in_use()), (0, 0));
        }
    }
}

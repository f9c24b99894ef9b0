//! The segment: an anonymous file that two processes map, with two rings and what the sides tell each other.
//!
//! Nothing in it is believed: the sizes are read once, checked, and the layout computed from them; the file must be
//! sealed against a change of its size, since a mapping that reaches behind the end of its file kills the process that
//! touches it.

use super::Waiting;
use super::ring::{self, Geometry, MIN_FRAME};
use super::sync::{AtomicU32, Ordering};
use crate::Side;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tollgate_stack::link::{MAX_MTU, MIN_MTU};

/// "tollgate", in the byte order of the machine that made the segment.
const MAGIC: [u32; 2] = [0x746f_6c6c, 0x6761_7465];
const VERSION: u32 = 1;
const PAGE: usize = 4096;

/// Words that different sides write lie two cache lines apart, since processors fetch lines in pairs.
const SEPARATION: usize = 128;

/// Seals that make a file safe to map: it can neither shrink nor grow any more.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Configuration of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the largest IP packet, [`MIN_MTU`] to [`MAX_MTU`].
    pub mtu: usize,
    /// Frames that wait in each direction at most: a power of two between 2 and 65,536.
    pub slots: usize,
    /// Way in which both sides wait.
    pub waiting: Waiting,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mtu: 1500,
            slots: 128,
            waiting: Waiting::BusyPoll,
        }
    }
}

/// A segment cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The largest packet is not one that the link carries.
    #[error("an MTU of {0} is outside of {MIN_MTU} to {MAX_MTU}")]
    Mtu(usize),
    /// The rings cannot have this many slots.
    #[error("a ring of {0} slots cannot be made; give a power of two between 2 and 65536")]
    Slots(usize),
    /// The system refused.
    #[error("{step} failed for shared memory of {bytes} bytes: {source}")]
    System {
        /// Step that failed.
        step: &'static str,
        /// Size that the segment would have had.
        bytes: usize,
        /// Error of the system.
        source: std::io::Error,
    },
}

/// A file is not a segment that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// It is too short, or its first bytes are not a segment's.
    #[error("the file is not a Tollgate segment made on this machine")]
    NotASegment,
    /// Another version of this program made it.
    #[error("the segment has version {found}; this program knows version {VERSION}")]
    Version {
        /// The segment's version.
        found: u32,
    },
    /// Its size could still change under the mapping.
    #[error("the segment is not sealed against a change of its size")]
    NotSealed,
    /// Its header contradicts itself or the file's size.
    #[error("the segment's header does not fit the file's {bytes} bytes")]
    Sizes {
        /// Size of the file.
        bytes: u64,
    },
    /// The system refused.
    #[error("{step} failed: {source}")]
    System {
        /// Step that failed.
        step: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
}

/// Layout of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) mtu: u32,
    pub(super) slots: u32,
    pub(super) waiting: Waiting,
    pub(super) geometry: Geometry,
}

impl Layout {
    fn new(mtu: usize, slots: usize, waiting: Waiting) -> Result<Self, CreateError> {
        let max_frame = match mtu {
            MIN_MTU..=MAX_MTU => (mtu + MIN_FRAME) as u16,
            _ => return Err(CreateError::Mtu(mtu)),
        };
        let count = u32::try_from(slots).map_err(|_| CreateError::Slots(slots))?;
        let geometry = Geometry::new(count, max_frame).ok_or(CreateError::Slots(slots))?;
        Ok(Self {
            mtu: mtu as u32,
            slots: count,
            waiting,
            geometry,
        })
    }

    /// Words that a side writes: its line for claiming and closing, its sleep word, the index of what it consumed.
    const fn side(side: Side) -> usize {
        match side {
            Side::A => SEPARATION,
            Side::B => SEPARATION + 3 * SEPARATION,
        }
    }

    const fn ring_size(&self) -> usize {
        self.geometry.size().next_multiple_of(PAGE)
    }

    /// The offset of the slots of the ring that `producer` fills.
    const fn slots_from(&self, producer: Side) -> usize {
        match producer {
            Side::A => PAGE,
            Side::B => PAGE + self.ring_size(),
        }
    }

    const fn size(&self) -> usize {
        PAGE + 2 * self.ring_size()
    }

    /// The header: magic, version, then everything that the layout follows from.
    const fn header(&self) -> [u32; 7] {
        let waiting = self.waiting as u32;
        [
            MAGIC[0],
            MAGIC[1],
            VERSION,
            self.mtu,
            self.slots,
            self.geometry.slot_size(),
            waiting,
        ]
    }

    fn from_header(header: [u32; 7], bytes: u64) -> Result<Self, AttachError> {
        let [magic_0, magic_1, version, mtu, slots, _, waiting] = header;
        if [magic_0, magic_1] != MAGIC {
            return Err(AttachError::NotASegment);
        }
        if version != VERSION {
            return Err(AttachError::Version { found: version });
        }
        let sizes = AttachError::Sizes { bytes };
        let waiting = match waiting {
            0 => Waiting::BusyPoll,
            1 => Waiting::Sleep,
            _ => return Err(sizes),
        };
        match Self::new(mtu as usize, slots as usize, waiting) {
            Ok(layout) if layout.header() == header && layout.size() as u64 == bytes => Ok(layout),
            _ => Err(sizes),
        }
    }
}

const _: () = assert!(Layout::side(Side::B) + 3 * SEPARATION <= PAGE);

/// A mapping of the whole segment.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// Sides that were taken by way of this mapping: what the segment says of it, the peer may change.
    claimed: [AtomicBool; 2],
}

// SAFETY: the mapping is only an address range; it is valid in every thread until it is dropped.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference it gives out references to atomics and the rings' memory, whose users are counted.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, len: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // Filled in at once, so that no page fault is left for the first frames.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, flags, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::INVAL)?;
        Ok(Self {
            start,
            len,
            claimed: Default::default(),
        })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(
            offset.is_multiple_of(size_of::<AtomicU32>()) && offset < self.len.min(PAGE),
            "a word lies in the first page"
        );
        // SAFETY: the offset lies in the mapping (checked).
        let word = unsafe { self.start.add(offset) };
        // SAFETY: it is aligned, since a mapping begins at a page, and the first page holds atomics only.
        unsafe { word.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping that `new` made, and whoever uses it holds a reference to it. There is nobody to
        // report a failure to, and none is possible for a range that was mapped.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
    }
}

/// Shared memory that two stacks exchange frames through.
///
/// One process makes it and hands the file to the other, for instance as a child's standard input; each takes one
/// [`Side`] with [`ShmLink::new`](super::ShmLink::new).
#[derive(Clone, Debug)]
pub struct Segment {
    fd: Arc<OwnedFd>,
    mapping: Arc<Mapping>,
    layout: Layout,
}

impl Segment {
    /// Makes a segment. Its size can never change.
    ///
    /// # Errors
    /// A configuration out of range, or the system's refusal of memory.
    pub fn create(config: Config) -> Result<Self, CreateError> {
        let layout = Layout::new(config.mtu, config.slots, config.waiting)?;
        let bytes = layout.size();
        let failed = |step| {
            move |errno: Errno| CreateError::System {
                step,
                bytes,
                source: errno.into(),
            }
        };
        let fd = rustix::fs::memfd_create(
            "tollgate-link",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )
        .map_err(failed("memfd_create"))?;
        rustix::fs::ftruncate(&fd, bytes as u64).map_err(failed("ftruncate"))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS | SealFlags::SEAL).map_err(failed("sealing"))?;
        let mapping = Mapping::new(fd.as_fd(), bytes).map_err(failed("mmap"))?;
        let segment = Self {
            fd: Arc::new(fd),
            mapping: Arc::new(mapping),
            layout,
        };
        for side in [Side::A, Side::B] {
            // SAFETY: nobody else knows of the segment yet.
            unsafe { segment.ring_from(side) }.prepare();
        }
        for (index, word) in layout.header().into_iter().enumerate().rev() {
            segment
                .mapping
                .word(4 * index)
                .store(word, Ordering::Release);
        }
        Ok(segment)
    }

    /// Maps the segment that `fd` is.
    ///
    /// # Errors
    /// Whatever makes the file unfit: see [`AttachError`].
    pub fn attach(fd: OwnedFd) -> Result<Self, AttachError> {
        let failed = |step| {
            move |errno: Errno| AttachError::System {
                step,
                source: errno.into(),
            }
        };
        let bytes = rustix::fs::fstat(&fd).map_err(failed("fstat"))?.st_size as u64;
        let len = usize::try_from(bytes)
            .ok()
            .filter(|&len| len > PAGE)
            .ok_or(AttachError::NotASegment)?;
        // Files that cannot be sealed say EINVAL.
        let seals = match rustix::fs::fcntl_get_seals(&fd) {
            Ok(seals) => seals,
            Err(Errno::INVAL) => return Err(AttachError::NotASegment),
            Err(errno) => return Err(failed("reading the seals")(errno)),
        };
        if !seals.contains(SEALS) {
            return Err(AttachError::NotSealed);
        }
        // Nothing behind the first page is touched, nor filled in, before the header is believed.
        let first = Mapping::new(fd.as_fd(), PAGE).map_err(failed("mmap"))?;
        let header = std::array::from_fn(|index| first.word(4 * index).load(Ordering::Acquire));
        let layout = Layout::from_header(header, bytes)?;
        let mapping = Mapping::new(fd.as_fd(), len).map_err(failed("mmap"))?;
        Ok(Self {
            fd: Arc::new(fd),
            mapping: Arc::new(mapping),
            layout,
        })
    }

    /// The file, to be handed to the other process. It is closed on exec; a duplicate, such as
    /// [`try_clone_to_owned`](BorrowedFd::try_clone_to_owned) gives for a child's standard input, need not be.
    pub fn fd(&self) -> BorrowedFd<'_> {
        (*self.fd).as_fd()
    }

    /// Configuration that the segment was made with.
    pub const fn config(&self) -> Config {
        let Layout {
            mtu,
            slots,
            waiting,
            ..
        } = self.layout;
        Config {
            mtu: mtu as usize,
            slots: slots as usize,
            waiting,
        }
    }

    /// Takes a side; tells whether it was never taken by way of this mapping.
    pub(super) fn claim(&self, side: Side) -> bool {
        let claimed = &self.mapping.claimed[match side {
            Side::A => 0,
            Side::B => 1,
        }];
        !claimed.swap(true, Ordering::AcqRel)
    }

    pub(super) fn words(&self, side: Side) -> SideWords<'_> {
        let line = Layout::side(side);
        let [owner, closed, sleep] =
            [line, line + 4, line + SEPARATION].map(|offset| self.mapping.word(offset));
        SideWords {
            owner,
            closed,
            sleep,
        }
    }

    /// The ring that `producer` fills.
    ///
    /// # Safety
    /// Like [`ring::Memory::new`]: in this process at most one producer and one consumer use each ring, and the segment
    /// outlives them.
    pub(super) unsafe fn ring_from(&self, producer: Side) -> ring::Memory {
        let start = self.mapping.start;
        // SAFETY: the layout lies within the mapping, whose length was computed from it or checked against it.
        let slots = unsafe { start.add(self.layout.slots_from(producer)) };
        // SAFETY: as above.
        let head = unsafe { start.add(Layout::side(producer.other()) + 2 * SEPARATION) };
        // SAFETY: both are aligned, since a mapping begins at a page; the rest is the caller's promise.
        unsafe { ring::Memory::new(slots, head.cast(), self.layout.geometry) }
    }

    #[cfg(all(test, not(miri)))]
    pub(super) fn scribble(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.mapping.len);
        // SAFETY: the range lies in the mapping.
        let to = unsafe { self.mapping.start.add(offset) };
        // SAFETY: as above, and the tests do this while no other thread uses it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
    }

    #[cfg(all(test, not(miri)))]
    pub(super) const fn size(&self) -> usize {
        self.layout.size()
    }
}

/// The words that one side writes and the other reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct SideWords<'a> {
    /// The process that took the side; 0 for none yet.
    pub(super) owner: &'a AtomicU32,
    /// Not 0 once the side has been given up.
    pub(super) closed: &'a AtomicU32,
    /// See `protocol`.
    pub(super) sleep: &'a AtomicU32,
}

// Miri maps no files; it is given the ring alone.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_found_again_through_its_file() {
        let config = Config {
            mtu: 9000,
            slots: 16,
            waiting: Waiting::Sleep,
        };
        let segment = Segment::create(config).unwrap();
        let other = Segment::attach(segment.fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(other.config(), config);
        assert_eq!(other.layout, segment.layout);
    }

    #[test]
    fn configurations_out_of_range_are_refused() {
        for mtu in [0, 67, MAX_MTU + 1, usize::MAX] {
            let refused = Segment::create(Config {
                mtu,
                ..Config::default()
            });
            assert!(matches!(refused, Err(CreateError::Mtu(given)) if given == mtu));
        }
        for slots in [0, 1, 3, 1 << 17, usize::MAX] {
            let refused = Segment::create(Config {
                slots,
                ..Config::default()
            });
            assert!(matches!(refused, Err(CreateError::Slots(given)) if given == slots));
        }
    }

    #[test]
    fn a_file_that_is_no_segment_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        assert!(matches!(
            Segment::attach(file.into()),
            Err(AttachError::NotASegment)
        ));
        let short = rustix::fs::memfd_create("short", MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(matches!(
            Segment::attach(short),
            Err(AttachError::NotASegment)
        ));
        let zeros = rustix::fs::memfd_create("zeros", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&zeros, 1 << 20).unwrap();
        let unsealed = zeros.try_clone().unwrap();
        assert!(matches!(
            Segment::attach(unsealed),
            Err(AttachError::NotSealed)
        ));
        rustix::fs::fcntl_add_seals(&zeros, SEALS).unwrap();
        assert!(matches!(
            Segment::attach(zeros),
            Err(AttachError::NotASegment)
        ));
    }

    #[test]
    fn a_header_that_lies_is_refused() {
        for (word, value) in [
            (2, 2),
            (3, 1600),
            (3, u32::MAX),
            (4, 256),
            (4, 0),
            (5, 64),
            (6, 2),
        ] {
            let segment = Segment::create(Config::default()).unwrap();
            segment
                .mapping
                .word(4 * word)
                .store(value, Ordering::Relaxed);
            let refused = Segment::attach(segment.fd().try_clone_to_owned().unwrap());
            match word {
                2 => assert!(matches!(refused, Err(AttachError::Version { found: 2 }))),
                _ => assert!(
                    matches!(refused, Err(AttachError::Sizes { .. })),
                    "word {word} is {value}"
                ),
            }
        }
    }
}

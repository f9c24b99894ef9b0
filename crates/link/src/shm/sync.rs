//! The atomics that the protocol uses, in one place so that a model checker can put its own there.

pub(super) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

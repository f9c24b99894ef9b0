//! Layouts in which a frame is read: with timestamps or without, of IPv4 or of IPv6.
//!
//! [`super::receive`] is compiled for each. This module owns which one is tried first, and must never look further into a frame
//! than that takes.

use super::header::{self, LEAD};
use crate::buffer::{Frame, Pool};
use crate::counters::Miss;
use crate::socket::Posted;
use crate::stack::Stack;
use crate::tcp::template::{PLAIN, STAMPED};
use crate::time::Instant;
use tollgate_gate::Recorder;

impl Stack {
    /// Takes a frame when it is predicted; otherwise has changed nothing and says why.
    #[inline(always)]
    pub(crate) fn predicted<const VERIFY: u8, const COMMON: bool, R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: R,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) -> Result<(), Miss> {
        match pool.frame(frame).first_chunk::<STAMPED>() {
            Some(head) if header::has_options(head) => {
                self.predicted_as::<0, STAMPED, VERIFY, COMMON, R>(pool, now, rec, frame, posted)
            }
            _ => self.predicted_without_stamp::<VERIFY, R>(pool, now, rec, frame, posted),
        }
    }

    /// Predicts segments without the timestamp option.
    #[inline(never)]
    fn predicted_without_stamp<const VERIFY: u8, R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: R,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) -> Result<(), Miss> {
        self.predicted_as::<0, PLAIN, VERIFY, false, R>(pool, now, rec, frame, posted)
    }

    /// Predicts a segment that may be one over IPv6, as the next one may then.
    #[inline(never)]
    pub(super) fn predicted_after_all<const VERIFY: u8, const COMMON: bool, R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: R,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) -> Result<(), Miss> {
        self.predicted_v6::<VERIFY, COMMON, R>(pool, now, rec, frame, posted)?;
        self.ipv4_first = false;
        Ok(())
    }

    /// Predicts segments over IPv6.
    #[inline(always)]
    pub(crate) fn predicted_v6<const VERIFY: u8, const COMMON: bool, R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: R,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) -> Result<(), Miss> {
        match pool
            .frame(frame)
            .get(LEAD..)
            .and_then(<[u8]>::first_chunk::<STAMPED>)
        {
            Some(head) if header::has_options(head) => {
                self.predicted_as::<LEAD, STAMPED, VERIFY, COMMON, R>(pool, now, rec, frame, posted)
            }
            _ => self.predicted_as::<LEAD, PLAIN, VERIFY, COMMON, R>(pool, now, rec, frame, posted),
        }
    }
}

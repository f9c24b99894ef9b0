//! The prediction itself: what the next segment of a connection says.
//!
//! It looks at the header and the connection, in the order of the table in [`super`], and must never change either.

use super::accept::Says;
use super::header;
use crate::counters::Miss;
use crate::likely::unlikely;
use crate::tcp::tcb::Tcb;
use core::hint::cold_path;

/// Compares a segment with what its connection expects. Its flags and lengths have been checked.
#[inline(always)]
pub(super) fn expect<const N: usize>(head: &[u8; N], tcb: &Tcb, len: u32) -> Result<Says, Miss> {
    if header::sequence(head) != tcb.rcv_nxt {
        cold_path();
        return Err(Miss::Sequence);
    }
    let ack = header::acknowledgment(head);
    let acked = ack - tcb.snd_una;
    if acked > tcb.in_flight() {
        cold_path();
        return Err(Miss::Acknowledgment);
    }
    let stamp = header::timestamp(head);
    if let Some(stamp) = stamp {
        if !header::has_timestamp_layout(head) {
            cold_path();
            return Err(Miss::OptionLayout);
        }
        if (stamp.wrapping_sub(tcb.ts_recent) as i32) < 0 {
            cold_path();
            return Err(Miss::Timestamp);
        }
    }
    let window = header::window(head, tcb);
    if window == 0 {
        cold_path();
        return Err(Miss::ZeroWindow);
    }
    if len > tcb.rcv_edge - tcb.rcv_nxt {
        cold_path();
        return Err(Miss::BeyondWindow);
    }
    if unlikely!(len | acked == 0) && window == tcb.snd_wnd {
        return Err(Miss::Duplicate);
    }
    Ok(Says {
        ack,
        window,
        ts_value: stamp.unwrap_or(tcb.ts_recent),
    })
}

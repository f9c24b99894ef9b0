//! Rules of recovery: marks, sums, told ranges, and losses that a walk over all frames finds.

use super::{Verdict, View, require};
use crate::buffer::{Meta, Transmissions};
use crate::stack::Stack;
use crate::tcp::tcb::rare;
use crate::time::Instant;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The sums are those of the marks in the send queue; what is marked was sent; the window is wider by what is not in flight.
pub(super) fn scoreboard(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let frames = view.chain(tcb.tx_head, |meta| meta.tx_next)?;
    let sum = |mark: u8| {
        let marked = frames
            .iter()
            .filter(|(_, meta)| meta.transmissions.is(mark));
        marked.map(|(_, meta)| meta.sequence_len()).sum::<u32>()
    };
    let marks = [
        Transmissions::SACKED,
        Transmissions::LOST,
        Transmissions::RESENT,
    ]
    .map(sum);
    if !tcb.is_rare(rare::SCOREBOARD) {
        require(!view.stack.waits_for_reordering(view.index), || {
            String::from("RACK's timer is set, and nothing is looked at")
        })?;
        return require(marks == [0; 3], || {
            format!("marks on {marks:?} bytes, and nobody knows")
        });
    }
    let Some(state) = view.stack.recovery(view.index) else {
        return Err(String::from("there are marks and no state"));
    };
    let board = &state.board;
    require(marks == [board.sacked, board.lost, board.resent], || {
        format!(
            "sacked {}, lost {}, sent again {}; the frames say {marks:?}",
            board.sacked, board.lost, board.resent
        )
    })?;
    require(board.lost >= board.resent, || {
        format!("{} bytes lost, {} sent again", board.lost, board.resent)
    })?;
    let passed = frames
        .iter()
        .take_while(|(id, _)| *id != tcb.unsent)
        .filter(|(_, meta)| meta.transmissions.is(Transmissions::SACKED))
        .map(|(_, meta)| meta.sequence_len());
    let passed: u32 = passed.sum();
    require(!tcb.is_rare(rare::LOSS) || passed == board.passed, || {
        format!("{} bytes are passed over, {passed} are", board.passed)
    })?;
    require(tcb.cwnd == board.window + board.credit(tcb), || {
        format!(
            "the window is {}, {} and {} that are not in flight are kept",
            tcb.cwnd,
            board.window,
            board.credit(tcb)
        )
    })?;
    let waits = frames.iter().find(|(_, meta)| {
        let marks = meta.transmissions;
        let lost = marks.is(Transmissions::LOST) && !marks.is(Transmissions::RESENT);
        lost && meta.tx_seq.before(board.repaired_up_to(tcb))
            && tcb.snd_una.before(meta.tx_end)
            && tcb.snd_una.at_or_before(meta.tx_seq)
    });
    require(waits.is_none(), || {
        format!("{waits:?} is lost and will not be sent again")
    })?;
    let twice = frames.iter().find(|(_, meta)| {
        let marks = meta.transmissions;
        marks.is(Transmissions::SACKED) && marks.is(Transmissions::LOST | Transmissions::RESENT)
    });
    require(twice.is_none(), || format!("{twice:?} is sacked and lost"))
}

/// A walk over all frames finds no loss that the scoreboard, which looks at two heads, has not found (RFC 8985, 6.2, step 5).
pub(super) fn losses(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let state = view.stack.recovery(view.index);
    let Some(state) = state.filter(|_| tcb.is_rare(rare::SCOREBOARD)) else {
        return Ok(());
    };
    let (at, window) = state.board.looked;
    if tcb.is_rare(rare::PERSIST) || at == Instant::ZERO {
        return Ok(());
    }
    let frames = view.chain(tcb.tx_head, |meta| meta.tx_next)?;
    for (id, meta) in frames.iter().take_while(|(id, _)| *id != tcb.unsent) {
        let marks = meta.transmissions;
        let found = marks.is(Transmissions::LOST) && !marks.is(Transmissions::RESENT);
        if marks.is_none() || marks.is(Transmissions::SACKED) || found {
            continue;
        }
        let sent = meta.last_sent_ns(at);
        // Sent in the same unit of time, it may have been sent after the look. What was surely sent after it seems very old.
        let age = at.as_nanos().saturating_sub(sent);
        if !(Meta::SENT_UNIT_NS..Meta::SENT_UNIT_NS << 31).contains(&age) {
            continue;
        }
        let left = state.rack.lost_in(sent, meta.tx_end, window, at.as_nanos());
        require(left != Some(0), || {
            let (seq, end, una) = (meta.tx_seq.0, meta.tx_end.0, tcb.snd_una.0);
            format!("{id:?}, {seq} to {end}, was lost at {at:?} and is not marked; {una} is next")
        })?;
    }
    Ok(())
}

/// Ranges lie in the queue of what is out of order, whole.
pub(super) fn reported_ranges(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let Some(state) = view.stack.recovery(view.index) else {
        return Ok(());
    };
    let frames = view.chain(tcb.ooo_head, |meta| meta.rx_next)?;
    for range in state.reported.ranges() {
        let mut reached = range.start;
        for (_, meta) in &frames {
            if meta.rx_seq.at_or_before(reached) {
                reached = reached.latest(meta.rx_seq + u32::from(meta.rx_len));
            }
        }
        require(range.end.at_or_before(reached), || {
            format!(
                "{} to {} is told of, and is there up to {}",
                range.start.0, range.end.0, reached.0
            )
        })?;
    }
    let due = tcb.is_rare(rare::SACK_DUE);
    require(due != state.reported.is_empty(), || {
        format!("SACK_DUE is {due} with {:?}", state.reported)
    })
}

/// A probe of the path's MTU is marked, and so is a search.
pub(super) fn mtu_probe(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let search = view.stack.extension(view.index);
    let search = search.and_then(|own| own.mtu_search);
    let probed = search.is_some_and(|search| search.probe.is_some());
    require(tcb.is_rare(rare::MTU_PROBE) == probed, || {
        format!("the search is {search:?}, marked otherwise")
    })?;
    require(search.is_none() || tcb.is_rare(rare::MTU_SEARCH), || {
        String::from("there is a search, and it is not marked")
    })
}

/// A state of recovery exists for exactly the connections that are marked.
pub(super) fn states(stack: &Stack) -> Verdict {
    let kept: Vec<usize> = stack.recoveries.keys().map(|&n| n as usize).collect();
    let marked: Vec<usize> = (0..stack.tcbs.len())
        .filter(|&index| stack.tcbs[index].is_rare(rare::RECOVERY_STATE))
        .collect();
    require(kept == marked, || {
        format!("{kept:?} have a state, {marked:?} are marked")
    })
}

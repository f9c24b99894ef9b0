//! Lists that connections stand in, held against the marks that say so.

use super::{Verdict, require};
use crate::ready::Subject;
use crate::stack::Stack;
use crate::tcp::tcb::{Tcb, flag, rare};
use alloc::format;
use alloc::vec::Vec;

/// Exactly the connections that are marked stand in a list, each once.
fn marked(
    stack: &Stack,
    list: impl Iterator<Item = u32>,
    is_marked: impl Fn(&Tcb) -> bool,
) -> Verdict {
    let mut list: Vec<usize> = list.map(|index| index as usize).collect();
    list.sort_unstable();
    let marked: Vec<usize> = (0..stack.tcbs.len())
        .filter(|&index| is_marked(&stack.tcbs[index]))
        .collect();
    require(list == marked, || {
        format!("{list:?} are listed, {marked:?} are marked")
    })
}

pub(super) fn events(stack: &Stack) -> Verdict {
    let connections = stack
        .ready
        .iter()
        .filter_map(|entry| match entry.subject() {
            Subject::Connection(index) => Some(index as u32),
            Subject::Listener(_) | Subject::Datagrams(_) => None,
        });
    marked(stack, connections, |tcb| tcb.is(flag::LISTED))
}

pub(super) fn waiting_output(stack: &Stack) -> Verdict {
    marked(stack, stack.output_waiting.iter().copied(), |tcb| {
        tcb.is_rare(rare::OUTPUT_LISTED)
    })
}

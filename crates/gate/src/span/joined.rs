//! Tables in which boundaries that cannot be had are left out.

use super::{Position, Span, SpanTable};
use crate::id::Kind;
use crate::set::GateSet;

impl SpanTable {
    /// This table with only the gates in `present`: spans on the way that meet at a gate that is not there become one, which
    /// has the names of all and the layer of the first, or that of a wait for a processor when it holds one; spans inside or
    /// beside that lack a gate are left out, as is what lies before the first gate or after the last that is there.
    ///
    /// The joined spans live as long as the process, since tables are compared and copied freely; there are as many of them as
    /// there are plans.
    ///
    /// None when fewer than two gates of the way are there.
    #[must_use]
    pub fn joined(self, present: GateSet) -> Option<Self> {
        let mut spans: Vec<Span> = Vec::new();
        let mut open: Vec<&Span> = Vec::new();
        for span in self.spans {
            match span.position {
                Position::OnTheWay => {
                    if open.is_empty() && !present.contains(span.from) {
                        continue;
                    }
                    open.push(span);
                    if present.contains(span.to) {
                        spans.push(one_of(&open));
                        open.clear();
                    }
                }
                Position::Inside | Position::Beside => {
                    let whole = present.contains(span.from) && present.contains(span.to);
                    // A span inside must stay below the one that it lies in, which is not closed yet when that was joined.
                    if whole && (span.position == Position::Beside || open.is_empty()) {
                        spans.push(*span);
                    }
                }
            }
        }
        if spans
            .first()
            .is_none_or(|first| first.position != Position::OnTheWay)
        {
            return None;
        }
        Self::new(Box::leak(spans.into_boxed_slice())).ok()
    }
}

/// One span for all of them, from the first one's beginning to the last one's end.
fn one_of(spans: &[&Span]) -> Span {
    let (first, last) = (spans[0], spans[spans.len() - 1]);
    if spans.len() == 1 {
        return *first;
    }
    let mut name = String::new();
    for span in spans {
        if !name.is_empty() {
            name.push_str(" + ");
        }
        name.push_str(span.name);
    }
    let mut categories = Vec::new();
    for category in spans.iter().flat_map(|span| span.kay_pasquale) {
        if !categories.contains(category) {
            categories.push(*category);
        }
    }
    // What is partly work is shown as work, but for a wait that holds some: the wait is the longer part by far.
    let wait = spans
        .iter()
        .find(|span| span.layer == crate::id::Layer::Scheduler);
    Span {
        name: Box::leak(name.into_boxed_str()),
        kind: if wait.is_some() || spans.iter().all(|span| span.kind == Kind::Queueing) {
            Kind::Queueing
        } else {
            Kind::Processing
        },
        layer: wait.unwrap_or(&first).layer,
        wolman: wait
            .unwrap_or(&first)
            .wolman
            .or(spans.iter().find_map(|span| span.wolman)),
        kay_pasquale: Box::leak(categories.into_boxed_slice()),
        to: last.to,
        ..*first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Gate, Layer};
    use crate::span::{Direction, KERNEL, STACK, WolmanRow};

    #[test]
    fn a_table_with_all_its_gates_stays_as_it_is() {
        for table in [STACK, KERNEL] {
            assert_eq!(table.joined(GateSet::ALL), Some(table));
        }
    }

    #[test]
    fn a_gate_that_is_not_there_joins_its_neighbours() {
        let table = KERNEL
            .joined(GateSet::ALL.without(Gate::DemuxBegin))
            .unwrap();
        let ip = table
            .spans()
            .iter()
            .find(|span| span.from == Gate::IpInBegin)
            .unwrap();
        assert_eq!((ip.name, ip.to), ("ip + demux", Gate::TcpInBegin));
        assert_eq!((ip.layer, ip.wolman), (Layer::Ip, Some(WolmanRow::Ip)));
        assert_eq!(table.spans().len(), KERNEL.spans().len() - 1);
    }

    #[test]
    fn a_reader_that_polls_waits_in_one_row() {
        let table = KERNEL
            .joined(GateSet::ALL.without(Gate::ReaderRuns))
            .unwrap();
        let wait = table
            .spans()
            .iter()
            .find(|span| span.from == Gate::SocketQueued && span.position == Position::OnTheWay)
            .unwrap();
        assert_eq!(
            (wait.name, wait.to),
            ("wakeup + resume", Gate::SocketInBegin)
        );
        assert_eq!((wait.kind, wait.layer), (Kind::Queueing, Layer::Scheduler));
    }

    #[test]
    fn the_ends_fall_away_with_their_gates() {
        let present = GateSet::of(&[Gate::IpOutBegin, Gate::DriverOutBegin, Gate::SocketInBegin]);
        let table = KERNEL.joined(present).unwrap();
        let names: Vec<&str> = table.spans().iter().map(|span| span.name).collect();
        assert_eq!(names.len(), 2);
        assert_eq!(names[0], "ip + device.queue");
        assert_eq!(table.only(Direction::Between), None);
        assert_eq!(KERNEL.joined(GateSet::of(&[Gate::IpOutBegin])), None);
    }

    #[test]
    fn an_inner_span_goes_when_its_outer_one_is_joined() {
        let table = STACK
            .joined(GateSet::ALL.without(Gate::IpOutBegin))
            .unwrap();
        let inner = table
            .spans()
            .iter()
            .filter(|span| span.position == Position::Inside);
        assert!(
            inner
                .into_iter()
                .all(|span| span.direction == Direction::Rx)
        );
    }
}

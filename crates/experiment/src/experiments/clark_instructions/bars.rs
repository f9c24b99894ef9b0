//! The operations as three bars: the counts of Clark et al. 1989, those of Tollgate's stack, and those of Linux where it was counted.
//!
//! A bar holds only operations that every bar has, so that lengths can be compared. It must never estimate a count.

use tollgate_budget::clark::ClarkRow;
use tollgate_qemu::counts::Counts;
use tollgate_run::{Bar, Figure, Layer, Segment, SegmentKind, Unit};

use super::{linux, published_count};

/// The operations from the program down and up again, with the layer that each belongs to.
const OPERATIONS: [(&str, &str, Layer); 12] = [
    ("buffer-send", "send buffer", Layer::Socket),
    ("tcp-output", "TCP output", Layer::Tcp),
    ("timer-set", "timer set", Layer::Tcp),
    ("timer-reset", "timer reset", Layer::Tcp),
    ("timer-clear", "timer cleared", Layer::Tcp),
    ("ip-output", "IP output", Layer::Ip),
    ("ip-input", "IP input", Layer::Ip),
    ("tcb-lookup-hash", "lookup", Layer::Tcp),
    ("tcp-input-receiver", "input, data", Layer::Tcp),
    ("tcp-input-sender", "input, ACK", Layer::Tcp),
    ("buffer-receive", "receive buffer", Layer::Socket),
    ("buffer-ack", "buffer, ACK", Layer::Socket),
];

/// A bar for each that has counts: 1989, Tollgate's stack unless its counting failed, Linux where there are its counts.
pub(super) fn figure(
    counted: &Result<Vec<ClarkRow>, String>,
    linux: Option<&Counts>,
    command: &str,
) -> Figure {
    type Count<'a> = Box<dyn Fn(&str) -> Option<f64> + 'a>;
    let mut counts: Vec<(String, Count<'_>)> = vec![("1989".to_owned(), Box::new(published_count))];
    if let Ok(rows) = counted {
        let of = |id: &str| Some(rows.iter().find(|row| row.id == id)?.instructions);
        counts.push(("Tollgate".to_owned(), Box::new(of)));
    }
    if let Some(linux) = linux {
        let of = |id: &str| linux::operation(linux, id).map(|operation| operation.each());
        counts.push((linux::name(linux), Box::new(of)));
    }
    let of_all: Vec<&(&str, &str, Layer)> = OPERATIONS
        .iter()
        .filter(|(id, ..)| counts.iter().all(|(_, count)| count(id).is_some()))
        .collect();
    let bars = counts.iter().map(|(name, count)| Bar {
        label: name.clone(),
        total_measured: None,
        segments: of_all
            .iter()
            .filter_map(|(id, label, layer)| {
                Some(Segment {
                    label: (*label).to_owned(),
                    layer: Some(*layer),
                    kind: SegmentKind::Processing,
                    value: count(id)?,
                })
            })
            .collect(),
    });
    Figure::StackedBars {
        title: "Instructions of the operations that each bar has, every operation once".to_owned(),
        unit: Unit::Instructions,
        bars: bars.collect(),
        command: command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(counted: &Result<Vec<ClarkRow>, String>, linux: Option<&Counts>) -> Vec<(String, f64)> {
        let Figure::StackedBars { bars, .. } = figure(counted, linux, "command") else {
            panic!("bars");
        };
        bars.iter()
            .map(|bar| (bar.label.clone(), bar.sum()))
            .collect()
    }

    fn ours() -> Vec<ClarkRow> {
        [("tcp-input-receiver", 93.0), ("ip-input", 20.0)]
            .map(|(id, instructions)| ClarkRow {
                id: id.to_owned(),
                label: id.to_owned(),
                instructions,
                counted: String::new(),
            })
            .into()
    }

    #[test]
    fn bars_of_1989_and_tollgate_need_no_counts_of_linux() {
        let ip_input = published_count("ip-input").unwrap();
        assert_eq!(
            bars(&Ok(ours()), None),
            [
                ("1989".to_owned(), 186.0 + ip_input),
                ("Tollgate".to_owned(), 113.0)
            ]
        );
    }

    #[test]
    fn bars_hold_what_every_one_of_them_has() {
        let linux = linux::tests::sample();
        assert_eq!(
            bars(&Ok(ours()), Some(&linux)),
            [
                ("1989".to_owned(), 186.0),
                ("Tollgate".to_owned(), 93.0),
                ("Linux 6.1.0-56-amd64".to_owned(), 1_173.0)
            ]
        );
    }

    #[test]
    fn bars_leave_out_a_stack_that_was_not_counted() {
        let failed = Err("no valgrind".to_owned());
        let names: Vec<String> = bars(&failed, None)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["1989"]);
    }

    #[test]
    fn operations_are_those_of_the_paper() {
        for (id, ..) in OPERATIONS {
            assert!(published_count(id).is_some(), "{id}");
        }
    }
}

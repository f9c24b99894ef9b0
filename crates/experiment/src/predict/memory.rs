//! Memory as a limit: the bytes that it moves in a second, by copying more than a cache holds, and what a stream may carry by
//! that.
//!
//! It owns the limits and who beats them. It must never hide a path that does.

use std::time::Instant;

use tollgate_papers as papers;
use tollgate_run::{Cell, Table, Unit, format, present::plain_row};

use super::{Way, column, model};

/// Copies of each byte on a path of kernel sockets: in and out; each reads and writes it.
const COPIES: f64 = 2.0;

/// Bytes that are copied, from one buffer to another of the same size.
const COPIED: usize = 64 << 20;
/// Copies, of which the quickest counts: others share the machine's memory.
const TIMES: usize = 6;

/// Bytes a second that this machine's memory moves for one processor, each byte of a copy counted twice: it is read and
/// written. Takes some tenths of a second and 128 MiB.
#[must_use]
pub fn bandwidth() -> f64 {
    let from = vec![1_u8; COPIED];
    let mut to = vec![0_u8; COPIED];
    let quickest = (0..TIMES)
        .map(|_| {
            let begun = Instant::now();
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
            begun.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    2.0 * COPIED as f64 / quickest.max(f64::MIN_POSITIVE)
}

/// Bytes per second of memory's limits, each with the bytes moved for each byte carried and what moves them.
fn limits_of(memory: f64) -> Vec<(&'static str, f64, f64)> {
    let moved = |table: &str, column: &str| papers::table(table)?.cell("total", column);
    let ways = [
        ("two copies, each reads and writes", Some(2.0 * COPIES)),
        (
            "transmit beyond the cache, as Foong et al. measured",
            moved("foong-2003/memory-transmit", "beyond-cache-measured"),
        ),
        (
            "receive beyond the cache, as Foong et al. measured",
            moved("foong-2003/memory-receive", "beyond-cache-measured"),
        ),
    ];
    let limit = |(label, moved): (&'static str, Option<f64>)| {
        let moved = moved?;
        Some((label, moved, model::memory_limit_bits(memory, moved) / 8.0))
    };
    ways.into_iter().filter_map(limit).collect()
}

/// The best rate of each stream over kernel sockets, in bytes per second, the best first: the limits are those of its copies.
fn kernel_rates(streams: &[Way]) -> Vec<(&str, f64)> {
    let kernel = streams
        .iter()
        .filter(|way| way.label.starts_with("kernel-"));
    let best = |way: &'_ Way| {
        let rates = way.points.iter().map(|(size, ns)| size / ns * 1e9);
        rates.fold(0.0, f64::max)
    };
    let mut rates: Vec<(&str, f64)> = kernel.map(|way| (way.label.as_str(), best(way))).collect();
    rates.sort_by(|a, b| b.1.total_cmp(&a.1));
    rates
}

/// Table of the throughput that memory allows a stream over kernel sockets; a path that is beyond a limit is marked.
pub(super) fn limits(memory: f64, streams: &[Way]) -> Table {
    let rates = kernel_rates(streams);
    let best = rates.first().map_or(0.0, |(_, rate)| *rate);
    let row = |(label, moved, limit): (&str, f64, f64)| {
        let beyond = rates.iter().filter(|(_, rate)| *rate > limit);
        let beyond: Vec<String> = beyond.map(|(path, _)| (*path).to_owned()).collect();
        plain_row(
            label,
            vec![
                Cell::exact(moved),
                Cell::exact(limit),
                Cell::exact(100.0 * best / limit),
                Cell::text(if beyond.is_empty() {
                    "-".to_owned()
                } else {
                    format!("! {}", beyond.join("; "))
                }),
            ],
        )
    };
    Table {
        id: "memory".to_owned(),
        title: format!(
            "What memory of {} GB/s allows",
            format::significant(memory / 1e9)
        ),
        columns: vec![
            column("bytes moved per byte", Unit::None),
            column("limit", Unit::BytesPerSecond),
            column("best of the run", Unit::Percent),
            column("beaten by", Unit::None),
        ],
        rows: limits_of(memory).into_iter().map(row).collect(),
    }
}

/// The paths that carry more than memory is said to allow, and what that says.
pub(super) fn beyond(memory: f64, streams: &[Way]) -> Option<String> {
    let limits = limits_of(memory);
    let (label, moved, limit) = (limits.iter()).min_by(|a, b| a.2.total_cmp(&b.2))?;
    let beyond: Vec<String> = kernel_rates(streams)
        .into_iter()
        .filter(|(_, rate)| rate > limit)
        .map(|(path, rate)| format!("{path} ({} GB/s)", format::significant(rate / 1e9)))
        .collect();
    (!beyond.is_empty()).then(|| {
        format!(
            "more than memory is said to allow ({} GB/s at {} bytes moved per byte: {label}): {}; their bytes stay in the caches, so \
             these limits hold for streams that outgrow them",
            format::significant(limit / 1e9),
            format::significant(*moved),
            format::list(&beyond)
        )
    })
}

//! Times every kernel beside `memcpy` and prints a table: nanoseconds and the ratio to `memcpy`.
//!
//! The things compared take turns within one process (memcpy, kernel, kernel, ..., memcpy, ...), each turn
//! being long enough for the clock; the table shows the median over the rounds, and the ratio is
//! the median of the ratios within a round. Buffers are warm: sizes that fit a cache are in it.
//!
//! `cargo run --release -p tollgate-checksum --example checksum_bench -- [OFFSET [SIZE...]]`, where OFFSET
//! is how far the destination is from a 64-byte boundary (default 0).

use std::hint::black_box;
use std::time::Instant;

use tollgate_checksum::{Kernel, Partial, sum_header};

const SIZES: &[usize] = &[
    4,
    20,
    40,
    64,
    80,
    100,
    128,
    200,
    256,
    500,
    1400,
    1448,
    4000,
    8000,
    16_384,
    65_536,
    262_144,
    1 << 20,
    8 << 20,
    64 << 20,
];
const ROUNDS: usize = 41;
/// Bytes that a turn should touch, and the most calls it may take to do so.
const BYTES_PER_TURN: usize = 1 << 19;
const CALLS_PER_TURN: usize = 2000;

/// Subject of the timing: it gets the destination and the source.
type Subject<'a> = Box<dyn Fn(&mut [u8], &[u8]) -> Partial + 'a>;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds per call.
fn measure(subject: &Subject<'_>, calls: usize, dst: &mut [u8], src: &[u8]) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(subject(black_box(&mut *dst), black_box(src)));
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}

/// The median time of each subject, and of its ratio to the first.
fn compare(subjects: &[Subject<'_>], dst: &mut [u8], src: &[u8]) -> Vec<(f64, f64)> {
    let calls = (BYTES_PER_TURN / src.len().max(1)).clamp(1, CALLS_PER_TURN);
    let mut times = vec![Vec::new(); subjects.len()];
    let mut ratios = vec![Vec::new(); subjects.len()];
    for round in 0..=ROUNDS {
        let mut first = 0.0;
        for (index, subject) in subjects.iter().enumerate() {
            let time = measure(subject, calls, dst, src);
            if index == 0 {
                first = time;
            }
            // The first round warms up.
            if round > 0 {
                times[index].push(time);
                ratios[index].push(time / first);
            }
        }
    }
    times
        .into_iter()
        .map(median)
        .zip(ratios.into_iter().map(median))
        .collect()
}

fn table(title: &str, names: &[&str], subjects: &[Subject<'_>], sizes: &[usize], offset: usize) {
    println!("\n{title}");
    print!("{:>10}", "bytes");
    for name in names {
        print!(" {name:>20}");
    }
    println!();
    for &size in sizes {
        let src: Vec<u8> = (0..size + 64)
            .map(|index| (index * 167 + index / 251) as u8)
            .collect();
        let mut dst = vec![0u8; size + 4096 + 64];
        let src_start = src.as_ptr().align_offset(64);
        // Half a page apart within their pages, so that no load waits for a store that only seems
        // to be to the same place.
        let distance =
            (src[src_start..].as_ptr() as usize + 2048).wrapping_sub(dst.as_ptr() as usize);
        let dst_start = distance % 4096 + offset;
        let results = compare(
            subjects,
            &mut dst[dst_start..dst_start + size],
            &src[src_start..src_start + size],
        );
        print!("{size:>10}");
        for (time, ratio) in results {
            print!(" {time:>13.1} {ratio:>6.2}");
        }
        println!();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| {
        argument.parse::<usize>().unwrap_or_else(|error| {
            eprintln!("checksum_bench: {argument} is not a number: {error}");
            std::process::exit(2);
        })
    });
    let offset = arguments.next().unwrap_or(0) % 64;
    let mut sizes: Vec<usize> = arguments.collect();
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }

    let kernels: Vec<Kernel> = Kernel::all().collect();
    let mut names = vec!["memcpy"];
    names.extend(kernels.iter().map(|kernel| kernel.name()));
    let memcpy = |dst: &mut [u8], src: &[u8]| {
        dst.copy_from_slice(src);
        Partial::ZERO
    };

    println!(
        "best kernel: {}; each cell: ns, ratio to memcpy; median of {ROUNDS}",
        Kernel::best().name()
    );
    let mut copying: Vec<Subject<'_>> = vec![Box::new(memcpy)];
    let mut summing: Vec<Subject<'_>> = vec![Box::new(memcpy)];
    for kernel in &kernels {
        copying.push(Box::new(|dst, src| kernel.copy_and_sum(dst, src)));
        summing.push(Box::new(|_, src| kernel.sum(src)));
    }
    table("copy and sum", &names, &copying, &sizes, offset);
    table("sum only", &names, &summing, &sizes, offset);

    let header: Vec<Subject<'_>> = vec![Box::new(memcpy), Box::new(|_, src| sum_header(src))];
    table(
        "header",
        &["memcpy", "sum_header"],
        &header,
        &[20, 40, 60],
        offset,
    );
}

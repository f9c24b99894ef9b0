//! Writes a pcap of which every packet belongs to a random one of many TCP connections: `mixed FLOWS PACKETS > FILE`.
//!
//! The figures of docs/trace.md on what a trace takes are for such captures, since anybody can make them again.

mod capture;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let numbers: Option<Vec<u32>> = std::env::args()
        .skip(1)
        .map(|text| text.parse().ok().filter(|&number| number > 0))
        .collect();
    let Some([flows, packets]) = numbers.as_deref() else {
        eprintln!("usage: mixed FLOWS PACKETS > FILE");
        return ExitCode::from(2);
    };
    let mut out = BufWriter::new(io::stdout().lock());
    match capture::write(*flows, *packets, &mut out).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mixed: standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

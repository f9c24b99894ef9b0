//! Every kernel gives the sum of the halfword loop, with and without copying, whole and in parts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_checksum::{Kernel, sum_header};

fuzz_target!(|input: (u16, u8, &[u8])| {
    let (at, shift, octets) = input;
    // Any alignment.
    let shift = usize::from(shift % 64).min(octets.len());
    let octets = &octets[shift..];
    let whole = Kernel::HALFWORD.sum(octets);
    let (front, back) = octets.split_at(usize::from(at) % (octets.len() + 1));
    assert_eq!(sum_header(octets).finish(), whole.finish());
    for kernel in Kernel::all() {
        assert_eq!(
            kernel.sum(octets).finish(),
            whole.finish(),
            "{}",
            kernel.name()
        );
        let mut copy = vec![0xa5; octets.len()];
        assert_eq!(
            kernel.copy_and_sum(&mut copy, octets).finish(),
            whole.finish(),
            "{}",
            kernel.name()
        );
        assert_eq!(copy, octets);
        let parts = kernel.sum(front).append(front.len(), kernel.sum(back));
        assert_eq!(
            parts.finish(),
            whole.finish(),
            "{} at {}",
            kernel.name(),
            front.len()
        );
    }
});

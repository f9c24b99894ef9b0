//! A peer that is odd in the way that the input says and then becomes good: everything arrives, and every frame comes back.
#![no_main]

#[path = "../../crates/stack/tests/random/mod.rs"]
mod random;

use libfuzzer_sys::fuzz_target;
use random::liveness::{SETTINGS, run_with};
use random::numbers::Numbers;

fuzz_target!(|input: &[u8]| {
    let mut numbers = Numbers::from_bytes(input);
    let setting = numbers.pick(&SETTINGS);
    match run_with(&setting, numbers, false) {
        Ok(summary) => assert_eq!(summary.inconsistency, None),
        Err(failure) => panic!("{failure}"),
    }
});

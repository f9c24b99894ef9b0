//! A script that the input says, played with its mechanisms and with others.
//!
//! Whatever the script, both send the same frames and answer calls and events the same way, and the stack does not contradict
//! itself.
#![no_main]

#[path = "../../crates/stack/tests/random/mod.rs"]
mod random;

use libfuzzer_sys::fuzz_target;
use random::differential::{all, compare, consistent};
use random::numbers::Numbers;
use random::script::{SETTINGS, Script};

fuzz_target!(|input: &[u8]| {
    let mut numbers = Numbers::from_bytes(input);
    let mut versus = all();
    let versus = versus.swap_remove(numbers.below(versus.len() as u64) as usize);
    let setting = numbers.pick(&SETTINGS);
    let script = Script::draw(&setting, &mut numbers);
    if let Err(found) = compare(&script, &versus).and_then(|_| consistent(&script, &versus)) {
        panic!("{found}\n{script:?}");
    }
});

//! The records that the kernel writes into a ring: samples, losses, throttling (perf_event_open(2), "Layout of event data").
//!
//! It parses what [`super::sampler`] asked for and nothing else. A record that is cut short or of no known kind is passed
//! over and counted; no input makes it panic.

use perf_event_open_sys::bindings;

/// Fields that every sample has, and so the layout that [`Records`] reads.
pub(super) const SAMPLE_TYPE: u64 = bindings::PERF_SAMPLE_TID as u64
    | bindings::PERF_SAMPLE_PERIOD as u64
    | bindings::PERF_SAMPLE_CALLCHAIN as u64;

/// Callers above this value are no addresses but say of which mode the following ones are (`PERF_CONTEXT_MAX`, -4095).
const CONTEXT: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const HEADER: usize = 8;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// A processor was interrupted.
    Sample {
        /// The process; 0 is the idle task.
        pid: u32,
        /// Tells whether it ran in kernel mode.
        kernel: bool,
        /// After how much of what it counts the event samples: ns of the clock, cycles of the counter.
        period: u64,
        /// Addresses in the kernel, innermost first.
        chain: Vec<u64>,
    },
    /// The kernel had no room for so many records.
    Lost(u64),
    /// The kernel held the event back, because its interrupts took too long.
    Throttled,
    /// Of another kind, which holds no sample.
    Other,
    /// Not of the form that it should have.
    Malformed,
}

/// Reads the records of a piece of ring.
#[derive(Debug)]
pub(super) struct Records<'a> {
    left: &'a [u8],
}

impl<'a> Records<'a> {
    /// Reads from the start of `bytes`, where a record begins.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.left.is_empty() {
            return None;
        }
        let mut header = Cursor(self.left);
        let (kind, misc_and_size) = match (header.u32(), header.u32()) {
            (Some(kind), Some(word)) => (kind, word),
            _ => {
                self.left = &[];
                return Some(Record::Malformed);
            }
        };
        let (misc, size) = (misc_and_size & 0xffff, (misc_and_size >> 16) as usize);
        if size < HEADER || size > self.left.len() {
            // Where the next record begins is not known any more.
            self.left = &[];
            return Some(Record::Malformed);
        }
        let (record, rest) = self.left.split_at(size);
        self.left = rest;
        Some(parse(kind, misc, &record[HEADER..]))
    }
}

fn parse(kind: u32, misc: u32, body: &[u8]) -> Record {
    let words = Cursor(body);
    let record = match kind {
        bindings::PERF_RECORD_SAMPLE => sample(misc, words),
        bindings::PERF_RECORD_LOST => lost(words, true),
        bindings::PERF_RECORD_LOST_SAMPLES => lost(words, false),
        bindings::PERF_RECORD_THROTTLE => Some(Record::Throttled),
        _ => Some(Record::Other),
    };
    record.unwrap_or(Record::Malformed)
}

fn lost(mut words: Cursor<'_>, with_id: bool) -> Option<Record> {
    if with_id {
        words.u64()?;
    }
    Some(Record::Lost(words.u64()?))
}

fn sample(misc: u32, mut words: Cursor<'_>) -> Option<Record> {
    let pid = words.u32()?;
    let _tid = words.u32()?;
    let period = words.u64()?;
    let callers = usize::try_from(words.u64()?).ok()?;
    if callers > words.0.len() / 8 {
        return None;
    }
    let mut chain = Vec::with_capacity(callers);
    let mut in_kernel = false;
    for _ in 0..callers {
        match words.u64()? {
            context if context >= CONTEXT => in_kernel = context == CONTEXT_KERNEL,
            address if in_kernel => chain.push(address),
            _ => {}
        }
    }
    let mode = misc & bindings::PERF_RECORD_MISC_CPUMODE_MASK;
    Some(Record::Sample {
        pid,
        kernel: mode == bindings::PERF_RECORD_MISC_KERNEL,
        period,
        chain,
    })
}

/// Reads whole words in the machine's byte order.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*word))
    }

    fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONTEXT_USER: u64 = -512_i64 as u64;

    fn record(kind: u32, misc: u32, body: &[u64]) -> Vec<u8> {
        let size = (HEADER + 8 * body.len()) as u32;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend((misc | size << 16).to_ne_bytes());
        bytes.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn ids(pid: u32) -> u64 {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&pid.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn a_sample_is_read_with_its_kernel_callers_only() {
        let body = [
            ids(7),
            50_000,
            5,
            CONTEXT_KERNEL,
            0xffff_ffff_8100_0010,
            0xffff_ffff_8100_0020,
            CONTEXT_USER,
            0x5555_0000,
        ];
        let bytes = record(
            bindings::PERF_RECORD_SAMPLE,
            bindings::PERF_RECORD_MISC_KERNEL,
            &body,
        );
        let records: Vec<Record> = Records::new(&bytes).collect();
        assert_eq!(
            records,
            [Record::Sample {
                pid: 7,
                kernel: true,
                period: 50_000,
                chain: vec![0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020],
            }]
        );
    }

    #[test]
    fn losses_and_throttling_are_told() {
        let mut bytes = record(bindings::PERF_RECORD_LOST, 0, &[3, 17]);
        bytes.extend(record(bindings::PERF_RECORD_THROTTLE, 0, &[1, 2, 3]));
        bytes.extend(record(bindings::PERF_RECORD_COMM, 0, &[1]));
        bytes.extend(record(bindings::PERF_RECORD_LOST_SAMPLES, 0, &[4]));
        let records: Vec<Record> = Records::new(&bytes).collect();
        assert_eq!(
            records,
            [
                Record::Lost(17),
                Record::Throttled,
                Record::Other,
                Record::Lost(4)
            ]
        );
    }

    #[test]
    fn a_sample_whose_callers_do_not_fit_is_malformed() {
        let bytes = record(bindings::PERF_RECORD_SAMPLE, 1, &[ids(1), 1, 1_000, 5]);
        assert_eq!(
            Records::new(&bytes).collect::<Vec<_>>(),
            [Record::Malformed]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_run_on(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(Records::new(&bytes).count() <= bytes.len() / HEADER + 1);
        }

        #[test]
        fn every_sample_is_found(chains in prop::collection::vec(prop::collection::vec(0u64..CONTEXT, 0..12), 0..12)) {
            let mut bytes = Vec::new();
            for chain in &chains {
                let mut body = vec![ids(3), 9, chain.len() as u64 + 1, CONTEXT_KERNEL];
                body.extend(chain);
                bytes.extend(record(bindings::PERF_RECORD_SAMPLE, 1, &body));
            }
            let read: Vec<Vec<u64>> = Records::new(&bytes)
                .filter_map(|record| match record { Record::Sample { chain, .. } => Some(chain), _ => None })
                .collect();
            prop_assert_eq!(read, chains);
        }
    }
}

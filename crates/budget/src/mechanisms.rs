//! The instructions of a round trip over `stack-memory`, or of a write of a stream, with each mechanism of the stack at each of its values.
//!
//! The program runs the path's own operations in virtual time, one setting and one size after the other, and dumps
//! Callgrind's count after each. So one start of Valgrind is enough. Counts repeat to the instruction. They move by
//! some when other sizes are counted before, since memory lies elsewhere then. It must never hold a list of mechanisms: [`Mechanisms::each`] is the list.

use crate::Error;
use crate::callgrind::{counted, dump};
use crate::valgrind::{Program, printed_as};
use serde::{Deserialize, Serialize};
use tollgate_checksum::Kernel;
use tollgate_run::{Placement, Waiting, Workload};
use tollgate_workload::stack_memory::counted::Operations;
use tollgate_workload::{Mechanisms, Spec};

/// The scenarios: their names, and the workload of each.
pub const SCENARIOS: [(&str, Workload); 2] = [
    ("mechanisms", Workload::Rr),
    ("stream-mechanisms", Workload::Stream),
];
/// Operations that are counted at each setting and size.
pub const OPERATIONS: u64 = 128;
/// Operations before those: the congestion window has grown, and what is made at the first use is there.
const WARM_UP: u64 = 64;

/// The instructions of operations.
#[derive(Clone, Debug, PartialEq)]
pub struct MechanismCounts {
    /// The name of the checksum kernel that ran; Valgrind has no AVX-512.
    pub kernel: String,
    /// Operations of each count.
    pub operations: u64,
    /// Instructions of an operation with the default of each mechanism, by size.
    pub defaults: Vec<f64>,
    /// Instructions with one mechanism switched.
    pub switched: Vec<SwitchedCounts>,
}

/// The instructions of operations with one mechanism switched.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchedCounts {
    /// The mechanism.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Instructions of an operation, by size.
    pub instructions: Vec<f64>,
}

/// The scenario's output: its counts are dumped in this order, after one of no operation.
#[derive(Debug, Serialize, Deserialize)]
struct Printed {
    kernel: String,
    operations: u64,
    sizes: Vec<usize>,
    /// Name and value of what is switched, after the default.
    switched: Vec<(String, String)>,
}

/// The name of the checksum kernel that runs in this process.
#[must_use]
pub fn kernel() -> &'static str {
    Kernel::best().name()
}

/// The name of the scenario of a workload; none counts one that has none.
fn scenario(workload: Workload) -> Result<&'static str, Error> {
    let mut scenarios = SCENARIOS.iter();
    let found = scenarios.find(|(_, of)| *of == workload);
    found
        .map(|(name, _)| *name)
        .ok_or_else(|| Error::Unreadable {
            scenario: workload.to_string(),
            what: "no scenario counts this workload".to_owned(),
        })
}

/// Runs the scenario of a workload: `count` operations at each setting and size, to be counted.
///
/// # Errors
/// [`Error::Workload`].
pub fn output(workload: Workload, sizes: &[usize], count: u64) -> Result<String, Error> {
    // What switching on and off and the call itself take.
    let first = sizes.first().map_or(&[][..], std::slice::from_ref);
    measure(workload, Mechanisms::DEFAULT, first, 0)?;
    measure(workload, Mechanisms::DEFAULT, sizes, count)?;
    let mut switched = Vec::new();
    for (name, value, mechanisms) in Mechanisms::each() {
        measure(workload, mechanisms, sizes, count)?;
        switched.push((name.to_owned(), value.to_owned()));
    }
    let printed = Printed {
        kernel: kernel().to_owned(),
        operations: count,
        sizes: sizes.to_vec(),
        switched,
    };
    let scenario = scenario(workload)?;
    serde_json::to_string(&printed).map_err(|error| Error::Unreadable {
        scenario: scenario.to_owned(),
        what: error.to_string(),
    })
}

/// Dumps the count of `count` operations at each size.
fn measure(
    workload: Workload,
    mechanisms: Mechanisms,
    sizes: &[usize],
    count: u64,
) -> Result<(), Error> {
    for &size in sizes {
        let spec = Spec::new(workload, size)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .with_mechanisms(mechanisms);
        let mut operations = Operations::open(&spec)?;
        operations.run(WARM_UP)?;
        let mut outcome = Ok(());
        counted(|| outcome = operations.run(count));
        dump();
        outcome?;
    }
    Ok(())
}

/// Counts so many operations of a workload at each setting and size, in `program`.
///
/// # Errors
/// Those of [`Program::count`].
pub fn count(
    program: &Program,
    workload: Workload,
    sizes: &[usize],
    operations: u64,
) -> Result<MechanismCounts, Error> {
    let scenario = scenario(workload)?;
    let list: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let (printed, parts) = program.parts(scenario, &[operations.to_string(), list.join(",")])?;
    read(scenario, &printed, &parts).map_err(|what| Error::Unreadable {
        scenario: scenario.to_owned(),
        what,
    })
}

/// The counts, from what the scenario printed and the parts that Callgrind wrote.
fn read(scenario: &str, printed: &str, parts: &[u64]) -> Result<MechanismCounts, String> {
    let printed: Printed = printed_as(scenario, printed).map_err(|error| error.to_string())?;
    let wanted = 1 + (1 + printed.switched.len()) * printed.sizes.len();
    // Callgrind may write what is left when the program ends as one part more.
    let (Some((nothing, counts)), true) = (parts.split_first(), parts.len() >= wanted) else {
        return Err(format!("{} counts of {wanted} were written", parts.len()));
    };
    let each = |count: &u64| count.saturating_sub(*nothing) as f64 / printed.operations as f64;
    let mut settings = counts
        .chunks(printed.sizes.len().max(1))
        .map(|counts| counts.iter().map(each).collect::<Vec<f64>>());
    let defaults = settings.next().unwrap_or_default();
    let named = printed.switched.into_iter().zip(settings);
    Ok(MechanismCounts {
        kernel: printed.kernel,
        operations: printed.operations,
        defaults,
        switched: named
            .map(|((name, value), instructions)| SwitchedCounts {
                name,
                value,
                instructions,
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "{\"kernel\":\"avx2\",\"operations\":10,\"sizes\":[4,200],\"switched\":[[\"demux\",\"hash\"]]}";

    #[test]
    fn counts_are_those_of_the_dumps_in_order_less_the_requests() {
        let counts = read("mechanisms", PRINTED, &[7, 1_007, 2_007, 3_007, 4_007, 0]).unwrap();
        assert_eq!(counts.defaults, [100.0, 200.0]);
        assert_eq!(counts.switched.len(), 1);
        assert_eq!(counts.switched[0].name, "demux");
        assert_eq!(counts.switched[0].instructions, [300.0, 400.0]);
    }

    #[test]
    fn missing_counts_are_an_error() {
        let error = read("mechanisms", PRINTED, &[7, 1_007, 2_007]).unwrap_err();
        assert_eq!(error, "3 counts of 5 were written");
        assert!(read("mechanisms", "{}", &[]).is_err());
    }

    #[test]
    fn operations_run_with_every_mechanism_switched() {
        for (name, workload) in SCENARIOS {
            let printed = output(workload, &[4, 9_000], 3).unwrap();
            let printed: Printed = serde_json::from_str(&printed).unwrap();
            assert_eq!(printed.switched.len(), Mechanisms::each().count(), "{name}");
        }
    }

    #[test]
    fn workload_without_a_scenario_is_an_error() {
        assert_eq!(scenario(Workload::Stream).unwrap(), "stream-mechanisms");
        assert!(scenario(Workload::Crr).is_err());
    }
}

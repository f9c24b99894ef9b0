//! Runs a program on one of its scenarios under Callgrind and reads what was counted.
//!
//! Callgrind looks at the program only between the requests of [`crate::callgrind`], so a setup of a hundred thousand
//! connections takes seconds. What the requests themselves add is counted by the scenario `empty` and taken out.

use crate::Error;
use crate::profile::Profile;
use crate::scenario::{self, Done};
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time between two looks at whether a child that may be stopped has ended: little beside a start of Valgrind.
const POLL: Duration = Duration::from_millis(5);

/// A program that runs a scenario when it is called with some arguments, the scenario's name and a count, and that
/// prints [`scenario_output`] alone on its standard output.
#[derive(Clone, Debug)]
pub struct Program {
    exe: PathBuf,
    leading: Vec<OsString>,
    deadline: Option<Instant>,
    /// Raised when its runs are to be stopped.
    stop: Option<Arc<AtomicBool>>,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// The work of the scenario.
    pub done: Done,
    /// Instructions, those of the requests included.
    pub collected: u64,
}

impl Counts {
    /// Instructions per operation, when switching counting on and off costs `pair` instructions.
    pub fn per_operation(&self, pair: u64) -> f64 {
        self.collected.saturating_sub(self.done.pairs * pair) as f64 / self.done.operations as f64
    }
}

/// Runs a scenario and says what it did, as [`Program`] wants it printed. `sizes` are those of the messages of the scenarios of
/// [`mechanisms`](crate::mechanisms); others have none.
///
/// # Errors
/// Those of [`scenario::run_scenario`].
pub fn scenario_output(name: &str, count: u64, sizes: &[usize]) -> Result<String, Error> {
    #[cfg(feature = "bench")]
    if let Some((_, workload)) = crate::mechanisms::SCENARIOS
        .into_iter()
        .find(|(scenario, _)| *scenario == name)
    {
        return crate::mechanisms::output(workload, sizes, count);
    }
    if !sizes.is_empty() {
        return Err(Error::NoSizes {
            scenario: name.to_owned(),
        });
    }
    let done = scenario::run_scenario(name, count)?;
    Ok(format!(
        "{{\"operations\":{},\"pairs\":{}}}",
        done.operations, done.pairs
    ))
}

/// Counts `scenario` with `count` operations in the program `exe`, called with the hidden subcommand `__scenario`.
///
/// # Errors
/// Those of [`Program::count`].
pub fn count(exe: &Path, scenario: &str, count: u64) -> Result<Counts, Error> {
    Program::new(exe, ["__scenario"]).count(scenario, count)
}

impl Program {
    /// The program `exe`, called with `leading` and then the scenario's name and the count.
    pub fn new<A: Into<OsString>>(exe: &Path, leading: impl IntoIterator<Item = A>) -> Self {
        Self {
            exe: exe.to_owned(),
            leading: leading.into_iter().map(Into::into).collect(),
            deadline: None,
            stop: None,
        }
    }

    /// Sets a time at which its runs are stopped, if one is given.
    #[must_use]
    pub fn until(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    /// Stops its runs when this flag is raised.
    #[must_use]
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Self {
        Self {
            stop: Some(stop),
            ..self
        }
    }

    /// The program that is running, called with `leading`.
    ///
    /// # Errors
    /// [`Error::File`] when the system does not say which file it runs.
    pub fn this<A: Into<OsString>>(leading: impl IntoIterator<Item = A>) -> Result<Self, Error> {
        let exe = std::env::current_exe().map_err(|source| Error::File {
            path: PathBuf::from("/proc/self/exe"),
            source,
        })?;
        Ok(Self::new(&exe, leading))
    }

    /// The program's file.
    pub fn exe(&self) -> &Path {
        &self.exe
    }

    /// Counts `scenario` with `count` operations.
    ///
    /// # Errors
    /// [`Error::NoValgrind`]; [`Error::Failed`] with what the program said; [`Error::Late`]; [`Error::Unreadable`].
    pub fn count(&self, scenario: &str, count: u64) -> Result<Counts, Error> {
        let (done, text) = self.run(scenario, count, &[])?;
        let collected = totals(&text).next().unwrap_or(0);
        if collected == 0 {
            return Err(unreadable(scenario, "nothing was counted"));
        }
        Ok(Counts { done, collected })
    }

    /// Runs a scenario that has `arguments` and dumps its counts part by part: what it printed, and the instructions of each part.
    ///
    /// # Errors
    /// Those of [`Program::count`].
    #[cfg(feature = "bench")]
    pub(crate) fn parts(
        &self,
        scenario: &str,
        arguments: &[String],
    ) -> Result<(String, Vec<u64>), Error> {
        let (printed, text) = self.execute(scenario, arguments, &["--combine-dumps=yes"])?;
        Ok((printed, totals(&text).collect()))
    }

    /// Counts `scenario` instruction by instruction, each with the functions that it was inlined from.
    ///
    /// # Errors
    /// Those of [`Program::count`], and when the program's debug information cannot be read.
    pub fn profile(&self, scenario: &str, count: u64) -> Result<(Done, Profile), Error> {
        let (done, text) = self.run(scenario, count, &["--dump-instr=yes"])?;
        let profile = Profile::parse(&text, &self.exe).map_err(|what| Error::Unreadable {
            scenario: scenario.to_owned(),
            what,
        })?;
        Ok((done, profile))
    }

    /// Instructions that switching counting on and off again adds.
    ///
    /// # Errors
    /// Those of [`Program::count`].
    pub fn pair_cost(&self) -> Result<u64, Error> {
        let empty = self.count("empty", 1_000)?;
        if empty.collected % empty.done.pairs != 0 {
            let what = format!(
                "{} empty pairs took {} instructions",
                empty.done.pairs, empty.collected
            );
            return Err(unreadable("empty", &what));
        }
        Ok(empty.collected / empty.done.pairs)
    }

    /// Waits for the child's end and returns its output. It is killed at the deadline, and when it is to be stopped.
    fn output(&self, mut child: Child, scenario: &str) -> Result<Output, Error> {
        let lost = |error: std::io::Error| Error::Failed {
            scenario: scenario.to_owned(),
            status: "its end cannot be waited for".to_owned(),
            stderr: error.to_string(),
        };
        if self.deadline.is_some() || self.stop.is_some() {
            // What it prints is a line, which a pipe holds, so nobody has to read meanwhile.
            while child.try_wait().map_err(lost)?.is_none() {
                let is_stopped =
                    (self.stop.as_ref()).is_some_and(|stop| stop.load(Ordering::Relaxed));
                let is_late = self
                    .deadline
                    .is_some_and(|deadline| Instant::now() >= deadline);
                if is_stopped || is_late {
                    child.kill().map_err(lost)?;
                    child.wait().map_err(lost)?;
                    let scenario = scenario.to_owned();
                    return Err(match is_stopped {
                        true => Error::Stopped { scenario },
                        false => Error::Late { scenario },
                    });
                }
                std::thread::sleep(POLL);
            }
        }
        child.wait_with_output().map_err(lost)
    }

    /// Runs the program under Callgrind; returns what it did and Callgrind's file.
    fn run(&self, scenario: &str, count: u64, options: &[&str]) -> Result<(Done, String), Error> {
        let (printed, text) = self.execute(scenario, &[count.to_string()], options)?;
        Ok((printed_as(scenario, &printed)?, text))
    }

    /// Runs the program under Callgrind; returns what it printed and Callgrind's file.
    fn execute(
        &self,
        scenario: &str,
        arguments: &[String],
        options: &[&str],
    ) -> Result<(String, String), Error> {
        let out = tempfile::NamedTempFile::new().map_err(Error::Temporary)?;
        let mut file = OsString::from("--callgrind-out-file=");
        file.push(out.path());
        let child = Command::new("valgrind")
            .args([
                "--tool=callgrind",
                "--quiet",
                // Nobody asks it anything while it runs; its pipes would be left behind where it is killed.
                "--vgdb=no",
                "--collect-atstart=no",
                "--instr-atstart=no",
            ])
            .args(options)
            .arg(file)
            .arg(&self.exe)
            .args(&self.leading)
            .arg(scenario)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::NoValgrind)?;
        let output = self.output(child, scenario)?;
        if !output.status.success() {
            return Err(Error::Failed {
                scenario: scenario.to_owned(),
                status: output.status.to_string(),
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        let text = std::fs::read_to_string(out.path()).map_err(|source| Error::File {
            path: out.path().to_owned(),
            source,
        })?;
        let printed = String::from_utf8_lossy(&output.stdout);
        Ok((printed.trim().to_owned(), text))
    }
}

/// The instructions of each part of Callgrind's file.
fn totals(text: &str) -> impl Iterator<Item = u64> + '_ {
    let totals = text.lines().filter_map(|line| line.strip_prefix("totals:"));
    totals.filter_map(|rest| rest.trim().parse().ok())
}

fn unreadable(scenario: &str, what: &str) -> Error {
    Error::Unreadable {
        scenario: scenario.to_owned(),
        what: what.to_owned(),
    }
}

/// Reads a scenario's output.
pub(crate) fn printed_as<T: DeserializeOwned>(scenario: &str, printed: &str) -> Result<T, Error> {
    serde_json::from_str(printed).map_err(|error| {
        unreadable(
            scenario,
            &format!("the scenario printed `{printed}`: {error}"),
        )
    })
}

//! Values that completions offer for an argument whose parser takes more than these, or says in its own words what it refuses.
//!
//! It must never change what is parsed: help, manual and refusals do not know these values.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command};
use tollgate_experiment::experiments;
use tollgate_experiment::sizes::NAMES;
use tollgate_run::PathId;
use tollgate_trace::traffic::Messages;
use tollgate_workload::{LinkKind, Mechanisms};

/// A parser, with the values that completions offer. They are hidden until [`shown`] shows them.
#[derive(Clone)]
pub(crate) struct Offering<P> {
    parser: P,
    values: fn() -> Vec<String>,
}

/// Adds the values that completions offer to a parser.
pub(crate) const fn offering<P>(parser: P, values: fn() -> Vec<String>) -> Offering<P> {
    Offering { parser, values }
}

impl<P: TypedValueParser> TypedValueParser for Offering<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = (self.values)().into_iter();
        Some(Box::new(
            values.map(|value| PossibleValue::new(value).hide(true)),
        ))
    }
}

/// The command with the values shown that its arguments offer, for completions: it parses no longer what it did.
pub(crate) fn shown(command: Command) -> Command {
    let with_values = command.mut_args(|arg| {
        let values = arg.get_possible_values();
        if values.is_empty() || !values.iter().all(PossibleValue::is_hide_set) {
            return arg;
        }
        let values = values.into_iter().map(|value| value.hide(false));
        arg.value_parser(PossibleValuesParser::new(values))
    });
    with_values.mut_subcommands(shown)
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

pub(crate) fn paths() -> Vec<String> {
    owned(PathId::ALL.iter().map(|path| path.name()))
}

pub(crate) fn experiment_names() -> Vec<String> {
    owned(experiments::all().iter().map(|one| one.name()))
}

/// The lists of sizes; a size itself is any number.
pub(crate) fn lists_of_sizes() -> Vec<String> {
    owned(NAMES.map(|(name, _)| name))
}

pub(crate) fn numbers_of_cores() -> Vec<String> {
    owned(["1", "2"])
}

pub(crate) fn ablated_workloads() -> Vec<String> {
    owned(["rr", "stream"])
}

pub(crate) fn ways_of_waiting() -> Vec<String> {
    owned(["block", "poll"])
}

pub(crate) fn links() -> Vec<String> {
    owned(LinkKind::ALL.iter().map(|link| link.name()))
}

pub(crate) fn kinds_of_messages() -> Vec<String> {
    owned(Messages::ALL.map(Messages::name))
}

/// Each mechanism with each of its values.
pub(crate) fn settings() -> Vec<String> {
    let of = |switch: &tollgate_workload::config::Switch| {
        let name = switch.name;
        let values = switch.values.iter();
        values
            .map(|value| format!("{name}={value}"))
            .collect::<Vec<_>>()
    };
    Mechanisms::SWITCHES.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values;

    #[test]
    fn whatever_is_offered_is_taken() {
        let refused: Vec<String> = [
            paths()
                .iter()
                .map(|one| values::path(one).map(drop))
                .collect(),
            experiment_names()
                .iter()
                .map(|one| values::experiment(one).map(drop))
                .collect(),
            lists_of_sizes()
                .iter()
                .map(|one| values::sizes(one).map(drop))
                .collect(),
            numbers_of_cores()
                .iter()
                .map(|one| values::cores(one).map(drop))
                .collect(),
            ablated_workloads()
                .iter()
                .map(|one| values::ablated(one).map(drop))
                .collect(),
            ways_of_waiting()
                .iter()
                .map(|one| values::wait(one).map(drop))
                .collect(),
            links()
                .iter()
                .map(|one| values::link(one).map(drop))
                .collect(),
            settings()
                .iter()
                .map(|one| values::mechanism(one).map(drop))
                .collect::<Vec<_>>(),
        ]
        .into_iter()
        .flatten()
        .filter_map(Result::err)
        .collect();
        assert_eq!(refused, [""; 0]);
    }
}

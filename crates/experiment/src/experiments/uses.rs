//! Mechanisms of Tollgate's stack with which an experiment runs: those that `--set` switches, or its own.
//!
//! It owns the refusals and the note below a table. It must never hold a list of experiments.

use tollgate_run::{TrustLine, format, present};

use super::{Experiment, all};
use crate::context::Options;

/// Mechanisms of Tollgate's stack that an experiment runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uses {
    /// None: it runs nothing of the stack.
    NoStack,
    /// Those of [`Options::mechanisms`], but for some by name, which it chooses by itself.
    AsSet {
        /// The names of those that it chooses.
        but: &'static [&'static str],
    },
    /// Its own choice of all of them, for this reason: a clause whose subject is the experiment.
    Own(&'static str),
}

impl Uses {
    /// Tells whether a mechanism of this name is taken from the options.
    fn takes(self, name: &str) -> bool {
        match self {
            Self::AsSet { but } => !but.contains(&name),
            Self::NoStack | Self::Own(_) => false,
        }
    }
}

/// Tells whether an experiment runs with all of these mechanisms, given by name.
#[must_use]
pub fn takes(experiment: &dyn Experiment, mechanisms: &[&str]) -> bool {
    let uses = experiment.mechanisms();
    mechanisms.iter().all(|name| uses.takes(name))
}

/// The reason why an experiment does not run with the mechanisms of the options: a clause whose subject is the experiment. None where it
/// does, and where all have their default.
#[must_use]
pub fn why_not(experiment: &dyn Experiment, options: &Options) -> Option<String> {
    let set: Vec<&str> = options.stack_mechanisms().map(|(name, _)| name).collect();
    if takes(experiment, &set) {
        return None;
    }
    Some(match experiment.mechanisms() {
        Uses::NoStack => "runs nothing of Tollgate's stack".to_owned(),
        Uses::Own(reason) => reason.to_owned(),
        Uses::AsSet { but } => {
            let own = set.iter().filter(|name| but.contains(name));
            let own: Vec<String> = own.map(|name| (*name).to_owned()).collect();
            format!("chooses {} by itself", format::list(&own))
        }
    })
}

/// The experiments that run with all of these mechanisms, by name.
#[must_use]
pub fn that_take(mechanisms: &[&str]) -> Vec<&'static str> {
    let taking = all().iter().filter(|one| takes(**one, mechanisms));
    taking.map(|one| one.name()).collect()
}

/// Names the mechanisms that were set, below tables whose rows do not; none where all have their default.
pub(super) fn note(options: &Options) -> Option<TrustLine> {
    let set = options.stack_mechanisms();
    let set: Vec<String> = set.map(|(name, value)| format!("{name}={value}")).collect();
    (!set.is_empty()).then(|| {
        present::note(format!(
            "Tollgate's stack runs with {}; all other mechanisms have their default",
            format::list(&set)
        ))
    })
}

#[cfg(test)]
mod tests {
    use tollgate_run::PathId;

    use super::*;
    use crate::experiments::find;

    fn set(settings: &[(&str, &str)]) -> Options {
        let mut options = Options::default();
        for (name, value) in settings {
            options.mechanisms.set(name, value).unwrap();
        }
        options
    }

    #[test]
    fn experiments_on_the_stack_alone_say_which_mechanisms_they_use() {
        let on = |path| Options {
            paths: Some(vec![path]),
            ..Options::default()
        };
        for experiment in all() {
            let concerns = |path| experiment.concerns(&on(path));
            let of_the_stack = [PathId::StackMemory, PathId::StackTap]
                .into_iter()
                .any(concerns)
                && !concerns(PathId::PeerSmoltcp);
            assert!(
                !of_the_stack || experiment.mechanisms() != Uses::NoStack,
                "{}",
                experiment.name()
            );
        }
    }

    #[test]
    fn names_of_chosen_mechanisms_are_those_of_mechanisms() {
        let names: Vec<&str> = Options::default()
            .mechanisms
            .settings()
            .map(|(name, _)| name)
            .collect();
        for experiment in all() {
            if let Uses::AsSet { but } = experiment.mechanisms() {
                assert!(but.iter().all(|name| names.contains(name)), "{but:?}");
            }
        }
    }

    #[test]
    fn refusal_names_the_mechanism_that_is_the_subject() {
        let why = |name, settings: &[(&str, &str)]| why_not(find(name).unwrap(), &set(settings));
        let demux = [("demux", "list"), ("timers", "list")];
        assert_eq!(
            why("wolman-pcb", &demux).as_deref(),
            Some("chooses demux by itself")
        );
        assert_eq!(why("wolman-pcb", &demux[1..]), None);
        assert_eq!(why("wolman-receive", &demux), None);
        assert_eq!(why("wolman-receive", &[]), None);
        assert_eq!(why("ablation", &[]), None);
        assert!(
            why("ablation", &demux)
                .unwrap()
                .starts_with("switches each")
        );
        assert_eq!(
            why("foong-hz", &demux).as_deref(),
            Some("runs nothing of Tollgate's stack")
        );
        assert!(that_take(&["demux"]).contains(&"lehmann-queues"));
        assert!(!that_take(&["demux"]).contains(&"wolman-pcb"));
    }

    #[test]
    fn note_names_what_was_set_and_is_none_for_the_defaults() {
        assert_eq!(note(&Options::default()), None);
        assert_eq!(note(&set(&[("nagle", "on")])), None);
        let line = note(&set(&[("demux", "list"), ("checksum", "off")])).unwrap();
        assert!(
            line.text.contains("runs with demux=list and checksum=off;"),
            "{}",
            line.text
        );
    }
}

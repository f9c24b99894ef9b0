//! From call paths to categories.
//!
//! A sample counts when it was in kernel mode and either of the workload's process, or on its behalf in what another process
//! or the idle task was interrupted by (the file's `elsewhere`). All others are counted apart.

use std::collections::HashMap;

use super::call_paths::{CallPaths, Mode, PathNumber, Profile, SampleCount, TaskKind};
use super::categories::{Categories, Pattern, Target};
use super::symbols::FunctionId;

/// Facts that the rules state about one function.
#[derive(Debug, Clone, Default)]
struct Facts {
    /// The rules that name it, in the file's order.
    rules: Vec<usize>,
    /// The rules that hold within it.
    within: Vec<usize>,
    barrier: bool,
    elsewhere: bool,
    excluded: bool,
}

/// Category of a call path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    assignment: Assignment,
    /// Tells whether it counts when the idle task or another process ran.
    elsewhere: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Assignment {
    Excluded,
    Other,
    Category {
        category: usize,
        part: Option<usize>,
        /// Tells whether a rule names the function itself, not one of its callers.
        named: bool,
    },
}

/// Says to which category each call path belongs, and remembers it.
#[derive(Debug)]
pub struct Classifier {
    categories: Categories,
    facts: HashMap<FunctionId, Facts>,
    verdicts: HashMap<PathNumber, Verdict>,
}

/// A category's share of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// All of it.
    pub count: SampleCount,
    /// Its parts, as [`super::Category::parts`] lists them; what has no part is in `count` only.
    pub parts: Vec<SampleCount>,
}

/// A profile by category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breakdown {
    /// One for each category, in the file's order.
    pub shares: Vec<Share>,
    /// Samples that no rule covers.
    pub other: SampleCount,
    /// The functions of `other`, the largest first.
    pub other_functions: Vec<(String, SampleCount)>,
    /// Of the shares: what was given to a function's caller, because no rule names the function.
    pub by_caller: SampleCount,
    /// Of the shares and `other`: what ran in the idle task or another process, interrupted by it.
    pub elsewhere: SampleCount,
    /// The workload's time outside of the kernel.
    pub user: SampleCount,
    /// The workload's time in the kernel that belongs to the measuring program.
    pub excluded: SampleCount,
    /// The idle task, apart from `elsewhere`.
    pub idle: SampleCount,
    /// Other processes, apart from `elsewhere`.
    pub foreign: SampleCount,
}

impl Breakdown {
    /// The shares and `other` together.
    #[must_use]
    pub fn total(&self) -> SampleCount {
        let mut total = self.other;
        for share in &self.shares {
            total.add(share.count);
        }
        total
    }

    /// The part of the total that rules cover, 0 to 1; `None` without samples.
    #[must_use]
    pub fn covered(&self) -> Option<f64> {
        let total = self.total().weight;
        (total > 0).then(|| 1.0 - self.other.weight as f64 / total as f64)
    }
}

impl Classifier {
    /// Classifies by these categories; always with the same [`CallPaths`].
    #[must_use]
    pub fn new(categories: Categories) -> Self {
        Self {
            categories,
            facts: HashMap::new(),
            verdicts: HashMap::new(),
        }
    }

    /// The categories.
    #[must_use]
    pub fn categories(&self) -> &Categories {
        &self.categories
    }

    /// A profile by category.
    pub fn breakdown(&mut self, call_paths: &CallPaths, profile: &Profile) -> Breakdown {
        self.breakdown_where(call_paths, profile, |_| true)
    }

    /// A profile by category, of the samples on those processors for which `on` holds.
    pub fn breakdown_where(
        &mut self,
        call_paths: &CallPaths,
        profile: &Profile,
        on: impl Fn(usize) -> bool,
    ) -> Breakdown {
        let mut breakdown = self.empty();
        let mut other: HashMap<FunctionId, SampleCount> = HashMap::new();
        for (key, &count) in &profile.counts {
            if !on(key.cpu as usize) {
                continue;
            }
            if key.mode == Mode::User {
                match key.task {
                    TaskKind::Workload => breakdown.user.add(count),
                    TaskKind::Idle => breakdown.idle.add(count),
                    TaskKind::Other => breakdown.foreign.add(count),
                }
                continue;
            }
            let verdict = self.verdict(call_paths, key.path);
            if key.task != TaskKind::Workload {
                if !verdict.elsewhere {
                    match key.task {
                        TaskKind::Idle => breakdown.idle.add(count),
                        _ => breakdown.foreign.add(count),
                    }
                    continue;
                }
                breakdown.elsewhere.add(count);
            }
            match verdict.assignment {
                Assignment::Excluded => breakdown.excluded.add(count),
                Assignment::Other => {
                    breakdown.other.add(count);
                    let leaf = call_paths.path(key.path).first().copied();
                    let leaf = leaf.unwrap_or(FunctionId(0));
                    other.entry(leaf).or_default().add(count);
                }
                Assignment::Category {
                    category,
                    part,
                    named,
                } => {
                    let share = &mut breakdown.shares[category];
                    share.count.add(count);
                    if let Some(part) = part {
                        share.parts[part].add(count);
                    }
                    if !named {
                        breakdown.by_caller.add(count);
                    }
                }
            }
        }
        breakdown.other_functions = other
            .into_iter()
            .map(|(function, count)| (call_paths.symbols().name(function).to_owned(), count))
            .collect();
        breakdown
            .other_functions
            .sort_by(|a, b| b.1.weight.cmp(&a.1.weight).then_with(|| a.0.cmp(&b.0)));
        breakdown
    }

    /// A profile cut into one for each category, in the file's order, and one of what no rule covers: only samples that
    /// count, so that another classifier can look at each piece.
    pub fn pieces(&mut self, call_paths: &CallPaths, profile: &Profile) -> Vec<Profile> {
        let count = self.categories.categories.len();
        let mut pieces = vec![Profile::default(); count + 1];
        for (&key, &sum) in &profile.counts {
            if key.mode == Mode::User {
                continue;
            }
            let verdict = self.verdict(call_paths, key.path);
            if key.task != TaskKind::Workload && !verdict.elsewhere {
                continue;
            }
            let assignment = match verdict.assignment {
                Assignment::Excluded => continue,
                Assignment::Other => count,
                Assignment::Category { category, .. } => category,
            };
            pieces[assignment].counts.entry(key).or_default().add(sum);
        }
        pieces
    }

    /// The functions with the most samples that count, by their own instructions, with the category of each: what a look at
    /// a profile begins with.
    pub fn top_functions(
        &mut self,
        call_paths: &CallPaths,
        profile: &Profile,
        most: usize,
    ) -> Vec<(String, String, SampleCount)> {
        let mut sums: HashMap<(FunctionId, String), SampleCount> = HashMap::new();
        for (key, &count) in &profile.counts {
            if key.mode == Mode::User {
                continue;
            }
            let verdict = self.verdict(call_paths, key.path);
            if key.task != TaskKind::Workload && !verdict.elsewhere {
                continue;
            }
            let category = match verdict.assignment {
                Assignment::Excluded => continue,
                Assignment::Other => self.categories.other.clone(),
                Assignment::Category { category, .. } => {
                    self.categories.categories[category].name.clone()
                }
            };
            let leaf = call_paths.path(key.path).first().copied();
            let leaf = leaf.unwrap_or(FunctionId(0));
            sums.entry((leaf, category)).or_default().add(count);
        }
        let mut top: Vec<(String, String, SampleCount)> = sums
            .into_iter()
            .map(|((leaf, category), count)| {
                (call_paths.symbols().name(leaf).to_owned(), category, count)
            })
            .collect();
        top.sort_by(|a, b| b.2.weight.cmp(&a.2.weight).then_with(|| a.0.cmp(&b.0)));
        top.truncate(most);
        top
    }

    fn empty(&self) -> Breakdown {
        let shares = self.categories.categories.iter().map(|category| Share {
            count: SampleCount::default(),
            parts: vec![SampleCount::default(); category.parts.len()],
        });
        Breakdown {
            shares: shares.collect(),
            other: SampleCount::default(),
            other_functions: Vec::new(),
            by_caller: SampleCount::default(),
            elsewhere: SampleCount::default(),
            user: SampleCount::default(),
            excluded: SampleCount::default(),
            idle: SampleCount::default(),
            foreign: SampleCount::default(),
        }
    }

    fn verdict(&mut self, call_paths: &CallPaths, number: PathNumber) -> Verdict {
        if let Some(&known) = self.verdicts.get(&number) {
            return known;
        }
        let path = call_paths.path(number);
        for &function in path {
            let categories = &self.categories;
            self.facts
                .entry(function)
                .or_insert_with(|| facts(categories, call_paths.symbols().name(function)));
        }
        let all: Vec<&Facts> = path.iter().map(|function| &self.facts[function]).collect();
        let verdict = judge(&self.categories, &all);
        self.verdicts.insert(number, verdict);
        verdict
    }
}

fn facts(categories: &Categories, name: &str) -> Facts {
    let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.fits(name));
    let rules = || categories.rules.iter().enumerate();
    Facts {
        rules: rules()
            .filter(|(_, rule)| any(&rule.functions))
            .map(|(at, _)| at)
            .collect(),
        within: rules()
            .filter(|(_, rule)| any(&rule.within))
            .map(|(at, _)| at)
            .collect(),
        barrier: any(&categories.barriers),
        elsewhere: any(&categories.elsewhere),
        excluded: any(&categories.excluded),
    }
}

/// Finds the category of a call path, innermost first.
fn judge(categories: &Categories, path: &[&Facts]) -> Verdict {
    let end = path
        .iter()
        .position(|facts| facts.barrier)
        .map_or(path.len(), |at| at + 1);
    let path = &path[..end];
    let elsewhere = path.iter().any(|facts| facts.elsewhere);
    let assignment = if path.iter().any(|facts| facts.excluded) {
        Assignment::Excluded
    } else {
        decide(categories, path)
    };
    Verdict {
        assignment,
        elsewhere,
    }
}

fn decide(categories: &Categories, path: &[&Facts]) -> Assignment {
    // Whether all functions further in are passed over by name.
    let mut own = true;
    for (at, facts) in path.iter().enumerate() {
        let holds = |number: usize| {
            let rule = &categories.rules[number];
            (own || !rule.own)
                && (rule.within.is_empty()
                    || path[at..]
                        .iter()
                        .any(|outer| outer.within.contains(&number)))
        };
        match facts.rules.iter().copied().find(|&number| holds(number)) {
            Some(number) => match categories.rules[number].target {
                Target::Caller => {}
                Target::Category { category, part } => {
                    return Assignment::Category {
                        category,
                        part,
                        named: own,
                    };
                }
            },
            None => own = false,
        }
    }
    Assignment::Other
}

#[cfg(test)]
mod tests {
    use super::super::symbols::Symbols;
    use super::*;
    use crate::call_paths::Key;

    const FILE: &str = r#"
        name = "n"
        title = "t"
        barriers = ["softirq"]
        elsewhere = ["net_rx"]
        excluded = ["futex"]
        [[category]]
        name = "Move"
        touches_data = true
        about = "a"
        [[category]]
        name = "Tcp"
        about = "b"
        [[category]]
        name = "Os"
        about = "c"
        [[rule]]
        category = "caller"
        functions = ["memset"]
        [[rule]]
        category = "Move"
        part = "header"
        functions = ["memcpy"]
        within = ["tcp_out"]
        [[rule]]
        category = "Move"
        functions = ["memcpy"]
        [[rule]]
        category = "Tcp"
        functions = ["tcp_*"]
        [[rule]]
        category = "Os"
        functions = ["syscall", "softirq"]
        own = true
    "#;

    /// A kernel whose functions are these, 0x100 apart, and the addresses of a path in it.
    struct Machine {
        call_paths: CallPaths,
        names: Vec<&'static str>,
        _root: tempfile::TempDir,
    }

    impl Machine {
        fn new() -> Self {
            let names = vec![
                "memset", "memcpy", "tcp_out", "tcp_in", "helper", "syscall", "softirq", "net_rx",
                "futex", "idle",
            ];
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir(root.path().join("proc")).unwrap();
            let lines: String = names
                .iter()
                .enumerate()
                .map(|(at, name)| format!("{:x} T {name}\n", 0x1000 + at * 0x100))
                .collect();
            std::fs::write(root.path().join("proc/kallsyms"), lines).unwrap();
            let call_paths = CallPaths::new(Symbols::read_in(root.path()).unwrap());
            Self {
                call_paths,
                names,
                _root: root,
            }
        }

        fn path(&mut self, functions: &[&str]) -> PathNumber {
            let addresses: Vec<u64> = functions
                .iter()
                .map(|name| {
                    let at = self.names.iter().position(|known| known == name).unwrap();
                    0x1000 + at as u64 * 0x100 + 0x10
                })
                .collect();
            self.call_paths.enter(&addresses)
        }
    }

    fn assignment_of(functions: &[&str]) -> Assignment {
        let mut machine = Machine::new();
        let number = machine.path(functions);
        let mut classifier = Classifier::new(Categories::parse("x", FILE).unwrap());
        classifier.verdict(&machine.call_paths, number).assignment
    }

    fn category(category: usize, named: bool) -> Assignment {
        Assignment::Category {
            category,
            part: None,
            named,
        }
    }

    #[test]
    fn the_innermost_function_that_a_rule_names_decides() {
        assert_eq!(
            assignment_of(&["tcp_in", "tcp_out", "syscall"]),
            category(1, true)
        );
        assert_eq!(
            assignment_of(&["helper", "tcp_in", "syscall"]),
            category(1, false)
        );
    }

    #[test]
    fn what_is_passed_over_belongs_to_its_caller() {
        assert_eq!(assignment_of(&["memset", "tcp_in"]), category(1, true));
        assert_eq!(assignment_of(&["memset"]), Assignment::Other);
    }

    #[test]
    fn a_rule_within_holds_only_there() {
        let header = Assignment::Category {
            category: 0,
            part: Some(0),
            named: true,
        };
        assert_eq!(assignment_of(&["memcpy", "helper", "tcp_out"]), header);
        assert_eq!(assignment_of(&["memcpy", "tcp_in"]), category(0, true));
    }

    #[test]
    fn own_instructions_are_not_those_of_callees() {
        assert_eq!(assignment_of(&["syscall"]), category(2, true));
        assert_eq!(assignment_of(&["memset", "syscall"]), category(2, true));
        assert_eq!(assignment_of(&["helper", "syscall"]), Assignment::Other);
    }

    #[test]
    fn behind_a_barrier_nothing_counts() {
        assert_eq!(
            assignment_of(&["helper", "softirq", "tcp_out"]),
            Assignment::Other
        );
        assert_eq!(
            assignment_of(&["tcp_in", "softirq", "futex"]),
            category(1, true)
        );
        assert_eq!(assignment_of(&["tcp_in", "futex"]), Assignment::Excluded);
    }

    #[test]
    fn samples_of_others_are_counted_apart() {
        let mut machine = Machine::new();
        let mut profile = Profile::default();
        let mut add = |functions: &[&str], task, mode, cpu| {
            let path = machine.path(functions);
            let key = Key {
                path,
                task,
                mode,
                cpu,
            };
            profile.add(key, 10);
        };
        add(&["tcp_in", "syscall"], TaskKind::Workload, Mode::Kernel, 0);
        add(&[], TaskKind::Workload, Mode::User, 0);
        add(&["idle"], TaskKind::Idle, Mode::Kernel, 0);
        add(
            &["tcp_in", "net_rx", "softirq", "idle"],
            TaskKind::Idle,
            Mode::Kernel,
            1,
        );
        add(&["tcp_in", "syscall"], TaskKind::Other, Mode::Kernel, 1);
        add(&["futex", "syscall"], TaskKind::Workload, Mode::Kernel, 1);
        add(&["helper"], TaskKind::Workload, Mode::Kernel, 1);
        let mut classifier = Classifier::new(Categories::parse("x", FILE).unwrap());
        let shown = classifier.breakdown(&machine.call_paths, &profile);
        assert_eq!(shown.total().samples, 3);
        assert_eq!(shown.shares[1].count.weight, 20);
        assert_eq!(shown.other_functions[0].0, "helper");
        let apart = [
            shown.user,
            shown.idle,
            shown.foreign,
            shown.excluded,
            shown.elsewhere,
        ];
        assert!(apart.iter().all(|count| count.samples == 1), "{shown:?}");
        assert!((shown.covered().unwrap() - 2.0 / 3.0).abs() < 1e-9);
        let pieces = classifier.pieces(&machine.call_paths, &profile);
        let sizes: Vec<u64> = pieces.iter().map(Profile::samples).collect();
        assert_eq!(sizes, [0, 2, 0, 1]);
        let elsewhere = classifier.breakdown_where(&machine.call_paths, &profile, |cpu| cpu == 1);
        assert_eq!(elsewhere.total().samples, 2);
        assert_eq!(
            classifier.top_functions(&machine.call_paths, &profile, 1)[0].0,
            "tcp_in"
        );
    }
}

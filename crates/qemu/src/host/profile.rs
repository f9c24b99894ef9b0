//! The plugin's counts, read back and with names: instructions by function and by the functions that led to it.

use std::collections::BTreeMap;

use super::Error;
use super::symbols::Symbols;
use crate::tally::HEADING;

/// Instructions, with the repetitions of string instructions apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InstructionCount {
    /// Instructions as a processor counts them.
    pub instructions: u64,
    /// Repetitions of string instructions after the first, which QEMU's clock counts, too.
    pub repetitions: u64,
}

impl InstructionCount {
    /// Steps that QEMU's clock counts.
    #[must_use]
    pub const fn steps(self) -> u64 {
        self.instructions + self.repetitions
    }
}

impl std::ops::AddAssign for InstructionCount {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.repetitions += other.repetitions;
    }
}

/// A place in the tree of calls with what was counted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallNode {
    /// The functions from the kernel's entry to the one that was counted, which is the last. A function that another one
    /// was left for by a jump stands in front of that one.
    pub way: Vec<String>,
    /// Instructions of the last function itself.
    pub count: InstructionCount,
}

/// Counts between two markers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Region {
    /// In programs.
    pub user: InstructionCount,
    /// In the kernel, the places in a fixed order, each once.
    pub places: Vec<CallNode>,
    /// Calls of each function, by the way to it.
    pub calls: Vec<(Vec<String>, u64)>,
}

impl Region {
    /// Everything that was executed.
    #[must_use]
    pub fn total(&self) -> InstructionCount {
        let mut total = self.user;
        for place in &self.places {
            total += place.count;
        }
        total
    }

    /// Calls of a function. Jumps from the end of another function (tail calls) are not among them.
    #[must_use]
    pub fn calls_of(&self, function: &str) -> u64 {
        let calls = self.calls.iter();
        calls
            .filter(|(way, _)| way.last().is_some_and(|last| last == function))
            .map(|(_, times)| times)
            .sum()
    }

    /// Instructions of a function and of all that it called.
    #[must_use]
    pub fn within(&self, function: &str) -> InstructionCount {
        let mut count = InstructionCount::default();
        for place in &self.places {
            if place.way.iter().any(|name| name == function) {
                count += place.count;
            }
        }
        count
    }
}

struct Path {
    parent: usize,
    site: u64,
    entry: u64,
}

/// Reads the plugin's text.
///
/// # Errors
/// [`Error::Tally`] when the text is none, or not whole.
pub fn read(text: &str, symbols: &Symbols) -> Result<Vec<Region>, Error> {
    let wrong = |line: &str| Error::Tally {
        what: format!("{line:?} is not what was expected"),
    };
    let mut lines = text.lines();
    if lines.next() != Some(HEADING) {
        return Err(Error::Tally {
            what: format!("it does not begin with {HEADING:?}"),
        });
    }
    let mut paths = vec![Path {
        parent: 0,
        site: 0,
        entry: 0,
    }];
    let mut regions: Vec<Reading> = Vec::new();
    for line in lines {
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        let hex = |word: &str| u64::from_str_radix(word, 16).map_err(|_| wrong(line));
        let number = |word: &str| word.parse::<u64>().map_err(|_| wrong(line));
        let node = |word: &str, below: usize| {
            let node = word.parse::<usize>().map_err(|_| wrong(line))?;
            if node < below {
                Ok(node)
            } else {
                Err(wrong(line))
            }
        };
        match (kind, words.as_slice()) {
            ("path", [own, parent, site, entry]) => {
                if node(own, paths.len() + 1)? != paths.len() {
                    return Err(wrong(line));
                }
                paths.push(Path {
                    parent: node(parent, paths.len())?,
                    site: hex(site)?,
                    entry: hex(entry)?,
                });
            }
            ("region", [instructions, repetitions]) => regions.push(Reading {
                user: InstructionCount {
                    instructions: number(instructions)?,
                    repetitions: number(repetitions)?,
                },
                ..Reading::default()
            }),
            ("count", [own, pc, instructions, repetitions]) => {
                let region = regions.last_mut().ok_or_else(|| wrong(line))?;
                let way = way(&paths, node(own, paths.len())?, Some(hex(pc)?), symbols);
                *region.places.entry(way).or_default() += InstructionCount {
                    instructions: number(instructions)?,
                    repetitions: number(repetitions)?,
                };
            }
            ("calls", [own, times]) => {
                let region = regions.last_mut().ok_or_else(|| wrong(line))?;
                let own = node(own, paths.len())?;
                if symbols.is_own_part(paths[own].site, paths[own].entry) {
                    continue;
                }
                let way = way(&paths, own, None, symbols);
                *region.calls.entry(way).or_default() += number(times)?;
            }
            ("end", []) => return Ok(regions.into_iter().map(Reading::done).collect()),
            _ => return Err(wrong(line)),
        }
    }
    Err(Error::Tally {
        what: "its end is missing".to_owned(),
    })
}

#[derive(Default)]
struct Reading {
    user: InstructionCount,
    places: BTreeMap<Vec<String>, InstructionCount>,
    calls: BTreeMap<Vec<String>, u64>,
}

impl Reading {
    fn done(self) -> Region {
        let place = |(way, count)| CallNode { way, count };
        Region {
            user: self.user,
            places: self.places.into_iter().map(place).collect(),
            calls: self.calls.into_iter().collect(),
        }
    }
}

/// The functions on a path, and the one at `pc` behind its last call.
fn way(paths: &[Path], mut node: usize, pc: Option<u64>, symbols: &Symbols) -> Vec<String> {
    let mut way = Vec::new();
    let mut push = |address| {
        let name = symbols.function(address);
        if way.last().is_none_or(|last| last != name) {
            way.push(name.to_owned());
        }
    };
    // From the inside out; a function that is entered and left for another by a jump shows as both.
    if let Some(pc) = pc {
        push(pc);
    }
    while let Some(path) = paths.get(node).filter(|_| node != 0) {
        push(path.entry);
        push(path.site);
        node = path.parent;
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Symbols {
        let names = [
            (0x1000, "entry"),
            (0x2000, "tcp_v4_rcv"),
            (0x3000, "tcp_ack"),
            (0x4000, "memcpy"),
        ];
        Symbols::new(names.map(|(start, name)| (start, name.to_owned())))
    }

    fn text(rest: &str) -> String {
        format!("{HEADING}\npath 1 0 1010 2000\npath 2 1 3020 4000\npath 3 1 3040 4000\n{rest}")
    }

    #[test]
    fn counts_get_the_names_of_the_functions_on_their_way() {
        let text = text(
            "region 7 1\ncount 1 2004 5 0\ncount 1 3004 6 0\ncount 2 4000 3 9\ncount 3 4000 3 9\ncalls 1 2\ncalls 2 4\ncalls 3 4\nend\n",
        );
        let regions = read(&text, &symbols()).unwrap();
        let [region] = regions.as_slice() else {
            panic!("{regions:?}")
        };
        let ways: Vec<String> = region
            .places
            .iter()
            .map(|place| place.way.join(" "))
            .collect();
        // The function at 3020 was jumped to from tcp_v4_rcv, and calls memcpy at two places.
        assert_eq!(
            ways,
            [
                "entry tcp_v4_rcv",
                "entry tcp_v4_rcv tcp_ack",
                "entry tcp_v4_rcv tcp_ack memcpy"
            ]
        );
        assert_eq!(
            region.places[2].count,
            InstructionCount {
                instructions: 6,
                repetitions: 18
            }
        );
        assert_eq!(
            region.total(),
            InstructionCount {
                instructions: 24,
                repetitions: 19
            }
        );
        assert_eq!(region.total().steps(), 43);
        assert_eq!(region.calls_of("memcpy"), 8);
        assert_eq!(region.calls_of("tcp_v4_rcv"), 2);
        assert_eq!(region.within("tcp_ack").instructions, 12);
    }

    #[test]
    fn call_of_a_functions_own_part_is_no_call_of_it() {
        let names = [
            (0x1000, "entry"),
            (0x2000, "tcp_ack"),
            (0x3000, "tcp_ack.part.0"),
        ];
        let symbols = Symbols::new(names.map(|(start, name)| (start, name.to_owned())));
        // The compiler has put the front of the function into its second caller, which calls the part alone.
        let text = format!(
            "{HEADING}\npath 1 0 1010 2000\npath 2 1 2010 3000\npath 3 0 1020 3000\nregion 0 0\ncalls 1 4\ncalls 2 3\ncalls 3 2\nend\n"
        );
        let regions = read(&text, &symbols).unwrap();
        assert_eq!(regions[0].calls_of("tcp_ack"), 6);
    }

    #[test]
    fn a_text_that_is_not_whole_is_refused() {
        for rest in [
            "",
            "region 1 0\n",
            "count 1 2000 1 0\nend\n",
            "region 1 0\ncount 9 2000 1 0\nend\n",
            "path 4 4 1 2\nend\n",
            "path 5 1 1 2\nend\n",
            "region one 0\nend\n",
            "nonsense\nend\n",
        ] {
            assert!(
                matches!(read(&text(rest), &symbols()), Err(Error::Tally { .. })),
                "{rest:?}"
            );
        }
        assert!(matches!(
            read("tollgate-tally 2\nend\n", &symbols()),
            Err(Error::Tally { .. })
        ));
        assert_eq!(read(&text("end\n"), &symbols()).unwrap(), []);
    }
}

//! Counts by instruction, each instruction with the functions whose code it is.
//!
//! Callgrind says how often each instruction ran; the program's debug information says from which functions it was
//! inlined. So what a small function costs can be counted where it runs, inlined and optimised together with its
//! callers. An instruction that serves two functions at once is counted for the one that the compiler names.

use std::collections::HashMap;
use std::path::Path;

/// The instructions that ran, and how often.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    instructions: Vec<Instruction>,
}

/// An instruction that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The count of calls.
    pub count: u64,
    /// The functions whose code it is, innermost first; the last one was called, the others were inlined into it.
    pub frames: Vec<Frame>,
}

/// A function whose code an instruction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name.
    pub function: String,
    /// The source line in it: of the instruction, or of the call that was inlined.
    pub line: Option<Line>,
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The file, as the compiler was told.
    pub file: String,
    /// The line, from 1.
    pub number: u32,
}

impl Profile {
    /// A profile of these instructions.
    #[cfg(test)]
    pub(crate) const fn of(instructions: Vec<Instruction>) -> Self {
        Self { instructions }
    }

    /// Reads Callgrind's file, written with `--dump-instr=yes`, and resolves the instructions of `exe`. For other
    /// objects (libc) there is the symbol alone.
    ///
    /// # Errors
    /// The defect of the file, or of the debug information.
    pub fn parse(text: &str, exe: &Path) -> Result<Self, String> {
        let counts = parse(text)?;
        let loader = addr2line::Loader::new(exe)
            .map_err(|error| format!("debug information of {}: {error}", exe.display()))?;
        let exe = exe.to_string_lossy();
        let mut instructions = Vec::new();
        for (place, count) in counts {
            let mut frames = Vec::new();
            if place.object == exe {
                let mut found = loader
                    .find_frames(place.address)
                    .map_err(|error| error.to_string())?;
                while let Some(frame) = found.next().map_err(|error| error.to_string())? {
                    let function = frame
                        .function
                        .as_ref()
                        .and_then(|name| name.demangle().ok());
                    frames.push(Frame {
                        function: function
                            .map_or_else(|| place.symbol.clone(), |name| name.into_owned()),
                        line: frame.location.and_then(|at| {
                            Some(Line {
                                file: at.file?.to_owned(),
                                number: at.line?,
                            })
                        }),
                    });
                }
            }
            if frames.is_empty() {
                frames.push(Frame {
                    function: place.symbol,
                    line: None,
                });
            }
            instructions.push(Instruction { count, frames });
        }
        Ok(Self { instructions })
    }

    /// All instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Instructions counted in all.
    pub fn total(&self) -> u64 {
        self.instructions.iter().map(|one| one.count).sum()
    }

    /// Instructions that belong to a function for which `is_it` says yes: its own, and what was inlined into it.
    pub fn within(&self, is_it: impl Fn(&str) -> bool) -> u64 {
        self.count(|one| one.frames.iter().any(|frame| is_it(&frame.function)))
    }

    /// Instructions for which `is_it` says yes.
    pub fn count(&self, is_it: impl Fn(&Instruction) -> bool) -> u64 {
        self.instructions
            .iter()
            .filter(|one| is_it(one))
            .map(|one| one.count)
            .sum()
    }

    /// Instructions by the function that was called, and by the innermost function, most first.
    pub fn by_function(&self) -> [Vec<(String, u64)>; 2] {
        let by = |key: fn(&[Frame]) -> Option<&Frame>| {
            let mut sums: HashMap<&str, u64> = HashMap::new();
            for one in &self.instructions {
                *sums
                    .entry(key(&one.frames).map_or("", |frame| &frame.function))
                    .or_default() += one.count;
            }
            let mut sums: Vec<_> = sums
                .into_iter()
                .map(|(name, sum)| (name.to_owned(), sum))
                .collect();
            sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            sums
        };
        [by(<[Frame]>::last), by(<[Frame]>::first)]
    }
}

/// The source lines that a profile names, read where the compiler found them.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: HashMap<String, Vec<String>>,
}

impl Sources {
    /// Reads the files that `profile` names and that `wanted` says yes to.
    ///
    /// # Errors
    /// A file that cannot be read, as on a machine where the program was not built.
    pub fn read(profile: &Profile, wanted: impl Fn(&str) -> bool) -> Result<Self, String> {
        let mut files = HashMap::new();
        let lines = profile
            .instructions
            .iter()
            .flat_map(|one| &one.frames)
            .filter_map(|frame| frame.line.as_ref());
        for line in lines.filter(|line| wanted(&line.file)) {
            if !files.contains_key(&line.file) {
                let text = std::fs::read_to_string(&line.file)
                    .map_err(|error| format!("{}: {error}", line.file))?;
                files.insert(line.file.clone(), text.lines().map(str::to_owned).collect());
            }
        }
        Ok(Self { files })
    }

    /// The text of a line, empty when its file was not read.
    pub fn text(&self, line: &Line) -> &str {
        let index = (line.number as usize).checked_sub(1);
        self.files
            .get(&line.file)
            .zip(index)
            .and_then(|(lines, index)| lines.get(index))
            .map_or("", String::as_str)
    }
}

/// Position of an instruction in the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Position {
    object: String,
    address: u64,
    symbol: String,
}

/// Counts by place. The format is that of Valgrind's manual, "Callgrind Format Specification", with the positions
/// `instr line`.
fn parse(text: &str) -> Result<Vec<(Position, u64)>, String> {
    let mut names: HashMap<(&str, String), String> = HashMap::new();
    let mut counts: HashMap<(String, u64, String), u64> = HashMap::new();
    let (mut object, mut symbol) = (String::new(), String::new());
    let mut address = 0u64;
    let mut is_call = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("positions:") {
            if rest.trim() != "instr line" {
                return Err(format!("positions are `{}`, not `instr line`", rest.trim()));
            }
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if let Some((key, value)) = line
            .split_once('=')
            .filter(|(key, _)| matches!(*key, "ob" | "fn" | "cob" | "cfn"))
        {
            let kind = if key.ends_with("ob") { "ob" } else { "fn" };
            let name = full_name(&mut names, kind, value)?;
            match key {
                "ob" => object = name,
                "fn" => symbol = name,
                _ => {}
            }
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let mut words = line.split_ascii_whitespace();
            let position = words.next().unwrap_or_default();
            address = moved(address, position).ok_or_else(|| format!("`{line}` is no position"))?;
            let cost = words.nth(1).unwrap_or("0");
            let cost: u64 = cost.parse().map_err(|_| format!("`{line}` has no cost"))?;
            if !std::mem::take(&mut is_call) {
                *counts
                    .entry((object.clone(), address, symbol.clone()))
                    .or_default() += cost;
            }
        }
    }
    let mut counts: Vec<_> = counts
        .into_iter()
        .map(|((object, address, symbol), count)| {
            (
                Position {
                    object,
                    address,
                    symbol,
                },
                count,
            )
        })
        .collect();
    counts.sort_by(|a, b| {
        (&a.0.object, a.0.address, &a.0.symbol).cmp(&(&b.0.object, b.0.address, &b.0.symbol))
    });
    Ok(counts)
}

/// The name in `(id) name`, which is remembered, or that of `(id)`.
fn full_name<'a>(
    names: &mut HashMap<(&'a str, String), String>,
    kind: &'a str,
    value: &str,
) -> Result<String, String> {
    let Some((id, name)) = value
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
    else {
        return Ok(value.to_owned());
    };
    let name = name.trim();
    if name.is_empty() {
        return names
            .get(&(kind, id.to_owned()))
            .cloned()
            .ok_or_else(|| format!("no name was given for {kind} {id}"));
    }
    names.insert((kind, id.to_owned()), name.to_owned());
    Ok(name.to_owned())
}

/// The address that `position` means behind `address`: absolute, relative, or the same.
fn moved(address: u64, position: &str) -> Option<u64> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match position.as_bytes().first()? {
        b'*' => Some(address),
        b'+' => address.checked_add(number(&position[1..])?),
        b'-' => address.checked_sub(number(&position[1..])?),
        _ => number(position),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "# callgrind format\npositions: instr line\nevents: Ir\nob=(1) /bin/program\nfl=(1) a.rs\nfn=(1) one\n\
        0x100 10 3\n+4 +1 3\n* * 2\ncfn=(2) two\ncalls=3 0x200 5\n* * 99\n+2 * 1\n\nfn=(2)\n0x200 5 9\n-16 -2 4\nsummary: 22\n";

    #[test]
    fn calls_are_not_the_callers_own() {
        let counts = parse(FILE).unwrap();
        let plain: Vec<_> = counts
            .iter()
            .map(|(place, count)| (place.address, place.symbol.as_str(), *count))
            .collect();
        assert_eq!(
            plain,
            [
                (0x100, "one", 3),
                (0x104, "one", 5),
                (0x106, "one", 1),
                (0x1f0, "two", 4),
                (0x200, "two", 9)
            ]
        );
        assert!(
            counts
                .iter()
                .all(|(place, _)| place.object == "/bin/program")
        );
    }

    #[test]
    fn other_positions_are_refused() {
        assert!(parse("positions: line\n").unwrap_err().contains("`line`"));
        assert!(parse("fn=(7)\n").unwrap_err().contains("fn 7"));
    }

    #[test]
    fn what_is_inlined_belongs_to_both() {
        let one = |count, functions: &[&str]| Instruction {
            count,
            frames: functions
                .iter()
                .map(|&name| Frame {
                    function: name.to_owned(),
                    line: None,
                })
                .collect(),
        };
        let profile = Profile {
            instructions: vec![
                one(2, &["alloc", "send"]),
                one(3, &["send"]),
                one(4, &["memcpy"]),
            ],
        };
        assert_eq!(profile.total(), 9);
        assert_eq!(profile.within(|name| name == "send"), 5);
        assert_eq!(
            profile.within(|name| name == "alloc" || name == "memcpy"),
            6
        );
        let [called, innermost] = profile.by_function();
        assert_eq!(called, [("send".to_owned(), 5), ("memcpy".to_owned(), 4)]);
        assert_eq!(
            innermost,
            [
                ("memcpy".to_owned(), 4),
                ("send".to_owned(), 3),
                ("alloc".to_owned(), 2)
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(lines in prop::collection::vec("[-+*0-9a-fx=() ]{0,12}|fn=\\([0-9]\\)( [a-z]+)?|calls=1 2", 0..20)) {
            let _ = parse(&lines.join("\n"));
        }
    }
}

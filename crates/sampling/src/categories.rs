//! Category files: which function's time belongs to what.
//!
//! A file is TOML. It names categories, and rules that give functions to them:
//!
//! ```toml
//! name = "mine"                      # one word
//! title = "My categories"
//! other = "Other"                    # what no rule covers
//! barriers = ["handle_softirqs"]     # what lies further out was interrupted, and called nothing
//! elsewhere = ["net_rx_action"]      # also counts when the idle task or another process was interrupted
//! excluded = ["do_futex"]            # of the measuring program, not of what it measures
//!
//! [[category]]
//! name = "DataMove"
//! touches_data = true
//! about = "copies between user and kernel memory"
//!
//! [[rule]]
//! category = "DataMove"              # or "caller": the function is passed over
//! part = "User-kernel copy"          # optional
//! functions = ["_copy_to_iter", "copy_user_*"]
//! within = ["tcp_recvmsg*"]          # optional: only when one of these called it, at whatever distance
//! own = true                         # optional: only its own instructions, not what it calls
//! ```
//!
//! A call path is read from the innermost function outwards, as far as a barrier. The first function that a rule names
//! decides, and among the rules the first in the file; a function that no rule names belongs to its caller. In names, `*`
//! stands for any characters.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

/// Kay and Pasquale's categories.
const KAY: &str = include_str!("categories/kay.toml");
/// The categories of the study of 2021.
const HOST_STACK: &str = include_str!("categories/host-stack-2021.toml");
/// The function groups of Foong et al.
const FOONG: &str = include_str!("categories/foong.toml");
/// The two directions.
const DIRECTION: &str = include_str!("categories/direction.toml");
/// The rows of Clark et al., Table I.
const CLARK: &str = include_str!("categories/clark.toml");

/// The reserved name of what is passed over.
const CALLER: &str = "caller";

/// The reason why a category file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}, field `{field}`: {problem}")]
pub struct CategoriesError {
    /// The file, as it was named.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The field.
    pub field: String,
    /// Fault of it, and its remedy.
    pub problem: String,
}

/// A category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// Tells whether its operations touch every byte of a message.
    pub touches_data: bool,
    /// Description of the functions that belong to it.
    pub about: String,
    /// Its parts, in the order of the file.
    pub parts: Vec<String>,
}

/// Target that a rule gives its functions to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A category, and one of its parts.
    Category {
        category: usize,
        part: Option<usize>,
    },
    /// Whoever calls them.
    Caller,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) target: Target,
    pub(super) functions: Vec<Pattern>,
    pub(super) within: Vec<Pattern>,
    pub(super) own: bool,
}

/// The categories and rules of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Categories {
    /// The file that they were read from, as it was named.
    pub file: String,
    /// A word by which it is known.
    pub name: String,
    /// The heading.
    pub title: String,
    /// The name of what no rule covers.
    pub other: String,
    /// The categories, in the order of the file; [`Categories::other`] is not among them.
    pub categories: Vec<Category>,
    pub(super) rules: Vec<Rule>,
    pub(super) barriers: Vec<Pattern>,
    pub(super) elsewhere: Vec<Pattern>,
    pub(super) excluded: Vec<Pattern>,
}

/// A name in which `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(String);

impl Pattern {
    /// Tells whether the pattern fits the name.
    pub(super) fn fits(&self, name: &str) -> bool {
        let mut pieces = self.0.split('*');
        let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else {
            return false;
        };
        let Some(last) = pieces.next_back() else {
            return rest.is_empty();
        };
        for piece in pieces {
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    title: String,
    #[serde(default = "other")]
    other: String,
    #[serde(default)]
    barriers: Vec<Spanned<String>>,
    #[serde(default)]
    elsewhere: Vec<Spanned<String>>,
    #[serde(default)]
    excluded: Vec<Spanned<String>>,
    category: Vec<CategoryInFile>,
    rule: Vec<RuleInFile>,
}

fn other() -> String {
    "Other".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CategoryInFile {
    name: Spanned<String>,
    #[serde(default)]
    touches_data: bool,
    about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleInFile {
    category: Spanned<String>,
    part: Option<Spanned<String>>,
    functions: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    within: Vec<Spanned<String>>,
    #[serde(default)]
    own: bool,
}

impl Categories {
    /// The categories of Kay and Pasquale 1996, section III, for Linux.
    #[must_use]
    pub fn kay() -> Self {
        embedded("kay.toml", KAY)
    }

    /// The eight categories of "Understanding Host Network Stack Overheads" (SIGCOMM 2021), table 1.
    #[must_use]
    pub fn host_stack() -> Self {
        embedded("host-stack-2021.toml", HOST_STACK)
    }

    /// The function groups of Foong et al. 2003, section 3.2.
    #[must_use]
    pub fn foong() -> Self {
        embedded("foong.toml", FOONG)
    }

    /// Transmit and receive.
    #[must_use]
    pub fn direction() -> Self {
        embedded("direction.toml", DIRECTION)
    }

    /// The rows of Clark et al. 1989, Table I.
    #[must_use]
    pub fn clark() -> Self {
        embedded("clark.toml", CLARK)
    }

    /// Reads a category file; `file` is its name in messages.
    ///
    /// # Errors
    /// [`CategoriesError`], with the line and the field.
    pub fn parse(file: &str, text: &str) -> Result<Self, CategoriesError> {
        let reader = Reader { file, text };
        let parsed: File = toml::from_str(text).map_err(|error| {
            let at = error.span().unwrap_or(0..0);
            reader.error(&at, None, error.message().to_owned())
        })?;
        let mut categories: Vec<Category> = Vec::with_capacity(parsed.category.len());
        for one in parsed.category {
            let name = one.name.get_ref();
            let taken = |known: &Category| &known.name == name;
            if name == CALLER || *name == parsed.other || categories.iter().any(taken) {
                let problem = format!("the name `{name}` is taken; give each category its own");
                return Err(reader.error(&one.name.span(), Some("name"), problem));
            }
            categories.push(Category {
                name: one.name.into_inner(),
                touches_data: one.touches_data,
                about: one.about,
                parts: Vec::new(),
            });
        }
        let mut rules = Vec::with_capacity(parsed.rule.len());
        for rule in parsed.rule {
            rules.push(reader.rule(rule, &mut categories)?);
        }
        Ok(Self {
            file: file.to_owned(),
            name: parsed.name,
            title: parsed.title,
            other: parsed.other,
            categories,
            rules,
            barriers: reader.patterns("barriers", parsed.barriers)?,
            elsewhere: reader.patterns("elsewhere", parsed.elsewhere)?,
            excluded: reader.patterns("excluded", parsed.excluded)?,
        })
    }

    /// The place of the category of this name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.categories.iter().position(|one| one.name == name)
    }

    /// The names without `*` that the rules list, for a look at whether a kernel has them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules
            .iter()
            .flat_map(|rule| &rule.functions)
            .map(|pattern| pattern.0.as_str())
            .filter(|name| !name.contains('*'))
    }
}

/// A file that is part of the program: the tests of this module read the same bytes, and no input reaches it.
fn embedded(name: &str, text: &str) -> Categories {
    match Categories::parse(name, text) {
        Ok(categories) => categories,
        Err(error) => unreachable!("embedded categories: {error}"),
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn rule(&self, rule: RuleInFile, categories: &mut [Category]) -> Result<Rule, CategoriesError> {
        let name = rule.category.get_ref();
        let known = categories.iter_mut().enumerate();
        let found = known.into_iter().find(|(_, one)| one.name == *name);
        let target = match (found, rule.part) {
            (Some((category, task)), part) => Target::Category {
                category,
                part: part.map(|part| place(&mut task.parts, part.into_inner())),
            },
            (None, None) if name == CALLER => Target::Caller,
            (None, Some(part)) if name == CALLER => {
                let problem = "what is passed over has no part; leave it out".to_owned();
                return Err(self.error(&part.span(), Some("part"), problem));
            }
            (None, _) => {
                let known: Vec<&str> = categories.iter().map(|one| one.name.as_str()).collect();
                let problem = format!(
                    "no category is called `{name}`; known: {}, {CALLER}",
                    known.join(", ")
                );
                return Err(self.error(&rule.category.span(), Some("category"), problem));
            }
        };
        if rule.functions.get_ref().is_empty() {
            let problem = "a rule needs at least one function".to_owned();
            return Err(self.error(&rule.functions.span(), Some("functions"), problem));
        }
        Ok(Rule {
            target,
            functions: self.patterns("functions", rule.functions.into_inner())?,
            within: self.patterns("within", rule.within)?,
            own: rule.own,
        })
    }

    fn patterns(
        &self,
        field: &str,
        names: Vec<Spanned<String>>,
    ) -> Result<Vec<Pattern>, CategoriesError> {
        names
            .into_iter()
            .map(|name| {
                let fits = |c: char| c.is_ascii_alphanumeric() || "_*$[]".contains(c);
                if name.get_ref().is_empty() || !name.get_ref().chars().all(fits) {
                    let problem = format!(
                        "`{}` is no name of a function; use letters, digits, _ and * (clones like `.part.0` go with \
                         their function)",
                        name.get_ref()
                    );
                    return Err(self.error(&name.span(), Some(field), problem));
                }
                Ok(Pattern(name.into_inner()))
            })
            .collect()
    }

    fn error(&self, at: &Range<usize>, field: Option<&str>, problem: String) -> CategoriesError {
        let start = at.start.min(self.text.len());
        let before = &self.text.as_bytes()[..start];
        CategoriesError {
            file: self.file.to_owned(),
            line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
            field: field.map_or_else(|| self.field_at(start), str::to_owned),
            problem: problem.trim().replace('\n', "; "),
        }
    }

    /// The key, or the heading, in whose line or below which this place lies.
    fn field_at(&self, start: usize) -> String {
        let line_end = self.text[start..]
            .find('\n')
            .map_or(self.text.len(), |at| start + at);
        self.text[..line_end]
            .lines()
            .rev()
            .map(str::trim)
            .find_map(|line| match line.split_once('=') {
                _ if line.starts_with('#') => None,
                Some((key, _)) => Some(key.trim().trim_matches('"').to_owned()),
                None if line.starts_with('[') => Some(line.trim_matches(['[', ']']).to_owned()),
                None => None,
            })
            .filter(|field| !field.is_empty())
            .unwrap_or_else(|| "file".to_owned())
    }
}

/// The place of `name` in `names`, to which it is added when it is new.
fn place(names: &mut Vec<String>, name: String) -> usize {
    match names.iter().position(|known| *known == name) {
        Some(at) => at,
        None => {
            names.push(name);
            names.len() - 1
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str = "name = \"n\"\ntitle = \"t\"\n\n[[category]]\nname = \"A\"\nabout = \"a\"\n";

    fn error(rest: &str) -> String {
        let text = format!("{HEAD}{rest}");
        Categories::parse("my.toml", &text).unwrap_err().to_string()
    }

    #[test]
    fn the_embedded_files_are_read() {
        let kay = Categories::kay();
        let names: Vec<&str> = kay.categories.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "Checksum",
                "DataMove",
                "DataStruct",
                "ErrorChk",
                "Mbuf",
                "OpSys",
                "ProtSpec"
            ]
        );
        assert_eq!(kay.other, "Other");
        let touching: Vec<&str> = kay
            .categories
            .iter()
            .filter(|one| one.touches_data)
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(touching, ["Checksum", "DataMove"]);
        // The study counts what is left as its eighth category.
        assert_eq!(Categories::host_stack().categories.len(), 7);
        for file in [
            Categories::foong(),
            Categories::direction(),
            Categories::clark(),
        ] {
            assert!(!file.categories.is_empty());
        }
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        assert_eq!(
            error("[[rule]]\ncategory = \"B\"\nfunctions = [\"x\"]\n"),
            "my.toml, line 8, field `category`: no category is called `B`; known: A, caller"
        );
        assert_eq!(
            error("[[rule]]\ncategory = \"A\"\nfunctions = []\n"),
            "my.toml, line 9, field `functions`: a rule needs at least one function"
        );
        assert!(
            error("[[rule]]\ncategory = \"A\"\nfunctions = [\n  \"x\",\n  \"tcp ack\",\n]\n")
                .starts_with(
                    "my.toml, line 11, field `functions`: `tcp ack` is no name of a function"
                )
        );
        let message = error("[[rule]]\ncategory = 3\nfunctions = [\"x\"]\n");
        assert!(
            message.starts_with("my.toml, line 8, field `category`: invalid type"),
            "{message}"
        );
        let message = error("[[rule]]\ncategory = \"A\"\nfunction = [\"x\"]\n");
        assert!(
            message.contains("line 9, field `function`: unknown field"),
            "{message}"
        );
        let message = error("[[rule]]\ncategory = \"A\"\n");
        assert!(message.contains("missing field `functions`"), "{message}");
        let message = error(
            "[[category]]\nname = \"A\"\nabout = \"again\"\n[[rule]]\ncategory = \"A\"\nfunctions = [\"x\"]\n",
        );
        assert_eq!(
            message,
            "my.toml, line 8, field `name`: the name `A` is taken; give each category its own"
        );
        let message = error("[[rule]]\ncategory = \"caller\"\npart = \"p\"\nfunctions = [\"x\"]\n");
        assert!(
            message.starts_with("my.toml, line 9, field `part`"),
            "{message}"
        );
    }

    #[test]
    fn stars_stand_for_anything() {
        let fits = |pattern: &str, name: &str| Pattern(pattern.to_owned()).fits(name);
        assert!(fits("tcp_ack", "tcp_ack"));
        assert!(!fits("tcp_ack", "tcp_acked"));
        assert!(fits("tcp_*", "tcp_"));
        assert!(fits("*lock*", "_raw_spin_lock_bh"));
        assert!(fits("a*b*c", "a.b.b.c"));
        assert!(!fits("a*b", "a"));
        assert!(!fits("ab*ba", "aba"));
        assert!(fits("*", ""));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,300}") {
            let _ = Categories::parse("x", &text);
        }

        #[test]
        fn no_broken_file_makes_it_panic(cut in 0usize..4_000, with in "[\\[\\]\"=a*\n]{0,4}") {
            let mut text: String = KAY.chars().take(cut).collect();
            text.push_str(&with);
            if let Err(error) = Categories::parse("x", &text) {
                prop_assert!(error.line >= 1 && !error.field.is_empty());
            }
        }

        #[test]
        fn a_name_fits_itself_with_any_part_starred(name in "[a-z_]{1,12}", from in 0usize..12, to in 0usize..12) {
            let (from, to) = (from.min(name.len()), to.min(name.len()));
            let (from, to) = (from.min(to), from.max(to));
            let starred = format!("{}*{}", &name[..from], &name[to..]);
            prop_assert!(Pattern(starred).fits(&name));
        }
    }
}

//! Checks of the project's prose: sentences of README, docs and findings are short and easy, and private words do not come back.
//!
//! The reading ease is Flesch's: 206.835 less 1.015 times the words of a sentence, less 84.6 times the syllables of a word.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_analysis::summary::summary;
use tollgate_run::fixture;

/// Words of a sentence at most.
const LONGEST: usize = 25;
/// The reading ease at least.
const EASE: f64 = 50.0;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README, ARCHITECTURE, CONTRIBUTING, COMPLIANCE, the pages of `docs` and the records of decisions.
fn pages() -> Vec<PathBuf> {
    let folders = [root().join("docs"), root().join("docs/decisions")];
    let entries = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut pages: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    const AT_THE_ROOT: [&str; 4] = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "COMPLIANCE.md",
    ];
    pages.extend(AT_THE_ROOT.map(|page| root().join(page)));
    pages.sort();
    pages
}

/// The sentences of Markdown, without headings, tables, images and code in blocks; each item of a list begins one.
fn sentences(markdown: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut code = false;
    for line in markdown.lines() {
        let text = line.trim_start();
        if text.starts_with("```") {
            code = !code;
        }
        let item = text.starts_with("- ") || text.starts_with("* ");
        let apart = text.is_empty() || item || text.starts_with("```");
        if apart || code {
            paragraphs.push(String::new());
        }
        if code || text.starts_with(['#', '|', '!']) || text.starts_with("```") {
            paragraphs.push(String::new());
            continue;
        }
        let last = paragraphs.len() - 1;
        paragraphs[last].push_str(&without_targets(text.trim_start_matches(['-', '*'])));
        paragraphs[last].push(' ');
    }
    let mut sentences = Vec::new();
    for paragraph in paragraphs {
        let mut sentence: Vec<&str> = Vec::new();
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            sentence.push(word);
            let closes = word
                .trim_end_matches(['*', ')', '"'])
                .ends_with(['.', '?', '!', ':']);
            let opens = words.get(at + 1).is_none_or(|next| {
                next.starts_with(|c: char| {
                    c.is_ascii_uppercase() || "`*([".contains(c) || c.is_ascii_digit()
                })
            });
            if closes && opens {
                sentences.push(sentence.join(" "));
                sentence.clear();
            }
        }
        if !sentence.is_empty() {
            sentences.push(sentence.join(" "));
        }
    }
    sentences
}

/// The sentences in cells of Markdown's tables. A semicolon ends one there: between two stands a note, not a clause.
fn sentences_of_cells(markdown: &str) -> Vec<String> {
    let rows = markdown.lines().map(str::trim);
    let rows = rows.filter(|line| line.starts_with('|'));
    let cells = rows.flat_map(|row| row.split('|'));
    cells
        .flat_map(|cell| cell.split("; "))
        .flat_map(|note| sentences(note.trim_start_matches('#')))
        .collect()
}

/// The text without the targets of its links, which nobody reads.
fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let mut kept = parts.next().unwrap_or("").to_owned();
    for part in parts {
        kept.push(']');
        kept.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    kept
}

/// The syllables of a word: groups of vowels, but for an `e` at the end.
fn syllables(word: &str) -> usize {
    let word: String = word
        .chars()
        .filter(char::is_ascii_alphabetic)
        .collect::<String>()
        .to_lowercase();
    let vowel = |c: char| "aeiouy".contains(c);
    let groups = word.chars().fold((0, false), |(count, before), c| {
        (count + usize::from(vowel(c) && !before), vowel(c))
    });
    let silent = word.ends_with('e') && !word.ends_with("le") && groups.0 > 1;
    (groups.0 - usize::from(silent)).max(1)
}

/// Flesch's reading ease of the sentences; code counts as one short word.
fn ease(sentences: &[String]) -> f64 {
    let words: Vec<&str> = sentences
        .iter()
        .flat_map(|one| one.split_whitespace())
        .collect();
    let count = |word: &&str| {
        if word.contains('`') {
            1
        } else {
            syllables(word)
        }
    };
    let syllables: usize = words.iter().map(count).sum();
    let (words, sentences) = (words.len() as f64, sentences.len() as f64);
    206.835 - 1.015 * words / sentences - 84.6 * syllables as f64 / words
}

#[test]
fn sentences_of_markdown_are_found() {
    let text = "# Head\n\nOne [two](a/three.md). Three `a.b` four?\n- five\n- six\n\n| a | b |\n\n```\ncode. Code.\n```\nSeven\neight.\n";
    assert_eq!(
        sentences(text),
        [
            "One [two].",
            "Three `a.b` four?",
            "five",
            "six",
            "Seven eight."
        ]
    );
    assert_eq!(
        sentences_of_cells("Not this.\n| a; b | c. D |\n"),
        ["a", "b", "c.", "D"]
    );
    assert_eq!(
        ["measure", "table", "a", "queue"].map(syllables),
        [2, 2, 1, 1]
    );
    assert!(
        ease(&["The cat sat.".to_owned()])
            > ease(&["Multiplicity exponentially decelerates.".to_owned()])
    );
}

#[test]
fn sentences_of_readme_and_docs_are_short_and_easy() {
    let mut long = Vec::new();
    for page in pages() {
        let name = page.strip_prefix(root()).unwrap().display().to_string();
        let text = fs::read_to_string(&page).unwrap();
        let sentences = sentences(&text);
        let ease = ease(&sentences);
        assert!(ease >= EASE, "{name}: reading ease {ease:.0}");
        let too_long = sentences
            .into_iter()
            .chain(sentences_of_cells(&text))
            .filter(|one| one.split_whitespace().count() > LONGEST);
        long.extend(too_long.map(|one| format!("{name}: {one}")));
    }
    assert!(
        long.is_empty(),
        "{} sentences of more than {LONGEST} words:\n{}",
        long.len(),
        long.join("\n")
    );
}

/// Columns of a line of Markdown at most; rows of tables, headings, targets of links and code in blocks are as long as they are, and
/// COMPLIANCE.md is generated.
const COLUMNS: usize = 120;

#[test]
fn lines_of_readme_and_docs_fit_120_columns() {
    let mut long = Vec::new();
    let written = pages()
        .into_iter()
        .filter(|page| !page.ends_with("COMPLIANCE.md"));
    for page in written {
        let text = fs::read_to_string(&page).unwrap();
        let mut code = false;
        for (at, line) in text.lines().enumerate() {
            let begins = line.trim_start();
            code ^= begins.starts_with("```");
            let may = code || begins.starts_with(['|', '#', '[']);
            if !may && line.chars().count() > COLUMNS {
                let name = page.strip_prefix(root()).unwrap().display();
                long.push(format!("{name}:{}", at + 1));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// The names of source files in code spans: those with an ending of the project, without a placeholder in capitals.
fn named_files(markdown: &str) -> impl Iterator<Item = &str> {
    let spans = markdown.split('`').skip(1).step_by(2);
    spans.filter(|span| {
        let ends = [".rs", ".sh", ".bpf.c"]
            .iter()
            .any(|end| span.ends_with(end));
        ends && !span.contains([' ', '<', '*']) && !span.contains(char::is_uppercase)
    })
}

#[test]
fn source_files_that_pages_name_are_there() {
    assert!(named_files("`a/b.rs`, `PART.sh`, `cargo x.rs` and `c.toml`").eq(["a/b.rs"]));
    // The folders of the sources, without what is built.
    fn files(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else {
                found.push(path.display().to_string());
            }
        }
    }
    let mut all = Vec::new();
    for folder in ["crates", "scripts", "fuzz/fuzz_targets"] {
        files(&root().join(folder), &mut all);
    }
    let mut gone = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for name in named_files(&text) {
            // It stands for the name of any module there.
            let any = name.ends_with("/module.rs");
            if !any && !all.iter().any(|file| file.ends_with(&format!("/{name}"))) {
                gone.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(gone.is_empty(), "{gone:#?}");
}

#[test]
fn sentences_of_the_first_screen_are_short_and_easy() {
    let summary = summary(&fixture::report());
    let findings: Vec<String> = summary.findings.into_iter().map(|one| one.text).collect();
    assert!(findings.len() >= 4 && summary.trust.len() == 2);
    for texts in [findings, summary.trust] {
        let sentences: Vec<String> = texts.iter().flat_map(|text| sentences(text)).collect();
        let private = private(&sentences.join(" "), &PRIVATE_IN_PROSE);
        assert!(private.is_empty(), "{private:?}: {sentences:?}");
        let ease = ease(&sentences);
        assert!(ease >= EASE, "{ease:.0}: {sentences:?}");
        let words = |one: &String| one.split_whitespace().count();
        assert!(
            sentences.iter().all(|one| words(one) <= LONGEST),
            "{sentences:?}"
        );
    }
}

/// The sources of all crates.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Names of commands, options and types that have another name now.
const GONE: [&str; 6] = [
    "Manners",
    "tollgate history",
    "tollgate profile",
    "--again",
    "--always",
    "--pause",
];

/// Private words for which the field has a term: neither pages nor sources have them.
const PRIVATE: [(&str, &str); 19] = [
    ("contender", "variant"),
    ("contenders", "variants"),
    ("detour", "slow path"),
    ("detours", "slow path"),
    ("doze", "duty cycle"),
    ("dozes", "duty cycle"),
    ("dozing", "duty cycle"),
    ("errand", "guest task"),
    ("errands", "guest tasks"),
    ("laden", "probe cost"),
    ("line-up", "matrix"),
    ("lineup", "matrix"),
    ("middle half", "interquartile range"),
    ("naps", "duty cycle"),
    ("napping", "duty cycle"),
    ("twin", "probe cost"),
    ("twins", "probe cost"),
    ("yardstick", "control benchmark"),
    ("yardsticks", "control benchmarks"),
];

/// Words that comments may have in an ordinary sense, and that pages, help and findings do not have.
const PRIVATE_IN_PROSE: [(&str, &str); 17] = [
    ("abilities", "kernel features"),
    ("absent", "stub, unavailable"),
    ("asleep", "disabled"),
    ("awaited", "delayed"),
    ("conversation", "transfer"),
    ("conversations", "transfers"),
    ("goes straight", "fast path"),
    ("known to within", "+-"),
    ("let go", "not sampled"),
    ("octet", "byte"),
    ("octets", "bytes"),
    ("stranger", "unknown peer"),
    ("strangers", "unknown peers"),
    ("tells apart", "distinguishes"),
    ("told", "reported, stated, found"),
    ("told apart", "differ"),
    ("waits for company", "delayed"),
];

/// Those of the words that the text has as words of their own, whatever their case.
fn private<'a>(text: &str, words: &'a [(&'a str, &'a str)]) -> Vec<&'a (&'a str, &'a str)> {
    let text = text.to_lowercase();
    let is_letter = |c: char| c.is_alphanumeric() || "_-".contains(c);
    let has = |word: &str| {
        text.match_indices(word).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + word.len()..]);
            !before.ends_with(is_letter) && !after.starts_with(is_letter)
        })
    };
    words.iter().filter(|(word, _)| has(word)).collect()
}

#[test]
fn private_words_are_found_as_words_of_their_own() {
    let found = |text: &str| private(text, &PRIVATE_IN_PROSE).len();
    assert_eq!(
        found("Who was Told? The `octet`s, octets_mut, a-told, untold."),
        2
    );
    assert_eq!(found("(told apart)"), 2);
}

/// The sentences that `--help` shows: doc comments of the arguments, without those of their tests.
fn help() -> Vec<(String, String)> {
    let mut files = Vec::new();
    sources(&root().join("crates/cli/src"), &mut files);
    let of_arguments = |path: &PathBuf| {
        let name = path.display().to_string();
        name.ends_with("args.rs") || name.contains("/args/") || name.ends_with("values.rs")
    };
    let mut found = Vec::new();
    for path in files.iter().filter(|path| of_arguments(path)) {
        let code = fs::read_to_string(path).unwrap();
        let code = code.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
        let docs = code
            .lines()
            .map(|line| match line.trim_start().strip_prefix("///") {
                Some(text) => text.trim(),
                None => "",
            });
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let docs: Vec<&str> = docs.collect();
        let docs = sentences(&docs.join("\n"));
        found.extend(docs.into_iter().map(|sentence| (name.clone(), sentence)));
    }
    found
}

#[test]
fn sentences_of_help_are_short_and_without_private_words() {
    let help = help();
    assert!(help.len() > 200, "{}", help.len());
    let bad: Vec<String> = help
        .iter()
        .filter(|(_, one)| {
            one.split_whitespace().count() > LONGEST || !private(one, &PRIVATE_IN_PROSE).is_empty()
        })
        .map(|(name, one)| format!("{name}: {one}"))
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn words_that_are_gone_do_not_come_back() {
    let mut files = pages();
    sources(&root().join("crates"), &mut files);
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        if name.ends_with("tests/prose.rs") {
            continue;
        }
        let gone = GONE.iter().filter(|word| text.contains(**word));
        found.extend(gone.map(|word| format!("{name}: {word}")));
        // Old runs have the old name of the field.
        let of_old_runs = name.ends_with("run/src/lib.rs") || name.ends_with("tests/json.rs");
        let words = private(&text, &PRIVATE).into_iter();
        let words = words.filter(|(word, _)| !(of_old_runs && word.starts_with("yardstick")));
        found.extend(words.map(|(word, instead)| format!("{name}: {word}, use {instead}")));
        // COMPLIANCE.md is made of the names of tests, in which a peer is told.
        if name.ends_with(".md") && name != "COMPLIANCE.md" {
            let words = private(&text, &PRIVATE_IN_PROSE).into_iter();
            found.extend(words.map(|(word, instead)| format!("{name}: {word}, use {instead}")));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// The line as the text of a doc comment.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line
        .strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"));
    text.map(str::trim)
}

/// The paragraphs of doc comments that begin with a word that puts off the subject: their lines, counted from 1, and first lines.
fn bad_beginnings(code: &str) -> Vec<(usize, &str)> {
    const WORDS: [&str; 7] = ["What", "Who", "Whether", "How", "Why", "Where", "As"];
    let mut begins = true;
    let mut found = Vec::new();
    for (at, line) in code.lines().enumerate() {
        let text = doc_text(line).unwrap_or_default();
        let first = text.split(|c: char| !c.is_alphabetic()).next();
        let bad =
            first.is_some_and(|first| WORDS.contains(&first)) || text.starts_with("The same ");
        if begins && bad {
            found.push((at + 1, line.trim()));
        }
        begins = text.is_empty() || text.starts_with('#');
    }
    found
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let code = "/// Whatever fits\n/// What does not.\n// How.\n    /// The same of another.\n///\n/// # Errors\n/// What fails.\n";
    assert_eq!(
        bad_beginnings(code),
        [(4, "/// The same of another."), (7, "/// What fails.")]
    );
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let mut bad = Vec::new();
    for file in files {
        let code = fs::read_to_string(&file).unwrap();
        let found = bad_beginnings(&code).into_iter();
        bad.extend(found.map(|(at, line)| format!("{}:{at}: {line}", file.display())));
    }
    assert!(
        bad.is_empty(),
        "begin with a noun or a verb:\n{}",
        bad.join("\n")
    );
}

/// Names that were private words for what the field has a word for; the second is the one to use.
const RETIRED: [(&str, &str); 34] = [
    ("Abilities", "KernelFeatures"),
    ("Ability", "KernelFeature"),
    ("Awaited", "FinAck"),
    ("Book", "CallPaths"),
    ("ChangeMiss", "HandshakeMiss"),
    ("Contender", "Variant"),
    ("DETOUR", "SLOW_TRANSMIT"),
    ("Doze", "DutyCycle"),
    ("Errand", "GuestCommand"),
    ("Laden", "with load"),
    ("LineUp", "Matrix"),
    ("OtherCount", "UncoveredCount"),
    ("Owner", "TaskKind"),
    ("Prepared", "TcbTemplate"),
    ("Race", "InterleavedRun"),
    ("Talk", "Transfer"),
    ("Trains", "PacketJoiner"),
    ("Turn", "TripCost or Service"),
    ("Turns", "Rotation"),
    ("UNSUMMED", "COPY_ONLY"),
    ("UNUSUAL_INPUT", "UNPREDICTED_INPUT"),
    ("Unusual", "Extension"),
    ("Visit", "GuestRun"),
    ("WayOut", "FastTransmit"),
    ("Wide", "Accumulator"),
    ("append_held", "coalesce"),
    ("choose_way", "choose_transmit_path"),
    ("copier", "copy_kernel"),
    ("detour", "transmit_slow"),
    ("goes_straight", "transmits_fast"),
    ("octets_mut", "bytes_mut"),
    ("open_held", "open_coalescing"),
    ("take_all_in", "receive_burst"),
    ("take_in", "receive_frames"),
];

/// The names that code declares or uses: its words outside comments and strings.
fn names(code: &str) -> impl Iterator<Item = &str> {
    let code = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    let parts = code.flat_map(|line| line.split('"').step_by(2));
    parts.flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_'))
}

#[test]
fn names_of_types_are_found_outside_comments_and_strings() {
    let code = "let a: Errand = b(\"Race\"); // Visit\nuse x::{Wide as _, y};";
    let found: Vec<&str> = names(code)
        .filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
        .collect();
    assert_eq!(found, ["Errand", "Wide"]);
}

#[test]
fn retired_names_do_not_come_back() {
    let mut back = Vec::new();
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    for path in files {
        if path.ends_with("tests/prose.rs") {
            continue;
        }
        let code = fs::read_to_string(&path).unwrap();
        for name in names(&code) {
            if let Some((_, instead)) = RETIRED.iter().find(|(old, _)| *old == name) {
                back.push(format!("{}: {name}, use {instead}", path.display()));
            }
        }
    }
    assert!(back.is_empty(), "{}", back.join("\n"));
}

/// Names that are private words in these crates, though other crates use them in an ordinary sense: types, functions, modules,
/// constants and fields. The last is the name to use.
const RETIRED_IN: [(&[&str], &str, &str); 64] = [
    (&["analysis"], "Held", "SideCells"),
    (&["analysis"], "Known", "Estimated"),
    (&["analysis"], "asleep_ns", "disabled_ns"),
    (&["analysis"], "now", "measured"),
    (&["analysis", "table"], "reach", "half_width, scope"),
    (&["analysis", "table"], "told", "published, stated, key"),
    (
        &["analysis", "budget", "experiment", "measure", "service"],
        "Part",
        "the part's name",
    ),
    (
        &[
            "analysis", "budget", "cluster", "link", "report", "service", "stack", "table",
            "workload",
        ],
        "Place",
        "CellKey, Position, Destination, Location, Network, InterfaceConfig, Slot, FrameRange, Sandbox",
    ),
    (
        &["analysis", "cluster", "experiment", "table"],
        "Told",
        "FindingText, Predicted, QueryEvent",
    ),
    (&["analysis", "experiment"], "then", "published"),
    (&["cli"], "How", "ImportArgs"),
    (&["cli"], "Manners", "GlobalArgs"),
    (&["cli"], "Where", "EngineArgs"),
    (&["cli"], "Which", "TraceArg"),
    (
        &["cli", "experiment", "measure", "report"],
        "Shown",
        "the thing's name",
    ),
    (&["cli"], "asked", "args"),
    (&["budget"], "usual", "defaults"),
    (&["cli", "experiment"], "seen", "visible, cache_counts"),
    (
        &["cli", "experiment", "measure", "run", "workload"],
        "told",
        "saved_text, trust_line, from_draws, settings",
    ),
    (&["experiment"], "APART", "MAX_DIFFERENCE"),
    (&["experiment"], "Conversation", "Transfer"),
    (&["experiment"], "Words", "Captions"),
    (&["experiment"], "absent", "unavailable"),
    (&["experiment"], "told_by", "memory_trust"),
    (&["experiment"], "usual_ns", "normalised_ns"),
    (&["experiment"], "usual_sizes", "default_sizes"),
    (&["experiment"], "words", "label, captions, text"),
    (&["gate"], "seen_between", "stamps_between"),
    (&["measure"], "Exchange", "RoundTripStamps"),
    (&["measure"], "tell_packets", "add_packets"),
    (&["observe"], "far_net", "remote_net"),
    (&["observe"], "told_at", "ready_cpu"),
    (&["observe"], "told_calls", "ready_calls"),
    (&["run"], "TOLD_WHOLE", "LEAST_FACTOR"),
    (&["workload"], "APART", "SLOT_ALIGN"),
    (&["experiment"], "GatesJoined", "GateCoverage"),
    (&["experiment"], "Joins", "Coverage"),
    (&["experiment"], "Seen", "CellCoverage, MeasuredSizes"),
    (&["experiment"], "Trains", "PerPacket"),
    (&["experiment"], "gates_joined", "coverage"),
    (&["experiment"], "joins", "coverage"),
    (&["experiment"], "looks", "samples"),
    (&["experiment"], "shapes", "layout"),
    (&["experiment"], "strange", "unmatched"),
    (&["experiment", "workload"], "trains", "per_packet"),
    (&["cli", "kernel"], "Offer", "HookSupport"),
    (&["measure"], "Asleep", "Disabled"),
    (&["measure"], "asleep", "disabled"),
    (&["measure"], "has_asleep", "has_disabled"),
    (&["measure"], "passage", "probe_cost_share"),
    (
        &["measure", "workload"],
        "KernelTrains",
        "KernelPacketSession",
    ),
    (
        &["measure", "workload"],
        "StackTrains",
        "StackPacketSession",
    ),
    (&["cluster", "table"], "octets", "bytes"),
    (&["run"], "let_go_ns", "not_sampled_ns"),
    (&["run"], "not_asked_for", "filtered_out"),
    (&["table"], "Reach", "Scope"),
    (&["workload"], "Far", "ServerApp"),
    (&["workload"], "FarEnd", "OtherEnd"),
    (&["workload"], "FarGates", "RemoteGates"),
    (&["workload"], "FarThread", "ServerThread"),
    (&["workload"], "NearEnd", "ClientEnd"),
    (&["workload"], "Stranger", "UnknownPeer"),
    (&["workload"], "far", "server"),
    (&["workload"], "near", "client"),
];

/// The types, functions, modules, constants, statics and fields with a type that code declares.
fn declared(code: &str) -> Vec<&str> {
    const KEYWORDS: [&str; 8] = [
        "struct", "enum", "trait", "type", "fn", "mod", "const", "static",
    ];
    let ident = |word: &str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let mut found = Vec::new();
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or("").trim();
        let mut words = line.split(|c: char| c.is_whitespace() || "(<{;".contains(c));
        while let Some(word) = words.next() {
            if KEYWORDS.contains(&word) {
                let name = words.find(|name| !KEYWORDS.contains(name)).unwrap_or("");
                found.push(name.trim_end_matches(':'));
                break;
            }
            if !word.starts_with("pub")
                && !["const", "unsafe", "async", "crate)", "super)"].contains(&word)
            {
                break;
            }
        }
        let field = line.rsplit_once("pub ").map_or(line, |(_, rest)| rest);
        let field = field
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub(crate) ");
        if let Some((name, of)) = field.split_once(": ") {
            let of_type = |c: char| c.is_ascii_uppercase() || "&[(".contains(c);
            let primitive = [
                "u8", "u16", "u32", "u64", "usize", "i64", "f64", "bool", "fn",
            ];
            let of = of.trim_end_matches(',');
            let typed = of.starts_with(of_type) || primitive.contains(&of) || of.starts_with("fn(");
            if line.ends_with(',') && ident(name) && typed {
                found.push(name);
            }
        }
    }
    found
}

#[test]
fn declarations_are_found() {
    let code = "pub(crate) struct Told {\n    pub(super) near: Option<u8>,\n    far: u32, // far\n}\nfn then(&self) {\n    \
                let x = Y { seen: 3, told: words };\n}\npub mod trains;\npub const fn asleep(self) {}\n/// fn not_this";
    assert_eq!(
        declared(code),
        ["Told", "near", "far", "then", "trains", "asleep"]
    );
}

#[test]
fn retired_names_do_not_come_back_where_they_were_private() {
    let mut back = Vec::new();
    for (crates, name, instead) in RETIRED_IN {
        for one in crates {
            let mut files = Vec::new();
            sources(&root().join("crates").join(one), &mut files);
            assert!(!files.is_empty(), "{one}");
            for path in files
                .iter()
                .filter(|path| !path.ends_with("tests/prose.rs"))
            {
                let code = fs::read_to_string(path).unwrap();
                let is_module = path.file_stem().is_some_and(|stem| stem == name);
                if is_module || declared(&code).contains(&name) {
                    back.push(format!("{}: {name}, use {instead}", path.display()));
                }
            }
        }
    }
    assert!(back.is_empty(), "{}", back.join("\n"));
}

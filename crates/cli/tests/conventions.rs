//! Conventions that all commands keep: where JSON and tables go, that a page has what the help has, and what completions offer.

use std::collections::BTreeSet;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tollgate_skip::skipped;

fn outcome(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(arguments)
        .current_dir(folder)
        // As wide as a manual page.
        .env("COLUMNS", "72")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The commands that have a page, by the words after `tollgate`, with their pages.
fn pages(folder: &Path) -> Vec<(Vec<String>, String)> {
    let output = outcome(folder, &["man", "."]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let pages = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        let words = name.strip_suffix(".1")?.split('-').skip(1);
        let page = std::fs::read_to_string(entry.path()).unwrap();
        Some((words.map(str::to_owned).collect(), page))
    });
    pages.collect()
}

/// A run so small that it takes no time.
const SMALL: [&str; 6] = [
    "--size=4",
    "--iterations=16",
    "--repetitions=1",
    "--path=peer-smoltcp",
    "--wait=poll",
    "--cores=1",
];

/// A run with the costs of kernel-loopback, as measured.
const COSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/estimate/kernel.json");

#[test]
fn json_in_a_file_leaves_the_tables_and_quiet_leaves_them_out() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sizes = ["rr", "--json=sizes.json", "--size=1,4,40,200"];
    let output = outcome(folder, &[&sizes, &SMALL[1..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    std::fs::copy(folder.join("sizes.json"), folder.join("after.json")).unwrap();
    let again = ["rr", "--json=after.json"];
    assert!(
        outcome(folder, &[&again[..], &SMALL].concat())
            .status
            .success()
    );

    let small = |words: &[&'static str]| [words, &SMALL].concat();
    let commands: Vec<Vec<&str>> = vec![
        small(&["report"]),
        small(&["rr"]),
        small(&["crr"]),
        small(&["stream"]),
        vec!["experiment", "list"],
        small(&["experiment", "run", "rr-by-size"]),
        vec!["observe", "--for=50ms"],
        vec!["compare", "sizes.json", "after.json"],
        vec!["predict", "--from=sizes.json"],
        vec!["papers", "--from=sizes.json"],
        vec!["estimate", "--trace=kay-lan", "--from", COSTS],
        vec!["doctor"],
    ];
    let takes_json = |page: &str| page.contains("\\-\\-json\\fR");
    for (words, _) in pages(folder).iter().filter(|(_, page)| takes_json(page)) {
        // Those of traces and stores are built by request only, and ablate takes minutes in a debug build. They put it out by the
        // functions of the others.
        let is_here = commands.iter().any(|command| {
            command.starts_with(&words.iter().map(String::as_str).collect::<Vec<_>>())
        });
        assert!(
            is_here || ["ablate", "trace", "runs"].contains(&words[0].as_str()),
            "{words:?} is not tried"
        );
    }
    let can_observe = outcome(folder, &["observe", "--for=10ms", "--json"]);
    for command in commands {
        if command[0] == "observe" && !can_observe.status.success() {
            skipped!("{}", text(&can_observe.stderr));
            continue;
        }
        let run = |more: &[&str]| {
            let output = outcome(folder, &[&command, more].concat());
            assert!(
                output.status.success(),
                "{command:?}: {}",
                text(&output.stderr)
            );
            output
        };
        let is_json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
        let beside = run(&["--json=put.json"]);
        assert!(!beside.stdout.is_empty(), "{command:?} has no tables");
        assert!(!is_json(&beside.stdout), "{command:?}");
        let file = folder.join("put.json");
        assert!(is_json(&std::fs::read(&file).unwrap()), "{command:?}");
        std::fs::remove_file(&file).unwrap();

        let quiet = run(&["--json=put.json", "--quiet"]);
        assert_eq!(text(&quiet.stdout), "", "{command:?}");
        assert_eq!(text(&quiet.stderr), "", "{command:?}");
        assert!(is_json(&std::fs::read(&file).unwrap()), "{command:?}");
        std::fs::remove_file(&file).unwrap();

        assert!(is_json(&run(&["--json"]).stdout), "{command:?}");
    }
}

#[test]
fn observe_and_the_self_test_look_at_their_file_first_and_observe_is_quiet() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for command in [
        &["observe", "--for=10s"][..],
        &["doctor", "--self-test", "--quick"],
    ] {
        let output = outcome(folder, &[command, &["--json=missing/file"]].concat());
        let error = text(&output.stderr);
        assert!(
            error.starts_with("error: cannot write \"missing/file\""),
            "{command:?}: {error}"
        );
    }

    let mut gone = Command::new("sleep").arg("0.2").spawn().unwrap();
    let pid = format!("--pid={}", gone.id());
    // It is looked after while the command runs: a process that nobody waits for is there.
    let reaper = std::thread::spawn(move || gone.wait().unwrap());
    let output = outcome(folder, &["observe", "-q", "--for=1s", &pid]);
    reaper.join().unwrap();
    match output.status.success() {
        true => assert_eq!(text(&output.stderr), ""),
        false => skipped!("{}", text(&output.stderr)),
    }
}

#[test]
fn completions_offer_values_that_help_and_errors_do_not_list() {
    let folder = tempfile::tempdir().unwrap();
    let script = |shell| {
        let output = outcome(folder.path(), &["completions", shell]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let [bash, zsh, fish] = ["bash", "zsh", "fish"].map(script);
    // Values of --path, --size, --cores, --wait, --set, --link and --messages, and experiments by their place.
    let lists = [
        ["kernel-loopback", "kernel-veth"],
        ["kay", "lehmann"],
        ["1", "2"],
        ["block", "poll"],
        ["prediction=bidirectional", "prediction=unidirectional"],
        ["ethernet", "fddi"],
        ["segments", "writes"],
        ["rr-by-size", "crr"],
    ];
    for [first, second] in lists {
        for (shell, is_there) in [
            ("bash", bash.contains(&format!("{first} {second}"))),
            ("zsh", zsh.contains(&format!("({first} {second}"))),
            ("fish", fish.contains(&format!("{first}\\t''"))),
        ] {
            assert!(is_there, "{shell}: {first}");
        }
    }
    // Files for --json, and directories for --http.
    let option = |name: &str| {
        let at = bash.find(&format!("                --{name})")).unwrap();
        bash[at..].split(";;").next().unwrap()
    };
    assert!(option("json").contains("compgen -f"), "{}", option("json"));
    assert!(
        option("http").contains("plusdirs") || option("http").contains("dirnames"),
        "{}",
        option("http")
    );
    assert!(zsh.contains(":FILE:_files"), "{zsh}");

    let help = text(&outcome(folder.path(), &["rr", "--help"]).stdout);
    assert!(
        !help.contains("[possible values: kernel-loopback"),
        "{help}"
    );
    let none = text(&outcome(folder.path(), &["rr", "--path"]).stderr);
    assert!(!none.contains("possible values"), "{none}");
}

/// The name that measuring commands take, once nobody has it.
fn claim() -> UnixListener {
    let until = Instant::now() + Duration::from_secs(60);
    let address = SocketAddr::from_abstract_name(b"tollgate-measuring").unwrap();
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(claimed) => return claimed,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn commands_that_take_time_say_that_another_one_measures() {
    const SAID: &str = "another tollgate measured on this machine";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sizes = ["rr", "--json=sizes.json", "--size=1,4,40,200"];
    let output = outcome(folder, &[&sizes, &SMALL[1..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));

    let claimed = claim();
    let observed = outcome(folder, &["observe", "--for=10ms"]);
    assert!(
        text(&observed.stderr).contains(SAID),
        "{}",
        text(&observed.stderr)
    );
    let quiet = outcome(folder, &["observe", "--for=10ms", "--quiet"]);
    assert!(!text(&quiet.stderr).contains(SAID));

    let predict = ["predict", "--from=sizes.json", "--validate", "--for=1s"];
    let output = outcome(folder, &[&predict[..], &["--json"]].concat());
    assert!(
        text(&output.stdout).contains(SAID),
        "{}",
        text(&output.stderr)
    );

    let tested = outcome(folder, &["doctor", "--self-test", "--quick", "--json"]);
    assert!(
        text(&tested.stdout).contains(SAID),
        "{}",
        text(&tested.stderr)
    );
    drop(claimed);
}

/// The words of a text in small letters, without the marks that roff and help put around them.
fn words(text: &str) -> BTreeSet<String> {
    let mut plain = text.to_owned();
    for mark in ["\\fB", "\\fI", "\\fR", "\\&"] {
        plain = plain.replace(mark, "");
    }
    let plain = plain
        .replace("\\-", "-")
        .replace("\\*(Aq", "'")
        .replace("\\\\", "\\");
    let is_mark = |c: char| c.is_whitespace() || "[]<>(){}|.,:;-\"'`".contains(c);
    let words = plain.split(is_mark).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Words that clap has in each help, for which a page has others.
const SAID_BY_CLAP: [&str; 6] = [
    "usage",
    "command",
    "commands",
    "arguments",
    "possible",
    "values",
];

#[test]
fn a_manual_page_has_all_of_its_long_help() {
    let folder = tempfile::tempdir().unwrap();
    let pages = pages(folder.path());
    assert!(pages.len() > 15, "{}", pages.len());
    for (command, page) in pages {
        let asked = command.iter().map(String::as_str).chain(["--help"]);
        let output = outcome(folder.path(), &asked.collect::<Vec<_>>());
        // The command `help` is left out of the pages, which are the help.
        let shown = text(&output.stdout);
        let is_help = |line: &&str| line.trim_start().starts_with("help ");
        let help: Vec<&str> = shown.lines().filter(|line| !is_help(line)).collect();
        let help = help.join("\n");
        let has = words(&page);
        let missing: Vec<String> = words(&help)
            .into_iter()
            .filter(|word| !has.contains(word))
            .filter(|word| !SAID_BY_CLAP.contains(&word.as_str()))
            .collect();
        assert!(missing.is_empty(), "{command:?}: {missing:?}");
    }
}

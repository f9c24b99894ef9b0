//! `--save` and `tollgate runs` from outside.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tollgate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(arguments)
        .current_dir(folder)
        .env("COLUMNS", "120")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

/// A run so small that it takes no time.
const SMALL: [&str; 7] = [
    "rr",
    "--size=4,200",
    "--iterations=16",
    "--repetitions=1",
    "--path=peer-smoltcp",
    "--wait=poll",
    "--cores=1",
];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().copied().chain(more.iter().copied()).collect()
}

#[cfg(not(feature = "sql"))]
#[test]
fn a_build_without_stores_says_so_before_it_measures() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [small(&["--save", "runs"]), vec!["runs", "list", "runs"]] {
        let output = tollgate(folder.path(), &arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains("left out when this command was built"),
            "{error}"
        );
        assert!(error.contains("make traces"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(output.stdout.is_empty());
    }
}

#[cfg(feature = "sql")]
mod stores {
    use serde_json::Value;
    use tollgate_analysis::comparison;
    use tollgate_run::Run;

    use super::*;

    fn done(folder: &Path, arguments: &[&str]) -> Output {
        let output = tollgate(folder, arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        output
    }

    fn rows(folder: &Path, query: &str) -> Vec<Vec<Value>> {
        let output = done(folder, &["runs", "sql", "store", query, "--json"]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        serde_json::from_value(answer["rows"].clone()).unwrap()
    }

    #[test]
    fn what_is_saved_is_what_was_measured_and_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let output = done(folder, &small(&["--save", "store", "--json", "run.json"]));
        assert!(
            text(&output.stderr).contains("saved as 2"),
            "{}",
            text(&output.stderr)
        );
        let json = std::fs::read_to_string(folder.join("run.json")).unwrap();
        assert_eq!(
            text(&done(folder, &["runs", "get", "store", "last"]).stdout),
            json
        );

        let run: Run = serde_json::from_str(&json).unwrap();
        let measured = comparison::numbers(&run);
        assert!(!measured.is_empty());
        let stored = rows(
            folder,
            "SELECT row_label, column_name, path, size, unit, value, low, n FROM numbers",
        );
        assert_eq!(stored.len(), measured.len());
        for (stored, number) in stored.iter().zip(&measured) {
            assert_eq!(stored[0], *number.place.row);
            assert_eq!(stored[1], *number.place.column);
            assert_eq!(stored[2], "peer-smoltcp");
            assert_eq!(stored[3].as_u64(), number.size());
            assert_eq!(stored[4], "ns");
            assert_eq!(stored[5].as_f64(), Some(number.measured.value));
            assert_eq!(stored[6].as_f64(), number.measured.ci.map(|ci| ci.low));
            assert_eq!(stored[7].as_u64(), number.measured.n);
        }

        // Added again from its file, indented otherwise, it is the same run.
        let value: Value = serde_json::from_str(&json).unwrap();
        std::fs::write(folder.join("again.json"), value.to_string()).unwrap();
        let output = done(folder, &["runs", "add", "store", "again.json"]);
        assert!(text(&output.stderr).contains("it was not saved twice"));
        assert_eq!(rows(folder, "SELECT count(*) FROM runs")[0][0], 1);

        // Another run stands beside it.
        done(folder, &small(&["--save", "store", "-q"]));
        let listed = text(&done(folder, &["runs", "list", "store"]).stdout);
        assert_eq!(listed.lines().count(), 3, "{listed}");
        let per_run = rows(folder, "SELECT run, count(*) FROM numbers GROUP BY run");
        assert_eq!(per_run.len(), 2);
        done(folder, &["compare", "run.json", "store#last"]);
    }

    #[test]
    fn what_is_no_store_is_told_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::create_dir(folder.join("full")).unwrap();
        std::fs::write(folder.join("full/letter"), "dear reader").unwrap();
        std::fs::create_dir(folder.join("other")).unwrap();
        let mark = r#"{"schema": "other", "version": 1}"#;
        std::fs::write(folder.join("other/tollgate-runs.json"), mark).unwrap();
        done(folder, &small(&["--save", "store", "-q"]));
        let saving = small(&["--save", "full"]);
        for (arguments, told) in [
            (
                &["runs", "list", "nowhere"][..],
                "error: nowhere: no runs are there",
            ),
            (&["runs", "list", "full"], "error: full: no runs are there"),
            (&saving, "error: full: holds something else than runs"),
            (
                &["runs", "get", "store", "1999"],
                "error: store: no run `1999`: no run begins so",
            ),
            (
                &["runs", "sql", "store", "DROP TABLE runs"],
                "error: the query failed",
            ),
            (
                &["runs", "list", "other"],
                "error: other: holds something else than runs",
            ),
        ] {
            let output = tollgate(folder, arguments);
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{error}");
            assert!(error.starts_with(told), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let names = std::fs::read_dir(folder.join("full")).unwrap().count();
        assert_eq!(names, 1, "nothing was written there");
    }
    #[test]
    fn queries_that_fail_are_advised_on_the_tables_of_runs() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        done(folder, &small(&["--save", "store", "-q"]));
        let query = ["runs", "sql", "store", "SELECT nothing FROM numbers"];
        let output = tollgate(folder, &query);
        let error = text(&output.stderr);
        assert!(error.contains("SELECT * FROM numbers LIMIT 5"), "{error}");
        assert!(error.contains("docs/runs.md"), "{error}");
    }

    /// To the query machine, a file that is gone is a table without rows.
    #[test]
    fn run_without_one_of_its_tables_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        done(folder, &small(&["--save", "store", "-q"]));
        let id = rows(folder, "SELECT run FROM runs")[0][0].clone();
        let table = format!("{}/numbers.parquet", id.as_str().unwrap());
        std::fs::remove_file(folder.join("store").join(&table)).unwrap();
        let output = tollgate(
            folder,
            &["runs", "sql", "store", "SELECT count(*) FROM numbers"],
        );
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains(&format!("store/{table}: is not there")),
            "{error}"
        );
    }

    /// A path with one of `*?[` is no pattern.
    #[test]
    fn store_whose_name_looks_like_a_pattern_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        done(folder, &small(&["--save", "runs[1]*?", "-q"]));
        let output = done(
            folder,
            &["runs", "sql", "runs[1]*?", "SELECT count(*) FROM runs"],
        );
        let counted = text(&output.stdout);
        assert_eq!(
            counted.lines().last().map(str::trim),
            Some("1"),
            "{counted}"
        );
    }
}

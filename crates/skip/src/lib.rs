//! Tests that skip themselves, since this machine lacks what they need.
//!
//! It owns how such a test says so: a line on standard error, and the same line in the file that [`FILE`] names, from which
//! `scripts/test.sh` counts. It must never decide whether a test can run.

use std::fmt::Arguments;
use std::fs::OpenOptions;
use std::io::Write;

/// The environment variable that names the file to which skipped tests add a line each.
pub const FILE: &str = "TOLLGATE_SKIPPED";

/// Says that the calling test is skipped, with the reason as in `format!`; the test returns next.
#[macro_export]
macro_rules! skipped {
    ($($reason:tt)+) => {
        $crate::note(env!("CARGO_PKG_NAME"), module_path!(), format_args!($($reason)+))
    };
}

/// Notes that a test of this package and module is skipped; [`skipped!`] fills in both.
///
/// # Panics
/// When the file that [`FILE`] names cannot be written: the test would count as passed.
#[doc(hidden)]
pub fn note(package: &str, module: &str, reason: Arguments<'_>) {
    let line = line(package, module, std::thread::current().name(), reason);
    eprintln!("{line}");
    let Some(path) = std::env::var_os(FILE) else {
        return;
    };
    let file = OpenOptions::new().append(true).create(true).open(path);
    // One write, so that tests which run side by side do not mix their lines.
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.expect("the file of skipped tests can be written");
}

/// The line of a skipped test. The test program names each test's thread after the test, and the first one `main`.
fn line(package: &str, module: &str, thread: Option<&str>, reason: Arguments<'_>) -> String {
    let test = thread.filter(|name| *name != "main").unwrap_or(module);
    let reason = reason.to_string().replace('\n', " ");
    format!("skipped: {package} {test}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_the_test_and_the_reason() {
        let of = |thread| line("tollgate-link", "tests", thread, format_args!("no\nroot"));
        assert_eq!(
            of(Some("tests::a")),
            "skipped: tollgate-link tests::a: no root"
        );
        assert_eq!(of(Some("main")), "skipped: tollgate-link tests: no root");
        assert_eq!(of(None), "skipped: tollgate-link tests: no root");
    }
}

//! Tells the program the commit that it is built from, where there is a repository and git.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    let Some(commit) = commit() else {
        println!("cargo::rustc-env=TOLLGATE_VERSION={version}");
        return;
    };
    println!("cargo::rustc-env=TOLLGATE_GIT={commit}");
    println!("cargo::rustc-env=TOLLGATE_VERSION={version} ({commit})");
}

/// The commit that is checked out.
fn commit() -> Option<String> {
    let folder = git(&["rev-parse", "--absolute-git-dir"])?;
    // A commit moves the branch, which the log of HEAD tells.
    for name in ["HEAD", "logs/HEAD"] {
        let file = Path::new(&folder).join(name);
        if file.exists() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}

/// Output of git; none where it fails.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

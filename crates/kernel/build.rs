//! Compiles the BPF programs with clang, when the feature `bpf` asks for them.
//!
//! clang is called here and not through libbpf-cargo: no skeleton is generated, since the plan decides at run time which programs
//! are loaded, and what is left of that crate would be these lines with the dependencies of a whole command.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources, objects and what is defined for them: the gates' source makes the programs of faults, too.
const OBJECTS: [(&str, &str, Option<&str>); 7] = [
    ("gates", "gates", None),
    ("gates", "gates_extra_cost", Some("EXTRA_COST")),
    ("gates", "fault", Some("FAULT")),
    ("observe", "observe", None),
    ("hook_support", "hook_support", None),
    ("threads", "threads", None),
    ("trial", "trial", None),
];

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    if let Err(reason) = compile() {
        println!(
            "cargo::error={reason}; the BPF programs need clang: install it (scripts/setup.sh report does on Debian), or build \
             without the feature bpf (--no-default-features)"
        );
    }
}

fn compile() -> Result<(), String> {
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo gives no OUT_DIR")?);
    let include = env::var_os("DEP_BPF_INCLUDE").ok_or("libbpf-sys names no headers")?;
    let architecture = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => {
            return Err(format!(
                "there are no gates for the architecture {other:?} yet"
            ));
        }
    };
    for (source, object, define) in OBJECTS {
        let source = format!("src/bpf/{source}.bpf.c");
        let object = out.join(format!("{object}.bpf.o"));
        compile_one(&clang, architecture, &include, (&source, define), &object)?;
    }
    Ok(())
}

fn compile_one(
    clang: &OsStr,
    architecture: &str,
    include: &OsStr,
    (source, define): (&str, Option<&str>),
    object: &Path,
) -> Result<(), String> {
    let done = Command::new(clang)
        .args([
            "-g", "-O2", "-mcpu=v3", "-target", "bpf", "-Wall", "-Werror",
        ])
        .arg(format!("-D__TARGET_ARCH_{architecture}"))
        .args(define.map(|name| format!("-D{name}")))
        .arg("-I")
        .arg(include)
        // Paths of the machine that builds stay out of the object.
        .arg(format!(
            "-fdebug-prefix-map={}=.",
            env::current_dir().map_err(|e| e.to_string())?.display()
        ))
        .args(["-c", source, "-o"])
        .arg(object)
        .output()
        .map_err(|error| format!("{} could not be run: {error}", clang.display()))?;
    if !done.status.success() {
        return Err(format!(
            "{} failed on {source}: {}",
            clang.display(),
            String::from_utf8_lossy(&done.stderr).replace('\n', " ")
        ));
    }
    Ok(())
}

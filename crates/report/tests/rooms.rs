//! Dependencies between crates: what shows and analyses runs must not reach what measures.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The crates that talk to kernels, run workloads or measure.
const MEASURING: [&str; 8] = [
    "tollgate-budget",
    "tollgate-experiment",
    "tollgate-kernel",
    "tollgate-measure",
    "tollgate-observe",
    "tollgate-qemu",
    "tollgate-sampling",
    "tollgate-workload",
];

/// The dependencies of each crate of the workspace on others of it, tests and examples aside.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{metadata:?}");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let all = package["dependencies"].as_array().unwrap().iter();
            // Those of tests have a kind.
            let ours = all.filter(|one| one["kind"].is_null() && one["path"].is_string());
            (name(package), ours.map(name).collect())
        })
        .collect()
}

/// All that a crate reaches, directly or by way of others.
fn reached(from: &str, dependencies: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(one) = next.pop() {
        for other in &dependencies[&one] {
            if reached.insert(other.clone()) {
                next.push(other.clone());
            }
        }
    }
    reached
}

#[test]
fn reports_reach_nothing_that_measures() {
    let dependencies = dependencies();
    for (room, but) in [
        ("tollgate-run", &[][..]),
        ("tollgate-papers", &[][..]),
        ("tollgate-stats", &[][..]),
        // For its file of categories.
        ("tollgate-analysis", &["tollgate-sampling"][..]),
        ("tollgate-report", &["tollgate-sampling"][..]),
    ] {
        let reached = reached(room, &dependencies);
        let found: Vec<&&str> = MEASURING
            .iter()
            .filter(|one| reached.contains(**one) && !but.contains(one))
            .collect();
        assert!(found.is_empty(), "{room} reaches {found:?}");
    }
    // The test itself sees dependencies at all.
    assert!(reached("tollgate-experiment", &dependencies).contains("tollgate-kernel"));
}

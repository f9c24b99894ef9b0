//! Stores of runs that another version made.

use std::fs::{self, File};

use arrow::array::AsArray;
use parquet::file::reader::{FileReader, SerializedFileReader};
use tollgate_run::{Reading, RemoteEnd, fixture};
use tollgate_table::location::Location;
use tollgate_table::runs::{Saved, Store};

const OTHER_HOST: &str = "192.0.2.7";

/// Saves a run with another host in the store, and shows its rows of two tables.
fn saved_and_shown(store: &Store) -> (String, String, bool) {
    let mut run = fixture::report();
    run.host.kernel = Reading::Value {
        value: "6.1".to_owned(),
    };
    run.remote = Some(RemoteEnd {
        address: OTHER_HOST.to_owned(),
        server: "tollgate".to_owned(),
        host: run.host.clone(),
    });
    let json = serde_json::to_string(&run).unwrap();
    let Saved::New(id) = store.save(&run, &json, None).unwrap() else {
        panic!("it is new");
    };
    let text = |sql: &str| {
        let (_, batches) = store.query(sql).unwrap();
        let column =
            arrow::compute::cast(batches[0].column(0), &arrow::datatypes::DataType::Utf8).unwrap();
        column.as_string::<i32>().value(0).to_owned()
    };
    assert_eq!(text("SELECT remote FROM runs"), OTHER_HOST);
    assert_eq!(
        text("SELECT remote_kernel FROM runs WHERE remote = '192.0.2.7'"),
        "6.1"
    );
    let (_, batches) = store.query("SELECT * FROM runs").unwrap();
    let (_, settings) = store.query("SELECT DISTINCT remote FROM settings").unwrap();
    let names: Vec<String> = batches[0]
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    (
        id,
        names.join(" "),
        settings
            .iter()
            .all(|batch| batch.column_by_name("remote").is_some()),
    )
}

fn columns(folder: &std::path::Path, id: &str, file: &str) -> Vec<String> {
    let file = File::open(folder.join(id).join(file)).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let columns = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .columns()
        .to_vec();
    columns
        .iter()
        .map(|column| column.name().to_owned())
        .collect()
}

#[test]
fn store_of_version_1_is_read_and_added_to_under_its_own_names_of_columns() {
    for (version, remote, kernel) in [(1, "far", "far_kernel"), (2, "remote", "remote_kernel")] {
        let folder = tempfile::tempdir().unwrap();
        let mark = format!("{{\"schema\": \"tollgate-runs\", \"version\": {version}}}");
        let mark_file = folder.path().join("tollgate-runs.json");
        fs::write(&mark_file, &mark).unwrap();
        let location = Location::Folder(folder.path().to_owned());
        let store = Store::prepare(&location).unwrap();
        let (id, names, has_remote) = saved_and_shown(&store);
        assert!(
            names.contains(" remote remote_kernel ") && !names.contains("far"),
            "{names}"
        );
        assert!(has_remote);
        // Who has the version before reads what was added.
        assert_eq!(fs::read_to_string(&mark_file).unwrap(), mark);
        let stored = columns(folder.path(), &id, "runs.parquet");
        for name in [remote, kernel] {
            assert!(stored.iter().any(|one| one == name), "{version} {stored:?}");
        }
        let stored = columns(folder.path(), &id, "settings.parquet");
        assert!(
            stored.iter().any(|one| one == remote),
            "{version} {stored:?}"
        );
    }
}

#[test]
fn store_of_a_version_to_come_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("tollgate-runs.json"),
        r#"{"schema": "tollgate-runs", "version": 3}"#,
    )
    .unwrap();
    let location = Location::Folder(folder.path().to_owned());
    assert!(Store::open(&location).is_err() && Store::prepare(&location).is_err());
}

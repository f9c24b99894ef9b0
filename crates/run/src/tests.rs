//! The schema against its document, times against RFC 3339, the host against made-up trees.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const DOCUMENT: &str = include_str!("../../../docs/run-schema.md");

fn source() -> Source {
    Source {
        authors: "Wolman et al.".into(),
        year: 1994,
        place: "Table 2".into(),
    }
}

fn measured() -> Measured {
    Measured {
        value: 14_100.0,
        ci: Some(Interval {
            low: 14_000.0,
            high: 14_200.0,
        }),
        n: Some(40_000),
        mean: Some(14_300.0),
        p50: Some(14_100.0),
        p99: Some(21_000.0),
        p99_9: Some(40_000.0),
    }
}

fn table() -> Table {
    let row = |cells: Vec<Cell>| Row {
        label: "tcp".into(),
        depth: 1,
        kind: RowKind::Processing,
        layer: Some(Layer::Tcp),
        note: Some("tcp.out.begin -> ip.out.begin".into()),
        cells,
    };
    Table {
        id: "spans".into(),
        title: "Spans".into(),
        columns: vec![Column {
            name: "4 B".into(),
            unit: Unit::Nanoseconds,
        }],
        rows: vec![
            row(vec![Cell::Value(measured())]),
            row(vec![Cell::Published {
                value: 1.0,
                source: source(),
            }]),
            row(vec![Cell::NotAvailable {
                reason: "no counters".into(),
            }]),
            row(vec![Cell::text("words")]),
            row(vec![]),
        ],
    }
}

fn bar(total: f64, lengths: &[f64]) -> Bar {
    let segment = |value: &f64| Segment {
        label: "tcp".into(),
        layer: Some(Layer::Tcp),
        kind: SegmentKind::Processing,
        value: *value,
    };
    Bar {
        label: "4 B".into(),
        total_measured: Some(total),
        segments: lengths.iter().map(segment).collect(),
    }
}

/// A run in which every optional field is set and every shape of cell, figure and reading occurs.
fn complete() -> Run {
    let axis = Axis {
        label: "size".into(),
        unit: Unit::Bytes,
        scale: Scale::Log,
    };
    let point = Point {
        x: 4.0,
        y: 9.0,
        ci: Some(Interval {
            low: 8.0,
            high: 10.0,
        }),
    };
    let command = || "tollgate experiment run wolman-transmit".to_owned();
    let mut host = Host::read_from(Path::new("no such tree"));
    host.kernel = Reading::Value {
        value: "6.18".into(),
    };
    host.mitigations = Reading::Value {
        value: vec![Mitigation {
            name: "l1tf".into(),
            state: "Not affected".into(),
        }],
    };
    host.network = Some(Network {
        netfilter_rules: Reading::Value { value: 3 },
        qdiscs: Reading::Value {
            value: vec![Setting {
                name: "lo".to_owned(),
                state: "noqueue".to_owned(),
            }],
        },
        xdp_programs: Reading::Value { value: 0 },
        tc_programs: Reading::Value { value: 1 },
        cgroup_programs: Reading::NotAvailable {
            reason: "bpftool cannot be run".to_owned(),
        },
    });
    host.offloads = Some(Reading::Value {
        value: vec![Setting {
            name: "lo gso".into(),
            state: "on".into(),
        }],
    });
    Run {
        schema: Schema::TollgateRun,
        version: VERSION,
        tool: Tool {
            name: "tollgate".into(),
            version: "0.1.0".into(),
            git: Some("abc".into()),
        },
        started: Timestamp::from(UNIX_EPOCH),
        elapsed_s: 28.5,
        command: command(),
        quick: true,
        remote: Some(RemoteEnd {
            address: "box:8655".into(),
            server: "tollgate 0.1.0".into(),
            host: host.clone(),
        }),
        host,
        clock: Clock {
            source: "tsc".into(),
            hz: 2.1e9,
            read_cost_ns: 22.0,
            resolution_ns: 10.0,
        },
        controls: vec![Control {
            experiment: "rr".into(),
            cores: Cores::Two,
            path: "bare-shm".into(),
            median_ns: 130.0,
            low_ns: 125.0,
            high_ns: 140.0,
            mean: Some(ControlMean {
                ns: 131.0,
                error: 0.01,
            }),
            n: 20,
        }],
        experiments: vec![Experiment {
            name: "wolman-transmit".into(),
            title: "Transmit".into(),
            paper: Some(source()),
            finding: "TCP takes 7 %.".into(),
            command: command(),
            tables: vec![table()],
            figures: vec![
                Figure::Lines {
                    title: "Paths".into(),
                    x: axis.clone(),
                    y: axis,
                    series: vec![Series {
                        label: "a".into(),
                        points: vec![point],
                        published: true,
                    }],
                    command: command(),
                },
                Figure::StackedBars {
                    title: "Spans".into(),
                    unit: Unit::Nanoseconds,
                    bars: vec![bar(10.0, &[4.0, 5.0])],
                    command: command(),
                },
                Figure::Forest {
                    title: "Effects".into(),
                    panels: vec!["4 B".into()],
                    rows: vec![ForestRow {
                        label: "demux=list".into(),
                        panels: vec![vec![Ratio {
                            label: "time".into(),
                            value: 1.1,
                            ci: measured().ci,
                        }]],
                    }],
                    command: command(),
                },
            ],
            trust: vec![TrustLine {
                kind: TrustKind::Closure,
                value: Some(0.8),
                unit: Unit::Percent,
                holds: true,
                text: "closes".into(),
            }],
        }],
        warnings: vec!["load 3".into()],
    }
}

fn collect_fields(value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                fields.insert(name.clone());
                collect_fields(value, fields);
            }
        }
        Value::Array(values) => values
            .iter()
            .for_each(|value| collect_fields(value, fields)),
        _ => {}
    }
}

/// The names in the first column of the document's tables: "| `name` | ...".
fn documented_fields() -> BTreeSet<String> {
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    DOCUMENT.lines().filter_map(name).collect()
}

#[test]
fn the_document_and_the_types_name_the_same_fields() {
    let mut fields = BTreeSet::new();
    collect_fields(&serde_json::to_value(complete()).unwrap(), &mut fields);
    assert_eq!(fields, documented_fields());
}

/// The words that a unit-like enum may take, taken from serde's own complaint about an unknown word.
fn words<T: for<'de> Deserialize<'de> + fmt::Debug>() -> Vec<String> {
    let complaint = serde_json::from_str::<T>("\"no such word\"")
        .unwrap_err()
        .to_string();
    let (_, listed) = complaint.split_once("expected").unwrap();
    listed
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_document_names_every_word_of_every_enum() {
    let all = [
        words::<Schema>(),
        words::<Unit>(),
        words::<Layer>(),
        words::<RowKind>(),
        words::<SegmentKind>(),
        words::<TrustKind>(),
        words::<Scale>(),
        [
            "value",
            "published",
            "not_available",
            "text",
            "lines",
            "stacked_bars",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    assert_eq!(
        all.iter().map(Vec::len).collect::<Vec<_>>(),
        [1, 11, 7, 5, 3, 6, 2, 6]
    );
    for word in all.iter().flatten() {
        assert!(
            DOCUMENT.contains(&format!("`{word}`")),
            "docs/run-schema.md lacks {word:?}"
        );
    }
}

#[test]
fn the_document_tells_the_version() {
    assert!(DOCUMENT.contains(&format!("Version {VERSION}.")));
}

#[test]
fn a_run_survives_json() {
    let text = serde_json::to_string(&complete()).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), complete());
}

#[test]
fn a_later_field_is_ignored_and_an_absent_optional_one_is_none() {
    let mut value = serde_json::to_value(complete()).unwrap();
    value["from_the_future"] = Value::from(1);
    value["tool"].as_object_mut().unwrap().remove("git");
    let run: Run = serde_json::from_value(value).unwrap();
    assert_eq!(run.tool.git, None);
}

#[test]
fn layers_have_the_names_that_serde_writes() {
    for layer in Layer::ALL {
        assert_eq!(serde_json::to_value(layer).unwrap(), layer.name());
    }
    assert_eq!(
        words::<Layer>(),
        Layer::ALL.map(|layer| layer.name().to_owned())
    );
}

#[test]
fn check_accepts_a_heading_row_and_refuses_a_short_one() {
    let mut run = complete();
    assert_eq!(run.check(), Ok(()));
    run.experiments[0].tables[0].rows[0]
        .cells
        .push(Cell::exact(1.0));
    let error = run.check().unwrap_err();
    assert!(
        matches!(
            error,
            RunError::CellCount {
                cells: 2,
                columns: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn check_refuses_names_that_occur_twice() {
    let mut run = complete();
    run.experiments[0].tables.push(table());
    assert!(matches!(
        run.check(),
        Err(RunError::Duplicate { what: "table", .. })
    ));
    let mut run = complete();
    run.experiments.push(run.experiments[0].clone());
    assert!(matches!(
        run.check(),
        Err(RunError::Duplicate {
            what: "experiment",
            ..
        })
    ));
}

#[test]
fn check_refuses_lengths_below_zero() {
    for length in [-1.0, f64::NAN, f64::INFINITY] {
        let mut run = complete();
        run.experiments[0].figures = vec![Figure::StackedBars {
            title: String::new(),
            unit: Unit::Nanoseconds,
            bars: vec![bar(1.0, &[length])],
            command: String::new(),
        }];
        assert!(matches!(run.check(), Err(RunError::SegmentLength { .. })));
    }
}

#[test]
fn forest_plot_has_a_place_for_each_ratio() {
    let row = |value: f64| ForestRow {
        label: "demux=list".to_owned(),
        panels: vec![vec![Ratio {
            label: "time".to_owned(),
            value,
            ci: None,
        }]],
    };
    let check = |row: ForestRow, panels: usize| {
        let figure = Figure::Forest {
            title: "Forest".to_owned(),
            panels: vec!["4 B".to_owned(); panels],
            rows: vec![row],
            command: String::new(),
        };
        figure.check()
    };
    assert_eq!(check(row(1.5), 1), Ok(()));
    assert!(matches!(
        check(row(1.5), 2),
        Err(RunError::PanelCount { .. })
    ));
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(check(row(value), 1), Err(RunError::Ratio { .. })));
    }
}

#[test]
fn difference_is_shown_where_the_interval_leaves_out_one() {
    let shows = |value, ci: Option<(f64, f64)>| {
        let ratio = Ratio {
            label: "time".to_owned(),
            value,
            ci: ci.map(|(low, high)| Interval { low, high }),
        };
        ratio.shows_difference()
    };
    assert!(shows(1.2, Some((1.1, 1.3))) && shows(0.8, Some((0.7, 0.9))));
    assert!(!shows(1.2, Some((0.9, 1.5))));
    assert!(shows(1.001, None) && !shows(1.0, None));
}

#[test]
fn a_bar_tells_its_residual() {
    assert_eq!(bar(10.0, &[4.0, 5.0]).residual(), Some(1.0));
    assert_eq!(bar(8.0, &[4.0, 5.0]).residual(), Some(-1.0));
    let open = Bar {
        total_measured: None,
        ..bar(0.0, &[4.0])
    };
    assert_eq!(open.residual(), None);
}

#[test]
fn times_are_written_as_rfc_3339_shows_them() {
    // RFC 3339 section 5.8 gives 1985-04-12T23:20:50 and 1996-12-20T00:39:57 UTC.
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (482_196_050, "1985-04-12T23:20:50Z"),
        (851_042_397, "1996-12-20T00:39:57Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
    ] {
        let timestamp = Timestamp::from(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(timestamp.to_string(), text);
        assert_eq!(
            Timestamp::try_from(text.to_owned()).unwrap().unix_seconds(),
            seconds
        );
    }
}

#[test]
fn what_is_no_time_in_utc_is_refused() {
    for text in [
        "",
        "2026-02-29T00:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T20:39:00+01:00",
        "2026-11-21 20:39:00Z",
        "1969-12-31T23:59:59Z",
        "2026-00-10T00:00:00Z",
        "２０26-11-21T20:39:00Z",
        "2026-11-21T20:39:00.5Z",
    ] {
        assert!(Timestamp::try_from(text.to_owned()).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn every_time_is_read_back(seconds in 0_u64..253_402_300_800) {
        let timestamp = Timestamp::from(UNIX_EPOCH + Duration::from_secs(seconds));
        prop_assert_eq!(Timestamp::try_from(timestamp.to_string()), Ok(timestamp));
    }

    #[test]
    fn no_text_makes_the_time_parser_panic(text in "\\PC{0,24}") {
        if let Ok(timestamp) = Timestamp::try_from(text.clone()) {
            prop_assert_eq!(timestamp.to_string(), text);
        }
    }
}

/// Writes a made-up tree of `proc` and `sys`.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn reason<T>(reading: &Reading<T>) -> &str {
    match reading {
        Reading::NotAvailable { reason } => reason,
        Reading::Value { .. } => panic!("expected no value"),
    }
}

#[test]
fn a_host_that_tells_everything_is_read() {
    let root = tree(&[
        ("proc/sys/kernel/osrelease", "6.18.44\n"),
        (
            "proc/cpuinfo",
            "processor : 0\nmodel name\t: AMD EPYC\nflags\t: fpu tsc hypervisor\n",
        ),
        (
            "proc/meminfo",
            "MemTotal:       24684092 kB\nMemFree: 1 kB\n",
        ),
        ("sys/devices/system/cpu/online", "0-3,8\n"),
        (
            "sys/devices/system/cpu/vulnerabilities/retbleed",
            "Not affected\n",
        ),
        (
            "sys/devices/system/cpu/vulnerabilities/l1tf",
            "Mitigation: PTE Inversion\n",
        ),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "performance\n",
        ),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
            "2100000\n",
        ),
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("sys/class/dmi/id/product_name", "Standard PC\n"),
    ]);
    let host = Host::read_from(root.path());
    assert_eq!(host.kernel.value().unwrap(), "6.18.44");
    assert_eq!(host.cpu_model.value().unwrap(), "AMD EPYC");
    assert_eq!(host.cores.value(), Some(&5));
    assert_eq!(host.memory_bytes.value(), Some(&(24_684_092 * 1_024)));
    assert_eq!(host.governor.value().unwrap(), "performance");
    assert_eq!(host.frequency_hz.value(), Some(&2_100_000_000));
    assert_eq!(host.hypervisor.value().unwrap(), "QEMU Standard PC");
    let mitigations = host.mitigations.value().unwrap();
    assert_eq!(
        mitigations
            .iter()
            .map(|m| (m.name.as_str(), m.state.as_str()))
            .collect::<Vec<_>>(),
        [
            ("l1tf", "Mitigation: PTE Inversion"),
            ("retbleed", "Not affected")
        ]
    );
}

#[test]
fn a_host_that_tells_nothing_says_why() {
    let root = tree(&[]);
    let host = Host::read_from(root.path());
    assert_eq!(
        reason(&host.kernel),
        "/proc/sys/kernel/osrelease does not exist here"
    );
    assert!(reason(&host.cpu_model).contains("/proc/cpuinfo"));
    assert!(reason(&host.cores).contains("/sys/devices/system/cpu/online"));
    assert!(reason(&host.governor).contains("scaling_governor"));
    assert!(reason(&host.frequency_hz).contains("scaling_cur_freq"));
    assert!(reason(&host.memory_bytes).contains("/proc/meminfo"));
    assert!(reason(&host.mitigations).contains("vulnerabilities"));
    assert!(reason(&host.hypervisor).contains("virtual"));
}

#[test]
fn bare_metal_and_a_nameless_hypervisor_are_told_apart() {
    let bare = tree(&[("proc/cpuinfo", "flags : fpu tsc\n")]);
    assert_eq!(
        Host::read_from(bare.path()).hypervisor.value().unwrap(),
        "none"
    );
    let nameless = tree(&[("proc/cpuinfo", "flags : fpu hypervisor\n")]);
    assert!(reason(&Host::read_from(nameless.path()).hypervisor).contains("there is one"));
    let xen = tree(&[
        ("proc/cpuinfo", "flags : fpu\n"),
        ("sys/hypervisor/type", "xen\n"),
    ]);
    assert_eq!(
        Host::read_from(xen.path()).hypervisor.value().unwrap(),
        "xen"
    );
}

#[test]
fn contents_that_make_no_sense_are_quoted() {
    let root = tree(&[
        ("sys/devices/system/cpu/online", "3-1\n"),
        ("proc/meminfo", "MemTotal: lots\n"),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
            "<unknown>\n",
        ),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "\n"),
    ]);
    let host = Host::read_from(root.path());
    assert!(reason(&host.cores).contains("3-1"));
    assert!(reason(&host.memory_bytes).contains("lots"));
    assert!(reason(&host.frequency_hz).contains("<unknown>"));
    assert!(reason(&host.governor).contains("empty"));
}

//! A run with invented numbers, in which every shape that a renderer must draw occurs.

use std::time::{Duration, UNIX_EPOCH};

use tollgate_run::*;

pub const SIZES: [u32; 8] = [4, 20, 80, 200, 500, 1_400, 4_000, 8_000];

fn ci(value: f64, share: f64) -> Option<Interval> {
    Some(Interval {
        low: value * (1.0 - share),
        high: value * (1.0 + share),
    })
}

fn measured(value: f64, share: f64) -> Cell {
    Cell::Value(Measured {
        value,
        ci: ci(value, share),
        n: Some(40_000),
        mean: Some((value * 1.04).round()),
        p50: Some(value),
        p99: Some((value * 1.7).round()),
        p99_9: Some((value * 3.1).round()),
    })
}

fn size_columns() -> Vec<Column> {
    let name = |size: u32| match size {
        1_000.. => format!("{},{:03} B", size / 1_000, size % 1_000),
        _ => format!("{size} B"),
    };
    SIZES
        .iter()
        .map(|size| Column {
            name: name(*size),
            unit: Unit::Nanoseconds,
        })
        .collect()
}

fn row(label: &str, cells: Vec<Cell>) -> Row {
    Row {
        label: label.into(),
        depth: 0,
        kind: RowKind::Plain,
        layer: None,
        note: None,
        cells,
    }
}

fn source(authors: &str, year: u16, place: &str) -> Source {
    Source {
        authors: authors.into(),
        year,
        place: place.into(),
    }
}

fn trust(kind: TrustKind, holds: bool, value: Option<f64>, unit: Unit, text: &str) -> TrustLine {
    TrustLine {
        kind,
        value,
        unit,
        holds,
        text: text.into(),
    }
}

fn paths() -> Vec<(&'static str, [f64; 8], f64)> {
    vec![
        (
            "kernel-loopback",
            [
                14_080., 14_110., 14_240., 14_560., 14_700., 15_230., 16_400., 17_930.,
            ],
            0.012,
        ),
        (
            "peer-smoltcp",
            [338., 341., 352., 371., 432., 612., 1_480., 2_860.],
            0.006,
        ),
        (
            "stack-shm",
            [868., 872., 880., 905., 960., 1_120., 1_720., 2_410.],
            0.02,
        ),
        (
            "stack-memory",
            [118., 119., 123., 131., 150., 198., 421., 798.],
            0.004,
        ),
    ]
}

fn rr_by_size() -> Experiment {
    let command = "tollgate experiment run rr-by-size --size 4,20,80,200,500,1400,4000,8000";
    let mut rows: Vec<Row> = paths()
        .into_iter()
        .map(|(label, values, share)| {
            row(
                label,
                values.iter().map(|value| measured(*value, share)).collect(),
            )
        })
        .collect();
    let cells = SIZES.iter().map(|_| Cell::NotAvailable {
        reason: "AF_XDP needs a network device besides lo; there is none".into(),
    });
    rows.push(row("stack-xdp", cells.collect()));
    let series = paths().into_iter().map(|(label, values, share)| Series {
        label: label.into(),
        points: SIZES
            .iter()
            .zip(values)
            .map(|(size, y)| Point {
                x: f64::from(*size),
                y,
                ci: ci(y, share * 3.0),
            })
            .collect(),
        published: false,
    });
    let mut series: Vec<Series> = series.collect();
    series.push(Series {
        label: "Clark et al. 1989, predicted".into(),
        points: SIZES
            .iter()
            .map(|size| Point {
                x: f64::from(*size),
                y: 40_000. + f64::from(*size) * 9.0,
                ci: None,
            })
            .collect(),
        published: true,
    });
    Experiment {
        name: "rr-by-size".into(),
        title: "Round trips by size".into(),
        paper: None,
        finding: "A 200-byte round trip takes 14.6 us over kernel-loopback and 0.131 us over stack-memory, 111 times \
                  less; over stack-memory it takes 0.35 of what peer-smoltcp takes."
            .into(),
        command: command.into(),
        tables: vec![Table {
            id: "round-trips".into(),
            title: "Round trip, median, two cores, blocking where the path can".into(),
            columns: size_columns(),
            rows,
        }],
        figures: vec![Figure::Lines {
            title: "Round trip over the size of the message, each way, by path".into(),
            x: Axis { label: "Size of the message".into(), unit: Unit::Bytes, scale: Scale::Log },
            y: Axis { label: "Round trip, median".into(), unit: Unit::Nanoseconds, scale: Scale::Log },
            series,
            command: command.into(),
        }],
        trust: vec![
            trust(
                TrustKind::Note,
                true,
                None,
                Unit::None,
                "3 repetitions of 40,000 round trips for each path and size, interleaved; the ends are pinned to \
                 processors 0 and 1",
            ),
            trust(
                TrustKind::Note,
                false,
                Some(1.4),
                Unit::None,
                "load average was 1.4 during the run: another process had part of these two cores",
            ),
        ],
    }
}

struct Span {
    label: &'static str,
    layer: Layer,
    kind: RowKind,
    note: &'static str,
    at_4: f64,
    per_byte: f64,
}

fn spans(receive: bool) -> Vec<Span> {
    use Layer::{Device, Driver, Ip, Scheduler, Socket, Tcp};
    use RowKind::{Processing, Queueing};
    let span = |label, layer, kind, note, at_4, per_byte| Span {
        label,
        layer,
        kind,
        note,
        at_4,
        per_byte,
    };
    if receive {
        vec![
            span(
                "driver",
                Driver,
                Processing,
                "netif_receive_skb",
                310.,
                0.002,
            ),
            span(
                "ip queue",
                Device,
                Queueing,
                "netif_rx -> netif_receive_skb",
                640.,
                0.004,
            ),
            span("ip", Ip, Processing, "PRE_ROUTING -> LOCAL_IN", 205., 0.0),
            span(
                "tcp.checksum",
                Tcp,
                Processing,
                "folded into the copy",
                42.,
                0.031,
            ),
            span(
                "tcp",
                Tcp,
                Processing,
                "tcp_probe -> sk_data_ready",
                612.,
                0.006,
            ),
            span(
                "socket queue",
                Socket,
                Queueing,
                "sk_data_ready -> copy",
                120.,
                0.01,
            ),
            span(
                "wakeup",
                Scheduler,
                Queueing,
                "sched_wakeup -> sched_switch",
                3_870.,
                0.05,
            ),
            span("socket", Socket, Processing, "copy -> sys_exit", 590., 0.09),
        ]
    } else {
        vec![
            span(
                "socket",
                Socket,
                Processing,
                "sys_enter -> tcp_sendmsg_locked",
                296.,
                0.012,
            ),
            span(
                "tcp.checksum",
                Tcp,
                Processing,
                "folded into the copy",
                40.,
                0.03,
            ),
            span(
                "tcp.copy",
                Tcp,
                Processing,
                "tcp_sendmsg_locked",
                88.,
                0.062,
            ),
            span(
                "tcp",
                Tcp,
                Processing,
                "tcp_sendmsg_locked -> LOCAL_OUT",
                441.,
                0.008,
            ),
            span(
                "ip",
                Ip,
                Processing,
                "LOCAL_OUT -> net_dev_queue",
                262.,
                0.0,
            ),
            span(
                "device queue",
                Device,
                Queueing,
                "net_dev_queue -> net_dev_start_xmit",
                104.,
                0.001,
            ),
            span(
                "driver",
                Driver,
                Processing,
                "net_dev_start_xmit -> net_dev_xmit",
                231.,
                0.004,
            ),
            span(
                "link",
                Layer::Link,
                Processing,
                "net_dev_xmit -> netif_rx",
                58.,
                0.011,
            ),
        ]
    }
}

fn value(span: &Span, size: u32) -> f64 {
    (span.at_4 + span.per_byte * f64::from(size)).round()
}

fn ledger(name: &str, title: &str, receive: bool) -> Experiment {
    let command = format!("tollgate experiment run {name}");
    let spans = spans(receive);
    let residual_share = if receive { -0.021 } else { 0.008 };
    let rest = 34.0;
    let sum = |size: u32| spans.iter().map(|span| value(span, size)).sum::<f64>() + rest;
    let total = |size: u32| (sum(size) / (1.0 - residual_share)).round();
    let per_size =
        |cell: &dyn Fn(u32) -> Cell| SIZES.iter().map(|size| cell(*size)).collect::<Vec<_>>();
    let mut rows = vec![row(if receive { "receive" } else { "transmit" }, vec![])];
    rows.extend(spans.iter().map(|span| Row {
        label: span.label.into(),
        depth: 1,
        kind: span.kind,
        layer: Some(span.layer),
        note: Some(span.note.into()),
        cells: per_size(&|size| measured(value(span, size), 0.01)),
    }));
    rows.push(Row {
        depth: 1,
        kind: RowKind::Unattributed,
        ..row("unattributed", per_size(&|_| Cell::exact(rest)))
    });
    rows.push(Row {
        kind: RowKind::Total,
        ..row("sum of the spans", per_size(&|size| Cell::exact(sum(size))))
    });
    rows.push(Row {
        kind: RowKind::Total,
        ..row(
            "measured without gates",
            per_size(&|size| measured(total(size), 0.008)),
        )
    });
    let paper = source(
        "Wolman et al.",
        1994,
        if receive { "Table 3" } else { "Table 2" },
    );
    let published = |size: u32| Cell::Published {
        value: 318_000. + f64::from(size) * 62.0,
        source: paper.clone(),
    };
    rows.push(row("DECstation 5000/200", per_size(&published)));
    let bars = SIZES.iter().zip(size_columns()).map(|(size, column)| {
        let mut segments: Vec<Segment> = spans
            .iter()
            .map(|span| Segment {
                label: span.label.into(),
                layer: Some(span.layer),
                kind: match span.kind {
                    RowKind::Queueing => SegmentKind::Queueing,
                    _ => SegmentKind::Processing,
                },
                value: value(span, *size),
            })
            .collect();
        segments.push(Segment {
            label: "unattributed".into(),
            layer: None,
            kind: SegmentKind::Unattributed,
            value: rest,
        });
        Bar {
            label: column.name,
            total_measured: Some(total(*size)),
            segments,
        }
    });
    let closes = if receive {
        "the ledger exceeds the total measured without gates by 2.1 %: it does not close within 2 %"
    } else {
        "the ledger closes on the total measured without gates within 0.8 %"
    };
    Experiment {
        name: name.into(),
        title: title.into(),
        paper: Some(paper.clone()),
        finding: if receive {
            "61 % of the way in is waiting for the reader to run; TCP itself is 10 %.".into()
        } else {
            "TCP with its copy and checksum takes 38 % of the way out at 4 bytes and 53 % at 8,000."
                .into()
        },
        command: command.clone(),
        tables: vec![Table {
            id: "spans".into(),
            title: format!("{title}, mean by span"),
            columns: size_columns(),
            rows,
        }],
        figures: vec![Figure::StackedBars {
            title: format!("{title}: spans by size of the message"),
            unit: Unit::Nanoseconds,
            bars: bars.collect(),
            command,
        }],
        trust: vec![
            trust(
                TrustKind::Closure,
                !receive,
                Some(residual_share * 100.0),
                Unit::Percent,
                closes,
            ),
            trust(
                TrustKind::Perturbation,
                true,
                Some(2.1),
                Unit::Percent,
                "the gates made the round trip 2.1 % longer; each gate cost 52 ns, subtracted",
            ),
            trust(
                TrustKind::EventsLost,
                true,
                Some(0.0),
                Unit::Count,
                "no event was lost",
            ),
            trust(
                TrustKind::JoinRate,
                true,
                Some(100.0),
                Unit::Percent,
                "all messages were joined from end to end",
            ),
        ],
    }
}

fn clark() -> Experiment {
    let clark = |value: f64| Cell::Published {
        value,
        source: source("Clark et al.", 1989, "section \"The TCP path\""),
    };
    let count = |label: &str, depth: u8, own: f64, theirs: Option<f64>| {
        let published = theirs.map_or_else(
            || Cell::NotAvailable {
                reason: "Clark et al. 1989 gives no count".into(),
            },
            clark,
        );
        let ratio = theirs.map_or_else(|| Cell::text(""), |theirs| Cell::exact(own / theirs));
        Row {
            depth,
            ..row(label, vec![Cell::exact(own), published, ratio])
        }
    };
    Experiment {
        name: "clark-instructions".into(),
        title: "Instructions on the common path".into(),
        paper: Some(source("Clark et al.", 1989, "Table I")),
        finding: "TCP input takes 142 instructions for a data receiver, 44 fewer than Clark et al. counted on an 80386.".into(),
        command: "tollgate experiment run clark-instructions".into(),
        tables: vec![Table {
            id: "operations".into(),
            title: "Instructions by Callgrind, 64-byte request, checksums on".into(),
            columns: vec![
                Column { name: "Tollgate".into(), unit: Unit::Instructions },
                Column { name: "1989".into(), unit: Unit::Instructions },
                Column { name: "Tollgate / 1989".into(), unit: Unit::Ratio },
            ],
            rows: vec![
                Row { note: Some("x86-64-v3".into()), ..row("TCP", vec![]) },
                count("input, data receiver", 1, 142.0, Some(186.0)),
                count("input, data sender", 1, 151.0, Some(213.0)),
                count("output", 1, 171.0, Some(235.0)),
                row("IP", vec![]),
                count("in", 1, 31.0, Some(57.0)),
                count("out", 1, 28.0, Some(61.0)),
                row("Timer", vec![]),
                count("set", 1, 5.0, Some(35.0)),
                count("clear", 1, 3.0, Some(17.0)),
                count("lazy re-arm", 1, 38.0, None),
                Row { kind: RowKind::Total, ..count("round trip, both ends", 0, 1_087.0, Some(1_400.0)) },
            ],
        }],
        figures: vec![],
        trust: vec![trust(TrustKind::Note, true, None, Unit::None, "Callgrind counts are exact: the same build gives the same count")],
    }
}

fn stream() -> Experiment {
    let command = "tollgate experiment run stream-by-write-size";
    let writes = [64., 512., 4_096., 16_384., 65_536.];
    let line = |label: &str, values: [f64; 5], published: bool| Series {
        label: label.into(),
        points: writes
            .iter()
            .zip(values)
            .map(|(x, y)| Point {
                x: *x,
                y,
                ci: if published { None } else { ci(y, 0.05) },
            })
            .collect(),
        published,
    };
    Experiment {
        name: "stream-by-write-size".into(),
        title: "One-way streams by size of the write".into(),
        paper: None,
        finding: "With writes of 16 KiB stack-memory moves 8.10 GB/s, 1.9 times kernel-loopback."
            .into(),
        command: command.into(),
        tables: vec![],
        figures: vec![Figure::Lines {
            title: "Throughput over the size of the write".into(),
            x: Axis {
                label: "Size of the write".into(),
                unit: Unit::Bytes,
                scale: Scale::Log,
            },
            y: Axis {
                label: "Throughput".into(),
                unit: Unit::BytesPerSecond,
                scale: Scale::Linear,
            },
            series: vec![
                line("stack-memory", [1.9e9, 5.2e9, 7.6e9, 8.1e9, 8.2e9], false),
                line(
                    "kernel-loopback",
                    [0.11e9, 0.8e9, 2.9e9, 4.2e9, 5.1e9],
                    false,
                ),
                line("peer-smoltcp", [0.7e9, 2.1e9, 3.0e9, 3.3e9, 3.4e9], false),
                line("stack-shm", [0.9e9, 2.6e9, 3.1e9, 3.35e9, 3.45e9], false),
                line(
                    "Clark et al. 1989",
                    [0.004e9, 0.004e9, 0.004e9, 0.004e9, 0.004e9],
                    true,
                ),
            ],
            command: command.into(),
        }],
        trust: vec![],
    }
}

/// One bar, as the design's terminal sketch shows it.
fn one_bar() -> Experiment {
    let mut experiment = ledger(
        "breakdown-200",
        "A 200-byte round trip on kernel-loopback",
        true,
    );
    experiment.tables.clear();
    if let Some(Figure::StackedBars { bars, .. }) = experiment.figures.first_mut() {
        bars.drain(..3);
        bars.truncate(1);
    }
    experiment
}

/// Times of the control benchmark between the slices of the first experiment.
fn control(cores: Cores, path: &str, ns: f64) -> Control {
    Control {
        experiment: "rr-by-size".into(),
        cores,
        path: path.into(),
        median_ns: ns,
        low_ns: 0.98 * ns,
        high_ns: 1.02 * ns,
        mean: None,
        n: 27,
    }
}

/// The whole sample.
pub fn run() -> Run {
    fn read<T>(value: T) -> Reading<T> {
        Reading::Value { value }
    }
    let missing = |path: &str| format!("{path} does not exist here");
    let mitigation = |name: &str, state: &str| Mitigation {
        name: name.into(),
        state: state.into(),
    };
    Run {
        schema: Schema::TollgateRun,
        version: VERSION,
        tool: Tool { name: "tollgate".into(), version: "0.1.0".into(), git: Some("1f0c9ab".into()) },
        started: Timestamp::from(UNIX_EPOCH + Duration::from_secs(1_795_293_540)),
        elapsed_s: 27.8,
        command: "tollgate report --quick".into(),
        quick: true,
        host: Host {
            kernel: read("6.18.44".into()),
            cpu_model: read("AMD EPYC".into()),
            cores: read(2),
            mitigations: read(vec![
                mitigation("meltdown", "Not affected"),
                mitigation("retbleed", "Vulnerable"),
                mitigation("spectre_v2", "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional"),
            ]),
            governor: Reading::NotAvailable {
                reason: missing("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            },
            frequency_hz: Reading::NotAvailable {
                reason: missing("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"),
            },
            memory_bytes: read(25_276_510_208),
            hypervisor: Reading::NotAvailable {
                reason: "there is one (processor flag), but it does not give its name".into(),
            },
            sysctls: None,
            offloads: None,
        network: None,
        },
        remote: None,
        clock: Clock { source: "tsc".into(), hz: 2.1e9, read_cost_ns: 22.0, resolution_ns: 9.5 },
        controls: vec![
            control(Cores::One, "peer-smoltcp", 267.0),
            control(Cores::Two, "bare-shm", 118.0),
        ],
        experiments: vec![
            rr_by_size(),
            ledger("wolman-transmit", "The way out, kernel-loopback", false),
            ledger("wolman-receive", "The way in, kernel-loopback", true),
            one_bar(),
            clark(),
            stream(),
        ],
        warnings: vec!["this is a quick run: its intervals are about three times as wide as those of a full run".into()],
    }
}

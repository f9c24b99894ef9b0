//! The embedded files against themselves and against numbers taken from the papers a second time.

use std::collections::HashSet;

use proptest::prelude::*;

use super::closure::{Measure, printed_step};
use super::error::LoadError;
use super::*;

/// The spans of the ledger with their direction, as ARCHITECTURE names them.
const SPANS: [&str; 16] = [
    "socket (tx)",
    "tcp.checksum (tx)",
    "tcp.copy (tx)",
    "tcp (tx)",
    "ip (tx)",
    "device queue (tx)",
    "driver (tx)",
    "driver (rx)",
    "ip queue (rx)",
    "ip (rx)",
    "demux (rx)",
    "tcp.checksum (rx)",
    "tcp (rx)",
    "socket queue (rx)",
    "wakeup (rx)",
    "socket (rx)",
];

const SMALL: &str = r#"
id = "x-2000"
title = "X"
authors = ["Ada X"]
year = 2000
venue = "V"
machine = "M"
facts = [{ id = "f", value = 2, unit = "us", place = "1", quote = "two" }]
[[table]]
id = "x-2000/t"
title = "T"
place = "Table 1"
unit = "us"
columns = [{ id = "a" }, { id = "b", unit = "%" }]
rows = [
  { id = "p", parent = "total", cells = [1, "-"] },
  { id = "q", parent = "total", cells = [{ value = 2.5, doubt = "smudged" }, "?"] },
  { id = "total", kind = "total", cells = [3.5, 7] },
]
"#;

fn number(id: &str) -> f64 {
    fact(id).unwrap_or_else(|| panic!("no fact {id}")).value
}

fn cell(id: &str, row: &str, column: &str) -> f64 {
    table(id)
        .and_then(|table| table.cell(row, column))
        .unwrap_or_else(|| panic!("no number at {id} {row} {column}"))
}

fn tables() -> impl Iterator<Item = &'static Table> {
    all().iter().flat_map(|paper| &paper.tables)
}

fn refused(from: &str, to: &str) -> LoadError {
    assert!(SMALL.contains(from), "{from:?} is not in the sample");
    Paper::parse(&SMALL.replacen(from, to, 1)).expect_err("must be refused")
}

#[test]
fn every_embedded_file_is_read() {
    let papers = load().unwrap_or_else(|error| panic!("{error}"));
    let ids: Vec<&str> = papers.iter().map(|paper| paper.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "clark-1989",
            "wolman-1994",
            "kay-pasquale-1996",
            "foong-2003",
            "lehmann-benz-2002"
        ]
    );
    for paper in &papers {
        assert!(!paper.tables.is_empty(), "{}", paper.id);
        assert!(!paper.facts.is_empty(), "{}", paper.id);
        assert!(!paper.omitted.is_empty(), "{}", paper.id);
        assert!(paper.id.ends_with(&paper.year.to_string()), "{}", paper.id);
    }
}

#[test]
fn ids_are_unique_and_found() {
    let mut seen = HashSet::new();
    for paper in all() {
        assert!(seen.insert(paper.id.clone()), "{}", paper.id);
        assert!(super::paper(&paper.id).is_some());
        for table in &paper.tables {
            assert!(seen.insert(table.id.clone()), "{}", table.id);
            assert_eq!(
                super::table(&table.id).map(|found| &found.title),
                Some(&table.title)
            );
        }
        for fact in &paper.facts {
            let id = format!("{}/{}", paper.id, fact.id);
            assert_eq!(
                super::fact(&id).map(|found| found.value),
                Some(fact.value),
                "{id}"
            );
        }
    }
    assert!(table("wolman-1994/table-99").is_none());
    assert!(table("wolman-1994").is_none());
    assert!(fact("nobody/nothing").is_none());
}

#[test]
fn every_deviation_is_listed_with_its_amount() {
    for table in tables() {
        for closure in table.closures().iter().filter(|closure| !closure.closes()) {
            let gap = table
                .gaps
                .iter()
                .find(|gap| gap.row == closure.row && gap.column == closure.column)
                .unwrap_or_else(|| panic!("{}: {closure:?} is not listed", table.id));
            assert!(
                (gap.by - closure.deviation()).abs() < 0.001,
                "{}: {gap:?} against {}",
                table.id,
                closure.deviation()
            );
        }
    }
}

#[test]
fn every_listed_gap_is_a_deviation() {
    for table in tables() {
        let closures = table.closures();
        let mut seen = HashSet::new();
        for gap in &table.gaps {
            assert!(
                seen.insert((&gap.row, &gap.column)),
                "{}: {gap:?} is listed twice",
                table.id
            );
            assert!(!gap.why.is_empty());
            let open = closures.iter().any(|closure| {
                closure.row == gap.row && closure.column == gap.column && !closure.closes()
            });
            assert!(open, "{}: {gap:?} closes", table.id);
        }
        assert_eq!(
            table.closes() == Some(false),
            !table.gaps.is_empty(),
            "{}",
            table.id
        );
    }
}

#[test]
fn wolman_totals_are_exact_sums_except_one() {
    for id in ["wolman-1994/table-2", "wolman-1994/table-3"] {
        let table = table(id).expect("transcribed");
        let closures = table.closures();
        assert_eq!(closures.len(), 16, "two totals in eight columns");
        for closure in closures.iter().filter(|closure| closure.row == "total") {
            assert_eq!(closure.deviation(), 0.0, "{id} {closure:?}");
        }
        for closure in closures.iter().filter(|closure| closure.row == "tcp") {
            let bound = match (id, closure.column) {
                ("wolman-1994/table-2", "20") => continue,
                ("wolman-1994/table-2", "4") => 0.11,
                _ => 0.0,
            };
            assert!(closure.deviation().abs() <= bound, "{id} {closure:?}");
        }
    }
}

#[test]
fn tables_that_must_close_are_checked_in_the_expected_number_of_cells() {
    let checked = |id: &str| table(id).map(|table| table.closures().len());
    assert_eq!(checked("wolman-1994/table-1"), Some(8));
    assert_eq!(checked("wolman-1994/table-4"), Some(8));
    assert_eq!(checked("wolman-1994/table-5"), Some(16));
    assert_eq!(checked("wolman-1994/table-6"), Some(8));
    assert_eq!(checked("wolman-1994/table-7"), Some(8));
    assert_eq!(checked("wolman-1994/copy-and-checksum-1kb"), Some(2));
    assert_eq!(checked("clark-1989/tcp-input"), Some(3));
    assert_eq!(checked("clark-1989/costliest-path"), Some(2));
    assert_eq!(checked("kay-pasquale-1996/table-1"), Some(2));
    assert_eq!(checked("foong-2003/memory-transmit"), Some(2));
    assert_eq!(checked("foong-2003/memory-receive"), Some(4));
}

#[test]
fn spans_are_those_of_the_ledger() {
    for table in tables() {
        for row in &table.rows {
            for span in &row.spans {
                assert!(
                    SPANS.contains(&span.as_str()),
                    "{} {} {span}",
                    table.id,
                    row.id
                );
            }
        }
    }
    let receive = table("wolman-1994/table-3").expect("transcribed");
    assert_eq!(
        receive.row_of_span("demux (rx)").map(|row| row.id.as_str()),
        Some("tcp.segment")
    );
    assert_eq!(
        receive.row_of_span("wakeup (rx)").map(|row| row.kind),
        Some(Kind::Queueing)
    );
    let queueing: Vec<&str> = receive
        .rows
        .iter()
        .filter(|row| row.kind == Kind::Queueing)
        .map(|row| row.label())
        .collect();
    assert_eq!(queueing, ["IPQ", "Wakeup"]);
}

#[test]
fn quotes_are_short_and_sources_complete() {
    for paper in all() {
        for fact in &paper.facts {
            let words = fact.quote.split_whitespace().count();
            assert!(
                (1..=15).contains(&words),
                "{}/{}: {words} words",
                paper.id,
                fact.id
            );
            assert!(
                !fact.unit.is_empty() && !fact.place.is_empty(),
                "{}/{}",
                paper.id,
                fact.id
            );
        }
        for table in &paper.tables {
            assert!(
                table.citation().contains(&paper.year.to_string()),
                "{}",
                table.id
            );
            assert!(table.citation().contains(&table.place), "{}", table.id);
            assert!(
                !table.machine.is_empty() && !table.unit.is_empty(),
                "{}",
                table.id
            );
        }
    }
    assert_eq!(
        table("wolman-1994/table-2").map(Table::citation),
        Some(
            "Wolman, Voelker and Thekkath 1994, USENIX Winter 1994 Technical Conference, Table 2, section 2.2"
        )
    );
    assert_eq!(
        table("clark-1989/table-1").map(Table::citation),
        Some("Clark et al. 1989, IEEE Communications Magazine, June 1989, Table I, p. 27")
    );
}

#[test]
fn clark_counts() {
    for (id, expected) in [
        ("tcp-input-receiver", 186.0),
        ("tcp-input-sender-least", 191.0),
        ("tcp-input-sender-most", 213.0),
        ("tcp-output", 235.0),
        ("ip-input", 57.0),
        ("ip-output", 61.0),
        ("buffer-send", 40.0),
        ("buffer-receive", 35.0),
        ("buffer-ack", 30.0),
        ("timer-set", 35.0),
        ("timer-clear", 17.0),
        ("timer-reset", 41.0),
        ("tcb-lookup", 25.0),
    ] {
        assert_eq!(number(&format!("clark-1989/{id}")), expected, "{id}");
        assert_eq!(
            cell("clark-1989/operations", id, "instructions"),
            expected,
            "{id}"
        );
    }
    assert_eq!(number("clark-1989/costliest-path"), 335.0);
    assert_eq!(number("clark-1989/tcb-cache-hit-workstation"), 93.2);
    assert_eq!(number("clark-1989/tcb-cache-hit-mail-server"), 89.8);
    assert_eq!(
        cell("clark-1989/tcb-cache", "workstation", "packets"),
        353_238.0
    );
    assert_eq!(
        cell("clark-1989/tcb-cache", "mail-server", "connections"),
        2044.0
    );
    assert_eq!(
        cell("clark-1989/table-1", "network-memory-copy", "cost"),
        386.0
    );
}

#[test]
fn clark_paths_are_those_that_others_are_compared_with() {
    let clark = |id: &str| number(&format!("clark-1989/{id}"));
    let send = clark("tcp-output") + clark("ip-output") + clark("buffer-send") + clark("timer-set");
    assert_eq!(send, 371.0, "send path of about 370");
    let round_trip = 2.0 * (send + clark("costliest-path"));
    assert_eq!(round_trip, 1412.0, "round trip of about 1,400");
}

#[test]
fn clark_predictions_follow_from_their_inputs() {
    let clark = |id: &str| number(&format!("clark-1989/{id}"));
    let rate = clark("processor-rate") * 1e6 / clark("path-risc");
    assert_eq!(clark("predicted-packet-rate"), rate);
    assert_eq!(clark("predicted-packet-time"), 1e6 / rate);
    let throughput = rate * clark("predicted-packet-size") * 8.0 / 1e6;
    assert_eq!(clark("predicted-throughput"), throughput);
    let with_acks = throughput * clark("data-packets-in-three") / 3.0;
    assert!((clark("predicted-throughput-with-acks") - with_acks).abs() < 5.0);
    assert_eq!(
        clark("predicted-smallest-packet"),
        clark("fddi-bandwidth") * 1e6 / 8.0 / rate
    );
    let cycle = clark("memory-cycle") * 1e-9 * clark("memory-cycles-per-word");
    let limit = clark("memory-width") / cycle / 1e6;
    assert!((clark("predicted-memory-limit") - limit).abs() < 1e-6);
}

#[test]
fn wolman_cells() {
    assert_eq!(cell("wolman-1994/table-2", "tcp.mcopy", "20"), 5.7);
    assert_eq!(cell("wolman-1994/table-2", "total", "8000"), 2196.0);
    assert_eq!(cell("wolman-1994/table-3", "atm", "1400"), 363.0);
    assert_eq!(cell("wolman-1994/table-3", "total", "8000"), 3642.0);
    assert_eq!(cell("wolman-1994/table-6", "500", "saving"), -3.8);
    assert_eq!(number("wolman-1994/iterations"), 40_000.0);
    assert_eq!(number("wolman-1994/repetitions"), 3.0);
    let sizes: Vec<&str> = table("wolman-1994/table-2")
        .expect("transcribed")
        .columns
        .iter()
        .map(Column::label)
        .collect();
    assert_eq!(
        sizes,
        ["4", "20", "80", "200", "500", "1400", "4000", "8000"]
    );
}

#[test]
fn wolman_text_agrees_with_its_tables() {
    let round_trip = cell("wolman-1994/table-1", "4", "atm");
    let ethernet = cell("wolman-1994/table-1", "4", "ethernet");
    assert_eq!(
        number("wolman-1994/network-difference-4"),
        ethernet - round_trip
    );
    let waiting =
        cell("wolman-1994/table-3", "ipq", "4") + cell("wolman-1994/table-3", "wakeup", "4");
    assert_eq!(number("wolman-1994/scheduling-4"), waiting);
    let share = 100.0 * waiting / round_trip;
    assert!((number("wolman-1994/scheduling-share-4") - share).abs() < 0.05);
    for size in ["4", "20", "80", "200", "500", "1400", "4000", "8000"] {
        let atm = cell("wolman-1994/table-1", size, "atm");
        assert_eq!(
            cell("wolman-1994/table-4", size, "prediction"),
            atm,
            "{size}"
        );
        assert_eq!(cell("wolman-1994/table-6", size, "standard"), atm, "{size}");
        assert_eq!(cell("wolman-1994/table-7", size, "checksum"), atm, "{size}");
    }
    let gains = table("wolman-1994/table-4").expect("transcribed");
    let sum: f64 = gains
        .rows
        .iter()
        .filter_map(|row| gains.cell(&row.id, "decrease"))
        .sum();
    assert_eq!(number("wolman-1994/pcb-cache-gain"), sum / 8.0);
}

#[test]
fn kay_pasquale_foong_and_lehmann_benz_numbers() {
    assert_eq!(number("kay-pasquale-1996/lan-messages"), 139_720.0);
    for (protocol, before, after, improvement) in
        [("tcp", 17.0, 25.0, 47.0), ("udp", 19.0, 33.0, 74.0)]
    {
        let table = "kay-pasquale-1996/table-1";
        assert_eq!(cell(table, protocol, "ultrix"), before);
        assert_eq!(cell(table, protocol, "cra-plus"), after);
        assert_eq!(cell(table, protocol, "improvement"), improvement);
        assert_eq!(
            number(&format!("kay-pasquale-1996/throughput-{protocol}")),
            before
        );
        assert_eq!(
            number(&format!("kay-pasquale-1996/throughput-{protocol}-cra")),
            after
        );
        let shares = "kay-pasquale-1996/data-touching-share";
        for trace in ["lan", "wan"] {
            let fact = format!("kay-pasquale-1996/data-touching-{trace}-{protocol}");
            assert_eq!(number(&fact), cell(shares, trace, protocol));
        }
        let protspec = format!("kay-pasquale-1996/protspec-lan-{protocol}");
        assert_eq!(
            number(&protspec),
            cell("kay-pasquale-1996/protspec-share", "protspec", protocol)
        );
    }
    assert_eq!(
        cell("kay-pasquale-1996/data-touching-share", "lan", "udp"),
        40.0
    );
    assert_eq!(
        fact("kay-pasquale-1996/lan-tcp-small-share").map(|fact| fact.bound),
        Some(Bound::AtLeast)
    );
    assert_eq!(
        number("kay-pasquale-1996/fragmentation-size"),
        number("kay-pasquale-1996/fddi-mtu") - 40.0
    );
    assert_eq!(
        cell(
            "foong-2003/memory-transmit",
            "total",
            "beyond-cache-measured"
        ),
        5.6
    );
    assert_eq!(
        cell(
            "foong-2003/memory-receive",
            "total",
            "beyond-cache-measured"
        ),
        4.7
    );
    assert_eq!(number("foong-2003/throughput"), 900.0);
    assert_eq!(
        table("foong-2003/table-1").and_then(|table| table.cell("chipset", "memory")),
        None
    );
    let frame_time = 1e6 / number("lehmann-benz-2002/gigabit-packets");
    assert!((number("lehmann-benz-2002/gigabit-budget") - frame_time).abs() < 0.005);
    let packets =
        number("lehmann-benz-2002/gigabit-bytes") / number("lehmann-benz-2002/gigabit-frame");
    assert_eq!(number("lehmann-benz-2002/gigabit-packets"), packets.round());
    assert_eq!(
        number("lehmann-benz-2002/segment"),
        number("lehmann-benz-2002/mtu")
            - number("lehmann-benz-2002/ip-header")
            - number("lehmann-benz-2002/tcp-header")
    );
}

#[test]
fn doubts_are_kept_with_their_cells() {
    let receive = table("foong-2003/memory-receive").expect("transcribed");
    let doubted: Vec<(&str, &str)> = receive
        .doubts()
        .map(|(row, column, _)| (row.id.as_str(), column.id.as_str()))
        .collect();
    assert_eq!(
        doubted,
        [
            ("dma-writes", "beyond-cache-expected"),
            ("dma-writes", "beyond-cache-measured")
        ]
    );
    for table in tables() {
        assert!(
            table.doubts().all(|(_, _, why)| !why.is_empty()),
            "{}",
            table.id
        );
    }
}

#[test]
fn a_file_is_read_as_it_is_written() {
    let paper = Paper::parse(SMALL).expect("the sample is coherent");
    let table = &paper.tables[0];
    assert_eq!(table.citation(), "X 2000, V, Table 1");
    assert_eq!(table.machine, "M");
    assert_eq!(table.cell("q", "a"), Some(2.5));
    assert_eq!(
        table
            .content("q", "a")
            .and_then(|cell| cell.doubt.as_deref()),
        Some("smudged")
    );
    assert_eq!(
        table.content("p", "b").map(|cell| &cell.content),
        Some(&Content::NotApplicable)
    );
    assert_eq!(
        table.content("q", "b").map(|cell| &cell.content),
        Some(&Content::NotStated)
    );
    assert_eq!(table.cell("q", "b"), None);
    assert_eq!(table.cell("q", "c"), None);
    assert_eq!(table.unit_of("a"), Some("us"));
    assert_eq!(table.unit_of("b"), Some("%"));
    let closures = table.closures();
    assert_eq!(closures.len(), 1, "column b has a part that is not stated");
    assert_eq!(closures[0].deviation(), 0.0);
    assert_eq!(table.closes(), Some(true));
}

#[test]
fn incoherent_files_are_refused() {
    assert!(matches!(
        refused("year = 2000", "year = \"MM\""),
        LoadError::Syntax(_)
    ));
    assert!(matches!(refused("venue", "revenue"), LoadError::Syntax(_)));
    assert!(matches!(
        refused("smudged\"", "smudged\", by = 1"),
        LoadError::Syntax(_)
    ));
    assert!(matches!(
        refused("id = \"q\"", "id = \"p\""),
        LoadError::DuplicateId { .. }
    ));
    assert!(matches!(
        refused("{ id = \"b\"", "{ id = \"a\""),
        LoadError::DuplicateId { .. }
    ));
    assert!(matches!(
        refused("x-2000/t", "y-2000/t"),
        LoadError::ForeignTable { .. }
    ));
    assert!(matches!(
        refused("[3.5, 7]", "[3.5]"),
        LoadError::CellCount {
            expected: 2,
            found: 1,
            ..
        }
    ));
    assert!(matches!(
        refused("parent = \"total\"", "parent = \"sum\""),
        LoadError::UnknownName { .. }
    ));
    assert!(matches!(
        refused("quote = \"two\"", "quote = \"two\", inputs = [\"g\"]"),
        LoadError::UnknownName { .. }
    ));
    assert!(matches!(
        refused("kind = \"total\"", "parent = \"p\""),
        LoadError::NestingCycle { .. }
    ));
    assert!(matches!(
        refused("[3.5, 7]", "[nan, 7]"),
        LoadError::NotFinite { .. }
    ));
    assert!(matches!(
        refused("value = 2,", "value = inf,"),
        LoadError::NotFinite { .. }
    ));
}

#[test]
fn a_total_beyond_rounding_does_not_close() {
    let text = SMALL.replace("[3.5, 7]", "[4.7, 7]");
    let paper = Paper::parse(&text).expect("coherent, if wrong");
    let closure = paper.tables[0].closures()[0];
    assert!((closure.deviation() - 1.2).abs() < 1e-9);
    assert!(
        (closure.tolerance - 0.6).abs() < 1e-9,
        "half of 1, of 0.1 and of 0.1"
    );
    assert_eq!(paper.tables[0].closes(), Some(false));
}

#[test]
fn a_decrease_from_nothing_has_no_percentage() {
    assert_eq!(
        Measure::printed(0.0).decrease_percent(Measure::printed(1.0)),
        None
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,400}") {
        let _: Result<Paper, LoadError> = Paper::parse(&text);
    }

    #[test]
    fn a_damaged_file_is_read_or_refused(at in 0..SMALL.len(), with in "[ -~]{0,3}", cut in 0..4_usize) {
        let end = (at + cut).min(SMALL.len());
        let damaged = format!("{}{with}{}", &SMALL[..at], &SMALL[end..]);
        if let Ok(paper) = Paper::parse(&damaged) {
            for table in &paper.tables {
                prop_assert!(table.closures().iter().all(|closure| closure.tolerance >= 0.0));
            }
        }
    }

    #[test]
    fn the_printed_step_is_that_of_the_last_digit(whole in -100_000_i32..100_000, decimals in 0_i32..6) {
        let value: f64 = format!("{whole}e-{decimals}").parse().expect("a number");
        let step = printed_step(value);
        let finest = 10_f64.powi(-decimals);
        prop_assert!(step >= finest * 0.999, "{value}: {step}");
        let multiple = value / step;
        prop_assert!((multiple - multiple.round()).abs() < 1e-6, "{value}: {step}");
    }

    #[test]
    fn the_percentage_tolerance_covers_every_true_value(
        from in 10_u32..100_000,
        to in 1_u32..100_000,
        down in -0.5_f64..0.5,
        up in -0.5_f64..0.5,
    ) {
        let (printed_from, printed_to) = (f64::from(from), f64::from(to));
        let computed = Measure::printed(printed_from)
            .decrease_percent(Measure::printed(printed_to))
            .expect("not from zero");
        let true_from = printed_from + down;
        let truth = 100.0 * (true_from - printed_to - up) / true_from;
        let second_order = 1.0 + 2.0 / printed_from;
        prop_assert!((truth - computed.value).abs() <= computed.half_step * second_order + 1e-9);
    }
}

#[test]
fn sources_are_read_from_the_papers() {
    let source = source("wolman-1994/table-1").unwrap();
    assert_eq!(
        source.to_string(),
        "Wolman, Voelker and Thekkath 1994, Table 1, section 2.1"
    );
}

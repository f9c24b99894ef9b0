//! `wolman-errors`: which errors pass CRC-10, CRC-32 and the Internet checksum, by where they happen (Wolman, Voelker and Thekkath
//! 1994, section 4.2.1).
//!
//! It owns the tables and their words; the errors are made and judged in [`tollgate_workload::errors`]. It measures no time.

use std::time::{Duration, Instant};

use tollgate_papers as papers;
use tollgate_run::{Cell, Column, Measured, Row, Source, Table, TrustLine, Unit, format, present};
use tollgate_workload::errors::{
    self, Aal, Case, Chance, Counts, Damage, FaultSite, Frames, Handed, IN_MEMORY, Payload,
};

use super::{Content, Experiment, Reported};
use crate::claim::{Finding, FindingText};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::layout;

const PAPER: &str = "wolman-1994";
const SECTION: &str = "4.2.1";
/// Errors of each table unless `--iterations` says otherwise: some ten thousand of each row.
const ERRORS: u64 = 300_000;
/// The seeds, of which each makes as many errors as the others.
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// Errors between two looks at the clock.
const CHUNK: u64 = 2_000;
/// The tables of errors by adaptation layer.
const LAYERS: [(Aal, &str, &str); 2] =
    [(Aal::Aal34, "aal34", "AAL3/4"), (Aal::Aal5, "aal5", "AAL5")];

/// Errors and the checks that find them.
pub(super) struct WolmanErrors;

impl Experiment for WolmanErrors {
    fn name(&self) -> &'static str {
        "wolman-errors"
    }

    fn title(&self) -> &'static str {
        "Errors that pass CRC and checksum"
    }

    fn paper(&self) -> Option<Source> {
        papers::paper(PAPER).map(|paper| papers::source_at(paper, &format!("section {SECTION}")))
    }

    fn summary(&self) -> &'static str {
        "errors in link, switch, adapter and gateway: how many pass CRC-10, CRC-32, the Internet checksum, both"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        0
    }

    /// The errors are the same on every path.
    fn command(&self, options: &Options) -> String {
        let options = Options {
            iterations: options.iterations,
            ..Options::default()
        };
        layout::command(self.name(), &options)
    }

    fn measure(&self, context: &mut Context<'_>, _: &str) -> Result<Content, Error> {
        let injected = Injected::all(context)?;
        let mut tables: Vec<Table> = LAYERS
            .iter()
            .map(|&layer| layer_table(&injected, layer))
            .collect();
        tables.push(payload_table(&injected));
        tables.push(application_table(&injected.handed));
        Ok(Content {
            finding: finding(&injected),
            tables,
            figures: Vec::new(),
            trust: trust(&injected),
        })
    }
}

/// All that was injected.
struct Injected {
    /// By case, AAL3/4 first.
    counts: Vec<(Case, [Counts; LAYERS.len()])>,
    handed: Vec<(Damage, Handed)>,
    /// Tells whether time ran out, or somebody stopped it.
    cut_short: bool,
}

impl Injected {
    /// Injects errors of every case, and damages frames for a stack.
    fn all(context: &Context<'_>) -> Result<Self, Error> {
        let total = context.options.iterations.unwrap_or(ERRORS);
        let cases = errors::cases();
        let mut frames = Vec::new();
        for seed in SEEDS {
            frames.push(Frames::make(seed).map_err(refused)?);
        }
        let parts = cases.len() * LAYERS.len() + IN_MEMORY.len();
        let mut pace = Pace::new(context, parts);
        let mut counts = Vec::new();
        for (at, &case) in cases.iter().enumerate() {
            let each = share(total, cases.len(), at);
            let by_layer = LAYERS.map(|(aal, _, name)| {
                pace.next(&format!("{name}, {}: {}", case.place, case.damage));
                tried(&frames, case, aal, each, &pace)
            });
            counts.push((case, by_layer));
        }
        let mut handed = Vec::new();
        for (at, &damage) in IN_MEMORY.iter().enumerate() {
            pace.next(&format!("a stack: {damage}"));
            let each = share(total, IN_MEMORY.len(), at);
            let seed = SEEDS[at % SEEDS.len()];
            let got =
                errors::application(damage, each, seed, || pace.goes_on()).map_err(refused)?;
            handed.push((damage, got));
        }
        Ok(Self {
            counts,
            handed,
            cut_short: !pace.goes_on(),
        })
    }

    /// The counts of cases that are wanted, in one layer.
    fn sum(&self, layer: usize, wanted: impl Fn(&Case) -> bool) -> Counts {
        let all = self.counts.iter().filter(|(case, _)| wanted(case));
        all.fold(Counts::default(), |sum, (_, by_layer)| {
            sum.plus(&by_layer[layer])
        })
    }
}

fn refused(error: tollgate_workload::Error) -> Error {
    Error::Workload(error)
}

/// The part of `total` that is number `at` of `parts`.
const fn share(total: u64, parts: usize, at: usize) -> u64 {
    let (parts, at) = (parts as u64, at as u64);
    total / parts + (at < total % parts) as u64
}

/// Says how far it is, and when it must end.
struct Pace<'a> {
    context: &'a Context<'a>,
    begun: Instant,
    ends: Option<Instant>,
    parts: usize,
    done: usize,
}

impl<'a> Pace<'a> {
    fn new(context: &'a Context<'a>, parts: usize) -> Self {
        let begun = Instant::now();
        Self {
            context,
            begun,
            ends: context.remaining().map(|left| begun + left),
            parts,
            done: 0,
        }
    }

    /// Begins the next part.
    fn next(&mut self, what: &str) {
        let left = match self.done {
            0 => Duration::from_secs(10),
            done => self
                .begun
                .elapsed()
                .mul_f64((self.parts - done) as f64 / done as f64),
        };
        self.context.tell(what, left);
        self.done += 1;
    }

    fn goes_on(&self) -> bool {
        !self.context.cancel.is_raised() && self.ends.is_none_or(|ends| Instant::now() < ends)
    }
}

/// About `count` errors of one case, by all seeds alike.
fn tried(frames: &[Frames], case: Case, aal: Aal, count: u64, pace: &Pace<'_>) -> Counts {
    let mut sum = Counts::default();
    for (at, (frames, seed)) in frames.iter().zip(SEEDS).enumerate() {
        let own = share(count, SEEDS.len(), at);
        let mut done = 0;
        while done < own && pace.goes_on() {
            let chunk = CHUNK.min(own - done);
            // Each chunk has random numbers of its own.
            let seed = (seed << 32) + done / CHUNK;
            sum = sum.plus(&errors::try_case(frames, case, aal, chunk, seed));
            done += chunk;
        }
    }
    sum
}

fn count(value: u64) -> Cell {
    Cell::exact(value as f64)
}

fn column(name: &str, unit: Unit) -> Column {
    Column {
        name: name.to_owned(),
        unit,
    }
}

/// Expected count of errors that pass, by theory.
fn expected(chance: Chance, injected: u64) -> Cell {
    Cell::text(match chance {
        Chance::Never => "none".to_owned(),
        Chance::Always => "all".to_owned(),
        Chance::Unknown => "depends on the data".to_owned(),
        Chance::OneIn(many) => {
            let mean = injected as f64 / many as f64;
            format!(
                "1 in {}: {}",
                format::whole(many),
                format::significant(mean)
            )
        }
    })
}

/// The paper on a place, in its own words.
const fn says(place: FaultSite) -> &'static str {
    match place {
        FaultSite::Link => {
            "paper: errors that \"are theoretically not detectable by the CRC\", rarer on quiet fibre"
        }
        FaultSite::Switch => "paper: \"not a problem since AAL payload checksums are end-to-end\"",
        FaultSite::Adapter => {
            "paper: \"a potential problem\", of a \"buggy network controller\"; \"parity or ECC\" would mend it"
        }
        FaultSite::Gateway => {
            "paper: \"can be eliminated\" by leaving the checksum out \"only for local-area traffic\""
        }
    }
}

/// Errors by place, and what passes with one adaptation layer.
fn layer_table(injected: &Injected, (aal, id, name): (Aal, &str, &str)) -> Table {
    let crc = match aal {
        Aal::Aal34 => "CRC-10",
        Aal::Aal5 => "CRC-32",
    };
    let layer = LAYERS.iter().position(|(known, ..)| *known == aal);
    let layer = layer.unwrap_or_default();
    let mut rows = Vec::new();
    for &place in FaultSite::ALL {
        rows.push(Row {
            note: Some(says(place).to_owned()),
            ..present::plain_row(place.name(), Vec::new())
        });
        for (case, counts) in injected
            .counts
            .iter()
            .filter(|(case, _)| case.place == place)
        {
            let counts = &counts[layer];
            let cells = vec![
                count(counts.injected),
                count(counts.crc),
                count(counts.layer),
                count(counts.checksum),
                count(counts.both),
                expected(case.passes_crc(aal), counts.injected),
                expected(case.passes_checksum(aal), counts.injected),
            ];
            rows.push(Row {
                depth: 1,
                ..present::plain_row(case.damage.name(), cells)
            });
        }
    }
    Table {
        id: id.to_owned(),
        title: format!("Errors over {name}, and how many pass"),
        columns: vec![
            column("injected", Unit::Count),
            column(&format!("pass {crc}"), Unit::Count),
            column(&format!("pass {name}"), Unit::Count),
            column("pass checksum, no CRC", Unit::Count),
            column(&format!("pass {name} and checksum"), Unit::Count),
            column(&format!("theory: {crc}"), Unit::None),
            column("theory: checksum", Unit::None),
        ],
        rows,
    }
}

/// The share of a part in hundredths.
fn percent(part: u64, whole: u64) -> Cell {
    if whole == 0 {
        return Cell::NotAvailable {
            reason: "no error of this kind changed anything".to_owned(),
        };
    }
    Cell::Value(Measured {
        value: 100.0 * part as f64 / whole as f64,
        n: Some(whole),
        ..Measured::default()
    })
}

/// Errors where no CRC covers data.
fn is_uncovered(case: &Case) -> bool {
    matches!(case.place, FaultSite::Adapter | FaultSite::Gateway)
}

/// Table of damage that passes the Internet checksum, by what frames carry.
fn payload_table(injected: &Injected) -> Table {
    let row = |&damage: &Damage| {
        let of = |case: &Case| case.damage == damage && is_uncovered(case);
        let counts = injected.sum(0, of).plus(&injected.sum(1, of));
        let cells = counts.checksum_by.iter().zip(counts.injected_by);
        let cells = cells.map(|(&passed, injected)| percent(passed, injected));
        present::plain_row(damage.name(), cells.collect())
    };
    Table {
        id: "payload".to_owned(),
        title: "Errors in memory that pass the Internet checksum, by payload".to_owned(),
        columns: Payload::ALL
            .iter()
            .map(|payload| column(payload.name(), Unit::Percent))
            .collect(),
        rows: IN_MEMORY.iter().map(row).collect(),
    }
}

/// Table of the data that an application reads when frames are damaged in memory.
fn application_table(handed: &[(Damage, Handed)]) -> Table {
    let row = |(damage, handed): &(Damage, Handed)| {
        let cells = vec![
            count(handed.injected),
            count(handed.seen),
            count(handed.unseen),
            count(handed.wrong_unseen),
            count(handed.wrong_seen),
            count(handed.connections),
        ];
        present::plain_row(damage.name(), cells)
    };
    Table {
        id: "application".to_owned(),
        title: "Damaged frames for Tollgate's stack with checksums on".to_owned(),
        columns: vec![
            column("frames", Unit::Count),
            column("checksum fails", Unit::Count),
            column("checksum holds", Unit::Count),
            column("wrong bytes read, checksum holds", Unit::Count),
            column("wrong bytes read, checksum fails", Unit::Count),
            column("connections opened anew", Unit::Count),
        ],
        rows: handed.iter().map(row).collect(),
    }
}

/// Errors that change the order of words and nothing else.
const fn is_swap(damage: Damage) -> bool {
    matches!(damage, Damage::SwappedWords | Damage::DistantWords)
}

fn share_words(part: u64, whole: u64) -> String {
    format!(
        "{} %",
        format::significant(100.0 * part as f64 / whole.max(1) as f64)
    )
}

fn finding(injected: &Injected) -> FindingText {
    let mut finding = Finding::default();
    let [aal34, aal5] = [0, 1].map(|layer| injected.sum(layer, |case| !is_uncovered(case)));
    let passed = |counts: &Counts| match counts.both {
        0 => "none".to_owned(),
        both => format::whole(both),
    };
    finding.say(format!(
        "of errors on the link and in a switch {} passed AAL5 and the Internet checksum together, {} of {} AAL3/4",
        passed(&aal5),
        passed(&aal34),
        format::whole(aal34.injected)
    ));
    let both = |swaps: bool| {
        let of = |case: &Case| is_uncovered(case) && is_swap(case.damage) == swaps;
        injected.sum(0, of).plus(&injected.sum(1, of))
    };
    let (swapped, others) = (both(true), both(false));
    finding.say(format!(
        "no CRC covers errors in adapters and gateways, and {} of swapped words pass the Internet checksum there, {} of all others",
        share_words(swapped.checksum, swapped.injected),
        share_words(others.checksum, others.injected)
    ));
    let all = |of: fn(&Handed) -> u64| injected.handed.iter().map(|(_, one)| of(one)).sum::<u64>();
    finding.say(format!(
        "of {} damaged frames an application read wrong bytes from {} that the checksum cannot see and {} that it can",
        format::whole(all(|one| one.injected)),
        format::whole(all(|one| one.wrong_unseen)),
        format::whole(all(|one| one.wrong_seen))
    ));
    finding.finish()
}

fn trust(injected: &Injected) -> Vec<TrustLine> {
    let mut lines = vec![
        present::note(format!(
            "frames are those of a connection between two of Tollgate's stacks, with payloads of 16, 200, 1,400 and 8,000 bytes, a \
             third each random, zeros and text; seeds {} give the same numbers again",
            format::list(&SEEDS.map(|seed| seed.to_string()))
        )),
        present::note(
            "an error counts when it changes something; it passes when a packet comes out that was not sent. \"pass CRC\" also asks the \
             header error control of each cell; \"pass checksum, no CRC\" leaves sequence numbers, tags and lengths on",
        ),
        present::note(
            "theory is for random data: zeroed blocks and splices among zeros or text come out otherwise; swapped words that touch a \
             header are found by lengths and ports",
        ),
        present::note(
            "AAL3/4 lets cells 16 apart change places: their sequence numbers are the same, each CRC-10 goes with its cell, and a sum does \
             not know the order of words",
        ),
    ];
    for fact in ["checksum-errors-wide", "checksum-errors-local"] {
        let fact = papers::fact(&format!("{PAPER}/{fact}"));
        lines.extend(fact.map(|fact| {
            present::note(format!(
                "Wolman et al., section {}, on their Ethernet: \"{}\"",
                fact.place, fact.quote
            ))
        }));
    }
    let wrong: u64 = injected.handed.iter().map(|(_, one)| one.wrong_seen).sum();
    if wrong > 0 {
        lines.push(present::warning(format!(
            "an application read wrong bytes {}, from frames whose checksum fails: a defect of the stack",
            format::counted(wrong, "time", "times")
        )));
    }
    if injected.cut_short {
        lines.push(present::warning(
            "it was stopped before all errors were injected; the counts are those of what was",
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    fn shown(iterations: u64) -> tollgate_run::Experiment {
        let options = Options {
            iterations: Some(iterations),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        WolmanErrors.run(&mut context).unwrap()
    }

    #[test]
    fn tables_hold_every_error_and_no_defect() {
        let shown = shown(2_800);
        let [aal34, aal5, payload, application] = shown.tables.as_slice() else {
            panic!("four tables");
        };
        let rows = errors::cases().len() + FaultSite::ALL.len();
        assert_eq!((aal34.rows.len(), aal5.rows.len()), (rows, rows));
        for row in aal5.rows.iter().filter(|row| row.depth == 1) {
            assert!(row.cells[0].number().unwrap() > 50.0, "{}", row.label);
        }
        let swapped = payload
            .rows
            .iter()
            .find(|row| row.label.contains("neighbouring"));
        assert!(swapped.unwrap().cells[0].number().unwrap() > 80.0);
        let column = |at: usize| -> f64 {
            let cells = application.rows.iter().map(|row| row.cells[at].number());
            cells.map(Option::unwrap).sum()
        };
        assert_eq!((column(0), column(4)), (2_800.0, 0.0));
        assert_eq!(column(1) + column(2), 2_800.0);
        assert!(shown.finding.contains("that it can"), "{}", shown.finding);
        assert!(shown.trust.iter().all(|line| line.holds));
        assert!(
            shown.command.ends_with("wolman-errors --iterations 2800"),
            "{}",
            shown.command
        );
        assert!(
            shown
                .trust
                .iter()
                .any(|line| line.text.contains("no checksum errors"))
        );
    }

    #[test]
    fn shares_of_a_whole_add_up() {
        for (total, parts) in [(10, 3), (300_000, 28), (5, 8)] {
            let sum: u64 = (0..parts).map(|at| share(total, parts, at)).sum();
            assert_eq!(sum, total);
        }
    }

    #[test]
    fn a_run_out_of_time_says_so() {
        let cancel = Cancel::default();
        cancel.raise();
        let mut context = Context::new(Options::default(), None, cancel, &Silent);
        let shown = WolmanErrors.run(&mut context).unwrap();
        assert!(
            shown
                .trust
                .iter()
                .any(|line| !line.holds && line.text.contains("stopped"))
        );
    }
}

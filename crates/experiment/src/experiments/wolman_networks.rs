//! `wolman-networks`: round trips over the kernel's networks, and of Tollgate's stacks over Ethernet and over cells of ATM, by the size
//! of the message, and what the second saves of the first; after Wolman, Voelker and Thekkath 1994, Table 1.

use tollgate_papers as papers;
use tollgate_run::{
    Cell, Interval, Measured, Mode, PathId, Row, Source, Table, Unit, Workload, format, present,
};
use tollgate_workload::LinkKind;

use super::rr_by_size::{published_lines, published_ns, published_table};
use super::{Content, Experiment, Reported, Uses, remote_tables};
use crate::claim::{Claim, Evidence, Finding, Refusal};
use crate::compare;
use crate::context::{Context, ITERATIONS, Options, REPETITIONS, SIZES};
use crate::error::Error;
use crate::interleave::{self, Matrix, Variant};
use crate::layout;
use crate::ledgers;
use crate::outcome::{Figure, Outcome};

const TABLE: &str = "wolman-1994/table-1";
/// The part of the time that the ledgers of two hosts take, where there are two.
const HOSTS_SHARE: f64 = 0.5;
/// The networks unless the user names others.
const NETWORKS: [PathId; 2] = [PathId::KernelLoopback, PathId::KernelVeth];

/// Our stack with Linux at the other end, where it is named: a session makes devices and namespaces.
const BESIDE_LINUX: [PathId; 3] = [PathId::StackTap, PathId::StackPacket, PathId::StackXdp];

/// The paths whose link is Ethernet or ATM, as it is asked for.
const STACKS: [PathId; 2] = [PathId::StackMemory, PathId::StackShm];
/// The paper's networks: its adapter had AAL3/4 (section 1.1).
const LINKS: [LinkKind; 2] = [LinkKind::Ethernet, LinkKind::AtmAal34];

/// Round trips by network.
pub(super) struct WolmanNetworks;

impl Experiment for WolmanNetworks {
    fn name(&self) -> &'static str {
        "wolman-networks"
    }

    fn title(&self) -> &'static str {
        "Round trips by network"
    }

    fn paper(&self) -> Option<Source> {
        papers::source(TABLE)
    }

    fn summary(&self) -> &'static str {
        "kernel sockets over loopback and veth, our stacks over Ethernet and ATM cells, beside Ethernet and ATM of 1994"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet { but: &[] }
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        options.wants_any(&NETWORKS)
            || options.wants_any(&STACKS)
            || options.wants_any(&BESIDE_LINUX)
            || remote_mode(options).is_some()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let wanted = context.options.paths.clone();
        let stacks = of_stacks(&context.options);
        match &mut context.options.paths {
            Some(paths) => paths.retain(|path| !STACKS.contains(path)),
            none => *none = Some(NETWORKS.to_vec()),
        }
        // First, since round trips take what time is left.
        let hosts = match remote_mode(&context.options) {
            Some(mode) => {
                match ledgers::of_hosts(self.name(), mode, &sizes, HOSTS_SHARE, context) {
                    Err(Error::Stopped) => return Err(Error::Stopped),
                    hosts => Some(hosts),
                }
            }
            None => None,
        };
        let outcome = match (Matrix::of(Workload::Rr, context), stacks.is_empty()) {
            (Err(Error::NothingToRun { .. }), false) => Ok(Matrix {
                workload: Workload::Rr,
                variants: Vec::new(),
                unavailable: Vec::new(),
            }),
            (matrix, _) => matrix,
        }
        .and_then(|mut matrix| {
            matrix.variants.extend(stacks);
            interleave::run(self.name(), matrix, &sizes, context)
        });
        context.options.paths = wanted;
        let outcome = outcome?;
        let table = layout::table_by_size(
            "networks",
            "Round trip, median",
            Unit::Nanoseconds,
            &outcome,
            Figure::Median,
        );
        let figure = layout::lines_by_size(
            "Round trip by network over the size of the message, each way",
            "Size of the message",
            ("Round trip, median", Unit::Nanoseconds),
            &outcome,
            Figure::Median,
            published_lines(&sizes),
            command,
        );
        let pairs = pairs(&outcome);
        let mut trust = layout::trust(
            &outcome,
            context.options.iterations.unwrap_or(ITERATIONS),
            context.options.repetitions.unwrap_or(REPETITIONS),
            "round trips",
        );
        if outcome
            .matrix
            .variants
            .iter()
            .any(|one| one.path != PathId::KernelRemote)
        {
            trust.push(present::note(
                "a stack's link over ATM cuts packets into cells of AAL3/4 and puts them together again, in memory; its MTU is that of the \
                 adapter's driver, 9,188 (the paper says 9K), and its cost is that of cells without a wire",
            ));
            trust.push(present::note(
                "the paper's networks are two machines and a wire; but for kernel-remote both ends are on one machine, and no wire is \
                 between them",
            ));
        }
        if !context.options.wants_any(&BESIDE_LINUX) {
            trust.push(present::note(format!(
"{} are left out, since each of their sessions makes devices and namespaces: --path names them, and links compares them",
                format::list(&BESIDE_LINUX.map(|path| path.to_string()))
            )));
        }
        let mut finding = Finding::default();
        let (mut tables, mut figures) = (vec![table], vec![figure]);
        tables.extend((!pairs.is_empty()).then(|| savings(&outcome, &pairs)));
        match &hosts {
            Some(Ok(ledgers)) => {
                if let Some(shown) = remote_tables::RemoteTables::of(ledgers) {
                    tables.extend([shown.table(), shown.ways()]);
                    figures.extend(shown.figure(command));
                    trust.extend(shown.trust());
                    shown.say(&mut finding);
                }
            }
            Some(Err(error)) => trust.push(present::warning(format!(
                "where the time of kernel-remote goes is left out: {error}"
            ))),
            None => {}
        }
        if finding.is_empty() {
            say(&outcome, kernel_pair(&outcome), &mut finding);
        }
        tables.extend(published_table(&sizes));
        Ok(Content {
            finding: finding.finish(),
            tables,
            figures,
            trust,
        })
    }
}

/// The mode of the path to another host, when there is one and it is wanted.
fn remote_mode(options: &Options) -> Option<Mode> {
    let path = PathId::KernelRemote;
    let capabilities = options.capabilities(path).filter(|_| options.wants(path))?;
    options.modes(&capabilities).first().copied()
}

/// Tollgate's stacks over each link, where the options want them, in the first of their modes that fits.
fn of_stacks(options: &Options) -> Vec<Variant> {
    let wanted = STACKS.into_iter().filter(|&path| options.wants(path));
    let modes = wanted.filter_map(|path| {
        let capabilities = options.capabilities(path)?;
        Some((path, options.modes(&capabilities).first().copied()?))
    });
    modes
        .flat_map(|(path, mode)| {
            LINKS.map(|link| Variant {
                link: Some(link),
                ..Variant::new(path, mode)
            })
        })
        .collect()
}

/// Two variants that differ in the network only, of the kernel and of each stack.
fn pairs(outcome: &Outcome) -> Vec<(usize, usize)> {
    let variants = &outcome.matrix.variants;
    let over = |path, link| {
        let is = |one: &Variant| one.path == path && one.link == Some(link);
        variants.iter().position(is)
    };
    let of_stacks = STACKS
        .iter()
        .filter_map(|&path| over(path, LINKS[0]).zip(over(path, LINKS[1])));
    kernel_pair(outcome).into_iter().chain(of_stacks).collect()
}

/// Two variants that run in the same way on the kernel's two networks: the first such pair.
fn kernel_pair(outcome: &Outcome) -> Option<(usize, usize)> {
    let variants = &outcome.matrix.variants;
    let on = |path| move |at: &usize| variants[*at].path == path;
    (0..variants.len())
        .filter(on(NETWORKS[0]))
        .find_map(|first| {
            let second = (0..variants.len())
                .filter(on(NETWORKS[1]))
                .find(|&second| variants[second].mode == variants[first].mode)?;
            Some((first, second))
        })
}

/// Savings of a round trip over the second network against one over the first; the paper's row is its own percentage decrease.
fn savings(outcome: &Outcome, pairs: &[(usize, usize)]) -> Table {
    let variants = &outcome.matrix.variants;
    let cell = |first, second, at| match outcome.ratio(second, first, at, Figure::Median) {
        Some(ratio) => Cell::Value(Measured {
            value: 100.0 * (1.0 - ratio.value),
            ci: Some(Interval {
                low: 100.0 * (1.0 - ratio.interval.high),
                high: 100.0 * (1.0 - ratio.interval.low),
            }),
            n: Some(ratio.n),
            ..Measured::default()
        }),
        None => Cell::NotAvailable {
            reason: "one of the two was not measured often enough".to_owned(),
        },
    };
    let mut rows: Vec<Row> = pairs
        .iter()
        .map(|&(first, second)| {
            let cells = (0..outcome.sizes.len()).map(|at| cell(first, second, at));
            let label = match variants[second].link {
                Some(link) => format!("{}, {link} of {}", variants[second].path, LINKS[0]),
                None => format!("{} of {}", variants[second].label(), variants[first].path),
            };
            present::plain_row(label, cells.collect())
        })
        .collect();
    if let Some((table, source)) = papers::table(TABLE).zip(papers::source(TABLE)) {
        let then = outcome.sizes.iter().map(|&size| {
            present::published_cell(table.cell(&size.to_string(), "decrease"), &source)
        });
        rows.push(present::plain_row("ATM of Ethernet, 1994", then.collect()));
    }
    Table {
        id: "savings".to_owned(),
        title: "What a round trip over the second network saves of one over the first".to_owned(),
        columns: present::size_columns(&outcome.sizes, Unit::Percent),
        rows,
    }
}

fn say(outcome: &Outcome, pair: Option<(usize, usize)>, finding: &mut Finding) {
    let Some(((first, second), &size)) = pair.zip(outcome.sizes.first()) else {
        if !outcome
            .matrix
            .variants
            .iter()
            .any(|one| NETWORKS.contains(&one.path))
        {
            return say_of_stacks(outcome, finding);
        }
        let why = Refusal::NotMeasured("one of them was not measured".to_owned());
        return finding.refuse("how the two networks compare", &why);
    };
    let what = format!("a {}-byte round trip", format::whole(size as u64));
    let cell = outcome.cell(first, 0, Figure::Median);
    let takes = Evidence::of(&cell).and_then(Evidence::amount);
    if let Some(takes) = finding.claim(format!("{what} over kernel-loopback"), takes) {
        finding.say(format!(
            "{what} over kernel-loopback takes {}",
            takes.duration()
        ));
    }
    let between = format!("{what} over kernel-veth against kernel-loopback");
    let ratio = compare::ratio(outcome, second, first, 0, Figure::Median);
    if let Some(ratio) = finding.claim(between, ratio) {
        let then = published_ns(size, "atm")
            .zip(published_ns(size, "ethernet"))
            .map(|(atm, ethernet)| {
                format!(
                    " (1994: ATM {} than Ethernet)",
                    format::speed(atm / ethernet)
                )
            });
        let compared = match ratio.speed() {
            Some(speed) => format!("kernel-veth is {speed} than kernel-loopback"),
            None => "kernel-veth and kernel-loopback show no difference".to_owned(),
        };
        finding.say(format!("{compared}{}", then.unwrap_or_default()));
    }
    say_of_stacks(outcome, finding);
}

/// Says what cells cost each stack at the first size.
fn say_of_stacks(outcome: &Outcome, finding: &mut Finding) {
    let Some(&size) = outcome.sizes.first() else {
        return;
    };
    let mut words = Vec::new();
    for (first, second) in pairs(outcome) {
        let variants = &outcome.matrix.variants;
        let (path, Some(_)) = (variants[second].path, variants[second].link) else {
            continue;
        };
        let ratio = compare::ratio(outcome, second, first, 0, Figure::Median);
        let what = format!("ATM against Ethernet on {path}");
        if let Some(amount) = finding.comparison(what, ratio, Claim::amount_against) {
            words.push(format!("{amount} on {path}"));
        }
    }
    if !words.is_empty() {
        finding.say(format!(
            "over cells of ATM a {}-byte round trip of our stack takes, against Ethernet, {}",
            format::whole(size as u64),
            format::list(&words)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn stacks_are_told_over_cells_and_the_papers_row_stands_below() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            sizes: Some(vec![4, 500]),
            iterations: Some(64),
            repetitions: Some(2),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let content = WolmanNetworks.measure(&mut context, "command").unwrap();
        let networks = &content.tables[0];
        assert!(networks.rows[1].label.ends_with("link atm-aal34"));
        let savings = &content.tables[1];
        assert_eq!(savings.rows[0].label, "stack-memory, atm-aal34 of ethernet");
        let numbers = |row: usize| -> Vec<Option<f64>> {
            savings.rows[row].cells.iter().map(Cell::number).collect()
        };
        assert!(numbers(0).iter().all(Option::is_some));
        // As printed: 2,140 of 4,101 is 47.8 % less.
        assert_eq!(numbers(1), [Some(47.0), Some(47.0)]);
        assert_eq!(context.options.paths, Some(vec![PathId::StackMemory]));
    }

    #[test]
    fn only_what_is_asked_for_is_run() {
        let of = |paths: Option<Vec<PathId>>| {
            let options = Options {
                paths,
                ..Options::default()
            };
            of_stacks(&options).len()
        };
        assert_eq!(of(None), 4);
        assert_eq!(of(Some(vec![PathId::StackShm])), 2);
        assert_eq!(of(Some(vec![PathId::KernelVeth])), 0);
    }
}

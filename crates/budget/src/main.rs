//! `tollgate-budget`: counts instructions by Callgrind and holds them against budgets; shows where they are spent.
//!
//! `check` is what `make budget` runs. `scenario` is what it runs under Callgrind, and `profile` shows
//! where a scenario's instructions are spent.

use clap::{Parser, Subcommand};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use tollgate_budget::budgets::Budgets;
use tollgate_budget::rows::{self, ROWS};
use tollgate_budget::scenario::{self, SCENARIOS};
use tollgate_budget::table::{self, Align, number};
use tollgate_budget::valgrind::{Program, scenario_output};
use tollgate_budget::{clark, without_gates};

#[derive(Parser)]
#[command(
    name = "tollgate-budget",
    about = "Counts instructions by Callgrind and holds them against budgets"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Count every row and hold it against its bar and its budget; exit code 1 when a budget is exceeded
    Check {
        /// The budgets file
        #[arg(long, default_value = "crates/budget/budgets.toml")]
        budgets: PathBuf,
        /// Print JSON instead of the table
        #[arg(long)]
        json: bool,
        /// A build of this program from a stack without the recorder's calls: exit code 1 when a
        /// round trip takes more here by more than the tolerance
        #[arg(long, value_name = "PROGRAM")]
        without_gates: Option<PathBuf>,
    },
    /// Count every row and write the values as budgets
    Record {
        /// The budgets file
        #[arg(long, default_value = "crates/budget/budgets.toml")]
        budgets: PathBuf,
    },
    /// Run a scenario, to be counted by Callgrind; prints what it did
    Scenario {
        /// Its name
        name: String,
        /// Operations; left out, as many as the table counts
        operations: Option<u64>,
        /// The same
        #[arg(long, conflicts_with = "operations")]
        count: Option<u64>,
        /// Bytes of a message, for the scenario that has several sizes
        #[arg(value_delimiter = ',', requires = "operations")]
        sizes: Vec<usize>,
    },
    /// Count one scenario
    Count {
        /// Its name; left out, every scenario is counted
        name: Option<String>,
    },
    /// Count one scenario function by function
    Profile {
        /// Its name
        name: String,
        /// Operations; left out, as many as the table counts, at most 2,000
        #[arg(long)]
        count: Option<u64>,
        /// Functions to show
        #[arg(long, default_value_t = 30)]
        top: usize,
    },
    /// Count the parts of a packet's way as Clark et al. (1989) did
    Clark {
        /// Print JSON instead of the table
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("tollgate-budget: {error}");
            ExitCode::from(1)
        }
    }
}

/// Runs a command; false when a budget is exceeded.
fn run(command: Command) -> Result<bool, Box<dyn Error>> {
    match command {
        Command::Check {
            budgets,
            json,
            without_gates,
        } => check(&budgets, json, without_gates),
        Command::Record { budgets } => record(&budgets),
        Command::Scenario {
            name,
            operations,
            count,
            sizes,
        } => {
            let count = match operations.or(count) {
                Some(count) => count,
                None => scenario::find(&name)?.count,
            };
            println!("{}", scenario_output(&name, count, &sizes)?);
            Ok(true)
        }
        Command::Count { name } => {
            let program = this()?;
            let pair = program.pair_cost()?;
            for scenario in SCENARIOS
                .iter()
                .filter(|one| name.as_deref().is_none_or(|name| name == one.name))
            {
                let counts = program.count(scenario.name, scenario.count)?;
                println!(
                    "{:22} {:>10.2}  {}",
                    scenario.name,
                    counts.per_operation(pair),
                    scenario.about
                );
            }
            Ok(true)
        }
        Command::Profile { name, count, top } => profile(&name, count, top),
        Command::Clark { json } => clark_table(json),
    }
}

/// This program, to be run on its scenarios.
fn this() -> Result<Program, tollgate_budget::Error> {
    Program::this(["scenario"])
}

fn check(
    path: &std::path::Path,
    json: bool,
    without: Option<PathBuf>,
) -> Result<bool, Box<dyn Error>> {
    let budgets = Budgets::read(path)?;
    let program = this()?;
    let values = rows::measure_all(&program, ROWS)?;
    let check = table::check(ROWS, &values, &budgets);
    let gates = without
        .map(|other| without_gates::compare(&program, &other))
        .transpose()?;
    if json {
        println!(
            "{}",
            serde_json::to_string_pretty(
                &serde_json::json!({ "check": check, "gates_off": gates })
            )?
        );
    } else {
        println!("{}", check.table());
        if let Some(gates) = &gates {
            println!("{gates}");
        }
        println!("{}", check.verdict());
    }
    Ok(check.passed && gates.is_none_or(|gates| gates.within(budgets.tolerance_percent)))
}

fn record(path: &std::path::Path) -> Result<bool, Box<dyn Error>> {
    let mut budgets = if path.exists() {
        Budgets::read(path)?
    } else {
        Budgets::default()
    };
    let values = rows::measure_all(&this()?, ROWS)?;
    budgets.record(values);
    budgets.write(path)?;
    println!(
        "recorded {} budgets in {}",
        budgets.budgets.len(),
        path.display()
    );
    Ok(true)
}

fn profile(name: &str, count: Option<u64>, top: usize) -> Result<bool, Box<dyn Error>> {
    let scenario = scenario::find(name)?;
    let (done, profile) = this()?.profile(name, count.unwrap_or(scenario.count.min(2_000)))?;
    let per_operation = |count: u64| count as f64 / done.operations as f64;
    println!(
        "{}: {} instructions per operation, switching included",
        name,
        number(per_operation(profile.total()))
    );
    let [called, innermost] = profile.by_function();
    for (heading, functions) in [
        ("with what is inlined into them", called),
        ("as inlined into others", innermost),
    ] {
        println!("\nfunctions {heading}:");
        for (function, count) in functions.iter().take(top) {
            println!("{:>10.1}  {function}", per_operation(*count));
        }
    }
    Ok(true)
}

fn clark_table(json: bool) -> Result<bool, Box<dyn Error>> {
    let parts = clark::clark(&this()?)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&parts)?);
        return Ok(true);
    }
    let columns = [
        ("part", Align::Left),
        ("instructions", Align::Right),
        ("counted", Align::Left),
    ];
    let rows: Vec<_> = parts
        .into_iter()
        .map(|part| vec![part.label, number(part.instructions), part.counted])
        .collect();
    print!("{}", table::aligned(&columns, &rows));
    Ok(true)
}

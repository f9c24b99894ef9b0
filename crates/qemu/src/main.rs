//! `tollgate-qemu`: counts the instructions of a stock Linux kernel's TCP in QEMU, layer by layer.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use tollgate_qemu::counts::Counts;
use tollgate_qemu::layers::Rules;
use tollgate_qemu::measure::{Counted, Setup};
use tollgate_qemu::protocol::{Task, Workload};
use tollgate_qemu::{Error, kernel};

#[derive(Parser)]
#[command(
    name = "tollgate-qemu",
    about = "Counts the instructions of a stock Linux kernel's TCP in QEMU, layer by layer"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fetch the kernel and print where its image is
    Fetch {
        /// Folder of packages and images
        #[arg(long, default_value = "target/qemu")]
        cache: PathBuf,
    },
    /// Count twice; exit code 1 when the two runs differ by one instruction
    Count(CountArgs),
}

#[derive(clap::Args)]
struct CountArgs {
    /// The guest's program, linked statically (crates/qemu/parts.sh builds it)
    #[arg(long)]
    guest: PathBuf,
    /// The plugin
    #[arg(long)]
    plugin: PathBuf,
    /// Bytes per message, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [4, 20, 80, 200, 500, 1_400, 4_000, 8_000])]
    size: Vec<usize>,
    /// Round trips that are counted at each size
    #[arg(long, default_value_t = 500)]
    count: u32,
    /// Folder of packages and images
    #[arg(long, default_value = "target/qemu")]
    cache: PathBuf,
    /// A kernel package to take instead of the newest of Debian 12
    #[arg(long, value_name = "FILE")]
    kernel_deb: Option<PathBuf>,
    /// Rules for the layers to take instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    layers: Option<PathBuf>,
    /// File for the counts, as JSON
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Seconds after which a machine that has not ended is stopped
    #[arg(long, default_value_t = 300)]
    limit: u64,
    /// Print so many functions that no rule covers, for whoever writes rules
    #[arg(long, default_value_t = 0)]
    others: usize,
}

/// The size of the messages in one direction, on which Clark's operations are counted.
const ONE_WAY: Task = Task {
    workload: Workload::OneWay,
    size: 1_400,
    count: 200,
};

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Fetch { cache } => kernel::fetch(&cache).map(|kernel| {
            println!("{}", kernel.image.display());
            true
        }),
        Command::Count(count) => run(&count),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tollgate-qemu: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &CountArgs) -> Result<bool, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|source| Error::File {
            path: PathBuf::from("the handler of signals"),
            source,
        })?;
    }
    let rules = match &arguments.layers {
        None => Rules::built_in()?,
        Some(path) => {
            Rules::parse(
                &std::fs::read_to_string(path).map_err(|source| Error::File {
                    path: path.clone(),
                    source,
                })?,
            )?
        }
    };
    let kernel = match &arguments.kernel_deb {
        None => kernel::fetch(&arguments.cache)?,
        Some(deb) => kernel::from_deb(deb, &arguments.cache)?,
    };
    let mut tasks: Vec<Task> = arguments
        .size
        .iter()
        .map(|&size| Task {
            workload: Workload::RequestResponse,
            size,
            count: arguments.count,
        })
        .collect();
    tasks.push(ONE_WAY);
    let setup = Setup {
        kernel: &kernel,
        guest: &arguments.guest,
        plugin: &arguments.plugin,
        tasks: &tasks,
        rules: &rules,
        limit: Duration::from_secs(arguments.limit),
    };
    let boot = |which: &str| -> Result<Counted, Error> {
        let begun = Instant::now();
        let counted = setup.count(&stop)?;
        let seconds = begun.elapsed().as_secs_f64();
        eprintln!(
            "tollgate-qemu: {which} run of {}: {seconds:.0} s",
            kernel.package
        );
        Ok(counted)
    };
    let mut first = boot("first")?;
    let second = boot("second")?;
    if let Err(difference) = first.same_as(&second) {
        eprint!("tollgate-qemu: the two runs differ:\n{}", difference.0);
        return Ok(false);
    }
    first.counts.repetitions = 2;
    first.counts.set_clocks_alone(&setup.clocks_alone(&stop)?);
    let file = |source| Error::File {
        path: arguments.out.clone(),
        source,
    };
    std::fs::write(&arguments.out, first.counts.to_json()?).map_err(file)?;
    println!("{}", summary(&first.counts));
    for region in &first.counts.regions {
        for other in region.others.iter().take(arguments.others) {
            let each = region.each(other.count);
            println!(
                "{} {}: {each:.1} instructions in {}, which no rule covers",
                region.workload, region.size, other.function
            );
        }
    }
    println!("tollgate-qemu: wrote {}", arguments.out.display());
    Ok(true)
}

/// The counts, in one line.
fn summary(counts: &Counts) -> String {
    let output_text: Vec<String> = counts
        .of(Workload::RequestResponse)
        .iter()
        .map(|region| format!("{:.1} at {} B", region.each(region.total), region.size))
        .collect();
    format!(
        "tollgate-qemu: {}: instructions of a round trip, the same in {} runs: {}",
        counts.package,
        counts.repetitions,
        output_text.join(", ")
    )
}

//! `tollgate trace capture`: live packets into a ring of files on this machine, and these into a trace.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tollgate_experiment::context::Cancel;
use tollgate_kernel::live::{Ask, DELAY, Live, Packet};
use tollgate_kernel::scope;
use tollgate_run::{format::counted, format::whole};
use tollgate_table::import::{self, Options};
use tollgate_table::location::Location;
use tollgate_table::store::Writable;
use tollgate_trace::ring::{Left, LivePacket, Ring, Rotation};
use tollgate_wire::cooked::V2;

use super::args::Capture;
use super::show::{self, Imported, TraceTables, share};
use super::{give, options};
use crate::args::GlobalArgs;
use crate::error::Error;
use crate::{interrupt, output};

/// Folder of the files, in the trace's folder.
const FILES: &str = "captures";
/// Prefix of their folder's name, where the trace is in a bucket.
const FILES_FOR_BUCKET: &str = "tollgate-capture-";
/// The interface's name that means all.
const ANY: &str = "any";
/// The size of a ring's files, unless something else ends them.
const FILE_SIZE: u64 = 100_000_000;

pub(super) fn run(args: &Capture, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let options = options(&args.how)?;
    let interface = match args.iface.as_str() {
        ANY => None,
        name => Some(scope::interface(name)?),
    };
    let mut live = Live::begin(&Ask {
        interface,
        filter: args.filter.as_ref(),
        snaplen: args.snaplen,
    })?;
    // What is no location for a trace is refused before anything is captured. Others may import while this captures.
    let location = &args.into;
    drop(Writable::open(location)?);
    let stem = stem();
    let directory = directory(location, &stem)?;
    let mut ring = Ring::new(&directory, &stem, &args.iface, args.snaplen, rotation(args));
    let left_behind = |_: &Error| {
        output::say(&format!(
            "what was captured and is not in the trace is in {}; tollgate trace import takes it from there",
            directory.display()
        ));
    };
    let cancel = interrupt::prepare()?;
    if !global.quiet {
        let until = if args.within.is_some() {
            ""
        } else {
            "; Ctrl-C ends it"
        };
        output::say(&format!("capturing on {}{until}", args.iface));
    }
    let began = Instant::now();
    let deadline = args.within.map(|within| began + within);
    let Followed {
        packets,
        until,
        ended,
    } = follow(&mut live, &mut ring, deadline, &cancel).inspect_err(left_behind)?;
    let tally = live
        .tally()
        .map_err(at("ask for the counts of", Path::new("the packet socket")))?;
    drop(live);
    let left = ring.finish()?;
    let imported = import(&left, &options, location, args.keep).inspect_err(left_behind)?;
    // Whatever else is in it stays, and it with that.
    let _ = fs::remove_dir(&directory);
    let captured = Captured {
        schema: "tollgate-trace-capture",
        version: 1,
        interface: args.iface.clone(),
        seconds: until.duration_since(began).as_secs_f64(),
        packets,
        dropped: tally.dropped,
        ended: ended.map(|error| error.to_string()),
        removed_files: left.removed,
        kept_files: if args.keep { left.files } else { Vec::new() },
        imported,
    };
    give(&captured, &args.json, global, |captured| {
        shown(captured, location)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the directory where packets are written as they come, which nobody else may read where it is not in the user's own folder.
fn directory(location: &Location, stem: &str) -> Result<PathBuf, Error> {
    let (directory, made) = match location {
        Location::Folder(folder) => {
            let directory = folder.join(FILES);
            let made = fs::create_dir_all(&directory);
            (directory, made)
        }
        Location::Bucket { .. } => {
            let directory = std::env::temp_dir().join(format!("{FILES_FOR_BUCKET}{stem}"));
            let made = DirBuilder::new().mode(0o700).create(&directory);
            (directory, made)
        }
    };
    made.map_err(at("make the directory", &directory))?;
    Ok(directory)
}

fn rotation(args: &Capture) -> Rotation {
    let bytes = match (args.file_size, args.seconds, args.ring) {
        (None, None, Some(_)) => Some(FILE_SIZE),
        (size, _, _) => size,
    };
    Rotation {
        bytes,
        time: args.seconds,
        files: args.ring,
    }
}

/// Outcome of a capture.
struct Followed {
    packets: u64,
    /// When nothing more was let pass.
    until: Instant,
    /// The reason why the interface gave no more, if it did not.
    ended: Option<io::Error>,
}

/// Writes what comes until it is to end.
fn follow(
    live: &mut Live,
    ring: &mut Ring,
    deadline: Option<Instant>,
    cancel: &Cancel,
) -> Result<Followed, Error> {
    let mut packets = 0;
    let mut take = |live: &mut Live| {
        live.take(|packet| {
            packets += 1;
            ring.write(&live_packet(packet))
        })
    };
    let left = |until: Option<Instant>| match until {
        Some(until) => until.saturating_duration_since(Instant::now()),
        None => DELAY,
    };
    let mut ended = None;
    while ended.is_none() && !cancel.is_raised() && !left(deadline).is_zero() {
        ended = live.wait(left(deadline).min(DELAY)).err();
        take(live)?;
    }
    live.stop().map_err(at("end", Path::new("the capture")))?;
    let until = Instant::now();
    // The kernel hands a block over when it is full, or this long after its first packet.
    let last = Some(until + 3 * DELAY);
    while !left(last).is_zero() {
        // What went wrong is known already, and what came before it is still there.
        let _ = live.wait(left(last).min(DELAY));
        take(live)?;
    }
    Ok(Followed {
        packets,
        until,
        ended,
    })
}

fn live_packet<'a>(packet: &Packet<'a>) -> LivePacket<'a> {
    LivePacket {
        nanos: packet.nanos,
        bytes: packet.bytes,
        wire_len: packet.wire_len,
        outgoing: packet.is_outgoing(),
        link: V2 {
            protocol: packet.protocol,
            interface: packet.interface,
            hardware: packet.hardware,
            kind: packet.kind,
            sender: packet.sender,
        },
    }
}

/// Imports the files, and removes each that is imported unless they are to be kept.
fn import(
    left: &Left,
    options: &Options,
    location: &Location,
    keep: bool,
) -> Result<Vec<Imported>, Error> {
    let mut trace = Writable::open(location)?;
    let mut imported = Vec::new();
    for path in &left.files {
        let file = File::open(path).map_err(at("open", path))?;
        // Where it lies is nothing that a trace is to tell.
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        let outcome = import::stream(file, &name, options, &mut trace, &mut |_| true)?;
        imported.push(Imported::of(name, outcome));
        if !keep {
            fs::remove_file(path).map_err(at("remove", path))?;
        }
    }
    Ok(imported)
}

/// Counts of a live capture, and of its fate.
#[derive(Serialize)]
struct Captured {
    schema: &'static str,
    version: u32,
    interface: String,
    /// Duration in seconds.
    seconds: f64,
    /// Packets that were written.
    packets: u64,
    /// Packets that the kernel had no room for.
    dropped: u64,
    /// The reason why it ended before it was to end.
    ended: Option<String>,
    /// Files that made room for others in the ring.
    removed_files: u64,
    /// The files that are kept.
    kept_files: Vec<PathBuf>,
    imported: Vec<Imported>,
}

fn shown(captured: &Captured, into: &Location) -> TraceTables {
    let Captured {
        packets, dropped, ..
    } = captured;
    let mut shown = show::import(&captured.imported, into);
    let dropping = match dropped {
        0 => "the kernel dropped none".to_owned(),
        dropped => format!(
            "the kernel dropped {} more ({})",
            whole(*dropped),
            share(*dropped as f64 / (packets + dropped) as f64)
        ),
    };
    shown.finding = format!(
        "{} captured on {} in {:.1} s; {dropping}. {}",
        counted(*packets, "packet was", "packets were"),
        captured.interface,
        captured.seconds,
        if captured.imported.is_empty() {
            "There is nothing to import."
        } else {
            &shown.finding
        }
    );
    let mut say = |line: String| shown.trust.push(line);
    if *dropped > 0 {
        say("What the kernel drops is missing in all counts; a --filter or a shorter --snaplen leaves it more room.".to_owned());
    }
    if let Some(reason) = &captured.ended {
        say(format!("The capture ended early: {reason}."));
    }
    if captured.removed_files > 0 {
        say(format!(
            "{} not in the trace.",
            counted(
                captured.removed_files,
                "older file made room in the ring, and is",
                "older files made room in the ring, and are"
            )
        ));
    }
    match captured.kept_files.as_slice() {
        [] if captured.imported.is_empty() => {}
        [] => say(
            "The captured files were removed after they had been imported; --keep keeps them."
                .to_owned(),
        ),
        [one] => say(format!("The captured file is {}.", one.display())),
        [first, .., last] => say(format!(
            "The captured files are {} to {}.",
            first.display(),
            last.display()
        )),
    }
    shown
}

/// Stem of the names of this capture's files, from its time and its process: no other has the same.
fn stem() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.unwrap_or(Duration::ZERO).as_secs();
    format!("{seconds}-{}", std::process::id())
}

fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path: PathBuf = path.to_owned();
    move |source| Error::Trace(tollgate_table::Error::File { what, path, source })
}

//! `tollgate estimate`: costs by size, from a run or measured now, weighted with the messages of a trace.

use std::process::ExitCode;

use tollgate_analysis::profile::{self, OF_KERNEL, OF_STACK, Origin, TraceOf};
use tollgate_run::{PathId, Run};
use tollgate_trace::rebuilt::Rebuilt;
use tollgate_trace::traffic::{Messages, Traffic};

use crate::args::{Estimate, GlobalArgs};
use crate::error::Error;
use crate::{derived, input, measure};

/// The path that is measured unless another is named.
const USUAL: PathId = PathId::KernelLoopback;

/// Weights, and shows it like a run.
pub(crate) fn run(args: &Estimate, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let path = path(args)?;
    let trace = Trace::open(&args.trace, args.messages)?;
    let (run, code) = match &args.from {
        Some(from) => (input::run(from)?, ExitCode::SUCCESS),
        None => match measured(args, path, &trace.traffic, global)? {
            (Some(run), code) => (run, code),
            (None, code) => return Ok(code),
        },
    };
    let of = TraceOf {
        name: &args.trace,
        remark: trace.rebuilt.map(Rebuilt::remark),
        messages: args.messages,
        traffic: &trace.traffic,
        bounds: trace.bounds.as_ref().map(|(least, most)| (least, most)),
    };
    let from = args.from.as_ref().map(|from| from.to_string_lossy());
    let mut options = args.measuring.options();
    options.paths = Some(vec![path.unwrap_or(USUAL)]);
    let mut options = args.set.add_to(options)?;
    options.paths = None;
    let flags = options.flags();
    let origin = match &from {
        Some(from) => Origin::Run(from),
        None => Origin::Measured(&flags),
    };
    let part = profile::profile(&run, path, of, origin).map_err(|error| match args.from {
        Some(_) => Error::Usage(error.to_string()),
        None => Error::Profile(error),
    })?;
    let shown = derived::show(run, part, &args.measuring.json, args.out.as_ref(), global)?;
    Ok(if code == ExitCode::SUCCESS {
        shown
    } else {
        code
    })
}

/// The one path that was named.
fn path(args: &Estimate) -> Result<Option<PathId>, Error> {
    let paths = args.measuring.options().paths;
    match paths.as_deref() {
        None => Ok(None),
        Some([one]) => Ok(Some(*one)),
        Some(_) => Err(Error::Usage(
            "a profile is of one path; name one with --path".to_owned(),
        )),
    }
}

/// Measures what a profile of this path is made from.
fn measured(
    args: &Estimate,
    path: Option<PathId>,
    traffic: &Traffic,
    global: &GlobalArgs,
) -> Result<(Option<Run>, ExitCode), Error> {
    let path = path.unwrap_or(USUAL);
    let mut options = args.measuring.options();
    options.paths = Some(vec![path]);
    let mut options = args.set.add_to(options)?;
    let names = match path {
        PathId::StackMemory => OF_STACK,
        PathId::KernelLoopback | PathId::KernelVeth => {
            options.sizes.get_or_insert_with(|| profile::sizes(traffic));
            OF_KERNEL
        }
        PathId::KernelRemote
        | PathId::StackShm
        | PathId::StackTap
        | PathId::StackPacket
        | PathId::StackXdp
        | PathId::PeerSmoltcp
        | PathId::BareShm => {
            return Err(Error::Usage(format!(
                "{path} has no costs by category; a profile is of kernel-loopback, kernel-veth or stack-memory"
            )));
        }
    };
    measure::measured(&names, args, options, global)
}

/// A trace that was read.
struct Trace {
    traffic: Traffic,
    rebuilt: Option<Rebuilt>,
    /// Traffic with all messages as small, and as large, as may be, where sizes are invented.
    bounds: Option<(Traffic, Traffic)>,
}

impl Trace {
    /// The trace by what the user calls it: the name of a rebuilt one, or a directory.
    fn open(name: &str, messages: Messages) -> Result<Self, Error> {
        let Some(rebuilt) = Rebuilt::named(name) else {
            return Ok(Self {
                traffic: stored(name, messages)?,
                rebuilt: None,
                bounds: None,
            });
        };
        let traffic = Traffic::rebuilt(rebuilt, messages);
        Ok(Self {
            bounds: Some(traffic.bounds(rebuilt)),
            rebuilt: Some(rebuilt),
            traffic,
        })
    }
}

#[cfg(feature = "sql")]
fn stored(name: &str, messages: Messages) -> Result<Traffic, Error> {
    use tollgate_table::session::{Origin, Session};
    let session = Session::open(Origin::named(name)?)?;
    Ok(tollgate_table::traffic::of(&session, messages)?)
}

#[cfg(not(feature = "sql"))]
fn stored(name: &str, _messages: Messages) -> Result<Traffic, Error> {
    Err(Error::NoStoredTraces(name.to_owned()))
}

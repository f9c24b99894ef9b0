//! `tollgate observe`: traffic that is already there. Arguments, Ctrl-C and exit codes; what is observed is in the crates below.

use std::process::ExitCode;

use tollgate_kernel::filter::Filter;

use crate::args::{GlobalArgs, Observe};
use crate::error::Error;

/// Observes until the time is over or Ctrl-C, and shows what was seen.
pub(crate) fn run(observe: &Observe, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let filter = filter(observe)?;
    #[cfg(feature = "bpf")]
    return live::run(observe, global, filter);
    #[cfg(not(feature = "bpf"))]
    {
        let _ = (global, filter);
        Err(Error::Observe {
            reason: tollgate_kernel::Error::NotBuilt.to_string(),
            advice: "make report builds with them",
        })
    }
}

/// The ports and the filter together.
fn filter(observe: &Observe) -> Result<Option<Filter>, Error> {
    let side = tollgate_kernel::filter::Side::Either;
    let ports = observe
        .ports
        .iter()
        .map(|&port| Filter::Ports(side, port, port))
        .reduce(|one, other| Filter::Or(Box::new(one), Box::new(other)));
    let filter = match (ports, observe.filter.clone()) {
        (Some(ports), Some(filter)) => Some(Filter::And(Box::new(ports), Box::new(filter))),
        (ports, filter) => ports.or(filter),
    };
    if observe.filter == Some(Filter::Udp) {
        return Err(Error::Usage(
            "only TCP is observed, so the filter `udp` passes nothing; leave it out".to_owned(),
        ));
    }
    Ok(filter)
}

#[cfg(feature = "bpf")]
mod live {
    use std::process::ExitCode;
    use std::time::{Duration, Instant};

    use tollgate_experiment::context::Cancel;
    use tollgate_kernel::filter::Filter;
    use tollgate_kernel::kernel_features;
    use tollgate_kernel::sample_hooks::Choice;
    use tollgate_kernel::scope;
    use tollgate_observe::{Ask, Raw, Watcher, summary};
    use tollgate_report::terminal::render_observation;

    use crate::args::{GlobalArgs, Observe};
    use crate::error::{Error, INTERRUPTED};
    use crate::{alone, interrupt, output, results};

    /// Time between two rounds of reading the gates.
    const TICK: Duration = Duration::from_millis(10);
    /// Other network namespaces whose packets pass netfilter links, too.
    const NAMESPACES: usize = 64;

    pub(super) fn run(
        observe: &Observe,
        global: &GlobalArgs,
        filter: Option<Filter>,
    ) -> Result<ExitCode, Error> {
        results::check_writable(&observe.json)?;
        let pids = observe.pids.iter().map(|&pid| scope::process(pid));
        let ask = Ask {
            filter: filter.map(|filter| filter.operations()).unwrap_or_default(),
            groups: pids.collect::<Result<_, _>>()?,
            cgroups: observe.cgroup.as_deref().map(scope::cgroups).transpose()?,
            interface: match &observe.iface {
                Some(name) => scope::interface(name)?,
                None => 0,
            },
            wires: scope::wires()?,
            namespace: scope::namespace(),
            slower_than: observe.slower_than,
            every: observe.sample,
            budget: (!observe.no_duty_cycle).then_some(observe.overhead / 100.0),
        };
        let cancel = interrupt::prepare()?;
        // Held until the end: gates take time from whatever is measured meanwhile.
        let alone = alone::claim();
        if let (Err(warning), false) = (&alone, global.quiet) {
            output::say(&format!("warning: {warning}"));
        }
        let started = Instant::now();
        let choice = Choice::of(&kernel_features());
        let mut watcher = Watcher::start(choice, &ask, scope::other_namespaces(NAMESPACES))
            .map_err(|error| failed(&error))?;
        if !global.quiet {
            let until = observe.within.map_or("until Ctrl-C".to_owned(), |time| {
                format!("for {} s or until Ctrl-C", time.as_secs_f64())
            });
            let live = started.elapsed().as_millis();
            output::say(&format!("observing {until}; gates live after {live} ms"));
        }
        let stopped = watch(observe, &mut watcher, &cancel)?;
        // Nothing stays attached while people read.
        let raw = watcher.read().map_err(|error| failed(&error))?;
        let choice = watcher.choice().clone();
        drop(watcher);
        if observe.json_stream {
            return Ok(exit(stopped, observe));
        }
        let observation = summary::between(None, &raw, &choice, observe.top);
        results::put(
            &observe.json,
            global,
            || Ok(serde_json::to_string_pretty(&observation)? + "\n"),
            || render_observation(&observation, output::width(), output::colour(global.color)),
        )?;
        if !global.quiet {
            say_gone(observe);
        }
        Ok(exit(stopped, observe))
    }

    /// Looks after the gates until the time is over; whether Ctrl-C ended it.
    fn watch(observe: &Observe, watcher: &mut Watcher, cancel: &Cancel) -> Result<bool, Error> {
        let begun = Instant::now();
        let end = observe.within.map(|time| begun + time);
        let mut before: Option<Raw> = None;
        let mut next = begun + observe.interval;
        loop {
            let now = Instant::now();
            let over = end.is_some_and(|end| now >= end);
            let stopped = cancel.is_raised();
            if observe.json_stream && (over || stopped || now >= next) {
                let raw = watcher.read().map_err(|error| failed(&error))?;
                let observation =
                    summary::between(before.as_ref(), &raw, watcher.choice(), observe.top);
                output::print(&(serde_json::to_string(&observation)? + "\n"))?;
                before = Some(raw);
                next += observe.interval;
            }
            if over || stopped {
                return Ok(stopped);
            }
            std::thread::sleep(TICK);
            watcher.tend().map_err(|error| failed(&error))?;
        }
    }

    /// Ctrl-C is how an observation without an end ends; before the end that was asked for it is told.
    fn exit(stopped: bool, observe: &Observe) -> ExitCode {
        if stopped && observe.within.is_some() {
            ExitCode::from(INTERRUPTED)
        } else {
            ExitCode::SUCCESS
        }
    }

    fn say_gone(observe: &Observe) {
        for &pid in &observe.pids {
            if scope::process(pid).is_err() {
                output::say(&format!("process {pid} has ended meanwhile"));
            }
        }
    }

    fn failed(error: &tollgate_kernel::Error) -> Error {
        let advice = if rustix::process::geteuid().is_root() {
            "tollgate doctor says what this kernel allows, and TOLLGATE_BPF_LOG=1 what the kernel said"
        } else {
            "run it as root (sudo): without it the kernel shows a process time stamps of its own sockets only, and not the traffic of \
             others"
        };
        Error::Observe {
            reason: error.to_string(),
            advice,
        }
    }
}

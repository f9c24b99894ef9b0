//! Switches of workloads: mechanisms and link of Tollgate's stack, and on every path the size of packets, the direction of bytes and
//! the transport.

use clap::Args;
use tollgate_experiment::context::Options;
use tollgate_run::{PathId, format};
use tollgate_workload::{DATAGRAM_MECHANISMS, FaultyLink, LinkKind};

use crate::error::Error;
use crate::offered::{links, offering, settings};
use crate::values::{Setting, link, mechanism, mechanisms_help, mtu};

/// The mechanisms of Tollgate's stack.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SetArgs {
    /// Switch mechanisms of Tollgate's stack, at both ends: prediction=off,demux=list.
    #[arg(long = "set", value_name = "NAME=VALUE,..", value_delimiter = ',', value_parser = offering(mechanism, settings), long_help = mechanisms_help())]
    set: Vec<Setting>,
}

impl SetArgs {
    /// Adds all of them to what is to be measured.
    ///
    /// # Errors
    /// When no path as asked runs Tollgate's stack, or two settings contradict each other.
    pub(crate) fn add_to(&self, mut options: Options) -> Result<Options, Error> {
        let nagle = options.nagle();
        for setting in &self.set {
            setting
                .apply(&mut options.mechanisms)
                .map_err(|reason| Error::Usage(format!("--set: {reason}")))?;
        }
        if nagle && !options.nagle() {
            return Err(Error::Usage(
                "--nagle and --set nagle=off contradict each other; leave one of them out"
                    .to_owned(),
            ));
        }
        // Nagle's algorithm is every path's.
        let of_the_stack = options.stack_mechanisms().next().is_some();
        if of_the_stack && !wants_any(&options, &STACK_PATHS) {
            return Err(Error::Usage(format!(
                "--set switches mechanisms of Tollgate's stack, and no path as asked runs it ({}); name one that begins with \
                 stack-, or leave --set out",
                options.restrictions()
            )));
        }
        Ok(options)
    }
}

/// The mechanisms of Tollgate's stack and the link between two of them. The size of packets, the direction of bytes and the transport on
/// every path.
#[derive(Debug, Clone, Args)]
pub(crate) struct Switches {
    #[command(flatten)]
    set: SetArgs,
    /// Join Tollgate's stacks by this link: ethernet, fddi (MTU 4,352 bytes), or atm-aal34 and atm-aal5 (cells, MTU 9,188 bytes).
    ///
    /// A line of cells has faults, with commas behind its name. `loss=1e-4`: chance that a cell is lost. `bits=1e-6`: that a bit is
    /// wrong, at most one of a cell. `seed=3`: of both. `when-full=lose`: cells that find the receive FIFO full are lost; they wait
    /// otherwise.
    #[arg(long, value_name = "LINK", default_value = "ethernet", hide_default_value = true, value_parser = offering(link, links))]
    link: FaultyLink,
    /// Make the largest IP packet this long, on every path: 9000, 9k. A loopback of the kernel is one of a namespace of its own then (root).
    #[arg(long, value_name = "BYTES", value_parser = mtu, conflicts_with = "link")]
    mtu: Option<usize>,
    /// Bytes of a stream come to the timed end, as with iperf3 -R.
    #[arg(long)]
    reverse: bool,
    /// Messages of rr are UDP datagrams, as with netperf's UDP_RR.
    #[arg(long)]
    udp: bool,
}

impl Switches {
    /// Adds all of them to what is to be measured.
    ///
    /// # Errors
    /// When no path as asked runs Tollgate's stack, or what is asked for does not go together.
    pub(crate) fn add_to(&self, mut options: Options) -> Result<Options, Error> {
        options.reverse = self.reverse;
        options.datagrams = self.udp;
        let mut options = self.set.add_to(options)?;
        let mut changed = options.mechanisms.changed();
        let of_tcp = changed.find(|(name, _)| !DATAGRAM_MECHANISMS.contains(name));
        if self.udp
            && let Some((name, _)) = of_tcp
        {
            return Err(Error::Usage(format!(
                "{name} is a mechanism of TCP, and --udp runs without; it has {}",
                format::list(&DATAGRAM_MECHANISMS.map(str::to_owned))
            )));
        }
        if self.link.kind != LinkKind::Ethernet && !wants_any(&options, &LINKED_PATHS) {
            return Err(Error::Usage(format!(
                "--link joins Tollgate's stacks, and no path as asked runs them ({}); name stack-memory or stack-shm, or leave \
                 --link out",
                options.restrictions()
            )));
        }
        if let Some(host) = &options.to
            && self.reverse
            && options.way_to_a_service().is_none()
        {
            return Err(Error::Usage(format!(
                "--reverse takes bytes from a chargen where --to {host} is reached by stack-tap, stack-packet or stack-xdp, and kernel-remote \
                 has none; leave it out, or name one of these"
            )));
        }
        if let Some(host) = &options.to
            && self.udp
            && options.way_to_a_service().is_none()
        {
            return Err(Error::Usage(format!(
                "--udp goes to an echo where --to {host} is reached by stack-tap, stack-packet or stack-xdp, and kernel-remote has \
                 connections alone; leave it out, or name one of these"
            )));
        }
        if let Some(host) = &options.to
            && self.mtu.is_some()
            && options.way_to_a_service().is_none()
        {
            return Err(Error::Usage(format!(
                "--mtu is for a way to --to {host} by stack-tap, stack-packet or stack-xdp, and kernel-remote takes that of its \
                 interface; leave it out, or name one of these"
            )));
        }
        if self.udp && self.link.faults.is_any() {
            return Err(Error::Usage(
                "--udp sends no datagram again, and a line with faults loses some; leave the options of --link out, or --udp"
                    .to_owned(),
            ));
        }
        options.link = self.link.kind;
        options.cells = self.link.faults;
        options.mtu = self.mtu;
        Ok(options)
    }
}

/// Tells whether one of these is a path as asked.
fn wants_any(options: &Options, paths: &[PathId]) -> bool {
    paths.iter().any(|&path| options.wants(path))
}

/// The paths that run Tollgate's stack.
const STACK_PATHS: [PathId; 5] = [
    PathId::StackMemory,
    PathId::StackShm,
    PathId::StackTap,
    PathId::StackPacket,
    PathId::StackXdp,
];
/// The paths whose stacks are joined by a link that users choose.
const LINKED_PATHS: [PathId; 2] = [PathId::StackMemory, PathId::StackShm];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command, ExperimentCommand};

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    /// Options of a command line that takes switches.
    fn options(line: &str) -> Result<Options, Error> {
        match parsed(line).unwrap().command {
            Command::Rr(workload) | Command::Stream(workload) => {
                let options = workload.remote.add_to(workload.measuring.options())?;
                workload.switches.add_to(options)
            }
            Command::Experiment(ExperimentCommand::Run(run)) => {
                run.switches.add_to(run.measuring.options())
            }
            Command::Report(report) => report.set.add_to(report.measuring.options()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nagle_is_not_switched_on_and_off_at_once() {
        let error = options("tollgate rr --nagle --set nagle=off").unwrap_err();
        assert!(error.to_string().contains("contradict"), "{error}");
        assert!(options("tollgate rr --nagle --set nagle=on").is_ok());
        assert!(options("tollgate rr --set nagle=off").is_ok());
    }

    #[test]
    fn mechanisms_are_set_by_name_on_paths_that_run_the_stack() {
        let set = options("tollgate rr --set prediction=off,demux=list --set fin=at-once").unwrap();
        let changed: Vec<_> = set.mechanisms.changed().collect();
        assert_eq!(
            changed,
            [("prediction", "off"), ("demux", "list"), ("fin", "at-once")]
        );
        assert_eq!(
            set.flags(),
            " --set prediction=off --set demux=list --set fin=at-once"
        );
        let of_report = options("tollgate report --quick --set prediction=off,demux=list").unwrap();
        assert_eq!(of_report.flags(), " --set prediction=off --set demux=list");
        assert!(options("tollgate rr --path kernel-loopback --set demux=list").is_err());
        assert!(options("tollgate report --path kernel-loopback --set demux=list").is_err());
        assert!(options("tollgate rr --path kernel-loopback").is_ok());
        for wrong in ["demux", "demux=tree", "cache=off"] {
            assert!(
                parsed(&format!("tollgate rr --set {wrong}")).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn link_joins_stacks_and_is_refused_elsewhere() {
        let over = options("tollgate stream --link atm-aal5 --path stack-shm").unwrap();
        assert_eq!(over.link, LinkKind::AtmAal5);
        assert_eq!(over.flags(), " --path stack-shm --link atm-aal5");
        assert_eq!(options("tollgate stream").unwrap().flags(), "");
        let faulty = options("tollgate rr --link atm-aal34,loss=1e-4,when-full=lose").unwrap();
        assert_eq!(faulty.link, LinkKind::AtmAal34);
        assert!(faulty.cells.is_any());
        assert_eq!(
            faulty.flags(),
            " --link atm-aal34,loss=0.0001,when-full=lose"
        );
        let refused = options("tollgate rr --udp --link atm-aal5,loss=0.1").unwrap_err();
        assert!(
            refused.to_string().contains("leave the options"),
            "{refused}"
        );
        for wrong in ["fddi,loss=0.1", "atm-aal5,loss=2", "atm-aal5,lost=0.1"] {
            let refused = parsed(&format!("tollgate rr --link {wrong}"));
            assert!(refused.is_err(), "{wrong}");
        }
        let refused = options("tollgate stream --link fddi --path peer-smoltcp").unwrap_err();
        assert!(refused.to_string().contains("--link joins"), "{refused}");
        assert!(parsed("tollgate stream --link token-ring").is_err());
        let long = options("tollgate stream --mtu 9000").unwrap();
        assert_eq!(long.mtu, Some(9_000));
        assert_eq!(long.flags(), " --mtu 9000");
        let binary = options("tollgate stream --mtu 9k").unwrap();
        assert_eq!(binary.mtu, Some(9_216));
        assert_eq!(binary.flags(), " --mtu 9216");
        for wrong in [
            "--mtu 64k",
            "--mtu 67",
            "--mtu 9000 --link fddi",
            "--mtu 9000 --gates",
        ] {
            assert!(parsed(&format!("tollgate rr {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mtu_is_for_ways_of_our_stack_to_a_host() {
        let over = options("tollgate rr --mtu 1400 --path stack-tap --to there:7").unwrap();
        assert_eq!(over.mtu, Some(1_400));
        let refused = options("tollgate rr --mtu 1400 --to there").unwrap_err();
        assert!(
            refused.to_string().contains("--mtu is for a way"),
            "{refused}"
        );
    }

    #[test]
    fn datagrams_go_to_an_echo_over_our_stack_alone() {
        let over = options("tollgate rr --udp --path stack-tap --to there:7").unwrap();
        assert!(over.datagrams && over.way_to_a_service().is_some());
        let refused = options("tollgate rr --udp --to there").unwrap_err();
        assert!(
            refused.to_string().contains("--udp goes to an echo"),
            "{refused}"
        );
    }

    #[test]
    fn command_of_an_experiment_repeats_the_workload() {
        for (workload, experiment) in [
            ("rr --udp --mtu 9000", "rr-by-size"),
            ("rr --set demux=list --cores 1", "rr-by-size"),
            ("stream --reverse --size 4k", "stream-by-write-size"),
        ] {
            let asked = options(&format!("tollgate {workload}")).unwrap();
            let flags = asked.flags();
            let again = options(&format!("tollgate experiment run {experiment}{flags}")).unwrap();
            assert_eq!(again, asked, "{flags}");
        }
        for wrong in ["rr --udp --gates", "stream --reverse --gates"] {
            assert!(parsed(&format!("tollgate {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn datagrams_are_refused_the_mechanisms_of_tcp() {
        for fits in [
            "checksum=off",
            "checksum-kernel=separate",
            "lan-evidence=subnet",
        ] {
            assert!(
                options(&format!("tollgate rr --udp --set {fits}")).is_ok(),
                "{fits}"
            );
        }
        for wrong in [
            "--set prediction=off",
            "--set checksum=off,demux=list",
            "--nagle",
        ] {
            let refused = options(&format!("tollgate rr --udp {wrong}")).unwrap_err();
            assert!(
                refused.to_string().contains("mechanism of TCP"),
                "{refused}"
            );
        }
    }
}

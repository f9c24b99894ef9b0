//! The host at the other end: its name, its token, and the interface from which our stack reaches it.

use clap::Args;
use tollgate_experiment::context::Options;
use tollgate_run::PathId;
use tollgate_workload::remote::Target;

use super::shared::{SHARES_NOT, SharedArgs, TRUSTS_NOT};
use crate::error::Error;
use crate::values::target;

/// The host at the other end.
#[derive(Debug, Clone, Args)]
pub(crate) struct RemoteArgs {
    /// The other end runs on this host, by `tollgate serve`; implies --path kernel-remote. With --path stack-tap, stack-packet or stack-xdp
    /// it is anybody's echo (rr, crr), discard (stream) or chargen (stream --reverse) at HOST:PORT.
    #[arg(long = "to", value_name = "HOST[:PORT]", value_parser = target)]
    host: Option<Target>,
    /// Give the server this token [default: the variable TOLLGATE_TOKEN].
    #[arg(long, value_name = "TOKEN", requires = "host")]
    token: Option<String>,
    #[command(flatten)]
    shared: SharedArgs,
}

/// The variable that holds a token which is not to be seen on the command line.
const TOKEN: &str = "TOLLGATE_TOKEN";

/// The token that was given, or that of the variable.
pub(crate) fn token(given: Option<&String>) -> Option<String> {
    given.cloned().or_else(|| std::env::var(TOKEN).ok())
}

impl RemoteArgs {
    /// The options with the host.
    ///
    /// # Errors
    /// A path without its host, or a host without its path.
    pub(crate) fn add_to(&self, options: Options) -> Result<Options, Error> {
        let remote = PathId::KernelRemote;
        let usage = |words: String| Err(Error::Usage(words));
        let paths = options.paths.as_deref();
        let alone = match paths {
            Some([path]) if path.is_stack_beside_linux() => Some(*path),
            _ => None,
        };
        let shares = matches!(alone, Some(PathId::StackPacket | PathId::StackXdp));
        let Some(host) = &self.host else {
            if paths.is_some_and(|paths| paths.contains(&remote)) {
                return usage(
                    "kernel-remote takes a host that runs `tollgate serve`; name it with --to HOST"
                        .to_owned(),
                );
            }
            if self.shared.is_given() {
                return usage(
                    "--on is where our stack reaches the host of --to; name that, or leave --on out"
                        .to_owned(),
                );
            }
            return Ok(options);
        };
        if let Some(paths) = paths
            && !paths.contains(&remote)
            && alone.is_none()
        {
            return usage(format!(
                "--to {host} is for the path kernel-remote, which --path leaves out; name it there, or leave --path out; stack-tap, \
                 stack-packet and stack-xdp take it alone"
            ));
        }
        if self.shared.is_given() && !shares {
            return usage(SHARES_NOT.to_owned());
        }
        if self.shared.trusts() && alone != Some(PathId::StackXdp) {
            return usage(TRUSTS_NOT.to_owned());
        }
        Ok(Options {
            to: Some(host.clone().with_token(token(self.token.as_ref()))),
            paths: options.paths.clone().or_else(|| Some(vec![remote])),
            shared: shares.then(|| self.shared.interface()).transpose()?,
            ..options
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn a_host_implies_its_path_and_the_path_wants_its_host() {
        let options = |line: &str| match parsed(line).unwrap().command {
            Command::Rr(workload) => workload.remote.add_to(workload.measuring.options()),
            other => panic!("{other:?}"),
        };
        let told = options("tollgate rr --to box").unwrap();
        assert_eq!(told.paths, Some(vec![PathId::KernelRemote]));
        assert_eq!(told.to.unwrap().to_string(), "box:8655");
        let both = options("tollgate rr --to box --path kernel-loopback,kernel-remote").unwrap();
        assert_eq!(both.paths.unwrap().len(), 2);
        let error = options("tollgate rr --path kernel-remote").unwrap_err();
        assert!(error.to_string().contains("name it with --to HOST"));
        let error = options("tollgate rr --to box --path stack-shm").unwrap_err();
        assert!(error.to_string().contains("which --path leaves out"));
        assert!(options("tollgate rr").unwrap().to.is_none());
    }

    #[test]
    fn an_interface_is_shared_by_the_paths_that_share_one() {
        let options = |line: &str| match parsed(line).unwrap().command {
            Command::Rr(workload) => workload.remote.add_to(workload.measuring.options()),
            other => panic!("{other:?}"),
        };
        let on = "--on eth0 --address 192.0.2.7/24";
        let line = format!("tollgate rr --to 192.0.2.1:7 {on} --gateway 192.0.2.254");
        let packet = options(&format!("{line} --path stack-packet")).unwrap();
        assert_eq!(
            packet.way_to_a_service().map(|way| way.path()),
            Some(PathId::StackPacket)
        );
        assert_eq!(
            packet.flags(),
            " --to 192.0.2.1:7 --on eth0 --address 192.0.2.7/24 --gateway 192.0.2.254 --path stack-packet"
        );
        let both = format!("{line} --address 2001:db8::7/64 --gateway fe80::1 --path stack-packet");
        let both = options(&both).unwrap();
        assert!(
            both.flags().contains(
                "--gateway 192.0.2.254 --address 2001:db8::7/64 --gateway fe80::1 --path"
            ),
            "{}",
            both.flags()
        );
        let xdp = options(&format!("{line} --path stack-xdp --trust-checksums")).unwrap();
        assert!(xdp.flags().ends_with(" --trust-checksums"));
        let tap = options("tollgate rr --to 192.0.2.1:7 --path stack-tap").unwrap();
        assert_eq!(
            tap.way_to_a_service().map(|way| way.path()),
            Some(PathId::StackTap)
        );
        for (wrong, reason) in [
            ("--to 192.0.2.1:7 --path stack-packet", "name it and an"),
            (&format!("--path stack-packet {on}"), "name that, or leave"),
            (&format!("--to box --path stack-tap {on}"), "--on is for"),
            (&format!("--to box {on}"), "--on is for"),
            (
                &format!("--to box --path stack-packet {on} --trust-checksums"),
                "is for --path stack-xdp",
            ),
            ("--to box --path stack-tap,stack-packet", "take it alone"),
        ] {
            let error = options(&format!("tollgate rr {wrong}")).unwrap_err();
            assert!(error.to_string().contains(reason), "{wrong}: {error}");
        }
        assert!(parsed("tollgate rr --to box --path stack-xdp --on eth0").is_err());
    }
}

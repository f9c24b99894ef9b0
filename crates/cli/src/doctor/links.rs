//! The links between Tollgate's stack and Linux, each tried here and, by `unshare -rn`, as somebody without root would have it.

use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use tollgate_workload::links::{Character, Mode, TriedLink, try_links};

use super::State;
use crate::error::Error;
use crate::output;

/// One link in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Link {
    /// The link in one word.
    pub(super) name: String,
    /// It was tried in a user namespace, which takes no root.
    pub(super) without_root: bool,
    pub(super) state: State,
    /// Its character, and why it is slow or not there.
    pub(super) found: String,
    /// Advice that would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

/// All links, in both places.
pub(super) fn all() -> Vec<Link> {
    let here = here();
    let without_root = match in_user_namespace() {
        Ok(links) => links,
        Err(reason) => here
            .iter()
            .map(|link| Link {
                name: link.name.clone(),
                without_root: true,
                state: State::Missing,
                found: reason.clone(),
                advice: None,
            })
            .collect(),
    };
    here.into_iter()
        .zip(without_root)
        .flat_map(|(here, without_root)| {
            [
                here,
                Link {
                    without_root: true,
                    ..without_root
                },
            ]
        })
        .collect()
}

/// Prints the links as they are here, for the process that has started this one in a user namespace.
pub(super) fn print_here() -> Result<(), Error> {
    output::print(&(serde_json::to_string(&here())? + "\n"))
}

fn here() -> Vec<Link> {
    try_links().iter().map(judge).collect()
}

/// Advice where AF_XDP has the generic mode alone.
pub(super) const BETTER_DEVICE: &str =
    "use a device whose driver runs XDP programs (veth does since Linux 4.19)";

/// Finding and advice where a packet socket may hold fewer bytes than were asked for.
pub(super) fn little_room(buffer: usize, asked: usize) -> (String, String) {
    (
        format!(
            "works with room for {buffer} bytes that wait, of {asked}: long bursts of small frames may be lost"
        ),
        format!(
            "sysctl net.core.rmem_max={asked} net.core.wmem_max={asked} (as root), or CAP_NET_ADMIN"
        ),
    )
}

/// The judgement of a link that was tried.
fn judge(tried: &TriedLink) -> Link {
    let (state, found, advice) = match &tried.outcome {
        Err(reason) => {
            let text = reason.to_string();
            let path = format!("{}: ", tried.path);
            let text = text.strip_prefix(&path).unwrap_or(&text).to_owned();
            (State::Missing, text, None)
        }
        Ok(Character::Tap) => (
            State::Good,
            "works: checksums offloaded both ways, segments leave in trains; each frame or train takes a system call".to_owned(),
            None,
        ),
        Ok(Character::Packet { buffer, asked }) if buffer < asked => {
            let (found, advice) = little_room(*buffer, *asked);
            (State::Improvable, found, Some(advice))
        }
        Ok(Character::Packet { .. }) => (
            State::Good,
            "works: Linux's checksums need not be complete, segments leave in trains; each burst takes a system call".to_owned(),
            None,
        ),
        Ok(Character::Xdp { mode, refused }) => {
            let slower = refused
                .iter()
                .map(|(mode, reason)| format!("; not {mode}: {reason}"))
                .collect::<String>();
            let advice = (*mode == Mode::Generic).then(|| BETTER_DEVICE.to_owned());
            let state = if advice.is_some() {
                State::Improvable
            } else {
                State::Good
            };
            (state, format!("works on a veth pair, {mode}{slower}"), advice)
        }
    };
    Link {
        name: tried.name.to_owned(),
        without_root: false,
        state,
        found,
        advice,
    }
}

/// The links as a copy of this program finds them in a user namespace of its own.
fn in_user_namespace() -> Result<Vec<Link>, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("this program's file: {error}"))?;
    let done = Command::new("unshare")
        .args(["--map-root-user", "--net"])
        .arg(program)
        .args(["doctor", "--links-here"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("running `unshare` (install util-linux): {error}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(refusal(said.trim()));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| format!("its answer: {error}"))
}

/// A refused user namespace, with what allows one.
fn refusal(said: &str) -> String {
    format!(
        "no user namespace ({said}); allow them: sysctl user.max_user_namespaces=10000, and where they are there \
         kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0 (as root)"
    )
}

/// The section of the text.
pub(super) fn text(links: &[Link], paint: impl Fn(State, &str) -> String) -> String {
    let mut out = String::from(
        "\nLinks between our stack and Linux, each tried here and without root (unshare -rn), with verified round trips\n",
    );
    let names: Vec<String> = links
        .iter()
        .map(|link| {
            if link.without_root {
                format!("{}, without root", link.name)
            } else {
                link.name.clone()
            }
        })
        .collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for (link, name) in links.iter().zip(&names) {
        let sign = paint(link.state, link.state.sign());
        out.push_str(&format!("  {sign}  {name:width$}  {}\n", link.found));
        if let Some(advice) = &link.advice {
            out.push_str(&format!("      {:width$}  -> {advice}\n", ""));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_run::PathId;

    fn judged(outcome: Result<Character, tollgate_workload::Error>) -> Link {
        judge(&TriedLink {
            path: PathId::StackXdp,
            name: "xdp",
            outcome,
        })
    }

    #[test]
    fn slow_links_say_why_and_what_would_help() {
        let native = judged(Ok(Character::Xdp {
            mode: Mode::Native,
            refused: vec![(Mode::ZeroCopy, "no driver has it".to_owned())],
        }));
        assert_eq!(native.state, State::Good);
        assert_eq!(
            native.found,
            "works on a veth pair, native with a copy; not native without a copy: no driver has it"
        );
        let generic = judged(Ok(Character::Xdp {
            mode: Mode::Generic,
            refused: Vec::new(),
        }));
        assert_eq!(generic.state, State::Improvable);
        assert!(generic.advice.is_some());
        let small = judged(Ok(Character::Packet {
            buffer: 212_992,
            asked: 8 << 20,
        }));
        assert_eq!(small.state, State::Improvable);
        assert!(small.advice.unwrap().contains("net.core.rmem_max=8388608"));
        let missing = judged(Err(tollgate_workload::Error::Poisoned {
            path: PathId::StackXdp,
        }));
        assert_eq!(missing.state, State::Missing);
        assert!(
            missing.found.starts_with("this session failed"),
            "{}",
            missing.found
        );
    }

    #[test]
    fn links_are_read_back_and_shown_in_both_places() {
        let mut links = vec![judged(Ok(Character::Tap))];
        let json = serde_json::to_string(&links).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Link>>(&json).unwrap(), links);
        links.push(Link {
            without_root: true,
            state: State::Missing,
            found: refusal("unshare failed"),
            ..links[0].clone()
        });
        let text = text(&links, |_, sign| sign.to_owned());
        assert!(
            text.contains("\n  ok  xdp                works: checksums"),
            "{text}"
        );
        assert!(
            text.contains("\n  no  xdp, without root  no user namespace (unshare failed); allow"),
            "{text}"
        );
    }
}

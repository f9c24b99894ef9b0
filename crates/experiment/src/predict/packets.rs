//! Packets that the messages of a run were cut into, as its commands say.
//!
//! It owns the sizes of segments. It must never judge what a packet costs.

use tollgate_run::Run;
use tollgate_workload::LinkKind;

use super::fit;

/// Packets of a run's messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Packets {
    /// Bytes of the largest IP packet on every path; as each has it unless the run was made with another one.
    pub(super) mtu: Option<usize>,
    /// Messages are datagrams, which are cut into fragments.
    pub(super) datagrams: bool,
}

impl Packets {
    /// Those of an experiment of a run: its command says which.
    pub(super) fn of(run: &Run, experiment: &str) -> Self {
        let mut packets = Self::default();
        let mut experiments = run.experiments.iter();
        let Some(experiment) = experiments.find(|one| one.name == experiment) else {
            return packets;
        };
        let mut words = experiment.command.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "--udp" => packets.datagrams = true,
                "--mtu" => packets.mtu = words.next().and_then(|bytes| bytes.parse().ok()),
                "--link" => {
                    let name = words.next().and_then(|link| link.split(',').next());
                    let link = name.and_then(|name| name.parse::<LinkKind>().ok());
                    packets.mtu = link.and_then(LinkKind::mtu);
                }
                _ => {}
            }
        }
        packets
    }

    /// Bytes of a message that a packet holds, on a path whose own MTU is `own`.
    pub(super) fn segment(self, own: usize) -> f64 {
        let mtu = self.mtu.unwrap_or(own);
        match self.datagrams {
            true => fit::fragment(mtu),
            false => fit::segment(mtu),
        }
    }
}

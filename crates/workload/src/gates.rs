//! The kernel's gates on this host, and the stamps of the ends that run here, behind one set of calls: what the plan leaves to
//! programs and what it leaves to those who call is switched together and comes back together.
//!
//! It never decides which gates are wanted, and never compares times.

use tollgate_gate::{Gate, GateSet};
use tollgate_kernel::{
    Attached, Event, ExtraCost, Fault, Flow, Gates, Injected, Namespace, Plan, ROOM, Taken,
    Traffic, Transfer, Watch, kernel_features,
};

use crate::stamps::{SOCKET_STAMPED, Stamp, Stamps};

/// The gates of this host.
pub struct Keeper {
    plan: Plan,
    /// None where the plan needs no programs.
    programs: Option<Gates>,
    attached: Option<Attached>,
}

impl Keeper {
    /// Tries what this kernel allows, and loads the programs of the plan.
    ///
    /// # Errors
    /// The refusal of the kernel.
    pub fn load() -> Result<Self, tollgate_kernel::Error> {
        Self::load_with_extra_cost(&ExtraCost::default())
    }

    /// Loads programs that cost more than they must, to try what is computed from them.
    ///
    /// # Errors
    /// The refusal of the kernel, or a cost that is too high.
    pub fn load_with_extra_cost(cost: &ExtraCost) -> Result<Self, tollgate_kernel::Error> {
        let plan = Plan::choose(&kernel_features(), Traffic::Ours);
        let programs = plan
            .has_programs()
            .then(|| Gates::load_with_extra_cost(&plan, ROOM, cost))
            .transpose()?;
        Ok(Self {
            plan,
            programs,
            attached: None,
        })
    }

    /// The hooks of the boundaries.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Changes whose packets and threads programs record.
    ///
    /// # Errors
    /// When there are more threads than can be watched.
    pub fn watch(&self, watch: &Watch) -> Result<(), tollgate_kernel::Error> {
        self.programs
            .as_ref()
            .map_or(Ok(()), |programs| programs.watch(watch))
    }

    /// Attaches these gates instead of those before. The ends that stamp here do so from their next slice on.
    ///
    /// # Errors
    /// The refusal of the kernel; nothing stays attached then.
    pub fn attach<'a>(
        &mut self,
        gates: GateSet,
        namespaces: &[Namespace<'_>],
        ends: impl IntoIterator<Item = &'a Stamps>,
    ) -> Result<(), tollgate_kernel::Error> {
        let before = self.attached.take();
        let own = self.plan.own_calls();
        let wanted: GateSet = gates.iter().filter(|&gate| own.contains(gate)).collect();
        for stamps in ends {
            stamps.want(wanted);
        }
        let Some(programs) = &self.programs else {
            return Ok(());
        };
        self.attached = Some(match before {
            Some(before) => programs.attach_instead(before, gates, namespaces)?,
            None => programs.attach(gates, namespaces)?,
        });
        Ok(())
    }

    /// Detaches all gates; the ends stamp nothing any more.
    pub fn detach<'a>(&mut self, ends: impl IntoIterator<Item = &'a Stamps>) {
        self.attached = None;
        for stamps in ends {
            stamps.want(GateSet::EMPTY);
        }
    }

    /// Puts a fault beside a gate until the result is dropped; none where the plan needs no programs.
    ///
    /// # Errors
    /// The refusal of the kernel, or an order that is impossible.
    pub fn inject(
        &self,
        fault: Fault,
        namespaces: &[Namespace<'_>],
    ) -> Result<Option<Injected>, tollgate_kernel::Error> {
        let programs = self.programs.as_ref();
        programs
            .map(|programs| programs.inject(fault, namespaces))
            .transpose()
    }

    /// Takes the events that programs and the ends of this session have recorded since the last time.
    pub fn take(&self, stamps: &Stamps, transfer: Transfer) -> Taken {
        let mut taken = self.programs.as_ref().map(Gates::take).unwrap_or_default();
        let stamps = stamps.take();
        taken
            .events
            .extend(stamps.iter().map(|stamp| event_of(stamp, transfer)));
        taken
    }
}

/// A stamp as an event of the kernel's gates.
pub fn event_of(stamp: &Stamp, transfer: Transfer) -> Event {
    if SOCKET_STAMPED.contains(stamp.gate) {
        of_socket(stamp, transfer)
    } else {
        Event::of_thread(stamp.ktime, stamp.gate, stamp.thread)
    }
}

/// A stamp of a socket.
fn of_socket(stamp: &Stamp, transfer: Transfer) -> Event {
    let receives = matches!(stamp.gate, Gate::DriverOutEnd | Gate::SocketQueued);
    let there = (stamp.thread == transfer.client) != receives;
    let flow = Flow::of_socket(transfer.server_port, there);
    let seq = stamp.message.wrapping_mul(transfer.size);
    Event::of_packet(stamp.ktime, stamp.gate, flow, seq, transfer.size)
}

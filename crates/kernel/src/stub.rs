//! The gates of a build without BPF programs: the same names, and every attempt says why it fails.

use std::convert::Infallible;

use tollgate_gate::GateSet;

use crate::clock;
use crate::error::Error;
use crate::fault::{ExtraCost, Fault};
use crate::hook_support::{HookSupport, Kind};
use crate::plan::{KernelFeature, KernelFeatures, Plan};
use crate::watch::{Namespace, Taken, Watch};

/// Programs that are loaded; this build has none.
#[derive(Debug)]
pub struct Gates(Infallible);

/// Gates that are attached; this build has none.
#[derive(Debug)]
pub struct Attached(Infallible);

/// A fault that is in force; this build has none.
#[derive(Debug)]
pub struct Injected(Infallible);

impl Injected {
    /// The fault.
    pub const fn fault(&self) -> Fault {
        match self.0 {}
    }

    /// Packets, calls or wakeups that it has delayed so far.
    pub const fn runs(&self) -> u64 {
        match self.0 {}
    }
}

/// Like the links that are given back, as that of [`Attached`].
impl Drop for Injected {
    fn drop(&mut self) {}
}

/// Like the links that are given back, so that those who hold them say when they let them go.
impl Drop for Attached {
    fn drop(&mut self) {}
}

impl Attached {
    /// The gates.
    pub const fn gates(&self) -> GateSet {
        match self.0 {}
    }
}

impl Gates {
    /// Loads the programs of a plan.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub const fn load(_plan: &Plan, _room: u32) -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }

    /// Loads the programs of a plan with an extra cost.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub const fn load_with_extra_cost(
        _plan: &Plan,
        _room: u32,
        _cost: &ExtraCost,
    ) -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }

    /// Puts a program on a gate's hook that delays what passes.
    ///
    /// # Errors
    /// None that can come to be.
    pub const fn inject(
        &self,
        _fault: Fault,
        _namespaces: &[Namespace<'_>],
    ) -> Result<Injected, Error> {
        match self.0 {}
    }

    /// The plan whose programs these are.
    pub const fn plan(&self) -> &Plan {
        match self.0 {}
    }

    /// Changes whose packets, calls and wakeups are recorded.
    ///
    /// # Errors
    /// None that can come to be.
    pub const fn watch(&self, _watch: &Watch) -> Result<(), Error> {
        match self.0 {}
    }

    /// Attaches the gates.
    ///
    /// # Errors
    /// None that can come to be.
    pub const fn attach(
        &self,
        _gates: GateSet,
        _namespaces: &[Namespace<'_>],
    ) -> Result<Attached, Error> {
        match self.0 {}
    }

    /// Attaches these gates instead of others.
    ///
    /// # Errors
    /// None that can come to be.
    pub const fn attach_instead(
        &self,
        _before: Attached,
        _gates: GateSet,
        _namespaces: &[Namespace<'_>],
    ) -> Result<Attached, Error> {
        match self.0 {}
    }

    /// Takes what was recorded since the last time.
    pub const fn take(&self) -> Taken {
        match self.0 {}
    }
}

/// Features that this kernel allows: only those that need no programs can be tried.
pub fn kernel_features() -> KernelFeatures {
    clock::without_programs(&Error::NotBuilt.to_string())
}

/// The kinds of hooks that no gate is taken with: without programs none can be tried.
pub fn hook_support() -> Vec<HookSupport> {
    let refused = |kind| HookSupport {
        kind,
        support: KernelFeature::Refused(Error::NotBuilt.to_string()),
    };
    Kind::ALL.into_iter().map(refused).collect()
}

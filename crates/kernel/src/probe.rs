//! Probe of the features that this kernel allows, found out by trying.
//!
//! Owns the programs that it attaches for the trial, which go when [`kernel_features`] returns. It must never leave
//! anything attached, nor change what a packet meets.

use std::collections::{BTreeMap, BTreeSet};

use libbpf_rs::btf::{Btf, types};

use crate::clock;
use crate::gates::attempt;
use crate::hook::{HOOKS, Need};
use crate::plan::{KernelFeature, KernelFeatures};
use crate::sample_hooks;

mod hook_support;
mod trial;

pub use hook_support::hook_support;

/// Tries every kind of hook: loads a program, attaches it, takes it away again. Takes some tens of milliseconds.
pub fn kernel_features() -> KernelFeatures {
    let kernel = match Btf::from_vmlinux() {
        Ok(kernel) => kernel,
        Err(error) => {
            return clock::without_programs(&format!(
                "the kernel's types cannot be read ({error}); a kernel with CONFIG_DEBUG_INFO_BTF has them"
            ));
        }
    };
    let tracepoint_names = needed()
        .filter_map(|need| match need {
            Need::Tracepoint(name) => Some(name),
            Need::Netfilter(_) | Need::Function(_) | Need::OwnCall | Need::OwnSocket => None,
        })
        .filter(|name| {
            kernel
                .type_by_name::<types::Typedef<'_>>(&format!("btf_trace_{name}"))
                .is_some()
        })
        .map(str::to_owned)
        .collect();
    let of_gates = HOOKS.iter().filter_map(|hook| hook.ipv6);
    let of_samples = sample_hooks::HOOKS.iter().filter_map(|hook| hook.ipv6);
    let of_ipv6: BTreeSet<&'static str> = of_gates.chain(of_samples).map(|at| at.name).collect();
    let function_names: BTreeSet<&'static str> = needed()
        .filter_map(|need| match need {
            Need::Function(name) => Some(name),
            Need::Netfilter(_) | Need::Tracepoint(_) | Need::OwnCall | Need::OwnSocket => None,
        })
        .chain(of_ipv6.iter().copied())
        .filter(|name| kernel.type_by_name::<types::Func<'_>>(name).is_some())
        .collect();
    let tried = |what: &str, outcome: Result<(), String>| match outcome {
        Ok(()) => KernelFeature::Works,
        Err(reason) => KernelFeature::Refused(format!("{what} were tried and refused: {reason}")),
    };
    let trial = trial::run(&function_names, &of_ipv6);
    let (functions, unfit) = match trial {
        Err(reason) => (Err(reason), BTreeMap::new()),
        Ok(unfit) if unfit.len() == function_names.len() => {
            let reason = unfit.into_values().next().unwrap_or_default();
            (Err(reason), BTreeMap::new())
        }
        Ok(unfit) => (Ok(()), unfit),
    };
    KernelFeatures {
        types: KernelFeature::Works,
        tracepoints: tried("BPF programs on tracepoints", attempt("net_dev_queue")),
        netfilter: tried("BPF netfilter links", attempt("nf_local_out")),
        functions: tried("BPF programs on functions (fentry)", functions),
        sockets: clock::sockets(),
        clock: clock::clock(),
        tracepoint_names,
        function_names: function_names.into_iter().map(str::to_owned).collect(),
        unfit_functions: unfit
            .into_iter()
            .map(|(name, reason)| (name.to_owned(), reason))
            .collect(),
    }
}

/// Kernel features that hooks need, those of gates and those of samples.
fn needed() -> impl Iterator<Item = Need> {
    let gates = HOOKS.iter().map(|hook| hook.need);
    let samples = sample_hooks::HOOKS.iter().map(|hook| hook.need);
    gates.chain(samples)
}

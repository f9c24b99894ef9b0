//! What this kernel allows, found out by trying.

use std::collections::BTreeSet;

use libbpf_rs::btf::{Btf, types};

use crate::clock;
use crate::gates::attempt;
use crate::hook::{HOOKS, Need};
use crate::observe;
use crate::plan::{Abilities, Ability};

/// Tries every kind of hook: loads a program, attaches it, takes it away again. Takes some tens of milliseconds.
pub fn abilities() -> Abilities {
    let kernel = match Btf::from_vmlinux() {
        Ok(kernel) => kernel,
        Err(error) => {
            return clock::without_programs(&format!(
                "the kernel's types cannot be read ({error}); a kernel with CONFIG_DEBUG_INFO_BTF has them"
            ));
        }
    };
    let tracepoint_names: BTreeSet<String> = needed(|need| match need {
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
    let function_names: BTreeSet<String> = needed(|need| match need {
        Need::Function(name) => Some(name),
        Need::Netfilter(_) | Need::Tracepoint(_) | Need::OwnCall | Need::OwnSocket => None,
    })
    .filter(|name| kernel.type_by_name::<types::Func<'_>>(name).is_some())
    .map(str::to_owned)
    .collect();
    let tried = |what: &str, program: &str| match attempt(program) {
        Ok(()) => Ability::Works,
        Err(reason) => Ability::Refused(format!("{what} were tried and refused: {reason}")),
    };
    Abilities {
        types: Ability::Works,
        tracepoints: tried("BPF programs on tracepoints", "net_dev_queue"),
        netfilter: tried("BPF netfilter links", "nf_local_out"),
        functions: tried("BPF programs on functions (fentry)", "fentry_ip_local_out"),
        sockets: clock::sockets(),
        clock: clock::clock(),
        tracepoint_names,
        function_names,
    }
}

fn needed(name: impl Fn(Need) -> Option<&'static str>) -> impl Iterator<Item = &'static str> {
    let gates = HOOKS.iter().map(|hook| hook.need);
    let samples = observe::hooks::HOOKS.iter().map(|hook| hook.need);
    gates.chain(samples).filter_map(name)
}

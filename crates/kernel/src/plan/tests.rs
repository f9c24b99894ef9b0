//! Plans for kernels that are not running.

use super::*;
use crate::hook::HOOKS;

/// Everything works, with these tracepoints left out.
fn kernel(without: &[&str]) -> KernelFeatures {
    let names = |need: &dyn Fn(Need) -> Option<&'static str>| {
        HOOKS
            .iter()
            .filter_map(|hook| need(hook.need))
            .map(str::to_owned)
            .collect()
    };
    KernelFeatures {
        types: KernelFeature::Works,
        tracepoints: KernelFeature::Works,
        netfilter: KernelFeature::Works,
        functions: KernelFeature::Works,
        clock: KernelFeature::Works,
        sockets: KernelFeature::Works,
        tracepoint_names: names(&|need| match need {
            Need::Tracepoint(name) => (!without.contains(&name)).then_some(name),
            Need::Netfilter(_) | Need::Function(_) | Need::OwnCall | Need::OwnSocket => None,
        }),
        function_names: HOOKS
            .iter()
            .flat_map(Hook::functions)
            .map(str::to_owned)
            .collect(),
        unfit_functions: BTreeMap::new(),
    }
}

fn refused(reason: &str) -> KernelFeature {
    KernelFeature::Refused(reason.to_owned())
}

/// Linux 6.18 with fentry forbidden: tracepoints and netfilter links.
fn level_a() -> KernelFeatures {
    KernelFeatures {
        functions: refused("fentry: EPERM"),
        function_names: BTreeSet::new(),
        ..kernel(&[])
    }
}

/// Linux 6.1 as Debian has it: fentry, but neither netfilter links (6.4) nor the tracepoints of 6.3 and 6.16.
fn level_b() -> KernelFeatures {
    KernelFeatures {
        netfilter: refused("BPF netfilter links came with Linux 6.4"),
        ..kernel(&["tcp_sendmsg_locked", "sk_data_ready"])
    }
}

#[test]
fn tracepoints_and_netfilter_links_resolve_every_boundary() {
    let plan = Plan::choose(&level_a(), Traffic::Ours);
    assert_eq!(plan.gates(), KERNEL.gates());
    assert_eq!(plan.table(GateSet::EMPTY), Some(KERNEL));
    assert_eq!(
        plan.hook(Gate::IpOutBegin).unwrap().name,
        "netfilter LOCAL_OUT"
    );
    assert!(
        plan.boundaries().iter().all(
            |boundary| boundary.hook == Hook::of(boundary.gate).find(|hook| !is_function(hook))
        )
    );
}

fn is_function(hook: &Hook) -> bool {
    matches!(hook.need, Need::Function(_))
}

#[test]
fn where_everything_is_allowed_the_hook_nearest_to_each_boundary_is_taken() {
    let plan = Plan::choose(&kernel(&[]), Traffic::Ours);
    for boundary in plan.boundaries() {
        assert_eq!(boundary.hook, Hook::of(boundary.gate).next());
        assert!(boundary.missed.is_empty());
    }
    assert_eq!(
        plan.hook(Gate::TcpOutBegin).unwrap().name,
        "tcp_sendmsg_locked"
    );
    let out = plan.boundary(Gate::IpOutBegin).unwrap();
    assert_eq!(
        out.programs,
        ["fentry_ip_queue_xmit", "fentry_inet6_csk_xmit"]
    );
}

#[test]
fn a_function_that_segments_do_not_pass_is_not_taken() {
    let kernel_features = |name: &str| KernelFeatures {
        unfit_functions: [(name.to_owned(), "nobody calls it".to_owned())].into(),
        ..kernel(&[])
    };
    let plan = Plan::choose(&kernel_features("tcp_v4_rcv"), Traffic::Ours);
    let demux = plan.boundary(Gate::DemuxBegin).unwrap();
    assert_eq!(demux.programs, ["nf_local_in"]);
    assert_eq!(demux.missed[0].1, "nobody calls it");
    // Only IPv6 is not seen then, which is said.
    let plan = Plan::choose(&kernel_features("tcp_v6_rcv"), Traffic::Ours);
    let demux = plan.boundary(Gate::DemuxBegin).unwrap();
    assert_eq!(demux.programs, ["fentry_tcp_v4_rcv"]);
    assert_eq!(demux.missed[0].1, "it does not see IPv6: nobody calls it");
}

#[test]
fn where_newer_hooks_are_missing_functions_take_their_place() {
    let plan = Plan::choose(&level_b(), Traffic::Ours);
    let name = |gate| plan.hook(gate).map(|hook| hook.name);
    assert_eq!(name(Gate::TcpOutBegin), Some("fentry tcp_sendmsg_locked"));
    assert_eq!(name(Gate::IpOutBegin), Some("fentry ip_queue_xmit"));
    assert_eq!(name(Gate::DemuxBegin), Some("fentry tcp_v4_rcv"));
    assert_eq!(name(Gate::SocketQueued), Some("fentry sock_def_readable"));
    assert_eq!(name(Gate::TcpInBegin), Some("tcp_probe"));
    assert_eq!(plan.table(GateSet::EMPTY), Some(KERNEL));
    let missed = &plan.boundaries()[1].missed;
    assert_eq!(
        missed[0].1,
        "this kernel has no tracepoint tcp_sendmsg_locked"
    );
}

#[test]
fn without_netfilter_links_and_fentry_rows_are_joined() {
    let plan = Plan::choose(
        &KernelFeatures {
            netfilter: refused("no netfilter links"),
            ..level_a()
        },
        Traffic::Ours,
    );
    let table = plan.table(GateSet::EMPTY).unwrap();
    let names: Vec<&str> = table.spans().iter().map(|span| span.name).collect();
    assert!(names.contains(&"tcp + ip") && names.contains(&"ip + demux"));
    assert_eq!(table.spans().len(), KERNEL.spans().len() - 2);
    let out = plan
        .boundaries()
        .iter()
        .find(|boundary| boundary.gate == Gate::IpOutBegin)
        .unwrap();
    assert_eq!((out.hook, out.missed.len()), (None, 2));
}

#[test]
fn nobody_who_polls_is_woken() {
    let except = GateSet::of(&[Gate::ReaderRuns]);
    let table = Plan::choose(&level_a(), Traffic::Ours)
        .table(except)
        .unwrap();
    assert!(!table.gates().contains(Gate::ReaderRuns));
    assert!(
        table
            .spans()
            .iter()
            .any(|span| span.name == "wakeup + resume")
    );
}

#[test]
fn an_unprivileged_kernel_has_no_gates_and_says_why() {
    let plan = Plan::choose(&KernelFeatures::none("not root"), Traffic::Ours);
    assert!(plan.gates().is_empty());
    assert_eq!(plan.table(GateSet::EMPTY), None);
    for boundary in plan.boundaries() {
        assert!(
            boundary
                .missed
                .iter()
                .all(|(_, reason)| reason == "not root")
        );
        assert!(!boundary.missed.is_empty());
    }
}

#[test]
fn every_gate_of_the_kernel_has_a_hook_and_every_program_one_gate() {
    for gate in KERNEL.gates().without(Gate::ApplicationEnd).iter() {
        assert!(Hook::of(gate).next().is_some(), "{}", gate.name());
    }
    let programs: Vec<&str> = HOOKS
        .iter()
        .flat_map(|hook| {
            hook.program
                .into_iter()
                .chain(hook.ipv6.map(|ipv6| ipv6.program))
        })
        .collect();
    let different: BTreeSet<&str> = programs.iter().copied().collect();
    assert_eq!(programs.len(), different.len());
}

#[test]
fn calls_that_are_ours_need_no_slow_path() {
    let own = GateSet::of(&[Gate::SocketOutBegin, Gate::SocketInEnd, Gate::SocketOutEnd]);
    let ours = Plan::choose(&level_a(), Traffic::Ours);
    assert_eq!(ours.own_calls(), own);
    let others = Plan::choose(&level_a(), Traffic::Others);
    assert!(others.own_calls().is_empty());
    assert_eq!(others.gates(), ours.gates());
    for gate in own.iter() {
        let name = others.hook(gate).unwrap().name;
        assert!(name.starts_with("sys_"), "{name}");
    }
}

#[test]
fn another_clock_than_the_kernels_leaves_the_calls_to_the_kernel() {
    let kernel_features = KernelFeatures {
        clock: refused("in a time namespace"),
        ..level_a()
    };
    let plan = Plan::choose(&kernel_features, Traffic::Ours);
    assert!(plan.own_calls().is_empty());
    assert_eq!(plan.hook(Gate::SocketOutBegin).unwrap().name, "sys_enter");
    let missed = &plan.boundaries()[0].missed;
    assert_eq!(missed[0].1, "in a time namespace");
}

/// Nobody special: no program is allowed.
fn level_c() -> KernelFeatures {
    KernelFeatures {
        clock: KernelFeature::Works,
        sockets: KernelFeature::Works,
        ..KernelFeatures::none("not root")
    }
}

#[test]
fn without_privilege_calls_and_sockets_give_fewer_rows() {
    let plan = Plan::choose(&level_c(), Traffic::Ours);
    assert!(!plan.has_programs());
    let table = plan.table(GateSet::EMPTY).unwrap();
    let names: Vec<&str> = table.spans().iter().map(|span| span.name).collect();
    assert_eq!(
        names,
        [
            "socket + tcp + ip",
            "device.queue",
            "driver",
            "ip.queue + ip + demux + tcp",
            "wakeup + resume + socket",
            "application",
            "send.return"
        ]
    );
    let others = Plan::choose(&level_c(), Traffic::Others);
    assert!(others.gates().is_empty());
}

#[test]
fn stamps_of_sockets_never_stand_beside_programs() {
    let kernel_features = kernel(&["net_dev_queue"]);
    let plan = Plan::choose(&kernel_features, Traffic::Ours);
    assert!(plan.has_programs());
    assert_eq!(plan.hook(Gate::DeviceQueueIn), None);
}

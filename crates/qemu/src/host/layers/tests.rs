use super::super::profile::CallNode;
use super::*;

const RULES: &str = r#"
    inherit = ["memcpy", "kmem_*", "_raw_*"]
    [[layer]]
    id = "tick"
    label = "Tick"
    layer = "scheduler"
    whole = ["sysvec_*"]
    [[layer]]
    id = "tcp"
    label = "TCP"
    layer = "tcp"
    functions = ["tcp_*", "kmem_cache_for_tcp"]
    [[layer]]
    id = "ip"
    label = "IP"
    layer = "ip"
    functions = ["ip_*", "tcp_v4_rcv"]
    [[operation]]
    id = "input"
    workload = "one-way"
    layers = ["tcp"]
    under = "sys_sendto"
    except = "sysvec_timer"
    per = "tcp_v4_rcv"
    counted = "here"
    [[operation]]
    id = "copy"
    workload = "one-way"
    function = "memcpy"
    counted = "there"
    [[operation]]
    id = "never"
    workload = "one-way"
    function = "tcp_never"
    counted = "nowhere"
"#;

fn way(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn region(places: &[(&str, u64)], calls: &[(&str, u64)]) -> Region {
    let place = |&(text, instructions): &(&str, u64)| CallNode {
        way: way(text),
        count: InstructionCount {
            instructions,
            repetitions: 1,
        },
    };
    Region {
        user: InstructionCount {
            instructions: 9,
            repetitions: 0,
        },
        places: places.iter().map(place).collect(),
        calls: calls
            .iter()
            .map(|(text, times)| (way(text), *times))
            .collect(),
    }
}

fn id<'a>(rules: &'a Rules, text: &str) -> Option<&'a str> {
    rules
        .layer(&way(text))
        .map(|layer| rules.layers[layer].id.as_str())
}

#[test]
fn the_rules_hold_in_their_order() {
    let rules = Rules::parse(RULES).unwrap();
    for (text, expected) in [
        ("sys_sendto tcp_ack", Some("tcp")),
        ("sys_sendto ip_rcv", Some("ip")),
        // The name itself goes before the beginning of the name.
        ("ip_rcv tcp_v4_rcv", Some("ip")),
        // A helper belongs to its caller, through other helpers.
        ("ip_rcv tcp_ack kmem_alloc memcpy", Some("tcp")),
        ("ip_rcv memcpy", Some("ip")),
        ("ip_rcv kmem_cache_for_tcp", Some("tcp")),
        // Below a whole function everything is its own.
        ("tcp_ack sysvec_timer tcp_write_timer memcpy", Some("tick")),
        // Nothing is guessed.
        ("tcp_ack unknown", None),
        ("tcp_ack unknown memcpy", None),
        ("memcpy", None),
    ] {
        assert_eq!(id(&rules, text), expected, "{text}");
    }
}

#[test]
fn every_instruction_is_in_one_row() {
    let rules = Rules::parse(RULES).unwrap();
    let region = region(
        &[
            ("a", 5),
            ("a tcp_ack", 30),
            ("a tcp_ack memcpy", 4),
            ("a ip_rcv", 20),
            ("b", 7),
            ("c b", 1),
        ],
        &[],
    );
    let (layers, others) = rules.layers(&region);
    let rows: Vec<(&str, u64, u64)> = layers
        .iter()
        .map(|row| {
            (
                row.id.as_str(),
                row.count.instructions,
                row.count.repetitions,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("user", 9, 0),
            ("tick", 0, 0),
            ("tcp", 34, 2),
            ("ip", 20, 1)
        ]
    );
    let others: Vec<(&str, u64)> = others
        .iter()
        .map(|row| (row.function.as_str(), row.count.instructions))
        .collect();
    assert_eq!(others, [("b", 8), ("a", 5)]);
    let sum =
        rows.iter().map(|row| row.1).sum::<u64>() + others.iter().map(|row| row.1).sum::<u64>();
    assert_eq!(sum, region.total().instructions);
}

#[test]
fn an_operation_is_what_its_layers_do_under_its_function_for_each_call() {
    let rules = Rules::parse(RULES).unwrap();
    let region = region(
        &[
            ("sys_sendto tcp_v4_rcv tcp_ack", 30),
            ("sys_sendto tcp_v4_rcv tcp_ack memcpy", 10),
            ("sys_sendto tcp_v4_rcv", 3),
            ("sys_sendto sysvec_timer tcp_ack", 100),
            ("sys_recv tcp_v4_rcv tcp_ack", 100),
        ],
        &[
            ("sys_sendto tcp_v4_rcv", 2),
            ("sys_recv tcp_v4_rcv", 5),
            ("sys_sendto tcp_v4_rcv tcp_ack memcpy", 4),
        ],
    );
    let operations = rules.operations(Workload::OneWay, &region);
    let found: Vec<(&str, u64, f64)> = operations
        .iter()
        .map(|operation| (operation.id.as_str(), operation.times, operation.each()))
        .collect();
    assert_eq!(found, [("input", 2, 20.0), ("copy", 4, 2.5)]);
    assert_eq!(rules.operations(Workload::RequestResponse, &region), []);
}

#[test]
fn rules_that_contradict_themselves_are_refused() {
    for (from, to) in [
        ("\"memcpy\", ", "\"memcpy\", \"memcpy\", "),
        ("\"ip_*\"", "\"tcp_*\""),
        ("layers = [\"tcp\"]", "layers = [\"udp\"]"),
        ("under = \"sys_sendto\"", ""),
        ("function = \"memcpy\"", ""),
        ("label = \"Tick\"", "label = \"Tick\"\nhalf = []"),
    ] {
        let text = RULES.replacen(from, to, 1);
        assert_ne!(text, RULES, "{from}");
        assert!(
            matches!(Rules::parse(&text), Err(Error::Rules { .. })),
            "{to}"
        );
    }
}

#[test]
fn the_rules_that_come_along_can_be_read() {
    let rules = Rules::built_in().unwrap();
    for (text, expected) in [
        (
            "do_syscall_64 __sys_sendto tcp_sendmsg tcp_sendmsg_locked _copy_from_iter copy_user_enhanced_fast_string",
            "copy",
        ),
        (
            "tcp_sendmsg_locked tcp_stream_alloc_skb __alloc_skb kmem_cache_alloc_node memset",
            "buffer",
        ),
        (
            "tcp_write_xmit __tcp_transmit_skb __x86_indirect_thunk_rax",
            "tcp-output",
        ),
        (
            "tcp_rcv_established tcp_ack tcp_rearm_rto sk_reset_timer mod_timer __mod_timer",
            "timer",
        ),
        (
            "tcp_rcv_established sock_def_readable __wake_up_sync_key try_to_wake_up update_curr",
            "wakeup",
        ),
        (
            "sk_wait_data schedule_timeout schedule __schedule psi_task_switch",
            "schedule",
        ),
        (
            "tcp_ack asm_sysvec_apic_timer_interrupt sysvec_apic_timer_interrupt tick_sched_timer",
            "interrupt",
        ),
        (
            "ip_local_deliver_finish tcp_v4_rcv __inet_lookup_established inet_ehashfn",
            "lookup",
        ),
        ("ip_output nf_hook_slow apparmor_ip_postroute", "netfilter"),
        // A thread of the kernel that began while its calls were followed.
        ("ret_from_fork kthread", "schedule"),
        (
            "ret_from_fork kthread worker_thread process_one_work vmstat_update",
            "background",
        ),
    ] {
        assert_eq!(id(&rules, text), Some(expected), "{text}");
    }
}

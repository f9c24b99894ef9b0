//! Boots a stock kernel in QEMU and counts: the counts are those of the guest's own clock, and the same in every run.
//!
//! Leaves itself out, with the reason, where QEMU or the kernel's package cannot be had.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tollgate_qemu::Error;
use tollgate_qemu::layers::Rules;
use tollgate_qemu::measure::{Setup, Traced};
use tollgate_qemu::protocol::{Task, Workload};

mod stock;

const TASKS: [Task; 2] = [
    Task {
        workload: Workload::RequestResponse,
        size: 200,
        count: 40,
    },
    Task {
        workload: Workload::OneWay,
        size: 1_400,
        count: 40,
    },
];

#[test]
fn two_boots_count_the_same_and_agree_with_the_guests_clock() {
    let kernel = match stock::kernel() {
        Ok(kernel) => kernel,
        Err(reason) => {
            println!("left out: {reason}");
            return;
        }
    };
    let (guest, plugin) = stock::parts();
    let rules = Rules::built_in().unwrap();
    let setup = Setup {
        kernel: &kernel,
        guest: &guest,
        plugin: &plugin,
        tasks: &TASKS,
        rules: &rules,
        limit: Duration::from_secs(300),
    };
    let go_on = AtomicBool::new(false);
    let first = setup.count(&go_on).unwrap();
    let second = setup.count(&go_on).unwrap();
    if let Err(difference) = first.same_as(&second) {
        panic!("{}", difference.0);
    }
    let clocks: Vec<u64> = first
        .counts
        .regions
        .iter()
        .map(|region| region.clock)
        .collect();
    assert_eq!(
        setup.clocks_alone(&go_on).unwrap(),
        clocks,
        "the plugin disturbs the guest"
    );

    let [round_trip, one_way] = first.counts.regions.as_slice() else {
        panic!("{:?}", first.counts.regions)
    };
    assert_eq!(round_trip.clock_differs_by(), Some(0));
    for region in [round_trip, one_way] {
        let rows: u64 = region
            .layers
            .iter()
            .map(|layer| layer.count.instructions)
            .sum();
        assert_eq!(
            rows + region.other().instructions,
            region.total.instructions
        );
        assert!(region.share_uncovered() < 0.05, "{:?}", region.others);
    }
    // A request and its response are two segments, each acknowledging the one before.
    let profile = &first.profiles[0];
    for (function, times) in [
        ("tcp_v4_rcv", 80),
        ("__sys_sendto", 80),
        ("loopback_xmit", 80),
    ] {
        let found = profile.calls_of(function);
        assert!((times..=times + 2).contains(&found), "{function}: {found}");
    }
    let operations: Vec<&str> = one_way
        .operations
        .iter()
        .map(|operation| operation.id.as_str())
        .collect();
    assert_eq!(operations.len(), 10, "{operations:?}");
    // One way, half of the segments are acknowledgments without data.
    let times = |id: &str| {
        one_way
            .operations
            .iter()
            .find(|operation| operation.id == id)
            .unwrap()
            .times
    };
    assert_eq!((times("tcp-input-receiver"), times("ip-input")), (40, 80));

    // The kernel's own tracer agrees. What it costs itself is measured on one function that wakes nobody, and on one that
    // does, since it also notes down who was woken.
    let without = ["tcp_release_cb", "tcp_ack", "__inet_lookup_established"];
    let with = [
        "tcp_data_ready",
        "tcp_v4_rcv",
        "ip_queue_xmit",
        "__dev_queue_xmit",
    ];
    let traced = setup
        .traced(&[&without[..], &with].concat(), &go_on)
        .unwrap();
    assert_eq!(traced.len(), without.len() + with.len());
    let counted = |function: &str| {
        profile.within(function).steps() as f64 / profile.calls_of(function) as f64
    };
    let seen = |traced: &Traced| traced.ns as f64 / traced.calls as f64;
    for group in [&traced[..without.len()], &traced[without.len()..]] {
        let cost = seen(&group[0]) - counted(&group[0].function);
        println!("function_graph costs {cost:.1} instructions");
        for one in &group[1..] {
            let (seen, counted) = (seen(one) - cost, counted(&one.function));
            println!(
                "{}: function_graph {seen:.1}, counted {counted:.1}",
                one.function
            );
            assert!((seen / counted - 1.0).abs() < 0.05, "{}", one.function);
        }
    }

    // A machine that takes too long, and one that is not wanted any more, are ended.
    let hurried = Setup {
        limit: Duration::from_millis(300),
        ..setup.clone()
    };
    assert!(matches!(hurried.count(&go_on), Err(Error::Late { .. })));
    assert!(matches!(
        setup.count(&AtomicBool::new(true)),
        Err(Error::Stopped)
    ));
}

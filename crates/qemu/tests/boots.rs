//! Boots a stock kernel in QEMU and counts: the counts are those of the guest's own clock, and the same in every run.
//!
//! Leaves itself out, with the reason, where QEMU or the kernel's package cannot be had.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tollgate_qemu::Error;
use tollgate_qemu::layers::Rules;
use tollgate_qemu::measure::{Setup, Traced};
use tollgate_qemu::protocol::{Task, Workload};

mod stock;

const COMMANDS: [Task; 2] = [
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

/// Runs a check with a stock kernel that does these tasks, or says why there is none.
fn with_setup(tasks: &[Task], then: impl FnOnce(&Setup<'_>)) {
    let kernel = match stock::kernel() {
        Ok(kernel) => kernel,
        Err(reason) => {
            tollgate_skip::skipped!("{reason}");
            return;
        }
    };
    let (guest, plugin) = stock::parts();
    then(&Setup {
        kernel: &kernel,
        guest: &guest,
        plugin: &plugin,
        tasks,
        rules: &Rules::built_in().unwrap(),
        limit: Duration::from_secs(300),
    });
}

#[test]
fn two_boots_count_the_same_and_agree_with_the_guests_clock() {
    with_setup(&COMMANDS, count_twice);
}

fn count_twice(setup: &Setup<'_>) {
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

/// QEMU's main loop moves an idle guest's clock on, and a busy host decides when it runs. Here it runs all the time.
#[test]
fn the_guests_clock_is_the_same_however_often_qemu_looks_at_it() {
    let task = Task {
        workload: Workload::OneWay,
        size: 1_400,
        // Two milliseconds of rest behind each message.
        count: 1_000,
    };
    with_setup(&[task], tell_the_time_while_woken);
}

fn tell_the_time_while_woken(setup: &Setup<'_>) {
    let go_on = AtomicBool::new(false);
    let left_alone = setup.clocks_alone(&go_on).unwrap();
    let done = AtomicBool::new(false);
    let (woken, signals) = std::thread::scope(|scope| {
        let waking = scope.spawn(|| wake_main_loops(&done));
        let clocks = setup.clocks_alone(&go_on);
        done.store(true, Ordering::Relaxed);
        (clocks.unwrap(), waking.join().unwrap())
    });
    println!("QEMU's main loop was woken {signals} times");
    assert!(signals > 0);
    assert_eq!(woken, left_alone);
}

/// Wakes the main loop of each QEMU that this process has started until it is `done`; returns how often.
fn wake_main_loops(done: &AtomicBool) -> u64 {
    let mut signals = 0;
    while !done.load(Ordering::Relaxed) {
        for child in children().into_iter().filter(|&child| is_listening(child)) {
            // Looked for now and then only: that takes longer than a signal.
            for _ in 0..100 {
                if kill_process(child, Signal::IO).is_ok() {
                    signals += 1;
                }
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    signals
}

/// The processes that this one has started.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let lists = threads.filter_map(|thread| {
        // A thread may have ended by now.
        fs::read_to_string(thread.ok()?.path().join("children")).ok()
    });
    let numbers: Vec<String> = lists.collect();
    let numbers = numbers.iter().flat_map(|list| list.split_whitespace());
    numbers
        .filter_map(|number| Pid::from_raw(number.parse().ok()?))
        .collect()
}

/// Tells whether a process is a QEMU whose main loop waits for signals: any other one would be ended by this signal. One that starts a
/// thread blocks all signals for a moment, and before its main loop is set up it lets them through again.
fn is_listening(process: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    let blocked = field("SigBlk").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let blocks = |mask: u64, signal: Signal| mask & (1 << (signal.as_raw() - 1)) != 0;
    field("Name").is_some_and(|name| name.starts_with("qemu"))
        && blocked.is_some_and(|mask| blocks(mask, Signal::IO) && !blocks(mask, Signal::TERM))
}

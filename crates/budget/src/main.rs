//! Exact instruction counts by Callgrind, held against budgets.
mod callgrind;
mod hosts;
use hosts::Hosts;
use tollgate_stack::config::ChecksumPolicy;

#[inline(never)]
fn rr(size: usize, n: usize, policy: ChecksumPolicy) {
    let mut hosts = Hosts::new(16, 1500, |c| { c.no_delay = true; c.mechanisms.checksum = policy; });
    let pair = hosts.connect();
    let message = vec![7u8; size];
    let mut buffer = vec![0u8; size];
    for _ in 0..100 { hosts.round_trip(pair, &message, &mut buffer); }
    callgrind::toggle_collect();
    run(&mut hosts, pair, n, &message, &mut buffer);
    callgrind::toggle_collect();
    let c = hosts.client.counters();
    eprintln!("predicted {} misses {:?}", c.predicted, c.misses);
}
#[inline(never)]
fn run(hosts: &mut Hosts, pair: (tollgate_stack::ConnId, tollgate_stack::ConnId), n: usize, message: &[u8], buffer: &mut [u8]) {
    for _ in 0..n { hosts.round_trip(pair, message, buffer); }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let size = a[1].parse().unwrap(); let n = a[2].parse().unwrap();
    let policy = if a.get(3).is_some() { ChecksumPolicy::Off } else { ChecksumPolicy::Always };
    let t = std::time::Instant::now();
    rr(size, n, policy);
    eprintln!("{:?} per rt", t.elapsed() / n as u32);
}

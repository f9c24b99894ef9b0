//! A round trip over loopback, span by span: `cargo run --release -p tollgate-kernel --features bpf --example rotation [SIZE]`.
//!
//! It shows the whole way through this crate: abilities, plan, loading, slices with two gates each, joining, the ledger.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use tollgate_gate::{
    Gate, GateSet, JoinPlan, Ledger, Recorded, Scope, Slice, Statistic, TickScale, join,
};
use tollgate_kernel::{Gates, Joiner, Namespace, Plan, Talk, Traffic, Watch, abilities};

const ROUND_TRIPS: u64 = 512;
const ROUNDS: u32 = 6;

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn main() -> Result<(), Box<dyn Error>> {
    let size: usize = std::env::args()
        .nth(1)
        .map_or(Ok(200), |text| text.parse())?;
    let began = Instant::now();
    let abilities = abilities();
    println!("abilities after {:?}", began.elapsed());
    let plan = Plan::choose(&abilities, Traffic::Others);
    let gates = Gates::load(&plan, 1 << 14)?;
    println!("loaded after {:?}", began.elapsed());
    for boundary in plan.boundaries() {
        println!(
            "  {:<20} {:?}",
            boundary.gate.name(),
            boundary.hook.map(|hook| hook.name)
        );
    }

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut mask = rustix::thread::CpuSet::new();
        mask.set(1);
        rustix::thread::sched_setaffinity(None, &mask)?;
        let _ = tell.send(thread_id());
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut buffer = vec![0; size];
        loop {
            stream.read_exact(&mut buffer)?;
            stream.write_all(&buffer)?;
        }
    });
    let mut mask = rustix::thread::CpuSet::new();
    mask.set(0);
    rustix::thread::sched_setaffinity(None, &mask)?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    let talk = Talk {
        far_port: port,
        near: thread_id(),
        far: told.recv()?,
        size: size as u32,
    };
    gates.watch(&Watch {
        ports: vec![port],
        threads: vec![talk.near, talk.far],
        acknowledgments: false,
    })?;
    let mut buffer = vec![0; size];
    let mut run = |samples: &mut dyn FnMut(f64)| -> std::io::Result<()> {
        for _ in 0..ROUND_TRIPS {
            let began = Instant::now();
            stream.write_all(&buffer)?;
            stream.read_exact(&mut buffer)?;
            samples(began.elapsed().as_nanos() as f64);
        }
        Ok(())
    };

    let table = plan.table(GateSet::EMPTY).ok_or("too few gates")?;
    let mut ledger = Ledger::new(table, Scope::RoundTrip);
    let mut joiner = Joiner::new(talk);
    let scale = TickScale::NANOSECONDS;
    let learn = gates.attach(GateSet::of(&[Gate::TcpOutBegin]), &[Namespace::Own])?;
    run(&mut |_| ())?;
    drop(learn);
    joiner.tie(&gates.take().events);
    let mut attaching = std::time::Duration::ZERO;
    for round in 0..ROUNDS {
        for span in table.spans() {
            let from = span.gates().iter().next().ok_or("a span has gates")?;
            let from = if from == Gate::ApplicationEnd {
                Gate::SocketOutBegin
            } else {
                from
            };
            let began = Instant::now();
            let twins = gates.attach_twins(from, &[Namespace::Own])?;
            attaching += began.elapsed();
            run(&mut |_| ())?;
            drop(twins);
            let taken = gates.take();
            let mut costs: Vec<f64> = taken
                .events
                .chunks_exact(2)
                .filter(|pair| !pair[0].is_twin() && pair[1].is_twin())
                .map(|pair| (pair[1].ktime - pair[0].ktime) as f64)
                .collect();
            costs.sort_by(f64::total_cmp);
            let probe_ns = costs.get(costs.len() / 2).copied().unwrap_or(0.0);

            let mut active = span.gates();
            if active.contains(Gate::ApplicationEnd) {
                active = active.with(Gate::SocketOutBegin);
            }
            let attached = gates.attach(active, &[Namespace::Own])?;
            let mut gated = Vec::new();
            run(&mut |ns| gated.push(ns))?;
            drop(attached);
            let taken = gates.take();
            let tied = joiner.tie(&taken.events);
            let joined = join(
                [Recorded {
                    events: &tied.events,
                    lost: taken.lost,
                }],
                JoinPlan::new(span.gates(), scale),
            );
            let slice = Slice {
                active: span.gates(),
                units: ROUND_TRIPS,
                probe_ns,
                scale,
            };
            ledger.add_slice(&slice, &joined);
            if round == 0 {
                println!(
                    "{:<12} probe {probe_ns:>4.0} gated {:.0} {:?} {:?}",
                    span.name,
                    gated.iter().sum::<f64>() / gated.len() as f64,
                    tied.counts,
                    joined.stats
                );
            }
            gated.iter().for_each(|&ns| ledger.add_gated_ns(ns));
            run(&mut |ns| ledger.add_ungated_ns(ns))?;
        }
    }
    for statistic in [Statistic::Mean, Statistic::TrimmedMean, Statistic::Median] {
        println!("{statistic:?}");
        for (index, span) in table.spans().iter().enumerate() {
            println!(
                "  {:<9} {:<14} {:>8.0}",
                span.direction.name(),
                span.name,
                ledger.own_per_unit_ns(index, statistic).unwrap_or(f64::NAN)
            );
        }
        println!(
            "  sum {:?} ungated {:?} closure {:?} perturbation {:?}",
            ledger.sum_ns(statistic),
            ledger.ungated().map(|s| (s.mean_ns, s.p50_ns)),
            ledger.closure_by(statistic),
            ledger.perturbation(statistic)
        );
    }
    println!(
        "attaching {attaching:?}, joined {:?}, lost {}",
        ledger.join_rate(),
        ledger.lost_events()
    );
    Ok(())
}

//! Accuracy of injected delays: the time between a gate and a second copy of it on the same hook, with and without a delay between
//! the two. Runs are interleaved. The columns are: no fault, delays of 0, 300 ns, 3 us and 20 us, and 32 KiB touched. Netfilter's hooks
//! are left out: priorities put a fault behind both copies.
//!
//! Usage: `delay [RUNS]`; needs root.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use tollgate_gate::{Gate, GateSet};
use tollgate_kernel::{
    Fault, FaultKind, Gates, Namespace, Plan, ROOM, Side, Traffic, Watch, kernel_features,
};

fn main() -> Result<(), Box<dyn Error>> {
    let runs = std::env::args()
        .nth(1)
        .map_or(Ok(20), |text| text.parse())?;
    let plan = Plan::choose(&kernel_features(), Traffic::Others);
    let (first, second) = (Gates::load(&plan, ROOM)?, Gates::load(&plan, ROOM)?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    let watch = Watch {
        ports: vec![listener.local_addr()?.port()],
        ..Watch::default()
    };
    first.watch(&watch)?;
    second.watch(&watch)?;
    let kinds = [
        None,
        Some(FaultKind::Delay(Duration::ZERO)),
        Some(FaultKind::Delay(Duration::from_nanos(300))),
        Some(FaultKind::Delay(Duration::from_micros(3))),
        Some(FaultKind::Delay(Duration::from_micros(20))),
        Some(FaultKind::Touch32KiB),
    ];
    for gate in [Gate::TcpOutBegin, Gate::DeviceQueueIn, Gate::SocketQueued] {
        let mut times = [const { Vec::new() }; 6];
        for _ in 0..runs {
            for (kind, times) in kinds.iter().zip(&mut times) {
                let attached = first.attach(GateSet::of(&[gate]), &[Namespace::Own])?;
                let side = Side::Behind;
                let injected = kind
                    .map(|kind| first.inject(Fault { gate, side, kind }, &[Namespace::Own]))
                    .transpose()?;
                let again = second.attach(GateSet::of(&[gate]), &[Namespace::Own])?;
                let mut buffer = [0; 64];
                for _ in 0..500 {
                    client.write_all(&buffer)?;
                    server.read_exact(&mut buffer)?;
                }
                drop((attached, injected, again));
                let (from, to) = (first.take().events, second.take().events);
                times.extend(
                    from.iter()
                        .zip(&to)
                        .filter(|(from, to)| from.seq == to.seq)
                        .map(|(from, to)| to.ktime as i64 - from.ktime as i64),
                );
            }
        }
        let medians = times.map(|mut times| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or(0)
        });
        println!("{:20} ns between: {medians:?}", gate.name());
    }
    Ok(())
}

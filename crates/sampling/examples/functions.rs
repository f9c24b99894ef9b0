//! Prints where the kernel spends its time for an echo over loopback: by function, with callers. For those who write a category
//! file: `cargo run --release -p tollgate-kernel --example functions -- FILE [tcp|udp] [BYTES] [SECONDS]`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use tollgate_sampling::{CallPaths, Categories, Classifier, Profile, RATE, Sampler, Symbols};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("give a category file")?;
    let protocol = arguments.next().unwrap_or_else(|| "tcp".to_owned());
    let size: usize = arguments.next().map_or(Ok(1_000), |word| word.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(2.0), |word| word.parse())?;
    let categories = Categories::parse(&file, &std::fs::read_to_string(&file)?)?;
    let mut call_paths = CallPaths::new(Symbols::read()?);
    let cpus: Vec<usize> = (0..std::thread::available_parallelism()?.get()).collect();
    let mut sampler = Sampler::open(&cpus, RATE)?;
    let mut profile = Profile::default();
    let time = Duration::from_secs_f64(seconds);
    sampler.start()?;
    let slice = Duration::from_secs_f64(sampler.longest_s().min(0.5));
    let begun = Instant::now();
    let mut run: Box<dyn FnMut() -> std::io::Result<()>> = match protocol.as_str() {
        "udp" => udp(size)?,
        _ => tcp(size)?,
    };
    let mut last = Instant::now();
    while begun.elapsed() < time {
        run()?;
        if last.elapsed() > slice {
            sampler.drain(&mut call_paths, &mut profile);
            last = Instant::now();
        }
    }
    sampler.stop()?;
    sampler.drain(&mut call_paths, &mut profile);
    let mut classifier = Classifier::new(categories);
    let shown = classifier.breakdown(&call_paths, &profile);
    let total = shown.total().weight.max(1) as f64;
    println!(
        "{} samples by {}, {} lost, {} throttled; user {}, idle {}, others {}, excluded {}",
        profile.samples(),
        sampler.clock(),
        profile.lost,
        profile.throttled,
        shown.user.samples,
        shown.idle.samples,
        shown.foreign.samples,
        shown.excluded.samples
    );
    for (category, share) in classifier.categories().categories.iter().zip(&shown.shares) {
        println!(
            "{:>6.2} %  {}",
            100.0 * share.count.weight as f64 / total,
            category.name
        );
        for (part, count) in category.parts.iter().zip(&share.parts) {
            println!("{:>10.2} %  {part}", 100.0 * count.weight as f64 / total);
        }
    }
    println!(
        "{:>6.2} %  by caller",
        100.0 * shown.by_caller.weight as f64 / total
    );
    println!(
        "{:>6.2} %  {}",
        100.0 * shown.other.weight as f64 / total,
        classifier.categories().other
    );
    for (name, count) in shown.other_functions.iter().take(15) {
        println!("{:>10.2} %  {name}", 100.0 * count.weight as f64 / total);
    }
    for (name, category, count) in classifier.top_functions(&call_paths, &profile, 200) {
        println!(
            "{:>6.2} %  {name}  {category}",
            100.0 * count.weight as f64 / total
        );
    }
    Ok(())
}

fn tcp(size: usize) -> std::io::Result<Box<dyn FnMut() -> std::io::Result<()>>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut buffer = vec![0; size];
        loop {
            server.read_exact(&mut buffer)?;
            server.write_all(&buffer)?;
        }
    });
    let mut buffer = vec![0; size];
    Ok(Box::new(move || {
        client.write_all(&buffer)?;
        client.read_exact(&mut buffer)
    }))
}

fn udp(size: usize) -> std::io::Result<Box<dyn FnMut() -> std::io::Result<()>>> {
    let (client, server) = (
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    );
    client.connect(server.local_addr()?)?;
    server.connect(client.local_addr()?)?;
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut buffer = vec![0; size];
        loop {
            server.recv(&mut buffer)?;
            server.send(&buffer)?;
        }
    });
    let mut buffer = vec![0; size];
    Ok(Box::new(move || {
        client.send(&buffer)?;
        client.recv(&mut buffer).map(drop)
    }))
}

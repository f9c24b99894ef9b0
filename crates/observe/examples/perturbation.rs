//! Cost of observing to the observed: a service answers requests on one core, several in flight, and slices of the
//! run with and without the programs attached take turns. The ratio of requests per second of processor time is
//! printed with its interval.
//!
//! Usage: `perturbation [SECONDS] [IN_FLIGHT] [BYTES]`; needs root.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate_kernel::kernel_features;
use tollgate_kernel::sample_hooks::Choice;
use tollgate_observe::{Ask, Watcher, pace};

/// Length of a slice.
const SLICE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |at: usize, or: u64| {
        std::env::args()
            .nth(at)
            .map_or(Ok(or), |text| text.parse::<u64>())
    };
    let (seconds, in_flight, bytes) = (
        number(1, 20)?,
        number(2, 8)? as usize,
        number(3, 64)? as usize,
    );
    let every = std::env::args()
        .nth(4)
        .map(|text| text.parse())
        .transpose()?;
    let budget = std::env::var_os("ALWAYS").is_none().then_some(pace::BUDGET);
    let choice = Choice::of(&kernel_features());

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let stop = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU64::new(0));
    let server = std::thread::spawn(move || serve(listener, bytes));
    let client = {
        let (stop, answered) = (stop.clone(), answered.clone());
        std::thread::spawn(move || ask(port, in_flight, bytes, &stop, &answered))
    };
    std::thread::sleep(Duration::from_millis(300));

    let clocks = [clock_of(&server)?, clock_of(&client)?];
    let slice = |tend: &mut dyn FnMut() -> Result<(), tollgate_kernel::Error>| -> Result<f64, Box<dyn std::error::Error>> {
        let used = || clocks.iter().map(|&clock| cpu_time(clock)).sum::<std::io::Result<f64>>();
        let (before, from) = (used()?, answered.load(Ordering::Relaxed));
        let end = Instant::now() + SLICE;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
            tend()?;
        }
        let (after, to) = (used()?, answered.load(Ordering::Relaxed));
        Ok((to - from) as f64 / (after - before))
    };
    let mut ratios = Vec::new();
    let (mut plain, mut observed, mut starts, mut own) = (0.0, 0.0, 0.0_f64, 0.0);
    let (mut samples, mut on) = (0, 0.0);
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        let before = slice(&mut || Ok(()))?;
        let started = Instant::now();
        let ask = Ask {
            every,
            budget,
            ..Ask::default()
        };
        let mut watcher = Watcher::start(choice.clone(), &ask, Vec::new())?;
        starts = starts.max(started.elapsed().as_secs_f64());
        // What beginning takes is told apart; a slice is of the time after it.
        let settled = Instant::now() + Duration::from_millis(500);
        while Instant::now() < settled {
            std::thread::sleep(Duration::from_millis(10));
            watcher.tend()?;
        }
        let used = own_time()?;
        let during = slice(&mut || watcher.tend())?;
        let raw = watcher.read()?;
        own += own_time()? - used;
        samples += raw.totals.finished;
        on += raw.on.as_secs_f64() / raw.at.as_secs_f64();
        if std::env::var_os("VERBOSE").is_some() {
            println!(
                "N {} {:?} missed {} vanished {} waiting {}",
                raw.every,
                raw.totals,
                raw.missed,
                raw.vanished,
                raw.waiting.len()
            );
            for (index, histogram) in raw.histograms.iter().enumerate() {
                if histogram.samples > 0 {
                    println!(
                        "  {index:2} n {:6} mean {:8.0} ns",
                        histogram.samples,
                        histogram.sum as f64 / histogram.weight as f64
                    );
                }
            }
        }
        drop(watcher);
        let after = slice(&mut || Ok(()))?;
        ratios.push(during / ((before + after) / 2.0));
        plain += (before + after) / 2.0;
        observed += during;
    }
    stop.store(true, Ordering::Relaxed);
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let spread = (ratios
        .iter()
        .map(|ratio| (ratio - mean).powi(2))
        .sum::<f64>()
        / (n - 1.0))
        .sqrt();
    ratios.sort_by(f64::total_cmp);
    println!(
        "{:.0} requests/s of one core without, {:.0} with; ratio {:.4} ± {:.4} (95 %, {} slices), median {:.4}",
        plain / n,
        observed / n,
        mean,
        1.96 * spread / n.sqrt(),
        ratios.len(),
        ratios[ratios.len() / 2],
    );
    println!(
        "gates on for {:.1} % of the time; {samples} samples; live after {:.0} ms at most; reading took {:.2} % of a core",
        on / n * 100.0,
        starts * 1e3,
        own / n / SLICE.as_secs_f64() * 100.0
    );
    let _ = client.join();
    Ok(())
}

/// Both ends share the first processor.
fn pin() {
    let mut set = rustix::thread::CpuSet::new();
    set.set(0);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn serve(listener: TcpListener, bytes: usize) -> std::io::Result<()> {
    pin();
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut request = vec![0; bytes];
    loop {
        stream.read_exact(&mut request)?;
        stream.write_all(&request)?;
    }
}

fn ask(
    port: u16,
    in_flight: usize,
    bytes: usize,
    stop: &AtomicBool,
    answered: &AtomicU64,
) -> std::io::Result<()> {
    pin();
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    let mut message = vec![7; bytes];
    for _ in 0..in_flight {
        stream.write_all(&message)?;
    }
    while !stop.load(Ordering::Relaxed) {
        stream.read_exact(&mut message)?;
        answered.fetch_add(1, Ordering::Relaxed);
        stream.write_all(&message)?;
    }
    Ok(())
}

/// The clock of a thread's processor time.
fn clock_of<T>(thread: &std::thread::JoinHandle<T>) -> std::io::Result<libc::clockid_t> {
    use std::os::unix::thread::JoinHandleExt;
    let mut clock = 0;
    // SAFETY: the thread is not joined yet, and `clock` outlives the call.
    let outcome = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) };
    match outcome {
        0 => Ok(clock),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

fn cpu_time(clock: libc::clockid_t) -> std::io::Result<f64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

fn own_time() -> std::io::Result<f64> {
    cpu_time(libc::CLOCK_THREAD_CPUTIME_ID)
}

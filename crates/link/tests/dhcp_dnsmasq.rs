//! The client of DHCP beside dnsmasq, over a tap device in a network namespace of its own: lease, options, renewal, release.

mod linux;

use linux::{in_a_namespace, until};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Clock};
use std::{env, fs, process};
use tollgate_link::host;
use tollgate_link::tap::Tap;
use tollgate_stack::dhcp::{Client, State};
use tollgate_stack::{Config, Instant, Pool, Route, Stack};
use tollgate_wire::ethernet::MacAddr;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 50);
const LAST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 60);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);
#[test]
fn lease_of_dnsmasq_is_taken_renewed_and_released() {
    let version = Command::new("dnsmasq").arg("--version").output();
    if version.is_err() {
        return tollgate_skip::skipped!("there is no dnsmasq (install dnsmasq-base)");
    }
    in_a_namespace(|| match Tap::create("tollgate0", 1500) {
        Ok(tap) => lease(tap),
        Err(error) => tollgate_skip::skipped!("no tap device: {error}"),
    });
}

/// The server, ended with the value.
struct Server {
    process: Child,
    folder: PathBuf,
}

impl Server {
    fn start(device: &str) -> Self {
        let folder = env::temp_dir().join(format!("tollgate-dhcp-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let process = Command::new("dnsmasq")
            .args(["--keep-in-foreground", "--port=0", "--conf-file=/dev/null"])
            .args(["--user=root", "--log-facility=-", "--pid-file=", "--no-ping"])
            .args(["--bind-interfaces", "--dhcp-authoritative"])
            .arg(format!("--interface={device}"))
            .arg(format!("--dhcp-range={FIRST},{LAST},255.255.255.0,10m"))
            .arg("--dhcp-option=option:mtu,1400")
            .arg("--dhcp-option=option:classless-static-route,0.0.0.0/0,10.77.0.1,192.168.9.0/24,10.77.0.2")
            .arg("--dhcp-option=option:dns-server,10.77.0.3")
            .arg(format!("--dhcp-leasefile={}", folder.join("leases").display()))
            .stderr(Stdio::null())
            .spawn()
            .expect("dnsmasq starts");
        Self { process, folder }
    }

    fn leases(&self) -> String {
        fs::read_to_string(Path::new(&self.folder).join("leases")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; what matters is that it is gone.
        drop(self.process.kill());
        drop(self.process.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Client, stack and device, in real time that can be moved on.
struct Host {
    stack: Stack,
    pool: Pool,
    tap: Tap,
    client: Client,
    began: Clock,
    skipped: Duration,
}

impl Host {
    fn now(&self) -> Instant {
        let since = self.began.elapsed() + self.skipped + Duration::from_secs(1);
        Instant::from_nanos(since.as_nanos() as u64)
    }

    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        until(what, || {
            let now = self.now();
            let mut active = self.stack.at(now, &mut self.pool);
            active.poll(&mut self.tap);
            self.client.poll(&mut active).expect("the port is free");
            active.flush(&mut self.tap);
            holds(self).then_some(())
        });
    }
}

/// Takes a lease over a device, renews it, and gives it back.
fn lease(tap: Tap) {
    host::bring_up(tap.name(), KERNEL, 24, 1500).expect("the device comes up");
    let server = Server::start(tap.name());
    let config = Config {
        prefix_len: 32,
        ..Config::new(MAC, Ipv4Addr::UNSPECIFIED, 32, [1, 2, 3, 4])
    };
    let began = Clock::now();
    let mut client = Client::new([5, 6]);
    client.begin_at_once();
    let mut host = Host {
        stack: Stack::new(config, 1500, Instant::from_nanos(1)).expect("it is valid"),
        pool: Pool::new(256, Pool::frame_size_for(1500)),
        tap,
        client,
        began,
        skipped: Duration::ZERO,
    };
    host.until("a lease", |host| host.client.lease().is_some());
    let lease = host.client.lease().expect("it came").clone();
    assert!((FIRST..=LAST).contains(&lease.address), "{lease:?}");
    assert_eq!((lease.prefix_len, lease.server), (24, KERNEL));
    assert_eq!(lease.name_servers, [Ipv4Addr::new(10, 77, 0, 3)]);
    assert_eq!(host.stack.mtu(), 1400);
    let network = Route {
        destination: Ipv4Addr::new(192, 168, 9, 0),
        prefix_len: 24,
        gateway: Some(Ipv4Addr::new(10, 77, 0, 2)),
    };
    assert_eq!(host.stack.routes(), [network, Route::default_by(KERNEL)]);
    assert!(server.leases().contains(&lease.address.to_string()));
    // The kernel answers it.
    let now = host.now();
    let mut active = host.stack.at(now, &mut host.pool);
    active.ping(KERNEL, 1, 1, b"here").expect("it is sent");
    host.until("an echo", |host| {
        let now = host.now();
        host.stack.at(now, &mut host.pool).next_echo().is_some()
    });
    // Half of the lease passes.
    host.skipped += Duration::from_secs(300);
    host.until("a renewal", |host| {
        let renewed = host.client.lease().and_then(|now| now.expires_at);
        renewed > lease.expires_at
    });
    assert_eq!(host.client.state(), State::Bound);
    assert_eq!(
        host.client.lease().map(|lease| lease.address),
        Some(lease.address)
    );
    let now = host.now();
    let mut active = host.stack.at(now, &mut host.pool);
    host.client.release(&mut active);
    host.until("the end of the lease", |_| {
        !server.leases().contains(&lease.address.to_string())
    });
    assert_eq!(host.stack.addresses().count(), 0);
}

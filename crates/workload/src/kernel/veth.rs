//! `kernel-veth`: Linux TCP between two network namespaces that a pair of veth devices joins.
//!
//! The devices live in namespaces of the run's own ([`namespace`](crate::namespace)), so nothing of them is left when it ends.
//!
//! The devices are made by `ip` of iproute2, run inside of the namespaces. The sessions of a process share one pair.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use tollgate_run::{Offload, PathId, Workload};
use tollgate_stats::{Samples, Timing};

use super::{KernelLoopback, KernelSession, Network, bulk, offload};
use crate::error::Error;
use crate::namespace;
use crate::path::{Capabilities, KernelEnds, Path, Session};
use crate::per_packet::MTU;
use crate::sockets::Sockets;
use crate::spec::Spec;

const PATH: PathId = PathId::KernelVeth;
/// The addresses of the ends, of those that are set apart for examples (RFC 5737); nothing outside sees them.
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The names of the devices, each in its namespace.
const CLIENT_DEVICE: &str = "tollgate0";
const SERVER_DEVICE: &str = "tollgate1";

/// The path `kernel-veth`.
#[derive(Debug, Clone, Copy)]
pub struct KernelVeth {
    mtu: usize,
}

impl KernelVeth {
    /// The path over devices of the MTU that the kernel gives them, 1500 bytes.
    pub const DEFAULT: Self = Self::with_mtu(MTU);

    /// The path with IP packets of at most `mtu` bytes, 68 to 65,535; another number is refused when a session is opened.
    pub const fn with_mtu(mtu: usize) -> Self {
        Self { mtu }
    }
}

impl Path for KernelVeth {
    fn id(&self) -> PathId {
        PATH
    }

    fn capabilities(&self) -> Capabilities {
        KernelLoopback::DEFAULT.capabilities()
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        self.capabilities().check(PATH, spec)?;
        let pair = Pair::shared(Devices {
            offload: spec.sockets.offload,
            mtu: self.mtu,
        })?;
        let place = Network::Veth(Arc::clone(&pair));
        let session: Box<dyn Session> =
            if spec.workload == Workload::Stream && carried_otherwise(&spec.sockets) {
                Box::new(bulk::BulkSession::open(spec, &place).map_err(|error| error.on(PATH))?)
            } else {
                Box::new(KernelSession::open(spec, place).map_err(|error| error.on(PATH))?)
            };
        Ok(Box::new(VethSession { session, pair }))
    }
}

/// Tells whether the sockets are used otherwise than plainly, whatever the devices do.
fn carried_otherwise(sockets: &Sockets) -> bool {
    let sockets = Sockets {
        offload: Offload::Usual,
        ..*sockets
    };
    sockets != Sockets::PLAIN
}

/// A session of the kernel's sockets whose errors name this path.
struct VethSession {
    session: Box<dyn Session>,
    // Dropped after the session, so that its sockets are closed in a namespace that is still there.
    pair: Arc<Pair>,
}

impl Session for VethSession {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        // Ends on devices that are gone would wait for each other until their patience is over.
        self.pair.present()?;
        self.session
            .run(iterations, samples)
            .map_err(|error| self.pair.explain(error.on(PATH)))
    }

    fn timing(&self) -> Timing {
        self.session.timing()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = self.session.settings();
        settings.push((
            "devices",
            format!(
                "a veth pair between two network namespaces, MTU {}",
                self.pair.devices.mtu
            ),
        ));
        if self.pair.devices.offload != Offload::Usual {
            settings.push(("offload", self.pair.devices.offload.to_string()));
        }
        settings
    }

    fn kernel_ends(&self) -> Option<KernelEnds<'_>> {
        let ends = self.session.kernel_ends()?;
        Some(KernelEnds {
            namespaces: self.pair.namespaces(),
            ..ends
        })
    }
}

/// Settings of the devices of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Devices {
    /// The offloads of the devices.
    pub(super) offload: Offload,
    /// The largest IP packet, in bytes.
    pub(super) mtu: usize,
}

impl Devices {
    /// The kernel's defaults.
    pub(super) const DEFAULT: Self = Self {
        offload: Offload::Usual,
        mtu: MTU,
    };
}

/// Two network namespaces and the veth pair between them. They are gone when this is dropped and nobody is in them any more.
#[derive(Debug)]
pub struct Pair {
    client: File,
    server: File,
    /// The namespace that the process was in.
    home: File,
    /// A socket in the client's namespace, by which the devices there are looked for.
    routing_socket: OwnedFd,
    devices: Devices,
}

/// The pairs that sessions share: one for each way in which the devices are set up.
static PAIRS: Mutex<Vec<Weak<Pair>>> = Mutex::new(Vec::new());

impl Pair {
    /// A pair of its own.
    ///
    /// # Errors
    /// The refusal of the system; it takes root, and `ip` of iproute2.
    pub fn new() -> Result<Self, Error> {
        Self::make(Devices::DEFAULT)
    }

    pub(super) fn shared(devices: Devices) -> Result<Arc<Self>, Error> {
        // A panic elsewhere leaves the pairs as they were.
        let mut known = PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
        // One whose devices somebody has deleted is left to the sessions that have it.
        known.retain(|pair| pair.upgrade().is_some_and(|pair| pair.present().is_ok()));
        let mut pairs = known.iter().filter_map(Weak::upgrade);
        if let Some(pair) = pairs.find(|pair| pair.devices == devices) {
            return Ok(pair);
        }
        let pair = Arc::new(Self::make(devices)?);
        known.push(Arc::downgrade(&pair));
        Ok(pair)
    }

    fn make(devices: Devices) -> Result<Self, Error> {
        let client = namespace::make(PATH)?;
        let routing_socket = namespace::within(PATH, client.as_fd(), || {
            offload::datagram_socket()
                .map_err(|error| Error::system(PATH, "making a socket", error))
        })?;
        let pair = Self {
            client,
            server: namespace::make(PATH)?,
            home: namespace::own(PATH)?,
            routing_socket,
            devices,
        };
        let server = format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            pair.server.as_raw_fd()
        );
        let address = |address: Ipv4Addr| format!("{address}/30");
        let ip = |namespace: &File, arguments: &[&str]| {
            namespace::within(PATH, namespace.as_fd(), || namespace::ip(PATH, arguments))
        };
        ip(
            &pair.client,
            &[
                "link",
                "add",
                CLIENT_DEVICE,
                "type",
                "veth",
                "peer",
                "name",
                SERVER_DEVICE,
                "netns",
                &server,
            ],
        )?;
        for (namespace, device, own) in [
            (&pair.client, CLIENT_DEVICE, CLIENT),
            (&pair.server, SERVER_DEVICE, SERVER),
        ] {
            ip(namespace, &["address", "add", &address(own), "dev", device])?;
            namespace::within(PATH, namespace.as_fd(), || {
                offload::switch(device, devices.offload)
            })?;
            let mtu = devices.mtu.to_string();
            ip(namespace, &["link", "set", device, "mtu", &mtu, "up"])?;
        }
        Ok(pair)
    }

    /// A pair of its own, on which every segment travels as a packet.
    pub(super) fn of_packets() -> Result<Self, Error> {
        let pair = Self::make(Devices::DEFAULT)?;
        let limit =
            |device| namespace::ip(PATH, &["link", "set", "dev", device, "gso_max_segs", "1"]);
        pair.client(|| limit(CLIENT_DEVICE))?;
        pair.server(|| limit(SERVER_DEVICE))?;
        Ok(pair)
    }

    /// Refuses when the devices are there no more. They come and go together.
    ///
    /// # Errors
    /// [`Error::Vanished`].
    pub(super) fn present(&self) -> Result<(), Error> {
        match name_to_index(&self.routing_socket, CLIENT_DEVICE) {
            Err(Errno::NODEV) => Err(Error::Vanished {
                path: PATH,
                device: CLIENT_DEVICE,
            }),
            // What cannot be looked for is for whoever uses it to find out.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The reason behind a failure: without its devices every path fails in some way of its own.
    pub(super) fn explain(&self, error: Error) -> Error {
        self.present().err().unwrap_or(error)
    }

    /// Both namespaces.
    pub(super) fn namespaces(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.client.as_fd(), self.server.as_fd()]
    }

    /// The address of the server.
    pub const fn server_address(&self) -> Ipv4Addr {
        SERVER
    }

    /// The address of the client.
    pub const fn client_address(&self) -> Ipv4Addr {
        CLIENT
    }

    /// Runs a function in the client's namespace, on a thread of its own: a process that it starts is there, too.
    ///
    /// # Errors
    /// The refusal of the system, and errors of the work.
    pub fn client<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        namespace::within(PATH, self.client.as_fd(), work)
    }

    /// Runs a function in the server's namespace, on a thread of its own: a process that it starts is there, too.
    ///
    /// # Errors
    /// The refusal of the system, and errors of the work.
    pub fn server<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        namespace::within(PATH, self.server.as_fd(), work)
    }

    /// Moves the calling thread into the client's namespace; [`Self::leave`] moves it back.
    pub(super) fn enter_client(&self) -> Result<(), Error> {
        namespace::enter(PATH, self.client.as_fd())
    }

    /// Moves the calling thread back to the namespace that the process was in.
    pub(super) fn leave(&self) -> Result<(), Error> {
        namespace::enter(PATH, self.home.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::namespace::holders;
    use crate::paths::find;
    use tollgate_run::{Placement, Waiting};

    /// The reason why these tests cannot run here.
    fn reason() -> Option<String> {
        namespace::make(PATH).err().map(|error| error.to_string())
    }

    /// The devices of the namespace that the test runs in.
    fn devices() -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_to_string("/proc/thread-self/net/dev")
            .unwrap()
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn every_workload_carries_its_bytes_and_leaves_nothing_behind() {
        if let Some(reason) = reason() {
            tollgate_skip::skipped!("{reason}");
            return;
        }
        let before = devices();
        let inode = namespace::own(PATH).unwrap().metadata().unwrap().ino();
        for workload in [Workload::Rr, Workload::Crr, Workload::Stream] {
            for waiting in [Waiting::Blocking, Waiting::BusyPoll] {
                for size in [4, 8_000] {
                    let spec = Spec::new(workload, size)
                        .with_mode(Placement::TwoCores, waiting)
                        .verified();
                    let mut session = match find(PATH).unwrap().open(&spec) {
                        Err(Error::Cores { .. }) => continue,
                        session => session.unwrap(),
                    };
                    let mut samples = session.new_samples();
                    session.run(20, &mut samples).unwrap();
                    assert_eq!(samples.operations(), 20);
                    let ends = session.kernel_ends().unwrap();
                    assert_eq!(ends.namespaces.len(), 2);
                }
            }
        }
        assert_eq!(devices(), before);
        assert_eq!(
            namespace::own(PATH).unwrap().metadata().unwrap().ino(),
            inode
        );
        assert!(shared_pairs(Offload::Usual).is_empty());
    }

    /// The pairs that are there with this offload.
    fn shared_pairs(offload: Offload) -> Vec<Arc<Pair>> {
        let known = PAIRS.lock().unwrap();
        let pairs = known.iter().filter_map(Weak::upgrade);
        pairs
            .filter(|pair| pair.devices.offload == offload)
            .collect()
    }

    /// Tests that share the pair of this offload take turns: one of them takes its devices away.
    static CHECKSUM: Mutex<()> = Mutex::new(());

    #[test]
    fn devices_that_vanish_are_named_and_made_anew() {
        if let Some(reason) = reason() {
            tollgate_skip::skipped!("{reason}");
            return;
        }
        let _turn = CHECKSUM.lock();
        let before = devices();
        let mut spec = Spec::new(Workload::Rr, 4).with_mode(Placement::OneCore, Waiting::Blocking);
        spec.sockets.offload = Offload::Checksum;
        let delete =
            |pair: &Pair| pair.client(|| namespace::ip(PATH, &["link", "del", CLIENT_DEVICE]));
        let refused = |outcome: Result<(), Error>| match outcome {
            Err(error @ Error::Vanished { .. }) => error.to_string(),
            outcome => panic!("{outcome:?}"),
        };
        let checksum = Devices {
            offload: Offload::Checksum,
            ..Devices::DEFAULT
        };
        let pair = Arc::new(Pair::make(checksum).unwrap());
        PAIRS.lock().unwrap().push(Arc::downgrade(&pair));
        let mut session = KernelVeth::DEFAULT.open(&spec).unwrap();
        session.run(20, &mut session.new_samples()).unwrap();
        delete(&pair).unwrap();
        let said = refused(session.run(20, &mut session.new_samples()));
        assert!(
            said.starts_with("kernel-veth: its device tollgate0 is gone"),
            "{said}"
        );
        // The next session has devices again; those go in the middle of a slice.
        let mut session = KernelVeth::DEFAULT.open(&spec).unwrap();
        let fresh = Pair::shared(checksum).unwrap();
        assert!(!Arc::ptr_eq(&fresh, &pair));
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                delete(&fresh).unwrap();
            });
            session.run(1 << 40, &mut session.new_samples())
        });
        refused(outcome);
        drop(session);
        assert_eq!(devices(), before);
    }

    #[test]
    fn datagrams_pass_too() {
        if let Some(reason) = reason() {
            tollgate_skip::skipped!("{reason}");
            return;
        }
        let _turn = CHECKSUM.lock();
        let mut spec = Spec::new(Workload::Rr, 4_000)
            .with_mode(Placement::OneCore, Waiting::Blocking)
            .verified();
        // Other tests of this process look at the usual pair.
        spec.sockets.offload = Offload::Checksum;
        spec.sockets.transport = crate::sockets::Transport::Udp;
        let mut session = KernelVeth::DEFAULT.open(&spec).unwrap();
        let mut samples = session.new_samples();
        session.run(20, &mut samples).unwrap();
        assert_eq!(samples.operations(), 20);
    }

    #[test]
    fn each_way_of_offloading_has_a_pair_of_its_own_and_its_bytes_arrive() {
        if let Some(reason) = reason() {
            tollgate_skip::skipped!("{reason}");
            return;
        }
        let mut sessions = Vec::new();
        for offload in [Offload::Both, Offload::Neither] {
            let mut spec = Spec::new(Workload::Stream, 8_192)
                .with_mode(Placement::OneCore, Waiting::Blocking)
                .verified();
            spec.sockets.offload = offload;
            let mut session = KernelVeth::DEFAULT.open(&spec).unwrap();
            session.run(64, &mut session.new_samples()).unwrap();
            let told = session.settings();
            assert!(told.contains(&("offload", offload.to_string())));
            sessions.push(session);
        }
        let (both, neither) = (shared_pairs(Offload::Both), shared_pairs(Offload::Neither));
        assert!(!Arc::ptr_eq(&both[0], &neither[0]));
        drop((sessions, both, neither));
        assert!(shared_pairs(Offload::Neither).is_empty());
    }

    #[test]
    fn devices_have_the_mtu_that_is_asked_for() {
        if let Some(reason) = reason() {
            tollgate_skip::skipped!("{reason}");
            return;
        }
        let mut spec = Spec::new(Workload::Rr, 8_000)
            .with_mode(Placement::OneCore, Waiting::Blocking)
            .verified();
        spec.sockets.offload = Offload::Checksum;
        let mut session = KernelVeth::with_mtu(3_000).open(&spec).unwrap();
        session.run(20, &mut session.new_samples()).unwrap();
        let devices = "a veth pair between two network namespaces, MTU 3000".to_owned();
        assert!(session.settings().contains(&("devices", devices)));
        assert!(KernelVeth::with_mtu(20).open(&spec).is_err());
    }

    /// The variable by which this program knows that it is the one to be killed.
    const VICTIM: &str = "TOLLGATE_TEST_VICTIM";

    /// The child of the next test: opens a session and waits to be killed.
    #[test]
    fn victim() {
        if std::env::var_os(VICTIM).is_none() {
            return;
        }
        let _session = KernelVeth::DEFAULT
            .open(&Spec::new(Workload::Rr, 4))
            .unwrap();
        let pair = Pair::shared(Devices::DEFAULT).unwrap();
        let inode = |file: &File| file.metadata().unwrap().ino();
        println!("namespaces {} {}", inode(&pair.client), inode(&pair.server));
        std::thread::sleep(std::time::Duration::from_secs(60));
    }

    #[test]
    fn a_killed_run_leaves_no_namespace_and_no_device() {
        use std::io::{BufRead, BufReader};
        if let Some(reason) = reason() {
            tollgate_skip::skipped!("{reason}");
            return;
        }
        let before = devices();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kernel::veth::tests::victim", "--nocapture"])
            .env(VICTIM, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let inodes: Vec<u64> = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, numbers) = line.split_once("namespaces ")?;
                Some(
                    numbers
                        .split(' ')
                        .map(|number| number.parse().unwrap())
                        .collect(),
                )
            })
            .expect("the child ended before its session was open");
        assert_eq!(inodes.len(), 2);
        for &inode in &inodes {
            assert!(
                !holders(inode).is_empty(),
                "the search does not find {inode}"
            );
        }
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        for inode in inodes {
            assert_eq!(holders(inode), Vec::<String>::new());
        }
        assert_eq!(devices(), before);
    }

    #[test]
    fn what_the_path_cannot_do_is_refused_by_its_name() {
        let mut spec = Spec::new(Workload::Stream, 4);
        spec.sockets.transport = crate::sockets::Transport::Udp;
        let error = KernelVeth::DEFAULT.open(&spec).err().expect("refused");
        assert_eq!(
            error.to_string(),
            "kernel-veth does not run stream over udp; it has: rr over udp"
        );
        spec.sockets = Sockets {
            offload: Offload::Neither,
            ..Sockets::PLAIN
        };
        assert!(KernelLoopback::DEFAULT.open(&spec).is_err());
    }
}

//! The scenarios: what the cable does, how the stacks are set up, how the applications behave.

use super::matrix::Settings;
use std::num::NonZeroU64;
use std::time::Duration;
use tollgate_checksum::Kernel;
use tollgate_link::fault::{Corrupt, Faults, Probability, Rate, Reorder};
use tollgate_stack::Config;
use tollgate_stack::config::{
    ChecksumOffload, ChecksumPolicy, LanEvidence, Mechanisms, MtuProbing, Nagle, Receive, Transmit,
};

/// A counter that is about to wrap when the run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// None in particular.
    Nothing,
    /// The first connection's sequence numbers, from the client.
    Sequence,
    /// The stacks' ticks.
    Ticks,
}

/// Behaviour of the applications.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// Bytes of the longest write.
    pub write: u64,
    /// Bytes of the longest read.
    pub read: u64,
    /// The longest pause after a write; most have none.
    pub write_pause: Duration,
    /// The longest pause after a read; most have none.
    pub read_pause: Duration,
    /// One end of each connection aborts it at some time.
    pub aborts: bool,
    /// Options change in the middle of things, and writes say what follows or that they are urgent.
    pub options: bool,
    /// Posted reads always or never; otherwise a third of the ends posts.
    pub receive: Option<Receive>,
    /// Writes of buffers of the pool always or never; otherwise a fourth of the writes.
    pub transmit: Option<Transmit>,
}

/// Sets the configuration of a host up.
type Configure = Box<dyn Fn(&mut Config, usize)>;

/// A scenario.
pub struct Scenario {
    /// Name on the command line.
    pub name: String,
    /// The largest IP packet of each host.
    pub mtu: [usize; 2],
    /// Faults of the frames that each host sends.
    faults: [Faults; 2],
    /// From time to time everything is lost for at most so long.
    pub outage: Duration,
    /// Frames in the pool of both hosts.
    pub pool: usize,
    /// Connections at once at most.
    pub connections: u64,
    /// Bytes in each direction of a connection at most.
    pub bytes: u64,
    /// Behaviour of the applications.
    behaviour: Behaviour,
    /// Hosts find each other by ARP; otherwise they know each other.
    arp: bool,
    /// Number that is about to wrap.
    pub wrap: Wrap,
    /// Connections are opened with data, and their listener takes it from SYNs (RFC 7413).
    pub early: bool,
    /// Settings of the mechanisms, which the scenario's own do not change.
    pub settings: Settings,
    configure: Configure,
}

impl Scenario {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            mtu: [1500; 2],
            faults: [Faults::default(); 2],
            outage: Duration::ZERO,
            pool: 4096,
            connections: 2,
            bytes: 60_000,
            behaviour: Behaviour {
                write: 8_000,
                read: 16_000,
                write_pause: Duration::from_millis(20),
                read_pause: Duration::from_millis(20),
                aborts: false,
                options: false,
                receive: None,
                transmit: None,
            },
            arp: false,
            wrap: Wrap::Nothing,
            early: false,
            settings: Settings::default(),
            configure: Box::new(|_, _| {}),
        }
    }

    /// The scenario with these settings of the mechanisms.
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The name, with the settings.
    pub fn title(&self) -> String {
        let settings = self.settings.to_string();
        match settings.as_str() {
            "" => self.name.clone(),
            _ => format!("{} with {settings}", self.name),
        }
    }

    /// Sets a host's configuration up.
    pub fn configure(&self, config: &mut Config, host: usize) {
        (self.configure)(config, host);
        self.settings.apply(&mut config.mechanisms);
    }

    /// Faults of the frames that each host sends. Where a setting asks for another link than the scenario's they are that one's.
    pub fn faults(&self) -> [Faults; 2] {
        let mechanisms = self.mechanisms();
        self.faults.map(|mut faults| {
            if mechanisms.checksum != ChecksumPolicy::Always {
                // Segments may go without checksums, which is for links whose CRC finds what is damaged and throws it away.
                let passes = |fault: Probability| 1.0 - fault.as_f64();
                let arrives =
                    passes(faults.drop) * passes(faults.corrupt) * passes(faults.truncate);
                faults.drop = Probability::new(1.0 - arrives).expect("it is between 0 and 1");
                faults.corrupt = Probability::NEVER;
                faults.truncate = Probability::NEVER;
            }
            if mechanisms.mtu_probing == MtuProbing::Off {
                // Nothing gets through a black hole that nobody looks for.
                faults.longest = None;
            }
            faults
        })
    }

    /// Behaviour of the applications.
    pub fn behaviour(&self) -> Behaviour {
        let Mechanisms {
            receive, transmit, ..
        } = self.mechanisms();
        let set = |name| self.settings.sets(name);
        Behaviour {
            receive: set(Receive::NAME).then_some(receive),
            transmit: set(Transmit::NAME).then_some(transmit),
            ..self.behaviour
        }
    }

    /// Tells whether the hosts find each other by ARP, with which they announce themselves as spanning trees do. Where frames are
    /// damaged they do not, since a damaged ARP packet is believed.
    pub fn arp(&self) -> bool {
        let evidence = self.mechanisms().lan_evidence == LanEvidence::SpanningTree;
        self.arp || evidence && !self.faults().iter().any(Faults::damages)
    }

    /// Completion of checksums by the link always or never; otherwise in a fourth of the runs.
    pub fn completes(&self) -> Option<bool> {
        let offload = self.mechanisms().checksum_offload;
        let set = self.settings.sets(ChecksumOffload::NAME);
        set.then_some(offload == ChecksumOffload::On)
    }

    fn mechanisms(&self) -> Mechanisms {
        let mut mechanisms = Mechanisms::HOST;
        self.settings.apply(&mut mechanisms);
        mechanisms
    }

    fn line(mut self, change: impl Fn(&mut Faults)) -> Self {
        self.faults.iter_mut().for_each(change);
        self
    }

    fn mtu(mut self, a: usize, b: usize, bytes: u64) -> Self {
        self.mtu = [a, b];
        self.bytes = bytes;
        self
    }

    fn config(mut self, change: impl Fn(&mut Config, usize) + 'static) -> Self {
        let before = self.configure;
        self.configure = Box::new(move |config, host| {
            before(config, host);
            change(config, host);
        });
        self
    }

    fn both(self, change: impl Fn(&mut Config) + 'static) -> Self {
        self.config(move |config, _| change(config))
    }

    fn acts(mut self, change: impl Fn(&mut Behaviour)) -> Self {
        change(&mut self.behaviour);
        self
    }

    fn with(mut self, change: impl Fn(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// A few milliseconds of delay, and losses, duplicates and reordering now and then.
    fn lossy(self) -> Self {
        self.line(|f| {
            f.delay = ms(3);
            f.jitter = ms(2);
            f.drop = percent(2.0);
            f.duplicate = percent(1.0);
            f.reorder = percent(2.0);
        })
    }
}

fn percent(chance: f64) -> Probability {
    Probability::new(chance / 100.0).expect("a scenario's percentage is one")
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    [links(), sizes(), options(), resources(), kernels()]
        .into_iter()
        .flatten()
        .collect()
}

/// Scenarios of the cable's faults.
pub fn links() -> Vec<Scenario> {
    let loss = |chance: f64| {
        Scenario::new(&format!("loss-{chance}")).line(|f| {
            f.drop = percent(chance);
            f.delay = ms(5);
        })
    };
    vec![
        Scenario::new("clean"),
        Scenario::new("lossy").lossy(),
        Scenario::new("delay").line(|f| f.delay = ms(40)),
        Scenario::new("jitter").line(|f| {
            f.delay = ms(1);
            f.jitter = ms(60);
        }),
        loss(1.0),
        loss(5.0),
        loss(20.0).with(|s| s.bytes = 15_000),
        Scenario::new("loss-without-delay").line(|f| f.drop = percent(5.0)),
        Scenario::new("loss-one-way")
            .line(|f| f.delay = ms(2))
            .with(|s| {
                s.faults[0].drop = percent(20.0);
            }),
        Scenario::new("duplication").line(|f| {
            f.duplicate = percent(30.0);
            f.delay = ms(2);
            f.jitter = ms(2);
        }),
        Scenario::new("reordering").line(|f| {
            f.reorder = percent(15.0);
            f.delay = ms(2);
        }),
        Scenario::new("reordering-far").line(|f| {
            f.reorder = percent(5.0);
            f.reorder_by = Reorder::Time(ms(150));
            f.delay = ms(10);
        }),
        Scenario::new("corruption").line(|f| {
            f.corrupt = percent(8.0);
            f.delay = ms(2);
        }),
        Scenario::new("corrupt-segments").line(|f| {
            f.corrupt = percent(10.0);
            f.corrupt_at = Corrupt::From(34);
            f.truncate = percent(3.0);
        }),
        Scenario::new("everything").line(|f| {
            f.drop = percent(4.0);
            f.duplicate = percent(4.0);
            f.reorder = percent(8.0);
            f.corrupt = percent(3.0);
            f.truncate = percent(1.0);
            f.delay = ms(8);
            f.jitter = ms(8);
        }),
        Scenario::new("narrow-line").line(|f| {
            f.rate = Some(Rate {
                bits_per_second: NonZeroU64::new(2_000_000).expect("two million is not zero"),
                queue: 12_000,
            });
            f.delay = ms(10);
            f.mark_from = Some(4_000);
        }),
        Scenario::new("black-hole")
            .line(|f| {
                f.longest = Some(1_000);
                f.delay = ms(5);
            })
            .with(|s| s.bytes = 30_000),
        Scenario::new("outages")
            .line(|f| f.delay = ms(5))
            .with(|s| {
                s.outage = Duration::from_secs(20);
            }),
        Scenario::new("arp").lossy().with(|s| s.arp = true),
        Scenario::new("aborts").lossy().acts(|b| b.aborts = true),
        Scenario::new("wrap-sequence").lossy().with(|s| {
            s.wrap = Wrap::Sequence;
            s.connections = 1;
        }),
        Scenario::new("wrap-ticks")
            .lossy()
            .with(|s| s.wrap = Wrap::Ticks),
    ]
}

/// Windows and packets of all sizes.
pub fn sizes() -> Vec<Scenario> {
    let tiny_windows = |config: &mut Config| {
        config.receive_buffer = 4096;
        config.max_receive_buffer = 0;
        config.send_buffer = 4096;
    };
    vec![
        Scenario::new("tiny-windows")
            .both(tiny_windows)
            .line(|f| f.delay = ms(1)),
        Scenario::new("tiny-windows-lossy")
            .both(tiny_windows)
            .lossy(),
        Scenario::new("slow-reader")
            .lossy()
            .both(tiny_windows)
            .acts(|b| {
                b.read = 900;
                b.read_pause = Duration::from_secs(3);
            }),
        Scenario::new("huge-windows")
            .line(|f| f.delay = ms(50))
            .with(|s| s.bytes = 400_000)
            .both(|config| {
                config.receive_buffer = 4 << 20;
                config.send_buffer = 4 << 20;
            }),
        Scenario::new("mtu-68").lossy().mtu(68, 68, 3_000),
        Scenario::new("mtu-296").lossy().mtu(296, 296, 20_000),
        Scenario::new("mtu-576").lossy().mtu(576, 576, 30_000),
        Scenario::new("mtu-9000").lossy().mtu(9000, 9000, 300_000),
        Scenario::new("mtu-9000-and-68")
            .lossy()
            .mtu(9000, 68, 3_000),
        Scenario::new("mtu-9000-tiny-windows")
            .lossy()
            .mtu(9000, 9000, 60_000)
            .both(tiny_windows),
        Scenario::new("mtu-1500-and-576")
            .lossy()
            .mtu(1500, 576, 30_000),
    ]
}

/// Scenarios of the options that the hosts offer each other.
pub fn options() -> Vec<Scenario> {
    let only = |name: &str, timestamps: [bool; 2], scaling: [bool; 2]| {
        Scenario::new(name).lossy().config(move |config, host| {
            config.timestamps = timestamps[host];
            config.window_scaling = scaling[host];
        })
    };
    vec![
        only("no-timestamps-a", [false, true], [true, true]),
        only("no-timestamps-b", [true, false], [true, true]),
        only("no-timestamps", [false, false], [true, true]),
        only("no-scaling-a", [true, true], [false, true]),
        only("no-scaling-b", [true, true], [true, false]),
        only("no-options", [false, false], [false, false]),
        // Long enough for SYNs that are lost, and for servers that are tried again after a while.
        Scenario::new("fast-open").lossy().with(|s| {
            s.early = true;
            s.connections = 12;
            s.bytes = 9_000;
        }),
        Scenario::new("fast-open-loss")
            .line(|f| {
                f.drop = percent(15.0);
                f.delay = ms(4);
            })
            .with(|s| {
                s.early = true;
                s.connections = 12;
                s.bytes = 5_000;
            }),
        only("no-options-reordering", [false, false], [false, false]).line(|f| {
            f.reorder = percent(15.0);
            f.duplicate = percent(10.0);
        }),
        Scenario::new("no-delay")
            .lossy()
            .both(|config| config.mechanisms.nagle = Nagle::Off)
            .acts(|b| {
                b.write = 700;
            }),
        Scenario::new("small-writes")
            .lossy()
            .with(|s| s.bytes = 3_000)
            .acts(|b| b.write = 12),
        Scenario::new("small-writes-no-delay")
            .lossy()
            .with(|s| s.bytes = 2_000)
            .both(|config| config.mechanisms.nagle = Nagle::Off)
            .acts(|b| b.write = 12),
        Scenario::new("socket-options").acts(|b| b.options = true),
        Scenario::new("socket-options-lossy")
            .lossy()
            .acts(|b| b.options = true),
        Scenario::new("socket-options-small-writes")
            .lossy()
            .with(|s| s.bytes = 6_000)
            .acts(|b| {
                b.options = true;
                b.write = 300;
            }),
        Scenario::new("socket-options-fast-open").lossy().with(|s| {
            s.early = true;
            s.connections = 12;
            s.bytes = 9_000;
            s.behaviour.options = true;
        }),
    ]
}

/// Each loop of this processor that copies and sums.
pub fn kernels() -> Vec<Scenario> {
    Kernel::all()
        .map(|kernel| {
            Scenario::new(&format!("kernel-{}", kernel.name()))
                .lossy()
                .line(|f| f.corrupt = percent(2.0))
                .both(move |config| config.kernel = kernel)
        })
        .collect()
}

/// Scenarios of resources that run short.
pub fn resources() -> Vec<Scenario> {
    let small_buffers = |config: &mut Config| {
        config.send_buffer = 8192;
        config.receive_buffer = 8192;
        config.max_receive_buffer = 0;
    };
    vec![
        Scenario::new("many-connections").lossy().with(|s| {
            s.connections = 40;
            s.bytes = 6_000;
        }),
        Scenario::new("small-pool")
            .lossy()
            .both(small_buffers)
            .with(|s| {
                s.pool = 96;
                s.bytes = 30_000;
            }),
        Scenario::new("small-pool-small-writes")
            .lossy()
            .both(small_buffers)
            .both(|config| config.mechanisms.nagle = Nagle::Off)
            .acts(|b| b.write = 30)
            .with(|s| {
                s.pool = 64;
                s.bytes = 3_000;
            }),
        Scenario::new("tiny-pool")
            .line(|f| f.delay = ms(2))
            .both(small_buffers)
            .with(|s| {
                s.pool = 24;
                s.bytes = 12_000;
                s.connections = 1;
            }),
        Scenario::new("short-device-queue")
            .lossy()
            .both(|config| config.device_queue = 2),
        Scenario::new("one-time-wait")
            .lossy()
            .both(|config| config.max_time_wait = 1)
            .with(|s| {
                s.connections = 6;
                s.bytes = 6_000;
            }),
    ]
}

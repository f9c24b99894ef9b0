//! The differential test: a script is played with its own mechanisms and with others, and the records are compared.

use super::numbers::Numbers;
use super::play::{Deed, Record, Watch, play};
use super::script::{Script, Setting};
use tollgate_stack::Instant;
use tollgate_stack::config::{
    Buffers, ChecksumKernel, Demux, HeaderTemplate, Mechanisms, Prediction, RetransmitCopy, Timers,
    Tuning,
};
use tollgate_wire::bpdu::BRIDGE_GROUP;
use tollgate_wire::tcp::{Flags, NO_CHECKSUM};

/// Records that must be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equal {
    /// Every byte of every frame, its time, and everything that calls and events return.
    Everything,
    /// Everything, checksums and the option of SYNs that asks for others apart.
    ButChecksums,
    /// Bytes that applications receive, as long as the peer sends the same. It answers acknowledgments and keeps to
    /// windows, which may differ. Every byte is held against the one that was sent in any case.
    Streams,
}

/// Mechanisms that are held against the default ones, or against those of the script in which these have their default.
#[derive(Clone, Debug)]
pub struct Versus {
    /// Name on the command line.
    pub name: String,
    pub mechanisms: Mechanisms,
    pub equal: Equal,
    /// The link completes checksums.
    pub completes: bool,
}

const DEFAULT: Mechanisms = Mechanisms::DEFAULT;

impl Versus {
    /// The mechanisms of a script's two plays: those that differ have their default in the first.
    fn beside(&self, script: &Script) -> (Mechanisms, Mechanisms) {
        let (mut usual, mut changed) = (script.setup.mechanisms, script.setup.mechanisms);
        for (name, value) in self.mechanisms.changed() {
            let mut defaults = DEFAULT.settings();
            let default = defaults.find(|&(known, _)| known == name);
            let (_, default) = default.expect("every mechanism has a default");
            for (mechanisms, value) in [(&mut usual, default), (&mut changed, value)] {
                mechanisms
                    .set(name, value)
                    .expect("the mechanism has this value");
            }
        }
        // Buffers are looked at when the timer's entry fires. Where probes may be sent, that goes by the way that segments take.
        if script.setup.sack && self.equal != Equal::Streams {
            usual.tuning = Tuning::Off;
            changed.tuning = Tuning::Off;
        }
        (usual, changed)
    }

    /// Options of its play.
    const fn watch(&self, watch: Watch) -> Watch {
        Watch {
            completes: self.completes,
            ..watch
        }
    }

    /// Options of both plays.
    fn watches(&self) -> Watch {
        Watch {
            posts: self.posts(),
            drains: self.equal == Equal::Streams,
            ..Watch::default()
        }
    }

    /// Tells whether readers post their buffers. What is predicted is with such a reader before it is acknowledged, so windows
    /// differ from those without prediction, and only streams are compared.
    fn posts(&self) -> bool {
        self.equal == Equal::Streams || self.mechanisms.prediction == DEFAULT.prediction
    }
}

/// Records that must be equal when these mechanisms take the place of the default ones.
fn equal(mechanisms: &Mechanisms) -> Equal {
    let Mechanisms {
        prediction: _,
        demux: _,
        template: _,
        checksum,
        checksum_kernel: _,
        checksum_offload: _,
        lan_evidence: _,
        retransmit: _,
        buffers: _,
        timers,
        recovery,
        tail_probe,
        undo,
        delayed_ack,
        nagle,
        // What applications do, not the stack.
        receive: _,
        transmit: _,
        tuning,
        congestion,
        pacing,
        ecn,
        fin,
        mtu_probing,
        // What links do.
        segmentation: _,
    } = *mechanisms;
    let coarse = timers == Timers::List;
    let answers = (fin, delayed_ack, nagle) != (DEFAULT.fin, DEFAULT.delayed_ack, DEFAULT.nagle);
    let chosen = (
        congestion,
        ecn,
        mtu_probing,
        pacing,
        recovery,
        tail_probe,
        tuning,
        undo,
    ) != (
        DEFAULT.congestion,
        DEFAULT.ecn,
        DEFAULT.mtu_probing,
        DEFAULT.pacing,
        DEFAULT.recovery,
        DEFAULT.tail_probe,
        DEFAULT.tuning,
        DEFAULT.undo,
    );
    if coarse || answers || chosen {
        // Other acknowledgments are sent, or at other times, or other windows let other segments out.
        Equal::Streams
    } else if checksum != DEFAULT.checksum {
        Equal::ButChecksums
    } else {
        Equal::Everything
    }
}

/// Every value of every mechanism, readers that post without prediction, and the papers' values that must not change a frame.
pub fn all() -> Vec<Versus> {
    let each = Mechanisms::each().map(|(name, value, mechanisms)| Versus {
        name: format!("{name}-{value}"),
        mechanisms,
        equal: equal(&mechanisms),
        completes: false,
    });
    let posted = Versus {
        name: "posted-prediction-off".to_owned(),
        mechanisms: Mechanisms {
            prediction: Prediction::Off,
            ..DEFAULT
        },
        equal: Equal::Streams,
        completes: false,
    };
    let baseline = Versus {
        name: "baseline".to_owned(),
        mechanisms: Mechanisms {
            prediction: Prediction::Off,
            demux: Demux::List,
            template: HeaderTemplate::Off,
            checksum_kernel: ChecksumKernel::Halfword,
            retransmit: RetransmitCopy::Copy,
            buffers: Buffers::Mbufs,
            ..DEFAULT
        },
        equal: Equal::Everything,
        completes: false,
    };
    let completed = Versus {
        name: "completed-by-the-link".to_owned(),
        mechanisms: DEFAULT,
        equal: Equal::Everything,
        completes: true,
    };
    let completed_baseline = Versus {
        name: "baseline-completed-by-the-link".to_owned(),
        completes: true,
        ..baseline.clone()
    };
    each.chain([posted, baseline, completed, completed_baseline])
        .collect()
}

/// The mechanisms of that name; `default` are the default ones.
pub fn by_name(name: &str) -> Option<Versus> {
    let default = Versus {
        name: "default".to_owned(),
        mechanisms: DEFAULT,
        equal: Equal::Everything,
        completes: false,
    };
    let mut known = all().into_iter().chain([default]);
    known.find(|versus| versus.name == name)
}

/// The script of a seed.
pub fn script(setting: &Setting, seed: u64) -> Script {
    Script::draw(setting, &mut Numbers::new(setting.name, seed))
}

/// Plays a script twice and compares.
///
/// # Errors
/// The first difference.
pub fn compare(script: &Script, versus: &Versus) -> Result<Record, String> {
    let watch = versus.watches();
    let (usual, changed) = versus.beside(script);
    let one = play(script, usual, watch);
    let other = play(script, changed, versus.watch(watch));
    for (name, record) in [("default", &one), (versus.name.as_str(), &other)] {
        if let Some(wrong) = &record.wrong {
            return Err(format!("{name}: {wrong}"));
        }
    }
    // Without the option that asks for other checksums a SYN carries more data.
    let equal = match (versus.equal, script.setup.early) {
        (Equal::ButChecksums, Some(_)) => Equal::Streams,
        (equal, _) => equal,
    };
    let Some(difference) = first_difference(&one, &other, versus, equal) else {
        return Ok(one);
    };
    // Where the two acknowledge or give up at other times, what comes next may find another connection.
    if equal == Equal::Streams && (one.ends() || other.ends()) {
        return Ok(one);
    }
    if equal == Equal::Streams && !script.is_at_any_pace() {
        return compare(&script.at_any_pace(), versus);
    }
    Err(difference)
}

/// Frames whose checksum a link that is willing completes.
pub fn completed(script: &Script, mechanisms: Mechanisms) -> u64 {
    let watch = Watch {
        completes: true,
        ..Watch::default()
    };
    play(script, mechanisms, watch).completed
}

/// Plays a script with these mechanisms and looks for contradictions.
///
/// # Errors
/// The first contradiction.
pub fn consistent(script: &Script, versus: &Versus) -> Result<Record, String> {
    let watch = Watch {
        consistency: true,
        ..Watch::default()
    };
    let (_, mechanisms) = versus.beside(script);
    let record = play(script, mechanisms, watch);
    match &record.inconsistency {
        Some(found) => Err(found.clone()),
        None => Ok(record),
    }
}

/// Prints a script as it is played with the default mechanisms and with others.
pub fn show(script: &Script, versus: &Versus) {
    println!("{:#?}", script.setup);
    let watch = Watch {
        consistency: true,
        trace: true,
        ..versus.watches()
    };
    let (usual, changed) = versus.beside(script);
    for (name, mechanisms, watch) in [
        ("default", usual, watch),
        (versus.name.as_str(), changed, versus.watch(watch)),
    ] {
        println!("=== {name}");
        let record = play(script, mechanisms, watch);
        if let Some(found) = record.inconsistency {
            println!("{found}");
        }
    }
}

fn first_difference(one: &Record, other: &Record, versus: &Versus, equal: Equal) -> Option<String> {
    if equal == Equal::Streams {
        if one.heard != other.heard {
            return None;
        }
        let differs = one
            .streams
            .iter()
            .zip(&other.streams)
            .position(|(a, b)| a != b);
        return differs.map(|n| {
            let say = |record: &Record| {
                let stream = &record.streams[n];
                format!(
                    "{} bytes, end {}, error {:?}",
                    stream.bytes.len(),
                    stream.ended,
                    stream.error
                )
            };
            format!(
                "the application of connection {n} got {} by default, {} with {}",
                say(one),
                say(other),
                versus.name
            )
        });
    }
    let announces = versus.mechanisms.lan_evidence != DEFAULT.lan_evidence;
    let others: Vec<(Instant, Deed)> = other
        .deeds
        .iter()
        .filter(|(_, deed)| !(announces && is_announcement(deed)))
        .cloned()
        .collect();
    let (deeds, others) = (&one.deeds, &others);
    let masked = equal == Equal::ButChecksums;
    let same = |(at, deed): &(Instant, Deed), (when, did): &(Instant, Deed)| {
        at == when && (deed == did || masked && without_checksums(deed) == without_checksums(did))
    };
    let n = deeds
        .iter()
        .zip(others)
        .position(|(a, b)| !same(a, b))
        .unwrap_or(deeds.len().min(others.len()));
    if n == deeds.len() && n == others.len() {
        return None;
    }
    let say = |deeds: &[(Instant, Deed)]| match deeds.get(n) {
        Some((at, deed)) => format!("at {:?} {}", *at - Instant::from_nanos(1 << 40), tell(deed)),
        None => "nothing".to_owned(),
    };
    Some(format!(
        "deed {n}: by default {}; with {} {}",
        say(deeds),
        versus.name,
        say(others)
    ))
}

/// Tells whether a frame announces the host to its LAN, which nothing is to depend on that the peer sees.
fn is_announcement(deed: &Deed) -> bool {
    matches!(deed, Deed::Sent(raw) if raw.starts_with(&BRIDGE_GROUP.0))
}

/// A frame without the checksums of IP and TCP, and a SYN without the option that asks for others.
fn without_checksums(deed: &Deed) -> Deed {
    match deed {
        Deed::Sent(raw) if raw.len() >= 54 => {
            let mut raw = raw.clone();
            raw[24..26].fill(0);
            raw[50..52].fill(0);
            let option = [1, 14, 3, NO_CHECKSUM];
            let place = raw[54..].chunks_exact(4).position(|word| word == option);
            if let Some(word) = place.filter(|_| Flags(raw[47]).has(Flags::SYN)) {
                raw.drain(54 + 4 * word..58 + 4 * word);
                raw[17] -= 4;
                raw[46] -= 1 << 4;
            }
            Deed::Sent(raw)
        }
        other => other.clone(),
    }
}

fn tell(deed: &Deed) -> String {
    match deed {
        Deed::Sent(raw) => match super::craft::parse_tcp(raw) {
            Some((ip, header, payload)) => format!(
                "sent {:?} ae {} tos {} seq {} ({}) ack {} win {} ts {:?} sack {:?} counters {:?}",
                header.flags,
                u8::from(header.accurate_ecn),
                ip.tos,
                header.seq.0,
                payload.len(),
                header.ack.0,
                header.window,
                header.options.timestamps,
                header.options.sack,
                header.options.accurate_ecn,
            ),
            None => format!("sent {} bytes", raw.len()),
        },
        Deed::Read(bytes) => format!("read {} bytes", bytes.len()),
        other => format!("{other:?}"),
    }
}

//! The consistency check: every derived field of every connection, recomputed from its sources.
//!
//! The data path keeps many fields that only repeat what others say, so that it compares one of them instead of five. Each
//! rule here recomputes one such field, or walks one chain of frames, and names the contradiction. Tests call
//! [`Stack::check_consistency`] after each of their steps; no path of the stack does, so it costs nothing there.
//!
//! The check must never change the stack, and must end even where a chain is a circle.

use super::deadline::Deadline;
use super::receive_queue::charge;
use super::tcb::{State, Tcb, UNPREDICTABLE, flag, rare};
use super::template::front_v6;
use crate::buffer::{FrameId, Meta, Pool};
use crate::config::Timers;
use crate::demux::Search;
use crate::stack::Stack;
use crate::tcp::slow::reassembly::most_frames;
use crate::tcp::slow::syn::{make_template, set_mss};
use crate::tcp::slow::time_wait::SLOT_BIT;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use tollgate_wire::tcp::Flags;

/// A contradiction in the stack's records: a defect of the stack, never of its peer or its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistency {
    /// The rule that does not hold.
    pub rule: &'static str,
    /// The connection's place, unless the rule is the whole stack's.
    pub connection: Option<usize>,
    /// The values that contradict each other.
    pub detail: String,
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inconsistent: {}", self.rule)?;
        if let Some(index) = self.connection {
            write!(f, ", connection {index}")?;
        }
        write!(f, ": {}", self.detail)
    }
}

impl core::error::Error for Inconsistency {}

/// The outcome of a rule: the contradiction in words.
type Verdict = Result<(), String>;

/// Says what is wrong unless `holds`.
fn require(holds: bool, wrong: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// One connection, and what its rules look at beside it.
struct View<'a> {
    stack: &'a Stack,
    pool: &'a Pool,
    index: usize,
    tcb: &'a Tcb,
}

/// A rule of one connection, and its name.
type Rule = (&'static str, fn(&View<'_>) -> Verdict);

/// Rules of a connection that segments find.
const ATTACHED: &[Rule] = &[
    ("header prediction", predicted),
    ("the way out", way_out),
    ("sums of the header template", template_sums),
    ("segment sizes", sizes),
    ("order of the send sequence numbers", send_sequence),
    ("send queue", send_queue),
    ("scoreboard", recovery::scoreboard),
    ("losses", recovery::losses),
    ("ranges that are told of", recovery::reported_ranges),
    ("chain of mbufs", chain_of_mbufs),
    ("receive queue", receive_queue),
    ("room of the receive queue", receive_room),
    ("queue of segments out of order", out_of_order_queue),
    ("the peer's FIN", peers_fin),
    ("our FIN", our_fin),
    ("retransmission deadline", retransmission_deadline),
    ("entry in the wheel", wheel_entry),
    ("loss and prediction", loss_is_not_predicted),
    ("retransmission and prediction", in_flight_was_sent_once),
    ("entry in the table", table_entry),
    ("options", options),
    ("probe of the path's MTU", recovery::mtu_probe),
];

/// Rules of a connection whose application has yet to give the handle back.
const DETACHED: &[Rule] = &[
    ("a connection that is over", over),
    ("receive queue", receive_queue),
];

/// A rule of the whole stack, and its name.
type Whole = (&'static str, fn(&Stack) -> Verdict);

const WHOLE: &[Whole] = &[
    ("number of connections", number_of_connections),
    ("number of entries in the table", number_of_entries),
    ("TIME-WAIT in the table", time_waits_in_table),
    ("the cached connection", cached_connection),
    ("listeners", listeners),
    ("list of events", lists::events),
    ("list of waiting output", lists::waiting_output),
    ("state beside TCBs", state_beside_tcbs),
    ("states of recovery", recovery::states),
];

impl Stack {
    /// Recomputes what the stack keeps twice and says where it contradicts itself. It is for tests: the time that it takes
    /// grows with the connections, their queues and the listeners. `pool` must be the pool that the stack is used with.
    ///
    /// # Errors
    /// The first rule that does not hold.
    #[cold]
    pub fn check_consistency(&self, pool: &Pool) -> Result<(), Inconsistency> {
        for &(rule, holds) in WHOLE {
            holds(self).map_err(|detail| Inconsistency {
                rule,
                connection: None,
                detail,
            })?;
        }
        let free: BTreeSet<usize> = self.free.iter().map(|&place| place as usize).collect();
        for (index, tcb) in self.tcbs.iter().enumerate() {
            let rules = match tcb.state {
                _ if free.contains(&index) => continue,
                State::Closed | State::Listen | State::TimeWait => DETACHED,
                _ => ATTACHED,
            };
            let view = View {
                stack: self,
                pool,
                index,
                tcb,
            };
            for &(rule, holds) in rules {
                holds(&view).map_err(|detail| Inconsistency {
                    rule,
                    connection: Some(index),
                    detail: format!("{detail} ({:?})", tcb.state),
                })?;
            }
        }
        Ok(())
    }

    /// Tells whether a place holds a connection that segments find.
    fn is_attached(&self, index: usize) -> bool {
        self.tcbs.get(index).is_some_and(|tcb| {
            !matches!(tcb.state, State::Closed | State::Listen | State::TimeWait)
        })
    }
}

impl View<'_> {
    /// The frames of a chain, each with its record, by the links that `next` reads.
    fn chain(
        &self,
        first: FrameId,
        next: impl Fn(&Meta) -> FrameId,
    ) -> Result<Vec<(FrameId, Meta)>, String> {
        let mut frames = Vec::new();
        let mut id = first;
        while id.is_some() {
            let Some(meta) = self.pool.meta_if(id) else {
                return Err(format!("{id:?} is not a frame of the pool"));
            };
            if meta.refs == 0 {
                return Err(format!("{id:?} stands in a chain and is free"));
            }
            if frames.len() == self.pool.capacity() {
                return Err(String::from("the chain does not end"));
            }
            frames.push((id, *meta));
            id = next(meta);
        }
        Ok(frames)
    }

    fn is_opening(&self) -> bool {
        matches!(self.tcb.state, State::SynSent | State::SynReceived)
    }
}

/// The marks of options in the TCB are there where the options are.
fn options(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let low_water = tcb.low_water != u32::MAX;
    let own_syn = view.stack.extension(view.index);
    let own_syn = own_syn.is_some_and(|own| own.max_segment.is_some() || own.fast_open.is_some());
    require(
        (tcb.is_rare(rare::LOW_WATER), tcb.is_rare(rare::OWN_SYN)) == (low_water, own_syn),
        || {
            format!(
                "low water {}, own SYN {own_syn}, marked otherwise",
                tcb.low_water
            )
        },
    )
}

/// `predicted` and `sendable` are what [`Tcb::predict`] makes of everything that they stand for.
fn predicted(view: &View<'_>) -> Verdict {
    let mut anew = *view.tcb;
    if anew.state == State::SynSent {
        // The peer's SYN is yet to tell its window.
        anew.snd_wnd = anew.snd_wnd.max(1);
    }
    anew.predict();
    let (kept, made) = (view.tcb, &anew);
    require(
        (kept.predicted, kept.sendable) == (made.predicted, made.sendable),
        || {
            format!(
                "predicted {:#06x} and sendable {} instead of {:#06x} and {}",
                kept.predicted, kept.sendable, made.predicted, made.sendable
            )
        },
    )
}

/// [`flag::SLOW_TRANSMIT`] is what [`Tcb::choose_transmit_path`] makes of link address and amendments.
fn way_out(view: &View<'_>) -> Verdict {
    let mut anew = *view.tcb;
    anew.choose_transmit_path();
    require(
        view.tcb.is(flag::SLOW_TRANSMIT) == anew.is(flag::SLOW_TRANSMIT),
        || {
            format!(
                "SLOW_TRANSMIT is {}, with the link address {:?}",
                view.tcb.is(flag::SLOW_TRANSMIT),
                view.tcb.known_link()
            )
        },
    )
}

/// The constant parts of both checksums are those of addresses, ports, options and TTL, and the front of IPv6 has the flow's label. Zero
/// has two representations.
fn template_sums(view: &View<'_>) -> Verdict {
    let mut anew = *view.tcb;
    let addresses = view.stack.destinations.addresses_sum(anew.key);
    make_template(&mut anew, view.stack.config.ttl, addresses);
    let reduced = |sum: u16| sum % u16::MAX;
    let ip = |tcb: &Tcb| u16::from_ne_bytes(tcb.ip_checksum.to_ne_bytes());
    let (kept, made) = (view.tcb, &anew);
    let front = front_v6(view.stack.flow_label(kept.key));
    require(kept.key.pair().is_none() || kept.link == front, || {
        format!("IPv6 begins {:?} instead of {front:?}", kept.link)
    })?;
    require(
        reduced(kept.tcp_sum) == reduced(made.tcp_sum) && reduced(ip(kept)) == reduced(ip(made)),
        || {
            format!(
                "TCP {:#06x} and IP {:#06x} instead of {:#06x} and {:#06x}",
                kept.tcp_sum,
                ip(kept),
                made.tcp_sum,
                ip(made)
            )
        },
    )
}

/// A segment is no longer than both ends' MSS allow (shorter where the path says so), and windows open in steps of one.
fn sizes(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    if tcb.state == State::SynSent {
        return Ok(());
    }
    let mut anew = *tcb;
    let most = match tcb.key.pair() {
        None => view.stack.mtu,
        Some(_) => view.stack.link_mtu,
    };
    set_mss(&mut anew, most);
    let step = (tcb.rcv_limit / 2).min(u32::from(tcb.mss)) as u16;
    require(tcb.mss != 0 && tcb.mss <= anew.mss, || {
        format!("an MSS of {} where at most {} fits", tcb.mss, anew.mss)
    })?;
    require(tcb.window_step == step, || {
        format!("window steps of {} instead of {step}", tcb.window_step)
    })
}

/// SND.UNA <= SND.NXT <= SND.MAX <= the end of the queue, all within what windows can span.
fn send_sequence(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let highest = tcb.highest_sent();
    let ordered = tcb.snd_una.at_or_before(tcb.snd_nxt)
        && tcb.snd_nxt.at_or_before(highest)
        && highest.at_or_before(tcb.snd_end);
    require(ordered, || {
        format!(
            "SND.UNA {}, SND.NXT {}, SND.MAX {}, end of the queue {}",
            tcb.snd_una.0, tcb.snd_nxt.0, highest.0, tcb.snd_end.0
        )
    })
}

/// The send queue runs without gaps from SND.UNA to its end, and `unsent` is where SND.NXT lies.
fn send_queue(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let frames = view.chain(tcb.tx_head, |meta| meta.tx_next)?;
    let (Some((_, first)), Some((last_id, last))) = (frames.first(), frames.last()) else {
        require(tcb.unsent.is_none(), || {
            String::from("the queue is empty and something is unsent")
        })?;
        return require(tcb.snd_una == tcb.snd_end || view.is_opening(), || {
            format!(
                "the queue is empty, but ends {} bytes behind SND.UNA",
                tcb.snd_end - tcb.snd_una
            )
        });
    };
    require(*last_id == tcb.tx_tail, || {
        format!("the last frame is {last_id:?}, not {:?}", tcb.tx_tail)
    })?;
    require(last.tx_end == tcb.snd_end, || {
        format!(
            "the last frame ends at {}, the queue at {}",
            last.tx_end.0, tcb.snd_end.0
        )
    })?;
    // While a SYN is unacknowledged the first frame may lie behind it.
    let una = tcb.snd_una + u32::from(view.is_opening());
    require(
        first.tx_seq.at_or_before(una) && tcb.snd_una.before(first.tx_end),
        || {
            format!(
                "the first frame is {} to {}, SND.UNA {}",
                first.tx_seq.0, first.tx_end.0, tcb.snd_una.0
            )
        },
    )?;
    for (id, meta) in &frames {
        let control =
            u32::from(meta.tx_flags.has(Flags::SYN)) + u32::from(meta.tx_flags.has(Flags::FIN));
        let end = meta.tx_seq + u32::from(meta.tx_len) + control;
        require(meta.tx_end == end && meta.tx_end != meta.tx_seq, || {
            format!(
                "{id:?} holds {} bytes from {} to {}",
                meta.tx_len, meta.tx_seq.0, meta.tx_end.0
            )
        })?;
    }
    for pair in frames.windows(2) {
        let ((_, before), (id, after)) = (&pair[0], &pair[1]);
        require(before.tx_end == after.tx_seq, || {
            format!(
                "{id:?} begins at {}, the frame before it ends at {}",
                after.tx_seq.0, before.tx_end.0
            )
        })?;
    }
    unsent_frame(tcb, &frames)
}

/// A connection's chain of mbufs, where payload lies in mbufs, runs from its first frame, or before it, to the end of
/// its payload.
fn chain_of_mbufs(view: &View<'_>) -> Verdict {
    let Some(chains) = &view.stack.chains else {
        return Ok(());
    };
    let frames = view.chain(view.tcb.tx_head, |meta| meta.tx_next)?;
    let first = frames.iter().find(|(_, meta)| meta.tx_len != 0);
    let (stretch, end) = (chains.stretch(view.index), view.tcb.payload_end());
    let holds = match (stretch, first) {
        (Some((begin, last)), Some((_, meta))) => begin.at_or_before(meta.tx_seq) && last == end,
        (Some((_, last)), None) => last == end,
        (None, Some(_)) => false,
        (None, None) => true,
    };
    require(holds, || {
        format!(
            "the chain covers {stretch:?}, the first frame {:?}, the payload ends at {}",
            first.map(|(_, meta)| meta.tx_seq),
            end.0
        )
    })
}

/// SND.NXT lies in the first unsent frame, or at the end of the queue when nothing is unsent.
fn unsent_frame(tcb: &Tcb, frames: &[(FrameId, Meta)]) -> Verdict {
    if tcb.unsent.is_none() {
        return require(tcb.snd_nxt == tcb.snd_end, || {
            format!(
                "nothing is unsent, but SND.NXT is {} of {}",
                tcb.snd_nxt.0, tcb.snd_end.0
            )
        });
    }
    let Some((id, meta)) = frames.iter().find(|(id, _)| *id == tcb.unsent) else {
        return Err(format!("{:?} is unsent and not in the queue", tcb.unsent));
    };
    require(
        meta.tx_seq.at_or_before(tcb.snd_nxt) && tcb.snd_nxt.before(meta.tx_end),
        || {
            format!(
                "{id:?}, {} to {}, is the first unsent, SND.NXT {}",
                meta.tx_seq.0, meta.tx_end.0, tcb.snd_nxt.0
            )
        },
    )
}

/// The receive queue runs without gaps up to RCV.NXT. Only its first frame may have been read in part.
fn receive_queue(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let frames = view.chain(tcb.rx_head, |meta| meta.rx_next)?;
    let Some((last_id, _)) = frames.last() else {
        return Ok(());
    };
    require(*last_id == tcb.rx_tail, || {
        format!("the last frame is {last_id:?}, not {:?}", tcb.rx_tail)
    })?;
    require(frames.iter().all(|(_, meta)| meta.rx_len != 0), || {
        String::from("a frame without bytes waits for its reader")
    })?;
    let end = tcb.rcv_nxt - u32::from(tcb.is_rare(rare::FIN_RECEIVED));
    let ends = frames.iter().skip(1).map(|(_, next)| next.rx_seq);
    for (n, ((id, meta), end)) in frames.iter().zip(ends.chain([end])).enumerate() {
        let reached = meta.rx_seq + u32::from(meta.rx_len);
        let fits = reached == end || n == 0 && reached.before(end);
        require(fits, || {
            format!(
                "{id:?} ends at {}, what follows begins at {}",
                reached.0, end.0
            )
        })?;
    }
    Ok(())
}

/// `rx_free` is what the receive queue leaves of the receive buffer, each of its frames counted for what it is charged.
fn receive_room(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let frames = view.chain(tcb.rx_head, |meta| meta.rx_next)?;
    let charges = frames
        .iter()
        .map(|(_, meta)| charge(view.pool, meta.rx_len));
    let queued: u32 = charges.sum();
    let room = tcb.rcv_limit.wrapping_sub(queued);
    require(tcb.rx_free == room, || {
        format!(
            "room for {} bytes with {queued} of {} queued",
            tcb.rx_free, tcb.rcv_limit
        )
    })
}

/// Segments out of order lie behind a gap, in order, without overlap, within the window, and are not too many.
fn out_of_order_queue(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let frames = view.chain(tcb.ooo_head, |meta| meta.rx_next)?;
    let most = usize::from(most_frames(tcb, view.pool));
    require(frames.len() <= most, || {
        format!(
            "{} frames are out of order, of at most {most}",
            frames.len()
        )
    })?;
    let ends = frames
        .first()
        .map(|(_, first)| (first.rx_last, usize::from(first.rx_count)));
    let walked = frames.last().map(|(last, _)| (*last, frames.len()));
    require(ends == walked, || {
        format!("the first frame says {ends:?}, there are {walked:?}")
    })?;
    require(frames.is_empty() || tcb.state.may_receive(), || {
        String::from("segments are out of order where nothing more may arrive")
    })?;
    // The first may not even touch RCV.NXT: then it would be in order.
    let mut before = tcb.rcv_nxt;
    for (n, (id, meta)) in frames.iter().enumerate() {
        let behind = if n == 0 {
            before.before(meta.rx_seq)
        } else {
            before.at_or_before(meta.rx_seq)
        };
        let end = meta.rx_seq + u32::from(meta.rx_len);
        require(
            behind && meta.rx_len != 0 && end.at_or_before(tcb.rcv_edge),
            || {
                format!(
                    "{id:?} holds {} to {}, behind {}, the window ends at {}",
                    meta.rx_seq.0, end.0, before.0, tcb.rcv_edge.0
                )
            },
        )?;
        before = end;
    }
    Ok(())
}

/// A FIN that was seen and not taken lies behind a gap, or before data that came earlier; one that was taken ends the
/// peer's direction.
fn peers_fin(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let (seen, taken) = (tcb.is_rare(rare::FIN_SEEN), tcb.is_rare(rare::FIN_RECEIVED));
    let over = matches!(
        tcb.state,
        State::CloseWait | State::Closing | State::LastAck
    );
    require(taken == over, || {
        format!("FIN_RECEIVED is {taken} in this state")
    })?;
    require(seen || !taken, || {
        String::from("the peer's FIN was taken and not seen")
    })?;
    require(!taken || tcb.fin_seq + 1 == tcb.rcv_nxt, || {
        format!(
            "the peer's FIN was taken at {}, RCV.NXT is {}",
            tcb.fin_seq.0, tcb.rcv_nxt.0
        )
    })?;
    require(!seen || taken || tcb.rcv_nxt != tcb.fin_seq, || {
        format!(
            "everything before the peer's FIN at {} has arrived, and it is not taken",
            tcb.fin_seq.0
        )
    })
}

/// Our FIN is queued in exactly the states behind it.
fn our_fin(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let queued = tcb.is(flag::FIN_QUEUED);
    let right = match tcb.state {
        State::SynSent | State::Established | State::CloseWait => !queued,
        State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck => queued,
        State::SynReceived | State::Closed | State::Listen | State::TimeWait => true,
    };
    require(right, || format!("FIN_QUEUED is {queued} in this state"))
}

/// A timer runs whenever data is in flight, and whenever data waits with nothing in flight.
fn retransmission_deadline(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let waits = tcb.unsent.is_some() && !tcb.is_rare(rare::OUTPUT_LISTED);
    let paced = view.stack.controllers.pace_due(tcb, view.index).is_some();
    let needed = tcb.in_flight() != 0 || waits && !paced && tcb.state.is_synchronized();
    require(!needed || tcb.rtx_deadline.is_set(), || {
        format!(
            "{} bytes in flight, {} unsent, and no timer",
            tcb.in_flight(),
            tcb.snd_end - tcb.snd_nxt
        )
    })
}

/// The wheel's entry is where `armed` says, no later than any deadline.
fn wheel_entry(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let entry = view.stack.wheel.time_of(view.index as u32);
    require(entry == Some(tcb.armed), || {
        format!("the wheel says {entry:?}, the connection {:?}", tcb.armed)
    })?;
    let deadlines = [
        ("retransmission", tcb.rtx_deadline),
        ("acknowledgment", tcb.ack_deadline),
        ("keepalive", tcb.keep_deadline),
        ("user timeout", tcb.user_deadline),
    ];
    let probe = view.stack.probe_due(view.pool, view.index);
    if view.stack.config.mechanisms.timers == Timers::List {
        // Whoever walks all connections comes to them.
        return Ok(());
    }
    for (name, deadline) in deadlines {
        let late = deadline.tick().is_some_and(|at| at.before(tcb.armed));
        require(!late, || {
            format!(
                "{name} is due at {deadline:?}, the wheel fires at {:?}",
                tcb.armed
            )
        })?;
    }
    let pace = view.stack.controllers.pace_due(tcb, view.index);
    let wider = view.stack.path_widens_at(view.index);
    let others = [
        ("a probe", probe),
        ("paced output", pace),
        ("a wider path", wider),
    ];
    for (name, due) in others {
        require(due.is_none_or(|at| !at.before(tcb.armed)), || {
            format!(
                "{name} is due at {due:?}, the wheel fires at {:?}",
                tcb.armed
            )
        })?;
    }
    Ok(())
}

/// While a transfer is predicted, no timeout is being recovered from.
fn loss_is_not_predicted(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let transfer = tcb.predicted != UNPREDICTABLE && tcb.state.is_synchronized();
    require(!transfer || tcb.backoff == 0, || {
        format!("segments are predicted after {} timeouts", tcb.backoff)
    })
}

/// While a transfer is predicted, what is in flight was sent once. A frame that is acknowledged in part is excepted: bytes
/// were appended to it after it was sent and before it was sent again, and those are not what was lost. So are connections
/// that a timeout has let send again for nothing: what the peer acknowledges then is not timed, and nothing else follows from it.
fn in_flight_was_sent_once(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    let recovery = view.stack.recovery(view.index);
    let for_nothing = recovery.is_some_and(|recovery| recovery.undone != 0);
    if tcb.predicted == UNPREDICTABLE || !tcb.state.is_synchronized() || for_nothing {
        return Ok(());
    }
    let frames = view.chain(tcb.tx_head, |meta| meta.tx_next)?;
    let sent = frames.iter().take_while(|(id, _)| *id != tcb.unsent);
    for (id, meta) in sent {
        require(
            meta.transmissions.count() <= 1 || meta.tx_seq.before(tcb.snd_una),
            || {
                format!(
                    "segments are predicted, {id:?} was sent {} times",
                    meta.transmissions.count()
                )
            },
        )?;
    }
    Ok(())
}

/// The table finds the connection by its key.
fn table_entry(view: &View<'_>) -> Verdict {
    let View {
        stack, index, tcb, ..
    } = *view;
    let found = match stack.search(tcb.key) {
        Search::Found(slot) => Some(slot),
        Search::Vacant(_) => None,
    };
    require(found == Some(index as u32), || {
        format!("the table has {found:?} under its key")
    })?;
    require(
        stack.table.hash(stack.label_of(tcb.key)) == tcb.hash,
        || String::from("it stands under another hash than its key's"),
    )
}

/// Nothing is sent, predicted or due any more. Keepalive may still be asked for: it then finds nothing to do.
fn over(view: &View<'_>) -> Verdict {
    let tcb = view.tcb;
    require(tcb.tx_head.is_none() && tcb.unsent.is_none(), || {
        String::from("the send queue is not empty")
    })?;
    require(tcb.ooo_head.is_none(), || {
        String::from("segments are out of order")
    })?;
    require(tcb.predicted == UNPREDICTABLE && tcb.sendable == 0, || {
        String::from("segments are predicted")
    })?;
    let deadlines = [tcb.rtx_deadline, tcb.ack_deadline, tcb.user_deadline];
    require(deadlines.iter().all(|&at| at == Deadline::NONE), || {
        format!("something is due: {deadlines:?}")
    })
}

/// Every place is free or counted, and no place is free twice.
fn number_of_connections(stack: &Stack) -> Verdict {
    let free: BTreeSet<u32> = stack.free.iter().copied().collect();
    require(free.len() == stack.free.len(), || {
        String::from("a place is free twice")
    })?;
    require(
        stack.open_connections + free.len() == stack.tcbs.len(),
        || {
            format!(
                "{} open and {} free of {}",
                stack.open_connections,
                free.len(),
                stack.tcbs.len()
            )
        },
    )?;
    let held = free.iter().find(|&&place| {
        stack.tcbs.get(place as usize).is_none_or(|tcb| {
            tcb.state != State::Closed
                || tcb.tx_head.is_some()
                || tcb.rx_head.is_some()
                || tcb.ooo_head.is_some()
        })
    });
    require(held.is_none(), || {
        format!("place {held:?} is free and holds something")
    })
}

/// The table holds the attached connections, those in TIME-WAIT, and nothing else.
fn number_of_entries(stack: &Stack) -> Verdict {
    let attached = (0..stack.tcbs.len())
        .filter(|&index| stack.is_attached(index))
        .count();
    let (table, waits) = (stack.table.len(), stack.time_wait.len());
    require(table == attached + waits, || {
        format!("{table} entries for {attached} connections and {waits} in TIME-WAIT")
    })
}

/// The table finds every connection in TIME-WAIT by its key.
fn time_waits_in_table(stack: &Stack) -> Verdict {
    for (index, entry) in stack.time_wait.iter() {
        let found =
            matches!(stack.search(entry.key), Search::Found(slot) if slot == index | SLOT_BIT);
        require(
            found && stack.table.hash(stack.label_of(entry.key)) == entry.hash,
            || format!("the table does not find TIME-WAIT {index}"),
        )?;
    }
    Ok(())
}

/// The connection that is looked at first is one that segments find.
fn cached_connection(stack: &Stack) -> Verdict {
    require(
        stack.cached == usize::MAX || stack.is_attached(stack.cached),
        || format!("{} is cached and not attached", stack.cached),
    )
}

/// A listener's counts are those of its connections that nobody has accepted, and of those with early data.
fn listeners(stack: &Stack) -> Verdict {
    for (n, listener) in stack.listeners.iter().enumerate() {
        let Some(listener) = listener else { continue };
        let waiting = (0..stack.tcbs.len()).filter(|&index| {
            let tcb = &stack.tcbs[index];
            stack.is_attached(index) && tcb.listener as usize == n && tcb.is_rare(rare::UNACCEPTED)
        });
        let (half_open, complete): (Vec<usize>, Vec<usize>) =
            waiting.partition(|&index| stack.tcbs[index].is_half_open());
        let count = half_open.len();
        require(listener.half_open as usize == count, || {
            format!(
                "listener {n} counts {} half open of {count}",
                listener.half_open
            )
        })?;
        let mut listed = listener.queue.walk(&stack.tcbs);
        listed.sort_unstable();
        require(
            listed == complete && listener.queue.len() == complete.len(),
            || {
                format!(
                    "listener {n} lists {listed:?} and counts {}, there are {complete:?}",
                    listener.queue.len()
                )
            },
        )?;
        let early = (0..stack.tcbs.len()).filter(|&index| {
            let tcb = &stack.tcbs[index];
            stack.is_attached(index) && tcb.listener as usize == n && tcb.is_rare(rare::FAST_OPEN)
        });
        let (counted, early) = (
            listener.early.as_ref().map_or(0, |early| early.open),
            early.count(),
        );
        require(usize::from(counted) == early, || {
            format!("listener {n} counts {counted} with early data of {early}")
        })?;
    }
    Ok(())
}

/// An extension or a congestion controller exists for exactly the connections that are marked.
fn state_beside_tcbs(stack: &Stack) -> Verdict {
    let extended = stack.extension.keys().map(|&index| index as usize);
    let kept: BTreeSet<usize> = extended.chain(stack.controllers.indices()).collect();
    let marked: BTreeSet<usize> = (0..stack.tcbs.len())
        .filter(|&index| stack.tcbs[index].is_rare(rare::EXTENSION))
        .collect();
    require(kept == marked, || {
        format!("{kept:?} have state beside their TCBs, {marked:?} are marked")
    })
}

mod lists;
mod recovery;
#[cfg(test)]
mod tests;

//! TCP Fast Open, the client's side (RFC 7413, 4.1.3, 4.2): data goes with the SYN to a server whose cookie is known.
//!
//! Owns what a SYN carries, and what its answer says of that. An application that calls [`Active::connect_with_data`] gets the fastest
//! way that there is: data in the SYN where a cookie is known; else the SYN asks for one, and data follows the handshake. Whatever goes
//! wrong costs a round trip and no data. A SYN that is not answered is sent again without data and option (4.2.1, 4.2.2); data that the
//! answer does not acknowledge goes with the handshake's last segment; and a server that answered badly is left alone for a while
//! ([`crate::tcp::slow::fast_open_cache`]).
//!
//! Until the answer has come [`rare::FAST_OPEN`] keeps the connection away from what is predicted. Data in a SYN may be delivered twice
//! (6.1); so it is sent only where the application asks.

use super::fast_open_cache::Advice;
use crate::buffer::FrameId;
use crate::icmp::Trouble;
use crate::options::Open;
use crate::socket::{ConnId, Error};
use crate::stack::{Active, Stack};
use crate::tcp::deadline::Deadline;
use crate::tcp::recovery::rto::Rtt;
use crate::tcp::slow::syn::{Syn, default_mss};
use crate::tcp::slow::untemplated::Body;
use crate::tcp::tcb::{State, Tcb, rare};
use crate::time::Instant;
use core::net::SocketAddr;
use tollgate_gate::Recorder;
use tollgate_wire::tcp::{self, FastOpenCookie};

/// The largest MSS that data in a SYN is held against, over IPv4 and over IPv6 (RFC 7413, 4.1.3).
const LARGEST_MSS: (u16, u16) = (1460, 1440);
/// Bytes of TCP options at most.
const MOST_OPTIONS: usize = tcp::MAX_HEADER_LEN - tcp::HEADER_LEN;

/// Outcome of [`Active::connect_with_data`] (RFC 7413), as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FastOpen {
    /// The connection was not opened with data, or the peer opened it.
    #[default]
    NotAsked,
    /// The SYN was one without Fast Open: the server is left alone for a while, or the SYN had no room for the option.
    Plain,
    /// The SYN has asked for a cookie, without data; there was no answer, or none with a cookie.
    CookieRequested,
    /// The SYN has asked for a cookie, and its answer has brought one: the next connection can send data in its SYN.
    CookieReceived,
    /// The SYN carries data, and its answer has not come.
    DataSent,
    /// The answer has acknowledged all data of the SYN.
    DataAcknowledged,
    /// The answer has not acknowledged all data of the SYN. The rest went after the handshake.
    DataNotAcknowledged,
    /// The SYN was not answered, or a router refused it: it was sent again without Fast Open.
    Unanswered,
}

/// Attempt of a connection to open fast.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempt {
    pub(crate) outcome: FastOpen,
    /// Bytes of data in the first SYN.
    sent: u16,
}

impl Tcb {
    /// Tells whether the connection was opened with data and waits for the answer to its SYN.
    fn opens_fast(&self) -> bool {
        self.is_rare(rare::FAST_OPEN) && self.listener == u32::MAX
    }
}

impl Stack {
    fn attempt(&self, index: usize) -> Attempt {
        self.extension(index)
            .map_or(Attempt::default(), |own| own.attempt)
    }

    /// Outcome of opening a connection fast.
    pub(crate) fn fast_open_outcome(&self, index: usize) -> FastOpen {
        self.attempt(index).outcome
    }

    fn set_outcome(&mut self, index: usize, outcome: FastOpen) {
        self.change_extension(index, |own| own.attempt.outcome = outcome);
    }

    /// A SYN, or the answer to one, is to be sent again: what was not answered may have been dropped for its option or its data, so it
    /// goes without (RFC 7413, 4.2.1, 4.2.2).
    #[cold]
    pub(in crate::tcp) fn fast_open_unanswered(&mut self, index: usize) {
        if self
            .extension(index)
            .is_none_or(|own| own.fast_open.is_none())
        {
            return;
        }
        let opens = self.tcbs[index].opens_fast();
        self.change_extension(index, |own| {
            own.fast_open = None;
            if opens {
                own.attempt.outcome = FastOpen::Unanswered;
            }
        });
    }

    /// An attempt to connect has failed: a server that refused Fast Open, or said nothing, is left alone (RFC 7413, 4.1.3.1).
    #[cold]
    pub(in crate::tcp) fn fast_open_failed(&mut self, index: usize, error: Error, now: Instant) {
        let tcb = &self.tcbs[index];
        let refused = matches!(error, Error::Refused | Error::TimedOut);
        let asked = !matches!(
            self.fast_open_outcome(index),
            FastOpen::NotAsked | FastOpen::Plain
        );
        if tcb.state == State::SynSent && tcb.opens_fast() && refused && asked {
            let (remote, local) = self.ends_of(tcb.key);
            self.fast_open_cache.suspend(remote, local.ip(), now);
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Opens a connection and sends `data` as early as that can be done: in the SYN, where the server has given us a cookie before (Fast
    /// Open, RFC 7413), else after the handshake. Returns how many bytes were taken; the rest is to be sent when the connection stands.
    /// [`Info::fast_open`](crate::Info::fast_open) says what became of the data in the SYN.
    ///
    /// Data in a SYN may be delivered twice, to two connections of the server, when the network doubles it (RFC 7413, 6.1).
    ///
    /// # Errors
    /// Those of [`Active::connect_with`].
    pub fn connect_with_data(
        &mut self,
        remote: impl Into<SocketAddr>,
        open: &Open<'_>,
        data: &[u8],
    ) -> Result<(ConnId, usize), Error> {
        let conn = self.connect_particularly(remote.into(), open, Some(data))?;
        let tcb = &self.stack.tcbs[conn.index as usize];
        Ok((conn, (tcb.snd_end - tcb.iss) as usize - 1))
    }

    /// Chooses the option of a SYN: with a cookie, with the request for one, or without. Data in a SYN needs a cookie of the server's
    /// (RFC 7413, 4.2.2).
    #[cold]
    pub(in crate::tcp) fn choose_fast_open(&mut self, index: usize, data: &[u8]) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.rare |= rare::FAST_OPEN;
        tcb.predict();
        let (remote, local) = self.stack.ends_of(self.stack.tcbs[index].key);
        let cache = &mut self.stack.fast_open_cache;
        let (option, outcome) = match cache.advice(remote, local.ip(), self.now) {
            Advice::Plain => (None, FastOpen::Plain),
            Advice::Request => (Some(FastOpenCookie::REQUEST), FastOpen::CookieRequested),
            // Without data a cookie has no use.
            Advice::Data(..) if data.is_empty() => (None, FastOpen::Plain),
            Advice::Data(cookie, _) => (Some(cookie), FastOpen::DataSent),
        };
        self.stack.change_extension(index, |own| {
            own.fast_open = option;
            own.attempt.outcome = outcome;
        });
        // RFC 7413, 4.2.2, client, 1.a.
        if self.syn_options_len(index) > MOST_OPTIONS {
            self.stack.change_extension(index, |own| {
                own.fast_open = None;
                own.attempt.outcome = FastOpen::Plain;
            });
        }
    }

    /// Bytes of options that the connection's SYN has.
    fn syn_options_len(&self, index: usize) -> usize {
        let mut options = self.syn_header(index).options;
        let fast_open = options.fast_open.take();
        let fast_open = fast_open.map_or(0, |cookie| {
            (2 + cookie.as_slice().len()).next_multiple_of(4)
        });
        options.emit(&mut [0; MOST_OPTIONS]) + fast_open
    }

    /// The MSS that data for a server is cut to before it names its own, for its SYN and for what follows.
    fn expected_mss(&mut self, index: usize) -> (u16, u16) {
        let key = self.stack.tcbs[index].key;
        let (remote, local) = self.stack.ends_of(key);
        let ours = self.offered_mss(index);
        let advice = self
            .stack
            .fast_open_cache
            .advice(remote, local.ip(), self.now);
        let (most, headers) = match key.pair() {
            None => (LARGEST_MSS.0, 40),
            Some(_) => (LARGEST_MSS.1, 60),
        };
        let link = match key.pair() {
            None => self.stack.mtu,
            Some(_) => self.stack.ipv6.mtu,
        };
        let path = self.stack.destinations.bound_mtu(key, link);
        let ours = ours.min(path - headers);
        match advice {
            Advice::Data(_, Some(mss)) => (mss.min(ours).min(most), mss.min(ours)),
            Advice::Data(_, None) | Advice::Request | Advice::Plain => {
                (default_mss(key).min(ours), ours)
            }
        }
    }

    /// Queues the data that a connection is opened with, and sends the SYN, with as much of it as it may carry.
    #[cold]
    pub(in crate::tcp) fn send_syn_with_data(&mut self, index: usize, data: &[u8]) {
        let (in_syn, behind) = self.expected_mss(index);
        let options = self.syn_options_len(index) as u16;
        let room = self.stack.tcbs[index].snd_limit as usize;
        let mut data = &data[..data.len().min(room)];
        let tcb = &mut self.stack.tcbs[index];
        // The option of IPv4 for a route lies in the packet as well; that of IPv6 is its longer header.
        let ip_options = match tcb.key.pair() {
            None => u16::from(tcb.ip_options),
            Some(_) => 0,
        };
        if self.stack.attempt(index).outcome == FastOpen::DataSent {
            let first = in_syn.saturating_sub(options + ip_options).max(1);
            let first = data.len().min(usize::from(first));
            self.stack.tcbs[index].mss = first as u16;
            let taken = self.append(index, &data[..first], first);
            data = if taken == first { &data[first..] } else { &[] };
            let id = self.stack.tcbs[index].tx_head;
            if id.is_some() {
                self.send_syn_carrying(index, id);
            } else {
                self.send_syn(index);
            }
        } else {
            self.send_syn(index);
        }
        let tcb = &mut self.stack.tcbs[index];
        let every = (tcb.header_len() - tcp::HEADER_LEN) as u16 + ip_options;
        tcb.mss = behind.saturating_sub(every).max(8);
        self.append(index, data, data.len());
    }

    /// Sends the SYN with a copy of the first frame's payload: the frame itself may have to be sent again, and the SYN goes again without.
    fn send_syn_carrying(&mut self, index: usize, id: FrameId) {
        let meta = self.pool.meta(id);
        let (seq, len, sum) = (meta.tx_seq, meta.tx_len, meta.tx_sum);
        let Some(copy) = self.pool.alloc() else {
            return self.send_syn(index);
        };
        if self.stack.chains.is_none() {
            self.pool.copy_payload(id, copy, usize::from(len));
        }
        self.fill_from_chain(index, copy, (seq, len, sum), false);
        self.mark_sent_with_syn(index, id);
        self.stack.label_flow(index);
        let header = self.syn_header(index);
        let way = self.way_of(index);
        self.send_segment(way, &header, Some(Body { id: copy, len }));
        self.stack
            .change_extension(index, |own| own.attempt.sent = len);
        self.stack.counters.syns_with_data += 1;
    }

    /// The answer to the SYN of a connection that was opened with data (RFC 7413, 4.2.2, client, receiving the SYN-ACK).
    #[cold]
    pub(in crate::tcp) fn fast_open_answered(
        &mut self,
        index: usize,
        syn: &Syn,
        alternate_checksum: Option<u8>,
    ) {
        self.take_answer(index, syn, alternate_checksum);
        self.learn_from_answer(index, syn);
        self.established_maybe_early(index, syn.options.echo());
        self.stack.tcbs[index].unacked = 1;
    }

    /// Takes cookie and MSS out of an answer, and judges by it.
    fn learn_from_answer(&mut self, index: usize, syn: &Syn) {
        let attempt = self.stack.attempt(index);
        let tcb = &self.stack.tcbs[index];
        let (remote, local) = self.stack.ends_of(tcb.key);
        let acked = tcb.snd_una - (tcb.iss + 1);
        let sent = u32::from(attempt.sent);
        let all = sent != 0 && acked >= sent;
        let none = sent == 0 || acked == 0;
        let cookie = syn.options.fast_open;
        let cookie = cookie.filter(|cookie| !cookie.as_slice().is_empty());
        let now = self.now;
        let cache = &mut self.stack.fast_open_cache;
        cache.learn(remote.ip(), local.ip(), cookie, syn.options.mss);
        let outcome = match attempt.outcome {
            _ if all => FastOpen::DataAcknowledged,
            FastOpen::DataSent => FastOpen::DataNotAcknowledged,
            FastOpen::CookieRequested if cookie.is_some() => FastOpen::CookieReceived,
            other => other,
        };
        match outcome {
            FastOpen::DataAcknowledged | FastOpen::CookieReceived => {
                cache.trust(remote, local.ip());
            }
            // RFC 7413, 4.1.3.1, and 4.2.2 on paths that drop such SYNs. A new cookie says that the one before is not good any more.
            FastOpen::CookieRequested | FastOpen::DataNotAcknowledged | FastOpen::Unanswered
                if none && cookie.is_none() =>
            {
                cache.suspend(remote, local.ip(), now);
            }
            _ => {}
        }
        self.stack.set_outcome(index, outcome);
        self.stack.counters.fast_opens_acknowledged += u64::from(all);
    }

    /// The handshake of a connection that was opened with data is complete: what was in the SYN and is not acknowledged is sent as if it
    /// had never been (RFC 7413, 4.2.2), and frames are made as short as the peer asks for.
    pub(in crate::tcp) fn early_data_answered(&mut self, index: usize) {
        if !self.stack.tcbs[index].opens_fast() {
            return;
        }
        let first = self.stack.tcbs[index].tx_head;
        let tcb = &mut self.stack.tcbs[index];
        if tcb.snd_una != tcb.snd_nxt {
            let sent = self.pool.meta_mut(first);
            sent.forget_sending();
            let bytes = u64::from(sent.tx_len);
            tcb.unsent = first;
            tcb.snd_nxt = tcb.snd_una;
            tcb.rtx_deadline = Deadline::NONE;
            let (_, state) = self.stack.recovery_of(index);
            state.bytes_retransmitted += bytes;
        }
        let mss = self.stack.tcbs[index].mss;
        self.cut_queue(index, mss);
    }

    /// ICMP says that something is wrong with the SYN of a connection that was opened with data. Returns whether that is all there is
    /// to do about it: a SYN that was too long goes again at once, without data (RFC 7413, 4.1.3.1).
    #[cold]
    pub(crate) fn fast_open_trouble(&mut self, index: usize, trouble: Trouble) -> bool {
        let tcb = &self.stack.tcbs[index];
        let with_option = self
            .stack
            .extension(index)
            .is_some_and(|own| own.fast_open.is_some());
        if tcb.state != State::SynSent || !tcb.opens_fast() || !with_option {
            return false;
        }
        let key = tcb.key;
        let (remote, local) = self.stack.ends_of(key);
        let now = self.now;
        self.stack.fast_open_cache.suspend(remote, local.ip(), now);
        let Trouble::TooBig(mtu) = trouble else {
            self.stack.fast_open_unanswered(index);
            return false;
        };
        if let Some(pair) = key.pair() {
            self.stack.narrow_path(pair, mtu, now);
        }
        self.stack.fast_open_unanswered(index);
        self.doubt_round_trip(index);
        self.send_syn(index);
        true
    }

    /// The timer of a SYN, or of an answer to one, has fired.
    #[cold]
    pub(in crate::tcp) fn fast_open_timeout(&mut self, index: usize) {
        self.stack.fast_open_unanswered(index);
        if self.stack.tcbs[index].opens_fast() {
            self.doubt_round_trip(index);
        }
    }

    /// Karn: which of two SYNs is acknowledged cannot be told, nor when its data was sent.
    fn doubt_round_trip(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.rtt = Rtt::UNKNOWN;
        if let Some(meta) = self.pool.meta_mut_if(tcb.tx_head) {
            meta.sent_once_at = None;
        }
    }
}

//! Header prediction (Clark et al. 1989; RFC 9293 as far as it goes): what most segments are, in and out.
//!
//! A segment is predicted when its connection is established, nothing unusual is going on, and it is the next one in order.
//! Data, a pure acknowledgment, data with a new acknowledgment and a new window are all predicted. So request-response traffic
//! is too, which 4.4BSD's prediction missed (Wolman et al. 1994, 3). These conditions hold, in the order in which they are
//! tested ([`receive`]); the first that does not hold is counted as the reason of the miss.
//!
//! | condition | field | source | [`Miss`](crate::counters::Miss) |
//! |---|---|---|---|
//! | The frame holds all headers, and all of the IP packet | | RFC 791, 3.1 | `Short` |
//! | To our link address; IPv4 without options, not a fragment, intact, or IPv6; then TCP | `Stack::mac_word` | RFC 791, 3.1; RFC 8200, 3 | `NotTcp` |
//! | Addresses and ports have a connection | `key` | RFC 9293, 3.10.7 | `NoConnection` |
//! | Data offset and flags; with them the state, and that nothing is lost, out of order, urgent, or probed | `predicted` | RFC 9293, 3.10.7.4 | `Flags` |
//! | A frame is left for the reader's queue | `rx_head` | | `Reserve` |
//! | The checksum is right | | RFC 9293, 3.1 | `Checksum` |
//! | The next byte | `rcv_nxt` | RFC 9293, 3.10.7.4, first | `Sequence` |
//! | Acknowledges what is in flight | `snd_una`, `snd_nxt` | RFC 9293, 3.10.7.4, fifth | `Acknowledgment` |
//! | The timestamp option in its recommended layout | `flags` | RFC 7323, appendix A | `OptionLayout` |
//! | Its timestamp is not old | `ts_recent` | RFC 7323, 5.3, R1 | `Timestamp` |
//! | A window | | RFC 9293, 3.8.6.1 | `ZeroWindow` |
//! | No more bytes than were offered | `rcv_edge` | RFC 9293, 3.10.7.4, first | `BeyondWindow` |
//! | Data, a new acknowledgment, or another window | `snd_una`, `snd_wnd` | RFC 5681, 2 | `Duplicate` |
//! | Not both, where prediction is unidirectional | `Mechanisms::prediction` | 4.4BSD | `Bidirectional` |
//!
//! Over IPv6 ([`header`] says how its frames are read) the same code is compiled once more. A frame is tried as one of the version
//! that came last. The connections of IPv6 are opened, acknowledged without data, and closed in general.
//!
//! A segment that is of no data transfer goes to [`handshake`], and a SYN from there to [`syn`]: they predict the opening and
//! closing of connections. [`header`] gives fields their names, [`expect`] compares them, and [`accept`] does what a segment asks for that has passed.
//! Segments of a [`train`] behind its first have less to be checked.
//! On the way out [`send`] takes a message that fits into one segment and may go at once, [`coalesce`] a small write that goes
//! behind a segment that waits. Everything else is [`crate::tcp::slow`]'s, with nothing changed.

mod accept;
pub(in crate::tcp) mod coalesce;
mod expect;
mod handshake;
mod header;
mod layout;
mod look_up;
mod receive;
mod send;
mod syn;
mod train;

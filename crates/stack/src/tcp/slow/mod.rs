//! The general path: everything that header prediction leaves, RFC 9293, 3.10.7 step by step.
//!
//! A segment comes to [`segment`], which keeps the RFC's order; "fifth, check the ACK field" is [`acknowledgment`], its text is [`text`]'s, what came
//! out of order waits in [`reassembly`], urgent data is [`urgent`]'s. [`answers`] are segments that belong to no connection.
//! [`output`] decides what may be sent, [`split`] makes a part of it fit, [`again`] sends what was sent before, [`join`] puts small segments together, and [`timers`] does what is due. [`syn`], [`handshake`], [`local_port`], [`cookie`] and [`listener`] open
//! connections, [`fin_ack`], [`lifecycle`] and [`time_wait`] end them. [`redundancy`] leaves checksums out where both ends agree,
//! [`chains`] keeps payload in mbufs, [`extension`] what few connections have. [`fast_open`] takes data in SYNs, [`fast_open_client`]
//! sends it, as [`fast_open_cache`] advises. [`untemplated`] writes segments field by field, [`mtu_search`]
//! finds what a path takes. [`cork`] holds partial segments, [`quick`] acknowledges at once, and [`tuning`] sizes buffers.

mod acknowledgment;
mod again;
pub(crate) mod answers;
pub(crate) mod chains;
pub(crate) mod cookie;
pub(crate) mod cork;
pub(crate) mod extension;
pub(crate) mod fast_open;
pub(crate) mod fast_open_cache;
pub(crate) mod fast_open_client;
pub(crate) mod fin_ack;
pub(crate) mod handshake;
mod join;
mod lifecycle;
pub(crate) mod listener;
mod local_port;
pub(crate) mod mtu_search;
pub(crate) mod output;
mod quick;
pub(crate) mod reassembly;
pub(crate) mod redundancy;
pub(crate) mod segment;
mod split;
pub(crate) mod syn;
mod text;
pub(crate) mod time_wait;
pub(crate) mod timers;
pub(crate) mod tuning;
pub(crate) mod untemplated;
mod urgent;

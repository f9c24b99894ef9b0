//! TCP (RFC 9293).
//!
//! | room | holds |
//! |---|---|
//! | [`fast`] | what header prediction expects, in and out: most segments never leave it |
//! | [`slow`] | everything else, RFC 9293, 3.10.7 step by step |
//! | [`cc`] | the congestion window |
//! | [`recovery`] | the retransmission timeout |
//!
//! Beside them lies what both paths share: [`tcb`] is the connection, [`marks`] a byte of it, [`tcb_template`] what connections
//! begin as. [`template`] writes headers, [`deadline`] sets timers, [`ecn`] takes marks of the network for losses, [`receive_queue`] keeps what the application has not read.
//! [`isn`] chooses sequence numbers and [`report`] tells of a connection. [`consistency`] is for tests: it recomputes what is
//! kept twice.

pub(crate) mod cc;
pub(crate) mod consistency;
pub(crate) mod deadline;
pub(crate) mod ecn;
pub(crate) mod fast;
pub(crate) mod isn;
mod marks;
mod milestone;
pub(crate) mod receive_queue;
pub(crate) mod recovery;
pub(crate) mod report;
pub(crate) mod slow;
pub(crate) mod tcb;
pub(crate) mod tcb_template;
pub(crate) mod template;

//! TCP (RFC 9293).
//!
//! The way of a segment in: [`predicted`] takes what header prediction expects of a data transfer, [`predicted_syn`] and
//! [`predicted_change`] what it expects of opening and closing; everything else goes to [`segment`], which carries out
//! RFC 9293, 3.10.7 step by step. The way out: [`predicted_send`] sends what fits into one segment that
//! may go at once, [`held`] puts a small write behind a segment that waits, [`output`] decides for everything else, and
//! [`template`] writes the headers. [`timers`] does what is due; [`tcb_template`] is what connections begin as, and [`fin_ack`]
//! lets an acknowledgment wait for who may close; [`congestion`], [`rto`], [`reassembly`], [`handshake`], [`syn`], [`cookie`], [`lifecycle`], [`time_wait`], [`listener`], [`urgent`] and
//! [`report`] hold what their names say, [`extension`] what few connections have, and [`marks`] a byte of the TCB.
//! [`consistency`] is for tests: it recomputes what is kept twice.

mod acknowledgment;
pub(crate) mod answers;
pub(crate) mod chains;
pub(crate) mod congestion;
pub(crate) mod consistency;
pub(crate) mod cookie;
pub(crate) mod deadline;
pub(crate) mod extension;
pub(crate) mod fin_ack;
pub(crate) mod handshake;
pub(crate) mod held;
pub(crate) mod isn;
mod lifecycle;
pub(crate) mod listener;
mod marks;
pub(crate) mod output;
pub(crate) mod predicted;
mod predicted_change;
pub(crate) mod predicted_send;
mod predicted_syn;
pub(crate) mod reassembly;
pub(crate) mod receive_queue;
pub(crate) mod redundancy;
pub(crate) mod report;
pub(crate) mod rto;
pub(crate) mod segment;
pub(crate) mod syn;
pub(crate) mod tcb;
pub(crate) mod tcb_template;
pub(crate) mod template;
pub(crate) mod time_wait;
pub(crate) mod timers;
mod urgent;

//! Recovery from loss: the retransmission timeout.

pub(crate) mod rto;

//! cc
mod reno;
pub(crate) use reno::*;

//! Experiments, the run they fill and the published numbers.
//!
//! An [`experiments::Experiment`] measures by way of `tollgate-workload` and fills a part of a [`tollgate_run::Run`] with tables,
//! figures, a finding computed from the numbers, and how far they can be trusted. [`conduct`] runs several of them within a
//! [`context::Context`]: a time budget, a cancel flag and someone who is told what runs.
//!
//! This crate decides what is compared with what. It never draws, never prints and never reads arguments.

mod claim;
mod compare;
pub mod conduct;
pub mod context;
mod control;
mod counting;
mod coverage;
mod drift;
mod echoes;
mod ends;
mod error;
pub mod experiments;
mod interleave;
mod layout;
mod ledgers;
pub mod noise;
mod order;
mod outcome;
mod paired;
mod per_packet;
pub mod predict;
mod prediction;
mod sampled;
pub mod sizes;
mod streams;
mod switched;
mod turns;

pub use error::Error;

//! The side outside of the machine: the kernel's package, the initial file system, QEMU, the meaning of the counts,
//! and guest runs without counting.

pub mod counts;
pub mod error;
pub mod guest_run;
pub mod initrd;
pub mod kernel;
pub mod layers;
pub mod machine;
pub mod measure;
pub mod profile;
pub mod symbols;

pub use error::Error;

//! BPF programs, as this crate and those that build on it load them: their objects, what libbpf says when it fails, the memory that
//! they share with us, and links.
//!
//! It must never decide which programs are loaded, and never pin anything: all of it goes with this process.

use std::cell::RefCell;

use crate::watch::Namespace;

mod libbpf_log;
mod system;

pub use system::{Mapped, Ranks, link_at_free_ranks, missed_runs};

/// The compiled programs. The loader reads them as ELF, which wants alignment.
#[repr(C, align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);
static OBSERVE_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/observe.bpf.o")));
/// The compiled programs of `bpf/observe.bpf.c`, as ELF.
pub static OBSERVE: &[u8] = &OBSERVE_OBJECT.0;

/// Protocols that netfilter links are made for.
pub const FAMILIES: [i32; 2] = [libbpf_rs::NFPROTO_IPV4, libbpf_rs::NFPROTO_IPV6];

/// Bytes of libbpf's log that are kept for this thread since loading began; the verifier's messages are among them.
const LOG_BYTES: usize = 64 * 1024;

thread_local! {
    static LIBBPF_LOG: RefCell<String> = const { RefCell::new(String::new()) };
}

/// libbpf prints by itself unless told not to; what it says is kept for the error instead.
pub fn listen() {
    LIBBPF_LOG.take();
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, |_, text| {
        LIBBPF_LOG.with_borrow_mut(|said| {
            if said.len() < LOG_BYTES {
                said.push_str(&text);
            }
        });
    })));
}

/// An error of libbpf with what was said before it: of a long log the last lines, where the verifier gives its reason.
pub fn error_text(error: &libbpf_rs::Error) -> String {
    let said = LIBBPF_LOG.take();
    match libbpf_log::last_lines(&said) {
        None => format!("{error:#}"),
        Some(lines) => format!("{error:#} ({lines})"),
    }
}

/// Runs `attach` in the namespace, on a thread of its own: a thread that has changed its namespace may not be able to come back.
pub fn within<T: Send>(
    namespace: Namespace<'_>,
    attach: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    let Namespace::Of(fd) = namespace else {
        return attach();
    };
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                rustix::thread::move_into_link_name_space(
                    fd,
                    Some(rustix::thread::LinkNameSpaceType::Network),
                )
                .map_err(|error| format!("entering the network namespace: {error}"))?;
                attach()
            })
            .join()
            .unwrap_or_else(|_| Err("the thread that attaches has panicked".to_owned()))
    })
}

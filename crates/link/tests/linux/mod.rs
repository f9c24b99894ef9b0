//! Linux beside our stack, in a network namespace of the test's own.

use rustix::thread::UnshareFlags;
use std::thread;
use std::time::Duration;

/// Polls after which something never comes. They are counted and not timed: a busy machine takes longer for them.
const POLLS: u32 = 200_000;
/// Pause between two polls.
const PAUSE: Duration = Duration::from_micros(100);

/// Does something in a network namespace of its own, unless this machine gives none. The namespace goes with its last holder.
pub fn in_a_namespace(work: impl FnOnce() + Send + 'static) {
    let done = thread::spawn(move || {
        // SAFETY: the thread gets a network namespace of its own and shares everything else as before.
        match unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) } {
            Ok(()) => work(),
            Err(error) => {
                tollgate_skip::skipped!("no network namespace can be made (root): {error}");
            }
        }
    });
    done.join().unwrap();
}

/// Polls until there is something.
pub fn until<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    for _ in 0..POLLS {
        if let Some(found) = poll() {
            return found;
        }
        thread::sleep(PAUSE);
    }
    panic!("{what} never came");
}

//! Ctrl-C: the first asks the measurement to stop and to show what it has, the second ends the program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tollgate_experiment::context::Cancel;
use tollgate_workload::child;

use crate::error::{Error, INTERRUPTED};

/// Sets the handlers, and returns the flag that they raise.
pub(crate) fn prepare() -> Result<Cancel, Error> {
    let raised = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order, so that the first signal finds the flag down and the second finds it up.
        flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(&raised))
            .and_then(|_| flag::register(signal, Arc::clone(&raised)))
            .map_err(Error::Signals)?;
    }
    Ok(Cancel::from_flag(raised))
}

/// In the second process of a path, leaves Ctrl-C to the parent: a terminal sends it to both, and the slice under way needs
/// both ends. The parent ends this process when it is done.
pub(crate) fn leave_to_the_parent() {
    if std::env::var_os(child::ORDERS).is_some() {
        // Where no handler can be set, the parent sees this process die and stops with a message.
        let _ = flag::register(SIGINT, Arc::new(AtomicBool::new(false)));
    }
}

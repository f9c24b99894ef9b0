//! Which way a branch of the predicted path goes.
//!
//! Without these the compiler takes each check as even odds, thinks the end of a long row of checks hardly ever reached,
//! and keeps what is needed there in memory instead of registers. Where a branch has a body, `cold_path()` stands in it. These are
//! for conditions inside others. They are macros: as functions they lost their weight where much is compiled into one caller.

/// `condition`, which is expected to be false.
macro_rules! unlikely {
    ($condition:expr $(,)?) => {{
        let condition = $condition;
        if condition {
            core::hint::cold_path();
        }
        condition
    }};
}

/// `condition`, which is expected to be true.
macro_rules! likely {
    ($condition:expr $(,)?) => {{
        let condition = $condition;
        if !condition {
            core::hint::cold_path();
        }
        condition
    }};
}

pub(crate) use {likely, unlikely};

//! The kernel's own opinion: how long a function takes, by its tracer `function_graph`
//! (Documentation/trace/ftrace.rst), one function at a time so that nothing else is slowed down.

use std::fs;
use std::io;

use rustix::mount::{MountFlags, mount};
use tollgate_qemu::protocol::Message;

const TRACEFS: &str = "/sys/kernel/tracing";

/// Times `function` in those parts of `work` between which it is switched on by [`switch`].
///
/// # Errors
/// When the kernel has no such tracer or function, or when the work fails.
pub(crate) fn time(function: &str, work: impl FnOnce() -> io::Result<()>) -> io::Result<Message> {
    if fs::metadata(format!("{TRACEFS}/trace")).is_err() {
        mount("tracefs", TRACEFS, "tracefs", MountFlags::empty(), None)?;
    }
    switch(false)?;
    set("set_ftrace_filter", function)?;
    set("current_tracer", "function_graph")?;
    let outcome = work();
    let text = fs::read_to_string(format!("{TRACEFS}/trace"))?;
    set("current_tracer", "nop")?;
    outcome?;
    let lines = text.lines();
    let durations: Vec<u64> = lines.filter_map(|line| duration(line, function)).collect();
    Ok(Message::Traced(
        function.to_owned(),
        durations.len() as u64,
        durations.iter().sum(),
    ))
}

/// Begins or ends writing down what is traced.
pub(crate) fn switch(on: bool) -> io::Result<()> {
    set("tracing_on", if on { "1" } else { "0" })
}

fn set(file: &str, value: &str) -> io::Result<()> {
    fs::write(format!("{TRACEFS}/{file}"), value)
        .map_err(|error| io::Error::other(format!("writing {value:?} to {file}: {error}")))
}

/// The nanoseconds in a line like ` 0) + 12.345 us   |  tcp_v4_rcv();`.
fn duration(line: &str, function: &str) -> Option<u64> {
    let (before, after) = line.split_once('|')?;
    let name = after.trim().strip_suffix("();")?;
    if name.split_whitespace().next()? != function {
        return None;
    }
    let words: Vec<&str> = before.split_whitespace().collect();
    let [.., number, "us"] = words.as_slice() else {
        return None;
    };
    let (whole, part) = number.split_once('.')?;
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 1_000 + part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tracers_lines_give_nanoseconds() {
        for (line, expected) in [
            (" 0)   4.567 us    |  tcp_v4_rcv();", Some(4_567)),
            (" 0) + 12.345 us   |  tcp_v4_rcv();", Some(12_345)),
            (" 0) ! 123.4 us    |  tcp_v4_rcv();", Some(123_400)),
            (" 0)   4.567 us    |  tcp_v4_rcv_other();", None),
            (" 0)               |  tcp_v4_rcv() {", None),
            ("# CPU  DURATION                  FUNCTION CALLS", None),
            ("", None),
        ] {
            assert_eq!(duration(line, "tcp_v4_rcv"), expected, "{line}");
        }
    }
}

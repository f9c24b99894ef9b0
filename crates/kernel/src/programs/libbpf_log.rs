//! The log of libbpf after a failure, made short enough for an error of one line.

/// Lines that are kept.
const LINES: usize = 8;

/// The last lines of a log that say something, joined; none when nothing was said.
pub(super) fn last_lines(log: &str) -> Option<String> {
    let lines: Vec<&str> = log
        .lines()
        .map(|line| line.trim().trim_start_matches("libbpf: "))
        .filter(|line| !line.is_empty() && !is_bookkeeping(line) && !is_guess(line))
        .collect();
    // The error says as much.
    if lines.iter().all(|line| line.contains(": -E")) {
        return None;
    }
    let last = &lines[lines.len().saturating_sub(LINES)..];
    Some(last.join("; "))
}

/// Lines in which libbpf guesses the cause. Since Linux 5.11 the guess is always wrong: programs are not counted as
/// locked memory any more.
fn is_guess(line: &str) -> bool {
    line.contains("RLIMIT_MEMLOCK") || line.contains("ulimit -l")
}

/// Lines that stand around the verifier's and tell nothing new.
fn is_bookkeeping(line: &str) -> bool {
    line.starts_with("--")
        || line.starts_with("processed ")
        || line.ends_with("BEGIN PROG LOAD LOG --")
        || line.starts_with("failed to load object")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_reason_comes_without_the_frame() {
        let log = "libbpf: prog 'nf_local_in': BPF program load failed: Permission denied\n\
                   libbpf: prog 'nf_local_in': -- BEGIN PROG LOAD LOG --\n\
                   0: R1=ctx() R10=fp0\n\
                   R2 invalid mem access 'scalar'\n\
                   processed 21 insns (limit 1000000) max_states_per_insn 0\n\
                   -- END PROG LOAD LOG --\n\
                   libbpf: failed to load object 'tollgate'\n";
        assert_eq!(
            last_lines(log).unwrap(),
            "prog 'nf_local_in': BPF program load failed: Permission denied; 0: R1=ctx() R10=fp0; R2 invalid mem access \
             'scalar'"
        );
    }

    #[test]
    fn what_the_error_says_anyway_and_guesses_are_left_out() {
        let log = "libbpf: prog 'slot_0': BPF program load failed: -EPERM\n\
                   libbpf: permission error while running as root; try raising 'ulimit -l'? current value: 8.0 MiB\n\
                   libbpf: prog 'slot_0': failed to load: -EPERM\n\
                   libbpf: failed to load object 'tollgate'\n";
        assert_eq!(last_lines(log), None);
        let log = "libbpf: Failed to bump RLIMIT_MEMLOCK (err = -EPERM), you might need to do it explicitly!\n\
                   libbpf: Error in bpf_object__probe_loading(): -EPERM. Couldn't load trivial BPF program. Make sure your \
                   kernel supports BPF (CONFIG_BPF_SYSCALL=y) and/or that RLIMIT_MEMLOCK is set to big enough value.\n";
        assert_eq!(last_lines(log), None);
    }

    #[test]
    fn of_a_long_log_the_end_is_kept_and_of_none_nothing() {
        let log: String = (0..100).map(|line| format!("{line}\n")).collect();
        assert_eq!(last_lines(&log).unwrap(), "92; 93; 94; 95; 96; 97; 98; 99");
        assert_eq!(last_lines("\n \n"), None);
    }
}

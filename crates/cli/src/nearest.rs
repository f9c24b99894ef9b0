//! The known name that a mistyped one was probably meant to be.

/// The nearest of the known names, when it is near enough to be meant: a third of the letters may be wrong.
pub(crate) fn nearest<'a>(
    given: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let given = given.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&given, name), name))
        .filter(|(distance, name)| distance * 3 <= name.len().max(given.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `unknown path `x`; known: a, b; did you mean a?`
pub(crate) fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let mut text = format!("unknown {what} `{given}`; known: {}", known.join(", "));
    if let Some(name) = nearest(given, known.iter().copied()) {
        text.push_str(&format!("; did you mean {name}?"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 3] = ["kernel-loopback", "stack-memory", "stack-shm"];

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        assert_eq!(nearest("kernel-loopbak", PATHS), Some("kernel-loopback"));
        assert_eq!(nearest("Stack-Shm", PATHS), Some("stack-shm"));
        assert_eq!(nearest("quic", PATHS), None);
        assert_eq!(nearest("", PATHS), None);
    }

    #[test]
    fn the_known_ones_are_listed() {
        assert_eq!(
            unknown("path", "stak-shm", &PATHS),
            "unknown path `stak-shm`; known: kernel-loopback, stack-memory, stack-shm; did you mean stack-shm?"
        );
        assert_eq!(
            unknown("path", "x", &PATHS),
            "unknown path `x`; known: kernel-loopback, stack-memory, stack-shm"
        );
    }
}

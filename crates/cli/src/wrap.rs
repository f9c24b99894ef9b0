//! Lines of aligned text, wrapped to the terminal.

use console::measure_text_width;

/// Narrowest column that text is wrapped within, whatever the terminal has.
const LEAST: usize = 24;

/// Wraps each line between words. Lines after the first stand below the line's last column, or below what follows an arrow.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    text.lines().map(|line| wrapped_line(line, width)).collect()
}

fn wrapped_line(line: &str, width: usize) -> String {
    let begin = line
        .find("-> ")
        .map(|at| at + 3)
        .or_else(|| line.trim_end().rfind("  ").map(|at| at + 2))
        .unwrap_or(0);
    let (lead, rest) = line.split_at(begin);
    let hang = measure_text_width(lead);
    let hang = if hang + LEAST <= width { hang } else { 6 };
    let mut out = lead.to_owned();
    let mut used = measure_text_width(lead);
    for (at, word) in rest.split_whitespace().enumerate() {
        let length = measure_text_width(word);
        if used + usize::from(at > 0) + length > width && used > hang {
            out.truncate(out.trim_end().len());
            out.push('\n');
            out.push_str(&" ".repeat(hang));
            used = hang;
        } else if at > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hang_below_their_last_one_and_nothing_is_lost() {
        let text = "This machine\n  \x1b[32mok\x1b[0m  clock     works on every processor of this machine\n                \
                    -> apt-get install valgrind on it\n\n";
        let narrow = wrapped(text, 44);
        assert_eq!(
            console::strip_ansi_codes(&narrow)
                .lines()
                .collect::<Vec<_>>(),
            [
                "This machine",
                "  ok  clock     works on every processor of",
                "                this machine",
                "                -> apt-get install valgrind",
                "                   on it",
                "",
            ]
        );
        assert!(
            narrow.lines().all(|line| measure_text_width(line) <= 44),
            "{narrow}"
        );
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&narrow), words(text));
        assert_eq!(wrapped(text, 120), text);
    }
}

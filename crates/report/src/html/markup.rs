//! Building HTML and SVG text. Text from the run enters only through [`Markup::text`] or [`escape`].

use std::fmt::Write;

/// Markup under construction.
#[derive(Default)]
pub(super) struct Markup {
    text: String,
    names: usize,
}

impl Markup {
    /// Appends markup as it is. Never for text from the run.
    pub(super) fn raw(&mut self, markup: &str) -> &mut Self {
        self.text.push_str(markup);
        self
    }

    /// Appends formatted markup as it is: the arguments are numbers, constants or escaped text.
    pub(super) fn raw_format(&mut self, markup: std::fmt::Arguments<'_>) -> &mut Self {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(markup);
        self
    }

    /// Appends text, escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.text.push_str(&escape(text));
        self
    }

    /// Appends an element that holds nothing but text.
    pub(super) fn element(&mut self, name: &str, text: &str) -> &mut Self {
        self.raw_format(format_args!("<{name}>{}</{name}>", escape(text)))
    }

    /// A name for an element that others refer to, given once.
    pub(super) fn new_name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// The text such that it can stand between tags and between double quotes. Characters that HTML forbids become U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(c),
            c if c.is_control() || is_noncharacter(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

fn is_noncharacter(c: char) -> bool {
    let code = u32::from(c);
    (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe
}

/// A coordinate with one decimal, without a trailing zero.
pub(super) fn at(position: f64) -> String {
    let text = format!("{position:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// Width of the text at the given size of the page's sans-serif font, in pixels; rather too wide than too narrow.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    // DejaVu Sans is the widest of the fonts that the page's families lead to.
    let em = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | '|' | '\'' | ' ' | '\u{a0}' | '·' => 0.36,
        't' | 'f' | 'r' | '-' | '(' | ')' | '/' => 0.42,
        'm' | '%' | '@' | 'W' => 1.0,
        'w' | 'M' | 'O' | 'Q' => 0.87,
        c if c.is_ascii_uppercase() => 0.78,
        c if c.is_ascii_lowercase() || c.is_ascii_digit() => 0.64,
        'µ' => 0.64,
        _ if c.is_ascii() || matches!(c, '−' | '×' | '±') => 0.84,
        _ => 1.0,
    };
    text.chars().map(em).sum::<f64>() * size
}

/// The text, cut with an ellipsis where it is wider than `limit`.
pub(super) fn cut(text: &str, size: f64, limit: f64) -> String {
    if text_width(text, size) <= limit {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if text_width(&kept, size) + text_width("…", size) > limit {
            kept.pop();
            break;
        }
    }
    kept + "…"
}

/// The text with a capital letter at its beginning.
pub(super) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn coordinates_are_short() {
        assert_eq!([10.0, 0.25, -0.01, 3.96].map(at), ["10", "0.2", "0", "4"]);
    }

    /// The widths that Chromium lays out in DejaVu Sans, for a size of 1.
    #[test]
    fn text_is_not_wider_than_its_estimate() {
        for (text, width) in [
            ("Operating system overhead", 13.96),
            ("kernel-loopback, 2 cores, blocking", 17.07),
            ("checksum=redundancy-avoidance", 17.31),
            ("0.0743 µs", 4.98),
            ("0123456789", 6.37),
            ("−34 %", 3.38),
            ("WINDOWS, MMM", 8.44),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 17.48),
            ("abcdefghijklmnopqrstuvwxyz", 14.65),
            ("+-=()/_&#<>~*\"±×…·", 11.74),
        ] {
            let estimate = text_width(text, 1.0);
            assert!(
                (width..1.25 * width).contains(&estimate),
                "{text}: {estimate}"
            );
        }
    }

    #[test]
    fn long_text_is_cut_within_the_limit() {
        assert_eq!(cut("short", 12.0, 100.0), "short");
        let text = cut("a very long name that does not fit", 12.0, 60.0);
        assert!(
            text.ends_with('…') && text_width(&text, 12.0) <= 60.0,
            "{text}"
        );
    }

    /// Undoes the escapes, knowing nothing of the writer but the names of the entities.
    fn unescape(text: &str) -> String {
        [
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&quot;", "\""),
            ("&#39;", "'"),
            ("&amp;", "&"),
        ]
        .iter()
        .fold(text.to_owned(), |text, (entity, c)| text.replace(entity, c))
    }

    proptest! {
        #[test]
        fn escaped_text_holds_no_markup_and_means_the_same(text in "(\\PC|[<>&\"'\\n]){0,40}") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            prop_assert_eq!(unescape(&escaped), text);
        }

        #[test]
        fn no_control_character_passes(text in any::<String>()) {
            prop_assert!(escape(&text).chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        }
    }
}

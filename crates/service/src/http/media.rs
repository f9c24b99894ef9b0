//! Media types of files, by their names' endings (RFC 9110, 8.3).

use std::path::Path;

/// Endings and their types.
const TYPES: &[(&[&str], &str)] = &[
    (&["html", "htm"], "text/html; charset=utf-8"),
    (&["css"], "text/css; charset=utf-8"),
    (&["js", "mjs"], "text/javascript; charset=utf-8"),
    (&["txt", "md", "log"], "text/plain; charset=utf-8"),
    (&["csv"], "text/csv; charset=utf-8"),
    (&["json"], "application/json"),
    (&["xml"], "application/xml"),
    (&["pdf"], "application/pdf"),
    (&["wasm"], "application/wasm"),
    (&["gz", "tgz"], "application/gzip"),
    (&["zip"], "application/zip"),
    (&["tar"], "application/x-tar"),
    (&["svg"], "image/svg+xml"),
    (&["png"], "image/png"),
    (&["jpg", "jpeg"], "image/jpeg"),
    (&["gif"], "image/gif"),
    (&["webp"], "image/webp"),
    (&["ico"], "image/vnd.microsoft.icon"),
    (&["woff2"], "font/woff2"),
    (&["mp4"], "video/mp4"),
    (&["mp3"], "audio/mpeg"),
];

/// The type of a file of this name.
pub(super) fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let ending = ending.unwrap_or_default();
    let known = |names: &&[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(ending));
    let found = TYPES.iter().find(|(names, _)| known(names));
    found.map_or("application/octet-stream", |(_, media)| media)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_have_types() {
        assert_eq!(
            media_type(Path::new("a/b.HTML")),
            "text/html; charset=utf-8"
        );
        assert_eq!(media_type(Path::new("a.tar.gz")), "application/gzip");
        assert_eq!(
            media_type(Path::new("Makefile")),
            "application/octet-stream"
        );
    }
}

//! A request's head: method, target, version and the fields that bear on the answer (RFC 9112, 2 to 6).

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::answer::Status;

/// Fields of a head at most.
const FIELDS: usize = 100;

/// Minor version of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http10,
    Http11,
}

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    /// One that HTTP defines and this server does not allow.
    Other,
    /// One that nobody here knows.
    Unknown,
}

impl Method {
    /// Tells whether an answer to it has content.
    pub(super) const fn wants_content(self) -> bool {
        match self {
            Self::Get | Self::Other | Self::Unknown => true,
            Self::Head => false,
        }
    }
}

impl From<&str> for Method {
    fn from(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH" => Self::Other,
            _ => Self::Unknown,
        }
    }
}

/// A target within the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Its way from the directory.
    pub(super) path: PathBuf,
    /// It ends in a slash, and so names a directory.
    pub(super) directory: bool,
}

/// Fields by which a request has conditions, as they were sent. The lines of a list are joined (RFC 9110, 5.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions<'a> {
    pub(super) if_match: Option<Cow<'a, str>>,
    pub(super) if_none_match: Option<Cow<'a, str>>,
    pub(super) if_modified_since: Option<&'a str>,
    pub(super) if_unmodified_since: Option<&'a str>,
    pub(super) if_range: Option<&'a str>,
    pub(super) range: Option<&'a str>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) version: Version,
    /// Target that it asks for, or why it cannot ask for that.
    pub(super) target: Result<Target, Status>,
    /// Path of the target and query as they were sent, without scheme and host.
    pub(super) sent_target: &'a str,
    pub(super) conditions: Conditions<'a>,
    /// Bytes of content behind the head; none when their number is not told.
    pub(super) content: Option<u64>,
    /// The wish of the peer: to keep the connection or not.
    connection: Option<Wish>,
    /// The peer sends its content once it is told to, or tires of waiting (RFC 9110, 10.1.1).
    expects: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Close,
    Keep,
}

impl Request<'_> {
    /// Tells whether the connection ends with the answer (RFC 9112, 9.3).
    pub(super) fn closes(&self) -> bool {
        // Behind the answer may come the content, or the next request: nobody knows.
        if self.expects && self.content != Some(0) {
            return true;
        }
        match (self.connection, self.version) {
            (Some(Wish::Close), _) | (None, Version::Http10) => true,
            (Some(Wish::Keep), _) | (None, Version::Http11) => self.content.is_none(),
        }
    }
}

/// The first request in `input` with the length of its head; none when the head is not complete.
///
/// # Errors
/// Status that answers a head that cannot be understood.
pub(super) fn parse(input: &[u8]) -> Result<Option<(Request<'_>, usize)>, Status> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let length = match head.parse(input) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Status::FieldsTooLarge),
        Err(httparse::Error::Version) => return Err(version_error(input)),
        Err(_) => return Err(Status::BadRequest),
    };
    if length > super::LONGEST_HEAD {
        return Err(too_long(input));
    }
    let version = match head.version {
        Some(0) => Version::Http10,
        Some(1) => Version::Http11,
        Some(_) | None => return Err(Status::BadRequest),
    };
    let sent = head.path.ok_or(Status::BadRequest)?;
    let method: Method = head.method.ok_or(Status::BadRequest)?.into();
    let (sent_target, target) = match (origin_form(sent), method) {
        (Some(sent), _) => (sent, target(sent)),
        (None, Method::Get | Method::Head) => return Err(Status::BadRequest),
        // OPTIONS and CONNECT have forms of their own (RFC 9112, 3.2.3 and 3.2.4), and are refused by their method.
        (None, Method::Other | Method::Unknown) => (sent, Err(Status::BadRequest)),
    };
    let mut request = Request {
        method,
        version,
        target,
        sent_target,
        conditions: Conditions::default(),
        content: Some(0),
        connection: None,
        expects: false,
    };
    request.take_fields(head.headers)?;
    Ok(Some((request, length)))
}

/// The refusal of a head that is longer than what is kept of one.
pub(super) fn too_long(input: &[u8]) -> Status {
    if input.contains(&b'\n') {
        Status::FieldsTooLarge
    } else {
        Status::UriTooLong
    }
}

/// A head of HTTP in another major version is told so; one that is no HTTP is no request.
fn version_error(input: &[u8]) -> Status {
    let line = input
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    let version = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    match version.strip_prefix(b"HTTP/") {
        Some([major, b'.', minor, ..]) if major.is_ascii_digit() && minor.is_ascii_digit() => {
            Status::VersionNotSupported
        }
        Some(_) | None => Status::BadRequest,
    }
}

/// Path and query of a target in origin form, or in the absolute form that every server must take (RFC 9112, 3.2.2).
fn origin_form(sent: &str) -> Option<&str> {
    if sent.starts_with('/') {
        return Some(sent);
    }
    let scheme = sent.get(.."http://".len())?;
    if !scheme.eq_ignore_ascii_case("http://") {
        return None;
    }
    let rest = &sent[scheme.len()..];
    Some(rest.find(['/', '?']).map_or("/", |at| &rest[at..]))
}

/// The way that a target names, piece by piece decoded. It never leads out of the directory, and no piece hides a slash.
fn target(sent: &str) -> Result<Target, Status> {
    let path = sent.split('?').next().unwrap_or_default();
    if path.contains('#') {
        return Err(Status::BadRequest);
    }
    let mut way = PathBuf::new();
    for piece in path.split('/') {
        let piece = decode(piece).ok_or(Status::BadRequest)?;
        match piece.as_slice() {
            b"" | b"." => {}
            b".." => return Err(Status::BadRequest),
            bytes if bytes.iter().any(|byte| matches!(byte, 0 | b'/')) => {
                return Err(Status::BadRequest);
            }
            _ => way.push(OsString::from_vec(piece)),
        }
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    Ok(Target {
        directory: way.as_os_str().is_empty() || matches!(last, "" | "."),
        path: way,
    })
}

/// Bytes of a piece with its percent-encoding taken away (RFC 3986, 2.1).
fn decode(piece: &str) -> Option<Vec<u8>> {
    let mut bytes = piece.bytes();
    let mut decoded = Vec::with_capacity(piece.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => byte,
        });
    }
    Some(decoded)
}

impl<'a> Request<'a> {
    fn take_fields(&mut self, fields: &[httparse::Header<'a>]) -> Result<(), Status> {
        let mut hosts = 0;
        let (mut length, mut coded) = (None, false);
        for field in fields {
            let name = field.name.to_ascii_lowercase();
            let value = std::str::from_utf8(field.value);
            let conditions = &mut self.conditions;
            let place = match name.as_str() {
                "host" => {
                    hosts += 1;
                    continue;
                }
                "content-length" => {
                    let told = value.ok().and_then(bytes_told).ok_or(Status::BadRequest)?;
                    if length.is_some_and(|before| before != told) {
                        return Err(Status::BadRequest);
                    }
                    length = Some(told);
                    continue;
                }
                "transfer-encoding" => {
                    coded = true;
                    continue;
                }
                "connection" => {
                    self.take_connection(value.unwrap_or_default());
                    continue;
                }
                "expect" => {
                    self.expects = true;
                    continue;
                }
                "if-match" => {
                    join(&mut conditions.if_match, value.ok());
                    continue;
                }
                "if-none-match" => {
                    join(&mut conditions.if_none_match, value.ok());
                    continue;
                }
                "if-modified-since" => &mut conditions.if_modified_since,
                "if-unmodified-since" => &mut conditions.if_unmodified_since,
                "if-range" => &mut conditions.if_range,
                "range" => &mut conditions.range,
                _ => continue,
            };
            // The first of several; a value that is no text has no meaning here.
            *place = place.or(value.ok());
        }
        // RFC 9112, 3.2 and 6.3.
        if hosts > 1 || hosts == 0 && self.version == Version::Http11 || coded && length.is_some() {
            return Err(Status::BadRequest);
        }
        self.content = if coded {
            None
        } else {
            Some(length.unwrap_or(0))
        };
        Ok(())
    }

    fn take_connection(&mut self, value: &str) {
        for option in value.split(',').map(str::trim) {
            if option.eq_ignore_ascii_case("close") {
                self.connection = Some(Wish::Close);
            } else if option.eq_ignore_ascii_case("keep-alive") {
                self.connection = self.connection.or(Some(Wish::Keep));
            }
        }
    }
}

/// Joins another line to the list of a field; one that is no text has no meaning here.
fn join<'a>(list: &mut Option<Cow<'a, str>>, line: Option<&'a str>) {
    let Some(line) = line else { return };
    match list {
        None => *list = Some(Cow::Borrowed(line)),
        Some(list) => {
            let list = list.to_mut();
            list.push_str(", ");
            list.push_str(line);
        }
    }
}

/// A length of digits only.
fn bytes_told(value: &str) -> Option<u64> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| value.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(head: &str) -> Result<Option<(Request<'_>, usize)>, Status> {
        parse(head.as_bytes())
    }

    fn get(target: &str) -> Result<Target, Status> {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        parsed(&head).map(|parsed| parsed.unwrap().0.target)?
    }

    #[test]
    fn targets_are_decoded() {
        assert_eq!(get("/a%20b/c?d/..").unwrap().path, PathBuf::from("a b/c"));
        assert_eq!(get("http://a:80/b").unwrap().path, PathBuf::from("b"));
        assert_eq!(get("HTTP://a").unwrap().path, PathBuf::new());
        assert_eq!(get("http://a?b").unwrap().path, PathBuf::new());
        assert!(get("/").unwrap().directory);
        assert!(get("//./a//").unwrap().directory);
        assert!(!get("/a").unwrap().directory);
    }

    #[test]
    fn targets_never_lead_out() {
        for target in [
            "/..",
            "/../a",
            "/a/../../b",
            "/%2e%2e/a",
            "/%2E./a",
            "/a%2f..%2fb",
            "/a%00",
            "/a%",
            "/a%g0",
            "/a#b",
        ] {
            assert_eq!(get(target).unwrap_err(), Status::BadRequest, "{target}");
        }
        for target in [
            "a",
            "*",
            "ftp://a/b",
            "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}",
        ] {
            assert_eq!(get(target).unwrap_err(), Status::BadRequest, "{target}");
        }
    }

    #[test]
    fn heads_that_are_not_http_1_are_refused() {
        for (head, status) in [
            ("GET / HTTP/2.0\r\n\r\n", Status::VersionNotSupported),
            ("GET / HTTP/1.x\r\n\r\n", Status::BadRequest),
            ("GET /\r\n\r\n", Status::BadRequest),
            ("GET / HTTP/1.1\r\n\r\n", Status::BadRequest),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
                Status::BadRequest,
            ),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", Status::BadRequest),
            (
                "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
                Status::BadRequest,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n",
                Status::BadRequest,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
                Status::BadRequest,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                Status::BadRequest,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                Status::BadRequest,
            ),
            ("\u{16}\u{3}\u{1}", Status::BadRequest),
        ] {
            assert_eq!(parsed(head).unwrap_err(), status, "{head:?}");
        }
    }

    #[test]
    fn connections_are_kept_as_versions_and_wishes_say() {
        let closes = |head: &str| parsed(head).unwrap().unwrap().0.closes();
        assert!(!closes("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(closes(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"
        ));
        assert!(closes("GET / HTTP/1.0\r\n\r\n"));
        assert!(!closes("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
        assert!(closes(
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        ));
    }

    proptest! {
        #[test]
        fn no_bytes_are_taken_for_more_than_they_are(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((_, length))) = parse(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }

        #[test]
        fn no_target_leads_out(target in "/[a.%2efF/\\\\]{0,20}") {
            if let Ok(target) = super::target(&target) {
                for piece in target.path.components() {
                    prop_assert!(matches!(piece, std::path::Component::Normal(_)));
                }
            }
        }
    }
}

//! Answers: status, fields and the part of a file that follows (RFC 9110, 15; RFC 9112, 4).

use std::fmt::Write as _;
use std::time::SystemTime;

use super::conditions::{Verdict, evaluate, whole_seconds};
use super::media::media_type;
use super::request::{Method, Request, Version};
use super::root::{FileRange, Found, Root};

/// Status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    PartialContent,
    MovedPermanently,
    NotModified,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    PreconditionFailed,
    UriTooLong,
    RangeNotSatisfiable,
    FieldsTooLarge,
    InternalError,
    NotImplemented,
    Unavailable,
    VersionNotSupported,
}

impl Status {
    /// Code and reason phrase.
    const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::PartialContent => "206 Partial Content",
            Self::MovedPermanently => "301 Moved Permanently",
            Self::NotModified => "304 Not Modified",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::PreconditionFailed => "412 Precondition Failed",
            Self::UriTooLong => "414 URI Too Long",
            Self::RangeNotSatisfiable => "416 Range Not Satisfiable",
            Self::FieldsTooLarge => "431 Request Header Fields Too Large",
            Self::InternalError => "500 Internal Server Error",
            Self::NotImplemented => "501 Not Implemented",
            Self::Unavailable => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// Surroundings of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Version of the request.
    pub(super) version: Version,
    /// The connection ends with it.
    pub(super) closes: bool,
    /// Content follows the head; to HEAD none does.
    pub(super) content: bool,
}

impl Shape {
    /// That of an answer to what was not understood.
    pub(super) const OF_A_REFUSAL: Self = Self {
        version: Version::Http11,
        closes: true,
        content: true,
    };
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    status: Status,
    /// Fields of this answer, each with its end.
    fields: String,
    /// The part of a file that is its content; none where words are.
    pub(super) part: Option<FileRange>,
}

impl Answer {
    /// An answer without a file.
    pub(super) const fn refusal(status: Status) -> Self {
        Self {
            status,
            fields: String::new(),
            part: None,
        }
    }

    fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _ = write!(self.fields, "{name}: {value}\r\n");
    }

    /// Appends the head, and the words that say what is wrong.
    pub(super) fn write(&self, output: &mut Vec<u8>, shape: Shape) {
        let date = httpdate::fmt_http_date(SystemTime::now());
        let line = self.status.line();
        let connection = match (shape.closes, shape.version) {
            (true, _) => "Connection: close\r\n",
            (false, Version::Http10) => "Connection: keep-alive\r\n",
            (false, Version::Http11) => "",
        };
        let words = format!("{line}\n");
        let content = match (&self.part, self.status) {
            (Some(part), _) => format!("Content-Length: {}\r\n", part.left),
            (None, Status::NotModified) => String::new(),
            (None, _) => format!(
                "Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n",
                words.len()
            ),
        };
        let fields = &self.fields;
        let head = format!(
            "HTTP/1.1 {line}\r\nServer: tollgate\r\nDate: {date}\r\n{fields}{content}{connection}\r\n"
        );
        output.extend_from_slice(head.as_bytes());
        if shape.content && self.part.is_none() && self.status != Status::NotModified {
            output.extend_from_slice(words.as_bytes());
        }
    }
}

/// The answer to a request.
pub(super) fn answer(root: &Root, request: &Request<'_>) -> Answer {
    match request.method {
        Method::Get | Method::Head => {}
        Method::Other => {
            let mut answer = Answer::refusal(Status::MethodNotAllowed);
            answer.field("Allow", "GET, HEAD");
            return answer;
        }
        Method::Unknown => return Answer::refusal(Status::NotImplemented),
    }
    let target = match &request.target {
        Ok(target) => target,
        Err(status) => return Answer::refusal(*status),
    };
    let document = match root.find(&target.path, target.directory) {
        Ok(Found::File(document)) => document,
        Ok(Found::Directory) => return moved(request.sent_target),
        Err(status) => return Answer::refusal(status),
    };
    let mut answer = Answer::refusal(Status::Ok);
    answer.field("ETag", &document.tag);
    let modified = whole_seconds(document.modified);
    // A date in the future would be one that no condition can ever match (RFC 9110, 8.8.2.1).
    answer.field(
        "Last-Modified",
        httpdate::fmt_http_date(modified.min(SystemTime::now())),
    );
    let length = document.length;
    let verdict = match (request.method, evaluate(&request.conditions, &document)) {
        // Ranges are for GET only (RFC 9110, 14.2).
        (Method::Head, Verdict::Part(..) | Verdict::Unsatisfiable) => Verdict::Whole,
        (_, verdict) => verdict,
    };
    let (at, bytes) = match verdict {
        Verdict::Whole => (0, length),
        Verdict::Part(at, bytes) => {
            answer.status = Status::PartialContent;
            answer.field(
                "Content-Range",
                format_args!("bytes {at}-{}/{length}", at + bytes - 1),
            );
            (at, bytes)
        }
        Verdict::Unsatisfiable => {
            answer = Answer::refusal(Status::RangeNotSatisfiable);
            answer.field("Content-Range", format_args!("bytes */{length}"));
            return answer;
        }
        Verdict::NotModified => {
            answer.status = Status::NotModified;
            return answer;
        }
        Verdict::PreconditionFailed => return Answer::refusal(Status::PreconditionFailed),
    };
    let media = match document.index {
        true => "text/html; charset=utf-8",
        false => media_type(&target.path),
    };
    answer.field("Content-Type", media);
    answer.field("Accept-Ranges", "bytes");
    answer.part = Some(document.part(at, bytes));
    answer
}

/// A directory is asked for with a slash at its end, so that the links in its file lead to where they should.
fn moved(sent: &str) -> Answer {
    let (path, query) = match sent.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (sent, String::new()),
    };
    // Two slashes at the beginning would name another host.
    let path = path.trim_start_matches('/');
    let mut answer = Answer::refusal(Status::MovedPermanently);
    answer.field("Location", format_args!("/{path}/{query}"));
    answer
}

//! Messages for errors of buckets: one line each, with the advice that fits.
//!
//! Owns the codes of S3's errors and what to do about each. It must never show what a server sent as it came.

use std::error::Error as _;

use crate::error::chain;

/// The codes of S3 that say that keys are not accepted.
const KEYS: [&str; 8] = [
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "ExpiredToken",
    "TokenRefreshRequired",
    "InvalidSecurity",
    "NotSignedUp",
    "MissingAuthenticationToken",
];
/// Those that say that the bucket is elsewhere.
const REGION: [&str; 4] = [
    "AuthorizationHeaderMalformed",
    "PermanentRedirect",
    "TemporaryRedirect",
    "IllegalLocationConstraintException",
];
/// Message of `object_store` when the answer of another region names none.
const REDIRECT: &str = "Received redirect without LOCATION";

/// Tells whether the server says that it has no such bucket.
pub(crate) fn is_missing(error: &object_store::Error) -> bool {
    code(&chain(error)) == Some("NoSuchBucket")
}

/// Describes an error of a bucket, with advice.
pub(crate) fn describe(error: &object_store::Error) -> String {
    let said = chain(error);
    let code = code(&said);
    let with = |what: &str, advice: &str| match code {
        Some(code) => format!("{what} ({code}); {advice}"),
        None => format!("{what}; {advice}"),
    };
    match (code, error) {
        (Some(code), _) if KEYS.contains(&code) => with(
            "the server does not accept the keys",
            "see to AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
        ),
        (Some(code), _) if REGION.contains(&code) => with(
            "the bucket is in another region",
            "set AWS_REGION to the region of the bucket",
        ),
        (None, _) if said.contains(REDIRECT) => with(
            "the bucket is in another region",
            "set AWS_REGION to the region of the bucket",
        ),
        (_, object_store::Error::PermissionDenied { .. }) => with(
            "the keys do not permit it",
            "let them list, read and write there (s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject), \
             or give others in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        (_, object_store::Error::Unauthenticated { .. }) => with(
            "the server wants keys",
            "give them in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        (None, _) if is_unreached(error) => {
            format!("{}; see to AWS_ENDPOINT_URL and the network", plain(&said))
        }
        _ => format!(
            "{}; see to AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for other servers than Amazon's, AWS_ENDPOINT_URL",
            plain(&said)
        ),
    }
}

/// Tells whether no answer came from the server, as far as the texts of the reasons say.
fn is_unreached(error: &object_store::Error) -> bool {
    let mut next = error.source();
    while let Some(reason) = next {
        let text = reason.to_string();
        if [
            "error sending request",
            "dns error",
            "tcp connect error",
            "Connection refused",
        ]
        .iter()
        .any(|sign| text.contains(sign))
        {
            return true;
        }
        next = reason.source();
    }
    false
}

/// The code in the XML of an answer.
fn code(said: &str) -> Option<&str> {
    between(said, "<Code>", "</Code>")
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(behind).map(|(found, _)| found.trim())
}

/// A text without the XML in it, of which the message stays.
fn plain(said: &str) -> String {
    let Some(start) = said.find("<?xml").or_else(|| said.find("<Error>")) else {
        return said.to_owned();
    };
    let before = said[..start].trim_end_matches([' ', ':']);
    match (code(said), between(said, "<Message>", "</Message>")) {
        (Some(code), Some(message)) => format!("{before}: {code}: {message}"),
        (Some(code), None) => format!("{before}: {code}"),
        (None, _) => before.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of S3 with this code.
    fn error(code: &str) -> object_store::Error {
        let xml = format!(
            "Server returned non-2xx status code: 400 Bad Request: <?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>No.</Message>\
             <RequestId>1</RequestId></Error>"
        );
        object_store::Error::Generic {
            store: "S3",
            source: xml.into(),
        }
    }

    #[test]
    fn bucket_errors_end_in_their_own_advice() {
        for (code, advice) in [
            ("SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
            ("ExpiredToken", "AWS_SESSION_TOKEN"),
            ("PermanentRedirect", "AWS_REGION"),
            ("AuthorizationHeaderMalformed", "AWS_REGION"),
            ("SlowDown", "AWS_ENDPOINT_URL"),
        ] {
            let line = describe(&error(code));
            assert!(line.contains(code) && line.contains(advice), "{line}");
            assert!(!line.contains('<') && line.lines().count() == 1, "{line}");
        }
        let denied = object_store::Error::PermissionDenied {
            path: "trace.json".to_owned(),
            source: "<?xml?><Error><Code>AccessDenied</Code></Error>".into(),
        };
        let line = describe(&denied);
        assert!(
            line.starts_with("the keys do not permit it (AccessDenied); "),
            "{line}"
        );
        assert!(is_missing(&error("NoSuchBucket")) && !is_missing(&denied));
    }
}

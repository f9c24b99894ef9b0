use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::sockets::testing::Script;

/// A directory of files: `hello.txt`, `large` (1 MB), `site/index.html`, and links that lead out.
fn root() -> (tempfile::TempDir, Rc<Root>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::create_dir_all(path.join("files/site")).unwrap();
    fs::write(path.join("secret"), "not for you").unwrap();
    let files = path.join("files");
    fs::write(files.join("hello.txt"), "Hello, world!\n").unwrap();
    fs::write(files.join("empty"), "").unwrap();
    fs::write(files.join("large"), large()).unwrap();
    fs::write(files.join("site/index.html"), "<p>index</p>").unwrap();
    symlink("../secret", files.join("out")).unwrap();
    symlink("/etc/passwd", files.join("absolute")).unwrap();
    symlink("hello.txt", files.join("inside")).unwrap();
    let root = Rc::new(Root::open(&files).unwrap());
    (directory, root)
}

fn large() -> Vec<u8> {
    (0..1_000_000u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Everything that is answered to these bytes; the peer ends behind them.
fn answers(root: &Rc<Root>, bytes: &[u8]) -> Vec<u8> {
    let mut stream = Script::new(bytes, true);
    let mut connection = Connection::new(Rc::clone(root));
    let mut scratch = [0; 4096];
    for _ in 0..10_000 {
        match connection.go(&mut stream, &mut scratch, &mut 0).unwrap() {
            Progress::Done => return stream.sent,
            Progress::Again | Progress::Wait => {}
        }
    }
    panic!("no end: {:?}", String::from_utf8_lossy(&stream.sent));
}

/// Head and content of the answer to one request with these lines.
fn ask(root: &Rc<Root>, lines: &[&str]) -> (String, Vec<u8>) {
    let mut request = lines.join("\r\n");
    request.push_str("\r\nHost: a\r\n\r\n");
    let answer = answers(root, request.as_bytes());
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head, answer[end + 4..].to_vec())
}

fn field(head: &str, name: &str) -> Option<String> {
    let line = head
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.map(str::to_owned)
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn get_and_head_have_one_head() {
    let (_directory, root) = root();
    let (head, content) = ask(&root, &["GET /hello.txt HTTP/1.1"]);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(content, b"Hello, world!\n");
    assert_eq!(field(&head, "Content-Length").unwrap(), "14");
    assert_eq!(
        field(&head, "Content-Type").unwrap(),
        "text/plain; charset=utf-8"
    );
    assert!(httpdate::parse_http_date(&field(&head, "Date").unwrap()).is_ok());
    assert_eq!(field(&head, "Connection"), None);
    let (same, content) = ask(&root, &["HEAD /hello.txt HTTP/1.1"]);
    let without_date = |head: &str| {
        head.lines()
            .filter(|line| !line.starts_with("Date"))
            .collect::<String>()
    };
    assert_eq!(without_date(&head), without_date(&same));
    assert!(content.is_empty());
}

#[test]
fn a_file_larger_than_what_is_read_at_once_arrives_whole() {
    let (_directory, root) = root();
    let (head, content) = ask(&root, &["GET /large HTTP/1.1"]);
    assert_eq!(status(&head), 200);
    assert_eq!(content, large());
    let (head, content) = ask(&root, &["GET /large HTTP/1.1", "Range: bytes=999-500998"]);
    assert_eq!(status(&head), 206);
    assert_eq!(
        field(&head, "Content-Range").unwrap(),
        "bytes 999-500998/1000000"
    );
    assert_eq!(content, large()[999..500_999]);
    let (head, _) = ask(&root, &["GET /large HTTP/1.1", "Range: bytes=1000000-"]);
    assert_eq!(status(&head), 416);
    assert_eq!(field(&head, "Content-Range").unwrap(), "bytes */1000000");
    let (head, content) = ask(&root, &["GET /empty HTTP/1.1"]);
    assert_eq!((status(&head), content.len()), (200, 0));
}

#[test]
fn requests_that_do_not_wait_are_answered_in_order() {
    let (_directory, root) = root();
    let one = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut bytes = one.repeat(3_000);
    bytes.push_str("GET /large HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345");
    bytes.push_str(one);
    let answer = answers(&root, bytes.as_bytes());
    let count = |what: &[u8]| {
        answer
            .windows(what.len())
            .filter(|part| *part == what)
            .count()
    };
    assert_eq!(count(b"Hello, world!\n"), 3_001);
    assert_eq!(count(b"HTTP/1.1 200 OK"), 3_002);
    assert_eq!(count(b"HTTP/1.1 405 Method Not Allowed"), 1);
    assert!(answer.ends_with(b"\r\n\r\nHello, world!\n"));
}

#[test]
fn nothing_outside_is_served() {
    let (_directory, root) = root();
    for (target, code) in [
        ("/../secret", 400),
        ("/%2e%2e/secret", 400),
        ("/site/..%2f..%2fsecret", 400),
        ("/out", 403),
        ("/absolute", 403),
        ("/inside", 200),
        ("/nothing", 404),
        ("/hello.txt/", 404),
        ("/hello.txt/more", 404),
        ("/", 404),
        ("/site/", 200),
    ] {
        let (head, content) = ask(&root, &[&format!("GET {target} HTTP/1.1")]);
        assert_eq!(status(&head), code, "{target}: {head}");
        assert!(!content.ends_with(b"not for you"));
    }
    let (head, _) = ask(&root, &["GET //site?a=b HTTP/1.1"]);
    assert_eq!(field(&head, "Location").unwrap(), "/site/?a=b");
}

#[test]
fn conditions_are_evaluated() {
    let (_directory, root) = root();
    let (head, _) = ask(&root, &["GET /hello.txt HTTP/1.1"]);
    let (tag, date) = (
        field(&head, "ETag").unwrap(),
        field(&head, "Last-Modified").unwrap(),
    );
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (condition, code) in [
        (format!("If-Modified-Since: {date}"), 304),
        (format!("If-Modified-Since: {old}"), 200),
        ("If-Modified-Since: yesterday".to_owned(), 200),
        (format!("If-None-Match: {tag}"), 304),
        (format!("If-None-Match: W/{tag}"), 304),
        (
            format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {date}"),
            200,
        ),
        (format!("If-Match: {tag}"), 200),
        ("If-Match: \"other\"".to_owned(), 412),
        // The lines of a list are one list.
        (format!("If-Match: \"other\"\r\nIf-Match: {tag}"), 200),
        (
            format!("If-None-Match: \"other\"\r\nIf-None-Match: {tag}"),
            304,
        ),
        (format!("If-Unmodified-Since: {old}"), 412),
        (format!("Range: bytes=0-4\r\nIf-Range: {tag}"), 206),
        ("Range: bytes=0-4\r\nIf-Range: \"other\"".to_owned(), 200),
    ] {
        let (head, content) = ask(&root, &["GET /hello.txt HTTP/1.1", &condition]);
        assert_eq!(status(&head), code, "{condition}");
        match code {
            304 => assert!(content.is_empty()),
            206 => assert_eq!(content, b"Hello"),
            _ => {}
        }
    }
}

#[test]
fn refusals_end_the_connection_and_nothing_else_does() {
    let (_directory, root) = root();
    let (head, _) = ask(&root, &["GET /hello.txt HTTP/1.0"]);
    assert_eq!(field(&head, "Connection").unwrap(), "close");
    let (head, _) = ask(
        &root,
        &["GET /hello.txt HTTP/1.0", "Connection: keep-alive"],
    );
    assert_eq!(field(&head, "Connection").unwrap(), "keep-alive");
    let (head, _) = ask(&root, &["DELETE /hello.txt HTTP/1.1"]);
    assert_eq!(
        (status(&head), field(&head, "Allow").unwrap().as_str()),
        (405, "GET, HEAD")
    );
    let (head, _) = ask(&root, &["BREW /hello.txt HTTP/1.1"]);
    assert_eq!(status(&head), 501);
    for (bytes, code) in [
        (b"nonsense\r\n\r\n".to_vec(), 400),
        (
            [b"GET /", "a".repeat(LONGEST_HEAD).as_bytes()].concat(),
            414,
        ),
        (
            [
                b"GET / HTTP/1.1\r\na: ",
                "b".repeat(LONGEST_HEAD).as_bytes(),
            ]
            .concat(),
            431,
        ),
        (b"GET / HTTP/3.0\r\n\r\n".to_vec(), 505),
    ] {
        let mut more = bytes.clone();
        more.extend_from_slice(b"\r\n\r\nGET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = String::from_utf8(answers(&root, &more)).unwrap();
        assert_eq!(status(&answer), code);
        assert!(!answer.contains("Hello"), "{answer}");
    }
}

/// Holds a write lease on a file (F_SETLEASE of fcntl(2)); none where the file system has no leases.
#[allow(unsafe_code)]
fn leased(path: &Path) -> Option<fs::File> {
    use std::os::fd::AsRawFd;
    // SAFETY: ignoring a signal runs no code of ours; nobody here waits for SIGIO, which ends a process otherwise.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    let file = fs::File::options().write(true).open(path).unwrap();
    // SAFETY: the call takes three numbers.
    let outcome = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    (outcome == 0).then_some(file)
}

#[test]
fn files_with_a_write_lease_are_answered_by_503() {
    let (directory, root) = root();
    let Some(lease) = leased(&directory.path().join("files/hello.txt")) else {
        return tollgate_skip::skipped!("this file system has no leases");
    };
    let (head, _) = ask(&root, &["GET /hello.txt HTTP/1.1"]);
    assert_eq!(status(&head), 503, "{head}");
    assert_eq!(field(&head, "Connection"), None);
    drop(lease);
    let (head, _) = ask(&root, &["GET /hello.txt HTTP/1.1"]);
    assert_eq!(status(&head), 200, "{head}");
}

#[test]
fn expected_content_closes_the_connection() {
    let (_directory, root) = root();
    let next = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    for (content, kept) in [
        ("Content-Length: 5\r\n", false),
        ("Transfer-Encoding: chunked\r\n", false),
        ("Content-Length: 0\r\n", true),
        ("", true),
    ] {
        // This peer does not send its content, since it was refused, and goes on with another request.
        let head = format!("PUT /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{content}\r\n");
        let answer = String::from_utf8(answers(&root, (head + next).as_bytes())).unwrap();
        assert_eq!(status(&answer), 405, "{content:?}");
        let count = answer.matches("HTTP/1.1 ").count();
        assert_eq!(count, 1 + usize::from(kept), "{content:?}");
        assert_eq!(answer.ends_with("Hello, world!\n"), kept, "{content:?}");
    }
}

#[test]
fn methods_are_refused_in_every_form_of_target() {
    let (_directory, root) = root();
    for (line, code) in [
        ("OPTIONS * HTTP/1.1", 405),
        ("CONNECT a:80 HTTP/1.1", 405),
        ("BREW * HTTP/1.1", 501),
        ("GET * HTTP/1.1", 400),
        ("HEAD a:80 HTTP/1.1", 400),
    ] {
        let (head, _) = ask(&root, &[line]);
        assert_eq!(status(&head), code, "{line}");
        assert_eq!(field(&head, "Connection").is_some(), code == 400, "{line}");
    }
}

#[test]
fn a_file_that_shrinks_ends_the_connection() {
    let (directory, root) = root();
    let mut stream = Script::new(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", false);
    stream.room = 100_000;
    let mut connection = Connection::new(root);
    let mut scratch = [0; 4096];
    while connection.go(&mut stream, &mut scratch, &mut 0).unwrap() != Progress::Wait {}
    let file = fs::File::options()
        .write(true)
        .open(directory.path().join("files/large"));
    file.unwrap().set_len(1000).unwrap();
    stream.room = usize::MAX;
    assert!(connection.go(&mut stream, &mut scratch, &mut 0).is_err());
}

#[test]
fn a_byte_at_a_time_is_a_request_as_well() {
    let (_directory, root) = root();
    let mut stream = Script::new(b"", false);
    let mut connection = Connection::new(root);
    let mut scratch = [0; 4096];
    for byte in b"\r\nGET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n" {
        assert!(stream.sent.is_empty());
        stream.arrive(&[*byte]);
        assert_eq!(
            connection.go(&mut stream, &mut scratch, &mut 0).unwrap(),
            Progress::Wait
        );
    }
    assert!(stream.sent.ends_with(b"Hello, world!\n"));
}

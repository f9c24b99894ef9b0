//! Errands: other programs that the guest runs for the host, in a file system like that of any Linux.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, mount};
use tollgate_qemu::protocol::{Errand, Message, Stream};

/// What programs expect to be there: the kind of file system and its place.
const PLACES: [(&str, &str); 6] = [
    ("devtmpfs", "/dev"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/dev/shm"),
    ("tracefs", "/sys/kernel/tracing"),
    ("securityfs", "/sys/kernel/security"),
    ("cgroup2", "/sys/fs/cgroup"),
];

/// Carries out each errand of the list and says what came of it.
///
/// # Errors
/// When an errand cannot be read, or a file system cannot be mounted; a program that fails is no error here.
pub(crate) fn carry_out(list: &str) -> io::Result<()> {
    for (kind, place) in PLACES {
        fs::create_dir_all(place)?;
        mount(kind, place, kind, MountFlags::empty(), None)
            .map_err(|error| io::Error::other(format!("mounting {place}: {error}")))?;
    }
    for line in list.lines() {
        let outcome = match line.parse::<Errand>().map_err(io::Error::other)? {
            Errand::Write { path, value } => match fs::write(&path, value) {
                Ok(()) => "written".to_owned(),
                Err(error) => format!("writing {path}: {error}"),
            },
            Errand::Run { user, words } => run(user, &words)?,
        };
        crate::say(&Message::Ended(outcome))?;
    }
    Ok(())
}

/// Runs a program and says what it wrote; returns how it ended.
fn run(user: u32, words: &[String]) -> io::Result<String> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok("there is no program to run".to_owned());
    };
    let spawned = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/bin")
        .current_dir("/tmp")
        .uid(user)
        .gid(user)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Ok(format!("{program} could not be started: {error}")),
    };
    // Both at once, so that neither pipe fills up while the other is read.
    let stderr = child.stderr.take();
    let errors = std::thread::spawn(move || text(stderr));
    let out = text(child.stdout.take())?;
    let errors = errors
        .join()
        .map_err(|_| io::Error::other("the thread that reads the standard error has panicked"))??;
    let status = child.wait()?;
    let lines = |stream, text: &str| -> Vec<Message> {
        let line = |line: &str| Message::Line(stream, line.to_owned());
        text.lines().map(line).collect()
    };
    crate::say_all(&lines(Stream::Out, &out))?;
    crate::say_all(&lines(Stream::Err, &errors))?;
    Ok(status.to_string())
}

fn text(pipe: Option<impl Read>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

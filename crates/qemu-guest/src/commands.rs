//! GuestCommands: other programs that the guest runs for the host, in a file system like that of any Linux.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use tollgate_qemu::protocol::{GuestCommand, Message, Stream};

/// File systems that programs expect to be there: the kind and the place.
const PLACES: [(&str, &str); 6] = [
    ("devtmpfs", "/dev"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/dev/shm"),
    ("tracefs", "/sys/kernel/tracing"),
    ("securityfs", "/sys/kernel/security"),
    ("cgroup2", "/sys/fs/cgroup"),
];

/// File with the functions of the kernel that are traced.
const ENABLED_FUNCTIONS: &str = "/sys/kernel/tracing/enabled_functions";
/// Time between two checks.
const WHILE: Duration = Duration::from_millis(5);
/// Looks until what is there counts as left.
const PATIENCE: u32 = 2_000;

/// Carries out each command of the list and says what came of it.
///
/// # Errors
/// When a command cannot be read, or a file system cannot be mounted; a program that fails is no error here.
pub(crate) fn carry_out(list: &str) -> io::Result<()> {
    for (kind, place) in PLACES {
        fs::create_dir_all(place)?;
        mount(kind, place, kind, MountFlags::empty(), None)
            .map_err(|error| io::Error::other(format!("mounting {place}: {error}")))?;
    }
    for line in list.lines() {
        let outcome = match line.parse::<GuestCommand>().map_err(io::Error::other)? {
            GuestCommand::Write { path, value } => match fs::write(&path, value) {
                Ok(()) => "written".to_owned(),
                Err(error) => format!("writing {path}: {error}"),
            },
            GuestCommand::Run { user, args } => run(user, &args, Fate::Ends)?,
            GuestCommand::Kill { user, args } => run(user, &args, Fate::IsKilled)?,
            GuestCommand::During {
                path,
                value,
                thread,
                user,
                args,
            } => {
                let change = Change {
                    path: &path,
                    value: &value,
                    thread: &thread,
                };
                run(user, &args, Fate::SeesChange(change))?
            }
            GuestCommand::Leftovers => leftovers()?.to_string(),
            GuestCommand::Hide { path } => {
                mount("tmpfs", &path, "tmpfs", MountFlags::empty(), None).map_or_else(
                    |error| format!("hiding {path}: {error}"),
                    |()| "hidden".to_owned(),
                )
            }
        };
        crate::say(&Message::Ended(outcome))?;
    }
    Ok(())
}

/// Fate of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate<'a> {
    /// By itself.
    Ends,
    /// By a signal, as soon as something is attached.
    IsKilled,
    /// By itself, and something is changed meanwhile.
    SeesChange(Change<'a>),
}

/// Value to be written into a file, as soon as something is attached and a thread of such a name is there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Change<'a> {
    path: &'a str,
    value: &'a str,
    thread: &'a str,
}

/// Runs a program and says what it wrote; returns how it ended.
fn run(user: u32, args: &[String], fate: Fate<'_>) -> io::Result<String> {
    let Some((program, arguments)) = args.split_first() else {
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
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let out = std::thread::spawn(move || text(stdout));
    let errors = std::thread::spawn(move || text(stderr));
    let attached = || Ok::<_, io::Error>(bpf::count(bpf::LINK_GET_NEXT_ID)? > 0);
    match fate {
        Fate::Ends => {}
        Fate::IsKilled => {
            while child.try_wait()?.is_none() {
                if attached()? {
                    child.kill()?;
                }
                std::thread::sleep(WHILE);
            }
        }
        Fate::SeesChange(change) => {
            while child.try_wait()?.is_none() {
                if has_thread(child.id(), change.thread) && attached()? {
                    fs::write(change.path, change.value)?;
                    break;
                }
                std::thread::sleep(WHILE);
            }
        }
    }
    let status = child.wait()?;
    let read = |reader: std::thread::JoinHandle<io::Result<String>>| {
        let panicked = |_| io::Error::other("a thread that reads a pipe has panicked");
        reader.join().map_err(panicked)?
    };
    let (out, errors) = (read(out)?, read(errors)?);
    let lines = |stream, text: &str| -> Vec<Message> {
        let line = |line: &str| Message::Line(stream, line.to_owned());
        text.lines().map(line).collect()
    };
    crate::say_all(&lines(Stream::Out, &out))?;
    crate::say_all(&lines(Stream::Err, &errors))?;
    Ok(status.to_string())
}

/// Tells whether a process has a thread whose name begins like this; one that has ended has none.
fn has_thread(process: u32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let mut tasks = tasks.into_iter().flatten().flatten();
    tasks.any(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.starts_with(name))
    })
}

/// Number of BPF objects in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Leftovers {
    programs: usize,
    links: usize,
    /// Functions of the kernel that call something else first.
    functions: usize,
}

impl std::fmt::Display for Leftovers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            programs,
            links,
            functions,
        } = self;
        write!(
            f,
            "programs {programs}, links {links}, functions {functions}"
        )
    }
}

/// BPF objects that are left when the kernel has had time to free those that nobody holds any more.
fn leftovers() -> io::Result<Leftovers> {
    let mut seen = Leftovers {
        programs: 0,
        links: 0,
        functions: 0,
    };
    for _ in 0..PATIENCE {
        seen = Leftovers {
            programs: bpf::count(bpf::PROG_GET_NEXT_ID)?,
            links: bpf::count(bpf::LINK_GET_NEXT_ID)?,
            functions: fs::read_to_string(ENABLED_FUNCTIONS)?.lines().count(),
        };
        if (seen.programs, seen.links, seen.functions) == (0, 0, 0) {
            break;
        }
        std::thread::sleep(WHILE);
    }
    Ok(seen)
}

/// Queries of bpf(2) about programs and links that open none.
mod bpf {
    use std::io;

    /// BPF_PROG_GET_NEXT_ID of linux/bpf.h.
    pub(super) const PROG_GET_NEXT_ID: libc::c_int = 11;
    /// BPF_LINK_GET_NEXT_ID of linux/bpf.h.
    pub(super) const LINK_GET_NEXT_ID: libc::c_int = 31;

    /// The part of `union bpf_attr` that the two commands use.
    #[repr(C)]
    #[derive(Default)]
    struct Ids {
        start: u32,
        next: u32,
        flags: u32,
    }

    /// Number of them.
    pub(super) fn count(command: libc::c_int) -> io::Result<usize> {
        let mut ids = Ids::default();
        for found in 0.. {
            // SAFETY: the attributes live during the call, and the kernel is told how long they are.
            let outcome =
                unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut ids, size_of::<Ids>()) };
            if outcome != 0 {
                return match io::Error::last_os_error() {
                    error if error.raw_os_error() == Some(libc::ENOENT) => Ok(found),
                    error => Err(error),
                };
            }
            ids.start = ids.next;
        }
        Ok(usize::MAX)
    }
}

fn text(pipe: Option<impl Read>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

//! The stock kernel: fetching Debian's package, verifying it, and taking the image out of it.
//!
//! apt verifies the signatures of its index and of what it downloads; the file that is kept here is held against the
//! index's checksum every time before it is used.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sha2::{Digest, Sha256};

use super::Error;

/// The series of Debian 12.
pub const SERIES: &str = "6.1";

/// A kernel that can be booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The package and its version, like `linux-image-6.1.0-56-amd64 6.1.192-2`.
    pub package: String,
    /// The image.
    pub image: PathBuf,
}

/// Record of a package in the index of apt.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    version: String,
    sha256: String,
}

/// Fetches the newest kernel of [`SERIES`] into `directory`, unless it is there.
///
/// # Errors
/// When apt or dpkg are missing or fail, when no index knows such a kernel, or when a checksum does not hold.
pub fn fetch(directory: &Path) -> Result<Kernel, Error> {
    fs::create_dir_all(directory).map_err(Error::file(directory))?;
    let names = run(
        "apt-cache",
        "apt",
        &["pkgnames", &format!("linux-image-{SERIES}.0-")],
        directory,
    )?;
    let package = newest(&names).ok_or(Error::NoKernel { series: SERIES })?;
    let shown = run(
        "apt-cache",
        "apt",
        &["show", "--no-all-versions", package],
        directory,
    )?;
    let record = record(&shown).ok_or(Error::NoKernel { series: SERIES })?;
    let deb = directory.join(format!("{package}_{}_amd64.deb", record.version));
    if !deb.exists() {
        let wanted = format!("{package}={}", record.version);
        // apt names the file itself; one of the two forms of a version with a colon would not fit our name.
        run("apt-get", "apt", &["-qq", "download", &wanted], directory)?;
    }
    let found = checksum(&deb)?;
    if found != record.sha256 {
        return Err(Error::Checksum {
            path: deb,
            found,
            expected: record.sha256,
        });
    }
    let image = unpack(&deb, directory)?;
    Ok(Kernel {
        package: format!("{package} {}", record.version),
        image,
    })
}

/// The kernel in a package that the user names; nothing is fetched, and no checksum is known.
///
/// # Errors
/// When the package cannot be read or holds no kernel.
pub fn from_deb(deb: &Path, directory: &Path) -> Result<Kernel, Error> {
    fs::create_dir_all(directory).map_err(Error::file(directory))?;
    let deb = deb.canonicalize().map_err(Error::file(deb))?;
    let path = deb.to_string_lossy();
    let format = ["--show", "--showformat=${Package} ${Version}", &*path];
    let package = run("dpkg-deb", "dpkg", &format, directory)?;
    let image = unpack(&deb, directory)?;
    Ok(Kernel {
        package: package.trim().to_owned(),
        image,
    })
}

/// The plain kernel with the highest number among the names of packages.
fn newest(names: &str) -> Option<&str> {
    let number = |name: &&str| -> Option<u32> {
        name.strip_prefix("linux-image-")?
            .strip_prefix(SERIES)?
            .strip_prefix(".0-")?
            .strip_suffix("-amd64")?
            .parse()
            .ok()
    };
    names
        .lines()
        .filter(|name| number(name).is_some())
        .max_by_key(number)
}

/// The version and the checksum in a record of apt's index.
fn record(shown: &str) -> Option<Record> {
    let field = |name: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().to_owned())
    };
    Some(Record {
        version: field("Version:")?,
        sha256: field("SHA256:")?,
    })
}

fn checksum(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(Error::file(path))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(Error::file(path))? {
            0 => break,
            length => digest.update(&buffer[..length]),
        }
    }
    Ok(digest
        .finalize()
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        }))
}

/// Takes the image out of the package, unless that was done since the package came.
fn unpack(deb: &Path, directory: &Path) -> Result<PathBuf, Error> {
    let name = deb.file_stem().unwrap_or_default();
    let target = directory.join(name);
    if let Some(image) = image_in(&target) {
        return Ok(image);
    }
    let fresh = tempfile::tempdir_in(directory).map_err(Error::file(directory))?;
    let mut files = spawn(
        Command::new("dpkg-deb")
            .arg("--fsys-tarfile")
            .arg(deb)
            .stdout(Stdio::piped()),
        "dpkg-deb",
        "dpkg",
    )?;
    let from = files.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let mut tar = Command::new("tar");
    tar.arg("--extract")
        .arg("--directory")
        .arg(fresh.path())
        .args(["--wildcards", "./boot/vmlinuz-*"])
        .stdin(from);
    let unpacked = output(&mut tar, "tar", "tar")?;
    let listed = files.wait_with_output().map_err(Error::file(deb))?;
    let failed = |program: &str, output: &Output| Error::Program {
        program: format!("{program}, unpacking {},", deb.display()),
        status: output.status,
        said: last_line(&output.stderr),
    };
    if !listed.status.success() {
        return Err(failed("dpkg-deb", &listed));
    }
    if image_in(fresh.path()).is_none() {
        return Err(if unpacked.status.success() {
            failed("tar", &unpacked)
        } else {
            Error::NoImage {
                path: deb.to_owned(),
            }
        });
    }
    // Another process may have unpacked the same package meanwhile.
    match fs::rename(fresh.path(), &target) {
        Err(_) if image_in(&target).is_some() => {}
        renamed => renamed.map_err(Error::file(&target))?,
    }
    image_in(&target).ok_or_else(|| Error::NoImage {
        path: deb.to_owned(),
    })
}

fn image_in(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory.join("boot")).ok()?;
    let mut images: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
        })
        .collect();
    images.sort();
    images.pop()
}

fn run(
    program: &'static str,
    package: &'static str,
    arguments: &[&str],
    directory: &Path,
) -> Result<String, Error> {
    let output = output(
        Command::new(program)
            .args(arguments)
            .current_dir(directory)
            .env("LC_ALL", "C")
            .stdin(Stdio::null()),
        program,
        package,
    )?;
    if !output.status.success() {
        return Err(Error::Program {
            program: format!("{program} {}", arguments.join(" ")),
            status: output.status,
            said: last_line(&output.stderr),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn output(
    command: &mut Command,
    program: &'static str,
    package: &'static str,
) -> Result<Output, Error> {
    spawn(
        command.stdout(Stdio::piped()).stderr(Stdio::piped()),
        program,
        package,
    )?
    .wait_with_output()
    .map_err(Error::file(Path::new(program)))
}

fn spawn(
    command: &mut Command,
    program: &'static str,
    package: &'static str,
) -> Result<std::process::Child, Error> {
    command.spawn().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::NoProgram { program, package },
        _ => Error::File {
            path: PathBuf::from(program),
            source,
        },
    })
}

fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let line = said.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_plain_kernel_is_taken() {
        let names = "linux-image-6.1.0-9-amd64\nlinux-image-6.1.0-56-amd64\nlinux-image-6.1.0-57-cloud-amd64\n\
                     linux-image-6.1.0-56-amd64-dbg\nlinux-image-6.1.0-58-rt-amd64\nlinux-image-6.1.0-58-amd64-unsigned\n";
        assert_eq!(newest(names), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(newest("linux-image-6.12.0-9-amd64\n"), None);
        assert_eq!(newest(""), None);
    }

    #[test]
    fn the_index_gives_version_and_checksum() {
        let shown = "Package: linux-image-6.1.0-56-amd64\nSource: linux-signed-amd64 (6.1.192+2)\nVersion: 6.1.192-2\n\
                     Description: Linux\n SHA256: no\nSHA256: a86e\n";
        let expected = Record {
            version: "6.1.192-2".to_owned(),
            sha256: "a86e".to_owned(),
        };
        assert_eq!(record(shown), Some(expected));
        assert_eq!(record("Package: x\nVersion: 1\n"), None);
    }

    #[test]
    fn a_files_checksum_is_that_of_sha256sum() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(checksum(&path).unwrap(), expected);
    }

    #[test]
    fn a_package_gives_its_image_and_one_without_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let deb = |name: &str, file: &str| -> Option<PathBuf> {
            let tree = directory.path().join(name);
            fs::create_dir_all(tree.join("DEBIAN")).unwrap();
            fs::create_dir_all(tree.join("boot")).unwrap();
            let control = format!(
                "Package: {name}\nVersion: 1-2\nArchitecture: amd64\nMaintainer: nobody\nDescription: test\n"
            );
            fs::write(tree.join("DEBIAN/control"), control).unwrap();
            fs::write(tree.join("boot").join(file), "image").unwrap();
            let deb = directory.path().join(format!("{name}.deb"));
            let built = Command::new("dpkg-deb")
                .arg("--build")
                .arg(&tree)
                .arg(&deb)
                .output();
            built
                .is_ok_and(|output| output.status.success())
                .then_some(deb)
        };
        let (Some(good), Some(bad)) = (
            deb("kernel", "vmlinuz-6.1.0-1-amd64"),
            deb("other", "config-6.1"),
        ) else {
            tollgate_skip::skipped!("dpkg-deb is not installed");
            return;
        };
        let into = directory.path().join("into");
        for _ in 0..2 {
            let kernel = from_deb(&good, &into).unwrap();
            assert_eq!(kernel.package, "kernel 1-2");
            assert_eq!(fs::read_to_string(kernel.image).unwrap(), "image");
        }
        assert!(matches!(from_deb(&bad, &into), Err(Error::NoImage { .. })));
        assert!(matches!(
            from_deb(&into.join("missing.deb"), &into),
            Err(Error::File { .. })
        ));
        let left: Vec<_> = fs::read_dir(&into).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

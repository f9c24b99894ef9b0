//! Numbers of threads in the first process namespace, by which programs know them.
//!
//! In a namespace of its own (a container) a thread has another number for itself than for the programs. The kernel alone knows
//! both, so a program is asked. It must never take one number for the other: a thread that is not found is nobody.

use std::cell::OnceCell;
use std::io::Read;

use libbpf_rs::{Iter, Link, Object, ObjectBuilder};

use crate::error::Error;
use crate::programs::{Aligned, error_text, listen};
use crate::scope;

static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/threads.bpf.o")));

/// Step that fails where the numbers cannot be had.
const DOING: &str = "finding the threads' numbers outside of this process namespace";
/// Bytes of `struct numbers` of the program.
const NUMBERS: usize = 8;

/// Threads and the program that knows their numbers, which is loaded where it is needed.
#[derive(Default)]
pub(crate) struct ThreadNumbers(OnceCell<(Link, Object)>);

/// Number of a thread for itself, and for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) own: u32,
    pub(crate) first: u32,
}

impl ThreadNumbers {
    /// Both numbers of each thread.
    ///
    /// # Errors
    /// [`Error::Load`], [`Error::System`].
    pub(crate) fn of(&self, threads: &[u32]) -> Result<Vec<Number>, Error> {
        if threads.is_empty() || scope::is_first_process_namespace() {
            let same = |&thread| Number {
                own: thread,
                first: thread,
            };
            return Ok(threads.iter().map(same).collect());
        }
        let known = self.all()?;
        let number = |&own| Number {
            own,
            first: known
                .iter()
                .find(|number| number.own == own)
                .map_or(0, |number| number.first),
        };
        Ok(threads.iter().map(number).collect())
    }

    /// All threads of this process namespace.
    fn all(&self) -> Result<Vec<Number>, Error> {
        let (link, _) = match self.0.get() {
            Some(loaded) => loaded,
            None => {
                let loaded = load()?;
                self.0.get_or_init(|| loaded)
            }
        };
        let mut numbers = Iter::new(link).map_err(|error| Error::load(DOING, error))?;
        let mut bytes = Vec::new();
        numbers
            .read_to_end(&mut bytes)
            .map_err(|error| Error::system(DOING, error))?;
        Ok(parse(&bytes))
    }
}

fn load() -> Result<(Link, Object), Error> {
    listen();
    let failed = |error: libbpf_rs::Error| Error::load(DOING, error_text(&error));
    let object = ObjectBuilder::default()
        .name("tollgate_tasks")
        .and_then(|builder| builder.open_memory(&OBJECT.0))
        .and_then(libbpf_rs::OpenObject::load)
        .map_err(failed)?;
    let program = object.progs_mut().next();
    let program = program.ok_or_else(|| Error::load(DOING, "there is no program"))?;
    let link = program.attach().map_err(failed)?;
    Ok((link, object))
}

fn parse(bytes: &[u8]) -> Vec<Number> {
    let (numbers, _) = bytes.as_chunks::<NUMBERS>();
    let word = |half: &[u8]| {
        half.first_chunk()
            .map_or(0, |word| u32::from_ne_bytes(*word))
    };
    let number = |both: &[u8; NUMBERS]| Number {
        own: word(&both[..4]),
        first: word(&both[4..]),
    };
    numbers.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_first_namespace_are_those_of_the_threads() {
        if !scope::is_first_process_namespace() {
            tollgate_skip::skipped!("this is a process namespace of its own");
            return;
        }
        let numbers = ThreadNumbers::default();
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let expected = Number { own, first: own };
        assert_eq!(numbers.of(&[own]).unwrap(), [expected]);
        match numbers.all() {
            Ok(all) => assert!(all.contains(&expected), "{all:?}"),
            Err(error) => tollgate_skip::skipped!("{error}"),
        }
    }
}

//! Chargen: bytes for whoever connects (RFC 864), and discard, which takes them (RFC 863).

use std::io;

use crate::pipe::{Progress, TURNS};
use crate::sockets::{Stream, unless_blocked};

/// Printable characters, from the blank on (RFC 864, one popular pattern).
const CHARACTERS: usize = 95;
/// Characters of a line (RFC 864).
const LINE: usize = 72;
/// Bytes of a line with its end.
const PERIOD: usize = LINE + 2;
/// Bytes after which the pattern repeats: a line that begins with each character.
pub(crate) const REPEATS: usize = CHARACTERS * PERIOD;

/// The byte at this place of the pattern.
const fn byte(at: usize) -> u8 {
    let (line, column) = (at / PERIOD % CHARACTERS, at % PERIOD);
    match column.checked_sub(LINE) {
        None => b' ' + ((line + column) % CHARACTERS) as u8,
        Some(0) => b'\r',
        Some(_) => b'\n',
    }
}

/// The pattern twice, so that every part of one period lies in it.
fn pattern() -> &'static [u8] {
    const BYTES: [u8; 2 * REPEATS] = {
        let mut bytes = [0; 2 * REPEATS];
        let mut at = 0;
        while at < bytes.len() {
            bytes[at] = byte(at);
            at += 1;
        }
        bytes
    };
    static PATTERN: [u8; 2 * REPEATS] = BYTES;
    &PATTERN
}

/// A connection of chargen.
#[derive(Debug, Default)]
pub(crate) struct Chargen {
    /// Place in the pattern.
    at: usize,
}

impl Chargen {
    /// Sends the pattern until the peer ends; what the peer sends is thrown away.
    pub(crate) fn go(
        &mut self,
        stream: &mut impl Stream,
        scratch: &mut [u8],
        moved: &mut u64,
    ) -> io::Result<Progress> {
        if discard(stream, scratch, &mut 0)? == Progress::Done {
            return Ok(Progress::Done);
        }
        for _ in 0..TURNS {
            let piece = &pattern()[self.at..self.at + REPEATS];
            let Some(count) = unless_blocked(stream.send(piece))? else {
                return Ok(Progress::Wait);
            };
            *moved += count as u64;
            self.at = (self.at + count) % REPEATS;
        }
        Ok(Progress::Again)
    }
}

/// Throws away what arrives, until the peer ends.
pub(crate) fn discard(
    stream: &mut impl Stream,
    scratch: &mut [u8],
    moved: &mut u64,
) -> io::Result<Progress> {
    for _ in 0..TURNS {
        match unless_blocked(stream.receive(scratch))? {
            None => return Ok(Progress::Wait),
            Some(0) => return Ok(Progress::Done),
            Some(count) => *moved += count as u64,
        }
    }
    Ok(Progress::Again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::testing::Script;

    #[test]
    fn lines_rotate_through_the_printable_characters() {
        let mut stream = Script::new(b"not read by anybody", false);
        stream.room = 3 * REPEATS - 7;
        let mut chargen = Chargen::default();
        assert_eq!(
            chargen.go(&mut stream, &mut [0; 8], &mut 0).unwrap(),
            Progress::Wait
        );
        stream.room = 7;
        assert_eq!(
            chargen.go(&mut stream, &mut [0; 8], &mut 0).unwrap(),
            Progress::Wait
        );
        let lines: Vec<_> = stream.sent.split_inclusive(|&byte| byte == b'\n').collect();
        assert_eq!(lines.len(), 3 * CHARACTERS);
        assert_eq!(
            lines[0],
            b" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefg\r\n"
        );
        assert_eq!(lines[1][..3], *b"!\"#");
        assert_eq!(lines[94][..3], *b"~ !");
        assert_eq!(lines[95], lines[0]);
    }

    #[test]
    fn chargen_and_discard_end_with_their_peer() {
        let mut scratch = [0; 8];
        let mut stream = Script::new(b"0123456789", true);
        assert_eq!(
            discard(&mut stream, &mut scratch, &mut 0).unwrap(),
            Progress::Done
        );
        let mut stream = Script::new(b"0123456789", true);
        let progress = Chargen::default().go(&mut stream, &mut scratch, &mut 0);
        assert_eq!(progress.unwrap(), Progress::Done);
        assert!(stream.sent.is_empty());
    }
}

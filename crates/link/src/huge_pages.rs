//! Huge pages for the large tables of a stack and its pool.
//!
//! Kernels give huge pages to those who ask where `/sys/kernel/mm/transparent_hugepage/enabled` says `madvise` or `always`; this asks. It
//! is to be called before connections are opened, since the kernel gives a huge page when memory is first written to. What a pool has
//! written already is collapsed, by kernels from 6.1 on.
//!
//! It must never change what the memory holds, nor write to it: what is only reserved is to cost nothing until it is used.

use std::io;

use tollgate_stack::MemoryArea;

/// Tables below this, of which a huge page may hold nothing, are left alone.
const LEAST: usize = 2 << 20;

/// Asks the kernel for huge pages under these areas, and returns the bytes that it agreed to consider. Areas of less than 2 MiB are
/// left out.
///
/// ```
/// # use std::net::Ipv4Addr;
/// # use tollgate_stack::{Config, Instant, Pool, Stack};
/// # use tollgate_wire::ethernet::MacAddr;
/// # let mac = MacAddr([2, 0, 0, 0, 0, 1]);
/// let mut config = Config::new(mac, Ipv4Addr::new(10, 0, 0, 1), 24, [1, 2, 3, 4]);
/// config.max_connections = 100_000;
/// let stack = Stack::new(config, 1500, Instant::from_nanos(0)).unwrap();
/// let mut pool = Pool::new(4_096, Pool::frame_size_for(1500));
/// let areas = stack.large_tables().into_iter().chain(pool.large_tables());
/// match tollgate_link::huge_pages::ask_for(areas) {
///     Ok(bytes) => assert!(bytes > 20_000_000),
///     Err(error) => println!("this kernel has no huge pages: {error}"),
/// }
/// ```
///
/// # Errors
/// The kernel's refusal: EINVAL where it has no transparent huge pages.
pub fn ask_for(areas: impl IntoIterator<Item = MemoryArea>) -> io::Result<usize> {
    let page = rustix::param::page_size();
    let mut agreed = 0;
    for area in areas.into_iter().filter(|area| area.bytes >= LEAST) {
        // Whole pages of the area: what lies beside it in the first and the last page may be another's.
        let before = area.start.align_offset(page);
        let bytes = (area.bytes - before) / page * page;
        let start = area.start.wrapping_add(before);
        advise(start, bytes, libc::MADV_HUGEPAGE)?;
        if area.is_written {
            // A kernel that does not know it, or finds no huge page, leaves the memory as it is.
            let _ = advise(start, bytes, libc::MADV_COLLAPSE);
        }
        agreed += bytes;
    }
    Ok(agreed)
}

fn advise(start: *const u8, bytes: usize, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: neither piece of advice changes what memory holds or who may use it, whoever's it is. A range that is not mapped is refused.
    match unsafe { libc::madvise(start.cast_mut().cast(), bytes, advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(of: &[u8], is_written: bool) -> MemoryArea {
        MemoryArea {
            start: of.as_ptr(),
            bytes: of.len(),
            is_written,
        }
    }

    /// Bytes of huge pages in the mapping of an address, by the kernel's account.
    fn in_huge_pages(at: *const u8) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut here = false;
        for line in maps.lines() {
            let first = line.split(' ').next().unwrap();
            if let Some((low, high)) = first.split_once('-') {
                let end = |text| usize::from_str_radix(text, 16).unwrap();
                here = (end(low)..end(high)).contains(&at.addr());
            } else if here && first == "AnonHugePages:" {
                let text = line[first.len()..].trim().trim_end_matches(" kB");
                return text.parse::<usize>().unwrap() << 10;
            }
        }
        0
    }

    fn are_given() -> bool {
        let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        let is_given = enabled.is_ok_and(|text| !text.contains("[never]"));
        if !is_given {
            tollgate_skip::skipped!("transparent huge pages are off");
        }
        is_given
    }

    #[test]
    fn memory_that_is_written_later_lies_in_huge_pages_and_keeps_its_bytes() {
        if !are_given() {
            return;
        }
        let mut memory = vec![0; 16 << 20];
        assert!(ask_for([area(&memory, false)]).unwrap() > 15 << 20);
        assert_eq!(in_huge_pages(memory[8 << 20..].as_ptr()), 0);
        memory.fill(7);
        assert!(in_huge_pages(memory[8 << 20..].as_ptr()) >= 8 << 20);
        assert!(memory.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn memory_that_was_written_keeps_its_bytes() {
        if !are_given() {
            return;
        }
        let memory: Vec<u8> = (0..8 << 20).map(|at| at as u8).collect();
        ask_for([area(&memory, true)]).unwrap();
        assert!(
            memory
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == at as u8)
        );
    }

    #[test]
    fn small_areas_are_left_alone() {
        assert_eq!(ask_for([area(&[7; 4_096], true)]).unwrap(), 0);
    }
}

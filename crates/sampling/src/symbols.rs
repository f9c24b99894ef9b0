//! Names of the kernel's functions, from `/proc/kallsyms`.
//!
//! A name is given without what the compiler appends (`.constprop.0`, `.isra.0`, `.part.0`, `.cold`), so that a rule for a
//! function holds for its clones. It never guesses: an address outside of all functions has no name.
//!
//! The kernel lists where functions begin and not where they end. A function ends at the next symbol of any kind. The last function
//! of the kernel ends at its end mark, and the last one of a module with the page that it begins in: behind it may lie programs and
//! trampolines that the kernel does not list.

use std::path::{Path, PathBuf};

/// The reason why functions have no names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolsError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}; mount /proc, or run as root", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The kernel shows zeros instead of addresses.
    #[error(
        "the kernel hides the addresses of its functions (kernel.kptr_restrict is {restrict}, kernel.perf_event_paranoid is {paranoid}); {}",
        advice(restrict, paranoid)
    )]
    Hidden {
        /// The value of `kernel.kptr_restrict`, or `unknown`.
        restrict: String,
        /// The value of `kernel.perf_event_paranoid`, or `unknown`.
        paranoid: String,
    },
    /// The file has no function at all.
    #[error("{} names no function; the kernel was built without CONFIG_KALLSYMS", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Advice that makes the addresses visible. Linux shows them to those with CAP_SYSLOG unless `kptr_restrict` is 2, and to all where it is 0 and
/// `perf_event_paranoid` at most 1 (`kallsyms_show_value`).
fn advice(restrict: &str, paranoid: &str) -> String {
    if restrict == "2" {
        return "root has to run: sysctl kernel.kptr_restrict=1, and to run this".to_owned();
    }
    let is_open = |paranoid: &str| paranoid.parse::<i32>().is_ok_and(|level| level <= 1);
    let settings = [
        (restrict != "0").then_some("kernel.kptr_restrict=0"),
        (!is_open(paranoid)).then_some("kernel.perf_event_paranoid=1"),
    ];
    let settings: Vec<&str> = settings.into_iter().flatten().collect();
    if settings.is_empty() {
        return "run as root".to_owned();
    }
    format!(
        "run as root, or have root run: sysctl {}",
        settings.join(" ")
    )
}

/// A function's number in [`Symbols`]; 0 stands for an address that has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub(super) u32);

/// The functions of the running kernel.
#[derive(Debug, Clone)]
pub struct Symbols {
    /// The first address of each function, and of what lies between functions, ascending.
    starts: Vec<u64>,
    /// The number in `names` of each; 0 for what is no function.
    ids: Vec<u32>,
    names: Vec<String>,
}

/// The name of addresses that have none.
const UNKNOWN: &str = "[unknown]";
/// Marks behind the last function of the kernel and of what runs while it starts (include/asm-generic/sections.h). They have the
/// kind of functions.
const END_MARKS: [&str; 2] = ["_etext", "_einittext"];
/// Bytes of the smallest page, with a whole number of which modules begin.
const PAGE: u64 = 4096;

/// A line of the file.
#[derive(Clone, Copy)]
struct Symbol<'a> {
    address: u64,
    /// The function's name; none of what is no function.
    name: Option<&'a str>,
    /// Tells whether it lies among functions.
    is_text: bool,
    /// The module, or the part of the kernel that made the code while it ran.
    owner: Option<&'a str>,
}

impl Symbols {
    /// The functions of this kernel.
    ///
    /// # Errors
    /// [`SymbolsError`], which says what would show them.
    pub fn read() -> Result<Self, SymbolsError> {
        Self::read_in(Path::new("/"))
    }

    /// The functions of the kernel whose `proc` lies under `root`.
    ///
    /// # Errors
    /// Those of [`Symbols::read`].
    pub fn read_in(root: &Path) -> Result<Self, SymbolsError> {
        let path = root.join("proc/kallsyms");
        let text = std::fs::read_to_string(&path).map_err(|source| SymbolsError::Read {
            path: path.clone(),
            source,
        })?;
        let mut found: Vec<Symbol<'_>> = Vec::new();
        let mut any = false;
        let mut hidden = false;
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else {
                continue;
            };
            // Text, and weak text.
            let is_text = matches!(kind, "t" | "T" | "w" | "W");
            let is_function = is_text && !is_padding(name) && !END_MARKS.contains(&name);
            if address == 0 {
                hidden |= is_function;
                continue;
            }
            any |= is_function;
            found.push(Symbol {
                address,
                name: is_function.then(|| plain(name)),
                is_text,
                owner: words.next(),
            });
        }
        if !any {
            return Err(if hidden {
                let setting = |name: &str| {
                    let path = root.join("proc/sys/kernel").join(name);
                    let text = std::fs::read_to_string(path);
                    text.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
                };
                SymbolsError::Hidden {
                    restrict: setting("kptr_restrict"),
                    paranoid: setting("perf_event_paranoid"),
                }
            } else {
                SymbolsError::Empty { path }
            });
        }
        Ok(Self::of(found))
    }

    fn of(mut found: Vec<Symbol<'_>>) -> Self {
        // Of several names for one place, the one with the fewest underscores in front, which callers use.
        found.sort_by_key(|symbol| {
            let rank = symbol.name.map(|name| (underscores(name), name.len()));
            (symbol.address, rank.is_none(), rank)
        });
        found.dedup_by_key(|symbol| symbol.address);
        let mut symbols = Self {
            starts: Vec::with_capacity(found.len()),
            ids: Vec::with_capacity(found.len()),
            names: vec![UNKNOWN.to_owned()],
        };
        let mut known = std::collections::HashMap::new();
        for (at, symbol) in found.iter().enumerate() {
            let id = symbol.name.map_or(0, |name| {
                *known.entry(name).or_insert_with(|| {
                    symbols.names.push(name.to_owned());
                    (symbols.names.len() - 1) as u32
                })
            });
            symbols.push(symbol.address, id);
            let next = found.get(at + 1);
            // The data of a module lies somewhere else.
            let is_next_to = |next: &Symbol<'_>| {
                next.owner == symbol.owner && (next.is_text || symbol.owner.is_none())
            };
            if !next.is_some_and(is_next_to) {
                let page_end = (symbol.address / PAGE)
                    .saturating_add(1)
                    .saturating_mul(PAGE);
                if next.is_none_or(|next| page_end < next.address) {
                    symbols.push(page_end, 0);
                }
            }
        }
        symbols
    }

    fn push(&mut self, start: u64, id: u32) {
        self.starts.push(start);
        self.ids.push(id);
    }

    /// The function in which this address lies.
    #[must_use]
    pub fn function(&self, address: u64) -> FunctionId {
        match self.starts.partition_point(|&start| start <= address) {
            0 => FunctionId(0),
            after => FunctionId(self.ids[after - 1]),
        }
    }

    /// A function's name.
    #[must_use]
    pub fn name(&self, function: FunctionId) -> &str {
        self.names
            .get(function.0 as usize)
            .map_or(UNKNOWN, String::as_str)
    }

    /// Number of different names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len() - 1
    }

    /// Tells whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whether a function of this name exists.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

/// Room in front of functions, for hooks, that has names of its own.
fn is_padding(name: &str) -> bool {
    name.starts_with("__pfx_") || name.starts_with("__cfi_")
}

/// The name as it stands in the source.
fn plain(name: &str) -> &str {
    match name.find('.') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

fn underscores(name: &str) -> usize {
    name.bytes().take_while(|&byte| byte == b'_').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(kallsyms: &str, restrict: Option<&str>) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        std::fs::write(root.path().join("proc/kallsyms"), kallsyms).unwrap();
        if let Some(value) = restrict {
            std::fs::write(root.path().join("proc/sys/kernel/kptr_restrict"), value).unwrap();
        }
        root
    }

    #[test]
    fn addresses_are_named_by_the_function_that_begins_below() {
        let root = machine(
            "ffffffff81000000 T tcp_ack\nffffffff81000100 t tcp_v4_rcv.part.0\nffffffff81000200 D jiffies\n\
             ffffffff81000300 t __pfx_x\nffffffff81000310 t x\nffffffff81000320 t __memcpy\n\
             ffffffff81000320 T memcpy\n",
            None,
        );
        let symbols = Symbols::read_in(root.path()).unwrap();
        let name = |address| symbols.name(symbols.function(address)).to_owned();
        assert_eq!(name(0xffff_ffff_8100_0000), "tcp_ack");
        assert_eq!(name(0xffff_ffff_8100_00ff), "tcp_ack");
        assert_eq!(name(0xffff_ffff_8100_01ff), "tcp_v4_rcv");
        assert_eq!(name(0xffff_ffff_8100_0201), "[unknown]", "data");
        assert_eq!(name(0xffff_ffff_8100_0308), "[unknown]", "padding");
        assert_eq!(name(0xffff_ffff_8100_0318), "x");
        assert_eq!(name(0xffff_ffff_8100_0320), "memcpy");
        assert_eq!(name(0xffff_ffff_8000_0000), "[unknown]");
        assert_eq!(symbols.len(), 4);
    }

    #[test]
    fn addresses_behind_the_last_function_have_no_name() {
        let root = machine(
            "0000000000000000 A per_cpu\nffffffff81000000 T tcp_ack\nffffffff81000100 T _etext\n\
             ffffffff83700000 T start_kernel\nffffffff83700100 T _einittext\n\
             ffffffffc0000ff0 t veth_open\t[veth]\nffffffffc0001010 t veth_xmit\t[veth]\n\
             ffffffffc0002800 d veth_ops\t[veth]\nffffffffc0003ff0 t nf_chain\t[nf_tables]\n\
             ffffffffc0004010 t __pfx_nf_hook\t[nf_tables]\nffffffffc0004020 t nf_hook\t[nf_tables]\n",
            None,
        );
        let symbols = Symbols::read_in(root.path()).unwrap();
        let name = |address| symbols.name(symbols.function(address)).to_owned();
        assert_eq!(name(0xffff_ffff_8100_00ff), "tcp_ack");
        assert_eq!(name(0xffff_ffff_8100_0100), "[unknown]");
        assert_eq!(name(0xffff_ffff_8370_0000), "start_kernel");
        assert_eq!(name(0xffff_ffff_8370_0100), "[unknown]");
        assert_eq!(name(0xffff_ffff_c000_1000), "veth_open");
        assert_eq!(name(0xffff_ffff_c000_1fff), "veth_xmit");
        assert_eq!(name(0xffff_ffff_c000_2000), "[unknown]");
        assert_eq!(name(0xffff_ffff_c000_400f), "nf_chain");
        assert_eq!(name(0xffff_ffff_c000_4fff), "nf_hook");
        assert_eq!(name(0xffff_ffff_c000_5000), "[unknown]");
        assert_eq!(symbols.len(), 6);
    }

    #[test]
    fn functions_end_where_data_begins_at_the_same_place() {
        let root = machine("1000 T one\n1100 D data\n1100 T two\n1100 T __two\n", None);
        let symbols = Symbols::read_in(root.path()).unwrap();
        assert_eq!(symbols.name(symbols.function(0x1100)), "two");
    }

    #[test]
    fn hidden_addresses_are_told_with_what_shows_them() {
        for (restrict, paranoid, said) in [
            (
                "2",
                "2",
                "root has to run: sysctl kernel.kptr_restrict=1, and to run this",
            ),
            (
                "1",
                "2",
                "run as root, or have root run: sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
            ),
            (
                "0",
                "2",
                "run as root, or have root run: sysctl kernel.perf_event_paranoid=1",
            ),
            (
                "1",
                "-1",
                "run as root, or have root run: sysctl kernel.kptr_restrict=0",
            ),
        ] {
            let root = machine(
                "0000000000000000 T tcp_ack\n",
                Some(&format!("{restrict}\n")),
            );
            let setting = root.path().join("proc/sys/kernel/perf_event_paranoid");
            std::fs::write(setting, format!("{paranoid}\n")).unwrap();
            let error = Symbols::read_in(root.path()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "the kernel hides the addresses of its functions (kernel.kptr_restrict is {restrict}, kernel.perf_event_paranoid is \
                     {paranoid}); {said}"
                )
            );
        }
    }

    #[test]
    fn a_kernel_without_names_is_told() {
        let root = machine("", None);
        let error = Symbols::read_in(root.path()).unwrap_err();
        assert!(error.to_string().contains("CONFIG_KALLSYMS"), "{error}");
        let empty = tempfile::tempdir().unwrap();
        let error = Symbols::read_in(empty.path()).unwrap_err();
        assert!(matches!(error, SymbolsError::Read { .. }));
    }
}

//! Functions of the kernel, by address.

/// The kernel's functions by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Start and name, in the order of the starts, each start once.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// The functions with these starts and names. Of several names of one start, the shortest is taken, and of those the
    /// first in the alphabet.
    #[must_use]
    pub fn new(functions: impl IntoIterator<Item = (u64, String)>) -> Self {
        let mut functions: Vec<_> = functions.into_iter().collect();
        functions.sort_by(|(a, a_name), (b, b_name)| {
            (a, a_name.len(), a_name).cmp(&(b, b_name.len(), b_name))
        });
        functions.dedup_by_key(|(start, _)| *start);
        Self { functions }
    }

    /// Number of functions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Tells whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function that an address lies in, without what the compiler appends to a name (`.isra.0`, `.part.0`,
    /// `.constprop.0`, `.cold`); `?` in front of all functions.
    #[must_use]
    pub fn function(&self, address: u64) -> &str {
        self.symbol(address).map_or("?", plain)
    }

    /// Tells whether the code at `entry` is a part that the compiler has cut off the function in which `site` lies.
    #[must_use]
    pub fn is_own_part(&self, site: u64, entry: u64) -> bool {
        let (Some(caller), Some(called)) = (self.symbol(site), self.symbol(entry)) else {
            return false;
        };
        let is_part = plain(called) != called;
        is_part && caller != called && plain(caller) == plain(called)
    }

    /// The whole name of the function that an address lies in.
    fn symbol(&self, address: u64) -> Option<&str> {
        let behind = self
            .functions
            .partition_point(|(start, _)| *start <= address);
        let (_, name) = self.functions.get(behind.checked_sub(1)?)?;
        Some(name)
    }
}

/// The name as it stands in the source.
fn plain(name: &str) -> &str {
    match name.split_once('.') {
        Some((plain, _)) if !plain.is_empty() => plain,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lies_in_the_function_that_starts_before_it() {
        let function = |start, name: &str| (start, name.to_owned());
        let symbols = Symbols::new([
            function(0x200, "tcp_small_queue_check.isra.0"),
            function(0x100, "__x64_sys_sendto"),
            function(0x100, "__se_sys_sendto"),
            function(0x100, "sys_sendto"),
            function(0x300, ".hidden"),
        ]);
        assert_eq!(symbols.len(), 3);
        assert_eq!(symbols.function(0xff), "?");
        assert_eq!(symbols.function(0x100), "sys_sendto");
        assert_eq!(symbols.function(0x1ff), "sys_sendto");
        assert_eq!(symbols.function(0x250), "tcp_small_queue_check");
        assert_eq!(symbols.function(0x300), ".hidden");
        assert!(Symbols::default().is_empty());
    }
}

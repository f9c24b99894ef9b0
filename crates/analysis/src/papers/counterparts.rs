//! Counterparts of published tables: the experiment that shows each, what changed since, and why some are shown by none.

/// Counterpart of a published table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counterpart {
    /// An experiment shows its rows.
    Shown {
        /// The experiment's name.
        by: &'static str,
        /// The columns that are compared.
        pairing: Pairing,
        /// The change since, in a sentence.
        changed: &'static str,
    },
    /// None does.
    None {
        /// The reason.
        why: &'static str,
    },
}

/// The columns of an experiment that have the same definition, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairing {
    /// Columns of one table, in the same row.
    Columns {
        /// The table's id.
        table: &'static str,
        /// The published column.
        published: &'static str,
        /// The columns of today.
        measured: &'static [&'static str],
    },
    /// Columns of shares; each share is in the column to the right of its base.
    Shares {
        /// The table's id.
        table: &'static str,
        /// The published column.
        published: &'static str,
        /// The columns of today.
        measured: &'static [&'static str],
    },
    /// Savings or gains by a mechanism, in columns of one table, in the same row; below zero where it costs.
    Savings {
        /// The table's id.
        table: &'static str,
        /// The published column.
        published: &'static str,
        /// The columns of today.
        measured: &'static [&'static str],
        /// The beginning of each label: what saves it.
        by: &'static str,
    },
    /// All rows of one table against a row of another, in columns of the same name: means against means.
    Means {
        /// The published table's id.
        published: &'static str,
        /// The id of the table of today.
        measured: &'static str,
        /// The label of its row.
        row: &'static str,
    },
}

/// Finds the counterpart of the published table with this id.
pub(super) fn counterpart(id: &str) -> Counterpart {
    let found = TABLES.iter().find(|(table, _)| *table == id);
    found.map_or(
        Counterpart::None {
            why: "no experiment repeats this table",
        },
        |(_, counterpart)| *counterpart,
    )
}

const fn shown(by: &'static str, pairing: Pairing, changed: &'static str) -> Counterpart {
    Counterpart::Shown {
        by,
        pairing,
        changed,
    }
}

/// The paths of `wolman-transmit` and `wolman-receive`.
const WOLMAN: Pairing = Pairing::Shares {
    table: "compared",
    published: "1994",
    measured: &["kernel-loopback", "kernel-veth", "stack-memory"],
};

/// Pairs round trips saved by a mechanism, on the paths that have its switch.
const fn saved(by: &'static str) -> Pairing {
    Pairing::Savings {
        table: "savings",
        published: "1994",
        measured: &["stack-memory", "stack-shm", "kernel-veth"],
        by,
    }
}

const fn none(why: &'static str) -> Counterpart {
    Counterpart::None { why }
}

/// All published tables.
pub(super) const TABLES: [(&str, Counterpart); 22] = [
    (
        "clark-1989/operations",
        shown(
            "clark-instructions",
            Pairing::Columns {
                table: "operations",
                published: "1989",
                measured: &["Tollgate", "Linux"],
            },
            "Then an Intel 80386 and the code of Berkeley UNIX taken out of it, now the userspace stack on x86-64; both are counts of instructions on the common path",
        ),
    ),
    (
        "clark-1989/tcp-input",
        none(
            "the parts of TCP input are counted as one here: what the compiler puts together has no borders; its total is in the table of operations",
        ),
    ),
    (
        "clark-1989/costliest-path",
        none("it is a sum that the paper makes of the operations above"),
    ),
    (
        "clark-1989/tcb-cache",
        none(
            "it tells the traffic of two machines in use: clark-tcb-cache has its rows below those of traffic that is made, and `tollgate trace cache` tells captures",
        ),
    ),
    (
        "clark-1989/table-1",
        shown(
            "clark-direct",
            Pairing::Columns {
                table: "costs",
                published: "1989, 1,460 bytes",
                measured: &["Packet of 1,460 bytes"],
            },
            "Then a logic analyser on a Sun-3/60 with Ethernet, now samples of a Linux kernel, which sends and receives each packet",
        ),
    ),
    (
        "wolman-1994/table-1",
        shown(
            "rr-by-size",
            Pairing::Means {
                published: "published",
                measured: "round-trips",
                row: "kernel-loopback, 2 cores, blocking",
            },
            "Then two machines and a network between them, now both ends on one machine without one: the quotient tells more of networks and clocks than of protocols",
        ),
    ),
    (
        "wolman-1994/table-2",
        shown(
            "wolman-transmit",
            WOLMAN,
            "Then BSD 4.4 on a DECstation 5000/200 at 25 MHz with ATM, now Linux without a network: checksums are left out on the way, and TCP and sockets share what is left",
        ),
    ),
    (
        "wolman-1994/table-3",
        shown(
            "wolman-receive",
            WOLMAN,
            "Then BSD 4.4 on a DECstation 5000/200 at 25 MHz with ATM, now Linux without a network: work became two orders of magnitude quicker, waking a reader on another processor did not",
        ),
    ),
    (
        "wolman-1994/table-4",
        shown(
            "wolman-prediction",
            saved("Saved by prediction"),
            "Then 4.4BSD, whose prediction missed data with a new acknowledgment and whose gain was the PCB cache; now the userspace stack, which predicts both directions",
        ),
    ),
    (
        "wolman-1994/table-5",
        shown(
            "wolman-checksum",
            Pairing::Savings {
                table: "savings",
                published: "1994",
                measured: &["unrolled", "fastest"],
                by: "Saved by one pass at user level",
            },
            "Then loops on a DECstation 5000/200, now those of the userspace stack in the caches of this processor",
        ),
    ),
    (
        "wolman-1994/copy-and-checksum-1kb",
        none(
            "its 1 KB is no size of Table 5, beside which wolman-checksum stands; `tollgate experiment run wolman-checksum --size 1024` measures it",
        ),
    ),
    (
        "wolman-1994/table-6",
        shown(
            "wolman-combined",
            saved("Saved by one pass"),
            "Then a kernel with partial sums in its mbufs, now the userspace stack, whose two passes are a copy and the fastest sum of this processor",
        ),
    ),
    (
        "wolman-1994/table-7",
        shown(
            "wolman-elimination",
            saved("Saved without checksums"),
            "Then the checksum was a pass of its own; now the userspace stack sums while it copies, and the kernel's devices over veth take the sum over",
        ),
    ),
    (
        "kay-pasquale-1996/table-1",
        shown(
            "kay-throughput",
            Pairing::Savings {
                table: "gains",
                published: "1996",
                measured: &["stack-memory", "stack-shm", "kernel-veth"],
                by: "Gained without checksums",
            },
            "Then FDDI and an improved checksum for what keeps one, now streams without a network",
        ),
    ),
    (
        "kay-pasquale-1996/data-touching-share",
        none(
            "they are shares over a trace of messages: `tollgate estimate --trace kay-lan` weighs a run's costs by such a trace",
        ),
    ),
    (
        "kay-pasquale-1996/protspec-share",
        none("the transport's own part is over a trace of messages, and not a category of samples"),
    ),
    (
        "kay-pasquale-1996/message-sizes",
        none("it tells the traffic of their networks; a report makes its own traffic"),
    ),
    (
        "foong-2003/table-1",
        none("it describes their machines; the head of the report describes this one"),
    ),
    (
        "foong-2003/memory-transmit",
        none(
            "the parts of the load need counters of the memory bus, which no operating system gives apart",
        ),
    ),
    (
        "foong-2003/memory-receive",
        none(
            "the parts of the load need counters of the memory bus, which no operating system gives apart",
        ),
    ),
    (
        "lehmann-benz-2002/processing",
        none("the most that was seen is not comparable; the least is compared above"),
    ),
    (
        "lehmann-benz-2002/queueing",
        none("the paper gives no number for the wait in the TCP queue"),
    ),
];

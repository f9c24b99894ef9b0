//! Counterparts of published tables: the experiment that shows each, what changed since, and why some are shown by none.

/// Counterpart of a published table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counterpart {
    /// Experiments show its rows.
    Shown {
        /// Each experiment with what is compared of it.
        pairings: &'static [(&'static str, Pairing)],
        /// The change since, in a sentence.
        changed: &'static str,
    },
    /// An experiment shows its numbers, but beside other quantities.
    Unlike {
        /// The experiment's name.
        by: &'static str,
        /// The difference between the quantities.
        why: &'static str,
    },
    /// No experiment shows its numbers.
    None {
        /// The reason.
        why: &'static str,
    },
}

/// A measured column or row, and the words for it behind a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Today {
    /// The name in the experiment's table.
    pub(super) name: &'static str,
    /// The words.
    pub(super) words: &'static str,
}

/// A measured column or row whose name reads well behind a label.
const fn plain(name: &'static str) -> Today {
    Today { name, words: name }
}

const fn named(name: &'static str, words: &'static str) -> Today {
    Today { name, words }
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
        measured: &'static [Today],
        /// Rows of other quantities than the published ones, by their labels, with the reasons.
        except: &'static [(&'static str, &'static str)],
    },
    /// Columns of shares; each share is in the column to the right of its base.
    Shares {
        /// The table's id.
        table: &'static str,
        /// The published column.
        published: &'static str,
        /// The columns of today.
        measured: &'static [Today],
    },
    /// Savings or gains by a mechanism, in columns of one table, in the same row; below zero where it costs.
    Savings {
        /// The table's id.
        table: &'static str,
        /// The published column.
        published: &'static str,
        /// The columns of today.
        measured: &'static [Today],
        /// The beginning of each label: what saves it.
        by: &'static str,
    },
    /// Savings in rows of one table, in the same column; below zero where it costs.
    SavingsInRows {
        /// The table's id.
        table: &'static str,
        /// The label of the published row.
        published: &'static str,
        /// The rows of today.
        measured: &'static [Today],
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

impl Counterpart {
    /// The experiments whose numbers are compared.
    pub(super) fn experiments(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = match self {
            Self::Shown { pairings, .. } => pairings.iter().map(|(by, _)| *by).collect(),
            Self::Unlike { .. } | Self::None { .. } => Vec::new(),
        };
        names.dedup();
        names
    }
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

const fn shown(pairings: &'static [(&'static str, Pairing)], changed: &'static str) -> Counterpart {
    Counterpart::Shown { pairings, changed }
}

const fn unlike(by: &'static str, why: &'static str) -> Counterpart {
    Counterpart::Unlike { by, why }
}

/// The paths of `wolman-transmit` and `wolman-receive`.
const WOLMAN: Pairing = Pairing::Shares {
    table: "compared",
    published: "1994",
    measured: &[
        plain("kernel-loopback"),
        plain("kernel-veth"),
        plain("stack-memory"),
    ],
};

/// The paths that have switches.
const SWITCHED: [Today; 3] = [
    plain("stack-memory"),
    plain("stack-shm"),
    plain("kernel-veth"),
];

/// Pairs round trips saved by a mechanism, on the paths that have its switch.
const fn saved(by: &'static str) -> Pairing {
    Pairing::Savings {
        table: "savings",
        published: "1994",
        measured: &SWITCHED,
        by,
    }
}

/// Pairs TCP input by its pieces at an end.
const fn pieces(published: &'static str, measured: &'static [Today]) -> Pairing {
    Pairing::Columns {
        table: "tcp-input",
        published,
        measured,
        except: &[(
            "Total",
            "it holds buffers and timers, which the paper counts apart; the table of operations has it",
        )],
    }
}

/// Pairs what a packet costs, of one of the tables of `clark-direct`.
const fn costs(
    table: &'static str,
    words: &'static [Today],
    except: &'static [(&'static str, &'static str)],
) -> Pairing {
    Pairing::Columns {
        table,
        published: "1989, 1,460 bytes",
        measured: words,
        except,
    }
}

/// The reason why loads on memory by their causes have no counterpart.
const WHOLE_MACHINE: &str = "counters of traffic to memory see the whole machine, without who causes it: foong-memory and foong-hz count \
                             both ends together, without a device; the totals are compared above";

/// The reason why a row of one pass has no counterpart.
const ONE_PASS: &str = "Tollgate's stack copies and sums in one pass, so no copy is without its sum and no sum without its copy";

const fn none(why: &'static str) -> Counterpart {
    Counterpart::None { why }
}

/// All published tables.
pub(super) const TABLES: [(&str, Counterpart); 22] = [
    (
        "clark-1989/operations",
        shown(
            &[(
                "clark-instructions",
                Pairing::Columns {
                    table: "operations",
                    published: "1989",
                    measured: &[
                        named("Tollgate", "in Tollgate's stack"),
                        named("Linux", "in Linux"),
                    ],
                    except: &[],
                },
            )],
            "Then an Intel 80386 and the code of Berkeley UNIX taken out of it, now the userspace stack on x86-64; both are counts of instructions on the common path",
        ),
    ),
    (
        "clark-1989/tcp-input",
        shown(
            &[
                (
                    "clark-instructions",
                    pieces(
                        "Receiver, 1989",
                        &[named("Receiver of data", "at the receiver of data")],
                    ),
                ),
                (
                    "clark-instructions",
                    pieces(
                        "Sender, most, 1989",
                        &[named("Sender of data", "at the sender of data")],
                    ),
                ),
            ],
            "Then the statements of each part, now the functions; each \
             acknowledgment brings an estimate of the round trip, as every other did then",
        ),
    ),
    (
        "clark-1989/costliest-path",
        shown(
            &[(
                "clark-instructions",
                Pairing::Columns {
                    table: "costliest-path",
                    published: "1989, with TCP's 213",
                    measured: &[named("Tollgate", "in Tollgate's stack")],
                    except: &[],
                },
            )],
            "The paper prints about 335 and not which of its counts it added; now the sum is that of the parts",
        ),
    ),
    (
        "clark-1989/tcb-cache",
        unlike(
            "clark-tcb-cache",
            "it tells the traffic of two machines in use: clark-tcb-cache has its rows below those of traffic that is made, and `tollgate trace cache` tells captures",
        ),
    ),
    (
        "clark-1989/table-1",
        shown(
            &[
                (
                    "clark-direct",
                    costs(
                        "costs",
                        &[named(
                            "Packet of 1,460 bytes",
                            "packet of 1,460 bytes in the kernel",
                        )],
                        &[],
                    ),
                ),
                (
                    "clark-direct",
                    costs(
                        "costs-stack",
                        &[named(
                            "Packet of 1,460 bytes",
                            "packet of 1,460 bytes in Tollgate's stack",
                        )],
                        &[
                            ("User-system copy out with its sum, socket calls", ONE_PASS),
                            ("TCP checksum in with its copy", ONE_PASS),
                        ],
                    ),
                ),
            ],
            "Then a logic analyser on a Sun-3/60 with Ethernet, now samples of a Linux kernel and a ledger \
             of the userspace stack, each of which sends and receives each packet",
        ),
    ),
    (
        "wolman-1994/table-1",
        shown(
            &[
                (
                    "rr-by-size",
                    Pairing::Means {
                        published: "published",
                        measured: "round-trips",
                        row: "kernel-loopback, 2 cores, blocking",
                    },
                ),
                (
                    "wolman-networks",
                    Pairing::SavingsInRows {
                        table: "savings",
                        published: "ATM of Ethernet, 1994",
                        measured: &[
                            named("stack-memory, atm-aal34 of ethernet", "stack-memory"),
                            named("stack-shm, atm-aal34 of ethernet", "stack-shm"),
                        ],
                        by: "Saved by ATM against Ethernet",
                    },
                ),
            ],
            "Then two machines and a network between them, now both ends on one machine without one: the quotient tells more of networks and clocks than of protocols",
        ),
    ),
    (
        "wolman-1994/table-2",
        shown(
            &[("wolman-transmit", WOLMAN)],
            "Then BSD 4.4 on a DECstation 5000/200 at 25 MHz with ATM, now Linux without a network: checksums are left out on the way, and TCP and sockets share what is left",
        ),
    ),
    (
        "wolman-1994/table-3",
        shown(
            &[("wolman-receive", WOLMAN)],
            "Then BSD 4.4 on a DECstation 5000/200 at 25 MHz with ATM, now Linux without a network: work became two orders of magnitude quicker, waking a reader on another processor did not",
        ),
    ),
    (
        "wolman-1994/table-4",
        shown(
            &[("wolman-prediction", saved("Saved by prediction"))],
            "Then 4.4BSD, whose prediction missed data with a new acknowledgment and whose gain was the PCB cache; now the userspace stack, which predicts both directions",
        ),
    ),
    (
        "wolman-1994/table-5",
        shown(
            &[(
                "wolman-checksum",
                Pairing::Savings {
                    table: "savings",
                    published: "1994",
                    measured: &[
                        named("unrolled", "unrolled loop"),
                        named("fastest", "fastest loop"),
                    ],
                    by: "Saved by one pass at user level",
                },
            )],
            "Then loops on a DECstation 5000/200, now those of the userspace stack in the caches of this processor",
        ),
    ),
    (
        "wolman-1994/copy-and-checksum-1kb",
        none("it is of another paper's machine; this paper's own is compared above"),
    ),
    (
        "wolman-1994/table-6",
        shown(
            &[("wolman-combined", saved("Saved by one pass"))],
            "Then a kernel with partial sums in its mbufs, now the userspace stack, whose two passes are a copy and the fastest sum of this processor",
        ),
    ),
    (
        "wolman-1994/table-7",
        shown(
            &[("wolman-elimination", saved("Saved without checksums"))],
            "Then the checksum was a pass of its own; now the userspace stack sums while it copies, and the kernel's devices over veth take the sum over",
        ),
    ),
    (
        "kay-pasquale-1996/table-1",
        shown(
            &[(
                "kay-throughput",
                Pairing::Savings {
                    table: "gains",
                    published: "1996",
                    measured: &SWITCHED,
                    by: "Gained without checksums",
                },
            )],
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
        unlike("foong-memory", WHOLE_MACHINE),
    ),
    (
        "foong-2003/memory-receive",
        unlike("foong-memory", WHOLE_MACHINE),
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

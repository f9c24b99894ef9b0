//! `wolman-mbuf`: what the buffers of a message cost, and the jump from small mbufs to clusters above 1 KB; beside Wolman, Voelker and
//! Thekkath 1994, section 2.2.1 and the rows User and mcopy of Table 2.
//!
//! Chains of mbufs and frames of the pool are the stack's own, alone and between two stacks. The kernel's socket buffers have no such
//! switch.

use std::hint::black_box;

use tollgate_checksum::Kernel;
use tollgate_papers as papers;
use tollgate_run::{Cell, Column, Source, Table, Unit, Workload, format, present};
use tollgate_workload::buffer::mbuf::{Chain, Mbufs, Summing};
use tollgate_workload::buffer::{PAYLOAD_OFFSET, Pool};
use tollgate_workload::config::{Buffers, RetransmitCopy};
use tollgate_workload::{LinkKind, Mechanisms};

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Evidence, Finding};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::outcome::Figure;
use crate::switched::{self, Captions, Plan, SaidAt, Saving, Setting};
use crate::turns::{self, Operation, Repeat, Rounds};

/// Sizes of a message: the paper's, and both sides of the jump to clusters.
const SIZES: [usize; 10] = [4, 20, 80, 200, 500, 1_024, 1_025, 1_400, 4_000, 8_000];
/// The largest message in small mbufs, and the smallest in a cluster.
const JUMP: [usize; 2] = [1_024, 1_025];
/// The paper's rows of the way out.
const TABLE: &str = "wolman-1994/table-2";
const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;
/// Frames of the pool that is measured alone, as many as a short queue has.
const FRAMES: usize = 64;

/// Values of the mechanism.
const SETTINGS: [Setting; 3] = [
    Setting {
        label: "frames",
        set: |usual| with(usual, Buffers::Pool, RetransmitCopy::Reference),
        offload: None,
    },
    Setting {
        label: "mbufs",
        set: |usual| with(usual, Buffers::Mbufs, RetransmitCopy::Reference),
        offload: None,
    },
    Setting {
        label: "frames, copied to be sent",
        set: |usual| with(usual, Buffers::Pool, RetransmitCopy::Copy),
        offload: None,
    },
];
const POOL: usize = 0;
const MBUFS: usize = 1;
const COPIED: usize = 2;

const fn with(usual: Mechanisms, buffers: Buffers, retransmit: RetransmitCopy) -> Mechanisms {
    Mechanisms {
        buffers,
        retransmit,
        ..usual
    }
}

/// Buffers by size.
pub(super) struct WolmanMbuf;

impl Experiment for WolmanMbuf {
    fn name(&self) -> &'static str {
        "wolman-mbuf"
    }

    fn title(&self) -> &'static str {
        "Mbufs, and the jump to clusters"
    }

    fn paper(&self) -> Option<Source> {
        source("section 2.2.1")
    }

    fn summary(&self) -> &'static str {
        "chains of mbufs and frames of the pool by size: allocated and freed, written, copied, and round trips with them"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        options.wants_any(&switched::STACKS)
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet {
            but: &[Buffers::NAME, RetransmitCopy::NAME],
        }
    }

    fn takes_link(&self) -> bool {
        true
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let alone = Alone::of(&sizes, context)?;
        let plan = Plan {
            experiment: self.name(),
            workload: Workload::Rr,
            datagrams: false,
            settings: &SETTINGS,
            paths: &switched::STACKS,
            mtu: switched::network_mtu(&context.options, LinkKind::AtmAal34.mtu()),
        };
        let comparison = plan.run(&sizes, context)?;
        let saving = |with, without| Saving {
            with,
            without,
            figure: Figure::Median,
        };
        let words = Captions {
            with: "with mbufs",
            savings: "What mbufs save of a round trip with frames of the pool",
            figure: "Round trip with mbufs and with frames of the pool",
            said: SaidAt::Among(&JUMP),
        };
        let mut finding = Finding::default();
        alone.say(&mut finding);
        let mut content =
            comparison.content(finding, saving(MBUFS, POOL), &words, None, context, command);
        let copied = comparison.savings(
            "savings-copied",
            "What mbufs save of a round trip with frames that are copied to be sent",
            saving(MBUFS, COPIED),
            None,
        );
        content.tables.insert(1, copied);
        content.tables.splice(0..0, alone.tables());
        content.trust.extend([
            present::note(
                "mbufs leave by the general path of output, and so does a frame that is copied to be sent; frames that are sent as they \
                 are leave by the predicted path. So the first table of savings holds both paths, the second only copies and chains",
            ),
            present::note(
                "with mbufs a message is copied into the chain with its checksum, out of it (clusters by reference), and gathered into a \
                 frame, which stands for the paper's adapter. With frames it is copied once",
            ),
            present::note(
                "buffers alone are reused at once and so lie in the caches; they take turns in rounds, and the error is that of the rounds' median",
            ),
            present::note(format!(
                "a write fills clusters while more than 1,024 bytes are left of it; so 1,024 bytes are ten small mbufs (Kay and Pasquale \
                 1996, V), of which Wolman's text says one to eight. An mbuf took {} in 1994, of either kind",
                published_allocation().map_or_else(|| "-".to_owned(), format::duration),
            )),
            present::note(
                "the kernel's socket buffers cannot be switched, so no kernel path is compared",
            ),
        ]);
        Ok(content)
    }
}

fn source(place: &str) -> Option<Source> {
    Some(papers::source_at(papers::paper("wolman-1994")?, place))
}

/// Published time of an mbuf to be allocated and freed, in nanoseconds.
fn published_allocation() -> Option<f64> {
    let fact = papers::fact("wolman-1994/mbuf-allocate-free")?;
    Some(fact.value * NANOSECONDS_PER_MICROSECOND)
}

/// Work that is timed of buffers alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Allocated and freed.
    Allocate,
    /// Allocated, filled with data that is summed, and freed.
    Write,
    /// Copied for a segment, and the copy freed: of mbufs the bytes of small ones, of clusters and frames a reference.
    Copy,
}

/// A table of buffers alone: what is timed, its id, its title, and the paper's row beside it.
const WORKS: [(Work, &str, &str, Option<&str>); 3] = [
    (
        Work::Allocate,
        "allocation",
        "The buffers of a message, allocated and freed",
        None,
    ),
    (
        Work::Write,
        "user",
        "A message written into its buffers, with its checksum",
        Some("user"),
    ),
    (
        Work::Copy,
        "mcopy",
        "A message's buffers copied to be sent",
        Some("tcp.mcopy"),
    ),
];

/// Whose buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mbufs,
    Frames,
}

const KINDS: [(Kind, &str); 2] = [(Kind::Mbufs, "mbufs"), (Kind::Frames, "frames")];

/// Mbufs of a message: small ones and clusters.
fn counted(size: usize) -> (u64, u64) {
    let mut mbufs = Mbufs::new(Kernel::best(), Summing::Never);
    let mut chain = mbufs.allocate(size);
    let counts = mbufs.statistics();
    mbufs.release(&mut chain);
    let clusters = counts.clusters.in_use();
    (counts.mbufs.in_use() - clusters, clusters)
}

/// Buffers of a message, made anew.
fn operation((work, kind): (Work, Kind), name: &str, size: usize) -> Operation<'static> {
    Operation {
        label: format!("{name}, {}", format::size(size)),
        make: Box::new(move || {
            let data: Vec<u8> = (0..size).map(|at| (at * 7) as u8).collect();
            Ok(match kind {
                Kind::Mbufs => of_mbufs(work, Kernel::best(), data),
                Kind::Frames => of_frames(work, Kernel::best(), data),
            })
        }),
    }
}

fn of_mbufs(work: Work, kernel: Kernel, data: Vec<u8>) -> Repeat<'static> {
    let mut mbufs = Mbufs::new(kernel, Summing::InTheCopy);
    match work {
        Work::Allocate => Box::new(move |count| {
            for _ in 0..count {
                let mut chain = black_box(mbufs.allocate(black_box(data.len())));
                mbufs.release(&mut chain);
            }
        }),
        Work::Write => Box::new(move |count| {
            for _ in 0..count {
                let mut chain = Chain::EMPTY;
                mbufs.append(&mut chain, black_box(&data));
                mbufs.release(black_box(&mut chain));
            }
        }),
        Work::Copy => {
            let mut chain = Chain::EMPTY;
            mbufs.append(&mut chain, &data);
            Box::new(move |count| {
                for _ in 0..count {
                    let mut copy = mbufs.copy(&chain, 0, black_box(chain.len()));
                    mbufs.release(black_box(&mut copy));
                }
            })
        }
    }
}

fn of_frames(work: Work, kernel: Kernel, data: Vec<u8>) -> Repeat<'static> {
    let mtu = LinkKind::AtmAal34.mtu().unwrap_or_default();
    let mut pool = Pool::new(FRAMES, Pool::frame_size_for(mtu));
    let room = pool.frame_size() - PAYLOAD_OFFSET;
    // One frame is one segment.
    let frames = data.len().div_ceil(room).max(1);
    let mut held = Vec::with_capacity(frames);
    match work {
        Work::Allocate => Box::new(move |count| {
            for _ in 0..count {
                held.extend((0..black_box(frames)).map_while(|_| pool.alloc()));
                held.drain(..).for_each(|id| pool.release(id));
            }
        }),
        Work::Write => Box::new(move |count| {
            for _ in 0..count {
                for piece in black_box(&data).chunks(room) {
                    let Some(id) = pool.alloc() else { break };
                    let into = &mut pool.bytes_mut(id)[PAYLOAD_OFFSET..][..piece.len()];
                    let _ = black_box(kernel.copy_and_sum(into, piece));
                    held.push(id);
                }
                held.drain(..).for_each(|id| pool.release(id));
            }
        }),
        Work::Copy => {
            held.extend((0..frames).map_while(|_| pool.alloc()));
            Box::new(move |count| {
                for _ in 0..count {
                    for &id in black_box(&held) {
                        pool.retain(id);
                    }
                    for &id in black_box(&held) {
                        pool.release(id);
                    }
                }
            })
        }
    }
}

/// Times of buffers alone: by work and kind, and then by size.
struct Alone<'a> {
    sizes: &'a [usize],
    taken: Vec<Rounds>,
}

impl<'a> Alone<'a> {
    fn of(sizes: &'a [usize], context: &Context<'_>) -> Result<Self, Error> {
        let operations: Vec<Operation<'_>> = WORKS
            .iter()
            .flat_map(|&(work, id, ..)| {
                KINDS.map(|(kind, name)| (work, kind, format!("{id}, {name}")))
            })
            .flat_map(|(work, kind, name)| {
                let operation = move |&size: &usize| operation((work, kind), &name, size);
                sizes.iter().map(operation).collect::<Vec<_>>()
            })
            .collect();
        let taken = turns::measure(&operations, context)?;
        Ok(Self { sizes, taken })
    }

    fn rounds(&self, work: Work, kind: Kind, at: usize) -> Rounds {
        let of_work = WORKS.iter().take_while(|one| one.0 != work).count();
        let of_kind = KINDS.iter().take_while(|one| one.0 != kind).count();
        let line = of_work * KINDS.len() + of_kind;
        self.taken[line * self.sizes.len() + at].clone()
    }

    /// Time of one mbuf to be allocated and freed, of those of a message.
    fn for_each_mbuf(&self, at: usize) -> Rounds {
        let (small, clusters) = counted(self.sizes[at]);
        let mbufs = (small + clusters).max(1) as f64;
        let chain = self.rounds(Work::Allocate, Kind::Mbufs, at);
        chain.each(&chain, |ns, _| ns / mbufs)
    }

    fn tables(&self) -> Vec<Table> {
        std::iter::once(self.counts())
            .chain(WORKS.iter().map(|work| self.table(work)))
            .collect()
    }

    /// The mbufs of a message.
    fn counts(&self) -> Table {
        let counts: Vec<(u64, u64)> = self.sizes.iter().map(|&size| counted(size)).collect();
        let row = |label: &str, count: fn(&(u64, u64)) -> u64| {
            let cells = counts.iter().map(|one| Cell::exact(count(one) as f64));
            present::plain_row(label, cells.collect())
        };
        Table {
            id: "mbufs".to_owned(),
            title: "Mbufs of a message".to_owned(),
            columns: present::size_columns(self.sizes, Unit::Count),
            rows: vec![
                row("Small mbufs", |one| one.0),
                row("Clusters", |one| one.1),
            ],
        }
    }

    fn table(&self, &(work, id, title, published): &(Work, &str, &str, Option<&str>)) -> Table {
        let sizes = self.sizes.iter().enumerate();
        let rows = sizes.map(|(at, &size)| {
            let then = match (published, source("section 2.2.1"), papers::source(TABLE)) {
                (Some(row), _, Some(source)) => {
                    let us =
                        papers::table(TABLE).and_then(|table| table.cell(row, &size.to_string()));
                    present::published_cell(us.map(|us| us * NANOSECONDS_PER_MICROSECOND), &source)
                }
                (None, Some(source), _) => present::published_cell(published_allocation(), &source),
                _ => Cell::text("-"),
            };
            let each = (work == Work::Allocate).then(|| self.for_each_mbuf(at).cell());
            let ours = KINDS.map(|(kind, _)| self.rounds(work, kind, at).cell());
            let cells = std::iter::once(then).chain(each).chain(ours);
            present::plain_row(format::size(size), cells.collect())
        });
        let each: &[&str] = match work {
            Work::Allocate => &["1994, one mbuf", "one mbuf"],
            Work::Write | Work::Copy => &["1994"],
        };
        let names = each.iter().copied().chain(KINDS.map(|(_, name)| name));
        Table {
            id: id.to_owned(),
            title: title.to_owned(),
            columns: names
                .map(|name| Column {
                    name: name.to_owned(),
                    unit: Unit::Nanoseconds,
                })
                .collect(),
            rows: rows.collect(),
        }
    }

    /// Says what an mbuf takes, and what a message in a cluster takes of one in small mbufs, to be copied for a segment.
    fn say(&self, finding: &mut Finding) {
        let mbuf = self.for_each_mbuf(0).cell();
        let mbuf = Evidence::of(&mbuf).and_then(Evidence::amount);
        if let Some(ns) = finding.claim("an mbuf, allocated and freed", mbuf) {
            let then = published_allocation().map_or_else(String::new, |ns| {
                format!(" (1994: about {})", format::duration(ns))
            });
            finding.say(format!(
                "allocating and freeing an mbuf takes {}{then}",
                ns.duration()
            ));
        }
        let [small, cluster] = JUMP.map(|size| self.sizes.iter().position(|&one| one == size));
        let Some((small, cluster)) = small.zip(cluster) else {
            return;
        };
        let of = |at| self.rounds(Work::Copy, Kind::Mbufs, at);
        let ratio = of(cluster).ratio(&of(small));
        if let Some(ratio) = finding.claim("copying a cluster against small mbufs", ratio) {
            let takes = match ratio.amount_against() {
                None => "as long as".to_owned(),
                Some(amount) => format!("{amount} time than"),
            };
            finding.say(format!(
                "copied to be sent, {} in one cluster take {takes} {} in ten small mbufs",
                format::bytes(JUMP[1]),
                format::bytes(JUMP[0]),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::PathId;

    use super::*;
    use crate::context::{Cancel, Silent};

    fn shown(sizes: &[usize]) -> Content {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            sizes: Some(sizes.to_vec()),
            iterations: Some(64),
            // Six rounds have an interval that one slow round does not make a hundred times as wide.
            repetitions: Some(3),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        WolmanMbuf.measure(&mut context, "command").unwrap()
    }

    #[test]
    fn buffers_alone_and_round_trips_stand_beside_the_paper() {
        let content = shown(&[4, 1_024, 1_025, 1_400]);
        let ids: Vec<&str> = content.tables.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "mbufs",
                "allocation",
                "user",
                "mcopy",
                "savings",
                "savings-copied",
                "round-trips"
            ]
        );
        let table = |id: &str| content.tables.iter().find(|one| one.id == id).unwrap();
        let numbers = |id: &str, row: usize| -> Vec<Option<f64>> {
            let cells = &table(id).rows[row].cells;
            cells.iter().map(Cell::number).collect()
        };
        assert_eq!(numbers("mbufs", 0), [1.0, 10.0, 0.0, 0.0].map(Some));
        assert_eq!(numbers("mbufs", 1), [0.0, 0.0, 1.0, 1.0].map(Some));
        assert_eq!(numbers("allocation", 0)[0], Some(7_000.0));
        assert_eq!(numbers("user", 3)[0], Some(99_000.0));
        assert_eq!(numbers("mcopy", 3)[0], Some(29_000.0));
        // The paper has no message at the jump.
        assert_eq!(numbers("mcopy", 1)[0], None);
        let measured = [
            "allocation",
            "user",
            "mcopy",
            "savings",
            "savings-copied",
            "round-trips",
        ];
        for id in measured {
            let cells = table(id).rows.iter().flat_map(|row| &row.cells);
            let ours = cells.filter(|cell| cell.measured().is_some()).count();
            assert!(ours > 0, "{id}");
        }
        assert_eq!(table("round-trips").rows.len(), SETTINGS.len());
        assert!(
            content.finding.contains("1,024 bytes"),
            "{}",
            content.finding
        );
    }

    #[test]
    fn work_alone_leaves_nothing_allocated() {
        let mut mbufs = Mbufs::new(Kernel::UNROLLED, Summing::InTheCopy);
        for size in SIZES {
            let (small, clusters) = counted(size);
            let before = mbufs.statistics();
            let mut chain = mbufs.allocate(size);
            let now = mbufs.statistics();
            assert_eq!(now.clusters.in_use(), clusters);
            assert_eq!(
                now.mbufs.allocated - before.mbufs.allocated,
                small + clusters
            );
            mbufs.release(&mut chain);
            assert_eq!(mbufs.statistics().mbufs.in_use(), 0);
        }
    }
}

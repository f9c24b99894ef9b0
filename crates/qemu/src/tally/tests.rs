use super::*;

/// Stacks of two threads.
const A: u64 = 0xffff_c900_0000_8000;
const B: u64 = 0xffff_c900_0001_8000;
const KERNEL: u64 = 0xffff_ffff_8100_0000;

/// A machine that executes blocks of the kernel, and tells the tally as QEMU does.
#[derive(Default)]
struct Machine {
    tally: Tally,
    executed: u64,
}

impl Machine {
    /// Executes a block of `length` instructions at `pc` that ends in this way.
    fn block(&mut self, pc: u64, length: u64, ending: Ending) -> usize {
        let number = self.tally.block(Block {
            pc: KERNEL + pc,
            begins_repeated: false,
            ending,
        });
        self.tally.enter(number, self.executed);
        self.executed += length;
        number
    }

    fn plain(&mut self, pc: u64, length: u64) {
        self.block(pc, length, Ending::Other);
    }

    /// A call at the end of a block: it pushes its return address to `slot`.
    fn call(&mut self, pc: u64, length: u64, slot: u64) {
        self.call_to(None, pc, length, slot);
    }

    /// Makes such a call, whose target stands in the instruction.
    fn call_to(&mut self, target: Option<u64>, pc: u64, length: u64, slot: u64) {
        let site = KERNEL + pc + 4 * length;
        let number = self.block(
            pc,
            length,
            Ending::Call {
                site,
                returns_to: site + 5,
                target: target.map(|target| KERNEL + target),
            },
        );
        self.tally.access(number, slot, true);
    }

    fn ret(&mut self, pc: u64, length: u64, slot: u64) {
        let number = self.block(pc, length, Ending::Return);
        self.tally.access(number, slot, false);
    }

    /// The counts, as `entries of the way:instructions`, in hexadecimal without the kernel's base.
    fn counted(mut self) -> Vec<String> {
        // The block behind the end closes the last one.
        self.plain(0xfff0, 1);
        self.tally.end();
        let region = self.tally.regions.last().unwrap();
        let way = |mut node: Node| {
            let mut entries = Vec::new();
            while node != ROOT {
                let call = self.tally.calls[node as usize];
                entries.push(format!("{:x}", call.entry - KERNEL));
                node = call.parent;
            }
            entries.reverse();
            entries.join(">")
        };
        let mut totals: HashMap<String, u64> = HashMap::new();
        for ((node, _), count) in &region.counts {
            *totals.entry(way(*node)).or_default() += count.instructions;
        }
        let mut lines: Vec<String> = totals
            .iter()
            .map(|(way, count)| format!("{way}:{count}"))
            .collect();
        lines.sort();
        lines
    }
}

fn begun() -> Machine {
    let mut machine = Machine::default();
    machine.tally.begin();
    machine
}

#[test]
fn instructions_belong_to_the_way_of_calls() {
    let mut machine = begun();
    machine.call(0x100, 3, A - 8);
    machine.call(0x1000, 5, A - 16);
    machine.ret(0x2000, 7, A - 16);
    machine.call(0x1020, 2, A - 16);
    machine.ret(0x2000, 7, A - 16);
    machine.ret(0x1030, 1, A - 8);
    machine.plain(0x120, 4);
    assert_eq!(machine.counted(), ["1000:8", "1000>2000:14", ":7"]);
}

#[test]
fn an_interrupt_nests_and_leaves_nothing() {
    let mut machine = begun();
    machine.call(0x100, 3, A - 8);
    machine.plain(0x1000, 5);
    // The interrupt's entry is no call; its handler is one.
    machine.call(0x9000, 2, A - 0x80);
    machine.ret(0x9100, 6, A - 0x80);
    machine.plain(0x9010, 2);
    machine.ret(0x1010, 1, A - 8);
    machine.plain(0x120, 4);
    assert_eq!(machine.counted(), ["1000:10", "1000>9100:6", ":7"]);
}

#[test]
fn an_interrupt_before_a_functions_first_instruction_leaves_its_way() {
    let mut machine = begun();
    machine.call_to(Some(0x1000), 0x100, 3, A - 8);
    machine.call_to(Some(0x9100), 0x9000, 2, A - 0x80);
    machine.ret(0x9100, 6, A - 0x80);
    machine.plain(0x9010, 2);
    machine.plain(0x1000, 5);
    machine.ret(0x1010, 1, A - 8);
    machine.plain(0x120, 4);
    assert_eq!(machine.counted(), ["1000:10", "1000>9100:6", ":7"]);
}

#[test]
fn a_thread_goes_on_where_it_was_left() {
    let mut machine = begun();
    // Thread A calls the switch; on the other stack, B does the same, and so A goes on.
    machine.call(0x100, 1, A - 8);
    machine.call(0x1000, 2, A - 16);
    machine.plain(0x5000, 3);
    machine.call(0x200, 4, B - 8);
    machine.call(0x2000, 5, B - 16);
    machine.ret(0x5000, 3, A - 16);
    machine.ret(0x1010, 6, A - 8);
    // And back to B.
    machine.call(0x110, 1, A - 8);
    machine.ret(0x5000, 3, B - 16);
    machine.plain(0x2010, 9);
    let counted = machine.counted();
    assert!(counted.contains(&"1000:8".to_owned()), "{counted:?}");
    assert!(
        counted.iter().any(|line| line.ends_with("2000:14")),
        "{counted:?}"
    );
}

#[test]
fn a_frame_that_was_left_without_return_is_dropped() {
    let mut machine = begun();
    machine.call(0x100, 1, A - 8);
    machine.call(0x1000, 1, A - 16);
    machine.call(0x2000, 1, A - 24);
    machine.plain(0x3000, 1);
    // Like longjmp: the outermost returns at once.
    machine.ret(0x4000, 1, A - 8);
    machine.plain(0x120, 1);
    assert_eq!(
        machine.counted(),
        ["1000:1", "1000>2000:1", "1000>2000>3000:2", ":2"]
    );
}

#[test]
fn a_jump_through_a_retpoline_is_no_call() {
    let mut machine = begun();
    machine.call(0x100, 2, A - 8);
    machine.plain(0x1000, 4);
    machine.call(0x7000, 0, A - 16);
    machine.ret(0x700c, 2, A - 16);
    machine.ret(0x3000, 9, A - 8);
    assert_eq!(machine.counted(), ["1000:13", "1000>700c:2", ":2"]);
}

#[test]
fn a_retpoline_is_a_call_of_its_target() {
    let mut machine = begun();
    // call thunk; thunk: call over the trap; overwrite the return address; ret into the target.
    machine.call(0x100, 2, A - 8);
    machine.call(0x7000, 1, A - 16);
    machine.ret(0x700c, 2, A - 16);
    machine.ret(0x3000, 9, A - 8);
    machine.plain(0x110, 1);
    let text = machine.tally.to_text();
    assert_eq!(
        machine.counted(),
        ["3000:9", "7000:1", "7000>700c:2", ":3"],
        "{text}"
    );
    let calls: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("calls"))
        .collect();
    assert_eq!(
        calls.len(),
        2,
        "the thunk itself was not called, its inner call and the target were: {text}"
    );
}

#[test]
fn accesses_of_other_blocks_are_not_heard() {
    let mut machine = begun();
    machine.call(0x100, 1, A - 8);
    let ending = Ending::Return;
    let number = machine.block(0x1000, 2, ending);
    machine.tally.access(number, A - 8, false);
    machine.call(0x110, 1, A - 8);
    machine.plain(0x2000, 4);
    // QEMU reports a later access in the name of the return, and an indirect call's load.
    machine.tally.access(number, 0xffff_8880_0000_0008, false);
    machine.plain(0x2010, 4);
    assert_eq!(machine.counted(), ["1000:2", "2000:8", ":2"]);
}

#[test]
fn repetitions_are_counted_apart() {
    let mut machine = begun();
    let first = machine.tally.block(Block {
        pc: KERNEL,
        begins_repeated: false,
        ending: Ending::Repeated(KERNEL + 8),
    });
    let again = machine.tally.block(Block {
        pc: KERNEL + 8,
        begins_repeated: true,
        ending: Ending::Repeated(KERNEL + 8),
    });
    // Twice a copy of three words: the last turn finds nothing left.
    for _ in 0..2 {
        for (number, length) in [(first, 3), (again, 1), (again, 1), (again, 1)] {
            machine.tally.enter(number, machine.executed);
            machine.executed += length;
        }
        machine.plain(0x100, 2);
    }
    machine.plain(0x200, 1);
    machine.tally.end();
    let region = machine.tally.regions.last().unwrap();
    let (instructions, repetitions) = region.counts.values().fold((0, 0), |(i, r), count| {
        (i + count.instructions, r + count.repetitions)
    });
    assert_eq!((instructions, repetitions), (2 * 5, 2 * 3));
}

#[test]
fn regions_are_whole_blocks_between_the_markers() {
    let mut machine = Machine::default();
    machine.plain(0x100, 10);
    machine.tally.begin();
    // The rest of the block with the marker is not counted, nor is the block with the other marker.
    machine.plain(0x200, 7);
    let user = machine.tally.block(Block {
        pc: 0x40_0000,
        begins_repeated: false,
        ending: Ending::Other,
    });
    machine.tally.enter(user, machine.executed);
    machine.executed += 5;
    machine.plain(0x300, 99);
    machine.tally.end();
    machine.plain(0x400, 99);
    let text = machine.tally.to_text();
    assert_eq!(
        text,
        format!(
            "{HEADING}\nregion 5 0\ncount 0 {:x} 7 0\nend\n",
            KERNEL + 0x200
        )
    );
}

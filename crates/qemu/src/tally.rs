//! The plugin's count: instructions by the path of calls that led to them.
//!
//! QEMU says which block of instructions is entered and how many instructions it has executed by then, and at which address a call or a return touches the stack. From the
//! stack addresses the tally knows on which kernel stack it is, so interrupts, switches between stacks and switches
//! between threads need no special case: a frame is found again by the address of its return address. User space counts
//! as one.
//!
//! An executed repetition of a string instruction after its first is kept apart: a processor counts the instruction once,
//! QEMU's clock counts each repetition.

use std::collections::HashMap;
use std::fmt::Write as _;

/// The first line of the text form.
pub const HEADING: &str = "tollgate-tally 1";

/// Kernel stacks are this large and aligned to their size, on x86-64 Linux (`THREAD_SIZE`).
const STACK_SHIFT: u32 = 14;
/// A return from a call to so near a place was a jump through the stack: a retpoline.
const RETPOLINE_REACH: u64 = 32;

/// A block of instructions that QEMU translated, and executes from its begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Address of the first instruction.
    pub pc: u64,
    /// Tells whether the first is a string instruction with a repeat prefix.
    pub begins_repeated: bool,
    /// Kind of the last instruction.
    pub ending: Ending,
}

/// Ending of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a call.
    Call {
        /// The address of the call.
        site: u64,
        /// The address behind it.
        returns_to: u64,
        /// The address that it goes to; none where a register or memory holds it.
        target: Option<u64>,
    },
    /// With a return.
    Return,
    /// With a string instruction with a repeat prefix, at this address.
    Repeated(u64),
    /// With anything else.
    Other,
}

impl Block {
    /// Tells whether the block belongs to a program and not to the kernel.
    #[must_use]
    pub const fn is_user(&self) -> bool {
        self.pc >> 63 == 0
    }
}

/// A path of calls: the index of its last one.
type Node = u32;
/// Node without a known caller: the kernel's entry, and user space.
const ROOT: Node = 0;

/// One call on a path: from where it was called to where it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Call {
    parent: Node,
    site: u64,
    entry: u64,
}

/// A call that has not returned.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// The address of the return address on the stack.
    slot: u64,
    call: Call,
    node: Node,
    returns_to: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct InstructionCount {
    instructions: u64,
    repetitions: u64,
}

/// Counts between two markers.
#[derive(Debug, Default)]
struct Region {
    user: InstructionCount,
    counts: HashMap<(Node, u64), InstructionCount>,
    calls: HashMap<Node, u64>,
}

/// Effect of the last block's end that is still to be counted.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Nothing,
    Called {
        site: u64,
        slot: u64,
        returns_to: u64,
        target: Option<u64>,
    },
    Returned {
        from: Frame,
    },
}

/// The block that is executed.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    /// The path that it lies on; none for a program.
    node: Option<Node>,
    pc: u64,
    /// Tells whether it begins with the repetition of an instruction that was counted before.
    repetition: bool,
    /// Instructions executed before it.
    executed: u64,
}

/// Instructions by the path of calls that led to them.
#[derive(Debug)]
pub struct Tally {
    blocks: Vec<Block>,
    calls: Vec<Call>,
    nodes: HashMap<Call, Node>,
    stacks: HashMap<u64, Vec<Frame>>,
    current: Node,
    pending: Pending,
    repeating: Option<u64>,
    /// The number of the block that was entered last.
    entered: usize,
    under_way: Option<UnderWay>,
    open: bool,
    regions: Vec<Region>,
}

impl Default for Tally {
    fn default() -> Self {
        let root = Call {
            parent: ROOT,
            site: 0,
            entry: 0,
        };
        Self {
            blocks: Vec::new(),
            calls: vec![root],
            nodes: HashMap::new(),
            stacks: HashMap::new(),
            current: ROOT,
            pending: Pending::Nothing,
            repeating: None,
            entered: 0,
            under_way: None,
            open: false,
            regions: Vec::new(),
        }
    }
}

impl Tally {
    /// Makes a block known; returns the number under which it is entered.
    pub fn block(&mut self, block: Block) -> usize {
        self.blocks.push(block);
        self.blocks.len() - 1
    }

    /// A region begins with the next block.
    pub fn begin(&mut self) {
        self.regions.push(Region::default());
        self.open = true;
        self.under_way = None;
    }

    /// The region has ended with the block before the one under way.
    pub fn end(&mut self) {
        self.open = false;
    }

    /// The block `number` is entered, after `executed` instructions in all.
    pub fn enter(&mut self, number: usize, executed: u64) {
        let Some(&block) = self.blocks.get(number) else {
            return;
        };
        self.leave(executed);
        let repetition = block.begins_repeated && self.repeating == Some(block.pc);
        self.repeating = match block.ending {
            Ending::Repeated(pc) => Some(pc),
            Ending::Call { .. } | Ending::Return | Ending::Other => None,
        };
        self.entered = number;
        if block.is_user() {
            self.current = ROOT;
            self.pending = Pending::Nothing;
        } else {
            self.resolve(block.pc);
        }
        self.under_way = Some(UnderWay {
            node: (!block.is_user()).then_some(self.current),
            pc: block.pc,
            repetition,
            executed,
        });
    }

    /// The block under way has ended, after `executed` instructions in all.
    fn leave(&mut self, executed: u64) {
        let Some(region) = self.regions.last_mut().filter(|_| self.open) else {
            return;
        };
        let Some(block) = self.under_way.take() else {
            return;
        };
        let total = match block.node {
            Some(node) => region.counts.entry((node, block.pc)).or_default(),
            None => &mut region.user,
        };
        let repetitions = u64::from(block.repetition);
        total.instructions += (executed - block.executed).saturating_sub(repetitions);
        total.repetitions += repetitions;
    }

    /// The last instruction of the block `number`, a call or a return, writes its return address to `slot` or reads it.
    ///
    /// QEMU 7.2 reports accesses of later blocks in the name of such an instruction, too; only what the block under way
    /// does is heard.
    pub fn access(&mut self, number: usize, slot: u64, is_store: bool) {
        let Some(block) = self.blocks.get(number).filter(|_| self.entered == number) else {
            return;
        };
        match block.ending {
            Ending::Call {
                site,
                returns_to,
                target,
            } if is_store => {
                self.pending = Pending::Called {
                    site,
                    slot,
                    returns_to,
                    target,
                };
            }
            Ending::Return if !is_store => self.ret(slot),
            // An indirect call may read its target from memory.
            Ending::Call { .. } | Ending::Return | Ending::Repeated(_) | Ending::Other => {}
        }
    }

    /// A return reads its address from `slot`.
    fn ret(&mut self, slot: u64) {
        let stack = self.stacks.entry(slot >> STACK_SHIFT).or_default();
        while stack.last().is_some_and(|frame| frame.slot < slot) {
            stack.pop();
        }
        self.pending = Pending::Nothing;
        self.current = match stack.last().copied() {
            Some(frame) if frame.slot == slot => {
                stack.pop();
                self.pending = Pending::Returned { from: frame };
                frame.call.parent
            }
            Some(frame) => frame.node,
            None => ROOT,
        };
    }

    /// The block at `pc` follows on what the last one did.
    fn resolve(&mut self, pc: u64) {
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => {}
            Pending::Called {
                site,
                slot,
                returns_to,
                target,
            } => {
                let call = Call {
                    parent: self.current,
                    site,
                    // An interrupt may come before the function's first instruction; the function goes on afterwards.
                    entry: target.unwrap_or(pc),
                };
                let node = self.node(call);
                self.called(node, 1);
                self.current = node;
                let stack = self.stacks.entry(slot >> STACK_SHIFT).or_default();
                while stack.last().is_some_and(|frame| frame.slot <= slot) {
                    stack.pop();
                }
                stack.push(Frame {
                    slot,
                    call,
                    node,
                    returns_to,
                });
            }
            Pending::Returned { from } => {
                let near = from.call.entry.wrapping_sub(from.call.site) < RETPOLINE_REACH;
                if near && from.returns_to != pc {
                    self.retarget(&from, pc);
                }
            }
        }
    }

    /// The retpoline that made the call `from` has jumped to `pc`: a call that led into it was a call of that function. A
    /// jump into it, from the end of another function, is no call.
    fn retarget(&mut self, from: &Frame, pc: u64) {
        let slot = from.slot;
        let top = self
            .stacks
            .get(&(slot >> STACK_SHIFT))
            .and_then(|stack| stack.last());
        let into = |frame: &&Frame| {
            frame.node == self.current
                && from.call.site.wrapping_sub(frame.call.entry) < RETPOLINE_REACH
        };
        let Some(&frame) = top.filter(into) else {
            return;
        };
        let call = Call {
            entry: pc,
            ..frame.call
        };
        let node = self.node(call);
        self.called(frame.node, -1);
        self.called(node, 1);
        self.current = node;
        let stack = self.stacks.entry(slot >> STACK_SHIFT).or_default();
        if let Some(top) = stack.last_mut() {
            top.call = call;
            top.node = node;
        }
    }

    fn node(&mut self, call: Call) -> Node {
        *self.nodes.entry(call).or_insert_with(|| {
            self.calls.push(call);
            (self.calls.len() - 1) as Node
        })
    }

    fn called(&mut self, node: Node, times: i64) {
        if let Some(region) = self.regions.last_mut().filter(|_| self.open) {
            let calls = region.calls.entry(node).or_default();
            *calls = calls.saturating_add_signed(times);
        }
    }

    /// The text form: paths, and for each region what was counted, in an order that depends on nothing but the counts.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADING}\n");
        for (node, call) in self.calls.iter().enumerate().skip(1) {
            let Call {
                parent,
                site,
                entry,
            } = call;
            line(
                &mut text,
                format_args!("path {node} {parent} {site:x} {entry:x}"),
            );
        }
        for region in &self.regions {
            let InstructionCount {
                instructions,
                repetitions,
            } = region.user;
            line(
                &mut text,
                format_args!("region {instructions} {repetitions}"),
            );
            let mut counts: Vec<_> = region.counts.iter().collect();
            counts.sort_unstable_by_key(|(place, _)| **place);
            for ((node, pc), count) in counts {
                let InstructionCount {
                    instructions,
                    repetitions,
                } = count;
                line(
                    &mut text,
                    format_args!("count {node} {pc:x} {instructions} {repetitions}"),
                );
            }
            let mut calls: Vec<_> = region
                .calls
                .iter()
                .filter(|(_, times)| **times > 0)
                .collect();
            calls.sort_unstable();
            for (node, times) in calls {
                line(&mut text, format_args!("calls {node} {times}"));
            }
        }
        line(&mut text, format_args!("end"));
        text
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{arguments}");
}

#[cfg(test)]
mod tests;

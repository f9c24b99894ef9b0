//! The plugin that counts a guest's instructions inside QEMU: `-plugin file=libtollgate_qemu_plugin.so,out=FILE`.
//!
//! It hands what QEMU tells to [`Tally`] and writes the tally's text when QEMU ends. Until the guest passes the marker
//! `Arm` it only looks at a program's instructions as they are translated, so that booting is not slowed down.
//! It never changes what the guest does or sees.
//!
//! QEMU's plugin interface, version 1 (QEMU 4.2 to 8.2, `docs/devel/tcg-plugins.rst` there); the few functions used are
//! declared here, since distributions ship no header.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_qemu::instruction::{self, Kind};
use tollgate_qemu::protocol::Marker;
use tollgate_qemu::tally::{Block, Ending, Tally};

/// A block that QEMU translates; only QEMU knows what is in it.
#[repr(C)]
pub struct QemuBlock(c_void);
/// An instruction of a block.
#[repr(C)]
pub struct QemuInstruction(c_void);

type Id = u64;
/// The callback reads no register of the guest.
const NO_REGISTERS: c_int = 0;
/// Loads and stores. Asked for one of both alone, QEMU 7.2 leaves out what it should report.
const READ_AND_WRITE: c_int = 3;
/// Adds to a number in memory, without a call.
const ADD: c_int = 0;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, cb: extern "C" fn(Id, *mut QemuBlock));
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut QemuBlock,
        cb: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut QemuInstruction,
        cb: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_inline(
        instruction: *mut QemuInstruction,
        operation: c_int,
        number: *mut c_void,
        by: u64,
    );
    fn qemu_plugin_mem_is_store(info: u32) -> bool;
    fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut QemuInstruction,
        cb: extern "C" fn(c_uint, u32, u64, *mut c_void),
        flags: c_int,
        access: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_atexit_cb(
        id: Id,
        cb: extern "C" fn(Id, *mut c_void),
        data: *mut c_void,
    );
    fn qemu_plugin_reset(id: Id, cb: extern "C" fn(Id));
    fn qemu_plugin_tb_n_insns(block: *const QemuBlock) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const QemuBlock, index: usize) -> *mut QemuInstruction;
    fn qemu_plugin_insn_data(instruction: *const QemuInstruction) -> *const u8;
    fn qemu_plugin_insn_size(instruction: *const QemuInstruction) -> usize;
    fn qemu_plugin_insn_vaddr(instruction: *const QemuInstruction) -> u64;
}

/// The version of the interface that this plugin speaks; QEMU looks at it before it loads the plugin.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

/// State that lasts between two calls of QEMU. The guest has one processor, so nobody waits for the lock.
struct State {
    id: Id,
    out: String,
    armed: bool,
    tally: Tally,
}

/// Instructions executed since the plugin follows them. QEMU adds to it in front of each instruction.
static EXECUTED: AtomicU64 = AtomicU64::new(0);

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called by QEMU when it loads the plugin, with `name=value` arguments.
///
/// # Safety
/// `argv` must hold `argc` strings of C, as QEMU gives them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let mut out = None;
    let count = usize::try_from(argc).unwrap_or(0);
    let arguments = match count {
        0 => &[],
        // SAFETY: `argv` holds `argc` pointers.
        count => unsafe { std::slice::from_raw_parts(argv, count) },
    };
    for &argument in arguments {
        // SAFETY: each is a string of C that outlives this call.
        let argument = unsafe { CStr::from_ptr(argument) };
        if let Some(value) = argument
            .to_str()
            .ok()
            .and_then(|text| text.strip_prefix("out="))
        {
            out = Some(value.to_owned());
        }
    }
    let Some(out) = out else {
        return 1;
    };
    *state() = Some(State {
        id,
        out,
        armed: false,
        tally: Tally::default(),
    });
    listen(id);
    0
}

/// Asks QEMU for what is translated, and for its end.
extern "C" fn listen(id: Id) {
    // SAFETY: `id` is ours, and the callback has the type that QEMU calls.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    // SAFETY: as above.
    unsafe { qemu_plugin_register_atexit_cb(id, ended, std::ptr::null_mut()) };
}

/// A number as the data of a callback.
fn data(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

/// The instructions of a block while QEMU translates it.
fn instructions(block: *mut QemuBlock) -> impl Iterator<Item = *mut QemuInstruction> {
    // SAFETY: QEMU gave the block to the callback under way.
    let count = unsafe { qemu_plugin_tb_n_insns(block) };
    // SAFETY: the index is below the number of instructions.
    (0..count).map(move |index| unsafe { qemu_plugin_tb_get_insn(block, index) })
}

fn bytes<'a>(instruction: *const QemuInstruction) -> &'a [u8] {
    // SAFETY: QEMU gave the instruction to the callback under way.
    let size = unsafe { qemu_plugin_insn_size(instruction) };
    // SAFETY: as above.
    let start = unsafe { qemu_plugin_insn_data(instruction) };
    // SAFETY: `size` bytes lie there until the callback ends, and none of our slices lives longer.
    unsafe { std::slice::from_raw_parts(start, size) }
}

extern "C" fn translated(_id: Id, block: *mut QemuBlock) {
    let mut guard = state();
    let Some(state) = guard.as_mut() else {
        return;
    };
    let mut first = None;
    let mut last = None;
    let mut markers = Vec::new();
    for instruction in instructions(block) {
        if state.armed {
            let executed = EXECUTED.as_ptr().cast();
            // SAFETY: QEMU gave the instruction to the callback under way, and the number lives as long as the plugin.
            unsafe { qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD, executed, 1) };
        }
        // SAFETY: QEMU gave the instruction to the callback under way.
        let pc = unsafe { qemu_plugin_insn_vaddr(instruction) };
        let code = bytes(instruction);
        let this = (pc, code, instruction);
        first.get_or_insert(this);
        last = Some(this);
        if let Some(marker) = Marker::from_instruction(code) {
            markers.push((marker, instruction));
        }
    }
    let (Some((pc, begin, _)), Some((end_pc, end, end_instruction))) = (first, last) else {
        return;
    };
    let translated = Block {
        pc,
        begins_repeated: instruction::kind(begin) == Kind::Repeated,
        ending: match instruction::kind(end) {
            Kind::Call => Ending::Call {
                site: end_pc,
                returns_to: end_pc + end.len() as u64,
                target: instruction::call_target(end_pc, end),
            },
            Kind::Return => Ending::Return,
            Kind::Repeated => Ending::Repeated(end_pc),
            Kind::Other => Ending::Other,
        },
    };
    if !translated.is_user() {
        markers.clear();
    }
    if state.armed {
        let number = state.tally.block(translated);
        // SAFETY: the block is the one that is translated.
        unsafe {
            qemu_plugin_register_vcpu_tb_exec_cb(block, entered, NO_REGISTERS, data(number));
        }
        let follows = matches!(translated.ending, Ending::Call { .. } | Ending::Return);
        if follows && !translated.is_user() {
            // SAFETY: the instruction belongs to the block that is translated.
            unsafe {
                qemu_plugin_register_vcpu_mem_cb(
                    end_instruction,
                    accessed,
                    NO_REGISTERS,
                    READ_AND_WRITE,
                    data(number),
                );
            }
        }
        for (marker, instruction) in markers {
            let passed = match marker {
                Marker::Arm => continue,
                Marker::Begin => begun,
                Marker::End => finished,
            };
            // SAFETY: as above.
            unsafe {
                qemu_plugin_register_vcpu_insn_exec_cb(instruction, passed, NO_REGISTERS, data(0));
            }
        }
    } else {
        for (marker, instruction) in markers {
            if marker == Marker::Arm {
                // SAFETY: as above.
                unsafe {
                    qemu_plugin_register_vcpu_insn_exec_cb(instruction, arm, NO_REGISTERS, data(0));
                }
            }
        }
    }
}

/// From here on everything is followed: QEMU forgets what it has translated, and translates it anew for us.
extern "C" fn arm(_cpu: c_uint, _data: *mut c_void) {
    let mut guard = state();
    let Some(state) = guard.as_mut().filter(|state| !state.armed) else {
        return;
    };
    state.armed = true;
    // SAFETY: `id` is ours; QEMU calls `listen` when all is forgotten.
    unsafe { qemu_plugin_reset(state.id, listen) };
}

extern "C" fn entered(_cpu: c_uint, number: *mut c_void) {
    if let Some(state) = state().as_mut() {
        // Only this thread of QEMU adds to it.
        let executed = EXECUTED.load(Ordering::Relaxed);
        state.tally.enter(number.addr(), executed);
    }
}

extern "C" fn accessed(_cpu: c_uint, info: u32, slot: u64, number: *mut c_void) {
    // SAFETY: `info` is what QEMU gave to the callback under way.
    let is_store = unsafe { qemu_plugin_mem_is_store(info) };
    if let Some(state) = state().as_mut() {
        state.tally.access(number.addr(), slot, is_store);
    }
}

extern "C" fn begun(_cpu: c_uint, _data: *mut c_void) {
    if let Some(state) = state().as_mut() {
        state.tally.begin();
    }
}

extern "C" fn finished(_cpu: c_uint, _data: *mut c_void) {
    if let Some(state) = state().as_mut() {
        state.tally.end();
    }
}

extern "C" fn ended(_id: Id, _data: *mut c_void) {
    if let Some(state) = state().as_ref() {
        // Without the file the host knows that something went wrong, and QEMU cannot be told.
        let _ = std::fs::write(&state.out, state.tally.to_text());
    }
}

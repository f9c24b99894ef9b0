//! Callgrind's client requests: counting begins and ends exactly where a scenario says.
//!
//! Outside of Valgrind a request is a handful of instructions without effect. A request always takes the same
//! instructions, wherever it stands, so what it adds to a count is a constant ([`crate::valgrind::Counts`] takes it out
//! again).
//!
//! Callgrind counts whole basic blocks, and a block counts if collecting is on when the next one begins. Therefore each
//! request begins with a jump to itself: the block of the code before it ends there, and what is counted is neither an
//! instruction more nor less than what stands between two requests.

/// A request's words: its number (tool base 'C', 'T' of callgrind.h, or Valgrind's own) and five arguments.
type Request = [u64; 6];

/// The tool base of Callgrind's requests.
const CALLGRIND: u64 = (b'C' as u64) << 24 | (b'T' as u64) << 16;
/// `CALLGRIND_DUMP_STATS`.
static DUMP_STATS: Request = [CALLGRIND, 0, 0, 0, 0, 0];
/// `CALLGRIND_TOGGLE_COLLECT`.
static TOGGLE_COLLECT: Request = [CALLGRIND + 2, 0, 0, 0, 0, 0];
/// `CALLGRIND_START_INSTRUMENTATION`.
static START_INSTRUMENTATION: Request = [CALLGRIND + 4, 0, 0, 0, 0, 0];
/// `CALLGRIND_STOP_INSTRUMENTATION`.
static STOP_INSTRUMENTATION: Request = [CALLGRIND + 5, 0, 0, 0, 0, 0];

/// Makes the request in the static `$request`.
#[cfg(target_arch = "x86_64")]
macro_rules! request {
    ($request:ident) => {
        // SAFETY: the sequence rotates rdi by 128 bits in all and exchanges rbx with itself, so outside of Valgrind
        // nothing changes but rax, rdx and flags; Valgrind reads the six words of the static at rax and writes its
        // answer to rdx (valgrind.h, amd64).
        unsafe {
            core::arch::asm!(
                "jmp 2f",
                "2:",
                "lea rax, [rip + {request}]",
                "xor edx, edx",
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                request = sym $request,
                out("rax") _,
                out("rdx") _,
                options(nostack),
            );
        }
    };
}

/// Makes the request in the static `$request`.
#[cfg(target_arch = "aarch64")]
macro_rules! request {
    ($request:ident) => {
        // SAFETY: the sequence rotates x12 by 128 bits in all and ors x10 with itself; Valgrind reads the six words of
        // the static at x4 and writes its answer to x3 (valgrind.h, arm64).
        unsafe {
            core::arch::asm!(
                "b 2f",
                "2:",
                "adrp x4, {request}",
                "add x4, x4, :lo12:{request}",
                "mov x3, #0",
                "ror x12, x12, #3",
                "ror x12, x12, #13",
                "ror x12, x12, #51",
                "ror x12, x12, #61",
                "orr x10, x10, x10",
                request = sym $request,
                out("x3") _,
                out("x4") _,
                options(nostack),
            );
        }
    };
}

/// On other processors there are no requests here, and a count finds nothing, which is an error.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! request {
    ($request:ident) => {
        let _ = &$request;
    };
}

/// Switches counting on or off. Run with `--collect-atstart=no`, so that the first call switches it on.
#[inline(always)]
pub fn toggle_collect() {
    request!(TOGGLE_COLLECT);
}

/// Lets Callgrind look at the program from here on. Run with `--instr-atstart=no`, so that all before (a scenario's
/// setup) runs some ten times faster.
pub fn start_instrumentation() {
    request!(START_INSTRUMENTATION);
}

/// Lets Callgrind look away.
pub fn stop_instrumentation() {
    request!(STOP_INSTRUMENTATION);
}

/// Writes what was counted since the last dump as a part of its own, and begins to count from zero.
pub fn dump() {
    request!(DUMP_STATS);
}

/// Counts what `work` does, at full speed before and after.
#[inline(never)]
pub fn counted(work: impl FnOnce()) {
    start_instrumentation();
    toggle_collect();
    work();
    toggle_collect();
    stop_instrumentation();
}

/// Lets `work` decide what is counted, by gates.
#[inline(never)]
pub fn counted_by_gates(work: impl FnOnce()) {
    start_instrumentation();
    work();
    stop_instrumentation();
}

/// A hundred instructions that do nothing, to hold the counting against.
#[inline(always)]
pub fn hundred_instructions() {
    // SAFETY: an instruction that does nothing has no effect.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    unsafe {
        core::arch::asm!(
            ".rept 100",
            "nop",
            ".endr",
            options(nomem, nostack, preserves_flags)
        );
    }
}

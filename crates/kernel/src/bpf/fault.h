/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Faults: time that is burnt and memory that is touched on purpose. Included by gates.bpf.c in the two copies that have faults.
 */
#ifndef TOLLGATE_FAULT_H
#define TOLLGATE_FAULT_H

/* Readings of the clock after which a delay ends in any case: at 15 ns or more each, more than the longest delay. */
#define MOST_READINGS (1 << 17)
#define TOUCHED (32 * 1024)
#define CACHE_LINE 64

/* Constants of a load: the verifier removes what is 0. The layout is that of `FaultSettings` in crates/kernel/src/gates/fault.rs. */
struct fault {
	/* Nanoseconds before the stamp; only gates of extra cost have a stamp. */
	__u64 before;
	/* Nanoseconds behind the stamp, or in all. */
	__u64 behind;
	/* Not 0: the memory is touched. */
	__u64 touches;
};

const volatile struct fault fault SEC(".rodata.fault") = {0, 0, 0};

__u8 touched[TOUCHED] SEC(".bss.touched");

static long has_passed(__u32 index, void *until)
{
	return bpf_ktime_get_ns() >= *(__u64 *)until;
}

/* A callback, since the verifier would follow each turn of a plain loop. */
static __always_inline void delay_until(__u64 until)
{
	bpf_loop(MOST_READINGS, has_passed, &until, 0);
}

static __always_inline void apply_fault(__u64 begin)
{
	if (fault.touches) {
		/* Reading is enough to push other lines out, and no other processor has to give its copy up. */
#pragma clang loop unroll(disable)
		for (__u32 at = 0; at < TOUCHED; at += CACHE_LINE)
			(void)*(volatile __u64 *)&touched[at];
	}
	if (fault.behind)
		delay_until(begin + fault.behind);
}

#endif

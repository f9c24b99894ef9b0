// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Which functions do segments pass? One program for each function to be tried; the loader says at which function each is put. A
 * compiler may have put a copy of a function into its caller: the function is still there then, and nobody calls it.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define SLOTS 16

struct trial {
	/* Times that the thread passed each program. */
	__u64 passed[SLOTS];
	/* The thread that sends and receives. */
	__u32 thread;
};

struct trial trial SEC(".bss.trial");

#define SLOT(number)                                                                                                  \
	SEC("fentry") int slot_##number(void *context)                                                                \
	{                                                                                                             \
		if ((__u32)bpf_get_current_pid_tgid() == trial.thread)                                                \
			__sync_fetch_and_add(&trial.passed[number], 1);                                               \
		return 0;                                                                                             \
	}

SLOT(0)
SLOT(1)
SLOT(2)
SLOT(3)
SLOT(4)
SLOT(5)
SLOT(6)
SLOT(7)
SLOT(8)
SLOT(9)
SLOT(10)
SLOT(11)
SLOT(12)
SLOT(13)
SLOT(14)
SLOT(15)

// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * The numbers of threads: that of the process namespace of whoever reads, and that of the first namespace, by which programs know
 * a thread. The kernel runs the program for each thread of the reader's namespace.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct numbers {
	__u32 own;
	__u32 first;
};

SEC("iter/task") int thread_numbers(struct bpf_iter__task *context)
{
	struct seq_file *output = context->meta->seq;
	const struct task_struct *reader = (const struct task_struct *)bpf_get_current_task();
	const struct task_struct *task = context->task;

	/* Behind the last one. */
	if (!task)
		return 0;
	__u32 level = BPF_CORE_READ(reader, thread_pid, level);
	const void *first = __builtin_preserve_access_index(&task->thread_pid->numbers);
	const struct upid *own = first + level * bpf_core_type_size(struct upid);
	struct numbers numbers = {BPF_CORE_READ(own, nr), task->pid};

	bpf_seq_write(output, &numbers, sizeof(numbers));
	return 0;
}

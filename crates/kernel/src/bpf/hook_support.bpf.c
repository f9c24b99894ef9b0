// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Programs that do nothing, one for each kind of hook that is only tried (crates/kernel/src/offer.rs). Each lets pass what it
 * meets, and none stays longer than the trial.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum {
	/* cgroup_skb and sock_ops: go on. */
	PASS = 1,
	/* enum xdp_action. */
	XDP_PASS = 2,
	/* linux/pkt_cls.h: the next one decides. */
	TC_NEXT = -1,
};

struct bpf_sock_ops;
/* The loader compares kinds and names of types only; a type that is merely named would be of another kind. */
struct bpf_sock_ops_kern {};

extern void *bpf_cast_to_kern_ctx(void *context) __weak __ksym;
extern int bpf_sock_ops_enable_tx_tstamp(struct bpf_sock_ops_kern *operations, __u64 flags) __weak __ksym;

SEC("cgroup_skb/egress") int cgroup_packets(void *context)
{
	return PASS;
}

SEC("sockops") int socket_operations(void *context)
{
	return PASS;
}

/* Only loaded: the verifier knows whether the stamps can be asked for. */
SEC("sockops") int socket_stamps(struct bpf_sock_ops *context)
{
	bpf_sock_ops_enable_tx_tstamp(bpf_cast_to_kern_ctx(context), 0);
	return PASS;
}

SEC("tcx/egress") int tc_express(void *context)
{
	return TC_NEXT;
}

SEC("tc") int tc_classic(void *context)
{
	return TC_NEXT;
}

SEC("xdp") int driver_receives(void *context)
{
	return XDP_PASS;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Whose traffic it is: connections out of sockets and out of headers, and whether they are asked for. Part of observe.bpf.c, whose
 * settings and maps it reads.
 */
#ifndef TOLLGATE_OBSERVE_FLOW_H
#define TOLLGATE_OBSERVE_FLOW_H

/* ---- filter ---- */

static __always_inline bool within(const __u32 *address, const struct operation *operation)
{
	return ((address[0] ^ operation->address[0]) & operation->mask[0]) == 0 &&
	       ((address[1] ^ operation->address[1]) & operation->mask[1]) == 0 &&
	       ((address[2] ^ operation->address[2]) & operation->mask[2]) == 0 &&
	       ((address[3] ^ operation->address[3]) & operation->mask[3]) == 0;
}

/* A filter under way: the stack is a word of bits. */
struct evaluation {
	const struct flow *flow;
	__u64 stack;
};

static long evaluate(__u32 at, struct evaluation *evaluation)
{
	const struct operation *operation = &settings.operation[at & (OPERATIONS - 1)];
	const struct flow *flow = evaluation->flow;
	__u64 stack = evaluation->stack, bit = 0;
	__u32 source = flow->ports >> 16, destination = flow->ports & 0xffff;

	switch (operation->what) {
	case AND:
		stack = stack >> 1 & (stack | ~1ULL);
		break;
	case OR:
		stack = stack >> 1 | (stack & 1);
		break;
	case NOT:
		stack ^= 1;
		break;
	case FAMILY:
		stack = stack << 1 | (flow->family == operation->low);
		break;
	case ADDRESS:
		bit = flow->family == operation->low &&
		      (((operation->sides & SOURCE) && within(flow->source, operation)) ||
		       ((operation->sides & DESTINATION) && within(flow->destination, operation)));
		stack = stack << 1 | bit;
		break;
	case PORT:
		bit = ((operation->sides & SOURCE) && source >= operation->low && source <= operation->high) ||
		      ((operation->sides & DESTINATION) && destination >= operation->low &&
		       destination <= operation->high);
		stack = stack << 1 | bit;
		break;
	case CONSTANT:
		stack = stack << 1 | operation->low;
		break;
	}
	evaluation->stack = stack;
	return 0;
}

/* Whether the filter, in reverse Polish notation, passes a connection. */
static __always_inline bool passes(const struct flow *flow)
{
	/* Something that the verifier does not know, or it would follow each bit of the stack through every operation. */
	struct evaluation evaluation = {.flow = flow, .stack = *(volatile __u64 *)&settings.slower_than};

	bpf_loop(settings.operations, evaluate, &evaluation, 0);
	return evaluation.stack & 1;
}

static __always_inline bool watched_group(__u32 group)
{
	__u64 found = 0;

	/* Without a branch for each, for the verifier's sake: the highest bit is set where nothing differs. */
	for (int at = 0; at < GROUPS; at++)
		found |= (__u64)(settings.groups[at] ^ group) - 1;
	return found >> 63;
}

static __always_inline bool watched_cgroup(const struct sock *sk)
{
	__u64 id = BPF_CORE_READ((const struct sock___observe *)sk, sk_cgrp_data.cgroup, kn, id);
	return bpf_map_lookup_elem(&cgroups, &id) != 0;
}

/* Whether the end with this socket, and the thread that runs, is one whose traffic is asked for. */
static __always_inline bool watched_end(const struct sock *sk, __u32 group)
{
	if (settings.by_group && !watched_group(group))
		return 0;
	if (settings.by_cgroup && !watched_cgroup(sk))
		return 0;
	return 1;
}

/* ---- flows ---- */

static __always_inline __u32 bucket(__u32 ports)
{
	return ports * 2654435769U >> (32 - BUCKET_BITS);
}

static __always_inline __u32 mixed(const struct flow *flow)
{
	return mix(fold(flow->source), fold(flow->destination));
}

/* The connection of a socket in the direction of what it sends or of what it receives. */
static __always_inline bool flow_of(const struct sock *sk, bool sends, struct flow *flow)
{
	const struct sock_common *common = &sk->__sk_common;
	__u32 near = common->skc_num, far = bpf_ntohs(common->skc_dport);
	__u32 *ours = sends ? flow->source : flow->destination;
	__u32 *theirs = sends ? flow->destination : flow->source;
	__u16 family = common->skc_family;

	flow->ports = sends ? near << 16 | far : far << 16 | near;
	flow->family = 4;
	flow->net = net_of(sk);
	if (family == AF_INET6) {
		const __be32 *to = common->skc_v6_daddr.in6_u.u6_addr32;
		const __be32 *from = common->skc_v6_rcv_saddr.in6_u.u6_addr32;
		/* An IPv4 peer of an IPv6 socket: what goes over the wire is IPv4. */
		if (!(to[0] == 0 && to[1] == 0 && to[2] == bpf_htonl(0xffff))) {
			flow->family = 6;
			ours[0] = from[0], ours[1] = from[1], ours[2] = from[2], ours[3] = from[3];
			theirs[0] = to[0], theirs[1] = to[1], theirs[2] = to[2], theirs[3] = to[3];
			return 1;
		}
	} else if (family != AF_INET) {
		return 0;
	}
	ours[0] = common->skc_rcv_saddr;
	theirs[0] = common->skc_daddr;
	return 1;
}

/* The same as far as bytes are found by it. */
static __always_inline bool way_of(const struct sock *sk, bool sends, struct way *way)
{
	struct flow flow = {};

	if (!flow_of(sk, sends, &flow))
		return 0;
	way->ports = flow.ports;
	way->addresses = mixed(&flow);
	return 1;
}

/* The segment in an skb whose IP header begins at `network`, when it has payload. */
struct segment {
	struct way way;
	__u32 seq;
	__u32 len;
};

static __always_inline bool segment_of(const struct sk_buff *skb, const unsigned char *network, struct segment *segment)
{
	struct headers headers;

	if (!headers_of(network, &headers))
		return 0;
	segment->len = payload_of(skb, network, &headers);
	if (!segment->len || segment->len > 1 << 20)
		return 0;
	segment->way.addresses = headers.way.addresses;
	segment->way.ports = (__u32)bpf_ntohs(headers.source) << 16 | bpf_ntohs(headers.destination);
	segment->seq = bpf_ntohl(headers.seq);
	return 1;
}

/* The connection of a segment that comes in by a device, with its addresses in full. */
static __always_inline bool flow_in(const struct sk_buff *skb, const struct segment *segment, struct flow *flow)
{
	const unsigned char *network = skb->data;
	union {
		struct ipv4_header v4;
		struct ipv6_header v6;
	} ip;

	if (bpf_probe_read_kernel(&ip.v4, sizeof(ip.v4), network))
		return 0;
	flow->ports = segment->way.ports;
	flow->net = net_of_skb(skb);
	if (ip.v4.version_length >> 4 == 4) {
		flow->family = 4;
		flow->source[0] = ip.v4.source;
		flow->destination[0] = ip.v4.destination;
		return 1;
	}
	if (bpf_probe_read_kernel(&ip.v6, sizeof(ip.v6), network))
		return 0;
	flow->family = 6;
	__builtin_memcpy(flow->source, ip.v6.source, 16);
	__builtin_memcpy(flow->destination, ip.v6.destination, 16);
	return 1;
}

/* What TCP itself has counted on a socket. */
static __always_inline void counted(const struct sock *sk, struct counts *counts)
{
	counts->segments_in = FIELD(sk, tcp_sock___observe, segs_in);
	counts->data_in = FIELD(sk, tcp_sock___observe, data_segs_in);
	counts->segments_out = FIELD(sk, tcp_sock___observe, segs_out);
	counts->data_out = FIELD(sk, tcp_sock___observe, data_segs_out);
	counts->retransmitted = FIELD(sk, tcp_sock___observe, total_retrans);
}

#endif

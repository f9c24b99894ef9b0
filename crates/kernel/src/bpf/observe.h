/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * What the samples of traffic look like in the memory that the programs share with the loader; crates/observe/src/memory.rs
 * has the same, and proves it.
 */
#ifndef TOLLGATE_OBSERVE_H
#define TOLLGATE_OBSERVE_H

#ifndef offsetof
#define offsetof(type, field) __builtin_offsetof(type, field)
#endif

enum {
	/* Processors that have counts, a power of two; the loader refuses machines with more. */
	CPUS = 1024,
	BUCKET_BITS = 6,
	BUCKETS = 1 << BUCKET_BITS,
	/* Bytes that can be followed at once in a bucket of flows. */
	WAYS = 16,
	FINEST_BITS = 6,
	FINEST = 1 << FINEST_BITS,
	/* Up to 2^40 ns, 18 minutes. */
	PLACES = (40 - FINEST_BITS + 1) * FINEST,
	/* Of a filter, a power of two. */
	OPERATIONS = 64,
	SERVICE_BITS = 8,
	SERVICES = 1 << SERVICE_BITS,
	GROUPS = 16,
	MSG_PEEK = 2,
	/* The number of lo, in each namespace. */
	LOOPBACK = 1,
};

/* The gates, in the order of the way. */
enum stamp {
	SENT,
	IP_OUT,
	DEVICE_IN,
	DRIVER,
	DRIVER_END,
	IP_IN,
	DEMUX,
	TCP_IN,
	READY,
	RUNS,
	/* The first call that the reader returned from since it runs, and the last that it made before the copy. */
	RETURNED,
	CALLED,
	COPY,
	END,
	STAMPS,
};

enum span {
	TCP_OUT,
	TCP_IP_OUT,
	SEND_QUEUE,
	RETRANSMISSION,
	IP_OUT_SPAN,
	DEVICE_QUEUE,
	DRIVER_OUT,
	IP_QUEUE,
	IP_IN_SPAN,
	DEMUX_SPAN,
	IP_DEMUX_IN,
	BACKLOG_SPAN,
	TCP_IN_SPAN,
	REORDER,
	WAKEUP,
	RESUME,
	APPLICATION,
	SYSCALL_IN,
	SOCKET_QUEUE,
	SOCKET_IN,
	TRANSMIT,
	RECEIVE,
	WHOLE,
	PROCESSING,
	QUEUEING,
	SERVICE,
	SPANS,
};

enum state {
	FREE,
	WRITTEN,
	/* From the sender to the receiving socket. */
	ON_THE_WAY,
	/* The reader was told. */
	WAITING,
	ENDING,
};

enum flag {
	/* An end is one whose traffic is asked for. */
	WANTED = 1,
	/* It was not sent within the call that gave it to the socket. */
	DEFERRED = 2,
	RETRANSMITTED = 4,
	/* It came by a wire: there is no sender here. */
	BY_WIRE = 8,
	/* The receiving socket was locked, and its owner worked on the segment afterwards. */
	BACKLOG = 16,
	/* Bytes before it were missing. */
	DISORDER = 32,
	/* The reader was running already when it was told. */
	READER_RUNNING = 64,
	/* It went out again after it had come in: a bridge or a router. */
	FORWARDED = 128,
};

/* A connection in one direction. An IPv4 address is the first word. */
struct flow {
	/* Source port above destination port. */
	__u32 ports;
	__u32 family;
	/* The namespace that its bytes are sent in; where they come by a wire, that in which they are read. */
	__u32 net;
	__be32 source[4];
	__be32 destination[4];
};

enum what {
	AND,
	OR,
	NOT,
	FAMILY,
	ADDRESS,
	PORT,
	CONSTANT,
};

enum side {
	SOURCE = 1,
	DESTINATION = 2,
};

struct operation {
	__u32 what;
	__u32 sides;
	__u32 low;
	__u32 high;
	__be32 address[4];
	__be32 mask[4];
};

struct settings {
	/* One in so many; 0 takes no new sample. Both words are changed at once. */
	__u32 every __attribute__((aligned(8)));
	/* For how many messages a sample stands that begins before `until`, CLOCK_MONOTONIC; a later one stands for `every`. */
	__u32 weight;
	__u64 until;
	__u32 operations;
	__u32 by_group;
	__u32 by_cgroup;
	/* 0 is any. */
	__u32 interface;
	/* The namespace that the wires are in. */
	__u32 namespace;
	__u32 has_ip_out;
	__u32 has_demux;
	/* What a gate costs beyond the time in its program, in nanoseconds. */
	__u32 call;
	/* Whether a program runs when a driver returns. */
	__u32 has_driver_end;
	/* Whether programs run at the entry and the exit of system calls. */
	__u32 has_calls;
	__u64 slower_than;
	__u32 groups[GROUPS];
	struct operation operation[OPERATIONS];
};

struct totals {
	__u64 begun;
	__u64 skipped;
	__u64 finished;
	__u64 left;
	__u64 unwanted;
	__u64 holes;
	__u64 backwards;
	__u64 slow;
	__u64 slow_lost;
	__u64 flows_lost;
	__u64 ipv6;
	__u64 backlog;
	__u64 deferred;
	__u64 retransmitted;
	__u64 disorder;
	__u64 forwarded;
	__u64 shared;
	__u64 gso;
	__u64 gro;
	/* Nanoseconds that gates took of the passages that are in the rows, and of all that were followed. */
	__u64 taken;
	__u64 spent;
	/* Spans that were shorter than what their gates cost; they count as negative. */
	__u64 shorter;
	/* Bytes that were read before a gate saw them come in. */
	__u64 unseen;
	/* Bytes that went on by a wire after they had come in. */
	__u64 passed_on;
};

struct counts {
	__u32 segments_in;
	__u32 data_in;
	__u32 segments_out;
	__u32 data_out;
	__u32 retransmitted;
};

struct thread {
	__u32 thread;
	__u32 group;
};

struct passage {
	__u32 state;
	__u32 mixed;
	struct flow flow;
	__u32 seq;
	__u32 weight;
	/* The namespace that it is in. */
	__u32 net;
	__u64 at[STAMPS];
	/* What the gates that it passed cost it, until the next one. */
	__u32 cost[STAMPS];
	struct thread sender;
	struct thread reader;
	char sender_name[16];
	char reader_name[16];
	__u32 flags;
	/* Bytes that the sending call had left. */
	__u32 message;
	/* Where the reader was told, and how many programs had run there at the entry and the exit of system calls. */
	__u32 ready_cpu;
	__u32 ready_calls;
	/* Payload of the segment that it went out with, and came in with. */
	__u32 sent;
	__u32 received;
	__u32 interface;
	__u16 gso_out;
	__u16 gso_in;
	/* What the programs at system calls took of the wait for the reader. */
	__u32 waited;
	struct counts counted_out;
	struct counts counted_in;
};

/* By what the bytes of a bucket are found, in one line of memory; 0 where there is none. A tag may be out of date. */
struct tags {
	__u32 way[WAYS];
} __attribute__((aligned(64)));

/* A reader that was followed to and has not sent since. */
struct service {
	struct way way;
	__u32 thread;
	__u32 weight;
	/* 0 where there is none. */
	__u64 since;
};

struct processor {
	/* What could be a sample: pieces that were copied into sockets, and segments that came in by wires. */
	__u64 sent;
	__u64 arrived;
	/* When the thread that runs began to. */
	__u64 since;
	/* When it first returned from a system call since then, 0 where it has not; and when it last made one. */
	__u64 returned;
	__u64 called;
	/* Programs that ran at the entry and the exit of system calls: until now, and until each of these three. */
	__u32 calls;
	__u32 calls_since;
	__u32 calls_returned;
	__u32 calls_called;
	/* The passage whose skb is with the driver, that skb, and since when. */
	__u64 driving;
	__u64 driven;
	__u64 driven_at;
	/* What passed, whether asked for or not. */
	__u64 messages;
} __attribute__((aligned(64)));

struct histogram {
	__u64 samples;
	__u64 weight;
	__s64 sum;
	/* Of the gates, which is not in the sum. */
	__u64 taken;
	__u64 place[PLACES];
};

struct usage {
	__u64 samples;
	__u64 weight;
	__s64 processing_out;
	__s64 queueing_out;
	__s64 processing_in;
	__s64 queueing_in;
	__u64 slow;
	struct thread sender;
	struct thread reader;
	char sender_name[16];
	char reader_name[16];
	/* The namespace of its other end. */
	__u32 remote_net;
	struct counts first_out;
	struct counts last_out;
	struct counts first_in;
	struct counts last_in;
	/* When the last ones were. */
	__u64 out_at;
	__u64 in_at;
};

/* Fields of the kernel's types beyond those in kernel.h; what follows the three underscores is not part of the name. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net_device___observe {
	int ifindex;
	struct {
		struct net *net;
	} nd_net;
};

struct sk_buff___observe {
	struct net_device___observe *dev;
	unsigned int end;
	unsigned char *head;
};

struct skb_shared_info {
	unsigned short gso_segs;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct sock___observe {
	struct {
		int owned;
	} sk_lock;
	__u16 sk_protocol;
	struct {
		struct cgroup *cgroup;
	} sk_cgrp_data;
};

struct tcp_sock___observe {
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 total_retrans;
};

struct msghdr___observe {
	struct {
		unsigned long count;
	} msg_iter;
};

#pragma clang attribute pop

static __always_inline const struct net_device___observe *skb_device(const struct sk_buff *skb)
{
	return ((const struct sk_buff___observe *)skb)->dev;
}

/* The namespaces of an skb that has a device, and of a socket, as the numbers of their files. */
static __always_inline __u32 net_of_skb(const struct sk_buff *skb)
{
	return skb_device(skb)->nd_net.net->ns.inum;
}

static __always_inline __u32 net_of(const struct sock *sk)
{
	return sk->__sk_common.skc_net.net->ns.inum;
}

#endif

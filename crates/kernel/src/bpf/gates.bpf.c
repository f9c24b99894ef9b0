// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * The gates of the Linux kernel.
 *
 * A program reads the clock first, then asks whether the packet, the socket or the thread is one that is watched, and only then
 * writes an event of 32 bytes into the memory of its processor; but an acknowledgment that nobody wants costs no reading of the
 * clock. What lies before the reading and what follows it are the cost of a gate. Headers are read where they lie when the
 * kernel allows that (bpf_rdonly_cast, Linux 6.2), which calls nobody; else they are copied.
 *
 * Nothing here decides anything about a packet: netfilter programs accept, the others cannot do otherwise.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "headers.h"

/*
 * This source is compiled three times. Without a definition: the gates. With EXTRA_COST: gates that cost more than they have to,
 * for tests of the ledger. With FAULT: programs that record nothing and delay or touch memory instead, for what the gates would
 * record. So all three have the same filter, and the gates have no instruction more because of the others.
 */

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Processors that have a cursor; the loader refuses machines with more. */
#define CPUS 1024
/* Events that nested interrupts may write between the check for room and the taking of a slot. */
#define NESTED 8

/* The gates' numbers are those of `tollgate_gate::Gate`; crates/kernel/src/event.rs proves it. */
enum gate {
	SOCKET_OUT_BEGIN = 0,
	TCP_OUT_BEGIN = 1,
	IP_OUT_BEGIN = 4,
	DEVICE_QUEUE_IN = 5,
	DRIVER_OUT_BEGIN = 6,
	DRIVER_OUT_END = 7,
	DRIVER_IN_BEGIN = 8,
	IP_IN_BEGIN = 9,
	DEMUX_BEGIN = 10,
	TCP_IN_BEGIN = 11,
	SOCKET_QUEUED = 14,
	READER_RUNS = 15,
	SOCKET_IN_BEGIN = 16,
	SOCKET_IN_END = 17,
	SOCKET_OUT_END = 19,
};

enum flags {
	/* `seq` is the end of all that has passed so far, not the beginning of this piece. */
	UP_TO = 2,
	/* A thread passed: there are neither ports nor a sequence number. */
	THREAD = 4,
	/* A segment of no bytes passed. */
	ACKNOWLEDGMENT = 8,
};

struct event {
	__u64 ktime;
	/* Source port above destination port, as on the wire. */
	__u32 ports;
	/* Both addresses, mixed. */
	__u32 addresses;
	__u32 seq;
	__u32 len;
	__u32 thread;
	__u16 cpu;
	__u8 gate;
	__u8 flags;
};

struct cursor {
	__u64 head;
	__u64 tail;
	__u64 lost;
	__u64 pad[5];
};

struct settings {
	/* A bit for each port whose connections are watched. */
	__u64 ports[1024];
	/* Threads whose calls and wakeups are watched; 0 is nobody. */
	__u32 threads[4];
	/* The numbers of the system calls that send and receive. */
	__u32 send_calls[4];
	__u32 receive_calls[4];
	/* Not 0: segments without a byte are recorded, too. */
	__u32 acknowledgments;
};

struct cursor cursors[CPUS] SEC(".bss.cursors");
struct settings settings SEC(".bss.settings");

#if defined(EXTRA_COST) || defined(FAULT)
#include "fault.h"
#endif

#ifdef EXTRA_COST
#define COST_BEFORE_STAMP(watched)                                                                                    \
	if (fault.before && (watched))                                                                                \
	delay_until(bpf_ktime_get_ns() + fault.before)
#else
#define COST_BEFORE_STAMP(watched)
#endif

#ifdef FAULT

/* Instead of an event: the fault. The time is that of the program's beginning, so that the filter is part of the delay. */
static __always_inline void record(__u64 ktime, struct way way, __u32 seq, __u32 len, __u32 thread, __u8 gate, __u8 flags)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (cpu < CPUS)
		__sync_fetch_and_add(&cursors[cpu].head, 1);
	apply_fault(ktime);
}

#else

/* Events for each processor, a power of two. */
const volatile __u32 room SEC(".rodata.limits") = 1;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct event);
} events SEC(".maps");

/* Everything of an event but the processor, which is written down where it passed. */
static __always_inline void record(__u64 ktime, struct way way, __u32 seq, __u32 len, __u32 thread, __u8 gate, __u8 flags)
{
#ifdef EXTRA_COST
	apply_fault(bpf_ktime_get_ns());
#endif
	__u32 cpu = bpf_get_smp_processor_id();
	if (cpu >= CPUS)
		return;
	struct cursor *cursor = &cursors[cpu];
	__u64 tail = *(volatile __u64 *)&cursor->tail;
	if (*(volatile __u64 *)&cursor->head - tail + NESTED > room) {
		__sync_fetch_and_add(&cursor->lost, 1);
		return;
	}
	__u64 slot = __sync_fetch_and_add(&cursor->head, 1);
	__u32 index = cpu * room + ((__u32)slot & (room - 1));
	struct event *to = bpf_map_lookup_elem(&events, &index);
	if (!to)
		return;
	to->ports = way.ports;
	to->addresses = way.addresses;
	to->seq = seq;
	to->len = len;
	to->thread = thread;
	to->cpu = cpu;
	to->gate = gate;
	to->flags = flags;
	/* Last: a slot without a time is not finished. */
	*(volatile __u64 *)&to->ktime = ktime;
}

#endif

static __always_inline bool watched_port(__u16 port)
{
	__u32 word = port >> 6;

	/* The verifier forgets how many bits a port has when it is put aside (Linux 6.1); the compiler would not. */
	barrier_var(word);
	return settings.ports[word & 1023] >> (port & 63) & 1;
}

static __always_inline bool watched_thread(__u32 thread)
{
	return thread && (thread == settings.threads[0] || thread == settings.threads[1] ||
			  thread == settings.threads[2] || thread == settings.threads[3]);
}

/* An skb passes; its IP header begins at `network`. Pure acknowledgments are recorded only when that is wanted. */
static __always_inline void pass_packet(const struct sk_buff *skb, const unsigned char *network, __u8 gate, __u8 flags)
{
	struct headers headers;

	if (!headers_of(network, &headers))
		return;
	__u32 payload = payload_of(skb, network, &headers);
	if (!payload) {
		if (!settings.acknowledgments)
			return;
		flags |= ACKNOWLEDGMENT;
	}
	COST_BEFORE_STAMP(watched_port(bpf_ntohs(headers.source)) || watched_port(bpf_ntohs(headers.destination)));
	const __u64 ktime = bpf_ktime_get_ns();
	__u16 source = bpf_ntohs(headers.source), destination = bpf_ntohs(headers.destination);
	if (!watched_port(source) && !watched_port(destination))
		return;
	headers.way.ports = (__u32)source << 16 | destination;
	record(ktime, headers.way, bpf_ntohl(headers.seq), payload, 0, gate, flags);
}

/* Both addresses of a socket, near and far. One of IPv6 that carries IPv4 (::ffff:0:0/96) has them in both forms, and its packets
 * have the shorter one. */
static __always_inline void addresses_of(const struct sock_common *common, __u32 *near, __u32 *far)
{
	*near = common->skc_rcv_saddr;
	*far = common->skc_daddr;
	if (common->skc_family == AF_INET6 &&
	    !(common->skc_v6_daddr.in6_u.u6_addr32[0] == 0 && common->skc_v6_daddr.in6_u.u6_addr32[1] == 0 &&
	      common->skc_v6_daddr.in6_u.u6_addr32[2] == bpf_htonl(0xffff))) {
		*near = FOLD(common->skc_v6_rcv_saddr);
		*far = FOLD(common->skc_v6_daddr);
	}
}

/* The connection of a socket, in the direction of what it sends or of what it receives. */
static __always_inline bool watched_socket(const struct sock *sk, bool sends, struct way *way)
{
	const struct sock_common *common = &sk->__sk_common;
	__u16 near = common->skc_num, far = bpf_ntohs(common->skc_dport);
	__u32 near_address, far_address;

	if (!watched_port(near) && !watched_port(far))
		return 0;
	addresses_of(common, &near_address, &far_address);
	way->ports = sends ? (__u32)near << 16 | far : (__u32)far << 16 | near;
	way->addresses = sends ? mix(near_address, far_address) : mix(far_address, near_address);
	return 1;
}

#ifdef EXTRA_COST
static __always_inline bool is_watched_socket(const struct sock *sk)
{
	struct way way;

	return sk && watched_socket(sk, 1, &way);
}
#endif

static __always_inline void pass_thread(__u32 thread, __u8 gate, __u8 flags)
{
	COST_BEFORE_STAMP(watched_thread(thread));
	const __u64 ktime = bpf_ktime_get_ns();
	struct way nobody = {0, 0};

	if (watched_thread(thread))
		record(ktime, nobody, 0, 0, thread, gate, flags | THREAD);
}

/* A thread calls or returns. */
static __always_inline void pass_call(const __u32 *calls, __u64 call, __u8 gate, __u8 flags)
{
	if (call == calls[0] || call == calls[1] || call == calls[2] || call == calls[3])
		pass_thread((__u32)bpf_get_current_pid_tgid(), gate, flags);
}

static __always_inline void pass_sender(struct sock *sk, __u8 flags)
{
	COST_BEFORE_STAMP(is_watched_socket(sk));
	const __u64 ktime = bpf_ktime_get_ns();
	struct way way;

	if (!watched_socket(sk, 1, &way))
		return;
	record(ktime, way, FIELD(sk, tcp_sock, write_seq), 0, (__u32)bpf_get_current_pid_tgid(), TCP_OUT_BEGIN, flags);
}

/* The receiving socket passes with all that lies before `end`. */
static __always_inline void pass_receiver(struct sock *sk, bool queued, __u8 gate, __u8 flags)
{
	COST_BEFORE_STAMP(is_watched_socket(sk));
	const __u64 ktime = bpf_ktime_get_ns();
	struct way way;

	if (!watched_socket(sk, 0, &way))
		return;
	__u32 end = queued ? FIELD(sk, tcp_sock, rcv_nxt) : FIELD(sk, tcp_sock, copied_seq);
	record(ktime, way, end, 0, (__u32)bpf_get_current_pid_tgid(), gate, flags | UP_TO);
}

static __always_inline void pass_copy(const struct sk_buff *skb, int len, __u8 flags)
{
	COST_BEFORE_STAMP(is_watched_socket(skb->sk));
	const __u64 ktime = bpf_ktime_get_ns();
	struct sock *sk = skb->sk;
	struct way way;

	if (!sk || !watched_socket(sk, 0, &way))
		return;
	record(ktime, way, FIELD(sk, tcp_sock, copied_seq), len, (__u32)bpf_get_current_pid_tgid(), SOCKET_IN_BEGIN, flags);
}

/* A hook's program. The body sees `flags`. */
#define GATE(section, name, ...) GATE_(section, name, __VA_ARGS__)
#define GATE_(section, name, body, ...)                                                                              \
	SEC(section) int BPF_PROG(name, ##__VA_ARGS__)                                                                \
	{                                                                                                             \
		const __u8 flags = 0;                                                                                 \
		body;                                                                                                      \
		return 0;                                                                                             \
	}

GATE("tp_btf/sys_enter", sys_enter_send, pass_call(settings.send_calls, call, SOCKET_OUT_BEGIN, flags),
     struct pt_regs *regs, long call)
GATE("tp_btf/sys_exit", sys_exit_send, pass_call(settings.send_calls, SYSCALL_NUMBER(regs), SOCKET_OUT_END, flags),
     struct pt_regs *regs, long result)
GATE("tp_btf/sys_exit", sys_exit_receive,
     if (result > 0) pass_call(settings.receive_calls, SYSCALL_NUMBER(regs), SOCKET_IN_END, flags),
     struct pt_regs *regs, long result)
GATE("tp_btf/tcp_sendmsg_locked", tcp_sendmsg_locked, pass_sender(sk, flags), struct sock *sk)
GATE("tp_btf/net_dev_queue", net_dev_queue, pass_packet(skb, network_header(skb), DEVICE_QUEUE_IN, flags),
     struct sk_buff *skb)
GATE("tp_btf/net_dev_start_xmit", net_dev_start_xmit,
     pass_packet(skb, network_header(skb), DRIVER_OUT_BEGIN, flags), struct sk_buff *skb)
GATE("tp_btf/netif_rx_entry", netif_rx_entry, pass_packet(skb, skb->data, DRIVER_OUT_END, flags),
     struct sk_buff *skb)
GATE("tp_btf/netif_receive_skb", netif_receive_skb, pass_packet(skb, skb->data, IP_IN_BEGIN, flags),
     struct sk_buff *skb)
GATE("tp_btf/tcp_probe", tcp_probe, pass_packet(skb, network_header(skb), TCP_IN_BEGIN, flags), struct sock *sk,
     struct sk_buff *skb)
GATE("tp_btf/sk_data_ready", sk_data_ready, pass_receiver(sk, 1, SOCKET_QUEUED, flags), struct sock *sk)
GATE("tp_btf/sched_switch", sched_switch,
     pass_thread(next->pid, READER_RUNS, flags),
     bool preempted, struct task_struct *previous, struct task_struct *next)
GATE("tp_btf/skb_copy_datagram_iovec", skb_copy_datagram_iovec, pass_copy(skb, len, flags), struct sk_buff *skb,
     int len)
GATE("tp_btf/sock_recv_length", sock_recv_length,
     if (result > 0) pass_receiver(sk, 0, SOCKET_IN_END, flags), struct sock *sk, int result)

#include "functions.h"

/* Netfilter programs get a context instead of arguments. */
#define FILTER(name, gate)                                                                                            \
	SEC("netfilter") int name(struct bpf_nf_ctx *ctx)                                                             \
	{                                                                                                             \
		pass_packet(ctx->skb, network_header(ctx->skb), gate, 0);                                             \
		return NF_ACCEPT;                                                                                     \
	}

FILTER(nf_local_out, IP_OUT_BEGIN)
FILTER(nf_local_in, DEMUX_BEGIN)

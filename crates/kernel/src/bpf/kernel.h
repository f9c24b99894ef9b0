/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * The parts of the kernel's types that the gates read. The loader moves every offset to where the running kernel has the field
 * (CO-RE), so only the names and the kinds of the fields matter here, and fields that are not read are left out.
 */
#ifndef TOLLGATE_KERNEL_H
#define TOLLGATE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_NOEXIST = 1,
	BPF_F_MMAPABLE = 1U << 10,
};

enum {
	AF_INET = 2,
	AF_INET6 = 10,
	IPPROTO_HOPOPTS = 0,
	IPPROTO_TCP = 6,
	NF_ACCEPT = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	struct {
		struct net *net;
	} skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
};

struct tcp_sock {
	__u32 write_seq;
	__u32 rcv_nxt;
	__u32 copied_seq;
};

struct sk_buff {
	struct sock *sk;
	unsigned int len;
	__u16 transport_header;
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
};

struct iphdr {
	__be16 tot_len;
	__be16 frag_off;
	__u8 protocol;
	__be32 saddr;
	__be32 daddr;
};

struct ipv6hdr {
	__be16 payload_len;
	__u8 nexthdr;
	struct in6_addr saddr;
	struct in6_addr daddr;
};

struct tcphdr {
	__be16 source;
	__be16 dest;
	__be32 seq;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct task_struct {
	int pid;
	int tgid;
	struct pid *thread_pid;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long orig_ax;
};
#define SYSCALL_NUMBER(regs) ((regs)->orig_ax)
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	int syscallno;
};
#define SYSCALL_NUMBER(regs) ((regs)->syscallno)
#else
#error "the number of a system call is not known on this architecture"
#endif

struct nf_hook_state {
	struct net *net;
};

struct msghdr;
struct net_device;

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
};

#pragma clang attribute pop

/* Headers on the wire; nothing moves them. */

struct ipv4_header {
	__u8 version_length;
	__u8 tos;
	__be16 total;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__sum16 check;
	__be32 source;
	__be32 destination;
};

struct ipv6_header {
	__be32 version_flow;
	__be16 payload;
	__u8 next;
	__u8 hops;
	__be32 source[4];
	__be32 destination[4];
};

struct tcp_header {
	__be16 source;
	__be16 destination;
	__be32 seq;
	__be32 ack;
	__u8 offset;
	__u8 flags;
	__be16 window;
	__sum16 check;
	__be16 urgent;
};

/* Two addresses in one word: enough to tell the connections of two ports apart. */

static inline __attribute__((always_inline)) __u32 mix(__u32 source, __u32 destination)
{
	return source ^ (destination << 16 | destination >> 16);
}

static inline __attribute__((always_inline)) __u32 fold(const __be32 *words)
{
	return words[0] ^ words[1] ^ words[2] ^ words[3];
}

/* The same of an address that the kernel has, each word of which is to be found by itself. */
#define FOLD(address)                                                                                                 \
	((address).in6_u.u6_addr32[0] ^ (address).in6_u.u6_addr32[1] ^ (address).in6_u.u6_addr32[2] ^                    \
	 (address).in6_u.u6_addr32[3])

#endif

// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Traffic that is already there, by samples.
 *
 * A sample follows one byte of a stream, the first of a piece that is copied into a socket (or of a segment that comes in by a
 * wire), through every gate until the reader has it. Which skb carries the byte does not matter: clones, GSO, GRO, coalescing and
 * retransmission change skbs, not sequence numbers. So all gates agree on what is sampled without a word between them.
 *
 * While nothing is followed a gate is one compare. A gate that stamps a followed byte reads the clock again when it is done, so that
 * what it took is known, and taken off the span that it lies in. Where a sample is over, its spans are added to histograms here; only
 * slow passages are written out whole.
 *
 * Nothing here decides anything about a packet: netfilter programs accept, the others cannot do otherwise.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "headers.h"
#include "observe.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct settings settings SEC(".bss.settings");
struct totals totals SEC(".bss.totals");
struct processor processors[CPUS] SEC(".bss.processors");
struct passage passages[BUCKETS * WAYS] SEC(".bss.passages");
struct service services[SERVICES] SEC(".bss.services");
struct tags tags[BUCKETS] SEC(".bss.tags");
struct histogram histograms[SPANS] SEC(".bss.histograms");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct flow);
	__type(value, struct usage);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u8);
} cgroups SEC(".maps");

/* Interfaces by which segments come in from other hosts, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} wires SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} slow SEC(".maps");

/* How many bytes are followed, and where they are: before the reader was told, and after. One line, seldom written. */
struct followed {
	__u32 on_the_way;
	__u32 waiting;
	__u64 pad[7];
} followed SEC(".bss.followed");

#define add(where, what) __sync_fetch_and_add(&(where), (what))

static __always_inline struct processor *here(void)
{
	return &processors[bpf_get_smp_processor_id() & (CPUS - 1)];
}

/* A field of the TCP part of a socket. */
#define of_tcp(sk, field) FIELD(sk, tcp_sock, field)

/* Read each time, so that the verifier need not go all ways that flags can go together. */
#define has(flag) (*(volatile __u32 *)&passage->flags & (flag))

static __always_inline struct passage *passage_at(__u32 index)
{
	return &passages[index & (BUCKETS * WAYS - 1)];
}

#include "observe_flow.h"
#include "observe_rows.h"
#include "observe_services.h"

/* ---- samples ---- */

/*
 * For how many this candidate stands when it is a sample; 0 when it is not. Each is drawn by itself, with the same probability whatever came
 * before: so a processor with little traffic has its share of the samples, too, however often sampling stops and begins again.
 */
static __always_inline __u32 drawn(__u64 *candidates)
{
	__u64 now = *(volatile __u64 *)&settings.every;
	__u32 every = now;

	add(*candidates, 1);
	if (!every || (__u64)bpf_get_prandom_u32() * every >> 32)
		return 0;
	return bpf_ktime_get_ns() < *(volatile __u64 *)&settings.until ? now >> 32 : every;
}

/* Global, see observe_rows.h. */
int free_place(__u32 ports);

/* Takes a free place in the bucket of these ports; negative when there is none. */
__noinline int free_place(__u32 ports)
{
	__u32 first = bucket(ports) * WAYS;

	for (int way = 0; way < WAYS; way++) {
		__u32 index = (first + way) & (BUCKETS * WAYS - 1);
		struct passage *passage = &passages[index];
		if (passage->state == FREE && __sync_val_compare_and_swap(&passage->state, FREE, WRITTEN) == FREE)
			return index;
	}
	return -1;
}

/* Begins to follow a byte, and tells where; negative when all places of its bucket are taken. */
static __always_inline int begin(const struct flow *flow, __u32 seq, __u32 weight)
{
	int index = free_place(flow->ports);
	struct passage *passage = passage_at(index);

	if (index < 0) {
		add(totals.skipped, 1);
		return index;
	}
	__builtin_memset(passage->at, 0, sizeof(passage->at));
	__builtin_memset(&passage->cost, 0, sizeof(struct passage) - offsetof(struct passage, cost));
	passage->flow = *flow;
	passage->mixed = mixed(flow);
	passage->seq = seq;
	passage->weight = weight;
	passage->net = flow->net;
	add(totals.begun, 1);
	return index;
}

static __always_inline __u32 tag(const struct way *way, __u32 state)
{
	return ((way->ports * 2654435769U ^ way->addresses) & ~7U) | state;
}

static __always_inline void set_tag(__u32 index, const struct way *way, __u32 state)
{
	tags[index / WAYS & (BUCKETS - 1)].way[index & (WAYS - 1)] = tag(way, state);
}

/* What was begun passes its first gate, now that all else is done. */
static __always_inline void follow(__u32 index, __u32 gate)
{
	struct passage *passage = passage_at(index);
	const struct way way = {.ports = passage->flow.ports, .addresses = passage->mixed};

	set_tag(index, &way, ON_THE_WAY);
	passage->cost[gate] = settings.call;
	add(followed.on_the_way, 1);
	*(volatile __u32 *)&passage->state = ON_THE_WAY;
	passage->at[gate] = bpf_ktime_get_ns();
}

static __always_inline void finish(__u32 index, __u32 state)
{
	struct passage *passage = passage_at(index);

	if (__sync_val_compare_and_swap(&passage->state, state, ENDING) != state)
		return;
	if (state == WAITING)
		add(followed.waiting, -1);
	else
		add(followed.on_the_way, -1);
	fold_in(index);
	*(volatile __u32 *)&passage->state = FREE;
}

/* Gives back the place of a byte that is on its way and will be in no row. Whether it still was. */
static __always_inline bool let_go(struct passage *passage)
{
	if (__sync_val_compare_and_swap(&passage->state, ON_THE_WAY, ENDING) != ON_THE_WAY)
		return 0;
	add(followed.on_the_way, -1);
	*(volatile __u32 *)&passage->state = FREE;
	return 1;
}

/* Something crosses a gate: which followed bytes it may hold, and what is noted of them. */
struct crossing {
	__u64 now;
	const struct sk_buff *skb;
	const struct sock *sk;
	struct way way;
	__u32 net;
	/* The first place of the bucket, and a bit for each way that may be of the flow. */
	__u32 first;
	__u32 ways;
	__u32 state;
	/* The piece of the stream; `len` is missing where all before `seq` crosses. */
	__u32 seq;
	__u32 len;
	__u32 gate;
	/* How long the gate took, when it is done. */
	__u32 spent;
	/* Whose turn it is. */
	struct service service;
};

/* Finds the bytes of a flow that are followed and in a state; without a branch for each, for the verifier's sake. */
static __always_inline bool crosses(struct crossing *crossing, const struct way *way, __u32 state)
{
	const struct tags *line = &tags[bucket(way->ports)];
	__u32 wanted = tag(way, state), ways = 0;

	/* The highest bit is set where nothing differs. */
	for (int at = 0; at < WAYS; at++)
		ways |= (__u32)(((__u64)(line->way[at] ^ wanted) - 1) >> 63) << at;
	crossing->way = *way;
	crossing->state = state;
	crossing->first = bucket(way->ports) * WAYS;
	crossing->ways = ways;
	return ways;
}

static __always_inline struct passage *place_of(const struct crossing *crossing, __u32 way)
{
	return passage_at(crossing->first + way);
}

static __always_inline struct passage *crossed(const struct crossing *crossing, __u32 way)
{
	struct passage *passage = place_of(crossing, way);

	if (!(crossing->ways >> (way & (WAYS - 1)) & 1) || passage->state != crossing->state ||
	    passage->flow.ports != crossing->way.ports || passage->mixed != crossing->way.addresses)
		return 0;
	return passage;
}

/* Calls `body` for each byte that may cross; mostly that is one. */
#define EACH(body, crossing)                                                                                          \
	do {                                                                                                          \
		if ((crossing)->ways & ((crossing)->ways - 1))                                                        \
			bpf_loop(WAYS, body, crossing, 0);                                                            \
		else                                                                                                  \
			body(highest((crossing)->ways), crossing);                                                    \
	} while (0)

/* Notes what the gate cost those that it stamped. */
static long charge(__u32 way, struct crossing *crossing)
{
	struct passage *passage = place_of(crossing, way);
	__u32 gate = crossing->gate;

	if (!(crossing->ways >> (way & (WAYS - 1)) & 1) || gate >= STAMPS || passage->at[gate] != crossing->now)
		return 0;
	passage->cost[gate] = crossing->spent;
	return 0;
}

/* The last that a gate does, but for those that take one more call until the next. */
static __always_inline void charge_all(struct crossing *crossing, __u32 calls)
{
	crossing->spent = bpf_ktime_get_ns() - crossing->now + calls * settings.call;
	EACH(charge, crossing);
}

static __always_inline bool holds(const struct crossing *crossing, const struct passage *passage)
{
	return passage->seq - crossing->seq < crossing->len;
}

/* Whether what crosses a gate is of the same namespace; a byte comes into another one by a device that is not lo. */
static __always_inline bool comes_here(const struct crossing *crossing, struct passage *passage)
{
	if (passage->net == crossing->net)
		return 1;
	if (!(passage->at[DRIVER] | passage->at[IP_IN]) || passage->interface == LOOPBACK)
		return 0;
	passage->net = crossing->net;
	return 1;
}

/* ---- gates ---- */

/* A piece of a message is about to be copied into the socket. */
static __always_inline void pass_sender(const struct sock *sk, __u32 left)
{
	struct flow flow = {};
	struct passage *passage;
	__u64 who, from = bpf_ktime_get_ns();
	__u32 weight;
	int index;

	add(here()->messages, 1);
	turn_ends(sk, from);
	if (settings.operations && !(flow_of(sk, 1, &flow) && passes(&flow)))
		return;
	weight = drawn(&here()->sent);
	if (!weight)
		return;
	if (!settings.operations && !flow_of(sk, 1, &flow))
		return;
	index = begin(&flow, of_tcp(sk, write_seq), weight);
	if (index < 0)
		return;
	passage = passage_at(index);
	who = bpf_get_current_pid_tgid();
	passage->sender.thread = (__u32)who;
	passage->sender.group = who >> 32;
	bpf_get_current_comm(passage->sender_name, sizeof(passage->sender_name));
	passage->message = left;
	if (watched_end(sk, who >> 32))
		passage->flags = WANTED;
	counted(sk, &passage->counted_out);
	follow(index, SENT);
	add(totals.spent, passage->at[SENT] - from);
}

static __always_inline __u16 pieces(const struct sk_buff *skb)
{
	const struct sk_buff___observe *known = (const struct sk_buff___observe *)skb;
	const struct skb_shared_info *shared = (const void *)(known->head + known->end);

	return FIELD(shared, skb_shared_info, gso_segs);
}

static __always_inline bool is_wire(const struct net_device___observe *device)
{
	__u32 index = device->ifindex;

	return bpf_map_lookup_elem(&wires, &index) && device->nd_net.net->ns.inum == settings.namespace;
}

static long out(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);
	const struct sk_buff *skb = crossing->skb;
	__u32 gate = crossing->gate & 3;

	if (!passage || !holds(crossing, passage) || !comes_here(crossing, passage))
		return 0;
	if (passage->at[IP_IN]) {
		const struct net_device___observe *device = skb_device(skb);
		if (gate == DEVICE_IN)
			passage->flags |= FORWARDED;
		/* A bridge or a router of this host has sent it on: no reader here will have it. */
		if (gate == DRIVER && device && is_wire(device) && let_go(passage))
			add(totals.passed_on, 1);
		return 0;
	}
	if (gate == (settings.has_ip_out ? IP_OUT : DEVICE_IN)) {
		const struct sock___observe *sk = (const struct sock___observe *)skb->sk;
		if (passage->at[gate]) {
			if (gate == IP_OUT)
				passage->flags |= RETRANSMITTED;
		} else if (sk &&
			   !(sk->sk_lock.owned && passage->sender.thread == (__u32)bpf_get_current_pid_tgid())) {
			passage->flags |= DEFERRED;
		}
		passage->sent = crossing->len;
		passage->gso_out = pieces(skb);
	}
	passage->at[gate] = crossing->now;
	if (gate == DRIVER) {
		const struct net_device___observe *device = skb_device(skb);
		passage->interface = device ? device->ifindex : 0;
		if (device && is_wire(device)) {
			struct processor *processor = here();
			processor->driving = (crossing->first + way) & (BUCKETS * WAYS - 1);
			processor->driven = (__u64)skb;
			processor->driven_at = crossing->now;
		}
	}
	return 0;
}

/* A packet passes on its way out. */
static __always_inline void pass_out(const struct sk_buff *skb, __u32 net, __u32 gate)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .skb = skb, .net = net, .gate = gate};
	struct segment segment = {};

	if (!segment_of(skb, network_header(skb), &segment) || !crosses(&crossing, &segment.way, ON_THE_WAY))
		return;
	crossing.seq = segment.seq;
	crossing.len = segment.len;
	EACH(out, &crossing);
	charge_all(&crossing, 1);
}

/* TCP hands a segment to IP: the TCP header is what the data begins with, and there is no IP header yet. */
static __always_inline void pass_handed(const struct sock *sk, const struct sk_buff *skb)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .skb = skb, .net = net_of(sk), .gate = IP_OUT};
	struct tcp_header tcp;
	struct way way;

	if (!way_of(sk, 1, &way) || !crosses(&crossing, &way, ON_THE_WAY) ||
	    bpf_probe_read_kernel(&tcp, sizeof(tcp), skb->data))
		return;
	__u32 length = skb->len, header = (tcp.offset >> 4) * 4;
	if (length <= header || length > 1 << 20)
		return;
	crossing.seq = bpf_ntohl(tcp.seq);
	crossing.len = length - header;
	EACH(out, &crossing);
	charge_all(&crossing, 1);
}

/* dev_xmit_complete() of linux/netdevice.h: beyond this a driver says that it has not taken the packet; negative, that it has dropped it. */
#define NET_XMIT_MASK 0x0f

/* The driver of a wire has returned; the skb may be gone by now. */
static __always_inline void pass_driver_end(const struct sk_buff *skb, int result)
{
	struct processor *processor = here();
	__u32 index;

	if (processor->driven != (__u64)skb)
		return;
	index = processor->driving;
	processor->driven = 0;
	struct passage *passage = passage_at(index);
	/* What was not sent is sent again, and passes the driver again. The place may be another byte's by now. */
	if (result < 0 || result > NET_XMIT_MASK || passage->state != ON_THE_WAY || passage->at[IP_IN] ||
	    passage->at[DRIVER] != processor->driven_at)
		return;
	passage->at[DRIVER_END] = bpf_ktime_get_ns();
	if (settings.interface && settings.interface != passage->interface)
		passage->flags &= ~WANTED;
	finish(index, ON_THE_WAY);
}

static long in(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);
	__u32 gate = crossing->gate & 7;

	if (!passage || !holds(crossing, passage) || passage->at[TCP_IN] || !comes_here(crossing, passage))
		return 0;
	/* A byte that is sent again before it has come in passes the driver again, too. */
	if (passage->at[gate] && !(gate == DRIVER_END && !passage->at[IP_IN]))
		return 0;
	passage->at[gate] = crossing->now;
	return 0;
}

/* A packet passes on its way in, before it has found its socket. */
static __always_inline void pass_in(const struct sk_buff *skb, const unsigned char *network, __u32 net, __u32 gate)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .net = net, .gate = gate};
	struct segment segment = {};

	if (!segment_of(skb, network, &segment) || !crosses(&crossing, &segment.way, ON_THE_WAY))
		return;
	crossing.seq = segment.seq;
	crossing.len = segment.len;
	EACH(in, &crossing);
	/* Before the next gate of a packet that does not leave its host comes that of the driver's return. */
	charge_all(&crossing, 1 + (gate == DRIVER_END && settings.has_driver_end));
}

/* A segment comes in by a wire: its first byte may be followed. Whether it is. */
static __always_inline bool pass_wire(const struct sk_buff *skb)
{
	struct segment segment = {};
	struct flow flow = {};
	struct passage *passage;
	const struct net_device___observe *device = skb_device(skb);
	__u32 weight;
	int index;

	add(here()->messages, 1);
	if (!device || !is_wire(device) || !segment_of(skb, skb->data, &segment))
		return 0;
	if (settings.operations && !(flow_in(skb, &segment, &flow) && passes(&flow)))
		return 0;
	weight = drawn(&here()->arrived);
	if (!weight || (!settings.operations && !flow_in(skb, &segment, &flow)))
		return 0;
	index = begin(&flow, segment.seq, weight);
	if (index < 0)
		return 0;
	passage = passage_at(index);
	passage->flags = BY_WIRE;
	passage->interface = device->ifindex;
	follow(index, IP_IN);
	return 1;
}

static long tcp(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);
	const struct sock *sk = crossing->sk;

	if (!passage || !holds(crossing, passage) || passage->at[TCP_IN] || !comes_here(crossing, passage))
		return 0;
	passage->at[TCP_IN] = crossing->now;
	/* The owner of the socket works on what came while it held the lock. */
	if (((const struct sock___observe *)sk)->sk_lock.owned)
		passage->flags |= BACKLOG;
	if ((__s32)(crossing->seq - of_tcp(sk, rcv_nxt)) > 0)
		passage->flags |= DISORDER;
	passage->received = crossing->len;
	passage->gso_in = pieces(crossing->skb);
	return 0;
}

static __always_inline void pass_tcp(const struct sock *sk, const struct sk_buff *skb)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .skb = skb, .sk = sk, .net = net_of(sk), .gate = TCP_IN};
	struct segment segment = {};

	if (!segment_of(skb, network_header(skb), &segment) || !crosses(&crossing, &segment.way, ON_THE_WAY))
		return;
	crossing.seq = segment.seq;
	crossing.len = segment.len;
	EACH(tcp, &crossing);
	charge_all(&crossing, 1);
}

static long ready(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);

	if (!passage || !passage->at[IP_IN] || !holds(crossing, passage) || passage->net != crossing->net)
		return 0;
	/* Before the state, which lets the reader's gates at it. */
	passage->ready_cpu = bpf_get_smp_processor_id();
	passage->ready_calls = here()->calls;
	passage->at[READY] = crossing->now;
	if (__sync_val_compare_and_swap(&passage->state, ON_THE_WAY, WAITING) != ON_THE_WAY)
		return 0;
	set_tag(crossing->first + way, &crossing->way, WAITING);
	add(followed.waiting, 1);
	add(followed.on_the_way, -1);
	return 0;
}

static __always_inline void pass_ready(const struct sock *sk)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .net = net_of(sk), .gate = READY};
	struct way way;

	if (!way_of(sk, 0, &way) || !crosses(&crossing, &way, ON_THE_WAY))
		return;
	/* What is there to be read. */
	crossing.seq = of_tcp(sk, copied_seq);
	crossing.len = of_tcp(sk, rcv_nxt) - crossing.seq;
	EACH(ready, &crossing);
	charge_all(&crossing, 1);
}

static long copy(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);
	const struct processor *processor = here();
	__u64 since = processor->since, called = processor->called, ready;
	/* How many programs at system calls lie in the wait for the reader, where that is told. */
	__u32 calls = 0;

	if (!passage || !holds(crossing, passage) || passage->net != crossing->net)
		return 0;
	/* Each byte is copied once, but for those that are peeked at before; so the last copy is the one that counts. */
	if (passage->at[COPY]) {
		passage->at[RUNS] = passage->at[RETURNED] = passage->at[CALLED] = 0;
		passage->cost[RUNS] = passage->cost[RETURNED] = passage->cost[CALLED] = 0;
		passage->cost[READY] -= passage->waited;
		passage->flags &= ~READER_RUNNING;
	}
	passage->at[COPY] = crossing->now;
	ready = passage->at[READY];
	called = settings.has_calls && called > ready && called > since ? called : 0;
	if (since > ready) {
		passage->at[RUNS] = since;
		passage->cost[RUNS] = settings.call;
		calls = processor->calls_since - passage->ready_calls;
		/* A reader that was put aside while its own code ran comes back without a return. */
		if (called && processor->returned > since) {
			passage->at[RETURNED] = processor->returned;
			passage->cost[RETURNED] =
				(processor->calls_called - processor->calls_returned) * settings.call;
		}
	} else {
		passage->flags |= READER_RUNNING;
		if (called)
			calls = processor->calls_called - passage->ready_calls;
	}
	passage->waited = passage->ready_cpu == bpf_get_smp_processor_id() ? calls * settings.call : 0;
	passage->cost[READY] += passage->waited;
	if (called) {
		passage->at[CALLED] = called;
		passage->cost[CALLED] = settings.call;
	}
	return 0;
}

static __always_inline void pass_copy(const struct sk_buff *skb, __u32 len)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .len = len, .gate = COPY};
	const struct sock *sk = skb->sk;
	struct way way;

	if (!sk || !way_of(sk, 0, &way) || !crosses(&crossing, &way, WAITING))
		return;
	crossing.net = net_of(sk);
	crossing.seq = of_tcp(sk, copied_seq);
	EACH(copy, &crossing);
	charge_all(&crossing, 1);
}

/*
 * What one receive returns lies right before the byte that comes next, unless another thread has read on meanwhile: so much at most. What lies
 * further back was never read here: it is of a connection that ended, and whose ports are used again.
 */
#define READ_ON (1 << 20)

static long received(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);
	__u64 who = bpf_get_current_pid_tgid();

	if (!passage || crossing->seq - passage->seq - 1 >= crossing->len + READ_ON || passage->net != crossing->net)
		return 0;
	if (has(BY_WIRE))
		passage->flow.net = passage->net;
	passage->at[END] = crossing->now;
	passage->reader.thread = (__u32)who;
	passage->reader.group = who >> 32;
	bpf_get_current_comm(passage->reader_name, sizeof(passage->reader_name));
	counted(crossing->sk, &passage->counted_in);
	if (watched_end(crossing->sk, who >> 32))
		passage->flags |= WANTED;
	if (settings.interface && settings.interface != passage->interface)
		passage->flags &= ~WANTED;
	if (has(WANTED)) {
		crossing->service.way.ports = passage->flow.ports << 16 | passage->flow.ports >> 16;
		crossing->service.way.addresses = mix(fold(passage->flow.destination), fold(passage->flow.source));
		crossing->service.thread = who;
		crossing->service.weight = passage->weight;
	}
	finish(crossing->first + way, WAITING);
	return 0;
}

/* Global, see observe_rows.h. */
int give_back(__u32 ports, __u32 addresses, __u32 net, __u32 seq);

/*
 * Gives back the places of bytes that were read before a gate saw them come in. On Linux 6.18 a few packets in a hundred that a softirq takes
 * from a queue pass no tracepoint's program while other processes fork and exec; they would take all places of their connection.
 */
__noinline int give_back(__u32 ports, __u32 addresses, __u32 net, __u32 seq)
{
	__u32 first = bucket(ports) * WAYS;

	for (int way = 0; way < WAYS; way++) {
		struct passage *passage = passage_at(first + way);
		if (passage->state != ON_THE_WAY || passage->flow.ports != ports || passage->mixed != addresses ||
		    passage->net != net || (__s32)(seq - passage->seq) <= 0 || !let_go(passage))
			continue;
		add(totals.unseen, 1);
	}
	return 0;
}

static __always_inline void pass_received(const struct sock *sk, int result, int flags)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .sk = sk, .net = net_of(sk)};
	struct way way;

	if (result <= 0 || flags & MSG_PEEK || ((const struct sock___observe *)sk)->sk_protocol != IPPROTO_TCP ||
	    !way_of(sk, 0, &way) || !crosses(&crossing, &way, WAITING))
		return;
	crossing.seq = of_tcp(sk, copied_seq);
	crossing.len = result;
	EACH(received, &crossing);
	/* Not by `way`: to keep that takes more stack than Linux 6.1 has left here. */
	if (*(volatile __u32 *)&followed.on_the_way)
		give_back(crossing.way.ports, crossing.way.addresses, crossing.net, crossing.seq);
	add(totals.spent, bpf_ktime_get_ns() - crossing.now);
	if (crossing.service.weight)
		service_begins(&crossing.service);
}

/* ---- system calls, of whichever thread runs here ---- */

static __always_inline void pass_switch(void)
{
	struct processor *processor = here();

	processor->since = bpf_ktime_get_ns();
	processor->returned = 0;
	processor->calls_since = processor->calls;
}

static __always_inline void pass_return(void)
{
	struct processor *processor = here();

	if (!processor->returned) {
		processor->returned = bpf_ktime_get_ns();
		processor->calls_returned = processor->calls;
	}
	processor->calls += 1;
}

static __always_inline void pass_call(void)
{
	struct processor *processor = here();

	processor->called = bpf_ktime_get_ns();
	processor->calls_called = processor->calls;
	processor->calls += 1;
}

/* ---- hooks ---- */

#define ON_THE_WAY_ONLY                                                                                               \
	if (!*(volatile __u32 *)&followed.on_the_way)                                                                 \
		return 0;
#define WAITING_ONLY                                                                                                  \
	if (!*(volatile __u32 *)&followed.waiting)                                                                    \
		return 0;

#define SENDER(section, name, left, ...)                                                                              \
	SEC(section) int BPF_PROG(name, ##__VA_ARGS__)                                                                \
	{                                                                                                             \
		pass_sender(sk, left);                                                                                \
		return 0;                                                                                             \
	}

SENDER("tp_btf/tcp_sendmsg_locked", tcp_sendmsg_locked, BPF_CORE_READ((const struct msghdr___observe *)msg, msg_iter.count),
       const struct sock *sk, const struct msghdr *msg)
SENDER("fentry/tcp_sendmsg_locked", fentry_tcp_sendmsg_locked, size, const struct sock *sk, const struct msghdr *msg,
       unsigned long size)

#define GATE(section, name, only, body, ...)                                                                          \
	SEC(section) int BPF_PROG(name, ##__VA_ARGS__)                                                                \
	{                                                                                                             \
		only body;                                                                                            \
		return 0;                                                                                             \
	}

GATE("tp_btf/net_dev_queue", net_dev_queue, ON_THE_WAY_ONLY, pass_out(skb, net_of_skb(skb), DEVICE_IN), struct sk_buff *skb)
GATE("tp_btf/net_dev_start_xmit", net_dev_start_xmit, ON_THE_WAY_ONLY, pass_out(skb, net_of_skb(skb), DRIVER), struct sk_buff *skb)
GATE("tp_btf/net_dev_xmit", net_dev_xmit, ON_THE_WAY_ONLY, pass_driver_end(skb, result), struct sk_buff *skb, int result)
GATE("tp_btf/netif_rx_entry", netif_rx_entry, ON_THE_WAY_ONLY, pass_in(skb, skb->data, net_of_skb(skb), DRIVER_END), struct sk_buff *skb)
GATE("tp_btf/netif_receive_skb", netif_receive_skb, ON_THE_WAY_ONLY, pass_in(skb, skb->data, net_of_skb(skb), IP_IN), struct sk_buff *skb)
/* The same where samples begin at wires, too. */
GATE("tp_btf/netif_receive_skb", netif_receive_wire,
     if (pass_wire(skb)) return 0; ON_THE_WAY_ONLY, pass_in(skb, skb->data, net_of_skb(skb), IP_IN), struct sk_buff *skb)
GATE("tp_btf/tcp_probe", tcp_probe, ON_THE_WAY_ONLY, pass_tcp(sk, skb), struct sock *sk, struct sk_buff *skb)
GATE("tp_btf/sk_data_ready", sk_data_ready, ON_THE_WAY_ONLY, pass_ready(sk), struct sock *sk)
GATE("fentry/sock_def_readable", fentry_sock_def_readable, ON_THE_WAY_ONLY, pass_ready(sk), struct sock *sk)
GATE("tp_btf/sched_switch", sched_switch, WAITING_ONLY, pass_switch(), bool preempted)
GATE("tp_btf/sys_exit", sys_exit, WAITING_ONLY, pass_return(), const void *registers, long result)
GATE("tp_btf/sys_enter", sys_enter, WAITING_ONLY, pass_call(), const void *registers, long number)
GATE("tp_btf/skb_copy_datagram_iovec", skb_copy_datagram_iovec, WAITING_ONLY, pass_copy(skb, len), struct sk_buff *skb,
     int len)
GATE("tp_btf/sock_recv_length", sock_recv_length, WAITING_ONLY, pass_received(sk, result, flags), struct sock *sk,
     int result, int flags)
/* The kernel has this tracepoint since 6.3; as a function it ends with the same, since 5.19 with the flags in this place. */
SEC("fexit/tcp_recvmsg") int BPF_PROG(fexit_tcp_recvmsg, struct sock *sk, struct msghdr *msg, unsigned long size, int flags)
{
	__u64 result = 0;

	WAITING_ONLY
	if (!bpf_get_func_ret(ctx, &result))
		pass_received(sk, (int)result, flags);
	return 0;
}

GATE("fentry/ip_queue_xmit", fentry_ip_queue_xmit, ON_THE_WAY_ONLY, pass_handed(sk, skb), struct sock *sk,
     struct sk_buff *skb)
GATE("fentry/inet6_csk_xmit", fentry_inet6_csk_xmit, ON_THE_WAY_ONLY, pass_handed(sk, skb), struct sock *sk,
     struct sk_buff *skb)
GATE("fentry/tcp_v4_rcv", fentry_tcp_v4_rcv, ON_THE_WAY_ONLY, pass_in(skb, network_header(skb), net_of_skb(skb), DEMUX),
     struct sk_buff *skb)
GATE("fentry/tcp_v6_rcv", fentry_tcp_v6_rcv, ON_THE_WAY_ONLY, pass_in(skb, network_header(skb), net_of_skb(skb), DEMUX),
     struct sk_buff *skb)

#define FILTER(name, body)                                                                                            \
	SEC("netfilter") int name(struct bpf_nf_ctx *ctx)                                                             \
	{                                                                                                             \
		if (*(volatile __u32 *)&followed.on_the_way)                                                          \
			body;                                                                                         \
		return NF_ACCEPT;                                                                                     \
	}

FILTER(nf_local_out, pass_out(ctx->skb, ctx->state->net->ns.inum, IP_OUT))
FILTER(nf_local_in, pass_in(ctx->skb, network_header(ctx->skb), ctx->state->net->ns.inum, DEMUX))

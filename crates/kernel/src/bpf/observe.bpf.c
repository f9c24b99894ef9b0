// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Traffic that is already there, by samples.
 *
 * A sample follows one byte of a stream, the first of a piece that is copied into a socket (or of a segment that comes in by a
 * wire), through every gate until the reader has it. Which skb carries the byte does not matter: clones, GSO, GRO, coalescing and
 * retransmission change skbs, not sequence numbers. So all gates agree on what is sampled without a word between them.
 *
 * While nothing is followed a gate is one compare. Where a sample is over, its spans are added to histograms here; only slow
 * passages are written out whole.
 *
 * Nothing here decides anything about a packet: netfilter programs accept, the others cannot do otherwise.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "observe.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct settings settings SEC(".bss.settings");
struct totals totals SEC(".bss.totals");
struct processor processors[CPUS] SEC(".bss.processors");
struct passage passages[BUCKETS * WAYS] SEC(".bss.passages");
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
#define of_tcp(sk, field) BPF_CORE_READ((const struct tcp_sock *)(sk), field)

#include "observe_flow.h"

/* ---- samples ---- */

/* Whether this candidate is the one in N. The gaps are drawn at random, so that no rhythm of the traffic meets a rhythm here. */
static __always_inline bool drawn(struct countdown *countdown)
{
	__u32 every = *(volatile __u32 *)&settings.every;

	countdown->seen += 1;
	if (countdown->left > 1) {
		countdown->left -= 1;
		return 0;
	}
	if (!every)
		return 0;
	countdown->left = 1 + bpf_get_prandom_u32() % (2 * every - 1);
	return 1;
}

/* A way that is divided into spans, and how much of it was which. */
struct division {
	__u64 from;
	__u64 sum[2];
	__u32 weight;
	__u32 whole;
};

/*
 * Some functions are global, not for others to call but because the verifier looks at a global function once, for all its callers
 * together.
 */
int free_place(__u32 ports);
int enter(__u32 span, __u64 ns, __u32 weight);
int divide(struct division *division, __u32 span, __u32 kind, __u64 to);
int fold_in(__u32 index);

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

/* Begins to follow a byte; none when all places of its bucket are taken. */
static __always_inline struct passage *begin(const struct flow *flow, __u32 seq)
{
	int index = free_place(flow->ports);
	struct passage *passage = &passages[index & (BUCKETS * WAYS - 1)];

	if (index < 0) {
		add(totals.skipped, 1);
		return 0;
	}
	__builtin_memset(passage->at, 0, sizeof(passage->at));
	__builtin_memset(&passage->sender, 0, sizeof(struct passage) - offsetof(struct passage, sender));
	passage->flow = *flow;
	passage->mixed = mixed(flow);
	passage->seq = seq;
	passage->weight = settings.every;
	add(totals.begun, 1);
	return passage;
}

static __always_inline void follow(struct passage *passage)
{
	add(followed.on_the_way, 1);
	*(volatile __u32 *)&passage->state = ON_THE_WAY;
}

/* The way to a span's histogram: 64 buckets to an octave, so the middle of one is within 0.8 % of each time in it. */
static __always_inline __u32 place(__u64 ns)
{
	__u64 rest = ns;
	__u32 octave = 0;

	if (ns < FINEST)
		return ns;
	if (rest >> 32)
		octave += 32, rest >>= 32;
	if (rest >> 16)
		octave += 16, rest >>= 16;
	if (rest >> 8)
		octave += 8, rest >>= 8;
	if (rest >> 4)
		octave += 4, rest >>= 4;
	if (rest >> 2)
		octave += 2, rest >>= 2;
	if (rest >> 1)
		octave += 1;
	return (octave - FINEST_BITS + 1) * FINEST + (ns >> (octave - FINEST_BITS) & (FINEST - 1));
}

__noinline int enter(__u32 span, __u64 ns, __u32 weight)
{
	struct histogram *histogram;
	__u32 at = place(ns);

	if (span >= SPANS)
		return 0;
	histogram = &histograms[span];
	if (at >= PLACES)
		at = PLACES - 1;
	add(histogram->samples, 1);
	add(histogram->weight, weight);
	add(histogram->sum, ns * weight);
	add(histogram->place[at], weight);
	return 0;
}

/* The next span of the way; `kind` 0 is processing, 1 is queueing. A gate that was not passed leaves a hole. */
__noinline int divide(struct division *division, __u32 span, __u32 kind, __u64 to)
{
	if (!division)
		return 0;
	if (!division->from || !to) {
		division->whole = 0;
	} else if (to < division->from) {
		add(totals.backwards, 1);
	} else {
		__u64 ns = to - division->from;
		enter(span, ns, division->weight);
		division->sum[kind & 1] += ns;
	}
	division->from = to;
	return 0;
}

static __always_inline void remember(struct counts *first, struct counts *last, const struct counts *now)
{
	if (!now->segments_in && !now->segments_out)
		return;
	if (!first->segments_in && !first->segments_out)
		*first = *now;
	*last = *now;
}

/* Read each time, so that the verifier need not go all ways that flags can go together. */
#define has(flag) (*(volatile __u32 *)&passage->flags & (flag))

/* The passage is over: adds its spans, its connection's costs, and writes it out when it was slow. */
__noinline int fold_in(__u32 index)
{
	struct passage *passage = &passages[index & (BUCKETS * WAYS - 1)];
	const volatile __u64 *at = passage->at;
	__u32 weight = passage->weight;
	struct division out = {.from = at[SENT], .weight = weight, .whole = 1};
	struct division in = {.from = at[DRIVER_END], .weight = weight, .whole = 1};
	__u64 first = at[SENT] ? at[SENT] : at[IP_IN];
	__u64 last = at[END] ? at[END] : at[DRIVER_END];

	if (!has(WANTED)) {
		add(totals.unwanted, 1);
		return 0;
	}
	if (at[SENT]) {
		__u32 begins = has(RETRANSMITTED) ? RETRANSMISSION : has(DEFERRED) ? SEND_QUEUE : TCP_OUT;
		if (settings.has_ip_out) {
			divide(&out, begins, begins != TCP_OUT, at[IP_OUT]);
			divide(&out, IP_OUT_SPAN, 0, at[DEVICE_IN]);
		} else {
			divide(&out, begins == TCP_OUT ? TCP_IP_OUT : begins, begins != TCP_OUT, at[DEVICE_IN]);
		}
		divide(&out, DEVICE_QUEUE, 1, at[DRIVER]);
		divide(&out, DRIVER_OUT, 0, at[DRIVER_END]);
		if (!out.whole)
			add(totals.holes, 1);
		if (at[DRIVER_END] > at[SENT])
			enter(TRANSMIT, at[DRIVER_END] - at[SENT], weight);
	}
	if (at[END]) {
		if (has(BY_WIRE))
			in.from = at[IP_IN];
		else
			divide(&in, IP_QUEUE, 1, at[IP_IN]);
		__u64 begin = has(BY_WIRE) ? at[IP_IN] : at[DRIVER_END];
		if (settings.has_demux) {
			divide(&in, IP_IN_SPAN, 0, at[DEMUX]);
			divide(&in, has(BACKLOG) ? BACKLOG_SPAN : DEMUX_SPAN, !!has(BACKLOG), at[TCP_IN]);
		} else {
			divide(&in, has(BACKLOG) ? BACKLOG_SPAN : IP_DEMUX_IN, !!has(BACKLOG), at[TCP_IN]);
		}
		divide(&in, has(DISORDER) ? REORDER : TCP_IN_SPAN, !!has(DISORDER), at[READY]);
		if (has(AWAKE)) {
			divide(&in, SOCKET_QUEUE, 1, at[COPY]);
		} else {
			divide(&in, WAKEUP, 1, at[RUNS]);
			divide(&in, RESUME, 0, at[COPY]);
		}
		divide(&in, SOCKET_IN, 0, at[END]);
		if (!in.whole)
			add(totals.holes, 1);
		if (begin && at[END] > begin)
			enter(RECEIVE, at[END] - begin, weight);
		if (at[SENT] && at[END] > at[SENT])
			enter(WHOLE, at[END] - at[SENT], weight);
		add(totals.finished, 1);
	} else {
		add(totals.left, 1);
	}
	enter(PROCESSING, out.sum[0] + in.sum[0], weight);
	enter(QUEUEING, out.sum[1] + in.sum[1], weight);

	add(totals.ipv6, passage->flow.family == 6);
	add(totals.backlog, !!has(BACKLOG));
	add(totals.deferred, !!has(DEFERRED));
	add(totals.retransmitted, !!has(RETRANSMITTED));
	add(totals.disorder, !!has(DISORDER));
	add(totals.forwarded, !!has(FORWARDED));
	add(totals.shared, passage->received > passage->message && passage->message);
	add(totals.gso, passage->gso_out > 1);
	add(totals.gro, passage->gso_in > 1);

	bool is_slow = settings.slower_than && last > first && last - first >= settings.slower_than;
	if (is_slow) {
		add(totals.slow, 1);
		if (bpf_ringbuf_output(&slow, passage, sizeof(*passage), 0))
			add(totals.slow_lost, 1);
	}

	struct usage *usage = bpf_map_lookup_elem(&flows, &passage->flow);
	if (!usage) {
		/* The zeros that a new entry begins with. */
		static const struct usage nothing;
		bpf_map_update_elem(&flows, &passage->flow, &nothing, BPF_NOEXIST);
		usage = bpf_map_lookup_elem(&flows, &passage->flow);
		if (!usage) {
			add(totals.flows_lost, 1);
			return 0;
		}
	}
	add(usage->samples, 1);
	add(usage->weight, weight);
	add(usage->processing_out, out.sum[0] * weight);
	add(usage->queueing_out, out.sum[1] * weight);
	add(usage->processing_in, in.sum[0] * weight);
	add(usage->queueing_in, in.sum[1] * weight);
	add(usage->slow, is_slow);
	remember(&usage->first_out, &usage->last_out, &passage->counted_out);
	remember(&usage->first_in, &usage->last_in, &passage->counted_in);
	if (at[SENT]) {
		usage->sender = passage->sender;
		__builtin_memcpy(usage->sender_name, passage->sender_name, 16);
	}
	if (at[END]) {
		usage->reader = passage->reader;
		__builtin_memcpy(usage->reader_name, passage->reader_name, 16);
	}
	return 0;
}

static __always_inline void finish(__u32 index, __u32 state)
{
	struct passage *passage = &passages[index & (BUCKETS * WAYS - 1)];

	if (__sync_val_compare_and_swap(&passage->state, state, ENDING) != state)
		return;
	if (state == WAITING)
		add(followed.waiting, -1);
	else
		add(followed.on_the_way, -1);
	fold_in(index);
	*(volatile __u32 *)&passage->state = FREE;
}

/* Something crosses a gate: which followed bytes it may hold, and what is noted of them. */
struct crossing {
	__u64 now;
	const struct sk_buff *skb;
	const struct sock *sk;
	/* The first place of the bucket, and a bit for each way that is of the flow. */
	__u32 first;
	__u32 ways;
	/* The piece of the stream; `len` is missing where all before `seq` crosses. */
	__u32 seq;
	__u32 len;
	__u32 gate;
};

/* Finds the bytes of a flow that are followed and in a state; without a branch for each, for the verifier's sake. */
static __always_inline bool crosses(struct crossing *crossing, const struct flow *flow, __u32 state)
{
	__u32 ports = flow->ports, addresses = mixed(flow), ways = 0;

	crossing->first = bucket(ports) * WAYS;
	for (int way = 0; way < WAYS; way++) {
		const struct passage *passage = &passages[(crossing->first + way) & (BUCKETS * WAYS - 1)];
		__u64 differs = (passage->state ^ state) | (passage->flow.ports ^ ports) | (passage->mixed ^ addresses);
		/* The highest bit is set where nothing differs. */
		ways |= (__u32)((differs - 1) >> 63) << way;
	}
	crossing->ways = ways;
	return ways;
}

static __always_inline struct passage *crossed(const struct crossing *crossing, __u32 way)
{
	if (!(crossing->ways >> (way & (WAYS - 1)) & 1))
		return 0;
	return &passages[(crossing->first + way) & (BUCKETS * WAYS - 1)];
}

static __always_inline bool holds(const struct crossing *crossing, const struct passage *passage)
{
	return passage->seq - crossing->seq < crossing->len;
}

/* ---- gates ---- */

/* A piece of a message is about to be copied into the socket. */
static __always_inline void pass_sender(const struct sock *sk, __u32 left)
{
	struct flow flow = {};
	struct passage *passage;
	__u64 who;

	here()->messages += 1;
	if (settings.operations && !(flow_of(sk, 1, &flow) && passes(&flow)))
		return;
	if (!drawn(&here()->sent))
		return;
	if (!settings.operations && !flow_of(sk, 1, &flow))
		return;
	passage = begin(&flow, of_tcp(sk, write_seq));
	if (!passage)
		return;
	who = bpf_get_current_pid_tgid();
	passage->sender.thread = (__u32)who;
	passage->sender.group = who >> 32;
	bpf_get_current_comm(passage->sender_name, sizeof(passage->sender_name));
	passage->message = left;
	if (watched_end(sk, who >> 32))
		passage->flags = WANTED;
	counted(sk, &passage->counted_out);
	passage->at[SENT] = bpf_ktime_get_ns();
	follow(passage);
}

static __always_inline __u16 pieces(const struct sk_buff *skb)
{
	const struct sk_buff___observe *known = (const struct sk_buff___observe *)skb;
	const struct skb_shared_info *shared = (const void *)(known->head + known->end);

	return BPF_CORE_READ(shared, gso_segs);
}

static long out(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);
	const struct sk_buff *skb = crossing->skb;
	__u32 gate = crossing->gate & 3;

	if (!passage || !holds(crossing, passage))
		return 0;
	if (passage->at[IP_IN]) {
		if (gate == DEVICE_IN)
			passage->flags |= FORWARDED;
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
		struct processor *processor = here();
		passage->interface = device ? device->ifindex : 0;
		processor->driving = (crossing->first + way) & (BUCKETS * WAYS - 1);
		processor->driven = (__u64)skb;
	}
	return 0;
}

/* A packet passes on its way out. */
static __always_inline void pass_out(const struct sk_buff *skb, __u32 gate)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .skb = skb, .gate = gate};
	struct segment segment = {};

	if (!segment_of(skb, network_header(skb), &segment) || !crosses(&crossing, &segment.flow, ON_THE_WAY))
		return;
	crossing.seq = segment.seq;
	crossing.len = segment.len;
	bpf_loop(WAYS, out, &crossing, 0);
}

/* TCP hands a segment to IP: the TCP header is what the data begins with, and there is no IP header yet. */
static __always_inline void pass_handed(const struct sock *sk, const struct sk_buff *skb)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .skb = skb, .gate = IP_OUT};
	struct flow flow = {};
	struct tcp_header tcp;

	if (!flow_of(sk, 1, &flow) || !crosses(&crossing, &flow, ON_THE_WAY) ||
	    bpf_probe_read_kernel(&tcp, sizeof(tcp), skb->data))
		return;
	__u32 length = skb->len, header = (tcp.offset >> 4) * 4;
	if (length <= header || length > 1 << 20)
		return;
	crossing.seq = bpf_ntohl(tcp.seq);
	crossing.len = length - header;
	bpf_loop(WAYS, out, &crossing, 0);
}

static __always_inline bool is_wire(const struct net_device___observe *device)
{
	__u32 index = device->ifindex;

	/* The list ends at the first 0. */
	for (int at = 0; at < WIRES && settings.wires[at]; at++)
		if (settings.wires[at] == index)
			return device->nd_net.net->ns.inum == settings.namespace;
	return 0;
}

/* The driver has returned; the skb may be gone by now. */
static __always_inline void pass_driver_end(const struct sk_buff *skb, const struct net_device___observe *device)
{
	struct processor *processor = here();
	__u32 index;

	if (processor->driven != (__u64)skb)
		return;
	index = processor->driving;
	processor->driven = 0;
	if (index >= BUCKETS * WAYS || !is_wire(device))
		return;
	struct passage *passage = &passages[index];
	if (passage->state != ON_THE_WAY || passage->at[IP_IN] || !passage->at[DRIVER])
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

	if (!passage || !holds(crossing, passage) || passage->at[TCP_IN])
		return 0;
	/* A byte that is sent again before it has come in passes the driver again, too. */
	if (passage->at[gate] && !(gate == DRIVER_END && !passage->at[IP_IN]))
		return 0;
	passage->at[gate] = crossing->now;
	return 0;
}

/* A packet passes on its way in, before it has found its socket. */
static __always_inline void pass_in(const struct sk_buff *skb, const unsigned char *network, __u32 gate)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .gate = gate};
	struct segment segment = {};

	if (!segment_of(skb, network, &segment) || !crosses(&crossing, &segment.flow, ON_THE_WAY))
		return;
	crossing.seq = segment.seq;
	crossing.len = segment.len;
	bpf_loop(WAYS, in, &crossing, 0);
}

/* A segment comes in by a wire: its first byte may be followed. */
static __always_inline void pass_wire(const struct sk_buff *skb)
{
	struct segment segment = {};
	struct passage *passage;
	const struct net_device___observe *device = skb_device(skb);

	here()->messages += 1;
	if (!device || !is_wire(device) || !segment_of(skb, skb->data, &segment))
		return;
	if (settings.operations && !passes(&segment.flow))
		return;
	if (!drawn(&here()->arrived))
		return;
	passage = begin(&segment.flow, segment.seq);
	if (!passage)
		return;
	passage->flags = BY_WIRE;
	passage->interface = device->ifindex;
	passage->at[IP_IN] = bpf_ktime_get_ns();
	follow(passage);
}

static long tcp(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);
	const struct sock *sk = crossing->sk;

	if (!passage || !holds(crossing, passage) || passage->at[TCP_IN])
		return 0;
	passage->at[TCP_IN] = crossing->now;
	/* The owner of the socket works on what came while it held the lock. */
	if (((const struct sock___observe *)sk)->sk_lock.owned)
		passage->flags |= BACKLOG;
	if ((__s32)(crossing->seq - of_tcp(sk, rcv_nxt)) > 0)
		passage->flags |= DISORDER;
	passage->received = crossing->len;
	passage->gso_in = pieces(crossing->skb);
	counted(sk, &passage->counted_in);
	return 0;
}

static __always_inline void pass_tcp(const struct sock *sk, const struct sk_buff *skb)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .skb = skb, .sk = sk};
	struct segment segment = {};

	if (!segment_of(skb, network_header(skb), &segment) || !crosses(&crossing, &segment.flow, ON_THE_WAY))
		return;
	crossing.seq = segment.seq;
	crossing.len = segment.len;
	bpf_loop(WAYS, tcp, &crossing, 0);
}

static long ready(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);

	if (!passage || !passage->at[IP_IN] || (__s32)(crossing->seq - passage->seq) <= 0)
		return 0;
	/* Before the state, which lets the reader's gates at it. */
	passage->at[READY] = crossing->now;
	if (__sync_val_compare_and_swap(&passage->state, ON_THE_WAY, WAITING) != ON_THE_WAY)
		return 0;
	add(followed.waiting, 1);
	add(followed.on_the_way, -1);
	return 0;
}

static __always_inline void pass_ready(const struct sock *sk)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns()};
	struct flow flow = {};

	if (!flow_of(sk, 0, &flow) || !crosses(&crossing, &flow, ON_THE_WAY))
		return;
	crossing.seq = of_tcp(sk, rcv_nxt);
	bpf_loop(WAYS, ready, &crossing, 0);
}

static long copy(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);
	__u64 since = here()->since;

	if (!passage || !holds(crossing, passage) || passage->at[COPY])
		return 0;
	passage->at[COPY] = crossing->now;
	if (since > passage->at[READY])
		passage->at[RUNS] = since;
	else
		passage->flags |= AWAKE;
	return 0;
}

static __always_inline void pass_copy(const struct sk_buff *skb, __u32 len)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .len = len};
	const struct sock *sk = skb->sk;
	struct flow flow = {};

	if (!sk || !flow_of(sk, 0, &flow) || !crosses(&crossing, &flow, WAITING))
		return;
	crossing.seq = of_tcp(sk, copied_seq);
	bpf_loop(WAYS, copy, &crossing, 0);
}

static long received(__u32 way, struct crossing *crossing)
{
	struct passage *passage = crossed(crossing, way);
	__u64 who = bpf_get_current_pid_tgid();

	if (!passage || (__s32)(crossing->seq - passage->seq) <= 0)
		return 0;
	passage->at[END] = crossing->now;
	passage->reader.thread = (__u32)who;
	passage->reader.group = who >> 32;
	bpf_get_current_comm(passage->reader_name, sizeof(passage->reader_name));
	if (watched_end(crossing->sk, who >> 32))
		passage->flags |= WANTED;
	if (settings.interface && settings.interface != passage->interface)
		passage->flags &= ~WANTED;
	finish(crossing->first + way, WAITING);
	return 0;
}

static __always_inline void pass_received(const struct sock *sk, int result, int flags)
{
	struct crossing crossing = {.now = bpf_ktime_get_ns(), .sk = sk};
	struct flow flow = {};

	if (result <= 0 || flags & MSG_PEEK || ((const struct sock___observe *)sk)->sk_protocol != IPPROTO_TCP ||
	    !flow_of(sk, 0, &flow) || !crosses(&crossing, &flow, WAITING))
		return;
	crossing.seq = of_tcp(sk, copied_seq);
	bpf_loop(WAYS, received, &crossing, 0);
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

GATE("tp_btf/net_dev_queue", net_dev_queue, ON_THE_WAY_ONLY, pass_out(skb, DEVICE_IN), struct sk_buff *skb)
GATE("tp_btf/net_dev_start_xmit", net_dev_start_xmit, ON_THE_WAY_ONLY, pass_out(skb, DRIVER), struct sk_buff *skb)
GATE("tp_btf/net_dev_xmit", net_dev_xmit, ON_THE_WAY_ONLY,
     pass_driver_end(skb, (const struct net_device___observe *)device), struct sk_buff *skb, int rc,
     struct net_device *device)
GATE("tp_btf/netif_rx_entry", netif_rx_entry, ON_THE_WAY_ONLY, pass_in(skb, skb->data, DRIVER_END), struct sk_buff *skb)
GATE("tp_btf/netif_receive_skb", netif_receive_skb, ON_THE_WAY_ONLY, pass_in(skb, skb->data, IP_IN), struct sk_buff *skb)
/* The same where samples begin at wires, too. */
GATE("tp_btf/netif_receive_skb", netif_receive_wire, pass_wire(skb); ON_THE_WAY_ONLY, pass_in(skb, skb->data, IP_IN),
     struct sk_buff *skb)
GATE("tp_btf/tcp_probe", tcp_probe, ON_THE_WAY_ONLY, pass_tcp(sk, skb), struct sock *sk, struct sk_buff *skb)
GATE("tp_btf/sk_data_ready", sk_data_ready, ON_THE_WAY_ONLY, pass_ready(sk), struct sock *sk)
GATE("fentry/sock_def_readable", fentry_sock_def_readable, ON_THE_WAY_ONLY, pass_ready(sk), struct sock *sk)
GATE("tp_btf/sched_switch", sched_switch, WAITING_ONLY, here()->since = bpf_ktime_get_ns(), bool preempted)
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
GATE("fentry/tcp_v4_rcv", fentry_tcp_v4_rcv, ON_THE_WAY_ONLY, pass_in(skb, network_header(skb), DEMUX),
     struct sk_buff *skb)
GATE("fentry/tcp_v6_rcv", fentry_tcp_v6_rcv, ON_THE_WAY_ONLY, pass_in(skb, network_header(skb), DEMUX),
     struct sk_buff *skb)

#define FILTER(name, body)                                                                                            \
	SEC("netfilter") int name(struct bpf_nf_ctx *ctx)                                                             \
	{                                                                                                             \
		if (*(volatile __u32 *)&followed.on_the_way)                                                          \
			body;                                                                                         \
		return NF_ACCEPT;                                                                                     \
	}

FILTER(nf_local_out, pass_out(ctx->skb, IP_OUT))
FILTER(nf_local_in, pass_in(ctx->skb, network_header(ctx->skb), DEMUX))

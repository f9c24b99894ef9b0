/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * What becomes of a passage that is over: its spans go to histograms, less what the gates took of them. Part of observe.bpf.c, whose
 * settings and maps it reads.
 */
#ifndef TOLLGATE_OBSERVE_ROWS_H
#define TOLLGATE_OBSERVE_ROWS_H

/* A way that is divided into spans, and how much of it was which. */
struct division {
	__u64 from;
	__s64 sum[4];
	/* Of the gates, which is in no sum; the last is of those before a hole. */
	__u64 taken[4];
	__u32 weight;
	__u32 whole;
};

/*
 * Some functions are global, not for others to call but because the verifier looks at a global function once, for all its callers
 * together.
 */
int enter(__u32 span, __s64 ns, __u64 taken, __u32 weight);
int divide(struct division *division, __u32 span, __u32 kind, __u64 to, __u32 cost);
int fold_in(__u32 index);

/* The highest bit that is set, of 32 at most. */
static __always_inline __u32 highest(__u32 rest)
{
	__u32 bit = 0;

	if (rest >> 16)
		bit += 16, rest >>= 16;
	if (rest >> 8)
		bit += 8, rest >>= 8;
	if (rest >> 4)
		bit += 4, rest >>= 4;
	if (rest >> 2)
		bit += 2, rest >>= 2;
	return bit + (rest >> 1);
}

/*
 * The way to a span's histogram: 64 buckets to an octave, so the middle of one is within 0.8 % of each time in it. What is below 0 is in the
 * first: a percentile there is 0, and those above it are what they are.
 */
static __always_inline __u32 place(__s64 signed_ns)
{
	__u64 ns = signed_ns < 0 ? 0 : signed_ns;
	__u32 octave = ns >> 32 ? 32 + highest(ns >> 32) : highest(ns);

	if (ns < FINEST)
		return ns;
	return (octave - FINEST_BITS + 1) * FINEST + (ns >> (octave - FINEST_BITS) & (FINEST - 1));
}

/*
 * Adds a time to a span's histogram, and what was taken off it for the gates. It is negative where that was more than there was: cut off at 0,
 * such times would make the mean of short spans too long.
 */
__noinline int enter(__u32 span, __s64 ns, __u64 taken, __u32 weight)
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
	add(histogram->taken, taken * weight);
	add(histogram->place[at], weight);
	return 0;
}

/*
 * The next span of the way; `kind` 0 is processing, 1 is queueing, 2 is the application's. `cost` is what the gate that it begins with took of it. A gate that
 * was not passed leaves a hole.
 */
__noinline int divide(struct division *division, __u32 span, __u32 kind, __u64 to, __u32 cost)
{
	if (!division)
		return 0;
	if (!division->from || !to) {
		division->whole = 0;
		division->taken[3] += cost;
	} else if (to < division->from) {
		add(totals.backwards, 1);
	} else {
		__s64 ns = to - division->from - cost;
		if (ns < 0)
			add(totals.shorter, 1);
		enter(span, ns, cost, division->weight);
		division->sum[kind & 3] += ns;
		division->taken[kind & 3] += cost;
	}
	division->from = to;
	return 0;
}

/* Notes what a socket had counted at a time; from `first` to `last` is what was counted while the connection was seen. */
static __always_inline void remember(struct counts *first, struct counts *last, const struct counts *now, __u64 *last_at, __u64 at)
{
	/* Bytes need not come to their end in the order in which they were sent. */
	if ((!now->segments_in && !now->segments_out) || at <= *last_at)
		return;
	*last_at = at;
	if (!first->segments_in && !first->segments_out) {
		*first = *now;
	} else if ((__s32)(now->segments_in - last->segments_in) < 0 || (__s32)(now->segments_out - last->segments_out) < 0) {
		/* Counts that go back are those of another socket: the ports are used again. */
		first->segments_in += now->segments_in - last->segments_in;
		first->data_in += now->data_in - last->data_in;
		first->segments_out += now->segments_out - last->segments_out;
		first->data_out += now->data_out - last->data_out;
		first->retransmitted += now->retransmitted - last->retransmitted;
	}
	*last = *now;
}

static __always_inline __u64 taken_of(const struct division *division)
{
	return division->taken[0] + division->taken[1] + division->taken[2] + division->taken[3];
}

static __always_inline void enter_sum(__u32 span, __u64 from, __u64 to, __u64 taken, __u32 weight)
{
	if (from && to >= from)
		enter(span, to - from - taken, taken, weight);
}

/* The passage is over: adds its spans, its connection's costs, and writes it out when it was slow. */
__noinline int fold_in(__u32 index)
{
	struct passage *passage = passage_at(index);
	const volatile __u64 *at = passage->at;
	const volatile __u32 *cost = passage->cost;
	__u32 weight = passage->weight;
	struct division out = {.from = at[SENT], .weight = weight, .whole = 1};
	struct division in = {.from = at[DRIVER_END], .weight = weight, .whole = 1};
	__u64 first = at[SENT] ? at[SENT] : at[IP_IN];
	__u64 last = at[END] ? at[END] : at[DRIVER_END];
	__u64 spent = 0;

	for (int gate = 0; gate < STAMPS; gate++)
		spent += cost[gate];
	add(totals.spent, spent);
	if (!has(WANTED)) {
		add(totals.unwanted, 1);
		return 0;
	}
	if (at[SENT]) {
		__u32 begins = has(RETRANSMITTED) ? RETRANSMISSION : has(DEFERRED) ? SEND_QUEUE : TCP_OUT;
		if (settings.has_ip_out) {
			divide(&out, begins, begins != TCP_OUT, at[IP_OUT], cost[SENT]);
			divide(&out, IP_OUT_SPAN, 0, at[DEVICE_IN], cost[IP_OUT]);
		} else {
			divide(&out, begins == TCP_OUT ? TCP_IP_OUT : begins, begins != TCP_OUT, at[DEVICE_IN], cost[SENT]);
		}
		divide(&out, DEVICE_QUEUE, 1, at[DRIVER], cost[DEVICE_IN]);
		divide(&out, DRIVER_OUT, 0, at[DRIVER_END], cost[DRIVER]);
		if (!out.whole)
			add(totals.holes, 1);
		enter_sum(TRANSMIT, at[SENT], at[DRIVER_END], taken_of(&out), weight);
	}
	if (at[END]) {
		if (has(BY_WIRE))
			in.from = at[IP_IN];
		else
			divide(&in, IP_QUEUE, 1, at[IP_IN], cost[DRIVER_END]);
		if (settings.has_demux) {
			divide(&in, IP_IN_SPAN, 0, at[DEMUX], cost[IP_IN]);
			divide(&in, has(BACKLOG) ? BACKLOG_SPAN : DEMUX_SPAN, !!has(BACKLOG), at[TCP_IN], cost[DEMUX]);
		} else {
			divide(&in, has(BACKLOG) ? BACKLOG_SPAN : IP_DEMUX_IN, !!has(BACKLOG), at[TCP_IN], cost[IP_IN]);
		}
		divide(&in, has(DISORDER) ? REORDER : TCP_IN_SPAN, !!has(DISORDER), at[READY], cost[TCP_IN]);
		__u64 call = at[CALLED] ? at[CALLED] : at[COPY];
		if (has(READER_RUNNING)) {
			divide(&in, SOCKET_QUEUE, 1, call, cost[READY]);
		} else {
			divide(&in, WAKEUP, 1, at[RUNS], cost[READY]);
			if (at[RETURNED])
				divide(&in, RESUME, 0, at[RETURNED], cost[RUNS]);
			if (at[CALLED])
				divide(&in, APPLICATION, 2, call, cost[at[RETURNED] ? RETURNED : RUNS]);
			else
				divide(&in, RESUME, 0, call, cost[RUNS]);
		}
		if (at[CALLED])
			divide(&in, SYSCALL_IN, 0, at[COPY], cost[CALLED]);
		divide(&in, SOCKET_IN, 0, at[END], cost[COPY]);
		if (!in.whole)
			add(totals.holes, 1);
		enter_sum(RECEIVE, has(BY_WIRE) ? at[IP_IN] : at[DRIVER_END], at[END], taken_of(&in), weight);
		enter_sum(WHOLE, at[SENT], at[END], taken_of(&out) + taken_of(&in), weight);
		add(totals.finished, 1);
	} else {
		add(totals.left, 1);
	}
	enter(PROCESSING, out.sum[0] + in.sum[0], out.taken[0] + in.taken[0], weight);
	enter(QUEUEING, out.sum[1] + in.sum[1], out.taken[1] + in.taken[1], weight);
	add(totals.taken, taken_of(&out) + taken_of(&in));

	add(totals.ipv6, passage->flow.family == 6);
	add(totals.backlog, !!has(BACKLOG));
	add(totals.deferred, !!has(DEFERRED));
	add(totals.retransmitted, !!has(RETRANSMITTED));
	add(totals.disorder, !!has(DISORDER));
	add(totals.forwarded, !!has(FORWARDED));
	add(totals.shared, passage->received > passage->message && passage->message);
	add(totals.gso, passage->gso_out > 1);
	add(totals.gro, passage->gso_in > 1);

	bool is_slow = settings.slower_than && last >= first + taken_of(&out) + taken_of(&in) + settings.slower_than;
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
	usage->remote_net = at[END] ? passage->net : passage->flow.net;
	remember(&usage->first_out, &usage->last_out, &passage->counted_out, &usage->out_at, at[SENT]);
	remember(&usage->first_in, &usage->last_in, &passage->counted_in, &usage->in_at, at[END]);
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

#endif

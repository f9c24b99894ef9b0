/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Services: from the return of a reader to the next that it sends on the connection. Part of observe.bpf.c, whose settings and maps it
 * reads.
 */
#ifndef TOLLGATE_OBSERVE_SERVICES_H
#define TOLLGATE_OBSERVE_SERVICES_H

/* The place of a connection by the direction of the answer; who comes later takes it over. */
static __always_inline struct service *service_of(const struct way *way)
{
	return &services[(way->ports ^ way->addresses) * 2654435769U >> (32 - SERVICE_BITS)];
}

/* The last that the gate of a reader does. */
static __always_inline void service_begins(const struct service *new)
{
	struct service *service = service_of(&new->way);

	*(volatile __u64 *)&service->since = 0;
	service->way = new->way;
	service->thread = new->thread;
	service->weight = new->weight;
	*(volatile __u64 *)&service->since = bpf_ktime_get_ns();
}

static __always_inline void turn_ends(const struct sock *sk, __u64 now)
{
	struct service *service;
	struct way way;

	if (!way_of(sk, 1, &way))
		return;
	service = service_of(&way);
	__u64 since = *(volatile __u64 *)&service->since;
	if (!since || service->way.ports != way.ports || service->way.addresses != way.addresses ||
	    service->thread != (__u32)bpf_get_current_pid_tgid())
		return;
	service->since = 0;
	/* Between the end of one gate and the beginning of another lies one call, and a return from a system call and the next one. */
	__u64 calls = (settings.has_calls ? 3 : 1) * settings.call;
	enter(SERVICE, now - since - calls, calls, service->weight);
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Gates at functions of the kernel (fentry), included by gates.bpf.c: for kernels that lack the tracepoints or the netfilter links
 * of a boundary, and where a function lies nearer to it.
 */
#ifndef TOLLGATE_FUNCTIONS_H
#define TOLLGATE_FUNCTIONS_H

/* TCP hands a segment to IP: the TCP header is what the data begins with, and there is no IP header yet. */
static __always_inline void pass_segment(const struct sock *sk, const struct sk_buff *skb, __u8 gate, __u8 flags)
{
	COST_BEFORE_STAMP(is_watched_socket(sk));
	const __u64 ktime = bpf_ktime_get_ns();
	struct way way;
	struct tcp_header tcp;

	if (!watched_socket(sk, 1, &way) || bpf_probe_read_kernel(&tcp, sizeof(tcp), skb->data))
		return;
	__u32 length = skb->len, header = (tcp.offset >> 4) * 4;
	if (length <= header) {
		if (!settings.acknowledgments)
			return;
		length = header;
		flags |= ACKNOWLEDGMENT;
	}
	record(ktime, way, bpf_ntohl(tcp.seq), length - header, 0, gate, flags);
}

GATE("fentry/tcp_sendmsg_locked", fentry_tcp_sendmsg_locked, pass_sender(sk, flags), struct sock *sk)
GATE("fentry/ip_queue_xmit", fentry_ip_queue_xmit, pass_segment(sk, skb, IP_OUT_BEGIN, flags), struct sock *sk,
     struct sk_buff *skb)
GATE("fentry/inet6_csk_xmit", fentry_inet6_csk_xmit, pass_segment(sk, skb, IP_OUT_BEGIN, flags), struct sock *sk,
     struct sk_buff *skb)
GATE("fentry/tcp_v4_rcv", fentry_tcp_v4_rcv, pass_packet(skb, network_header(skb), DEMUX_BEGIN, flags),
     struct sk_buff *skb)
GATE("fentry/tcp_v6_rcv", fentry_tcp_v6_rcv, pass_packet(skb, network_header(skb), DEMUX_BEGIN, flags),
     struct sk_buff *skb)
GATE("fentry/sock_def_readable", fentry_sock_def_readable, pass_receiver(sk, 1, SOCKET_QUEUED, flags),
     struct sock *sk)

#endif

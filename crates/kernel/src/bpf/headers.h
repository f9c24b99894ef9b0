/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Headers of packets and fields of sockets, read where they lie when the kernel allows that (bpf_rdonly_cast, Linux 6.2), which
 * calls nobody; else copied. To be included after the headers of libbpf.
 */
#ifndef TOLLGATE_HEADERS_H
#define TOLLGATE_HEADERS_H

/* A connection in one direction. */
struct way {
	/* Source port above destination port, as on the wire. */
	__u32 ports;
	/* Both addresses, mixed. */
	__u32 addresses;
};

/*
 * The kernel's types of headers and of TCP's sockets. Where the loader finds bpf_rdonly_cast the verifier takes the pointer as one
 * to such a type and the load stands in the program itself; where it does not, `copied` is read instead.
 */
void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

#define CASTS (&bpf_rdonly_cast != 0)
#define CAST(type, address) ((const struct type *)bpf_rdonly_cast((const void *)(address), bpf_core_type_id_kernel(struct type)))
/* A byte that C knows as two fields of bits. */
#define BYTE(header, at) (((const __u8 *)(header))[at])
/* Where such bytes lie. */
#define VERSION 0
#define DATA_OFFSET 12

/* What of a TCP segment's headers is looked at. */
struct headers {
	struct way way;
	__be16 source;
	__be16 destination;
	__be32 seq;
	/* Bytes of both headers. */
	__u32 length;
	/* Bytes of the packet as IP tells them, which go without what Ethernet padded; 0 where they are too many for the field (BIG TCP). */
	__u32 total;
};

/* The part of an IPv4 header's field that tells where a fragment belongs. Later ones have no header of TCP. */
#define FRAGMENT_OFFSET 0x1fff

/*
 * Whether TCP follows an IPv6 header or the hop-by-hop options behind it, which Linux itself puts into packets of more than 65,535 bytes; where
 * it begins. Other extension headers are not looked behind.
 */
static __always_inline bool tcp_behind_ipv6(const unsigned char *network, __u8 next, __u32 *at)
{
	struct {
		__u8 next;
		__u8 length;
	} options;

	*at = sizeof(struct ipv6_header);
	if (next != IPPROTO_HOPOPTS)
		return next == IPPROTO_TCP;
	if (bpf_probe_read_kernel(&options, sizeof(options), network + *at))
		return 0;
	*at += 8 + options.length * 8;
	return options.next == IPPROTO_TCP;
}

/* The same of an IPv6 header's field, which does not count that header. */
static __always_inline __u32 total_of_ipv6(__be16 payload)
{
	return payload ? sizeof(struct ipv6_header) + bpf_ntohs(payload) : 0;
}

static __always_inline bool cast_headers(const unsigned char *network, struct headers *to)
{
	const struct iphdr *v4 = CAST(iphdr, network);
	__u8 version_length = BYTE(v4, VERSION);

	if (version_length >> 4 == 4) {
		if (v4->protocol != IPPROTO_TCP || v4->frag_off & bpf_htons(FRAGMENT_OFFSET))
			return 0;
		to->total = bpf_ntohs(v4->tot_len);
		to->way.addresses = mix(v4->saddr, v4->daddr);
		to->length = (version_length & 15) * 4;
	} else if (version_length >> 4 == 6) {
		const struct ipv6hdr *v6 = CAST(ipv6hdr, network);

		if (!tcp_behind_ipv6(network, v6->nexthdr, &to->length))
			return 0;
		to->total = total_of_ipv6(v6->payload_len);
		to->way.addresses = mix(FOLD(v6->saddr), FOLD(v6->daddr));
	} else {
		return 0;
	}
	const struct tcphdr *tcp = CAST(tcphdr, network + to->length);
	to->source = tcp->source;
	to->destination = tcp->dest;
	to->seq = tcp->seq;
	to->length += (BYTE(tcp, DATA_OFFSET) >> 4) * 4;
	return 1;
}

static __always_inline bool copied_headers(const unsigned char *network, struct headers *to)
{
	struct {
		struct ipv4_header ip;
		struct tcp_header tcp;
	} v4;
	struct {
		struct ipv6_header ip;
		struct tcp_header tcp;
	} v6;
	const struct tcp_header *tcp = &v4.tcp;

	if (bpf_probe_read_kernel(&v4, sizeof(v4), network))
		return 0;
	if (v4.ip.version_length >> 4 == 4) {
		if (v4.ip.protocol != IPPROTO_TCP || v4.ip.fragment & bpf_htons(FRAGMENT_OFFSET))
			return 0;
		to->total = bpf_ntohs(v4.ip.total);
		to->length = (v4.ip.version_length & 15) * 4;
		if (to->length != sizeof(v4.ip) && bpf_probe_read_kernel(&v4.tcp, sizeof(v4.tcp), network + to->length))
			return 0;
		to->way.addresses = mix(v4.ip.source, v4.ip.destination);
	} else if (v4.ip.version_length >> 4 == 6) {
		if (bpf_probe_read_kernel(&v6, sizeof(v6), network) || !tcp_behind_ipv6(network, v6.ip.next, &to->length))
			return 0;
		if (to->length != sizeof(v6.ip) && bpf_probe_read_kernel(&v6.tcp, sizeof(v6.tcp), network + to->length))
			return 0;
		to->total = total_of_ipv6(v6.ip.payload);
		to->way.addresses = mix(fold(v6.ip.source), fold(v6.ip.destination));
		tcp = &v6.tcp;
	} else {
		return 0;
	}
	to->source = tcp->source;
	to->destination = tcp->destination;
	to->seq = tcp->seq;
	to->length += (tcp->offset >> 4) * 4;
	return 1;
}

static __always_inline bool headers_of(const unsigned char *network, struct headers *to)
{
	return CASTS ? cast_headers(network, to) : copied_headers(network, to);
}

/* Bytes of payload of a segment in an skb whose IP header begins at `network`. */
static __always_inline __u32 payload_of(const struct sk_buff *skb, const unsigned char *network, const struct headers *headers)
{
	/* What of the skb lies before the IP header is not counted, whatever has been pulled. */
	__u32 length = skb->len - (__u32)(network - skb->data);

	/* Before IP has cut the padding off. What TCP has merged in a socket's backlog is longer than its header tells. */
	if (network == skb->data && headers->total && headers->total < length)
		length = headers->total;
	return length > headers->length ? length - headers->length : 0;
}

static __always_inline const unsigned char *network_header(const struct sk_buff *skb)
{
	return skb->head + skb->network_header;
}

/* A field of a type that the verifier does not know an address to be of. */
#define FIELD(address, type, field)                                                                                   \
	(CASTS ? CAST(type, address)->field : BPF_CORE_READ((const struct type *)(address), field))

#endif

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What queues ask of a packet: its flow, its host, and whether it may be marked.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/ppp_defs.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/ipv6.h>

#include "sched.h"

/* Most VLAN tags that are walked over, as in crates/matching/src/frame.rs. */
#define FL_MAX_TAGS 4

/* What is known of an IP packet. Of no IP packet everything is zero. */
struct fl_ip {
	int at; /* from skb->data on */
	u8 dsfield;
	/* IPv4 addresses as IPv6 has them, so that none is taken for one of the other kind. */
	struct in6_addr source, destination;
};

static __be16 fl_be16(const struct sk_buff *skb, int at)
{
	__be16 copy, *found = skb_header_pointer(skb, at, sizeof(copy), &copy);

	return found ? *found : 0;
}

/*
 * The kind of the packet that begins at *at. A frame is read from its first byte on: what the kernel takes for the network header is behind the
 * tags of some frames, and before those of others.
 */
static __be16 fl_network(const struct sk_buff *skb, int *at)
{
	__be16 kind;
	int tags;

	*at = skb_network_offset(skb);
	if (skb->dev->type != ARPHRD_ETHER || !skb_mac_header_was_set(skb))
		return skb_protocol(skb, true);
	*at = skb_mac_offset(skb) + ETH_HLEN;
	kind = fl_be16(skb, *at - 2);
	for (tags = 0; eth_type_vlan(kind) || kind == htons(ETH_P_QINQ1); tags++) {
		if (tags == FL_MAX_TAGS)
			return 0;
		*at += VLAN_HLEN;
		kind = fl_be16(skb, *at - 2);
	}
	if (kind != htons(ETH_P_PPP_SES))
		return kind;
	/* Version 1, type 1, code 0; then session, length and what PPP carries. */
	if (fl_be16(skb, *at) != htons(0x1100))
		return 0;
	*at += 8;
	switch (fl_be16(skb, *at - 2)) {
	case htons(PPP_IP):
		return htons(ETH_P_IP);
	case htons(PPP_IPV6):
		return htons(ETH_P_IPV6);
	}
	return 0;
}

static void fl_read_ip(const struct sk_buff *skb, struct fl_ip *ip)
{
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	} copy;
	const struct iphdr *v4;
	const struct ipv6hdr *v6;
	int at;

	switch (fl_network(skb, &at)) {
	case htons(ETH_P_IP):
		v4 = skb_header_pointer(skb, at, sizeof(*v4), &copy);
		if (!v4 || v4->version != 4 || v4->ihl < 5 || skb->len - at < 4 * v4->ihl)
			return;
		ip->dsfield = ipv4_get_dsfield(v4);
		ipv6_addr_set_v4mapped(v4->saddr, &ip->source);
		ipv6_addr_set_v4mapped(v4->daddr, &ip->destination);
		break;
	case htons(ETH_P_IPV6):
		v6 = skb_header_pointer(skb, at, sizeof(*v6), &copy);
		if (!v6 || v6->version != 6)
			return;
		ip->dsfield = ipv6_get_dsfield(v6);
		ip->source = v6->saddr;
		ip->destination = v6->daddr;
		break;
	default:
		return;
	}
	ip->at = at;
}

static void fl_host_mac(const struct sk_buff *skb, bool source, u8 *address)
{
	const struct ethhdr *header;
	struct ethhdr copy;

	memset(address, 0, sizeof_field(struct fl_host, address));
	if (skb->dev->type != ARPHRD_ETHER || !skb_mac_header_was_set(skb))
		return;
	header = skb_header_pointer(skb, skb_mac_offset(skb), sizeof(copy), &copy);
	if (header)
		memcpy(address + 10, source ? header->h_source : header->h_dest, ETH_ALEN);
}

void fl_label(const struct fl_sched *q, struct sk_buff *skb, struct fl_call *call, struct fl_host *host)
{
	u8 by = q->table.facts.hosts ? q->table.hosts_of[call->class] : FL_BY_NOTHING;
	bool active = q->table.facts.active_queues;
	struct fl_ip ip = {};
	u64 halves[2];

	if (active || by == FL_BY_SOURCE_IP || by == FL_BY_DESTINATION_IP)
		fl_read_ip(skb, &ip);
	if (active) {
		call->handle |= FL_FLOW(skb_get_hash(skb));
		/* The kernel marks where it takes the network header to be. */
		if (ip.at == skb_network_offset(skb) && !INET_ECN_is_not_ect(ip.dsfield))
			call->handle |= FL_ECN_CAPABLE;
	}
	switch (by) {
	case FL_BY_NOTHING:
		return;
	case FL_BY_SOURCE_IP:
		memcpy(host->address, &ip.source, sizeof(host->address));
		break;
	case FL_BY_DESTINATION_IP:
		memcpy(host->address, &ip.destination, sizeof(host->address));
		break;
	default:
		fl_host_mac(skb, by == FL_BY_SOURCE_MAC, host->address);
	}
	memcpy(halves, host->address, sizeof(halves));
	host->hash = siphash_2u64(halves[0], halves[1], &q->key);
	call->host = host;
}

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the files of the queueing discipline share. */
#ifndef FAIRLINK_SCHED_H
#define FAIRLINK_SCHED_H

#include <linux/siphash.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "fairlink.h"

#define FL_WHY_LEN 128

/* Attributes of TCA_OPTIONS: one of them. */
enum {
	TCA_FAIRLINK_UNSPEC,
	TCA_FAIRLINK_CONFIG, /* bytes of crates/schema */
	TCA_FAIRLINK_FILE, /* __u32: a descriptor of the sender's, of a file in memory that holds them */
	__TCA_FAIRLINK_MAX,
};
#define TCA_FAIRLINK_MAX (__TCA_FAIRLINK_MAX - 1)

/* Most bytes of a configuration. */
#define FL_CONFIG_MAX (32u << 20)
/* Most bytes of a record of crates/schema. */
#define FL_RECORD_MAX 512

/*
 * Application statistics of the queueing discipline, and of a class. Numbers are the machine's. The record is as long as record_len says, and the
 * last in the attribute. Records of one generation are of one configuration.
 */
struct fl_xstats {
	__u32 version; /* 2 */
	__u32 broken;
	__u64 generation; /* how often it was changed */
	__u64 allocations;
	__u64 super_frames; /* queued as the packets that they stand for */
	struct fl_sampled sampled;
	__u32 classes; /* with the link */
	__u32 record_len;
	char why[FL_WHY_LEN];
	__u8 record[FL_RECORD_MAX]; /* the link's */
};

struct fl_class_xstats {
	__u32 version; /* 2 */
	__u32 leaf;
	__u64 generation;
	__u64 guarantee; /* bit/s */
	__u64 received[2], sent[2], dropped[2], marked[2], queued[2];
	__u64 too_long, lent_bytes; /* bytes */
	struct fl_sampled sampled;
	__u32 index; /* among the records, from 1 */
	__u32 parent_minor;
	__u32 record_len;
	__u32 reserved;
	__u8 record[FL_RECORD_MAX];
};

/* What is known of the classes without asking Rust, for one configuration. */
struct fl_table {
	struct fl_facts facts;
	u32 minors; /* one above the largest */
	u32 *class_of; /* by minor number: index of the class, 0 for none; the highest bit for inner classes */
	u16 *minor_of; /* by index */
	u16 *parent_of; /* by index: the minor number of the parent, 0 for the link */
	u8 *hosts_of; /* by index: what tells the hosts apart that share a class, 0 where none do */
	/* Slots of packets; the other side knows a packet by its slot. */
	u32 slots;
	u32 kept; /* of these; the others are not used again and are given back once they are empty */
	struct sk_buff **packets;
	u32 *next_free; /* by slot; of a free one */
};
#define FL_INNER (1u << 31)
#define FL_NO_SLOT U32_MAX

struct fl_sched {
	struct fl_link *link;
	struct fl_table table;
	u32 free; /* the first free slot */
	bool broken;
	/* Of the call that is running. */
	struct sk_buff **to_free;
	u32 arriving;
	bool arrival_dropped;
	bool frees_later; /* with the RTNL lock, after which the kernel frees packets and yields meanwhile */
	unsigned int others_dropped, others_len;
	struct fl_host host;
	u64 super_frames;
	siphash_key_t key; /* of hosts */

	struct tcf_proto __rcu *filters;
	struct tcf_block *block;
	struct qdisc_watchdog watchdog;
	struct delayed_work sampling;
	struct Qdisc *sch;
	struct fl_memory memory;
	struct Qdisc_ops *broken_ops; /* what it has after a panic */
	char why[FL_WHY_LEN];
};

extern const struct Qdisc_class_ops fl_class_ops;

/* The class of a minor number; 0 for none, with FL_INNER for one that has classes below it. */
static inline u32 fl_class_of(const struct fl_table *table, u32 minor)
{
	return minor < table->minors ? table->class_of[minor] : 0;
}

/* Takes a slot for a packet; FL_NO_SLOT where there is none. */
static inline u32 fl_slot_take(struct fl_sched *q, struct sk_buff *skb)
{
	u32 slot = q->free;

	if (likely(slot != FL_NO_SLOT)) {
		q->free = q->table.next_free[slot];
		q->table.packets[slot] = skb;
	}
	return slot;
}

/* The packet of a slot, which is free then; NULL where there is none. */
static inline struct sk_buff *fl_slot_give(struct fl_sched *q, u32 slot)
{
	struct sk_buff *skb;

	if (unlikely(slot >= q->table.slots))
		return NULL;
	skb = q->table.packets[slot];
	if (likely(skb)) {
		WRITE_ONCE(q->table.packets[slot], NULL);
		if (likely(slot < q->table.kept)) {
			q->table.next_free[slot] = q->free;
			q->free = slot;
		}
	}
	return skb;
}

static inline void fl_uncount(struct Qdisc *sch, const struct sk_buff *skb)
{
	sch->q.qlen--;
	sch->qstats.backlog -= qdisc_pkt_len(skb);
}

/* When a packet came, for the order in a FIFO after a panic. */
struct fl_cb {
	u64 arrived;
};

static inline struct fl_cb *fl_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct fl_cb));
	return (struct fl_cb *)qdisc_skb_cb(skb)->data;
}

/* Fills a table for a link that is made, or for one that a change makes; slots at least `least`. */
int fl_table_make(struct fl_table *table, const struct fl_facts *facts, u32 least);
/* Numbers of the classes of the link, or of a change to it. */
int fl_table_number(struct fl_table *table, const struct fl_link *link, const struct fl_change *change);
void fl_table_free(struct fl_table *table);
/* All slots are free from `first` on. */
void fl_slots_free(struct fl_sched *q, u32 first);
/* Slots to the last one that has a packet. */
u32 fl_slots_used(const struct fl_table *table);
/* Moves the packets of `old` with their slots to the larger table that has taken its place. With the lock. */
void fl_slots_move(struct fl_sched *q, const struct fl_table *old);
/* Gives slots back that are not kept, once they are empty. With the RTNL lock, and without that of the packets. */
void fl_slots_shrink(struct Qdisc *sch);

/* What tells hosts apart; kernel/core/src/lib.rs, Numbers. */
enum { FL_BY_NOTHING, FL_BY_SOURCE_IP, FL_BY_DESTINATION_IP, FL_BY_SOURCE_MAC, FL_BY_DESTINATION_MAC };

/* Puts into a call what the queue of its class asks of the packet: flow, ECN, and the host, for which there is room in `host`. */
void fl_label(const struct fl_sched *q, struct sk_buff *skb, struct fl_call *call, struct fl_host *host);

/* The error in words. */
void fl_tell(struct netlink_ext_ack *extack, const char *text);

/* Makes a link, or a change to one, out of options. What it allocates is on the list; on an error there is nothing. */
int fl_made(struct nlattr *options, struct fl_make *make, struct fl_memory *memory, struct netlink_ext_ack *extack);

/* The other side panicked: what is queued goes into a FIFO, in the order of arrival, and nothing is called there again. With the lock held. */
void fl_break_down(struct Qdisc *sch);

/* Counters of network namespaces. */
int fl_spaces_init(void);
void fl_spaces_exit(void);
/* That of the pieces of memory of all links there. */
long *fl_space_count(const struct net *net);

/* Samples the counters of classes each second, from the start on. */
void fl_sampling_init(struct Qdisc *sch);
void fl_sampling_start(struct Qdisc *sch);

/* Asks about a class, under the lock; -ENOENT after a panic. The record goes to FL_RECORD_MAX bytes. */
long fl_ask(struct Qdisc *sch, struct fl_about *about, u8 *record);

/* Puts the rate of a class or of the link where tc looks for it. */
int fl_put_rate(struct gnet_dump *dump, const struct fl_sampled *sampled);

int fl_qdisc_dump_stats(struct Qdisc *sch, struct gnet_dump *dump);

#endif

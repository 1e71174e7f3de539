/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the files of the queueing discipline share. */
#ifndef FAIRLINK_SCHED_H
#define FAIRLINK_SCHED_H

#include <linux/skbuff.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "fairlink.h"

#define FL_WHY_LEN 128

/* Attributes of TCA_OPTIONS. */
enum {
	TCA_FAIRLINK_UNSPEC,
	TCA_FAIRLINK_CONFIG, /* bytes of crates/qdisc */
	__TCA_FAIRLINK_MAX,
};
#define TCA_FAIRLINK_MAX (__TCA_FAIRLINK_MAX - 1)

/* Application statistics of the queueing discipline, and of a class. Numbers are the machine's. */
struct fl_xstats {
	__u32 version; /* 1 */
	__u32 broken;
	__u64 rate;
	__u64 allocations;
	__u32 classes;
	__u32 default_minor;
	char scheduler[32];
	char why[FL_WHY_LEN];
	__u64 super_frames; /* queued as the packets that they stand for */
};

struct fl_class_xstats {
	__u32 version; /* 1 */
	__u32 leaf;
	__u64 rate;
	__u64 received[2], sent[2], dropped[2], marked[2], queued[2];
	__u64 lent_bytes;
	__u32 parent_minor;
	__u32 name_len;
	char name[256];
};

/* What is known of the classes without asking Rust, for one configuration. */
struct fl_table {
	struct fl_facts facts;
	u32 minors; /* one above the largest */
	u32 *class_of; /* by minor number: index of the class, 0 for none; the highest bit for inner classes */
	u16 *minor_of; /* by index */
	/* Slots of packets; the other side knows a packet by its slot. */
	u32 slots;
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
	unsigned int others_dropped, others_len;
	u64 super_frames;

	struct tcf_proto __rcu *filters;
	struct tcf_block *block;
	struct qdisc_watchdog watchdog;
	struct list_head memory;
	char why[FL_WHY_LEN];
};

extern const struct Qdisc_class_ops fl_class_ops;

/* The class of a minor number; 0 for none, with FL_INNER for one that has classes below it. */
static inline u32 fl_class_of(const struct fl_table *table, u32 minor)
{
	return minor < table->minors ? table->class_of[minor] : 0;
}

/* Asks about a class under the lock; -ENOENT after a panic. */
long fl_ask(struct Qdisc *sch, struct fl_about *about);

#endif

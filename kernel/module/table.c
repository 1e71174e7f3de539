// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The table of slots that packets are in, and what becomes of them there: the other side drops and marks them by slot. After a panic they go
 * into a FIFO.
 */
#include <linux/list_sort.h>
#include <linux/mm.h>
#include <linux/rtnetlink.h>
#include <net/inet_ecn.h>

#include "sched.h"

void fl_table_free(struct fl_table *table)
{
	kvfree(table->class_of);
	kvfree(table->minor_of);
	kvfree(table->parent_of);
	kvfree(table->hosts_of);
	kvfree(table->packets);
	kvfree(table->next_free);
	memset(table, 0, sizeof(*table));
}

static int fl_table_slots(struct fl_table *table, u32 slots)
{
	table->slots = slots;
	table->kept = table->facts.packets;
	table->packets = kvcalloc(slots, sizeof(*table->packets), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	table->next_free = kvcalloc(slots, sizeof(*table->next_free), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	return table->packets && table->next_free ? 0 : -ENOMEM;
}

int fl_table_make(struct fl_table *table, const struct fl_facts *facts, u32 least)
{
	memset(table, 0, sizeof(*table));
	table->facts = *facts;
	table->minors = 1u << 16;
	table->class_of = kvcalloc(table->minors, sizeof(*table->class_of), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	table->minor_of = kvcalloc(facts->classes, sizeof(*table->minor_of), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	table->parent_of = kvcalloc(facts->classes, sizeof(*table->parent_of), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	table->hosts_of = kvcalloc(facts->classes, sizeof(*table->hosts_of), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!table->class_of || !table->minor_of || !table->parent_of || !table->hosts_of ||
	    fl_table_slots(table, max(facts->packets, least))) {
		fl_table_free(table);
		return -ENOMEM;
	}
	return 0;
}

int fl_table_number(struct fl_table *table, const struct fl_link *link, const struct fl_change *change)
{
	struct fl_numbers numbers = {
		.link = link,
		.change = change,
		.minors = table->minor_of,
		.parents = table->parent_of,
		.hosts = table->hosts_of,
		.minors_len = table->facts.classes,
		.classes = table->class_of,
		.classes_len = table->minors,
		.inner = FL_INNER,
	};
	char why[FL_WHY_LEN];

	return fl_control(fl_numbers, &numbers, NULL, why, sizeof(why)) ? -EINVAL : 0;
}

void fl_slots_free(struct fl_sched *q, u32 first)
{
	u32 slot;

	for (slot = q->table.slots; slot-- > first;) {
		q->table.next_free[slot] = q->free;
		q->free = slot;
	}
}

u32 fl_slots_used(const struct fl_table *table)
{
	u32 slots = table->slots;

	while (slots && !READ_ONCE(table->packets[slots - 1]))
		slots--;
	return slots;
}

void fl_slots_move(struct fl_sched *q, const struct fl_table *old)
{
	u32 slot;

	memcpy(q->table.packets, old->packets, old->slots * sizeof(*old->packets));
	if (old->kept == old->slots && q->table.kept >= old->slots) {
		memcpy(q->table.next_free, old->next_free, old->slots * sizeof(*old->next_free));
		fl_slots_free(q, old->slots);
		return;
	}
	q->free = FL_NO_SLOT;
	for (slot = q->table.kept; slot-- > 0;) {
		if (!q->table.packets[slot]) {
			q->table.next_free[slot] = q->free;
			q->free = slot;
		}
	}
}

void fl_slots_shrink(struct Qdisc *sch)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct fl_table smaller = { .facts = q->table.facts };

	/* Those that are not kept are only ever emptied. */
	if (q->table.kept == q->table.slots || fl_slots_used(&q->table) > q->table.kept)
		return;
	if (!fl_table_slots(&smaller, q->table.kept)) {
		sch_tree_lock(sch);
		memcpy(smaller.packets, q->table.packets, smaller.slots * sizeof(*smaller.packets));
		memcpy(smaller.next_free, q->table.next_free, smaller.slots * sizeof(*smaller.next_free));
		swap(q->table.packets, smaller.packets);
		swap(q->table.next_free, smaller.next_free);
		q->table.slots = smaller.slots;
		sch_tree_unlock(sch);
	}
	/* Without memory for less, the next sample tries again. */
	fl_table_free(&smaller);
}

void fl_host_dropped(void *owner, u64 handle, u32 len, u32 class, u32 reason)
{
	struct Qdisc *sch = owner;
	struct fl_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = fl_slot_give(q, (u32)handle);

	if (unlikely(!skb))
		return;
	fl_uncount(sch, skb);
	qdisc_qstats_drop(sch);
	if ((u32)handle == q->arriving) {
		q->arrival_dropped = true;
	} else {
		q->others_dropped++;
		q->others_len += qdisc_pkt_len(skb);
	}
	if (q->to_free)
		__qdisc_drop(skb, q->to_free);
	else if (q->frees_later)
		rtnl_kfree_skbs(skb, skb);
	else
		kfree_skb(skb);
}

void fl_host_marked(void *owner, u64 handle)
{
	struct Qdisc *sch = owner;
	struct fl_sched *q = qdisc_priv(sch);

	if ((u32)handle < q->table.slots && q->table.packets[(u32)handle])
		INET_ECN_set_ce(q->table.packets[(u32)handle]);
}

void fl_host_moved(void *owner, struct fl_call *call, struct fl_host *host)
{
	struct Qdisc *sch = owner;
	struct fl_sched *q = qdisc_priv(sch);

	if (call->handle < q->table.slots && q->table.packets[call->handle])
		fl_label(q, q->table.packets[call->handle], call, host);
}

static int fl_earlier(void *unused, const struct list_head *a, const struct list_head *b)
{
	u64 one = fl_cb(list_entry(a, struct sk_buff, list))->arrived;
	u64 other = fl_cb(list_entry(b, struct sk_buff, list))->arrived;

	return one < other ? -1 : one > other;
}

void fl_break_down(struct Qdisc *sch)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct sk_buff *skb, *next;
	LIST_HEAD(all);
	u32 slot, moved = 0;

	q->broken = true;
	pr_err("fairlink: %x: %s; packets pass through a FIFO from now on\n", sch->handle >> 16, q->why);
	for (slot = 0; slot < q->table.slots; slot++) {
		skb = q->table.packets[slot];
		q->table.packets[slot] = NULL;
		if (skb) {
			list_add_tail(&skb->list, &all);
			moved++;
		}
	}
	list_sort(NULL, &all, fl_earlier);
	/* These are counted again. One that a parent has peeked at, or that the interface has given back, is counted and in no slot. */
	WRITE_ONCE(sch->q.qlen, sch->q.qlen - moved);
	list_for_each_entry_safe(skb, next, &all, list) {
		skb_list_del_init(skb);
		__qdisc_enqueue_tail(skb, &sch->q);
	}
	WRITE_ONCE(sch->ops, q->broken_ops);
}

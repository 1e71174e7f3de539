// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * fairlink as a queueing discipline: packets go into a table of slots (table.c), the schedulers know them by slot, and a timer asks again when
 * nothing is due. A panic on the other side breaks the discipline, not the machine: from then on packets pass through a FIFO, and
 * its name in `tc qdisc show` is fairlink-broken.
 */
#include <linux/errno.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/version.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#include <net/gso.h>
#endif

#include "sched.h"

static struct Qdisc_ops fl_broken_ops;

/* Our parents are told of packets that were dropped behind their backs. */
static void fl_tell_parents(struct Qdisc *sch)
{
	struct fl_sched *q = qdisc_priv(sch);

	if (unlikely(q->others_dropped)) {
		qdisc_tree_reduce_backlog(sch, q->others_dropped, q->others_len);
		q->others_dropped = 0;
		q->others_len = 0;
	}
}

/* The data path */

#ifndef FL_CLASSIFY_QDISC
/* As in kernels that have this function: a redirection that a filter asks for is not made here, and the packet is dropped. */
static int tcf_classify_qdisc(struct sk_buff *skb, const struct tcf_proto *filters, struct tcf_result *found, bool compat)
{
	int result = tcf_classify(skb, NULL, filters, found, compat);

	return unlikely(result == TC_ACT_REDIRECT) ? TC_ACT_SHOT : result;
}
#endif

/* The class of a filter's result: as it was bound, else by number, if that is one of ours. */
static u32 fl_found(const struct Qdisc *sch, const struct fl_table *table, const struct tcf_result *found)
{
	if (found->class)
		return fl_class_of(table, found->class);
	return TC_H_MAJ(found->classid ^ sch->handle) ? 0 : fl_class_of(table, TC_H_MIN(found->classid));
}

static u32 fl_accounted(const struct fl_facts *facts, u32 len)
{
	u64 wire = (u64)len + facts->overhead_bytes;

	if (wire < facts->overhead_min)
		wire = facts->overhead_min;
	if (facts->framing == 1)
		wire += DIV_ROUND_UP_ULL(wire, 64);
	else if (facts->framing == 2)
		wire = DIV_ROUND_UP_ULL(wire, 48) * 53;
	return min_t(u64, wire, U32_MAX);
}

/*
 * The leaf of a packet: that of skb->priority if it names a class here, else that of the first filter, else that of skb->mark, else
 * the default; 0 for none. A filter can take the packet away, which *result says.
 */
static u32 fl_classify(struct sk_buff *skb, struct Qdisc *sch, int *result)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct tcf_proto *filters;
	struct tcf_result found;
	u32 class = 0;

	*result = NET_XMIT_SUCCESS | __NET_XMIT_BYPASS;
	if (TC_H_MAJ(skb->priority ^ sch->handle) == 0)
		class = fl_class_of(&q->table, TC_H_MIN(skb->priority));
	filters = rcu_dereference_bh(q->filters);
	if (!class && filters) {
		switch (tcf_classify_qdisc(skb, filters, &found, false)) {
#ifdef CONFIG_NET_CLS_ACT
		case TC_ACT_QUEUED:
		case TC_ACT_STOLEN:
		case TC_ACT_TRAP:
			*result = NET_XMIT_SUCCESS | __NET_XMIT_STOLEN;
			fallthrough;
		case TC_ACT_SHOT:
			return 0;
#endif
		case TC_ACT_UNSPEC:
			break;
		default:
			class = fl_found(sch, &q->table, &found);
		}
	}
	if (!class && skb->mark && TC_H_MAJ(skb->mark ^ sch->handle) == 0)
		class = fl_class_of(&q->table, TC_H_MIN(skb->mark));
	return class && !(class & FL_INNER) ? class : q->table.facts.default_class;
}

static int fl_fifo_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	if (likely(sch->q.qlen < 1000))
		return qdisc_enqueue_tail(skb, sch);
	return qdisc_drop(skb, sch, to_free);
}

/* Queues a packet of a class. */
static int fl_queue(struct sk_buff *skb, u32 class, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct fl_call call = {
		.link = q->link,
		.owner = sch,
		.now = ktime_get_ns(),
		.class = class,
		.empty = !sch->q.qlen,
	};
	u32 slot;
	long result;

	call.len = fl_accounted(&q->table.facts, qdisc_pkt_len(skb));
	slot = fl_slot_take(q, skb);
	if (unlikely(slot == FL_NO_SLOT))
		return qdisc_drop(skb, sch, to_free);
	call.handle = slot;
	if (q->table.facts.active_queues || q->table.facts.hosts)
		fl_label(q, skb, &call, &q->host);
	fl_cb(skb)->arrived = call.now;
	/* Counted beforehand, so that a drop can take it back. */
	sch->q.qlen++;
	qdisc_qstats_backlog_inc(sch, skb);
	q->to_free = to_free;
	q->arriving = slot;
	q->arrival_dropped = false;
	result = fl_call(fl_enqueue, &call, q->why, sizeof(q->why));
	q->to_free = NULL;
	q->arriving = FL_NO_SLOT;
	if (unlikely(result == FL_PANICKED))
		fl_break_down(sch);
	fl_tell_parents(sch);
	return q->arrival_dropped ? NET_XMIT_DROP : NET_XMIT_SUCCESS;
}

/* A super-frame that is longer than the link's longest packet is queued as the packets that it stands for. */
static int fl_segment(struct sk_buff *skb, u32 class, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct fl_sched *q = qdisc_priv(sch);
	netdev_features_t features = netif_skb_features(skb);
	unsigned int before = qdisc_pkt_len(skb), len = 0;
	struct sk_buff *segments, *segment, *next;
	int queued = 0;

	segments = skb_gso_segment(skb, features & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segments))
		return qdisc_drop(skb, sch, to_free);
	q->super_frames++;
	skb_list_walk_safe(segments, segment, next) {
		unsigned int segment_len = segment->len;

		skb_mark_not_on_list(segment);
		qdisc_skb_cb(segment)->pkt_len = segment_len;
#ifdef FL_PKT_SEGS
		/* It has the super-frame's. */
		qdisc_skb_cb(segment)->pkt_segs = 1;
#endif
		if (fl_queue(segment, class, sch, to_free) == NET_XMIT_SUCCESS) {
			queued++;
			len += segment_len;
		}
	}
	if (!queued) {
		/* The segments are counted as drops. */
		__qdisc_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	qdisc_tree_reduce_backlog(sch, 1 - queued, before - len);
	consume_skb(skb);
	return NET_XMIT_SUCCESS;
}

static int fl_qdisc_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct fl_sched *q = qdisc_priv(sch);
	int result;
	u32 class;

	if (unlikely(q->broken))
		return fl_fifo_enqueue(skb, sch, to_free);
	class = fl_classify(skb, sch, &result);
	if (unlikely(!class)) {
		if (result & __NET_XMIT_BYPASS)
			qdisc_qstats_drop(sch);
		__qdisc_drop(skb, to_free);
		return result;
	}
	if (skb_is_gso(skb) && fl_accounted(&q->table.facts, qdisc_pkt_len(skb)) > q->table.facts.max_packet)
		return fl_segment(skb, class, sch, to_free);
	return fl_queue(skb, class, sch, to_free);
}

static struct sk_buff *fl_qdisc_dequeue(struct Qdisc *sch)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct fl_call call = { .link = q->link, .owner = sch };
	struct sk_buff *skb;
	long result;

	if (unlikely(q->broken))
		return qdisc_dequeue_head(sch);
	/* The next packet says that there was none. */
	if (!sch->q.qlen)
		return NULL;
	call.now = ktime_get_ns();
	result = fl_call(fl_dequeue, &call, q->why, sizeof(q->why));
	if (unlikely(result == FL_PANICKED)) {
		fl_break_down(sch);
		fl_tell_parents(sch);
		return qdisc_dequeue_head(sch);
	}
	fl_tell_parents(sch);
	if (result == 1) {
		skb = fl_slot_give(q, (u32)call.handle);
		if (likely(skb)) {
			fl_uncount(sch, skb);
			qdisc_bstats_update(sch, skb);
		}
		return skb;
	}
	if (call.wake != U64_MAX) {
		qdisc_qstats_overlimit(sch);
		qdisc_watchdog_schedule_range_ns(&q->watchdog, call.wake, q->table.facts.slack);
	}
	return NULL;
}

static void fl_qdisc_reset(struct Qdisc *sch)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct fl_call call = { .link = q->link, .owner = sch, .now = ktime_get_ns() };

	qdisc_watchdog_cancel(&q->watchdog);
	if (!q->broken && q->link) {
		q->frees_later = true;
		local_bh_disable();
		if (fl_call(fl_reset, &call, q->why, sizeof(q->why)) == FL_PANICKED)
			fl_break_down(sch);
		local_bh_enable();
		q->frees_later = false;
		q->others_dropped = 0;
		q->others_len = 0;
	}
	/* What a FIFO holds is dropped by qdisc_reset_queue(). */
	if (q->broken)
		qdisc_reset_queue(sch);
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

/* Configuration */

static int fl_qdisc_init(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct fl_make make = {};
	int error;

	/* The kernel calls destroy after a failed init, too. */
	qdisc_watchdog_init(&q->watchdog, sch);
	INIT_LIST_HEAD(&q->memory.pieces);
	q->memory.count = fl_space_count(dev_net(qdisc_dev(sch)));
	fl_sampling_init(sch);
	q->free = FL_NO_SLOT;
	q->arriving = FL_NO_SLOT;
	q->broken_ops = &fl_broken_ops;
	get_random_bytes(&q->key, sizeof(q->key));
	error = tcf_block_get(&q->block, &q->filters, sch, extack);
	if (error)
		return error;
	error = fl_made(options, &make, &q->memory, extack);
	if (error)
		return error;
	q->link = make.link;
	error = fl_table_make(&q->table, &make.facts, 0);
	if (error) {
		fl_tell(extack, "there is no memory for the table of packets");
		return error;
	}
	error = fl_table_number(&q->table, q->link, NULL);
	if (error) {
		fl_tell(extack, "it panicked while it numbered its classes");
		return error;
	}
	fl_slots_free(q, 0);
	fl_sampling_start(sch);
	return 0;
}

static int fl_qdisc_change(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct fl_make make = { .link = q->link, .slots = fl_slots_used(&q->table) };
	struct fl_memory memory = { .pieces = LIST_HEAD_INIT(memory.pieces), .count = q->memory.count };
	struct fl_call call = { .link = q->link, .owner = sch };
	struct fl_table table;
	bool failed;
	int error;

	if (READ_ONCE(q->broken)) {
		fl_tell(extack, "it is broken; delete it and add it anew");
		return -EIO;
	}
	error = fl_made(options, &make, &memory, extack);
	if (error)
		return error;
	call.change = make.change;
	error = fl_table_make(&table, &make.facts, q->table.slots);
	if (error) {
		fl_tell(extack, "there is no memory for the table of packets");
	} else {
		error = fl_table_number(&table, q->link, make.change);
		if (error)
			fl_tell(extack, "it panicked while it numbered its classes");
	}
	if (error) {
		fl_table_free(&table);
		call.link = NULL;
		fl_control(fl_release, &call, &memory, q->why, sizeof(q->why));
		return error;
	}

	sch_tree_lock(sch);
	failed = q->broken;
	if (!failed) {
		swap(q->table, table);
		fl_slots_move(q, &table);
		call.now = ktime_get_ns();
		list_splice_init(&memory.pieces, &q->memory.pieces);
		q->frees_later = true;
		if (fl_call(fl_commit, &call, q->why, sizeof(q->why)) == FL_PANICKED) {
			fl_break_down(sch);
			failed = true;
		}
		q->frees_later = false;
		fl_tell_parents(sch);
	}
	sch_tree_unlock(sch);

	fl_table_free(&table);
	if (failed) {
		fl_free_all(&memory);
		fl_tell(extack, q->why);
		return -EIO;
	}
	call.link = NULL;
	fl_control(fl_release, &call, &q->memory, q->why, sizeof(q->why));
	fl_slots_shrink(sch);
	/* A packet may be due earlier than the timer knows. */
	qdisc_watchdog_schedule_ns(&q->watchdog, 0);
	return 0;
}

static void fl_qdisc_destroy(struct Qdisc *sch)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct fl_call call = { .link = q->link };

	qdisc_watchdog_cancel(&q->watchdog);
	cancel_delayed_work_sync(&q->sampling);
	tcf_block_put(q->block);
	if (q->link && !q->broken)
		fl_control(fl_release, &call, &q->memory, q->why, sizeof(q->why));
	q->link = NULL;
	/* Nothing is left but after a panic. */
	fl_free_all(&q->memory);
	fl_table_free(&q->table);
}

static struct Qdisc_ops fl_ops __read_mostly = {
	.id = "fairlink",
	.cl_ops = &fl_class_ops,
	.priv_size = sizeof(struct fl_sched),
	.enqueue = fl_qdisc_enqueue,
	.dequeue = fl_qdisc_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = fl_qdisc_init,
	.reset = fl_qdisc_reset,
	.destroy = fl_qdisc_destroy,
	.change = fl_qdisc_change,
	.dump_stats = fl_qdisc_dump_stats,
	.owner = THIS_MODULE,
};

/* Never registered: what a discipline becomes whose scheduler panicked. */
static struct Qdisc_ops fl_broken_ops __read_mostly = {
	.id = "fairlink-broken",
	.cl_ops = &fl_class_ops,
	.priv_size = sizeof(struct fl_sched),
	.enqueue = fl_qdisc_enqueue,
	.dequeue = fl_qdisc_dequeue,
	.peek = qdisc_peek_dequeued,
	.reset = fl_qdisc_reset,
	.destroy = fl_qdisc_destroy,
	.dump_stats = fl_qdisc_dump_stats,
	.owner = THIS_MODULE,
};

static int __init fl_init(void)
{
	int error = fl_spaces_init();

	if (error)
		return error;
	error = register_qdisc(&fl_ops);
	if (error) {
		fl_spaces_exit();
		return error;
	}
	fl_debug_init();
	return 0;
}

static void __exit fl_exit(void)
{
	fl_debug_exit();
	unregister_qdisc(&fl_ops);
	fl_spaces_exit();
}

module_init(fl_init)
module_exit(fl_exit)
MODULE_ALIAS("net-sch-fairlink");
MODULE_DESCRIPTION("Shares a link among a tree of classes so that the outcome can be predicted");
MODULE_LICENSE("Dual MIT/GPL");

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Classes as tc sees them: `tc -s class show`, and filters that lead to them. A class is its minor number here, which a change of the
 * configuration leaves as it is.
 */
#include <linux/module.h>

#include "sched.h"

static unsigned long fl_find_class(struct Qdisc *sch, u32 classid)
{
	struct fl_sched *q = qdisc_priv(sch);
	u32 minor = TC_H_MIN(classid);

	/* The number of another discipline's class is none here, also in a filter that stands here. */
	if (TC_H_MAJ(classid ^ sch->handle))
		return 0;
	return fl_class_of(&q->table, minor) ? minor : 0;
}

static struct Qdisc *fl_leaf(struct Qdisc *sch, unsigned long minor)
{
	return NULL; /* A leaf is a queue of its own. */
}

static unsigned long fl_bind_filter(struct Qdisc *sch, unsigned long parent, u32 classid)
{
	return fl_find_class(sch, classid);
}

static void fl_unbind_filter(struct Qdisc *sch, unsigned long minor)
{
}

static struct tcf_block *fl_block(struct Qdisc *sch, unsigned long minor, struct netlink_ext_ack *extack)
{
	struct fl_sched *q = qdisc_priv(sch);

	if (minor) {
		NL_SET_ERR_MSG(extack, "fairlink: filters stand at the queueing discipline, not at a class");
		return NULL;
	}
	return q->block;
}

static void fl_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	struct fl_sched *q = qdisc_priv(sch);
	u32 class;

	if (walker->stop)
		return;
	/* What was shown in the messages before is not gone through again. */
	walker->count = max(walker->count, walker->skip);
	for (class = 1 + walker->count; class < q->table.facts.classes; class++)
		if (!tc_qdisc_stats_dump(sch, q->table.minor_of[class], walker))
			break;
}

static int fl_dump_class(struct Qdisc *sch, unsigned long minor, struct sk_buff *skb, struct tcmsg *tcm)
{
	struct fl_sched *q = qdisc_priv(sch);
	u32 parent = q->table.parent_of[fl_class_of(&q->table, minor) & ~FL_INNER];

	tcm->tcm_parent = parent ? TC_H_MAKE(sch->handle, parent) : TC_H_ROOT;
	tcm->tcm_handle = TC_H_MAKE(sch->handle, minor);
	return 0;
}

static int fl_dump_class_stats(struct Qdisc *sch, unsigned long minor, struct gnet_dump *dump)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct fl_about about = { .class = fl_class_of(&q->table, minor) & ~FL_INNER };
	struct fl_class_xstats app = { .version = 2, .index = about.class };
	struct gnet_stats_basic_sync basic;
	struct gnet_stats_queue queue = {};

	gnet_stats_basic_sync_init(&basic);
	if (!fl_ask(sch, &about, app.record)) {
		const struct fl_stats *stats = &about.stats;

		_bstats_update(&basic, stats->sent[1], stats->sent[0]);
		queue.qlen = stats->queued[0];
		queue.backlog = stats->queued[1];
		queue.drops = stats->dropped[0];
		app.leaf = about.leaf;
		app.generation = about.generation;
		app.guarantee = stats->guarantee;
		memcpy(app.received, stats->received, sizeof(app.received));
		memcpy(app.sent, stats->sent, sizeof(app.sent));
		memcpy(app.dropped, stats->dropped, sizeof(app.dropped));
		memcpy(app.marked, stats->marked, sizeof(app.marked));
		memcpy(app.queued, stats->queued, sizeof(app.queued));
		app.too_long = stats->too_long;
		app.lent_bytes = stats->lent_bytes;
		app.sampled = about.sampled;
		app.parent_minor = about.parent_minor;
		app.record_len = about.record_len;
		if (fl_put_rate(dump, &about.sampled))
			return -1;
	}
	if (gnet_stats_copy_basic(dump, NULL, &basic, false) < 0 ||
	    gnet_stats_copy_queue(dump, NULL, &queue, queue.qlen) < 0)
		return -1;
	return gnet_stats_copy_app(dump, &app, offsetof(struct fl_class_xstats, record) + app.record_len);
}

const struct Qdisc_class_ops fl_class_ops = {
	.leaf = fl_leaf,
	.find = fl_find_class,
	.walk = fl_walk,
	.tcf_block = fl_block,
	.bind_tcf = fl_bind_filter,
	.unbind_tcf = fl_unbind_filter,
	.dump = fl_dump_class,
	.dump_stats = fl_dump_class_stats,
};

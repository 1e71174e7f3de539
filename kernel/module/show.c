// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What is shown: rates, which a timer samples, and statistics. Packets pay for none of it.
 */
#include <linux/gen_stats.h>
#include <linux/rtnetlink.h>

#include "sched.h"

/* Where crates/net/src/qdisc/messages.rs looks. */
static_assert(offsetof(struct fl_xstats, sampled) == 32 && offsetof(struct fl_xstats, record) == 208);
static_assert(offsetof(struct fl_class_xstats, sampled) == 120 && offsetof(struct fl_class_xstats, record) == 176);

/* Calls with a lock held, so that packets wait for none of them for long. */
static long fl_locked(struct Qdisc *sch, long (*function)(void *), void *args)
{
	struct fl_sched *q = qdisc_priv(sch);
	long result = -ENOENT;

	sch_tree_lock(sch);
	if (!q->broken)
		result = fl_call(function, args, q->why, sizeof(q->why));
	if (unlikely(result == FL_PANICKED))
		fl_break_down(sch);
	sch_tree_unlock(sch);
	return result;
}

static void fl_sample_all(struct work_struct *work)
{
	struct fl_sched *q = container_of(to_delayed_work(work), struct fl_sched, sampling);
	struct fl_call call = { .link = q->link };
	long result;

	/* The lock of the packets is that of the interface's root, which no longer changes with this one. Nobody waits: its owner may wait for us. */
	if (!rtnl_trylock()) {
		queue_delayed_work(system_power_efficient_wq, &q->sampling, HZ / 50);
		return;
	}
	do {
		call.now = ktime_get_ns();
		result = fl_locked(q->sch, fl_sample, &call);
		cond_resched();
	} while (result == 1);
	fl_slots_shrink(q->sch);
	rtnl_unlock();
	if (!result)
		queue_delayed_work(system_power_efficient_wq, &q->sampling, HZ);
}

void fl_sampling_init(struct Qdisc *sch)
{
	struct fl_sched *q = qdisc_priv(sch);

	q->sch = sch;
	INIT_DELAYED_WORK(&q->sampling, fl_sample_all);
}

void fl_sampling_start(struct Qdisc *sch)
{
	struct fl_sched *q = qdisc_priv(sch);

	queue_delayed_work(system_power_efficient_wq, &q->sampling, 0);
}

long fl_ask(struct Qdisc *sch, struct fl_about *about, u8 *record)
{
	struct fl_sched *q = qdisc_priv(sch);
	long result;

	about->link = q->link;
	about->record = record;
	about->record_len = FL_RECORD_MAX;
	about->next = 0;
	/* Changes and dumps both have the RTNL lock: the classes stay meanwhile. */
	do {
		result = fl_locked(sch, fl_about, about);
	} while (result == 1);
	return result;
}

int fl_put_rate(struct gnet_dump *dump, const struct fl_sampled *sampled)
{
	struct gnet_stats_rate_est64 rate = { .bps = sampled->bytes, .pps = sampled->packets };

	if (sampled->samples < 2)
		return 0;
	return nla_put_64bit(dump->skb, TCA_STATS_RATE_EST64, sizeof(rate), &rate, TCA_STATS_PAD);
}

int fl_qdisc_dump_stats(struct Qdisc *sch, struct gnet_dump *dump)
{
	struct fl_sched *q = qdisc_priv(sch);
	struct fl_about about = {};
	struct fl_xstats app = { .version = 2, .classes = q->table.facts.classes };

	if (!fl_ask(sch, &about, app.record)) {
		app.generation = about.generation;
		app.sampled = about.sampled;
		app.record_len = about.record_len;
		if (fl_put_rate(dump, &about.sampled))
			return -1;
	}
	app.broken = q->broken;
	app.super_frames = READ_ONCE(q->super_frames);
	app.allocations = READ_ONCE(*q->memory.count);
	if (q->broken)
		strscpy(app.why, q->why, sizeof(app.why));
	return gnet_stats_copy_app(dump, &app, offsetof(struct fl_xstats, record) + app.record_len);
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Network namespaces: each has a counter of the pieces of memory that its links have. The parameter `allocations` shows that of the namespace of
 * the process that reads it.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "sched.h"

struct fl_space {
	long allocations;
};

static unsigned int fl_space_id __read_mostly;
/* Under the lock of the module's parameters, which are there before fl_spaces_init() and after fl_spaces_exit(). */
static bool fl_spaces;

long *fl_space_count(const struct net *net)
{
	return &((struct fl_space *)net_generic(net, fl_space_id))->allocations;
}

static int fl_allocations_get(char *to, const struct kernel_param *param)
{
	long count = fl_spaces ? READ_ONCE(*fl_space_count(current->nsproxy->net_ns)) : 0;

	return scnprintf(to, PAGE_SIZE, "%ld\n", count);
}

static const struct kernel_param_ops fl_allocations_ops = { .get = fl_allocations_get };
module_param_cb(allocations, &fl_allocations_ops, NULL, 0400);
MODULE_PARM_DESC(allocations, "pieces of memory that links of the reader's network namespace have now");

static struct pernet_operations fl_space_ops = {
	.id = &fl_space_id,
	.size = sizeof(struct fl_space),
};

static void fl_spaces_set(bool there)
{
	kernel_param_lock(THIS_MODULE);
	fl_spaces = there;
	kernel_param_unlock(THIS_MODULE);
}

int fl_spaces_init(void)
{
	int error = register_pernet_subsys(&fl_space_ops);

	if (!error)
		fl_spaces_set(true);
	return error;
}

void fl_spaces_exit(void)
{
	fl_spaces_set(false);
	unregister_pernet_subsys(&fl_space_ops);
}

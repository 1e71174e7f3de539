// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Faults on purpose, so that the laboratory's debugging kernel shows that it sees them: one for each word that is written to
 * /sys/module/faulty/parameters/fault. For no other kernel.
 */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static DEFINE_SPINLOCK(lock);
static DEFINE_SPINLOCK(first);
static DEFINE_SPINLOCK(second);
static volatile int amount = 40;
static volatile int result;
static char * volatile forgotten;

/* Several, since a pointer may still lie on some stack. */
static void leak(void)
{
	int count;

	for (count = 0; count < 10; count++)
		forgotten = kmalloc(1000, GFP_KERNEL);
	forgotten = NULL;
}

static void sleep(void)
{
	/* No lock that sleeps: lockdep would tell of that first, and then of nothing any more. */
	spin_lock(&lock);
	might_sleep();
	spin_unlock(&lock);
}

static void shift(void)
{
	result = 1 << amount;
}

static void order(void)
{
	spin_lock(&first);
	spin_lock(&second);
	spin_unlock(&second);
	spin_unlock(&first);
	spin_lock(&second);
	spin_lock(&first);
	spin_unlock(&first);
	spin_unlock(&second);
}

static void freed(void)
{
	char *memory = kzalloc(100, GFP_KERNEL);

	if (!memory)
		return;
	kfree(memory);
	result = *(volatile char *)(memory + 50);
}

static void beyond(void)
{
	char *memory = kmalloc(100, GFP_KERNEL);

	if (!memory)
		return;
	((volatile char *)memory)[amount + 60] = 1;
	kfree(memory);
}

/* The schedulers, in Rust, are asked to free what a structure names that is freed itself. It names nothing. */
static void rust(void)
{
	struct kprobe probe = { .symbol_name = "fl_release" };
	long (*release)(void *);
	void *args;

	if (register_kprobe(&probe)) {
		pr_info("faulty: no fl_release\n");
		return;
	}
	release = (void *)probe.addr;
	unregister_kprobe(&probe);
	args = kzalloc(256, GFP_KERNEL);
	if (!args)
		return;
	kfree(args);
	release(args);
}

static const struct {
	const char *name;
	void (*function)(void);
} faults[] = {
	{ "leak", leak }, { "sleep", sleep }, { "shift", shift }, { "order", order },
	{ "freed", freed }, { "beyond", beyond }, { "rust", rust },
};

static int commit(const char *value, const struct kernel_param *param)
{
	int at;

	for (at = 0; at < ARRAY_SIZE(faults); at++) {
		if (sysfs_streq(value, faults[at].name)) {
			faults[at].function();
			return 0;
		}
	}
	return -EINVAL;
}

static const struct kernel_param_ops ops = { .set = commit };
module_param_cb(fault, &ops, NULL, 0200);

MODULE_DESCRIPTION("Faults on purpose");
MODULE_LICENSE("Dual MIT/GPL");

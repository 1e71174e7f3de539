// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What tests set and read, in debugfs: below /sys/kernel/debug/fairlink, which is root's alone and is not in a container.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "fairlink.h"

static struct dentry *fl_debug;

/* Functions after which a panic can be had, by name. */
static const struct {
	const char *name;
	long (*function)(void *);
} fl_calls[] = {
	{ "none", NULL },
	{ "create", fl_create },
	{ "prepare", fl_prepare },
	{ "enqueue", fl_enqueue },
	{ "dequeue", fl_dequeue },
	{ "reset", fl_reset },
	{ "commit", fl_commit },
	{ "release", fl_release },
	{ "about", fl_about },
	{ "sample", fl_sample },
	{ "numbers", fl_numbers },
};

static ssize_t fl_break_read(struct file *file, char __user *to, size_t len, loff_t *at)
{
	long (*function)(void *) = READ_ONCE(fl_break_after);
	char text[16];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(fl_calls) - 1 && fl_calls[i].function != function; i++)
		;
	return simple_read_from_buffer(to, len, at, text, scnprintf(text, sizeof(text), "%s\n", fl_calls[i].name));
}

static ssize_t fl_break_write(struct file *file, const char __user *from, size_t len, loff_t *at)
{
	char text[16] = "";
	size_t i;

	if (len >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, len))
		return -EFAULT;
	for (i = 0; i < ARRAY_SIZE(fl_calls); i++) {
		if (!strcmp(strim(text), fl_calls[i].name)) {
			WRITE_ONCE(fl_break_after, fl_calls[i].function);
			return len;
		}
	}
	return -EINVAL;
}

static const struct file_operations fl_break_file = {
	.owner = THIS_MODULE,
	.read = fl_break_read,
	.write = fl_break_write,
	.llseek = default_llseek,
};

/* A kernel without debugfs has none of these files. */
void fl_debug_init(void)
{
	fl_debug = debugfs_create_dir("fairlink", NULL);
	debugfs_create_file("break_next", 0600, fl_debug, NULL, &fl_break_file);
	debugfs_create_u32("refuse_at", 0600, fl_debug, &fl_refuse_at);
	debugfs_create_u64("longest_stretch_ns", 0600, fl_debug, &fl_longest_stretch);
}

void fl_debug_exit(void)
{
	debugfs_remove_recursive(fl_debug);
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The configuration: bytes out of a netlink message, or, since an attribute has at most 64 KiB, out of a file in memory that the sender
 * has open. They are copied before anything looks at them, so that nobody changes them meanwhile.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "sched.h"

static unsigned long memory_limit = 256ul << 20;
module_param(memory_limit, ulong, 0644);
MODULE_PARM_DESC(memory_limit, "most bytes that one link may take");

static const struct nla_policy fl_policy[TCA_FAIRLINK_MAX + 1] = {
	[TCA_FAIRLINK_CONFIG] = { .type = NLA_BINARY },
	[TCA_FAIRLINK_FILE] = { .type = NLA_U32 },
};

/* Newer kernels copy the text, older ones want one that stays. */
void fl_tell(struct netlink_ext_ack *extack, const char *text)
{
#ifdef NL_SET_ERR_MSG_FMT
	NL_SET_ERR_MSG_FMT(extack, "fairlink: %.69s", text);
#else
	/* Under the RTNL lock. The text is read soon after that is given back; a later one can take its place, never tear it. */
	static char texts[8][FL_WHY_LEN + 16];
	static unsigned int turn;
	char *place = texts[turn++ % ARRAY_SIZE(texts)];

	snprintf(place, sizeof(texts[0]), "fairlink: %s", text);
	if (extack)
		extack->_msg = place;
#endif
}

static int fl_refused(struct netlink_ext_ack *extack, int error, const char *text)
{
	fl_tell(extack, text);
	return error;
}

/*
 * Reads all of a file of the sender, in whose context rtnetlink works. Only files in memory are read: any other could keep the RTNL lock for as
 * long as it likes. The bytes are kvfree()d by the caller.
 */
static int fl_read(struct file *file, u8 **bytes, size_t *len, struct netlink_ext_ack *extack)
{
	const struct inode *inode = file_inode(file);
	loff_t size = i_size_read(inode), at = 0;
	ssize_t got = 1;
	u8 *all;

	if (!S_ISREG(inode->i_mode) || inode->i_sb->s_magic != TMPFS_MAGIC || !(file->f_mode & FMODE_READ))
		return fl_refused(extack, -EBADF, "the configuration's file is not one in memory (memfd, tmpfs)");
	if (size <= 0 || size > FL_CONFIG_MAX || size > READ_ONCE(memory_limit))
		return fl_refused(extack, -E2BIG, "the configuration's file is empty, or above 32 MiB or memory_limit");
	all = kvmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!all)
		return fl_refused(extack, -ENOMEM, "there is no memory for the configuration");
	while (at < size && got > 0)
		got = kernel_read(file, all + at, size - at, &at);
	if (at < size) {
		kvfree(all);
		return fl_refused(extack, got < 0 ? got : -EIO, "the configuration's file cannot be read to its end");
	}
	*bytes = all;
	*len = size;
	return 0;
}

static int fl_make_link(const u8 *config, size_t len, struct fl_make *make, struct fl_memory *memory,
			struct netlink_ext_ack *extack)
{
	char why[FL_WHY_LEN] = "";
	long result;

	make->config = config;
	make->config_len = len;
	make->memory_limit = READ_ONCE(memory_limit);
	make->message = why;
	make->message_len = sizeof(why);
	result = fl_control(make->link ? fl_prepare : fl_create, make, memory, why, sizeof(why));
	if (!result)
		return 0;
	fl_tell(extack, why);
	fl_free_all(memory);
	return result == FL_PANICKED ? -EINVAL : result;
}

int fl_made(struct nlattr *options, struct fl_make *make, struct fl_memory *memory, struct netlink_ext_ack *extack)
{
	struct nlattr *all[TCA_FAIRLINK_MAX + 1] = {}, *config, *fd;
	struct file *file;
	size_t len;
	u8 *bytes;
	int error;

	if (options) {
		error = nla_parse_nested(all, TCA_FAIRLINK_MAX, options, fl_policy, extack);
		if (error)
			return error;
	}
	config = all[TCA_FAIRLINK_CONFIG];
	fd = all[TCA_FAIRLINK_FILE];
	if (!config == !fd)
		return fl_refused(extack, -EINVAL, "no configuration, or two; use `fairlink qdisc add`");
	if (config)
		return fl_make_link(nla_data(config), nla_len(config), make, memory, extack);
	file = fget(nla_get_u32(fd));
	if (!file)
		return fl_refused(extack, -EBADF, "the configuration's file is not open");
	error = fl_read(file, &bytes, &len, extack);
	fput(file);
	if (error)
		return error;
	error = fl_make_link(bytes, len, make, memory, extack);
	kvfree(bytes);
	return error;
}

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The C side of fairlink's interface to its schedulers; kernel/core/src/lib.rs is the other side of it and says what each function
 * does. The layouts are those of Rust's repr(C).
 */
#ifndef FAIRLINK_H
#define FAIRLINK_H

#include <linux/list.h>
#include <linux/types.h>

struct fl_link;
struct fl_change;

struct fl_facts {
	u32 packets;
	u32 classes;
	u32 max_packet;
	u32 default_class;
	u32 active_queues;
	u16 overhead_bytes;
	u16 overhead_min;
	u32 framing;
	u32 hosts;
	u64 slack;
};

struct fl_make {
	const u8 *config;
	size_t config_len;
	u64 memory_limit;
	u64 slots; /* that are kept for packets beside those of the configuration */
	char *message;
	size_t message_len;
	struct fl_link *link;
	struct fl_change *change;
	struct fl_facts facts;
};

/* Of which host a packet is. */
struct fl_host {
	u8 address[16];
	u64 hash;
};

struct fl_call {
	struct fl_link *link;
	void *owner;
	u64 now;
	u64 handle;
	u32 len;
	u32 class;
	const struct fl_host *host;
	u64 empty;
	u64 wake;
	struct fl_change *change;
};

struct fl_numbers {
	const struct fl_link *link;
	const struct fl_change *change;
	u16 *minors;
	u16 *parents;
	u8 *hosts;
	size_t minors_len;
	u32 *classes;
	size_t classes_len;
	u32 inner;
};

/* How fast a class is; kernel/core/src/rates.rs says what is measured. */
struct fl_sampled {
	u64 samples, bytes, packets, demand, borrowed;
};

struct fl_stats {
	u64 guarantee;
	u64 received[2], sent[2], dropped[2], marked[2], queued[2]; /* packets, bytes */
	u64 too_long, lent_bytes; /* bytes */
};

struct fl_about {
	const struct fl_link *link;
	u32 class;
	u32 minor;
	u32 parent_minor;
	u32 leaf;
	u64 generation;
	struct fl_stats stats;
	struct fl_sampled sampled;
	u8 *record;
	u32 record_len;
	u32 next;
};

long fl_create(void *make);
long fl_prepare(void *make);
long fl_enqueue(void *call);
long fl_dequeue(void *call);
long fl_reset(void *call);
long fl_commit(void *call);
long fl_release(void *call);
long fl_about(void *about);
long fl_sample(void *call);
long fl_numbers(void *numbers);
long fl_break(void *call);

#define FL_ECN_CAPABLE (1ull << 63)
#define FL_FLOW(hash) ((u64)((hash) & 0x7fffffff) << 32)

/* What a guarded call returns after a panic. */
#define FL_PANICKED (-1000)

/* Pieces of memory, and the counter of the network namespace that has them. Both change under a lock of host.c. */
struct fl_memory {
	struct list_head pieces;
	long *count;
};

/* A guarded call: where it goes back to, and whose memory it allocates. */
struct fl_frame {
	unsigned long sp; /* guard.S knows that this is first */
	struct fl_memory *memory;
	struct fl_frame *outer;
	char *why;
	size_t why_len;
};

long fl_guard(long (*function)(void *), void *args, struct fl_frame *frame);
void fl_unwind(struct fl_frame *frame);

/* Calls with packets: with bottom halves off, without allocation. */
long fl_call(long (*function)(void *), void *args, char *why, size_t why_len);
/* Calls that make and free links: may sleep. Memory is put on the list; without one, none can be had. */
long fl_control(long (*function)(void *), void *args, struct fl_memory *memory, char *why, size_t why_len);
/* Frees what a panic left. */
void fl_free_all(struct fl_memory *memory);

/* Drops and marks, called from within. */
void fl_host_dropped(void *owner, u64 handle, u32 len, u32 class, u32 reason);
void fl_host_marked(void *owner, u64 handle);
/* Says of a packet what the queue of its class asks for. */
void fl_host_moved(void *owner, struct fl_call *call, struct fl_host *host);
/* Lets other tasks run, in calls that may sleep. */
void fl_host_yield(void);
void *fl_host_alloc(size_t size, size_t align);
void fl_host_free(void *memory);
void fl_host_panic(const char *file, size_t file_len, u32 line);

/* For tests, and set in debugfs (debug.c). After the next call of this function there is a panic; NULL for none. */
extern long (*fl_break_after)(void *);
/* The allocation that is refused, counted from 1; 0 for none. */
extern u32 fl_refuse_at;
/* Longest time in ns for which making or freeing a link has not yielded the processor. */
extern u64 fl_longest_stretch;

void fl_debug_init(void);
void fl_debug_exit(void);

#endif

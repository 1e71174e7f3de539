// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What the kernel does for the schedulers: memory, and what follows a panic.
 *
 * Every call into Rust goes through fl_guard() and leaves a frame where a panic and an allocation find it. Calls with packets have
 * bottom halves off: their frames are the processor's. Calls that make and free links may sleep: there is one at a time, and its frame
 * is a variable. Which of the two a piece of code belongs to is what softirq_count() says.
 */
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "fairlink.h"

#ifdef CONFIG_PREEMPT_RT
#error "fairlink needs a kernel in which bottom halves that are off keep a processor to themselves: not PREEMPT_RT"
#endif

static DEFINE_PER_CPU(struct fl_frame *, fl_running);
static struct fl_frame *fl_controlling;
static DEFINE_MUTEX(fl_control_lock);

long (*fl_break_after)(void *) __read_mostly;
u32 fl_refuse_at;
u64 fl_longest_stretch;
static u64 fl_stretch_began;

/* What stands before each piece of memory. */
struct fl_piece {
	struct list_head list;
	void *start;
	long *count;
};

static struct fl_frame **fl_place(void)
{
	return softirq_count() ? this_cpu_ptr(&fl_running) : &fl_controlling;
}

/* A guarded call, after which a test may want a panic. */
static long fl_guarded(long (*function)(void *), void *args, struct fl_frame *frame)
{
	long result = fl_guard(function, args, frame);

	if (unlikely(READ_ONCE(fl_break_after) == function) && result != FL_PANICKED) {
		WRITE_ONCE(fl_break_after, NULL);
		result = fl_guard(fl_break, args, frame);
	}
	return result;
}

long fl_call(long (*function)(void *), void *args, char *why, size_t why_len)
{
	struct fl_frame frame = { .why = why, .why_len = why_len, .outer = __this_cpu_read(fl_running) };
	long result;

	__this_cpu_write(fl_running, &frame);
	result = fl_guarded(function, args, &frame);
	__this_cpu_write(fl_running, frame.outer);
	return result;
}

/*
 * The end of a stretch of work that packets do not wait for, but that other tasks of this processor do. The kernel's own functions for memory are
 * in none: they yield by themselves.
 */
static void fl_stretch_ends(void)
{
	fl_longest_stretch = max(fl_longest_stretch, ktime_get_ns() - fl_stretch_began);
}

static void fl_stretch_begins(void)
{
	fl_stretch_began = ktime_get_ns();
}

void fl_host_yield(void)
{
	if (softirq_count())
		return;
	fl_stretch_ends();
	cond_resched();
	fl_stretch_begins();
}

long fl_control(long (*function)(void *), void *args, struct fl_memory *memory, char *why, size_t why_len)
{
	struct fl_frame frame = { .memory = memory, .why = why, .why_len = why_len };
	long result;

	mutex_lock(&fl_control_lock);
	fl_controlling = &frame;
	fl_stretch_begins();
	result = fl_guarded(function, args, &frame);
	fl_stretch_ends();
	fl_controlling = NULL;
	mutex_unlock(&fl_control_lock);
	return result;
}

void *fl_host_alloc(size_t size, size_t align)
{
	struct fl_frame *frame = *fl_place();
	struct fl_piece *piece;
	void *start, *memory;

	/* Nothing is allocated for a packet. */
	if (!frame || !frame->memory)
		return NULL;
	if (unlikely(fl_refuse_at) && !--fl_refuse_at)
		return NULL;
	fl_stretch_ends();
	cond_resched();
	if (size > INT_MAX - align - sizeof(*piece))
		return NULL;
	start = kvmalloc(size + align + sizeof(*piece), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	fl_stretch_begins();
	if (!start)
		return NULL;
	memory = PTR_ALIGN(start + sizeof(*piece), max(align, __alignof__(struct fl_piece)));
	piece = memory - sizeof(*piece);
	piece->start = start;
	piece->count = frame->memory->count;
	list_add(&piece->list, &frame->memory->pieces);
	WRITE_ONCE(*piece->count, *piece->count + 1);
	return memory;
}

static void fl_free(struct fl_piece *piece)
{
	list_del(&piece->list);
	WRITE_ONCE(*piece->count, *piece->count - 1);
	kvfree(piece->start);
}

void fl_host_free(void *memory)
{
	fl_host_yield();
	fl_free(memory - sizeof(struct fl_piece));
	if (!softirq_count())
		fl_stretch_begins();
}

void fl_free_all(struct fl_memory *memory)
{
	struct fl_piece *piece, *next;

	mutex_lock(&fl_control_lock);
	list_for_each_entry_safe(piece, next, &memory->pieces, list) {
		fl_free(piece);
		cond_resched();
	}
	mutex_unlock(&fl_control_lock);
}

void fl_host_panic(const char *file, size_t file_len, u32 line)
{
	struct fl_frame *frame = *fl_place();

	if (frame) {
		scnprintf(frame->why, frame->why_len, "panicked at %.*s:%u", (int)min_t(size_t, file_len, 200), file, line);
		fl_unwind(frame);
	}
	/* There is no call without a frame. If there were, the caller would stop the machine. */
}

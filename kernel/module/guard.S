/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The way into Rust, and the way back out of a panic.
 *
 * long fl_guard(long (*function)(void *), void *args, struct fl_frame *frame) remembers its stack pointer in the frame and calls the
 * function. fl_unwind(frame) goes back there and makes fl_guard return FL_PANICKED.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>

SYM_FUNC_START(fl_guard)
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	subq $8, %rsp
	movq %rsp, (%rdx)
	movq %rdi, %rax
	movq %rsi, %rdi
	CALL_NOSPEC rax
	addq $8, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	RET
SYM_FUNC_END(fl_guard)

SYM_FUNC_START(fl_unwind)
	movq (%rdi), %rsp
	movq $-1000, %rax
	addq $8, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	RET
SYM_FUNC_END(fl_unwind)
STACK_FRAME_NON_STANDARD fl_unwind

//! Asking for a cache line before it is needed: the only `unsafe` of this crate.
//!
//! A prefetch is a hint. It has no visible effect and faults at no address. So the functions here are safe for any
//! index, also one beyond the end. They do nothing on targets without a prefetch that stable Rust can emit, and under
//! Miri on targets that use assembly for it.

#![allow(unsafe_code)]

/// Bytes of a cache line, on most processors.
const LINE: usize = 64;

/// Prefetches the cache line on which entry `index` of `entries` begins. There need not be such an entry.
#[inline(always)]
pub(crate) fn prefetch<T>(entries: &[T], index: usize) {
    ask(entries.as_ptr().wrapping_add(index));
}

#[inline(always)]
fn ask<T>(line: *const T) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse"))]
    // SAFETY: the instruction is part of SSE, which the target has, and has no visible effect on memory.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: the instruction is part of every 64-bit Arm processor, and has no visible effect on memory.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{line}]", line = in(reg) line, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(all(target_arch = "x86_64", target_feature = "sse"), all(target_arch = "aarch64", not(miri)))))]
    let _ = line;
}

/// Prefetches all cache lines of entry `index`, which begins on one. There need not be such an entry.
#[inline(always)]
pub(crate) fn prefetch_all<T>(entries: &[T], index: usize) {
    const { assert!(align_of::<T>() >= LINE) };
    let lines = size_of::<T>() / LINE;
    let start: *const [u8; LINE] = entries.as_ptr().cast();
    let start = start.wrapping_add(index.wrapping_mul(lines));
    for line in 0..lines {
        ask(start.wrapping_add(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Lines(#[expect(dead_code)] [u8; 192]);

    #[test]
    fn any_index_may_be_asked_for_and_nothing_changes() {
        let entries = [1u64, 2, 3];
        for index in [0, 2, 3, 1 << 40, usize::MAX] {
            prefetch(&entries, index);
        }
        prefetch::<[u8; 64]>(&[], 0);
        for index in [0, 1, usize::MAX] {
            prefetch_all(&[Lines([1; 192])], index);
        }
        assert_eq!(entries, [1, 2, 3]);
    }
}

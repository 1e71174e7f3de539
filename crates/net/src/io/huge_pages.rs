//! Huge pages for large memory: a scheduler of a million leaves has hundreds of megabytes, and each packet touches four
//! places in it. With pages of 4 KiB, address translation costs as much as the accesses.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Minimum size in bytes for huge pages; smaller memory gains nothing, because a huge page has 2 MiB.
const LARGE: usize = 8 << 20;
/// Alignment of huge pages.
const HUGE: usize = 2 << 20;

static ASKED: AtomicBool = AtomicBool::new(false);

/// The system's allocator, which requests huge pages for large memory once [`HugePages::ask`] was called. The request
/// may have no effect: if the kernel has no huge pages (`/sys/kernel/mm/transparent_hugepage/enabled` is `never`),
/// nothing changes.
///
/// ```
/// #[global_allocator]
/// static MEMORY: fairlink_net::HugePages = fairlink_net::HugePages;
///
/// fairlink_net::HugePages::ask();
/// let tags = vec![1u64; 2 << 20];
/// assert_eq!(tags.iter().sum::<u64>(), 2 << 20);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HugePages;

impl HugePages {
    /// Requests huge pages for large memory from now on. Existing memory stays as it is.
    pub fn ask() {
        ASKED.store(true, Relaxed);
    }
}

/// Returns address and length of the part of `bytes` bytes at `address` that huge pages can hold.
fn whole_pages(address: usize, bytes: usize) -> Option<(usize, usize)> {
    let start = address.checked_next_multiple_of(HUGE)?;
    let length = (address.checked_add(bytes)? / HUGE * HUGE).checked_sub(start)?;
    (bytes >= LARGE && length > 0).then_some((start, length))
}

fn advise(memory: *mut u8, bytes: usize) {
    if memory.is_null() || !ASKED.load(Relaxed) {
        return;
    }
    if let Some((start, length)) = whole_pages(memory as usize, bytes) {
        // SAFETY: the pages are within memory that was just allocated. The call changes no contents. Its result does
        // not matter, because it is only a request.
        unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
    }
}

// SAFETY: all operations are those of the system's allocator. The request for huge pages changes neither addresses nor
// contents.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised.
        let memory = unsafe { System.alloc(layout) };
        if layout.size() >= LARGE {
            advise(memory, layout.size());
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if layout.size() >= LARGE {
            advise(memory, layout.size());
        }
        memory
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promised.
        let memory = unsafe { System.realloc(memory, layout, size) };
        if size >= LARGE {
            advise(memory, size);
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_huge_pages_within_large_memory_are_asked_for() {
        assert_eq!(whole_pages(HUGE, LARGE), Some((HUGE, LARGE)));
        assert_eq!(whole_pages(HUGE + 16, LARGE), Some((2 * HUGE, LARGE - HUGE)));
        assert_eq!(whole_pages(HUGE - 16, LARGE), Some((HUGE, LARGE - HUGE)));
        assert_eq!(whole_pages(HUGE, LARGE - 1), None);
        assert_eq!(whole_pages(usize::MAX - HUGE, LARGE), None);
    }

    #[test]
    fn memory_that_huge_pages_were_asked_for_keeps_what_is_written() {
        HugePages::ask();
        let layout = Layout::from_size_align(2 * LARGE, 64).unwrap();
        // SAFETY: the layout is not empty; each byte that is read was written, or zeroed by the allocator; memory is
        // freed by the layout that it has.
        unsafe {
            let memory = HugePages.alloc_zeroed(layout);
            assert!(!memory.is_null());
            assert_eq!((*memory.add(LARGE), *memory.add(2 * LARGE - 1)), (0, 0));
            *memory.add(LARGE) = 7;
            let memory = HugePages.realloc(memory, layout, 4 * LARGE);
            assert_eq!(*memory.add(LARGE), 7);
            HugePages.dealloc(memory, Layout::from_size_align(4 * LARGE, 64).unwrap());
        }
    }
}

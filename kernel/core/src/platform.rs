//! Services of the C side for Rust: memory, drops and marks, and the handling of a panic.

use core::ffi::c_void;
#[cfg(not(test))]
use core::ptr;

#[cfg(not(test))]
unsafe extern "C" {
    /// Allocates memory of `size` bytes for the current link, or returns null.
    fn fl_host_alloc(size: usize, align: usize) -> *mut u8;
    /// Frees memory of [`fl_host_alloc`].
    fn fl_host_free(memory: *mut u8);
    /// Jumps back to the point of the C side's call. It returns only if there was no call, which does not happen.
    fn fl_host_panic(file: *const u8, file_len: usize, line: u32);
    /// Takes a dropped packet back.
    fn fl_host_dropped(owner: *mut c_void, handle: u64, len: u32, class: u32, reason: u32);
    /// Lets other tasks run, in calls that may sleep.
    fn fl_host_yield();
    /// Marks a packet as having met congestion.
    fn fl_host_marked(owner: *mut c_void, handle: u64);
    /// Gets the values that a packet's queue needs, as for [`crate::fl_enqueue`].
    fn fl_host_moved(owner: *mut c_void, call: *mut c_void, host: *mut crate::Host);
}

/// Lets other tasks of this processor run. For calls that may sleep, between stretches of work that grow with the number of classes.
pub(crate) fn pause() {
    #[cfg(not(test))]
    // SAFETY: the C side does nothing if a call may not sleep.
    unsafe {
        fl_host_yield();
    }
}

/// Reports a dropped packet.
pub(crate) fn dropped(owner: *mut c_void, handle: u64, len: u32, class: u32, reason: u32) {
    #[cfg(not(test))]
    // SAFETY: `owner` is the pointer that the C side passed in.
    unsafe {
        fl_host_dropped(owner, handle, len, class, reason);
    }
    #[cfg(test)]
    crate::tests::dropped(owner, handle, len, class, reason);
}

/// Reports a packet to mark.
pub(crate) fn marked(owner: *mut c_void, handle: u64) {
    #[cfg(not(test))]
    // SAFETY: as above.
    unsafe {
        fl_host_marked(owner, handle);
    }
    #[cfg(test)]
    let _ = (owner, handle);
}

/// Gets the values that the packet's new queue needs into `call`. Returns true if its host is in `host`.
pub(crate) fn moved(owner: *mut c_void, call: &mut crate::Call, host: &mut crate::Host) -> bool {
    #[cfg(not(test))]
    // SAFETY: `owner` is the pointer that the C side passed in.
    unsafe {
        fl_host_moved(owner, ptr::from_mut(call).cast(), host);
    }
    #[cfg(test)]
    crate::tests::moved(owner, call, host);
    !call.host.is_null()
}

#[cfg(not(test))]
mod kernel {
    use core::alloc::{GlobalAlloc, Layout};
    use core::panic::PanicInfo;
    use core::ptr;

    struct Host;

    // SAFETY: the C side returns memory of the requested size and alignment, or null.
    unsafe impl GlobalAlloc for Host {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: any size and alignment is allowed.
            unsafe { super::fl_host_alloc(layout.size(), layout.align()) }
        }

        unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
            // SAFETY: it came from `alloc`.
            unsafe { super::fl_host_free(memory) }
        }

        unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            // SAFETY: as the caller promises; the old memory has the length of `layout`.
            unsafe {
                let new = super::fl_host_alloc(size, layout.align());
                if !new.is_null() {
                    ptr::copy_nonoverlapping(memory, new, layout.size().min(size));
                    super::fl_host_free(memory);
                }
                new
            }
        }
    }

    #[global_allocator]
    static HOST: Host = Host;

    /// Handles exhausted memory where only a panic is possible. The library's own handler ends in a jump that objtool
    /// does not follow.
    #[cfg(target_os = "none")]
    #[alloc_error_handler]
    fn out_of_memory(_: Layout) -> ! {
        panic!("out of memory")
    }

    #[panic_handler]
    fn panic(info: &PanicInfo<'_>) -> ! {
        let (file, line) = info.location().map_or(("", 0), |place| (place.file(), place.line()));
        // SAFETY: every call of this crate is made through the guard, which this jumps back to.
        unsafe { super::fl_host_panic(file.as_ptr(), file.len(), line) }
        // Shows checkers of object files that a panic does not return. SAFETY: an instruction that the processor
        // refuses.
        unsafe { core::arch::asm!("ud2", options(noreturn, nomem, nostack)) }
    }
}

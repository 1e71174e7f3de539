//! Settings of the system's allocator for a process that often allocates and frees large memory.
//!
//! glibc raises the size from which memory is mapped separately, up to 32 MiB, as soon as such memory is freed. It also
//! has an arena for each active thread, up to eight for each processor. Each closed link of a gateway frees packet
//! pools and buffers of some megabytes, in several threads. After some hundred reloads every arena would hold megabytes
//! of unused memory that the memory bound does not include.

/// Memory of this size or more is mapped separately, and returns to the kernel when it is freed. It is glibc's own
/// initial value.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED: libc::c_int = 128 << 10;
/// Number of arenas. The data threads allocate nothing, so that other threads rarely contend.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: libc::c_int = 1;

/// Makes freed memory return to the kernel from now on. Call it before other threads are started, because their arenas
/// stay. Without effect if the allocator is not glibc's; musl's returns large memory by itself.
pub fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in
        [(libc::M_MMAP_THRESHOLD, MAPPED), (libc::M_TRIM_THRESHOLD, MAPPED), (libc::M_ARENA_MAX, ARENAS)]
    {
        // SAFETY: it changes numbers of the allocator, under the allocator's own lock. A parameter that it refuses
        // stays as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}

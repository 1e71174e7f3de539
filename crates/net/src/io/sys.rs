//! System calls that several modules share: sockets and their options, interface requests, thread placement, waiting.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Longest name of an interface, in bytes.
const MAX_NAME: usize = libc::IFNAMSIZ - 1;

/// Converts the result of a system call that returns -1 on error.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A new socket, closed on exec.
pub fn socket(domain: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: `socket` takes no pointers.
    let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: `fd` was just returned by the kernel and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns a descriptor that is readable while one of `sockets` is.
pub(crate) fn any_readable<'a>(sockets: impl Iterator<Item = &'a OwnedFd>) -> io::Result<OwnedFd> {
    // SAFETY: `epoll_create1` takes no pointers.
    let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: `fd` was just returned by the kernel and has no other owner.
    let any = unsafe { OwnedFd::from_raw_fd(fd) };
    for socket in sockets {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: `event` is readable during the call, and both descriptors are open.
        check(unsafe { libc::epoll_ctl(any.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &raw mut event) })?;
    }
    Ok(any)
}

/// Returns a descriptor by which threads wake each other.
pub(crate) fn event_fd() -> io::Result<OwnedFd> {
    // SAFETY: `eventfd` takes no pointers.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: `fd` was just returned by the kernel and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes the descriptor of [`event_fd`] readable.
pub(crate) fn set_event(fd: &OwnedFd) {
    let one = 1_u64;
    // SAFETY: eight bytes are readable for the whole call. It fails only if the count is at its limit, and so readable.
    unsafe { libc::write(fd.as_raw_fd(), std::ptr::from_ref(&one).cast(), size_of::<u64>()) };
}

/// Makes the descriptor of [`event_fd`] unreadable.
pub(crate) fn clear_event(fd: &OwnedFd) {
    let mut count = 0_u64;
    // SAFETY: eight bytes are writable for the whole call. It fails only if the descriptor is unreadable already.
    unsafe { libc::read(fd.as_raw_fd(), std::ptr::from_mut(&mut count).cast(), size_of::<u64>()) };
}

/// Creates a file that exists in memory only, until it is closed. `name` is shown in /proc.
pub(crate) fn memory_file(name: &std::ffi::CStr) -> io::Result<std::fs::File> {
    // SAFETY: the name ends with a zero.
    let fd = check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the kernel has just made it, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

/// Sets a socket option to `value`.
pub fn set_option<T: Copy>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` points to `length` readable bytes for the whole call.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length) })?;
    Ok(())
}

/// Data for which any bytes are a valid value, as the kernel writes them.
///
/// # Safety
/// Every pattern of bits must be a value of the type, and the type must have no padding: it may lie in memory that the
/// kernel reads.
pub unsafe trait Plain: Copy {}

// SAFETY: any four bytes are an integer.
unsafe impl Plain for libc::c_int {}
// SAFETY: any sixteen bytes are sixteen bytes.
unsafe impl Plain for [u8; 16] {}
// SAFETY: any eight bytes are an integer.
unsafe impl Plain for u64 {}
// SAFETY: an integer of eight bytes and two of four, which leave no padding.
unsafe impl Plain for libc::xdp_desc {}

/// The value of a socket option.
pub fn option<T: Plain>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    // SAFETY: zeros are a value of `T`, as any bytes are.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `length` bytes and valid whatever is written; `length` is a valid place for the
    // length.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, std::ptr::from_mut(&mut value).cast(), &mut length)
    })?;
    Ok(value)
}

/// Returns true if `name` is valid for an interface: 1 to 15 bytes, none of them zero.
pub(crate) fn is_interface_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.bytes().any(|byte| byte == 0)
}

/// Runs an interface request (`SIOCGIF...`, `SIOCSIF...`) for the interface `name`, with the request filled in by
/// `fill`.
pub(crate) fn interface_request(
    request: libc::c_ulong,
    name: &str,
    fill: impl FnOnce(&mut libc::ifreq),
) -> io::Result<libc::ifreq> {
    // A socket of any family accepts requests about interfaces, and a systemd unit may forbid those of the Internet.
    let socket = socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
    // SAFETY: an `ifreq` is plain data (integers, an address, a pointer) for which all zeros is valid.
    let mut message: libc::ifreq = unsafe { std::mem::zeroed() };
    if !is_interface_name(name) {
        let message = format!("not an interface name (1 to {MAX_NAME} bytes): {name:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    for (to, from) in message.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    fill(&mut message);
    // SAFETY: `message` is a valid `ifreq` that outlives the call; where a request follows `ifr_data`, `fill` has set
    // it to memory that its caller keeps alive and that is as large as the request says.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &mut message) })?;
    Ok(message)
}

/// Index of the interface `name` in the namespace of this thread.
pub fn interface_index(name: &str) -> io::Result<i32> {
    let answer = interface_request(libc::SIOCGIFINDEX, name, |_| ())?;
    // SAFETY: the kernel has written the index into this field of the union.
    Ok(unsafe { answer.ifr_ifru.ifru_ifindex })
}

/// Name of the interface with this index in the namespace of this thread.
pub(crate) fn interface_name(index: i32) -> io::Result<String> {
    let mut name = [0; libc::IFNAMSIZ];
    // SAFETY: `name` has room for the longest name of an interface and its final zero.
    let found = unsafe { libc::if_indextoname(index as libc::c_uint, name.as_mut_ptr()) };
    if found.is_null() {
        return Err(io::Error::last_os_error());
    }
    Ok(name.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte as u8)).collect())
}

/// Largest packet of the interface `name` in bytes, its Ethernet header not counted.
pub fn interface_mtu(name: &str) -> io::Result<u32> {
    let answer = interface_request(libc::SIOCGIFMTU, name, |_| ())?;
    // SAFETY: the kernel has written the size into this field of the union.
    let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
    Ok(u32::try_from(mtu).unwrap_or(0))
}

/// Flags of the interface `name` (`IFF_...`).
pub(crate) fn interface_flags(name: &str) -> io::Result<libc::c_int> {
    let answer = interface_request(libc::SIOCGIFFLAGS, name, |_| ())?;
    // SAFETY: the kernel has written the flags into this field of the union.
    Ok(libc::c_int::from(unsafe { answer.ifr_ifru.ifru_flags }))
}

/// Sets the interface `name` up or down.
pub fn set_interface_up(name: &str, up: bool) -> io::Result<()> {
    set_interface_flag(name, libc::IFF_UP, up)
}

/// Sets or clears a flag of the interface `name` (`IFF_...`).
pub(crate) fn set_interface_flag(name: &str, flag: libc::c_int, on: bool) -> io::Result<()> {
    let before = interface_flags(name)?;
    let flags = if on { before | flag } else { before & !flag };
    interface_request(libc::SIOCSIFFLAGS, name, |message| message.ifr_ifru.ifru_flags = flags as libc::c_short)?;
    Ok(())
}

/// Keeps this thread on one processor, so that frames sent from it stay in order on their way through per-processor
/// queues.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    // SAFETY: a `cpu_set_t` is an array of integers for which all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= 8 * size_of::<libc::cpu_set_t>() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no processor {cpu}")));
    }
    // SAFETY: `cpu` was checked to lie inside the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is a valid set of the size given; 0 means the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) })?;
    Ok(())
}

/// The processors that this thread may run on, in order.
pub(crate) fn allowed_processors() -> Vec<usize> {
    // SAFETY: a `cpu_set_t` is an array of integers for which all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable for the size given; 0 means the calling thread.
    if check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) }).is_err() {
        return Vec::new();
    }
    // SAFETY: each number lies inside the set.
    (0..8 * size_of::<libc::cpu_set_t>()).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Waits until one of `fds` is ready, at most `timeout_ms`. Returns how many are.
pub(crate) fn poll(fds: &mut [libc::pollfd], timeout_ms: i32) -> io::Result<usize> {
    // SAFETY: `fds` holds as many valid entries as are said for the whole call.
    Ok(check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) })? as usize)
}

/// Waits until `fd` can be read, at most `timeout_ms`. Returns true if it can.
pub fn wait_readable(fd: &OwnedFd, timeout_ms: i32) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` is one valid `pollfd` for the whole call.
    match check(unsafe { libc::poll(&mut poll, 1, timeout_ms) }) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// Memory of the kernel, mapped into this process: rings of a socket.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is the same for all threads, and it is used only through pointers, whose users answer for writers.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes of `socket` at this `offset`, and their pages at once.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(crate) fn shared(socket: &OwnedFd, offset: u64, bytes: usize) -> io::Result<Self> {
        // SAFETY: a new mapping of a descriptor that is open; nothing else is at an address that the kernel picks.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { at, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Maps `bytes` bytes of its own in place of a socket's.
    #[cfg(test)]
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        let Region { at, bytes } = *std::mem::ManuallyDrop::new(Region::reserve(bytes)?);
        Ok(Self { at, bytes })
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.at
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `Mapping::shared` with this length, and pointers into it do not outlive their owners.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// Mapped memory, initially zero, that takes room only for pages that were written.
///
/// The kernel may be given the region and write parts of it at any time. A reference to such a part would be undefined
/// behaviour, even if nothing is read through it. So there is no safe way to a slice: the caller guarantees that the
/// bytes belong to the process as long as the slice lives.
#[derive(Debug)]
pub(crate) struct Region {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, as that of a `Vec` does.
unsafe impl Send for Region {}
// SAFETY: a shared reference gives access only through unsafe calls, whose callers answer for writers.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves `bytes` bytes, not zero, at a page-aligned address.
    ///
    /// # Errors
    /// If the kernel has no room for them.
    pub(crate) fn reserve(bytes: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // Miri supports only these two flags.
        let sparse = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | sparse;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in use.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { at, bytes })
    }

    /// The first byte.
    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// The first of `count` bytes from `start` on.
    ///
    /// # Panics
    /// If they are not all within the region.
    #[inline]
    pub(crate) fn place(&self, start: usize, count: usize) -> *mut u8 {
        self.check(start, count);
        // SAFETY: the bytes were just checked to lie within the mapping.
        unsafe { self.at.as_ptr().add(start) }
    }

    /// Returns `count` bytes from `start` on.
    ///
    /// # Panics
    /// If they are not all within the region.
    ///
    /// # Safety
    /// These bytes must not be written while the slice lives, neither by this process nor by the kernel.
    #[inline]
    pub(crate) unsafe fn bytes(&self, start: usize, count: usize) -> &[u8] {
        self.check(start, count);
        // SAFETY: the bytes are mapped, initialised, and were just checked to lie within the mapping, which lives as
        // long as `self`. The caller answers for writers.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(start), count) }
    }

    /// As [`Region::bytes`], mutable.
    ///
    /// # Panics
    /// As [`Region::bytes`].
    ///
    /// # Safety
    /// These bytes must not be read or written elsewhere while the slice lives, neither by this process nor by the
    /// kernel.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "threads share a region, and the caller answers for other users of these bytes"
    )]
    pub(crate) unsafe fn bytes_mut(&self, start: usize, count: usize) -> &mut [u8] {
        self.check(start, count);
        // SAFETY: as in `bytes`; the caller answers for readers, too.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr().add(start), count) }
    }

    #[inline]
    fn check(&self, start: usize, count: usize) {
        let fits = start.checked_add(count).is_some_and(|end| end <= self.bytes);
        assert!(fits, "{count} bytes from byte {start} of a region of {}", self.bytes);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is whole, and slices into it borrow this value.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

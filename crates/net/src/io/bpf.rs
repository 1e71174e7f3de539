//! Programs and maps in the kernel, by bpf(2). The gateway's programs have some ten instructions each, so they are
//! assembled by hand ([`assembler`]). No compiler, C library or object file is involved.
//!
//! A [`Program`], a [`Map`] and a [`Link`] are descriptors. The kernel frees an object when its last user is gone.
//! Programs use maps; sockets, links and program arrays use programs. So the links of a process end with it, however it
//! ends.
//!
//! Everything here needs CAP_BPF and CAP_NET_ADMIN in the first user namespace. Errors of the kernel are passed on
//! unchanged, with the verifier's log if it refused a program.

pub(crate) mod assembler;
pub(crate) mod types;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use thiserror::Error;

use crate::io::bpf::assembler::Assembler;
use crate::io::sys::{self, Mapping};

// Commands of linux/bpf.h.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const OBJECT_INFO: libc::c_int = 15;
const LINK_CREATE: libc::c_int = 28;

/// The map can be mapped into the memory of a process (`BPF_F_MMAPABLE`, Linux 5.5).
const MMAPABLE: u32 = 1 << 10;

/// The program is for one device (`BPF_F_XDP_DEV_BOUND_ONLY`).
const DEVICE_BOUND: u32 = 1 << 6;

/// Maximum number of bytes of the verifier's log that are kept.
const LOG: usize = 64 << 10;
/// Number of the log's last lines to show; they name the fault.
const LOG_LINES: usize = 12;

/// Error of an operation on a kernel object.
#[derive(Debug, Error)]
#[error("{what}: {source}{log}")]
pub(crate) struct BpfError {
    /// The failed operation.
    pub(crate) what: String,
    /// The kernel's answer.
    pub(crate) source: io::Error,
    /// The verifier's log, on separate lines; empty if there is none.
    pub(crate) log: String,
}

impl BpfError {
    /// Explains the kernel's refusal; `older` is the hint for a kernel that does not have such objects.
    pub(crate) fn explain(&self, older: &str) -> String {
        let hint = match self.source.raw_os_error() {
            Some(libc::EPERM) => {
                " (programs in the kernel need CAP_BPF and CAP_NET_ADMIN in the machine's first user namespace; root has them, `setcap \
                 cap_net_raw,cap_net_admin,cap_bpf+ep` gives them to the program)"
            }
            Some(libc::EINVAL) if self.log.is_empty() => return format!("{self} ({older})"),
            Some(libc::ENOSYS) => " (this kernel is built without bpf(2))",
            _ => "",
        };
        format!("{self}{hint}")
    }

    pub(crate) fn while_doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { what: what.into(), source, log: String::new() }
    }
}

/// Kinds of maps (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapKind {
    /// Values by number.
    Array = 2,
    /// Programs by number, for tail calls. The kernel empties it when the last descriptor is closed, even while others
    /// use it.
    Programs = 3,
    /// Values by number, separate on each processor.
    PerProcessorArray = 6,
    /// AF_XDP sockets by number; programs can check whether one is present.
    XdpSockets = 17,
}

/// Kinds of programs (`enum bpf_prog_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// Decides how many bytes of a frame a socket receives.
    SocketFilter = 1,
    /// Decides about a frame that an interface has received or is about to send.
    Classifier = 3,
    /// Decides about a frame before the kernel has made a packet of it.
    Xdp = 6,
}

/// Attachment point of a link (`enum bpf_attach_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// Frames that an interface has received, after packet sockets have seen them (Linux 6.6).
    TcxIngress = 46,
    /// Frames that an interface is about to send, before its queueing discipline (Linux 6.6).
    TcxEgress = 47,
    /// Frames as the driver receives them, before all else. Only one program can be attached (Linux 5.9).
    Xdp = 37,
}

impl Attachment {
    /// Flags for creating a link: XDP in the driver, where no offload has joined frames yet (`XDP_FLAGS_DRV_MODE`).
    fn flags(self) -> u32 {
        match self {
            Self::TcxIngress | Self::TcxEgress => 0,
            Self::Xdp => 1 << 2,
        }
    }
}

/// The argument of bpf(2), a union whose members begin at fixed offsets. Unset bytes are zero. Kernels with a longer
/// union accept this, and so do those with a shorter one if the rest is zero.
#[repr(C, align(8))]
struct Attributes([u8; 128]);

impl Attributes {
    fn new() -> Self {
        Self([0; 128])
    }

    fn u32(mut self, offset: usize, value: u32) -> Self {
        self.0[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn fd(self, offset: usize, fd: &impl AsRawFd) -> Self {
        self.u32(offset, fd.as_raw_fd() as u32)
    }

    fn u64(mut self, offset: usize, value: u64) -> Self {
        self.0[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    /// Stores a pointer to `memory`, which the caller keeps alive until the call has returned.
    fn pointer<T>(self, offset: usize, memory: *const T) -> Self {
        self.u64(offset, memory.expose_provenance() as u64)
    }

    /// Stores a name of up to 15 bytes; a longer one is truncated.
    fn name(mut self, offset: usize, name: &str) -> Self {
        for (to, from) in self.0[offset..offset + 15].iter_mut().zip(name.bytes()) {
            *to = from;
        }
        self
    }

    /// Executes `command`.
    ///
    /// # Safety
    /// Each stored pointer must refer to memory of the size that the command needs, alive for the call, and writable if
    /// the kernel writes it.
    unsafe fn run(&self, command: libc::c_int) -> io::Result<libc::c_int> {
        // SAFETY: the attributes are readable for their length; the caller guarantees what they point to.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_ptr(), self.0.len()) };
        sys::check(result as libc::c_int)
    }

    /// Executes a `command` that returns a new descriptor.
    ///
    /// # Safety
    /// As [`Attributes::run`].
    unsafe fn open(&self, command: libc::c_int) -> io::Result<OwnedFd> {
        // SAFETY: passed on to the caller.
        let fd = unsafe { self.run(command) }?;
        // SAFETY: the kernel has just made this descriptor, closed on exec, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// A map in the kernel.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) fd: OwnedFd,
    kind: MapKind,
    value_bytes: u32,
}

impl Map {
    /// Creates a map of `entries` values of `value_bytes` bytes each, numbered from zero, all zero.
    ///
    /// # Errors
    /// [`BpfError`]: no permission (`EPERM`), no memory (`ENOMEM`), not in this kernel (`EINVAL`).
    pub(crate) fn new(kind: MapKind, name: &str, entries: u32, value_bytes: u32) -> Result<Self, BpfError> {
        Self::with_flags(kind, name, entries, value_bytes, 0)
    }

    /// Creates an array that [`Map::share`] maps into this process.
    ///
    /// # Errors
    /// As [`Map::new`].
    pub(crate) fn shared_array(name: &str, entries: u32, value_bytes: u32) -> Result<Self, BpfError> {
        Self::with_flags(MapKind::Array, name, entries, value_bytes, MMAPABLE)
    }

    fn with_flags(kind: MapKind, name: &str, entries: u32, value_bytes: u32, flags: u32) -> Result<Self, BpfError> {
        let attributes = Attributes::new()
            .u32(0, kind as u32)
            .u32(4, 4)
            .u32(8, value_bytes)
            .u32(12, entries)
            .u32(16, flags)
            .name(28, name);
        // SAFETY: this command follows no pointer.
        let fd = unsafe { attributes.open(MAP_CREATE) }
            .map_err(BpfError::while_doing(format!("creating the map {name}")))?;
        Ok(Self { fd, kind, value_bytes })
    }

    /// Sets the value at `number`. The value of a program array is a program's descriptor.
    ///
    /// # Errors
    /// [`BpfError`]: a number beyond the map (`E2BIG`); a value of the wrong length, or a map with values for each
    /// processor (`EINVAL`).
    pub(crate) fn set(&self, number: u32, value: &[u8]) -> Result<(), BpfError> {
        let failed = BpfError::while_doing(format!("setting value {number} of a map"));
        if value.len() != self.value_bytes as usize || self.kind == MapKind::PerProcessorArray {
            return Err(failed(io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let attributes = Attributes::new().fd(0, &self.fd).pointer(8, &raw const number).pointer(16, value.as_ptr());
        // SAFETY: key and value are readable for the lengths that the map was made with: four bytes, and the length
        // just checked. The kernel would read more for a map with values for each processor, which was refused.
        unsafe { attributes.run(MAP_UPDATE_ELEM) }.map_err(failed)?;
        Ok(())
    }

    /// Sets the program for tail calls with `number`.
    ///
    /// # Errors
    /// As [`Map::set`].
    pub(crate) fn set_program(&self, number: u32, program: &Program) -> Result<(), BpfError> {
        self.set(number, &program.fd.as_raw_fd().to_ne_bytes())
    }

    /// Sets the AF_XDP `socket` at `number` of a map of sockets.
    ///
    /// # Errors
    /// As [`Map::set`]; the socket is not bound (`EBADF` or `EOPNOTSUPP`).
    pub(crate) fn set_socket(&self, number: u32, socket: &OwnedFd) -> Result<(), BpfError> {
        self.set(number, &socket.as_raw_fd().to_ne_bytes())
    }

    /// Maps the first `words` words of 8 B of a [`Map::shared_array`] into this process.
    ///
    /// # Errors
    /// [`BpfError`]: the map cannot be mapped (`EPERM`), no memory (`ENOMEM`).
    pub(crate) fn share(&self, words: usize) -> Result<SharedWords, BpfError> {
        // The kernel gives whole pages.
        let bytes = (words * size_of::<u64>()).next_multiple_of(SharedWords::PAGE);
        let memory = Mapping::shared(&self.fd, 0, bytes).map_err(BpfError::while_doing("mapping a map into memory"))?;
        Ok(SharedWords { memory, words })
    }
}

/// The first words of a shared array, mapped as long as this exists.
#[derive(Debug)]
pub(crate) struct SharedWords {
    memory: Mapping,
    words: usize,
}

// SAFETY: only atomic operations access the memory, and nothing of it is bound to a thread.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Bytes of the smallest page of any machine.
    const PAGE: usize = 4096;

    /// The words, which programs in the kernel read and write as a whole.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the memory is mapped for this length as long as this value lives, aligned to a page, and any bytes are a
        // number. This process and programs in the kernel access it only by atomic operations.
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr().cast(), self.words) }
    }

    /// The first word.
    pub(crate) fn first(&self) -> &AtomicU64 {
        &self.words()[0]
    }
}

/// A program that the kernel has verified and loaded.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) fd: OwnedFd,
}

impl Program {
    /// Loads `code` into the kernel, which verifies it. `attachment` is the expected attachment point, for the kinds
    /// that need one.
    ///
    /// # Errors
    /// [`BpfError`]: no permission (`EPERM`); refused by the verifier (`EACCES`, `EINVAL`), with the last lines of its
    /// log.
    pub(crate) fn load(
        kind: ProgramKind,
        name: &str,
        attachment: Option<Attachment>,
        code: Assembler,
    ) -> Result<Self, BpfError> {
        Self::load_for(kind, name, attachment, None, code)
    }

    /// As [`Program::load`]. A program for one `device` may call functions of its driver (`BPF_F_XDP_DEV_BOUND_ONLY`,
    /// Linux 6.3).
    ///
    /// # Errors
    /// As [`Program::load`]; the driver has no such functions (`EOPNOTSUPP`).
    pub(crate) fn load_for(
        kind: ProgramKind,
        name: &str,
        attachment: Option<Attachment>,
        device: Option<i32>,
        code: Assembler,
    ) -> Result<Self, BpfError> {
        let code = code.finish();
        let what = || format!("loading the program {name}");
        // The kernel accepts these instructions only under a license compatible with its own.
        let license = c"Dual MIT/GPL";
        let load = |log: &mut [u8]| {
            let attributes = Attributes::new()
                .u32(0, kind as u32)
                .u32(4, code.len() as u32)
                .pointer(8, code.as_ptr())
                .pointer(16, license.as_ptr())
                .u32(24, u32::from(!log.is_empty()))
                .u32(28, log.len() as u32)
                .u64(32, if log.is_empty() { 0 } else { log.as_mut_ptr().expose_provenance() as u64 })
                .u32(44, if device.is_some() { DEVICE_BOUND } else { 0 })
                .name(48, name)
                .u32(64, device.unwrap_or(0) as u32)
                .u32(68, attachment.map_or(0, |attachment| attachment as u32));
            // SAFETY: the instructions, the license with its final zero and the log are alive for the call and have the
            // given lengths; the kernel writes into the log alone.
            unsafe { attributes.open(PROG_LOAD) }
        };
        // Only a refused program is verified once more, for the log.
        match load(&mut []) {
            Ok(fd) => Ok(Self { fd }),
            Err(source) => {
                let mut log = vec![0; LOG];
                let _ = load(&mut log);
                Err(BpfError { what: what(), source, log: last_lines(&log) })
            }
        }
    }

    /// Attaches a [`ProgramKind::SocketFilter`] to `socket`, which holds it from then on.
    ///
    /// # Errors
    /// [`BpfError`].
    pub(crate) fn filter(&self, socket: &OwnedFd) -> Result<(), BpfError> {
        sys::set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &self.fd.as_raw_fd())
            .map_err(BpfError::while_doing("attaching a filter to a socket"))
    }

    /// Attaches the program to the interface with this index, for as long as the link lives: at ingress behind those
    /// already attached.
    ///
    /// # Errors
    /// [`BpfError`]: not in this kernel (`EINVAL`), no such interface (`ENODEV`). For XDP: another program is attached
    /// (`EBUSY`), the driver has no XDP, or not for this mtu or these offloads (`EOPNOTSUPP`, `EINVAL`, `ERANGE`).
    pub(crate) fn attach(&self, attachment: Attachment, index: i32) -> Result<Link, BpfError> {
        let attributes = Attributes::new()
            .fd(0, &self.fd)
            .u32(4, index as u32)
            .u32(8, attachment as u32)
            .u32(12, attachment.flags());
        // SAFETY: this command follows no pointer.
        let fd = unsafe { attributes.open(LINK_CREATE) }
            .map_err(BpfError::while_doing("attaching a program to an interface"))?;
        Ok(Link { fd })
    }
}

/// An attached program, as long as this and the interface exist.
#[derive(Debug)]
pub(crate) struct Link {
    fd: OwnedFd,
}

impl Link {
    /// Returns true if the program is still attached. It is not after a detachment (`bpftool link detach`), or without
    /// the interface.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(crate) fn is_attached(&self) -> io::Result<bool> {
        // `struct bpf_link_info`; for a link to an interface, the interface's index is behind type, id and program.
        let mut info = [0_u32; 16];
        let attributes =
            Attributes::new().fd(0, &self.fd).u32(4, size_of_val(&info) as u32).pointer(8, info.as_mut_ptr());
        // SAFETY: the kernel writes at most as many bytes into `info` as it has, and `info` lives for the call.
        unsafe { attributes.run(OBJECT_INFO) }?;
        Ok(info[4] != 0)
    }

    /// Returns the same link with a descriptor above those of other files, which the kernel closes first when the
    /// process ends.
    ///
    /// # Errors
    /// [`BpfError`]: too many files (`EMFILE`).
    pub(crate) fn moved_up(self) -> Result<Self, BpfError> {
        let fd = move_up(self.fd).map_err(BpfError::while_doing("moving a descriptor above the others"))?;
        Ok(Self { fd })
    }
}

/// Moves `fd` to a number far above those of other files. When a process ends, the kernel closes its files from the
/// highest number down.
///
/// # Errors
/// The kernel's answer: too many files (`EMFILE`).
pub(crate) fn move_up(fd: OwnedFd) -> io::Result<OwnedFd> {
    // Few programs have as many files, and the kernel's table of files grows to this number.
    const HIGH: libc::c_int = 1000;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    sys::check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    let most = libc::c_int::try_from(limit.rlim_cur).unwrap_or(libc::c_int::MAX);
    let at = HIGH.min(most.saturating_sub(8)).max(0);
    // SAFETY: the arguments are an open descriptor and a number.
    let moved = sys::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, at) })?;
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

/// Number of a descriptor for an instruction.
fn number(fd: BorrowedFd<'_>) -> i32 {
    fd.as_raw_fd()
}

/// Last lines of the verifier's log, each on its own line.
fn last_lines(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]).into_owned();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| format!("\n  verifier: {line}")).collect()
}

#[cfg(test)]
pub(crate) mod tests;

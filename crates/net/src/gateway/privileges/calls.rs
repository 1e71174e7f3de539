//! Restricts system calls by seccomp(2), on all threads. Any other call is refused with `EPERM`, and recorded in the
//! kernel's log if `kernel.seccomp.actions_logged` has `errno`. No process can be started, and no memory made
//! executable.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::Privileges;
use crate::io::sys;

/// Calls that are allowed with any arguments. They include those needed for each frame, which the kernel then allows
/// without running the filter.
const ALLOWED: &[libc::c_long] = &[
    // For frames, sockets and open files.
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_openat,
    libc::SYS_unlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchownat,
    libc::SYS_umask,
    // For new sockets: interfaces, clients, a control socket that another gateway frees late.
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    // Waiting and time.
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Threads and signals.
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_prlimit64,
    libc::SYS_getrandom,
    libc::SYS_geteuid,
    libc::SYS_getegid,
    libc::SYS_getuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_uname,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Older forms of these, which some architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_dup2,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Families of sockets.
const FAMILIES: [libc::c_int; 6] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_XDP];
/// Settings that a thread makes for itself: its name, its timer slack, names of its memory.
const SETTINGS: [libc::c_int; 3] = [libc::PR_SET_NAME, libc::PR_SET_TIMERSLACK, libc::PR_SET_VMA];

// Flags of seccomp(2).
const SET_MODE_FILTER: libc::c_uint = 1;
const ON_ALL_THREADS: libc::c_ulong = 1;
const LOGGED: libc::c_ulong = 2;

/// Refuses all other calls, on all threads.
///
/// # Errors
/// As text: another architecture, the kernel's answer.
pub(super) fn refuse_others(needs: &Privileges) -> Result<(), String> {
    let architecture: TargetArch =
        std::env::consts::ARCH.try_into().map_err(|_| format!("not known of {}", std::env::consts::ARCH))?;
    let programs = filters(needs.programs, architecture).map_err(|error| error.to_string())?;
    // SAFETY: takes no pointers.
    sys::check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map_err(|error| error.to_string())?;
    programs
        .iter()
        .zip([0, LOGGED])
        .try_for_each(|(program, flags)| install(program, flags))
        .map_err(|error| error.to_string())
}

/// Builds two filters. The first answers ENOSYS to calls that libc tries before an older one: their flags lie in
/// memory, where no filter sees them.
fn filters(with_programs: bool, architecture: TargetArch) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let first = SeccompFilter::new(unknown, SeccompAction::Allow, absent, architecture)?;

    let is = |argument, value: libc::c_int| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value as u32 as u64)
    };
    let masked = |argument, mask: libc::c_int, value: libc::c_int| {
        let compare = SeccompCmpOp::MaskedEq(mask as u32 as u64);
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value as u32 as u64)
    };
    let one_of = |argument, values: &[libc::c_int]| {
        values.iter().map(|&value| SeccompRule::new(vec![is(argument, value)?])).collect::<Result<Vec<_>, _>>()
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    rules.extend(ALLOWED.iter().chain(OLDER).map(|&call| (call, Vec::new())));
    rules.insert(libc::SYS_socket, one_of(0, &FAMILIES)?);
    rules.insert(libc::SYS_prctl, one_of(0, &SETTINGS)?);
    // No executable memory.
    let not_executable =
        || Ok::<_, seccompiler::BackendError>(vec![SeccompRule::new(vec![masked(2, libc::PROT_EXEC, 0)?])?]);
    rules.insert(libc::SYS_mmap, not_executable()?);
    rules.insert(libc::SYS_mprotect, not_executable()?);
    // Threads only, no process or namespace.
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![masked(0, libc::CLONE_THREAD, libc::CLONE_THREAD)?])?]);
    // A thread's own umask only, no namespace.
    rules.insert(libc::SYS_unshare, one_of(0, &[libc::CLONE_FS])?);
    if with_programs {
        rules.insert(libc::SYS_bpf, Vec::new());
    }
    // clone3 is answered by the first filter; the other filter's answer is not used.
    rules.insert(libc::SYS_clone3, Vec::new());
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let second = SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?;
    Ok([first.try_into()?, second.try_into()?])
}

fn install(program: &[seccompiler::sock_filter], flags: libc::c_ulong) -> io::Result<()> {
    /// `struct sock_fprog` of linux/filter.h.
    #[repr(C)]
    struct Program {
        length: libc::c_ushort,
        filter: *const seccompiler::sock_filter,
    }
    let too_long = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let program = Program { length: program.len().try_into().map_err(too_long)?, filter: program.as_ptr() };
    // SAFETY: `program` points to as many instructions as it says, which the kernel copies during the call.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, ON_ALL_THREADS | flags, &raw const program) };
    match sys::check(result as libc::c_int)? {
        0 => Ok(()),
        thread => Err(io::Error::other(format!("thread {thread} has a filter of its own"))),
    }
}

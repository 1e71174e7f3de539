//! A sandbox that runs a script to collect its commands, and in which the script can change nothing.
//!
//! | layer | effect |
//! | --- | --- |
//! | user | root becomes an unprivileged user in its own network namespace |
//! | capabilities, `no_new_privs` | all sets are empty, and no program can gain new ones |
//! | landlock(7) | files are read-only except in one directory; no TCP ports |
//! | seccomp(2) | sockets, signals, mounts, modes, owners, namespaces and access to other processes fail with `EPERM`; no system calls of x32 or of other architectures |
//! | setrlimit(2) | limits of processor time, memory and file length |

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use caps::CapSet;
use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use crate::io::sys;

/// Newest landlock ABI in use. An older kernel enforces a part of it and refuses the system calls that it lacks.
const ABI_KNOWN: ABI = ABI::V6;
/// User and group id of `nobody`. This user has no privileges.
pub const SANDBOX_USER: u32 = 65534;
/// Longest file that may be written, in bytes.
const MOST_BYTES: u64 = 16 << 20;
/// Maximum memory of a process, in bytes.
const MOST_MEMORY: u64 = 1 << 30;

/// Limits of a process and its descendants.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// The only directory in which files may be written. For root it has to belong to [`SANDBOX_USER`].
    pub scratch: PathBuf,
    /// Processor time of each process, in seconds.
    pub seconds: u64,
}

/// A layer of the sandbox that the system does not provide.
#[derive(Debug)]
pub struct SandboxError {
    layer: &'static str,
    why: String,
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the script is not run, because this system gives no sandbox: {}: {}", self.layer, self.why)
    }
}

impl std::error::Error for SandboxError {}

impl Sandbox {
    /// Confines this process and its future descendants. The process must have one thread, and then executes the
    /// script.
    ///
    /// # Errors
    /// A layer cannot be installed. The process has then lost an unknown part of its rights, and should end.
    pub fn enter(&self) -> Result<(), SandboxError> {
        let wrong = |layer: &'static str| move |why: String| SandboxError { layer, why };
        self.limit().map_err(|error| wrong("setrlimit")(error.to_string()))?;
        drop_user().map_err(wrong("user"))?;
        // SAFETY: takes no pointers.
        sys::check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
            .map_err(|error| wrong("no_new_privs")(error.to_string()))?;
        protect_files(&self.scratch).map_err(wrong("landlock"))?;
        refuse_calls().map_err(wrong("seccomp"))
    }

    fn limit(&self) -> io::Result<()> {
        let limits = [
            (libc::RLIMIT_CPU, self.seconds),
            (libc::RLIMIT_FSIZE, MOST_BYTES),
            (libc::RLIMIT_AS, MOST_MEMORY),
            (libc::RLIMIT_NOFILE, 256),
            (libc::RLIMIT_CORE, 0),
        ];
        for (which, most) in limits {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            // SAFETY: the structure lives during the call.
            sys::check(unsafe { libc::setrlimit(which, &limit) })?;
        }
        Ok(())
    }
}

/// Drops root, or all capabilities of another user.
fn drop_user() -> Result<(), String> {
    let system = |error: io::Error| error.to_string();
    // SAFETY: takes nothing, and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        // A second layer against the network; a container may refuse it, and sockets are refused in any case.
        // SAFETY: takes no pointers.
        let _ = unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWIPC) };
        // While this is still allowed: no program may get capabilities from this set.
        caps::clear(None, CapSet::Bounding).map_err(|error| error.to_string())?;
        // SAFETY: a list of no groups is not read.
        sys::check(unsafe { libc::setgroups(0, std::ptr::null()) }).map_err(system)?;
        // SAFETY: take no pointers.
        sys::check(unsafe { libc::setresgid(SANDBOX_USER, SANDBOX_USER, SANDBOX_USER) }).map_err(system)?;
        // SAFETY: as above.
        sys::check(unsafe { libc::setresuid(SANDBOX_USER, SANDBOX_USER, SANDBOX_USER) }).map_err(system)?;
    }
    let _ = caps::clear(None, CapSet::Ambient);
    for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Makes all files read-only except those beneath `scratch`.
fn protect_files(scratch: &Path) -> Result<(), String> {
    let read = AccessFs::from_read(ABI_KNOWN);
    let restrict = || -> Result<RulesetStatus, Box<dyn std::error::Error>> {
        let rules = Ruleset::default()
            .handle_access(AccessFs::from_all(ABI_KNOWN))?
            .handle_access(AccessNet::from_all(ABI_KNOWN))?
            .scope(Scope::Signal)?
            .scope(Scope::AbstractUnixSocket)?
            .create()?
            .add_rule(PathBeneath::new(PathFd::new("/")?, read))?
            .add_rule(PathBeneath::new(PathFd::new(scratch)?, AccessFs::from_all(ABI_KNOWN)))?
            .add_rule(PathBeneath::new(PathFd::new("/dev/null")?, AccessFs::WriteFile | AccessFs::ReadFile))?;
        Ok(rules.restrict_self()?.ruleset)
    };
    match restrict().map_err(|error| error.to_string())? {
        RulesetStatus::NotEnforced => {
            Err("this kernel has no landlock, or it is not switched on (Linux 5.13, CONFIG_SECURITY_LANDLOCK, lsm=)"
                .to_owned())
        }
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// Refused system calls, which reach beyond the process: the network, other processes, and file operations that
/// landlock does not cover.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_io_uring_setup,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_getfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    // The caller ends the script by its process group.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_truncate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    libc::SYS_userfaultfd,
    // fchmodat2, setxattrat and removexattrat, which have one number everywhere.
    452,
    463,
    466,
];

/// The older forms of some calls, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] =
    &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

fn refuse_calls() -> Result<(), String> {
    let architecture: TargetArch =
        std::env::consts::ARCH.try_into().map_err(|_| format!("not known of {}", std::env::consts::ARCH))?;
    for program in programs(architecture).map_err(|error| error.to_string())? {
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn programs(architecture: TargetArch) -> Result<[BpfProgram; 3], seccompiler::BackendError> {
    // The C library then falls back to clone, whose flags a filter can check.
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let first = SeccompFilter::new(unknown, SeccompAction::Allow, absent, architecture)?;

    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().chain(REFUSED_HERE).map(|&call| (call, Vec::new())).collect();
    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let flagged = namespaces.into_iter().map(|flag| {
        let compare = SeccompCmpOp::MaskedEq(flag as u32 as u64);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, compare, flag as u32 as u64)?;
        SeccompRule::new(vec![condition])
    });
    rules.insert(libc::SYS_clone, flagged.collect::<Result<_, _>>()?);
    // Characters put into the terminal of others, and limits of other processes.
    // C libraries differ in its type.
    let request = u64::from(libc::TIOCSTI as u32);
    let typed = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?;
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(vec![typed])?]);
    let others = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![others])?]);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let second = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?;
    // Each of these two also kills a process that makes calls of another architecture (32-bit x86 on x86-64).
    Ok([first.try_into()?, second.try_into()?, without_x32()])
}

/// Builds a filter that refuses x32 calls, whose numbers are in no list of calls. seccompiler can only compare a number
/// with one call.
fn without_x32() -> BpfProgram {
    /// The bit that marks them (`__X32_SYSCALL_BIT`).
    const X32: u32 = 0x4000_0000;
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_SET, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::EPERM as u32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}

/// Kills all processes of the group started by `leader`.
pub fn end_process_group(leader: u32) {
    if let Ok(group @ 2..) = i32::try_from(leader) {
        // SAFETY: takes no pointers. The group may be empty by now, which is an error that changes nothing.
        let _ = unsafe { libc::killpg(group, libc::SIGKILL) };
    }
}

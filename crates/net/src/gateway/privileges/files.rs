//! Restricts the files that the process can open, by landlock(7). Open files stay open.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::{Privileges, directory};

/// Requested landlock ABI; older kernels restrict less.
const KNOWN: ABI = ABI::V6;

/// Settings of interfaces, such as ARP replies for other addresses.
const SETTINGS: &str = "/proc/sys/net";
/// Directory of the settings that keep IPv6 off a cable.
const IPV6_SETTINGS: &str = "/proc/sys/net/ipv6/conf";
/// The kernel's types (BTF), in which AF_XDP finds the function that returns VLAN tags.
const TYPES: &str = "/sys/kernel/btf";
/// The terminal, to check that it still exists.
const TERMINAL: &str = "/dev/tty";

/// Closes all other files, TCP ports, and access to other processes. Returns `Some` text if this kernel restricts only
/// a part.
///
/// # Errors
/// As text: this kernel has no landlock.
pub(super) fn close_others(needs: &Privileges) -> Result<Option<String>, String> {
    let status = restrict(needs).map_err(|error| error.to_string())?;
    match status {
        RulesetStatus::FullyEnforced => Ok(None),
        RulesetStatus::PartiallyEnforced => {
            Ok(Some("this kernel's landlock is older than Linux 6.12 and restricts only a part".to_owned()))
        }
        RulesetStatus::NotEnforced => {
            Err("this kernel has no landlock, or it is not switched on (Linux 5.13, CONFIG_SECURITY_LANDLOCK, lsm=)"
                .to_owned())
        }
    }
}

fn restrict(needs: &Privileges) -> Result<RulesetStatus, RulesetError> {
    let read = AccessFs::ReadFile;
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        // Abstract sockets stay open: a link uses them to take the place of another one of this process, see `claim`.
        .scope(Scope::Signal)?
        .create()?;
    for file in &needs.files {
        // An editor replaces the file by a new one, and a link may lead to another directory.
        let beside = directory(file);
        let behind = std::fs::canonicalize(file).ok().map(|file| directory(&file)).filter(|behind| *behind != beside);
        for place in [Some(beside), behind].into_iter().flatten() {
            rules = allow(rules, &place, read.into())?;
        }
    }
    if let Some(control) = needs.control_directory() {
        rules = allow(rules, &control, AccessFs::MakeSock | AccessFs::RemoveFile)?;
    }
    rules = allow(rules, Path::new(SETTINGS), read.into())?;
    if needs.cables {
        rules = allow(rules, Path::new(IPV6_SETTINGS), read | AccessFs::WriteFile | AccessFs::Truncate)?;
    }
    if needs.pinned {
        rules = allow(rules, Path::new(TYPES), read.into())?;
    }
    rules = allow(rules, &PathBuf::from(TERMINAL), read.into())?;
    for address in &needs.addresses {
        rules = rules.add_rule(NetPort::new(address.port(), AccessNet::BindTcp))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Allows `access` to everything beneath `path`; a missing path stays closed.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(place) => rules.add_rule(PathBeneath::new(place, access)),
        Err(_) => Ok(rules),
    }
}

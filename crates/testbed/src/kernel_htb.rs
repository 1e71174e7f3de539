//! The kernel's own HTB for the tree of a link file, for comparison with our schedulers on real packets. Its name is
//! `kernel-htb`; it needs the `tc` program.
//!
//! Frames select their class by `SO_PRIORITY`, which HTB interprets as a class number ([`KernelHtb::priorities`]). Frames
//! that a bridge forwards have lost it: there the destination port selects the class ([`KernelHtb::install_by_port`]).
//! Every class's guarantee is its HTB rate. Its ceil is its ceiling, or the link's rate if it has none.
//!
//! HTB shares excess bandwidth by the quanta of the leaves: those of the link file, as they are. Others are in proportion
//! to the leaves' rates. The smallest is [`MIN_QUANTUM`], unless the largest would exceed [`MAX_QUANTUM`]. HTB's outcome depends on the quanta, so every
//! comparison has to state them ([`KernelHtb::quanta`]). It does not depend on them alone: the kernel also skips a
//! class at the root while the class is lending, as the head of `examples/oracle_htb.rs` explains.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fairlink_core::{ClassId, Hierarchy, QueueKind, Share};

/// Smallest quantum in bytes: the largest frame with its Ethernet header, so that each turn of a class sends a frame.
pub(crate) const MIN_QUANTUM: u64 = 1_514;
/// The kernel's HTB has eight priorities.
const MAX_PRIORITY: u8 = 7;
/// Largest quantum in bytes: the limit of the kernel's HTB for its automatic quanta.
pub(crate) const MAX_QUANTUM: u64 = 200_000;
/// Maximum number of classes: HTB's class numbers have 16 bits, of which 0 is invalid and the link itself uses one.
pub(crate) const MAX_CLASSES: usize = 65_534;
/// Packets that a leaf's queue holds.
const QUEUE: u32 = 1000;

/// Reason why the kernel's HTB could not be set up or read.
#[derive(Debug, thiserror::Error)]
pub enum TcError {
    /// There is no `tc`.
    #[error("the kernel's HTB needs the program tc (package iproute2), which is not installed")]
    Missing,
    /// More classes than HTB has numbers for.
    #[error("{classes} classes; the kernel's HTB has numbers for {MAX_CLASSES}")]
    TooManyClasses {
        /// Number of classes.
        classes: usize,
    },
    /// `tc` could not be run.
    #[error("running {}: {source}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// `tc` failed.
    #[error("tc: {message}")]
    Failed {
        /// Its message.
        message: String,
    },
}

/// HTB as root queueing discipline of an interface; removed when this is dropped.
#[derive(Debug)]
pub struct KernelHtb {
    program: PathBuf,
    interface: String,
    quanta: Vec<(ClassId, u64)>,
}

/// The kernel's counters of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelCount {
    /// The class.
    pub class: ClassId,
    /// Bytes sent, Ethernet headers included.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
}

/// Searches for `tc` in the directories of `PATH`, then in the usual directories of root's programs.
#[must_use]
pub(crate) fn find_tc() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|directory| directory.join("tc")).find(|program| program.is_file())
}

impl KernelHtb {
    /// Replaces the root queueing discipline of `interface` by HTB with the classes of `tree`.
    ///
    /// # Errors
    /// [`TcError`]: no `tc`, too many classes, or a failure of `tc`.
    pub fn install(interface: &str, tree: &Hierarchy) -> Result<Self, TcError> {
        Self::install_with(&find_tc().ok_or(TcError::Missing)?, interface, tree, &[])
    }

    /// As [`install`](Self::install), but the destination port of a packet of IPv4 selects its class. The last leaf of
    /// `tree` is the default class. The kernel tries the `ports` one after the other.
    ///
    /// # Errors
    /// [`TcError`].
    pub fn install_by_port(interface: &str, tree: &Hierarchy, ports: &[(ClassId, u16)]) -> Result<Self, TcError> {
        Self::install_with(&find_tc().ok_or(TcError::Missing)?, interface, tree, ports)
    }

    fn install_with(
        program: &Path,
        interface: &str,
        tree: &Hierarchy,
        ports: &[(ClassId, u16)],
    ) -> Result<Self, TcError> {
        if tree.len() > MAX_CLASSES {
            return Err(TcError::TooManyClasses { classes: tree.len() });
        }
        // Constructed before the setup, so that a failure half-way removes the parts.
        let htb = Self { program: program.to_owned(), interface: interface.to_owned(), quanta: quanta(tree) };
        run(program, &["-batch", "-"], &commands(interface, tree, &htb.quanta, ports))?;
        Ok(htb)
    }

    /// The quantum of each leaf in bytes.
    #[must_use]
    pub fn quanta(&self) -> &[(ClassId, u64)] {
        &self.quanta
    }

    /// The `SO_PRIORITY` of each leaf.
    #[must_use]
    pub fn priorities(&self) -> Vec<(ClassId, u32)> {
        self.quanta.iter().map(|&(class, _)| (class, 0x1_0000 | u32::from(minor(class)))).collect()
    }

    /// Reads the kernel's own counters of every class, the link's included.
    ///
    /// # Errors
    /// [`TcError`].
    pub fn counters(&self) -> Result<Vec<KernelCount>, TcError> {
        // The text form: iproute2 6.1 prints classes as text even if JSON is requested.
        run(&self.program, &["-s", "class", "show", "dev", &self.interface], "").map(|text| parse_counters(&text))
    }
}

impl Drop for KernelHtb {
    fn drop(&mut self) {
        // It vanishes with the interface at the latest, and an error could not be reported.
        let _ = run(&self.program, &["qdisc", "del", "dev", &self.interface, "root"], "");
    }
}

/// A class's number under the handle 1: the root's is 1; 0 is invalid. There are at most [`MAX_CLASSES`] classes.
fn minor(class: ClassId) -> u16 {
    class.0 as u16 + 1
}

fn rate(tree: &Hierarchy, class: ClassId) -> u64 {
    match tree.config(class).share {
        Some(Share::Guarantee(rate)) => rate.bps(),
        // HTB does not accept a rate below one byte per second.
        _ => tree.rate_all_busy(class).max(8),
    }
}

/// The quantum of each leaf: its own, or one in proportion to the rates.
fn quanta(tree: &Hierarchy) -> Vec<(ClassId, u64)> {
    let rates: Vec<u64> = tree.leaves().iter().map(|&leaf| rate(tree, leaf)).collect();
    let smallest = rates.iter().copied().min().unwrap_or(1).max(1);
    let largest = rates.iter().copied().max().unwrap_or(1);
    // quantum = rate * numerator / denominator
    let by_smallest = (MIN_QUANTUM, smallest);
    let (numerator, denominator) =
        if u128::from(largest) * u128::from(MIN_QUANTUM) > u128::from(MAX_QUANTUM) * u128::from(smallest) {
            (MAX_QUANTUM, largest)
        } else {
            by_smallest
        };
    let quantum = |rate: u64| (u128::from(rate) * u128::from(numerator)).div_ceil(u128::from(denominator)) as u64;
    let of = |(&leaf, rate): (&ClassId, u64)| {
        let derived = || quantum(rate).clamp(MIN_QUANTUM, MAX_QUANTUM);
        (leaf, tree.config(leaf).quantum.map_or_else(derived, u64::from))
    };
    tree.leaves().iter().zip(rates).map(of).collect()
}

/// The commands for `tc -batch`.
fn commands(interface: &str, tree: &Hierarchy, quanta: &[(ClassId, u64)], ports: &[(ClassId, u16)]) -> String {
    let link = tree.link().rate.bps();
    let default = match tree.leaves().last() {
        Some(&leaf) if !ports.is_empty() => format!(" default {:x}", minor(leaf)),
        _ => String::new(),
    };
    let mut text = format!("qdisc replace dev {interface} root handle 1: htb{default}\n");
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).and_then(|()| text.write_char('\n')).expect("writing to a string does not fail");
    };
    let mut leaf_quanta = quanta.iter().peekable();
    for class in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
        let parent = tree.parent(class).map_or_else(|| "1:".to_owned(), |parent| format!("1:{:x}", minor(parent)));
        let rate = rate(tree, class);
        let ceil = tree.config(class).ceiling.map_or(link, |ceiling| ceiling.bps().min(link)).max(rate);
        let quantum = leaf_quanta.next_if(|(leaf, _)| *leaf == class).map_or(MIN_QUANTUM, |&(_, quantum)| quantum);
        let minor = minor(class);
        let config = tree.config(class);
        let optional = [
            ("burst", config.burst, "b"),
            ("cburst", config.ceiling_burst, "b"),
            ("prio", config.priority.map(|priority| u64::from(priority.min(MAX_PRIORITY))), ""),
        ];
        let set = |(word, value, unit): (&str, Option<u64>, &str)| Some(format!(" {word} {}{unit}", value?));
        let optional: String = optional.into_iter().filter_map(set).collect();
        line(format_args!(
            "class add dev {interface} parent {parent} classid 1:{minor:x} htb rate {rate}bit ceil {ceil}bit quantum {quantum}{optional}"
        ));
        if tree.is_leaf(class) {
            let queue = if config.queue == QueueKind::FqCoDel { "fq_codel" } else { "pfifo" };
            line(format_args!("qdisc add dev {interface} parent 1:{minor:x} {queue} limit {QUEUE}"));
        }
    }
    for &(class, port) in ports {
        let minor = minor(class);
        line(format_args!(
            "filter add dev {interface} parent 1: protocol ip u32 match ip dport {port} 0xffff flowid 1:{minor:x}"
        ));
    }
    text
}

/// Runs `tc` with `arguments` and `input`. Returns its output.
fn run(program: &Path, arguments: &[&str], input: &str) -> Result<String, TcError> {
    let failed = |source| TcError::Run { program: program.to_owned(), source };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // In a separate thread, so that neither side waits for the other with a full pipe.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A tc that ends early prints the reason on its standard error, which is reported.
            let _ = stdin.write_all(input.as_bytes());
        });
        child.wait_with_output()
    })
    .map_err(failed)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let message =
            text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed without a message").to_owned();
        return Err(TcError::Failed { message });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses `tc -s class show`: a line `class htb 1:2 ...`, then ` Sent 10 bytes 1 pkt (dropped 0, ...`.
fn parse_counters(text: &str) -> Vec<KernelCount> {
    let mut counts = Vec::new();
    let mut current = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["class", "htb", id, ..] => {
                let minor = id.strip_prefix("1:").and_then(|minor| u32::from_str_radix(minor, 16).ok());
                current = minor.and_then(|minor| minor.checked_sub(1)).map(ClassId);
            }
            ["Sent", bytes, "bytes", packets, "pkt", "(dropped", dropped, ..] => {
                if let (Some(class), Ok(sent_bytes), Ok(sent_packets), Ok(dropped_packets)) =
                    (current.take(), bytes.parse(), packets.parse(), dropped.trim_end_matches(',').parse())
                {
                    counts.push(KernelCount { class, sent_bytes, sent_packets, dropped_packets });
                }
            }
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{ClassConfig, LinkConfig, Rate};

    fn tree(rates: &[u64]) -> Hierarchy {
        let class = |rate| ClassConfig {
            share: Some(Share::Guarantee(Rate::from_bps(rate).unwrap())),
            ..ClassConfig::default()
        };
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(100_000_000).unwrap()));
        let a = tree.add(ClassId::ROOT, class(rates.iter().sum())).unwrap();
        for &rate in rates {
            tree.add(a, class(rate)).unwrap();
        }
        tree.build().unwrap()
    }

    #[test]
    fn quanta_are_in_proportion_to_the_rates_and_hold_a_frame() {
        let of = |rates: &[u64]| quanta(&tree(rates)).into_iter().map(|(_, quantum)| quantum).collect::<Vec<_>>();
        assert_eq!(of(&[6_000_000, 24_000_000, 40_000_000]), [1514, 6056, 10_094]);
        assert_eq!(of(&[1, 2, 99_000_000]), [1514, 1514, 200_000]);
    }

    #[test]
    fn the_tree_is_told_to_tc_parents_first() {
        let tree = tree(&[6_000_000, 24_000_000]);
        let expected = "\
qdisc replace dev v0 root handle 1: htb
class add dev v0 parent 1: classid 1:1 htb rate 100000000bit ceil 100000000bit quantum 1514
class add dev v0 parent 1:1 classid 1:2 htb rate 30000000bit ceil 100000000bit quantum 1514
class add dev v0 parent 1:2 classid 1:3 htb rate 6000000bit ceil 100000000bit quantum 1514
qdisc add dev v0 parent 1:3 pfifo limit 1000
class add dev v0 parent 1:2 classid 1:4 htb rate 24000000bit ceil 100000000bit quantum 6056
qdisc add dev v0 parent 1:4 pfifo limit 1000
";
        assert_eq!(commands("v0", &tree, &quanta(&tree), &[]), expected);
    }

    #[test]
    fn ports_select_classes_and_the_last_leaf_is_the_default() {
        let tree = tree(&[6_000_000, 24_000_000]);
        let text = commands("v0", &tree, &quanta(&tree), &[(ClassId(2), 5001)]);
        assert!(text.starts_with("qdisc replace dev v0 root handle 1: htb default 4\n"), "{text}");
        let filter = "filter add dev v0 parent 1: protocol ip u32 match ip dport 5001 0xffff flowid 1:3\n";
        assert!(text.ends_with(filter), "{text}");
    }

    #[test]
    fn the_kernels_counters_are_read() {
        let text = "\
class htb 1:1 root rate 100Mbit ceil 100Mbit burst 1600b cburst 1600b
 Sent 4000 bytes 4 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0

class htb 1:1f parent 1:1 leaf 8002: prio 0 rate 50Mbit ceil 100Mbit burst 1600b cburst 1600b
 Sent 3000 bytes 3 pkt (dropped 2, overlimits 0 requeues 0)
";
        let count = |class, sent_bytes, sent_packets, dropped_packets| KernelCount {
            class: ClassId(class),
            sent_bytes,
            sent_packets,
            dropped_packets,
        };
        assert_eq!(parse_counters(text), [count(0, 4000, 4, 0), count(30, 3000, 3, 2)]);
    }

    #[test]
    fn a_tc_that_fails_or_is_missing_is_an_error_that_says_so() {
        let error = run(Path::new("/nonexistent/tc"), &[], "").unwrap_err();
        assert!(matches!(error, TcError::Run { .. }), "{error}");
        let error = run(Path::new("/bin/sh"), &["-c", "echo 'Error: no such device' >&2; exit 2"], "").unwrap_err();
        assert_eq!(error.to_string(), "tc: Error: no such device");
    }
}

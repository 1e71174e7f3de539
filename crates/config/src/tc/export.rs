//! A link file to tc commands for one device.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use fairlink_core::schedulers::htb::Plan;
use fairlink_core::{ClassConfig, ClassId, Feature, QueueKind, QueueLimits, Share, Sharing};
use fairlink_core::{Framing, Hierarchy};
use fairlink_schema::keys::{CLASS, LINK};
use miette::Severity;

use crate::classid::Classid;
use crate::commands::kernel::{MAX_PRIORITY, MAX_QUANTUM};
use crate::link::KERNEL_HTB_LEVELS;
use crate::link::LinkFile;
use crate::matching::ethernet::{IPV4, IPV6, PPPOE_SESSION};
use crate::matching::{IpVersion, Match, PortRange, TCP, UDP};
use crate::problem::{Problem, ProblemKind, Problems};
use crate::units::{show_bps, show_rate};

/// Minimum quantum written by default, in bytes: each turn of a class sends a frame.
const TURN: u64 = 1_514;
/// The kernel counts deficits in 32 bits with a sign.
const LARGEST_QUANTUM: u64 = i32::MAX as u64;
/// CBQ's average packet in bytes, as in \[htb\].
const AVPKT: u64 = 1_000;
/// The smallest rate of the kernel's HTB in bit/s: it counts bytes.
const MIN_RATE: u64 = 8;

/// Features of classes that the kernel's HTB has, too.
const HTB: &[Feature] = &[
    Feature::ActiveQueue,
    Feature::Burst,
    Feature::Ceiling,
    Feature::CeilingBurst,
    Feature::Priority,
    Feature::Quantum,
];
/// Features of classes that the kernel's CBQ has, too.
const CBQ: &[Feature] =
    &[Feature::ActiveQueue, Feature::Borrowing, Feature::Burst, Feature::Priority, Feature::Quantum];
/// Keys of the link, with a field of their own, that tc expresses, or that limit all queues together, each of which tc limits.
const LINK_KEYS: [&str; 2] = ["rate", "buffer"];

/// tc commands made of a link file.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The commands, one a line, with comments.
    pub text: String,
    /// Losses and changes of meaning, in the order of the file.
    pub notes: Vec<Problem>,
}

/// Writes the commands that set `link` up on `device`: CBQ for a file of CBQ, else HTB.
///
/// # Errors
/// More classes than tc has numbers for.
pub fn export(link: &LinkFile, device: &str) -> Result<Exported, Problems> {
    let cbq = link.scheduler.starts_with("cbq");
    let plan = match link.info().sharing {
        Sharing::Lenders => Plan::for_tree(&link.tree).ok(),
        _ => None,
    };
    let mut writer =
        Writer { link, device, cbq, plan, numbers: HashMap::new(), top: None, text: String::new(), notes: Vec::new() };
    writer.number()?;
    writer.file();
    let link = writer.tree().link();
    for key in LINK.iter().filter(|key| !LINK_KEYS.contains(&key.name) && key.value(&link).is_some()) {
        writer.lost(ClassId::ROOT, format!("the link's {} is left out: tc has no equivalent", key.name));
    }
    writer.notes.sort_by_key(|note| note.span().map(|span| span.start));
    Ok(Exported { text: writer.text, notes: writer.notes })
}

struct Writer<'l> {
    link: &'l LinkFile,
    device: &'l str,
    cbq: bool,
    /// The parameters that `htb` runs with, if that is the link's scheduler.
    plan: Option<Plan>,
    numbers: HashMap<ClassId, Classid>,
    /// The class of the link itself, if it needs one.
    top: Option<Classid>,
    text: String,
    notes: Vec<Problem>,
}

impl Writer<'_> {
    fn tree(&self) -> &Hierarchy {
        &self.link.tree
    }

    fn lost(&mut self, class: ClassId, what: String) {
        let kind = ProblemKind::Tc { what, help: None };
        self.notes.push(Problem::new(Severity::Warning, self.link.source(), self.link.span(class), kind));
    }

    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        self.text.write_fmt(line).expect("writing to a string does not fail");
        self.text.push('\n');
    }

    fn major(&self) -> u16 {
        self.link.classids.first().map_or(1, |(number, _)| number.major())
    }

    /// Gives every class its own number, or the smallest free one.
    fn number(&mut self) -> Result<(), Problems> {
        let major = self.major();
        let mut taken: Vec<bool> = vec![false; 1 << 16];
        taken[0] = true;
        for &(number, class) in &self.link.classids {
            taken[usize::from(number.minor())] = true;
            self.numbers.insert(class, number);
        }
        let mut free =
            (1..=u16::MAX).filter(|&minor| !taken[usize::from(minor)]).filter_map(|minor| Classid::new(major, minor));
        let full = || {
            let what = format!("{} classes; the limit of tc is 65535 for each device", self.link.tree.len());
            Problems::one(Problem::error(
                self.link.source(),
                None,
                ProblemKind::Tc { what, help: Some("split the link") },
            ))
        };
        if self.needs_top() {
            self.top = Some(free.next().ok_or_else(full)?);
        }
        for class in self.link.tree.classes() {
            if let Entry::Vacant(number) = self.numbers.entry(class) {
                number.insert(free.next().ok_or_else(full)?);
            }
        }
        Ok(())
    }

    /// HTB's root neither has a rate nor lends. So it takes a class in between, unless the classes of the root borrow
    /// nothing.
    fn needs_top(&self) -> bool {
        let tree = self.tree();
        let alone = |&class: &ClassId| match (tree.config(class).share, tree.config(class).ceiling) {
            (Some(Share::Guarantee(rate)), Some(ceiling)) => ceiling <= rate,
            _ => false,
        };
        !self.cbq && !tree.children(ClassId::ROOT).iter().all(alone)
    }

    fn file(&mut self) {
        let (device, major, link) = (self.device, self.major(), self.tree().link().rate);
        self.add(format_args!("# From {} by `fairlink tc export`.", self.link.source().name().replace('\n', " ")));
        if !self.cbq && !self.link.scheduler.starts_with("htb") {
            let what = format!("{} becomes htb, which shares spare bandwidth by quanta", self.link.scheduler);
            self.lost(ClassId::ROOT, what);
        }
        if self.cbq && self.link.scheduler != "cbq-top-level" {
            self.lost(
                ClassId::ROOT,
                format!("{} becomes the kernel's CBQ, which is cbq-top-level", self.link.scheduler),
            );
        }
        let levels = self.tree().levels() + usize::from(self.top.is_some());
        if !self.cbq && levels > KERNEL_HTB_LEVELS {
            let what = format!(
                "WARNING: {levels} levels of classes; the limit of the kernel's HTB is {KERNEL_HTB_LEVELS}, and it will refuse the deepest"
            );
            self.lost(ClassId::ROOT, what);
        }
        let default = self.link.default_class.map(|class| format!(" default {:x}", self.numbers[&class].minor()));
        if self.cbq {
            let bandwidth = link.bps();
            self.add(format_args!(
                "tc qdisc add dev {device} root handle {major:x}: cbq bandwidth {bandwidth}bit avpkt {AVPKT}"
            ));
        } else {
            let default = default.unwrap_or_default();
            self.add(format_args!("tc qdisc add dev {device} root handle {major:x}: htb{default}"));
        }
        if let Some(top) = self.top {
            let (rate, overhead) = (link.bps(), self.overhead());
            self.add(format_args!("# The link itself: the root of htb has no rate."));
            self.add(format_args!(
                "tc class add dev {device} parent {major:x}: classid {top} htb rate {rate}bit ceil {rate}bit{overhead}"
            ));
        } else if !self.cbq {
            let what = format!("the link's rate of {} is left to the device: htb's root has none", show_rate(link));
            self.lost(ClassId::ROOT, what);
        }
        if self.link.overhead.framing != Framing::Plain {
            let what =
                "the overhead of atm and ptm is left out: write linklayer atm and overhead into the classes".to_owned();
            self.lost(ClassId::ROOT, what);
        } else if self.cbq && self.link.overhead.bytes > 0 {
            self.lost(ClassId::ROOT, "cbq has no overhead".to_owned());
        }
        let quanta = self.quanta();
        for class in self.link.tree.classes() {
            self.class(class, &quanta);
        }
        let mut preference = 1;
        for (class, made) in &self.link.matches {
            self.filters(*class, made, &mut preference);
        }
        if let (true, Some(class)) = (self.cbq && !self.link.matches.is_empty(), self.link.default_class) {
            self.filters(class, &Match::ANY, &mut preference);
        }
    }

    fn overhead(&self) -> String {
        let overhead = self.link.overhead;
        if overhead.framing != Framing::Plain || overhead.bytes == 0 {
            return String::new();
        }
        let least = if overhead.min > 0 { format!(" mpu {}", overhead.min) } else { String::new() };
        format!(" overhead {}{least}", overhead.bytes)
    }

    /// A class's rate in bit/s.
    fn rate(&self, class: ClassId) -> u64 {
        match self.tree().config(class).share {
            Some(Share::Guarantee(rate)) => rate.bps(),
            _ => self.tree().rate_all_busy(class).max(MIN_RATE),
        }
    }

    /// Returns the quantum of each leaf: that which `htb` runs with. For others its own, or one in proportion to the
    /// rates, which holds a frame if possible.
    fn quanta(&self) -> HashMap<ClassId, u64> {
        if let Some(plan) = &self.plan {
            let of = |&leaf: &ClassId| (leaf, plan.quanta[leaf.index()].min(LARGEST_QUANTUM));
            return self.tree().leaves().iter().map(of).collect();
        }
        let rates = || self.tree().leaves().iter().map(|&leaf| self.rate(leaf));
        let (smallest, largest) = (rates().min().unwrap_or(1).max(1), rates().max().unwrap_or(1).max(1));
        let fits = u128::from(largest) * u128::from(TURN) <= u128::from(MAX_QUANTUM) * u128::from(smallest);
        let (numerator, denominator) = if fits { (TURN, smallest) } else { (MAX_QUANTUM, largest) };
        let by_rate = |rate: u64| (u128::from(rate) * u128::from(numerator)).div_ceil(u128::from(denominator)) as u64;
        let of = |&leaf: &ClassId| {
            let own = self.tree().config(leaf).quantum.map(u64::from);
            (leaf, own.unwrap_or_else(|| by_rate(self.rate(leaf)).clamp(TURN, MAX_QUANTUM)))
        };
        self.tree().leaves().iter().map(of).collect()
    }

    fn class(&mut self, class: ClassId, quanta: &HashMap<ClassId, u64>) {
        let config = *self.tree().config(class);
        let (device, major, number) = (self.device, self.major(), self.numbers[&class]);
        let parent = match self.tree().parent(class) {
            Some(parent) if parent != ClassId::ROOT => self.numbers[&parent].to_string(),
            _ => self.top.map_or_else(|| format!("{major:x}:"), |top| top.to_string()),
        };
        let name = self.link.names.name(class);
        if name != number.to_string() {
            let name = name.to_owned();
            self.add(format_args!("# {name}"));
        }
        self.left_out(class, &config);
        let rate = self.whole_bytes(class, "rate", self.rate(class));
        if !matches!(config.share, Some(Share::Guarantee(_))) {
            self.lost(class, format!("its share becomes a rate: {}", show_bps(rate)));
        }
        let options = if self.cbq {
            self.cbq_options(class, &config, quanta)
        } else {
            self.htb_options(class, &config, rate, quanta)
        };
        let kind =
            if self.cbq { format!("cbq bandwidth {}bit", self.tree().link().rate.bps()) } else { "htb".to_owned() };
        self.add(format_args!(
            "tc class add dev {device} parent {parent} classid {number} {kind} rate {rate}bit{options}"
        ));
        if self.tree().is_leaf(class) {
            self.queue(class, &config);
        }
    }

    /// The kernel counts rates in whole bytes per second.
    fn whole_bytes(&mut self, class: ClassId, what: &str, bps: u64) -> u64 {
        let whole = (bps / 8 * 8).max(MIN_RATE);
        if whole != bps {
            let what =
                format!("its {what} of {} becomes {}: the kernel counts whole bytes", show_bps(bps), show_bps(whole));
            self.lost(class, what);
        }
        whole
    }

    fn htb_options(
        &mut self,
        class: ClassId,
        config: &ClassConfig,
        rate: u64,
        quanta: &HashMap<ClassId, u64>,
    ) -> String {
        let link = self.tree().link().rate.bps();
        let ceil = config.ceiling.map_or(link, |ceiling| ceiling.bps()).min(link.max(rate));
        let ceil = self.whole_bytes(class, "ceiling", ceil);
        let mut text = format!(" ceil {ceil}bit");
        let depth = |word: &str, bytes: Option<u64>| bytes.map(|bytes| format!(" {word} {bytes}b")).unwrap_or_default();
        let default = |of: &dyn Fn(&Plan) -> u64| self.plan.as_ref().map(of);
        text += &depth("burst", config.burst.or_else(|| default(&|plan| plan.depth(class))));
        let ceiling_depth = |ceiling| default(&|plan| plan.ceiling_depth(class, ceiling));
        text += &depth("cburst", config.ceiling_burst.or_else(|| config.ceiling.and_then(ceiling_depth)));
        if let Some(&quantum) = quanta.get(&class) {
            let priority = self.priority(class).unwrap_or(0);
            if priority > MAX_PRIORITY {
                self.lost(class, format!("its priority of {priority} becomes {MAX_PRIORITY}, htb's last"));
            }
            write!(text, " prio {} quantum {quantum}", priority.min(MAX_PRIORITY))
                .expect("writing to a string does not fail");
        }
        text + &self.overhead()
    }

    fn cbq_options(&mut self, class: ClassId, config: &ClassConfig, quanta: &HashMap<ClassId, u64>) -> String {
        let mut text = format!(" avpkt {AVPKT}");
        if let Some(burst) = config.burst {
            write!(text, " maxburst {}", burst.div_ceil(AVPKT)).expect("writing to a string does not fail");
        }
        if config.bounded {
            text += " bounded";
        }
        if config.isolated {
            text += " isolated";
        }
        if let Some(&quantum) = quanta.get(&class) {
            write!(text, " allot {TURN} weight {quantum}").expect("as above");
            // CBQ's priorities begin at 1.
            if let Some(priority) = self.priority(class) {
                if priority == 0 || priority > 8 {
                    let taken = priority.clamp(1, 8);
                    self.lost(
                        class,
                        format!("its priority of {priority} becomes {taken}: the kernel's CBQ has 1 to 8"),
                    );
                }
                write!(text, " prio {}", priority.clamp(1, 8)).expect("as above");
            }
        }
        text
    }

    /// A class's own priority, or that of the nearest class above it that has one.
    fn priority(&self, class: ClassId) -> Option<u64> {
        let above = std::iter::successors(Some(class), |&at| self.tree().parent(at));
        above.into_iter().find_map(|at| self.tree().config(at).priority).map(u64::from)
    }

    /// Notes settings without a counterpart in tc.
    fn left_out(&mut self, class: ClassId, config: &ClassConfig) {
        let (kind, expressed) = if self.cbq { ("cbq", CBQ) } else { ("htb", HTB) };
        let set =
            CLASS.iter().filter(|key| key.value(config).is_some()).filter_map(|key| key.features.first().copied());
        let pool = self.link.pools.iter().any(|&(member, _)| member == class).then_some(Feature::Pool);
        // The rate of a bounded class of CBQ is its ceiling.
        let is_bounded = self.cbq && config.bounded;
        let is_said = |feature: &Feature| expressed.contains(feature) || is_bounded && *feature == Feature::Ceiling;
        let lost: BTreeSet<&str> = set.chain(pool).filter(|feature| !is_said(feature)).map(Feature::as_str).collect();
        for feature in lost {
            self.lost(class, format!("{feature} is left out: {kind} has none"));
        }
    }

    fn queue(&mut self, class: ClassId, config: &ClassConfig) {
        let QueueLimits { packets, bytes } = config.limits;
        let kind = match (config.queue, bytes) {
            (QueueKind::Fifo, u32::MAX) => format!("pfifo limit {packets}"),
            (QueueKind::Fifo, _) => format!("bfifo limit {bytes}"),
            (QueueKind::CoDel, _) => format!("codel limit {packets}{}", if config.ecn { " ecn" } else { "" }),
            (QueueKind::FqCoDel, _) => format!("fq_codel limit {packets}{}", if config.ecn { "" } else { " noecn" }),
        };
        if config.hosts.is_some() {
            self.lost(class, "its per is left out: hosts do not share the class equally in tc".to_owned());
        }
        if config.queue != QueueKind::Fifo && packets == u32::MAX {
            self.lost(class, "its buffer in bytes is left out: codel and fq_codel count packets".to_owned());
        }
        let (device, number) = (self.device, self.numbers[&class]);
        self.add(format_args!("tc qdisc add dev {device} parent {number} {kind}"));
    }

    fn filters(&mut self, class: ClassId, made: &Match, preference: &mut u32) {
        let (device, major, number) = (self.device, self.major(), self.numbers[&class]);
        let lines = match conditions(made) {
            Ok(lines) => lines,
            Err(what) => {
                self.lost(class, format!("its match \"{made}\" is left out: not expressible as a u32 filter: {what}"));
                return;
            }
        };
        let mut last = None;
        for (protocol, conditions) in lines {
            // Filters of one preference are of one protocol.
            if last.as_ref().is_some_and(|last| *last != protocol) {
                *preference += 1;
            }
            self.add(format_args!(
                "tc filter add dev {device} parent {major:x}: protocol {protocol} pref {preference} u32{conditions} flowid {number}"
            ));
            last = Some(protocol);
        }
        *preference += 1;
    }
}

/// Returns the filters of a match, as protocol and conditions, or the part that is not expressible.
fn conditions(made: &Match) -> Result<Vec<(String, String)>, String> {
    if made.vlan.is_some() || made.inner_vlan.is_some() {
        return Err("a VLAN tag, which interfaces remove from frames".to_owned());
    }
    let ends = [("src", made.src_mac), ("dst", made.dst_mac)];
    let macs: String = ends.into_iter().filter_map(|(end, mac)| Some(format!(" match ether {end} {}", mac?))).collect();
    let mut wanted = Match { src_mac: None, dst_mac: None, ..*made };
    match made.ethertype {
        Some(IPV4) => wanted.version = Some(IpVersion::V4),
        Some(IPV6) => wanted.version = Some(IpVersion::V6),
        Some(PPPOE_SESSION) if (Match { ethertype: None, ..*made }) != Match::ANY => {
            return Err("the inside of a session of PPPoE".to_owned());
        }
        Some(other) if macs.is_empty() => return Ok(vec![(format!("{other:#06x}"), " match u32 0 0".to_owned())]),
        Some(other) => return Ok(vec![(format!("{other:#06x}"), macs)]),
        None => {}
    }
    if wanted.is_any() {
        return Ok(vec![("all".to_owned(), if macs.is_empty() { " match u32 0 0".to_owned() } else { macs })]);
    }
    let versions = match wanted.version {
        Some(version) => vec![version],
        None => vec![IpVersion::V4, IpVersion::V6],
    };
    let has_ports = wanted.sport.is_some() || wanted.dport.is_some();
    let protocols = match wanted.proto {
        Some(proto) => vec![Some(proto)],
        None if has_ports => vec![Some(TCP), Some(UDP)],
        None => vec![None],
    };
    let mut lines = Vec::new();
    for version in versions {
        let (protocol, space) = if version == IpVersion::V4 { ("ip", "ip") } else { ("ipv6", "ip6") };
        for proto in &protocols {
            for sport in blocks(wanted.sport) {
                for dport in blocks(wanted.dport) {
                    let word = if version == IpVersion::V4 { "dsfield" } else { "priority" };
                    let said = [
                        wanted.src.map(|prefix| format!("src {prefix}")),
                        wanted.dst.map(|prefix| format!("dst {prefix}")),
                        proto.map(|proto| format!("protocol {proto} 0xff")),
                        sport.map(|(port, mask)| format!("sport {port} {mask:#06x}")),
                        dport.map(|(port, mask)| format!("dport {port} {mask:#06x}")),
                        wanted.dscp.map(|dscp| format!("{word} {:#04x} 0xfc", dscp << 2)),
                    ];
                    let mut text = macs.clone();
                    text.extend(said.into_iter().flatten().map(|condition| format!(" match {space} {condition}")));
                    if text.is_empty() {
                        text.push_str(" match u32 0 0");
                    }
                    lines.push((protocol.to_owned(), text));
                }
            }
        }
    }
    Ok(lines)
}

/// Splits a range of ports into ports under masks; empty without a range.
fn blocks(range: Option<PortRange>) -> Vec<Option<(u16, u16)>> {
    range.map_or(vec![None], |range| range.blocks().into_iter().map(Some).collect())
}

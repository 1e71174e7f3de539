//! Text of tc commands to the text of a link file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::iter::successors;

use fairlink_core::{MAX_DEPTH, PoolRule, Rate};

use crate::classid::Classid;
use crate::commands::findings::{changed, left_out, wrong};
use crate::commands::kernel::{FRAME, MAX_PRIORITY, default_burst, default_quantum};
use crate::commands::order::{self, Order};
use crate::commands::read;
use crate::commands::setup::{Class, Curve, Device, Filter, LeafQueue, Root, RootKind, UNASSURED};
use crate::fit::{Asked, fit};
use crate::matching::{Match, Reach};
use crate::problem::{Log, Problem, Problems, Source, Span};
use crate::toml_text::{DEFAULT_LEAF, comment, curve_key, line, quoted};
use crate::units::{rate_key, show_bps, size_key};

/// Values that tc commands do not give.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Rate of every link. Default: CBQ's `bandwidth`; for HTB, which has none, the sum of the root's classes.
    pub rate: Option<Rate>,
    /// The only device to import; without it all of them, the first as the file's own link.
    pub device: Option<String>,
}

/// A link file made of tc commands.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Name in errors.
    pub name: String,
    /// Its text, which [`LinkFile::parse`](crate::LinkFile::parse) takes.
    pub text: String,
    /// The devices in it: the first is the link, the others are its peers.
    pub devices: Vec<String>,
    /// True if classes of several devices share a pool.
    pub pooled: bool,
    /// Settings that were left out or changed in meaning, in the order of the file.
    pub notes: Vec<Problem>,
}

/// Treatment of tc's lending rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lending {
    /// It stays, and rates that do not fit below each other are refused.
    Kept,
    /// It is kept, and rates are scaled down to fit.
    Fitted,
    /// `hls` replaces it: quanta, bursts and priorities have no meaning. Rates are scaled down to fit.
    Fair,
}

/// Reads tc commands, or tc's output. Errors that only the reader of link files finds are not checked.
pub(crate) fn read(source: &Source, options: &ImportOptions) -> Result<Imported, Problems> {
    read_as(source, options, Lending::Kept)
}

/// As [`read`], with another way of lending.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_as(source: &Source, options: &ImportOptions, lending: Lending) -> Result<Imported, Problems> {
    let mut log = Log::new(source);
    let mut notes = Vec::new();
    let unnamed = options.device.as_deref().unwrap_or("eth0");
    let mut devices = read::setup(source.inner(), unnamed, &mut log, &mut notes);
    log = continued(log)?;
    if let Some(wanted) = &options.device {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        let why = format!("there is no device {wanted} here; there are: {}", names.join(", "));
        devices.retain(|device| device.name == *wanted);
        if devices.is_empty() {
            wrong(&(0..0), why, Some("name one of them"), &mut log);
        }
    }
    let no_link = devices.iter().find_map(|device| device.no_link.clone());
    without_root(&mut devices, &log, &mut notes);
    if devices.is_empty() && !log.has_errors() {
        let reason = no_link.map_or_else(String::new, |why| format!(": {why}"));
        let why = format!("this configures no device{reason}");
        wrong(&(0..0), why, Some("write tc qdisc add dev eth0 root handle 1: htb, and classes below it"), &mut log);
    }
    for device in &devices {
        compare_depth(device, &log, &mut notes);
    }
    let pools = pools(&mut devices, &mut log);
    let line_ends = source.inner().match_indices('\n').map(|(at, _)| at).collect();
    let mut writer = Writer { source, line_ends, log, notes, pools, rate: options.rate, lending };
    if lending != Lending::Kept {
        devices.iter_mut().for_each(|device| writer.fit(device));
    }
    let text = writer.file(&devices);
    writer.log = continued(writer.log)?;
    writer.notes.sort_by_key(|note| note.span().map(|span| span.start));
    let name = format!("{} as imported", source.name());
    let pooled = !writer.pools.is_empty();
    let devices = devices.into_iter().map(|device| device.name).collect();
    Ok(Imported { name, text, devices, pooled, notes: writer.notes })
}

/// Removes devices without a root discipline, such as those that only redirect received traffic.
fn without_root(devices: &mut Vec<Device>, log: &Log, notes: &mut Vec<Problem>) {
    devices.retain(|device| {
        let is_link = device.root.is_some();
        if let (false, Some(filter)) = (is_link, device.filters.first()) {
            left_out(&filter.at, format!("{} has no classes; its filters are left out", device.name), log, notes);
        }
        is_link
    });
}

/// Notes the first leaf that is not at the depth that HTB's `depth` says: \[htb\] wants all leaves there.
fn compare_depth(device: &Device, log: &Log, notes: &mut Vec<Problem>) {
    let Some(Root { kind: RootKind::Htb { depth: Some(depth), .. }, .. }) = &device.root else { return };
    let above = |class: &Class| {
        let parents = successors(class.parent, |&id| device.class(id).and_then(|class| class.parent));
        // No deeper tree is taken.
        parents.take(MAX_DEPTH).count() as u64
    };
    let leaves = device.classes.iter().filter(|class| device.is_leaf(class.id));
    if let Some((class, found)) = leaves.map(|class| (class, above(class) + 1)).find(|(_, found)| found != depth) {
        let what = format!(
            "depth {depth} is ignored (the leaf {} is at depth {found}): leaves may be at any depth here",
            class.id
        );
        changed(&class.at, what, log, notes);
    }
}

/// Continues if there is no error yet.
fn continued(log: Log) -> Result<Log, Problems> {
    if log.has_errors() { Err(log.into_errors()) } else { Ok(log) }
}

/// A slot: bandwidth that classes of several devices borrow.
#[derive(Debug)]
struct Slot {
    rate: u64,
    burst: Option<u64>,
}

/// Converts owners of slots to pools, whose members are their children and the classes that name the slot.
fn pools(devices: &mut [Device], log: &mut Log) -> BTreeMap<u64, Slot> {
    let mut pools = BTreeMap::new();
    for device in devices.iter_mut() {
        let mut gone = HashSet::new();
        let owners: Vec<(Classid, u64)> =
            device.classes.iter().filter_map(|class| Some((class.id, class.set.slot?))).collect();
        for (owner, slot) in owners {
            let class = device.class(owner).expect("just listed");
            let at = class.at.clone();
            if class.parent.is_some() || device.is_leaf(owner) {
                let why = format!("the class {owner} owns slot {slot} and is not at the root with classes below it");
                wrong(&at, why, Some("assign the slot to a class of the root that has children"), log);
                continue;
            }
            let found = Slot { rate: class.set.rate.unwrap_or(0), burst: class.set.burst };
            if pools.insert(slot, found).is_some() {
                wrong(&at, format!("slot {slot} has an owner already"), Some("remove one owner"), log);
            }
            device.classes.move_to_root(owner, |set| set.pslot = Some(slot));
            gone.insert(owner);
        }
        if !gone.is_empty() {
            device.classes.remove(&gone);
        }
    }
    for class in devices.iter().flat_map(|device| device.classes.iter()) {
        let Some(slot) = class.set.pslot else { continue };
        if !pools.contains_key(&slot) {
            wrong(&class.at, format!("slot {slot} has no owner"), Some("write slot at a class of another device"), log);
        } else if class.parent.is_some() {
            wrong(
                &class.at,
                format!("the class {} is not at the root", class.id),
                Some("write pslot at the root"),
                log,
            );
        }
    }
    pools
}

struct Writer<'s> {
    source: &'s Source,
    /// Ends of its lines.
    line_ends: Vec<usize>,
    log: Log,
    notes: Vec<Problem>,
    pools: BTreeMap<u64, Slot>,
    rate: Option<Rate>,
    lending: Lending,
}

/// The class of frames that HTB sends past all classes.
const OTHERS: &str = "others";

impl Writer<'_> {
    fn left_out(&mut self, at: &Span, what: String) {
        left_out(at, what, &self.log, &mut self.notes);
    }

    fn changed(&mut self, at: &Span, what: String) {
        changed(at, what, &self.log, &mut self.notes);
    }

    fn file(&mut self, devices: &[Device]) -> String {
        let command = if self.lending == Lending::Kept { "tc import" } else { "import tc" };
        let mut text = comment(&format!("From {} by `fairlink {command}`.", self.source.name()));
        for (index, device) in devices.iter().enumerate() {
            self.device(device, index > 0, &mut text);
        }
        for (slot, pool) in &self.pools {
            text += "\n[[pool]]\n";
            line(&mut text, "name", &pool_name(*slot));
            line(&mut text, "rule", PoolRule::Ratio.as_str());
            line(&mut text, "rate", &rate_key(pool.rate));
            line(&mut text, "burst", &size_key(pool.burst.unwrap_or_else(|| default_burst(pool.rate))));
        }
        text
    }

    fn device(&mut self, device: &Device, is_peer: bool, text: &mut String) {
        let Some(root) = &device.root else {
            let at = device.filters.first().map_or(0..0, |filter| filter.at.clone());
            let why = format!("{} has none of htb, hfsc, cbq and prio at its root", device.name);
            wrong(&at, why, Some("add it: tc qdisc add dev eth0 root handle 1: htb"), &mut self.log);
            return;
        };
        if device.classes.len() == 0 {
            let why = format!("{} has no class", device.name);
            wrong(
                &root.at,
                why,
                Some("add one: tc class add dev eth0 parent 1: classid 1:1 htb rate 1mbit"),
                &mut self.log,
            );
            return;
        }
        if self.lending == Lending::Kept && !is_hfsc(root.kind) {
            self.check_sums(device);
        }
        let is_prio = matches!(root.kind, RootKind::Prio { .. });
        if is_prio && self.rate.is_none() {
            let why = format!("prio does not give the rate of {}", device.name);
            wrong(&root.at, why, Some("pass its rate, such as --rate 100mbit"), &mut self.log);
            return;
        }
        let bandwidth = root.kind.bandwidth();
        let (rate, why) = match (self.rate, bandwidth) {
            (Some(rate), _) => (rate.bps(), "as asked for"),
            (None, Some(bandwidth)) => (bandwidth, "cbq's bandwidth"),
            (None, None) => (needed(device), "the sum of the classes of the root; no rate of the link is given"),
        };
        if bandwidth.is_none() && self.rate.is_none() {
            let tool = root.kind.name();
            let why = format!("{tool} does not give the rate of {}; assumed: {}", device.name, show_bps(rate));
            self.changed(&root.at, format!("{why}, the sum of the classes of the root"));
        }
        if rate < needed(device) {
            let why = format!("the classes at the root of {} add up to {}", device.name, show_bps(needed(device)));
            self.changed(&root.at, format!("{why}, more than the link's {}", show_bps(rate)));
        }
        text.push('\n');
        if is_peer {
            text.push_str("[[peer]]\n");
            line(text, "name", &device.name);
            text.push('\n');
        }
        let (link, class) = if is_peer { ("[peer.link]", "[[peer.class]]") } else { ("[link]", "[[class]]") };
        writeln!(text, "{link:<26}# {}", device.name).expect("writing to a string does not fail");
        writeln!(text, "{:<26}# {why}", format!("rate = {}", quoted(&rate_key(rate)))).expect("as above");
        let scheduler = match root.kind {
            RootKind::Hfsc { .. } => "hfsc",
            RootKind::Prio { .. } => "htb",
            _ if self.lending == Lending::Fair => "hls",
            RootKind::Cbq { .. } => "cbq-top-level",
            RootKind::Htb { .. } => "htb",
        };
        line(text, "scheduler", scheduler);
        writeln!(text, "{:<26}# a frame with its Ethernet header", format!("mtu = \"{FRAME}B\"")).expect("as above");
        self.overhead(device, text);
        self.default(device, root.kind.default(), text);
        let leaves = device.classes.iter().filter(|class| device.is_leaf(class.id));
        let least_weight = leaves.filter_map(|class| class.set.weight).min();
        for (class_of, filters) in self.in_order(device) {
            text.push('\n');
            let line_number = self.line_ends.partition_point(|&end| end < class_of.at.start) + 1;
            writeln!(text, "{class:<26}# line {line_number}").expect("as above");
            self.class(device, class_of, &filters, least_weight, text);
        }
        if let Some(guarantee) = device.others {
            writeln!(text, "\n{class:<26}# traffic that tc sends past all classes").expect("as above");
            line(text, "name", OTHERS);
            match root.kind {
                RootKind::Hfsc { .. } => {
                    writeln!(text, "link_share = {}", curve_key(None, guarantee)).expect("as above");
                }
                _ => line(text, "guarantee", &rate_key(guarantee)),
            }
            if self.lending == Lending::Fair {
                line(text, "queue", DEFAULT_LEAF);
            }
        }
        if is_prio {
            let assured = show_bps(UNASSURED);
            let why = format!("prio: htb with the bands as priorities, and {assured} guaranteed to each band");
            self.changed(&root.at, why);
        } else if self.lending == Lending::Fair && !is_hfsc(root.kind) {
            self.meanings(device, &root.at.clone());
        }
    }

    /// Adds the notes that apply to every class.
    fn meanings(&mut self, device: &Device, at: &Span) {
        let leaves = || device.classes.iter().filter(|class| device.is_leaf(class.id));
        let tool = device.root.as_ref().map_or("htb", |root| root.kind.name());
        self.changed(
            at,
            format!("quanta: {tool} shares lent bandwidth by the quanta of leaves, regardless of guarantees above them; here siblings share it in proportion to their guarantees, max-min fair"),
        );
        let mut priorities: Vec<u64> = leaves().map(|class| class.set.priority.unwrap_or(0)).collect();
        priorities.sort_unstable();
        priorities.dedup();
        if let [first, .., last] = priorities[..] {
            let why = format!(
                "priorities {first} to {last} are left out: hls has none; set latency_critical = true for delay-sensitive classes"
            );
            self.left_out(at, why);
        }
        if leaves().any(|class| class.queue.is_none()) {
            let what =
                format!("classes without their own queue get queue = \"{DEFAULT_LEAF}\", where {tool} has a fifo");
            self.changed(at, what);
        }
        if leaves().any(|class| class.set.burst.is_some() || class.set.cburst.is_some() || class.set.maxburst.is_some())
        {
            self.left_out(
                at,
                "bursts are left out: hls shares the link by rounds, and a ceiling allows a burst of two largest frames".to_owned(),
            );
        }
    }

    /// Scales rates down to fit in the hierarchy, which tc does not require.
    fn fit(&mut self, device: &mut Device) {
        let Some(root) = &device.root else { return };
        let at = root.at.clone();
        let link = self.rate.map(Rate::bps).or(root.kind.bandwidth()).unwrap_or_else(|| needed(device));
        device.needed = Some(needed(device));
        if matches!(root.kind, RootKind::Prio { .. }) {
            return;
        }
        if is_hfsc(root.kind) {
            // Its curves stay as they are.
            device.others = self.needs_default(device).then_some((link / 100).max(1));
            return;
        }
        let r2q = if let RootKind::Htb { r2q, .. } = root.kind { Some(r2q) } else { None };
        let limits = r2q.is_some();
        let mut asked: Vec<Asked> = device
            .classes
            .iter()
            .map(|class| Asked {
                parent: class.parent.and_then(|parent| device.classes.place(parent)),
                floor: class.set.rate,
                // A class of the root cannot borrow.
                ceiling: match class.parent {
                    _ if !limits => None,
                    None if class.set.pslot.is_none() => class.set.rate,
                    _ => class.set.ceil.or(class.set.rate),
                },
            })
            .collect();
        if self.needs_default(device) {
            asked.push(Asked { parent: None, floor: Some((link / 100).max(1)), ceiling: None });
        }
        let fitted = fit(&asked, link);
        for over in &fitted.over {
            let asked = show_bps(u64::try_from(over.asked).unwrap_or(u64::MAX));
            let (at, whose) = match over.parent {
                None => (at.clone(), "of the root"),
                Some(parent) => (device.classes.at(parent).at.clone(), "below this one"),
            };
            let why = format!(
                "the rates of the classes {whose} add up to {asked}, more than {}: guarantees are scaled down in proportion",
                show_bps(over.has)
            );
            self.changed(&at, why);
        }
        let (mut raised, mut nobody) = (Vec::new(), Vec::new());
        for (class, guarantee) in device.classes.iter_mut().zip(&fitted.guarantees) {
            let (Some(rate), Some(guarantee)) = (class.set.rate, *guarantee) else { continue };
            if guarantee > rate {
                raised.push((class.at.clone(), class.id, rate, guarantee));
            }
            // An implicit ceiling equals the original rate.
            class.set.ceil = class.set.ceil.or(limits.then_some(rate));
            if let (None, None, Some(ceil)) =
                (class.parent, class.set.pslot, class.set.ceil.filter(|&ceil| ceil > rate))
            {
                nobody.push((class.at.clone(), borrows_from_nobody(ceil, rate)));
                class.set.ceil = Some(rate);
            }
            let quantum = class.set.rate.zip(r2q).map(|(rate, r2q)| default_quantum(rate, r2q));
            class.set.quantum = class.set.quantum.or(quantum);
            class.set.rate = Some(guarantee);
        }
        device.others = fitted.guarantees.get(device.classes.len()).copied().flatten();
        nobody.into_iter().for_each(|(at, why)| self.changed(&at, why));
        for (at, id, rate, guarantee) in raised {
            let why = format!(
                "{id} is guaranteed {} instead of {}: the sum of the classes below it",
                show_bps(guarantee),
                show_bps(rate)
            );
            self.changed(&at, why);
        }
    }

    /// Returns true if frames that no filter takes have no class.
    fn needs_default(&self, device: &Device) -> bool {
        let Some(root) = &device.root else { return false };
        if takes_all(device).is_some() {
            return false;
        }
        let named = root.kind.default().and_then(|minor| Classid::new(root.major, minor));
        named.is_none_or(|class| device.class(class).is_none() || !device.is_leaf(class))
    }

    /// Classes in file order; those with filters in the order of the first of them. A class's matches stand together,
    /// so that a filter may come to stand before another's.
    fn in_order<'d>(&mut self, device: &'d Device) -> Vec<(&'d Class, Vec<Match>)> {
        // Matches tried so far, in the order of the filters, and the filters that are kept.
        let (mut reach, mut tried): (_, Vec<&Filter>) = (Reach::default(), Vec::new());
        let mut useful: Vec<&Filter> = Vec::new();
        for filter in &device.filters {
            if device.class(filter.class).is_none() {
                self.left_out(&filter.at, format!("a filter to {}, which is not a class, is left out", filter.class));
            } else if !device.is_leaf(filter.class) {
                self.left_out(
                    &filter.at,
                    format!("a filter to {}, which has classes below it, is left out", filter.class),
                );
            } else {
                tried.push(filter);
                match reach.add(&filter.made) {
                    Some(earlier) => {
                        let class = tried[earlier].class;
                        let why = format!("a filter is left out: an earlier filter to {class} takes all of its frames");
                        self.left_out(&filter.at, why);
                    }
                    None => useful.push(filter),
                }
            }
        }
        let default = device.root.as_ref().and_then(|root| Classid::new(root.major, root.kind.default()?));
        let Order { classes: mut ordered, overtaken, is_compared } = order::by_class(&useful, default);
        if let (false, Some(first)) = (is_compared, useful.first()) {
            let why = format!(
                "WARNING: the order of {} filters of alternating classes was not compared: a frame that matches several may get another class",
                useful.len()
            );
            self.changed(&first.at, why);
        }
        for (place, by) in overtaken {
            let (filter, by) = (useful[place], useful[by]);
            let why = format!(
                "WARNING: \"{}\" of {} now precedes this filter; a frame that matches both gets {} instead of {}",
                by.made, by.class, by.class, filter.class
            );
            self.changed(&filter.at, why);
        }
        // Those without a filter stay first, in file order.
        let places: HashMap<Classid, usize> =
            ordered.iter().enumerate().map(|(place, (class, _))| (*class, place)).collect();
        let mut classes: Vec<_> = device.classes.iter().collect();
        classes.sort_by_key(|class| places.get(&class.id));
        let mut of = |class: &Class| {
            let parts = places.get(&class.id).map_or(Vec::new(), |&place| std::mem::take(&mut ordered[place].1));
            parts.into_iter().map(|(_, made)| made).collect()
        };
        classes.into_iter().map(|class| (class, of(class))).collect()
    }

    fn overhead(&mut self, device: &Device, text: &mut String) {
        let leaves = || device.classes.iter().filter(|class| device.is_leaf(class.id));
        let Some(first) = leaves().next().map(|class| class.set.overhead) else { return };
        match leaves().find(|class| class.set.overhead != first) {
            Some(other) => {
                let why = "overheads are left out: classes have different ones, and a link file has one for the link"
                    .to_owned();
                self.left_out(&other.at, why);
            }
            None if first > 0 => line(text, "overhead", &format!("{first}B")),
            None => {}
        }
    }

    fn default(&mut self, device: &Device, default: Option<u16>, text: &mut String) {
        let root = device.root.as_ref().expect("checked by the caller");
        let whole = default.and_then(|minor| Classid::new(root.major, minor));
        if let (Some(guarantee), RootKind::Hfsc { .. }) = (device.others, root.kind) {
            let rate = show_bps(guarantee);
            let why = format!(
                "hfsc drops frames that no filter matches; here they are the class \"{OTHERS}\", guaranteed {rate}"
            );
            self.changed(&root.at, why);
            return line(text, "default", OTHERS);
        }
        if let Some(guarantee) = device.others {
            let why = format!(
                "{} sends frames that no filter matches unqueued, past all classes; here they are the class \"{OTHERS}\", guaranteed {}",
                root.kind.name(),
                show_bps(guarantee)
            );
            self.changed(&root.at, why);
            return line(text, "default", OTHERS);
        }
        let leaf = whole.filter(|&class| device.class(class).is_some() && device.is_leaf(class));
        let named = leaf.or_else(|| takes_all(device).filter(|_| self.lending != Lending::Kept)).or(whole);
        match named {
            Some(class) if device.class(class).is_some() && device.is_leaf(class) => {
                line(text, "default", &class.to_string())
            }
            Some(class) => {
                let why = format!(
                    "the default class {class} is not a leaf of {}: htb sends such frames unqueued, past all classes",
                    device.name
                );
                self.changed(&root.at, format!("{why}; here there is no default"));
            }
            None if !device.filters.is_empty() && matches!(root.kind, RootKind::Htb { .. }) => {
                let why = "htb has no default class: it sends frames that no filter matches unqueued, past all classes"
                    .to_owned();
                self.changed(&root.at, format!("{why}; a gateway needs a default here"));
            }
            None => {}
        }
    }

    /// `least_weight` is the smallest weight of a leaf.
    fn class(
        &mut self,
        device: &Device,
        class: &Class,
        matches: &[Match],
        least_weight: Option<u64>,
        text: &mut String,
    ) {
        let root = device.root.as_ref().expect("checked by the caller");
        let set = &class.set;
        let rate = set.rate.expect("checked when it was read");
        line(text, "name", &class.id.to_string());
        line(text, "classid", &class.id.to_string());
        if let Some(parent) = class.parent {
            line(text, "parent", &parent.to_string());
        }
        if !is_hfsc(root.kind) {
            line(text, "guarantee", &rate_key(rate));
        }
        match root.kind {
            RootKind::Hfsc { .. } => self.hfsc_class(device, class, text),
            RootKind::Htb { r2q, .. } => self.htb_class(device, class, rate, r2q, text),
            RootKind::Cbq { avpkt, .. } => self.cbq_class(device, class, avpkt, least_weight, text),
            RootKind::Prio { .. } => {
                if let Some(ceil) = set.ceil {
                    line(text, "ceiling", &rate_key(ceil));
                }
                writeln!(text, "priority = {}", class.id.minor() - 1).expect("writing to a string does not fail");
            }
        }
        if let Some(slot) = set.pslot {
            line(text, "pool", &pool_name(slot));
        }
        match &class.queue {
            Some(queue) => self.queue(device, class, queue, text),
            None if self.lending == Lending::Fair && device.is_leaf(class.id) => line(text, "queue", DEFAULT_LEAF),
            None => {}
        }
        let matches: Vec<String> = matches.iter().map(|made| quoted(&made.to_string())).collect();
        if !matches.is_empty() {
            writeln!(text, "match = [{}]", matches.join(", ")).expect("writing to a string does not fail");
        }
    }

    fn htb_class(&mut self, device: &Device, class: &Class, rate: u64, r2q: u64, text: &mut String) {
        let set = &class.set;
        let ceil = set.ceil.unwrap_or(rate);
        let fitted = self.lending != Lending::Kept;
        let ceiling = if class.parent.is_none() && set.pslot.is_none() && ceil > rate && !fitted {
            self.changed(&class.at, borrows_from_nobody(ceil, rate));
            rate
        } else {
            ceil
        };
        line(text, "ceiling", &rate_key(ceiling));
        if self.lending == Lending::Fair {
            return;
        }
        line(text, "burst", &size_key(set.burst.unwrap_or_else(|| default_burst(rate))));
        line(text, "ceiling_burst", &size_key(set.cburst.unwrap_or_else(|| default_burst(ceil))));
        if !device.is_leaf(class.id) {
            if set.priority.is_some() || set.quantum.is_some() {
                self.left_out(&class.at, "\"prio\" and \"quantum\" apply only to leaves".to_owned());
            }
            return;
        }
        let priority = set.priority.unwrap_or(0);
        if priority > MAX_PRIORITY {
            self.changed(&class.at, format!("htb treats prio {priority} as {MAX_PRIORITY}, its lowest"));
        }
        writeln!(text, "priority = {}", priority.min(MAX_PRIORITY)).expect("writing to a string does not fail");
        let quantum = set.quantum.unwrap_or_else(|| default_quantum(rate, r2q));
        let why = if set.quantum.is_some() { "" } else { "# as the kernel chooses it: rate / r2q" };
        writeln!(text, "{:<26}{why}", format!("quantum = {}", quoted(&size_key(quantum)))).expect("as above");
    }

    fn hfsc_class(&mut self, device: &Device, class: &Class, text: &mut String) {
        let set = &class.set;
        let leaf = device.is_leaf(class.id);
        if set.real_time.is_some() && !leaf && set.link_share.is_none() {
            self.left_out(&class.at, format!("{} has classes below it, and its real-time curve is left out", class.id));
        }
        let curves = [
            ("link_share", set.link_share),
            ("real_time", set.real_time.filter(|curve| leaf && *curve != Curve { first: None, rate: 0 })),
            ("upper_limit", set.upper_limit),
        ];
        for (key, curve) in curves {
            let Some(Curve { first, rate }) = curve else { continue };
            let first = first.map(|(m1, time)| (m1, format!("{time}ns")));
            writeln!(text, "{key} = {}", curve_key(first, rate)).expect("writing to a string does not fail");
        }
    }

    fn cbq_class(&mut self, device: &Device, class: &Class, avpkt: u64, least_weight: Option<u64>, text: &mut String) {
        let set = &class.set;
        let avpkt = set.avpkt.unwrap_or(avpkt);
        if self.lending == Lending::Fair {
            if set.bounded || set.isolated {
                line(text, "ceiling", &rate_key(set.rate.unwrap_or(1)));
            }
            if set.isolated {
                self.changed(
                    &class.at,
                    "isolated: here it does not borrow, and others get its unused bandwidth".to_owned(),
                );
            }
            return;
        }
        if set.bounded {
            text.push_str("bounded = true\n");
        }
        if set.isolated {
            text.push_str("isolated = true\n");
        }
        if let Some(packets) = set.maxburst {
            line(text, "burst", &size_key((packets * avpkt).max(1)));
        }
        if let Some(priority) = set.priority {
            writeln!(text, "priority = {}", priority.min(255)).expect("writing to a string does not fail");
        }
        // Weights have no unit: the smallest is worth an average packet.
        if let (Some(weight), Some(least), true) = (set.weight, least_weight, device.is_leaf(class.id)) {
            let quantum = u128::from(avpkt) * u128::from(weight) / u128::from(least.max(1));
            let quantum = u64::try_from(quantum).unwrap_or(u64::MAX).clamp(1, u64::from(u32::MAX));
            let quantum = format!("quantum = {}", quoted(&size_key(quantum)));
            writeln!(text, "{quantum:<26}# by its weight").expect("writing to a string does not fail");
        }
    }

    fn queue(&mut self, device: &Device, class: &Class, queue: &LeafQueue, text: &mut String) {
        if !device.is_leaf(class.id) {
            self.left_out(&queue.at, format!("{} has classes below it, and its queue is left out", class.id));
            return;
        }
        if let Some(buffer) = &queue.buffer {
            line(text, "buffer", buffer);
        }
        if queue.queue != "fifo" {
            line(text, "queue", queue.queue);
        }
        if queue.ecn {
            text.push_str("ecn = true\n");
        }
    }

    /// Returns true if rates fit below each other, which tc does not ask.
    fn check_sums(&mut self, device: &Device) {
        for parent in device.classes.iter() {
            let children = device.classes.children(parent.id);
            let sum: u128 = children.filter_map(|class| class.set.rate).map(u128::from).sum();
            let rate = parent.set.rate.unwrap_or(0);
            if sum > u128::from(rate) {
                let sum = show_bps(u64::try_from(sum).unwrap_or(u64::MAX));
                let why = format!(
                    "the rates of the classes below {} add up to {sum}, more than its {}; guarantees hold only up to that",
                    parent.id,
                    show_bps(rate)
                );
                wrong(&parent.at, why, Some("raise its rate, or lower theirs"), &mut self.log);
            }
        }
    }
}

/// The leaf that a filter gives all frames to.
fn takes_all(device: &Device) -> Option<Classid> {
    let mut all = device.filters.iter().filter(|filter| filter.made.is_any()).map(|filter| filter.class);
    all.find(|&class| device.class(class).is_some() && device.is_leaf(class))
}

fn is_hfsc(kind: RootKind) -> bool {
    matches!(kind, RootKind::Hfsc { .. })
}

fn borrows_from_nobody(ceil: u64, rate: u64) -> String {
    let (ceil, rate) = (show_bps(ceil), show_bps(rate));
    format!("a class of the root cannot borrow: its ceil of {ceil} becomes its rate of {rate}")
}

/// Sum of the rates of the root's classes, in bit/s.
fn needed(device: &Device) -> u64 {
    if let Some(needed) = device.needed {
        return needed;
    }
    let roots = || device.classes.iter().filter(|class| class.parent.is_none());
    if device.root.as_ref().is_some_and(|root| is_hfsc(root.kind)) {
        // Each upper limit is that of the link, or less.
        let limit = roots().filter_map(|class| class.set.upper_limit).map(|curve| curve.rate).max();
        let sum = roots().filter_map(|class| class.set.rate).fold(0, u64::saturating_add);
        return limit.filter(|&limit| limit > 0).unwrap_or(sum).max(1);
    }
    let sum = roots().filter_map(|class| class.set.rate).fold(0, u64::saturating_add);
    let borrowed = roots().filter(|class| class.set.pslot.is_some()).filter_map(|class| class.set.ceil).max();
    sum.max(borrowed.unwrap_or(0))
}

fn pool_name(slot: u64) -> String {
    format!("slot {slot}")
}

//! The bounds of a link that several cores share.

use fairlink_config::LinkFile;
use fairlink_core::{
    ClassId, Cores, Driver, NANOS_PER_SEC, Nanos, Scheduler, SharedConfig, SharedError, SharedTree, Split, hub,
};
use fairlink_theory::cores::{CoresBounds, SharedLimits};
use fairlink_theory::to_f64;
use schemars::JsonSchema;
use serde::Serialize;

use crate::refused::Refused;

/// Most packets that a core sends in one pass.
const BATCH: u64 = 32;
/// Most packets that a hub sends in one pass.
const HUB_BATCH: u64 = Driver::<Box<dyn Scheduler>>::BATCH as u64;
/// The shortest frame of Ethernet, in bytes without its check sequence.
const SHORTEST: u32 = 60;
/// Longest time between two passes for which shares were measured, in largest packets of the link.
const MEASURED: u64 = 83;

/// The bounds of a link on several cores.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct OnCores {
    /// Number of cores.
    pub cores: u16,
    /// The way in which they share the link.
    pub split: String,
    /// Number of hubs, if several share the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hubs: Option<u16>,
    /// True if packets leave in the order of one scheduler, whose bounds then hold.
    pub exact: bool,
    /// Longest time between two passes of a core, in seconds.
    pub pass_s: f64,
    /// Most bytes in the network interface. Absent if nothing bounds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface_bytes: Option<u64>,
    /// With a hub that keeps up: most packets that it handles from the time at which a packet is pushed into a receive
    /// ring to the time at which it is in a transmit ring, without its wait in the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_packets: Option<u64>,
    /// The time that these packets take, in seconds. Absent if the time of a packet was not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_delay_s: Option<f64>,
    /// Mean length of packets, in accounted bytes, from which one hub keeps up with the full link. Absent if the time of a
    /// packet was not given, and where no hub is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub_keeps_up_from_bytes: Option<u64>,
    /// By class, in the order of the file. Empty where there are no such bounds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassOnCores>,
    /// Conditions, and reasons for absent numbers.
    pub notes: Vec<String>,
}

/// The bounds of a class on several cores.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ClassOnCores {
    /// Its name.
    pub name: String,
    /// Most bytes by which its service differs from that of a sibling, in proportion to their weights, in any time in which
    /// both are on: they have packets and do not wait for what they have sent out of turn. Absent without siblings, and where
    /// a ceiling may hold either back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness_bytes: Option<f64>,
    /// Of a leaf: the bytes by which what the link carries of it may be below its guarantee, in any time in which it has
    /// packets and the classes above it are on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guarantee_lag_bytes: Option<f64>,
    /// Of a leaf: longest delay of a packet, in seconds, while it sends no more than its guarantee and one largest packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_bound_s: Option<f64>,
}

impl OnCores {
    /// Computes the bounds of `link` on `cores`, with at most `pass` from one pass of a core to the next, and
    /// `hub_packet` as the processor time of a hub for a packet.
    ///
    /// # Errors
    /// [`Refused`] if its classes cannot be shared in this way.
    pub fn new(link: &LinkFile, cores: Cores, pass: Nanos, hub_packet: Option<Nanos>) -> Result<Self, Refused> {
        let mut on = Self {
            cores: cores.count,
            split: cores.split.name().to_owned(),
            hubs: cores.has_hubs().then_some(cores.hubs),
            exact: cores.is_exact(),
            pass_s: pass.0 as f64 / NANOS_PER_SEC as f64,
            interface_bytes: None,
            ring_packets: None,
            ring_delay_s: None,
            hub_keeps_up_from_bytes: None,
            classes: Vec::new(),
            notes: Vec::new(),
        };
        match cores.split {
            Split::One => {}
            Split::Hub if cores.has_hubs() => {
                on.add_rings(cores.count.saturating_sub(cores.hubs), hub_packet);
                on.notes.push(
                    "each hub has some of the classes directly below the link; the bounds hold while a class stays at \
                     its hub. A class that moves sends nothing until its packets have left the rings of its old hub"
                        .to_owned(),
                );
                on.add_shared(link, (cores.hubs, HUB_BATCH), pass)?;
            }
            Split::Hub => {
                on.notes.push(
                    "packets leave in the order of one scheduler: its bounds hold, later by the time in the rings".to_owned(),
                );
                on.add_rings(cores.count.saturating_sub(1), hub_packet);
            }
            Split::Shared => on.add_shared(link, (cores.count, BATCH), pass)?,
            Split::Equal | Split::CakeMq | Split::PerCore => on.notes.push(
                "no bounds: a core does not get what the classes of other cores leave; `fairlink sim` shows what that costs".to_owned(),
            ),
        }
        if matches!(cores.split, Split::Hub | Split::Shared) {
            on.add_choice(link, hub_packet);
        }
        Ok(on)
    }

    /// Says whether one hub is enough for the link, which is exact, or several schedulers are needed, and why.
    fn add_choice(&mut self, link: &LinkFile, packet: Option<Nanos>) {
        let Some(packet) = packet else {
            self.notes.push(
                "which way: one hub, where it keeps up with the link, because it is exact; not computed whether it does \
                 without --hub-packet TIME, which `fairlink-lab bench --cores` measures"
                    .to_owned(),
            );
            return;
        };
        let head = link.tree.link();
        let bits = u128::from(head.rate.bps()) * u128::from(packet.0);
        let least = u64::try_from(bits.div_ceil(8 * u128::from(NANOS_PER_SEC))).unwrap_or(u64::MAX);
        self.hub_keeps_up_from_bytes = Some(least);
        let shortest = u64::from(link.overhead.accounted(SHORTEST)).max(1);
        let with = format!("with {} ns for a packet, one hub", packet.0);
        let mean = format!("{with} keeps up with the full link while packets have");
        self.notes.push(if least <= shortest {
            format!("which way: one hub; {mean} {least} B or more on average, and the shortest have {shortest} B; it is exact")
        } else if least <= u64::from(head.max_packet) {
            let hubs = least.div_ceil(shortest);
            format!(
                "which way: one hub if packets are long, because it is exact; {mean} {least} B or more on average. For \
                 packets of {shortest} B it takes {hubs} hubs (--hubs), if classes directly below the link can be spread \
                 over them, or split = \"shared\""
            )
        } else {
            format!(
                "which way: several hubs (--hubs) or split = \"shared\"; {with} would keep up with the full link only if \
                 packets had {least} B, and the largest have {} B",
                head.max_packet
            )
        });
    }

    /// Adds the time in the rings of a hub, with one from each of so many `others`.
    fn add_rings(&mut self, others: u16, packet: Option<Nanos>) {
        let packets = hub::turnaround(usize::from(others).max(1));
        self.ring_packets = Some(packets);
        self.ring_delay_s = packet.map(|packet| packets as f64 * packet.0 as f64 / NANOS_PER_SEC as f64);
        if packet.is_none() {
            self.notes.push(
                "the time of these packets is not computed, because the hub's time for a packet depends on the machine; \
                 `fairlink-lab bench --cores` measures it, and --hub-packet TIME takes it"
                    .to_owned(),
            );
        }
        self.notes.push(
            "for a hub that always has its processor and keeps up, without flows that change their ring; not computed: the \
             time until the other cores look at their rings, and until a packet that they write is seen"
                .to_owned(),
        );
    }

    /// Adds the bounds for so many workers, each of which sends up to `batch` packets in a call.
    fn add_shared(&mut self, link: &LinkFile, (workers, batch): (u16, u64), pass: Nanos) -> Result<(), Refused> {
        let (tree, head) = (&link.tree, link.tree.link());
        let config = SharedConfig::for_passes(&head, pass);
        SharedTree::new(tree.clone(), config).map_err(|error| refused(link, &error))?;
        let batch = batch * u64::from(head.max_packet);
        let SharedConfig { mark, credit, ahead, .. } = config;
        let limits = SharedLimits { workers: workers.into(), pass, batch, mark, credit, ahead, late: 0 };
        let bounds = CoresBounds::new(tree, limits);
        self.interface_bytes = u64::try_from(bounds.interface()).ok();
        // Parents come before their children.
        let mut limited = vec![false; tree.len()];
        for class in tree.classes() {
            let above = tree.parent(class).is_some_and(|parent| limited[parent.index()]);
            limited[class.index()] = above || tree.config(class).ceiling.is_some();
        }
        let free = |class: ClassId| !limited[class.index()];
        if !tree.classes().all(free) {
            self.notes.push("not computed for classes with a ceiling at or above them: they get less than their share while it holds them back".to_owned());
        }
        for class in tree.classes() {
            let leaf = tree.is_leaf(class) && free(class);
            self.classes.push(ClassOnCores {
                name: link.names.name(class).to_owned(),
                fairness_bytes: fairness(link, &bounds, class, &free),
                guarantee_lag_bytes: leaf.then(|| to_f64(&bounds.guarantee_lag(class))),
                delay_bound_s: leaf.then(|| to_f64(&bounds.delay(class, head.max_packet.into()))),
            });
        }
        self.notes.push(
            "for leaves with packets on one core, while every core makes its passes in time, the link is busy, and the classes above the leaf, the link included, are on; delays while the class sends no more than its guarantee and one largest packet"
                .to_owned(),
        );
        self.notes.push(
            "a leaf is on while it has packets, unless it waits for what it has sent out of turn; a class is on while a leaf of it is; distances from a sibling are for classes that are on. Not computed for times in which no leaf of a class above is on, because what others send out of turn may then pass a leaf again and again"
                .to_owned(),
        );
        let lag = head.rate.bytes_in(pass) / u64::from(head.max_packet.max(1));
        if lag > MEASURED {
            self.notes.push(format!(
                "not measured: between two passes the link carries {lag} of its largest packets; shares were measured up to {MEASURED}"
            ));
        }
        Ok(())
    }
}

/// Says which class cannot be shared.
fn refused(link: &LinkFile, error: &SharedError) -> Refused {
    match *error {
        SharedError::Unsupported { class, feature, reason } => Refused::failed(format!(
            "split = \"shared\": \"{}\" has {}, which several cores cannot honour: {reason}; use split = \"hub\"",
            link.names.name(class),
            feature.as_str()
        )),
        ref other => Refused::failed(other),
    }
}

/// Returns the bound of Theorem V for `class` and the sibling of the smallest weight, in bytes of `class`.
fn fairness(link: &LinkFile, bounds: &CoresBounds<'_>, class: ClassId, free: &impl Fn(ClassId) -> bool) -> Option<f64> {
    let tree = &link.tree;
    let siblings = tree.parent(class).map(|parent| tree.children(parent))?;
    let others = siblings.iter().copied().filter(|&other| other != class && free(other) && free(class));
    let other = others.min_by_key(|&other| tree.weight(other))?;
    Some(to_f64(&bounds.between(class, other)) * tree.weight(class) as f64)
}

//! Random cases: any scheduler, with all that it honours.

use fairlink_core::{Delay, Feature, SchedulerInfo, registry::SCHEDULERS};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::case::{Case, Entry, Kind, Tree};

/// Packets of a case, roughly.
const PACKETS: [(Kind, u64); 2] = [(Kind::Steady, 30_000), (Kind::Wild, 4_000)];

/// Seeded random numbers.
pub(crate) struct SeededRng(ChaCha8Rng);

impl SeededRng {
    fn from(&mut self, from: u64, to: u64) -> u64 {
        self.0.random_range(from..=to)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.from(1, n) == 1
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.from(0, all.len() as u64 - 1) as usize]
    }

    /// Between the two, every order of magnitude as likely as the others.
    fn spread(&mut self, from: u64, to: u64) -> u64 {
        let part = self.from(0, 1_000_000) as f64 / 1e6;
        (from as f64 * (to as f64 / from as f64).powf(part)) as u64
    }
}

/// A class before it has a scheduler: its name, and its parent's place.
type Skeleton = Vec<(String, Option<usize>)>;

fn is_leaf(skeleton: &Skeleton, place: usize) -> bool {
    skeleton.iter().all(|(_, parent)| *parent != Some(place))
}

/// Classes of up to `levels` levels.
fn skeleton(dice: &mut SeededRng, levels: u64, kind: Kind) -> Skeleton {
    let most = if kind == Kind::Steady { 5 } else { 7 };
    let parents = if dice.one_in(12) { 60 } else { 12 };
    let mut all: Skeleton = Vec::new();
    let mut open: Vec<(Option<usize>, u64)> = vec![(None, 1)];
    while let Some((parent, level)) = open.pop() {
        for _ in 0..dice.from(if level == 1 { 2 } else { 1 }, most) {
            let place = all.len();
            all.push((format!("c{place}"), parent));
            if level < levels && place < parents && dice.one_in(3) {
                open.push((Some(place), level + 1));
            }
        }
    }
    all
}

/// The settings that classes of a link may use.
struct Room {
    info: &'static SchedulerInfo,
    kind: Kind,
    bps: u64,
    mtu: u64,
    /// The longest packet whose accounted length is no more than the mtu.
    longest: u64,
    push_out: bool,
    /// Every leaf has a quantum.
    quanta: bool,
    /// Remaining rate for real-time curves.
    real_time: u64,
    /// Length of the run in microseconds, if it is this link's.
    total: u64,
}

impl Room {
    fn has(&self, feature: Feature) -> bool {
        self.info.supports(feature)
    }
}

fn link(dice: &mut SeededRng, info: &'static SchedulerInfo, kind: Kind) -> (Entry, Room) {
    let mut link = Entry::default();
    let bps = dice.from(1, 9) * [1_000_000, 10_000_000, 100_000_000][dice.from(0, 2) as usize];
    link.quote("rate", format_args!("{bps}bit"));
    link.quote("scheduler", info.name);
    let mtu = match dice.from(0, 9) {
        0 => 9000,
        1 => 600,
        _ => 1500,
    };
    if mtu != 1500 {
        link.quote("mtu", format_args!("{mtu}B"));
    }
    let mut longest = mtu;
    if dice.one_in(5) {
        link.quote("overhead", dice.pick(&["ethernet", "docsis", "ptm", "atm", "24B"]));
        longest = mtu * 4 / 5;
    }
    if dice.one_in(5) {
        link.quote("transmit_queue", format_args!("{}p", dice.from(1, 12)));
        if dice.one_in(2) {
            link.set("transmit_priority", "true");
        }
    }
    let scarce = kind == Kind::Wild && dice.one_in(3);
    if scarce {
        link.quote("buffer", format_args!("{}p", dice.spread(8, 300)));
    }
    let push_out = scarce && info.supports(Feature::PushOut) && dice.one_in(2);
    if push_out {
        link.quote("when_full", "push_out");
    }
    if info.supports(Feature::LongRounds) && dice.one_in(2) {
        link.quote("rounds", "long");
    }
    let packets = PACKETS.iter().find(|(known, _)| *known == kind).map_or(1000, |&(_, packets)| packets);
    let total = (packets * mtu / 2 * 8 * 1_000_000 / bps).max(1000);
    let quanta = dice.one_in(4);
    (link, Room { info, kind, bps, mtu, longest, push_out, quanta, real_time: bps * 9 / 10, total })
}

/// Gives the classes of `skeleton` features that the scheduler honours. `pooled`: the class that shares a pool.
fn dress(dice: &mut SeededRng, skeleton: &Skeleton, room: &mut Room, pooled: Option<usize>) -> Vec<Entry> {
    let mut rates = vec![0; skeleton.len()];
    let mut classes = vec![Entry::default(); skeleton.len()];
    for parent in std::iter::once(None).chain((0..skeleton.len()).map(Some)) {
        let children: Vec<usize> = (0..skeleton.len()).filter(|&place| skeleton[place].1 == parent).collect();
        if children.is_empty() {
            continue;
        }
        let has = parent.map_or(room.bps, |parent| rates[parent]);
        let pooled_here = pooled.is_some_and(|pooled| children.contains(&pooled));
        let curves = room.has(Feature::LinkCurves) && dice.one_in(3);
        let bare = !pooled_here && (curves && dice.one_in(2) || dice.one_in(8));
        let guaranteed = pooled_here || has / 1000 > 8_000 && dice.one_in(2);
        let weights: Vec<u64> = children
            .iter()
            .map(|_| if room.kind == Kind::Steady || dice.one_in(2) { dice.from(2, 8) } else { dice.spread(1, 500) })
            .collect();
        let of_all = weights.iter().sum::<u64>() + if dice.one_in(2) { 0 } else { dice.from(1, 6) };
        for (&place, weight) in children.iter().zip(weights) {
            let own = (has / of_all * weight).max(8_000);
            let equal = (has / children.len() as u64).max(8_000);
            let class = &mut classes[place];
            class.quote("name", &skeleton[place].0);
            if let Some(parent) = parent {
                class.quote("parent", &skeleton[parent].0);
            }
            rates[place] = if bare { equal } else { own };
            if guaranteed && !bare {
                class.quote("guarantee", format_args!("{}bit", has / of_all * weight));
            } else if !bare {
                class.set("weight", weight.to_string());
            }
            if curves {
                class.set("link_share", line(room.bps / 16 * dice.from(1, 8)));
            }
            if pooled == Some(place) {
                class.quote("pool", "pool");
            }
            limits(dice, class, room, rates[place], has);
            if is_leaf(skeleton, place) {
                leaf(dice, class, room, rates[place], curves && bare);
            }
        }
    }
    classes
}

fn line(bps: u64) -> String {
    format!("{{ rate = \"{bps}bit\" }}")
}

/// Adds settings that any class may have.
fn limits(dice: &mut SeededRng, class: &mut Entry, room: &Room, own: u64, has: u64) {
    if room.has(Feature::Ceiling) && dice.one_in(4) {
        class.quote("ceiling", format_args!("{}bit", own + has.saturating_sub(own) * dice.from(0, 10) / 10));
        if room.has(Feature::CeilingBurst) && dice.one_in(4) {
            class.quote("ceiling_burst", format_args!("{}B", room.mtu * dice.from(1, 30)));
        }
    } else if room.has(Feature::LinkCurves) && dice.one_in(4) {
        class.set("upper_limit", line(own + has.saturating_sub(own) * dice.from(0, 10) / 10));
    }
    if room.has(Feature::Priority) && dice.one_in(4) {
        class.set("priority", dice.from(0, 3).to_string());
    }
    if room.has(Feature::Borrowing) && dice.one_in(4) {
        class.set(dice.pick(&["bounded", "isolated"]), "true");
    }
}

/// Adds settings that only a leaf may have. `bare`: it may be of real-time only.
fn leaf(dice: &mut SeededRng, class: &mut Entry, room: &mut Room, own: u64, bare: bool) {
    let critical = room.has(Feature::LatencyCritical) && dice.one_in(4);
    if critical {
        class.set("latency_critical", "true");
    }
    let takes_burst = matches!(room.info.promises.delay, Some(Delay::LatencyRate(_) | Delay::Curves { .. }));
    let burst = if critical { room.has(Feature::LatencyBurst) } else { takes_burst || room.has(Feature::Burst) };
    if burst && dice.one_in(3) {
        class.quote("burst", format_args!("{}B", room.mtu * dice.from(2, 12) / 2));
    }
    if room.has(Feature::Quantum) && (room.quanta || dice.one_in(4)) {
        class.quote("quantum", format_args!("{}B", room.mtu * dice.from(2, 10) / 2));
    }
    if critical && room.has(Feature::Contract) && dice.one_in(2) {
        let most = if room.kind == Kind::Steady { room.total / 40 } else { 400_000 };
        let every = dice.from(most / 20 + 1, most + 1);
        let bytes = (own / 1000 * every / 8000 * dice.from(1, 4) / 4).max(room.mtu);
        class.set("contract", format!("{{ bytes = \"{bytes}B\", every = \"{every}us\" }}"));
    }
    if room.has(Feature::ServiceCurves) && dice.one_in(3) {
        real_time(dice, class, room, own, bare);
    }
    if room.has(Feature::MaxDelay) && dice.one_in(3) {
        class.quote("max_delay", format_args!("{}ms", dice.from(1, 80)));
    }
    if room.has(Feature::LeakyBucket) && dice.one_in(3) {
        let (burst, rate) = (room.mtu * dice.from(2, 8), own / 4 * dice.from(1, 3));
        let peak = rate * dice.from(1, 5);
        class.set("leaky_bucket", format!("{{ burst = \"{burst}B\", peak = \"{peak}bit\", rate = \"{rate}bit\" }}"));
    }
    if room.has(Feature::ActiveQueue) && !room.push_out && dice.one_in(4) {
        if dice.one_in(3) {
            class.quote("per", dice.pick(&["dst-ip", "flow"]));
            class.set("hosts", dice.from(2, 20).to_string());
        }
        let queue = dice.pick(&["fifo", "codel", "fq_codel"]);
        class.quote("queue", queue);
        if queue != "fifo" && dice.one_in(3) {
            class.set("ecn", "true");
        }
    }
    if room.kind == Kind::Wild && dice.one_in(3) {
        let packets = dice.spread(2, 80);
        class.quote("buffer", if dice.one_in(2) { format!("{packets}p") } else { format!("{}B", packets * room.mtu) });
    }
}

fn real_time(dice: &mut SeededRng, class: &mut Entry, room: &mut Room, own: u64, bare: bool) {
    // Under sced, a class without a curve has the line of its share: no class may request more.
    let lines = !room.has(Feature::LinkCurves);
    let most = if lines { own } else { room.real_time / 3 };
    let m2 = most / 10 * dice.from(1, 9);
    if m2 < room.bps / 100 {
        return;
    }
    let m1 = match dice.from(0, 2) {
        0 => m2,
        1 => 0,
        _ => m2 + (most - m2) / 10 * dice.from(1, 9),
    };
    room.real_time -= m1.max(m2).min(room.real_time);
    let m1 = if m1 == 0 { String::new() } else { format!("m1 = \"{m1}bit\", ") };
    // Rates in the long run are judged after a fifth of a steady run.
    let most = if room.kind == Kind::Steady { (room.total / 40).min(60_000) } else { 60_000 };
    class.set("real_time", format!("{{ {m1}d = \"{}us\", m2 = \"{m2}bit\" }}", dice.from(most / 60 + 1, most + 1)));
    if bare && dice.one_in(2) {
        class.0.retain(|(key, _)| *key != "link_share");
    }
}

/// Lengths of packets up to `room.longest`.
fn packet(dice: &mut SeededRng, room: &Room, fixed: bool) -> String {
    let longest = room.longest;
    match if fixed { dice.from(0, 2) } else { dice.from(0, 8) } {
        0 => format!("\"{longest}B\""),
        1 | 2 => format!("\"{}B\"", dice.from(longest / 5, longest)),
        3 => format!("\"{}B\"", dice.from(20, 90)),
        4 => format!("{{ uniform = [\"20B\", \"{}B\"], header = \"40B\" }}", longest - 40),
        5 => format!("{{ exponential = \"{}B\", min = \"40B\", max = \"{longest}B\" }}", longest / 4),
        6 if longest == 1500 => "\"imix\"".to_owned(),
        // Longer than the link takes, once its overhead is added.
        7 if longest < room.mtu => format!("{{ mix = [[\"{}B\", 1], [\"100B\", 5]] }}", room.mtu),
        _ => format!("{{ mix = [[\"64B\", 7], [\"{}B\", 4], [\"{longest}B\", 2]] }}", longest / 3),
    }
}

/// A source of a steady case: greedy, or of a constant rate. An active queue drops so much of a constant rate that it
/// may be empty at times, which no ideal models: such leaves have greedy sources.
fn steady_source(dice: &mut SeededRng, source: &mut Entry, class: &Entry, room: &Room) {
    let active = ["\"codel\"", "\"fq_codel\""].map(Some).contains(&class.get("queue"));
    if active || dice.one_in(2) {
        source.quote("model", "greedy");
    } else {
        source.quote("model", "cbr");
        source.quote("rate", format_args!("{}bit", room.bps / 100 * dice.from(2, 60)));
    }
    source.set("packet", packet(dice, room, true));
}

/// A source of any kind of a leaf that has `own` of the link when all are busy.
fn wild_source(dice: &mut SeededRng, source: &mut Entry, class: &Entry, room: &Room, own: u64) {
    let rate = |dice: &mut SeededRng| format!("{}bit", (own / 10 * dice.from(1, 40)).max(1000));
    source.set("packet", packet(dice, room, false));
    match dice.from(0, 10) {
        0..=2 => source.quote("model", "greedy"),
        3 => {
            source.quote("model", "cbr");
            source.quote("rate", format_args!("{}bit", (own / 10 * dice.from(1, 9)).max(1000)));
        }
        4 => {
            source.quote("model", "cbr");
            source.quote("rate", rate(dice));
            source.quote("burst", format_args!("{}p", dice.from(2, 20)));
        }
        5 => {
            source.quote("model", "poisson");
            source.quote("rate", rate(dice));
        }
        6 => {
            source.quote("model", dice.pick(&["on_off", "pareto_on_off"]));
            source.quote("rate", rate(dice));
            source.quote("on", format_args!("{}ms", dice.from(30, 80)));
            source.quote("off", format_args!("{}ms", dice.from(1, 40)));
        }
        7 => {
            source.quote("model", "tcp");
            source.quote("rtt", format_args!("{}ms", dice.from(1, 30)));
        }
        // The traffic of a bound: a burst and a rate.
        _ => {
            let burst = class.get("burst").and_then(|burst| burst.trim_matches('"').strip_suffix('B')?.parse().ok());
            let burst = burst.unwrap_or(room.mtu).max(room.mtu);
            source.quote("model", dice.pick(&["greedy", "poisson"]));
            if source.get("model") == Some("\"poisson\"") {
                source.quote("rate", rate(dice));
            }
            let part = dice.from(3, 10);
            source.set("shape", format!("{{ burst = \"{burst}B\", rate = \"{}bit\" }}", (own / 10 * part).max(1000)));
            if room.longest == room.mtu {
                source.0.retain(|(key, _)| *key != "packet");
                source.set("packet", format!("\"{}B\"", dice.from(room.mtu / 10, room.mtu)));
            }
        }
    }
}

/// A rate in the text of a class, about its rate when all are busy.
fn own_rate(tree: &Tree, place: usize, bps: u64) -> u64 {
    let class = &tree.classes[place];
    let parent = class.get("parent");
    let above = tree.classes.iter().position(|other| parent.is_some() && other.get("name") == parent);
    let has = above.map_or(bps, |above| own_rate(tree, above, bps));
    let siblings = || tree.classes.iter().filter(|other| other.get("parent") == parent);
    let number = |class: &Entry, key: &str| -> Option<u64> {
        class.get(key)?.trim_matches('"').trim_end_matches("bit").parse().ok()
    };
    let share = |class: &Entry| number(class, "guarantee").or_else(|| number(class, "weight")).unwrap_or(1);
    let all: u64 = siblings().map(share).sum();
    (u128::from(has) * u128::from(share(class)) / u128::from(all.max(1))) as u64
}

fn sources(
    dice: &mut SeededRng,
    tree: &Tree,
    skeleton: &Skeleton,
    room: &Room,
    (ends, total): (&[(usize, u64)], u64),
) -> Vec<Entry> {
    let mut all = Vec::new();
    // In some cases all sources stop before the end, so that the backlog has to drain.
    let stop = (room.kind == Kind::Wild && dice.one_in(3)).then(|| total * 3 / 4);
    for place in (0..skeleton.len()).filter(|&place| is_leaf(skeleton, place)) {
        let class = &tree.classes[place];
        let shared = class.get("per").is_some() || class.get("queue") == Some("\"fq_codel\"");
        let most = if shared { 4 } else { 1 + dice.from(0, 4) / 4 };
        let count = if dice.one_in(10) { 0 } else { dice.from(1, most) };
        for _ in 0..count {
            let mut source = Entry::default();
            source.quote("class", &skeleton[place].0);
            if room.kind == Kind::Steady {
                steady_source(dice, &mut source, class, room);
            } else {
                wild_source(dice, &mut source, class, room, own_rate(tree, place, room.bps));
                let gone = ends.iter().find(|(gone, _)| *gone == place).map(|&(_, at)| at);
                let end = [gone, stop, Some(total)].into_iter().flatten().min().unwrap_or(total);
                let start = if dice.one_in(4) { dice.from(0, end / 2) } else { 0 };
                if (start, end) != (0, total) {
                    source.set("active", format!("[\"{start}us..{end}us\"]"));
                }
            }
            all.push(source);
        }
    }
    if all.is_empty() {
        let place = (0..skeleton.len()).rfind(|&place| is_leaf(skeleton, place)).unwrap_or(0);
        let mut source = Entry::default();
        source.quote("class", &skeleton[place].0);
        source.quote("model", "cbr");
        source.quote("rate", format_args!("{}bit", room.bps / 50));
        source.set("packet", packet(dice, room, true));
        let end = ends.iter().find(|(gone, _)| *gone == place).map_or(total, |&(_, at)| at);
        source.set("active", format!("[\"0us..{end}us\"]"));
        all.push(source);
    }
    all
}

/// A change of the link: the same leaves or one fewer, under this or another scheduler.
fn change(dice: &mut SeededRng, skeleton: &Skeleton, total: u64) -> (Entry, Tree, Vec<(usize, u64)>) {
    let at = dice.from(total / 4, total / 2);
    let info = &SCHEDULERS[dice.from(0, SCHEDULERS.len() as u64 - 1) as usize];
    let mut head = Entry::default();
    head.quote("at", format_args!("{at}us"));
    head.quote("scheduler", info.name);
    let leaves = || (0..skeleton.len()).filter(|&place| is_leaf(skeleton, place));
    let last = leaves().next_back().filter(|&last| leaves().count() > 2 && last + 1 == skeleton.len());
    let alone = |last: usize| skeleton.iter().filter(|(_, parent)| *parent == skeleton[last].1).count() == 1;
    let gone: Vec<(usize, u64)> =
        last.filter(|&last| !alone(last) && dice.one_in(2)).map(|last| (last, at)).into_iter().collect();
    let mut kept: Skeleton = skeleton[..skeleton.len() - gone.len()].to_vec();
    if !info.supports(Feature::Hierarchy) {
        let flat = (0..kept.len()).filter(|&place| is_leaf(&kept, place)).map(|place| (kept[place].0.clone(), None));
        kept = flat.collect();
    }
    let (mut link, mut room) = link(dice, info, Kind::Wild);
    link.0.retain(|(key, _)| !["mtu", "overhead", "scheduler"].contains(key));
    link.quote("mtu", "9000B");
    (room.mtu, room.longest) = (9000, 9000);
    let classes = dress(dice, &kept, &mut room, None);
    (head, Tree { link, classes }, gone)
}

/// The case of that seed under `info`.
pub(crate) fn case(seed: u64, info: &'static SchedulerInfo) -> Case {
    let mut dice = SeededRng(ChaCha8Rng::seed_from_u64(seed));
    let kind = if dice.one_in(3) { Kind::Steady } else { Kind::Wild };
    let (link_entry, mut room) = link(&mut dice, info, kind);
    let pools = info.supports(Feature::Pool) && dice.one_in(6);
    let levels = if info.supports(Feature::Hierarchy) { dice.from(1, 5) } else { 1 };
    let bones = skeleton(&mut dice, levels, kind);
    let pooled = |bones: &Skeleton| bones.iter().position(|(_, parent)| parent.is_none()).filter(|_| pools);
    let classes = dress(&mut dice, &bones, &mut room, pooled(&bones));
    let tree = Tree { link: link_entry, classes };
    let total = room.total;
    let changed = (kind == Kind::Wild && !pools && dice.one_in(5)).then(|| change(&mut dice, &bones, total));
    let ends = changed.as_ref().map_or(Vec::new(), |(.., gone)| gone.clone());
    let mut all = sources(&mut dice, &tree, &bones, &room, (&ends, total));
    let mut top = Entry::default();
    top.quote("duration", format_args!("{total}us"));
    top.set("seed", dice.from(1, 1_000_000).to_string());
    let mut peer = None;
    if pools || changed.is_none() && dice.one_in(16) {
        let (mut entry, mut room) = link(&mut dice, info, kind);
        entry.0.retain(|(key, _)| *key != "scheduler");
        let bones = skeleton(&mut dice, levels, kind);
        let classes = dress(&mut dice, &bones, &mut room, pooled(&bones));
        let tree = Tree { link: entry, classes };
        let mut more = sources(&mut dice, &tree, &bones, &room, (&[], total));
        more.iter_mut().for_each(|source| source.quote("link", "peer"));
        all.extend(more);
        peer = Some(tree);
    }
    let pool = pools.then(|| {
        let base = |tree: &Tree| -> u64 {
            let class = tree.classes.iter().find(|class| class.get("pool").is_some());
            class
                .and_then(|class| class.get("guarantee")?.trim_matches('"').strip_suffix("bit")?.parse().ok())
                .unwrap_or(0)
        };
        let sum = base(&tree) + peer.as_ref().map_or(0, base);
        let mut pool = Entry::default();
        pool.quote("name", "pool");
        pool.quote("rate", format_args!("{}bit", sum / 10 * dice.from(10, 25) + 10));
        pool.quote("burst", "10kB");
        pool.quote("rule", dice.pick(&["exact", "ratio", "greedy"]));
        pool
    });
    let change = changed.map(|(head, tree, _)| (head, tree));
    Case { kind, scheduler: info.name, top, tree, sources: all, change, peer, pool }
}
